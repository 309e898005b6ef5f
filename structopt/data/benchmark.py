"""Public benchmark sets from a folder of npz files beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

__all__ = ["benchmark_folder", "load_benchmark"]

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


def benchmark_folder(folder: str | Path | None = None) -> Path:
    """Where the sets are: the argument, the environment variable STRUCTOPT_DATA, or ``../shared/data``."""
    return Path(folder or os.environ.get("STRUCTOPT_DATA") or _BESIDE)


def load_benchmark(name: str, split: str = "train", *, folder: str | Path | None = None) -> Bunch:
    """One split of a benchmark set.

    Parameters
    ----------
    name : str
        The set's folder: ``"yeast"``, ``"enron_hmc"``, ``"pheno_fun"``, ...
    split : str
        ``"train"``, ``"test"``, and for some sets ``"valid"``, ``"trainvalid"``, ``"all"``.
    folder : path, optional
        See `benchmark_folder`.

    Returns
    -------
    Bunch
        ``X`` (CSR, float64; missing numbers are stored NaN), ``y`` (0/1 rows or a class per row), ``label_names``,
        ``feature_names`` and any other array of the file under its own name. Sets with a hierarchy have ``hierarchy``,
        and the columns of ``y`` and ``label_names`` in the order of ``hierarchy.nodes``.
    """
    path = benchmark_folder(folder) / name
    if not path.is_dir():
        raise DeclarationError(
            f"There is no benchmark set {name!r} in {path.parent}; set STRUCTOPT_DATA to the folder that holds it, or "
            "give folder=."
        )
    file = path / f"{split}.npz"
    if not file.is_file():
        known = sorted(found.stem for found in path.glob("*.npz") if found.stem != "meta")
        raise DeclarationError(f"{name!r} has no split {split!r}; it has {', '.join(known) or 'no npz files'}.")
    data = _arrays(file) | (_arrays(path / "meta.npz") if (path / "meta.npz").is_file() else {})
    if "X_data" in data:
        parts = tuple(data.pop(f"X_{part}") for part in ("data", "indices", "indptr"))
        data["X"] = sp.csr_array(parts, shape=tuple(data.pop("X_shape"))).astype(np.float64)
    if "Y" in data:
        data["y"] = data.pop("Y")
    if "edges" in data:
        _order_by_hierarchy(data)
    return Bunch(name=name, split=split, **data)


def _arrays(file: Path) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def _order_by_hierarchy(data: dict[str, Any]) -> None:
    names = data["label_names"].tolist()
    edges = data.pop("edges")
    hierarchy = Hierarchy([(names[p], names[c]) for p, c in edges.tolist()], nodes=names)
    column = {name: k for k, name in enumerate(names)}
    order = np.array([column[name] for name in hierarchy.nodes])
    data["hierarchy"], data["y"] = hierarchy, data["y"][:, order]
    data["label_names"] = data["label_names"][order]

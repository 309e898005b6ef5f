"""Public benchmark sets from a folder of npz files beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

from sklearn.utils import Bunch

from structopt.checks import checked
from structopt.data.npz import read_npz
from structopt.errors import DeclarationError

__all__ = ["benchmark_folder", "load_benchmark"]

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


@checked
def benchmark_folder(folder: str | Path | None = None) -> Path:
    """Where the sets are: the argument, the environment variable STRUCTOPT_DATA, or ``../shared/data``.

    Parameters
    ----------
    folder : path, optional

    Returns
    -------
    Path
    """
    return Path(folder or os.environ.get("STRUCTOPT_DATA") or _BESIDE)


@checked
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
    return Bunch(name=name, split=split, **read_npz(file))

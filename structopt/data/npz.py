"""Data sets as npz files: a CSR matrix in parts (or a dense one), labels, and what else the file holds."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from structopt.data._files import existing
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

__all__ = ["read_npz"]


def read_npz(path: str | Path) -> Bunch:
    """Read an npz file, and ``meta.npz`` beside it if there is one; nothing is unpickled.

    Parameters
    ----------
    path : path
        A file with ``X``, or ``X_data, X_indices, X_indptr, X_shape`` of a CSR matrix; ``Y`` (0/1 rows) or ``y``; and,
        here or in ``meta.npz``, ``label_names``, ``feature_names``, ``edges`` (pairs parent, child of label numbers).

    Returns
    -------
    Bunch
        ``X`` (float64; missing numbers are NaN), ``y`` and any other array of the files under its own name. With
        ``edges`` there is ``hierarchy``, and ``y`` and ``label_names`` are in the order of ``hierarchy.nodes``.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.npz"
    >>> np.savez(path, X=np.eye(2), Y=np.array([[1, 1], [0, 1]]), label_names=["cat", "animal"], edges=[[1, 0]])
    >>> data = read_npz(path)
    >>> data.label_names.tolist(), data.y.tolist()
    (['animal', 'cat'], [[1, 1], [1, 0]])
    """
    path = existing(path)
    meta = path.with_name("meta.npz")
    data = _arrays(path) | (_arrays(meta) if meta.is_file() else {})
    if "X_data" in data:
        parts = tuple(data.pop(f"X_{part}") for part in ("data", "indices", "indptr"))
        data["X"] = sp.csr_array(parts, shape=tuple(data.pop("X_shape"))).astype(np.float64)
    if "Y" in data:
        data["y"] = data.pop("Y")
    if "edges" in data:
        _order_by_hierarchy(data)
    return Bunch(**data)


def _arrays(file: Path) -> dict[str, Any]:
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (ValueError, OSError, zipfile.BadZipFile, AttributeError) as error:
        raise DeclarationError(f"{str(file)!r} is not an npz file of plain arrays: {error}") from error


def _order_by_hierarchy(data: dict[str, Any]) -> None:
    names = data["label_names"].tolist()
    edges = data.pop("edges")
    hierarchy = Hierarchy([(names[p], names[c]) for p, c in edges.tolist()], nodes=names)
    column = {name: k for k, name in enumerate(names)}
    order = np.array([column[name] for name in hierarchy.nodes])
    data["hierarchy"], data["y"] = hierarchy, data["y"][:, order]
    data["label_names"] = data["label_names"][order]

"""Data sets as npz files: a CSR matrix in parts (or a dense one), labels, and what else the file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from structopt._archive import UNREADABLE, read_arrays
from structopt.data._files import existing
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

__all__ = ["read_npz"]


def read_npz(path: str | Path, *, max_bytes: int | None = None) -> Bunch:
    """Read an npz file, and ``meta.npz`` beside it if there is one; nothing is unpickled.

    Parameters
    ----------
    path : path
        A file with ``X``, or ``X_data, X_indices, X_indptr, X_shape`` of a CSR matrix; ``Y`` (0/1 rows) or ``y``; and,
        here or in ``meta.npz``, ``label_names``, ``feature_names``, ``edges`` (pairs parent, child of label numbers).
    max_bytes : int, optional
        Refuse a file whose arrays unpack to more; by default one GiB and fifty times the size of the file.

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
    data = _arrays(path, max_bytes) | (_arrays(meta, max_bytes) if meta.is_file() else {})
    try:
        if "X_data" in data:
            parts = tuple(data.pop(f"X_{part}") for part in ("data", "indices", "indptr"))
            X = sp.csr_array(parts, shape=tuple(data.pop("X_shape").tolist())).astype(np.float64)
            X.check_format(full_check=True)  # compiled code indexes memory by its entries
            data["X"] = X
        if "Y" in data:
            data["y"] = data.pop("Y")
        if "edges" in data:
            _order_by_hierarchy(data)
    except UNREADABLE as error:
        raise DeclarationError(
            f"{str(path)!r} does not hold a data set: {type(error).__name__}: {error}. It needs X, or X_data, "
            "X_indices, X_indptr and X_shape of a CSR matrix; with edges also label_names and Y."
        ) from error
    return Bunch(**data)


def _arrays(file: Path, max_bytes: int | None) -> dict[str, Any]:
    try:
        return dict(read_arrays(file, max_bytes))
    except UNREADABLE as error:
        raise DeclarationError(f"{str(file)!r} is not an npz file of plain arrays: {error}") from error


def _order_by_hierarchy(data: dict[str, Any]) -> None:
    names = data["label_names"].tolist()
    edges = data.pop("edges")
    if edges.size and not 0 <= edges.min() <= edges.max() < len(names):
        raise DeclarationError(f"edges must hold label numbers 0..{len(names) - 1}")
    hierarchy = Hierarchy([(names[p], names[c]) for p, c in edges.tolist()], nodes=names)
    column = {name: k for k, name in enumerate(names)}
    order = np.array([column[name] for name in hierarchy.nodes])
    data["hierarchy"], data["y"] = hierarchy, data["y"][:, order]
    data["label_names"] = data["label_names"][order]

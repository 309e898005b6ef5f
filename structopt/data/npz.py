"""Data sets in npz files: a dense matrix or the arrays of a CSR matrix, labels, and any other arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from structopt._archive import UNREADABLE, read_arrays
from structopt.checks import checked
from structopt.data._files import existing, short_indices
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

__all__ = ["read_npz"]


@checked
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
    if "X_data" in data:
        data["X"] = _sparse(data, path.name)
    if "Y" in data:
        data["y"] = data.pop("Y")
    for key in ("X", "y"):
        if key in data and not data[key].shape:
            raise DeclarationError(f"{path.name}: {key} is a single number, not an array.")
    if "edges" in data:
        _order_by_hierarchy(data, path.name)
    return Bunch(**data)


def _arrays(file: Path, max_bytes: int | None) -> dict[str, Any]:
    try:
        return dict(read_arrays(file, max_bytes))
    except PermissionError:
        raise
    except UNREADABLE as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise DeclarationError(f"{str(file)!r} is not an npz file of plain arrays: {text}") from error


def _sparse(data: dict[str, Any], where: str) -> sp.csr_array:
    """The matrix of the four arrays; every index is checked, as products with the matrix would read past its end."""
    missing = [f"X_{part}" for part in ("indices", "indptr", "shape") if f"X_{part}" not in data]
    if missing:
        raise DeclarationError(
            f"{where} has X_data and no {missing[0]}; a CSR matrix is data, indices, indptr and shape."
        )
    parts = tuple(data.pop(f"X_{part}") for part in ("data", "indices", "indptr"))
    shape = data.pop("X_shape")
    try:
        if (
            shape.shape != (2,)
            or any(part.ndim != 1 for part in parts)
            or any(part.dtype.kind not in "iu" for part in parts[1:])
        ):
            raise ValueError("one of its arrays has another shape or type")
        found = sp.csr_array(parts, shape=tuple(int(length) for length in shape))
        found.check_format(full_check=True)
        return short_indices(found.astype(np.float64))
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise DeclarationError(
            f"{where}: X_data, X_indices, X_indptr and X_shape are not a CSR matrix: {error}."
        ) from error


def _order_by_hierarchy(data: dict[str, Any], where: str) -> None:
    edges = data.pop("edges")
    absent = [key for key in ("label_names", "y") if key not in data]
    if absent:
        raise DeclarationError(f"{where} has edges and no {'Y' if absent[0] == 'y' else absent[0]}.")
    names = data["label_names"].tolist()
    if not isinstance(names, list) or data["y"].ndim != 2 or data["y"].shape[1] != len(names):
        raise DeclarationError(f"{where}: Y has shape {data['y'].shape}; edges need a column for each of label_names.")
    whole = edges.ndim == 2 and edges.shape[1] == 2 and edges.dtype.kind in "iu"
    if not whole or (edges < 0).any() or (edges >= len(names)).any():
        raise DeclarationError(f"{where}: edges are pairs (parent, child) of numbers below {len(names)}.")
    try:
        hierarchy = Hierarchy([(names[p], names[c]) for p, c in edges.tolist()], nodes=names)
    except DeclarationError as error:
        raise DeclarationError(f"{where}: {error}") from error
    column = {name: k for k, name in enumerate(names)}
    order = np.array([column[name] for name in hierarchy.nodes])
    data["hierarchy"], data["y"] = hierarchy, data["y"][:, order]
    data["label_names"] = data["label_names"][order]

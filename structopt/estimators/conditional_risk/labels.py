"""The labels of a data set as points of one space.

Training does not use the labels, so that checking them must take little time even for long labels. Tables of numbers
are checked as a whole; only labels that are not numbers, and tables with an error, are read one by one, so that the
error can name the example.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.errors import DeclarationError, StructoptError
from structopt.features import n_examples
from structopt.model import Model
from structopt.model.codec import refusal
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.feasibility import rows_in
from structopt.space.tolerance import broken_bounds, broken_rows
from structopt.structures.node_labels import LabelCodec

__all__ = ["all_closed", "dense", "encode_labels", "same"]

BoolArray = npt.NDArray[np.bool_]


def encode_labels(model: Model, template: Any, Y: Any, n: int) -> Any:
    """The labels as points, ``(n, n_variables)``; all that are not in the space are reported together.

    Parameters
    ----------
    model : Model
    template : object
        An input with the label space that all examples share.
    Y : sequence of labels, or table with a row for each
    n : int
        Number of inputs.

    Returns
    -------
    ndarray or csr_array
        Numbers of any kind; `dense` makes them floats.
    """
    if n_examples(Y) != n:
        raise DeclarationError(f"{n} inputs but {n_examples(Y)} labels.")
    Y = Y.to_numpy() if hasattr(Y, "to_numpy") else Y  # a pandas table
    codec = getattr(model, "codec", None)
    if isinstance(codec, LabelCodec):
        rows = _closed_rows(codec, Y)
        return codec.encode_many(Y, n) if rows is None else rows
    points = _feasible_rows(model, template, Y)
    return _one_by_one(model, template, Y, n) if points is None else points


def _one_by_one(model: Model, template: Any, Y: Any, n: int) -> FloatArray:
    rows = Y.toarray() if sp.issparse(Y) else Y
    points, refused = [], dict[int, StructoptError]()
    for i in range(n):
        try:
            points.append(model.encode(rows[i], template))
        except StructoptError as error:
            refused[i] = error
    if refused:
        raise refusal(refused, n)
    return np.array(points)


def _is_table(Y: Any) -> bool:
    return isinstance(Y, np.ndarray) and Y.ndim >= 2 and Y.dtype.kind in "biuf"


def _zero_one(Y: Any) -> BoolArray | None:
    """A table of zeros and ones, as truth values; None if it holds any other number."""
    on = np.ascontiguousarray(Y != 0)
    return on if np.count_nonzero(on) == np.count_nonzero(Y == 1) else None


def _closed_rows(codec: LabelCodec, Y: Any) -> BoolArray | None:
    """A 0/1 table of nodes with all their ancestors; None if it is anything else."""
    h = codec.hierarchy
    if type(codec) is not LabelCodec or codec.kind != "closure" or not _is_table(Y) or Y.shape[1:] != (len(h),):
        return None
    on = _zero_one(Y)
    return on if on is not None and all_closed(on, h.parent_ptr, h.parent) else None


def _feasible_rows(model: Model, template: Any, Y: Any) -> BoolArray | FloatArray | None:
    """A table of points of the space; None if a label is not numeric, or not in the space."""
    if type(model).encode is not Model.encode or model._encode is not None:
        return None
    rows = Y.toarray() if sp.issparse(Y) else Y
    space = model.space(template)
    if not _is_table(rows) or rows.shape[1:] not in ((space.n_variables,), next(iter(space)).shape):
        return None
    points = rows.reshape(len(rows), -1)
    if points.shape[1] != space.n_variables:
        return None
    compiled = space.compiled
    free = compiled.is_binary.all() and not compiled.lower.any() and (compiled.upper == 1).all()
    on = _zero_one(points) if free else None
    points = np.array(points, dtype=np.float64) if on is None else on
    return points if _all_feasible(compiled, points) else None


def _all_feasible(space: CompiledSpace, points: BoolArray | FloatArray) -> bool:
    """`structopt.space.feasibility.contains` for all rows at once."""
    tol = FEASIBILITY_TOLERANCE
    if space.separations:
        return bool(np.isfinite(points).all() and rows_in(space, points.astype(np.float64)).all())
    if points.dtype != np.bool_:  # truth values are within 0/1 bounds
        # Numbers that are not finite are reported by the reading one by one.
        if not np.isfinite(points).all():
            return False
        if broken_bounds(np.asarray(points, dtype=np.float64), space.integrality, space.lower, space.upper, tol).any():
            return False
        integer = points[:, space.integrality]
        if (np.abs(integer - np.rint(integer)) > tol).any():
            return False
    if not space.n_rows:
        return True
    Z = points.astype(np.float64)
    return not broken_rows(space.matrix, space.row_lower, space.row_upper, Z, tol, space.row_units).any()


def dense(truths: Any) -> FloatArray:
    """Points as a table of floats."""
    return np.asarray(truths.toarray() if sp.issparse(truths) else truths, dtype=np.float64)


def same(a: Any, b: Any) -> bool:
    """Whether two sets of inputs, or of labels, are equal; tables may be dense or sparse."""
    if sp.issparse(a) != sp.issparse(b) and hasattr(a, "shape") and hasattr(b, "shape"):
        a, b = dense(a), dense(b)
    if sp.issparse(a):
        return bool(a.shape == b.shape and (a != b).nnz == 0)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return a is b


@kernel
def all_closed(rows: npt.NDArray[np.bool_], parent_ptr: IntArray, parent: IntArray) -> bool:
    """Whether in every row all parents of a node that is on are on.

    Examples
    --------
    The path 0 - 1 - 2:

    >>> ptr, parent = np.array([0, 0, 1, 2]), np.array([0, 1])
    >>> all_closed(np.array([[True, True, False], [False, False, False]]), ptr, parent)
    True
    >>> all_closed(np.array([[True, False, True]]), ptr, parent)
    False
    """
    n_rows, n_nodes = rows.shape
    for i in range(n_rows):
        for j in range(n_nodes):
            if rows[i, j]:
                for k in range(parent_ptr[j], parent_ptr[j + 1]):
                    if not rows[i, parent[k]]:
                        return False
    return True

"""Permutations and matchings: every row gets its own column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.algorithms.assignment import AssignmentParts, best_columns, complete_matching, matrix_of
from structopt.algorithms.parts import PartSolver
from structopt.checks import checked, floats, numeric, reshaped, shown
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Shared, check_data_set
from structopt.losses import TaskLoss
from structopt.model.block_losses import BlockLosses
from structopt.model.data_set import DataSet
from structopt.model.slots import SlotMap, SlotModel, stacked_numbers
from structopt.recognize import Record
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["Assignment", "RowLoss"]

_KINDS = ("hamming", "footrule")


class RowLoss(TaskLoss):
    """The rows of a 0/1 matrix with a wrong column, or the distances of columns (Spearman's footrule).

    The footrule, the sum of ``|y_i - truth_i|`` over the rows, is for labels that match every row. For the number of
    wrong rows, unmatched is a column of its own. ``normalize=True`` divides by the number of rows.
    """

    @checked
    def __init__(self, shape: tuple[int, int], kind: str = "hamming", normalize: bool = False) -> None:
        if kind not in _KINDS:
            raise DeclarationError(
                f"The loss of a matching is one of {', '.join(_KINDS)}, or a TaskLoss; got {kind!r}."
            )
        self.shape = shape
        self.kind = kind
        self.normalize = normalize
        self._scale = 1.0 / shape[0] if normalize else 1.0

    def _columns(self, matrix: npt.ArrayLike) -> IntArray:
        table = np.asarray(matrix, dtype=np.float64).reshape(self.shape)
        columns = np.where(table.any(axis=1), table.argmax(axis=1), -1)
        if self.kind == "footrule" and (columns < 0).any():
            raise DeclarationError(
                f"Row {int(np.argmin(columns))} is unmatched, so that the footrule is not defined; use 'hamming'."
            )
        return columns

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        self._columns(truth)  # the footrule refuses unmatched rows
        return self.expected(truth)

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        tables = np.asarray(truths, dtype=np.float64).reshape(-1, *self.shape)
        undefined = self.kind == "footrule" and not tables.any(axis=2).all()
        if undefined or type(self).linear is not RowLoss.linear:
            return super().linear_batch(truths)
        return self._forms(tables)

    def _forms(self, tables: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.kind == "footrule":
            columns = np.arange(self.shape[1])
            distances = tables @ np.abs(columns[:, None] - columns).astype(np.float64)
            return self._scale * distances.reshape(len(tables), -1), np.zeros(len(tables))
        # A matched row is right or wrong; a row that should stay free is wrong with any column.
        coef = 1.0 - tables.sum(axis=2, keepdims=True) - tables
        return self._scale * coef.reshape(len(tables), -1), self._scale * tables.sum(axis=(1, 2))

    def _linear_ones(self, ones: IntArray, n: int, size: int) -> tuple[FloatArray, FloatArray] | None:
        matched = len(ones) == n * self.shape[0]
        if self.kind == "footrule" or not matched or type(self).linear is not RowLoss.linear:
            return None
        coef = np.zeros(n * size)
        coef[ones] = -self._scale
        return coef, np.full(n, self._scale * self.shape[0])

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float]:
        coef, const = self._forms(np.asarray(mean, dtype=np.float64).reshape(1, *self.shape))
        return coef[0], float(const[0])

    def counted(self, size: int) -> FloatArray | None:
        return np.ones(size) if self.kind == "hamming" and not self.normalize else None

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        found, wanted = self._columns(y), self._columns(truth)
        errors = np.abs(found - wanted) if self.kind == "footrule" else found != wanted
        return self._scale * float(errors.sum())


class Assignment(SlotModel):
    """Matchings of the n rows of an input with its m columns: alignments, permutations, graph matching.

    An input is an array ``(n, m, d)`` of pair features, or a CSR matrix of the ``n m`` rows in that order (then n = m
    unless `n` is given). A label is an array of the column of each row, -1 for a row without one. All pairs share one
    weight vector. The constraint matrix is that of a bipartite graph: its LP relaxation is integral.

    Parameters
    ----------
    n : int, optional
        Number of rows that every input must have; any by default.
    unmatched : bool
        Whether rows may stay without a column (-1). Otherwise every row has one, which needs n <= m.
    loss : {"hamming", "footrule"} or TaskLoss
        `RowLoss` of this kind, or a loss on the 0/1 matrix.
    normalize : bool
        Divide the loss by the number of rows.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Notes
    -----
    Solved by shortest augmenting paths. Where n = m, column prices are kept per example and make a call
    with drifted scores cheaper; its value does not depend on them, but among labels of equal value its choice may.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> model = so.structures.Assignment()
    >>> scores = np.array([[3.0, 1, 2], [2, 4, 6], [0, 2, 5]])
    >>> model.predict([1.0], scores[:, :, None])
    array([0, 1, 2])
    """

    _key_is_proved = True

    @checked
    def __init__(
        self,
        n: int | None = None,
        unmatched: bool = False,
        loss: str | TaskLoss = "hamming",
        normalize: bool = False,
        intercept: bool = False,
        solver: Any = "auto",
    ) -> None:
        self.n = n
        self.unmatched = unmatched
        self.normalize = normalize
        self.intercept = intercept
        if n is not None and n < 1:
            raise DeclarationError(f"Assignment needs at least one row, got n = {n}.")
        if not isinstance(loss, TaskLoss):
            RowLoss((1, 1), loss)  # an unknown name is refused here
            if loss == "footrule" and unmatched:
                raise DeclarationError("The footrule is not defined for unmatched rows; use loss='hamming'.")
        self._kind = loss
        super().__init__(
            self._program,
            {"y": Shared(intercept=intercept)},
            key=self._shape,
            solver=solver,
            record=self._record_of,
        )

    def _shape(self, x: Any) -> tuple[int, int]:
        """Return the rows and columns of an input; a pair of integers stands for itself."""
        if isinstance(x, tuple) and len(x) == 2 and all(isinstance(k, int | np.integer) for k in x):
            rows, columns = int(x[0]), int(x[1])
        else:
            rows, columns = self._array_shape(x)
        if self.n is not None and rows != self.n:
            raise DeclarationError(f"An input has {rows} rows; this model was made for n = {self.n}.")
        if rows > columns and not self.unmatched:
            raise DeclarationError(
                f"{rows} rows cannot each have one of {columns} columns; swap the two axes, or allow unmatched=True."
            )
        return rows, columns

    def _array_shape(self, x: Any) -> tuple[int, int]:
        shape = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
        if sp.issparse(x) and len(shape) == 2:
            rows = math.isqrt(shape[0]) if self.n is None else self.n
            if rows and shape[0] % rows == 0 and (self.n is not None or rows * rows == shape[0]):
                return rows, shape[0] // rows
        elif len(shape) == 3 and shape[0] and shape[1]:
            return shape[0], shape[1]
        raise DeclarationError(
            f"An input of Assignment has shape (n, m, d), or is a sparse matrix of n m rows; got {shape}."
        )

    def _program(self, x: Any) -> LabelSpace:
        rows, columns = self._shape(x)
        space = LabelSpace(f"matchings of {rows} rows with {columns} columns")
        y = space.binary("y", (rows, columns))
        of_row, of_column = y.sum(axis=1), y.sum(axis=0)
        space.subject_to(of_row <= 1 if self.unmatched else of_row == 1, name="row")
        whole = rows == columns and not self.unmatched
        space.subject_to(of_column == 1 if whole else of_column <= 1, name="column")
        return space

    def _record_of(self, x: Any) -> Record:
        return complete_matching(*self._shape(x), self.unmatched)

    def block_losses(self, x: Any = None) -> BlockLosses:
        """The loss of the one block, which depends on its shape."""
        space = self.space(x)
        rows, columns = space["y"].shape
        return BlockLosses(space, {"y": self._task_of((rows, columns))})

    def _task_of(self, size: tuple[int, int]) -> TaskLoss:
        if isinstance(self._kind, TaskLoss):
            return self._kind
        return RowLoss(size, self._kind, self.normalize)

    def _slots_of(self, label: Any, size: tuple[int, int]) -> IntArray:
        """Return the columns of a label for a table of this shape, or raise `LabelNotInSpace` naming the culprit."""
        try:
            given = numeric("A label", label)
        except DeclarationError:
            raise LabelNotInSpace(f"A label is an array of columns, one per row; got {shown(label)}.") from None
        rows, width = size
        if given.shape != (rows,) or given.dtype.kind not in "iuf":
            raise LabelNotInSpace(
                f"A label is an array of {rows} columns, one per row; got {given.dtype} {given.shape}."
            )
        lowest = -1 if self.unmatched else 0
        wrong = np.flatnonzero(~((given >= lowest) & (given < width) & (given == np.rint(given))))
        if wrong.size:
            i = int(wrong[0])
            cure = "; unmatched=True allows -1" if given[i] == -1 else ""
            raise LabelNotInSpace(
                f"Row {i} has column {given[i]}; columns are {lowest} to {width - 1}{cure}.", (f"row[{i}]",)
            )
        columns = np.ascontiguousarray(given, dtype=np.int64)
        used = np.bincount(columns[columns >= 0], minlength=width)
        if used.size and used.max() > 1:
            k = int(used.argmax())
            i, j = np.flatnonzero(columns == k)[:2].tolist()
            what = "permutation" if rows == width and not self.unmatched else "matching"
            raise LabelNotInSpace(f"Not a {what}: rows {i} and {j} both have column {k}.", (f"column[{k}]",))
        return columns

    def _shape_for(self, label: Any, x: Any) -> tuple[int, int]:
        if x is not None:
            return self._shape(x)
        given = np.asarray(label).ravel()
        return len(given), max(len(given), int(given.max(initial=0)) + 1 if given.dtype.kind in "iu" else 0)

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The 0/1 matrix of a matching, flat. Without an input the matrix is taken to be square if it can be."""
        shape = self._shape_for(label, x)
        return matrix_of(self._slots_of(label, shape), shape).ravel()

    def decode(self, z: npt.ArrayLike, x: Any = None) -> IntArray:
        """The column of each row; for a fractional point, the matching that agrees with it most."""
        point = floats("z", z, ndim=1)
        shape = self._shape(x) if x is not None else (math.isqrt(point.size),) * 2 if self.n is None else (self.n, -1)
        table = reshaped("z", point, shape)
        if np.abs(table - np.rint(table)).max() < 1e-6:
            return np.where(table.max(axis=1) > 0.5, table.argmax(axis=1), -1)
        # The remainder of a row to 1 is the share of leaving it unmatched.
        free = 1.0 - table.sum(axis=1, keepdims=True) if self.unmatched else 0.0
        return np.asarray(best_columns((table - free)[None], self.unmatched)[0][0])

    def loss(self, label: Any, x: Any = None) -> tuple[FloatArray, float]:
        """Coefficients and constant of the task loss of this ground truth."""
        return self._loss_at(self.encode(label, x), self._shape_for(label, x))

    def _sizes(self, X: Any) -> IntArray:
        # Rows and columns of the inputs.
        check_data_set(X)
        return np.array([self._shape(x) for x in X], dtype=np.int64).reshape(-1, 2)

    def _rows_of_sizes(self, sizes: IntArray) -> IntArray:
        # A feature row for every pair.
        return np.asarray(sizes.prod(axis=1), dtype=np.int64)

    # ---- columns of a data set -------------------------------------------------------------------

    def _slot_map(self, data: DataSet) -> SlotMap:
        shapes = cast("IntArray", data.sizes)
        ptr = np.concatenate([[0], np.cumsum(shapes[:, 0])]).astype(np.int64)
        example = np.repeat(np.arange(data.n), shapes[:, 0])
        row = np.arange(ptr[-1]) - ptr[example]
        base = (data.starts[0][example] + row * shapes[example, 1]).astype(np.int64)
        return SlotMap(ptr, base, np.ones_like(base), 1, [*zip(*shapes.T.tolist(), strict=True)])

    def _all_slots(self, Y: Any, ptr: IntArray, sizes: Sequence[tuple[int, int]]) -> IntArray | None:
        flat = stacked_numbers(Y, ptr)
        if flat is None or flat.ndim != 1:
            return None
        columns, widths = flat.astype(np.int64, copy=False), np.array(sizes)[:, 1]
        return columns if _are_matchings(columns, ptr, widths, self.unmatched) else None

    def _slots_at(self, Z: Iterable[Any], sizes: Sequence[tuple[int, int]]) -> IntArray:
        return np.concatenate([self.decode(np.asarray(z), size) for z, size in zip(Z, sizes, strict=True)])

    def _part_solver(self, data: DataSet) -> PartSolver:
        # Shortest augmenting paths, shape by shape.
        return AssignmentParts(cast("IntArray", data.sizes), self.unmatched)

    def __repr__(self) -> str:
        parts = [] if self.n is None else [f"n={self.n}"]
        parts += [f"{name}=True" for name in ("unmatched", "normalize", "intercept") if getattr(self, name)]
        parts += [f"loss={self._kind!r}"] if self._kind != "hamming" else []
        return f"Assignment({', '.join(parts)})"


@kernel
def _are_matchings(columns: IntArray, ptr: IntArray, widths: IntArray, unmatched: bool) -> bool:
    """Whether no two rows of an example have the same column, and all columns exist."""
    row_of = np.full(widths.max(), -1, np.int64)
    for i in range(widths.size):
        for s in range(ptr[i], ptr[i + 1]):
            k = columns[s]
            if k == -1 and unmatched:
                continue
            if k < 0 or k >= widths[i] or row_of[k] >= ptr[i]:
                return False
            row_of[k] = s
    return True

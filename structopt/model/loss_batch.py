"""`LossBatch`: the linear task losses of the examples of a data set, by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt._jit.segments import segment_sums
from structopt.model.part_tables import fill_steps
from structopt.space.compiled import FloatArray

__all__ = ["Counts", "Entries", "LossBatch", "SparseRows", "Weight", "common_steps", "counts_of", "ranges"]

#: Weight of the loss: one number, or one for each example of the data set.
Weight = float | FloatArray

# A row that all examples share is on a lattice if it has at most this many different entries.
_MOST_ENTRIES = 64
# Entries of sparse rows that are made at a time if they are not stored.
_MADE_ENTRIES = 1 << 21
_FIRST_KIND = np.zeros(1, dtype=np.int64)


class SparseRows(Protocol):
    """Sparse rows that are made when they are needed."""

    shape: tuple[int, int]

    def __getitem__(self, some: IntArray, /) -> sp.csr_array: ...


class Entries(NamedTuple):
    """Labels as entries of a `LossBatch`: those of example i are ``ptr[i]:ptr[i + 1]``.

    Attributes
    ----------
    ptr : ndarray of int, shape (n + 1,)
    columns : ndarray of int
        The column of each entry, -1 if it counts nothing. If the coefficients are flat, the number of the part.
    rows : ndarray of int, optional
        The row of each entry; by default entry r is in row r.
    """

    ptr: IntArray
    columns: IntArray
    rows: IntArray | None = None


@dataclass(frozen=True, eq=False)
class LossBatch:
    """The linear task loss of every example: a constant and coefficients of the parts of labels.

    Row r has the coefficients ``own[r] + shared[kind[r]] + sparse[r]``. Each of the three may be missing.

    Attributes
    ----------
    own : ndarray or None
        A row of coefficients per row of parts. A flat array has one coefficient per part.
    const : ndarray, shape (n,)
    ptr : ndarray of int, shape (n + 1,), optional
        The rows of example i are ``ptr[i]:ptr[i + 1]``. By default every example has one row.
    shared : ndarray, shape (n_kinds, n_columns), optional
    kind : ndarray of int, optional
        The row of `shared` for each row; by default the first.
    sparse : csr_array or SparseRows, optional
    outer : (ndarray, ndarray), optional
        Two numbers ``(a, b)`` per row. Row r then has the coefficient ``-a[r] * b[s]`` for each row s of its example.
    also : (LossBatch, ndarray), optional
        Another loss of the same layout, and its factor for each example.

    Examples
    --------
    >>> loss = LossBatch(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([3.0, 4.0]))
    >>> loss.added(np.ones((2, 2)), None, 10.0)
    array([[ 1., 11.],
           [21.,  1.]])
    >>> loss.values(np.eye(2))
    array([3., 4.])
    >>> both = loss.plus(loss, np.array([1.0, -1.0]))
    >>> both.added(np.ones((1, 2)), np.array([0]), 10.0), both.const
    (array([[ 1., 21.]]), array([6., 0.]))
    """

    own: FloatArray | None
    const: FloatArray
    ptr: IntArray | None = None
    shared: FloatArray | None = None
    kind: IntArray | None = None
    sparse: sp.csr_array | SparseRows | None = None
    outer: tuple[FloatArray, FloatArray] | None = None
    also: tuple[LossBatch, FloatArray] | None = None

    @classmethod
    def ragged(cls, forms: list[tuple[FloatArray, float]]) -> Self:
        """The losses of examples with any numbers of parts, from the coefficients and the constant of each."""
        ptr = np.concatenate([[0], np.cumsum([len(coef) for coef, _ in forms])]).astype(np.int64)
        return cls(np.concatenate([coef for coef, _ in forms]), np.array([const for _, const in forms]), ptr)

    @property
    def is_own(self) -> bool:
        """Whether every row has coefficients of its own, and no others."""
        return self.own is not None and self.shared is None and self.sparse is None and self.also is None

    @property
    def is_sparse(self) -> bool:
        """Whether stored sparse rows are all."""
        others = (self.own, self.shared, self.outer, self.also)
        return isinstance(self.sparse, sp.csr_array) and all(other is None for other in others)

    @property
    def _n_rows(self) -> int:
        return len(self.const) if self.ptr is None else int(self.ptr[-1])

    @property
    def coef(self) -> FloatArray:
        """All coefficients as one array."""
        return self.rows(None)

    def rows(self, some: IntArray | None) -> FloatArray:
        """Return the coefficients of some rows (None: all)."""
        found: Any = None if self.own is None else self.own if some is None else self.own[some]
        if self.sparse is not None:
            own = self._sparse_rows(some).toarray()
            found = own if found is None else found + own
        if self.shared is not None:
            kind = np.zeros(self._n_rows, dtype=np.int64) if self.kind is None else self.kind
            common = self.shared.take(kind if some is None else kind[some], axis=0)
            found = common if found is None else found + common
        return np.asarray(found)

    def of_examples(self, some: IntArray) -> FloatArray:
        """Return the coefficients of examples with equally many rows, an example in each row."""
        if self.ptr is None:
            return self.rows(None if len(some) == len(self.const) else some)
        return self.rows(self._rows_of(some)).reshape(len(some), -1)

    def _rows_of(self, some: IntArray | None) -> IntArray | None:
        """The rows of some examples; None for all."""
        return some if some is None or self.ptr is None else ranges(self.ptr[some], self.ptr[some + 1])

    def _sparse_rows(self, some: IntArray | None) -> sp.csr_array:
        assert self.sparse is not None
        if some is not None:
            return self.sparse[some]
        return self.sparse if isinstance(self.sparse, sp.csr_array) else self.sparse[np.arange(self.sparse.shape[0])]

    def plus(self, other: LossBatch, factors: FloatArray) -> LossBatch:
        """Return the sum with another loss of the same layout times a factor for each example."""
        const = self.const + factors * other.const
        if self.is_own and other.own is not None and other.is_own:
            by_row = _columns(self.factors(factors, None), other.own.ndim)
            return LossBatch(self.own + by_row * other.own, const, self.ptr)
        if self.is_sparse and other.is_sparse:
            scaled = sp.diags_array(self.factors(factors, None)) @ other.sparse
            return LossBatch(None, const, self.ptr, sparse=sp.csr_array(self.sparse + scaled))
        return replace(self, const=const, also=(other, factors))

    def added(
        self,
        scores: Any,
        some: IntArray | None,
        weight: Weight,
        rows: IntArray | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the scores of the rows of some examples (None: all) plus their weighted coefficients.

        `rows` are those of the examples, if the caller knows them. The sums are written to `out`, or to a new array.
        """
        rows = self._rows_of(some) if rows is None else rows
        factors = self.factors(weight, some)
        out = np.empty(np.shape(scores)) if out is None else out
        if self.shared is not None:
            kind = _FIRST_KIND if self.kind is None else self.kind if rows is None else self.kind[rows]
            given = np.ascontiguousarray(scores, dtype=np.float64)
            _add_shared(given, self.shared, kind, _vector(factors), out)
            scores = out
        if self.own is not None:
            own = self.own if rows is None else self.own[rows]
            plain = np.ndim(factors) == 0 and factors == 1.0
            np.add(scores, own if plain else _columns(factors, own.ndim) * own, out=out)
            scores = out
        if self.sparse is not None:
            if scores is not out:
                out[...] = scores
                scores = out
            stored = isinstance(self.sparse, sp.csr_array)
            at = rows if stored and rows is not None else np.arange(len(out))
            _add_entries(*_arrays(self.sparse if stored else self._sparse_rows(rows)), at, _vector(factors), out)
        if self.also is not None:
            other, own_factors = self.also
            return other.added(scores, some, weight * own_factors, rows, out)
        return out

    def factors(self, weight: Weight, some: IntArray | None) -> Weight:
        """Return one weight, or one for each row of some examples."""
        if np.ndim(weight) == 0:
            return weight
        factors = np.asarray(weight) if some is None else np.asarray(weight)[some]
        if self.ptr is None:
            return factors
        sizes = np.diff(self.ptr) if some is None else self.ptr[some + 1] - self.ptr[some]
        return np.repeat(factors, sizes)

    def products(self, matrix: Any, some: IntArray) -> FloatArray:
        """Return the products of the rows of a sparse matrix with some rows, ``(len(some), len(matrix))``."""
        found: Any = 0.0 if self.own is None else (matrix @ self.own[some].T).T
        if self.sparse is not None:
            found = found + (self.sparse[some] @ matrix.T).toarray()
        if self.shared is not None:
            common = (matrix @ self.shared.T).T
            found = found + (common[:1] if self.kind is None else common[self.kind[some]])
        return np.asarray(found)

    # ---- labels ----------------------------------------------------------------------------------

    def values(self, labels: Any) -> FloatArray:
        """Return the loss of a label of each example: points, dense, sparse or flat as the coefficients; `Entries`."""
        total = np.array(self.const, dtype=np.float64)
        self._add_values(labels, total)
        if self.also is not None:
            other, factors = self.also
            total += factors * (other.values(labels) - other.const)
        return total

    def _add_values(self, labels: Any, total: FloatArray) -> None:
        if self.own is not None and self.ptr is None and self.is_own and isinstance(labels, np.ndarray):
            total += np.einsum("ij,ij->i", self.own, labels)
        elif isinstance(labels, Entries):
            self._add_entries_of(labels, total)
        elif sp.issparse(labels):
            self._add_sparse_points(labels, total)
        elif self.ptr is None:
            total += np.einsum("ij,ij->i", self.coef, labels)
        else:
            total += segment_sums(self.coef * labels, self.ptr)

    def _add_entries_of(self, labels: Entries, total: FloatArray) -> None:
        ptr, columns, rows = labels
        if self.outer is not None:
            _add_outer(ptr, columns, *self.outer, total)
        if self.own is not None and self.own.ndim == 1:
            _add_flat(ptr, columns, self.own, total)
            return
        if rows is None:
            rows = np.arange(len(columns))
        if self.own is not None:
            _add_table(ptr, rows, columns, self.own, total)
        if self.shared is not None:
            _add_table(ptr, np.zeros_like(rows) if self.kind is None else self.kind[rows], columns, self.shared, total)
        if self.sparse is not None:
            _add_sparse(ptr, rows, columns, *_arrays(self._sparse_rows(None)), total)

    def _add_sparse_points(self, points: Any, total: FloatArray) -> None:
        if self.shared is not None:
            assert self.kind is None
            total += points @ self.shared[0]
        if self.own is not None:
            row = np.repeat(np.arange(len(total)), np.diff(points.indptr))
            total += np.bincount(row, points.data * self.own[row, points.indices], minlength=len(total))
        if self.sparse is not None:
            stored = isinstance(self.sparse, sp.csr_array)
            size = len(total) if stored else max(1, _MADE_ENTRIES // self.sparse.shape[1])
            for first in range(0, len(total), size):
                block = np.arange(first, min(first + size, len(total)))
                rows = self._sparse_rows(None if stored else block)
                own = points if stored else points[block]
                total[block] += np.asarray(rows.multiply(own).sum(axis=1)).ravel()

    def steps(self, group: IntArray | None = None) -> FloatArray:
        """Return for each example a number that divides all differences of two values of its loss; 0 if unknown.

        Parameters
        ----------
        group : ndarray of int, optional
            For each column the number of a group whose entries in a label sum to a constant, -1 for none.
        """
        n = len(self.const)
        if self.also is not None or self.outer is not None:
            return np.zeros(n)
        every = np.arange(n) if self.ptr is None else np.repeat(np.arange(n), np.diff(self.ptr))
        if self.sparse is not None:
            return self._sparse_steps(every)
        coef = self.coef
        steps = common_steps(coef, every, n)
        if group is None or coef.shape[1:] != group.shape or not (group >= 0).any():
            return steps
        # A multiple of a sum that is the same for all labels adds a constant. Without it the coefficients of a
        # one-of-many group are differences to its largest: a wrong choice is one error, not two halves.
        inside = np.flatnonzero(group >= 0)
        inside = inside[np.argsort(group[inside], kind="stable")]
        first = np.flatnonzero(np.diff(group[inside], prepend=-1))
        reduced = np.array(coef, dtype=np.float64)
        reduced[:, inside] -= np.maximum.reduceat(reduced[:, inside], first, axis=1)[:, group[inside]]
        reduced[np.abs(reduced) <= 1e-12 * np.abs(coef).max(initial=0.0)] = 0.0  # rounding
        return np.maximum(steps, common_steps(reduced, every, n))

    def _sparse_steps(self, every: IntArray) -> FloatArray:
        """The steps of stored sparse rows, and of one row that all rows share."""
        n = len(self.const)
        common = np.zeros(0) if self.shared is None else np.unique(self.shared[0])
        if not isinstance(self.sparse, sp.csr_array) or self.own is not None or self.kind is not None:
            return np.zeros(n)
        if len(common) > _MOST_ENTRIES:
            return np.zeros(n)
        indptr, indices, data = _arrays(self.sparse)
        entries = data if self.shared is None else data + self.shared[0][indices]
        entries = np.concatenate([entries, np.tile(common, n)])
        owner = np.concatenate([np.repeat(every, np.diff(indptr)), np.repeat(np.arange(n), len(common))])
        return common_steps(entries, owner, n)


class Counts(NamedTuple):
    """The terms of micro-F1 as functions of the label in the layout of the losses.

    `errors` counts the wrong variables among those that the task loss counts: false positives and false negatives. `on`
    is minus the number of those that are on, in the label and in the ground truth. `least` is the smallest weight of a
    variable: labels with nothing on are the only ones with less.
    """

    errors: LossBatch
    on: LossBatch
    least: float


def counts_of(truth: FloatArray, weights: FloatArray, ptr: IntArray | None = None) -> Counts:
    """Return the `Counts` of 0/1 variables with weights, a row per example or per row of `ptr`; see `LossBatch`."""
    own = weights * truth
    own = own.sum(axis=tuple(range(1, own.ndim)))  # of a row
    own = own if ptr is None else segment_sums(own, ptr)
    errors, on = weights * (1.0 - 2.0 * truth), np.broadcast_to(-weights, truth.shape)
    least = float(weights[weights > 0.0].min(initial=np.inf))
    return Counts(LossBatch(errors, own, ptr), LossBatch(on, -own, ptr), least)


def common_steps(coef: FloatArray, owner: IntArray, n: int) -> FloatArray:
    """Return the smallest coefficient of each example, 0 if another one is not a multiple of it.

    `owner` is the example of every row of the coefficients.
    """
    rows, steps = np.ascontiguousarray(coef, dtype=np.float64).reshape(len(coef), -1), np.full(n, np.inf)
    fill_steps(rows, np.ascontiguousarray(owner, dtype=np.int64), steps)
    return steps


def ranges(start: npt.NDArray[np.integer[Any]], stop: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
    """Return the integers of ``[start_k, stop_k)`` for every k, one range after the other."""
    lengths = stop - start
    first = np.concatenate([[0], np.cumsum(lengths)])
    return np.repeat(start - first[:-1], lengths) + np.arange(first[-1])


def _arrays(table: Any) -> tuple[Any, Any, FloatArray]:
    """The arrays of a sparse table."""
    return table.indptr, table.indices, table.data


def _vector(factors: Weight) -> FloatArray:
    """Factors as a contiguous array; one for all rows is an array of one."""
    return np.ascontiguousarray(np.atleast_1d(factors), dtype=np.float64)


def _columns(factors: Weight, ndim: int) -> Any:
    """Factors of rows in a shape that multiplies arrays of this many dimensions."""
    return factors if np.ndim(factors) == 0 else np.asarray(factors).reshape(-1, *[1] * (ndim - 1))


@kernel
def _add_shared(scores: FloatArray, shared: FloatArray, kind: IntArray, factors: FloatArray, out: FloatArray) -> None:
    """Write scores plus the shared row of each, times a factor; a single kind or factor is that of all rows."""
    for r in range(scores.shape[0]):
        given, cost, total = scores[r], shared[kind[r] if kind.size > 1 else kind[0]], out[r]
        factor = factors[r] if factors.size > 1 else factors[0]
        for s in range(total.size):
            total[s] = given[s] + factor * cost[s]


@kernel
def _add_entries(indptr: Any, indices: Any, data: FloatArray, rows: IntArray, factors: FloatArray, out: Any) -> None:
    """Add the entries of sparse rows, times their factors; a single factor is that of all rows."""
    for k in range(rows.size):
        factor = factors[k] if factors.size > 1 else factors[0]
        for q in range(indptr[rows[k]], indptr[rows[k] + 1]):
            out[k, indices[q]] += factor * data[q]


@kernel
def _add_flat(ptr: IntArray, parts: IntArray, coef: FloatArray, total: FloatArray) -> None:
    """Add the coefficients of the parts of every example."""
    for i in range(total.size):
        loss = 0.0
        for k in range(ptr[i], ptr[i + 1]):
            if parts[k] >= 0:
                loss += coef[parts[k]]
        total[i] += loss


@kernel
def _add_table(ptr: IntArray, rows: IntArray, columns: IntArray, table: FloatArray, total: FloatArray) -> None:
    """Add the entries of every example in a table."""
    for i in range(total.size):
        loss = 0.0
        for k in range(ptr[i], ptr[i + 1]):
            if columns[k] >= 0:
                loss += table[rows[k], columns[k]]
        total[i] += loss


@kernel
def _add_sparse(
    ptr: IntArray, rows: IntArray, columns: IntArray, indptr: Any, indices: Any, data: FloatArray, total: FloatArray
) -> None:
    """Add the entries of every example in a sparse table."""
    for i in range(total.size):
        loss = 0.0
        for k in range(ptr[i], ptr[i + 1]):
            for q in range(indptr[rows[k]], indptr[rows[k] + 1]):
                if indices[q] == columns[k]:
                    loss += data[q]
        total[i] += loss


@kernel
def _add_outer(ptr: IntArray, columns: IntArray, a: FloatArray, b: FloatArray, total: FloatArray) -> None:
    """Subtract ``a[r] * b[s]`` for every row r of an example and the row s that its entry chooses."""
    for i in range(total.size):
        loss = 0.0
        for k in range(ptr[i], ptr[i + 1]):
            if columns[k] >= 0:
                loss += a[k] * b[ptr[i] + columns[k]]
        total[i] -= loss

"""`DataSet`: the inputs of a data set with stacked feature rows, and points of their label spaces as part tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.checks import examples
from structopt.errors import DeclarationError, marked
from structopt.features import Term, Tied, check_data_set, is_plain, ordered_rows, stack_rows
from structopt.model.codec import part_table
from structopt.model.loss_batch import ranges
from structopt.space.compiled import FloatArray

if TYPE_CHECKING:
    from structopt.model import Model
    from structopt.space import Block, LabelSpace

__all__ = ["DataSet", "is_tied", "stacked"]

#: Number of inputs whose label spaces are compared with the space of their key. A declaration takes about 0.5 ms.
_CHECKED_SPACES = 256


class DataSet:
    """The inputs of a data set with the feature rows of each term stacked into one matrix.

    Codecs and inferences keep a `DataSet`, which knows neither. A cycle of references would keep the data in memory
    until the garbage collector runs: gigabytes in a search of parameters.

    The feature rows of a dense matrix are made when they are first needed: a trainer that copies them in another order
    needs no other copy. Before that `contents` has the matrix. `widths` are the numbers of features of the terms. Other
    attributes are those of `structopt.model.batch.Batch`.
    """

    def __init__(self, model: Model, X: Any) -> None:
        self.model = model
        X = examples("X", X)
        self.X = X
        self.n = check_data_set(X)
        if not self.n:
            raise DeclarationError("The data set has no examples.")
        self.sizes = model._sizes(X)
        self._check_keys()
        self.contents: list[Any] = []
        self.widths: list[int] = []
        self.starts: list[npt.NDArray[np.intp]] = []
        for term in model.features.values():
            late = is_plain(term, X)
            rows, start = (X, np.arange(self.n + 1)) if late else stack_rows(term, X)
            _check_finite(rows, start)
            self.contents.append(rows)
            self.widths.append(rows.shape[1] + (late and term.intercept))
            self.starts.append(start)
        self._check_rows()
        space = model.weight_space(self.input(0))
        self.columns = [term.n_columns(space[name].shape) for name, term in model.features.items()]
        self.n_weights = sum(k * width for k, width in zip(self.columns, self.widths, strict=True))

    def __len__(self) -> int:
        return self.n

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("rows", "_blocks")}

    @cached_property
    def rows(self) -> list[Any]:
        """The feature rows of each term."""
        found = zip(self.model.features.values(), self.contents, strict=True)
        return [stack_rows(term, self.X)[0] if is_plain(term, self.X) else rows for term, rows in found]

    def take_rows(self, known: Mapping[int, FloatArray]) -> None:
        """Take the feature rows of the only term whose rows are made later, if they are `known`."""
        if known:
            self.rows = [known.get(t, rows) for t, rows in enumerate(self.contents)]

    @property
    def largest(self) -> float:
        """The largest absolute value of a feature."""
        sizes = [_largest(rows.data if sp.issparse(rows) else rows) for rows in self.contents]
        return max([*sizes, *(1.0 for term in self.model.features.values() if term.intercept)], default=0.0)

    def ordered(self, order: npt.NDArray[np.intp]) -> tuple[Any, dict[int, FloatArray]]:
        """Return some inputs in an order, and the feature rows (by term) that were copied with them.

        The inputs are a view of the rows if one term reads them as a matrix.
        """
        if not hasattr(self.X, "shape"):
            return [self.X[i] for i in order], {}
        plain = [t for t, term in enumerate(self.model.features.values()) if is_plain(term, self.X)]
        if len(plain) != 1:
            return self.X[order], {}
        rows = ordered_rows(self.X, order, self.widths[plain[0]] > self.X.shape[1])
        return rows[:, : self.X.shape[1]], {plain[0]: rows}

    def input(self, i: int) -> Any:
        """Example `i` in the form of its model."""
        return self.X[[i]] if sp.issparse(self.X) else self.X[i]

    def _check_keys(self) -> None:
        """Raise if inputs of a sample have the same key and different label spaces."""
        if self.model.fixed:
            return
        for i in np.unique(np.linspace(0, self.n - 1, min(self.n, _CHECKED_SPACES)).astype(np.int64)).tolist():
            self.model.check_key(self.input(i), f"Example {marked(i)} of X")

    def _check_rows(self) -> None:
        """Every example has as many feature rows as its block has: the kernels rely on it."""
        for t, (name, term) in enumerate(self.model.features.items()):
            counts, expected = np.diff(self.starts[t]), self._expected_rows(name, term)
            if expected is None:
                continue
            wrong = np.flatnonzero(counts != expected)
            if wrong.size or len(counts) != self.n:
                i = int(wrong[0]) if wrong.size else min(self.n, len(counts)) - 1
                wanted = int(np.broadcast_to(expected, counts.shape)[i])
                self.model.check_key(self.input(i), f"Example {marked(i)} of X")
                raise DeclarationError(
                    f"Example {marked(i)} of X has {int(counts[i])} feature rows for the block {name!r}, where "
                    f"{term!r} takes {wanted}{self._told_shape(i)}."
                )

    def _told_shape(self, i: int) -> str:
        shape = getattr(self.input(i), "shape", None)
        return "" if shape is None else f"; its shape is {tuple(shape)}, and the last axis are the features of a row"

    def _expected_rows(self, name: str, term: Term) -> IntArray | int | None:
        """Feature rows of each example for a term: one number, one for each example, or None for any number."""
        if self.model.fixed:
            return term.n_rows(self.model.space()[name].shape)
        if self.sizes is not None:
            return 1 if is_tied(term) else self.model._rows_of_sizes(self.sizes)
        if type(term).n_rows is Term.n_rows:
            return None
        shapes = (self.model.space(self.input(i))[name].shape for i in range(self.n))
        return np.array([term.n_rows(shape) for shape in shapes], dtype=np.int64)

    # ---- points ----------------------------------------------------------------------------------

    def costs(self, tables: Sequence[FloatArray], some: IntArray | None = None) -> FloatArray:
        """Return the coefficients of the variables of examples with one space (None: all), a row for each."""
        some = None if some is not None and len(some) == self.n else some
        space, blocks = self.space_of(some), [self.block_of(t, some) for t in range(len(tables))]
        if len(blocks) == 1 and blocks[0].size == space.n_variables:
            return self.unfold(0, np.asarray(tables[0], dtype=np.float64), some)
        found = np.zeros((self.n if some is None else len(some), space.n_variables))
        for t, (block, table) in enumerate(zip(blocks, tables, strict=True)):
            found[:, block.slice] = self.unfold(t, table, some)
        return found

    def costs_of(self, i: int, tables: Sequence[FloatArray]) -> FloatArray:
        """Return the coefficients of the variables of one example."""
        x = self.input(i)
        space = self.model.space(x)
        costs = np.zeros(space.n_variables)
        for (name, term), table, start in zip(self.model.features.items(), tables, self.starts, strict=True):
            block = space[name]
            costs[block.slice] = term.unfold(x, table[start[i] : start[i + 1]], block.shape).ravel()
        return costs

    def space_of(self, some: IntArray | None) -> LabelSpace:
        """Return the space of examples that share one (None: all)."""
        return self.model.space(self.input_of(some))

    def input_of(self, some: IntArray | None) -> Any:
        """Return an input with the space of examples that share one (None: all); None if all inputs share one."""
        return None if self.model.fixed else self.input(0 if some is None else int(some[0]))

    def block_of(self, t: int, some: IntArray | None = None) -> Block:
        """Return the variables that a term scores, for examples with one space (None: all)."""
        return self._blocks[t] if self.model.fixed else self.space_of(some)[list(self.model.features)[t]]

    @cached_property
    def _blocks(self) -> list[Block]:
        """The block of each term in the space of all examples."""
        return [self.model.space()[name] for name in self.model.features]

    @cached_property
    def _terms(self) -> list[Term]:
        return list(self.model.features.values())

    def unfold(self, t: int, table: FloatArray, some: IntArray | None = None) -> FloatArray:
        """Return the scores of a term's parts as coefficients of its block, for examples with one space (None: all)."""
        if self._is_plain[t]:
            rows = table.reshape(self.n, -1)
            return rows if some is None else rows[some]
        term, inputs, shape = self._terms[t], _Inputs(self, some), self.block_of(t, some).shape
        if self._has_equal_tables(t, some):
            return term.unfold_batch(inputs, self._tables_of(t, table, some), shape)
        start = self.starts[t]
        owner = range(self.n) if some is None else some.tolist()
        own = [table[start[i] : start[i + 1]] for i in owner]
        return np.array([term.unfold(inputs[k], scores, shape).ravel() for k, scores in enumerate(own)])

    def _tables_of(self, t: int, table: FloatArray, some: IntArray | None) -> FloatArray:
        """Return the tables of examples with equally many rows, one below the other, as an array of three axes."""
        n, start = self.n if some is None else len(some), self.starts[t]
        if some is None:
            return table.reshape(n, len(table) // n, table.shape[1])
        found: FloatArray = table[start[some][:, None] + np.arange(start[some[0] + 1] - start[some[0]])]
        return found

    def fold_blocks(self, t: int, blocks: FloatArray, some: IntArray | None = None) -> FloatArray:
        """Return the parts of a term, one table below the other.

        `blocks` has the values of the term's variables ``(n, size)``, for examples with one space (None: all).
        """
        if self._is_plain[t]:
            return blocks.reshape(-1, self.columns[t])
        term, inputs = self._terms[t], _Inputs(self, some)
        shaped = blocks.reshape(len(blocks), *self.block_of(t, some).shape)
        if self._has_equal_tables(t, some):
            tables = term.fold_batch(inputs, shaped)
            # A term may have no columns, and -1 would then be undefined.
            return tables.reshape(tables.shape[0] * tables.shape[1], self.columns[t])
        return np.concatenate([term.fold(inputs[i], own) for i, own in enumerate(shaped)])

    @cached_property
    def _is_plain(self) -> list[bool]:
        """Whether the values of a block are the entries of the tables, for each term."""
        every = zip(self._terms, self.columns, strict=True)
        return [
            term._keeps_entries and columns > 0 and equal
            for (term, columns), equal in zip(every, self._all_equal, strict=True)
        ]

    def _has_equal_tables(self, t: int, some: IntArray | None) -> bool:
        """Return whether the examples (None: all) have the same number of feature rows for a term."""
        if self._all_equal[t] or some is None:
            return self._all_equal[t]
        start = self.starts[t]
        return bool(np.ptp(start[some + 1] - start[some]) == 0)

    @cached_property
    def _all_equal(self) -> list[bool]:
        """Whether all examples have the same number of feature rows, for each term."""
        return [bool(np.ptp(np.diff(start)) == 0) for start in self.starts]

    @cached_property
    def same_space(self) -> list[IntArray]:
        """Examples by their label space: the numbers of those that share one."""
        if self.model.fixed:
            return [np.arange(self.n)]
        if self.sizes is not None:
            kind = np.unique(self.sizes, axis=0, return_inverse=True)[1].ravel()
            return np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
        by_key: dict[Hashable, list[int]] = {}
        for i in range(self.n):
            by_key.setdefault(self.model.key(self.input(i)), []).append(i)
        return [np.array(group, dtype=np.int64) for group in by_key.values()]

    def groups(self, some: IntArray | None) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the examples among `some` (None: all) of each label space, and their places in `some`."""
        if some is None:
            yield from ((group, group) for group in self.same_space)
            return
        place = np.full(self.n, -1)
        place[some] = np.arange(len(some))
        for group in self.same_space:
            at = np.sort(place[group])
            at = at[np.searchsorted(at, 0) :]
            if at.size:
                yield some[at], at

    @cached_property
    def point_sizes(self) -> IntArray:
        """Number of variables of each example's label space."""
        sizes = (self.model.space(self.input(i)).n_variables for i in range(self.n))
        return np.fromiter(sizes, np.int64, self.n)

    def fold(self, Z: Any, some: IntArray | None = None) -> list[sp.csr_array]:
        """Points of some examples (None: all), one after the other, as part tables."""
        if self.model.fixed:
            points = Z.toarray() if sp.issparse(Z) else np.asarray(Z)
            return [self._fold_block(t, points, some) for t in range(len(self._blocks))]
        sizes = [np.diff(start) if some is None else np.diff(start)[some] for start in self.starts]
        tables = [np.empty((int(size.sum()), columns)) for size, columns in zip(sizes, self.columns, strict=True)]
        for own, at in self.groups(some):
            points = stacked(Z, at)
            for t, size in enumerate(sizes):
                stop = np.cumsum(size)[at]
                found = self.fold_blocks(t, points[:, self.block_of(t, own).slice], own)
                tables[t][ranges(stop - size[at], stop)] = found
        return [part_table(table) for table in tables]

    def _fold_block(self, t: int, points: FloatArray, some: IntArray | None) -> sp.csr_array:
        """Return the parts of a term, for points of the one space."""
        own = self._blocks[t].slice
        if self._is_plain[t] and self.columns[t] == own.stop - own.start:
            return part_table(points, own.start, own.stop)
        return part_table(self.fold_blocks(t, points[:, own], some))


def stacked(rows: Any, some: IntArray) -> FloatArray:
    """Return some rows of the same length as an array."""
    if isinstance(rows, np.ndarray):
        return rows if len(some) == len(rows) else rows[some]
    return np.array([rows[i] for i in some.tolist()])


class _Inputs(Sequence[Any]):
    """The inputs of some examples of a data set (None: all), taken when they are needed."""

    def __init__(self, data: DataSet, some: IntArray | None) -> None:
        self._data, self._some = data, some

    def __len__(self) -> int:
        return self._data.n if self._some is None else len(self._some)

    def __getitem__(self, i: Any) -> Any:
        return self._data.input(i if self._some is None else int(self._some[i]))


def _largest(values: Any) -> float:
    """Return the largest absolute value without a copy of the values."""
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def is_tied(term: Term) -> bool:
    """Return whether the weights of a term are the same for all examples."""
    return isinstance(term, Tied)


def _check_finite(rows: Any, start: npt.NDArray[np.intp]) -> None:
    data = rows.data if sp.issparse(rows) else rows
    if np.isfinite(data).all():
        return
    if sp.issparse(rows):
        place = int(np.searchsorted(rows.indptr, np.argmin(np.isfinite(data)), side="right")) - 1
    else:
        place = int(np.argmin(np.isfinite(data).all(axis=1)))
    example = int(np.searchsorted(start, place, side="right")) - 1
    raise DeclarationError(
        f"The features of example {marked(example)} contain NaN or infinity; impute or drop it first."
    )

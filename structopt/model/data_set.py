"""`DataSet`: the inputs of a data set with stacked feature rows, and points of their label spaces as part tables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
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
from structopt.space.compiled import FloatArray

if TYPE_CHECKING:
    from structopt.model import Model

__all__ = ["DataSet", "is_tied"]

#: Number of inputs whose label spaces are compared with the space of their key. A declaration takes about 0.5 ms.
_CHECKED_SPACES = 256


class DataSet:
    """The inputs of a data set with the feature rows of each term stacked into one matrix.

    Codecs and inferences keep a `DataSet`, which knows neither. A cycle of references would keep the data in memory
    until the garbage collector runs: gigabytes in a search of parameters.

    Parameters
    ----------
    model : Model
    X : matrix or list of inputs

    Attributes
    ----------
    n : int
        Number of examples.
    sizes : ndarray of int or None
        What the label space of each input depends on (a length, a shape), where the model says so; see `Model.sizes`.
    rows : list of matrix
        The feature rows of each term, of all examples one after the other. The rows of a dense matrix are made when
        they are first needed: a trainer that copies them in another order needs no other copy.
    widths : list of int
        Number of features of each term.
    contents : list of matrix
        What `rows` are made from: the same matrices, or the inputs of rows that are made later.
    starts : list of ndarray
        The rows of example i are ``starts[term][i]:starts[term][i + 1]``.
    columns : list of int
        Columns of the weights of each term.
    n_weights : int
    """

    def __init__(self, model: Model, X: Any) -> None:
        self.model = model
        X = examples("X", X)
        self.X = X
        self.n = check_data_set(X)
        if not self.n:
            raise DeclarationError("The data set has no examples.")
        self.sizes = model.sizes(X)
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
        return {name: value for name, value in self.__dict__.items() if name != "rows"}

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
        """Feature rows of each example for a term: one number, one for each example, or None where anything goes."""
        if self.model.fixed:
            return term.n_rows(self.model.space()[name].shape)
        if self.sizes is not None:
            return 1 if is_tied(term) else self.model.rows_of_sizes(self.sizes)
        if type(term).n_rows is Term.n_rows:
            return None
        shapes = (self.model.space(self.input(i))[name].shape for i in range(self.n))
        return np.array([term.n_rows(shape) for shape in shapes], dtype=np.int64)

    # ---- points ----------------------------------------------------------------------------------

    def costs(self, tables: Sequence[FloatArray]) -> Any:
        """Objective coefficients of the variables: an array ``(n, n_variables)``, or a list where spaces differ."""
        if not self.model.fixed:
            return [self.costs_of(i, tables) for i in range(self.n)]
        space = self.model.space()
        (only, *rest) = self.model.features.items()
        if not rest and space[only[0]].size == space.n_variables:
            return only[1].unfold_rows(np.asarray(tables[0], dtype=np.float64), self.n, space.n_variables)
        costs = np.zeros((self.n, space.n_variables))
        for (name, term), table in zip(self.model.features.items(), tables, strict=True):
            block = space[name]
            costs[:, block.slice] = term.unfold_rows(table, self.n, block.size)
        return costs

    def costs_of_some(self, some: IntArray, tables: Sequence[FloatArray]) -> FloatArray:
        """Objective coefficients of examples that have the same label space, one in each row.

        Parameters
        ----------
        some : ndarray of int
            Numbers of examples.
        tables : sequence of ndarray
            Scores of the parts; see `tables`.

        Returns
        -------
        ndarray, shape (len(some), n_variables)
        """
        if self.model.fixed:
            costs: FloatArray = self.costs(tables)
            return costs if len(some) == self.n else costs[some]
        if not self._has_equal_tables(some):
            return np.array([self.costs_of(i, tables) for i in some.tolist()])
        X = [self.input(i) for i in some.tolist()]
        space = self.model.space(X[0])
        found = np.zeros((len(some), space.n_variables))
        for (name, term), table, start in zip(self.model.features.items(), tables, self.starts, strict=True):
            rows = start[some][:, None] + np.arange(start[some[0] + 1] - start[some[0]])
            found[:, space[name].slice] = term._unfold_alike(X, table[rows], space[name].shape)
        return found

    def _has_equal_tables(self, some: IntArray) -> bool:
        """Return whether the examples have the same number of feature rows, term by term."""
        return all(np.ptp(start[some + 1] - start[some]) == 0 for start in self.starts)

    def costs_of(self, i: int, tables: Sequence[FloatArray]) -> FloatArray:
        """Objective coefficients of the variables of one example."""
        x = self.input(i)
        space = self.model.space(x)
        costs = np.zeros(space.n_variables)
        for (name, term), table, start in zip(self.model.features.items(), tables, self.starts, strict=True):
            block = space[name]
            part = table[start[i] : start[i + 1]]
            costs[block.slice] = term.unfold(x, part, block.shape).ravel()
        return costs

    @cached_property
    def same_space(self) -> list[IntArray]:
        """Examples by their label space: the numbers of those that share one."""
        by_key: dict[Hashable, list[int]] = {}
        for i in range(self.n):
            by_key.setdefault(self.model.key(self.input(i)), []).append(i)
        return [np.array(group, dtype=np.int64) for group in by_key.values()]

    @cached_property
    def point_sizes(self) -> IntArray:
        """Number of variables of each example's label space."""
        sizes = (self.model.space(self.input(i)).n_variables for i in range(self.n))
        return np.fromiter(sizes, np.int64, self.n)

    def fold_points(self, Z: Any) -> list[sp.csr_array]:
        """Points, one per example, as part tables."""
        return self.fold(Z, range(self.n))

    def fold(self, Z: Any, examples: Sequence[int]) -> list[sp.csr_array]:
        """Points of some examples, one after the other, as part tables."""
        terms = list(self.model.features.items())
        if self.model.fixed:
            space, together = self.model.space(), Z.toarray() if sp.issparse(Z) else np.asarray(Z)
            return [
                part_table(term.fold_rows(together[:, space[name].slice], columns))
                for (name, term), columns in zip(terms, self.columns, strict=True)
            ]
        which = np.asarray(examples, dtype=np.int64)
        parts: list[list[Any]] = [[None] * len(which) for _ in terms]
        for members in self._alike(which):
            X = [self.input(i) for i in which[members].tolist()]
            space, points = self.model.space(X[0]), np.array([np.asarray(Z[k]) for k in members.tolist()])
            equal = self._has_equal_tables(which[members])
            for (name, term), found in zip(terms, parts, strict=True):
                blocks = points[:, space[name].slice].reshape(len(X), *space[name].shape)
                folded = term._fold_alike(X, blocks) if equal else [*map(term.fold, X, blocks)]
                for k, table in zip(members.tolist(), folded, strict=True):
                    found[k] = table
        return [part_table(np.concatenate(found)) for found in parts]

    def _alike(self, which: IntArray) -> list[IntArray]:
        """Return the places of the examples `which`, by label space."""
        order = np.argsort(self._space_numbers[which], kind="stable")
        cuts = np.flatnonzero(np.diff(self._space_numbers[which[order]])) + 1
        return [group for group in np.split(order, cuts) if group.size]

    @cached_property
    def _space_numbers(self) -> IntArray:
        """The number of each example's label space."""
        numbers = np.empty(self.n, dtype=np.int64)
        for number, group in enumerate(self.same_space):
            numbers[group] = number
        return numbers


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

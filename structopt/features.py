"""Joint features: how the scores of a label's variables depend, linearly, on the input and the weights.

Every term turns one block of a space into a *table* of parts with ``R`` rows and ``K`` columns. Row ``r`` has a
feature vector ``x_r`` of length ``d``, column ``k`` a weight vector ``W_k``; part ``(r, k)`` scores ``<W_k, x_r>``. The
whole table is one matrix product ``X W'``, its gradient one product ``Z' X``, for one example as for a data set:

=================  =====================  ==========================  =====================================
term               R                      K                           examples
=================  =====================  ==========================  =====================================
`Linear`           1                      size of the block           classes, labels, nodes of a hierarchy
`Table`            rows of the block      columns of the block        states along a sequence
`Shared`           size of the block      1                           arcs, pairs, matches with own features
`Tied`             1 (the constant 1)     number of distinct weights  pairwise terms, transitions, biases
=================  =====================  ==========================  =====================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import kernel
from structopt._jit.csr import checked_csr
from structopt.checks import call_text, checked, floats, numeric, shown
from structopt.errors import DeclarationError, marked, removed_name
from structopt.space.compiled import FloatArray

__all__ = ["Linear", "Shared", "Table", "Term", "Tied", "as_rows", "stack_rows"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> Any:
        if name == "Scaled":
            raise removed_name("structopt.features.Scaled", "use Linear(factor=...)")
        raise AttributeError(f"module 'structopt.features' has no attribute {name!r}")


Matrix = Any  # a dense (R, d) array or a CSR matrix

# Entries of a dense matrix that are copied at a time.
_COPIED_ENTRIES = 1 << 17


class Term(ABC):
    """How one block of variables is scored.

    Parameters
    ----------
    field : str or int, optional
        Which part of the input this term reads, as ``x[field]``; the whole input by default.
    intercept : bool
        Append the constant 1 to every feature row.
    """

    @checked
    def __init__(self, field: Any = None, intercept: bool = False) -> None:
        self.field = field
        self.intercept = intercept

    @abstractmethod
    def n_columns(self, shape: tuple[int, ...]) -> int:
        """``K`` for a block of this shape.

        Parameters
        ----------
        shape : tuple of int
            The shape of the block.

        Returns
        -------
        int
        """

    def n_rows(self, shape: tuple[int, ...]) -> int | None:
        """``R`` for a block of this shape, which every input is checked to have; None if it depends on the input.

        Parameters
        ----------
        shape : tuple of int
            The shape of the block.

        Returns
        -------
        int or None
        """
        return None

    def rows(self, x: Any) -> Matrix:
        """The feature rows ``(R, d)`` of one input.

        Parameters
        ----------
        x : object
            An input.

        Returns
        -------
        ndarray or csr_array
        """
        part = x if self.field is None else self._part(x)
        return _with_constant(as_rows(part)) if self.intercept else as_rows(part)

    def _part(self, x: Any) -> Any:
        try:
            return x[self.field]
        except (KeyError, IndexError, TypeError, ValueError):
            raise DeclarationError(f"An input has no field {self.field!r}; got {shown(x)}.") from None

    def fold(self, x: Any, block: FloatArray) -> FloatArray:
        """Values of a block's variables as a table ``(R, K)``.

        Parameters
        ----------
        x : object
            An input.
        block : ndarray
            Values of the block's variables.

        Returns
        -------
        ndarray
        """
        columns = self.n_columns(block.shape)
        return block.reshape(-1, columns)

    def unfold(self, x: Any, table: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Scores ``(R, K)`` as objective coefficients of the block's variables: the transpose of `fold`.

        Parameters
        ----------
        x : object
            An input.
        table : ndarray
            A number for each row and column.
        shape : tuple of int
            The shape of the block.

        Returns
        -------
        ndarray
        """
        return table.reshape(shape)

    def fold_batch(self, inputs: Sequence[Any], blocks: FloatArray) -> FloatArray:
        """`fold` for examples with one label space: ``(n, *shape)`` to ``(n, R, K)``.

        A subclass may override it, and `unfold_batch`, with array operations. They are loops unless `unfold` is
        inherited.

        Parameters
        ----------
        inputs : sequence
            Their inputs.
        blocks : ndarray
            Values of the block's variables, for each example.

        Returns
        -------
        ndarray
        """
        if self._keeps_entries:
            return blocks.reshape(len(blocks), -1, self.n_columns(blocks.shape[1:]))
        return np.array([self.fold(inputs[i], block) for i, block in enumerate(blocks)])

    def unfold_batch(self, inputs: Sequence[Any], tables: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """`unfold` for examples with one label space: ``(n, R, K)`` to ``(n, size)``.

        Parameters
        ----------
        inputs : sequence
            Their inputs.
        tables : ndarray
            A number for each row and column, for each example.
        shape : tuple of int
            The shape of the block.

        Returns
        -------
        ndarray
        """
        if self._keeps_entries:
            return tables.reshape(len(tables), -1)
        return np.array([self.unfold(inputs[i], table, shape).ravel() for i, table in enumerate(tables)])

    @property
    def _keeps_entries(self) -> bool:
        """Whether the scores of the variables are the entries of the table, in their order."""
        return type(self).unfold is Term.unfold and type(self).fold is Term.fold

    __repr__ = call_text


class Linear(Term):
    """Every variable of the block has a weight vector of its own; the input is one feature row.

    Parameters
    ----------
    field, intercept
        See `Term`.
    factor : ndarray, shape (size of the block,), optional
        A factor of the features of each variable: variable j scores ``factor_j <W_j, x>``.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("tags")
    >>> tags = space.binary("tag", 3)
    >>> model = so.Model(space, features={"tag": so.features.Linear()})
    >>> model.scores([1, 0, 0, 1, 1, 1], [2.0, 5.0])
    array([2., 5., 7.])
    """

    @checked
    def __init__(self, field: Any = None, intercept: bool = False, factor: npt.ArrayLike | None = None) -> None:
        super().__init__(field, intercept)
        self.factor = None if factor is None else np.array(floats("factor", factor, ndim=1))

    def n_columns(self, shape: tuple[int, ...]) -> int:
        size = int(np.prod(shape, dtype=np.int64))
        if self.factor is not None and self.factor.shape != (size,):
            raise DeclarationError(f"Linear has {self.factor.size} factors for a block of {size} variables.")
        return size

    def fold(self, x: Any, block: FloatArray) -> FloatArray:
        return super().fold(x, block) if self.factor is None else (block.ravel() * self.factor)[None, :]

    def unfold(self, x: Any, table: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return super().unfold(x, table if self.factor is None else table.ravel() * self.factor, shape)

    def fold_batch(self, inputs: Sequence[Any], blocks: FloatArray) -> FloatArray:
        if self.factor is None or type(self).fold is not Linear.fold:
            return super().fold_batch(inputs, blocks)
        return blocks.reshape(len(blocks), 1, -1) * self.factor

    def unfold_batch(self, inputs: Sequence[Any], tables: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if self.factor is None or type(self).unfold is not Linear.unfold:
            return super().unfold_batch(inputs, tables, shape)
        return tables.reshape(len(tables), -1) * self.factor

    @property
    def _keeps_entries(self) -> bool:
        inherited = type(self).unfold is Linear.unfold and type(self).fold is Linear.fold
        return self.factor is None and inherited

    def n_rows(self, shape: tuple[int, ...]) -> int | None:
        return 1


class Table(Term):
    """The block's last axis has a weight vector per column; the input has one feature row per other index.

    A sequence of ``T`` tokens with ``S`` states is a block of shape ``(T, S)`` and an input of shape ``(T, d)``.
    """

    def n_columns(self, shape: tuple[int, ...]) -> int:
        if not shape:
            raise DeclarationError("A Table term needs a block with at least one axis.")
        return shape[-1]

    def n_rows(self, shape: tuple[int, ...]) -> int | None:
        return int(np.prod(shape[:-1], dtype=np.int64))


class Shared(Term):
    """All variables of the block share one weight vector; the input has one feature row per variable.

    The input may have any leading shape, for example ``(n, m, d)`` for a block of shape ``(n, m)``.
    """

    def n_columns(self, shape: tuple[int, ...]) -> int:
        return 1

    def n_rows(self, shape: tuple[int, ...]) -> int | None:
        return int(np.prod(shape, dtype=np.int64))


class Tied(Term):
    """Every variable of the block has a scalar weight, shared by the variables with the same index.

    Parameters
    ----------
    index : array_like of int or callable, optional
        The weight's number for each variable of the block (or ``index(x)``, where the block depends on the input);
        one weight per variable by default.
    n_weights : int, optional
        Number of distinct weights; ``max(index) + 1`` by default. Needed with a callable.
    """

    @checked
    def __init__(
        self, index: npt.ArrayLike | Callable[[Any], npt.NDArray[np.intp]] | None = None, n_weights: int | None = None
    ) -> None:
        super().__init__()
        if isinstance(index, type):
            raise DeclarationError(f"Tied: index is the class {index.__name__}; give an array or a function index(x).")
        if callable(index):
            if n_weights is None:
                raise DeclarationError("Tied(index=callable) needs n_weights=.")
            self._index: Any = index
            self._n_weights: int | None = n_weights
        else:
            self._index = None if index is None else _weight_numbers(index, n_weights)
            self._n_weights = n_weights
            if self._index is not None and n_weights is None:
                self._n_weights = int(self._index.max()) + 1 if self._index.size else 0

    def index(self, x: Any, size: int) -> npt.NDArray[np.intp]:
        """The weight's number for each variable.

        Parameters
        ----------
        x : object
            An input.
        size : int
            The shape of the block.

        Returns
        -------
        ndarray of int
        """
        if self._index is None:
            return np.arange(size)
        found = _weight_numbers(self._index(x), self._n_weights) if callable(self._index) else self._index
        if found.shape != (size,):
            raise DeclarationError(f"Tied has {found.shape[0]} indices for a block of {size} variables.")
        return found

    def n_columns(self, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape, dtype=np.int64)) if self._n_weights is None else self._n_weights

    def n_rows(self, shape: tuple[int, ...]) -> int | None:
        return 1

    def rows(self, x: Any) -> Matrix:
        return np.ones((1, 1))

    def fold(self, x: Any, block: FloatArray) -> FloatArray:
        flat = block.ravel()
        if self._index is None:
            return flat[None, :]
        index = self.index(x, flat.size)
        sums = np.bincount(index, weights=flat, minlength=self.n_columns(block.shape))
        return np.asarray(sums, dtype=np.float64)[None, :]

    def unfold(self, x: Any, table: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if self._index is None:
            return table.reshape(shape)
        size = int(np.prod(shape, dtype=np.int64))
        return table.ravel()[self.index(x, size)].reshape(shape)

    @property
    def _keeps_entries(self) -> bool:
        inherited = type(self).unfold is Tied.unfold and type(self).fold is Tied.fold
        return self._index is None and inherited

    def _common_index(self, inputs: Sequence[Any]) -> npt.NDArray[np.intp] | None:
        """Return the index of all inputs if it is one array, otherwise None."""
        if not callable(self._index):
            known: npt.NDArray[np.intp] | None = self._index
            return known
        given = self._index(inputs[0])
        if any(self._index(inputs[i]) is not given for i in range(1, len(inputs))):
            return None
        return _weight_numbers(given, self._n_weights)

    def fold_batch(self, inputs: Sequence[Any], blocks: FloatArray) -> FloatArray:
        index, flat = self._common_index(inputs), blocks.reshape(len(blocks), -1)
        if self._index is None:
            return flat[:, None]  # there may be zero variables or columns
        if index is None or index.shape != flat.shape[1:]:
            return super().fold_batch(inputs, blocks)
        sums = np.zeros((len(flat), 1, self.n_columns(blocks.shape[1:])))
        _add_columns(np.ascontiguousarray(flat, dtype=np.float64), index, sums[:, 0])
        return sums

    def unfold_batch(self, inputs: Sequence[Any], tables: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        index, flat = self._common_index(inputs), tables.reshape(len(tables), -1)
        if index is None or index.size != math.prod(shape):
            return super().unfold_batch(inputs, tables, shape)
        return flat[:, index]


@kernel
def _add_columns(blocks: FloatArray, index: npt.NDArray[np.intp], out: FloatArray) -> None:
    """Add each column of `blocks` to the column of `out` that `index` names."""
    for i in range(blocks.shape[0]):
        for j in range(blocks.shape[1]):
            out[i, index[j]] += blocks[i, j]


def _weight_numbers(index: Any, n_weights: int | None) -> npt.NDArray[np.intp]:
    """The indices of a `Tied` term: whole numbers from 0, below the number of weights."""
    try:
        given = np.asarray(index).ravel()
    except ValueError as error:
        raise DeclarationError(f"The index of a Tied term must be an array of integers ({error}).") from None
    if given.size and given.dtype.kind not in "iu":
        raise DeclarationError(f"The index of a Tied term must hold integers; it has dtype {given.dtype}.")
    if given.size and (given.min() < 0 or (n_weights is not None and given.max() >= n_weights)):
        wrong = given.min() if given.min() < 0 else given.max()
        most = "" if n_weights is None else f" to {n_weights - 1}"
        raise DeclarationError(f"The index of a Tied term names weight {wrong}; weights are numbered from 0{most}.")
    return given.astype(np.intp)


def checked_rows(rows: Matrix) -> Matrix:
    """Return the feature rows of one input, and raise an error if they are not finite."""
    data = rows.data if sp.issparse(rows) else rows
    if not np.isfinite(data).all():
        raise DeclarationError("The features of this input contain NaN or infinity; impute them first.")
    return rows


def as_rows(x: Any) -> Matrix:
    """An input as a 2-D array or CSR matrix of feature rows; axes before the last are flattened.

    Rows are float64 whatever the input is: every other type would be another set of kernels to compile.

    Parameters
    ----------
    x : array_like or sparse matrix

    Returns
    -------
    ndarray or csr_array
    """
    if sp.issparse(x):
        return checked_csr(x, "X")
    rows = numeric("Features", x)
    if not rows.ndim:
        raise DeclarationError(
            f"An input is the number {rows}, where a vector of features is due; X of one feature is a column: "
            "X.reshape(-1, 1)."
        )
    if rows.ndim < 2 and not rows.size:
        raise DeclarationError("An input has no features.")
    if rows.ndim >= 2 and rows.shape[-1] == 0:
        raise DeclarationError(f"An input of shape {rows.shape} has no features; its last axis must not be empty.")
    if rows.dtype != np.float64:
        rows = rows.astype(np.float64)
    return rows.reshape(1, -1) if rows.ndim < 2 else rows.reshape(-1, rows.shape[-1])


def _with_constant(rows: Matrix) -> Matrix:
    ones = np.ones((rows.shape[0], 1), dtype=rows.dtype)
    if sp.issparse(rows):
        return sp.csr_array(sp.hstack([rows, sp.csr_array(ones)], format="csr"))
    return np.hstack([rows, ones])


@checked
def stack_rows(term: Term, X: Any) -> tuple[Matrix, npt.NDArray[np.intp]]:
    """Feature rows of a whole data set, and where each example's rows begin.

    A matrix is a data set of one row per example and is used as it is, without a copy.

    Parameters
    ----------
    term : Term
    X : matrix or list
        Inputs.

    Returns
    -------
    rows, starts
        The feature rows of all inputs below each other, and where each input begins.
    """
    if isinstance(term, Tied):
        return np.ones((n_examples(X), 1)), np.arange(n_examples(X) + 1)
    if is_matrix(X) and term.field is None:
        if is_plain(term, X) and (term.intercept or X.dtype != np.float64):
            return ordered_rows(X, np.arange(len(X)), term.intercept), np.arange(len(X) + 1)
        rows = as_rows(X)
        return (_with_constant(rows) if term.intercept else rows), np.arange(rows.shape[0] + 1)
    parts = [term.rows(x) for x in X]
    start = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])]).astype(np.intp)
    widths = {part.shape[1] for part in parts}
    if len(widths) > 1:
        first = next(i for i, part in enumerate(parts) if part.shape[1] != parts[0].shape[1])
        raise DeclarationError(
            f"Example {marked(first)} has {parts[first].shape[1]} features, example {marked(0)} has "
            f"{parts[0].shape[1]}; all must agree."
        )
    if any(sp.issparse(part) for part in parts):
        return sp.csr_array(sp.vstack(parts, format="csr")), start
    return np.concatenate(parts) if parts else np.empty((0, 0)), start


def is_plain(term: Term, X: Any) -> bool:
    """Whether the feature rows of a term are the rows of one dense array of floats, perhaps with a constant."""
    dense = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] > 0 and X.dtype in (np.float64, np.float32)
    return dense and term.field is None and not isinstance(term, Tied)


def ordered_rows(X: Matrix, order: npt.NDArray[np.intp], constant: bool) -> FloatArray:
    """Return some rows of a dense array in an order, as float64 and perhaps with a constant, in one copy."""
    d = X.shape[1]
    rows = np.empty((len(order), d + constant))
    rows[:, d:] = 1.0
    # In the order of X, whose rows may come from a disk, and a megabyte or so at a time.
    places, some = np.argsort(order, kind="stable"), max(1, _COPIED_ENTRIES // d)
    for at in range(0, len(order), some):
        own = places[at : at + some]
        rows[own, :d] = X[order[own]]
    return rows


def is_matrix(X: Any) -> bool:
    """Whether a data set is one matrix with a row per example."""
    return bool(sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2))


def check_data_set(X: Any) -> int:
    """Return the number of examples of inputs that can be indexed from 0, and reject other inputs."""
    n = n_examples(X)
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__getitem__"):
        raise DeclarationError(
            f"A data set is a matrix or a list with an entry for each example, got {type(X).__name__} {X!r:.40}."
        )
    return n


def n_examples(X: Any) -> int:
    """Number of examples of a data set."""
    try:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError):
        raise DeclarationError(
            f"A data set is a matrix or a list with an entry for each example, got {type(X).__name__} {X!r:.40}."
        ) from None

"""Arrays of affine functions of a space's variables; comparing them makes `Rows`.

An `Expression` of shape ``s`` is one sparse matrix with ``prod(s)`` rows and one constant per row; every
operation is a sparse-matrix operation on the whole array, so building takes O(non-zeros).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import converted, floats, instance, sequence, whole
from structopt.errors import DeclarationError, SpaceMismatch
from structopt.space.compiled import FloatArray
from structopt.space.rows import Rows, Shape, widen

if TYPE_CHECKING:
    from structopt.space import LabelSpace

__all__ = ["Expression", "concatenate"]


class Expression:
    """An array of affine functions ``matrix @ z + constant`` of the variables of one space.

    Made by `LabelSpace.binary` and its relatives, then combined with ``+ - * / @``, ``sum``, indexing and
    comparison, which broadcast as in numpy.

    Parameters
    ----------
    space : LabelSpace
        The space of the variables.
    shape : tuple of int
    matrix : sparse matrix of shape (size, n_variables)
        The coefficients.
    constant : ndarray of shape (size,)

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", (2, 3))
    >>> (2 * y[0] - y[1] + 1).sum()
    <Expression of shape (): 6 non-zeros>
    >>> space.subject_to(y.sum(axis=0) <= 1, name="one per column")
    >>> space.row_names[2]
    'one per column[2]'
    """

    # Makes numpy and scipy defer `array + expression` and `matrix @ expression` to this class.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # == makes rows

    def __init__(self, space: LabelSpace, shape: Shape, matrix: sp.csr_array, constant: FloatArray) -> None:
        self.space = space
        self.shape = shape
        self.matrix = matrix
        self.constant = constant

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[np.object_]:
        # A 0-d object array makes scipy.sparse return NotImplemented, so that __rmatmul__ is called.
        scalar = np.empty((), dtype=object)
        scalar[()] = self
        return scalar

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of affine functions."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a scalar expression")
        return self.shape[0]

    def __iter__(self) -> Iterator[Expression]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return f"<Expression of shape {self.shape}: {self.matrix.nnz} non-zeros>"

    def value(self, z: npt.ArrayLike) -> FloatArray:
        """The value at a point ``z`` of the space, in the expression's shape.

        Parameters
        ----------
        z : array_like
            A point of the space.

        Returns
        -------
        ndarray
            Of the shape of the expression.
        """
        point = floats("z", z)
        n_known = self.matrix.shape[1]
        if point.ndim != 1 or point.shape[0] < n_known:
            raise SpaceMismatch(f"z has shape {point.shape}; the space has {self.space.n_variables} variables.")
        return np.asarray(self.matrix @ point[:n_known] + self.constant, dtype=np.float64).reshape(self.shape)

    # ---- shape -----------------------------------------------------------------------------------

    def _rows(self, index: npt.NDArray[np.intp]) -> Expression:
        """The functions at flat positions `index`, in the shape of `index`."""
        flat = index.ravel()
        return Expression(self.space, index.shape, self.matrix[flat], self.constant[flat])

    def __getitem__(self, key: Any) -> Expression:
        return self._rows(_positions(self.shape, key))

    def reshape(self, *shape: int | Shape) -> Expression:
        """The same functions in another shape (one entry may be -1).

        Parameters
        ----------
        shape : int or tuple of int

        Returns
        -------
        Expression
        """
        new = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        try:
            resolved = np.empty(self.shape, dtype=np.bool_).reshape(tuple(new)).shape  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise DeclarationError(f"An expression of shape {self.shape} has no shape {new!r:.60}.") from None
        return Expression(self.space, resolved, self.matrix, self.constant)

    def ravel(self) -> Expression:
        """The same functions in one axis.

        Returns
        -------
        Expression
        """
        return self.reshape(-1)

    @property
    def T(self) -> Expression:
        """The transpose."""
        return self._rows(np.arange(self.size).reshape(self.shape).T)

    def _broadcast(self, shape: Shape) -> Expression:
        if shape == self.shape:
            return self
        return self._rows(np.broadcast_to(np.arange(self.size).reshape(self.shape), shape))

    def sum(self, axis: int | tuple[int, ...] | None = None) -> Expression:
        """The sum over all elements, or over the given axes.

        Parameters
        ----------
        axis : int, optional
            All entries by default.

        Returns
        -------
        Expression
        """
        shape: Shape = ()
        if axis is None:
            target = np.zeros(self.size, dtype=np.int64)
        else:
            axes = tuple(whole("axis", a) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
            if any(not -self.ndim <= a < self.ndim for a in axes):
                raise DeclarationError(f"sum over axis {axis} of an expression of shape {self.shape}.")
            axes = tuple(a % self.ndim for a in axes)
            shape = tuple(n for a, n in enumerate(self.shape) if a not in axes)
            kept = tuple(1 if a in axes else n for a, n in enumerate(self.shape))
            numbers = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(kept)
            target = np.broadcast_to(numbers, self.shape).ravel()
        n_out = int(np.prod(shape, dtype=np.int64))
        total = sp.csr_array((np.ones(self.size), (target, np.arange(self.size))), shape=(n_out, self.size))
        return Expression(self.space, shape, total @ self.matrix, total @ self.constant)

    # ---- arithmetic ------------------------------------------------------------------------------

    def _add(self, other: Any, sign: float) -> Expression:
        if isinstance(other, Expression):
            if other.space is not self.space:
                raise SpaceMismatch(
                    f"This expression mixes variables of {self.space!r} and of {other.space!r}; "
                    "declare all of them in one space."
                )
            shape = _common_shape(self.shape, other.shape)
            left, right = self._broadcast(shape), other._broadcast(shape)
            n_columns = max(left.matrix.shape[1], right.matrix.shape[1])
            a, b = widen(left.matrix, n_columns), widen(right.matrix, n_columns)
            matrix = a + b if sign > 0 else a - b
            return Expression(self.space, shape, matrix, left.constant + sign * right.constant)
        number = _numbers(other)
        shape = _common_shape(self.shape, number.shape)
        left = self._broadcast(shape)
        constant = left.constant + sign * np.broadcast_to(number, shape).ravel()
        return Expression(self.space, shape, left.matrix, constant)

    def __add__(self, other: Any) -> Expression:
        return self._add(other, 1.0)

    def __radd__(self, other: Any) -> Expression:
        return self._add(other, 1.0)

    def __sub__(self, other: Any) -> Expression:
        return self._add(other, -1.0)

    def __rsub__(self, other: Any) -> Expression:
        return (-self)._add(other, 1.0)

    def __neg__(self) -> Expression:
        return Expression(self.space, self.shape, -self.matrix, -self.constant)

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            raise DeclarationError(
                "A product of two expressions is not linear. For 0/1 variables declare p = a*b with the rows "
                "p <= a, p <= b, p >= a + b - 1."
            )
        factor = _finite(_numbers(other), "factor")
        shape = _common_shape(self.shape, factor.shape)
        left = self._broadcast(shape)
        scale = np.broadcast_to(factor, shape).ravel()
        data = left.matrix.data * np.repeat(scale, np.diff(left.matrix.indptr))
        matrix = sp.csr_array((data, left.matrix.indices, left.matrix.indptr), shape=left.matrix.shape)
        return Expression(self.space, shape, matrix, left.constant * scale)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            raise DeclarationError("A quotient of expressions is not linear; multiply the row out instead.")
        divisor = _numbers(other)
        if np.any(divisor == 0):
            raise DeclarationError("Division of an expression by zero.")
        return self * (1.0 / divisor)

    def __matmul__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            raise DeclarationError("A matrix product of two expressions is not linear.")
        factor = _factor(other)
        if not self.shape or self.shape[-1] != factor.shape[0]:
            raise DeclarationError(f"Shapes {self.shape} @ {np.shape(other)} do not match.")
        lead = self.shape[:-1]
        n_lead = int(np.prod(lead, dtype=np.int64))
        operator = sp.kron(sp.eye_array(n_lead), factor.T, format="csr") if lead else factor.T.tocsr()
        shape = lead + ((factor.shape[1],) if _ndim(other) == 2 else ())
        return Expression(self.space, shape, operator @ self.matrix, operator @ self.constant)

    def __rmatmul__(self, other: Any) -> Expression:
        factor = _factor(other)
        factor = factor.T.tocsr() if _ndim(other) == 1 else factor
        if self.ndim not in (1, 2) or self.shape[0] != factor.shape[1]:
            raise DeclarationError(f"Shapes {np.shape(other)} @ {self.shape} do not match.")
        tail = self.shape[1:]
        operator = sp.kron(factor, sp.eye_array(tail[0]), format="csr") if tail else factor
        shape = ((factor.shape[0],) if _ndim(other) == 2 else ()) + tail
        return Expression(self.space, shape, operator @ self.matrix, operator @ self.constant)

    # ---- comparison ------------------------------------------------------------------------------

    def __le__(self, other: Any) -> Rows:
        return _compare(self, other, -np.inf, 0.0)

    def __ge__(self, other: Any) -> Rows:
        return _compare(self, other, 0.0, np.inf)

    def __eq__(self, other: Any) -> Rows:  # type: ignore[override]
        return _compare(self, other, 0.0, 0.0)

    def __ne__(self, other: Any) -> NoReturn:
        raise DeclarationError("'!=' is not a linear row; forbid single labels with oracle.maximize(..., forbid=[z]).")

    def __lt__(self, other: Any) -> NoReturn:
        raise DeclarationError("A row is never strict: write '<=' (for integers: a <= b - 1).")

    def __gt__(self, other: Any) -> NoReturn:
        raise DeclarationError("A row is never strict: write '>=' (for integers: a >= b + 1).")

    def __bool__(self) -> NoReturn:
        raise DeclarationError("An expression has no truth value; compare it inside space.subject_to(...).")

    def between(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Rows:
        """Double-bounded rows ``lower <= self <= upper``.

        Parameters
        ----------
        lower : array_like
        upper : array_like

        Returns
        -------
        Rows
            To be given to `LabelSpace.subject_to`.

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace()
        >>> y = space.binary("y", 5)
        >>> space.subject_to(y.sum().between(1, 3), name="one to three")
        """
        low, up = _numbers(lower), _numbers(upper)
        shape = _common_shape(_common_shape(self.shape, low.shape), up.shape)
        body = self._broadcast(shape)
        low, up = np.broadcast_to(low, shape).ravel(), np.broadcast_to(up, shape).ravel()
        return Rows(body.space, shape, body.matrix, low - body.constant, up - body.constant)


def concatenate(expressions: Sequence[Expression], axis: int = 0) -> Expression:
    """Join expressions of one space along an axis, as `numpy.concatenate` does.

    Parameters
    ----------
    expressions : sequence of Expression
    axis : int

    Returns
    -------
    Expression

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> a, b = space.binary("a", 2), space.binary("b", 3)
    >>> so.concatenate([a, b]).shape
    (5,)
    """
    expressions = sequence("expressions", expressions)
    for part in expressions:
        instance("What is concatenated", part, Expression)
    if not len(expressions):
        raise DeclarationError("Nothing to concatenate.")
    axis = whole("axis", axis)
    space = expressions[0].space
    if any(e.space is not space for e in expressions):
        raise SpaceMismatch("The expressions to concatenate belong to different spaces.")
    starts = np.cumsum([0] + [e.size for e in expressions])
    numbers = [np.arange(e.size).reshape(e.shape) + s for e, s in zip(expressions, starts, strict=False)]
    try:
        order = np.concatenate(numbers, axis=axis)
    except (ValueError, IndexError, OverflowError) as error:
        raise DeclarationError(f"axis {axis} of expressions to concatenate: {error}.") from None
    n_columns = max(e.matrix.shape[1] for e in expressions)
    matrix = sp.vstack([widen(e.matrix, n_columns) for e in expressions], format="csr")
    constant = np.concatenate([e.constant for e in expressions])
    return Expression(space, (int(starts[-1]),), matrix, constant)._rows(order)


def _compare(left: Expression, right: Any, lower: float, upper: float) -> Rows:
    if isinstance(right, Rows):
        right._compared_again(left)
    if isinstance(right, Expression):
        body = left - right
        return Rows(body.space, body.shape, body.matrix, lower - body.constant, upper - body.constant)
    bound = _numbers(right)
    shape = _common_shape(left.shape, bound.shape)
    body = left._broadcast(shape)
    limit = np.broadcast_to(bound, shape).ravel() - body.constant
    # `e <= inf` is a row that never binds; keep infinities on their own side only.
    low = limit if lower == 0.0 else np.full(body.size, -np.inf)
    up = limit if upper == 0.0 else np.full(body.size, np.inf)
    return Rows(body.space, shape, body.matrix, low, up)


def _positions(shape: Shape, key: Any) -> npt.NDArray[np.intp]:
    """Flat positions that numpy indexing with `key` selects, in the result's shape."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) == len(shape) and all(isinstance(k, int | np.integer) for k in keys):
        # A single element: O(1), so that Python loops over a large block stay linear.
        wrapped = tuple(int(k) + n if k < 0 else int(k) for k, n in zip(keys, shape, strict=True))
        if all(0 <= k < n for k, n in zip(wrapped, shape, strict=True)):
            return np.array(np.ravel_multi_index(wrapped, shape))
    try:
        return np.asarray(np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)[key])
    except (IndexError, TypeError, ValueError) as error:
        raise IndexError(f"{error} (an expression of shape {shape})") from None


def _common_shape(a: Shape, b: Shape) -> Shape:
    if a == b:
        return a
    try:
        common = np.broadcast_shapes(a, b)
    except ValueError:
        raise DeclarationError(f"Shapes {a} and {b} do not broadcast together.") from None
    # A single number is one for each entry, however many there are: p <= 1 for the pairs of a graph without edges.
    if 0 in common and a and b and (0 not in a or 0 not in b):
        raise DeclarationError(f"Shapes {a} and {b} leave nothing: one of them is empty.")
    return common


def _numbers(value: Any) -> FloatArray:
    if sp.issparse(value):
        value = value.toarray()
    array = converted("A number in an expression", value)
    if np.isnan(array).any():
        raise DeclarationError("NaN in an expression; check the array it is combined with.")
    return array


def _finite(array: FloatArray, what: str) -> FloatArray:
    if not np.isfinite(array).all():
        raise DeclarationError(f"Infinite {what} in an expression; coefficients must be finite.")
    return array


def _ndim(value: Any) -> int:
    return 2 if sp.issparse(value) and getattr(value, "ndim", 2) == 2 else np.ndim(value)


def _factor(value: Any) -> sp.csr_array:
    """A dense or sparse matrix operand as CSR; a vector becomes one column."""
    if sp.issparse(value):
        matrix = sp.csr_array(value).astype(np.float64)
        if matrix.ndim == 1:
            matrix = matrix.reshape((-1, 1)).tocsr()
        if not np.isfinite(matrix.data).all():
            raise DeclarationError("NaN or infinite entry in a sparse matrix factor.")
        return matrix
    array = _finite(_numbers(value), "matrix factor")
    if array.ndim not in (1, 2):
        raise DeclarationError(f"A matrix factor must have one or two axes, got shape {array.shape}.")
    return sp.csr_array(array[:, None] if array.ndim == 1 else array)

"""Lazy rows: inequalities of a space that are too many to list, found by a separation function where they are violated.

A separation gets a point and returns rows that it violates and that every label satisfies (subtours of a tour, odd sets
of a matching, cycles of a graph). Whoever needs the labels of the space calls it: the checks of points in this room,
and the solver instances of `structopt.backends`, which add the rows found to their programs.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import shown
from structopt.errors import SeparationFailed
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.rows import Rows, canonical, widen
from structopt.space.tolerance import row_room, row_units

__all__ = ["FoundRows", "Separation", "concurrent", "described_row", "found_rows", "integral_part", "row_excess"]

#: Terms of a row that a message shows.
_MOST_TERMS = 8
#: Block of variables: its name, its shape and where it starts.
Layout = tuple[tuple[str, tuple[int, ...], int], ...]


Function = TypeVar("Function", bound=Callable[..., Any])


def concurrent(separate: Function) -> Function:
    """Mark a separation that threads may call at once: it has no state, and its kernels run side by side."""
    vars(separate)["concurrent"] = True
    return separate


class _Lock:
    """A lock that is copied and pickled as a new one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[_Lock], tuple[()]]:
        return _Lock, ()


@dataclass(frozen=True, eq=False)
class Separation:
    """A separation function with what a space knows of it.

    Attributes
    ----------
    separate : callable
        ``separate(z)``, with the point by blocks, returns violated rows.
    name : str
        What its rows are called in messages.
    integral_only : bool
        Whether it may be called at integral points only.
    max_rounds : int
        Rounds of solving and separating after which a call returns a bound.
    token : str
        What tells it from other functions, for the fingerprint of a space.
    layout : tuple
        The blocks of the compiled space.
    lock : context manager
        Held during a call, by all copies: a function may use global arrays within a call. Functions of Python do not
        run side by side anyway; one that does, in kernels, has the attribute ``concurrent = True`` and is not locked.
    """

    separate: Callable[[dict[str, FloatArray]], Any]
    name: str
    integral_only: bool
    max_rounds: int
    token: str
    layout: Layout = ()
    lock: _Lock = field(default_factory=_Lock)

    @classmethod
    def of(cls, separate: Callable[..., Any], name: str, integral_only: bool, max_rounds: int) -> Separation:
        return cls(separate, name, integral_only, max_rounds, _token(separate))

    def placed(self, layout: Layout) -> Separation:
        """The same separation for the blocks of a space as it stands."""
        return self if self.layout else replace(self, layout=layout)

    def __call__(self, space: CompiledSpace, point: FloatArray) -> list[tuple[sp.csr_array, FloatArray, FloatArray]]:
        """The rows that the function returns at a point, checked in form only."""
        shielded = point.copy()
        shielded.flags.writeable = False
        blocks = {
            name: shielded[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)
            for name, shape, start in self.layout
        }
        try:
            if getattr(self.separate, "concurrent", False) is True:
                return list(self._rows(space, self.separate(blocks)))
            with self.lock:  # also while what it returned is consumed: that may be a generator
                return list(self._rows(space, self.separate(blocks)))
        except SeparationFailed:
            raise
        except Exception as error:
            raise SeparationFailed(
                f"The separation {self.name!r} raised {type(error).__name__}: {error} (the point is the exception's "
                "attribute point).",
                self.name,
                point,
            ) from error

    # ---- what it returned ------------------------------------------------------------------------

    def _rows(self, space: CompiledSpace, answer: Any) -> Iterator[tuple[sp.csr_array, FloatArray, FloatArray]]:
        if answer is None or answer is True:
            return
        if isinstance(answer, Rows):
            yield self._comparison(space, answer)
        elif isinstance(answer, tuple) and len(answer) == 3 and not _holds_rows(answer):
            yield self._triple(space, answer)
        elif isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping | np.ndarray):
            for item in answer:
                yield from self._rows(space, item)
        else:
            raise self._malformed(f"it returned {shown(answer)}")

    def _comparison(self, space: CompiledSpace, rows: Rows) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        blocks = tuple((block.name, block.shape, block.slice.start) for block in rows.space)
        if blocks != self.layout[: len(blocks)]:
            raise self._malformed(f"its rows are about variables of {rows.space!r}")
        return canonical(widen(rows.matrix, space.n_variables)), rows.lower, rows.upper

    def _triple(self, space: CompiledSpace, row: tuple[Any, Any, Any]) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        coef, low, up = row
        for part in (*coef.values(), low, up) if isinstance(coef, Mapping) else row:
            if (part.dtype if sp.issparse(part) else np.asarray(part).dtype).kind == "c":
                raise self._malformed("a row has complex numbers")
        if isinstance(coef, Mapping):
            coef = self._by_blocks(space, coef)
        matrix = sp.csr_array(coef if sp.issparse(coef) else np.atleast_2d(np.asarray(coef, dtype=np.float64)))
        n_rows, n = matrix.shape
        if n != space.n_variables:
            raise self._malformed(f"a row has {n} coefficients, the space {space.n_variables} variables")
        lower, upper = (np.broadcast_to(np.asarray(side, dtype=np.float64), (n_rows,)).copy() for side in (low, up))
        if not np.isfinite(matrix.data).all() or np.isnan(lower).any() or np.isnan(upper).any():
            raise self._malformed("a row has a NaN or an infinite coefficient, or a NaN bound")
        return canonical(matrix.astype(np.float64)), lower, upper

    def _by_blocks(self, space: CompiledSpace, coef: Mapping[str, Any]) -> FloatArray:
        vector = np.zeros(space.n_variables)
        unknown = coef.keys() - {name for name, _, _ in self.layout}
        if unknown:
            raise self._malformed(f"a row names the block {min(unknown)!r}, which the space does not have")
        for name, shape, start in self.layout:
            if name in coef:
                part = np.broadcast_to(np.asarray(coef[name], dtype=np.float64), shape)
                vector[start : start + part.size] = part.ravel()
        return vector

    def _malformed(self, what: str) -> SeparationFailed:
        return SeparationFailed(
            f"The separation {self.name!r} must return comparisons as subject_to takes them, rows (coef, lower, "
            f"upper), or nothing; {what}.",
            self.name,
        )


class FoundRows(NamedTuple):
    """Rows that separations returned at a point.

    Attributes
    ----------
    matrix : csr_array, shape (n_rows, n_variables)
    lower, upper : ndarray, shape (n_rows,)
    names : list of str
        The separation of each row.
    excess : ndarray, shape (n_rows,)
        By how much the point violates each row, in tolerances: violated where above 1, satisfied where negative.
    """

    matrix: sp.csr_array
    lower: FloatArray
    upper: FloatArray
    names: list[str]
    excess: FloatArray

    def select(self, rows: npt.NDArray[Any]) -> FoundRows:
        """Some of them, by a mask or by numbers."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return FoundRows(
            self.matrix[chosen],
            self.lower[chosen],
            self.upper[chosen],
            [self.names[int(k)] for k in chosen],
            self.excess[chosen],
        )

    @property
    def violated(self) -> npt.NDArray[np.bool_]:
        """Which of them the point violates."""
        return np.asarray(self.excess > 1.0)


def integral_part(space: CompiledSpace, point: FloatArray) -> FloatArray | None:
    """The point with its integer variables rounded (in a space without any: all); None if it is fractional."""
    marks = space.integrality if space.is_integral else np.ones(space.n_variables, dtype=np.bool_)
    nearest = np.rint(point)
    if (np.abs(point - nearest) > FEASIBILITY_TOLERANCE)[marks].any():
        return None
    return np.where(marks, nearest + 0.0, point)


def found_rows(space: CompiledSpace, z: FloatArray, tol: float = FEASIBILITY_TOLERANCE) -> FoundRows | None:
    """What the separations of a space return at a point, violated or not; None if they return nothing.

    A separation for integral points is not called at others. Values within the tolerance of an integer are rounded
    first, so that a function may compare them with 1.
    """
    rounded = integral_part(space, z)
    point = z if rounded is None else rounded
    parts: list[tuple[sp.csr_array, FloatArray, FloatArray]] = []
    names: list[str] = []
    for separation in space.separations:
        if separation.integral_only and rounded is None:
            continue
        for part in separation(space, point):
            parts.append(part)
            names += [separation.name] * len(part[1])
    if not names:
        return None
    matrix = parts[0][0] if len(parts) == 1 else sp.csr_array(sp.vstack([m for m, _, _ in parts], format="csr"))
    lower, upper = (np.concatenate([part[side] for part in parts]) for side in (1, 2))
    return FoundRows(matrix, lower, upper, names, row_excess(matrix, lower, upper, point, tol))


def row_excess(matrix: sp.csr_array, lower: FloatArray, upper: FloatArray, point: FloatArray, tol: float) -> FloatArray:
    """Return by how much a point violates rows, in multiples of the room of `structopt.space.tolerance`."""
    value = matrix @ point
    room = row_room(row_units(matrix.indptr, matrix.data), abs(matrix) @ np.abs(point), max(tol, 1e-300))
    return np.asarray(np.maximum(lower - value, value - upper) / room)


def described_row(
    names: Sequence[str],
    indices: npt.NDArray[Any],
    data: FloatArray,
    lower: float,
    upper: float,
    max_terms: int = _MOST_TERMS,
) -> str:
    """Return a row as a reader would write it, ``x[0] + x[1] <= 1``, with at most `max_terms` terms."""
    terms = []
    for j, a in zip(indices[:max_terms].tolist(), data[:max_terms].tolist(), strict=True):
        sign = "- " if a < 0 else "+ "
        terms.append(f"{sign}{'' if abs(a) == 1 else f'{abs(a):g} '}{names[j]}")
    more = f" + ... ({len(indices)} terms)" if len(indices) > max_terms else ""
    text = " ".join(terms).removeprefix("+ ") + more or "0"
    if lower == upper:
        return f"{text} == {lower:g}"
    if not np.isfinite(lower):
        return f"{text} <= {upper:g}"
    return f"{text} >= {lower:g}" if not np.isfinite(upper) else f"{lower:g} <= {text} <= {upper:g}"


def _holds_rows(answer: tuple[Any, ...]) -> bool:
    """Whether three things are three rows, and not the coefficients and bounds of one."""
    return isinstance(answer[0], Rows) or any(isinstance(part, Rows | tuple | list) for part in answer[1:])


def _token(separate: Callable[..., Any]) -> str:
    """What tells one function from another, also in the next process: its import path, code and state.

    A function that cannot be pickled (one inside another, whose variables it sees) is like no other.
    """
    try:
        content = pickle.dumps(separate, protocol=4)
    except Exception:
        return uuid.uuid4().hex
    digest = blake2b(content, digest_size=16)
    # A pickle has functions and classes by name, and the same name may hold other code, as in a notebook.
    bound = getattr(separate, "__func__", separate)
    codes = [bound] if hasattr(bound, "__code__") else []
    owner = type(getattr(separate, "__self__", separate))
    codes += [f for c in owner.__mro__ for _, f in sorted(vars(c).items()) if hasattr(f, "__code__")]
    try:
        for f in codes:
            for part in _content(f.__code__, f.__globals__):
                digest.update(part)
            digest.update(pickle.dumps((f.__defaults__, f.__kwdefaults__), protocol=4))
    except Exception:
        return uuid.uuid4().hex
    return digest.hexdigest()


def _content(code: CodeType, known: Mapping[str, Any]) -> Iterator[bytes]:
    """What a function does: its code with that inside it, its constants, and the data of its module that it reads."""
    yield code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _content(constant, known)
        else:  # the order of a set is another one in the next process
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant).encode()
    for name in code.co_names:
        value = known.get(name)
        if name in known and not callable(value) and not isinstance(value, ModuleType):
            yield pickle.dumps((name, value), protocol=4)

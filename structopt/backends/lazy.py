"""Lazy rows in solvers: a pool of the rows found, and instances that solve and separate until nothing is violated.

A row that a separation finds holds for every label, whatever the objective. So the rows found are kept in a pool that
all calls and threads of an oracle share, and every instance keeps them loaded below the rows of its space: the dual
simplex method goes on from the last basis, and later calls find fewer and fewer rows.

The optimum over the rows found so far is an upper bound of the optimum over the labels in every round, so that a call
which a limit stops still proves something.
"""

from __future__ import annotations

import math
import threading
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.backends.base import Backend, Capability, SideConstraints, Solution, Status
from structopt.backends.checking import HOLDS
from structopt.backends.instance import SolverInstance
from structopt.errors import SeparationFailed
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.lazy import FoundRows, described_row, found_rows
from structopt.space.tolerance import broken_rows, row_holds
from structopt.stopping import deadline, time_left

__all__ = ["LazyInstance", "RowPool"]

#: Rows that a pool keeps, and calls after which a row that was tight at no optimum is dropped.
_MOST_ROWS, _OLDEST = 10_000, 2_000
#: Rows in a backend that the pool has dropped, at which the backend is loaded anew (if they are the half of its rows).
_MOST_DROPPED = 100
#: Labels that separations have accepted, and sets of labels that were given, kept to find out separations that later
#: contradict them.
_KNOWN_LABELS, _KNOWN_SETS = 32, 8
#: Slack of a returned row, in tolerances, below which it is called satisfied.
_SATISFIED = -1e-3


@dataclass(slots=True, eq=False)
class PooledRow:
    """One row of the pool: ``lower <= data . z[indices] <= upper``."""

    number: int
    name: str
    indices: Any
    data: FloatArray
    lower: float
    upper: float
    last_tight: int


class RowPool:
    """The rows that the separations of one space have found, shared by all solver instances of an oracle.

    Of rows with the same coefficients (up to a factor) only the tightest is kept. A row that was tight at none of the
    last calls is dropped, and so are the oldest if there are too many.

    Parameters
    ----------
    space : CompiledSpace
        With separations.
    max_rows : int
    max_age : int
        Calls for which a row may be slack.

    Attributes
    ----------
    found : int
        Rows that separations returned and that were violated.
    rounds : int
        Calls of the separations by solver instances.
    ignored : int
        Rows that they returned although the point satisfies them.
    history : ndarray of int
        Rows found in each call, in the order in which the calls ended: in training they become fewer and fewer, which
        `structopt.plot.lazy_rows` shows.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("at most one")
    >>> y = space.binary("y", 3)
    >>> space.lazy(lambda z: y.sum() <= 1 if z["y"].sum() > 1 else None)
    >>> oracle = so.Oracle(space)
    >>> oracle.maximize([1.0, 3.0, 2.0]).value
    3.0
    >>> oracle.lazy_rows
    <RowPool: 1 row; 1 found in 2 rounds, 0 ignored>
    """

    def __init__(self, space: CompiledSpace, max_rows: int = _MOST_ROWS, max_age: int = _OLDEST) -> None:
        self.space = space
        self.max_rows, self.max_age = max_rows, max_age
        self.found = self.rounds = self.ignored = 0
        #: Grows with every change of the rows.
        self.version = 0
        self._lock = threading.Lock()
        self._numbers = count()
        self._rows: dict[int, PooledRow] = {}
        self._by_key: dict[bytes, int] = {}
        self._calls = 0
        self._history = array("i")  # four bytes a call
        self._warned = False
        self._known: list[tuple[FloatArray, Callable[[int], str]]] = []
        self._accepted: list[FloatArray] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        rows = f"{len(self)} row{'' if len(self) == 1 else 's'}"
        return f"<RowPool: {rows}; {self.found} found in {self.rounds} rounds, {self.ignored} ignored>"

    @property
    def rows(self) -> list[PooledRow]:
        """The rows of the pool, the oldest first."""
        with self._lock:
            return list(self._rows.values())

    @property
    def program(self) -> CompiledSpace:
        """The listed rows of the space, and those of the pool below them."""
        space, rows = self.space.rows_only(), self.rows
        if not rows:
            return space
        matrix, lower, upper = self.matrix(rows)
        return replace(
            space,
            matrix=sp.csr_array(sp.vstack([space.matrix, matrix], format="csr")),
            row_lower=np.concatenate([space.row_lower, lower]),
            row_upper=np.concatenate([space.row_upper, upper]),
            row_names=[*space.row_names, *(self.described(row) for row in rows)],
        )

    def matrix(self, rows: Sequence[PooledRow]) -> SideConstraints:
        """Rows as arrays."""
        starts = np.concatenate([[0], np.cumsum([len(row.indices) for row in rows])]).astype(np.int32)
        matrix = sp.csr_array(
            (
                np.concatenate([row.data for row in rows]) if rows else np.zeros(0),
                np.concatenate([row.indices for row in rows]) if rows else np.zeros(0, dtype=np.int32),
                starts,
            ),
            shape=(len(rows), self.space.n_variables),
        )
        return matrix, np.array([row.lower for row in rows]), np.array([row.upper for row in rows])

    def described(self, row: PooledRow) -> str:
        """A row for messages."""
        written = described_row(self.space.variable_names, row.indices, row.data, row.lower, row.upper)
        return f"{row.name} ({written})"

    # ---- rows come and go ------------------------------------------------------------------------

    def separate(self, z: FloatArray) -> list[PooledRow]:
        """The rows that `z` violates, which are in the pool from now on; empty if it violates none."""
        answer = found_rows(self.space, z)
        with self._lock:
            self.rounds += 1
        if answer is None:
            return []
        violated = answer.violated
        if not violated.all():
            self._ignore(answer.select(~violated))
        return self.add(answer.select(violated)) if violated.any() else []

    def add(self, found: FoundRows) -> list[PooledRow]:
        """Take violated rows in, and return them as the pool has them.

        Raises
        ------
        SeparationFailed
            If one of them cuts off a label that is known to be in the space.
        """
        self._check_known(found)
        taken = []
        with self._lock:
            self.found += len(found.lower)
            for k, name in enumerate(found.names):
                part = slice(found.matrix.indptr[k], found.matrix.indptr[k + 1])
                indices, data = found.matrix.indices[part], found.matrix.data[part]
                taken.append(self._take(name, indices, data, float(found.lower[k]), float(found.upper[k])))
        return taken

    def _take(self, name: str, indices: Any, data: FloatArray, lower: float, upper: float) -> PooledRow:
        if not len(data):
            raise SeparationFailed(f"The separation {name!r} returned a row without variables that is false.", name)
        factor = float(data[np.abs(data).argmax()])  # with its sign, so that x <= 1 and -x >= -1 are one row
        key = indices.astype(np.int64).tobytes() + (np.round(data / factor, 12) + 0.0).tobytes()
        known = self._rows.get(self._by_key.get(key, -1))
        if known is not None:
            ratio = factor / float(known.data[np.abs(known.data).argmax()])
            ends = sorted((lower / ratio, upper / ratio))
            low, up = max(ends[0], known.lower), min(ends[1], known.upper)
            if low <= known.lower and up >= known.upper:
                known.last_tight = self._calls
                return known  # a duplicate, or dominated
            if low <= up:  # else the two contradict each other, and a solver is to see both
                del self._rows[known.number]  # dominated by the new one
                indices, data, lower, upper = known.indices, known.data, low, up
        row = PooledRow(next(self._numbers), name, indices.copy(), data.copy(), lower, upper, self._calls)
        self._rows[row.number] = row
        self._by_key[key] = row.number
        self.version += 1
        return row

    def begin_call(self) -> None:
        """Count a call, and drop rows that are too old or too many."""
        with self._lock:
            self._calls += 1
            oldest = self._calls - self.max_age
            if self._calls % 64 and len(self._rows) <= self.max_rows:
                return
            kept = [row for row in self._rows.values() if row.last_tight >= oldest]
            if len(kept) > self.max_rows:
                kept = sorted(kept, key=lambda row: row.last_tight)[-self.max_rows // 2 :]
                kept.sort(key=lambda row: row.number)
            if len(kept) < len(self._rows):
                self._rows = {row.number: row for row in kept}
                self._by_key = {key: number for key, number in self._by_key.items() if number in self._rows}
                self.version += 1

    def end_call(self, found: int) -> None:
        """Note how many rows a call has found."""
        self._history.append(found)  # atomic

    @property
    def history(self) -> IntArray:
        """Rows found in each call."""
        return np.array(self._history, dtype=np.int64)

    def mark_tight(self, rows: Sequence[PooledRow], tight: IntArray) -> None:
        """Note that the rows with these numbers hold with equality at an optimum of the present call."""
        for k in tight.tolist():
            rows[k].last_tight = self._calls  # a single assignment: no lock needed

    def live(self, numbers: Iterable[int]) -> tuple[int, list[PooledRow], int]:
        """The version, the rows that are not among `numbers`, and how many of `numbers` were dropped."""
        with self._lock:
            held = set(numbers)
            missing = [row for number, row in self._rows.items() if number not in held]
            return self.version, missing, len(held) - (len(self._rows) - len(missing))

    def _ignore(self, rows: FoundRows) -> None:
        with self._lock:
            self.ignored += len(rows.lower)
            warn = not self._warned and bool((rows.excess < _SATISFIED).any())
            self._warned |= warn
        if warn:
            name = rows.names[int(np.argmin(rows.excess))]
            warnings.warn(
                f"The separation {name!r} returned a row that the point satisfies; such rows are ignored. It is to "
                "return violated rows only (this warning is given once).",
                UserWarning,
                stacklevel=2,
            )

    # ---- labels that no row may cut off ----------------------------------------------------------

    def know(self, Z: FloatArray, called: Callable[[int], str]) -> None:
        """Note labels of the space (one per row of `Z`): a row that cuts one off is an error from now on.

        Parameters
        ----------
        Z : ndarray, shape (n, n_variables)
        called : callable
            ``called(i)`` names label i in messages.
        """
        with self._lock:
            self._known.append((Z, called))
            del self._known[:-_KNOWN_SETS]
        rows = self.rows
        if rows:
            matrix, lower, upper = self.matrix(rows)
            self._check(Z, called, matrix, lower, upper, [row.name for row in rows])

    def accept(self, z: FloatArray) -> None:
        """Note a label at which the separations found nothing."""
        with self._lock:
            self._accepted.append(z.copy())
            del self._accepted[:-_KNOWN_LABELS]

    def _check_known(self, found: FoundRows) -> None:
        with self._lock:
            known, accepted = list(self._known), list(self._accepted)
        for Z, called in known:
            self._check(Z, called, found.matrix, found.lower, found.upper, found.names)
        if accepted:
            labels = np.array(accepted)
            self._check(
                labels, lambda i: "a label that it accepted before", found.matrix, found.lower, found.upper, found.names
            )

    def _check(
        self, Z: FloatArray, called: Callable[[int], str], matrix: Any, lower: Any, upper: Any, names: Sequence[str]
    ) -> None:
        off = broken_rows(matrix, lower, upper, Z, FEASIBILITY_TOLERANCE)
        if not off.any():
            return
        i, k = (int(number) for number in np.argwhere(off)[0])
        part = slice(matrix.indptr[k], matrix.indptr[k + 1])
        ends = float(lower[k]), float(upper[k])
        row = described_row(self.space.variable_names, matrix.indices[part], matrix.data[part], *ends)
        raise SeparationFailed(
            f"The separation {names[k]!r} returned a row that cuts off {called(i)}: {row}, where the label has "
            f"{(matrix @ Z[i])[k]:g}. A row must hold for every label of the space.",
            names[k],
            np.array(Z[i]),
        )


class _Loaded:
    """A backend with rows of the pool below those of its space."""

    def __init__(self, backend: Backend, pool: RowPool, loadable: Callable[[SideConstraints], SideConstraints]) -> None:
        self.backend = backend
        self.pool = pool
        self._loadable = loadable
        self.rows: list[PooledRow] = []
        self._version = -1
        self._matrix: SideConstraints | None = None
        #: Equal for the same rows in the same order: bases fit each other.
        self.stamp = 0

    def update(self) -> None:
        """Load what the pool has got since; everything anew where much was dropped."""
        if self._version == self.pool.version:
            return
        version, missing, n_dropped = self.pool.live(row.number for row in self.rows)
        if n_dropped > max(_MOST_DROPPED, len(self.rows) // 2):
            self.backend.remove_rows()
            self.rows, self.stamp, self._matrix = [], 0, None
            version, missing, _ = self.pool.live(())
        self.add(missing)
        self._version = version

    def add(self, rows: Sequence[PooledRow]) -> bool:
        """Load rows; False if the backend has all of them already."""
        held = {row.number for row in self.rows}
        new = [row for row in {row.number: row for row in rows}.values() if row.number not in held]
        if new:
            self._load(new)
            self.rows += new
            self._matrix = None
            self.stamp = hash((self.stamp, *(row.number for row in new)))
        return bool(new)

    @property
    def matrix(self) -> SideConstraints:
        """The rows of the pool that are loaded."""
        if self._matrix is None:
            self._matrix = self.pool.matrix(self.rows)
        return self._matrix

    @contextmanager
    def constrained(self, extra: SideConstraints | None) -> Iterator[None]:
        """With the side constraints of one call; afterwards with the pool's rows alone, and the basis from before."""
        if extra is None:
            yield
            return
        before, basis = list(self.rows), self.backend.get_basis()
        self.backend.add_rows(*self._loadable(extra))
        try:
            yield
        finally:
            since = self.rows[len(before) :]
            self.backend.remove_rows()
            if before:
                self._load(before)
            if basis is not None:
                self.backend.set_basis(basis)
            if since:
                self._load(since)

    def _load(self, rows: Sequence[PooledRow]) -> None:
        self.backend.add_rows(*self._loadable(self.pool.matrix(rows)))

    def finish(self, z: FloatArray) -> None:
        """Note which rows are tight at the optimum of a call."""
        if self.rows:
            matrix, lower, upper = self.matrix
            tight = _tight(z, matrix.indptr, matrix.indices, matrix.data, lower, upper, FEASIBILITY_TOLERANCE)
            self.pool.mark_tight(self.rows, tight)


class LazyInstance(SolverInstance):
    """A solver instance that separates: LP rounds until nothing is violated, then, if need be, MIP rounds.

    A backend with `Capability.LAZY_ROWS` separates in the nodes of its own search, in one run of the MIP.

    Parameters
    ----------
    space : CompiledSpace
        With separations.
    integral : {"auto", "relax", "force"}
    make : callable
        Makes the backend of a space.
    pool : RowPool
        Of all instances of an oracle.
    """

    def __init__(
        self, space: CompiledSpace, integral: str, make: Callable[[CompiledSpace], Backend], pool: RowPool
    ) -> None:
        super().__init__(space, integral, make)
        self._pool = pool
        self._max_rounds = max(separation.max_rounds for separation in space.separations)
        self._cuts_fractions = any(not separation.integral_only for separation in space.separations)
        self._loaded: dict[int, _Loaded] = {}
        self._last: FloatArray | None = None
        self._runs, self._n_found = [0, 0], 0

    def forget(self) -> None:
        super().forget()
        self._last = None

    def basis(self) -> tuple[Any, Any]:
        if self._lp is None:
            return None, None
        return self._lp.get_basis(), self._load(self._lp).stamp

    def solve(
        self,
        costs: FloatArray,
        extra: SideConstraints | None,
        basis: tuple[Any, Any] | None,
        start: FloatArray | None,
    ) -> tuple[Solution, int, int]:
        self._runs, self._n_found = [0, 0], 0
        self._pool.begin_call()
        limit = self.prepare().options.get("time_limit")
        with deadline(None if limit is None else float(limit)):
            found = self._solve(costs, extra, basis, start)
        self._pool.end_call(self._n_found)
        return found, self._runs[0], self._runs[1]

    def _solve(
        self,
        costs: FloatArray,
        extra: SideConstraints | None,
        basis: tuple[Any, Any] | None,
        start: FloatArray | None,
    ) -> Solution:
        relaxation = Solution(Status.FAILED, None)
        # A MIP solver that asks for rows itself does so at the optima of its own LPs.
        asks = bool(Capability.LAZY_ROWS & self.prepare().capabilities) and not self._relax_only
        if not asks and (not self._mip_only or self._cuts_fractions):
            relaxation = self._lp_rounds(costs, extra, basis)
            if self._relax_only:
                return self.verified(costs, relaxation, extra)
            if relaxation.status is Status.UNBOUNDED:
                return self._without_label(relaxation, costs, extra)
            if relaxation.status is Status.INFEASIBLE:
                return relaxation
            if relaxation.status is Status.OPTIMAL and not self._mip_only and relaxation.z is not None:
                rows = self._joined(self._load(self._lp_backend()), extra)
                if self._checker.snap(costs, relaxation.z, rows) == HOLDS:
                    self._accept(relaxation.z)
                    return relaxation
        known = self._known_label(costs, extra, start)
        if relaxation.status is Status.TIME_LIMIT and time_left() <= 0.0:
            exact = replace(relaxation, z=None)
        else:
            exact = self._mip_rounds(costs, extra, known)
        if exact.status is Status.UNBOUNDED:
            return self._without_label(exact, costs, extra)
        if exact.status is Status.TIME_LIMIT and exact.z is None:
            fallback = known if known is not None else self._rounded(costs, relaxation.z, extra)
            exact = replace(exact, z=fallback)
        if exact.bound > relaxation.bound and exact.status in (Status.OPTIMAL, Status.TIME_LIMIT):
            exact = replace(exact, bound=relaxation.bound)
        return exact

    # ---- the rounds ------------------------------------------------------------------------------

    def _lp_rounds(self, costs: FloatArray, extra: SideConstraints | None, basis: tuple[Any, Any] | None) -> Solution:
        """Solve the LP, add what its optimum violates, and go on from the basis, until it violates nothing."""
        loaded = self._load(self._lp_backend())
        loaded.update()
        backend, bound, iterations = loaded.backend, math.inf, 0
        backend.set_costs(costs)
        if basis is not None and basis[0] is not None and basis[1] == loaded.stamp:
            backend.set_basis(basis[0])
        with loaded.constrained(extra):
            for _ in range(self._max_rounds):
                found = backend.run()
                self._runs[0] += 1
                iterations += found.iterations
                if found.status is not Status.OPTIMAL or found.z is None:
                    return replace(found, bound=min(bound, found.bound), iterations=iterations)
                bound = min(bound, found.bound)  # fewer rows, larger optimum: every round's is a bound
                violated = self._separate(found.z)
                # A row that the backend has and that is violated all the same is a matter of the solver's precision.
                if not violated or not loaded.add(violated):
                    loaded.finish(found.z)
                    return replace(found, bound=bound, iterations=iterations)
                if time_left() <= 0.0:
                    break
        # What the relaxation is asked for is a bound, and its point has that value. A label it is not.
        z = found.z if self._relax_only else None
        return Solution(Status.TIME_LIMIT, z, bound, iterations, self._stopped())

    def _mip_rounds(self, costs: FloatArray, extra: SideConstraints | None, start: FloatArray | None) -> Solution:
        """Solve the MIP and add what its optimum violates, until it is a label.

        A backend with lazy-constraint callbacks asks for rows inside its search, so that one round will do.
        """
        loaded = self._load(self._mip_backend())
        loaded.update()
        backend, bound, iterations = loaded.backend, math.inf, 0
        first = start if Capability.MIP_START & backend.capabilities else None
        backend.set_costs(costs)
        with loaded.constrained(extra):
            for _ in range(self._max_rounds):
                if Capability.LAZY_ROWS & backend.capabilities:
                    found = backend.run_lazily(self._violated, first, self._max_rounds)
                else:
                    found = backend.run(first)
                self._runs[1] += 1
                iterations += found.iterations
                found = self._checked(found, costs, self._joined(loaded, extra))
                bound = min(bound, found.bound)
                if found.z is None or found.status not in (Status.OPTIMAL, Status.TIME_LIMIT):
                    return replace(found, bound=bound, iterations=iterations)
                violated = self._separate(found.z)
                if not violated or not loaded.add(violated):
                    loaded.finish(found.z)
                    self._accept(found.z)
                    return replace(found, bound=bound, iterations=iterations)
                if time_left() <= 0.0 or found.status is Status.TIME_LIMIT:
                    break
        return Solution(Status.TIME_LIMIT, None, bound, iterations, self._stopped())

    def _violated(self, z: FloatArray) -> SideConstraints | None:
        """The rows that a point violates, for a backend that asks during its search."""
        rows = self._separate(z)
        return self._loadable(self._pool.matrix(rows)) if rows else None

    def _separate(self, z: FloatArray) -> list[PooledRow]:
        rows = self._pool.separate(z)
        self._n_found += len(rows)
        return rows

    def _without_label(self, solution: Solution, costs: FloatArray, extra: SideConstraints | None) -> Solution:
        if solution.status is not Status.UNBOUNDED or not self._space.is_integral:
            return solution
        some = self._mip_rounds(np.zeros_like(costs), extra, None)
        return some if some.status is Status.INFEASIBLE else solution

    def _stopped(self) -> str:
        rounds = self._runs[0] + self._runs[1]
        why = "the time limit" if time_left() <= 0.0 else f"max_rounds={self._max_rounds}"
        return f"{why} after {rounds} rounds of lazy rows"

    def _load(self, backend: Backend) -> _Loaded:
        loaded = self._loaded.get(id(backend))
        if loaded is None:
            loaded = self._loaded[id(backend)] = _Loaded(backend, self._pool, self._loadable)
        return loaded

    def _joined(self, loaded: _Loaded, extra: SideConstraints | None) -> SideConstraints | None:
        if not loaded.rows:
            return extra
        rows = loaded.matrix
        if extra is None:
            return rows
        matrix = sp.csr_array(sp.vstack([extra[0], rows[0]], format="csr"))
        return matrix, np.concatenate([extra[1], rows[1]]), np.concatenate([extra[2], rows[2]])

    # ---- labels ----------------------------------------------------------------------------------

    def _accept(self, z: FloatArray) -> None:
        self._last = z.copy()
        self._pool.accept(z)

    def _known_label(
        self, costs: FloatArray, extra: SideConstraints | None, start: FloatArray | None
    ) -> FloatArray | None:
        """A label to start the MIP from: the caller's, or the last one found, if it satisfies the side constraints."""
        for label in (start, self._last):
            if label is not None:
                z = label.copy()
                if self._checker.holds(costs, z, extra) and not self._breaks(z):
                    return z
        return None

    def _rounded(self, costs: FloatArray, z: FloatArray | None, extra: SideConstraints | None) -> FloatArray | None:
        label = super()._rounded(costs, z, extra)
        return None if label is None or self._breaks(label) else label

    def _breaks(self, z: FloatArray) -> bool:
        found = found_rows(self._space, z)
        return found is not None and bool(found.violated.any())


@kernel
def _tight(
    z: FloatArray,
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    tolerance: float,
) -> IntArray:
    """Return the rows that `z` violates, or whose slack is below the room of `structopt.space.tolerance`."""
    tight = np.zeros(len(lower), dtype=np.int64)
    n_tight = 0
    for i in range(len(lower)):
        value, size, unit = 0.0, 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            term = data[k] * z[indices[k]]
            value += term
            size += abs(term)
            unit = max(unit, abs(data[k]))
        # With the room on the other side of the bounds: tight rows do not hold.
        if not row_holds(value, size, min(1.0, unit), lower[i], upper[i], -tolerance):
            tight[n_tight] = i
            n_tight += 1
    return tight[:n_tight]

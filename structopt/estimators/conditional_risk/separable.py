"""Minimise a weighted sum of absolute differences over a polytope, with weights of any sign.

    min over y in P of   sum_j phi_j(y_j),     phi_j(t) = sum_i w_i |t - t_ij|

This is the inference problem of conditional risk under the absolute loss (ECRM 6.2). Each phi_j is piecewise linear.
With non-negative weights it is convex and the problem is a linear program with a variable for each linear piece. The
weights of kernel ridge regression may be negative, and then it is not convex. It is still solved to a proved gap: the
convex envelope of phi_j on an interval is the lower hull of its break points, so that an LP bounds the optimum from
below, its answer is feasible and bounds it from above, and cutting an interval in two where both differ most tightens
the envelopes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.backends.base import Status
from structopt.errors import DeclarationError, InfeasibleSpace, SolverFailed, UnboundedObjective
from structopt.estimators.conditional_risk.piecewise import (
    absolute_sums,
    all_convex,
    coarse,
    envelopes,
    interpolate,
    pieces,
    refine,
)
from structopt.oracle import Oracle
from structopt.programs.linear import MovingBounds
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["AbsoluteProgram", "SeparableSolution", "variable_ranges"]

# Pieces that a variable starts with, and that each piece beside the answer is split into; room for both in the smallest
# program. Three programs do for 1,000 break points.
_PIECES, _ROOM = 16, 48

Functions = tuple[FloatArray, FloatArray, IntArray]  # break points, values, start of each function
Box = tuple[FloatArray, FloatArray, int, float]  # lower and upper ends, which variable to cut, and where


@dataclass(frozen=True, eq=False)
class SeparableSolution:
    """A point with its value and a proved lower bound on the optimum.

    Attributes
    ----------
    z : ndarray, shape (n_variables,)
    value, bound : float
    n_programs : int
        Linear programs solved.
    convex : bool
        Whether all of the one-variable functions were convex.
    """

    z: FloatArray
    value: float
    bound: float
    n_programs: int
    convex: bool

    @property
    def gap(self) -> float:
        """How far the value may be from the optimum, relative to it."""
        return max(self.value - self.bound, 0.0) / max(abs(self.value), 1e-12)


class AbsoluteProgram:
    """``min sum_i w_i |y - truth_i|_1`` over a polytope, for many weight vectors w.

    Parameters
    ----------
    space : CompiledSpace
        A bounded polytope without integer variables.
    columns : slice
        The variables that are compared; the others have no objective.
    truths : ndarray, shape (m, n_columns)
    rtol : float
        Relative gap at which the search stops.
    max_programs : int
        Linear programs after which it stops with a larger gap.

    Examples
    --------
    The weighted median, on the line from 0 to 10:

    >>> import numpy as np
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.continuous("y", 1, 0, 10)
    >>> program = AbsoluteProgram(space.compiled, slice(0, 1), np.array([[1.0], [4.0], [9.0]]))
    >>> program.minimize(np.array([0.3, 0.4, 0.3])).z
    array([4.])
    >>> found = program.minimize(np.array([0.5, -0.9, 0.5]))        # not convex: the ends are better than the middle
    >>> found.z, round(found.value, 9), found.convex
    (array([9.]), -0.5, False)
    """

    def __init__(
        self,
        space: CompiledSpace,
        columns: slice,
        truths: FloatArray,
        rtol: float = 1e-3,
        max_programs: int = 200,
    ) -> None:
        if space.is_integral:
            raise DeclarationError("The absolute loss over integer variables that are not 0/1 is not supported.")
        space.refuse_lazy_rows("The program of the absolute loss")
        self.space = space
        self.columns = np.arange(space.n_variables)[columns]
        self.others = np.setdiff1d(np.arange(space.n_variables), self.columns)
        self.rtol, self.max_programs = rtol, max_programs
        low, high = variable_ranges(space, self.columns)
        self._low = np.minimum(low, truths.min(axis=0))
        self._high = np.maximum(high, truths.max(axis=0))
        self._order = np.argsort(truths, axis=0, kind="stable").T.copy()
        self._sorted = np.take_along_axis(truths, self._order.T, axis=0).T.copy()
        self._programs: dict[int, _Chords] = {}

    def minimize(self, weights: FloatArray) -> SeparableSolution:
        """The best point for these weights, with its bound."""
        phi = absolute_sums(self._sorted, self._order, weights, self._low, self._high)
        convex = bool((weights >= 0).all()) or all_convex(*phi)
        # What rounding may add up to in sums of this size is no gap.
        rounding = 1e-12 * len(self.columns) * float(np.abs(phi[1]).max())
        search = _Search(self.rtol, rounding)
        n_programs = self._explore(phi, self._low, self._high, search)
        while search.open and n_programs < self.max_programs:
            low, high, j, cut = search.next_box()
            for below in (True, False):
                new_low, new_high = low.copy(), high.copy()
                (new_high if below else new_low)[j] = cut
                n_programs += self._explore(phi, new_low, new_high, search)
        if search.z is None:
            raise InfeasibleSpace(f"{self.space!r} is empty.")
        return SeparableSolution(search.z, search.value, search.bound(), n_programs, convex)

    def _explore(self, phi: Functions, low: FloatArray, high: FloatArray, search: _Search) -> int:
        """Bound a box and add it to the open list unless it is closed; returns the number of programs solved."""
        hull = envelopes(*phi, low, high)
        answer, n_programs = self._minimize_hull(hull, low)
        if answer is None:
            return n_programs
        y = answer[self.columns]
        above, under = interpolate(*phi, y), interpolate(*hull, y)
        j = int(np.argmax(above - under))
        margin = 0.1 * (high[j] - low[j])
        cut = float(np.clip(y[j], low[j] + margin, high[j] - margin))
        search.add(answer, float(above.sum()), float(under.sum()), (low, high, j, cut))
        return n_programs

    def _minimize_hull(self, hull: Functions, low: FloatArray) -> tuple[FloatArray | None, int]:
        """Minimise convex functions exactly, over a few chords of each that are refined beside the answer."""
        points, heights, ptr = hull
        chosen = coarse(ptr, _PIECES)
        n_programs, room = 0, _ROOM
        while True:
            width, slope, most = pieces(points, heights, ptr, chosen, room)
            if most > room:
                room *= 2
                continue
            z = self._chords(room).minimize(width, slope, low)
            n_programs += 1
            if z is None or not refine(points, ptr, chosen, z[self.columns], _PIECES):
                return z, n_programs

    def _chords(self, room: int) -> _Chords:
        # One program for each size: a single answer among crowded break points must not make all others large.
        if room not in self._programs:
            self._programs[room] = _Chords(self.space, self.columns, self.others, room)
        return self._programs[room]


class _Chords:
    """The program over linear pieces, kept from call to call: a row-for-row copy of the space.

    Parameters
    ----------
    room : int
        Pieces that each variable may have; those not in use have width 0.
    """

    def __init__(self, space: CompiledSpace, columns: IntArray, others: IntArray, room: int) -> None:
        self.space, self.columns, self.others, self.room = space, columns, others, room
        n = columns.size * room + others.size
        owner = np.concatenate([np.repeat(columns, room), others])
        bounds = np.zeros(n), np.zeros(n)
        for given, bound in zip((space.lower, space.upper), bounds, strict=True):
            bound[columns.size * room :] = given[others]
        matrix = sp.csr_array(sp.csc_array(space.matrix)[:, owner])
        program = CompiledSpace(
            matrix, space.row_lower, space.row_upper, *bounds, np.zeros(n, np.bool_), [""] * n, space.row_names
        )
        self._backend = MovingBounds(program, {"presolve": "off"})

    def minimize(self, width: FloatArray, slope: FloatArray, low: FloatArray) -> FloatArray | None:
        """The best point from `low` upwards, or None if there is none."""
        z = np.zeros(self.space.n_variables)
        z[self.columns] = low
        shift = self.space.matrix @ z
        self._backend.set_bounds(width.ravel(), self.space.row_lower - shift, self.space.row_upper - shift)
        self._backend.set_costs(np.concatenate([-slope.ravel(), np.zeros(self.others.size)]))
        solution = self._backend.run()
        if solution.status is Status.INFEASIBLE:
            return None
        if solution.status is not Status.OPTIMAL or solution.z is None:
            raise SolverFailed(f"HiGHS stopped at {solution.message!r} on an absolute risk.", status=solution.message)
        z[self.columns] += solution.z[: width.size].reshape(width.shape).sum(axis=1)
        z[self.others] = solution.z[width.size :]
        return z


class _Search:
    """Best first: the boxes that may still hold something better, and the best point so far."""

    def __init__(self, rtol: float, rounding: float) -> None:
        self.rtol, self.rounding = rtol, rounding
        self.z: FloatArray | None = None
        self.value = np.inf
        self._boxes: list[tuple[float, int, Box]] = []
        self._count = 0

    def add(self, z: FloatArray, value: float, bound: float, box: Box) -> None:
        if value < self.value:
            self.z, self.value = z, value
        self._count += 1
        heapq.heappush(self._boxes, (bound, self._count, box))

    @property
    def open(self) -> bool:
        """Whether some box may hold a point that is better by more than the tolerance."""
        return bool(self._boxes) and self._boxes[0][0] < self.value - self.rtol * abs(self.value) - self.rounding

    def next_box(self) -> Box:
        return heapq.heappop(self._boxes)[2]

    def bound(self) -> float:
        return min(self._boxes[0][0] if self._boxes else np.inf, self.value)


def variable_ranges(space: CompiledSpace, columns: IntArray) -> tuple[FloatArray, FloatArray]:
    """The least and the largest value of each of some variables over a polytope."""
    oracle = Oracle(space.relaxed(), "highs")
    ends = np.empty((2, len(columns)))
    for k, column in enumerate(columns):
        unit = np.zeros(space.n_variables)
        unit[column] = 1.0
        try:
            ends[:, k] = -oracle.maximize(-unit).value, oracle.maximize(unit).value
        except UnboundedObjective:
            name = space.variable_names[int(column)]
            raise DeclarationError(f"{name} is unbounded over the space; give it bounds to use this loss.") from None
    return ends[0], ends[1]

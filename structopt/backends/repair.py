"""Repair of a solver's optimum that violates a row once its integer variables are rounded.

With coefficients of 1e7 and more a solver's integer tolerance amounts to whole units of a row. HiGHS then solves at
its tightest tolerance; where that is not enough, the current assignment of the integer variables is solved exactly (an
LP in the others) and forbidden, until no other can be better.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from structopt.backends.arrays import with_rows
from structopt.backends.base import SideConstraints, Solution, Status
from structopt.backends.checking import Checker
from structopt.backends.highs import Highs
from structopt.backends.no_goods import no_good_rows
from structopt.errors import NoGoodNotExpressible, SolverFailed
from structopt.space.compiled import VALUE_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.exact_rows import exact_side_rows

__all__ = ["repaired", "solved_tightly"]

_TIGHTEST: dict[str, Any] = {
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
}
#: Assignments of the integer variables that are tried before an error is raised.
_MOST_ASSIGNMENTS = 64


def repaired(
    space: CompiledSpace,
    program: CompiledSpace,
    extra: SideConstraints | None,
    costs: FloatArray,
    found: Solution,
    complaint: str,
    limit: float,
) -> Solution:
    """A true optimum in place of `found`, whose rounded point breaks what `complaint` names.

    Parameters
    ----------
    space : CompiledSpace
        As it was declared, by which answers are checked.
    program : CompiledSpace
        The rows that solvers get.
    extra : SideConstraints or None
        Rows of this call.
    costs : ndarray
    found : Solution
        With a point, optimal or the incumbent at a time limit.
    complaint : str
    limit : float
        Seconds for one integer program.

    Raises
    ------
    SolverFailed
        Naming the row, if no label could be proved best.
    """
    assert found.z is not None
    rows = with_rows(program, [] if extra is None else [exact_side_rows(space, *extra)])
    checker = Checker(with_rows(space, [] if extra is None else [extra]))
    if found.status is Status.TIME_LIMIT:
        label = _best_completion(rows, checker, costs, found.z)
        return replace(found, z=label, bound=found.bound if label is not None else math.inf)
    best: FloatArray | None = None
    value, bound = -math.inf, found.bound
    no_goods: list[SideConstraints] = []
    for _ in range(_MOST_ASSIGNMENTS):
        next_best = solved_tightly(with_rows(rows, no_goods), None, costs, limit)
        if next_best.status is Status.INFEASIBLE:
            if best is None:
                return next_best
            return Solution(Status.OPTIMAL, best, value, found.iterations, found.message)
        if next_best.status is not Status.OPTIMAL or next_best.z is None:
            break
        bound = min(bound, max(next_best.bound, value))
        held = checker.holds(costs, next_best.z)
        label = next_best.z if held else _best_completion(rows, checker, costs, next_best.z)
        if label is not None and float(costs @ label) > value:
            best, value = label, float(costs @ label)
        if best is not None and bound - value <= VALUE_TOLERANCE * float(np.abs(costs) @ np.abs(best)):
            return Solution(Status.OPTIMAL, best, max(bound, value), found.iterations, found.message)
        try:
            cut, least = no_good_rows(rows, [np.clip(np.rint(next_best.z), rows.lower, rows.upper)])
        except NoGoodNotExpressible:
            break
        no_goods.append((cut, least, np.full(len(least), np.inf)))
    raise SolverFailed(
        f"The solver's optimum is no label: with its integer variables rounded it breaks {complaint}, and tighter "
        "tolerances found no label that is proved best. Coefficients of 1e7 and more cause this: give the row a "
        "smaller constant (the largest value that the other side can take will do), or rescale its variables.",
        status=f"{found.message}, breaks {complaint}",
        partial=best,
    )


def solved_tightly(rows: CompiledSpace, extra: SideConstraints | None, costs: FloatArray, limit: float) -> Solution:
    """Return the answer of HiGHS at its tightest tolerance."""
    options = _TIGHTEST if math.isinf(limit) else {**_TIGHTEST, "time_limit": limit}
    backend = Highs(with_rows(rows, [] if extra is None else [extra]), options)
    backend.set_costs(costs)
    return backend.run()


def _best_completion(rows: CompiledSpace, checker: Checker, costs: FloatArray, z: FloatArray) -> FloatArray | None:
    """The best label with the integer variables of `z`, or None if there is none."""
    whole = rows.integrality
    at = np.clip(np.rint(z), rows.lower, rows.upper)
    fixed = replace(
        rows.relaxed(),
        lower=np.where(whole, at, rows.lower),
        upper=np.where(whole, at, rows.upper),
    )
    backend = Highs(fixed, {"primal_feasibility_tolerance": 1e-9})
    backend.set_costs(costs)
    answer = backend.run()
    if answer.status is not Status.OPTIMAL or answer.z is None:
        return None
    return answer.z if checker.holds(costs, answer.z) else None

"""A solver instance: the LP and the MIP of one space, the choice between them, and the check of every answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from structopt.backends.base import Backend, Capability, SideConstraints, Solution, Status
from structopt.backends.checking import HOLDS, Checker
from structopt.errors import SolverFailed
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.exact_rows import exact_side_rows, with_exact_rows
from structopt.space.tightening import with_tight_coefficients
from structopt.stopping import time_left

__all__ = ["SolverInstance"]


class SolverInstance:
    """The LP and, where needed, the MIP of one space, used by one thread at a time.

    The tolerances of solvers are absolute, that of `contains` grows with the terms of a row. If the difference matters,
    solvers get rows with the tolerance of `contains` built in (`with_exact_rows`), side constraints included. The rows
    of the space have no constants beyond the solver's precision (`with_tight_coefficients`). A relaxation has the rows
    as they were declared.

    After an exception that is not structopt's own (Ctrl-C above all) its models may hold rows of the call that was
    interrupted: whoever owns the instance drops it then (`structopt.oracle.pool`).
    """

    def __init__(self, space: CompiledSpace, integral: str, make: Callable[[CompiledSpace], Backend]) -> None:
        self._space = space
        self._make = make
        self._relax_only = integral == "relax" or not space.is_integral
        self._mip_only = integral == "force" and space.is_integral
        listed = space.rows_only()
        self._program = listed if self._relax_only else with_tight_coefficients(with_exact_rows(listed))
        self._checker = Checker(space)
        self._lp: Backend | None = None
        self._mip: Backend | None = None

    def prepare(self) -> Backend:
        return self._mip_backend() if self._mip_only else self._lp_backend()

    def _lp_backend(self) -> Backend:
        if self._lp is None:
            self._lp = self._make(self._program.relaxed() if self._space.is_integral else self._program)
        return self._lp

    def _mip_backend(self) -> Backend:
        if self._mip is None:
            self._mip = self._make(self._program)
        return self._mip

    def forget(self) -> None:
        """Start the next run cold."""
        for backend in (self._lp, self._mip):
            if backend is not None:
                backend.set_basis(None)

    def basis(self) -> tuple[Any, Any]:
        return (self._lp.get_basis() if self._lp is not None else None, None)

    def solve(
        self,
        costs: FloatArray,
        extra: SideConstraints | None,
        basis: tuple[Any, Any] | None,
        start: FloatArray | None,
    ) -> tuple[Solution, int, int]:
        """Solve the LP, and the MIP if the LP's optimum is no label; return how many of each ran, too."""
        rows = None if extra is None else self._loadable(extra)
        if self._mip_only:
            exact = self._run(self._mip_backend(), costs, rows, None, start)
            return self._checked(self._without_label(exact, costs, rows), costs, extra), 0, 1
        relaxation = self._run(self._lp_backend(), costs, rows, basis, None)
        if self._relax_only:
            return self.verified(costs, relaxation, extra), 1, 0
        if relaxation.status is Status.UNBOUNDED:
            return self._without_label(relaxation, costs, rows), 1, 1
        if relaxation.status not in (Status.OPTIMAL, Status.FAILED):
            return relaxation, 1, 0
        # A relaxation that failed (a file that rounds 2e-9 to 0 will do) proves nothing, and the MIP may yet answer.
        if (
            relaxation.z is not None
            and relaxation.status is Status.OPTIMAL
            and self._checker.snap(costs, relaxation.z, extra) == HOLDS
        ):
            return relaxation, 1, 0
        exact = self._checked(self._run(self._mip_backend(), costs, rows, None, start), costs, extra)
        if exact.status is Status.TIME_LIMIT and exact.z is None:
            exact = replace(exact, z=self._rounded(costs, relaxation.z, extra))
        if exact.z is not None and relaxation.status is Status.OPTIMAL and exact.bound > relaxation.bound:
            exact = replace(exact, bound=relaxation.bound)
        return exact, 1, 1

    def _loadable(self, rows: SideConstraints) -> SideConstraints:
        """Return side constraints as the solver gets them: with the tolerance of `contains`, except in a relaxation."""
        return rows if self._relax_only else exact_side_rows(self._space, *rows)

    def _without_label(self, solution: Solution, costs: FloatArray, rows: SideConstraints | None) -> Solution:
        """An unbounded answer, unless no label exists: a ray of the LP says nothing of the integer points.

        With one label and a ray the objective is unbounded over the labels, too (the data are rational).
        """
        if solution.status is not Status.UNBOUNDED or not self._space.is_integral:
            return solution
        some = self._run(self._mip_backend(), np.zeros_like(costs), rows, None, None)
        return some if some.status is Status.INFEASIBLE else solution

    def _rounded(self, costs: FloatArray, z: FloatArray | None, extra: SideConstraints | None) -> FloatArray | None:
        """A label near the relaxation's point for a MIP that had no time to find any; None if none is found at once."""
        if z is None:
            return None
        whole = self._space.integrality
        for rounding in (np.rint, np.floor, np.ceil):
            label = np.where(whole, rounding(z), z)
            if self._checker.snap(costs, label, extra) == HOLDS:
                return label
        return None

    def verified(self, costs: FloatArray, found: Solution, extra: SideConstraints | None = None) -> Solution:
        """Return an LP's answer if its point satisfies the rows, else the answer of HiGHS at its tightest tolerance.

        Integer variables become exactly integer if that leaves the point in the space.

        Raises
        ------
        SolverFailed
            If the point of HiGHS violates a row, too.
        """
        if found.z is None or found.status not in (Status.OPTIMAL, Status.TIME_LIMIT):
            return found
        if self._space.is_integral and self._checker.snap(costs, found.z, extra) == HOLDS:
            return found
        code = self._checker.snap(costs, found.z, extra, relaxed=True)
        if code == HOLDS:
            return found
        if found.status is Status.TIME_LIMIT:  # an LP that was stopped has no feasible point
            return replace(found, z=None)
        from structopt.backends.repair import solved_tightly

        tight = solved_tightly(self._program.relaxed(), extra, costs, time_left())
        if tight.z is not None and self._checker.snap(costs, tight.z, extra, relaxed=True) != HOLDS:
            raise SolverFailed(
                f"The solver's optimum violates {self._checker.complaint(code)}, and so does that of HiGHS at its "
                "tightest tolerance. Coefficients of very different size cause this: rescale the row or its variables.",
                status=f"{found.message}, violates {self._checker.complaint(code)}",
            )
        return tight

    def _checked(self, found: Solution, costs: FloatArray, extra: SideConstraints | None) -> Solution:
        """Return the MIP's answer if it is a label after rounding, else a repaired one."""
        if found.z is None or found.status not in (Status.OPTIMAL, Status.TIME_LIMIT):
            return found
        code = self._checker.snap(costs, found.z, extra)
        if code == HOLDS:
            return found
        from structopt.backends.repair import repaired

        limit = min(float(self._mip_backend().options.get("time_limit", math.inf)), time_left())
        return repaired(self._space, self._program, extra, costs, found, self._checker.complaint(code), limit)

    @staticmethod
    def _run(
        backend: Backend,
        costs: FloatArray,
        rows: SideConstraints | None,
        basis: tuple[Any, Any] | None,
        start: FloatArray | None,
    ) -> Solution:
        backend.set_costs(costs)
        if basis is not None and basis[0] is not None:
            backend.set_basis(basis[0])
        if start is not None and not Capability.MIP_START & backend.capabilities:
            start = None
        if rows is None:
            return backend.run(start)
        try:
            backend.add_rows(*rows)
            return backend.run(start)
        finally:
            backend.remove_rows()

"""The base class of backends whose solver keeps no model between calls."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from structopt.backends.arrays import (
    as_rows,
    box_solution,
    breaks_rows,
    constant_solution,
    costs_and_scale,
    recession_ray,
    snapped,
    with_rows,
)
from structopt.backends.base import Backend, Solution, Status
from structopt.backends.checking import Checker
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.stopping import deadline, time_left

__all__ = ["RecordingBackend"]

_COST_EXPONENT = 10
#: Solution files carry about eight digits.
_FILE_TOLERANCE = 1e-5
#: Relative difference of values that solvers with such files are allowed.
_VALUE_ERROR = 1e-6
#: Seconds for HiGHS to confirm an answer, and an emptiness where the user set no limit.
_AUDIT, _LEAST_PATIENCE = 0.2, 10.0
_COMMON = ("time_limit", "mip_gap", "threads")


class RecordingBackend(Backend):
    """Objective coefficients and extra rows as arrays; ambiguous statuses are resolved here.

    A subclass writes `_build` and `_solve`, and `_rows_changed` if it keeps a model of the rows.
    """

    #: Relative error of the values that come back; bounds are raised by it, so that they hold.
    _rounding: ClassVar[float] = 0.0
    #: Whether the answer comes from an external program's file, and is verified by HiGHS.
    _is_audited: ClassVar[bool] = False
    #: Seconds for the current run: the option, or what a deadline leaves of it.
    _limit: float = math.inf

    def __init__(self, space: CompiledSpace, options: Mapping[str, Any] | None = None) -> None:
        self._forget()
        super().__init__(space, options)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._forget()
        super().__setstate__(state)

    def _forget(self) -> None:
        self._costs: FloatArray | None = None
        self._scale = 1.0
        self._auditor: Any = None
        self._extra: list[tuple[sp.csr_array, FloatArray, FloatArray]] = []

    @abstractmethod
    def _solve(self, costs: FloatArray, start: FloatArray | None) -> Solution:
        """Solve with these (scaled) objective coefficients; FAILED, with its message, where the status is unclear.

        A status of UNBOUNDED or INFEASIBLE may be a guess of the solver: it is checked here.
        """

    def _rows_changed(self) -> None:
        """Called after extra rows were added or removed."""

    @property
    def _common(self) -> dict[str, Any]:
        """The options that every solver has, by structopt's names; unset ones are None."""
        return {key: self.options.get(key) for key in _COMMON}

    @property
    def _native(self) -> dict[str, Any]:
        """The solver's own options."""
        return {k: v for k, v in self.options.items() if k not in (*_COMMON, "solver", "executable")}

    def _current(self) -> CompiledSpace:
        return with_rows(self.space, self._extra)

    def set_costs(self, c: FloatArray) -> None:
        """Set the objective ``max c . z``."""
        costs, self._scale = costs_and_scale(c, self.space, _COST_EXPONENT)
        self._costs = costs.copy()  # the caller may reuse the array

    def add_rows(self, matrix: sp.csr_array, lower: FloatArray, upper: FloatArray) -> None:
        """Append rows after those of the space; several calls accumulate."""
        self._extra.append(as_rows(matrix, lower, upper, self.space))
        self._rows_changed()

    def remove_rows(self) -> None:
        """Remove every row that `add_rows` appended."""
        if self._extra:
            self._extra = []
            self._rows_changed()

    def run(self, start: FloatArray | None = None) -> Solution:
        """Solve with the current objective and rows."""
        costs = np.zeros(self.space.n_variables) if self._costs is None else self._costs
        rows = self._current()
        if not rows.n_variables:
            return constant_solution(rows)
        if not rows.n_rows:
            return box_solution(rows, costs)
        self._limit = min(float(self.options.get("time_limit", math.inf)), time_left())
        if self._limit <= 0.0:
            return Solution(Status.TIME_LIMIT, None, message="no time left")
        begin = time.perf_counter()
        found = self._solve(costs * self._scale, start)
        if found.status is Status.FAILED and costs.any():
            # Tolerances on the objective are absolute: once more with an objective of norm 1.
            self._scale = math.ldexp(1.0, -math.frexp(float(np.abs(costs).max()))[1])
            found = self._solve(costs * self._scale, start)
        seconds = time.perf_counter() - begin
        if found.status in (Status.UNBOUNDED, Status.INFEASIBLE, Status.FAILED):
            found = self._arbitrated(found, costs, seconds)
        if found.z is None:
            return found
        finished = self._finish(found, costs, seconds)
        if finished.z is None or not self._is_audited:
            return finished
        return self._audit(finished, costs, seconds)

    def _arbitrated(self, found: Solution, costs: FloatArray, seconds: float) -> Solution:
        # "Infeasible", "unbounded", "unbounded or infeasible" and "undefined" are mixed up by file
        # interfaces: PuLP reads HiGHS's "unbounded or infeasible" as infeasible, glpsol calls both
        # undefined after its presolve. So HiGHS arbitrates: a ray and a label together prove
        # unboundedness, the absence of any label proves infeasibility.
        has_ray = recession_ray(self._current(), costs) is not None
        if found.status is Status.INFEASIBLE and not has_ray and not self._is_audited:
            return found
        empty = self._is_empty(seconds)
        if empty:
            return Solution(Status.INFEASIBLE, None, message=found.message)
        if has_ray and empty is False:
            return Solution(Status.UNBOUNDED, None, message=found.message)
        words = found.message
        if found.status is not Status.FAILED:
            doubt = "HiGHS finds a label and no ray" if empty is False else "HiGHS could not confirm it in time"
            words = f"{words}, but {doubt}"
        return replace(found, status=Status.FAILED, z=None, message=words)

    def _is_empty(self, seconds: float) -> bool | None:
        """Whether the space holds no label; None if that cannot be decided in time."""
        from structopt.backends.highs import Highs

        with deadline(max(_LEAST_PATIENCE, 10.0 * seconds) if math.isinf(self._limit) else self._limit):
            status = Highs(self._current(), self._strictness).run().status
        return {Status.OPTIMAL: False, Status.INFEASIBLE: True}.get(status)

    def _audit(self, found: Solution, costs: FloatArray, seconds: float) -> Solution:
        """A program's answer, as far as HiGHS can confirm it in a fraction of the program's time.

        An external program may have read another file, or none, so that its status is verified: HiGHS starts
        from the answer and looks for a better label. What it proves is the bound; a better label refutes an "optimal".
        """
        from structopt.backends.highs import Highs

        assert found.z is not None
        if self._auditor is None:
            self._auditor = Highs(self.space, self._strictness)
        auditor = self._auditor
        try:
            auditor.set_costs(costs)
            for rows in self._extra:
                auditor.add_rows(*rows)
            with deadline(max(_AUDIT, 0.5 * seconds)):
                second = auditor.run(found.z if self.space.is_integral else None)
        finally:
            auditor.remove_rows()
        if second.status is Status.UNBOUNDED:
            return Solution(Status.UNBOUNDED, None, message=found.message)
        if second.z is None:  # no time
            return found
        value, better = float(costs @ found.z), float(costs @ second.z)
        if self.space.is_integral and not Checker(self._current()).holds(costs, second.z):
            better = -math.inf  # HiGHS is no better than others at x <= 1e7 y: what it has is no label
        size = float(np.abs(costs) @ np.maximum(np.abs(found.z), np.abs(second.z)))
        proved = second.status is Status.OPTIMAL and better > -math.inf
        if better > value + _VALUE_ERROR * size:
            if found.status is Status.OPTIMAL and not self._may_stop_early:
                words = f"{found.message}, with value {value:.9g} where HiGHS has a label of value {better:.9g}"
                return Solution(Status.FAILED, None, message=words)
            return replace(found, bound=max(value, second.bound))
        if proved:
            return replace(found, status=Status.OPTIMAL, bound=max(value, second.bound))
        if found.status is Status.TIME_LIMIT or self._may_stop_early:
            return replace(found, bound=max(value, second.bound))
        return found

    @property
    def _strictness(self) -> dict[str, float]:
        """Options of the HiGHS that judges others: a label that it has by its tolerance only refutes nobody."""
        if not (self.space.integrality | (self.space.lower == self.space.upper)).all():
            return {}  # continuous variables are never exact
        return {"mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9}

    @property
    def _may_stop_early(self) -> bool:
        """Whether an option allows the program to stop before the optimum; one of its own names may be any limit."""
        return bool(self.options.get("mip_gap")) or bool(self._native)

    def _finish(self, found: Solution, costs: FloatArray, seconds: float) -> Solution:
        assert found.z is not None
        z = snapped(found.z, self.space)
        if breaks_rows(self._current(), z, _FILE_TOLERANCE):
            if found.status is Status.TIME_LIMIT:  # where an LP happened to stand
                return replace(found, z=None, bound=float("inf"))
            return Solution(Status.FAILED, None, message=f"{found.message}, with a point that breaks a row")
        if found.status is Status.OPTIMAL and self.space.is_integral and seconds >= 0.9 * self._limit:
            # glpsol's "integer non-optimal" and SCIP's "time limit" reach PuLP as "optimal": after the time limit
            # the incumbent cannot be distinguished from the optimum: report it as an incumbent.
            return Solution(Status.TIME_LIMIT, z, float("inf"), found.iterations, found.message)
        rounded = np.where(self.space.integrality, 0.0, np.abs(costs * z))
        value = float(costs @ z) + self._rounding * float(rounded.sum())
        if found.status is Status.OPTIMAL and not self.space.is_integral:
            bound = value
        else:
            bound = max(found.bound / self._scale, value)
        return Solution(found.status, z, bound, found.iterations, found.message)

    def ray(self) -> FloatArray | None:
        """A direction in which the current objective grows without limit, or None."""
        return None if self._costs is None else recession_ray(self._current(), self._costs)

"""Sets of leaves in a DAG: the linear or integer program over the nodes that are open."""

from __future__ import annotations

from typing import Any, Protocol

import highspy
import numpy as np
import numpy.typing as npt

from structopt.compiled import FloatArray
from structopt.errors import SolverFailed
from structopt.kernels._common import IntArray
from structopt.kernels.leaf_set_prices import IN, OPEN

__all__ = ["OpenProgram"]

Mask = npt.NDArray[np.bool_]

# The tightest that HiGHS takes: the multipliers are to prove a bound over all nodes.
_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "mip_feasibility_tolerance": 1e-10,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
}
# Tolerances are absolute: costs are scaled to this power of two.
_COST_EXPONENT = 10
# Values this close to 0 or 1 are that: sweeps ask for equality, labels are kept sparse.
_SNAP = 1e-9


class Core(Protocol):
    """The arcs of the core, numbered by child."""

    tail: IntArray
    head: IntArray
    size: int


class OpenProgram:
    """The program of `structopt.kernels.leaf_set_prices` with all nodes but the open ones fixed at 0 or 1.

    One HiGHS for one thread at a time; every program starts cold, so that no answer depends on the one before.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._highs: Any = None

    def solve(
        self,
        gains: tuple[FloatArray, Mask, FloatArray],
        state: IntArray,
        x: FloatArray,
        multipliers: tuple[FloatArray, FloatArray, Mask],
        integral: bool = False,
    ) -> None:
        """Write the optimum into the open entries of `x`, and the multipliers of the linear program.

        Parameters
        ----------
        gains : rho, needy and alt of the core's nodes
        state : OUT, IN or OPEN
        multipliers : lambda by arc, mu by node, and whether mu is from here; untouched if integral
        """
        core, (rho, needy, alt), (lam, mu, priced) = self._core, gains, multipliers
        is_open = state == OPEN
        nodes = np.flatnonzero(is_open)
        arcs = np.flatnonzero(is_open[core.tail] & is_open[core.head])
        # A node that is in needs a row if none of its children is in; an open one always.
        below_in, below_open = (np.zeros(core.size, np.bool_) for _ in range(2))
        below_in[core.tail[state[core.head] == IN]] = True
        below_open[core.tail[is_open[core.head]]] = True
        rows_of = needy & (is_open | ((state == IN) & ~below_in & below_open))
        rows = np.flatnonzero(rows_of)
        other = np.flatnonzero(rows_of & (alt > -np.inf))
        kids = np.flatnonzero(rows_of[core.tail] & is_open[core.head])
        own = rows[is_open[rows]]
        column, row = np.zeros(core.size, np.int64), np.zeros(core.size, np.int64)
        column[nodes], row[rows] = np.arange(nodes.size), arcs.size + np.arange(rows.size)
        one = np.arange(arcs.size)
        extra = nodes.size + np.arange(other.size)
        #    z_c - z_p <= 0;   sum of z_c + s - z_n >= 0, or 1 where z_n is
        i = np.concatenate([one, one, row[core.tail[kids]], row[other], row[own]])
        j = np.concatenate(
            [column[core.head[arcs]], column[core.tail[arcs]], column[core.head[kids]], extra, column[own]]
        )
        v = np.concatenate([np.ones(one.size), -np.ones(one.size), np.ones(kids.size + other.size), -np.ones(own.size)])
        lower = np.concatenate([np.full(one.size, -np.inf), np.where(is_open[rows], 0.0, 1.0)])
        upper = np.concatenate([np.zeros(one.size), np.full(rows.size, np.inf)])
        costs = np.concatenate([rho[nodes], alt[other]])
        largest = float(np.abs(costs).max(initial=0.0))
        scale = 2.0 ** (_COST_EXPONENT - np.frexp(largest)[1]) if largest > 0.0 else 1.0
        solution = self._run(costs * scale, (i, j, v), lower, upper, nodes.size if integral else 0)
        point = np.array(solution.col_value)[: nodes.size]
        nearest = np.rint(point)
        x[nodes] = nearest if integral else np.where(np.abs(point - nearest) <= _SNAP, nearest, point)
        if not integral:
            dual = np.array(solution.row_dual) / scale
            lam[:], mu[:] = 0.0, 0.0
            lam[arcs] = np.maximum(dual[: one.size], 0.0)
            mu[rows] = np.maximum(-dual[one.size :], 0.0)
            priced[:] = rows_of

    def _run(self, costs: FloatArray, entries: Any, lower: FloatArray, upper: FloatArray, n_integers: int) -> Any:
        i, j, v = entries
        order = np.argsort(i, kind="stable")
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = costs.size, lower.size
        lp.col_cost_ = costs
        lp.col_lower_, lp.col_upper_ = np.zeros(costs.size), np.ones(costs.size)
        lp.row_lower_, lp.row_upper_ = lower, upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=lower.size))]).astype(np.int32)
        lp.a_matrix_.index_ = j[order].astype(np.int32)
        lp.a_matrix_.value_ = v[order]
        lp.sense_ = highspy.ObjSense.kMaximize
        if self._highs is None:
            self._highs = highspy.Highs()
            for key, option in _OPTIONS.items():
                self._highs.setOptionValue(key, option)
        highs = self._highs
        for presolve in ("choose", "off"):
            highs.setOptionValue("presolve", presolve)
            highs.clearSolver()
            highs.passModel(lp)
            if n_integers:
                kinds = np.full(n_integers, int(highspy.HighsVarType.kInteger), dtype=np.uint8)
                highs.changeColsIntegrality(n_integers, np.arange(n_integers, dtype=np.int32), kinds)
            highs.run()
            status = highs.getModelStatus()
            if status == highspy.HighsModelStatus.kOptimal:
                return highs.getSolution()
            # A thread pool of another size, made by another model in this thread, is an error to HiGHS.
            highspy.Highs.resetGlobalScheduler(True)
        words = str(highs.modelStatusToString(status))
        raise SolverFailed(f"HiGHS stopped at {words!r} on {costs.size} nodes of a hierarchy.", status=words)

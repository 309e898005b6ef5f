"""What a solver calls an integer is 1e-6 away from one: every answer is judged after rounding, whoever gave it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.backends.base import Backend, Capability, Solution, Status
from structopt.backends.highs import Highs
from structopt.errors import DeclarationError, InfeasibleSpace, SolverFailed
from structopt.space.compiled import CompiledSpace
from structopt.space.feasibility import contains
from structopt.testing.instances import space_of

SOLVERS = ["highs", "highs-exact", "highs-ipm", "scipy", "cbc", "pyomo-highs", "pyomo-cbc"]
#: max x - y/2 with x <= 2: switched on it is worth 1.5, and a switch at 2/M is free.
COSTS = np.array([1.0, -0.5])


def switch(M: float, equality: bool = False) -> CompiledSpace:
    """``x <= M y``, or ``x + s = M y`` with a slack of its own."""
    if not equality:
        return space_of([[1.0, -M]], -np.inf, 0.0, 0.0, [2.0, 1.0], [False, True])
    return space_of([[1.0, -M, 1.0]], 0.0, 0.0, 0.0, [2.0, 1.0, M], [False, True, False])


@pytest.mark.parametrize("integral", ["auto", "force"])
@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("M", [1e7, 1e9])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_switch_is_on_or_off(solver, M, equality, integral):
    space = switch(M, equality)
    costs = np.append(COSTS, 0.0)[: space.n_variables]
    oracle = so.Oracle(space, solver, integral=integral)
    label = oracle.maximize(costs)
    assert contains(space, label.z) and label.integral
    assert label.value == pytest.approx(1.5, rel=1e-6)
    assert label.bound >= 1.5 - 1e-9


@pytest.mark.parametrize("M", [1e7, 1e9])
def test_in_every_kind_of_call(M):
    space = switch(M)
    oracle = so.Oracle(space, "highs")
    costs = np.array([COSTS, 2 * COSTS, -COSTS])
    for jobs in (1, 2):
        labels = oracle.maximize_batch(costs, jobs)
        assert [label.value for label in labels] == pytest.approx([1.5, 3.0, 0.5])
        assert all(contains(space, label.z) for label in labels)
    solve = oracle._plain_solver
    assert solve is not None
    z, bound = solve(COSTS.copy(), float(COSTS @ COSTS))
    assert contains(space, z) and bound == pytest.approx(1.5)
    # The row of the switch as a row of the call.
    bare = space_of(np.zeros((0, 2)), 0.0, 0.0, 0.0, [2.0, 1.0], [False, True])
    found = so.Oracle(bare, "highs").maximize(COSTS, rows=[([1.0, -M], -np.inf, 0.0)])
    assert contains(space, found.z) and found.value == pytest.approx(1.5)
    best = oracle.k_best(COSTS, 3)
    assert [label.value for label in best] == pytest.approx([1.5, 0.0])
    assert all(contains(space, label.z) for label in best)


@pytest.mark.parametrize("M", [1e7, 1e9])
def test_a_relaxation_is_not_rounded_out_of_its_rows(M):
    space = switch(M)
    oracle = so.Oracle(space, "highs", integral="relax")
    label = oracle.maximize(COSTS)
    assert contains(space.relaxed(), label.z) and not label.integral
    z, _ = oracle._plain_solver(COSTS.copy(), 1.25)
    assert contains(space.relaxed(), z)


def test_integers_of_a_large_range():
    # 1e6 u - v = 0 with u <= 1e5, v <= 1e11: u = 5e-7 is an integer to a solver, worth half a unit of v.
    space = space_of([[1e6, -1.0]], 0.0, 0.0, 0.0, [1e5, 1e11], True)
    for costs in ([-1.0, 1.0], [1.0, -1.0], [-1.0, 1e-7]):
        label = so.Oracle(space, "highs").maximize(costs)
        assert contains(space, label.z)
        best = max(u * costs[0] + 1e6 * u * costs[1] for u in (0.0, 1e5))
        assert label.value == pytest.approx(best, rel=1e-9)


class Sloppy(Highs):
    """A solver with a coarse idea of an integer: its answers are moved by up to 1e-6."""

    def run(self, start=None):
        found = super().run(start)
        if found.z is not None and self.space.is_integral:
            # Every switch of a positive x down to what the rows need.
            found.z[1] = min(found.z[1], found.z[0] / 1e7)
        return found


@pytest.mark.parametrize("fixed_cost", [-0.5, -1.9, -2.1])
def test_a_mip_that_is_wrong_about_integers_is_repaired(fixed_cost):
    """The current assignment is solved and excluded, until none can be better."""
    space = switch(1e7)
    costs = np.array([1.0, fixed_cost])
    for integral in ("auto", "force"):
        label = so.Oracle(space, Sloppy, integral=integral).maximize(costs)
        assert contains(space, label.z)
        assert label.value == pytest.approx(max(0.0, 2.0 + fixed_cost), abs=1e-9)


class Liar(Backend):
    """Answers the same point, and calls it optimal."""

    name = "liar"
    capabilities = Capability.LP | Capability.MIP | Capability.ROWS
    point = np.array([2.0, 0.0])

    def _build(self):
        pass

    def set_costs(self, c):
        pass

    def add_rows(self, matrix: sp.csr_array, lower, upper):
        pass

    def remove_rows(self):
        pass

    def run(self, start=None):
        return Solution(Status.OPTIMAL, self.point.copy(), 2.0)


def test_a_wrong_point_of_a_backend_is_rejected():
    label = so.Oracle(switch(10.0), Liar).maximize(COSTS)
    assert label.value == pytest.approx(1.5) and contains(switch(10.0), label.z)


def test_what_cannot_be_repaired_names_the_row(monkeypatch):
    from structopt.backends import repair

    monkeypatch.setattr(repair, "_MOST_ASSIGNMENTS", 0)
    with pytest.raises(SolverFailed, match=r"breaks row\[0\].*smaller constant"):
        so.Oracle(switch(10.0), Liar, integral="force").maximize(COSTS)


INF = np.inf
#: Mixed programs with fixed variables: rows, their ends, bounds, integer variables, costs and optimum.
FIXED = {
    "one unit": (
        [[-1, 1, 0, -1], [0, -1, 1, 1]], [0, 0], [0, 0], [0, 1, 0, 0], [1, 1, 2, 2], [1, 0, 0, 0], [0, 0, 0, 1], 1.0,
    ),
    "two units": (
        [[-1, 0, 0, -1], [0, 1, -1, -1], [0, -1, 1, -1]], [-2, -INF, 0], [-2, 0, 0],
        [2, 0, 0, 0], [2, 2, 1, 1], [1, 0, 1, 0], [0, 0, 1, 0], 1.0,
    ),
    "called infeasible": (
        [[0.5, 0.5, 0, 0.5, 0.5, -0.5], [0, 0, -3, 0, 3, -3], [0, 2, -2, 2, -2, 0]], [-INF, -3, -INF], [1, -3, -4],
        [2, 0, 0, 0, 1, 0], [2, 1, 1, 1, 1, 2], [0, 0, 1, 0, 0, 0], [2, 0.75, -1, 0, 0.5, -0.25], 3.25,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FIXED)
@pytest.mark.parametrize("solver", SOLVERS)
def test_fixed_variables_of_a_mixed_program(solver, case):
    """The presolve of HiGHS is wrong about columns that their bounds fix, in every version from 1.12 to 1.15.1."""
    rows, low, up, lower, upper, integer, costs, best = FIXED[case]
    space = space_of(rows, low, up, lower, upper, np.array(integer, dtype=bool))
    label = so.Oracle(space, solver, integral="force").maximize(costs)
    assert contains(space, label.z) and label.value == pytest.approx(best) and label.bound >= best - 1e-9
    # The same rows as rows of a call, one by one and all at once.
    bare = space_of(np.zeros((0, len(lower))), 0.0, 0.0, lower, upper, np.array(integer, dtype=bool))
    extra = [(np.array(row, dtype=float), a, b) for row, a, b in zip(rows, low, up, strict=True)]
    oracle = so.Oracle(bare, solver, integral="force")
    assert oracle.maximize(costs, rows=extra).value == pytest.approx(best)
    # A row of fixed variables alone holds or does not.
    at = np.where(np.equal(lower, upper), lower, 0.0)
    alone = np.equal(lower, upper).astype(float)
    assert oracle.maximize(costs, rows=[*extra, (alone, at.sum(), at.sum())]).value == pytest.approx(best)
    with pytest.raises(InfeasibleSpace):
        oracle.maximize(costs, rows=[*extra, (alone, at.sum() + 1.0, INF)])


#: Mixed programs without a fixed variable, in the form of `FIXED`.
MIXED = {
    "not the best": (
        [[1, 1, -1, 0, 1, 0], [0, -3, 3, 0, -3, 3], [0, -2, -2, 2, 2, 0], [0, 0, 0, -1, 1, -1], [0, 2, 2, 0, -2, -2]],
        [-2, -INF, -INF, -1, -6], [-2, 3, 10, -1, -6], [-2, -2, 0, 0, 0, 0], [-1, -1, 2, 2, 2, 1], [0, 0, 0, 1, 0, 1],
        [-0.25, 0, 0.25, 0, 0.75, 0.125], 2.375,
    ),
    "called infeasible": (
        [[-3, 3, 3, 3, -3], [-1, -1, 1, 0, 0], [1, 0, 0, 1, 1], [3, -3, -3, 3, 0]],
        [0, -2, 4, -INF], [0, -2, 4, 3], [0, 0, 0, 0, 0], [2, 2, 1, 1, 2], [0, 1, 1, 0, 0],
        [1, 1.5, 0.75, -0.25, 0], 4.0,
    ),
    "not the best without two rules": (
        [[2, 2, -2, -2, -2, 0], [0, 0.5, 0, -0.5, 0, 0], [0, 2, 0, 0, 2, 0], [2, 0, 2, -2, 0, -2]],
        [2, -INF, 2, 8], [2, 0.5, 2, 8], [0, 0, 0, 0, -1, -2], [1, 2, 2, 2, 0, 0], [0, 1, 1, 0, 1, 1],
        [-0.535, -0.841, -1.028, 1.351, -0.616, 0], -2.306,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_mixed_programs_without_fixed_variables(solver, case):
    """The presolve of HiGHS is wrong about these; the optima are of an LP for each assignment of the integers."""
    rows, low, up, lower, upper, integer, costs, best = MIXED[case]
    space = space_of(rows, low, up, lower, upper, np.array(integer, dtype=bool))
    for integral in ("auto", "force"):
        label = so.Oracle(space, solver, integral=integral).maximize(costs)
        assert contains(space, label.z) and label.value == pytest.approx(best) and label.bound >= best - 1e-9


@pytest.mark.parametrize("solver", ["auto", "highs", "scipy", "cbc"])
@pytest.mark.parametrize("size", [1e20, 1e150, 1e200, 1e307])
def test_large_coefficients_have_finite_values(solver, size):
    space = space_of([[1.0, 1.0, 1.0]], -np.inf, 1.0, 0.0, 1.0, True)
    label = so.Oracle(space, solver).maximize(np.array([1.0, 2.0, -3.0]) * size)
    assert label.value == 2.0 * size
    assert label.bound == pytest.approx(2.0 * size, rel=1e-6)
    assert label.z.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("solver", ["auto", "highs", "scipy"])
def test_coefficients_whose_sum_overflows_are_refused(solver):
    space = space_of(np.ones((1, 3)), -np.inf, 3.0, 0.0, 1.0, True)
    oracle = so.Oracle(space, solver)
    for call in (oracle.maximize, lambda c: oracle.maximize_batch([c]), lambda c: oracle.k_best(c, 2)):
        with pytest.raises(DeclarationError, match="too large"):
            call(np.full(3, 1e308))


class Inaccurate(Highs):
    """HiGHS whose points violate their rows by 5e-6."""

    def run(self, start=None):
        found = super().run(start)
        return found if found.z is None else replace(found, z=found.z * (1.0 + 5e-6))

    def maximize(self, c, square):
        self.set_costs(c)
        return self.run()


class Raising(Highs):
    """HiGHS whose library raises an exception of its own."""

    def run(self, start=None):
        raise Exception("error in LP solver")

    def maximize(self, c, square):
        self.set_costs(c)
        return self.run()


def polytope(integral=False):
    rng = np.random.default_rng(0)
    space = so.LabelSpace("polytope")
    x = space.continuous("x", 6, 0, 100)
    if integral:
        y = space.binary("y", 2)
        space.subject_to(x[:2] <= 50 * y)
    space.subject_to(rng.random((4, 6)) @ x <= 100.0, rng.random((2, 6)) @ x == 60.0)
    return space


@pytest.mark.parametrize("integral", [False, True])
def test_points_that_break_a_row_are_not_returned(integral):
    """External programs called such points of linear programs optimal."""
    space = polytope(integral)
    rng = np.random.default_rng(1)
    mode = "relax" if integral else "auto"
    inaccurate, exact = so.Oracle(space, Inaccurate, integral=mode), so.Oracle(space, "highs", integral=mode)
    C = rng.normal(size=(3, space.n_variables))
    for c, label in zip(C, inaccurate.maximize_batch(C), strict=True):
        row = (np.ones(space.n_variables), 0.0, 150.0)
        for found, best in (
            (inaccurate.maximize(c), exact.maximize(c)),
            (label, exact.maximize(c)),
            (inaccurate.maximize(c, rows=[row]), exact.maximize(c, rows=[row])),
        ):
            assert space.relaxed().contains(found.z)
            assert found.value == pytest.approx(best.value, rel=1e-7)


@pytest.mark.parametrize("integral", [False, True])
def test_exceptions_of_a_solver_become_solver_failed(integral):
    space = polytope(integral)
    oracle = so.Oracle(space, Raising)
    for call in (lambda c: oracle.maximize(c), lambda c: oracle.maximize_batch([c, c])):
        with pytest.raises(so.errors.SolverFailed, match="error in LP solver") as caught:
            call(np.ones(space.n_variables))
        assert "Exception" in caught.value.status


def test_scip_exceptions_become_solver_failed(monkeypatch):
    pyscipopt = pytest.importorskip("pyscipopt")

    class Failing(pyscipopt.Model):
        def optimize(self):
            raise Exception("SCIP: error in LP solver!")

    monkeypatch.setattr(pyscipopt, "Model", Failing)
    with pytest.raises(so.errors.SolverFailed, match="error in LP solver"):
        so.Oracle(polytope(), "scip").maximize(np.ones(6))

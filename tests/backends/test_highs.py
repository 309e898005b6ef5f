"""What the HiGHS backend does beyond the protocol."""

from __future__ import annotations

import threading
import time

import highspy
import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.backends import Status, highs
from structopt.backends.highs import Highs
from structopt.errors import DeclarationError, SolverNotAvailable, SpaceMismatch
from structopt.testing.instances import crowded_knapsack, hard_knapsack, pairwise, space_of


def _solve(backend: Highs, costs: np.ndarray) -> float:
    backend.set_costs(costs)
    found = backend.run()
    assert found.status is Status.OPTIMAL
    assert found.z is not None
    return float(costs @ found.z)


def test_warm_solves_equal_cold_solves_on_many_objectives() -> None:
    # HiGHS 3194: a warm start can end "Optimal" and worse.
    space, rng = pairwise(10), np.random.default_rng(0)
    warm = Highs(space)
    for trial in range(40):
        costs = rng.normal(size=space.n_variables) * 10.0 ** rng.integers(-4, 4)
        if trial % 2:
            costs = np.round(costs, 1)
        assert _solve(warm, costs) == pytest.approx(_solve(Highs(space), costs), rel=1e-9, abs=1e-12)


def test_a_warm_start_saves_iterations() -> None:
    space, rng = pairwise(10), np.random.default_rng(1)
    costs = rng.normal(size=space.n_variables)
    backend = Highs(space)
    backend.set_costs(costs)
    cold = backend.run().iterations
    backend.set_costs(costs * 1.0001)
    assert backend.run().iterations < cold / 4


def test_a_saved_basis_brings_back_its_optimum() -> None:
    space, rng = pairwise(10), np.random.default_rng(2)
    first, second = rng.normal(size=(2, space.n_variables))
    backend = Highs(space)
    value = _solve(backend, first)
    basis = backend.get_basis()
    _solve(backend, second)
    backend.set_costs(first)
    backend.set_basis(basis)
    found = backend.run()
    assert found.iterations == 0
    assert found.z is not None
    assert float(first @ found.z) == pytest.approx(value)
    backend.set_basis(None)
    assert backend.run().iterations > 0


def test_a_basis_of_another_model_is_refused() -> None:
    small, large = Highs(pairwise(3)), Highs(pairwise(4))
    _solve(small, np.ones(6))
    with pytest.raises(DeclarationError, match="another shape"):
        large.set_basis(small.get_basis())


def test_removing_a_binding_row_keeps_the_basis() -> None:
    space = pairwise(8)
    costs = np.random.default_rng(3).normal(size=space.n_variables)
    backend = Highs(space)
    value = _solve(backend, costs)
    backend.add_rows(sp.csr_array(np.ones((1, space.n_variables))), np.array([-np.inf]), np.array([1.0]))
    assert _solve(backend, costs) < value - 0.1
    backend.remove_rows()
    found = backend.run()
    assert found.iterations == 0
    assert found.z is not None
    assert float(costs @ found.z) == pytest.approx(value)


def test_duals_prove_the_optimum() -> None:
    # Strong duality of max c z, A z <= b, 0 <= z <= 1: c z = y b + sum max(0, c - y A), y >= 0.
    space = pairwise(7)
    costs = np.random.default_rng(4).normal(size=space.n_variables)
    backend = Highs(space)
    value = _solve(backend, costs)
    duals = backend.row_duals()
    assert (duals >= -1e-9).all()
    reduced = costs - space.matrix.T @ duals
    assert duals @ space.row_upper + np.maximum(reduced, 0).sum() == pytest.approx(value)


def test_the_bound_of_a_stopped_mip_holds() -> None:
    space, costs = hard_knapsack(n=14, rows=5)
    stopped, whole = Highs(space, {"mip_max_nodes": 0}), Highs(space)
    stopped.set_costs(costs)
    optimum = _solve(whole, costs)
    found = stopped.run()
    assert found.bound >= optimum - 1e-9 * abs(optimum)
    if found.z is not None:
        assert float(costs @ found.z) <= optimum + 1e-9 * abs(optimum)


def test_run_releases_the_gil() -> None:
    space, costs = hard_knapsack()
    backend = Highs(space, {"time_limit": 0.5})
    backend.set_costs(costs)
    thread = threading.Thread(target=backend.run)
    thread.start()
    ticks = 0
    while thread.is_alive():
        time.sleep(0.005)
        ticks += 1
    thread.join()
    assert ticks > 2  # with the GIL held, the first sleep would return only after the run


def test_options_are_checked_by_name_and_type() -> None:
    space = pairwise(3)
    assert Highs(space, {"time_limit": 5, "mip_gap": 0}).options["time_limit"] == 5
    for bad in ({"no_such_option": 1}, {"presolve": 3}):
        with pytest.raises(DeclarationError, match=next(iter(bad))):
            Highs(space, bad)


def test_bad_rows_are_refused() -> None:
    backend = Highs(pairwise(3))
    with pytest.raises(SpaceMismatch, match="5 columns"):
        backend.add_rows(sp.csr_array(np.ones((1, 5))), np.zeros(1), np.ones(1))
    with pytest.raises(DeclarationError, match="as many"):
        backend.add_rows(sp.csr_array(np.ones((1, 6))), np.zeros(2), np.ones(2))
    with pytest.raises(DeclarationError, match="NaN"):
        backend.add_rows(sp.csr_array(np.full((1, 6), np.nan)), np.zeros(1), np.ones(1))


def test_building_a_large_space_is_no_loop(count_calls) -> None:
    space, _, _ = crowded_knapsack()
    assert count_calls(lambda: Highs(space)) < 2_000


@pytest.mark.parametrize("version", ["1.5.3", "1.10.0", "1.11.0", "1.14.0"])
def test_versions_that_answer_wrongly_are_refused(version, monkeypatch):
    monkeypatch.setattr(highs.highspy.Highs, "version", lambda self: version)
    with pytest.raises(SolverNotAvailable, match=rf"highspy {version}.*pip install"):
        highs._refuse_wrong_versions()


@pytest.mark.parametrize("version", ["1.12.0", "1.13.1", "1.15.0", "1.15.1", "2.0.0"])
def test_the_others_are_not(version, monkeypatch):
    monkeypatch.setattr(highs.highspy.Highs, "version", lambda self: version)
    highs._refuse_wrong_versions()


def test_presolve_that_runs_in_circles():
    """A tree of groups whose pairs are binary, with two labels forbidden: HiGHS 1.15.1 as it is never answers."""
    entries = [
        {0: -3, 7: 3}, {1: -3, 8: 3, 9: 3}, {2: -3, 8: 3}, {3: -3, 7: 3, 9: 3}, {0: -3, 10: 3, 11: 3}, {1: -3, 12: 3},
        {4: -1, 10: 1}, {5: -1}, {6: -1, 11: 1, 12: 1}, {0: 1, 1: 1}, {2: 1, 3: 1}, {4: 1, 5: 1, 6: 1},
        {7: -1, 8: 1, 9: 1}, {7: 1, 8: 1, 9: -1},
    ]  # fmt: skip
    rows = np.zeros((14, 13))
    for i, row in enumerate(entries):
        rows[i, list(row)] = list(row.values())
    low = np.repeat([0.0, 1.0, 0.0], [9, 3, 2])
    up = np.repeat([0.0, 1.0, np.inf], [9, 3, 2])
    integer = np.arange(13) // 7 * (np.arange(13) < 10) == 1
    space = space_of(rows, low, up, 0.0, np.repeat([1.0, np.inf], [10, 3]), integer)
    costs = np.array([0.83, -0.55, -0.31, 0.27, 0.40, 0.60, 0.51, 0.54, -0.73, -0.68, 0.74, -0.61, -0.31])
    label = so.Oracle(space, "highs", integral="force").maximize(costs)
    assert label.value == pytest.approx(so.Oracle(space, "cbc", integral="force").maximize(costs).value, abs=1e-6)


class _UnsureDualSimplex:
    """HiGHS whose dual simplex ends in "Unknown" whatever it is given, as it does on rows that all but agree."""

    def __init__(self, highs):
        self._highs = highs

    def __getattr__(self, name):
        return getattr(self._highs, name)

    def getModelStatus(self):
        dual = self._highs.getOptionValue("simplex_strategy")[1] != 4
        return highspy.HighsModelStatus.kUnknown if dual else self._highs.getModelStatus()


@pytest.mark.parametrize("gap", [0.0, 1e-3])
def test_where_the_dual_simplex_is_unsure_the_primal_one_decides(gap):
    backend = Highs(space_of([[1.0, 1.0, 0.0]], -np.inf, 1.5, 0.0, 1.0, False), False)
    backend._highs = _UnsureDualSimplex(backend._highs)
    row = np.array([1.0, -2.0, 3.0])
    backend.add_rows(sp.csr_array(np.array([row, -row])), np.array([0.5 + gap, -0.5]), np.full(2, np.inf))
    backend.set_costs(np.array([2.0, 1.0, 5.0]))
    for _ in range(2):  # the strategy of the caller is back afterwards, and is unsure again
        found = backend.run()
        assert backend._highs.getOptionValue("simplex_strategy")[1] == 1
        if gap:
            assert found.status is Status.INFEASIBLE
        else:
            # On the plane z2 = (0.5 - z0 + 2 z1) / 3 the objective is 5/6 + z0 / 3 + 13/3 z1.
            assert found.status is Status.OPTIMAL and row @ found.z == pytest.approx(0.5)
            assert found.bound == pytest.approx(5 / 6 + 0.5 / 3 + 13 / 3)


def test_what_the_interior_point_method_calls_infeasible_is_asked_of_the_simplex_method():
    """The only point of this polytope, with costs of 5e11, which HiGHS's interior point method does not find."""
    rows = [[2.5, 0.0, -10.0], [-3.0, -3.0, 1.0], [0.0, -7.5, 0.0]]
    space = space_of(rows, [-10.0, -7.0, -np.inf], [-10.0, -2.0, -7.375], 0.0, 1.0, True)
    found = so.Oracle(space, "highs-ipm").maximize([-5e11, 5e11, -5e11], rows=[([3e-8, 0.0, 0.0], -np.inf, 2.5e-9)])
    np.testing.assert_array_equal(found.z, [0.0, 1.0, 1.0])


@pytest.mark.parametrize("solver", ["highs", "highs-exact", "highs-ipm"])
@pytest.mark.parametrize("integral", ["auto", "relax", "force"])
def test_a_single_point_next_to_a_large_coefficient_is_not_called_infeasible(solver, integral):
    """HiGHS's presolve of the LP does: 1e9 times a rounding error is more than its tolerance."""
    rows = [[300.0, 400.0, 0.0], [0.0, 2.0, 0.0], [0.0, 100.0, 0.0], [-1e9, 0.0, 1.0]]
    space = space_of(
        rows, [700.0, 1.0, -200.0, 0.0], [700.0, 2.0, 100.0, 0.0], 0.0, [1.0, 1.0, 1e9], [True, True, False]
    )
    costs, side = [0.157921772, -0.0129462443, 2.52453346e-10], ([-0.01, 0.03, 0.0], -np.inf, 0.0225)
    found = so.Oracle(space, solver, integral=integral).maximize(costs, rows=[side])
    np.testing.assert_allclose(found.z, [1.0, 1.0, 1e9])


def test_the_interior_point_method_does_not_go_on_for_ever():
    """Asked a second time, without presolve, it did: with costs of 5e10 its first answer is "Unknown"."""
    rows = [
        [-3.0, -3.0, 0.0, 2.0, 0.0, 0.0, 0.0],
        [1.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0],
        [0.0, -1e9, 0.0, 0.0, 0.0, 0.0, 1.0],
    ]
    lower, upper = [-2.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0], [-1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 2.0]
    space = space_of(rows, [6.0, -4.0, -np.inf], [6.0, -2.0, 0.0], lower, upper, [True] * 6 + [False])
    costs = 1e10 * np.array([5.0, -5.0, 3.0, -3.0, 6.0, -4.0, 6.0])
    wanted = [label.value for label in so.Oracle(space, "highs").k_best(costs, 3)]
    found = [label.value for label in so.Oracle(space, "highs-ipm").k_best(costs, 3)]
    np.testing.assert_allclose(found, wanted)

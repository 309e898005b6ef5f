"""Sets of leaves in a DAG: the oracle with a proof against HiGHS on the whole program, LP and MIP."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.algorithms.leaf_sets import algorithm as leaf_set_oracle
from structopt.algorithms.leaf_sets.algorithm import LeafSetAlgorithm
from structopt.algorithms.leaf_sets.candidates import candidates, greedy_label
from structopt.algorithms.leaf_sets.core import Core
from structopt.hierarchy import Hierarchy
from structopt.space.feasibility import contains
from structopt.structures.hierarchy import HierarchicalLabels

seeds = st.integers(0, 2**32 - 1)


def random_dag(seed, n, most, near):
    """Up to `most` parents each, among the last `near` nodes."""
    rng = np.random.default_rng(seed)
    edges = []
    for i in range(1, n):
        pool = np.arange(max(0, i - near), i)
        edges += [(int(p), i) for p in rng.choice(pool, min(pool.size, rng.integers(0, most + 1)), replace=False)]
    return Hierarchy(edges, nodes=range(n))


def layered(n, seed=0, every=8):
    """Four levels, every so many leaves with a second parent."""
    rng = np.random.default_rng(seed)
    top, middle = max(2, n // 40), max(4, n // 4)
    leaves = n - 1 - top - middle
    edges = [(0, 1 + k) for k in range(top)] + [(1 + k % top, 1 + top + k) for k in range(middle)]
    edges += [(1 + top + k % middle, 1 + top + middle + k) for k in range(leaves)]
    more = {(1 + top + int(rng.integers(middle)), 1 + top + middle + k) for k in range(0, leaves, every)}
    return Hierarchy([*edges, *sorted(more - set(edges))])


def gains_of(h, rng):
    """Scores of every kind: mixed, all negative, ties, leaves that pay, leaves that cost, large and tiny."""
    n = len(h)
    return [
        rng.normal(size=n),
        -rng.random(n),
        rng.integers(-2, 3, n).astype(float),
        rng.integers(-1, 2, n).astype(float),
        np.where(h.is_leaf, rng.normal(1, 1, n), rng.normal(-2, 1, n)),
        np.where(h.is_leaf, -0.9, 1.0) * rng.choice([1e-6, 1.0, 1e5]),
        np.where(h.is_leaf, -rng.random(n), rng.random(n)),
        np.zeros(n),
    ]


def check(h, C):
    space = HierarchicalLabels(h, "leaves").space()
    lp, mip = so.Oracle(space.relaxed(), "highs"), so.Oracle(space, "highs")
    relaxed = LeafSetAlgorithm(h, relaxed=True)
    labels = relaxed.over(relaxed=False)
    for c in C:
        size = max(1e-300, np.abs(c).max(), abs(lp.maximize(c).value))
        found, expected = relaxed.maximize(c), lp.maximize(c)
        assert abs(found.value - expected.value) <= 1e-7 * size
        assert found.value == pytest.approx(c @ found.z, rel=1e-9, abs=1e-9 * size)
        assert space.relaxed().contains(found.z)
        # A bound is a promise, up to what HiGHS itself may be off by.
        assert max(found.value, expected.value - 1e-9 * size) <= found.bound <= expected.value + 1e-7 * size
        found, expected = labels.maximize(c), mip.maximize(c)
        assert abs(found.value - expected.value) <= 1e-7 * size
        assert set(np.unique(found.z)) <= {0.0, 1.0}
        assert space.contains(found.z)
        assert max(found.value, expected.value - 1e-9 * size) <= found.bound <= expected.value + 1e-7 * size


@settings(max_examples=20, deadline=None)
@given(st.builds(random_dag, seeds, st.integers(1, 14), st.integers(1, 4), st.sampled_from([3, 100])), seeds)
def test_small_dags_against_highs(h, seed):
    check(h, gains_of(h, np.random.default_rng(seed)))


@settings(max_examples=4, deadline=None)
@given(st.builds(random_dag, seeds, st.integers(30, 90), st.integers(1, 3), st.sampled_from([10, 100])), seeds)
def test_larger_dags_against_highs(h, seed):
    check(h, gains_of(h, np.random.default_rng(seed)))


@pytest.mark.parametrize("every", [2, 8])
def test_a_layered_dag_against_highs(every):
    h = layered(400, every=every)
    rng = np.random.default_rng(every)
    check(h, gains_of(h, rng)[:5])


def without_proof(monkeypatch):
    """Every label is left to what comes after the sweeps."""
    sweeps = leaf_set_oracle.label_and_proof
    monkeypatch.setattr(leaf_set_oracle, "label_and_proof", lambda *arguments: (sweeps(*arguments), np.inf)[1])


def check_some(n_seeds=5, n=12):
    for seed in range(n_seeds):
        h = random_dag(seed, n, 3, 100)
        check(h, gains_of(h, np.random.default_rng(seed)))


@pytest.mark.parametrize("labels", [1, 8])
def test_fewer_and_more_labels(monkeypatch, labels):
    monkeypatch.setattr(leaf_set_oracle, "_LABELS", labels)
    check_some()


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_bounds_of_leaves_alone(monkeypatch, share):
    without_proof(monkeypatch)
    monkeypatch.setattr(leaf_set_oracle, "_SMALLER", share)
    check_some()


def test_the_solver_alone(monkeypatch):
    without_proof(monkeypatch)
    monkeypatch.setattr(leaf_set_oracle, "candidates", lambda h, *rest: (np.arange(h.leaf_index.size), -np.inf))
    monkeypatch.setattr(leaf_set_oracle, "_SMALLER", 0.0)
    starts = []
    ask = leaf_set_oracle._Workspace._ask_solver

    def asked(self, start=None):
        if not self._relaxed:
            starts.append(contains(self._core.space, start))
        return ask(self, start)

    monkeypatch.setattr(leaf_set_oracle._Workspace, "_ask_solver", asked)
    check_some()
    assert starts and all(starts)


@settings(max_examples=25, deadline=None)
@given(st.builds(random_dag, seeds, st.integers(1, 11), st.integers(1, 4), st.sampled_from([3, 100])), seeds)
def test_a_bound_of_a_leaf_holds_for_all_its_labels(h, seed):
    rows = HierarchicalLabels(h, "leaves").space().enumerate()
    for c in gains_of(h, np.random.default_rng(seed)):
        values, tol = rows @ c, 1e-12 * np.abs(c).sum()
        greedy = greedy_label(h, c)
        assert (rows == greedy).all(axis=1).any()
        best = np.array([values[rows[:, leaf] > 0].max() for leaf in h.leaf_index])
        assert (c @ greedy >= (h.closure @ c).max() - tol) and c @ greedy <= best.max() + tol
        for value in (-np.inf, float(np.median(best)), c @ greedy):
            leaves, bound = candidates(h, c, value, 0.0)
            others = np.setdiff1d(np.arange(best.size), leaves)
            assert (best[others] <= bound + tol).all() and bound <= value
        if (c <= 0).all():  # where nothing pays, the bound is the leaf's own value
            assert not candidates(h, c, c @ greedy, tol)[0].size


@settings(max_examples=15, deadline=None)
@given(st.builds(random_dag, seeds, st.integers(1, 11), st.integers(1, 4), st.sampled_from([3, 100])))
def test_every_label_is_a_start_of_the_core(h):
    core = Core(h)
    for z in HierarchicalLabels(h, "leaves").space().enumerate():
        assert contains(core.space, core.start(z))


def test_costly_labels_need_no_integer_program(monkeypatch):
    """The relaxation is fractional, half a leaf for each of two parents; only the bounds of leaves see the label."""
    h = layered(1500, every=1)
    c = -1.0 - np.random.default_rng(0).random(len(h))
    relaxed = LeafSetAlgorithm(h, relaxed=True).maximize(c)
    assert (relaxed.z % 1.0).any() and relaxed.value > (h.closure @ c).max() + 0.5
    monkeypatch.delattr(leaf_set_oracle._Workspace, "_ask_solver")
    found = LeafSetAlgorithm(h).maximize(c)
    assert found.value == found.bound == pytest.approx((h.closure @ c).max(), rel=1e-12)


def test_labels_that_need_no_solver(monkeypatch):
    h = layered(1500)
    monkeypatch.delattr(leaf_set_oracle._Workspace, "_ask_solver")
    rng = np.random.default_rng(0)
    first_step = np.where(h.is_leaf, 1.0, 0.0)  # the loss alone
    first_step[rng.choice(h.leaf_index, 2)] = -1.0
    C = np.array([first_step, np.zeros(len(h)), np.ones(len(h))])
    found = LeafSetAlgorithm(h, relaxed=True).maximize_batch(C)
    highs = so.Oracle(HierarchicalLabels(h, "leaves").space().relaxed(), "highs")
    np.testing.assert_allclose(found.values, [highs.maximize(c).value for c in C], rtol=1e-7, atol=1e-9)


def test_threads_and_copies_do_not_change_answers():
    h = random_dag(3, 80, 2, 100)
    C = np.random.default_rng(0).normal(size=(70, 80))
    for relaxed in (True, False):
        oracle = LeafSetAlgorithm(h, relaxed=relaxed)
        once = oracle.maximize_batch(C)
        for other in (oracle.maximize_batch(C, n_jobs=3), pickle.loads(pickle.dumps(oracle)).maximize_batch(C)):
            assert np.array_equal(once.Z, other.Z) and np.array_equal(once.values, other.values)
        rows, values, _ = oracle.columns_and_bounds(C[:64].T)
        np.testing.assert_array_equal(rows.toarray(), once.Z[:64])
        np.testing.assert_allclose(values, once.values[:64])
    rows, values, _ = oracle.columns_and_bounds(np.empty((80, 0)))
    assert rows.shape == (0, 80) and values.size == 0


def test_where_it_is_used():
    h = layered(120)
    model = HierarchicalLabels(h, "leaves", integral="relax")
    assert model.algorithm().relaxed and not model._integral_twin().algorithm().relaxed
    assert HierarchicalLabels(layered(30), "leaves").algorithm() is None
    assert HierarchicalLabels(h, "leaves", options={"time_limit": 5.0}).algorithm() is None
    assert HierarchicalLabels(h, "leaves", solver="highs").oracle().algorithm == "highs"
    # Rows and no-goods are a solver's work.
    c = np.random.default_rng(0).normal(size=len(h))
    oracle, highs = HierarchicalLabels(h, "leaves").oracle(), so.Oracle(model.space(), "highs")
    best = oracle.maximize(c)
    assert oracle.maximize(c, forbid=[best.z]).value == pytest.approx(highs.maximize(c, forbid=[best.z]).value)
    assert [a.value for a in oracle.k_best(c, 2)] == pytest.approx([a.value for a in highs.k_best(c, 2)])
    assert pickle.loads(pickle.dumps(model)).oracle().maximize(c).value == pytest.approx(
        model.oracle().maximize(c).value
    )


def test_training_and_prediction_use_it(monkeypatch):
    h = layered(60)
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 15), density=0.4, random_state=rng, format="csr")
    Y = h.ancestor_rows(np.arange(41) * 2, h.leaf_index[rng.integers(0, h.leaf_index.size, 80)])
    calls = []
    asked = LeafSetAlgorithm.columns_and_bounds

    def counted(self, gains):
        calls.append((self.relaxed, gains.shape[1]))
        return asked(self, gains)

    monkeypatch.setattr(LeafSetAlgorithm, "columns_and_bounds", counted)
    est = so.HierarchicalSVM(h, "rho", kind="leaves", trainer="sgd", support="seen", lam=1e-2, max_passes=3)
    est.fit(X, Y)
    assert sum(n for relaxed, n in calls if relaxed) >= 3 * 40 and all(relaxed for relaxed, _ in calls)
    calls.clear()
    assert len(est.predict(X)) == 40 and calls == [(False, 40)]

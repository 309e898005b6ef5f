"""The dual QP: feasible always, certified by its own gap, unbroken by degenerate bundles."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.errors import DeclarationError
from structopt.programs.simplex_qp import SimplexQP, solve_simplex_qp


def grown(A, b, lam, mass=1.0, block=None, zero_plane=False, tol=1e-9):
    """Add the rows of A one by one, solving after each as a bundle method does."""
    qp = SimplexQP(lam, mass, zero_plane=zero_plane)
    solution = None
    for k in range(len(A)):
        qp.add(A[: k + 1] @ A[k], b[k], 0 if block is None else int(block[k]))
        solution = qp.solve(tol)
    return qp, solution


def exact_gap(qp, A):
    """Primal minus dual of the model at the QP's weights, from the cuts themselves."""
    w = -(qp.alpha @ A) / qp.lam
    scores = A @ w + qp.b
    primal = 0.5 * qp.lam * w @ w
    for i, mass in enumerate(qp.mass):
        own = scores[qp.block == i]
        if own.size:
            primal += mass * max(own.max(), 0.0 if qp.zero_plane else -np.inf)
    dual = qp.b @ qp.alpha - 0.5 * qp.lam * w @ w
    return primal, dual


def test_example_of_the_specification():
    alpha, solution = solve_simplex_qp([[1.0, -1.0], [-1.0, 5.0]], [0.0, 1.0], 0.5, absolute_tol=1e-12)
    assert alpha == pytest.approx([0.6875, 0.3125], abs=1e-9)
    assert solution.value == pytest.approx(-0.21875, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 25),
    d=st.integers(1, 8),
    scale=st.sampled_from([1e-4, 1.0, 1e3]),
    lam=st.sampled_from([1e-4, 1e-1, 10.0]),
    duplicates=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_feasible_and_certified(n, d, scale, lam, duplicates, seed):
    rng = np.random.default_rng(seed)
    A, b = scale * rng.normal(size=(n, d)), rng.normal(size=n)
    if duplicates:
        copies = rng.integers(0, n, n)
        A, b = A[copies], b[copies] - 0.1 * rng.integers(0, 2, n)
    tol = 1e-6 * (1.0 + scale**2 / lam)
    qp, solution = grown(A, b, lam, tol=tol)
    assert (qp.alpha >= 0).all()
    assert qp.alpha.sum() == pytest.approx(1.0, abs=1e-12)
    primal, dual = exact_gap(qp, A)
    rounding = 1e-12 * (1.0 + scale**2 / lam)
    assert solution.value == pytest.approx(dual, abs=rounding)
    assert primal - dual <= solution.absolute_gap + rounding  # what it reports is an upper bound
    assert solution.absolute_gap <= tol


@pytest.mark.parametrize("zero_plane", [False, True])
def test_one_simplex_per_example_matches_cvxpy(zero_plane):
    rng = np.random.default_rng(3)
    n_blocks, per, d, lam = 6, 5, 4, 0.3
    block = rng.permutation(np.repeat(np.arange(n_blocks), per))
    A, b = rng.normal(size=(block.size, d)), rng.normal(size=block.size)
    mass = rng.uniform(0.1, 1.0, n_blocks)
    qp, solution = grown(A, b, lam, mass, block, zero_plane, tol=1e-9)
    alpha = cp.Variable(block.size, nonneg=True)
    sums = [cp.sum(alpha[np.flatnonzero(block == i)]) for i in range(n_blocks)]
    rows = [s <= m if zero_plane else s == m for s, m in zip(sums, mass, strict=True)]
    problem = cp.Problem(cp.Maximize(b @ alpha - cp.sum_squares(A.T @ alpha) / (2 * lam)), rows)
    problem.solve(solver=cp.CLARABEL)
    assert solution.value == pytest.approx(problem.value, abs=1e-7)
    primal, dual = exact_gap(qp, A)
    assert primal - dual <= solution.absolute_gap + 1e-12
    total = np.bincount(qp.block, weights=qp.alpha, minlength=n_blocks)
    assert (total <= mass * (1 + 1e-12)).all()
    if not zero_plane:
        assert total == pytest.approx(mass, rel=1e-12)


def test_ill_conditioned_bundle_is_finished_by_piqp():
    # Cuts whose Gram matrix has condition 1e6 and half of which stay active: pair steps crawl.
    rng = np.random.default_rng(0)
    n, d = 60, 40
    A = np.logspace(0, -3, d) * rng.normal(size=(n, d))
    b = 1e-2 * rng.normal(size=n)
    qp, solution = grown(A, b, 1e-3, tol=1e-9)
    primal, dual = exact_gap(qp, A)
    assert solution.method == "piqp"
    assert solution.absolute_gap <= 1e-9
    assert primal - dual <= 1e-9 + 1e-12
    assert (qp.alpha == 0).any()  # an interior point is cleaned up, or no cut would ever be idle
    low, high = qp.certify()
    assert low <= primal + 1e-12 and dual <= high + 1e-12


def test_warm_bounds_never_fall():
    rng = np.random.default_rng(1)
    A, b = rng.normal(size=(40, 6)), rng.normal(size=40)
    qp, values = SimplexQP(0.1), []
    for k in range(40):
        qp.add(A[: k + 1] @ A[k], b[k])
        values.append(qp.solve(1e-3).value)
    assert (np.diff(values) >= -1e-12).all()


def test_merging_keeps_the_dual_point_and_two_cuts_follow_the_closed_form():
    rng = np.random.default_rng(2)
    A, b, lam = rng.normal(size=(8, 5)), rng.normal(size=8), 0.7
    qp = SimplexQP(lam)
    qp.add([A[0] @ A[0]], b[0])
    rows = A[:1].copy()
    w, offset = -A[0] / lam, b[0]  # docs/mathematics/training#bundle-methods
    for a, c in zip(A[1:], b[1:], strict=True):
        if qp.n_cuts == 2:
            before = qp.value
            share = qp.merge(np.array([0, 1]))
            rows = (share @ rows)[None]
            assert qp.value == pytest.approx(before, abs=1e-12)
        rows = np.vstack([rows, a])
        qp.add(rows @ a, c)
        qp.solve(1e-13)
        eta = np.clip((c - offset + w @ a + lam * w @ w) * lam / ((a + lam * w) @ (a + lam * w)), 0, 1)
        w, offset = (1 - eta) * w - eta / lam * a, (1 - eta) * offset + eta * c
        assert -(qp.alpha @ rows) / lam == pytest.approx(w, abs=1e-9)
        assert qp.value == pytest.approx(offset - 0.5 * lam * w @ w, abs=1e-9)


def test_removed_cuts_leave_no_weight_behind():
    rng = np.random.default_rng(4)
    A, b = rng.normal(size=(30, 3)), rng.normal(size=30)
    qp, _ = grown(A, b, 0.1, tol=1e-10)
    kept = qp.alpha > 0
    value = qp.value
    assert not kept.all()
    with pytest.raises(DeclarationError, match="merge"):
        qp.keep(~kept)
    qp.keep(kept)
    assert qp.value == pytest.approx(value, abs=1e-12)
    a = rng.normal(size=3)
    qp.add(np.vstack([A[kept], a]) @ a, -100.0)
    assert qp.alpha[-1] == 0.0 and qp.alpha.sum() == pytest.approx(1.0)


def test_wrong_input_is_named():
    with pytest.raises(DeclarationError, match="lam"):
        SimplexQP(0.0)
    with pytest.raises(DeclarationError, match="mass"):
        SimplexQP(1.0, [1.0, -1.0])
    qp = SimplexQP(1.0)
    with pytest.raises(DeclarationError, match="1 inner products"):
        qp.add([1.0, 2.0], 0.0)
    with pytest.raises(DeclarationError, match="finite"):
        qp.add([np.inf], 0.0)
    with pytest.raises(DeclarationError, match="block 3"):
        qp.add([1.0], 0.0, block=3)
    assert qp.solve(1.0).value == 0.0
    assert "0 cuts" in repr(qp)


def test_few_steps_at_a_hundred_cuts():
    # A bundle as a trainer makes it: solved after every cut to a tenth of the outer gap.
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(500, 40)), np.sign(rng.normal(size=500))
    lam, w, best, low = 1e-3, np.zeros(40), np.inf, 0.0
    A, b, qp, steps = [], [], SimplexQP(lam), []
    for _ in range(105):
        margin = 1 - y * (X @ w)
        risk, a = margin.clip(0).mean(), -(X.T @ (y * (margin > 0))) / 500
        best = min(best, 0.5 * lam * w @ w + risk)
        A.append(a)
        b.append(risk - a @ w)
        qp.add(np.array(A) @ a, b[-1])
        solution = qp.solve(0.1 * (best - low))
        assert solution.method == "pairs"  # the interior-point method would cost milliseconds
        steps.append(solution.steps)
        low = max(low, solution.value)
        w = -(qp.alpha @ np.array(A)) / lam
    assert qp.n_cuts == 105
    assert np.median(steps[95:]) < 1_000  # a step reads one row of the Gram matrix

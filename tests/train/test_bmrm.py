"""BMRM: the optimum of cvxpy with every regulariser, Theorem 5, hard subproblems, and broken risks."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, SolverFailed
from structopt.risks import Absolute, Hinge, Logistic
from structopt.risks.regularizers import L1, L2, Entropy, Lp, Quadratic
from structopt.train import Cut, Risk, bmrm

N, D = 40, 5


class Opaque(Risk):
    """The same risk without predictions, line search or a known lower bound."""

    def __init__(self, risk, lower_bound=-math.inf):
        self.risk, self.n_features, self.lower_bound = risk, risk.n_features, lower_bound

    def __len__(self):
        return len(self.risk)

    def value_and_subgradient(self, w):
        return self.risk(w)


def data(kind, n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, y if kind is Absolute else np.where(y > 0, 1.0, -1.0)


def make(kind, n=N, d=D, seed=0):
    return kind(*data(kind, n, d, seed))


#: Loss of each example, from predictions f and targets y.
LOSSES = {
    Hinge: lambda f, y: cp.pos(1 - cp.multiply(y, f)),
    Logistic: lambda f, y: cp.logistic(-cp.multiply(y, f)),
    Absolute: lambda f, y: cp.abs(f - y),
}


FORM = 0.5 * np.eye(D) + 0.5  # every pair of weights is tied
REGULARIZERS = {
    "l2": (L2(), lambda w: cp.sum_squares(w) / 2, []),
    "l1": (L1(), cp.norm1, []),
    "l1.5": (Lp(1.5), lambda w: cp.square(cp.pnorm(w, 1.5)) / 2, []),
    "l3": (Lp(3), lambda w: cp.square(cp.pnorm(w, 3)) / 2, []),
    "quadratic": (
        Quadratic(np.arange(1.0, D + 1)),
        lambda w: cp.sum_squares(np.sqrt(np.arange(1.0, D + 1)) @ cp.diag(w)) / 2,
        [],
    ),
    "quadratic form": (Quadratic(FORM), lambda w: cp.quad_form(w, FORM) / 2, []),
    "entropy": (Entropy(), lambda w: -cp.sum(cp.entr(w)), [lambda w: cp.sum(w) == 1]),
    "unnormalised": (Entropy(normalized=False), lambda w: -cp.sum(cp.entr(w)), []),
}


def reference(risk, name, lam):
    """Return the objective at a near-optimal point of cvxpy, which no lower bound may exceed."""
    regularizer, omega, constraints = REGULARIZERS[name]
    w, (X, y) = cp.Variable(risk.n_features), data(type(risk))
    mean = cp.sum(LOSSES[type(risk)](X @ w, y)) / len(y)
    problem = cp.Problem(cp.Minimize(lam * omega(w) + mean), [make(w) for make in constraints])
    problem.solve(solver=cp.CLARABEL)
    point = w.value
    if isinstance(regularizer, Entropy):
        point = point.clip(0)
        point = point / point.sum() if regularizer.normalized else point
    return lam * regularizer.value(point) + risk(point)[0]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for k, name in enumerate(REGULARIZERS) for kind in (Hinge, (Logistic, Absolute)[k % 2])],
)
def test_reaches_the_optimum_of_cvxpy_with_valid_bounds_throughout(kind, name):
    risk, lam, regularizer = make(kind), 0.05, REGULARIZERS[name][0]
    optimum = reference(risk, name, lam)
    for variant, options in ((risk, {}), (Opaque(risk), {}), (Opaque(risk, 0.0), {"w0": np.full(D, 1.0 / D)})):
        result = bmrm(variant, regularizer, lam=lam, tol=2e-7, **options)
        assert result.converged
        assert result.objective == pytest.approx(optimum, rel=1e-6)
        assert (result.history["lower_bound"] <= optimum).all()
        assert (result.history["objective"] >= optimum - 1e-7 * abs(optimum)).all()
        low, high = result.history["lower_bound"], result.history["objective"]
        assert (low[1:] >= low[:-1]).all() and (high[1:] <= high[:-1]).all()
        assert result.objective == pytest.approx(lam * regularizer.value(result.w) + risk(result.w)[0], abs=1e-12)


@pytest.mark.parametrize(("theta", "lam"), [(1.0, 1e-1), (0.1, 1e-2)])
def test_iterations_obey_theorem_5(theta, lam):
    risk, (X, _) = make(Hinge, n=200, d=10), data(Hinge, n=200, d=10)
    G2 = float((np.linalg.norm(X, axis=1).mean()) ** 2)  # ||subgradient|| <= mean ||x_i||
    result = bmrm(Opaque(risk, 0.0), lam=lam, tol=1e-6, theta=theta)
    gap = result.history["objective"] - result.history["lower_bound"]
    start = risk(np.zeros(10))[0]
    for epsilon in np.logspace(-1, -5, 9):
        assert epsilon < 4 * G2 / lam
        needed = 1 + int(np.argmax(gap <= epsilon))
        assert gap.min() <= epsilon
        assert needed <= max(math.log2(lam * start / G2), 0.0) + 8 * G2 / (lam * epsilon) - 1


def test_smooth_iterations_obey_theorem_5():
    risk, lam, (X, _) = make(Logistic, n=200, d=10), 1e-1, data(Logistic, n=200, d=10)
    G2 = float((np.linalg.norm(X, axis=1).mean()) ** 2)
    H = lam + float(np.linalg.norm(X, 2) ** 2) / (4 * 200)
    result = bmrm(Opaque(risk, 0.0), lam=lam, tol=1e-9, theta=1.0)
    gap = result.history["objective"] - result.history["lower_bound"]
    for epsilon in (1e-3, 1e-5, 1e-7, 1e-8):
        assert epsilon <= H / 2
        limit = max(math.log2(lam * math.log(2) / (4 * G2)), 0.0) + 4 / lam * max(0.0, H - 8 * G2 / lam)
        assert 1 + int(np.argmax(gap <= epsilon)) <= limit + 4 * H / lam * math.log(H / (2 * epsilon))


def test_the_stabilised_cuts_and_the_line_search_save_passes():
    risk = make(Hinge, n=400, d=40, seed=1)
    passes = {
        "search": bmrm(risk, lam=1e-3).passes,
        "theta": bmrm(risk, lam=1e-3, line_search=False).passes,
        "plain": bmrm(risk, lam=1e-3, line_search=False, theta=1.0).passes,
    }
    assert passes["search"] < passes["theta"] < passes["plain"]


def test_a_risk_with_its_own_line_search():
    class Searching(Opaque):
        calls = 0

        def line_search(self, w, direction, lam):
            self.calls += 1
            return self.risk.line_search(w, direction, lam)

    risk = make(Hinge)
    searching = Searching(risk, 0.0)
    result = bmrm(searching, lam=0.05, tol=1e-6)
    assert searching.calls == result.passes and result.info["line_search"]
    assert result.objective == pytest.approx(bmrm(risk, lam=0.05, tol=1e-6).objective, rel=2e-6)
    assert not bmrm(searching, L1(), lam=0.05).info["line_search"]


def test_an_inexact_risk_is_certified_by_its_upper_bound():
    class Inexact(Opaque):
        def cut(self, w):
            value, a = self.risk(w)
            return Cut(value + 1e-3, a, value - 1e-3)

    risk = make(Hinge)
    optimum = reference(risk, "l2", 0.05)
    result = bmrm(Inexact(risk, 0.0), lam=0.05, tol=1e-8, max_passes=300)
    assert result.lower_bound <= optimum <= result.objective
    assert result.absolute_gap <= 1.25 * 2e-3 and not result.converged  # the inner solve stops at 0.1 of the gap


@pytest.mark.parametrize(
    "regularizer",
    [L1(), Lp(1.1), Lp(6), Entropy(), Entropy(normalized=False), Quadratic(np.logspace(-3, 3, 10))],
    ids=repr,
)
@pytest.mark.parametrize("floor", [0.0, -math.inf])
def test_hard_subproblems_stay_certified(regularizer, floor):
    # Few cuts without a floor put the first steps far out (exp overflows, linear programs are unbounded).
    risk, lam = make(Hinge, n=60, d=10, seed=2), 1e-3
    result = bmrm(Opaque(risk, floor), regularizer, lam=lam, tol=1e-3, max_passes=500)
    assert result.converged
    best = bmrm(risk, regularizer, lam=lam, tol=1e-4, max_passes=500)
    assert (result.history["lower_bound"] <= best.objective).all()
    assert (result.history["objective"] >= best.lower_bound).all()


def test_a_cut_far_out_does_not_rise_above_the_risk():
    # 1e20 - 1e20 loses everything near the origin: the offset must be lowered by its rounding error.
    risk = make(Hinge)
    for scale in (1.0, 1e8, 1e20):
        w = scale * np.random.default_rng(0).normal(size=D)
        cut = risk.cut(w)
        for v in np.random.default_rng(1).normal(size=(50, D)):
            assert cut.subgradient @ v + cut.offset(w) <= risk(v)[0]


def test_idle_cuts_are_dropped():
    result = bmrm(Opaque(make(Hinge, n=400, d=40, seed=1), 0.0), lam=1e-3, theta=1.0)
    assert result.converged and result.info["n_cuts"] < 0.7 * result.passes


def test_tol_zero_goes_to_the_limit_of_float64():
    result = bmrm(make(Hinge), lam=0.05, tol=0.0, max_passes=2000)
    assert result.stopped in ("tol", "precision", "stalled") and result.gap < 1e-10


def test_optimum_zero():
    class Zero(Risk):
        lower_bound, n_features = 0.0, 3

        def value_and_subgradient(self, w):
            return 0.0, np.zeros(3)

    result = bmrm(Zero(), lam=1.0)
    assert result.converged and result.objective == 0.0 and result.passes == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 0.0}, "lam"),
        ({"lam": -1.0}, "lam"),
        ({"lam": np.nan}, "lam"),
        ({"theta": 0.0}, "theta"),
        ({"theta": 1.1}, "theta"),
        ({"tol": -1.0}, "tol"),
        ({"w0": np.full(D, np.nan)}, "w0 is not finite at 5"),
        ({"w0": np.zeros(D + 1)}, r"w0 has shape \(6,\)"),
        ({"max_cuts": 1}, "at least 2"),
        ({"line_search": "yes"}, "line_search"),
        ({"line_search": True, "regularizer": L1()}, "no exact line search"),
        ({"regularizer": L1(), "max_cuts": 5}, "strongly convex"),
        ({"regularizer": Entropy(), "w0": np.full(D, -1.0)}, "non-negative"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_input_is_named(options, message):
    with pytest.raises(DeclarationError, match=message):
        bmrm(make(Hinge), **({"lam": 0.1} | options))


def test_broken_risks_are_found_out():
    class Broken(Risk):
        n_features = 2

        def __init__(self, answer):
            self.answer = answer

        def value_and_subgradient(self, w):
            return self.answer(w)

    with pytest.raises(SolverFailed, match="not finite"):
        bmrm(Broken(lambda w: (np.nan, w)), lam=1.0)
    with pytest.raises(DeclarationError, match="shape"):
        bmrm(Broken(lambda w: (1.0, np.zeros(3))), lam=1.0)
    with pytest.raises(DeclarationError, match="subgradient"):  # a slope too flat
        bmrm(Broken(lambda w: (abs(w[0] - 3), np.array([0.1 * np.sign(w[0] - 3), 0]))), lam=0.1, tol=1e-9)

    def later(w):
        return (1.0, np.ones(2)) if not w.any() else (np.inf, w)

    with pytest.raises(SolverFailed) as caught:
        bmrm(Broken(later), lam=1.0)
    assert caught.value.partial.objective == 1.0


def test_fingerprint_shards_and_repr_of_a_risk():
    risk = make(Hinge)
    assert "40 examples, 5 features" in risk.fingerprint() and "Hinge" in repr(risk)
    assert risk.has_line_search and not Opaque(risk).has_line_search and bool(risk)
    with pytest.raises(NotImplementedError, match="shard"):
        Opaque(risk).shard(0, 2)


def test_an_interrupt_inside_the_risk_returns_the_passes_before():
    class Interrupted(Opaque):
        calls = 0

        def value_and_subgradient(self, w):
            self.calls += 1
            if self.calls == 6:
                raise KeyboardInterrupt
            return self.risk(w)

    risk = make(Hinge)
    result = bmrm(Interrupted(risk, 0.0), lam=1e-4, tol=0.0)
    assert result.stopped == "interrupted" and result.passes == 5
    assert result.lower_bound <= reference(risk, "l2", 1e-4) <= result.objective


@pytest.mark.parametrize("trainer", ["bmrm", "proximal_bundle", "trust_region_bundle"])
def test_risk_of_rounding_errors_is_convex(trainer):
    class Reached(so.train.Risk):
        lower_bound, n_features = 0.0, 1

        def value_and_subgradient(self, w):
            return max(0.0, 1.0 - w.item()) + 1e-17, np.array([-1.0 if w.item() < 1.0 else 0.0])

    result = getattr(so.train, trainer)(Reached(), lam=0.02, tol=1e-9, max_passes=40)
    np.testing.assert_allclose(result.objective, 0.01, atol=1e-6)


@pytest.mark.parametrize("trainer", ["bmrm", "proximal_bundle", "trust_region_bundle", "lbfgs"])
def test_subgradient_of_the_wrong_sign_is_an_error(trainer):
    class Wrong(so.train.Risk):
        lower_bound, n_features, is_smooth = 0.0, 3, True
        target = np.random.default_rng(0).normal(size=3)

        def value_and_subgradient(self, w):
            return float(((w - self.target) ** 2).sum()), -2.0 * (w - self.target)

    with pytest.raises(DeclarationError, match="Wrong is not convex, or its subgradient is wrong"):
        getattr(so.train, trainer)(Wrong(), lam=0.5, tol=1e-6)


def test_callback_gets_the_cut_model(helpers):
    risk, seen = helpers.pairwise(), []
    result = so.train.bmrm(risk, lam=0.1, callback=seen.append)
    assert "cuts" not in result.info  # a stored result stays small
    for step in seen:
        cuts, offsets, alpha = (step.info[name] for name in ("cuts", "offsets", "alpha"))
        assert cuts.shape == (step.info["n_cuts"], risk.n_features)
        assert offsets.shape == alpha.shape == (len(cuts),)
        assert alpha.sum() == pytest.approx(1.0)
        for w in (result.w, np.zeros(risk.n_features)):
            assert (cuts @ w + offsets).max() <= risk(w)[0] + 1e-9
        slope = alpha @ cuts
        assert alpha @ offsets - slope @ slope / 0.2 <= step.lower_bound + 1e-9

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt.risks as risks
from structopt.errors import DeclarationError

seeds = st.integers(0, 2**32 - 1)


def by_labellings(f, y, score):
    """max over labellings of (y' - y).f + 1 - score, by enumeration."""
    best = 0.0
    for other in product([-1.0, 1.0], repeat=y.size):
        other = np.array(other)
        tp, fp = np.sum((other > 0) & (y > 0)), np.sum((other > 0) & (y < 0))
        best = max(best, (other - y) @ f + 1 - score(tp, fp, (y > 0).sum() - tp, (y < 0).sum() - fp))
    return best


def f_score(beta):
    return lambda tp, fp, fn, tn: (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)


def matthews(tp, fp, fn, tn):
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return np.where(product > 0, (tp * tn - fp * fn) / np.sqrt(np.maximum(product, 1)), 0.0)


def dear(tp, fp, fn, tn):
    return 0.75 - 0.1 * fp**2 - 0.2 * fn  # not 1 at the truth: a risk with a positive floor


#: Scores beyond those that have a law.
CASES = {
    "F0.2": (lambda X, y: risks.FBeta(X, y, 0.2), f_score(0.2)),
    "F3": (lambda X, y: risks.FBeta(X, y, 3), f_score(3.0)),
    "Matthews": (lambda X, y: risks.Contingency(X, y, matthews), matthews),
    "floor": (lambda X, y: risks.Contingency(X, y, dear), dear),
    "generic F1": (lambda X, y: risks.Contingency(X, y, f_score(1.0)), f_score(1.0)),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=8, deadline=None)
@given(seed=seeds, m=st.integers(4, 7), scale=st.sampled_from([0.0, 0.02, 0.1, 1.0]))
def test_against_all_labellings(name, seed, m, scale):
    make, score = CASES[name]
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], m)
    y[:2] = 1.0, -1.0
    f = scale * rng.normal(size=m)
    risk = make(np.eye(m), y)
    value, slope = risk(f)
    assert value == pytest.approx(by_labellings(f, y, score), rel=1e-12, abs=1e-12)
    assert set(np.unique(slope)) <= {-2.0, 0.0, 2.0}
    assert value >= risk.lower_bound


def test_example_of_the_specification():
    value, slope = risks.FBeta([[1.0], [2.0], [0.0], [3.0]], [1, -1, -1, 1])(np.array([0.4]))
    assert value == pytest.approx(1.9333333, abs=5e-8)
    assert slope == pytest.approx([4.0])


@settings(max_examples=15, deadline=None)
@given(seed=seeds, beta=st.sampled_from([0.1, 0.5, 1.0, 2.0]), scale=st.sampled_from([1e-4, 1e-3, 1e-2, 0.1]))
def test_walk_equals_the_full_table(seed, beta, scale):
    """Hundreds of examples: the O(m) walk against Algorithm 11's loop over all tables."""
    rng = np.random.default_rng(seed)
    m = 300
    y = np.where(rng.random(m) < rng.uniform(0.05, 0.9), 1.0, -1.0)
    y[0] = 1.0
    f = scale * (rng.normal(size=m) + y)
    value = risks.FBeta(np.eye(m), y, beta)(f)[0]
    p = -2 * np.concatenate([np.cumsum(np.sort(f[y > 0]))[::-1], [0.0]])
    n = 2 * np.concatenate([[0.0], np.cumsum(np.sort(f[y < 0])[::-1])])
    i, q = np.arange(p.size)[:, None], np.arange(n.size)
    table = 1 - (1 + beta**2) * i / (i + q + beta**2 * (p.size - 1)) + p[:, None] + n
    assert value == pytest.approx(table.max(), rel=1e-11, abs=1e-11)


def test_all_positive_labels_are_allowed_where_the_score_is_defined():
    assert risks.FBeta([[1.0], [2.0]], [1, 1])(np.zeros(1))[0] == 1.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X: risks.FBeta(X, [-1, -1]), "FBeta: all 2 labels are -1"),
        (lambda X: risks.BalancedAccuracy(X, [1, 1]), r"all labels are \+1"),
        (lambda X: risks.PrecisionAt(X, [1, -1], k=3), "integer from 1 to 2"),
        (lambda X: risks.RecallAt(X, [1, -1], k=0), "RecallAt: k must"),
        (lambda X: risks.Contingency(X, [1, -1], "f1"), "callable"),
        (lambda X: risks.Contingency(X, [1, -1], lambda tp, fp, fn, tn: np.full_like(tp, np.nan)), "finite"),
        (lambda X: risks.Contingency(X, [1, -1], lambda tp, fp, fn, tn: 1.0), "one finite number per table"),
    ],
)
def test_bad_input_names_the_culprit(make, words):
    with pytest.raises(DeclarationError, match=words):
        make(np.array([[1.0], [2.0]]))

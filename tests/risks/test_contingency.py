from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt.risks as risks
from structopt.errors import DeclarationError

seeds = st.integers(0, 2**32 - 1)


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

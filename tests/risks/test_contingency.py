from __future__ import annotations

import numpy as np
import pytest

import structopt.risks as risks
from structopt.errors import DeclarationError


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

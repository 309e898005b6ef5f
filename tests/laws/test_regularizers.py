"""The laws of regularisers hold for every regulariser of the package, and find wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.risks.regularizers import L1, L2, Entropy, Lp, Quadratic
from structopt.testing import check_regularizer

ALL = [
    L1(),
    L2(),
    Lp(1.5),
    Lp(3.0),
    Entropy(),
    Entropy(normalized=False),
    Quadratic([1.0, 2.0, 3.0, 4.0, 5.0]),
    Quadratic(np.eye(5) + 0.1),
    Quadratic(sp.diags_array([1.0, 2.0, 3.0, 4.0, 5.0]).tocsc()),
]


@pytest.mark.parametrize("regularizer", ALL, ids=repr)
def test_laws_of_regularizers(regularizer):
    report = check_regularizer(regularizer)
    assert report.ok, report


class HighBound(L2):
    def dual_point(self, slope, offset, lam, floor=-np.inf):
        w, bound = super().dual_point(slope, offset, lam, floor)
        return w, bound + 1e-3


#: L2 with another method for each law.
WRONG = {
    "subgradient": type("WrongSlope", (L2,), {"subgradient": lambda self, w: 1.1 * w}),
    "conjugate": type("WrongConjugate", (L2,), {"conjugate": lambda self, mu: 0.4 * float(mu @ mu)}),
    "start": type("WrongStart", (L2,), {"start": lambda self, n_features: np.full(n_features, 3.0)}),
    "dual_point": HighBound,
}


@pytest.mark.parametrize(("law", "wrong"), WRONG.items())
def test_wrong_regularizers_are_found(law, wrong):
    assert law in {outcome.check for outcome in check_regularizer(wrong()).failed}


def test_every_law_has_a_regularizer_that_breaks_it():
    assert set(so.testing.REGULARIZER_CHECKS) == set(WRONG)

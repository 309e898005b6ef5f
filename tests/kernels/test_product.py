"""Products of algorithms, and solutions of rows."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.algorithms.base import Optimum, RowAlgorithm, Solutions
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.product import Product
from structopt.oracle import Question


def test_answers_are_those_of_all_parts():
    class Plain(RowAlgorithm):
        def maximize(self, c, key=None):
            return None

    both = Product([(np.array([0]), Enumeration(np.eye(1))), (np.array([1]), Plain())])
    assert both.answers is Question.ARGMAX
    assert both.maximize(np.ones(2)) is None
    assert both.maximize_batch(np.ones((2, 2))).solved.tolist() == [False, False]
    with pytest.raises(NotImplementedError, match="K_BEST"):
        Plain().k_best(np.ones(1), 2)


def test_solutions_of_rows():
    found = Solutions.stacked([None, Optimum(np.ones(2), 3.0, 4.0, False)], 2)
    assert found.row(0) is None and found.row(1).bound == 4.0 and not found.row(1).optimal
    assert Solutions.stacked([], 2).Z.shape == (0, 2)

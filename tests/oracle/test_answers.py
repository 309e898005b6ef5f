"""`Oracle.answers` says which questions take no solver."""

from __future__ import annotations

import numpy as np

import structopt as so
from structopt.oracle import Question


def knapsack(upper=1):
    space = so.LabelSpace()
    y = space.integer("y", 4, 0, upper)
    space.subject_to(np.array([2.0, 3.0, 4.0, 5.0]) @ y <= 7.5)
    return space


def test_a_relaxed_oracle_does_not_sum_or_forbid():
    assert so.Oracle(knapsack(), "highs", integral="relax").answers == Question(0)
    chain = so.structures.Chain(2, solver="auto")
    relaxed = so.Oracle(chain.space(np.zeros((3, 1))), integral="relax")
    assert not relaxed.answers & (Question.K_BEST | Question.OUTSIDE | Question.SUMS | Question.SAMPLE)

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


def test_a_chosen_solver_answers_everything_but_sums():
    assert so.Oracle(knapsack(), "highs").answers == Question.SUMS | Question.SAMPLE


def test_listed_labels_answer_every_question():
    assert so.Oracle(knapsack()).answers == ~Question(0)


def test_a_relaxed_oracle_does_not_sum_or_forbid():
    assert so.Oracle(knapsack(), "highs", integral="relax").answers == Question(0)
    chain = so.structures.Chain(2, solver="auto")
    relaxed = so.Oracle(chain.space(np.zeros((3, 1))), integral="relax")
    assert not relaxed.answers & (Question.K_BEST | Question.OUTSIDE | Question.SUMS | Question.SAMPLE)


def test_claims_of_an_own_algorithm_are_its_answers():
    class Signs(so.algorithms.base.RowAlgorithm):
        def maximize(self, c, key=None):
            z = (c > 0).astype(float)
            return so.algorithms.base.Optimum(z, c @ z, c @ z)

    space = so.LabelSpace()
    space.binary("y", 30)
    assert Question.ARGMAX in so.Oracle(space, algorithm=Signs()).answers
    assert Question.K_BEST not in so.Oracle(space, algorithm=Signs()).answers

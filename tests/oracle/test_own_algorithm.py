"""Algorithms of a user's own behind an oracle: wrong answers are refused by name, unsolved rows are solved."""

import pickle

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.base import Algorithm, Optimum, RowAlgorithm, Solutions
from structopt.errors import DeclarationError
from structopt.oracle import Question

LABELS = np.eye(3)
C = np.array([[1.0, 3.0, 2.0], [0.0, 0.0, 1.0]])


def best(C):
    return Solutions.of_labels(C, LABELS[C.argmax(axis=1)])


class Own(Algorithm):
    """A function as an algorithm."""

    def __init__(self, function, answers=Question.ARGMAX):
        self.function, self.answers = function, answers

    def maximize_batch(self, C, *, n_jobs=1, keys=None):
        return self.function(C)


class OwnRow(RowAlgorithm):
    def __init__(self, answer):
        self.answer = answer

    def maximize(self, c, key=None):
        return self.answer


def oracle(algorithm, **options):
    return so.Oracle(so.LabelSpace.from_matrices([[1, 1, 1]], 1, 1), algorithm=algorithm, **options)


WRONG = {
    "width": lambda C: Solutions(np.zeros((len(C), 2)), np.zeros(len(C)), np.zeros(len(C))),
    "length": lambda C: Solutions(LABELS, np.ones(3), np.ones(3)),
    "numbers": lambda C: best(C)._replace(values=np.zeros(7)),
    "not numbers": lambda C: best(C)._replace(Z="none"),
    "NaN labels": lambda C: best(C)._replace(Z=np.full(C.shape, np.nan)),
    "NaN values": lambda C: best(C)._replace(values=np.full(len(C), np.nan)),
    "NaN bounds": lambda C: best(C)._replace(bounds=np.full(len(C), np.nan)),
    "outside the space": lambda C: Solutions.of_labels(C, np.ones(C.shape)),
    "fractional": lambda C: Solutions.of_labels(C, np.full(C.shape, 1 / 3)),
    "value": lambda C: best(C)._replace(values=best(C).values + 5.0),
    "bound below the value": lambda C: best(C)._replace(bounds=best(C).values - 5.0),
    "None": lambda C: None,
    "array": lambda C: LABELS[C.argmax(axis=1)],
    "changed coefficients": lambda C: (C.fill(0.0), best(C))[1],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_refused(name):
    """Each would otherwise become a label, a value or a certified bound."""
    asked = oracle(Own(WRONG[name]))
    costs = C.copy()
    for call in (lambda: asked.maximize(costs[0]), lambda: asked.maximize_batch(costs)):
        with pytest.raises(DeclarationError, match="Own"):
            call()
    np.testing.assert_array_equal(costs, C)


@pytest.mark.parametrize("answer", [(LABELS[1], 3.0, 3.0, True), LABELS[1], Optimum(np.zeros(2), 0.0, 0.0)])
def test_wrong_rows_are_refused(answer):
    with pytest.raises(DeclarationError, match="OwnRow"):
        oracle(OwnRow(answer)).maximize(C[0])


@pytest.mark.parametrize("question", [q for q in Question if q is not Question.ARGMAX])
def test_announced_methods_must_exist(question):
    with pytest.raises(DeclarationError, match=r"announces .* but does not implement"):
        oracle(Own(best, question))


def test_unsolved_rows_keep_what_is_known_of_the_others():
    """A solver solves what was left; rows that a limit stopped stay marked."""

    def first_left(C):
        found = best(C)
        values = np.where(np.arange(len(C)) == 0, np.nan, found.values)
        solved, optimal = np.arange(len(C)) > 0, np.zeros(len(C), dtype=bool)
        return found._replace(values=values, solved=solved, optimal=optimal, Z=np.broadcast_to(found.Z, found.Z.shape))

    found = oracle(Own(first_left))._solve_batch(C)
    np.testing.assert_allclose(found.values, [3.0, 1.0])
    assert found.solved is None
    assert found.optimal.tolist() == [True, False]
    assert oracle(OwnRow(None)).maximize(C[0]).value == 3.0


def test_fractional_labels_of_a_relaxation_are_taken():
    found = oracle(Own(WRONG["fractional"]), integral="relax").maximize(C[0])
    assert found.value == pytest.approx(2.0)


def test_a_right_algorithm_survives_pickling():
    again = pickle.loads(pickle.dumps(oracle(Own(best))))
    assert [label.value for label in again.maximize_batch(C)] == [3.0, 1.0]
    assert again.algorithm == "combinatorial"

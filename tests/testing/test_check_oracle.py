"""The conformance suite of oracles: for each law an oracle that breaks it."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.oracle import Question
from structopt.testing import check_oracle


def knapsack():
    space = so.LabelSpace()
    y = space.binary("y", 4)
    space.subject_to(np.array([2.0, 3.0, 4.0, 5.0]) @ y <= 7.5)
    return space


class NeverEmpty(so.Oracle):
    def maximize(self, c, *args, **options):
        found = super().maximize(c, *args, **options)
        return found if found.z.any() else super().maximize(c, forbid=[found.z])


class SecondBest(so.Oracle):
    def maximize(self, c, *args, **options):
        return super().k_best(c, 2)[-1]


class LowBound(so.Oracle):
    def maximize(self, c, *args, **options):
        found = super().maximize(c, *args, **options)
        found.bound -= 1e-3
        return found


class Reversed(so.Oracle):
    def maximize_batch(self, C, *args, **options):
        return super().maximize_batch(C, *args, **options)[::-1]


class ShortList(so.Oracle):
    def k_best(self, c, k, rows=()):
        return super().k_best(c, k, rows)[: max(1, k - 1)]


class Repeated(so.Oracle):
    def k_best(self, c, k, rows=()):
        found = super().k_best(c, k, rows)
        return [*found[:1], *found[:-1]]


class Permissive(so.Oracle):
    def maximize(self, c, rows=(), forbid=(), **options):
        return super().maximize(c, rows, **options)


class WithoutRows(so.Oracle):
    def maximize(self, c, rows=(), forbid=(), **options):
        return super().maximize(c, (), forbid, **options)


class LostPoint(so.Oracle):
    def front(self, h, g):
        return super().front(h, g)[:-1]


class NoFront(so.Oracle):
    def front(self, h, g):
        return None


class WrongMarginals(so.Oracle):
    def sums(self, C):
        log_partition, marginals = super().sums(C)
        return log_partition, 0.99 * marginals


class OneSample(so.Oracle):
    def sample(self, c, n=1, *, random_state=None):
        return np.tile(self.maximize(c).z, (n, 1))


class BadCopy(so.Oracle):
    is_copy = False

    def __setstate__(self, state):
        super().__setstate__(state)
        self.is_copy = True

    def maximize(self, c, *args, **options):
        return super().k_best(c, 2)[-1] if self.is_copy else super().maximize(c, *args, **options)


class Gullible(so.Oracle):
    def maximize(self, c, *args, **options):
        return super().maximize(np.nan_to_num(np.resize(c, self.space.n_variables)), *args, **options)


class Boastful(so.Oracle):
    """Claims everything and lets the solver answer."""

    answers = ~Question(0)


def failed(report):
    return {outcome.check for outcome in report.failed}


BROKEN = [
    (NeverEmpty, "labels"),
    (SecondBest, "best_label"),
    (LowBound, "best_label"),
    (Reversed, "batch"),
    (ShortList, "k_best"),
    (Repeated, "k_best"),
    (Permissive, "outside"),
    (WithoutRows, "side_rows"),
    (LostPoint, "front"),
    (NoFront, "front"),
    (LostPoint, "searches"),
    (WrongMarginals, "sums"),
    (OneSample, "sums"),
    (BadCopy, "copies"),
    (Gullible, "rejected"),
]


@pytest.mark.parametrize(("kind", "law"), BROKEN)
def test_each_law_finds_an_oracle_that_breaks_it(kind, law):
    assert law in failed(check_oracle(kind(knapsack())))


def test_every_law_has_an_oracle_that_breaks_it():
    assert {law for _, law in BROKEN} == set(so.testing.ORACLE_CHECKS)


def test_a_claimed_question_may_not_take_a_solver():
    report = check_oracle(Boastful(knapsack(), "highs"))
    assert failed(report) == {"best_label", "batch", "k_best", "outside", "side_rows", "front"}
    assert "a solver ran" in report.failed[0].reason


def test_an_expected_question_must_be_claimed():
    report = check_oracle(so.Oracle(knapsack(), "highs"), answers=Question.K_BEST | Question.FRONT)
    assert failed(report) == {"k_best", "front"}
    assert "is expected" in report.failed[0].reason


def test_laws_of_questions_that_nobody_claims_are_skipped():
    report = check_oracle(so.Oracle(knapsack(), "highs"))
    assert report.ok and [outcome.check for outcome in report.skipped] == ["front"]


def test_spaces_without_a_list_are_rejected():
    empty = so.LabelSpace()
    y = empty.binary("y", 2)
    empty.subject_to(y.sum() >= 3)
    with pytest.raises(so.errors.DeclarationError, match="no label"):
        check_oracle(empty)
    with pytest.raises(so.errors.DeclarationError, match="relaxed"):
        check_oracle(so.Oracle(knapsack(), "highs", integral="relax"))


def test_rows_have_the_tolerance_of_the_package():
    """The tolerance of a row grows with its coefficients: here one label exceeds a row by 8e-4."""
    rows = [[8e5, 0.0], [7e4, 5e4]]
    space = so.LabelSpace.from_matrices(rows, [-np.inf, 5e4], [799_999.9992, 1.9e5], 0, 1, 1)
    report = so.testing.check_oracle(space, n=2)
    assert report.ok, report

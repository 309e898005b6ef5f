"""The conformance suite of oracles: for each law an oracle that breaks it."""

from __future__ import annotations

import functools

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


def altered(base, **changes):
    """Return a class with other attributes; a function gets the right method and then its arguments."""

    def method(name, change):
        return lambda self, *args, **options: change(functools.partial(getattr(base, name), self), *args, **options)

    own = {name: method(name, change) if callable(change) else change for name, change in changes.items()}
    return type(f"Altered{base.__name__}", (base,), own)


class BadCopy(so.Oracle):
    is_copy = False

    def __setstate__(self, state):
        super().__setstate__(state)
        self.is_copy = True

    def maximize(self, c, *args, **options):
        return super().k_best(c, 2)[-1] if self.is_copy else super().maximize(c, *args, **options)


class Boastful(so.Oracle):
    """Claims everything and lets the solver answer."""

    answers = ~Question(0)


def failed(report):
    return {outcome.check for outcome in report.failed}


def never_empty(right, c, *args, **options):
    found = right(c, *args, **options)
    return found if found.z.any() else right(c, forbid=[found.z])


def low_bound(right, *args, **options):
    found = right(*args, **options)
    found.bound -= 1e-3
    return found


def repeated(right, *args):
    found = right(*args)
    return [*found[:1], *found[:-1]]


def wrong_marginals(right, C):
    log_partition, marginals = right(C)
    return log_partition, 0.99 * marginals


def gullible(right, c, *args, **options):
    return right(np.nan_to_num(np.resize(c, 4)), *args, **options)


def of(**changes):
    return altered(so.Oracle, **changes)


without_forbidden = of(maximize=lambda right, c, rows=(), forbid=(), **options: right(c, rows, **options))
without_rows = of(maximize=lambda right, c, rows=(), forbid=(), **options: right(c, (), forbid, **options))
lost_point = of(front=lambda right, h, g: right(h, g)[:-1])
BROKEN = {
    "never empty": ("labels", of(maximize=never_empty)),
    "second best": ("best_label", of(maximize=lambda right, c, *args, **options: right.args[0].k_best(c, 2)[-1])),
    "low bound": ("best_label", of(maximize=low_bound)),
    "reversed": ("batch", of(maximize_batch=lambda right, C, *args, **options: right(C, *args, **options)[::-1])),
    "short list": ("k_best", of(k_best=lambda right, c, k, rows=(): right(c, k, rows)[: max(1, k - 1)])),
    "repeated": ("k_best", of(k_best=repeated)),
    "without forbidden labels": ("outside", without_forbidden),
    "without rows": ("side_rows", without_rows),
    "lost point": ("front", lost_point),
    "no front": ("front", of(front=lambda right, h, g: None)),
    "searches of a lost point": ("searches", lost_point),
    "wrong marginals": ("sums", of(sums=wrong_marginals)),
    "one sample": (
        "sums",
        of(sample=lambda right, c, n=1, random_state=None: np.tile(right.args[0].maximize(c).z, (n, 1))),
    ),
    "bad copy": ("copies", BadCopy),
    "gullible": ("rejected", of(maximize=gullible)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_law_finds_an_oracle_that_breaks_it(name):
    law, kind = BROKEN[name]
    assert law in failed(check_oracle(kind(knapsack())))


def test_every_law_has_an_oracle_that_breaks_it():
    assert {law for law, _ in BROKEN.values()} == set(so.testing.ORACLE_CHECKS)


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

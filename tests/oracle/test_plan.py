"""`Oracle.plan` reports the options of an oracle and does not change them."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.diagram import DIAGRAMS

Q = so.Question


@pytest.fixture(autouse=True)
def no_diagrams():
    DIAGRAMS.clear()
    yield
    DIAGRAMS.clear()


def budget(n=16):
    rng = np.random.default_rng(0)
    space = so.LabelSpace("budget")
    item = space.binary("item", n)
    space.subject_to(rng.integers(1, 9, (2, n)) @ item <= 12)
    return space


def wide():
    rng = np.random.default_rng(0)
    space = so.LabelSpace("wide")
    space.subject_to(rng.integers(1, 1000, (3, 40)) @ space.binary("item", 40) <= 8000)
    return space


def assignment():
    space = so.LabelSpace()
    x = space.binary("x", (3, 3))
    space.subject_to(x.sum(axis=0) == 1, x.sum(axis=1) == 1)
    return space


def chain():
    return so.structures.Chain(3).oracle(np.zeros((4, 1)))


def one_of_many():
    space = so.LabelSpace()
    y = space.binary("y", 5)
    space.subject_to(y.sum() == 1, np.arange(5) @ y <= 4)
    return so.Oracle(space, record=so.records.Cardinality([0] * 5, [0, 5], range(5), [1], [1]))


BY_SOLVER = Q.K_BEST | Q.OUTSIDE | Q.SIDE_ROWS
ORACLES = {
    "list": (lambda: so.Oracle(budget(6)), {"list": ~Q(0)}),
    "diagram": (lambda: so.Oracle(budget()), {"diagram": ~Q(0)}),
    "solver": (lambda: so.Oracle(wide()), {"solver": Q.ARGMAX | BY_SOLVER}),
    "chosen solver": (
        lambda: so.Oracle(budget(), "highs"), {"solver": Q.ARGMAX | BY_SOLVER, "diagram": Q.SUMS | Q.SAMPLE}
    ),
    "recognised": (
        lambda: so.Oracle(assignment()),
        {"recognised": Q.ARGMAX | Q.K_BEST | Q.OUTSIDE, "solver": Q.SIDE_ROWS, "list": Q.SUMS | Q.SAMPLE},
    ),
    "relaxed": (
        lambda: so.Oracle(assignment(), integral="relax"), {"recognised": Q.ARGMAX, "solver": Q.SIDE_ROWS}
    ),
    "own algorithm": (chain, {"own algorithm": ~Q(0)}),
    "record": (one_of_many, {"record": Q.ARGMAX, "solver": BY_SOLVER, "list": Q.SUMS | Q.SAMPLE}),
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_every_question_is_answered_by_one_option(name):
    make, used = ORACLES[name]
    oracle = make()
    plan = oracle.plan()
    assert {option.name: option.used for option in plan.options if option.used} == used
    by_algorithms = Q(0)
    for option in plan.options:
        by_algorithms |= option.used if option.name != "solver" else Q(0)
    assert by_algorithms == oracle.answers
    for question in Q:
        found = plan.answered_by(question)
        assert (found is None) == (not any(question in option.used for option in plan.options))
    assert all(option.steps[question] for option in plan.options for question in option.used)
    assert str(plan).startswith("Plan of <CompiledSpace") and len(str(plan).splitlines()) == 3 + len(plan.options)
    assert plan._repr_html_().count("<tr>") == 1 + len(plan.options)


@pytest.mark.parametrize("name", ORACLES)
def test_a_plan_changes_no_answer(name):
    make, _ = ORACLES[name]
    oracle, other = make(), make()
    c = np.random.default_rng(1).normal(size=oracle.space.n_variables)
    before = oracle.maximize(c).value
    _ = other.answers
    assert oracle.plan()["solver"].name == "solver"
    assert oracle.algorithm == other.algorithm
    assert oracle.maximize(c).value == pytest.approx(before, abs=1e-9)


def test_calls_are_measured_for_the_option_that_answered_them():
    oracle = so.Oracle(budget())
    C = np.random.default_rng(1).normal(size=(10, 16))
    oracle.maximize(C[0])  # the first call of a space takes the solver
    oracle.maximize_batch(C)
    plan = oracle.plan()
    assert plan["solver"].measured.calls == 1
    assert plan["diagram"].measured.calls == 10
    assert plan["diagram"].seconds_to_make > 0.0
    assert plan["diagram"].seconds == pytest.approx(2e-6, rel=0.9)
    assert oracle.statistics.calls == 11
    assert "10 calls" in str(plan) and "everything" in str(plan)


def test_a_diagram_of_another_oracle_is_listed():
    so.compile_space(budget())
    so.Oracle(budget(), "diagram")
    option = so.Oracle(budget(), "highs", integral="relax").plan()["diagram"]
    assert "labels" in option.algorithm and not option.used


@pytest.mark.parametrize(
    ("name", "option", "reason"),
    [
        ("diagram", "list", "more than 14 integer variables"),
        ("diagram", "recognised", "coefficients of different magnitude"),
        ("solver", "diagram", "refused: width"),
        ("recognised", "diagram", "not made"),
    ],
)
def test_an_option_that_does_not_apply_says_why(name, option, reason):
    assert reason in ORACLES[name][0]().plan()[option].algorithm


def test_spaces_with_lazy_rows_are_not_compiled():
    plan = so.structures.Tour().oracle(np.zeros((5, 5, 1))).plan()
    assert plan["diagram"].algorithm in ("refused: lazy rows", "lazy rows are not compiled")
    assert plan.answered_by(Q.ARGMAX).name == "solver" and plan.answered_by(Q.FRONT) is None

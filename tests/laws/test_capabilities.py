"""The page *What each structure can do* holds: every cell is compared with enumeration."""

from __future__ import annotations

import doctest
import functools
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import structopt as so
from structopt.errors import StructoptError
from structopt.space.enumeration import enumerate_labels

spec = importlib.util.spec_from_file_location(
    "docs_capabilities", Path(__file__).parents[2] / "docs" / "capabilities.py"
)
assert spec is not None and spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

Q = so.Question
SAMPLES = {sample.title: sample for sample in script.SAMPLES}
every_cell = pytest.mark.parametrize(("title", "form"), [(title, form) for title in SAMPLES for form in script.FORMS])


@functools.cache
def on_the_page(title, form):
    """Return an oracle of the page with the options that answer."""
    oracle = script.oracle_of(SAMPLES[title], form)
    return oracle, script.answers(oracle.plan())


def claims(options):
    found = Q(0)
    for question, option in options.items():
        found |= question if option is not None else Q(0)
    return found


@every_cell
def test_every_claim_holds_on_a_small_space(title, form):
    sample = SAMPLES[title]
    _, options = on_the_page(title, form)
    small = script.oracle_of(sample, form, sample.small)
    if not small.space.integrality.any():
        compare_with_integer_twin(small, claims(options))
        return
    report = so.testing.check_oracle(small, answers=claims(options), n=6)
    assert report.ok, report
    of_the_row, of_small = (
        {a.algorithm for a in found.values() if script.is_of_row(a)}
        for found in (options, script.answers(small.plan()))
    )
    assert of_small == of_the_row, "the small space has another algorithm: change its size in docs/capabilities.py"
    if any(option is not None and option.name == "diagram" for option in options.values()):
        report = so.testing.check_oracle(so.Oracle(small.declared, "diagram"), answers=~Q(0), n=3)
        assert report.ok, report


def compare_with_integer_twin(oracle, claimed):
    """Compare the vertices of an integral polyhedron, which are its labels, with the integer points."""
    assert not claimed & ~(Q.ARGMAX | Q.K_BEST)
    whole = np.ones(oracle.space.n_variables, dtype=bool)
    labels = enumerate_labels(replace(oracle.space, integrality=whole, upper=np.minimum(oracle.space.upper, 1.0)))
    for c in np.random.default_rng(0).normal(size=(6, labels.shape[1])):
        values = np.sort(labels @ c)[::-1]
        best = oracle.maximize(c)
        assert best.value == pytest.approx(values[0]) and best.bound >= values[0] - 1e-9
        if Q.K_BEST in claimed:
            found = oracle.k_best(c, len(labels) + 1)
            np.testing.assert_allclose([label.value for label in found], values)


def ask(oracle, question, c):
    """Return the answer to a question, and how often a solver ran for it; the answer is None if there is none."""
    some = [(np.eye(len(c))[0], -np.inf, oracle.space.upper[0])]
    calls = {
        Q.ARGMAX: lambda: oracle.maximize(c),
        Q.K_BEST: lambda: oracle.k_best(c, 2),
        Q.OUTSIDE: lambda: oracle.maximize(c, forbid=[best]),
        Q.SIDE_ROWS: lambda: oracle.maximize(c, rows=some),
        Q.FRONT: lambda: oracle.front((c, 0.0), (np.where(oracle.space.integrality, 1.0 - 2.0 * best, 0.0), 0.0)),
        Q.SUMS: lambda: oracle.sums(c[None]),
        Q.SAMPLE: lambda: oracle.sample(c, 2),
    }
    best = oracle.maximize(c).z
    before = oracle.statistics
    try:
        found = calls[question]()
    except StructoptError:
        found = None
    after = oracle.statistics
    return found, after.lp + after.mip - before.lp - before.mip


@every_cell
def test_every_cell_of_the_page_is_as_it_says(title, form):
    oracle, options = on_the_page(title, form)
    # Programs with positive coefficients take less time; auxiliary variables have none, as in `check_oracle`.
    c = np.abs(np.random.default_rng(1).normal(size=oracle.space.n_variables))
    c[~oracle.space.integrality & oracle.space.integrality.any()] = 0.0
    for question, option in options.items():
        found, runs = ask(oracle, question, c)
        if option is not None:
            assert found is not None and not runs, f"{question.name} is not answered by {option.algorithm}"
            assert option.steps[question], f"{option.algorithm} has no formula for {question.name}"
        elif oracle.plan().answered_by(question) is None:
            assert found is None, f"{question.name} is answered"
        else:
            assert found is not None and runs, f"{question.name} is not answered by the solver"


def test_every_structure_is_on_the_page():
    names = {name for name in so.structures.__all__ if isinstance(getattr(so.structures, name), type)}
    assert {sample.title.split("`")[1] for sample in script.SAMPLES} == names


def test_the_page_has_every_row_and_its_examples_run():
    page = script.page()
    table = page[page.index("| structure") : page.index("## Steps")].strip().splitlines()
    assert len(table) == 2 + len(SAMPLES) * len(script.FORMS)
    assert {line.count("|") for line in table} == {4 + len(Q)}
    assert all(text in page for text in script.EMPTY.values())
    test = doctest.DocTestParser().get_doctest(page, {}, "page", None, None)
    assert test.examples and not doctest.DocTestRunner().run(test).failed

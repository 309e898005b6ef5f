"""The picture of lazy rows shows how many rows each call of an oracle found."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError


def tours(nodes):
    return so.Oracle(so.structures.Tour().space(np.zeros((nodes, nodes, 1))))


def test_what_is_drawn():
    oracle = tours(6)
    oracle._solve_batch(np.random.default_rng(0).normal(size=(30, 36)))
    pool = oracle.lazy_rows
    assert len(pool.history) == 30 and pool.history.sum() == pool.found
    ax = so.plot.lazy_rows(oracle)
    line = ax.lines[0]
    assert np.array_equal(line.get_ydata()[1:], pool.history) and line.get_xdata()[-1] == 30
    coarse = so.plot.lazy_rows(oracle, bins=4).lines[0]
    assert len(coarse.get_ydata()) == 5
    assert np.diff(coarse.get_xdata()) @ coarse.get_ydata()[1:] == pytest.approx(pool.found)


def test_several_oracles_by_name_and_one_that_was_not_called():
    oracles = {"five": tours(5), "six": tours(6)}
    oracles["five"].maximize(np.zeros(25))
    _, given = plt.subplots()
    ax = so.plot.lazy_rows(oracles, ax=given)
    assert ax is given and len(ax.lines) == 1
    assert ax.get_legend().get_texts()[0].get_text().startswith("five, ")
    assert not so.plot.lazy_rows(tours(5)).lines


def test_calls_in_threads_are_all_counted():
    oracle = tours(6)
    oracle._solve_batch(np.random.default_rng(1).normal(size=(40, 36)), n_jobs=3)
    assert len(oracle.lazy_rows.history) == 40 and oracle.lazy_rows.history.sum() == oracle.lazy_rows.found


def test_malformed_arguments():
    plain = so.LabelSpace()
    plain.binary("y", 2)
    for oracles, told in ((so.Oracle(plain), "no lazy rows"), ({"a": 3}, "'a'"), (3, "oracles")):
        with pytest.raises(DeclarationError, match=told):
            so.plot.lazy_rows(oracles)
    with pytest.raises(DeclarationError, match="bins"):
        so.plot.lazy_rows(tours(4), bins=0)

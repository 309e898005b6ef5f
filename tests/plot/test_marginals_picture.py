"""The picture of marginals shows the probabilities it is given, and the ground truth where it is."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError


def test_what_is_drawn():
    X, Y = [np.array([[1.0], [-1.0], [1.0]])], [["up", "down", "up"]]
    crf = so.CRF(lam=0.1).fit(X, Y)
    p = crf.predict_proba(X)[0]
    ax = so.plot.marginals(p, crf.states_, tokens="abc", truth=Y[0])
    assert np.array_equal(ax.images[0].get_array(), p.T)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["down", "up"]
    assert list(ax.lines[0].get_ydata()) == [1, 0, 1]
    assert not so.plot.marginals(p).lines


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([0.5, 0.5],), "positions, states"),
        (([[0.5, 0.6]],), "position 0 sum to 1.1"),
        (([[0.5, 0.5]], ["a"]), "1 states for"),
        (([[0.5, 0.5]], np.array([["a", "b"], ["a", "b"]])), "The name of a state must be hashable"),
        (([[0.5, 0.5]], ["a", "a"]), "states has 'a' more than once"),
    ],
)
def test_refusals(arguments, told):
    with pytest.raises(DeclarationError, match=told):
        so.plot.marginals(*arguments)


def test_refused_ground_truth():
    with pytest.raises(DeclarationError, match="'c', which is not among"):
        so.plot.marginals([[0.5, 0.5]], ["a", "b"], truth=["c"])
    with pytest.raises(DeclarationError, match="A state of truth must be hashable"):
        so.plot.marginals([[0.5, 0.5]], ["a", "b"], truth=[["a"]])
    with pytest.raises(DeclarationError, match="2 states for 1 positions"):
        so.plot.marginals([[0.5, 0.5]], ["a", "b"], truth=["a", "a"])

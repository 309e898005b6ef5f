"""The picture of a diagram: an arrow for each arc, the best path in colour."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import structopt as so
from structopt.algorithms.diagram import compile_diagram
from structopt.errors import DeclarationError


def knapsack(n, budget):
    space = so.LabelSpace("knapsack")
    item = space.binary("item", n)
    space.subject_to(np.arange(1, n + 1) @ item <= budget)
    return space


def test_every_arc_is_drawn_and_the_best_path_is_marked():
    space = knapsack(5, 7)
    found = compile_diagram(space.compiled)
    c = np.array([1.0, -1.0, 2.0, 3.0, 0.5])
    ax = so.plot.diagram(found, c)
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == found.n_arcs
    marked = {text.get_text() for text in ax.texts if text.get_color() == "0.1"}
    best = so.Oracle(space).maximize(c)
    chosen = {space.compiled.variable_names[j] for j in np.flatnonzero(best.z)}
    assert {name for text in marked for name in text.split(", ")} == chosen
    assert f"value {best.value:.6g}" in ax.get_title() and str(found.count()) in ax.get_title()


def test_axes_are_the_callers():
    ax = plt.subplots()[1]
    assert so.plot.diagram(knapsack(3, 4), ax=ax) is ax


def test_large_diagrams_are_refused():
    with pytest.raises(DeclarationError, match="too large for a picture"):
        so.plot.diagram(knapsack(30, 200))

"""The slider over a search, its fallback without ipywidgets, and the animation."""

from __future__ import annotations

import sys

import pytest
from matplotlib.axes import Axes
from PIL import Image

import structopt as so


@pytest.fixture
def result():
    return so.search.angular(so.PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)]), lam=1.0)


def test_without_ipywidgets_there_is_a_panel_for_each_query(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    panels = so.plot.explore(result)
    assert len(panels) == len(result.trace) and all(isinstance(ax, Axes) for ax in panels)


def test_the_slider_has_a_place_for_each_query(result):
    pytest.importorskip("ipywidgets")
    slider, picture = so.plot.explore(result).children
    assert (slider.min, slider.max) == (1, len(result.trace))
    slider.value = len(result.trace)
    assert picture is not None


def test_an_animation_has_a_frame_for_each_query(result, tmp_path):
    so.plot.animate(result, interval=100).save(tmp_path / "search.gif", writer="pillow")
    with Image.open(tmp_path / "search.gif") as image:
        assert image.n_frames == len(result.trace)


@pytest.mark.parametrize("draw", ["explore", "animate"])
def test_a_search_without_queries_is_refused(draw):
    empty = so.search.SearchResult("none", None, None, 0.0, 0.0, 0, {}, "no violation", 1.0)
    with pytest.raises(so.errors.DeclarationError, match="no query"):
        getattr(so.plot, draw)(empty)

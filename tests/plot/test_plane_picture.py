"""The pictures: that they draw what they say, for every search."""

from __future__ import annotations

import warnings

import pytest

import structopt as so
from structopt import plot, search
from structopt.errors import DeclarationError
from structopt.plane import PointPlane
from structopt.surrogates import MicroF1, Slack

POINTS = [(1, 8), (3, 4), (5, 3), (8, 1), (2, 2)]


@pytest.mark.parametrize(
    "run",
    [
        lambda: search.angular(PointPlane(POINTS), rtol=0),
        lambda: search.bisecting(PointPlane(POINTS)),
        lambda: search.convex_hull(PointPlane(POINTS), "slack"),
        lambda: search.exact(PointPlane(POINTS), "product"),
        lambda: search.exact(PointPlane([(2, -3), (1, -1), (4, -9)]), MicroF1()),
        lambda: search.exact(PointPlane([(-3, 1)]), Slack()),
    ],
)
def test_a_picture_of_every_search(run):
    result = run()
    ax = plot.plane(result)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()
    assert ax.get_title().startswith(result.method.replace("_", " "))
    answers = {(step.point.h, step.point.g) for step in result.trace if step.point is not None}
    assert {tuple(text.xy) for text in ax.texts} == answers


def test_a_small_space_is_drawn_whole():
    space = so.LabelSpace()
    y = space.binary("y", 4)
    space.subject_to(y.sum() <= 2)
    made = so.Plane(so.Oracle(space, "highs"), ([1.0, -2.0, 0.5, 3.0], 1.0), ([1.0, 1.0, 1.0, 1.0], 0.0))
    result = search.exact(made, "product", front=False)
    everything = {(float(z @ [1.0, -2.0, 0.5, 3.0] + 1.0), float(z.sum())) for z in space.enumerate()}
    clouds = [{tuple(point) for point in part.get_offsets().tolist()} for part in plot.plane(result).collections]
    assert everything in clouds


def test_one_answer_alone_is_not_magnified():
    result = search.bisecting(PointPlane([(4.0, 5.0)]))
    ax = plot.plane(result)
    assert ax.get_xlim()[0] <= 0.0 < 4.0 <= ax.get_xlim()[1] and ax.get_ylim()[0] <= 0.0 < 5.0 <= ax.get_ylim()[1]


def test_steps_show_one_query_each():
    result = search.angular(PointPlane(POINTS), rtol=0)
    panels = plot.plane_steps(result)
    assert len(panels) == len(result.trace)
    assert panels[0].get_title().startswith("query 1")
    with pytest.raises(DeclarationError, match="step must be in"):
        plot.plane(result, step=99)


def test_surrogates_are_drawn_for_both_losses():
    panels = plot.surrogates((1.0, 4.0))
    assert [ax.get_title() for ax in panels] == ["task loss 1", "task loss 4"]
    assert len(panels[1].lines) == 6

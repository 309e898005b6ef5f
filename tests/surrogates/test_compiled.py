"""The compiled form of every surrogate against its methods."""

from __future__ import annotations

import pickle

import numba
import numpy as np
import pytest

import structopt as so
from structopt import surrogates
from structopt.errors import DeclarationError
from structopt.plane import PointPlane
from structopt.plane.batch import PlaneList
from structopt.search import exact, search_batch
from structopt.surrogates import (
    BetaScaling,
    GeneralizedScaling,
    LogLoss,
    Margin,
    MicroF1,
    ProbLoss,
    Product,
    Slack,
    Surrogate,
    from_functions,
)
from structopt.surrogates import compiled as forms

SHIPPED = [
    Margin(),
    Slack(),
    Product(),
    BetaScaling(0.0),
    BetaScaling(0.3),
    BetaScaling(1.0),
    GeneralizedScaling(1.5, 1.0),
    GeneralizedScaling(0.0, 0.0),
    LogLoss(),
    LogLoss(bound=True),
    ProbLoss(),
    ProbLoss(convex=True),
    ProbLoss(noise=0.3),
    ProbLoss(convex=True, noise=2.5),
    MicroF1(),
]


class Doubled(Slack):
    """A subclass with another ψ: the compiled form of its parent must not stand for it."""

    def psi(self, h, g):
        return 2.0 * super().psi(h, g)

    def psi_gradient(self, h, g):
        a, b = super().psi_gradient(h, g)
        return 2.0 * a, 2.0 * b

    def clipped(self, h, g):
        return 2.0 * super().clipped(h, g)

    def segment_maximum(self, p, q):
        return Surrogate.segment_maximum(self, p, q)


@numba.njit
def compiled_slack(h, g):
    return (1.0 + h) * g


@numba.njit
def compiled_slopes(h, g):
    return g, 1.0 + h


NUMBA = surrogates.from_functions("numba", compiled_slack, compiled_slopes)


def points(psi, rng, n, decades):
    h = rng.normal(size=n) * 10.0 ** rng.uniform(-decades, decades, n)
    g = rng.exponential(size=n) * 10.0 ** rng.uniform(-decades, decades, n)
    if isinstance(psi, MicroF1):
        return h, -g
    g[rng.random(n) < 0.1] = 0.0
    return h, g


@pytest.mark.parametrize("psi", [*SHIPPED, Doubled(), NUMBA], ids=repr)
def test_values_gradients_and_directions(psi):
    f = psi.form.numbers
    assert (f[0] == forms.OWN) == (psi is NUMBA or isinstance(psi, Doubled))
    for h, g in zip(*points(psi, np.random.default_rng(0), 100, 3), strict=True):
        assert forms.clipped(f, h, g) == pytest.approx(psi.clipped(h, g), rel=1e-10)
        if psi.clipped(h, g) > 1e-280 and g != 0.0:
            assert forms.gradient(f, h, g) == pytest.approx(psi.psi_gradient(h, g), rel=1e-9, abs=1e-290)
            assert forms.direction(f, h, g) == pytest.approx(psi.direction(h, g), rel=1e-8)


@pytest.mark.parametrize("psi", [Slack(), BetaScaling(0.3), Doubled()], ids=repr)
def test_a_form_is_no_part_of_the_surrogate(psi):
    other = pickle.loads(pickle.dumps(psi))
    assert psi.form.numbers.size == 8  # made now
    assert other == psi and hash(other) == hash(psi)
    assert pickle.loads(pickle.dumps(psi)) == psi


def test_functions_compiled_by_numba_work_on_arrays():
    h, g = np.array([[0.5, -3.0]]), np.array([[2.0, 1.0]])
    assert NUMBA.value(h, g) == pytest.approx(Slack().value(h, g))
    assert NUMBA.gradient(h, g)[1] == pytest.approx(Slack().gradient(h, g)[1])
    assert NUMBA.clipped_array(h, g) == pytest.approx(Slack().clipped_array(h, g))


# ---- a user's own functions that are wrong ---------------------------------------------------------------------------

PLANES = [PointPlane([(-4, 10), (0, 6), (2, 3), (3, 1), (1, 2)]), PointPlane([(1, 1), (0, 1)])]


def slack_slopes(h, g):
    return g, 1.0 + h


@numba.njit
def raises_beyond(h, g):
    if g > 5.0:
        raise ValueError("out of its table")
    return (1.0 + h) * g


@numba.njit
def divides(h, g):
    return (1.0 + h) * g / (g - 6.0)


@numba.njit
def raising_slopes(h, g):
    if g > 2.0:
        raise ValueError("no slope")
    return g, 1.0 + h


def test_an_error_inside_a_surrogate_is_raised():
    """Machine code cannot raise through a kernel: its result was taken for a value, and bounds were wrong."""

    def late(h, g):
        raise KeyError("user")

    for psi, slopes, error in (
        (raises_beyond, compiled_slopes, ValueError("out of its table")),
        (divides, compiled_slopes, ZeroDivisionError("division by zero")),
        (compiled_slack, raising_slopes, ValueError("no slope")),
        (late, slack_slopes, KeyError("user")),
        (lambda h, g: (1.0 + h) * g, late, KeyError("user")),
    ):
        own = from_functions("own", psi, slopes)
        for search in (lambda psi: search_batch(PlaneList(PLANES), psi), lambda psi: exact(PLANES[0], psi)):
            with pytest.raises(type(error), match=str(error.args[0])):
                search(own)
    assert search_batch(PlaneList(PLANES), NUMBA).value.all()


@pytest.mark.parametrize("wrong", [None, "x", 1j, [1.0, 2.0]], ids=repr)
def test_values_that_are_no_numbers_are_named(wrong):
    with pytest.raises(DeclarationError, match=r"psi of <surrogate 'own'> at .* must be a number"):
        search_batch(PlaneList(PLANES), from_functions("own", lambda h, g: wrong, slack_slopes))
    with pytest.raises(DeclarationError, match=r"gradient of <surrogate 'own'> at .* two numbers"):
        search_batch(PlaneList(PLANES), from_functions("own", lambda h, g: (1.0 + h) * g, lambda h, g: (wrong, g, h)))


def test_compiled_functions_of_another_type_are_refused():
    for psi, slopes in ((compiled_slopes, compiled_slopes), (compiled_slack, compiled_slack)):
        with pytest.raises(DeclarationError, match="must return a float, gradient"):
            search_batch(PlaneList(PLANES), from_functions("own", psi, slopes))
    with pytest.raises(DeclarationError, match="2 arguments"):
        from_functions("own", numba.njit(lambda h: h), compiled_slopes)
    # Other numbers than float64 are converted.
    assert (
        search_batch(PlaneList(PLANES), from_functions("own", numba.njit(lambda h, g: 3), compiled_slopes)).value[0]
        == 3.0
    )


def test_risks_check_compiled_surrogates_as_others():
    X, Y = np.ones((2, 1)), np.array([[1, 0], [0, 1]])
    square = numba.njit(lambda h, g: h * h + g * g)
    flat, doubled = numba.njit(lambda h, g: (1.0, 1.0)), numba.njit(lambda h, g: (2.0 * h, 2.0 * g))
    for psi, slopes in ((compiled_slack, flat), (square, doubled)):
        with pytest.raises(DeclarationError, match=r"differences give|decreases"):
            so.train.StructuredRisk(so.structures.MultiLabel(2), X, Y, from_functions("own", psi, slopes))


@pytest.mark.parametrize("psi", SHIPPED, ids=repr)
def test_bounds_on_segments_hold_at_rounded_points(psi):
    # A coordinate far below those of an end is rounded by much of itself: of h = 0.05 next to -92, by 2e-13 of it.
    rng = np.random.default_rng(598)
    for _ in range(300):
        h = rng.normal(size=2) * 10 ** rng.uniform(-2, 2, 2)
        g = np.abs(rng.normal(size=2)) * 10 ** rng.uniform(-2, 2, 2) * (-1 if isinstance(psi, MicroF1) else 1)
        p, q = (float(h[0]), float(g[0])), (float(h[1]), float(g[1]))
        t, _, upper = psi.segment_maximum(p, q)
        fast_t, _, fast_upper = forms.segment_maximum(psi.form.numbers, *p, *q)
        for best, bound in ((t, upper), (fast_t, fast_upper)):
            places = np.array([0.0, best, 1.0])
            moved = psi.clipped_array(h[0] + places * (h[1] - h[0]), g[0] + places * (g[1] - g[0]))
            mixed = psi.clipped_array((1 - places) * h[0] + places * h[1], (1 - places) * g[0] + places * g[1])
            assert max(moved.max(), mixed.max()) <= bound

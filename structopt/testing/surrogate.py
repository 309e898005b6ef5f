"""Conformance check of a surrogate: is it quasi-concave, monotone, and is its gradient right?"""

from __future__ import annotations

import math

import numpy as np

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.space.compiled import FloatArray
from structopt.surrogates import Surrogate

__all__ = ["check_surrogate"]


@checked
def check_surrogate(surrogate: Surrogate, *, n_pairs: int = 4000, random_state: int = 0) -> None:
    """Refuse a surrogate for which the searches would not be exact.

    On random points of the domain where ψ > 0 it checks that

    * values and gradients are finite, and the gradient agrees with central differences;
    * ψ does not decrease in h or in g;
    * ψ at a point of a segment is at least the smaller of its ends (quasi-concavity);
    * it is convex in h if it says so (`Surrogate.convex_in_h`): else cutting planes would be no bounds.

    Parameters
    ----------
    surrogate : Surrogate
    n_pairs : int
        Number of random pairs of points, over four decades of scale.
    random_state : int

    Raises
    ------
    DeclarationError
        With a pair of points that breaks the rule.

    Examples
    --------
    >>> from structopt.surrogates import Slack
    >>> from structopt.testing.surrogate import check_surrogate
    >>> check_surrogate(Slack())
    """
    rng = np.random.default_rng(random_state)
    h, g = _points(surrogate, 2 * n_pairs, rng)
    psi = _values(surrogate, h, g)
    positive = psi > 0.0
    if positive.sum() < 20:
        raise DeclarationError(f"{surrogate!r} is positive almost nowhere; a search has nothing to maximise.")
    h, g, psi = h[positive], g[positive], psi[positive]
    _check_gradient(surrogate, h, g, psi)
    _check_monotone(surrogate, h, g, psi, rng)
    _check_quasi_concave(surrogate, h, g, psi, rng)
    if surrogate.convex_in_h:
        _check_convex_in_h(surrogate, h, g, psi, rng)


def _points(surrogate: Surrogate, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    scale = 10.0 ** rng.uniform(-2.0, 2.0, n)
    h = rng.normal(size=n) * scale
    g = rng.exponential(size=n) * 10.0 ** rng.uniform(-2.0, 2.0, n) + 1e-3
    if surrogate.g_lower == -math.inf:
        g = -g
    else:
        g += surrogate.g_lower
    inside = np.asarray(surrogate.inside(h, g)) & np.ones(n, dtype=bool)
    return h[inside], g[inside]


def _values(surrogate: Surrogate, h: FloatArray, g: FloatArray) -> FloatArray:
    values = np.asarray(surrogate.value(h, g), dtype=float)
    if values.shape != h.shape:
        raise DeclarationError(
            f"{surrogate!r}: psi of arrays of shape {h.shape} has shape {values.shape}; it must work elementwise."
        )
    if not np.isfinite(values).all():
        at = int(np.argmax(~np.isfinite(values)))
        raise DeclarationError(f"{surrogate!r} is {values[at]} at (h, g) = ({h[at]:g}, {g[at]:g}).")
    return values


def _check_gradient(surrogate: Surrogate, h: FloatArray, g: FloatArray, psi: FloatArray) -> None:
    gradient = surrogate.gradient(h, g)
    for axis, got in zip("hg", gradient, strict=True):
        x = h if axis == "h" else g
        # 1e-5 relative: rounding of psi and truncation of the difference are both near 1e-10 then.
        step = 1e-5 * np.maximum(np.abs(x), 1e-3)
        plus = (h + step, g) if axis == "h" else (h, g + step)
        minus = (h - step, g) if axis == "h" else (h, g - step)
        usable = np.asarray(surrogate.inside(*minus)) & np.asarray(surrogate.inside(*plus)) & np.ones_like(h, bool)
        want = np.zeros_like(h)
        want[usable] = (
            _values(surrogate, plus[0][usable], plus[1][usable])
            - _values(surrogate, minus[0][usable], minus[1][usable])
        ) / (2.0 * step[usable])
        tolerance = 1e-4 * (np.abs(want) + np.abs(psi) / np.maximum(np.abs(x), 1e-3)) + 1e-9
        bad = usable & ~(np.abs(np.asarray(got) - want) <= tolerance)
        # A kink (not differentiable at one h) makes isolated points differ; a wrong formula makes most differ.
        if bad.sum() > 0.01 * usable.sum():
            at = int(np.argmax(bad))
            raise DeclarationError(
                f"{surrogate!r}: d psi / d{axis} at (h, g) = ({h[at]:g}, {g[at]:g}) is {np.asarray(got)[at]:g}, "
                f"but differences give {want[at]:g}."
            )


def _check_monotone(
    surrogate: Surrogate, h: FloatArray, g: FloatArray, psi: FloatArray, rng: np.random.Generator
) -> None:
    for axis in "hg":
        x = h if axis == "h" else g
        step = np.maximum(np.abs(x), 1e-2) * 10.0 ** rng.uniform(-3.0, 1.0, h.size)
        h2, g2 = (h + step, g) if axis == "h" else (h, g + step)
        usable = np.asarray(surrogate.inside(h2, g2)) & np.ones_like(h, bool)
        after = np.full_like(psi, np.inf)
        after[usable] = _values(surrogate, h2[usable], g2[usable])
        bad = after < psi - 1e-9 * np.abs(psi)
        if bad.any():
            at = int(np.argmax(bad))
            raise DeclarationError(
                f"{surrogate!r} decreases in {axis} where it is positive: {psi[at]:g} at ({h[at]:g}, {g[at]:g}), "
                f"{after[at]:g} at ({h2[at]:g}, {g2[at]:g}). The searches need a monotone psi."
            )


def _check_quasi_concave(
    surrogate: Surrogate, h: FloatArray, g: FloatArray, psi: FloatArray, rng: np.random.Generator
) -> None:
    # Pairs on nearly the same contour are the sharpest test: sort by value and join neighbours, as well as random
    # pairs.
    order = np.argsort(psi)
    n = psi.size
    first = np.concatenate([order[:-1], order[:-3], rng.integers(0, n, n)])
    second = np.concatenate([order[1:], order[3:], rng.integers(0, n, n)])
    t = rng.uniform(0.0, 1.0, first.size)
    h_mid = (1.0 - t) * h[first] + t * h[second]
    g_mid = (1.0 - t) * g[first] + t * g[second]
    floor = np.minimum(psi[first], psi[second])
    bad = _values(surrogate, h_mid, g_mid) < floor - 1e-9 * np.abs(floor)
    if bad.any():
        at = int(np.argmax(bad))
        i, j = first[at], second[at]
        raise DeclarationError(
            f"{surrogate!r} is not quasi-concave: it is {psi[i]:g} at ({h[i]:g}, {g[i]:g}) and {psi[j]:g} at "
            f"({h[j]:g}, {g[j]:g}), but less than both at ({h_mid[at]:g}, {g_mid[at]:g}) between them."
        )


def _check_convex_in_h(
    surrogate: Surrogate, h: FloatArray, g: FloatArray, psi: FloatArray, rng: np.random.Generator
) -> None:
    """The tangent at a point must not exceed ψ at any other h: trainers use it as a cutting plane."""
    slope = np.asarray(surrogate.gradient(h, g)[0]) + np.zeros_like(h)
    other = h + rng.normal(size=h.size) * 10.0 ** rng.uniform(-1.0, 1.0, h.size) * np.maximum(np.abs(h), 1e-2)
    usable = np.asarray(surrogate.inside(other, g)) & np.ones_like(h, bool)
    value = np.zeros_like(psi)
    value[usable] = np.maximum(_values(surrogate, other[usable], g[usable]), 0.0)
    tangent = psi + slope * (other - h)
    bad = usable & (tangent > value + 1e-6 * (np.abs(psi) + np.abs(slope * (other - h)) + np.abs(value)))
    if bad.any():
        at = int(np.argmax(bad))
        raise DeclarationError(
            f"{surrogate!r} is not convex in h: its tangent at (h, g) = ({h[at]:g}, {g[at]:g}) is {tangent[at]:g} at "
            f"h = {other[at]:g}, where psi is {value[at]:g}. Say so with convex_in_h=False; trainers without cutting "
            "planes, such as sgd, take it."
        )

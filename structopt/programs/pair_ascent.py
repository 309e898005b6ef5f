"""Pair steps on a concave quadratic over one or several simplices (docs/mathematics/training#block-ascent)."""

from __future__ import annotations

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["pair_ascent"]

# Weights below this share of their block's mass are set to exactly 0, or cuts never become idle.
_NEGLIGIBLE = 1e-13


@kernel
def _gradient(
    gram: FloatArray,
    b: FloatArray,
    lam: float,
    alpha: FloatArray,
    g: FloatArray,
) -> None:
    """Set g = b - G alpha / lam."""
    n = b.shape[0]
    for k in range(n):
        g[k] = b[k]
    for j in range(n):
        if alpha[j] != 0.0:
            step = alpha[j] / lam
            for k in range(n):
                g[k] -= step * gram[j, k]


@kernel
def _total_gap(
    alpha: FloatArray,
    g: FloatArray,
    members: IntArray,
    start: IntArray,
    mass: FloatArray,
    zero_plane: bool,
) -> float:
    """Return sum over blocks of mass * max g - alpha.g: primal minus dual of the model."""
    gap = 0.0
    for i in range(mass.shape[0]):
        if start[i] == start[i + 1]:
            continue
        best = 0.0 if zero_plane else -np.inf
        dot = 0.0
        for p in range(start[i], start[i + 1]):
            k = members[p]
            if g[k] > best:
                best = g[k]
            dot += alpha[k] * g[k]
        gap += mass[i] * best - dot
    return gap


@kernel
def _block_steps(
    gram: FloatArray,
    lam: float,
    alpha: FloatArray,
    g: FloatArray,
    rest: FloatArray,
    i: int,
    members: IntArray,
    start: IntArray,
    mass: FloatArray,
    zero_plane: bool,
    tol: float,
    max_steps: int,
) -> int:
    """Pair steps inside block i until its gap is at most tol; return the number taken.

    Mass goes from v, the donor of largest gain, to u, the cut of largest gradient. Index -1 is the implicit cut
    (a = 0, b = 0) whose weight is rest[i].
    """
    n = g.shape[0]
    first, last = start[i], start[i + 1]
    for step in range(max_steps):
        u = -1
        best = 0.0 if zero_plane else -np.inf
        dot = 0.0
        for p in range(first, last):
            k = members[p]
            if g[k] > best:
                best = g[k]
                u = k
            dot += alpha[k] * g[k]
        if mass[i] * best - dot <= tol:
            return step
        own = gram[u, u] if u >= 0 else 0.0
        v = -2
        gain = 0.0
        move = 0.0
        if zero_plane and u >= 0 and rest[i] > 0.0:
            curvature = own / lam
            t = rest[i] if curvature * rest[i] <= best else best / curvature
            gain = t * (best - 0.5 * curvature * t)
            v = -1
            move = t
        for p in range(first, last):
            k = members[p]
            if alpha[k] <= 0.0 or k == u:
                continue
            slope = best - g[k]
            if slope <= 0.0:
                continue
            curvature = (own + gram[k, k] - (2.0 * gram[u, k] if u >= 0 else 0.0)) / lam
            t = alpha[k] if curvature * alpha[k] <= slope else slope / curvature
            value = t * (slope - 0.5 * curvature * t)
            if value > gain:
                gain = value
                v = k
                move = t
        if gain <= 0.0:
            return step
        held = rest[i] if v == -1 else alpha[v]
        if held - move <= _NEGLIGIBLE * mass[i]:
            move = held
        if v == -1:
            rest[i] = held - move
        else:
            alpha[v] = held - move
        if u == -1:
            rest[i] += move
        else:
            alpha[u] += move
        scaled = move / lam
        if u >= 0 and v >= 0:
            for k in range(n):
                g[k] -= scaled * (gram[u, k] - gram[v, k])
        elif u >= 0:
            for k in range(n):
                g[k] -= scaled * gram[u, k]
        else:
            for k in range(n):
                g[k] += scaled * gram[v, k]
    return max_steps


@kernel
def pair_ascent(
    gram: FloatArray,
    b: FloatArray,
    lam: float,
    alpha: FloatArray,
    g: FloatArray,
    rest: FloatArray,
    members: IntArray,
    start: IntArray,
    mass: FloatArray,
    zero_plane: bool,
    tol: float,
    max_steps: int,
) -> tuple[int, float]:
    """Sweep over the blocks until the total gap is at most tol; return (steps, gap)."""
    n_blocks = mass.shape[0]
    visit = max_steps if n_blocks == 1 else 5
    _gradient(gram, b, lam, alpha, g)
    gap = _total_gap(alpha, g, members, start, mass, zero_plane)
    steps = 0
    while gap > tol and steps < max_steps:
        before = steps
        for i in range(n_blocks):
            if start[i] < start[i + 1]:
                steps += _block_steps(
                    gram, lam, alpha, g, rest, i, members, start, mass, zero_plane, 0.9 * tol / n_blocks, visit
                )
        # Updated gradients drift, so the gap that is reported is computed again.
        _gradient(gram, b, lam, alpha, g)
        gap = _total_gap(alpha, g, members, start, mass, zero_plane)
        if steps == before:
            break
    return steps, gap

"""Passes of dual coordinate descent for the hinge and the squared hinge, dense and CSR.

The dual variable of example i lies in ``[0, upper]`` and ``w = sum_i step_i alpha_i y_i x_i``. One visit maximises

    sum_i step_i (alpha_i - ridge alpha_i^2 / 2) - ||w||^2 / 2

over ``alpha_i`` alone: ``upper = 1, ridge = 0`` is the hinge, ``upper = inf, ridge = 1`` the squared hinge (Hsieh et
al., ICML 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, fast, kernel

__all__ = ["descend_csr", "descend_dense", "squared_norms_csr", "squared_norms_dense"]


@fast("reassoc", "contract")
def _dot(row: npt.NDArray[Any], w: FloatArray) -> float:
    """A product whose sum may be taken in any order, so that it is vectorised; NaN keeps its meaning."""
    total = 0.0
    for j in range(row.size):
        total += row[j] * w[j]
    return total


@kernel
def squared_norms_dense(X: npt.NDArray[Any]) -> FloatArray:
    """``||x_i||^2`` of every row, in float64."""
    norms = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            value = np.float64(X[i, j])
            norms[i] += value * value
    return norms


@kernel
def squared_norms_csr(data: FloatArray, indptr: npt.NDArray[Any]) -> FloatArray:
    """``||x_i||^2`` of every row."""
    norms = np.zeros(indptr.size - 1)
    for i in range(norms.size):
        for p in range(indptr[i], indptr[i + 1]):
            norms[i] += data[p] * data[p]
    return norms


@kernel
def _shuffle(order: IntArray, size: int, seed: int) -> None:
    """Fisher and Yates with a 64-bit xorshift: a pass is repeated exactly by its seed."""
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x2545F4914F6CDD1D)
    for k in range(size - 1, 0, -1):
        state ^= state >> np.uint64(12)
        state ^= state << np.uint64(25)
        state ^= state >> np.uint64(27)
        # The upper 32 bits, scaled: no division, and the bias is below size / 2^32.
        pick = np.int64(((state >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
        order[k], order[pick] = order[pick], order[k]


@kernel
def _gap(ascent: float, alpha: float, ridge: float) -> float:
    """The part of this example in the duality gap, given ``ascent = 1 - margin - ridge alpha``.

    hinge(m) - alpha (1 - m) for the hinge; half the squared ascent, plus what a negative slack adds, for its square.
    """
    if ridge == 0.0:
        return (ascent if ascent > 0.0 else 0.0) - alpha * ascent
    slack = ascent + alpha
    return 0.5 * ascent * ascent if slack > 0.0 else 0.5 * alpha * alpha - alpha * slack


@kernel
def _maximiser(ascent: float, alpha: float, curvature: float, upper: float) -> float:
    """The best value of one dual variable; a row of zeros has no curvature and goes to the end of its box."""
    if curvature <= 0.0:
        return upper if ascent > 0.0 else 0.0
    best = alpha + ascent / curvature
    if best < 0.0:
        return 0.0
    return best if best < upper else upper


@kernel
def _renew(bounds: FloatArray, lowest: float, highest: float) -> None:
    # Violations of one sign only say nothing about the other side: put nothing aside there.
    bounds[0] = lowest if lowest < 0.0 else -np.inf
    bounds[1] = highest if highest > 0.0 else np.inf


@kernel
def descend_csr(
    data: FloatArray,
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    y: FloatArray,
    norms: FloatArray,
    step: FloatArray,
    upper: float,
    ridge: float,
    w: FloatArray,
    alpha: FloatArray,
    order: IntArray,
    n_active: int,
    bounds: FloatArray,
    seed: int,
) -> tuple[int, float, int]:
    """One pass over the active examples ``order[:n_active]`` in random order.

    An example at an end of its box is put aside when its derivative points out of the box by more than any violation
    of the last pass; ``bounds`` holds these two extremes and is renewed. Returns the number of examples still active,
    the sum of the visited examples' parts in the gap (over lam), each before its visit, and the number of changes of w.
    """
    _shuffle(order, n_active, seed)
    lowest, highest = np.inf, -np.inf
    total, changes, k = 0.0, 0, 0
    while k < n_active:
        i = np.uint64(order[k])  # unsigned: no test for a negative index, a third of the time
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        margin = 0.0
        for p in range(start, stop):
            margin += data[p] * w[np.uint64(indices[p])]
        old = alpha[i]
        ascent = 1.0 - y[i] * margin - ridge * old
        outward = (ascent < 0.0 and old <= 0.0) or (ascent > 0.0 and old >= upper)
        if outward and (ascent < bounds[0] or ascent > bounds[1]):
            n_active -= 1
            order[k], order[n_active] = order[n_active], order[k]
            continue
        k += 1
        total += step[i] * _gap(ascent, old, ridge)
        violation = 0.0 if outward else ascent
        lowest = violation if violation < lowest else lowest
        highest = violation if violation > highest else highest
        # Only what rounds to no move at all is left out: objectives may be as small as they like.
        best = old if outward else _maximiser(ascent, old, step[i] * norms[i] + ridge, upper)
        if best != old:
            alpha[i] = best
            change = step[i] * y[i] * (best - old)
            changes += 1
            for p in range(start, stop):
                w[np.uint64(indices[p])] += change * data[p]
    _renew(bounds, lowest, highest)
    return n_active, total, changes


@kernel
def descend_dense(
    X: npt.NDArray[Any],
    y: FloatArray,
    norms: FloatArray,
    step: FloatArray,
    upper: float,
    ridge: float,
    w: FloatArray,
    alpha: FloatArray,
    order: IntArray,
    n_active: int,
    bounds: FloatArray,
    seed: int,
) -> tuple[int, float, int]:
    """As `descend_csr` for a dense matrix."""
    _shuffle(order, n_active, seed)
    lowest, highest = np.inf, -np.inf
    total, changes, k = 0.0, 0, 0
    while k < n_active:
        i = order[k]
        old = alpha[i]
        ascent = 1.0 - y[i] * _dot(X[i], w) - ridge * old
        outward = (ascent < 0.0 and old <= 0.0) or (ascent > 0.0 and old >= upper)
        if outward and (ascent < bounds[0] or ascent > bounds[1]):
            n_active -= 1
            order[k], order[n_active] = order[n_active], order[k]
            continue
        k += 1
        total += step[i] * _gap(ascent, old, ridge)
        violation = 0.0 if outward else ascent
        lowest = violation if violation < lowest else lowest
        highest = violation if violation > highest else highest
        best = old if outward else _maximiser(ascent, old, step[i] * norms[i] + ridge, upper)
        if best != old:
            alpha[i] = best
            change = step[i] * y[i] * (best - old)
            changes += 1
            row = X[i]
            for j in range(w.size):
                w[j] += change * row[j]
    _renew(bounds, lowest, highest)
    return n_active, total, changes

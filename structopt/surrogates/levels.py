"""The most violated level of a loss that takes few values, by a table of the best h of each level.

A dynamic programme makes such tables for one example after the other and drops them again, so the choice is made inside
its kernel: as machine code (`LevelChoice.address`) that the kernel calls, whatever the surrogate.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numba

from structopt._jit import FloatArray, choices, kernel
from structopt._jit.choices import (
    CHOICE,
    CHOSEN,
    FAILED,
    G_CONST,
    H_CONST,
    LEAST,
    MIXES,
    N_NUMBERS,
    N_ROOM,
    QUANTUM,
    SECOND,
    SHARE,
    SLOPE,
    UNIT,
    UPPER,
    VALUE,
    LevelChoice,
)
from structopt.surrogates.compiled import clipped, gradient, segment_search

if TYPE_CHECKING:
    from structopt.surrogates.base import Surrogate

__all__ = ["level_choice"]

#: Vertices whose ψ is within this of the best one may end at the edge of the best mixture.
_TIED = 1e-9
#: Relative accuracy of the bound on the best mixture; its value is far closer to the maximum.
_ACCURACY = 1e-10


@kernel
def _place(work: FloatArray, level: float) -> float:
    """The g of a level."""
    g: float = work[G_CONST] + (work[LEAST] + level * work[UNIT]) * work[QUANTUM]
    return g


@kernel
def _rises(slope: Any, h: float, g: float, h1: float, g1: float) -> bool:
    """Whether ψ may increase from a point with this gradient towards another: if not, it falls all the way."""
    along_h, along_g = slope[0] * (h1 - h), slope[1] * (g1 - g)
    rises: bool = not along_h + along_g < -_TIED * (abs(along_h) + abs(along_g))  # also where a slope is infinite
    return rises


@kernel
def choose_level(f: FloatArray, heights: FloatArray, step: int, count: int, work: FloatArray) -> None:
    """The level with the largest ψ, or the two levels whose mixture has the largest of all.

    Parameters
    ----------
    f : ndarray
        The form of ψ.
    heights : ndarray
        ``heights[k * step]`` is the best h of a label of level k but for a constant, ``-inf`` where there is none.
    count : int
        Number of levels.
    work : ndarray, shape (N_NUMBERS + N_ROOM * count,)
        Numbers by the names in `structopt._jit.choices`, given and chosen; then room for the chain.
    """
    before = work[CHOSEN]
    work[CHOSEN], work[SECOND], work[SHARE] = -1.0, -1.0, 0.0
    work[VALUE] = work[UPPER] = work[choices.H] = work[choices.G] = work[SLOPE] = 0.0
    if work[MIXES] != 0.0:
        _choose_mixture(f, heights, step, count, before, work)
    else:
        # By falling g: a level counts if its h exceeds all before it (ψ decreases neither in h nor in g).
        top, best = -math.inf, 0.0
        for k in range(count - 1, -1, -1):
            height = heights[k * step]
            if height > top:
                top = height
                value = clipped(f, work[H_CONST] + height, _place(work, k))
                if value > best:
                    best, work[CHOSEN], work[choices.H] = value, k, work[H_CONST] + height
        work[VALUE] = work[UPPER] = best
        if best > 0.0:
            work[choices.G] = _place(work, work[CHOSEN])
    if work[CHOSEN] >= 0.0:
        work[SLOPE] = gradient(f, work[choices.H], work[choices.G])[0]


@kernel
def _choose_mixture(f: FloatArray, heights: FloatArray, step: int, count: int, before: float, work: FloatArray) -> None:
    """The best mixture of two levels, from the level that was best for the example before."""
    room = work[N_NUMBERS:]
    chain, h, values = room[:count], room[count : 2 * count], room[2 * count : 3 * count]
    # The upper right hull, by falling g and rising h: a vertex below the chord of its neighbours goes.
    top, n = -math.inf, 0
    for level in range(count - 1, -1, -1):
        height = heights[level * step]
        if not height > top:
            continue
        top, k = height, float(level)
        while n >= 2:
            a, b = chain[n - 2], chain[n - 1]
            if (h[n - 1] - h[n - 2]) * (a - k) > (height - h[n - 2]) * (a - b):
                break
            n -= 1
        chain[n], h[n] = k, height
        n += 1
    if n == 0:
        return
    # Along the chain ψ is unimodal where it is positive: once it falls it falls, so that one climbs from where the
    # example before this one had its best level. All vertices as good as the best one are looked at, which makes the
    # answer independent of that place; the best mixture has one of them at an end.
    guess = 0
    while guess < n - 1 and chain[guess] > before:
        guess += 1
    first, last = guess, guess
    best = values[guess] = clipped(f, work[H_CONST] + h[guess], _place(work, chain[guess]))
    if best <= 0.0:
        first, last = 0, -1  # nothing to climb on: from the end
    for ahead in (True, False):
        j = last + 1 if ahead else first - 1
        while 0 <= j < n:
            values[j] = clipped(f, work[H_CONST] + h[j], _place(work, chain[j]))
            first, last, best = min(first, j), max(last, j), max(best, values[j])
            if values[j] < best * (1.0 - _TIED):
                break
            j += 1 if ahead else -1
    work[VALUE] = work[UPPER] = best
    known = -1  # the vertex of this gradient
    slope = 0.0, 0.0
    for j in range(first, last + 1):
        h0, g0 = work[H_CONST] + h[j], _place(work, chain[j])
        if values[j] == best > 0.0 and work[CHOSEN] < 0.0:
            work[CHOSEN], work[choices.H], work[choices.G] = chain[j], h0, g0
        if j == last or max(values[j], values[j + 1]) < best * (1.0 - _TIED):
            continue
        h1, g1 = work[H_CONST] + h[j + 1], _place(work, chain[j + 1])
        if best > 0.0:
            end = j if values[j] >= values[j + 1] else j + 1
            if end != known:
                known, slope = end, gradient(f, h0 if end == j else h1, g0 if end == j else g1)
            if not (_rises(slope, h0, g0, h1, g1) if end == j else _rises(slope, h1, g1, h0, g0)):
                continue
        t, mixed, bound = segment_search(f, h0, g0, values[j], h1, g1, values[j + 1], _ACCURACY)
        work[UPPER] = max(work[UPPER], bound)
        if 0.0 < t < 1.0 and mixed > work[VALUE]:
            work[CHOSEN], work[SECOND], work[SHARE], work[VALUE] = chain[j], chain[j + 1], t, mixed
            work[choices.H], work[choices.G] = h0 + t * (h1 - h0), g0 + t * (g1 - g0)


def _choose(form: Any, heights: Any, step: Any, count: Any, work: Any) -> None:
    numbers = numba.carray(work, N_NUMBERS + N_ROOM * count)
    numbers[FAILED] = 0.0
    try:
        choose_level(numba.carray(form, 8), numba.carray(heights, step * count), step, count, numbers)
    except Exception:  # which would be printed and lost
        numbers[FAILED] = 1.0


@cache
def _code() -> Any:
    """The machine code, which stays in memory for as long as the process runs."""
    try:
        return numba.cfunc(CHOICE, cache=True)(_choose)
    except RuntimeError:  # no directory for the cache: see `structopt._jit.locks`
        return numba.cfunc(CHOICE)(_choose)


def level_choice(surrogate: Surrogate, mixes: bool) -> LevelChoice:
    """How a kernel chooses among levels.

    Parameters
    ----------
    surrogate : Surrogate
    mixes : bool
        Whether mixtures of two labels count.

    Returns
    -------
    LevelChoice
    """
    return LevelChoice(_code, surrogate.form.numbers, surrogate.h_offset, mixes, surrogate.form.check)

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
    QUANTUM,
    SECOND,
    SHARE,
    SLOPE,
    UNIT,
    UPPER,
    VALUE,
    LevelChoice,
)
from structopt.surrogates.compiled import clipped, gradient, segment_maximum

if TYPE_CHECKING:
    from structopt.surrogates.base import Surrogate

__all__ = ["level_choice"]

#: Vertices whose ψ is within this of the best one may end at the edge of the best mixture.
_TIED = 1e-9


@kernel
def _place(work: FloatArray, level: float) -> float:
    """The g of a level."""
    g: float = work[G_CONST] + (work[LEAST] + level * work[UNIT]) * work[QUANTUM]
    return g


@kernel
def _falls(f: FloatArray, h: float, g: float, h1: float, g1: float, forwards: bool) -> bool:
    """Whether ψ decreases along an edge from its better end: then it does so all the way."""
    slope_h, slope_g = gradient(f, h, g) if forwards else gradient(f, h1, g1)
    along_h, along_g = slope_h * (h1 - h), slope_g * (g1 - g)
    rise = along_h + along_g if forwards else -along_h - along_g
    falls: bool = rise < -_TIED * (abs(along_h) + abs(along_g))  # False where a slope is infinite
    return falls


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
    work : ndarray, shape (N_NUMBERS + 2 * count,)
        Numbers by the names in `structopt._jit.choices`, given and chosen; then room for the chain.
    """
    mixes = work[MIXES] != 0.0
    chain, values = work[N_NUMBERS : N_NUMBERS + count], work[N_NUMBERS + count : N_NUMBERS + 2 * count]
    top, best, at, n = -math.inf, 0.0, -1, 0
    # By falling g: a level counts if its h exceeds all before it (ψ decreases neither in h nor in g).
    for k in range(count - 1, -1, -1):
        height = heights[k * step]
        if not height > top:
            continue
        top = height
        if mixes:
            # A vertex below the chord of its neighbours goes.
            while n >= 2:
                b, a = chain[n - 1], chain[n - 2]
                h_a, h_b = heights[int(a) * step], heights[int(b) * step]
                if (h_b - h_a) * (a - k) > (height - h_a) * (a - b):
                    break
                n -= 1
            chain[n] = k
            n += 1
        else:
            value = clipped(f, work[H_CONST] + height, _place(work, k))
            if value > best:
                best, at = value, k
    work[SHARE], work[SECOND] = 0.0, -1.0
    upper = best
    if mixes:
        for j in range(n):
            k = int(chain[j])
            values[j] = clipped(f, work[H_CONST] + heights[k * step], _place(work, k))
            if values[j] > best:
                best, at = values[j], k
        # Along the chain ψ is unimodal: the best mixture has one of the best vertices at an end.
        least = best * (1.0 - _TIED)
        upper = best
        for j in range(n - 1):
            if max(values[j], values[j + 1]) < least:
                continue
            a, b = int(chain[j]), int(chain[j + 1])
            h, h1 = work[H_CONST] + heights[a * step], work[H_CONST] + heights[b * step]
            g, g1 = _place(work, a), _place(work, b)
            if best > 0.0 and _falls(f, h, g, h1, g1, values[j] >= values[j + 1]):
                continue
            t, mixed, bound = segment_maximum(f, h, g, h1, g1)
            upper = max(upper, bound)
            if 0.0 < t < 1.0 and mixed > best:
                best, at = mixed, a
                work[SECOND], work[SHARE] = b, t
    work[CHOSEN], work[VALUE], work[UPPER] = at, best, upper
    work[choices.H] = work[choices.G] = work[SLOPE] = 0.0
    if at >= 0:
        t, second = work[SHARE], int(work[SECOND]) if work[SHARE] > 0.0 else at
        height = heights[at * step] + t * (heights[second * step] - heights[at * step])
        work[choices.H] = work[H_CONST] + height
        work[choices.G] = _place(work, at + t * (second - at))
        work[SLOPE] = gradient(f, work[choices.H], work[choices.G])[0]


def _choose(form: Any, heights: Any, step: Any, count: Any, work: Any) -> None:
    numbers = numba.carray(work, N_NUMBERS + 2 * count)
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

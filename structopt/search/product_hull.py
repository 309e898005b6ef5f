"""The hull walk of `structopt.search` for shifted products ψ = (h + shift) g, compiled.

Between two solves a search does a few hundred floating-point operations. Interpreted, with caches that the solver
has just emptied, they take a tenth of the solve; compiled, one call of `advance` replaces them. The algorithm is
that of `structopt.search.hull.HullWalk` and `structopt.search.envelope.Envelope`, line by line, which remain the
reference (and serve every other ψ); a property test compares the two.

The state is one array of floats, a row per list and the scalars in row 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from structopt._jit import FloatArray, kernel

if TYPE_CHECKING:
    from structopt.plane.points import Point
    from structopt.search.envelope import Envelope

__all__ = ["ASK", "CLOSED", "GAP", "OPTIMAL", "STALLED", "State", "advance", "begin", "best_mixture"]

ASK, OPTIMAL, GAP, CLOSED, STALLED = range(5)

# Row 0: scalars, by these places.
_N_LINES, _N_CHAIN, _N_ASKED = 0, 1, 2
_H_CAP, _G_CAP, _H_FLOOR, _G_FLOOR = 3, 4, 5, 6
_VALUE, _SHIFT, _TOLERANCE, _RTOL, _MIXES, _CLOSING = 7, 8, 9, 10, 11, 12
_N_ANSWERS = 13
_N_SCALARS = 14
# Further rows: lines h + λ g <= K in increasing λ; two chains of vertices in increasing g, each with their place among
# the points known, one of all points and one of answers alone; every λ asked; the last three are scratch for the lower
# envelope of the lines.
_LINE_LAM, _LINE_K, _CHAIN_H, _CHAIN_G, _CHAIN_ID, _ANSWER_H, _ANSWER_G, _ANSWER_ID = range(1, 9)
_ASKED, _PIECE_LAM, _PIECE_K, _PIECE_BEGIN = range(9, 13)
_N_ROWS = 13
# Until `begin` has put them on the chain, labels known beforehand lie in the scratch rows.
_KNOWN_H, _KNOWN_G = _PIECE_LAM, _PIECE_K


class State:
    """What `begin` and `advance` work on, with room that grows.

    Parameters
    ----------
    known : list of Point
        The labels known before the first query.
    """

    __slots__ = ("array",)

    def __init__(self, known: list[Point]) -> None:
        self.array = array = np.empty((_N_ROWS, max(32, 2 * len(known))))
        for k, point in enumerate(known):
            array[_KNOWN_H, k] = point.h
            array[_KNOWN_G, k] = point.g

    def make_room(self, n_points: int) -> FloatArray:
        """The array, with room for one more answer when `n_points` are known."""
        if n_points + 3 > self.array.shape[1]:
            self.array = np.concatenate([self.array, np.empty_like(self.array)], axis=1)
        return self.array

    def vertices(self) -> list[int]:
        """Numbers of the vertices of the chain in increasing g."""
        return [int(k) for k in self.array[_CHAIN_ID, : int(self.array[0, _N_CHAIN])].tolist()]

    def answers(self) -> list[int]:
        """The same of the chain of answers alone."""
        return [int(k) for k in self.array[_ANSWER_ID, : int(self.array[0, _N_ANSWERS])].tolist()]

    def put_back(self, envelope: Envelope) -> None:
        """Write caps and lines into an envelope."""
        n = int(self.array[0, _N_LINES])
        envelope.h_cap, envelope.g_cap = self.array[0, _H_CAP : _G_CAP + 1].tolist()
        envelope.set_lines(list(zip(*self.array[_LINE_LAM : _LINE_K + 1, :n].tolist(), strict=True)))


@kernel
def _clipped(h: float, g: float, shift: float) -> float:
    value = (h + shift) * g
    return value if value > 0.0 and g > 0.0 else 0.0


@kernel
def _segment(h0: float, g0: float, h1: float, g1: float, shift: float) -> Any:
    """Place and value of the maximum on a segment: a parabola ."""
    h, dh, dg = h0 + shift, h1 - h0, g1 - g0
    bend = dh * dg
    if bend < 0.0:
        t = -(h * dg + g0 * dh) / (2.0 * bend)
        if 0.0 < t < 1.0:
            best_h, best_g = h + t * dh, g0 + t * dg
            if best_h > 0.0 and best_g > 0.0:
                return t, best_h * best_g, best_h * best_g * (1.0 + 1e-15)
    first, last = _clipped(h0, g0, shift), _clipped(h1, g1, shift)
    return (0.0, first, first) if first >= last else (1.0, last, last)


@kernel
def _add_line(s: FloatArray, lam: float, bound: float) -> None:
    g_cap = s[0, _G_CAP]
    if lam == 0.0:
        s[0, _H_CAP] = min(s[0, _H_CAP], bound)
        return
    if lam == math.inf:
        s[0, _G_CAP] = min(g_cap, bound)
        return
    bound += 2e-16 * (abs(bound) + lam * abs(g_cap) if g_cap < math.inf else abs(bound))
    n = int(s[0, _N_LINES])
    at = 0
    while at < n and s[_LINE_LAM, at] < lam:
        at += 1
    if at < n and s[_LINE_LAM, at] == lam:
        s[_LINE_K, at] = min(bound, s[_LINE_K, at])
        return
    for k in range(n, at, -1):
        s[_LINE_LAM, k], s[_LINE_K, k] = s[_LINE_LAM, k - 1], s[_LINE_K, k - 1]
    s[_LINE_LAM, at], s[_LINE_K, at] = lam, bound
    s[0, _N_LINES] = n + 1


@kernel
def _lower_envelope(s: FloatArray) -> int:
    """Pieces (λ, K, begin) of the lines' lower envelope over g, from the box's side h = h_cap on."""
    s[_PIECE_LAM, 0], s[_PIECE_K, 0], s[_PIECE_BEGIN, 0] = 0.0, s[0, _H_CAP], -math.inf
    m = 1
    for k in range(int(s[0, _N_LINES])):
        lam, bound = s[_LINE_LAM, k], s[_LINE_K, k]
        begin = -math.inf
        while m:
            begin = (bound - s[_PIECE_K, m - 1]) / (lam - s[_PIECE_LAM, m - 1])
            if begin > s[_PIECE_BEGIN, m - 1] or m == 1:
                break
            m -= 1  # covered by its neighbours
        s[_PIECE_LAM, m], s[_PIECE_K, m], s[_PIECE_BEGIN, m] = lam, bound, begin
        m += 1
    return m


@kernel
def _peak(s: FloatArray, known: float) -> Any:
    """`Envelope.peak`: the largest ψ below the lines, and where."""
    h_cap, g_cap, h_floor, g_floor, shift = s[0, _H_CAP], s[0, _G_CAP], s[0, _H_FLOOR], s[0, _G_FLOOR], s[0, _SHIFT]
    if g_cap < g_floor or h_cap < h_floor:
        return 0.0, math.nan, math.nan
    m = _lower_envelope(s)
    if m == 1 or s[_PIECE_BEGIN, 1] >= g_cap:
        if not math.isfinite(h_cap + g_cap):
            return math.inf, math.nan, math.nan
        return max(_clipped(h_cap, g_cap, shift), known), h_cap, g_cap
    best, best_h, best_g = -1.0, math.nan, math.nan
    h, g = math.nan, math.nan
    finite = True
    for k in range(1, m):
        lam, bound = s[_PIECE_LAM, k], s[_PIECE_K, k]
        finish = s[_PIECE_BEGIN, k + 1] if k + 1 < m else math.inf
        left = max(s[_PIECE_BEGIN, k], g_floor)
        right = min(finish, g_cap, (bound - h_floor) / lam)
        if right < left:
            if finish > g_floor:
                break  # from here on h is below its floor
            continue
        if best < 0.0:
            h, g = bound - lam * left, left
            best, best_h, best_g = _clipped(h, g, shift), h, g
            finite = math.isfinite(h + g)
        if right > left:
            h1, g1 = bound - lam * right, right
            # By monotonicity no point of the piece exceeds its upper right corner.
            corner = _clipped(max(h, h1), g1, shift)
            if corner > best and corner > known:
                t, _, upper = _segment(h, g, h1, g1, shift)
                if upper > best:
                    best, best_h, best_g = upper, h + t * (h1 - h), g + t * (g1 - g)
            h, g = h1, g1
        if right < finish:
            break
    if best < 0.0:
        return 0.0, math.nan, math.nan
    if not (finite and math.isfinite(h + g)):
        return math.inf, math.nan, math.nan
    return max(best, known), best_h, best_g


@kernel
def _was_asked(s: FloatArray, lam: float) -> bool:
    known = False
    for k in range(int(s[0, _N_ASKED])):
        known |= s[_ASKED, k] == lam
    return known


@kernel
def _snap(s: FloatArray, lam: float) -> float:
    """`HullWalk._snap`: an extreme λ is 0 or inf at first; the λ itself only if that was not enough."""
    h = max(abs(s[0, _H_CAP]), abs(s[0, _H_FLOOR])) if s[0, _H_FLOOR] > -math.inf else abs(s[0, _H_CAP])
    g = max(abs(s[0, _G_CAP]), abs(s[0, _G_FLOOR])) if s[0, _G_FLOOR] > -math.inf else abs(s[0, _G_CAP])
    ratio = lam * (g / h if 0.0 < h < math.inf and 0.0 < g < math.inf else 1.0)
    if 1e-5 <= ratio <= 1e5:
        return lam
    extreme = 0.0 if ratio < 1.0 else math.inf
    return lam if _was_asked(s, extreme) and 1e-9 <= ratio <= 1e9 else extreme


@kernel
def _turn(H: FloatArray, G: FloatArray, a: int, b: int, h: float, g: float) -> float:
    """Positive if vertex b is strictly above the segment from vertex a to (h, g)."""
    turn: float = (H[b] - H[a]) * (g - G[a]) - (h - H[a]) * (G[b] - G[a])
    return turn


@kernel
def _insert(s: FloatArray, first: int, count: int, h: float, g: float, number: float) -> None:
    """Put a point on the chain whose rows begin at `first` and whose length is scalar `count`."""
    n = int(s[0, count])
    H, G = s[first], s[first + 1]
    at = 0
    while at < n and (G[at] < g or (G[at] == g and H[at] <= h)):
        at += 1
    if at < n:
        if H[at] >= h:
            return
        if at:
            rise = (h - H[at - 1]) * (G[at] - G[at - 1]) - (H[at] - H[at - 1]) * (g - G[at - 1])
            if rise <= 0.0:
                return
    low = at
    while low and (H[low - 1] <= h or (low > 1 and _turn(H, G, low - 2, low - 1, h, g) <= 0.0)):
        low -= 1
    while at + 1 < n and (H[at] - h) * (G[at + 1] - g) - (H[at + 1] - h) * (G[at] - g) <= 0.0:
        at += 1
    # The vertices low..at-1 go, the new one comes to low; the rest moves by at most one place up, or down.
    rest = n - at
    for k in range(rest):
        j = rest - 1 - k if low + 1 > at else k
        for row in range(first, first + 3):
            s[row, low + 1 + j] = s[row, at + j]
    H[low], G[low], s[first + 2, low] = h, g, number
    s[0, count] = low + 1 + rest


@kernel
def _rises(s: FloatArray, lam: float, h: float, g: float) -> bool:
    n = int(s[0, _N_CHAIN])
    if n == 0:
        return True
    a, b = (0.0, 1.0) if lam == math.inf else (1.0, lam)
    known, scale = -math.inf, 0.0
    for k in range(n):
        known = max(known, a * s[_CHAIN_H, k] + b * s[_CHAIN_G, k])
        scale = max(scale, abs(a * s[_CHAIN_H, k]) + abs(b * s[_CHAIN_G, k]))
    above: bool = a * h + b * g - known > s[0, _TOLERANCE] * scale
    return above


@kernel
def _is_new(s: FloatArray, h: float, g: float) -> bool:
    """Whether no vertex is where this answer is: it may be the other end of an edge, and then it does not rise."""
    n = int(s[0, _N_CHAIN])
    h_error, g_error = 0.0, 0.0
    for k in range(n):
        h_error, g_error = max(h_error, abs(s[_CHAIN_H, k])), max(g_error, abs(s[_CHAIN_G, k]))
    h_error, g_error = s[0, _TOLERANCE] * h_error, s[0, _TOLERANCE] * g_error
    new = True
    for k in range(n):
        new &= abs(s[_CHAIN_H, k] - h) > h_error or abs(s[_CHAIN_G, k] - g) > g_error
    return new


@kernel
def best_mixture(s: FloatArray, value: float) -> Any:
    """GetMaxFract of thesis Algorithm 4: the best mixture of two neighbours, if one is better than `value`.

    Returns
    -------
    value : float
    t : float
        The weight of the second neighbour; 0 if there is no better mixture.
    first, second : int
        Numbers of the two.
    """
    shift, best, first, second = s[0, _SHIFT], 0.0, 0, 0
    for k in range(int(s[0, _N_CHAIN]) - 1):
        h, g, h1, g1 = s[_CHAIN_H, k], s[_CHAIN_G, k], s[_CHAIN_H, k + 1], s[_CHAIN_G, k + 1]
        if _clipped(max(h, h1), max(g, g1), shift) > value:
            t, mixed, _ = _segment(h, g, h1, g1, shift)
            if 0.0 < t < 1.0 and mixed > value:
                value, best = mixed, t
                first, second = int(s[_CHAIN_ID, k]), int(s[_CHAIN_ID, k + 1])
    return value, best, first, second


@kernel
def _tangent_or_edge(s: FloatArray, best: int) -> float:
    """Get-lambda of thesis Algorithm 4, corrected."""
    h, g = s[_CHAIN_H, best], s[_CHAIN_G, best]
    psi_h, psi_g = g, h + s[0, _SHIFT]
    least = s[0, _TOLERANCE] * (abs(psi_h * h) + abs(psi_g * g))
    for k in (best - 1, best + 1):
        if 0 <= k < int(s[0, _N_CHAIN]):
            dh, dg = s[_CHAIN_H, k] - h, s[_CHAIN_G, k] - g
            if psi_h * dh + psi_g * dg > least:
                chord: float = -dh / dg
                return chord
    psi_h, psi_g = max(0.0, psi_h), max(0.0, psi_g)
    return psi_g / psi_h if psi_h > 0.0 else math.inf


@kernel
def _next(s: FloatArray, peak_h: float, peak_g: float) -> Any:
    """`HullWalk._next`: the next λ, whether an answer that is nothing new settles the matter, if it is an edge's."""
    n = int(s[0, _N_CHAIN])
    highest, best = 0.0, -1
    for k in range(n):
        value = _clipped(s[_CHAIN_H, k], s[_CHAIN_G, k], s[0, _SHIFT])
        if value > highest:
            highest, best = value, k
    if best >= 0:
        wanted = _tangent_or_edge(s, best)
        lam = _snap(s, wanted)
        if not _was_asked(s, lam):
            return lam, lam == wanted, True
    n = int(s[0, _N_ANSWERS])
    if math.isnan(peak_h):
        return (math.inf if s[0, _G_CAP] == math.inf else 0.0), False, False
    if n == 0:
        psi_h, psi_g = max(0.0, peak_g), max(0.0, peak_h + s[0, _SHIFT])
        return _snap(s, psi_g / psi_h if psi_h > 0.0 else math.inf), False, False
    if peak_g > s[_ANSWER_G, n - 1]:
        return math.inf, False, False
    if peak_g < s[_ANSWER_G, 0] or n == 1:
        return 0.0, False, False
    k = 1
    while k < n - 1 and s[_ANSWER_G, k] < peak_g:
        k += 1
    wanted = (s[_ANSWER_H, k - 1] - s[_ANSWER_H, k]) / (s[_ANSWER_G, k] - s[_ANSWER_G, k - 1])
    lam = _snap(s, wanted)
    return lam, False, lam == wanted


@kernel
def _ask(s: FloatArray, lam: float, closing: bool, upper: float) -> Any:
    n = int(s[0, _N_ASKED])
    s[_ASKED, n] = lam
    s[0, _N_ASKED] = n + 1
    s[0, _CLOSING] = 1.0 if closing else 0.0
    return ASK, lam, upper, s[0, _VALUE]


@kernel
def _decide(s: FloatArray, upper: float, peak_h: float, peak_g: float, settled: bool) -> Any:
    value = s[0, _VALUE]
    if upper <= value * (1.0 + 1e-10):
        return OPTIMAL, math.nan, upper, value
    if value > 0.0 and value >= (1.0 - s[0, _RTOL]) * upper:
        return (OPTIMAL if settled else GAP), math.nan, upper, value
    if settled:
        return CLOSED, math.nan, upper, value
    lam, closing, edge = _next(s, peak_h, peak_g)
    if _was_asked(s, lam):
        return (CLOSED if edge else STALLED), math.nan, upper, value
    return _ask(s, lam, closing, upper)


@kernel
def begin(
    s: FloatArray,
    h_cap: float,
    g_cap: float,
    h_floor: float,
    g_floor: float,
    value: float,
    shift: float,
    tolerance: float,
    rtol: float,
    mixes: bool,
    first: float,
    tight: bool,
    n_known: int,
) -> Any:
    """Fill in the scalars and choose the first λ, which is `first` unless that is NaN; returns as `advance` does.

    The box is ``h <= h_cap, g <= g_cap``; `tight` is that of `Bounds`, `value` the incumbent's, `mixes` says whether
    a mixture of two labels is a label that may end the walk, `n_known` how many labels the state holds already.
    """
    s[0, _N_LINES], s[0, _N_ASKED], s[0, _CLOSING], s[0, _N_CHAIN], s[0, _N_ANSWERS] = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n_known):
        _insert(s, _CHAIN_H, _N_CHAIN, s[_KNOWN_H, k], s[_KNOWN_G, k], k)
    s[0, _H_CAP], s[0, _G_CAP], s[0, _H_FLOOR], s[0, _G_FLOOR] = h_cap, g_cap, h_floor, g_floor
    s[0, _VALUE], s[0, _SHIFT], s[0, _TOLERANCE], s[0, _RTOL] = value, shift, tolerance, rtol
    s[0, _MIXES] = 1.0 if mixes else 0.0
    if mixes:
        s[0, _VALUE] = best_mixture(s, s[0, _VALUE])[0]
    upper, h, g = _peak(s, s[0, _VALUE])
    if s[0, _N_CHAIN] > 0.0 and s[0, _VALUE] > 0.0:
        return _decide(s, upper, h, g, False)
    # No vertex with ψ > 0: the tangent at the box's corner (`HullWalk._start`).
    lam = first
    if math.isnan(lam):
        lam = 1.0
        if math.isfinite(upper) and g > 0.0:
            lam = _snap(s, max(0.0, h + shift) / g)
            lam = lam if tight or not 0.0 < lam < math.inf else math.sqrt(lam)
    if upper <= s[0, _VALUE] * (1.0 + 1e-10):
        return OPTIMAL, lam, upper, s[0, _VALUE]
    return _ask(s, lam, False, upper)


@kernel
def advance(s: FloatArray, lam: float, bound: float, h: float, g: float, number: int) -> Any:
    """Take the answer to `lam` and say what to do next.

    Parameters
    ----------
    s : ndarray
        The state; changed in place.
    lam, bound : float
        No label lies above ``h + lam g = bound``.
    h, g : float
        The answer.
    number : int
        Its place among the points known.

    Returns
    -------
    code : int
        `ASK`, or why to stop.
    lam : float
        What to ask.
    upper, value : float
        The bound and the incumbent after the answer.
    """
    _add_line(s, lam, bound)
    s[0, _VALUE] = max(s[0, _VALUE], _clipped(h, g, s[0, _SHIFT]))
    _insert(s, _ANSWER_H, _N_ANSWERS, h, g, number)
    rises = _rises(s, lam, h, g)
    if rises or _is_new(s, h, g):
        _insert(s, _CHAIN_H, _N_CHAIN, h, g, number)
    settled = not rises and s[0, _CLOSING] != 0.0
    if s[0, _MIXES] != 0.0 and not settled:
        s[0, _VALUE] = best_mixture(s, s[0, _VALUE])[0]
    upper, peak_h, peak_g = _peak(s, s[0, _VALUE])
    return _decide(s, upper, peak_h, peak_g, settled)

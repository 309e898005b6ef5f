"""The hull walk of one plane as a compiled state machine, for any surrogate: which λ to query next, and when to stop.

Between two solves a search does a few hundred floating-point operations. Interpreted, with caches that the solver
has just emptied, they take a tenth of the solve; compiled, one call of `advance` replaces them, and one call of
`advance_all` those of a whole batch of planes. The algorithm is that of `structopt.search.hull.HullWalk` and
`structopt.search.envelope.Envelope`, line by line, which remain the readable reference; a test compares the two.

The state of a plane is one array of floats, a row per list and the scalars in row 0; ψ is a form of
`structopt.surrogates.compiled`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from structopt._jit import FloatArray, assign, inner, kernel
from structopt.surrogates.compiled import clipped, direction, gradient, segment_maximum

if TYPE_CHECKING:
    from structopt.plane.points import Point
    from structopt.search.envelope import Envelope

__all__ = [
    "ASK",
    "CLOSED",
    "GAP",
    "LEVELS",
    "OPTIMAL",
    "STALLED",
    "State",
    "advance",
    "advance_all",
    "begin",
    "begin_all",
    "best_mixture",
    "lattice_peak",
    "make_room_for",
    "nearest",
    "new_states",
    "open_levels",
    "peak_edges",
    "raise_values",
    "split_all",
    "summarize",
]

#: What to do next: query, or stop because nothing better than the incumbent is left (below the lines, or within the
#: relative gap, or on the levels that g has), because the optimum over the hull is a mixture, or because no λ is left
#: to try.
ASK, OPTIMAL, GAP, CLOSED, STALLED, LEVELS = range(6)

# Row 0: scalars, by these places.
_N_LINES, _N_CHAIN, _N_ASKED = 0, 1, 2
_H_CAP, _G_CAP, _H_FLOOR, _G_FLOOR = 3, 4, 5, 6
_VALUE, _UPPER, _TOLERANCE, _RTOL, _MIXES, _CLOSING = 7, 8, 9, 10, 11, 12
_N_ANSWERS = 13
# The best label of all, which may lie below the chain: its ψ, its place among the points known, h and g.
_LABEL_VALUE, _LABEL_ID, _LABEL_H, _LABEL_G = 14, 15, 16, 17
# Whether the incumbent may be a label of another part of the plane.
_IS_PART = 18
# The best mixture, if it was better than the labels known: its ψ, the second share, h and g, and its two ends.
_MIX_VALUE, _MIX_SHARE, _MIX_H, _MIX_G, _MIX_ID = 19, 20, 21, 22, 23
_N_SCALARS = 25
# Further rows: lines h + λ g <= K in increasing λ; two chains of vertices in increasing g, each with their place among
# the points known, one of all points and one of answers alone; every λ queried; the last three are scratch for the
# lower envelope of the lines.
_LINE_LAM, _LINE_K, _CHAIN_H, _CHAIN_G, _CHAIN_ID, _ANSWER_H, _ANSWER_G, _ANSWER_ID = range(1, 9)
_ASKED, _PIECE_LAM, _PIECE_K, _PIECE_BEGIN = range(9, 13)
_N_ROWS = 13
#: Levels of g that are looked at one by one.
_MOST_LEVELS = 512
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


def new_states(n: int, room: int) -> FloatArray:
    """Arrays for `n` planes with room for that many labels."""
    return np.empty((n, _N_ROWS, max(_N_SCALARS, room)))


def make_room_for(states: FloatArray, n_points: int) -> FloatArray:
    """The same arrays, or larger ones where there is no room for one more label besides `n_points`."""
    if n_points + 3 <= states.shape[2]:
        return states
    larger = np.empty((*states.shape[:2], 2 * states.shape[2]))
    larger[:, :, : states.shape[2]] = states
    return larger


@inner
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


@inner
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


@inner
def _peak(s: FloatArray, f: FloatArray, known: float) -> Any:
    """`Envelope.peak`: the largest ψ below the lines, and where."""
    h_cap, g_cap, h_floor, g_floor = s[0, _H_CAP], s[0, _G_CAP], s[0, _H_FLOOR], s[0, _G_FLOOR]
    if g_cap < g_floor or h_cap < h_floor:
        return 0.0, math.nan, math.nan
    m = _lower_envelope(s)
    if m == 1 or s[_PIECE_BEGIN, 1] >= g_cap:
        if not math.isfinite(h_cap + g_cap):
            return math.inf, math.nan, math.nan
        return max(clipped(f, h_cap, g_cap), known), h_cap, g_cap
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
            best, best_h, best_g = clipped(f, h, g), h, g
            finite = math.isfinite(h + g)
        if right > left:
            h1, g1 = bound - lam * right, right
            # By monotonicity no point of the piece exceeds its upper right corner.
            corner = clipped(f, max(h, h1), g1)
            if corner > best and corner > known:
                t, _, upper = segment_maximum(f, h, g, h1, g1)
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


@inner
def _was_asked(s: FloatArray, lam: float) -> bool:
    known = False
    for k in range(int(s[0, _N_ASKED])):
        known |= s[_ASKED, k] == lam
    return known


@inner
def _snap(s: FloatArray, lam: float) -> float:
    """`HullWalk._snap`: an extreme λ is 0 or inf at first; the λ itself only if that was not enough."""
    h = max(abs(s[0, _H_CAP]), abs(s[0, _H_FLOOR])) if s[0, _H_FLOOR] > -math.inf else abs(s[0, _H_CAP])
    g = max(abs(s[0, _G_CAP]), abs(s[0, _G_FLOOR])) if s[0, _G_FLOOR] > -math.inf else abs(s[0, _G_CAP])
    ratio = lam * (g / h if 0.0 < h < math.inf and 0.0 < g < math.inf else 1.0)
    if 1e-5 <= ratio <= 1e5:
        return lam
    extreme = 0.0 if ratio < 1.0 else math.inf
    return lam if _was_asked(s, extreme) and 1e-9 <= ratio <= 1e9 else extreme


@inner
def _turn(H: FloatArray, G: FloatArray, a: int, b: int, h: float, g: float) -> float:
    """Positive if vertex b is strictly above the segment from vertex a to (h, g)."""
    turn: float = (H[b] - H[a]) * (g - G[a]) - (h - H[a]) * (G[b] - G[a])
    return turn


@inner
def _insert(s: FloatArray, first: int, count: int, h: float, g: float, number: float) -> int:
    """Put a point on the chain whose rows begin at `first` and whose length is scalar `count`.

    Returns its place there, -1 if it is below the chain.
    """
    n = int(s[0, count])
    H, G = s[first], s[first + 1]
    at = 0
    while at < n and (G[at] < g or (G[at] == g and H[at] <= h)):
        at += 1
    if at < n:
        if H[at] >= h:
            return -1
        if at:
            rise = (h - H[at - 1]) * (G[at] - G[at - 1]) - (H[at] - H[at - 1]) * (g - G[at - 1])
            if rise <= 0.0:
                return -1
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
    return low


@inner
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


@inner
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
def best_mixture(s: FloatArray, f: FloatArray, value: float) -> Any:
    """GetMaxFract of thesis Algorithm 4: the best mixture of two neighbours, if one is better than `value`.

    Returns
    -------
    value : float
    t : float
        The weight of the second neighbour; 0 if there is no better mixture.
    first, second : int
        Numbers of the two.
    """
    best, first, second = 0.0, 0, 0
    for k in range(int(s[0, _N_CHAIN]) - 1):
        h, g, h1, g1 = s[_CHAIN_H, k], s[_CHAIN_G, k], s[_CHAIN_H, k + 1], s[_CHAIN_G, k + 1]
        if clipped(f, max(h, h1), max(g, g1)) > value:
            t, mixed, _ = segment_maximum(f, h, g, h1, g1)
            if 0.0 < t < 1.0 and mixed > value:
                value, best = mixed, t
                first, second = int(s[_CHAIN_ID, k]), int(s[_CHAIN_ID, k + 1])
    return value, best, first, second


@inner
def _offer_mixtures(s: FloatArray, f: FloatArray, first: int, last: int) -> None:
    """Take the best mixture of two neighbours as incumbent, if it is better, among some edges of the chain."""
    for k in range(max(first, 0), min(last, int(s[0, _N_CHAIN]) - 1)):
        h, g, h1, g1 = s[_CHAIN_H, k], s[_CHAIN_G, k], s[_CHAIN_H, k + 1], s[_CHAIN_G, k + 1]
        if clipped(f, max(h, h1), max(g, g1)) > s[0, _VALUE]:
            t, mixed, _ = segment_maximum(f, h, g, h1, g1)
            if 0.0 < t < 1.0 and mixed > s[0, _VALUE]:
                s[0, _VALUE], s[0, _MIX_VALUE], s[0, _MIX_SHARE] = mixed, mixed, t
                s[0, _MIX_H], s[0, _MIX_G] = h + t * (h1 - h), g + t * (g1 - g)
                s[0, _MIX_ID], s[0, _MIX_ID + 1] = s[_CHAIN_ID, k], s[_CHAIN_ID, k + 1]


@inner
def _tangent_or_edge(s: FloatArray, f: FloatArray, best: int) -> float:
    """Get-lambda of thesis Algorithm 4, corrected."""
    h, g = s[_CHAIN_H, best], s[_CHAIN_G, best]
    psi_h, psi_g = gradient(f, h, g)
    least = s[0, _TOLERANCE] * (abs(psi_h * h) + abs(psi_g * g))
    for k in (best - 1, best + 1):
        if 0 <= k < int(s[0, _N_CHAIN]):
            dh, dg = s[_CHAIN_H, k] - h, s[_CHAIN_G, k] - g
            if psi_h * dh + psi_g * dg > least:
                chord: float = -dh / dg
                return chord
    return direction(f, h, g)


@inner
def _edge_of_mixture(s: FloatArray, f: FloatArray) -> float:
    """The λ of the edge with the best mixture of its ends; -1 if none is worth anything."""
    highest, chord = 0.0, -1.0
    for k in range(int(s[0, _N_CHAIN]) - 1):
        h, g, h1, g1 = s[_CHAIN_H, k], s[_CHAIN_G, k], s[_CHAIN_H, k + 1], s[_CHAIN_G, k + 1]
        if clipped(f, max(h, h1), max(g, g1)) > highest:
            mixed = segment_maximum(f, h, g, h1, g1)[1]
            if mixed > highest:
                highest, chord = mixed, (h - h1) / (g1 - g)
    return chord


@inner
def _pruning_lam(s: FloatArray, f: FloatArray, h: float, g: float, edge: float, right: bool, enough: float) -> float:
    """The λ nearest to `edge` whose line through the vertex (h, g) leaves no ψ above `enough` on one side of it.

    If no label of that side lies above the line, that side is done with by one query, and if one does, it is the label
    to know. λ is above that of the edge for the labels to the right of the vertex (larger g), below it for the others.
    """
    good = direction(f, h, g) if clipped(f, h, g) > 0.0 else math.inf if right else 0.0
    if (right and not good > edge) or (not right and not good < edge):
        return edge
    if good == math.inf:
        good = 1e6 * edge
    if good == 0.0:
        good = 1e-6 * edge
    bad = edge
    far = s[0, _G_CAP] if right else max(s[0, _G_FLOOR], g - 1e6)
    if not math.isfinite(far):
        return math.sqrt(good * bad)
    for _ in range(12):
        if abs(good - bad) <= 1e-3 * edge:
            break
        lam = math.sqrt(good * bad)
        if segment_maximum(f, h, g, h - lam * (far - g), far)[2] > enough:
            bad = lam
        else:
            good = lam
    return good


@inner
def _next_of_part(s: FloatArray, f: FloatArray, peak_h: float, peak_g: float) -> Any:
    """The λ that shows whether a part has a label better than the incumbent, which lies elsewhere; -1 if unknown.

    Between two vertices it is that of their chord, beside the last one that of a line through it. The second result
    says whether it is a chord's.
    """
    n = int(s[0, _N_CHAIN])
    if n == 0 or math.isnan(peak_h):
        return -1.0, False
    k = 0
    while k < n and s[_CHAIN_G, k] < peak_g:
        k += 1
    if 0 < k < n:
        chord: float = (s[_CHAIN_H, k - 1] - s[_CHAIN_H, k]) / (s[_CHAIN_G, k] - s[_CHAIN_G, k - 1])
        return chord, True
    k = min(k, n - 1)
    value = s[0, _VALUE]
    enough = max(value / (1.0 - s[0, _RTOL]), value * (1.0 + 1e-10))
    right = peak_g > s[_CHAIN_G, k]
    lam = _pruning_lam(s, f, s[_CHAIN_H, k], s[_CHAIN_G, k], direction(f, peak_h, peak_g), right, enough)
    return lam, False


@inner
def _next(s: FloatArray, f: FloatArray, peak_h: float, peak_g: float) -> Any:
    """`HullWalk._next`: the next λ, whether an answer that is nothing new ends the walk, if it is an edge's."""
    if s[0, _IS_PART] != 0.0:
        lam, is_chord = _next_of_part(s, f, peak_h, peak_g)
        if 0.0 < lam < math.inf and not _was_asked(s, lam):
            return lam, is_chord, is_chord
        if is_chord:
            return lam, True, True
    n = int(s[0, _N_CHAIN])
    highest, best = 0.0, -1
    for k in range(n):
        value = clipped(f, s[_CHAIN_H, k], s[_CHAIN_G, k])
        if value > highest:
            highest, best = value, k
    if best >= 0:
        wanted = _tangent_or_edge(s, f, best)
        lam = _snap(s, wanted)
        if not _was_asked(s, lam):
            return lam, lam == wanted, True
    if best < 0 and s[0, _MIXES] != 0.0:
        # Only mixtures are worth anything: the edge of the best.
        wanted = _edge_of_mixture(s, f)
        lam = _snap(s, wanted) if wanted >= 0.0 else wanted
        if lam >= 0.0 and not _was_asked(s, lam):
            return lam, lam == wanted, True
    n = int(s[0, _N_ANSWERS])
    if math.isnan(peak_h):
        return (math.inf if s[0, _G_CAP] == math.inf else 0.0), False, False
    if n == 0:
        return _snap(s, direction(f, peak_h, peak_g)), False, False
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


@inner
def _ask(s: FloatArray, lam: float, closing: bool, upper: float) -> Any:
    n = int(s[0, _N_ASKED])
    s[_ASKED, n] = lam
    s[0, _N_ASKED] = n + 1
    s[0, _CLOSING] = 1.0 if closing else 0.0
    return ASK, lam, upper, s[0, _VALUE]


@inner
def _decide(s: FloatArray, f: FloatArray, upper: float, peak_h: float, peak_g: float, closed: bool) -> Any:
    value = s[0, _VALUE]
    if upper <= value * (1.0 + 1e-10):
        return OPTIMAL, math.nan, upper, value
    if value > 0.0 and value >= (1.0 - s[0, _RTOL]) * upper:
        return (OPTIMAL if closed else GAP), math.nan, upper, value
    if closed:
        return CLOSED, math.nan, upper, value
    lam, closing, edge = _next(s, f, peak_h, peak_g)
    if _was_asked(s, lam):
        return (CLOSED if edge else STALLED), math.nan, upper, value
    return _ask(s, lam, closing, upper)


@inner
def _offer(s: FloatArray, value: float, h: float, g: float, number: float) -> None:
    """Take a label as incumbent if it is better."""
    s[0, _VALUE] = max(s[0, _VALUE], value)
    if value > s[0, _LABEL_VALUE]:
        s[0, _LABEL_VALUE], s[0, _LABEL_ID], s[0, _LABEL_H], s[0, _LABEL_G] = value, number, h, g


@inner
def _begin(
    s: FloatArray,
    f: FloatArray,
    h_cap: float,
    g_cap: float,
    h_floor: float,
    g_floor: float,
    value: float,
    tolerance: float,
    rtol: float,
    mixes: bool,
    first: float,
    tight: bool,
    n_known: int,
) -> Any:
    """`begin`, for a kernel that calls it: begin itself is compiled where single planes are searched."""
    s[0, _N_LINES], s[0, _N_ASKED], s[0, _CLOSING], s[0, _N_CHAIN], s[0, _N_ANSWERS] = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n_known):
        _insert(s, _CHAIN_H, _N_CHAIN, s[_KNOWN_H, k], s[_KNOWN_G, k], k)
    s[0, _H_CAP], s[0, _G_CAP], s[0, _H_FLOOR], s[0, _G_FLOOR] = h_cap, g_cap, h_floor, g_floor
    s[0, _VALUE], s[0, _UPPER], s[0, _TOLERANCE], s[0, _RTOL] = value, math.inf, tolerance, rtol
    s[0, _LABEL_VALUE], s[0, _LABEL_ID], s[0, _LABEL_H], s[0, _LABEL_G] = 0.0, -1.0, 0.0, 0.0
    s[0, _MIXES], s[0, _IS_PART], s[0, _MIX_VALUE] = 1.0 if mixes else 0.0, 0.0, 0.0
    if mixes:
        _offer_mixtures(s, f, 0, n_known)
    upper, h, g = _peak(s, f, s[0, _VALUE])
    if s[0, _N_CHAIN] > 0.0 and s[0, _VALUE] > 0.0:
        return _decide(s, f, upper, h, g, False)
    # No vertex with ψ > 0: the tangent at the box's corner (`HullWalk._start`).
    if upper <= s[0, _VALUE] * (1.0 + 1e-10):
        return OPTIMAL, math.nan, upper, s[0, _VALUE]
    lam = first
    if math.isnan(lam):
        lam = 1.0
        if math.isfinite(upper) and not math.isnan(h):
            lam = _snap(s, direction(f, h, g))
            lam = lam if tight or not 0.0 < lam < math.inf else math.sqrt(lam)
    return _ask(s, lam, False, upper)


@kernel
def begin(
    s: FloatArray,
    f: FloatArray,
    h_cap: float,
    g_cap: float,
    h_floor: float,
    g_floor: float,
    value: float,
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
    return _begin(s, f, h_cap, g_cap, h_floor, g_floor, value, tolerance, rtol, mixes, first, tight, n_known)


@inner
def _advance(s: FloatArray, f: FloatArray, lam: float, bound: float, h: float, g: float, number: int) -> Any:
    """`advance`, for a kernel that calls it."""
    _add_line(s, lam, bound)
    _offer(s, clipped(f, h, g), h, g, number)
    _insert(s, _ANSWER_H, _N_ANSWERS, h, g, number)
    rises = _rises(s, lam, h, g)
    if rises or _is_new(s, h, g):
        place = _insert(s, _CHAIN_H, _N_CHAIN, h, g, number)
        if s[0, _MIXES] != 0.0 and place >= 0:
            _offer_mixtures(s, f, place - 1, place + 1)  # the other edges are what they were
    closed = not rises and s[0, _CLOSING] != 0.0
    upper, peak_h, peak_g = _peak(s, f, s[0, _VALUE])
    return _decide(s, f, upper, peak_h, peak_g, closed)


@kernel
def advance(s: FloatArray, f: FloatArray, lam: float, bound: float, h: float, g: float, number: int) -> Any:
    """Take the answer to `lam` and say what to do next.

    Parameters
    ----------
    s : ndarray
        The state; changed in place.
    f : ndarray
        The form of ψ.
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
        The next query.
    upper, value : float
        The bound and the incumbent after the answer.
    """
    return _advance(s, f, lam, bound, h, g, number)


@kernel
def lattice_peak(s: FloatArray, f: FloatArray, step: float, offset: float, known: float) -> float:
    """The largest ψ below the lines at the levels ``offset + k step``, if g of every label is one of them.

    Between two vertices of neighbouring levels no label can hide, whatever room the lines leave. Infinite where the
    levels are too many to look at each.
    """
    g_cap, g_floor, h_floor = s[0, _G_CAP], s[0, _G_FLOOR], s[0, _H_FLOOR]
    if not (step > 0.0 and g_cap - g_floor <= _MOST_LEVELS * step):
        return math.inf
    k = math.ceil((g_floor - offset) / step - 1e-6)
    best = known
    while True:
        g = offset + k * step
        if g > g_cap + 1e-6 * step:
            return best
        k += 1
        blur = 1e-12 * max(abs(g), step)  # of a g that is a sum
        h = s[0, _H_CAP]
        for j in range(int(s[0, _N_LINES])):
            h = min(h, s[_LINE_K, j] - s[_LINE_LAM, j] * (g - blur))
        if h >= h_floor:
            best = max(best, clipped(f, h, g + blur))


@kernel
def begin_all(
    states: FloatArray,
    f: FloatArray,
    H: FloatArray,
    G: FloatArray,
    box: FloatArray,
    tolerance: float,
    rtol: float,
    mixes: bool,
    first: FloatArray,
    codes: Any,
    lams: FloatArray,
    uppers: FloatArray,
) -> None:
    """`begin` for a batch of planes.

    Parameters
    ----------
    states : ndarray, shape (n, rows, room)
    H, G : ndarray, shape (n_known, n)
        Labels known beforehand, which keep their row as number; h is NaN where an example has none.
    box : ndarray, shape (n, 4)
        ``h_cap, g_cap, h_floor, g_floor`` of each plane.
    first : ndarray, shape (n,)
        A first λ each, or NaN.
    codes, lams, uppers : ndarray, shape (n,)
        Results: what to do, the next query, and the bound.
    """
    numbers = np.empty(H.shape[0])
    for i in range(states.shape[0]):
        s = states[i]
        m = 0
        for k in range(H.shape[0]):
            if not math.isnan(H[k, i]):
                s[_KNOWN_H, m], s[_KNOWN_G, m], numbers[m] = H[k, i], G[k, i], k
                m += 1
        value, best = 0.0, -1
        for k in range(m):
            worth = clipped(f, s[_KNOWN_H, k], s[_KNOWN_G, k])
            if worth > value:
                value, best = worth, k
        label_h, label_g = (s[_KNOWN_H, best], s[_KNOWN_G, best]) if best >= 0 else (0.0, 0.0)
        code, lam, upper, _ = _begin(
            s, f, box[i, 0], box[i, 1], box[i, 2], box[i, 3], value, tolerance, rtol, mixes, first[i], False, m
        )
        for row in (_CHAIN_ID, _ANSWER_ID):
            for k in range(int(s[0, _N_CHAIN if row == _CHAIN_ID else _N_ANSWERS])):
                s[row, k] = numbers[int(s[row, k])]
        if s[0, _MIX_VALUE] > 0.0:
            for k in (_MIX_ID, _MIX_ID + 1):
                s[0, k] = numbers[int(s[0, k])]
        if best >= 0:
            _offer(s, value, label_h, label_g, numbers[best])
        codes[i], lams[i], uppers[i] = code, lam, upper


@kernel
def advance_all(
    states: FloatArray,
    f: FloatArray,
    some: Any,
    bounds: FloatArray,
    h: FloatArray,
    g: FloatArray,
    numbers: Any,
    step: FloatArray,
    offset: FloatArray,
    codes: Any,
    lams: FloatArray,
    uppers: FloatArray,
) -> None:
    """`advance` for some planes of a batch; `bounds, h, g, numbers` are their answers in order.

    `step` and `offset` are the levels of g in each plane (step 0: none), which end a walk where a mixture is no label.
    """
    for k in range(some.size):
        i = some[k]
        s = states[i]
        code, lam, upper, value = _advance(s, f, lams[i], bounds[k], h[k], g[k], numbers[k])
        uppers[i] = min(uppers[i], upper)
        if step[i] > 0.0 and s[0, _MIXES] == 0.0 and code in (ASK, CLOSED, STALLED):
            level = lattice_peak(s, f, step[i], offset[i], value)
            uppers[i] = min(uppers[i], level)
            if level <= value * (1.0 + 1e-10) or (value > 0.0 and value >= (1.0 - s[0, _RTOL]) * level):
                code = LEVELS
        codes[i], lams[i] = code, lam


@kernel
def open_levels(
    states: FloatArray,
    f: FloatArray,
    some: Any,
    values: FloatArray,
    rtol: float,
    step: FloatArray,
    offset: FloatArray,
    low: FloatArray,
    high: FloatArray,
    rest: FloatArray,
) -> None:
    """Where labels better than the incumbents may lie, in some planes of a batch.

    Parameters
    ----------
    values : ndarray, shape (n,)
        ψ of the incumbents.
    step, offset : ndarray, shape (n,)
        The levels of g, as in `advance_all`.
    low, high : ndarray
        Results: for each of some planes the smallest and the largest level with room for a better label, ``low > high``
        where there is none; all g where the levels are unknown or too many.
    rest : ndarray
        Results: what no label of the other levels exceeds.
    """
    for k in range(some.size):
        i = some[k]
        s = states[i]
        g_cap, g_floor, h_floor = s[0, _G_CAP], s[0, _G_FLOOR], s[0, _H_FLOOR]
        low[k], high[k], rest[k] = -math.inf, math.inf, 0.0
        if not (step[i] > 0.0 and g_cap - g_floor <= _MOST_LEVELS * step[i]):
            continue
        low[k], high[k] = math.inf, -math.inf
        level = math.ceil((g_floor - offset[i]) / step[i] - 1e-6)
        while True:
            g = offset[i] + level * step[i]
            if g > g_cap + 1e-6 * step[i]:
                break
            level += 1
            blur = 1e-12 * max(abs(g), step[i])
            h = s[0, _H_CAP]
            for j in range(int(s[0, _N_LINES])):
                h = min(h, s[_LINE_K, j] - s[_LINE_LAM, j] * (g - blur))
            if h < h_floor:
                continue
            bound = clipped(f, h, g + blur)
            if bound <= values[i] * (1.0 + 1e-10) or (values[i] > 0.0 and values[i] >= (1.0 - rtol) * bound):
                rest[k] = max(rest[k], bound)
            else:
                low[k], high[k] = min(low[k], g), max(high[k], g)


@kernel
def split_all(
    parents: FloatArray,
    which: Any,
    f: FloatArray,
    H: FloatArray,
    G: FloatArray,
    values: FloatArray,
    edges: FloatArray,
    states: FloatArray,
    codes: Any,
    lams: FloatArray,
    uppers: FloatArray,
) -> None:
    """States of parts of planes, in which some of the labels are left: the lines of the whole hold for a part, too.

    Parameters
    ----------
    parents : ndarray, shape (n_parents, rows, room)
    which : ndarray of int, shape (n,)
        The parent of each part.
    H, G : ndarray, shape (n_known, n)
        Labels known to be in the part, which keep their row as number; h is NaN where there is none.
    values : ndarray, shape (n,)
            The incumbent's ψ, which need not be in the part.
    edges : ndarray, shape (n,)
        The λ of the edge between the first two labels known, of which each part has one.
    states : ndarray, shape (n, rows, room)
        Results, as are `codes`, `lams` and `uppers` (what to do, the next query, and the bound).
    """
    room = parents.shape[2]
    for i in range(which.size):
        s, parent = states[i], parents[which[i]]
        n = int(parent[0, _N_LINES])
        assign(s[0, :room], parent[0])
        for row in (_LINE_LAM, _LINE_K):
            assign(s[row, :n], parent[row])
        s[0, _N_ASKED], s[0, _CLOSING], s[0, _N_CHAIN], s[0, _N_ANSWERS] = 0.0, 0.0, 0.0, 0.0
        s[0, _VALUE], s[0, _LABEL_VALUE], s[0, _LABEL_ID], s[0, _IS_PART] = values[i], 0.0, -1.0, 1.0
        for k in range(H.shape[0]):
            if not math.isnan(H[k, i]):
                _insert(s, _CHAIN_H, _N_CHAIN, H[k, i], G[k, i], k)
        uppers[i], _, _ = _peak(s, f, values[i])
        right = not math.isnan(H[0, i])
        end = 0 if right else 1
        enough = max(values[i] / (1.0 - s[0, _RTOL]), values[i] * (1.0 + 1e-10))
        lam = _pruning_lam(s, f, H[end, i], G[end, i], edges[i], right, enough)
        codes[i], lams[i], _, _ = _ask(s, lam, False, uppers[i])


def raise_values(states: FloatArray, values: FloatArray) -> None:
    """Tell planes of an incumbent that was found elsewhere."""
    states[:, 0, _VALUE] = np.maximum(states[:, 0, _VALUE], values)


@kernel
def peak_edges(states: FloatArray, f: FloatArray, numbers: Any, lams: FloatArray) -> None:
    """The edge of each chain above which the largest ψ below the lines lies.

    Parameters
    ----------
    numbers : ndarray of int, shape (2, n)
        Results: its ends, the one of smaller g first; -1 where the chain has no edge.
    lams : ndarray, shape (n,)
        Results: the λ of the edge.
    """
    for i in range(states.shape[0]):
        s = states[i]
        n = int(s[0, _N_CHAIN])
        numbers[0, i], numbers[1, i], lams[i] = -1, -1, math.nan
        _, _, peak_g = _peak(s, f, 0.0)
        if n < 2 or math.isnan(peak_g):
            continue
        k = 1
        while k < n - 1 and s[_CHAIN_G, k] < peak_g:
            k += 1
        numbers[0, i], numbers[1, i] = int(s[_CHAIN_ID, k - 1]), int(s[_CHAIN_ID, k])
        lams[i] = (s[_CHAIN_H, k - 1] - s[_CHAIN_H, k]) / (s[_CHAIN_G, k] - s[_CHAIN_G, k - 1])


@kernel
def summarize(states: FloatArray, values: FloatArray, places: FloatArray, parts: Any) -> None:
    """What the walks found.

    Parameters
    ----------
    values : ndarray, shape (n, 2)
        Results: ψ of the best label, and of the best mixture of two vertices (0 where it is not better).
    places : ndarray, shape (n, 5)
        Results: h and g of the label; h, g and the second share of the mixture.
    parts : ndarray of int, shape (3, n)
        Results: number of the label (-1: none), and of the two ends of the mixture.
    """
    for i in range(states.shape[0]):
        s = states[i]
        values[i, 0], parts[0, i] = s[0, _LABEL_VALUE], int(s[0, _LABEL_ID])
        places[i, 0], places[i, 1] = s[0, _LABEL_H], s[0, _LABEL_G]
        values[i, 1] = 0.0
        if s[0, _MIX_VALUE] > s[0, _LABEL_VALUE]:
            values[i, 1] = s[0, _MIX_VALUE]
            places[i, 2], places[i, 3], places[i, 4] = s[0, _MIX_H], s[0, _MIX_G], s[0, _MIX_SHARE]
            parts[1, i], parts[2, i] = int(s[0, _MIX_ID]), int(s[0, _MIX_ID + 1])


@kernel
def nearest(
    f: FloatArray,
    H: FloatArray,
    G: FloatArray,
    numbers: Any,
    value: FloatArray,
    h: FloatArray,
    g: FloatArray,
    near: Any,
) -> None:
    """The points seen that are nearest to the tangent of ψ at the optimum: after a small move one of them is on top.

    Where nothing is violated they are those with the largest h.

    Parameters
    ----------
    H, G, numbers : ndarray, shape (n_seen, n)
        The points of each plane and their numbers; h is NaN where a plane has none.
    value, h, g : ndarray, shape (n,)
        The optimum of each plane.
    near : ndarray of int, shape (n_near, n)
        Results: numbers, -1 where there are fewer points.
    """
    chosen = np.empty(near.shape[0], np.int64)
    for i in range(H.shape[1]):
        slope_h, slope_g = gradient(f, h[i], g[i]) if value[i] > 0.0 else (1.0, 0.0)
        for j in range(near.shape[0]):
            top, best = -math.inf, -1
            for k in range(H.shape[0]):
                height = slope_h * H[k, i] + slope_g * G[k, i]
                if not height > top:  # neither is NaN
                    continue
                known = False
                for m in chosen[:j]:
                    known |= H[m, i] == H[k, i] and G[m, i] == G[k, i]
                if not known:
                    top, best = height, k
            if best < 0:
                near[j:, i] = -1
                break
            chosen[j], near[j, i] = best, numbers[best, i]

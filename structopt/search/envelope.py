"""The outer approximation of the labels: everything below the λ-lines asked so far.

Every answered query says that no (allowed) label lies above the line ``h + λ g = K``. The maximum of ψ below all
lines is a certified upper bound; by monotonicity it lies on the upper right boundary, a concave chain.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from structopt.points import Bounds
from structopt.surrogates import Surrogate

__all__ = ["Envelope", "Peak"]


class Peak(NamedTuple):
    """The highest point of ψ below the lines: an upper bound on ψ, and where it is (nearly) attained."""

    upper: float
    h: float
    g: float


class Envelope:
    """Lines ``h + λ g <= K`` with 0 < λ < inf, sorted by λ, inside the box ``h <= h_cap, g <= g_cap``."""

    __slots__ = ("exhausted", "g_cap", "g_floor", "h_cap", "h_floor", "lines")

    def __init__(self, bounds: Bounds, surrogate: Surrogate) -> None:
        self.h_cap = bounds.h_upper
        self.g_cap = bounds.g_upper
        # ψ is positive only beyond these.
        self.h_floor = max(bounds.h_lower, surrogate.h_lower)
        self.g_floor = max(bounds.g_lower, surrogate.g_lower)
        self.lines: list[tuple[float, float]] = []
        self.exhausted = False

    def copy(self) -> Envelope:
        """A copy for a smaller region, to which more lines apply."""
        other = Envelope.__new__(Envelope)
        other.h_cap, other.g_cap = self.h_cap, self.g_cap
        other.h_floor, other.g_floor = self.h_floor, self.g_floor
        other.lines = self.lines.copy()
        other.exhausted = self.exhausted
        return other

    def add(self, lam: float, bound: float) -> None:
        """No label lies above ``h + lam g = bound``."""
        if 0.0 < lam < math.inf:
            # Corners are differences K - λ g: keep the promise in the face of rounding.
            bound += 2e-16 * (abs(bound) + lam * abs(self.g_cap) if self.g_cap < math.inf else abs(bound))
        if lam == 0.0:
            self.h_cap = min(self.h_cap, bound)
        elif lam == math.inf:
            self.g_cap = min(self.g_cap, bound)
        else:
            at = bisect_left(self.lines, (lam, -math.inf))
            if at < len(self.lines) and self.lines[at][0] == lam:
                self.lines[at] = (lam, min(bound, self.lines[at][1]))
            else:
                self.lines.insert(at, (lam, bound))

    def snap(self, lam: float) -> float:
        """λ, or 0 or inf where it is so extreme that K - λ g would lose its digits."""
        ratio = lam * self._scale()
        return 0.0 if ratio < 1e-5 else math.inf if ratio > 1e5 else lam

    def clamp(self, lam: float) -> float:
        """The nearest λ that is not extreme."""
        scale = self._scale()
        return min(max(lam, 1e-5 / scale), 1e5 / scale)

    def _scale(self) -> float:
        """Width over height of the box, the unit of 1 / λ."""
        h = max(abs(self.h_cap), abs(self.h_floor)) if self.h_floor > -math.inf else abs(self.h_cap)
        g = max(abs(self.g_cap), abs(self.g_floor)) if self.g_floor > -math.inf else abs(self.g_cap)
        return g / h if 0.0 < h < math.inf and 0.0 < g < math.inf else 1.0

    def chain(self, h_floor: float = -math.inf, g_floor: float = -math.inf) -> list[tuple[float, float]]:
        """Corners of the upper right boundary in increasing g, above the floors; empty if nothing is left."""
        h_floor, g_floor = max(h_floor, self.h_floor), max(g_floor, self.g_floor)
        if self.exhausted or self.g_cap < g_floor or self.h_cap < h_floor:
            return []
        if not self.lines:
            return [(self.h_cap, self.g_cap)]
        pieces = self._pieces()
        first = pieces[1][2] if len(pieces) > 1 else math.inf
        if first >= self.g_cap:
            return [(self.h_cap, self.g_cap)]
        corners: list[tuple[float, float]] = []
        ends = [piece[2] for piece in pieces[2:]] + [math.inf]
        for (lam, bound, begin), finish in zip(pieces[1:], ends, strict=True):
            left = max(begin, g_floor)
            right = min(finish, self.g_cap, (bound - h_floor) / lam)
            if right < left:
                if finish > g_floor:
                    break  # from here on h is below its floor
                continue
            if not corners:
                corners.append((bound - lam * left, left))
            if right > left:
                corners.append((bound - lam * right, right))
            if right < finish:
                break
        return corners

    def _pieces(self) -> list[tuple[float, float, float]]:
        """The lower envelope of the lines over g: (λ, K, where it begins), from the box's side h = h_cap on."""
        pieces = [(0.0, self.h_cap, -math.inf)]
        for lam, bound in self.lines:
            begin = -math.inf
            while pieces:
                begin = (bound - pieces[-1][1]) / (lam - pieces[-1][0])
                if begin > pieces[-1][2] or len(pieces) == 1:
                    break
                pieces.pop()  # covered by its neighbours
            pieces.append((lam, bound, begin))
        return pieces

    def peak(
        self, surrogate: Surrogate, h_floor: float = -math.inf, g_floor: float = -math.inf, known: float = 0.0
    ) -> Peak:
        """The largest ψ below the lines and above the floors, as a certified upper bound.

        Pieces that cannot exceed `known` are skipped; the bound is then at most `known`, and that is returned.
        """
        corners = self.chain(h_floor, g_floor)
        if not corners:
            return Peak(0.0, math.nan, math.nan)
        if not math.isfinite(sum(corners[0]) + sum(corners[-1])):
            return Peak(math.inf, math.nan, math.nan)
        best = Peak(surrogate.clipped(*corners[0]), *corners[0])
        for p, q in pairwise(corners):
            # By monotonicity no point of the piece exceeds its upper right corner.
            if surrogate.clipped(max(p[0], q[0]), q[1]) <= max(best.upper, known):
                continue
            t, _, upper = surrogate.segment_maximum(p, q)
            if upper > best.upper:
                best = Peak(upper, p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1]))
        return best if best.upper > known else Peak(known, best.h, best.g)

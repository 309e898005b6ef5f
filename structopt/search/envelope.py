"""The outer approximation of the labels: everything below the λ-lines of the queries so far.

Every answered query says that no (allowed) label lies above the line ``h + λ g = K``. The maximum of ψ below all
lines is a certified upper bound; by monotonicity it lies on the upper right boundary, a concave chain.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

from structopt.plane.points import Bounds
from structopt.surrogates import Surrogate

__all__ = ["Envelope", "Peak"]


class Peak(NamedTuple):
    """The highest point of ψ below the lines: an upper bound on ψ, and where it is (nearly) attained."""

    upper: float
    h: float
    g: float


class Envelope:
    """Lines ``h + λ g <= K`` with 0 < λ < inf, sorted by λ, inside the box ``h <= h_cap, g <= g_cap``."""

    __slots__ = ("_lower", "exhausted", "g_cap", "g_floor", "h_cap", "h_floor", "lines", "tight")

    def __init__(self, bounds: Bounds, surrogate: Surrogate) -> None:
        self.h_cap = bounds.h_upper
        self.g_cap = bounds.g_upper
        self.tight = bounds.tight
        # ψ is positive only beyond these.
        self.h_floor = max(bounds.h_lower, surrogate.h_lower)
        self.g_floor = max(bounds.g_lower, surrogate.g_lower)
        self.lines: list[tuple[float, float]] = []
        self.exhausted = False
        self._lower: tuple[float, list[tuple[float, float, float]]] | None = None

    def copy(self) -> Envelope:
        """A copy for a smaller region, to which more lines apply."""
        other = Envelope.__new__(Envelope)
        other.h_cap, other.g_cap = self.h_cap, self.g_cap
        other.h_floor, other.g_floor = self.h_floor, self.g_floor
        other.tight = self.tight
        other.lines = self.lines.copy()
        other.exhausted = self.exhausted
        other._lower = self._lower
        return other

    def add(self, lam: float, bound: float) -> None:
        """No label lies above ``h + lam g = bound``."""
        if lam == 0.0:
            self.h_cap = min(self.h_cap, bound)
            return
        if lam == math.inf:
            self.g_cap = min(self.g_cap, bound)
            return
        # Corners are differences K - λ g: the bound must hold in spite of rounding.
        bound += 2e-16 * (abs(bound) + lam * abs(self.g_cap) if self.g_cap < math.inf else abs(bound))
        self._lower = None
        at = bisect_left(self.lines, (lam, -math.inf))
        if at < len(self.lines) and self.lines[at][0] == lam:
            self.lines[at] = (lam, min(bound, self.lines[at][1]))
        else:
            self.lines.insert(at, (lam, bound))

    def set_lines(self, lines: list[tuple[float, float]]) -> None:
        """Replace all lines; they must be in increasing λ."""
        self.lines = lines
        self._lower = None

    def snap(self, lam: float) -> float:
        """λ, or 0 or inf where it is so extreme that K - λ g would lose its digits."""
        ratio = lam * self._scale()
        return 0.0 if ratio < 1e-5 else math.inf if ratio > 1e5 else lam

    def is_informative(self, lam: float) -> bool:
        """Whether both h and g have weight in h + λ g; beyond, one is lost in the rounding of the other."""
        return 1e-9 <= lam * self._scale() <= 1e9

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
        if h_floor < self.h_floor:
            h_floor = self.h_floor
        if g_floor < self.g_floor:
            g_floor = self.g_floor
        h_cap, g_cap = self.h_cap, self.g_cap
        if self.exhausted or g_cap < g_floor or h_cap < h_floor:
            return []
        pieces = self._pieces()
        last = len(pieces) - 1
        if last == 0 or pieces[1][2] >= g_cap:
            return [(h_cap, g_cap)]
        corners: list[tuple[float, float]] = []
        for k in range(1, last + 1):
            lam, bound, left = pieces[k]
            finish = pieces[k + 1][2] if k < last else math.inf
            if left < g_floor:
                left = g_floor
            right = (bound - h_floor) / lam
            if right > g_cap:
                right = g_cap
            if right > finish:
                right = finish
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
        if self._lower is not None and self._lower[0] == self.h_cap:
            return self._lower[1]
        pieces = [(0.0, self.h_cap, -math.inf)]
        for lam, bound in self.lines:
            begin = -math.inf
            while pieces:
                begin = (bound - pieces[-1][1]) / (lam - pieces[-1][0])
                if begin > pieces[-1][2] or len(pieces) == 1:
                    break
                pieces.pop()  # covered by its neighbours
            pieces.append((lam, bound, begin))
        self._lower = (self.h_cap, pieces)
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
        p, q = corners[0], corners[-1]
        if not math.isfinite(p[0] + p[1] + q[0] + q[1]):
            return Peak(math.inf, math.nan, math.nan)
        clipped = surrogate.clipped
        best, (best_h, best_g) = clipped(p[0], p[1]), p
        for k in range(1, len(corners)):
            q = corners[k]
            # By monotonicity no point of the piece exceeds its upper right corner.
            corner = clipped(p[0] if p[0] > q[0] else q[0], q[1])
            if corner > best and corner > known:
                t, _, upper = surrogate.segment_maximum(p, q)
                if upper > best:
                    best, best_h, best_g = upper, p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])
            p = q
        return Peak(best if best > known else known, best_h, best_g)

"""Points of the plane, and the protocol of the λ-oracles over them (docs/mathematics/searches#constrained-queries).

A search only ever sees a `SearchPlane`: never a solver, never a label space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from structopt.checks import number, shown
from structopt.errors import DeclarationError

__all__ = ["Bounds", "Point", "Precision", "Ray", "SearchPlane", "check_lam", "check_ray", "pair"]

Ray = tuple[float, float]


@dataclass(slots=True, eq=False)
class Point:
    """A label in the plane.

    Attributes
    ----------
    h, g : float
        Its coordinates.
    label : object
        What stands behind it: a vector z for `Plane`, an index (or a mixture of indices) for `PointPlane`.
    bound : float
        Proved maximum of ``h + λ g`` (of g for λ = inf) over all labels that the query allowed.
    """

    h: float
    g: float
    label: Any = None
    bound: float = math.nan

    def __repr__(self) -> str:
        return f"Point(h={self.h:.6g}, g={self.g:.6g})"


class Bounds(NamedTuple):
    """A box that holds every label, known without a query.

    `g_positive` is the smallest positive g (0 if not known); `tight` says whether labels touch the box's sides.
    """

    h_lower: float
    h_upper: float
    g_lower: float
    g_upper: float
    g_positive: float = 0.0
    tight: bool = False

    def start(self, lam: float) -> float:
        """A first λ from `lam`, the tangent at the box's corner (H^ / G^ for a product).

        A box from the variables' bounds overestimates H^, often tenfold. Then the geometric mean with λ = 1, the
        direction of margin rescaling, is the better guess: on Yeast 2.9 queries of the hull search against 3.2.
        """
        return lam if self.tight or not 0.0 < lam < math.inf else math.sqrt(lam)


class Precision(NamedTuple):
    """How a plane realises strict inequalities, that is, what a restricted query may miss (docs/mathematics/searches).

    Attributes
    ----------
    shrink : float
        Relative shrink of an open ray's slope.
    h_min, g_min : float
        In the open quadrant, labels with ``0 < h < h_min`` or ``0 < g < g_min`` are not seen.
    h_step, g_step : float
        Above an open corner, labels within this distance of its sides are not seen.
    """

    shrink: float = 0.0
    h_min: float = 0.0
    g_min: float = 0.0
    h_step: float = 0.0
    g_step: float = 0.0


class SearchPlane(Protocol):
    """All that a search knows about labels."""

    @property
    def convex(self) -> bool:
        """Whether mixtures of labels are labels (a relaxed space)."""
        ...

    @property
    def truth(self) -> Any:
        """The true label, which has value 0, or None if it was not given."""
        ...

    @property
    def bounds(self) -> Bounds:
        """A box that holds every label."""
        ...

    @property
    def precision(self) -> Precision:
        """What strict inequalities mean here."""
        ...

    @property
    def tolerance(self) -> float:
        """Relative accuracy of ``h + λ g`` at an answer."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Queries so far, by kind."""
        ...

    @property
    def queries(self) -> int:
        """Queries so far."""
        ...

    def query(
        self,
        lam: float,
        *,
        bottom: Ray | None = None,
        top: Ray | None = None,
        open_bottom: bool = False,
        open_top: bool = False,
        above: Ray | None = None,
        forbid: Sequence[Any] = (),
        ties: bool = True,
        shrink: float | None = None,
        worth: Callable[[float], bool] | None = None,
    ) -> Point | None:
        """The label that maximises ``h + lam g`` among those allowed, or None if there is none.

        None may also mean that ``worth`` says no to the largest ``h + lam g`` among them.
        """
        ...

    def as_product(self) -> Self:
        """The plane of the same labels whose h g a product search maximises."""
        ...

    def evaluate(self, label: Any) -> Point:
        """A label seen in another search, at the current h and g."""
        ...

    def mix(self, p: Point, q: Point, t: float) -> Point:
        """The mixture ``(1 - t) p + t q``."""
        ...

    def can_forbid(self, point: Point) -> bool:
        """Whether ``forbid`` can leave out this one label and no other."""
        ...

    def k_best(self, lam: float, k: int) -> list[Point] | None:
        """The `k` best labels for ``h + lam g``, fewer only if there are fewer; None if they cannot be listed."""
        ...

    def front(self) -> list[Point] | None:
        """Points that hold the maximum of every monotone ψ, if they can be listed without a search."""
        ...


def check_lam(lam: float) -> float:
    """A λ in [0, inf]."""
    lam = number("lam", lam)
    if not lam >= 0.0:
        raise DeclarationError(
            f"lam must be in [0, inf], got {lam}: a negative weight on g would prefer a smaller loss."
        )
    return lam


def check_ray(ray: Ray, name: str) -> Ray:
    """A ray from the origin as a vector, never as a quotient (docs/mathematics/searches#constrained-queries)."""
    h, g = pair(ray, name)
    if not (h >= 0.0 and g >= 0.0 and h + g > 0.0 and math.isfinite(h + g)):
        raise DeclarationError(f"{name} must be a direction (h, g) in the first quadrant, got ({h:g}, {g:g}).")
    return h, g


def pair(given: Ray, name: str) -> Ray:
    """Two numbers (h, g)."""
    try:
        if isinstance(given, bytes | bytearray | Mapping | Set):  # they have no first and second number
            raise TypeError
        h, g = given
    except (TypeError, ValueError):
        raise DeclarationError(f"{name} must be a pair (h, g), got {shown(given)}.") from None
    return number(f"h of {name}", h), number(f"g of {name}", g)

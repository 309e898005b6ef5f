"""Picture of a search in the (h, g) plane: labels, hull, contours of ψ, queries (thesis Figures 4-1, 4-9, 5-1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, having
from structopt.errors import DeclarationError, StructoptError
from structopt.plane import Plane
from structopt.search.result import SearchResult, Step
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.enumeration import enumerate_labels
from structopt.surrogates import Product, Surrogate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plane", "plane_steps"]

_QUERY = "#4477AA"
_BEST = "#CC3311"
_ANGLE = "#DDAA33"
#: A space of at most so many integer variables and labels is drawn whole.
_FEW_VARIABLES, _FEW_LABELS = 14, 4096


@checked
def plane(
    result: SearchResult,
    *,
    labels: npt.ArrayLike | None = None,
    step: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a search.

    Parameters
    ----------
    result : SearchResult
    labels : array, shape (n, 2), optional
        All labels as points (h, g). Default: the points of a `PointPlane`, every label of a small space, else those
        that the search has seen.
    step : int, optional
        Draw the state after this query (from 1), with its angle or λ-line alone, as one panel of thesis Figure
        4-9. Default: every query, numbered.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from structopt import plot, search
    >>> from structopt.plane import PointPlane
    >>> result = search.angular(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)]), lam=1.0)
    >>> plot.plane(result).get_xlabel()
    'h'
    """
    import matplotlib.pyplot as plt

    if step is not None and not 1 <= step <= len(result.trace):
        raise DeclarationError(f"step must be in 1..{len(result.trace)}, the number of queries, got {step}.")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
    having("ax", ax, ("plot", "set_title"), "a matplotlib Axes")
    points = _labels(result, labels)
    box = _window(points, result)
    surrogate: Surrogate = result.surrogate or Product()
    steps = result.trace if step is None else result.trace[:step]
    _contours(ax, surrogate, box, steps[-1].incumbent if steps else result.value)
    ax.scatter(points[:, 0], points[:, 1], s=9 if len(points) > 200 else 16, color="0.35", linewidths=0, zorder=3)
    _hull(ax, points)
    shown = steps if step is None else steps[-1:]
    for current in shown:
        _draw_step(ax, current, box, strong=step is not None)
    _draw_answers(ax, steps)
    if step is None or step == len(result.trace):
        _draw_optimum(ax, result)
    ax.set_xlim(box[0], box[1])
    ax.set_ylim(box[2], box[3])
    ax.set_xlabel("h")
    ax.set_ylabel("g")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(_title(result, step), fontsize=10)
    return ax


@checked
def plane_steps(result: SearchResult, *, labels: npt.ArrayLike | None = None, columns: int = 3) -> list[Axes]:
    """One panel per query, as thesis Figures 4-9 and 4-10 illustrate angular search.

    Parameters
    ----------
    result : SearchResult
    labels : sequence, optional
        All labels, to be drawn too.
    columns : int
        Pictures in a row.

    Returns
    -------
    list of Axes
    """
    import matplotlib.pyplot as plt

    n = len(result.trace)
    if not n:
        raise DeclarationError("The search made no query: there is no step to draw.")
    columns = min(columns, n)
    rows = -(-n // columns)
    _, grid = plt.subplots(rows, columns, figsize=(3.6 * columns, 3.1 * rows), layout="constrained", squeeze=False)
    panels: list[Axes] = list(grid.ravel())
    for k, ax in enumerate(panels):
        if k < n:
            plane(result, labels=labels, step=k + 1, ax=ax)
        else:
            ax.set_axis_off()
    return panels[:n]


def _labels(result: SearchResult, labels: npt.ArrayLike | None) -> FloatArray:
    if labels is not None:
        return np.asarray(labels, dtype=float).reshape(-1, 2)
    h, g = getattr(result.plane, "h", None), getattr(result.plane, "g", None)
    if h is not None and g is not None:
        return np.column_stack([h, g])
    every = _small_space(result.plane)
    if every is not None:
        return every
    seen = [(s.point.h, s.point.g) for s in result.trace if s.point is not None]
    return np.array(seen, dtype=float).reshape(-1, 2)


def _small_space(plane: Any) -> FloatArray | None:
    """Every label of a space that is small enough to enumerate."""
    if not isinstance(plane, Plane) or plane.rows:
        return None
    space: CompiledSpace = plane.oracle.space
    if np.count_nonzero(space.integrality) > _FEW_VARIABLES:
        return None
    try:
        labels = enumerate_labels(space, _FEW_LABELS)
    except StructoptError:
        return None
    axes = plane.coordinates
    return np.asarray(labels @ axes.both.T + (axes.h0, axes.g0))


def _window(points: FloatArray, result: SearchResult) -> tuple[float, float, float, float]:
    seen = [(s.point.h, s.point.g) for s in result.trace if s.point is not None]
    every = np.vstack([points, np.array(seen, dtype=float).reshape(-1, 2)])
    if not len(every):
        return 0.0, 1.0, 0.0, 1.0
    low, high = every.min(axis=0), every.max(axis=0)
    # Rays start at the origin; and a single point, or two that nearly coincide, need it for scale.
    if any(s.kind == "angle" for s in result.trace) or (high - low < 1e-2 * np.abs(every).max(axis=0)).any():
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    pad = 0.08 * np.maximum(high - low, 1e-3)
    return low[0] - pad[0], high[0] + pad[0], low[1] - pad[1], high[1] + pad[1]


def _contours(ax: Axes, surrogate: Surrogate, box: tuple[float, float, float, float], value: float) -> None:
    """Contours of ψ in grey, and the one through the incumbent: what is above it would be better."""
    h, g = np.meshgrid(np.linspace(box[0], box[1], 160), np.linspace(box[2], box[3], 160))
    inside = np.asarray(surrogate.inside(h, g)) & np.ones(h.shape, dtype=bool)
    psi = np.full(h.shape, np.nan)
    psi[inside] = surrogate.psi(h[inside], g[inside])
    if surrogate.h_lower > -math.inf:
        psi[h < surrogate.h_lower] = np.nan
    top = np.nanmax(psi, initial=0.0)
    if top <= 0.0:
        return
    base = value if value > 0.0 else 0.2 * float(top)
    levels = sorted({f * base for f in (0.25, 0.5, 2.0, 4.0)})
    ax.contour(h, g, np.ma.masked_invalid(psi), levels=levels, colors="0.82", linewidths=0.8, zorder=1)
    if value > 0.0:
        ax.contour(h, g, np.ma.masked_invalid(psi), levels=[value], colors=_BEST, linewidths=1.1, zorder=2)


def _hull(ax: Axes, points: FloatArray) -> None:
    from scipy.spatial import ConvexHull, QhullError

    try:
        corners = points[ConvexHull(points).vertices]
    except (QhullError, ValueError):
        return  # fewer than three labels, or all on one line
    ax.fill(*corners.T, facecolor="none", edgecolor="0.55", linewidth=0.9, linestyle=(0, (4, 3)), zorder=2)


def _draw_step(ax: Axes, step: Step, box: tuple[float, float, float, float], strong: bool) -> None:
    reach = 2.0 * max(abs(v) for v in box)
    alpha = 0.16 if strong else 0.04
    if step.bottom is not None and step.top is not None:
        rays = [np.array(ray) / math.hypot(*ray) * reach for ray in (step.bottom, step.top)]
        ax.fill(*np.array([(0.0, 0.0), *rays]).T, color=_ANGLE, alpha=alpha, linewidth=0, zorder=0)
        for ray in rays:
            ax.plot([0.0, ray[0]], [0.0, ray[1]], color=_ANGLE, linewidth=1.2 if strong else 0.7, zorder=1)
    if step.above is not None:
        h, g = (max(floor, low) for floor, low in zip(step.above, (box[0], box[2]), strict=True))
        if strong:
            ax.fill([h, box[1], box[1], h], [g, g, box[3], box[3]], color=_ANGLE, alpha=alpha, linewidth=0, zorder=0)
        ax.plot([box[1], h, h], [g, g, box[3]], color=_ANGLE, linewidth=1.2 if strong else 0.7, zorder=1)
    if step.point is not None:
        _line(ax, step, reach, strong)


def _line(ax: Axes, step: Step, reach: float, strong: bool) -> None:
    """The λ-line through the answer: nothing that the query allowed lies above it."""
    assert step.point is not None
    direction = np.array([1.0, 0.0]) if step.lam == math.inf else np.array([-step.lam, 1.0]) / math.hypot(step.lam, 1.0)
    ends = np.array([(step.point.h, step.point.g)] * 2) + np.outer([-reach, reach], 2.0 * direction)
    ax.plot(*ends.T, color=_QUERY, linewidth=1.2 if strong else 0.8, alpha=1.0 if strong else 0.65, zorder=2)


def _draw_answers(ax: Axes, steps: list[Step]) -> None:
    """A cross per label found, with the numbers of the queries that returned it."""
    numbers: dict[tuple[float, float], list[str]] = {}
    for number, step in enumerate(steps, start=1):
        if step.point is not None:
            numbers.setdefault((step.point.h, step.point.g), []).append(str(number))
    for place, found in numbers.items():
        ax.scatter(place[0], place[1], s=34, marker="x", color=_QUERY, linewidths=1.6, zorder=5)
        text = ax.annotate(
            ", ".join(found) if len(found) <= 3 else f"{found[0]}, {found[1]} … {found[-1]}",
            place,
            xytext=(6, 5),
            textcoords="offset points",
            fontsize=8,
            color=_QUERY,
            zorder=8,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7},
        )
        text.set_in_layout(False)


def _draw_optimum(ax: Axes, result: SearchResult) -> None:
    if result.point is None:
        return
    if result.fractional:
        ends = np.array([(part.h, part.g) for _, part in result.parts])
        ax.plot(*ends.T, color=_BEST, linewidth=1.6, zorder=4)
    ax.scatter(
        [result.point.h],
        [result.point.g],
        s=150,
        marker="*",
        color=_BEST,
        edgecolors="white",
        linewidths=0.8,
        zorder=6,
    )


def _title(result: SearchResult, step: int | None) -> str:
    name = result.method.replace("_", " ")
    if step is None:
        return f"{name}: value {result.value:.4g} ≤ {result.upper_bound:.4g}, {result.queries} queries"
    current: Any = result.trace[step - 1]
    lam = "∞" if current.lam == math.inf else f"{current.lam:.3g}"
    empty = ", empty" if current.point is None else ""
    return f"query {step}: λ = {lam}{empty}, {current.incumbent:.4g} ≤ {current.bound:.4g}"

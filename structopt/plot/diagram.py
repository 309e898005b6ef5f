"""Picture of a decision diagram: nodes in layers, arcs with the variables they set, the best path of an objective."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.algorithms.diagram import Diagram, compile_diagram
from structopt.algorithms.diagram.longest_path import arc_weights, completions
from structopt.checks import checked, floats
from structopt.errors import DeclarationError
from structopt.space import CompiledSpace, LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.naming import ArrayNames

__all__ = ["diagram"]

#: Above this many arcs a picture shows nothing but ink.
_MOST_ARCS = 400
#: Width of a layer in units of the distance of its nodes: names stand beside one another.
_STRETCH = 1.45
#: Above this many arcs their labels are left out.
_MOST_NAMES = 60


@checked
def diagram(space: LabelSpace | CompiledSpace | Diagram, c: npt.ArrayLike | None = None, *, ax: Any = None) -> Any:
    """Draw the decision diagram of a small space; every path from left to right is a label.

    Parameters
    ----------
    space : LabelSpace, CompiledSpace or Diagram
        A space is compiled first.
    c : array_like, shape (n_variables,), optional
        Objective coefficients: the path of the best label is drawn in colour.
    ax : matplotlib axes, optional
        New ones by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import structopt as so
    >>> space = so.LabelSpace("knapsack")
    >>> item = space.binary("item", 4)
    >>> space.subject_to(3 * item[0] + 5 * item[1] + 2 * item[2] + 7 * item[3] <= 8)
    >>> ax = so.plot.diagram(space, [1.0, 3.0, 1.5, 3.5])
    >>> ax.get_title()
    'knapsack: 8 labels, value 4.5 for the best path'
    """
    if isinstance(space, Diagram):
        found = space
    else:
        found = compile_diagram(space.compiled if isinstance(space, LabelSpace) else space)
    if found.n_arcs > _MOST_ARCS:
        raise DeclarationError(
            f"{found!r} is too large for a picture, which shows at most {_MOST_ARCS} arcs; draw a smaller space."
        )
    tail = np.repeat(np.arange(found.n_nodes), np.diff(found.ptr))
    x, y = _places(found, tail)
    x *= _STRETCH
    on_path = np.zeros(found.n_arcs, dtype=bool)
    name = found.space.name if found.space is not None else ""
    title = f"{name or 'diagram'}: {found.count()} labels"
    if c is not None:
        path, value = _best_path(found, floats("c", c, (len(found.const),)))
        on_path[path] = True
        title += f", value {value:.6g} for the best path"
    if ax is None:
        import matplotlib.pyplot as plt

        width = min(16.0, 3.3 + 0.9 * x.max(initial=0))
        ax = plt.subplots(figsize=(width, min(9.0, 1.5 + 0.9 * (np.ptp(y) + 1))), layout="constrained")[1]
    _draw_arcs(ax, found, tail, x, y, on_path)
    ax.scatter(x, y, s=90, color="white", edgecolor="0.25", zorder=3)
    ax.set_title(title)
    # Bends are those of the screen: with one unit for both axes, names stand on their arcs.
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.06, 0.15)
    ax.axis("off")
    return ax


def _places(found: Diagram, tail: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """The layer of each node (arcs on its longest path from the root) and its height among the nodes of that layer."""
    x = np.zeros(found.n_nodes)
    for t, h in zip(tail, found.head, strict=True):  # arcs come by tail, and tails before heads
        x[h] = max(x[h], x[t] + 1)
    y = np.zeros(found.n_nodes)
    for layer in np.unique(x):
        nodes = np.flatnonzero(x == layer)
        y[nodes] = (len(nodes) - 1) / 2 - np.arange(len(nodes))
    return x, y


def _best_path(found: Diagram, c: FloatArray) -> tuple[list[int], float]:
    """Arcs of the longest path, and the value of its label."""
    weight = arc_weights(found.arrays, c)
    best = completions(found.arrays, weight)
    path, node = [], 0
    while node < found.n_nodes - 1:
        arcs = np.arange(found.ptr[node], found.ptr[node + 1])
        arc = int(arcs[np.argmax(weight[found.label[arcs]] + best[found.head[arcs]])])
        path.append(arc)
        node = int(found.head[arc])
    return path, float(best[0] + c @ found.const)


def _draw_arcs(
    ax: Any, found: Diagram, tail: npt.NDArray[np.intp], x: FloatArray, y: FloatArray, on_path: npt.NDArray[np.bool_]
) -> None:
    """Curves that keep parallel arcs apart; dashed where an arc sets no variable."""
    number: dict[tuple[int, int], int] = {}
    known = found.space
    variables = ArrayNames("z", found.const.shape) if known is None else known.variable_names
    for e, (t, h) in enumerate(zip(tail.tolist(), found.head.tolist(), strict=True)):
        k = number[t, h] = number.get((t, h), -1) + 1
        # The first arc is straight unless it would run through the nodes between, the others bend by turns.
        bend = (0.18 if x[h] - x[t] > 1.5 * _STRETCH else 0.0) + 0.22 * ((k + 1) // 2) * (-1) ** k
        first, last = found.label_ptr[found.label[e]], found.label_ptr[found.label[e] + 1]
        colour = "tab:orange" if on_path[e] else "0.55"
        ax.annotate(
            "",
            (x[h], y[h]),
            (x[t], y[t]),
            arrowprops={
                "arrowstyle": "-|>",
                "connectionstyle": f"arc3,rad={bend}",
                "color": colour,
                "linewidth": 2.2 if on_path[e] else 1.0,
                "linestyle": "-" if last > first else "--",
                "shrinkA": 5,
                "shrinkB": 5,
            },
            zorder=2 if on_path[e] else 1,
        )
        if found.n_arcs > _MOST_NAMES or last == first:
            continue
        pairs = zip(found.label_variable[first:last].tolist(), found.label_value[first:last].tolist(), strict=True)
        names = [variables[j] + ("" if v == 1.0 else f"={v:g}") for j, v in pairs]
        text = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        # A curve of this style passes at half its bend beside the middle of the chord.
        at = (x[t] + x[h]) / 2 + bend / 2 * (y[h] - y[t]), (y[t] + y[h]) / 2 - bend / 2 * (x[h] - x[t])
        box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        colour = "0.1" if on_path[e] else "0.35"
        ax.text(*at, text, ha="center", va="center", fontsize=7, color=colour, bbox=box, zorder=4)

"""Picture of a hierarchy: the graph with the weight of each node, and the confusions of a trained estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from structopt.checks import checked, having
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.space.compiled import FloatArray
from structopt.structures.node_labels import LabelCodec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["hierarchy"]

_CONFUSION = "#CC3311"
# More names than these cannot be read.
_NAMES = 60


@checked
def hierarchy(
    est: Any, X: Any = None, y: Any = None, *, most: int = 12, names: bool | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the hierarchy of an estimator, its node weights alpha, and its confusions.

    Parameters
    ----------
    est : HierarchicalSVM, SharedSVM or Hierarchy
        Without an estimator all nodes are drawn alike.
    X, y : data set, optional
        Its confusions are drawn as arcs below the leaves, from a true leaf to a leaf predicted instead, the thicker the
        more examples; the node's colour edge shows the share of its examples that the prediction misses.
    most : int
        Draw the largest confusions only, so many.
    names : bool, optional
        Write the names of the nodes; by default if there are at most 60.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import structopt as so
    >>> from structopt.plot.hierarchy import hierarchy
    >>> hierarchy(so.Hierarchy.from_dict({"animal": ["cat", "dog"]})).get_title()
    '<Hierarchy: tree of 3 nodes, 2 leaves, depth 1>'
    """
    import matplotlib.pyplot as plt

    h, alpha = _read(est)
    if ax is None:
        width = float(np.clip(0.55 * h.leaf_index.size, 5.0, 22.0))
        _, ax = plt.subplots(figsize=(width, 1.2 * h.depth + 2.6), layout="constrained")
    having("ax", ax, ("plot", "set_title"), "a matplotlib Axes")
    x, depth = _places(h), -h.level.astype(np.float64)
    for parent, child in zip(h.parent.tolist(), h.child.tolist(), strict=True):
        ax.plot([x[parent], x[child]], [depth[parent], depth[child]], color="0.75", linewidth=0.9, zorder=1)
    missed, pairs = (np.zeros(len(h)), []) if X is None else _confusions(est, h, X, y, most)
    # Edges of the markers, from grey to red with the share of examples missed.
    edges = np.column_stack([0.35 + 0.45 * missed, 0.35 - 0.15 * missed, 0.35 - 0.28 * missed])
    size = 60.0 if len(h) <= _NAMES else 18.0
    drawn = ax.scatter(
        x, depth, s=size * (1 + 2 * alpha / max(alpha.max(), 1e-12)), c=alpha, cmap="viridis_r", vmin=0.0,
        edgecolors=[(r, g, b) for r, g, b in edges.tolist()], linewidths=(1.0 + 1.5 * missed).tolist(), zorder=3,
    )  # fmt: skip
    for true, guess, count in pairs:
        _arc(ax, (x[true], depth[true]), (x[guess], depth[guess]), count / pairs[0][2])
    if names or (names is None and len(h) <= _NAMES):
        _write(ax, h, x, depth, below=not pairs)
    if not isinstance(est, Hierarchy):
        ax.figure.colorbar(drawn, ax=ax, label="α", shrink=0.7, pad=0.01)
    ax.set_axis_off()
    ax.margins(x=0.04, y=0.12)
    if pairs:
        ax.set_ylim(bottom=depth.min() - 0.9)  # room for the arcs
    ax.set_title(_title(h, len(pairs), sum(count for *_, count in pairs)), fontsize=10)
    return ax


def _read(est: Any) -> tuple[Hierarchy, FloatArray]:
    if isinstance(est, Hierarchy):
        return est, np.zeros(len(est))
    if not hasattr(est, "hierarchy_"):
        raise DeclarationError(
            f"plot.hierarchy needs a fitted HierarchicalSVM or SharedSVM, or a Hierarchy; got {type(est).__name__}."
        )
    return est.hierarchy_, np.asarray(est.alpha_)


def _places(h: Hierarchy) -> FloatArray:
    """Leaves side by side in the order of a walk from the roots; each inner node over the middle of its leaves."""
    order: list[int] = []
    seen: set[int] = set()
    stack = h.root_index.tolist()[::-1]
    while stack:
        k = stack.pop()
        if k in seen:
            continue
        seen.add(k)
        if h.is_leaf[k]:
            order.append(k)
        stack.extend(h.below[h.below_ptr[k] : h.below_ptr[k + 1]].tolist()[::-1])
    at = np.zeros(len(h))
    at[order] = np.arange(len(order))
    paths = h.closure
    inner = np.flatnonzero(~h.is_leaf)
    at[inner] = ((paths.T @ at[h.leaf_index]) / np.maximum(paths.sum(axis=0), 1))[inner]
    return at


def _confusions(est: Any, h: Hierarchy, X: Any, y: Any, most: int) -> tuple[FloatArray, list[tuple[int, int, float]]]:
    """The share of each node's examples that miss it, and the largest (true leaf, other leaf, count)."""
    if y is None or isinstance(est, Hierarchy):
        raise DeclarationError("Confusions need a fitted estimator and both X and y.")
    guess = est.predict_nodes(X)
    truth = LabelCodec(h, est.kind, complete=True).encode_many(y, guess.shape[0])
    lost, found = truth - truth.multiply(guess), guess - guess.multiply(truth)
    missed = np.asarray(lost.sum(axis=0)).ravel() / np.maximum(np.asarray(truth.sum(axis=0)).ravel(), 1)
    leaves = h.leaf_index
    counts = (lost[:, leaves].T @ found[:, leaves]).tocoo()
    order = np.argsort(-counts.data, kind="stable")[:most]
    rows, columns = counts.coords
    return missed, [
        (int(leaves[rows[k]]), int(leaves[columns[k]]), float(counts.data[k])) for k in order if counts.data[k] > 0
    ]


def _arc(ax: Axes, start: tuple[float, float], end: tuple[float, float], share: float) -> None:
    from matplotlib.patches import FancyArrowPatch

    # Bent downwards, away from the tree, whichever way it goes; long ones less, so that they stay in the picture.
    far = end[0] - start[0]
    bend = float(np.sign(far)) * 0.45 * min(1.0, 5.0 / abs(far))
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=9,
            color=_CONFUSION,
            alpha=0.35 + 0.5 * share,
            linewidth=0.6 + 2.6 * share,
            shrinkA=6,
            shrinkB=6,
            zorder=2,
        )
    )


def _write(ax: Axes, h: Hierarchy, x: FloatArray, y: FloatArray, below: bool) -> None:
    crowded = h.leaf_index.size > 12
    for k, name in enumerate(h.nodes):
        leaf = bool(h.is_leaf[k])
        text = str(name) if len(str(name)) <= 18 else f"{str(name)[:17]}…"
        ax.annotate(
            text,
            (x[k], y[k]),
            xytext=(0, -9) if leaf and below else (0, 9),
            textcoords="offset points",
            ha="center",
            va="top" if leaf and below else "bottom",
            rotation=90 if leaf and crowded else 0,
            fontsize=7 if crowded else 9,
            zorder=4,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7},
        )


def _title(h: Hierarchy, n_pairs: int, n_examples: float) -> str:
    text = f"\nthe {n_pairs} largest confusions, {n_examples:g} examples" if n_pairs else ""
    return f"{h!r}{text}"

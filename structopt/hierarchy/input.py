"""Validation of a hierarchy given by the user: edges, names, order; errors name the offending node or edge."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from structopt._jit import IntArray
from structopt.checks import converted, walkable
from structopt.errors import DeclarationError
from structopt.hierarchy.sweeps import topological_order

if TYPE_CHECKING:
    from structopt.hierarchy import Hierarchy
    from structopt.space.compiled import FloatArray

__all__ = ["check_arcs", "children_in", "edge_pairs", "in_order", "node_values", "number_names", "parents_first"]

Edge = tuple[Hashable, Hashable]


def edge_pairs(edges: Any) -> Sequence[Edge]:
    """The edges as a list of pairs, checked."""
    if isinstance(edges, np.ndarray):
        edges = edges.tolist()
    if isinstance(edges, Mapping) and not isinstance(edges, Set):  # edge views of networkx are both
        raise DeclarationError("Edges are (parent, child) pairs; for a nested dict use Hierarchy.from_dict.")
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise DeclarationError(f"Edges are (parent, child) pairs, got {type(edges).__name__}.")
    if hasattr(edges, "is_directed"):
        raise DeclarationError("For a networkx graph use Hierarchy.from_networkx.")
    pairs = in_order(edges)
    # One look at all types is much faster than a test of each edge.
    if set(map(type, pairs)) <= {tuple, list} and set(map(len, pairs)) <= {2}:
        return pairs
    for k, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise DeclarationError(f"Edge {k} is {pair!r:.60}; an edge is a pair (parent, child).")
    return [tuple(pair) for pair in pairs]


def in_order(names: Iterable[Any]) -> list[Any]:
    """A list of what is given; a set, whose order changes from run to run, sorted by how its members look."""
    return sorted(names, key=repr) if isinstance(names, set | frozenset) else list(walkable("names", names))


def number_names(names: list[Hashable], pairs: Sequence[Edge]) -> tuple[list[Hashable], IntArray]:
    """The distinct names in order of appearance, and the number of each of `names`."""
    try:
        place = dict.fromkeys(names)
    except TypeError:
        for k, pair in enumerate(pairs):
            for name in pair:
                if not isinstance(name, Hashable):
                    raise DeclarationError(f"Edge {k} has the node {name!r:.60}; names must be hashable.") from None
        raise DeclarationError("The names in nodes= must be hashable.") from None
    code = {name: k for k, name in enumerate(place)}
    return list(code), np.fromiter(map(code.__getitem__, names), np.int64, len(names))


def check_arcs(names: list[Hashable], parent: IntArray, child: IntArray) -> None:
    """Refuse self-loops and duplicate edges, by name and position."""
    loops = np.flatnonzero(parent == child)
    if loops.size:
        k = int(loops[0])
        raise DeclarationError(f"Edge {k} leads from {names[parent[k]]!r} to itself; remove it.")
    key = parent * len(names) + child
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if twice.size:
        first, second = int(order[twice[0]]), int(order[twice[0] + 1])
        raise DeclarationError(
            f"The edge {names[parent[first]]!r} -> {names[child[first]]!r} is given twice "
            f"(edges {first} and {second}); remove one."
        )


def parents_first(names: list[Hashable], parent: IntArray, child: IntArray) -> IntArray:
    """Nodes with parents before children, otherwise in their given order; a cycle is refused node by node."""
    if (parent < child).all():
        return np.arange(len(names))
    order = topological_order(len(names), np.ascontiguousarray(parent), np.ascontiguousarray(child))
    if order.size < len(names):
        raise DeclarationError(
            f"The hierarchy has a cycle: {' -> '.join(_cycle(names, parent, child, order))}; remove one of these edges."
        )
    return order


def _cycle(names: list[Hashable], parent: IntArray, child: IntArray, order: IntArray) -> list[str]:
    """The nodes of one cycle, the first again at the end. Every node left by the sort has a parent left by it."""
    left = np.ones(len(names), np.bool_)
    left[order] = False
    kept = left[parent] & left[child]
    above = dict(zip(child[kept].tolist(), parent[kept].tolist(), strict=True))
    walk: dict[int, None] = {}
    node = min(above)
    while node not in walk:
        walk[node] = None
        node = above[node]
    cycle = list(walk)[list(walk).index(node) :][::-1]
    start = cycle.index(min(cycle))
    cycle = cycle[start:] + cycle[:start]
    shown = [repr(names[k]) for k in (*cycle, cycle[0])]
    return shown if len(shown) <= 24 else [*shown[:20], "...", *shown[-3:]]


def children_in(name: Hashable, below: Any) -> list[tuple[Hashable, Any]]:
    """Return the pairs (child, what the dict has below the child) of a node in a nested dict."""
    if below is None:
        return []
    if isinstance(below, Mapping):
        return list(below.items())
    if isinstance(below, list | tuple | set | frozenset):
        return [(child, None) for child in in_order(below)]
    raise DeclarationError(f"Below {name!r} stands {below!r:.60}; give a dict, a list of names, or None for a leaf.")


def node_values(hierarchy: Hierarchy, values: Any, what: str) -> FloatArray:
    """Return one finite, non-negative number per node, from an array in node order or a mapping by name."""
    if isinstance(values, Mapping):
        missing = [name for name in hierarchy.nodes if name not in values]
        if missing:
            raise DeclarationError(f"{what} has no value for the node {missing[0]!r}.")
        hierarchy.indices(values)
        values = [values[name] for name in hierarchy.nodes]
    found = np.array(converted(what, values)).ravel()
    if found.size != len(hierarchy):
        raise DeclarationError(f"{what} has {found.size} values for {len(hierarchy)} nodes.")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if wrong.size:
        k = int(wrong[0])
        raise DeclarationError(f"{what} of the node {hierarchy.nodes[k]!r} is {found[k]}; it must be finite and >= 0.")
    return found

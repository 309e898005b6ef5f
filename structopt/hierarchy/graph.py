"""`Hierarchy`: the graph of a taxonomy, a tree, a forest or any directed acyclic graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from html import escape
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.checks import checked, walkable
from structopt.errors import DeclarationError
from structopt.hierarchy.input import check_arcs, children_in, edge_pairs, in_order, number_names, parents_first
from structopt.hierarchy.sweeps import ancestor_sets, levels
from structopt.space.views import counted

__all__ = ["Hierarchy"]

Edge = tuple[Hashable, Hashable]


class Hierarchy:
    """The nodes of a directed acyclic graph, from the general to the special.

    Parameters
    ----------
    edges : iterable of (parent, child)
        Arcs between names of any hashable type, each once. A node may have several parents.
    nodes : iterable of names, optional
        Nodes to number before those of `edges`; the only way to have a node without an edge, which is then a root and
        a leaf.
    leaves : iterable of names, optional
        The intended leaves. Leaves are the nodes without children; giving them makes a mistake in the
        edges an error: a node with no path to one of these, or one of these with children, is refused.

    Attributes
    ----------
    nodes : tuple
        All names, parents before children; otherwise in the order in which they first appear.
    parent, child : ndarray of int
        The arcs as positions in `nodes`, sorted by child, then parent. ``parent < child`` everywhere.
    leaf_index, root_index : ndarray of int
        Positions of the leaves and of the roots.

    Notes
    -----
    Two hierarchies are equal if they have the same nodes in the same order and the same edges.

    Examples
    --------
    >>> import structopt as so
    >>> h = so.Hierarchy([("animal", "cat"), ("animal", "dog"), ("thing", "animal"), ("thing", "oak")])
    >>> h
    <Hierarchy: tree of 5 nodes, 3 leaves, depth 2>
    >>> h.nodes
    ('thing', 'animal', 'cat', 'dog', 'oak')
    >>> h.leaves, h.ancestors("cat")
    (('cat', 'dog', 'oak'), ('thing', 'animal'))
    >>> so.Hierarchy([("a", "b"), ("b", "c"), ("c", "a")])
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: The hierarchy has a cycle: 'a' -> 'b' -> 'c' -> 'a'; remove one of these edges.
    """

    nodes: tuple[Hashable, ...]
    parent: IntArray
    child: IntArray

    @checked
    def __init__(
        self,
        edges: Iterable[Edge],
        *,
        nodes: Iterable[Hashable] = (),
        leaves: Iterable[Hashable] | None = None,
    ) -> None:
        pairs = edge_pairs(edges)
        names, codes = number_names([*in_order(nodes), *chain.from_iterable(pairs)], pairs)
        if not names:
            raise DeclarationError("A hierarchy needs at least one node; give edges=[(parent, child), ...] or nodes=.")
        parent, child = codes[codes.size - 2 * len(pairs) :].reshape(-1, 2).T
        check_arcs(names, parent, child)
        order = parents_first(names, parent, child)
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        self._set(tuple(names[v] for v in order.tolist()), place[parent], place[child])
        if leaves is not None:
            self._check_leaves(leaves)

    @classmethod
    def _of_arcs(cls, nodes: Iterable[Hashable], parent: IntArray, child: IntArray) -> Hierarchy:
        """Return the hierarchy of nodes in an order with parents before children."""
        found = cls.__new__(cls)
        found._set(tuple(nodes), parent, child)
        return found

    def _set(self, nodes: tuple[Hashable, ...], parent: IntArray, child: IntArray) -> None:
        self.nodes = nodes
        self._place = {name: k for k, name in enumerate(nodes)}
        # All sweeps rely on this order, even for a hierarchy that was read from a file.
        if parent.shape != child.shape or (parent < 0).any() or (parent >= child).any() or (child >= len(nodes)).any():
            raise DeclarationError(f"The arcs of a hierarchy join nodes 0..{len(nodes) - 1}, parents before children.")
        by_child = np.lexsort((parent, child))
        self.parent, self.child = _frozen(parent[by_child]), _frozen(child[by_child])

    def _check_leaves(self, leaves: Iterable[Hashable]) -> None:
        meant = np.zeros(len(self), np.bool_)
        meant[self.indices(leaves)] = True
        stray = np.flatnonzero(~meant & self.is_leaf)
        if stray.size:
            raise DeclarationError(
                f"Node {self.nodes[stray[0]]!r} has no path to a leaf: it has no children and is not among leaves=. "
                "Add its children, or remove it."
            )
        inner = np.flatnonzero(meant & ~self.is_leaf)
        if inner.size:
            name = self.nodes[inner[0]]
            raise DeclarationError(f"{name!r} is given as a leaf but has the child {self.children(name)[0]!r}.")

    # ---- other constructors ----------------------------------------------------------------------

    @classmethod
    def from_dict(cls, tree: Mapping[Hashable, Any]) -> Hierarchy:
        """A hierarchy from nested mappings; a leaf has an empty mapping or None, or is listed in a sequence.

        The same name in two places is one node with two parents.

        Parameters
        ----------
        tree : mapping
            Children by node, as mappings, lists or None.

        Returns
        -------
        Hierarchy

        Examples
        --------
        >>> import structopt as so
        >>> so.Hierarchy.from_dict({"animal": ["cat", "dog"], "plant": {"tree": {"oak": None}}})
        <Hierarchy: forest of 6 nodes under 2 roots, 3 leaves, depth 2>
        """
        if not isinstance(tree, Mapping):
            raise DeclarationError(f"from_dict takes a nested dict, got {type(tree).__name__}.")
        edges: dict[Edge, None] = {}
        nodes: dict[Hashable, None] = {}
        expanded: set[tuple[Hashable, int]] = set()
        stack = list(tree.items())[::-1]
        while stack:
            name, below = stack.pop()
            nodes[name] = None
            if (name, id(below)) in expanded:
                continue
            expanded.add((name, id(below)))
            children = children_in(name, below)
            edges.update(dict.fromkeys((name, child) for child, _ in children))
            stack.extend(reversed(children))
        return cls(list(edges), nodes=nodes)

    @classmethod
    def from_paths(cls, paths: Iterable[str], sep: str = "/") -> Hierarchy:
        """A forest from label paths; every prefix of a path is a node, named by the whole prefix.

        Parameters
        ----------
        paths : iterable of str
        sep : str
            Separator of the names of a path.

        Returns
        -------
        Hierarchy

        Examples
        --------
        >>> import structopt as so
        >>> so.Hierarchy.from_paths(["a/b/c", "a/d"]).nodes
        ('a', 'a/b', 'a/b/c', 'a/d')
        """
        if isinstance(paths, str) or not sep:
            raise DeclarationError("from_paths takes a list of paths such as ['a/b/c'] and a separator.")
        nodes: dict[Hashable, None] = {}
        edges: dict[Edge, None] = {}
        for k, path in enumerate(paths):
            if path in nodes:
                continue
            if not isinstance(path, str) or not all(path.split(sep)):
                raise DeclarationError(
                    f"Path {k} is {path!r}; a path is one or more names with {sep!r} between them, none empty."
                )
            above: str | None = None
            end = path.find(sep)
            while above != path:
                name = path if end < 0 else path[:end]
                nodes[name] = None
                if above is not None:
                    edges[above, name] = None
                above, end = name, path.find(sep, end + 1) if end >= 0 else -1
        return cls(list(edges), nodes=nodes)

    @classmethod
    def from_networkx(cls, graph: Any) -> Hierarchy:
        """A hierarchy from a networkx ``DiGraph`` whose edges point from parent to child.

        Parameters
        ----------
        graph : networkx.DiGraph
            Edges go from parent to child.

        Returns
        -------
        Hierarchy
        """
        if not (hasattr(graph, "is_directed") and graph.is_directed()):
            raise DeclarationError(
                f"from_networkx needs a directed graph with edges from parent to child, got {type(graph).__name__}."
            )
        return cls(graph.edges(), nodes=graph.nodes)

    def to_networkx(self) -> Any:
        """The hierarchy as a networkx ``DiGraph``.

        Returns
        -------
        networkx.DiGraph
        """
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(self.nodes)
        graph.add_edges_from(self.edges)
        return graph

    # ---- names -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.nodes)

    def __contains__(self, name: object) -> bool:
        try:
            return name in self._place
        except (TypeError, ValueError):  # not hashable; a memoryview that can be written to says ValueError
            return False

    def index(self, name: Hashable) -> int:
        """Position of a node in `nodes`.

        Parameters
        ----------
        name : hashable
            A node.

        Returns
        -------
        int
            Its place in `nodes`.
        """
        try:
            return self._place[name]
        except (KeyError, TypeError):
            raise DeclarationError(self._unknown(name)) from None

    def indices(self, names: Iterable[Hashable]) -> IntArray:
        """Positions of many nodes.

        Parameters
        ----------
        names : iterable of hashable
            Nodes.

        Returns
        -------
        ndarray of int
            Their places in `nodes`.
        """
        listed = names if isinstance(names, list) else list(walkable("names", names))
        try:
            return np.fromiter(map(self._place.__getitem__, listed), np.int64, len(listed))
        except (KeyError, TypeError):
            return np.array([self.index(name) for name in listed], np.int64)

    def _unknown(self, name: Any) -> str:
        near: list[str] = []
        if isinstance(name, str):
            near = get_close_matches(name, [node for node in self.nodes[:10_000] if isinstance(node, str)], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return f"{name!r:.60} is not a node of {self!r}{hint}"

    def _names(self, places: npt.NDArray[np.integer[Any]]) -> tuple[Hashable, ...]:
        return tuple(self.nodes[k] for k in places.tolist())

    @cached_property
    def leaves(self) -> tuple[Hashable, ...]:
        """Nodes without children, in the order of `nodes`."""
        return self._names(self.leaf_index)

    @cached_property
    def roots(self) -> tuple[Hashable, ...]:
        """Nodes without parents, in the order of `nodes`."""
        return self._names(self.root_index)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All (parent, child) pairs, by child and then by parent."""
        return tuple(zip(self._names(self.parent), self._names(self.child), strict=True))

    def parents(self, name: Hashable) -> tuple[Hashable, ...]:
        """The parents of a node.

        Parameters
        ----------
        name : hashable
            A node.

        Returns
        -------
        tuple
        """
        k = self.index(name)
        return self._names(self.parent[self.parent_ptr[k] : self.parent_ptr[k + 1]])

    def children(self, name: Hashable) -> tuple[Hashable, ...]:
        """The children of a node.

        Parameters
        ----------
        name : hashable
            A node.

        Returns
        -------
        tuple
        """
        k = self.index(name)
        return self._names(self.below[self.below_ptr[k] : self.below_ptr[k + 1]])

    def ancestors(self, name: Hashable, itself: bool = False) -> tuple[Hashable, ...]:
        """All nodes above a node, in the order of `nodes`; with `itself`, the papers' set A-bar.

        Parameters
        ----------
        name : hashable
            A node.
        itself : bool
            Whether the node is among them.

        Returns
        -------
        tuple
        """
        return self._above(self.index(name), self.parent_ptr, self.parent, itself)

    def descendants(self, name: Hashable, itself: bool = False) -> tuple[Hashable, ...]:
        """All nodes below a node, in the order of `nodes`.

        Parameters
        ----------
        name : hashable
            A node.
        itself : bool
            Whether the node is among them.

        Returns
        -------
        tuple
        """
        return self._above(self.index(name), self.below_ptr, self.below, itself)

    def _above(self, k: int, ptr: IntArray, arcs: IntArray, itself: bool) -> tuple[Hashable, ...]:
        found = ancestor_sets([0, 1], [k], ptr, arcs)[1]
        return self._names(found if itself else found[found != k])

    # ---- shape -----------------------------------------------------------------------------------

    @property
    def is_tree(self) -> bool:
        """Whether every node has at most one parent.

        A forest counts: with several `roots` it is several trees, and all tree algorithms hold (they put a virtual root
        of score 0 above the roots). One tree is ``h.is_tree and len(h.roots) == 1``.
        """
        return self.child.size == len(self) - self.root_index.size

    @property
    def depth(self) -> int:
        """Number of edges on the longest path; 0 if there are no edges."""
        return int(self.level.max())

    @cached_property
    def level(self) -> IntArray:
        """Number of edges on the longest path from a root to each node."""
        return _frozen(levels(self.parent_ptr, self.parent))

    @cached_property
    def is_leaf(self) -> npt.NDArray[np.bool_]:
        """0/1 row of the leaves."""
        mask = np.ones(len(self), np.bool_)
        mask[self.parent] = False
        return _frozen(mask)

    @cached_property
    def leaf_index(self) -> IntArray:
        """Positions of the leaves."""
        return _frozen(np.flatnonzero(self.is_leaf))

    @cached_property
    def root_index(self) -> IntArray:
        """Positions of the roots."""
        return _frozen(np.flatnonzero(np.diff(self.parent_ptr) == 0))

    @cached_property
    def parent_ptr(self) -> IntArray:
        """Parents of node k are ``parent[parent_ptr[k]:parent_ptr[k + 1]]``."""
        return _frozen(np.searchsorted(self.child, np.arange(len(self) + 1)))

    @cached_property
    def below_ptr(self) -> IntArray:
        """Children of node k are ``below[below_ptr[k]:below_ptr[k + 1]]``."""
        return _frozen(np.concatenate([[0], np.cumsum(np.bincount(self.parent, minlength=len(self)))]))

    @cached_property
    def below(self) -> IntArray:
        """Children of all nodes, by parent and then by child."""
        return _frozen(self.child[np.argsort(self.parent, kind="stable")])

    @cached_property
    def parent_of(self) -> IntArray:
        """Position of each node's parent; -1 for roots."""
        if not self.is_tree:
            many = int(np.argmax(np.diff(self.parent_ptr)))
            raise DeclarationError(
                f"parent_of needs a tree; {self.nodes[many]!r} has the parents "
                f"{', '.join(map(repr, self.parents(self.nodes[many])))}."
            )
        up = np.full(len(self), -1, np.int64)
        up[self.child] = self.parent
        return _frozen(up)

    @cached_property
    def closure(self) -> sp.csr_array:
        """0/1 matrix (leaves, nodes): row l holds leaf l and all its ancestors, the papers' A-bar(l)."""
        n_leaves = self.leaf_index.size
        return self.ancestor_rows(np.arange(n_leaves + 1), self.leaf_index)

    def ancestor_rows(self, ptr: npt.ArrayLike, member: npt.ArrayLike) -> sp.csr_array:
        """Sets of nodes with all their ancestors, as the rows of a 0/1 matrix (sets, nodes).

        Parameters
        ----------
        ptr, member : array_like of int
            Set i is the positions ``member[ptr[i]:ptr[i + 1]]``.

        Returns
        -------
        csr_array
        """
        indptr, indices = ancestor_sets(ptr, member, self.parent_ptr, self.parent)
        kind = np.int32 if indices.size < 2**31 and len(self) < 2**31 else np.int64
        shape = (indptr.size - 1, len(self))
        return sp.csr_array((np.ones(indices.size), indices.astype(kind), indptr.astype(kind)), shape=shape)

    def restrict(self, seen: Iterable[Hashable]) -> Hierarchy:
        """The sub-hierarchy of some nodes and all their ancestors, for example of the labels seen in training.

        A node with no seen node below it is a leaf there.

        Parameters
        ----------
        seen : iterable of hashable
            Nodes to keep.

        Returns
        -------
        Hierarchy

        Examples
        --------
        >>> import structopt as so
        >>> h = so.Hierarchy.from_dict({"animal": ["cat", "dog"], "plant": ["oak"]})
        >>> h.restrict(["dog"]).nodes
        ('animal', 'dog')
        """
        given = self.indices(seen)
        if not given.size:
            raise DeclarationError("restrict() needs at least one node.")
        kept = self.ancestor_rows([0, given.size], given).indices
        place = np.full(len(self), -1, np.int64)
        place[kept] = np.arange(kept.size)
        # All parents of a kept node are kept.
        inside = place[self.child] >= 0
        return Hierarchy._of_arcs(self._names(kept), place[self.parent[inside]], place[self.child[inside]])

    # ---- equality, pickling, representation ------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hierarchy):
            return NotImplemented
        return (
            self.nodes == other.nodes
            and np.array_equal(self.parent, other.parent)
            and np.array_equal(self.child, other.child)
        )

    def __hash__(self) -> int:
        return hash((self.nodes, self.parent.tobytes()))

    def __getstate__(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "parent": self.parent, "child": self.child}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(state["nodes"], state["parent"], state["child"])

    def __repr__(self) -> str:
        size = counted(len(self), "node")
        if not self.is_tree:
            shape = f"DAG of {size} and {counted(self.child.size, 'edge')}"
        else:
            shape = f"{'tree' if self.root_index.size == 1 else 'forest'} of {size}"
        if self.root_index.size > 1:
            shape += f" under {self.root_index.size} roots"
        leaves = "1 leaf" if self.leaf_index.size == 1 else f"{self.leaf_index.size} leaves"
        return f"<Hierarchy: {shape}, {leaves}, depth {self.depth}>"

    def _repr_html_(self) -> str:
        facts = escape(repr(self).strip("<>"))
        return f"<div><strong>{facts}</strong><pre>{escape(_listed(self))}</pre></div>"


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


# ---- representations ---------------------------------------------------------------------------

#: Lines of the list in a notebook.
_MOST_LINES = 40


def _listed(hierarchy: Hierarchy) -> str:
    """Return a text with one line per node, below its first parent; the line names its other parents."""
    lines: list[str] = []
    stack: list[tuple[Hashable, int]] = [(root, 0) for root in reversed(hierarchy.roots)]
    while stack and len(lines) < _MOST_LINES:
        node, depth = stack.pop()
        parents = hierarchy.parents(node)
        others = f" (also under {', '.join(map(str, parents[1:]))})" if len(parents) > 1 else ""
        lines.append(f"{'  ' * depth}{node}{others}")
        own = [child for child in hierarchy.children(node) if hierarchy.parents(child)[0] == node]
        stack.extend((child, depth + 1) for child in reversed(own))
    if stack:
        lines.append(f"... and {len(hierarchy) - _MOST_LINES} more")
    return "\n".join(lines)

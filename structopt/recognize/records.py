"""Records: the index arrays of every kind of structure that an algorithm solves.

`structopt.recognize.recognize` finds the record of a declared space in its matrix. The models in `structopt.structures`
state their records. `structopt.algorithms.registry` maps each type of record to the one algorithm that solves it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from structopt.recognize.grouping import BoolArray, IntArray
from structopt.space.compiled import FloatArray

__all__ = [
    "Assignment",
    "Box",
    "Cardinality",
    "Closure",
    "Flow",
    "GroupForest",
    "Pairwise",
    "Path",
    "Record",
    "Simplices",
    "Tree",
]


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """Index arrays of one kind of label space: what its algorithm needs to know.

    Columns are numbered as the variables of the space, or as `Structure.columns` in a recognised space.
    """

    @property
    def products(self) -> IntArray:
        """Columns (p, y, y') with ``p = y y'`` in every label, of shape (3, n_products); y and y' are 0/1."""
        return np.empty((3, 0), dtype=np.int64)

    def __repr__(self) -> str:
        shown = (f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self))
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class Box(Record):
    """No rows: column j is at `upper` where its coefficient is positive, else at `lower`; all bounds are finite."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Simplices(Record):
    """Disjoint groups of 0/1 columns, exactly one (`required`) or at most one of each is 1.

    ``order[ptr[i]:ptr[i + 1]]`` are the columns of group i, ascending; `group` is -1 for a column in no group.
    """

    group: IntArray
    ptr: IntArray
    order: IntArray
    required: BoolArray


@dataclass(frozen=True, eq=False, repr=False)
class Cardinality(Record):
    """Disjoint groups of 0/1 columns; between `lower` and `upper` of group i are 1 (docs/mathematics/oracles#groups).

    ``0 <= lower <= upper <= size``. `group`, `ptr`, `order` as in `Simplices`.
    """

    group: IntArray
    ptr: IntArray
    order: IntArray
    lower: IntArray
    upper: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class Closure(Record):
    """``y[child] <= y[parent]`` for every arc (docs/mathematics/oracles#closures); cycles and repeated arcs may occur.

    If every node has at most one parent and there is no cycle, `forest_order` lists the nodes parents first
    and ``forest_parent[i]`` is the position in that list of the parent of node ``forest_order[i]`` (-1 at
    roots); otherwise both are None.
    """

    child: IntArray
    parent: IntArray
    forest_order: IntArray | None
    forest_parent: IntArray | None


@dataclass(frozen=True, eq=False, repr=False)
class Pairwise(Record):
    """Local polytope of a binary pairwise model (docs/mathematics/oracles#roof-duality).

    Label i is column ``label[i]``; pair e is column ``pair[e]`` and joins labels ``first[e] < second[e]``
    (positions in `label`), each pair of labels at most once. `integer`: labels must be 0/1, not halves.
    `forest`: the pairs form a forest, so that the relaxation is integral for all objectives.
    """

    label: IntArray
    pair: IntArray
    first: IntArray
    second: IntArray
    integer: bool
    forest: bool

    @property
    def products(self) -> IntArray:
        return np.stack([self.pair, self.label[self.first], self.label[self.second]])


@dataclass(frozen=True, eq=False, repr=False)
class Assignment(Record):
    """Bipartite matching: column j joins ``left[j]`` with ``right[j]``; absent pairs are forbidden.

    A node is used at most once, exactly once where `left_required` or `right_required` is set. Nodes are
    numbered block by block: block b owns left nodes ``left_ptr[b]:left_ptr[b + 1]`` and right nodes
    ``right_ptr[b]:right_ptr[b + 1]``; left is the side with fewer nodes. A pair occurs at most once.
    """

    left: IntArray
    right: IntArray
    left_required: BoolArray
    right_required: BoolArray
    left_ptr: IntArray
    right_ptr: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class Path(Record):
    """One unit from ``sources[b]`` to ``sinks[b]`` in an acyclic graph, for every block b (docs/mathematics/oracles).

    Column j is the arc ``tail[j] -> head[j]``; ``arc[ptr[v]:ptr[v + 1]]`` are the arcs that leave v, ascending;
    `order` lists the nodes tails first. Every sink can be reached from its source. `integer` says whether all arcs
    are integer variables: a label is then a path, and otherwise any mixture of paths.
    """

    tail: IntArray
    head: IntArray
    order: IntArray
    ptr: IntArray
    arc: IntArray
    sources: IntArray
    sinks: IntArray
    integer: bool


@dataclass(frozen=True, eq=False, repr=False)
class Flow(Record):
    """Flow on arcs ``tail -> head`` with ``lower <= flow <= upper`` and bounds on the net outflow of every node.

    The last `n_roots` nodes stand for the ends that a column with one entry lacks; their outflow is free. A column
    in no row is a loop there.
    """

    tail: IntArray
    head: IntArray
    supply_lower: FloatArray
    supply_upper: FloatArray
    lower: FloatArray
    upper: FloatArray
    n_roots: int


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Record):
    """A chosen node has its parent chosen and, if internal, at least one chosen child.

    Node i is column ``column[i]``; -1 is a virtual root with gain 0, which is always chosen (it stands for the
    fixed root, or for "at least one of the tops"). Parents come before children; ``parent[i]`` is -1 at a root.
    """

    column: IntArray
    parent: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class GroupForest(Record):
    """One state of every group, and pairs of states that may meet; the groups form a forest.

    Groups are numbered with parents before children; ``parent[g]`` is -1 at a root. Group g has the states
    ``column[state_ptr[g]:state_ptr[g + 1]]``. The states of g and of its parent that may meet are the pairs
    ``pair_ptr[g]:pair_ptr[g + 1]``: state `above` of the parent and state `below` of g, each counted within its group,
    with the pair variable ``pair`` (-1 where there is none). `hull` says whether the rows describe the convex hull of
    the labels, `integer` whether all states are integer variables, by which labels are distinguished.
    """

    state_ptr: IntArray
    column: IntArray
    parent: IntArray
    pair_ptr: IntArray
    above: IntArray
    below: IntArray
    pair: IntArray
    hull: bool
    integer: bool

    @property
    def products(self) -> IntArray:
        group = np.repeat(np.arange(len(self.parent)), np.diff(self.pair_ptr))
        above = self.column[self.state_ptr[self.parent[group]] + self.above]
        below = self.column[self.state_ptr[group] + self.below]
        return np.stack([self.pair, above, below])[:, self.pair >= 0]


def _short(value: object) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"<{value.size} {value.dtype}>"
    return repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)

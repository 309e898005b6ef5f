"""Records: the index arrays of every kind of structure that an algorithm solves.

`structopt.recognize.recognize` finds the record of a declared space in its matrix. ``Model(..., record=)`` and
``Oracle(..., record=)`` take a record that recognition cannot prove. `structopt.algorithms.registry` maps each type of
record to the one algorithm that solves it.

Examples
--------
The second row follows from the first one, but recognition does not see that:

>>> import numpy as np
>>> import structopt as so
>>> space = so.LabelSpace("one of five")
>>> y = space.binary("y", 5)
>>> space.subject_to(y.sum() == 1, np.arange(5) @ y <= 4)
>>> space.structure.kind
'general'
>>> record = so.records.Cardinality(group=[0] * 5, ptr=[0, 5], order=range(5), lower=[1], upper=[1])
>>> model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming(), record=record)
>>> model.oracle()
<Oracle by argmax on <CompiledSpace 'one of five': 5 variables (5 integer), 2 rows, 9 non-zeros>>
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from structopt.errors import removed_name
from structopt.recognize.grouping import BoolArray, IntArray
from structopt.space.compiled import FloatArray

__all__ = [
    "Assignment",
    "Box",
    "Cardinality",
    "Closure",
    "GroupForest",
    "LeafSets",
    "Leaves",
    "Pairwise",
    "Path",
    "Record",
    "Tree",
]


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """Index arrays of one kind of label space, which its algorithm reads.

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
    """Variables with finite bounds and no rows.

    Attributes
    ----------
    lower, upper : ndarray, shape (n_variables,)
        Finite bounds.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.integer("y", 3, 0, 2)
    >>> space.structure.record
    Box(lower=[0.0, 0.0, 0.0], upper=[2.0, 2.0, 2.0])
    """

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Cardinality(Record):
    """Disjoint groups of 0/1 columns with limits on the number of ones (docs/mathematics/oracles#groups).

    Attributes
    ----------
    group : ndarray of int, shape (n_variables,)
        Group of each column; -1 for a column in no group.
    ptr, order : ndarray of int
        ``order[ptr[i]:ptr[i + 1]]`` are the columns of group i, ascending.
    lower, upper : ndarray of int, shape (n_groups,)
        Limits on the number of ones of each group, ``0 <= lower <= upper <= size``.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 3)
    >>> space.subject_to(y.sum() <= 2)
    >>> space.structure.record
    Cardinality(group=[0, 0, 0], ptr=[0, 3], order=[0, 1, 2], lower=[0], upper=[2])
    """

    group: IntArray
    ptr: IntArray
    order: IntArray
    lower: IntArray
    upper: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class Closure(Record):
    """``y[child] <= y[parent]`` for every arc (docs/mathematics/oracles#closures); cycles and repeated arcs may occur.

    Attributes
    ----------
    child, parent : ndarray of int, shape (n_arcs,)
        Columns that each arc joins.
    integer : bool
        Whether all columns are integer variables. Labels of other columns may be fractional.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 3)
    >>> space.subject_to(y[1:] <= y[0])
    >>> space.structure.record
    Closure(child=[1, 2], parent=[0, 0], integer=True)
    """

    child: IntArray
    parent: IntArray
    integer: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Pairwise(Record):
    """Local polytope of a binary pairwise model (docs/mathematics/oracles#roof-duality).

    Attributes
    ----------
    label, pair : ndarray of int
        Columns of the labels and of the pairs.
    first, second : ndarray of int, shape (n_pairs,)
        Labels that each pair joins, as positions in `label`; ``first < second``, and no two labels are joined twice.
    integer : bool
        Whether labels must be 0/1, and not halves.
    forest : bool
        Whether the pairs form a forest. The relaxation is then integral.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y, p = space.binary("y", 2), space.continuous("p", 1, 0, 1)
    >>> space.subject_to(p <= y[0], p <= y[1], p >= y[0] + y[1] - 1)
    >>> space.structure.record
    Pairwise(label=[0, 1], pair=[2], first=[0], second=[1], integer=True, forest=True)
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
    """Bipartite matching: every node is used at most once; absent pairs are forbidden.

    Attributes
    ----------
    left, right : ndarray of int, shape (n_variables,)
        Nodes that each column joins. A pair occurs at most once. Left is the side with fewer nodes.
    left_required, right_required : ndarray of bool
        Whether each node must be used.
    left_ptr, right_ptr : ndarray of int, shape (n_blocks + 1,)
        Nodes are numbered block by block. Block b has the left nodes ``left_ptr[b]:left_ptr[b + 1]`` and the right
        nodes ``right_ptr[b]:right_ptr[b + 1]``.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", (1, 2))
    >>> space.subject_to(y.sum(axis=0) <= 1, y.sum(axis=1) == 1)
    >>> so.records.Assignment(
    ...     left=[0, 0], right=[0, 1], left_required=[True], right_required=[False, False],
    ...     left_ptr=[0, 1], right_ptr=[0, 2],
    ... )
    Assignment(left=[0, 0], right=[0, 1], ..., left_ptr=[0, 1], right_ptr=[0, 2])
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

    Attributes
    ----------
    tail, head : ndarray of int, shape (n_variables,)
        Nodes that each column, which is an arc, joins.
    order : ndarray of int, shape (n_nodes,)
        The nodes; the tail of each arc comes before its head.
    ptr, arc : ndarray of int
        ``arc[ptr[v]:ptr[v + 1]]`` are the arcs that leave node v, ascending.
    sources, sinks : ndarray of int, shape (n_blocks,)
        Every sink can be reached from its source.
    integer : bool
        Whether every label is a path: all arcs are integer variables, or the integer arcs determine the others.
        Otherwise a label is any mixture of paths.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> arc = space.binary("arc", 3)                                        # 0 -> 1, 1 -> 2, 0 -> 2
    >>> space.subject_to(arc[0] + arc[2] == 1, arc[0] == arc[1])
    >>> record = so.records.Path(
    ...     tail=[0, 1, 0], head=[1, 2, 2], order=[0, 1, 2], ptr=[0, 2, 3, 3], arc=[0, 2, 1],
    ...     sources=[0], sinks=[2], integer=True,
    ... )
    >>> so.Oracle(space, record=record).maximize([1.0, 2.0, 2.5]).z
    array([1., 1., 0.])
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
class Tree(Record):
    """A chosen node has its parent chosen and, if internal, at least one chosen child.

    Attributes
    ----------
    column : ndarray of int, shape (n_nodes,)
        Column of each node. -1 is a virtual root with gain 0, which stands for the fixed root, or for "at least one of
        the tops".
    parent : ndarray of int, shape (n_nodes,)
        Parent of each node, which comes before the node; -1 at a root, which is always chosen.
    integer : bool
        Whether all columns are integer variables. Labels of other columns may be fractional.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 3)
    >>> space.subject_to(y[1:] <= y[0], y[0] <= y[1:].sum(), y.sum() >= 1)
    >>> oracle = so.Oracle(space, record=so.records.Tree(column=[-1, 0, 1, 2], parent=[-1, 0, 1, 1]))
    >>> oracle.maximize([-1.0, -2.0, -3.0]).z
    array([1., 1., 0.])
    """

    column: IntArray
    parent: IntArray
    integer: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Leaves(Record):
    """One leaf of a hierarchy with all its ancestors; a node may have several parents.

    Attributes
    ----------
    ptr, column : ndarray of int
        Leaf i and its ancestors are the columns ``column[ptr[i]:ptr[i + 1]]``. The leaf comes last and is in no other
        list.
    integer : bool
        Whether all columns are integer variables. A label is then a leaf, and otherwise any mixture of leaves.

    Examples
    --------
    Columns 0 and 1 stand above the leaves 2 and 3, and only 1 above the leaf 4:

    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 5)
    >>> space.subject_to(y[0] == y[2] + y[3], y[1] == y[2] + y[3] + y[4], y[2:].sum() == 1)
    >>> record = so.records.Leaves(ptr=[0, 3, 6, 8], column=[0, 1, 2, 0, 1, 3, 1, 4])
    >>> so.Oracle(space, record=record).maximize([1.0, 0.0, 2.0, 2.5, 3.0]).z
    array([1., 1., 0., 1., 0.])
    """

    ptr: IntArray
    column: IntArray
    integer: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class LeafSets(Record):
    """One or more leaves of a hierarchy with all their ancestors; a node may have several parents.

    A chosen node has all its parents chosen and, if internal, a chosen child. Some node without parents is chosen.
    Recognition finds such sets in trees only, as `Tree`. Other hierarchies are recognised by no rows.

    Attributes
    ----------
    child, parent : ndarray of int, shape (n_arcs,)
        Columns that each arc joins. There is no cycle, and every variable is a node.
    integer : bool
        Whether all columns are integer variables. The linear program may otherwise have fractional optima.

    Examples
    --------
    Nodes 0 and 1 stand above node 3, and each above another leaf:

    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 5)
    >>> child, parent = [2, 3, 3, 4], [0, 0, 1, 1]
    >>> space.subject_to(y[child] <= y[parent], y[0] <= y[2] + y[3], y[1] <= y[3] + y[4], y[0] + y[1] >= 1)
    >>> oracle = so.Oracle(space, record=so.records.LeafSets(child=child, parent=parent))
    >>> oracle.maximize([-1.0, -2.0, -1.0, 2.5, -1.0]).z
    array([1., 1., 0., 1., 0.])
    """

    child: IntArray
    parent: IntArray
    integer: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class GroupForest(Record):
    """One state of every group, and pairs of states that may meet; the groups form a forest.

    Attributes
    ----------
    state_ptr, column : ndarray of int
        Group g has the states ``column[state_ptr[g]:state_ptr[g + 1]]``.
    parent : ndarray of int, shape (n_groups,)
        Parent of each group, which comes before the group; -1 at a root.
    pair_ptr : ndarray of int, shape (n_groups + 1,)
        The states of g and of its parent that may meet are the pairs ``pair_ptr[g]:pair_ptr[g + 1]``.
    above, below : ndarray of int, shape (n_pairs,)
        State of the parent and state of the group of each pair, counted within their groups.
    pair : ndarray of int, shape (n_pairs,)
        Column of the pair variable; -1 if there is none.
    hull : bool
        Whether the rows describe the convex hull of the labels.
    integer : bool
        Whether all states are integer variables, by which labels are distinguished.

    Examples
    --------
    Two positions with two states each; state 1 must not follow state 0:

    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", (2, 2))
    >>> space.subject_to(y.sum(axis=1) == 1, y[0, 0] <= y[1, 0])
    >>> record = so.records.GroupForest(
    ...     state_ptr=[0, 2, 4], column=[0, 1, 2, 3], parent=[-1, 0], pair_ptr=[0, 0, 3],
    ...     above=[0, 1, 1], below=[0, 0, 1], pair=[-1, -1, -1], hull=True, integer=True,
    ... )
    >>> so.Oracle(space, record=record).maximize([2.0, 0.0, 0.0, 1.0]).z
    array([1., 0., 1., 0.])
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


def __getattr__(name: str) -> object:
    if name == "Simplices":
        raise removed_name("structopt.records.Simplices", "use Cardinality with upper=1, and lower=1 where required")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

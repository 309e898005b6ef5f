"""The result of recognition: the kind of a space, its proof, and the index arrays that its algorithm needs."""

from __future__ import annotations

import html
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from structopt.recognize.grouping import BoolArray, IntArray
from structopt.recognize.normalize import NormalForm
from structopt.recognize.unimodular import prove_totally_unimodular
from structopt.space.compiled import FloatArray

__all__ = [
    "Arrays",
    "Assignment",
    "Box",
    "Cardinality",
    "Closure",
    "Flow",
    "GroupForest",
    "Pairwise",
    "Path",
    "Simplices",
    "Structure",
    "Tree",
]


@dataclass(frozen=True, eq=False, repr=False)
class Arrays:
    """Index arrays of one kind. Columns are numbered as in `Structure.columns`."""

    def __repr__(self) -> str:
        shown = (f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self))
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class Box(Arrays):
    """No rows: column j is at `upper` where its coefficient is positive, else at `lower`; all bounds are finite."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Simplices(Arrays):
    """Disjoint groups of 0/1 columns, exactly one (`required`) or at most one of each is 1.

    ``order[ptr[i]:ptr[i + 1]]`` are the columns of group i, ascending; `group` is -1 for a column in no group.
    """

    group: IntArray
    ptr: IntArray
    order: IntArray
    required: BoolArray


@dataclass(frozen=True, eq=False, repr=False)
class Cardinality(Arrays):
    """Disjoint groups of 0/1 columns; between `lower` and `upper` of group i are 1 (docs/mathematics/oracles#groups).

    ``0 <= lower <= upper <= size``. `group`, `ptr`, `order` as in `Simplices`.
    """

    group: IntArray
    ptr: IntArray
    order: IntArray
    lower: IntArray
    upper: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class Closure(Arrays):
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
class Pairwise(Arrays):
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


@dataclass(frozen=True, eq=False, repr=False)
class Assignment(Arrays):
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
class Path(Arrays):
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
class Flow(Arrays):
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
class Tree(Arrays):
    """A chosen node has its parent chosen and, if internal, at least one chosen child.

    Node i is column ``column[i]``; -1 is a virtual root with gain 0, which is always chosen (it stands for the
    fixed root, or for "at least one of the tops"). Parents come before children; ``parent[i]`` is -1 at a root.
    """

    column: IntArray
    parent: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class GroupForest(Arrays):
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


_ORACLES = {
    "box": "signs",
    "simplices": "argmax",
    "cardinality": "top-k",
    "assignment": "linear assignment",
    "tree": "tree dynamic program",
    "path": "DAG path",
    "group forest": "max-sum on a forest",
    "product": "product",
}


@dataclass(frozen=True, eq=False, repr=False)
class Structure:
    """What `recognize` found and proved.

    Attributes
    ----------
    kind : str
        "box", "simplices", "cardinality", "closure", "pairwise", "assignment", "tree", "group forest" (one-of-many
        groups joined to chains or trees), "path", "product" (every block has one of these), "flow" (network matrix,
        solved as an LP), or "general".
    reason : str
        What was found and why it is exact, or what stood in the way.
    arrays : Arrays or None
        The index arrays of this kind; None for "product" and "general".
    columns : ndarray of int
        The free columns, in the numbering that `arrays` uses: solve with ``c[columns]``, write ``z[columns]``.
    fixed_columns, fixed_values : ndarray
        The columns that can take only one value.
    parts : tuple of Structure
        For a "product": one part for each kind (a part gathers all blocks of its kind).
    diagram : str
        The size of its decision diagram, if a "general" space was compiled into one.
    tightened : bool
        Whether fractional bounds of integer rows or columns had to be rounded inwards: the labels are the same,
        but the LP as declared is larger, so nothing is claimed about it.
    """

    kind: str
    reason: str
    columns: IntArray
    fixed_columns: IntArray
    fixed_values: FloatArray
    arrays: Arrays | None = None
    parts: tuple[Structure, ...] = ()
    tightened: bool = False
    has_integers: bool = False
    _declared: sp.csr_array | None = field(default=None, repr=False)
    _unproved: NormalForm | None = field(default=None, repr=False)
    diagram: str = ""

    @cached_property
    def unimodular_proof(self) -> str | None:
        """The proof of total unimodularity in one sentence, or None; computed on demand.

        It concerns the declared rows, each divided by the magnitude of its entries where they share one
        (dividing a row and its bounds changes no label).
        """
        return None if self._declared is None else prove_totally_unimodular(self._declared)

    @property
    def totally_unimodular(self) -> bool | None:
        """True if proved, None if unknown."""
        return True if self.unimodular_proof is not None else None

    @cached_property
    def integral(self) -> bool:
        """Whether every vertex of the LP is proved integral in all columns, so that MIP is never needed."""
        if self.tightened:
            return False
        if self.kind in ("general", "flow", "product"):
            return all(part.integral for part in self.parts) and self._rest_is_integral()
        if isinstance(self.arrays, GroupForest) and not self.arrays.hull:
            return False
        return self._fixed_are_whole() and (not isinstance(self.arrays, Pairwise) or self.arrays.forest)

    @property
    def half_integral(self) -> bool:
        """Whether every vertex of the LP is proved to have values in {0, 1/2, 1} (or integers)."""
        if self.kind not in ("pairwise", "product"):
            return self.integral
        parts = all(part.half_integral for part in self.parts)
        return parts and not self.tightened and self._fixed_are_whole()

    @property
    def oracle(self) -> str:
        """The fastest exact oracle that is known: a combinatorial one by name, else "lp" or "mip" (a solver)."""
        if isinstance(self.arrays, Closure):
            return "min cut" if self.arrays.forest_order is None else "forest dynamic program"
        if isinstance(self.arrays, Pairwise):
            exact = self.arrays.integer and not self.arrays.forest
            return "persistency" if exact else "roof duality"
        if self.kind in _ORACLES:
            return _ORACLES[self.kind]
        if self.diagram:
            return "decision diagram"
        return "lp" if not self.has_integers or self.integral else "mip"

    def _fixed_are_whole(self) -> bool:
        whole = bool((self.fixed_values == np.rint(self.fixed_values)).all())
        if isinstance(self.arrays, Box):
            bounds = np.concatenate([self.arrays.lower, self.arrays.upper])
            whole &= bool((bounds == np.rint(bounds)).all())
        return whole

    def _rest_is_integral(self) -> bool:
        """Unrecognised blocks: a totally unimodular matrix with integral bounds (ECRM Theorem 3.1)."""
        rest = self._unproved
        if rest is None:
            return self.kind == "product" and self._fixed_are_whole()
        if not (self._fixed_are_whole() and rest.whole_rows.all() and rest.whole_columns.all()):
            return False
        return bool(rest.unit.all()) and prove_totally_unimodular(rest.matrix) is not None

    def __repr__(self) -> str:
        inside = f" of {', '.join(part.kind for part in self.parts)}" if self.parts else ""
        fixed = f", {self.fixed_columns.size} fixed" if self.fixed_columns.size else ""
        compiled = f"; compiled: {self.diagram}" if self.diagram else ""
        return f"<Structure {self.kind}{inside}: {self.columns.size} variables{fixed}; {self.reason}{compiled}>"

    def _repr_html_(self) -> str:
        rows = [("kind", self.kind), ("reason", self.reason)]
        if self.kind != "general":
            rows.append(("oracle", self.oracle))
        if self.diagram:
            rows.append(("diagram", self.diagram))
        rows.append(("variables", f"{self.columns.size} free, {self.fixed_columns.size} fixed"))
        rows += [(f"part: {part.kind}", part.reason) for part in self.parts]
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(head)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for head, text in rows
        )
        return f"<table>{cells}</table>"


def _short(value: object) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"<{value.size} {value.dtype}>"
    return repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)

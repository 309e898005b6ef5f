"""`HierarchicalLabels`: leaves, sets of leaves and closures of a `Hierarchy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.algorithms.base import Algorithm
from structopt.algorithms.closure import ClosureAlgorithm
from structopt.algorithms.leaf_sets.algorithm import LeafSetAlgorithm
from structopt.algorithms.leaves import LeafAlgorithm
from structopt.algorithms.nodes import NodeParts
from structopt.algorithms.parts import PartSolver
from structopt.algorithms.registry import algorithm_of
from structopt.algorithms.tree import TreeAlgorithm
from structopt.checks import checked, floats
from structopt.errors import DeclarationError
from structopt.features import Linear
from structopt.hierarchy import Hierarchy
from structopt.hierarchy.input import node_values
from structopt.hierarchy.leaf_tree import LeafTree
from structopt.losses import Hamming, LeafHamming, Normalized, TaskLoss
from structopt.model import Model
from structopt.model.codec import BatchCodec, PointCodec
from structopt.model.data_set import DataSet
from structopt.recognize import Closure, LeafSets, Leaves, Record, Tree
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures.node_labels import LabelCodec

__all__ = ["HierarchicalLabels"]

Kind = Literal["leaf", "leaves", "closure"]
_KINDS = ("leaf", "leaves", "closure")

# Sets of leaves on a DAG: from this many nodes on, `LeafSetAlgorithm` is faster than HiGHS on the whole program (random
# DAGs: 3 to 5 times where an eighth of the leaves has two parents, up to 1.4 times where most have).
_LEAF_SET_NODES = 40

# Rows over so few nodes are kept dense, if they have no more entries together: 8 MB.
_DENSE_NODES, _DENSE_ENTRIES = 64, 1 << 20


class HierarchicalLabels(Model):
    """Labels that are nodes of a hierarchy, one weight vector for each node.

    Parameters
    ----------
    hierarchy : Hierarchy
        A tree, a forest or a DAG; one 0/1 variable a node, in the order of ``hierarchy.nodes``.
    kind : {"leaf", "leaves", "closure"}
        - ``"leaf"``: one leaf with all its ancestors. A label is a leaf's name.
        - ``"leaves"``: one or more leaves with all their ancestors, thesis (6.22) as corrected. A label
          is a collection of names of leaves.
        - ``"closure"``: any set that holds the parents of its nodes, including the empty one (ECRM 3.0.1). A label is
          a 0/1 row over the nodes.

        Every kind also takes the labels of the others as long as they are in its space: names of nodes, or a 0/1 row. A
        list of only zeros and ones, one a node, is a row; a set is never one.
    alpha : array_like or mapping, optional
        Node n scores ``sqrt(alpha_n) <W_n, x>``: the normalised attributes of NHSVM (docs/mathematics/hierarchies).
    complete : bool
        Whether labels that miss ancestors are completed or refused.
    intercept : bool
        Append the constant 1 to the features.
    loss : TaskLoss, optional
        Over 0/1 rows of the nodes; `LeafHamming` by default, `Hamming` for closures.
    solver, integral, options
        Given to the `Oracle`. With ``solver="auto"`` single leaves, closures, and sets of leaves on trees have exact
        algorithms of their own; sets of leaves on a DAG are NP-hard and go to the LP, and to the MIP where that is
        fractional (``integral="relax"`` stops at the LP). On larger DAGs a label that a bound proves optimal needs
        neither, and they have only the nodes with several parents and those above, and the MIP only the leaves that a
        better label than the one at hand may have; `options` switch that off.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.structures.hierarchy import HierarchicalLabels
    >>> h = so.Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
    >>> model = HierarchicalLabels(h, kind="leaves")
    >>> model.encode({"cat"})
    array([1., 1., 0., 1., 0.])
    >>> w = np.array([0.0, 0.5, -2.0, 0.3, 0.4])                # one feature, five nodes
    >>> sorted(model.predict(w, [1.0]))
    ['cat', 'dog']
    >>> model.loss({"cat"})
    (array([ 0.,  0.,  1., -1.,  1.]), 1.0)
    >>> model.encode({"ct"})
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: 'ct' is not a node of <Hierarchy: tree of 5 nodes, ...>; did you mean 'cat'?
    """

    @checked
    def __init__(
        self,
        hierarchy: Hierarchy,
        kind: Kind = "leaf",
        *,
        alpha: Any = None,
        complete: bool = True,
        intercept: bool = False,
        loss: TaskLoss | Mapping[str, TaskLoss] | None = None,
        solver: Any = "auto",
        integral: Any = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(hierarchy, Hierarchy):
            raise DeclarationError(f"hierarchy must be a structopt.Hierarchy, got {type(hierarchy).__name__}.")
        if kind not in _KINDS:
            raise DeclarationError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}.")
        if loss is None:
            loss = Hamming() if kind == "closure" else LeafHamming(hierarchy)
        for given in loss.values() if isinstance(loss, Mapping) else [loss]:
            _check_loss(given, hierarchy, kind)
        self.hierarchy = hierarchy
        self.kind = kind
        self.alpha = alpha
        self.complete = complete
        self.intercept = intercept
        self.factor = None if alpha is None else np.sqrt(node_values(hierarchy, alpha, "alpha"))
        term = Linear(intercept=intercept, factor=self.factor)
        self.codec = LabelCodec(hierarchy, kind, complete)
        self._algorithm: Algorithm | None = None
        super().__init__(
            _declare(hierarchy, kind),
            {"node": term},
            loss,
            record=_record(hierarchy, kind, large=len(hierarchy) >= _LEAF_SET_NODES and not options),
            solver=solver,
            integral=integral,
            options=options,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_algorithm": None}

    @property
    def nodes(self) -> tuple[Any, ...]:
        """The nodes of the hierarchy, in the order of the variables."""
        return tuple(self.hierarchy.nodes)

    def leaf_tree(self) -> LeafTree | None:
        """Return the tree and the error as arrays, for compiled steps over single leaves; None without such steps.

        They need a tree, its own algorithm, and an error that is a sum over the nodes that only one of two paths has.

        Returns
        -------
        LeafTree or None
        """
        loss, h = self._loss, self.hierarchy
        if self.kind != "leaf" or self.solver != "auto" or not h.is_tree:
            return None
        if type(loss) is Hamming:
            weight, rooted = loss.linear(np.zeros(len(h)))[0], False
        elif isinstance(loss, LeafHamming):
            weight, rooted = loss.form.base, False
        elif isinstance(loss, Normalized):
            weight, rooted = loss.alpha_, True
        else:
            return None
        factor = np.ones(len(h)) if self.factor is None else np.array(self.factor)
        return LeafTree(h.parent_of.copy(), h.is_leaf.copy(), factor, np.array(weight, dtype=np.float64), rooted)

    def algorithm(self, x: Any = None) -> LeafAlgorithm | TreeAlgorithm | ClosureAlgorithm | LeafSetAlgorithm | None:
        """Return the algorithm of the model's record; None for sets of leaves on a small DAG.

        The relaxation has the same optimum, because its vertices are the labels. Sets of leaves on a DAG are the
        exception: their algorithm is that of ``self.integral``.
        """
        if self._algorithm is None and isinstance(self._record, Record):
            self._algorithm = algorithm_of(self._record, len(self.hierarchy))
        found = self._algorithm
        if isinstance(found, LeafSetAlgorithm):
            return found.over(relaxed=self.integral == "relax")
        assert found is None or isinstance(found, LeafAlgorithm | TreeAlgorithm | ClosureAlgorithm)
        return found

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The 0/1 row over the nodes of a label: a name, a collection of names, or a row."""
        return self.codec.encode(label)

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """The label of a row: a leaf, a frozenset of leaves or a 0/1 row; a fractional row is returned as it is."""
        row = floats("z", z, ndim=1)
        if row.shape != (len(self.hierarchy),):
            raise DeclarationError(f"A point has {len(self.hierarchy)} entries, got shape {row.shape}.")
        return self.codec.decode(row)

    def _batch_codec(self, data: DataSet) -> BatchCodec[Any]:
        # Rows over the nodes, sparse unless they are short and few.
        return PointCodec(data, self.codec, sparse=not self._dense_rows(data.n))

    def _part_solver(self, data: DataSet) -> PartSolver | None:
        # This kind's own algorithm over many examples at a time, or the oracle.
        algorithm = None if self._dense_rows(data.n) else self.algorithm()
        return None if algorithm is None else NodeParts(algorithm, len(self.hierarchy), self.factor)

    def _dense_rows(self, n: int) -> bool:
        """Whether `n` labels are dense rows: sets of nodes of small trees, and all labels that a solver finds."""
        if not self._solves_itself or self.algorithm() is None:
            return True
        nodes = len(self.hierarchy)
        if self.kind == "leaf" or not self.hierarchy.is_tree:
            return False
        return nodes <= _DENSE_NODES and n * nodes <= _DENSE_ENTRIES

    def __repr__(self) -> str:
        parts = ["alpha=..."] if self.alpha is not None else []
        parts += [] if self.complete else ["complete=False"]
        parts += ["intercept=True"] if self.intercept else []
        return f"HierarchicalLabels({', '.join([repr(self.hierarchy), f'kind={self.kind!r}', *parts])})"


def _check_loss(loss: TaskLoss, hierarchy: Hierarchy, kind: str) -> None:
    own = getattr(loss, "hierarchy", None)
    if own is not None and own != hierarchy:
        raise DeclarationError(f"The loss {loss!r} is over another hierarchy than the labels, {hierarchy!r}.")
    if kind not in getattr(loss, "kinds", _KINDS):
        raise DeclarationError(
            f"{type(loss).__name__} is not linear in labels of kind={kind!r}, where only enumeration is exact; "
            "use LeafHamming or Hamming there, or kind='leaf'."
        )


def _declare(hierarchy: Hierarchy, kind: str) -> LabelSpace:
    """The rows of docs/mathematics/hierarchies; for single leaves, ``z_node = sum of z over the leaves below it``."""
    h, n = hierarchy, len(hierarchy)
    space = LabelSpace(f"{'one leaf' if kind == 'leaf' else kind} of a hierarchy")
    z = space.binary("node", n)
    inner = np.flatnonzero(~h.is_leaf)
    if kind == "leaf":
        if inner.size:
            space.subject_to(z[inner] == z @ _below(h, leaves_only=not h.is_tree)[inner].T, name="below")
        ends = h.root_index if h.is_tree else h.leaf_index
        space.subject_to(z[ends].sum() == 1, name="one")
        return space
    if h.child.size:
        space.subject_to(z[h.child] <= z[h.parent], name="parent")
    if kind == "leaves":
        if inner.size:
            space.subject_to(z @ _below(h, leaves_only=False)[inner].T >= z[inner], name="child")
        # z_root = 1 keeps the relaxation integral on trees, where "some leaf" does not (docs/mathematics/hierarchies).
        space.subject_to(z[h.root_index].sum() >= 1, name="root")
    return space


def _record(hierarchy: Hierarchy, kind: str, large: bool) -> Record | None:
    """Return the record of the labels; None for sets of leaves on a DAG that is not large."""
    h, n = hierarchy, len(hierarchy)
    if kind == "leaf":
        return Leaves(h.closure.indptr, h.closure.indices)
    if kind == "closure":
        return Closure(h.child, h.parent)
    if h.is_tree:
        return Tree(np.arange(-1, n), np.append(-1, h.parent_of + 1))
    return LeafSets(h.child, h.parent) if large else None


def _below(h: Hierarchy, leaves_only: bool) -> sp.csr_array:
    """0/1 matrix (node, node): the children of each node, or all leaves below it."""
    n = len(h)
    if not leaves_only:
        return sp.csr_array((np.ones(h.below.size), h.below, h.below_ptr), shape=(n, n))
    paths = h.closure.tocoo()
    ends = (paths.coords[1], h.leaf_index[paths.coords[0]])
    return sp.coo_array((paths.data, ends), shape=(n, n)).tocsr()

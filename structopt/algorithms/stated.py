"""Algorithm for a record that a user states, after checks that cost little compared with a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from structopt._jit import IntArray
from structopt.algorithms.base import Algorithm
from structopt.algorithms.embedding import embedded
from structopt.algorithms.leaf_sets.algorithm import parents_first
from structopt.algorithms.registry import algorithm_of
from structopt.checks import flag, floats, integers
from structopt.errors import DeclarationError, InfeasibleSpace
from structopt.recognize import (
    Assignment,
    Box,
    Cardinality,
    Closure,
    GroupForest,
    LeafSets,
    Leaves,
    Pairwise,
    Path,
    Record,
    Structure,
    Tree,
)
from structopt.recognize.networks import are_paths
from structopt.space.compiled import CompiledSpace
from structopt.space.feasibility import rows_in, violations

__all__ = ["stated_algorithm"]

#: Random objectives whose best labels must lie in the space.
_OBJECTIVES = 8


def stated_algorithm(record: Record, space: CompiledSpace) -> Algorithm:
    """Return the algorithm for a record that a user states for a space; raise if the record does not fit the space.

    The arrays must agree with each other and name each variable once, because kernels read them without checks. The
    best labels of a few random objectives must satisfy the rows of the space.
    """
    n = space.n_variables
    given = _Given(record, space)
    if type(record) in _CHECKS:
        _CHECKS[type(record)](given.record, given)
    structure = Structure(
        kind={"GroupForest": "group forest", "LeafSets": "leaf sets"}.get(given.name, given.name.lower()),
        reason="stated by the user",
        columns=np.arange(n),
        record=given.record,
        has_integers=bool(space.integrality.any()),
    )
    try:
        algorithm = embedded(algorithm_of(given.record, n), structure, space.integrality)
        found = algorithm.maximize_batch(np.random.default_rng(0).normal(size=(_OBJECTIVES, n)))
    except InfeasibleSpace as error:
        raise given.error(f"it has no label. {error}") from None
    Z = found.Z if found.solved is None else found.Z[found.solved]
    good = rows_in(space, Z)
    if not good.all():
        broken = "; ".join(str(v) for v in violations(space, Z[int(np.argmin(good))])[:3])
        raise given.error(f"its best label for a random objective is not in the space ({broken})")
    return algorithm


class _Given:
    """A record with its arrays in the types that algorithms take, and the errors that name it."""

    def __init__(self, record: Record, space: CompiledSpace) -> None:
        self.space, self.n, self.name = space, space.n_variables, type(record).__name__
        self.record: Any = replace(record, **{f.name: self._array(f.name, record, str(f.type)) for f in fields(record)})

    def error(self, text: str) -> DeclarationError:
        return DeclarationError(f"The record {self.name} does not describe {self.space!r}: {text.rstrip('.')}.")

    def _array(self, name: str, record: Record, kind: str) -> Any:
        value = getattr(record, name)
        title = f"{self.name}.{name}"
        if kind == "bool":
            return bool(flag(title, value))
        if value is None or "Array" not in kind:
            return value
        if kind.startswith("FloatArray"):
            return floats(title, value, ndim=1, finite=False)
        array = integers(title, value)
        self.needs(array.ndim == 1, f"{name} has {array.ndim} axes, not one")
        if kind.startswith("BoolArray"):
            self.within(0, 2, **{name: array})
            return array.astype(np.bool_)
        return np.ascontiguousarray(array, dtype=np.int64)

    def needs(self, holds: Any, text: str) -> None:
        if not holds:
            raise self.error(text)

    def sizes(self, wanted: int, **arrays: Any) -> None:
        for name, array in arrays.items():
            self.needs(len(array) == wanted, f"{name} has {len(array)} entries, not {wanted}")

    def within(self, low: int, high: int, **arrays: IntArray) -> None:
        for name, array in arrays.items():
            inside = not array.size or (array.min() >= low and array.max() < high)
            self.needs(inside, f"an entry of {name} is not between {low} and {high - 1}")

    def pointer(self, groups: int, end: int, **arrays: IntArray) -> None:
        for name, array in arrays.items():
            size = groups >= 0 and len(array) == groups + 1
            rises = size and array[0] == 0 and array[-1] == end and (np.diff(array) >= 0).all()
            self.needs(rises, f"{name} must rise from 0 to {end} and have {max(groups, 0) + 1} entries")

    def each_once(self, columns: IntArray, what: str) -> None:
        """Refuse columns that do not name every variable exactly once."""
        self.within(0, self.n, **{what: columns})
        count = np.bincount(columns, minlength=self.n)
        for wrong, times in ((count == 0, "is missing"), (count > 1, "occurs more than once")):
            self.needs(not wrong.any(), f"{self.space.variable_names[int(wrong.argmax())]} {times} in {what}")

    def integer(self, columns: IntArray) -> None:
        """Refuse a flag `integer` that the variables do not have."""
        whole = bool(self.space.integrality[columns].all())
        self.needs(self.record.integer == whole, f"integer must be {whole}, as the variables are")


def _check_box(record: Box, given: _Given) -> None:
    given.sizes(given.n, lower=record.lower, upper=record.upper)
    finite = np.isfinite(record.lower).all() and np.isfinite(record.upper).all()
    given.needs(finite and (record.lower <= record.upper).all(), "bounds must be finite, and lower <= upper")


def _check_groups(record: Cardinality, given: _Given) -> None:
    groups = len(record.ptr) - 1
    given.within(0, given.n, order=record.order)
    given.pointer(groups, len(record.order), ptr=record.ptr)
    given.sizes(groups, lower=record.lower, upper=record.upper)
    given.needs(np.unique(record.order).size == len(record.order), "a variable is in a group twice")
    group = np.full(given.n, -1)
    group[record.order] = np.repeat(np.arange(groups), np.diff(record.ptr))
    given.sizes(given.n, group=record.group)
    given.needs((group == record.group).all(), "group does not agree with ptr and order")
    possible = (record.lower <= record.upper) & (record.lower <= np.diff(record.ptr)) & (record.upper >= 0)
    given.needs(possible.all(), f"it has no label, because of the limits of group {np.argmin(possible)}")


def _check_closure(record: Closure, given: _Given) -> None:
    given.within(0, given.n, child=record.child, parent=record.parent)
    given.sizes(len(record.child), parent=record.parent)
    given.needs((record.child != record.parent).all(), "an arc joins a node to itself")
    given.integer(np.arange(given.n))


def _check_pairwise(record: Pairwise, given: _Given) -> None:
    n_labels = len(record.label)
    given.each_once(np.concatenate([record.label, record.pair]), "label and pair")
    given.sizes(len(record.pair), first=record.first, second=record.second)
    given.within(0, n_labels, first=record.first, second=record.second)
    given.integer(record.label)
    pairs = record.first * n_labels + record.second
    joins = sp.csr_array((np.ones(len(pairs)), (record.first, record.second)), shape=(n_labels, n_labels))
    forest = n_labels - connected_components(joins, directed=False)[0] == len(pairs)
    given.needs(forest or not record.forest, "the pairs are no forest")
    given.needs((record.first < record.second).all(), "first must be smaller than second in every pair")
    given.needs(np.unique(pairs).size == pairs.size, "two pairs join the same labels")


def _check_assignment(record: Assignment, given: _Given) -> None:
    left, right = len(record.left_required), len(record.right_required)
    given.sizes(given.n, left=record.left, right=record.right)
    given.within(0, left, left=record.left)
    given.within(0, right, right=record.right)
    blocks = len(record.left_ptr) - 1
    given.pointer(blocks, left, left_ptr=record.left_ptr)
    given.pointer(blocks, right, right_ptr=record.right_ptr)
    of_left = np.repeat(np.arange(blocks), np.diff(record.left_ptr))[record.left]
    of_right = np.repeat(np.arange(blocks), np.diff(record.right_ptr))[record.right]
    given.needs((of_left == of_right).all(), "a pair joins nodes of two blocks")
    given.needs((np.diff(record.left_ptr) <= np.diff(record.right_ptr)).all(), "left must be the side with fewer nodes")
    pairs = record.left * max(right, 1) + record.right
    given.needs(np.unique(pairs).size == pairs.size, "a pair occurs more than once")


def _check_path(record: Path, given: _Given) -> None:
    nodes = len(record.order)
    given.sizes(given.n, tail=record.tail, head=record.head)
    given.within(0, nodes, tail=record.tail, head=record.head, sources=record.sources, sinks=record.sinks)
    given.sizes(len(record.sources), sinks=record.sinks)
    given.needs((np.sort(record.order) == np.arange(nodes)).all(), "order does not list every node once")
    place = np.empty(nodes, dtype=np.int64)
    place[record.order] = np.arange(nodes)
    given.needs((place[record.tail] < place[record.head]).all(), "order must list the tail of an arc before its head")
    given.each_once(record.arc, "arc")
    given.pointer(nodes, given.n, ptr=record.ptr)
    leaves = np.repeat(np.arange(nodes), np.diff(record.ptr))
    whole = are_paths(record.tail, record.head, given.space.integrality)
    given.needs(record.integer == whole, f"integer must be {whole}, as the variables say")
    given.needs((record.tail[record.arc] == leaves).all(), "arc[ptr[v]:ptr[v + 1]] must be the arcs that leave node v")


def _check_tree(record: Tree, given: _Given) -> None:
    given.sizes(len(record.column), parent=record.parent)
    given.each_once(record.column[record.column != -1], "column")
    below = (record.parent >= -1) & (record.parent < np.arange(len(record.parent)))
    given.needs(below.all(), "the parent of a node must come before it, or be -1")
    given.needs(((record.column >= 0) | (record.parent < 0)).all(), "only a root may have column -1")
    given.integer(record.column[record.column >= 0])


def _check_leaves(record: Leaves, given: _Given) -> None:
    given.within(0, given.n, column=record.column)
    given.pointer(len(record.ptr) - 1, len(record.column), ptr=record.ptr)
    given.needs((np.diff(record.ptr) > 0).all() and len(record.ptr) > 1, "ptr must have a leaf, and no list is empty")
    leaf = record.column[record.ptr[1:] - 1]
    given.needs((np.bincount(record.column)[leaf] == 1).all(), "the last column of a list is also in another place")
    list_of = np.repeat(np.arange(len(leaf)), np.diff(record.ptr))
    pairs = list_of * given.n + record.column
    given.needs(np.unique(pairs).size == pairs.size, "a column occurs twice in a list")
    given.integer(np.arange(given.n))


def _check_leaf_sets(record: LeafSets, given: _Given) -> None:
    given.within(0, given.n, child=record.child, parent=record.parent)
    given.sizes(len(record.child), parent=record.parent)
    arcs = record.child * given.n + record.parent
    given.needs(np.unique(arcs).size == arcs.size, "an arc occurs more than once")
    given.needs(len(parents_first(record, given.n)) == given.n, "the arcs have a cycle")
    given.integer(np.arange(given.n))


def _check_forest(record: GroupForest, given: _Given) -> None:
    groups, pairs = len(record.parent), len(record.pair)
    given.each_once(np.concatenate([record.column, record.pair[record.pair != -1]]), "column and pair")
    given.integer(record.column)
    given.pointer(groups, len(record.column), state_ptr=record.state_ptr)
    given.pointer(groups, pairs, pair_ptr=record.pair_ptr)
    given.sizes(pairs, above=record.above, below=record.below)
    below = (record.parent >= -1) & (record.parent < np.arange(groups))
    given.needs(below.all(), "the parent of a group must come before it, or be -1")
    child = np.repeat(np.arange(groups), np.diff(record.pair_ptr))
    given.needs((record.parent[child] >= 0).all(), "a group without a parent has pairs")
    states = np.diff(record.state_ptr)
    for name, state, group in (("above", record.above, record.parent[child]), ("below", record.below, child)):
        given.needs(((state >= 0) & (state < states[group])).all(), f"an entry of {name} is not a state of its group")


#: Conditions on the arrays of each type of record, checked before an algorithm may read them.
_CHECKS: dict[type[Record], Callable[[Any, _Given], None]] = {
    Box: _check_box,
    Cardinality: _check_groups,
    Closure: _check_closure,
    Pairwise: _check_pairwise,
    Assignment: _check_assignment,
    Path: _check_path,
    Tree: _check_tree,
    Leaves: _check_leaves,
    LeafSets: _check_leaf_sets,
    GroupForest: _check_forest,
}

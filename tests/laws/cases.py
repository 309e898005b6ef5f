"""Small label spaces for the laws of oracles: shipped, declared by hand, by diagram, and odd ones."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import structopt as so
from structopt.algorithms.base import Algorithm, Solutions
from structopt.oracle import Question as Q

BASIC = Q.ARGMAX
LISTS = Q.ARGMAX | Q.K_BEST | Q.OUTSIDE
SUMS = Q.SUMS | Q.SAMPLE
ALL = ~Q(0)
S = so.structures
TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")])
DAG = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("b", "d")])
FOREST = so.Hierarchy([("a", "c"), ("a", "d"), ("b", "e")])
PATH = so.Hierarchy([(k, k + 1) for k in range(5)])
STAR = so.Hierarchy([("r", k) for k in range(5)])
ONE = so.Hierarchy([], nodes=["a"])
#: A DAG of many nodes and few sets of leaves.
LONG = so.Hierarchy([(k, k + 1) for k in range(36)] + [(36, 37), (36, 38), (37, 39), (38, 39), (38, 40), (37, 41)])


class Case(NamedTuple):
    """An oracle, the questions that it must answer without a solver, and the number of its labels.

    A case of a shipped structure has the model, and an input if its label space depends on the input.
    """

    make: Callable[[], so.Oracle]
    answers: Q
    n_labels: int
    model: so.Model | None = None
    x: np.ndarray | None = None


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape)


def shipped(model, answers, n_labels, x=None):
    return Case(lambda: model.oracle(x), answers, n_labels, model, x)


def diagram(model, n_labels, x=None):
    return Case(lambda: so.Oracle(model.space(x), "diagram"), ALL, n_labels)


def declared(rows, answers, n_labels, upper=1, solver="auto"):
    def make():
        space = so.LabelSpace()
        rows(space, upper)
        return so.Oracle(space, solver)

    return Case(make, answers, n_labels)


def copied(model, answers, n_labels, x=None):
    """The rows of a shipped structure without its names: what recognition makes of them."""

    def make():
        return so.Oracle(so.LabelSpace.from_compiled(model.space(x).compiled))

    return Case(make, answers, n_labels)


class Listed(Algorithm):
    """An algorithm of a user, which lists its labels and has sums without a formula for covariances."""

    answers = Q.ARGMAX | Q.SUMS | Q.SAMPLE

    def __init__(self, labels):
        self.labels = labels

    def maximize_batch(self, C, *, n_jobs=1, keys=None):
        return Solutions.of_labels(C, self.labels[(C @ self.labels.T).argmax(axis=1)])

    def log_partition(self, C):
        return np.logaddexp.reduce(C @ self.labels.T, axis=1)

    def marginals(self, C):
        return np.exp(C @ self.labels.T - self.log_partition(C)[:, None]) @ self.labels

    def sample(self, c, size, rng):
        p = np.exp(self.labels @ c - self.log_partition(c[None]))
        return self.labels[rng.choice(len(p), size, p=p / p.sum())]


def stated_leaves():
    """Sets of leaves on a DAG with a record, because recognition does not find them."""
    space = S.HierarchicalLabels(DAG, "leaves").space()
    return so.Oracle(space, record=so.records.LeafSets(child=DAG.child, parent=DAG.parent))


def listed():
    space = so.LabelSpace()
    space.subject_to(space.binary("y", 4).sum() <= 2)
    return so.Oracle(space, algorithm=Listed(space.enumerate()))


# ---- declarations ------------------------------------------------------------------------------------


def one_of(space, upper):
    y = space.binary("y", 4)
    space.subject_to(y.sum() == 1)


def free(space, upper):
    space.integer("y", 4, 0, upper)


def fractional(space, upper):
    space.integer("y", 3, -0.3, 1.4)


def nothing(space, upper):
    pass


def single(space, upper):
    y = space.binary("y", 3)
    space.subject_to(y[0] == 1, y[1] == 0, y[2] == 1)


def knapsack(space, upper):
    y = space.integer("y", 4, 0, upper)
    space.subject_to(np.array([2.0, 3.0, 4.0, 5.0]) @ y <= 7.5)


def two_knapsacks(space, upper):
    for name in "ab":
        y = space.integer(name, 3, 0, upper)
        space.subject_to(np.array([2.0, 3.0, 4.0]) @ y <= 5.5)


def union(space, upper):
    """Either one of the first three, or at least one of the last two."""
    which, y, z = space.binary("which"), space.binary("y", 3), space.binary("z", 2)
    space.subject_to(y.sum() == which, z[0] + which <= 1, z[1] + which <= 1, z.sum() + which >= 1)


def with_constants(space, upper):
    one_of(space, upper)
    space.integer("fixed", 2, 3, 3)


def with_copies(space, upper):
    """A choice whose entries are repeated, one of them turned around."""
    one_of(space, upper)
    again, off = space.binary("again", 4), space.binary("off", 4)
    space.subject_to(again == space["y"], off + space["y"] == 1)


def tight_sum(space, upper):
    """A sum with an upper bound that no other row implies."""
    y, total = space.binary("y", 3), space.continuous("total", 1, 0, 2)
    space.subject_to(y[0] + y[1] <= 1, total == y[0] + 2 * y[2])


def negative(space, upper):
    y = space.integer("y", 3, -2, upper)
    space.subject_to(y.sum() >= -1, y[0] - y[1] <= 1)


def at_most_two(y, z):
    return y.sum() <= 2 if z["y"].sum() > 2 + 1e-6 else None


def lazy(space, upper):
    y = space.binary("y", 4)
    space.lazy(functools.partial(at_most_two, y))


def closure(space, upper):
    y = space.binary("y", 6)
    space.subject_to(*(y[child] <= y[parent] for parent, child in [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)]))


def two_trees(space, upper):
    """A tree of which some top is chosen, and a tree whose root is always chosen."""
    y = space.binary("y", 9)
    space.subject_to(y[1:3] <= y[0], y[1] + y[2] >= y[0], y[0] + y[3] >= 1)
    space.subject_to(y[4] == 1, y[5:7] <= y[4], y[5] + y[6] >= y[4], y[7:9] <= y[5], y[7] + y[8] >= y[5])


def assignment(space, upper):
    x = space.binary("x", (3, 3))
    space.subject_to(x.sum(axis=0) == 1, x.sum(axis=1) == 1)


def partial_assignment(space, upper):
    x = space.binary("x", (2, 3))
    space.subject_to(x.sum(axis=0) <= 1, x.sum(axis=1) <= 1)


def mixed_assignment(space, upper):
    """Some rows and columns may stay without a partner."""
    x = space.binary("x", (3, 3))
    space.subject_to(x[:2].sum(axis=1) == 1, x[2].sum() <= 1, x[:, 0].sum() == 1, x[:, 1:].sum(axis=0) <= 1)


def required_columns(space, upper):
    """A column must have a row, though the rows are fewer than the columns and may stay free; a pair is missing."""
    x = space.binary("x", (2, 3))
    space.subject_to(x.sum(axis=1) <= 1, x[:, 0].sum() == 1, x[:, 1:].sum(axis=0) <= 1, x[0, 2] == 0)


def assignments(space, upper):
    """Two blocks."""
    assignment(space, upper)
    y = space.binary("y", (1, 2))
    space.subject_to(y.sum() == 1)


def chain(space, upper):
    """A path through three layers of two states."""
    first, step, last = space.binary("first", 2), space.binary("step", (2, 2, 2)), space.binary("last", 2)
    space.subject_to(first.sum() == 1, step[0].sum(axis=1) == first, step[0].sum(axis=0) == step[1].sum(axis=1))
    space.subject_to(step[1].sum(axis=0) == last)


def unequal_groups(space, upper):
    """Groups of two, three and two states; pairs of the first edge have no variables."""
    a, b, c, p = space.binary("a", 2), space.binary("b", 3), space.binary("c", 2), space.continuous("p", 4, 0, 1)
    space.subject_to(a.sum() == 1, b.sum() == 1, a[0] + b[0] <= 1, a[1] + b[1] + b[2] <= 1 + b[1])
    space.subject_to(p[:2].sum() == b[0], p[2] == b[1], p[3] == b[2], p[0] + p[2] == c[0], p[1] + p[3] == c[1])


def settled(space, upper):
    """Columns of which each row leaves one value, one of them by another column."""
    x, y = space.integer("x", 1, 0, 2), space.integer("y", 1, 0, 2)
    space.subject_to(x <= 1, x >= 1, 2 * x - y == 2)


def two_chains_of_groups(space, upper):
    """Two chains of different lengths; the smallest group of the first one is inside."""
    for name, order in (("a", (1, 0, 2)), ("b", (0, 1))):
        y = space.binary(name, (len(order), 2))
        space.subject_to(y.sum(axis=1) == 1)
        for k, (i, j) in enumerate(itertools.pairwise(order)):
            p = space.continuous(f"{name}{k}", (2, 2), 0, np.array([[1, k], [1, 1]]))
            space.subject_to(p.sum(axis=1) == y[i], p.sum(axis=0) == y[j])


def tree_of_groups(space, upper):
    """A star of four groups of two and three states, with one pair that may not meet."""
    y, z = space.binary("y", 3), space.binary("z", (3, 2))
    space.subject_to(y.sum() == 1, z.sum(axis=1) == 1)
    for k in range(3):
        p = space.continuous(f"p{k}", (3, 2), 0, np.where(np.arange(6) == 5, k != 1, 1).reshape(3, 2))
        space.subject_to(p.sum(axis=1) == y, p.sum(axis=0) == z[k])


def special_first_step(space, upper):
    """Four groups of two states; only the first step forbids a pair."""
    y = space.binary("y", (4, 2))
    p = space.continuous("p", (3, 2, 2), 0, np.array([[[1, 0], [1, 1]]] + 2 * [[[1, 1], [1, 1]]]))
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])


def rare_pairs(space, upper):
    """Three groups of twelve states on a ring, each followed by itself or the next one."""
    y = space.binary("y", (3, 12))
    p = space.continuous("p", (2, 12, 12), 0, np.eye(12) + np.roll(np.eye(12), 1, axis=1))
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])


def chain_and_path(space, upper):
    """A chain, a path through four nodes, and a column that has one value."""
    y, p = space.binary("y", (3, 2)), space.continuous("p", (2, 2, 2), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    arc = space.binary("arc", 5)  # 0 -> 1, 0 -> 2, 1 -> 2, 1 -> 3, 2 -> 3
    space.subject_to(arc[0] + arc[1] == 1, arc[0] == arc[2] + arc[3], arc[1] + arc[2] == arc[4])
    space.subject_to(space.binary("fixed", 1) == 1)


def chain_and_closure(space, upper):
    chain(space, upper)
    y = space.binary("y", 4)
    space.subject_to(y[1:] <= y[0])


def closure_of_a_dag(space, upper):
    y = space.binary("y", 6)
    space.subject_to(*(y[child] <= y[parent] for parent, child in [(0, 2), (1, 2), (1, 3), (2, 4), (3, 4), (3, 5)]))


def two_chains(space, upper):
    for name in "ab":
        first, step, last = space.binary(f"{name}1", 2), space.binary(f"{name}2", (2, 2)), space.binary(f"{name}3", 2)
        space.subject_to(first.sum() == 1, step.sum(axis=1) == first, step.sum(axis=0) == last)


def pairwise(space, upper):
    y, p = space.binary("y", 3), space.continuous("p", 2, 0, 1)
    for k, (i, j) in enumerate([(0, 1), (1, 2)]):
        space.subject_to(p[k] <= y[i], p[k] <= y[j], p[k] >= y[i] + y[j] - 1)


def unused(space, upper):
    y = space.binary("y", 3)
    space.subject_to(y[0] + y[1] <= 1)


CASES: dict[str, Case] = {
    "multiclass": shipped(S.Multiclass(4), BASIC, 4),
    "one class": shipped(S.Multiclass(1), BASIC, 1),
    "one tag": shipped(S.MultiLabel(1), BASIC, 2),
    "multilabel": shipped(S.MultiLabel(4), BASIC, 16),
    "multilabel at most": shipped(S.MultiLabel(5, at_most=2), BASIC, 16),
    "multilabel between": shipped(S.MultiLabel(5, at_least=1, at_most=2), BASIC, 15),
    "pairwise": shipped(S.PairwiseMRF(4), BASIC, 16),
    "pairwise of one tag": shipped(S.PairwiseMRF(1), BASIC, 2),
    "pairwise cycle": shipped(S.PairwiseMRF(4, edges=[(0, 1), (1, 2), (2, 3), (0, 3)]), BASIC, 16),
    "pairwise tree": shipped(S.PairwiseMRF(4, edges=[(0, 1), (1, 2), (1, 3)]), BASIC, 16),
    "leaf": shipped(S.HierarchicalLabels(TREE, "leaf"), ALL, 3),
    "leaf of a forest": shipped(S.HierarchicalLabels(FOREST, "leaf"), ALL, 3),
    "leaf of a path": shipped(S.HierarchicalLabels(PATH, "leaf"), ALL, 1),
    "leaf of one node": shipped(S.HierarchicalLabels(ONE, "leaf"), ALL, 1),
    "leaves": shipped(S.HierarchicalLabels(TREE, "leaves"), ALL, 7),
    "leaves of a forest": shipped(S.HierarchicalLabels(FOREST, "leaves"), ALL, 7),
    "leaves of a star": shipped(S.HierarchicalLabels(STAR, "leaves"), ALL, 31),
    "leaves of one node": shipped(S.HierarchicalLabels(ONE, "leaves"), ALL, 1),
    "closure": shipped(S.HierarchicalLabels(TREE, "closure"), ALL, 16),
    "closure of a forest": shipped(S.HierarchicalLabels(FOREST, "closure"), ALL, 15),
    "closure of a path": shipped(S.HierarchicalLabels(PATH, "closure"), ALL, 7),
    "closure of one node": shipped(S.HierarchicalLabels(ONE, "closure"), ALL, 2),
    "leaf of a dag": shipped(S.HierarchicalLabels(DAG, "leaf"), ALL, 2),
    "leaves of a dag": shipped(S.HierarchicalLabels(DAG, "leaves"), BASIC, 3),
    "leaves of a long dag": shipped(S.HierarchicalLabels(LONG, "leaves"), BASIC, 7),
    "closure of a dag": shipped(S.HierarchicalLabels(DAG, "closure"), BASIC, 9),
    "subset": shipped(S.Subset([[3, 2, 2, 1], [1, 4, 1, 2]], [5, 5], at_least=1), ALL, 9),
    "subset of many weights": shipped(S.Subset([[0.5, -1.5, 2.25, 1, 3.75]], 4.5, at_most=3), ALL, 21),
    "exclusive": shipped(S.ExclusiveLabels(TREE, [["a", "b"]]), BASIC, 8),
    "chain": shipped(S.Chain(3), ALL, 27, zeros(3, 1)),
    "chain with rules": shipped(S.Chain(2, transitions=[[1, 1], [1, 0]]), ALL, 8, zeros(4, 1)),
    "chain of tags": shipped(S.Chain(["O", "B", "I"], "bio", initial_weights=True), ALL, 13, zeros(3, 1)),
    "chain with initial weights": shipped(S.Chain(2, initial_weights=True), ALL, 8, zeros(3, 1)),
    "chain of length 1": shipped(S.Chain(3), ALL, 3, zeros(1, 1)),
    "chain of one state": shipped(S.Chain(1), ALL, 1, zeros(3, 1)),
    "segments": shipped(S.Segmentation(2, 2), ALL, 16, zeros(3, 1)),
    "segments without repeats": shipped(
        S.Segmentation(3, 2, transitions=~np.eye(3, dtype=bool), initial=[1, 0, 1]), ALL, 16, zeros(3, 1)
    ),
    "segments with lengths": shipped(S.Segmentation(2, 2, length_weights=True), ALL, 16, zeros(3, 1)),
    "segments with first states": shipped(
        S.Segmentation(3, 2, transitions=~np.eye(3, dtype=bool), initial=[1, 0, 1], initial_weights=True),
        ALL,
        16,
        zeros(3, 1),
    ),
    "segments of length 1": shipped(S.Segmentation(2, 3), BASIC, 2, zeros(1, 1)),
    "arborescence": shipped(S.Arborescence(), BASIC, 16, zeros(4, 4, 1)),
    "arborescence of length 1": shipped(S.Arborescence(), BASIC, 1, zeros(2, 2, 1)),
    "projective": shipped(S.Arborescence(projective=True), BASIC, 12, zeros(4, 4, 1)),
    "single root": shipped(S.Arborescence(single_root=True), BASIC, 9, zeros(4, 4, 1)),
    "single root projective": shipped(S.Arborescence(True, True), BASIC, 7, zeros(4, 4, 1)),
    "arborescence by cuts": shipped(S.Arborescence(flow="cuts"), BASIC, 16, zeros(4, 4, 1)),
    "labelled arborescence": shipped(S.LabelledArborescence(2), BASIC, 12, zeros(3, 3, 1)),
    "labelled projective": shipped(
        S.LabelledArborescence(2, single_root=True, projective=True), BASIC, 8, zeros(3, 3, 1)
    ),
    "labelled arborescence of length 1": shipped(S.LabelledArborescence(2), BASIC, 2, zeros(2, 2, 1)),
    "assignment": shipped(S.Assignment(3), LISTS, 6, zeros(3, 3, 1)),
    "assignment of length 1": shipped(S.Assignment(), BASIC, 1, zeros(1, 1, 1)),
    "rectangular assignment": shipped(S.Assignment(), LISTS, 12, zeros(2, 4, 1)),
    "unmatched items": shipped(S.Assignment(2, unmatched=True), LISTS, 7, zeros(2, 2, 1)),
    "more rows than columns": shipped(S.Assignment(unmatched=True), LISTS, 13, zeros(3, 2, 1)),
    "matching": shipped(S.Matching(), Q(0), 10, zeros(4, 4, 1)),
    "matching of one node": shipped(S.Matching(), Q(0), 1, zeros(1, 1, 1)),
    "matching of two nodes": shipped(S.Matching(), Q(0), 2, zeros(2, 2, 1)),
    "perfect matching": shipped(S.Matching(perfect=True), Q(0), 15, zeros(6, 6, 1)),
    "one tour": shipped(S.Tour(), Q(0), 1, zeros(3, 3, 1)),
    "tour": shipped(S.Tour(), Q(0), 12, zeros(5, 5, 1)),
    "directed tour": shipped(S.Tour(directed=True), Q(0), 6, zeros(4, 4, 1)),
    "declared choice": declared(one_of, BASIC, 4),
    "declared tags": declared(free, BASIC, 16),
    "stated leaves of a dag": Case(stated_leaves, BASIC, 3),
    "declared closure": declared(closure, ALL, 16),
    "two trees": declared(two_trees, ALL, 49),
    "declared closure of a dag": declared(closure_of_a_dag, BASIC, 13),
    "two chains": declared(two_chains, BASIC, 16),
    "declared assignment": declared(assignment, LISTS, 6),
    "declared partial assignment": declared(partial_assignment, LISTS, 13),
    "declared mixed assignment": declared(mixed_assignment, LISTS, 10),
    "declared required columns": declared(required_columns, LISTS, 5),
    "declared assignments": declared(assignments, LISTS, 12),
    "declared chain": declared(chain, LISTS, 8),
    "declared pairs": declared(pairwise, BASIC, 8),
    "algorithm of a user": Case(listed, BASIC | SUMS, 11),
    "copied chain": copied(S.Chain(3), ALL, 27, zeros(3, 1)),
    "copied chain with rules": copied(S.Chain(2, transitions=[[1, 1], [1, 0]]), ALL, 8, zeros(4, 1)),
    "copied chain of tags": copied(S.Chain(["O", "B", "I"], "bio", initial_weights=True), ALL, 13, zeros(3, 1)),
    "copied chain with initial weights": copied(S.Chain(2, initial_weights=True), ALL, 8, zeros(3, 1)),
    "chain of unequal groups": declared(unequal_groups, ALL, 5),
    "two chains of groups": declared(two_chains_of_groups, ALL, 18),
    "tree of groups": declared(tree_of_groups, BASIC | SUMS, 20),
    "chain with a special first step": declared(special_first_step, ALL, 12),
    "groups of rare pairs": declared(rare_pairs, ALL, 48),
    "copied segments": copied(S.Segmentation(2, 2), ALL, 16, zeros(3, 1)),
    "copied segments with all blocks": copied(
        S.Segmentation(2, 2, length_weights=True, initial_weights=True), ALL, 16, zeros(3, 1)
    ),
    "copied segments with rules": copied(
        S.Segmentation(3, 2, transitions=~np.eye(3, dtype=bool), length_weights=True), ALL, 24, zeros(3, 1)
    ),
    "copied leaf": copied(S.HierarchicalLabels(TREE, "leaf"), ALL, 3),
    "copied leaf of a dag": copied(S.HierarchicalLabels(DAG, "leaf"), ALL, 2),
    "copied leaves": copied(S.HierarchicalLabels(TREE, "leaves"), ALL, 7),
    "copied leaves of a forest": copied(S.HierarchicalLabels(FOREST, "leaves"), ALL, 7),
    "copied leaves of a star": copied(S.HierarchicalLabels(STAR, "leaves"), BASIC, 31),
    "copied unmatched items": copied(S.Assignment(2, unmatched=True), LISTS, 7, zeros(2, 2, 1)),
    "copied more rows than columns": copied(S.Assignment(unmatched=True), LISTS, 13, zeros(3, 2, 1)),
    "copied tags": copied(S.MultiLabel(5, 1, 2), BASIC, 15),
    "copied pairs": copied(S.PairwiseMRF(4), BASIC | Q.FRONT, 16),
    "copied closure": copied(S.HierarchicalLabels(TREE, "closure"), ALL, 16),
    "copied closure of a path": copied(S.HierarchicalLabels(PATH, "closure"), ALL, 7),
    "copied exclusive": copied(S.ExclusiveLabels(TREE, [["a", "b"]]), BASIC, 8),
    "copied arborescence": copied(S.Arborescence(), ALL, 16, zeros(4, 4, 1)),
    "copied labelled arborescence": copied(S.LabelledArborescence(2), ALL, 12, zeros(3, 3, 1)),
    "copied assignment": copied(S.Assignment(), LISTS, 12, zeros(2, 4, 1)),
    "copied tour": copied(S.Tour(), Q(0), 12, zeros(5, 5, 1)),
    "diagram of a chain": diagram(S.Chain(2), 8, zeros(3, 1)),
    "diagram of segments": diagram(S.Segmentation(2, 2), 16, zeros(3, 1)),
    "diagram of leaves": diagram(S.HierarchicalLabels(TREE, "leaves"), 7),
    "diagram of an assignment": diagram(S.Assignment(3), 6, zeros(3, 3, 1)),
    "diagram of classes": diagram(S.Multiclass(4), 4),
    "diagram of pairs": diagram(S.PairwiseMRF(3), 8),
    "diagram of a closure": diagram(S.HierarchicalLabels(TREE, "closure"), 16),
    "diagram of arborescences": diagram(S.Arborescence(), 3, zeros(3, 3, 1)),
    "diagram of tags": diagram(S.MultiLabel(4, at_most=2), 11),
    "diagram of a knapsack": declared(knapsack, ALL, 13, 3, "diagram"),
    "diagram of negative integers": declared(negative, ALL, 26, 1, "diagram"),
    "knapsack": declared(knapsack, ALL, 9),
    "knapsack of integers": declared(knapsack, ALL, 13, 3),
    "negative integers": declared(negative, ALL, 26),
    "product": declared(two_knapsacks, ALL, 25),
    "product of integers": declared(two_knapsacks, ALL, 36, 2),
    "chain and path": declared(chain_and_path, LISTS | Q.FRONT, 24),
    "chain and closure": declared(chain_and_closure, BASIC, 72),
    "union": declared(union, ALL, 6),
    "constants": declared(with_constants, BASIC, 4),
    "repeated entries": declared(with_copies, BASIC, 4),
    "unused variable": declared(unused, BASIC, 6),
    "tight sum": declared(tight_sum, BASIC, 5),
    "one label": declared(single, BASIC, 1),
    "no variables": declared(nothing, Q(0), 1),
    "settled": declared(settled, BASIC, 1),
    "integer box": declared(free, BASIC, 81, 2),
    "fractional bounds": declared(fractional, BASIC, 8),
    "lazy rows": declared(lazy, Q(0), 11),
    "solver": declared(knapsack, SUMS, 9, 1, "highs"),
}

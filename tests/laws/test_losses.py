"""The laws of task losses hold for every loss of the package, and find wrong ones."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import structopt as so
from structopt.losses import CostMatrix, Footrule, Hamming, HierarchicalLoss, LeafHamming, Normalized, TaskLoss, ZeroOne
from structopt.losses.variables import WrongEdges
from structopt.structures.arborescence import WrongHeads
from structopt.structures.assignment import RowLoss
from structopt.structures.flow import AbsoluteFlowLoss
from structopt.structures.labelled_arborescence import WrongArcs
from structopt.structures.matching import WrongPartners
from structopt.structures.sequences import EntityErrors, PositionLoss
from structopt.testing import check_loss

S = so.structures
TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")])
DAG = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("b", "d")])
COSTS = np.array([[0.0, 1.0, 4.0], [0.5, 0.0, 2.0], [3.0, 2.0, 0.0]])


def of(model, x=None, block=None):
    """All labels of a model, of one block if it is named."""
    space = model.space(x)
    labels = space.enumerate()
    return labels if block is None else labels[:, space[block].slice]


def steps():
    """The steps of two integers: the Hamming loss on them is the absolute difference."""
    space = so.LabelSpace()
    space.integer("count", 2, -1, 2)
    name = so.losses.thermometer(space, "count")
    labels = space.enumerate()
    return labels[:, space[name].slice], labels[:, space["count"].slice]


TAGS = of(S.MultiLabel(4, at_most=3))
LEAF, LEAVES, CLOSURES = (of(S.HierarchicalLabels(TREE, kind)) for kind in ("leaf", "leaves", "closure"))
PERMUTATIONS = of(S.Assignment(3), np.zeros((3, 3, 1)))
UNMATCHED = of(S.Assignment(2, unmatched=True), np.zeros((2, 3, 1)))
STATES = of(S.Chain(3), np.zeros((3, 1)), "y")
TREES = of(S.Arborescence(), np.zeros((4, 4, 1)), "arc")
ARCS = of(S.LabelledArborescence(2), np.zeros((3, 3, 1)), "arc")
EDGES, TOURS = of(S.Matching(), np.zeros((4, 4, 1))), of(S.Tour(), np.zeros((4, 4, 1)))
SEGMENTS = of(S.Segmentation(2, 2), np.zeros((3, 1)), "segment")
PATHS = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 0, 0, 1, 1]])

#: The loss, its labels, and the laws that say nothing about it.
CASES = {
    "Hamming": (Hamming(), TAGS, ()),
    "Hamming of one variable": (Hamming(), np.array([[0.0], [1.0]]), ()),
    "Hamming with weights": (Hamming([1.0, 0.0, 2.5, 0.5]), TAGS, ()),
    "Hamming normalised": (Hamming([1.0, 0.0, 2.5, 0.5], normalize=True), TAGS, ()),
    "Hamming of steps": (Hamming(), steps()[0], ()),
    "ZeroOne": (ZeroOne(), np.eye(4), ()),
    "ZeroOne of one class": (ZeroOne(), np.eye(1), ()),
    "CostMatrix": (CostMatrix(COSTS), np.eye(3), ("counted",)),
    "Footrule": (Footrule(3), PERMUTATIONS, ("expected", "counted")),
    "LeafHamming of a leaf": (LeafHamming(TREE), LEAF, ()),
    "LeafHamming of closures": (LeafHamming(TREE, scale=0.5), CLOSURES, ()),
    "LeafHamming of a dag": (LeafHamming(DAG), of(S.HierarchicalLabels(DAG, "leaves")), ()),
    "HierarchicalLoss of a leaf": (HierarchicalLoss(TREE), LEAF, ("counted",)),
    "HierarchicalLoss of leaves": (HierarchicalLoss(TREE, "uniform"), LEAVES, ("counted",)),
    "HierarchicalLoss of closures": (HierarchicalLoss(TREE, np.arange(1.0, 7.0)), CLOSURES, ("counted",)),
    "Normalized": (Normalized(TREE, np.arange(6.0)), LEAF, ("expected", "counted")),
    "PositionLoss": (PositionLoss(3), STATES, ()),
    "PositionLoss with costs": (PositionLoss(3, COSTS, normalize=True), STATES, ("expected", "counted")),
    "PositionLoss with expected costs": (PositionLoss(3, [[0, 2, 1], [2, 0, 1], [0, 2, 0]]), STATES, ("counted",)),
    "EntityErrors": (EntityErrors([False, True]), SEGMENTS, ()),
    "RowLoss": (RowLoss((3, 3)), PERMUTATIONS, ()),
    "RowLoss of unmatched rows": (RowLoss((2, 3)), UNMATCHED, ()),
    "RowLoss footrule": (RowLoss((3, 3), "footrule", normalize=True), PERMUTATIONS, ("counted",)),
    "WrongHeads": (WrongHeads(), TREES, ("expected",)),
    "WrongHeads normalised": (WrongHeads(normalize=True), TREES, ("expected", "counted")),
    "WrongArcs": (WrongArcs(2), ARCS, ("expected",)),
    "WrongArcs with costs": (WrongArcs(2, 0.25, normalize=True), ARCS, ("expected", "counted")),
    "WrongPartners": (WrongPartners(normalize=True), EDGES, ("counted",)),
    "WrongEdges": (WrongEdges(), TOURS, ("expected", "counted")),
    "AbsoluteFlowLoss": (AbsoluteFlowLoss(np.ones(5)), PATHS, ("expected", "counted")),
}


@pytest.mark.parametrize("name", CASES)
def test_laws_of_losses(name):
    loss, labels, silent = CASES[name]
    report = check_loss(loss, labels)
    assert report.ok, report
    assert {outcome.check for outcome in report.skipped} == set(silent), report


def differ(shape, axis):
    """Return the number of lines of a table in which two labels differ."""
    return lambda y, t: (y != t).reshape(shape).any(axis=axis).sum()


def columns(z):
    return z.reshape(3, 3).argmax(axis=1)


def wrong_arcs(y, t):
    head = (y != t).reshape(3, 3, 2).any(axis=(0, 2)) & (y.reshape(3, 3, 2).sum(2) != t.reshape(3, 3, 2).sum(2)).any(0)
    return (head + 0.25 * ((y != t).reshape(3, 3, 2).any(axis=(0, 2)) & ~head)).sum() / 2


def partners(z):
    return z.reshape(4, 4) + z.reshape(4, 4).T


#: What losses of structures count, in words of their labels.
DEFINITIONS = {
    "RowLoss": differ((3, 3), 1),
    "RowLoss of unmatched rows": differ((2, 3), 1),
    "RowLoss footrule": lambda y, t: np.abs(columns(y) - columns(t)).sum() / 3,
    "WrongHeads": differ((4, 4), 0),
    "WrongHeads normalised": lambda y, t: differ((4, 4), 0)(y, t) / 3,
    "WrongArcs": differ((3, 3, 2), (0, 2)),
    "WrongArcs with costs": wrong_arcs,
    "WrongPartners": lambda y, t: (partners(y) != partners(t)).any(axis=1).sum() / 4,
    "WrongEdges": lambda y, t: np.maximum(y - t, 0.0).sum(),
    "PositionLoss": differ((3, 3), 1),
    # Of the two states only the second one is an entity.
    "EntityErrors": lambda y, t: (y != t).reshape(-1, 2)[:, 1].sum(),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_losses_of_structures_have_their_definitions(name):
    loss, labels, _ = CASES[name]
    for y in labels:
        for t in labels:
            assert loss.value(y, t) == pytest.approx(DEFINITIONS[name](y, t))


def test_every_loss_has_a_case():
    known, shipped = {type(loss) for loss, _, _ in CASES.values()}, [TaskLoss]
    for kind in shipped:
        shipped += [sub for sub in kind.__subclasses__() if sub.__module__.partition(".")[0] == "structopt"]
    missing = {f"{kind.__module__}.{kind.__name__}" for kind in set(shipped) - known if kind.__name__[0] != "_"}
    # The base class, and a loss that is not linear.
    assert missing == {"structopt.losses.base.TaskLoss", "structopt.structures.flow.SquaredFlowLoss"}


def test_hamming_loss_of_steps_is_the_absolute_difference():
    thermometers, counts = steps()
    for y, count in zip(thermometers, counts, strict=True):
        coef, const = Hamming().linear(y)
        np.testing.assert_allclose(thermometers @ coef + const, np.abs(counts - count).sum(axis=1))


def test_siblings_share_the_weight_of_their_parent():
    weights = dict(zip(TREE.nodes, HierarchicalLoss(TREE).weights_, strict=True))
    assert weights == {"r": 1.0, "a": 0.5, "b": 0.5, "c": 0.25, "d": 0.25, "e": 0.5}


def altered(base, **changes):
    """Return a class with other attributes; a function gets the right method and then its arguments."""

    def method(name, change):
        return lambda self, *args, **options: change(functools.partial(getattr(base, name), self), *args, **options)

    own = {name: method(name, change) if callable(change) else change for name, change in changes.items()}
    return type(f"Altered{base.__name__}", (base,), own)


class Remembering(Hamming):
    """Hands out its own array."""

    def linear(self, truth):
        known = vars(self).setdefault("known", {})
        return known.setdefault(np.asarray(truth).tobytes(), super().linear(truth))


class Forgetful(Hamming):
    def __setstate__(self, state):
        self.__dict__ = {**state, "weights": np.array([1.0, 2.0, 3.0, 4.0])}


def permissive(right, y, truth):
    n = min(np.size(y), np.size(truth))
    return right(np.asarray(y)[:n], np.asarray(truth)[:n])


def of(**changes):
    return altered(Hamming, **changes)


WRONG = {
    "free mistakes": ("truth", of(value=lambda right, y, truth: right(y, truth) - 1.0)),
    "affine": ("linear", of(linear=lambda right, truth: (right(truth)[0], right(truth)[1] + 0.01))),
    "squared": ("linear", of(value=lambda right, y, truth: right(y, truth) ** 2)),
    "reversed": ("batch", of(linear_batch=lambda right, truths: (right(truths)[0][::-1], right(truths)[1]))),
    "wrong ones": ("batch", of(_linear_ones=lambda right, ones, n, size: (np.ones(n * size), np.zeros(n)))),
    "most likely": ("expected", of(expected=lambda right, mean: right.args[0].linear(np.rint(mean)))),
    "counted three times": ("counted", of(counted=lambda right, size: 3.0 * right(size))),
    "remembering": ("copies", Remembering),
    "forgetful": ("copies", Forgetful),
    "permissive": ("rejected", of(value=permissive)),
    "short": ("rejected", of(linear=lambda right, truth: right(np.asarray(truth)[:4]))),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_losses_are_found(name):
    law, wrong = WRONG[name]
    assert law in {outcome.check for outcome in check_loss(wrong(), TAGS).failed}


def test_every_law_has_a_loss_that_breaks_it():
    assert {law for law, _ in WRONG.values()} == set(so.testing.LOSS_CHECKS)


def test_labels_are_a_table():
    space = so.LabelSpace()
    space.binary("y", 3)
    assert check_loss(Hamming(), space).ok
    for wrong in ([1.0, 0.0], np.zeros((0, 3))):
        with pytest.raises(so.errors.DeclarationError, match="row per label"):
            check_loss(Hamming(), wrong)

"""Flows: losses, expected absolute loss, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace, UnboundedObjective
from structopt.structures.flow import Flow, SquaredFlowLoss

ARCS = [("s", "u"), ("s", "v"), ("u", "v"), ("u", "t"), ("v", "t"), ("s", "t")]
PATHS = np.array([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]], dtype=float)
UNIT = {"s": 1, "t": -1}


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def test_absolute_loss_at_capacity(rng):
    arcs = [("s", "a"), ("s", "a"), ("a", "t")]
    model = Flow(arcs, {"s": 3, "t": -3}, capacity=[2, 3, 5])
    np.testing.assert_array_equal(model.upper, [2, 3, 3])
    coef, const = model.loss([0, 3, 3])
    for a in np.linspace(0, 2, 5):
        f = model.encode([a, 3 - a, 3])
        assert coef @ f + const == pytest.approx(2 * a)
    with pytest.raises(DeclarationError, match="not linear at a flow of 1 on arc 1, strictly between 0 and 3"):
        model.loss([2, 1, 3])


def test_losses_that_are_not_linear_are_refused():
    model = Flow(ARCS, UNIT, loss="squared")
    with pytest.raises(DeclarationError, match="squared loss is not linear"):
        model.loss(PATHS[0])
    assert model.task_loss.value(PATHS[0], PATHS[1]) == 4
    assert SquaredFlowLoss().value([0.5], [0.0]) == 0.25
    # With a cycle a flow of 1 may be exceeded, so that |f - 1| bends there.
    cyclic = Flow([*ARCS, ("t", "s")], UNIT)
    with pytest.raises(DeclarationError, match="strictly between 0 and inf"):
        cyclic.loss([*PATHS[0], 0])
    batch = Flow(ARCS, UNIT).batch(np.ones((2, 1)))
    with pytest.raises(DeclarationError, match="example 1: block 'flow': the absolute loss is not linear"):
        batch.loss(batch.truth([PATHS[0], PATHS.mean(axis=0)]))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), signed=st.booleans())
def test_least_absolute_risk(seed, signed):
    """Parallel arcs: one free number, so that some bend, or an end, is optimal."""
    rng = np.random.default_rng(seed)
    model = Flow([("s", "t"), ("s", "t")], {"s": 1, "t": -1})
    share = rng.integers(0, 7, size=rng.integers(1, 7)) / 6
    truths = np.column_stack([share, 1 - share])
    w = rng.normal(size=len(share))
    w = w if signed else np.abs(w)

    def risk(f):
        return w @ np.abs(f - truths).sum(axis=1)

    flow, least = model.least_absolute_risk(w, truths)
    ends = np.array([0.0, 1.0, *share])
    assert least == pytest.approx(min(risk(np.array([s, 1 - s])) for s in ends), abs=1e-6)
    assert risk(flow) == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("signed", [False, True])
def test_least_absolute_risk_on_a_network(rng, signed):
    model = Flow(ARCS, UNIT)
    truths = rng.dirichlet(np.ones(4), size=12) @ PATHS
    w = rng.normal(0.1, 0.2, size=12) if signed else rng.dirichlet(np.ones(12))
    flow, least = model.least_absolute_risk(w, truths)
    assert model._complaint(flow) is None
    assert w @ np.abs(flow - truths).sum(axis=1) == pytest.approx(least, abs=1e-6)
    for f in np.vstack([rng.dirichlet(np.full(4, 0.5), size=100) @ PATHS, truths, PATHS]):
        assert w @ np.abs(f - truths).sum(axis=1) >= least - 1e-6


def test_least_absolute_risk_refuses(rng):
    model = Flow(ARCS, UNIT)
    with pytest.raises(DeclarationError, match=r"2 weights need truths of shape \(2, 6\)"):
        model.least_absolute_risk([1, 2], PATHS)
    with pytest.raises(LabelNotInSpace, match="Truth 1: the flow does not balance"):
        model.least_absolute_risk([1, 2], [PATHS[0], 2 * PATHS[0]])
    cyclic = Flow([*ARCS, ("t", "s")], UNIT)
    with pytest.raises(DeclarationError, match="not convex on arc 0, which has no largest flow"):
        cyclic.least_absolute_risk([-1.0, 0.1], np.c_[[PATHS[0], PATHS[1]], [0, 0]] + [1, 0, 0, 1, 0, 0, 1])


@pytest.mark.parametrize(
    ("flow", "told"),
    [
        ([1, 0, 0, 0, 1, 0], "does not balance at node 'u': out - in = -1, its supply is 0, and 1 other"),
        ([1, 0, 0, 1, 0, 1], "does not balance at node 's': out - in = 2, its supply is 1"),
        ([2, -1, 0, 2, -1, 0], "flow on arc 's' -> 'v' is -1, outside"),
        ([1, 0, 0, 1, 0, np.nan], "flow on arc 's' -> 't' is not a number"),
        ([1, 0, 0, 1], "one number for each of the 6 arcs"),
    ],
)
def test_wrong_flows_are_named(flow, told):
    with pytest.raises(LabelNotInSpace, match=told):
        Flow(ARCS, UNIT).encode(flow)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([], {}), "at least one arc"),
        (([("s", "t"), "abc"], UNIT), "Arc 1 is 'abc'"),
        (([("s", "t"), ("t", "t")], UNIT), "Arc 1 leads from 't' to itself"),
        (([("s", "t")], {"s": 1, "x": -1}), "names the node 'x', which has no arc"),
        (([("s", "t")], {"s": 1}), "add up to 1; the flow that enters must leave"),
        (([("s", "t"), ("a", "b")], {"s": 1, "b": -1}), "add up to 1 in the part of the network that holds 's'"),
        (([("s", "t")], {"s": np.nan}), "supply of 's' is not finite"),
        (([("s", "t")], [1, -1]), "must be a mapping"),
        (([("s", "t")], UNIT, [1, 2]), "one per arc"),
        (([("s", "t")], UNIT, -1.0), "capacity of arc 0 is -1"),
        (([("s", "t")], UNIT, None, "huber"), "loss must be"),
    ],
)
def test_wrong_networks_are_named(arguments, told):
    with pytest.raises(DeclarationError, match=told):
        Flow(*arguments)


def test_a_gainful_cycle_without_capacity_is_unbounded():
    model = Flow([*ARCS, ("t", "s")], UNIT)
    with pytest.raises(UnboundedObjective):
        model.oracle().maximize(np.ones(7))
    assert Flow([*ARCS, ("t", "s")], UNIT, capacity=2).oracle().maximize(np.ones(7)).value > 0


def test_batches_name_the_example_and_the_node(rng):
    batch = Flow(ARCS, UNIT).batch(np.ones((2, 1)))
    with pytest.raises(LabelNotInSpace, match="1 of 2 labels cannot be used:\n  example 1: The flow does not balance"):
        batch.truth([PATHS[0], np.zeros(6)])
    with pytest.raises(DeclarationError, match="2 inputs but 4 labels"):
        batch.truth(PATHS)


def test_repr():
    model = Flow(ARCS, UNIT, capacity=1)
    assert repr(model) == "<Flow of 1 on 6 arcs between 4 nodes, with capacities>"


def test_ends_of_arcs_are_names():
    with pytest.raises(DeclarationError, match="The tail of arc 0 must be hashable"):
        so.structures.Flow(np.ones((2, 2, 2)), {"s": 1, "t": -1})

"""Flows in a network: continuous outputs that are conserved at every node (ECRM 6.2)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from structopt.checks import checked, converted, floats, hashable
from structopt.errors import DeclarationError, LabelNotInSpace, marked
from structopt.features import Linear
from structopt.losses import TaskLoss
from structopt.model import Model
from structopt.oracle import Oracle
from structopt.space import LabelSpace
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray
from structopt.space.tolerance import within

__all__ = ["AbsoluteFlowLoss", "Flow", "SquaredFlowLoss"]


class AbsoluteFlowLoss(TaskLoss):
    """``sum_a |f_a - truth_a|``, linear in f where every arc's truth is one of its bounds.

    On an arc whose flow lies in [0, u] the loss is f for a ground truth of 0, and ``u - f`` for a ground truth of u. In
    between it bends at the ground truth, and a convex loss that bends cannot be maximised by a linear program: `linear`
    refuses then. The *expected* absolute loss of any flows is minimised by `Flow.least_absolute_risk`, with auxiliary
    variables.
    """

    @checked
    def __init__(self, upper: npt.ArrayLike) -> None:
        self.upper = np.array(upper, dtype=np.float64).ravel()

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        coef, const = self.linear_batch(np.asarray(truth, dtype=np.float64).reshape(1, -1))
        return coef[0], float(const[0])

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        Y = np.asarray(truths, dtype=np.float64)
        room = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(Y))
        none = np.abs(Y) <= room
        full = ~none & (np.abs(Y - self.upper) <= room)
        between = np.argwhere(~(none | full))
        if between.size:
            i, arc = between[0].tolist()
            where = f"example {marked(i)}: " if len(Y) > 1 else ""
            raise DeclarationError(
                f"{where}the absolute loss is not linear at a flow of {Y[i, arc]:g} on arc {arc}, strictly between "
                f"0 and {self.upper[arc]:g}. Margin losses need 0/1 path flows (or flows at capacity); for fractional "
                "truths minimise the expected loss instead: Flow.least_absolute_risk, ConditionalRiskMinimizer."
            )
        return np.where(full, -1.0, 1.0), np.where(full, Y, 0.0).sum(axis=1)

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(np.abs(np.asarray(y, dtype=np.float64) - np.asarray(truth, dtype=np.float64)).sum())


class SquaredFlowLoss(TaskLoss):
    """``sum_a (f_a - truth_a)^2``: for evaluation, and for conditional risk.

    The expected loss under weights w with sum s > 0 is ``s ||f - mean||^2 + const`` for the weighted mean of the
    truths, so that minimising it projects that mean on the flows: a quadratic program, not a linear form.
    """

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        raise DeclarationError(
            "The squared loss is not linear in the flow; use loss='absolute' with 0/1 path flows for margin training, "
            "or ConditionalRiskMinimizer."
        )

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(np.square(np.asarray(y, dtype=np.float64) - np.asarray(truth, dtype=np.float64)).sum())


class Flow(Model):
    """Flows on the arcs of a network that are conserved at every node; each arc has a weight vector.

    An input is a row of features, a label the array of the flow on each arc.

    Parameters
    ----------
    arcs : sequence of (tail, head)
        Nodes may have any hashable names; parallel arcs are different arcs.
    supply : mapping of node to float
        The flow that enters the network at a node (leaves it, if negative): ``out - in = supply`` (ECRM (14)); 0 for
        the nodes left out.
    capacity : float or array_like, optional
        Largest flow on each arc; none by default. A network with cycles needs one, or scores may be unbounded.
    loss : {"absolute", "squared"} or TaskLoss
        See `AbsoluteFlowLoss` for when it is linear.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Attributes
    ----------
    nodes : tuple
        In the order of their first arc.
    upper : ndarray
        Largest flow that each arc can have: its capacity, and on an acyclic network also the total supply.

    Notes
    -----
    The program is a network matrix, so that flows are integral where supplies and capacities are. One unit through an
    acyclic network is solved as a best path; anything else is min-cost flow, by warm HiGHS (docs/mathematics/oracles).

    Examples
    --------
    >>> import structopt as so
    >>> arcs = [("s", "u"), ("s", "v"), ("u", "t"), ("v", "t"), ("u", "v")]
    >>> model = so.structures.Flow(arcs, {"s": 1, "t": -1})
    >>> model.predict([1.0, 2.0, 1.0, 1.0, 3.0], [1.0])
    array([1., 0., 0., 1., 1.])
    """

    @checked
    def __init__(
        self,
        arcs: Sequence[tuple[Hashable, Hashable]],
        supply: Mapping[Any, float],
        capacity: npt.ArrayLike | None = None,
        loss: str | TaskLoss = "absolute",
        intercept: bool = False,
        solver: Any = "auto",
    ) -> None:
        self.arcs = arcs
        self.supply = supply
        self.capacity = capacity
        self.intercept = intercept
        self.nodes, tail, head = _network(arcs)
        self.incidence = _incidence(len(self.nodes), tail, head)
        self.inflow = _supplies(self.nodes, supply)
        _check_components(self.nodes, tail, head, self.inflow)
        limit = _capacities(capacity, len(tail))
        self.upper = limit if _has_cycle(len(self.nodes), tail, head) else np.minimum(limit, self.total_supply)
        self._limit = limit
        space = LabelSpace("network flow")
        flow = space.continuous("flow", len(tail), 0, limit)
        space.subject_to(self.incidence @ flow == self.inflow, name="conservation")
        self.task_loss = _task_loss(loss, self.upper)
        super().__init__(space, {"flow": Linear(intercept=intercept)}, self.task_loss, solver=solver)

    @property
    def total_supply(self) -> float:
        """Total flow through the network."""
        return float(np.maximum(self.inflow, 0.0).sum())

    def _arc(self, a: int) -> str:
        tail, head = self.arcs[a]
        return f"{tail!r} -> {head!r}"

    def _complaint(self, z: FloatArray) -> str | None:
        """Return what is wrong with a flow, by the names of nodes and arcs; None if nothing is."""
        if z.shape != (len(self.arcs),):
            return f"a flow has one number for each of the {len(self.arcs)} arcs, got shape {z.shape}"
        if not np.isfinite(z).all():
            return f"the flow on arc {self._arc(int(np.argmin(np.isfinite(z))))} is not a number"
        limit = self._limit
        wrong = np.flatnonzero(~within(z, np.abs(z), 1.0, 0.0, limit, FEASIBILITY_TOLERANCE))
        if wrong.size:
            a = int(wrong[0])
            return f"the flow on arc {self._arc(a)} is {z[a]:g}, outside [0, {limit[a]:g}]"
        balance = self.incidence @ z
        size = abs(self.incidence) @ np.abs(z)
        wrong = np.flatnonzero(~within(balance, size, 1.0, self.inflow, self.inflow, FEASIBILITY_TOLERANCE))
        if wrong.size:
            v = int(wrong[0])
            more = f", and {len(wrong) - 1} other nodes do not balance" if len(wrong) > 1 else ""
            return (
                f"the flow does not balance at node {self.nodes[v]!r}: out - in = {balance[v]:g}, "
                f"its supply is {self.inflow[v]:g}{more}"
            )
        return None

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The flow itself, checked."""
        f = np.array(converted("A flow", label))
        wrong = self._complaint(f)
        if wrong is not None:
            raise LabelNotInSpace(f"{wrong[0].upper()}{wrong[1:]}.", (wrong,))
        return f

    def decode(self, z: npt.ArrayLike, x: Any = None) -> FloatArray:
        """The flow of a point."""
        return np.array(floats("z", z, (len(self.arcs),)))

    def least_absolute_risk(self, weights: npt.ArrayLike, truths: npt.ArrayLike) -> tuple[FloatArray, float]:
        """The flow with the least ``sum_i weights_i |f - truths_i|_1``, and that risk (ECRM (5) for flows).

        On each arc the risk is piecewise linear with a bend at every ground truth. Its pieces are auxiliary variables
        that add up to the flow. If the risk is convex (weights that are not negative), that is a linear program;
        weights may be negative, and then 0/1 variables make the pieces fill in order: a mixed-integer program, exact as
        well.

        Parameters
        ----------
        weights : array_like, shape (m,)
        truths : array_like, shape (m, n_arcs)

        Returns
        -------
        flow, value : ndarray and float

        Examples
        --------
        >>> import structopt as so
        >>> model = so.structures.Flow([("s", "t"), ("s", "t")], {"s": 1, "t": -1})
        >>> flow, risk = model.least_absolute_risk([0.2, 0.5, 0.3], [[0, 1], [0.25, 0.75], [1, 0]])
        >>> flow, round(risk, 9)
        (array([0.25, 0.75]), 0.55)
        """
        w, Y = np.asarray(weights, dtype=np.float64), np.asarray(truths, dtype=np.float64)
        if Y.shape != (w.size, len(self.arcs)):
            raise DeclarationError(
                f"{w.size} weights need truths of shape ({w.size}, {len(self.arcs)}), got {Y.shape}."
            )
        for i, f in enumerate(Y):
            wrong = self._complaint(f)
            if wrong is not None:
                raise LabelNotInSpace(f"Truth {i}: {wrong}.", (wrong,))
        space, c, const = _absolute_risk_program(w, Y, self.upper, self.incidence, self.inflow)
        label = Oracle(space).maximize(c)
        return label.z[space["flow"].slice].copy(), const - label.value

    def __repr__(self) -> str:
        limits = "" if self.capacity is None else ", with capacities"
        return f"<Flow of {self.total_supply:g} on {len(self.arcs)} arcs between {len(self.nodes)} nodes{limits}>"


# ---- the network ---------------------------------------------------------------------------------


def _network(arcs: Sequence[tuple[Hashable, Hashable]]) -> tuple[tuple[Any, ...], Any, Any]:
    places: dict[Any, int] = {}
    tail, head = [], []
    for a, arc in enumerate(arcs):
        try:
            start, end = arc
        except (TypeError, ValueError):
            raise DeclarationError(f"Arc {a} is {arc!r}; an arc is a pair (tail, head).") from None
        if hashable(f"The tail of arc {a}", start) == hashable(f"The head of arc {a}", end):
            raise DeclarationError(f"Arc {a} leads from {start!r} to itself.")
        tail.append(places.setdefault(start, len(places)))
        head.append(places.setdefault(end, len(places)))
    if not tail:
        raise DeclarationError("Flow needs at least one arc.")
    return tuple(places), np.array(tail), np.array(head)


def _incidence(n_nodes: int, tail: Any, head: Any) -> sp.csr_array:
    """+1 where an arc leaves, -1 where it arrives."""
    arcs = np.arange(len(tail))
    signs = np.repeat([1.0, -1.0], len(tail))
    entries = (signs, (np.concatenate([tail, head]), np.tile(arcs, 2)))
    return sp.csr_array(entries, shape=(n_nodes, len(tail)))


def _supplies(nodes: tuple[Any, ...], supply: Mapping[Any, float]) -> FloatArray:
    if not isinstance(supply, Mapping):
        raise DeclarationError(f"supply is a mapping from node to number, got {type(supply).__name__}.")
    unknown = [node for node in supply if node not in nodes]
    if unknown:
        raise DeclarationError(f"supply names the node {unknown[0]!r}, which has no arc.")
    inflow = np.array([float(supply.get(node, 0.0)) for node in nodes])
    if not np.isfinite(inflow).all():
        raise DeclarationError(f"The supply of {nodes[int(np.argmin(np.isfinite(inflow)))]!r} is not finite.")
    return inflow


def _check_components(nodes: tuple[Any, ...], tail: Any, head: Any, inflow: FloatArray) -> None:
    graph = sp.csr_array((np.ones(len(tail)), (tail, head)), shape=(len(nodes), len(nodes)))
    count, component = connected_components(graph, directed=False)
    totals = np.bincount(component, inflow, minlength=count)
    wrong = np.flatnonzero(np.abs(totals) > FEASIBILITY_TOLERANCE * max(1.0, float(np.abs(inflow).sum())))
    if wrong.size:
        member = nodes[int(np.argmax(component == wrong[0]))]
        where = "" if count == 1 else f" in the part of the network that holds {member!r}"
        raise DeclarationError(f"Supplies add up to {totals[wrong[0]]:g}{where}; the flow that enters must leave: 0.")


def _has_cycle(n_nodes: int, tail: Any, head: Any) -> bool:
    graph = sp.csr_array((np.ones(len(tail)), (tail, head)), shape=(n_nodes, n_nodes))
    # There are no loops, so that every strong component of a single node means no cycle.
    return bool(connected_components(graph, directed=True, connection="strong")[0] < n_nodes)


def _capacities(capacity: npt.ArrayLike | None, n_arcs: int) -> FloatArray:
    if capacity is None:
        return np.full(n_arcs, np.inf)
    limit = np.asarray(capacity, dtype=np.float64)
    if limit.shape not in ((), (n_arcs,)):
        raise DeclarationError(f"capacity is a number or one per arc ({n_arcs}), got shape {limit.shape}.")
    wrong = np.flatnonzero(~(np.atleast_1d(limit) >= 0))
    if wrong.size:
        raise DeclarationError(f"The capacity of arc {int(wrong[0])} is {np.atleast_1d(limit)[wrong[0]]}.")
    return np.array(np.broadcast_to(limit, (n_arcs,)))


def _task_loss(loss: str | TaskLoss, upper: FloatArray) -> TaskLoss:
    if isinstance(loss, TaskLoss):
        return loss
    if loss == "absolute":
        return AbsoluteFlowLoss(upper)
    if loss == "squared":
        return SquaredFlowLoss()
    raise DeclarationError(f"loss must be 'absolute', 'squared' or a TaskLoss, got {loss!r}.")


# ---- expected absolute loss ----------------------------------------------------------------------


def _absolute_risk_program(
    weights: FloatArray, truths: FloatArray, upper: FloatArray, incidence: sp.csr_array, supply: FloatArray
) -> tuple[LabelSpace, FloatArray, float]:
    """A space and an objective with ``const - max c . z = min over flows f of sum_i weights_i |f - truths_i|_1``.

    The flow of an arc is the sum of its pieces, one between each two neighbouring ground truths, where the risk has a
    constant slope. Pieces of increasing slope fill in order by themselves, since cheaper ones come first. Where the
    slope falls, a 0/1 variable opens the pieces that follow only if all before are full.
    """
    pieces = [_pieces(weights, truths[:, a], float(upper[a])) for a in range(truths.shape[1])]
    lengths, slopes = (np.concatenate([piece[k] for piece in pieces]) for k in (0, 1))
    arc = np.repeat(np.arange(len(pieces)), [len(piece[0]) for piece in pieces])
    space = LabelSpace("expected absolute loss of a flow")
    flow = space.continuous("flow", len(pieces), 0, upper)
    piece = space.continuous("piece", len(lengths), 0, lengths)
    space.subject_to(incidence @ flow == supply, name="conservation")
    space.subject_to(flow == _sums(arc, len(pieces)) @ piece, name="pieces")
    falls = (np.diff(slopes) < -1e-12 * np.abs(weights).sum()) & (np.diff(arc) == 0)
    if falls.any():
        # Runs of pieces with increasing slopes; a run is opened by its predecessor on the same arc.
        run = np.concatenate([[0], np.cumsum(falls | (np.diff(arc) > 0))])
        size = np.bincount(run, lengths)
        later = run[1:][falls]
        if not np.isfinite(size[later]).all():
            raise DeclarationError(
                f"The risk is not convex on arc {int(arc[1:][falls][0])}, which has no largest flow; give capacity=."
            )
        total = _sums(run, len(size)) @ piece
        opened = space.binary("opened", len(later))
        space.subject_to(total[later - 1] >= size[later - 1] * opened, name="full")
        space.subject_to(total[later] <= size[later] * opened, name="open")
    c = np.zeros(space.n_variables)
    c[space["piece"].slice] = -slopes
    return space, c, float(weights @ np.abs(truths).sum(axis=1))


def _pieces(weights: FloatArray, truth: FloatArray, upper: float) -> tuple[FloatArray, FloatArray]:
    """Lengths and slopes of ``sum_i weights_i |f - truth_i|`` on [0, upper]."""
    order = np.argsort(truth)
    bends, first = np.unique(np.clip(truth[order], 0.0, upper), return_index=True)
    passed = np.concatenate([[0.0], np.cumsum(weights[order])])
    ends = np.concatenate([[0.0], bends, [upper]])
    slopes = 2 * np.concatenate([passed[first], passed[-1:]]) - passed[-1]
    lengths = np.diff(ends)
    kept = lengths > 0
    return lengths[kept], slopes[kept]


def _sums(group: npt.NDArray[np.intp], n_groups: int) -> sp.csr_array:
    return sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(n_groups, len(group)))

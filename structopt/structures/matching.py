"""Matchings of a general graph: pairs of nodes, no node in two of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from structopt._jit import IntArray
from structopt.algorithms.cuts import cuts_below
from structopt.checks import call_text, checked, floats, integers, numeric
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Shared
from structopt.losses import TaskLoss
from structopt.model import Model
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.lazy import concurrent

__all__ = ["Matching", "WrongPartners", "odd_sets"]

#: The border of an odd set is too light if it is below 1 by this much.
_TOLERANCE = 1e-5


class WrongPartners(TaskLoss):
    """Number of nodes with a wrong partner; no partner is a partner too. ``normalize=True`` divides by the nodes."""

    @checked
    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _scale(self, size: int) -> float:
        return 1.0 / max(1, math.isqrt(size)) if self.normalize else 1.0

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        return self.expected(truth)

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float]:
        given = np.asarray(mean, dtype=np.float64)
        nodes = math.isqrt(given.size)
        edges = np.triu(given.reshape(nodes, nodes), 1)
        free = 1.0 - edges.sum(axis=0) - edges.sum(axis=1)
        coef = np.triu(free[:, None] + free - 2.0 * edges, 1)
        scale = self._scale(given.size)
        return scale * coef.ravel(), scale * 2.0 * float(edges.sum())

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        nodes = math.isqrt(np.size(truth))
        found, wanted = (partners_of(np.asarray(edges, dtype=np.float64).reshape(nodes, nodes)) for edges in (y, truth))
        return self._scale(nodes * nodes) * float((found != wanted).sum())


@concurrent
def odd_sets(z: dict[str, FloatArray]) -> tuple[sp.csr_array, float, FloatArray] | None:
    """Return the odd sets S of nodes with more than ``(|S| - 1) / 2`` edges inside, as rows.

    Together with the degrees, these inequalities are the matching polytope (Edmonds, *Maximum matching and a polyhedron
    with 0,1-vertices*, 1965). With the slack ``1 - x(v)`` of every node as an edge to a further node, S violates its
    inequality if its border weighs less than 1: a smallest odd cut finds one wherever there is one, and it is looked
    for in each connected component of the edges in use.
    """
    used = np.triu(z["edge"], 1)
    weights = used + used.T
    fraction = np.abs(weights - np.rint(weights)) > _TOLERANCE
    if not fraction.any():
        return None
    # Edges of weight 1 are components of their own: at a fractional one their nodes have no other edge.
    _, part = connected_components(sp.csr_array(weights > _TOLERANCE), directed=False)
    sets = [odd for k in np.unique(part[fraction.any(axis=1)]) for odd in _light_sets(weights, part == k)]
    if not sets:
        return None
    sides = np.unique(np.array(sets), axis=0)
    inside = np.triu(sides[:, :, None] & sides[:, None, :], 1).reshape(len(sides), -1).astype(np.float64)
    upper = (sides.sum(axis=1) - 1.0) / 2.0
    violated = inside @ used.ravel() > upper + 0.25 * _TOLERANCE
    return (sp.csr_array(inside[violated]), -np.inf, upper[violated]) if violated.any() else None


def _light_sets(weights: FloatArray, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return odd sets within one component whose border is too light."""
    members = np.flatnonzero(chosen)
    graph = np.zeros((len(members) + 1, len(members) + 1))
    graph[1:, 1:] = weights[np.ix_(members, members)]
    graph[0, 1:] = graph[1:, 0] = np.maximum(0.0, 1.0 - graph[1:, 1:].sum(axis=1))
    marked = np.ones(len(graph), dtype=np.bool_)
    marked[0] = len(members) % 2 == 1
    cuts = cuts_below(graph, marked, 1.0 - _TOLERANCE)
    sides = np.zeros((len(cuts), len(weights)), dtype=np.bool_)
    sides[:, members] = cuts[:, 1:]
    return sides


class Matching(Model):
    """Matchings of the nodes of an input with each other: pairs of players, of atoms that bond, of trips to share.

    An input is an array ``(n, n, d)`` of features of pairs (or a CSR matrix with its rows in that order), of which
    those of ``i < j`` are used; the others must be finite. A label is an array of the partner of each node, -1 where it
    has none. All pairs share one weight vector. For two sides of which each node of one is matched with one of the
    other, see `Assignment`.

    Parameters
    ----------
    perfect : bool
        Whether every node has a partner.
    edges : array_like of int, shape (n_edges, 2), optional
        The pairs that may be matched, of every input; all by default.
    loss : TaskLoss, optional
        A loss on the edges, a 0/1 matrix whose upper triangle is used; `WrongPartners` by default.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        Solver of the programs; ``"auto"`` is HiGHS.
    integral : {"auto", "relax", "force"}
        As in `structopt.Oracle`. The LP relaxation with the odd sets is integral.

    Notes
    -----
    Only the degrees of the declared program are listed. The odd-set inequalities, one for every odd set of nodes, are
    lazy rows (`LabelSpace.lazy`), found by smallest odd cuts where a point violates them.

    Examples
    --------
    The best pair, 1 and 2, is not in the best matching:

    >>> import numpy as np
    >>> import structopt as so
    >>> score = np.zeros((4, 4, 1))
    >>> score[0, 1], score[1, 2], score[2, 3], score[0, 3] = 5.0, 6.0, 4.0, 2.0
    >>> so.structures.Matching().predict([1.0], score)
    array([1, 0, 3, 2])
    """

    _key_is_proved = True

    @checked
    def __init__(
        self,
        perfect: bool = False,
        edges: npt.ArrayLike | None = None,
        loss: TaskLoss | None = None,
        intercept: bool = False,
        solver: Any = "auto",
        integral: str = "auto",
    ) -> None:
        self.perfect = perfect
        self.edges = edges
        self.intercept = intercept
        self._pairs = None if edges is None else _pairs(edges)
        super().__init__(
            self._program,
            {"edge": Shared(intercept=intercept)},
            loss or WrongPartners(),
            key=_n_nodes,
            solver=solver,
            integral=integral,
        )

    def _program(self, x: Any) -> LabelSpace:
        nodes = _n_nodes(x)
        space = LabelSpace(f"{'perfect ' if self.perfect else ''}matchings of {nodes} nodes")
        edge = space.integer("edge", (nodes, nodes), 0, self._exists(nodes))
        degree = edge.sum(axis=1) + edge.sum(axis=0)
        space.subject_to(degree == 1 if self.perfect else degree <= 1, name="one partner")
        space.lazy(odd_sets, name="odd sets")
        return space

    def _exists(self, nodes: int) -> npt.NDArray[np.bool_]:
        """Which pairs are edges, above the diagonal."""
        if self.perfect and nodes % 2:
            raise DeclarationError(
                f"{nodes} nodes cannot all have partners: their number is odd. Leave one out, or allow perfect=False."
            )
        if self._pairs is None:
            return np.triu(np.ones((nodes, nodes), dtype=bool), 1)
        if self._pairs.size and self._pairs.max() >= nodes:
            pair = self._pairs[self._pairs[:, 1].argmax()]
            raise DeclarationError(f"Edge {tuple(pair.tolist())} joins a node beyond the {nodes} nodes of this input.")
        exists = np.zeros((nodes, nodes), dtype=bool)
        exists[self._pairs[:, 0], self._pairs[:, 1]] = True
        return exists

    # ---- labels ----------------------------------------------------------------------------------

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point of an array of partners."""
        given = numeric("A matching", label)
        if given.ndim != 1 or given.dtype.kind not in "iuf" or not (given == np.rint(given)).all():
            raise DeclarationError(f"A matching is one partner per node, got an array of {given.dtype} {given.shape}.")
        nodes = given.size if x is None else _n_nodes(x)
        partner = given.astype(np.int64)
        if partner.size != nodes:
            raise LabelNotInSpace(f"A matching of {nodes} nodes has a partner for each, -1 for none; got {partner}.")
        z = np.zeros((nodes, nodes))
        for i, j in enumerate(partner.tolist()):
            if j == -1 and not self.perfect:
                continue
            if not 0 <= j < nodes or j == i or partner[j] != i:
                raise LabelNotInSpace(_complaint(partner, i, self.perfect), (f"one partner[{i}]",))
            z[min(i, j), max(i, j)] = 1.0
        missing = np.argwhere((z > 0) & ~self._exists(nodes))
        if missing.size:
            raise LabelNotInSpace(f"Nodes {missing[0][0]} and {missing[0][1]} are partners, but not among the edges.")
        return z.ravel()

    def decode(self, z: npt.ArrayLike, x: Any = None) -> IntArray:
        """The partner of each node; of a fraction, a matching by its largest edges."""
        point = floats("z", z, ndim=1)
        nodes = math.isqrt(point.size)
        if nodes * nodes != point.size or not nodes:
            raise DeclarationError(f"A point with {point.size} entries is not one of a matching.")
        used = np.triu(point.reshape(nodes, nodes), 1)
        return partners_of(used if np.abs(used - np.rint(used)).max() <= 1e-6 else self._by_largest(used))

    def _by_largest(self, used: FloatArray) -> FloatArray:
        """A matching near a fractional point: the one with the largest sum of values."""
        nodes = len(used)
        program = Matching(self.perfect, self.edges)
        # Edges that the point does not use cost a little, so that only a perfect matching takes them.
        return program.oracle(np.zeros((nodes, nodes, 1))).maximize((used - 1e-9).ravel()).z.reshape(nodes, nodes)

    def loss(self, label: Any, x: Any = None) -> tuple[FloatArray, float]:
        """Coefficients and constant of the task loss of this ground truth."""
        return self._loss_at(self.encode(label, x), np.zeros((len(label), len(label), 1)) if x is None else x)

    __repr__ = call_text


def partners_of(edges: FloatArray) -> IntArray:
    """The partner of each node of a 0/1 matrix whose upper triangle is a matching; -1 for none."""
    partner = np.full(len(edges), -1)
    i, j = np.nonzero(np.triu(edges, 1) > 0.5)
    partner[i], partner[j] = j, i
    return partner


def _complaint(partner: IntArray, i: int, perfect: bool) -> str:
    j = int(partner[i])
    if j == -1:
        return f"Node {i} has no partner; perfect=False allows that."
    if not 0 <= j < len(partner):
        return f"Node {i} has the partner {j}; nodes are 0 to {len(partner) - 1}{'' if perfect else ', -1 for none'}."
    if j == i:
        return f"Node {i} is its own partner; {'every node has another' if perfect else '-1 is for none'}."
    return f"Node {i} has the partner {j}, whose own partner is {partner[j]}."


def _n_nodes(x: Any) -> int:
    shape = tuple(x.shape) if sp.issparse(x) else numeric("An input of a matching", x).shape
    nodes = (math.isqrt(shape[0]) if sp.issparse(x) else shape[0]) if shape else 0
    if not nodes or (shape[0] != nodes * nodes if sp.issparse(x) else shape[:2] != (nodes, nodes)):
        raise DeclarationError(f"An input of a matching has shape (n, n, d), got {shape}.")
    return int(nodes)


def _pairs(edges: npt.ArrayLike) -> IntArray:
    pairs = integers("edges", edges)
    if pairs.size and (pairs.ndim != 2 or pairs.shape[1] != 2):
        raise DeclarationError(f"edges must be pairs of nodes, an array of shape (m, 2); got shape {pairs.shape}.")
    pairs = np.sort(pairs.reshape(-1, 2), axis=1)
    wrong = np.flatnonzero((pairs[:, 0] < 0) | (pairs[:, 0] == pairs[:, 1]))
    if wrong.size:
        raise DeclarationError(f"Edge {tuple(pairs[wrong[0]].tolist())} does not join two nodes 0, 1, ....")
    return np.unique(pairs, axis=0).astype(np.int64)

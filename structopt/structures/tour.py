"""Tours: every node once and back to the first, as a traveller would learn to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.algorithms.cuts import cuts_below
from structopt.checks import call_text, checked, floats, numeric
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Shared
from structopt.losses import TaskLoss
from structopt.losses.variables import WrongEdges
from structopt.model import Model
from structopt.recognize._kernels import components
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.lazy import concurrent

__all__ = ["Tour", "subtours"]

#: A cut of a tour's relaxation is too small if it is below 2 by this much.
_TOLERANCE = 1e-5


@concurrent
def subtours(z: dict[str, FloatArray]) -> tuple[sp.csr_array, float, FloatArray] | None:
    """Return the sets of nodes that a point enters or leaves less than a tour must, as rows.

    With two edges at every node (directed: one in, one out) a tour crosses the border of every set of nodes twice, and
    a set S that is crossed less has more than ``|S| - 1`` edges inside: the subtour inequalities of Dantzig, Fulkerson
    and Johnson, *Solution of a large-scale traveling-salesman problem* (1954). Sets are the connected components, or,
    where all nodes are connected, found by minimum cuts, so that a violated inequality is found wherever there is one.
    """
    used = z["edge"]
    nodes, weights = len(used), used + used.T
    sides = _light_sides(weights)
    if not len(sides):
        return None
    # A set and its complement have the same inequality; the smaller one has fewer terms.
    sides = np.unique(np.where((sides.sum(axis=1) * 2 > nodes)[:, None], ~sides, sides), axis=0)
    inside = sides[:, :, None] & sides[:, None, :]
    inside[:, np.arange(nodes), np.arange(nodes)] = False
    rows = inside.reshape(len(sides), -1).astype(np.float64)
    upper = sides.sum(axis=1) - 1.0
    violated = rows @ used.ravel() > upper + 0.5 * _TOLERANCE
    return (sp.csr_array(rows[violated]), -np.inf, upper[violated]) if violated.any() else None


def _light_sides(weights: FloatArray) -> npt.NDArray[np.bool_]:
    """Return connected components, or sides of cuts that are too light."""
    first, second = np.nonzero(weights > _TOLERANCE)
    n_parts, part = components(first, second, len(weights))
    if n_parts > 1:
        return np.asarray(part == np.arange(n_parts)[:, None])
    if (weights == np.rint(weights)).all():
        return np.zeros((0, len(weights)), dtype=np.bool_)
    return np.asarray(cuts_below(weights, np.zeros(0, dtype=np.bool_), 2.0 - _TOLERANCE))


class Tour(Model):
    """Tours through all nodes of an input and back: routes, with a traveller's taste to be learned.

    An input is an array ``(n, n, d)`` of edge features, row = from, column = to (or a CSR matrix with its rows in that
    order). An undirected tour uses those of ``i < j`` only; the others must be finite. A label is an array of the n
    nodes in the order of the visits, from any of them on. All edges share one weight vector.

    Parameters
    ----------
    directed : bool
        Whether an edge and its reverse differ.
    loss : TaskLoss, optional
        A loss on the edges; `WrongEdges` by default.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        Solver of the programs; ``"auto"`` is HiGHS.
    integral : {"auto", "relax", "force"}
        As in `structopt.Oracle`; ``"relax"`` trains over the subtour relaxation.

    Notes
    -----
    Only the degrees of the declared program are listed. The subtour inequalities, more than ``2^(n - 1)``, are lazy
    rows (`LabelSpace.lazy`): they are found by connected components and minimum cuts where a point violates them.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> place = np.array([[0, 0], [0, 3], [4, 3], [4, 0], [2, 5]])
    >>> distance = np.linalg.norm(place[:, None] - place[None], axis=2)
    >>> so.structures.Tour().predict([-1.0], distance[:, :, None])              # one feature: the distance
    array([0, 1, 4, 2, 3])
    """

    _key_is_proved = True

    @checked
    def __init__(
        self,
        directed: bool = False,
        loss: TaskLoss | None = None,
        intercept: bool = False,
        solver: Any = "auto",
        integral: str = "auto",
    ) -> None:
        self.directed = directed
        self.intercept = intercept
        super().__init__(
            self._program,
            {"edge": Shared(intercept=intercept)},
            loss or WrongEdges(),
            key=_n_nodes,
            solver=solver,
            integral=integral,
        )

    def _program(self, x: Any) -> LabelSpace:
        nodes = _n_nodes(x)
        least = 2 if self.directed else 3
        if nodes < least:
            raise DeclarationError(f"A tour has at least {least} nodes, this input has {nodes}.")
        space = LabelSpace(f"{'directed ' if self.directed else ''}tours of {nodes} nodes")
        every = np.ones((nodes, nodes), dtype=bool)
        exists = every & ~np.eye(nodes, dtype=bool) if self.directed else np.triu(every, 1)
        edge = space.integer("edge", (nodes, nodes), 0, exists)
        if self.directed:
            space.subject_to(edge.sum(axis=1) == 1, name="leave once")
            space.subject_to(edge.sum(axis=0) == 1, name="enter once")
        else:
            space.subject_to(edge.sum(axis=1) + edge.sum(axis=0) == 2, name="two edges")
        space.lazy(subtours, name="subtours")
        return space

    # ---- labels ----------------------------------------------------------------------------------

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point of a list of nodes in the order of the visits."""
        given = numeric("A tour", label)
        if given.ndim != 1 or given.dtype.kind not in "iuf" or not (given == np.rint(given)).all():
            raise DeclarationError(f"A tour is one number per node, got an array of {given.dtype} {given.shape}.")
        nodes = given.size if x is None else _n_nodes(x)
        order = given.astype(np.int64)
        if order.size != nodes or not np.array_equal(np.sort(order), np.arange(nodes)):
            raise LabelNotInSpace(f"A tour of {nodes} nodes visits each of 0, ..., {nodes - 1} once; got {order}.")
        z = np.zeros((nodes, nodes))
        tail, head = order, np.roll(order, -1)
        if not self.directed:
            tail, head = np.minimum(tail, head), np.maximum(tail, head)
        z[tail, head] = 1.0
        return z.ravel()

    def decode(self, z: npt.ArrayLike, x: Any = None) -> IntArray:
        """The nodes from 0 on, undirected towards the smaller neighbour; of a fraction, a tour by its largest edges."""
        point = floats("z", z, ndim=1)
        nodes = math.isqrt(point.size)
        if nodes * nodes != point.size or not nodes:
            raise DeclarationError(f"A point with {point.size} entries is not one of a tour.")
        used = point.reshape(nodes, nodes)
        if np.abs(used - np.rint(used)).max() > 1e-6:
            used = _by_largest(used, self.directed)
        return _walk(used, self.directed)

    def loss(self, label: Any, x: Any = None) -> tuple[FloatArray, float]:
        """Coefficients and constant of the task loss of this ground truth."""
        point = self.encode(label, x)
        return self._loss_at(point, np.zeros((len(label), len(label), 1)) if x is None else x)

    __repr__ = call_text


def _n_nodes(x: Any) -> int:
    if not sp.issparse(x):
        x = numeric("An input of a tour", x)
        if x.ndim < 2:
            raise DeclarationError(f"An input of a tour has shape (n, n, d), got {x.shape}.")
    rows = int(x.shape[0] if not sp.issparse(x) else math.isqrt(x.shape[0]))
    wanted = (rows * rows,) if sp.issparse(x) else (rows, rows)
    if tuple(x.shape[: len(wanted)] if sp.issparse(x) else np.shape(x)[:2]) != wanted:
        raise DeclarationError(f"An input of a tour has shape (n, n, d), got {np.shape(x)}.")
    return rows


def _walk(used: FloatArray, directed: bool) -> IntArray:
    """The nodes of an integral tour in order."""
    nodes = len(used)
    table = used > 0.5 if directed else (used + used.T) > 0.5
    order, left = [0], {0}
    for _ in range(nodes - 1):
        onward = [int(v) for v in np.flatnonzero(table[order[-1]]) if int(v) not in left]
        if not onward:
            raise DeclarationError("This point is not a tour: it returns to the first node too early.")
        order.append(onward[0])
        left.add(onward[0])
    return np.array(order)


def _by_largest(used: FloatArray, directed: bool) -> FloatArray:
    """A tour made of the largest edges of a fractional point that fit together."""
    nodes = len(used)
    weights = used if directed else np.triu(used + used.T, 1)
    chosen = np.zeros_like(used)
    out_left = np.ones(nodes, dtype=int) if directed else np.full(nodes, 2)
    in_left = np.ones(nodes, dtype=int) if directed else out_left
    part = np.arange(nodes)
    for place in np.argsort(-weights, axis=None, kind="stable").tolist():
        i, j = divmod(place, nodes)
        if i == j or (not directed and i > j) or not out_left[i] or not in_left[j] or part[i] == part[j]:
            continue
        chosen[i, j] = 1.0
        out_left[i] -= 1
        in_left[j] -= 1
        part[part == part[j]] = part[i]
    # The two ends of one path are left.
    i = int(np.flatnonzero(out_left)[0])
    j = int(np.flatnonzero(in_left)[-1])
    chosen[(i, j) if directed else (min(i, j), max(i, j))] = 1.0
    return chosen

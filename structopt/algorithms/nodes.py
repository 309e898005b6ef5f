"""Labels of a hierarchy as sparse rows over its nodes, from the scores of the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import FloatArray, IntArray
from structopt.algorithms.closure import ClosureAlgorithm
from structopt.algorithms.fronts import FrontPlan, Fronts
from structopt.algorithms.leaf_sets.algorithm import LeafSetAlgorithm
from structopt.algorithms.leaves import LeafAlgorithm
from structopt.algorithms.parts import Losses, Maxima, PartFronts, Parts, PartSolver, with_truth
from structopt.algorithms.tree import TreeAlgorithm

__all__ = ["NodeAlgorithm", "NodeParts"]

NodeAlgorithm = LeafAlgorithm | TreeAlgorithm | ClosureAlgorithm | LeafSetAlgorithm

# Losses of sets of nodes are made for fronts if they have no more entries.
_FRONT_ENTRIES = 1 << 23
# Errors below are those of the ground truth, up to rounding.
_NO_ERROR = 1e-12


class NodeParts(PartSolver):
    """The algorithm of the kind of label; a node's gain is its score times its factor."""

    splits = False  # a solver starts each piece of a batch without a basis
    most_entries = 1 << 21  # 16 MB
    adds_loss = True

    def __init__(self, algorithm: NodeAlgorithm, n_nodes: int, factor: FloatArray | None) -> None:
        self.algorithm, self.width, self._factor = algorithm, n_nodes, factor

    def gains(self, parts: Parts) -> FloatArray:
        """Return the gains of the nodes, with the losses."""
        rows = parts.scores if self._factor is None else parts.scores * self._factor
        return rows if parts.loss is None else parts.loss.added(rows)

    def maximize_parts(self, parts: Parts) -> Maxima:
        gains = self.gains(parts)
        if isinstance(self.algorithm, LeafSetAlgorithm):
            return Maxima(*self.algorithm.columns_and_bounds(gains.T))
        # The kernels of leaves and trees take (nodes, examples).
        rows = gains.T if isinstance(self.algorithm, ClosureAlgorithm) else np.ascontiguousarray(gains.T)
        return Maxima(*self.algorithm.maximize_columns(rows, parts.examples.tolist()))

    def front_plan(self, losses: Losses, ptr: IntArray) -> PartFronts | None:
        if isinstance(self.algorithm, LeafAlgorithm):
            return _LeafFronts(self, self.algorithm.rows, losses)
        few = len(losses.const) * self.width <= _FRONT_ENTRIES
        if not few or isinstance(self.algorithm, LeafSetAlgorithm):
            return None
        plan = self.algorithm.front_plan(losses.coef, losses.const)
        return None if plan is None else _NodeFronts(self, plan)


class _NodeFronts(PartFronts):
    """Fronts of sets of nodes on trees."""

    def __init__(self, solver: NodeParts, plan: FrontPlan) -> None:
        self._solver, self._plan = solver, plan
        self.cost, self.entries = plan.cost, plan.entries

    def fronts(self, parts: Parts, truth: Any, between: tuple[FloatArray, FloatArray] | None = None) -> Fronts:
        gains, truths = np.ascontiguousarray(self._solver.gains(parts)), truth[parts.examples].toarray()
        own = np.einsum("ij,ij->i", gains, truths)
        front = with_truth(self._plan.fronts(gains, -own, parts.examples, parts.n_jobs), truths)
        return Fronts(front.ptr, front.h, front.g, lambda places: sp.csr_array(front.decode(places)))


class _LeafFronts(PartFronts):
    """All leaves, for labels of one leaf; `paths` are the leaves with their ancestors."""

    def __init__(self, solver: NodeParts, paths: sp.csr_array, losses: Losses) -> None:
        self._solver, self._paths, self._losses = solver, paths, losses
        self.cost = 3.0
        self.entries = np.full(len(losses.const), 4 * solver.width)

    def fronts(self, parts: Parts, truth: Any, between: tuple[FloatArray, FloatArray] | None = None) -> Fronts:
        gains, truths, paths = self._solver.gains(parts), truth[parts.examples], self._paths
        own = np.asarray(truths.multiply(gains).sum(axis=1)).reshape(-1, 1)
        margin = (paths @ np.ascontiguousarray(gains.T)).T - own
        error = self._losses.products(paths, parts.examples) + self._losses.const[parts.examples][:, None]
        error[error <= _NO_ERROR] = 0.0  # the ground truth, and leaves that no weight distinguishes from it
        ptr = np.arange(len(parts.examples) + 1) * paths.shape[0]

        def decode(places: IntArray) -> sp.csr_array:
            idle = places < 0
            rows = paths[np.where(idle, 0, places - ptr[:-1])]
            return _rows_from(truths, rows, idle) if idle.any() else rows

        return Fronts(ptr, np.ascontiguousarray(margin).ravel(), error.ravel(), decode)


def _rows_from(first: sp.csr_array, second: sp.csr_array, which: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return the rows of `first` where `which` is true, of `second` elsewhere."""
    both = sp.csr_array(sp.vstack([first, second], format="csr"))
    n = len(which)
    return both[np.where(which, np.arange(n), n + np.arange(n))]

"""`DiagramAlgorithm`: the algorithm protocol over the arrays of a decision diagram."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.diagram.diagram import Diagram
from structopt.algorithms.diagram.fronts import (
    DiagramFronts,
    decode_levels,
    front_chunk,
    loss_levels,
    pareto_front,
    quanta_of,
)
from structopt.algorithms.diagram.k_best import k_best_labels
from structopt.algorithms.diagram.longest_path import best_label, best_labels
from structopt.algorithms.diagram.side_constraints import GAVE_UP, NO_LABEL, best_within
from structopt.algorithms.diagram.sums import covariances, expectations, log_sums, sample_labels
from structopt.algorithms.fronts import FrontPlan
from structopt.algorithms.question import Question
from structopt.backends.base import SideConstraints
from structopt.errors import InfeasibleSpace
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray
from structopt.space.tolerance import row_units

__all__ = ["DiagramAlgorithm"]

#: Numbers in the table of a front (64 MB), pairs of a front of real losses, paths of a constrained search.
_MOST_ENTRIES, _MOST_PAIRS, _MOST_PATHS = 1 << 23, 2_000_000, 300_000
#: Examples of a batch below which threads do not pay.
_PIECE = 64


class DiagramAlgorithm(Algorithm):
    """A label space by its decision diagram: exact, and linear in the number of arcs.

    Parameters
    ----------
    diagram : Diagram

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.algorithms.diagram import DiagramAlgorithm, compile_diagram
    >>> space = so.LabelSpace.from_matrices([[3, 5, 2, 7]], 0, 8)
    >>> algorithm = DiagramAlgorithm(compile_diagram(space.compiled))
    >>> algorithm.maximize(np.array([1.0, 3.0, 1.5, 3.5])).z
    array([0., 1., 1., 0.])
    >>> algorithm.k_best(np.array([1.0, 3.0, 1.5, 3.5]), 3).values
    array([4.5, 4. , 3.5])
    """

    name = "decision diagram"
    answers = ~Question(0)

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram
        self._arrays = diagram.arrays
        self._packed = diagram.packed

    def seconds_per_call(self, batch: bool) -> float:
        """What a call takes, by a fit over many spaces: one by itself, or one of a large batch."""
        arcs, pairs = self.diagram.n_arcs, len(self.diagram.label_variable)
        if batch:
            return 1e-7 + 0.3e-9 * arcs + 0.5e-9 * pairs
        return 1.6e-6 + 1.5e-9 * arcs + 1.2e-9 * pairs

    # ---- the best label --------------------------------------------------------------------------

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        """The best label; of equal ones that of the first arcs."""
        if not c.flags.carray:  # contiguous and writable, as `_writable` makes it
            c = _writable(c)
        z = np.empty(c.size)
        value = best_label(*self._packed, c, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        """The best label for every row of `C`, sixteen rows side by side through the diagram."""
        costs = _writable(C)
        Z, values = np.empty(costs.shape), np.empty(len(costs))

        def solve(first: int, last: int) -> None:
            best_labels(self._arrays, costs[first:last], Z[first:last], values[first:last])

        in_threads(solve, len(costs), min(n_jobs, 1 + len(costs) // _PIECE))
        return Solutions(Z, values, values.copy())

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        """The `k` best labels, fewer if there are fewer."""
        if k < 1:
            return Solutions(np.empty((0, len(c))), np.empty(0), np.empty(0))
        Z = k_best_labels(self._arrays, _writable(c), k)
        values = Z @ c
        # Values are c . z; a path found later may be better in the last bit.
        order = np.argsort(-values, kind="stable")
        return Solutions(Z[order], values[order], values[order])

    def maximize_outside(self, c: FloatArray, no_goods: FloatArray) -> Optimum | None:
        """The best label that is none of the rows of `no_goods`: among the ``len(no_goods) + 1`` best, by label."""
        k = 2
        while True:
            k = min(k, len(no_goods) + 1)
            found = self.k_best(c, k)
            for i, z in enumerate(found.Z):
                if not (np.abs(no_goods - z).max(axis=1, initial=0.0) <= FEASIBILITY_TOLERANCE).any():
                    return found.row(i)
            if len(found.Z) < k or k > len(no_goods):
                raise InfeasibleSpace("Every label of the space is forbidden.")
            k *= 4

    def maximize_constrained(
        self, c: FloatArray, side_constraints: SideConstraints, max_paths: int = _MOST_PATHS
    ) -> Optimum | None:
        """The best label within side constraints; None if the search has not found it after `max_paths` paths."""
        matrix, lower, upper = side_constraints
        rows = matrix.toarray()
        z = np.empty(len(c))
        ended = best_within(
            self._arrays,
            _writable(c),
            rows,
            _writable(lower),
            _writable(upper),
            row_units(matrix.indptr, matrix.data),
            FEASIBILITY_TOLERANCE,
            max_paths,
            z,
        )
        if ended == GAVE_UP:
            return None
        if ended == NO_LABEL:
            raise InfeasibleSpace("No label of the space satisfies the side constraints of this call.")
        value = float(c @ z)
        return Optimum(z, value, value)

    # ---- two criteria ----------------------------------------------------------------------------

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        """Labels that hold the maximum of every ``psi(h, g)`` non-decreasing in both, by falling h, or None."""
        h, g = _writable(h), _writable(g)
        quanta = quanta_of(self._arrays, g[None])
        if quanta[0] > 0.0:
            levels = loss_levels(self._arrays, g[None], quanta)
            chunk = front_chunk(self._arrays, h[None], levels, _MOST_ENTRIES)
            if chunk[0]:
                best = chunk[1][: levels[3][1]]  # of one example, which is in no lane
                # From the largest loss down, a level counts if its h exceeds all before it.
                places = np.arange(len(best))[::-1]
                before = np.concatenate([[-np.inf], np.maximum.accumulate(best[::-1])[:-1]])
                places = places[best[::-1] > before][::-1]
                Z = np.empty((len(places), len(h)))
                for row, place in enumerate(places.tolist()):
                    decode_levels(self._arrays, h[None], levels, chunk, np.array([place]), Z[row : row + 1])
                return Z[np.argsort(-(Z @ h), kind="stable")]
        Z = pareto_front(self._arrays, h, g, _MOST_PAIRS)
        return Z if len(Z) else None

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        """Tables of the best h by levels of the loss; None for losses that are no multiples of one number."""
        losses = _writable(G)
        quanta = quanta_of(self._arrays, losses)
        if (quanta == 0.0).any():
            return None
        plan = DiagramFronts(self.diagram, losses, np.asarray(g_const, dtype=np.float64), quanta)
        return None if plan.size > _MOST_ENTRIES else plan

    # ---- sums over all labels --------------------------------------------------------------------

    def count(self) -> int:
        """The number of labels."""
        return self.diagram.count()

    def log_partition(self, C: FloatArray) -> FloatArray:
        """``log sum_z exp(c . z)`` for every row of `C`."""
        costs = _writable(np.atleast_2d(C))
        out = np.empty(len(costs))
        log_sums(self._arrays, costs, out)
        return out

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`log_partition` and `marginals` in one pass."""
        mean, total = self._expectations(C)
        return total, mean

    def marginals(self, C: FloatArray) -> FloatArray:
        """Expected labels under ``p(z) ~ exp(c . z)``, for every row of `C`: probabilities, for 0/1 variables.

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> from structopt.algorithms.diagram import DiagramAlgorithm, compile_diagram
        >>> algorithm = DiagramAlgorithm(compile_diagram(so.LabelSpace.from_matrices([[1, 1, 1]], 1, 2).compiled))
        >>> algorithm.marginals(np.zeros((1, 3)))
        array([[0.5, 0.5, 0.5]])
        """
        return self._expectations(C)[0]

    def _expectations(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        costs = _writable(np.atleast_2d(C))
        mean, total = np.empty(costs.shape), np.empty(len(costs))
        expectations(self._arrays, costs, mean, total)
        return mean, total

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        costs, vectors = _writable(np.atleast_2d(C)), _writable(np.atleast_2d(V))
        out = np.empty(costs.shape)
        covariances(self._arrays, costs, vectors, out)
        return out

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        """`size` independent labels drawn from ``p(z) ~ exp(c . z)``; uniform ones for c = 0."""
        Z = np.empty((size, len(c)))
        sample_labels(self._arrays, _writable(c), rng, Z)
        return Z

    def __repr__(self) -> str:
        return f"<DiagramAlgorithm on {self.diagram!r}>"


def _writable(array: FloatArray) -> FloatArray:
    """Contiguous and writable: another type for numba would be compiled for seconds."""
    array = np.ascontiguousarray(array, dtype=np.float64)
    return array if array.flags.writeable else array.copy()

"""Algorithms whose labels are the paths of a directed acyclic graph."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.diagram.diagram import Arrays, Diagram
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
from structopt.algorithms.diagram.sums import expectations, log_sums, sample_labels
from structopt.algorithms.fronts import FrontPlan, nondominated
from structopt.algorithms.question import Question, per_question
from structopt.backends.base import SideConstraints
from structopt.errors import InfeasibleSpace
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray
from structopt.space.tolerance import row_units

__all__ = ["DiagramAlgorithm", "PathsAlgorithm"]

#: Most numbers in the table of a front (64 MB), pairs of a front of real losses, and paths of a constrained search.
_MOST_ENTRIES, _MOST_PAIRS, _MOST_PATHS = 1 << 23, 2_000_000, 300_000
#: Fewest examples per thread.
_PIECE = 64
#: Diagrams are made one at a time.
_MAKING = threading.RLock()


class PathsAlgorithm(Algorithm):
    """Labels that are the paths of a directed acyclic graph.

    A subclass writes `make_diagram`. The diagram is made at the first question that needs it, and it answers all
    questions. A subclass may have its own `maximize_batch`, which then needs no diagram. It overrides other methods
    only if a measurement shows that its own ones are faster.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.algorithms.diagram import Diagram, PathsAlgorithm
    >>> class OneOfMany(PathsAlgorithm):
    ...     def __init__(self, n):
    ...         self.n = n
    ...     def make_diagram(self):
    ...         each = np.arange(self.n + 1)                           # an arc per class, from the root to the terminal
    ...         return Diagram(
    ...             ptr=np.array([0, self.n, self.n]), head=np.ones(self.n, int), label=each[:-1], label_ptr=each,
    ...             label_variable=each[:-1], label_value=np.ones(self.n), const=np.zeros(self.n),
    ...         )
    >>> OneOfMany(3).k_best(np.array([1.0, 3.0, 2.0]), 2).values
    array([3., 2.])
    """

    answers = ~Question(0)

    @abstractmethod
    def make_diagram(self) -> Diagram:
        """Return the graph; called once, at the first question that needs it."""

    @cached_property
    def diagram(self) -> Diagram:
        """The graph whose paths are the labels."""
        with _MAKING:
            if "diagram" not in self.__dict__:  # another thread may have made it meanwhile
                self.__dict__["diagram"] = self.make_diagram()
        return cast("Diagram", self.__dict__["diagram"])

    @cached_property
    def _arrays(self) -> Arrays:
        return self.diagram.arrays

    @cached_property
    def _packed(self) -> tuple[Any, Any]:
        return self.diagram.packed

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("diagram", "_arrays", "_packed")}

    #: The arcs are those of the diagram.
    steps = per_question(
        argmax="arcs",
        k_best="arcs + k x length of a path",
        outside="arcs + forbidden x length of a path",
        side_rows="arcs x paths of the search",
        front="arcs x losses",
        sums="arcs",
        sample="arcs",
    )

    # ---- the best label --------------------------------------------------------------------------

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        """Return a best label; ties go to the first arcs."""
        if not c.flags.carray:  # contiguous and writable
            c = _writable(c)
        z = np.empty(c.size)
        value = best_label(*self._packed, c, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        """Return a best label for each row of `C`; the diagram is traversed for sixteen rows at a time."""
        costs = _writable(C)
        Z, values = np.empty(costs.shape), np.empty(len(costs))

        def solve(first: int, last: int) -> None:
            best_labels(self._arrays, costs[first:last], Z[first:last], values[first:last])

        in_threads(solve, len(costs), min(n_jobs, 1 + len(costs) // _PIECE))
        return Solutions(Z, values, values.copy())

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        """Return the `k` best labels, or all labels if there are fewer."""
        if k < 1:
            return Solutions(np.empty((0, len(c))), np.empty(0), np.empty(0))
        Z = k_best_labels(self._arrays, _writable(c), k)
        values = Z @ c
        # A later path may have a larger c . z in the last bit.
        order = np.argsort(-values, kind="stable")
        return Solutions(Z[order], values[order], values[order])

    def maximize_constrained(
        self, c: FloatArray, side_constraints: SideConstraints, max_paths: int = _MOST_PATHS
    ) -> Optimum | None:
        """Return the best label within side constraints, or None if the search stops after `max_paths` paths."""
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
        """Return the Pareto front of h and g by decreasing h, or None if it is too large."""
        h, g = _writable(h), _writable(g)
        quanta = quanta_of(self._arrays, g[None])
        if quanta[0] > 0.0:
            levels = loss_levels(self._arrays, g[None], quanta)
            chunk = front_chunk(self._arrays, h[None], levels, _MOST_ENTRIES)
            if chunk[0]:
                best = chunk[1][: levels[3][1]]  # a single example is not stored in lanes
                places = nondominated(best, np.arange(float(len(best))))
                k, Z = len(places), np.empty((len(places), len(h)))
                loss = np.zeros(k, dtype=np.int64)
                again = k, chunk[1], loss, np.ones(k, dtype=np.int64)
                decode_levels(self._arrays, np.tile(h, (k, 1)), (loss, *levels[1:]), again, places, Z)
                return Z[np.argsort(-(Z @ h), kind="stable")]
        Z = pareto_front(self._arrays, h, g, _MOST_PAIRS)
        return Z if len(Z) else None

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        """Return tables of the best h by level of the loss, or None if losses are not multiples of one number."""
        if Question.FRONT not in self.answers:
            return None
        losses = _writable(G)
        quanta = quanta_of(self._arrays, losses)
        if (quanta == 0.0).any():
            return None
        plan = DiagramFronts(self.diagram, losses, np.asarray(g_const, dtype=np.float64), quanta)
        return None if plan.size > _MOST_ENTRIES else plan

    # ---- sums over all labels --------------------------------------------------------------------

    def count(self) -> int:
        """Return the number of labels."""
        return self.diagram.count()

    def log_partition(self, C: FloatArray) -> FloatArray:
        """Return ``log sum_z exp(c . z)`` for each row of `C`."""
        costs = _writable(np.atleast_2d(C))
        out = np.empty(len(costs))
        log_sums(self._arrays, costs, out)
        return out

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `log_partition` and `marginals` from one pass."""
        mean, total = self._expectations(C)
        return total, mean

    def marginals(self, C: FloatArray) -> FloatArray:
        """Return the expected label under ``p(z) ~ exp(c . z)`` for each row of `C`.

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

    def _expectations(self, C: FloatArray, V: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        costs = _writable(np.atleast_2d(C))
        mean, total = np.empty(costs.shape), np.empty(len(costs))
        expectations(self._arrays, costs, None if V is None else _writable(np.atleast_2d(V)), mean, total)
        return mean, total

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        return self._expectations(C, V)[0]

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` independent labels from ``p(z) ~ exp(c . z)``."""
        Z = np.empty((size, len(c)))
        sample_labels(self._arrays, _writable(c), rng, Z)
        return Z


class DiagramAlgorithm(PathsAlgorithm):
    """Algorithm that solves a label space by its decision diagram, exactly and in time linear in the number of arcs.

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
    #: Steps of making the diagram.
    making = "nodes x values x rows"
    steps = per_question(argmax="1.6 µs + 1.5 ns x arcs + 1.2 ns x pairs")

    def __init__(self, diagram: Diagram) -> None:
        self._given = diagram

    def make_diagram(self) -> Diagram:
        return self._given

    def seconds_per_call(self, batch: bool) -> float:
        """Return the estimated time of one call, alone or in a large batch, as fitted on many spaces."""
        arcs, pairs = self.diagram.n_arcs, len(self.diagram.label_variable)
        if batch:
            return 1e-7 + 0.3e-9 * arcs + 0.5e-9 * pairs
        return 1.6e-6 + 1.5e-9 * arcs + 1.2e-9 * pairs

    def __repr__(self) -> str:
        return f"<DiagramAlgorithm on {self.diagram!r}>"


def _writable(array: FloatArray) -> FloatArray:
    """Return a contiguous, writable array: numba would compile kernels again for other layouts."""
    array = np.ascontiguousarray(array, dtype=np.float64)
    return array if array.flags.writeable else array.copy()

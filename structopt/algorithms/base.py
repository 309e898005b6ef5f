"""The protocol of algorithms that solve a label space, batch first.

An `Algorithm` answers ``argmax c . z`` for the rows of a matrix of objective coefficients. Recognised structures,
enumeration, the algorithms of the shipped structures, solver instances behind a backend and a user's own algorithm all
implement it. It announces the questions that it answers in `Algorithm.answers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structopt._jit.threads import in_threads
from structopt.algorithms.fronts import FrontPlan, nondominated
from structopt.algorithms.question import Question, per_question
from structopt.backends.base import SideConstraints
from structopt.errors import InfeasibleSpace
from structopt.recognize.records import Record
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray

__all__ = ["Algorithm", "Optimum", "RowAlgorithm", "Solutions"]

BoolArray = npt.NDArray[np.bool_]


class Optimum(NamedTuple):
    """The best label of one row of objective coefficients.

    Attributes
    ----------
    z : ndarray, shape (n_variables,)
    value : float
        ``c . z``, computed from the label.
    bound : float
        No label has a larger value.
    optimal : bool
        False if a limit stopped the solver before it had proved `z` best.
    """

    z: FloatArray
    value: float
    bound: float
    optimal: bool = True


class Solutions(NamedTuple):
    """Labels of a batch, or the best labels of one row in decreasing order, as arrays.

    Attributes
    ----------
    Z : ndarray, shape (n, n_variables)
    values : ndarray, shape (n,)
        ``c . z``, computed from the labels.
    bounds : ndarray, shape (n,)
        No label has a larger value. The array `values` itself where every label is proved best.
    solved : ndarray of bool, shape (n,), optional
        False for the rows that the algorithm could not solve, whose other entries are undefined; None if it solved
        all of them.
    optimal : ndarray of bool, shape (n,), optional
        False for the rows at which a limit stopped the solver; None if it stopped at none.
    """

    Z: FloatArray
    values: FloatArray
    bounds: FloatArray
    solved: BoolArray | None = None
    optimal: BoolArray | None = None

    def row(self, i: int) -> Optimum | None:
        """Row `i` by itself, None if it is not solved."""
        if self.solved is not None and not self.solved[i]:
            return None
        optimal = self.optimal is None or bool(self.optimal[i])
        return Optimum(self.Z[i], float(self.values[i]), float(self.bounds[i]), optimal)

    @classmethod
    def of_labels(cls, C: FloatArray, Z: FloatArray, solved: BoolArray | None = None) -> Solutions:
        """Labels that are proved best: their values, which are their bounds, follow from them.

        Parameters
        ----------
        C : ndarray, shape (n, n_variables) or (n_variables,)
            Objective coefficients of every row, or of all of them.
        Z : ndarray, shape (n, n_variables)
        solved : ndarray of bool, optional
            As the attribute.
        """
        values = Z @ C if C.ndim == 1 else np.einsum("ij,ij->i", C, Z)
        if solved is None or solved.all():
            return cls(Z, values, values)
        return cls(Z, values, values.copy(), solved)

    @classmethod
    def stacked(cls, rows: Sequence[Optimum | None], n_variables: int) -> Solutions:
        """Answers that were found one by one."""
        n = len(rows)
        Z, values, bounds = np.zeros((n, n_variables)), np.zeros(n), np.zeros(n)
        solved, optimal = np.ones(n, dtype=np.bool_), np.ones(n, dtype=np.bool_)
        for i, row in enumerate(rows):
            if row is None:
                solved[i] = False
            else:
                Z[i], values[i], bounds[i], optimal[i] = row
        return cls(Z, values, bounds, None if solved.all() else solved, None if optimal.all() else optimal)


class Algorithm(ABC):
    """An exact way to maximise a linear objective over one label space.

    A subclass writes `maximize_batch` (or derives from `RowAlgorithm` and writes `maximize`), and announces in
    `answers` which of the other methods it implements. None means "not solved in this call": the
    oracle then uses a solver.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.algorithms.base import Algorithm, Solutions
    >>> class OneOfMany(Algorithm):
    ...     def maximize_batch(self, C, *, n_jobs=1, keys=None):
    ...         return Solutions.of_labels(C, np.eye(C.shape[1])[C.argmax(axis=1)])
    >>> space = so.LabelSpace.from_matrices([[1, 1, 1]], 1, 1)
    >>> so.Oracle(space, algorithm=OneOfMany()).maximize([1.0, 3.0, 2.0]).z
    array([0., 1., 0.])
    """

    #: Its name in reprs and statistics.
    name: str = "combinatorial"
    #: Questions that its methods answer. A subclass that implements more methods than `maximize_batch` adds them.
    answers: Question = Question.ARGMAX
    #: Whether the integer variables are integral in every answer (all variables, in a space without integer ones).
    integral: bool = True
    #: Steps of one call by question, as formulas in the sizes of the structure; `Oracle.plan` shows them.
    steps: Mapping[Question, str] = per_question()

    @classmethod
    def of_record(cls, record: Record, n: int) -> Algorithm:
        """Return the algorithm for a record over `n` variables; see `structopt.algorithms.registry.ALGORITHMS`."""
        raise NotImplementedError(f"{cls.__name__} is not made from a record.")

    @abstractmethod
    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        """The best label for every row of `C`.

        Parameters
        ----------
        C : ndarray, shape (n, n_variables)
            Objective coefficients, contiguous and finite.
        n_jobs : int
            Threads; the answers do not depend on it.
        keys : sequence of hashable, optional
            The example of each row, under which an algorithm may keep what the next call starts from (flows, prices,
            bases). The values of the answers do not depend on it.
        """

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        """`maximize_batch` for one row; None if this algorithm does not solve it."""
        return self.maximize_batch(c[None, :], keys=None if key is None else [key]).row(0)

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        """The `k` best labels, the best first; fewer if there are fewer (`Question.K_BEST`)."""
        raise NotImplementedError(f"{self!r} does not announce Question.K_BEST.")

    def maximize_outside(self, c: FloatArray, no_goods: FloatArray) -> Optimum | None:
        """Return the best label that is not a row of `no_goods` (`Question.OUTSIDE`).

        It is among the ``len(no_goods) + 1`` best labels (docs/mathematics/oracles#the-k-best-labels).

        Raises
        ------
        InfeasibleSpace
            If the space has no other label.
        """
        k = 2
        while True:
            k = min(k, len(no_goods) + 1)
            found = self.k_best(c, k)
            if found is None:
                return None
            for i, z in enumerate(found.Z):
                if not (np.abs(no_goods - z).max(axis=1, initial=0.0) <= FEASIBILITY_TOLERANCE).any():
                    return found.row(i)
            if len(found.Z) < k or k > len(no_goods):
                raise InfeasibleSpace("Every label of the space is forbidden.")
            k *= 4

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum | None:
        """The best label within rows that hold for this call (`Question.SIDE_ROWS`).

        Raises
        ------
        InfeasibleSpace
            If no label satisfies them.
        """
        raise NotImplementedError(f"{self!r} does not announce Question.SIDE_ROWS.")

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        """The plan that makes the fronts of many examples whose losses are the rows of `G`; None if it is not offered.

        Parameters
        ----------
        G : ndarray, shape (n, n_variables)
        g_const : ndarray, shape (n,)
        """
        return None

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        """Labels that hold the maximum of every ``psi(h, g)`` non-decreasing in both (`Question.FRONT`).

        The Pareto front of ``h . z + h_const`` and ``g . z + g_const``, and perhaps more labels; None if it is too
        large to list. By default it is that of `front_plan` for one example.
        """
        plan = self.front_plan(g[None], np.array([g_const]))
        if plan is None:
            return None
        found = plan.fronts(h[None], np.array([h_const]), np.zeros(1, dtype=np.int64))
        return np.concatenate([found.decode(place) for place in nondominated(found.h, found.g)[:, None]])

    def log_partition(self, C: FloatArray) -> FloatArray:
        """``log sum_z exp(c . z)`` over all labels, for every row of `C` (`Question.SUMS`)."""
        raise NotImplementedError(f"{self!r} does not announce Question.SUMS.")

    def marginals(self, C: FloatArray) -> FloatArray:
        """The mean label under ``p(z) ~ exp(c . z)``, for every row of `C` (`Question.SUMS`)."""
        raise NotImplementedError(f"{self!r} does not announce Question.SUMS.")

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`log_partition` and `marginals` together, where one pass gives both (`Question.SUMS`)."""
        return self.log_partition(C), self.marginals(C)

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        """The covariance of the labels under ``p(z) ~ exp(c . z)`` times a vector, row by row (`Question.SUMS`).

        The derivative of the marginals along the vector; unless a subclass has a formula, `directional_derivative`.
        """
        return directional_derivative(self.marginals, C, V)

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        """`size` labels drawn from ``p(z) ~ exp(c . z)``, one per row (`Question.SAMPLE`)."""
        raise NotImplementedError(f"{self!r} does not announce Question.SAMPLE.")

    def steps_of(self, question: Question) -> str:
        """Return the formula of `steps` for a question, of this class or of the nearest base class that has one."""
        stated = (vars(kind).get("steps", {}).get(question) for kind in type(self).__mro__)
        return next(filter(None, stated), "")

    def seconds_per_call(self, batch: bool) -> float | None:
        """Return the estimated time of one call, alone or in a large batch; None if there is no formula."""
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"


def directional_derivative(marginals: Callable[[FloatArray], FloatArray], C: FloatArray, V: FloatArray) -> FloatArray:
    """The derivative of marginals along the rows of `V`, by a difference quotient of fourth order.

    Along a direction of unit size: marginals are smooth, and right to about 1e-15, which leaves ten digits.
    """
    size = np.abs(V).sum(axis=1, keepdims=True)
    step = 2e-3 * V / np.where(size > 0.0, size, 1.0)
    near, far = (marginals(C + k * step) - marginals(C - k * step) for k in (1.0, 2.0))
    return np.asarray(size * (8.0 * near - far) / (12.0 * 2e-3))


class RowAlgorithm(Algorithm):
    """An algorithm that solves one row at a time; a subclass writes `maximize`.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.algorithms.base import Optimum, RowAlgorithm
    >>> class Signs(RowAlgorithm):
    ...     def maximize(self, c, key=None):
    ...         return Optimum(np.sign(c), np.abs(c).sum(), np.abs(c).sum())
    >>> Signs().maximize_batch(np.array([[1.0, -2.0], [-3.0, -1.0]])).values
    array([3., 4.])
    """

    @abstractmethod
    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        """The best label; None if this algorithm does not solve it."""

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        """`maximize` for every row of `C`."""
        found: list[Optimum | None] = [None] * len(C)

        def work(first: int, last: int) -> None:
            for i in range(first, last):
                found[i] = self.maximize(C[i], None if keys is None else keys[i])

        in_threads(work, len(C), n_jobs)
        return Solutions.stacked(found, C.shape[1])

"""Enumeration: all labels of a small space in one array."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from structopt._jit import IntArray, kernel
from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.fronts import nondominated
from structopt.algorithms.question import Question, per_question
from structopt.backends.arrays import holding_rows
from structopt.backends.base import SideConstraints
from structopt.errors import DeclarationError, InfeasibleSpace
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.enumeration import enumerate_labels
from structopt.space.feasibility import rows_in

__all__ = ["Enumeration"]

# Listing this many labels and one product with the coefficients is faster than any call of a solver.
_MOST_LABELS = 4096
_MOST_INTEGERS = 14
#: Row activities of partial assignments after which listing is given up: about a second.
_MOST_WORK = 1 << 24


class Enumeration(Algorithm):
    """All labels of a tiny space in one array; every call is a product and a comparison.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> space = so.LabelSpace.from_matrices([[1, 1, 1]], 1, 2)
    >>> Enumeration(space.enumerate()).maximize(np.array([1.0, -2.0, 3.0])).z
    array([1., 0., 1.])
    """

    name = "enumeration"
    answers = ~Question(0)
    #: Steps of making the list.
    making = "labels x rows"
    steps = per_question(
        argmax="2 µs + 3 ns x labels",
        k_best="labels x variables, sorted",
        outside="labels x variables, sorted",
        side_rows="labels x (variables + side rows)",
        front="labels x variables, sorted",
        sums="labels x variables",
        sample="labels x variables",
    )

    def __init__(self, labels: FloatArray) -> None:
        self.labels = labels

    @staticmethod
    def refusal(space: CompiledSpace) -> str:
        """Return why the labels of a space are not listed, if that is known without listing them."""
        many = int(space.integrality.sum()) > _MOST_INTEGERS
        return f"more than {_MOST_INTEGERS} integer variables" if many else ""

    @classmethod
    def of_space(cls, space: CompiledSpace, most: int = _MOST_LABELS) -> Enumeration | None:
        """Return the labels of an integral space; None if the declared rows leave no label or more than `most`."""
        if cls.refusal(space):
            return None
        try:
            labels = enumerate_labels(space.rows_only(), limit=min(most, _MOST_LABELS), work=_MOST_WORK)
        except DeclarationError:
            return None
        if space.separations:  # a function call each: not before it is known that they are few
            labels = labels[rows_in(space, labels)]
        # An empty space goes to the backend, whose diagnosis names the rows in conflict.
        return cls(labels) if len(labels) else None

    def seconds_per_call(self, batch: bool) -> float:
        """Return the measured time of one call, alone or in a large batch."""
        return 2e-9 * len(self.labels) if batch else 2e-6 + 3e-9 * len(self.labels)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        values = self.labels.dot(c)  # less overhead than @ has
        k = int(values.argmax())
        value = values.item(k)
        return Optimum(self.labels[k].copy(), value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        places, values = largest_of_rows(C @ self.labels.T)
        return Solutions(self.labels.take(places, axis=0), values, values)

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        values = self.labels @ c
        order = np.argsort(-values, kind="stable")[:k]
        return Solutions(self.labels[order], values[order], values[order])

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum:
        allowed = np.flatnonzero(holding_rows(side_constraints, self.labels))
        if not allowed.size:
            raise InfeasibleSpace("No label of the space satisfies the side constraints of this call.")
        z = self.labels[allowed[(self.labels[allowed] @ c).argmax()]].copy()
        value = dot(np.ascontiguousarray(c), z)
        return Optimum(z, value, value)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray:
        return np.asarray(self.labels[nondominated(self.labels @ h, self.labels @ g)])

    def _weights(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities of all labels and the log-partition function, for every row of `C`."""
        products = C @ self.labels.T
        top = products.max(axis=1, keepdims=True)
        weights = np.exp(products - top)
        total = weights.sum(axis=1, keepdims=True)
        return weights / total, (top + np.log(total))[:, 0]

    def log_partition(self, C: FloatArray) -> FloatArray:
        return self._weights(C)[1]

    def marginals(self, C: FloatArray) -> FloatArray:
        return np.asarray(self._weights(C)[0] @ self.labels)

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights, log_z = self._weights(C)
        return log_z, np.asarray(weights @ self.labels)

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        weights = self._weights(C)[0]
        products = V @ self.labels.T
        centred = products - (weights * products).sum(axis=1, keepdims=True)
        return np.asarray((weights * centred) @ self.labels)

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(self.labels[rng.choice(len(self.labels), size=size, p=self._weights(c[None])[0][0])])


@kernel
def largest_of_rows(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """The place of the first largest entry of every row, and this entry."""
    n = len(values)
    places, largest = np.zeros(n, dtype=np.int64), np.empty(n)
    for i in range(n):
        best = values[i, 0]
        for k in range(1, values.shape[1]):
            if values[i, k] > best:
                best, places[i] = values[i, k], k
        largest[i] = best
    return places, largest

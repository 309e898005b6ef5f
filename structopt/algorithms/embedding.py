"""Extension of an algorithm for the free columns of a space to all columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, in_place
from structopt._jit.choices import LevelChoice
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.fronts import FrontPlan, Fronts, MostViolated
from structopt.algorithms.question import Question
from structopt.backends.base import SideConstraints
from structopt.recognize import GroupForest, Structure
from structopt.space.compiled import FloatArray

__all__ = ["Embedding", "embedded"]


def embedded(algorithm: Algorithm, structure: Structure, integer: npt.NDArray[np.bool_]) -> Algorithm:
    """Return an algorithm for the whole space, from one for the free columns of what was recognised in it."""
    algorithm.name = structure.oracle
    # Integer variables are integral in every answer; without any, all variables count.
    whole = structure.dependent is None or structure.dependent.whole
    algorithm.integral = structure.has_integers or (algorithm.integral and whole)
    found = Embedding(algorithm, structure, integer)
    return found if not found.whole or (found.mixed and Question.K_BEST in algorithm.answers) else algorithm


class Embedding(Algorithm):
    """Extension of an algorithm for the free columns of a space to all columns.

    The other columns have one value or are affine functions of the free columns.
    """

    def __init__(self, algorithm: Algorithm, structure: Structure, integer: npt.NDArray[np.bool_]) -> None:
        self.name, self.integral = algorithm.name, algorithm.integral
        self.answers = algorithm.answers
        self._algorithm = algorithm
        # Labels of a group forest that is listed differ in their states, which are integer.
        self.mixed = bool(integer.any() and not integer.all()) and not isinstance(structure.record, GroupForest)
        self._integer = integer
        columns = structure.columns
        first = np.array_equal(columns, np.arange(columns.size))
        self._columns: IntArray | slice = slice(columns.size) if first else columns
        self._template = np.zeros(integer.size)
        self._template[structure.fixed_columns] = structure.fixed_values
        #: The columns that follow from free columns, and the matrix by which they do, in CSR form.
        self._follows: tuple[IntArray, IntArray, IntArray, FloatArray] | None = None
        if structure.dependent is not None:
            names, matrix, const = structure.dependent
            self._template[names] = const
            self._follows = (names.astype(np.int64), *_plain(matrix))
        self._shifted = bool(self._template.any())
        # Without other columns, free column j is column j. An algorithm may also leave the columns that follow at 0.
        self._all = first and columns.size == integer.size
        self.whole = self._all and self._follows is None

    def steps_of(self, question: Question) -> str:
        return self._algorithm.steps_of(question)

    def free(self, C: FloatArray) -> FloatArray:
        """Return objectives over all columns, in rows or alone, as objectives over the free columns."""
        if self.whole:
            return C
        if self._follows is None:
            return np.ascontiguousarray(C[..., self._columns])
        rows = np.ascontiguousarray(np.atleast_2d(C))
        free = np.array(rows[:, self._columns], order="C")
        _add_costs(*self._follows, rows, free)
        return free if C.ndim > 1 else free[0]

    def points(self, values: FloatArray) -> FloatArray:
        """Return the points whose free columns have these values."""
        if self.whole:
            return values
        if self._all and not self._shifted:
            Z = values
        else:
            Z = np.tile(self._template, (len(values), 1))
            Z[:, self._columns] = values + self._template if self._all else values
        if self._follows is not None:
            _add_values(*self._follows, np.ascontiguousarray(values), Z)
        return Z

    def constant(self, C: FloatArray) -> FloatArray:
        """Return what the fixed columns add to ``c . z`` for every row of `C`."""
        return np.asarray(C @ self._template) if self._shifted else np.zeros(C.shape[:-1])

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        found = self._algorithm.maximize(self.free(c), key)
        if found is None or self.whole:
            return found
        return self._optimum(c, found)

    def _optimum(self, c: FloatArray, found: Optimum) -> Optimum:
        z = self.points(found.z[None])[0]
        base = float(self.constant(c))
        return Optimum(z, found.value + base, found.bound + base, found.optimal)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        found = self._algorithm.maximize_batch(self.free(C), n_jobs=n_jobs, keys=keys)
        if self.whole:
            return found
        base = self.constant(C)
        return found._replace(Z=self.points(found.Z), values=found.values + base, bounds=found.bounds + base)

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        found = self._algorithm.k_best(self.free(c), k)
        if found is None:
            return None
        Z = self.points(found.Z)
        # If continuous variables do not follow from the integer ones, several points are one label.
        if self.mixed and len({z.tobytes() for z in np.rint(Z[:, self._integer]) + 0.0}) < len(Z):
            return None
        base = self.constant(c)
        return found._replace(Z=Z, values=found.values + base, bounds=found.bounds + base)

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum | None:
        matrix, lower, upper = side_constraints
        fixed, rows = matrix @ self._template, sp.csr_array(self.free(matrix.toarray()))
        found = self._algorithm.maximize_constrained(self.free(c), (rows, lower - fixed, upper - fixed))
        return None if found is None else self._optimum(c, found)

    def log_partition(self, C: FloatArray) -> FloatArray:
        return np.asarray(self._algorithm.log_partition(self.free(C)) + self.constant(C))

    def marginals(self, C: FloatArray) -> FloatArray:
        return self.points(self._algorithm.marginals(self.free(C)))

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        total, mean = self._algorithm.sums(self.free(C))
        return total + self.constant(C), self.points(mean)

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        products = self.points(self._algorithm.covariance_products(self.free(C), self.free(V)))
        return products if self.whole else products - self._template  # fixed columns do not vary

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        return self.points(self._algorithm.sample(self.free(c), size, rng))

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        base_h, base_g = h_const + float(self.constant(h)), g_const + float(self.constant(g))
        values = self._algorithm.front(self.free(h), base_h, self.free(g), base_g)
        return None if values is None else self.points(values)

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        own = self._algorithm.front_plan(self.free(G), g_const + self.constant(G))
        return own if own is None or self.whole else _EmbeddedFronts(own, self)


class _EmbeddedFronts(FrontPlan):
    """Fronts of the free columns, with their points in the whole space."""

    def __init__(self, own: FrontPlan, space: Embedding) -> None:
        self._own, self._space = own, space
        self.cost, self.entries, self.kept = own.cost, own.entries, own.kept

    def forget(self) -> None:
        self._own.forget()
        self.cost, self.kept = self._own.cost, self._own.kept

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        space = self._space
        found = self._own.fronts(space.free(H), h_const + space.constant(H), some, n_jobs)
        return Fronts(found.ptr, found.h, found.g, lambda places: space.points(found.decode(places)))

    def most_violated(self, H: FloatArray, h_const: FloatArray, choice: LevelChoice) -> MostViolated | None:
        space = self._space
        found = self._own.most_violated(space.free(H), h_const + space.constant(H), choice)
        return None if found is None else found._replace(Z=space.points(found.Z))


def _plain(matrix: sp.csr_array) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the arrays of a sparse matrix in the types of the kernels."""
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.float64)


@in_place
def _add_costs(names: Any, ptr: Any, column: Any, value: Any, C: Any, free: Any) -> None:
    """Add the objective of each column that follows to the free columns from which it follows."""
    for i in range(C.shape[0]):
        for j in range(names.size):
            for q in range(ptr[j], ptr[j + 1]):
                free[i, column[q]] += value[q] * C[i, names[j]]


@in_place
def _add_values(names: Any, ptr: Any, column: Any, value: Any, free: Any, Z: Any) -> None:
    """Add to the constant of each column that follows what the free columns contribute."""
    for i in range(Z.shape[0]):
        for j in range(names.size):
            for q in range(ptr[j], ptr[j + 1]):
                Z[i, names[j]] += value[q] * free[i, column[q]]

"""Extension of an algorithm for the free columns of a space to all columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt._jit.choices import LevelChoice
from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.fronts import FrontPlan, Fronts, MostViolated
from structopt.algorithms.question import Question
from structopt.backends.base import SideConstraints
from structopt.recognize import Structure
from structopt.space.compiled import FloatArray

__all__ = ["Embedding", "embedded"]


def embedded(algorithm: Algorithm, structure: Structure, integer: npt.NDArray[np.bool_]) -> Algorithm:
    """An algorithm for the whole space, from one for the free columns of what was recognised in it.

    Parameters
    ----------
    algorithm : Algorithm
    structure : Structure
    integer : ndarray of bool, shape (n_variables,)
        The integer variables of the space: two labels that agree in them are one.
    """
    algorithm.name = structure.oracle
    # Integer variables are integral in every answer; without any, all variables count.
    algorithm.integral = structure.has_integers or algorithm.integral
    mixed = bool(integer.any() and not integer.all())
    whole = np.array_equal(structure.columns, np.arange(integer.size))
    if whole and not (mixed and Question.K_BEST in algorithm.answers):
        return algorithm
    return Embedding(algorithm, structure, integer)


class Embedding(Algorithm):
    """Extension of an algorithm for the free columns of a space to all columns."""

    def __init__(self, algorithm: Algorithm, structure: Structure, integer: npt.NDArray[np.bool_]) -> None:
        self.name, self.integral = algorithm.name, algorithm.integral
        self.answers = algorithm.answers
        self._algorithm = algorithm
        self._integer = integer
        self._columns = structure.columns
        self._template = np.zeros(integer.size)
        self._template[structure.fixed_columns] = structure.fixed_values
        # Without fixed columns, free column j is column j.
        self._whole = np.array_equal(structure.columns, np.arange(integer.size))

    def steps_of(self, question: Question) -> str:
        return self._algorithm.steps_of(question)

    def _free(self, C: FloatArray) -> FloatArray:
        return C if self._whole else np.ascontiguousarray(C[..., self._columns])

    def _points(self, values: FloatArray) -> FloatArray:
        if self._whole:
            return values
        Z = np.tile(self._template, (len(values), 1))
        Z[:, self._columns] = values
        return Z

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        found = self._algorithm.maximize(self._free(c), key)
        if found is None or self._whole:
            return found
        z = self._template.copy()
        z[self._columns] = found.z
        value = dot(c, z)
        return Optimum(z, value, value + found.bound - found.value, found.optimal)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        found = self._algorithm.maximize_batch(self._free(C), n_jobs=n_jobs, keys=keys)
        if self._whole:
            return found
        Z = self._points(found.Z)
        values = np.einsum("ij,ij->i", C, Z)
        return Solutions(Z, values, values + (found.bounds - found.values), found.solved, found.optimal)

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        found = self._algorithm.k_best(self._free(c), k)
        if found is None:
            return None
        Z = self._points(found.Z)
        mixed = self._integer.any() and not self._integer.all()
        # Where continuous variables do not follow from the integer ones, several points are one label.
        if mixed and len(np.unique(np.rint(Z[:, self._integer]), axis=0)) < len(Z):
            return None
        return Solutions.of_labels(c, Z)

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum | None:
        matrix, lower, upper = side_constraints
        fixed = matrix @ self._template
        free = matrix[:, self._columns], lower - fixed, upper - fixed
        found = self._algorithm.maximize_constrained(self._free(c), free)
        if found is None:
            return None
        z = self._points(found.z[None])[0]
        value = dot(c, z)
        return Optimum(z, value, value + found.bound - found.value, found.optimal)

    def log_partition(self, C: FloatArray) -> FloatArray:
        return np.asarray(self._algorithm.log_partition(self._free(C)) + C @ self._template)

    def marginals(self, C: FloatArray) -> FloatArray:
        return self._points(self._algorithm.marginals(self._free(C)))

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        total, mean = self._algorithm.sums(self._free(C))
        return total + C @ self._template, self._points(mean)

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        products = np.zeros(C.shape)  # what is fixed does not vary
        products[:, self._columns] = self._algorithm.covariance_products(self._free(C), self._free(V))
        return products

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        return self._points(self._algorithm.sample(self._free(c), size, rng))

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        base_h, base_g = h_const + float(h @ self._template), g_const + float(g @ self._template)
        values = self._algorithm.front(self._free(h), base_h, self._free(g), base_g)
        return None if values is None else self._points(values)

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        own = self._algorithm.front_plan(self._free(G), g_const + G @ self._template)
        return own if own is None or self._whole else _EmbeddedFronts(own, self._columns, self._template)


class _EmbeddedFronts(FrontPlan):
    """Fronts of the free columns, put back among the fixed ones."""

    def __init__(self, own: FrontPlan, columns: npt.NDArray[np.intp], template: FloatArray) -> None:
        self._own, self._columns, self._template = own, columns, template
        self.cost, self.entries, self.kept = own.cost, own.entries, own.kept

    def forget(self) -> None:
        self._own.forget()
        self.cost, self.kept = self._own.cost, self._own.kept

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        found = self._own.fronts(H[:, self._columns], h_const + H @ self._template, some, n_jobs)

        def decode(places: IntArray) -> FloatArray:
            Z = np.tile(self._template, (len(places), 1))
            Z[:, self._columns] = found.decode(places)
            return Z

        return Fronts(found.ptr, found.h, found.g, decode)

    def most_violated(self, H: FloatArray, h_const: FloatArray, choice: LevelChoice) -> MostViolated | None:
        found = self._own.most_violated(H[:, self._columns], h_const + H @ self._template, choice)
        if found is None:
            return None
        Z = np.tile(self._template, (len(H), 1))
        Z[:, self._columns] = found.Z
        return found._replace(Z=Z)

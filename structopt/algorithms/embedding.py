"""Extension of an algorithm for the free columns of a space to all columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, in_place
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
    """Return an algorithm for the whole space, from one for the free columns of what was recognised in it.

    Parameters
    ----------
    algorithm : Algorithm
    structure : Structure
    integer : ndarray of bool, shape (n_variables,)
        The integer variables of the space: two labels that agree in them are one.
    """
    algorithm.name = structure.oracle
    # Integer variables are integral in every answer; without any, all variables count.
    whole = structure.dependent is None or structure.dependent.whole
    algorithm.integral = structure.has_integers or (algorithm.integral and whole)
    mixed = bool(integer.any() and not integer.all())
    if np.array_equal(structure.columns, np.arange(integer.size)) and not (
        mixed and Question.K_BEST in algorithm.answers
    ):
        return algorithm
    return Embedding(algorithm, structure, integer)


class Embedding(Algorithm):
    """Extension of an algorithm for the free columns of a space to all columns.

    The other columns have one value or are affine functions of the free columns.
    """

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
        #: Every column as a combination of the free columns, in CSR form; None if all others have one value.
        self._map: tuple[IntArray, IntArray, FloatArray] | None = None
        if structure.dependent is not None:
            columns, matrix, const = structure.dependent
            self._template[columns] = const
            n, free = integer.size, structure.columns.size
            place = sp.csr_array((np.ones(free), (self._columns, np.arange(free))), shape=(n, free))
            rows = sp.csr_array((np.ones(columns.size), (columns, np.arange(columns.size))), shape=(n, columns.size))
            whole = sp.csr_array(place + rows @ matrix)
            self._map = whole.indptr.astype(np.int64), whole.indices.astype(np.int64), whole.data.astype(np.float64)

    def steps_of(self, question: Question) -> str:
        return self._algorithm.steps_of(question)

    def _free(self, C: FloatArray) -> FloatArray:
        """Return objectives over all columns, in rows or alone, as objectives over the free columns."""
        if self._whole:
            return C
        if self._map is None:
            return np.ascontiguousarray(C[..., self._columns])
        out = np.zeros((*C.shape[:-1], self._columns.size))
        _pull(*self._map, np.ascontiguousarray(C).reshape(-1, C.shape[-1]), out.reshape(-1, self._columns.size))
        return out

    def _points(self, values: FloatArray) -> FloatArray:
        """Return the points whose free columns are given."""
        if self._whole:
            return values
        return self._placed(values, np.tile(self._template, (len(values), 1)))

    def _placed(self, values: FloatArray, Z: FloatArray) -> FloatArray:
        """Write (or add to constants) what follows from the free columns."""
        if self._map is None:
            Z[:, self._columns] = values
        else:
            _push(*self._map, np.ascontiguousarray(values), Z)
        return Z

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        found = self._algorithm.maximize(self._free(c), key)
        if found is None or self._whole:
            return found
        z = self._template.copy()
        self._placed(found.z[None], z[None])
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
        if self._map is None:
            rows = matrix[:, self._columns]
        else:
            ptr, column, value = self._map
            rows = sp.csr_array(matrix @ sp.csr_array((value, column, ptr), shape=(c.size, self._columns.size)))
        found = self._algorithm.maximize_constrained(self._free(c), (rows, lower - fixed, upper - fixed))
        if found is None:
            return None
        z = self._points(found.z[None])[0]
        value_of_z = dot(c, z)
        return Optimum(z, value_of_z, value_of_z + found.bound - found.value, found.optimal)

    def log_partition(self, C: FloatArray) -> FloatArray:
        return np.asarray(self._algorithm.log_partition(self._free(C)) + C @ self._template)

    def marginals(self, C: FloatArray) -> FloatArray:
        return self._points(self._algorithm.marginals(self._free(C)))

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        total, mean = self._algorithm.sums(self._free(C))
        return total + C @ self._template, self._points(mean)

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        products = self._algorithm.covariance_products(self._free(C), self._free(V))
        return self._placed(products, np.zeros(C.shape))  # what is fixed does not vary

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        return self._points(self._algorithm.sample(self._free(c), size, rng))

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        base_h, base_g = h_const + float(h @ self._template), g_const + float(g @ self._template)
        values = self._algorithm.front(self._free(h), base_h, self._free(g), base_g)
        return None if values is None else self._points(values)

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        own = self._algorithm.front_plan(self._free(G), g_const + G @ self._template)
        return own if own is None or self._whole else _EmbeddedFronts(own, self)


class _EmbeddedFronts(FrontPlan):
    """Fronts of the free columns, with their points in the whole space."""

    def __init__(self, own: FrontPlan, embedding: Embedding) -> None:
        self._own, self._embedding = own, embedding
        self.cost, self.entries, self.kept = own.cost, own.entries, own.kept

    def forget(self) -> None:
        self._own.forget()
        self.cost, self.kept = self._own.cost, self._own.kept

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        whole = self._embedding
        found = self._own.fronts(whole._free(H), h_const + H @ whole._template, some, n_jobs)
        return Fronts(found.ptr, found.h, found.g, lambda places: whole._points(found.decode(places)))

    def most_violated(self, H: FloatArray, h_const: FloatArray, choice: LevelChoice) -> MostViolated | None:
        whole = self._embedding
        found = self._own.most_violated(whole._free(H), h_const + H @ whole._template, choice)
        return None if found is None else found._replace(Z=whole._points(found.Z))


@in_place
def _pull(ptr: Any, column: Any, value: Any, C: Any, out: Any) -> None:
    """Add each column's objective to those of the free columns of which it is a combination."""
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for q in range(ptr[j], ptr[j + 1]):
                out[i, column[q]] += value[q] * C[i, j]


@in_place
def _push(ptr: Any, column: Any, value: Any, free: Any, Z: Any) -> None:
    """Add each column's combination of the free columns to its constant."""
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            for q in range(ptr[j], ptr[j + 1]):
                Z[i, j] += value[q] * free[i, column[q]]

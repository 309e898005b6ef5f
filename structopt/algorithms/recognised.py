"""From a recognised structure to the algorithm that solves it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.structured import Solver, Values, solver_of
from structopt.recognize import Structure
from structopt.space.compiled import FloatArray

__all__ = ["algorithm_of"]


def algorithm_of(structure: Structure, integer: npt.NDArray[np.bool_]) -> Algorithm | None:
    """The algorithm for a recognised structure, or None for what only a solver can do.

    `integer` marks the integer variables of the space: two labels that agree in them are one.
    """
    if structure.kind != "product":
        solver = solver_of(structure)
    else:
        parts = [solver_of(part) for part in structure.parts]
        known = [part for part in parts if part is not None]
        solver = Product(structure, known) if len(known) == len(parts) else None
    return None if solver is None else Recognised(structure, integer, solver)


class Recognised(Algorithm):
    """A solver for the free columns, put back among the fixed ones."""

    def __init__(self, structure: Structure, integer: npt.NDArray[np.bool_], solver: Solver) -> None:
        n_variables = integer.size
        self._integer = integer
        self.name = structure.oracle
        self.structure = structure
        self._solver = solver
        self._columns = structure.columns
        self._template = np.zeros(n_variables)
        self._template[structure.fixed_columns] = structure.fixed_values
        # Most spaces have no fixed columns, and then free column j is column j.
        self._whole = np.array_equal(self._columns, np.arange(n_variables))
        # Integer variables are integral in every answer; without any, all variables count, and half-integral answers
        # are looked through only if somebody asks.
        self.integral = structure.has_integers or solver.integral
        self.capabilities = solver.capabilities

    def _whole_points(self, values: FloatArray) -> FloatArray:
        """Values of the free columns, put back among the fixed ones."""
        if self._whole:
            return values
        Z = np.tile(self._template, (len(values), 1))
        Z[:, self._columns] = values
        return Z

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        values = self._solver.solve(c if self._whole else c[self._columns], key)
        if values is None:
            return None
        if self._whole:
            z = np.asarray(values, dtype=np.float64)
        else:
            z = self._template.copy()
            z[self._columns] = values
        value = dot(c, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        found = self._solver.solve_batch(C if self._whole else C[:, self._columns], n_jobs, keys)
        solved = None
        if not isinstance(found, np.ndarray):
            solved = np.array([values is not None for values in found], dtype=np.bool_)
            nothing = np.zeros(self._columns.size)
            found = np.array([nothing if values is None else values for values in found]).reshape(len(C), -1)
        return Solutions.of_labels(C, self._whole_points(found), solved)

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        values = self._solver.k_best(c[self._columns], k)
        if values is None:
            return None
        Z = self._whole_points(values)
        mixed = self._integer.any() and not self._integer.all()
        # Where continuous variables do not follow from the integer ones, several points are one label.
        if mixed and len(np.unique(np.rint(Z[:, self._integer]), axis=0)) < len(Z):
            return None
        return Solutions.of_labels(c, Z)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        base_h, base_g = h_const + float(h @ self._template), g_const + float(g @ self._template)
        values = self._solver.front(h[self._columns], base_h, g[self._columns], base_g)
        if values is None:
            return None
        return self._whole_points(values)


class Product(Solver):
    """Independent blocks: each part is solved on its own columns."""

    def __init__(self, structure: Structure, solvers: Sequence[Solver]) -> None:
        place = {int(column): k for k, column in enumerate(structure.columns)}
        self._size = len(place)
        self._parts = [
            (np.array([place[int(column)] for column in part.columns], dtype=np.intp), solver)
            for part, solver in zip(structure.parts, solvers, strict=True)
        ]
        self.integral = all(solver.integral for solver in solvers)

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray | None:
        values = np.empty(self._size)
        for columns, solver in self._parts:
            part = solver.solve(c[columns], key)
            if part is None:
                return None
            values[columns] = part
        return values

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> Values:
        values = np.empty((len(C), self._size))
        settled = np.ones(len(C), dtype=np.bool_)
        for columns, solver in self._parts:
            answers = solver.solve_batch(np.ascontiguousarray(C[:, columns]), n_jobs, keys)
            if isinstance(answers, np.ndarray):
                values[:, columns] = answers
                continue
            for i, part in enumerate(answers):
                settled[i] &= part is not None
                values[i, columns] = 0.0 if part is None else part
        return values if settled.all() else [row if sure else None for row, sure in zip(values, settled, strict=True)]

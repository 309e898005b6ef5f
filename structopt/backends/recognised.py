"""From a recognised structure to the algorithm that solves it (ORACLES.md 1, 3, 4, 7, 9, 10)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from structopt.backends.combinatorial import Algorithm
from structopt.compiled import FloatArray
from structopt.kernels.closure import ClosureGraph
from structopt.kernels.pairwise import PairwiseGraph
from structopt.label import Label
from structopt.recognize import (
    Box,
    Closure,
    Pairwise,
    Structure,
)

__all__ = ["algorithm_of"]

# Pairwise models up to this size are enumerated for the whole front of two criteria (ORACLES.md 11.1).
_FRONT_LABELS = 16


def algorithm_of(structure: Structure, n_variables: int) -> Algorithm | None:
    """The algorithm for a recognised structure, or None for what only a solver can do."""
    if structure.kind == "product":
        parts = [_solver_of(part) for part in structure.parts]
        if any(part is None for part in parts):
            return None
        return Recognised(structure, n_variables, Product(structure, [p for p in parts if p is not None]))
    solver = _solver_of(structure)
    return None if solver is None else Recognised(structure, n_variables, solver)


class Solver:
    """Solves the free columns of a recognised structure; batches go row by row unless it knows better."""

    #: Whether every answer is integral.
    integral = True

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray | None:
        """The best values of the free columns, or None if not settled."""
        raise NotImplementedError

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> Sequence[FloatArray | None]:
        """`solve` for every row."""
        return [self.solve(c, None if keys is None else keys[i]) for i, c in enumerate(C)]

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        """The front of two criteria over the free columns, where it can be listed."""
        return None


class Recognised(Algorithm):
    """A solver for the free columns, put back among the fixed ones."""

    def __init__(self, structure: Structure, n_variables: int, solver: Solver) -> None:
        self.name = structure.oracle
        self.structure = structure
        self._solver = solver
        self._columns = structure.columns
        self._template = np.zeros(n_variables)
        self._template[structure.fixed_columns] = structure.fixed_values
        # Most spaces have no fixed columns, and then free column j is column j.
        self._whole = np.array_equal(self._columns, np.arange(n_variables))

    def _label(self, c: FloatArray, values: FloatArray | None) -> Label | None:
        if values is None:
            return None
        if self._whole:
            z = np.asarray(values, dtype=np.float64)
        else:
            z = self._template.copy()
            z[self._columns] = values
        integral = self._solver.integral or bool((z == np.rint(z)).all())
        return Label(z, float(c @ z), integral)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Label | None:
        return self._label(c, self._solver.solve(c if self._whole else c[self._columns], key))

    def maximize_batch(
        self, C: FloatArray, n_jobs: int = 1, keys: Sequence[Hashable] | None = None
    ) -> list[Label | None]:
        answers = self._solver.solve_batch(C if self._whole else C[:, self._columns], n_jobs, keys)
        return [self._label(c, values) for c, values in zip(C, answers, strict=True)]

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        base_h, base_g = h_const + float(h @ self._template), g_const + float(g @ self._template)
        values = self._solver.front(h[self._columns], base_h, g[self._columns], base_g)
        if values is None:
            return None
        points = np.tile(self._template, (len(values), 1))
        points[:, self._columns] = values
        return points


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


class BoxSolver(Solver):
    """No rows: every column goes to the bound that its cost likes."""

    def __init__(self, arrays: Box) -> None:
        self._lower, self._upper = arrays.lower, arrays.upper
        ends = np.concatenate([self._lower, self._upper])
        self.integral = bool((ends == np.rint(ends)).all())

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        return np.where(c > 0, self._upper, self._lower)

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        return np.where(C > 0, self._upper, self._lower)


class ClosureSolver(Solver):
    """``y_child <= y_parent``: min cut, or the linear program's own O(n) recursion on a forest."""

    def __init__(self, arrays: Closure, n: int) -> None:
        self._graph = ClosureGraph(n, arrays.child, arrays.parent)
        self._states = _States(self._graph.warm_state)

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        if key is None:
            return self._graph.solve(c)
        return self._graph.solve_warm(self._states[key], c)

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        return self._graph.solve_batch(C, state=self._states.batch(keys), n_jobs=n_jobs)


class PairwiseSolver(Solver):
    """Roof duality for the relaxation; enumeration and persistency for 0/1 labels."""

    def __init__(self, arrays: Pairwise) -> None:
        self._label, self._pair = arrays.label, arrays.pair
        self._graph = PairwiseGraph(len(arrays.label), arrays.first, arrays.second)
        self._states = _States(self._graph.warm_state)
        self.integral = arrays.integer or arrays.forest
        self._exact = arrays.integer and not arrays.forest

    def _join(self, y: FloatArray, p: FloatArray) -> FloatArray:
        values = np.empty((*y.shape[:-1], len(self._label) + len(self._pair)))
        values[..., self._label], values[..., self._pair] = y, p
        return values

    def _products(self, y: FloatArray) -> FloatArray:
        return y[..., self._graph.i] * y[..., self._graph.j]

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray | None:
        unary, pair = c[self._label], c[self._pair]
        if self._exact:
            y, _, proved = self._graph.solve_exact(unary, pair)
            return self._join(y, self._products(y)) if proved else None
        if key is None:
            y, p, _ = self._graph.solve(unary, pair)
        else:
            y, p, _ = self._graph.solve_warm(self._states[key], unary, pair)
        return self._join(y, p)

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> Sequence[FloatArray | None]:
        unary, pair = C[:, self._label], C[:, self._pair]
        if self._exact:
            Y, _, proved = self._graph.solve_exact_batch(unary, pair, n_jobs=n_jobs)
            joined = self._join(Y, self._products(Y))
            return [z if sure else None for z, sure in zip(joined, proved, strict=True)]
        Y, P, _ = self._graph.solve_batch(unary, pair, state=self._states.batch(keys), n_jobs=n_jobs)
        return list(self._join(Y, P))

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        if not self.integral or len(self._label) > _FRONT_LABELS:
            return None
        labels, pairs = self._label, self._pair
        Y, _, _ = self._graph.front(h[labels], h[pairs], h_const, g[labels], g[pairs], g_const)
        return self._join(Y, self._products(Y))


class _States:
    """Flows to start from, one per example, within a memory limit."""

    _LIMIT = 1 << 28

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self._single: dict[Hashable, Any] = {}
        self._batch: tuple[tuple[Hashable, ...], Any] | None = None
        self._size = max(1, int(make(1).nbytes))

    def __getitem__(self, key: Hashable) -> Any:
        state = self._single.get(key)
        if state is None:
            if len(self._single) * self._size > self._LIMIT:
                self._single.pop(next(iter(self._single)))
            state = self._single[key] = self._make(1)
        return state

    def batch(self, keys: Sequence[Hashable] | None) -> Any:
        """The flows of a whole batch, kept while it comes back with the same keys."""
        if keys is None or len(keys) * self._size > self._LIMIT:
            return None
        named = tuple(keys)
        if self._batch is None or self._batch[0] != named:
            self._batch = (named, self._make(len(named)))
        return self._batch[1]


def _solver_of(structure: Structure) -> Solver | None:
    arrays = structure.arrays
    n = structure.columns.size
    if isinstance(arrays, Box):
        return BoxSolver(arrays)
    if isinstance(arrays, Closure):
        return ClosureSolver(arrays, n)
    if isinstance(arrays, Pairwise):
        return PairwiseSolver(arrays)
    return None

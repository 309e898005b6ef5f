"""An algorithm of a user's own, with every answer checked: a wrong one would make bounds and certificates wrong."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.fronts import FrontPlan
from structopt.algorithms.question import Question
from structopt.backends.base import SideConstraints
from structopt.checks import shown
from structopt.errors import DeclarationError
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.feasibility import rows_in, violations

__all__ = ["CheckedAlgorithm", "checked_algorithm"]

#: Relative error of the values and bounds that an algorithm states.
_TOLERANCE = 1e-6
_METHODS = {
    Question.K_BEST: ("k_best",),
    Question.OUTSIDE: ("k_best",),
    Question.SIDE_ROWS: ("maximize_constrained",),
    Question.FRONT: ("front",),
    Question.SUMS: ("log_partition", "marginals"),
    Question.SAMPLE: ("sample",),
}


def checked_algorithm(algorithm: Algorithm, space: CompiledSpace, *, relaxed: bool = False) -> Algorithm:
    """Return the algorithm, with its answers checked if it is a user's own."""
    if type(algorithm).__module__.split(".")[0] == "structopt":
        return algorithm
    for question, methods in _METHODS.items():
        for method in methods:
            # By default a front is that of the plan.
            own = (method, "front_plan") if method == "front" else (method,)
            written = any(getattr(type(algorithm), name) is not getattr(Algorithm, name) for name in own)
            if question in algorithm.answers and not written:
                raise DeclarationError(
                    f"{algorithm!r} announces {question} but does not implement {method}(): write the method, or "
                    "leave the question out."
                )
    return CheckedAlgorithm(algorithm, space.relaxed() if relaxed or not algorithm.integral else space)


class CheckedAlgorithm(Algorithm):
    """A user's algorithm. Its labels must lie in the space and have the values and bounds that it states."""

    def __init__(self, algorithm: Algorithm, space: CompiledSpace) -> None:
        self._algorithm, self._space = algorithm, space
        self.name, self.answers, self.integral = algorithm.name, algorithm.answers, algorithm.integral

    def steps_of(self, question: Question) -> str:
        return self._algorithm.steps_of(question)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        # A copy, because the algorithm must not change the caller's coefficients.
        return self._solutions(C, self._algorithm.maximize_batch(C.copy(), n_jobs=n_jobs, keys=keys), "maximize_batch")

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        if type(self._algorithm).maximize is Algorithm.maximize:
            return super().maximize(c, key)
        return self._optimum(c, self._algorithm.maximize(c.copy(), key), "maximize")

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        found = self._algorithm.k_best(c.copy(), k)
        if found is None:
            return None
        found = self._solutions(c, found, "k_best")
        if len(found.Z) > k or (np.diff(found.values) > _TOLERANCE * (1.0 + np.abs(found.values[1:]))).any():
            raise self._error(f"must list at most k = {k} labels, the best first")
        return found

    def maximize_outside(self, c: FloatArray, no_goods: FloatArray) -> Optimum | None:
        return self._optimum(c, self._algorithm.maximize_outside(c.copy(), no_goods), "maximize_outside")

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum | None:
        found = self._algorithm.maximize_constrained(c.copy(), side_constraints)
        return self._optimum(c, found, "maximize_constrained")

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        return self._algorithm.front_plan(G, g_const)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        found = self._algorithm.front(h.copy(), h_const, g.copy(), g_const)
        if found is None:
            return None
        Z = self._array("front", "labels", found, (None, h.size))
        self._check_labels(Z)
        return Z

    def log_partition(self, C: FloatArray) -> FloatArray:
        return self._array("log_partition", "values", self._algorithm.log_partition(C.copy()), (len(C),))

    def marginals(self, C: FloatArray) -> FloatArray:
        return self._array("marginals", "means", self._algorithm.marginals(C.copy()), C.shape)

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_z, means = self._algorithm.sums(C.copy())
        return self._array("sums", "values", log_z, (len(C),)), self._array("sums", "means", means, C.shape)

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        found = self._algorithm.covariance_products(C.copy(), V.copy())
        return self._array("covariance_products", "products", found, C.shape)

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        Z = self._array("sample", "labels", self._algorithm.sample(c.copy(), size, rng), (size, c.size))
        self._check_labels(Z)
        return Z

    def __repr__(self) -> str:
        return repr(self._algorithm)

    # ---- checks ----------------------------------------------------------------------------------

    def _error(self, what: str) -> DeclarationError:
        return DeclarationError(f"{self._algorithm!r} {what}.")

    def _array(
        self, method: str, what: str, found: Any, shape: tuple[int | None, ...], finite: bool = True
    ) -> npt.NDArray[np.float64]:
        try:
            array = np.array(found, dtype=np.float64)  # a copy that can be written to
        except (TypeError, ValueError):
            raise self._error(f"returned {shown(found)} as {what} of {method}()") from None
        if array.ndim != len(shape) or any(b is not None and a != b for a, b in zip(array.shape, shape, strict=True)):
            wanted = f"({', '.join('n' if length is None else str(length) for length in shape)})"
            raise self._error(f"returned {what} of shape {array.shape} from {method}(), and not {wanted}")
        if finite and not np.isfinite(array).all():
            raise self._error(f"returned {what} from {method}() that are not finite")
        return array

    def _optimum(self, c: FloatArray, found: Any, method: str) -> Optimum | None:
        if found is None:
            return None
        if not isinstance(found, Optimum):
            raise self._error(f"returned {type(found).__name__} from {method}(), and not an Optimum or None")
        rows = Solutions(np.asarray(found.z)[None], *(np.array([number]) for number in found[1:3]))
        optimal = None if found.optimal else np.zeros(1, dtype=np.bool_)
        return self._solutions(c, rows._replace(optimal=optimal), method).row(0)

    def _solutions(self, C: FloatArray, found: Any, method: str) -> Solutions:
        if not isinstance(found, Solutions):
            raise self._error(f"returned {type(found).__name__} from {method}(), and not Solutions")
        Z = self._array(method, "labels Z", found.Z, (None, C.shape[-1]), finite=False)
        n = (len(Z),)
        values = self._array(method, "values", found.values, n, finite=False)
        bounds = self._array(method, "bounds", found.bounds, n, finite=False)
        solved = None if found.solved is None else self._array(method, "solved", found.solved, n) != 0.0
        optimal = None if found.optimal is None else self._array(method, "optimal", found.optimal, n) != 0.0
        if C.ndim == 2 and len(C) != len(Z):
            raise self._error(f"returned {len(Z)} labels from {method}() for {len(C)} rows of C")
        known = np.ones(n, dtype=np.bool_) if solved is None else solved
        self._check_labels(Z[known])
        C = np.broadcast_to(C, Z.shape)[known]
        true = np.einsum("ij,ij->i", C, Z[known])
        room = _TOLERANCE * np.einsum("ij,ij->i", np.abs(C), np.abs(Z[known])) + 1e-300
        for wrong, what in (
            (~(np.abs(values[known] - true) <= room), "the value"),
            (~(bounds[known] >= true - room), "the upper bound"),
        ):
            if wrong.any():
                i = int(np.argmax(wrong))
                stated = (values if what == "the value" else bounds)[known][i]
                raise self._error(f"states {what} {stated:g} of a label with c . z = {true[i]:g}")
        return Solutions(Z, values, bounds, solved, optimal)

    def _check_labels(self, Z: FloatArray) -> None:
        if not np.isfinite(Z).all():
            raise self._error("returned a label with NaN or infinity")
        good = rows_in(self._space, Z)
        if not good.all():
            broken = "; ".join(str(v) for v in violations(self._space, Z[int(np.argmin(good))])[:3])
            raise self._error(f"returned a label outside the space: {broken}")

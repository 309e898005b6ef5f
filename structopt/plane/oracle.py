"""The protocol of the oracle of a plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from structopt.algorithms.base import Solutions
from structopt.oracle.label import Label
from structopt.oracle.side_constraints import Row
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["LinearOracle"]


class LinearOracle(Protocol):
    """Maximises ``c . z`` over a label space: all that a `Plane` knows of `structopt.Oracle`.

    Another oracle derives from this class and implements `space` and `maximize`; the rest has defaults that offer
    nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.plane.oracle import LinearOracle
    >>> class Brute(LinearOracle):
    ...     def __init__(self, space):
    ...         self.space, self.labels = space.compiled, space.enumerate()
    ...     def maximize(self, c, rows=(), forbid=()):
    ...         z = self.labels[(self.labels @ c).argmax()]
    ...         return so.Label(z, float(c @ z))
    >>> space = so.LabelSpace.from_matrices([[1, 1]], 1, 1)
    >>> so.Plane(Brute(space), h=([1.0, 0.0], 0.0), g=([0.0, 1.0], 0.0)).query(2.0)
    Point(h=0, g=1)
    """

    #: The space that is searched.
    space: CompiledSpace
    #: "relax" if fractional points of an integral space are answers.
    integral: str = "auto"

    def maximize(self, c: npt.ArrayLike, rows: Sequence[Row] = (), forbid: Sequence[npt.ArrayLike] = ()) -> Label:
        """The best label within side constraints, and none of the forbidden ones; raises `InfeasibleSpace`."""
        ...

    def _solve_batch(self, C: npt.ArrayLike) -> Solutions:
        """The best label of every row of objective coefficients, with proved bounds."""
        rows = np.asarray(C, dtype=float)
        labels = [self.maximize(c) for c in rows]
        values, bounds = np.array([label.value for label in labels]), np.array([label.bound for label in labels])
        return Solutions(np.array([label.z for label in labels]).reshape(rows.shape), values, bounds)

    @property
    def _prefers_free_calls(self) -> bool:
        """Whether several calls without side constraints take less time than one with them."""
        return False

    @property
    def _plain_solver(self) -> Callable[[FloatArray, float], tuple[FloatArray, float]] | None:
        """A shorter way for calls without side constraints, or None; see `structopt.Oracle._plain_solver`."""
        return None

    def _list_best(self, c: FloatArray, k: int) -> list[Label] | None:
        """The `k` best labels in decreasing value, or None where that would take a solver."""
        return None

    def front(self, h: tuple[npt.ArrayLike, float], g: tuple[npt.ArrayLike, float]) -> FloatArray | None:
        """The Pareto front: labels among which every ``psi(h, g)`` non-decreasing in both is largest; or None."""
        return None

"""The LP and the MIP of one space side by side, and when to ask which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.backends.base import Backend, Capability, Solution, Status
from structopt.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray

__all__ = ["ExtraRows", "Worker"]

ExtraRows = tuple[sp.csr_array, FloatArray, FloatArray]


class Worker:
    """The LP and, where needed, the MIP of one space, used by one thread at a time."""

    def __init__(self, space: CompiledSpace, integral: str, make: Callable[[CompiledSpace], Backend]) -> None:
        self._space = space
        self._make = make
        self._relax_only = integral == "relax" or not space.is_integral
        self._mip_only = integral == "force" and space.is_integral
        self._lp: Backend | None = None
        self._mip: Backend | None = None

    def prepare(self) -> Backend:
        return self._mip_backend() if self._mip_only else self._lp_backend()

    def _lp_backend(self) -> Backend:
        if self._lp is None:
            self._lp = self._make(self._space.relaxed() if self._space.is_integral else self._space)
        return self._lp

    def _mip_backend(self) -> Backend:
        if self._mip is None:
            self._mip = self._make(self._space)
        return self._mip

    def forget(self) -> None:
        """Start the next run cold."""
        for backend in (self._lp, self._mip):
            if backend is not None:
                backend.set_basis(None)

    def basis(self) -> tuple[Any, Any]:
        return (self._lp.get_basis() if self._lp is not None else None, None)

    def solve(
        self,
        costs: FloatArray,
        extra: ExtraRows | None,
        basis: tuple[Any, Any] | None,
        start: FloatArray | None,
    ) -> tuple[Solution, int, int]:
        """LP first; the MIP only if its answer is fractional. Returns the solution and how many of each ran."""
        if self._mip_only:
            return self._run(self._mip_backend(), costs, extra, None, start), 0, 1
        relaxation = self._run(self._lp_backend(), costs, extra, basis, None)
        if self._relax_only or relaxation.status is not Status.OPTIMAL or self._is_integral(relaxation.z):
            return relaxation, 1, 0
        exact = self._run(self._mip_backend(), costs, extra, None, start)
        return exact, 1, 1

    def _is_integral(self, z: FloatArray | None) -> bool:
        if z is None:
            return False
        watched = z[self._space.integrality]
        return bool((np.abs(watched - np.rint(watched)) <= FEASIBILITY_TOLERANCE).all())

    @staticmethod
    def _run(
        backend: Backend,
        costs: FloatArray,
        extra: ExtraRows | None,
        basis: tuple[Any, Any] | None,
        start: FloatArray | None,
    ) -> Solution:
        backend.set_costs(costs)
        if basis is not None and basis[0] is not None:
            backend.set_basis(basis[0])
        if start is not None and not Capability.MIP_START & backend.capabilities:
            start = None
        if extra is None:
            return backend.run(start)
        backend.add_rows(*extra)
        try:
            return backend.run(start)
        finally:
            backend.remove_rows()

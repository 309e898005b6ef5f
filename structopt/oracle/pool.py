"""The workers behind an oracle: one persistent model per thread, handed out, warm-started and counted."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from structopt.backends.base import Backend, Solution
from structopt.backends.worker import ExtraRows, Worker
from structopt.errors import StructoptError
from structopt.oracle.label import Statistics
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["Desk", "WorkerPool"]

#: Bytes of simplex bases that are kept; HiGHS takes about one per row and column.
_BASIS_LIMIT = 256_000_000


class Desk:
    """A worker with the figures of its own work: it is used by one thread at a time, so that neither needs a lock.

    `lp` is the worker's backend where it has no other, so that a plain call can go there straight.
    """

    __slots__ = ("lp", "statistics", "worker")

    def __init__(self, worker: Worker, has_lp_only: bool) -> None:
        self.worker = worker
        self.lp = worker.prepare() if has_lp_only else None
        self.statistics = Statistics()


class WorkerPool:
    """Workers of one space; a new one is made only when all others are busy.

    A worker that was interrupted (Ctrl-C, an exception of a stranger's) is not handed out again: nobody knows in what
    state its models are.

    Parameters
    ----------
    space : CompiledSpace
    integral : {"auto", "relax", "force"}
        When a worker asks its MIP; see `structopt.Oracle`.
    make : callable
        Makes the backend of a space.
    """

    def __init__(self, space: CompiledSpace, integral: str, make: Callable[[CompiledSpace], Backend]) -> None:
        self._space = space
        self._integral = integral
        self._has_lp_only = integral == "relax" or not space.is_integral
        self._snaps = self._has_lp_only and space.is_integral
        self._make = make
        self._lock = threading.Lock()
        self._records: list[Statistics] = []
        self._idle: list[Desk] = []
        self._bases: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()

    def solve(
        self,
        costs: FloatArray,
        extra: ExtraRows | None = None,
        key: Hashable | None = None,
        start: FloatArray | None = None,
        desk: Desk | None = None,
    ) -> Solution:
        """One program, from the basis kept under `key`, by a borrowed worker or by whichever is idle."""
        own = desk or self._take()
        try:
            begun = perf_counter()
            basis = self._bases.get(key) if key is not None else None
            solution, lp_runs, mip_runs = own.worker.solve(costs, extra, basis, start)
            if key is not None:
                self._remember(key, own.worker.basis())
            own.statistics.add(0, lp_runs, mip_runs, perf_counter() - begun, solution.iterations)
        except StructoptError:
            if desk is None:
                self._idle.append(own)  # said between two runs: the worker's models are whole
            raise
        if desk is None:
            self._idle.append(own)
        return solution

    def maximize(self, costs: FloatArray, square: float) -> Solution:
        """`solve` without rows, basis or start, for contiguous costs whose squared norm is known.

        Costs that are not finite, or whose square is not, take the long way, where they are looked at.
        """
        own = self._take()
        lp = own.lp
        try:
            if lp is None or not square < math.inf:
                solution = self.solve(costs, desk=own)
            else:
                begun = perf_counter()
                solution = lp.maximize(costs, square)
                if self._snaps:
                    own.worker.snap(costs, solution)
                own.statistics.add(0, 1, 0, perf_counter() - begun, solution.iterations)
        except StructoptError:
            self._idle.append(own)
            raise
        self._idle.append(own)
        return solution

    @contextmanager
    def borrowed(self) -> Iterator[Desk]:
        """A worker of one's own for the duration."""
        desk = self._take()
        try:
            yield desk
        except StructoptError:
            self._idle.append(desk)
            raise
        self._idle.append(desk)

    def _take(self) -> Desk:
        try:
            return self._idle.pop()  # atomic, as is append
        except IndexError:
            desk = Desk(Worker(self._space, self._integral, self._make), self._has_lp_only)
            self._records.append(desk.statistics)
            return desk

    def _remember(self, key: Hashable, basis: tuple[Any, Any]) -> None:
        with self._lock:
            self._bases[key] = basis
            self._bases.move_to_end(key)
            if len(self._bases) * (self._space.n_rows + self._space.n_variables) > _BASIS_LIMIT:
                self._bases.popitem(last=False)

    @property
    def statistics(self) -> Statistics:
        """What all workers have done so far."""
        total = Statistics()
        for record in list(self._records):
            total.include(record)
        return total

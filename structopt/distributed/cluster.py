"""Where shards are evaluated: the workers of a dask client, or processes of this machine started for the purpose."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import time
import weakref
from contextlib import suppress
from typing import Any, Literal, Self

from dask import config
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster

from structopt.errors import ClusterLost, DeclarationError

__all__ = ["ClientOption", "Workers"]

#: `client=` of everything that is distributed.
ClientOption = Any

# Seconds that a cluster may take to shut down before its processes are killed.
_CLOSING = 10.0
# Seconds to find a scheduler.
_CONNECTING = 30.0
# Seconds between two attempts to start processes that are missing.
_REVIVING = 5.0
# Of the processes started here.
_CONFIG = {
    # A forked process would inherit locks that other threads hold (numba, HiGHS, BLAS).
    "distributed.worker.multiprocessing-method": "spawn",
    # A worker is there when it can evaluate shards: the others go on with them while one that died imports numba.
    "distributed.worker.preload": ["structopt.distributed"],
    # Seconds that one worker tries to reach another that has died; they are on the same machine.
    "distributed.comm.timeouts.connect": "5s",
    # dask makes malloc return every freed page to the system at once, so that the temporary arrays of the next pass
    # fault them all in again: passes over chains took twice the time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # There is no dashboard to look at a profile, which costs 3 to 5 percent of a pass.
    "distributed.worker.profile.enabled": False,
    # Every 20 ms, each event loop looks whether it is on time: as much as all else that an idle driver does.
    "distributed.admin.tick.interval": "1s",
}


class Workers:
    """The workers of a dask client; without one, processes of this machine that end with this object.

    Parameters
    ----------
    client : distributed.Client, address, "dask", "sequential" or None
        A client stays open when this object closes; to the address of a scheduler (``"tcp://..."``) one is made. None
        and ``"dask"`` start a `distributed.LocalCluster`: processes (spawned, each with one thread), no dashboard.
        ``"sequential"`` evaluates one shard after the other in this process, to the same bits: the reference, and a way
        to debug a loader.
    n_workers : int, optional
        Processes to start; one for each core by default.
    memory_limit : str or float, optional
        Of each process that is started, such as ``"2GB"``; an equal share of the machine's memory by default.

    Examples
    --------
    >>> from structopt.distributed import Workers
    >>> with Workers("sequential") as workers:
    ...     workers.count
    1
    """

    def __init__(
        self,
        client: ClientOption = None,
        *,
        n_workers: int | None = None,
        memory_limit: str | float | Literal["auto"] | None = "auto",
    ) -> None:
        self.client: Any = None
        self._finalizer: Any = None
        self._cluster: Any = None
        self._wanted = 0  # workers of the own cluster
        self._revived = 0.0
        self.is_stuck = False  # whether copying to all workers may wait for one that does not answer
        if isinstance(client, Workers):
            raise DeclarationError("client is a Workers object already; use it as it is.")
        if client == "sequential":
            return
        if client is None or client == "dask":
            self.client, cluster = _start(n_workers, memory_limit)
            self._cluster, self._wanted = cluster, len(cluster.worker_spec)
            # Runs when the object is no longer used, at the latest before the interpreter ends.
            self._finalizer = weakref.finalize(self, _shut_down, self.client, cluster)
        elif isinstance(client, str) and "://" in client:
            try:
                self.client = Client(client, timeout=_CONNECTING)
            except OSError as error:
                raise ClusterLost(f"There is no dask scheduler at {client}: {error}.") from error
            self._finalizer = weakref.finalize(self, self.client.close)
        elif isinstance(client, Client):
            if client.asynchronous:
                raise DeclarationError("client is asynchronous; give a synchronous distributed.Client.")
            self.client = client
        else:
            raise DeclarationError(
                "client must be a distributed.Client, the address of a scheduler, 'dask', 'sequential' or None, got "
                f"{client if isinstance(client, str) else type(client).__name__!r}."
            )
        self.check()

    @property
    def is_sequential(self) -> bool:
        """Whether shards are evaluated in this process."""
        return self.client is None

    @property
    def addresses(self) -> list[str]:
        """The workers that are there now, in the order of their names."""
        if self.client is None:
            return ["here"]
        self.check()
        return sorted(self.client.nthreads())

    @property
    def count(self) -> int:
        """How many workers there are now."""
        return len(self.addresses)

    @property
    def threads(self) -> dict[str, int]:
        """The workers that take work now (not paused for want of memory, nor retiring), and the threads of each."""
        self.check()
        return dict(sorted(self.client.sync(self.client.scheduler.ncores_running).items()))

    @property
    def paused(self) -> set[str]:
        """Workers that take no work now, but finish what they have begun."""
        return set(self.addresses) - self.threads.keys()

    def revive(self) -> None:
        """Start those of the own processes again that dask has given up.

        It does when a process that replaces a dead one is not up within 15 seconds, or dies while it starts.
        """
        if self._cluster is None or len(self._cluster.workers) >= self._wanted:
            return
        now = time.monotonic()
        if now - self._revived > _REVIVING:
            self._revived = now
            self._cluster.scale(self._wanted)

    @property
    def ages(self) -> dict[str, float]:
        """Seconds since the scheduler heard of each worker."""
        self.check()
        found: dict[str, float] = self.client.run_on_scheduler(_ages)
        return found

    @property
    def memory(self) -> float:
        """Bytes that all workers together may hold; infinite where they have no limit."""
        if self.client is None:
            return math.inf
        self.check()
        limits = self.client.run_on_scheduler(_memory_limits)
        return float(sum(limits)) if limits and all(limits) else math.inf

    def check(self) -> None:
        """Refuse to go on with a client that is closed or has lost its scheduler."""
        if self.client is not None and self.client.status != "running":
            raise ClusterLost(
                f"The dask client is {self.client.status}: it was closed, or its scheduler is gone. Make a new client; "
                "with checkpoint= the training resumes where it was."
            )

    def close(self) -> None:
        """End the processes that were started here; a client that was given stays as it is."""
        if self._finalizer is not None:
            self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.client is None:
            return "<Workers: this process>"
        return f"<Workers: {'own processes' if self._finalizer is not None else 'a client'}, {self.client.status}>"


def _start(n_workers: int | None, memory_limit: Any) -> tuple[Any, Any]:
    """A cluster of processes on this machine, and its client."""
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        raise RuntimeError(
            "This module starts worker processes when it is imported, and each of them imports it again. Put what "
            "trains under `if __name__ == '__main__':`."
        )
    if process.daemon:
        raise DeclarationError(
            "This is a worker process itself, which cannot start others: pass client=distributed.get_client(), or "
            "client='sequential'."
        )
    with config.set(_CONFIG):
        cluster = LocalCluster(
            n_workers=CPU_COUNT if n_workers is None else n_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory_limit,
            dashboard_address=None,
            worker_dashboard_address=None,
            silence_logs=logging.ERROR,
        )
        try:
            # Weights go to the workers, and answers come back, without passing through the scheduler.
            return Client(cluster, direct_to_workers=True), cluster
        except BaseException:
            cluster.close(timeout=_CLOSING)
            raise


def _shut_down(client: Any, cluster: Any) -> None:
    started = list(cluster._created)
    try:
        client.close()
    finally:
        try:
            cluster.close(timeout=_CLOSING)
        except TimeoutError:  # a process that is just starting, on a busy machine
            for pid in [nanny.pid for nanny in started if nanny.pid]:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
            with suppress(TimeoutError):
                cluster.close(timeout=_CLOSING)


def _ages(dask_scheduler: Any) -> dict[str, float]:
    now = time.time()
    return {address: now - worker.last_seen for address, worker in dask_scheduler.workers.items()}


def _memory_limits(dask_scheduler: Any) -> list[int]:
    return [worker.memory_limit for worker in dask_scheduler.workers.values()]

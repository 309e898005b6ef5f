"""Shards: parts of a data set that are loaded and used on workers, lost with them, and loaded again.

A pass calls one function for every shard where it is, with arguments that are sent to each worker once, and its answers
come back in the order of the shards, however they arrived: sums over them are reproducible.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from threadpoolctl import ThreadpoolController

from structopt.distributed.cluster import Workers
from structopt.distributed.passes import Given, Pass, Sent, named
from structopt.distributed.placement import Placement
from structopt.distributed.shard import Load, Shard, ShardInfo, add_up, describe, make_shard
from structopt.errors import DeclarationError, StructoptError
from structopt.risks.watch import Watch

__all__ = ["Given", "Load", "Sent", "Shard", "ShardInfo", "Shards", "Traffic", "add_up"]

# Share of the memory of all workers that shards may fill; beyond it they are loaded anew in every pass.
_KEPT_SHARE = 0.5
# Bytes of a process with its libraries, which are not for shards.
_PROCESS = 200e6
# Answers larger than this are added on the workers.
_ADDED_THERE = 1 << 20


@dataclass
class Traffic:
    """What the passes took.

    Attributes
    ----------
    passes : int
    sent, received : int
        Bytes of arguments, times the workers that got them, and of answers.
    reloaded : int
        Shards that were loaded again because their worker was lost.
    moves : int
        Shards that went to another worker, since theirs was slow or that one new.
    seconds : float
        Of all passes, on the driver.
    """

    passes: int = 0
    sent: int = 0
    received: int = 0
    reloaded: int = 0
    moves: int = 0
    seconds: float = 0.0

    @property
    def moved(self) -> int:
        """Bytes in both directions."""
        return self.sent + self.received


class Shards:
    """The parts of a data set on the workers.

    Parameters
    ----------
    load : callable
        ``load(k, n)`` runs on a worker and returns part k of n: a `Risk`; a pair of one and its mass in the mean of
        all; or None for a part without examples.
    n_shards : int
    workers : Workers
    keep : bool or "auto"
        Whether workers hold the shards between passes. If not, each is loaded, used and released in every pass: the
        memory needed is that of one shard per worker. ``"auto"``: as long as they fit into half of the memory that all
        workers have beside their libraries.
    timeout : float, optional
        Seconds that a pass may take; then `ClusterLost` names the shards that are missing.
    patience : float
        Seconds after which the shards of a worker that does not answer are given to others, if it takes three times as
        long as any shard did before.

    Attributes
    ----------
    traffic : Traffic
        What the passes took.

    Examples
    --------
    >>> from structopt.distributed import Shards, Workers
    >>> from structopt.risks import Hinge
    >>> def load(k, n):
    ...     return Hinge([[1.0], [2.0]], [1, -1])
    >>> shards = Shards(load, 3, Workers("sequential"))
    >>> shards.map(lambda shard, factor: factor * shard.k, 10)
    [0, 10, 20]
    """

    def __init__(
        self,
        load: Load,
        n_shards: int,
        workers: Workers,
        *,
        keep: bool | Literal["auto"] = "auto",
        timeout: float | None = None,
        patience: float = 30.0,
    ) -> None:
        if not callable(load):
            raise DeclarationError(f"load must be callable as load(k, n), got {type(load).__name__}.")
        if not (isinstance(n_shards, int | np.integer) and n_shards >= 1):
            raise DeclarationError(f"n_shards must be a whole number, at least 1; got {n_shards!r}.")
        if keep not in (True, False, "auto"):
            raise DeclarationError(f"keep must be True, False or 'auto', got {keep!r}.")
        if timeout is not None and not timeout > 0:
            raise DeclarationError(f"timeout must be positive or None, got {timeout!r}.")
        if not patience > 0:
            raise DeclarationError(f"patience must be positive, got {patience!r}.")
        self.load, self.workers, self.timeout, self.patience = load, workers, timeout, float(patience)
        self.n = int(n_shards)
        self.keep: bool | Literal["auto"] = True if isinstance(load, Given) else keep
        self.watch = Watch()
        self.traffic = Traffic()
        # For the passes:
        self.name = f"structopt-{uuid.uuid4().hex[:12]}"
        self.number = itertools.count()
        self.held: dict[int, Any] = {}  # futures of shards, or the shards themselves in this process
        self.placement = Placement()
        self.silent: dict[str, float] = {}  # workers that did not answer in time, and when
        self.longest = 0.0  # seconds from one answer of a worker to the next
        self._infos: list[ShardInfo | None] | None = None
        self._size = 0

    def __len__(self) -> int:
        return self.n

    @property
    def is_known(self) -> bool:
        """Whether the shards have been loaded once."""
        return self._infos is not None

    @property
    def infos(self) -> list[ShardInfo | None]:
        """What each shard is, None where it has no examples; loads them when it is asked first.

        Returns
        -------
        list of ShardInfo or None
        """
        if self._infos is None:
            self._room = _KEPT_SHARE * max(0.0, self.workers.memory - _PROCESS * self.workers.count)
            found: list[ShardInfo | None] = self.map(describe)
            if all(info is None for info in found):
                raise DeclarationError(f"None of the {self.n} shards has an example.")
            self._infos = found
            self.keep = bool(self.keep)
            self.placement.sized({k: info.nbytes for k, info in enumerate(found) if info is not None})
        return self._infos

    def send(self, *values: Any) -> Sent:
        """Arguments that several passes share, sent to the workers by the first of them.

        Parameters
        ----------
        *values

        Returns
        -------
        Sent
            To be given as the only common argument.
        """
        return Sent(values)

    def map(
        self, function: Callable[..., Any], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Call ``function(shard, *common, *own[k])`` where each shard is, and return the answers in order.

        Parameters
        ----------
        function : callable
            Of a `Shard`. It may change the `memory` of the shard, and must answer the same if that is lost.
        *common
            Arguments for all shards, sent to each worker once; or a `Sent`.
        own : sequence of tuple, optional
            Further arguments of each shard.

        Returns
        -------
        list
            An answer per shard; None for one without examples.
        """
        with self._timed(own):
            if self.workers.is_sequential:
                return list(self._map_here(function, _values(common), own))
            return Pass(self, function, common, own).answers_of_all()

    def sum(
        self,
        function: Callable[..., Any],
        add: Callable[[Any, Any], Any],
        *common: Any,
        own: Sequence[tuple[Any, ...]] | None = None,
        size: int = 0,
    ) -> Any:
        """The answers of all shards that have examples, added in the order of `add_up`.

        Parameters
        ----------
        function : callable
        add : callable
            ``add(a, b)`` of two answers.
        *common, own
            As of `map`.
        size : int
            Bytes of an answer: large ones are added on the workers, and only the sum comes here.

        Returns
        -------
        object
        """
        with self._timed(own):
            if self.workers.is_sequential:
                found = self._map_here(function, _values(common), own)
                return add_up((answer for answer in found if answer is not None), add)
            if size > _ADDED_THERE and self.infos:
                return Pass(self, function, common, own).sum_of_all(add)
            answers = Pass(self, function, common, own).answers_of_all()
        return add_up((answer for answer in answers if answer is not None), add)

    @contextmanager
    def _timed(self, own: Sequence[tuple[Any, ...]] | None) -> Iterator[None]:
        if own is not None and len(own) != self.n:
            raise DeclarationError(f"own has {len(own)} entries for {self.n} shards.")
        start = time.perf_counter()
        self.workers.check()
        try:
            yield
        except StructoptError:
            raise
        except Exception:
            self.workers.check()  # whatever a client says that was closed in the middle
            raise
        self.traffic.passes += 1
        self.traffic.seconds += time.perf_counter() - start

    def _map_here(
        self, function: Callable[..., Any], common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None
    ) -> Iterator[Any]:
        with one_thread():
            for k in range(self.n):
                self.watch.check()
                shard = self.held.get(k)
                try:
                    if k not in self.held:
                        shard = make_shard(self.load, k, self.n)
                        if self.keep:
                            self.held[k] = shard
                    answer = None if shard is None else function(shard, *common, *(own[k] if own else ()))
                except Exception as error:
                    raise named(error, k, self.n) from error
                yield answer

    def drop(self, k: int) -> None:
        """Forget a shard that is lost."""
        self.held.pop(k, None)
        self.placement.at.pop(k, None)

    def no_room(self, answer: Any) -> bool:
        """Whether the shards described so far fill the memory that they may; from then on none is kept."""
        if self._infos is None and self.keep == "auto" and isinstance(answer, ShardInfo):
            self._size += answer.nbytes
            if self._size > self._room:
                self.keep = False
                self.close()
                return True
        return False

    def close(self) -> None:
        """Release the shards; the workers stay."""
        self.held.clear()
        self.placement.at.clear()

    def __repr__(self) -> str:
        return f"<Shards: {self.n} on {self.workers!r}>"


def _values(common: tuple[Any, ...]) -> tuple[Any, ...]:
    """The common arguments themselves."""
    return common[0].values if len(common) == 1 and isinstance(common[0], Sent) else common


_CONTROLLER: list[ThreadpoolController] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS with one thread, as on the workers: with more it may add in another order."""
    if not _CONTROLLER:
        _CONTROLLER.append(ThreadpoolController())
    with _CONTROLLER[0].limit(limits=1):
        yield

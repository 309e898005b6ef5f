"""Shards: parts of a data set that are loaded and used on workers, lost with them, and loaded again.

A shard is the answer of ``load(k, n)`` on a worker, as a future: dask keeps the call that made it, and makes it again
on another worker when one dies. A pass calls one function for every shard, with arguments that are sent to each worker
once, and its answers come back in the order of the shards, however they arrived: sums over them are reproducible.
"""

from __future__ import annotations

import itertools
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from distributed import CancelledError, as_completed
from distributed.scheduler import KilledWorker
from threadpoolctl import ThreadpoolController

from structopt.distributed.cluster import Workers
from structopt.errors import ClusterLost, DeclarationError, ShardFailed, TimeLimitReached
from structopt.risks.risk import Risk
from structopt.risks.watch import Watch
from structopt.stopping import deadline, time_left

__all__ = ["Shard", "ShardInfo", "Shards", "Traffic"]

#: ``load(k, n)`` makes part k of n on a worker: its risk, its risk and its mass, or None where there is no example.
Load = Callable[[int, int], Any]

# Arguments larger than this are sent to each worker once a pass; smaller ones travel with the call of each shard.
_SCATTERED = 1 << 16
# Share of the memory of all workers that shards may fill; beyond it they are loaded anew in every pass.
_KEPT_SHARE = 0.5
# Times that a shard may lose its worker in one pass; then it is taken for what kills the workers.
_LOSSES = 4
# Seconds without any worker after which a pass is given up, and between two looks.
_LONELY, _LOOK = 60.0, 1.0


@dataclass(eq=False)
class Shard:
    """One part of the data, where it was loaded.

    Attributes
    ----------
    k, n : int
        Its number, and the number of parts.
    risk : Risk
        Of its examples.
    mass : float
        Its weight in a mean over all parts: the number of its examples, or the sum of their weights.
    memory : dict
        What an algorithm keeps here between passes (dual variables, label caches). It is lost with the worker, and a
        copy of the shard on another worker may hold an older state: whoever relies on it keeps a number to tell.
    """

    k: int
    n: int
    risk: Risk
    mass: float
    memory: dict[str, Any] = field(default_factory=dict)


class ShardInfo(NamedTuple):
    """What the driver knows about a shard.

    Attributes
    ----------
    n_examples, n_features : int
    mass : float
    nbytes : int
        Of its arrays, about.
    kind : type
        Class of its risk.
    lower_bound : float
        Of its risk.
    is_smooth, has_line_search : bool
        As of its risk.
    is_part : bool
        Whether it was made by `Risk.shard`, so that it adds up with the others as it is.
    text : str
        Its risk, for messages.
    """

    n_examples: int
    n_features: int
    mass: float
    nbytes: int
    kind: type
    lower_bound: float
    is_smooth: bool
    has_line_search: bool
    is_part: bool
    text: str


@dataclass
class Traffic:
    """What the passes took.

    Attributes
    ----------
    passes : int
    sent, received : int
        Bytes of arguments, times the workers that got them, and of answers.
    reloaded : int
        Shards that were asked again because their worker was lost.
    seconds : float
        Of all passes, on the driver.
    """

    passes: int = 0
    sent: int = 0
    received: int = 0
    reloaded: int = 0
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
        memory needed is that of one shard per worker. ``"auto"``: as long as they fit into half of the memory of all
        workers.
    timeout : float, optional
        Seconds that a pass may take; then `ClusterLost` names the shards that are missing.

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
    ) -> None:
        if not callable(load):
            raise DeclarationError(f"load must be callable as load(k, n), got {type(load).__name__}.")
        if not (isinstance(n_shards, int | np.integer) and n_shards >= 1):
            raise DeclarationError(f"n_shards must be a whole number, at least 1; got {n_shards!r}.")
        if keep not in (True, False, "auto"):
            raise DeclarationError(f"keep must be True, False or 'auto', got {keep!r}.")
        if timeout is not None and not timeout > 0:
            raise DeclarationError(f"timeout must be positive or None, got {timeout!r}.")
        self.load, self.workers, self.timeout = load, workers, timeout
        self.n = int(n_shards)
        self.keep = keep
        self.watch = Watch()
        self.traffic = Traffic()
        self._name = f"structopt-{uuid.uuid4().hex[:12]}"
        self._number = itertools.count()
        self._held: dict[int, Any] = {}  # futures of shards, or the shards themselves in this process
        self._infos: list[ShardInfo | None] | None = None

    def __len__(self) -> int:
        return self.n

    @property
    def infos(self) -> list[ShardInfo | None]:
        """What each shard is, None where it has no examples; loads them when it is asked first.

        Returns
        -------
        list of ShardInfo or None
        """
        if self._infos is None:
            found: list[ShardInfo | None] = self.map(_describe)
            if all(info is None for info in found):
                raise DeclarationError(f"None of the {self.n} shards has an example.")
            self._infos = found
        return self._infos

    def map(
        self, function: Callable[..., Any], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Call ``function(shard, *common, *own[k])`` where each shard is, and return the answers in order.

        Parameters
        ----------
        function : callable
            Of a `Shard`. It may change the `memory` of the shard, and must answer the same if that is lost.
        *common
            Arguments for all shards, sent to each worker once.
        own : sequence of tuple, optional
            Further arguments of each shard.

        Returns
        -------
        list
            An answer per shard; None for one without examples.
        """
        if own is not None and len(own) != self.n:
            raise DeclarationError(f"own has {len(own)} entries for {self.n} shards.")
        start = time.perf_counter()
        if self.workers.is_sequential:
            answers = self._map_here(function, common, own)
        else:
            answers = _Pass(self, function, common, own).run()
        self.traffic.passes += 1
        self.traffic.seconds += time.perf_counter() - start
        return answers

    def _map_here(
        self, function: Callable[..., Any], common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None
    ) -> list[Any]:
        answers = []
        with one_thread():
            for k in range(self.n):
                self.watch.check()
                shard = self._held.get(k)
                try:
                    if k not in self._held:
                        shard = make_shard(self.load, k, self.n)
                        if self.keep:
                            self._held[k] = shard
                    answers.append(None if shard is None else function(shard, *common, *(own[k] if own else ())))
                except Exception as error:
                    raise _named(error, k, self.n) from error
        return answers

    def close(self) -> None:
        """Release the shards; the workers stay."""
        self._held.clear()

    def __repr__(self) -> str:
        return f"<Shards: {self.n} on {self.workers!r}>"


class _Pass:
    """One call for every shard, until all have answered."""

    def __init__(
        self,
        shards: Shards,
        function: Callable[..., Any],
        common: tuple[Any, ...],
        own: Sequence[tuple[Any, ...]] | None,
    ) -> None:
        self.shards, self.function, self.common, self.own = shards, function, common, own
        self.client = shards.workers.client
        self.payload: Any = None
        self.futures: dict[str, tuple[int, Any]] = {}  # by key
        self.answers: dict[int, Any] = {}
        self.losses: Counter[int] = Counter()
        self.began = time.monotonic()
        self.alone_since: float | None = None
        self.looked = self.began

    def run(self) -> list[Any]:
        shards = self.shards
        try:
            self._send()
            stream = as_completed(loop=self.client.loop, with_results=True, raise_errors=False)
            stream.update(self._ask(range(shards.n)))
            while len(self.answers) < shards.n:
                for future, result in self._arrived(stream):
                    self._take(future, result, stream)
        finally:
            self._release()
        return [self.answers[k] for k in range(shards.n)]

    # ---- sending ---------------------------------------------------------------------------------

    def _send(self) -> None:
        """Bring the common arguments to the workers, once each."""
        size = sum(nbytes(argument) for argument in self.common)
        if size <= _SCATTERED:
            self.payload = self.common
            self.shards.traffic.sent += size * self.shards.n
            return
        for attempt in itertools.count():
            try:
                # Without a hash: the same weights sent twice are two things, of which one may be released.
                self.payload = self.client.scatter(self.common, broadcast=True, hash=False)[0]
                break
            except (OSError, TimeoutError, ValueError) as error:  # a worker died in the middle, or there is none
                self._look()
                if attempt >= _LOSSES:
                    raise ClusterLost(f"The weights could not be sent to the workers: {error}.") from error
                time.sleep(0.2 * (attempt + 1))
        self.shards.traffic.sent += size * max(1, self.shards.workers.count)

    def _ask(self, parts: Sequence[int]) -> list[Any]:
        """Submit the calls of some shards, in one message."""
        shards = self.shards
        own = [self.own[k] if self.own else () for k in parts]
        keys = [f"{shards._name}-{k}-{next(shards._number)}" for k in parts]
        call = {"function": self.function, "common": self.payload, "seconds": time_left(), "pure": False, "key": keys}
        if shards.keep:
            self._load([k for k in parts if k not in shards._held])
            futures = self.client.map(_call, [shards._held[k] for k in parts], own, **call)
        else:
            futures = self.client.map(_load_and_call, parts, own, load=shards.load, n=shards.n, **call)
        for k, future in zip(parts, futures, strict=True):
            self.futures[future.key] = k, future
        return list(futures)

    def _load(self, parts: Sequence[int]) -> None:
        """Futures of shards; neighbours on one worker, so that what is added up first is close together."""
        shards = self.shards
        addresses = shards.workers.addresses if parts else []
        for k in parts:
            near = [addresses[k * len(addresses) // shards.n]] if addresses else None
            key = f"{shards._name}-load-{k}-{next(shards._number)}"
            shards._held[k] = self.client.submit(
                make_shard, shards.load, k, shards.n, key=key, pure=False, workers=near, allow_other_workers=bool(near)
            )

    # ---- receiving -------------------------------------------------------------------------------

    def _arrived(self, stream: Any) -> list[tuple[Any, Any]]:
        """What has come in since the last call; waits for a moment."""
        if not stream.has_ready():
            self._look()
            with stream.thread_condition:
                if not stream.has_ready():
                    stream.thread_condition.wait(0.1)
        found: list[tuple[Any, Any]] = stream.next_batch(block=False)
        return found

    def _take(self, future: Any, result: Any, stream: Any) -> None:
        """Keep an answer, or ask again where the worker was lost."""
        k, _ = self.futures.pop(future.key)
        status = future.status
        if status == "finished":
            self.answers[k] = result
            self.shards.traffic.received += nbytes(result)
            self._tell()
            return
        error = result[1] if isinstance(result, tuple) else result
        lost = status in ("cancelled", "lost") or isinstance(error, KilledWorker | CancelledError)
        if not lost:
            raise _named(error, k, self.shards.n) from error
        self.shards.workers.check()
        self.losses[k] += 1
        if self.losses[k] > _LOSSES:
            raise ShardFailed(
                f"Shard {k} of {self.shards.n}: its worker was lost {self.losses[k]} times in one pass. It may be too "
                "large for the memory of a worker: use more shards, or workers with more memory.",
                k,
            ) from error
        self.shards.traffic.reloaded += 1
        self.shards._held.pop(k, None)
        if getattr(self.payload, "status", "finished") != "finished":
            self._send()
        stream.update(self._ask([k]))

    def _look(self) -> None:
        """Raise where waiting has no sense any more."""
        self.shards.watch.check()
        now = time.monotonic()
        limit = self.shards.timeout
        if limit is not None and now - self.began > limit:
            raise ClusterLost(f"A pass took longer than timeout={limit:g} seconds: no answer from {self._missing()}.")
        if now - self.looked < _LOOK:
            return
        self.looked = now
        if self.shards.workers.count:
            self.alone_since = None
            return
        self.alone_since = now if self.alone_since is None else self.alone_since
        if now - self.alone_since > _LONELY:
            raise ClusterLost(f"There has been no worker for {_LONELY:g} seconds: no answer from {self._missing()}.")

    def _missing(self) -> str:
        open_ = [k for k in range(self.shards.n) if k not in self.answers]
        return f"shard{'s' * (len(open_) > 1)} {', '.join(map(str, open_[:10]))}{', ...' if len(open_) > 10 else ''}"

    def _tell(self) -> None:
        """Say how far the pass is."""

    def _release(self) -> None:
        """Give up what is still under way."""
        unfinished = [future for _, future in self.futures.values()]
        self.futures.clear()
        self.payload = None
        if unfinished and self.client.status == "running":
            with suppress(Exception):  # on the way out with another error
                self.client.cancel(unfinished)


# ---- on a worker -----------------------------------------------------------------------------------


def make_shard(load: Load, k: int, n: int) -> Shard | None:
    """Part k of n, as `load` makes it."""
    found = load(k, n)
    if found is None:
        return None
    risk, mass = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(risk, Risk):
        raise DeclarationError(
            f"load({k}, {n}) returned {type(found).__name__}; it must return a Risk, a pair (Risk, mass), or None for "
            "a part without examples."
        )
    mass = float(len(risk)) if mass is None else float(mass)
    if not (math.isfinite(mass) and mass > 0):
        raise DeclarationError(f"load({k}, {n}) returned the mass {mass!r}, which must be positive and finite.")
    return Shard(k, n, risk, mass)


def _call(
    shard: Shard | None, own: tuple[Any, ...], *, function: Callable[..., Any], common: tuple[Any, ...], seconds: float
) -> Any:
    """The answer of one shard, within what is left of a time limit."""
    if shard is None:
        return None
    with deadline(seconds if math.isfinite(seconds) else None):
        return function(shard, *common, *own)


def _load_and_call(k: int, own: tuple[Any, ...], *, load: Load, n: int, **call: Any) -> Any:
    return _call(make_shard(load, k, n), own, **call)


def _describe(shard: Shard) -> ShardInfo:
    risk = shard.risk
    return ShardInfo(
        len(risk),
        int(risk.n_features),
        shard.mass,
        nbytes(shard),
        type(risk),
        float(risk.lower_bound),
        bool(risk.is_smooth),
        bool(risk.has_line_search),
        bool(getattr(risk, "is_part", False)),
        risk.fingerprint(),
    )


# ---- common ----------------------------------------------------------------------------------------

_CONTROLLER: list[ThreadpoolController] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS with one thread, as on the workers: with more it may add in another order."""
    if not _CONTROLLER:
        _CONTROLLER.append(ThreadpoolController())
    with _CONTROLLER[0].limit(limits=1):
        yield


def _named(error: Any, k: int, n: int) -> Exception:
    """An error of a shard, with its number; a time limit stays one."""
    message = f"Shard {k} of {n}: {type(error).__name__}: {error}"
    if isinstance(error, TimeLimitReached):
        return TimeLimitReached(message, error.status, error.partial, error.bound)
    return error if isinstance(error, ShardFailed) else ShardFailed(message, k)


def nbytes(thing: Any) -> int:
    """Bytes of the arrays that a thing holds, about.

    Examples
    --------
    >>> import numpy as np
    >>> nbytes({"a": np.zeros(10), "b": [np.zeros(2)] * 3})
    96
    """
    return _bytes(thing, set())


def _bytes(thing: Any, seen: set[int]) -> int:
    if isinstance(thing, np.ndarray):
        if id(thing) in seen:
            return 0
        seen.add(id(thing))
        base = thing.base
        return _bytes(base, seen) if isinstance(base, np.ndarray) and base.nbytes >= thing.nbytes else thing.nbytes
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic | type):
        return len(thing) if isinstance(thing, str | bytes) else 0
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if sp.issparse(thing):
        parts = [getattr(thing, name, None) for name in ("data", "indices", "indptr", "row", "col", "offsets")]
        return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
    if isinstance(thing, dict):
        return _bytes(list(thing.values()), seen)
    if isinstance(thing, list | tuple | set | frozenset):
        items = list(thing)
        few = items if len(items) <= 1000 else items[:: len(items) // 500]
        found = sum(_bytes(item, seen) for item in few)
        return found if len(few) == len(items) else found * len(items) // len(few)
    state = getattr(thing, "__dict__", None)
    return _bytes(list(state.values()), seen) if isinstance(state, dict) else 0


def _size_of_shard(shard: Shard) -> int:
    return max(1, nbytes(shard))


# dask takes an object that it does not know for a few bytes, and would neither spill shards nor place them well.
sizeof.register(Shard, _size_of_shard)

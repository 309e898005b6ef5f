"""Shards: parts of a data set that are loaded and used on workers, lost with them, and loaded again.

A shard is the answer of ``load(k, n)`` on a worker, as a future: dask keeps the call that made it, and makes it again
on another worker when one dies. A pass calls one function for every shard, with arguments that are sent to each worker
once, and its answers come back in the order of the shards, however they arrived: sums over them are reproducible.
"""

from __future__ import annotations

import gc
import itertools
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from dask import annotate
from dask.delayed import delayed
from dask.sizeof import sizeof
from distributed import CancelledError, as_completed
from distributed.scheduler import KilledWorker
from threadpoolctl import ThreadpoolController

from structopt.distributed.cluster import Workers
from structopt.errors import ClusterLost, DeclarationError, ShardFailed, StructoptError, TimeLimitReached
from structopt.risks.risk import Risk
from structopt.risks.watch import Watch
from structopt.stopping import deadline, time_left

__all__ = ["Given", "Load", "Sent", "Shard", "ShardInfo", "Shards", "Traffic", "add_up"]

_T = TypeVar("_T")

#: ``load(k, n)`` makes part k of n on a worker: its risk, its risk and its mass, or None where there is no example.
Load = Callable[[int, int], Any]

# Arguments larger than this are sent to each worker once a pass; smaller ones travel with the call of each shard.
_SCATTERED = 1 << 16
# Share of the memory of all workers that shards may fill; beyond it they are loaded anew in every pass.
_KEPT_SHARE = 0.5
# Times that a shard may lose its worker in one pass; then it is taken for what kills the workers. Where dask itself
# says so (by default when four workers died with a task) one more chance is left.
_LOSSES = 4
# Answers larger than this are added on the workers.
_ADDED_THERE = 1 << 20
# Times that sending may fail.
_SENDS = 100
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
    is_part, is_mean : bool
        As of its risk: whether `Risk.shard` made it, and whether the mean of the parts' risks is the risk of all.
    text : str
        Its risk, for messages.
    """

    n_examples: int
    n_features: int
    mass: float
    nbytes: int
    kind: type[Risk]
    lower_bound: float
    is_smooth: bool
    has_line_search: bool
    is_part: bool
    is_mean: bool
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


class Given:
    """A loader of parts that are made in this process, from data that are here, and sent to the workers.

    Parameters
    ----------
    part : callable
        ``part(k, n)`` as of `Shards`; it is called here, again for a part whose worker is lost.
    """

    def __init__(self, part: Load) -> None:
        self.part = part

    def __call__(self, k: int, n: int) -> Any:
        return self.part(k, n)


class Sent:
    """Arguments of all shards that are sent to each worker once, and stay there for several passes.

    Parameters
    ----------
    values : tuple
        They are kept here as well, to be sent again where a worker took them with it.
    """

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.nbytes = nbytes(values)
        self.future: Any = None

    @property
    def is_lost(self) -> bool:
        """Whether no worker has them any more."""
        return self.future is not None and self.future.status != "finished"


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
        self.keep: bool | Literal["auto"] = True if isinstance(load, Given) else keep
        self.watch = Watch()
        self.traffic = Traffic()
        self._name = f"structopt-{uuid.uuid4().hex[:12]}"
        self._number = itertools.count()
        self._held: dict[int, Any] = {}  # futures of shards, or the shards themselves in this process
        self._places: dict[int, str] = {}  # the worker that was given a shard
        self._infos: list[ShardInfo | None] | None = None
        self._size = 0

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
            self._room = _KEPT_SHARE * self.workers.memory
            found: list[ShardInfo | None] = self.map(_describe)
            if all(info is None for info in found):
                raise DeclarationError(f"None of the {self.n} shards has an example.")
            self._infos = found
            self.keep = bool(self.keep)
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
            return _Pass(self, function, common, own).answers_of_all()

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
                return _Pass(self, function, common, own).sum_of_all(add)
            answers = _Pass(self, function, common, own).answers_of_all()
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
                shard = self._held.get(k)
                try:
                    if k not in self._held:
                        shard = make_shard(self.load, k, self.n)
                        if self.keep:
                            self._held[k] = shard
                    answer = None if shard is None else function(shard, *common, *(own[k] if own else ()))
                except Exception as error:
                    raise _named(error, k, self.n) from error
                yield answer

    def _no_room(self, answer: Any) -> bool:
        """Whether the shards seen so far fill the memory that they may; from then on none is kept."""
        if self._infos is None and self.keep == "auto" and isinstance(answer, ShardInfo):
            self._size += answer.nbytes
            if self._size > self._room:
                self.keep = False
                self._held.clear()
                return True
        return False

    def _shared_out(self, parts: Sequence[int]) -> dict[str, list[int]]:
        """Parts for each worker: as many on one as on another, and neighbours together, since `add_up` begins there."""
        there = self.workers.addresses
        counts = Counter(dict.fromkeys(there, 0))
        counts.update(self._places[k] for k in self._held if self._places.get(k) in counts)
        more: Counter[str] = Counter()
        for _ in parts if there else ():
            more[min(there, key=lambda address: counts[address] + more[address])] += 1
        rest = iter(parts)
        return {address: list(itertools.islice(rest, more[address])) for address in there if more[address]}

    def close(self) -> None:
        """Release the shards; the workers stay."""
        self._held.clear()

    def __repr__(self) -> str:
        return f"<Shards: {self.n} on {self.workers!r}>"


class _Lost(Exception):
    """A pass that adds on the workers lost something that cannot be made again there."""


class _Pass:
    """One call for every shard, until all have answered."""

    def __init__(
        self,
        shards: Shards,
        function: Callable[..., Any],
        common: tuple[Any, ...],
        own: Sequence[tuple[Any, ...]] | None,
    ) -> None:
        self.shards, self.function, self.own = shards, function, own
        self.sent = common[0] if len(common) == 1 and isinstance(common[0], Sent) else Sent(common)
        self.client = shards.workers.client
        self.futures: dict[str, tuple[int, Any]] = {}  # by key
        self.answers: dict[int, Any] = {}
        self.losses: Counter[int] = Counter()
        self.failures = 0
        self.began = time.monotonic()
        self.alone_since: float | None = None
        self.looked = self.began
        self.there: set[str] | None = None  # workers at the last look

    def answers_of_all(self) -> list[Any]:
        """Every answer brought here, in the order of the shards."""
        n = self.shards.n
        try:
            stream = as_completed(loop=self.client.loop, with_results=True, raise_errors=False)
            stream.update(self._ask(range(n)))
            while len(self.answers) < n:
                for future, result in self._arrived(stream):
                    if future.key in self.futures:
                        self._take(future, result, stream)
                homeless = self._homeless([k for k in range(n) if k not in self.answers])
                if homeless:
                    self._release(homeless)
                    stream.update(self._ask(homeless))
        finally:
            self._release()
        return [self.answers[k] for k in range(n)]

    def sum_of_all(self, add: Callable[[Any, Any], Any]) -> Any:
        """The sum of the answers, added on the workers."""
        for _ in range(_LOSSES):
            try:
                return self._sum_once(add)
            except _Lost:
                self.answers.clear()
            finally:
                self._release()
        raise ClusterLost("The workers were lost again and again in one pass.")

    def _sum_once(self, add: Callable[[Any, Any], Any]) -> Any:
        parts = [k for k, info in enumerate(self.shards.infos) if info is not None]
        futures = self._ask(parts)
        total = add_up(futures, self._adder(add))
        done = as_completed(loop=self.client.loop, with_results=False)
        done.update(futures)
        del futures  # each is released here when it has been added there
        while len(self.answers) < len(parts):
            self._lose_homeless(parts)
            for future in self._arrived(done):
                k, _ = self.futures[future.key]
                if future.status != "finished":
                    self._fail_or_lose(k, future, future.exception() if future.status == "error" else None)
                del self.futures[future.key]
                self.answers[k] = None
                self._tell()
        last = as_completed([total], loop=self.client.loop, with_results=True, raise_errors=False)
        while True:
            self._lose_homeless(parts)
            for future, result in self._arrived(last):
                if future.status != "finished":
                    raise _Lost
                self.shards.traffic.received += nbytes(result)
                return result

    def _adder(self, add: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def submit(a: Any, b: Any) -> Any:
            key = f"{self.shards._name}-add-{next(self.shards._number)}"
            return self.client.submit(add, a, b, key=key, pure=False)

        return submit

    def _homeless(self, parts: Sequence[int]) -> list[int]:
        """Shards whose worker is gone. dask would wait for it: a shard is loaded on the worker that it was given to."""
        if not self.there or not self.shards.keep:
            return []
        places = self.shards._places
        found = [k for k in parts if k in self.shards._held and places.get(k, "") not in {"", *self.there}]
        for k in found:
            self._count_loss(k, None)
        return found

    def _lose_homeless(self, parts: Sequence[int]) -> None:
        if self._homeless(parts):
            raise _Lost

    def _fail_or_lose(self, k: int, future: Any, error: Any) -> None:
        """Raise the error of a shard; what a lost worker causes is `_Lost`."""
        if future.status == "error" and not isinstance(error, KilledWorker | CancelledError):
            raise _named(error, k, self.shards.n) from error
        self.shards.workers.check()
        self._count_loss(k, error)
        raise _Lost

    def _count_loss(self, k: int, error: Any) -> None:
        """A shard lost its worker: it is loaded anew, unless that happens again and again."""
        self.losses[k] += _LOSSES // 2 if isinstance(error, KilledWorker) else 1
        if self.losses[k] >= _LOSSES:
            raise ShardFailed(
                f"Shard {k} of {self.shards.n}: its worker was lost again and again in one pass. It may be too large "
                "for the memory of a worker: use more shards, or workers with more memory.",
                k,
            ) from error
        self.shards.traffic.reloaded += 1
        self.shards._held.pop(k, None)
        self.shards._places.pop(k, None)

    # ---- sending ---------------------------------------------------------------------------------

    def _payload(self) -> Any:
        """The common arguments: on the workers, once each, or small enough to travel with every call."""
        sent = self.sent
        if sent.nbytes <= _SCATTERED:
            self.shards.traffic.sent += sent.nbytes * self.shards.n
            return sent.values
        if sent.future is None or sent.is_lost:
            [sent.future] = self._scatter([sent.values])
            self.shards.traffic.sent += sent.nbytes * max(1, self.shards.workers.count)
        return sent.future

    def _scatter(self, things: list[Any], workers: list[str] | None = None) -> list[Any]:
        """Send things to all workers, or to some; again where one of them dies meanwhile, later where there is none."""
        broadcast = workers is None
        while True:
            try:
                # Without a hash: the same weights sent twice are two things, of which one may be released.
                found: list[Any] = self.client.scatter(things, workers=workers, broadcast=broadcast, hash=False)
                return found
            except (OSError, TimeoutError, ValueError, KeyError) as error:
                workers = None  # any of them
                self.failures += 1
                if self.failures > _SENDS:
                    raise ClusterLost(f"The data could not be sent to the workers: {error!r}.") from error
                self._look()
                time.sleep(0.2)

    def _ask(self, parts: Sequence[int]) -> list[Any]:
        """Submit the calls of some shards, in one message."""
        shards, payload = self.shards, self._payload()
        own = [self.own[k] if self.own else () for k in parts]
        keys = [f"{shards._name}-{k}-{next(shards._number)}" for k in parts]
        call: dict[str, Any] = {
            "function": self.function,
            "common": payload,
            "seconds": time_left(),
            "pure": False,
            "key": keys,
        }
        if shards.keep:
            self._load([k for k in parts if k not in shards._held])
            futures = self.client.map(_call, [shards._held[k] for k in parts], own, **call)
        elif hasattr(shards.load, "shard"):
            del call["pure"], call["key"]
            made = [shards.load.shard(k, shards.n) for k in parts]
            again = delayed(_call, pure=False)
            futures = self.client.compute([again(one, mine, **call) for one, mine in zip(made, own, strict=True)])
        else:
            futures = self.client.map(_load_and_call, parts, own, load=shards.load, n=shards.n, **call)
        for k, future in zip(parts, futures, strict=True):
            self.futures[future.key] = k, future
        return list(futures)

    def _load(self, parts: Sequence[int]) -> None:
        """Futures of shards, each on the worker that it is given to.

        Left to itself, dask loads most of them on the worker that is up first, and the others wait in every pass.
        """
        shards = self.shards
        while parts and not (shared := shards._shared_out(parts)):
            self._look()
            time.sleep(0.2)
        for address, mine in shared.items() if parts else ():
            if isinstance(shards.load, Given):
                for k in mine:
                    shard = make_shard(shards.load, k, shards.n)
                    [shards._held[k]] = self._scatter([shard], workers=[address])
                    shards.traffic.sent += nbytes(shard)
                continue
            if hasattr(shards.load, "shard"):  # partitions of dask collections, which have graphs of their own
                with annotate(workers=[address]):
                    made = [shards.load.shard(k, shards.n) for k in mine]
                futures = self.client.compute(made)
            else:
                keys = [f"{shards._name}-load-{k}-{next(shards._number)}" for k in mine]
                futures = self.client.map(
                    _load_part, mine, load=shards.load, n=shards.n, key=keys, pure=False, workers=[address]
                )
            shards._held.update(zip(mine, futures, strict=True))
            shards._places.update(dict.fromkeys(mine, address))

    # ---- receiving -------------------------------------------------------------------------------

    def _arrived(self, stream: Any) -> list[Any]:
        """What has come in since the last call; waits for a moment."""
        if not stream.has_ready():
            self._look()
            with stream.thread_condition:
                if not stream.has_ready():
                    stream.thread_condition.wait(0.1)
        found: list[Any] = stream.next_batch(block=False)
        return found

    def _take(self, future: Any, result: Any, stream: Any) -> None:
        """Keep an answer, or ask again where the worker was lost."""
        k, _ = self.futures.pop(future.key)
        if future.status == "finished":
            self.answers[k] = result
            self.shards.traffic.received += nbytes(result)
            self._tell()
            if self.shards._no_room(result):
                again = [k for k, _ in self.futures.values()]
                self._release()
                stream.update(self._ask(again))
            return
        error = result[1] if isinstance(result, tuple) else result
        with suppress(_Lost):
            self._fail_or_lose(k, future, error)
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
        self.there = set(self.shards.workers.addresses)
        if self.there:
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
        shards = self.shards
        shards.watch.tell(f"shards {len(self.answers)}/{shards.n}, {_amount(shards.traffic.moved)} moved")

    def _release(self, parts: Sequence[int] | None = None) -> None:
        """Give up what is still under way, of some shards or of all."""
        keys = [key for key, (k, _) in self.futures.items() if parts is None or k in parts]
        unfinished = [self.futures.pop(key)[1] for key in keys]
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


def _load_part(k: int, *, load: Load, n: int) -> Shard | None:
    return make_shard(load, k, n)


def _call(
    shard: Shard | None, own: tuple[Any, ...], *, function: Callable[..., Any], common: tuple[Any, ...], seconds: float
) -> Any:
    """The answer of one shard, within what is left of a time limit."""
    if shard is None:
        return None
    with deadline(seconds if math.isfinite(seconds) else None):
        return function(shard, *common, *own)


def _load_and_call(k: int, own: tuple[Any, ...], *, load: Load, n: int, **call: Any) -> Any:
    shard = make_shard(load, k, n)
    answer = _call(shard, own, **call)
    if nbytes(shard) > _SCATTERED:  # what refers to itself stays until the collector comes, and the next one beside it
        del shard
        gc.collect()
    return answer


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
        bool(risk.is_part),
        bool(risk.is_mean),
        risk.fingerprint(),
    )


# ---- common ----------------------------------------------------------------------------------------


def add_up(parts: Iterable[_T], add: Callable[[_T, _T], _T]) -> _T:
    """Add parts in pairs, pairs of pairs and so on: an order that depends on nothing but their number.

    Examples
    --------
    >>> add_up("abcde", lambda left, right: f"({left}{right})")
    '(((ab)(cd))e)'
    """
    sums: list[tuple[int, _T]] = []  # of a falling number of parts, powers of two
    for part in parts:
        size, total = 1, part
        while sums and sums[-1][0] == size:
            before = sums.pop()
            size, total = 2 * size, add(before[1], total)
        sums.append((size, total))
    total = sums.pop()[1]
    while sums:
        total = add(sums.pop()[1], total)
    return total


def _values(common: tuple[Any, ...]) -> tuple[Any, ...]:
    """The common arguments themselves."""
    return common[0].values if len(common) == 1 and isinstance(common[0], Sent) else common


def _amount(size: float) -> str:
    """Bytes in words.

    Examples
    --------
    >>> _amount(2_500_000)
    '2.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


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

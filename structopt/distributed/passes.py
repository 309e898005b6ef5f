"""One pass on dask: a call for every shard, on the worker that holds it, until all have answered.

Every call is pinned to a worker. A shard whose memory holds dual variables has then one copy and one history; left to
itself, dask copies shards to idle workers, and loads most of them on the worker that is up first. A pinned task waits
for ever when its worker is gone (dask's ``allow_other_workers`` does not help once all have gone), so a pass looks at
the list of workers several times a second, and gives shards of those that are gone or silent to others.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dask import annotate
from dask.delayed import delayed
from distributed import CancelledError, as_completed
from distributed.scheduler import KilledWorker

from structopt.distributed.shard import (
    Load,
    NotMoved,
    add_up,
    call,
    load_and_call,
    load_part,
    make_shard,
    nbytes,
    packed,
    unpacked,
)
from structopt.errors import ClusterLost, ShardFailed, TimeLimitReached
from structopt.stopping import time_left

if TYPE_CHECKING:
    from structopt.distributed.shards import Shards

__all__ = ["Given", "Pass", "Sent", "named"]

# Arguments larger than this are sent to each worker once a pass; smaller ones travel with the call of each shard.
_SCATTERED = 1 << 16
# Times that a shard may lose its worker in one pass while nothing else runs there; then it is what kills the workers.
_LOSSES = 3
# Times that sending may fail.
_SENDS = 100
# Seconds without any worker after which a pass is given up, and between two looks at the workers.
_LONELY, _LOOK = 60.0, 0.25
# A worker is silent when it took so many times longer than any shard did so far; and what that is multiplied with
# each time in a pass, for the case that a shard is hard and not its worker slow.
_LONGER, _MORE_PATIENT = 3.0, 4.0
# Seconds without a heartbeat; they come every half second, in large clusters every five.
_QUIET = 10.0


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


class _Asked(NamedTuple):
    """A call that is under way, or its answer on a worker: of the parts ``first <= i < last`` of a pass."""

    first: int
    last: int
    future: Any
    worker: str


class Pass:
    """One call for every shard, until all have answered.

    Parameters
    ----------
    shards : Shards
    function : callable
    common : tuple
    own : sequence of tuple, optional
        As of `Shards.map`.
    """

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
        self.parts: list[int] = []  # the shards that are asked
        self.waiting: list[int] = []  # indices of parts that no worker has been asked for
        self.asked: dict[str, _Asked] = {}  # under way, by key
        self.there: dict[tuple[int, int], _Asked] = {}  # sums that lie on workers
        self.suspects: set[int] = set()  # parts that were under way on a worker that was lost
        self.losses: Counter[int] = Counter()
        self.failures = 0
        self.began = self.looked = time.monotonic()
        self.alone_since: float | None = None
        self.threads: dict[str, int] = {}  # of the workers that can be asked
        self.homes: dict[int, str] = {}  # where shards without a worker are to go
        self.brings = ""  # the worker that the sum comes from
        self.heard: dict[str, float] = {}  # when a worker last answered, or was asked after it had
        self.took: dict[str, float] = {}  # seconds until the last answer of a worker
        self.patience = max(shards.patience, _LONGER * shards.longest)
        self.smooth = True  # whether nobody was lost
        self.done = 0

    # ---- the two kinds of passes -----------------------------------------------------------------

    def answers_of_all(self) -> list[Any]:
        """Every answer brought here, in the order of the shards."""
        answers: dict[int, Any] = {}
        self.parts = list(range(self.shards.n))
        self.waiting = list(self.parts)
        self.stream = as_completed(loop=self.client.loop, with_results=True, raise_errors=False)
        try:
            self._begin()
            while len(answers) < len(self.parts):
                self._look()
                self._hand_out()
                for future, result in self._arrived(self.stream):
                    asked = self._answered(future, result)
                    if asked is None:
                        continue
                    answers[self.parts[asked.first]] = result
                    self.shards.traffic.received += nbytes(result)
                    self._tell(len(answers))
                    if self.shards.no_room(result):
                        open_ = [asked.first for asked in self.asked.values()]
                        self._give_up(list(self.asked))
                        self.waiting += open_
        finally:
            self._give_up(list(self.asked))
        self._learn()
        return [answers[k] for k in self.parts]

    def sum_of_all(self, add: Callable[[Any, Any], Any]) -> Any:
        """The sum of the answers of shards with examples, added on the workers in the order of `add_up`."""
        self.parts = [k for k, info in enumerate(self.shards.infos) if info is not None]
        self.waiting = list(range(len(self.parts)))
        # For each sum that is part of a larger one: both halves of that.
        halves: dict[tuple[int, int], tuple[tuple[int, int], tuple[int, int]]] = {}

        def join(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
            halves[left] = halves[right] = left, right
            return left[0], right[1]

        whole = add_up([(i, i + 1) for i in self.waiting], join)
        self.stream = as_completed(loop=self.client.loop, with_results=False)
        try:
            self._begin()
            while True:
                self._look()
                self._hand_out()
                for future in self._arrived(self.stream):
                    asked = self._answered(future, future.exception() if future.status == "error" else None)
                    if asked is None:
                        continue
                    self._tell(self.done + (asked.last - asked.first == 1))
                    node = asked.first, asked.last
                    self.there[node] = asked
                    if node in halves and all(half in self.there for half in halves[node]):
                        self._add(add, *halves[node])
                if whole in self.there and self._bring(whole):
                    break
        finally:
            self.there.clear()
            self._give_up(list(self.asked))
        self._learn()
        return self.total

    def _add(self, add: Callable[[Any, Any], Any], left: tuple[int, int], right: tuple[int, int]) -> None:
        """Add two sums on the worker of the first; that of both halves is released here."""
        a, b = self.there.pop(left), self.there.pop(right)
        key = f"{self.shards.name}-add-{next(self.shards.number)}"
        future = self.client.submit(add, a.future, b.future, key=key, pure=False, workers=[a.worker])
        self._put(_Asked(a.first, b.last, future, a.worker))

    def _bring(self, node: tuple[int, int]) -> bool:
        """The sum of all from its worker; False if that was lost on the way."""
        stream = as_completed([self.there[node].future], loop=self.client.loop, with_results=True, raise_errors=False)
        self.brings = self.there[node].worker
        self.heard[self.brings] = time.monotonic()
        while node in self.there:
            for future, result in self._arrived(stream):
                if future.status == "finished":
                    self.total = result
                    self.shards.traffic.received += nbytes(result)
                    return True
                self._lose([], [node])
            self._look()
        return False

    # ---- asking ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Look at the workers; move shards from slow ones to fast ones, and to those that are new."""
        self._see()
        shards = self.shards
        if shards.keep is not True or not shards.is_known or isinstance(shards.load, Given):
            return
        moves = {k: a for k, a in shards.placement.moves(self.threads).items() if k in shards.held}
        if not moves:
            return
        keys = {
            k: (f"{shards.name}-pack-{k}-{next(shards.number)}", f"{shards.name}-move-{k}-{next(shards.number)}")
            for k in moves
        }
        with _pinned({keys[k][0]: shards.placement.at[k] for k in moves}):
            packs = self.client.map(
                packed, [shards.held[k] for k in moves], key=[keys[k][0] for k in moves], pure=False
            )
        with _pinned({keys[k][1]: a for k, a in moves.items()}):
            moved = self.client.map(unpacked, packs, key=[keys[k][1] for k in moves], pure=False)
        shards.held.update(zip(moves, moved, strict=True))
        shards.placement.at.update(moves)
        shards.traffic.moves += len(moves)

    def _hand_out(self) -> None:
        """Ask workers for parts that are waiting.

        Shards that are held are asked all at once. Before their sizes are known, and where they are not kept, a worker
        has one more than it has threads; a part that was on a worker when that was lost is alone on the next one, so
        that it is known which of them kills workers.
        """
        if not self.waiting or not self.threads:
            return
        shards, at = self.shards, self.shards.placement.at
        keeps = shards.keep is not False
        limited = not (keeps and shards.is_known)
        under_way = Counter(asked.worker for asked in self.asked.values())
        if keeps:
            new = [k for k in map(self.parts.__getitem__, self.waiting) if at.get(k) not in self.threads]
            for k in new:
                shards.drop(k)
            new = [k for k in new if self.homes.get(k) not in self.threads]
            self.homes.update(shards.placement.shared_out(new, self.threads))
        chosen, rest = [], []
        for i in self.waiting:
            k = self.parts[i]
            worker = (at.get(k) or self.homes[k]) if keeps else ""
            alone = i in self.suspects
            room = 1 if alone else self.threads.get(worker, 0) + 1 if limited else len(self.parts)
            if not worker or under_way[worker] >= room:
                worker = min(self.threads, key=lambda a: under_way[a] / self.threads[a])
                # A worker takes shards of others if it has come later.
                is_late = not keeps or worker not in self.homes.values()
                room = 1 if alone else self.threads[worker] + 1 if is_late else 0
            if under_way[worker] >= room:
                rest.append(i)
                continue
            under_way[worker] += 1
            chosen.append((i, worker))
            if keeps:
                at[k] = worker
        self.waiting = rest
        if chosen:
            self._ask(chosen)

    def _ask(self, chosen: Sequence[tuple[int, str]]) -> None:
        """Submit the calls of some shards, in one message."""
        shards = self.shards
        payload = self._payload()
        parts = [self.parts[i] for i, _ in chosen]
        workers = [worker for _, worker in chosen]
        own = [self.own[k] if self.own else () for k in parts]
        keys = [f"{shards.name}-{k}-{next(shards.number)}" for k in parts]
        options: dict[str, Any] = {"function": self.function, "common": payload, "seconds": time_left()}
        if shards.keep:
            self._load([(k, worker) for k, worker in zip(parts, workers, strict=True) if k not in shards.held])
            with _pinned(dict(zip(keys, workers, strict=True))):
                held = [shards.held[k] for k in parts]
                futures = self.client.map(call, held, own, **options, key=keys, pure=False)
        elif hasattr(shards.load, "shard"):
            again = delayed(call, pure=False)
            made = [shards.load.shard(k, shards.n) for k in parts]
            calls = [again(one, mine, **options) for one, mine in zip(made, own, strict=True)]
            with _pinned({one.key: worker for one, worker in zip(calls, workers, strict=True)}):
                futures = self.client.compute(calls)
        else:
            with _pinned(dict(zip(keys, workers, strict=True))):
                futures = self.client.map(
                    load_and_call, parts, own, load=shards.load, n=shards.n, **options, key=keys, pure=False
                )
        for (i, worker), future in zip(chosen, futures, strict=True):
            self._put(_Asked(i, i + 1, future, worker))

    def _put(self, asked: _Asked) -> None:
        if all(other.worker != asked.worker for other in self.asked.values()):
            self.heard[asked.worker] = time.monotonic()
        self.asked[asked.future.key] = asked
        self.stream.add(asked.future)

    def _load(self, places: Sequence[tuple[int, str]]) -> None:
        """Futures of shards, on the workers that are to hold them."""
        shards = self.shards
        if not places:
            return
        if isinstance(shards.load, Given):
            for k, worker in places:
                shard = make_shard(shards.load, k, shards.n)
                [shards.held[k]] = self._scatter([shard], worker)
                shards.traffic.sent += nbytes(shard)
            return
        if hasattr(shards.load, "shard"):  # partitions of dask collections, which have graphs of their own
            made = [shards.load.shard(k, shards.n) for k, _ in places]
            with _pinned({one.key: worker for one, (_, worker) in zip(made, places, strict=True)}):
                futures = self.client.compute(made)
        else:
            keys = [f"{shards.name}-load-{k}-{next(shards.number)}" for k, _ in places]
            with _pinned({key: worker for key, (_, worker) in zip(keys, places, strict=True)}):
                futures = self.client.map(
                    load_part, [k for k, _ in places], load=shards.load, n=shards.n, key=keys, pure=False
                )
        shards.held.update(zip((k for k, _ in places), futures, strict=True))

    def _payload(self) -> Any:
        """The common arguments: on the workers, once each, or small enough to travel with every call."""
        sent = self.sent
        if sent.nbytes <= _SCATTERED:
            self.shards.traffic.sent += sent.nbytes * len(self.parts)
            return sent.values
        if sent.future is None or sent.is_lost:
            [sent.future] = self._scatter([sent.values], None)
            self.shards.traffic.sent += sent.nbytes * max(1, len(self.threads))
        return sent.future

    def _scatter(self, things: list[Any], worker: str | None) -> list[Any]:
        """Send things to one worker or to all; again where one of them is lost meanwhile, later where there is none."""
        while True:
            targets = [worker] if worker in self.threads else list(self.threads)
            if targets:
                # Without a hash: the same weights sent twice are two things, of which one may be released.
                broadcast = worker is None and not self.shards.workers.is_stuck
                sending = self.client.scatter(
                    things, workers=targets, broadcast=broadcast, hash=False, asynchronous=True
                )
                found = self._finished(sending, targets)
                if found is not None:
                    return found
                # The scheduler copies one thing at a time, and may wait for a worker that does not answer: from now
                # on workers fetch what they need from each other.
                self.shards.workers.is_stuck |= bool(self.shards.silent)
            self._look()
            time.sleep(0.1)

    def _finished(self, sending: Any, targets: list[str]) -> list[Any] | None:
        """What a scatter returns, None if it has to be done again."""
        handle = asyncio.run_coroutine_threadsafe(sending, self.client.loop.asyncio_loop)
        start = time.monotonic()
        try:
            while True:
                try:
                    found: list[Any] = handle.result(timeout=_LOOK)
                    return found
                except (OSError, ValueError, KeyError) as error:  # TimeoutError is an OSError
                    if handle.done():
                        self.failures += 1
                        if self.failures > _SENDS:
                            raise ClusterLost(f"The data could not be sent to the workers: {error!r}.") from error
                        return None
                self._look()
                if time.monotonic() - start > self.patience:
                    self._shun_the_quietest(targets)
                if not set(targets) <= self.threads.keys():
                    return None
        finally:
            handle.cancel()

    # ---- receiving -------------------------------------------------------------------------------

    def _arrived(self, stream: Any) -> list[Any]:
        """What has come in since the last call; waits for a moment."""
        if not stream.has_ready():
            with stream.thread_condition:
                if not stream.has_ready():
                    stream.thread_condition.wait(0.1)
        found: list[Any] = stream.next_batch(block=False)
        return found

    def _answered(self, future: Any, result: Any) -> _Asked | None:
        """What was asked, if this is its answer; an error is raised, and what was lost is asked again."""
        asked = self.asked.get(future.key)
        if asked is None:
            return None
        if future.status != "finished":
            error = result[1] if isinstance(result, tuple) else result
            if future.status == "error" and not isinstance(error, KilledWorker | CancelledError | NotMoved):
                self.shards.drop(self.parts[asked.first])
                raise named(error, self.parts[asked.first], self.shards.n) from error
            self.shards.workers.check()
            self._lose([future.key], [], blame=isinstance(error, KilledWorker))
            return None
        del self.asked[future.key]
        now = time.monotonic()
        self.shards.longest = max(self.shards.longest, now - self.heard.get(asked.worker, now))
        self.heard[asked.worker] = now
        self.took[asked.worker] = now - self.began
        return asked

    def _learn(self) -> None:
        """How long the workers took, if they held the shards and none was lost."""
        if self.smooth and self.shards.keep is True and self.shards.is_known:
            self.shards.placement.timed(self.took)

    # ---- workers that are gone or silent ---------------------------------------------------------

    def _look(self) -> None:
        """Raise where waiting has no sense any more; take shards away from workers that are gone or silent."""
        self.shards.watch.check()
        now = time.monotonic()
        limit = self.shards.timeout
        if limit is not None and now - self.began > limit:
            raise ClusterLost(f"A pass took longer than timeout={limit:g} seconds: no answer from {self._missing()}.")
        if now - self.looked < _LOOK:
            return
        self._see()
        late = {
            worker
            for worker in {self.brings, *(asked.worker for asked in self.asked.values())}
            if now - self.heard.get(worker, now) > self.patience
        }
        if late and len(self.threads) > 1:
            # It may wait for what another one has, of which nothing is heard.
            if not self._shun_the_quietest(self.threads):
                self._shun(max(late, key=lambda worker: now - self.heard.get(worker, now)))
            self.patience *= _MORE_PATIENT
        away = {asked.worker for asked in (*self.asked.values(), *self.there.values())} - self.threads.keys()
        if away:
            self._leave(away - (self.shards.workers.paused - self.shards.silent.keys()))

    def _see(self) -> None:
        """Which workers there are."""
        self.looked = time.monotonic()
        found, silent = self.shards.workers.threads, self.shards.silent
        ages = self.shards.workers.ages if silent else {}
        for address in list(silent):
            if address not in found or ages.get(address, 0.0) < self.began - silent[address]:
                del silent[address]  # gone, or heard of before this pass
        trusted = {address: threads for address, threads in found.items() if address not in silent}
        self.threads = trusted or found
        self.shards.workers.revive()
        if self.threads:
            self.alone_since = None
            return
        self.alone_since = self.looked if self.alone_since is None else self.alone_since
        if self.looked - self.alone_since > _LONELY:
            why = " (dask has paused those that there are, for want of memory)" if self.shards.workers.count else ""
            raise ClusterLost(
                f"There has been no worker for {_LONELY:g} seconds{why}: no answer from {self._missing()}."
            )

    def _shun_the_quietest(self, workers: Iterable[str]) -> bool:
        """Shun the worker whose last heartbeat is the oldest, if it is old; whether there is one."""
        ages = {worker: age for worker, age in self.shards.workers.ages.items() if worker in workers}
        quietest = max(ages, key=ages.__getitem__, default="")
        if not quietest or ages[quietest] < _QUIET or len(self.threads) < 2:
            return False
        self._shun(quietest)
        return True

    def _shun(self, worker: str) -> None:
        """Ask a silent worker for nothing more in this pass, and not before it has been heard of in the next ones."""
        now = time.monotonic()
        parts = [self.parts[asked.first] for asked in self.asked.values() if asked.worker == worker]
        self.shards.placement.slow(worker, now - self.heard.get(worker, now), parts)
        self.shards.silent[worker] = now
        self.threads.pop(worker, None)

    def _leave(self, workers: set[str]) -> None:
        """Ask others for what some workers were asked."""
        for worker in workers:
            keys = [key for key, asked in self.asked.items() if asked.worker == worker]
            alone = len(keys) == 1 and worker not in self.shards.silent
            self._lose(keys, [node for node, asked in self.there.items() if asked.worker == worker], blame=alone)

    def _lose(self, keys: Iterable[str], nodes: Iterable[tuple[int, int]], blame: bool = False) -> None:
        """Calls and sums that do not come: their shards are loaded anew, unless that happens again and again."""
        self.smooth = False
        under_way = [self.asked[key] for key in keys]
        lost = under_way + [self.there.pop(node) for node in nodes]
        self._give_up([asked.future.key for asked in under_way])
        for asked in lost:
            for i in range(asked.first, asked.last):
                k = self.parts[i]
                here = self.shards.placement.at.get(k) in self.threads
                if not here or getattr(self.shards.held.get(k), "status", "") not in ("finished", "pending"):
                    self.shards.drop(k)
                    self.shards.traffic.reloaded += 1
                self.waiting.append(i)
        for asked in under_way:
            if asked.last - asked.first > 1:
                continue
            self.suspects.add(asked.first)
            self.losses[asked.first] += blame
            if self.losses[asked.first] >= _LOSSES:
                k = self.parts[asked.first]
                raise ShardFailed(
                    f"Shard {k} of {self.shards.n}: its worker was lost again and again in one pass. It may be too "
                    "large for the memory of a worker: use more shards, or workers with more memory.",
                    k,
                )

    def _give_up(self, keys: Sequence[str]) -> None:
        """Cancel what is under way."""
        futures = [self.asked.pop(key).future for key in keys]
        if futures and self.client.status == "running":
            with suppress(Exception):  # on the way out with another error
                self.client.cancel(futures)

    # ---- messages --------------------------------------------------------------------------------

    def _missing(self) -> str:
        indices = {*self.waiting, *(i for asked in self.asked.values() for i in range(asked.first, asked.last))}
        open_ = [self.parts[i] for i in sorted(indices)]
        return f"shard{'s' * (len(open_) > 1)} {', '.join(map(str, open_[:10]))}{', ...' if len(open_) > 10 else ''}"

    def _tell(self, done: int) -> None:
        """Say how far the pass is."""
        self.done = done
        moved = amount(self.shards.traffic.moved)
        self.shards.watch.tell(f"shards {min(done, len(self.parts))}/{len(self.parts)}, {moved} moved")


def _pinned(places: dict[str, str]) -> Any:
    """A context in which the tasks with some keys go to the worker named for each; other keys are free."""
    # The scheduler asks for the workers of every key: a method of a dictionary, since it may not know this package.
    return annotate(workers=defaultdict(list, {key: [worker] for key, worker in places.items()}).__getitem__)


def amount(size: float) -> str:
    """Bytes in words.

    Examples
    --------
    >>> amount(2_500_000)
    '2.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def named(error: Any, k: int, n: int) -> Exception:
    """An error of a shard, with its number; a time limit stays one."""
    message = f"Shard {k} of {n}: {type(error).__name__}: {error}"
    if isinstance(error, TimeLimitReached):
        return TimeLimitReached(message, error.status, error.partial, error.bound)
    return error if isinstance(error, ShardFailed) else ShardFailed(message, k)

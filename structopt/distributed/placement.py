"""Which worker holds which shard: shared out by the speed of the workers, moved where one of them turns out slow."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["Placement"]

# Passes between two looks at the balance.
_STEADY = 3
# A move must save this share of a pass, and in so many passes more than it costs: some seconds, and bytes a second.
_WORTH, _HORIZON, _MOVE, _BANDWIDTH = 0.2, 20.0, 0.5, 5e7
# Weight of the last pass in the speed of a worker.
_LAST = 0.5


class Placement:
    """The worker of each shard, and the speed of the workers.

    Attributes
    ----------
    at : dict
        The worker of each shard that has one.
    sizes : dict
        Of the shards in bytes, once they are known.

    Examples
    --------
    >>> placement = Placement()
    >>> placement.at = placement.shared_out(range(6), {"a": 1, "b": 2})
    >>> placement.at
    {0: 'a', 1: 'a', 2: 'b', 3: 'b', 4: 'b', 5: 'b'}
    """

    def __init__(self) -> None:
        self.at: dict[int, str] = {}
        self.sizes: dict[int, int] = {}
        self._rates: dict[str, float] = {}  # seconds for a unit of size on each worker
        self._passes = 0

    def sized(self, sizes: Mapping[int, int]) -> None:
        """Take over the sizes of the shards, which counted as equal before.

        Parameters
        ----------
        sizes : dict
        """
        self.sizes = dict(sizes)
        mean = max(1.0, sum(sizes.values()) / max(1, len(sizes)))
        self._rates = {address: rate / mean for address, rate in self._rates.items()}

    def shared_out(self, parts: Sequence[int], threads: Mapping[str, int]) -> dict[int, str]:
        """A worker for each of some shards.

        Neighbours come to the same worker: their answers are added first.

        Parameters
        ----------
        parts : sequence of int
        threads : dict
            The workers that there are, and their threads.

        Returns
        -------
        dict
            A worker for each part; empty where there is none.
        """
        if not threads:
            return {}
        counts, more = Counter(self.at.values()), Counter[str]()
        # Shards that a worker does in the same time as another does one.
        speed = {a: 1.0 / self._rate(a) if self._rates else float(n) for a, n in threads.items()}
        queue = [((counts[a] + 1) / speed[a], i, a) for i, a in enumerate(threads)]
        heapq.heapify(queue)
        for _ in parts:
            _, i, a = queue[0]
            more[a] += 1
            heapq.heapreplace(queue, ((counts[a] + more[a] + 1) / speed[a], i, a))
        rest = iter(parts)
        return {k: a for a in threads for k in itertools.islice(rest, more[a])}

    def timed(self, seconds: Mapping[str, float]) -> None:
        """Learn from a pass in which all went well.

        Parameters
        ----------
        seconds : dict
            Until the last answer of each worker.
        """
        held: Counter[str] = Counter()
        for k, a in self.at.items():
            held[a] += self._size(k)
        for a, took in seconds.items():
            if held[a]:
                rate = took / held[a]
                self._rates[a] = rate + (1.0 - _LAST) * (self._rates.get(a, rate) - rate)
        self._passes += 1

    def slow(self, address: str, seconds: float, parts: Sequence[int]) -> None:
        """Learn from a worker that did not answer for some of its shards.

        Parameters
        ----------
        address : str
        seconds : float
        parts : sequence of int
        """
        if parts:
            self._rates[address] = max(self._rates.get(address, 0.0), seconds / sum(map(self._size, parts)))

    def moves(self, threads: Mapping[str, int]) -> dict[int, str]:
        """Shards that another worker should have, so that all are done at about the same time.

        Parameters
        ----------
        threads : dict
            The workers that there are.

        Returns
        -------
        dict
            The new worker of each shard that is to move.
        """
        homes: dict[str, list[int]] = {a: [] for a in threads}
        for k, a in self.at.items():
            if a in homes:
                homes[a].append(k)
        is_new = any(not held for held in homes.values()) and any(len(held) > 1 for held in homes.values())
        if not self._rates or len(homes) < 2 or self._passes < (1 if is_new else _STEADY):
            return {}
        self._passes = 0
        done = {a: self._rate(a) * sum(map(self._size, held)) for a, held in homes.items()}
        before = max(done.values())
        found: dict[int, str] = {}
        for _ in range(len(self.at)):
            slow, fast = max(done, key=done.__getitem__), min(done, key=done.__getitem__)
            better = [
                (max(done[slow] - self._size(k) * self._rate(slow), done[fast] + self._size(k) * self._rate(fast)), k)
                for k in homes[slow]
            ]
            after, k = min(better, default=(done[slow], -1))
            if after >= done[slow]:
                break
            homes[slow].remove(k)
            homes[fast].append(k)
            done[slow] -= self._size(k) * self._rate(slow)
            done[fast] += self._size(k) * self._rate(fast)
            found[k] = fast
        saved = before - max(done.values())
        cost = _MOVE + sum(map(self._size, found)) / _BANDWIDTH
        return found if saved >= _WORTH * before and _HORIZON * saved >= cost else {}

    def _size(self, k: int) -> int:
        return max(1, self.sizes.get(k, 1))

    def _rate(self, address: str) -> float:
        """Of a worker that has done nothing yet: as the fastest."""
        return max(self._rates.get(address, min(self._rates.values(), default=1.0)), 1e-12)

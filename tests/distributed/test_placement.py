"""Shards are shared out by the speed of the workers, and move where that pays."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

from structopt.distributed.placement import Placement


def placed(n, threads, size=1000):
    placement = Placement()
    placement.sized(dict.fromkeys(range(n), size))
    placement.at = placement.shared_out(range(n), threads)
    return placement


def passes(placement, speed, n=3):
    """Passes in which a worker takes ``speed`` seconds a shard."""
    for _ in range(n):
        held = Counter(placement.at.values())
        placement.timed({worker: held[worker] * speed[worker] for worker in speed})


def test_neighbours_and_equal_shares():
    for n, k in [(7, 3), (2, 5), (64, 8)]:
        workers = dict.fromkeys(map(str, range(k)), 1)
        at = placed(n, workers).at
        places = [at[i] for i in range(n)]
        assert places == sorted(places)
        counts = [places.count(worker) for worker in workers]
        assert max(counts) - min(counts) <= 1
    assert Placement().shared_out(range(3), {}) == {}


def test_threads_count():
    at = placed(9, {"a": 1, "b": 2}).at
    assert Counter(at.values()) == {"a": 3, "b": 6}


def test_a_slow_worker_gives_shards_away():
    placement = placed(8, {"a": 1, "b": 1})
    passes(placement, {"a": 1.0, "b": 0.1})
    moves = placement.moves({"a": 1, "b": 1})
    assert set(moves.values()) == {"b"} and len(moves) == 4  # even one shard takes longer there than all eight here
    placement.at.update(moves)
    passes(placement, {"a": 1.0, "b": 0.1})
    assert placement.moves({"a": 1, "b": 1}) == {}  # and it stays so


def test_a_new_worker_gets_its_share_after_one_pass():
    placement = placed(8, {"a": 1})
    assert placement.moves({"a": 1, "b": 1}) == {}  # nothing is known of the speed
    passes(placement, {"a": 0.5}, 1)
    moves = placement.moves({"a": 1, "b": 1})
    assert set(moves.values()) == {"b"} and len(moves) == 4


def test_what_does_not_pay_stays():
    balanced = placed(8, {"a": 1, "b": 1})
    passes(balanced, {"a": 1.0, "b": 1.05})
    assert balanced.moves({"a": 1, "b": 1}) == {}
    short = placed(8, {"a": 1, "b": 1})
    passes(short, {"a": 1e-4, "b": 1e-3})
    assert short.moves({"a": 1, "b": 1}) == {}
    large = placed(4, {"a": 1, "b": 1}, size=10**10)
    passes(large, {"a": 1.0, "b": 0.5})
    assert large.moves({"a": 1, "b": 1}) == {}
    early = placed(8, {"a": 1, "b": 1})
    passes(early, {"a": 1.0, "b": 0.1}, 2)
    assert early.moves({"a": 1, "b": 1}) == {}


def test_a_worker_that_did_not_answer_gets_less():
    placement = placed(8, {"a": 1, "b": 1, "c": 1})
    passes(placement, dict.fromkeys("abc", 0.1))
    mine = [k for k, worker in placement.at.items() if worker == "a"]
    placement.slow("a", 60.0, mine)
    for k in mine:
        del placement.at[k]
    assert set(placement.shared_out(mine, {"a": 1, "b": 1, "c": 1}).values()) == {"b", "c"}
    passes(placement, {"b": 0.1, "c": 0.1})
    assert placement.moves({"a": 1, "b": 1, "c": 1}) == {}


def test_moves_shorten_a_pass():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n, workers = int(rng.integers(2, 30)), dict.fromkeys("abcd"[: int(rng.integers(2, 5))], 1)
        speed = {worker: float(rng.choice([0.5, 1.0, 4.0])) for worker in workers}
        placement = placed(n, workers)
        passes(placement, speed)

        def slowest(at, speed=speed):
            return max(speed[worker] * held for worker, held in Counter(at.values()).items())

        before = slowest(placement.at)
        moves = placement.moves(workers)
        assert slowest({**placement.at, **moves}) <= before
        assert all(placement.at[k] != worker for k, worker in moves.items())

"""Workers that die, loaders that fail or are slow, clients that go: training ends with an answer or a named error."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from structopt.errors import ClusterLost, DeclarationError, ShardFailed
from structopt.risks import Hinge
from structopt.train import bmrm

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

from distributed import Client, LocalCluster

from structopt.distributed import ShardedRisk, passes, shards


def data(n=60, d=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sign(X[:, 0] + 0.5 * rng.normal(size=n))


def hinge(k, n):
    X, y = data()
    return Hinge(X[k::n], y[k::n])


class Slow(Hinge):
    """A risk whose evaluation takes a while, so that a worker dies in the middle of it."""

    def loss(self, f):
        time.sleep(0.03)
        return super().loss(f)


def slow(k, n):
    X, y = data()
    return Slow(X[k::n], y[k::n])


def kill_one(client):
    """Kill a worker process, as a machine that fails does."""
    pids = client.run(os.getpid)
    os.kill(pids[min(pids)], signal.SIGKILL)


@pytest.mark.parametrize("added_there", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_worker_that_dies_changes_nothing(added_there, workers, monkeypatch):
    if added_there:
        monkeypatch.setattr(shards, "_ADDED_THERE", 0)
        monkeypatch.setattr(passes, "_SCATTERED", 0)
    expected = bmrm(ShardedRisk(slow, 6, "sequential"), lam=0.05, tol=1e-2, line_search=False)
    risk, whole = ShardedRisk(slow, 6, workers), Hinge(*data())
    sent = ShardedRisk.of(whole, 4, workers)
    before = sent(np.ones(5))[0]
    killer = threading.Timer(0.05, kill_one, [workers.client])
    found = bmrm(risk, lam=0.05, tol=1e-2, line_search=False, callback=lambda r: r.passes == 2 and killer.start())
    killer.join()
    np.testing.assert_array_equal(found.w, expected.w)
    # Data of this process are sent again.
    assert sent(np.ones(5))[0] == before == pytest.approx(whole(np.ones(5))[0])


@pytest.mark.slow
def test_all_workers_at_once(workers, monkeypatch):
    monkeypatch.setattr(passes, "_SCATTERED", 0)  # weights without a copy on the driver's side would be lost
    risk = ShardedRisk(slow, 4, workers)
    pids = workers.client.run(os.getpid)
    timer = threading.Timer(0.05, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids.values()])
    timer.start()
    value = risk(np.ones(5))[0]
    timer.join()
    assert value == ShardedRisk(slow, 4, "sequential")(np.ones(5))[0]
    assert risk(np.ones(5))[0] == value


@pytest.mark.parametrize("added_there", [False, True])
def test_a_worker_that_stops_gives_its_shards_to_others(added_there, workers, monkeypatch):
    if added_there:
        monkeypatch.setattr(shards, "_ADDED_THERE", 0)
        monkeypatch.setattr(passes, "_SCATTERED", 0)
    expected = ShardedRisk(hinge, 6, "sequential")(np.ones(5))[0]
    workers.client.wait_for_workers(2)
    risk = ShardedRisk(hinge, 6, workers)
    assert len(set(risk.shards.placement.at.values())) == 2
    monkeypatch.setattr(passes, "_QUIET", 2.0)  # not before: on a busy machine a new worker is quiet that long
    risk.shards.patience, risk.shards.longest = 0.5, 0.1  # whatever a busy machine made of the first pass
    pid = min(workers.client.run(os.getpid).values())
    os.kill(pid, signal.SIGSTOP)
    try:
        assert risk(np.ones(5))[0] == expected
        assert risk.shards.traffic.reloaded >= 3
        assert risk(np.ones(5))[0] == expected  # without waiting for it again
    finally:
        os.kill(pid, signal.SIGCONT)
    assert risk(np.ones(5))[0] == expected


def test_a_slow_worker_gives_shards_away(workers, tmp_path):
    slow_one = tmp_path / "pid"

    class Lame(Hinge):
        def loss(self, f):
            if slow_one.exists() and slow_one.read_text(encoding="utf-8") == str(os.getpid()):
                time.sleep(0.2)
            return super().loss(f)

    def load(k, n):
        X, y = data()
        return Lame(X[k::n], y[k::n])

    workers.client.wait_for_workers(2)
    risk = ShardedRisk(load, 4, workers)
    address, pid = min(workers.client.run(os.getpid).items())
    at = risk.shards.placement.at
    assert sorted(at.values()).count(address) == 2
    slow_one.write_text(str(pid), encoding="utf-8")
    value = risk(np.ones(5))[0]
    for _ in range(12):
        assert risk(np.ones(5))[0] == value
        if address not in at.values():
            break
    assert address not in at.values() and risk.shards.traffic.moves >= 1
    assert risk.shards.traffic.reloaded == 0  # they were moved, with all that they remember


@pytest.mark.slow
def test_a_shard_that_kills_its_worker_is_named(workers, tmp_path):
    flag = tmp_path / "deadly"

    def load(k, n):
        if k == 1 and flag.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return hinge(k, n)

    risk = ShardedRisk(load, 3, workers, keep=False)
    flag.touch()
    with pytest.raises(ShardFailed, match="Shard 1 of 3: its worker was lost"):
        risk(np.ones(5))
    flag.unlink()
    assert np.isfinite(risk(np.ones(5))[0])


@pytest.mark.slow  # every worker that is killed is started again and imports numba
def test_the_shard_that_kills_workers_is_named_among_others(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "_LOSSES", 2)
    flag = tmp_path / "deadly"

    class Deadly(Hinge):
        def loss(self, f):
            if flag.exists() and self.k == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().loss(f)

    def load(k, n):
        X, y = data()
        risk = Deadly(X[k::n], y[k::n])
        risk.k = k
        return risk

    risk = ShardedRisk(load, 5, workers)
    flag.touch()
    with pytest.raises(ShardFailed, match="Shard 2 of 5: its worker was lost"):
        risk(np.ones(5))
    flag.unlink()
    assert risk(np.ones(5))[0] == ShardedRisk(hinge, 5, "sequential")(np.ones(5))[0]


def test_a_cluster_without_workers_is_named(monkeypatch):
    monkeypatch.setattr(passes, "_LONELY", 0.5)
    with (
        LocalCluster(n_workers=0, dashboard_address=None, processes=False) as cluster,
        Client(cluster) as client,
        pytest.raises(ClusterLost, match=r"no worker for 0\.5 seconds: no answer from shards 0, 1, 2"),
    ):
        ShardedRisk(hinge, 3, client)


def test_two_clusters_at_once(workers):
    whole = ShardedRisk(hinge, 3, "sequential")(np.ones(5))[0]
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None, processes=False) as cluster:
        with Client(cluster, set_as_default=False) as client:
            one, other = ShardedRisk(hinge, 3, workers), ShardedRisk(hinge, 3, client)
            assert one(np.ones(5))[0] == other(np.ones(5))[0] == whole
        with pytest.raises(ClusterLost, match="The dask client is closed"):
            other(np.ones(5))
    assert one(np.ones(5))[0] == whole


def test_an_asynchronous_client_is_refused():
    import asyncio

    async def main():
        async with Client(processes=False, n_workers=0, dashboard_address=None, asynchronous=True) as client:
            ShardedRisk(hinge, 3, client)

    with pytest.raises(DeclarationError, match="client is asynchronous"):
        asyncio.run(main())


@pytest.mark.parametrize("client", ["sequential", None])
def test_more_shards_than_examples(client, workers):
    X, y = data(3)

    def load(k, n):
        return Hinge(X[k::n], y[k::n]) if k < 3 else None

    risk = ShardedRisk(load, 5, client or workers)
    assert len(risk) == 3 and risk(np.ones(5))[0] == pytest.approx(Hinge(X, y)(np.ones(5))[0])
    assert bmrm(risk, lam=0.1).converged

    def empty(k, n):
        return Hinge(X[k::n], y[k::n])

    with pytest.raises(ShardFailed, match=r"Shard [34] of 5: "):  # an error of the risk, not of a mean over nothing
        ShardedRisk(empty, 5, client or workers)
    with pytest.raises(DeclarationError, match="None of the 2 shards has an example"):
        ShardedRisk(lambda k, n: None, 2, client or workers)


def test_a_pass_has_a_time_limit(workers):
    def load(k, n):
        time.sleep(0.0 if k else 1.5)
        return hinge(k, n)

    with pytest.raises(ClusterLost, match=r"longer than timeout=0\.4 seconds: no answer from shards? 0"):
        ShardedRisk(load, 3, workers, timeout=0.4)


def test_max_seconds_reaches_into_a_pass(workers):
    start = time.monotonic()
    result = bmrm(ShardedRisk(slow, 60, workers), lam=1e-6, tol=0, max_seconds=1.5)
    assert result.stopped == "time" and len(result.w) == 5
    assert time.monotonic() - start < 60


def test_a_closed_client_is_named(workers):
    client = Client(workers.client.scheduler.address, set_as_default=False)
    risk = ShardedRisk(hinge, 3, client)
    first = bmrm(risk, lam=0.05, max_passes=3)
    client.close()
    with pytest.raises(ClusterLost, match="The dask client is closed"):
        bmrm(risk, lam=0.05, w0=first.w)
    again = ShardedRisk(hinge, 3, workers)
    assert again(first.w)[0] == ShardedRisk(hinge, 3, "sequential")(first.w)[0]


def test_a_client_that_goes_in_the_middle_of_a_pass_is_named(workers):
    client = Client(workers.client.scheduler.address, set_as_default=False)
    risk = ShardedRisk(slow, 40, client)
    threading.Timer(0.1, client.close).start()
    with pytest.raises(ClusterLost, match="The dask client is clos"):
        for _ in range(100):
            risk(np.ones(5))


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_weights(workers, ctrl_c):
    risk = ShardedRisk(slow, 6, workers)
    passes = []
    ctrl_c(0.05, ready=lambda: len(passes) >= 2)
    result = bmrm(risk, lam=1e-6, tol=0, callback=lambda so_far: passes.append(so_far.passes))
    assert result.stopped == "interrupted" and np.isfinite(result.objective)
    assert risk(result.w)[0] <= 1.5

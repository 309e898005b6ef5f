"""Many faults in one run: workers that are killed at random moments, drivers too; data that outgrow the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import structopt as so
from structopt.errors import ClusterLost
from structopt.risks import Hinge
from structopt.train import bmrm

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

from structopt.distributed import ShardedRisk, Workers, block_ascent, shards

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")

LAM, TOL = 0.02, 1e-3


def chains(k, n):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(rng.integers(2, 5), 3)) for _ in range(30)]
    Y = [(x + 0.7 * rng.normal(size=x.shape)).argmax(axis=1) for x in X]
    return so.train.StructuredRisk(so.structures.Chain(3), X[k::n], Y[k::n], rtol=1e-7)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return "zombie" not in file.read()
    except OSError:
        return False


def gone(pids, seconds=30):
    """Return whether all processes end within some seconds."""
    end = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    return not any(map(is_alive, pids))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [25])
def test_workers_are_killed_at_random_moments(kills):
    with ShardedRisk(chains, 6, "sequential") as risk:
        expected = bmrm(risk, lam=LAM, tol=TOL)
    rng = np.random.default_rng(0)
    pids, killed, fits = set(), 0, 0
    workers = Workers(n_workers=2, memory_limit="1GB")

    def kill():
        nonlocal killed
        mine = [nanny.pid for nanny in workers._cluster.workers.values() if nanny.pid]
        pids.update(mine)
        if mine:
            os.kill(int(rng.choice(mine)), signal.SIGKILL)
            killed += 1

    with workers:
        while killed < kills:
            for trainer in (bmrm, block_ascent):
                when = set(rng.choice(np.arange(1, 14), size=4, replace=False).tolist())
                timers = []

                def strike(result, when=when, timers=timers):
                    if result.passes in when and killed < kills:
                        timers.append(threading.Timer(float(rng.uniform(0.0, 0.5)), kill))
                        timers[-1].start()

                with ShardedRisk(chains, 6, workers) as risk:
                    result = trainer(risk, lam=LAM, tol=TOL, callback=strike)
                for timer in timers:
                    timer.join()
                fits += 1
                assert result.converged and result.gap <= TOL
                assert result.lower_bound <= expected.objective + 1e-9
                assert result.objective >= expected.lower_bound - 1e-9
                if trainer is bmrm:
                    np.testing.assert_array_equal(result.w, expected.w)
                print(f"fit {fits}: {result.trainer}, {killed} kills so far, {risk.shards.traffic}", flush=True)
    assert killed >= kills and fits >= 4
    assert not [pid for pid in pids if is_alive(pid)]


SCRIPT = """
    import os, sys
    import numpy as np
    import structopt as so
    from structopt.distributed import ShardedRisk, block_ascent
    from structopt.train import bmrm
    from structopt.train.checkpoint import Checkpoint

    def load(k, n):
        rng = np.random.default_rng(1)
        X = [rng.normal(size=(rng.integers(2, 5), 3)) for _ in range(30)]
        Y = [(x + 0.7 * rng.normal(size=x.shape)).argmax(axis=1) for x in X]
        return so.train.StructuredRisk(so.structures.Chain(3), X[k::n], Y[k::n], rtol=1e-7)

    if __name__ == "__main__":
        trainer = {"bmrm": bmrm, "block_ascent": block_ascent}[sys.argv[2]]
        with ShardedRisk(load, 3, n_workers=1) as risk:
            print("workers", *risk.workers.client.run(os.getpid).values(), flush=True)
            result = trainer(
                risk, lam=0.02, tol=1e-3, checkpoint=Checkpoint(sys.argv[1], every=0),
                callback=lambda result: print("pass", result.passes, flush=True),
            )
            print("result", result.stopped, flush=True)
"""


def started(tmp_path, trainer, word):
    """Start the script above; return its process as soon as it prints `word`, and the numbers of its workers."""
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "run.npz"), trainer.__name__],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert driver.stdout is not None and driver.stderr is not None
    lines = []
    for line in driver.stdout:
        lines.append(line.split())
        if line.startswith(word):
            return driver, [int(pid) for pid in lines[0][1:]]
    raise AssertionError(f"{lines} {driver.stderr.read()}")


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [bmrm, block_ascent])
def test_a_killed_driver_resumes_to_the_same_weights(trainer, tmp_path):
    driver, pids = started(tmp_path, trainer, "pass 5")
    driver.kill()
    driver.communicate()
    passes = []
    with ShardedRisk(chains, 3, "sequential") as risk:
        expected = trainer(risk, lam=LAM, tol=TOL)
    with ShardedRisk(chains, 3, n_workers=1) as risk:
        found = trainer(
            risk,
            lam=LAM,
            tol=TOL,
            checkpoint=tmp_path / "run.npz",
            callback=lambda result: passes.append(result.passes) and None,
        )
    assert passes[0] >= 5 and found.converged
    np.testing.assert_array_equal(found.w, expected.w)
    assert gone(pids)


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_leaves_no_process(tmp_path):
    driver, pids = started(tmp_path, bmrm, "pass 2")
    os.killpg(driver.pid, signal.SIGINT)  # a terminal sends it to the workers, too
    rest, errors = driver.communicate(timeout=120)
    assert "result interrupted" in rest, (rest[-500:], errors[-2000:])
    assert gone(pids)


def test_processes_end_with_the_object():
    own = Workers(n_workers=1)
    pids = list(own.client.run(os.getpid).values())
    own.close()
    assert gone(pids)
    with pytest.raises(ClusterLost):
        own.check()


def test_shards_that_do_not_fit_are_loaded_in_every_pass(workers, monkeypatch, tmp_path):
    def load(k, n):
        with open(tmp_path / str(k), "a", encoding="utf-8") as file:
            file.write(".")
        rng = np.random.default_rng(k)
        X = rng.normal(size=(50, 4))
        return Hinge(X, np.sign(X[:, 0] + 0.5 * rng.normal(size=50)))

    def loads():
        return sum((tmp_path / str(k)).stat().st_size for k in range(6))

    expected = bmrm(ShardedRisk(load, 6, "sequential"), lam=0.1)
    before = loads()
    with ShardedRisk(load, 6, workers) as risk:
        assert risk.shards.keep is True and loads() == before + 6
        np.testing.assert_array_equal(bmrm(risk, lam=0.1).w, expected.w)
        assert loads() == before + 6
    monkeypatch.setattr(shards, "_KEPT_SHARE", 2.5 * 50 * 5 * 8 / (workers.memory - 4e8))  # two shards and a half
    before = loads()
    with ShardedRisk(load, 6, workers) as risk:
        assert risk.shards.keep is False and not risk.shards.held
        result = bmrm(risk, lam=0.1)
        np.testing.assert_array_equal(result.w, expected.w)
        assert loads() >= before + 6 + 6 * result.passes


def large(k, n):
    """32 MB."""
    rng = np.random.default_rng(k)
    X = np.resize(rng.normal(size=99_991), (4000, 1000))  # quick to make
    return Hinge(X, np.sign(X[:, :10].sum(axis=1) + rng.normal(size=4000)))


def peak():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.slow
def test_data_of_three_times_the_memory():
    n, shard = 38, 4000 * 1001 * 8
    with Workers(n_workers=1, memory_limit="400MB") as workers:
        assert n * shard > 3 * workers.memory
        [before], [pid] = workers.client.run(peak).values(), workers.client.run(os.getpid).values()
        with ShardedRisk(large, n, workers) as risk:
            assert risk.shards.keep is False
            result = bmrm(risk, lam=1e-2, tol=0.05, max_passes=3)
        [after], [same] = workers.client.run(peak).values(), workers.client.run(os.getpid).values()
    assert result.lower_bound <= result.objective <= result.history["objective"][0]
    assert same == pid and after < before + 5 * shard  # a shard, what is made of it, and the next one

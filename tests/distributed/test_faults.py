"""Workers that die, loaders that fail or are slow, clients that go: training ends with an answer or a named error."""

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

from structopt.errors import ClusterLost, ShardFailed
from structopt.risks import Hinge
from structopt.train import bmrm

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

from structopt.distributed import ShardedRisk, Workers, shards


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


@pytest.mark.parametrize("added_there", [False, True])
def test_a_worker_that_dies_changes_nothing(added_there, workers, monkeypatch):
    if added_there:
        monkeypatch.setattr(shards, "_ADDED_THERE", 0)
        monkeypatch.setattr(shards, "_SCATTERED", 0)
    expected = bmrm(ShardedRisk(slow, 6, "sequential"), lam=0.05, tol=1e-2, line_search=False)
    risk = ShardedRisk(slow, 6, workers)
    killer = threading.Timer(0.05, kill_one, [workers.client])
    found = bmrm(risk, lam=0.05, tol=1e-2, line_search=False, callback=lambda r: r.passes == 2 and killer.start())
    killer.join()
    np.testing.assert_array_equal(found.w, expected.w)


@pytest.mark.slow
def test_all_workers_at_once(workers, monkeypatch):
    monkeypatch.setattr(shards, "_SCATTERED", 0)  # weights without a copy on the driver's side would be lost
    risk = ShardedRisk(slow, 4, workers)
    pids = workers.client.run(os.getpid)
    timer = threading.Timer(0.05, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids.values()])
    timer.start()
    value = risk(np.ones(5))[0]
    timer.join()
    assert value == ShardedRisk(slow, 4, "sequential")(np.ones(5))[0]
    assert risk(np.ones(5))[0] == value


def test_data_of_this_process_are_sent_again(workers):
    whole = Hinge(*data())
    risk = ShardedRisk.of(whole, 4, workers)
    before = risk(np.ones(5))
    kill_one(workers.client)
    after = risk(np.ones(5))
    assert after[0] == before[0] == pytest.approx(whole(np.ones(5))[0])


def test_a_shard_that_kills_its_worker_is_named(workers, tmp_path):
    flag = tmp_path / "deadly"

    def load(k, n):
        if k == 1 and flag.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return hinge(k, n)

    def allow(failures, dask_scheduler):
        dask_scheduler.allowed_failures = failures

    risk = ShardedRisk(load, 3, workers, keep=False)
    workers.client.run_on_scheduler(allow, 0)  # dask gives up after the first, and we after its second
    flag.touch()
    try:
        with pytest.raises(ShardFailed, match="Shard 1 of 3: its worker was lost"):
            risk(np.ones(5))
    finally:
        flag.unlink()
        workers.client.run_on_scheduler(allow, 3)
    assert np.isfinite(risk(np.ones(5))[0])


def test_a_pass_has_a_time_limit(workers):
    def load(k, n):
        time.sleep(0.0 if k else 1.5)
        return hinge(k, n)

    with pytest.raises(ClusterLost, match=r"longer than timeout=0\.4 seconds: no answer from shards? 0"):
        ShardedRisk(load, 3, workers, timeout=0.4)


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_weights(workers, ctrl_c):
    risk = ShardedRisk(slow, 6, workers)
    passes = []
    ctrl_c(0.05, ready=lambda: len(passes) >= 2)
    result = bmrm(risk, lam=1e-6, tol=0, callback=lambda so_far: passes.append(so_far.passes))
    assert result.stopped == "interrupted" and np.isfinite(result.objective)
    assert risk(result.w)[0] <= 1.5


SCRIPT = """
    import os, sys, time
    import numpy as np
    from structopt.distributed import ShardedRisk
    from structopt.risks import Hinge
    from structopt.train import bmrm
    from structopt.train.checkpoint import Checkpoint

    def load(k, n):
        rng = np.random.default_rng(k)
        X = rng.normal(size=(40, 5))
        return Hinge(X, np.sign(X[:, 0] + 0.5 * rng.normal(size=40)))

    def tell(result):
        print("pass", result.passes, flush=True)

    if __name__ == "__main__":
        with ShardedRisk(load, 4, n_workers=1) as risk:
            print("workers", *risk.workers.client.run(os.getpid).values(), flush=True)
            result = bmrm(risk, lam=1e-3, tol=1e-4, callback=tell, checkpoint=Checkpoint(sys.argv[1], every=0))
            print("result", result.stopped, result.w.tobytes().hex(), flush=True)
"""


def started(tmp_path):
    """The script above with its workers; what it prints comes line by line."""
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "run.npz")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def read_until(process, word):
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.split())
        if line.startswith(word):
            return lines
    raise AssertionError(f"{lines} {process.stderr.read() if process.stderr else ''}")


def gone(pids, seconds=30):
    """Whether all processes end within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}") and "zombie" not in status(pid)]
        if not alive:
            return True
        time.sleep(0.1)
    return False


def status(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return file.read()
    except OSError:
        return "zombie"


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_a_killed_driver_resumes_and_leaves_no_process(tmp_path, workers):
    expected = bmrm(ShardedRisk(_of_script, 4, "sequential"), lam=1e-3, tol=1e-4)
    first = started(tmp_path)
    lines = read_until(first, "pass 4")
    first.kill()
    first.communicate()
    passes = []
    risk = ShardedRisk(_of_script, 4, workers)
    found = bmrm(
        risk, lam=1e-3, tol=1e-4, callback=lambda r: passes.append(r.passes) and None, checkpoint=tmp_path / "run.npz"
    )
    assert passes[0] > 3
    np.testing.assert_array_equal(found.w, expected.w)
    assert gone([int(word) for word in lines[0][1:]])


def _of_script(k, n):
    rng = np.random.default_rng(k)
    X = rng.normal(size=(40, 5))
    return Hinge(X, np.sign(X[:, 0] + 0.5 * rng.normal(size=40)))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_ctrl_c_in_a_terminal_leaves_no_process(tmp_path):
    process = started(tmp_path)
    lines = read_until(process, "pass 2")
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers, too
    rest, errors = process.communicate(timeout=120)
    assert "result interrupted" in rest, (rest[-500:], errors[-2000:])
    assert gone([int(word) for word in lines[0][1:]])


def test_processes_end_with_the_object(workers):
    own = Workers(n_workers=1)
    pids = list(own.client.run(os.getpid).values())
    own.close()
    assert gone(pids) if os.path.isdir("/proc") else True
    with pytest.raises(ClusterLost):
        own.check()

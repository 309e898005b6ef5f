"""Faults around a run lose nothing: disks that are full or gone, readers that went away, Ctrl-C at a bad moment."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import structopt as so
from structopt.errors import CheckpointWarning
from structopt.stopping import is_interrupt
from structopt.train import checkpoint as files
from structopt.train.checkpoint import Checkpoint, read_checkpoint
from structopt.train.monitor import Monitor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = (X @ RNG.normal(size=(3, 4)) > 0).astype(int)

FAULTS = {
    "full": OSError(errno.ENOSPC, "No space left on device"),
    "read-only": PermissionError(errno.EACCES, "Permission denied"),
    "i/o error": OSError(errno.EIO, "Input/output error"),
}


def fit(path, **options):
    return so.StructuredSVM(
        so.structures.PairwiseMRF(4), checkpoint=Checkpoint(path, every=0), tol=1e-6, **options
    ).fit(X, Y)


@pytest.mark.parametrize(
    ("fault", "trainer"),
    [("full", "block_ascent"), ("read-only", "bmrm"), ("i/o error", "n_slack"), ("full", "bcfw"), ("full", "sgd")],
)
def test_a_full_disk_loses_no_model(fault, trainer, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    options = {"trainer": trainer, "max_passes": 6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(path, trainer=trainer, max_passes=3)
        before = path.read_bytes()
        expected = fit(path, **options).coef_
    path.write_bytes(before)

    def failing(*arguments, **keywords):
        raise FAULTS[fault]

    monkeypatch.setattr(files.np, "savez", failing)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        svm = fit(path, **options)
    assert [str(w.message) for w in told if w.category is CheckpointWarning] == [str(told_once(told))]
    assert np.array_equal(svm.coef_, expected)
    assert path.read_bytes() == before  # the old file is whole
    assert [name for name in os.listdir(tmp_path) if name != "run.npz"] == []


def told_once(told):
    """The only warning of an unwritten checkpoint; it names file, reason and cure."""
    (message,) = [str(w.message) for w in told if w.category is CheckpointWarning]
    assert "run.npz" in message and "choose another path" in message
    return message


def test_a_folder_that_is_removed_on_the_way(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()

    def remove(result):
        if result.passes == 2:
            (folder / "run.npz").unlink()
            folder.rmdir()

    risk = so.risks.Hinge(X, np.sign(X[:, 0]))
    with pytest.warns(CheckpointWarning, match="there is none yet"):
        result = so.train.bmrm(
            risk, lam=0.1, tol=0.0, max_passes=5, callback=remove, checkpoint=Checkpoint(folder / "run.npz", every=0)
        )
    assert result.passes == 5 and result.stopped == "passes"


def test_writing_goes_on_when_there_is_space_again(tmp_path, monkeypatch):
    path, calls, save = tmp_path / "run.npz", [], np.savez

    def sometimes(*arguments, **keywords):
        calls.append(1)
        if len(calls) in (1, 2, 4):
            raise FAULTS["full"]
        save(*arguments, **keywords)

    monkeypatch.setattr(files.np, "savez", sometimes)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        so.train.bmrm(
            so.risks.Hinge(X, np.sign(X[:, 0])), lam=0.1, tol=0.0, max_passes=6, checkpoint=Checkpoint(path, every=0)
        )
    assert sum(w.category is CheckpointWarning for w in told) == 2  # once in a row of failures
    assert read_checkpoint(path)["passes"] == 6


def test_a_bar_that_nobody_reads_any_more(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stderr", Closed())
    monkeypatch.setattr(sys, "stdout", Closed())
    svm = so.StructuredSVM(so.structures.PairwiseMRF(4), verbose=True).fit(X, Y)
    assert svm.result_.converged


def test_an_error_of_a_callback_is_raised_with_the_model_so_far():
    def broken(result):
        if result.passes >= 3:
            raise KeyError("my own mistake")

    with pytest.raises(KeyError, match="my own mistake") as caught:
        so.train.bmrm(so.risks.Hinge(X, np.sign(X[:, 0])), lam=0.1, tol=0.0, callback=broken)
    assert caught.value.partial.stopped == "failed" and caught.value.partial.passes == 3


def test_the_model_is_kept_whatever_ends_the_fit(monkeypatch):
    batches = []
    whole = so.train.StructuredRisk.violations_of

    def failing(self, tables):
        batches.append(1)
        if len(batches) > 5:
            raise MemoryError("no room")
        return whole(self, tables)

    monkeypatch.setattr(so.train.StructuredRisk, "violations_of", failing)
    svm = so.StructuredSVM(so.structures.PairwiseMRF(4), trainer="bmrm", tol=0.0)
    with pytest.raises(MemoryError):
        svm.fit(X, Y)
    assert svm.coef_.any() and svm.result_.stopped == "failed"


def test_an_interrupt_inside_a_compiled_call_is_an_interrupt():
    def surfaced():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as cause:
            raise SystemError("<built-in function kernel> returned a result with an exception set") from cause

    with Monitor("t") as monitor:
        monitor.offer(np.ones(2), 1.0)
        surfaced()
    assert monitor.result().stopped == "interrupted"
    with pytest.raises(SystemError), Monitor("t") as monitor:
        monitor.offer(np.ones(2), 1.0)
        raise SystemError("of another kind")
    try:
        surfaced()
    except SystemError as error:
        assert is_interrupt(error)
    assert not is_interrupt(None) and not is_interrupt(RuntimeError())


INTERRUPTED = """
    import os, signal, sys, threading, time, warnings
    import numpy as np
    import structopt as so
    from structopt.train.monitor import Monitor
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it by default
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    Y = (X @ rng.normal(size=(4, 5)) + rng.normal(size=(300, 5)) > 0).astype(int)
    y = Y @ (1 << np.arange(5)) % 4
    chains = [X[k : k + 10] for k in range(0, 300, 10)]
    states = [list(y[k : k + 10]) for k in range(0, 300, 10)]
    problems = [
        (so.structures.PairwiseMRF(5), X, Y),
        (so.structures.Multiclass(4), X, y),
        (so.structures.Chain(4), chains, states),
    ]

    def interrupt(moment):
        # Of the process's own time: on a busy machine it is as far by then as on an idle one.
        while time.process_time() < moment:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    ended = []
    for trainer in sys.argv[2:]:
        for model, data, labels in problems[-int(sys.argv[1]) :]:
            so.StructuredSVM(model, trainer=trainer, max_passes=2).fit(data, labels)  # compile
            for _ in range(4):
                svm = so.StructuredSVM(model, trainer=trainer, lam=1e-5, tol=0.0, max_passes=100_000, max_seconds=60)
                timer = threading.Thread(target=interrupt, args=(time.process_time() + rng.uniform(0.01, 0.08),))
                timer.start()
                try:
                    svm.fit(data, labels)
                    timer.join()
                    ended.append(svm.result_.stopped)
                except KeyboardInterrupt:  # before the first point was evaluated
                    ended.append("early")
                timer.join()
    print(*sorted(set(ended)))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(
    "structures, trainers",
    [
        ("1", ["block_ascent", "sgd"]),
        pytest.param("3", ["block_ascent", "bmrm", "n_slack", "one_slack", "bcfw", "sgd"], marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_interrupts_at_any_moment_end_with_a_model(structures, trainers):
    """Never a SystemError out of a kernel; nearly always with weights."""
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), structures, *trainers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "interrupted" in done.stdout.split()
    assert set(done.stdout.split()) <= {"interrupted", "early", "stalled", "precision", "passes"}

"""The monitor: stopping, callbacks, Ctrl-C, checkpoints, and inconsistent bounds."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from structopt.errors import DeclarationError, SolverFailed
from structopt.train.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from structopt.train.monitor import Monitor


def run(monitor, rate=0.5, passes=100):
    """A trainer whose gap shrinks by `rate` in every pass of ten block steps."""
    w = np.ones(2)
    with monitor:
        low = 0.0
        for _ in range(passes):
            if not monitor.running:
                break
            for _ in range(10):
                with monitor.part("block"):
                    monitor.count(oracle_calls=1, passes=0.1)
            low = 1.0 - rate * (1.0 - low)
            monitor.offer(w, 1.0)
            monitor.bound(low)
            monitor.record(lambda low=low: {"low": low})
    return monitor.result()


def test_stops_on_the_gap_passes_time_callback():
    assert run(Monitor("t", tol=0.1)).stopped == "tol"
    short = run(Monitor("t", tol=0.0, max_passes=3))
    assert short.stopped == "passes" and short.passes == pytest.approx(3) and short.oracle_calls == 30
    assert run(Monitor("t", tol=0.0, max_seconds=1e-9)).stopped == "time"
    seen = []
    stopped = run(Monitor("t", tol=0.0, callback=lambda r: seen.append(r.gap) or r.gap < 0.2))
    assert stopped.stopped == "callback" and seen == [0.5, 0.25, 0.125]
    assert run(Monitor("t", tol=0.0)).stopped == "precision"
    assert run(Monitor("t", tol=0.0, patience=5), rate=1.0).stopped == "stalled"


def test_keeps_the_best_of_everything_and_copies_it():
    monitor = Monitor("t", lower_bound=0.0)
    w = np.zeros(2)
    assert monitor.offer(w)  # no objective yet: something to return at least
    assert monitor.gap == np.inf
    assert monitor.offer(w + 1, 3.0)
    assert not monitor.offer(w + 2, 4.0) and not monitor.offer(w + 3)
    assert monitor.bound(1.0) and not monitor.bound(0.5) and not monitor.bound(np.nan)
    w += 100
    assert monitor.result().w.tolist() == [1.0, 1.0]
    assert monitor.gap == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="read-only"):
        monitor.result().w[0] = 5.0


def test_interrupt_returns_the_best_so_far():
    def interrupt(result):
        if result.passes > 2.5:
            raise KeyboardInterrupt

    result = run(Monitor("t", tol=0.0, callback=interrupt))
    assert result.stopped == "interrupted" and result.gap == 0.125 and not result.converged


def test_interrupt_before_any_point_passes_through():
    with pytest.raises(KeyboardInterrupt), Monitor("t"):
        raise KeyboardInterrupt


def test_a_failure_carries_the_model_so_far():
    with pytest.raises(SolverFailed) as caught, Monitor("t") as monitor:
        monitor.offer(np.ones(2), 1.0)
        raise SolverFailed("example 7")
    assert caught.value.partial.objective == 1.0 and caught.value.partial.stopped == "failed"


def test_impossible_certificates_are_refused():
    monitor = Monitor("t")
    monitor.offer(np.zeros(1), 1.0)
    with pytest.raises(DeclarationError, match="not convex"):
        monitor.bound(1.1)
    with pytest.raises(SolverFailed, match="nan"):
        Monitor("t").offer(np.zeros(1), np.nan)
    with pytest.raises(DeclarationError, match="no point"):
        Monitor("t").result()


@pytest.mark.parametrize(
    "wrong", [{"tol": -1.0}, {"tol": np.nan}, {"max_passes": 0}, {"max_seconds": -1}, {"callback": 3}], ids=str
)
def test_wrong_options_are_named(wrong):
    with pytest.raises(DeclarationError, match=next(iter(wrong))):
        Monitor("t", **wrong)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    run(Monitor("t", tol=1e-3, checkpoint=path, problem={"lam": 0.1}))
    with pytest.raises(DeclarationError, match=r"lam was 0\.1, now 0\.2"):
        Monitor("t", checkpoint=path, problem={"lam": 0.2}).resume()
    path.write_bytes(b"rubbish")
    with pytest.raises(DeclarationError, match="not a checkpoint"):
        Monitor("t", checkpoint=path).resume()
    with pytest.raises(DeclarationError, match="does not exist"):
        Monitor("t", checkpoint=tmp_path / "nowhere" / "run.npz")
    with pytest.raises(DeclarationError, match="seconds"):
        Checkpoint(path, every=-1)


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "state.npz"
    write_checkpoint(path, {"a": 1})
    with pytest.raises(TypeError):
        write_checkpoint(path, {"a": object()})
    with pytest.raises(ValueError, match="holds objects"):
        write_checkpoint(path, {"a": np.array([object()])})
    assert read_checkpoint(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_checkpoint_values_go_round(tmp_path):
    rng = np.random.default_rng(0).bit_generator.state
    state = {"inf": np.inf, "w": np.arange(3.0), "i": np.arange(2), "n": 5, "name": "x", "rng": rng}
    write_checkpoint(tmp_path / "c.npz", state)
    again = read_checkpoint(tmp_path / "c.npz")
    assert again["rng"] == rng and again["inf"] == np.inf and again["n"] == 5 and again["i"].dtype == np.int64


def test_writes_checkpoints_at_the_given_interval(tmp_path):
    path = tmp_path / "run.npz"
    calls = []
    with Monitor("t", tol=0.0, checkpoint=Checkpoint(path, every=1000.0)) as monitor:
        monitor.offer(np.ones(1), 1.0)
        for _ in range(5):
            monitor.record(lambda: calls.append(1) or {})
        assert not calls
        monitor.stop("passes")
        monitor.record(lambda: calls.append(1) or {})  # the end is always written
    assert len(calls) == 1


def test_progress_bar_shows_the_certified_gap(capsys):
    run(Monitor("halving", tol=0.1, verbose=True))
    shown = capsys.readouterr().err
    assert "halving" in shown and "gap 6.25e-02" in shown and "100%" in shown
    assert "halving" in repr(Monitor("halving"))


def test_progress_bar_says_when_it_compiles(capsys):
    fresh = numba.njit(lambda x: x + 1.0)
    with Monitor("t", tol=0.1, verbose=True) as monitor:
        fresh(1.0)
        monitor.offer(np.ones(1), 1.0)
        monitor.record()
    assert "compiling <lambda>" in capsys.readouterr().err
    numba.njit(lambda x: x + 2.0)(1.0)  # after the run nobody is told
    assert not capsys.readouterr().err


def test_progress_in_a_file_is_a_few_lines(capsys):
    with Monitor("t", tol=1e-6, verbose=True) as monitor:
        for k in range(1000):
            monitor.offer(np.ones(1), 2.0 - k / 1000)
            monitor.bound(k / 1000)
            monitor.record()
    assert capsys.readouterr().err.count("oracle calls") <= 4


def test_bound_may_exceed_an_objective_by_the_error_of_its_solver():
    monitor = Monitor("t", value_error=lambda: 1e-6)
    monitor.offer(np.ones(2), 10.0)
    assert monitor.bound(10.0 + 5e-6)
    assert monitor.objective == monitor.lower_bound == 10.0 + 5e-6
    assert monitor.gap == 0.0
    with pytest.raises(DeclarationError, match="exceeds an objective"):
        monitor.bound(10.0 + 3e-5)


def test_bound_may_not_exceed_an_exact_objective():
    monitor = Monitor("t")
    monitor.offer(np.ones(2), 10.0)
    with pytest.raises(DeclarationError, match="exceeds an objective"):
        monitor.bound(10.0 + 5e-8)

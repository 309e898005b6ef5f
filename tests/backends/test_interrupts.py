"""Ctrl-C and other signals end a long integer program, and leave no trace in the next call."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest
import scipy.optimize

import structopt as so
from structopt import stopping
from structopt.backends.base import Status
from structopt.backends.highs import Highs
from structopt.stopping import Stop, call_in_thread, deadline, map_in_threads, time_left
from structopt.testing.instances import hard_knapsack, space_of

#: Only to end a run that hangs: these programs take hours.
HANG = 60.0


def answers_right(oracle: so.Oracle) -> None:
    """Short calls of the same oracle, free and with rows."""
    n = oracle.space.n_variables
    assert oracle.maximize(-np.ones(n)).value == 0.0
    one = np.zeros(n)
    one[3] = 1.0
    costs = -np.ones(n)
    costs[3] = 2.0
    assert oracle.maximize(costs).value == 2.0
    assert oracle.maximize(costs, rows=[(one, 0.0, 0.0)]).value == 0.0
    assert oracle.maximize(costs).value == 2.0


def test_integer_programs_of_scipy_run_outside_the_main_thread(monkeypatch):
    """SciPy's solver handles no signals, so Ctrl-C needs a main thread that waits in Python."""
    threads, milp = [], scipy.optimize.milp

    def recorded(*arguments, **options):
        if options["integrality"].any():
            threads.append(threading.current_thread())
        return milp(*arguments, **options)

    monkeypatch.setattr(scipy.optimize, "milp", recorded)
    oracle = so.Oracle(space_of([[3.0, 5.0, 7.0], [6.0, 4.0, 5.0]], -np.inf, 11.0, 0.0, 1.0, True), "scipy")
    assert oracle.maximize(np.array([3.0, 2.0, 1.0])).value == 5.0
    assert threads and threading.main_thread() not in threads


def test_ctrl_c_leaves_a_function_that_ignores_signals(ctrl_c):
    over = threading.Event()
    ctrl_c(0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            call_in_thread(lambda: over.wait(HANG))
    finally:
        over.set()


def test_call_in_thread_passes_errors_on_and_obeys_the_stop_flag():
    with pytest.raises(ZeroDivisionError):
        call_in_thread(lambda: 1 // 0)
    over = threading.Event()

    def work(i: int) -> None:
        if i == 0:
            raise ValueError("the first")
        call_in_thread(lambda: over.wait(HANG))

    try:
        with pytest.raises(ValueError, match="the first"):
            map_in_threads(work, range(2), 2)
        assert not over.is_set()
    finally:
        over.set()


@pytest.mark.parametrize("rows", [False, True])
def test_ctrl_c_stops_a_mip(ctrl_c, rows):
    space, costs = hard_knapsack()
    oracle = so.Oracle(space, "highs", time_limit=HANG)
    extra = [(np.ones(space.n_variables), -np.inf, 20.0)] if rows else []
    answers_right(oracle)
    ctrl_c(0.5)
    with pytest.raises(KeyboardInterrupt):
        oracle.maximize(costs, extra)
    answers_right(oracle)


def test_a_backend_is_made_anew_with_its_objective_and_rows(ctrl_c):
    space, costs = hard_knapsack()
    backend = Highs(space, {"time_limit": HANG})
    backend.set_costs(costs)
    backend.add_rows(*_row(space, 20.0))
    ctrl_c(0.5)
    with pytest.raises(KeyboardInterrupt):
        backend.run()
    backend.add_rows(*_row(space, 0.0))
    assert backend.run().z.sum() == 0.0
    backend.remove_rows()
    backend.set_costs(-costs)
    assert backend.run().bound == pytest.approx(0.0, abs=1e-9)
    backend.add_rows(*_row(space, 1.0))
    backend.set_costs(costs)
    assert backend.run().bound == pytest.approx(costs.max())


def _row(space, upper):
    rows = space_of(np.ones((1, space.n_variables)), -np.inf, upper, 0.0, 1.0)
    return rows.matrix, rows.row_lower, rows.row_upper


def test_ctrl_c_ends_the_threads_of_a_batch(ctrl_c):
    space, costs = hard_knapsack()
    oracle = so.Oracle(space, "highs", time_limit=HANG)
    rng = np.random.default_rng(0)
    begun = time.monotonic()
    ctrl_c(0.5)
    with pytest.raises(KeyboardInterrupt):
        oracle.maximize_batch(costs + rng.normal(size=(4, len(costs))), n_jobs=2)
    assert time.monotonic() - begun < HANG, "the other thread was waited for"
    answers_right(oracle)


def test_a_model_that_was_stopped_by_the_flag_finishes_its_next_run():
    space, costs = hard_knapsack(20, 5)
    backend = Highs(space)
    backend.set_costs(costs)
    right = backend.run()
    assert right.status is Status.OPTIMAL
    stop = Stop(np.inf, None)
    stop.ask()
    token = stopping._current.set(stop)
    try:
        assert backend.run().status is Status.TIME_LIMIT
    finally:
        stopping._current.reset(token)
    for _ in range(2):
        backend.set_costs(costs)
        again = backend.run()
        assert again.status is Status.OPTIMAL and again.bound == pytest.approx(right.bound)


def test_any_handler_that_raises_stops_a_mip():
    """As timeouts of test runners and schedulers do it."""

    class Alarm(Exception):
        pass

    def handler(*_):
        raise Alarm

    space, costs = hard_knapsack()
    oracle = so.Oracle(space, "highs", time_limit=HANG)
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Alarm):
            oracle.maximize(costs)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    answers_right(oracle)


@pytest.mark.parametrize("moment", ["add_rows", "run", "remove_rows", "set_costs"])
@pytest.mark.parametrize("late", [False, True])
def test_a_bad_moment_leaves_no_rows_behind(moment, late, monkeypatch):
    """Ctrl-C between any two steps of a call with rows."""
    space = space_of([[1.0, 1.0, 1.0]], -np.inf, 2.0, 0.0, 1.0, True)
    oracle = so.Oracle(space, "highs")
    costs = np.array([3.0, 2.0, 1.0])
    assert oracle.maximize(costs).value == 5.0
    right = getattr(Highs, moment)

    def interrupted(self, *arguments):
        if late:
            right(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Highs, moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            oracle.maximize(costs, rows=[([1.0, 1.0, 1.0], 0.0, 0.0)])
    assert oracle.maximize(costs).value == 5.0
    assert oracle.maximize(costs, rows=[([1.0, 0.0, 0.0], 0.0, 0.0)]).value == 3.0
    assert oracle.maximize(costs).value == 5.0


def test_a_fit_keeps_its_best_weights(ctrl_c):
    space, costs = hard_knapsack()
    declared = so.LabelSpace.from_matrices(space.matrix, space.row_lower, space.row_upper)
    # The loss of the ground truth 0 is the knapsack's value: every query takes hours.
    model = so.Model(declared, {"z": so.features.Linear()}, so.losses.Hamming(costs), solver="highs")
    from structopt.train import StructuredRisk, bmrm

    risk = StructuredRisk(model, np.ones((1, 1)), np.zeros((1, space.n_variables)), "margin")
    risk.violations(np.full(risk.n_features, -1000.0))  # an easy one: compiled before the clock runs
    with deadline(1.0):  # the first query ends with its best label, and gives a point to return
        first = bmrm(risk, lam=1e-6, max_passes=1)
    assert np.isfinite(first.objective)
    ctrl_c(1.0)  # once: a second one might come after the end of the test, and end all tests
    try:
        with deadline(HANG):
            result = bmrm(risk, lam=1e-6, tol=1e-12)
    except KeyboardInterrupt:
        return  # before the first point: nothing to keep
    assert result.stopped == "interrupted"


def test_deadlines_nest_and_cross_threads():
    assert time_left() == np.inf
    with deadline(100.0):
        with deadline(1000.0):
            assert time_left() <= 100.0
        with deadline(None):
            assert time_left() <= 100.0
        assert max(map_in_threads(lambda _: time_left(), range(4), 2)) <= 100.0
    assert time_left() == np.inf


def test_the_first_error_of_a_thread_ends_the_others():
    stops: list[Stop] = []
    ready = threading.Barrier(2, timeout=HANG)

    def work(i: int) -> None:
        from structopt.stopping import current_stop

        stop = current_stop()
        assert stop is not None
        stops.append(stop)
        ready.wait()
        if i == 0:
            raise ValueError("the first")
        end = time.monotonic() + HANG
        while stop.seconds_left > 0 and time.monotonic() < end:
            time.sleep(0.001)

    begun = time.monotonic()
    with pytest.raises(ValueError, match="the first"):
        map_in_threads(work, range(2), 2)
    assert time.monotonic() - begun < HANG

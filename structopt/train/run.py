"""The loop that all trainers share: resume or start, iterate, record, finish.

A trainer is a `Method`: it holds its iterates and implements one iteration. Everything around it (gap and stopping,
time, callback, progress, checkpoints, Ctrl-C) is here and in `structopt.train.monitor`.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structopt.errors import TimeLimitReached
from structopt.risks.risk import check_start
from structopt.risks.watch import never as _never
from structopt.risks.watch import silent as _silent
from structopt.stopping import deadline
from structopt.train.checkpoint import Checkpoint, State
from structopt.train.monitor import Callback, Monitor, OutOfTime
from structopt.train.result import TrainResult
from structopt.train.warm import WarmStart

__all__ = ["Limits", "Method", "run"]


class Method(ABC):
    """What a trainer keeps between its iterations, and one iteration.

    Attributes
    ----------
    name : str
        For the progress bar and the result.
    problem : dict
        What must agree for a checkpoint to be resumed: the risk (itself: its data are hashed only if there is a
        checkpoint), and the options that change the iterates.
    lower_bound : float
        A bound known before the start.
    patience : int, optional
        Stop as "stalled" after so many iterations without a change of objective or bound.
    needs_objective : bool
        Whether a result must have an evaluated objective.
    """

    name: str
    problem: dict[str, Any]
    lower_bound: float = 0.0
    patience: int | None = None
    needs_objective: bool = True

    def start(self, monitor: Monitor) -> None:  # noqa: B027 (most have nothing to do)
        """What a fresh run does before its first iteration."""

    @property
    @abstractmethod
    def n_weights(self) -> int:
        """Length of the weights that it finds."""

    @abstractmethod
    def begin_at(self, monitor: Monitor, w: NDArray[np.float64]) -> None:
        """What a run does before its first iteration that begins at given weights."""

    @abstractmethod
    def take_over(self, state: dict[str, Any], lam: float) -> None:
        """Take over what a run on the same risk with the same options learned about it, at this `lam`."""

    @abstractmethod
    def iterate(self, monitor: Monitor) -> None:
        """One iteration: reports counts, points and bounds to the monitor."""

    def finish(self, monitor: Monitor) -> None:  # noqa: B027
        """What is left to do once the run has stopped, before its result is taken."""

    @abstractmethod
    def state(self) -> State:
        """Everything that determines the coming iterates."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""

    def info(self) -> dict[str, Any]:
        """What the trainer adds to its result."""
        return {}

    def cut_model(self) -> dict[str, Any]:
        """Return arrays of the present model of the risk; a callback gets them in addition to `info`."""
        return {}

    def fallback(self) -> NDArray[np.float64]:
        """Return the weights of a run in which no point was evaluated in time."""
        return np.zeros(self.problem["risk"].n_features)


class Limits(NamedTuple):
    """Limits, callback and progress: the parameters that all trainers have (see `structopt.train.bmrm`)."""

    tol: float
    max_passes: float | None
    max_seconds: float | None
    callback: Callback | None
    checkpoint: str | os.PathLike[str] | Checkpoint | None
    verbose: bool | int
    warm: WarmStart | None = None
    w0: NDArray[np.float64] | None = None


def run(method: Method, limits: Limits) -> TrainResult:
    """Iterate until the gap is closed or a limit is reached; `max_seconds` also interrupts a single long query.

    Raise `TimeLimitReached` if `max_seconds` ended before any point was evaluated.
    """
    problem = dict(method.problem)
    risk = problem.pop("risk")
    if limits.checkpoint is not None:
        problem |= risk.identity()
    given = limits._asdict()
    warm, w0 = given.pop("warm"), given.pop("w0")
    if w0 is not None:
        w0 = check_start(w0, np.zeros(method.n_weights))
    with (
        deadline(limits.max_seconds),
        Monitor(
            method.name,
            **given,
            lower_bound=method.lower_bound,
            problem=problem,
            patience=method.patience,
            info=lambda: {**method.info(), **method.cut_model()},
            value_error=lambda: float(getattr(risk, "value_error", 0.0)),
        ) as monitor,
    ):
        state = monitor.resume(method.n_weights)
        with _watched(risk, monitor):
            if state is not None:
                with monitor.restoring():
                    method.restore(state)
            else:
                _in_time(method, monitor, partial(_begin, method, monitor, warm, w0))
            while monitor.running:
                _in_time(method, monitor, partial(method.iterate, monitor))
                monitor.record(method.state)
            _in_time(method, monitor, partial(method.finish, monitor))
    result = monitor.result(**method.info())
    if method.needs_objective and result.stopped == "time" and math.isinf(result.objective):
        raise TimeLimitReached(
            f"{method.name}: max_seconds={limits.max_seconds:g} ended before all oracles were evaluated at one "
            "point, so no objective is known. Raise max_seconds, train on fewer examples, or use a faster "
            "oracle (integral='relax', a larger mip_gap). The weights so far are in the error's attribute `partial`.",
            partial=result,
        )
    if warm is not None:
        warm.keep(method, result)
    return result


def _begin(method: Method, monitor: Monitor, warm: WarmStart | None, w0: NDArray[np.float64] | None) -> None:
    known = warm is not None and warm.begin(method, monitor)
    if not known and w0 is not None:
        method.begin_at(monitor, w0)
    elif not known:
        method.start(monitor)
        return
    if math.isfinite(monitor.objective):
        monitor.record(method.state)  # the gap may be closed already


def _in_time(method: Method, monitor: Monitor, action: Callable[[], None]) -> None:
    """Do something that ends the run if it takes too long."""
    try:
        action()
    except (OutOfTime, TimeLimitReached) as error:
        if isinstance(error, TimeLimitReached) and not monitor.out_of_time:
            raise  # a limit of the solver's own
        monitor.stop("time")
        if monitor.w is None:
            monitor.offer(method.fallback())


@contextmanager
def _watched(risk: Any, monitor: Monitor) -> Iterator[None]:
    """Let a risk with long passes check the time within them, and tell how far it is."""
    watch = getattr(risk, "watch", None)
    if watch is None:
        yield
        return
    watch.check, watch.tell = monitor.check_time, monitor.tell
    try:
        yield
    finally:
        watch.check, watch.tell = _never, _silent

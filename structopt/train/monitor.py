"""The monitor of a training run: stopping, progress, history, checkpoints, interrupts.

It keeps the best point and the best bound, counts and times, decides when to stop, calls the user back, shows the
progress, writes checkpoints, and turns Ctrl-C into a result. A trainer reports to it::

    with Monitor("bmrm", tol=tol, max_passes=max_passes) as monitor:
        state = monitor.resume()                  # None on a fresh start
        while monitor.running:
            with monitor.part("risk"):
                value, subgradient = risk(w)
            monitor.count(oracle_calls=len(risk), passes=1)
            monitor.offer(w, lam * omega + value)
            monitor.bound(low)
            monitor.record(lambda: {"w": w, "cuts": cuts})
    return monitor.result()

A pass of many block steps is the same with `record` at its end; a long pass checks `monitor.out_of_time` inside.
"""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structopt._archive import UNREADABLE, remove_leftovers
from structopt._jit.watching import compilations_told_to
from structopt.errors import CheckpointWarning, DeclarationError, SolverFailed, StructoptError
from structopt.risks.identity import same
from structopt.stopping import is_interrupt
from structopt.train.checkpoint import Checkpoint, Saved, State, read_checkpoint, write_checkpoint
from structopt.train.result import TINY, History, Record, TrainResult, relative_gap

__all__ = ["Callback", "Monitor", "OutOfTime", "check_tol"]

Vector = NDArray[np.float64]

#: Called after each record with the result so far; a true answer ends the run.
Callback = Callable[[TrainResult], Any]

# Relative gaps below this are rounding errors of sums of some thousand terms.
_PRECISION = 1e-12
# Seconds that the first evaluation may exceed the limit.
_GRACE = 1.0
#: Seconds between two pictures of the bar: on a screen, and where every picture is kept as a line of a file.
_BAR_PAUSE, _LOG_PAUSE = 0.1, 10.0


class OutOfTime(Exception):
    """`max_seconds` have passed in the middle of an iteration: it is given up, and the run ends with what it has."""


class Monitor:
    """Best point, certified gap, stopping, progress and checkpoints of one training run.

    Parameters
    ----------
    trainer : str
        Its name, for the progress bar and the result.
    tol : float
        Relative gap at which to stop; 0 runs to the limit of float64.
    max_passes, max_seconds : float, optional
        Limits; the passes of a resumed run count from its first start, the seconds from this call.
    callback : callable, optional
        Called with a `TrainResult` after each record; a true answer stops the run.
    checkpoint : path or Checkpoint, optional
        Where to write, and to resume from if the file exists.
    verbose : bool
        Show one progress bar with the certified gap.
    lower_bound : float
        A bound known before the start.
    problem : mapping
        What must agree for a checkpoint to be resumed (JSON values): trainer options that change the iterates.
    patience : int, optional
        Stop as "stalled" after so many records without a change of objective or bound.
    info : callable, optional
        Returns the `info` of the results that the callback gets.
    value_error : callable, optional
        Returns how far an objective may lie below the true one, as a share of it (`structopt.risks.Risk.value_error`).

    Examples
    --------
    >>> import numpy as np
    >>> with Monitor("halving", tol=0.1, lower_bound=0.0) as monitor:
    ...     w, low = np.ones(1), 0.0
    ...     while monitor.running:
    ...         low = (low + 1.0) / 2
    ...         monitor.count(oracle_calls=1, passes=1)
    ...         _ = monitor.offer(w, 1.0), monitor.bound(low)
    ...         _ = monitor.record()
    >>> result = monitor.result()
    >>> result.stopped, result.gap, result.passes
    ('tol', 0.0625, 4.0)
    """

    def __init__(
        self,
        trainer: str,
        *,
        tol: float = 1e-3,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        verbose: bool | int = False,
        lower_bound: float = -math.inf,
        problem: Mapping[str, Any] | None = None,
        patience: int | None = None,
        info: Callable[[], Mapping[str, Any]] | None = None,
        value_error: Callable[[], float] = float,
    ) -> None:
        check_tol(tol)
        for name, limit in (("max_passes", max_passes), ("max_seconds", max_seconds)):
            if limit is not None and not limit > 0:
                raise DeclarationError(f"{name} must be positive or None, got {limit!r}")
        if callback is not None and not callable(callback):
            raise DeclarationError(f"callback must be callable with a TrainResult, got {callback!r}")
        self.trainer = trainer
        self.tol = float(tol)
        self.max_passes = math.inf if max_passes is None else float(max_passes)
        self.max_seconds = math.inf if max_seconds is None else float(max_seconds)
        self.callback = callback
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        self.checkpoint = checkpoint
        self.verbose = bool(verbose)
        self._watching = ExitStack()
        self.problem = {"trainer": trainer, **(problem or {})}
        self.patience = patience
        self._info = info
        self._value_error = value_error

        self.objective = math.inf
        self._scale = 1.0  # the first objective
        self.lower_bound = float(lower_bound)
        self.w: Vector | None = None
        self.oracle_calls = 0
        self.passes = 0.0
        self.parts: dict[str, float] = {}
        self.history = History()
        self.stopped = "running"
        self._start = time.perf_counter()
        self._seconds_before = 0.0
        self._idle = 0
        self._moved = False
        self._written = self._start
        self._write_seconds = 0.0
        self._unwritten = False  # whether the last checkpoint could not be written
        self._bar: Any = None
        self._first_gap = math.inf
        self._shown = -math.inf
        self._told = ""

    @property
    def gap(self) -> float:
        """The certified relative gap."""
        return relative_gap(self.objective, self.lower_bound, self._scale)

    @property
    def absolute_gap(self) -> float:
        """Best objective minus best bound; ``inf`` if either is unknown."""
        return max(self.objective - self.lower_bound, 0.0)

    @property
    def seconds(self) -> float:
        """Wall time, including that of the runs resumed from."""
        return self._seconds_before + time.perf_counter() - self._start

    @property
    def running(self) -> bool:
        """Whether the trainer should go on."""
        return self.stopped == "running"

    @property
    def out_of_time(self) -> bool:
        """Whether `max_seconds` have passed; to be checked inside long passes."""
        return self.seconds_left <= 0.0

    @property
    def seconds_left(self) -> float:
        """What is left of `max_seconds`."""
        return self.max_seconds - (time.perf_counter() - self._start)

    def check_time(self, reserve: float = 0.0) -> None:
        """Raise `OutOfTime`, which ends the run, once no more than `reserve` seconds are left.

        As long as no point has been evaluated there is a second's grace: better an answer that is so late than none.

        Parameters
        ----------
        reserve : float
            Seconds that must be left.
        """
        grace = _GRACE if math.isinf(self.objective) and not reserve else 0.0
        if self.seconds_left + grace <= reserve:
            raise OutOfTime

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Charge the time spent inside to `name`.

        Parameters
        ----------
        name : str

        Returns
        -------
        context manager
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] = self.parts.get(name, 0.0) + time.perf_counter() - start

    def count(self, *, oracle_calls: int = 0, passes: float = 0.0) -> None:
        """Add to the counters.

        Parameters
        ----------
        oracle_calls : int
            Examples whose most violated label was computed.
        passes : float
            The same in units of the data set.
        """
        self.oracle_calls += oracle_calls
        self.passes += passes

    def offer(self, w: Vector, objective: float = math.inf) -> bool:
        """Tell a point and its objective; return whether it is the best so far.

        Without an objective the point is kept only as long as no point has one, so that an early Ctrl-C still has
        weights to return.

        Parameters
        ----------
        w : ndarray
            The weights; copied, unless they are a read-only array of float64.
        objective : float
            Their objective, if it is known.

        Returns
        -------
        bool
        """
        if math.isnan(objective) or objective == -math.inf:
            raise SolverFailed(
                f"the objective is {objective} after {self.passes:g} passes: the risk or the regulariser is not "
                "finite there. Check the data for NaN, and losses that overflow (scale the features or raise lam)."
            )
        if objective < self.objective or (self.w is None or math.isinf(self.objective)):
            self._moved |= objective < self.objective - self._least_move
            fixed = isinstance(w, np.ndarray) and w.dtype == np.float64 and w.base is None and not w.flags.writeable
            point = w if fixed else np.array(w, dtype=np.float64)
            point.setflags(write=False)
            if math.isinf(self.objective):
                self._set_scale(objective)
            self.w, self.objective = point, float(objective)
            self._check_bound()
            return True
        return False

    def _set_scale(self, objective: float) -> None:
        """What "small" means in this run: nothing is measured in absolute numbers, losses may have any unit."""
        self._scale = abs(float(objective)) if 0.0 < abs(objective) < math.inf else 1.0

    def bound(self, lower_bound: float) -> bool:
        """Tell a certified lower bound; return whether it is the best so far.

        Parameters
        ----------
        lower_bound : float

        Returns
        -------
        bool
        """
        if math.isnan(lower_bound) or not lower_bound > self.lower_bound:
            return False
        self._moved |= lower_bound > self.lower_bound + self._least_move
        self.lower_bound = float(lower_bound)
        self._check_bound()
        return True

    @property
    def _least_move(self) -> float:
        """What counts as progress: not the last digits of a number, nor a gap that would take for ever to close."""
        gap = self.absolute_gap
        return 1e-5 * gap if math.isfinite(gap) else 0.0

    def _check_bound(self) -> None:
        # A bound above an objective means an invalid cut: say so instead of reporting a closed gap.
        excess = self.lower_bound - self.objective
        if not excess > 0.0:
            return
        size = max(self._scale, abs(self.objective))
        if excess > max(1e-9 * size, _PRECISION) and excess > self._value_error() * size:
            raise DeclarationError(
                f"the lower bound {self.lower_bound!r} exceeds an objective {self.objective!r}: the risk is not "
                "convex, its subgradient or its lower_bound is wrong, or a cut lies above it"
            )
        # The search missed a little at this point. What no point is below, this point is not below either.
        self.objective = self.lower_bound

    def stop(self, reason: str) -> None:
        """End the run for a reason of the trainer's own.

        Parameters
        ----------
        reason : str
            What `TrainResult.stopped` will say.
        """
        if self.running:
            self.stopped = reason

    def record(self, state: Callable[[], State] | None = None) -> bool:
        """Close an iteration: history, stopping, callback, progress, checkpoint. Return whether to go on.

        Parameters
        ----------
        state : callable, optional
            Gives everything that determines the coming iterates; called only when a checkpoint is due.

        Returns
        -------
        bool
        """
        self.history.append(
            Record(
                self.objective,
                self.lower_bound,
                self.gap,
                self.oracle_calls,
                self.passes,
                self.seconds,
                dict(self.parts),
            )
        )
        self._idle = 0 if self._moved else self._idle + 1
        self._moved = False
        self._decide()
        if self.callback is not None and self.callback(self.result(**(self._info() if self._info else {}))):
            self.stop("callback")
        self._show()
        self._save(state)
        return self.running

    def _decide(self) -> None:
        gap = self.gap
        if gap <= self.tol:
            self.stop("tol")
        elif gap <= _PRECISION or self.absolute_gap <= TINY * _PRECISION * self._scale:
            self.stop("precision")
        elif self.passes >= self.max_passes:
            self.stop("passes")
        elif self.out_of_time:
            self.stop("time")
        elif self.patience is not None and self._idle >= self.patience:
            self.stop("stalled")

    def result(self, **info: Any) -> TrainResult:
        """Return the best point so far with its certificate.

        Parameters
        ----------
        **info
            What is particular to the trainer.

        Returns
        -------
        TrainResult
        """
        if self.w is None:
            raise DeclarationError(f"{self.trainer} has evaluated no point yet")
        return TrainResult(
            w=self.w,
            objective=self.objective,
            lower_bound=self.lower_bound,
            gap=self.gap,
            history=self.history.copy(),
            stopped=self.stopped,
            tol=self.tol,
            trainer=self.trainer,
            info=info,
        )

    def resume(self, size: int | None = None) -> dict[str, Any] | None:
        """Restore counters, best point and history from the checkpoint; return the trainer's own state.

        Parameters
        ----------
        size : int, optional
            How many weights are needed.

        Returns
        -------
        dict or None
        """
        if self.checkpoint is None:
            return None
        remove_leftovers(self.checkpoint.path)
        if not Path(self.checkpoint.path).exists():
            return None
        content = read_checkpoint(self.checkpoint.path)
        with self.restoring():
            if not isinstance(content["problem"], dict):
                raise DeclarationError("problem must be a mapping")
        self._check_same_problem(content["problem"])
        with self.restoring():
            self._restore(content, size)
        if self.gap <= max(self.tol, _PRECISION):  # the finished run's own limits may since have been loosened
            self._decide()
        elif self.passes >= self.max_passes:
            self.stop("passes")
        return {name[6:]: value for name, value in content.items() if name.startswith("state.")}

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Turn errors of a checkpoint's content into one that names the file.

        Returns
        -------
        context manager
        """
        try:
            yield
        except (StructoptError, *UNREADABLE) as error:
            assert self.checkpoint is not None
            text = str(error) if isinstance(error, StructoptError) else f"{type(error).__name__}: {error}"
            raise DeclarationError(
                f"checkpoint {os.fspath(self.checkpoint.path)!r} is damaged or was altered ({text:.500}). Delete it to "
                "start afresh."
            ) from error

    def _restore(self, content: dict[str, Any], size: int | None) -> None:
        saved = Saved(content)
        w = saved.array("best.w", None if size is None else (size,))
        w.setflags(write=False)
        objective = saved.number("best.objective", low=-sys.float_info.max, finite=False)
        bound = saved.number("best.lower_bound", high=sys.float_info.max, finite=False)
        history = History.from_arrays({name[8:]: value for name, value in content.items() if name[:8] == "history."})
        if not isinstance(content["parts"], dict):
            raise DeclarationError("parts must be a mapping")
        seconds_of = Saved(content["parts"])
        self.parts = {name: seconds_of.number(name, low=0.0) for name in content["parts"]}
        self.oracle_calls, self.passes = saved.whole("oracle_calls"), saved.number("passes", low=0.0)
        self._seconds_before, self._idle = saved.number("seconds", low=0.0), saved.whole("idle")
        self.history = history
        if len(history):
            self._set_scale(float(history["objective"][0]))
        self.w, self.objective, self.lower_bound = w, objective, max(self.lower_bound, bound)
        self._check_bound()

    def _check_same_problem(self, saved: Mapping[str, Any]) -> None:
        different = []
        for name in sorted({*saved, *self.problem}):
            was, now = saved.get(name), self.problem.get(name)
            if same(was, now):
                continue
            if name not in self.problem:
                different.append(f"it has {name}={was!r}, which the trainer of this version does not know")
            elif name not in saved:
                different.append(f"it says nothing of {name}, now {now!r}")
            else:
                different.append(f"{name} was {was!r}, now {now!r}")
        if different:
            assert self.checkpoint is not None
            raise DeclarationError(
                f"checkpoint {os.fspath(self.checkpoint.path)!r} is of another run: {'; '.join(different)}. Delete it "
                "to start afresh, or give every run (each fold of a cross-validation, each setting) a path of its own."
            )

    def _save(self, state: Callable[[], State] | None) -> None:
        if self.checkpoint is None or state is None or self.w is None:
            return
        start = time.perf_counter()
        pause = self.checkpoint.every and max(self.checkpoint.every, 20.0 * self._write_seconds)
        if self.running and start - self._written < pause:
            return
        content: dict[str, Any] = {
            "problem": self.problem,
            "best.w": self.w,
            "best.objective": self.objective,
            "best.lower_bound": self.lower_bound,
            "oracle_calls": self.oracle_calls,
            "passes": self.passes,
            "parts": self.parts,
            "seconds": self.seconds,
            "idle": self._idle,
        }
        content |= {f"history.{name}": column for name, column in self.history.to_arrays().items()}
        content |= {f"state.{name}": value for name, value in state().items()}
        try:
            write_checkpoint(self.checkpoint.path, content)
        except OSError as error:
            self._tell_unwritten(error)
        else:
            self._unwritten = False
        self._written = time.perf_counter()
        self._write_seconds = self._written - start

    def _tell_unwritten(self, error: OSError) -> None:
        """Warn, once in a row of failures: a full disk is no reason to lose what has been learned in memory."""
        if not self._unwritten:
            assert self.checkpoint is not None
            path = os.fspath(self.checkpoint.path)
            state = "the file there is of an earlier moment" if Path(path).exists() else "there is none yet"
            warnings.warn(
                f"The checkpoint {path!r} could not be written ({error}); {state}. Training goes on without, and tries "
                "again later: free some space or make the folder writable, or choose another path next time.",
                CheckpointWarning,
                stacklevel=2,
            )
        self._unwritten = True

    def tell(self, text: str) -> None:
        """Show a few words on how far a long pass is, beside the gap; those of the pass before are forgotten.

        Parameters
        ----------
        text : str
            What is shown.
        """
        self._told = text
        self._show()

    def _show(self, last: bool = False) -> None:
        if not self.verbose:
            return
        try:
            self._draw(last)
        except (OSError, ValueError):  # the pipe or the file was closed
            self.verbose = False

    def _show_compilation(self, kernel: str) -> None:
        """Say why nothing moves: a kernel's first use on a machine takes up to seconds, most of a first fit."""
        if not self.verbose:
            return
        try:
            self._open_bar().set_postfix_str(f"compiling {kernel} (once on this machine)")
        except (OSError, ValueError):
            self.verbose = False

    def _open_bar(self) -> Any:
        if self._bar is None:
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=100, desc=self.trainer, bar_format="{desc} {percentage:3.0f}%|{bar}| {postfix} [{elapsed}]"
            )
            self._bar.start_t -= self.seconds  # the run began before its first picture
        return self._bar

    def _draw(self, last: bool) -> None:
        self._open_bar()
        if math.isinf(self._first_gap):
            self._first_gap = self.gap
        now = time.perf_counter()
        if not last and now - self._shown < (_BAR_PAUSE if _is_live(self._bar) else _LOG_PAUSE):
            return
        self._shown = now
        gap = self.gap
        self._bar.n = round(100 * self._progress(gap))
        self._bar.set_postfix_str(
            f"gap {gap:.2e} (tol {self.tol:.0e}), objective {self.objective:.6g}, {self.passes:g} passes, "
            f"{self.oracle_calls} oracle calls" + (f", {self._told}" if self._told else "")
        )

    def _progress(self, gap: float) -> float:
        """Return the share of the way to tol, on the scale of log gap: there first-order methods are near straight."""
        if gap <= max(self.tol, _PRECISION):
            return 1.0
        if not math.isfinite(gap) or self._first_gap <= gap:
            return 0.0
        return math.log(self._first_gap / gap) / math.log(self._first_gap / max(self.tol, _PRECISION))

    def __enter__(self) -> Monitor:
        if self.verbose:
            self._watching.enter_context(compilations_told_to(self._show_compilation))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[True] | None:
        self._watching.close()
        if self._bar is not None:
            self._show(last=True)
            with suppress(OSError, ValueError):
                self._bar.close()
        if is_interrupt(error) and self.w is not None:
            self.stop("interrupted")
            return True
        if error is not None:
            self.stop("failed")
        if is_interrupt(error) and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error  # nothing to keep yet, but no error of ours either
        if isinstance(error, Exception) and getattr(error, "partial", None) is None and self.w is not None:
            with suppress(AttributeError):  # the error carries the model so far, wherever it was raised
                error.partial = self.result()  # type: ignore[attr-defined]
        return None

    def __repr__(self) -> str:
        return f"<Monitor of {self.trainer}: {self.stopped}, gap {self.gap:.3g}, {self.passes:g} passes>"


def check_tol(tol: float) -> float:
    """Return `tol` as a float, or say why it is no gap to stop at.

    The gap is relative to the objective: any weights of a non-negative risk have one of at most 1, so that a run
    with such a `tol` would be over before it began.
    """
    if isinstance(tol, (int, float, np.floating, np.integer)) and 0 <= tol < 1:
        return float(tol)
    raise DeclarationError(
        f"tol is a relative gap, (objective - lower bound) / objective, at least 0 and below 1; got "
        f"{tol!r}. Use 1e-3, or 0 for as far as float64 goes."
    )


def _is_live(bar: Any) -> bool:
    """Whether a picture of the bar replaces the one before: on a terminal and in a notebook, not in a file."""
    return "notebook" in type(bar).__name__ or bool(getattr(bar.fp, "isatty", lambda: False)())

"""The result of a training run: weights, certificate, and history."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structopt.checks import floats

__all__ = ["History", "Record", "TrainResult", "relative_gap"]

#: Objectives below this share of what the run began with are measured by that.
TINY = 1e-12


def relative_gap(objective: float, lower_bound: float, scale: float = 1.0) -> float:
    """Return ``(objective - lower_bound) / max(|objective|, 1e-12 scale)``, never negative.

    `scale` is the objective that a run began with: an objective that is 0 up to rounding has no relative gap.

    Examples
    --------
    >>> relative_gap(2.0, 1.0), relative_gap(0.0, 0.0), relative_gap(1.0, float("-inf"))
    (0.5, 0.0, inf)
    """
    if not (math.isfinite(objective) and math.isfinite(lower_bound)):
        return math.inf
    return max(objective - lower_bound, 0.0) / max(abs(objective), TINY * scale)


@dataclass(frozen=True)
class Record:
    """The state of a run at one moment; all counts and seconds are since its start.

    Attributes
    ----------
    objective, lower_bound, gap : float
        Best objective so far, best certified bound so far, and their relative gap.
    oracle_calls : int
        Examples whose most violated label was computed.
    passes : float
        The same in units of the data set.
    seconds : float
        Wall time.
    parts : mapping
        Wall time by part ("risk", "dual", ...).
    """

    objective: float
    lower_bound: float
    gap: float
    oracle_calls: int
    passes: float
    seconds: float
    parts: Mapping[str, float] = field(default_factory=dict)


_COLUMNS = ("objective", "lower_bound", "gap", "oracle_calls", "passes", "seconds")


class History(Sequence[Record]):
    """The records of a run, in order; columns by name.

    Parameters
    ----------
    records : sequence of Record

    Examples
    --------
    >>> history = History()
    >>> history.append(Record(2.0, 1.0, 0.5, 10, 1.0, 0.1, {"risk": 0.1}))
    >>> history.append(Record(2.0, 1.9, 0.05, 20, 2.0, 0.2, {"risk": 0.15, "dual": 0.01}))
    >>> history["gap"]
    array([0.5 , 0.05])
    >>> history[-1].parts["dual"]
    0.01
    >>> history["dual"]
    array([0.  , 0.01])
    """

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self._records = list(records)

    def append(self, record: Record) -> None:
        """Add a record at the end.

        Parameters
        ----------
        record : Record
        """
        self._records.append(record)

    def copy(self) -> History:
        """Return a history that later records do not reach.

        Returns
        -------
        History
        """
        return History(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    @overload
    def __getitem__(self, key: int) -> Record: ...
    @overload
    def __getitem__(self, key: slice) -> History: ...
    @overload
    def __getitem__(self, key: str) -> NDArray[np.float64]: ...
    def __getitem__(self, key: int | slice | str) -> Record | History | NDArray[np.float64]:
        if isinstance(key, slice):
            return History(self._records[key])
        if isinstance(key, str):
            return self._column(key)
        return self._records[key]

    def _column(self, name: str) -> NDArray[np.float64]:
        if name in _COLUMNS:
            return np.array([getattr(record, name) for record in self._records], dtype=np.float64)
        if name not in self.parts:
            raise KeyError(f"{name!r}: a history has the columns {', '.join((*_COLUMNS, *self.parts))}")
        return np.array([record.parts.get(name, 0.0) for record in self._records], dtype=np.float64)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the timed parts."""
        return tuple(dict.fromkeys(name for record in self._records for name in record.parts))

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return all columns; timed parts are prefixed with ``part:``.

        Returns
        -------
        dict of str to ndarray
        """
        columns = {name: self._column(name) for name in _COLUMNS}
        return columns | {f"part:{name}": self._column(name) for name in self.parts}

    @classmethod
    def from_arrays(cls, columns: Mapping[str, NDArray[np.float64]]) -> History:
        """Rebuild what `to_arrays` gave.

        Parameters
        ----------
        columns : mapping of str to ndarray

        Returns
        -------
        History
        """
        parts = [name for name in columns if name.startswith("part:")]
        for name in (*_COLUMNS, *parts):
            floats(name, columns[name], (len(columns["objective"]),), finite=name not in _COLUMNS[:3])
        records = []
        for i in range(len(columns["objective"])):
            values: dict[str, Any] = {name: float(columns[name][i]) for name in _COLUMNS}
            values["oracle_calls"] = int(values["oracle_calls"])
            records.append(Record(**values, parts={name[5:]: float(columns[name][i]) for name in parts}))
        return cls(records)

    def __repr__(self) -> str:
        if not self._records:
            return "History(empty)"
        last = self._records[-1]
        return f"History({len(self)} records, gap {last.gap:.3g} after {last.passes:g} passes)"


#: The meaning of the values of `TrainResult.stopped`.
REASONS = {
    "tol": "the certified relative gap reached tol",
    "precision": "the gap is at the limit of float64",
    "stalled": "neither the objective nor the bound moved any more",
    "passes": "max_passes was reached",
    "time": "max_seconds was reached",
    "callback": "the callback requested to stop",
    "interrupted": "interrupted by the user",
    "failed": "an error ended the run",
    "running": "the run goes on",
}


@dataclass(frozen=True)
class TrainResult:
    """Weights with a certificate of how far from optimal they are.

    Attributes
    ----------
    w : ndarray
        The best weights that were evaluated.
    objective : float
        ``lam * regularizer(w) + risk(w)``.
    lower_bound : float
        No weights have a smaller objective; from a feasible dual point (docs/mathematics/training#bundle-methods).
        ``-inf`` if unknown.
    gap : float
        ``(objective - lower_bound) / max(|objective|, 1e-12 s)``, where s is the objective at the first point.
    history : History
        Objective, bound, gap, oracle calls, passes, seconds, seconds by part, over the run.
    stopped : str
        Why the run ended: "tol", "precision", "stalled", "passes", "time", "callback", "interrupted", "failed".
    tol : float
        The tolerance of the run: a relative gap.
    trainer : str
        Which trainer ran.
    info : mapping
        What is particular to the trainer (number of cuts, dual variables, ...).
    """

    w: NDArray[np.float64]
    objective: float
    lower_bound: float
    gap: float
    history: History = field(repr=False)
    stopped: str = "tol"
    tol: float = 0.0
    trainer: str = ""
    info: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of_weights(
        cls,
        w: ArrayLike,
        objective: float,
        lower_bound: float = -math.inf,
        *,
        tol: float = 0.0,
        passes: float = 0.0,
        seconds: float = 0.0,
        trainer: str = "",
    ) -> TrainResult:
        """The result of a trainer that knows its last weights only, such as a call of another library.

        Parameters
        ----------
        w : array_like
            The weights.
        objective : float
            ``lam * regularizer(w) + risk(w)``.
        lower_bound : float
            No weights have a smaller objective; unknown by default, and the result then counts as not converged.
        tol : float
            The relative gap that was asked for.
        passes : float
            Passes over the data.
        seconds : float
            Wall time.
        trainer : str
            Which trainer ran.

        Returns
        -------
        TrainResult

        Examples
        --------
        >>> TrainResult.of_weights([1.0, 2.0], 0.5, 0.4999, tol=1e-3)
        TrainResult(trainer, converged, objective=0.5, lower_bound=0.4999, gap=0.0002, passes=0, seconds=0, 2 weights)
        """
        value, bound = float(objective), float(lower_bound)
        gap = relative_gap(value, bound)
        history = History([Record(value, bound, gap, 0, float(passes), float(seconds))])
        stopped = "tol" if gap <= tol else "passes"
        return cls(np.asarray(w, dtype=np.float64), value, bound, gap, history, stopped, tol, trainer)

    @property
    def converged(self) -> bool:
        """Whether the gap is certified to be at most `tol`, or at the limit of float64."""
        return self.gap <= self.tol or self.stopped == "precision"

    @property
    def absolute_gap(self) -> float:
        """``objective - lower_bound``: an upper bound on the distance to the optimum."""
        return max(self.objective - self.lower_bound, 0.0)

    @property
    def passes(self) -> float:
        """Passes over the data."""
        return self.history[-1].passes if self.history else 0.0

    @property
    def oracle_calls(self) -> int:
        """Examples whose most violated label was computed."""
        return self.history[-1].oracle_calls if self.history else 0

    @property
    def seconds(self) -> float:
        """Wall time of the run."""
        return self.history[-1].seconds if self.history else 0.0

    def __repr__(self) -> str:
        words = "converged" if self.converged else f"stopped: {self.stopped}"
        if self.info.get("convex") is False:
            words += ", no certificate: not convex"
        return (
            f"TrainResult({self.trainer or 'trainer'}, {words}, objective={self.objective:.6g}, "
            f"lower_bound={self.lower_bound:.6g}, gap={self.gap:.3g}, passes={self.passes:g}, "
            f"seconds={self.seconds:.3g}, {self.w.size} weights)"
        )

    def _repr_html_(self) -> str:
        rows = {
            "trainer": self.trainer,
            "objective": f"{self.objective:.8g}",
            "lower bound": f"{self.lower_bound:.8g}",
            "relative gap": f"{self.gap:.3g} (tol {self.tol:.3g})",
            "stopped": REASONS.get(self.stopped, self.stopped),
            "passes": f"{self.passes:g} ({self.oracle_calls} oracle calls)",
            "seconds": f"{self.seconds:.3g}",
        }
        if self.history:
            rows |= {f"seconds in {name}": f"{value:.3g}" for name, value in self.history[-1].parts.items()}
        body = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in rows.items()
        )
        return f"<table>{body}</table>"

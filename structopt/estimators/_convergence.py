"""What every estimator says when its training ended before its tolerance was reached: one warning, in one place."""

from __future__ import annotations

import math
import os
import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

from structopt.train.result import REASONS, TrainResult

__all__ = ["iterations", "tell_early_end", "warn_unfinished"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: What to do about each way in which a run can end early.
_CURES = {
    "passes": "raise max_passes, lam or tol",
    "time": "raise max_seconds, lam or tol",
    "stalled": "raise tol or lam, or scale the features",
    "callback": "let the callback go on for longer",
    "interrupted": "fit again with warm_start=True to go on from these weights",
    "failed": "see the error; what had been learned is kept",
}


def iterations(result: TrainResult) -> int:
    """Passes over the data as a whole number, at least 1: what estimators keep as ``n_iter_``."""
    return max(1, round(result.passes))


def tell_early_end(owner: object, result: TrainResult) -> None:
    """Warn where the certified gap falls short of the tolerance: by how much, why the run ended, and the cure.

    Parameters
    ----------
    owner : object
        The estimator, whose class names the warning.
    result : TrainResult

    Examples
    --------
    >>> import warnings, numpy as np
    >>> from structopt.train.result import History, TrainResult
    >>> result = TrainResult(np.zeros(1), 2.0, 1.0, 0.5, History(), stopped="passes", tol=1e-3)
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     tell_early_end("svm", result)
    >>> print(told[0].message)
    str stopped with a relative gap of 0.5 above tol=0.001: max_passes was reached; raise max_passes, lam or tol.
    """
    if result.converged:
        return
    if math.isfinite(result.gap):
        gap = f"with a relative gap of {result.gap:.2g} above tol={result.tol:g}"
    else:
        gap = f"without a certified gap (tol={result.tol:g})"
    reason = REASONS.get(result.stopped, result.stopped)
    warn_unfinished(f"{type(owner).__name__} stopped {gap}: {reason}; {_CURES.get(result.stopped, 'raise tol')}.")


def warn_unfinished(message: str) -> None:
    """A `ConvergenceWarning` that points at the first line outside of this package, the caller's ``fit``."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ConvergenceWarning, stacklevel=level)

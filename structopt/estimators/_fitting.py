"""What `fit` of every estimator does: names of columns, weights of examples, the trainer, the fit before, the end."""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from structopt import train
from structopt.checks import instance
from structopt.errors import DeclarationError
from structopt.frames import is_frame, plain_inputs, plain_labels
from structopt.model import Model
from structopt.model.forms import LabelForm, common_form, label_form
from structopt.risks.sample_weight import sample_weights
from structopt.train.checkpoint import Checkpoint
from structopt.train.registry import Trainer, TrainerFunction
from structopt.train.result import REASONS, TrainResult
from structopt.train.warm import WarmStart

__all__ = [
    "Fitting",
    "is_collection",
    "lazily",
    "named_inputs",
    "on_engine",
    "taken",
    "used_examples",
    "validated",
    "warn_unfinished",
]

_F = TypeVar("_F", bound=Callable[..., Any])

Rows = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: What to do about each way in which a run can end early.
_CURES = {
    "passes": "raise max_passes, lam or tol",
    "time": "raise max_seconds, lam or tol",
    "stalled": "scale the features to about unit size, raise tol or lam, or train with trainer='bmrm'",
    "callback": "let the callback go on for longer",
    "interrupted": "fit again with warm_start=True to go on from these weights",
    "failed": "see the error; what had been learned is kept",
}

#: Kinds of arrays that numpy converts to floats, though they are not numbers, and the cure.
_NOT_NUMBERS = {
    "m": "durations; give them in a unit, e.g. {name} / np.timedelta64(1, 's')",
    "M": "dates; give the time since one of them, e.g. ({name} - {name}.min()) / np.timedelta64(1, 'D')",
    "V": "records; give their fields as columns, e.g. by numpy.lib.recfunctions.structured_to_unstructured",
}


def used_examples(sample_weight: Any, n: int, owner: object) -> tuple[Rows | None, FloatArray | None]:
    """The examples of positive weight (None: all of them), and their weights (None: there are none).

    Those of weight 0 are left out before anything is learned from the data, their classes included.
    """
    if sample_weight is None:
        return None, None
    weights = sample_weights(sample_weight, n, type(owner).__name__)
    if weights.all():
        return None, weights
    rows = np.flatnonzero(weights)
    return rows, weights[rows]


def taken(data: Any, rows: Rows | None) -> Any:
    """Some examples of a matrix or of a list."""
    if rows is None:
        return data
    return data[rows] if hasattr(data, "shape") else [data[i] for i in rows]


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """scikit-learn's check of X, or of X and y.

    An integer beyond all floats is refused by its place. scikit-learn would take durations, dates and records for the
    numbers in them: a duration for its seconds or its days, whatever its unit is.
    """
    numbers = (("X", X), *(("y", target) for target in y if options.get("y_numeric")))
    for name, data in numbers:
        odd = _NOT_NUMBERS.get(getattr(getattr(data, "dtype", None), "kind", ""))
        if odd:
            raise DeclarationError(f"{name} must hold numbers, and it holds {odd.format(name=name)}.")
    try:
        return validate_data(estimator, X, *y, **options)
    except OverflowError:
        for name, data in zip("Xy", (X, *y), strict=False):
            for place, entry in np.ndenumerate(np.asarray(data, dtype=object)):
                if isinstance(entry, int) and abs(entry) > sys.float_info.max:
                    raise DeclarationError(
                        f"{name}[{', '.join(map(str, place))}] is an integer of {entry.bit_length()} bits, beyond all "
                        f"floats; rescale that feature or drop the example."
                    ) from None
        raise


def is_collection(data: Any) -> bool:
    """Whether `data` is a dask array, bag or data frame."""
    return hasattr(data, "__dask_graph__")


def on_engine(fit: _F) -> _F:
    """``fit`` of an estimator with ``engine=``: its workers are there meanwhile, started once for all runs of the fit.

    Without an engine dask collections are computed first. `structopt.distributed` is imported only for one of both.
    """

    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def fitted(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        self, X, y, sample_weight = bound.arguments.values()
        if self.engine is None:
            if is_collection(X) or is_collection(y):
                from structopt.distributed.engine import computed

                X, y, sample_weight = computed(X, y, sample_weight)
            return fit(self, X, y, sample_weight)
        from structopt.distributed.engine import Workers, computed

        if not is_collection(X):
            y, sample_weight = computed(y, sample_weight)
        with Workers(self.engine) as workers:
            self._workers = workers
            try:
                return fit(self, X, y, sample_weight)
            finally:
                del self._workers

    return cast(_F, fitted)


def lazily(predict: _F) -> _F:
    """``predict`` that maps over the partitions of a dask collection, and returns one."""

    @functools.wraps(predict)
    def mapped(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        if not is_collection(X):
            return predict(self, X, *arguments, **options)
        from structopt.distributed.engine import predicted

        return predicted(lambda part: predict(self, part, *arguments, **options), X)

    return cast(_F, mapped)


def named_inputs(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Inputs as arrays, after scikit-learn's check of column names: kept in fit, compared in predict.

    A list of frames (one for each sequence) must have the same columns throughout.
    """
    frames = [x for x in X if is_frame(x)] if isinstance(X, list | tuple) else []
    if not frames:
        validate_data(estimator, X, reset=reset, skip_check_array=True, ensure_2d=False)
        return plain_inputs(X)
    for columns, frame in {tuple(map(str, frame.columns)): frame for frame in frames}.items():
        validate_data(estimator, frame, reset=reset, skip_check_array=True, ensure_2d=False)
        if reset and columns != tuple(map(str, frames[0].columns)):
            place = next(i for i, x in enumerate(X) if is_frame(x) and tuple(map(str, x.columns)) == columns)
            raise DeclarationError(
                f"Input {place} has the columns {', '.join(columns[:5])}, the first one "
                f"{', '.join(map(str, frames[0].columns[:5]))}; all need the same columns in the same order."
            )
    return plain_inputs(X)


def _forms(model: Model, part: Any) -> list[str]:
    """Return the form of the labels of one partition."""
    form = label_form(model, plain_labels(part))
    return [] if form is None else [form]


class Fitting:
    """Mixin of estimators that train: one way to a trainer, one warning where it ends early, and warm starts.

    With ``warm_start`` a second fit begins where the first one ended. The weights are those of ``result_``; cuts,
    planes and dual variables of the last fit serve the next one if the data are the same. They are kept while
    ``warm_start=True``, and neither saved nor pickled.
    """

    lam: float
    tol: float
    max_passes: float | None
    max_seconds: float | None
    verbose: bool | int
    checkpoint: Any
    warm_start: bool
    result_: TrainResult
    n_iter_: int
    _workers: Any = None

    def _begin_fit(self) -> None:
        """Without a warm start forget the fit before."""
        if not self.warm_start:
            self.__dict__.pop("_runs", None)

    def _minimise(
        self,
        risk: Any,
        trainer: str | TrainerFunction | Trainer = "bmrm",
        *,
        part: str = "",
        w0: FloatArray | None = None,
        start: FloatArray | None = None,
        **options: Any,
    ) -> TrainResult:
        """Run a trainer with this estimator's limits; `part` distinguishes the runs of one fit, `w0` is of its last.

        `start` is where it begins whatever the fit before.
        """
        wanted: dict[str, Any] = {
            "lam": self.lam,
            "tol": self.tol,
            "max_seconds": self.max_seconds,
            "checkpoint": self._checkpoint(part),
            "verbose": self.verbose,
            "warm": self._warm(part, w0) if start is None else self._begin_at(part, start),
        }
        if self.max_passes is not None:  # None: the trainer's own limit
            wanted["max_passes"] = self.max_passes
        wanted |= {name: getattr(self, name) for name in ("random_state", "certify") if hasattr(self, name)}
        if self._workers is None:
            return train.get(trainer).minimise(risk, **(wanted | options))
        from structopt.distributed.engine import on_shards, spread

        over_shards = on_shards(trainer)
        with spread(risk, self._workers) as parts:
            return over_shards.minimise(parts, **(wanted | options))

    def _parts(self, build: Callable[..., Any], X: Any, y: Any, sample_weight: Any) -> Any:
        """The risk of dask collections on the workers, ``build(X, y, sample_weight)`` of each partition."""
        from structopt.distributed.engine import of_collections

        return of_collections(build, self._workers, X, y, sample_weight)

    def _form_of_parts(self, model: Model, y: Any) -> LabelForm | None:
        """Return the form of the labels of a dask collection."""
        from structopt.distributed.engine import distinct

        if not model.has_plain_labels:
            return None
        return common_form(distinct(functools.partial(_forms, model), y, self._workers))

    def _columns(self, X: Any) -> None:
        """Keep the width and the names of the columns of a collection."""
        columns = getattr(X, "columns", None)
        if columns is not None:
            self.feature_names_in_ = np.asarray(list(columns), dtype=object)
            self.n_features_in_ = len(columns)
        elif getattr(X, "ndim", 0) == 2:
            self.n_features_in_ = int(X.shape[1])

    def _checkpoint(self, part: str) -> Any:
        """The file of one run of the fit."""
        given = self.checkpoint
        if given is None or not part:
            return given
        every = {"every": given.every} if isinstance(given, Checkpoint) else {}
        path = given.path if isinstance(given, Checkpoint) else given
        instance("checkpoint", path, (str, os.PathLike), "the path of a file or a Checkpoint")
        return Checkpoint(f"{os.fspath(path)}.{part}", **every)

    def _keep_result(self, result: TrainResult) -> None:
        """Keep the certificate, and the passes over the data as a whole number, at least 1."""
        self.result_ = result
        self.n_iter_ = max(1, round(result.passes))

    def _tell_early_end(self) -> None:
        """Warn where the certified gap falls short of the tolerance: by how much, why the run ended, and the cure."""
        result = self.result_
        if result.converged or (result.info.get("convex") is False and result.stopped == "passes"):
            return  # without convexity there is no gap to fall short of
        if math.isfinite(result.gap):
            gap = f"with a relative gap of {result.gap:.2g} above tol={result.tol:g}"
        else:
            gap = f"without a certified gap (tol={result.tol:g})"
        reason = REASONS.get(result.stopped, result.stopped)
        warn_unfinished(f"{type(self).__name__} stopped {gap}: {reason}; {_CURES.get(result.stopped, 'raise tol')}.")

    def _warm(self, part: str = "", w: FloatArray | None = None) -> WarmStart | None:
        """Where run `part` of this fit begins: where it ended last, or at `w`; None for a cold start."""
        if not self.warm_start:
            return None
        runs: dict[str, WarmStart] = self.__dict__.setdefault("_runs", {})
        if part not in runs:
            known = self.__dict__.get("result_")
            start = known.w if w is None and known is not None and not part else w
            runs[part] = WarmStart(None if start is None else np.array(start))
        return runs[part]

    def _begin_at(self, part: str, w: FloatArray) -> WarmStart:
        """Where run `part` of this fit begins: at `w`."""
        start = WarmStart(np.array(w, dtype=np.float64))
        if self.warm_start:
            self.__dict__.setdefault("_runs", {})[part] = start
        return start

    def _refuse_other(self, what: str, before: Any, now: Any) -> None:
        """A warm start goes on with the same weights, so that what they belong to must be the same."""
        if self.warm_start and before is not None and not np.array_equal(np.asarray(before), np.asarray(now)):
            raise DeclarationError(
                f"{type(self).__name__}: warm_start=True goes on from weights for the {what} of the last fit, and now "
                f"there are others; use warm_start=False."
            )

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        kept = {name: value for name, value in state.items() if name not in ("_runs", "_workers")}
        # A client belongs to its process.
        return kept | ({"engine": None} if not isinstance(kept.get("engine"), str | None) else {})


def warn_unfinished(message: str) -> None:
    """A `ConvergenceWarning` that points at the first line outside of this package, the caller's ``fit``."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ConvergenceWarning, stacklevel=level)

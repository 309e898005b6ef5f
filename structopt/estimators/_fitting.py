"""What `fit` of every estimator does with names of columns, weights of examples, and the fit before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from structopt.errors import DeclarationError
from structopt.frames import is_frame, plain_inputs
from structopt.risks.sample_weight import sample_weights
from structopt.train.result import TrainResult
from structopt.train.warm import WarmStart

__all__ = ["Fitting", "named_inputs", "taken", "used_examples"]

Rows = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]


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


class Fitting:
    """Mixin of estimators with ``warm_start``: a second fit begins where the first one ended.

    The weights are those of ``result_``; cuts, planes and dual variables of the last fit serve the next one if the data
    are the same. They are kept while ``warm_start=True``, and neither saved nor pickled.
    """

    warm_start: bool
    result_: TrainResult

    def _begin_fit(self) -> None:
        """Without a warm start forget the fit before."""
        if not self.warm_start:
            self.__dict__.pop("_runs", None)

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

    def _refuse_other(self, what: str, before: Any, now: Any) -> None:
        """A warm start goes on with the same weights, so that what they belong to must be the same."""
        if self.warm_start and before is not None and not np.array_equal(np.asarray(before), np.asarray(now)):
            raise DeclarationError(
                f"{type(self).__name__}: warm_start=True goes on from weights for the {what} of the last fit, and now "
                f"there are others; use warm_start=False."
            )

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_runs"}

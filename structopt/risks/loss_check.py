"""Checks of a task loss: 0 at every ground truth, and nowhere negative.

Certificates rely on it: with a negative loss at the ground truth the lower bound 0 of the risk is wrong. Once per fit,
the loss is evaluated at each ground truth and minimised over the variables' bounds, and, where that is negative, over
the labels of a few examples.
"""

from __future__ import annotations

import numpy as np

from structopt.errors import DeclarationError, marked
from structopt.model.batch import Batch, LabelBatch, LossBatch
from structopt.space.compiled import FloatArray

__all__ = ["check_losses"]

#: Examples whose labels are searched for a negative loss.
_SEARCHED = 3
_TOLERANCE = 1e-6


def check_losses(batch: Batch, truth: LabelBatch, loss: LossBatch, search: bool = True) -> None:
    """Refuse a loss that is not 0 at the ground truth, or negative at some label.

    Parameters
    ----------
    batch : Batch
    truth : LabelBatch
    loss : LossBatch
    search : bool
        Whether to look for labels of negative loss, too, which may take a few oracle calls.
    """
    const = np.asarray(loss.const, dtype=np.float64)
    values = np.asarray(batch.loss_values(loss, truth), dtype=np.float64)
    wrong = np.flatnonzero(~(np.abs(values) <= _TOLERANCE * np.maximum(1.0, np.abs(const))))
    if wrong.size:
        i = int(wrong[0])
        raise DeclarationError(
            f"example {marked(i)}: the task loss of the true label itself is {values[i]:g}, and must be "
            f"0{_culprit(batch, i)}."
        )
    if search:
        _check_least(batch, loss, const)


def _check_least(batch: Batch, loss: LossBatch, const: FloatArray) -> None:
    if batch.model.integral == "relax":
        return  # at a fractional point a loss may be anything; it is a loss of labels
    least = _least_in_the_box(batch, loss, const)
    scale = _TOLERANCE * np.maximum(1.0, np.abs(const))
    if least is None:
        some = np.unique(np.linspace(0, batch.n - 1, _SEARCHED).astype(np.intp))
    else:
        suspects = np.flatnonzero(~(least >= -scale))
        some = np.sort(suspects[np.argsort(least[suspects], kind="stable")[:_SEARCHED]])
    if not some.size:
        return
    tables = [np.zeros((int(start[-1]), k)) for start, k in zip(batch.starts, batch.columns, strict=True)]
    _, negated = batch.argmax(tables, loss, -1.0, examples=some)
    wrong = some[negated[some] > scale[some]]
    if wrong.size:
        i = int(wrong[0])
        raise DeclarationError(
            f"example {marked(i)}: a label has the task loss {-negated[i]:g}, which must not be "
            f"negative{_culprit(batch, i)}."
        )


def _least_in_the_box(batch: Batch, loss: LossBatch, const: FloatArray) -> FloatArray | None:
    """A lower bound of each loss from the variables' bounds alone; None where the coefficients have another layout."""
    if not batch.model.fixed or loss.own is None or not loss.is_own or loss.own.ndim != 2:
        return None
    space = batch.model.space()
    coef = loss.own
    if coef.shape[0] != batch.n or coef.shape[1] > space.n_variables:
        return None
    # Losses come first: a model's batch may leave out the variables behind them.
    low, up = space.lower[: coef.shape[1]], space.upper[: coef.shape[1]]
    total = const.copy()
    finite = np.isfinite(low) & np.isfinite(up)
    total += np.minimum(coef[:, finite] * low[finite], coef[:, finite] * up[finite]).sum(axis=1)
    if not finite.all():
        rest, rest_low, rest_up = coef[:, ~finite], low[~finite], up[~finite]
        ends = np.where(rest > 0, rest_low, rest_up)
        total += np.where(rest == 0.0, 0.0, rest * np.where(rest == 0.0, 0.0, ends)).sum(axis=1)
    return total


def _culprit(batch: Batch, i: int) -> str:
    """Which block it is, and what to do about integers; nothing where the model does not say."""
    from structopt.losses.variables import CURE, Hamming

    model, x = batch.model, batch.input(i)
    try:
        space = model.space(x)
        losses = model.block_losses(x)
        for name, loss in losses.items():
            block = space[name]
            low, up = space.lower[block.slice], space.upper[block.slice]
            if isinstance(loss, Hamming) and ((low < 0) | (up > 1)).any():
                return f": {loss!r} is a loss between 0/1 variables, and block {name!r} takes other values. {CURE[:-1]}"
        names = ", ".join(f"{loss!r} on block {name!r}" for name, loss in losses.items())
    except (DeclarationError, AttributeError, KeyError):
        return ""
    return f"; the loss is {names}"

"""The most violated set of labels under any surrogate, where the loss counts wrong labels: by sorting.

A set of labels differs from the truth in a labels that are missing and b that are too many. The loss and the number of
labels follow from (a, b), and the best margin for them is that of the a best labels to drop and of the b best ones to
add. So n + 1 points (n + 1 squared where the number of labels is limited) hold the maximum of every surrogate that does
not decrease in the margin: no search is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.space.compiled import FloatArray

__all__ = ["LISTED", "equal_weight", "list_products", "most_violated"]

#: Labels up to which all products are listed: 2^n of them are cheaper than a search.
LISTED = 16

#: Entries of the tables of one chunk of examples.
_CHUNK_ENTRIES = 1 << 20


def equal_weight(coef: FloatArray, const: FloatArray, truth: FloatArray) -> float | None:
    """The weight of a wrong label where it is the same for all; None if the loss is no such count."""
    weight = float(abs(coef.flat[0])) if coef.size else 0.0
    if not weight > 0.0 or not np.array_equal(coef, weight * (1.0 - 2.0 * truth)):
        return None
    # Sums of equal weights in another order differ by rounding.
    return weight if np.allclose(const, weight * truth.sum(axis=1), rtol=1e-12, atol=0.0) else None


def most_violated(
    surrogate: Any, scores: FloatArray, truth: FloatArray, weight: float, limits: tuple[int, int] | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The 0/1 rows with the largest ``psi(margin, weight * wrong labels)``, with their margins and losses.

    Parameters
    ----------
    surrogate : Surrogate
        Of margin and loss.
    scores, truth : ndarray, shape (n, n_labels)
    weight : float
        Loss of a wrong label.
    limits : (int, int), optional
        Least and most labels that may be on.

    Returns
    -------
    Y, margin, loss : ndarray
        The truth, with margin and loss 0, where nothing is violated.
    """
    # What it gains to make each label wrong, the best first.
    gains = (1.0 - 2.0 * truth) * scores
    if limits is None:
        order = np.argsort(-gains, axis=1)
        margin = np.cumsum(np.take_along_axis(gains, order, axis=1), axis=1)
        best, h, g = _largest(surrogate, margin, weight * np.arange(1, gains.shape[1] + 1.0))
        wrong = np.zeros(gains.shape, dtype=bool)
        np.put_along_axis(wrong, order, np.arange(gains.shape[1]) <= best[:, None], axis=1)
        return _flipped(truth, wrong, h, g)
    Y, h, g = np.array(truth), np.zeros(len(truth)), np.zeros(len(truth))
    size = gains.shape[1] + 1
    step = max(1, _CHUNK_ENTRIES // size**2)
    for first in range(0, len(gains), step):
        part = slice(first, first + step)
        Y[part], h[part], g[part] = _limited(surrogate, gains[part], truth[part], weight, limits)
    return Y, h, g


def list_products(
    scores: FloatArray, coef: FloatArray, const: FloatArray, truth: FloatArray, n_jobs: int = 1
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The 0/1 rows with the largest ``(1 + margin) * loss`` for any linear loss, by listing them all."""
    nothing = np.empty(0, dtype=np.intp)
    graph = PairwiseGraph(scores.shape[1], nothing, nothing)
    own = np.einsum("ij,ij->i", scores, truth)
    Y, h, g = graph.best_product_batch(scores, np.empty(0), 1.0 - own, coef, const, n_jobs)
    idle = h * g <= 0
    Y[idle] = truth[idle]
    return Y, np.where(idle, 0.0, h - 1.0), np.where(idle, 0.0, g)


def _limited(
    surrogate: Any, gains: FloatArray, truth: FloatArray, weight: float, limits: tuple[int, int]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, k = gains.shape
    on = truth > 0.5
    sums, orders = [], []
    for kind in (on, ~on):
        own = np.where(kind, gains, -np.inf)
        order = np.argsort(-own, axis=1)
        sums.append(np.hstack([np.zeros((n, 1)), np.cumsum(np.take_along_axis(own, order, axis=1), axis=1)]))
        orders.append(order)
    dropped, added = np.arange(k + 1)[:, None], np.arange(k + 1)[None, :]
    margin = sums[0][:, :, None] + sums[1][:, None, :]
    count = on.sum(axis=1)[:, None, None] - dropped + added
    margin[(count < limits[0]) | (count > limits[1])] = -np.inf
    margin[:, 0, 0] = -np.inf  # the truth
    loss = np.broadcast_to(weight * (dropped + added), (k + 1, k + 1)).ravel()
    best, h, g = _largest(surrogate, margin.reshape(n, -1), loss)
    n_dropped, n_added = np.divmod(best, k + 1)
    wrong = np.zeros(gains.shape, dtype=bool)
    for order, number in zip(orders, (n_dropped, n_added), strict=True):
        chosen = np.zeros(gains.shape, dtype=bool)
        np.put_along_axis(chosen, order, np.arange(k) < number[:, None], axis=1)
        wrong |= chosen
    return _flipped(truth, wrong, h, g)


def _largest(surrogate: Any, margin: FloatArray, loss: FloatArray) -> tuple[Any, FloatArray, FloatArray]:
    """The place of the largest ψ in each row, with margin and loss there; both 0 where none is positive."""
    g = np.broadcast_to(loss, margin.shape)
    allowed = np.isfinite(margin) & np.asarray(surrogate.inside(margin, g))
    if allowed.all():
        psi = np.asarray(surrogate.psi(margin, g), dtype=np.float64)
    else:
        psi = np.zeros(margin.shape)
        psi[allowed] = surrogate.psi(margin[allowed], g[allowed])
    best = psi.argmax(axis=1)
    rows = np.arange(len(margin))
    violated = psi[rows, best] > 0.0
    return best, np.where(violated, margin[rows, best], 0.0), np.where(violated, loss[best], 0.0)


def _flipped(truth: FloatArray, wrong: Any, h: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return np.where(wrong & (g > 0.0)[:, None], 1.0 - truth, truth), h, g

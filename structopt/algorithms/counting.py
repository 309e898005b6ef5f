"""Pareto fronts of sets of labels, where the loss counts wrong labels: by sorting.

A set of labels differs from the ground truth in a labels that are missing and b that are too many. The loss and the
number of labels follow from (a, b), and the best margin for them is that of the a best labels to drop and of the b best
ones to add. So n + 1 points (n + 1 squared where the number of labels is limited) hold the maximum of every surrogate
that does not decrease in the margin: no search is needed.
"""

from __future__ import annotations

import numpy as np

from structopt._jit import IntArray
from structopt.algorithms.fronts import Fronts
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.space.compiled import FloatArray

__all__ = ["LISTED", "count_fronts", "equal_weight", "list_products"]

#: Labels up to which all products are listed: 2^n of them are cheaper than a search.
LISTED = 16


def equal_weight(coef: FloatArray, const: FloatArray) -> float | None:
    """Return the weight of a wrong label if all weights are equal; None for other losses.

    A count of wrong labels has the coefficient +w of a label that should be off and -w of one that should be on, and
    w times the number of the latter as its constant.
    """
    weight = float(abs(coef.flat[0])) if coef.size else 0.0
    if not weight > 0.0 or not (np.abs(coef) == weight).all():
        return None
    # Sums of equal weights in another order differ by rounding.
    return weight if np.allclose(const, weight * (coef < 0.0).sum(axis=1), rtol=1e-12, atol=0.0) else None


def count_fronts(scores: FloatArray, truth: FloatArray, weight: float, limits: tuple[int, int] | None = None) -> Fronts:
    """Return the largest margin for every number of wrong labels, per row; g is the number times `weight`."""
    # The gain of making each label wrong, the best first.
    gains = (1.0 - 2.0 * truth) * scores
    return _free(gains, truth, weight) if limits is None else _limited(gains, truth, weight, limits)


def _free(gains: FloatArray, truth: FloatArray, weight: float) -> Fronts:
    n, k = gains.shape
    order = np.argsort(-gains, axis=1)
    margin = np.cumsum(np.take_along_axis(gains, order, axis=1), axis=1)
    loss = np.broadcast_to(weight * np.arange(1, k + 1.0), margin.shape)
    ptr = np.arange(n + 1) * k

    def decode(places: IntArray) -> FloatArray:
        last = np.where(places < 0, -1, places - ptr[:-1])
        wrong = np.zeros(gains.shape, dtype=bool)
        np.put_along_axis(wrong, order, np.arange(k) <= last[:, None], axis=1)
        return np.where(wrong, 1.0 - truth, truth)

    return Fronts(ptr, margin.ravel(), loss.ravel(), decode)


def _limited(gains: FloatArray, truth: FloatArray, weight: float, limits: tuple[int, int]) -> Fronts:
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
    margin[:, 0, 0] = -np.inf  # the ground truth
    loss = np.broadcast_to(weight * (dropped + added), margin.shape)
    size = (k + 1) ** 2
    ptr = np.arange(n + 1) * size

    def decode(places: IntArray) -> FloatArray:
        numbers = np.divmod(np.where(places < 0, 0, places - ptr[:-1]), k + 1)
        wrong = np.zeros(gains.shape, dtype=bool)
        for order, number in zip(orders, numbers, strict=True):
            chosen = np.zeros(gains.shape, dtype=bool)
            np.put_along_axis(chosen, order, np.arange(k) < number[:, None], axis=1)
            wrong |= chosen
        return np.where(wrong, 1.0 - truth, truth)

    return Fronts(ptr, margin.ravel(), loss.ravel(), decode)


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

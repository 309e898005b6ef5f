"""Pareto fronts of sets of labels, where the loss counts wrong labels: by sorting.

A set of labels differs from the ground truth in a labels that are missing and b that are too many. The loss and the
number of labels follow from (a, b), and the best margin for them is that of the a best labels to drop and of the b best
ones to add. So n + 1 points (n + 1 squared where the number of labels is limited) hold the maximum of every surrogate
that does not decrease in the margin: no search is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt.algorithms.fronts import FrontPlan, Fronts
from structopt.algorithms.pairwise.algorithm import PairwiseAlgorithm
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.space.compiled import FloatArray

__all__ = ["LISTED", "CountFronts", "counting_plan"]

#: Labels up to which all products are listed: 2^n of them are cheaper than a search.
LISTED = 16


def counting_plan(G: FloatArray, g_const: FloatArray, limits: tuple[int, int] | None = None) -> FrontPlan | None:
    """Return the plan of the fronts of sets of labels; None if weights differ and more than 16 labels cannot be listed.

    A count of wrong labels has the coefficient +w of a label that should be off and -w of one that should be on, and
    w times the number of the latter as its constant.
    """
    weight = float(abs(G.flat[0])) if G.size else 0.0
    counts = weight > 0.0 and bool((np.abs(G) == weight).all())
    # Sums of equal weights in another order differ by rounding.
    if counts and np.allclose(g_const, weight * (G < 0.0).sum(axis=1), rtol=1e-12, atol=0.0):
        return CountFronts(G < 0.0, weight, limits)
    n = G.shape[1]
    if limits is not None or n > LISTED:
        return None
    nothing = np.empty(0, dtype=np.int64)
    graph = PairwiseGraph(n, nothing, nothing)
    return PairwiseAlgorithm(graph, np.arange(n), nothing, True, True).front_plan(G, g_const)


class CountFronts(FrontPlan):
    """The largest margin for every number of wrong labels, each at the same `weight`; `limits` of the labels on."""

    def __init__(self, truth: npt.NDArray[np.bool_], weight: float, limits: tuple[int, int] | None) -> None:
        self._truth, self._weight, self._limits = truth.astype(np.float64), weight, limits
        width = truth.shape[1] + 1
        self.cost = 1.0
        self.entries = np.full(len(truth), 8 * (width if limits is None else width**2))

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        truth = self._truth if len(some) == len(self._truth) else self._truth[some]
        base = np.einsum("ij,ij->i", H, truth) + h_const
        # The gain of making each label wrong, the best first.
        gains = (1.0 - 2.0 * truth) * H
        found = _free(gains, truth) if self._limits is None else _limited(gains, truth, self._limits)
        h, wrong, decode = found
        h += base.reshape(-1, *[1] * (h.ndim - 1))
        g = np.broadcast_to(self._weight * wrong, h.shape)
        ptr = np.arange(len(h) + 1) * (h.size // max(1, len(h)))
        return Fronts(ptr, h.ravel(), g.ravel(), lambda places: decode(places - ptr[:-1]))


def _free(gains: FloatArray, truth: FloatArray) -> tuple[FloatArray, FloatArray, Callable[[IntArray], FloatArray]]:
    k = gains.shape[1]
    order, margin = _best_sums(gains)

    def decode(number: IntArray) -> FloatArray:
        return np.where(_chosen(order, number), 1.0 - truth, truth)

    return margin, np.arange(k + 1.0), decode


def _limited(
    gains: FloatArray, truth: FloatArray, limits: tuple[int, int]
) -> tuple[FloatArray, FloatArray, Callable[[IntArray], FloatArray]]:
    k, on = gains.shape[1], truth > 0.5
    (drop, less), (add, more) = (_best_sums(np.where(kind, gains, -np.inf)) for kind in (on, ~on))
    dropped, added = np.arange(k + 1.0)[:, None], np.arange(k + 1.0)[None, :]
    margin = less[:, :, None] + more[:, None, :]
    count = on.sum(axis=1)[:, None, None] - dropped + added
    margin[(count < limits[0]) | (count > limits[1])] = -np.inf

    def decode(place: IntArray) -> FloatArray:
        numbers = np.divmod(place, k + 1)
        return np.where(_chosen(drop, numbers[0]) | _chosen(add, numbers[1]), 1.0 - truth, truth)

    return margin, dropped + added, decode


def _best_sums(gains: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the order of each row's entries, the largest first, and the sums of the first 0, 1, ... of them."""
    # For small tables `take_along_axis` takes longer than all the rest.
    order = (-gains).argsort(axis=1)
    sums = np.zeros((len(gains), gains.shape[1] + 1))
    gains[np.arange(len(gains))[:, None], order].cumsum(axis=1, out=sums[:, 1:])
    return order, sums


def _chosen(order: IntArray, number: IntArray) -> npt.NDArray[np.bool_]:
    """Return which entries are among the first ones of each row's order."""
    chosen = np.zeros(order.shape, dtype=np.bool_)
    chosen[np.arange(len(order))[:, None], order] = np.arange(order.shape[1]) < number[:, None]
    return chosen

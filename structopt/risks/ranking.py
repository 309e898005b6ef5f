"""Ranking of the documents of queries, BMRM Algorithm 10: one small assignment problem for each query."""

from __future__ import annotations

import copy
import itertools
import warnings
import zlib
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from structopt._jit import kernel
from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.losses.ranking_measures import ERU, MRR, NDCG, PrecisionAtN, RankingMeasure
from structopt.risks._base import FeatureRisk
from structopt.risks._features import FloatArray, IntArray, finite_vector, shard_rows
from structopt.risks.sample_weight import relative_weights, sample_weights

__all__ = ["Ranking"]

_MEASURES: dict[str, RankingMeasure] = {
    "ndcg": NDCG(),
    "mrr": MRR(),
    "precision": PrecisionAtN(),
    "eru": ERU(),
}


class Ranking(FeatureRisk):
    """Mean over queries of the loss of a ranking measure, through linear assignment.

    For each query, its documents sorted by decreasing relevance, with position weights c and document pi(i) at position
    i, BMRM (28):

        max over permutations pi of  c.(f(pi) - f) + a.(b - b(pi))

    The first term is the score of the ranking pi, the second one its loss, as in `structopt.structures.Ranking`.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per document.
    relevance : array of shape (m,)
        Relevance of each document to its query, at least 0.
    query : array of shape (m,)
        Query of each document, any sortable names; rows of a query need not be adjacent.
    measure : "ndcg", "mrr", "precision", "eru" or RankingMeasure
        What to optimise, e.g. ``NDCG(k=10)`` or ``PrecisionAtN(5)``.
    decay : float or callable
        ``c_i = i^-decay`` for position i from 1, or a function from the number of documents to a decreasing array.
    sample_weight : array of shape (m,), optional
        Weights of the queries in the mean, given at each document: equal within a query, not negative; of weight 2 is a
        query that is there twice. Equal by default.

    Notes
    -----
    Queries whose documents are all equally relevant, as with a single document, say nothing about the order: they are
    left out, with a warning. ``len`` counts the others, and `shard` shares them out. Documents of equal relevance keep
    the order in which they are given.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Ranking
    >>> risk = Ranking([[1.0], [2.0], [0.0], [3.0], [1.0]], [2, 1, 0, 0, 1], ["a", "a", "a", "b", "b"])
    >>> risk
    <Ranking(measure=NDCG(k=None), decay=0.25): 2 queries, 1 features>
    >>> value, subgradient = risk(np.array([0.1]))
    >>> round(value, 4), subgradient.round(4)
    (0.395, array([0.039]))
    """

    _parameters: ClassVar[tuple[str, ...]] = ("measure", "decay")

    @checked
    def __init__(
        self,
        X: Any,
        relevance: Any,
        query: Any,
        measure: str | RankingMeasure = "ndcg",
        decay: float | Callable[[int], FloatArray] = 0.25,
        *,
        sample_weight: Any = None,
    ) -> None:
        super().__init__(X)
        self.measure = _measure(measure)
        self.decay = decay
        rows = len(self._features)
        self.y = finite_vector(relevance, "relevance", rows, "Ranking")
        if np.any(self.y < 0.0):
            raise DeclarationError("Ranking: relevances must not be negative; shift them so that 0 means irrelevant.")
        codes = _query_codes(query, rows)
        self._group(codes, _query_weights(sample_weight, codes))
        self._scale = 1.0 / len(self)

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        ordered = f[self._rows]
        order = np.lexsort((-ordered, self._query))
        slope = np.zeros(ordered.size)
        value = rank_batch(ordered, self._a, self._b, self._c, self._starts, order, self._prices, slope)
        if np.isnan(value):
            k = int(np.argmax(np.where(np.isnan(f), np.inf, np.abs(f))))
            raise DeclarationError(
                f"Ranking: scores must be finite, and differ by less than 1e308; document {k} has {f[k]:g}. "
                "The weights or the features are too large."
            )
        derivative = np.zeros(len(self._features))
        derivative[self._rows] = slope * self._scale
        return max(float(value), 0.0) * self._scale, derivative

    def shard(self, k: int, n: int) -> Self:
        queries = np.arange(len(self))[shard_rows(k, n, len(self), type(self).__name__)]
        kept = np.concatenate([np.arange(self._starts[s], self._starts[s + 1]) for s in queries])
        part = copy.copy(self)
        part.is_part = True
        rows = self._rows[kept]
        part._features = self._features.rows(rows)
        part.y = self.y[rows]
        part._rows = np.arange(rows.size)
        part._starts = np.concatenate([[0], np.cumsum(np.diff(self._starts)[queries])])
        part._a, part._b, part._c = self._a[kept], self._b[kept], self._c[kept]
        part._query, part._prices = self._query[kept], self._prices[kept]
        return part

    def __len__(self) -> int:
        return int(self._starts.size - 1)

    def __repr__(self) -> str:
        return f"<{self._name()}: {len(self)} queries, {self.n_features} features>"

    def _checksum(self) -> int:
        return zlib.crc32(self._rows.tobytes(), zlib.crc32(self._b.tobytes()))

    def _group(self, codes: np.ndarray[Any, np.dtype[np.intp]], weights: FloatArray | None) -> None:
        """Sort documents by query and decreasing relevance, and weigh those of the queries that order them."""
        order = np.lexsort((-self.y, codes))
        bounds = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        rows, tables, kept = [], [], []
        skipped = 0
        for q, (low, high) in enumerate(itertools.pairwise(bounds)):
            if weights is not None and weights[q] == 0.0:
                continue
            relevance = self.y[order[low:high]]
            a, b = self.measure.weights(relevance)
            if relevance[0] == relevance[-1] or np.ptp(b) == 0.0:
                skipped += 1
                continue
            rows.append(order[low:high])
            kept.append(q)
            tables.append((a, b, self._positions(relevance.size), first_prices(a, b)))
        if not rows:
            raise DeclarationError(
                "Ranking: no query has two documents that differ in relevance under this measure: nothing to rank."
            )
        if skipped:
            warnings.warn(
                f"Ranking: {skipped} of {bounds.size - 1} queries have one document or equally relevant ones; "
                "they are left out.",
                stacklevel=3,
            )
        self._rows = np.concatenate(rows)
        self._a, self._b, self._c, self._prices = (np.concatenate(column) for column in zip(*tables, strict=True))
        self._query = np.repeat(np.arange(len(rows)), [part.size for part in rows])
        weight = None if weights is None else relative_weights(weights[kept], len(kept), "Ranking")
        if weight is not None:  # a query's loss is linear in its b and c together, and so are the prices in b
            self._b, self._c, self._prices = (t * weight[self._query] for t in (self._b, self._c, self._prices))
        self._starts = np.concatenate([[0], np.cumsum([part.size for part in rows])])

    def _positions(self, size: int) -> FloatArray:
        if callable(self.decay):
            c = finite_vector(self.decay(size), "decay", size, "Ranking")
        else:
            c = np.arange(1.0, size + 1.0) ** -float(self.decay)
        if np.any(np.diff(c) > 0.0):
            raise DeclarationError(f"Ranking: position weights must decrease from the top; decay={self.decay!r}.")
        return c


def _measure(measure: str | RankingMeasure) -> RankingMeasure:
    if isinstance(measure, RankingMeasure):
        return measure
    if measure not in _MEASURES:
        raise DeclarationError(
            f"Ranking: measure must be a RankingMeasure or one of {sorted(_MEASURES)}, got {measure!r}."
        )
    return _MEASURES[measure]


def _query_codes(query: Any, rows: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    names = np.asarray(query)
    if names.shape != (rows,):
        raise DeclarationError(f"Ranking: query has shape {names.shape}; X has {rows} rows, pass ({rows},).")
    return np.unique(names, return_inverse=True)[1]


def _query_weights(sample_weight: Any, codes: np.ndarray[Any, np.dtype[np.intp]]) -> FloatArray | None:
    """One weight per query; refused where documents of a query differ in theirs."""
    if sample_weight is None:
        return None
    weights = sample_weights(sample_weight, len(codes), "Ranking")
    found = np.zeros(int(codes.max()) + 1)
    found[codes] = weights
    differ = np.flatnonzero(found[codes] != weights)
    if differ.size:
        raise DeclarationError(
            f"Ranking: a ranking measure is of a whole query, so that its documents share one weight; document "
            f"{int(differ[0])} has {weights[differ[0]]:g} and another of its query {found[codes[differ[0]]]:g}."
        )
    return found


def first_prices(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return column duals of the assignment with costs a_i b_j alone, a decreasing: large is paired with small."""
    order = np.argsort(-b)
    rising = a[::-1]
    prices = np.zeros(a.size)
    prices[order[1:]] = np.cumsum(0.5 * (rising[:-1] + rising[1:]) * np.diff(b[order]))
    return prices


@kernel
def rank_batch(
    f: FloatArray,
    a: FloatArray,
    b: FloatArray,
    c: FloatArray,
    starts: IntArray,
    order: IntArray,
    first: FloatArray,
    derivative: FloatArray,
) -> float:
    """Return the sum over queries of ``max over pi of c.(f(pi) - f) + a.(b - b(pi))``, docs/mathematics/risks#ranking.

    Query s owns the entries ``starts[s]:starts[s + 1]``; `order` sorts its f in descending order.

    The augmentation starts from `first` plus the duals of the costs c_i f_j alone, which a sort solves too. That
    takes a sixth to two thirds of the time from zero, not much more than from the duals of the previous w, and the
    answer does not depend on earlier calls. The sum is NaN if scores are NaN, infinite, or so large that their
    differences overflow.
    """
    total = 0.0
    for s in range(starts.size - 1):
        low, high = starts[s], starts[s + 1]
        prices = first[low:high].copy()
        price = 0.0
        for k in range(low, high - 1):
            price -= 0.5 * (c[k] + c[k + 1]) * (f[order[k + 1]] - f[order[k]])
            prices[order[k + 1] - low] += price
        column = _assign(f[low:high], a[low:high], b[low:high], c[low:high], prices)
        if column[0] < 0:
            return np.nan
        for i in range(low, high):
            j = low + column[i - low]
            total += c[i] * (f[j] - f[i]) + a[i] * (b[i] - b[j])
            derivative[j] += c[i]
            derivative[i] -= c[i]
    return total


@kernel
def _assign(f: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, prices: FloatArray) -> IntArray:
    """Return the column of each row in an assignment that maximises ``c_i f_j - a_i b_j``; shortest augmenting paths.

    Every column is -1 if a distance is not finite: there is no shortest path then, and no column to go on with.
    """
    n = f.size
    column = np.full(n, -1)
    row = np.full(n, -1)
    duals = np.empty(n)
    for i in range(n):  # any prices are dual feasible with these; rows on tight free columns are matched at once
        least, at = np.inf, 0
        for j in range(n):
            reduced = a[i] * b[j] - c[i] * f[j] - prices[j]
            if reduced < least:
                least, at = reduced, j
        duals[i] = least
        if row[at] < 0:
            row[at] = i
            column[i] = at
    distance = np.empty(n)
    via = np.empty(n, np.int64)
    done = np.empty(n, np.bool_)
    for free in range(n):
        if column[free] >= 0:
            continue
        distance[:] = np.inf
        done[:] = False
        i, reach, sink = free, 0.0, -1
        while sink < 0:
            nearest, at = np.inf, -1
            for j in range(n):
                if done[j]:
                    continue
                through = reach + a[i] * b[j] - c[i] * f[j] - duals[i] - prices[j]
                if through < distance[j]:
                    distance[j] = through
                    via[j] = i
                if distance[j] < nearest or (distance[j] == nearest and row[j] < 0):
                    nearest, at = distance[j], j
            if not np.abs(nearest) < np.inf:
                column[:] = -1
                return column
            reach = nearest
            done[at] = True
            if row[at] < 0:
                sink = at
            else:
                i = row[at]
        duals[free] += reach
        for j in range(n):
            if done[j]:
                if row[j] >= 0:
                    duals[row[j]] += reach - distance[j]
                prices[j] -= reach - distance[j]
        while True:  # flip the path
            i = via[sink]
            row[sink] = i
            column[i], sink = sink, column[i]
            if i == free:
                break
    return column

"""Rankings of the documents of a query, for measures such as NDCG (BMRM A.3.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, fail, kernel
from structopt._jit.threads import in_threads
from structopt.algorithms.assignment import augment_rows
from structopt.algorithms.base import Algorithm
from structopt.algorithms.matching import AssignmentAlgorithm
from structopt.checks import checked, floats, reshaped
from structopt.errors import DeclarationError, LabelNotInSpace, StructoptError
from structopt.features import Term, check_data_set
from structopt.losses.ranking_measures import ERU, MRR, NDCG, PrecisionAtN, RankingMeasure
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, LossBatch, labels_given, refusal
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures._choices import ranges

__all__ = ["ByPosition", "Ranking"]

_MEASURES: dict[str, RankingMeasure] = {"ndcg": NDCG(), "mrr": MRR(), "precision": PrecisionAtN(), "eru": ERU()}


class ByPosition(Term):
    """Document j at position i scores ``c_i <w, x_j>``: one feature row per document, whatever its position.

    Parameters
    ----------
    decay : float or callable
        ``c_i = i^-decay`` for position i from 1, or a function from the number of documents to a decreasing array.
    """

    @checked
    def __init__(self, decay: float | Callable[[int], npt.ArrayLike] = 0.25) -> None:
        super().__init__()
        self.decay = decay

    def weights(self, n: int) -> FloatArray:
        """``c`` for n documents."""
        if callable(self.decay):
            c = np.asarray(self.decay(n), dtype=np.float64)
        else:
            c = np.arange(1.0, n + 1.0) ** -float(self.decay)
        if c.shape != (n,) or not np.isfinite(c).all() or (np.diff(c) > 0).any():
            raise DeclarationError(
                f"Position weights must be {n} finite numbers that decrease from the top; decay={self.decay!r}."
            )
        return c

    def n_columns(self, shape: tuple[int, ...]) -> int:
        return 1

    def n_rows(self, shape: tuple[int, ...]) -> int | None:
        return shape[-1]

    def fold(self, x: Any, block: FloatArray) -> FloatArray:
        return (self.weights(len(block)) @ block)[:, None]

    def unfold(self, x: Any, table: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return np.outer(self.weights(shape[0]), table[:, 0])

    def __repr__(self) -> str:
        return f"ByPosition(decay={self.decay!r})"


class Ranking(Model):
    """Orders of the documents of a query, for a measure that is linear in the permutation.

    An input is a matrix ``(n, d)`` of documents. A truth is an array of n relevances, at least 0; a prediction is a
    ranking, the array of the documents from the top. With position weights c and ``f = X w``, the ranking with document
    pi(i) at position i scores ``sum_i c_i f_{pi(i)}``, which sorting by f maximises, and has the loss

        sum_i a_i (b_i* - b_{pi(i)})

    where a (by position) and b (by document) come from the measure and b* is b in the best order; 1 - NDCG for NDCG.
    Both are linear in the 0/1 matrix of positions and documents, and loss-augmented inference is linear assignment.

    Parameters
    ----------
    measure : {"ndcg", "mrr", "precision", "eru"} or RankingMeasure
        For example ``structopt.risks.NDCG(k=10)``; a subclass of `RankingMeasure` gives any other a and b.
    decay : float or callable
        ``c_i = i^-decay`` for position i from 1, or a function from the number of documents to a decreasing array, for
        example ``lambda n: 1 / np.log2(np.arange(n) + 2)``. As in `structopt.risks.Ranking`.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend is asked for every label, in training
        and prediction, over the declared program.

    Notes
    -----
    Documents of equal relevance stand in the truth's ranking in the order in which they are given; every order of them
    has loss 0 (with MRR, which looks for the first most relevant document, only if that one stays first). The loss is a
    function of the relevances and not of the truth's ranking alone: ask for it with `loss`, not with `loss_at`.

    The bias of a linear score does not change a ranking, so that there is none.

    Examples
    --------
    >>> import structopt as so
    >>> model = so.structures.Ranking()
    >>> documents = [[1.0], [3.0], [2.0]]
    >>> model.predict([1.0], documents)
    array([1, 2, 0])
    >>> coef, const = model.loss([2, 0, 1], documents)          # relevances
    >>> round(float(coef @ model.encode([2, 0, 1], documents) + const), 9)
    0.0
    """

    @checked
    def __init__(
        self,
        measure: str | RankingMeasure = "ndcg",
        decay: float | Callable[[int], npt.ArrayLike] = 0.25,
        solver: Any = "auto",
    ) -> None:
        self.measure = measure
        self.decay = decay
        if not isinstance(measure, RankingMeasure) and measure not in _MEASURES:
            raise DeclarationError(f"measure must be a RankingMeasure or one of {sorted(_MEASURES)}, got {measure!r}.")
        self.term = ByPosition(decay)
        super().__init__(_program, {"place": self.term}, key=n_documents, solver=solver)

    def algorithm(self, x: Any) -> Algorithm:
        """Linear assignment of positions to documents."""
        n = n_documents(x)
        return AssignmentAlgorithm(n, n)

    def weights(self, relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``a`` by position and ``b`` by document.

        Parameters
        ----------
        relevance : ndarray of shape (n,)

        Returns
        -------
        gains, discounts : ndarray
        """
        measure = self.measure if isinstance(self.measure, RankingMeasure) else _MEASURES[self.measure]
        order = best_order(relevance)
        a, sorted_b = measure.weights(relevance[order])
        b = np.empty(len(order))
        b[order] = sorted_b
        return a, b

    def relevance(self, label: Any, n: int | None = None) -> FloatArray:
        """A truth as relevances, or `LabelNotInSpace` with the culprit.

        Parameters
        ----------
        label : sequence of float
        n : int
            Number of documents.

        Returns
        -------
        ndarray of shape (n,)
        """
        try:
            given = np.asarray(label, dtype=np.float64)
        except (TypeError, ValueError):
            raise LabelNotInSpace(f"Relevances are numbers, got {label!r:.60}.") from None
        if given.ndim != 1 or (n is not None and given.size != n):
            raise LabelNotInSpace(f"A truth has one relevance per document ({n or 'n'}), got shape {given.shape}.")
        wrong = np.flatnonzero(~((given >= 0) & np.isfinite(given)))
        if wrong.size:
            j = int(wrong[0])
            raise LabelNotInSpace(f"Document {j} has relevance {given[j]}; relevances are finite and not negative.")
        return given

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The matrix (position, document) of the ranking by decreasing relevance, flat."""
        order = best_order(self.relevance(label, None if x is None else n_documents(x)))
        z = np.zeros((len(order), len(order)))
        z[np.arange(len(order)), order] = 1.0
        return z.ravel()

    def counted(self, x: Any = None) -> FloatArray:
        """Refused: every ranking has the same number of positions, and none of them is right or wrong alone."""
        raise DeclarationError("Micro-F1 has no meaning for rankings; use another surrogate.")

    def decode(self, z: npt.ArrayLike, x: Any = None) -> IntArray:
        """The documents from the top; for a fractional point, the ranking that agrees with it most."""
        point = floats("z", z, ndim=1)
        n = round(point.size**0.5)
        return AssignmentAlgorithm(n, n).best(reshaped("z", point, (n, n)))[0]

    def loss(self, label: Any, x: Any = None) -> tuple[FloatArray, float]:
        """Coefficients and constant of the loss, from the relevances."""
        relevance = self.relevance(label, None if x is None else n_documents(x))
        a, b = self.weights(relevance)
        return -np.outer(a, b).ravel(), float(a @ b[best_order(relevance)])

    def loss_at(self, z: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """Refused: a ranking does not tell how relevant its documents are."""
        raise DeclarationError(
            "The loss of a ranking depends on the relevances, which its point z does not hold; "
            "use loss(relevances, x) or batch(X).loss(truth)."
        )

    def batch(self, X: Any) -> Batch:
        """A data set prepared once."""
        return RankingBatch(self, X) if self.solver == "auto" else _ProgramBatch(self, X)

    def __repr__(self) -> str:
        return f"Ranking(measure={self.measure!r}, decay={self.decay!r})"


class Rankings(NamedTuple):
    """Rankings of all queries, one after the other, with documents counted within their query; -1 for none.

    `relevance` is known for truths only.
    """

    order: IntArray
    relevance: FloatArray | None = None


class _ProgramBatch(Batch):
    """Rankings by a solver of the user's choice: the general batch, whose losses come from the relevances."""

    def truth(self, Y: Sequence[Any]) -> LabelBatch:
        labels = super().truth(Y)
        self._relevances = Y
        return labels

    def loss(self, truth: LabelBatch) -> LossBatch:
        forms = [self.model.loss(self._relevances[i], self.input(i)) for i in range(self.n)]
        return LossBatch([coef for coef, _ in forms], np.array([const for _, const in forms]))


class RankingBatch(Batch):
    """A data set of queries. Without a loss a pass is one sort; with it, one assignment per query."""

    model: Ranking

    def __init__(self, model: Ranking, X: Any) -> None:
        check_data_set(X)
        self.sizes = np.array([n_documents(x) for x in X], dtype=np.int64)
        super().__init__(model, X)
        table = {int(n): model.term.weights(int(n)) for n in np.unique(self.sizes)}
        self._c = np.concatenate([table[int(n)] for n in self.sizes])
        self._query = np.repeat(np.arange(self.n), self.sizes)
        self._prices = np.zeros(len(self._c))

    def _expected_rows(self, name: str, term: Term) -> Any:
        return self.sizes

    @property
    def _starts(self) -> npt.NDArray[np.intp]:
        return self.starts[0]

    def _labels(self, rankings: Rankings) -> LabelBatch:
        ranked = np.flatnonzero(rankings.order >= 0)
        documents = self._starts[self._query[ranked]] + rankings.order[ranked]
        data = np.zeros(len(self._c))
        data[documents] = self._c[ranked]
        known = np.zeros(len(self._c), dtype=bool)
        known[documents] = True
        indptr = np.concatenate([[0], np.cumsum(known)])
        count = int(indptr[-1])
        table = sp.csr_array((data[known], np.zeros(count, dtype=indptr.dtype), indptr), shape=(len(self._c), 1))
        return LabelBatch([table], rankings)

    def truth(self, Y: Sequence[Any]) -> LabelBatch:
        Y = labels_given(Y, self.n)
        relevance, order = np.empty(len(self._c)), np.empty(len(self._c), dtype=np.int64)
        refused: list[str] = []
        for i in range(self.n):
            own = slice(self._starts[i], self._starts[i + 1])
            try:
                relevance[own] = self.model.relevance(Y[i], int(self.sizes[i]))
            except StructoptError as error:
                refused.append(f"example {i}: {error}")
                continue
            order[own] = best_order(relevance[own])
        if refused:
            raise refusal(refused, self.n)
        return self._labels(Rankings(order, relevance))

    def loss(self, truth: LabelBatch) -> LossBatch:
        """Coefficients as ``a`` by position and ``b`` by document, of all queries one after the other."""
        relevance = truth.native.relevance if isinstance(truth.native, Rankings) else None
        if relevance is None:
            raise DeclarationError("The loss of a ranking depends on relevances: give the labels of truth(Y).")
        coef, const = np.empty((2, len(self._c))), np.empty(self.n)
        for i in range(self.n):
            own = slice(self._starts[i], self._starts[i + 1])
            coef[0, own], coef[1, own] = self.model.weights(relevance[own])
            const[i] = coef[0, own] @ coef[1, own][truth.native.order[own]]
        return LossBatch(coef, const)

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: float = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        chosen = np.arange(self.n) if examples is None else np.asarray(examples, dtype=np.intp)
        documents = ranges(self._starts[chosen], self._starts[chosen + 1])
        f, c = np.asarray(tables[0][documents, 0], dtype=np.float64), self._c[documents]
        start = np.concatenate([[0], np.cumsum(self.sizes[chosen])])
        values = np.zeros(self.n)
        if loss is None:
            query = np.repeat(np.arange(len(chosen)), self.sizes[chosen])
            sorted_rows = np.lexsort((-f, query))
            found = sorted_rows - start[query]
            values[chosen] = np.bincount(query, c * f[sorted_rows], minlength=len(chosen))
        else:
            a, b = loss.coef[:, documents]
            found, values[chosen] = self._assign(c, f, weight * a, b, start, documents, n_jobs)
            values[chosen] += weight * loss.const[chosen]
        order = np.full(len(self._c), -1)
        order[documents] = found
        return self._labels(Rankings(order)), values

    def _assign(
        self,
        c: FloatArray,
        f: FloatArray,
        a: FloatArray,
        b: FloatArray,
        start: IntArray,
        documents: npt.NDArray[np.intp],
        n_jobs: int,
    ) -> tuple[IntArray, FloatArray]:
        order, values = np.empty(len(f), dtype=np.int64), np.empty(len(start) - 1)
        prices = self._prices[documents]

        def work(first: int, last: int) -> None:
            status, k = _rank(c, f, a, b, start[first : last + 1], prices, order, values[first:last])
            if status:
                fail(status, "a score is NaN or infinite.", "no ranking.", k + first)

        in_threads(work, len(values), n_jobs)
        self._prices[documents] = prices
        return order, values

    def decode(self, labels: LabelBatch) -> list[Any]:
        if not isinstance(labels.native, Rankings):
            return super().decode(labels)
        return np.split(labels.native.order, self._starts[1:-1])

    def loss_values(self, loss: LossBatch, labels: LabelBatch) -> FloatArray:
        if isinstance(labels.native, Rankings):
            order = labels.native.order
        else:
            order = np.concatenate([self.model.decode(z) for z in labels.native])
        ranked = np.flatnonzero(order >= 0)
        a, b = loss.coef
        gain = a[ranked] * b[self._starts[self._query[ranked]] + order[ranked]]
        return np.asarray(loss.const - np.bincount(self._query[ranked], gain, minlength=self.n))

    def __repr__(self) -> str:
        return f"<RankingBatch: {self.n} queries, {len(self._c)} documents, {self.n_weights} weights>"


def n_documents(x: Any) -> int:
    """Number of documents of an input; an integer stands for itself."""
    if isinstance(x, int | np.integer):
        return int(x)
    shape = x.shape if hasattr(x, "shape") else np.shape(x)
    if len(shape) != 2 or not shape[0]:
        raise DeclarationError(f"An input of Ranking is a matrix of documents (n, d), got shape {tuple(shape)}.")
    return int(shape[0])


def best_order(relevance: FloatArray) -> IntArray:
    """Documents by decreasing relevance, equal ones in the order given."""
    return np.argsort(-relevance, kind="stable").astype(np.int64, copy=False)


def _program(x: Any) -> LabelSpace:
    n = n_documents(x)
    space = LabelSpace(f"rankings of {n} documents")
    place = space.binary("place", (n, n))
    space.subject_to(place.sum(axis=1) == 1, name="position")
    space.subject_to(place.sum(axis=0) == 1, name="document")
    return space


@kernel
def _rank(
    c: FloatArray,
    f: FloatArray,
    a: FloatArray,
    b: FloatArray,
    start: IntArray,
    prices: FloatArray,
    order: IntArray,
    values: FloatArray,
) -> tuple[int, int]:
    """For every query the permutation that maximises ``sum_i c_i f_{pi(i)} - a_i b_{pi(i)}``; prices are kept."""
    for s in range(start.size - 1):
        low, n = start[s], start[s + 1] - start[s]
        scores = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                scores[i, j] = c[low + i] * f[low + j] - a[low + i] * b[low + j]
        columns, value, status = augment_rows(scores, prices[low : low + n])
        if status:
            return status, s
        order[low : low + n] = columns
        values[s] = value
    return 0, -1

"""Rankings of the documents of a query, for measures such as NDCG (BMRM A.3.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt.algorithms.assignment import best_columns, complete_matching
from structopt.algorithms.parts import PartSolver
from structopt.algorithms.ranking import RankingParts
from structopt.checks import call_text, checked, floats, reshaped
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Term, check_data_set
from structopt.losses.ranking_measures import ERU, MRR, NDCG, PrecisionAtN, RankingMeasure
from structopt.model.data_set import DataSet
from structopt.model.loss_batch import Entries, LossBatch
from structopt.model.slots import SlotMap, SlotModel, Slots
from structopt.recognize import Record
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["ByPosition", "Ranking"]

_MEASURES: dict[str, RankingMeasure] = {"ndcg": NDCG(), "mrr": MRR(), "precision": PrecisionAtN(), "eru": ERU()}


class ByPosition(Term):
    """Document j at position i scores ``c_i <w, x_j>``: one feature row per document; see `Ranking` for `decay`."""

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


class Ranking(SlotModel):
    """Orders of the documents of a query, for a measure that is linear in the permutation.

    An input is a matrix ``(n, d)`` of documents. A ground truth is an array of n relevances, at least 0; a prediction
    is a ranking, the array of the documents from the top. With position weights c and ``f = X w``, the ranking with
    document pi(i) at position i scores ``sum_i c_i f_{pi(i)}``, which sorting by f maximises, and has the loss

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
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Notes
    -----
    Documents of equal relevance keep their given order in the ranking of the ground truth. Every order of them has
    loss 0. MRR is an exception, because it looks for the first most relevant document: that one must stay first.
    The loss depends on the relevances, not only on the ranking of the ground truth: use `loss` with the relevances.

    There is no bias, because the bias of a linear score does not change a ranking.

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

    _key_is_proved = True

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
        super().__init__(_program, {"place": self.term}, key=n_documents, solver=solver, record=_record)

    def _measure_weights(self, relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``a`` by position and ``b`` by document."""
        measure = self.measure if isinstance(self.measure, RankingMeasure) else _MEASURES[self.measure]
        order = best_order(relevance)
        a, sorted_b = measure.weights(relevance[order])
        b = np.empty(len(order))
        b[order] = sorted_b
        return a, b

    def _relevance(self, label: Any, n: int | None = None) -> FloatArray:
        """Return a ground truth as relevances, or raise `LabelNotInSpace` naming the culprit."""
        try:
            given = np.asarray(label, dtype=np.float64)
        except (TypeError, ValueError):
            raise LabelNotInSpace(f"Relevances are numbers, got {label!r:.60}.") from None
        if given.ndim != 1 or (n is not None and given.size != n):
            raise LabelNotInSpace(
                f"A ground truth has one relevance per document ({n or 'n'}), got shape {given.shape}."
            )
        wrong = np.flatnonzero(~((given >= 0) & np.isfinite(given)))
        if wrong.size:
            j = int(wrong[0])
            raise LabelNotInSpace(f"Document {j} has relevance {given[j]}; relevances are finite and not negative.")
        return given

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The matrix (position, document) of the ranking by decreasing relevance, flat."""
        order = best_order(self._relevance(label, None if x is None else n_documents(x)))
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
        return np.asarray(best_columns(reshaped("z", point, (1, n, n)))[0][0])

    def loss(self, label: Any, x: Any = None) -> tuple[FloatArray, float]:
        """Coefficients and constant of the loss, from the relevances."""
        relevance = self._relevance(label, None if x is None else n_documents(x))
        a, b = self._measure_weights(relevance)
        return -np.outer(a, b).ravel(), float(a @ b[best_order(relevance)])

    def _loss_at(self, z: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """Refused: a ranking does not determine the relevances of its documents."""
        raise DeclarationError(
            "The loss of a ranking depends on the relevances, which its point z does not hold; "
            "use loss(relevances, x) or batch(X).loss(truth)."
        )

    def _sizes(self, X: Any) -> IntArray:
        # Numbers of documents of the queries.
        check_data_set(X)
        return np.array([n_documents(x) for x in X], dtype=np.int64)

    # ---- documents of a data set, from the top ---------------------------------------------------

    _loss_needs_labels = True

    def _slot_map(self, data: DataSet) -> SlotMap:
        sizes = cast("IntArray", data.sizes)
        ptr = data.starts[0].astype(np.int64)
        first = np.repeat(ptr[:-1], sizes)
        shares = _position_weights(self.term, sizes)
        return SlotMap(ptr, first, np.ones_like(first), 1, sizes.tolist(), shares=shares)

    def _slots_of(self, label: Any, size: int) -> IntArray:
        return best_order(self._relevance(label, size))

    def _slots_at(self, Z: Iterable[Any], sizes: Sequence[int]) -> IntArray:
        return np.concatenate([self.decode(z) for z in Z])

    def _slot_losses(self, codec: Slots, truth: IntArray, given: Any) -> LossBatch:
        if given is None:
            raise DeclarationError("The loss of a ranking depends on relevances: give the labels of ground truth(Y).")
        ptr = codec.slots
        a, b, const = np.empty(len(truth)), np.empty(len(truth)), np.empty(codec.n)
        for i in range(codec.n):
            own = slice(ptr[i], ptr[i + 1])
            a[own], b[own] = self._measure_weights(np.asarray(given[i], dtype=np.float64))
            const[i] = a[own] @ b[own][truth[own]]
        return LossBatch(None, const, ptr, outer=(a, b))

    def _slot_entries(self, codec: Slots, slots: IntArray) -> Entries:
        return Entries(codec.slots, slots)

    def _part_solver(self, data: DataSet) -> PartSolver:
        # Without a loss one sort; with a loss one assignment per query.
        return RankingParts(_position_weights(self.term, cast("IntArray", data.sizes)))

    __repr__ = call_text


def _position_weights(term: ByPosition, sizes: IntArray) -> FloatArray:
    """``c`` of all queries, one after the other."""
    table = {int(n): term.weights(int(n)) for n in np.unique(sizes)}
    return np.concatenate([table[int(n)] for n in sizes])


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


def _record(x: Any) -> Record:
    return complete_matching(n_documents(x), n_documents(x))


def _program(x: Any) -> LabelSpace:
    n = n_documents(x)
    space = LabelSpace(f"rankings of {n} documents")
    place = space.binary("place", (n, n))
    space.subject_to(place.sum(axis=1) == 1, name="position")
    space.subject_to(place.sum(axis=0) == 1, name="document")
    return space

"""Sequences cut into segments of one state each: semi-Markov models."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import index
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt._jit.threads import in_threads
from structopt.algorithms.segments import viterbi as segments
from structopt.algorithms.segments.algorithm import SegmentOracle, cover, segment_rows, window_sums
from structopt.checks import checked, floats
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Term, Tied
from structopt.model.batch import Batch
from structopt.model.codec import BatchCodec, LossBatch, common_steps, spread_rows
from structopt.model.inference import BatchInference, Maxima, Weight, weighed
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures.sequences import (
    PositionLoss,
    SequenceModel,
    States,
    count_codes,
    n_positions,
    n_threads,
    position_loss,
    rows_of,
)

__all__ = ["Segmentation", "SegmentTable", "Segments"]

# Segment scores of a batch are made piece by piece, each of about this many entries.
_PIECE = 1 << 21


class Segmentation(SequenceModel):
    """Segments of at most `max_length` positions, each with a state: ``sum <W[s], x(segment)> + sum T[s, s']``.

    The space is a flow of one unit through boundaries and states (its LP is integral); the semi-Markov recursion is
    its oracle. Two neighbours may have the same state, unless `transitions` forbids it.

    Parameters
    ----------
    states : int or sequence
        Number of states (named 0, 1, ...) or their names.
    max_length : int
        Largest number of positions in a segment.
    transitions : array_like of bool, shape (S, S), or Rules, optional
        Which state may follow which, ``[from, to]``, from segment to segment.
    initial : array_like of bool, shape (S,), optional
        What the first segment may be.
    pooling : {"sum", "mean"}
        How the feature rows of its positions make the features of a segment.
    loss : {"hamming", "normalized"} or array_like or PositionLoss, optional
        As in `Chain`: by position, which is linear in the segments.
    intercept : bool
        Append the constant 1 to every feature row (a segment's intercept with ``pooling="mean"``).
    initial_weights, length_weights : bool
        Learn a weight for the first segment's state; for every length and state.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Notes
    -----
    An input is a (T, d) matrix, a data set a list of them; a label is a list of pairs (start, state). The weights are
    one row of length d a state, then ``T[s, s']``, then the initial weights, then those of ``(length, state)``.

    Examples
    --------
    >>> import numpy as np
    >>> model = Segmentation(["rest", "walk"], max_length=3)
    >>> x = np.array([[1.0, 0.0], [1.0, 0.5], [0.0, 1.0], [0.0, 2.0]])
    >>> w = np.array([1.0, 0.0, 0.0, 1.0, -0.1, -0.1, -0.1, -0.1])
    >>> model.predict(w, x)
    [(0, 'rest'), (2, 'walk')]
    """

    @checked
    def __init__(
        self,
        states: int | Sequence[Hashable],
        max_length: int,
        transitions: Any = None,
        initial: npt.ArrayLike | None = None,
        pooling: str = "sum",
        loss: Any = None,
        intercept: bool = False,
        *,
        initial_weights: bool = False,
        length_weights: bool = False,
        solver: Any = "auto",
    ) -> None:
        self.states = states
        self.max_length = max_length
        self.transitions = transitions
        self.initial = initial
        self.pooling = pooling
        self.intercept = intercept
        self.initial_weights = initial_weights
        self.length_weights = length_weights
        if max_length < 1:
            raise DeclarationError(f"max_length must be at least 1, got {max_length}.")
        if pooling not in ("sum", "mean"):
            raise DeclarationError(f"pooling must be 'sum' or 'mean', got {pooling!r}.")
        S = len(States(states))
        task = position_loss(loss, S)
        if not isinstance(task, PositionLoss):
            raise DeclarationError(f"A segmentation's loss is by position (hamming, costs), got {task!r}.")
        features: dict[str, Term] = {
            "segment": SegmentTable(max_length, pooling == "mean", intercept=intercept),
            "transition": self._tied_transitions(S),
        }
        if initial_weights:
            features["initial"] = Tied()
        if length_weights:
            features["length"] = Tied()
        super().__init__(states, transitions, initial, features, task, max_length)
        self._position_loss = task
        self.solver = solver

    def _declare_sequence(self, x: Any) -> LabelSpace:
        T, S, L = n_positions(x), self.n_states, self.max_length
        self.check_length(T)
        start, length = segment_rows(T, L)
        R = len(start)
        space = LabelSpace(f"segments of {T} positions, {S} states")
        allowed = np.ones((R, S))
        allowed[start == 0] = self.rules.initial
        part = space.integer("segment", (R, S), 0, allowed)
        pair = space.continuous("transition", (T - 1, S, S), 0, self.rules.transitions.astype(np.float64))
        begins = sp.csr_array((np.ones(R), (start, np.arange(R))), shape=(T, R))
        ends = sp.csr_array((np.ones(R), (start + length - 1, np.arange(R))), shape=(T, R))
        space.subject_to(part[start == 0].sum() == 1, name="one first segment")
        if T > 1:
            space.subject_to(pair.sum(axis=2) == ends[:-1] @ part, name="leave")
            space.subject_to(pair.sum(axis=1) == begins[1:] @ part, name="enter")
        if self.initial_weights:
            first = space.continuous("initial", S, 0, self.rules.initial.astype(np.float64))
            space.subject_to(first == part[start == 0].sum(axis=0), name="first state")
        if self.length_weights:
            of_length = sp.csr_array((np.ones(R), (length - 1, np.arange(R))), shape=(L, R))
            count = space.continuous("length", (L, S), 0, T)
            space.subject_to(count == of_length @ part, name="lengths")
        return space

    def algorithm(self, x: Any) -> SegmentOracle:
        """The semi-Markov recursion."""
        return self._oracle_of(n_positions(x))

    def _oracle_of(self, length: int) -> SegmentOracle:
        return SegmentOracle(length, self.max_length, *self.rules, self.initial_weights, self.length_weights)

    # ---- labels ----------------------------------------------------------------------------------

    def numbers_of(self, label: Any, length: int) -> IntArray:
        """A label as checked rows (start, state number)."""
        try:
            pairs = [(index(start), state) for start, state in label]
        except (TypeError, ValueError):
            raise LabelNotInSpace(f"A segmentation is a list of pairs (start, state), got {label!r:.60}.") from None
        if not pairs:
            raise LabelNotInSpace("The label has no segments; the first one starts at position 0.")
        y = self.alphabet.places((state for _, state in pairs), "segment")
        start = np.array([at for at, _ in pairs], dtype=np.int64)
        self._check_starts(start, length)
        self.alphabet.check(y, self.rules, "segment")
        return np.stack([start, y], axis=1)

    def _check_starts(self, start: IntArray, length: int) -> None:
        if start[0] != 0:
            raise LabelNotInSpace(f"segment 0 starts at position {start[0]}, not at 0.")
        span = np.diff(start, append=length)
        for k in np.flatnonzero((span < 1) | (span > self.max_length))[:1]:
            if span[k] > self.max_length:
                text = f"segment {k}, from position {start[k]}, has {span[k]} positions; at most {self.max_length} fit"
            elif k + 1 < len(start):
                text = f"segment {k + 1} starts at position {start[k + 1]}, not after segment {k} at {start[k]}"
            else:
                text = f"segment {k} starts at position {start[k]} of a sequence of {length}"
            raise LabelNotInSpace(f"{text}.", (text,))

    def label_of(self, pairs: IntArray) -> list[tuple[int, Any]]:
        """Rows (start, state number) as a label.

        Parameters
        ----------
        pairs : sequence of (start, number of the state)

        Returns
        -------
        list of (start, state)
        """
        return [(start, self.alphabet.names[state]) for start, state in pairs.tolist()]

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point of a label; the input determines where the last segment ends."""
        if x is None:
            raise DeclarationError("A segmentation does not say where its last segment ends; give the input as x=.")
        T = n_positions(x)
        return self._oracle_of(T).point(self.numbers_of(label, T))

    def counted(self, x: Any = None) -> FloatArray:
        """Refused: the variables are segments, the loss counts positions."""
        raise DeclarationError(
            "Micro-F1 counts variables that are on, and those of a segmentation are segments, while its loss counts "
            "positions. Use another surrogate, or a Chain, whose variables are states of positions."
        )

    def decode(self, z: npt.ArrayLike, x: Any = None) -> list[tuple[int, Any]]:
        """The segments of a point."""
        if x is None:
            raise DeclarationError("Which variables are which segments depends on the input; give it as x=.")
        return self.label_of(self._pairs_at(floats("z", z, ndim=1), n_positions(x)))

    def _pairs_at(self, z: FloatArray, length: int) -> IntArray:
        oracle = self._oracle_of(length)
        oracle.check_size(z)
        return oracle.pairs(z)

    def loss_at(self, z: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """The task loss of a ground truth that is encoded already: the losses of a segment's positions add up."""
        T = n_positions(x)
        pairs = self._pairs_at(z, T)
        truth = np.repeat(pairs[:, 1], np.diff(pairs[:, 0], append=T))
        coef = np.zeros(len(z))
        by_segment = cover(T, self.max_length) @ self._position_loss.table(truth, np.array([0, T]))
        coef[: by_segment.size] = by_segment.ravel()
        return coef, 0.0

    def batch_codec(self, batch: Batch) -> BatchCodec[Any]:
        # Rows (start, state).
        return SegmentRows(batch) if self.solves_itself else super().batch_codec(batch)

    def batch_inference(self, batch: Batch) -> BatchInference:
        # The semi-Markov recursion for all sequences.
        return SegmentInference(batch) if self.solves_itself else super().batch_inference(batch)

    def __repr__(self) -> str:
        return (
            f"<Segmentation into {self._told()}; at most {self.max_length} positions each; {self.pooling} of features; "
            f"loss {self._task}>"
        )


class Segments(NamedTuple):
    """Segmentations of a data set: rows (start, state), those of example i in ``rows[ptr[i]:ptr[i + 1]]``."""

    rows: IntArray
    ptr: IntArray


class SegmentRows(BatchCodec[Segments]):
    """`Segments` of all sequences; losses by position and state."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self.model = cast("Segmentation", batch.model)
        self._ptr: IntArray = batch.starts[0].astype(np.int64)
        self._lengths = np.diff(self._ptr)

    def _spans(self, found: Segments) -> tuple[IntArray, IntArray]:
        """Owner and number of positions of every segment."""
        owner = np.repeat(np.arange(self.n), np.diff(found.ptr))
        start = found.rows[:, 0]
        end = np.append(start[1:], 0)
        last = found.ptr[1:][np.diff(found.ptr) > 0] - 1
        end[last] = self._lengths[owner[last]]
        return owner, end - start

    def encode(self, Y: Any) -> Segments:
        lengths = self._lengths.tolist()
        return _joined(self.encode_each(Y, lambda label, i: self.model.numbers_of(label, lengths[i])))

    def decode(self, labels: Segments) -> list[Any]:
        parts = np.split(labels.rows, labels.ptr[1:-1])
        return [self.model.label_of(pairs) if len(pairs) else None for pairs in parts]

    def tables(self, labels: Segments) -> list[sp.csr_array]:
        S, L = self.model.n_states, self.model.max_length
        state = labels.rows[:, 1]
        owner, span = self._spans(labels)
        present = np.diff(labels.ptr) > 0
        covered = np.repeat(present, self._lengths)
        indptr = np.concatenate([[0], np.cumsum(covered)]).astype(np.int32)
        share = 1.0 / span if self.model.pooling == "mean" else np.ones(len(span))
        by_position = (np.repeat(share, span), np.repeat(state, span).astype(np.int32), indptr)
        tables = [sp.csr_array(by_position, shape=(int(self._ptr[-1]), S))]
        second = np.flatnonzero(owner[1:] == owner[:-1]) + 1
        tables.append(count_codes(state[second - 1] * S + state[second], owner[second], self.n, S * S))
        if self.model.initial_weights:
            first = np.flatnonzero(present)
            tables.append(count_codes(state[labels.ptr[:-1][first]], first, self.n, S))
        if self.model.length_weights:
            tables.append(count_codes((span - 1) * S + state, owner, self.n, L * S))
        return tables

    def from_points(self, Z: Any) -> Segments:
        parts = [self.model._pairs_at(np.asarray(z), int(T)) for z, T in zip(Z, self._lengths, strict=True)]
        return _joined(parts)

    def spread(self, parts: Sequence[Segments], some: IntArray | None) -> Segments:
        rows = np.concatenate([part.rows for part in parts])
        given = np.concatenate([np.diff(part.ptr) for part in parts])
        counts = spread_rows([given], some, self.n, 0)
        return Segments(rows, np.concatenate([[0], np.cumsum(counts)]))

    def losses(self, truth: Segments) -> LossBatch[FloatArray]:
        _, span = self._spans(truth)
        states = np.repeat(truth.rows[:, 1], span)
        return LossBatch(self.model._position_loss.table(states, self._ptr), np.zeros(self.n))

    def loss_steps(self, loss: LossBatch[FloatArray]) -> FloatArray:
        owner = np.repeat(np.arange(self.n), np.diff(self._ptr))
        return common_steps(loss.coef, owner, self.n)

    def loss_values(self, loss: LossBatch[FloatArray], labels: Segments) -> FloatArray:
        owner, span = self._spans(labels)
        at, _ = rows_of(self._ptr, np.flatnonzero(np.diff(labels.ptr)))
        by_position = loss.coef[at, np.repeat(labels.rows[:, 1], span)]
        return np.bincount(np.repeat(owner, span), weights=by_position, minlength=self.n) + loss.const


class SegmentInference(BatchInference):
    """The semi-Markov recursion, in pieces of neighbouring examples whose segment scores fit into memory together."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self.model = cast("Segmentation", batch.model)
        self._ptr: IntArray = batch.starts[0].astype(np.int64)

    def maximize(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch[FloatArray] | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        chosen = np.arange(self.batch.n) if some is None else some
        pieces = self._pieces(chosen)
        found: list[Any] = [None] * len(pieces)
        jobs = n_threads(n_jobs)
        if not pieces:
            return Maxima(Segments(np.empty((0, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)), np.empty(0))

        def work(first: int, last: int) -> None:
            for k in range(first, last):
                found[k] = self._solve(tables, loss, weight, pieces[k])

        in_threads(work, len(pieces), jobs)
        counts = np.concatenate([np.diff(ptr) for _, ptr, _ in found])
        rows = np.concatenate([rows for rows, _, _ in found])
        labels = Segments(rows, np.concatenate([[0], np.cumsum(counts)]))
        return Maxima(labels, np.concatenate([values for _, _, values in found]))

    def _pieces(self, chosen: IntArray) -> list[IntArray]:
        lengths = self._ptr[chosen + 1] - self._ptr[chosen]
        entries = np.cumsum(lengths) * self.model.max_length * self.model.n_states
        cuts = np.flatnonzero(np.diff(entries // _PIECE)) + 1
        return [piece for piece in np.split(chosen, cuts) if piece.size]

    def _solve(
        self, tables: Sequence[FloatArray], loss: LossBatch[FloatArray] | None, weight: Weight, piece: IntArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        model, S, L = self.model, self.model.n_states, self.model.max_length
        at, ptr = rows_of(self._ptr, piece)
        unary = np.asarray(tables[0][at], dtype=np.float64)
        mean = model.pooling == "mean"
        losses = None if loss is None else weighed(loss.coef[at], weight, piece, np.diff(ptr))
        if losses is not None and not mean:
            unary = unary + losses
        scores = window_sums(unary, L, mean)
        if losses is not None and mean:
            scores += window_sums(losses, L)
        # Tied weights are the same for all examples; any one's row will do.
        tied = [np.asarray(table[piece[0]]) for table in tables[1:]]
        if model.length_weights:
            scores += tied[-1].reshape(L, S)
        rules = model.forbid(tied[0], tied[1] if model.initial_weights else None)
        return segments.viterbi_batch(scores, ptr, *rules)


def _joined(parts: Sequence[IntArray]) -> Segments:
    ptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return Segments(np.concatenate(parts), ptr)


class SegmentTable(Term):
    """A segment's features are the sum (or mean) of the rows of its positions; states have a weight vector each.

    Linear in the rows, so that the table kept is the one of the positions, T rows instead of one per segment: a
    segment scores the sum of its positions' scores, and a label's entry at a position is its share of the segment.
    """

    def __init__(self, max_length: int, mean: bool = False, field: Any = None, intercept: bool = False) -> None:
        super().__init__(field, intercept)
        self.max_length = max_length
        self.mean = mean

    def n_columns(self, shape: tuple[int, ...]) -> int:
        return shape[-1]

    def _cover(self, x: Any) -> sp.csr_array:
        return cover(n_positions(x if self.field is None else x[self.field]), self.max_length, self.mean)

    def fold(self, x: Any, block: FloatArray) -> FloatArray:
        return np.asarray(self._cover(x).T @ block)

    def unfold(self, x: Any, table: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return np.asarray(self._cover(x) @ table)

    def __repr__(self) -> str:
        kind = "mean" if self.mean else "sum"
        return f"SegmentTable(max_length={self.max_length}, {kind}{', intercept=True' if self.intercept else ''})"

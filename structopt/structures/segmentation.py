"""Sequences cut into segments of one state each: semi-Markov models."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from operator import index
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.algorithms.parts import PartSolver
from structopt.algorithms.segments.algorithm import SegmentVariables, cover, segment_rows
from structopt.algorithms.segments.parts import SegmentParts
from structopt.checks import checked, floats, whole
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Term, Tied
from structopt.model.codec import csr_table
from structopt.model.data_set import DataSet
from structopt.model.loss_batch import Counts, Entries, LossBatch, ranges
from structopt.model.slots import EACH, FIRST, MEAN, SPAN, STEP, SlotMap, Slots
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures.sequences import (
    EntityErrors,
    PositionLoss,
    SequenceModel,
    States,
    n_positions,
    position_loss,
    position_losses,
)

__all__ = ["Segmentation", "SegmentTable", "bio_of_segments", "segments_of_bio"]


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
        Which state the first segment may have.
    pooling : {"sum", "mean"}
        How the feature rows of its positions make the features of a segment.
    loss : {"hamming", "normalized", "entities"} or array_like or PositionLoss, optional
        As in `Chain`: by position, which is linear in the segments. ``"entities"`` counts whole segments: those of a
        state other than `outside` that only one of label and ground truth has.
    intercept : bool
        Append the constant 1 to every feature row (a segment's intercept with ``pooling="mean"``).
    initial_weights, length_weights : bool
        Learn a weight for the first segment's state; for every length and state.
    outside : object
        The state of positions that belong to no entity; for ``loss="entities"``.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Notes
    -----
    An input is a (T, d) matrix, a data set a list of them; a label is a list of pairs (start, state). The weights are
    one row of length d a state, then ``T[s, s']``, then the initial weights, then those of ``(length, state)``.

    With a loss by position the surrogate ``"micro_f1"`` counts states of positions, as that of a `Chain` does: at
    margin 0 it is the share of wrong positions. With ``loss="entities"`` it is that of entities: at margin 0 it is
    1 - F1 of a sentence's entities, exactly, where a chain of BIO tags can only count tags. It is a loss of each
    sentence, and the mean of these is not 1 - F1 of all entities of a corpus. `segments_of_bio` and
    `bio_of_segments` convert tags.

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
        outside: Hashable = "O",
        solver: Any = "auto",
    ) -> None:
        self.states = states
        self.outside = outside
        self.max_length = max_length
        self.transitions = transitions
        self.initial = initial
        self.pooling = pooling
        self.intercept = intercept
        self.initial_weights = initial_weights
        self.length_weights = length_weights
        whole("max_length", max_length, 1, 2**31 - 1)
        if pooling not in ("sum", "mean"):
            raise DeclarationError(f"pooling must be 'sum' or 'mean', got {pooling!r}.")
        S = len(States(states))
        task = self._entity_errors() if isinstance(loss, str) and loss == "entities" else position_loss(loss, S)
        if not isinstance(task, PositionLoss | EntityErrors):
            raise DeclarationError(
                f"A segmentation's loss is by position (hamming, costs) or 'entities', got {task!r}."
            )
        if isinstance(task, EntityErrors) and len(task.entities) != S:
            raise DeclarationError(f"{task!r} is of {len(task.entities)} states; the model has {S}.")
        features: dict[str, Term] = {
            "segment": SegmentTable(max_length, pooling == "mean", intercept=intercept),
            "transition": self._tied_transitions(S),
        }
        if initial_weights:
            features["initial"] = Tied()
        if length_weights:
            features["length"] = Tied()
        super().__init__(states, transitions, initial, features, task, max_length)
        self.solver = solver

    def _entity_errors(self) -> EntityErrors:
        names = list(States(self.states).names)
        if self.outside not in names:
            raise DeclarationError(
                f"loss='entities' needs the state of positions outside of all entities: {self.outside!r} is none of "
                f"the states {', '.join(map(repr, names[:8]))}; give outside=."
            )
        return EntityErrors([name != self.outside for name in names])

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

    def _variables_of(self, length: int) -> SegmentVariables:
        return SegmentVariables(length, self.max_length, self.n_states, self.initial_weights, self.length_weights)

    # ---- labels ----------------------------------------------------------------------------------

    def _pairs_of(self, label: Any, length: int) -> IntArray:
        """Return the checked rows (start, state number) of a label."""
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

    def _label_of(self, pairs: IntArray) -> list[tuple[int, Any]]:
        """Return the label of rows (start, state number)."""
        return [(start, self.alphabet.names[state]) for start, state in pairs.tolist()]

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point of a label; the input determines where the last segment ends."""
        if x is None:
            raise DeclarationError("A segmentation does not say where its last segment ends; give the input as x=.")
        T = n_positions(x)
        return self._variables_of(T).point(self._pairs_of(label, T))

    def counted(self, x: Any = None) -> Any:
        """The counts of micro-F1: the segments that are entities, or the states of positions.

        The state of a position is the sum of the segments that cover it, so that these counts are a matrix: a row for
        each position and state.

        Parameters
        ----------
        x : object
            An input.

        Returns
        -------
        ndarray, shape (n_variables,), or csr_array, shape (n_positions * n_states, n_variables)
        """
        space = self.space(x)
        block = space["segment"]
        if isinstance(self._task, EntityErrors):
            weights = np.zeros(space.n_variables)
            weights[block.slice] = self._task.counted(block.size)
            return weights
        self._check_counted()
        T, S = n_positions(x), self.n_states
        rows = sp.coo_array(sp.kron(cover(T, self.max_length).T, sp.eye_array(S)))
        places = rows.row, rows.col + block.slice.start
        return sp.csr_array((rows.data, places), shape=(T * S, space.n_variables))

    def _check_counted(self) -> None:
        if self._by_position.counted(1) is None:
            raise DeclarationError(
                f"Micro-F1 counts wrong positions, as the Hamming loss does; {self._task!r} counts something else. Use "
                "loss='hamming' or 'entities', or another surrogate."
            )

    def decode(self, z: npt.ArrayLike, x: Any = None) -> list[tuple[int, Any]]:
        """The segments of a point."""
        if x is None:
            raise DeclarationError("Which variables are which segments depends on the input; give it as x=.")
        return self._label_of(self._pairs_at(floats("z", z, ndim=1), n_positions(x)))

    def _pairs_at(self, z: FloatArray, length: int) -> IntArray:
        variables = self._variables_of(length)
        variables.check_size(z)
        return variables.pairs(z)

    def _loss_at(self, z: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """The task loss of a ground truth that is encoded already: the losses of a segment's positions add up."""
        T = n_positions(x)
        coef, task = np.zeros(len(z)), self._task
        if isinstance(task, EntityErrors):
            size = len(segment_rows(T, self.max_length)[0]) * self.n_states
            coef[:size], const = task.linear(z[:size])
            return coef, const
        pairs = self._pairs_at(z, T)
        truth = np.repeat(pairs[:, 1], np.diff(pairs[:, 0], append=T))
        by_segment = cover(T, self.max_length) @ self._by_position.table(truth, np.array([0, T]))
        coef[: by_segment.size] = by_segment.ravel()
        return coef, 0.0

    @property
    def _by_position(self) -> PositionLoss:
        return cast("PositionLoss", self._task)

    # ---- segments of a data set: (length - 1) * states + state where one starts --------------------

    def _slot_map(self, data: DataSet) -> SlotMap:
        extra = (FIRST,) * self.initial_weights + (EACH,) * self.length_weights
        return self._position_map(data, (MEAN if self.pooling == "mean" else SPAN, STEP, *extra))

    def _slots_of(self, label: Any, size: int) -> IntArray:
        return self._codes(self._pairs_of(label, size), size)

    def _codes(self, pairs: IntArray, length: int) -> IntArray:
        """Return the slots of rows (start, state)."""
        slots = np.full(length, -1)
        slots[pairs[:, 0]] = (np.diff(pairs[:, 0], append=length) - 1) * self.n_states + pairs[:, 1]
        return slots

    def _slots_at(self, Z: Iterable[Any], sizes: Sequence[int]) -> IntArray:
        return np.concatenate([self._codes(self._pairs_at(np.asarray(z), T), T) for z, T in zip(Z, sizes, strict=True)])

    def _labels_of_slots(self, slots: IntArray, ptr: IntArray) -> list[Any]:
        at = np.flatnonzero(slots >= 0)
        owner = np.searchsorted(ptr, at, side="right") - 1
        pairs = np.column_stack([at - ptr[owner], slots[at] % self.n_states])
        parts = np.split(pairs, np.searchsorted(owner, np.arange(1, len(ptr) - 1)))
        return [self._label_of(part) if len(part) else None for part in parts]

    def _states(self, slots: IntArray) -> IntArray:
        """Return the state of each position, -1 in examples without a label."""
        at = np.flatnonzero(slots >= 0)
        lengths, states = np.divmod(slots[at], self.n_states)
        found = np.full(len(slots), -1)
        found[ranges(at, at + lengths + 1)] = np.repeat(states, lengths + 1)
        return found

    def _slot_losses(self, codec: Slots, truth: IntArray, given: Any = None) -> LossBatch:
        if isinstance(self._task, EntityErrors):
            return self._entities(codec, truth, self._task, 1.0, -2.0)
        return position_losses(self._by_position, self._states(truth), codec.slots)

    def _entities(self, codec: Slots, truth: IntArray, task: EntityErrors, each: float, both: float) -> LossBatch:
        """Return `each` times the entities of a label and of its ground truth, plus `both` for each entity in both.

        Rows are first positions, columns lengths and states.
        """
        wanted = (truth >= 0) & task.entities[truth % self.n_states]
        known = np.add.reduceat(wanted, codec.slots[:-1], dtype=np.float64)
        shared = each * np.tile(task.entities.astype(np.float64), (1, self.max_length))
        indptr = np.concatenate([[0], np.cumsum(wanted)])
        sparse = csr_table(np.full(indptr[-1], both), truth[wanted], indptr, (len(truth), shared.shape[1]))
        return LossBatch(None, each * known, codec.slots, shared, sparse=sparse)

    def _slot_entries(self, codec: Slots, slots: IntArray) -> Entries:
        return Entries(codec.slots, slots if isinstance(self._task, EntityErrors) else self._states(slots))

    def _slot_counts(self, codec: Slots, truth: IntArray) -> Counts | None:
        task = self._task
        if isinstance(task, EntityErrors):
            errors, on = (self._entities(codec, truth, task, *weights) for weights in ((1.0, -2.0), (-1.0, 0.0)))
            return Counts(errors, on, 1.0)
        # A wrong position is a state too many and one too few; every label has one state a position on.
        self._check_counted()
        wrong = self._slot_losses(codec, truth)
        assert wrong.shared is not None
        on = LossBatch(None, -2.0 * np.diff(codec.slots), codec.slots, np.zeros((1, self.n_states)))
        return Counts(replace(wrong, const=2.0 * wrong.const, shared=2.0 * wrong.shared), on, 1.0)

    def _part_solver(self, data: DataSet) -> PartSolver:
        # The semi-Markov recursion for all sequences.
        by_segment = isinstance(self._task, EntityErrors)
        return SegmentParts(
            self.n_states, self.max_length, self.forbid, self.pooling == "mean", self.length_weights, by_segment
        )

    def __repr__(self) -> str:
        return (
            f"<Segmentation into {self._told()}; at most {self.max_length} positions each; {self.pooling} of features; "
            f"loss {self._task}>"
        )


@checked
def segments_of_bio(tags: Sequence[str]) -> list[tuple[int, str]]:
    """BIO tags as a label of `Segmentation`: a segment for each entity, and one for each position outside.

    Parameters
    ----------
    tags : sequence of str
        ``"O"``, ``"B-PER"``, ``"I-PER"``, ...; an ``"I-PER"`` that continues nothing begins an entity.

    Returns
    -------
    list of (start, state)
        States are the types of entities, and ``"O"``.

    Examples
    --------
    >>> segments_of_bio(["B-PER", "I-PER", "O", "B-PER", "B-LOC"])
    [(0, 'PER'), (2, 'O'), (3, 'PER'), (4, 'LOC')]
    """
    label: list[tuple[int, str]] = []
    for position, tag in enumerate(tags):
        kind, dash, name = tag.partition("-") if isinstance(tag, str) else ("", "", "")
        if kind not in ("O", "B", "I") or (kind == "O") == bool(dash):
            raise DeclarationError(f"Tag {position} is {tag!r}; write O, B-TYPE or I-TYPE.")
        if kind == "O":
            label.append((position, "O"))
        elif kind == "B" or not label or label[-1][1] != name:
            label.append((position, name))
    return label


@checked
def bio_of_segments(label: Sequence[tuple[int, str]], length: int) -> list[str]:
    """A label of `Segmentation` as BIO tags, the inverse of `segments_of_bio`.

    Parameters
    ----------
    label : list of (start, state)
        The state ``"O"`` marks positions outside of all entities.
    length : int
        Number of positions.

    Returns
    -------
    list of str

    Examples
    --------
    >>> bio_of_segments([(0, "PER"), (2, "O"), (4, "LOC")], 5)
    ['B-PER', 'I-PER', 'O', 'O', 'B-LOC']
    """
    tags: list[str] = []
    starts = [start for start, _ in label]
    for (start, state), end in zip(label, [*starts[1:], length], strict=True):
        first, rest = ("O", "O") if state == "O" else (f"B-{state}", f"I-{state}")
        tags += [first, *[rest] * (end - start - 1)]
    return tags


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

    def fold_batch(self, inputs: Sequence[Any], blocks: FloatArray) -> FloatArray:
        return _times_each(self._cover(inputs[0]).T, blocks)

    def unfold_batch(self, inputs: Sequence[Any], tables: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return _times_each(self._cover(inputs[0]), tables).reshape(len(tables), -1)


def _times_each(matrix: Any, tables: FloatArray) -> FloatArray:
    """Return the product of a sparse matrix and each of the tables (n, rows, columns)."""
    n, rows, columns = tables.shape
    product = matrix @ tables.transpose(1, 0, 2).reshape(rows, n * columns)
    return np.asarray(product).reshape(-1, n, columns).transpose(1, 0, 2)

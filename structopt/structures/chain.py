"""Sequences of states: linear chains with learned transitions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray, kernel
from structopt.algorithms.base import Algorithm
from structopt.algorithms.chain.algorithm import GroupForestAlgorithm
from structopt.algorithms.chain.parts import ChainParts
from structopt.algorithms.chain.viterbi import viterbi_batch
from structopt.algorithms.parts import PartSolver
from structopt.checks import checked, floats
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Table, Term, Tied, checked_rows
from structopt.model.data_set import DataSet
from structopt.model.loss_batch import Counts, Entries, LossBatch, counts_of
from structopt.model.slots import CHOICE, FIRST, STEP, SlotMap, Slots, stacked_numbers
from structopt.recognize import GroupForest
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures.sequences import (
    PositionLoss,
    SequenceModel,
    States,
    bio_rules,
    n_positions,
    position_loss,
    position_losses,
)

__all__ = ["Chain", "bio_rules"]


class Chain(SequenceModel):
    """A state for every position of a sequence: ``sum_t <W[y_t], x_t> + sum_t T[y_t, y_{t+1}]``.

    The space is the marginal polytope of the chain, a flow through layers of states, whose vertices are the sequences;
    Viterbi's recursion is its oracle.

    Parameters
    ----------
    states : int or sequence
        Number of states (named 0, 1, ...) or their names.
    transitions : array_like of bool, shape (S, S), or Rules or "bio", optional
        Which state may follow which, ``[from, to]``; all by default. `bio_rules` gives the rules of BIO tags, and
        ``"bio"`` those of the states' names.
    initial : array_like of bool, shape (S,), optional
        Which state may come first.
    loss : TaskLoss or {"hamming", "normalized"} or array_like, optional
        The number of wrong positions by default; ``"normalized"`` divides it by the length; an array is the weight of a
        mistake by true state, or the cost of every confusion ``[truth, predicted]``.
    intercept : bool
        Append the constant 1 to every feature row.
    initial_weights : bool
        Learn a weight for the first state as well.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Notes
    -----
    An input is a (T, d) matrix, a data set a list of them; a label is T states. The weights are one row of length d a
    state, then ``T[s, s']`` in row order, then the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> model = Chain(["O", "B-PER", "I-PER"], transitions="bio")
    >>> x = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]])
    >>> w = np.concatenate([np.eye(3).ravel(), np.zeros(9)])
    >>> model.predict(w, x)
    ['B-PER', 'I-PER', 'O']
    >>> try:
    ...     model.encode(["O", "O", "I-PER"])
    ... except so.errors.LabelNotInSpace as error:
    ...     print(error)
    position 2: 'I-PER' may not follow 'O'.
    """

    @checked
    def __init__(
        self,
        states: int | Sequence[Hashable],
        transitions: Any = None,
        initial: npt.ArrayLike | None = None,
        loss: Any = None,
        intercept: bool = False,
        *,
        initial_weights: bool = False,
        solver: Any = "auto",
    ) -> None:
        self.states = states
        self.transitions = transitions
        self.initial = initial
        self.intercept = intercept
        self.initial_weights = initial_weights
        S = len(States(states))
        features: dict[str, Term] = {"y": Table(intercept=intercept), "transition": self._tied_transitions(S)}
        if initial_weights:
            features["initial"] = Tied()
        super().__init__(states, transitions, initial, features, position_loss(loss, S))
        self.solver = solver

    def _declare_sequence(self, x: Any) -> LabelSpace:
        T, S = n_positions(x), self.n_states
        self.check_length(T)
        space = LabelSpace(f"chain of {T} positions, {S} states")
        first = np.ones((T, S))
        first[0] = self.rules.initial
        y = space.integer("y", (T, S), 0, first)
        pair = space.continuous("transition", (T - 1, S, S), 0, self.rules.transitions.astype(np.float64))
        space.subject_to(y[0].sum() == 1, name="one first state")
        if T > 1:
            space.subject_to(pair.sum(axis=2) == y[:-1], name="leave")
            space.subject_to(pair.sum(axis=1) == y[1:], name="enter")
        if self.initial_weights:
            start = space.continuous("initial", S, 0, self.rules.initial.astype(np.float64))
            space.subject_to(start == y[0], name="first state")
        return space

    def weight_space(self, x: Any = None) -> LabelSpace:
        # One position: the variables of transitions would be states^2 * positions.
        return self.space(np.zeros((1, 1)))

    def algorithm(self, x: Any) -> Algorithm | None:
        """Viterbi; chains with weights of first states are recognised."""
        if self.initial_weights:
            return None
        T, S = n_positions(x), self.n_states
        present = np.ones((T, S), dtype=np.bool_)
        present[0] = self.rules.initial
        number = np.cumsum(present, axis=1) - 1
        allowed = self.rules.transitions & present[:-1, :, None]
        step, source, target = np.nonzero(allowed)
        record = GroupForest(
            state_ptr=np.concatenate([[0], np.cumsum(present.sum(axis=1))]),
            column=np.flatnonzero(present),
            parent=np.arange(-1, T - 1),
            pair_ptr=np.concatenate([[0, 0], np.cumsum(allowed.sum(axis=(1, 2)))]),
            above=number[step, source],
            below=number[step + 1, target],
            pair=T * S + np.flatnonzero(allowed),
            hull=True,
            integer=True,
        )
        algorithm = GroupForestAlgorithm(record, T * S + allowed.size)
        algorithm.name = "Viterbi"
        return algorithm

    # ---- labels ----------------------------------------------------------------------------------

    def _slots_of(self, label: Any, size: int | None) -> IntArray:
        """Return the checked state numbers of a label."""
        y = self.alphabet.places(label)
        if size is not None and len(y) != size:
            raise LabelNotInSpace(f"A label of {len(y)} states for a sequence of {size} positions.")
        if not len(y):
            raise LabelNotInSpace("The label is empty; it needs a state for every position.")
        self.alphabet.check(y, self.rules)
        return y

    def _label_of(self, y: IntArray) -> Any:
        """Return the label of state numbers: an array of numbers, or a list of names."""
        return y if self.alphabet.numbered else [self.alphabet.names[s] for s in y]

    def _states_at(self, z: npt.ArrayLike) -> IntArray:
        """State numbers of a point; its length determines that of the sequence."""
        point, S = floats("z", z, ndim=1), self.n_states
        length, rest = divmod(point.size - S * self.initial_weights + S * S, S + S * S)
        if rest or length < 1:
            raise DeclarationError(f"A point with {point.size} entries is not one of a chain of {S} states.")
        return np.asarray(point[: length * S].reshape(length, S).argmax(axis=1), dtype=np.int64)

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point of a label: its states and its transitions."""
        y, S = self._slots_of(label, None if x is None else n_positions(x)), self.n_states
        n_unary, n_pair = len(y) * S, (len(y) - 1) * S * S
        z = np.zeros(n_unary + n_pair + S * self.initial_weights)
        z[np.arange(0, n_unary, S) + y] = 1.0
        z[n_unary + np.arange(0, n_pair, S * S) + y[:-1] * S + y[1:]] = 1.0
        z[n_unary + n_pair + y[: self.initial_weights]] = 1.0
        return z

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """The states of a point."""
        return self._label_of(self._states_at(z))

    def _loss_at(self, z: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """The task loss of a ground truth that is encoded already."""
        size = len(self._states_at(z)) * self.n_states
        part, const = self._task.linear(z[:size])
        coef = np.zeros(len(z))
        coef[:size] = part
        return coef, const

    def predict(self, w: npt.ArrayLike, x: Any) -> Any:
        """The best label, without declaring a space for this length."""
        weights = floats("w", w)
        rows, S = checked_rows(self.features["y"].rows(x)), self.n_states
        sizes = [S * rows.shape[1], S * S, S * self.initial_weights]
        if weights.shape != (sum(sizes),):
            raise DeclarationError(f"w has shape {weights.shape}; this model has {sum(sizes)} weights for such inputs.")
        self.check_length(n_positions(x))
        unary, pair, first = np.split(weights, np.cumsum(sizes)[:2])
        U = np.asarray(rows @ unary.reshape(S, -1).T)
        ptr, rules = np.array([0, len(U)]), self.forbid(pair, first if self.initial_weights else None)
        y, _ = viterbi_batch(U, ptr, *rules)
        return self._label_of(y)

    # ---- states of a data set --------------------------------------------------------------------

    def _slot_map(self, data: DataSet) -> SlotMap:
        kinds = (CHOICE, STEP, FIRST) if self.initial_weights else (CHOICE, STEP)
        return self._position_map(data, kinds)

    def _all_slots(self, Y: Any, ptr: IntArray, sizes: Sequence[int]) -> IntArray | None:
        stacked = stacked_numbers(Y, ptr)
        if stacked is None:
            if not self.alphabet.numbered or not isinstance(Y, list) or len(Y) != len(sizes):
                return None
            if not all(
                type(y) is np.ndarray and y.dtype.kind in "iu" and y.shape == (T,)
                for y, T in zip(Y, sizes, strict=True)
            ):
                return None
            stacked = np.concatenate(Y)
        states = np.ascontiguousarray(stacked, dtype=np.int64)
        return states if _are_allowed(states, ptr, *self.rules) else None

    def _slots_at(self, Z: Iterable[Any], sizes: Sequence[int]) -> IntArray:
        return np.concatenate([self._states_at(z) for z in Z])

    def _labels_of_slots(self, slots: IntArray, ptr: IntArray) -> list[Any]:
        return [self._label_of(y) if y[0] >= 0 else None for y in np.split(slots, ptr[1:-1])]

    def _slot_losses(self, codec: Slots, truth: IntArray, given: Any = None) -> LossBatch:
        task, ptr = self._task, codec.slots
        if isinstance(task, PositionLoss):
            return position_losses(task, truth, ptr)
        onehot = np.eye(self.n_states)[truth]
        forms = [task.linear(rows) for rows in np.split(onehot, ptr[1:-1])]
        coef = np.concatenate([np.reshape(c, (-1, self.n_states)) for c, _ in forms])
        return LossBatch(coef, np.array([const for _, const in forms]), ptr)

    def _slot_entries(self, codec: Slots, slots: IntArray) -> Entries:
        return Entries(codec.slots, slots)

    def _slot_counts(self, codec: Slots, truth: IntArray) -> Counts | None:
        S = self.n_states
        # Raises for losses other than counts. Losses by position need no more than one position.
        self.counted(np.zeros((1, 1)) if isinstance(self._task, PositionLoss) else codec.data.input(0))
        weights = np.concatenate([np.asarray(self._task.counted(T * S)) for T in codec.map.sizes]).reshape(-1, S)
        return counts_of(np.eye(S)[truth], weights, codec.slots)

    def _part_solver(self, data: DataSet) -> PartSolver:
        # Viterbi for all sequences at once; its loss-indexed form if the loss counts in units.
        return ChainParts(self.n_states, self.forbid)

    def __repr__(self) -> str:
        return f"<Chain of {self._told()}; loss {self._task}>"


@kernel
def _are_allowed(
    states: IntArray, ptr: IntArray, transitions: npt.NDArray[np.bool_], initial: npt.NDArray[np.bool_]
) -> bool:
    """Whether all numbers are states, and every sequence keeps the rules."""
    for i in range(ptr.size - 1):
        for r in range(ptr[i], ptr[i + 1]):
            y = states[r]
            if y < 0 or y >= initial.size or not (initial[y] if r == ptr[i] else transitions[states[r - 1], y]):
                return False
    return True

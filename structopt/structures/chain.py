"""Sequences of states: linear chains with learned transitions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt._jit.threads import in_threads
from structopt.algorithms.chain import viterbi as chain
from structopt.algorithms.chain.algorithm import ChainOracle
from structopt.checks import checked, floats
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Table, Term, Tied, checked_rows
from structopt.model.batch import LabelBatch, LossBatch
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures._sequence_model import SequenceBatch, SequenceModel
from structopt.structures._sequences import (
    PositionLoss,
    States,
    bio_rules,
    count_codes,
    n_positions,
    n_threads,
    position_loss,
    rows_of,
)

__all__ = ["Chain", "ChainBatch", "bio_rules"]


class Chain(SequenceModel):
    """A state for every position of a sequence: ``sum_t <W[y_t], x_t> + sum_t T[y_t, y_{t+1}]``.

    The space is the marginal polytope of the chain, a flow through layers of states, whose vertices are the sequences;
    Viterbi's recursion is its oracle.

    Parameters
    ----------
    states : int or sequence
        Number of states (named 0, 1, ...) or their names.
    transitions : array_like of bool, shape (S, S), or Rules or "bio", optional
        What may follow what, ``[from, to]``; everything by default. `bio_rules` gives the rules of BIO tags, and
        ``"bio"`` those of the states' names.
    initial : array_like of bool, shape (S,), optional
        What may come first.
    loss : TaskLoss or {"hamming", "normalized"} or array_like, optional
        The number of wrong positions by default; ``"normalized"`` divides it by the length; an array is the weight of a
        mistake by true state, or the cost of every confusion ``[truth, predicted]``.
    intercept : bool
        Append the constant 1 to every feature row.
    initial_weights : bool
        Learn a weight for the first state as well.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend is asked for every label, in training
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

    def algorithm(self, x: Any) -> ChainOracle:
        """Viterbi."""
        return self._oracle_of(n_positions(x))

    def _oracle_of(self, length: int) -> ChainOracle:
        return ChainOracle(length, self.rules, self.initial_weights)

    # ---- labels ----------------------------------------------------------------------------------

    def numbers_of(self, label: Any, length: int | None = None) -> IntArray:
        """A label as checked state numbers."""
        y = self.alphabet.places(label)
        if length is not None and len(y) != length:
            raise LabelNotInSpace(f"A label of {len(y)} states for a sequence of {length} positions.")
        if not len(y):
            raise LabelNotInSpace("The label is empty; it needs a state for every position.")
        self.alphabet.check(y, self.rules)
        return y

    def label_of(self, y: IntArray) -> Any:
        """State numbers as a label: an array of numbers, or a list of names.

        Parameters
        ----------
        y : ndarray of int
            Numbers of the states.

        Returns
        -------
        list
        """
        return y if self.alphabet.numbered else [self.alphabet.names[s] for s in y]

    def _states_at(self, z: npt.ArrayLike) -> IntArray:
        """State numbers of a point, whose length tells the sequence's."""
        point, S = floats("z", z, ndim=1), self.n_states
        length, rest = divmod(point.size - S * self.initial_weights + S * S, S + S * S)
        if rest or length < 1:
            raise DeclarationError(f"A point with {point.size} entries is not one of a chain of {S} states.")
        return np.asarray(point[: length * S].reshape(length, S).argmax(axis=1), dtype=np.int64)

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point of a label: its states and its transitions."""
        y = self.numbers_of(label, None if x is None else n_positions(x))
        z: FloatArray = self._oracle_of(len(y)).points(y[None])[0]
        return z

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """The states of a point."""
        return self.label_of(self._states_at(z))

    def loss_at(self, z: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """The task loss of a truth that is encoded already."""
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
        y, _ = chain.viterbi(U, *self.forbid(pair, first if self.initial_weights else None))
        return self.label_of(y)

    def batch(self, X: Any) -> ChainBatch:
        """A data set prepared once."""
        return self._batch(ChainBatch, X)

    def __repr__(self) -> str:
        return f"<Chain of {self._told()}; loss {self._task}>"


class ChainBatch(SequenceBatch):
    """A data set of sequences; labels are stacked state numbers, -1 where a subset left an example out."""

    model: Chain

    def labels(self, y: IntArray, chosen: npt.NDArray[np.intp] | None = None) -> LabelBatch:
        """State numbers of the chosen examples (increasing), stacked, as part tables."""
        S = self.model.n_states
        if chosen is None:
            chosen, local, states = np.arange(self.n), self.ptr, y
            indptr = np.arange(self.n_rows + 1, dtype=np.int32)
        else:
            at, local = rows_of(self.ptr, chosen)
            states = np.full(self.n_rows, -1, dtype=np.int64)
            states[at] = y
            indptr = np.zeros(self.n_rows + 1, dtype=np.int32)
            indptr[at + 1] = 1
            np.cumsum(indptr, out=indptr)
        ones = np.ones(len(y))
        tables = [sp.csr_array((ones, y.astype(np.int32), indptr), shape=(self.n_rows, S))]
        follows = np.ones(len(y), dtype=np.bool_)
        follows[local[:-1]] = False
        second = np.flatnonzero(follows)
        owner = np.repeat(chosen, np.diff(local) - 1)
        tables.append(count_codes(y[second - 1] * S + y[second], owner, self.n, S * S))
        if self.model.initial_weights:
            tables.append(count_codes(y[local[:-1]], chosen, self.n, S))
        return LabelBatch(tables, states)

    def fold(self, Z: Any) -> LabelBatch:
        """Points, one per example, as part tables."""
        tables = super().fold(Z).tables
        return LabelBatch(tables, np.concatenate([self.model._states_at(z) for z in Z]))

    def stacked(self, parts: Sequence[IntArray]) -> LabelBatch:
        return self.labels(np.concatenate(parts))

    def loss(self, truth: LabelBatch) -> LossBatch:
        """The loss of every state at every position, aligned with the first score table."""
        task, S = self.model._task, self.model.n_states
        if isinstance(task, PositionLoss):
            return LossBatch(task.table(truth.native, self.ptr), np.zeros(self.n))
        onehot = np.eye(S)[truth.native]
        forms = [task.linear(onehot[a:b]) for a, b in zip(self.ptr[:-1], self.ptr[1:], strict=True)]
        coef = np.concatenate([np.reshape(c, (-1, S)) for c, _ in forms])
        return LossBatch(coef, np.array([const for _, const in forms]))

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: float = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        chosen = None if examples is None else np.unique(np.asarray(examples, dtype=np.intp))
        if chosen is not None and not chosen.size:
            return self.labels(np.empty(0, dtype=np.int64), chosen), np.zeros(self.n)
        if chosen is None:
            some: Any = slice(None)
            ptr, owners = self.ptr, some
        else:
            some, ptr = rows_of(self.ptr, chosen)
            owners = chosen
        U = np.asarray(tables[0][some], dtype=np.float64)
        if loss is not None:
            coef = loss.coef[some]
            U = U + (coef if weight == 1.0 else weight * coef)
        # Tied weights are the same for all examples; any chosen one's row will do.
        row = 0 if chosen is None else chosen[0]
        steps, first = self.model.forbid(tables[1][row], tables[2][row] if self.model.initial_weights else None)
        y, found = _viterbi(U, ptr, steps, first, n_threads(n_jobs))
        values = np.zeros(self.n)
        values[owners] = found if loss is None else found + weight * loss.const[owners]
        return self.labels(y, chosen), values

    def decode(self, labels: LabelBatch) -> list[Any]:
        """The labels in the user's words; None for examples left out."""
        parts = np.split(labels.native, self.ptr[1:-1])
        return [self.model.label_of(y) if y[0] >= 0 else None for y in parts]

    def loss_values(self, loss: LossBatch, labels: LabelBatch) -> FloatArray:
        y = labels.native
        by_position = loss.coef[np.arange(self.n_rows), y]
        if (y < 0).any():
            by_position = np.where(y < 0, 0.0, by_position)
        return np.asarray(np.add.reduceat(by_position, self.ptr[:-1]) + loss.const)

    def __repr__(self) -> str:
        return f"<ChainBatch: {self.n} sequences, {self.n_rows} positions, {self.model.n_states} states>"


def _viterbi(
    U: FloatArray, ptr: IntArray, steps: FloatArray, first: FloatArray, n_jobs: int
) -> tuple[IntArray, FloatArray]:
    if n_jobs == 1:
        return chain.viterbi_batch(U, ptr, steps, first)
    y, values = np.empty(len(U), dtype=np.int64), np.empty(len(ptr) - 1)

    def work(a: int, b: int) -> None:
        rows = slice(ptr[a], ptr[b])
        y[rows], values[a:b] = chain.viterbi_batch(U[rows], ptr[a : b + 1] - ptr[a], steps, first)

    in_threads(work, len(values), n_jobs)
    return y, values

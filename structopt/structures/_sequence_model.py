"""What the models of sequences share: inputs of any length, rules, tied transitions, batches of stacked positions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt.errors import InfeasibleSpace, LabelNotInSpace
from structopt.features import Term, Tied
from structopt.losses import TaskLoss
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, labels_given, refusal
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures._sequences import States, check_sequences, n_positions, rules_of

__all__ = ["SequenceBatch", "SequenceModel"]


class SequenceModel(Model):
    """A model whose inputs are (T, d) matrices and whose labels follow rules of succession."""

    def __init__(
        self,
        states: int | Sequence[Hashable],
        transitions: Any,
        initial: npt.ArrayLike | None,
        features: Mapping[str, Term],
        loss: TaskLoss,
        max_length: int = 1,
    ) -> None:
        self.alphabet = States(states)
        self.rules = rules_of(self.alphabet, transitions, initial)
        # Every prefix of an allowed sequence is allowed, so that only too many positions can be infeasible.
        self._longest = self.rules.longest * max_length
        self._task = loss
        super().__init__(self._declare_sequence, features, loss)

    @abstractmethod
    def _declare_sequence(self, x: Any) -> LabelSpace:
        """The space of an input's length."""

    @abstractmethod
    def numbers_of(self, label: Any, length: int) -> IntArray:
        """A label as checked numbers, in the layout of the batch.

        Parameters
        ----------
        label : object
            A label, as the user writes it.
        length : int
            Of its sequence.

        Returns
        -------
        ndarray of int
        """

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.alphabet)

    def key(self, x: Any) -> int:
        """The length of the sequence."""
        return n_positions(x)

    def _tied_transitions(self, n_states: int) -> Tied:
        return Tied(self._pair_index, n_states**2)

    def _pair_index(self, x: Any) -> npt.NDArray[np.intp]:
        return np.tile(np.arange(self.n_states**2), n_positions(x) - 1)

    def forbid(self, pair: FloatArray, first: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Scores of transitions (S, S) and of first states, -inf where the rules forbid."""
        steps = np.where(self.rules.transitions, pair.reshape(self.n_states, self.n_states), -np.inf)
        return steps, np.where(self.rules.initial, 0.0 if first is None else first, -np.inf)

    def check_length(self, length: int) -> None:
        """Refuse a length for which the rules leave no label."""
        if length > self._longest:
            raise InfeasibleSpace(
                f"The transitions allow labels of at most {self._longest:g} positions, not {length}; "
                "allow a transition that returns."
            )

    def _told(self) -> str:
        """The states and rules, for reprs."""
        names = "" if self.alphabet.numbered else f" {', '.join(map(str, self.alphabet.names[:5]))}"
        more = ", ..." if names and self.n_states > 5 else ""
        banned = int((~self.rules.transitions).sum())
        return f"{self.n_states} states{names}{more}" + (f"; {banned} forbidden transitions" if banned else "")


class SequenceBatch(Batch):
    """A data set of sequences, their positions stacked: sequence i is ``ptr[i]:ptr[i + 1]``."""

    model: SequenceModel

    def __init__(self, model: SequenceModel, X: Any) -> None:
        self.lengths: IntArray = check_sequences(X)
        for i in np.flatnonzero(self.lengths > model._longest)[:1]:
            try:
                model.check_length(int(self.lengths[i]))
            except InfeasibleSpace as error:
                raise InfeasibleSpace(f"Example {i}: {error}") from None
        super().__init__(model, X)
        self.ptr: IntArray = self.starts[0].astype(np.int64)

    def _expected_rows(self, name: str, term: Term) -> Any:
        return 1 if isinstance(term, Tied) else self.lengths

    @property
    def n_rows(self) -> int:
        """Number of positions in all sequences."""
        return int(self.ptr[-1])

    @abstractmethod
    def stacked(self, parts: Sequence[IntArray]) -> LabelBatch:
        """Checked labels, one per example, as part tables."""

    def tables(self, w: FloatArray) -> list[FloatArray]:
        """Scores of all parts; tied weights have the same row for every example, kept once (read-only)."""
        unary, *tied = self.split(w)
        return [np.asarray(self.rows[0] @ unary.T)] + [np.broadcast_to(W[:, 0], (self.n, len(W))) for W in tied]

    def truth(self, Y: Sequence[Any]) -> LabelBatch:
        Y = labels_given(Y, self.n)
        found: list[IntArray] = []
        refused: list[str] = []
        for i, length in enumerate(self.lengths.tolist()):
            try:
                found.append(self.model.numbers_of(Y[i], length))
            except LabelNotInSpace as error:
                refused.append(f"example {i}: {error}")
        if refused:
            raise refusal(refused, self.n)
        return self.stacked(found)

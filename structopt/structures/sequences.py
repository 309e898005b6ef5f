"""Shared by models of sequences: states, rules of succession, the loss by position, inputs of any length."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt._jit.segments import segment_sums
from structopt.checks import converted, floats, hashable, numeric, same_length, sequence, shown, walkable
from structopt.errors import DeclarationError, InfeasibleSpace, LabelNotInSpace, marked
from structopt.features import Term, Tied, check_data_set, is_matrix
from structopt.losses import Hamming, TaskLoss
from structopt.model.data_set import DataSet
from structopt.model.loss_batch import LossBatch
from structopt.model.slots import SlotMap, SlotModel
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = [
    "PositionLoss",
    "Rules",
    "SequenceModel",
    "States",
    "bio_rules",
    "check_sequences",
    "n_positions",
    "position_loss",
    "position_losses",
    "rules_of",
]

BoolArray = npt.NDArray[np.bool_]


class States:
    """The states of a sequence model, or other units: numbers ``0 .. n-1``, or names in a given order."""

    def __init__(self, states: int | Sequence[Hashable], unit: str = "state") -> None:
        self.numbered = isinstance(states, int | np.integer)
        self.names: list[Any] = list(range(int(states))) if isinstance(states, int | np.integer) else list(states)
        if not len(self.names):
            raise DeclarationError(f"The model needs at least one {unit}.")
        self.place = {hashable(f"A {unit}", name): k for k, name in enumerate(self.names)}
        if len(self.place) != len(self.names):
            twice = next(name for k, name in enumerate(self.names) if self.place[name] != k)
            raise DeclarationError(f"More than one {unit} is named {twice!r}; the same name cannot be given twice.")

    def __len__(self) -> int:
        return len(self.names)

    def places(self, label: Iterable[Any], unit: str = "position") -> IntArray:
        """The numbers of a sequence of states; an unknown one is reported with its place."""
        try:
            label = walkable("A label", label)
        except DeclarationError:
            text = f"a label has a state for each {unit}, got {shown(label)}"
            raise LabelNotInSpace(f"{text[0].upper()}{text[1:]}.", (text,)) from None
        given = label.tolist() if isinstance(label, np.ndarray) else list(label)
        try:
            return np.array([self.place[state] for state in given], dtype=np.int64)
        except (KeyError, TypeError):
            at = next(t for t, state in enumerate(given) if not self.knows(state))
            known = ", ".join(map(repr, self.names[:10])) + (", ..." if len(self.names) > 10 else "")
            text = f"{unit} {at}: {given[at]!r} is not one of the states {known}"
            raise LabelNotInSpace(f"{text}.", (text,)) from None

    def knows(self, state: Any) -> bool:
        """Return whether this is a name."""
        try:
            return state in self.place
        except TypeError:  # unhashable
            return False

    def check(self, y: IntArray, rules: Rules, unit: str = "position") -> None:
        """Refuse a forbidden first state or transition, by place and name."""
        if not rules.initial[y[0]]:
            text = f"{unit} 0: {self.names[y[0]]!r} may not come first"
            raise LabelNotInSpace(f"{text}.", (text,))
        wrong = np.flatnonzero(~rules.transitions[y[:-1], y[1:]])
        if wrong.size:
            t = int(wrong[0]) + 1
            text = f"{unit} {t}: {self.names[y[t]]!r} may not follow {self.names[y[t - 1]]!r}"
            raise LabelNotInSpace(f"{text}.", (text,))


class Rules(NamedTuple):
    """Which states may follow which, ``transitions[from, to]``, and which may come first."""

    transitions: BoolArray
    initial: BoolArray

    @property
    def longest(self) -> float:
        """Length of the longest sequence that the rules allow; inf if they allow a cycle."""
        reached = self.initial
        for length in range(len(reached) + 1):
            if not reached.any():
                return length
            reached = np.logical_or.reduce(self.transitions[reached], axis=0)
        return np.inf  # more steps than states: some state came twice


def bio_rules(tags: Sequence[str]) -> Rules:
    """The rules of BIO tags: ``I-X`` comes only after ``B-X`` or ``I-X``, and never first.

    Parameters
    ----------
    tags : sequence of str
        ``"O"``, ``"B-PER"``, ``"I-PER"``, ... in the order of the model's states (or ``"B"``, ``"I"`` without a type).

    Returns
    -------
    Rules
        Boolean arrays ``transitions[from, to]`` and ``initial``.

    Examples
    --------
    >>> rules = bio_rules(["O", "B-PER", "I-PER"])
    >>> rules.transitions.astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [1, 1, 1]])
    >>> rules.initial
    array([ True,  True, False])
    """
    kinds, types = [], []
    if not len(sequence("tags", tags)):
        raise DeclarationError("There are no tags.")
    for tag in tags:
        kind, dash, name = tag.partition("-") if isinstance(tag, str) else ("", "", "")
        if kind not in ("O", "B", "I") or (kind == "O" and dash) or (dash and not name):
            raise DeclarationError(f"{tag!r} is not a BIO tag; write O, B-TYPE or I-TYPE.")
        kinds.append(kind)
        types.append(name)
    kind_of, type_of = np.array(kinds), np.array(types)
    inside = kind_of == "I"
    opened = {name for kind, name in zip(kinds, types, strict=True) if kind == "B"}
    orphan = next((tag for tag, kind, name in zip(tags, kinds, types, strict=True)
                   if kind == "I" and name not in opened), None)  # fmt: skip
    if orphan is not None:
        raise DeclarationError(f"{orphan!r} can never occur: the tags have no {'B' + orphan[1:]!r} to open it.")
    continues = (kind_of != "O")[:, None] & (type_of[:, None] == type_of[None, :])
    return Rules(~inside[None, :] | continues, ~inside)


def rules_of(states: States, transitions: Any, initial: npt.ArrayLike | None) -> Rules:
    """The rules that a user gave as ``transitions=`` and ``initial=``."""
    n = len(states)
    rules = bio_rules(states.names) if isinstance(transitions, str) and transitions == "bio" else transitions
    if isinstance(rules, str):
        raise DeclarationError(f"transitions must be 'bio', a boolean matrix or Rules, got {transitions!r}.")
    first = None
    if isinstance(rules, Rules):
        rules, first = rules
    allowed = _boolean(rules, (n, n), "transitions")
    start = _boolean(first, (n,), "initial") & _boolean(initial, (n,), "initial")
    if not start.any():
        raise DeclarationError("No state may come first; allow one in initial=.")
    return Rules(allowed, start)


def _boolean(values: Any, shape: tuple[int, ...], name: str) -> BoolArray:
    if values is None:
        return np.ones(shape, dtype=np.bool_)
    given = numeric(name, values)
    if given.shape != shape:
        raise DeclarationError(f"{name} has shape {given.shape}; {shape[0]} states need {shape}.")
    allowed = given.astype(np.bool_)
    if not np.array_equal(allowed, given):
        raise DeclarationError(f"{name} says what is allowed: True or False, nothing else.")
    return allowed


class PositionLoss(TaskLoss):
    """The loss by position: ``sum_t costs[truth_t, y_t]``, by default the number of wrong positions."""

    def __init__(self, n_states: int, costs: npt.ArrayLike | None = None, normalize: bool = False) -> None:
        self.n_states = n_states
        self.normalize = normalize
        unit = 1.0 - np.eye(n_states)
        given = unit if costs is None else np.array(converted("The costs of a loss", costs))
        if given.shape not in ((n_states,), (n_states, n_states)):
            raise DeclarationError(f"The costs of a loss over {n_states} states cannot have shape {given.shape}.")
        self.costs: FloatArray = given if given.ndim == 2 else given[:, None] * unit
        if not np.isfinite(self.costs).all() or (self.costs < 0).any() or self.costs.diagonal().any():
            raise DeclarationError("Costs are finite, non-negative, and zero on the diagonal.")

    def table(self, truth: IntArray, ptr: IntArray) -> FloatArray:
        """The loss of every state at every position of stacked true sequences; sequence i is ``ptr[i]:ptr[i + 1]``."""
        table: FloatArray = self.costs.take(truth, axis=0)  # a third of the time of an index
        if not self.normalize:
            return table
        largest = segment_sums(self.costs.max(axis=1)[truth], ptr)
        return np.asarray(table / np.repeat(np.where(largest > 0, largest, 1.0), np.diff(ptr))[:, None])

    def _states(self, label: npt.ArrayLike) -> IntArray:
        table = floats("The label", label)
        if not table.size or table.size % self.n_states:
            raise DeclarationError(f"A label over {self.n_states} states cannot have {table.size} entries.")
        return np.asarray(table.reshape(-1, self.n_states).argmax(axis=1), dtype=np.int64)

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        states = self._states(truth)
        return self.table(states, np.array([0, len(states)])).ravel(), 0.0

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float] | None:
        table = floats("The mean label", mean).reshape(-1, self.n_states)
        largest = self.costs.max(axis=1)
        if self.normalize and np.ptp(largest) > 0.0:
            return None  # the divisor depends on the whole ground truth
        scale = len(table) * largest[0] if self.normalize and largest[0] > 0.0 else 1.0
        return np.asarray(table @ self.costs).ravel() / scale, 0.0

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        a, b = self._states(y), self._states(truth)
        same_length("A label and its ground truth", a, b)
        total, largest = float(self.costs[b, a].sum()), float(self.costs[b].max(axis=1).sum())
        return total / largest if self.normalize and largest > 0 else total

    def counted(self, size: int) -> FloatArray | None:
        # A wrong position is one variable too many and one too few. Other costs than 1 do not count them.
        plain = not self.normalize and np.array_equal(self.costs, 1.0 - np.eye(self.n_states))
        return np.ones(size) if plain else None

    def __repr__(self) -> str:
        return f"PositionLoss({self.n_states}{', normalize=True' if self.normalize else ''})"


class EntityErrors(Hamming):
    """Entities that only one of label and ground truth has: false positives plus false negatives of whole segments.

    An entity is right if its first position, its last and its state are. The variables are segments, so that this is
    a Hamming loss of those that are entities; in the tags of positions it would not be linear.
    """

    def __init__(self, entities: npt.ArrayLike) -> None:
        super().__init__()
        self.entities = np.array(entities, dtype=np.bool_).ravel()
        if not self.entities.any():
            raise DeclarationError("No state is an entity.")

    def _weights(self, size: int) -> FloatArray:
        n_segments, rest = divmod(size, len(self.entities))
        if rest or not size:
            raise DeclarationError(f"A label over {len(self.entities)} states cannot have {size} entries.")
        return np.tile(self.entities.astype(np.float64), n_segments)


def position_loss(loss: Any, n_states: int) -> TaskLoss:
    """The loss that a user gave as ``loss=``."""
    if loss is None or (isinstance(loss, str) and loss == "hamming"):
        return PositionLoss(n_states)
    if isinstance(loss, str):
        if loss != "normalized":
            raise DeclarationError(f"loss must be 'hamming', 'normalized', costs or a TaskLoss, got {loss!r}.")
        return PositionLoss(n_states, normalize=True)
    if type(loss) is Hamming:
        # On one-hot rows a wrong position is two wrong variables, but counts once.
        return PositionLoss(n_states, loss.weights, loss.normalize)
    return loss if isinstance(loss, TaskLoss) else PositionLoss(n_states, loss)


def position_losses(task: PositionLoss, states: IntArray, ptr: IntArray) -> LossBatch:
    """Return the losses of true sequences of states, stacked, by position and state."""
    none = np.zeros(len(ptr) - 1)
    if task.normalize:
        return LossBatch(task.table(states, ptr), none, ptr)
    return LossBatch(None, none, ptr, task.costs, states)


def n_positions(x: Any) -> int:
    """The length of a sequence given as a (T, d) matrix of features."""
    shape = x.shape if hasattr(x, "shape") else numeric("A sequence", x).shape
    if len(shape) != 2:
        raise DeclarationError(f"A sequence is a (T, d) matrix with a feature row per position, got shape {shape}.")
    if not shape[0]:
        raise DeclarationError("A sequence needs at least one position; this one is empty.")
    return int(shape[0])


def check_sequences(X: Any) -> IntArray:
    """The lengths of a data set's sequences."""
    if is_matrix(X):
        raise DeclarationError(
            f"A data set of sequences is a list of (T, d) matrices, got one matrix of shape {X.shape}; "
            "wrap a single sequence as [x]."
        )
    lengths = np.empty(check_data_set(X), dtype=np.int64)
    for i, x in enumerate(X):
        try:
            lengths[i] = n_positions(x)
        except DeclarationError as error:
            raise DeclarationError(f"Example {marked(i)}: {error}") from None
    return lengths


class SequenceModel(SlotModel):
    """A model whose inputs are (T, d) matrices and whose labels follow rules of succession."""

    _key_is_proved = True

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

    def _position_map(self, data: DataSet, kinds: tuple[int, ...]) -> SlotMap:
        """Return a slot for each position, with a row of `n_states` parts."""
        ptr, S = np.asarray(data.starts[0], dtype=np.int64), self.n_states
        first = np.arange(ptr[-1]) * S
        return SlotMap(ptr, first, first, S, np.diff(ptr).tolist(), kinds, S)

    def _sizes(self, X: Any) -> IntArray:
        # The lengths of a data set's sequences.
        lengths = check_sequences(X)
        for i in np.flatnonzero(lengths > self._longest)[:1]:
            try:
                self.check_length(int(lengths[i]))
            except InfeasibleSpace as error:
                raise InfeasibleSpace(f"Example {marked(i)}: {error}") from None
        return lengths

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
        return _pair_numbers(self.n_states, n_positions(x))

    def forbid(self, pair: FloatArray, first: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return scores of transitions (S, S) and of first states, -inf for what the rules forbid."""
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
        forbidden = int((~self.rules.transitions).sum())
        return f"{self.n_states} states{names}{more}" + (f"; {forbidden} forbidden transitions" if forbidden else "")


@lru_cache(maxsize=256)
def _pair_numbers(n_states: int, length: int) -> npt.NDArray[np.intp]:
    """Return the number of the pair of states for each transition variable (do not write to it)."""
    return np.tile(np.arange(n_states**2), length - 1)

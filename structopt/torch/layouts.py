"""What scores look like, structure by structure: one small `Layout` for each, and `Blocks` for every other space.

What depends on the structure is only which tensors are expected, which of their entries the mask leaves, and what the
size of an example is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from structopt._jit import IntArray
from structopt.algorithms import arborescence as trees
from structopt.algorithms.chain.viterbi import marginals_batch
from structopt.checks import sequence, shown
from structopt.errors import DeclarationError
from structopt.features import Linear, Shared, Table, Term, Tied
from structopt.model import Model
from structopt.space.compiled import FloatArray
from structopt.structures import Arborescence, Assignment, Chain, LabelledArborescence, Ranking
from structopt.torch.centring import FixedSums, centred, centred_for_all, centred_groups, is_large
from structopt.torch.checks import by_name, check_names, lengths_of, mask_tensor, numbers, score_tensor, told
from structopt.torch.scores import Arrangement, Group, Part, Plan, ScoredBatch, array_of, remember

__all__ = ["Layout", "layout_of"]


class Layout(ABC):
    """What scores of a structure look like.

    Parameters
    ----------
    model : Model
        It gets oracles of its own.
    """

    #: Whether examples may be shorter than the longest of a batch.
    has_padding = True

    def __init__(self, model: Model) -> None:
        self.model = model._private_twin()
        self._pointwise: dict[tuple[str, ...], Model] = {}
        self._batches: dict[Hashable, ScoredBatch] = {}
        self._plans: dict[Hashable, tuple[Plan, list[int]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": {}, "_plans": {}}  # made anew where they are needed

    def arrange(self, scores: Any, mask: Any = None, inputs: Any = None, *, points: bool = False) -> Arrangement:
        """Scores, checked, as an `Arrangement`; with `points`, one whose labels are points of the space."""
        given = None if points or inputs is not None else _tensors(scores)
        if given is None:
            return self._arrange(scores, mask, inputs, points)
        key = self._signature(scores, given, mask)
        known = None if key is None else self._plans.get(key)
        found = None if known is None else known[0].arranged(given, known[1])
        if found is not None:
            return found
        # For the first time; or some score is large, or refused.
        found = self._arrange(scores, mask, inputs, points)
        places = _places_among(found.sources, given) if key is not None and known is None and found.native else None
        if places is not None:
            remember(self._plans, key, (found.plan, places))
        return found

    def _signature(self, scores: Any, given: Sequence[Tensor], mask: Any) -> Hashable:
        """All that `_arrange` looks at besides the scores themselves; None where it is not known."""
        model, masked = self.model, None if mask is None else _mask_key(mask)
        if masked is NotImplemented:
            return None
        names = tuple(scores) if type(scores) is dict else type(scores) in (tuple, list)
        tensors = [(tensor.shape, tensor.dtype, tensor.device) for tensor in given]
        # A plan keeps the model and its terms, so that no other ones get their numbers.
        terms = tuple(map(id, model.features.values()))
        return (id(model), terms, model._solves_itself, model.integral, names, masked, *tensors)

    @abstractmethod
    def _arrange(self, scores: Any, mask: Any, inputs: Any, points: bool) -> Arrangement:
        """`arrange`, whatever the batches before."""

    def labels(self, Y: Any, arrangement: Arrangement) -> Any:
        """Ground truths in the model's form: those of a padded tensor without their padding, tensors as arrays."""
        if isinstance(Y, list | tuple) and any(isinstance(y, Tensor) for y in Y):
            form = self._label_form()[0] or _own_numbers
            return [form(array_of(y)) if isinstance(y, Tensor) else y for y in Y]
        if not isinstance(Y, Tensor):
            return Y
        rows = arrangement.plan.label_rows
        # A copy: the backward pass needs the labels of the forward pass, whatever becomes of the tensor.
        return np.array(array_of(Y)) if rows is None else rows.cut(Y, *self._label_form())

    def _label_form(self) -> tuple[Callable[[Any], Any] | None, tuple[int, ...]]:
        """From the numbers of a label to its names, if these are not the numbers; and what a row of it looks like."""
        return None, ()

    def sums(self, arrangement: Arrangement, group: Group, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log-partition functions and marginals of a group's examples, for the rows of `C`."""
        oracle = arrangement.oracle(group)
        try:
            return oracle.sums(C)
        except DeclarationError as error:
            raise DeclarationError(f"examples {numbers(group.examples)}: {error}") from None

    def table_sums(
        self, arrangement: Arrangement, tables: Sequence[FloatArray]
    ) -> tuple[FloatArray, list[FloatArray]] | None:
        """The same from the tables of the whole batch, where the structure has a faster way; marginals are tables."""
        return None

    def covariance_products(self, arrangement: Arrangement, group: Group, C: FloatArray, V: FloatArray) -> FloatArray:
        """The derivative of the marginals of `sums` along the rows of `V`."""
        return arrangement.oracle(group).covariance_products(C, V)

    def sample(
        self, arrangement: Arrangement, group: Group, c: FloatArray, n: int, rng: np.random.Generator
    ) -> FloatArray:
        """Points of one example of a group drawn from ``p(z) ~ exp(c . z)``."""
        return arrangement.oracle(group).sample(c, n, random_state=rng)

    def pointwise(self, names: Sequence[str]) -> Model:
        """The model with a score for every variable of these blocks, in place of its features."""
        key = tuple(names)
        if key not in self._pointwise:
            twin = self.model._private_twin()
            if twin is self.model:
                twin = object.__new__(type(self.model))
                twin.__dict__.update(self.model.__dict__)
                twin._forget()
                twin._spaces = self.model._spaces
            twin.features = {name: Shared() for name in names}
            self._pointwise[key] = twin
        return self._pointwise[key]


class ChainLayout(Layout):
    """``(B, T, S)``, transitions ``(S, S)`` or ``(B, T - 1, S, S)``, and first states ``(S,)`` or ``(B, S)``."""

    model: Chain

    def _arrange(self, scores: Any, mask: Any, inputs: Any, points: bool) -> Arrangement:
        model, S = self.model, self.model.n_states
        names = ["y", "transition"] + (["initial"] if model.initial_weights else [])
        given = by_name(scores, names, model)
        unary = score_tensor("y", given, (None, None, S))
        B, T = unary.shape[:2]
        lengths, keep = lengths_of(mask, B, T, "positions")
        pair = score_tensor("transition", given, (S, S), (B, T - 1, S, S), like=unary)
        first = score_tensor("initial", given, (S,), (B, S), like=unary) if model.initial_weights else None
        offsets: list[Tensor] = []
        unary = centred(unary, (2,), offsets, keep)
        if pair.ndim == 4:
            pair = centred(pair, (2, 3), offsets, None if keep is None else keep[:, 1:])
        elif T > 1:
            pair = centred_for_all(pair, ~model.rules.transitions, lengths - 1, offsets)
        if first is not None and first.ndim == 1:
            first = centred_for_all(first, ~model.rules.initial, np.ones_like(lengths), offsets)
        elif first is not None:
            first = centred(first, (1,), offsets, unused=~model.rules.initial)
        native = not points and pair.ndim == 2 and (first is None or first.ndim == 1) and model._solves_itself
        blocks = {"y": unary, "transition": pair if native else pair.expand(B, T - 1, S, S)}
        if first is not None:
            blocks["initial"] = first if native else first.expand(B, S)
        if not native:  # what has no scores is left out, of the norm of SparseMAP as well
            blocks = {name: values for name, values in blocks.items() if name in given}
        keeps = {"y": keep, "transition": None if keep is None else keep[:, 1:]}
        entries = {"y": lengths * S, "transition": (lengths - 1) * S * S, "initial": np.full(B, S)}
        parts = [Part(name, values.shape, keeps.get(name), entries[name]) for name, values in blocks.items()]

        def make_input(i: int) -> FloatArray:
            return np.broadcast_to(np.float64(0.0), (int(lengths[i]), 1))

        model.check_length(int(lengths.max()))
        used = model if native else self.pointwise(list(blocks))
        restore = _restorer(scores, list(blocks))
        one_row = range(1, len(parts)) if native else ()
        plan = Plan(used, parts, lengths, make_input, native, restore, one_row, self._batches, lengths)
        return Arrangement(plan, list(blocks.values()), offsets)

    def table_sums(
        self, arrangement: Arrangement, tables: Sequence[FloatArray]
    ) -> tuple[FloatArray, list[FloatArray]] | None:
        # Where all steps have the same scores, sums are five times as fast.
        if not arrangement.native:
            return None
        first = tables[2][0] if self.model.initial_weights else None
        steps, start = self.model.forbid(tables[1][0], first)
        ptr = np.concatenate([[0], np.cumsum(_sizes(arrangement))])
        log_z, node, pairs = marginals_batch(tables[0], ptr, steps, start)
        found = [node, pairs.reshape(len(log_z), -1)]
        return log_z, [*found, node[ptr[:-1]]] if self.model.initial_weights else found

    def _label_form(self) -> tuple[Callable[[Any], Any] | None, tuple[int, ...]]:
        names = self.model.alphabet.names

        def form(row: npt.NDArray[Any]) -> list[Any]:
            return [_name(names, k) for k in row.tolist()]

        return None if self.model.alphabet.numbered else form, ()


class TreeLayout(Layout):
    """``(B, n + 1, n + 1)``, row = head, 0 = root; the mask is over tokens ``(B, n)`` or nodes ``(B, n + 1)``.

    Where arcs have one of R relations, ``(B, n + 1, n + 1, R)``; a tensor of labels is then ``(B, n, 2)``.
    """

    model: Arborescence

    @property
    def _last(self) -> tuple[int, ...]:
        """The axis of the relations, if any."""
        return (self.model.n_labels,) if isinstance(self.model, LabelledArborescence) else ()

    def _arrange(self, scores: Any, mask: Any, inputs: Any, points: bool) -> Arrangement:
        given = by_name(scores, ["arc"], self.model)
        arcs = score_tensor("arc", given, (None, None, None, *self._last))
        B, nodes = arcs.shape[:2]
        if arcs.shape[2] != nodes or nodes < 2:
            names = ", ".join(["B", "n + 1", "n + 1", *map(str, self._last)])
            raise DeclarationError(f"Scores of arcs have shape ({names}), head by token; got {told(arcs)}.")
        mask = None if mask is None else mask_tensor(mask)
        if mask is not None and mask.shape == (B, nodes - 1):
            mask = torch.cat([torch.ones(B, 1, dtype=torch.bool), mask.cpu()], dim=1)
        sizes, keep = lengths_of(mask, B, nodes, "nodes, the root among them", least=2)
        none = np.eye(nodes, dtype=np.bool_)  # no arcs: they may hold -inf
        none[:, 0] = True
        none = none.reshape(nodes, nodes, *[1] * len(self._last))
        both = None if keep is None else keep[:, :, None] & keep[:, None, :]
        offsets: list[Tensor] = []
        arcs = centred(arcs, (1, 3) if self._last else (1,), offsets, both, none)
        native = not points and self.model._solves_itself
        if not native:
            arcs = arcs.masked_fill(torch.from_numpy(none).to(arcs.device), 0.0)
        plan = Plan(
            self.model if native else self.pointwise(["arc"]),
            [Part("arc", arcs.shape, both, sizes**2 * math.prod(self._last), none)],
            sizes,
            lambda i: np.broadcast_to(np.float64(0.0), (int(sizes[i]), int(sizes[i]), 1)),
            native,
            _restorer(scores, ["arc"]),
            known=self._batches,
            label_lengths=sizes - 1,
        )
        return Arrangement(plan, [arcs], offsets)

    def _label_form(self) -> tuple[Callable[[Any], Any] | None, tuple[int, ...]]:
        if not self._last:
            return None, ()
        names = cast("LabelledArborescence", self.model).labels
        if isinstance(names, int):
            return None, (2,)

        def form(row: npt.NDArray[Any]) -> list[Any]:
            return [(h, _name(cast("list[Any]", names), k)) for h, k in row.tolist()]

        return form, (2,)

    def sums(self, arrangement: Arrangement, group: Group, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        scores, shares = self._summed(arrangement, group, C)
        try:
            log_z, arcs = trees.sums(scores, self.model.single_root, self.model.projective)
        except DeclarationError as error:
            raise DeclarationError(f"examples {numbers(group.examples)}: {error}") from None
        return log_z, _filled(C.shape, arcs[..., None] * shares)

    def _summed(self, arrangement: Arrangement, group: Group, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores of arcs, their relations summed over, and the share of each relation in its arc."""
        nodes, R = int(_sizes(arrangement)[group.examples[0]]), math.prod(self._last)
        scores = C[:, : nodes * nodes * R].reshape(-1, nodes, nodes, R)
        top = scores.max(axis=3)
        weights = np.exp(scores - top[..., None])
        total = weights.sum(axis=3)
        return top + np.log(total), weights / total[..., None]

    def covariance_products(self, arrangement: Arrangement, group: Group, C: FloatArray, V: FloatArray) -> FloatArray:
        rules = self.model.single_root, self.model.projective
        scores, shares = self._summed(arrangement, group, C)
        vectors = V[:, : shares[0].size].reshape(shares.shape)
        by_arc = (shares * vectors).sum(axis=3)
        arcs, change = trees.marginals_and_change(scores, by_arc, *rules)
        # A product rule: of the arcs' marginals, and of the shares of their relations.
        found = shares * (change[..., None] + arcs[..., None] * (vectors - by_arc[..., None]))
        return _filled(C.shape, found)

    def sample(
        self, arrangement: Arrangement, group: Group, c: FloatArray, n: int, rng: np.random.Generator
    ) -> FloatArray:
        model, nodes, R = self.model, int(_sizes(arrangement)[group.examples[0]]), math.prod(self._last)
        scores = c[: nodes * nodes * R].reshape(nodes, nodes, R)
        found = trees.sample(np.logaddexp.reduce(scores, axis=2), n, rng, model.single_root, model.projective)
        if not isinstance(model, LabelledArborescence):
            return np.array([model._point(heads) for heads in found]).reshape(n, -1)
        own = scores[found, np.arange(1, nodes)]  # (n, tokens, R): the largest after Gumbel noise is a draw
        relations = (own + rng.gumbel(size=own.shape)).argmax(axis=2)
        return np.array([model._point(codes) for codes in found * R + relations]).reshape(n, -1)


class MatchingLayout(Layout):
    """``(B, n, m)``; the mask is over rows ``(B, n)``, over rows and columns where these are the same, or a pair."""

    model: Assignment

    def _arrange(self, scores: Any, mask: Any, inputs: Any, points: bool) -> Arrangement:
        given = by_name(scores, ["y"], self.model)
        table = score_tensor("y", given, (None, None, None))
        B, n, m = table.shape
        row_mask, column_mask = mask if isinstance(mask, tuple) else (mask, mask if n == m else None)
        rows, keep_rows = lengths_of(row_mask, B, n, "rows")
        columns, keep_columns = lengths_of(column_mask, B, m, "columns")
        sizes = np.column_stack([rows, columns])
        for shape in dict.fromkeys(zip(rows.tolist(), columns.tolist(), strict=True)):
            self.model._shape(shape)
        both = None
        if keep_rows is not None or keep_columns is not None:
            full = (torch.ones(B, size, dtype=torch.bool, device=table.device) for size in (n, m))
            ones_rows, ones_columns = full
            both = (ones_rows if keep_rows is None else keep_rows)[:, :, None]
            both = both & (ones_columns if keep_columns is None else keep_columns)[:, None, :]
        offsets: list[Tensor] = []
        if not self.model.unmatched:
            table = centred(table, (2,), offsets, both)
        native = not points and self.model._solves_itself
        plan = Plan(
            self.model if native else self.pointwise(["y"]),
            [Part("y", table.shape, both, rows * columns)],
            sizes,
            lambda i: np.broadcast_to(np.float64(0.0), (int(rows[i]), int(columns[i]), 1)),
            native,
            _restorer(scores, ["y"]),
            known=self._batches,
            label_lengths=rows,
        )
        return Arrangement(plan, [table], offsets)


class RankingLayout(Layout):
    """``(B, n)``: a score for each document.

    As points, document j at position i scores ``c_i f_j``; what a layer returns for a document is the mean of the
    position weight that it gets.
    """

    model: Ranking

    def _arrange(self, scores: Any, mask: Any, inputs: Any, points: bool) -> Arrangement:
        given = by_name(scores, ["place"], self.model)
        f = score_tensor("place", given, (None, None))
        B, n = f.shape
        sizes, keep = lengths_of(mask, B, n, "documents")
        native = not points and self.model._solves_itself

        def make_input(i: int) -> FloatArray:
            return np.broadcast_to(np.float64(0.0), (int(sizes[i]), 1))

        if native:
            parts, restore = [Part("place", f.shape, keep, sizes)], _restorer(f, ["place"])
            plan = Plan(self.model, parts, sizes, make_input, True, restore, (), self._batches, sizes)
            return Arrangement(plan, [f])
        c = np.zeros((B, n))
        for k in np.unique(sizes).tolist():
            c[sizes == k, :k] = self.model.term.weights(k)
        weights = torch.from_numpy(c).to(device=f.device, dtype=f.dtype)[:, :, None]
        both = None if keep is None else keep[:, :, None] & keep[:, None, :]
        places = weights * (f if keep is None else f.masked_fill(~keep, 0.0))[:, None, :]
        plan = Plan(
            self.pointwise(["place"]),
            [Part("place", places.shape, both, sizes**2)],
            sizes,
            make_input,
            False,
            lambda padded: (weights * padded[0]).sum(dim=1),
            label_lengths=sizes,
        )
        return Arrangement(plan, [places])


class Blocks(Layout):
    """A dict of block name to ``(B, *block)``, or ``(*block)`` where all examples have the same scores.

    One tensor stands for the first block of the model's features, a tuple for them in their order. Where the space
    depends on the input, a block has a list of B tensors, and `inputs` are the model's inputs.
    """

    has_padding = False

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._fixed_sums: dict[str, FixedSums] = {}

    def _arrange(self, scores: Any, mask: Any, inputs: Any, points: bool) -> Arrangement:
        if mask is not None:
            raise DeclarationError("A mask is for sequences, trees, matchings and rankings; this space has no padding.")
        names = list(self.model.features)
        if isinstance(scores, Mapping):
            names = [*scores]
        given = by_name(scores, names, self.model)
        return self._one_space(scores, given, points) if self.model.fixed else self._by_input(scores, given, inputs)

    def _one_space(self, scores: Any, given: dict[str, Any], points: bool) -> Arrangement:
        space = self.model.space()
        check_names(given, space.block_names)
        shaped = {}
        offsets: list[Tensor] = []
        for name in given:
            shape = space[name].shape
            values = score_tensor(name, given, (None, *shape), shape)
            if is_large(values.detach()):
                if name not in self._fixed_sums:
                    self._fixed_sums[name] = FixedSums.of(space, name)
                values = centred_groups(values, self._fixed_sums[name], offsets)
            shaped[name] = values
        B = max((len(t) for name, t in shaped.items() if t.ndim > len(space[name].shape)), default=0)
        if not B:
            raise DeclarationError("Scores need a batch axis: at least one block has shape (B, *block).")
        missing = [name for name in self.model.features if name not in shaped]
        like = next(iter(shaped.values()))
        terms = self.model.features
        native = not points and set(shaped) <= set(terms) and all(map(_is_identity, terms.values()))
        names = list(terms) if native else list(shaped)
        parts, sources, one_row = list[Part](), list[Tensor](), list[int]()
        for t, name in enumerate(names):
            block = space[name]
            if name in missing:
                values = torch.zeros(B, *block.shape, dtype=like.dtype, device=like.device)
            else:
                values = shaped[name]
                if values.ndim > len(block.shape) and len(values) != B:
                    raise DeclarationError(f"The scores of block {name!r} have {len(values)} examples, others {B}.")
                if values.ndim == len(block.shape):
                    if native and isinstance(terms[name], Tied):
                        one_row.append(t)  # one row for all examples stays one row
                    else:
                        values = values.expand(B, *block.shape)
            parts.append(Part(name, values.shape, None, np.full(B, block.size)))
            sources.append(values)
        kept = [t for t, name in enumerate(names) if name in shaped]
        whole = _restorer(scores, [names[t] for t in kept])

        def restore(padded: list[Tensor]) -> Any:
            return whole([padded[t] for t in kept])

        model = self.model if native else self.pointwise(names)
        plan = Plan(model, parts, None, lambda i: None, native, restore, one_row, self._batches)
        return Arrangement(plan, sources, offsets)

    def _by_input(self, scores: Any, given: dict[str, Any], inputs: Any) -> Arrangement:
        if inputs is None:
            raise DeclarationError("The label space depends on the input: give the model's inputs as inputs=[x, ...].")
        inputs = sequence("inputs", inputs)
        B = len(inputs)
        if not B:
            raise DeclarationError("The batch has no examples.")
        spaces = [self.model.space(x) for x in inputs]
        parts, sources = list[Part](), list[Tensor]()
        for name, tensors in given.items():
            tensors = tensors if isinstance(tensors, Tensor) else sequence(f"The scores of block {name!r}", tensors)
            if isinstance(tensors, Tensor) or len(tensors) != B:
                raise DeclarationError(
                    f"The label space depends on the input: the scores of block {name!r} are a list of {B} tensors, "
                    f"one for each input; got {told(tensors)}."
                )
            flat, entries = [], np.empty(B, dtype=np.int64)
            for i, (values, space) in enumerate(zip(tensors, spaces, strict=True)):
                check_names([name], space.block_names)
                try:
                    flat.append(score_tensor(name, {name: values}, space[name].shape).reshape(-1))
                except DeclarationError as error:
                    raise DeclarationError(f"Example {i}: {error}") from None
                entries[i] = space[name].size
            sources.append(torch.cat(flat))
            parts.append(Part(name, sources[-1].shape, None, entries))
        whole = _restorer(scores, list(given))

        def restore(padded: list[Tensor]) -> Any:
            found = []
            for part, values in zip(parts, padded, strict=True):
                pieces = values.split(part.entries.tolist())
                found.append([p.reshape(s[part.name].shape) for p, s in zip(pieces, spaces, strict=True)])
            return whole(found)

        plan = Plan(self.pointwise(list(given)), parts, None, lambda i: inputs[i], False, restore)
        return Arrangement(plan, sources)


_LAYOUTS: dict[type[Model], type[Layout]] = {
    Chain: ChainLayout,
    Arborescence: TreeLayout,
    Assignment: MatchingLayout,
    Ranking: RankingLayout,
}


def layout_of(model: Model) -> Layout:
    """The layout of a model's scores.

    Parameters
    ----------
    model : Model

    Returns
    -------
    Layout
    """
    if not isinstance(model, Model):
        raise DeclarationError(f"model must be a structopt.Model, got {shown(model)}.")
    for family, layout in _LAYOUTS.items():
        if isinstance(model, family):
            return layout(model)
    return Blocks(model)


def _is_identity(term: Term) -> bool:
    """Whether the table of a term holds the scores of its block's variables themselves."""
    if isinstance(term, Tied):
        return term._index is None
    if isinstance(term, Linear):
        return term.factor is None
    return isinstance(term, Table | Shared)


def _sizes(arrangement: Arrangement) -> IntArray:
    sizes = arrangement.batch.sizes
    assert sizes is not None
    return sizes


def _name(names: Sequence[Any], k: Any) -> Any:
    """The name of a number; one without a name stays, to be refused."""
    return names[k] if isinstance(k, int) and 0 <= k < len(names) else k


def _own_numbers(label: npt.NDArray[Any]) -> Any:
    """A copy of a label that is an array; one that is a single number as that."""
    return np.array(label)[()]


def _filled(shape: tuple[int, ...], arcs: FloatArray) -> FloatArray:
    """Numbers of the arcs as points; of the flow, which has no scores, nobody asks."""
    points = np.zeros(shape)
    points[:, : arcs[0].size] = arcs.reshape(len(arcs), -1)
    return points


def _restorer(scores: Any, names: Sequence[Hashable]) -> Callable[[Sequence[Any]], Any]:
    """Gives results by block back in the form of the scores: one tensor, a dict or a tuple."""
    if isinstance(scores, Tensor):
        return lambda values: values[0]
    if isinstance(scores, Mapping):
        return lambda values: dict(zip(names, values, strict=True))
    return tuple


# ---- what a plan depends on ----------------------------------------------------------------------


def _tensors(scores: Any) -> list[Tensor] | None:
    """The tensors of scores in their order; None where they are something else."""
    kind = type(scores)
    if kind is dict:
        found = list(scores.values())
    elif kind is tuple or kind is list:
        found = list(scores)
    else:
        return [scores] if isinstance(scores, Tensor) else None
    for tensor in found:
        if not isinstance(tensor, Tensor):
            return None
    return found


def _mask_key(mask: Any) -> Any:
    """The contents of a mask; NotImplemented for what is no tensor, which is looked at every time."""
    if isinstance(mask, tuple):
        keys = tuple(None if part is None else _mask_key(part) for part in mask)
        return NotImplemented if NotImplemented in keys else keys
    if not isinstance(mask, Tensor):
        return NotImplemented
    return mask.shape, mask.dtype, mask.device, array_of(mask).tobytes()


def _places_among(sources: Sequence[Tensor], given: Sequence[Tensor]) -> list[int] | None:
    """Which of the tensors given is each source, -1 for zeros that stand for none; None where one was made of them."""
    numbers = {id(tensor): k for k, tensor in enumerate(given)}
    places = [numbers.get(id(source), -1) for source in sources]
    return places if sorted(k for k in places if k >= 0) == list(range(len(given))) else None

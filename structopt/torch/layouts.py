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
from structopt.checks import shown
from structopt.errors import DeclarationError
from structopt.features import Linear, Scaled, Shared, Table, Term, Tied
from structopt.model import Model
from structopt.model.codec import StackedLabels
from structopt.space.compiled import FloatArray
from structopt.structures import Arborescence, Assignment, Chain, LabelledArborescence, Ranking
from structopt.torch.centring import FixedSums, centred, centred_for_all, centred_groups, is_large
from structopt.torch.checks import by_name, check_names, lengths_of, numbers, score_tensor, told
from structopt.torch.scores import Arrangement, Group, Part, ScoredBatch

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
        self.model = model.private_twin()
        self._pointwise: dict[tuple[str, ...], Model] = {}
        self._batches: dict[Hashable, ScoredBatch] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": {}}  # made anew where they are needed

    @abstractmethod
    def arrange(self, scores: Any, mask: Any = None, inputs: Any = None, *, points: bool = False) -> Arrangement:
        """Scores, checked, as an `Arrangement`; with `points`, one whose labels are points of the space."""

    def labels(self, Y: Any, arrangement: Arrangement) -> Any:
        """Ground truths in the model's form: those of a padded tensor without their padding."""
        return Y.detach().cpu().numpy() if isinstance(Y, Tensor) else Y

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
            twin = self.model.private_twin()
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

    def arrange(self, scores: Any, mask: Any = None, inputs: Any = None, *, points: bool = False) -> Arrangement:
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
        native = not points and pair.ndim == 2 and (first is None or first.ndim == 1) and model.solves_itself
        tables = {1: pair, 2: first} if native and first is not None else {1: pair} if native else {}
        steps = pair if native else pair.expand(B, T - 1, S, S)
        parts = [
            Part("y", unary, keep, lengths * S),
            Part("transition", steps, None if keep is None else keep[:, 1:], (lengths - 1) * S * S),
        ]
        if first is not None:
            parts.append(Part("initial", first if native else first.expand(B, S), None, np.full(B, S)))
        if not native:  # what has no scores is left out, of the norm of SparseMAP as well
            parts = [part for part in parts if part.name in given]

        def make_input(i: int) -> FloatArray:
            return np.broadcast_to(np.float64(0.0), (int(lengths[i]), 1))

        def restore(padded: list[Tensor]) -> Any:
            return padded[0] if isinstance(scores, Tensor) else _like(scores, padded, [part.name for part in parts])

        model.check_length(int(lengths.max()))
        used = model if native else self.pointwise([part.name for part in parts])
        return Arrangement(used, parts, lengths, make_input, native, restore, tables, offsets, self._batches)

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

    def labels(self, Y: Any, arrangement: Arrangement) -> Any:
        if not isinstance(Y, Tensor):
            return Y
        alphabet, form = self.model.alphabet, None
        if not alphabet.numbered:

            def form(row: npt.NDArray[Any]) -> list[Any]:
                return [_name(alphabet.names, k) for k in row.tolist()]

        return _cut(Y, arrangement, _sizes(arrangement), form)


class TreeLayout(Layout):
    """``(B, n + 1, n + 1)``, row = head, 0 = root; the mask is over tokens ``(B, n)`` or nodes ``(B, n + 1)``.

    Where arcs have one of R relations, ``(B, n + 1, n + 1, R)``; a tensor of labels is then ``(B, n, 2)``.
    """

    model: Arborescence

    @property
    def _last(self) -> tuple[int, ...]:
        """The axis of the relations, if any."""
        return (self.model.n_labels,) if isinstance(self.model, LabelledArborescence) else ()

    def arrange(self, scores: Any, mask: Any = None, inputs: Any = None, *, points: bool = False) -> Arrangement:
        given = by_name(scores, ["arc"], self.model)
        arcs = score_tensor("arc", given, (None, None, None, *self._last))
        B, nodes = arcs.shape[:2]
        if arcs.shape[2] != nodes or nodes < 2:
            names = ", ".join(["B", "n + 1", "n + 1", *map(str, self._last)])
            raise DeclarationError(f"Scores of arcs have shape ({names}), head by token; got {told(arcs)}.")
        if mask is not None and getattr(mask, "shape", None) == (B, nodes - 1):
            mask = torch.cat([torch.ones(B, 1, dtype=torch.bool), torch.as_tensor(mask).cpu()], dim=1)
        sizes, keep = lengths_of(mask, B, nodes, "nodes, the root among them", least=2)
        none = np.eye(nodes, dtype=np.bool_)  # no arcs: they may hold -inf
        none[:, 0] = True
        none = none.reshape(nodes, nodes, *[1] * len(self._last))
        both = None if keep is None else keep[:, :, None] & keep[:, None, :]
        offsets: list[Tensor] = []
        arcs = centred(arcs, (1, 3) if self._last else (1,), offsets, both, none)
        native = not points and self.model.solves_itself
        if not native:
            arcs = arcs.masked_fill(torch.from_numpy(none).to(arcs.device), 0.0)
        return Arrangement(
            self.model if native else self.pointwise(["arc"]),
            [Part("arc", arcs, both, sizes**2 * math.prod(self._last), none)],
            sizes,
            lambda i: np.broadcast_to(np.float64(0.0), (int(sizes[i]), int(sizes[i]), 1)),
            native,
            lambda padded: padded[0] if isinstance(scores, Tensor) else _like(scores, padded, ["arc"]),
            offsets=offsets,
            known=self._batches,
        )

    def labels(self, Y: Any, arrangement: Arrangement) -> Any:
        if not isinstance(Y, Tensor):
            return Y
        tokens, names = _sizes(arrangement) - 1, getattr(self.model, "labels", None)
        if not self._last:
            return _cut(Y, arrangement, tokens)
        form = None
        if not isinstance(names, int):

            def form(row: npt.NDArray[Any]) -> list[Any]:
                return [(h, _name(cast("list[Any]", names), k)) for h, k in row.tolist()]

        return _cut(Y, arrangement, tokens, form, (2,))

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
        arcs = trees.sums(scores, *rules)[1]
        change = trees.covariance_products(scores, by_arc, *rules)
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
            return np.array([model.point(heads) for heads in found]).reshape(n, -1)
        own = scores[found, np.arange(1, nodes)]  # (n, tokens, R): the largest after Gumbel noise is a draw
        relations = (own + rng.gumbel(size=own.shape)).argmax(axis=2)
        return np.array([model.labelled_point(codes) for codes in found * R + relations]).reshape(n, -1)


class MatchingLayout(Layout):
    """``(B, n, m)``; the mask is over rows ``(B, n)``, over rows and columns where these are the same, or a pair."""

    model: Assignment

    def arrange(self, scores: Any, mask: Any = None, inputs: Any = None, *, points: bool = False) -> Arrangement:
        given = by_name(scores, ["y"], self.model)
        table = score_tensor("y", given, (None, None, None))
        B, n, m = table.shape
        row_mask, column_mask = mask if isinstance(mask, tuple) else (mask, mask if n == m else None)
        rows, keep_rows = lengths_of(row_mask, B, n, "rows")
        columns, keep_columns = lengths_of(column_mask, B, m, "columns")
        sizes = np.column_stack([rows, columns])
        for shape in dict.fromkeys(zip(rows.tolist(), columns.tolist(), strict=True)):
            self.model.shape(shape)
        both = None
        if keep_rows is not None or keep_columns is not None:
            full = (torch.ones(B, size, dtype=torch.bool, device=table.device) for size in (n, m))
            ones_rows, ones_columns = full
            both = (ones_rows if keep_rows is None else keep_rows)[:, :, None]
            both = both & (ones_columns if keep_columns is None else keep_columns)[:, None, :]
        offsets: list[Tensor] = []
        if not self.model.unmatched:
            table = centred(table, (2,), offsets, both)
        native = not points and self.model.solves_itself
        return Arrangement(
            self.model if native else self.pointwise(["y"]),
            [Part("y", table, both, rows * columns)],
            sizes,
            lambda i: np.broadcast_to(np.float64(0.0), (int(rows[i]), int(columns[i]), 1)),
            native,
            lambda padded: padded[0] if isinstance(scores, Tensor) else _like(scores, padded, ["y"]),
            offsets=offsets,
            known=self._batches,
        )

    def labels(self, Y: Any, arrangement: Arrangement) -> Any:
        return _cut(Y, arrangement, _sizes(arrangement)[:, 0]) if isinstance(Y, Tensor) else Y


class RankingLayout(Layout):
    """``(B, n)``: a score for each document.

    As points, document j at position i scores ``c_i f_j``; what a layer returns for a document is the mean of the
    position weight that it gets.
    """

    model: Ranking

    def arrange(self, scores: Any, mask: Any = None, inputs: Any = None, *, points: bool = False) -> Arrangement:
        given = by_name(scores, ["place"], self.model)
        f = score_tensor("place", given, (None, None))
        B, n = f.shape
        sizes, keep = lengths_of(mask, B, n, "documents")
        native = not points and self.model.solves_itself

        def make_input(i: int) -> FloatArray:
            return np.broadcast_to(np.float64(0.0), (int(sizes[i]), 1))

        if native:
            parts = [Part("place", f, keep, sizes)]
            return Arrangement(
                self.model, parts, sizes, make_input, True, lambda padded: padded[0], known=self._batches
            )
        c = np.zeros((B, n))
        for k in np.unique(sizes).tolist():
            c[sizes == k, :k] = self.model.term.weights(k)
        weights = torch.from_numpy(c).to(device=f.device, dtype=f.dtype)[:, :, None]
        both = None if keep is None else keep[:, :, None] & keep[:, None, :]
        places = weights * (f if keep is None else f.masked_fill(~keep, 0.0))[:, None, :]
        return Arrangement(
            self.pointwise(["place"]),
            [Part("place", places, both, sizes**2)],
            sizes,
            make_input,
            False,
            lambda padded: (weights * padded[0]).sum(dim=1),
        )

    def labels(self, Y: Any, arrangement: Arrangement) -> Any:
        return _cut(Y, arrangement, _sizes(arrangement)) if isinstance(Y, Tensor) else Y


class Blocks(Layout):
    """A dict of block name to ``(B, *block)``, or ``(*block)`` where all examples have the same scores.

    One tensor stands for the first block of the model's features, a tuple for them in their order. Where the space
    depends on the input, a block has a list of B tensors, and `inputs` are the model's inputs.
    """

    has_padding = False

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._fixed_sums: dict[str, FixedSums] = {}

    def arrange(self, scores: Any, mask: Any = None, inputs: Any = None, *, points: bool = False) -> Arrangement:
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
        parts = []
        for name in names:
            block = space[name]
            if name in missing:
                values = torch.zeros(B, *block.shape, dtype=like.dtype, device=like.device)
            else:
                values = shaped[name]
                if values.ndim == len(block.shape):
                    values = values.expand(B, *block.shape)
                elif len(values) != B:
                    raise DeclarationError(f"The scores of block {name!r} have {len(values)} examples, others {B}.")
            parts.append(Part(name, values, None, np.full(B, block.size)))
        tables = {}
        if native:  # one row for all examples stays one row
            tables = {
                t: shaped[name].reshape(1, -1)
                for t, name in enumerate(names)
                if isinstance(terms[name], Tied) and name in shaped and shaped[name].ndim == len(space[name].shape)
            }
        kept = [name for name in names if name in shaped]

        def restore(padded: list[Tensor]) -> Any:
            found = [values for values, name in zip(padded, names, strict=True) if name in shaped]
            return found[0] if isinstance(scores, Tensor) else _like(scores, found, kept)

        model = self.model if native else self.pointwise(names)
        return Arrangement(model, parts, None, lambda i: None, native, restore, tables, offsets, self._batches)

    def _by_input(self, scores: Any, given: dict[str, Any], inputs: Any) -> Arrangement:
        if inputs is None:
            raise DeclarationError("The label space depends on the input: give the model's inputs as inputs=[x, ...].")
        B = len(inputs)
        spaces = [self.model.space(x) for x in inputs]
        parts = []
        for name, tensors in given.items():
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
            parts.append(Part(name, torch.cat(flat), None, entries))

        def restore(padded: list[Tensor]) -> Any:
            found = []
            for part, values in zip(parts, padded, strict=True):
                pieces = values.split(part.entries.tolist())
                found.append([p.reshape(s[part.name].shape) for p, s in zip(pieces, spaces, strict=True)])
            return _like(scores, found, list(given))

        return Arrangement(self.pointwise(list(given)), parts, None, lambda i: inputs[i], False, restore)


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
    return isinstance(term, Linear | Table | Shared) and not isinstance(term, Scaled)


def _sizes(arrangement: Arrangement) -> IntArray:
    sizes = arrangement.batch.sizes
    assert sizes is not None
    return sizes


def _cut(
    Y: Tensor,
    arrangement: Arrangement,
    lengths: IntArray,
    form: Callable[[Any], Any] | None = None,
    last: tuple[int, ...] = (),
) -> StackedLabels:
    """The rows of a padded tensor of labels, ``(B, n, *last)``, without their padding."""
    longest = int(lengths.max())
    if tuple(Y.shape[2:]) != last or Y.ndim < 2 or len(Y) != arrangement.n or Y.shape[1] < longest:
        names = ", ".join(["B", "n", *map(str, last)])
        raise DeclarationError(
            f"A tensor of labels has shape ({names}) = {(arrangement.n, longest, *last)} here; got {tuple(Y.shape)}."
        )
    rows = Y.detach().cpu().numpy()
    if Y.shape[1] > longest or int(lengths.min()) < longest:
        flat = rows[np.arange(Y.shape[1]) < lengths[:, None]]
    else:
        flat = rows.reshape(-1, *last)
    return StackedLabels(flat, np.concatenate([[0], np.cumsum(lengths)]), form)


def _name(names: Sequence[Any], k: Any) -> Any:
    """The name of a number; one without a name stays, to be refused."""
    return names[k] if isinstance(k, int) and 0 <= k < len(names) else k


def _filled(shape: tuple[int, ...], arcs: FloatArray) -> FloatArray:
    """Numbers of the arcs as points; of the flow, which has no scores, nobody asks."""
    points = np.zeros(shape)
    points[:, : arcs[0].size] = arcs.reshape(len(arcs), -1)
    return points


def _like(scores: Any, values: Sequence[Any], names: Sequence[Hashable]) -> Any:
    """Results in the form of the scores: a dict, or a tuple."""
    return dict(zip(names, values, strict=True)) if isinstance(scores, Mapping) else tuple(values)

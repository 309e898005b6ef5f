"""Score tensors in the shapes that networks have, as the tables and objective coefficients that inference takes.

A network gives padded tensors: ``(B, T, S)`` and a mask. Inference takes, block by block, the scores of all examples
one after the other without padding. An `Arrangement` is that, in both directions: for every block of the label space
the entries of each example, row by row, and gradients of these back in the padded shape. Where labels have the compact
form of a structure, all of it is done in arrays (`Arrangement.arrays`, `Arrangement.gradients`): every node of the
graph would cost as much as a small search. Points are made from tensors of the graph (`Arrangement.groups`). What
depends on the structure is only which tensors are expected, which of their entries the mask leaves, and what the size
of an example is: one small `Layout` for each structure, and `Blocks` for every other space.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, cast

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
from structopt.model.batch import Batch
from structopt.model.codec import PointCodec, StackedLabels
from structopt.model.inference import OracleInference
from structopt.oracle import Oracle
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures import Arborescence, Assignment, Chain, LabelledArborescence, Ranking

__all__ = ["Arrangement", "Group", "Layout", "ScoreTables", "ScoredBatch", "layout_of"]

_FLOATS = (torch.float32, torch.float64)
#: Batches of which a layout remembers what depends on the sizes of the examples alone.
_KNOWN = 8


class Part(NamedTuple):
    """The scores of one block.

    Attributes
    ----------
    name : str
        Of the block.
    values : Tensor
        ``(B, ...)``, padded.
    keep : Tensor or None
        Which of its first axes' entries are no padding, ``(B, ...)``; None where all are.
    entries : ndarray of int, shape (B,)
        Variables of the block in each example's space.
    unused : ndarray of bool or None
        Entries of the axes behind the first that no label has: their scores may be anything, and count as 0.
    """

    name: str
    values: Tensor
    keep: Tensor | None
    entries: IntArray
    unused: npt.NDArray[np.bool_] | None = None

    def flat(self) -> Tensor:
        """The scores of all examples, one after the other, without padding."""
        values = self.values if self.keep is None else self.values[self.keep]
        return values.reshape(-1)

    def padded(self, flat: Tensor) -> Tensor:
        """The way back: numbers of all examples, one after the other, in the shape of the scores; padding is 0."""
        if self.keep is None:
            return flat.reshape(self.values.shape)
        keep = self.keep.reshape(*self.keep.shape, *[1] * (self.values.ndim - self.keep.ndim))
        return torch.zeros(self.values.shape, dtype=flat.dtype).masked_scatter(keep, flat)


class Group(NamedTuple):
    """Examples of one label space, with the objective coefficients of its variables.

    Attributes
    ----------
    examples : ndarray of int
    costs : Tensor
        ``(len(examples), n_variables)``; variables that have no score have 0.
    """

    examples: IntArray
    costs: Tensor


class ScoredBatch(Batch):
    """A batch of a model whose scores come from elsewhere: there are no features, only numbers of rows.

    Parameters
    ----------
    model : Model
    parts : sequence of Part
        In the order of the model's features.
    columns : sequence of int
        Columns of the table of each.
    sizes : ndarray of int or None
        As of `Batch`.
    make_input : callable
        An input of the model's that has the label space of example i.
    native : bool
        Whether labels have the compact form of the structure; otherwise they are points.
    """

    def __init__(
        self,
        model: Model,
        parts: Sequence[Part],
        columns: Sequence[int],
        sizes: IntArray | None,
        make_input: Callable[[int], Any],
        native: bool,
    ) -> None:
        self.model, self.sizes, self._make_input = model, sizes, make_input
        self.n = len(parts[0].entries)
        self.X = range(self.n)
        self.columns = list(columns)
        self.starts, self.rows = [], []
        for part, width, term in zip(parts, columns, model.features.values(), strict=True):
            rows = np.ones(self.n, dtype=np.int64) if isinstance(term, Tied) else part.entries // width
            self.starts.append(np.concatenate([[0], np.cumsum(rows)]))
            self.rows.append(np.broadcast_to(np.float64(0.0), (int(self.starts[-1][-1]), 1)))
        self.n_weights = sum(columns)
        self._point_sizes = None
        self._same_space = None
        self._dense, self._native = False, native
        self.codec = model.batch_codec(self) if native else PointCodec(self)
        self.inference = model.batch_inference(self) if native else OracleInference(self)

    def renewed(self) -> ScoredBatch:
        """A batch of the same sizes: what a search keeps for its examples is left behind."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.inference = self.model.batch_inference(twin) if self._native else OracleInference(twin)
        return twin

    def input(self, i: int) -> Any:
        """An input with the label space of example `i`."""
        return self._make_input(i)

    @property
    def same_space(self) -> list[IntArray]:
        """Examples by their label space: the numbers of those that share one."""
        if self._same_space is None:
            if self.model.fixed:
                self._same_space = [np.arange(self.n)]
            elif self.sizes is not None:
                _, kind = np.unique(self.sizes, axis=0, return_inverse=True)
                order = np.argsort(kind.ravel(), kind="stable")
                self._same_space = np.split(order, np.cumsum(np.bincount(kind.ravel()))[:-1])
            else:
                return super().same_space
        return self._same_space


class ScoreTables(NamedTuple):
    """Tables as inference takes them: those of one row are shown once for each example.

    Attributes
    ----------
    arrays : list of ndarray
    shared : list of bool
        Which of them have one row.
    """

    arrays: list[FloatArray]
    shared: list[bool]


class Arrangement:
    """The scores of a batch, arranged for inference.

    Parameters
    ----------
    model : Model
        With the terms that the tables have.
    parts : sequence of Part
        Scores by block.
    sizes, make_input, native
        As of `ScoredBatch`.
    restore : callable
        From padded tensors by block to what the layer returns.
    tables : mapping of int to Tensor, optional
        Tables that are not the reshaped scores of their block: transitions that are the same at all positions.
    offsets : sequence of Tensor, shape (B,) or (1,)
        What `_centred` took from the score of every label of each example.
    known : dict, optional
        Batches of the same layout by what they depend on; the next one of these sizes takes from it what it needs.
    """

    def __init__(
        self,
        model: Model,
        parts: Sequence[Part],
        sizes: IntArray | None,
        make_input: Callable[[int], Any],
        native: bool,
        restore: Callable[[list[Tensor]], Any],
        tables: Mapping[int, Tensor] | None = None,
        offsets: Sequence[Tensor] = (),
        known: dict[Hashable, ScoredBatch] | None = None,
    ) -> None:
        self._offsets = list(offsets)
        self.model, self.parts, self._restore = model, list(parts), restore
        self.dtype, self.device = parts[0].values.dtype, parts[0].values.device
        self._tables = dict(tables or {})
        columns = [1] * len(parts)
        if native:
            space = model.space(make_input(0)) if model.fixed else None
            for t, (name, term) in enumerate(model.features.items()):
                if t in self._tables:
                    columns[t] = self._tables[t].numel()
                elif space is not None:
                    columns[t] = term.n_columns(space[name].shape)
                elif isinstance(term, Table):
                    columns[t] = int(parts[t].values.shape[-1])
        self.native = native
        if known is None:
            self.batch = ScoredBatch(model, parts, columns, sizes, make_input, native)
            return
        key = (id(model), native, *columns, *(part.entries.tobytes() for part in parts))
        like = known.get(key)
        if like is not None and like.model is model and _same_sizes(like.sizes, sizes):
            self.batch = like.renewed()
            return
        self.batch = ScoredBatch(model, parts, columns, sizes, make_input, native)
        for old in list(known)[: max(0, len(known) + 1 - _KNOWN)]:
            known.pop(old, None)
        known[key] = self.batch

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.batch.n

    @property
    def sources(self) -> list[Tensor]:
        """The tensors of which the tables are made, padded, in their order."""
        return [self._tables.get(t, part.values) for t, part in enumerate(self.parts)]

    def arrays(self) -> ScoreTables:
        """Tables of scores, float64, finite; those of one row are shown once for each example."""
        arrays, shared = [], []
        for t, (part, source) in enumerate(zip(self.parts, self.sources, strict=True)):
            given = source.detach()
            found = (given if given.device.type == "cpu" else given.cpu()).numpy()
            one = t in self._tables
            if not one and part.unused is not None:
                found = np.where(part.unused, 0.0, found)
            if not one and part.keep is not None:
                found = found[part.keep.cpu().numpy()]
            table = np.ascontiguousarray(found, dtype=np.float64).reshape(-1, self.batch.columns[t])
            self._check_finite(table, part.name, t)
            shared.append(one and int(self.batch.starts[t][-1]) > 1)
            arrays.append(np.broadcast_to(table, (self.n, table.shape[1])) if shared[-1] else table)
        return ScoreTables(arrays, shared)

    def gradients(self, tables: Sequence[FloatArray | None]) -> list[Tensor | None]:
        """Numbers by table in the shape, type and place of `sources`; padding is 0."""
        found: list[Tensor | None] = []
        for t, (part, source, table) in enumerate(zip(self.parts, self.sources, tables, strict=True)):
            if table is None:
                found.append(None)
                continue
            if t not in self._tables and part.keep is not None:
                keep, flat = part.keep.cpu().numpy(), table
                table = np.zeros(source.shape)
                table[keep] = flat.reshape(-1, *source.shape[keep.ndim :])
            found.append(self.back(torch.from_numpy(table.reshape(source.shape))))
        return found

    def _moved(self, scores: Tensor, name: str, t: int) -> Tensor:
        """Scores as float64 on the CPU, finite."""
        moved = scores.to(device="cpu", dtype=torch.float64)
        self._check_finite(moved.detach().numpy(), name, t)
        return moved

    def _check_finite(self, scores: FloatArray, name: str, t: int) -> None:
        flat = scores.reshape(-1)
        # A sum of squares is finite only if all entries are; where it is not, or overflows, they are looked at.
        if not math.isfinite(flat @ flat):
            wrong = np.flatnonzero(~np.isfinite(flat))
            if wrong.size:
                whose = ""
                if t not in self._tables:
                    ends = np.cumsum(self.parts[t].entries)
                    whose = f" of example {int(np.searchsorted(ends, wrong[0], side='right'))}"
                raise DeclarationError(
                    f"The scores{whose} for {name!r} contain {flat[wrong[0]]}; scores must be finite. What may not be "
                    "chosen is left out by the mask or by the rules of the model, not by an infinite score."
                )

    def groups(self) -> list[Group]:
        """Objective coefficients by label space, float64 on the CPU."""
        flats = [self._moved(part.flat(), part.name, t) for t, part in enumerate(self.parts)]
        found = []
        for examples in self.batch.same_space:
            space = self.model.space(self.batch.input(int(examples[0])))
            blocks: dict[str, Tensor] = {}
            for part, flat in zip(self.parts, flats, strict=True):
                blocks[part.name] = _rows_of(part, flat, examples)
            pieces = [
                blocks.get(block.name, torch.zeros(len(examples), block.size, dtype=torch.float64)) for block in space
            ]
            found.append(Group(examples, pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)))
        return found

    def oracle(self, group: Group) -> Oracle:
        """The oracle of a group's space."""
        return self.model.oracle(self.batch.input(int(group.examples[0])))

    def chosen(self, group: Group, names: Sequence[str] | None = None) -> npt.NDArray[np.bool_]:
        """Which variables of a group's space are of these blocks; of those that have scores by default."""
        space = self.model.space(self.batch.input(int(group.examples[0])))
        known = [part.name for part in self.parts]
        for name in names or ():
            if name not in known:
                raise DeclarationError(
                    f"There are no scores for a block {name!r}, only for {', '.join(map(repr, known))}."
                )
        wanted = known if names is None else list(names)
        return np.concatenate([np.full(block.size, block.name in wanted) for block in space])

    def points(self, groups: Sequence[Group], found: Sequence[Tensor]) -> Any:
        """Points of all groups in the shape of the scores, with their type and on their device."""
        padded = []
        for part in self.parts:
            flat = torch.zeros(int(part.entries.sum()), dtype=torch.float64)
            for group, Z in zip(groups, found, strict=True):
                block = self.model.space(self.batch.input(int(group.examples[0])))[part.name]
                own = Z[:, block.slice].reshape(-1)
                if len(groups) == 1:
                    flat = own
                else:
                    flat = flat.index_copy(0, _places(part, group.examples).ravel(), own)
            padded.append(self.back(part.padded(flat)))
        return self._restore(padded)

    def uncentred(self, values: Tensor, examples: Any = slice(None)) -> Tensor:
        """Scores of labels, float64, with what was taken from them at the start."""
        for offset in self._offsets:
            values = values + offset.to(device="cpu", dtype=torch.float64).expand(self.n)[examples]
        return values

    def back(self, values: Tensor) -> Tensor:
        """A result with the scores' type and on their device."""
        return values.to(device=self.device, dtype=self.dtype)


def _same_sizes(one: IntArray | None, other: IntArray | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _places(part: Part, examples: IntArray) -> Tensor:
    """Where the entries of some examples, which have the same number of them, stand in the flat scores."""
    starts = np.concatenate([[0], np.cumsum(part.entries)])[examples]
    return torch.from_numpy(starts[:, None] + np.arange(int(part.entries[examples[0]])))


def _rows_of(part: Part, flat: Tensor, examples: IntArray) -> Tensor:
    if len(examples) == len(part.entries):
        return flat.reshape(len(examples), -1)
    return flat[_places(part, examples)]


# ---- layouts -------------------------------------------------------------------------------------


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
            raise DeclarationError(f"examples {_numbers(group.examples)}: {error}") from None

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
        given = _by_name(scores, names, model)
        unary = _tensor("y", given, (None, None, S))
        B, T = unary.shape[:2]
        lengths, keep = _lengths(mask, B, T, "positions")
        pair = _tensor("transition", given, (S, S), (B, T - 1, S, S), like=unary)
        first = _tensor("initial", given, (S,), (B, S), like=unary) if model.initial_weights else None
        offsets: list[Tensor] = []
        unary = _centred(unary, (2,), offsets, keep)
        if pair.ndim == 4:
            pair = _centred(pair, (2, 3), offsets, None if keep is None else keep[:, 1:])
        elif T > 1:
            pair = _centred_for_all(pair, ~model.rules.transitions, lengths - 1, offsets)
        if first is not None and first.ndim == 1:
            first = _centred_for_all(first, ~model.rules.initial, np.ones_like(lengths), offsets)
        elif first is not None:
            first = _centred(first, (1,), offsets, unused=~model.rules.initial)
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
        given = _by_name(scores, ["arc"], self.model)
        arcs = _tensor("arc", given, (None, None, None, *self._last))
        B, nodes = arcs.shape[:2]
        if arcs.shape[2] != nodes or nodes < 2:
            names = ", ".join(["B", "n + 1", "n + 1", *map(str, self._last)])
            raise DeclarationError(f"Scores of arcs have shape ({names}), head by token; got {_told(arcs)}.")
        if mask is not None and getattr(mask, "shape", None) == (B, nodes - 1):
            mask = torch.cat([torch.ones(B, 1, dtype=torch.bool), torch.as_tensor(mask).cpu()], dim=1)
        sizes, keep = _lengths(mask, B, nodes, "nodes, the root among them", least=2)
        none = np.eye(nodes, dtype=np.bool_)  # no arcs: they may hold -inf
        none[:, 0] = True
        none = none.reshape(nodes, nodes, *[1] * len(self._last))
        both = None if keep is None else keep[:, :, None] & keep[:, None, :]
        offsets: list[Tensor] = []
        arcs = _centred(arcs, (1, 3) if self._last else (1,), offsets, both, none)
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
            raise DeclarationError(f"examples {_numbers(group.examples)}: {error}") from None
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
        given = _by_name(scores, ["y"], self.model)
        table = _tensor("y", given, (None, None, None))
        B, n, m = table.shape
        row_mask, column_mask = mask if isinstance(mask, tuple) else (mask, mask if n == m else None)
        rows, keep_rows = _lengths(row_mask, B, n, "rows")
        columns, keep_columns = _lengths(column_mask, B, m, "columns")
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
            table = _centred(table, (2,), offsets, both)
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
        given = _by_name(scores, ["place"], self.model)
        f = _tensor("place", given, (None, None))
        B, n = f.shape
        sizes, keep = _lengths(mask, B, n, "documents")
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
        given = _by_name(scores, names, self.model)
        return self._one_space(scores, given, points) if self.model.fixed else self._by_input(scores, given, inputs)

    def _one_space(self, scores: Any, given: dict[str, Any], points: bool) -> Arrangement:
        space = self.model.space()
        _check_names(given, space.block_names)
        shaped = {}
        offsets: list[Tensor] = []
        for name in given:
            shape = space[name].shape
            values = _tensor(name, given, (None, *shape), shape)
            if _is_large(values.detach()):
                if name not in self._fixed_sums:
                    self._fixed_sums[name] = FixedSums.of(space, name)
                values = _centred_groups(values, self._fixed_sums[name], offsets)
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
                    f"one for each input; got {_told(tensors)}."
                )
            flat, entries = [], np.empty(B, dtype=np.int64)
            for i, (values, space) in enumerate(zip(tensors, spaces, strict=True)):
                _check_names([name], space.block_names)
                try:
                    flat.append(_tensor(name, {name: values}, space[name].shape).reshape(-1))
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


# ---- checks --------------------------------------------------------------------------------------


def _is_identity(term: Term) -> bool:
    """Whether the table of a term holds the scores of its block's variables themselves."""
    if isinstance(term, Tied):
        return term._index is None
    return isinstance(term, Linear | Table | Shared) and not isinstance(term, Scaled)


def _by_name(scores: Any, names: Sequence[str], model: Model) -> dict[str, Any]:
    """Scores given as one tensor, a tuple or a dict, by the names of their blocks."""
    if isinstance(scores, Tensor):
        return {names[0]: scores}
    if isinstance(scores, Mapping):
        _check_names(scores, names)
        if not scores:
            raise DeclarationError(f"There are no scores; the blocks are {', '.join(map(repr, names))}.")
        return dict(scores)
    if isinstance(scores, tuple | list) and 0 < len(scores) <= len(names):
        return dict(zip(names, scores, strict=False))
    raise DeclarationError(
        f"Scores of {type(model).__name__} are a tensor, a tuple of tensors for {', '.join(map(repr, names))}, or a "
        f"dict of them; got {shown(scores)}."
    )


#: Scores beyond this are centred: what float64 leaves of their differences would be felt.
_LARGE = 1e5


def _centred(
    values: Tensor,
    dims: tuple[int, ...],
    offsets: list[Tensor],
    keep: Tensor | None = None,
    unused: npt.NDArray[np.bool_] | None = None,
) -> Tensor:
    """Large scores less the largest of each slot, of which every label has exactly one part.

    A network may add any number to all scores of a position: the differences between labels stay, and their digits
    should, too. What was taken from each example's labels is put in `offsets`; no gradient passes through it, as no
    result but the score of a label depends on it.

    Parameters
    ----------
    values : Tensor of shape (B, ...)
    dims : tuple of int
        The axes of a slot's parts.
    offsets : list of Tensor
    keep : Tensor of bool, optional
        What is no padding, of the first axes.
    unused : ndarray of bool, optional
        As of `Part`.
    """
    known = values.detach()
    if not _is_large(known):
        return values
    if keep is not None:
        keep = keep.reshape(*keep.shape, *[1] * (values.ndim - keep.ndim)).to(values.device)
        known = known.masked_fill(~keep, -math.inf)
    if unused is not None:
        known = known.masked_fill(torch.from_numpy(unused).to(values.device), -math.inf)
    top = known.amax(dims, keepdim=True)
    top = torch.where(torch.isfinite(top), top, 0.0)  # a slot of padding; what is infinite is refused later
    offsets.append(top.to(torch.float64).reshape(len(values), -1).sum(dim=1))
    return values - top


def _is_large(values: Tensor) -> bool:
    """Whether some score is beyond `_LARGE`; not where one is NaN."""
    flat = values.reshape(-1)
    # No entry exceeds the root of the sum of squares, which takes a tenth of the time of the largest.
    return not float(flat @ flat) <= _LARGE**2 and float(values.abs().amax()) > _LARGE


def _centred_for_all(values: Tensor, unused: npt.NDArray[np.bool_], times: IntArray, offsets: list[Tensor]) -> Tensor:
    """Large scores that all examples share less the largest; a label of example i has ``times_i`` of these parts."""
    known = values.detach()
    if not _is_large(known):
        return values
    top = known.masked_fill(torch.from_numpy(unused).to(values.device), -math.inf).amax()
    if not math.isfinite(top):
        return values
    offsets.append(top.to(device="cpu", dtype=torch.float64) * torch.from_numpy(times))
    return values - top


def _centred_groups(values: Tensor, groups: FixedSums, offsets: list[Tensor]) -> Tensor:
    """Scores of a block less the largest of each group of variables whose sum is the same for all labels.

    Parameters
    ----------
    values : Tensor
        With or without a batch axis.
    groups : FixedSums
    offsets : list of Tensor
        One number is added for scores without a batch axis.
    """
    if not groups.sums.size:
        return values
    rows = values.detach().reshape(-1, groups.group.size).to(torch.float64)
    inside = torch.from_numpy(np.flatnonzero(groups.group >= 0)).to(rows.device)
    owner = torch.from_numpy(groups.group[groups.group >= 0]).to(rows.device)
    top = torch.full((len(rows), groups.sums.size), -math.inf, dtype=torch.float64, device=rows.device)
    top = top.scatter_reduce(1, owner.expand(len(rows), -1), rows[:, inside], "amax")
    top = torch.where(torch.isfinite(top), top, 0.0)
    offsets.append(top @ torch.from_numpy(groups.sums).to(rows.device))
    taken = torch.zeros_like(rows)
    taken[:, inside] = top[:, owner]
    return values - taken.reshape(values.shape).to(values.dtype)


class FixedSums(NamedTuple):
    """Groups of a block's variables whose sum is the same for all labels.

    Attributes
    ----------
    group : ndarray of int
        The number of the group of every variable, -1 for none.
    sums : ndarray
        The sum of each group.
    """

    group: IntArray
    sums: FloatArray

    @classmethod
    def of(cls, space: LabelSpace, name: str) -> FixedSums:
        """Those of a block: rows ``a (z_1 + ... + z_k) = b`` of its variables, the first of those that overlap."""
        compiled, block = space.compiled, space[name]
        A, group, sums = compiled.matrix, np.full(space[name].size, -1, dtype=np.int64), list[float]()
        for r in np.flatnonzero(compiled.row_lower == compiled.row_upper).tolist():
            columns, data = A.indices[A.indptr[r] : A.indptr[r + 1]], A.data[A.indptr[r] : A.indptr[r + 1]]
            own = columns - block.slice.start
            if not own.size or own.min() < 0 or own.max() >= block.size or (data != data[0]).any():
                continue
            if data[0] != 0.0 and (group[own] < 0).all():
                group[own] = len(sums)
                sums.append(float(compiled.row_lower[r] / data[0]))
        return cls(group, np.array(sums))


def _check_names(given: Any, names: Any) -> None:
    for name in given:
        if name not in names:
            raise DeclarationError(f"There are scores for {name!r}; the blocks are {', '.join(map(repr, names))}.")


def _tensor(name: str, given: Mapping[str, Any], *shapes: tuple[int | None, ...], like: Tensor | None = None) -> Tensor:
    """The scores of a block, of one of these shapes (None: any length); zeros of the first where there are none."""
    if name not in given:
        assert like is not None
        return torch.zeros([int(k or 0) for k in shapes[0]], dtype=like.dtype, device=like.device)
    values = given[name]
    if not isinstance(values, Tensor):
        raise DeclarationError(f"The scores for {name!r} must be a tensor, got {shown(values)}.")
    if values.device.type == "meta":
        raise DeclarationError(
            f"The scores for {name!r} are on the device 'meta', which has shapes and no numbers: move the network to "
            "a real device first (to_empty, or load its weights)."
        )
    if values.dtype not in _FLOATS:
        raise DeclarationError(
            f"The scores for {name!r} have type {values.dtype}; they must be torch.float32 or torch.float64."
        )
    if like is not None and (values.dtype != like.dtype or values.device != like.device):
        raise DeclarationError(
            f"The scores for {name!r} are {values.dtype} on {values.device}, others {like.dtype} on {like.device}; "
            "all must have one type and one device."
        )
    for shape in shapes:
        fits = len(shape) == values.ndim
        if fits and all(k is None or k == size for k, size in zip(shape, values.shape, strict=True)):
            if 0 in values.shape[: 1 if shape[0] is None else 0]:
                raise DeclarationError("The batch has no examples.")
            return values
    wanted = " or ".join(str(tuple("any" if k is None else k for k in shape)).replace("'", "") for shape in shapes)
    raise DeclarationError(f"The scores for {name!r} have shape {tuple(values.shape)}; expected {wanted}.")


def _lengths(mask: Any, B: int, n: int, what: str, least: int = 1) -> tuple[IntArray, Tensor | None]:
    """How many entries the mask leaves of each example, and the mask; None where it leaves all."""
    if mask is None:
        if n < least:
            raise DeclarationError(f"An example needs at least {least} {what}, got {n}.")
        return np.full(B, n, dtype=np.int64), None
    if not isinstance(mask, Tensor):
        mask = torch.as_tensor(np.asarray(mask))
    if mask.dtype != torch.bool:
        raise DeclarationError(f"A mask is boolean, True for what is no padding; got {mask.dtype}.")
    if tuple(mask.shape) != (B, n):
        raise DeclarationError(f"The mask has shape {tuple(mask.shape)}; the scores of {what} need {(B, n)}.")
    given = mask.detach().cpu().numpy()
    lengths = given.sum(axis=1).astype(np.int64)
    short = np.flatnonzero(lengths < least)
    if short.size:
        raise DeclarationError(
            f"The mask leaves {int(lengths[short[0]])} {what} of example {int(short[0])}; it must leave "
            f"at least {least}."
        )
    ragged = np.flatnonzero((np.arange(n) < lengths[:, None]) != given) // n
    if ragged.size:
        raise DeclarationError(f"The mask of example {int(ragged[0])} has gaps: padding stands at the end.")
    return lengths, None if int(lengths.min()) == n else mask


def _numbers(examples: IntArray) -> str:
    """Numbers of examples, for messages."""
    shown_first = ", ".join(map(str, examples[:5].tolist()))
    return shown_first if len(examples) <= 5 else f"{shown_first}, ..."


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


def _told(values: Any) -> str:
    return f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else shown(values)

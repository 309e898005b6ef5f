"""Score tensors in the shapes that networks have, as the tables and objective coefficients that inference takes.

A network gives padded tensors: ``(B, T, S)`` and a mask. Inference takes, block by block, the scores of all examples
one after the other without padding. An `Arrangement` is that, in both directions: for every block of the label space
the entries of each example, row by row, and gradients of these back in the padded shape. Where labels have the compact
form of a structure, all of it is done in arrays (`Arrangement.arrays`, `Arrangement.gradients`): every node of the
graph would cost as much as a small search. Points are made from tensors of the graph (`Arrangement.groups`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from structopt._jit import IntArray
from structopt.errors import DeclarationError
from structopt.features import Table, Tied
from structopt.model import Model
from structopt.model.batch import Batch
from structopt.model.codec import PointCodec
from structopt.model.inference import OracleInference
from structopt.oracle import Oracle
from structopt.space.compiled import FloatArray

__all__ = ["Arrangement", "Group", "Part", "ScoreTables", "ScoredBatch"]

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
        What `centred` took from the score of every label of each example.
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

"""Score tensors in the shapes that networks have, as the tables and objective coefficients that inference takes.

A network gives padded tensors: ``(B, T, S)`` and a mask. Inference takes, block by block, the scores of all examples
one after the other without padding. An `Arrangement` is that, in both directions: for every block of the label space
the entries of each example, row by row, and gradients of these back in the padded shape. Where labels have the compact
form of a structure, all of it is done in arrays (`Arrangement.arrays`, `Arrangement.gradients`): every node of the
graph would cost as much as a small search. Points are made from tensors of the graph (`Arrangement.groups`). What does
not depend on the scores themselves is a `Plan`, which serves all batches of the same shapes and mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from structopt._jit import IntArray, any_order
from structopt.errors import DeclarationError
from structopt.features import Table, Tied
from structopt.model import Model
from structopt.model.batch import Batch
from structopt.model.codec import BatchCodec, PointCodec, StackedLabels
from structopt.model.data_set import DataSet
from structopt.model.inference import OracleInference
from structopt.oracle import Oracle
from structopt.space.compiled import FloatArray
from structopt.torch.centring import LARGE

__all__ = [
    "KNOWN",
    "Arrangement",
    "Group",
    "LabelRows",
    "Part",
    "Plan",
    "ScoreTables",
    "ScoredBatch",
    "array_of",
    "remember",
]

#: Batches of which a layout remembers what depends on their shapes and masks alone.
KNOWN = 8
_NOTHING = np.zeros(0, dtype=np.bool_)


class Part(NamedTuple):
    """What the scores of one block look like.

    Attributes
    ----------
    name : str
        Of the block.
    shape : tuple of int
        Of the tensor, ``(B, ...)``, padded.
    keep : Tensor or None
        Which of its first axes' entries are no padding, ``(B, ...)``; None where all are.
    entries : ndarray of int, shape (B,)
        Variables of the block in each example's space.
    unused : ndarray of bool or None
        Entries of the axes behind the first that no label has: their scores may be anything, and count as 0.
    """

    name: str
    shape: tuple[int, ...]
    keep: Tensor | None
    entries: IntArray
    unused: npt.NDArray[np.bool_] | None = None

    def flat(self, values: Tensor) -> Tensor:
        """The scores of all examples, one after the other, without padding."""
        return (values if self.keep is None else values[self.keep]).reshape(-1)

    def padded(self, flat: Tensor) -> Tensor:
        """The way back: numbers of all examples, one after the other, in the shape of the scores; padding is 0."""
        if self.keep is None:
            return flat.reshape(self.shape)
        keep = self.keep.reshape(*self.keep.shape, *[1] * (len(self.shape) - self.keep.ndim))
        return torch.zeros(self.shape, dtype=flat.dtype).masked_scatter(keep, flat)


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


class ScoredData(DataSet):
    """A data set whose scores come from elsewhere: there are no features, only numbers of rows.

    Parameters
    ----------
    model : Model
    parts : sequence of Part
        In the order of the model's features.
    columns : sequence of int
        Columns of the table of each.
    sizes : ndarray of int or None
        As of `DataSet`.
    make_input : callable
        An input of the model's that has the label space of example i.
    """

    def __init__(
        self,
        model: Model,
        parts: Sequence[Part],
        columns: Sequence[int],
        sizes: IntArray | None,
        make_input: Callable[[int], Any],
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

    def input(self, i: int) -> Any:
        """An input with the label space of example `i`."""
        return self._make_input(i)


class ScoredBatch(Batch):
    """A batch of `ScoredData`.

    Parameters
    ----------
    data : ScoredData
    native : bool
        Whether labels have the compact form of the structure; otherwise they are points.
    codec : BatchCodec, optional
        That of an earlier batch of the same data.
    """

    def __init__(self, data: ScoredData, native: bool, codec: BatchCodec[Any] | None = None) -> None:
        self._native = native
        if codec is None:
            codec = data.model._batch_codec(data) if native else PointCodec(data)
        self._hold(data, codec, data.model._inference(data) if native else OracleInference(data))

    def renewed(self) -> ScoredBatch:
        """A batch of the same data: what a search keeps for its examples is left behind."""
        return ScoredBatch(cast("ScoredData", self.data), self._native, self.codec)


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


class LabelRows:
    """Which rows of a padded tensor of labels, ``(B, n, ...)``, are labels.

    Parameters
    ----------
    lengths : ndarray of int, shape (B,)
        Rows of each example.
    ptr : ndarray of int, shape (B + 1,), optional
        Where they begin, one after the other; the codec's own array, which it then need not compare.
    """

    def __init__(self, lengths: IntArray, ptr: IntArray | None = None) -> None:
        self.lengths = lengths
        self.longest = int(lengths.max())
        self.ptr = np.concatenate([[0], np.cumsum(lengths)]) if ptr is None else ptr
        self._alike = int(lengths.min()) == self.longest

    def cut(self, Y: Tensor, form: Callable[[Any], Any] | None = None, last: tuple[int, ...] = ()) -> StackedLabels:
        """The rows of a tensor of labels, ``(B, n, *last)``, without their padding."""
        shape = tuple(Y.shape)
        if shape[2:] != last or len(shape) < 2 or shape[0] != len(self.lengths) or shape[1] < self.longest:
            names = ", ".join(["B", "n", *map(str, last)])
            raise DeclarationError(
                f"A tensor of labels has shape ({names}) = {(len(self.lengths), self.longest, *last)} here; got "
                f"{shape}."
            )
        rows = array_of(Y)
        if shape[1] == self.longest and self._alike:
            # A copy: the backward pass needs the labels of the forward pass, whatever becomes of the tensor.
            return StackedLabels(rows.reshape(-1, *last).copy(), self.ptr, form)
        return StackedLabels(rows[np.arange(shape[1]) < self.lengths[:, None]], self.ptr, form)


class _Way(NamedTuple):
    """From the scores of a block to its table, and back.

    Attributes
    ----------
    kept : ndarray of int or None
        Which rows are no padding, where some are.
    rows : int
        Number of rows, padding among them.
    zero : ndarray of int or None
        Entries of the table that no label has, where there is padding.
    skip : ndarray of bool
        Those of one example, where there is none; empty where there are no such entries.
    columns : int
    shared : bool
        Whether one row is shown for each of several examples.
    """

    kept: IntArray | None
    rows: int
    zero: IntArray | None
    skip: npt.NDArray[np.bool_]
    columns: int
    shared: bool


class Plan:
    """What an arrangement is besides its scores: it follows from their shapes, the mask and the model.

    Parameters
    ----------
    model : Model
        With the terms that the tables have.
    parts : sequence of Part
        By block.
    sizes, make_input, native
        As of `ScoredData` and `ScoredBatch`.
    restore : callable
        From padded tensors by block to what the layer returns.
    one_row : collection of int
        Numbers of the tables that are one row for all examples: transitions that are the same at all positions.
    known : dict, optional
        Batches of the same layout by what they depend on; the next one of these sizes takes from it what it needs.
    label_lengths : ndarray of int, optional
        Rows of each example in a padded tensor of labels.
    """

    def __init__(
        self,
        model: Model,
        parts: Sequence[Part],
        sizes: IntArray | None,
        make_input: Callable[[int], Any],
        native: bool,
        restore: Callable[[list[Tensor]], Any],
        one_row: Collection[int] = (),
        known: dict[Hashable, ScoredBatch] | None = None,
        label_lengths: IntArray | None = None,
    ) -> None:
        self.model, self.parts, self.native = model, list(parts), native
        self.terms = list(model.features.values())
        self.restore, self.one_row = restore, frozenset(one_row)
        self.batch = self._batch(self._columns(make_input), sizes, make_input, known)
        self.label_rows = None if label_lengths is None else LabelRows(label_lengths, self.batch.codec.label_ptr)
        self._ways: list[_Way] | None = None

    def _columns(self, make_input: Callable[[int], Any]) -> list[int]:
        columns = [1] * len(self.parts)
        if self.native:
            space = self.model.space(make_input(0)) if self.model.fixed else None
            for t, (name, term) in enumerate(self.model.features.items()):
                if t in self.one_row:
                    columns[t] = math.prod(self.parts[t].shape)
                elif space is not None:
                    columns[t] = term.n_columns(space[name].shape)
                elif isinstance(term, Table):
                    columns[t] = self.parts[t].shape[-1]
        return columns

    def _batch(
        self,
        columns: list[int],
        sizes: IntArray | None,
        make_input: Callable[[int], Any],
        known: dict[Hashable, ScoredBatch] | None,
    ) -> ScoredBatch:
        if known is None:
            return ScoredBatch(ScoredData(self.model, self.parts, columns, sizes, make_input), self.native)
        key = (id(self.model), self.native, *columns, *(part.entries.tobytes() for part in self.parts))
        like = known.get(key)
        if like is not None and like.model is self.model and _same_sizes(like.sizes, sizes):
            return like
        found = ScoredBatch(ScoredData(self.model, self.parts, columns, sizes, make_input), self.native)
        remember(known, key, found)
        return found

    @property
    def ways(self) -> list[_Way]:
        """How each table is made."""
        if self._ways is None:
            self._ways = [self._way(t, part) for t, part in enumerate(self.parts)]
        return self._ways

    def _way(self, t: int, part: Part) -> _Way:
        columns = self.batch.columns[t]
        if t in self.one_row:
            return _Way(None, 1, None, _NOTHING, columns, int(self.batch.starts[t][-1]) > 1)
        kept = None if part.keep is None else np.flatnonzero(part.keep.cpu().numpy())
        rows = part.shape[0] if part.keep is None else part.keep.numel()
        zero, skip = None, _NOTHING
        if part.unused is not None:
            unused = np.broadcast_to(part.unused, part.shape)
            if kept is None:
                skip = np.array(unused[0]).reshape(-1)
            else:
                zero = np.flatnonzero(unused.reshape(rows, -1)[kept])
        return _Way(kept, rows, zero, skip, columns, False)

    def tables(self, sources: Sequence[Tensor]) -> tuple[ScoreTables, list[float]]:
        """Tables of scores, float64, whether they are finite or not, and the sum of squares of each."""
        arrays, squares = list[FloatArray](), list[float]()
        for way, source in zip(self.ways, sources, strict=True):
            found = array_of(source)
            if way.kept is not None:
                flat = found.reshape(way.rows, -1)[way.kept].astype(np.float64, copy=False).reshape(-1)
                if way.zero is not None:
                    flat[way.zero] = 0.0
                squares.append(float(flat @ flat))
            elif found.dtype == np.float64 and not way.skip.size:
                flat = np.ascontiguousarray(found).reshape(-1)
                squares.append(float(flat @ flat))
            else:
                flat = np.empty(found.size)
                squares.append(_copied(np.ascontiguousarray(found).reshape(-1), way.skip, flat))
            table = flat.reshape(-1, way.columns)
            arrays.append(_shown(table, self.batch.n) if way.shared else table)
        return ScoreTables(arrays, [way.shared for way in self.ways]), squares

    def arranged(self, given: Sequence[Tensor], places: Sequence[int]) -> Arrangement | None:
        """The scores of another batch of the same shapes and mask, where they need neither centring nor a refusal.

        Parameters
        ----------
        given : sequence of Tensor
        places : sequence of int
            Which of them is the source of each table; -1 where there is none, and its scores are 0.

        Returns
        -------
        Arrangement or None
            None where some score is large or not finite.
        """
        like, parts = given[0], self.parts
        sources = [
            given[k] if k >= 0 else torch.zeros(parts[t].shape, dtype=like.dtype, device=like.device)
            for t, k in enumerate(places)
        ]
        tables, squares = self.tables(sources)
        for array, total in zip(tables.arrays, squares, strict=True):
            # No entry exceeds the root of the sum of squares, which takes a tenth of the time of the largest. What is
            # NaN, infinite or large fails both tests.
            if not total <= LARGE**2 and not np.abs(array).max() <= LARGE:
                return None
        return Arrangement(self, sources, tables=tables)


def array_of(tensor: Tensor) -> npt.NDArray[Any]:
    """The numbers of a tensor, which they stay in where it is on the CPU; each call that is left out is felt."""
    given = tensor.detach() if tensor.requires_grad else tensor
    found: npt.NDArray[Any] = (given if given.is_cpu else given.cpu()).numpy()
    return found


def _shown(row: FloatArray, n: int) -> FloatArray:
    """`numpy.broadcast_to` of one row, in a tenth of its time."""
    found: FloatArray = np.ndarray((n, row.shape[1]), np.float64, row, 0, (0, row.itemsize))
    found.flags.writeable = False
    return found


def remember(known: dict[Any, Any], key: Hashable, value: Any) -> None:
    """Put a value in a dict that keeps the last `KNOWN`; threads may do so at once."""
    for old in list(known)[: max(0, len(known) + 1 - KNOWN)]:
        known.pop(old, None)
    known[key] = value


class Arrangement:
    """The scores of a batch, arranged for inference.

    Parameters
    ----------
    plan : Plan
    sources : sequence of Tensor
        The scores of each part, centred where they are large; the tables are made of them.
    offsets : sequence of Tensor, shape (B,) or (1,)
        What `centred` took from the score of every label of each example.
    tables : ScoreTables, optional
        Those of `arrays`, where they are known already and finite.
    """

    def __init__(
        self,
        plan: Plan,
        sources: Sequence[Tensor],
        offsets: Sequence[Tensor] = (),
        tables: ScoreTables | None = None,
    ) -> None:
        self.plan, self.sources = plan, list(sources)
        self.model, self.parts, self.native = plan.model, plan.parts, plan.native
        self.dtype, self.device = sources[0].dtype, sources[0].device
        #: The type of gradients of these scores as arrays.
        self.precision = np.float32 if self.dtype == torch.float32 else np.float64
        self.batch = plan.batch.renewed()
        self._offsets, self._tables = list(offsets), tables

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.batch.n

    def arrays(self) -> ScoreTables:
        """Tables of scores, float64, finite; those of one row are shown once for each example."""
        if self._tables is None:
            tables, squares = self.plan.tables(self.sources)
            for t, (table, shared) in enumerate(zip(*tables, strict=True)):
                self._check_finite(table[0] if shared else table, squares[t], t)
            self._tables = tables
        return self._tables

    def release(self) -> None:
        """Forget the tables: they are not needed for gradients, which may be a long time later."""
        self._tables = None

    def gradients(self, tables: Sequence[FloatArray | None]) -> list[Tensor | None]:
        """Numbers by table in the shape, type and place of `sources`; padding is 0."""
        found: list[Tensor | None] = []
        for way, source, table in zip(self.plan.ways, self.sources, tables, strict=True):
            if table is None:
                found.append(None)
                continue
            if way.kept is not None:
                flat = table.reshape(len(way.kept), -1)
                table = np.zeros((way.rows, flat.shape[1]), dtype=flat.dtype)
                table[way.kept] = flat
            found.append(self.back(torch.from_numpy(table.reshape(source.shape))))
        return found

    def _moved(self, scores: Tensor, t: int) -> Tensor:
        """Scores as float64 on the CPU, finite."""
        moved = scores.to(device="cpu", dtype=torch.float64)
        flat = moved.detach().numpy()
        self._check_finite(flat, float(flat @ flat), t)
        return moved

    def _check_finite(self, scores: FloatArray, squares: float, t: int) -> None:
        # A sum of squares is finite only if all entries are; where it is not, or overflows, they are looked at.
        if not math.isfinite(squares):
            flat = scores.reshape(-1)
            wrong = np.flatnonzero(~np.isfinite(flat))
            if wrong.size:
                whose = ""
                if t not in self.plan.one_row:
                    ends = np.cumsum(self.parts[t].entries)
                    whose = f" of example {int(np.searchsorted(ends, wrong[0], side='right'))}"
                raise DeclarationError(
                    f"The scores{whose} for {self.parts[t].name!r} contain {flat[wrong[0]]}; scores must be finite. "
                    "What may not be chosen is left out by the mask or by the rules of the model, not by an infinite "
                    "score."
                )

    def groups(self) -> list[Group]:
        """Objective coefficients by label space, float64 on the CPU."""
        flats = [
            self._moved(part.flat(source), t)
            for t, (part, source) in enumerate(zip(self.parts, self.sources, strict=True))
        ]
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
        return self.plan.restore(padded)

    def uncentred(self, values: Tensor, examples: Any = slice(None)) -> Tensor:
        """Scores of labels, float64, with what was taken from them at the start."""
        for offset in self._offsets:
            values = values + offset.to(device="cpu", dtype=torch.float64).expand(self.n)[examples]
        return values

    def back(self, values: Tensor) -> Tensor:
        """A result with the scores' type and on their device."""
        if values.dtype == self.dtype and values.device == self.device:
            return values
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


@any_order
def _copied(source: Any, skip: Any, out: FloatArray) -> float:
    """Scores of any precision as float64, 0 where `skip` says so of the entry of an example; their sum of squares."""
    squares = 0.0
    if not skip.size:
        for k in range(out.size):
            value = np.float64(source[k])
            out[k] = value
            squares += value * value
        return squares
    size = skip.size
    for i in range(out.size // size):
        scores, row = source[i * size : (i + 1) * size], out[i * size : (i + 1) * size]
        for k in range(size):
            value = np.float64(scores[k])  # read in any case: a loop without branches takes a sixth of the time
            used = 0.0 if skip[k] else value
            row[k] = used
            squares += used * used
    return squares

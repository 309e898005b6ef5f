"""`BatchCodec`: the labels of a data set in a compact form, and part tables made from it on demand.

A *part table* is what products need of labels: one sparse matrix per feature term, with a row for every feature row of
the data set and the values of the label's parts in it. Scores of labels and gradients are then sparse-dense products,
whatever the structure. A `BatchCodec` converts between the user's form, the compact form and part tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.checks import examples
from structopt.errors import DeclarationError, LabelNotInSpace, StructoptError, marked
from structopt.features import Linear, n_examples
from structopt.model.forms import LabelForm
from structopt.model.loss_batch import Counts, LossBatch, counts_of
from structopt.model.part_tables import fill_rows, number_groups
from structopt.model.sparse_losses import sparse_counts, sparse_losses
from structopt.space.compiled import CompiledSpace, FloatArray

if TYPE_CHECKING:
    from structopt.model.data_set import DataSet
    from structopt.model.model import Model

__all__ = [
    "BatchCodec",
    "LabelBatch",
    "PointCodec",
    "RaggedRows",
    "StackedLabels",
    "csr_table",
    "fixed_sums",
    "labels_given",
    "part_table",
    "refusal",
    "spread_rows",
    "taken_labels",
]

#: The compact form of the labels of a data set.
Native = TypeVar("Native")
M = TypeVar("M", bound="Model")
#: Variables up to which scores of points take less time than those of their part tables.
_FEW_VARIABLES = 128


class LabelBatch:
    """One label per example.

    Parameters
    ----------
    tables : list of csr_array, or a function that makes it
        For each feature term, the values of the parts: rows are the term's stacked feature rows. A function is called
        when they are first needed.
    native : object
        The labels in the compact form of their codec (points ``z``, numbers per slot), known to it alone.
    slack : ndarray or None
        By how much the proved maximum of each example may exceed the value of its label; None where every label is
        proved best, which is so unless a solver stopped at a gap or a time limit.
    given : list, optional
        Ground truths in the user's form, if their loss does not follow from the compact form.
    """

    __slots__ = ("_tables", "given", "native", "slack")

    def __init__(
        self,
        tables: list[sp.csr_array] | Callable[[], list[sp.csr_array]],
        native: object,
        slack: FloatArray | None = None,
        given: list[Any] | None = None,
    ) -> None:
        self._tables = tables
        self.native = native
        self.slack = slack
        self.given = given

    @property
    def tables(self) -> list[sp.csr_array]:
        """The part tables."""
        if callable(self._tables):
            self._tables = self._tables()
        return self._tables


@dataclass(frozen=True, eq=False)
class RaggedRows:
    """Rows of different lengths, one after the other: row i is ``flat[ptr[i]:ptr[i + 1]]``."""

    flat: FloatArray
    ptr: IntArray

    @classmethod
    def of(cls, rows: Sequence[FloatArray]) -> RaggedRows:
        """Rows put behind one another."""
        ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return cls(np.concatenate(rows) if len(rows) else np.empty(0), ptr)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, i: int) -> FloatArray:
        return self.flat[self.ptr[i] : self.ptr[i + 1]]

    def __iter__(self) -> Iterator[FloatArray]:
        return (self[i] for i in range(len(self)))


class StackedLabels:
    """Labels of whole numbers, one after the other, as a network's tensors have them: ``flat[ptr[i]:ptr[i + 1]]``.

    A codec may check and take them together; a single one is a label in the user's form. If the numbers stand for
    names, `form` makes the label with names from the numbers.
    """

    def __init__(self, flat: npt.NDArray[Any], ptr: IntArray, form: Callable[[Any], Any] | None = None) -> None:
        self.flat, self.ptr, self.form = flat, ptr, form

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, i: int) -> Any:
        row = self.flat[self.ptr[i] : self.ptr[i + 1]]
        return row if self.form is None else self.form(row)

    def begins_at(self, ptr: IntArray) -> bool:
        """Whether label i is ``flat[ptr[i]:ptr[i + 1]]``."""
        return self.ptr is ptr or np.array_equal(self.ptr, ptr)


class BatchCodec(ABC, Generic[Native]):
    """Converts the labels of one data set between the user's form, a compact form, and part tables.

    `spread` puts labels of some examples among the others, which then have no label: their part tables are empty, and
    their loss is the loss of no part.
    """

    #: Every label is one class out of K, in compact form its number; losses are ``(n, K)``, by class.
    one_of_many = False

    #: Whether the compact form is much smaller than part tables, and `mixture` makes it: searches then keep it.
    holds_mixtures = False

    #: The first entry of each label in `StackedLabels` that `encode` takes all at once; None if it does not.
    label_ptr: IntArray | None = None

    def __init__(self, data: DataSet) -> None:
        self.data = data
        self.n = data.n

    @abstractmethod
    def encode(self, Y: Any) -> Native:
        """The given labels, checked; all that are not in their space are reported together."""

    @abstractmethod
    def decode(self, labels: Native) -> list[Any]:
        """The labels in the user's form; None for examples left out, where the compact form shows them."""

    @abstractmethod
    def tables(self, labels: Native) -> list[sp.csr_array]:
        """Part tables."""

    @abstractmethod
    def from_points(self, Z: Any) -> Native:
        """Points ``z``, one per example, in compact form."""

    @abstractmethod
    def spread(self, parts: Sequence[Native], some: IntArray | None) -> Native:
        """Labels of `some` examples (increasing; None: all), given in pieces, with no label for the others."""

    @abstractmethod
    def losses(self, truth: Native, given: Any = None) -> LossBatch:
        """Return the linear task loss of each example's ground truth; `given` is `LabelBatch.given`."""

    @abstractmethod
    def loss_parts(self, labels: Native) -> Any:
        """Return labels in a form that `LossBatch.values` takes: points, or `Entries`."""

    @property
    def fixed_sums(self) -> IntArray | None:
        """Groups of columns of the losses for `LossBatch.steps`; None if none are known."""
        return None

    def scores(self, tables: Sequence[FloatArray], labels: Native) -> FloatArray | None:
        """Return the score of each label from tables of scores of parts; None if part tables are faster."""
        return None

    def add_parts(
        self, t: int, labels: Native, weights: FloatArray, out: FloatArray, truth: Native | None = None
    ) -> bool:
        """Add ``weights_i`` times the parts of each label, less those of its ground truth if given, to table `t`.

        Returns False if it takes part tables. If `out` is a single row, it takes the sums of all examples.
        """
        return False

    def mixture(self, labels: Sequence[Native | None], numbers: IntArray, shares: FloatArray) -> Native | None:
        """Return ``sum_k shares[k, i] * labels[numbers[k, i]]`` of every example i; None if it takes part tables.

        `labels` are labels of all examples, None for those without a compact form. `numbers` and `shares` have shape
        (2, n), and shares sum to 1.
        """
        return None

    def counts(self, truth: Native) -> Counts | None:
        """The counts of micro-F1; None if this codec does not know them. `Model.counted` names or refuses variables."""
        return None

    def encode_each(self, Y: Any, encode: Callable[[Any, int], Any]) -> list[Any]:
        """``encode(label, example)`` for every label; errors of all examples are reported together."""
        Y = labels_given(Y, self.n)
        found: list[Any] = []
        refused: dict[int, StructoptError] = {}
        for i in range(self.n):
            try:
                found.append(encode(Y[i], i))
            except StructoptError as error:
                refused[i] = error
        if refused:
            raise refusal(refused, self.n)
        return found


def _ground_truth(examples: IntArray, k: int) -> str:
    return f"the ground truth of example {marked(examples[k])}"


class PointCodec(BatchCodec[Any]):
    """Labels as points ``z``: an array ``(n, n_variables)``, or `RaggedRows` where the inputs' spaces differ.

    A `form`, such as `LabelCodec`, reads and writes all labels as sparse points in place of the model. If `sparse`,
    points are a CSR array, for a model with one `Linear` term. Only the first `n_lossy` variables have losses.
    """

    def __init__(self, data: DataSet, form: Any = None, sparse: bool = False, n_lossy: int | None = None) -> None:
        super().__init__(data)
        self._form, self.is_sparse, self._n_lossy = form, sparse, n_lossy

    def encode(self, Y: Any) -> Any:
        if self._form is not None:
            rows = self._form.encode_many(Y, self.n)
            return rows if self.is_sparse else rows.toarray()
        Y = labels_given(Y, self.n)
        together = self.data.model._encode_batch(Y)
        model, data = self.data.model, self.data
        if together is None:
            together = self._rows(self.encode_each(Y, lambda label, i: model.encode(label, data.input(i))))
        self._guard_truths(together)
        return together

    def _guard_truths(self, points: Any) -> None:
        """Let the pools of lazy rows know the ground truths, which no row may cut off."""
        model, data = self.data.model, self.data
        if model.fixed and not model.space().compiled.separations:
            return
        for group in data.same_space:
            x = data.input(int(group[0]))
            pool = model.oracle(x).lazy_rows if model.space(x).compiled.separations else None
            if pool is not None:
                pool.know(np.array([points[i] for i in group]), partial(_ground_truth, group))

    def _rows(self, points: Sequence[FloatArray]) -> Any:
        return np.array(points) if self.data.model.fixed else RaggedRows.of(points)

    def decode(self, labels: Any) -> list[Any]:
        model = self.data.model
        if self._form is not None:
            decoded: list[Any] = self._form.decode_many(sp.csr_array(labels))
            return decoded
        if model.has_plain_labels:
            return self.decode_as(labels, "first")
        together = model._decode_batch(labels)
        if together is not None:
            return together
        return [model.decode(np.asarray(labels[i]), self.data.input(i)) for i in range(self.n)]

    def decode_as(self, labels: Any, form: LabelForm) -> list[Any]:
        """Return labels in one of the forms that a model without a codec of its own takes."""
        model = self.data.model
        if model.fixed:
            return model._decode_rows(labels, form)
        points, inputs = [np.asarray(labels[i])[None] for i in range(self.n)], map(self.data.input, range(self.n))
        found = [model._decode_rows(z, form, x)[0] for z, x in zip(points, inputs, strict=True)]
        mixed = len({isinstance(label, dict) for label in found}) > 1
        return self.decode_as(labels, "blocks") if mixed else found

    def tables(self, labels: Any) -> list[sp.csr_array]:
        if self.is_sparse:
            (term,) = self.data.model.features.values()
            factor = cast("Linear", term).factor
            data = labels.data if factor is None else labels.data * factor[labels.indices]
            return [sp.csr_array((data, labels.indices, labels.indptr), shape=labels.shape)]
        return self.data.fold(labels)

    def scores(self, tables: Sequence[FloatArray], labels: Any) -> FloatArray | None:
        data = self.data
        fits = all(len(table) == start[-1] for table, start in zip(tables, data.starts, strict=True))
        # For many variables the table of a label, which may be kept, has fewer entries.
        if not self._are_points(labels) or labels.shape[1] > _FEW_VARIABLES or not fits:
            return None
        total, space = np.zeros(self.n), data.model.space()
        for t, (name, table) in enumerate(zip(data.model.features, tables, strict=True)):
            total += np.einsum("ij,ij->i", data.unfold(t, table), labels[:, space[name].slice])
        return total

    def _are_points(self, labels: Any) -> bool:
        """Whether labels are an array of points of the one space."""
        model = self.data.model
        return bool(
            model.fixed and isinstance(labels, np.ndarray) and labels.shape == (self.n, model.space().n_variables)
        )

    def add_parts(self, t: int, labels: Any, weights: FloatArray, out: FloatArray, truth: Any = None) -> bool:
        if not self._are_points(labels) or (truth is not None and not self._are_points(truth)):
            return False
        own = self.data.block_of(t).slice
        parts = self.data.fold_blocks(t, labels[:, own] if truth is None else labels[:, own] - truth[:, own])
        factors = weights if len(parts) == self.n else np.repeat(weights, np.diff(self.data.starts[t]))
        if len(out) < len(parts):
            out += factors @ parts
        else:
            out += factors[:, None] * parts
        return True

    def from_points(self, Z: Any) -> Any:
        if self.is_sparse:
            return sp.csr_array(Z, dtype=np.float64)
        return np.asarray(Z) if self.data.model.fixed else Z if isinstance(Z, RaggedRows) else RaggedRows.of(Z)

    def mixture(self, labels: Sequence[Any], numbers: IntArray, shares: FloatArray) -> Any:
        mixed = bool(shares[1].any())
        used = np.unique(numbers) if mixed else np.unique(numbers[0])
        few = all(self._are_points(labels[k]) and labels[k].shape[1] <= _FEW_VARIABLES for k in used)
        if not few:
            return None
        points, every = np.array([labels[k] for k in used]), np.arange(self.n)
        first = points[np.searchsorted(used, numbers[0]), every]
        if not mixed:
            return first
        return shares[0][:, None] * first + shares[1][:, None] * points[np.searchsorted(used, numbers[1]), every]

    def spread(self, parts: Sequence[Any], some: IntArray | None) -> Any:
        if not self.data.model.fixed:
            chosen = range(self.n) if some is None else some.tolist()
            given = dict(zip(chosen, (row for part in parts for row in part), strict=True))
            sizes = self.data.point_sizes
            return RaggedRows.of([given[i] if i in given else np.zeros(sizes[i]) for i in range(self.n)])
        return self._spread_sparse(parts, some) if self.is_sparse else spread_rows(parts, some, self.n, 0.0)

    def _spread_sparse(self, parts: Sequence[sp.csr_array], some: IntArray | None) -> sp.csr_array:
        shape = (self.n, self.data.model.space().n_variables)
        sizes = np.concatenate([np.diff(part.indptr) for part in parts]) if parts else np.empty(0, np.int64)
        if not sizes.size:
            return sp.csr_array(shape)
        indptr = np.zeros(self.n + 1, np.int64)
        np.cumsum(spread_rows([sizes], some, self.n, 0), out=indptr[1:])
        data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
        return sp.csr_array((data, indices, indptr), shape=shape)

    def _lossy(self, points: Any) -> FloatArray:
        """Return the variables that have losses."""
        return np.asarray(points)[:, : self._n_lossy]

    def losses(self, truth: Any, given: Any = None) -> LossBatch:
        model = self.data.model
        if given is not None:
            return LossBatch.ragged([model.loss(label, self.data.input(i)) for i, label in enumerate(given)])
        if self.is_sparse:
            return sparse_losses(next(iter(model.block_losses().values())), truth)
        try:
            together = model._loss_batch(self._lossy(truth)) if model.fixed else None
        except DeclarationError:
            together = None  # one by one, they say whose fault it is
        if together is not None:
            return LossBatch(*together)
        forms: list[tuple[FloatArray, float]] = []
        for i in range(self.n):
            try:
                forms.append(model._loss_at(np.asarray(truth[i]), self.data.input(i)))
            except DeclarationError as error:
                raise DeclarationError(f"example {marked(i)}: {error}") from None
        if not model.fixed:
            return LossBatch.ragged(forms)
        return LossBatch(np.array([coef for coef, _ in forms]), np.array([const for _, const in forms]))

    def loss_parts(self, labels: Any) -> Any:
        if self.is_sparse:
            return labels
        return self._lossy(labels) if self.data.model.fixed else self.from_points(labels).flat

    @property
    def fixed_sums(self) -> IntArray | None:
        whole = self.data.model.fixed and not self.is_sparse and self._n_lossy is None
        return fixed_sums(self.data.model.space().compiled) if whole else None

    def counts(self, truth: Any) -> Counts | None:
        model = self.data.model
        if model.fixed:
            counted = model.counted()
            if self.is_sparse:
                return sparse_counts(counted, truth)
            return None if np.ndim(counted) != 1 else counts_of(self._lossy(truth), counted[: self._n_lossy])
        each = [model.counted(self.data.input(i)) for i in range(self.n)]
        if any(np.ndim(counted) != 1 for counted in each):
            return None  # sums of variables
        weights = RaggedRows.of(each)
        return counts_of(truth.flat, weights.flat, weights.ptr)


def fixed_sums(space: CompiledSpace) -> IntArray:
    """For each integer variable the number of a group whose sum is the same for all labels, -1 for none.

    Groups are rows ``a (z_1 + ... + z_k) = b`` of integer variables; of rows that share variables only the first.
    """
    group, A = np.full(space.n_variables, -1, dtype=np.int64), space.matrix
    rows = np.flatnonzero(space.row_lower == space.row_upper)
    number_groups(rows, A.indptr, A.indices, A.data, space.integrality, group)
    return group


def taken_labels(labels: Sequence[IntArray | None], numbers: IntArray, owner: IntArray) -> IntArray | None:
    """Return labels of whole numbers: those of example i are of ``labels[numbers[i]]``.

    `owner` is the example of every entry. Returns None if a needed label is None.
    """
    first, *others = np.flatnonzero(np.bincount(numbers)).tolist()
    found = labels[first]
    if found is None:
        return None
    found = found.copy()
    for k in others:
        own = labels[k]
        if own is None:
            return None
        np.copyto(found, own, where=(numbers == k)[owner])
    return found


def labels_given(Y: Any, n: int) -> Any:
    """The labels of a data set, checked to be as many as its `n` examples."""
    if isinstance(Y, StackedLabels):
        return Y if len(Y) == n else labels_given([Y[i] for i in range(len(Y))], n)
    Y = examples("y", Y)
    if n_examples(Y) != n:
        raise DeclarationError(f"{n} inputs but {n_examples(Y)} labels.")
    return Y


def refusal(refused: Mapping[int, object], n: int) -> LabelNotInSpace:
    """Return the error that lists the labels that cannot be used, by example and problem; ten are in the message."""
    problems = [f"example {marked(i)}: {refused[i]}" for i in sorted(refused)]
    listed = "\n  ".join(problems[:10]) + ("\n  ..." if len(problems) > 10 else "")
    return LabelNotInSpace(
        f"{len(problems)} of {n} labels cannot be used:\n  {listed}", tuple(problems), tuple(sorted(refused))
    )


def csr_table(data: FloatArray, indices: Any, indptr: Any, shape: tuple[int, int]) -> sp.csr_array:
    """A sparse table of arrays that are right by construction: scipy's checks take longer than small tables."""
    table = sp.csr_array.__new__(sp.csr_array)
    table.__dict__.update(_template((int(shape[0]), int(shape[1]))).__dict__)
    table.data, table.indices, table.indptr = data, indices, indptr
    return table


@lru_cache(maxsize=64)
def _template(shape: tuple[int, int]) -> sp.csr_array:
    """A table of this shape to copy, without arrays of its own."""
    table = sp.csr_array(shape)
    table.indptr = table.indices
    return table


def part_table(rows: Any, first: int = 0, last: int | None = None) -> sp.csr_array:
    """The columns ``first:last`` of a table of parts as a sparse table.

    For a dense table scipy's own conversion takes ten times as long.
    """
    if sp.issparse(rows):
        return sp.csr_array(rows[:, first:last])
    dense = np.ascontiguousarray(rows, dtype=np.float64)
    n_rows, n_columns = len(dense), (dense.shape[1] if last is None else last) - first
    size = n_rows * n_columns
    indptr, indices, data = np.empty(n_rows + 1, np.int32), np.empty(size, np.int32), np.empty(size)
    end = fill_rows(dense, first, n_columns, indptr, indices, data)
    return csr_table(data[:end].copy(), indices[:end].copy(), indptr, (n_rows, n_columns))


def spread_rows(parts: Sequence[Any], some: IntArray | None, n: int, missing: float) -> Any:
    """Rows of some examples (None: all) in their places among `n`; the others are filled with `missing`."""
    given = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0)
    if some is None:
        return given
    if not len(some):
        given = np.asarray(given).reshape(0, *np.shape(given)[1:])
    rows = np.full((n, *given.shape[1:]), missing, dtype=given.dtype)
    rows[some] = given
    return rows

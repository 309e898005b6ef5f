"""Dependency trees: every token has a head, and all lead to the root."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.algorithms import arborescence as kernels
from structopt.algorithms.arborescence import TreeParts, best_arcs
from structopt.algorithms.base import Algorithm, Optimum, RowAlgorithm, Solutions
from structopt.algorithms.cuts import rooted_cuts_below
from structopt.algorithms.parts import PartSolver
from structopt.algorithms.question import Question, per_question
from structopt.checks import call_text, checked, floats, numeric
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Shared, Term, check_data_set
from structopt.losses import TaskLoss
from structopt.losses.variables import WrongEdges
from structopt.model.data_set import DataSet
from structopt.model.slots import SlotMap, SlotModel, stacked_numbers
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.expressions import Expression
from structopt.space.lazy import concurrent

__all__ = ["Arborescence", "WrongHeads", "directed_cuts"]

#: Below 1 by this much the arcs into a set of tokens are too light.
_TOLERANCE = 1e-5


class WrongHeads(WrongEdges):
    """Number of tokens with a wrong head; ``normalize=True`` divides by the tokens: 1 - unlabelled attachment score."""

    def counted(self, size: int) -> FloatArray | None:
        return None if self.normalize else np.ones(size)


@concurrent
def directed_cuts(z: dict[str, FloatArray]) -> tuple[sp.csr_array, float, float] | None:
    """Return the sets of tokens that fewer than one arc enters, as rows.

    Every token is reached from the root, so that an arc enters every set of tokens. With one head each these
    inequalities are the polytope of the arborescences (Edmonds, *Optimum branchings*, 1967). They are found by maximum
    flows from the root to each token.
    """
    sets = rooted_cuts_below(np.ascontiguousarray(np.maximum(z["arc"], 0.0)), 1.0 - _TOLERANCE)
    if not len(sets):
        return None
    enters = (~sets[:, :, None] & sets[:, None, :]).reshape(len(sets), -1).astype(np.float64)
    return sp.csr_array(enters), 1.0, np.inf


class Arborescence(SlotModel):
    """Spanning arborescences of a sentence's arcs: dependency parsing.

    An input is an array ``(n + 1, n + 1, d)`` of arc features, row = head, column = token, 0 = root (or a CSR matrix
    with its rows in that order). Column 0 and the diagonal are not arcs: their features must be finite, but are unused.
    A label is an array of the n heads of the tokens 1, ..., n. All arcs share one weight vector.

    Parameters
    ----------
    single_root : bool
        Whether exactly one token has the root as its head.
    projective : bool
        Whether arcs must not cross, with the tokens on a line and the root in front.
    flow : {"single", "cuts"}
        How the declared program forbids cycles; see Notes.
    loss : TaskLoss, optional
        A loss on the arcs; `WrongHeads` by default.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Notes
    -----
    Labels are found by Chu-Liu/Edmonds, or Eisner's algorithm if projective, and the k best by Lawler's cells
    (docs/mathematics/oracles#arborescences). The declared program serves calls with extra rows, through HiGHS:

    - ``flow="single"``: the root sends one unit to every token along the chosen arcs, ``arc <= flow <= n arc``. It has
      ``2 (n + 1)^2`` variables. Its LP relaxation is *not* integral; the MIP is exact.
    - ``flow="cuts"``: an arc enters every set of tokens. These rows, one for each set, are lazy (`LabelSpace.lazy`),
      found by maximum flows. It has ``(n + 1)^2`` variables. Its LP relaxation is integral, with and without
      `single_root` (Edmonds' branching polytope and a face of it).

    Rows for `projective` break this integrality.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> arcs = np.array([[0, 5, 1, 1], [0, 0, 11, 4], [0, 10, 0, 5], [0, 9, 8, 0]])
    >>> model = so.structures.Arborescence()
    >>> model.predict([1.0], arcs[:, :, None])                    # one feature: the arc's score
    array([0, 1, 2])
    """

    _key_is_proved = True
    #: Number of relations of an arc; see `structopt.structures.LabelledArborescence`.
    n_labels = 1

    @checked
    def __init__(
        self,
        single_root: bool = False,
        projective: bool = False,
        flow: str = "single",
        loss: TaskLoss | None = None,
        intercept: bool = False,
        solver: Any = "auto",
    ) -> None:
        self.single_root = single_root
        self.projective = projective
        self.flow = flow
        self.intercept = intercept
        if flow == "multi":
            raise DeclarationError("flow='multi' was removed: use 'cuts', whose relaxation is integral, too.")
        if flow not in ("single", "cuts"):
            raise DeclarationError(f"flow must be 'single' or 'cuts', got {flow!r}.")
        super().__init__(
            self._program, self._arc_features(intercept), loss or WrongHeads(), key=_n_nodes, solver=solver
        )

    def _arc_features(self, intercept: bool) -> dict[str, Term]:
        return {"arc": Shared(intercept=intercept)}

    # ---- the program -----------------------------------------------------------------------------

    def _program(self, x: Any) -> LabelSpace:
        nodes = _n_nodes(x)
        space = LabelSpace(f"dependency trees of {nodes - 1} tokens")
        exists = ~np.eye(nodes, dtype=bool)
        exists[:, 0] = False
        arc = self._declare_arcs(space, exists)
        space.subject_to(arc[:, 1:].sum(axis=0) == 1, name="one head")
        if self.single_root:
            space.subject_to(arc[0].sum() == 1, name="one root")
        if self.flow == "cuts":
            space.lazy(directed_cuts, name="directed cuts")
        else:
            _one_commodity(space, arc, exists)
        if self.projective:
            rows = _crossings(nodes)
            if rows.shape[0]:
                space.subject_to(rows @ arc.ravel() <= 1, name="no crossing")
        return space

    def _declare_arcs(self, space: LabelSpace, exists: npt.NDArray[np.bool_]) -> Expression:
        """Declare the arcs; whether there is one between each pair of nodes."""
        return space.integer("arc", exists.shape, 0, exists)

    def algorithm(self, x: Any) -> Algorithm:
        """Chu-Liu/Edmonds or Eisner, for objectives on the arcs."""
        return TreeAlgorithm(self.key(x), self)  # type: ignore[arg-type]

    # ---- labels ----------------------------------------------------------------------------------

    def _slots_of(self, label: Any, size: int | None) -> IntArray:
        """Return the heads of a label of this many tokens, or raise `LabelNotInSpace` naming the culprit."""
        given = numeric("Heads", label)
        if given.ndim != 1 or not given.size or given.dtype.kind not in "iuf":
            raise DeclarationError(f"Heads are one number per token, got an array of {given.dtype} {given.shape}.")
        if size is not None and given.size != size:
            raise LabelNotInSpace(f"{given.size} heads for {size} tokens; leave out the root's own.")
        if not (given == np.rint(given)).all():
            token = int(np.argmax(given != np.rint(given)))
            raise LabelNotInSpace(f"The head of token {token + 1} is {given[token]}, not a token.", (f"{token + 1}",))
        heads = np.ascontiguousarray(given, dtype=np.int64)
        code, first, second = fault(heads, self.single_root, self.projective)
        if code:
            raise complaint(heads, code, first, second)
        return heads

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point of a label: arcs, and the flow along them."""
        return self._point(self._slots_of(label, None if x is None else _n_nodes(x) - 1))

    def _point(self, codes: IntArray) -> FloatArray:
        """Return the point of arcs ``head * n_labels + relation`` that are known to form a tree."""
        nodes, R = len(codes) + 1, self.n_labels
        z = np.zeros(nodes * nodes * (R + (self.flow == "single")))
        _fill(codes, R, z)
        return z

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """The label of a point; for a fractional one, the tree that agrees with it most."""
        point = floats("z", z, ndim=1)
        copies = self.n_labels + (self.flow == "single")
        nodes = math.isqrt(point.size // copies)
        if nodes < 2 or point.size != copies * nodes**2:
            raise DeclarationError(f"A point with {point.size} entries is not one of a dependency tree.")
        return self._label_of(self._codes_at(point, nodes))

    def _label_of(self, codes: IntArray) -> Any:
        """Return the label of numbers ``head * n_labels + relation``, in the user's form."""
        return codes

    def _codes_at(self, z: FloatArray, nodes: int) -> IntArray:
        """Return ``head * n_labels + relation`` of each token of a point; for a fractional one, of the closest tree."""
        arcs, R = z[: nodes * nodes * self.n_labels].reshape(nodes, nodes, self.n_labels), self.n_labels
        if np.abs(arcs - np.rint(arcs)).max() >= 1e-6:
            return best_arcs(arcs.ravel(), np.array([nodes]), R, self.single_root, self.projective)[0]
        by_token = arcs.transpose(1, 0, 2)[1:].reshape(nodes - 1, nodes * R)
        return np.asarray(by_token.argmax(axis=1), dtype=np.int64)

    def loss(self, label: Any, x: Any = None) -> tuple[FloatArray, float]:
        """Coefficients and constant of the task loss of this ground truth."""
        return self._loss_at(self.encode(label, x), len(label) + 1 if x is None else x)

    def _sizes(self, X: Any) -> IntArray:
        # Numbers of nodes of the inputs, with the root.
        check_data_set(X)
        return np.array([_n_nodes(x) for x in X], dtype=np.int64)

    def _rows_of_sizes(self, sizes: IntArray) -> IntArray:
        # A feature row for every pair of nodes.
        return sizes**2

    # ---- heads of a data set ---------------------------------------------------------------------

    def _slot_map(self, data: DataSet) -> SlotMap:
        sizes = cast("IntArray", data.sizes)
        tokens = sizes - 1
        ptr = np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)
        example = np.repeat(np.arange(data.n), tokens)
        token = np.arange(ptr[-1]) - ptr[example] + 1
        width = data.columns[0]  # relations, if arcs have any
        base, stride = (data.starts[0][example] + token) * width, sizes[example] * width
        return SlotMap(ptr, base.astype(np.int64), stride.astype(np.int64), width, tokens.tolist())

    def _all_slots(self, Y: Any, ptr: IntArray, sizes: Sequence[int]) -> IntArray | None:
        flat = stacked_numbers(Y, ptr)
        return None if flat is None else self._all_heads(flat, ptr)

    def _all_heads(self, flat: npt.NDArray[Any], ptr: IntArray) -> IntArray | None:
        heads = np.ascontiguousarray(flat, dtype=np.int64)
        allowed = flat.ndim == 1 and _are_trees(heads, ptr, self.single_root, self.projective)
        return heads if allowed else None

    def _slots_at(self, Z: Iterable[Any], sizes: Sequence[int]) -> IntArray:
        return np.concatenate([self._codes_at(np.asarray(z), size + 1) for z, size in zip(Z, sizes, strict=True)])

    def _labels_of_slots(self, slots: IntArray, ptr: IntArray) -> list[Any]:
        return [self._label_of(codes) for codes in super()._labels_of_slots(slots, ptr)]

    def _task_of(self, size: int) -> TaskLoss:
        return self._loss["arc"] if isinstance(self._loss, dict) else cast("TaskLoss", self._loss)

    def _part_solver(self, data: DataSet) -> PartSolver:
        # Chu-Liu/Edmonds or Eisner for all sentences.
        return TreeParts(cast("IntArray", data.sizes), data.columns[0], self.single_root, self.projective)

    __repr__ = call_text


class TreeAlgorithm(RowAlgorithm):
    """Best trees of one size; objectives on the flow are left to the solver."""

    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE
    steps = per_question(
        argmax="nodes^2; nodes^3 if projective",
        k_best="k x nodes x one best tree",
        outside="forbidden x nodes x one best tree",
    )

    def __init__(self, nodes: int, model: Arborescence) -> None:
        self.nodes = nodes
        self.n_labels = model.n_labels
        self.rules = (model.single_root, model.projective)
        self.name = ("Eisner" if model.projective else "Chu-Liu/Edmonds") + " with relations" * (self.n_labels > 1)
        self._point = model._point

    def _scores(self, c: FloatArray) -> FloatArray | None:
        size = self.nodes * self.nodes * self.n_labels
        return None if c[size:].any() else c[:size]

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        scores = self._scores(c)
        if scores is None:
            return None
        if self.n_labels == 1:
            codes, value = kernels.arborescence(scores.reshape(self.nodes, self.nodes), *self.rules)
        else:
            codes, values = best_arcs(scores, np.array([self.nodes]), self.n_labels, *self.rules)
            value = float(values[0])
        return Optimum(self._point(codes), value, value)

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        scores = self._scores(c)
        if scores is None:
            return None
        if k < 1:
            return Solutions.stacked([], c.size)
        table = scores.reshape(self.nodes, self.nodes, self.n_labels)
        found, values = kernels.k_best(np.ascontiguousarray(table.max(axis=2)), k, *self.rules)
        if self.n_labels > 1:
            found, values = self._k_best_relations(table, found, k)
        return Solutions(np.array([self._point(codes) for codes in found]).reshape(-1, c.size), values, values)

    def _k_best_relations(self, scores: FloatArray, trees: IntArray, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k best labelled trees of these trees, and their values."""
        values, found = np.empty(0), np.empty((0, self.nodes - 1), dtype=np.int64)
        for heads in trees:
            own, relations = _k_best_sums(scores[heads, np.arange(1, self.nodes)], k)
            values, found = np.append(values, own), np.vstack([found, heads * self.n_labels + relations])
            kept = np.argsort(-values, kind="stable")[:k]
            values, found = values[kept], found[kept]
        return found, values


def _k_best_sums(scores: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
    """The k largest sums of one entry from each row, and the columns: token by token, of the k best so far."""
    values, columns = np.zeros(1), np.empty((1, 0), dtype=np.int64)
    for row in scores:
        sums = (values[:, None] + row).ravel()
        kept = np.argsort(-sums, kind="stable")[:k]
        before, column = np.divmod(kept, len(row))
        values, columns = sums[kept], np.column_stack([columns[before], column])
    return values, columns


# ---- inputs --------------------------------------------------------------------------------------


def _n_nodes(x: Any) -> int:
    """Number of nodes of an input, with the root; an integer stands for itself."""
    if isinstance(x, int | np.integer):
        return int(x)
    shape: Sequence[int] = x.shape if hasattr(x, "shape") else np.shape(x)
    if sp.issparse(x):
        nodes = math.isqrt(shape[0])
        square = len(shape) == 2 and nodes * nodes == shape[0]
    else:
        nodes = shape[0] if shape else 0
        square = len(shape) == 3 and shape[0] == shape[1]
    if not square or nodes < 2:
        raise DeclarationError(
            f"An input of Arborescence has shape (n + 1, n + 1, d), head by token with the root as 0, or is a sparse "
            f"matrix of (n + 1)^2 rows; got {tuple(shape)}."
        )
    return nodes


# ---- rows ----------------------------------------------------------------------------------------


def _one_commodity(space: LabelSpace, arc: Expression, exists: npt.NDArray[np.bool_]) -> None:
    tokens = len(exists) - 1
    flow = space.continuous("flow", exists.shape, 0, tokens * exists)
    head, token = np.nonzero(exists)
    # An arc between tokens carries at most what the root has left after serving its head.
    most = np.where(head == 0, tokens, max(1, tokens - 1))
    space.subject_to(flow[head, token] <= most * arc[head, token], name="flow on arcs")
    space.subject_to(flow[head, token] >= arc[head, token], name="arcs have flow")
    space.subject_to(flow[:, 1:].sum(axis=0) - flow[1:].sum(axis=1) == 1, name="one unit each")


def _crossings(nodes: int) -> sp.csr_array:
    """Rows ``arcs between i and j + arcs into v across them <= 1``, for every span i < j and token v off its ends.

    A node has one head, so that all arcs that cross the span at v share a row: O(n^3) rows instead of O(n^4) pairs.
    """
    i, j = np.triu_indices(nodes, k=1)
    place = np.arange(nodes)
    inside = (place > i[:, None]) & (place < j[:, None])
    outside = (place < i[:, None]) | (place > j[:, None])
    # Heads on the other side of the span than v, (span, v, head).
    across = (inside[:, :, None] & outside[:, None, :]) | (outside[:, :, None] & inside[:, None, :])
    across[:, 0] = False
    span, token, head = np.nonzero(across)
    rows, row = np.unique(span * nodes + token, return_inverse=True)
    ends = rows // nodes
    number = np.arange(len(rows))
    columns = np.concatenate([head * nodes + token, i[ends] * nodes + j[ends], j[ends] * nodes + i[ends]])
    entries = (np.ones(len(columns)), (np.concatenate([row, number, number]), columns))
    return sp.csr_array(entries, shape=(len(rows), nodes * nodes))


# ---- heads: what may be wrong with them, and the flow along them ---------------------------------

_OUTSIDE, _SELF, _CYCLE, _ROOTS, _CROSS = 1, 2, 3, 4, 5


@kernel
def fault(heads: IntArray, single_root: bool, projective: bool) -> tuple[int, int, int]:
    """What is wrong with heads, and the tokens concerned; 0 if nothing is."""
    n = heads.size
    for m in range(1, n + 1):
        if heads[m - 1] < 0 or heads[m - 1] > n:
            return _OUTSIDE, m, heads[m - 1]
        if heads[m - 1] == m:
            return _SELF, m, m
    mark = np.zeros(n + 1, np.int64)
    mark[0] = -1
    for m in range(1, n + 1):
        v = m
        while mark[v] == 0:
            mark[v] = m
            v = heads[v - 1]
        if mark[v] == m:
            return _CYCLE, v, v
        v = m
        while mark[v] == m:
            mark[v] = -1
            v = heads[v - 1]
    if single_root:
        first = 0
        for m in range(1, n + 1):
            if heads[m - 1] == 0:
                if first:
                    return _ROOTS, first, m
                first = m
    if projective:
        for m in range(1, n + 1):
            low, high = min(m, heads[m - 1]), max(m, heads[m - 1])
            for k in range(1, m):
                start, stop = min(k, heads[k - 1]), max(k, heads[k - 1])
                if low < start < high < stop or start < low < stop < high:
                    return _CROSS, k, m
    return 0, 0, 0


@kernel
def _are_trees(heads: IntArray, ptr: IntArray, single_root: bool, projective: bool) -> bool:
    wrong = 0
    for i in range(ptr.size - 1):
        wrong += fault(heads[ptr[i] : ptr[i + 1]], single_root, projective)[0]
    return wrong == 0


def complaint(heads: IntArray, code: int, first: int, second: int) -> LabelNotInSpace:
    """The error for what `fault` found."""
    names: tuple[str, ...] = (str(first), str(second))
    if code == _OUTSIDE:
        message = f"The head of token {first} is {second}; heads are 0 (the root) to {heads.size}."
    elif code == _SELF:
        message = f"Token {first} is its own head; a token that hangs from the root has head 0."
    elif code == _CYCLE:
        cycle = [first]
        while heads[cycle[-1] - 1] != first:
            cycle.append(int(heads[cycle[-1] - 1]))
        names = tuple(map(str, cycle))
        message = f"The heads form a cycle, token by token {' -> '.join([*names, names[0]])}, which never reaches 0."
    elif code == _ROOTS:
        message = f"Tokens {first} and {second} both hang from the root; single_root=True allows one."
    else:
        arcs = [f"{heads[k - 1]} -> {k}" for k in (first, second)]
        message = f"The arcs {arcs[0]} and {arcs[1]} cross; projective=True forbids it."
    return LabelNotInSpace(message, names)


@kernel
def _fill(codes: IntArray, n_labels: int, z: FloatArray) -> None:
    """Write the arcs of a tree, and the flow along them if z has it: one unit from the root to every token."""
    nodes = codes.size + 1
    n_arcs = nodes * nodes * n_labels
    for k in range(1, nodes):
        head, relation = divmod(codes[k - 1], n_labels)
        z[(head * nodes + k) * n_labels + relation] = 1.0
        v = k if z.size > n_arcs else 0
        while v:
            head = codes[v - 1] // n_labels
            z[n_arcs + head * nodes + v] += 1.0
            v = head

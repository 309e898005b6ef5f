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
from structopt.algorithms.arborescence import TreeParts
from structopt.algorithms.base import Algorithm, Optimum, RowAlgorithm, Solutions
from structopt.algorithms.cuts import rooted_cuts_below
from structopt.algorithms.parts import PartSolver
from structopt.algorithms.question import Question, per_question
from structopt.checks import checked, floats, numeric
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Shared, Term, check_data_set
from structopt.losses import TaskLoss
from structopt.model.data_set import DataSet
from structopt.model.slots import SlotMap, SlotModel, stacked_numbers
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.expressions import Expression

__all__ = ["Arborescence", "DirectedCuts", "WrongHeads"]

#: Below 1 by so much the arcs into a set of tokens are too light.
_TOLERANCE = 1e-5


class WrongHeads(TaskLoss):
    """Number of tokens with a wrong head (on points that give each token one head).

    Parameters
    ----------
    normalize : bool
        Divide by the number of tokens: one minus the unlabelled attachment score.
    """

    @checked
    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _scale(self, size: int) -> float:
        return 1.0 / max(1, math.isqrt(size) - 1) if self.normalize else 1.0

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        arcs = np.asarray(truth, dtype=np.float64).ravel()
        scale = self._scale(arcs.size)
        return -scale * arcs, scale * float(arcs.sum())

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        if type(self).linear is not WrongHeads.linear:  # a loss of the user's own, made from this one
            return super().linear_batch(truths)
        arcs = np.asarray(truths, dtype=np.float64)
        scale = self._scale(arcs.shape[1])
        return -scale * arcs, scale * arcs.sum(axis=1)

    def _linear_ones(self, ones: IntArray, n: int, size: int) -> tuple[FloatArray, FloatArray] | None:
        tokens = math.isqrt(size) - 1
        if type(self).linear is not WrongHeads.linear or len(ones) != n * tokens:
            return None
        coef, scale = np.zeros(n * size), self._scale(size)
        coef[ones] = -scale
        return coef, np.full(n, scale * tokens)

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        shape = (-1, math.isqrt(np.size(truth)))
        heads, wanted = (np.asarray(arcs).reshape(shape)[:, 1:].argmax(axis=0) for arcs in (y, truth))
        return self._scale(np.size(truth)) * float((heads != wanted).sum())

    def counted(self, size: int) -> FloatArray | None:
        return None if self.normalize else np.ones(size)

    def __repr__(self) -> str:
        return f"WrongHeads({'normalize=True' if self.normalize else ''})"


class DirectedCuts:
    """The separation of arborescences: sets of tokens that fewer than one arc enters.

    Every token is reached from the root, so that an arc enters every set of tokens. With one head each these
    inequalities are the polytope of the arborescences (Edmonds, *Optimum branchings*, 1967). They are found by maximum
    flows from the root to each token.

    Parameters
    ----------
    nodes : int
        With the root.

    Examples
    --------
    Tokens 1 and 2 are the heads of each other:

    >>> import numpy as np
    >>> arc = np.zeros((3, 3))
    >>> arc[1, 2] = arc[2, 1] = 1.0
    >>> matrix, lower, upper = DirectedCuts(3)({"arc": arc})
    >>> matrix.toarray().reshape(3, 3), lower
    (array([[0., 1., 1.],
           [0., 0., 0.],
           [0., 0., 0.]]), 1.0)
    """

    #: Threads may call it at once (see `Separation.lock`): it has no state, and its kernels run side by side.
    concurrent = True

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def __call__(self, z: dict[str, FloatArray]) -> tuple[sp.csr_array, float, float] | None:
        arc = np.ascontiguousarray(np.maximum(z["arc"], 0.0))
        sets = rooted_cuts_below(arc, 1.0 - _TOLERANCE)
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
            space.lazy(DirectedCuts(nodes), name="directed cuts")
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
        """The point of a list of heads: arcs, and the flow along them."""
        return self._point(self._slots_of(label, None if x is None else _n_nodes(x) - 1))

    def _point(self, heads: IntArray) -> FloatArray:
        """Return the point of heads that are known to form a tree."""
        nodes = len(heads) + 1
        if self.flow == "cuts":
            arcs = np.zeros((nodes, nodes))
            arcs[heads, np.arange(1, nodes)] = 1.0
            return arcs.ravel()
        z = np.zeros(2 * nodes * nodes)
        parts = z.reshape(2, nodes, nodes)
        fill(heads, parts[0], parts[1])
        return z

    def decode(self, z: npt.ArrayLike, x: Any = None) -> IntArray:
        """The heads of a point; for a fractional one, the tree that agrees with it most."""
        point = floats("z", z, ndim=1)
        copies = 1 if self.flow == "cuts" else 2
        nodes = math.isqrt(point.size // copies)
        if nodes < 2 or point.size != copies * nodes**2:
            raise DeclarationError(f"A point with {point.size} entries is not one of a dependency tree.")
        arcs = point[: nodes * nodes].reshape(nodes, nodes)
        if np.abs(arcs - np.rint(arcs)).max() < 1e-6:
            return np.asarray(arcs[:, 1:].argmax(axis=0))
        return kernels.arborescence(arcs, self.single_root, self.projective)[0]

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
        return np.concatenate([self.decode(np.asarray(z)) for z in Z])

    def _task_of(self, size: int) -> TaskLoss:
        return self._loss["arc"] if isinstance(self._loss, dict) else cast("TaskLoss", self._loss)

    def _part_solver(self, data: DataSet) -> PartSolver:
        # Chu-Liu/Edmonds or Eisner for all sentences.
        return TreeParts(cast("IntArray", data.sizes), data.columns[0], self.single_root, self.projective)

    def __repr__(self) -> str:
        flags = [name for name in ("single_root", "projective", "intercept") if getattr(self, name)]
        options = [f"{name}=True" for name in flags] + ([] if self.flow == "single" else [f"flow={self.flow!r}"])
        return f"Arborescence({', '.join(options)})"


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
        self.rules = (model.single_root, model.projective)
        self.name = "Eisner" if model.projective else "Chu-Liu/Edmonds"
        self._point = model._point

    def _scores(self, c: FloatArray) -> FloatArray | None:
        size = self.nodes * self.nodes
        return None if c[size:].any() else c[:size].reshape(self.nodes, self.nodes)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        scores = self._scores(c)
        if scores is None:
            return None
        heads, value = kernels.arborescence(scores, *self.rules)
        return Optimum(self._point(heads), value, value)

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        scores = self._scores(c)
        if scores is None:
            return None
        if k < 1:
            return Solutions.stacked([], c.size)
        found, values = kernels.k_best(scores, k, *self.rules)
        return Solutions(np.array([self._point(heads) for heads in found]).reshape(-1, c.size), values, values)


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
def fill(heads: IntArray, arc: FloatArray, flow: FloatArray) -> None:
    """Arcs of a tree and the flow on them: one unit from the root to every token."""
    for k in range(1, heads.size + 1):
        arc[heads[k - 1], k] = 1.0
        v = k
        while v:
            h = heads[v - 1]
            flow[h, v] += 1.0
            v = h

"""Binary pairwise models on a fixed graph: relaxed by roof duality, exact by persistency or enumeration.

    max  sum_j c_j y_j + sum_e c_e p_e,   p_e <= y_i, p_e <= y_j, p_e >= y_i + y_j - 1,   0 <= y, p <= 1

`PairwiseGraph` holds the adjacency, so that a call takes little longer than its flow. docs/mathematics/oracles.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, floats
from structopt._jit.threads import in_threads
from structopt.algorithms.maxflow import FlowState, adjacency, check_arcs
from structopt.algorithms.pairwise.cycle_relaxation import tighten_rows
from structopt.algorithms.pairwise.enumeration import MAX_LABELS
from structopt.algorithms.pairwise.exact import ENUMERATE_AT
from structopt.algorithms.pairwise.halves import HalfLabels, count_pairs, fill_pairs, half_scores
from structopt.algorithms.pairwise.loops import (
    enumerate_rows,
    exact_rows,
    front_rows,
    product_rows,
    relax_rows,
)
from structopt.algorithms.pairwise.roof import slot_ends
from structopt.errors import DeclarationError
from structopt.recognize._kernels import components

__all__ = ["PairwiseGraph"]

BoolArray = npt.NDArray[np.bool_]
#: Rows of a batch that are tightened in one call of the kernel: at 20 open labels some milliseconds each.
_TIGHTENED = 64


class PairwiseGraph:
    """Oracles of the binary pairwise model over one graph.

    Ties. Relaxation: of the half-integral optima with the fewest halves the lexicographically smallest. Exact: the
    lexicographically smallest best label for up to 16 labels, beyond that the first that a deterministic search meets.

    Every value is ``c.z`` of the answer in float64. An answer is within ``(n_labels + n_edges) 2^-59 sum|c|`` of the
    optimum, since coefficients are rounded to 60-bit integers. Calls may share a graph between threads.
    """

    def __init__(self, n_labels: int, i: npt.ArrayLike, j: npt.ArrayLike) -> None:
        self.n_labels = n = int(n_labels)
        self.i, self.j = check_arcs(n, i, j, ("i", "j"))
        self.n_edges = m = self.i.size
        ptr, slot_i, slot_j = adjacency(n, self.i, self.j)
        self._ptr = np.concatenate((ptr, ptr[1:] + np.int32(2 * m)))
        self._edges = np.stack((self.i, self.j, slot_i, slot_j), axis=1)
        # Cold calls pass these to the kernels in place of a warm state.
        self._no_state = (np.empty((0, 0), np.int64), np.empty((0, 0), np.bool_), np.empty(0, np.int64))

    def __repr__(self) -> str:
        return f"PairwiseGraph(n_labels={self.n_labels}, n_edges={self.n_edges})"

    @cached_property
    def is_forest(self) -> bool:
        """Whether the edges form a forest: then the relaxation is integral for all coefficients."""
        # In a graph with a cycle some choice of signs is frustrated, and in a forest none is.
        n_trees, _ = components(self.i.astype(np.int64), self.j.astype(np.int64), self.n_labels)
        return bool(n_trees == self.n_labels - self.n_edges)

    def products(self, y: FloatArray) -> FloatArray:
        """Return the products of the two labels of each edge, for labels in the last axis."""
        found: FloatArray = y.take(self.i, axis=-1)
        found *= y.take(self.j, axis=-1)
        return found

    def warm_state(self, n_examples: int = 1) -> FlowState:
        """Room for the flows of ``n_examples`` examples: 17 bytes an edge each."""
        return FlowState(n_examples, 2 * self.n_edges, self.n_edges)

    def solve(
        self,
        unary: npt.ArrayLike,
        pair: npt.ArrayLike,
        state: FlowState | None = None,
        index: int = 0,
    ) -> tuple[FloatArray, FloatArray, float]:
        """Return the labels, pairs and value of a maximum over the local polytope; row `index` of a state warms it."""
        u = self._vector(unary, self.n_labels, "unary")
        c = self._vector(pair, self.n_edges, "pair")
        if state is not None:
            state.check(2 * self.n_edges, self.n_edges, index)
        twice, Z, value = (
            np.empty((1, self.n_labels), np.int8),
            np.empty((1, self.n_labels + self.n_edges)),
            np.empty(1),
        )
        self._relax_rows(u[None], c[None], state, np.array([index]), 0, 1, twice, Z, value)
        if value[0] != value[0]:
            _refuse(u, c)
        return Z[0, : self.n_labels], Z[0, self.n_labels :], float(value[0])

    def _relax_rows(self, U: FloatArray, P: FloatArray, state: FlowState | None, *rest: Any) -> None:
        kept = self._no_state if state is None else (state.flow, state.negative, state.exponent)
        relax_rows(self._ptr, self._edges, U, P, state is not None, *kept, *rest)

    def solve_points(
        self,
        unary: npt.ArrayLike,
        pair: npt.ArrayLike,
        state: FlowState | None = None,
        owner: IntArray | None = None,
        n_jobs: int = 1,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the points ``(y, p)`` of `solve` for all rows of ``unary`` and ``pair``, and their values.

        Row ``owner[k]`` of the state warms row k: a batch of some examples needs no copy of their flows.
        """
        U, P = self._matrices(unary, pair, one_for_all=True)
        Z = np.empty((len(U), self.n_labels + self.n_edges))
        _, values = self._relax(U, P, state, owner, n_jobs, Z)
        return Z, values

    def solve_labels(self, unary: npt.ArrayLike, pair: npt.ArrayLike, n_jobs: int = 1) -> tuple[HalfLabels, FloatArray]:
        """Solve as `solve_points`, but return labels only: their pairs follow from them."""
        U, P = self._matrices(unary, pair, one_for_all=True)
        twice, values = self._relax(U, P, None, None, n_jobs, np.empty((len(U), 0)))
        return HalfLabels.of(twice, P >= 0.0), values

    def scores_of(self, labels: HalfLabels, unary: FloatArray, pair: FloatArray) -> FloatArray:
        """Return the objectives ``unary`` (B, n_labels) and ``pair`` (B, n_edges) at B labels."""
        U, P = self._matrices(unary, pair, one_for_all=True)
        values = np.empty(len(U))
        half_scores(self._ptr, *self._slots, labels.twice, labels.attracts, labels.objective, U, P, values)
        return values

    def pairs_of(self, labels: HalfLabels) -> tuple[Any, Any, Any]:
        """Return the pairs of labels as the arrays of a CSR matrix: row pointers, numbers of edges, values."""
        given = self._ptr, *self._slots, labels.twice, labels.attracts, labels.objective
        indptr = np.empty(len(labels) + 1, np.int32)
        count_pairs(*given, indptr)
        indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
        fill_pairs(*given, indices, data)
        return indptr, indices, data

    @cached_property
    def _slots(self) -> tuple[Any, Any]:
        """Edge of every slot of the labels, and the label at its other end."""
        edge, end = slot_ends(2 * self.n_edges, self._edges)
        return edge, end

    def _relax(
        self,
        U: FloatArray,
        P: FloatArray,
        state: FlowState | None,
        owner: IntArray | None,
        n_jobs: int,
        Z: FloatArray,
    ) -> tuple[npt.NDArray[np.int8], FloatArray]:
        """Return labels, as ``2 y``, and values of all rows; write their points into Z if it has columns."""
        B = U.shape[0]
        rows = np.arange(B) if owner is None else owner
        if state is not None:
            state.check(2 * self.n_edges, self.n_edges)
            if (len(state) if owner is None else len(rows)) != B:
                raise DeclarationError(f"the batch has {B} examples and the warm state {len(state)}.")
        twice, values = np.empty((B, self.n_labels), np.int8), np.empty(B)

        def work(first: int, last: int) -> None:
            self._relax_rows(U, P, state, rows, first, last, twice, Z, values)

        in_threads(work, B, n_jobs)
        _refuse_rows(U, P, values)
        return twice, values

    def tighten(
        self, unary: npt.ArrayLike, pair: npt.ArrayLike, Z: FloatArray, values: FloatArray, n_jobs: int = 1
    ) -> FloatArray:
        """Replace points of `solve_points` and their values by optima with all cycle inequalities; return their bounds.

        A bound is infinite if roof duality leaves too many labels open. The point then stays as it is.
        """
        U, P = self._matrices(unary, pair, one_for_all=True)
        bounds = np.empty(len(U))

        def work(first: int, last: int) -> None:
            # In pieces: Ctrl-C is raised between two calls of a kernel, never inside one.
            for k in range(first, last, _TIGHTENED):
                tighten_rows(self.i, self.j, U, P, k, min(k + _TIGHTENED, last), Z, values, bounds)

        in_threads(work, len(U), n_jobs)
        return bounds

    def solve_exact(self, unary: npt.ArrayLike, pair: npt.ArrayLike) -> tuple[FloatArray, float, bool]:
        """Return the best 0/1 label, its value, and whether it is proved best; if not, it is the best one met."""
        u = self._vector(unary, self.n_labels, "unary")
        c = self._vector(pair, self.n_edges, "pair")
        Y, values, proved = self._exact(u[None], c[None], 1)
        value = float(values[0])
        if value != value:
            _refuse(u, c)
        return Y[0], value, bool(proved[0])

    def solve_exact_batch(
        self, unary: npt.ArrayLike, pair: npt.ArrayLike, n_jobs: int = 1
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return `solve_exact` for every row of ``unary`` (B, n_labels) and ``pair`` (B, n_edges)."""
        U, P = self._matrices(unary, pair)
        Y, values, proved = self._exact(U, P, n_jobs)
        _refuse_rows(U, P, values)
        return Y, values, proved

    def _exact(self, U: FloatArray, P: FloatArray, n_jobs: int) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return labels, values and proofs of the rows of U and P; a value is NaN if a coefficient is not finite."""
        B = U.shape[0]
        Y, values, proved = np.empty((B, self.n_labels)), np.empty(B), np.ones(B, np.bool_)

        def work(first: int, last: int) -> None:
            if self.n_labels <= ENUMERATE_AT:
                enumerate_rows(self.i, self.j, U, P, first, last, Y, values)
            else:
                exact_rows(self.i, self.j, U, P, first, last, Y, values, proved)

        in_threads(work, B, n_jobs)
        return Y, values, proved

    def best_product_batch(
        self,
        h_unary: npt.ArrayLike,
        h_pair: npt.ArrayLike,
        h_const: npt.ArrayLike,
        g_unary: npt.ArrayLike,
        g_const: npt.ArrayLike,
        n_jobs: int = 1,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the 0/1 label with the largest ``h(y) g(y)`` for every row of ``h_unary`` and ``g_unary``.

        Exact slack rescaling in one call, with h = 1 + margin error and g = loss >= 0. The rows share the pair
        coefficients of h; g has no pairs. Returns the labels (B, n_labels) and their h and g.
        """
        U, G = floats(h_unary, "h_unary", 2), floats(g_unary, "g_unary", 2)
        c = self._vector(h_pair, self.n_edges, "h_pair")
        h0, g0 = floats(h_const, "h_const", 1), floats(g_const, "g_const", 1)
        B = U.shape[0]
        if self.n_labels > MAX_LABELS or U.shape != (B, self.n_labels) or G.shape != U.shape:
            raise DeclarationError(
                f"h_unary and g_unary must have shape (B, {self.n_labels}) with at most {MAX_LABELS} labels; "
                f"they have {U.shape} and {G.shape}."
            )
        for name, const in (("h_const", h0), ("g_const", g0)):
            if const.size != B:
                raise DeclarationError(f"{name} must have an entry for each of the {B} rows; it has {const.size}.")
        if not math.isfinite(U.sum() + c.sum() + h0.sum() + G.sum() + g0.sum()):
            _require_finite(h_unary=U.ravel(), h_pair=c, h_const=h0, g_unary=G.ravel(), g_const=g0)
        Y, h, g = np.empty((B, self.n_labels)), np.empty(B), np.empty(B)

        def work(first: int, last: int) -> None:
            product_rows(self.i, self.j, U, c, h0, G, g0, first, last, Y, h, g)

        in_threads(work, B, n_jobs)
        return Y, h, g

    def front_batch(
        self,
        h_unary: npt.ArrayLike,
        h_pair: npt.ArrayLike,
        h_const: FloatArray,
        g_unary: FloatArray,
        g_const: FloatArray,
        n_jobs: int = 1,
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return the 0/1 labels whose point (h, g) is not dominated, by falling h: row pointers, labels, h and g.

        The argmax of every psi(h, g) that falls in neither argument is among them. At most 20 labels; g has no pairs.
        """
        U, P = self._matrices(h_unary, h_pair)
        B = U.shape[0]
        if self.n_labels > MAX_LABELS:
            raise DeclarationError(f"enumeration is offered for at most {MAX_LABELS} labels, this graph has {self!r}.")
        G, h0, g0 = floats(g_unary, "g_unary", 2), floats(h_const, "h_const", 1), floats(g_const, "g_const", 1)
        if not math.isfinite(U.sum() + P.sum() + h0.sum() + G.sum() + g0.sum()):
            _require_finite(h_unary=U.ravel(), h_pair=P.ravel(), h_const=h0, g_unary=G.ravel(), g_const=g0)
        none = np.empty((0, self.n_edges))
        counts = np.zeros(B, dtype=np.int64)
        parts: dict[int, Any] = {}

        def work(first: int, last: int) -> None:
            parts[first] = front_rows(self.i, self.j, U, P, h0, G, none, g0, first, last, counts)

        in_threads(work, B, n_jobs)
        codes, h, g = (np.concatenate([parts[first][k] for first in sorted(parts)]) for k in range(3))
        return np.concatenate([[0], np.cumsum(counts)]), self.labels_of(codes), h, g

    def labels_of(self, codes: IntArray) -> FloatArray:
        """Return labels by their codes (`structopt.algorithms.pairwise.enumeration`)."""
        return ((codes[:, None] >> np.arange(self.n_labels - 1, -1, -1)) & 1).astype(np.float64)

    def _vector(self, values: npt.ArrayLike, size: int, name: str) -> FloatArray:
        array = floats(values, name, 1)
        if array.size != size:
            raise DeclarationError(f"{name} must have {size} entries for {self!r}; it has {array.size}.")
        return array

    def _matrices(
        self, unary: npt.ArrayLike, pair: npt.ArrayLike, one_for_all: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return coefficients as kernels take them; with `one_for_all`, pairs that all rows share are one row."""
        U = floats(unary, "unary", 2)
        n_rows = len(U)
        if one_for_all and isinstance(pair, np.ndarray) and pair.ndim == 2 and not pair.strides[0]:
            pair, n_rows = pair[: 1 if len(pair) == n_rows else None], min(1, n_rows)
        P = floats(pair, "pair", 2)
        if U.shape[1] != self.n_labels or P.shape != (n_rows, self.n_edges):
            raise DeclarationError(
                f"unary and pair must have shapes (B, {self.n_labels}) and (B, {self.n_edges}) for {self!r}; "
                f"they have {U.shape} and {P.shape}."
            )
        return U, P


def _refuse(unary: FloatArray, pair: FloatArray) -> None:
    _require_finite(unary=unary, pair=pair)
    raise DeclarationError("the value overflows float64; scale the coefficients down.")


def _require_finite(**costs: Any) -> None:
    for name, given in costs.items():
        values = np.atleast_1d(given)
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            k = int(wrong[0])
            at = f"[{k}]" if np.ndim(given) else ""
            raise DeclarationError(f"{name}{at} is {values[k]}; coefficients must be finite numbers.")


def _refuse_rows(U: FloatArray, P: FloatArray, values: FloatArray) -> None:
    wrong = np.flatnonzero(np.isnan(values))
    if wrong.size:
        row = int(wrong[0])
        try:
            _refuse(U[row], P[row if len(P) > 1 else 0])
        except DeclarationError as error:
            raise DeclarationError(f"example {row} of the batch: {error}") from None

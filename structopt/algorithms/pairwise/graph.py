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
from structopt._jit.products import dot
from structopt._jit.threads import in_threads
from structopt.algorithms.maxflow import FlowState, adjacency
from structopt.algorithms.pairwise.cycle_relaxation import tighten_rows
from structopt.algorithms.pairwise.exact import ENUMERATE_AT
from structopt.algorithms.pairwise.halves import HalfLabels, fill_pairs, half_scores
from structopt.algorithms.pairwise.loops import (
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
#: Flows, signs and exponents in place of those of a warm state.
_NO_STATE = (np.empty((0, 0), np.int64), np.empty((0, 0), np.bool_), np.empty(0, np.int64))


class PairwiseGraph:
    """Oracles of the binary pairwise model over one graph.

    Ties. Relaxation: of the half-integral optima with the fewest halves the lexicographically smallest. Exact: the
    lexicographically smallest best label for up to 16 labels, beyond that the first that a deterministic search meets.

    Every value is ``c.z`` of the answer in float64. An answer is within ``(n_labels + n_edges) 2^-59 sum|c|`` of the
    optimum, since coefficients are rounded to 60-bit integers. Calls may share a graph between threads.
    """

    def __init__(self, n_labels: int, i: npt.ArrayLike, j: npt.ArrayLike) -> None:
        self.n_labels = n = int(n_labels)
        self.i, self.j = (np.ascontiguousarray(ends, dtype=np.int32) for ends in (i, j))
        self.n_edges = m = self.i.size
        ptr, slot_i, slot_j = adjacency(n, self.i, self.j)
        self._ptr = np.concatenate((ptr, ptr[1:] + np.int32(2 * m)))
        self._edges = np.stack((self.i, self.j, slot_i, slot_j), axis=1)

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

    def with_products(self, y: FloatArray) -> FloatArray:
        """Return labels followed by their products."""
        return np.concatenate([y, self.products(y)], axis=-1)

    def warm_state(self, n_examples: int) -> FlowState:
        """Room for the flows of ``n_examples`` examples: 17 bytes an edge each."""
        return FlowState(n_examples, 2 * self.n_edges, self.n_edges)

    def solve_points(
        self,
        unary: npt.ArrayLike,
        pair: npt.ArrayLike,
        state: FlowState | None = None,
        owner: IntArray | None = None,
        n_jobs: int = 1,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the best points ``(y, p)`` of the local polytope for all rows of ``unary`` and ``pair``, and values.

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
        fill_pairs(*given, indptr, None, None)
        indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
        fill_pairs(*given, indptr, indices, data)
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
        rows = np.arange(len(U)) if owner is None else owner
        kept = _NO_STATE if state is None else (state.flow, state.negative, state.exponent)
        twice, values = np.empty((len(U), self.n_labels), np.int8), np.empty(len(U))

        def work(first: int, last: int) -> None:
            relax_rows(self._ptr, self._edges, U, P, state is not None, *kept, rows, first, last, twice, Z, values)

        in_threads(work, len(U), n_jobs)
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

    def solve_exact(
        self, unary: npt.ArrayLike, pair: npt.ArrayLike, n_jobs: int = 1
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the best 0/1 labels for all rows, their values, and whether each is proved best.

        A label that is not proved best is the best one met.
        """
        U, P = self._matrices(unary, pair)
        Y, values, proved = np.empty(U.shape), np.empty(len(U)), np.ones(len(U), np.bool_)

        searched = None if self.n_labels <= ENUMERATE_AT else proved

        def work(first: int, last: int) -> None:
            exact_rows(self.i, self.j, U, P, first, last, Y, values, searched)

        in_threads(work, len(U), n_jobs)
        _refuse_rows(U, P, values)
        return Y, values, proved

    def best_product_batch(
        self,
        U: FloatArray,
        pair: FloatArray,
        h_const: FloatArray,
        G: FloatArray,
        g_const: FloatArray,
        n_jobs: int = 1,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the 0/1 label with the largest ``h(y) g(y)`` for every row of ``U`` and ``G``.

        Exact slack rescaling in one call, with h = 1 + margin error and g = loss >= 0. The rows share the pair
        coefficients of h; g has no pairs. Returns the labels (B, n_labels) and their h and g. At most 20 labels.
        """
        U, G, pair = floats(U, "h_unary", 2), floats(G, "g_unary", 2), floats(pair, "h_pair", 1)
        h_const, g_const = floats(h_const, "h_const", 1), floats(g_const, "g_const", 1)
        _require_finite(h_unary=U, h_pair=pair, h_const=h_const, g_unary=G, g_const=g_const)
        Y, h, g = np.empty(U.shape), np.empty(len(U)), np.empty(len(U))

        def work(first: int, last: int) -> None:
            product_rows(self.i, self.j, U, pair, h_const, G, g_const, first, last, Y, h, g)

        in_threads(work, len(U), n_jobs)
        return Y, h, g

    def front_batch(
        self,
        U: FloatArray,
        P: FloatArray,
        h_const: FloatArray,
        G: FloatArray,
        g_const: FloatArray,
        n_jobs: int = 1,
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return the 0/1 labels whose point (h, g) is not dominated, by falling h: row pointers, labels, h and g.

        The argmax of every psi(h, g) that falls in neither argument is among them. At most 20 labels; g has no pairs.
        """
        U, P, G = floats(U, "h_unary", 2), floats(P, "h_pair", 2), floats(G, "g_unary", 2)
        h_const, g_const = floats(h_const, "h_const", 1), floats(g_const, "g_const", 1)
        _require_finite(h_unary=U, h_pair=P, h_const=h_const, g_unary=G, g_const=g_const)
        none = np.empty((0, self.n_edges))
        counts = np.zeros(len(U), dtype=np.int64)
        parts: dict[int, Any] = {}

        def work(first: int, last: int) -> None:
            parts[first] = front_rows(self.i, self.j, U, P, h_const, G, none, g_const, first, last, counts)

        in_threads(work, len(U), n_jobs)
        codes, h, g = (np.concatenate([parts[first][k] for first in sorted(parts)]) for k in range(3))
        return np.concatenate([[0], np.cumsum(counts)]), self.labels_of(codes), h, g

    def labels_of(self, codes: IntArray) -> FloatArray:
        """Return labels by their codes (`structopt.algorithms.pairwise.enumeration`)."""
        return ((codes[:, None] >> np.arange(self.n_labels - 1, -1, -1)) & 1).astype(np.float64)

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


def _require_finite(**costs: FloatArray) -> None:
    for name, values in costs.items():
        if not math.isfinite(values.sum()) and not np.isfinite(values).all():
            place = tuple(np.argwhere(~np.isfinite(values))[0])
            raise DeclarationError(
                f"{name}[{', '.join(map(str, place))}] is {values[place]}; coefficients must be finite."
            )


def _refuse_rows(U: FloatArray, P: FloatArray, values: FloatArray) -> None:
    """Raise if a value is NaN, which kernels return if a coefficient is not finite."""
    if math.isnan(dot(values, values)):  # less overhead than numpy's functions have
        _require_finite(unary=U, pair=P)
        raise DeclarationError("The value of a label overflows float64; scale the coefficients down.")

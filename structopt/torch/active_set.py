"""The point of a label space's hull that is best under a linear score less half of its squared norm: an active set.

    maximise   c . mu - 1/2 mu' D mu   over mu in conv(labels),    D diagonal, 0 or 1

(SparseMAP, Niculae et al. 2018.) Of the hull only an oracle is known. The method is Wolfe's for the point of least
norm: mu is a mixture of few labels; the oracle gives the label that improves it most; on the labels known the program
is a small quadratic one, whose optimum drops those that get no weight. It ends after finitely many steps, and the
oracle's last answer bounds what any point could gain: the duality gap, which is the certificate.

All examples of a space go in step, one batch of the oracle for all that are open. Labels are kept as their nonzeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["ActiveSets", "Mixture", "solve"]

#: Weights below this are none.
_NOTHING = 1e-13
#: Added to the diagonal of a Gram matrix, relative to its largest entry: labels may be dependent.
_RIDGE = 1e-13

Places = npt.NDArray[np.int32]

#: The best labels of a batch of objective coefficients, and what no label exceeds.
Maximize = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]


class Mixture(NamedTuple):
    """The labels of one example with their weights, from which the next solve may start.

    Attributes
    ----------
    places : ndarray of int, shape (m, k)
        Where each label is not 0, padded by -1.
    values : ndarray, shape (m, k)
    weights : ndarray, shape (m,)
    """

    places: Places
    values: FloatArray
    weights: FloatArray


class ActiveSets:
    """Labels and weights of the examples of one batch.

    Parameters
    ----------
    C : ndarray, shape (n, n_variables)
        Scores.
    D : ndarray, shape (n_variables,)
        Which variables are in the norm: 0 or 1.

    Attributes
    ----------
    slopes : ndarray, shape (n, n_variables)
        ``c - D mu``: the gradient, whose best label improves the mixture most.
    value : ndarray, shape (n,)
        ``c . mu - 1/2 mu' D mu``.
    own : ndarray, shape (n,)
        ``slopes . mu``.
    """

    def __init__(self, C: FloatArray, D: FloatArray) -> None:
        self.C, self.D, self.n = C, D, len(C)
        self.slopes = C.copy()
        self.value, self.own = np.zeros(len(C)), np.zeros(len(C))
        n = len(C)
        self.count = np.zeros(n, dtype=np.int64)
        self.places = np.full((n, 4, 1), -1, dtype=np.int32)
        self.values = np.zeros((n, 4, 1))
        self.weights = np.zeros((n, 4))
        self.linear = np.zeros((n, 4))
        self.gram = np.zeros((n, 4, 4))

    def reserve(self, labels: int, entries: int) -> None:
        """Make room for so many labels of an example, each with so many nonzeros."""
        _, K, k = self.places.shape
        if labels <= K and entries <= k:
            return
        more, wide = max(K, 2 * K if labels > K else K, labels), max(k, entries)
        places, values = np.full((self.n, more, wide), -1, dtype=np.int32), np.zeros((self.n, more, wide))
        places[:, :K, :k], values[:, :K, :k] = self.places, self.values
        self.places, self.values = places, values
        if more > K:
            for name in ("weights", "linear"):
                setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more - K))))
            self.gram = np.pad(self.gram, ((0, 0), (0, more - K), (0, more - K)))

    def begin(self, mixtures: Sequence[Mixture | None]) -> None:
        """Start from labels known before."""
        known = [(i, mixture) for i, mixture in enumerate(mixtures) if mixture is not None]
        if not known:
            return
        self.reserve(max(len(m.weights) for _, m in known), max(m.places.shape[1] for _, m in known))
        for i, mixture in known:
            m, k = mixture.places.shape
            self.places[i, :m, :k], self.values[i, :m, :k] = mixture.places, mixture.values
            self.weights[i, :m], self.count[i] = mixture.weights, m
        chosen = np.array([i for i, _ in known])
        _restart(chosen, *self._arrays)

    @property
    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        inner = (self.places, self.values, self.weights, self.linear, self.gram, self.count)
        return (self.C, self.D, *inner, self.slopes, self.value, self.own)

    def add(self, examples: IntArray, Z: FloatArray) -> npt.NDArray[np.bool_]:
        """One more label for some examples, and the best weights for all; whether that is better than before."""
        self.reserve(int(self.count[examples].max()) + 1, int(np.count_nonzero(Z, axis=1).max(initial=0)))
        moved = np.zeros(len(examples), dtype=np.bool_)
        _add(examples, Z, moved, *self._arrays)
        return moved

    def points(self) -> FloatArray:
        """The mixtures, shape (n, n_variables)."""
        M = np.zeros(self.C.shape)
        _points(self.places, self.values, self.weights, self.count, M)
        return M

    def pulled_back(self, V: FloatArray) -> FloatArray:
        """The Jacobian of every mixture in the scores, which is symmetric, times the rows of `V`."""
        out = np.zeros(V.shape)
        _pull_back(np.ascontiguousarray(V), self.places, self.values, self.gram, self.count, out)
        return out

    def mixture(self, i: int) -> Mixture:
        """The labels and weights of one example."""
        m = int(self.count[i])
        return Mixture(self.places[i, :m].copy(), self.values[i, :m].copy(), self.weights[i, :m].copy())


class Solved(NamedTuple):
    """Points of the hull with their certificates.

    Attributes
    ----------
    points : ndarray, shape (n, n_variables)
    values : ndarray, shape (n,)
        ``c . mu - 1/2 mu' D mu``.
    gaps : ndarray, shape (n,)
        No point of the hull has a value larger by more than this.
    sets : ActiveSets
    rounds : int
        Batches of the oracle.
    """

    points: FloatArray
    values: FloatArray
    gaps: FloatArray
    sets: ActiveSets
    rounds: int


def solve(
    C: FloatArray,
    D: FloatArray,
    maximize: Maximize,
    tol: float,
    max_rounds: int,
    mixtures: Sequence[Mixture | None] | None = None,
) -> Solved:
    """The best point of the hull for every row of `C`.

    Parameters
    ----------
    C : ndarray, shape (n, n_variables)
    D : ndarray, shape (n_variables,)
    maximize : callable
        ``(C, examples) -> (Z, bounds)``.
    tol : float
        Gap at which to stop, relative to the value where that is larger than 1.
    max_rounds : int
    mixtures : sequence of Mixture or None, optional
        Where to start.

    Returns
    -------
    Solved
    """
    sets = ActiveSets(C, D)
    if mixtures is not None:
        sets.begin(mixtures)
    cold = np.flatnonzero(sets.count == 0)
    if cold.size:
        sets.add(cold, maximize(C[cold], cold)[0])
    gaps, rounds, still = np.full(len(C), np.inf), 1, np.arange(len(C))
    while still.size:
        Z, bounds = maximize(sets.slopes if len(still) == len(C) else sets.slopes[still], still)
        rounds += 1
        gaps[still] = np.maximum(bounds - sets.own[still], 0.0)
        wide = gaps[still] > tol * np.maximum(1.0, np.abs(sets.value[still]))
        if rounds > max_rounds or not wide.any():
            break
        still, Z = (still, Z) if wide.all() else (still[wide], Z[wide])
        still = still[sets.add(still, Z)]  # no progress means that rounding is all that is left
    return Solved(sets.points(), sets.value, gaps, sets, rounds)


# ---- kernels -------------------------------------------------------------------------------------


@kernel
def _factor(gram: FloatArray, m: int, L: FloatArray) -> None:
    """The Cholesky factor of ``gram + shift 11'``, which is definite for labels that are affinely independent."""
    top = 0.0
    for a in range(m):
        top = max(top, gram[a, a])
    shift = max(top, 1.0)
    ridge = _RIDGE * (top + shift)
    for a in range(m):
        for b in range(a + 1):
            total = gram[a, b] + shift
            if a == b:
                total += ridge
            for k in range(b):
                total -= L[a, k] * L[b, k]
            if a == b:
                L[a, a] = np.sqrt(max(total, ridge))
            else:
                L[a, b] = total / L[b, b]


@kernel
def _substitute(L: FloatArray, m: int, x: FloatArray) -> None:
    """Solve ``L L' x = x`` in place."""
    for a in range(m):
        for k in range(a):
            x[a] -= L[a, k] * x[k]
        x[a] /= L[a, a]
    for a in range(m - 1, -1, -1):
        for k in range(a + 1, m):
            x[a] -= L[k, a] * x[k]
        x[a] /= L[a, a]


@kernel
def _on_the_plane(gram: FloatArray, linear: FloatArray, m: int, total: float, out: FloatArray) -> None:
    """The optimum of ``linear . p - 1/2 p' gram p`` with ``sum p = total``, of any sign."""
    L, ones = np.zeros((m, m)), np.ones(m)
    _factor(gram, m, L)
    for a in range(m):
        out[a] = linear[a]
    _substitute(L, m, out)
    _substitute(L, m, ones)
    lack, size = total, 0.0
    for a in range(m):
        lack -= out[a]
        size += ones[a]
    for a in range(m):
        out[a] += lack / size * ones[a]


@kernel
def _drop(
    i: int, a: int, places: Places, values: FloatArray, weights: FloatArray, linear: FloatArray, gram: FloatArray,
    count: IntArray,
) -> None:  # fmt: skip
    """Remove label `a` of example `i`: the last takes its place."""
    last = count[i] - 1
    if a != last:
        for k in range(places.shape[2]):
            places[i, a, k] = places[i, last, k]
            values[i, a, k] = values[i, last, k]
        weights[i, a], linear[i, a] = weights[i, last], linear[i, last]
        for b in range(last + 1):
            gram[i, a, b] = gram[i, last, b]
        for b in range(last + 1):
            gram[i, b, a] = gram[i, b, last]
        gram[i, a, a] = gram[i, last, last]
    weights[i, last] = 0.0
    count[i] = last


@kernel
def _reweigh(
    i: int, places: Places, values: FloatArray, weights: FloatArray, linear: FloatArray, gram: FloatArray,
    count: IntArray,
) -> None:  # fmt: skip
    """Wolfe's inner loop: the best weights of the labels known, without those that get none."""
    target = np.empty(count[i])
    while count[i] > 1:
        m = count[i]
        _on_the_plane(gram[i], linear[i], m, 1.0, target)
        share, hit = 1.0, -1
        for a in range(m):
            if target[a] <= _NOTHING:
                step = weights[i, a] / max(weights[i, a] - target[a], 1e-300)
                if step < share or hit < 0:
                    share, hit = min(step, share), a
        if hit < 0:
            for a in range(m):
                weights[i, a] = target[a]
            return
        for a in range(m):
            weights[i, a] += share * (target[a] - weights[i, a])
        weights[i, hit] = 0.0
        for a in range(m - 1, -1, -1):
            if weights[i, a] <= _NOTHING and count[i] > 1:
                _drop(i, a, places, values, weights, linear, gram, count)
        total = 0.0
        for a in range(count[i]):
            total += weights[i, a]
        for a in range(count[i]):
            weights[i, a] /= total
    weights[i, 0] = 1.0


@kernel
def _products(
    i: int, a: int, z: FloatArray, c: FloatArray, D: FloatArray, places: Places, values: FloatArray,
    linear: FloatArray, gram: FloatArray,
) -> None:  # fmt: skip
    """Fill the row of label `a`, of which `z` are all entries, with the products with the labels up to it."""
    for b in range(a + 1):
        total = 0.0
        for k in range(places.shape[2]):
            at = places[i, b, k]
            if at < 0:
                break
            total += values[i, b, k] * D[at] * z[at]
        gram[i, a, b] = total
        gram[i, b, a] = total
    total = 0.0
    for k in range(places.shape[2]):
        at = places[i, a, k]
        if at < 0:
            break
        total += values[i, a, k] * c[at]
    linear[i, a] = total


@kernel
def _subtract(
    i: int, share: float, D: FloatArray, places: Places, values: FloatArray, weights: FloatArray, count: IntArray,
    slopes: FloatArray,
) -> None:  # fmt: skip
    """Subtract `share` times ``D mu`` of example `i` from its slopes."""
    for a in range(count[i]):
        for k in range(places.shape[2]):
            at = places[i, a, k]
            if at < 0:
                break
            slopes[i, at] -= share * weights[i, a] * values[i, a, k] * D[at]


@kernel
def _reset(i: int, C: FloatArray, places: Places, count: IntArray, slopes: FloatArray) -> None:
    """The slopes of example `i` without its mixture: exactly its scores."""
    for a in range(count[i]):
        for k in range(places.shape[2]):
            at = places[i, a, k]
            if at < 0:
                break
            slopes[i, at] = C[i, at]


@kernel
def _evaluate(
    i: int,
    weights: FloatArray,
    linear: FloatArray,
    gram: FloatArray,
    count: IntArray,
    value: FloatArray,
    own: FloatArray,
) -> None:
    first, second = 0.0, 0.0
    for a in range(count[i]):
        first += weights[i, a] * linear[i, a]
        total = 0.0
        for b in range(count[i]):
            total += gram[i, a, b] * weights[i, b]
        second += weights[i, a] * total
    value[i], own[i] = first - 0.5 * second, first - second


@kernel
def _add(
    examples: IntArray, Z: FloatArray, moved: npt.NDArray[np.bool_], C: FloatArray, D: FloatArray, places: Places,
    values: FloatArray, weights: FloatArray, linear: FloatArray, gram: FloatArray, count: IntArray, slopes: FloatArray,
    value: FloatArray, own: FloatArray,
) -> None:  # fmt: skip
    for e in range(examples.size):
        i = examples[e]
        _reset(i, C, places, count, slopes)
        a, k = count[i], 0
        for j in range(Z.shape[1]):
            if Z[e, j] != 0.0:
                places[i, a, k] = j
                values[i, a, k] = Z[e, j]
                k += 1
        for rest in range(k, places.shape[2]):
            places[i, a, rest] = -1
        _products(i, a, Z[e], C[i], D, places, values, linear, gram)
        weights[i, a] = 0.0 if a else 1.0
        count[i] = a + 1
        _reweigh(i, places, values, weights, linear, gram, count)
        before = value[i]
        _evaluate(i, weights, linear, gram, count, value, own)
        moved[e] = a == 0 or value[i] > before
        _subtract(i, 1.0, D, places, values, weights, count, slopes)


@kernel
def _restart(
    examples: IntArray, C: FloatArray, D: FloatArray, places: Places, values: FloatArray, weights: FloatArray,
    linear: FloatArray, gram: FloatArray, count: IntArray, slopes: FloatArray, value: FloatArray, own: FloatArray,
) -> None:  # fmt: skip
    z = np.zeros(C.shape[1])
    for e in range(examples.size):
        i = examples[e]
        for a in range(count[i]):
            for k in range(places.shape[2]):
                if places[i, a, k] >= 0:
                    z[places[i, a, k]] = values[i, a, k]
            _products(i, a, z, C[i], D, places, values, linear, gram)
            for k in range(places.shape[2]):
                if places[i, a, k] >= 0:
                    z[places[i, a, k]] = 0.0
        _reweigh(i, places, values, weights, linear, gram, count)
        _evaluate(i, weights, linear, gram, count, value, own)
        _subtract(i, 1.0, D, places, values, weights, count, slopes)


@kernel
def _points(places: Places, values: FloatArray, weights: FloatArray, count: IntArray, M: FloatArray) -> None:
    ones = np.ones(M.shape[1])
    for i in range(M.shape[0]):
        _subtract(i, -1.0, ones, places, values, weights, count, M)


@kernel
def _pull_back(
    V: FloatArray, places: Places, values: FloatArray, gram: FloatArray, count: IntArray, out: FloatArray
) -> None:
    for i in range(V.shape[0]):
        m = count[i]
        slope, change = np.zeros(m), np.empty(m)
        for a in range(m):
            for k in range(places.shape[2]):
                at = places[i, a, k]
                if at < 0:
                    break
                slope[a] += values[i, a, k] * V[i, at]
        _on_the_plane(gram[i], slope, m, 0.0, change)
        for a in range(m):
            for k in range(places.shape[2]):
                at = places[i, a, k]
                if at < 0:
                    break
                out[i, at] += change[a] * values[i, a, k]

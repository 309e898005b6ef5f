"""The dual of a bundle subproblem: a concave quadratic over one simplex, or over one per example.

    maximise   b.alpha - 1/(2 lam) alpha' G alpha,    alpha_i >= 0,  sum of each block = its mass

(BMRM 2.3; G holds the inner products of the cuts.) Cuts come one by one and the answer moves little, so the
solver is a warm pairwise ascent that stops as soon as its own duality gap is below what the caller needs.
It never returns anything but a feasible point, hence every bound computed from it is valid. Where
the pair steps converge slowly (ill-conditioned bundles) an interior-point method, piqp, takes over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structopt.checks import checked, floats, integers, number
from structopt.errors import DeclarationError
from structopt.programs.pair_ascent import pair_ascent

__all__ = ["DualSolution", "SimplexQP", "power_of_two", "solve_simplex_qp"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Above this size the interior point method's cubic time exceeds that of more ascent.
_PIQP_LIMIT = 1500


def power_of_two(size: float) -> float:
    """Return the power of two below a positive finite number; 1 for any other number."""
    return math.ldexp(1.0, math.frexp(size)[1] - 1) if 0.0 < size < math.inf else 1.0


class DualSolution(NamedTuple):
    """A feasible dual value, an upper bound of what it lacks, the pair steps taken, and what solved the program."""

    value: float
    absolute_gap: float
    steps: int
    method: str


class SimplexQP:
    """The dual of a bundle subproblem, grown by one row per cut and solved warm.

    Parameters
    ----------
    lam : float
        Weight of the quadratic regulariser.
    mass : float or array
        Sum of the weights of each block; an array makes one simplex per entry (n-slack).
    zero_plane : bool
        Give every block an implicit cut ``a = 0, b = 0`` (the true label), without a row in the Gram matrix.

    Attributes
    ----------
    b, alpha, gram, block, idle : ndarray
        Offsets, weights, inner products, block numbers, and the solves since a weight was last positive.

    Examples
    --------
    The example of docs/mathematics/training#bundle-methods: cuts (1, 0) and (-1, 2), offsets 0 and 1.

    >>> qp = SimplexQP(lam=0.5)
    >>> qp.add([1.0], 0.0), qp.add([-1.0, 5.0], 1.0)
    (0, 1)
    >>> solution = qp.solve(absolute_tol=1e-12)
    >>> qp.alpha, round(solution.value, 6)
    (array([0.6875, 0.3125]), -0.21875)
    """

    @checked
    def __init__(self, lam: float, mass: ArrayLike = 1.0, *, zero_plane: bool = False) -> None:
        self.lam = float(lam)
        self.mass: Vector = np.atleast_1d(np.asarray(mass, dtype=np.float64))
        if self.mass.ndim != 1 or not (np.isfinite(self.mass).all() and (self.mass > 0).all()):
            raise DeclarationError("the masses of the simplices must be positive finite numbers")
        if not self.lam > 0:
            raise DeclarationError(f"lam must be positive, got {lam!r}")
        self.zero_plane = bool(zero_plane)
        self.n_cuts = 0
        self._allocate(16)

    def _allocate(self, capacity: int) -> None:
        n = self.n_cuts
        old = (self.gram, self.b, self.alpha, self.block, self.idle) if n else None
        self._gram = np.zeros((capacity, capacity))
        self._b = np.zeros(capacity)
        self._alpha = np.zeros(capacity)
        self._block = np.zeros(capacity, dtype=np.int64)
        self._idle = np.zeros(capacity, dtype=np.int64)
        if old is not None:
            self._gram[:n, :n], self._b[:n], self._alpha[:n], self._block[:n], self._idle[:n] = old

    @property
    def gram(self) -> Matrix:
        return self._gram[: self.n_cuts, : self.n_cuts]

    @property
    def b(self) -> Vector:
        return self._b[: self.n_cuts]

    @property
    def alpha(self) -> Vector:
        return self._alpha[: self.n_cuts]

    @property
    def block(self) -> NDArray[np.int64]:
        return self._block[: self.n_cuts]

    @property
    def idle(self) -> NDArray[np.int64]:
        return self._idle[: self.n_cuts]

    @property
    def value(self) -> float:
        """Dual value of the present weights."""
        return float(self.b @ self.alpha - self.alpha @ self.gram @ self.alpha / (2.0 * self.lam))

    def add(self, gram_row: ArrayLike, b: float, block: int = 0) -> int:
        """Add a cut and return its position.

        Parameters
        ----------
        gram_row : array of shape (n_cuts + 1,)
            Inner products with the cuts present, then with itself.
        b : float
            Its offset.
        block : int
            Which simplex it belongs to.

        Returns
        -------
        int
        """
        row = np.asarray(gram_row, dtype=np.float64)
        n = self.n_cuts
        if row.shape != (n + 1,):
            raise DeclarationError(f"a new cut needs {n + 1} inner products, got an array of shape {row.shape}")
        if not (np.isfinite(row).all() and np.isfinite(b)):
            raise DeclarationError(
                "a cut must be finite: the risk's value or subgradient overflowed; scale the features to unit size"
            )
        if not 0 <= block < self.mass.size:
            raise DeclarationError(f"block {block} of {self.mass.size} simplices")
        if n == self._b.size:
            self._allocate(2 * n)
        alone = not self.zero_plane and not (self.block == block).any()
        self.n_cuts = n + 1
        self._gram[n, : n + 1] = row
        self._gram[: n + 1, n] = row
        self._b[n] = b
        self._alpha[n] = self.mass[block] if alone else 0.0
        self._block[n] = block
        self._idle[n] = 0
        return n

    def solve(self, absolute_tol: float = 0.0, max_steps: int | None = None) -> DualSolution:
        """Raise the dual from the last weights until its own duality gap is small enough.

        Parameters
        ----------
        absolute_tol : float
            The absolute gap that is.
        max_steps : int, optional
            Pair steps at most; by default as many as needed, and an interior-point solve where they are too many.

        Returns
        -------
        DualSolution
        """
        n = self.n_cuts
        if n == 0:
            return DualSolution(0.0, 0.0, 0, "pairs")
        limit = 1000 + 20 * n if max_steps is None else max_steps  # about the time of one interior-point solve
        # Below rounding of the quantities involved no gap can be certified.
        scale = float(np.abs(self.b[self.alpha > 0]).max(initial=0.0)) * float(self.mass.sum())
        tol = max(absolute_tol, 1e-15 * scale, 1e-300)
        steps, gap = self._ascend(tol, limit)
        method = "pairs"
        if gap > tol and max_steps is None:
            if n <= _PIQP_LIMIT:
                method = "piqp"
                gap = self._finish_with_piqp(tol, limit, gap)
            else:
                more, gap = self._ascend(tol, 50 * limit)
                steps += more
        self._idle[:n] = np.where(self.alpha > 0.0, 0, self.idle + 1)
        return DualSolution(self.value, gap, steps, method)

    def _ascend(self, tol: float, max_steps: int) -> tuple[int, float]:
        members, start = self._layout()
        rest = self._normalise()
        g = np.empty(self.n_cuts)
        steps, gap = pair_ascent(
            self._gram,
            self.b,
            self.lam,
            self.alpha,
            g,
            rest,
            members,
            start,
            self.mass,
            self.zero_plane,
            tol,
            max_steps,
        )
        return int(steps), float(gap)

    def _layout(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cuts by block: positions in block i are members[start[i]:start[i + 1]]."""
        if self.mass.size == 1:
            return np.arange(self.n_cuts), np.array([0, self.n_cuts])
        start = np.zeros(self.mass.size + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.block, minlength=self.mass.size), out=start[1:])
        return np.argsort(self.block, kind="stable"), start

    def _normalise(self) -> Vector:
        """Make the weights exactly feasible; return the weight of each block's implicit cut."""
        total = np.bincount(self.block, weights=self.alpha, minlength=self.mass.size)
        if self.zero_plane:
            over = np.where(total > self.mass, self.mass / np.where(total > 0, total, 1.0), 1.0)
            self.alpha[:] *= over[self.block]
            return np.maximum(self.mass - total * over, 0.0)
        self.alpha[:] *= (self.mass / np.where(total > 0, total, 1.0))[self.block]
        return np.zeros(self.mass.size)

    def _finish_with_piqp(self, tol: float, max_steps: int, gap: float) -> float:
        before, value = self.alpha.copy(), self.value
        alpha = self._piqp()
        if alpha is not None:
            self.alpha[:] = alpha
            after = self._ascend(tol, max_steps)[1]
            if self.value > value:
                return after
        self.alpha[:] = before
        return min(gap, self._ascend(tol, max_steps)[1])

    def _piqp(self) -> Vector | None:
        """Return feasible weights from the interior-point method, or None if it fails."""
        import piqp

        n, blocks = self.n_cuts, self.mass.size
        rows = np.zeros((blocks, n), order="F")
        rows[self.block, np.arange(n)] = 1.0
        present = rows.any(axis=1)
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
        solver.settings.check_duality_gap = True
        solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = 1e-10
        # Its tolerances are absolute: the objective is scaled to about 1, by a power of two, which rounds nothing.
        unit = power_of_two(float(np.abs(self.b).max(initial=0.0)))
        P, c = np.asfortranarray(self.gram / (self.lam * unit)), -self.b / unit
        rows, mass = np.asfortranarray(rows[present]), self.mass[present]
        if self.zero_plane:
            solver.setup(P, c, None, None, rows, None, mass, np.zeros(n), None)
        else:
            solver.setup(P, c, rows, mass, None, None, None, np.zeros(n), None)
        solver.solve()
        alpha = np.array(solver.result.x, dtype=np.float64)
        if not np.isfinite(alpha).all():
            return None
        # Interior points are positive everywhere; without this no cut would ever be idle.
        alpha[alpha < 1e-9 * self.mass[self.block]] = 0.0
        total = np.bincount(self.block, weights=alpha, minlength=blocks)
        if not self.zero_plane and (total[present] <= 0).any():
            return None
        return alpha

    def certify(self) -> tuple[float, float]:
        """Return (dual value, primal value of the model), both from piqp, without touching the weights.

        Returns
        -------
        tuple of float
        """
        trial = SimplexQP(self.lam, self.mass, zero_plane=self.zero_plane)
        trial.restore(self.state())
        alpha = trial._piqp()
        if alpha is not None:
            trial.alpha[:] = alpha
        gap = trial._ascend(np.inf, 0)[1]
        return trial.value, trial.value + gap

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Remove the cuts outside `kept`; their weight must be 0.

        Parameters
        ----------
        kept : ndarray of bool
            Which cuts stay.
        """
        if (self.alpha[~kept] > 0).any():
            raise DeclarationError("a cut with positive weight cannot be removed: merge it")
        n = int(kept.sum())
        self._gram[:n, :n] = self.gram[np.ix_(kept, kept)]
        self._b[:n], self._alpha[:n] = self.b[kept], self.alpha[kept]
        self._block[:n], self._idle[:n] = self.block[kept], self.idle[kept]
        self._alpha[n:] = 0.0  # an old weight in a reused slot would raise the bound above the primal
        self.n_cuts = n

    def merge(self, chosen: NDArray[np.int64]) -> Vector:
        """Replace the `chosen` cuts of one block by their weighted mean, placed at the first of them.

        The dual value does not change (BMRM Algorithm 4). Returns the weights of the mean, so that the owner of
        the cuts can form it too; the other chosen cuts are removed.

        Parameters
        ----------
        chosen : ndarray of int
            The cuts that become one.

        Returns
        -------
        ndarray
        """
        weight = self.alpha[chosen]
        total = float(weight.sum())
        share: Vector = weight / total if total > 0 else np.eye(1, chosen.size)[0]
        row = share @ self.gram[chosen]
        first, n = int(chosen[0]), self.n_cuts
        own = float(row[chosen] @ share)
        self._gram[first, :n] = self._gram[:n, first] = row
        self._gram[first, first] = own
        self._b[first] = share @ self.b[chosen]
        self._alpha[chosen] = 0.0
        self._alpha[first] = total
        self._idle[first] = 0 if total > 0 else self.idle[chosen].min()
        kept = np.ones(n, dtype=np.bool_)
        kept[chosen[1:]] = False
        self.keep(kept)
        return share

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint needs.

        Returns
        -------
        dict of str to ndarray
        """
        names = ("gram", "b", "alpha", "block", "idle")
        return {name: getattr(self, name).copy() for name in names}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave.

        Parameters
        ----------
        state : mapping of str to ndarray
            From `state`.
        """
        b = floats("b", state["b"], ndim=1)
        n = b.size
        alpha, gram = floats("alpha", state["alpha"], (n,)), floats("gram", state["gram"], (n, n))
        block = integers("block", state["block"], (n,), 0, self.mass.size - 1)
        idle = integers("idle", state["idle"], (n,), 0)
        total, present = np.bincount(block, weights=alpha, minlength=self.mass.size), np.zeros(self.mass.size, bool)
        present[block] = not self.zero_plane
        short = present & (total < (1.0 - 1e-9) * self.mass)
        if (alpha < 0.0).any() or short.any() or (total > (1.0 + 1e-9) * self.mass).any():
            raise DeclarationError("alpha must be non-negative weights that sum to the mass of each simplex")
        self.n_cuts = 0
        self._allocate(max(16, 1 << max(n - 1, 0).bit_length()))
        self.n_cuts = n
        self._gram[:n, :n] = gram
        self.b[:], self.alpha[:], self.block[:], self.idle[:] = b, alpha, block, idle

    def __repr__(self) -> str:
        blocks = f", {self.mass.size} simplices" if self.mass.size > 1 else ""
        return f"<SimplexQP: {self.n_cuts} cuts{blocks}, {int((self.alpha > 0).sum())} active, lam={self.lam:g}>"


@checked
def solve_simplex_qp(
    gram: ArrayLike, b: ArrayLike, lam: float, absolute_tol: float = 1e-9
) -> tuple[Vector, DualSolution]:
    """Maximise ``b.alpha - alpha' gram alpha / (2 lam)`` over the simplex, once.

    Parameters
    ----------
    gram : array_like of shape (n, n)
        Positive semidefinite.
    b : array_like of shape (n,)
    lam : float
        Positive.
    absolute_tol : float
        Duality gap at which to stop, in absolute terms.

    Returns
    -------
    alpha : ndarray of shape (n,)
    solution : DualSolution

    Examples
    --------
    >>> alpha, solution = solve_simplex_qp([[1.0, -1.0], [-1.0, 5.0]], [0.0, 1.0], 0.5)
    >>> alpha
    array([0.6875, 0.3125])
    """
    offset = floats("b", b, ndim=1)
    matrix = floats("gram", gram, (offset.size, offset.size))
    if not offset.size:
        raise DeclarationError("b is empty: there is nothing to choose from.")
    number("absolute_tol", absolute_tol, low=0.0)
    qp = SimplexQP(lam)
    n = offset.size
    qp.restore(
        {
            "gram": matrix,
            "b": offset,
            "alpha": np.full(n, 1.0 / n),
            "block": np.zeros(n, dtype=np.int64),
            "idle": np.zeros(n, dtype=np.int64),
        }
    )
    solution = qp.solve(absolute_tol)
    return qp.alpha.copy(), solution

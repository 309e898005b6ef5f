"""Small programs whose optimum is known without a solver."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp

from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = [
    "brute_force",
    "crowded_knapsack",
    "hard_knapsack",
    "knapsack",
    "knapsack_optimum",
    "pairwise",
    "space_of",
]


def space_of(
    matrix: object,
    row_lower: object,
    row_upper: object,
    lower: object,
    upper: object,
    integer: object = False,
) -> CompiledSpace:
    """A compiled space from anything that numpy can read; scalars are repeated.

    Examples
    --------
    >>> space_of([[1, 1]], -np.inf, 1, 0, 1, True)
    <CompiledSpace: 2 variables (2 integer), 1 rows, 2 non-zeros>
    """
    rows = sp.csr_array(matrix, dtype=np.float64)
    n_rows, n = rows.shape
    return CompiledSpace(
        rows,
        np.array(np.broadcast_to(np.asarray(row_lower, dtype=np.float64), n_rows)),
        np.array(np.broadcast_to(np.asarray(row_upper, dtype=np.float64), n_rows)),
        np.array(np.broadcast_to(np.asarray(lower, dtype=np.float64), n)),
        np.array(np.broadcast_to(np.asarray(upper, dtype=np.float64), n)),
        np.array(np.broadcast_to(np.asarray(integer, dtype=bool), n)),
        [f"z[{j}]" for j in range(n)],
        [f"row[{i}]" for i in range(n_rows)],
    )


def knapsack(weights: FloatArray, capacity: float, integer: bool = False) -> CompiledSpace:
    """``weights . z <= capacity`` with z in [0, 1]."""
    return space_of(weights[None, :], -np.inf, capacity, 0.0, 1.0, integer)


def knapsack_optimum(weights: FloatArray, capacity: float, costs: FloatArray) -> float:
    """The optimum of the LP `knapsack` with positive weights: fill up by value per weight (Dantzig)."""
    value = 0.0
    for j in np.argsort(-costs / weights):
        if costs[j] <= 0 or capacity <= 0:
            break
        part = min(1.0, capacity / weights[j])
        value += part * costs[j]
        capacity -= part * weights[j]
    return value


def brute_force(space: CompiledSpace, costs: FloatArray) -> float:
    """The best value over every integer point of a small bounded space; -inf if there is none."""
    ranges = [range(int(a), int(b) + 1) for a, b in zip(space.lower, space.upper, strict=True)]
    points = np.array(list(itertools.product(*ranges)), dtype=np.float64)
    activity = points @ space.matrix.T.toarray()
    inside = ((activity >= space.row_lower - 1e-9) & (activity <= space.row_upper + 1e-9)).all(axis=1)
    return float((points[inside] @ costs).max(initial=-np.inf))


def pairwise(n: int) -> CompiledSpace:
    """The fully connected pairwise relaxation on n labels: heavily degenerate, vertices half-integral."""
    i, j = np.triu_indices(n, 1)
    pairs = np.arange(len(i))
    y, p = sp.eye_array(n, format="csr"), sp.eye_array(len(i), format="csr")
    at_most = [sp.hstack([-y[end], p]) for end in (i, j)]
    at_least = sp.hstack([y[i] + y[j], -p])
    upper = np.concatenate([np.zeros(2 * len(pairs)), np.ones(len(pairs))])
    return space_of(sp.vstack([*at_most, at_least], format="csr"), -np.inf, upper, 0.0, 1.0)


def hard_knapsack(n: int = 60, rows: int = 30) -> tuple[CompiledSpace, FloatArray]:
    """A multi-dimensional 0/1 knapsack that no open solver finishes in a second; z = 0 is a label of it."""
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 100, (rows, n)).astype(np.float64)
    costs = rng.integers(50, 100, n).astype(np.float64)
    return space_of(weights, -np.inf, weights.sum(axis=1) // 3, 0.0, 1.0, True), costs


def crowded_knapsack(n: int = 450) -> tuple[CompiledSpace, FloatArray, float]:
    """The LP knapsack among ``z_i + z_j <= 2`` for all pairs (which never bind): weights and capacity too.

    n = 450 makes 101,026 rows, and an LP that stays easy, so that its size is what is tested.
    """
    i, j = np.triu_indices(n, 1)
    unit = sp.eye_array(n, format="csr")
    weights = np.random.default_rng(3).uniform(1.0, 2.0, n)
    capacity = n / 4
    matrix = sp.vstack([unit[i] + unit[j], sp.csr_array(weights[None, :])], format="csr")
    space = space_of(matrix, -np.inf, np.append(np.full(len(i), 2.0), capacity), 0.0, 1.0)
    return space, weights, capacity

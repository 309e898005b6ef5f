"""Enumerated labels of a small space: the reference of the conformance suites."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.enumeration import enumerate_labels
from structopt.space.tolerance import broken_rows

__all__ = ["Reference", "close", "costs", "rejects"]

#: Relative tolerance of values.
TOLERANCE = 1e-6
#: Labels beyond which a space is not enumerated, and points of a box beyond which not all of them are checked.
_MOST_LABELS, _MOST_POINTS = 20_000, 1 << 14


def close(found: object, expected: object, what: str, tolerance: float = TOLERANCE) -> None:
    """Assert that two numbers or arrays agree up to rounding."""
    a, b = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert a.shape == b.shape, f"{what} has shape {a.shape}, not {b.shape}"
    error = float(np.max(np.abs(a - b), initial=0.0))
    room = tolerance * max(1.0, float(np.max(np.abs(b), initial=0.0)))
    assert error <= room, f"{what}: found {a}, not {b}" if a.size <= 8 else f"{what} differs by {error:.3g}"


def rejects(error: type[Exception], what: str, act: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Assert that a call raises this error."""
    try:
        act(*args, **options)
    except error:
        return
    raise AssertionError(f"{what} is accepted")


def costs(size: int, n: int, rng: np.random.Generator) -> FloatArray:
    """Return objectives that reveal rare errors: random, tied, of one sign, sparse, and zero."""
    C = rng.normal(size=(n, size))
    C[1::6] = np.rint(2.0 * C[1::6])
    C[2::6] = np.abs(C[2::6])
    C[3::6] = -np.abs(C[3::6])
    C[4::6] *= rng.random((len(C[4::6]), size)) < 0.3
    C[5:6] = 0.0
    return C


class Reference:
    """Every label of a compiled space, with the answers that follow from the list."""

    def __init__(self, space: CompiledSpace) -> None:
        self.space = space
        self.labels = enumerate_labels(space, _MOST_LABELS)

    def place(self, z: FloatArray) -> int:
        """Return the number of a label, or -1."""
        distance = np.abs(self.labels - z).max(axis=1, initial=0.0)
        k = int(distance.argmin()) if len(distance) else -1
        return k if k >= 0 and distance[k] <= TOLERANCE else -1

    def order(self, c: FloatArray) -> FloatArray:
        """Return the values of all labels, the largest first."""
        return np.asarray(np.sort(self.labels @ c)[::-1])

    def points(self) -> FloatArray | None:
        """Return all integral points of the box that satisfy the rows, by a product; None if there are too many."""
        space = self.space
        sizes = space.upper - space.lower + 1.0
        if not space.integrality.all() or space.separations or not float(np.prod(sizes)) <= _MOST_POINTS:
            return None
        axes = [np.arange(low, up + 1.0) for low, up in zip(space.lower, space.upper, strict=True)]
        points = np.array(list(itertools.product(*axes)), dtype=float).reshape(
            round(float(np.prod(sizes))), space.n_variables
        )
        broken = broken_rows(space.matrix, space.row_lower, space.row_upper, points, TOLERANCE, space.row_units)
        return np.asarray(points[~broken.any(axis=1)])

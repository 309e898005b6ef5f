"""Graph matching: which node of one picture is which node of the other.

Two pictures of one object, each a set of points with descriptors; a label is the permutation that takes the points of
the first to those of the second. A pair of points is described by how far each descriptor has moved, and training
finds which descriptors are reliable. Solved by linear assignment.
"""

from __future__ import annotations

import numpy as np

import structopt as so

N_POINTS, N_DESCRIPTORS = 7, 6


def model() -> so.Model:
    return so.structures.Assignment(N_POINTS, normalize=True)


def data(n: int = 100, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pairs of pictures; the first descriptors survive a change of view, the last are noise."""
    rng = np.random.default_rng(seed)
    noise = np.linspace(0.2, 3.0, N_DESCRIPTORS)
    X, Y = [], []
    for _ in range(n):
        first = rng.normal(size=(N_POINTS, N_DESCRIPTORS))
        matched = rng.permutation(N_POINTS)
        second = np.empty_like(first)
        second[matched] = first + noise * rng.normal(size=first.shape)
        X.append(-np.abs(first[:, None, :] - second[None, :, :]))
        Y.append(matched)
    return X, Y

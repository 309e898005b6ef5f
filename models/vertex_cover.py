"""Guards of a building, with the space in an MPS file: every corridor has a guard at one of its ends.

A vertex cover of the graph in ``vertex_cover.mps``, which any modelling tool could have written (its rows are
``guard[i] + guard[j] >= 1``). The graph has odd cycles, so that the LP alone is half-integral. Posts are scored by the
features of the night; the loss counts wrongly guarded posts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import structopt as so

N_FEATURES = 5


def model() -> so.Model:
    space = so.LabelSpace.read(Path(__file__).with_name("vertex_cover.mps"))
    return so.Model(space, {"guard": so.features.Linear(intercept=True)}, loss=so.losses.Hamming())


def data(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Nights with the posts that a chief guard chose, who pays for every guard and judges the posts with noise."""
    rng = np.random.default_rng(seed)
    guards = model()
    posts = guards.space()["guard"].size
    worth = np.random.default_rng(7).normal(size=(posts, N_FEATURES))
    X = rng.normal(size=(n, N_FEATURES))
    gains = X @ worth.T - 1.0 + 0.3 * rng.normal(size=(n, posts))
    return X, np.array([label.z for label in guards.oracle().maximize_batch(gains)]).astype(int)

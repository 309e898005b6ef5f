"""Multi-label tagging with pairwise terms: which tags of a picture go together.

Ten tags, each scored by its own weight vector, and one weight for every pair that is on together. The rows of the local
polytope make `pair` the product of its two tags; structopt recognises them and solves the space without a solver.
"""

from __future__ import annotations

import numpy as np

import structopt as so

N_TAGS, N_FEATURES = 10, 6
FIRST, SECOND = np.triu_indices(N_TAGS, k=1)


def model() -> so.Model:
    space = so.LabelSpace("tags and pairs of tags")
    tag = space.binary("tag", N_TAGS)
    pair = space.continuous("pair", len(FIRST), 0, 1)
    space.subject_to(pair <= tag[FIRST], name="needs the first")
    space.subject_to(pair <= tag[SECOND], name="needs the second")
    space.subject_to(pair >= tag[FIRST] + tag[SECOND] - 1, name="follows from both")
    features = {"tag": so.features.Linear(intercept=True), "pair": so.features.Tied()}
    return so.Model(space, features, loss=so.losses.Hamming())


def data(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of a few themes; a theme switches its tags on together, and some are forgotten."""
    rng = np.random.default_rng(seed)
    themes = np.arange(N_TAGS) % 3
    theme = rng.integers(0, 3, n)
    Y = ((themes == theme[:, None]) & (rng.random((n, N_TAGS)) < 0.8)).astype(int)
    seen = np.random.default_rng(7).normal(size=(N_TAGS, N_FEATURES))
    X = Y @ seen + rng.normal(size=(n, N_FEATURES))
    return X, Y

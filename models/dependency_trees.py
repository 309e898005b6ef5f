"""Dependency parsing: every token has a head, and the heads form a tree that hangs from the root.

The input has a feature vector for every possible arc, row = head, column = token, 0 = root; all arcs share one weight
vector. Chu-Liu/Edmonds finds the best tree; the loss is the number of tokens with a wrong head.
"""

from __future__ import annotations

import numpy as np

import structopt as so

N_WORDS = 4  # kinds of words


def model() -> so.Model:
    return so.structures.Arborescence(single_root=True)


def arcs(words: np.ndarray) -> np.ndarray:
    """Features of all arcs: the pair of kinds of words, the distance and the direction; the root is kind 0."""
    kinds = np.eye(N_WORDS + 1)[np.concatenate([[0], words])]
    pairs = np.einsum("ha,tb->htab", kinds, kinds[:, 1:]).reshape(len(kinds), len(kinds), -1)
    place = np.arange(len(kinds))
    offset = (place - place[:, None]) / len(kinds)
    return np.concatenate([pairs, np.abs(offset)[..., None], (offset > 0)[..., None]], axis=2)


def data(n: int = 100, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sentences of 3 to 8 words, parsed by a grammar that likes some pairs of words and short arcs."""
    rng = np.random.default_rng(seed)
    grammar = np.random.default_rng(7).normal(size=(N_WORDS + 1) * N_WORDS + 2)
    grammar[-2] = -3.0
    parser = model()
    X = [arcs(rng.integers(1, N_WORDS + 1, length)) for length in rng.integers(3, 9, n)]
    return X, [parser.predict(grammar, x + 0.1 * rng.normal(size=x.shape)) for x in X]

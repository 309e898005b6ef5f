"""Named entities: tag every token with B, I or O, where an entity may not continue before it has begun.

A linear chain over BIO tags. The rules of succession are part of the label space, so that no prediction breaks them;
Viterbi finds the best tags, the k best, and the most violated ones.
"""

from __future__ import annotations

import numpy as np

import structopt as so

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
N_FEATURES = 12


def model() -> so.Model:
    return so.structures.Chain(TAGS, transitions="bio", intercept=True)


def data(n: int = 100, seed: int = 0) -> tuple[list[np.ndarray], list[list[str]]]:
    """Sentences of 4 to 12 tokens; a token's features depend on its tag, and I looks much like O."""
    rng = np.random.default_rng(seed)
    looks = np.random.default_rng(7).normal(size=(len(TAGS), N_FEATURES))
    looks[[2, 4]] = looks[0] + 0.3 * looks[[2, 4]]
    X, Y = [], []
    for length in rng.integers(4, 13, n):
        tags: list[str] = []
        while len(tags) < length:
            kind = rng.choice(["O", "O", "PER", "LOC"])
            more = int(rng.integers(0, 3))
            tags += ["O"] * (1 + more) if kind == "O" else [f"B-{kind}"] + [f"I-{kind}"] * more
        Y.append(tags[:length])
        X.append(looks[[TAGS.index(tag) for tag in Y[-1]]] + 0.7 * rng.normal(size=(length, N_FEATURES)))
    return X, Y

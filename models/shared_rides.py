"""Shared rides: which passengers of an hour are taken together, learned from a dispatcher's pairs.

The input has a feature vector for every two passengers: the distance saved by one car for both, how far apart they
start, and whether both take luggage. All pairs share one weight vector: what sharing is worth to the dispatcher. A
label is the partner of each passenger, -1 of those who ride alone: a matching of a general graph, whose odd-set
inequalities are lazy rows. The loss is the number of the dispatcher's pairs that are not made.
"""

from __future__ import annotations

import numpy as np

import structopt as so

WORTH = np.array([2.0, -1.0, -0.4])


def model() -> so.Model:
    return so.structures.Matching()


def pairs(start: np.ndarray, end: np.ndarray, luggage: np.ndarray) -> np.ndarray:
    """Features of all pairs of passengers, of which those with themselves and of i > j are not used."""
    apart = np.linalg.norm(start[:, None] - start[None], axis=2)
    alone = np.linalg.norm(start - end, axis=1)
    shared = apart + np.linalg.norm(end[:, None] - end[None], axis=2) + np.minimum(alone[:, None], alone)
    saved = alone[:, None] + alone - shared
    return np.stack([saved, apart, luggage[:, None] & luggage], axis=2).astype(float)


def data(n: int = 60, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Hours with 5 to 9 passengers, and the pairs of a dispatcher who errs a little."""
    rng = np.random.default_rng(seed)
    dispatcher = model()
    X = []
    for passengers in rng.integers(5, 10, n).tolist():
        start, end = rng.random((passengers, 2)), np.array([0.9, 0.9]) + 0.3 * rng.random((passengers, 2))
        X.append(pairs(start, end, rng.random(passengers) < 0.4))
    return X, [dispatcher.predict(WORTH, x + 0.05 * rng.normal(size=x.shape)) for x in X]

"""Network flow: the route of a driver through a road network, learned from the state of the traffic.

One unit flows from one corner of a grid to the other and is conserved at every crossing; a label is the flow on each
road. Every road has a weight vector on the day's features. The absolute loss counts the roads in which two routes
differ.
"""

from __future__ import annotations

import numpy as np

import structopt as so

SIZE, N_FEATURES = 4, 5
ROADS = [((i, j), (i + 1, j)) for i in range(SIZE - 1) for j in range(SIZE)]
ROADS += [((i, j), (i, j + 1)) for i in range(SIZE) for j in range(SIZE - 1)]


def model() -> so.Model:
    return so.structures.Flow(ROADS, {(0, 0): 1, (SIZE - 1, SIZE - 1): -1}, capacity=1.0, intercept=True)


def data(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Days with the route of a driver who knows the delay of every road up to some noise."""
    rng = np.random.default_rng(seed)
    delay = np.random.default_rng(7).normal(size=(len(ROADS), N_FEATURES))
    X = rng.normal(size=(n, N_FEATURES))
    gains = -(X @ delay.T) + 0.5 * rng.normal(size=(n, len(ROADS)))
    return X, np.array([label.z for label in model().oracle().maximize_batch(gains)])

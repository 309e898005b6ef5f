"""Routes of a driver: a tour through all stops and back, learned from tours that were driven.

The input has a feature vector for every pair of stops: the distance, whether the road is a highway, and whether it
crosses the river. All roads share one weight vector, the taste of the driver. A tour is one cycle, which takes more
rows than can be listed: they are lazy, found by connected components and minimum cuts. The loss is the number of roads
of the driver's tour that another one does not use.
"""

from __future__ import annotations

import numpy as np

import structopt as so

TASTE = np.array([-1.0, 0.3, -0.4])


def model() -> so.Model:
    return so.structures.Tour()


def roads(stops: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Features of all roads between stops in the unit square, through which a river flows from west to east."""
    distance = np.linalg.norm(stops[:, None] - stops[None], axis=2)
    highway = np.triu(rng.random(distance.shape) < 0.3, 1)
    north = stops[:, 1] > 0.5
    return np.stack([distance, highway | highway.T, north[:, None] != north], axis=2).astype(float)


def data(n: int = 60, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Days with 5 to 8 stops, and the tours of a driver who likes highways, dislikes bridges and errs a little."""
    rng = np.random.default_rng(seed)
    driver = model()
    X = [roads(rng.random((stops, 2)), rng) for stops in rng.integers(5, 9, n)]
    return X, [driver.predict(TASTE, x + 0.02 * rng.normal(size=x.shape)) for x in X]

"""A tagger on a budget, declared in PuLP: every tag has a price and a duration, and both are limited.

Two knapsack rows over sixteen tags. There is no combinatorial algorithm for two knapsacks: the space is compiled
into a decision diagram at its second call; before that, HiGHS solves it. Training is the same for all spaces.
"""

from __future__ import annotations

import numpy as np
import pulp

import structopt as so

PRICE = [3, 5, 2, 7, 4, 6, 1, 8, 3, 5, 2, 4, 6, 7, 3, 5]
MINUTES = [2, 1, 4, 3, 6, 2, 5, 1, 3, 2, 4, 6, 2, 3, 5, 4]
N_FEATURES = 6


def problem() -> pulp.LpProblem:
    knapsacks = pulp.LpProblem("budget", pulp.LpMaximize)
    tag = pulp.LpVariable.dicts("tag", range(len(PRICE)), cat="Binary")
    knapsacks += pulp.lpSum(PRICE[t] * tag[t] for t in tag) <= 14, "money"
    knapsacks += pulp.lpSum(MINUTES[t] * tag[t] for t in tag) <= 12, "time"
    return knapsacks


def model() -> so.Model:
    space = so.LabelSpace.from_pulp(problem())  # tag_0, tag_1, ... are one block again
    return so.Model(space, {"tag": so.features.Linear()}, loss=so.losses.Hamming())


def data(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Documents with the tags that an annotator bought, who judges their worth up to some noise."""
    rng = np.random.default_rng(seed)
    worth = np.random.default_rng(7).normal(size=(len(PRICE), N_FEATURES))
    X = rng.normal(size=(n, N_FEATURES))
    gains = X @ worth.T + 0.3 * rng.normal(size=(n, len(PRICE)))
    return X, np.array([label.z for label in model().oracle().maximize_batch(gains)]).astype(int)

"""A taxonomy in which some classes exclude each other: a closure with extra rows.

An article has every topic above its topics (``topic[child] <= topic[parent]``), and is about at most one of two topics
that an editor declared incompatible. With exclusions a minimum cut no longer solves the space. The declaration stays
two lines: few topics are enumerated, more of them are solved by the LP, and by the MIP where it is fractional.
"""

from __future__ import annotations

import numpy as np

import structopt as so

TOPICS = ["news", "sport", "science", "football", "chess", "physics", "biology", "transfers", "quantum", "cells"]
PARENT = [-1, 0, 0, 1, 1, 2, 2, 3, 5, 6]
EXCLUSIVE = [("football", "chess"), ("physics", "biology"), ("sport", "biology"), ("transfers", "physics")]
N_FEATURES = 6


def model() -> so.Model:
    space = so.LabelSpace("topics")
    topic = space.binary("topic", len(TOPICS))
    child = np.flatnonzero(np.array(PARENT) >= 0)
    space.subject_to(topic[child] <= topic[np.array(PARENT)[child]], name="parent")
    first, second = np.array([[TOPICS.index(a), TOPICS.index(b)] for a, b in EXCLUSIVE]).T
    space.subject_to(topic[first] + topic[second] <= 1, name="exclusive")
    return so.Model(space, {"topic": so.features.Linear(intercept=True)}, loss=so.losses.Hamming())


def data(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Articles that were tagged by an editor who weighs every topic by a word count, not quite reliably."""
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(7).normal(size=(len(TOPICS), N_FEATURES))
    X = rng.normal(size=(n, N_FEATURES))
    gains = X @ taste.T + 0.5 + rng.normal(size=(n, len(TOPICS)))
    labels = model().oracle().maximize_batch(gains)
    return X, np.array([label.z for label in labels]).astype(int)

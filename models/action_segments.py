"""Action segments: cut a recording of movement into stretches of one activity each.

A semi-Markov model: a segment of at most eight frames has one activity, scored by the sum of its frames, by its length,
and by what went before; the same activity does not follow itself. The loss counts frames with the wrong activity.
"""

from __future__ import annotations

import numpy as np

import structopt as so

ACTIVITIES = ["rest", "walk", "jump"]
LONGEST, N_FEATURES = 8, 4


def model() -> so.Model:
    return so.structures.Segmentation(
        ACTIVITIES, LONGEST, transitions=~np.eye(len(ACTIVITIES), dtype=bool), intercept=True, length_weights=True
    )


def data(n: int = 100, seed: int = 0) -> tuple[list[np.ndarray], list[list[tuple[int, str]]]]:
    """Recordings of two to four segments; jumps are short, rests are long."""
    rng = np.random.default_rng(seed)
    looks = np.random.default_rng(7).normal(size=(len(ACTIVITIES), N_FEATURES))
    spans = {"rest": (4, LONGEST), "walk": (2, 6), "jump": (1, 2)}
    X, Y = [], []
    for n_segments in rng.integers(2, 5, n):
        label: list[tuple[int, str]] = []
        frames: list[int] = []
        for _ in range(n_segments):
            last = label[-1][1] if label else None
            activity = rng.choice([name for name in ACTIVITIES if name != last])
            label.append((len(frames), str(activity)))
            low, high = spans[activity]
            frames += [ACTIVITIES.index(activity)] * int(rng.integers(low, high + 1))
        X.append(looks[frames] + 0.8 * rng.normal(size=(len(frames), N_FEATURES)))
        Y.append(label)
    return X, Y

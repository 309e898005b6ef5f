"""Learned graph matching by baseline: Figure 11 of BMRM on the landmarks of the CMU house and hotel sequences.

Two frames of a video are matched by a linear assignment of their 30 landmarks. The score of a pair of landmarks is
minus the weighted squared difference of their 60 shape context features (Belongie et al. 2001: 5 logarithmic rings of
radii up to twice the mean distance, 12 angles), BMRM (19); the loss is the share of landmarks that are matched wrongly,
(20). Without learning all weights are 1. They are learned with L2 and L1 regularisation; lam is the one of
1, 0.1, 0.01, 0.001 with the smallest loss on validation pairs, the largest of equals.

For each baseline, the distance of the two frames in the sequence, all pairs of frames are divided at random into three
equal parts for training, validation and testing. The paper does not say how it divides them, how its features are
scaled, nor which lam it tries; its figure has curves without numbers. What its text says of them can be compared:
learned weights win the more the larger the baseline is, L1 and L2 are about the same, and L1 has fewer weights that are
not 0 (42 against 52 at baseline 50).

Needs cmu_house and cmu_hotel beside the checkout, or their folder in STRUCTOPT_DATA.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from _bench import Rows, Table, data_path, main, part, timed

import structopt as so
from structopt.risks.regularizers import L1, L2

LAMBDAS = (1.0, 1e-1, 1e-2, 1e-3)
BASELINES = tuple(range(0, 100, 10))
RINGS, ANGLES = 5, 12


def shape_context(points: np.ndarray) -> np.ndarray:
    """Return how many others each landmark of each frame has in each ring and angle: ``(frames, landmarks, 60)``."""
    away = points[:, None, :, :] - points[:, :, None, :]  # [frame, own landmark, other landmark, xy]
    distance = np.linalg.norm(away, axis=3)
    n = points.shape[1]
    distance /= distance.sum(axis=(1, 2), keepdims=True) / (n * (n - 1))
    edges = np.logspace(np.log10(1 / 8), np.log10(2.0), RINGS)
    ring = np.searchsorted(edges, distance, side="right")  # RINGS: further away than the last ring
    angle = np.floor(np.arctan2(away[..., 1], away[..., 0]) % (2 * np.pi) / (2 * np.pi / ANGLES)).astype(int) % ANGLES
    counted = (ring < RINGS) & ~np.eye(n, dtype=bool)
    found = np.zeros((*distance.shape[:2], RINGS * ANGLES))
    frame, own, _ = np.nonzero(counted)
    np.add.at(found, (frame, own, (ring * ANGLES + angle)[counted]), 1.0)
    return found


def losses(w: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return the share of wrong landmarks of each pair of frames: landmark k belongs to landmark k."""
    model = so.structures.Assignment()
    matched = np.array([model.predict(w, x) for x in X])
    return np.asarray(np.mean(matched != np.arange(X.shape[1]), axis=1))


def learn(train: np.ndarray, valid: np.ndarray, regularizer: Any) -> tuple[float, Any]:
    """Return the lam with the smallest validation loss, and its training result."""
    model, truth = so.structures.Assignment(normalize=True), [np.arange(train.shape[1])] * len(train)
    risk = so.train.StructuredRisk(model, list(train), truth)
    tried = {lam: so.train.bmrm(risk, regularizer, lam=lam, tol=1e-2, max_passes=200) for lam in LAMBDAS}
    best = min(LAMBDAS, key=lambda lam: float(losses(tried[lam].w, valid).mean()))
    return best, tried[best]


def tested(w: np.ndarray, X: np.ndarray) -> dict[str, Any]:
    loss = losses(w, X)
    error = float(loss.std(ddof=1) / np.sqrt(len(loss)))
    return {"loss": float(loss.mean()), "standard error": error, "weights": int((np.abs(w) > 1e-10).sum())}


def figure11(name: str, baselines: tuple[int, ...]) -> Rows:
    features = shape_context(np.load(data_path(f"cmu_{name}") / "all.npz")["points"].astype(float))
    weights: list[Any] = []
    for baseline in baselines:
        # Pair features (19) of all frames so far apart: (pairs, 30, 30, 60).
        first, second = features[: len(features) - baseline], features[baseline:]
        X = np.asarray(-((first[:, :, None, :] - second[:, None, :, :]) ** 2))
        order = np.random.default_rng(0).permutation(len(X))
        train, valid, test = (X[np.sort(part)] for part in np.array_split(order, 3))
        row: dict[str, Any] = {"set": name, "baseline": baseline}
        yield {**row, "weights of": "none", **tested(np.ones(X.shape[-1]), test), "CPU s": 0.0}
        for kind, regularizer in (("L2", L2()), ("L1", L1())):
            (lam, result), seconds = timed(partial(learn, train, valid, regularizer))
            row |= {"weights of": kind, **tested(result.w, test), "lam": lam, "gap": result.gap}
            yield row | {"CPU s": seconds}
            if (name, baseline) == ("house", 50):  # as in the paper
                weights += [{"weights of": kind, "feature": k, "weight": float(v)} for k, v in enumerate(result.w)]
    yield "Shape context features, a third of the pairs each for training, validation and testing."
    if weights:
        yield Table("weights", "Learned weights of the 60 shape context features at baseline 50", weights)


@part("Wrong landmarks by baseline, house")
def house(baselines: tuple[int, ...] = BASELINES) -> Rows:
    return figure11("house", baselines)


@part("Wrong landmarks by baseline, hotel")
def hotel(baselines: tuple[int, ...] = BASELINES) -> Rows:
    return figure11("hotel", baselines)


if __name__ == "__main__":
    main()

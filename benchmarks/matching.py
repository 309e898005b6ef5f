"""Learned graph matching by baseline: Figure 11 of BMRM on the landmarks of the CMU house and hotel sequences.

    python benchmarks/matching.py [house] [hotel] [--baselines 0 10 20 ...]

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

import argparse
import os
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _results import keep, shown

import structopt as so
from structopt.risks.regularizers import L1, L2

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
LAMBDAS = (1.0, 1e-1, 1e-2, 1e-3)
BASELINES = list(range(0, 100, 10))
RINGS, ANGLES = 5, 12


def shape_context(points: np.ndarray) -> np.ndarray:
    """Of each landmark of each frame, how many others are in each ring and angle: ``(frames, landmarks, 60)``."""
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


def pairs_at(features: np.ndarray, baseline: int) -> np.ndarray:
    """Pair features (19) of all frames so far apart: ``(pairs, 30, 30, 60)``."""
    first, second = features[: len(features) - baseline], features[baseline:]
    return np.asarray(-((first[:, :, None, :] - second[:, None, :, :]) ** 2))


def losses(w: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Share of wrong landmarks of each pair of frames: landmark k belongs to landmark k."""
    model = so.structures.Assignment()
    matched = np.array([model.predict(w, x) for x in X])
    return np.asarray(np.mean(matched != np.arange(X.shape[1]), axis=1))


def learn(parts: list[np.ndarray], regularizer: Any) -> tuple[dict[str, Any], np.ndarray]:
    """The weights with the smallest validation loss, tested; and the weights."""
    train, valid, test = parts
    risk = so.train.StructuredRisk(
        so.structures.Assignment(normalize=True), list(train), [np.arange(train.shape[1])] * len(train)
    )
    best: tuple[float, float, Any] | None = None
    for lam in LAMBDAS:
        result = so.train.bmrm(risk, regularizer, lam=lam, tol=1e-2, max_passes=200)
        loss = float(losses(result.w, valid).mean())
        if best is None or loss < best[0]:
            best = loss, lam, result
    assert best is not None
    _, lam, result = best
    return {**tested(result.w, test), "lam": lam, "gap": result.gap}, result.w


def tested(w: np.ndarray, X: np.ndarray) -> dict[str, Any]:
    loss = losses(w, X)
    error = float(loss.std(ddof=1) / np.sqrt(len(loss)))
    return {"loss": float(loss.mean()), "standard error": error, "weights": int((np.abs(w) > 1e-10).sum())}


def figure11(name: str, baselines: list[int]) -> None:
    features = shape_context(np.load(DATA / f"cmu_{name}" / "all.npz")["points"].astype(float))
    rows, weights = [], []
    for baseline in baselines:
        X = pairs_at(features, baseline)
        order = np.random.default_rng(0).permutation(len(X))
        parts = [X[np.sort(part)] for part in np.array_split(order, 3)]
        about = {"set": name, "baseline": baseline}
        rows.append(shown({**about, "weights of": "none", **tested(np.ones(X.shape[-1]), parts[2]), "CPU s": 0.0}))
        for told, regularizer in (("L2", L2()), ("L1", L1())):
            begun = process_time()
            found, w = learn(parts, regularizer)
            rows.append(shown({**about, "weights of": told, **found, "CPU s": process_time() - begun}))
            if (name, baseline) == ("house", 50):  # as in the paper
                weights += [{"weights of": told, "feature": k, "weight": float(value)} for k, value in enumerate(w)]
    words = [name, *(["--baselines", *map(str, baselines)] if baselines != BASELINES else [])]
    measures = ["structopt/structures/assignment.py", "structopt/train/bmrm.py"]
    keep(
        f"matching.{name}",
        rows,
        title=f"Wrong landmarks by baseline, {name}",
        measures=measures,
        words=words,
        note="Shape context features, a third of the pairs each for training, validation and testing.",
    )
    if weights:
        title = "Learned weights of the 60 shape context features at baseline 50"
        keep("matching.weights", weights, title=title, measures=measures, words=words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=("house", "hotel"), default=["house", "hotel"])
    parser.add_argument("--baselines", type=int, nargs="*", default=BASELINES)
    options = parser.parse_args()
    for name in options.sets:
        if not (DATA / f"cmu_{name}").exists():
            print(f"{name}: skipped, cmu_{name} is not beside the checkout (set STRUCTOPT_DATA)")
            continue
        figure11(name, options.baselines)


if __name__ == "__main__":
    main()

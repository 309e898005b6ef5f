"""Trainers on tiny and degenerate structured problems, against all labels listed.

Whatever the scale of features and lam, and whether an example is alone, repeated or without features: the objective is
that of the weights (never below it), no trainer's lower bound lies above any trainer's objective, and what is called
converged has a gap of at most tol.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np

import structopt as so

TRAINERS = ("block_ascent", "n_slack", "one_slack", "bcfw", "bmrm", "sgd", "proximal_bundle", "trust_region_bundle")
TOL = 1e-2
# Scores are compared with losses of about 1: what their rounding errors amount to.
ROUNDING = 1e-8


def _declared(rng):
    """Three tags on a budget."""
    space = so.LabelSpace()
    tag = space.binary("tag", 3)
    space.subject_to(rng.integers(1, 4, size=3).astype(float) @ tag <= 5)
    model = so.Model(space, features={"tag": so.features.Linear()}, loss=so.losses.Hamming())
    return model, [z for z in itertools.product([0, 1], repeat=3) if space.contains(np.array(z, dtype=float))]


def _problem(rng, n, d, scale):
    """A model, its inputs, and the labels of each."""
    kind = str(rng.choice(["multiclass", "multilabel", "mrf", "chain", "declared"]))
    X = scale * rng.normal(size=(n, d))
    if rng.random() < 0.2:
        X = scale * rng.integers(-1, 2, size=(n, d)).astype(np.float64)  # ties, and rows of zeros
    if rng.random() < 0.2:
        X[:] = X[0]
    if kind == "chain":
        inputs = [scale * rng.normal(size=(int(rng.integers(1, 4)), d)) for _ in range(n)]
        return kind, so.structures.Chain(2), inputs, [list(itertools.product(range(2), repeat=len(x))) for x in inputs]
    if kind == "multiclass":
        return kind, so.structures.Multiclass(3), X, [[0, 1, 2]] * n
    if kind == "declared":
        model, labels = _declared(rng)
        return kind, model, X, [labels] * n
    model = so.structures.MultiLabel(2) if kind == "multilabel" else so.structures.PairwiseMRF(2)
    return kind, model, X, [list(itertools.product([0, 1], repeat=2))] * n


def _planes(model, X, Y, labels, slack):
    """Slope and level of every label's surrogate, example by example."""
    planes = []
    for x, y, known in zip(X, Y, labels, strict=True):
        truth = model.encode(y, x)
        coef, const = model._loss_at(truth, x)
        points = np.array([model.encode(label, x) for label in known])
        g = points @ coef + const
        rows = np.array([model.joint(x, z) for z in points]) - model.joint(x, truth)
        planes.append((g[:, None] * rows if slack else rows, g))
    return planes


def _objective(planes, w, lam):
    return 0.5 * lam * float(w @ w) + float(np.mean([max((a @ w + b).max(), 0.0) for a, b in planes]))


def case(seed: int) -> str:
    """One problem, three trainers."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    lam, scale = 10.0 ** rng.integers(-6, 4), 10.0 ** rng.integers(-6, 7)
    kind, model, X, labels = _problem(rng, n, d, scale)
    Y = [known[int(rng.integers(len(known)))] for known in labels]
    if rng.random() < 0.2:
        Y = [known[0] for known in labels]
    surrogate = str(rng.choice(["margin", "slack"]))
    planes = _planes(model, X, Y, labels, surrogate == "slack")
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in rng.choice(TRAINERS, size=3, replace=False):
            risk = so.train.StructuredRisk(model, X, Y, surrogate)
            results[str(name)] = getattr(so.train, str(name))(risk, lam=lam, tol=TOL, max_passes=12)
    where = f"{kind}, {surrogate}, n={n}, lam={lam:g}, features of {scale:g}"
    heights = {name: _objective(planes, result.w, lam) for name, result in results.items()}
    best = min(heights.values())
    for name, result in results.items():
        slack = 1e-7 * abs(heights[name]) + ROUNDING
        assert result.objective >= heights[name] - slack, f"{where}: {name} reports less than its weights have"
        assert result.objective <= heights[name] * 1.003 + slack, f"{where}: {name} reports more than its weights have"
        assert result.lower_bound <= best + 1e-7 * abs(best) + ROUNDING, (
            f"{where}: the bound {result.lower_bound!r} of {name} lies above the objective {best!r}"
        )
        assert not result.converged or result.gap <= TOL or result.stopped == "precision", f"{where}: {name}: {result}"
    return f"{kind}, {surrogate}"

"""Searches of whole batches, every surrogate over every structure, against the enumeration of all labels.

A case is a data set of a few small examples and a surrogate, at three weights one after the other: what a search keeps
from pass to pass is tried, too. Weights and features are whole numbers half of the time, so that labels tie; some
losses are 0 for some variables. Over labels values must be those of the best label, over the hull at least that; bounds
must hold, and the plane of every label found must go through its value. A third of the cases are batches of explicit
points. About 38 planes a case: 10,000 of each of the eleven surrogates, of which two are a user's own, compiled and
interpreted, take 3,000 cases. Pairwise labels are kept as points, and without their pairs as those of many pairs are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

import structopt as so
from structopt import structures
from structopt.plane.batch import PlaneList
from structopt.plane.point_plane import PointPlane
from structopt.search import search_batch
from structopt.structures import mrf
from structopt.surrogates import (
    BetaScaling,
    GeneralizedScaling,
    LogLoss,
    Margin,
    MicroF1,
    ProbLoss,
    Product,
    Slack,
    Surrogate,
    from_functions,
)
from structopt.train import StructuredRisk

SURROGATES = (
    Slack(),
    Margin(),
    BetaScaling(0.5),
    GeneralizedScaling(1.5, 1.0),
    LogLoss(),
    ProbLoss(),
    ProbLoss(convex=True, noise=0.5),
    MicroF1(),
    Product(),
    from_functions("root", lambda h, g: (1 + h) * g**0.5, lambda h, g: (g**0.5, 0.5 * (1 + h) / g**0.5)),
    from_functions(
        "compiled root",
        numba.njit(lambda h, g: (1 + h) * g**0.5),
        numba.njit(lambda h, g: (g**0.5, 0.5 * (1 + h) / max(g, 1e-300) ** 0.5)),
    ),
)
FAMILIES = (
    "chain",
    "segments",
    "entities",
    "multiclass",
    "pairwise",
    "relaxed",
    "multilabel",
    "closure",
    "tree",
    "assignment",
    "partial",
    "knapsack",
    "hierarchy",
    "leaves",
    "dag",
    "compiled",
    "enumerated",
)


def rows(rng: np.random.Generator, *shape: int) -> Any:
    """Features: whole numbers for ties, or any."""
    return rng.integers(-2, 3, shape).astype(float) if rng.random() < 0.5 else rng.normal(size=shape)


@cache
def knapsack(zeros: bool) -> so.Model:
    """A declared space; some of its variables may have no loss."""
    space = so.LabelSpace("knapsack")
    y = space.binary("y", 6)
    space.subject_to(np.array([2.0, 3, 1, 2, 4, 3]) @ y <= 8)
    weights = np.array([1.0, 0.0, 2.0, 1.0, 0.0, 1.0]) if zeros else None
    return so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming(weights))


@cache
def compiled() -> so.Model:
    """A declared space of two rows in which no structure is recognised: a decision diagram answers for it."""
    rng = np.random.default_rng(0)
    space = so.LabelSpace("compiled")
    y = space.binary("y", 10)
    space.subject_to(rng.integers(1, 6, 10) @ y <= 14)
    space.subject_to(rng.integers(-3, 4, 10) @ y <= 4)
    return so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming(rng.integers(0, 3, 10).astype(float)))


@cache
def declared(family: str) -> so.Model:
    """The model of a family, declared once."""
    if family == "dag":
        # Node 0 carries all others, and few rows tie many: labels lie far below their hull.
        arcs = [(0, child) for child in range(1, 5)] + [(1 + k % 4, 5 + k) for k in range(4)] + [(2, 5), (3, 5), (4, 6)]
        return structures.HierarchicalLabels(so.Hierarchy(arcs), "closure")
    if family in ("hierarchy", "leaves"):
        tree = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (6, 7)])
        return structures.HierarchicalLabels(tree, "closure" if family == "hierarchy" else "leaves")
    if family == "enumerated":
        space = so.LabelSpace("enumerated")
        y = space.binary("y", 5)
        space.subject_to(np.array([3.0, 2, 4, 1, 2]) @ y <= 7)
        space.subject_to(np.array([1.0, -2, 1, 3, -1]) @ y <= 2)
        return so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    if family == "closure":
        hierarchy = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (2, 5)])
        return structures.HierarchicalLabels(hierarchy, "closure")
    return {
        "chain": lambda: structures.Chain(3),
        "segments": lambda: structures.Segmentation(2, max_length=2),
        "entities": lambda: structures.Segmentation(["O", "A", "B"], 2, loss="entities", length_weights=True),
        "multiclass": lambda: structures.Multiclass(4),
        "pairwise": lambda: structures.PairwiseMRF(4),
        "relaxed": lambda: structures.PairwiseMRF(4, integral="relax"),
        "multilabel": lambda: structures.MultiLabel(5, at_most=3),
        "tree": lambda: structures.Arborescence(),
        "assignment": lambda: structures.Assignment(),
        "partial": lambda: structures.Assignment(unmatched=True),
    }[family]()


_LABELS: dict[Any, np.ndarray] = {}


def labels_of(model: so.Model, x: Any) -> np.ndarray:
    """All labels of an input, listed once for each space."""
    space = model._integral_twin().space(x)
    if space.fingerprint not in _LABELS:
        _LABELS[space.fingerprint] = np.array(space.enumerate(), dtype=float)
    return _LABELS[space.fingerprint]


def data_set(family: str, rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    """A few examples."""
    n = 12
    if family == "compiled":
        model = compiled()
    else:
        model = knapsack(bool(rng.random() < 0.5)) if family == "knapsack" else declared(family)
    if family in ("chain", "segments", "entities"):
        X: Any = [rows(rng, int(t), 2) for t in rng.integers(1, 4 if family == "entities" else 5, n)]
    elif family == "tree":
        X = [rows(rng, int(t) + 1, int(t) + 1, 2) for t in rng.integers(1, 4, n)]
    elif family in ("assignment", "partial"):
        X = [rows(rng, 3, 3, 2) for _ in range(n)]
    else:
        X = rows(rng, n, 3)
    Y = []
    for x in X:
        labels = labels_of(model, x)
        z = labels[0] if family != "relaxed" and rng.random() < 0.1 else labels[rng.integers(len(labels))]
        Y.append(model._integral_twin().decode(z, x))
    return model, X, Y if isinstance(X, list) else np.array(Y)


def best_labels(risk: StructuredRisk, w: Any) -> np.ndarray:
    """The largest ψ of every example by enumeration."""
    psi, model = risk.surrogate, risk.model
    best = np.zeros(len(risk))
    for i in range(len(risk)):
        x = risk.batch.input(i)
        labels = labels_of(model, x)
        truth = model.encode(risk.Y[i], x)
        options = {"counted": model.counted(x)} if psi.counts else {}
        h, g = psi.factors(model.scores(w, x), model.loss(risk.Y[i], x), truth, **options)
        H, G = labels @ h[0] + h[1], labels @ g[0] + g[1]
        if psi.counts:  # micro-F1 by its definition
            counts = options["counted"]  # of variables, or a row for each state of a position
            table = counts.T if sp.issparse(counts) else np.diag(np.asarray(counts, dtype=float))
            marked, true = labels @ table, truth @ table
            margin = np.abs(marked - true).sum(axis=1) + (labels - truth) @ model.scores(w, x)
            assert np.allclose(H, margin) and np.allclose(G, -(marked + true).sum(axis=1)), "h and g of micro-F1"
        defined = G < -1e-9 if psi.counts else np.isfinite(G)
        best[i] = psi.clipped_array(H[defined], G[defined]).max(initial=0.0)
    return best


def structure_case(psi: Surrogate, rng: np.random.Generator) -> str:
    family = str(rng.choice(FAMILIES))
    model, X, Y = data_set(family, rng)
    relaxed = family == "relaxed"
    search = "convex_hull" if relaxed or rng.random() < 0.3 else "exact"
    usual = mrf._MANY_VARIABLES
    mrf._MANY_VARIABLES = int(rng.choice([0, usual]))
    try:
        risk = StructuredRisk(model, X, Y, psi, search, rtol=1e-7)
    finally:
        mrf._MANY_VARIABLES = usual
    w = np.zeros(risk.n_features)
    for step in range(3):
        found, best = risk.violations(w), best_labels(risk, w)
        room = 1e-9 * (1.0 + best)
        assert (found.upper >= best - room).all(), (family, search, "the bound", found.upper - best)
        assert (found.upper >= found.value - room).all(), (family, search, "bound below value")
        assert (found.value >= best * (1.0 - 1e-6) - 1e-9).all(), (family, search, "value", found.value - best)
        if search == "exact":
            assert (found.value <= best * (1.0 + 1e-6) + 1e-9).all(), (family, "too good", found.value - best)
        slope = risk.batch.joint_differences(found.labels, risk.truth, found.scale)
        total = float(found.level.sum() + slope @ w)
        assert abs(total - found.value.sum()) <= 1e-7 * (1.0 + np.abs(slope) @ np.abs(w)), (family, "the plane")
        size = float(rng.choice([0.2, 1.0, 4.0]))
        w = size * (rng.integers(-2, 3, w.size) if rng.random() < 0.5 else rng.normal(size=w.size)) + 0.3 * step * w
    return f"{psi!r}, {search}"


def points_case(psi: Surrogate, rng: np.random.Generator) -> str:
    """Batches of explicit points, with ties, zero losses, and points on one line."""
    planes = []
    for _ in range(40):
        n = int(rng.integers(1, 25))
        g = rng.integers(0, 5, n).astype(float) if rng.random() < 0.7 else rng.exponential(size=n)
        h = rng.integers(-6, 4, n).astype(float) if rng.random() < 0.5 else 2.0 * rng.normal(size=n) - g
        if rng.random() < 0.1:
            h = 2.0 - 0.5 * g
        planes.append(PointPlane(np.column_stack([h, -1.0 - g if psi.counts else g])))
    best = np.array([psi.clipped_array(p.h, p.g).max() for p in planes])
    integral = bool(rng.random() < 0.7)
    found = search_batch(PlaneList(planes), psi, integral=integral)
    assert (found.upper >= best * (1.0 - 1e-12)).all(), "the bound"
    assert (found.value >= best * (1.0 - 1e-9)).all(), "value"
    if integral:
        assert (found.value <= best * (1.0 + 1e-12)).all(), "too good"
        assert (found.upper <= best * (1.0 + 1e-8) + 1e-300).all(), "a proof"
    return f"{psi!r}, points"


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    psi = SURROGATES[seed % len(SURROGATES)]
    return points_case(psi, rng) if rng.random() < 0.33 else structure_case(psi, rng)

"""Data for hierarchical SVMs, and a small problem for every estimator.

Fixtures, because test modules cannot import a conftest in importlib mode.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt.structures.hierarchy import HierarchicalLabels


@pytest.fixture(scope="session")
def leaf_data():
    """Leaves with the largest sum of random node scores, plus noise."""

    def make(h: so.Hierarchy, n: int = 60, d: int = 6, seed: int = 0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        W = rng.normal(size=(len(h), d))
        potential = X @ (h.closure @ W).T + rng.normal(size=(n, h.leaf_index.size))
        return X, np.array(h.leaves)[potential.argmax(axis=1)]

    return make


@pytest.fixture(scope="session")
def leaf_set_data(leaf_data):
    """The sets of leaves that random node scores prefer."""

    def make(h: so.Hierarchy, n: int = 40, d: int = 5, seed: int = 0):
        X, _ = leaf_data(h, n, d, seed)
        W = np.random.default_rng(seed + 1).normal(size=(len(h), d))
        z = HierarchicalLabels(h, "leaves").batch(X)
        labels, _ = z.argmax(z.tables(W.ravel()))
        return X, z.decode(labels)

    return make


@dataclass(frozen=True)
class Case:
    """A small problem for one estimator: how it is made, and its data, one entry an example."""

    kind: type
    parameters: dict[str, Any]
    X: Any
    y: Any
    query: Any = None

    def make(self, **more: Any) -> Any:
        return self.kind(**{**self.parameters, **more})

    def take(self, rows: Any) -> Case:
        """The examples with these numbers, repeated if they are."""

        def part(values: Any) -> Any:
            return values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows]

        return replace(self, X=part(self.X), y=part(self.y), query=None if self.query is None else part(self.query))

    def fit(self, estimator: Any, **more: Any) -> Any:
        extra = {} if self.query is None else {"query": self.query}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*(no training example|are left out)")
            return estimator.fit(self.X, self.y, **extra, **more)


def _cases() -> dict[str, Case]:
    e, s = so.estimators, so.structures
    tree = [("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")]
    rng = np.random.default_rng(5)
    n, d = 24, 3
    X = rng.normal(size=(n, d)).round(3)
    score = X @ [1.0, -1.0, 0.5] + 0.7 * rng.normal(size=n)
    level = np.digitize(score, [-0.7, 0.7])
    rows = (X @ rng.normal(size=(d, 3)) + 0.5 * rng.normal(size=(n, 3)) > 0).astype(int)
    leaves = np.array(["cat", "dog", "oak"])[level]
    words = [rng.normal(size=(int(rng.integers(1, 4)), d)).round(3) for _ in range(n)]
    tags = [[("a", "b")[int(t)] for t in (x[:, 0] + 0.5 * rng.normal(size=len(x)) > 0)] for x in words]
    query = np.repeat(np.arange(n // 4), 4)
    sgd = {"trainer": "sgd", "max_passes": 10, "tol": 1e-6}
    table: dict[str, tuple[type, dict[str, Any], Any, Any, Any]] = {
        "LinearSVM": (e.LinearSVM, {"lam": 0.05}, X, score > 0, None),
        "LinearSVM squared": (e.LinearSVM, {"lam": 0.05, "loss": "squared_hinge"}, X, level, None),
        "LinearSVM coordinate": (e.LinearSVM, {"lam": 0.05, "trainer": "coordinate_descent"}, X, score > 0, None),
        "LinearSVM coordinate squared": (
            e.LinearSVM, {"lam": 0.05, "trainer": "coordinate_descent", "loss": "squared_hinge"}, X, score > 0, None
        ),
        "LinearSVM crammer_singer": (e.LinearSVM, {"lam": 0.05, "multi_class": "crammer_singer"}, X, level, None),
        "AUCMaximizer": (e.AUCMaximizer, {"lam": 0.05}, X, score > 0, None),
        "FBetaSVM": (e.FBetaSVM, {"lam": 0.05}, X, score > 0, None),
        "QuantileRegressor": (e.QuantileRegressor, {"lam": 0.05, "tau": 0.3}, X, score, None),
        "OrdinalRegressor": (e.OrdinalRegressor, {"lam": 0.05}, X, level, None),
        "OrdinalRegressor linear": (e.OrdinalRegressor, {"lam": 0.05, "cost": "linear"}, X, level, None),
        "OrdinalRegressor table": (
            e.OrdinalRegressor, {"lam": 0.05, "cost": [[0, 1, 3], [0, 0, 1.5], [0, 0, 0]]}, X, level, None
        ),
        "RankSVM": (e.RankSVM, {"lam": 0.05}, X, level, None),
        "RankSVM queries": (e.RankSVM, {"lam": 0.05}, X, level, query),
        "RankSVM ndcg": (e.RankSVM, {"lam": 0.05, "measure": "ndcg"}, X, level, query),
        "CRF": (e.CRF, {"lam": 0.05}, words, tags, None),
        "HierarchicalSVM": (e.HierarchicalSVM, {"hierarchy": tree, "lam": 0.05}, X, leaves, None),
        "HierarchicalSVM sgd": (
            e.HierarchicalSVM, {"hierarchy": tree, "lam": 0.05, **sgd, "max_passes": 5}, X, leaves, None
        ),
        "HierarchicalSVM divided": (
            e.HierarchicalSVM, {"hierarchy": tree, "lam": 0.05, "divided": True}, X, leaves, None
        ),
        "SharedSVM": (e.SharedSVM, {"hierarchy": tree, "lam": 0.05, "rounds_tol": 0.05, "tol": 1e-2}, X, leaves, None),
        "ConditionalRiskMinimizer": (
            e.ConditionalRiskMinimizer, {"model": s.MultiLabel(3), "kernel": "rbf", "gamma": 0.5}, X, rows, None
        ),
        "StructuredSVM multiclass": (
            so.StructuredSVM, {"model": s.Multiclass(["cat", "dog", "oak"]), "lam": 0.05}, X, leaves, None
        ),
        "StructuredSVM chain": (so.StructuredSVM, {"model": s.Chain(["a", "b"]), "lam": 0.05}, words, tags, None),
        "StructuredSVM slack": (
            so.StructuredSVM, {"model": s.PairwiseMRF(3), "surrogate": "slack", "lam": 0.05}, X, rows, None
        ),
    }  # fmt: skip
    for trainer in ("block_ascent", "bcfw", "n_slack", "one_slack", "bmrm", "proximal_bundle", "sgd"):
        options = sgd if trainer == "sgd" else {"trainer": trainer, "tol": 1e-2 if trainer == "bcfw" else 1e-3}
        model = {"model": s.PairwiseMRF(3), "lam": 0.05}
        table[f"StructuredSVM {trainer}"] = (so.StructuredSVM, {**model, **options}, X, rows, None)
    return {name: Case(*given) for name, given in table.items()}


CASES = _cases()


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """A small problem of every estimator and trainer in turn."""
    return CASES[request.param]


@pytest.fixture(scope="session")
def cases() -> dict[str, Case]:
    """The same by name."""
    return CASES

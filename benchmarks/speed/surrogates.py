"""What a surrogate costs: CPU time of a training pass over that of margin rescaling, structure by surrogate by search.

A pass is one evaluation of the structured risk: the most violated label of every example. The weights are those along a
short path from zero to weights after a few subgradient steps, as a trainer meets them, so that what a search keeps
from pass to pass counts; the same path for all. Of the passes after the first (which compiles and fills caches) the
total counts. Before a table is printed, every surrogate and search is checked on small instances of the same structure
against the enumeration of all labels: values to 1e-6, bounds never below.

Needs wnut17 and yeast beside the checkout (or their folder in STRUCTOPT_DATA).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _bench import Row, Rows, data_path, load, main, part, peak_gib, timed

import structopt as so
from structopt.surrogates import BetaScaling, LogLoss, Margin, MicroF1, ProbLoss, Slack, Surrogate
from structopt.train import StructuredRisk

SURROGATES: list[Surrogate] = [Slack(), BetaScaling(0.5), LogLoss(), ProbLoss(), MicroF1()]
Data = tuple[so.Model, Any, Any]


def chain(small: bool) -> Data:
    if not small:
        data = so.data.read_conll(data_path("wnut17") / "train.conll.gz", n_features=2**14)
        return so.structures.Chain(data.label_names), data.X, data.y
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 12)
    X = [rng.normal(size=(t, 4)) for t in lengths]
    return so.structures.Chain(3), X, [rng.integers(0, 3, t) for t in lengths]


def pairs(small: bool, integral: Any = "auto") -> Data:
    if not small:
        data = load("yeast")
        X = data.X.toarray()
        return so.structures.PairwiseMRF(14, integral=integral), X / np.linalg.norm(X, axis=1, keepdims=True), data.y
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 3)) / np.sqrt(3)
    return so.structures.PairwiseMRF(5, integral=integral), X, (rng.random((12, 5)) < 0.3).astype(int)


def closures(small: bool) -> Data:
    rng = np.random.default_rng(2)
    nodes, n = (5, 10) if small else (500, 100)
    edges = {(int(rng.integers(0, child)), child) for child in range(1, nodes) for _ in range(1 + child % 2)}
    model = so.structures.HierarchicalLabels(so.Hierarchy(sorted(edges)), "closure")
    X, oracle = rng.normal(size=(n, 5)), so.Oracle(model.space())
    # The closed sets nearest to random sets of nodes.
    wanted = [2.0 * (rng.random(oracle.space.n_variables) < 0.3) - 1.0 for _ in range(n)]
    return model, X, np.array([np.rint(oracle.maximize(c).z) for c in wanted], dtype=int)


def items(small: bool) -> Data:
    rng = np.random.default_rng(3)
    k, n = (6, 10) if small else (20, 200)
    weights = rng.integers(1, 10, k).astype(float)
    space = so.LabelSpace("knapsack")
    y = space.binary("y", k)
    space.subject_to(weights @ y <= weights.sum() // 2)
    oracle, X = so.Oracle(space), rng.normal(size=(n, 5))
    Y = np.array([np.rint(oracle.maximize(c).z) for c in rng.normal(size=(n, k))])
    return so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming()), X, Y.astype(int)


def check(model: so.Model, X: Any, Y: Any, psi: Surrogate, search: str) -> None:
    """Compare values and bounds with enumeration."""
    risk = StructuredRisk(model, X, Y, psi, search, rtol=1e-7)
    rng = np.random.default_rng(0)
    for size in (0.0, 0.1, 1.0, 3.0):
        w = size * rng.normal(size=risk.n_features)
        found = risk.violations(w)
        for i in range(len(risk)):
            x = risk.batch.input(i)
            labels = model._integral_twin().space(x).enumerate()
            truth = model.encode(risk.Y[i], x)
            options = {"counted": model.counted(x)} if psi.counts else {}
            h, g = psi.factors(model.scores(w, x), model.loss(risk.Y[i], x), truth, **options)
            values = [psi.clipped(*p) for p in zip(labels @ h[0] + h[1], labels @ g[0] + g[1], strict=True)]
            best = max(v for v in values if np.isfinite(v))
            assert found.upper[i] >= best * (1 - 1e-9) - 1e-9, (psi, search, i)
            if search == "exact":
                assert abs(found.value[i] - best) <= 1e-6 * (1 + best), (psi, search, i, found.value[i], best)
            else:
                assert found.value[i] >= best * (1 - 1e-6) - 1e-9, (psi, search, i)


def path_of(model: so.Model, X: Any, Y: Any, passes: int) -> list[np.ndarray]:
    """Return weights along a line of subgradient steps of margin rescaling."""
    risk = StructuredRisk(model, X, Y)
    w, step = np.zeros(risk.n_features), 0.0
    for k in range(4):
        _, slope = risk(w)
        step = step or 0.5 / max(float(np.abs(slope).max()), 1e-12)
        w = w - step / (1 + k) * slope
    return [w * (0.4 + 0.6 * k / passes) for k in range(passes + 1)]


def seconds(risk: StructuredRisk, weights: list[np.ndarray]) -> float:
    """Return the CPU seconds of the passes after the first."""
    risk(weights[0])
    return timed(lambda: [risk(w) for w in weights[1:]])[1]


def register(name: str, title: str, make: Callable[[bool], Data], searches: tuple[str, ...]) -> None:
    """Register the part that checks and measures one structure."""

    def table(examples: int = 0, passes: int = 6) -> Rows:
        model, X, Y = make(False)
        X, Y = X[: examples or len(Y)], Y[: examples or len(Y)]
        small, weights = make(True), path_of(model, X, Y, passes)
        base = seconds(StructuredRisk(model, X, Y, Margin()), weights)
        for psi in SURROGATES:
            for search in searches:
                check(*small, psi, search)
                seconds(StructuredRisk(model, X[:40], Y[:40], psi, search), weights)  # compiles
                risk = StructuredRisk(model, X, Y, psi, search)
                spent = seconds(risk, weights)
                row: Row = {"problem": f"{name}, {len(Y)} examples", "surrogate": repr(psi), "search": search}
                row |= {"ms a pass": 1e3 * spent / passes, "times margin": spent / base, "peak GiB": peak_gib()}
                yield row | {"proofs": ", ".join(f"{proof} {n}" for proof, n in risk.statistics.most_common())}

    part(title, ratio="times margin", name=name)(table)


BOTH = ("convex_hull", "exact")
register("chain", "Named entities in BIO: wnut17, 13 states, sparse features of words", chain, BOTH)
register("yeast", "Yeast's 14 labels with all pairs", pairs, BOTH)
register("relaxed", "Yeast's 14 labels with all pairs, relaxed", lambda s: pairs(s, "relax"), BOTH[:1])
register("closure", "Closed sets of nodes of a DAG of 500 nodes", closures, BOTH)
register("knapsack", "A declared space of one row: 20 items, weights 1 to 9, half of them fit", items, BOTH)


if __name__ == "__main__":
    main()

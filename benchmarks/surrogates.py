"""What a surrogate costs: CPU time of a training pass over that of margin rescaling, structure by surrogate by search.

    python benchmarks/surrogates.py [chain yeast relaxed closure knapsack] [--surrogates slack prob ...] [--passes 6]

A pass is one evaluation of the structured risk: the most violated label of every example. The weights are those along a
short path from zero to weights after a few subgradient steps, as a trainer meets them, so that what a search keeps
from pass to pass counts; the same path for all. Of the passes after the first (which compiles and fills caches) the
total counts. Before a table is printed, every surrogate and search is checked on small instances of the same structure
against the enumeration of all labels: values to 1e-6, bounds never below.

Needs wnut17 and yeast beside the checkout (or their folder in STRUCTOPT_DATA); without them random data of like sizes.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

# Before numpy is imported: threads of BLAS that wait for a core would be counted as work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

import structopt as so
from structopt.surrogates import BetaScaling, LogLoss, Margin, MicroF1, ProbLoss, Slack, Surrogate
from structopt.train import StructuredRisk

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
MEASURES = ("structopt/search", "structopt/surrogates", "structopt/algorithms", "structopt/risks", "structopt/plane")
SURROGATES: list[Surrogate] = [Slack(), BetaScaling(0.5), LogLoss(), ProbLoss(), MicroF1()]


class Problem(NamedTuple):
    """A data set for the table, and a small one whose labels can be enumerated."""

    make: Callable[[bool], tuple[so.Model, Any, Any]]
    searches: tuple[str, ...]


def chain(small: bool) -> tuple[so.Model, Any, Any]:
    """Named entities in BIO: wnut17, 13 states, sparse features of words."""
    rng = np.random.default_rng(0)
    path = DATA / "wnut17" / "train.conll.gz"
    if not small and path.exists():
        data = so.data.read_conll(path, n_features=2**14)
        return so.structures.Chain(data.label_names), data.X, data.y
    lengths = rng.integers(1, 5, 12) if small else rng.integers(5, 30, 2000)
    states = 3 if small else 13
    X = [rng.normal(size=(t, 4 if small else 30)) for t in lengths]
    return so.structures.Chain(states), X, [rng.integers(0, states, t) for t in lengths]


def _yeast(small: bool, relaxed: bool) -> tuple[so.Model, Any, Any]:
    rng = np.random.default_rng(1)
    path = DATA / "yeast" / "train.npz"
    if not small and path.exists():
        z = np.load(path)
        X = sp.csr_array((z["X_data"], z["X_indices"], z["X_indptr"]), shape=tuple(z["X_shape"])).toarray()
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return so.structures.PairwiseMRF(14, integral="relax" if relaxed else "auto"), X, z["Y"]
    n, k, d = (12, 5, 3) if small else (1500, 14, 103)
    return (
        so.structures.PairwiseMRF(k, integral="relax" if relaxed else "auto"),
        rng.normal(size=(n, d)) / np.sqrt(d),
        (rng.random((n, k)) < 0.3).astype(int),
    )


def yeast(small: bool) -> tuple[so.Model, Any, Any]:
    """Yeast's 14 labels with all pairs."""
    return _yeast(small, relaxed=False)


def relaxed(small: bool) -> tuple[so.Model, Any, Any]:
    """Yeast's 14 labels with all pairs, relaxed."""
    return _yeast(small, relaxed=True)


def closure(small: bool) -> tuple[so.Model, Any, Any]:
    """Closed sets of nodes of a DAG of 500 nodes."""
    rng = np.random.default_rng(2)
    nodes, n = (5, 10) if small else (500, 100)
    edges = [(int(rng.integers(0, child)), child) for child in range(1, nodes) for _ in range(1 + child % 2)]
    hierarchy = so.Hierarchy(sorted(set(edges)))
    model = so.structures.HierarchicalLabels(hierarchy, "closure")
    X = rng.normal(size=(n, 5))
    Y = []
    for _ in range(n):
        on = rng.random(model.space().n_variables) < 0.3
        Y.append(_closed(model.space(), on.astype(float)))
    return model, X, np.array(Y, dtype=int)


def _closed(space: so.LabelSpace, wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The closed set nearest to a set of nodes."""
    return np.rint(so.Oracle(space).maximize(2.0 * wanted - 1.0).z)


def knapsack(small: bool) -> tuple[so.Model, Any, Any]:
    """A declared space of one row: 20 items, weights 1 to 9, half of them fit."""
    rng = np.random.default_rng(3)
    k, n = (6, 10) if small else (20, 200)
    weights = rng.integers(1, 10, k).astype(float)
    space = so.LabelSpace("knapsack")
    y = space.binary("y", k)
    space.subject_to(weights @ y <= weights.sum() // 2)
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    oracle = so.Oracle(space)
    X = rng.normal(size=(n, 5))
    Y = np.array([np.rint(oracle.maximize(c).z) for c in rng.normal(size=(n, k))])
    return model, X, Y.astype(int)


PROBLEMS = {
    "chain": Problem(chain, ("convex_hull", "exact")),
    "yeast": Problem(yeast, ("convex_hull", "exact")),
    "relaxed": Problem(relaxed, ("convex_hull",)),
    "closure": Problem(closure, ("convex_hull", "exact")),
    "knapsack": Problem(knapsack, ("convex_hull", "exact")),
}


def check(model: so.Model, X: Any, Y: Any, psi: Surrogate, search: str) -> None:
    """Values and bounds against enumeration."""
    risk = StructuredRisk(model, X, Y, psi, search, rtol=1e-7)
    rng = np.random.default_rng(0)
    for size in (0.0, 0.1, 1.0, 3.0):
        w = size * rng.normal(size=risk.n_features)
        found = risk.violations(w)
        for i in range(len(risk)):
            x = risk.batch.input(i)
            labels = model.integral_twin().space(x).enumerate()
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


def path_of(model: so.Model, X: Any, Y: Any, passes: int) -> list[np.ndarray[Any, Any]]:
    """Weights along a line of subgradient steps of margin rescaling."""
    risk = StructuredRisk(model, X, Y)
    w, step = np.zeros(risk.n_features), 0.0
    for k in range(4):
        _, slope = risk(w)
        step = step or 0.5 / max(float(np.abs(slope).max()), 1e-12)
        w = w - step / (1 + k) * slope
    return [w * (0.4 + 0.6 * k / passes) for k in range(passes + 1)]


def seconds(risk: StructuredRisk, weights: list[np.ndarray[Any, Any]]) -> float:
    """CPU seconds of the passes after the first."""
    risk(weights[0])
    begun = process_time()
    for w in weights[1:]:
        risk(w)
    return process_time() - begun


def table(name: str, limit: int | None, passes: int, surrogates: list[Surrogate]) -> list[Mapping[str, Any]]:
    """Check and measure one structure."""
    problem = PROBLEMS[name]
    small = problem.make(True)
    for psi in surrogates:
        for search in problem.searches:
            check(*small, psi, search)
    model, X, Y = problem.make(False)
    if limit is not None:
        X, Y = X[:limit], Y[:limit]
    weights = path_of(model, X, Y, passes)
    base = seconds(StructuredRisk(model, X, Y, Margin()), weights)
    rows = []
    for psi in surrogates:
        for search in problem.searches:
            seconds(StructuredRisk(model, X[:40], Y[:40], psi, search), weights)  # compiles whatever a later pass needs
            risk = StructuredRisk(model, X, Y, psi, search)
            spent = seconds(risk, weights)
            proofs = ", ".join(f"{proof} {count}" for proof, count in risk.statistics.most_common())
            row = {
                "problem": f"{name}, {len(Y)} examples",
                "surrogate": repr(psi),
                "search": search,
                "ms a pass": 1e3 * spent / passes,
                "times margin": spent / base,
                "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
            rows.append(shown(row | {"proofs": proofs}))
    return rows


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PROBLEMS)}")
    parser.add_argument("--surrogates", nargs="*", help=f"some of {', '.join(psi.name for psi in SURROGATES)}")
    parser.add_argument("--examples", type=int, default=None)
    parser.add_argument("--passes", type=int, default=6)
    options = parser.parse_args()
    chosen = [psi for psi in SURROGATES if not options.surrogates or psi.name in options.surrogates]
    rest = [word for word in sys.argv[1:] if word not in PROBLEMS]
    for name in options.names or PROBLEMS:
        rows = table(name, options.examples, options.passes, chosen)
        title = (PROBLEMS[name].make.__doc__ or "").strip(".")
        keep(f"surrogates.{name}", rows, title=title, measures=MEASURES, words=[name, *rest], ratio="times margin")


if __name__ == "__main__":
    main()

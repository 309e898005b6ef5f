"""Lazy rows: tours, matchings of general graphs, and pairwise models with cycle inequalities.

    python benchmarks/lazy.py [tours training matchings pairs] [--quick]

- tours, whose costs drift as they do in training: a call should take at most three times as long as HiGHS takes for the
  final rows, which nobody knows beforehand, and the rows found in a call should fall towards zero.
- training: how many rows the queries of a training find, by its progress.
- matchings, against the blossom algorithm of networkx.
- pairs: predictions and loss-augmented queries of a trained model, relaxed by roof duality and with cycle inequalities:
  how many of the fractional answers become integral, and in how much of roof duality's time. Needs yeast and bibtex
  beside the checkout (or their folder in STRUCTOPT_DATA); without them random models.

CPU times of one run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import process_time
from typing import Any

# Before numpy is imported: threads of BLAS that wait for a core would be counted as work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import networkx as nx
import numpy as np
import scipy.sparse as sp
from _results import keep, shown

import structopt as so
from structopt.backends.highs import Highs

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def drifting_costs(n: int, calls: int, seed: int) -> np.ndarray:
    """Minus the distances of n places, which change a little from call to call."""
    rng = np.random.default_rng(seed)
    place = rng.random((n, 2))
    distance = np.linalg.norm(place[:, None] - place[None], axis=2)
    steps = rng.normal(size=(calls, n, n)) * 0.002
    return np.asarray(-(distance + np.cumsum(steps, axis=0)).reshape(calls, -1))


def one_drift(n: int, calls: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CPU seconds of each call, of HiGHS on the rows that were found in the end, and the rows found by each call."""
    costs = drifting_costs(n, calls, seed)
    space = so.structures.Tour().space(np.zeros((n, n, 1)))
    so.Oracle(space).maximize(costs[0])  # compiles the kernel of the cuts
    oracle = so.Oracle(space)
    seconds, values, last = [], [], []
    for c in costs:
        begun = process_time()
        values.append(oracle.maximize(c).value)
        seconds.append(process_time() - begun)
    pool = oracle.lazy_rows
    assert pool is not None
    lp, mip = Highs(pool.program.relaxed()), Highs(pool.program)
    for c, value in zip(costs, values, strict=True):
        begun = process_time()
        lp.set_costs(c)
        z = lp.run().z
        if z is None or np.abs(z - np.rint(z)).max() > 1e-6:
            mip.set_costs(c)
            z = mip.run().z
        last.append(process_time() - begun)
        assert z is not None and abs(c @ z - value) <= 1e-6 * max(1.0, abs(value)), "another optimum"
    return np.array(seconds), np.array(last), pool.history


def tours(n: int, calls: int, seeds: int) -> Mapping[str, Any]:
    """Tours whose costs drift, against HiGHS on the rows that were found in the end."""
    half = calls // 2
    own, final, found = (np.array(part) for part in zip(*(one_drift(n, calls, k) for k in range(seeds)), strict=True))
    row = {
        "tours": f"{n} nodes, {seeds} x {calls} calls",
        "ms a call, second half": 1e3 * own[:, half:].mean(),
        "ms of HiGHS on the final rows": 1e3 * final[:, half:].mean(),
        "lazy rows / final rows": own[:, half:].sum() / final[:, half:].sum(),
        "median of the calls": np.median(own[:, half:] / final[:, half:]),
        "rows found a call, first tenth": found[:, : calls // 10].mean(),
        "first half": found[:, :half].mean(),
        "second half": found[:, half:].mean(),
    }
    return shown(row)


def training(n: int, examples: int) -> Iterator[Mapping[str, Any]]:
    """Rows found by the queries of a training: tours of a driver whose taste is learned, block ascent over all days."""
    rng = np.random.default_rng(0)
    taste = np.array([-1.0, 0.3, -0.4])
    driver = so.structures.Tour()
    X = []
    for _ in range(examples):
        stops = rng.random((n, 2))
        distance = np.linalg.norm(stops[:, None] - stops[None], axis=2)
        highway, north = np.triu(rng.random((n, n)) < 0.3, 1), stops[:, 1] > 0.5
        X.append(np.stack([distance, highway | highway.T, north[:, None] != north], axis=2).astype(float))
    Y = [driver.predict(taste, x + 0.02 * rng.normal(size=x.shape)) for x in X]
    risk = so.train.StructuredRisk(driver, X, Y)
    trained = so.train.block_ascent(risk, lam=1e-3, tol=0.02)
    pool = risk.model.oracle(X[0]).lazy_rows
    assert pool is not None
    history = pool.history
    for k, part in enumerate(np.array_split(history, 5)):
        row = {
            "training": f"{n} stops, {examples} days, fifth {k + 1} of {len(history)} queries",
            "rows found a query": part.mean(),
            "queries that found none": f"{(part == 0).mean():.0%}",
            "relative gap in the end": trained.gap,
        }
        yield shown(row)


def matchings(n: int, calls: int, seed: int = 0) -> Mapping[str, Any]:
    """Perfect matchings of places in the plane, whose distances drift, against networkx."""
    space = so.structures.Matching(perfect=True).space(np.zeros((n, n, 1)))
    so.Oracle(space).maximize(drifting_costs(n, 1, seed)[0])  # compiles
    oracle = so.Oracle(space)
    own, peer = [], []
    found: list[int] = []
    for k, c in enumerate(drifting_costs(n, calls, seed)):
        begun = process_time()
        value = oracle.maximize(c).value
        own.append(process_time() - begun)
        found.append(oracle.lazy_rows.found - sum(found))  # type: ignore[union-attr]
        if k % max(1, calls // 4) == 0:
            scores = c.reshape(n, n)
            graph = nx.Graph()
            graph.add_weighted_edges_from((i, j, scores[i, j]) for i in range(n) for j in range(i + 1, n))
            begun = process_time()
            pairs = nx.max_weight_matching(graph, maxcardinality=True)
            peer.append(process_time() - begun)
            assert abs(sum(scores[min(pair), max(pair)] for pair in pairs) - value) <= 1e-6, "another optimum"
    half = calls // 2
    row = {
        "matchings": f"{n} nodes, {calls} calls",
        "ms a call, second half": 1e3 * np.mean(own[half:]),
        "ms of networkx": 1e3 * np.mean(peer),
        "lazy / networkx": np.mean(own[half:]) / np.mean(peer),
        "rows found, first half": sum(found[:half]),
        "second half": sum(found[half:]),
    }
    return shown(row)


def queries(name: str, n: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of labels (predictions, then loss-augmented ones) and of pairs, after training over the relaxation."""
    path = DATA / name / "train.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        return rng.normal(size=(most, n)), rng.normal(0.5, 1.0, (most, n)), rng.normal(-0.2, 0.5, n * (n - 1) // 2)
    z = np.load(path)
    X = sp.csr_array((z["X_data"], z["X_indices"], z["X_indptr"]), shape=tuple(z["X_shape"]))
    Y = z["Y"][:, np.sort(np.argsort(-z["Y"].sum(axis=0), kind="stable")[:n])].astype(int)
    chosen = np.flatnonzero(Y.any(axis=1))[:most]
    inputs, Y = X[chosen].toarray(), Y[chosen]
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    model = so.structures.PairwiseMRF(n, integral="relax")
    w = so.StructuredSVM(model, lam=1e-3, tol=0.05).fit(inputs, Y).result_.w
    scores = inputs @ w[: n * inputs.shape[1]].reshape(n, -1).T
    return scores, scores + 1.0 - 2.0 * Y, w[n * inputs.shape[1] :]


def pairs(name: str, n: int, most: int) -> Iterator[Mapping[str, Any]]:
    """Roof duality and cycle inequalities."""
    predicted, augmented, pair = queries(name, n, most)
    graph = so.structures.PairwiseMRF(n).graph
    for what, unary in (("predictions", predicted), ("margin queries", augmented)):
        P = np.broadcast_to(pair, (len(unary), len(pair)))
        graph.tighten(unary, P, *graph.solve_points(unary, P))  # compiles
        seconds = np.zeros(2)
        for _ in range(3):
            begun = process_time()
            Z, values = graph.solve_points(unary, P)
            halves = (Z[:, :n] == 0.5).any(axis=1)
            between = process_time()
            bounds = graph.tighten(unary, P, Z, values)
            seconds += between - begun, process_time() - between
        exact = graph.solve_exact_batch(unary, np.ascontiguousarray(P))[1]
        whole = (np.rint(Z) == Z).all(axis=1)
        assert (bounds >= exact - 1e-9).all() and np.abs(values - exact)[whole].max(initial=0.0) < 1e-9
        roof, cycles = 1e6 * seconds / 3 / len(unary)
        row = {
            "queries": f"{name}, {n} labels, {len(unary)} {what}",
            "fractional by roof duality": int(halves.sum()),
            "of these integral with cycles": int((halves & whole).sum()),
            "us of roof duality": roof,
            "us with cycles": roof + cycles,
            "cycles / roof": (roof + cycles) / roof,
            "left to HiGHS": int(np.isinf(bounds).sum()),
        }
        yield shown(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="tours, training, matchings, pairs; all by default")
    parser.add_argument("--quick", action="store_true", help="few nodes, labels and calls")
    given = parser.parse_args()
    quick, parts = given.quick, given.parts or ["tours", "training", "matchings", "pairs"]
    calls, seeds, flags = (10, 2, ["--quick"]) if quick else (60, 5, [])
    rooms = ("structopt/oracle", "structopt/backends", "structopt/algorithms")
    if "tours" in parts:
        rows = [tours(n, calls, seeds) for n in ((10, 20) if quick else (20, 50))]
        title = "Subtours found on the way"
        words, ratio = ["tours", *flags], "lazy rows / final rows"
        keep("lazy", rows, title=title, words=words, measures=rooms, seeds=range(seeds), ratio=ratio)
    if "training" in parts:
        rows = list(training(8, 10) if quick else training(20, 60))
        title = "Subtours found by the queries of a training"
        keep("lazy.training", rows, title=title, words=["training", *flags], measures=rooms)
    if "matchings" in parts:
        rows = [matchings(n, calls) for n in ((10, 20) if quick else (20, 50, 100))]
        title = "Perfect matchings of a complete graph, odd sets found on the way"
        keep("lazy.matchings", rows, title=title, words=["matchings", *flags], measures=rooms, ratio="lazy / networkx")
    if "pairs" in parts:
        cases = [("yeast", 14)] if quick else [("yeast", 14), ("bibtex", 14), ("bibtex", 20), ("bibtex", 30)]
        rows = [row for name, n in cases for row in pairs(name, n, 100 if quick else 500)]
        title = "Pairwise models relaxed by roof duality, and with cycle inequalities"
        note = (
            "Of each data set the 500 first examples, its most frequent labels and all pairs; weights after training."
        )
        room = ("structopt/algorithms/pairwise",)
        keep("lazy.pairs", rows, title=title, words=["pairs", *flags], measures=room, ratio="cycles / roof", note=note)


if __name__ == "__main__":
    main()

"""Lazy rows: tours, matchings of general graphs, and pairwise models with cycle inequalities.

- tours, whose costs drift as they do in training: a call should take at most three times as long as HiGHS takes for the
  final rows, which nobody knows beforehand, and the rows found in a call should fall towards zero.
- training: how many rows the queries of a training find, by its progress.
- matchings, against the blossom algorithm of networkx.
- pairs: predictions and loss-augmented queries of a trained model, relaxed by roof duality and with cycle inequalities:
  how many of the fractional answers become integral, and in how much of roof duality's time. Needs yeast and bibtex
  beside the checkout (or their folder in STRUCTOPT_DATA).

CPU times of one run.
"""

from __future__ import annotations

from functools import partial

import networkx as nx
import numpy as np
from _bench import Rows, load, main, part, timed

import structopt as so
from structopt.backends.highs import Highs


def drifting_costs(n: int, calls: int, seed: int) -> np.ndarray:
    """Return minus the distances of n places, which change a little from call to call."""
    rng = np.random.default_rng(seed)
    place = rng.random((n, 2))
    distance = np.linalg.norm(place[:, None] - place[None], axis=2)
    steps = rng.normal(size=(calls, n, n)) * 0.002
    return np.asarray(-(distance + np.cumsum(steps, axis=0)).reshape(calls, -1))


def solved(space: so.LabelSpace, costs: np.ndarray) -> tuple[so.Oracle, list[float], np.ndarray]:
    """Return an oracle after it has maximised all costs, the values, and the CPU seconds of each call."""
    so.Oracle(space).maximize(costs[0])  # compiles the kernel of the cuts
    oracle = so.Oracle(space)
    found, seconds = zip(*(timed(partial(oracle.maximize, c)) for c in costs), strict=True)
    return oracle, [label.value for label in found], np.array(seconds)


def one_drift(n: int, calls: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CPU seconds of each call, of HiGHS on the rows found in the end, and the rows found by each call."""
    costs = drifting_costs(n, calls, seed)
    oracle, values, seconds = solved(so.structures.Tour().space(np.zeros((n, n, 1))), costs)
    pool = oracle.lazy_rows
    assert pool is not None
    lp, mip = Highs(pool.program.relaxed()), Highs(pool.program)

    def known_rows(c: np.ndarray) -> np.ndarray | None:
        lp.set_costs(c)
        z = lp.run().z
        if z is None or np.abs(z - np.rint(z)).max() > 1e-6:
            mip.set_costs(c)
            z = mip.run().z
        return z

    last = []
    for c, value in zip(costs, values, strict=True):
        z, spent = timed(partial(known_rows, c))
        last.append(spent)
        assert z is not None and abs(c @ z - value) <= 1e-6 * max(1.0, abs(value)), "another optimum"
    return seconds, np.array(last), pool.history


@part("Subtours found on the way", ratio="lazy rows / final rows")
def tours(nodes: tuple[int, ...] = (20, 50), calls: int = 60, seeds: int = 5) -> Rows:
    half = calls // 2
    for n in nodes:
        own, final, found = map(np.array, zip(*(one_drift(n, calls, k) for k in range(seeds)), strict=True))
        yield {
            "tours": f"{n} nodes, {seeds} x {calls} calls",
            "ms a call, second half": 1e3 * own[:, half:].mean(),
            "ms of HiGHS on the final rows": 1e3 * final[:, half:].mean(),
            "lazy rows / final rows": own[:, half:].sum() / final[:, half:].sum(),
            "median of the calls": np.median(own[:, half:] / final[:, half:]),
            "rows found a call, first tenth": found[:, : calls // 10].mean(),
            "first half": found[:, :half].mean(),
            "second half": found[:, half:].mean(),
        }


@part("Subtours found by the queries of a training")
def training(stops: int = 20, days: int = 60) -> Rows:
    """Learn the taste of a driver from tours, by block ascent over all days."""
    rng = np.random.default_rng(0)
    taste, driver, X = np.array([-1.0, 0.3, -0.4]), so.structures.Tour(), []
    for _ in range(days):
        place = rng.random((stops, 2))
        distance = np.linalg.norm(place[:, None] - place[None], axis=2)
        highway, north = np.triu(rng.random((stops, stops)) < 0.3, 1), place[:, 1] > 0.5
        X.append(np.stack([distance, highway | highway.T, north[:, None] != north], axis=2).astype(float))
    Y = [driver.predict(taste, x + 0.02 * rng.normal(size=x.shape)) for x in X]
    risk = so.train.StructuredRisk(driver, X, Y)
    trained = so.train.block_ascent(risk, lam=1e-3, tol=0.02)
    pool = risk.model.oracle(X[0]).lazy_rows
    assert pool is not None
    for k, fifth in enumerate(np.array_split(pool.history, 5)):
        row = {"training": f"{stops} stops, {days} days, fifth {k + 1} of {len(pool.history)} queries"}
        row |= {"rows found a query": fifth.mean(), "queries that found none": f"{(fifth == 0).mean():.0%}"}
        yield row | {"relative gap in the end": trained.gap}


@part("Perfect matchings of a complete graph, odd sets found on the way", ratio="lazy / networkx")
def matchings(nodes: tuple[int, ...] = (20, 50, 100), calls: int = 60) -> Rows:
    """Match places in the plane, whose distances drift."""
    for n in nodes:
        costs = drifting_costs(n, calls, 0)
        oracle, values, own = solved(so.structures.Matching(perfect=True).space(np.zeros((n, n, 1))), costs)
        peer, half = [], calls // 2
        for k in range(0, calls, max(1, calls // 4)):
            scores = costs[k].reshape(n, n)
            graph = nx.Graph()
            graph.add_weighted_edges_from((i, j, scores[i, j]) for i in range(n) for j in range(i + 1, n))
            pairs, spent = timed(partial(nx.max_weight_matching, graph, maxcardinality=True))
            peer.append(spent)
            assert abs(sum(scores[min(pair), max(pair)] for pair in pairs) - values[k]) <= 1e-6, "another optimum"
        assert oracle.lazy_rows is not None
        found = oracle.lazy_rows.history
        row = {"matchings": f"{n} nodes, {calls} calls", "ms a call, second half": 1e3 * own[half:].mean()}
        row |= {"ms of networkx": 1e3 * np.mean(peer), "lazy / networkx": own[half:].mean() / np.mean(peer)}
        yield row | {"rows found, first half": sum(found[:half]), "second half": sum(found[half:])}


def queries(name: str, n: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores of labels (predictions, then loss-augmented ones) and of pairs, after training the relaxation."""
    data = load(name)
    Y = data.y[:, np.sort(np.argsort(-data.y.sum(axis=0), kind="stable")[:n])].astype(int)
    chosen = np.flatnonzero(Y.any(axis=1))[:most]
    inputs, Y = data.X[chosen].toarray(), Y[chosen]
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    model = so.structures.PairwiseMRF(n, integral="relax")
    w = so.StructuredSVM(model, lam=1e-3, tol=0.05).fit(inputs, Y).result_.w
    scores = inputs @ w[: n * inputs.shape[1]].reshape(n, -1).T
    return scores, scores + 1.0 - 2.0 * Y, w[n * inputs.shape[1] :]


@part("Pairwise models relaxed by roof duality, and with cycle inequalities", ratio="cycles / roof")
def pairs(examples: int = 500) -> Rows:
    for name, n in (("yeast", 14), ("bibtex", 14), ("bibtex", 20), ("bibtex", 30)):
        *both, pair = queries(name, n, examples)
        graph = so.structures.PairwiseMRF(n).graph
        for told, unary in zip(("predictions", "margin queries"), both, strict=True):
            P = np.broadcast_to(pair, (len(unary), len(pair)))
            graph.tighten(unary, P, *graph.solve_points(unary, P))  # compiles
            seconds = np.zeros(2)
            for _ in range(3):
                (Z, values), first = timed(lambda: graph.solve_points(unary, P))  # noqa: B023
                halves = (Z[:, :n] == 0.5).any(axis=1)
                bounds, second = timed(lambda: graph.tighten(unary, P, Z, values))  # noqa: B023
                seconds += first, second
            exact = graph.solve_exact(unary, np.ascontiguousarray(P))[1]
            whole = (np.rint(Z) == Z).all(axis=1)
            assert (bounds >= exact - 1e-9).all() and np.abs(values - exact)[whole].max(initial=0.0) < 1e-9
            roof, cycles = 1e6 * seconds / 3 / len(unary)
            yield {
                "queries": f"{name}, {n} labels, {len(unary)} {told}",
                "fractional by roof duality": int(halves.sum()),
                "of these integral with cycles": int((halves & whole).sum()),
                "us of roof duality": roof,
                "us with cycles": roof + cycles,
                "cycles / roof": (roof + cycles) / roof,
                "left to HiGHS": int(np.isinf(bounds).sum()),
            }
    yield "Of each data set the 500 first examples, its most frequent labels and all pairs; weights after training."


if __name__ == "__main__":
    main()

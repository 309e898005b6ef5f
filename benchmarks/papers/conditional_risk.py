"""Conditional risk minimisation: speed, and the tables of Goh and Jaillet.

``training``: time of fit from 10 to 1,000 nodes. ``prediction``: the shape of Reuters (103 nodes, 3,000 training and
3,000 test documents of 47,236 words, about 75 of them in each) against HiGHS and the paper's 7 ms. ``nystroem``: 20,000
examples, time and peak memory. ``network``: the network of Table 2, the paper's Figure 1. ``figure2a``: time of
training by the size of the hierarchy, with the rivals.

Table 1 and Figure 2(a) need the benchmark sets (`structopt.data.benchmark`); everything is tuned on the training part
only: ``--tune folds`` (5 folds of neighbours, for images 3), ``loo`` (leave-one-out) or ``both``. BR-SVM is LIBLINEAR
at every node, with the ancestors of what it finds; HM3N is margin rescaling over the closed sets of nodes by
`StructuredSVM`. On images both get the coordinates of the RBF kernel that ECRM's tuning chose.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import Rows, bare_highs, in_turns, load, main, part, peak_gib, timed
from _conditional_risk import SETS, FlowTrial, load_table1, table1_rows, tune_flow
from _hierarchies import closed, short_indices
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import structopt as so
from structopt.data.flow import synthetic_flow
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer
from structopt.estimators.conditional_risk.labels import encode_labels
from structopt.estimators.conditional_risk.programs import risk_program
from structopt.hierarchy import Hierarchy
from structopt.losses import Hamming, HierarchicalLoss
from structopt.structures.flow import Flow
from structopt.structures.hierarchy import HierarchicalLabels

# ---- speed -----------------------------------------------------------------------------------------


def random_tree(n: int, rng: np.random.Generator) -> Hierarchy:
    return Hierarchy([(int(rng.integers(max(0, k - 20), k)), k) for k in range(1, n)])


def random_labels(h: Hierarchy, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return three random nodes each, with their ancestors."""
    members = rng.integers(len(h), size=3 * m)
    return np.asarray(h.ancestor_rows(np.arange(0, 3 * m + 1, 3), members).toarray())


@part("Training, by the size of the hierarchy")
def training(repeats: int = 7) -> Rows:
    """Measure fit, which looks at the labels only to check them."""
    rng, m = np.random.default_rng(0), 3000
    X, cases = rng.normal(size=(m, 500)), {}
    for n in (10, 30, 100, 300, 1000):
        h = random_tree(n, rng)
        cases[n] = ConditionalRiskMinimizer(HierarchicalLabels(h, "closure"), "rbf", 1e-3), random_labels(h, m, rng)
    cases[10][0].fit(X, cases[10][1])
    wall: dict[int, list[float]] = {n: [] for n in cases}

    def fit(n: int) -> None:
        wall[n].append(timed(lambda: cases[n][0].fit(X, cases[n][1]), clock=perf_counter)[1])

    def labels(n: int) -> None:
        est, Y = cases[n]
        assert est.model is not None
        risk_program(est.model, None, encode_labels(est.model, None, Y, len(Y)))

    calls = {(work.__name__, n): partial(work, n) for n in cases for work in (fit, labels)}
    cpu = in_turns(calls, repeats)
    least = min(min(cpu["fit", n]) for n in cases)
    for n in cases:
        own = cpu["fit", n]
        row = {"nodes": n, "median s": np.median(wall[n]), "median CPU s": np.median(own), "least CPU s": min(own)}
        yield row | {"least / least of all": min(own) / least, "of it labels, ms": 1e3 * np.median(cpu["labels", n])}


@part("Prediction, 103 nodes, 3,000 documents", ratio="HiGHS / ours")
def prediction(repeats: int = 7) -> Rows:
    rng = np.random.default_rng(0)
    h = random_tree(103, rng)
    train, test = (text(3000, rng) for _ in range(2))
    Y = random_labels(h, 3000, rng)
    for loss in (Hamming(), HierarchicalLoss(h)):
        model = HierarchicalLabels(h, "closure", loss=loss)
        est = ConditionalRiskMinimizer(model, "linear", 1e-4).fit(train, Y)
        first = timed(lambda: est.predict(test[:2]))[1]  # noqa: B023  (the factor is applied to the labels here, once)
        ours = timed(lambda: est.predict(test), repeats)[1] / 3000  # noqa: B023
        averages, solve = -est.conditional_risk(test)[0], bare_highs(model.space())
        values, raw = timed(lambda: np.array([solve(c) for c in averages]), repeats)  # noqa: B023
        differ = np.abs(np.einsum("ij,ij->i", averages, est.minimize_risk(test).Z) - values).max()
        row = {"method": "ECRM", "loss": type(loss).__name__, "ms an instance": 1e3 * ours, "first call, CPU s": first}
        row |= {"bare warm HiGHS, ms": raw / 3, "HiGHS / ours": raw / 3000 / ours}
        yield row | {"values differ by": differ}


def text(n: int, rng: np.random.Generator) -> sp.csr_array:
    columns = np.minimum((rng.pareto(0.6, size=(n, 75)) * 20).astype(np.int64), 47_235)
    rows = sp.coo_array((np.ones(n * 75), (np.repeat(np.arange(n), 75), columns.ravel())), shape=(n, 47_236))
    return sp.csr_array(normalize(rows.tocsr()))


@part("20,000 examples by landmarks")
def nystroem() -> Rows:
    rng, m = np.random.default_rng(0), 20_000
    h = random_tree(103, rng)
    W, X = rng.normal(size=(100, 103)), rng.normal(size=(m + 2000, 100))
    Y = closed(h, X @ W + 2 * rng.normal(size=(m + 2000, 103)) > 12).astype(float)
    model, before = HierarchicalLabels(h, "closure"), peak_gib()
    for n in (500, 2000):
        est = ConditionalRiskMinimizer(model, "rbf", 1e-4, gamma=0.01, method="nystroem", n_landmarks=n)
        fit = timed(partial(est.fit, X[:m], Y[:m]))[1]
        row = {"examples": m, "landmarks": n, "fit, CPU s": fit, "Hamming loss": -est.score(X[m:], Y[m:])}
        row |= {"Hamming loss of no labels": Y[m:].sum(axis=1).mean()}
        yield row | {"peak GiB": peak_gib(), "GiB before": before}


def _train_ecrm(h: Hierarchy, X: Any, Y: np.ndarray) -> None:
    ConditionalRiskMinimizer(HierarchicalLabels(h, "closure"), "linear", 1e-3).fit(X, Y)


def _train_br_svm(h: Hierarchy, X: Any, Y: np.ndarray) -> None:
    for y in Y.T:
        if 0 < y.sum() < len(y):
            LinearSVC(loss="hinge").fit(X, y)


def _train_hm3n(h: Hierarchy, X: Any, Y: np.ndarray) -> None:
    model = HierarchicalLabels(h, "closure", intercept=True)
    so.StructuredSVM(model, "margin", lam=1e-3, tol=1e-2, max_passes=60).fit(X, Y)


@part("Training on 3,000 documents, by the size of the hierarchy")
def figure2a() -> Rows:
    """Measure training with the first nodes of the topics' tree, the least of some runs."""
    data = load("rcv1_topics")
    h, X, calls = data.hierarchy, short_indices(normalize(data.X)), {}
    for size in (10, 30, 100):
        nodes = h.nodes[:size]  # parents come before their children
        tree = Hierarchy([(p, c) for p, c in h.edges if h.index(p) < size and h.index(c) < size], nodes=nodes)
        for method, train in (("ECRM", _train_ecrm), ("BR-SVM", _train_br_svm), ("HM3N", _train_hm3n)):
            calls[method, size] = partial(train, tree, X, data.y[:, h.indices(tree.nodes)])
    for (method, size), seconds in in_turns(calls, 5).items():
        yield {"method": method, "nodes": size, "CPU s": min(seconds)}


# ---- hierarchies -----------------------------------------------------------------------------------


@part("The sets")
def sizes(sets: tuple[str, ...] = SETS) -> Rows:
    """Measure the table of appendix C, without the root that is added."""
    for name in sets:
        h, X, Y, X_test, _ = load_table1(name)
        own = np.array([node != "root" for node in h.nodes])
        row = {"set": name, "features": X.shape[1], "nodes": int(own.sum()), "training": X.shape[0]}
        row |= {"test": X_test.shape[0], "nodes each": float(Y[:, own].sum(axis=1).mean())}
        yield row | {"largest depth": h.depth - int(not own.all())}


@part("Losses on hierarchies")
def table1(sets: tuple[str, ...] = SETS, tune: str = "folds") -> Rows:
    for name in sets:
        yield from table1_rows(name, tune)


# ---- flows -----------------------------------------------------------------------------------------


@part("The network of the flows")
def network() -> Rows:
    drawn = synthetic_flow(n_samples=10_000, random_state=0)
    for (tail, head), flow in zip(drawn.arcs, drawn.y.T, strict=True):
        on = sum((tail, head) in set(pairwise(path)) for path in drawn.paths)
        row = {"from": str(tail), "to": str(head), "paths": on, "mean flow": float(flow.mean())}
        yield row | {"standard deviation": float(flow.std())}


@part("Losses of predicted flows")
def table2(trials: int = 50, size: int = 1000, test: int = 1000) -> Rows:
    """Measure means and standard deviations over the trials, each a draw of its own."""
    chosen = tune_flow(size, min(200, test))
    methods, losses = ("ecrm", "knn", "krr"), ("ab", "sq")
    drawn = (FlowTrial(seed, size, test) for seed in range(trials))
    values = np.array([[[trial.loss(m, loss, chosen) for m in methods] for loss in losses] for trial in drawn])
    for j, method in enumerate(("ECRM", "kNN", "KRR")):
        row: dict[str, Any] = {"method": method, "trials": trials}
        for k, loss in enumerate(("absolute", "square")):
            row |= {f"{loss} loss": values[:, k, j].mean(), f"{loss}, sd": values[:, k, j].std(ddof=1)}
            row[f"ECRM has less {loss} loss, share"] = (values[:, k, 0] < values[:, k, j]).mean() if j else None
        yield row


@part("Conditional risk at one input")
def figure2b(sizes: tuple[int, ...] = (100, 316, 1000, 3162, 10_000), simulations: int = 20) -> Rows:
    """Measure the conditional risk under the absolute loss at x = 0.75, by the number of training examples."""
    drawn = synthetic_flow(n_samples=1, random_state=0)
    at = np.full((1, drawn.X.shape[1]), 0.75)
    # The conditional distribution by 4,000 draws: the flow of least mean loss over them is the optimum.
    truth = drawn.model.sample(np.repeat(at, 4000, axis=0), np.random.RandomState(1))
    program = risk_program(Flow(drawn.arcs, drawn.supply, loss="absolute"), None, truth)
    best = program.solve(np.full((1, len(truth)), 1 / len(truth))).Z

    def risk(Z: np.ndarray) -> float:
        return float(np.abs(truth - Z).sum(axis=1).mean())

    for n in sizes:
        chosen = tune_flow(min(n, 1000), 50, ["ab"])
        # The number of neighbours that was chosen for 1,000 examples grows like the rate of kNN, n^(4 / (4 + d)).
        k = int(min(n - 1, chosen["knn_ab"][0] * max(1.0, n / 1000) ** (4 / 24)))
        found: dict[str, list[float]] = {"ECRM": [], "kNN": [], "KRR": []}
        for seed in range(simulations):
            trial = FlowTrial(20_000 + seed, n, 1)
            trial.X_test, own = at, trial.programs["ab"]
            ridge = trial.ridge(*chosen["ecrm_ab"])
            found["ECRM"].append(risk(own.solve(ridge).Z))
            found["kNN"].append(risk(own.solve(trial.neighbours(k)).Z))
            ridge = trial.ridge(*chosen["krr_ab"]) if chosen["krr_ab"] != chosen["ecrm_ab"] else ridge
            found["KRR"].append(risk(trial.project(ridge)))
        for method, values in found.items():
            low, high = np.quantile(values, [0.15, 0.85])
            row = {"method": method, "examples": n, "risk": float(np.mean(values)), "15%": low, "85%": high}
            yield row | {"above the optimum": float(np.mean(values)) - risk(best)}
    for n in (sizes[0], sizes[-1]):
        yield {"method": "optimum", "examples": n, "risk": risk(best)}


if __name__ == "__main__":
    main()

"""The tables of Goh and Jaillet, *Structured prediction by conditional risk minimization*; see conditional_risk.py."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from _results import shown
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, normalize

from structopt.data.benchmark import load_benchmark
from structopt.data.flow import synthetic_flow
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer, RegularizationPath
from structopt.estimators.conditional_risk.averages import KernelAverages
from structopt.estimators.conditional_risk.labels import encode_labels
from structopt.estimators.conditional_risk.programs import risk_program
from structopt.hierarchy import Hierarchy
from structopt.losses import Hamming, HierarchicalLoss, TaskLoss
from structopt.programs.projection import Projection
from structopt.structures.flow import Flow
from structopt.structures.hierarchy import HierarchicalLabels

# ---- Table 1 -------------------------------------------------------------------------------------

SETS = ("enron_hmc", "imclef07a", "imclef07d", "pheno_fun", "pheno_go", "spo_fun", "spo_go")


class SpanningTreeLoss(TaskLoss):
    """The hierarchical loss of a DAG along one parent of each node: linear, and never less than the DAG's own.

    A mistake counts if all ancestors are right, and the DAG has more of them. Each node keeps its most specific parent.
    Weights: 1 at the root, and a node's weight is shared out over its children, so that a child of several parents adds
    up its shares. On a tree these are the sibling weights.
    """

    def __init__(self, h: Hierarchy, examples: np.ndarray) -> None:
        weights = np.where(np.diff(h.parent_ptr) == 0, 1.0, 0.0)
        children = np.diff(h.below_ptr)
        edges = []
        for k, node in enumerate(h.nodes):
            above = h.parent[h.parent_ptr[k] : h.parent_ptr[k + 1]]
            weights[k] += (weights[above] / children[above]).sum()
            if above.size:
                edges.append((h.nodes[above[np.argmin(examples[above])]], node))
        tree = Hierarchy(edges, nodes=h.nodes)
        self.order = np.array([h.index(node) for node in tree.nodes])
        self.tree_loss = HierarchicalLoss(tree, weights[self.order])
        self.weights = weights
        strict = h.ancestor_rows(np.arange(len(h) + 1), np.arange(len(h))).toarray()
        self.ancestors = strict - np.eye(len(h))

    def linear(self, truth: Any) -> tuple[np.ndarray, float]:
        coef, const = self.linear_batch(np.asarray(truth)[None])
        return coef[0], float(const[0])

    def linear_batch(self, truths: Any) -> tuple[np.ndarray, np.ndarray]:
        part, const = self.tree_loss.linear_batch(np.asarray(truths)[:, self.order])
        coef = np.empty_like(part)
        coef[:, self.order] = part
        return coef, const

    def value(self, y: Any, truth: Any) -> float:
        return self.tree_loss.value(np.asarray(y)[self.order], np.asarray(truth)[self.order])

    def on_dag(self, Y: np.ndarray, truths: np.ndarray) -> float:
        """The mean hierarchical loss by its definition on the DAG."""
        wrong = (truths != Y).astype(float)
        first = wrong * (wrong @ self.ancestors.T == 0)
        return float((first @ self.weights).mean())


def load_table1(name: str) -> tuple[Hierarchy, Any, np.ndarray, Any, np.ndarray]:
    """The sets as appendix C prepares them, with a root above the top level that is always on."""
    parts = {"enron_hmc": ["trainvalid"], "imclef07a": ["train"], "imclef07d": ["train"]}.get(name, ["train", "valid"])
    train, test = [load_benchmark(name, part) for part in parts], load_benchmark(name, "test")
    X, Y, h = sp.vstack([part.X for part in train]).tocsr(), np.concatenate([part.y for part in train]), test.hierarchy
    if name.startswith("imclef"):
        X, Y = X[:2000], Y[:2000]
    kept = np.ones(len(h), bool)
    if name.endswith(("_fun", "_go")):
        kept = Y.sum(axis=0) >= 3
    if name.endswith("_go"):
        # "The first connected component": the one with the paper's 296 and 508 labels is molecular function.
        kept &= np.array([node in set(h.descendants("GO0003674", itself=True)) for node in h.nodes])
    nodes = [node for node, keep in zip(h.nodes, kept, strict=True) if keep]
    edges = [(p, c) for p, c in h.edges if kept[h.index(p)] and kept[h.index(c)]]
    part = Hierarchy(edges, nodes=nodes)
    columns = np.array([h.index(node) for node in part.nodes])
    Y, Y_test = Y[:, columns], test.y[:, columns]
    if name.endswith("_go"):
        return part, X, Y, test.X, Y_test
    rooted = Hierarchy([*(("root", top) for top in part.roots), *part.edges], nodes=["root", *part.nodes])
    order = np.array([0 if node == "root" else 1 + part.index(node) for node in rooted.nodes])
    add = [np.column_stack([np.ones(len(A), A.dtype), A])[:, order] for A in (Y, Y_test)]
    return rooted, X, add[0], test.X, add[1]


def preparations(name: str, X: Any, X_test: Any) -> Iterator[tuple[str, Any, Any]]:
    """Ways to scale the inputs, of which leave-one-out chooses; means of the training part for what is missing."""
    if name == "enron_hmc":
        yield "raw", X, X_test
        yield "unit rows", normalize(X), normalize(X_test)
        return
    dense, dense_test = X.toarray(), X_test.toarray()
    mean = np.nan_to_num(np.nanmean(dense, axis=0))
    dense, dense_test = (np.where(np.isnan(A), mean, A) for A in (dense, dense_test))
    yield "raw", dense, dense_test
    scaler = StandardScaler().fit(dense)
    yield "standardised", scaler.transform(dense), scaler.transform(dense_test)


def table1(names: list[str], tuning: str) -> list[Mapping[str, Any]]:
    """Test losses; a row for each way to tune."""
    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    for name in names or SETS:
        begun = perf_counter()
        h, X, Y, X_test, Y_test = load_table1(name)
        dag = SpanningTreeLoss(h, Y.sum(axis=0)) if name.endswith("_go") else None
        for k, loss in enumerate((Hamming(), dag or HierarchicalLoss(h))):
            model = HierarchicalLabels(h, "closure", loss=loss)
            # Mails are in the order of their threads and images in that of their series, of which leave-one-out sees
            # the rest: too hopeful, where the test part is new.
            for folds in {"loo": (False,), "folds": (True,), "both": (False, True)}[tuning]:
                est, text, test = tune(name, model, X, Y, X_test, folds)
                ours = dag.on_dag(est.predict(test), Y_test) if dag and k else -est.score(test, Y_test)
                way = "5 folds of neighbours" if folds else "leave-one-out"
                row = rows.setdefault((name, folds), {"set": name, "method": "ECRM", "tuned by": way})
                row |= {("Hamming", "hierarchical")[k]: ours, "examples": X.shape[0], "nodes": len(h)}
                print(f"{name:12s} {type(loss).__name__:17s}{ours:6.3f}   {way}: {text}", flush=True)
        print(f"{'':12s} {perf_counter() - begun:.0f} s", flush=True)
    print(
        "SpanningTreeLoss: the hierarchical loss of a DAG is not linear, and the paper says neither what "
        "it minimised there nor the weights of a node with several parents. Here: trained on the loss along a spanning "
        "tree, measured by the definition on the DAG."
    )
    return list(rows.values())


def tune(
    name: str, model: HierarchicalLabels, X: Any, Y: np.ndarray, X_test: Any, blocks: bool
) -> tuple[Any, str, Any]:
    """The scaling, the width of an RBF kernel (images) and lam of least cross-validated loss."""
    best: tuple[float, Any, str, Any, Any] | None = None
    for how, A, B in preparations(name, X, X_test):
        image = name.startswith("imclef")
        kernels: list[dict[str, Any]] = [{"kernel": "linear"}]
        if image:
            spread = float(np.mean(np.var(A, axis=0)) * A.shape[1])
            kernels = [{"kernel": "rbf", "gamma": width / spread} for width in (0.1, 0.3, 1.0, 3.0, 10.0)]
        for kernel in kernels:
            size = 1.0 if image else float(np.mean(np.asarray((A.multiply(A) if sp.issparse(A) else A**2).sum(axis=1))))
            est = ConditionalRiskMinimizer(model, **kernel)
            lams = size * np.logspace(-7, 1, 17)
            path = block_path(est, A, Y, lams) if blocks else est.regularization_path(A, Y, lams)
            if best is None or path.loss.min() < best[0]:
                est.set_params(lam=path.best)
                more = f", gamma {kernel['gamma']:.3g}" if image else ""
                text = f"{how}{more}, lam {path.best:.2g}, validated {path.loss.min():.3f}"
                best = (float(path.loss.min()), est, text, A, B)
    assert best is not None
    return best[1].fit(best[3], Y), best[2], best[4]


def block_path(est: ConditionalRiskMinimizer, X: Any, Y: np.ndarray, lams: np.ndarray) -> RegularizationPath:
    """Cross-validation in which neighbours, mails of one thread for example, stay on one side."""
    assert est.model is not None
    loss = np.zeros(len(lams))
    for rest, held_out in KFold(5).split(Y):
        averages = KernelAverages(X[rest], est.kernel, {"gamma": est.gamma}, method="eigen")
        spectrum, rows = averages.spectrum(), averages.rows(X[held_out])
        program = risk_program(est.model, None, encode_labels(est.model, None, Y[rest], len(rest)))
        for k, lam in enumerate(lams):
            found = program.solve(spectrum.regress(program.targets, float(lam))(rows))
            loss[k] += program.losses(found.Z, Y[held_out]).sum() / len(Y)
    return RegularizationPath(lams, loss)


# ---- Table 2 -------------------------------------------------------------------------------------

FLOW_COLUMNS = ("ecrm_ab", "knn_ab", "krr_ab", "ecrm_sq", "knn_sq", "krr_sq")
GAMMAS, LAMS, NEIGHBOURS = (0.001, 0.003, 0.01, 0.03), (1e-7, 1e-6, 1e-5, 1e-4), (20, 40, 80, 160)


class FlowTrial:
    """One draw of training and test examples from the path choice that all trials share."""

    def __init__(self, seed: int, n: int, n_test: int) -> None:
        drawn = synthetic_flow(n_samples=1, random_state=0)
        X = np.random.RandomState(seed).uniform(size=(n + n_test, drawn.X.shape[1]))
        Y = drawn.model.sample(X, np.random.RandomState(50_000 + seed))
        self.X, self.X_test = X[:n], X[n:]
        self.Y, self.Y_test = Y[:n], Y[n:]
        self.programs = {
            loss: risk_program(Flow(drawn.arcs, drawn.supply, loss=word), None, self.Y)
            for loss, word in (("ab", "absolute"), ("sq", "squared"))
        }
        self._project = Projection(self.programs["ab"].model.space().compiled, slice(0, len(drawn.arcs)))

    def ridge(self, gamma: float, lam: float) -> np.ndarray:
        averages = KernelAverages(self.X, "rbf", {"gamma": gamma}, intercept=False).factorise(lam)
        return averages.weigh(self.X_test)

    def neighbours(self, k: int) -> np.ndarray:
        distance = np.square(self.X_test).sum(1)[:, None] + np.square(self.X).sum(1) - 2 * self.X_test @ self.X.T
        near = np.argpartition(distance, k, axis=1)[:, :k]
        weights = np.zeros(distance.shape)
        np.put_along_axis(weights, near, 1 / k, axis=1)
        return weights

    def risk(self, weights: np.ndarray, loss: str) -> float:
        """The mean loss of the labels that minimise the weighted losses."""
        program = self.programs[loss]
        Z = program.solve(weights if program.needs_weights else weights @ program.targets).Z
        return float(program.losses(Z, self.Y_test).mean())

    def projected(self, weights: np.ndarray, loss: str) -> float:
        """Kernel ridge regression of every arc by itself, projected on the flows."""
        return float(self.programs[loss].losses(self._project.many(weights @ self.Y), self.Y_test).mean())


def tune_flow(n: int) -> dict[str, tuple[float, ...]]:
    """Parameters of each method and loss from one further draw: the same n for training, 200 for validation."""
    trial = FlowTrial(10_000, n, 200)
    grid = [(gamma, lam) for gamma in GAMMAS for lam in LAMS]
    weights = {pair: trial.ridge(*pair) for pair in grid}
    chosen: dict[str, tuple[float, ...]] = {}
    for loss in ("ab", "sq"):
        risks: dict[str, dict[tuple[float, ...], float]] = {
            "ecrm": {pair: trial.risk(weights[pair], loss) for pair in grid},
            "knn": {(k,): trial.risk(trial.neighbours(k), loss) for k in NEIGHBOURS},
            "krr": {pair: trial.projected(weights[pair], loss) for pair in grid},
        }
        for method, found in risks.items():
            chosen[f"{method}_{loss}"] = min(found, key=found.__getitem__)
    return chosen


def flow(first: int, trials: int, n: int, n_test: int, out: Path) -> None:
    chosen = tune_flow(n)
    print("tuned on a further draw:", {name: tuple(map(float, pair)) for name, pair in chosen.items()}, flush=True)
    for seed in range(first, first + trials):
        begun = perf_counter()
        trial = FlowTrial(seed, n, n_test)
        row: list[float] = []
        for name in FLOW_COLUMNS:
            method, loss = name.split("_")
            weights = trial.neighbours(int(chosen[name][0])) if method == "knn" else trial.ridge(*chosen[name])
            row.append(trial.projected(weights, loss) if method == "krr" else trial.risk(weights, loss))
        with out.open("a", newline="") as file:
            csv.writer(file).writerow([seed, *row])
        print(seed, " ".join(f"{value:.4f}" for value in row), f"({perf_counter() - begun:.0f} s)", flush=True)


def table2(out: Path) -> list[Mapping[str, Any]]:
    """Means and standard deviations of the trials in a file."""
    with out.open() as file:
        rows = np.array([[float(value) for value in row] for row in csv.reader(file)])
    if len(set(rows[:, 0])) != len(rows):
        raise SystemExit(f"{out} holds a trial twice")
    values = rows[:, 1:].reshape(-1, 2, 3)
    found = []
    for j, method in enumerate(("ECRM", "kNN", "KRR")):
        row: dict[str, Any] = {"method": method, "trials": len(rows)}
        for k, loss in enumerate(("absolute", "square")):
            row |= {f"{loss} loss": values[:, k, j].mean(), f"{loss}, sd": values[:, k, j].std(ddof=1)}
            row[f"ECRM has less {loss} loss, share"] = (values[:, k, 0] < values[:, k, j]).mean() if j else None
        found.append(shown(row))
    return found

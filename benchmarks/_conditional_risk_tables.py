"""The tables of Goh and Jaillet, *Structured prediction by conditional risk minimization*; see conditional_risk.py."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from _results import shown
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC

from structopt.data.benchmark import load_benchmark
from structopt.data.flow import synthetic_flow
from structopt.estimators import StructuredSVM
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


def sizes(names: list[str]) -> list[Mapping[str, Any]]:
    """The table of appendix C, without the root that is added."""
    rows = []
    for name in names or SETS:
        h, X, Y, X_test, _ = load_table1(name)
        own = np.array([node != "root" for node in h.nodes])
        row = {"set": name, "features": X.shape[1], "nodes": int(own.sum()), "training": X.shape[0]}
        row |= {"test": X_test.shape[0], "nodes each": float(Y[:, own].sum(axis=1).mean())}
        rows.append(shown(row | {"largest depth": h.depth - int(not own.all())}))
    return rows


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
    """Test losses of ECRM, a row for each way to tune, and of its two rivals."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name in names or SETS:
        begun = process_time()
        h, X, Y, X_test, Y_test = load_table1(name)
        dag = SpanningTreeLoss(h, Y.sum(axis=0)) if name.endswith("_go") else None
        losses: tuple[TaskLoss, TaskLoss] = (Hamming(), dag or HierarchicalLoss(h))
        told = partial(_tell, rows, name, losses, Y_test, {"examples": X.shape[0], "nodes": len(h)})
        models = [HierarchicalLabels(h, "closure", loss=loss) for loss in losses]
        inputs: tuple[Any, Any] | None = None
        # Mails are in the order of their threads and images in that of their series, of which leave-one-out sees the
        # rest: too hopeful, where the test part is new.
        for folds in {"loo": (False,), "folds": (True,), "both": (False, True)}[tuning]:
            for k, (est, text, A, B) in enumerate(tune(name, models, X, Y, X_test, folds)):
                inputs = inputs or kernel_features(est, A, B)
                told("ECRM", FOLDS if folds else "leave-one-out", k, np.asarray(est.predict(B)), text)
        assert inputs is not None
        found, text = binary_relevance(h, *inputs, Y)
        for k in range(2):
            told("BR-SVM", HELD_OUT, k, found, text)
        for k, loss in enumerate(losses if dag is None else ()):
            found, text = max_margin(h, loss, k, *inputs, Y)
            told("HM3N", HELD_OUT, k, found, text)
        print(f"{'':12s} {process_time() - begun:.0f} CPU s", flush=True)
    return list(rows.values())


def _tell(
    rows: dict[tuple[str, str, str], dict[str, Any]],
    name: str,
    losses: tuple[TaskLoss, TaskLoss],
    truth: np.ndarray,
    shape: Mapping[str, int],
    method: str,
    way: str,
    k: int,
    found: np.ndarray,
    text: str,
) -> None:
    """Note one of the two test losses of a method."""
    if k == 0:
        value = float((found != truth).sum(axis=1).mean())
    elif isinstance(losses[1], SpanningTreeLoss):
        value = losses[1].on_dag(found, truth)
    else:
        value = mean_loss(losses[1], found, truth)
    kind = ("Hamming", "hierarchical")[k]
    row = rows.setdefault((name, method, way), {"set": name, "method": method, "tuned by": way, **shape})
    row[kind] = value
    print(f"{name:12s} {method:7s}{kind:13s}{value:7.3f}   {text}", flush=True)


def mean_loss(loss: TaskLoss, found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([loss.value(y, t) for y, t in zip(found, truth, strict=True)]))


FOLDS, HELD_OUT = "folds of neighbours", "the last fifth"


def kernel_features(est: ConditionalRiskMinimizer, A: Any, B: Any) -> tuple[Any, Any]:
    """Inputs for linear rivals: as they are, or coordinates in the space of the RBF kernel that ECRM chose.

    The coordinates are those of the leading eigenvectors of the kernel matrix that have 99.9% of its trace.
    """
    if est.kernel == "linear":
        return short_indices(A), short_indices(B)
    values, vectors = np.linalg.eigh(rbf_kernel(A, gamma=est.gamma))
    kept = np.cumsum(values[::-1])[::-1] > 1e-3 * values.sum()
    into = vectors[:, kept] / np.sqrt(values[kept])
    return rbf_kernel(A, A, gamma=est.gamma) @ into, rbf_kernel(B, A, gamma=est.gamma) @ into


def short_indices(X: Any) -> Any:
    """A sparse matrix with indices of 32 bits: LIBLINEAR takes no others."""
    if sp.issparse(X):
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def binary_relevance(h: Hierarchy, A: Any, B: Any, Y: np.ndarray) -> tuple[np.ndarray, str]:
    """BR-SVM: a support vector machine for each node, and the ancestors of every node that is found."""

    def fit(rows: slice, inputs: Any, C: float) -> np.ndarray:
        scores = np.empty((inputs.shape[0], len(h)), dtype=bool)
        for k in range(len(h)):
            y = Y[rows, k]
            if y.min() == y.max():
                scores[:, k] = y[0] > 0
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # at the largest C it stops at its limit of steps
                svm = LinearSVC(C=C, loss="hinge", max_iter=300, random_state=0).fit(A[rows], y)
            scores[:, k] = svm.decision_function(inputs) > 0
        ptr = np.concatenate([[0], np.cumsum(scores.sum(axis=1))]).astype(int)
        return np.asarray(h.ancestor_rows(ptr, np.nonzero(scores)[1]).toarray())

    cut = len(Y) * 4 // 5
    size = mean_square(A)
    grid = [c / size for c in (0.1, 1.0, 10.0, 100.0)]
    held = {C: float((fit(slice(cut), A[cut:], C) != Y[cut:]).sum(axis=1).mean()) for C in grid}
    C = min(held, key=held.__getitem__)
    return fit(slice(None), B, C), f"C {C:.2g}, validated {held[C]:.3f}"


def max_margin(h: Hierarchy, loss: TaskLoss, k: int, A: Any, B: Any, Y: np.ndarray) -> tuple[np.ndarray, str]:
    """HM3N style: margin rescaling over all closed sets of nodes.

    On closed sets the indicators of the four states of an edge are linear in those of its two nodes, so that a weight
    vector a node has the scores of HM3N's weight vectors a state of an edge.
    """

    def fit(rows: slice, inputs: Any, lam: float) -> np.ndarray:
        model = HierarchicalLabels(h, "closure", loss=loss, intercept=True)
        svm = StructuredSVM(model, "margin", lam=lam, tol=1e-2, max_passes=1000).fit(A[rows], Y[rows])
        return np.asarray(svm.predict(inputs))

    cut = len(Y) * 4 // 5
    # A wrong node costs 1, or on average what the hierarchical loss of no node is for each of them.
    nothing = np.zeros_like(Y)
    each = 1.0 if k == 0 else mean_loss(loss, nothing, Y) / float(Y.sum(axis=1).mean())
    grid = [g * mean_square(A) / each for g in (1e-1, 1e-2, 1e-3, 1e-4)]
    held = {lam: mean_loss(loss, fit(slice(cut), A[cut:], lam), Y[cut:]) for lam in grid}
    lam = min(held, key=held.__getitem__)
    return fit(slice(None), B, lam), f"lam {lam:.2g}, validated {held[lam]:.3f}"


def mean_square(A: Any) -> float:
    """Mean squared length of the rows."""
    return float(np.mean(np.asarray((A.multiply(A) if sp.issparse(A) else A**2).sum(axis=1))))


def tune(
    name: str, models: list[HierarchicalLabels], X: Any, Y: np.ndarray, X_test: Any, blocks: bool
) -> list[tuple[Any, str, Any, Any]]:
    """For each model the scaling, the width of an RBF kernel (images) and lam of least cross-validated loss."""
    best: list[tuple[float, Any, str, Any, Any] | None] = [None] * len(models)
    for how, A, B in preparations(name, X, X_test):
        image = name.startswith("imclef")
        kernels: list[dict[str, Any]] = [{"kernel": "linear"}]
        if image:
            spread = float(np.mean(np.var(A, axis=0)) * A.shape[1])
            kernels = [{"kernel": "rbf", "gamma": width / spread} for width in (0.3, 1.0, 3.0)]
        for kernel in kernels:
            lams = (1.0 if image else mean_square(A)) * np.logspace(-7, 1, 17)
            ests = [ConditionalRiskMinimizer(model, **kernel) for model in models]
            paths = block_paths(ests, A, Y, lams) if blocks else [e.regularization_path(A, Y, lams) for e in ests]
            for k, (est, path) in enumerate(zip(ests, paths, strict=True)):
                lowest, before = float(path.loss.min()), best[k]
                if before is None or lowest < before[0]:
                    est.set_params(lam=path.best)
                    more = f", gamma {kernel['gamma']:.3g}" if image else ""
                    best[k] = (lowest, est, f"{how}{more}, lam {path.best:.2g}, validated {lowest:.3f}", A, B)
    return [(one[1].fit(one[3], Y), *one[2:]) for one in best if one is not None]


def block_paths(
    ests: list[ConditionalRiskMinimizer], X: Any, Y: np.ndarray, lams: np.ndarray
) -> list[RegularizationPath]:
    """Cross-validation in which neighbours, mails of one thread for example, stay on one side."""
    loss = np.zeros((len(ests), len(lams)))
    for rest, held_out in KFold(3 if ests[0].kernel == "rbf" else 5).split(Y):
        averages = KernelAverages(X[rest], ests[0].kernel, {"gamma": ests[0].gamma}, method="eigen")
        spectrum, rows = averages.spectrum(), averages.rows(X[held_out])
        for k, est in enumerate(ests):
            assert est.model is not None
            program = risk_program(est.model, None, encode_labels(est.model, None, Y[rest], len(rest)))
            for j, lam in enumerate(lams):
                found = program.solve(spectrum.regress(program.targets, float(lam))(rows))
                loss[k, j] += program.losses(found.Z, Y[held_out]).sum() / len(Y)
    return [RegularizationPath(lams, one) for one in loss]


# ---- Figure 2(a) ---------------------------------------------------------------------------------


def _train_ecrm(h: Hierarchy, X: Any, Y: np.ndarray) -> None:
    ConditionalRiskMinimizer(HierarchicalLabels(h, "closure"), "linear", 1e-3).fit(X, Y)


def _train_br_svm(h: Hierarchy, X: Any, Y: np.ndarray) -> None:
    for y in Y.T:
        if 0 < y.sum() < len(y):
            LinearSVC(loss="hinge").fit(X, y)


def _train_hm3n(h: Hierarchy, X: Any, Y: np.ndarray) -> None:
    model = HierarchicalLabels(h, "closure", intercept=True)
    StructuredSVM(model, "margin", lam=1e-3, tol=1e-2, max_passes=60).fit(X, Y)


TRAINERS = {"ECRM": _train_ecrm, "BR-SVM": _train_br_svm, "HM3N": _train_hm3n}


def figure2a(sizes: Sequence[int] = (10, 30, 100), repeats: int = 5) -> list[Mapping[str, Any]]:
    """CPU seconds of training on 3,000 documents with the first nodes of the topics' tree, the least of some runs."""
    warnings.simplefilter("ignore")  # LIBLINEAR stops at its limit of steps
    part = load_benchmark("rcv1_topics", "train")
    h, X, Y = part.hierarchy, short_indices(normalize(part.X)), part.y
    cases = []
    for size in sizes:
        nodes = h.nodes[:size]  # parents come before their children
        tree = Hierarchy([(p, c) for p, c in h.edges if h.index(p) < size and h.index(c) < size], nodes=nodes)
        cases.append((tree, Y[:, h.indices(tree.nodes)]))
    for train in TRAINERS.values():
        train(cases[0][0], X, cases[0][1])  # compiles, and the matrices of this size are allocated once
    seconds = np.full((len(TRAINERS), len(cases)), np.inf)
    for _ in range(repeats):  # in turns, so that a busy machine is busy for all
        for k, (tree, labels) in enumerate(cases):
            for m, train in enumerate(TRAINERS.values()):
                begun = process_time()
                train(tree, X, labels)
                seconds[m, k] = min(seconds[m, k], process_time() - begun)
    return [
        shown({"method": method, "nodes": size, "CPU s": seconds[m, k]})
        for k, size in enumerate(sizes)
        for m, method in enumerate(TRAINERS)
    ]


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

    def project(self, weights: np.ndarray) -> np.ndarray:
        """Kernel ridge regression of every arc by itself, projected on the flows."""
        return np.asarray(self._project.many(weights @ self.Y))

    def projected(self, weights: np.ndarray, loss: str) -> float:
        """The mean loss of the projected flows."""
        return float(self.programs[loss].losses(self.project(weights), self.Y_test).mean())


def tune_flow(n: int, n_held: int, losses: Sequence[str] = ("ab", "sq")) -> dict[str, tuple[float, ...]]:
    """Parameters of each method and loss from one further draw: the same n for training, more for validation."""
    trial = FlowTrial(10_000, n, n_held)
    grid = [(gamma, lam) for gamma in GAMMAS for lam in LAMS]
    weights = {pair: trial.ridge(*pair) for pair in grid}
    chosen: dict[str, tuple[float, ...]] = {}
    for loss in losses:
        risks: dict[str, dict[tuple[float, ...], float]] = {
            "ecrm": {pair: trial.risk(weights[pair], loss) for pair in grid},
            "knn": {(k,): trial.risk(trial.neighbours(k), loss) for k in NEIGHBOURS if k < n},
            "krr": {pair: trial.projected(weights[pair], loss) for pair in grid},
        }
        for method, found in risks.items():
            chosen[f"{method}_{loss}"] = min(found, key=found.__getitem__)
    return chosen


def table2(trials: int, n: int, n_test: int) -> list[Mapping[str, Any]]:
    """Means and standard deviations over the trials, each a draw of its own."""
    chosen = tune_flow(n, min(200, n_test))
    print("tuned on a further draw:", {name: tuple(map(float, pair)) for name, pair in chosen.items()}, flush=True)
    values = np.empty((trials, 2, 3))
    for seed in range(trials):
        begun, trial = process_time(), FlowTrial(seed, n, n_test)
        for k, name in enumerate(FLOW_COLUMNS):
            method, loss = name.split("_")
            weights = trial.neighbours(int(chosen[name][0])) if method == "knn" else trial.ridge(*chosen[name])
            found = trial.projected(weights, loss) if method == "krr" else trial.risk(weights, loss)
            values[seed, k // 3, k % 3] = found
        print(seed, values[seed].ravel().round(4), f"({process_time() - begun:.0f} CPU s)", flush=True)
    told = []
    for j, method in enumerate(("ECRM", "kNN", "KRR")):
        row: dict[str, Any] = {"method": method, "trials": trials}
        for k, loss in enumerate(("absolute", "square")):
            row |= {f"{loss} loss": values[:, k, j].mean(), f"{loss}, sd": values[:, k, j].std(ddof=1)}
            row[f"ECRM has less {loss} loss, share"] = (values[:, k, 0] < values[:, k, j]).mean() if j else None
        told.append(shown(row))
    return told


# ---- Figures 1 and 2(b) --------------------------------------------------------------------------


def network() -> list[Mapping[str, Any]]:
    """The arcs of the network, with the mean and standard deviation of their flows."""
    drawn = synthetic_flow(n_samples=10_000, random_state=0)
    rows = []
    for (tail, head), flow in zip(drawn.arcs, drawn.y.T, strict=True):
        on = sum((tail, head) in set(pairwise(path)) for path in drawn.paths)
        told = {"from": str(tail), "to": str(head), "paths": on}
        rows.append(shown(told | {"mean flow": float(flow.mean()), "standard deviation": float(flow.std())}))
    return rows


def figure2b(sizes: Sequence[int], simulations: int) -> list[Mapping[str, Any]]:
    """The conditional risk under the absolute loss at x = 0.75, by the number of training examples."""
    drawn = synthetic_flow(n_samples=1, random_state=0)
    at = np.full((1, drawn.X.shape[1]), 0.75)
    model = Flow(drawn.arcs, drawn.supply, loss="absolute")
    # The conditional distribution by 4,000 draws: the flow of least mean loss over them is the optimum.
    truth = drawn.model.sample(np.repeat(at, 4000, axis=0), np.random.RandomState(1))
    best = risk_program(model, None, truth).solve(np.full((1, len(truth)), 1 / len(truth))).Z

    def risk(Z: np.ndarray) -> float:
        return float(np.abs(truth - Z).sum(axis=1).mean())

    print(f"the optimum at x: {risk(best):.4f}", flush=True)
    rows = []
    for n in sizes:
        begun, chosen = process_time(), tune_flow(min(n, 1000), 50, ["ab"])
        found: dict[str, list[float]] = {"ECRM": [], "kNN": [], "KRR": []}
        for seed in range(simulations):
            trial = FlowTrial(20_000 + seed, n, 1)
            trial.X_test = at
            program = trial.programs["ab"]
            ridge = trial.ridge(*chosen["ecrm_ab"])
            found["ECRM"].append(risk(program.solve(ridge).Z))
            # The number of neighbours that was chosen for 1,000 examples grows like the rate of kNN, n^(4 / (4 + d)).
            k = int(min(n - 1, chosen["knn_ab"][0] * max(1.0, n / 1000) ** (4 / 24)))
            found["kNN"].append(risk(program.solve(trial.neighbours(k)).Z))
            ridge = trial.ridge(*chosen["krr_ab"]) if chosen["krr_ab"] != chosen["ecrm_ab"] else ridge
            found["KRR"].append(risk(trial.project(ridge)))
        for method, values in found.items():
            low, high = np.quantile(values, [0.15, 0.85])
            row = {"method": method, "examples": n, "risk": float(np.mean(values)), "15%": low, "85%": high}
            rows.append(shown(row | {"above the optimum": float(np.mean(values)) - risk(best)}))
        print(f"  {process_time() - begun:.0f} CPU s", flush=True)
    return rows + [shown({"method": "optimum", "examples": n, "risk": risk(best)}) for n in (sizes[0], sizes[-1])]

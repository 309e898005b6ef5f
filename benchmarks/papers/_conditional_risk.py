"""Data, methods and tuning of Tables 1 and 2 of Goh and Jaillet (conditional_risk.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import Rows, load
from _hierarchies import closed, filled, restricted, short_indices, training_part
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC

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

# ---- Table 1: data ---------------------------------------------------------------------------------

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
        own, const = self.tree_loss.linear_batch(np.asarray(truths)[:, self.order])
        coef = np.empty_like(own)
        coef[:, self.order] = own
        return coef, const

    def value(self, y: Any, truth: Any) -> float:
        return self.tree_loss.value(np.asarray(y)[self.order], np.asarray(truth)[self.order])

    def on_dag(self, Y: np.ndarray, truths: np.ndarray) -> float:
        """Return the mean hierarchical loss by its definition on the DAG."""
        wrong = (truths != Y).astype(float)
        first = wrong * (wrong @ self.ancestors.T == 0)
        return float((first @ self.weights).mean())


def mean_loss(loss: TaskLoss, found: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean loss; that of a DAG by its definition."""
    if isinstance(loss, SpanningTreeLoss):
        return loss.on_dag(found, truth)
    return float(np.mean([loss.value(y, t) for y, t in zip(found, truth, strict=True)]))


def load_table1(name: str) -> tuple[Hierarchy, Any, np.ndarray, Any, np.ndarray]:
    """Return a set as appendix C prepares it, with a root above the top level that is always on."""
    train, test = training_part(name), load(name, "test")
    X, Y, h = train.X, train.y, test.hierarchy
    if name.startswith("imclef"):
        X, Y = X[:2000], Y[:2000]
    kept = Y.sum(axis=0) >= (3 if name.endswith(("_fun", "_go")) else 0)
    if name.endswith("_go"):
        # "The first connected component": the one with the paper's 296 and 508 labels is molecular function.
        kept &= np.array([node in set(h.descendants("GO0003674", itself=True)) for node in h.nodes])
    some, columns = restricted(h, kept)
    Y, Y_test = Y[:, columns], test.y[:, columns]
    if name.endswith("_go"):
        return some, X, Y, test.X, Y_test
    rooted = Hierarchy([*(("root", top) for top in some.roots), *some.edges], nodes=["root", *some.nodes])
    order = np.array([0 if node == "root" else 1 + some.index(node) for node in rooted.nodes])
    add = [np.column_stack([np.ones(len(A), A.dtype), A])[:, order] for A in (Y, Y_test)]
    return rooted, X, add[0], test.X, add[1]


def preparations(name: str, X: Any, X_test: Any) -> Iterator[tuple[str, Any, Any]]:
    """Return ways to scale the inputs, of which validation chooses."""
    if name == "enron_hmc":
        yield "raw", X, X_test
        yield "unit rows", normalize(X), normalize(X_test)
        return
    dense, dense_test = filled(X, X_test)
    yield "raw", dense, dense_test
    scaler = StandardScaler().fit(dense)
    yield "standardised", scaler.transform(dense), scaler.transform(dense_test)


# ---- Table 1: methods ------------------------------------------------------------------------------


def table1_rows(name: str, tuning: str) -> Rows:
    """Yield test losses of ECRM, a row for each way to tune, and of its two rivals."""
    h, X, Y, X_test, Y_test = load_table1(name)
    dag = SpanningTreeLoss(h, Y.sum(axis=0)) if name.endswith("_go") else None
    losses: tuple[TaskLoss, TaskLoss] = (Hamming(), dag or HierarchicalLoss(h))

    def row(method: str, way: str, found: Sequence[np.ndarray]) -> dict[str, Any]:
        """Return a row with the Hamming loss of the first predictions, and the hierarchical one of the others."""
        hamming = float((found[0] != Y_test).sum(axis=1).mean())
        own = {"set": name, "method": method, "tuned by": way, "examples": X.shape[0], "nodes": len(h)}
        return own | {"Hamming": hamming, "hierarchical": mean_loss(losses[1], found[1], Y_test)}

    models = [HierarchicalLabels(h, "closure", loss=loss) for loss in losses]
    inputs: tuple[Any, Any] | None = None
    # Mails are in the order of their threads and images in that of their series, of which leave-one-out sees the
    # rest: too hopeful, where the test part is new.
    for folds in {"loo": (False,), "folds": (True,), "both": (False, True)}[tuning]:
        tuned = tune(name, models, X, Y, X_test, folds)
        inputs = inputs or kernel_features(*tuned[0])
        way = "folds of neighbours" if folds else "leave-one-out"
        yield row("ECRM", way, [np.asarray(est.predict(B)) for est, _, B in tuned])
    assert inputs is not None
    found = binary_relevance(h, *inputs, Y)
    yield row("BR-SVM", "the last fifth", [found, found])
    if dag is None:
        yield row("HM3N", "the last fifth", [max_margin(h, loss, *inputs, Y) for loss in losses])


def kernel_features(est: ConditionalRiskMinimizer, A: Any, B: Any) -> tuple[Any, Any]:
    """Return inputs for linear rivals: as they are, or coordinates in the space of the RBF kernel that ECRM chose.

    The coordinates are those of the leading eigenvectors of the kernel matrix that have 99.9% of its trace.
    """
    if est.kernel == "linear":
        return short_indices(A), short_indices(B)
    values, vectors = np.linalg.eigh(rbf_kernel(A, gamma=est.gamma))
    kept = np.cumsum(values[::-1])[::-1] > 1e-3 * values.sum()
    into = vectors[:, kept] / np.sqrt(values[kept])
    return rbf_kernel(A, A, gamma=est.gamma) @ into, rbf_kernel(B, A, gamma=est.gamma) @ into


def validated(
    fit: Callable[[slice, Any, float], np.ndarray], grid: list[float], score: Any, A: Any, B: Any
) -> np.ndarray:
    """Return predictions with the parameter of least loss on the last fifth of the training examples."""
    cut = A.shape[0] * 4 // 5
    best = min(grid, key=lambda value: score(fit(slice(cut), A[cut:], value), slice(cut, None)))
    return fit(slice(None), B, best)


def binary_relevance(h: Hierarchy, A: Any, B: Any, Y: np.ndarray) -> np.ndarray:
    """Return predictions of BR-SVM: a support vector machine for each node, and the ancestors of the nodes found."""

    def fit(rows: slice, inputs: Any, C: float) -> np.ndarray:
        scores = np.empty((inputs.shape[0], len(h)), dtype=bool)
        for k in range(len(h)):
            y = Y[rows, k]
            if y.min() == y.max():
                scores[:, k] = y[0] > 0
            else:  # at the largest C it stops at its limit of steps
                svm = LinearSVC(C=C, loss="hinge", max_iter=300, random_state=0).fit(A[rows], y)
                scores[:, k] = svm.decision_function(inputs) > 0
        return closed(h, scores)

    def errors(found: np.ndarray, rows: slice) -> float:
        return float((found != Y[rows]).sum(axis=1).mean())

    return validated(fit, [c / mean_square(A) for c in (0.1, 1.0, 10.0, 100.0)], errors, A, B)


def max_margin(h: Hierarchy, loss: TaskLoss, A: Any, B: Any, Y: np.ndarray) -> np.ndarray:
    """Return predictions of HM3N style: margin rescaling over all closed sets of nodes.

    On closed sets the indicators of the four states of an edge are linear in those of its two nodes, so that a weight
    vector a node has the scores of HM3N's weight vectors a state of an edge.
    """

    def fit(rows: slice, inputs: Any, lam: float) -> np.ndarray:
        model = HierarchicalLabels(h, "closure", loss=loss, intercept=True)
        svm = StructuredSVM(model, "margin", lam=lam, tol=1e-2, max_passes=1000).fit(A[rows], Y[rows])
        return np.asarray(svm.predict(inputs))

    # A wrong node costs 1, or on average what the hierarchical loss of no node is for each of them.
    each = 1.0
    if not isinstance(loss, Hamming):
        each = mean_loss(loss, np.zeros_like(Y), Y) / float(Y.sum(axis=1).mean())
    grid = [g * mean_square(A) / each for g in (1e-1, 1e-2, 1e-3, 1e-4)]
    return validated(fit, grid, lambda found, rows: mean_loss(loss, found, Y[rows]), A, B)


def mean_square(A: Any) -> float:
    """Return the mean squared length of the rows."""
    return float(np.mean(np.asarray((A.multiply(A) if sp.issparse(A) else A**2).sum(axis=1))))


def tune(
    name: str, models: list[HierarchicalLabels], X: Any, Y: np.ndarray, X_test: Any, blocks: bool
) -> list[tuple[Any, Any, Any]]:
    """Return estimators with the scaling, the width of an RBF kernel (images) and lam of least cross-validated loss.

    Each comes with its training and test inputs.
    """
    best: list[tuple[float, Any, Any, Any]] = [(np.inf, None, None, None)] * len(models)
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
                if (lowest := float(path.loss.min())) < best[k][0]:
                    best[k] = lowest, est.set_params(lam=path.best), A, B
                    print(f"{name}: {how}, {kernel}, lam {path.best:.2g}, validated {lowest:.3f}", flush=True)
    return [(est.fit(A, Y), A, B) for _, est, A, B in best]


def block_paths(
    ests: list[ConditionalRiskMinimizer], X: Any, Y: np.ndarray, lams: np.ndarray
) -> list[RegularizationPath]:
    """Cross-validate with neighbours, mails of one thread for example, on one side."""
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


# ---- Table 2 ---------------------------------------------------------------------------------------

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

    def project(self, weights: np.ndarray) -> np.ndarray:
        """Return kernel ridge regression of every arc by itself, projected on the flows."""
        return np.asarray(self._project.many(weights @ self.Y))

    def mean_loss(self, weights: np.ndarray, loss: str, projected: bool) -> float:
        """Return the mean loss of the projected flows, or of the labels that minimise the weighted losses."""
        program = self.programs[loss]
        if projected:
            return float(program.losses(self.project(weights), self.Y_test).mean())
        Z = program.solve(weights if program.needs_weights else weights @ program.targets).Z
        return float(program.losses(Z, self.Y_test).mean())

    def loss(self, method: str, loss: str, chosen: dict[str, tuple[float, ...]]) -> float:
        """Return the mean loss of a method with the parameters that were chosen for it."""
        own = chosen[f"{method}_{loss}"]
        weights = self.neighbours(int(own[0])) if method == "knn" else self.ridge(*own)
        return self.mean_loss(weights, loss, method == "krr")


def tune_flow(n: int, n_held: int, losses: Sequence[str] = ("ab", "sq")) -> dict[str, tuple[float, ...]]:
    """Return parameters of each method and loss from one further draw: the same n for training, more for validation."""
    trial = FlowTrial(10_000, n, n_held)
    weights = {(gamma, lam): trial.ridge(gamma, lam) for gamma in GAMMAS for lam in LAMS}
    near = {(float(k),): trial.neighbours(k) for k in NEIGHBOURS if k < n}
    chosen: dict[str, tuple[float, ...]] = {}
    for loss in losses:
        for method in ("ecrm", "knn", "krr"):
            tried: dict[Any, np.ndarray] = near if method == "knn" else weights
            risks = {key: trial.mean_loss(own, loss, method == "krr") for key, own in tried.items()}
            chosen[f"{method}_{loss}"] = min(risks, key=risks.__getitem__)
    print("tuned on a further draw:", chosen, flush=True)
    return chosen

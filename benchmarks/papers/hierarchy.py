"""Hierarchical SVMs: speed and memory at the papers' shapes, the synthetic table of NHSVM, three real data sets.

``speed``: one SGD pass at the shape of IPC (553 nodes, 228,000 features, 0.1% density) next to one pass of
scikit-learn's SGDClassifier, one-vs-rest over the leaves, on the same matrix. ``scale``: one pass at the shapes of
DMOZ10 (``--shape dmoz``: tree, one leaf an example) and SWIKI (``swiki``: DAG, several), the second from a fraction of
the examples, or of the pass: with ``--seconds`` training stops early, with the memory and the mini-batches of the
whole; then prediction. ``synthetic``: table 3 of NHSVM (`_synthetic.py`). ``sets``: generated text with words of its
own for each node and two leaves an example, of 53 nodes and of 873, beside one-vs-rest over all nodes; lam and C by
held-out examples, and the error that the margin asks for: leaves, or all nodes. ``real``: ImCLEF07A, ImCLEF07D and
Enron beside one-vs-rest and, where it is installed, hiclass. ``norms``: made-up class vectors in the four situations of
thesis Table 6.1; the shared norms by the package's own optimisation. On a busy machine only CPU seconds compare.

``paths``: one path in a tree of images, by the number of training examples. One-vs-rest over the leaves was ahead of
the normalised margin on ImCLEF07A and ImCLEF07D from 300 examples. It differs in three ways: its weights are at the
leaves only, its loss is the squared hinge of each leaf by itself, and its errors are leaves and not nodes. Here one of
these is changed at a time, over several draws of the training examples, with the same grid of C (lam = 1 / (C n)) and
the same held-out fifth for all; all test examples are used.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from _bench import Row, Rows, installed, load, main, part, peak_gib, timed, wall_and_cpu
from _hierarchies import (
    Fit,
    documents,
    layered_tree,
    likelihood,
    local,
    margins,
    of_leaves,
    one_leaf_each,
    one_vs_rest,
    scaled,
    training_part,
    tuned,
)
from _synthetic import synthetic
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

import structopt as so
from structopt import metrics, norms
from structopt.structures.hierarchy import Kind

#: Values of C, of which the first of equals is taken.
GRID = (1000.0, 100.0, 10.0, 1.0, 0.1)

part("Accuracy on synthetic sets")(synthetic)


# ---- the papers' shapes ----------------------------------------------------------------------------


@part("One pass at the shape of IPC", ratio="CPU s / scikit-learn's")
def speed(examples: int = 75_000) -> Rows:
    n, h = examples, layered_tree(1, 8, 93, 451)
    leaf = one_leaf_each(n + n // 10, h.leaf_index.size)
    # 276 draws leave about 228 different words, a density of 0.1%.
    X = documents(h.closure[leaf], 228_000, 276)
    y = np.array(h.leaves)[leaf]
    X_test, y_test, X, y = X[n:], y[n:], X[:n], y[:n]
    peer, wall, base = wall_and_cpu(lambda: SGDClassifier(alpha=1e-5, max_iter=1, tol=None).fit(X, y))
    row = {"method": "scikit-learn, one-vs-rest over the leaves", "s": wall, "CPU s": base}
    yield row | {"accuracy": peer.score(X_test, y_test), "CPU s / scikit-learn's": 1.0}
    del peer
    for dtype in ("float32", "float64"):
        for support in ("all", "seen"):
            options: dict[str, Any] = {"dtype": dtype, "support": support, "intercept": False}
            est = so.HierarchicalSVM(h, "rho", trainer="sgd", lam=1e-4, max_passes=1, certify=False, **options)
            est.fit(X[:500], y[:500])  # numba compiles
            _, wall, cpu = wall_and_cpu(partial(est.fit, X, y))
            row = {"method": f"HierarchicalSVM, {dtype}, weights {support}", "s": wall, "CPU s": cpu}
            row |= {"accuracy": est.score(X_test, y_test), "CPU s / scikit-learn's": cpu / base}
            yield row | {"peak GiB": peak_gib()}


@part("One pass at a large shape, or a part of it")
def scale(shape: str = "dmoz", fraction: float = 1.0, seconds: float = 0.0) -> Rows:
    kind: Kind
    if shape == "dmoz":
        n_full, kind, d, words = 163_000, "leaf", 165_000, 110
        n, h = round(n_full * fraction), layered_tree(1, 11, 342, 1563, 3010, 12_294)
        rows = h.closure[one_leaf_each(n, h.leaf_index.size)]
    else:
        n_full, kind, d, words = 456_000, "leaves", 98_519, 55
        n, tree, rng = round(n_full * fraction), layered_tree(1, 12, 1000, 12_795, 36_504), np.random.default_rng(0)
        # Every eighth leaf has a second parent.
        more = {(int(tree.parent[rng.integers(20_000, 40_000)]), int(leaf)) for leaf in tree.leaf_index[::8]}
        h = so.Hierarchy([*tree.edges, *(more - set(tree.edges))])
        rows = h.ancestor_rows(np.arange(n + 1) * 2, h.leaf_index[rng.integers(0, h.leaf_index.size, 2 * n)])
    X = documents(rows, d, words)
    est = so.HierarchicalSVM(
        h, "rho", kind=kind, margin="leaf", trainer="sgd", support="seen", dtype="float32", lam=1e-5, max_passes=1,
        certify=False, n_jobs=2, verbose=True, max_seconds=seconds or None,
    )  # fmt: skip
    _, wall, cpu = wall_and_cpu(lambda: est.fit(X, rows))
    last = est.result_.history[-1]
    seen, steps = last.oracle_calls, sum(last.parts.values())
    row = {"shape": f"{shape}, {len(h):,} nodes", "examples": seen, "share of all": seen / n_full, "s": wall}
    row |= {"CPU s": cpu, "ms a step": 1e3 * steps / seen}
    row |= {"a whole pass, h": (wall - steps + steps * n_full / seen) / 3600, "peak GiB": peak_gib()}
    est.predict(X[-2:])
    ms = 1e3 * timed(partial(est.predict, X[-256:]))[1] / 256
    yield row | {"weights": est.coef_.nnz, "prediction, CPU ms an example": ms}


# ---- sets of leaves --------------------------------------------------------------------------------


@part("Sets of leaves beside one-vs-rest")
def sets(examples: int = 400, large: int = 1000) -> Rows:
    for sizes, n in (((1, 4, 12, 36), examples), ((1, 8, 72, 792), large)):
        tree, rng = layered_tree(*sizes), np.random.default_rng(0)
        more = {(int(tree.parent[rng.choice(tree.leaf_index)]), int(leaf)) for leaf in tree.leaf_index[::4]}
        dag = so.Hierarchy([*tree.edges, *sorted(more - set(tree.edges))])
        for told, h in (("tree", tree), ("DAG", dag)) if n else ():
            yield from sets_of(told, h, n)


def sets_of(told: str, h: so.Hierarchy, n: int) -> Rows:
    """Measure hierarchical SVMs beside one-vs-rest, each with its lam or C; two leaves an example."""
    total, held, leaves = n + n // 2, n // 4, h.leaf_index
    chosen = leaves[np.random.default_rng(1).integers(0, leaves.size, 2 * total)]
    nodes = h.ancestor_rows(np.arange(total + 1) * 2, chosen)
    X, Y = documents(nodes, 2000, 40, 2, own=8, dtype=np.float64), nodes.toarray()
    (X, X_test), (Y, Y_test) = ((rows[:n], rows[n:]) for rows in (X, Y))

    def svm(weights: Any, margin: Any, **options: Any) -> Fit:
        def fit(X: Any, Y: Any, lam: float) -> Any:
            made = so.HierarchicalSVM(h, weights, margin=margin, kind="leaves", lam=lam, **options).fit(X, Y)
            return lambda inputs: made.predict_nodes(inputs).toarray()

        return fit

    # Block ascent is far from the optimum of many nodes with a constant feature after 40 passes; SGD is not.
    small = len(h) < 100
    how: dict[str, Any] = {"tol": 0.05, "max_passes": 100} if small else {"trainer": "sgd", "max_passes": 30}
    lams = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8) if small else (1e-4, 1e-5, 1e-6)
    early: dict[str, Any] = {"trainer": "sgd", "max_passes": 4}
    methods: list[tuple[str, Fit, tuple[float, ...]]] = [
        ("one-vs-rest", one_vs_rest(h), GRID[:-1]),
        ("NHSVM, leaf error, 4 passes of SGD", svm("rho", "leaf", **early), (1e-4,)),
        ("NHSVM, leaf error", svm("rho", "leaf", **how), lams),
        ("NHSVM, Hamming error", svm("rho", "hamming", **how), lams),
        ("HSVM, leaf error", svm("none", "leaf", **how), lams),
        ("HSVM, Hamming error", svm("none", "hamming", **how), lams),
    ]
    if not small and told == "DAG":  # relaxations take ten times as long: NHSVM alone, with the lam of the tree
        methods = [*methods[:2], *((method, fit, (1e-5,)) for method, fit, _ in methods[2:4])]
    split = slice(held, None), slice(held)
    for method, fit, grid in methods:
        (value, P), spent = timed(lambda: tuned(fit, grid, X, Y, split, X_test, micro_f1(h)))  # noqa: B023
        row: Row = {"set": f"{told} of {len(h)} nodes, {n} examples", "method": method}
        row |= {"chosen": f"{'C =' if method == 'one-vs-rest' else 'lam'} {value:g}"}
        row |= {"accuracy": metrics.accuracy(Y_test, P, h), "MiF1": metrics.micro_f1(Y_test, P, h)}
        found, true = P[:, leaves], Y_test[:, leaves]
        row |= {"labels": float(found.sum(axis=1).mean())}
        yield row | {"leaf MiF1": 2.0 * float((found * true).sum()) / float(found.sum() + true.sum()), "CPU s": spent}


def micro_f1(h: so.Hierarchy) -> Any:
    return lambda truth, found: metrics.micro_f1(truth, found, h)


# ---- real data -------------------------------------------------------------------------------------


@part("Hierarchies beside one-vs-rest and hiclass")
def real(sets: tuple[str, ...] = ("imclef07a", "imclef07d", "enron_hmc"), examples: int = 0) -> Rows:
    for name in sets:
        train, test = training_part(name), load(name, "test")
        some = np.random.default_rng(1).permutation(train.X.shape[0])[:examples] if examples else slice(None)
        h, Y, truth = test.hierarchy, train.y[some].astype(float), test.y.astype(float)
        single = bool((Y[:, h.is_leaf].sum(axis=1) == 1).all())
        X, X_test = scaled(train.X[some], test.X, text=not single)
        order = np.random.default_rng(0).permutation(len(Y))
        split = order[len(order) // 5 :], order[: len(order) // 5]
        for method, fit in real_methods(h, single).items():
            (C, P), spent = timed(lambda: tuned(fit, GRID, X, Y, split, X_test, micro_f1(h)))  # noqa: B023
            row: Row = {"set": name, "method": method, "chosen": f"C = {C:g}"}
            row |= {"accuracy": metrics.accuracy(truth, P, h), "label loss": metrics.label_loss(truth, P, h)}
            row |= {"MiF1": metrics.micro_f1(truth, P, h), "MaF1": metrics.macro_f1(truth, P, h)}
            row |= {"hierarchical F1": metrics.hierarchical_f1(truth, P, h)}
            yield row | {"hierarchical loss": metrics.hierarchical_loss(truth, P, h), "CPU s": spent}


def real_methods(h: so.Hierarchy, single: bool) -> dict[str, Fit]:
    options: dict[str, Any] = {"kind": "leaf" if single else "closure", "tol": 0.02, "max_passes": 300}

    def svm(weights: Any, **more: Any) -> Fit:
        return margins(lambda lam: so.HierarchicalSVM(h, weights, lam=lam, **options, **more))

    def shared(lam: float) -> Any:
        return so.SharedSVM(h, lam=lam, max_rounds=4, rounds_tol=1e-2, **options)

    found = {"NHSVM rho=2": svm("rho")} | ({"NHSVM divided": svm("rho", divided=True)} if single else {})
    found |= {"NHSVM directional": svm("directional"), "NHSVM maxmin": svm("maxmin"), "HSVM": svm("none")}
    found |= {"SSVM": margins(shared)}
    if not single:
        return found | {"one-vs-rest": one_vs_rest(h)}  # hiclass has no labels of several paths
    found |= {"flat": svm("flat"), "CRF": likelihood(h)}
    found |= {"one-vs-rest": of_leaves(h, lambda X, y, C: LinearSVC(C=C).fit(X, y))}
    if installed("hiclass"):
        found |= {f"hiclass {kind}": local(h, kind) for kind in ("Node", "ParentNode", "Level")}
    return found


@part("One path in a tree of images: loss and weights")
def paths(sets: tuple[str, ...] = ("imclef07a", "imclef07d")) -> Rows:
    for name in sets:
        train, test = load(name), load(name, "test")
        for n, draws in ((300, 5), (1000, 3), (train.X.shape[0], 1)):
            yield from paths_at(name, train, test, n, draws)


def paths_at(name: str, train: Any, test: Any, n: int, draws: int) -> Rows:
    """Measure all methods with n training examples: means over the draws."""
    h, first = test.hierarchy, None
    held = np.arange(0, n, 5)
    split = np.setdiff1d(np.arange(n), held), held
    drawn = [np.random.default_rng(seed).permutation(train.X.shape[0])[:n] for seed in range(draws)]
    tasks = [(*scaled(train.X[some], test.X, text=False), train.y[some].astype(float)) for some in drawn]
    for (method, loss, weights), fit in path_methods(h).items():
        found = []
        for X, X_test, Y in tasks:
            (C, P), spent = timed(lambda: tuned(fit, GRID, X, Y, split, X_test, micro_f1(h)))  # noqa: B023
            found.append((metrics.micro_f1(test.y, P, h), float((test.y == P).all(axis=1).mean()), spent, C))
        micro, exact, seconds, C = np.array(found).T
        first = micro if first is None else first
        row = {"set": f"{name}, {len(h)} nodes", "examples": n, "method": method, "loss": loss, "weights at": weights}
        row |= {"MiF1": micro.mean(), "sd": micro.std(ddof=1) if draws > 1 else None, "exact": exact.mean()}
        row |= {"ahead of the first": (micro - first).mean(), "draws": draws, "C": float(np.median(C))}
        yield row | {"CPU s with tuning": seconds.mean()}


def path_methods(h: so.Hierarchy) -> dict[tuple[str, str, str], Fit]:
    """Return methods by name, loss and the nodes that have weights."""
    options: dict[str, Any] = {"tol": 0.02, "max_passes": 60}

    def svm(weights: Any, **more: Any) -> Fit:
        return margins(lambda lam: so.HierarchicalSVM(h, weights, lam=lam, **options, **more))

    def shared(lam: float) -> Any:
        return so.SharedSVM(h, lam=lam, max_rounds=4, rounds_tol=1e-2, **options)

    def least_risk(X: Any, y: Any, C: float) -> Any:
        model = so.structures.HierarchicalLabels(h, "leaf")
        return so.ConditionalRiskMinimizer(model, "linear", 1 / (C * len(y))).fit(X, y)

    def peer(make: Any) -> Fit:
        return of_leaves(h, lambda X, y, C: make(C).fit(X, y))

    return {
        ("one-vs-rest LinearSVC", "squared hinge", "leaves"): peer(lambda C: LinearSVC(C=C)),
        ("one-vs-rest LinearSVC, hinge", "hinge", "leaves"): peer(lambda C: LinearSVC(C=C, loss="hinge")),
        ("LogisticRegression", "logistic", "leaves"): peer(lambda C: LogisticRegression(C=C, max_iter=300)),
        ("HierarchicalSVM, flat", "hinge, 0/1", "leaves"): svm("flat"),
        ("HierarchicalSVM, none, leaf error", "hinge, 0/1", "all"): svm("none", margin="leaf"),
        ("HierarchicalSVM, none", "hinge, Hamming", "all"): svm("none"),
        ("HierarchicalSVM, rho", "hinge, normalised", "all, by rho"): svm("rho"),
        ("HierarchicalSVM, directional", "hinge, normalised", "all, directional"): svm("directional"),
        ("SharedSVM", "hinge, 0/1", "all, learned"): margins(shared),
        ("CRF", "logistic", "all"): likelihood(h),
        ("CRF, rho", "logistic", "all, by rho"): likelihood(h, norms.normalization(h)),
        ("ConditionalRiskMinimizer", "squares, 0/1", "leaves"): of_leaves(h, least_risk),
    }


# ---- norms -----------------------------------------------------------------------------------------


@part("Norms of class vectors in four situations", name="norms")
def norms_of_classes() -> Rows:
    rng, (n, d) = np.random.default_rng(0), (6, 12)
    u, scale = rng.normal(size=d), rng.normal(size=n)
    disjoint = np.zeros((n, d))
    for k in range(n):
        disjoint[k, 2 * k : 2 * k + 2] = rng.normal(size=2)
    star, apart = so.Hierarchy([("all", k) for k in range(n)]), so.Hierarchy([], nodes=range(n))
    free, norm = rng.normal(size=(n, d)), np.linalg.norm
    same, scaling = np.sqrt(n) * norm(u), norm(scale) * norm(u)
    cases: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
        "full sharing": (np.tile(u, (n, 1)), star, (norm(u), norm(u), same, same)),
        "no sharing": (free, apart, (None, norm(free), norm(free), None)),
        "disjoint features": (disjoint, star, (*[norm(disjoint)] * 3, norm(disjoint, axis=1).sum())),
        "factor scaling": (np.outer(scale, u), star, (np.abs(scale).max() * norm(u), None, scaling, scaling)),
    }
    for name, (U, h, formulas) in cases.items():
        found: tuple[Any, ...] = norms.shared_frobenius(U), norms.shared_frobenius(U, h), norm(U), norm(U, "nuc")
        for kind, ours, formula in zip(("shared", "shared, tree", "Frobenius", "trace"), found, formulas, strict=True):
            if formula is not None:
                yield {"situation": name, "norm": kind, "computed": float(ours), "formula": float(formula)}
    yield "Six classes, twelve features, standard normal vectors; the table has a dot where it gives no formula."


if __name__ == "__main__":
    main()

"""Hierarchical SVMs: speed and memory at the papers' shapes, the synthetic table of NHSVM, three real data sets.

    python benchmarks/hierarchy.py [speed [--examples 75000]]
    python benchmarks/hierarchy.py scale [--shape dmoz | swiki] [--fraction 1.0] [--seconds S]
    python benchmarks/hierarchy.py synthetic [--seeds 20] [--kind balanced | unbalanced] [--rows FILE] [--chosen]
    python benchmarks/hierarchy.py sets [--examples 400] [--large 1000]
    python benchmarks/hierarchy.py paths [--sets imclef07a ...]
    python benchmarks/hierarchy.py real [--data DIRECTORY] [--sets imclef07a ...] [--examples 2000]

``speed``: one SGD pass at the shape of IPC (553 nodes, 228,000 features, 0.1% density) next to one pass of
scikit-learn's SGDClassifier, one-vs-rest over the leaves, on the same matrix. ``scale``: one pass at the shapes of
DMOZ10 (tree, one leaf an example) and SWIKI (DAG, several), the second from a fraction of the examples, or of the
pass: with ``--seconds`` training stops early, with the memory and the mini-batches of the whole; then prediction.
``synthetic``: table 3 of NHSVM (`_hierarchy_synthetic.py`). ``sets``: generated text with words of its own for each
node and two leaves an example, of 53 nodes and of 873, beside one-vs-rest over all nodes; lam and C by held-out
examples, and the error that the margin asks for: leaves, or all nodes. ``paths``: why one-vs-rest finds single paths as
well (`_hierarchy_paths.py`). ``real``: ImCLEF07A, ImCLEF07D and Enron beside one-vs-rest and, where it is installed,
hiclass. On a busy machine only CPU seconds compare.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from _hierarchy_paths import SETS as PATH_SETS
from _hierarchy_paths import paths
from _hierarchy_synthetic import METHODS, synthetic
from _results import keep, shown

import structopt as so
from structopt import metrics
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.shared import SharedSVM
from structopt.structures.hierarchy import Kind

MEASURES = ("structopt/estimators", "structopt/train", "structopt/norms", "structopt/structures")
Row = Mapping[str, Any]
#: Examples of the `scale` shapes to predict.
PREDICTED = 256
DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Answer, wall seconds, CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    return work(), time.perf_counter() - wall, time.process_time() - cpu


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


# ---- generated text --------------------------------------------------------------------------------


def layered_tree(*sizes: int) -> so.Hierarchy:
    """A tree with so many nodes on each level; parents take turns."""
    edges, first = [], 0
    for above, here in pairwise(sizes):
        edges += [(first + k % above, first + above + k) for k in range(here)]
        first += above
    return so.Hierarchy(edges)


def documents(labels: sp.csr_array, d: int, n_words: int, seed: int = 0) -> sp.csr_array:
    """Rows of norm 1 with `n_words` draws: two thirds of common words (Zipf), a third of words of the label's nodes."""
    rng = np.random.default_rng(seed)
    n, n_nodes = labels.shape
    frequency = np.cumsum(1.0 / np.arange(10, d + 10))
    frequency /= frequency[-1]
    own = n_words // 3
    common = np.searchsorted(frequency, rng.random((n, n_words - own)))
    topics = np.searchsorted(frequency, rng.random((n_nodes, 300)))
    pick = labels.indptr[:-1, None] + rng.integers(0, 1 << 30, (n, own)) % np.diff(labels.indptr)[:, None]
    words = np.hstack([common, topics[labels.indices[pick], rng.integers(0, 300, (n, own))]]).astype(np.int32)
    pointer = np.arange(n + 1, dtype=np.int32) * n_words
    X = sp.csr_array((np.ones(words.size, np.float32), words.ravel(), pointer), shape=(n, d))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr)).astype(np.float32)
    return X


def one_leaf_each(n: int, n_leaves: int, seed: int = 0) -> np.ndarray:
    leaf = np.random.default_rng(seed).integers(0, n_leaves, n)
    leaf[: min(n, n_leaves)] = np.arange(min(n, n_leaves))  # every leaf has an example where there are enough
    return leaf


# ---- speed -----------------------------------------------------------------------------------------


def speed(n: int) -> list[Row]:
    """One pass beside scikit-learn's."""
    from sklearn.linear_model import SGDClassifier

    h = layered_tree(1, 8, 93, 451)
    leaf = one_leaf_each(n + n // 10, h.leaf_index.size)
    # 276 draws leave about 228 different words, a density of 0.1%.
    X = documents(h.closure[leaf], 228_000, 276)
    y = np.array(h.leaves)[leaf]
    X_test, y_test, X, y = X[n:], y[n:], X[:n], y[:n]
    print(f"{h}, X {X.shape}, density {X.nnz / X.shape[0] / X.shape[1]:.3%}")
    peer, wall, base = timed(lambda: SGDClassifier(alpha=1e-5, max_iter=1, tol=None).fit(X, y))
    accuracy = peer.score(X_test, y_test)
    first = {"method": "scikit-learn, one-vs-rest over the leaves", "s": wall, "CPU s": base, "accuracy": accuracy}
    rows = [shown(first | {"CPU s / scikit-learn's": 1.0})]
    del peer
    for dtype in ("float32", "float64"):
        for support in ("all", "seen"):
            options: dict[str, Any] = {"dtype": dtype, "support": support, "intercept": False}
            est = HierarchicalSVM(h, "rho", trainer="sgd", lam=1e-4, max_passes=1, certify=False, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                est.fit(X[:500], y[:500])  # numba compiles
            _, wall, cpu = timed(partial(est.fit, X, y))
            row = {"method": f"HierarchicalSVM, {dtype}, weights {support}", "s": wall, "CPU s": cpu}
            row |= {"accuracy": est.score(X_test, y_test), "CPU s / scikit-learn's": cpu / base}
            rows.append(shown(row | {"peak GiB": peak_gib()}))
    return rows


# ---- scale -----------------------------------------------------------------------------------------


def scale(shape: str, fraction: float, seconds: float | None = None) -> list[Row]:
    """One pass at a large shape, or a part of it."""
    kind: Kind
    if shape == "dmoz":
        n_full, n, kind, d, words = 163_000, round(163_000 * fraction), "leaf", 165_000, 110
        h = layered_tree(1, 11, 342, 1563, 3010, 12_294)
        rows = h.closure[one_leaf_each(n, h.leaf_index.size)]
    else:
        n_full, n, kind, d, words = 456_000, round(456_000 * fraction), "leaves", 98_519, 55
        tree = layered_tree(1, 12, 1000, 12_795, 36_504)
        rng = np.random.default_rng(0)
        # Every eighth leaf has a second parent.
        more = {(int(tree.parent[rng.integers(20_000, 40_000)]), int(leaf)) for leaf in tree.leaf_index[::8]}
        h = so.Hierarchy([*tree.edges, *(more - set(tree.edges))])
        both = h.leaf_index[rng.integers(0, h.leaf_index.size, 2 * n)]
        rows = h.ancestor_rows(np.arange(n + 1) * 2, both)
    X = documents(rows, d, words)
    print(
        f"{h}, X {X.shape}, {X.nnz / n:.0f} words each, {n / n_full:.2%} of the examples; {peak_gib():.2f} GiB so far"
    )
    est = HierarchicalSVM(
        h, "rho", kind=kind, margin="leaf", trainer="sgd", support="seen", dtype="float32", lam=1e-5, max_passes=1,
        certify=False, n_jobs=2, verbose=True, max_seconds=seconds,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, wall, cpu = timed(lambda: est.fit(X, rows))
    seen = est.result_.history[-1].oracle_calls
    steps = sum(est.result_.history[-1].parts.values())
    row = {
        "shape": f"{shape}, {len(h):,} nodes",
        "examples": seen,
        "share of all": seen / n_full,
        "s": wall,
        "CPU s": cpu,
    }
    row |= {"ms a step": 1e3 * steps / seen, "a whole pass, h": (wall - steps + steps * n_full / seen) / 3600}
    row |= {"peak GiB": peak_gib(), "weights": est.coef_.nnz}
    est.predict(X[-2:])
    _, wall, cpu = timed(partial(est.predict, X[-PREDICTED:]))
    return [shown(row | {"prediction, CPU ms an example": 1e3 * cpu / PREDICTED})]


# ---- sets of leaves --------------------------------------------------------------------------------


def own_words(labels: sp.csr_array, d: int, n_words: int, each: int = 8, seed: int = 0) -> sp.csr_array:
    """Rows of norm 1: half of the words are common ones (Zipf), half are words that only a node of the label has."""
    rng = np.random.default_rng(seed)
    n, n_nodes = labels.shape
    frequency = np.cumsum(1.0 / np.arange(10, d + 10))
    own = n_words // 2
    common = np.searchsorted(frequency / frequency[-1], rng.random((n, n_words - own)))
    pick = labels.indptr[:-1, None] + rng.integers(0, 1 << 30, (n, own)) % np.diff(labels.indptr)[:, None]
    words = np.hstack([common, d + each * labels.indices[pick] + rng.integers(0, each, (n, own))]).astype(np.int32)
    pointer = np.arange(n + 1, dtype=np.int32) * n_words
    X = sp.csr_array((np.ones(words.size), words.ravel(), pointer), shape=(n, d + each * n_nodes))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    return X


def sets(n: int, large: int) -> list[Row]:
    """Two leaves an example, of trees and of DAGs: hierarchical SVMs beside one-vs-rest, each with its lam or C."""
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for sizes, examples in (((1, 4, 12, 36), n), ((1, 8, 72, 792), large)):
        tree = layered_tree(*sizes)
        rng = np.random.default_rng(0)
        more = {(int(tree.parent[rng.choice(tree.leaf_index)]), int(leaf)) for leaf in tree.leaf_index[::4]}
        dag = so.Hierarchy([*tree.edges, *sorted(more - set(tree.edges))])
        for told, h in (("tree", tree), ("DAG", dag)) if examples else ():
            rows += _sets_of(told, h, examples)
    return rows


def _sets_of(told: str, h: so.Hierarchy, n: int) -> list[Row]:
    rng = np.random.default_rng(1)
    total, held = n + n // 2, n // 4
    chosen = h.leaf_index[rng.integers(0, h.leaf_index.size, 2 * total)]
    nodes = h.ancestor_rows(np.arange(total + 1) * 2, chosen)
    X, Y = own_words(nodes, 2000, 40), nodes.toarray()
    (X, X_test), (Y, Y_test) = ((part[:n], part[n:]) for part in (X, Y))
    leaves = h.leaf_index
    name = f"{told} of {len(h)} nodes, {n} examples"
    found = []

    def row(method: str, chosen: str, P: Any, seconds: float) -> None:
        P = np.asarray(P.toarray() if sp.issparse(P) else P)
        about = {"set": name, "method": method, "chosen": chosen, "accuracy": metrics.accuracy(Y_test, P, h)}
        figures = {"MiF1": metrics.micro_f1(Y_test, P, h), "labels": float(P[:, leaves].sum(axis=1).mean())}
        leaf = 2.0 * float((P * Y_test)[:, leaves].sum()) / float(P[:, leaves].sum() + Y_test[:, leaves].sum())
        found.append(shown({**about, **figures, "leaf MiF1": leaf, "CPU s": seconds}))

    def flat(C: float, A: Any, B: Any, X: Any) -> Any:
        return _one_vs_rest(h, False, C, A, B, X)

    def svm(weights: Any, margin: Any, **options: Any) -> Callable[..., Any]:
        def run(lam: float, A: Any, B: Any, X: Any) -> Any:
            made = HierarchicalSVM(h, weights, margin=margin, kind="leaves", lam=lam, **options)
            return made.fit(A, B).predict_nodes(X)

        return run

    # Block ascent is far from the optimum of many nodes with a constant feature after 40 passes; SGD is not.
    small = len(h) < 100
    how: dict[str, Any] = {"tol": 0.05, "max_passes": 100} if small else {"trainer": "sgd", "max_passes": 30}
    lams = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8) if small else (1e-4, 1e-5, 1e-6)
    early: dict[str, Any] = {"trainer": "sgd", "max_passes": 4}
    methods: list[tuple[str, Callable[..., Any], tuple[float, ...]]] = [
        ("one-vs-rest", flat, (1.0, 10.0, 100.0, 1000.0)),
        ("NHSVM, leaf error, 4 passes of SGD", svm("rho", "leaf", **early), (1e-4,)),
        ("NHSVM, leaf error", svm("rho", "leaf", **how), lams),
        ("NHSVM, Hamming error", svm("rho", "hamming", **how), lams),
        ("HSVM, leaf error", svm("none", "leaf", **how), lams),
        ("HSVM, Hamming error", svm("none", "hamming", **how), lams),
    ]
    if not small and told == "DAG":  # relaxations take ten times as long: NHSVM alone, with the lam of the tree
        methods = [*methods[:2], *((method, run, (1e-5,)) for method, run, _ in methods[2:4])]
    for method, run, grid in methods:
        start, best = time.process_time(), (-1.0, grid[0])
        for value in grid if len(grid) > 1 else ():
            guess = run(value, X[held:], Y[held:], X[:held])
            best = max(best, (metrics.micro_f1(Y[:held], guess, h), value))
        guess = run(best[1], X, Y, X_test)
        told_value = f"{'C =' if method == 'one-vs-rest' else 'lam'} {best[1]:g}"
        row(method, told_value, guess, time.process_time() - start)
    return found


# ---- real data -------------------------------------------------------------------------------------


def load(directory: Path, split: str) -> tuple[Any, Any]:
    z = np.load(directory / f"{split}.npz")
    X = sp.csr_matrix((z["X_data"], z["X_indices"], z["X_indptr"]), shape=tuple(z["X_shape"])).astype(np.float64)
    return X, z["Y"]


SETS = ("imclef07a", "imclef07d", "enron_hmc")
GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)


def real(data: Path, sets: Sequence[str] = SETS, examples: int | None = None) -> list[Row]:
    """All methods and peers on each set, or on some of its training examples."""
    warnings.simplefilter("ignore")
    return [row for name in sets for row in _real_one(data / name, name, examples)]


def _real_one(directory: Path, name: str, examples: int | None) -> list[Row]:
    meta = np.load(directory / "meta.npz")
    X, Y = load(directory, "trainvalid" if name == "enron_hmc" else "train")
    X_test, Y_test = load(directory, "test")
    if examples is not None and examples < X.shape[0]:
        some = np.random.default_rng(1).permutation(X.shape[0])[:examples]
        X, Y = X[some], Y[some]
    names = [str(node) for node in meta["label_names"]]
    given = so.Hierarchy([(names[a], names[b]) for a, b in meta["edges"].tolist()], nodes=names)
    order = given.indices(names)
    Y, Y_test = (np.asarray(part)[:, np.argsort(order)].astype(float) for part in (Y, Y_test))
    single = bool((Y[:, given.is_leaf].sum(axis=1) == 1).all())
    X, X_test = _scaled(X, X_test, dense=single)
    kind: Kind = "leaf" if single else "closure"
    print(f"\n{name}: {given}, {X.shape[0]} + {X_test.shape[0]} examples, {X.shape[1]} features, kind {kind}")
    found = []
    rng = np.random.default_rng(0).permutation(X.shape[0])
    fit, valid = rng[len(rng) // 5 :], rng[: len(rng) // 5]
    rows: list[tuple[str, Callable[[float], Any]]] = [
        ("NHSVM rho=2", lambda lam: HierarchicalSVM(given, "rho", kind=kind, lam=lam, **_OPTIONS)),
        ("NHSVM directional", lambda lam: HierarchicalSVM(given, "directional", kind=kind, lam=lam, **_OPTIONS)),
        ("NHSVM maxmin", lambda lam: HierarchicalSVM(given, "maxmin", kind=kind, lam=lam, **_OPTIONS)),
        ("HSVM", lambda lam: HierarchicalSVM(given, "none", kind=kind, lam=lam, **_OPTIONS)),
        ("SSVM", lambda lam: SharedSVM(given, kind=kind, lam=lam, max_rounds=4, rounds_tol=1e-2, **_OPTIONS)),
    ]
    if single:
        rows.insert(1, ("NHSVM divided", lambda lam: HierarchicalSVM(given, "rho", divided=True, lam=lam, **_OPTIONS)))
        rows.append(("flat", lambda lam: HierarchicalSVM(given, "flat", lam=lam, **_OPTIONS)))
        rows.append(("CRF", lambda lam: _Likelihood(given, lam)))
    for label, make in rows:
        start, best = time.process_time(), (-1.0, 0.0)
        for C in GRID:  # lam = 1 / (C n), the C of the peers
            guess = make(1.0 / (C * len(fit))).fit(X[fit], Y[fit]).predict_nodes(X[valid])
            best = max(best, (metrics.micro_f1(Y[valid], guess, given), C))
        guess = make(1.0 / (best[1] * len(rng))).fit(X, Y).predict_nodes(X_test)
        chosen = f"C = {best[1]:g}"
        found.append(_row(name, label, chosen, given, Y_test, guess, time.process_time() - start))
    return found + _peers(name, given, single, (X, Y), (X_test, Y_test), (fit, valid))


_OPTIONS: dict[str, Any] = {"tol": 0.02, "max_passes": 300}


class _Likelihood:
    """Single leaves by maximum likelihood, with weights at all nodes: the logistic loss in the place of the hinge."""

    def __init__(self, h: so.Hierarchy, lam: float) -> None:
        self.crf = so.CRF(so.structures.HierarchicalLabels(h, "leaf", intercept=True), lam=lam, tol=0.02)
        self.h = h

    def fit(self, X: Any, Y: Any) -> _Likelihood:
        self.crf.fit(X, [self.h.leaves[k] for k in Y[:, self.h.leaf_index].argmax(axis=1)])
        return self

    def predict_nodes(self, X: Any) -> sp.csr_array:
        place = {name: k for k, name in enumerate(self.h.leaves)}
        return self.h.closure[np.array([place[name] for name in self.crf.predict(X)])]


def _scaled(X: Any, X_test: Any, dense: bool) -> tuple[Any, Any]:
    """Standardised columns for the dense image features, rows of norm 1 for text."""
    from sklearn.preprocessing import StandardScaler, normalize

    if not dense:
        return normalize(X), normalize(X_test)
    scaler = StandardScaler().fit(X.toarray())
    width = np.sqrt(X.shape[1])
    return scaler.transform(X.toarray()) / width, scaler.transform(X_test.toarray()) / width


def _row(name: str, label: str, chosen: str, h: so.Hierarchy, truth: Any, guess: Any, seconds: float) -> Row:
    row = {
        "set": name,
        "method": label,
        "chosen": chosen,
        "accuracy": metrics.accuracy(truth, guess, h),
        "label loss": metrics.label_loss(truth, guess, h),
        "MiF1": metrics.micro_f1(truth, guess, h),
        "MaF1": metrics.macro_f1(truth, guess, h),
        "hierarchical F1": metrics.hierarchical_f1(truth, guess, h),
        "hierarchical loss": metrics.hierarchical_loss(truth, guess, h),
        "CPU s": seconds,
    }
    return shown(row)


def _peers(set_name: str, h: so.Hierarchy, single: bool, data: Any, tested: Any, split: Any) -> list[Row]:
    """One-vs-rest and the local classifiers of hiclass, each with its C from the held-out examples."""
    (X, Y), (X_test, Y_test), (fit, valid) = data, tested, split
    rows = []
    for name, predict in _peer_methods(h, single).items():
        start, best = time.process_time(), (-1.0, 0.0)
        for C in GRID:
            best = max(best, (metrics.micro_f1(Y[valid], predict(C, X[fit], Y[fit], X[valid]), h), C))
        guess = predict(best[1], X, Y, X_test)
        rows.append(_row(set_name, name, f"C = {best[1]:g}", h, Y_test, guess, time.process_time() - start))
    return rows


def _peer_methods(h: so.Hierarchy, single: bool) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {"one-vs-rest": partial(_one_vs_rest, h, single)}
    try:
        import hiclass
    except ImportError:
        print("  (hiclass is left out: it is not installed)")
        return found
    if not single:
        print("  (hiclass is left out: it has no labels of several paths)")
        return found
    for name in ("Node", "ParentNode", "Level"):
        local = getattr(hiclass, f"LocalClassifierPer{name}")
        found[f"hiclass {name}"] = partial(_local, h, local)
    return found


def _local(h: so.Hierarchy, local: Any, C: float, X: Any, Y: Any, X_test: Any) -> list[set[str]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    paths = [[str(h.nodes[k]) for k in np.flatnonzero(row)] for row in Y]
    longest = max(map(len, paths))
    filled = np.array([path + [""] * (longest - len(path)) for path in paths])
    # Classifiers at nodes and levels are compared by their probabilities.
    base = LinearSVC(C=C) if local.__name__ == "LocalClassifierPerParentNode" else LogisticRegression(C=C)
    guess = local(local_classifier=base).fit(X, filled).predict(X_test)
    return [set(filter(None, map(str, row))) for row in guess]


def _one_vs_rest(h: so.Hierarchy, single: bool, C: float, X: Any, Y: Any, X_test: Any) -> sp.csr_array:
    """Over the leaves of single-label problems; else over all nodes, with the ancestors of what was found."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    if single:
        guess = LinearSVC(C=C).fit(X, Y[:, h.leaf_index].argmax(axis=1)).predict(X_test)
        return h.closure[np.asarray(guess)]
    rows = OneVsRestClassifier(LinearSVC(C=C)).fit(X, Y.astype(int)).predict(X_test)
    return h.ancestor_rows(np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(int), np.nonzero(rows)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("speed").add_argument("--examples", type=int, default=75_000)
    large = commands.add_parser("scale")
    large.add_argument("--shape", choices=("dmoz", "swiki"), default="dmoz")
    large.add_argument("--fraction", type=float, default=1.0)
    large.add_argument("--seconds", type=float)
    toy = commands.add_parser("synthetic")
    toy.add_argument("--seeds", type=int, default=20)
    toy.add_argument("--kind", choices=("balanced", "unbalanced"))
    toy.add_argument("--rows", type=Path, help="file of rows: those in it are not computed again")
    toy.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    toy.add_argument("--fine", action="store_true")
    toy.add_argument("--chosen", action="store_true", help="variants and lambda as the pilots chose them before")
    several = commands.add_parser("sets")
    several.add_argument("--examples", type=int, default=400, help="of the hierarchies of 53 nodes; 0 for none")
    several.add_argument("--large", type=int, default=1000, help="of the hierarchies of 873 nodes; 0 for none")
    commands.add_parser("paths").add_argument("--sets", nargs="+", choices=PATH_SETS, default=PATH_SETS)
    tables = commands.add_parser("real")
    tables.add_argument("--data", type=Path, default=DATA)
    tables.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    tables.add_argument("--examples", type=int, help="at most so many training examples of each set")
    given = parser.parse_args(sys.argv[1:] or ["speed"])
    name, ratio, seeds = given.command, None, range(1)
    if name == "speed":
        rows, title, ratio = speed(given.examples), "One pass at the shape of IPC", "CPU s / scikit-learn's"
    elif name == "scale":
        rows, title = scale(given.shape, given.fraction, given.seconds), f"One pass at the shape of {given.shape}"
        name = f"scale_{given.shape}"
    elif name == "synthetic":
        kinds = [given.kind] if given.kind else ["unbalanced", "balanced"]
        rows, pairs, used = synthetic(kinds, given.seeds, given.rows, given.methods, given.fine, given.chosen)
        seeds = range(given.seeds)
        # The same command without the file of rows.
        words = [word for k, word in enumerate(sys.argv[1:], 1) if "--rows" not in (word, sys.argv[k - 1])]
        options: dict[str, Any] = {"measures": MEASURES, "seeds": seeds, "words": words}
        title = "Differences on the same draws"
        keep(f"hierarchy.{name}_pairs", pairs, title=title, seconds=0.0, **options)
        keep(f"hierarchy.{name}", rows, title="Accuracy on synthetic sets", seconds=used, **options)
        return
    elif name == "sets":
        rows, title = sets(given.examples, given.large), "Sets of leaves beside one-vs-rest"
    elif name == "paths":
        rows, title = paths(given.sets), "One path in a tree of images: loss and weights"
    else:
        rows = real(given.data, given.sets, given.examples)
        title = "Hierarchies beside one-vs-rest and hiclass"
    keep(f"hierarchy.{name}", rows, title=title, measures=MEASURES, seeds=seeds, ratio=ratio)


if __name__ == "__main__":
    main()

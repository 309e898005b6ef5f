"""Hierarchical SVMs: speed and memory at the papers' shapes, the synthetic table of NHSVM, three real data sets.

    python benchmarks/hierarchy.py [speed [--examples 75000]]
    python benchmarks/hierarchy.py scale [--shape dmoz | swiki] [--fraction 1.0] [--seconds S]
    python benchmarks/hierarchy.py synthetic [--seeds 20] [--kind balanced | unbalanced] [--rows FILE] [--fine]
    python benchmarks/hierarchy.py real [--data DIRECTORY] [--sets imclef07a ...]

``speed``: one SGD pass at the shape of IPC (553 nodes, 228,000 features, 0.1% density) next to one pass of
scikit-learn's SGDClassifier, one-vs-rest over the leaves, on the same matrix. ``scale``: one pass at the shapes of
DMOZ10 (tree, one leaf an example) and SWIKI (DAG, several), the second from a fraction of the examples, or of the
pass: with ``--seconds`` training stops early, with the memory and the mini-batches of the whole; then prediction.
``synthetic``: table 3 of NHSVM (`hierarchy_synthetic`). ``real``: ImCLEF07A, ImCLEF07D and Enron, all methods next to
one-vs-rest and, where it is installed, hiclass. Seconds are of the wall, with CPU seconds in brackets: on a busy
machine only these compare.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hierarchy_synthetic import METHODS, synthetic

import structopt as so
from structopt import metrics
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.shared import SharedSVM
from structopt.structures.hierarchy import Kind

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


def speed(n: int) -> None:
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
    print(f"scikit-learn, one-vs-rest over the leaves: {wall:.1f} s ({base:.1f} CPU), accuracy {accuracy:.3f}")
    del peer
    for dtype in ("float32", "float64"):
        for support in ("all", "seen"):
            options: dict[str, Any] = {"dtype": dtype, "support": support, "intercept": False}
            est = HierarchicalSVM(h, "rho", trainer="sgd", lam=1e-4, max_passes=1, certify=False, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                est.fit(X[:500], y[:500])  # numba compiles
            _, wall, cpu = timed(partial(est.fit, X, y))
            print(
                f"HierarchicalSVM, {dtype}, weights {support}: {wall:.1f} s ({cpu:.1f} CPU) = {cpu / base:.2f} of "
                f"scikit-learn's (limit 2), accuracy {est.score(X_test, y_test):.3f}, peak {peak_gib():.1f} GiB",
                flush=True,
            )


# ---- scale -----------------------------------------------------------------------------------------


def scale(shape: str, fraction: float, seconds: float | None = None) -> None:
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
    print(f"{seen} examples: {wall:.0f} s ({cpu:.0f} CPU), peak {peak_gib():.2f} GiB, {est.coef_.nnz:,} weights")
    steps = sum(est.result_.history[-1].parts.values())
    print(f"  of these {steps:.0f} s for steps, {1e3 * steps / seen:.1f} ms an example")
    if seen < n_full:
        whole = wall - steps + steps * n_full / seen
        print(f"the whole shape from {seen / n_full:.2%} of its examples: {whole / 3600:.1f} h a pass")
    est.predict(X[-2:])
    _, wall, cpu = timed(partial(est.predict, X[-PREDICTED:]))
    print(f"prediction: {1e3 * wall / PREDICTED:.1f} ms an example ({1e3 * cpu / PREDICTED:.1f} CPU)")


# ---- real data -------------------------------------------------------------------------------------


def load(directory: Path, split: str) -> tuple[Any, Any]:
    z = np.load(directory / f"{split}.npz")
    X = sp.csr_matrix((z["X_data"], z["X_indices"], z["X_indptr"]), shape=tuple(z["X_shape"])).astype(np.float64)
    return X, z["Y"]


SETS = ("imclef07a", "imclef07d", "enron_hmc")


def real(data: Path, sets: Sequence[str] = SETS) -> None:
    warnings.simplefilter("ignore")
    for name in sets:
        _real_one(data / name, name)


def _real_one(directory: Path, name: str) -> None:
    meta = np.load(directory / "meta.npz")
    X, Y = load(directory, "trainvalid" if name == "enron_hmc" else "train")
    X_test, Y_test = load(directory, "test")
    names = [str(node) for node in meta["label_names"]]
    given = so.Hierarchy([(names[a], names[b]) for a, b in meta["edges"].tolist()], nodes=names)
    order = given.indices(names)
    Y, Y_test = (np.asarray(part)[:, np.argsort(order)].astype(float) for part in (Y, Y_test))
    single = bool((Y[:, given.is_leaf].sum(axis=1) == 1).all())
    X, X_test = _scaled(X, X_test, dense=single)
    kind: Kind = "leaf" if single else "closure"
    print(f"\n{name}: {given}, {X.shape[0]} + {X_test.shape[0]} examples, {X.shape[1]} features, kind {kind}")
    print(f"  {'method':26}     lam  accuracy label loss   MiF1   MaF1    hF1  hloss       s")
    rng = np.random.default_rng(0).permutation(X.shape[0])
    fit, valid = rng[len(rng) // 5 :], rng[: len(rng) // 5]
    rows: list[tuple[str, Callable[[float], Any]]] = [
        ("NHSVM rho=2", lambda lam: HierarchicalSVM(given, "rho", kind=kind, lam=lam, **_OPTIONS)),
        ("NHSVM maxmin", lambda lam: HierarchicalSVM(given, "maxmin", kind=kind, lam=lam, **_OPTIONS)),
        ("HSVM", lambda lam: HierarchicalSVM(given, "none", kind=kind, lam=lam, **_OPTIONS)),
        ("SSVM", lambda lam: SharedSVM(given, kind=kind, lam=lam, max_rounds=4, rounds_tol=1e-2, **_OPTIONS)),
    ]
    if single:
        rows.insert(1, ("NHSVM divided", lambda lam: HierarchicalSVM(given, "rho", divided=True, lam=lam, **_OPTIONS)))
        rows.append(("flat", lambda lam: HierarchicalSVM(given, "flat", lam=lam, **_OPTIONS)))
    for label, make in rows:
        start, best = time.process_time(), (-1.0, 0.0)
        for lam in (1e-3, 1e-4, 1e-5, 1e-6) if single else (1e-2, 1e-3, 1e-4, 1e-5):
            guess = make(lam).fit(X[fit], Y[fit]).predict_nodes(X[valid])
            best = max(best, (metrics.micro_f1(Y[valid], guess, given), lam))
        _row(label, best[1], given, Y_test, make(best[1]).fit(X, Y).predict_nodes(X_test), time.process_time() - start)
    _peers(given, single, (X, Y), (X_test, Y_test), (fit, valid))


_OPTIONS: dict[str, Any] = {"tol": 0.02, "max_passes": 40}


def _scaled(X: Any, X_test: Any, dense: bool) -> tuple[Any, Any]:
    """Standardised columns for the dense image features, rows of norm 1 for text."""
    from sklearn.preprocessing import StandardScaler, normalize

    if not dense:
        return normalize(X), normalize(X_test)
    scaler = StandardScaler().fit(X.toarray())
    width = np.sqrt(X.shape[1])
    return scaler.transform(X.toarray()) / width, scaler.transform(X_test.toarray()) / width


def _row(label: str, lam: float, h: so.Hierarchy, truth: Any, guess: Any, seconds: float) -> None:
    numbers = (
        metrics.accuracy(truth, guess, h),
        metrics.label_loss(truth, guess, h),
        metrics.micro_f1(truth, guess, h),
        metrics.macro_f1(truth, guess, h),
        metrics.hierarchical_f1(truth, guess, h),
        metrics.hierarchical_loss(truth, guess, h),
    )
    text = "{:9.3f} {:10.4f} {:6.3f} {:6.3f} {:6.3f} {:6.3f}".format(*numbers)
    print(f"  {label:26} {lam:7g} {text} {seconds:7.1f}", flush=True)


def _peers(h: so.Hierarchy, single: bool, data: Any, tested: Any, split: Any) -> None:
    """One-vs-rest and the local classifiers of hiclass, each with its C from the held-out examples."""
    (X, Y), (X_test, Y_test), (fit, valid) = data, tested, split
    for name, predict in _peer_methods(h, single).items():
        start, best = time.process_time(), (-1.0, 0.0)
        for C in (0.1, 1.0, 10.0, 100.0):
            best = max(best, (metrics.micro_f1(Y[valid], predict(C, X[fit], Y[fit], X[valid]), h), C))
        guess = predict(best[1], X, Y, X_test)
        _row(f"{name}, C = {best[1]:g}", np.nan, h, Y_test, guess, time.process_time() - start)


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
    toy.add_argument("--rows", type=Path, default=Path("hierarchy_synthetic.csv"))
    toy.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    toy.add_argument("--fine", action="store_true")
    tables = commands.add_parser("real")
    tables.add_argument("--data", type=Path, default=DATA)
    tables.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    given = parser.parse_args(sys.argv[1:] or ["speed"])
    if given.command == "speed":
        speed(given.examples)
    elif given.command == "scale":
        scale(given.shape, given.fraction, given.seconds)
    elif given.command == "synthetic":
        kinds = [given.kind] if given.kind else ["unbalanced", "balanced"]
        synthetic(kinds, given.seeds, given.rows, given.methods, given.fine)
    else:
        real(given.data, given.sets)


if __name__ == "__main__":
    main()

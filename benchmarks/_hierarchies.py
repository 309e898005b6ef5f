"""Hierarchies for several benchmarks: generated text, data sets, and methods that predict nodes.

A method is ``fit(X, Y, C) -> predict`` with 0/1 rows Y over the nodes; ``predict(X)`` returns such rows. C is the
weight of the loss as in LIBLINEAR: lam = 1 / (C n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _bench import load
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import structopt as so

Fit = Callable[[Any, Any, float], Callable[[Any], Any]]


class Certified(NamedTuple):
    """Predictions of a trainer with a certificate, and the relative gap at which it ended."""

    predict: Callable[[Any], Any]
    gap: float

    def __call__(self, inputs: Any) -> Any:
        return self.predict(inputs)


# ---- generated text --------------------------------------------------------------------------------


def layered_tree(*sizes: int) -> so.Hierarchy:
    """Return a tree with this many nodes on each level; parents take turns."""
    edges, first = [], 0
    for above, here in pairwise(sizes):
        edges += [(first + k % above, first + above + k) for k in range(here)]
        first += above
    return so.Hierarchy(edges)


def one_leaf_each(n: int, n_leaves: int) -> np.ndarray:
    """Return a random leaf per example; every leaf has an example if there are enough."""
    leaf = np.random.default_rng(0).integers(0, n_leaves, n)
    leaf[: min(n, n_leaves)] = np.arange(min(n, n_leaves))
    return leaf


def documents(
    labels: sp.csr_array, d: int, n_words: int, one_in: int = 3, own: int = 0, dtype: Any = np.float32
) -> sp.csr_array:
    """Return rows of norm 1 with `n_words` draws: common words (Zipf), and one in `one_in` of the label's nodes.

    A node has `own` words that no other node has, or 300 of the common words if `own` is 0.
    """
    rng = np.random.default_rng(0)
    n, n_nodes = labels.shape
    frequency = np.cumsum(1.0 / np.arange(10, d + 10))
    frequency /= frequency[-1]
    special = n_words // one_in
    common = np.searchsorted(frequency, rng.random((n, n_words - special)))
    topics = d + np.arange(own * n_nodes).reshape(n_nodes, own)
    if not own:
        topics = np.searchsorted(frequency, rng.random((n_nodes, 300)))
    pick = labels.indptr[:-1, None] + rng.integers(0, 1 << 30, (n, special)) % np.diff(labels.indptr)[:, None]
    chosen = topics[labels.indices[pick], rng.integers(0, topics.shape[1], (n, special))]
    words = np.hstack([common, chosen]).astype(np.int32)
    pointer = np.arange(n + 1, dtype=np.int32) * n_words
    X = sp.csr_array((np.ones(words.size, dtype), words.ravel(), pointer), shape=(n, d + own * n_nodes))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr)).astype(dtype)
    return X


# ---- data sets -------------------------------------------------------------------------------------


def training_part(name: str) -> Any:
    """Return all examples of a hierarchical set that are not for testing."""
    splits = {"enron_hmc": ["trainvalid"], "imclef07a": ["train"], "imclef07d": ["train"]}
    return load(name, *splits.get(name, ["train", "valid"]))


def restricted(h: so.Hierarchy, kept: np.ndarray) -> tuple[so.Hierarchy, np.ndarray]:
    """Return the hierarchy of some nodes, and their columns in the order of its nodes."""
    nodes = [node for node, flag in zip(h.nodes, kept, strict=True) if flag]
    some = so.Hierarchy([(p, c) for p, c in h.edges if kept[h.index(p)] and kept[h.index(c)]], nodes=nodes)
    return some, np.asarray(h.indices(some.nodes))


def filled(X: Any, X_test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return dense features; missing numbers are the mean of their training column."""
    dense = X.toarray(), X_test.toarray()
    mean = np.nan_to_num(np.nanmean(dense[0], axis=0))
    first, second = (np.where(np.isnan(A), mean, A) for A in dense)
    return first, second


def scaled(X: Any, X_test: Any, text: bool) -> tuple[Any, Any]:
    """Return rows of norm 1 for text, else standardised columns over the root of their number."""
    from sklearn.preprocessing import StandardScaler, normalize

    if text:
        return short_indices(normalize(X)), normalize(X_test)
    dense = filled(X, X_test)
    scaler = StandardScaler().fit(dense[0])
    first, second = (scaler.transform(A) / np.sqrt(A.shape[1]) for A in dense)
    return first, second


def short_indices(X: Any) -> Any:
    """Give a sparse matrix indices of 32 bits: LIBLINEAR takes no others."""
    if sp.issparse(X):
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


# ---- methods ---------------------------------------------------------------------------------------


def tuned(
    fit: Fit, grid: Sequence[float], X: Any, Y: Any, split: tuple[Any, Any], inputs: Any, score: Callable[..., float]
) -> tuple[float, Any]:
    """Return the parameter of the best score on held-out examples, and predictions after training on all examples."""
    rest, held = split
    best = grid[0]
    if len(grid) > 1:
        best = max(grid, key=lambda value: score(Y[held], fit(X[rest], Y[rest], value)(X[held])))
    return best, fit(X, Y, best)(inputs)


def closed(h: so.Hierarchy, rows: np.ndarray) -> np.ndarray:
    """Return sets of nodes with all their ancestors."""
    pointer = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(int)
    return np.asarray(h.ancestor_rows(pointer, np.nonzero(rows)[1]).toarray().astype(int))


def margins(make: Callable[[float], Any]) -> Fit:
    """Return the method of an SVM over nodes, which `make` makes from its lam."""

    def fit(X: Any, Y: Any, C: float) -> Any:
        svm = make(1 / (C * len(Y))).fit(X, Y)
        return Certified(lambda inputs: svm.predict_nodes(inputs).toarray().astype(int), svm.result_.gap)

    return fit


def of_leaves(h: so.Hierarchy, train: Callable[[Any, Any, float], Any]) -> Fit:
    """Return the method of a classifier of leaf names, which `train` trains."""
    place = {name: k for k, name in enumerate(h.leaves)}

    def fit(X: Any, Y: Any, C: float) -> Any:
        made = train(X, [h.leaves[k] for k in Y[:, h.leaf_index].argmax(axis=1)], C)

        def predict(inputs: Any) -> Any:
            return h.closure[np.array([place[name] for name in made.predict(inputs)])].toarray().astype(int)

        return Certified(predict, made.result_.gap) if hasattr(made, "result_") else predict

    return fit


def likelihood(h: so.Hierarchy, alpha: Any = None) -> Fit:
    """Return maximum likelihood of leaves with weights at all nodes."""

    def train(X: Any, names: Any, C: float) -> Any:
        model = so.structures.HierarchicalLabels(h, "leaf", alpha=alpha, intercept=True)
        return so.CRF(model, lam=1 / (C * len(names)), tol=0.02).fit(X, names)

    return of_leaves(h, train)


def one_vs_rest(h: so.Hierarchy | None = None, **options: Any) -> Fit:
    """Return LIBLINEAR for each label, or for each node, with the ancestors of the nodes that it finds."""

    def fit(X: Any, Y: Any, C: float) -> Any:
        many = OneVsRestClassifier(LinearSVC(C=C, **options)).fit(X, Y.astype(int))
        return lambda inputs: np.asarray(many.predict(inputs)) if h is None else closed(h, many.predict(inputs))

    return fit


def local(h: so.Hierarchy, kind: str) -> Fit:
    """Return the local classifiers of hiclass: one per ``"Node"``, ``"ParentNode"`` or ``"Level"``."""

    def fit(X: Any, Y: Any, C: float) -> Any:
        import hiclass
        from sklearn.linear_model import LogisticRegression

        paths = [[str(h.nodes[k]) for k in np.flatnonzero(row)] for row in Y]
        longest = max(map(len, paths))
        padded = np.array([path + [""] * (longest - len(path)) for path in paths])
        # Classifiers at nodes and levels are compared by their probabilities.
        base = LinearSVC(C=C) if kind == "ParentNode" else LogisticRegression(C=C)
        model = getattr(hiclass, f"LocalClassifierPer{kind}")(local_classifier=base).fit(X, padded)
        place = {str(node): k for k, node in enumerate(h.nodes)}

        def predict(inputs: Any) -> Any:
            rows = np.zeros((inputs.shape[0], len(h)), dtype=int)
            for row, path in zip(rows, model.predict(inputs), strict=True):
                row[[place[str(node)] for node in path if node]] = 1
            return rows

        return predict

    return fit

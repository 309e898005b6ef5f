"""One path in a tree of images: which part of a method decides, by the number of training examples.

One-vs-rest over the leaves was ahead of the normalised margin on ImCLEF07A and ImCLEF07D from 300 examples. It differs
in three ways: its weights are at the leaves only, its loss is the squared hinge of each leaf by itself, and its errors
are leaves and not nodes. Here one of these is changed at a time, over several draws of the training examples, with the
same grid of C (lam = 1 / (C n)) and the same held-out fifth for all; all test examples are used.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from _results import shown

import structopt as so
from structopt.norms import normalization

GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
#: Training examples (None: all), and draws of them.
SIZES: tuple[tuple[int | None, int], ...] = ((300, 5), (1000, 3), (None, 1))
SETS = ("imclef07a", "imclef07d")
_OPTIONS: dict[str, Any] = {"tol": 0.02, "max_passes": 60}

#: ``run(C, X, Y, X_test) -> rows over the nodes``
Run = Callable[[float, Any, Any, Any], Any]


def methods(h: so.Hierarchy) -> dict[tuple[str, str, str], Run]:
    """By name, loss and the nodes that have weights."""

    def svm(weights: Any, **options: Any) -> Run:
        def run(C: float, X: Any, Y: Any, X_test: Any) -> Any:
            made = so.HierarchicalSVM(h, weights, lam=1 / (C * len(Y)), **options, **_OPTIONS)
            return made.fit(X, Y).predict_nodes(X_test).toarray()

        return run

    def shared(C: float, X: Any, Y: Any, X_test: Any) -> Any:
        made = so.SharedSVM(h, lam=1 / (C * len(Y)), max_rounds=4, rounds_tol=1e-2, **_OPTIONS)
        return made.fit(X, Y).predict_nodes(X_test).toarray()

    def likelihood(alpha: Any = None) -> Run:
        def run(C: float, X: Any, Y: Any, X_test: Any) -> Any:
            model = so.structures.HierarchicalLabels(h, "leaf", alpha=alpha, intercept=True)
            made = so.CRF(model, lam=1 / (C * len(Y)), tol=0.02).fit(X, _names(h, Y))
            return _rows(h, made.predict(X_test))

        return run

    def least_risk(C: float, X: Any, Y: Any, X_test: Any) -> Any:
        model = so.structures.HierarchicalLabels(h, "leaf")
        made = so.ConditionalRiskMinimizer(model, "linear", 1 / (C * len(Y))).fit(X, _names(h, Y))
        return _rows(h, made.predict(X_test))

    def peer(make: Callable[[float], Any]) -> Run:
        def run(C: float, X: Any, Y: Any, X_test: Any) -> Any:
            leaf = Y[:, h.leaf_index].argmax(axis=1)
            return h.closure[np.asarray(make(C).fit(X, leaf).predict(X_test))].toarray()

        return run

    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    return {
        ("one-vs-rest LinearSVC", "squared hinge", "leaves"): peer(lambda C: LinearSVC(C=C)),
        ("one-vs-rest LinearSVC, hinge", "hinge", "leaves"): peer(lambda C: LinearSVC(C=C, loss="hinge")),
        ("LogisticRegression", "logistic", "leaves"): peer(lambda C: LogisticRegression(C=C, max_iter=300)),
        ("HierarchicalSVM, flat", "hinge, 0/1", "leaves"): svm("flat"),
        ("HierarchicalSVM, none, leaf error", "hinge, 0/1", "all"): svm("none", margin="leaf"),
        ("HierarchicalSVM, none", "hinge, Hamming", "all"): svm("none"),
        ("HierarchicalSVM, rho", "hinge, normalised", "all, by rho"): svm("rho"),
        ("HierarchicalSVM, directional", "hinge, normalised", "all, directional"): svm("directional"),
        ("SharedSVM", "hinge, 0/1", "all, learned"): shared,
        ("CRF", "logistic", "all"): likelihood(),
        ("CRF, rho", "logistic", "all, by rho"): likelihood(normalization(h)),
        ("ConditionalRiskMinimizer", "squares, 0/1", "leaves"): least_risk,
    }


def _names(h: so.Hierarchy, Y: Any) -> list[Any]:
    return [h.leaves[k] for k in Y[:, h.leaf_index].argmax(axis=1)]


def _rows(h: so.Hierarchy, names: Any) -> Any:
    place = {name: k for k, name in enumerate(h.leaves)}
    return h.closure[np.array([place[name] for name in names])].toarray()


def paths(
    sets: Sequence[str] = SETS, sizes: Sequence[tuple[int | None, int]] = SIZES, some: Sequence[str] = ()
) -> list[Mapping[str, Any]]:
    """A row for each set, number of examples and method: means over the draws."""
    warnings.simplefilter("ignore")
    return [row for name in sets for n, draws in sizes for row in _at(name, n, draws, some)]


def _at(name: str, n: int | None, draws: int, some: Sequence[str]) -> list[Mapping[str, Any]]:
    train, test = (so.data.load_benchmark(name, part) for part in ("train", "test"))
    h, n = test.hierarchy, n or train.X.shape[0]
    tasks = [_task(train, test, np.random.default_rng(seed), n) for seed in range(draws)]
    rows: list[Mapping[str, Any]] = []
    first: Any = None
    for (method, loss, weights), run in methods(h).items():
        if some and method not in some:
            continue
        found = [_measured(run, *task, test.y) for task in tasks]
        _, micro, exact, seconds, C = (np.array([one[k] for one in found]) for k in range(5))
        about = {"set": f"{name}, {len(h)} nodes", "examples": n, "method": method, "loss": loss, "weights at": weights}
        figures: dict[str, Any] = {
            "MiF1": micro.mean(),
            "sd": micro.std(ddof=1) if draws > 1 else None,
            "exact": exact.mean(),
        }
        first = micro if first is None else first
        figures |= {"ahead of the first": (micro - first).mean(), "draws": draws, "C": float(np.median(C))}
        rows.append(shown({**about, **figures, "CPU s": seconds.mean()}))
    return rows


def _task(train: Any, test: Any, rng: Any, n: int) -> tuple[Any, Any, Any]:
    from sklearn.preprocessing import StandardScaler

    chosen = rng.permutation(train.X.shape[0])[:n]
    X = train.X[chosen].toarray()
    scaler, width = StandardScaler().fit(X), np.sqrt(X.shape[1])
    return scaler.transform(X) / width, train.y[chosen].astype(float), scaler.transform(test.X.toarray()) / width


def _measured(run: Run, X: Any, Y: Any, X_test: Any, truth: Any) -> tuple[float, float, float, float, float]:
    """MiF1 held out, MiF1 and share of right leaves on the test set, CPU seconds of the last training, and C."""
    held = np.arange(0, len(Y), 5)
    rest = np.setdiff1d(np.arange(len(Y)), held)
    best, C = max((_micro_f1(Y[held], run(C, X[rest], Y[rest], X[held])), -C) for C in GRID)
    start = time.process_time()
    guess = run(-C, X, Y, X_test)
    seconds = time.process_time() - start
    return best, _micro_f1(truth, guess), float((guess == truth).all(axis=1).mean()), seconds, -C


def _micro_f1(truth: Any, guess: Any) -> float:
    return float(2 * (truth * guess).sum() / (truth.sum() + guess.sum()))

"""The searches on Yeast's 14-label pairwise relaxation, next to the papers' tables 4.1 and 5.1.

    python benchmarks/search.py [--data DIRECTORY] [--examples 160] [--passes 5] [--solver highs]

The weights are those after five passes of margin-rescaled subgradient descent over the same examples. For every
example each search then looks for the most violated label of slack rescaling, (1 + margin) * Hamming loss, over the
relaxed label space. Printed: queries and milliseconds per search, the share of examples in which the search found
the optimum (within 0.1%, the papers' stopping rule), and the time outside the oracle (choosing λ, bounds, the plane)
as a share of the time inside it. Times are CPU times of the thread, so that a busy machine does not blur them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

import structopt as so
from structopt import search
from structopt.plane import Plane
from structopt.search import SearchResult
from structopt.surrogates import Product

# Queries per search as printed: thesis table 4.1 (= AISTATS16 table 1) and thesis table 5.1.
PAPERS = {
    "sarawagi": (43.2, 15.3),
    "bisecting": (10.3, 7.8),
    "angular": (3.8, 4.5),
    "convex_hull": (None, 3.1),
}


class PairwiseYeast:
    """Scores of the fully connected pairwise model: x enters the unary terms, pairs have one weight each."""

    def __init__(self, directory: Path, n_examples: int) -> None:
        arrays = np.load(directory / "yeast" / "train.npz")
        import scipy.sparse as sp

        features = sp.csr_matrix(
            (arrays["X_data"], arrays["X_indices"], arrays["X_indptr"]), shape=tuple(arrays["X_shape"])
        )
        X = features.toarray().astype(float)[:n_examples]
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        self.X = np.hstack([X, np.ones((len(X), 1))])
        self.Y = arrays["Y"][:n_examples].astype(float)
        n = self.Y.shape[1]
        self.i, self.j = np.triu_indices(n, 1)
        self.truth = np.hstack([self.Y, self.Y[:, self.i] * self.Y[:, self.j]])
        space = so.LabelSpace("yeast, pairwise")
        y = space.binary("y", n)
        p = space.continuous("pair", len(self.i), 0, 1)
        space.subject_to(p <= y[self.i], p <= y[self.j], p >= y[self.i] + y[self.j] - 1)
        self.space = space
        self.unary = np.zeros((n, self.X.shape[1]))
        self.pair = np.zeros(len(self.i))

    def score(self, k: int) -> np.ndarray:
        return np.concatenate([self.unary @ self.X[k], self.pair])

    def loss(self, k: int) -> tuple[np.ndarray, float]:
        """Hamming loss as an affine function of z."""
        coef = np.concatenate([1.0 - 2.0 * self.Y[k], np.zeros(len(self.i))])
        return coef, float(self.Y[k].sum())

    def train(self, oracle: so.Oracle, passes: int, lam: float = 1e-3, seed: int = 0) -> None:
        """Pegasos steps on the margin-rescaled hinge."""
        rng = np.random.default_rng(seed)
        n = self.Y.shape[1]
        step = 0
        for _ in range(passes):
            for k in rng.permutation(len(self.X)):
                step += 1
                z = oracle.maximize(self.score(k) + self.loss(k)[0]).z
                rate = 1.0 / (lam * (step + len(self.X)))
                change = self.truth[k] - z
                self.unary *= 1.0 - rate * lam
                self.pair *= 1.0 - rate * lam
                self.unary += rate * np.outer(change[:n], self.X[k])
                self.pair += rate * change[n:]


class Clock:
    """An oracle that counts the time spent in it."""

    def __init__(self, oracle: so.Oracle) -> None:
        self.oracle = oracle
        self.space = oracle.space
        self.integral = oracle.integral
        self.seconds = 0.0

    def maximize(self, *arguments: Any) -> so.Label:
        begun = thread_time()
        label = self.oracle.maximize(*arguments)
        self.seconds += thread_time() - begun
        return label


def searches(xi: float) -> dict[str, Callable[[Plane], SearchResult]]:
    """Every search with its defaults; Sarawagi's needs the example's slack value."""
    surrogate = Product()
    return {
        "sarawagi": lambda plane: search.sarawagi(plane, xi),
        "binary": lambda plane: search.binary(plane, rtol=1e-3),
        "bisecting": lambda plane: search.bisecting(plane, rtol=1e-3, width=1e-3),
        "angular": lambda plane: search.angular(plane),
        "angles only": lambda plane: search.angular(plane, angles_only=True),
        "convex_hull": lambda plane: search.convex_hull(plane, surrogate),
        "exact": lambda plane: search.exact(plane, surrogate),
    }


def run(data: PairwiseYeast, oracle: so.Oracle) -> dict[str, dict[str, Any]]:
    """Queries, times and values of every search on every example."""
    names = list(searches(1.0))
    table: dict[str, dict[str, Any]] = {
        name: {"queries": [], "seconds": [], "solver": [], "value": [], "bound": [], "stopped": []} for name in names
    }
    clock = Clock(oracle)
    for k in range(len(data.X)):
        score, loss, truth = data.score(k), data.loss(k), data.truth[k]
        # The slack value of the current weights: the best product a margin-rescaled answer has.
        plane = Product().plane(clock, score, loss, truth)
        margin = plane.query(1.0)
        xi = max(0.1, 0.5 * margin.h * margin.g)
        for name, run_search in searches(xi).items():
            plane = Product().plane(clock, score, loss, truth)
            clock.seconds = 0.0
            begun = thread_time()
            result = run_search(plane)
            row = table[name]
            row["seconds"].append(thread_time() - begun)
            row["solver"].append(clock.seconds)
            row["queries"].append(result.queries)
            row["value"].append(result.value)
            row["bound"].append(result.upper_bound)
            row["stopped"].append(result.stopped)
    return table


def report(table: dict[str, dict[str, Any]], algorithm: str) -> None:
    best = np.max([row["value"] for row in table.values()], axis=0)
    print(f"{len(best)} examples, oracle: {algorithm}, violated: {np.mean(best > 0):.0%}")
    head = ("search", "queries", "paper 4.1", "paper 5.1", "ms", "optimum found", "outside / oracle")
    print("{:<12} {:>8} {:>10} {:>10} {:>8} {:>14} {:>18}".format(*head))
    for name, row in table.items():
        found = np.mean(np.asarray(row["value"]) >= best * (1.0 - 1e-3))
        seconds, solver = np.sum(row["seconds"]), np.sum(row["solver"])
        first, second = PAPERS.get(name, (None, None))
        print(
            f"{name:<12} {np.mean(row['queries']):8.2f} {first or '-':>10} {second or '-':>10} "
            f"{1e3 * np.mean(row['seconds']):8.3f} {found:14.1%} {(seconds - solver) / solver:18.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="directory that holds yeast/train.npz")
    parser.add_argument("--examples", type=int, default=160)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--solver", default="highs", help="a solver profile, or 'auto' for the fast oracle")
    arguments = parser.parse_args()
    data = PairwiseYeast(arguments.data, arguments.examples)
    oracle = so.Oracle(data.space, solver=arguments.solver, integral="relax")
    data.train(oracle, arguments.passes)
    run_table = run(data, oracle)
    report(run_table, oracle.algorithm)


if __name__ == "__main__":
    main()

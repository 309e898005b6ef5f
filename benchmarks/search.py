"""The searches on Yeast's 14-label pairwise relaxation, next to the papers' tables 4.1 and 5.1.

    python benchmarks/search.py [--data DIRECTORY] [--examples 160] [--passes 5] [--solver highs] [--integral]

The weights are those after five passes of margin-rescaled subgradient descent over the same examples. For every
example each search then looks for the most violated label of slack rescaling, (1 + margin) * Hamming loss, over the
relaxed label space (or, with --integral, the labels themselves: exact searches only). Printed: queries and
milliseconds per search, the share of examples in which the search found the optimum (within 0.1%, the papers'
stopping rule), and all time outside the solver (choosing λ, bounds, the plane, the oracle's own Python) as a share of
the time in it. The solver is the backend's `set_costs`, `add_rows`, `remove_rows` and `run`, or the combinatorial
algorithm. Every search is run `--repeats` times and the fastest counts, so that a busy machine blurs little.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import structopt as so
from structopt import search
from structopt.backends.highs import Highs
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
    """Adds up the time spent in some methods of some objects."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = False

    def watch(self, owner: Any, *names: str) -> None:
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._inside:
                return method(*arguments, **options)
            self._inside, begun = True, perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.seconds += perf_counter() - begun
                self._inside = False

        return timed


def solver_clock(oracle: so.Oracle) -> Clock:
    """A clock on whatever answers the oracle's calls."""
    clock = Clock()
    if oracle._fast is not None:
        clock.watch(oracle._fast, "maximize", "k_best", "front")
    clock.watch(Highs, "set_costs", "add_rows", "remove_rows", "run")
    return clock


def searches(xi: float, integral: bool = False) -> dict[str, Callable[[Plane], SearchResult]]:
    """Every search with its defaults; Sarawagi's needs the example's slack value."""
    surrogate = Product()
    if integral:
        return {
            "angular": lambda plane: search.angular(plane),
            "convex_hull": lambda plane: search.convex_hull(plane, surrogate, integral=True),
            "exact": lambda plane: search.exact(plane, surrogate, front=False),
            "front": lambda plane: search.exact(plane, surrogate),
        }
    return {
        "sarawagi": lambda plane: search.sarawagi(plane, xi),
        "binary": lambda plane: search.binary(plane, rtol=1e-3),
        "bisecting": lambda plane: search.bisecting(plane, rtol=1e-3, width=1e-3),
        "angular": lambda plane: search.angular(plane),
        "angles only": lambda plane: search.angular(plane, angles_only=True),
        "convex_hull": lambda plane: search.convex_hull(plane, surrogate),
        "exact": lambda plane: search.exact(plane, surrogate),
    }


def run(data: PairwiseYeast, oracle: so.Oracle, repeats: int) -> dict[str, dict[str, Any]]:
    """Queries, times and values of every search on every example."""
    integral = oracle.integral != "relax"
    table: dict[str, dict[str, Any]] = {
        name: {"queries": [], "seconds": [], "solver": [], "value": [], "bound": []} for name in searches(1.0, integral)
    }
    clock = solver_clock(oracle)
    for k in range(-1, len(data.X)):  # once more for the first: kernels are compiled or loaded at the first call
        score, loss, truth = data.score(max(k, 0)), data.loss(max(k, 0)), data.truth[max(k, 0)]
        # The slack value of the current weights: the best product a margin-rescaled answer has.
        margin = Product().plane(oracle, score, loss, truth).query(1.0)
        xi = max(0.1, 0.5 * margin.h * margin.g)
        for name, run_search in searches(xi, integral).items():
            best = (np.inf, np.inf)
            for _ in range(repeats):
                clock.seconds, begun = 0.0, perf_counter()
                result = run_search(Product().plane(oracle, score, loss, truth))
                best = min(best, (perf_counter() - begun, clock.seconds))
            if k < 0:
                continue
            row = table[name]
            row["seconds"].append(best[0])
            row["solver"].append(best[1])
            row["queries"].append(result.queries)
            row["value"].append(result.value)
            row["bound"].append(result.upper_bound)
    return table


def report(table: dict[str, dict[str, Any]], algorithm: str) -> None:
    best = np.max([row["value"] for row in table.values()], axis=0)
    print(f"{len(best)} examples, oracle: {algorithm}, violated: {np.mean(best > 0):.0%}")
    head = ("search", "queries", "paper 4.1", "paper 5.1", "ms", "optimum found", "outside / solver")
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
    parser.add_argument("--integral", action="store_true", help="search the labels, not their relaxation")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    data = PairwiseYeast(arguments.data, arguments.examples)
    oracle = so.Oracle(data.space, solver=arguments.solver, integral="relax")
    data.train(oracle, arguments.passes)
    if arguments.integral:
        oracle = so.Oracle(data.space, solver=arguments.solver)
    report(run(data, oracle, arguments.repeats), oracle.algorithm)


if __name__ == "__main__":
    main()

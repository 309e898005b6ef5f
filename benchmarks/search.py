"""The searches on Yeast's 14-label pairwise relaxation, next to the papers' tables 4.1 and 5.1.

    python benchmarks/search.py [--data DIRECTORY] [--examples 160] [--passes 5] [--solver highs] [--integral]

The weights are those after five passes of margin-rescaled subgradient descent over the same examples. For every
example each search then looks for the most violated label of slack rescaling, (1 + margin) * Hamming loss, over the
relaxed label space (or, with --integral, the labels themselves: exact searches only). Printed: queries and
milliseconds per search, the share of examples in which the search found the optimum (within 0.1%, the papers'
stopping rule), and the time outside the solver as a share of the time in it. `angular` stops at a proof of 0.999 by
default, as in the papers, `convex_hull` and `exact` at a proof of optimality; the last row stops `exact` at 0.999, too.

What is counted. A search passes over the examples in order, as a trainer does: its first solve starts from the basis
that the example before left behind. (Repeating one example would start it from its own answer, and halve the
solver's work.) Its time begins before its plane is built and ends with its result. The time in the solver is the time
inside calls of highspy (all methods of `highspy.Highs` that the backend calls, `SOLVER_CALLS`), or inside the
combinatorial algorithm; everything else is outside: building the plane, choosing λ, bounds, and the oracle's and the
backend's own Python, and the clock on these calls itself. A search does the same in every pass, so that of `--repeats`
passes the fastest counts, call by call and pause by pause: a busy machine blurs little.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import highspy
import numpy as np
from _results import keep, shown

import structopt as so
from structopt import search
from structopt.plane import Plane
from structopt.search import SearchResult
from structopt.surrogates import Product

#: Everything that the backend calls on a `highspy.Highs` between two queries.
SOLVER_CALLS = (
    "changeColsCost",
    "run",
    "getModelStatus",
    "getInfoValue",
    "getObjectiveValue",
    "getSolution",
    "allVariableValues",
    "addRows",
    "deleteRows",
    "getNumRow",
    "getBasis",
    "setBasis",
    "setSolution",
    "clearSolver",
)


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
    """Notes when some methods of some objects begin and end."""

    def __init__(self) -> None:
        self._marks: list[float] = []

    def watch(self, owner: Any, *names: str) -> None:
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            self._marks.append(perf_counter())
            answer = method(*arguments)
            self._marks.append(perf_counter())
            return answer

        return timed

    def start(self) -> None:
        self._marks = [perf_counter()]

    def stop(self) -> np.ndarray:
        """The seconds outside the watched methods and inside them, in turn, from `start` to now."""
        return np.diff([*self._marks, perf_counter()])


def faster(a: np.ndarray | None, b: np.ndarray) -> np.ndarray:
    """The faster of two runs, interval by interval; as a whole where rounding has led them different ways."""
    if a is None:
        return b
    return np.minimum(a, b) if len(a) == len(b) else min(a, b, key=np.sum)


def solver_clock(oracle: so.Oracle) -> Clock:
    """A clock on whatever answers the oracle's calls."""
    clock = Clock()
    if oracle._algorithm is not oracle._solvers:
        clock.watch(oracle._algorithm, "maximize", "k_best", "front")
    clock.watch(highspy.Highs, *SOLVER_CALLS)
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
        "sarawagi": lambda plane: search.sarawagi(plane, xi, width=3e-8),  # the 43 queries of the paper
        "binary": lambda plane: search.binary(plane, rtol=1e-3),
        "bisecting": lambda plane: search.bisecting(plane, rtol=1e-3, width=1e-3),
        "angular": lambda plane: search.angular(plane),
        "angles only": lambda plane: search.angular(plane, angles_only=True),
        "convex_hull": lambda plane: search.convex_hull(plane, surrogate),
        "exact": lambda plane: search.exact(plane, surrogate),
        "exact, 0.999": lambda plane: search.exact(plane, surrogate, rtol=1e-3),
    }


def slack_value(data: PairwiseYeast, oracle: so.Oracle, k: int) -> float:
    """The slack value of the current weights: half the best product that a margin-rescaled answer has."""
    margin = Product().plane(oracle, data.score(k), data.loss(k), data.truth[k]).query(1.0)
    assert margin is not None
    return max(0.1, 0.5 * margin.h * margin.g)


def run(data: PairwiseYeast, oracle: so.Oracle, repeats: int) -> dict[str, dict[str, Any]]:
    """Queries, times and values of every search on every example."""
    n = len(data.X)
    examples = [(data.score(k), data.loss(k), data.truth[k]) for k in range(n)]
    choices = [searches(slack_value(data, oracle, k), oracle.integral != "relax") for k in range(n)]
    clock = solver_clock(oracle)
    times: dict[str, list[Any]] = {name: [None] * n for name in choices[0]}
    results: dict[str, list[SearchResult]] = {}
    names = list(times)
    for turn in range(repeats):  # the searches take turns, in another order each time: the pace of the machine hits all
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            fastest = times[name]
            choices[-1][name](Product().plane(oracle, *examples[-1]))  # all start from the same basis, compiled
            results[name] = []
            for k, example in enumerate(examples):
                clock.start()
                results[name].append(choices[k][name](Product().plane(oracle, *example)))
                fastest[k] = faster(fastest[k], clock.stop())
    return {
        name: {
            "outside": [np.sum(intervals[0::2]) for intervals in times[name]],
            "solver": [np.sum(intervals[1::2]) for intervals in times[name]],
            "queries": [result.queries for result in found],
            "value": [result.value for result in found],
            "bound": [result.upper_bound for result in found],
        }
        for name, found in ((name, results[name]) for name in names)
    }


def report(table: dict[str, dict[str, Any]], algorithm: str) -> list[Mapping[str, Any]]:
    best = np.max([row["value"] for row in table.values()], axis=0)
    print(f"{len(best)} examples, oracle: {algorithm}, violated: {np.mean(best > 0):.0%}")
    rows = []
    for name, row in table.items():
        found = np.mean(np.asarray(row["value"]) >= best * (1.0 - 1e-3))
        outside, solver = np.sum(row["outside"]), np.sum(row["solver"])
        figures = {
            "set": "Yeast",
            "search": name,
            "queries": np.mean(row["queries"]),
            "ms": 1e3 * (outside + solver) / len(best),
            "failed": 1.0 - found,
            "outside / in the solver": outside / solver,
        }
        rows.append(shown(figures))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="directory that holds yeast/train.npz")
    parser.add_argument("--examples", type=int, default=160)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--solver", default="highs", help="a solver profile, or 'auto' for the fast oracle")
    parser.add_argument("--integral", action="store_true", help="search the labels, not their relaxation")
    parser.add_argument("--repeats", type=int, default=8)
    arguments = parser.parse_args()
    data = PairwiseYeast(arguments.data, arguments.examples)
    oracle = so.Oracle(data.space, solver=arguments.solver, integral="relax")
    data.train(oracle, arguments.passes)
    if arguments.integral:
        oracle = so.Oracle(data.space, solver=arguments.solver)
    rows = report(run(data, oracle, arguments.repeats), oracle.algorithm)
    name, title = ("search.integral", "Over labels") if arguments.integral else ("search", "Over the relaxation")
    measures = ("structopt/search", "structopt/plane", "structopt/oracle", "structopt/backends")
    keep(name, rows, title=f"{title}: queries, time and failures of each search", measures=measures, alone=True)


if __name__ == "__main__":
    main()

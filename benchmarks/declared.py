"""Declared spaces against shipped structures with the same labels: CPU time of a training pass, ratio in one run.

    python benchmarks/declared.py                # every pair
    python benchmarks/declared.py chain tags     # some

Both models see the same data and weights; a pass is one evaluation of the structured risk (the most violated label of
every example). The two take turns, and the better of several passes counts. The last line fits README's example.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

# Before numpy is imported: threads of BLAS that wait for a core would be counted as work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import structopt as so
from structopt.train import StructuredRisk

N = 200
REPEATS = 7


class Pair(NamedTuple):
    """The same labels twice: a shipped model with its data, and a declared one with its own."""

    shipped: so.Model
    shipped_data: tuple[Any, Any]
    declared: so.Model
    declared_data: tuple[Any, Any]
    weights: Callable[[np.random.Generator], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def tags(n: int = 8, d: int = 10) -> Pair:
    """Pairwise tags: binary labels with a product variable for every pair."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(N, d)), (rng.random((N, n)) < 0.4).astype(float)
    i, j = np.triu_indices(n, 1)
    space = so.LabelSpace("tags")
    y, p = space.binary("y", n), space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    declared = so.Model(space, {"y": so.features.Linear(), "pair": so.features.Tied()}, so.losses.Hamming())
    size = n * d + len(i)

    def weights(rng: np.random.Generator) -> tuple[Any, Any]:
        w = rng.normal(size=size) * 0.3
        return w, w

    return Pair(so.structures.PairwiseMRF(n), (X, Y), declared, (X, Y), weights)


def chain(T: int = 6, S: int = 4, d: int = 10) -> Pair:
    """Chains in local marginal form, every group with its row ``sum = 1``."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(T, d)) for _ in range(N)]
    Y = [rng.integers(0, S, T) for _ in range(N)]
    space = so.LabelSpace("chain")
    y, p = space.binary("y", (T, S)), space.continuous("transition", (T - 1, S, S), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    tied = so.features.Tied(np.tile(np.arange(S * S), T - 1))
    # A wrong state is two wrong variables, and one error of the shipped chain's loss.
    declared = so.Model(space, {"y": so.features.Table(), "transition": tied}, so.losses.Hamming(np.full(T * S, 0.5)))
    Z = [np.eye(S)[labels] for labels in Y]
    size = S * d + S * S

    def weights(rng: np.random.Generator) -> tuple[Any, Any]:
        w = rng.normal(size=size) * 0.3
        return w, w

    return Pair(so.structures.Chain(S), (X, Y), declared, (X, Z), weights)


PAIRS: dict[str, Callable[[], Pair]] = {"tags": tags, "chain": chain}


def compare(name: str, surrogate: str) -> None:
    """Print the CPU time of a pass of both, and their ratio."""
    pair = PAIRS[name]()
    risks = [
        StructuredRisk(model, *data, surrogate)
        for model, data in ((pair.shipped, pair.shipped_data), (pair.declared, pair.declared_data))
    ]
    best, values = [np.inf, np.inf], [0.0, 0.0]
    for repeat in range(REPEATS):
        weights = pair.weights(np.random.default_rng(repeat))
        for k, (risk, w) in enumerate(zip(risks, weights, strict=True)):
            start = time.process_time()
            values[k] = risk(w)[0]
            if repeat:  # the first pass compiles
                best[k] = min(best[k], time.process_time() - start)
        assert np.isclose(values[0], values[1], rtol=1e-3), values
    ms = [1000 * seconds / N for seconds in best]
    ratio = ms[1] / ms[0]
    print(f"{name:12s} {surrogate:7s} shipped {ms[0]:.4f} ms, declared {ms[1]:.4f} ms an example: {ratio:.2f} x")


def readme() -> None:
    """README's example: 5 tags, at most two of them, 80 examples."""
    space = so.LabelSpace("at most two tags")
    tag = space.binary("tag", 5)
    space.subject_to(tag.sum() <= 2, tag[0] <= tag[1])
    model = so.Model(space, features={"tag": so.features.Linear()}, loss=so.losses.Hamming())
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(80, 4)), rng.normal(size=(5, 4))
    Y = np.array([label.z for label in model.oracle().maximize_batch(X @ W.T)])
    seconds = []
    for _ in range(3):
        start = time.process_time()
        svm = so.StructuredSVM(model, surrogate="slack", lam=0.01).fit(X, Y)
        seconds.append(time.process_time() - start)
    print(f"README's example: {min(seconds):.3f} s of CPU after compilation, {svm.result_!r}")


def main() -> None:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PAIRS)}, readme")
    wanted = parser.parse_args().names or [*PAIRS, "readme"]
    for name in wanted:
        if name == "readme":
            readme()
            continue
        for surrogate in ("margin", "slack"):
            compare(name, surrogate)


if __name__ == "__main__":
    main()

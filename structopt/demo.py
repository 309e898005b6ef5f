"""The demo of ``make demo``: declare a space, solve it with every solver, train with margin and slack rescaling.

Run it as ``python -m structopt.demo``. It prints tables and writes two pictures to ``demo-output/``.
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import structopt as so
from structopt.backends import available_profiles
from structopt.errors import SolverNotAvailable

__all__ = ["main"]

N_LABELS, N_FEATURES, N_TRAIN, N_TEST = 10, 20, 150, 400


def declare(n_labels: int = N_LABELS) -> so.LabelSpace:
    """Declare at most four of `n_labels` tags, with a variable for every pair of tags."""
    space = so.LabelSpace("at most four tags")
    tag = space.binary("tag", n_labels)
    i, j = np.triu_indices(n_labels, k=1)
    pair = space.continuous("pair", len(i), 0, 1)
    space.subject_to(pair <= tag[i], pair <= tag[j], pair >= tag[i] + tag[j] - 1)
    space.subject_to(tag.sum() <= 4, name="cardinality")
    return space


def declare_budget() -> so.LabelSpace:
    """Declare tags within a budget, a space small enough to print."""
    space = so.LabelSpace("tags within a budget")
    tag = space.binary("tag", 5)
    space.subject_to(np.array([3.0, 2.0, 2.0, 1.0, 4.0]) @ tag <= 6, name="budget")
    space.subject_to(tag[0] + tag[1] <= 1, name="exclusive")
    return space


def solve_with_every_backend(space: so.LabelSpace) -> None:
    """Solve one declaration with every installed solver and compare the values."""
    costs = np.random.default_rng(0).normal(size=(3, space.n_variables))
    values: dict[str, float] = {}
    for name in ("auto", *available_profiles()):
        try:
            oracle = so.Oracle(space, name)
        except SolverNotAvailable:
            print(f"  {name:12s} not installed")
            continue
        for c in costs:  # the first calls start the solver and compile kernels
            oracle.maximize(c)
        begun = perf_counter()
        values[name] = float(np.sum([oracle.maximize(c).value for c in costs]))
        milliseconds = 1000 * (perf_counter() - begun) / len(costs)
        print(f"  {name:12s} value {values[name]:10.6f} {milliseconds:9.2f} ms per call   {oracle.algorithm}")
    spread = max(values.values()) - min(values.values())
    print(f"  {len(values)} solvers, largest disagreement {spread:.1e}")
    if spread > 1e-5:
        raise SystemExit("The solvers disagree.")


def tags(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Return tags drawn from a pairwise model with noise."""
    rng = np.random.default_rng(seed)
    model = so.structures.PairwiseMRF(N_LABELS)
    pairs = rng.normal(scale=1.5, size=model.graph.n_edges)
    w = np.concatenate([rng.normal(size=N_LABELS * N_FEATURES) - 0.1, pairs])
    X = rng.normal(size=(N_TRAIN + N_TEST, N_FEATURES))
    batch = model.batch(X)
    tables = batch.tables(w)
    labels, _ = batch.argmax([tables[0] + 2.0 * rng.gumbel(size=tables[0].shape), tables[1]])
    Y = np.array(batch.decode(labels))
    return X[:N_TRAIN], Y[:N_TRAIN], X[N_TRAIN:], Y[N_TRAIN:]


def topics(seed: int = 1) -> tuple[so.Hierarchy, Any, Any, Any, Any]:
    """Return sets of leaves of a DAG, drawn from a linear model with noise."""
    edges = [("all", "science"), ("all", "arts"), ("science", "physics"), ("science", "biology"), ("arts", "music"),
             ("arts", "film"), ("physics", "acoustics"), ("music", "acoustics"), ("physics", "optics"),
             ("biology", "ecology"), ("film", "drama"), ("music", "opera"), ("drama", "opera")]  # fmt: skip
    hierarchy = so.Hierarchy(edges)
    rng = np.random.default_rng(seed)
    model = so.structures.HierarchicalLabels(hierarchy, "leaves")
    X = rng.normal(size=(N_TRAIN + N_TEST, N_FEATURES))
    batch = model.batch(X)
    w = rng.normal(size=batch.n_weights)
    tables = batch.tables(w)
    labels, _ = batch.argmax([tables[0] + rng.normal(scale=2.0, size=tables[0].shape)])
    Y = batch.decode(labels)
    return hierarchy, X[:N_TRAIN], Y[:N_TRAIN], X[N_TRAIN:], Y[N_TRAIN:]


def search_once() -> None:
    """Run one slack search per problem, which compiles and caches the kernels before training starts."""
    rng = np.random.default_rng(0)
    hierarchy, X, Y, _, _ = topics()
    risk = so.train.StructuredRisk(so.structures.HierarchicalLabels(hierarchy, "leaves"), X[:2], Y[:2], "slack")
    risk.cut(rng.normal(size=risk.n_features))
    X, Y, _, _ = tags()
    risk = so.train.StructuredRisk(so.structures.PairwiseMRF(N_LABELS), X[:2], Y[:2], "slack")
    risk.cut(rng.normal(size=risk.n_features))


def compare(name: str, model: so.Model, data: tuple[Any, Any, Any, Any]) -> dict[str, so.StructuredSVM]:
    """Train margin and slack rescaling on one problem and print a line for each."""
    X, Y, X_test, Y_test = data
    fitted = {}
    verbose = sys.stderr.isatty()  # a progress bar in a file would be control characters
    for surrogate in ("margin", "slack"):
        svm = so.StructuredSVM(model, surrogate, lam=0.01, verbose=verbose).fit(X, Y)
        predicted = svm.predict(X_test)
        exact = np.mean([np.array_equal(a, b) for a, b in zip(predicted, Y_test, strict=True)])
        result = svm.result_
        print(
            f"  {name:15s}  {surrogate:9s}  {1 - svm.score(X_test, Y_test):9.4f}  {exact:11.3f}  "
            f"{result.objective:9.4f}  {result.gap:7.1e}  {result.passes:6.0f}  {result.seconds:7.1f}"
        )
        fitted[surrogate] = svm
    return fitted


def draw(fitted: dict[str, so.StructuredSVM], data: tuple[Any, Any, Any, Any], folder: Path) -> None:
    """Draw the labels of one example with the search among them, and the gaps of both runs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, Y = data[0], data[1]
    pairs = zip(X[:40], Y[:40], strict=True)
    results = [so.search.exact(fitted["slack"].predict_plane(x, y), "slack", front=False) for x, y in pairs]
    # A search whose result is the true label, with value 0, shows little.
    axes: Any = so.plot.plane(max(results, key=lambda result: (result.value > 0.0, result.queries)))
    axes.set(title="labels of one example, and the search", xlabel="h: margin error", ylabel="g: task loss")
    axes.figure.savefig(folder / "plane.png", dpi=120)
    axes = so.plot.convergence({name: svm.result_ for name, svm in fitted.items()})
    axes.set_title("margin and slack rescaling, pairwise tags")
    axes.figure.savefig(folder / "convergence.png", dpi=120)
    plt.close("all")


def main() -> None:
    """Declare, solve, train, compare, draw."""
    # The first run on a machine compiles for half a minute. A second process compiles while the solvers run.
    multiprocessing.get_context("spawn").Process(target=search_once, daemon=True).start()
    print("1. Declare. A label space is a set of variables and constraints:\n")
    print(declare_budget().algebra())
    space = declare()
    print(f"\n2. Solve {space!r} with every solver")
    solve_with_every_backend(space)
    print("\n3. Train with margin and slack rescaling to a certified relative gap\n")
    print("  problem          surrogate  test loss  exact match  objective      gap  passes  seconds")
    data = tags()
    fitted = compare("pairwise tags", so.structures.PairwiseMRF(N_LABELS), data)
    hierarchy, *topic_data = topics()
    model = so.structures.HierarchicalLabels(hierarchy, "leaves")
    compare("topics in a DAG", model, (topic_data[0], topic_data[1], topic_data[2], topic_data[3]))
    folder = Path("demo-output")
    folder.mkdir(exist_ok=True)
    draw(fitted, data, folder)
    print("\n4. Pictures")
    print(f"  {folder / 'plane.png'}        labels of one example and the search for the most violated one")
    print(f"  {folder / 'convergence.png'}  certified gap of both runs")
    print("\nTry next:")
    print("  . .venv/bin/activate")
    print("  structopt inspect named_entities             # size and structure of a ready-made model")
    print("  structopt solve vertex_cover --solver cbc    # the best label of another model, found by CBC")


if __name__ == "__main__":
    main()

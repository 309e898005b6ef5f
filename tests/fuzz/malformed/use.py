"""Calls that look: metrics, data readers, pictures, conformance suites."""

from __future__ import annotations

from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, eighths, optional, positional, recipe
from .declare import tree

Rng = np.random.Generator


@recipe
def metrics(rng: Rng) -> Call:
    m = so.metrics
    h = tree()
    name = str(rng.choice(["accuracy", "jaccard", "label_loss", "macro_f1", "micro_f1"]))
    truth, guess = rng.integers(0, 2, (4, 3)), rng.integers(0, 2, (4, 3))
    arguments = {"y_true": A(truth, k.indicators), "y_pred": A(guess, k.indicators)}
    if rng.random() < 0.5:
        name = str(rng.choice([name, "hierarchical_f1", "hierarchical_loss"]))
        arguments = {
            "y_true": A(list("cdec"), k.classes),
            "y_pred": A(list("ccdd"), k.classes),
            "hierarchy": A(h, optional(k.thing)),
        }
    if name in ("jaccard", "label_loss", "micro_f1"):
        arguments["nodes"] = A("all", k.option)
    if name in ("macro_f1", "micro_f1", "hierarchical_f1"):
        arguments["zero_division"] = A(0.0, k.real)
    if name == "macro_f1":
        arguments["over"] = A("labels", k.option)
    return Call(getattr(m, name), arguments)


@recipe
def readers(rng: Rng) -> Call:
    d = so.data
    name = str(rng.choice(["read", "read_arff", "read_conll", "read_csv", "read_npz", "read_svmlight"]))
    return Call(positional(getattr(d, name), "path"), {"path": A("/nonexistent.csv", k.path)}, tolerance=None)


def _columns(rng: Rng, value: int) -> k.Choice:
    """How many columns are labels, or their names, of which there may be none."""
    word, found, verdict = k.count(rng, value, optional=True)
    return word, found, "odd" if word in ("empty array", "negative") else verdict


@recipe
def reader_options(rng: Rng) -> Call:
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp(dir="."))
    which = int(rng.integers(4))
    if which == 0:
        (folder / "a.csv").write_text("a,b,c\n1,2,0\n3,4,1\n", encoding="utf-8")
        return Call(
            lambda **v: so.data.read_csv(folder / "a.csv", **v).X,
            {"labels": A(1, _columns), "delimiter": A(",", optional(k.option))},
            tolerance=None,
        )
    if which == 1:
        (folder / "a.arff").write_text(
            "@relation r\n@attribute a numeric\n@attribute l {0,1}\n@data\n1.5,0\n2,1\n", encoding="utf-8"
        )
        return Call(
            lambda **v: so.data.read_arff(folder / "a.arff", **v).X,
            {"labels": A(1, _columns), "ignore": A(["a"], k.loose(k.names))},
            tolerance=None,
        )
    if which == 2:
        (folder / "a.txt").write_text("a X\nb Y\n\nc X\n", encoding="utf-8")
        return Call(
            lambda **v: len(so.data.read_conll(folder / "a.txt", **v).X),
            {
                "labels": A(1, optional(k.count)),
                "n_features": A(64, k.count),
                "features": A(lambda words, t: [words[t]], optional(k.function)),
            },
            tolerance=None,
        )
    (folder / "a.svm").write_text("0 1:1 2:0.5\n1 2:1\n", encoding="utf-8")
    return Call(
        lambda **v: so.data.read_svmlight(folder / "a.svm", **v).X,
        {"n_features": A(3, optional(k.count)), "labels": A(["0", "1"], k.loose(k.names))},
        tolerance=None,
    )


@recipe
def synthetic(rng: Rng) -> Call:
    if rng.random() < 0.5:
        return Call(
            lambda **v: so.data.synthetic_flow(**v).X,
            {
                "network": A("paper", k.option),
                "n_samples": A(5, k.count),
                "n_features": A(3, k.count),
                "noise": A(1.0, k.real),
                "temperature": A(0.5, k.real),
                "effect": A(2.0, k.real),
                "random_state": A(0, k.seed),
            },
            tolerance=None,
        )
    return Call(
        lambda **v: so.data.synthetic_hierarchy(**v).X,
        {
            "kind": A("balanced", k.option),
            "n_samples": A(5, optional(k.count)),
            "n_features": A(40, optional(k.count)),
            "depth": A(2, optional(k.count)),
            "random_state": A(0, k.seed),
        },
        tolerance=None,
    )


@recipe
def other_data(rng: Rng) -> Call:
    if rng.random() < 0.5:
        return Call(
            lambda words, t: len(so.data.token_features(words, t)),
            {"words": A(["a", "b"], k.loose(k.names)), "t": A(1, k.count)},
            tolerance=None,
        )
    return Call(so.data.load_benchmark, {"name": A("yeast", k.option), "split": A("train", k.option)}, tolerance=None)


@recipe
def pictures(rng: Rng) -> Call:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    plane = so.PointPlane(eighths(rng, 5, 2) + np.array([0, 4]))
    result = so.search.exact(plane, "slack")
    which = int(rng.integers(5))

    def drawn(function: Any) -> Any:
        def draw(**v: Any) -> None:
            try:
                function(**v)
            finally:
                pyplot.close("all")

        return draw

    if which == 0:
        p = np.full((3, 2), 0.5)
        return Call(
            drawn(so.plot.marginals),
            {
                "probabilities": A(p, k.array),
                "states": A(["a", "b"], optional(k.names)),
                "tokens": A(["x", "y", "z"], k.loose(k.names)),
                "truth": A(["a", "b", "a"], None),
            },
            tolerance=None,
        )
    if which == 1:
        return Call(
            drawn(so.plot.plane),
            {
                "result": A(result, k.thing),
                "labels": A(eighths(rng, 4, 2), k.loose(k.array)),
                "step": A(1, optional(k.count)),
                "ax": A(None, optional(k.thing)),
            },
            tolerance=None,
        )
    if which == 2:
        return Call(
            drawn(so.plot.surrogates),
            {"losses": A([1.0, 4.0], k.sequence), "margin": A((-5.0, 3.0), k.array)},
            tolerance=None,
        )
    if which == 3:
        X = eighths(rng, 6, 2)
        trained = so.train.bmrm(so.risks.Hinge(X, np.array([1.0, -1, 1, -1, 1, 1])), lam=0.5, tol=0.5, max_passes=3)
        return Call(
            drawn(so.plot.convergence), {"results": A(trained, k.thing), "x": A("passes", k.option)}, tolerance=None
        )
    return Call(drawn(so.plot.hierarchy), {"est": A(None, k.thing), "most": A(3, k.count)}, tolerance=None)


@recipe
def suites(rng: Rng) -> Call:
    m = so.structures.Multiclass(3)
    return Call(
        lambda **v: so.testing.check_model(**v) and None,
        {
            "model": A(m, k.thing),
            "X": A(eighths(rng, 4, 2), k.rows),
            "y": A(np.array([0, 1, 2, 0]), k.classes),
            "trials": A(1, k.count),
            "random_state": A(0, k.seed),
        },
        tolerance=None,
    )

"""Calls that look: metrics, data readers, pictures, conformance suites."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, call, eighths, exact, maybe, one_of, positional, recipe
from .declare import tree

Rng = np.random.Generator


@recipe
def metrics(rng: Rng) -> Call:
    name = str(rng.choice(["accuracy", "jaccard", "label_loss", "macro_f1", "micro_f1"]))
    truth, guess = rng.integers(0, 2, (4, 3)), rng.integers(0, 2, (4, 3))
    arguments: dict[str, Any] = {"y_true": A(truth, k.indicators), "y_pred": A(guess, k.indicators)}
    if rng.random() < 0.5:
        name = str(rng.choice([name, "hierarchical_f1", "hierarchical_loss"]))
        arguments = {"y_true": A(list("cdec"), k.classes), "y_pred": A(list("ccdd"), k.classes)}
        arguments["hierarchy"] = maybe(tree())
    if name in ("jaccard", "label_loss", "micro_f1"):
        arguments["nodes"] = "all"
    if name in ("macro_f1", "micro_f1", "hierarchical_f1"):
        arguments["zero_division"] = 0.0
    if name == "macro_f1":
        arguments["over"] = "labels"
    return exact(getattr(so.metrics, name), **arguments)


@recipe
def readers(rng: Rng) -> Call:
    name = str(rng.choice(["read", "read_arff", "read_conll", "read_csv", "read_npz", "read_svmlight"]))
    return call(positional(getattr(so.data, name), "path"), path="/nonexistent.csv")


def _columns(rng: Rng, value: int) -> k.Choice:
    """How many columns are labels, or their names, of which there may be none."""
    word, found, verdict = k.count(rng, value, optional=True)
    return word, found, "odd" if word in ("empty array", "negative") else verdict


@recipe
def reader_options(rng: Rng) -> Call:
    d, folder, names = so.data, Path(tempfile.mkdtemp(dir=".")), k.loose(k.names)
    texts = {
        "csv": "a,b,c\n1,2,0\n3,4,1\n", "txt": "a X\nb Y\n\nc X\n", "svm": "0 1:1 2:0.5\n1 2:1\n",
        "arff": "@relation r\n@attribute a numeric\n@attribute l {0,1}\n@data\n1.5,0\n2,1\n",
    }  # fmt: skip
    for suffix, text in texts.items():
        (folder / f"a.{suffix}").write_text(text, encoding="utf-8")
    words = {"n_features": 64, "features": maybe(lambda words, t: [words[t]])}
    svm = {"n_features": maybe(3), "labels": A(["0", "1"], names)}
    calls = [
        call(lambda **v: d.read_csv(folder / "a.csv", **v).X, labels=A(1, _columns), delimiter=maybe(",")),
        call(lambda **v: d.read_arff(folder / "a.arff", **v).X, labels=A(1, _columns), ignore=A(["a"], names)),
        call(lambda **v: len(d.read_conll(folder / "a.txt", **v).X), labels=maybe(1), **words),
        call(lambda **v: d.read_svmlight(folder / "a.svm", **v).X, **svm),
    ]
    return one_of(rng, calls)


@recipe
def synthetic(rng: Rng) -> Call:
    d = so.data
    flow = {"network": "paper", "n_samples": 5, "n_features": 3, "noise": 1.0, "temperature": 0.5, "effect": 2.0}
    sizes = {"n_samples": maybe(5), "n_features": maybe(40), "depth": maybe(2)}
    calls = [
        call(lambda **v: d.synthetic_flow(**v).X, random_state=0, **flow),
        call(lambda **v: d.synthetic_hierarchy(**v).X, random_state=0, kind="balanced", **sizes),
    ]
    return one_of(rng, calls)


@recipe
def other_data(rng: Rng) -> Call:
    words = A(["a", "b"], k.loose(k.names))
    calls = [
        call(lambda words, t: len(so.data.token_features(words, t)), words=words, t=1),
        call(so.data.load_benchmark, name="yeast", split="train"),
    ]
    return one_of(rng, calls)


@recipe
def pictures(rng: Rng) -> Call:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    plane, X = so.PointPlane(eighths(rng, 5, 2) + np.array([0, 4])), eighths(rng, 6, 2)
    trained = so.train.bmrm(so.risks.Hinge(X, np.array([1.0, -1, 1, -1, 1, 1])), lam=0.5, tol=0.5, max_passes=3)

    def drawn(function: Any) -> Any:
        def draw(**v: Any) -> None:
            try:
                function(**v)
            finally:
                pyplot.close("all")

        return draw

    names = {"states": maybe(["a", "b"], k.names), "tokens": A([*"xyz"], k.loose(k.names)), "truth": A([*"aba"])}
    seen = {"labels": A(eighths(rng, 4, 2), k.loose(k.array)), "step": maybe(1), "ax": maybe(None)}
    curves = {"losses": A([1.0, 4.0], k.sequence), "margin": A((-5.0, 3.0), k.array)}
    calls = [
        call(drawn(so.plot.marginals), probabilities=np.full((3, 2), 0.5), **names),
        call(drawn(so.plot.plane), result=so.search.exact(plane, "slack"), **seen),
        call(drawn(so.plot.surrogates), **curves),
        call(drawn(so.plot.convergence), results=trained, x="passes"),
        call(drawn(so.plot.hierarchy), est=None, most=3),
    ]
    return one_of(rng, calls)


@recipe
def suites(rng: Rng) -> Call:
    check = lambda **v: so.testing.check_model(**v) and None  # noqa: E731
    data = {"X": eighths(rng, 4, 2), "y": A(np.array([0, 1, 2, 0]), k.classes)}
    return call(check, model=so.structures.Multiclass(3), **data, trials=1, random_state=0)

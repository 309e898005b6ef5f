"""Pictures of the documentation: `python docs/picture.py` writes them to docs/_static.

`overview.png` shows the labels of one example with the search among them, and the certified gaps of two training runs.
`search.gif` animates an angular search. `tutorial_plane.png` is the search of the tutorial.
"""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

import structopt as so

TARGET = Path(__file__).parent / "_static"


def main() -> None:
    space = so.LabelSpace("tags within a budget")
    tag = space.binary("tag", 8)
    space.subject_to(np.array([3.0, 2, 2, 1, 4, 2, 3, 1]) @ tag <= 9, tag[0] + tag[1] <= 1)
    model = so.Model(space, features={"tag": so.features.Linear()}, loss=so.losses.Hamming())
    rng = np.random.default_rng(3)
    X, W = rng.normal(size=(120, 5)), rng.normal(size=(8, 5))
    scores = X @ W.T + rng.normal(size=(120, 8))
    Y = np.array([label.z for label in model.oracle().maximize_batch(scores)])
    runs = {name: so.StructuredSVM(model, name, lam=0.01).fit(X, Y) for name in ("margin", "slack")}

    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    planes = [runs["slack"].predict_plane(x, y) for x, y in zip(X[:40], Y[:40], strict=True)]
    results = [so.search.exact(plane, "slack", front=False) for plane in planes]
    most = int(np.argmax([result.queries for result in results]))
    labels = [(point.h, point.g) for point in (planes[most].evaluate(z) for z in space.enumerate())]
    so.plot.plane(results[most], labels=labels, ax=left)
    left.set_title("the labels of one example, and the most violated one", fontsize=10)
    left.set_xlabel("h: how far the label outscores the truth")
    left.set_ylabel("g: its loss")
    so.plot.convergence({f"{name} rescaling": svm.result_ for name, svm in runs.items()}, ax=right)
    right.set_title("training, to a certified gap", fontsize=10)
    right.spines[["top", "right"]].set_visible(False)
    fig.savefig(TARGET / "overview.png", dpi=110)

    points = np.random.default_rng(5).uniform(0.5, 8.0, size=(60, 2))
    points = points[points.sum(axis=1) < 9.0]
    search = so.search.angular(so.PointPlane(points), lam=4.0)
    so.plot.animate(search).save(TARGET / "search.gif", writer="pillow", dpi=70)
    tutorial()


def tutorial() -> None:
    """Draw the plane of the tutorial by running its code."""
    blocks = doctest.DocTestParser().get_examples((TARGET.parent / "tutorial.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block.source, "tutorial.md", "single"), names)
        if "result" in names:
            break
    labels = [(point.h, point.g) for point in map(names["plane"].evaluate, names["space"].enumerate())]
    figure, axes = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
    so.plot.plane(names["result"], labels=labels, ax=axes)
    axes.set_xlabel("h: margin error")
    axes.set_ylabel("g: task loss")
    figure.savefig(TARGET / "tutorial_plane.png", dpi=150)


if __name__ == "__main__":
    main()

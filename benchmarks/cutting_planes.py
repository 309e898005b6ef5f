"""Cutting planes of slack rescaling over pairwise models: the searches in a run, curves of training, its program.

    python benchmarks/cutting_planes.py searches [--yeast 30] [--rcv1 6] [--enron 4] [--passes 40]
    python benchmarks/cutting_planes.py curves [--yeast 30] [--enron 4] [--passes 40]     thesis Figures 4-7 to 4-17
    python benchmarks/cutting_planes.py programs [--passes 40]      thesis Figure 4-16
    python benchmarks/cutting_planes.py snapshot                    thesis Figure 4-1
    python benchmarks/cutting_planes.py lemma13                     thesis Figure 5-2

``searches``: thesis Tables 4.1 and 5.1. A cutting-plane run (n-slack, slack rescaling over the pairwise LP relaxation)
in which every search looks for the most violated label of every example at the same weights. The label that angular
search found is added to the working set where it exceeds the example's slack by `EPSILON`, and the quadratic program is
solved anew; the run ends with a pass that adds none. "success" is the share of searches that found such a label,
"failed" the share in which another search found a product larger by 0.1%. Angular search has the labels found before as
its cache, and makes free queries along the hull first; beside it stand the same without the cache, Algorithm 2 alone
from λ = H/G ("angles only"), and Algorithm 2 alone from the λ at which the last search of the example ended. The convex
hull search has that cache, too, and stops at 0.999, as angular search does; or neither.
``curves``: cutting planes by three searches, BCFW and SGD from the same start.

CPU seconds of the process, one BLAS thread. Data beside the checkout, or in STRUCTOPT_DATA.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _data import DATA, load, unit_rows
from _results import keep, shown

import structopt as so
from structopt import search
from structopt.plane import PointPlane
from structopt.surrogates import Product
from structopt.train import SimplexQP

EPSILON = 0.1  # by how much a label must exceed the slack to be added, in units of the loss


# ---- thesis Tables 4.1 and 5.1 ---------------------------------------------------------------------


class PairwiseRun:
    """Cutting planes of slack rescaling over the pairwise relaxation: one working set an example (n-slack)."""

    def __init__(self, X: Any, Y: Any, lam: float) -> None:
        self.n, self.labels = Y.shape
        self.X = np.hstack([X, np.ones((self.n, 1))])
        self.i, self.j = np.triu_indices(self.labels, 1)
        self.truth = np.hstack([Y, Y[:, self.i] * Y[:, self.j]]).astype(float)
        space = so.LabelSpace("pairwise")
        y = space.binary("y", self.labels)
        p = space.continuous("pair", len(self.i), 0, 1)
        space.subject_to(p <= y[self.i], p <= y[self.j], p >= y[self.i] + y[self.j] - 1)
        self.oracle = so.Oracle(space, solver="highs", integral="relax")
        self.lam, self.width = lam, self.labels * self.X.shape[1]
        self.w = np.zeros(self.width + len(self.i))
        self.qp = SimplexQP(lam, np.full(self.n, 1.0 / self.n), zero_plane=True)
        self.rows = np.empty((0, self.w.size))
        self.known: list[list[np.ndarray]] = [[] for _ in range(self.n)]

    def plane(self, k: int) -> Any:
        """The (h, g) plane of an example, h = 1 + margin and g = Hamming loss."""
        unary = self.w[: self.width].reshape(self.labels, -1) @ self.X[k]
        y = self.truth[k, : self.labels]
        loss = np.concatenate([1.0 - 2.0 * y, np.zeros(len(self.i))]), float(y.sum())
        return Product().plane(self.oracle, np.concatenate([unary, self.w[self.width :]]), loss, self.truth[k])

    def slack(self, k: int) -> float:
        own = self.qp.block == k
        return float(max(0.0, (self.rows[own] @ self.w + self.qp.b[own]).max(initial=0.0)))

    def add(self, k: int, z: np.ndarray) -> None:
        """A label joins the working set of its example."""
        row, loss = self.gradient(k, z)
        self.rows = np.vstack([self.rows, row])
        self.known[k].append(z)
        self.qp.add(self.rows @ row, loss, k)

    def solve(self) -> None:
        self.qp.solve(1e-4)
        self.w = -(self.qp.alpha @ self.rows) / self.lam

    def gradient(self, k: int, z: np.ndarray) -> tuple[np.ndarray, float]:
        """The cut of a label: ``row @ w + loss`` is its ``loss * (1 + margin)``."""
        change, y = z - self.truth[k], self.truth[k, : self.labels]
        loss = float(np.abs(z[: self.labels] - y).sum())
        unary = np.outer(change[: self.labels], self.X[k]).ravel()
        return loss * np.concatenate([unary, change[self.labels :]]), loss

    def objective(self) -> float:
        """At the current weights, by an exact search of every example."""
        values = [search.exact(self.plane(k), Product(), rtol=1e-3).value for k in range(self.n)]
        return 0.5 * self.lam * float(self.w @ self.w) + float(np.mean(values))

    def accuracy(self, X: Any, Y: Any) -> float:
        """Mean overlap of rounded predictions with the labels."""
        from sklearn.metrics import jaccard_score

        unary = np.hstack([X, np.ones((len(X), 1))]) @ self.w[: self.width].reshape(self.labels, -1).T
        pairs = self.w[self.width :]
        Z = np.array([self.oracle.maximize(np.concatenate([row, pairs])).z for row in unary])
        return float(jaccard_score(Y, Z[:, : self.labels] > 0.5, average="samples", zero_division=0))


def pairwise_data(name: str, examples: int) -> tuple[Any, Any]:
    if name == "Yeast":
        X, Y = load("yeast", "train")
        return unit_rows(X).toarray()[:examples], Y[:examples]
    if name == "Enron, 53 labels":
        X, Y = load("enron_flat", "train")
        return unit_rows(X).toarray()[:examples], Y[:examples]
    X, Y = load("rcv1_topics", "train")
    frequent = np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:30])
    return unit_rows(X).toarray()[:examples], Y[:examples][:, frequent]


#: Name -> a search of a plane, given the slack of the example, its working set and the last λ of its last search.
SEARCHES: dict[str, Callable[[Any, float, Any, float | None], Any]] = {
    "sarawagi": lambda plane, xi, known, _: search.sarawagi(plane, xi),
    "bisecting": lambda plane, xi, known, _: search.bisecting(plane, rtol=1e-3, width=1e-3),
    "angular": lambda plane, xi, known, _: search.angular(plane, rtol=1e-3, cache=known),
    "angular, no cache": lambda plane, xi, known, _: search.angular(plane, rtol=1e-3),
    "angular, angles only": lambda plane, xi, known, _: search.angular(plane, rtol=1e-3, cache=known, angles_only=True),
    "angular, angles only, last λ": lambda plane, xi, known, lam: search.angular(
        plane, lam, rtol=1e-3, cache=known, angles_only=True
    ),
    "convex_hull": lambda plane, xi, known, _: search.convex_hull(plane, Product(), rtol=1e-3, cache=known),
    "convex_hull, no cache, to a proof": lambda plane, xi, known, _: search.convex_hull(plane, Product()),
}


def cutting_plane_run(name: str, examples: int, passes: int) -> list[Any]:
    """Every search on every example in every pass; angular search's labels are added, and the weights follow."""
    X, Y = pairwise_data(name, examples)
    run = PairwiseRun(X, Y, lam=1.0)
    # Angles alone take seconds a search where a query of the relaxation takes long.
    tried = {method: look for method, look in SEARCHES.items() if name == "Yeast" or "only" not in method}
    seen: dict[str, list[tuple[float, float, float, float]]] = {method: [] for method in tried}
    lams: list[float | None] = [None] * run.n
    ended = False
    for turn in range(passes):
        added = 0
        for k in range(run.n):
            slack, chosen = run.slack(k), None
            for method, look in tried.items():
                begun = process_time()
                found = look(run.plane(k), max(slack, 1e-6), run.known[k], lams[k])
                seen[method].append((found.queries, process_time() - begun, found.value, slack))
                if method == "angular":
                    chosen = found
            assert chosen is not None
            lams[k] = chosen.lam if 0.0 < chosen.lam < np.inf else None
            if chosen.value > slack + EPSILON:
                run.add(k, np.asarray(chosen.label))
                run.solve()
                added += 1
        print(f"{name}, pass {turn + 1}: {added} labels added", flush=True)
        if ended := not added:
            break
    table = {method: np.array(entries) for method, entries in seen.items()}
    best = np.max([entries[:, 2] for entries in table.values()], axis=0)
    rows = []
    for method, entries in table.items():
        queries, seconds, value, slack = entries.T
        row = {
            "set": name,
            "search": method,
            "queries": float(queries.mean()),
            "success, %": 100 * float((value > slack + EPSILON).mean()),
            "failed": float((value < best * (1 - 1e-3) - 1e-9).mean()),
            "ms": 1e3 * float(seconds.mean()),
            "searches": len(value),
            "passes": turn + 1,
            "to the end": ended,
        }
        rows.append(shown(row))
    return rows


def searches(yeast_examples: int, rcv1_examples: int, enron_examples: int, passes: int) -> None:
    rows = cutting_plane_run("Yeast", yeast_examples, passes)
    rows += cutting_plane_run("RCV1, 30 labels", rcv1_examples, passes)
    rows += cutting_plane_run("Enron, 53 labels", enron_examples, passes)
    words = ["--yeast", str(yeast_examples), "--rcv1", str(rcv1_examples), "--enron", str(enron_examples)]
    keep(
        "cutting_planes.searches",
        rows,
        title="Searches in a cutting-plane run of slack rescaling",
        measures=["structopt/search", "structopt/plane"],
        words=["searches", *words, "--passes", str(passes)],
        note=f"{yeast_examples} examples of Yeast, {rcv1_examples} of rcv1_topics, {enron_examples} of Enron, at most "
        f"{passes} passes, lam 1, ε {EPSILON:g}, LP relaxation by HiGHS. The papers have 160 and 80 examples and print "
        "neither lam nor ε.",
    )


# ---- thesis Figures 4-7 to 4-17, 4-1 and 5-2 -------------------------------------------------------


def cutting_planes(run: PairwiseRun, look: Callable[[Any, float, Any, float | None], Any]) -> int:
    """A pass of n-slack cutting planes; returns the queries."""
    queries, found = 0, []
    for k in range(run.n):
        slack = run.slack(k)
        best = look(run.plane(k), max(slack, 1e-6), run.known[k], None)
        queries += best.queries
        if best.value > slack + EPSILON:
            found.append((k, np.asarray(best.label)))
    for k, z in found:
        run.add(k, z)
    if found:
        run.solve()
    return queries


def descent(run: PairwiseRun, order: np.ndarray, state: dict[str, Any]) -> int:
    """A pass of stochastic subgradients with angular search; ``run.w`` becomes the weighted mean of the steps."""
    w = state.setdefault("w", np.zeros_like(run.w))
    queries = 0
    for k in order:
        state["t"] = t = state.get("t", 0) + 1
        run.w = w
        found = search.angular(run.plane(k), rtol=1e-3)
        queries += found.queries
        w = (1.0 - 1.0 / t) * w
        if found.value > 0.0:
            w = w - run.gradient(k, np.asarray(found.label))[0] / (run.lam * t)
        state["mean"] = state.get("mean", 0.0 * w) * (1.0 - 2.0 / (t + 1)) + w * (2.0 / (t + 1))
    state["w"], run.w = w, state["mean"]
    return queries


def frank_wolfe(run: PairwiseRun, order: np.ndarray, state: dict[str, Any]) -> int:
    """A pass of block-coordinate Frank-Wolfe with angular search."""
    own = state.setdefault("own", np.zeros((run.n, run.w.size)))
    height = state.setdefault("height", np.zeros(run.n))
    queries = 0
    for k in order:
        found = search.angular(run.plane(k), rtol=1e-3)
        queries += found.queries
        row, loss = run.gradient(k, np.asarray(found.label)) if found.value > 0.0 else (0.0 * run.w, 0.0)
        target, top = -row / (run.lam * run.n), loss / run.n
        step = own[k] - target
        gap = run.lam * float(step @ run.w) - height[k] + top
        gamma = np.clip(gap / max(run.lam * float(step @ step), 1e-12), 0.0, 1.0)
        run.w = run.w - gamma * step
        own[k] -= gamma * step
        height[k] += gamma * (top - height[k])
    return queries


def curves(yeast_examples: int, enron_examples: int, passes: int) -> None:
    rows: list[Any] = []
    for name, examples in (("Yeast", yeast_examples), ("Enron, 53 labels", enron_examples)):
        X, Y = pairwise_data(name, examples + 100)
        (X, A), (Y, B) = ((part[:examples], part[examples:]) for part in (X, Y))
        for method in ("CP, Sarawagi", "CP, bisecting", "CP, angular", "BCFW", "SGD"):
            run, state, rng = PairwiseRun(X, Y, lam=0.1), dict[str, Any](), np.random.default_rng(0)
            queries, seconds = 0, 0.0
            for turn in range(1, passes + 1):
                begun = process_time()
                if method.startswith("CP"):
                    queries += cutting_planes(run, SEARCHES[method[4:].lower()])
                else:
                    step = frank_wolfe if method == "BCFW" else descent
                    queries += step(run, rng.permutation(run.n), state)
                seconds += process_time() - begun
                row = {"set": name, "method": method, "pass": turn, "queries": queries, "CPU s": seconds}
                rows.append(row | {"objective": run.objective(), "accuracy": run.accuracy(A, B)})
            shown(rows[-1])
    keep(
        "cutting_planes.curves",
        rows,
        title="Objective and accuracy of slack rescaling by search and trainer",
        measures=["structopt/search", "structopt/plane"],
        words=["curves", "--yeast", str(yeast_examples), "--enron", str(enron_examples), "--passes", str(passes)],
        note=f"{yeast_examples} examples of Yeast and {enron_examples} of Enron, lam 0.1, {passes} passes, LP "
        "relaxation by HiGHS; the accuracy is the mean overlap on 100 other examples. Objectives are evaluated by an "
        "exact search whose time is not counted.",
    )


def programs(passes: int) -> None:
    """Figure 4-16: the share of the quadratic program, by the number of examples."""
    rows = []
    for examples in (10, 20, 40, 80):
        run = PairwiseRun(*pairwise_data("Yeast", examples), lam=1.0)
        looking = solving = 0.0
        turns = 0
        while turns < passes:
            turns += 1
            begun, found = process_time(), []
            for k in range(run.n):
                best = search.angular(run.plane(k), rtol=1e-3)
                if best.value > run.slack(k) + EPSILON:
                    found.append((k, np.asarray(best.label)))
            middle = process_time()
            for k, z in found:
                run.add(k, z)
            if not found:
                break
            run.solve()
            looking, solving = looking + middle - begun, solving + process_time() - middle
        row = {"set": "Yeast", "examples": examples, "QP, CPU s": solving, "searches, CPU s": looking}
        rows.append(shown(row | {"labels": len(run.rows), "passes": turns, "to the end": not found}))
    keep(
        "cutting_planes.programs",
        rows,
        title="Time in the quadratic program of cutting planes",
        measures=["structopt/train/bundle.py", "structopt/search"],
        words=["programs", "--passes", str(passes)],
        note=f"lam 1, until no label exceeds its slack by {EPSILON:g}; Gram matrix included.",
    )


def snapshot() -> None:
    """Figure 4-1: the labels of one example in the plane, at the weights of a cutting-plane run."""
    run = PairwiseRun(*pairwise_data("Yeast", 30), lam=1.0)
    for _ in range(5):
        cutting_planes(run, SEARCHES["angular"])
    k, m = 1, run.labels
    Z = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
    full = np.hstack([Z, Z[:, run.i] * Z[:, run.j]])
    score = np.concatenate([run.w[: run.width].reshape(m, -1) @ run.X[k], run.w[run.width :]])
    h, g = 1.0 + (full - run.truth[k]) @ score, np.abs(Z - run.truth[k, :m]).sum(axis=1)
    rows: list[Any] = []
    for loss in np.unique(g):
        own = np.sort(h[g == loss])
        for value in own[np.unique(np.linspace(0, len(own) - 1, 40).astype(int))]:
            rows.append({"labels": "labels", "loss": float(loss), "1 + margin": float(value)})
    found = search.convex_hull(run.plane(k), Product())
    for step in found.trace:
        if step.point is not None:
            rows.append({"labels": "found by queries", "loss": float(step.point.g), "1 + margin": float(step.point.h)})
    assert found.point is not None
    best = {"labels": "largest product", "loss": float(found.point.g), "1 + margin": float(found.point.h)}
    rows.append(shown(best))
    keep(
        "cutting_planes.snapshot",
        rows,
        title="The labels of one example in the plane",
        measures=["structopt/search", "structopt/plane"],
        words=["snapshot"],
        note="Of the 16,384 labels of one example of Yeast at most 40 for each loss, evenly by margin, the lowest "
        "and highest among them; after five passes of cutting planes on 30 examples. The largest product may be a "
        "mixture.",
    )


def three_labels() -> None:
    """Figure 5-2, Lemma 13: A = (2, 4), B = (4, 2) and C = (3 + e, 3), which only λ near 1 shows."""
    rows = []
    for e in (1e-1, 1e-3, 1e-5):
        found = {
            "bisecting": search.bisecting(PointPlane([(2, 4), (4, 2), (3 + e, 3)]), lam=0.3),
            "sarawagi": search.sarawagi(PointPlane([(2, 4), (4, 2), (3 + e, 3)]), 1.0),
            "convex_hull": search.convex_hull(PointPlane([(2, 4), (4, 2), (3 + e, 3)]), Product(), lam=0.3),
        }
        for method, result in found.items():
            seen = next((q for q, step in enumerate(result.trace, 1) if step.incumbent > 8.5), None)
            row = {"e": e, "search": method, "queries": result.queries, "found by query": seen}
            rows.append(shown(row | {"product": float(result.value), "best": 3.0 * (3.0 + e)}))
    keep(
        "cutting_planes.lemma13",
        rows,
        title="Three labels of which one is seen at λ = 1 only",
        measures=["structopt/search"],
        words=["lemma13"],
        note="Explicit points; searches begin at λ = 0.3.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs: dict[str, Callable[[], None]] = {
        "searches": lambda: searches(options.yeast, options.rcv1, options.enron, options.passes),
        "curves": lambda: curves(options.yeast, options.enron, options.passes),
        "programs": lambda: programs(options.passes),
        "snapshot": snapshot,
        "lemma13": three_labels,
    }
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(jobs)}; all by default")
    parser.add_argument("--yeast", type=int, default=30)
    parser.add_argument("--rcv1", type=int, default=6)
    parser.add_argument("--enron", type=int, default=4)
    parser.add_argument("--passes", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.parts or jobs:
        if name not in jobs:
            parser.error(f"unknown part {name!r}; choose from {', '.join(jobs)}")
        if name != "lemma13" and not DATA.exists():
            print(f"{name}: skipped, the data sets are not beside the checkout (set STRUCTOPT_DATA)")
            continue
        jobs[name]()


if __name__ == "__main__":
    main()

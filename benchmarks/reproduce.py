"""Tables and figures of the papers that no other benchmark has: searches, bundle methods, norms, trees of labels.

    python benchmarks/reproduce.py                                  all but trees and accuracy, not run yet
    python benchmarks/reproduce.py searches [--yeast 80] [--rcv1 20] [--passes 4]
    python benchmarks/reproduce.py yeast                            thesis Table 4.2: what MiF1 on Yeast depends on
    python benchmarks/reproduce.py trees [--examples 1000]          thesis Table 4.3 on the trees of labels at hand
    python benchmarks/reproduce.py bundles [--examples 10000]       BMRM Figures 5 and 8
    python benchmarks/reproduce.py accuracy                         BMRM Figure 7 and Table 2
    python benchmarks/reproduce.py norms                            thesis Table 6.1

``searches``: thesis Tables 4.1 and 5.1. A cutting-plane run (n-slack, slack rescaling over the pairwise LP relaxation)
in which every search looks for the most violated label of every example at the same weights, and the label that angular
search found is added to the working set where it exceeds the example's slack by `EPSILON`. "success" is the share of
searches that found such a label, "failed" the share in which another search found a product larger by 0.1%.

``yeast``: the model of Table 4.2 for values of lam below the three that its reproduction tries, with features as in the
file and standardised. ``trees``: margin and slack rescaling of sets of nodes of a tree, lam by the MiF1 of held-out
examples; the paper's 1500 pages of Wikipedia are not at hand.

``bundles``: Figure 8, passes until the objective is within 1% of the optimum (17) by BMRM (Algorithm 2), with a line
search (Algorithm 3) and by the trust-region bundle method; Figure 5, the gap by pass for at most 2, 10, 50 and all
cuts at lam = 1e-4. Hinge loss. adult9 as a sub-sample by default (``--examples 0``: all), rcv1 as the slice at hand.

``accuracy``: adult9, 60% for training, 20% for the choice of lam, 20% for testing. "effective gap" is the largest gap
below which the test accuracy stays within 0.1% of the final one; "gap for 10 %" the largest gap at which the accuracy
that a tenth of the examples leads to is reached. Algorithm 2 to a gap of 1e-4, accuracy of the best point so far.

``norms``: the four situations of Table 6.1 with made-up vectors, the shared norms by the package's own optimisation,
beside the formulas of the table.

CPU seconds of the process, one BLAS thread. Data beside the checkout, or in STRUCTOPT_DATA.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

import structopt as so
from structopt import norms, search
from structopt.risks import Hinge
from structopt.surrogates import Product
from structopt.train import SimplexQP, StructuredRisk, block_ascent, bmrm, trust_region_bundle

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
EPSILON = 0.01  # by how much a label must exceed the slack to be added, in units of the loss


def load(name: str, split: str) -> tuple[sp.csr_matrix, Any]:
    """Features, and labels as 0/1 rows or classes."""
    with np.load(DATA / name / f"{split}.npz") as file:
        arrays = tuple(file[f"X_{key}"] for key in ("data", "indices", "indptr"))
        X = sp.csr_matrix(arrays, shape=tuple(file["X_shape"])).astype(np.float64)
        return X, np.asarray(file["Y"] if "Y" in file else file["y"])


def unit_rows(X: Any) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(X)


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
        """The plane ``loss * (1 + margin)`` of a label as a function of w."""
        change = z - self.truth[k]
        y = self.truth[k, : self.labels]
        loss = float(np.abs(z[: self.labels] - y).sum())
        row = loss * np.concatenate([np.outer(change[: self.labels], self.X[k]).ravel(), change[self.labels :]])
        self.rows = np.vstack([self.rows, row])
        self.qp.add(self.rows @ row, loss, k)

    def solve(self) -> None:
        self.qp.solve(1e-4)
        self.w = -(self.qp.alpha @ self.rows) / self.lam


def pairwise_data(name: str, examples: int) -> tuple[Any, Any]:
    if name == "Yeast":
        X, Y = load("yeast", "train")
        return unit_rows(X).toarray()[:examples], Y[:examples]
    X, Y = load("rcv1_topics", "train")
    frequent = np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:30])
    return unit_rows(X).toarray()[:examples], Y[:examples][:, frequent]


SEARCHES: dict[str, Callable[[Any, float], Any]] = {
    "sarawagi": lambda plane, xi: search.sarawagi(plane, xi),
    "bisecting": lambda plane, xi: search.bisecting(plane, rtol=1e-3, width=1e-3),
    "angular": lambda plane, xi: search.angular(plane, rtol=1e-3, angles_only=True),
    "convex_hull": lambda plane, xi: search.convex_hull(plane, Product()),
    "exact": lambda plane, xi: search.exact(plane, Product(), rtol=1e-3),
}


def cutting_plane_run(name: str, examples: int, passes: int) -> list[Any]:
    """Every search on every example in every pass; angular search's labels are added."""
    X, Y = pairwise_data(name, examples)
    run = PairwiseRun(X, Y, lam=1e-2)
    seen: dict[str, list[tuple[float, float, float, float]]] = {method: [] for method in SEARCHES}
    for turn in range(passes):
        added = 0
        for k in range(run.n):
            slack = run.slack(k)
            for method, look in SEARCHES.items():
                begun = process_time()
                found = look(run.plane(k), max(slack, 1e-6))
                seen[method].append((found.queries, process_time() - begun, found.value, slack))
                if method == "angular" and found.label is not None and found.value > slack + EPSILON:
                    run.add(k, np.asarray(found.label))
                    added += 1
        print(f"{name}, pass {turn + 1}: {added} labels added", flush=True)
        if not added:
            break
        run.solve()
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
        }
        rows.append(shown(row))
    return rows


def searches(yeast_examples: int, rcv1_examples: int, passes: int) -> None:
    rows = cutting_plane_run("Yeast", yeast_examples, passes)
    rows += cutting_plane_run("RCV1, 30 labels", rcv1_examples, passes)
    keep(
        "reproduce.searches",
        rows,
        title="Searches in a cutting-plane run of slack rescaling",
        measures=["structopt/search", "structopt/plane"],
        words=["searches", "--yeast", str(yeast_examples), "--rcv1", str(rcv1_examples), "--passes", str(passes)],
        note=f"{yeast_examples} examples of Yeast, {rcv1_examples} of rcv1_topics, {passes} passes, LP relaxation by "
        "HiGHS. The papers have 160 and 80 examples and do not say how many passes.",
    )


# ---- thesis Table 4.2 ------------------------------------------------------------------------------


def set_measures(Y: Any, P: Any) -> dict[str, float]:
    """The columns of Tables 4.2 and 4.3 as they fit: mean overlap, Hamming, F1 of all decisions, F1 by example."""
    from sklearn.metrics import f1_score, jaccard_score

    return {
        "accuracy": float(jaccard_score(Y, P, average="samples", zero_division=0)),
        "label loss": float((P != Y).mean()),
        "MiF1": float(f1_score(Y, P, average="micro")),
        "MaF1": float(f1_score(Y, P, average="samples", zero_division=0)),
        "labels": float(P.sum(axis=1).mean()),
    }


def yeast() -> None:
    X, Y = load("yeast", "train")
    X_test, Y_test = load("yeast", "test")
    plain = X.toarray(), X_test.toarray()
    mean, width = plain[0].mean(axis=0), plain[0].std(axis=0) * np.sqrt(X.shape[1])
    rows = []
    for features, (A, B) in (("as in the file", plain), ("standardised", tuple((v - mean) / width for v in plain))):
        for surrogate in ("margin", "slack"):
            for lam in (1e-2, 1e-3, 1e-4, 1e-5):
                begun = process_time()
                model = so.structures.PairwiseMRF(14, intercept=True)
                result = block_ascent(StructuredRisk(model, A, Y, surrogate), lam=lam, tol=5e-3, max_passes=60)
                P = np.array([model.predict(result.w, x) for x in B])
                about = {"set": "Yeast", "rescaling": surrogate, "features": features, "lam": lam}
                rows.append(shown({**about, **set_measures(Y_test, P), "CPU s": process_time() - begun}))
    keep(
        "reproduce.yeast",
        rows,
        title="Sets of 14 labels on Yeast by lam and scale of the features",
        measures=["structopt/structures/mrf.py", "structopt/train/block_ascent.py"],
        words=["yeast"],
        note=f"The test examples have {Y_test.sum(axis=1).mean():.2f} labels each. Trained to a gap of 0.5%.",
    )


# ---- thesis Table 4.3 ------------------------------------------------------------------------------


def trees(examples: int) -> None:
    rows = [
        *tree_rows("Enron", "enron_hmc", "trainvalid", examples),
        *tree_rows("RCV1", "rcv1_topics", "train", examples),
    ]
    keep(
        "reproduce.trees",
        rows,
        title="Sets of nodes of a tree of labels: margin and slack rescaling",
        measures=["structopt/structures/hierarchy.py", "structopt/train/block_ascent.py", "structopt/search"],
        words=["trees", "--examples", str(examples)],
        note=f"At most {examples} training examples, of which a quarter chooses lam, and as many for testing.",
    )


def tree_rows(told: str, folder: str, split: str, examples: int) -> list[Any]:
    X, Y = load(folder, split)
    X_test, Y_test = load(folder, "test")
    X, X_test = unit_rows(X), unit_rows(X_test)
    with np.load(DATA / folder / "meta.npz") as meta:
        names, edges = [str(node) for node in meta["label_names"]], meta["edges"].tolist()
    hierarchy = so.Hierarchy([(names[a], names[b]) for a, b in edges], nodes=names)
    order = np.argsort(hierarchy.indices(names))
    Y, Y_test = (np.asarray(part)[:, order].astype(int) for part in (Y, Y_test))
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:examples]
    X, Y, X_test, Y_test = X[chosen], Y[chosen], X_test[:examples], Y_test[:examples]
    held = len(chosen) // 4
    model = so.structures.HierarchicalLabels(hierarchy, "closure")
    rows = []
    for surrogate in ("margin", "slack"):
        begun, best = process_time(), (-1.0, 0.0)
        for lam in (1e-2, 1e-3, 1e-4):
            svm = so.StructuredSVM(model, surrogate, lam=lam, tol=1e-2, max_passes=60).fit(X[held:], Y[held:])
            best = max(best, (set_measures(Y[:held], np.array(svm.predict(X[:held])))["MiF1"], lam))
        svm = so.StructuredSVM(model, surrogate, lam=best[1], tol=1e-2, max_passes=60).fit(X, Y)
        found = set_measures(Y_test, np.array(svm.predict(X_test)))
        seconds = process_time() - begun
        rows.append(shown({"set": told, "rescaling": surrogate, "lam": best[1], **found, "CPU s": seconds}))
    return rows


# ---- BMRM Figures 5 and 8 --------------------------------------------------------------------------


def binary_sets(examples: int) -> dict[str, tuple[Any, Any]]:
    X, y = load("a9a", "train")
    some = np.random.default_rng(0).permutation(X.shape[0])[: examples or None]
    slice_ = load("rcv1_binary_slice", "train")
    return {"adult9": (X[some], np.where(y[some] > 0, 1, -1)), "rcv1": (slice_[0], np.where(slice_[1] > 0, 1, -1))}


def bundles(examples: int) -> None:
    methods: dict[str, Callable[..., Any]] = {
        "BMRM": lambda risk, **limits: bmrm(risk, theta=1.0, line_search=False, **limits),
        "LSBMRM": lambda risk, **limits: bmrm(risk, line_search=True, **limits),
        "BT": trust_region_bundle,
    }
    words = ["bundles", "--examples", str(examples)]
    figure8, figure5 = [], []
    for name, (X, y) in binary_sets(examples).items():
        # At smaller values the trust-region method takes minutes on the many features of rcv1.
        for lam in (1e-3, 1e-4, 1e-5) if name == "adult9" else (1e-3, 1e-4):
            optimum = bmrm(Hinge(X, y), lam=lam, tol=1e-3, line_search=True).lower_bound
            for method, train in methods.items():
                begun = process_time()
                result = train(
                    Hinge(X, y),
                    lam=lam,
                    tol=0.0,
                    max_passes=1500,
                    callback=lambda r, f=optimum: r.objective <= 1.01 * f,
                )
                figure8.append(
                    shown(
                        {
                            "set": name,
                            "lam": lam,
                            "method": method,
                            "passes": int(result.passes),
                            "within 1%": bool(result.objective <= 1.01 * optimum),
                            "CPU s": process_time() - begun,
                        }
                    )
                )
        for cuts in (2, 10, 50, None):
            result = bmrm(Hinge(X, y), lam=1e-4, tol=1e-4, theta=1.0, line_search=False, max_cuts=cuts, max_passes=400)
            gap = result.history["objective"] - result.history["lower_bound"]
            for t in np.unique(np.geomspace(1, len(gap), 15).astype(int)):
                figure5.append({"set": name, "cuts": str(cuts or "all"), "pass": int(t), "gap": float(gap[t - 1])})
            shown(figure5[-1])
    measures = ["structopt/train/bmrm.py", "structopt/train/trust_region.py", "structopt/train/proximal.py"]
    note = f"Hinge loss; adult9 with {examples or 'all'} examples, rcv1 as a slice of 1000 of 677,399."
    keep("reproduce.figure8", figure8, title="Passes to 1% of the optimum", measures=measures, words=words, note=note)
    keep("reproduce.figure5", figure5, title="The gap by pass and bundle", measures=measures, words=words, note=note)


# ---- BMRM Figure 7 and Table 2 ---------------------------------------------------------------------


def accuracy() -> None:
    parts = [load("a9a", split) for split in ("train", "test")]
    X = sp.vstack([part[0] for part in parts], format="csr")
    y = np.where(np.concatenate([part[1] for part in parts]) > 0, 1, -1)
    order = np.random.default_rng(0).permutation(len(y))
    train, valid, test = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])

    def right(w: np.ndarray, rows: Any) -> float:
        return 100 * float((np.where(X[rows] @ w > 0, 1, -1) == y[rows]).mean())

    tried = {2.0**-k: bmrm(Hinge(X[train], y[train]), lam=2.0**-k, tol=1e-2).w for k in range(4, 20, 3)}
    lam = max(tried, key=lambda value: right(tried[value], valid))
    curves = {}
    for share in (10, 20, 30, 40, 50, 100):
        some = train[: len(train) * share // 100]
        seen: list[tuple[float, float]] = []

        def note(result: Any, seen: list[tuple[float, float]] = seen) -> bool:
            seen.append((result.absolute_gap, right(result.w, test)))
            return bool(result.absolute_gap <= 1e-4)

        bmrm(Hinge(X[some], y[some]), lam=lam, tol=0.0, theta=1.0, line_search=False, max_passes=3000, callback=note)
        curves[share] = np.array(seen)
    rows, points = [], []
    for share, curve in curves.items():
        gap, found = curve.T
        apart = np.flatnonzero(np.abs(found - found[-1]) >= 0.1)
        effective = gap[min(apart[-1] + 1, len(gap) - 1)] if apart.size else gap[0]
        reached = (
            gap[int(np.argmax(found >= curves[10][-1, 1] - 1e-9))] if (found >= curves[10][-1, 1]).any() else np.nan
        )
        row = {
            "set": "adult9",
            "share, %": share,
            "accuracy, %": found[-1],
            "log10 effective gap": float(np.log10(effective)),
            "log10 gap for 10 %": float(np.log10(reached)),
            "passes": len(gap),
            "lam": lam,
        }
        rows.append(shown(row))
        for t in np.unique(np.geomspace(1, len(gap), 25).astype(int)) - 1:
            points.append({"share, %": str(share), "gap": float(gap[t]), "difference, %": float(found[t] - found[-1])})
    measures = ["structopt/train/bmrm.py", "structopt/train/bundle.py", "structopt/risks"]
    note_ = "One random split; the paper does not print its lam."
    keep(
        "reproduce.accuracy", rows, title="Test accuracy and the gap", measures=measures, words=["accuracy"], note=note_
    )
    keep("reproduce.figure7", points, title="Accuracy by gap", measures=measures, words=["accuracy"], note=note_)


# ---- thesis Table 6.1 ------------------------------------------------------------------------------


def table61() -> None:
    rng = np.random.default_rng(0)
    n, d = 6, 12
    u, scale = rng.normal(size=d), rng.normal(size=n)
    disjoint = np.zeros((n, d))
    for k in range(n):
        disjoint[k, 2 * k : 2 * k + 2] = rng.normal(size=2)
    star = so.Hierarchy([("all", k) for k in range(n)])
    apart = so.Hierarchy([], nodes=range(n))
    free = rng.normal(size=(n, d))
    length, frobenius = float(np.linalg.norm(u)), np.linalg.norm
    cases: dict[str, tuple[Any, Any, tuple[float | None, ...]]] = {
        "full sharing": (np.tile(u, (n, 1)), star, (length, length, np.sqrt(n) * length, np.sqrt(n) * length)),
        "no sharing": (free, apart, (None, float(frobenius(free)), float(frobenius(free)), None)),
        "disjoint features": (
            disjoint,
            star,
            (*(float(frobenius(disjoint)),) * 3, float(np.linalg.norm(disjoint, axis=1).sum())),
        ),
        "factor scaling": (
            np.outer(scale, u),
            star,
            (float(np.abs(scale).max()) * length, None, *(float(np.linalg.norm(scale)) * length,) * 2),
        ),
    }
    rows = []
    for name, (U, hierarchy, formulas) in cases.items():
        found = (
            float(norms.shared_frobenius(U)),
            float(norms.shared_frobenius(U, hierarchy)),
            float(frobenius(U)),
            float(np.linalg.norm(U, "nuc")),
        )
        for norm, ours, formula in zip(("shared", "shared, tree", "Frobenius", "trace"), found, formulas, strict=True):
            if formula is not None:
                rows.append(shown({"situation": name, "norm": norm, "computed": float(ours), "formula": formula}))
    keep(
        "reproduce.norms",
        rows,
        title="Norms of class vectors in four situations",
        measures=["structopt/norms"],
        words=["norms"],
        note="Six classes, twelve features, standard normal vectors; the table has a dot where it gives no formula.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs: dict[str, Callable[[], None]] = {
        "searches": lambda: searches(options.yeast, options.rcv1, options.passes),
        "yeast": yeast,
        "trees": lambda: trees(options.examples or 1000),
        "bundles": lambda: bundles(10_000 if options.examples is None else options.examples),
        "accuracy": accuracy,
        "norms": table61,
    }
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(jobs)}; those with a kept result by default")
    parser.add_argument("--yeast", type=int, default=80)
    parser.add_argument("--rcv1", type=int, default=20)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--examples", type=int)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.parts or ("searches", "yeast", "bundles", "norms"):  # the rest has no kept result yet
        if name not in jobs:
            parser.error(f"unknown part {name!r}; choose from {', '.join(jobs)}")
        if name != "norms" and not DATA.exists():
            print(f"{name}: skipped, the data sets are not beside the checkout (set STRUCTOPT_DATA)")
            continue
        jobs[name]()


if __name__ == "__main__":
    main()

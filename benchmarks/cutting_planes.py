"""Cutting planes of slack rescaling over pairwise models: the searches in a run, curves of training, its program.

    python benchmarks/cutting_planes.py searches                    AISTATS16 Table 1, thesis Table 4.1
    python benchmarks/cutting_planes.py hull                        thesis Table 5.1
    python benchmarks/cutting_planes.py success                     what the success rate of Table 1 depends on
    python benchmarks/cutting_planes.py curves                      thesis Figures 4-7, 4-8, 4-11 to 4-15, 4-17
    python benchmarks/cutting_planes.py programs                    thesis Figure 4-16
    python benchmarks/cutting_planes.py snapshot                    thesis Figure 4-1
    python benchmarks/cutting_planes.py lemma13                     thesis Figure 5-2

With ``--quick`` the first five have a tenth of the examples, and are not kept.

``searches``, ``hull``: a cutting-plane run (n-slack, slack rescaling over the pairwise LP relaxation) in which every
search looks for the most violated label of every example at the same weights. The label that angular search found is
added to the working set where it exceeds the example's slack by ε, and the quadratic program is solved anew; the run
ends with a pass that adds none. "success" is the share of searches that found such a label, "failed" the share in which
another search found a product larger by 0.1%. Angular search has the labels found before as its cache, and makes free
queries along the hull first; beside it stand the same without the cache, Algorithm 2 alone from λ = H/G ("angles
only"), and Algorithm 2 alone from the λ at which the last search of the example ended. The convex hull search has that
cache, too, and stops at 0.999, as angular search does; or neither. ``success``: the same run by lam and ε.
``curves``: cutting planes by three searches, BCFW and SGD from the same start; the clock stops while the objective and
the accuracy are evaluated.

Queries are answered by roof duality, which is exact for this relaxation; before each table queries and values of some
searches are compared with those by HiGHS, whose milliseconds are in `search.py`. CPU seconds of the process, one BLAS
thread. Data beside the checkout, or in STRUCTOPT_DATA.
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
from _data import DATA
from _pairwise import BlockFrankWolfe, CuttingPlanes, PairwiseRun, Pegasos, Search, check_oracle, pairwise_data
from _results import keep, shown

from structopt import search
from structopt.plane import PointPlane
from structopt.surrogates import Product

# The papers print neither lam nor ε. With these the searches succeed in about the ratios of AISTATS16's Table 1
# (`success`), and the objective of the curves ends in the range of thesis Figure 4-17(d).
LAM, EPSILON, LAM_OF_CURVES = 1.0, 0.01, 0.2
MEASURES = ["structopt/search", "structopt/plane", "structopt/algorithms/pairwise"]

# ---- AISTATS16 Table 1, thesis Tables 4.1 and 5.1 --------------------------------------------------


def rivals(sarawagi: float, bisecting: float) -> dict[str, Search]:
    """Sarawagi's search and the bisecting one, with the relative widths of λ at which they stop."""
    return {
        "sarawagi": lambda plane, xi, *_: search.sarawagi(plane, xi, width=sarawagi),
        "bisecting": lambda plane, *_: search.bisecting(plane, rtol=1e-3, width=bisecting),
    }


#: Widths chosen to take about as many queries as the papers say: 43.2 and 10.3 on Yeast in AISTATS16, 15.3 and 7.8 in
#: the thesis. Neither says where its searches stop.
RIVALS = {"aistats16": rivals(3e-8, 1e-3), "thesis": rivals(2e-2, 5e-2)}
ANGULAR: dict[str, Search] = {
    "angular": lambda plane, xi, known, _: search.angular(plane, rtol=1e-3, cache=known),
    "angular, no cache": lambda plane, *_: search.angular(plane, rtol=1e-3),
}
ANGLES_ONLY: dict[str, Search] = {
    "angular, angles only": lambda plane, xi, known, _: search.angular(plane, rtol=1e-3, cache=known, angles_only=True),
    "angular, angles only, last λ": lambda plane, xi, known, lam: search.angular(
        plane, lam, rtol=1e-3, cache=known, angles_only=True
    ),
}
HULL: dict[str, Search] = {
    "convex_hull": lambda plane, xi, known, _: search.convex_hull(plane, Product(), rtol=1e-3, cache=known),
    "convex_hull, no cache, to a proof": lambda plane, *_: search.convex_hull(plane, Product()),
}


class SearchesInARun:
    """A cutting-plane run to its end, and what every search found at its weights.

    Parameters
    ----------
    name, examples
        The data.
    tried : dict
        Searches by name; "angular" among them, whose labels are added.
    some : dict
        Slower searches, tried on every 16th example.
    lam, epsilon : float
    """

    def __init__(
        self,
        name: str,
        examples: int,
        tried: dict[str, Search],
        some: dict[str, Search],
        lam: float,
        epsilon: float,
    ) -> None:
        self.name, self.tried, self.some, self.epsilon = name, tried, some, epsilon
        self.run = PairwiseRun(*pairwise_data(name, examples=examples), lam)
        #: Of each search: queries, CPU seconds, value, whether a label to add was found, the best value of all, whether
        #: the answer is a mixture of two labels.
        self.seen: dict[str, list[tuple[float, ...]]] = {method: [] for method in (*tried, *some)}
        self.lams: list[float | None] = [None] * examples
        self.passes = 0
        added = True
        while added:
            added = sum([self.visit(k) for k in range(examples)]) > 0
            self.passes += 1
            if self.passes == 2:
                check_oracle(self.run, range(0, examples, max(1, examples // 4)))

    def visit(self, k: int) -> bool:
        """All searches of an example; returns whether a label was added."""
        run, slack, found = self.run, self.run.slack(k), {}
        known = run.known(k)
        for method, look in (self.tried | self.some if k % 16 == 0 else self.tried).items():
            begun = process_time()
            found[method] = look(run.plane(k), max(slack, 1e-6), known, self.lams[k]), begun, process_time()
        best = max(one.value for one, _, _ in found.values())
        for method, (one, begun, end) in found.items():
            to_add = one.value > slack + self.epsilon
            self.seen[method].append((one.queries, end - begun, one.value, to_add, best, len(one.parts) == 2))
        chosen = found["angular"][0]
        self.lams[k] = chosen.lam if 0.0 < chosen.lam < np.inf else None
        if chosen.value <= slack + self.epsilon:
            return False
        run.add(k, np.asarray(chosen.label))
        run.solve()
        return True

    def rows(self) -> list[Any]:
        rows = []
        for method, entries in self.seen.items():
            queries, seconds, value, to_add, best, mixed = np.array(entries, dtype=float).T
            row = {
                "set": self.name,
                "search": method,
                "queries": float(queries.mean()),
                "success, %": 100 * float(to_add.mean()),
                "failed": float((value < best * (1 - 1e-3) - 1e-9).mean()),
                "failed by 5%": float((value < best * 0.95 - 1e-9).mean()),
                "mixtures": float(mixed.mean()) if method in self.tried else None,  # Algorithm 2 does not name them
                "ms": 1e3 * float(seconds.mean()),
                "searches": len(value),
                "passes": self.passes,
            }
            rows.append(shown(row))
        return rows


def searches(shrink: int) -> None:
    """AISTATS16 Table 1: 160 examples."""
    tried, rows = RIVALS["aistats16"] | ANGULAR | HULL, []
    for name, examples in (("Yeast", 160), ("RCV1, 50 labels", 160), ("Enron, 53 labels", 80)):
        rows += SearchesInARun(name, examples // shrink, tried, ANGLES_ONLY, LAM, EPSILON).rows()
    if shrink == 1:
        keep(
            "cutting_planes.searches",
            rows,
            title="Searches in a cutting-plane run of slack rescaling",
            measures=MEASURES,
            words=["searches"],
            note=f"160 examples of Yeast and of rcv1_topics, 80 of Enron, lam {LAM:g}, ε {EPSILON:g}, to the end of "
            "the run. Algorithm 2 alone on every 16th example. Milliseconds by roof duality.",
        )


def hull(shrink: int) -> None:
    """Thesis Table 5.1: 80 examples."""
    tried, rows = RIVALS["thesis"] | ANGULAR | HULL, []
    for name in ("Yeast", "RCV1, 30 labels"):
        rows += SearchesInARun(name, 80 // shrink, tried, {}, LAM, EPSILON).rows()
    if shrink == 1:
        keep(
            "cutting_planes.hull",
            rows,
            title="Convex hull search in a cutting-plane run of slack rescaling",
            measures=MEASURES,
            words=["hull"],
            note=f"80 examples of each set, lam {LAM:g}, ε {EPSILON:g}, to the end of the run. Milliseconds by roof "
            "duality.",
        )


def success(shrink: int) -> None:
    """The success rate of Table 1 by lam and ε, 160 examples."""
    tried, rows = RIVALS["aistats16"] | {"angular": ANGULAR["angular"]}, []
    yeast = [(10.0, 1.0), (10.0, 0.1), (10.0, 0.01), (10.0, 0.001), (1.0, 1.0), (1.0, 0.1), (1.0, 0.01), (1.0, 0.001)]
    yeast += [(0.1, 1.0), (0.1, 0.1)]
    rcv1 = [(10.0, 0.1), (10.0, 0.01), (1.0, 0.1), (1.0, 0.01)]
    for name, level, grid in (("Yeast", 22.4, yeast), ("RCV1, 50 labels", 25.6, rcv1)):
        for lam, epsilon in grid:
            whole = SearchesInARun(name, 160 // shrink, tried, {}, lam, epsilon)
            share = {
                method: 100 * float(np.mean([one[3] for one in entries])) for method, entries in whole.seen.items()
            }
            row = {"set": name, "lam": lam, "ε": epsilon, "passes": whole.passes}
            for method in ("angular", "bisecting", "sarawagi"):
                row[f"{method}, %"] = share[method]
            row["bisecting / angular"] = share["bisecting"] / share["angular"]
            row["sarawagi / angular"] = share["sarawagi"] / share["angular"]
            # A pass after the end adds none, and lowers all shares alike.
            row["passes to the paper's level"] = int(np.ceil(whole.passes * share["angular"] / level))
            rows.append(shown(row))
    if shrink == 1:
        keep(
            "cutting_planes.success",
            rows,
            title="Success of the searches by lam and ε",
            measures=MEASURES,
            words=["success"],
            note="160 examples, each run to its end. The last column is the number of passes, those after the end of "
            "the run included, of which angular search succeeds in the paper's share.",
        )


# ---- thesis Figures 4-7 to 4-17, 4-1 and 5-2 -------------------------------------------------------

#: Passes after which objective and accuracy are evaluated; parts of the first one for those that go by example.
SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60)


def curves(shrink: int) -> None:
    rows: list[Any] = []
    for name, examples in (
        ("Yeast", 320),
        ("Yeast", 640),
        ("Enron, 53 labels", 80),
        ("Enron, 53 labels", 160),
        ("RCV1, 50 labels", 160),
    ):
        for method in ("CP, Sarawagi", "CP, bisecting", "CP, angular", "BCFW", "SGD"):
            rows += curve(name, examples // shrink, method)
    if shrink == 1:
        keep(
            "cutting_planes.curves",
            rows,
            title="Objective and accuracy of slack rescaling by search and trainer",
            measures=MEASURES,
            words=["curves"],
            note=f"lam {LAM_OF_CURVES:g}, at most {SHOWN[-1]} passes; the accuracy is the mean overlap on at most "
            "1,000 test examples. Cutting planes drop labels that had no weight in 20 programs in a row.",
        )


def curve(name: str, examples: int, method: str) -> list[Any]:
    """Objective and accuracy by pass."""
    X, Y = pairwise_data(name, "test", 1000)
    run = PairwiseRun(*pairwise_data(name, examples=examples), LAM_OF_CURVES)
    trainer: Any
    if method.startswith("CP"):
        looks = RIVALS["aistats16"] | ANGULAR
        trainer, parts = CuttingPlanes(run, looks[method[4:].lower()], EPSILON), 1
    else:
        trainer, parts = (BlockFrankWolfe if method == "BCFW" else Pegasos)(run), 4
    rng, seconds, rows = np.random.default_rng(0), 0.0, []
    for turn in range(1, SHOWN[-1] + 1):
        order = rng.permutation(run.n)
        for part, some in enumerate(np.array_split(order, parts if turn == 1 else 1), 1):
            begun = process_time()
            trainer.visit(some)
            seconds += process_time() - begun
            ended = getattr(trainer, "ended", False)
            if turn in SHOWN or ended:
                row = {"set": f"{name}, N = {examples}", "method": method, "queries": trainer.queries}
                row |= {"pass": turn - 1 + part / parts if turn == 1 else turn, "CPU s": seconds}
                row |= {"QP, CPU s": getattr(trainer, "solving", None)}
                rows.append(row | {"objective": run.objective(), "accuracy": run.accuracy(X, Y)})
        if ended:
            break
    shown(rows[-1])
    return rows


def programs(shrink: int) -> None:
    """Figure 4-16: the time of the quadratic program, by the number of examples."""
    rows = []
    for examples in (40, 80, 160, 320, 640):
        run = PairwiseRun(*pairwise_data("Yeast", examples=examples // shrink), LAM)
        trainer, passes = CuttingPlanes(run, ANGULAR["angular"], EPSILON), 0
        while not trainer.ended:
            trainer.visit(range(run.n))
            passes += 1
        row = {"set": "Yeast", "examples": run.n, "QP, CPU s": trainer.solving, "searches, CPU s": trainer.looking}
        row["QP, share in %"] = 100 * trainer.solving / (trainer.solving + trainer.looking)
        rows.append(shown(row | {"labels": run.qp.n_cuts, "passes": passes}))
    if shrink == 1:
        keep(
            "cutting_planes.programs",
            rows,
            title="Time in the quadratic program of cutting planes",
            measures=["structopt/programs/simplex_qp.py", "structopt/programs/pair_ascent.py", *MEASURES],
            words=["programs"],
            note=f"lam {LAM:g}, until no label exceeds its slack by {EPSILON:g}; Gram matrix included. `labels` are "
            "those of the last program: without weight in 20 programs in a row a label is dropped.",
        )


def snapshot() -> None:
    """Figure 4-1: the labels of one example in the plane, at the weights of a cutting-plane run."""
    run = PairwiseRun(*pairwise_data("Yeast", examples=160), LAM)
    trainer = CuttingPlanes(run, ANGULAR["angular"], EPSILON)
    for _ in range(5):
        trainer.visit(range(run.n))
    k, m = 1, run.labels
    Z = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
    full = np.hstack([Z, Z[:, run.i] * Z[:, run.j]])
    h, g = 1.0 + (full - run.truth[k]) @ run.score(k), np.abs(Z - run.truth[k, :m]).sum(axis=1)
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
        "and highest among them; after five passes of cutting planes on 160 examples. The largest product may be a "
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
        "searches": lambda: searches(shrink),
        "hull": lambda: hull(shrink),
        "success": lambda: success(shrink),
        "curves": lambda: curves(shrink),
        "programs": lambda: programs(shrink),
        "snapshot": snapshot,
        "lemma13": three_labels,
    }
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(jobs)}; all by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the examples")
    options = parser.parse_args()
    shrink = 10 if options.quick else 1
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

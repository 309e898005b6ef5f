"""Searches for the most violated label of slack rescaling over pairwise models, alone and in cutting-plane runs.

The objective is ``lam/2 ||w||^2`` plus the mean over the examples of the largest ``loss * (1 + margin)``, the loss
being the number of wrong labels (AISTATS16, equation 4). A label, or a mixture of two, is a vector z of labels and
pairs. Its cut is linear in the weights: the change ``z - truth`` times the loss, whose label part multiplies the
features of its example. Two cuts thus have the inner product (label parts) * (features) + (pair parts), so that no cut
is ever written out as a vector of all weights.

``queries``: Yeast's 14 labels beside the papers' tables 4.1 and 5.1. The weights are those after five passes of
margin-rescaled subgradient descent over the same examples. For every example each search then looks for the most
violated label over the relaxed label space (or, with ``--integral``, the labels themselves: exact searches only).
Printed: queries and milliseconds per search, the share of examples in which the search found the optimum (within 0.1%,
the papers' stopping rule), and the time outside the solver as a share of the time in it. `angular` stops at a proof of
0.999 by default, as in the papers, `convex_hull` and `exact` at a proof of optimality; the last row stops `exact` at
0.999, too. What is counted: a search passes over the examples in order, as a trainer does: its first solve starts from
the basis that the example before left behind. (Repeating one example would start it from its own answer, and halve the
solver's work.) Its time begins before its plane is built and ends with its result. The time in the solver is the time
inside calls of highspy (all methods of `highspy.Highs` that the backend calls, `SOLVER_CALLS`), or inside the
combinatorial algorithm; everything else is outside: building the plane, choosing λ, bounds, and the oracle's and the
backend's own Python, and the clock on these calls itself. A search does the same in every pass, so that of `--repeats`
passes the fastest counts, call by call and pause by pause: a busy machine blurs little.

``run`` (AISTATS16 Table 1, thesis Table 4.1) and ``hull`` (thesis Table 5.1): a cutting-plane run (n-slack, slack
rescaling over the pairwise LP relaxation) in which every search looks for the most violated label of every example at
the same weights. The label that angular search found is added to the working set where it exceeds the example's slack
by ε, and the quadratic program is solved anew; the run ends with a pass that adds none. "success" is the share of
searches that found such a label, "failed" the share in which another search found a product larger by 0.1%. Angular
search has the labels found before as its cache, and makes free queries along the hull first; beside it stand the same
without the cache, Algorithm 2 alone from λ = H/G ("angles only"), and Algorithm 2 alone from the λ at which the last
search of the example ended. The convex hull search has that cache, too, and stops at 0.999, as angular search does; or
neither. ``success``: the same run by lam and ε. ``curves`` (thesis Figures 4-7, 4-8, 4-11 to 4-15, 4-17): cutting
planes by three searches, BCFW and SGD from the same start; the clock stops while the objective and the accuracy are
evaluated. ``programs``: thesis Figure 4-16; ``snapshot``: Figure 4-1; ``lemma13``: Figure 5-2. ``--shrink 10`` has a
tenth of the examples.

In runs queries are answered by roof duality, which is exact for this relaxation; before each table queries and values
of some searches are compared with those by HiGHS, whose milliseconds are in ``queries``. CPU seconds of the process,
one BLAS thread. Data beside the checkout, or in STRUCTOPT_DATA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any

import highspy
import numpy as np
from _bench import Row, Rows, load, main, part, timed
from sklearn.metrics import jaccard_score
from sklearn.preprocessing import normalize

import structopt as so
from structopt import search
from structopt.plane import Plane, PointPlane
from structopt.search import SearchResult
from structopt.surrogates import Product
from structopt.train import SimplexQP

# The papers print neither lam nor ε. With these the searches succeed in about the ratios of AISTATS16's Table 1
# (`success`), and the objective of the curves ends in the range of thesis Figure 4-17(d).
LAM, EPSILON, LAM_OF_CURVES = 1.0, 0.01, 0.2
#: A search of a plane, given the slack of the example, the labels found for it before and the λ at which its last
#: search ended.
Search = Callable[[Any, float, Any, float | None], Any]
#: Cuts without weight in this many solves in a row are dropped, if asked for.
IDLE = 20

# ---- the model and its working sets ----------------------------------------------------------------


def pairwise_data(name: str, split: str = "train", examples: int | None = None) -> tuple[Any, Any]:
    """Return features with rows of norm 1, and labels; ``"RCV1, 50 labels"`` has the 50 most frequent ones."""
    folder = {"Yeast": "yeast", "Enron, 53 labels": "enron_flat"}.get(name, "rcv1_topics")
    data = load(folder, split)
    if folder == "rcv1_topics":
        frequent = np.argsort(-load(folder).y.sum(axis=0), kind="stable")
        data.y = data.y[:, np.sort(frequent[: int(name.split()[1])])]
    return normalize(data.X).toarray()[:examples], data.y[:examples].astype(float)


class PairwiseRun:
    """Weights of a pairwise model, and the working sets of its examples (n-slack cutting planes)."""

    def __init__(self, X: Any, Y: Any, lam: float = LAM, solver: str = "auto") -> None:
        self.n, self.labels = Y.shape
        self.X = np.hstack([X, np.ones((self.n, 1))])
        self.i, self.j = np.triu_indices(self.labels, 1)
        self.truth = np.hstack([Y, Y[:, self.i] * Y[:, self.j]])
        self.losses = [(np.concatenate([1.0 - 2.0 * y, np.zeros(len(self.i))]), float(y.sum())) for y in Y]
        space = so.LabelSpace("pairwise")
        y = space.binary("y", self.labels)
        p = space.continuous("pair", len(self.i), 0, 1)
        space.subject_to(p <= y[self.i], p <= y[self.j], p >= y[self.i] + y[self.j] - 1)
        self.oracle = so.Oracle(space, solver=solver, integral="relax")
        self.lam = lam
        self.unary, self.pairs = np.zeros((self.labels, self.X.shape[1])), np.zeros(len(self.i))
        self.qp = SimplexQP(lam, np.full(self.n, 1.0 / self.n), zero_plane=True)
        self.products = self.X @ self.X.T
        self.cuts = np.empty((16, self.truth.shape[1]))
        self.found: list[np.ndarray] = []  # the label of each cut
        self.own: list[list[int]] = [[] for _ in range(self.n)]  # the cuts of each example

    def score(self, k: int) -> np.ndarray:
        """Return the coefficients of the score of an example's labels."""
        return np.concatenate([self.unary @ self.X[k], self.pairs])

    def plane(self, k: int) -> Any:
        """Return the (h, g) plane of an example, h = 1 + margin and g = Hamming loss."""
        return Product().plane(self.oracle, self.score(k), self.losses[k], self.truth[k])

    def cut(self, k: int, z: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a cut: ``cut @ score(k) + loss`` is the label's ``loss * (1 + margin)``."""
        change = z - self.truth[k]
        loss = float(np.abs(change[: self.labels]).sum())
        return loss * change, loss

    def known(self, k: int) -> list[np.ndarray]:
        """Return the working set of an example."""
        return [self.found[u] for u in self.own[k]]

    def slack(self, k: int) -> float:
        own = self.own[k]
        return float(max(0.0, (self.cuts[own] @ self.score(k) + self.qp.b[own]).max(initial=0.0)))

    def step(self, k: int, change: np.ndarray) -> None:
        """Add a change of an example's feature vector to the weights."""
        self.unary += np.outer(change[: self.labels], self.X[k])
        self.pairs += change[self.labels :]

    def add(self, k: int, z: np.ndarray) -> None:
        """Add a label to the working set of its example."""
        cut, loss = self.cut(k, z)
        m, labels = self.qp.n_cuts, self.labels
        if m == len(self.cuts):
            self.cuts = np.concatenate([self.cuts, np.empty_like(self.cuts)])
        self.cuts[m] = cut
        same_labels, same_pairs = self.cuts[: m + 1, :labels] @ cut[:labels], self.cuts[: m + 1, labels:] @ cut[labels:]
        self.qp.add(same_labels * self.products[k, np.append(self.qp.block, k)] + same_pairs, loss, k)
        self.found.append(z)
        self.own[k].append(m)

    def solve(self, *, drop: bool = False) -> None:
        """Solve the quadratic program over all working sets, and set the weights that belong to it."""
        self.qp.solve(1e-4)
        if drop and not (kept := self.qp.idle < IDLE).all():
            self.cuts[: kept.sum()] = self.cuts[: self.qp.n_cuts][kept]
            self.found = [z for z, stays in zip(self.found, kept, strict=True) if stays]
            self.qp.keep(kept)
            self.own = [np.flatnonzero(self.qp.block == k).tolist() for k in range(self.n)]
        active = np.flatnonzero(self.qp.alpha)
        weighted = self.cuts[active] * (-self.qp.alpha[active, None] / self.lam)
        by_example = np.zeros((self.n, self.labels))
        np.add.at(by_example, self.qp.block[active], weighted[:, : self.labels])
        self.unary, self.pairs = by_example.T @ self.X, weighted[:, self.labels :].sum(axis=0)

    def squared(self) -> float:
        """Return the squared norm of the weights."""
        return float(np.vdot(self.unary, self.unary) + self.pairs @ self.pairs)

    def objective(self) -> float:
        """Return the objective at the current weights, by an exact search of every example."""
        values = [search.exact(self.plane(k), Product(), rtol=1e-3).value for k in range(self.n)]
        return 0.5 * self.lam * self.squared() + float(np.mean(values))

    def accuracy(self, X: Any, Y: Any) -> float:
        """Return the mean overlap of rounded predictions with the labels."""
        unary = np.hstack([X, np.ones((len(X), 1))]) @ self.unary.T
        Z = self.oracle._solve_batch(np.hstack([unary, np.tile(self.pairs, (len(X), 1))])).Z
        return float(jaccard_score(Y, Z[:, : self.labels] > 0.5, average="samples", zero_division=0))

    def check_oracle(self, examples: Iterable[int]) -> None:
        """Compare queries and values of a search by the package's own algorithm with those by HiGHS."""
        fast, slow = self.oracle, so.Oracle(self.oracle.space, solver="highs", integral="relax")
        for k in examples:
            answers = []
            for self.oracle in (slow, fast):
                found = search.angular(self.plane(k), rtol=1e-3)
                answers.append((found.queries, found.value))
            assert answers[0][0] == answers[1][0] and np.isclose(answers[0][1], answers[1][1], rtol=1e-6), answers


# ---- single searches -------------------------------------------------------------------------------

#: Everything that the backend calls on a `highspy.Highs` between two queries.
SOLVER_CALLS = (
    "changeColsCost", "run", "getModelStatus", "getInfoValue", "getObjectiveValue", "getSolution", "allVariableValues",
    "addRows", "deleteRows", "getNumRow", "getBasis", "setBasis", "setSolution", "clearSolver",
)  # fmt: skip


class Clock:
    """Times at which some methods of some objects begin and end."""

    def __init__(self, oracle: so.Oracle) -> None:
        self._marks: list[float] = []
        if oracle._algorithm is not oracle._solvers:
            self.watch(oracle._algorithm, "maximize", "k_best", "front")
        self.watch(highspy.Highs, *SOLVER_CALLS)

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
        """Return the seconds outside the watched methods and inside them, in turn, from `start` to now."""
        return np.diff([*self._marks, perf_counter()])


def faster(a: np.ndarray | None, b: np.ndarray) -> np.ndarray:
    """Return the faster of two runs, interval by interval; as a whole if rounding has led them different ways."""
    if a is None:
        return b
    return np.minimum(a, b) if len(a) == len(b) else min(a, b, key=np.sum)


def all_searches(xi: float, integral: bool) -> dict[str, Callable[[Plane], SearchResult]]:
    """Return every search with its defaults; Sarawagi's needs the example's slack value."""
    product = Product()
    if integral:
        return {
            "angular": search.angular,
            "convex_hull": partial(search.convex_hull, surrogate=product, integral=True),
            "exact": partial(search.exact, surrogate=product, front=False),
            "front": partial(search.exact, surrogate=product),
        }
    return {
        "sarawagi": partial(search.sarawagi, xi=xi, width=3e-8),  # the 43 queries of the paper
        "binary": partial(search.binary, rtol=1e-3),
        "bisecting": partial(search.bisecting, rtol=1e-3, width=1e-3),
        "angular": search.angular,
        "angles only": partial(search.angular, angles_only=True),
        "convex_hull": partial(search.convex_hull, surrogate=product),
        "exact": partial(search.exact, surrogate=product),
        "exact, 0.999": partial(search.exact, surrogate=product, rtol=1e-3),
    }


def descend(run: PairwiseRun, passes: int, lam: float = 1e-3) -> None:
    """Take Pegasos steps on the margin-rescaled hinge."""
    rng = np.random.default_rng(0)
    for step, k in enumerate((k for _ in range(passes) for k in rng.permutation(run.n)), 1):
        z = run.oracle.maximize(run.score(k) + run.losses[k][0]).z
        rate = 1.0 / (lam * (step + run.n))
        run.unary *= 1.0 - rate * lam
        run.pairs *= 1.0 - rate * lam
        run.step(k, rate * (run.truth[k] - z))


def slack_value(run: PairwiseRun, k: int) -> float:
    """Return half the best product that a margin-rescaled answer has."""
    margin = run.plane(k).query(1.0)
    return max(0.1, 0.5 * float(margin.h * margin.g))


@part("Over the relaxation: queries, time and failures of each search")
def queries(
    examples: int = 160, passes: int = 5, repeats: int = 8, solver: str = "highs", integral: bool = False
) -> Rows:
    run = PairwiseRun(*pairwise_data("Yeast", examples=examples), solver=solver)
    descend(run, passes)
    if integral:
        run.oracle = so.Oracle(run.oracle.space, solver=solver)
    choices = [all_searches(slack_value(run, k), integral) for k in range(run.n)]
    clock, names = Clock(run.oracle), list(choices[0])
    times: dict[str, list[Any]] = {name: [None] * run.n for name in names}
    found: dict[str, list[SearchResult]] = {}
    for turn in range(repeats):  # the searches take turns, in another order each time: the pace of the machine hits all
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            choices[-1][name](run.plane(run.n - 1))  # all start from the same basis, compiled
            found[name] = []
            for k in range(run.n):
                clock.start()
                found[name].append(choices[k][name](run.plane(k)))
                times[name][k] = faster(times[name][k], clock.stop())
    values = {name: np.array([result.value for result in found[name]]) for name in names}
    best = np.max(list(values.values()), axis=0)
    for name in names:
        outside, inside = (sum(float(np.sum(spent[first::2])) for spent in times[name]) for first in (0, 1))
        row = {"set": "Yeast", "search": name, "queries": np.mean([result.queries for result in found[name]])}
        row |= {"ms": 1e3 * (outside + inside) / run.n, "failed": float(np.mean(values[name] < best * (1.0 - 1e-3)))}
        yield row | {"outside / in the solver": outside / inside}


# ---- AISTATS16 Table 1, thesis Tables 4.1 and 5.1 --------------------------------------------------


def rivals(sarawagi: float, bisecting: float) -> dict[str, Search]:
    """Return Sarawagi's search and the bisecting one, with the relative widths of λ at which they stop."""
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
    """A cutting-plane run to its end, and the results of every search at its weights.

    The labels that "angular" of `tried` finds are added. `some` are slower searches, tried on every 16th example.
    """

    def __init__(
        self, name: str, examples: int, tried: dict[str, Search], some: dict[str, Search], lam: float, epsilon: float
    ) -> None:
        self.name, self.tried, self.some, self.epsilon = name, tried, some, epsilon
        self.run = PairwiseRun(*pairwise_data(name, examples=examples), lam)
        #: Of each search: queries, CPU seconds, value, whether a label to add was found, the best value of all, whether
        #: the answer is a mixture of two labels.
        self.seen: dict[str, list[tuple[float, ...]]] = {method: [] for method in (*tried, *some)}
        self.lams: list[float | None] = [None] * examples
        self.passes, added = 0, True
        while added:
            added = sum([self.visit(k) for k in range(examples)]) > 0
            self.passes += 1
            if self.passes == 2:
                self.run.check_oracle(range(0, examples, max(1, examples // 4)))

    def visit(self, k: int) -> bool:
        """Search an example with all methods; return whether a label was added."""
        run, slack, known = self.run, self.run.slack(k), self.run.known(k)
        found = {
            method: timed(lambda: look(run.plane(k), max(slack, 1e-6), known, self.lams[k]))  # noqa: B023
            for method, look in (self.tried | self.some if k % 16 == 0 else self.tried).items()
        }
        best = max(one.value for one, _ in found.values())
        for method, (one, seconds) in found.items():
            to_add = one.value > slack + self.epsilon
            self.seen[method].append((one.queries, seconds, one.value, to_add, best, len(one.parts) == 2))
        chosen = found["angular"][0]
        self.lams[k] = chosen.lam if 0.0 < chosen.lam < np.inf else None
        if chosen.value <= slack + self.epsilon:
            return False
        run.add(k, np.asarray(chosen.label))
        run.solve()
        return True

    def rows(self) -> Rows:
        for method, entries in self.seen.items():
            queries, seconds, value, to_add, best, mixed = np.array(entries, dtype=float).T
            row = {"set": self.name, "search": method, "queries": queries.mean(), "success, %": 100 * to_add.mean()}
            row |= {
                "failed": (value < best * (1 - 1e-3) - 1e-9).mean(),
                "failed by 5%": (value < best * 0.95 - 1e-9).mean(),
            }
            row |= {"mixtures": mixed.mean() if method in self.tried else None}  # Algorithm 2 does not name them
            yield row | {"ms": 1e3 * seconds.mean(), "searches": len(value), "passes": self.passes}


@part("Searches in a cutting-plane run of slack rescaling")
def run(shrink: int = 1) -> Rows:
    tried = RIVALS["aistats16"] | ANGULAR | HULL
    for name, examples in (("Yeast", 160), ("RCV1, 50 labels", 160), ("Enron, 53 labels", 80)):
        yield from SearchesInARun(name, examples // shrink, tried, ANGLES_ONLY, LAM, EPSILON).rows()
    yield (
        f"160 examples of Yeast and of rcv1_topics, 80 of Enron, lam {LAM:g}, ε {EPSILON:g}, to the end of the run. "
        "Algorithm 2 alone on every 16th example. Milliseconds by roof duality."
    )


@part("Convex hull search in a cutting-plane run of slack rescaling")
def hull(shrink: int = 1) -> Rows:
    for name in ("Yeast", "RCV1, 30 labels"):
        yield from SearchesInARun(name, 80 // shrink, RIVALS["thesis"] | ANGULAR | HULL, {}, LAM, EPSILON).rows()
    yield f"80 examples of each set, lam {LAM:g}, ε {EPSILON:g}, to the end of the run. Milliseconds by roof duality."


@part("Success of the searches by lam and ε")
def success(shrink: int = 1) -> Rows:
    tried = RIVALS["aistats16"] | {"angular": ANGULAR["angular"]}
    yeast = [(lam, epsilon) for lam in (10.0, 1.0) for epsilon in (1.0, 0.1, 0.01, 0.001)] + [(0.1, 1.0), (0.1, 0.1)]
    rcv1 = [(lam, epsilon) for lam in (10.0, 1.0) for epsilon in (0.1, 0.01)]
    for name, level, grid in (("Yeast", 22.4, yeast), ("RCV1, 50 labels", 25.6, rcv1)):
        for lam, epsilon in grid:
            whole = SearchesInARun(name, 160 // shrink, tried, {}, lam, epsilon)
            share = {method: 100 * float(np.mean([one[3] for one in seen])) for method, seen in whole.seen.items()}
            row: Row = {"set": name, "lam": lam, "ε": epsilon, "passes": whole.passes}
            row |= {f"{method}, %": share[method] for method in ("angular", "bisecting", "sarawagi")}
            row |= {f"{method} / angular": share[method] / share["angular"] for method in ("bisecting", "sarawagi")}
            # A pass after the end adds none, and lowers all shares alike.
            yield row | {"passes to the paper's level": int(np.ceil(whole.passes * share["angular"] / level))}
    yield (
        "160 examples, each run to its end. The last column is the number of passes, those after the end of the run "
        "included, of which angular search succeeds in the paper's share."
    )


# ---- thesis Figures 4-7 to 4-17: trainers, whose `run` has the weights to be judged ----------------


class CuttingPlanes:
    """n-slack cutting planes: a pass looks for a label of every example, then the program is solved.

    `looking` and `solving` are the CPU seconds in the searches, and in the program with its Gram matrix. `ended` says
    whether the last pass found no label that exceeds its slack by ε.
    """

    def __init__(self, run: PairwiseRun, look: Search) -> None:
        self.run, self.look = run, look
        self.queries, self.looking, self.solving, self.ended = 0, 0.0, 0.0, False

    def find(self, examples: Iterable[int]) -> list[tuple[int, np.ndarray]]:
        found = []
        for k in examples:
            slack = self.run.slack(k)
            best = self.look(self.run.plane(k), max(slack, 1e-6), self.run.known(k), None)
            self.queries += best.queries
            if best.value > slack + EPSILON:
                found.append((k, np.asarray(best.label)))
        return found

    def add(self, found: list[tuple[int, np.ndarray]]) -> None:
        for k, z in found:
            self.run.add(k, z)
        if found:
            self.run.solve(drop=True)

    def visit(self, examples: Iterable[int]) -> None:
        found, looking = timed(lambda: self.find(examples))
        _, solving = timed(lambda: self.add(found))
        self.looking, self.solving, self.ended = self.looking + looking, self.solving + solving, not found


class Pegasos:
    """Stochastic subgradients of step 1 / (lam t), with the projection; judged is the mean of the steps, weighted by t.

    The weights of the optimum have ``lam/2 ||w||^2`` of at most the objective at 0, the number of labels: the ball of
    the projection.
    """

    def __init__(self, run: PairwiseRun) -> None:
        self.run, self.queries, self.t = run, 0, 0
        self.now, self.mean = ((np.zeros_like(run.unary), np.zeros_like(run.pairs)) for _ in range(2))

    def visit(self, examples: Iterable[int]) -> None:
        run = self.run
        run.unary, run.pairs = self.now
        for k in examples:
            self.t += 1
            best = search.angular(run.plane(k), rtol=1e-3)
            self.queries += best.queries
            for weights in self.now:
                weights *= 1.0 - 1.0 / self.t
            if best.value > 0.0:
                run.step(k, -run.cut(k, np.asarray(best.label))[0] / (run.lam * self.t))
            radius, size = 2.0 * run.labels / run.lam, run.squared()
            for weights, mean in zip(self.now, self.mean, strict=True):
                weights *= np.sqrt(min(1.0, radius / size)) if size else 1.0
                mean += 2.0 / (self.t + 1) * (weights - mean)
        run.unary, run.pairs = (mean.copy() for mean in self.mean)


class BlockFrankWolfe:
    """Block-coordinate Frank-Wolfe with its exact line search (Lacoste-Julien and others, 2013)."""

    def __init__(self, run: PairwiseRun) -> None:
        self.run, self.queries = run, 0
        self.own, self.height = np.zeros_like(run.truth), np.zeros(run.n)

    def visit(self, examples: Iterable[int]) -> None:
        run, labels = self.run, self.run.labels
        for k in examples:
            best = search.angular(run.plane(k), rtol=1e-3)
            self.queries += best.queries
            cut, loss = run.cut(k, np.asarray(best.label)) if best.value > 0.0 else (0.0 * self.own[k], 0.0)
            step = self.own[k] + cut / (run.lam * run.n)
            gap = run.lam * float(step @ run.score(k)) - self.height[k] + loss / run.n
            curve = float(step[:labels] @ step[:labels]) * run.products[k, k] + float(step[labels:] @ step[labels:])
            share = float(np.clip(gap / max(run.lam * curve, 1e-12), 0.0, 1.0))
            run.step(k, -share * step)
            self.own[k] -= share * step
            self.height[k] += share * (loss / run.n - self.height[k])


#: Passes after which objective and accuracy are evaluated; parts of the first one for those that go by example.
SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60)
TRAINERS: dict[str, Callable[[PairwiseRun], Any]] = {
    "CP, Sarawagi": lambda run: CuttingPlanes(run, RIVALS["aistats16"]["sarawagi"]),
    "CP, bisecting": lambda run: CuttingPlanes(run, RIVALS["aistats16"]["bisecting"]),
    "CP, angular": lambda run: CuttingPlanes(run, ANGULAR["angular"]),
    "BCFW": BlockFrankWolfe,
    "SGD": Pegasos,
}


@part("Objective and accuracy of slack rescaling by search and trainer")
def curves(shrink: int = 1) -> Rows:
    sets = ("Yeast", 320), ("Yeast", 640), ("Enron, 53 labels", 80), ("Enron, 53 labels", 160), ("RCV1, 50 labels", 160)
    for name, examples in sets:
        for method in TRAINERS:
            yield from curve(name, examples // shrink, method)
    yield (
        f"lam {LAM_OF_CURVES:g}, at most {SHOWN[-1]} passes; the accuracy is the mean overlap on at most 1,000 test "
        f"examples. Cutting planes drop labels that had no weight in {IDLE} programs in a row."
    )


def curve(name: str, examples: int, method: str) -> Rows:
    """Yield objective and accuracy by pass."""
    test = pairwise_data(name, "test", 1000)
    run = PairwiseRun(*pairwise_data(name, examples=examples), LAM_OF_CURVES)
    trainer, parts = TRAINERS[method](run), 1 if method.startswith("CP") else 4
    rng, seconds = np.random.default_rng(0), 0.0
    for turn in range(1, SHOWN[-1] + 1):
        order = rng.permutation(run.n)
        for number, some in enumerate(np.array_split(order, parts if turn == 1 else 1), 1):
            seconds += timed(partial(trainer.visit, some))[1]
            ended = getattr(trainer, "ended", False)
            if turn in SHOWN or ended:
                row = {"set": f"{name}, N = {examples}", "method": method, "queries": trainer.queries}
                row |= {"pass": turn - 1 + number / parts if turn == 1 else turn, "CPU s": seconds}
                row |= {"QP, CPU s": getattr(trainer, "solving", None)}
                yield row | {"objective": run.objective(), "accuracy": run.accuracy(*test)}
        if ended:
            break


@part("Time in the quadratic program of cutting planes")
def programs(shrink: int = 1) -> Rows:
    for examples in (40, 80, 160, 320, 640):
        run = PairwiseRun(*pairwise_data("Yeast", examples=examples // shrink))
        trainer, passes = CuttingPlanes(run, ANGULAR["angular"]), 0
        while not trainer.ended:
            trainer.visit(range(run.n))
            passes += 1
        row = {"set": "Yeast", "examples": run.n, "QP, CPU s": trainer.solving, "searches, CPU s": trainer.looking}
        row["QP, share in %"] = 100 * trainer.solving / (trainer.solving + trainer.looking)
        yield row | {"labels": run.qp.n_cuts, "passes": passes}
    yield (
        f"lam {LAM:g}, until no label exceeds its slack by {EPSILON:g}; Gram matrix included. `labels` are those of "
        f"the last program: without weight in {IDLE} programs in a row a label is dropped."
    )


# ---- thesis Figures 4-1 and 5-2 --------------------------------------------------------------------


@part("The labels of one example in the plane")
def snapshot() -> Rows:
    run = PairwiseRun(*pairwise_data("Yeast", examples=160))
    trainer = CuttingPlanes(run, ANGULAR["angular"])
    for _ in range(5):
        trainer.visit(range(run.n))
    k, m = 1, run.labels
    Z = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
    full = np.hstack([Z, Z[:, run.i] * Z[:, run.j]])
    h, g = 1.0 + (full - run.truth[k]) @ run.score(k), np.abs(Z - run.truth[k, :m]).sum(axis=1)
    for loss in np.unique(g):
        own = np.sort(h[g == loss])
        for value in own[np.unique(np.linspace(0, len(own) - 1, 40).astype(int))]:
            yield {"labels": "labels", "loss": float(loss), "1 + margin": float(value)}
    found = search.convex_hull(run.plane(k), Product())
    points = [("found by queries", step.point) for step in found.trace] + [("largest product", found.point)]
    for kind, point in points:
        if point is not None:
            yield {"labels": kind, "loss": float(point.g), "1 + margin": float(point.h)}
    yield (
        "Of the 16,384 labels of one example of Yeast at most 40 for each loss, evenly by margin, the lowest and "
        "highest among them; after five passes of cutting planes on 160 examples. The largest product may be a mixture."
    )


@part("Three labels of which one is seen at λ = 1 only")
def lemma13() -> Rows:
    """Search A = (2, 4), B = (4, 2) and C = (3 + e, 3), which only λ near 1 shows."""
    methods: dict[str, Callable[[Any], Any]] = {
        "bisecting": lambda plane: search.bisecting(plane, lam=0.3),
        "sarawagi": lambda plane: search.sarawagi(plane, 1.0),
        "convex_hull": lambda plane: search.convex_hull(plane, Product(), lam=0.3),
    }
    for e in (1e-1, 1e-3, 1e-5):
        for method, look in methods.items():
            result = look(PointPlane([(2, 4), (4, 2), (3 + e, 3)]))
            seen = next((q for q, step in enumerate(result.trace, 1) if step.incumbent > 8.5), None)
            row = {"e": e, "search": method, "queries": result.queries, "found by query": seen}
            yield row | {"product": float(result.value), "best": 3.0 * (3.0 + e)}
    yield "Explicit points; searches begin at λ = 0.3."


if __name__ == "__main__":
    main()

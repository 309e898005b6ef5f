"""Slack rescaling over the LP relaxation of fully pairwise models: working sets, their program, and three trainers.

The objective is ``lam/2 ||w||^2`` plus the mean over the examples of the largest ``loss * (1 + margin)``, the loss
being the number of wrong labels (AISTATS16, equation 4). A label, or a mixture of two, is a vector z of labels and
pairs. Its cut is linear in the weights: the change ``z - truth`` times the loss, whose label part multiplies the
features of its example. Two cuts thus have the inner product (label parts) * (features) + (pair parts), so that no cut
is ever written out as a vector of all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import process_time
from typing import Any

import numpy as np
from _data import load, unit_rows

import structopt as so
from structopt import search
from structopt.surrogates import Product
from structopt.train import SimplexQP

__all__ = ["BlockFrankWolfe", "CuttingPlanes", "PairwiseRun", "Pegasos", "Search", "check_oracle", "pairwise_data"]

#: A search of a plane, given the slack of the example, the labels found for it before and the λ at which its last
#: search ended.
Search = Callable[[Any, float, Any, float | None], Any]
#: Cuts without weight in so many solves in a row are dropped, where that is asked for.
IDLE = 20


def pairwise_data(name: str, split: str = "train", examples: int | None = None) -> tuple[Any, Any]:
    """Features with rows of norm 1, and labels; ``"RCV1, 50 labels"`` has the 50 most frequent ones."""
    folder = {"Yeast": "yeast", "Enron, 53 labels": "enron_flat"}.get(name, "rcv1_topics")
    X, Y = load(folder, split)
    if folder == "rcv1_topics":
        frequent = np.argsort(-load(folder, "train")[1].sum(axis=0), kind="stable")
        Y = Y[:, np.sort(frequent[: int(name.split()[1])])]
    return unit_rows(X).toarray()[:examples], Y[:examples].astype(float)


class PairwiseRun:
    """Weights of a pairwise model, and the working sets of its examples (n-slack cutting planes)."""

    def __init__(self, X: Any, Y: Any, lam: float, solver: str = "auto") -> None:
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
        """Coefficients of the score of an example's labels."""
        return np.concatenate([self.unary @ self.X[k], self.pairs])

    def plane(self, k: int) -> Any:
        """The (h, g) plane of an example, h = 1 + margin and g = Hamming loss."""
        return Product().plane(self.oracle, self.score(k), self.losses[k], self.truth[k])

    def cut(self, k: int, z: np.ndarray) -> tuple[np.ndarray, float]:
        """``cut @ score(k) + loss`` is the label's ``loss * (1 + margin)``."""
        change = z - self.truth[k]
        loss = float(np.abs(change[: self.labels]).sum())
        return loss * change, loss

    def known(self, k: int) -> list[np.ndarray]:
        """The working set of an example."""
        return [self.found[u] for u in self.own[k]]

    def slack(self, k: int) -> float:
        own = self.own[k]
        return float(max(0.0, (self.cuts[own] @ self.score(k) + self.qp.b[own]).max(initial=0.0)))

    def add(self, k: int, z: np.ndarray) -> None:
        """A label joins the working set of its example."""
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
        """The quadratic program over all working sets, and the weights that belong to it."""
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

    def objective(self) -> float:
        """At the current weights, by an exact search of every example."""
        values = [search.exact(self.plane(k), Product(), rtol=1e-3).value for k in range(self.n)]
        return 0.5 * self.lam * squared(self.unary, self.pairs) + float(np.mean(values))

    def accuracy(self, X: Any, Y: Any) -> float:
        """Mean overlap of rounded predictions with the labels."""
        from sklearn.metrics import jaccard_score

        unary = np.hstack([X, np.ones((len(X), 1))]) @ self.unary.T
        Z = self.oracle.solve_batch(np.hstack([unary, np.tile(self.pairs, (len(X), 1))])).Z
        return float(jaccard_score(Y, Z[:, : self.labels] > 0.5, average="samples", zero_division=0))


def squared(unary: np.ndarray, pairs: np.ndarray) -> float:
    """The squared norm of the weights."""
    return float(np.vdot(unary, unary) + pairs @ pairs)


def check_oracle(run: PairwiseRun, examples: Iterable[int]) -> None:
    """Queries and values of a search by the package's own algorithm are those by HiGHS."""
    fast, slow = run.oracle, so.Oracle(run.oracle.space, solver="highs", integral="relax")
    for k in examples:
        answers = []
        for run.oracle in (slow, fast):
            found = search.angular(run.plane(k), rtol=1e-3)
            answers.append((found.queries, found.value))
        assert answers[0][0] == answers[1][0] and np.isclose(answers[0][1], answers[1][1], rtol=1e-6), answers


# ---- trainers: each has a `run`, whose weights are those to be judged --------------------------------


class CuttingPlanes:
    """n-slack cutting planes: a pass looks for a label of every example, then the program is solved.

    Attributes
    ----------
    queries : int
    looking, solving : float
        CPU seconds in the searches, and in the program with its Gram matrix.
    ended : bool
        Whether the last pass found no label that exceeds its slack by `epsilon`.
    """

    def __init__(self, run: PairwiseRun, look: Search, epsilon: float) -> None:
        self.run, self.look, self.epsilon = run, look, epsilon
        self.queries, self.looking, self.solving, self.ended = 0, 0.0, 0.0, False

    def visit(self, examples: Iterable[int]) -> None:
        run, begun, found = self.run, process_time(), []
        for k in examples:
            slack = run.slack(k)
            best = self.look(run.plane(k), max(slack, 1e-6), run.known(k), None)
            self.queries += best.queries
            if best.value > slack + self.epsilon:
                found.append((k, np.asarray(best.label)))
        middle = process_time()
        for k, z in found:
            run.add(k, z)
        if found:
            run.solve(drop=True)
        self.looking += middle - begun
        self.solving += process_time() - middle
        self.ended = not found


class Pegasos:
    """Stochastic subgradients of step 1 / (lam t), with the projection; judged is the mean of the steps, weighted by t.

    The weights of the optimum have ``lam/2 ||w||^2`` of at most the objective at 0, the number of labels: the ball of
    the projection.
    """

    def __init__(self, run: PairwiseRun) -> None:
        self.run, self.queries, self.t = run, 0, 0
        self.now, self.mean = ((np.zeros_like(run.unary), np.zeros_like(run.pairs)) for _ in range(2))

    def visit(self, examples: Iterable[int]) -> None:
        run, (unary, pairs) = self.run, self.now
        for k in examples:
            self.t += 1
            run.unary, run.pairs = unary, pairs
            best = search.angular(run.plane(k), rtol=1e-3)
            self.queries += best.queries
            for part in self.now:
                part *= 1.0 - 1.0 / self.t
            if best.value > 0.0:
                cut = run.cut(k, np.asarray(best.label))[0] / (run.lam * self.t)
                unary -= np.outer(cut[: run.labels], run.X[k])
                pairs -= cut[run.labels :]
            radius, size = 2.0 * run.labels / run.lam, squared(unary, pairs)
            for part, mean in zip(self.now, self.mean, strict=True):
                part *= np.sqrt(min(1.0, radius / size)) if size else 1.0
                mean += 2.0 / (self.t + 1) * (part - mean)
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
            step *= share
            run.unary -= np.outer(step[:labels], run.X[k])
            run.pairs -= step[labels:]
            self.own[k] -= step
            self.height[k] += share * (loss / run.n - self.height[k])

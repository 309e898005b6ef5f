"""Regularised risk minimisation against LIBLINEAR, a sort and a theorem: ratios measured in one run.

    python benchmarks/risks.py [--quick] [hinge] [roc] [iterations]

1. binary hinge to a certified relative gap of 1e-3 with `LinearSVM` (trainer="auto"; line-search BMRM and coordinate
   descent beside it) against LIBLINEAR (scikit-learn's `LinearSVC`) at the loosest `tol` whose primal objective is
   within 1e-3 of our lower bound; dense, sparse, and a9a (data beside the checkout, or where STRUCTOPT_DATA says);
2. the area under the ROC curve of 10^6 examples against one sort and two matrix products;
3. passes of BMRM against lam and eps, beside the bound of BMRM's Theorem 5 (what its Figure 4 plots).

All times are CPU seconds of the process, with one BLAS thread; compilation is not counted. `--quick` leaves out the
problems that take LIBLINEAR longer than some seconds.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from structopt.estimators import LinearSVM
from structopt.risks import Hinge, Logistic, ROCArea
from structopt.train import Risk, bmrm

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
GAP = 1e-3


def timed(work: Callable[[], Any], repeat: int = 1) -> tuple[Any, float]:
    """The result, and the fewest CPU seconds of some runs."""
    fewest = math.inf
    for _ in range(repeat):
        begun = process_time()
        result = work()
        fewest = min(fewest, process_time() - begun)
    return result, fewest


def fit_seconds(estimator: Any, X: Any, y: np.ndarray) -> float:
    """CPU seconds of a fit; the fewest of three where they are few."""
    first = timed(lambda: estimator.fit(X, y))[1]
    return first if first > 2 else min(first, timed(lambda: estimator.fit(X, y), 2)[1])


def a9a() -> tuple[Any, np.ndarray]:
    with np.load(DATA / "a9a" / "train.npz") as file:
        X = sp.csr_matrix((file["X_data"], file["X_indices"], file["X_indptr"]), shape=tuple(file["X_shape"]))
        return X.astype(np.float64), np.where(file["y"] > 0, 1, -1)


def dense(n: int = 20_000, d: int = 500) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, _noisy_signs(X @ rng.normal(size=d), rng)


def sparse(n: int = 100_000, d: int = 50_000, per_row: int = 50) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    bounds = np.arange(0, n * per_row + 1, per_row)
    X = sp.csr_matrix((rng.normal(size=n * per_row), rng.integers(0, d, n * per_row), bounds), shape=(n, d))
    X.sum_duplicates()
    return X, _noisy_signs(X @ rng.normal(size=d), rng)


def _noisy_signs(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(f / f.std() + 0.5 * rng.normal(size=len(f)) > 0, 1, -1)


def liblinear(X: Any, y: np.ndarray, lam: float, lower_bound: float) -> tuple[float, float]:
    """CPU seconds and `tol` of the first run, from loose to tight, whose primal is within the gap of our bound."""
    for tol in (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 5e-3, 2e-3, 1e-3, 5e-4, 1e-4):
        svc = LinearSVC(
            loss="hinge",
            dual=True,
            C=1 / (lam * len(y)),
            tol=tol,
            fit_intercept=False,
            max_iter=100_000,
            random_state=0,
        )
        seconds = fit_seconds(svc, X, y)
        w = svc.coef_.ravel()
        objective = lam / 2 * float(w @ w) + float(np.maximum(1 - y * (X @ w), 0).mean())
        if objective - lower_bound <= GAP * objective:
            return seconds, tol
    return math.nan, math.nan


def hinge(quick: bool) -> None:
    print(f"binary hinge to a certified gap of {GAP:g}: CPU seconds (passes), and the ratio of auto to LIBLINEAR")
    print(
        f"{'problem':>22} {'lam':>7} {'LIBLINEAR (tol)':>17} {'auto':>17} {'line-search BMRM':>17} "
        f"{'coordinate':>17} {'ratio':>6} limit"
    )
    problems: list[tuple[str, Callable[[], Any], tuple[float, ...], float]] = [
        ("a9a", a9a, (1e-3, 1e-4, 1e-5), 1.5),
        ("sparse 100k x 50k", sparse, (1e-4,) if quick else (1e-4, 1e-5), 1.5),
        ("dense 20k x 500", dense, (1e-3,) if quick else (1e-3, 1e-4), 0.5),
    ]
    for name, make, lams, limit in problems:
        if make is a9a and not (DATA / "a9a").exists():
            print(f"{name:>22}  skipped: the data sets are not beside the checkout (set STRUCTOPT_DATA)")
            continue
        X, y = make()
        for trainer in ("bmrm", "coordinate"):
            LinearSVM(trainer=trainer, fit_intercept=False, lam=1.0).fit(X[:200], y[:200])  # compiles
        for lam in lams:
            cells, bounds, seconds = [], [], {}
            for trainer in ("auto", "bmrm", "coordinate"):
                svm = LinearSVM(lam=lam, tol=GAP, trainer=trainer, fit_intercept=False)
                seconds[trainer] = fit_seconds(svm, X, y)
                assert svm.result_.converged
                bounds.append(svm.result_.lower_bound)
                cells.append(f"{seconds[trainer]:9.3f} ({svm.result_.passes:5.0f})")
            theirs, tol = liblinear(X, y, lam, max(bounds))
            print(
                f"{name:>22} {lam:7.0e} {theirs:9.3f} ({tol:5g}) {' '.join(f'{cell:>17}' for cell in cells)} "
                f"{seconds['auto'] / theirs:6.2f} {limit}",
                flush=True,
            )


def roc() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(1_000_000, 20)), rng.normal(size=20)
    y = _noisy_signs(X @ w, rng)
    risk, g = ROCArea(X, y), rng.normal(size=len(y))
    risk(w)
    _, ours = timed(lambda: risk(w), 3)
    f = X @ w
    products = timed(lambda: (X @ w, g @ X), 3)[1]
    for kind, sort in (("argsort", np.argsort), ("sort", np.sort)):
        base = products + timed(lambda sort=sort: sort(f), 3)[1]
        print(
            f"ROC area, 10^6 x 20: {ours:.3f} s against one {kind} and two products {base:.3f} s: {ours / base:.2f} x"
        )
    print("(limit 3)")


def iterations() -> None:
    """Passes to an absolute gap eps; Theorem 5: at most log2(lam J(0) / G^2) + 8 G^2 / (lam eps) - 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 50)) / math.sqrt(50)
    y = _noisy_signs(X @ rng.normal(size=50), rng)
    G2 = float(np.linalg.norm(X, axis=1).mean() ** 2)
    epsilons = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    lams = (1e-1, 1e-2, 1e-3, 1e-4)
    methods: dict[str, dict[str, Any]] = {
        "Algorithm 2": {"theta": 1.0, "line_search": False},
        "theta = 0.1": {"line_search": False},
        "line search": {"line_search": True},
    }
    for loss in (Hinge, Logistic):
        print(
            f"\npasses of BMRM to an absolute gap eps, {loss.__name__} (Theorem 5's bound for eps = {epsilons[-1]:g})"
        )
        print(f"{'':>12} {'lam':>7} " + " ".join(f"{'eps ' + format(e, 'g'):>10}" for e in epsilons) + f" {'bound':>9}")
        for name, options in methods.items():
            needed = np.array([_passes(loss(X, y), lam, epsilons, options) for lam in lams])
            for lam, row in zip(lams, needed, strict=True):
                start = loss(X, y)(np.zeros(50))[0]
                bound = max(math.log2(lam * start / G2), 0.0) + 8 * G2 / (lam * epsilons[-1]) - 1
                assert row[-1] <= bound
                print(f"{name:>12} {lam:7g} " + " ".join(f"{n:10d}" for n in row) + f" {bound:9.2g}")
            by_lam = np.polyfit(-np.log(lams), np.log(needed[:, 2]), 1)[0]
            by_eps = np.polyfit(-np.log(epsilons), np.log(needed[2]), 1)[0]
            print(f"{name:>12} passes grow like (1/lam)^{by_lam:.2f} at eps 1e-3, (1/eps)^{by_eps:.2f} at lam 1e-3")


def _passes(risk: Risk, lam: float, epsilons: np.ndarray, options: dict[str, Any]) -> list[int]:
    def close(result: Any) -> bool:
        return bool(result.absolute_gap <= epsilons[-1])

    result = bmrm(risk, lam=lam, tol=0.0, callback=close, **options)
    gap = result.history["objective"] - result.history["lower_bound"]
    return [1 + int(np.argmax(gap <= epsilon)) for epsilon in epsilons]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["hinge", "roc", "iterations"])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        if "hinge" in arguments.parts:
            hinge(arguments.quick)
        if "roc" in arguments.parts:
            roc()
        if "iterations" in arguments.parts:
            iterations()


if __name__ == "__main__":
    main()

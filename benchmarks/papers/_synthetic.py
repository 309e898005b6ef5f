"""Table 3 of NHSVM: four hierarchical SVMs on the two synthetic sets.

The paper tries ``lambda = 10^-8, ..., 10^2`` in its objective (2), ``lambda ||w||^2 + sum_i loss_i``: here
``lam = 2 lambda / n``. All methods have the same grid and are trained until the gap is small or 200 passes are over:
with fewer, the flat SVM stops far from its optimum where it is best. Left out are the values where nothing changes any
more: below 10^-4 no method gets to its optimum in 200 passes, and on the balanced set all below 1 are the same (seen
of HSVM, and of the directional weights: 63.24 at 1, 63.27 at 0.1).

The paper chooses lambda, and of NHSVM the variant, on held-out examples in each repetition. Here the choice is made
once for all repetitions, on other draws (`PILOTS`) of the same size, and each draw of the table is trained once: a
fraction of the time, and the choice adds no noise. The pilots take more than half an hour of one core for each set, a
draw with ``--chosen``, which takes what the pilots chose before (`CHOSEN`), a minute.

The balanced set is drawn with node vectors of one distribution, and NHSVM's max-min weights are the same for all nodes
but the root, too: there is nothing left for SSVM to learn, and a tie is what to expect.

What the paper calls SSVM is not one method: its text has an error "Delta" that it does not define, and its Algorithm 1
does not minimise the norm that it is for. So the error (0/1, or (9) at the weights of the start), the
algorithm (corrected, or its line 9 as printed) and the number of rounds are chosen on the pilots, too, and a second
row, "SSVM, optimal", has the method as its text defines it: 0/1 error, corrected algorithm, until the objective stands
still.

The paper does not say how many of the examples it trains on. Its table of data has 8K balanced examples, its text
15,000; `TRAIN` is three quarters of 8K, where the flat SVM is about as good as in the paper; the rest is for testing.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from _bench import Rows, Table, resumed
from scipy import stats

import structopt as so

METHODS = ("SSVM", "NHSVM", "NHSVM, directional", "HSVM", "flat", "SSVM, optimal")
COMPARED = (
    ("SSVM", "NHSVM"),
    ("NHSVM", "HSVM"),
    ("NHSVM", "flat"),
    ("SSVM", "HSVM"),
    ("SSVM", "flat"),
    ("HSVM", "flat"),
    ("NHSVM", "NHSVM, directional"),
    ("SSVM", "SSVM, optimal"),
)
#: More of the balanced set, where methods and variants differ by tenths.
PILOTS = {"balanced": range(1000, 1010), "unbalanced": range(1000, 1003)}
TRAIN = {"balanced": 6000, "unbalanced": 8000}
# "For NHSVM is tested with rho = 2, and rho = 1 in (10) and (13)": rho = 1 is (7).
VARIANTS = {
    "NHSVM": ("NHSVM rho", "NHSVM rho (13)", "NHSVM maxmin", "NHSVM maxmin (13)"),
    "SSVM": ("SSVM optimal 0/1 2", "SSVM optimal (9) 2", "SSVM published 0/1 4", "SSVM published (9) 4"),
    "NHSVM, directional": ("NHSVM directional", "NHSVM directional (13)"),
    "SSVM, optimal": ("SSVM optimal 0/1 20",),
}
#: Variant and lambda that the pilots chose, in the order of `METHODS`: of all variants and values of lambda, for SSVM
#: of those from 10 to 1 (balanced) and from 0.1 to 0.001 (unbalanced). The lambda of "SSVM, optimal" suits two rounds.
CHOSEN = {
    "balanced": (
        ("SSVM published 0/1 4", 1e0),
        ("NHSVM maxmin", 1e0),
        ("NHSVM directional", 1e0),
        ("HSVM", 1e0),
        ("flat", 1e0),
        ("SSVM optimal 0/1 20", 1e0),
    ),
    "unbalanced": (
        ("SSVM published (9) 4", 1e-2),
        ("NHSVM rho", 1e-2),
        ("NHSVM directional", 1e-4),
        ("HSVM", 1e-4),
        ("flat", 1e-4),
        ("SSVM optimal 0/1 20", 1e-1),
    ),
}
LAMBDAS = {"balanced": (1e2, 1e1, 1e0), "unbalanced": (1e2, 1e1, 1e0, 1e-1, 1e-2, 1e-3, 1e-4)}


def synthetic(kinds: tuple[str, ...] = ("unbalanced", "balanced"), seeds: int = 20, chosen: bool = False) -> Rows:
    """Yield the table, and its differences in pairs."""
    pairs: list[Any] = []
    for kind in kinds:
        taken = CHOSEN[kind] if chosen else [chosen_by_pilots(kind, name) for name in METHODS]
        # All methods of a draw, then the next draw: it is generated once.
        table = 100 * np.array([[accuracy(kind, seed, *one) for one in taken] for seed in range(seeds)]).T
        for name, own, (variant, weight) in zip(METHODS, table, taken, strict=True):
            row = {"set": kind, "method": name, "accuracy": own.mean(), "sd": own.std(ddof=1), "draws": len(own)}
            yield row | {"variant": variant, "lambda": weight}
        column = dict(zip(METHODS, table, strict=True))
        for first, second in COMPARED:
            mean = float((column[first] - column[second]).mean())
            p = float(stats.ttest_rel(column[first], column[second]).pvalue)
            # A tie unless a paired t-test tells the two apart at 5%.
            who = "tie" if not p < 0.05 else first if mean > 0 else second
            pairs.append({"set": kind, "pair": f"{first} - {second}", "difference": mean, "p": p, "better": who})
    yield Table("synthetic_pairs", "Differences on the same draws", pairs)


def chosen_by_pilots(kind: str, name: str) -> tuple[str, float]:
    """Return the variant and the lambda with the best mean accuracy on the pilots."""
    tried = product(VARIANTS.get(name, (name,)), LAMBDAS[kind])
    return max(tried, key=lambda one: float(np.mean([accuracy(kind, seed, *one) for seed in PILOTS[kind]])))


@lru_cache(1)
def drawn(kind: Any, seed: int) -> Any:
    return so.data.synthetic_hierarchy(kind, random_state=seed)


def accuracy(kind: str, seed: int, name: str, weight: float) -> float:
    """Return the accuracy of a trained model on the rest of its draw; `weight` is the paper's lambda."""

    def train() -> float:
        toy, n = drawn(kind, seed), TRAIN[kind]
        svm = method(name, toy.hierarchy, 2.0 * weight / n).fit(toy.X[:n], toy.y[:n])
        return round(float(svm.score(toy.X[n:], toy.y[n:])), 5)

    return resumed(["synthetic", kind, seed, name, weight], train)


def method(name: str, h: so.Hierarchy, lam: float) -> Any:
    options: dict[str, Any] = {"lam": lam, "tol": 0.05, "max_passes": 200, "intercept": False}
    if name.startswith("SSVM"):
        shares: Any
        _, shares, error, rounds = name.split()
        margin: Any = "normalized" if error == "(9)" else "leaf"
        return so.SharedSVM(h, margin=margin, shares=shares, max_rounds=int(rounds), rounds_tol=1e-2, **options)
    weights: Any = {"HSVM": "none", "flat": "flat"}.get(name) or name.split()[1]
    return so.HierarchicalSVM(h, weights, divided="(13)" in name, **options)

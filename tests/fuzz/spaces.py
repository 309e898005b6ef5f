"""Random small spaces by every solver that pip installs, against a list of all their labels.

Binary, integer, continuous (determined by the others) and fixed variables, equalities and ranges, coefficients from
1e-4 to 1e6, empty and unbounded spaces, switches ``x <= M y``; costs from 1e-12 to 1e12; plain calls, rows, no-goods,
k best and batches.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import scipy.sparse as sp

import structopt as so
from structopt.errors import InfeasibleSpace, NoGoodNotExpressible, SolverFailed, UnboundedObjective
from structopt.space.compiled import CompiledSpace
from structopt.space.feasibility import contains, violations

IN_PROCESS = ["auto", "highs", "highs-exact", "highs-ipm", "scipy"]
#: A program is started for every call: a few are enough.
PROGRAMS = ["cbc", "pyomo-highs", "pyomo-cbc"]
#: Relative error of the values, by solver; files carry eight digits.
ERRORS = {"cbc": 1e-6, "pyomo-cbc": 1e-6, "pyomo-highs": 1e-6}


class Case:
    """A space with the list of its labels, known without a solver."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        n = int(rng.integers(1, 7))
        m = int(rng.integers(0, 5))
        self.lower, self.upper = self._ranges(n)
        scale = 10.0 ** rng.integers(-4, 7) if rng.random() < 0.3 else 1.0
        matrix = rng.integers(-4, 5, (m, n)) * (rng.random((m, n)) < 0.7)
        if rng.random() < 0.3:
            matrix = matrix * rng.choice([1.0, 0.5, 2.5], (m, n))
        rows = matrix.astype(float)
        ranges = [range(int(a), int(b) + 1) for a, b in zip(self.lower, self.upper, strict=True)]
        points = np.array(list(itertools.product(*ranges)), dtype=float)
        activity = points @ rows.T
        anchor = int(rng.integers(len(points))) if rng.random() < 0.8 else None  # most spaces hold a label
        low, up = np.full(m, -np.inf), np.full(m, np.inf)
        for i in range(m):
            kind = rng.choice(["<=", ">=", "=", "range"], p=[0.45, 0.2, 0.15, 0.2])
            # Between two values that occur, or at one: no label is closer to a row's end than a quarter.
            at = float(rng.choice(activity[:, i]) if anchor is None else activity[anchor, i])
            if kind != "=":
                at += 0.125 * float(rng.integers(-1, 2) if anchor is None else rng.integers(0, 2))
            if kind in ("<=", "range"):
                up[i] = at
            if kind in (">=", "range"):
                low[i] = at - (float(rng.integers(1, 6)) if kind == "range" else 0.25)
            if kind == "=":
                low[i] = up[i] = at
        inside = ((activity >= low - 1e-9) & (activity <= up + 1e-9)).all(axis=1)
        self.labels = points[inside]
        units = np.where(rng.random(m) < 0.5, scale, 1.0)
        self.integer = np.ones(n, dtype=bool)
        self.rows, self.low, self.up = rows * units[:, None], low * units, up * units
        self._add_determined()
        self.space = CompiledSpace(
            sp.csr_array(self.rows), self.low, self.up, self.lower, self.upper, self.integer,
            [f"z[{j}]" for j in range(self.rows.shape[1])], [f"row[{i}]" for i in range(self.rows.shape[0])],
        )  # fmt: skip

    def _ranges(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        kinds = self.rng.choice(["binary", "integer", "fixed"], n, p=[0.7, 0.2, 0.1])
        lower = np.where(kinds == "binary", 0, self.rng.integers(-3, 3, n)).astype(float)
        width = np.where(kinds == "binary", 1, np.where(kinds == "fixed", 0, self.rng.integers(1, 5, n)))
        return lower, lower + width

    def _add_determined(self) -> None:
        """A continuous variable that follows from the others: a multiple of one, or a switch of it."""
        if self.rng.random() >= 0.4:
            return
        n = self.rows.shape[1]
        j = int(self.rng.integers(n))
        factor = float(self.rng.choice([0.5, 3.0, 1e4, 1e7, 1e9]))
        self.rows = np.hstack([self.rows, np.zeros((len(self.rows), 1))])
        row = np.zeros((1, n + 1))
        row[0, j], row[0, n] = -factor, 1.0
        values = factor * self.labels[:, j] if len(self.labels) else np.zeros(0)
        ends = factor * np.array([self.lower[j], self.upper[j]])
        self.switch = bool(self.lower[j] == 0 and self.rng.random() < 0.5)
        if self.switch:  # x <= M y with x in [0, 2]: the best x is 0 or 2, by the sign of its cost
            self.low, self.up = np.append(self.low, -np.inf), np.append(self.up, 0.0)
            top = min(2.0, factor)
            self.lower, self.upper = np.append(self.lower, 0.0), np.append(self.upper, top)
            most = np.where(values > 0, np.minimum(values, top), 0.0)
            self.labels = np.vstack([np.column_stack([self.labels, x]) for x in (np.zeros(len(most)), most)])
        else:
            self.low, self.up = np.append(self.low, 0.0), np.append(self.up, 0.0)
            self.lower, self.upper = np.append(self.lower, ends.min()), np.append(self.upper, ends.max())
            self.labels = np.column_stack([self.labels, values])
        self.rows = np.vstack([self.rows, row])
        self.integer = np.append(self.integer, False)

    def costs(self) -> np.ndarray:
        n = self.rows.shape[1]
        c = self.rng.integers(-6, 7, n).astype(float) if self.rng.random() < 0.5 else self.rng.normal(size=n)
        # A determined variable of 1e9 shall not drown the others.
        c /= np.maximum(1.0, np.maximum(np.abs(self.lower), np.abs(self.upper)) / 5.0)
        return c * 10.0 ** self.rng.integers(-12, 13)


def check(case: Case, label: Any, costs: np.ndarray, best: float, error: float, what: str) -> None:
    told = (
        f"{what}: {case.rows.tolist()} in [{case.low.tolist()}, {case.up.tolist()}], "
        f"z in [{case.lower.tolist()}, {case.upper.tolist()}], costs {costs.tolist()}, "
        f"label {label.z.tolist()}, {label}"
    )
    assert contains(case.space, label.z), f"no label, {violations(case.space, label.z)}: {told}"
    size = float(np.abs(costs) @ np.maximum(np.abs(label.z), 1.0))
    value = float(costs @ label.z)
    assert abs(value - label.value) <= 1e-9 * size, f"value {label.value}, not {value}: {told}"
    assert abs(value - best) <= error * size, f"value {value}, best {best}: {told}"
    assert label.bound >= best - 1e-9 * size, f"bound {label.bound} below {best}: {told}"
    assert label.status == "optimal", told


def case(seed: int) -> str:
    """One space, one solver, one kind of call."""
    rng = np.random.default_rng(seed)
    made = Case(rng)
    solver = str(rng.choice(IN_PROCESS)) if rng.random() < 0.97 or os.name != "posix" else str(rng.choice(PROGRAMS))
    integral = str(rng.choice(["auto", "auto", "force"]))
    error = ERRORS.get(solver, 1e-8)
    if rng.random() < 0.03:
        return unbounded(made, solver)
    oracle = so.Oracle(made.space, solver, integral=integral)
    kind = str(rng.choice(["plain", "rows", "forbid", "k_best", "batch"]))
    costs = made.costs()
    labels = made.labels
    what = f"seed {seed}, {solver}, {integral}, {kind}"
    if not len(labels):
        try:
            found = oracle.maximize(costs)
        except InfeasibleSpace:
            return f"{kind}, empty"
        raise AssertionError(f"{what}: an empty space has the label {found.z}")
    values = labels @ costs
    if kind == "plain":
        check(made, oracle.maximize(costs, key=1), costs, values.max(), error, what)
        check(made, oracle.maximize(costs, key=1), costs, values.max(), error, what + " again")
    elif kind == "rows":
        # Free of labels near its end, so that nobody's tolerance decides.
        a = np.where(made.integer, rng.integers(-3, 4, made.rows.shape[1]), 0).astype(float)
        unit = 10.0 ** float(rng.integers(-9, 7))
        activity = labels @ a
        end = float(rng.choice(activity)) + 0.25
        allowed = activity <= end
        if allowed.any():
            found = oracle.maximize(costs, rows=[(a * unit, -np.inf, end * unit)])
            assert a @ found.z <= end, f"{what}: row {a} <= {end} broken by {found.z}"
            check(made, found, costs, values[allowed].max(), error, what)
        check(made, oracle.maximize(costs), costs, values.max(), error, what + " after rows")
    elif kind in ("forbid", "k_best") and len(np.unique(labels[:, made.integer], axis=0)) < 60:
        ranked = _best_by_integers(made, values)
        k = int(rng.integers(1, 5))
        try:
            found = oracle.k_best(costs, k)
        except NoGoodNotExpressible:
            return f"{kind}, not expressible"
        except SolverFailed as error:  # CBC ends with a wrong optimum next to coefficients of 1e9, which is noticed
            if solver in PROGRAMS and "where HiGHS has a label" in str(error):
                return f"{kind}, {solver} was wrong and refused"
            raise
        assert len(found) == min(k, len(ranked)), f"{what}: {len(found)} labels of {len(ranked)}, {k} asked for"
        for label, best in zip(found, ranked, strict=False):
            check(made, label, costs, best, error, what)
    else:
        batch = np.array([made.costs() for _ in range(3)])
        for label, c in zip(oracle.maximize_batch(batch, int(rng.integers(1, 3))), batch, strict=True):
            check(made, label, c, (labels @ c).max(), error, what)
    return f"{kind}, {oracle.algorithm}"


def _best_by_integers(made: Case, values: np.ndarray) -> list[float]:
    """The best value of each assignment of the integer variables, in decreasing order."""
    _, which = np.unique(made.labels[:, made.integer], axis=0, return_inverse=True)
    best = np.full(which.max() + 1, -np.inf)
    np.maximum.at(best, which.ravel(), values)
    return sorted(best.tolist(), reverse=True)


def unbounded(made: Case, solver: str) -> str:
    """The same space with a variable that nothing holds."""
    n = made.rows.shape[1]
    space = CompiledSpace(
        sp.csr_array(np.hstack([made.rows, np.zeros((len(made.rows), 1))])), made.low, made.up,
        np.append(made.lower, 0.0), np.append(made.upper, np.inf),
        np.append(made.integer, bool(made.rng.random() < 0.5)),
        [f"z[{j}]" for j in range(n + 1)], [f"row[{i}]" for i in range(len(made.rows))],
    )  # fmt: skip
    try:
        label = so.Oracle(space, solver).maximize(np.append(made.costs(), 1.0))
    except UnboundedObjective:
        assert len(made.labels), "an empty space was called unbounded"
        return "unbounded"
    except InfeasibleSpace:
        assert not len(made.labels), "a space with labels was called empty"
        return "unbounded, empty"
    raise AssertionError(f"{solver}: an unbounded objective has the label {label.z}")

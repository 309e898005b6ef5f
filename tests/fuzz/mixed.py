"""Small mixed-integer programs by every solver in this process, against an LP for each assignment of the integers.

Coefficients of 1 in rows of several units, equalities, fixed variables, continuous ones that nothing determines: what
presolve rewrites most, and where that of HiGHS has been wrong.
"""

from __future__ import annotations

import itertools

import highspy
import numpy as np

import structopt as so
from structopt.errors import InfeasibleSpace

SOLVERS = ["auto", "highs", "highs-exact", "highs-ipm", "scipy"]


class Program:
    """A mixed program with a point inside, mostly."""

    def __init__(self, rng: np.random.Generator) -> None:
        n, m = int(rng.integers(3, 7)), int(rng.integers(1, 6))
        units = rng.choice([1.0, 2.0, 3.0, 0.5], (m, 1))
        self.A = rng.integers(-1, 2, (m, n)) * (rng.random((m, n)) < 0.7) * units
        self.A[np.arange(m), rng.integers(0, n, m)] = units[:, 0]  # no row without a variable
        if rng.random() < 0.2:
            self.A *= rng.choice([1.0, 2.0, 5.0], (m, n))
        self.lower = np.where(rng.random(n) < 0.8, 0, rng.integers(-2, 1, n)).astype(float)
        self.upper = self.lower + rng.integers(1, 3, n)
        fixed = rng.random(n) < rng.choice([0.0, 0.3, 0.3])
        self.lower[fixed] = self.upper[fixed]
        self.integer = rng.random(n) < rng.choice([0.3, 0.5, 0.7])
        self.integer[int(rng.integers(n))] = True
        at = self.A @ rng.integers(self.lower, self.upper + 1)
        at += units[:, 0] * (rng.random(m) < 0.1)  # now and then nothing is inside
        equal = rng.random(m) < 0.7
        self.low, self.up = np.where(equal, at, -np.inf), at

    def space(self) -> so.LabelSpace:
        return so.LabelSpace.from_matrices(
            self.A, self.low, self.up, lower=self.lower, upper=self.upper, integrality=self.integer
        )

    def best(self, c: np.ndarray) -> float:
        """The optimum by listing the integers; -inf if nothing is inside."""
        whole = np.flatnonzero(self.integer)
        n = len(c)
        highs = highspy.Highs()
        highs.silent()
        for low, up, cost in zip(self.lower, self.upper, c, strict=True):
            highs.addCol(-cost, low, up, 0, [], [])
        for row, low, up in zip(self.A, self.low, self.up, strict=True):
            highs.addRow(low, up, n, np.arange(n, dtype=np.int32), row)
        best = -np.inf
        for values in itertools.product(*(range(int(self.lower[j]), int(self.upper[j]) + 1) for j in whole)):
            for j, value in zip(whole, values, strict=True):
                highs.changeColBounds(int(j), value, value)
            highs.run()
            if highs.getModelStatus() == highspy.HighsModelStatus.kOptimal:
                best = max(best, -highs.getObjectiveValue())
        return best


def case(seed: int) -> str:
    """One program, one solver, two objectives."""
    rng = np.random.default_rng(seed)
    program = Program(rng)
    space = program.space()
    solver, integral = str(rng.choice(SOLVERS)), str(rng.choice(["auto", "force", "force"]))
    oracle = so.Oracle(space, solver, integral=integral)
    word = "infeasible"
    for _ in range(2):
        c = rng.normal(size=space.n_variables) * (rng.random(space.n_variables) < 0.8)
        best = program.best(c)
        told = (
            f"{solver}, {integral}: A={program.A.tolist()}, rows [{program.low.tolist()}, {program.up.tolist()}], "
            f"bounds [{program.lower.tolist()}, {program.upper.tolist()}], integer {program.integer.tolist()}, "
            f"costs {c.tolist()}, best {best}"
        )
        try:
            label = oracle.maximize(c)
        except InfeasibleSpace:
            assert best == -np.inf, f"called infeasible: {told}"
            continue
        word = "solved"
        assert space.contains(label.z), f"no label: {label.z}, {told}"
        size = 1e-7 * (1.0 + float(np.abs(c).sum()))
        assert abs(label.value - best) <= size, f"{label.value}: {told}"
        assert label.bound >= best - size, f"bound {label.bound}: {told}"
    return f"{oracle.algorithm}, {integral}, {word}"

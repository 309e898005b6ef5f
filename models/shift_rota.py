"""A rota of nurses, declared in Pyomo: learn what a planner weighs from the rotas of past weeks.

Every shift has exactly one nurse, nobody works twice a day, an early shift does not follow a late one, and a week has
at most three shifts. Each possible duty has features (the wish of the nurse, the skill for this shift, seniority); all
duties share one weight vector, which is what the planner cares about.
"""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

import structopt as so

NURSES, DAYS, SHIFTS, N_FEATURES = 4, 4, 2, 3  # shift 0 is early, shift 1 is late
MOST = 3  # shifts a week


def rota() -> pyo.ConcreteModel:
    m = pyo.ConcreteModel("rota")
    nurses, days, shifts = range(NURSES), range(DAYS), range(SHIFTS)
    m.duty = pyo.Var(nurses, days, shifts, domain=pyo.Binary)
    m.covered = pyo.Constraint(days, shifts, rule=lambda m, d, s: sum(m.duty[n, d, s] for n in nurses) == 1)
    m.once_a_day = pyo.Constraint(nurses, days, rule=lambda m, n, d: sum(m.duty[n, d, s] for s in shifts) <= 1)
    m.rested = pyo.Constraint(nurses, days[1:], rule=lambda m, n, d: m.duty[n, d - 1, 1] + m.duty[n, d, 0] <= 1)
    m.week = pyo.Constraint(nurses, rule=lambda m, n: sum(m.duty[n, d, s] for d in days for s in shifts) <= MOST)
    return m


def model() -> so.Model:
    space = so.LabelSpace.from_pyomo(rota())
    return so.Model(space, {"duty": so.features.Shared()}, loss=so.losses.Hamming())


def data(n: int = 30, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weeks with the rota of a planner who heeds wishes most, then skill, then seniority, with some whims."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(NURSES, DAYS, SHIFTS, N_FEATURES)) for _ in range(n)]
    taste, planner = np.array([2.0, 1.0, 0.5]), model()
    return X, [planner.predict(taste, x + 0.3 * rng.normal(size=x.shape)) for x in X]

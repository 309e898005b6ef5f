"""Random hierarchies, and a convex solver at its tightest."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest

from structopt.hierarchy import Hierarchy

TIGHT = {"tol_gap_rel": 1e-12, "tol_gap_abs": 1e-12, "tol_feas": 1e-12}


def random_hierarchy(seed: int, n: int, extra: int = 0) -> Hierarchy:
    rng = np.random.default_rng(seed)
    arcs = {(int(rng.integers(0, child)), child) for child in range(1, n)}
    for _ in range(extra):
        child = int(rng.integers(2, n))
        arcs.add((int(rng.integers(0, child)), child))
    return Hierarchy(sorted(arcs))


def solve(objective, constraints):
    problem = cp.Problem(objective, constraints)
    with warnings.catch_warnings():
        # These tolerances are below the accuracy of the solver; it warns even where it reaches them.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver="CLARABEL", **TIGHT)
    return problem.value


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The helpers above; test modules cannot import a conftest in importlib mode."""
    return SimpleNamespace(random_hierarchy=random_hierarchy, solve=solve)

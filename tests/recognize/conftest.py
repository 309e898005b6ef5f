"""Declarations of every kind, which are those of the fuzz job, and the consequences of what is recognised in them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.space.compiled import CompiledSpace


def make_space(A, row_lower, row_upper, lower=0.0, upper=1.0, integrality=True) -> CompiledSpace:
    A = sp.csr_array(np.atleast_2d(np.asarray(A, dtype=float)) if not sp.issparse(A) else A, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    m, n = A.shape

    def full(value, size, dtype=float):
        return np.broadcast_to(np.asarray(value, dtype=dtype), (size,)).copy()

    return CompiledSpace(
        A, full(row_lower, m), full(row_upper, m), full(lower, n), full(upper, n), full(integrality, n, bool),
        [f"x{j}" for j in range(n)], [f"r{i}" for i in range(m)],
    )  # fmt: skip


@pytest.fixture(scope="session")
def kit(fuzz) -> SimpleNamespace:
    """What the tests of this folder share; test modules cannot import a conftest in importlib mode."""
    job = fuzz("recognizer")

    def check(space, rng, objectives=1):
        """Whatever is claimed of a space must hold: the values of its oracle, integrality, unimodularity."""
        parts = space.row_lower, space.row_upper, space.lower, space.upper, space.integrality
        case = job._Case(job.Rows(space.matrix.toarray(), *parts), so.LabelSpace.from_compiled(space))
        for _ in range(objectives):
            if case.plain(rng):
                case.relaxation(rng)
        case.unimodular(rng)

    def of_rows(rows):
        return make_space(rows.A, rows.lo, rows.up, rows.lower, rows.upper, rows.integer)

    return SimpleNamespace(space=make_space, check=check, job=job, of_rows=of_rows)

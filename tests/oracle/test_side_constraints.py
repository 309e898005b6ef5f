"""Side constraints of one call: their forms, their compression, and their conflicts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.oracle.side_constraints import compressed


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 12))
def test_compressed_is_scipys_csr(seed, m, n):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.5)
    values, columns, starts = compressed(dense)
    expected = sp.csr_array(dense)
    assert (values == expected.data).all() and (columns == expected.indices).all() and (starts == expected.indptr).all()
    assert columns.dtype == starts.dtype == np.int32


def two_rows() -> tuple[so.LabelSpace, Any]:
    space = so.LabelSpace("two rows")
    y = space.binary("y", (2, 7))
    space.subject_to(y.sum() <= 3, name="most")
    space.subject_to(y[0].sum() + 2 * y[1, 0] - y[1, 1] <= 2, name="weights")
    return space, y


@pytest.mark.parametrize("solver", ["auto", "highs", "diagram"])
def test_comparisons_are_taken_as_side_constraints(solver):
    space, y = two_rows()
    oracle, c = so.Oracle(space, solver), np.random.default_rng(0).normal(size=14)
    vector = np.zeros(14)
    vector[6] = 1.0
    expected = oracle.k_best(c, 3, rows=[(vector, 1.0, 1.0), (np.ones(14), 2.0, 2.0)])
    comparisons = [y[0, 6] == 1, y.sum() == 2]
    assert [label.value for label in oracle.k_best(c, 3, rows=comparisons)] == [label.value for label in expected]
    assert oracle.maximize(c, rows=comparisons).value == expected[0].value
    assert oracle.maximize(c, rows=[(vector, 1.0, 1.0), y.sum() == 2]).value == expected[0].value
    assert oracle.maximize(c, rows=y[0] == 0).z[:7].tolist() == [0.0] * 7
    plane = so.Plane(oracle, (c, 0.0), (np.ones(14), 0.0), rows=comparisons)
    assert plane.query(0.0).h == pytest.approx(expected[0].value)


def test_comparisons_of_another_space_are_rejected():
    space, _ = two_rows()
    other = so.LabelSpace()
    z = other.binary("z", 14)
    with pytest.raises(so.errors.SpaceMismatch, match=r"rows\[1\]"):
        so.Oracle(space).maximize(np.ones(14), rows=[(np.ones(14), 0.0, 1.0), z[0] == 1])


@pytest.mark.parametrize("solver", ["auto", "highs", "diagram"])
def test_infeasible_side_constraints_are_named(solver):
    space, y = two_rows()
    oracle, c = so.Oracle(space, solver), np.ones(14)
    with pytest.raises(so.errors.InfeasibleSpace) as caught:
        oracle.maximize(c, rows=[y[0, 6] == 1, y[1] >= [0, 0, 0, 0, 1, 1, 1], y[0, 1] <= 1])
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.rows == ("most", "rows[0]", "rows[1][4]", "rows[1][5]", "rows[1][6]")
    assert "rows[0] (y[0,6] == 1)" in str(error)
    with pytest.raises(so.errors.InfeasibleSpace) as caught:
        oracle.maximize(c, rows=[y.sum() <= 0], forbid=[np.zeros(14)])
    assert caught.value.rows == ("rows[0]", "forbid[0]")

"""The shared Frobenius norm: its certificates and its inequalities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from structopt import norms
from structopt.errors import DeclarationError, SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.norms import frobenius

TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)])


def test_full_sharing():
    u = np.array([3.0, 4.0, 0.0])
    U = np.tile(u, (3, 1))
    assert norms.shared_frobenius(U, TREE) == pytest.approx(5, rel=1e-8)
    assert norms.shared_frobenius(U, rtol=1e-6) == pytest.approx(5, rel=2e-6)
    assert np.linalg.norm(U) == pytest.approx(np.sqrt(3) * 5)


def test_no_sharing():
    alone = Hierarchy([], nodes=["a", "b", "c"])
    U = np.random.default_rng(0).normal(size=(3, 4))
    assert norms.shared_frobenius(U, alone) == pytest.approx(np.linalg.norm(U), rel=1e-8)


def test_disjoint_features():
    U = np.diag([1.0, 2.0, 3.0])
    for h in (None, TREE, DIAMOND):
        assert norms.shared_frobenius(U, h, rtol=1e-6) == pytest.approx(np.linalg.norm(U), rel=2e-6)


def test_factor_scaling():
    a, u = np.array([1.0, -3.0, 2.0]), np.array([1.0, 2.0, 2.0])
    assert norms.shared_frobenius(np.outer(a, u)) == pytest.approx(3 * 3, rel=1e-8)


@pytest.mark.parametrize("extra", [0, 20])
def test_alternation_for_large_hierarchies_brackets_the_norm(kit, extra, monkeypatch):
    h = kit.random_hierarchy(3, 60, extra)
    U = np.random.default_rng(0).normal(size=(len(h.leaves), 5)) + 1
    exact = norms.shared_frobenius(U, h)
    monkeypatch.setattr("structopt.norms.frobenius._NEWTON_NODES", 10)
    found = norms.shared_frobenius(U, h, rtol=1e-2, certificate=True)
    assert found.gap <= 1e-2
    assert found.lower_bound <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= found.value
    np.testing.assert_allclose(h.closure @ found.node_vectors, U, atol=1e-8)


def test_first_order_rounds_bracket_the_free_norm(monkeypatch):
    U = np.random.default_rng(0).normal(size=(12, 6)) + 1
    exact = norms.shared_frobenius(U)
    monkeypatch.setattr(frobenius, "_NEWTON_ENTRIES", 0)
    found = norms.shared_frobenius(U, rtol=1e-4, certificate=True)
    assert found.lower_bound <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= found.value


def test_a_gap_that_stays_open_is_an_error_with_the_answer_so_far(monkeypatch):
    rounds = frobenius._alternate
    monkeypatch.setattr("structopt.norms.frobenius._NEWTON_NODES", 0)
    monkeypatch.setattr("structopt.norms.frobenius._alternate", lambda U, h, rtol: rounds(U, h, rtol, rounds=1))
    with pytest.raises(SolverFailed, match="gap") as error:
        norms.shared_frobenius(np.ones((3, 2)), TREE)
    assert isinstance(error.value.partial, norms.SharedNorm)


def test_classes_without_vectors_and_sparse_input():
    U = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 0.0]])
    assert norms.shared_frobenius(sp.csr_array(U), TREE) == norms.shared_frobenius(U, TREE)
    for h in (None, TREE):
        nothing = norms.shared_frobenius(np.zeros((3, 2)), h, certificate=True)
        assert (nothing.value, nothing.gap) == (0.0, 0.0)


def test_refuses():
    with pytest.raises(DeclarationError, match="leaves"):
        norms.shared_frobenius(np.ones((2, 2)), TREE)
    with pytest.raises(DeclarationError, match="NaN"):
        norms.shared_frobenius([[np.nan]])
    with pytest.raises(DeclarationError, match="one row"):
        norms.shared_frobenius([1.0, 2.0])

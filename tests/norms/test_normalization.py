"""Node weights by closed forms, certificates and the facts of docs/mathematics/hierarchies#normalisation."""

from __future__ import annotations

import numpy as np
import pytest

from structopt import norms
from structopt.errors import DeclarationError, SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.norms import _interior

TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)])


def test_examples_of_the_specification():
    np.testing.assert_allclose(norms.normalization(TREE, root=True), [0.625, 0.25, 0.375, 0.125, 0.125], atol=1e-15)
    np.testing.assert_allclose(norms.normalization(TREE), [0, 2 / 3, 1, 1 / 3, 1 / 3], atol=1e-15)
    expected = [0.78208, 0.17434, 0.21792, 0.04358, 0.04358]
    np.testing.assert_allclose(norms.normalization(TREE, rho=1.5, root=True), expected, atol=5e-6)
    assert norms.normalization(TREE, rho=1.1, root=True)[0] == pytest.approx(0.999, abs=5e-4)
    assert (norms.normalization(TREE, root=True) ** 2).sum() == pytest.approx(0.625)


def test_directional_weights_of_a_large_tree_and_of_a_long_path():
    rng = np.random.default_rng(0)
    h = Hierarchy([(int(rng.integers(0, k)), k) for k in range(1, 3000)])
    found = norms.normalization(h, directional=True)
    np.testing.assert_allclose(h.closure @ found, 1, atol=1e-10)
    assert (found[h.child] >= found[h.parent] - 1e-10).all()
    path = norms.normalization(Hierarchy([(k, k + 1) for k in range(30)]), root=True, directional=True)
    np.testing.assert_allclose(path, 1 / 31, atol=1e-6)


def test_tolerance_without_inner_nodes_and_nearly_one():
    star = Hierarchy([(0, 1), (0, 2)])
    np.testing.assert_allclose(norms.normalization(star, tolerance=1.5), [0, 1, 1], atol=1e-9)
    near = norms.normalization(DIAMOND, tolerance=1.001)
    np.testing.assert_allclose(near, norms.normalization(DIAMOND), atol=0.01)


def test_deep_and_steep_trees_do_not_overflow():
    chain = Hierarchy([(k, k + 1) for k in range(3000)] + [(k, -k - 1) for k in range(3000)])
    for rho in (1.0001, 2.0, 300.0):
        alpha = norms.normalization(chain, rho, root=True)
        assert np.isfinite(alpha).all()
        np.testing.assert_allclose(chain.closure @ alpha, 1, atol=1e-9)


def test_linear_time_on_large_trees():
    n = 200_000
    h = Hierarchy(np.column_stack([(np.arange(1, n) - 1) // 8, np.arange(1, n)]))
    alpha = norms.normalization(h)
    assert np.abs(h.closure @ alpha - 1).max() < 1e-12


def test_a_single_node_is_its_own_label():
    single = Hierarchy([], nodes=["only"])
    assert norms.normalization(single).tolist() == [1.0]
    assert norms.maxmin(single).tolist() == [1.0]


@pytest.mark.parametrize("bad", [{"rho": 1}, {"rho": np.nan}, {"tolerance": 0.5}, {"tolerance": np.inf}])
def test_refuses(bad):
    with pytest.raises(DeclarationError, match=next(iter(bad))):
        norms.normalization(TREE, **bad)


def test_refuses_other_graphs_and_weights():
    with pytest.raises(DeclarationError, match="Hierarchy"):
        norms.normalization([(0, 1)])
    with pytest.raises(DeclarationError, match="positive"):
        norms.normalization(TREE, weights=[1, 0, 1, 1, 1])


def test_an_uncertified_answer_is_an_error():
    found = _interior.Certified(np.ones(1), np.ones(1), 1.0, 0.9)
    with pytest.raises(SolverFailed, match="gap") as error:
        _interior.certified(found, "something")
    assert error.value.partial is found.x

"""Weights that are best for given vectors: closed forms, certificates, the published shares."""

from __future__ import annotations

import numpy as np
import pytest

from structopt import norms
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.norms import _interior
from structopt.norms.normalization import included_nodes
from structopt.norms.shared import _dag_alpha

TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)])


def test_norms_of_any_magnitude_on_dags(kit):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        h = kit.random_hierarchy(seed, int(rng.integers(5, 40)), 12)
        squares = rng.exponential(size=len(h)) * 10.0 ** -rng.uniform(0, 25, len(h)) * (rng.random(len(h)) < 0.8)
        found = _dag_alpha(h, included_nodes(h, False), squares)
        assert found.gap <= _interior.ACCEPTED
        assert (h.closure @ found.x).max() <= 1 + 1e-12


def test_no_vectors_at_all():
    for h in (TREE, DIAMOND):
        np.testing.assert_allclose(h.closure @ norms.shared_alpha(np.zeros(len(h)), h), 1)


def test_weights_do_not_depend_on_the_scale():
    squares = np.random.default_rng(0).exponential(size=len(DIAMOND))
    base = norms.shared_alpha(squares, DIAMOND)
    np.testing.assert_allclose(norms.shared_alpha(1e12 * squares, DIAMOND), base, atol=1e-9)


def test_floor_keeps_every_weight_positive_and_sums_feasible():
    alpha = norms.shared_alpha([0, 0, 1, 1, 1], TREE, floor=1e-8)
    assert alpha.min() > 0.9e-8
    assert (TREE.closure @ alpha).max() <= 1 + 1e-15


def test_published_shares(kit):
    """Line 9 of NHSVM's Algorithm 1 as printed, computed directly: N_1 = (2 + sqrt 5)^2, the root's children apart."""
    alpha = norms.shared_alpha([1, 4, 9, 1, 4], TREE, root=False, shares="published")
    inner = (2 + 5**0.5) / (2 + 2 * 5**0.5)
    np.testing.assert_allclose(alpha, [0, inner, 1, 1 - inner, 1 - inner])
    for seed in range(5):
        h = kit.random_hierarchy(seed, 14, 0)
        squares = np.random.default_rng(seed).exponential(size=len(h))
        lifted = norms.shared_alpha(squares, h, shares="published")
        np.testing.assert_allclose(h.closure @ lifted, 1)
        assert (squares / lifted).sum() > (squares / norms.shared_alpha(squares, h)).sum()


def test_refuses():
    with pytest.raises(DeclarationError, match="shares must be"):
        norms.shared_alpha(np.ones(5), TREE, shares="printed")
    with pytest.raises(DeclarationError, match="rule for trees"):
        norms.shared_alpha(np.ones(len(DIAMOND)), DIAMOND, shares="published")
    with pytest.raises(DeclarationError, match="squared_norms"):
        norms.shared_alpha([1, 2], TREE)
    with pytest.raises(DeclarationError, match="floor"):
        norms.shared_alpha(np.ones(5), TREE, floor=2)

"""Algorithms made of algorithms: products of independent blocks, and free columns among fixed ones."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.base import Capability, Optimum, RowAlgorithm, Solutions
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.product import Product
from structopt.errors import InfeasibleSpace


def random_product(seed, n_parts=3):
    """Random blocks, scattered over the columns, and all labels of their product."""
    rng = np.random.default_rng(seed)
    blocks = [np.unique(rng.integers(0, 2, (rng.integers(1, 6), rng.integers(1, 4))), axis=0) for _ in range(n_parts)]
    sizes = [block.shape[1] for block in blocks]
    columns = np.split(rng.permutation(sum(sizes)), np.cumsum(sizes)[:-1])
    labels = np.zeros((1, sum(sizes)))
    for block, own in zip(blocks, columns, strict=True):
        labels = np.repeat(labels, len(block), axis=0)
        labels[:, own] = np.tile(block, (len(labels) // len(block), 1))
    algorithm = Product([(own, Enumeration(block.astype(float))) for block, own in zip(blocks, columns, strict=True)])
    return algorithm, labels, rng


@pytest.mark.parametrize("seed", range(20))
def test_products_against_all_labels(seed):
    algorithm, labels, rng = random_product(seed)
    n = labels.shape[1]
    for ties in (False, True):
        C = rng.integers(-2, 3, (4, n)).astype(float) if ties else rng.normal(size=(4, n))
        found = algorithm.maximize_batch(C, n_jobs=2, keys=range(4))
        np.testing.assert_allclose(found.values, (C @ labels.T).max(axis=1), atol=1e-12)
        np.testing.assert_allclose(found.values, np.einsum("ij,ij->i", C, found.Z), atol=1e-12)
        assert algorithm.maximize(C[0]).value == pytest.approx(found.values[0])
        values = np.sort(labels @ C[0])[::-1]
        for k in (0, 1, 3, len(labels), len(labels) + 5):
            best = algorithm.k_best(C[0], k)
            np.testing.assert_allclose(best.values, values[:k], atol=1e-12)
            assert len(np.unique(best.Z, axis=0)) == len(best.Z) == min(k, len(labels))
        h, g = C[1], C[2]
        front = algorithm.front(h, 0.5, g, -0.25)
        points = {(round(float(z @ h), 9), round(float(z @ g), 9)) for z in front}
        everything = np.column_stack([labels @ h, labels @ g])
        for point in everything:
            dominated = ((everything >= point - 1e-12).all(axis=1) & (everything > point + 1e-9).any(axis=1)).any()
            assert dominated or tuple(np.round(point, 9)) in points


def test_the_best_label_outside_a_list():
    algorithm, labels, rng = random_product(3)
    c = rng.normal(size=labels.shape[1])
    values = np.sort(labels @ c)[::-1]
    known = algorithm.k_best(c, 2).Z
    assert algorithm.maximize_outside(c, known).value == pytest.approx(values[2])
    with pytest.raises(InfeasibleSpace, match="forbidden"):
        algorithm.maximize_outside(c, labels)


def test_capabilities_are_those_of_all_parts():
    class Plain(RowAlgorithm):
        def maximize(self, c, key=None):
            return None

    both = Product([(np.array([0]), Enumeration(np.eye(1))), (np.array([1]), Plain())])
    assert both.capabilities is Capability.NOTHING
    assert both.maximize(np.ones(2)) is None
    assert both.maximize_batch(np.ones((2, 2))).solved.tolist() == [False, False]
    with pytest.raises(NotImplementedError, match="K_BEST"):
        Plain().k_best(np.ones(1), 2)


def test_sums_over_all_labels():
    _, labels, rng = random_product(5)
    algorithm = Enumeration(labels)
    C = rng.normal(size=(3, labels.shape[1]))
    weights = np.exp(C @ labels.T)
    np.testing.assert_allclose(algorithm.log_partition(C), np.log(weights.sum(axis=1)))
    np.testing.assert_allclose(algorithm.marginals(C), weights @ labels / weights.sum(axis=1, keepdims=True))
    drawn = algorithm.sample(C[0], 4000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), algorithm.marginals(C[:1])[0], atol=0.05)


def test_declared_products_list_their_best():
    """A chain and a path side by side, and a column that can take one value only."""
    space = so.LabelSpace()
    y, p = space.binary("y", (3, 2)), space.continuous("p", (2, 2, 2), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    arc = space.binary("arc", 5)  # 0 -> 1, 0 -> 2, 1 -> 2, 1 -> 3, 2 -> 3
    space.subject_to(arc[0] + arc[1] == 1, arc[0] == arc[2] + arc[3], arc[1] + arc[2] == arc[4])
    space.subject_to(space.binary("fixed", 1) == 1)
    assert space.structure.kind == "product"
    oracle = so.Oracle(space)
    c = np.random.default_rng(0).normal(size=space.n_variables)
    wanted = np.sort(space.enumerate() @ c)[::-1]
    np.testing.assert_allclose([label.value for label in oracle.k_best(c, 7)], wanted[:7])
    assert oracle.statistics.calls == oracle.statistics.fast == 1


def test_solutions_of_rows():
    found = Solutions.stacked([None, Optimum(np.ones(2), 3.0, 4.0, False)], 2)
    assert found.row(0) is None and found.row(1).bound == 4.0 and not found.row(1).optimal
    assert Solutions.stacked([], 2).Z.shape == (0, 2)

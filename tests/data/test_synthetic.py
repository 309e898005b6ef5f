"""The synthetic sets are what the papers describe."""

from __future__ import annotations

import pickle
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from structopt import data
from structopt.errors import DeclarationError


class TestHierarchy:
    def test_balanced_labels_have_the_largest_potential(self):
        toy = data.synthetic_hierarchy("balanced", n_samples=200, n_features=30, random_state=0)
        h = toy.hierarchy
        assert (len(h), len(h.leaves), h.depth) == (15, 8, 3)
        for x, label in zip(toy.X, toy.y, strict=True):
            scores = {
                leaf: sum(toy.weights[h.index(n)] @ x for n in h.ancestors(leaf, itself=True)) for leaf in h.leaves
            }
            assert max(scores, key=scores.get) == label

    def test_balanced_is_standard_normal_of_the_papers_size(self):
        toy = data.synthetic_hierarchy(random_state=1)
        assert toy.X.shape == (15_000, 1000)
        assert toy.weights.shape == (15, 1000)
        assert abs(toy.X.mean()) < 0.01
        assert toy.X.std() == pytest.approx(1, abs=0.01)
        assert set(toy.y) == set(toy.hierarchy.leaves)

    def test_unbalanced_labels_are_the_parts_of_the_space(self):
        toy = data.synthetic_hierarchy("unbalanced", n_samples=4000, n_features=50, random_state=0)
        h = toy.hierarchy
        assert (len(h), len(h.leaves), h.depth) == (19, 10, 9)
        assert all(len(h.children(n)) in (0, 2) for n in h.nodes)
        np.testing.assert_allclose(np.linalg.norm(toy.X, axis=1), 1)
        for x, label in zip(toy.X[:300], toy.y, strict=False):
            node = h.roots[0]
            for normal in toy.weights:
                leaf, other = sorted(h.children(node))
                node = leaf if normal @ x > 0 else other
                if node in h.leaves:
                    break
            assert node == label
        # Every cut halves what is left.
        share = [(toy.y == 2 * k).mean() for k in (1, 2, 3)]
        np.testing.assert_allclose(share, [0.5, 0.25, 0.125], atol=0.1)

    def test_seeded(self):
        first, second = (
            data.synthetic_hierarchy("unbalanced", n_samples=50, n_features=4, random_state=3) for _ in "ab"
        )
        np.testing.assert_array_equal(first.X, second.X)
        np.testing.assert_array_equal(first.y, second.y)

    def test_depth(self):
        assert len(data.synthetic_hierarchy("balanced", n_samples=5, n_features=2, depth=5).hierarchy) == 31
        assert len(data.synthetic_hierarchy("unbalanced", n_samples=5, n_features=2, depth=2).hierarchy) == 3

    @pytest.mark.parametrize(
        "bad", [{"kind": "skewed"}, {"depth": 1}, {"n_samples": 0}, {"n_features": 2.5}, {"n_features": 10**30}]
    )
    def test_refuses(self, bad):
        with pytest.raises(DeclarationError, match=next(iter(bad))):
            data.synthetic_hierarchy(**bad)


class TestFlow:
    def test_flows_are_conserved(self):
        toy = data.synthetic_flow(n_samples=300, random_state=0)
        assert toy.X.shape == (300, 20)
        assert toy.X.min() >= 0
        assert toy.X.max() <= 1
        assert toy.y.min() >= 0
        for node, supply in toy.supply.items():
            out = sum(toy.y[:, k] for k, arc in enumerate(toy.arcs) if arc[0] == node)
            into = sum(toy.y[:, k] for k, arc in enumerate(toy.arcs) if arc[1] == node)
            np.testing.assert_allclose(out - into, supply, atol=1e-12)

    def test_arcs_carry_the_weights_of_their_paths(self):
        toy = data.synthetic_flow(n_samples=50, random_state=0)
        for k, (tail, head) in enumerate(toy.arcs):
            crossing = [p for p, path in enumerate(toy.paths) if (tail, head) in pairwise(path)]
            np.testing.assert_allclose(toy.y[:, k], toy.path_weights[:, crossing].sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(toy.path_weights.sum(axis=1), 1)

    def test_own_networks(self):
        graph = nx.DiGraph([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("a", "b")])
        toy = data.synthetic_flow(graph, n_samples=5, n_features=3, random_state=0)
        assert set(toy.paths) == {tuple(p) for p in nx.all_simple_paths(graph, "s", "t")}
        assert toy.arcs == tuple(graph.edges())
        inside = data.synthetic_flow([(1, 2), (2, 3), (1, 3), (0, 1)], n_samples=2, source=1, random_state=0)
        assert inside.supply == {1: 1.0, 2: 0.0, 3: -1.0, 0: 0.0}

    def test_weights_depend_on_the_input_and_on_chance(self):
        toy = data.synthetic_flow(n_samples=5, random_state=0)
        one = np.full((2000, 20), 0.75)
        flows = toy.model.sample(one, random_state=1)
        assert flows.std(axis=0).max() > 0.05
        other = toy.model.sample(1 - one, random_state=1)
        assert np.abs(flows.mean(axis=0) - other.mean(axis=0)).max() > 0.05
        still = data.synthetic_flow(n_samples=5, noise=0.0, random_state=0).model.sample(one[:3])
        np.testing.assert_allclose(still, still[:1].repeat(3, axis=0))

    def test_cold_choices_take_one_path(self):
        toy = data.synthetic_flow(n_samples=100, temperature=1e-6, random_state=0)
        np.testing.assert_allclose(toy.path_weights.max(axis=1), 1)

    def test_seeded_and_pickled(self):
        first, second = (data.synthetic_flow(n_samples=10, random_state=3) for _ in "ab")
        np.testing.assert_array_equal(first.y, second.y)
        kept = pickle.loads(pickle.dumps(first))
        np.testing.assert_array_equal(kept.model.sample(first.X, 0), first.model.sample(first.X, 0))

    @pytest.mark.parametrize(
        ("network", "told"),
        [
            ("city", "paper"),
            ([(1, 2), (2, 1)], "source"),
            ([("s", 1), (1, 2), (2, 1), (2, "t")], "cycle"),
            ([(1, 2), (3, 4)], "source"),
            (nx.Graph([(1, 2)]), "directed"),
            ([], "arc"),
        ],
    )
    def test_refuses_networks(self, network, told):
        with pytest.raises(DeclarationError, match=told):
            data.synthetic_flow(network)

    @pytest.mark.parametrize(
        "bad", [{"temperature": 0}, {"noise": -1}, {"n_samples": 0}, {"n_features": 2**63}, {"source": "nowhere"}]
    )
    def test_refuses_numbers(self, bad):
        with pytest.raises(DeclarationError, match=next(iter(bad))):
            data.synthetic_flow(**bad)

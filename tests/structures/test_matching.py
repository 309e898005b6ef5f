"""Matchings of general graphs compared with networkx and HiGHS; odd cuts compared with all sets."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

import structopt as so
from structopt.algorithms.cuts import cut_tree, cuts_below
from structopt.errors import DeclarationError, InfeasibleSpace, LabelNotInSpace
from structopt.structures import Matching
from structopt.structures.matching import odd_sets


def sides_and_values(weights):
    n = len(weights)
    sides = [np.array(side) for side in itertools.product([False, True], repeat=n) if not side[0] and any(side)]
    return sides, np.array([weights[side][:, ~side].sum() for side in sides])


def random_graph(rng, whole):
    n = int(rng.integers(2, 8))
    weights = np.triu((rng.integers(0, 4, (n, n)) if whole else rng.random((n, n))) * (rng.random((n, n)) < 0.6), 1)
    return weights.astype(float) + weights.T


@pytest.mark.parametrize("whole", [True, False])  # whole weights have many equal cuts
def test_the_cut_tree_has_smallest_cuts(whole):
    rng = np.random.default_rng(0)
    for _ in range(25):
        weights = random_graph(rng, whole)
        sides, values = sides_and_values(weights)
        tree, cut = cut_tree(weights)
        graph = nx.Graph([(v, int(tree[v])) for v in range(1, len(tree))])
        for v in range(1, len(tree)):
            graph.remove_edge(v, int(tree[v]))
            below = np.isin(np.arange(len(tree)), list(nx.node_connected_component(graph, v)))
            graph.add_edge(v, int(tree[v]))
            assert not below[0] and weights[below][:, ~below].sum() == pytest.approx(cut[v], abs=1e-12)
            apart = [value for side, value in zip(sides, values, strict=True) if side[v] != side[tree[v]]]
            assert cut[v] == pytest.approx(min(apart), abs=1e-12)


@pytest.mark.parametrize("whole", [True, False])
def test_odd_cuts_equal_all_sets(whole):
    rng = np.random.default_rng(1)
    for _ in range(25):
        weights = random_graph(rng, whole)
        sides, values = sides_and_values(weights)
        marked = rng.random(len(weights)) < 0.7
        marked[0] ^= bool(marked.sum() % 2)
        if not marked.any():
            assert len(cuts_below(weights, marked, np.inf)) == 0
            continue
        least = min(v for side, v in zip(sides, values, strict=True) if (side & marked).sum() % 2)
        assert len(cuts_below(weights, marked, least - 1e-9)) == 0
        found = cuts_below(weights, marked, least + 1e-9)
        assert len(found) and all((side & marked).sum() % 2 for side in found)


def test_odd_sets_are_found_wherever_one_is_violated():
    """At points within the degrees, against the inequalities of all odd sets."""
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(40):
        n = int(rng.integers(3, 8))
        edge = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.6), 1)
        edge /= max(1.0, (edge + edge.T).sum(axis=1).max())
        if rng.random() < 0.5 and n >= 5:  # a triangle with halves, and something beside it
            edge[:3] = 0.0
            edge[[0, 0, 1], [1, 2, 2]] = rng.choice([0.5, 1 / 3, 0.34])
        odd = [np.array(s) for k in range(3, n + 1, 2) for s in itertools.combinations(range(n), k)]
        excess = max(edge[np.ix_(s, s)].sum() - (len(s) - 1) / 2 for s in odd)
        answer = odd_sets({"edge": edge})
        if excess > 1e-5:
            hits += 1
            matrix, _, upper = answer
            assert (matrix @ edge.ravel() - upper).max() == pytest.approx(excess, abs=1e-9)  # a smallest cut is found
        elif excess <= 0:
            assert answer is None
    assert hits >= 10


@pytest.mark.parametrize("perfect", [False, True])
def test_networkx_and_integer_programs_find_the_same(perfect):
    rng = np.random.default_rng(4)
    found = 0
    for trial in range(9):
        n = 2 * int(rng.integers(3, 6))
        ring = [(v, (v + 1) % n) for v in range(n)]  # so that a perfect matching exists
        most = 1.0 if trial % 3 == 2 else 0.3
        edges = np.array(ring + [e for e in itertools.combinations(range(n), 2) if rng.random() < most])
        model = Matching(perfect, edges)
        x = np.zeros((n, n, 1))
        score = rng.normal(0.5, 1.0, (n, n)) if trial % 3 else rng.integers(-1, 4, (n, n)).astype(float)
        if trial % 3 == 2:  # clusters of three
            place = rng.random((n, 2)) + 3.0 * rng.permutation(n // 3 + 1)[np.arange(n) // 3][:, None]
            score = 1.5 - np.linalg.norm(place[:, None] - place[None], axis=2)
        graph = nx.Graph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from((i, j, {"weight": score[i, j]}) for i, j in np.sort(edges, axis=1).tolist())
        pairs = nx.max_weight_matching(graph, maxcardinality=perfect)
        want = sum(score[min(pair), max(pair)] for pair in pairs)
        oracle = model.oracle(x)
        assert oracle.maximize(score.ravel()).value == pytest.approx(want, abs=1e-7)
        listed = so.Oracle(model.space(x).compiled.rows_only(), "highs")
        assert listed.maximize(score.ravel()).value == pytest.approx(want, abs=1e-7)
        found += oracle.lazy_rows.found
    assert found > 0


def test_a_perfect_matching_that_does_not_exist():
    star = [(0, 1), (0, 2), (0, 3)]
    with pytest.raises(InfeasibleSpace):
        Matching(True, star).oracle(np.zeros((4, 4, 1))).maximize(np.zeros(16))
    triangles = [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]  # the degrees alone allow halves
    with pytest.raises(InfeasibleSpace):
        Matching(True, triangles).oracle(np.zeros((6, 6, 1))).maximize(np.zeros(36))
    assert Matching(False, triangles).oracle(np.zeros((6, 6, 1))).maximize(np.ones(36)).value == 2.0


@pytest.mark.parametrize("n", [4, 5])
def test_the_separation_by_brute_force(n):
    space = Matching(edges=list(itertools.combinations(range(n), 2))[:-1]).space(np.zeros((n, n, 1)))
    assert so.testing.check_separation(space, lambda z: True).ok


def test_fractions_are_decoded_to_matchings():
    rng = np.random.default_rng(5)
    for model in (Matching(), Matching(perfect=True), Matching(True, [(0, 1), (2, 3), (4, 5), (1, 2)])):
        label = model.decode(rng.random(36))
        assert model.space(np.zeros((6, 6, 1))).contains(model.encode(label))


def test_malformed_labels_and_inputs_are_refused():
    x = np.zeros((4, 4, 1))
    for label, what in (
        ([1, 0, 1, -1], "whose own partner is 0"),
        ([0, -1, -1, -1], "its own partner"),
        ([4, -1, -1, -1], "nodes are 0 to 3"),
        ([-2, -1, -1, -1], "nodes are 0 to 3"),
        ([1, 0, -1], "a partner for each"),
    ):
        with pytest.raises(LabelNotInSpace, match=what):
            Matching().encode(label, x)
    with pytest.raises(DeclarationError, match="odd"):
        Matching(perfect=True).space(np.zeros((5, 5, 1)))
    with pytest.raises(LabelNotInSpace, match="perfect=False"):
        Matching(perfect=True).encode([1, 0, -1, -1], x)
    with pytest.raises(LabelNotInSpace, match="not among the edges"):
        Matching(edges=[(0, 1)]).encode([2, -1, 0, -1], x)
    with pytest.raises(DeclarationError, match="one partner per node"):
        Matching().encode([0.5, 1.0])
    with pytest.raises(DeclarationError, match=r"\(n, n, d\)"):
        Matching().space(np.zeros((3, 2, 1)))
    for edges in ([(0, 0)], [(-1, 2)], [0, 1], [(0, 1, 2)]):
        with pytest.raises(DeclarationError):
            Matching(edges=edges)
    with pytest.raises(DeclarationError, match="beyond the 4 nodes"):
        Matching(edges=[(0, 9)]).space(x)
    with pytest.raises(DeclarationError):
        Matching().decode(np.zeros(7))

"""The hierarchy graph: order, queries, constructors, wrong input; losses by definition."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.hierarchy.input import node_values
from structopt.losses import HierarchicalLoss, LeafHamming, Normalized

THING = [("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")]
TREE = [(0, 1), (0, 2), (1, 3), (1, 4)]
DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def random_hierarchy(seed: int, n: int, kind: str) -> Hierarchy:
    """A tree, a forest or a DAG with names in random order."""
    rng = np.random.default_rng(seed)
    names = [f"n{k}" for k in rng.permutation(n)]
    edges = []
    for i in range(1, n):
        most = {"tree": 1, "forest": 1, "dag": min(i, 3)}[kind]
        least = 1 if kind == "tree" else 0
        for p in rng.choice(i, rng.integers(least, most + 1), replace=False):
            edges.append((names[p], names[i]))
    return Hierarchy([edges[k] for k in rng.permutation(len(edges))], nodes=names if rng.random() < 0.5 else names[:1])


hierarchies = st.builds(
    random_hierarchy, st.integers(0, 2**32 - 1), st.integers(1, 7), st.sampled_from(["tree", "forest", "dag"])
)


@settings(max_examples=30, deadline=None)
@given(hierarchies)
def test_queries_equal_networkx(h):
    graph = h.to_networkx()
    assert set(graph.edges) == set(h.edges) and len(h.edges) == len(set(h.edges))
    assert all(h.index(p) < h.index(c) for p, c in h.edges)
    assert (h.parent < h.child).all()
    assert h.leaves == tuple(v for v in h.nodes if graph.out_degree(v) == 0)
    assert h.roots == tuple(v for v in h.nodes if graph.in_degree(v) == 0)
    assert h.is_tree == all(graph.in_degree(v) <= 1 for v in graph)
    assert h.depth == nx.dag_longest_path_length(graph)
    for v in h.nodes:
        assert set(h.parents(v)) == set(graph.predecessors(v))
        assert set(h.children(v)) == set(graph.successors(v))
        assert set(h.ancestors(v)) == nx.ancestors(graph, v)
        assert set(h.descendants(v, itself=True)) == nx.descendants(graph, v) | {v}
    assert h.closure.shape == (len(h.leaves), len(h))
    for leaf, row in zip(h.leaves, h.closure.toarray(), strict=True):
        assert {h.nodes[k] for k in np.flatnonzero(row)} == set(h.ancestors(leaf, itself=True))
        assert set(row) <= {0.0, 1.0}
    if h.is_tree:
        named = {h.nodes[k]: h.nodes[p] for k, p in enumerate(h.parent_of) if p >= 0}
        assert named == {c: p for p, c in h.edges}
    copy = pickle.loads(pickle.dumps(h))
    assert copy == h and hash(copy) == hash(h) and copy.index(h.nodes[-1]) == len(h) - 1
    assert Hierarchy.from_networkx(graph) == h
    assert Hierarchy(h.edges, nodes=h.nodes, leaves=h.leaves) == h


@settings(max_examples=15, deadline=None)
@given(hierarchies, st.integers(0, 2**32 - 1))
def test_restriction_is_the_induced_graph(h, seed):
    rng = np.random.default_rng(seed)
    seen = [v for v in h.nodes if rng.random() < 0.4] or [h.nodes[0]]
    part = h.restrict(seen)
    kept = {a for v in seen for a in h.ancestors(v, itself=True)}
    assert part.nodes == tuple(v for v in h.nodes if v in kept)
    assert set(part.edges) == {(p, c) for p, c in h.edges if c in kept}
    assert set(part.leaves) <= set(seen)


def test_order_keeps_first_appearance_where_it_can():
    assert Hierarchy(TREE).nodes == (0, 1, 2, 3, 4)
    assert Hierarchy(TREE[::-1]).nodes == (0, 1, 4, 3, 2)
    assert Hierarchy([("b", "c"), ("a", "b")]).nodes == ("a", "b", "c")
    assert Hierarchy(set(THING)) == Hierarchy(sorted(THING, key=repr))
    assert Hierarchy(np.array(TREE)).nodes == (0, 1, 2, 3, 4)


def test_other_ways_in():
    h = Hierarchy(THING)
    assert Hierarchy.from_dict({"thing": {"animal": {"cat": {}, "dog": None}, "oak": ()}}).edges == (
        ("thing", "animal"), ("animal", "cat"), ("animal", "dog"), ("thing", "oak"),
    )  # fmt: skip
    assert set(Hierarchy.from_dict({"thing": {"animal": ["cat", "dog"], "oak": {}}}).edges) == set(h.edges)
    diamond = Hierarchy.from_dict({0: {1: {3: {}}, 2: [3]}})
    assert set(diamond.edges) == set(DIAMOND) and not diamond.is_tree
    paths = Hierarchy.from_paths(["a.b.c", "a.d", "a.b.c", "e"], sep=".")
    assert paths.nodes == ("a", "a.b", "a.b.c", "a.d", "e")
    assert paths.leaves == ("a.b.c", "a.d", "e") and paths.roots == ("a", "e") and paths.is_tree
    flat = Hierarchy([], nodes="abc")
    assert flat.leaves == flat.roots == ("a", "b", "c") and flat.depth == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hierarchy([("r", "a"), ("a", "b"), ("b", "c"), ("c", "a")]), "'a' -> 'b' -> 'c' -> 'a'"),
        (lambda: Hierarchy([(1, 2), (2, 1)]), "1 -> 2 -> 1"),
        (lambda: Hierarchy([*THING, ("thing", "oak")]), r"'thing' -> 'oak' is given twice \(edges 1 and 4\)"),
        (lambda: Hierarchy([("a", "b"), ("b", "b")]), "Edge 1 leads from 'b' to itself"),
        (lambda: Hierarchy([]), "at least one node"),
        (lambda: Hierarchy(["ab"]), "Edge 0 is 'ab'"),
        (lambda: Hierarchy([("a", "b", "c")]), "a pair"),
        (lambda: Hierarchy([("a", "b"), (["x"], "a")]), r"Edge 1 has the node \['x'\]"),
        (lambda: Hierarchy({"a": {}}), "from_dict"),
        (lambda: Hierarchy(nx.DiGraph(TREE)), "from_networkx"),
        (lambda: Hierarchy.from_networkx(nx.Graph(TREE)), "directed"),
        (lambda: Hierarchy.from_paths(["a", "a//b"]), "Path 1 is 'a//b'"),
        (lambda: Hierarchy.from_paths("a/b"), "list of paths"),
        (lambda: Hierarchy.from_dict({"a": 3}), "Below 'a' stands 3"),
        (lambda: Hierarchy.from_dict({"a": {"b": {"a": {}}}}), "'a' -> 'b' -> 'a'"),
        (lambda: Hierarchy(THING).index("animl"), "did you mean 'animal'"),
        (lambda: Hierarchy(THING).parents(["cat"]), "is not a node"),
        (lambda: Hierarchy(DIAMOND).parent_of, "3 has the parents 1, 2"),
        (lambda: Hierarchy(THING, leaves=["cat", "dog"]), "'oak' has no path to a leaf"),
        (lambda: Hierarchy(THING, leaves=["cat", "dog", "oak", "animal"]), "'animal' is given as a leaf"),
        (lambda: Hierarchy(THING).restrict([]), "at least one"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(DeclarationError, match=message):
        make()


def test_a_dict_that_holds_itself_is_a_cycle_and_not_a_hang():
    tree = {"a": {}}
    tree["a"]["b"] = tree
    with pytest.raises(DeclarationError, match="cycle"):
        Hierarchy.from_dict(tree)


def test_views():
    h = Hierarchy(THING)
    assert repr(h) == "<Hierarchy: tree of 5 nodes, 3 leaves, depth 2>"
    assert repr(Hierarchy(DIAMOND)) == "<Hierarchy: DAG of 4 nodes and 4 edges, 1 leaf, depth 2>"
    assert "    cat" in h._repr_html_()
    assert "&lt;b&gt;" in Hierarchy([("<b>", "c")])._repr_html_()
    assert "... and 60 more" in Hierarchy([], nodes=range(100))._repr_html_()
    assert h != Hierarchy(TREE) and h != 3 and "cat" in h and ["cat"] not in h
    with pytest.raises(ValueError):
        h.parent[0] = 3


def test_many_nodes_are_one_pass(count_calls):
    rng = np.random.default_rng(0)
    n = 50_000
    edges = list(zip((rng.random(n - 1) * np.arange(1, n)).astype(int).tolist(), range(1, n), strict=True))
    made = []
    assert count_calls(lambda: made.append(Hierarchy(edges))) < 2 * n  # one pass over the names
    h = made[0]
    assert h.is_tree and h.closure.shape[0] == len(h.leaves)
    assert count_calls(lambda: h.ancestor_rows(np.arange(n + 1), np.arange(n))) < 1_000


# ---- losses ------------------------------------------------------------------------------------------


def test_losses_refuse():
    h, diamond = Hierarchy(TREE), Hierarchy(DIAMOND)
    with pytest.raises(DeclarationError, match=r"3 has 2 parents.*losses 2, 1, 1, 1"):
        HierarchicalLoss(diamond)
    with pytest.raises(DeclarationError, match="without its parent 1"):
        HierarchicalLoss(h).linear([1, 0, 0, 1, 0])
    with pytest.raises(DeclarationError, match="sibling"):
        HierarchicalLoss(h, "cousin")
    with pytest.raises(DeclarationError, match="4 values for 5 nodes"):
        HierarchicalLoss(h, [1, 1, 1, 1])
    with pytest.raises(DeclarationError, match="alpha of the node 2 is -1"):
        Normalized(h, [1, 1, -1, 1, 1])
    with pytest.raises(DeclarationError, match="2 leaves"):
        Normalized(h, np.ones(5)).linear([1, 1, 1, 1, 0])
    with pytest.raises(DeclarationError, match="no value for the node 4"):
        node_values(h, dict.fromkeys(range(4), 1.0), "alpha")
    with pytest.raises(DeclarationError, match="9 is not a node"):
        node_values(h, dict.fromkeys((0, 1, 2, 3, 4, 9), 1.0), "alpha")
    with pytest.raises(DeclarationError, match="rows over the 5 nodes"):
        LeafHamming(h).linear([1, 0])
    with pytest.raises(DeclarationError, match=r"hierarchy must be a Hierarchy, got \["):
        LeafHamming(TREE)
    with pytest.raises(DeclarationError, match="scale"):
        LeafHamming(h, scale=0)

"""Hierarchical labels: labels by their definitions, labels in and out, chunks of batches, bad input."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
import structopt.plane
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.hierarchy import Hierarchy
from structopt.losses import LeafHamming, Normalized
from structopt.structures.hierarchy import HierarchicalLabels

THING = Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (2, 4)])
KINDS = ["leaf", "leaves", "closure"]


def random_hierarchy(seed, n, kind):
    rng = np.random.default_rng(seed)
    edges = []
    for i in range(1, n):
        most = {"tree": 1, "forest": 1, "dag": min(i, 3)}[kind]
        for p in rng.choice(i, rng.integers(1 if kind == "tree" else 0, most + 1), replace=False):
            edges.append((int(p), i))
    return Hierarchy(edges, nodes=range(n))


def labels_by_definition(h, kind):
    """Rows of the leaves or closed sets, straight from the words."""
    Y = np.array(list(product((0, 1), repeat=len(h))), dtype=float)
    if kind == "closure":
        return Y[(Y[:, h.child] <= Y[:, h.parent]).all(axis=1)]
    rows = set()
    for pick in product((0, 1), repeat=len(h.leaves)):
        if (sum(pick) == 1) if kind == "leaf" else sum(pick) >= 1:
            on = {a for leaf, p in zip(h.leaves, pick, strict=True) if p for a in h.ancestors(leaf, itself=True)}
            rows.add(tuple(float(v in on) for v in h.nodes))
    return np.array(sorted(rows))


def as_set(rows):
    return {tuple(row) for row in rows.tolist()}


instances = st.tuples(
    st.builds(
        random_hierarchy, st.integers(0, 2**32 - 1), st.integers(1, 7), st.sampled_from(["tree", "forest", "dag"])
    ),
    st.sampled_from(KINDS),
    st.integers(0, 2**32 - 1),
)


@pytest.mark.parametrize("kind", KINDS)
def test_trees_have_fronts_for_every_loss(kind):
    model = HierarchicalLabels(THING, kind)
    labels, c = labels_by_definition(THING, kind), np.array([0.3, -1.0, 0.5, 0.2, -0.7])
    for g in (np.sqrt([1, 2, 3, 4, 5]), np.zeros(5), np.array([1, 1, 1, 1, -1e7]), np.array([1, -1, 1 / 2, -1 / 3, 2])):
        found = model.oracle().front((c, 0), (g, 0))
        own, points = np.column_stack([found @ c, found @ g]), np.column_stack([labels @ c, labels @ g])
        assert as_set(found) <= as_set(labels)
        assert all((own >= point - 1e-9).all(axis=1).any() for point in points)
    assert HierarchicalLabels(DIAMOND, "closure").oracle().front((c, 0), (c, 0)) is None


@settings(max_examples=20, deadline=None)
@given(instances)
def test_labels_in_and_out(instance):
    h, kind, seed = instance
    rng = np.random.default_rng(seed)
    model = HierarchicalLabels(h, kind)
    strict = HierarchicalLabels(h, kind, complete=False)
    for z in labels_by_definition(h, kind):
        label = model.decode(z)
        for given_as in (label, z, z.astype(bool), z.astype(int).tolist(), sp.csr_array(z[None, :])):
            np.testing.assert_array_equal(model.encode(given_as), z)
        on = {h.nodes[k] for k in np.flatnonzero(z)}
        np.testing.assert_array_equal(strict.encode(on), z)
        np.testing.assert_array_equal(strict.encode(label), z)
        # Any part that still holds what no other node implies is completed.
        tops = {v for v in on if not set(h.children(v)) & on}
        part = tops | {v for v in on if rng.random() < 0.5}
        np.testing.assert_array_equal(model.encode(part), z)
        if part != on and (kind == "closure" or not part <= set(h.leaves)):
            with pytest.raises(LabelNotInSpace, match=r"misses .*, an ancestor of"):
                strict.encode(part)
        if kind == "leaf":
            assert label in h.leaves
        elif kind == "leaves":
            assert isinstance(label, frozenset) and label == on & set(h.leaves)
        else:
            assert label.dtype == int


@pytest.mark.parametrize(
    ("kind", "label", "message"),
    [
        ("leaf", "bird", "'bird' is not a node"),
        ("leaf", "animal", "'animal' without any of its leaves"),
        ("leaf", {"cat", "dog"}, "has 2 leaves"),
        ("leaf", [], "is empty"),
        ("leaves", {"cat", "anymal"}, "did you mean 'animal'"),
        ("leaves", {"oak", "animal"}, "'animal' without any of its leaves"),
        ("leaves", [0, 0, 0, 0, 0], "is empty"),
        ("leaves", np.array([1, 1, 0.5, 1, 0]), "node 'oak' is 0.5"),
        ("leaves", np.array([1.0, 1.0]), "has 5 entries, got 2"),
        ("closure", 3, "3 is not a node"),
        ("closure", None, "None is not a node"),
    ],
)
def test_bad_labels_are_named(kind, label, message):
    model = HierarchicalLabels(THING, kind)
    with pytest.raises((LabelNotInSpace, DeclarationError), match=message):
        model.encode(label)
    good = {"leaf": "cat", "leaves": {"cat"}, "closure": {"cat"}}[kind]
    with pytest.raises(LabelNotInSpace, match=r"(?s)1 of 3 labels cannot be used.*example 1: .*" + message):
        model.batch(np.ones((3, 2))).truth([good, label, good])


def test_bad_matrices_of_labels():
    batch = HierarchicalLabels(THING, "leaves", complete=False).batch(np.ones((2, 1)))
    with pytest.raises(LabelNotInSpace, match="example 1: label in row 1 misses 'animal', an ancestor of 'cat'"):
        batch.truth(np.array([[1, 0, 1, 0, 0], [1, 0, 0, 1, 0]]))
    with pytest.raises(LabelNotInSpace, match="example 0: the entry of node 'oak' is 2"):
        batch.truth(sp.csr_array([[1, 0, 2, 0, 0], [1, 0, 1, 0, 0]]))
    with pytest.raises(DeclarationError, match="5 nodes, got 3"):
        batch.truth(np.ones((2, 3)))
    with pytest.raises(DeclarationError, match="2 inputs but 1 labels"):
        batch.truth(["cat"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("h", [THING, DIAMOND], ids=["tree", "dag"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_laws_of_models_hold_in_chunks(kind, h, sparse, monkeypatch):
    monkeypatch.setattr("structopt.algorithms.nodes.NodeParts.most_entries", 10)
    monkeypatch.setattr("structopt.structures.hierarchy._DENSE_NODES", 0 if sparse else 64)
    monkeypatch.setattr("structopt.model.sparse_losses._TABLE_VARIABLES", 0 if sparse else 128)
    rng = np.random.default_rng(7)
    model = HierarchicalLabels(h, kind, alpha=rng.random(5), intercept=True)
    X, labels = rng.normal(size=(6, 3)), labels_by_definition(h, kind)
    rows = labels[rng.integers(0, len(labels), 6)]
    report = so.testing.check_model(model, X, [model.decode(row) for row in rows], trials=1)
    assert report.ok, report
    batch = model.batch(X)
    for given_as in (rows, sp.csr_array(rows)):
        native = batch.truth(given_as).native
        np.testing.assert_array_equal(native.toarray() if sp.issparse(native) else native, rows)


def test_the_mip_is_called_where_the_relaxation_is_fractional():
    # Three roots, each over two of three leaves: half of every leaf satisfies all roots in the relaxation.
    h = Hierarchy([("ab", "a"), ("ab", "b"), ("bc", "b"), ("bc", "c"), ("ac", "a"), ("ac", "c")])
    c = np.where(h.is_leaf, -0.9, 1.0)
    relaxed = HierarchicalLabels(h, "leaves", solver="highs", integral="relax")
    assert relaxed.oracle().maximize(c).value == pytest.approx(1.65)
    batch = relaxed.batch(np.ones((1, 1)))
    labels, values = batch.argmax([c[None, :]])
    assert values == pytest.approx([1.65]) and labels.tables[0].toarray()[0] @ c == pytest.approx(1.65)
    exact = HierarchicalLabels(h, "leaves", solver="highs")
    assert exact.oracle().maximize(c).value == pytest.approx(1.2)
    assert exact.oracle().statistics.mip == 1
    assert len(exact.decode(exact.oracle().maximize(c).z)) == 2


def test_declarations_are_checked():
    with pytest.raises(DeclarationError, match="kind must be"):
        HierarchicalLabels(THING, "paths")
    with pytest.raises(DeclarationError, match=r"hierarchy must be a Hierarchy, got \["):
        HierarchicalLabels([("a", "b")])
    with pytest.raises(DeclarationError, match="another hierarchy"):
        HierarchicalLabels(THING, loss=LeafHamming(DIAMOND))
    with pytest.raises(DeclarationError, match="not linear in labels of kind='leaves'"):
        HierarchicalLabels(THING, "leaves", loss=Normalized(THING, np.ones(5)))
    with pytest.raises(DeclarationError, match="alpha has 2 values for 5 nodes"):
        HierarchicalLabels(THING, alpha=[1, 2])
    with pytest.raises(DeclarationError, match="5 entries"):
        HierarchicalLabels(THING).decode([1, 0])
    for h, kind in product((THING, DIAMOND), KINDS):
        batch = HierarchicalLabels(h, kind).batch(np.ones((2, 1)))
        if h.is_tree or kind != "leaves":
            with pytest.raises(DeclarationError, match="finite"):
                batch.argmax([np.array([[0.0] * 5, [0, 0, np.nan, 0, 0]])])


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_scaled_by_the_root_of_alpha(kind):
    model = HierarchicalLabels(THING, kind, alpha={"thing": 0, "animal": 1, "oak": 2, "cat": 3, "dog": 4})
    w = np.array([0.1, 0.3, -1, 0.2, -0.5])
    assert f"kind={kind!r}, alpha=..." in repr(model)
    np.testing.assert_allclose(model.scores(w, [2.0]), 2 * w * np.sqrt([0, 1, 2, 3, 4]))


def test_fractional_rows_come_back_as_they_are():
    z = np.array([1, 0.5, 0.5, 0.5, 0.5])
    model = HierarchicalLabels(THING, "leaves")
    assert model.decode(z) is not None and np.array_equal(model.decode(z), z)
    batch = model.batch(np.ones((2, 1)))
    decoded = batch.decode(batch.fold(np.array([z, [1, 1, 0, 1, 0]])))
    assert np.array_equal(decoded[0], z) and decoded[1] == {"cat"}

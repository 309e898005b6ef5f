"""Every recognised structure: the combinatorial answer equals HiGHS on the same declaration."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so

SIZES = range(6)


def box(rng):
    s = so.LabelSpace("box")
    s.integer("k", 5, -1, rng.integers(0, 4, 5))
    return s


def simplices(rng):
    s = so.LabelSpace("simplices")
    y = s.binary("y", (4, 3))
    s.subject_to(y[:2].sum(axis=1) == 1, y[2:].sum(axis=1) <= 1)
    return s


def cardinality(rng):
    s = so.LabelSpace("cardinality")
    y = s.binary("y", 12)
    s.subject_to(y[:5].sum().between(1, 3), y[5:9].sum() <= 2)
    return s


def closure(rng):
    s = so.LabelSpace("closure")
    n = 12
    y = s.binary("y", n)
    child = rng.integers(1, n, 18)
    parent = (child * rng.random(18)).astype(int)
    s.subject_to(y[child] <= y[parent])
    return s


def forest(rng):
    s = so.LabelSpace("forest")
    y = s.binary("y", 15)
    child = np.arange(1, 15)
    s.subject_to(y[child] <= y[(child * rng.random(14)).astype(int)])
    return s


def pairwise(rng, n=6, relaxed=False):
    s = so.LabelSpace("pairwise")
    y = s.binary("y", n)
    i, j = np.triu_indices(n, k=1)
    p = s.continuous("p", len(i), 0, 1)
    s.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    return s.relaxed() if relaxed else s


def local_polytope(rng):
    return pairwise(rng, relaxed=True)


def square(rng):
    s = so.LabelSpace("assignment")
    y = s.binary("y", (4, 4))
    s.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1)
    return s


def rectangular(rng):
    s = so.LabelSpace("matching")
    y = s.binary("y", (3, 5))
    s.subject_to(y.sum(axis=0) <= 1, y[:2].sum(axis=1) == 1, y[2].sum() <= 1)
    return s


def path(rng):
    s = so.LabelSpace("path")
    n = 7
    tail, head = np.array([(a, b) for a in range(n) for b in range(a + 1, n) if b == a + 1 or rng.random() < 0.5]).T
    y = s.binary("arc", len(tail))
    out = (np.arange(n)[:, None] == tail).astype(float) - (np.arange(n)[:, None] == head)
    supply = np.zeros(n)
    supply[0], supply[-1] = 1, -1
    s.subject_to(out @ y == supply)
    return s


def tree(rng):
    s = so.LabelSpace("tree")
    n = 14
    parent = np.r_[-1, (np.arange(1, n) * rng.random(n - 1)).astype(int)]
    z = s.binary("node", n)
    child = np.arange(1, n)
    s.subject_to(z[child] <= z[parent[1:]], z[0] == 1)
    for p in np.unique(parent[1:]):
        s.subject_to(z[np.flatnonzero(parent == p)].sum() >= z[int(p)])
    return s


def product(rng):
    s = so.LabelSpace("product")
    y = s.binary("y", (3, 3))
    v = s.binary("v", 4)
    s.integer("free", 2, 0, 2)
    s.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1)
    s.subject_to(v[1:] <= v[:-1])
    return s


FAMILIES = {
    "signs": box,
    "argmax": simplices,
    "top-k": cardinality,
    "min cut": closure,
    "forest dynamic program": forest,
    "persistency": pairwise,
    "roof duality": local_polytope,
    "linear assignment": square,
    "DAG path": path,
    "tree dynamic program": tree,
    "product": product,
}


@pytest.mark.parametrize("algorithm", FAMILIES)
@pytest.mark.parametrize("seed", SIZES)
def test_fast_oracle_equals_highs(algorithm, seed):
    rng = np.random.default_rng(seed)
    space = FAMILIES[algorithm](rng)
    fast, slow = so.Oracle(space), so.Oracle(space, "highs")
    if algorithm == "min cut" and fast.algorithm == "forest dynamic program":
        pytest.skip("this random graph happens to be a forest")
    assert fast.algorithm == algorithm
    C = rng.normal(size=(6, space.n_variables))
    C[4:] = np.rint(2 * C[4:])  # ties
    batch = fast.maximize_batch(C, keys=range(6))
    again = fast.maximize_batch(C + 0.0, keys=range(6))
    for c, label, repeated in zip(C, batch, again, strict=True):
        wanted = slow.maximize(c).value
        for found in (label, repeated, fast.maximize(c), fast.maximize(c, key="example")):
            assert space.contains(found.z)
            assert found.value == pytest.approx(wanted, abs=1e-7)
    assert fast.statistics.fast == fast.statistics.calls


def test_mixed_matching():
    for seed in SIZES:
        rng = np.random.default_rng(seed)
        space = rectangular(rng)
        fast, slow = so.Oracle(space), so.Oracle(space, "highs")
        assert fast.algorithm == "linear assignment"
        c = rng.normal(size=15)
        assert fast.maximize(c).value == pytest.approx(slow.maximize(c).value)


@pytest.mark.parametrize("declare", [path, tree, simplices])
def test_k_best_and_bans(declare):
    rng = np.random.default_rng(3)
    space = declare(rng)
    labels = space.enumerate()
    fast = so.Oracle(space)
    c = rng.normal(size=space.n_variables)
    wanted = np.sort(labels @ c)[::-1][:5]
    best = fast.k_best(c, 5)
    np.testing.assert_allclose([b.value for b in best], wanted, atol=1e-6)
    assert fast.maximize(c, forbid=[b.z for b in best[:3]]).value == pytest.approx(wanted[3], abs=1e-6)


def test_front_holds_the_best_product():
    rng = np.random.default_rng(4)
    for space in (pairwise(rng), so.LabelSpace.from_matrices(rng.integers(0, 3, (2, 6)), -np.inf, 4)):
        labels = space.enumerate()
        oracle = so.Oracle(space)
        h, g = rng.normal(size=space.n_variables), rng.random(space.n_variables)
        front = oracle.front((h, 1.0), (g, 0.2))
        assert front is not None
        values = (labels @ h + 1) * (labels @ g + 0.2)
        assert ((front @ h + 1) * (front @ g + 0.2)).max() == pytest.approx(values[labels @ h + 1 > 0].max())
    assert so.Oracle(pairwise(rng), "highs").front((np.ones(21), 0), (np.ones(21), 0)) is None


def test_relaxed_mode_of_an_integral_space_uses_roof_duality():
    space = pairwise(np.random.default_rng(0), 3)
    oracle = so.Oracle(space, integral="relax")
    assert oracle.algorithm == "roof duality"
    assert oracle.maximize(np.r_[np.ones(3), -2 * np.ones(3)]).value == pytest.approx(1.5)


def test_tiny_general_spaces_are_enumerated():
    space = so.LabelSpace.from_matrices([[2, 3, 4], [1, -1, 2]], -np.inf, [5, 1])
    oracle = so.Oracle(space)
    assert oracle.algorithm == "enumeration"
    rng = np.random.default_rng(0)
    for _ in range(5):
        c = rng.normal(size=3)
        assert oracle.maximize(c).value == pytest.approx(so.Oracle(space, "highs").maximize(c).value)


def side_by_side(*spaces):
    """Independent spaces as one: costs separate, whatever the family."""
    parts = [s.compiled for s in spaces]
    fields = ("row_lower", "row_upper", "lower", "upper", "integrality")
    return so.LabelSpace.from_matrices(
        sp.block_diag([p.matrix for p in parts], format="csr"),
        *(np.concatenate([getattr(p, field) for p in parts]) for field in fields),
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("other", [None, "tree dynamic program", "linear assignment", "DAG path"])
def test_several_blocks_of_a_family(family, other):
    # Two taxonomies, both of whose roots are 1, were taken for one tree of which some root is chosen.
    rng = np.random.default_rng(11)
    parts = [FAMILIES[family](rng), FAMILIES[other or family](rng), FAMILIES[family](rng)]
    space = side_by_side(*parts)
    fast = so.Oracle(space)
    assert fast.algorithm not in ("highs", "enumeration")
    apart = [so.Oracle(part, "highs") for part in parts]
    ends = np.cumsum([0] + [part.n_variables for part in parts])
    C = np.concatenate([rng.normal(size=(5, ends[-1])), -rng.random((3, ends[-1]))])
    for c, label in zip(C, fast.maximize_batch(C), strict=True):
        wanted = sum(oracle.maximize(c[a:b]).value for oracle, a, b in zip(apart, ends[:-1], ends[1:], strict=True))
        for found in (label, fast.maximize(c)):
            assert space.contains(found.z), space.violations(found.z)
            assert found.value == pytest.approx(wanted, abs=1e-6)


def test_two_taxonomies_list_their_labels_in_order():
    def taxonomy():
        s = so.LabelSpace()
        z = s.binary("node", 5)
        s.subject_to(z[[1, 2]] <= z[0], z[[3, 4]] <= z[1], z[0] == 1)
        s.subject_to(z[[1, 2]].sum() >= z[0], z[[3, 4]].sum() >= z[1])
        return s

    space = side_by_side(taxonomy(), taxonomy())
    oracle, labels = so.Oracle(space), space.enumerate()
    assert oracle.algorithm == "tree dynamic program"
    rng = np.random.default_rng(0)
    for _ in range(20):
        c = rng.normal(size=10)
        wanted = np.sort(labels @ c)[::-1]
        best = oracle.k_best(c, len(labels) + 3)
        np.testing.assert_allclose([label.value for label in best], wanted, atol=1e-9)
        assert all(space.contains(label.z) for label in best)
        no_goods = [label.z for label in best[:4]]
        assert oracle.maximize(c, forbid=no_goods).value == pytest.approx(wanted[4])


def test_integral_means_the_integer_variables():
    # The continuous variable is best at 0.5; the label is still integral where it has to be.
    space = so.LabelSpace.from_matrices(np.zeros((0, 2)), lower=0, upper=[1, 0.5], integrality=[1, 0])
    label = so.Oracle(space).maximize([1.0, 1.0])
    assert label.z.tolist() == [1.0, 0.5] and label.integral
    assert not so.Oracle(space.relaxed()).maximize([1.0, 1.0]).integral

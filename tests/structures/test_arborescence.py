"""Dependency trees: fast = HiGHS = brute force; relaxations; batch = loop; bad input."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt import search
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures.arborescence import Arborescence, DirectedCuts, WrongHeads
from structopt.surrogates import Slack

RULES = [
    {},
    {"single_root": True},
    {"projective": True},
    {"single_root": True, "projective": True},
    {"flow": "multi"},
    {"flow": "multi", "single_root": True, "projective": True},
]


@pytest.fixture(params=RULES, ids=str)
def rules(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def crosses(heads):
    arcs = [tuple(sorted((int(h), m + 1))) for m, h in enumerate(heads)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def is_tree(heads, single_root=False, projective=False, flow="single"):
    n = len(heads)
    for start in range(1, n + 1):
        v = start
        for _ in range(n):
            v = heads[v - 1] if v else 0
        if v:
            return False
    if single_root and list(heads).count(0) != 1:
        return False
    return not (projective and crosses(heads))


def all_trees(n, rules):
    return [h for h in itertools.product(range(n + 1), repeat=n) if is_tree(h, **rules)]


def costs_of(model, rng, nodes):
    c = np.zeros(model.space(nodes).n_variables)
    c[: nodes * nodes] = rng.normal(size=nodes * nodes).round(1)
    return c


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_program_has_exactly_the_trees(rules, n):
    model = Arborescence(**rules)
    points = model.space(n + 1).enumerate()
    wanted = all_trees(n, rules)
    assert sorted(tuple(model.decode(z).tolist()) for z in points) == wanted
    for z in points:
        np.testing.assert_array_equal(model.encode(model.decode(z)), z)


def test_oracle_equals_highs_and_brute_force(rules, rng):
    model = Arborescence(**rules)
    space = model.space(5)
    labels = space.enumerate()
    slow, fast = so.Oracle(space, "highs"), model.oracle(5)
    for _ in range(4):
        c = costs_of(model, rng, 5)
        found = fast.maximize(c)
        assert found.value == pytest.approx((labels @ c).max())
        assert found.value == pytest.approx(float(c @ found.z))
        assert space.contains(found.z)
        assert slow.maximize(c).value == pytest.approx(found.value, abs=1e-6)
    assert fast.statistics.fast == 4


def test_k_best_and_bans(rules, rng):
    model = Arborescence(**rules)
    labels = model.space(4).enumerate()
    c = costs_of(model, rng, 4)
    oracle = model.oracle(4)
    values = np.sort(labels @ c)[::-1]
    found = oracle.k_best(c, 1000)
    np.testing.assert_allclose([label.value for label in found], values)
    banned = [label.z for label in found[:3]]
    assert oracle.maximize(c, forbid=banned).value == pytest.approx(values[3])
    assert oracle.k_best(c, 0) == []
    assert oracle.statistics.lp == oracle.statistics.mip == 0


def test_extra_rows_and_costs_on_the_flow_go_to_the_solver(rng):
    """A limit on the flow is a limit on the size of subtrees; the algorithm must not answer for it."""
    model = Arborescence()
    labels = model.space(4).enumerate()
    oracle = model.oracle(4)
    for _ in range(5):
        c = rng.normal(size=labels.shape[1])
        assert oracle.maximize(c).value == pytest.approx((labels @ c).max(), abs=1e-6)
        assert len(oracle.k_best(c, 3)) == 3
        c[16:] = 0.0
        row = rng.normal(size=labels.shape[1])
        allowed = labels[labels @ row <= 0.0]
        if len(allowed):
            found = oracle.maximize(c, rows=[(row, -np.inf, 0.0)])
            assert found.value == pytest.approx((allowed @ c).max(), abs=1e-6)


@pytest.mark.parametrize("single_root", [False, True])
def test_relaxations(rng, single_root):
    """Many commodities, and directed cuts: integral. One commodity: an upper bound, and not always attained."""
    loose = 0
    for _ in range(15):
        W = rng.integers(-3, 4, size=(5, 5)).astype(float)
        values = {}
        for flow in ("single", "multi", "cuts"):
            model = Arborescence(single_root, flow=flow)
            c = np.zeros(model.space(5).n_variables)
            c[:25] = W.ravel()
            relaxed = so.Oracle(model.space(5), "highs", integral="relax").maximize(c)
            values[flow] = relaxed.value
            best = model.oracle(5).maximize(c).value
            heads = model.decode(relaxed.z)
            assert is_tree(heads, single_root)
            if flow == "cuts":
                assert np.allclose(relaxed.z, np.rint(relaxed.z), atol=1e-6) and model.space(5).contains(relaxed.z)
        assert values["multi"] == pytest.approx(best, abs=1e-6) == values["cuts"]
        assert values["single"] >= best - 1e-6
        loose += values["single"] > best + 1e-3
    assert loose > 0


def test_directed_cuts_equal_all_sets():
    """Arcs of random weights: a set that less than 1 enters is found if there is any, and cuts off no tree."""
    rng = np.random.default_rng(8)
    trees = np.array([Arborescence(flow="cuts").encode(heads) for heads in all_trees(3, {})])
    seen = set()
    for _ in range(60):
        arc = rng.random((4, 4)) * (rng.random((4, 4)) < 0.6)
        arc[:, 0] = 0.0
        sets = [np.array([False, *side]) for side in itertools.product([False, True], repeat=3) if any(side)]
        least = min(arc[~side][:, side].sum() for side in sets)
        answer = DirectedCuts(4)({"arc": arc})
        assert (answer is not None) == (least < 1.0 - 1e-5)
        seen.add(answer is None)
        if answer is not None:
            assert (answer[0] @ arc.ravel() < 1.0).all() and (answer[0] @ trees.T >= 1.0).all()
    assert len(seen) == 2
    assert so.testing.check_separation(
        Arborescence(flow="cuts").space(4), lambda z: is_tree(z["arc"][:, 1:].argmax(axis=0)), trials=3
    ).ok


def test_programs_of_directed_cuts(rng):
    """Labels, training and side constraints over the program alone, without Chu-Liu/Edmonds."""
    X = [rng.normal(size=(n, n, 2)) for n in (3, 4, 4)]
    model, plain = Arborescence(flow="cuts", solver="highs"), Arborescence()
    for x in X:
        w = rng.normal(size=2)
        assert np.array_equal(model.predict(w, x), plain.predict(w, x))
        heads = plain.predict(w, x)
        assert np.array_equal(model.decode(model.encode(heads, x)), heads)
    Y = [plain.predict([1.0, -1.0], x) for x in X]
    assert so.testing.check_model(Arborescence(flow="cuts"), X, Y, trials=1).ok
    with pytest.raises(DeclarationError):
        model.decode(np.zeros(18))


def test_losses_are_linear(rules):
    model = Arborescence(**rules)
    labels = model.space(4).enumerate()
    share = WrongHeads(normalize=True)
    for truth in labels[::3]:
        heads = model.decode(truth)
        coef, const = model.loss(heads)
        for z in labels:
            wrong = (model.decode(z) != heads).sum()
            assert coef @ z + const == pytest.approx(wrong)
            assert WrongHeads().value(z[:16], truth[:16]) == wrong
            assert share.value(z[:16], truth[:16]) == pytest.approx(wrong / 3)
            part, offset = share.linear(truth[:16])
            assert part @ z[:16] + offset == pytest.approx(wrong / 3)


def test_scores_are_linear_and_bias_counts(rng):
    x = rng.normal(size=(4, 4, 3)).astype(np.float32)
    model = Arborescence(intercept=True)
    w = rng.normal(size=model.n_weights(x))
    assert w.shape == (4,)
    for z in model.space(x).enumerate():
        joint = model.joint(x, z)
        assert model.scores(w, x) @ z == pytest.approx(w @ joint)
        heads = model.decode(z)
        np.testing.assert_allclose(joint[:3], sum(x[h, m + 1] for m, h in enumerate(heads)), rtol=1e-5)
        assert joint[3] == 3
    sparse = sp.csr_array(x.reshape(16, 3))
    np.testing.assert_allclose(model.scores(w, sparse), model.scores(w, x), rtol=1e-5)


@pytest.mark.parametrize("convert", [lambda x: x, lambda x: sp.csr_array(x.reshape(-1, x.shape[-1]))])
def test_batch_equals_loop(rules, rng, convert):
    model = Arborescence(**rules)
    sizes = [3, 5, 2, 4, 5, 3]
    X = [convert(rng.normal(size=(n, n, 3))) for n in sizes]
    Y = [rng.choice(np.array(all_trees(n - 1, rules)).reshape(-1, n - 1)) for n in sizes]
    batch = model.batch(X)
    w = rng.normal(size=batch.n_weights)
    tables, truth = batch.tables(w), batch.truth(Y)
    loss = batch.loss(truth)
    best, values = batch.argmax(tables, loss, 0.5, n_jobs=2)
    plain, plain_values = batch.argmax(tables)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        c = model.scores(w, x)
        coef, const = model.loss(y, x)
        assert values[i] == pytest.approx(model.oracle(x).maximize(c + 0.5 * coef).value + 0.5 * const)
        assert plain_values[i] == pytest.approx(model.oracle(x).maximize(c).value)
        np.testing.assert_array_equal(batch.decode(plain)[i], model.predict(w, x))
        np.testing.assert_array_equal(batch.decode(truth)[i], y)
    np.testing.assert_allclose(values, batch.dot(tables, best) + 0.5 * batch.loss_values(loss, best))
    np.testing.assert_allclose(batch.loss_values(loss, truth), 0, atol=1e-12)
    points = [model.encode(y, x) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(batch.joint(truth), sum(map(model.joint, X, points)), atol=1e-12)
    folded = batch.fold(points)
    assert (folded.tables[0] != truth.tables[0]).nnz == 0
    np.testing.assert_allclose(batch.loss_values(loss, folded), 0, atol=1e-12)
    np.testing.assert_array_equal(np.concatenate(batch.decode(folded)), np.concatenate(Y))


@pytest.mark.parametrize("rules", [{}, {"projective": True, "single_root": True}], ids=str)
def test_slack_rescaling_is_exact(rules, rng):
    """The constrained oracle of the search is the declared program: no labels are missed or invented by it."""
    model = Arborescence(**rules)
    labels = model.space(4).enumerate()
    for _ in range(3):
        c = costs_of(model, rng, 4)
        truth = labels[rng.integers(len(labels))]
        loss = model.loss_at(truth, 4)
        plane = Slack().plane(model.oracle(4), c, loss, truth)
        found = search.exact(plane, Slack(), rtol=0)
        best = ((1 + (labels - truth) @ c) * (labels @ loss[0] + loss[1])).max()
        assert found.value == pytest.approx(best, abs=1e-5)
        assert found.upper_bound >= best - 1e-9


def test_subsets(rng):
    model = Arborescence()
    X = [rng.normal(size=(n, n, 2)) for n in (3, 4, 2, 5, 3)]
    batch = model.batch(X)
    tables = batch.tables(rng.normal(size=2))
    truth = batch.truth([[0] * (len(x) - 1) for x in X])
    loss = batch.loss(truth)
    whole, values = batch.argmax(tables, loss, 2.0)
    some = np.array([3, 0])
    part, part_values = batch.argmax(tables, loss, 2.0, examples=some)
    np.testing.assert_allclose(part_values[some], values[some])
    for i in range(5):
        own = slice(batch.starts[0][i], batch.starts[0][i + 1])
        rows = part.tables[0][own].toarray()
        np.testing.assert_array_equal(rows, whole.tables[0][own].toarray() if i in some else np.zeros_like(rows))
    reached = batch.dot(tables, part) + 2.0 * batch.loss_values(loss, part)
    np.testing.assert_allclose(reached[some], values[some])


@pytest.mark.parametrize(
    ("rules", "heads", "told"),
    [
        ({}, [2, 1, 0], "cycle, token by token 1 -> 2 -> 1"),
        ({}, [0, 3, 4, 2], "2 -> 3 -> 4 -> 2"),
        ({}, [0, 2, 1], "Token 2 is its own head"),
        ({}, [0, 4, 1], "head of token 2 is 4"),
        ({}, [0, -1], "head of token 2 is -1"),
        ({}, [0, 0.5], "token 2 is 0.5"),
        ({"single_root": True}, [2, 0, 0], "Tokens 2 and 3 both hang from the root"),
        ({"projective": True}, [3, 0, 2, 1], "arcs 3 -> 1 and 0 -> 2 cross"),
    ],
)
def test_wrong_heads_are_named(rules, heads, told):
    with pytest.raises(LabelNotInSpace, match=told):
        Arborescence(**rules).encode(heads)


def test_bad_inputs(rng):
    model = Arborescence()
    with pytest.raises(DeclarationError, match="flow must be"):
        Arborescence(flow="none")
    with pytest.raises(DeclarationError, match=r"got \(3, 4, 2\)"):
        model.space(rng.normal(size=(3, 4, 2)))
    with pytest.raises(DeclarationError, match=r"got \(7, 2\)"):
        model.space(sp.csr_array(np.ones((7, 2))))
    with pytest.raises(DeclarationError, match="Heads must be an array of numbers"):
        model.encode(["a", "b"])
    with pytest.raises(LabelNotInSpace, match="2 heads for 3 tokens"):
        model.encode([0, 1], rng.normal(size=(4, 4, 2)))
    batch = model.batch(rng.normal(size=(3, 3, 3, 2)))
    with pytest.raises(LabelNotInSpace, match="1 of 3 labels cannot be used:\n  example 1: The heads form a cycle"):
        batch.truth([[0, 0], [2, 1], [0, 1]])
    with pytest.raises(DeclarationError, match="3 inputs but 2 labels"):
        batch.truth([[0, 0], [0, 1]])
    x = rng.normal(size=(3, 3, 2))
    x[0, 1, 0] = np.nan
    with pytest.raises(DeclarationError, match="example 1 contain NaN"):
        model.batch([rng.normal(size=(2, 2, 2)), x])


def test_copies_and_reprs(rng):
    model = Arborescence(single_root=True, flow="multi")
    x = rng.normal(size=(4, 4, 2))
    w = rng.normal(size=2)
    heads = model.predict(w, x)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.predict(w, x), heads)
        assert repr(twin) == "Arborescence(single_root=True, flow='multi')"
    assert "Chu-Liu/Edmonds" in repr(model.oracle(x))
    assert repr(model.batch([x])) == "<Batch of Arborescence: 1 examples, 16 rows, 2 weights>"

"""Labelled dependency trees: fast = HiGHS = enumeration; batch = loop; the loss by its definition; bad input."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures.labelled_arborescence import LabelledArborescence, WrongArcs

RULES = [
    {},
    {"single_root": True, "projective": True},
    {"flow": "multi", "single_root": True},
]


@pytest.fixture(params=RULES, ids=str)
def rules(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def costs_of(model, rng, nodes):
    c = np.zeros(model.space(nodes).n_variables)
    size = nodes * nodes * model.n_labels
    c[:size] = rng.normal(size=size).round(2)
    return c


def test_the_program_has_exactly_the_labelled_trees(rules):
    plain, model = so.structures.Arborescence(**rules), LabelledArborescence(2, **rules)
    points = model.space(4).enumerate()
    assert len(points) == len(plain.space(4).enumerate()) * 2**3
    labels = {tuple(map(tuple, model.decode(z).tolist())) for z in points}
    assert len(labels) == len(points)
    for z in points[::7]:
        np.testing.assert_array_equal(model.encode(model.decode(z), 4), z)


def test_oracle_equals_highs_and_enumeration(rules, rng):
    model = LabelledArborescence(2, **rules)
    space = model.space(4)
    labels, oracle, slow = space.enumerate(), model.oracle(4), so.Oracle(space, "highs")
    for _ in range(3):
        c = costs_of(model, rng, 4)
        found = oracle.maximize(c)
        assert found.value == pytest.approx((labels @ c).max())
        assert found.value == pytest.approx(float(c @ found.z)) and space.contains(found.z)
        assert slow.maximize(c).value == pytest.approx(found.value, abs=1e-6)
        np.testing.assert_allclose([label.value for label in oracle.k_best(c, 20)], np.sort(labels @ c)[::-1][:20])
    assert len(oracle.k_best(c, 10**4)) == len(labels)
    assert oracle.k_best(c, 0) == []


@pytest.mark.parametrize("label_cost", [1.0, 0.25, 0.0])
def test_the_loss_counts_tokens(rng, label_cost):
    model = LabelledArborescence(2, loss=WrongArcs(2, label_cost))
    points = model.space(3).enumerate()
    for truth in points[::5]:
        coef, const = model.loss(model.decode(truth), 3)
        a = model.decode(truth)
        for z in points:
            b = model.decode(z)
            wrong = sum(1.0 if h != g else label_cost * (r != s) for (h, r), (g, s) in zip(a, b, strict=True))
            assert coef @ z + const == pytest.approx(wrong)
            size = 9 * 2
            assert WrongArcs(2, label_cost).value(z[:size], truth[:size]) == pytest.approx(wrong)
    half = WrongArcs(2, normalize=True)
    assert half.value(points[0][:size], points[-1][:size]) <= 1.0


@pytest.mark.parametrize("surrogate", ["margin", "slack", "prob", "micro_f1"])
def test_the_batch_finds_the_most_violated_labels(rules, rng, surrogate):
    """Over sentences of two lengths: the surrogate's maximum over all labels, listed."""
    model = LabelledArborescence(2, **rules)
    X = [rng.normal(size=(n, n, 3)) for n in (4, 3, 4)]
    Y = [[(0, 1), (1, 0), (1, 1)], [(2, 0), (0, 0)], np.array([[2, 1], [0, 0], [2, 1]])]
    w = rng.normal(size=6)
    risk = so.train.StructuredRisk(model, X, Y, surrogate, rtol=0.0)
    found = risk.violations(w)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        points, truth = model.space(x).enumerate(), model.encode(y, x)
        c = np.concatenate([(x @ w.reshape(2, 3).T).ravel(), np.zeros(len(truth) - 2 * len(x) ** 2)])
        coef, const = model.loss(y, x)
        if surrogate == "micro_f1":
            continue  # checked by its own plane below
        psi = so.surrogates.get(surrogate)
        values = [psi.clipped(float(c @ (z - truth)), float(coef @ z + const)) for z in points]
        assert found.value[i] == pytest.approx(max(values), abs=1e-9)
    _, slope = risk(w)
    step = 1e-6 * rng.normal(size=6)
    assert (risk(w + step)[0] - risk(w - step)[0]) / 2 == pytest.approx(float(slope @ step), rel=1e-3, abs=1e-12)
    predicted = model.batch(X).decode(model.batch(X).argmax(model.batch(X).tables(w))[0])
    for x, y in zip(X, predicted, strict=True):
        np.testing.assert_array_equal(y, model.predict(w, x))


def test_training_with_named_relations(rng):
    model = LabelledArborescence(["a", "b", "c"], single_root=True)
    truth = rng.normal(size=12)
    X = [rng.normal(size=(4, 4, 4)) for _ in range(12)]
    Y = [model.predict(truth, x) for x in X]
    assert all(isinstance(name, str) for y in Y for _, name in y)
    fitted = so.StructuredSVM(model, lam=1e-3).fit(X, Y)
    assert fitted.score(X, Y) > 0.9
    slow = LabelledArborescence(["a", "b", "c"], single_root=True, solver="highs")
    assert slow.predict(truth, X[0]) == Y[0]


def test_fractional_points_and_sizes():
    model = LabelledArborescence(2)
    z = 0.6 * model.encode([(0, 1), (1, 0)]) + 0.4 * model.encode([(2, 0), (0, 0)])
    np.testing.assert_array_equal(model.decode(z), [[0, 1], [1, 0]])
    with pytest.raises(DeclarationError, match="17 entries"):
        model.decode(np.zeros(17))


@pytest.mark.parametrize(
    ("label", "error", "words"),
    [
        ([(0, 1), (1, 2)], LabelNotInSpace, "relation of token 2 is 2, not one of 0 to 1"),
        ([(0, 1), (1, -1)], LabelNotInSpace, "token 2"),
        ([(0, 1), (1, 0.5)], LabelNotInSpace, "token 2"),
        ([(0, 1), (1, "a")], LabelNotInSpace, "'a'"),
        ([(2, 1), (1, 0)], LabelNotInSpace, "cycle"),
        ([(0, 1)], LabelNotInSpace, "1 heads for 2 tokens"),
        ([0, 1], DeclarationError, "a head and a relation"),
        ([(0, 1), (1, 0, 3)], DeclarationError, "Token 2"),
        (None, DeclarationError, "a head and a relation"),
    ],
)
def test_bad_labels(label, error, words):
    with pytest.raises(error, match=words):
        LabelledArborescence(2).encode(label, 3)


def test_bad_declarations():
    for labels in (0, [], ["a", "a"], "ab"):
        with pytest.raises(DeclarationError):
            LabelledArborescence(labels)
    with pytest.raises(LabelNotInSpace, match="'x', not one of 'a', 'b'"):
        LabelledArborescence(["a", "b"]).encode([(0, "x")])
    with pytest.raises(DeclarationError, match="label_cost"):
        WrongArcs(2, label_cost=2.0)


def test_copies_and_reprs():
    model = LabelledArborescence(["a", "b"], single_root=True)
    assert repr(model) == "LabelledArborescence(['a', 'b'], single_root=True)"
    assert repr(copy.deepcopy(model)) == repr(model)
    assert repr(LabelledArborescence(7)) == "LabelledArborescence(7)"
    assert repr(WrongArcs(3, 0.5, normalize=True)) == "WrongArcs(3, label_cost=0.5, normalize=True)"

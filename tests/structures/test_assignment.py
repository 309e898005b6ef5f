"""Matchings: fast = HiGHS = brute force; prices; losses; batch = loop; bad input."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures.assignment import Assignment, RowLoss

CASES = [((3, 3), False), ((2, 4), False), ((1, 3), False), ((3, 3), True), ((3, 2), True), ((2, 3), True)]


def matchings(shape, unmatched):
    rows, columns = shape
    choices = range(-1 if unmatched else 0, columns)
    for label in itertools.product(choices, repeat=rows):
        used = [k for k in label if k >= 0]
        if len(used) == len(set(used)):
            yield label


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_codec_and_program(case):
    shape, unmatched = case
    model = Assignment(unmatched=unmatched)
    points = model.space(shape).enumerate()
    wanted = sorted(matchings(shape, unmatched))
    assert sorted(tuple(model.decode(z, shape).tolist()) for z in points) == wanted
    for z in points:
        np.testing.assert_array_equal(model.encode(model.decode(z, shape), shape), z)


def test_oracle_equals_highs_and_brute_force(case, rng):
    shape, unmatched = case
    model = Assignment(unmatched=unmatched)
    space, oracle = model.space(shape), model.oracle(shape)
    labels = space.enumerate()
    slow, relaxed = so.Oracle(space, "highs"), so.Oracle(space, "highs", integral="relax")
    for _ in range(5):
        c = rng.normal(size=space.n_variables).round(1)
        found = oracle.maximize(c, key="an example")
        assert found.value == pytest.approx((labels @ c).max())
        assert found.value == pytest.approx(float(c @ found.z))
        assert space.contains(found.z)
        assert slow.maximize(c).value == pytest.approx(found.value, abs=1e-7)
        assert relaxed.maximize(c).value == pytest.approx(found.value, abs=1e-7)
    np.testing.assert_allclose([label.value for label in oracle.k_best(c, 1000)], np.sort(labels @ c)[::-1])
    assert oracle.statistics.lp == oracle.statistics.mip == 0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_jobs=st.integers(1, 3))
def test_prices_change_no_value(seed, n_jobs):
    rng = np.random.default_rng(seed)
    model = Assignment()
    oracle = model.oracle((4, 4))
    labels = np.array([model.encode(list(p)) for p in itertools.permutations(range(4))])
    C = rng.integers(-3, 4, size=(6, 16)).astype(float)
    for _ in range(3):
        found = oracle.maximize_batch(C, n_jobs, keys=range(6))
        np.testing.assert_allclose([label.value for label in found], (C @ labels.T).max(axis=1))
        C += rng.normal(size=C.shape).round(1)


def test_losses_are_linear(case):
    shape, unmatched = case
    labels = [np.array(label) for label in matchings(shape, unmatched)]
    for kind in ("hamming",) if unmatched else ("hamming", "footrule"):
        for normalize in (False, True):
            model = Assignment(unmatched=unmatched, loss=kind, normalize=normalize)
            x = np.zeros((*shape, 1))
            task = RowLoss(shape, kind, normalize)
            for truth in labels:
                coef, const = model.loss(truth, x)
                for y in labels:
                    wanted = (np.abs(y - truth) if kind == "footrule" else y != truth).sum()
                    wanted = wanted / shape[0] if normalize else wanted
                    z = model.encode(y, x)
                    assert coef @ z + const == pytest.approx(wanted)
                    assert task.value(z, model.encode(truth, x)) == pytest.approx(wanted)
                    assert wanted == 0 or wanted >= task.smallest


def test_footrule_is_the_one_of_losses(rng):
    truth = rng.permutation(5)
    model = Assignment(loss="footrule")
    coef, const = model.loss(truth)
    wanted, offset = so.losses.Footrule(5).linear(model.encode(truth))
    np.testing.assert_array_equal(coef, wanted)
    assert const == offset


def test_a_loss_of_ones_own(rng):
    model = Assignment(loss=so.losses.Hamming())
    coef, const = model.loss([1, 0])
    assert coef @ model.encode([0, 1]) + const == 4
    batch = model.batch([np.zeros((2, 2, 1))])
    loss = batch.loss(batch.truth([[1, 0]]))
    assert batch.loss_values(loss, batch.truth([[0, 1]])) == [4]


@pytest.mark.parametrize("convert", [lambda x: x, lambda x: sp.csr_array(x.reshape(-1, x.shape[-1]))])
@pytest.mark.parametrize("unmatched", [False, True])
@pytest.mark.parametrize("shapes", [[(3, 3)] * 4, [(3, 3), (3, 5), (3, 3), (3, 4), (3, 5)]])
def test_batch_equals_loop(rng, convert, unmatched, shapes):
    model = Assignment(3, unmatched=unmatched, intercept=True)
    X = [convert(rng.normal(size=(*shape, 2)).astype(np.float32)) for shape in shapes]
    Y = [rng.permutation(m)[:n] for n, m in shapes]
    if unmatched:
        Y[1] = np.array([-1, 2, -1])
    batch = model.batch(X)
    truth = batch.truth(Y)
    loss = batch.loss(truth)
    n = len(X)
    for _ in range(3):  # prices are kept from one call to the next
        w = rng.normal(size=batch.n_weights)
        tables = batch.tables(w)
        best, values = batch.argmax(tables, loss, 0.5, n_jobs=2)
        plain, plain_values = batch.argmax(tables)
        some = np.array([2, 0])
        part, part_values = batch.argmax(tables, loss, 0.5, examples=some)
        np.testing.assert_allclose(part_values[some], values[some])
        others = [i for i in range(n) if i not in some]
        assert not part_values[others].any()
        assert not batch.dot(tables, part)[others].any()
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            c = model.scores(w, x)
            coef, const = model.loss(y, x)
            assert values[i] == pytest.approx(model.oracle(x).maximize(c + 0.5 * coef).value + 0.5 * const)
            assert plain_values[i] == pytest.approx(model.oracle(x).maximize(c).value)
            np.testing.assert_array_equal(batch.decode(plain)[i], model.predict(w, x))
            np.testing.assert_array_equal(batch.decode(truth)[i], y)
            z = model.encode(y, x)
            assert c @ z == pytest.approx(w @ model.joint(x, z))
        np.testing.assert_allclose(values, batch.dot(tables, best) + 0.5 * batch.loss_values(loss, best))
    np.testing.assert_allclose(batch.loss_values(loss, truth), 0, atol=1e-12)
    points = [model.encode(y, x) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(batch.joint(truth), sum(map(model.joint, X, points)), atol=1e-6)
    assert (batch.fold(points).tables[0] != truth.tables[0]).nnz == 0


def test_a_fractional_point_is_rounded_to_a_matching():
    model = Assignment()
    np.testing.assert_array_equal(model.decode([0.5, 0.5, 0.0, 0.5, 0.3, 0.2, 0.0, 0.2, 0.8]), [1, 0, 2])
    np.testing.assert_array_equal(Assignment(unmatched=True).decode([0.6, 0.0, 0.1, 0.3]), [0, -1])


@pytest.mark.parametrize(
    ("options", "label", "told"),
    [
        ({}, [0, 1, 1], "Not a permutation: rows 1 and 2 both have column 1"),
        ({}, [0, 1, 3], "Row 2 has column 3; columns are 0 to 2"),
        ({}, [0, -1, 2], "Row 1 has column -1.*unmatched=True allows"),
        ({"unmatched": True}, [0, 0, -1], "Not a matching: rows 0 and 1 both have column 0"),
        ({"unmatched": True}, [0, -2, -1], "Row 1 has column -2"),
        ({}, [0, 1.5, 2], "Row 1 has column 1.5"),
        ({}, [0, np.nan, 2], "Row 1 has column nan"),
        ({}, [0, 1], "array of 3 columns"),
        ({}, ["a", "b", "c"], r"array of columns, one per row; got \['a', 'b', 'c'\]"),
    ],
)
def test_wrong_labels_are_named(options, label, told):
    with pytest.raises(LabelNotInSpace, match=told):
        Assignment(**options).encode(label, np.zeros((3, 3, 1)))


def test_bad_inputs(rng):
    with pytest.raises(DeclarationError, match="one of hamming, footrule"):
        Assignment(loss="kendall")
    with pytest.raises(DeclarationError, match="footrule is not defined"):
        Assignment(loss="footrule", unmatched=True)
    with pytest.raises(DeclarationError, match="at least one row"):
        Assignment(0)
    with pytest.raises(DeclarationError, match=r"3 rows cannot each have one of 2 columns.*unmatched=True"):
        Assignment().space(np.zeros((3, 2, 1)))
    with pytest.raises(DeclarationError, match="has 3 rows; this model was made for n = 2"):
        Assignment(2).space(np.zeros((3, 3, 1)))
    with pytest.raises(DeclarationError, match=r"got \(6, 1\)"):
        Assignment().space(sp.csr_array(np.zeros((6, 1))))
    with pytest.raises(DeclarationError, match=r"got \(3, 3\)"):
        Assignment().space(np.zeros((3, 3)))
    batch = Assignment().batch(rng.normal(size=(2, 3, 3, 1)))
    with pytest.raises(LabelNotInSpace, match="1 of 2 labels cannot be used:\n  example 1: Not a permutation"):
        batch.truth([[0, 1, 2], [0, 0, 1]])
    with pytest.raises(DeclarationError, match="2 inputs but 1 labels"):
        batch.truth([[0, 1, 2]])


def test_copies_and_reprs(rng):
    model = Assignment(3, loss="footrule")
    x = rng.normal(size=(3, 4, 2))
    w = rng.normal(size=2)
    columns = model.predict(w, x)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.predict(w, x), columns)
        assert repr(twin) == "Assignment(n=3, loss='footrule')"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model.oracle(x))).space.lower, model.space(x).lower)
    assert "RowLoss((3, 4), 'footrule')" in repr(model.row_loss(3, 4))

"""Models composed by a user: features linear in z, batches equal to loops, codecs, losses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace


def budget_space() -> so.LabelSpace:
    space = so.LabelSpace("budget")
    y = space.binary("y", 4)
    i, j = np.triu_indices(4, k=1)
    p = space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    space.subject_to(y.sum() <= 2, name="budget")
    return space


def row_model(**options) -> so.Model:
    features = {"y": so.features.Linear(intercept=True), "pair": so.features.Tied()}
    return so.Model(budget_space(), features, so.losses.Hamming(), **options)


def ragged_model() -> so.Model:
    """A space per length: no two neighbours on, shared arc features, one tied weight for all positions."""

    def declare(x) -> so.LabelSpace:
        n = len(x["nodes"])
        space = so.LabelSpace(f"{n} nodes")
        y = space.binary("y", (n, 2))
        m = space.binary("mark", n)
        space.subject_to(y.sum(axis=1) <= 1, m[1:] + m[:-1] <= 1)
        return space

    features = {"y": so.features.Table("nodes"), "mark": so.features.Shared("arcs")}
    return so.Model(
        declare, features, {"y": so.losses.Hamming(), "mark": so.losses.Hamming()}, key=lambda x: len(x["nodes"]),
        encode=lambda label: np.concatenate([np.ravel(label[0]), label[1]]),
        decode=lambda z: (z[: 2 * (len(z) // 3)].reshape(-1, 2), z[2 * (len(z) // 3) :]),
    )  # fmt: skip


def ragged_data(rng):
    X = [{"nodes": rng.normal(size=(n, 3)), "arcs": rng.normal(size=(n, 2))} for n in (2, 4, 2, 3)]
    Y = []
    for x in X:
        n = len(x["nodes"])
        y = np.zeros((n, 2))
        y[np.arange(n), rng.integers(0, 2, n)] = rng.integers(0, 2, n)
        mark = np.zeros(n)
        mark[rng.integers(0, n)] = 1
        Y.append((y, mark))
    return X, Y


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
def test_scores_are_joint_features_times_w(rng, convert):
    model = row_model()
    X = convert(rng.normal(size=(5, 3)))
    batch = model.batch(X)
    w = rng.normal(size=batch.n_weights)
    labels = model.space().enumerate()
    for i in range(5):
        x = batch.input(i)
        assert model.n_weights(x) == w.size == 4 * 4 + 6
        c = model.scores(w, x)
        for z in labels:
            assert c @ z == pytest.approx(w @ model.joint(x, z), rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(model.scores_batch(w, X), [model.scores(w, batch.input(i)) for i in range(5)], rtol=1e-6)


def test_batch_equals_loop_on_ragged_spaces(rng):
    model = ragged_model()
    X, Y = ragged_data(rng)
    batch = model.batch(X)
    w = rng.normal(size=batch.n_weights)
    truth = batch.truth(Y)
    tables = batch.tables(w)
    for c, x in zip(model.scores_batch(w, X), X, strict=True):
        np.testing.assert_allclose(c, model.scores(w, x))
    Z = [model.encode(y, x) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(model.joint_batch(X, Z), sum(model.joint(x, z) for x, z in zip(X, Z, strict=True)))
    scores = [model.scores(w, x) @ z for x, z in zip(X, Z, strict=True)]
    np.testing.assert_allclose(batch.dot(tables, truth), scores)
    weights = rng.normal(size=4)
    wanted = sum(a * model.joint(x, z) for a, x, z in zip(weights, X, Z, strict=True))
    np.testing.assert_allclose(batch.joint(truth, weights), wanted)
    loss = batch.loss(truth)
    best, values = batch.argmax(tables, loss, 0.7)
    for i, x in enumerate(X):
        coef, const = model.loss(Y[i], x)
        label = model.oracle(x).maximize(model.scores(w, x) + 0.7 * coef)
        assert values[i] == pytest.approx(label.value + 0.7 * const)
    np.testing.assert_allclose(values, batch.dot(tables, best) + 0.7 * batch.loss_values(loss, best))
    np.testing.assert_allclose(batch.loss_values(loss, truth), 0, atol=1e-12)


def test_argmax_of_a_fixed_space(rng):
    model = row_model()
    X = rng.normal(size=(6, 3))
    Y = rng.integers(0, 2, (6, 4))
    Y[Y.sum(axis=1) > 2] = 0
    batch = model.batch(X)
    w = rng.normal(size=batch.n_weights)
    truth = batch.truth(Y)
    loss, tables = batch.loss(truth), batch.tables(w)
    labels = model.space().enumerate()
    best, values = batch.argmax(tables, loss)
    for i in range(6):
        c = model.scores(w, X[i])
        brute = labels @ c + np.abs(labels[:, :4] - Y[i]).sum(axis=1)
        assert values[i] == pytest.approx(brute.max())
    _, part = batch.argmax(tables, loss, examples=np.array([4, 1]))
    np.testing.assert_allclose(part[[1, 4]], values[[1, 4]])
    assert part[0] == 0
    assert [label.tolist() for label in batch.decode(best)] == [z[:4].tolist() for z in np.asarray(best.native)]


def test_codec_completes_auxiliary_blocks():
    model = row_model()
    z = model.encode([1, 0, 1, 0])
    assert z[4:].tolist() == [0, 1, 0, 0, 0, 0]
    assert model.decode(z).tolist() == [1, 0, 1, 0]
    assert model.encode({"y": [0, 0, 0, 1], "pair": np.zeros(6)})[3] == 1
    with pytest.raises(LabelNotInSpace, match="budget"):
        model.encode([1, 1, 1, 0])
    with pytest.raises(DeclarationError, match="shape"):
        model.encode([1, 0])


def test_all_bad_labels_are_listed(rng):
    Y = np.ones((15, 4), dtype=int)
    Y[3] = 0
    with pytest.raises(LabelNotInSpace, match="14 of 15") as info:
        row_model().batch(rng.normal(size=(15, 3))).truth(Y)
    assert "example 0" in str(info.value) and "example 10" in str(info.value) and "example 11" not in str(info.value)


def test_bad_models_and_data(rng):
    with pytest.raises(DeclarationError, match="nope"):
        so.Model(budget_space(), {"nope": so.features.Linear()})
    with pytest.raises(DeclarationError, match="no task loss"):
        so.Model(budget_space(), {"y": so.features.Linear()}).loss([0, 0, 0, 0])
    with pytest.raises(DeclarationError, match="weights"):
        row_model().scores(np.zeros(3), np.zeros(3))
    X = rng.normal(size=(3, 2))
    X[1, 0] = np.nan
    with pytest.raises(DeclarationError, match="example 1"):
        row_model().batch(X)
    with pytest.raises(DeclarationError, match="example 1"):
        row_model().batch(sp.csr_array(X))
    with pytest.raises(DeclarationError, match="no examples"):
        row_model().batch(np.empty((0, 3)))
    with pytest.raises(DeclarationError, match="labels"):
        row_model().batch(rng.normal(size=(3, 2))).truth([[0, 0, 0, 0]])
    ragged, _ = ragged_data(rng)
    ragged[2]["nodes"] = np.zeros((2, 9))
    with pytest.raises(DeclarationError, match="Example 2 has 9"):
        ragged_model().batch(ragged)


def test_tied_groups():
    term = so.features.Tied([0, 1, 0])
    space = so.LabelSpace()
    space.binary("y", 3)
    model = so.Model(space, {"y": term})
    assert model.scores([2.0, 5.0], None).tolist() == [2, 5, 2]
    assert model.joint(None, [1, 1, 1]).tolist() == [2, 1]
    with pytest.raises(DeclarationError, match="n_weights"):
        so.features.Tied(lambda x: x)


def test_models_pickle_and_show():
    model = row_model()
    w = np.arange(model.n_weights(np.zeros(3)), dtype=float)
    twin = pickle.loads(pickle.dumps(model))
    assert twin.predict(w, np.ones(3)).tolist() == model.predict(w, np.ones(3)).tolist()
    assert "budget" in repr(model)


@pytest.mark.parametrize(
    "loss", [so.losses.Hamming(), so.losses.Hamming([1, 2, 0.5, 3]), so.losses.Hamming([1, 2, 0.5, 3], normalize=True)]
)
def test_linear_form_of_hamming(loss):
    points = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
    coefs, consts = loss.linear_batch(points)
    for truth, coef_b, const_b in zip(points, coefs, consts, strict=True):
        coef, const = loss.linear(truth)
        np.testing.assert_allclose(coef, coef_b)
        assert const == pytest.approx(const_b)
        for y in points:
            assert coef @ y + const == pytest.approx(loss.value(y, truth))
    positive = [loss.value(y, t) for y in points for t in points if loss.value(y, t) > 0]
    assert min(positive) >= loss.smallest - 1e-12


def test_zero_one_and_footrule():
    eye = np.eye(3)
    loss = so.losses.ZeroOne()
    for truth in eye:
        coef, const = loss.linear(truth)
        assert [coef @ y + const for y in eye] == [loss.value(y, truth) for y in eye]
    with pytest.raises(DeclarationError, match="one-hot"):
        loss.linear([1, 1, 0])
    import itertools

    footrule = so.losses.Footrule(4)
    matrices = [np.eye(4)[list(p)] for p in itertools.permutations(range(4))]
    for truth in matrices[::5]:
        coef, const = footrule.linear(truth)
        for y in matrices:
            assert coef @ y.ravel() + const == pytest.approx(footrule.value(y, truth))

"""Chains: Viterbi = HiGHS = brute force; batch = loop; rules, no-goods, fronts; bad input; the OCR letters."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.errors import DeclarationError, InfeasibleSpace, LabelNotInSpace
from structopt.structures.chain import Chain, bio_rules
from structopt.structures.sequences import PositionLoss

TAGS = ["O", "B-PER", "I-PER"]
COSTS = np.array([[0, 1, 2], [3, 0, 1], [1, 1, 0]])
SPARSE = [[1, 0, 1], [1, 1, 0], [0, 1, 1]]
MODELS = {
    "numbers": lambda: Chain(3),
    "bio": lambda: Chain(TAGS, transitions="bio", initial_weights=True),
    "matrix": lambda: Chain("abc", transitions=SPARSE, initial=[1, 1, 0], loss=COSTS, intercept=True),
    "normalized": lambda: Chain(2, loss="normalized", initial_weights=True, intercept=True),
    "other loss": lambda: Chain(2, loss=OneHotLoss()),
}


class OneHotLoss(so.losses.TaskLoss):
    """A loss on the one-hot block that the batch knows nothing about: state k at position t costs t + 1 off truth."""

    def linear(self, truth):
        y = np.asarray(truth, dtype=float).reshape(-1, 2)
        price = np.arange(1.0, len(y) + 1)[:, None]
        return (-price * y).ravel(), float(price.sum())

    def value(self, y, truth):
        a, b = (np.asarray(v, dtype=float).reshape(-1, 2) for v in (y, truth))
        return float((np.arange(1.0, len(a) + 1)[:, None] * b * (1 - a)).sum())


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def sequences(model, length):
    """Every label, by the rules alone."""
    allowed, first = model.rules
    for y in itertools.product(range(model.n_states), repeat=length):
        if first[y[0]] and all(allowed[a, b] for a, b in itertools.pairwise(y)):
            yield np.array(y)


def data(model, rng, lengths=(3, 1, 4, 2, 3, 5), d=2):
    X = [rng.normal(size=(T, d)) for T in lengths]
    Y = []
    for T in lengths:
        known = list(sequences(model, T))
        Y.append(model.label_of(known[rng.integers(len(known))]))
    return X, Y


@pytest.mark.parametrize("length", [1, 2, 4])
def test_oracle_equals_highs_and_brute_force(model, rng, length):
    x = np.zeros((length, 1))
    space = model.space(x)
    points = np.array([model.encode(model.label_of(y), x) for y in sequences(model, length)])
    listed = space.enumerate()
    assert sorted(map(tuple, listed)) == sorted(map(tuple, points))
    oracle = model.oracle(x)
    slow, relaxed = so.Oracle(space, "highs"), so.Oracle(space.relaxed(), "highs")
    for _ in range(4):
        c = rng.normal(size=space.n_variables)
        values = np.sort(points @ c)[::-1]
        best = oracle.maximize(c)
        assert best.value == pytest.approx(values[0])
        assert best.value == pytest.approx(c @ best.z, abs=1e-12)
        assert space.contains(best.z)
        assert slow.maximize(c).value == pytest.approx(values[0])
        assert relaxed.maximize(c).value == pytest.approx(values[0])  # the LP is integral
        found = oracle.k_best(c, 5)
        np.testing.assert_allclose([label.value for label in found], values[:5])
        # The last forbidden point is no label, and must not be rounded to one.
        banned = [label.z for label in found[: len(values) - 1][:2]]
        outside = oracle.maximize(c, forbid=[*banned, np.zeros(space.n_variables)])
        assert outside.value == pytest.approx(values[len(banned)])
    with pytest.raises(InfeasibleSpace, match="no-goods"):
        oracle.maximize(c, forbid=points)
    C = rng.normal(size=(5, space.n_variables))
    for n_jobs in (1, 2):
        found = oracle.maximize_batch(C, n_jobs)
        np.testing.assert_allclose([label.value for label in found], (C @ points.T).max(axis=1))
        assert all(space.contains(label.z) for label in found)
    assert oracle.statistics.lp == oracle.statistics.mip == 0


def test_the_recogniser_proves_the_declared_lp_integral():
    assert Chain(3).space(np.zeros((4, 1))).structure.totally_unimodular


def test_codec_and_linear_forms(model, rng):
    x = rng.normal(size=(3, 2))
    w = rng.normal(size=model.n_weights(x))
    scores = model.scores(w, x)
    labels = [model.label_of(y) for y in sequences(model, 3)]
    size = 3 * model.n_states
    best = max(labels, key=lambda label: scores @ model.encode(label, x))
    np.testing.assert_array_equal(model.predict(w, x), best)
    for truth in labels[:5]:
        coef, const = model.loss(truth)
        for label in labels:
            z = model.encode(label, x)
            np.testing.assert_array_equal(model.decode(z, x), label)
            assert scores @ z == pytest.approx(w @ model.joint(x, z))
            wanted = model._task.value(z[:size], model.encode(truth)[:size])
            assert coef @ z + const == pytest.approx(wanted)


def test_position_losses_by_definition():
    y, truth = [0, 1, 1, 2], [0, 2, 1, 0]
    for loss, wanted in [
        (None, 2), ("normalized", 0.5), ([1, 1, 5], 1 + 5), (COSTS, COSTS[2, 1] + COSTS[0, 2]),
        (so.losses.Hamming(), 2), (so.losses.Hamming(normalize=True), 0.5),
        (PositionLoss(3, [1, 1, 5], normalize=True), 6 / (1 + 5 + 1 + 1)),
    ]:  # fmt: skip
        model = Chain(3, loss=loss)
        coef, const = model.loss(truth)
        assert coef @ model.encode(y) + const == pytest.approx(wanted)
        assert coef @ model.encode(truth) + const == 0


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, lambda x: x.astype(np.float32), lambda x: x.tolist()])
def test_batch_equals_loop(model, rng, convert):
    X, Y = data(model, rng)
    X = [convert(x) for x in X]
    batch = model.batch(X)
    w = rng.normal(size=batch.n_weights)
    tables, truth = batch.tables(w), batch.truth(Y)
    loss = batch.loss(truth)
    best, values = batch.argmax(tables, loss, 0.5)
    plain, plain_values = batch.argmax(tables)
    points = [model.encode(y, x) for x, y in zip(X, Y, strict=True)]
    for i, x in enumerate(X):
        c = model.scores(w, x)
        coef, const = model.loss(Y[i], x)
        oracle = model.oracle(x)
        assert values[i] == pytest.approx(oracle.maximize(c + 0.5 * coef).value + 0.5 * const)
        assert plain_values[i] == pytest.approx(oracle.maximize(c).value)
        np.testing.assert_array_equal(batch.decode(truth)[i], Y[i])
        np.testing.assert_array_equal(batch.decode(plain)[i], model.predict(w, x))
        np.testing.assert_allclose(batch.costs(tables)[i], c)
    np.testing.assert_allclose(values, batch.dot(tables, best) + 0.5 * batch.loss_values(loss, best))
    np.testing.assert_allclose(batch.loss_values(loss, truth), 0, atol=1e-12)
    wanted = [model.joint(x, z) for x, z in zip(X, points, strict=True)]
    np.testing.assert_allclose(batch.joint(truth), np.sum(wanted, axis=0), atol=1e-6)
    share = rng.normal(size=len(X))
    np.testing.assert_allclose(batch.joint(truth, share), share @ wanted, atol=1e-6)
    folded = batch.fold(points)
    np.testing.assert_array_equal(folded.native, truth.native)
    for a, b in zip(folded.tables, truth.tables, strict=True):
        np.testing.assert_array_equal(a.toarray(), b.toarray())
        assert b.has_canonical_format
    in_threads, thread_values = batch.argmax(tables, loss, 0.5, n_jobs=2)
    np.testing.assert_array_equal(in_threads.native, best.native)
    np.testing.assert_array_equal(thread_values, values)


def test_subsets(model, rng):
    X, Y = data(model, rng)
    batch = model.batch(X)
    tables = batch.tables(rng.normal(size=batch.n_weights))
    loss = batch.loss(batch.truth(Y))
    whole, values = batch.argmax(tables, loss)
    some, others = np.array([5, 1, 4]), [0, 2, 3]
    part, part_values = batch.argmax(tables, loss, examples=some)
    np.testing.assert_array_equal(part_values[some], values[some])
    assert not part_values[others].any()
    for full, only, start in zip(whole.tables, part.tables, batch.starts, strict=True):
        for i in range(len(X)):
            wanted = full[start[i] : start[i + 1]].toarray() * (i in some)
            np.testing.assert_array_equal(only[start[i] : start[i + 1]].toarray(), wanted)
    np.testing.assert_allclose((batch.dot(tables, part) + batch.loss_values(loss, part))[some], values[some])
    assert [label is None for label in batch.decode(part)] == [True, False, True, True, False, False]
    empty, none = batch.argmax(tables, loss, examples=np.array([], dtype=int))
    assert not none.any() and not any(table.nnz for table in empty.tables)


def test_a_subset_reads_only_its_own_rows(model, rng):
    """A pass may keep the scores of other chunks out of date: they must not matter."""
    X, _ = data(model, rng)
    batch = model.batch(X)
    tables = [np.array(table) for table in batch.tables(rng.normal(size=batch.n_weights))]
    some = np.array([1, 3])
    wanted, values = batch.argmax(tables, examples=some)
    for table, start in zip(tables, batch.starts, strict=True):
        keep = np.concatenate([np.arange(start[i], start[i + 1]) for i in some])
        table[np.setdiff1d(np.arange(len(table)), keep)] = np.nan
    found, found_values = batch.argmax(tables, examples=some)
    np.testing.assert_array_equal(found.native, wanted.native)
    np.testing.assert_array_equal(found_values, values)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 5), kind=st.sampled_from(sorted(MODELS)))
def test_front_holds_every_monotone_maximum(seed, length, kind):
    model, rng = MODELS[kind](), np.random.default_rng(seed)
    labels = [model.label_of(y) for y in sequences(model, length)]
    points = np.array([model.encode(label) for label in labels])
    c = rng.normal(size=points.shape[1])
    coef, const = model.loss(labels[rng.integers(len(labels))])
    front = model.oracle(np.zeros((length, 1))).front((c, 1.0), (coef, const))
    assert front is not None
    assert set(map(tuple, front)) <= set(map(tuple, points))
    for psi in (lambda h, g: np.maximum(h + 5, 0) * g, lambda h, g: h + 2 * g, lambda h, g: np.minimum(h, g)):
        assert psi(front @ c, front @ coef + const).max() == pytest.approx(psi(points @ c, points @ coef + const).max())


def test_front_only_where_the_loss_counts(rng):
    model = Chain(2)
    oracle = model.oracle(np.zeros((3, 1)))
    c = rng.normal(size=14)
    assert oracle.front((c, 0.0), (rng.normal(size=14), 0.0)) is None
    by_transition = np.zeros(14)
    by_transition[-1] = 1.0
    assert oracle.front((c, 0.0), (by_transition, 0.0)) is None
    irrational = np.zeros(14)
    irrational[:4] = 0.0, 1.0, 0.0, np.pi
    assert oracle.front((c, 0.0), (irrational, 0.0)) is None
    assert len(oracle.front((c, 0.0), (np.zeros(14), 0.0))) == 1


def test_bio_rules():
    tags = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    rules = bio_rules(tags)
    for a, b in itertools.product(range(5), repeat=2):
        wanted = tags[b][0] != "I" or (tags[a] != "O" and tags[a][2:] == tags[b][2:])
        assert rules.transitions[a, b] == wanted
    assert rules.initial.tolist() == [True, True, False, True, False]
    assert Chain(tags, transitions=rules).rules.initial.tolist() == rules.initial.tolist()
    assert bio_rules(["B", "I", "O"]).initial.tolist() == [True, False, True]
    for wrong in (["O", "X-PER"], ["O-PER"], ["B-"], ["O", 3]):
        with pytest.raises(DeclarationError, match="not a BIO tag"):
            bio_rules(wrong)
    with pytest.raises(DeclarationError, match="no 'B-LOC'"):
        bio_rules(["O", "B-PER", "I-LOC"])


def test_bad_declarations():
    for arguments, message in [
        ({"states": 0}, "at least one state"),
        ({"states": ["a", "b", "a"]}, "named 'a'"),
        ({"states": 2, "transitions": np.ones((3, 3))}, "shape"),
        ({"states": 2, "transitions": [[0.5, 1], [1, 1]]}, "True or False"),
        ({"states": 2, "transitions": "ioe"}, "'bio'"),
        ({"states": 2, "initial": [0, 0]}, "may come first"),
        ({"states": 2, "loss": "zero-one"}, "loss must be"),
        ({"states": 2, "loss": [1, 2, 3]}, "shape"),
        ({"states": 2, "loss": [1, -2]}, "non-negative"),
    ]:
        with pytest.raises(DeclarationError, match=message):
            Chain(**arguments)


def test_bad_labels():
    model = Chain(TAGS, transitions="bio")
    x = np.zeros((3, 2))
    for label, message in [
        (["O", "B-LOC", "O"], "position 1: 'B-LOC' is not one of the states 'O', 'B-PER', 'I-PER'"),
        (["O", ["O"], "O"], r"position 1: \['O'\]"),
        (["O", "O", "I-PER"], "position 2: 'I-PER' may not follow 'O'"),
        (["I-PER", "O", "O"], "position 0: 'I-PER' may not come first"),
        (["O", "O"], "2 states for a sequence of 3"),
    ]:
        with pytest.raises(LabelNotInSpace, match=message):
            model.encode(label, x)
        with pytest.raises(LabelNotInSpace, match=f"1 of 2 labels cannot be used:\n  example 1: .*{message}"):
            model.batch([x, x]).truth([["O"] * 3, label])
    with pytest.raises(LabelNotInSpace, match="empty"):
        model.encode([])
    with pytest.raises(LabelNotInSpace, match="position 1: 7"):
        Chain(3).encode(np.array([1, 7]))
    with pytest.raises(DeclarationError, match="2 inputs but 1 labels"):
        model.batch([x, x]).truth([["O"] * 3])


def test_bad_inputs():
    model = Chain(2)
    w = np.zeros(8)
    with pytest.raises(DeclarationError, match=r"Example 1: .*empty"):
        model.batch([np.zeros((2, 2)), np.zeros((0, 2))])
    with pytest.raises(DeclarationError, match="empty"):
        model.predict(w, np.zeros((0, 2)))
    with pytest.raises(DeclarationError, match=r"\(T, d\) matrix"):
        model.space(np.zeros(4))
    with pytest.raises(DeclarationError, match=r"wrap a single sequence as \[x\]"):
        model.batch(np.zeros((4, 2)))
    with pytest.raises(DeclarationError, match="Example 1 has 3 features"):
        model.batch([np.zeros((2, 2)), np.zeros((2, 3))])
    with pytest.raises(DeclarationError, match="example 1 contain NaN"):
        model.batch([np.zeros((2, 2)), np.full((2, 2), np.nan)])
    with pytest.raises(DeclarationError, match="8 weights"):
        model.predict(np.zeros(5), np.zeros((3, 2)))
    with pytest.raises(DeclarationError, match="not one of a chain"):
        model.decode(np.zeros(5))
    with pytest.raises(DeclarationError, match="n_jobs"):
        batch = model.batch([np.zeros((2, 2))])
        batch.argmax(batch.tables(w), n_jobs=0)


def test_rules_that_end():
    """A chain of states without a way back has labels only up to its length."""
    model = Chain("abc", transitions=np.triu(np.ones((3, 3)), 1))
    assert model.predict(np.zeros(12), np.zeros((3, 1))) == ["a", "b", "c"]
    with pytest.raises(InfeasibleSpace, match="at most 3 positions, not 4"):
        model.space(np.zeros((4, 1)))
    with pytest.raises(InfeasibleSpace, match=r"Example 1: .*at most 3"):
        model.batch([np.zeros((3, 1)), np.zeros((5, 1))])


def test_pickle_copy_and_repr(model, rng):
    X, _ = data(model, rng)
    batch = model.batch(X)
    w = rng.normal(size=batch.n_weights)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.batch(X).argmax(batch.tables(w))[1], batch.argmax(batch.tables(w))[1])
        assert twin.space(X[0]).fingerprint == model.space(X[0]).fingerprint
    assert "Chain of" in repr(model) and "6 examples, 18 rows" in repr(batch)


def test_a_stack_of_equal_lengths(rng):
    X = rng.normal(size=(4, 3, 2))
    batch = Chain(2).batch(X)
    assert batch.starts[0].tolist() == [0, 3, 6, 9, 12]
    assert batch.decode(batch.truth(np.ones((4, 3), dtype=int)))[2].tolist() == [1, 1, 1]


LETTERS = Path(__file__).parents[3] / "shared" / "data" / "ocr_letters" / "all.npz"


@pytest.mark.data
@pytest.mark.skipif(not LETTERS.exists(), reason="the OCR letters are not beside the checkout")
def test_letters():
    stored = np.load(LETTERS)
    pixels = sp.csr_matrix((stored["X_data"], stored["X_indices"], stored["X_indptr"]), shape=tuple(stored["X_shape"]))
    words = np.flatnonzero(stored["fold"] == 1)
    bounds = stored["word_indptr"]
    X = [pixels[bounds[i] : bounds[i + 1]].toarray() for i in words]
    Y = [stored["y"][bounds[i] : bounds[i + 1]] for i in words]
    model = Chain(26)
    batch = model.batch(X)
    assert (batch.n, batch.n_weights) == (704, 26 * 128 + 26 * 26) and sum(map(len, Y)) == 5375
    truth = batch.truth(Y)
    loss = batch.loss(truth)
    assert all(np.array_equal(a, b) for a, b in zip(batch.decode(truth), Y, strict=True))
    # Pegasos in chunks: it must come down, but not below the certified optimum, 3.49679.
    lam, w = 1 / 70.4, np.zeros(batch.n_weights)
    rng, ones = np.random.default_rng(0), np.ones(batch.n)
    for step, chunk in enumerate((c for _ in range(6) for c in np.array_split(rng.permutation(704), 32)), start=1):
        labels, _ = batch.argmax(batch.tables(w), loss, examples=chunk)
        wanted = batch.joint(truth, np.where(np.isin(np.arange(704), chunk), 1.0, 0.0))
        w += ((wanted - batch.joint(labels, ones)) / (lam * len(chunk)) - w) / step

    def objective(w):
        tables = batch.tables(w)
        labels, values = batch.argmax(tables, loss)
        excess = values - batch.dot(tables, truth)
        assert (excess >= -1e-9).all()
        np.testing.assert_allclose(values, batch.dot(tables, labels) + batch.loss_values(loss, labels))
        return 0.5 * lam * w @ w + excess.mean()

    assert objective(np.zeros_like(w)) == pytest.approx(5375 / 704)  # every letter wrong
    assert 3.49678 <= objective(w) < 7.0


@pytest.mark.parametrize("model", [Chain(3), Chain(["O", "B-X", "I-X"], "bio", initial_weights=True)], ids=str)
@pytest.mark.parametrize("length", [1, 4])
def test_sums_over_all_labels_with_scores_for_every_step(model, length):
    rng = np.random.default_rng(0)
    x = np.zeros((length, 1))
    oracle, labels = model.oracle(x), model.space(x).enumerate()
    C = rng.normal(size=(3, labels.shape[1]))
    totals = C @ labels.T
    log_z = np.logaddexp.reduce(totals, axis=1)
    means = np.exp(totals - log_z[:, None]) @ labels
    found, marginals = oracle.sums(C)
    np.testing.assert_allclose(found, log_z, rtol=1e-12)
    np.testing.assert_allclose(marginals, means, atol=1e-12)
    np.testing.assert_allclose(oracle.log_partition(C), log_z, rtol=1e-12)
    drawn = oracle.sample(C[0], 4000, random_state=0)
    assert all(model.space(x).contains(z) for z in drawn[:20])
    assert np.abs(drawn.mean(axis=0) - means[0]).max() < 0.04


def test_labels_in_arrays_are_checked_like_lists():
    model = Chain(2, [[True, True], [False, True]], [True, False])
    batch = model.batch([np.zeros((2, 1)), np.zeros((3, 1))])
    right = [np.array([0, 1]), np.array([0, 0, 1], dtype=np.int32)]
    np.testing.assert_array_equal(batch.truth(right).native, [0, 1, 0, 0, 1])
    np.testing.assert_array_equal(batch.truth([list(y) for y in right]).native, [0, 1, 0, 0, 1])
    for wrong in ([0, 1, 0], [1, 1, 1], [0, 0, 2], [0, -1, 1], [0, 0]):
        with pytest.raises(LabelNotInSpace, match="example 1"):
            batch.truth([np.array([0, 1]), np.array(wrong)])


@pytest.mark.parametrize("surrogate", ["margin", "slack", "micro_f1"])
def test_a_risk_of_chains_declares_no_space_of_all_transitions(surrogate):
    # The space of a chain has states^2 * positions variables; training needs states^2 weights only.
    rng, S, T = np.random.default_rng(0), 60, 50
    X, Y = [rng.normal(size=(T, 2)) for _ in range(2)], [rng.integers(0, S, T).tolist() for _ in range(2)]
    model = so.structures.Chain(S)
    risk = so.train.StructuredRisk(model, X, Y, surrogate=surrogate)
    risk(np.zeros(risk.n_features))
    assert all(space.n_variables < S * S for space in model._spaces.values())
    assert risk.n_features == 2 * S + S * S

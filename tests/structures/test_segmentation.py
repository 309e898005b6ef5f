"""Segmentations: labels, scores and losses by their definitions; the F1 of entities; bad input."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.segments.parts import SegmentParts
from structopt.errors import DeclarationError, InfeasibleSpace, LabelNotInSpace
from structopt.structures.segmentation import Segmentation

COSTS = np.array([[0, 1, 2], [3, 0, 1], [1, 1, 0]])
CHANGE = ~np.eye(3, dtype=bool)
MODELS = {
    "numbers": lambda: Segmentation(2, 2),
    "mean": lambda: Segmentation(2, 3, pooling="mean", intercept=True, loss="normalized", length_weights=True),
    "no repeats": lambda: Segmentation("abc", 3, transitions=CHANGE, initial=[1, 0, 1], loss=COSTS),
    "all weights": lambda: Segmentation(["x", "y"], 2, initial_weights=True, length_weights=True, loss=[1, 2]),
    "single positions": lambda: Segmentation(3, 1, initial_weights=True),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def labels_of(model, length):
    """Every label, by the rules alone."""
    allowed, first = model.rules
    for cuts in itertools.product([False, True], repeat=length - 1):
        starts = [0, *(t + 1 for t, cut in enumerate(cuts) if cut)]
        if max(b - a for a, b in itertools.pairwise([*starts, length])) > model.max_length:
            continue
        for states in itertools.product(range(model.n_states), repeat=len(starts)):
            if first[states[0]] and all(allowed[a, b] for a, b in itertools.pairwise(states)):
                yield [(t, model.alphabet.names[s]) for t, s in zip(starts, states, strict=True)]


def data(model, rng, lengths=(3, 1, 4, 2, 3, 5), d=2):
    X = [rng.normal(size=(T, d)) for T in lengths]
    known = [list(labels_of(model, T)) for T in lengths]
    return X, [labels[rng.integers(len(labels))] for labels in known]


def test_the_recogniser_proves_the_declared_lp_integral():
    assert Segmentation(2, 3).space(np.zeros((5, 1))).structure.totally_unimodular


def test_labels_by_definition(model):
    x = np.zeros((3, 1))
    labels = {str(label) for label in labels_of(model, 3)}
    assert {str(model.decode(z, x)) for z in model.space(x).enumerate()} == labels


def test_the_laws_of_models_hold_in_many_pieces(rng, monkeypatch):
    model = MODELS["mean"]()
    X, Y = data(model, rng)
    monkeypatch.setattr(SegmentParts, "most_entries", 20)
    assert len(model.batch(X).inference._pieces(np.arange(6), 1)) > 1
    assert so.testing.check_model(model, X, Y, trials=1).ok


def test_bad_labels():
    model = Segmentation("abc", 2, transitions=CHANGE, initial=[1, 1, 0])
    x = np.zeros((4, 2))
    good = [(0, "a"), (2, "b")]
    for label, message in [
        ([(0, "a"), (2, "z")], "segment 1: 'z' is not one of the states 'a', 'b', 'c'"),
        ([(0, "a"), (2, "a")], "segment 1: 'a' may not follow 'a'"),
        ([(0, "c"), (2, "a")], "segment 0: 'c' may not come first"),
        ([(1, "a"), (2, "b")], "segment 0 starts at position 1, not at 0"),
        ([(0, "a"), (3, "b")], "segment 0, from position 0, has 3 positions; at most 2 fit"),
        ([(0, "a"), (1, "b")], "segment 1, from position 1, has 3 positions"),
        ([(0, "a"), (2, "b"), (2, "c")], "segment 2 starts at position 2, not after segment 1 at 2"),
        ([(0, "a"), (2, "b"), (4, "c")], "segment 2 starts at position 4 of a sequence of 4"),
        ([], "no segments"),
        (["a", "b"], "list of pairs"),
        ([(0.5, "a")], "list of pairs"),
        (7, "list of pairs"),
    ]:
        with pytest.raises(LabelNotInSpace, match=message):
            model.encode(label, x)
        with pytest.raises(LabelNotInSpace, match=f"1 of 2 labels cannot be used:\n  example 1: .*{message}"):
            model.batch([x, x]).truth([good, label])
    with pytest.raises(DeclarationError, match="x="):
        model.encode(good)
    with pytest.raises(DeclarationError, match="x="):
        model.decode(np.zeros(3))
    with pytest.raises(DeclarationError, match="entries"):
        model.decode(np.zeros(3), x)


def test_bad_declarations_and_inputs():
    for arguments, message in [
        ({"states": 2, "max_length": 0}, "max_length"),
        ({"states": 2, "max_length": 2**63}, "max_length"),
        ({"states": 2, "max_length": 2, "pooling": "max"}, "pooling"),
        ({"states": 2, "max_length": 2, "loss": so.losses.ZeroOne()}, "by position"),
        ({"states": 2, "max_length": 2, "transitions": [[1, 1]]}, "shape"),
    ]:
        with pytest.raises(DeclarationError, match=message):
            Segmentation(**arguments)
    model = Segmentation("ab", 2, transitions=[[0, 1], [0, 0]])
    assert model.space(np.zeros((4, 1))).n_variables
    with pytest.raises(InfeasibleSpace, match="at most 4 positions, not 5"):
        model.space(np.zeros((5, 1)))
    with pytest.raises(InfeasibleSpace, match="Example 0"):
        model.batch([np.zeros((5, 1))])
    with pytest.raises(DeclarationError, match="empty"):
        model.batch([np.zeros((0, 1))])


def entities_of(label, length):
    ends = [start for start, _ in label[1:]] + [length]
    return {(start, end, state) for (start, state), end in zip(label, ends, strict=True) if state != "O"}


def test_micro_f1_of_entities_is_their_f1(rng):
    """At margin 0 the surrogate is the largest 1 - F1 of entities that a label has."""
    model = Segmentation(["O", "PER"], 2, loss="entities")
    X, Y = data(model, rng, (3, 4, 2))
    risk = so.train.StructuredRisk(model, X, Y, "micro_f1", rtol=1e-9)
    found = risk.violations(np.zeros(risk.n_features)).value
    for i, x in enumerate(X):
        truth, best = entities_of(Y[i], len(x)), 0.0
        for label in labels_of(model, len(x)):
            guess = entities_of(label, len(x))
            if guess or truth:
                best = max(best, 1.0 - 2.0 * len(guess & truth) / (len(guess) + len(truth)))
        assert found[i] == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("loss", ["normalized", [[0, 2, 1], [1, 0, 1], [1, 1, 0]]])
def test_micro_f1_of_other_losses_is_refused(rng, loss):
    model = Segmentation(["O", "PER", "LOC"], 2, loss=loss)
    X, Y = data(model, rng, (3, 2))
    with pytest.raises(DeclarationError, match="counts wrong positions"):
        so.train.StructuredRisk(model, X, Y, "micro_f1")


def test_entities_need_a_state_outside(rng):
    with pytest.raises(DeclarationError, match="outside"):
        Segmentation(["PER", "LOC"], 2, loss="entities")
    model = Segmentation(["none", "PER"], 2, loss="entities", outside="none")
    X, Y = data(model, rng)
    est = so.StructuredSVM(model, lam=0.1, tol=0.1).fit(X, Y)
    again = pickle.loads(pickle.dumps(est))
    assert again.predict(X) == est.predict(X)


def test_tags_and_segments():
    tags = ["O", "B-PER", "I-PER", "B-PER", "I-LOC", "O"]
    label = so.structures.segments_of_bio(tags)
    assert label == [(0, "O"), (1, "PER"), (3, "PER"), (4, "LOC"), (5, "O")]
    assert so.structures.bio_of_segments(label, 6) == ["O", "B-PER", "I-PER", "B-PER", "B-LOC", "O"]
    assert so.structures.segments_of_bio([]) == []
    for bad in (["X"], ["B"], ["O-PER"], [3]):
        with pytest.raises(DeclarationError, match="Tag 0"):
            so.structures.segments_of_bio(bad)

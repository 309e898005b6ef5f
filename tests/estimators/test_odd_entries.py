"""Entries that no conversion takes: integers beyond all floats in X, and labels of a score that cannot be classes."""

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError

N = 12
X = np.random.default_rng(0).normal(size=(N, 3))
BINARY, LEVELS = np.arange(N) % 2, np.arange(N) % 3
TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])

LINEAR = [
    (so.estimators.LinearSVM, {}, BINARY),
    (so.estimators.FBetaSVM, {}, BINARY),
    (so.estimators.AUCMaximizer, {}, BINARY),
    (so.estimators.RankSVM, {}, LEVELS),
    (so.estimators.QuantileRegressor, {}, LEVELS),
    (so.estimators.OrdinalRegressor, {}, LEVELS),
]
OTHERS = [
    (so.estimators.HierarchicalSVM, {"hierarchy": TREE}, np.array(list("bcd" * 4))),
    (so.estimators.ConditionalRiskMinimizer, {"model": so.structures.Multiclass(3)}, LEVELS),
]


def name(case):
    return case[0].__name__


def put(array, place, entry):
    changed = array.astype(object)
    changed[place] = entry
    return changed


@pytest.mark.parametrize("case", LINEAR + OTHERS, ids=name)
@pytest.mark.parametrize("form", [lambda a: a, lambda a: a.tolist()], ids=["array", "list"])
def test_an_integer_beyond_all_floats_in_x(case, form):
    kind, parameters, y = case
    huge = form(put(X, (4, 1), -(10**400)))
    fitted = kind(**parameters).fit(X, y)
    for call in (lambda: kind(**parameters).fit(huge, y), lambda: fitted.predict(huge), lambda: fitted.score(huge, y)):
        with pytest.raises(DeclarationError, match=r"X\[4, 1\] is an integer of 1329 bits"):
            call()


@pytest.mark.parametrize("case", LINEAR[3:], ids=name)
def test_an_integer_beyond_all_floats_in_the_targets(case):
    kind, _, y = case
    with pytest.raises(DeclarationError, match=r"y\[5\] is an integer of 1329 bits"):
        kind().fit(X, put(y, 5, 10**400))
    with pytest.raises(DeclarationError, match="y must be an array of numbers"):
        kind().fit(X, y).score(X, put(y, 5, 10**400))


@pytest.mark.parametrize("case", LINEAR + OTHERS[:1], ids=name)
@pytest.mark.parametrize(
    ("dtype", "word"), [("timedelta64[D]", "durations"), ("datetime64[s]", "dates"), ([("a", float)], "records")]
)
def test_what_numpy_converts_but_is_no_number(case, dtype, word):
    kind, parameters, y = case
    odd = np.zeros(X.shape, dtype)
    fitted = kind(**parameters).fit(X, y)
    for call in (lambda: kind(**parameters).fit(odd, y), lambda: fitted.predict(odd), lambda: fitted.score(odd, y)):
        with pytest.raises(DeclarationError, match=f"X must hold numbers, and it holds {word}; give"):
            call()
    if kind in (so.estimators.QuantileRegressor, so.estimators.OrdinalRegressor):
        with pytest.raises(DeclarationError, match=f"y must hold numbers, and it holds {word}; give"):
            kind(**parameters).fit(X, np.zeros(N, dtype))


@pytest.mark.parametrize("case", LINEAR[:3], ids=name)
@pytest.mark.parametrize("entry", [None, float("nan"), "1", [1], {1: 2}], ids=repr)
def test_labels_of_a_score_that_cannot_be_classes(case, entry):
    kind, _, y = case
    fitted = kind().fit(X, y)
    with pytest.raises(DeclarationError, match=r"y\[3\] is .* cannot be a class.* numbers such as 0"):
        fitted.score(X, put(y, 3, entry))
    texts = kind().fit(X, np.array(["no", "yes"])[y])
    with pytest.raises(DeclarationError, match=r"y\[3\] is None.* texts such as 'no'"):
        texts.score(X, put(np.array(["no", "yes"])[y], 3, None))


@pytest.mark.parametrize("case", LINEAR[:3], ids=name)
def test_the_other_labels_of_a_score_are_taken(case):
    kind, _, y = case
    fitted = kind().fit(X, y)
    wanted = fitted.score(X, y)
    for same in (y.tolist(), y.astype(float), y.astype(object), y.astype(bool), y[:, None].ravel().astype(np.int8)):
        assert fitted.score(X, same) == wanted
    texts = np.array(["no", "yes"])[y]
    assert kind().fit(X, texts).score(X, texts.astype(object)) == wanted
    # A class that was not there in training is wrong, and no error.
    assert 0.0 <= fitted.score(X, np.where(np.arange(N) == 3, 7, y)) <= 1.0


@pytest.mark.parametrize("case", LINEAR[:3], ids=name)
def test_weights_of_a_score_count_like_copies(case):
    kind, _, y = case
    fitted = kind().fit(X, y)
    weights = np.arange(N) % 3
    copies = np.repeat(np.arange(N), weights)
    assert fitted.score(X, y, weights) == pytest.approx(fitted.score(X[copies], y[copies]))

"""A label space for each input: `Model.key` and the checks of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError


def budget(x: Any) -> so.LabelSpace:
    """Three tags, of which at most ``x["most"]`` are on."""
    space = so.LabelSpace()
    tag = space.binary("tag", 3)
    space.subject_to(tag.sum() <= x["most"])
    return space


def budgets(n: int) -> list[dict[str, Any]]:
    return [{"most": 1 + i % 3, "features": np.ones(1)} for i in range(n)]


TERMS = {"tag": so.features.Linear("features")}
LABELS = [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def by_value(x: Any) -> so.LabelSpace:
    """A space that depends on the entries of an array, not on its shape."""
    return budget({"most": int(x[0])})


class Input:
    """An input that is neither an array nor a mapping."""

    features = np.ones((2, 1))


@pytest.mark.parametrize("x", [{"most": 1, "features": np.ones(1)}, Input(), "text", [{"a": 1}], [[1.0], [1.0, 2.0]]])
def test_inputs_other_than_arrays_need_a_key(x: Any) -> None:
    model = so.Model(budget, TERMS, so.losses.Hamming())
    for call in (model.key, model.space, model.oracle, lambda x: model.predict(np.ones(3), x)):
        with pytest.raises(DeclarationError, match=r"needs Model\(key="):
            call(x)


def test_fit_needs_a_key_for_dicts() -> None:
    model = so.Model(budget, TERMS, so.losses.Hamming())
    with pytest.raises(DeclarationError, match=r"Model\(key="):
        so.StructuredSVM(model).fit(budgets(3), LABELS)


def test_predictions_keep_the_rows_of_their_own_space() -> None:
    model = so.Model(budget, TERMS, so.losses.Hamming(), key=lambda x: x["most"])
    X = budgets(3)
    assert [int(model.predict(np.ones(3), x).sum()) for x in X] == [1, 2, 3]
    svm = so.StructuredSVM(model, lam=0.01).fit(X, LABELS)
    assert all(model.space(x).contains(z) for x, z in zip(X, svm.predict(X), strict=True))


@pytest.mark.parametrize("key", [None, lambda x: 0, lambda x: len(x)])
def test_two_spaces_of_one_key_are_rejected(key: Any) -> None:
    X, Y = np.array([[1.0], [2.0], [3.0]]), LABELS
    model = so.Model(by_value, {"tag": so.features.Linear()}, so.losses.Hamming(), key=key)
    with pytest.raises(DeclarationError, match=r"Example 1 of X has another label space.*Model\(key="):
        so.StructuredSVM(model).fit(X, Y)
    fresh = so.Model(by_value, {"tag": so.features.Linear()}, so.losses.Hamming(), key=key)
    assert fresh.predict(np.ones(3), X[1]).sum() == 2
    with pytest.raises(DeclarationError, match=r"another label space.*Model\(key="):
        fresh.predict(np.ones(3), X[0])
    with pytest.raises(DeclarationError, match=r"Model\(key="):
        so.testing.check_model(fresh, X, Y)


@pytest.mark.parametrize("name", ["predict", "log_partition", "marginals", "sample"])
def test_calls_with_one_input_compare_its_space(name: str) -> None:
    model = so.Model(by_value, {"tag": so.features.Linear()}, so.losses.Hamming())
    call = getattr(model, name)
    call(np.zeros(3), [3.0])
    call(np.zeros(3), [3.0])
    with pytest.raises(DeclarationError, match=r"another label space.*Model\(key="):
        call(np.zeros(3), [1.0])


def test_check_model_compares_the_spaces_of_all_inputs() -> None:
    n = 600  # more than the sample of a data set
    X = np.ones((n, 1))
    X[1] = 2.0
    model = so.Model(by_value, {"tag": so.features.Linear()}, so.losses.Hamming())
    Y = [[1, 0, 0]] * n
    report = so.testing.check_model(model, X, Y, skip=set(so.testing.MODEL_CHECKS) - {"keys"})
    (failed,) = [outcome for outcome in report.outcomes if outcome.check == "keys"]
    assert failed.result == "failed" and "Input 1" in failed.reason and "key=" in failed.reason


def test_message_on_sizes_names_the_key() -> None:
    def chain(x: Any) -> so.LabelSpace:
        space = so.LabelSpace()
        space.binary("tag", len(x["rows"]))
        return space

    model = so.Model(chain, {"tag": so.features.Shared("rows")}, so.losses.Hamming(), key=lambda x: 0)
    short, long = {"rows": np.ones((2, 1))}, {"rows": np.ones((3, 1))}
    assert model.predict([1.0], short).tolist() == [1, 1]
    calls = [
        lambda: model.predict([1.0], long),
        lambda: model.scores([1.0], long),
        lambda: model.encode([1, 1, 1], long),
        lambda: model.batch([short, long]),
        lambda: so.StructuredSVM(model).fit([short, long], [[1, 1], [1, 1, 1]]),
    ]
    for call in calls:
        with pytest.raises(DeclarationError, match=r"Model\(key="):
            call()


def test_key_must_be_hashable() -> None:
    model = so.Model(budget, TERMS, key=lambda x: [x["most"]])
    with pytest.raises(DeclarationError, match="hashable"):
        model.space(budgets(1)[0])


def test_key_of_lazy_rows_in_a_closure_is_accepted() -> None:
    def declare(x: Any) -> so.LabelSpace:
        space = so.LabelSpace()
        tag = space.binary("tag", len(x))
        space.lazy(lambda z: tag.sum() <= 1 if z["tag"].sum() > 1 else None)
        return space

    X = [np.ones((2, 1)), np.ones((2, 1)), np.ones((3, 1))]
    keyed = so.Model(declare, {"tag": so.features.Shared()}, so.losses.Hamming(), key=len)
    assert keyed.batch(X).n == 3
    with pytest.raises(DeclarationError, match=r"Model\(key="):
        so.Model(declare, {"tag": so.features.Shared()}, so.losses.Hamming()).batch(X)


@pytest.mark.parametrize("trainer", ["block_ascent", "n_slack", "sgd"])
def test_a_wrong_space_found_by_a_trainer_is_named_by_its_number_in_the_data_set(trainer: str) -> None:
    # The check of a data set is of a sample; those of groups of examples, in another order, are of all.
    X = [{"most": 3, "features": np.ones(1)} for _ in range(1000)]
    X[613]["most"] = 1
    model = so.Model(budget, TERMS, so.losses.Hamming(), key=lambda x: 0)
    svm = so.StructuredSVM(model, trainer=trainer, max_passes=3)
    with pytest.raises(DeclarationError, match=r"^Example 613 of X has another label space"):
        svm.fit(X, [LABELS[0]] * 1000)

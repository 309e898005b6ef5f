"""Arguments are checked in one place: what is refused is named, what is the same in other clothes is taken."""

import gc
import pickle
import weakref
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NewType

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import structopt as so
from structopt import checks
from structopt.errors import DeclarationError, StructoptError


@checks.checked
def sample(
    k: int,
    tol: float = 1e-3,
    flag: bool = False,
    *,
    word: str = "a",
    score: "np.ndarray[tuple[int], np.dtype[np.float64]] | None" = None,
):
    return k, tol, flag, word, score


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"k": 1.5}, "k must be an integer, got 1.5"),
        ({"k": True}, "k must be an integer, got True"),
        ({"k": "3"}, "k must be an integer, got '3'"),
        ({"k": np.array(3)}, "k must be an integer"),
        ({"k": 1, "tol": float("nan")}, "tol must be a number, got NaN"),
        ({"k": 1, "tol": "low"}, "tol must be a number, got 'low'"),
        ({"k": 1, "tol": 1j}, "tol must be a number"),
        ({"k": 1, "tol": 10**400}, "tol is an integer of 1329 bits"),
        ({"k": 1, "tol": Decimal("0.5")}, "tol must be a number"),
        ({"k": 1, "flag": "no"}, "flag must be True or False, got 'no'"),
        ({"k": 1, "flag": np.array([True, False])}, "flag must be True or False"),
        ({"k": 1, "word": b"a"}, "word must be a str"),
        ({"k": 1, "score": ["a"]}, "score must be None or an array of numbers"),
        ({"k": 1, "score": [[1.0], [2.0, 3.0]]}, "score must be None or an array of numbers"),
        ({"k": 1, "score": [1j]}, "score must be None or an array of numbers"),
        ({"k": 1, "score": np.array([1.0, None])}, "score must be None or an array of numbers"),
        ({"k": 1, "score": sp.csr_array(np.eye(2))}, "score must be None or a dense array"),
    ],
)
def test_annotations_are_checked_and_the_argument_is_named(arguments, told):
    with pytest.raises(DeclarationError, match=told):
        sample(**arguments)


def test_fitting_arguments_are_passed_on():
    k, tol, flag, word, score = sample(np.int8(3), np.float32(0.5), np.bool_(True), word=np.str_("b"), score=(1, 2))
    assert (k, float(tol), bool(flag), word) == (3, 0.5, True, "b")
    assert isinstance(score, np.ndarray) and score.tolist() == [1, 2]
    # Python's own errors stay for what only Python knows.
    with pytest.raises(TypeError, match="missing"):
        sample()
    with pytest.raises(TypeError, match="unexpected"):
        sample(1, colour="red")


@pytest.mark.parametrize(
    "given",
    [
        [1.0, 2.5],
        (1.0, 2.5),
        (x for x in [1.0, 2.5]),
        np.array([1.0, 2.5], dtype=np.float16),
        np.array([1.0, 2.5], dtype=">f8"),
        np.array([1.0, 2.5], dtype=np.longdouble),
        np.array([1.0, 2.5], dtype=object),
        np.ma.masked_array([1.0, 2.5]),
        np.array([1.0, 0.0, 2.5, 0.0])[::2],
        memoryview(np.array([1.0, 2.5])),
    ],
    ids=lambda given: type(given).__name__,
)
def test_arrays_in_other_clothes(given):
    found = checks.floats("c", given, (2,))
    assert type(found) is np.ndarray and found.dtype == np.float64 and found.dtype.isnative
    assert found.tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    "given",
    [
        "ab",
        b"ab",
        bytearray(b"ab"),
        [b"1", b"2"],
        None,
        {"a": 1},
        {1, 2},
        object(),
        [1.0, None],
        [[1.0], [2.0, 3.0]],
        np.array(["1", "2"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype="timedelta64[s]"),
        np.zeros(2, dtype=[("a", float)]),
        np.array([1.0, 10**400], dtype=object),
        [float("nan"), 1.0],
        [float("inf"), 1.0],
    ],
    ids=lambda given: f"{type(given).__name__}",
)
def test_what_is_no_array_of_numbers_is_refused(given):
    with pytest.raises(DeclarationError, match="c"):
        checks.floats("c", given)


def test_what_a_mapping_holds_is_checked():
    @checks.checked
    def keep(options: Mapping[str, Any], others: Mapping[str, object] | None = None) -> Mapping[str, Any]:
        return options

    assert keep({"a": 1}, {"b": None}) == {"a": 1}
    with pytest.raises(DeclarationError, match="results must be a TrainResult or a mapping"):
        so.plot.convergence(1)
    with pytest.raises(DeclarationError, match=r"results\['a'\] must be a TrainResult, got 1"):
        so.plot.convergence({"a": 1})


def test_callables_are_checked_for_their_arguments():
    space = so.LabelSpace()
    space.binary("y", 2)
    with pytest.raises(DeclarationError, match=r"key must be .*callable with 1 argument"):
        so.Model(space, {"y": so.features.Linear()}, key=lambda: 0)
    with pytest.raises(DeclarationError, match="space must be"):
        so.Model("space", {})


@pytest.mark.parametrize(
    "estimator, parameter",
    [
        (so.LinearSVM(), {"tol": "low"}),
        (so.LinearSVM(), {"intercept": "no"}),
        (so.LinearSVM(), {"lam": float("nan")}),
        (so.StructuredSVM(so.structures.Multiclass(2)), {"n_jobs": 1.5}),
        (so.StructuredSVM(so.structures.Multiclass(2)), {"model": "multiclass"}),
        (so.HierarchicalSVM([("r", 0), ("r", 1)]), {"kind": ["leaf"]}),
        (so.ConditionalRiskMinimizer(so.structures.Multiclass(2)), {"n_landmarks": "many"}),
        (so.ConditionalRiskMinimizer(so.structures.Multiclass(2)), {"solver": b"auto"}),
        (so.ConditionalRiskMinimizer(so.structures.Multiclass(2)), {"solver": "nonsense"}),
        (so.ConditionalRiskMinimizer(so.structures.Multiclass(2)), {"kernel": np.array(["rbf", "rbf"])}),
        (so.ConditionalRiskMinimizer(so.structures.Multiclass(2)), {"n_jobs": -7}),
        (so.StructuredSVM(so.structures.Multiclass(2)), {"n_jobs": 0}),
    ],
)
def test_parameters_of_estimators_are_checked_when_fitting(estimator, parameter):
    X, y = np.array([[0.0], [1.0], [0.5], [2.0]]), [0, 1, 0, 1]
    est = clone(estimator).set_params(**parameter)  # set_params itself takes anything, as scikit-learn wants it
    with pytest.raises(StructoptError, match=next(iter(parameter))):
        est.fit(X, y)


def test_checked_functions_pickle_and_keep_their_signature():
    assert pickle.loads(pickle.dumps(so.search.exact)) is so.search.exact
    import inspect

    assert list(inspect.signature(so.search.exact).parameters)[:2] == ["plane", "surrogate"]


@pytest.mark.parametrize("kind", [sp.coo_matrix, sp.csc_array, sp.lil_array, sp.dok_array, list])
def test_other_matrices_give_the_same_weights(kind):
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (20, 3)) / 8.0
    y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)
    model = so.structures.Multiclass(2)
    wanted = so.StructuredSVM(model, lam=0.1, tol=1e-6).fit(X, y).coef_
    found = so.StructuredSVM(model, lam=0.1, tol=1e-6).fit(kind(X), y).coef_
    assert found == pytest.approx(wanted, abs=1e-3)


def test_a_refused_alternative_keeps_nothing_of_the_callers():
    """An error that is kept holds its traceback, and so the arrays of every caller until a garbage collection."""

    @checks.checked
    def either(a: str | dict[str, int]) -> None: ...

    class Array:
        pass

    def caller():
        array = Array()
        either({})
        return weakref.ref(array)

    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()


def test_array_like_may_be_a_name(monkeypatch):
    """From numpy 2.5 on, for Python 3.12 and later, the union of all that is array_like has no parts to look at."""
    name = NewType("ArrayLike", list)
    monkeypatch.setattr(npt, "ArrayLike", name)
    assert checks._check_for(int | str)("x", 5) == 5 and type(checks._check_for(int | str)("x", 5)) is int
    for hint in (name, name | None):
        assert isinstance(checks._check_for(hint)("x", [1, 2]), np.ndarray)
    with pytest.raises(DeclarationError, match="x must be None or"):
        checks._check_for(name | None)("x", object())

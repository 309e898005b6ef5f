"""Frames of pandas in every estimator: the same weights as from arrays, names checked, and plain arrays back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import structopt as so

pd = pytest.importorskip("pandas")

NAMES = ["width", "height", "depth"]
#: One of each estimator.
ONE_OF_EACH = [
    "LinearSVM",
    "AUCMaximizer",
    "FBetaSVM",
    "QuantileRegressor",
    "OrdinalRegressor",
    "RankSVM queries",
    "CRF",
    "HierarchicalSVM",
    "SharedSVM",
    "ConditionalRiskMinimizer",
    "StructuredSVM multiclass",
    "StructuredSVM chain",
    "StructuredSVM bmrm",
]


def frame(x: Any, index: Any = None) -> Any:
    return pd.DataFrame(x, columns=NAMES, index=index)


def framed(case: Any) -> Any:
    """The same data as frames and columns, with an index that means nothing."""
    index = np.random.default_rng(0).permutation(len(case.y)) * 7
    if isinstance(case.X, np.ndarray):
        X: Any = frame(case.X, index)
        y = pd.DataFrame(case.y, index=index) if case.y.ndim == 2 else pd.Series(case.y, index=index)
    else:
        X = [frame(x) for x in case.X]
        y = [pd.Series(states, index=10 + np.arange(len(states))) for states in case.y]
    query = None if case.query is None else pd.Series(case.query, index=index)
    return type(case)(case.kind, case.parameters, X, y, query)


def agree(a: Any, b: Any) -> None:
    """Trained on the same data: up to tol, because a frame has another layout in memory, and sums another order."""
    if isinstance(a, so.estimators.ConditionalRiskMinimizer):
        weighed = [est.averages_.weigh(est.averages_.X) for est in (a, b)]
        np.testing.assert_allclose(*weighed, atol=1e-9)
    else:
        assert a.result_.objective == pytest.approx(b.result_.objective, rel=1e-3)
        np.testing.assert_allclose(a.result_.w, b.result_.w, atol=0.1)


@pytest.fixture(params=ONE_OF_EACH)
def each(request, cases):
    return cases[request.param]


def test_frames_are_arrays_with_names(each):
    weight = np.where(np.arange(24) % 8 < 4, 2, 1)
    plain = each.fit(each.make(), sample_weight=weight)
    named = framed(each).fit(each.make(), sample_weight=pd.Series(weight, index=np.arange(24)[::-1]))
    agree(named, plain)
    np.testing.assert_array_equal(named.feature_names_in_, NAMES)
    found = named.predict(framed(each).X)
    assert isinstance(found, np.ndarray | list) and not any(hasattr(label, "iloc") for label in found)
    assert len(found) == len(each.y)
    if each.query is None:
        assert named.score(framed(each).X, framed(each).y) == pytest.approx(plain.score(each.X, each.y), abs=0.1)
    # Names are checked.
    given = framed(each)
    one = given.X if isinstance(each.X, np.ndarray) else given.X[0]
    other = one.rename(columns={"depth": "weight"})
    turned = one[NAMES[::-1]]
    for wrong in (other, turned):
        X = wrong if isinstance(each.X, np.ndarray) else [wrong]
        with pytest.raises(ValueError, match="feature names should match"):
            named.predict(X)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        named.predict(each.X)
    assert not hasattr(plain, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names"):
        plain.predict(given.X)


KINDS = {
    "nullable": lambda t: t.convert_dtypes(),
    "object": lambda t: t.astype(object),
    "float32": lambda t: t.astype("float32"),
    "category": lambda t: t.astype("category"),
    "sparse": lambda t: t.astype(pd.SparseDtype(float, 0.0)),
}


@pytest.mark.parametrize("name", ["StructuredSVM bmrm", "HierarchicalSVM", "LinearSVM"])
def test_types_of_columns(cases, name):
    case = cases[name]
    table, plain = framed(case), case.fit(case.make()).result_
    for kind, convert in KINDS.items():
        found = replace(case, X=convert(table.X), y=table.y).fit(case.make()).result_
        assert found.objective == pytest.approx(plain.objective, rel=2e-3), kind


@pytest.mark.parametrize(
    "name", ["StructuredSVM bmrm", "StructuredSVM multiclass", "HierarchicalSVM", "ConditionalRiskMinimizer"]
)
def test_types_of_labels(cases, name):
    case = cases[name]
    table, plain = framed(case), case.fit(case.make())
    forms = [KINDS[kind](table.y) for kind in ("nullable", "object", "category")]
    for y in [*forms, table.y.astype(bool)] if case.y.ndim == 2 else forms:
        agree(replace(case, X=table.X, y=y).fit(case.make()), plain)


def test_missing_values_are_named(cases):
    case = cases["StructuredSVM bmrm"]
    table = framed(case)
    X = table.X.convert_dtypes()
    X.iloc[5, 1] = pd.NA
    with pytest.raises(so.errors.DeclarationError, match="example 5 contain NaN"):
        case.make().fit(X, table.y)
    Y = table.y.astype("Int64")
    Y.iloc[7, 2] = pd.NA
    with pytest.raises(so.errors.DeclarationError, match="no label for example 7 in column 2"):
        case.make().fit(table.X, Y)
    text = table.X.assign(height="tall")
    with pytest.raises(so.errors.DeclarationError, match=r"column 'height' must hold numbers.*OneHotEncoder"):
        case.make().fit(text, table.y)
    weight = pd.Series(np.ones(24)).astype("Float64")
    weight.iloc[3] = pd.NA
    with pytest.raises(so.errors.DeclarationError, match=r"sample_weight is missing at 1 positions .first: 3"):
        case.make().fit(table.X, table.y, sample_weight=weight)


def test_sequences_must_agree_in_their_columns(cases):
    case = cases["CRF"]
    table = framed(case)
    table.X[3] = table.X[3][NAMES[::-1]]
    with pytest.raises(so.errors.DeclarationError, match="Input 3 has the columns depth, height, width"):
        table.fit(case.make())


def test_risks_take_frames(cases):
    case = cases["StructuredSVM bmrm"]
    table = framed(case)
    a = so.train.StructuredRisk(so.structures.PairwiseMRF(3), table.X, table.y)
    b = so.train.StructuredRisk(so.structures.PairwiseMRF(3), case.X, case.y)
    w = np.random.default_rng(0).normal(size=a.n_features)
    assert a(w)[0] == b(w)[0]

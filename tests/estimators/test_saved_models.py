"""Declared models in a file: the space whole, features, losses and limits of the solver; predictions as before."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import structopt as so
from structopt.backends.highs import Highs
from structopt.errors import DeclarationError
from structopt.estimators import load

RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 3))


def knapsack() -> so.LabelSpace:
    """Two blocks, rows with and without names, a fraction, an infinite bound, a continuous variable."""
    space = so.LabelSpace("budget, twice")
    tag = space.binary("tag", (2, 3))
    spare = space.continuous("spare", (), 0.0, 2.5)
    count = space.integer("count", 2, -3, [4, np.inf])
    space.subject_to(0.5 * tag.sum() + spare <= 2.5, name="money")
    space.subject_to(tag.sum(axis=0) <= 1, count[0] - tag[0, 0] == 0)
    space.subject_to(count[1] == 2 * tag[1, 2], name="twice")
    space.subject_to(0 * spare <= 1)
    return space


def both_ways(value: Any, path: Path) -> tuple[Any, ...]:
    """From a file without pickle, and from pickle."""
    so.StructuredSVM(value).save(path)
    return load(path).model, pickle.loads(pickle.dumps(value))


def same_space(a: so.LabelSpace, b: so.LabelSpace) -> None:
    assert a.fingerprint == b.fingerprint and a.name == b.name and a.notes == b.notes
    assert list(a.variable_names) == list(b.variable_names) and list(a.row_names) == list(b.row_names)
    assert [(x.name, x.shape, x.slice) for x in a] == [(x.name, x.shape, x.slice) for x in b]
    assert repr(a) == repr(b) and a.structure.kind == b.structure.kind
    grown = b.copy()
    with pytest.raises(DeclarationError, match="already has"):
        grown.subject_to(grown["spare"] <= 1, name="money")


def test_a_space_comes_back_whole(tmp_path: Path) -> None:
    model = so.Model(knapsack(), {"tag": so.features.Linear()}, {"tag": so.losses.Hamming()}, integral="force")
    for again in both_ways(model, tmp_path / "model.npz"):
        assert type(again) is so.Model and repr(again) == repr(model) and again.integral == "force"
        same_space(model.space(), again.space())
        w = np.arange(18.0) - 9
        assert repr(again.predict(w, X[0])) == repr(model.predict(w, X[0]))  # a dict of all blocks


FEATURES = {
    "linear": {"y": so.features.Linear(intercept=True)},
    "scaled": {"y": so.features.Linear(0, factor=[1.0, 2.0, 0.5, 1.0])},
    "table": {"y": so.features.Table(field="rows")},
    "shared": {"y": so.features.Shared(("a", 1), intercept=True)},
    "tied": {"y": so.features.Linear(), "p": so.features.Tied([0, 1, 1])},
    "counted": {"y": so.features.Linear(), "p": so.features.Tied(None)},
}
LOSSES = {
    "none": None,
    "hamming": so.losses.Hamming([1.0, 2.0, 0.0, 1.0], normalize=True),
    "both": {"y": so.losses.Hamming(), "p": so.losses.Hamming([1.0, 1.0, 2.0])},
    "zero-one": so.losses.ZeroOne(),
    "costs": so.losses.CostMatrix(1.0 - np.eye(4)),
    "footrule": so.losses.Footrule(2),
    "tree": so.losses.HierarchicalLoss(so.Hierarchy([(0, 1), (0, 2), (1, 3)]), weights=[1.0, 2.0, 3.0, 4.0]),
    "leaves": so.losses.LeafHamming(so.Hierarchy([("a", "b"), ("a", "c"), ("b", "d")]), scale=0.5),
    "normalized": so.losses.Normalized(so.Hierarchy([(0, 1), (0, 2), (1, 3)]), [1.0, 1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("features", FEATURES)
def test_every_feature_term_comes_back(features: str, tmp_path: Path) -> None:
    _check(FEATURES[features], None, tmp_path)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_comes_back(loss: str, tmp_path: Path) -> None:
    _check(FEATURES["linear"], LOSSES[loss], tmp_path)


def _check(features: Any, loss: Any, tmp_path: Path) -> None:
    space = so.LabelSpace("four and three")
    space.binary("y", 4)
    space.continuous("p", 3, 0, 1)
    model = so.Model(space, features, loss)
    one_hot = isinstance(loss, so.losses.ZeroOne | so.losses.CostMatrix)
    truth = np.eye(7)[0] if one_hot else np.array([1.0, 1, 0, 1, 0, 0, 0])
    if isinstance(loss, so.losses.Footrule):
        truth[:4] = [1, 0, 0, 1]
    for again in both_ways(model, tmp_path / "model.npz"):
        assert repr(again) == repr(model)
        for name, term in features.items():
            one, other = vars(term), vars(again.features[name])
            assert one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)
        if loss is not None:
            for one, other in zip(again._loss_at(truth), model._loss_at(truth), strict=True):
                assert np.array_equal(one, other)


def test_every_loss_and_term_is_tried() -> None:
    def classes(module: Any, base: type) -> set[type]:
        found = (getattr(module, name) for name in module.__all__)
        return {cls for cls in found if isinstance(cls, type) and issubclass(cls, base) and cls is not base}

    tried = {type(x) for loss in LOSSES.values() for x in (loss.values() if isinstance(loss, dict) else [loss])}
    assert classes(so.losses, so.losses.TaskLoss) <= tried
    terms = {type(term) for features in FEATURES.values() for term in features.values()}
    assert classes(so.features, so.features.Term) <= terms


#: Models of the library whose space is a function of the input, which a file of data cannot hold.
BY_FUNCTION = {"snakes"}


@pytest.mark.parametrize("name", sorted(so.available_models()))
def test_models_of_the_library_predict_as_before(name: str, tmp_path: Path) -> None:
    loaded = so.load_model(name)
    inputs, labels = loaded.data(n=4, seed=1)
    svm = so.StructuredSVM(loaded.model, lam=0.1, tol=0.2, max_passes=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(inputs, labels)
    if name in BY_FUNCTION:
        with pytest.raises(DeclarationError, match=r"model\.space is a function of the input"):
            svm.save(tmp_path / "svm.npz")
        assert not list(tmp_path.iterdir())
        return
    svm.save(tmp_path / "svm.npz")
    again = load(tmp_path / "svm.npz")
    np.testing.assert_allclose(again.coef_, svm.coef_)
    before, after = svm.decision_function(inputs), again.decision_function(inputs)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-12)
    # The label itself may differ where two have the same score.
    found, wanted = again.predict(inputs), svm.predict(inputs)
    for x, scores, one, other in zip(inputs, before, found, wanted, strict=True):
        a, b = (model.encode(label, x) for model, label in ((again.model, one), (svm.model, other)))
        assert scores @ a == pytest.approx(scores @ b, abs=1e-9)
    assert repr(again.model) == repr(svm.model)


def test_a_space_from_a_file_of_another_tool(tmp_path: Path) -> None:
    space = knapsack()
    space.write(tmp_path / "space.mps")
    model = so.load_model(tmp_path / "space.mps").model
    so.StructuredSVM(model).save(tmp_path / "svm.npz")
    again = load(tmp_path / "svm.npz").model
    assert again.space().fingerprint == model.space().fingerprint
    assert list(again.space().variable_names) == list(model.space().variable_names)


def test_settings_of_a_solver(tmp_path: Path) -> None:
    space = knapsack()
    features = {"tag": so.features.Linear()}
    limits = {"time_limit": 5, "mip_gap": np.float64(0.1), "presolve": "off", "threads": np.int64(1)}
    so.StructuredSVM(so.Model(space, features, solver="highs", options=limits)).save(tmp_path / "a.npz")
    again = load(tmp_path / "a.npz").model
    assert again.solver == "highs" and again.options == limits
    for solver, options, told in (
        ("highs", {"log_file": "/tmp/x", "time_limit": 3.0}, "'log_file'"),
        ("pyomo-cbc", {"executable": "/bin/sh", "time_limit": 3.0}, "'executable'"),
        ("cbc", {"options": ["-x"], "time_limit": 3.0}, "'options'"),
        (Highs, {"time_limit": 3.0, "random_seed": 3}, "Highs"),
        (tmp_path / "own.toml", {"time_limit": 3.0}, r"own\.toml"),
    ):
        model = so.Model(space, features, solver=solver, options=options)
        with pytest.warns(UserWarning, match=f"Not saved.*{told}.*Set it again"):
            so.StructuredSVM(model).save(tmp_path / "b.npz")
        again = load(tmp_path / "b.npz").model
        assert again.options == {"time_limit": 3.0}
        assert again.solver == (solver if isinstance(solver, str) else "auto")


def test_functions_are_named(tmp_path: Path) -> None:
    space = knapsack()
    features = {"tag": so.features.Linear(), "count": so.features.Tied(lambda x: np.arange(2), 2)}
    with pytest.raises(DeclarationError, match=r"model\.features\['count'\]\.index is a function"):
        so.StructuredSVM(so.Model(space, features)).save(tmp_path / "a.npz")
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(DeclarationError, match="nested too deeply"):
        so.StructuredSVM(knot).save(tmp_path / "a.npz")  # type: ignore[arg-type]


def test_large_spaces_stay_small(tmp_path: Path) -> None:
    # Names of a million rows are not written one by one.
    space = so.LabelSpace()
    y = space.binary("y", 20_000)
    space.subject_to(y[1:] <= y[:-1], name="order")
    so.StructuredSVM(so.Model(space, {"y": so.features.Linear()})).save(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").stat().st_size < 500_000
    again = load(tmp_path / "a.npz").model.space()
    assert again.row_names[7] == "order[7]" and (again.matrix != sp.csr_array(space.matrix)).nnz == 0

"""A checkpoint is resumed on its own problem only: data, model and options are known by their content."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError
from structopt.risks.identity import digest, same

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = (X @ RNG.normal(size=(3, 4)) > 0).astype(int)
OTHER = np.random.default_rng(1).normal(size=X.shape)


def budget(limit=3, costs=(1.0, 1.0, 1.0, 1.0), loss=None):
    """Four tags of which a budget may be spent."""
    space = so.LabelSpace()
    tag = space.binary("tag", 4)
    space.subject_to(np.array(costs) @ tag <= limit)
    return so.Model(space, features={"tag": so.features.Linear()}, loss=loss or so.losses.Hamming())


def spent(Y, limit=3):
    """Labels that keep the budget."""
    kept = Y.copy()
    kept[kept.sum(axis=1) > limit, 0] = 0
    return kept


KEPT, SIGNS = spent(Y), np.sign(OTHER[:, 0])


def structured(X=X, Y=KEPT, model=None, surrogate="margin", trainer="block_ascent", search="auto", **options):
    risk = so.train.StructuredRisk(model or budget(), X, Y, surrogate, search)
    return functools.partial(getattr(so.train, trainer), risk, **{"lam": 0.1, "max_passes": 4, "tol": 0.0, **options})


CHANGES = {
    "data": {"X": OTHER},
    "scaled": {"X": X * 2},
    "shifted by little": {"X": X + 1e-9},
    "order": {"X": X[::-1].copy()},
    "labels": {"Y": spent(1 - Y)},
    "loss": {"model": budget(loss=so.losses.Hamming(weights=[1.0, 2.0, 1.0, 1.0]))},
    "space": {"model": budget(costs=(1.0, 1.0, 1.0, 0.9))},
    "solver": {"model": so.Model(budget().space(), {"tag": so.features.Linear()}, so.losses.Hamming(), solver="scipy")},
    "surrogate": {"surrogate": "slack"},
    "search": {"surrogate": "slack", "search": "angular"},
    "lam": {"lam": 0.2},
    "random_state": {"random_state": 1},
    "trainer": {"trainer": "bcfw"},
    "cached labels": {"cached_labels": 7},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_structured_risk_of_other_content_is_refused(change, tmp_path):
    path = tmp_path / "run.npz"
    structured()(checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(DeclarationError, match=r"is of another run.*Delete it"):
        structured(**change)(checkpoint=path)
    assert path.read_bytes() == before


def test_the_message_names_what_differs(tmp_path):
    structured()(checkpoint=tmp_path / "run.npz")
    with pytest.raises(DeclarationError, match=r"another run: X was '\w+', now '\w+'\. Delete"):
        structured(X=OTHER)(checkpoint=tmp_path / "run.npz")
    with pytest.raises(DeclarationError, match=r"another run: Y was|another run: Y was .*; loss was|; Y was"):
        structured(Y=spent(1 - Y))(checkpoint=tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("trainer", "surrogate"),
    [("block_ascent", "slack"), ("bmrm", "slack"), ("sgd", "slack"),
     *((name, "margin") for name in ("one_slack", "n_slack", "bcfw", "trust_region_bundle"))],
)  # fmt: skip
def test_every_trainer_resumes_its_own_run_and_no_other(trainer, surrogate, tmp_path):
    path = tmp_path / "run.npz"
    structured(trainer=trainer, surrogate=surrogate)(checkpoint=path)
    longer = structured(trainer=trainer, surrogate=surrogate, max_passes=6, tol=1e-9)(checkpoint=path)
    assert longer.passes > 4 or longer.converged
    for other in ({"X": X * 2}, {"Y": spent(1 - Y)}):
        with pytest.raises(DeclarationError, match="another run"):
            structured(trainer=trainer, surrogate=surrogate, **other)(checkpoint=path)


def test_the_form_of_the_data_does_not_matter(tmp_path):
    path = tmp_path / "run.npz"
    structured()(checkpoint=path)
    structured(X=np.asfortranarray(X), Y=list(spent(Y)), max_passes=5)(checkpoint=path)


def hinge(X=X, y=SIGNS, kind=so.risks.Hinge, regularizer=None, **options):
    return functools.partial(so.train.bmrm, kind(X, y), regularizer, lam=0.1, max_passes=3, tol=0.0, **options)


@pytest.mark.parametrize(
    "change",
    [
        {"X": OTHER},
        {"X": X * 2},
        {"X": sp.csr_array(X * (X > 0))},
        {"y": -np.sign(OTHER[:, 0])},
        {"kind": so.risks.SquaredHinge},
        {"regularizer": so.regularizers.Lp(1.5)},
        {"regularizer": so.regularizers.Quadratic(np.array([1.0, 2.0, 3.0]))},
        {"theta": 0.2},
    ],
    ids=str,
)
def test_a_scalar_risk_of_other_content_is_refused(change, tmp_path):
    hinge()(checkpoint=tmp_path / "run.npz")
    with pytest.raises(DeclarationError, match="another run"):
        hinge(**change)(checkpoint=tmp_path / "run.npz")


def test_regularisers_of_one_name_are_distinguished(tmp_path):
    """Quadratic(<diagonal 3 x 3>) says nothing of its entries, Lp(1.5) nothing of the seventh digit."""
    for k, (one, two) in enumerate(
        [
            (so.regularizers.Quadratic(np.ones(3)), so.regularizers.Quadratic(np.array([1.0, 1.0, 2.0]))),
            (so.regularizers.Lp(1.5), so.regularizers.Lp(1.5 + 1e-9)),
        ]
    ):
        hinge(regularizer=one)(checkpoint=tmp_path / f"{k}.npz")
        with pytest.raises(DeclarationError, match="regularizer was"):
            hinge(regularizer=two)(checkpoint=tmp_path / f"{k}.npz")


class Absolute(so.train.Risk):
    """A user's risk, of which nothing is known but what it does."""

    lower_bound, n_features = 0.0, 2

    def __init__(self, target):
        self._hidden = lambda: target

    def value_and_subgradient(self, w):
        return float(np.abs(w - self._hidden()).sum()), np.sign(w - self._hidden())


def test_a_risk_of_ones_own_is_known_by_what_it_does(tmp_path):
    path = tmp_path / "run.npz"
    so.train.bmrm(Absolute(3.0), lam=0.5, max_passes=2, tol=0.0, checkpoint=path)
    so.train.bmrm(Absolute(3.0), lam=0.5, max_passes=3, tol=0.0, checkpoint=path)
    with pytest.raises(DeclarationError, match="value and slope was"):
        so.train.bmrm(Absolute(3.1), lam=0.5, max_passes=4, tol=0.0, checkpoint=path)


def test_folds_of_a_cross_validation_do_not_resume_each_other(tmp_path):
    svm = so.StructuredSVM(budget(), max_passes=3, tol=0.0, checkpoint=tmp_path / "cv.npz")
    svm.fit(X[:6], spent(Y)[:6])
    with pytest.raises(DeclarationError, match="each fold of a cross-validation"):
        svm.fit(X[6:], spent(Y)[6:])


HIERARCHY = so.Hierarchy([("root", "a"), ("root", "b"), ("a", "c"), ("a", "d")])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("trainer", ["block_ascent", "sgd"])
def test_hierarchical_estimators_know_their_data(form, trainer, tmp_path):
    y = np.array(["b", "c", "d"] * 4)

    def fit(X, y, **options):
        path = tmp_path / "run.npz"
        given = {"max_passes": 3, "tol": 1e-12, "trainer": trainer, "checkpoint": path, **options}
        return so.HierarchicalSVM(HIERARCHY, **given).fit(form(X), y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(X, y)
        fit(X, y, max_passes=4)
        for other in ((X * 2, y), (X, y[::-1].copy())):
            with pytest.raises(DeclarationError, match="another run"):
                fit(*other)
        with pytest.raises(DeclarationError, match="another run"):
            fit(X, y, margin="hamming")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (X, X.astype(np.float32)),
        (X, X.T),
        ([1, 2], [12]),
        (["ab"], ["a", "b"]),
        ({"a": 1}, {"a": 1.0}),
        (None, "None"),
        (sp.csr_array(X), sp.csr_array(X.T)),
        (np.array(["a", None], dtype=object), np.array(["a", "b"], dtype=object)),
        (lambda x: x + 1, lambda x: x + 2),
        (functools.partial(max, 1), functools.partial(max, 2)),
    ],
)
def test_digests_differ(one, two):
    assert digest(one) == digest(one)
    assert digest(one) != digest(two)


def test_digests_of_one_content():
    rows = sp.csr_array(X * (X > 0))
    unsorted = sp.csr_array((rows.data[::-1].copy(), rows.indices[::-1].copy(), rows.indptr), shape=rows.shape)
    back = sp.csr_array(unsorted)
    assert digest(rows) == digest(sp.coo_array(rows)) == digest(sp.csc_array(rows))
    assert digest(back) == digest(back.tocsc())
    loop: list[object] = [1]
    loop.append(loop)
    assert digest(loop) == digest(loop)
    assert digest(HIERARCHY) == digest(so.Hierarchy(HIERARCHY.edges))
    assert same([1.0, 2.0], [1.0 + 1e-12, 2.0]) and not same([1.0, 2.0], [1.001, 2.0]) and not same([1.0], [1.0, 2.0])
    assert not same(0.1, 0.1 + 1e-12)

"""LinearSVM and FBetaSVM: objectives against scikit-learn and brute force, certificates, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC

from structopt.errors import DeclarationError
from structopt.estimators import FBetaSVM, LinearSVM
from structopt.risks import FBeta, Multiclass


def data(n_classes: int = 2, seed: int = 0, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(
        n, 10, n_informative=6, n_classes=n_classes, n_clusters_per_class=1, flip_y=0.1, random_state=seed
    )
    return X, y


@pytest.mark.parametrize("trainer", ["auto", "coordinate_descent", "bmrm"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_objective_is_liblinears(trainer: str, storage: Any, loss: str) -> None:
    X, y = data()
    lam = 0.01
    svm = LinearSVM(lam=lam, loss=loss, trainer=trainer, tol=1e-5).fit(storage(X), y)
    C = 1 / (lam * len(y)) * (1.0 if loss == "hinge" else 0.5)  # ours is half the square
    reference = LinearSVC(loss=loss, C=C, dual=True, tol=1e-8, max_iter=200_000, random_state=0).fit(X, y)
    assert svm.coef_.shape == (1, 10) and svm.intercept_.shape == (1,)
    assert svm.coef_ == pytest.approx(reference.coef_, abs=0.05 * np.abs(reference.coef_).max())
    margins = 1 - np.where(y == 1, 1, -1) * reference.decision_function(X)
    losses = np.maximum(margins, 0) if loss == "hinge" else np.maximum(margins, 0) ** 2 / 2
    norm = float((reference.coef_**2).sum() + (reference.intercept_**2).sum())
    theirs = lam / 2 * norm + losses.mean()
    assert svm.result_.lower_bound <= theirs + 1e-9
    assert svm.result_.objective <= theirs * (1 + 1e-5) + 1e-9
    assert svm.result_.trainer.startswith("coordinate") == (
        trainer == "coordinate_descent" or (trainer == "auto" and storage is sp.csr_array)
    )


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_more_than_two_classes(multi_class: str) -> None:
    X, y = data(4)
    names = np.array(["a", "b", "c", "d"])[y]
    svm = LinearSVM(lam=0.01, multi_class=multi_class, tol=1e-4).fit(X, names)
    assert svm.coef_.shape == (4, 10) and svm.decision_function(X).shape == (200, 4)
    assert svm.result_.converged and svm.result_.gap <= 1e-4
    reference = LinearSVC(loss="hinge", multi_class=multi_class, C=0.5, max_iter=50_000, random_state=0).fit(X, names)
    assert svm.score(X, names) >= reference.score(X, names) - 0.03
    W = np.column_stack([svm.coef_, svm.intercept_])
    if multi_class == "ovr":
        assert len(svm.result_.info["results"]) == 4
        assert np.array_equal(svm.result_.w, W.ravel())
    else:
        risk = Multiclass(np.column_stack([X, np.ones(200)]), y)
        assert svm.result_.objective == pytest.approx(0.005 * (W**2).sum() + risk(W.ravel())[0], rel=1e-9)


def test_the_intercept_is_a_constant_feature() -> None:
    X, y = data()
    svm = LinearSVM(lam=0.01, intercept_scaling=5.0, tol=1e-6).fit(X, y)
    plain = LinearSVM(lam=0.01, intercept=False, tol=1e-6).fit(np.column_stack([X, np.full(200, 5.0)]), y)
    assert svm.coef_ == pytest.approx(plain.coef_[:, :-1], abs=1e-2)
    assert svm.intercept_ == pytest.approx(5.0 * plain.coef_[:, -1], abs=1e-2)
    assert LinearSVM(intercept=False).fit(X, y).intercept_ == [0.0]


def test_labels_of_any_kind_are_mapped() -> None:
    X, y = data()
    reference = LinearSVM(lam=0.1).fit(X, y)
    for names in ([-1, 1], ["no", "yes"], [3.0, 7.0], [False, True]):
        svm = LinearSVM(lam=0.1).fit(X, np.array(names)[y])
        assert np.array_equal(svm.coef_, reference.coef_)
        assert np.array_equal(svm.predict(X), np.array(names)[reference.predict(X)])


def test_checkpoints_resume(tmp_path: Path) -> None:
    for classes in (2, 3):
        X, y = data(classes)
        path = tmp_path / f"{classes}.npz"
        with pytest.warns(ConvergenceWarning):
            LinearSVM(lam=1e-3, max_passes=10, checkpoint=path).fit(X, y)
        resumed = LinearSVM(lam=1e-3, checkpoint=path).fit(X, y)
        assert np.array_equal(resumed.coef_, LinearSVM(lam=1e-3).fit(X, y).coef_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lam": 0.0}, "lam must be a positive"),
        ({"tol": -1.0}, "tol is a relative gap"),
        ({"loss": "log"}, "loss must be 'hinge' or 'squared_hinge'"),
        ({"trainer": "sgd"}, "does not work with the trainer .sgd.: it has no violations_of"),
        ({"multi_class": "one"}, "multi_class must be"),
        ({"multi_class": "crammer_singer", "loss": "squared_hinge"}, "hinge loss only"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be positive"),
        ({"max_passes": 0}, "max_passes must be positive"),
    ],
)
def test_wrong_parameters_are_refused_in_fit(parameters: dict[str, Any], message: str) -> None:
    X, y = data()
    with pytest.raises(DeclarationError, match=message):
        LinearSVM(**parameters).fit(X, y)


@pytest.mark.parametrize("Estimator", [LinearSVM, FBetaSVM])
def test_one_class_is_refused(Estimator: Any) -> None:
    with pytest.raises(DeclarationError, match="one class, 'a'"):
        Estimator().fit([[1.0], [2.0]], ["a", "a"])


def test_fbeta_trains_its_own_risk() -> None:
    X, y = make_classification(400, 8, weights=[0.9], flip_y=0.05, random_state=3)
    svm = FBetaSVM(lam=1e-3, beta=2.0, tol=1e-3).fit(X, y)
    w = np.concatenate([svm.coef_[0], svm.intercept_])
    risk = FBeta(np.column_stack([X, np.ones(400)]), np.where(y == 1, 1, -1), 2.0)
    assert svm.result_.objective == pytest.approx(400 * 1e-3 / 2 * w @ w + risk(w)[0], rel=1e-9)
    assert svm.result_.converged
    recalls = [FBetaSVM(lam=1e-3, beta=beta).fit(X, y).predict(X).mean() for beta in (0.3, 3.0)]
    assert recalls[0] < recalls[1]  # a larger beta favours recall
    one = FBetaSVM(lam=1e-3).fit(X, y)
    assert one.score(X, y) == pytest.approx(f1_score(y, one.predict(X)))
    with pytest.raises(DeclarationError, match="beta"):
        FBetaSVM(beta=-1.0).fit(X, y)
    with pytest.raises(DeclarationError, match="Only binary classification"):
        FBetaSVM().fit(X[:3], [0, 1, 2])

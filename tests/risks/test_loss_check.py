"""A task loss is 0 at the ground truth and nowhere negative; what is not is refused before training."""

from __future__ import annotations

import functools
import math

import numba
import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError
from structopt.losses import TaskLoss
from structopt.surrogates import Slack, Surrogate, from_functions


def counts(loss=None, **options):
    space = so.LabelSpace("counts")
    space.binary("flag", 2)
    space.integer("count", 3, 0, 7)
    features = {"flag": so.features.Linear(), "count": so.features.Linear()}
    loss = {"flag": so.losses.Hamming(), "count": so.losses.Hamming()} if loss is None else loss
    return so.Model(space, features, loss=loss, **options)


def data(n=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    Y = [{"flag": rng.integers(0, 2, 2), "count": rng.integers(0, 8, 3)} for _ in range(n)]
    return X, Y


def test_hamming_on_integers_is_refused_with_the_cure():
    X, Y = data()
    Y[0]["count"] = np.zeros(3)
    with pytest.raises(DeclarationError, match=r"example 1: block 'count'.*thermometer"):
        so.StructuredSVM(counts()).fit(X, Y)


def test_ground_truths_that_happen_to_be_0_and_1_are_refused_by_their_labels():
    """1 - z is no loss of an integer z: at z = 7 it is -6."""
    X, Y = data()
    for y in Y:
        y["count"] = np.minimum(y["count"], 1)
    with pytest.raises(DeclarationError, match=r"example \d: a label has the task loss -\d+.*'count'.*thermometer"):
        so.StructuredSVM(counts()).fit(X, Y)


def test_the_thermometer_is_the_absolute_difference():
    rng = np.random.default_rng(1)
    space = so.LabelSpace("a table of counts")
    space.integer("count", (2, 2), [[0, -2], [3, 0]], [[7, 2], [3, 1]])
    steps = so.losses.thermometer(space, "count")
    model = so.Model(space, {"count": so.features.Linear()}, loss={steps: so.losses.Hamming()})
    low, up = np.array([[0, -2], [3, 0]]), np.array([[7, 2], [3, 1]])
    for _ in range(20):
        y, truth = rng.integers(low, up + 1), rng.integers(low, up + 1)
        coef, const = model.loss(truth)
        assert coef @ model.encode(y) + const == np.abs(y - truth).sum()
    assert len(list(space.enumerate())) == 8 * 5 * 1 * 2
    X = rng.normal(size=(8, 3))
    Y = [rng.integers(low, up + 1) for _ in range(8)]
    estimator = so.StructuredSVM(model, lam=0.1, tol=1e-2).fit(X, Y)
    assert 0.0 <= estimator.score(X, Y) <= 1.0
    assert np.shape(estimator.predict(X)) == (8, 2, 2)


def test_thermometers_have_finite_integers():
    space = so.LabelSpace()
    space.continuous("share", 2, 0, 1)
    space.integer("count", 2, 0, np.inf)
    with pytest.raises(DeclarationError, match="not integer"):
        so.losses.thermometer(space, "share")
    with pytest.raises(DeclarationError, match="finite bounds"):
        so.losses.thermometer(space, "count")


class Shifted(TaskLoss):
    """A user's loss with a mistake in it."""

    def __init__(self, by):
        self.by = by

    def linear(self, truth):
        coef, const = so.losses.Hamming().linear(truth)
        return coef, const + self.by

    def value(self, y, truth):
        return so.losses.Hamming().value(y, truth) + self.by


@pytest.mark.parametrize("by", [1.0, -1.0, np.nan])
def test_a_loss_that_is_not_zero_at_the_ground_truth(by):
    X, Y = np.eye(3), np.eye(3)[::-1]
    for model in (
        so.structures.MultiLabel(3, loss=Shifted(by)),
        so.structures.PairwiseMRF(3, loss=Shifted(by)),
        so.structures.Chain(3, loss=Shifted(by)),
    ):
        chain = isinstance(model, so.structures.Chain)
        with pytest.raises(DeclarationError, match="example 0: the task loss of the true label itself is"):
            so.StructuredSVM(model).fit([X] * 2 if chain else X, [[0, 1, 2]] * 2 if chain else Y)


class Tilted(TaskLoss):
    """0 at the ground truth and negative at its neighbours."""

    def linear(self, truth):
        coef, const = so.losses.Hamming().linear(truth)
        return -coef, -const

    def value(self, y, truth):
        return -so.losses.Hamming().value(y, truth)


def test_a_negative_loss_is_found():
    X = np.eye(3)
    with pytest.raises(DeclarationError, match="a label has the task loss -3"):
        so.StructuredSVM(so.structures.MultiLabel(3, loss=Tilted())).fit(X, X)
    hierarchy = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
    model = so.structures.HierarchicalLabels(hierarchy, "closure", loss=Tilted())
    with pytest.raises(DeclarationError, match="a label has the task loss"):
        so.StructuredSVM(model).fit(X, [{"c"}, {"b"}, {"d"}])


def test_score_checks_its_own_labels():
    X, Y = np.eye(3), np.eye(3)
    estimator = so.StructuredSVM(so.structures.MultiLabel(3)).fit(X, Y)
    assert estimator.score(X, Y) == 1.0
    assert 0.0 <= estimator.score(X, 1.0 - Y) <= 1.0


def test_cost_matrices_are_of_one_hot_labels():
    costs = so.losses.CostMatrix([[0, 1], [1, 0]])
    for truth in ([0, 0], [1, 1], [1, 0, 0]):
        with pytest.raises(DeclarationError):
            costs.linear(truth)
    for truth in ([0, 2], [-1, 0]):
        with pytest.raises(DeclarationError, match="thermometer"):
            so.losses.Hamming().linear(truth)
    # A mean of ground truths is one for conditional risk.
    assert so.losses.Hamming().linear([0.25, 1.0])[1] == 1.25


# ---- surrogates of a user's own --------------------------------------------------------------


class Slanted(Surrogate):
    """Slack rescaling with the gradient of something else."""

    name = "slanted"

    def psi(self, h, g):
        return (1.0 + h) * g

    def psi_gradient(self, h, g):
        return 0.0 * g, 0.0 * h


def test_a_wrong_gradient_is_refused_at_fit():
    """It ended "converged" at w = 0, with every plane flat."""
    X, Y = np.eye(3), np.eye(3)
    flat = from_functions("flat", Slack().psi, lambda h, g: (0.0 * g, 0.0 * h))
    for surrogate in (Slanted(), flat):
        with pytest.raises(DeclarationError, match="d psi / dh"):
            so.StructuredSVM(so.structures.MultiLabel(3), surrogate=surrogate).fit(X, Y)
    right = from_functions("right", Slack().psi, Slack().psi_gradient)
    fitted = so.StructuredSVM(so.structures.MultiLabel(3), surrogate=right).fit(X, Y)
    assert np.abs(fitted.coef_).max() > 0.0


@functools.cache
def _spoilt(odd, compiled):
    """Return slack rescaling that is `odd` far out."""
    if compiled:
        return from_functions(
            "far",
            numba.njit(lambda h, g: odd if abs(h) > 1e5 else (1.0 + h) * g),
            numba.njit(lambda h, g: (g, 1.0 + h)),
        )
    return from_functions("far", lambda h, g: np.where(np.abs(h) > 1e5, odd, (1.0 + h) * g), Slack().psi_gradient)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("odd", [math.nan, math.inf])
@pytest.mark.parametrize("model", [so.structures.Multiclass(3), so.structures.MultiLabel(3)])
def test_a_surrogate_that_is_no_number_far_out_is_refused_there(model, odd, compiled):
    """The trial before training does not look so far; counted as 0, NaN would make the bound of the risk wrong."""
    X = np.array([[1.0], [2.0]])
    Y = [0, 1] if isinstance(model, so.structures.Multiclass) else [[1, 0, 0], [0, 1, 0]]
    risk = so.train.StructuredRisk(model, X, Y, _spoilt(odd, compiled))
    w = np.arange(1.0, 1.0 + risk.n_features)
    assert np.isfinite(risk.violations(w).upper).all()
    with pytest.raises(DeclarationError, match=rf"'far'> is {odd} at \(h, g\)"):
        risk.violations(1e6 * w)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_compiled_surrogate_that_is_no_number_at_a_label_is_refused_by_every_search(odd):
    psi = _spoilt(odd, compiled=True)
    for search in (so.search.exact, so.search.convex_hull):
        with pytest.raises(DeclarationError, match=rf"'far'> is {odd} at \(h, g\) = \(1e\+06, 2\)"):
            search(so.PointPlane([(1.0, 1.0), (1e6, 2.0)]), psi)
    if math.isnan(odd):
        assert psi.clipped_array(np.array([1.0, 1e6]), np.array([1.0, 0.0])).tolist() == [2.0, 0.0]  # as 0 log 0
        with pytest.raises(DeclarationError, match="is nan"):
            psi.clipped_array(np.array([1.0, 1e6]), np.ones(2))


def test_inputs_of_one_number_each_are_refused():
    model = so.structures.Multiclass(2)
    for kind in (so.risks.StructuredRisk, so.risks.SpaceCRF):
        with pytest.raises(DeclarationError, match=r"the number 1\.0.*X\.reshape\(-1, 1\)"):
            kind(model, np.ones(4), [0, 1, 0, 1])
        assert kind(model, np.ones((4, 1)), [0, 1, 0, 1]).n_features == 2


@pytest.mark.parametrize("surrogate", ["margin", "slack"])
@pytest.mark.parametrize(
    ("model", "Y"),
    [
        (so.structures.Multiclass(3), [0, 2]),
        (so.structures.MultiLabel(3), [[1, 0, 0], [0, 1, 1]]),
        (so.structures.HierarchicalLabels(so.Hierarchy([("r", "a"), ("r", "b")])), ["a", "b"]),
        (so.structures.PairwiseMRF(3), [[1, 0, 0], [0, 1, 1]]),
    ],
)
def test_scores_that_are_not_finite_are_refused(model, Y, surrogate):
    """Of NaN nothing is larger: slack rescaling called a risk 0, the least that it can be."""
    risk = so.risks.StructuredRisk(model, np.array([[1.0, 0.5], [2.0, -1.0]]), Y, surrogate)
    for odd in (math.nan, math.inf, 1.7e308):
        w = np.full(risk.n_features, odd)
        w[0] = -0.9 * odd
        with np.errstate(all="ignore"), pytest.raises(DeclarationError, match=r"The score of part \d of example \d is"):
            risk(w)
    assert np.isfinite(risk(np.full(risk.n_features, 1e150))[0])

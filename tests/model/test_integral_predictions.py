"""Predictions are labels of the space, also if a model is trained over a relaxation."""

import numpy as np

import structopt as so


def _random_model(seed: int, **options) -> so.Model:
    rng = np.random.default_rng(seed)
    space = so.LabelSpace("random")
    tag = space.binary("tag", 4)
    for _ in range(3):
        a = rng.integers(-2, 4, size=4)
        space.subject_to(tag @ a <= int(np.maximum(a, 0).sum()) // 2 + 1)
    return so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming(), integral="relax", **options)


def test_oracle_of_predictions_is_kept():
    model = _random_model(0)
    model.predict(np.ones(4), [1.0])
    first = model._integral_twin().oracle()
    model.predict(-np.ones(4), [1.0])
    assert model._integral_twin().oracle() is first and first.integral == "auto"
    assert not model._oracles  # the relaxation is not solved as well


def test_least_risk_over_a_relaxation_is_a_label():
    model = _random_model(3)
    labels, rng = model.space().enumerate(), np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), labels[rng.integers(len(labels), size=12)]
    found = so.ConditionalRiskMinimizer(model).fit(X, y).predict(X)
    assert all(model.space().contains(label) for label in found)

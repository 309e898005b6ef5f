"""The conformance suite of models: ours pass, and broken ones fail the check that concerns them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError


@pytest.mark.parametrize("name", sorted(so.available_models()))
def test_declared_models_pass(name):
    loaded = so.load_model(name)
    X, Y = loaded.data(4, 0)
    # A ranking is learned from relevances and predicted as an order: its codec is no round trip.
    skip = ["codec"] if isinstance(loaded.model, so.structures.Ranking) else []
    report = so.testing.check_model(loaded.model, X, Y, skip=skip, trials=1)
    assert report.ok, report


class WrongScores(so.structures.MultiLabel):
    def scores(self, w, x):
        return super().scores(w, x) + 1.0


class WrongLoss(so.losses.Hamming):
    def linear(self, truth):
        coef, const = super().linear(truth)
        return coef, const + 1.0


class WrongCodec(so.structures.MultiLabel):
    def decode(self, z, x=None):
        return 1 - super().decode(z, x)


class WrongBatch(so.structures.MultiLabel):
    def batch(self, X):
        batch = super().batch(X)
        right = batch.argmax
        batch.argmax = lambda *a, **k: (right(*a, **k)[0], 0.9 * right(*a, **k)[1])
        return batch


class RarelyWrongOracle(so.structures.MultiLabel):
    """Never empty: wrong only where every cost is negative."""

    def oracle(self, x=None):
        oracle = super().oracle(x)
        right = oracle.maximize

        def maximize(c, **options):
            if (np.asarray(c) >= 0).any():
                return right(c, **options)
            z = np.eye(len(c))[np.argmax(c)]
            return replace(right(c, **options), z=z, value=float(np.max(c)))

        oracle.maximize = maximize
        return oracle


@pytest.mark.parametrize(
    ("model", "broken"),
    [
        (WrongScores(3), "scores"),
        (so.structures.MultiLabel(3, loss=WrongLoss()), "loss"),
        (WrongCodec(3), "codec"),
        (WrongBatch(3), "batch_inference"),
        (RarelyWrongOracle(3), "oracle"),
    ],
)
def test_broken_models_are_caught(model, broken):
    X, Y = np.random.default_rng(0).normal(size=(4, 2)), np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]])
    report = so.testing.check_model(model, X, Y, skip=["pickling"])
    assert broken in {outcome.check for outcome in report.failed}
    assert "skipped" in repr(report) and "<table" in report._repr_html_()


def test_unknown_check():
    with pytest.raises(DeclarationError, match="codec"):
        so.testing.check_model(so.structures.MultiLabel(2), np.eye(2), np.eye(2), skip=["nope"])

"""The proximal bundle method reaches the optimum of BMRM, with the same certificate."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.errors import DeclarationError
from structopt.risks.regularizers import L1, L2, Entropy, Lp, Quadratic
from structopt.train import Checkpoint, Risk, bmrm, proximal_bundle
from structopt.train.checkpoint import read_checkpoint, write_checkpoint


class Hinge(Risk):
    lower_bound, n_features = 0.0, 6

    def __init__(self):
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(60, 6))
        self.y = np.where(self.X @ rng.normal(size=6) + rng.normal(size=60) > 0, 1.0, -1.0)

    def __len__(self):
        return 60

    def value_and_subgradient(self, w):
        margin = 1 - self.y * (self.X @ w)
        return margin.clip(0).mean(), -(self.X.T @ (self.y * (margin > 0))) / 60


@pytest.mark.parametrize("regularizer", [L2(), L1(), Lp(1.5), Quadratic(np.arange(1.0, 7))], ids=repr)
def test_same_optimum_as_bmrm_with_valid_bounds(regularizer):
    best = bmrm(Hinge(), regularizer, lam=0.02, tol=1e-8)
    result = proximal_bundle(Hinge(), regularizer, lam=0.02, tol=1e-6)
    assert result.converged and result.info["serious"] > 0
    assert result.objective == pytest.approx(best.objective, rel=1.1e-6)
    assert (result.history["lower_bound"] <= best.objective).all()
    assert (result.history["objective"] >= best.lower_bound).all()


def test_resumes_to_the_same_iterates(tmp_path):
    path = tmp_path / "run.npz"
    whole = proximal_bundle(Hinge(), lam=0.02, tol=1e-6)
    half = proximal_bundle(Hinge(), lam=0.02, tol=1e-6, max_passes=11, checkpoint=Checkpoint(path, every=0))
    assert half.stopped == "passes"
    resumed = proximal_bundle(Hinge(), lam=0.02, tol=1e-6, checkpoint=path)
    assert np.array_equal(resumed.w, whole.w) and resumed.passes == whole.passes


def test_wrong_input_is_named():
    for options, message in (
        ({"zeta": 0.0}, "zeta"),
        ({"serious_share": 1.0}, "serious_share"),
        ({"lam": 0.0}, "lam"),
        ({"regularizer": Entropy()}, "use bmrm"),
        ({"w0": np.full(6, np.inf)}, "w0"),
    ):
        with pytest.raises(DeclarationError, match=message):
            proximal_bundle(Hinge(), **({"lam": 0.1} | options))


def test_a_checkpoint_with_a_renamed_option_names_both(tmp_path):
    path = tmp_path / "run.npz"
    proximal_bundle(Hinge(), lam=0.1, max_passes=2, checkpoint=path)
    saved = read_checkpoint(path)
    saved["problem"]["rho"] = saved["problem"].pop("serious_share")  # as it was called
    write_checkpoint(path, saved)
    with pytest.raises(
        DeclarationError, match=r"rho=0\.1, which the trainer of this version.*nothing of serious_share.*Delete it"
    ):
        proximal_bundle(Hinge(), lam=0.1, max_passes=4, checkpoint=path)

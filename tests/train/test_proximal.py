"""Bundle methods with cuts of the whole objective reach the optimum of BMRM, with the same certificate."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.errors import DeclarationError
from structopt.risks import Hinge
from structopt.risks.regularizers import Entropy, Lp, Quadratic
from structopt.train import Risk, bmrm, proximal_bundle, trust_region_bundle
from structopt.train.checkpoint import read_checkpoint, write_checkpoint

X = np.random.default_rng(0).normal(size=(60, 6))
NOISY = X @ np.random.default_rng(1).normal(size=6) + np.random.default_rng(2).normal(size=60)
DATA = X, np.where(NOISY > 0, 1.0, -1.0)
BOTH = pytest.mark.parametrize("trainer", [proximal_bundle, trust_region_bundle])


@BOTH
@pytest.mark.parametrize("regularizer", [Lp(1.5), Quadratic(np.arange(1.0, 7))], ids=repr)
def test_same_optimum_as_bmrm_with_valid_bounds(regularizer, trainer):
    best = bmrm(Hinge(*DATA), regularizer, lam=0.02, tol=1e-8)
    result = trainer(Hinge(*DATA), regularizer, lam=0.02, tol=1e-6)
    assert result.converged and result.info["serious"] > 0
    assert result.objective == pytest.approx(best.objective, rel=1.1e-6)
    assert (result.history["lower_bound"] <= best.objective).all()
    assert (result.history["objective"] >= best.lower_bound).all()


@BOTH
def test_wrong_input_is_named(trainer):
    own = "zeta" if trainer is proximal_bundle else "radius"
    for options, message in (
        ({own: 0.0}, own),
        ({own: np.inf}, own),
        ({"serious_share": 1.0}, "serious_share"),
        ({"lam": 0.0}, "lam"),
        ({"regularizer": Entropy()}, "use bmrm"),
        ({"w0": np.full(6, np.inf)}, "w0"),
    ):
        with pytest.raises(DeclarationError, match=message):
            trainer(Hinge(*DATA), **({"lam": 0.1} | options))


@pytest.mark.parametrize("radius", [None, 1e-6, 1.0, 1e6])
def test_any_first_radius_leads_to_the_optimum(radius):
    best = bmrm(Hinge(*DATA), lam=0.02, tol=1e-8)
    result = trust_region_bundle(Hinge(*DATA), lam=0.02, tol=1e-6, radius=radius, max_passes=400)
    assert result.converged
    assert result.objective == pytest.approx(best.objective, rel=1.1e-6)
    assert result.lower_bound <= best.objective


def test_a_step_stays_in_the_ball():
    points = []

    class Watched(Risk):
        lower_bound, n_features = 0.0, 6

        def value_and_subgradient(self, w):
            points.append(w.copy())
            return Hinge(*DATA)(w)

    trust_region_bundle(Watched(), lam=0.02, radius=0.05, max_passes=3)
    # The first step is on the sphere, the second has at most twice the radius.
    assert 0.045 <= np.linalg.norm(points[1] - points[0]) <= 0.0551
    assert np.linalg.norm(points[2] - points[1]) <= 0.1101


def test_a_start_at_the_optimum_and_a_risk_without_a_lower_bound():
    class Free(Hinge):
        lower_bound = -np.inf

    best = bmrm(Hinge(*DATA), lam=0.02, tol=1e-8)
    for risk, w0 in ((Hinge(*DATA), best.w), (Free(*DATA), None), (Free(*DATA), best.w)):
        result = trust_region_bundle(risk, lam=0.02, tol=1e-5, w0=w0)
        assert result.converged and result.objective == pytest.approx(best.objective, rel=1.1e-5)


def test_a_checkpoint_with_a_renamed_option_names_both(tmp_path):
    path = tmp_path / "run.npz"
    proximal_bundle(Hinge(*DATA), lam=0.1, max_passes=2, checkpoint=path)
    saved = read_checkpoint(path)
    saved["problem"]["rho"] = saved["problem"].pop("serious_share")  # as it was called
    write_checkpoint(path, saved)
    with pytest.raises(
        DeclarationError, match=r"rho=0\.1, which the trainer of this version.*nothing of serious_share.*Delete it"
    ):
        proximal_bundle(Hinge(*DATA), lam=0.1, max_passes=4, checkpoint=path)

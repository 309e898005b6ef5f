"""The laws of trainers hold for every trainer of the package, and find wrong ones."""

from __future__ import annotations

import dataclasses
import functools

import cvxpy as cp
import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError
from structopt.testing import check_trainer
from structopt.train import History, TrainResult, bmrm

STRUCTURED = ("margin", "slack", "multiclass")
EVERYTHING = tuple(so.testing.TRAINER_PROBLEMS)
#: The problems that each trainer solves.
PROBLEMS = {
    "bcfw": STRUCTURED,
    "block_ascent": STRUCTURED,
    "bmrm": EVERYTHING,
    "coordinate_descent": ("hinge", "squared hinge"),
    "hierarchical_sgd": ("multiclass",),
    "lbfgs": ("squared hinge", "logistic"),
    "multiclass_ascent": ("multiclass",),
    "n_slack": STRUCTURED,
    "one_slack": STRUCTURED,
    "proximal_bundle": EVERYTHING,
    "sgd": STRUCTURED,
    "trust_region_bundle": EVERYTHING,
}
#: Trainers that take too many passes to reach a gap of 1e-3.
SLOW = ("bcfw", "hierarchical_sgd", "sgd")


@pytest.mark.parametrize("name", PROBLEMS)
def test_laws_of_trainers(name):
    slow = name in SLOW
    trainer = functools.partial(so.train.get(name).function, max_passes=8) if slow else name
    report = check_trainer(trainer, converges=not slow)
    assert report.ok, report
    assert report.subject == f"{name} ({', '.join(PROBLEMS[name])})"
    assert {outcome.check for outcome in report.skipped} == ({"optimum"} if slow else set())


def test_every_trainer_has_a_case():
    ours = {name for name in so.train.names() if hasattr(so.train, name)}  # other tests register their own
    assert ours == set(PROBLEMS)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_the_simplex_program_has_the_minimum_of_its_planes(n):
    rng, lam, w = np.random.default_rng(n), 0.3, cp.Variable(4)
    A, b = rng.normal(size=(n, 4)), rng.normal(size=n)
    alpha, found = so.train.solve_simplex_qp(A @ A.T, b, lam, 1e-12)
    best = cp.Problem(cp.Minimize(lam / 2 * cp.sum_squares(w) + cp.max(A @ w + b))).solve(solver=cp.CLARABEL)
    assert found.value == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert found.value == pytest.approx(b @ alpha - np.sum((alpha @ A) ** 2) / (2 * lam), rel=1e-9)


# ---- trainers that break a law ---------------------------------------------------------------------


def altered(**changes):
    """BMRM with another result."""

    def trainer(risk, **options):
        result = bmrm(risk, **options)
        return dataclasses.replace(result, **{name: change(result) for name, change in changes.items()})

    return trainer


high_bound = altered(lower_bound=lambda result: result.objective + 1e-3, gap=lambda result: 0.0)
low_objective = altered(objective=lambda result: 0.9 * result.objective)
worse_records = altered(history=lambda result: History(list(result.history)[::-1]))
wrong_objective = altered(objective=lambda result: 1.001 * result.objective)
absolute_gap = altered(gap=lambda result: result.absolute_gap)


def impatient(risk, *, tol, **options):
    return dataclasses.replace(bmrm(risk, tol=0.3, **options), tol=tol)


def idle(risk, *, lam, **options):
    w = np.zeros(risk.n_features)
    return TrainResult.of_weights(w, risk(w)[0], tol=options["tol"], passes=1.0)


def self_satisfied(risk, **options):
    """Says that a run has converged at any gap."""
    result = bmrm(risk, **options)
    return dataclasses.replace(result, stopped="tol", lower_bound=0.9 * result.lower_bound)


def unlimited(risk, *, max_passes=None, **options):
    return bmrm(risk, **options)


def deaf(risk, *, callback=None, **options):
    return bmrm(risk, callback=None if callback is None else lambda found: callback(found) and False, **options)


def silent(risk, *, callback=None, **options):
    return bmrm(risk, **options)


def without_file(risk, *, checkpoint=None, **options):
    return bmrm(risk, **options)


def starting_over(risk, *, checkpoint=None, **options):
    """Writes checkpoints and does not read them."""
    if checkpoint is not None and not isinstance(checkpoint, so.train.Checkpoint):
        checkpoint.unlink()
    return bmrm(risk, checkpoint=checkpoint, **options)


def at_random(risk, *, w0=None, **options):
    """Starts wherever an unseeded generator says."""
    return bmrm(risk, w0=GENERATOR.normal(size=risk.n_features) if w0 is None else w0, **options)


def overwriting(risk, *, w0=None, **options):
    result = bmrm(risk, w0=w0, **options)
    if w0 is not None:
        w0[:] = result.w
    return result


def obliging(risk, *, w0=None, **options):
    return bmrm(risk, w0=None if w0 is None else np.nan_to_num(np.resize(w0, risk.n_features)), **options)


def flipping(risk, **options):
    """Turns the labels around once it is done."""
    result = bmrm(risk, **options)
    risk.y *= -1.0
    return result


GENERATOR = np.random.default_rng(0)
WRONG = [
    (high_bound, "bounds"),
    (low_objective, "bounds"),
    (worse_records, "bounds"),
    (impatient, "optimum"),
    (wrong_objective, "objective"),
    (idle, "objective"),
    (absolute_gap, "gap"),
    (self_satisfied, "gap"),
    (unlimited, "limits"),
    (deaf, "callback"),
    (silent, "callback"),
    (without_file, "checkpoint"),
    (starting_over, "checkpoint"),
    (at_random, "seeds"),
    (overwriting, "start"),
    (obliging, "start"),
    (flipping, "risk"),
]


@pytest.mark.parametrize(("trainer", "law"), WRONG)
def test_wrong_trainers_are_found(trainer, law):
    failed = {outcome.check for outcome in check_trainer(trainer, problems=["hinge"]).failed}
    assert law in failed


def test_every_law_has_a_trainer_that_breaks_it():
    assert {law for _, law in WRONG} == set(so.testing.TRAINER_CHECKS)


# ---- options ---------------------------------------------------------------------------------------


def plain(risk, *, lam):
    """A trainer with the least that a user writes."""
    return bmrm(risk, lam=lam)


def test_laws_of_optional_parameters_are_skipped():
    report = check_trainer(plain)
    assert report.ok, report
    assert report.subject == f"plain ({', '.join(EVERYTHING[:-1])})"  # without a parameter for the regulariser
    assert {outcome.check for outcome in report.skipped} == {"limits", "callback", "checkpoint", "start"}


def unbounded(risk, *, lam):
    """A trainer that knows no lower bound."""
    result = bmrm(risk, lam=lam)
    return TrainResult.of_weights(result.w, result.objective, passes=result.passes)


def test_a_lower_bound_is_optional():
    report = check_trainer(unbounded, problems=["hinge"], converges=False)
    assert report.ok and "gap" in {outcome.check for outcome in report.passed}, report
    assert not check_trainer(unbounded, problems=["hinge"]).ok


def test_a_named_problem_must_be_accepted():
    report = check_trainer("lbfgs", problems=["logistic", "hinge"])
    assert "Hinge has kinks" in report.failed[0].reason


def own():
    X = np.random.default_rng(1).normal(size=(10, 2))
    return so.risks.LeastSquares(X, X @ [1.0, -2.0])


def test_problems_of_the_callers_own():
    assert check_trainer("bmrm", problems=[own], lam=0.5).ok
    relaxed = so.structures.PairwiseMRF(2, integral="relax")
    for make in (
        lambda: so.risks.Novelty(np.eye(2), rho=0.5),
        lambda: so.risks.StructuredRisk(relaxed, np.eye(2), np.eye(2)),
        lambda: so.risks.StructuredRisk(so.structures.MultiLabel(2), np.eye(2), np.eye(2), "log"),
    ):
        with pytest.raises(DeclarationError, match="no reference optimum of <"):
            check_trainer("bmrm", problems=[make])


def test_wrong_arguments_are_named():
    with pytest.raises(DeclarationError, match="There is no problem 'hing'; there are margin"):
        check_trainer("bmrm", problems=["hing"])

    def picky(risk, *, lam):
        raise DeclarationError("never")

    with pytest.raises(DeclarationError, match="picky accepts none of"):
        check_trainer(picky)

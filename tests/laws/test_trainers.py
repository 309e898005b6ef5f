"""The laws of trainers hold for every trainer of the package, and find wrong ones."""

from __future__ import annotations

import dataclasses
import functools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

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


# ---- other problems and options --------------------------------------------------------------------

S = so.structures
X = np.random.default_rng(5).normal(size=(8, 2))
LEVEL, TAGS = np.arange(8) % 3, (X[:, [0, 1, 0]] > [0.0, 0.0, 0.5]).astype(int)


def length(x):
    return x["at"].shape[0]


def walks(sparse):
    """Walks over three nodes: two tables of features of different widths, and tied weights."""

    def space(x):
        T, tail, head = length(x), np.array([0, 0, 1, 1, 2]), np.array([1, 2, 0, 1, 2])
        space = so.LabelSpace(f"walks of {T}")
        at, step, first = space.binary("at", (T, 3)), space.binary("step", (T - 1, 5)), space.binary("first", 3)
        space.subject_to(at[0].sum() == 1, first == at[0])
        for node in range(3):
            space.subject_to(step[:, tail == node].sum(axis=1) == at[:-1, node])
            space.subject_to(step[:, head == node].sum(axis=1) == at[1:, node])
        return space

    features = {"at": so.features.Table("at"), "step": so.features.Shared("step"), "first": so.features.Tied()}
    model = so.Model(space, features, {"at": so.losses.Hamming()}, key=length)
    rng, made = np.random.default_rng(1), sp.csr_array if sparse else np.asarray
    inputs = [
        {"at": made(rng.normal(size=(T, 2))), "step": made(rng.normal(size=(5 * (T - 1), 3)))} for T in (2, 3, 2, 3)
    ]
    return structured(model, inputs, [model.predict(rng.normal(size=12), x) for x in inputs])


def equal_features(tied):
    """Labels with the joint features of the true label and a positive loss."""
    if not tied:
        tree = so.Hierarchy([("root", "a"), ("root", "b")])
        model = S.HierarchicalLabels(tree, "closure", alpha=[0.0, 1.0, 1.0])
    else:
        space = so.LabelSpace("two blocks")
        a, b = space.binary("a", 3), space.binary("b", 2)
        space.subject_to(a.sum() == 1, b[0] <= a[0])
        features = {"a": so.features.Linear(), "b": so.features.Tied([0, 0])}
        model = so.Model(space, features, {"a": so.losses.Hamming(), "b": so.losses.Hamming()})
    labels = model.space().enumerate()
    return structured(model, X, list(labels[np.arange(8) % len(labels)]))


def structured(model, inputs, labels, surrogate="margin"):
    return so.risks.StructuredRisk(model, inputs, labels, surrogate, rtol=1e-10)


COSTS = np.array([[0, 1, 4], [0.5, 0, 2], [3, 2, 0]])
OTHERS = {
    "beta scaling": lambda: structured(S.PairwiseMRF(3), X, TAGS, so.surrogates.BetaScaling(0.5)),
    "costs": lambda: structured(S.Multiclass(3, loss=COSTS), sp.csr_array(X), LEVEL),
    "one class": lambda: structured(S.Multiclass(["a", "b"]), np.ones((3, 2)), ["a"] * 3),
    "one example": lambda: structured(S.PairwiseMRF(3), X[:1], TAGS[:1], "slack"),
    "examples twice": lambda: structured(S.Multiclass(3), np.vstack([X, X]), np.append(LEVEL, LEVEL)),
    "no features": lambda: structured(S.Multiclass(3, intercept=True), X * (np.arange(8) > 3)[:, None], LEVEL),
    "walks": lambda: walks(sparse=False),
    "sparse walks": lambda: walks(sparse=True),
    "equal features": lambda: equal_features(tied=False),
    "tied features": lambda: equal_features(tied=True),
}
CLASSES = ("costs", "one class", "examples twice", "no features")


@pytest.mark.parametrize("name", ["block_ascent", "bmrm", "multiclass_ascent", "n_slack", "one_slack"])
def test_laws_of_trainers_on_other_problems(name):
    problems = [make for key, make in OTHERS.items() if key in CLASSES or name != "multiclass_ascent"]
    report = check_trainer(name, problems=problems, lam=0.3)
    assert report.ok, report


OPTIONS = {
    "bounded bundle": functools.partial(bmrm, max_cuts=4),
    "plain steps": functools.partial(bmrm, theta=1.0, line_search=False),
    "full working sets": functools.partial(so.train.block_ascent, cached_labels=2),
    "without a cache": functools.partial(so.train.one_slack, cached_labels=0),
    "short steps": functools.partial(so.train.one_slack, theta=0.3),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_laws_of_trainers_with_options(name):
    report = check_trainer(OPTIONS[name], problems=["margin", "slack", OTHERS["tied features"]])
    assert report.ok, report


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


def idle(risk, *, lam, **options):
    w = np.zeros(risk.n_features)
    return TrainResult.of_weights(w, risk(w)[0], tol=options["tol"], passes=1.0)


def deaf(risk, *, callback=None, **options):
    return bmrm(risk, callback=None if callback is None else lambda found: callback(found) and False, **options)


def starting_over(risk, *, checkpoint=None, **options):
    """Writes checkpoints and does not read them."""
    if checkpoint is not None and not isinstance(checkpoint, so.train.Checkpoint):
        checkpoint.unlink()
    return bmrm(risk, checkpoint=checkpoint, **options)


def overwriting(risk, *, w0=None, **options):
    result = bmrm(risk, w0=w0, **options)
    if w0 is not None:
        w0[:] = result.w
    return result


def flipping(risk, **options):
    """Turns the labels around once it is done."""
    result = bmrm(risk, **options)
    risk.y *= -1.0
    return result


def impatient(risk, *, tol, **options):
    return dataclasses.replace(bmrm(risk, tol=0.3, **options), tol=tol)


def at_random(risk, *, w0=None, **options):
    """Starts wherever an unseeded generator says."""
    return bmrm(risk, w0=GENERATOR.normal(size=risk.n_features) if w0 is None else w0, **options)


def obliging(risk, *, w0=None, **options):
    return bmrm(risk, w0=None if w0 is None else np.nan_to_num(np.resize(w0, risk.n_features)), **options)


GENERATOR = np.random.default_rng(0)
WRONG = {
    "high bound": ("bounds", altered(lower_bound=lambda found: found.objective + 1e-3, gap=lambda found: 0.0)),
    "low objective": ("bounds", altered(objective=lambda found: 0.9 * found.objective)),
    "worse records": ("bounds", altered(history=lambda found: History(list(found.history)[::-1]))),
    "impatient": ("optimum", impatient),
    "wrong objective": ("objective", altered(objective=lambda found: 1.001 * found.objective)),
    "idle": ("objective", idle),
    "absolute gap": ("gap", altered(gap=lambda found: found.absolute_gap)),
    "converged at any gap": (
        "gap",
        altered(stopped=lambda _: "tol", lower_bound=lambda found: 0.9 * found.lower_bound),
    ),
    "unlimited": ("limits", lambda risk, *, max_passes=None, **options: bmrm(risk, **options)),
    "deaf": ("callback", deaf),
    "silent": ("callback", lambda risk, *, callback=None, **options: bmrm(risk, **options)),
    "without a file": ("checkpoint", lambda risk, *, checkpoint=None, **options: bmrm(risk, **options)),
    "starting over": ("checkpoint", starting_over),
    "at random": ("seeds", at_random),
    "overwriting": ("start", overwriting),
    "obliging": ("start", obliging),
    "flipping": ("risk", flipping),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_trainers_are_found(name):
    law, trainer = WRONG[name]
    failed = {outcome.check for outcome in check_trainer(trainer, problems=["hinge"]).failed}
    assert law in failed


def test_every_law_has_a_trainer_that_breaks_it():
    assert {law for law, _ in WRONG.values()} == set(so.testing.TRAINER_CHECKS)


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

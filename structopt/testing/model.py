"""The conformance suite of models: the properties that searches and trainers rely on."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from structopt.checks import checked, examples, whole
from structopt.checks import seed as check_seed
from structopt.features import n_examples
from structopt.model import Model
from structopt.oracle import Oracle
from structopt.space.compiled import FloatArray
from structopt.testing.report import Report, run_checks

__all__ = ["MODEL_CHECKS", "check_model"]

_TOLERANCE = 1e-6


class _Case:
    """A model with a small data set and random weights."""

    def __init__(self, model: Model, X: Any, y: Any, trials: int, random_state: int) -> None:
        X, y = examples("X", X), examples("y", y)
        self.model, self.X, self.Y = model, X, y
        self.trials = whole("trials", trials, 1, 1_000_000)
        self.n = n_examples(X)
        self.batch = model.batch(X)
        self.rng = np.random.default_rng(check_seed("random_state", random_state))
        self.w = self.rng.normal(size=self.batch.n_weights)
        self.truth = self.batch.truth(y)
        self.loss = self.batch.loss(self.truth)
        self.tables = self.batch.tables(self.w)
        self.inputs = [self.batch.input(i) for i in range(self.n)]
        self.points = [model.encode(y[i], self.inputs[i]) for i in range(self.n)]


def _close(a: Any, b: Any, what: str) -> None:
    error = float(np.max(np.abs(np.asarray(a, dtype=float) - np.asarray(b, dtype=float)), initial=0.0))
    scale = max(1.0, float(np.max(np.abs(np.asarray(b, dtype=float)), initial=0.0)))
    assert error <= _TOLERANCE * scale, f"{what} differ by {error:.3g}"


def keys(case: _Case) -> None:
    """Inputs with the same key have the same label space."""
    for i, x in enumerate(case.inputs):
        case.model.check_key(x, f"Input {i}")


def codec(case: _Case) -> None:
    """A label is encoded into its space, and the point decodes to the same point again."""
    for i, (x, z) in enumerate(zip(case.inputs, case.points, strict=True)):
        assert case.model.space(x).contains(z), f"the point of label {i} is not in its space"
        again = case.model.encode(case.model.decode(z, x), x)
        _close(again, z, f"the points of label {i} before and after decoding")


def scores(case: _Case) -> None:
    """Scores are linear: ``scores(w, x) . z = w . joint(x, z)``."""
    for x, z in zip(case.inputs, case.points, strict=True):
        _close(case.model.scores(case.w, x) @ z, case.w @ case.model.joint(x, z), "scores . z and w . joint")


def loss(case: _Case) -> None:
    """The task loss is 0 at the ground truth and not negative at other labels."""
    for i, (x, z) in enumerate(zip(case.inputs, case.points, strict=True)):
        coef, const = case.model.loss(case.Y[i], x)
        _close(coef @ z + const, 0.0, f"the loss of ground truth {i} and 0")
        worst = case.model.oracle(x).maximize(-coef)
        assert -worst.value + const >= -_TOLERANCE, f"the loss of ground truth {i} can be {-worst.value + const:.3g}"


def _costs(case: _Case, i: int) -> Iterator[FloatArray]:
    """Objective coefficients that reveal nearly exact oracles: ties, one sign, few non-zeros, a label to be found."""
    x, z, rng = case.inputs[i], case.points[i], case.rng
    score = case.model.scores(case.w, x)
    coef, _ = case.model.loss(case.Y[i], x)
    scored = (score != 0) | (coef != 0)  # auxiliary variables never have an objective coefficient
    yield np.zeros(z.size)
    yield from (score + lam * coef for lam in (0.0, 0.1, 1.0, 100.0))
    yield from (scored * (2.0 * z - 1.0), scored * (1.0 - 2.0 * z))
    for _ in range(case.trials):
        c = scored * rng.normal(size=z.size)
        yield from (c, np.abs(c), -np.abs(c), np.rint(c))
        yield from (np.where(rng.random(z.size) < share, c, 0.0) for share in (0.1, 0.5))


def oracle(case: _Case) -> None:
    """The model's oracle finds the value that HiGHS finds, at a label of the space."""
    for i, x in enumerate(case.inputs[:3]):
        space = case.model.space(x)
        inside = space.relaxed() if case.model.integral == "relax" else space
        slow = Oracle(space, "highs", integral=case.model.integral)
        fast = case.model.oracle(x)
        for c in _costs(case, i):
            found = fast.maximize(c)
            _close(found.value, slow.maximize(c).value, "the values of the model's oracle and of HiGHS")
            _close(c @ found.z, found.value, "the value reported and the value of the answer")
            assert inside.contains(found.z, tol=1e-5), "the oracle's answer is not in the space"


def batch_scores(case: _Case) -> None:
    """A batch scores and sums features as a loop over its examples does."""
    for i, (x, z) in enumerate(zip(case.inputs, case.points, strict=True)):
        _close(case.batch.dot(case.tables, case.truth)[i], case.model.scores(case.w, x) @ z, f"scores of label {i}")
    weights = case.rng.normal(size=case.n)
    looped = sum(a * case.model.joint(x, z) for a, x, z in zip(weights, case.inputs, case.points, strict=True))
    _close(case.batch.joint(case.truth, weights), looped, "the features of a batch and of a loop")


def batch_inference(case: _Case) -> None:
    """Loss-augmented inference of a batch has the values that each example's oracle finds, also on a subset."""
    some = np.arange(0, case.n, 2)[::-1]
    for scale, lam in ((1.0, 0.0), (1.0, 0.5), (1.0, 100.0), (0.0, 1.0), (-1.0, 0.5)):
        tables = case.batch.tables(scale * case.w)
        labels, values = case.batch.argmax(tables, case.loss, lam)
        for i, x in enumerate(case.inputs):
            coef, const = case.model.loss(case.Y[i], x)
            best = case.model.oracle(x).maximize(case.model.scores(scale * case.w, x) + lam * coef).value + lam * const
            _close(values[i], best, f"loss-augmented values of example {i}")
        found = case.batch.dot(tables, labels) + lam * case.batch.loss_values(case.loss, labels)
        _close(found, values, "values of the labels found and values reported")
        _, part = case.batch.argmax(tables, case.loss, lam, examples=some)
        _close(part[some], values[some], "values of a subset and of the whole batch")


def separation(case: _Case) -> None:
    """No lazy row that is found on the way to an optimum, integral or relaxed, cuts off a ground truth."""
    for i, x in enumerate(case.inputs[:3]):
        space = case.model.space(x)
        if not space.compiled.separations:
            continue
        alike = [k for k, other in enumerate(case.inputs) if case.model.key(other) == case.model.key(x)]
        truths = np.array([case.points[k] for k in alike])
        for integral in ("auto", "relax"):
            watching = Oracle(space, "highs", integral=integral)
            assert watching.lazy_rows is not None
            watching.lazy_rows.know(truths, lambda k, alike=alike: f"the ground truth of example {alike[k]}")  # type: ignore[misc]
            for c in _costs(case, i):
                watching.maximize(c)


def pickling(case: _Case) -> None:
    """A model pickles as its declaration."""
    twin = pickle.loads(pickle.dumps(case.model))
    x = case.inputs[0]
    _close(twin.scores(case.w, x), case.model.scores(case.w, x), "scores of a pickled model")


#: Every check of a model, by name.
MODEL_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (keys, codec, scores, loss, oracle, batch_scores, batch_inference, separation, pickling)
}


@checked
def check_model(
    model: Model, X: Any, y: Any, *, skip: Iterable[str] = (), trials: int = 5, random_state: int = 0
) -> Report:
    """Check, on a small data set, the properties of a model that searches and trainers rely on.

    Parameters
    ----------
    model : Model
        Of a structure, or your own.
    X, y : a few examples
    skip : iterable of str
        Names of checks (keys of `MODEL_CHECKS`) to leave out.
    trials : int
        Number of random objectives of each kind for the model's oracle; rare errors need many.
    random_state : int
        Of the random weights and objectives.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> X, y = np.eye(4), [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]
    >>> so.testing.check_model(so.structures.PairwiseMRF(3), X, y)
    <Report on PairwiseMRF: 9 passed, 0 failed, 0 skipped>
    """
    return run_checks(type(model).__name__, MODEL_CHECKS, _Case(model, X, y, trials, random_state), skip)

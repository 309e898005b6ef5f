"""The conformance suite of models: the properties that searches and trainers rely on."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.checks import checked, examples, whole
from structopt.checks import seed as check_seed
from structopt.features import n_examples
from structopt.model import Model
from structopt.oracle import Oracle
from structopt.space.compiled import FloatArray
from structopt.testing.report import NotChecked, Report, run_checks

__all__ = ["MODEL_CHECKS", "check_model"]

_TOLERANCE = 1e-6
#: Labels of each space that are compared with the ground truths.
_OTHERS = 3


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
        self.forms = [model.loss(y[i], self.inputs[i]) for i in range(self.n)]

    def scored(self, i: int) -> Any:
        """Return which variables can have an objective coefficient; auxiliary variables cannot."""
        return (self.model.scores(self.w, self.inputs[i]) != 0.0) | (self.forms[i][0] != 0.0)

    @functools.cached_property
    def others(self) -> list[list[FloatArray]]:
        """The best labels of every input's space under a few random objectives, by HiGHS."""
        oracles: dict[Hashable, Oracle] = {}
        found = []
        for i, x in enumerate(self.inputs):
            space = self.model.space(x)
            oracle = oracles.setdefault(self.model.key(x), Oracle(space, "highs"))
            costs = self.scored(i) * self.rng.normal(size=(_OTHERS, space.n_variables))
            labels = [oracle.maximize(c).z for c in costs]
            found.append([np.where(space.compiled.integrality, np.rint(z), z) for z in labels])
        return found

    def same_scores(self, other: Model, X: Any, what: str) -> None:
        """Assert that another model, or other inputs, have the scores and predictions of this case."""
        batch = other.batch(X)
        tables = batch.tables(self.w)
        _close(batch.dot(tables, batch.truth(self.Y)), self.batch.dot(self.tables, self.truth), f"scores of {what}")
        values = self.batch.argmax(self.tables, self.loss, 0.5)[1]
        _close(batch.argmax(tables, batch.loss(batch.truth(self.Y)), 0.5)[1], values, f"values of {what}")
        for i in range(min(self.n, 3)):
            c = self.model.scores(self.w, self.inputs[i])
            _close(other.scores(self.w, batch.input(i)), c, f"scores of input {i} of {what}")


def _close(a: Any, b: Any, what: str) -> None:
    error = float(np.max(np.abs(np.asarray(a, dtype=float) - np.asarray(b, dtype=float)), initial=0.0))
    scale = max(1.0, float(np.max(np.abs(np.asarray(b, dtype=float)), initial=0.0)))
    assert error <= _TOLERANCE * scale, f"{what} differ by {error:.3g}"


def keys(case: _Case) -> None:
    """Inputs with the same key have the same label space."""
    for i, x in enumerate(case.inputs):
        case.model.check_key(x, f"Input {i}")


def codec(case: _Case) -> None:
    """A label is encoded into its space, the point decodes to the same point again, and predictions are best labels."""
    for i, (x, z) in enumerate(zip(case.inputs, case.points, strict=True)):
        assert case.model.space(x).contains(z), f"the point of label {i} is not in its space"
        again = case.model.encode(case.model.decode(z, x), x)
        _close(again, z, f"the points of label {i} before and after decoding")
        for other in case.others[i]:
            again = case.model.encode(case.model.decode(other, x), x)
            _close(case.scored(i) * again, case.scored(i) * other, f"a point of input {i} before and after decoding")
    for i, x in enumerate(case.inputs[:3]):
        c, predicted = case.model.scores(case.w, x), case.model.encode(case.model.predict(case.w, x), x)
        best = Oracle(case.model.space(x), "highs").maximize(c).value
        _close(c @ predicted, best, f"the score of the label predicted for input {i} and the best score")


def scores(case: _Case) -> None:
    """Scores are linear: ``scores(w, x) . z = w . joint(x, z)``."""
    for x, truth, others in zip(case.inputs, case.points, case.others, strict=True):
        for z in (truth, *others):
            _close(case.model.scores(case.w, x) @ z, case.w @ case.model.joint(x, z), "scores . z and w . joint")


def loss(case: _Case) -> None:
    """The task loss is 0 at the ground truth, not negative, and equal to its definition at other labels."""
    defined = type(case.model)._loss_at is Model._loss_at
    for i, (x, truth) in enumerate(zip(case.inputs, case.points, strict=True)):
        coef, const = case.forms[i]
        _close(coef @ truth + const, 0.0, f"the loss of ground truth {i} and 0")
        worst = case.model.oracle(x).maximize(-coef)
        assert -worst.value + const >= -_TOLERANCE, f"the loss of ground truth {i} can be {-worst.value + const:.3g}"
        for z in case.others[i] if defined else ():
            losses = case.model.block_losses(x)
            blocks = [(task, losses.space[name].slice) for name, task in losses.items()]
            value = sum(task.value(z[own], truth[own]) for task, own in blocks)
            _close(coef @ z + const, value, f"the linear form and the definition of the loss of ground truth {i}")


def _costs(case: _Case, i: int) -> Iterator[FloatArray]:
    """Objective coefficients that reveal nearly exact oracles: ties, one sign, few non-zeros, a label to be found."""
    z, rng, scored = case.points[i], case.rng, case.scored(i)
    score, (coef, _) = case.model.scores(case.w, case.inputs[i]), case.forms[i]
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
    costs, dots = case.batch.costs(case.tables), case.batch.dot(case.tables, case.truth)
    for i, (x, z) in enumerate(zip(case.inputs, case.points, strict=True)):
        c = case.model.scores(case.w, x)
        _close(dots[i], c @ z, f"scores of label {i}")
        _close(costs[i], c, f"objective coefficients of example {i}")
    weights = case.rng.normal(size=case.n)
    for factors in (weights, None):
        ones = np.ones(case.n) if factors is None else factors
        looped = sum(a * case.model.joint(x, z) for a, x, z in zip(ones, case.inputs, case.points, strict=True))
        _close(case.batch.joint(case.truth, factors), looped, "the features of a batch and of a loop")


def batch_labels(case: _Case) -> None:
    """A batch encodes and decodes labels, and counts their losses, as a loop over its examples does."""
    zero = case.batch.loss_values(case.loss, case.truth)
    _close(zero, np.zeros(case.n), "the losses of the ground truths and 0")
    for k in range(_OTHERS + 1):
        points = [z[k] for z in case.others] if k < _OTHERS else case.points
        labels = case.batch.fold(np.array(points) if case.model.fixed else points)
        looped = [coef @ z + const for (coef, const), z in zip(case.forms, points, strict=True)]
        _close(case.batch.loss_values(case.loss, labels), looped, "the losses of a batch and of a loop")
        looped = [case.model.scores(case.w, x) @ z for x, z in zip(case.inputs, points, strict=True)]
        _close(case.batch.dot(case.tables, labels), looped, "the scores of points in a batch and in a loop")
        for i, (found, z) in enumerate(zip(case.batch.decode(labels), points, strict=True)):
            if case.model.has_plain_labels:  # a batch has all blocks of every label if one label needs them
                _close(case.model.encode(found, case.inputs[i]), z, f"a batch's label {i} and its point")
                continue
            alone = case.model.decode(z, case.inputs[i])
            assert str(found) == str(alone), f"a batch decodes label {i} to {found}, not to {alone}"


def batch_inference(case: _Case) -> None:
    """Loss-augmented inference of a batch has the values that each example's oracle finds, in threads too."""
    for scale, lam in ((1.0, 0.0), (1.0, 0.5), (1.0, 100.0), (0.0, 1.0), (-1.0, 0.5)):
        tables = case.batch.tables(scale * case.w)
        labels, values = case.batch.argmax(tables, case.loss, lam)
        for i, (x, (coef, const)) in enumerate(zip(case.inputs, case.forms, strict=True)):
            best = case.model.oracle(x).maximize(case.model.scores(scale * case.w, x) + lam * coef).value + lam * const
            _close(values[i], best, f"loss-augmented values of example {i}")
        found = case.batch.dot(tables, labels) + lam * case.batch.loss_values(case.loss, labels)
        _close(found, values, "values of the labels found and values reported")
        _close(case.batch.argmax(tables, case.loss, lam, n_jobs=2)[1], values, "values of two threads and of one")
    labels, values = case.batch.argmax(case.tables)
    _close(case.batch.dot(case.tables, labels), values, "values of the labels found without a loss")
    weights = case.rng.uniform(0.1, 3.0, case.n)
    labels, values = case.batch.argmax(case.tables, case.loss, weights)
    found = case.batch.dot(case.tables, labels) + weights * case.batch.loss_values(case.loss, labels)
    _close(found, values, "values of the labels found with a weight of the loss per example")
    for i, weight in enumerate(weights.tolist()):
        _, alone = case.batch.argmax(case.tables, case.loss, weight, examples=np.array([i]))
        _close(alone[i], values[i], f"values of example {i} with its own weight of the loss")


def subsets(case: _Case) -> None:
    """Inference on some examples has the values of the whole batch, and reads the scores of no other example."""
    some = np.arange(0, case.n, 2)[::-1]
    left = np.setdiff1d(np.arange(case.n), some)
    _, values = case.batch.argmax(case.tables, case.loss, 0.5)
    stale = [np.array(table) for table in case.tables]
    for table, start in zip(stale, case.batch.starts, strict=True):
        for i in left:
            table[start[i] : start[i + 1]] = np.nan
    for tables in (case.tables, stale):
        labels, found = case.batch.argmax(tables, case.loss, 0.5, examples=some)
        _close(found[some], values[some], "values of a subset and of the whole batch")
        own = case.batch.dot(case.tables, labels) + 0.5 * case.batch.loss_values(case.loss, labels)
        _close(own[some], values[some], "values of the labels of a subset")
        assert not found[left].any(), "an example outside the subset has a value"
        for table, start in zip(labels.tables, case.batch.starts, strict=True):
            entries = [table[start[i] : start[i + 1]].nnz for i in left]
            assert not any(entries), "an example outside the subset has a label"
    labels, found = case.batch.argmax(case.tables, case.loss, examples=np.array([], dtype=np.intp))
    assert not found.any() and not any(table.nnz for table in labels.tables), "a label of an empty subset"


def inputs(case: _Case) -> None:
    """Sparse inputs have the scores and best labels of dense inputs."""
    try:
        given = _sparse(case.X)
        case.model.batch(given)
    except Exception:  # a model need not take sparse inputs
        raise NotChecked("the model does not take sparse inputs") from None
    case.same_scores(case.model, given, "sparse inputs")


def _sparse(X: Any) -> Any:
    """Return inputs as sparse matrices; feature rows of an array with more axes are stacked."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return sp.csr_array(X)
    arrays = [np.asarray(x, dtype=np.float64) for x in X]
    return [sp.csr_array(x.reshape(-1, x.shape[-1])) for x in arrays]


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
    """A model pickles and copies as its declaration."""
    for twin in (pickle.loads(pickle.dumps(case.model)), copy.deepcopy(case.model)):
        case.same_scores(twin, case.X, "a copied model")
        x = case.inputs[0]
        assert twin.space(x).fingerprint == case.model.space(x).fingerprint, "a copied model has another space"
        assert repr(twin) == repr(case.model), f"the copy of {case.model!r} is {twin!r}"


#: Every check of a model, by name.
MODEL_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (
        keys,
        codec,
        scores,
        loss,
        oracle,
        batch_scores,
        batch_labels,
        batch_inference,
        subsets,
        inputs,
        separation,
        pickling,
    )
}


@checked
def check_model(
    model: Model, X: Any, y: Any, *, skip: Iterable[str] = (), trials: int = 5, random_state: int = 0
) -> Report:
    """Check, on a small data set, the properties of a model that searches and trainers rely on.

    Parameters
    ----------
    model : Model
        Model of a structure, or your own.
    X, y : a few examples
    skip : iterable of str
        Names of checks (keys of `MODEL_CHECKS`) to leave out.
    trials : int
        Number of random objectives of each kind for the model's oracle; rare errors need many.
    random_state : int
        Seed of the random weights and objectives.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> X, y = np.eye(4), [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]
    >>> so.testing.check_model(so.structures.PairwiseMRF(3), X, y)
    <Report on PairwiseMRF: 12 passed, 0 failed, 0 skipped>
    """
    return run_checks(type(model).__name__, MODEL_CHECKS, _Case(model, X, y, trials, random_state), skip)

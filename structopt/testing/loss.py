"""The conformance suite of task losses: the linear form is compared with the definition, over enumerated labels."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, floats, whole
from structopt.checks import seed as check_seed
from structopt.errors import DeclarationError
from structopt.losses import TaskLoss
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.testing._reference import TOLERANCE, close, rejects
from structopt.testing.report import NotChecked, Report, run_checks

__all__ = ["LOSS_CHECKS", "check_loss"]

#: Labels that are compared with every ground truth.
_MOST_LABELS = 100


class _Case:
    """A loss with some of the labels and some of them as ground truths."""

    def __init__(self, loss: TaskLoss, labels: FloatArray, n: int, random_state: int) -> None:
        self.loss = loss
        self.rng = np.random.default_rng(check_seed("random_state", random_state))
        order = self.rng.permutation(len(labels))
        self.labels, self.truths = labels[order[:_MOST_LABELS]], labels[order[:n]]
        self.size = labels.shape[1]

    @functools.cached_property
    def values(self) -> FloatArray:
        """The loss of every label (column) for every ground truth (row), by its definition."""
        return np.array([[self.loss.value(y, truth) for y in self.labels] for truth in self.truths])

    @functools.cached_property
    def forms(self) -> tuple[FloatArray, FloatArray]:
        """Coefficients and constant of every ground truth."""
        forms = [self.loss.linear(truth) for truth in self.truths]
        return np.array([coef for coef, _ in forms]), np.array([const for _, const in forms])

    def same(self, other: TaskLoss, what: str) -> None:
        """Assert that another loss has the forms and values of this one."""
        for truth, coef, const, values in zip(self.truths, *self.forms, self.values, strict=True):
            found = other.linear(truth)
            close(found[0], coef, f"coefficients of {what}")
            close(found[1], const, f"the constant of {what}")
            close(other.value(self.labels[-1], truth), values[-1], f"the value of {what}")


def truth(case: _Case) -> None:
    """The loss is 0 at the ground truth, and neither negative nor infinite at other labels."""
    assert np.isfinite(case.values).all() and case.values.min() >= 0.0, f"a label has the loss {case.values.min():g}"
    own = [case.loss.value(y, y) for y in case.truths]
    close(own, np.zeros(len(own)), "the loss of a ground truth")
    assert len(case.labels) == 1 or case.values.any(), "the loss is 0 at all labels"


def linear(case: _Case) -> None:
    """The linear form of a ground truth has the value of the definition at every label."""
    coef, const = case.forms
    assert coef.shape == case.truths.shape, f"the coefficients of a truth have shape {coef.shape[1:]}"
    close(coef @ case.labels.T + const[:, None], case.values, "coef . y + const")


def batch(case: _Case) -> None:
    """The linear forms of a batch of ground truths are those of single ones, in any order."""
    for order in (np.arange(len(case.truths)), np.arange(len(case.truths))[::-1], np.array([0])):
        T = case.truths[order]
        found = [case.loss.linear_batch(T)]
        ones = np.flatnonzero(T)  # a second way to the same forms, if all other entries are 0
        by_ones = case.loss._linear_ones(ones, len(T), case.size) if np.isin(T, (0.0, 1.0)).all() else None
        found += [] if by_ones is None else [(by_ones[0].reshape(T.shape), by_ones[1])]
        for coef, const in found:
            close(coef, case.forms[0][order], "coefficients of a batch")
            close(const, case.forms[1][order], "constants of a batch")


def expected(case: _Case) -> None:
    """The expected form at the mean of ground truths is the mean of their forms."""
    if case.loss.expected(case.truths[0]) is None:
        raise NotChecked("the loss has no expected form")
    for shares in case.rng.dirichlet(np.ones(len(case.truths)), 5):
        found = case.loss.expected(shares @ case.truths)
        assert found is not None, "the expected form is None at a mean"
        close(found[0], shares @ case.forms[0], "coefficients of the expected loss")
        close(found[1], shares @ case.forms[1], "the constant of the expected loss")


def counted(case: _Case) -> None:
    """The loss is at most the weighted number of wrong variables, and at least half of it."""
    weights = case.loss.counted(case.size)
    if weights is None:
        raise NotChecked("the loss does not count wrong variables")
    assert weights.shape == (case.size,) and weights.min() >= 0.0, f"the weights of the variables are {weights}"
    wrong = np.abs(case.labels - case.truths[:, None]) @ weights
    # A wrong choice among several is one variable too many and one too few.
    off = (case.values > wrong + TOLERANCE) | (case.values < 0.5 * wrong - TOLERANCE)
    assert not off.any(), f"a label has the loss {case.values[off][0]:g} and {wrong[off][0]:g} wrong variables"


def copies(case: _Case) -> None:
    """Copies and pickles have the same forms, and a caller that changes an answer does not change the loss."""
    twins: list[TaskLoss] = [copy.copy(case.loss), copy.deepcopy(case.loss), pickle.loads(pickle.dumps(case.loss))]
    for twin in twins:
        case.same(twin, "a copy")
    for row in case.truths.copy():
        case.loss.linear(row)[0][...] = np.nan
    case.same(case.loss, "a loss whose answers were changed")


def rejected(case: _Case) -> None:
    """Labels of a wrong length are rejected, and the next call is right."""
    y = case.truths[0]
    long = np.append(y, 0.0)
    rejects(ValueError, "a label with one entry too many", case.loss.value, long, y)
    rejects(ValueError, "a ground truth with one entry too many", case.loss.value, y, long)
    try:
        size = case.loss.linear(long)[0].size
    except ValueError:
        size = long.size
    assert size == long.size, f"a ground truth of {long.size} entries gets {size} coefficients"
    case.same(case.loss, "a loss after an error")


#: Every check of a task loss, by name.
LOSS_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check for check in (truth, linear, batch, expected, counted, copies, rejected)
}


@checked
def check_loss(loss: TaskLoss, labels: LabelSpace | npt.ArrayLike, *, n: int = 20, random_state: int = 0) -> Report:
    """Compare the linear form of a task loss with its definition.

    Parameters
    ----------
    loss : TaskLoss
    labels : LabelSpace or array_like of shape (n_labels, size)
        Labels between which the loss is defined, one per row. A space stands for all its labels.
    n : int
        Number of random ground truths.
    random_state : int
        Seed of the random ground truths.

    Returns
    -------
    Report
        The laws of `TaskLoss.expected` and `TaskLoss.counted` are skipped if the loss returns None.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> so.testing.check_loss(so.losses.CostMatrix([[0, 1, 4], [1, 0, 2], [4, 2, 0]]), np.eye(3))
    <Report on CostMatrix(array of 9): 6 passed, 0 failed, 1 skipped>
      skipped counted: ...
    """
    rows = labels.enumerate() if isinstance(labels, LabelSpace) else floats("labels", labels)
    if rows.ndim != 2 or not rows.size:
        raise DeclarationError(f"labels must be a table with a row per label, got shape {rows.shape}.")
    return run_checks(repr(loss), LOSS_CHECKS, _Case(loss, rows, whole("n", n, 1, 10_000), random_state))

"""The conformance suite of regularisers: value, subgradient, conjugate and bound agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from structopt.checks import checked, whole
from structopt.checks import seed as check_seed
from structopt.risks.regularizers import Regularizer
from structopt.testing._reference import close
from structopt.testing.report import Report, run_checks

__all__ = ["REGULARIZER_CHECKS", "check_regularizer"]


class _Case:
    """A regulariser with random weights of its domain and random dual vectors."""

    def __init__(self, regularizer: Regularizer, n_features: int, n: int, random_state: int) -> None:
        self.regularizer, self.size = regularizer, n_features
        rng = np.random.default_rng(check_seed("random_state", random_state))
        self.duals = rng.normal(size=(n, n_features)) * 10.0 ** rng.uniform(-1.0, 1.0, (n, 1))
        own = [regularizer.conjugate_gradient(mu) for mu in self.duals]
        self.weights = np.array(own) if not regularizer.everywhere else rng.normal(size=(n, n_features))


def subgradient(case: _Case) -> None:
    """Omega lies above its tangents, so that the subgradient is right."""
    omega = case.regularizer
    for w in case.weights:
        value, slope = omega.value(w), omega.subgradient(w)
        assert math.isfinite(value) and slope.shape == w.shape, f"the value at {w} is {value}, the slope {slope}"
        near = [w + t * (v - w) for v in case.weights for t in (1e-3, 0.1, 1.0)]  # a wrong slope shows close to w
        for v in near:
            room = 1e-10 * (1.0 + abs(value) + float(np.abs(slope) @ np.abs(v - w)))
            assert omega.value(v) >= value + slope @ (v - w) - room, f"the tangent at {w} is above Omega at {v}"


def conjugate(case: _Case) -> None:
    """The conjugate is at least <w, mu> - Omega(w), with equality at its gradient."""
    omega = case.regularizer
    for mu in case.duals:
        top = omega.conjugate(mu)
        for w in case.weights:
            room = 1e-8 * (1.0 + abs(top) + float(np.abs(w) @ np.abs(mu)))
            assert w @ mu - omega.value(w) <= top + room, f"<w, mu> - Omega(w) exceeds the conjugate at {mu}"
        if math.isfinite(top):
            w = omega.conjugate_gradient(mu)
            close(float(w @ mu) - omega.value(w), top, f"<w, mu> - Omega(w) at the gradient of the conjugate at {mu}")


def start(case: _Case) -> None:
    """The start is the minimiser of Omega and is allowed."""
    omega = case.regularizer
    first = omega.start(case.size)
    omega.check(first)
    least, value = min(omega.value(w) for w in case.weights), omega.value(first)
    assert value <= least + 1e-9 * (1.0 + abs(least)), f"Omega is {value:g} at the start and {least:g} elsewhere"


def dual_point(case: _Case) -> None:
    """The bound of a dual point is below the objective of all weights, and equals that of its own weights."""
    omega = case.regularizer
    for lam in (0.1, 1.0, 10.0):
        for slope in case.duals:
            w, bound = omega.dual_point(slope, 0.5, lam, floor=-1e3)
            values = [lam * omega.value(v) + max(slope @ v + 0.5, -1e3) for v in case.weights]
            assert bound <= min(values) + 1e-9 * (1.0 + abs(bound)), f"the bound {bound:g} exceeds an objective"
            if math.isfinite(omega.conjugate(slope / -lam)):
                close(bound, lam * omega.value(w) + float(slope @ w) + 0.5, "the bound of a dual point")


#: Every check of a regulariser, by name.
REGULARIZER_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check for check in (subgradient, conjugate, start, dual_point)
}


@checked
def check_regularizer(regularizer: Regularizer, *, n_features: int = 5, n: int = 20, random_state: int = 0) -> Report:
    """Check that value, subgradient, conjugate and dual point of a regulariser agree.

    Parameters
    ----------
    regularizer : Regularizer
    n_features : int
        The number of features.
    n : int
        Number of random points.
    random_state : int
        Seed of the random points.

    Returns
    -------
    Report

    Examples
    --------
    >>> import structopt as so
    >>> so.testing.check_regularizer(so.regularizers.L2())
    <Report on L2(): 4 passed, 0 failed, 0 skipped>
    """
    case = _Case(regularizer, whole("n_features", n_features, 1), whole("n", n, 1, 10_000), random_state)
    return run_checks(repr(regularizer), REGULARIZER_CHECKS, case)

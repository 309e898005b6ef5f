"""The generalisation bound of conditional risk minimisation (ECRM Theorem 4.2, with ln(1/delta) under the root).

It holds for one rho. For all rho up to B at once: Theorem 4.2 at each rho_k = B / 2^k with probability of failure
delta / ((k + 1)(k + 2)), which sum to delta. A rho between two of them is rounded down, where the surrogate is no
larger (ECRM Proposition 4.1); this costs a factor of 2 at most and ln ln(B / rho) under the root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structopt.errors import DeclarationError
from structopt.estimators.conditional_risk.programs import LinearRisk
from structopt.losses import CostMatrix, Footrule, Hamming, HierarchicalLoss, LeafHamming, TaskLoss, ZeroOne
from structopt.model import Model
from structopt.space.compiled import FloatArray
from structopt.structures.assignment import RowLoss

__all__ = ["GeneralizationBound", "largest_loss", "ramp_surrogates", "stability_bound", "uniform_bound"]

_MOST_PAIRS = 4_000_000


@dataclass(frozen=True)
class GeneralizationBound:
    """``expected loss <= surrogate + stability + deviation`` with probability at least ``1 - delta``.

    Attributes
    ----------
    surrogate : float
        Mean ramp surrogate of the training examples (ECRM (10)); at least their mean loss.
    stability : float
        ``4 L nu / (rho m)``.
    deviation : float
        ``L (8 nu / rho + 1) sqrt(ln(1/delta) / (2 m))``.
    L, kappa : float
        Largest loss and largest ``k(x, x)``.
    rho, delta, lam : float
    m : int

    Notes
    -----
    Losses never exceed L, so that a total above L is trivial; see `vacuous`.
    """

    surrogate: float
    stability: float
    deviation: float
    L: float
    kappa: float
    rho: float
    delta: float
    lam: float
    m: int

    @property
    def value(self) -> float:
        """The bound."""
        return self.surrogate + self.stability + self.deviation

    @property
    def vacuous(self) -> bool:
        """Whether the largest loss itself is smaller."""
        return self.value >= self.L

    def __float__(self) -> float:
        return self.value


def stability_bound(
    surrogates: FloatArray, L: float, kappa: float, lam: float, rho: float, delta: float
) -> GeneralizationBound:
    """Theorem 4.2 from the ramp surrogates of the m training examples.

    Examples
    --------
    >>> import numpy as np
    >>> bound = stability_bound(np.zeros(10_000), L=1.0, kappa=1.0, lam=1.0, rho=2.0, delta=0.05)
    >>> bound.stability, round(bound.deviation, 4), bound.vacuous
    (0.0004, 0.1101, False)
    """
    _check_rho(rho)
    if not 0 < delta < 1:
        raise DeclarationError(f"delta must be between 0 and 1, got {delta}.")
    if not lam > 0:
        raise DeclarationError("Theorem 4.2 needs lam > 0: without regularisation nothing is stable.")
    m = len(surrogates)
    nu = kappa / lam + (kappa / lam) ** 1.5
    stability = 4 * L * nu / (rho * m)
    deviation = L * (8 * nu / rho + 1) * np.sqrt(np.log(1 / delta) / (2 * m))
    return GeneralizationBound(
        float(surrogates.mean()), stability, float(deviation), L, kappa, rho, delta, lam, m
    )  # fmt: skip


def uniform_bound(
    surrogates: Callable[[float], FloatArray],
    L: float,
    kappa: float,
    lam: float,
    rho: float | None,
    largest_rho: float,
    delta: float,
) -> GeneralizationBound:
    """The bound that holds for all rho up to `largest_rho` at once; at the best of them if `rho` is None.

    Examples
    --------
    >>> import numpy as np
    >>> bound = uniform_bound(lambda rho: np.full(10_000, rho / 40), 1.0, 1.0, 1.0, None, 8.0, 0.05)
    >>> bound.rho, round(bound.value, 3)
    (4.0, 0.178)
    """
    _check_rho(largest_rho)
    if not 0 < delta < 1:
        raise DeclarationError(f"delta must be between 0 and 1, got {delta}.")

    def at(k: int) -> GeneralizationBound:
        share = delta / ((k + 1) * (k + 2))
        found = stability_bound(surrogates(largest_rho / 2**k), L, kappa, lam, largest_rho / 2**k, share)
        return replace(found, delta=delta)

    if rho is not None:
        _check_rho(rho)
        if rho > largest_rho:
            raise DeclarationError(f"rho must be at most largest_rho = {largest_rho}, got {rho}.")
        return at(math.ceil(math.log2(largest_rho / rho)))
    best = at(0)
    for k in range(1, 60):
        found = at(k)
        # The terms that do not depend on the sample only grow from here on.
        best = min(best, found, key=float)
        if found.stability + found.deviation >= min(float(best), L):
            break
    return best


def ramp_surrogates(
    program: LinearRisk, risk: FloatArray, truths: Any, rho: float, L: float, n_jobs: int = 1
) -> FloatArray:
    """``min(L, max over y' of loss(y', y) + (min R - R(y'|x)) / rho)`` of ECRM (10), for every example.

    Parameters
    ----------
    program : LinearRisk
    risk : ndarray, shape (n, n_variables + 1)
        Coefficients and constant of the estimated risk of each example.
    truths : array or csr_array, shape (n, n_variables)
    """
    _check_rho(rho)
    task, task_const = program.forms(truths)
    least = program.solve(risk, n_jobs).risk
    labels = program.oracle.maximize_batch(task - risk[:, :-1] / rho, n_jobs)
    most = np.array([label.bound for label in labels]) + task_const + (least - risk[:, -1]) / rho
    return np.minimum(most, L)


def _check_rho(rho: float) -> None:
    if not (rho > 0 and np.isfinite(rho)):
        raise DeclarationError(f"rho must be positive and finite, got {rho}.")


def largest_loss(model: Model, template: Any = None) -> float:
    """An upper bound on the loss between any two labels of a model.

    In closed form for the losses of this package, by listing all pairs of a small space otherwise.
    """
    space = model.space(template)
    if type(model)._loss_at is Model._loss_at:
        known = [_largest(loss, space[name].size) for name, loss in model.block_losses(template).items()]
        if None not in known:
            return float(sum(value for value in known if value is not None))
    try:
        labels = space.enumerate(limit=int(_MOST_PAIRS**0.5))
    except DeclarationError:
        raise DeclarationError(
            "The largest loss between two labels is not known for this model, and its space is too large to list; "
            "give loss_bound=."
        ) from None
    forms = [model._loss_at(z, template) for z in labels]
    return float(max((labels @ coef).max() + const for coef, const in forms))


def _largest(loss: TaskLoss, size: int) -> float | None:
    if type(loss) is Hamming:
        return float(loss._weights(size).sum())
    if isinstance(loss, ZeroOne):
        return 1.0
    if isinstance(loss, CostMatrix):
        return float(loss.costs.max())
    if isinstance(loss, Footrule):
        return float(loss.n**2 // 2)
    if isinstance(loss, RowLoss) and loss.shape[0] == loss.shape[1]:
        n = loss.shape[0]
        return loss._scale * float(n**2 // 2 if loss.kind == "footrule" else n)
    if isinstance(loss, LeafHamming):
        return loss.scale * float(loss.hierarchy.is_leaf.sum())
    if isinstance(loss, HierarchicalLoss):
        return _heaviest_antichain(loss)
    return None


def _heaviest_antichain(loss: HierarchicalLoss) -> float:
    """Mistakes that count have no wrong ancestor: at most one on each path, so the best sum up a tree."""
    h = loss.hierarchy
    total = np.zeros(len(h))
    best = np.maximum(loss.weights_, 0.0)
    # Children come after their parents in the order of the nodes.
    for node in range(len(h) - 1, -1, -1):
        best[node] = max(best[node], total[node])
        if h.parent_of[node] >= 0:
            total[h.parent_of[node]] += best[node]
    return float(best[h.root_index].sum())

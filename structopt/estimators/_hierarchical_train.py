"""How the hierarchical estimators train: the model, the trainer of their plan, and its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.estimators._divided import Divided, DividedLabels
from structopt.estimators._hierarchical_base import HierarchicalEstimator, Kind
from structopt.estimators._hierarchical_plan import Plan
from structopt.hierarchy import Hierarchy
from structopt.losses import Hamming, LeafHamming, Normalized, TaskLoss
from structopt.risks.structured import StructuredRisk
from structopt.space.compiled import FloatArray
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.train.bcfw import bcfw
from structopt.train.block_ascent import block_ascent
from structopt.train.bmrm import bmrm
from structopt.train.cutting_plane import n_slack, one_slack
from structopt.train.hierarchical_sgd import Pattern, hierarchical_sgd, seen_features
from structopt.train.proximal import proximal_bundle
from structopt.train.result import TrainResult
from structopt.train.sgd import sgd

__all__ = ["TrainedHierarchy", "node_model", "task_loss"]

_TRAINERS: dict[str, Callable[..., TrainResult]] = {
    "bcfw": bcfw,
    "block_ascent": block_ascent,
    "bmrm": bmrm,
    "n_slack": n_slack,
    "one_slack": one_slack,
    "proximal_bundle": proximal_bundle,
    "sgd": sgd,
}


class TrainedHierarchy(HierarchicalEstimator):
    """An estimator whose node weights come from a trainer of `structopt.train`."""

    lam: float
    tol: float
    max_passes: float | None
    max_seconds: float | None
    certify: bool = True
    random_state: int
    checkpoint: Any

    def _train(
        self, plan: Plan, model: HierarchicalLabels, X: Any, labels: sp.csr_array, weights: FloatArray | None
    ) -> tuple[Any, TrainResult]:
        """Node weights (nodes, features) and the result of the run."""
        surrogate: Any = Divided() if isinstance(model, DividedLabels) else "margin"
        if plan.trainer == "sgd" and sp.issparse(X):
            options = self._options(hierarchical_sgd)
            pattern = self._pattern(X, labels) if plan.support == "seen" else None
            result, W = hierarchical_sgd(
                model,
                X,
                labels,
                surrogate=surrogate,
                pattern=pattern,
                dtype=np.dtype(self.dtype),
                sample_weight=weights,
                **options,
            )
            return W, result
        risk = _Risk(model, X, labels, surrogate, n_jobs=self.n_jobs, sample_weight=weights)
        minimise = _TRAINERS[plan.trainer]
        result = minimise(risk, **self._options(minimise))
        return result.w.reshape(len(model.hierarchy), -1), result

    def _pattern(self, X: sp.csr_array, labels: sp.csr_array) -> Pattern:
        if self.fit_intercept:
            # Every node has the constant, also one without examples: it must be able to lose.
            constant = sp.csr_array(([1.0], ([0], [X.shape[1] - 1])), shape=(1, X.shape[1]))
            X = sp.csr_array(sp.vstack([X, constant], format="csr"))
            labels = sp.csr_array(sp.vstack([labels, np.ones((1, labels.shape[1]))], format="csr"))
        found = seen_features(X, labels)
        assert isinstance(found, Pattern)
        return found

    def _options(self, minimise: Any) -> dict[str, Any]:
        wanted = {
            "lam": self.lam,
            "tol": self.tol,
            "certify": self.certify,
            "n_jobs": self.n_jobs,
            "verbose": self.verbose,
            "checkpoint": self.checkpoint,
            "random_state": self.random_state,
            "max_seconds": self.max_seconds,
            "warm": self._warm(),
        }
        if self.max_passes is not None:
            wanted["max_passes"] = self.max_passes
        known = inspect.signature(minimise).parameters
        return {key: value for key, value in wanted.items() if key in known}


class _Risk(StructuredRisk):
    """A risk whose fingerprint tells models with other node weights apart."""

    def fingerprint(self) -> str:
        model = self.model
        assert isinstance(model, HierarchicalLabels)
        weights = 0.0 if model.factor is None else float(model.factor @ np.arange(1, model.factor.size + 1))
        return f"{super().fingerprint()}, {model.kind}, {model._loss!r}, alpha {weights!r}"


def task_loss(margin: str, hierarchy: Hierarchy, kind: str, alpha: FloatArray) -> TaskLoss:
    """The error of a margin by name."""
    if margin == "hamming":
        return Hamming()
    if margin == "leaf":
        # Two different leaves are two leaves that only one label has; half of that is the zero-one loss.
        return LeafHamming(hierarchy, scale=0.5 if kind == "leaf" else 1.0)
    return Normalized(hierarchy, alpha)


def node_model(
    hierarchy: Hierarchy, kind: Kind, alpha: FloatArray, loss: TaskLoss, divided: bool = False, solver: Any = "auto"
) -> HierarchicalLabels:
    """The model to train: over the LP relaxation where sets of leaves of a DAG would need a MIP."""
    hard = kind == "leaves" and not hierarchy.is_tree
    family = DividedLabels if divided else HierarchicalLabels
    if divided and solver != "auto":
        raise DeclarationError("divided=True lists the leaves and has no program to solve; leave solver at 'auto'.")
    return family(hierarchy, kind, alpha=alpha, loss=loss, solver=solver, integral="relax" if hard else "auto")

"""Which trainer and which weights, and the memory they take, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.estimators._hierarchical_base import gib, physical_memory
from structopt.train.hierarchical_sgd import seen_features

__all__ = ["Plan", "make_plan"]

# Working sets of block ascent take about this many bytes an example at 20 planes (docs/mathematics/training).
_BYTES_PER_EXAMPLE = 5000
# Up to so many weights a pass of block ascent is cheap enough to be worth its certificate.
_MANY_WEIGHTS = 1 << 26
# Cuts that a bundle method may hold.
_CUTS = 100
_TRAINERS = ("block_ascent", "bmrm", "one_slack", "n_slack", "bcfw", "sgd", "proximal_bundle")


@dataclass(frozen=True)
class Plan:
    """A trainer, the weights it keeps ("all" or "seen"), and its memory by part in bytes."""

    trainer: str
    support: str
    memory: dict[str, float]
    reason: str = ""

    @property
    def total(self) -> float:
        """Bytes in all."""
        return sum(self.memory.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {gib(size)}" for name, size in self.memory.items())
        kept = ", weights only where a node has met a feature" if self.support == "seen" else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"trainer {self.trainer}{why}{kept}; memory about {gib(self.total)}: {parts}"


def make_plan(
    X: Any, labels: sp.csr_array, *, trainer: str, support: str, itemsize: int, max_memory: float | None
) -> Plan:
    """The plan that was asked for, or with ``"auto"`` the first that fits; refused with its numbers if none does."""
    if trainer not in ("auto", *_TRAINERS):
        raise DeclarationError(f"trainer must be 'auto' or one of {', '.join(_TRAINERS)}, got {trainer!r}.")
    if support not in ("auto", "all", "seen"):
        raise DeclarationError(f"support must be 'auto', 'all' or 'seen', got {support!r}.")
    if max_memory is not None and not max_memory > 0:
        raise DeclarationError(f"max_memory is a number of bytes, or None; got {max_memory!r}.")
    if support == "seen" and not (sp.issparse(X) and trainer in ("auto", "sgd")):
        raise DeclarationError("support='seen' keeps sparse weights: it needs a sparse X and trainer='sgd' or 'auto'.")
    limit = 0.8 * physical_memory() if max_memory is None else float(max_memory)
    plans: list[Plan] = list(_candidates(X, labels, trainer, support, itemsize, limit))
    for plan in plans:
        if plan.total <= limit:
            return plan
    raise DeclarationError(
        f"Training would not fit into {gib(limit)} ({'80% of the memory' if max_memory is None else 'max_memory'}): "
        + "; ".join(f"{plan}" for plan in plans)
        + f". {_cure(X, plans[-1], itemsize)}"
    )


def _cure(X: Any, plan: Plan, itemsize: int) -> str:
    cures = []
    if plan.support != "seen":
        cures.append("trainer='sgd' with a sparse X and support='seen'")
    if itemsize == 8:
        cures.append("dtype='float32'")
    return f"Use {' and '.join([*cures, 'fewer features' if cures == [] else 'a larger max_memory'])}."


def _candidates(X: Any, labels: sp.csr_array, trainer: str, support: str, itemsize: int, limit: float) -> Any:
    n_weights = X.shape[1] * labels.shape[1]
    if trainer == "auto" and support != "seen":
        plan = Plan("block_ascent", "all", _memory("block_ascent", X, labels), "the working sets fit into memory")
        if n_weights <= _MANY_WEIGHTS and plan.total <= limit:
            yield plan
    elif trainer not in ("auto", "sgd"):
        yield Plan(trainer, "all", _memory(trainer, X, labels))
        return
    reason = "many weights" if trainer == "auto" else ""
    if support != "seen":
        yield Plan("sgd", "all", _sgd_memory(X, n_weights, itemsize), reason)
    if sp.issparse(X) and support != "all":
        size = seen_features(X, labels, count_only=True)
        assert isinstance(size, int)
        memory = _sgd_memory(X, size, itemsize)
        yield Plan("sgd", "seen", {**memory, "pattern": 4.0 * size}, reason)


def _memory(trainer: str, X: Any, labels: sp.csr_array) -> dict[str, float]:
    n, n_nodes = labels.shape
    weights = 8.0 * X.shape[1] * n_nodes
    if trainer in ("block_ascent", "n_slack"):
        # Examples are asked in twelve groups, each with its table of scores and a transposed copy.
        own = {"working sets": float(_BYTES_PER_EXAMPLE * n), "score tables": 16.0 * n * n_nodes / 12}
        return {"features": 2 * _bytes(X), "weights": 3 * weights, **own}
    if trainer in ("bmrm", "one_slack", "proximal_bundle"):
        return {"features": _bytes(X), "cuts": (_CUTS + 4) * weights, "score tables": 16.0 * n * n_nodes}
    if trainer == "bcfw":
        return {"features": 2 * _bytes(X), "weights": 4 * weights, "score tables": 16.0 * n * n_nodes}
    return {"features": 2 * _bytes(X), "weights": 4 * weights}


def _sgd_memory(X: Any, n_weights: int, itemsize: int) -> dict[str, float]:
    if not sp.issparse(X):
        return {"features": 2 * _bytes(X), "weights": 32.0 * n_weights}
    # The iterate and its mean, and twice the float64 weights of the result while it is handed over.
    return {"features": 3 * _bytes(X), "weights": 2.0 * itemsize * n_weights, "result": 16.0 * n_weights}


def _bytes(X: Any) -> float:
    return float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) if sp.issparse(X) else float(X.nbytes)

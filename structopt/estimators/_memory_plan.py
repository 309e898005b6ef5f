"""Which trainer and which weights of a hierarchical estimator, and the memory they take, before any is allocated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import scipy.sparse as sp

from structopt import train
from structopt.errors import DeclarationError
from structopt.train.hierarchical_sgd import seen_features
from structopt.train.registry import ProblemSize, Trainer, TrainerFunction, problem_size

__all__ = ["MANY_WEIGHTS", "Plan", "make_plan"]

# Up to so many weights a pass of block ascent is cheap enough to be worth its certificate.
MANY_WEIGHTS = 1 << 26


@dataclass(frozen=True)
class Plan:
    """A trainer, the weights it keeps ("all" or "seen"), and its memory by part in bytes (empty where not known)."""

    trainer: Trainer
    support: str = "all"
    memory: dict[str, float] = field(default_factory=dict)
    reason: str = ""

    @property
    def total(self) -> float:
        """Bytes in all."""
        return sum(self.memory.values())

    def __str__(self) -> str:
        kept = ", weights only where a node has met a feature" if self.support == "seen" else ""
        why = f" ({self.reason})" if self.reason else ""
        parts = ", ".join(f"{name} {_gib(size)}" for name, size in self.memory.items())
        memory = f"memory about {_gib(self.total)}: {parts}" if parts else "memory not known"
        return f"trainer {self.trainer.name}{why}{kept}; {memory}"


def make_plan(
    X: Any,
    labels: sp.csr_array,
    *,
    trainer: str | TrainerFunction | Trainer,
    support: str,
    itemsize: int,
    max_memory: float | None,
) -> Plan:
    """The plan that was requested, or with ``"auto"`` the first that fits; refused with its numbers if none does."""
    if support not in ("auto", "all", "seen"):
        raise DeclarationError(f"support must be 'auto', 'all' or 'seen', got {support!r}.")
    if max_memory is not None and not max_memory > 0:
        raise DeclarationError(f"max_memory is a number of bytes, or None; got {max_memory!r}.")
    asked = None if isinstance(trainer, str) and trainer == "auto" else train.get(trainer)
    steps = asked is None or asked.name in ("sgd", "hierarchical_sgd")
    if support == "seen" and not (sp.issparse(X) and steps):
        raise DeclarationError("support='seen' keeps sparse weights: it needs a sparse X and trainer='sgd' or 'auto'.")
    limit = 0.8 * _physical_memory() if max_memory is None else float(max_memory)
    size = problem_size(X, labels.shape[1], itemsize)
    plans = list(_candidates(X, labels, asked, support, size, limit))
    for plan in plans:
        if plan.total <= limit:
            return plan
    raise DeclarationError(
        f"Training would not fit into {_gib(limit)} ({'80% of the memory' if max_memory is None else 'max_memory'}): "
        + "; ".join(f"{plan}" for plan in plans)
        + f". {_cure(plans[-1], itemsize)}"
    )


def _cure(plan: Plan, itemsize: int) -> str:
    cures = []
    if plan.support != "seen":
        cures.append("trainer='sgd' with a sparse X and support='seen'")
    if itemsize == 8:
        cures.append("dtype='float32'")
    return f"Use {' and '.join([*cures, 'fewer features' if cures == [] else 'a larger max_memory'])}."


def _candidates(
    X: Any, labels: sp.csr_array, asked: Trainer | None, support: str, size: ProblemSize, limit: float
) -> Iterator[Plan]:
    if asked is None and support != "seen":
        plan = _plan(train.get("block_ascent"), size, "the working sets fit into memory")
        if size.weights <= MANY_WEIGHTS and plan.total <= limit:
            yield plan
    elif asked is not None and asked.name not in ("sgd", "hierarchical_sgd"):
        yield _plan(asked, size)
        return
    reason = "many weights" if asked is None else ""
    # On sparse rows the same steps, with weights by feature.
    steps = train.get("hierarchical_sgd" if size.sparse else "sgd")
    if asked is not None and not (asked.function is train.sgd and size.sparse):
        steps = asked
    if support != "seen":
        yield _plan(steps, size, reason)
    if size.sparse and support != "all" and steps.name == "hierarchical_sgd":
        seen = seen_features(X, labels, count_only=True)
        assert isinstance(seen, int)
        plan = _plan(steps, replace(size, weights=seen), reason)
        yield replace(plan, support="seen", memory={**plan.memory, "pattern": 4.0 * seen})


def _plan(trainer: Trainer, size: ProblemSize, reason: str = "") -> Plan:
    memory = {} if trainer.memory is None else dict(trainer.memory(size))
    return Plan(trainer, "all", memory, reason)


def _gib(n_bytes: float) -> str:
    """Bytes in words."""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**28 else f"{n_bytes / 2**20:.1f} MiB"


def _physical_memory() -> float:
    """Bytes of memory in this machine; infinity where the system does not report it."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")

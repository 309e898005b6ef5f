"""Passes of BMRM to an absolute gap, and the bound of its Theorem 5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from structopt.train import Risk, bmrm


def passes_to(risk: Risk, lam: float, epsilons: Sequence[float], **options: Any) -> list[int]:
    """Return the number of passes until the gap is at most each epsilon."""
    result = bmrm(risk, lam=lam, tol=0.0, callback=lambda r: bool(r.absolute_gap <= epsilons[-1]), **options)
    gap = result.history["objective"] - result.history["lower_bound"]
    return [1 + int(np.argmax(gap <= epsilon)) for epsilon in epsilons]


def theorem5(X: Any, lam: float, epsilon: float, start: float = 1.0) -> float:
    """Return log2(lam J(0) / G^2) + 8 G^2 / (lam eps) - 1, with J(0) = `start` and rows of mean length G."""
    squares = np.asarray((X.multiply(X) if hasattr(X, "multiply") else X**2).sum(axis=1))
    G2 = float(np.sqrt(squares).mean() ** 2)
    return max(math.log2(lam * start / G2), 0.0) + 8 * G2 / (lam * epsilon) - 1

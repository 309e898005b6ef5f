"""Weights of examples: what every risk with ``sample_weight=`` takes, and what they mean.

A risk that is a mean over examples becomes the weighted mean ``sum_i s_i loss_i / sum_i s_i``. Weight 2 is an example
that is there twice, weight 0 one that is not there, and all weights times a number is the same risk.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.errors import DeclarationError, marked

__all__ = ["checksum", "copies", "relative_weights", "sample_weights"]

FloatArray = npt.NDArray[np.float64]


def sample_weights(sample_weight: Any, n: int, owner: str) -> FloatArray:
    """The weights as given, as numbers of shape (n,); a single number is the weight of all.

    Parameters
    ----------
    sample_weight : array_like of shape (n,) or float
        Finite, not negative, not all zero.
    n : int
        Number of examples.
    owner : str
        Name for error messages.
    """
    if hasattr(sample_weight, "isna"):  # a column of a frame, whose missing values numpy has no number for
        missing = np.flatnonzero(np.asarray(sample_weight.isna()))
        if missing.size:
            raise DeclarationError(
                f"{owner}: sample_weight is missing at {missing.size} positions (first: {int(missing[0])}); give those "
                "examples a weight, 0 to leave them out."
            )
    try:
        given = np.array(sample_weight, dtype=np.float64)  # a copy: the caller's may change
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{owner}: sample_weight must hold one number per example, {n} in all.") from error
    weights = np.full(n, float(given)) if given.ndim == 0 else given
    if weights.ndim != 1:
        raise DeclarationError(
            f"{owner}: Sample weights must be 1D array or scalar, got shape {weights.shape}; pass ({n},)."
        )
    if weights.shape != (n,):
        raise DeclarationError(f"{owner}: sample_weight has {weights.size} entries for {n} examples; pass ({n},).")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise DeclarationError(
            f"{owner}: sample_weight must be finite and not negative; at {bad.size} positions it is not (first: entry "
            f"{int(bad[0])} is {weights[bad[0]]:g})."
        )
    if not weights.any():
        raise DeclarationError(f"{owner}: every sample weight is zero, so that no example is left to learn from.")
    return weights


def relative_weights(sample_weight: Any, n: int, owner: str) -> FloatArray | None:
    """Weights divided by their mean, so that ``mean(weight * loss)`` is the weighted mean; None where all are equal.

    Examples
    --------
    >>> relative_weights([1, 2, 3], 3, "Hinge")
    array([0.5, 1. , 1.5])
    >>> relative_weights([7, 7, 7], 3, "Hinge") is None
    True
    """
    if sample_weight is None:
        return None
    weights = sample_weights(sample_weight, n, owner)
    weights /= weights.max()  # before the sum, which may overflow
    return None if weights.min() == 1.0 else weights / weights.mean()


def copies(sample_weight: Any, n: int, owner: str) -> npt.NDArray[np.intp] | None:
    """The examples, each as often as its weight says, for risks that count examples; None without weights.

    Examples
    --------
    >>> copies([2, 0, 1], 3, "FBeta")
    array([0, 0, 2])
    """
    if sample_weight is None:
        return None
    weights = sample_weights(sample_weight, n, owner)
    broken = np.flatnonzero(weights != np.rint(weights))
    if broken.size:
        raise DeclarationError(
            f"{owner}: this risk counts examples, so that a weight is a number of copies; entry {marked(broken[0])} of "
            f"sample_weight is {weights[broken[0]]:g}. Use whole numbers, or a risk that is a mean over examples."
        )
    if weights.sum() > 1e9:
        raise DeclarationError(f"{owner}: sample_weight stands for {weights.sum():.3g} copies; use smaller numbers.")
    return np.repeat(np.arange(n), weights.astype(np.intp))


def checksum(weight: FloatArray | None) -> str:
    """A text that distinguishes two sets of weights, empty where there are none."""
    if weight is None:
        return ""
    return f", weights {zlib.crc32(np.ascontiguousarray(weight).tobytes()):08x}"

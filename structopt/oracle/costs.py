"""Objective coefficients of a call, checked: as many as the space has variables, finite, and no sum that overflows."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from structopt._jit.products import dot
from structopt.checks import converted, number, shown
from structopt.errors import DeclarationError, SpaceMismatch
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["affine_costs", "cost_matrix", "cost_vector", "is_clean"]

#: Sums of larger coefficients may overflow.
_LARGE_COST = 1e150


def is_clean(c: Any, shape: tuple[int, ...]) -> TypeGuard[FloatArray]:
    """Whether `c` can be taken as it is; a backend looks for NaN itself. (numpy is slow right after a run.)"""
    if type(c) is not np.ndarray or c.dtype != np.float64 or c.shape != shape or not c.flags.c_contiguous:
        return False
    # A finite squared norm has finite terms; the few that overflow are checked entry by entry.
    return dot(c, c) < math.inf


def cost_vector(space: CompiledSpace, c: npt.ArrayLike) -> FloatArray:
    """One coefficient for each variable."""
    costs = np.ascontiguousarray(converted("c", c))
    if costs.ndim != 1:
        raise SpaceMismatch(f"c must have shape ({space.n_variables},), got {costs.shape}.")
    _check(space, costs)
    return costs


def cost_matrix(space: CompiledSpace, C: npt.ArrayLike) -> FloatArray:
    """A row of coefficients for each program of a batch."""
    costs = np.ascontiguousarray(converted("C", C))
    if costs.ndim != 2:
        raise SpaceMismatch(f"C must have shape (n, {space.n_variables}), got {costs.shape}.")
    _check(space, costs)
    return costs


def affine_costs(space: CompiledSpace, name: str, function: Any) -> tuple[FloatArray, float]:
    """Coefficients and constant of an affine function of the label."""
    if not isinstance(function, tuple | list) or len(function) != 2:
        raise DeclarationError(f"{name} must be a pair (coefficients, constant), got {shown(function)}.")
    return cost_vector(space, function[0]), number(f"The constant of {name}", function[1], finite=True)


def _check(space: CompiledSpace, costs: FloatArray) -> None:
    if costs.shape[-1] != space.n_variables:
        raise SpaceMismatch(
            f"There are {costs.shape[-1]} objective coefficients; the space {space.name!r} has {space.n_variables} "
            "variables."
        )
    if dot(costs.ravel(), costs.ravel()) <= _LARGE_COST**2:
        return  # so is every square
    if not np.isfinite(costs).all():
        place = np.argwhere(~np.isfinite(costs))[0]
        row = f" in row {place[0]}" if costs.ndim == 2 else ""
        name = space.variable_names[int(place[-1])]
        raise DeclarationError(f"The coefficient of {name}{row} is {costs[tuple(place)]}; it must be finite.")
    largest = np.abs(costs).max(initial=0.0)
    if largest <= _LARGE_COST:
        return
    reach = np.maximum(np.abs(space.lower), np.abs(space.upper))
    reach = np.where(np.isfinite(reach), np.maximum(reach, 1.0), 1.0)
    with np.errstate(over="ignore"):
        size = np.abs(costs) @ reach
    if not np.isfinite(size).all():
        raise DeclarationError(
            f"The coefficients are too large (up to {largest:.3g}): sums overflow. Divide "
            "all of them by one number, which changes no answer."
        )

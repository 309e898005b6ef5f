"""No-good cuts: linear rows that exclude single labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.errors import NoGoodNotExpressible
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.feasibility import point_of

__all__ = ["no_good_rows"]


def no_good_rows(space: CompiledSpace, labels: Sequence[npt.ArrayLike]) -> tuple[sp.csr_array, FloatArray]:
    """Rows ``matrix @ z >= lower``, one per label, that cut it off and no other integral label.

    With every integer variable of the label at one of its bounds, its distance from there,
    ``sum_{z_j at lower} (z_j - lower_j) + sum_{z_j at upper} (upper_j - z_j)``, is 0 at the label and at least 1 at
    every other integer assignment. For 0/1 variables that is always so.
    """
    integer = np.flatnonzero(space.integrality)
    if not space.is_integral:
        raise NoGoodNotExpressible(
            f"{space!r} has no integer variables: no linear row cuts off a single point of a polytope. "
            "Forbid labels in the integral space, before relaxed()."
        )
    points = np.stack([point_of(space, z) for z in labels])[:, integer]
    low, up = space.lower[integer], space.upper[integer]
    at_lower = np.abs(points - low) <= FEASIBILITY_TOLERANCE
    at_upper = ~at_lower & (np.abs(points - up) <= FEASIBILITY_TOLERANCE)
    inside = ~(at_lower | at_upper)
    if inside.any():
        label, k = np.argwhere(inside)[0]
        raise NoGoodNotExpressible(
            f"Label {label} of forbid= cannot be excluded by a linear row: {space.variable_names[integer[k]]} = "
            f"{points[label, k]:g} lies strictly inside its bounds [{low[k]:g}, {up[k]:g}]. Only labels whose integer "
            "variables all stand at a bound (0/1 variables always do) can be excluded; encode it with 0/1 variables."
        )
    signs = np.where(at_lower, 1.0, -1.0)
    rows = np.zeros((len(points), space.n_variables))
    rows[:, integer] = signs
    offset = np.where(at_lower, low, -up).sum(axis=1)
    return sp.csr_array(rows), 1.0 + offset

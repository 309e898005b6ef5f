"""The absolute difference between integers as a linear loss: by a 0/1 variable for every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError

if TYPE_CHECKING:
    from structopt.space import LabelSpace

__all__ = ["thermometer"]

#: Steps of one block; more of them make a space that no solver handles well.
_MOST_STEPS = 1_000_000


def thermometer(space: LabelSpace, name: str) -> str:
    """Declare the steps of an integer block, so that the Hamming loss on them is the absolute difference.

    ``|z - truth|`` is not linear in an integer z unless the ground truth is at one of its bounds. With a variable for
    each step, ``step_k = 1`` iff ``z >= lower + k`` for k = 1, 2, ..., the number of steps in which two labels differ
    is ``|z - truth|``, and that is linear: the steps fill up from below, like the mercury of a thermometer.

    Parameters
    ----------
    space : LabelSpace
    name : str
        A block of integers with finite bounds.

    Returns
    -------
    str
        The name of the new block, ``"<name> steps"``: one variable for each step, those of the first integer first.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("how many of each")
    >>> count = space.integer("count", 2, 0, 7)
    >>> steps = so.losses.thermometer(space, "count")
    >>> model = so.Model(space, {"count": so.features.Linear()}, loss={steps: so.losses.Hamming()})
    >>> coef, const = model.loss([3, 7])
    >>> float(coef @ model.encode([5, 6]) + const)
    3.0
    """
    block = space[name]
    lower, upper = space.lower[block.slice], space.upper[block.slice]
    if not space.integrality[block.slice].all():
        raise DeclarationError(f"Block {name!r} is not integer: it has no steps to count.")
    if not (np.isfinite(lower) & np.isfinite(upper)).all():
        raise DeclarationError(f"Block {name!r} has no finite bounds; give lower and upper to count its steps.")
    lower, upper = np.ceil(lower - 1e-9), np.floor(upper + 1e-9)
    sizes = (upper - lower).astype(np.int64)
    total = int(sizes.sum())
    if total > _MOST_STEPS:
        raise DeclarationError(f"Block {name!r} has {total} steps, more than {_MOST_STEPS}; use smaller bounds.")
    owner = np.repeat(np.arange(block.size), sizes)
    step = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    steps = space.binary(f"{name} steps", total)
    whole = block.reshape(block.size) if len(block.shape) != 1 else block
    sums = sp.csr_array((np.ones(total), (owner, np.arange(total))), shape=(block.size, total))
    space.subject_to(sums @ steps == whole - lower, name=f"{name} is the sum of its steps")
    above = np.flatnonzero(step > 1)
    if above.size:
        space.subject_to(steps[above] <= steps[above - 1], name=f"{name} steps from below")
        # Redundant, and what lets the steps follow from the integer one by one.
        space.subject_to(step[above] * steps[above] <= (whole - lower)[owner[above]], name=f"{name} reaches its step")
    return f"{name} steps"

"""Large scores less the largest of each slot: a network may add any number to all scores of a position.

The differences between labels stay, and their digits should, too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from structopt._jit import IntArray
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["LARGE", "FixedSums", "centred", "centred_for_all", "centred_groups", "is_large"]

#: Scores beyond this are centred: what float64 leaves of their differences would be felt.
LARGE = 1e5


def centred(
    values: Tensor,
    dims: tuple[int, ...],
    offsets: list[Tensor],
    keep: Tensor | None = None,
    unused: npt.NDArray[np.bool_] | None = None,
) -> Tensor:
    """Large scores less the largest of each slot, of which every label has exactly one part.

    A network may add any number to all scores of a position: the differences between labels stay, and their digits
    should, too. What was taken from each example's labels is put in `offsets`; no gradient passes through it, as no
    result but the score of a label depends on it.

    Parameters
    ----------
    values : Tensor of shape (B, ...)
    dims : tuple of int
        The axes of a slot's parts.
    offsets : list of Tensor
    keep : Tensor of bool, optional
        What is no padding, of the first axes.
    unused : ndarray of bool, optional
        As of `Part`.
    """
    known = values.detach()
    if not is_large(known):
        return values
    if keep is not None:
        keep = keep.reshape(*keep.shape, *[1] * (values.ndim - keep.ndim)).to(values.device)
        known = known.masked_fill(~keep, -math.inf)
    if unused is not None:
        known = known.masked_fill(torch.from_numpy(unused).to(values.device), -math.inf)
    top = known.amax(dims, keepdim=True)
    top = torch.where(torch.isfinite(top), top, 0.0)  # a slot of padding; what is infinite is refused later
    offsets.append(top.to(torch.float64).reshape(len(values), -1).sum(dim=1))
    return values - top


def is_large(values: Tensor) -> bool:
    """Whether some score is beyond `LARGE`; not where one is NaN."""
    flat = values.reshape(-1)
    # No entry exceeds the root of the sum of squares, which takes a tenth of the time of the largest.
    return not float(flat @ flat) <= LARGE**2 and float(values.abs().amax()) > LARGE


def centred_for_all(values: Tensor, unused: npt.NDArray[np.bool_], times: IntArray, offsets: list[Tensor]) -> Tensor:
    """Large scores that all examples share less the largest; a label of example i has ``times_i`` of these parts."""
    known = values.detach()
    if not is_large(known):
        return values
    top = known.masked_fill(torch.from_numpy(unused).to(values.device), -math.inf).amax()
    if not math.isfinite(top):
        return values
    offsets.append(top.to(device="cpu", dtype=torch.float64) * torch.from_numpy(times))
    return values - top


def centred_groups(values: Tensor, groups: FixedSums, offsets: list[Tensor]) -> Tensor:
    """Scores of a block less the largest of each group of variables whose sum is the same for all labels.

    Parameters
    ----------
    values : Tensor
        With or without a batch axis.
    groups : FixedSums
    offsets : list of Tensor
        One number is added for scores without a batch axis.
    """
    if not groups.sums.size:
        return values
    rows = values.detach().reshape(-1, groups.group.size).to(torch.float64)
    inside = torch.from_numpy(np.flatnonzero(groups.group >= 0)).to(rows.device)
    owner = torch.from_numpy(groups.group[groups.group >= 0]).to(rows.device)
    top = torch.full((len(rows), groups.sums.size), -math.inf, dtype=torch.float64, device=rows.device)
    top = top.scatter_reduce(1, owner.expand(len(rows), -1), rows[:, inside], "amax")
    top = torch.where(torch.isfinite(top), top, 0.0)
    offsets.append(top @ torch.from_numpy(groups.sums).to(rows.device))
    taken = torch.zeros_like(rows)
    taken[:, inside] = top[:, owner]
    return values - taken.reshape(values.shape).to(values.dtype)


class FixedSums(NamedTuple):
    """Groups of a block's variables whose sum is the same for all labels.

    Attributes
    ----------
    group : ndarray of int
        The number of the group of every variable, -1 for none.
    sums : ndarray
        The sum of each group.
    """

    group: IntArray
    sums: FloatArray

    @classmethod
    def of(cls, space: LabelSpace, name: str) -> FixedSums:
        """Those of a block: rows ``a (z_1 + ... + z_k) = b`` of its variables, the first of those that overlap."""
        compiled, block = space.compiled, space[name]
        A, group, sums = compiled.matrix, np.full(space[name].size, -1, dtype=np.int64), list[float]()
        for r in np.flatnonzero(compiled.row_lower == compiled.row_upper).tolist():
            columns, data = A.indices[A.indptr[r] : A.indptr[r + 1]], A.data[A.indptr[r] : A.indptr[r + 1]]
            own = columns - block.slice.start
            if not own.size or own.min() < 0 or own.max() >= block.size or (data != data[0]).any():
                continue
            if data[0] != 0.0 and (group[own] < 0).all():
                group[own] = len(sums)
                sums.append(float(compiled.row_lower[r] / data[0]))
        return cls(group, np.array(sums))

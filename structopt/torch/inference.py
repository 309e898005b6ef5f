"""Batches of the oracle over the groups of an arrangement, with errors that name an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structopt._jit import IntArray
from structopt.errors import SolverFailed
from structopt.model.codec import labels_given
from structopt.space.compiled import FloatArray
from structopt.torch.module import naming
from structopt.torch.scores import Arrangement, Group

__all__ = ["best", "encoded"]


def best(
    arrangement: Arrangement,
    group: Group,
    C: FloatArray,
    n_jobs: int = 1,
    examples: IntArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """The best labels for rows of objective coefficients, and what no label exceeds.

    Parameters
    ----------
    arrangement : Arrangement
    group : Group
        The examples of one space.
    C : ndarray, shape (k, n_variables)
    n_jobs : int
    examples : ndarray of int, optional
        The example of each row; those of the group by default.

    Returns
    -------
    Z : ndarray, shape (k, n_variables)
    bounds : ndarray, shape (k,)
    """
    oracle = arrangement.oracle(group)
    try:
        found = oracle._solve_batch(C, n_jobs)
    except SolverFailed:
        for i, c in zip(group.examples if examples is None else examples, C, strict=True):
            with naming(int(i)):
                oracle.maximize(c)
        raise
    return found.Z, found.bounds


def encoded(arrangement: Arrangement, groups: Sequence[Group], Y: Any) -> list[Tensor]:
    """The ground truths of every group as points; one that is not in its space is named."""
    model, batch = arrangement.model, arrangement.batch
    Y = labels_given(Y, arrangement.n)
    together = model._encode_batch(Y) if model.fixed else None
    if together is not None:
        return [torch.from_numpy(np.asarray(together, dtype=np.float64))]
    found = []
    for group in groups:
        rows = []
        for i in group.examples.tolist():
            with naming(i):
                rows.append(model.encode(Y[i], batch.input(i)))
        found.append(torch.from_numpy(np.array(rows)))
    return found

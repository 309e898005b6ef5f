"""The task loss of a model: losses of single blocks of a space, added up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from structopt.errors import DeclarationError
from structopt.losses import TaskLoss
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["BlockLosses"]


class BlockLosses(Mapping[str, TaskLoss]):
    """Task losses of some blocks of a space, by the names of the blocks."""

    def __init__(self, space: LabelSpace, losses: TaskLoss | Mapping[str, TaskLoss] | None) -> None:
        if losses is None:
            raise DeclarationError("This model has no task loss; give loss= (for example structopt.losses.Hamming()).")
        self.space = space
        self._losses = dict(losses) if isinstance(losses, Mapping) else {space.block_names[0]: losses}

    def __getitem__(self, name: str) -> TaskLoss:
        return self._losses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._losses)

    def __len__(self) -> int:
        return len(self._losses)

    def linear(self, z: FloatArray) -> tuple[FloatArray, float]:
        """Coefficients and constant of the loss of a ground truth: ``coef . z + const``."""
        coef, const = np.zeros(self.space.n_variables), 0.0
        for name, loss in self.items():
            block = self.space[name]
            try:
                part, offset = loss.linear(z[block.slice])
            except DeclarationError as error:
                raise DeclarationError(f"block {name!r}: {error}") from None
            coef[block.slice] += part
            const += offset
        return coef, const

    def linear_batch(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`linear` for every row of `Z`, which may leave out the variables after a single block with a loss."""
        if len(self._losses) == 1:
            ((name, loss),) = self._losses.items()
            if self.space[name].size == Z.shape[1]:
                return loss.linear_batch(Z)
        coef, const = np.zeros(Z.shape), np.zeros(len(Z))
        for name, loss in self.items():
            block = self.space[name]
            part, offset = loss.linear_batch(Z[:, block.slice])
            coef[:, block.slice] += part
            const += offset
        return coef, const

    def expected(self, mean: FloatArray) -> tuple[FloatArray, float]:
        """The mean loss over random ground truths, by their mean: ``coef . z + const``."""
        coef, const = np.zeros(self.space.n_variables), 0.0
        for name, loss in self.items():
            block = self.space[name]
            own = loss.expected(mean[block.slice])
            if own is None:
                raise DeclarationError(
                    f"The mean of {loss!r} takes more than the probabilities of single variables; minimum Bayes risk "
                    "is for losses such as structopt.losses.Hamming, ZeroOne, CostMatrix."
                )
            coef[block.slice] += own[0]
            const += own[1]
        return coef, const

    def counted(self) -> FloatArray:
        """The weight of every variable whose errors are counted, 0 elsewhere."""
        space = self.space
        weights = np.zeros(space.n_variables)
        for name, loss in self.items():
            block = space[name]
            own = loss.counted(block.size)
            if own is None:
                raise DeclarationError(
                    f"Micro-F1 counts wrong variables, as the Hamming loss does; {loss!r} on block {name!r} counts "
                    "something else. Use structopt.losses.Hamming, or another surrogate."
                )
            if (space.lower[block.slice] < 0).any() or (space.upper[block.slice] > 1).any():
                raise DeclarationError(
                    f"Micro-F1 counts 0/1 variables; block {name!r} takes other values. Use another surrogate."
                )
            weights[block.slice] += own
        return weights

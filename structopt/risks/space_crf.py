"""The structured logistic loss of any label space whose labels can be summed over."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from structopt.checks import checked
from structopt.model import Model
from structopt.risks._features import FloatArray
from structopt.risks.crf import StructuredLikelihood

__all__ = ["SpaceCRF"]


class SpaceCRF(StructuredLikelihood):
    """Mean negative log-likelihood of the labels of a declared model, ``P(y | x) = exp(score(x, y)) / Z(x)``.

    The sum over all labels is one pass over the space's decision diagram or its list of labels; its gradient is the
    difference of expected and observed features. `ChainCRF`, `TreeCRF` and `PathSoftmax` are the same risk for
    structures whose sums have an algorithm of their own.

    Parameters
    ----------
    model : Model
        With integral labels that an algorithm sums over (`structopt.Oracle.log_partition`). Its loss is not used.
    X, Y : the data set, as of `structopt.StructuredSVM`
    n_jobs : int
        Not used by the sums so far; there for the other likelihoods' sake.
    sample_weight : array, optional
        Weights of the examples in the mean, not negative; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> space = so.LabelSpace("at most one of three")
    >>> tag = space.binary("tag", 3)
    >>> space.subject_to(tag.sum() <= 1)
    >>> model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
    >>> risk = so.risks.SpaceCRF(model, [[1.0]], [[1, 0, 0]])
    >>> value, gradient = risk(np.zeros(3))                       # four labels, all equally likely
    >>> round(float(np.exp(value)), 6), gradient
    (4.0, array([-0.75,  0.25,  0.25]))
    """

    @checked
    def __init__(self, model: Model, X: Any, Y: Any, n_jobs: int = 1, *, sample_weight: Any = None) -> None:
        super().__init__(model, X, Y, n_jobs, sample_weight=sample_weight)
        # Refused here, and not in the middle of a fit.
        for i in {self.model.key(self._batch.input(i)): i for i in range(len(self))}.values():
            x = self._batch.input(i)
            self.model.oracle(x).log_partition(np.zeros((1, self.model.space(x).n_variables)))

    def log_partition(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        batch = self._batch
        costs = batch.costs(batch.tables(w))
        if self.model.fixed:
            log_z, mean = self.model.oracle().sums(costs)
            return log_z, batch.joint(batch.fold(mean), self._weight)
        log_z, means = np.empty(len(self)), [np.empty(0)] * len(self)
        for some in self._same_space().values():
            oracle = self.model.oracle(batch.input(some[0]))
            log_z[some], found = oracle.sums(np.array([costs[i] for i in some]))
            for i, mean in zip(some, found, strict=True):
                means[i] = mean
        return log_z, batch.joint(batch.fold(means), self._weight)

    def _same_space(self) -> dict[Hashable, list[int]]:
        """Examples by the key of their label space."""
        groups: dict[Hashable, list[int]] = {}
        for i in range(len(self)):
            groups.setdefault(self.model.key(self._batch.input(i)), []).append(i)
        return groups

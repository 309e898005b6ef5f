"""The structured logistic loss of any label space whose labels can be summed over, and minimum-Bayes-risk labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch
from structopt.risks._features import FloatArray
from structopt.risks.crf import ChainCRF, StructuredLikelihood
from structopt.risks.tree_crf import TreeCRF
from structopt.structures.chain import Chain
from structopt.structures.mrf import PairwiseMRF

__all__ = ["SpaceCRF", "bayes_labels", "likelihood", "means_of"]


class SpaceCRF(StructuredLikelihood):
    """Mean negative log-likelihood of the labels of a declared model, ``P(y | x) = exp(score(x, y)) / Z(x)``.

    The sum over all labels is one pass over the space's decision diagram or its list of labels; its gradient is the
    difference of expected and observed features. `ChainCRF`, `TreeCRF` and `PathSoftmax` are the same risk for
    structures whose sums have an algorithm of their own.

    Parameters
    ----------
    model : Model
        With integral labels that an algorithm sums over (`structopt.Oracle.log_partition`). Its loss is not used.
    X, y : the data set, as of `structopt.StructuredSVM`
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
    def __init__(self, model: Model, X: Any, y: Any, n_jobs: int = 1, *, sample_weight: Any = None) -> None:
        super().__init__(model, X, y, n_jobs, sample_weight=sample_weight)
        # Refused here, and not in the middle of a fit.
        for i in {self.model.key(self._batch.input(i)): i for i in range(len(self))}.values():
            x = self._batch.input(i)
            self.model.oracle(x).log_partition(np.zeros((1, self.model.space(x).n_variables)))

    def log_partition(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_z, means = means_of(self._batch, self._batch.tables(w))
        return log_z, self._batch.joint(LabelBatch(self._batch.data.fold(means), means), self._weight)


def likelihood(model: Model, X: Any, y: Any, n_jobs: int = 1, *, sample_weight: Any = None) -> StructuredLikelihood:
    """The mean negative log-likelihood of a model's labels, by the cheapest sum over them.

    Forward-backward for chains, sums along a forest for pairwise models without circles, else `SpaceCRF`.

    Parameters
    ----------
    model : Model
    X, y : the data set, as of `structopt.StructuredSVM`
    n_jobs : int
        Threads, where the sums have some.
    sample_weight : array, optional
        Weights of the examples in the mean, not negative; equal by default.

    Returns
    -------
    StructuredLikelihood

    Examples
    --------
    >>> import structopt as so
    >>> from structopt.risks import likelihood
    >>> type(likelihood(so.structures.Chain(2), [[[1.0], [0.5]]], [[0, 1]])).__name__
    'ChainCRF'
    """
    if isinstance(model, Chain):
        return ChainCRF(model, X, y, n_jobs, sample_weight=sample_weight)
    if type(model) is PairwiseMRF and model.integral != "relax" and model.solver == "auto" and model.graph.is_forest:
        return TreeCRF(model, X, y, sample_weight=sample_weight)
    return SpaceCRF(model, X, y, n_jobs, sample_weight=sample_weight)


def means_of(batch: Batch, tables: Any, temperature: float = 1.0) -> tuple[FloatArray, Any]:
    """``log Z`` and the mean label of every example, under ``p(z) ~ exp(score / temperature)``.

    The means are an array, or a list where the label spaces differ.
    """
    model, costs = batch.model, batch.costs(tables)
    if model.fixed:
        return model.oracle().sums(costs / temperature)
    log_z, means = np.empty(len(batch)), [np.empty(0)] * len(batch)
    for some in batch.same_space:
        oracle = model.oracle(batch.input(int(some[0])))
        log_z[some], found = oracle.sums(np.array([costs[i] for i in some]) / temperature)
        for i, mean in zip(some, found, strict=True):
            means[i] = mean
    return log_z, means


def bayes_labels(batch: Batch, w: FloatArray, *, temperature: float = 1.0, n_jobs: int = 1) -> LabelBatch:
    """The labels of least expected task loss under ``P(y | x) ~ exp(score(x, y) / temperature)``.

    Parameters
    ----------
    batch : Batch
    w : ndarray
        Weights.
    temperature : float
        Larger than 0.
    n_jobs : int
        Threads.

    Returns
    -------
    LabelBatch
    """
    if not temperature > 0.0:
        raise DeclarationError(f"temperature must be more than 0, got {temperature}.")
    model = batch.model
    _, means = means_of(batch, batch.tables(w), temperature)
    coef = [model.expected_loss(np.asarray(means[i]), batch.input(i))[0] for i in range(len(batch))]
    if model.fixed:
        return batch.fold(model.oracle()._solve_batch(-np.array(coef), n_jobs).Z)
    Z: list[Any] = [None] * len(batch)
    for some in batch.same_space:
        found = model.oracle(batch.input(int(some[0])))._solve_batch(-np.array([coef[i] for i in some]), n_jobs)
        for i, z in zip(some, found.Z, strict=True):
            Z[i] = z
    return batch.fold(Z)

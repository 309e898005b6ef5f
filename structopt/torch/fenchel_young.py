"""`FenchelYoung`: losses of a regularised maximum, ``Omega*(c) + Omega(y) - c . y`` (Blondel et al. 2020)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from structopt.checks import checked, choice, number, whole
from structopt.errors import DeclarationError
from structopt.model import Model
from structopt.space.compiled import FloatArray
from structopt.torch.hinge import part_sums
from structopt.torch.inference import best, encoded
from structopt.torch.layers import in_order, partition_of
from structopt.torch.module import Reduction, StructuredLoss, differentiable_once
from structopt.torch.scores import Arrangement, Group
from structopt.torch.sparsemap import SparseMixtures, checked_keys

__all__ = ["FenchelYoung"]


class FenchelYoung(StructuredLoss):
    """The Fenchel-Young loss of a regulariser Ω of the labels' hull: never negative, convex in the scores.

    - ``"entropy"``: the log-loss of a conditional random field, ``log Z(c) - c . y``, where labels can be summed over
      (chains, spanning trees, compiled spaces, spaces whose labels can be listed);
    - ``"sparsemap"``: ``max_mu c . mu - |mu|^2/2`` plus ``|y|^2/2 - c . y``, for every space; 0 where y wins clearly;
    - ``"perturbed"``: ``E max_z (c + scale noise) . z - c . y`` with Gumbel noise, for every space (Berthet et al.
      2020). An estimate from `n_samples` draws, which may be negative.

    The gradient is the regularised argmax (marginals, SparseMAP, the mean of perturbed labels) less y.

    Parameters
    ----------
    model : Model
    regularizer : {"entropy", "sparsemap", "perturbed"}
    reduction : {"mean", "sum", "none"}
    n_jobs : int
    blocks : sequence of str, optional
        As of `SparseMAP`.
    tol : float
        As of `SparseMAP`.
    scale : float
        Size of the noise.
    n_samples : int
        Draws of the noise.
    antithetic : bool
        Draw noise in pairs from u and 1 - u, u uniform: estimates vary less.
    random_state : int or None
        Seed of the noise; `manual_seed` sets it again.

    Examples
    --------
    >>> import torch
    >>> import structopt as so
    >>> from structopt.torch import FenchelYoung
    >>> crf = FenchelYoung(so.structures.Chain(2), "entropy")
    >>> crf(torch.zeros(1, 3, 2), [[0, 1, 1]]).exp()                # one of eight labels
    tensor(8.)
    """

    @checked
    def __init__(
        self,
        model: Model,
        regularizer: Literal["entropy", "sparsemap", "perturbed"] = "entropy",
        reduction: Reduction = "mean",
        n_jobs: int = 1,
        *,
        blocks: Any = None,
        tol: float = 1e-8,
        scale: float = 1.0,
        n_samples: int = 10,
        antithetic: bool = True,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(model, reduction, n_jobs)
        self.regularizer = choice("regularizer", regularizer, ("entropy", "sparsemap", "perturbed"))
        self.scale = number("scale", scale, above=0.0)
        self.n_samples = whole("n_samples", n_samples, low=1)
        if antithetic and self.n_samples % 2:
            raise DeclarationError(f"Antithetic draws come in pairs: n_samples must be even, got {n_samples}.")
        self.antithetic = antithetic
        self.mixtures = SparseMixtures(blocks, number("tol", tol, above=0.0), 1000, n_jobs)
        self.manual_seed(random_state)

    def manual_seed(self, random_state: int | None) -> None:
        """Start the noise again.

        Parameters
        ----------
        random_state : int or None
        """
        self._rng = np.random.default_rng(random_state)

    def forward(self, scores: Any, labels: Any, mask: Any = None, inputs: Any = None, keys: Any = None) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores, labels, mask, inputs
            As of `StructuredHinge`.
        keys : sequence of hashable, optional
            As of `SparseMAP`; only used by ``"sparsemap"``.

        Returns
        -------
        Tensor
            A number, or a number for each example with ``reduction="none"``.
        """
        if self.regularizer == "entropy":
            values, arranged = self._entropy(scores, labels, mask, inputs)
            return self._reduced(arranged.back(values))
        arranged = self.layout.arrange(scores, mask, inputs, points=True)
        keys = checked_keys(keys, arranged.n)
        groups = arranged.groups()
        truth = encoded(arranged, groups, self.layout.labels(labels, arranged))
        found = []
        for group, Z in zip(groups, truth, strict=True):
            found.append(_FenchelYoung.apply(self, arranged, group, Z, keys, group.costs))
        return self._reduced(arranged.back(in_order(groups, found)))

    def _entropy(self, scores: Any, labels: Any, mask: Any, inputs: Any) -> tuple[Tensor, Arrangement]:
        log_z, arranged = partition_of(self.layout, scores, mask, inputs)
        Y = self.layout.labels(labels, arranged)
        if arranged.native:
            own = _Dot.apply(arranged, arranged.batch.truth(Y), *arranged.sources)
        else:
            groups = arranged.groups()
            truth = encoded(arranged, groups, Y)
            own = in_order(groups, [(group.costs * Z).sum(dim=1) for group, Z in zip(groups, truth, strict=True)])
        return log_z - own, arranged

    def _conjugate(
        self, arranged: Arrangement, group: Group, keys: Sequence[Hashable] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Ω* of every example of a group, and its gradient."""
        if self.regularizer == "sparsemap":
            found = self.mixtures.solve(arranged, group, keys)
            points = np.zeros(group.costs.shape)
            points[:, np.flatnonzero(arranged.chosen(group))] = found.points
            return found.values, points
        C = group.costs.detach().numpy()
        shape = (self.n_samples // 2 if self.antithetic else self.n_samples, *C.shape)
        uniform = self._rng.uniform(1e-12, 1.0 - 1e-12, size=shape)
        if self.antithetic:
            uniform = np.concatenate([uniform, 1.0 - uniform])
        noise = -np.log(-np.log(uniform)) - np.euler_gamma  # of mean 0
        noise = np.where(arranged.chosen(group), self.scale * noise, 0.0)
        perturbed = (C + noise).reshape(-1, C.shape[1])
        Z, _ = best(arranged, group, perturbed, self.n_jobs, np.tile(group.examples, self.n_samples))
        values = np.einsum("ij,ij->i", perturbed, Z).reshape(self.n_samples, -1).mean(axis=0)
        return values, Z.reshape(self.n_samples, *C.shape).mean(axis=0)

    def _omega(self, arranged: Arrangement, group: Group, Z: FloatArray) -> FloatArray:
        """Ω of the ground truths; of the perturbed maximum it is not known, and left out."""
        if self.regularizer == "perturbed":
            return np.zeros(len(Z))
        norm = arranged.chosen(group, self.mixtures.blocks)
        return np.asarray(0.5 * np.square(Z[:, norm]).sum(axis=1))


class _FenchelYoung(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        loss: FenchelYoung,
        arranged: Arrangement,
        group: Group,
        truth: Tensor,
        keys: Sequence[Hashable] | None,
        costs: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(costs)
        C, Z = costs.detach().numpy(), truth.numpy()
        values, means = loss._conjugate(arranged, group._replace(costs=costs), keys)
        ctx.difference = means - np.where(arranged.chosen(group), Z, 0.0)
        return torch.from_numpy(values + loss._omega(arranged, group, Z) - np.einsum("ij,ij->i", C, Z))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        found = upstream[0][:, None] * torch.from_numpy(ctx.difference)
        return (
            None,
            None,
            None,
            None,
            None,
            *differentiable_once("FenchelYoung", [found], *ctx.saved_tensors, *upstream),
        )


class _Dot(torch.autograd.Function):
    """The scores of labels in compact form."""

    @staticmethod
    def forward(ctx: Any, arranged: Arrangement, labels: Any, *scores: Tensor) -> Tensor:
        ctx.save_for_backward(*scores)
        tables, shared = arranged.arrays()
        ctx.parts = (arranged, labels, shared)
        return torch.from_numpy(arranged.batch.dot(tables, labels))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        arranged, labels, shared = ctx.parts
        weights = upstream[0].detach().numpy()
        found = arranged.gradients([part_sums(arranged.batch, labels, weights, t, one) for t, one in enumerate(shared)])
        return None, None, *differentiable_once("FenchelYoung", found, *ctx.saved_tensors, *upstream)

"""Layers whose outputs are points of the hull of the labels: the best label, the mean label; and lists of labels."""

from __future__ import annotations

from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from structopt.checks import checked, choice, number, whole
from structopt.model import Model
from structopt.torch.inference import best
from structopt.torch.layouts import Layout, layout_of
from structopt.torch.module import StructuredModule, differentiable_once, naming
from structopt.torch.scores import Arrangement, Group

__all__ = ["Argmax", "Marginals", "log_partition", "sample", "top_k"]


class Argmax(StructuredModule):
    """The best label, as a point in the shape of the scores.

    Its derivative is 0 almost everywhere. What stands in its place is not a derivative, and is named:

    - ``"straight-through"``: the gradient of the output is handed on to the scores as it is;
    - ``"blackbox"``: ``(z(c) - z(c - step * gradient)) / step``, the difference to the best label of scores that are
      moved against the gradient (Vlastelica et al. 2020), one more inference.

    Parameters
    ----------
    model : Model
    gradient : {"straight-through", "blackbox"}
    step : float
        Of ``"blackbox"``.
    n_jobs : int

    Examples
    --------
    >>> import torch
    >>> import structopt as so
    >>> from structopt.torch import Argmax
    >>> Argmax(so.structures.Chain(2))(torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]))
    tensor([[[1., 0.],
             [0., 1.]]])
    """

    @checked
    def __init__(
        self,
        model: Model,
        gradient: Literal["straight-through", "blackbox"] = "straight-through",
        step: float = 1.0,
        n_jobs: int = 1,
    ) -> None:
        super().__init__(model, n_jobs)
        self.gradient = choice("gradient", gradient, ("straight-through", "blackbox"))
        self.step = number("step", step, above=0.0)

    def forward(self, scores: Any, mask: Any = None, inputs: Any = None) -> Any:
        """The best labels.

        Parameters
        ----------
        scores, mask, inputs
            As of `StructuredHinge`.

        Returns
        -------
        Tensor, tuple or dict
            As the scores are; scores that all examples share come back for each.
        """
        arranged = self.layout.arrange(scores, mask, inputs, points=True)
        groups = arranged.groups()
        return arranged.points(groups, [_Argmax.apply(self, arranged, group, group.costs) for group in groups])


class _Argmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: Argmax, arranged: Arrangement, group: Group, costs: Tensor) -> Tensor:
        C = costs.detach().numpy()
        Z, _ = best(arranged, group, C, layer.n_jobs)
        ctx.save_for_backward(costs)  # and an error where it is changed in place before the backward pass
        ctx.parts = (layer, arranged, group, Z)
        return torch.from_numpy(Z.copy())  # the caller may change it

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        layer, arranged, group, Z = ctx.parts
        (costs,) = ctx.saved_tensors
        C = costs.detach().numpy()
        if layer.gradient == "straight-through":
            found = upstream[0].clone()
        else:
            moved, _ = best(arranged, group, C - layer.step * upstream[0].detach().numpy(), layer.n_jobs)
            found = torch.from_numpy((Z - moved) / layer.step)
        return None, None, None, *differentiable_once("Argmax", [found], costs, *upstream)


class Marginals(StructuredModule):
    """The mean label under a distribution that grows with the score, in the shape of the scores.

    The distribution is ``p(z) ~ exp(c . z / temperature)``, for chains, spanning trees, compiled spaces, and spaces
    whose labels can be listed. The derivative is the covariance of the labels: by a formula for chains, trees that may
    cross and lists of labels; for compiled spaces and projective trees its product with a vector is a difference
    quotient of fourth order of the marginals along this vector, right to about ten digits.

    Parameters
    ----------
    model : Model
    temperature : float
    n_jobs : int

    Examples
    --------
    >>> import torch
    >>> import structopt as so
    >>> from structopt.torch import Marginals
    >>> Marginals(so.structures.Chain(2))(torch.tensor([[[0.0, 0.0], [0.0, 1.0986123]]]))
    tensor([[[0.5000, 0.5000],
             [0.2500, 0.7500]]])
    """

    @checked
    def __init__(self, model: Model, temperature: float = 1.0, n_jobs: int = 1) -> None:
        super().__init__(model, n_jobs)
        self.temperature = number("temperature", temperature, above=0.0)

    def forward(self, scores: Any, mask: Any = None, inputs: Any = None) -> Any:
        """The marginals.

        Parameters
        ----------
        scores, mask, inputs
            As of `StructuredHinge`.

        Returns
        -------
        Tensor, tuple or dict
            As the scores are; scores that all examples share come back for each.
        """
        arranged = self.layout.arrange(scores, mask, inputs, points=True)
        groups = arranged.groups()
        means = [_Marginals.apply(self.layout, arranged, group, group.costs / self.temperature) for group in groups]
        return arranged.points(groups, means)


class _Marginals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: Layout, arranged: Arrangement, group: Group, costs: Tensor) -> Tensor:
        C = costs.detach().numpy()
        ctx.save_for_backward(costs)
        ctx.parts = (layout, arranged, group)
        return torch.from_numpy(layout.sums(arranged, group, C)[1])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        layout, arranged, group = ctx.parts
        (costs,) = ctx.saved_tensors
        C = costs.detach().numpy()
        V = np.where(arranged.chosen(group), upstream[0].detach().numpy(), 0.0)
        found = torch.from_numpy(layout.covariance_products(arranged, group, C, V))
        return None, None, None, *differentiable_once("Marginals", [found], costs, *upstream)


class LogPartition(torch.autograd.Function):
    """Log-partition functions of a group, whose gradient are the marginals."""

    @staticmethod
    def forward(ctx: Any, layout: Layout, arranged: Arrangement, group: Group, costs: Tensor) -> Tensor:
        ctx.save_for_backward(costs)
        log_z, ctx.means = layout.sums(arranged, group, costs.detach().numpy())
        return torch.from_numpy(log_z)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        found = upstream[0][:, None] * torch.from_numpy(ctx.means)
        return None, None, None, *differentiable_once("log_partition", [found], *ctx.saved_tensors, *upstream)


class TablePartition(torch.autograd.Function):
    """The same from tables, where a structure has a faster way; a table of one row is that of all examples."""

    @staticmethod
    def forward(ctx: Any, layout: Layout, arranged: Arrangement, *scores: Tensor) -> Tensor:
        ctx.save_for_backward(*scores)
        tables, shared = arranged.arrays()
        found = layout.table_sums(arranged, tables)
        assert found is not None
        log_z, means = found
        ctx.parts = (arranged, means, shared)
        return torch.from_numpy(log_z)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        arranged, means, shared = ctx.parts
        weights = upstream[0].detach().numpy()
        found = []
        for table, start, one in zip(means, arranged.batch.starts, shared, strict=True):
            found.append(weights @ table if one else np.repeat(weights, np.diff(start))[:, None] * table)
        gradients = arranged.gradients(found)
        return None, None, *differentiable_once("log_partition", gradients, *ctx.saved_tensors, *upstream)


def partition_of(layout: Layout, scores: Any, mask: Any, inputs: Any) -> tuple[Tensor, Arrangement]:
    """Log-partition functions of the (centred) scores of all examples, float64, the fastest way of the structure."""
    arranged = layout.arrange(scores, mask, inputs)
    if type(layout).table_sums is not Layout.table_sums and arranged.native:
        return TablePartition.apply(layout, arranged, *arranged.sources), arranged
    if arranged.native:
        arranged = layout.arrange(scores, mask, inputs, points=True)
    groups = arranged.groups()
    values = [LogPartition.apply(layout, arranged, group, group.costs) for group in groups]
    return in_order(groups, values), arranged


def in_order(groups: list[Group], values: list[Tensor]) -> Tensor:
    """Numbers of the examples of all groups, in the order of the batch."""
    if len(groups) == 1:
        return values[0]
    order = np.concatenate([group.examples for group in groups])
    return torch.cat(values)[torch.from_numpy(np.argsort(order))]


#: Layouts of the models given to functions, which keep their oracles; and layouts of integral twins.
_LAYOUTS: WeakKeyDictionary[Model, Layout] = WeakKeyDictionary()
_LABEL_LAYOUTS: WeakKeyDictionary[Model, Layout] = WeakKeyDictionary()


def _kept_layout(model: Model, *, labels: bool = False) -> Layout:
    """Return the layout of a model, or if `labels` that of its integral twin."""
    relaxed = labels and model.integral == "relax"
    kept = _LABEL_LAYOUTS if relaxed else _LAYOUTS
    found = kept.get(model)
    if found is None:
        found = kept[model] = layout_of(model._integral_twin() if relaxed else model)
    return found


@checked
def log_partition(model: Model, scores: Any, mask: Any = None, inputs: Any = None) -> Tensor:
    """The log-partition function of every example, whose gradient are the marginals.

    That is ``log sum_z exp(c . z)`` over all labels.

    Parameters
    ----------
    model : Model
    scores, mask, inputs
        As of `StructuredHinge`.

    Returns
    -------
    Tensor of shape (B,)

    Examples
    --------
    >>> import torch
    >>> import structopt as so
    >>> so.torch.log_partition(so.structures.Arborescence(), torch.zeros(1, 3, 3)).exp()      # three trees
    tensor([3.])
    """
    values, arranged = partition_of(_kept_layout(model), scores, mask, inputs)
    return arranged.back(arranged.uncentred(values))


@checked
def top_k(
    model: Model, scores: Any, k: int, mask: Any = None, inputs: Any = None
) -> tuple[list[list[Any]], list[Tensor]]:
    """Return the `k` best labels of every example and their scores, which can be differentiated.

    Labels are integral, also if the model is trained over a relaxation.

    Parameters
    ----------
    model : Model
    scores, mask, inputs
        As of `StructuredHinge`.
    k : int
        How many; fewer come back where the space has fewer.

    Returns
    -------
    labels : list of list
        For every example its labels in the model's form, the best first.
    values : list of Tensor
        Their scores.

    Examples
    --------
    >>> import torch
    >>> import structopt as so
    >>> labels, values = so.torch.top_k(so.structures.Chain(2), torch.tensor([[[1.0, 0.0], [0.0, 3.0]]]), 2)
    >>> [label.tolist() for label in labels[0]], values[0]
    ([[0, 1], [1, 1]], tensor([4., 3.]))
    """
    whole("k", k, low=1)
    arranged = _kept_layout(model, labels=True).arrange(scores, mask, inputs, points=True)
    labels: list[list[Any]] = [[] for _ in range(arranged.n)]
    values: list[Tensor] = [torch.empty(0)] * arranged.n
    for group in arranged.groups():
        oracle = arranged.oracle(group)
        for i, c in zip(group.examples.tolist(), group.costs, strict=True):
            with naming(i):
                found = oracle.k_best(c.detach().numpy(), k)
            points = np.array([label.z for label in found])
            labels[i] = arranged.model._decode_all(points, arranged.batch.input(i))
            values[i] = arranged.back(arranged.uncentred(torch.from_numpy(points) @ c, i))
    return labels, values


@checked
def sample(
    model: Model, scores: Any, n: int = 1, mask: Any = None, inputs: Any = None, *, random_state: Any = None
) -> list[list[Any]]:
    """Labels drawn at random, `n` for every example.

    Their distribution is ``p(z) ~ exp(c . z)``.

    Parameters
    ----------
    model : Model
    scores, mask, inputs
        As of `StructuredHinge`.
    n : int
        How many labels of each example.
    random_state : int, Generator or None
        As of `numpy.random.default_rng`.

    Returns
    -------
    list of list
        For every example its labels in the model's form.

    Examples
    --------
    >>> import torch
    >>> import structopt as so
    >>> unary = torch.tensor([[[0.0, 50.0], [50.0, 0.0]]])
    >>> [label.tolist() for label in so.torch.sample(so.structures.Chain(2), unary, 2, random_state=0)[0]]
    [[1, 0], [1, 0]]
    """
    whole("n", n, low=0)
    layout, rng = _kept_layout(model), np.random.default_rng(random_state)
    arranged = layout.arrange(scores, mask, inputs, points=True)
    labels: list[list[Any]] = [[] for _ in range(arranged.n)]
    for group in arranged.groups():
        for i, c in zip(group.examples.tolist(), group.costs.detach().numpy(), strict=True):
            with naming(i):
                points = layout.sample(arranged, group, np.ascontiguousarray(c), n, rng)
            labels[i] = arranged.model._decode_all(points, arranged.batch.input(i))
    return labels

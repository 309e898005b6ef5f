"""What all losses and layers have in common: the layout of the scores, errors that name an example, reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn

from structopt.checks import choice, whole
from structopt.errors import DeclarationError, SolverFailed, StructoptError
from structopt.model import Model
from structopt.torch.layouts import layout_of

__all__ = [
    "DoubleBackward",
    "Reduction",
    "StructuredLoss",
    "StructuredModule",
    "differentiable_once",
    "keeps_grad_mode",
    "naming",
]

Reduction = Literal["mean", "sum", "none"]
_F = TypeVar("_F", bound=Callable[..., Any])


class DoubleBackward(StructoptError, RuntimeError):
    """A second derivative was requested of a loss or a layer that has only a first one."""


class StructuredModule(nn.Module):
    """A module over the labels of a model.

    Parameters
    ----------
    model : Model
        From `structopt.structures`, or your own; its features are not used, scores come from the network.
    n_jobs : int
        Threads over examples, where the algorithm runs without the GIL; -1 means one per core.
    """

    def __init__(self, model: Model, n_jobs: int = 1) -> None:
        super().__init__()
        if whole("n_jobs", n_jobs) < -1 or n_jobs == 0:
            raise DeclarationError(f"n_jobs must be -1 or at least 1, got {n_jobs}.")
        self.layout = layout_of(model)
        self.n_jobs = n_jobs

    @property
    def model(self) -> Model:
        """The model whose labels these are."""
        return self.layout.model

    def extra_repr(self) -> str:
        """What `repr` shows besides the name."""
        return repr(self.model)

    # A compiled network calls these modules as they are: what is inside is not PyTorch's to compile.
    @torch.compiler.disable
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return super().__call__(*arguments, **options)


def keeps_grad_mode(function: _F) -> _F:
    """Restore PyTorch's gradient mode after a call, however it ends.

    Ctrl-C inside ``torch.no_grad().__enter__`` would otherwise leave gradients disabled.
    """

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        before = torch.is_grad_enabled()
        try:
            return function(*arguments, **options)
        finally:
            torch.set_grad_enabled(before)

    return cast(_F, call)


class StructuredLoss(StructuredModule):
    """A loss of scores and ground truths, one number for each example.

    Parameters
    ----------
    model, n_jobs
        As of `StructuredModule`.
    reduction : {"mean", "sum", "none"}
    """

    def __init__(self, model: Model, reduction: Reduction = "mean", n_jobs: int = 1) -> None:
        super().__init__(model, n_jobs)
        self.reduction: Reduction = choice("reduction", reduction, ("mean", "sum", "none"))

    def _reduced(self, values: Tensor) -> Tensor:
        if self.reduction == "mean":
            return values.mean()
        return values.sum() if self.reduction == "sum" else values


@contextmanager
def naming(example: int) -> Iterator[None]:
    """Errors in this block are those of one example, and say so."""
    try:
        yield
    except SolverFailed as error:
        raise type(error)(f"example {example}: {error}", error.status, error.partial) from error
    except StructoptError as error:
        raise type(error)(f"example {example}: {error}") from error


class _FirstOnly(torch.autograd.Function):
    """A gradient that has no gradient of its own."""

    @staticmethod
    def forward(ctx: Any, name: str, gradient: Tensor, *anchors: Tensor) -> Tensor:
        ctx.name = name
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise DoubleBackward(
            f"{ctx.name} has a first derivative only: it is piecewise, and its pieces change where labels do. Leave "
            "out create_graph=True, or the penalty that differentiates a gradient."
        )


def differentiable_once(name: str, gradients: Sequence[Tensor | None], *depends: Tensor) -> Sequence[Tensor | None]:
    """Gradients, which refuse by name to be differentiated again, where that might happen (``create_graph=True``).

    They depend on the scores and on the gradient that came in, `depends`: by these, `torch.autograd.grad` finds the way
    to the refusal. Without them it would leave out a term and say nothing.
    """
    if not torch.is_grad_enabled():
        return gradients
    anchor = torch.zeros((), requires_grad=True)  # something to differentiate by, so that the refusal is reached
    return [None if gradient is None else _FirstOnly.apply(name, gradient, anchor, *depends) for gradient in gradients]

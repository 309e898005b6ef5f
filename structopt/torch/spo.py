"""`SPOPlus`: the loss of a decision that is made from predicted costs (Elmachtoub and Grigas 2022)."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from structopt.checks import checked, choice
from structopt.errors import DeclarationError
from structopt.model import Model
from structopt.space.compiled import VALUE_TOLERANCE, FloatArray
from structopt.torch.inference import best
from structopt.torch.layers import in_order
from structopt.torch.module import Reduction, StructuredLoss, differentiable_once, keeps_grad_mode
from structopt.torch.scores import Arrangement, Group

__all__ = ["SPOPlus"]

#: Limit of the cache of true decisions, and the size of an entry in addition to its array.
_MAX_CACHED_BYTES = 2**28
_ENTRY_BYTES = 256


class SPOPlus(StructuredLoss):
    """The SPO+ loss: a convex bound on the regret of deciding by predicted costs.

    With costs c, predicted costs p and ``z(c)`` a decision of least cost,

        SPO+(p, c) = max_z (c - 2 p) . z + 2 p . z(c) - c . z(c)  >=  c . z(p) - c . z(c),

    the regret, for one of the decisions that p makes best; its gradient in p is ``2 (z(c) - z(2 p - c))``.

    Parameters
    ----------
    model : Model
        Model whose labels are the decisions.
    reduction : {"mean", "sum", "none"}
    n_jobs : int
    sense : {"minimize", "maximize"}
        Whether decisions are to have small costs or large values.

    Notes
    -----
    The decisions ``z(c)`` are cached by the true costs, up to 256 MB, so each example's true problem is solved once and
    not in every epoch.

    Examples
    --------
    >>> import torch
    >>> import structopt as so
    >>> from structopt.torch import SPOPlus
    >>> spo = SPOPlus(so.structures.Multiclass(3))                  # choose the cheapest of three
    >>> costs = torch.tensor([[1.0, 2.0, 3.0]])
    >>> spo(costs, costs), spo(torch.tensor([[2.0, 1.0, 3.0]]), costs)
    (tensor(0.), tensor(3.))
    >>> spo.regret(torch.tensor([[2.0, 1.0, 3.0]]), costs)
    tensor([1.])
    """

    @checked
    def __init__(
        self,
        model: Model,
        reduction: Reduction = "mean",
        n_jobs: int = 1,
        sense: Literal["minimize", "maximize"] = "minimize",
    ) -> None:
        super().__init__(model, reduction, n_jobs)
        self.sense = choice("sense", sense, ("minimize", "maximize"))
        self._decisions: dict[bytes, np.ndarray] = {}
        self._cached_bytes = 0

    @property
    def _sign(self) -> float:
        return -1.0 if self.sense == "minimize" else 1.0

    def forward(self, predicted: Any, costs: Any, mask: Any = None, inputs: Any = None) -> Tensor:
        """The loss of predicted costs.

        Parameters
        ----------
        predicted : Tensor, tuple or dict of them
            Predicted costs, in the shape of the scores of `StructuredHinge`.
        costs : Tensor, tuple or dict of them
            The costs that came true, in the same shape.
        mask, inputs
            As of `StructuredHinge`.

        Returns
        -------
        Tensor
            A number, or a number for each example with ``reduction="none"``.
        """
        arranged, pairs = self._paired(predicted, costs, mask, inputs)
        groups = [group for group, _ in pairs]
        found = [_SPOPlus.apply(self, arranged, group, own, group.costs) for group, own in pairs]
        return self._reduced(arranged.back(in_order(groups, found)))

    @keeps_grad_mode
    def regret(self, predicted: Any, costs: Any, mask: Any = None, inputs: Any = None) -> Tensor:
        """``c . z(p) - c . z(c)``: what deciding by the predicted costs costs, for every example.

        Parameters
        ----------
        predicted, costs, mask, inputs
            As of `forward`.

        Returns
        -------
        Tensor of shape (B,)
        """
        with torch.no_grad():
            arranged, pairs = self._paired(predicted, costs, mask, inputs)
            found = []
            for group, own in pairs:
                by_costs = self._decided(arranged, group, self._sign * own)
                by_prediction, _ = best(arranged, group, self._sign * group.costs.numpy(), self.n_jobs)
                found.append(torch.from_numpy(self._sign * np.einsum("ij,ij->i", own, by_costs - by_prediction)))
        return arranged.back(in_order([group for group, _ in pairs], found))

    def _decided(self, arranged: Arrangement, group: Group, v: FloatArray) -> FloatArray:
        """Return the best decisions for the true values `v`; each row is solved once and then cached."""
        space = arranged.oracle(group).space.fingerprint.encode()
        keys = [hashlib.blake2b(row.tobytes(), key=space[:64], digest_size=32).digest() for row in v]
        cached = [self._decisions.get(key) for key in keys]
        missing = np.array([k for k, z in enumerate(cached) if z is None], dtype=np.intp)
        Z = np.empty(v.shape)
        for k, z in enumerate(cached):
            if z is not None:
                Z[k] = z
        if missing.size:
            Z[missing], bounds = best(arranged, group, v[missing], self.n_jobs, group.examples[missing])
            values = np.einsum("ij,ij->i", v[missing], Z[missing])
            # A solver that stopped early may find a better decision in a later call.
            proved = bounds - values <= VALUE_TOLERANCE * np.maximum(1.0, np.abs(bounds))
            for k in missing[proved].tolist():
                self._keep(keys[k], Z[k])
        return Z

    def _keep(self, key: bytes, z: FloatArray) -> None:
        """Cache a decision, in one byte per variable if possible, and drop the oldest ones above the limit."""
        if key in self._decisions:
            return  # two examples of the batch have the same costs
        with np.errstate(invalid="ignore"):
            small = z.astype(np.int8)
        self._decisions[key] = stored = small if np.array_equal(small, z) else z.copy()
        self._cached_bytes += stored.nbytes + _ENTRY_BYTES
        while self._cached_bytes > _MAX_CACHED_BYTES:
            self._cached_bytes -= self._decisions.pop(next(iter(self._decisions))).nbytes + _ENTRY_BYTES

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decisions": {}, "_cached_bytes": 0}

    def _paired(
        self, predicted: Any, costs: Any, mask: Any, inputs: Any
    ) -> tuple[Arrangement, list[tuple[Group, FloatArray]]]:
        arranged = self.layout.arrange(predicted, mask, inputs, points=True)
        try:
            true = self.layout.arrange(costs, mask, inputs, points=True)
            own = [group.costs.detach().numpy() for group in true.groups()]
        except DeclarationError as error:
            raise DeclarationError(f"The costs: {error}") from None
        if _shapes(true) != _shapes(arranged):
            raise DeclarationError("Predicted costs and costs must have the same shapes.")
        return arranged, list(zip(arranged.groups(), own, strict=True))


def _shapes(arranged: Arrangement) -> list[Any]:
    return [(part.name, tuple(part.shape), part.entries.tolist()) for part in arranged.parts]


class _SPOPlus(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: SPOPlus, arranged: Arrangement, group: Group, own: FloatArray, costs: Tensor) -> Tensor:
        # As a maximisation: values v = -c, predicted values q = -p; max_z (2 q - v) . z - 2 q . z(v) + v . z(v).
        v, q = loss._sign * own, loss._sign * costs.detach().numpy()
        ctx.save_for_backward(costs)
        by_costs = loss._decided(arranged, group, v)
        by_both, _ = best(arranged, group, 2.0 * q - v, loss.n_jobs)
        values = np.einsum("ij,ij->i", 2.0 * q - v, by_both - by_costs)
        ctx.slope = 2.0 * loss._sign * (by_both - by_costs)
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        found = upstream[0][:, None] * torch.from_numpy(ctx.slope)
        return None, None, None, None, *differentiable_once("SPOPlus", [found], *ctx.saved_tensors, *upstream)

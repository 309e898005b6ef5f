"""`StructuredHinge`: the surrogates of this package as a loss of scores from a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structopt import surrogates
from structopt._jit import kernel
from structopt.checks import checked
from structopt.errors import SolverFailed
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch
from structopt.risks.structured import StructuredRisk, Violations
from structopt.space.compiled import FloatArray
from structopt.surrogates import Surrogate
from structopt.torch.module import Reduction, StructuredLoss, differentiable_once, naming
from structopt.torch.scores import Arrangement

__all__ = ["StructuredHinge"]


class StructuredHinge(StructuredLoss):
    """``max_y psi(m(y), L(y, y_i))`` of every example, where the margin m is a difference of scores from a network.

    The most violated label is found by the search of `structopt.train.StructuredRisk`, whose value this is; the
    gradient is that of ψ at this label, or at the mixture of two that a search of the hull finds.

    Parameters
    ----------
    model : Model
        From `structopt.structures`, or your own; its features are not used.
    surrogate : str or Surrogate
        ``"margin"``, ``"slack"``, or any other of `structopt.surrogates`.
    search : str
        As of `structopt.train.StructuredRisk`.
    reduction : {"mean", "sum", "none"}
    n_jobs : int
        Threads over examples; -1 means one per core.
    rtol : float
        Relative gap at which a search may stop.

    Attributes
    ----------
    upper_bound : ndarray of shape (B,)
        What no label of the last batch exceeds: the certificate of its values.

    Examples
    --------
    Two sequences of two states, the second with one position:

    >>> import torch
    >>> import structopt as so
    >>> from structopt.torch import StructuredHinge
    >>> hinge = StructuredHinge(so.structures.Chain(2))
    >>> unary = torch.zeros(2, 3, 2, requires_grad=True)
    >>> mask = torch.tensor([[True, True, True], [True, False, False]])
    >>> loss = hinge(unary, [[0, 1, 1], [0]], mask=mask)
    >>> loss.item()
    2.0
    >>> loss.backward()
    >>> unary.grad[1]
    tensor([[-0.5000,  0.5000],
            [ 0.0000,  0.0000],
            [ 0.0000,  0.0000]])
    """

    @checked
    def __init__(
        self,
        model: Model,
        surrogate: str | Surrogate = "margin",
        search: str = "auto",
        reduction: Reduction = "mean",
        n_jobs: int = 1,
        rtol: float = 1e-3,
    ) -> None:
        super().__init__(model, reduction, n_jobs)
        self.surrogate = surrogate
        self.search = search
        self.rtol = rtol
        self.upper_bound: FloatArray = np.empty(0)
        self._known: tuple[str | Surrogate, Surrogate] | None = None

    def forward(self, scores: Any, labels: Any, mask: Any = None, inputs: Any = None) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores : Tensor, tuple or dict of them
            As the how-to page *Neural scores* lists them by structure.
        labels : sequence or Tensor
            The ground truths, in the model's form, or a padded tensor of integers.
        mask : Tensor of bool, optional
            True for what is no padding.
        inputs : sequence, optional
            The model's inputs, where its label space depends on them and not only on the shapes.

        Returns
        -------
        Tensor
            A number, or a number for each example with ``reduction="none"``.
        """
        arranged = self.layout.arrange(scores, mask, inputs)
        Y = self.layout.labels(labels, arranged)
        if self._known is None or self._known[0] is not self.surrogate:
            self._known = self.surrogate, surrogates.get(self.surrogate)
        risk = StructuredRisk.of_batch(arranged.batch, Y, self._known[1], self.search, self.n_jobs, self.rtol)
        found: Tensor = _Hinge.apply(self, risk, arranged, *arranged.sources)
        return found

    def _violations(self, risk: StructuredRisk, tables: Sequence[FloatArray]) -> Violations:
        """The most violated labels; where a solver fails, the error says at which example."""
        try:
            found = risk._most_violated(tables)  # their numbers are known to be finite
        except SolverFailed:
            for i in range(len(risk)):
                with naming(i):
                    risk.batch.argmax(tables, risk.loss, examples=np.array([i]))
            raise
        self.upper_bound = found.upper
        return found


class _Hinge(torch.autograd.Function):
    """Values of the surrogate from scores, differentiated through the scores of the labels found."""

    @staticmethod
    def forward(
        ctx: Any, loss: StructuredHinge, risk: StructuredRisk, arranged: Arrangement, *scores: Tensor
    ) -> Tensor:
        ctx.save_for_backward(*scores)  # and an error where they are changed in place before the backward pass
        tables, shared = arranged.arrays()
        found = loss._violations(risk, tables)
        ctx.name = type(loss).__name__
        ctx.parts = (arranged, found, risk.truth, shared)
        # Every further node of the graph takes as long as a small search: the mean is taken here.
        value, ctx.factor = found.value, 1.0
        if loss.reduction != "none":
            ctx.factor = 1.0 if loss.reduction == "sum" else 1.0 / len(value)
            value = np.asarray(ctx.factor * value.sum())
        return arranged.back(torch.from_numpy(value))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        arranged, found, truth, shared = ctx.parts
        weights = (ctx.factor * upstream[0].detach().cpu().numpy()) * found.scale
        terms = [(found.labels, weights), (truth, -weights)]
        needed = ctx.needs_input_grad[3:]
        tables = [part_sums(arranged.batch, terms, t, shared[t]) if wanted else None for t, wanted in enumerate(needed)]
        gradients = arranged.gradients(tables)
        return None, None, None, *differentiable_once(ctx.name, gradients, *ctx.saved_tensors, *upstream)


def part_sums(batch: Batch, terms: Sequence[tuple[LabelBatch, FloatArray]], t: int, shared: bool) -> FloatArray:
    """The parts of labels times ``weights_i``, summed over the terms ``(labels, weights)``, as a table.

    Parameters
    ----------
    batch : Batch
    terms : sequence of (LabelBatch, ndarray of shape (n,))
    t : int
        Number of the table.
    shared : bool
        Whether the table has one row for all examples.

    Returns
    -------
    ndarray
    """
    out = np.zeros((1 if shared else int(batch.starts[t][-1]), batch.columns[t]))
    for labels, weights in terms:
        if labels.native is None or not batch.codec.add_parts(t, labels.native, weights, out):
            table, start = labels.tables[t], batch.starts[t]
            _add_table(table.indptr, table.indices, table.data, start, weights, 0 if shared else 1, out)
    return out


@kernel
def _add_table(indptr: Any, indices: Any, data: Any, start: Any, weights: Any, step: int, out: Any) -> None:
    """Add ``weights_i`` times the part table of every example to `out`, row r to row ``step * r``."""
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        for r in range(start[i], start[i + 1]):
            for q in range(indptr[r], indptr[r + 1]):
                out[step * r, indices[q]] += weights[i] * data[q]

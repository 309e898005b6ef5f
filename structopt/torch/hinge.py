"""`StructuredHinge`: the surrogates of this package as a loss of scores from a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structopt._jit import kernel
from structopt.checks import checked
from structopt.errors import SolverFailed
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch
from structopt.risks.structured import StructuredRisk, Violations
from structopt.space.compiled import FloatArray
from structopt.surrogates import Surrogate
from structopt.torch.module import Reduction, StructuredLoss, differentiable_once, naming
from structopt.torch.scores import ShownTables

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
        risk = StructuredRisk.of_batch(arranged.batch, Y, self.surrogate, self.search, self.n_jobs, self.rtol)
        values = _Hinge.apply(self, risk, *arranged.tables())
        return self._reduced(arranged.back(values))

    def _violations(self, risk: StructuredRisk, tables: Sequence[FloatArray]) -> Violations:
        """The most violated labels; where a solver fails, the error says at which example."""
        try:
            found = risk.violations_of(tables)
        except SolverFailed:
            for i in range(len(risk)):
                with naming(i):
                    risk.batch.argmax(tables, risk.loss, examples=np.array([i]))
            raise
        self.upper_bound = found.upper
        return found


class _Hinge(torch.autograd.Function):
    """Values of the surrogate from tables of scores, differentiated through the scores of the labels found."""

    @staticmethod
    def forward(ctx: Any, loss: StructuredHinge, risk: StructuredRisk, *tables: Tensor) -> Tensor:
        ctx.save_for_backward(*tables)
        arrays, shared = ShownTables.of(tables, risk.batch)
        found = loss._violations(risk, arrays)
        ctx.name = type(loss).__name__
        ctx.parts = (risk.batch, found, risk.truth, shared)
        return torch.from_numpy(np.ascontiguousarray(found.value))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        batch, found, truth, shared = ctx.parts
        weights = np.ascontiguousarray(upstream[0].detach().numpy() * found.scale)
        gradients = []
        for t, needed in enumerate(ctx.needs_input_grad[2:]):
            table = _difference(batch, found.labels, truth, weights, t, shared[t]) if needed else None
            gradients.append(table)
        return None, None, *differentiable_once(ctx.name, gradients, *ctx.saved_tensors, *upstream)


def _difference(
    batch: Batch, labels: LabelBatch, truth: LabelBatch, weights: FloatArray, t: int, shared: bool
) -> Tensor:
    """``weights_i`` times the parts of each label less those of the ground truth, as a table."""
    start = batch.starts[t]
    out = np.zeros((1 if shared else int(start[-1]), batch.columns[t]))
    for table, sign in ((labels.tables[t], 1.0), (truth.tables[t], -1.0)):
        add_parts(table.indptr, table.indices, table.data, start, sign * weights, 0 if shared else 1, out)
    return torch.from_numpy(out)


@kernel
def add_parts(indptr: Any, indices: Any, data: Any, start: Any, weights: Any, step: int, out: Any) -> None:
    """Add ``weights_i`` times the part table of every example to `out`, row r to row ``step * r``."""
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        for r in range(start[i], start[i + 1]):
            for q in range(indptr[r], indptr[r + 1]):
                out[step * r, indices[q]] += weights[i] * data[q]

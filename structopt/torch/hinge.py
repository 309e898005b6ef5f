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
from structopt.risks.structured import StructuredRisk, Violations, checked_options
from structopt.space.compiled import FloatArray
from structopt.surrogates import Surrogate
from structopt.torch.module import Reduction, StructuredLoss, differentiable_once, naming
from structopt.torch.scores import Arrangement, array_of

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
        self._known: tuple[str | Surrogate, str, Surrogate, str] | None = None

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
        risk = StructuredRisk._of_checked(arranged.batch, Y, *self._options(), self.n_jobs, self.rtol, keep=False)
        found: Tensor = _Hinge.apply(self, risk, arranged, *arranged.sources)
        return found

    def _options(self) -> tuple[Surrogate, str]:
        """The surrogate and the search, checked when they change."""
        given, known = (self.surrogate, self.search), self._known
        if known is None or known[0] is not given[0] or known[1] != given[1]:
            known = (*given, *checked_options(*given))
            # Not by an attribute's assignment, in which a module looks for parameters and buffers.
            self.__dict__["_known"] = known
        return known[2], known[3]

    def _violations(self, risk: StructuredRisk, tables: Sequence[FloatArray]) -> Violations:
        """The most violated labels; where a solver fails, the error says at which example."""
        try:
            found = risk._most_violated(tables)  # their numbers are known to be finite
        except SolverFailed:
            for i in range(len(risk)):
                with naming(i):
                    risk.batch.argmax(tables, risk.loss, examples=np.array([i]))
            raise
        self.__dict__["upper_bound"] = found.upper
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
        arranged.release()
        ctx.name = type(loss).__name__
        ctx.parts = (arranged, found, risk.truth, shared)
        # Every further node of the graph takes as long as a small search: the mean is taken here.
        if loss.reduction == "none":
            ctx.factor = 1.0
            # A copy: the caller may change it, and the certificate may be the same array.
            return arranged.back(torch.from_numpy(found.value.copy()))
        ctx.factor = 1.0 if loss.reduction == "sum" else 1.0 / len(found.value)
        total = ctx.factor * float(found.value.sum())
        return torch.scalar_tensor(total, dtype=arranged.dtype, device=arranged.device)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        arranged, found, truth, shared = ctx.parts
        weights = (ctx.factor * array_of(upstream[0])) * found.scale
        gradients = arranged.gradients(
            [
                part_differences(arranged.batch, found.labels, truth, weights, t, shared[t], arranged.precision)
                if wanted
                else None
                for t, wanted in enumerate(ctx.needs_input_grad[3:])
            ]
        )
        return None, None, None, *differentiable_once(ctx.name, gradients, *ctx.saved_tensors, *upstream)


def part_differences(
    batch: Batch, labels: LabelBatch, truth: LabelBatch, weights: FloatArray, t: int, shared: bool, precision: Any
) -> FloatArray:
    """The parts of labels less those of the ground truths, times ``weights_i``, as a table.

    Parameters
    ----------
    batch : Batch
    labels, truth : LabelBatch
    weights : ndarray of shape (n,)
    t : int
        Number of the table.
    shared : bool
        Whether the table has one row for all examples.
    precision : dtype
        Of a table with rows for each example, an entry of which is the sum of few numbers.

    Returns
    -------
    ndarray
    """
    out: FloatArray
    if shared:
        out = np.zeros((1, batch.columns[t]))
    else:
        out = np.zeros((len(batch.rows[t]), batch.columns[t]), dtype=precision)
    known = labels.native is not None and truth.native is not None
    if not known or not batch.codec.add_parts(t, labels.native, weights, out, truth.native):
        _add_parts(batch, labels, weights, t, shared, out)
        _add_parts(batch, truth, -weights, t, shared, out)
    return out


def part_sums(batch: Batch, labels: LabelBatch, weights: FloatArray, t: int, shared: bool) -> FloatArray:
    """The parts of labels times ``weights_i`` as a table, float64.

    Parameters
    ----------
    batch, labels, weights, t, shared
        As of `part_differences`.

    Returns
    -------
    ndarray
    """
    out = np.zeros((1 if shared else len(batch.rows[t]), batch.columns[t]))
    _add_parts(batch, labels, weights, t, shared, out)
    return out


def _add_parts(batch: Batch, labels: LabelBatch, weights: FloatArray, t: int, shared: bool, out: FloatArray) -> None:
    if labels.native is None or not batch.codec.add_parts(t, labels.native, weights, out):
        table, start = labels.tables[t], batch.starts[t]
        _add_table(table.indptr, table.indices, table.data, start, weights, 0 if shared else 1, out)


@kernel
def _add_table(indptr: Any, indices: Any, data: Any, start: Any, weights: Any, step: int, out: Any) -> None:
    """Add ``weights_i`` times the part table of every example to `out`, row r to row ``step * r``."""
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        for r in range(start[i], start[i + 1]):
            for q in range(indptr[r], indptr[r + 1]):
                out[step * r, indices[q]] += weights[i] * data[q]

"""`SparseMAP`: the point of the labels' hull of largest score less half of its squared norm, as a layer."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from structopt._jit import IntArray
from structopt.checks import checked, hashable, listed, number, sequence, whole
from structopt.errors import DeclarationError
from structopt.model import Model
from structopt.space.compiled import FloatArray
from structopt.torch.active_set import Mixture, Solved, solve
from structopt.torch.inference import best
from structopt.torch.module import StructuredModule, differentiable_once
from structopt.torch.scores import Arrangement, Group

__all__ = ["SparseMAP", "SparseMixtures"]

#: Mixtures of labels kept for warm starts.
_KEPT = 100_000


class SparseMixtures:
    """Solves the program of SparseMAP for the groups of a batch; keeps the labels of each key for the next time.

    Parameters
    ----------
    blocks : sequence of str, optional
        The blocks in the norm; all that have scores by default.
    tol : float
    max_rounds : int
    n_jobs : int
    """

    def __init__(self, blocks: Any, tol: float, max_rounds: int, n_jobs: int) -> None:
        self.blocks = None if blocks is None else [str(name) for name in sequence("blocks", blocks)]
        self.tol, self.max_rounds, self.n_jobs = tol, max_rounds, n_jobs
        self._known: OrderedDict[Hashable, tuple[Hashable, Mixture]] = OrderedDict()

    def solve(self, arranged: Arrangement, group: Group, keys: Sequence[Hashable] | None) -> Solved:
        """The mixtures of a group's examples."""
        scored = arranged.chosen(group)
        columns, C = np.flatnonzero(scored), group.costs.detach().numpy()
        whole_space = len(columns) == C.shape[1]
        norm = arranged.chosen(group, self.blocks)[columns].astype(np.float64)

        def maximize(slopes: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
            full = slopes
            if not whole_space:
                full = np.zeros((len(slopes), C.shape[1]))
                full[:, columns] = slopes
            Z, bounds = best(arranged, group, full, self.n_jobs, group.examples[rows])
            return Z if whole_space else np.ascontiguousarray(Z[:, columns]), bounds

        kind = (arranged.model.key(arranged.batch.input(int(group.examples[0]))), columns.tobytes())
        own = None if keys is None else [keys[i] for i in group.examples.tolist()]
        start = None if own is None else [self._recall(key, kind) for key in own]
        found = solve(C if whole_space else np.ascontiguousarray(C[:, columns]), norm, maximize, self.tol,
                      self.max_rounds, start)  # fmt: skip
        if own is not None:
            for i, key in enumerate(own):
                self._known[key] = (kind, found.sets.mixture(i))
                self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        wide = found.gaps > self.tol * np.maximum(1.0, np.abs(found.values))
        if found.rounds > self.max_rounds and wide.any():
            i = int(group.examples[int(np.argmax(np.where(wide, found.gaps, 0.0)))])
            warnings.warn(
                f"SparseMAP stopped after {self.max_rounds} rounds with a gap of {float(found.gaps.max()):.3g} at "
                f"example {i}; raise max_rounds= or tol=.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found

    def _recall(self, key: Hashable, kind: Hashable) -> Mixture | None:
        known = self._known.get(key)
        return known[1] if known is not None and known[0] == kind else None


class SparseMAP(StructuredModule):
    """A mixture of few labels: the point of their hull of largest score less half of its squared norm.

    That is ``argmax c . mu - 1/2 |mu|^2``, in the shape of the scores: the projection of the scores onto the hull, for
    every space that has an oracle (Niculae et al. 2018). Forward by an active set of labels until the duality gap is
    below `tol`; backward by the Gram system of that set.

    Parameters
    ----------
    model : Model
    blocks : sequence of str, optional
        Names of the blocks in the norm. All that have scores by default, so that the answer is unique; ``["y"]`` of a
        chain leaves transitions out, as the paper does.
    tol : float
        Gap at which to stop, relative to the value where that is larger than 1.
    max_rounds : int
        Batches of the oracle at most; a warning says when they did not do.
    n_jobs : int

    Attributes
    ----------
    gap : ndarray of shape (B,)
        By how much the value of each output of the last batch may be too small: its certificate.

    Examples
    --------
    Two of three classes share the weight:

    >>> import torch
    >>> import structopt as so
    >>> from structopt.torch import SparseMAP
    >>> SparseMAP(so.structures.Multiclass(3))(torch.tensor([[1.0, 0.5, -1.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])
    """

    @checked
    def __init__(
        self,
        model: Model,
        blocks: Any = None,
        tol: float = 1e-8,
        max_rounds: int = 1000,
        n_jobs: int = 1,
    ) -> None:
        super().__init__(model, n_jobs)
        self.mixtures = SparseMixtures(
            blocks, number("tol", tol, above=0.0), whole("max_rounds", max_rounds, low=1), n_jobs
        )
        self.gap: FloatArray = np.empty(0)

    def forward(self, scores: Any, mask: Any = None, inputs: Any = None, keys: Any = None) -> Any:
        """The mixtures.

        Parameters
        ----------
        scores, mask, inputs
            As of `StructuredHinge`.
        keys : sequence of hashable, optional
            A name for each example, under which its labels are kept: the next time the solve starts from them.

        Returns
        -------
        Tensor, tuple or dict
            As the scores are; scores that all examples share come back for each.
        """
        arranged = self.layout.arrange(scores, mask, inputs, points=True)
        keys = checked_keys(keys, arranged.n)
        groups, self.gap = arranged.groups(), np.zeros(arranged.n)
        found = [_SparseMAP.apply(self, arranged, group, keys, group.costs) for group in groups]
        return arranged.points(groups, found)


def checked_keys(keys: Any, n: int) -> Sequence[Hashable] | None:
    """Names of the examples of a batch, as many as there are."""
    if keys is None:
        return None
    found = keys.tolist() if isinstance(keys, Tensor) else list(listed(keys) or ())
    if len(found) != n:
        raise DeclarationError(f"{len(found)} keys for {n} examples.")
    return [hashable(f"The key of example {i}", key) for i, key in enumerate(found)]


class _SparseMAP(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, layer: SparseMAP, arranged: Arrangement, group: Group, keys: Sequence[Hashable] | None, costs: Tensor
    ) -> Tensor:
        ctx.save_for_backward(costs)
        found = layer.mixtures.solve(arranged, group._replace(costs=costs), keys)
        layer.gap[group.examples] = found.gaps
        ctx.columns, ctx.sets = np.flatnonzero(arranged.chosen(group)), found.sets
        points = np.zeros(costs.shape)
        points[:, ctx.columns] = found.points
        return torch.from_numpy(points)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        V = upstream[0].detach().numpy()
        found = np.zeros(V.shape)
        found[:, ctx.columns] = ctx.sets.pulled_back(V[:, ctx.columns])
        return (
            None,
            None,
            None,
            None,
            *differentiable_once("SparseMAP", [torch.from_numpy(found)], *ctx.saved_tensors, *upstream),
        )

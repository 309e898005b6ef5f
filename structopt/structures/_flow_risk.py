"""The expected absolute loss of a flow as a program with auxiliary variables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["absolute_risk_program"]


def absolute_risk_program(
    weights: FloatArray, truths: FloatArray, upper: FloatArray, incidence: sp.csr_array, supply: FloatArray
) -> tuple[LabelSpace, FloatArray, float]:
    """A space and costs with ``const - max c . z = min over flows f of sum_i weights_i |f - truths_i|_1``.

    The flow of an arc is the sum of its pieces, one between each two neighbouring truths, where the risk has a constant
    slope. Pieces of increasing slope fill in order by themselves, since cheaper ones come first. Where the slope
    falls, a 0/1 variable opens the pieces that follow only if all before are full.
    """
    pieces = [_pieces(weights, truths[:, a], float(upper[a])) for a in range(truths.shape[1])]
    lengths, slopes = (np.concatenate([piece[k] for piece in pieces]) for k in (0, 1))
    arc = np.repeat(np.arange(len(pieces)), [len(piece[0]) for piece in pieces])
    space = LabelSpace("expected absolute loss of a flow")
    flow = space.continuous("flow", len(pieces), 0, upper)
    piece = space.continuous("piece", len(lengths), 0, lengths)
    space.subject_to(incidence @ flow == supply, name="conservation")
    space.subject_to(flow == _sums(arc, len(pieces)) @ piece, name="pieces")
    falls = (np.diff(slopes) < -1e-12 * np.abs(weights).sum()) & (np.diff(arc) == 0)
    if falls.any():
        # Runs of pieces with increasing slopes; a run is opened by its predecessor on the same arc.
        run = np.concatenate([[0], np.cumsum(falls | (np.diff(arc) > 0))])
        size = np.bincount(run, lengths)
        later = run[1:][falls]
        if not np.isfinite(size[later]).all():
            raise DeclarationError(
                f"The risk is not convex on arc {int(arc[1:][falls][0])}, which has no largest flow; give capacity=."
            )
        total = _sums(run, len(size)) @ piece
        opened = space.binary("opened", len(later))
        space.subject_to(total[later - 1] >= size[later - 1] * opened, name="full")
        space.subject_to(total[later] <= size[later] * opened, name="open")
    c = np.zeros(space.n_variables)
    c[space["piece"].slice] = -slopes
    return space, c, float(weights @ np.abs(truths).sum(axis=1))


def _pieces(weights: FloatArray, truth: FloatArray, upper: float) -> tuple[FloatArray, FloatArray]:
    """Lengths and slopes of ``sum_i weights_i |f - truth_i|`` on [0, upper]."""
    order = np.argsort(truth)
    bends, first = np.unique(np.clip(truth[order], 0.0, upper), return_index=True)
    passed = np.concatenate([[0.0], np.cumsum(weights[order])])
    ends = np.concatenate([[0.0], bends, [upper]])
    slopes = 2 * np.concatenate([passed[first], passed[-1:]]) - passed[-1]
    lengths = np.diff(ends)
    kept = lengths > 0
    return lengths[kept], slopes[kept]


def _sums(group: npt.NDArray[np.intp], n_groups: int) -> sp.csr_array:
    return sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(n_groups, len(group)))

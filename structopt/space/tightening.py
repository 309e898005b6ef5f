"""Large constants of integer variables, reduced to what the labels need.

A row ``x <= M y`` switches x off where y = 0 and says nothing where y = 1, for every M that x can reach. A solver takes
y = 1e-7 for 0, so that with M = 1e9 its row says nothing at all: it may return a wrong optimum, or find a feasible
program infeasible, and no check of the returned label can tell. With the least M that keeps the labels the same row is
harmless.

In a row ``a z <= b`` let d be the largest activity minus b. If ``a_j > d`` for an integer z_j, the row is redundant
wherever z_j is below its upper bound u_j, and ``a_j`` may be replaced by d with ``b - (a_j - d) u_j`` on the right:
both rows are the same where z_j = u_j, and both redundant elsewhere (the coefficient tightening of Savelsbergh,
*Preprocessing and probing techniques for mixed integer programming problems*, 1994). The difference d stays what it
was, hence all such coefficients of a row may be replaced at once. Negative coefficients and lower sides are mirror
images.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["with_tight_coefficients"]

#: Coefficients that exceed what is needed by this factor are replaced. Smaller ones are within a solver's power, and
#: stay as the user declared them.
_TOO_LARGE = 100.0
#: Activities beyond this are not computed: their rounding errors would not be small.
_LARGEST_ACTIVITY = 1e15
#: A new constant below this share of the activities would be off by more than 1e-6 of itself.
_LEAST_EXCESS = 2e-10


def with_tight_coefficients(space: CompiledSpace) -> CompiledSpace:
    """The same labels, without constants that are far larger than the labels need.

    Only rows with one finite side change. The relaxation becomes smaller, so this is for those who want labels.

    Parameters
    ----------
    space : CompiledSpace

    Returns
    -------
    CompiledSpace
        `space` itself where nothing changes.

    Examples
    --------
    >>> import structopt as so
    >>> switched = so.LabelSpace()
    >>> amount, on = switched.continuous("amount", upper=2.0), switched.binary("on")
    >>> _ = switched.subject_to(amount <= 1e9 * on)
    >>> with_tight_coefficients(switched.compiled).matrix.toarray()
    array([[ 1., -2.]])
    """
    matrix = space.matrix
    if not space.is_integral or not space.n_rows or not matrix.nnz:
        return space
    magnitude = np.abs(matrix.data)
    row_of = np.repeat(np.arange(space.n_rows), np.diff(matrix.indptr))
    has_upper, has_lower = np.isfinite(space.row_upper), np.isfinite(space.row_lower)
    one_sided = has_upper != has_lower
    integer = space.integrality
    # Cheap, and enough for nearly all spaces: a coefficient that is large beside another one of its row or its bound.
    least = np.full(space.n_rows, np.inf)
    np.minimum.at(least, row_of, magnitude)
    if not (one_sided[row_of] & integer[matrix.indices] & (magnitude > _TOO_LARGE * least[row_of])).any():
        return space

    # As rows ``a z <= b``: a lower side is an upper side of the negated row.
    sign = np.where(has_upper, 1.0, -1.0)
    data = matrix.data * sign[row_of]
    bound = np.where(has_upper, space.row_upper, -space.row_lower)
    lower = space.lower[matrix.indices]
    upper = space.upper[matrix.indices]
    at = np.where(data > 0, upper, lower)  # where a term is largest
    with np.errstate(invalid="ignore", over="ignore"):
        largest = _sums(row_of, data * at, space.n_rows)
        size = _sums(row_of, magnitude * np.abs(at), space.n_rows)
    sound = one_sided & np.isfinite(largest) & (size < _LARGEST_ACTIVITY) & (np.abs(bound) < _LARGEST_ACTIVITY)
    with np.errstate(invalid="ignore"):
        excess = np.where(sound, largest - bound, np.inf)
        # A redundant row stays (no constant of it can mislead), and so does one where little but rounding is left.
        sound &= excess > _LEAST_EXCESS * (size + np.abs(bound))
        # A little more than needed, for the rounding of sums; any constant between this and the declared one will do.
        needed = np.where(sound, excess * (1.0 + 1e-9) + 1e-15 * (size + np.abs(bound)), np.inf)
    reduced = integer[matrix.indices] & (magnitude > _TOO_LARGE * needed[row_of])
    if not reduced.any():
        return space
    new = np.where(reduced, np.sign(data) * needed[row_of], data)
    with np.errstate(invalid="ignore"):
        change = np.where(reduced, (data - new) * at, 0.0)
    bound = bound - _sums(row_of, change, space.n_rows)
    changed = np.zeros(space.n_rows, dtype=np.bool_)
    changed[row_of[reduced]] = True
    return replace(
        space,
        matrix=sp.csr_array((new * sign[row_of], matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape),
        row_lower=np.where(changed & has_lower, -bound, space.row_lower),
        row_upper=np.where(changed & has_upper, bound, space.row_upper),
    )


def _sums(row_of: np.ndarray, terms: FloatArray, n_rows: int) -> FloatArray:
    return np.asarray(np.bincount(row_of, terms, n_rows), dtype=np.float64)

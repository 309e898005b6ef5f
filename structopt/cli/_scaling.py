"""Scaling of features (``scale = true``), and a hint where features need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt._jit import FloatArray
from structopt.errors import DeclarationError

__all__ = ["learn_scale", "scale_hint", "scaled"]

#: Columns whose sizes differ by more than this are reported: no regulariser treats them alike.
_FAR_APART = 1e3
#: A sparse matrix with more stored numbers than this is a table that happens to be stored so (as ARFF files are).
_DENSE = 0.25


def learn_scale(X: Any) -> dict[str, FloatArray]:
    """What `scaled` takes away from each column and divides it by: mean and standard deviation.

    Sparse data stay sparse and keep their zeros: nothing is taken away.

    Examples
    --------
    >>> import numpy as np
    >>> found = learn_scale(np.array([[1.0, 200_000.0], [3.0, 400_000.0]]))
    >>> found["center"].tolist(), found["spread"].tolist()
    ([2.0, 300000.0], [1.0, 100000.0])
    """
    rows = _stacked(X)
    n = max(rows.shape[0], 1)
    sparse = sp.issparse(rows) and rows.nnz <= _DENSE * rows.shape[0] * rows.shape[1]
    if sp.issparse(rows):
        mean = np.asarray(rows.sum(axis=0)).ravel() / n
        square = np.asarray((rows * rows).sum(axis=0)).ravel() / n
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    else:
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
    # A constant column has no spread but rounding.
    spread = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)
    return {"center": np.zeros_like(mean) if sparse else mean, "spread": spread}


def scaled(X: Any, scale: Mapping[str, Any]) -> Any:
    """The features as the training saw them.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 200_000.0], [3.0, 400_000.0]])
    >>> scaled(X, learn_scale(X)).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    if isinstance(X, list):
        return [scaled(x, scale) for x in X]
    center, spread = np.asarray(scale["center"]), np.asarray(scale["spread"])
    if X.ndim != 2 or X.shape[1] != center.size:
        raise DeclarationError(
            f"The data have {X.shape[-1]} features, and the scale was learned from {center.size}; give a file of "
            "the same columns."
        )
    if sp.issparse(X) and not center.any():
        return sp.csr_array(X) @ sp.diags_array(1.0 / spread, format="csr")
    dense = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    return (dense - center) / spread


def scale_hint(X: Any, names: Any = None) -> str | None:
    """A sentence if the sizes of two columns differ by more than a thousand, else None."""
    if isinstance(X, list) or getattr(X, "ndim", 0) != 2 or not X.shape[0]:
        return None
    large = np.asarray(abs(X).max(axis=0).toarray()).ravel() if sp.issparse(X) else np.abs(X).max(axis=0)
    used = np.flatnonzero((large > 0) & np.isfinite(large))
    if not used.size:
        return None
    most, least = used[np.argmax(large[used])], used[np.argmin(large[used])]
    factor = large[most] / large[least]
    if factor <= _FAR_APART:
        return None
    pair = [f"{names[k]!s}" if names is not None and len(names) == X.shape[1] else f"number {k}" for k in (most, least)]
    return (
        f"columns {pair[0]} and {pair[1]} differ in size by a factor of {factor:.0e}; scale = true in [data] brings "
        "all to one size"
    )


def _stacked(X: Any) -> Any:
    """All rows in one matrix; sequences and queries below each other."""
    if not isinstance(X, list):
        if getattr(X, "ndim", 0) != 2:
            raise DeclarationError("[data]: scale is for tables of numbers; these inputs have another shape.")
        return sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    if not X or any(getattr(x, "ndim", 0) != 2 for x in X):
        raise DeclarationError("[data]: scale is for tables of numbers; these inputs have another shape.")
    return (
        sp.csr_array(sp.vstack(X))
        if sp.issparse(X[0])
        else np.concatenate([np.asarray(x, dtype=np.float64) for x in X])
    )

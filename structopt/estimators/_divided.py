"""The divided margin of thesis (6.13): the score difference over the norm of the difference of the attributes.

``max over y != y_i of 1 + (score(y) - score(y_i)) / error(y, y_i)``, not below 0, with the normalised error (6.9), that
is with that norm: every subgradient is as long as the features, and the loss at every decision boundary is 1. (The
printed maximum includes y_i, where both norm and difference are 0; as in (6.10) it counts 0 there.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.model.batch import LabelBatch, LossBatch
from structopt.space.compiled import FloatArray
from structopt.structures.hierarchy import HierarchicalLabels, HierarchyBatch
from structopt.surrogates.base import Surrogate

__all__ = ["Divided", "DividedLabels"]


class Divided(Surrogate):
    """``psi(h, g) = 1 + h / g``: convex in the margin, but falling in the error, so that only listing is exact."""

    name = "divided"

    def psi(self, h: Any, g: Any) -> Any:
        return 1.0 + h / g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return 1.0 / g, -h / g**2

    def inside(self, h: Any, g: Any) -> Any:
        return np.asarray(g) > 0.0

    @property
    def domain(self) -> str:
        return "g > 0"

    def __repr__(self) -> str:
        return "Divided()"


class DividedLabels(HierarchicalLabels):
    """Single leaves, of which the most violated under any surrogate is found by listing them."""

    def batch(self, X: Any) -> HierarchyBatch:
        return _LeafBatch(self, X)


class _LeafBatch(HierarchyBatch):
    def argmax_surrogate(
        self, surrogate: Any, tables: Sequence[FloatArray], loss: LossBatch, truth: LabelBatch, n_jobs: int = 1
    ) -> tuple[LabelBatch, FloatArray, FloatArray] | None:
        paths = self.model.hierarchy.closure
        h, g = np.zeros(self.n), np.zeros(self.n)
        rows: list[Any] = []
        for part in self._chunks(np.arange(self.n)):
            gains = self._gains(tables[0], part, None, 1.0)  # (nodes, examples)
            truths = truth.native[part]
            margin = (paths @ gains).T - np.asarray(truths.multiply(gains.T).sum(axis=1)).reshape(-1, 1)
            base, own = loss.coef.rows(part)
            error = (paths @ base)[None, :] + (own @ paths.T).toarray() + loss.const[part][:, None]
            psi = np.zeros_like(margin)
            other = error > 1e-12  # the ground truth, and leaves that no weight distinguishes from it, have error 0
            psi[other] = surrogate.psi(margin[other], error[other])
            best, here = psi.argmax(axis=1), np.arange(part.size)
            violated = psi[here, best] > 0.0
            h[part], g[part] = margin[here, best] * violated, error[here, best] * violated
            found = paths[best]
            keep = sp.diags_array(violated.astype(np.float64))
            chosen = sp.csr_array(keep @ found + sp.diags_array((~violated).astype(np.float64)) @ truths)
            chosen.eliminate_zeros()
            rows.append(chosen)
        return self._labels(sp.csr_array(sp.vstack(rows, format="csr"))), h, g

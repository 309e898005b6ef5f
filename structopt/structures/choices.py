"""Labels that choose one part for every slot: a head for each token, a column for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from structopt._jit import IntArray
from structopt.model.inference import BatchInference, Maxima
from structopt.model.loss_batch import LossBatch, Weight, ranges
from structopt.space.compiled import FloatArray

__all__ = ["ChoiceInference"]


class ChoiceInference(BatchInference):
    """The best choices for the scores of all parts, one after the other."""

    @abstractmethod
    def solve(self, scores: FloatArray, chosen: IntArray, n_jobs: int) -> tuple[IntArray, FloatArray]:
        """The best choices of some examples and their values, for the scores of their parts one after the other."""

    def maximize(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        start = self.data.starts[0].astype(np.int64) * self.data.columns[0]
        scores = np.asarray(tables[0], dtype=np.float64).reshape(-1)
        chosen = np.arange(self.data.n) if some is None else some
        parts = None if some is None else ranges(start[some], start[some + 1])
        scores = scores if parts is None else scores[parts]
        if loss is not None:
            scores = loss.added(scores, some, weight, parts)
        return Maxima(*self.solve(np.ascontiguousarray(scores), chosen, n_jobs))

"""Document ranking: order the documents of a query so that NDCG is high.

A query is a matrix of documents, its label their relevances; a prediction is a ranking. The loss 1 - NDCG is linear in
the 0/1 matrix of positions and documents: the most violated ranking is a linear assignment, the best one a sort.
"""

from __future__ import annotations

import numpy as np

import structopt as so

N_FEATURES = 5


def model() -> so.Model:
    return so.structures.Ranking("ndcg")


def data(n: int = 100, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Queries of 4 to 10 documents with relevances from 0 to 3."""
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(7).normal(size=N_FEATURES)
    X = [rng.normal(size=(n_documents, N_FEATURES)) for n_documents in rng.integers(4, 11, n)]
    grades = [np.rint(x @ taste / 2 + 1 + 0.5 * rng.normal(size=len(x))).astype(int) for x in X]
    return X, [np.clip(grade, 0, 3) for grade in grades]

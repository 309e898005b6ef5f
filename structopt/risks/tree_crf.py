"""The structured logistic loss of 0/1 labels whose pairs form a tree, by sums up the tree and conditionals down it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.special import expit

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.risks._features import FloatArray
from structopt.risks.crf import StructuredLikelihood
from structopt.structures.mrf import PairwiseMRF

__all__ = ["TreeCRF", "tree_marginals"]

IntArray = npt.NDArray[np.intp]


class TreeCRF(StructuredLikelihood):
    """Mean negative log-likelihood of 0/1 labels with pairwise terms along a tree or a forest.

    ``P(y | x) = exp(score(x, y)) / Z(x)``; the sum over all ``2^n`` labels is one pass up the tree, its gradient one
    pass down, for all examples at once.

    Parameters
    ----------
    model : PairwiseMRF
        Its edges must not form a cycle; with cycles the sum over all labels is intractable in general.
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m, n)
        0/1 rows.
    sample_weight : array of shape (m,), optional
        Weights of the examples in the mean, not negative; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> model = so.structures.PairwiseMRF(3, edges=[(0, 1), (1, 2)])
    >>> risk = so.risks.TreeCRF(model, [[1.0]], [[1, 1, 0]])
    >>> value, gradient = risk(np.zeros(5))                     # eight labels, all equally likely
    >>> round(value, 6), gradient                               # three labels, two pairs
    (2.079442, array([-0.5 , -0.5 ,  0.5 , -0.75,  0.25]))
    """

    model: PairwiseMRF

    @checked
    def __init__(self, model: PairwiseMRF, X: Any, y: Any, *, sample_weight: Any = None) -> None:
        if not isinstance(model, PairwiseMRF):
            raise DeclarationError(f"TreeCRF needs a structures.PairwiseMRF, got {type(model).__name__}.")
        if model.solver != "auto":
            raise DeclarationError("Sums over all labels are not a solver's: use a model with solver='auto'.")
        self._order, self._parent, self._edge = rooted(model)
        rows = X if sp.issparse(X) else np.asarray(X)
        if rows.ndim != 2:
            raise DeclarationError(f"TreeCRF: X has shape {rows.shape}; it needs one feature vector per row, (m, d).")
        super().__init__(model, rows, y, sample_weight=sample_weight)

    def log_partition(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        unary, pair = self._batch.tables(w)
        log_z, node, both = tree_marginals(unary, pair[0], self._order, self._parent, self._edge)
        if self._weight is not None:
            node, both = node * self._weight[:, None], both * self._weight[:, None]
        rows = self._batch.rows[0]
        features = sp.csr_array(rows).T @ node if sp.issparse(rows) else rows.T @ node
        return log_z, np.concatenate([np.asarray(features, dtype=np.float64).T.ravel(), both.sum(axis=0)])


def rooted(model: PairwiseMRF) -> tuple[IntArray, IntArray, IntArray]:
    """Nodes with parents before children, the parent of each (-1 for roots), and the number of the edge to it."""
    n, first, second = model.n, model.graph.i, model.graph.j
    numbers = np.arange(1, len(first) + 1)  # 0 would be no edge
    graph = sp.csr_array((numbers, (first, second)), shape=(n, n))
    graph = sp.csr_array(graph + graph.T)
    order: list[int] = []
    parent = np.full(n, -1, dtype=np.intp)
    seen = np.zeros(n, dtype=np.bool_)
    for root in range(n):
        if not seen[root]:
            reached, above = breadth_first_order(graph, root, directed=False)
            order.extend(reached.tolist())
            seen[reached] = True
            parent[reached[1:]] = above[reached[1:]]
    inner = np.flatnonzero(parent >= 0)
    if inner.size < len(first):
        raise DeclarationError(
            f"TreeCRF: {len(first)} edges on {n} labels form a cycle; a tree or a forest has none, such as "
            "PairwiseMRF(3, edges=[(0, 1), (1, 2)])."
        )
    edge = np.full(n, -1, dtype=np.intp)
    edge[inner] = graph[inner, parent[inner]] - 1 if inner.size else 0
    return np.array(order, dtype=np.intp), parent, edge


@checked
def tree_marginals(
    unary: FloatArray, pair: FloatArray, order: IntArray, parent: IntArray, edge: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-partition functions, the probability of every label, and that of both labels of every edge.

    Parameters
    ----------
    unary : array of shape (m, n)
        Scores of the labels.
    pair : array of shape (n_edges,)
        Scores of the edges whose labels are both on.
    order, parent, edge
        As `rooted` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> chain = np.array([0, 1]), np.array([-1, 0]), np.array([-1, 0])
    >>> log_z, node, both = tree_marginals(np.zeros((1, 2)), np.log([3.0]), *chain)
    >>> np.exp(log_z).round(6), node.round(4), both.round(4)        # 1 + 1 + 1 + 3 labels
    (array([6.]), array([[0.6667, 0.6667]]), array([[0.5]]))
    """
    off = np.zeros_like(unary, dtype=np.float64)  # log-sums of the subtree of a node that is off, and on
    on = np.array(unary, dtype=np.float64)
    log_z = np.zeros(len(unary))
    for k in order[::-1]:
        if parent[k] < 0:
            log_z += np.logaddexp(off[:, k], on[:, k])
        else:
            off[:, parent[k]] += np.logaddexp(off[:, k], on[:, k])
            on[:, parent[k]] += np.logaddexp(off[:, k], on[:, k] + pair[edge[k]])
    node, both = np.empty_like(on), np.empty((len(unary), len(pair)))
    for k in order:
        lead = on[:, k] - off[:, k]
        if parent[k] < 0:
            node[:, k] = expit(lead)
        else:
            above = node[:, parent[k]]
            both[:, edge[k]] = above * expit(lead + pair[edge[k]])
            node[:, k] = both[:, edge[k]] + (1.0 - above) * expit(lead)
    return log_z, node, both

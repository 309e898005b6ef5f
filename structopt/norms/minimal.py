"""The minimal graph: nodes that are in exactly the same labels, merged (NHSVM appendix A, thesis 6.5.2)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import FloatArray, IntArray
from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

__all__ = ["MinimalGraph", "minimal_graph"]


@dataclass(frozen=True, eq=False)
class MinimalGraph:
    """A hierarchy without duplicated nodes, and the way back.

    Attributes
    ----------
    hierarchy : Hierarchy
        The minimal graph. A merged node has the name of the last of its duplicates, thus leaves keep theirs.
    original : Hierarchy
    group : ndarray of int
        Of each original node the position of its merged node.
    sizes : ndarray of int
        Of each merged node the number of its duplicates, the papers' ``|F|``.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import norms
    >>> h = so.Hierarchy([("root", "a"), ("a", "b"), ("b", "x"), ("b", "y"), ("root", "z")])
    >>> small = norms.minimal_graph(h)
    >>> small
    <MinimalGraph: 6 nodes merged to 5>
    >>> small.members("b")
    ('a', 'b')
    >>> small.expand([0, 0.8, 1, 0.2, 0.2])                     # weights of root, b, z, x, y
    array([0. , 0.4, 0.4, 1. , 0.2, 0.2])
    """

    hierarchy: Hierarchy
    original: Hierarchy
    group: IntArray
    sizes: IntArray

    def members(self, name: Hashable) -> tuple[Hashable, ...]:
        """The original nodes of a merged one.

        Parameters
        ----------
        name : hashable
            A node of the minimal graph.

        Returns
        -------
        tuple
        """
        here = np.flatnonzero(self.group == self.hierarchy.index(name))
        return tuple(self.original.nodes[k] for k in here.tolist())

    def collapse(self, alpha: npt.ArrayLike) -> FloatArray:
        """Node weights of the original as weights of the merged nodes: K, the sum of each group (thesis (6.14)).

        Parameters
        ----------
        alpha : ndarray of shape (n_nodes,)
            Weights of the original nodes.

        Returns
        -------
        ndarray
        """
        own = self._column(alpha, self.original)
        total: FloatArray = np.bincount(self.group, weights=own, minlength=len(self.hierarchy)).astype(np.float64)
        return total

    def expand(self, alpha: npt.ArrayLike) -> FloatArray:
        """Weights of merged nodes for the original: each duplicate gets an equal share.

        Parameters
        ----------
        alpha : ndarray
            Weights of the nodes of the minimal graph.

        Returns
        -------
        ndarray of shape (n_nodes,)
        """
        return (self._column(alpha, self.hierarchy) / self.sizes)[self.group]

    def expand_weights(self, W: npt.ArrayLike) -> FloatArray:
        """Weight vectors ``W_n`` of merged nodes for the original: ``W_n / sqrt(size)``.

        With the weights of `expand` they have the same scores ``sqrt(alpha_n) W_n . x`` on every label and the same
        norm (docs/mathematics/hierarchies#duplicates).

        Parameters
        ----------
        W : ndarray of shape (n_minimal, n_features)

        Returns
        -------
        ndarray of shape (n_nodes, n_features)
        """
        vectors = np.asarray(W, dtype=np.float64)
        if vectors.ndim != 2 or vectors.shape[0] != len(self.hierarchy):
            raise DeclarationError(f"W has one row for each of {len(self.hierarchy)} nodes, got shape {vectors.shape}.")
        return (vectors / np.sqrt(self.sizes)[:, None])[self.group]

    def weights(self, rho: float) -> FloatArray:
        """``size ** (rho - 1)`` for each original node.

        With them ``normalization(original, rho, weights=...)`` is exactly the expanded
        ``normalization(hierarchy, rho)``, whatever rho; without them only as rho goes to 1 (NHSVM Theorem 1).
        With ``root=False`` that holds as long as the root itself has no duplicate.

        Parameters
        ----------
        rho : float
            The exponent, above 1.

        Returns
        -------
        ndarray
        """
        return np.power(self.sizes.astype(np.float64), float(rho) - 1.0)[self.group]

    def _column(self, values: npt.ArrayLike, hierarchy: Hierarchy) -> FloatArray:
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (len(hierarchy),):
            raise DeclarationError(f"Expected one number for each of {len(hierarchy)} nodes, got shape {column.shape}.")
        return column

    def __repr__(self) -> str:
        return f"<MinimalGraph: {len(self.original)} nodes merged to {len(self.hierarchy)}>"


@checked
def minimal_graph(hierarchy: Hierarchy) -> MinimalGraph:
    """Merge the nodes that are in exactly the same labels, that is above the same leaves.

    Parameters
    ----------
    hierarchy : Hierarchy
        A tree or a DAG. First leave out what no example has (``hierarchy.restrict``).

    Returns
    -------
    MinimalGraph

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import norms
    >>> norms.minimal_graph(so.Hierarchy([(1, 2), (2, 3), (2, 4)])).hierarchy.edges
    ((2, 3), (2, 4))
    """
    if not isinstance(hierarchy, Hierarchy):
        raise DeclarationError(f"hierarchy must be a structopt.Hierarchy, got {type(hierarchy).__name__}.")
    leaves = sp.csc_array(hierarchy.closure)
    leaves.sort_indices()
    first: dict[bytes, int] = {}
    group = np.empty(len(hierarchy), np.int64)
    for k, (a, b) in enumerate(pairwise(leaves.indptr.tolist())):
        group[k] = first.setdefault(leaves.indices[a:b].tobytes(), len(first))
    last = np.empty(len(first), np.int64)
    last[group] = np.arange(len(hierarchy))  # of repeated places the last assignment stays
    # An arc between two groups leads to fewer leaves: no cycle, and the leaves below each group stay what they were.
    arcs = np.unique(np.stack([group[hierarchy.parent], group[hierarchy.child]]), axis=1)
    arcs = arcs[:, arcs[0] != arcs[1]]
    names = [hierarchy.nodes[k] for k in last.tolist()]
    small = Hierarchy([(names[p], names[c]) for p, c in arcs.T.tolist()], nodes=names)
    place = small.indices(names)
    return MinimalGraph(small, hierarchy, place[group], np.bincount(place[group], minlength=len(small)))

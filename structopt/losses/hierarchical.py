"""Task losses over the nodes of a hierarchy: the leaf loss, the hierarchical loss, the normalised error.

Labels and ground truths are 0/1 rows over ``hierarchy.nodes``, or names that stand for such rows. Whole data sets are
never made dense: the coefficients of a batch are one row that all examples share plus a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import checked, floats, shown
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.hierarchy.input import node_values
from structopt.losses.base import TaskLoss
from structopt.losses.variables import Hamming
from structopt.space.compiled import FloatArray

__all__ = ["AffineForm", "HierarchicalLoss", "LeafHamming", "Normalized", "sparse_form"]

_NOT_LINEAR = (
    "The hierarchical loss is linear on trees only, and {culprit}. On the diamond 0 -> 1, 2 -> 3 with the ground truth "
    "{{0, 1, 2, 3}} the labels {{0}}, {{0, 1}}, {{0, 2}}, {{0, 1, 2}} have losses 2, 1, 1, 1, where a linear loss "
    "would give the last one 1 + 1 - 2 = 0. Use Hamming, or a tree."
)


@dataclass(frozen=True, eq=False)
class AffineForm:
    """A loss that is also affine in the true label t: ``loss(y, t) = (base + t @ matrix) . y + t . const``."""

    base: FloatArray
    matrix: sp.csr_array
    const: FloatArray

    def rows(self, truths: sp.csr_array) -> sp.csr_array:
        """Return the coefficients that each true label adds to `base`."""
        return sp.csr_array(truths @ self.matrix)

    def constants(self, truths: sp.csr_array) -> FloatArray:
        """Return the constant of each true label."""
        return np.asarray(truths @ self.const)


def _names(label: Any) -> npt.NDArray[Any]:
    """Return the entries of a label, names or numbers, as a flat array."""
    if isinstance(label, np.ndarray) and label.ndim and label.dtype.kind in "biufOUS":
        return label.ravel()
    if isinstance(label, Mapping | np.ndarray) or not isinstance(label, Iterable) or getattr(label, "ndim", 1) == 0:
        raise DeclarationError(f"A label is a name, names, or a 0/1 row over the nodes; got {shown(label)}.")
    entries = list(label)
    names = np.empty(len(entries), dtype=object)
    names[:] = entries
    return names


class _HierarchyLoss(TaskLoss):
    """Base of the losses of this file: a hierarchy, and rows over its nodes."""

    #: Kinds of `HierarchicalLabels` for which the linear form holds.
    kinds: ClassVar[tuple[str, ...]] = ("leaf", "leaves", "closure")

    def __init__(self, hierarchy: Hierarchy) -> None:
        if not isinstance(hierarchy, Hierarchy):
            raise DeclarationError(
                f"{type(self).__name__} needs a structopt.Hierarchy, got {type(hierarchy).__name__}; "
                "make one with Hierarchy(edges)."
            )
        self.hierarchy = hierarchy

    def _row(self, label: Any) -> FloatArray:
        """Return the 0/1 row of a label; a name stands for the node and its ancestors, a collection for their union."""
        h = self.hierarchy
        if isinstance(label, Hashable) and label in h:
            label = {label}
        elif isinstance(label, str):
            h.index(label)  # raises, with the names that look like it
        names = _names(label)
        # Nodes may be called 0 and 1: an ordered collection of 0 and 1 is a row, and a set holds names.
        if names.dtype.kind in "fb" or (not isinstance(label, Set) and np.isin(names, (0, 1)).all()):
            if names.size == len(h):
                return floats("The label", names).ravel()
            raise DeclarationError(
                f"{type(self).__name__} takes names or 0/1 rows over the {len(h)} nodes, got {names.size} entries; "
                "give names that are numbers as a set."
            )
        nodes = h.indices(names.tolist())
        row = np.zeros(len(h))
        row[h.ancestor_rows([0, nodes.size], nodes).indices] = 1.0
        return row


class _AffineLoss(_HierarchyLoss):
    form: AffineForm

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        row = self._row(truth)
        return self.form.base + row @ self.form.matrix, float(row @ self.form.const)

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float]:
        row = floats("mean", mean).ravel()
        return self.form.base + row @ self.form.matrix, float(row @ self.form.const)

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        T = np.array([self._row(truth) for truth in np.asarray(truths)])
        return self.form.base + T @ self.form.matrix, T @ self.form.const


class LeafHamming(_AffineLoss):
    """Number of leaves that only one of label and ground truth has: the leaf loss of thesis 6.7.1.

    Parameters
    ----------
    hierarchy : Hierarchy
    scale : float
        Factor on the loss; with 0.5 it is the zero-one loss between single leaves.

    Examples
    --------
    >>> import structopt as so
    >>> h = so.Hierarchy([("animal", "cat"), ("animal", "dog")])
    >>> so.losses.LeafHamming(h).linear([1, 1, 0])
    (array([ 0., -1.,  1.]), 1.0)
    """

    @checked
    def __init__(self, hierarchy: Hierarchy, scale: float = 1.0) -> None:
        super().__init__(hierarchy)
        if not (np.isfinite(scale) and scale > 0):
            raise DeclarationError(f"scale must be positive and finite, got {scale}.")
        self.scale = scale
        weight = np.where(hierarchy.is_leaf, float(scale), 0.0)
        self.form = AffineForm(weight, _diagonal(-2 * weight), weight)

    def counted(self, size: int) -> FloatArray:
        return np.where(self.hierarchy.is_leaf, float(self.scale), 0.0)

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        differ = self._row(y) != self._row(truth)
        return float(self.scale * np.count_nonzero(differ & self.hierarchy.is_leaf))


class HierarchicalLoss(_AffineLoss):
    """Weighted number of mistakes whose ancestors are all right, on trees (ECRM 3.0.1).

    Linear over labels that hold the parents of all their nodes, as all of `HierarchicalLabels` do.

    Parameters
    ----------
    hierarchy : Hierarchy
        A tree or a forest; on other graphs the loss is not linear and refused.
    weights : "sibling", "uniform", array_like or mapping
        ``c_root = 1, c_child = c_parent / number of siblings``; or 1 everywhere; or one non-negative number per node.

    Examples
    --------
    >>> import structopt as so
    >>> loss = so.losses.HierarchicalLoss(so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)]))
    >>> loss.weights_.tolist()
    [1.0, 0.5, 0.5, 0.25, 0.25]
    >>> loss.linear([1, 1, 0, 1, 0])
    (array([-0.5 , -0.25,  0.5 , -0.25,  0.25]), 1.0)
    >>> loss.value([1, 0, 1, 0, 0], [1, 1, 0, 1, 0])
    1.0
    """

    @checked
    def __init__(self, hierarchy: Hierarchy, weights: Any = "sibling") -> None:
        super().__init__(hierarchy)
        if not hierarchy.is_tree:
            many = hierarchy.nodes[int(np.argmax(np.diff(hierarchy.parent_ptr)))]
            culprit = f"{many!r} has {len(hierarchy.parents(many))} parents"
            raise DeclarationError(_NOT_LINEAR.format(culprit=culprit))
        self.weights = weights
        self.weights_ = self._weights(weights)
        self.form = self._form()

    def _weights(self, weights: Any) -> FloatArray:
        h = self.hierarchy
        if not isinstance(weights, str):
            return node_values(h, weights, "weights")
        if weights == "uniform":
            return np.ones(len(h))
        if weights != "sibling":
            raise DeclarationError(f"weights must be 'sibling', 'uniform' or one number a node, got {weights!r}.")
        siblings = np.diff(h.below_ptr).tolist()
        value = [1.0] * len(h)
        for parent, child in zip(h.parent.tolist(), h.child.tolist(), strict=True):
            value[child] = value[parent] / siblings[parent]
        return np.array(value)

    def _form(self) -> AffineForm:
        # docs/mathematics/conditional_risk#prediction-as-a-linear-program with y'_child <= y'_parent, so that its
        # bracket is y'_j - 2 y'_k.
        h, c = self.hierarchy, self.weights_
        top = np.zeros(len(h))
        top[h.root_index] = c[h.root_index]
        arc = c[h.child]
        nodes = np.arange(len(h))
        row = np.concatenate([nodes, h.parent, h.child])
        column = np.concatenate([nodes, h.child, h.parent])
        data = np.concatenate([-2 * c, arc, arc])
        matrix = sp.coo_array((data, (row, column)), shape=(len(h), len(h))).tocsr()
        return AffineForm(top, matrix, top)

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        row, h = self._row(truth), self.hierarchy
        orphans = np.flatnonzero(row[h.child] > row[h.parent])
        if orphans.size:
            child, parent = (h.nodes[ends[orphans[0]]] for ends in (h.child, h.parent))
            raise DeclarationError(f"The ground truth has {child!r} without its parent {parent!r}; complete it first.")
        return super().linear(row)

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        wrong = self._row(y) != self._row(truth)
        if not wrong.any():
            return 0.0
        # A mistake counts if no ancestor is wrong, hence the closure of the wrong nodes.
        places = np.flatnonzero(wrong)
        sets = self.hierarchy.ancestor_rows(np.arange(places.size + 1), places)
        wrong_above = sets @ wrong.astype(np.float64) - 1
        return float(self.weights_[places] @ (wrong_above == 0))


class Normalized(_HierarchyLoss):
    """The normalised error ``sqrt(sum of alpha over nodes that only one of label and ground truth has)``, thesis (6.9).

    Not linear in the nodes. Between single leaves it is linear in "which leaf", so that it serves
    ``HierarchicalLabels(kind="leaf")``: the coefficients stand at the leaves. Elsewhere only `value` is meaningful, for
    spaces small enough to enumerate (docs/mathematics/hierarchies#normalisation).

    Parameters
    ----------
    hierarchy : Hierarchy
    alpha : array_like or mapping
        One non-negative number per node, in the order of ``hierarchy.nodes`` or by name.

    Examples
    --------
    >>> import structopt as so
    >>> h = so.Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
    >>> loss = so.losses.Normalized(h, {"thing": 0, "animal": 2 / 3, "oak": 1, "cat": 1 / 3, "dog": 1 / 3})
    >>> loss.linear([1, 1, 0, 1, 0])[0].round(4)                    # the truth is a cat
    array([0.    , 0.    , 1.4142, 0.    , 0.8165])
    """

    kinds = ("leaf",)

    @checked
    def __init__(self, hierarchy: Hierarchy, alpha: Any) -> None:
        super().__init__(hierarchy)
        self.alpha = alpha
        self.alpha_ = node_values(hierarchy, alpha, "alpha")

    def pairwise(self, leaves: npt.NDArray[np.integer[Any]] | None = None) -> FloatArray:
        """The error between some leaves (positions in ``hierarchy.leaves``; all by default) and every leaf.

        Parameters
        ----------
        leaves : array_like of int, optional
            All leaves by default.

        Returns
        -------
        ndarray
        """
        paths = self.hierarchy.closure
        total = np.asarray(paths @ self.alpha_)
        chosen = np.arange(total.size) if leaves is None else np.asarray(leaves)
        shared = (paths[chosen] @ (paths * self.alpha_[None, :]).T).toarray()
        both = total[chosen][:, None] + total[None, :]
        squared = both - 2 * shared
        # Rounding errors are set to 0: the square root would make 1e-8 of them.
        squared[squared <= 1e-14 * both] = 0.0
        return np.asarray(np.sqrt(squared))

    def _leaves_of(self, truths: sp.csr_array) -> npt.NDArray[np.intp]:
        """Return the only leaf of each row, as a position in ``hierarchy.leaves``."""
        h = self.hierarchy
        at_leaf = h.is_leaf[truths.indices] & (truths.data != 0)
        counts = np.diff(np.concatenate([[0], np.cumsum(at_leaf)])[truths.indptr])
        if (counts != 1).any():
            k = int(np.argmax(counts != 1))
            raise DeclarationError(
                f"Ground truth {k} has {counts[k]} leaves. The normalised error is linear between single leaves only; "
                "use LeafHamming or Hamming for sets of leaves."
            )
        return np.asarray(np.searchsorted(h.leaf_index, truths.indices[at_leaf]))

    def rows(self, truths: sp.csr_array) -> sp.csr_array:
        """The coefficients of each ground truth, at the leaves.

        Parameters
        ----------
        truths : matrix of shape (n, n_nodes)

        Returns
        -------
        csr_array
        """
        leaves, of_row = np.unique(self._leaves_of(truths), return_inverse=True)
        table = self.pairwise(leaves)[of_row]
        n, n_leaves = table.shape
        columns = np.tile(self.hierarchy.leaf_index.astype(np.int32), n)
        return sp.csr_array((table.ravel(), columns, n_leaves * np.arange(n + 1)), shape=(n, len(self.hierarchy)))

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        return self.rows(sp.csr_array(self._row(truth)[None, :])).toarray()[0], 0.0

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(np.sqrt(self.alpha_ @ (self._row(y) != self._row(truth))))


@checked
def sparse_form(loss: TaskLoss, n: int) -> AffineForm | Normalized | None:
    """How a loss makes sparse coefficients for many ground truths, or None if it only has its dense `linear_batch`."""
    if isinstance(loss, _AffineLoss):
        return loss.form
    if isinstance(loss, Normalized):
        return loss
    if type(loss) is Hamming:
        weight, _ = loss.linear(np.zeros(n))
        return AffineForm(weight, _diagonal(-2 * weight), weight)
    return None


def _diagonal(values: FloatArray) -> sp.csr_array:
    return sp.csr_array(sp.diags_array(values, format="csr"))

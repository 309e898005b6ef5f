"""Structured logistic losses: conditional random fields over chains and over the paths of a hierarchy.

``R(w) = mean_i log sum_y exp <w, phi(x_i, y)> - <w, phi(x_i, y_i)>``, whose gradient is the difference of expected and
observed features. The sum over all labels is one forward-backward pass (chains) or a softmax over leaves (paths).
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from structopt._jit.threads import in_threads
from structopt.algorithms.chain import viterbi as chain
from structopt.checks import checked, n_threads
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import n_examples
from structopt.frames import plain_inputs, plain_labels
from structopt.hierarchy import Hierarchy
from structopt.model import Model
from structopt.model.batch import Batch
from structopt.risks._features import FloatArray, IntArray, finite_vector, shard_rows
from structopt.risks.identity import digest
from structopt.risks.ontology import path_shares
from structopt.risks.risk import Risk, check_weights
from structopt.risks.sample_weight import checksum, relative_weights
from structopt.risks.vector import VectorRisk
from structopt.structures.chain import Chain

__all__ = ["ChainCRF", "PathSoftmax", "StructuredLikelihood", "chain_marginals"]


class StructuredLikelihood(Risk):
    """Mean negative log-likelihood of the labels of a model; a subclass sums over all of them."""

    lower_bound = 0.0
    is_smooth = True

    @checked
    def __init__(self, model: Model, X: Any, y: Any, n_jobs: int = 1, *, sample_weight: Any = None) -> None:
        self.model, self.n_jobs = model, n_threads(n_jobs)
        X, y = plain_inputs(X), plain_labels(y)
        self._X, self._Y = X, y
        self._weight = relative_weights(sample_weight, n_examples(X), type(self).__name__)
        self._prepare(1.0 / max(n_examples(X), 1))

    def _prepare(self, scale: float) -> None:
        batch = self.model.batch(self._X)
        labels = batch.truth(self._Y)
        self._batch, self._scale = batch, scale
        self.n_features = batch.n_weights
        self._truth = labels.native
        self._observed = batch.joint(labels, self._weight)

    @abstractmethod
    def log_partition(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``log Z(x)`` of each example, and the expected features of all together, its (weighted) sum's gradient.

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        log_z : ndarray of shape (n,)
        features : ndarray
        """

    def value_and_subgradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        w = check_weights(w, self.n_features, type(self).__name__)
        log_z, expected = self.log_partition(w)
        total = float(log_z.sum() if self._weight is None else log_z @ self._weight)
        value = total - float(w @ self._observed)
        return max(value, 0.0) * self._scale, (expected - self._observed) * self._scale

    def shard(self, k: int, n: int) -> Self:
        rows = shard_rows(k, n, len(self), type(self).__name__)
        part = copy.copy(self)
        part.is_part = True
        part._X, part._Y = _take(self._X, rows), _take(self._Y, rows)
        part._weight = None if self._weight is None else self._weight[rows]
        part._prepare(self._scale)  # keeps the weight of an example: the parts add up to this risk
        return part

    def __len__(self) -> int:
        return self._batch.n

    def identity(self) -> dict[str, Any]:
        """Hashes of the features, the labels and the model; of the weights, where examples have any."""
        batch = self._batch
        other = {k: v for k, v in vars(self).items() if k not in ("model", "_X", "_Y", "_batch", "_truth", "_observed")}
        return {
            "risk": self.fingerprint(),
            "X": digest(batch.rows, batch.starts),
            "Y": digest(self._truth),
            "model": self._model_digest(),
            "settings": digest(other),
        }

    def _model_digest(self) -> str:
        model = self.model
        if isinstance(model, Chain):  # its space has states^2 * positions variables
            return digest(type(model), model.states, model.rules, model.initial_weights)
        return digest(type(model), model.space(self._batch.input(0)).fingerprint)

    def fingerprint(self) -> str:
        return f"{super().fingerprint()}, labels {digest(self._truth)}{checksum(self._weight)}"


def _take(part: Any, rows: Any) -> Any:
    if hasattr(part, "shape"):
        return part.tocsr()[rows] if sp.issparse(part) else part[rows]
    return list(part)[rows]


class ChainCRF(StructuredLikelihood):
    """Mean negative log-likelihood of state sequences, ``P(y | x) = exp(score(x, y)) / Z(x)``.

    Parameters
    ----------
    model : Chain
        Its features, transitions and rules; forbidden transitions have probability 0. Its loss is not used.
    X : list of arrays of shape (T, d)
        The sequences.
    y : list
        T states for each.
    n_jobs : int
        Threads for the forward-backward passes.
    sample_weight : array, optional
        Weights of the sequences in the mean, not negative; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks.crf import ChainCRF
    >>> from structopt.structures.chain import Chain
    >>> risk = ChainCRF(Chain(2), [np.array([[1.0], [0.5]])], [[0, 1]])
    >>> value, gradient = risk(np.zeros(6))                # four sequences, all equally likely
    >>> round(value, 6), gradient
    (1.386294, array([-0.25,  0.25,  0.25, -0.75,  0.25,  0.25]))
    """

    model: Chain

    @checked
    def __init__(self, model: Chain, X: Any, y: Any, n_jobs: int = 1, *, sample_weight: Any = None) -> None:
        if not isinstance(model, Chain):
            raise DeclarationError(f"ChainCRF needs a structures.Chain, got {type(model).__name__}.")
        if model.solver != "auto":
            raise DeclarationError("Sums over all labels are not a solver's: use a model with solver='auto'.")
        super().__init__(model, X, y, n_jobs, sample_weight=sample_weight)

    def log_partition(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        batch = self._batch
        log_z, node, pairs = chain_marginals(batch, w, self.n_jobs, self._weight)
        if self._weight is not None:
            node *= np.repeat(self._weight, np.diff(batch.starts[0]))[:, None]
        node_features = batch.rows[0].T @ node
        if sp.issparse(node_features):
            node_features = node_features.toarray()
        expected = [np.asarray(node_features).T.ravel(), pairs.ravel()]
        if self.model.initial_weights:
            expected.append(node[batch.starts[0][:-1]].sum(axis=0))
        return log_z, np.concatenate(expected)


@checked
def chain_marginals(
    batch: Batch, w: FloatArray, n_jobs: int = 1, weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-partition functions of all sequences, the marginals of their states, and the summed expected transitions.

    With `weight` the transitions of each sequence count so often in the sum.

    Returns
    -------
    log_z : ndarray of shape (n,)
    node : ndarray of shape (positions, S)
    pairs : ndarray of shape (S, S)

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks.crf import chain_marginals
    >>> from structopt.structures.chain import Chain
    >>> batch = Chain(2).batch([np.array([[1.0], [0.5]])])
    >>> log_z, node, pairs = chain_marginals(batch, np.zeros(6))
    >>> log_z.round(6), node[0], pairs[0]
    (array([1.386294]), array([0.5, 0.5]), array([0.25, 0.25]))
    """
    tables = batch.tables(w)
    model = cast("Chain", batch.model)
    first = tables[2][0] if model.initial_weights else None
    steps, start = model.forbid(np.asarray(tables[1][0]), first)
    U, ptr = np.ascontiguousarray(tables[0]), batch.starts[0].astype(np.int64)
    n_jobs = n_threads(n_jobs)
    if n_jobs == 1:
        log_z, node, pairs = chain.marginals_batch(U, ptr, steps, start)
        return log_z, node, _total(pairs, weight)
    log_z, node = np.empty(batch.n), np.empty(U.shape)
    parts: dict[int, FloatArray] = {}

    def work(a: int, b: int) -> None:
        rows = slice(ptr[a], ptr[b])
        log_z[a:b], node[rows], pairs = chain.marginals_batch(U[rows], ptr[a : b + 1] - ptr[a], steps, start)
        parts[a] = _total(pairs, None if weight is None else weight[a:b])

    in_threads(work, batch.n, n_jobs)
    # Added in the order of the examples: threads may finish in any.
    return log_z, node, np.add.reduce([parts[a] for a in sorted(parts)])


def _total(pairs: FloatArray, weight: FloatArray | None) -> FloatArray:
    return np.asarray(pairs.sum(axis=0) if weight is None else np.tensordot(weight, pairs, 1))


class PathSoftmax(VectorRisk):
    """Softmax over the leaves of a hierarchy, where a leaf scores the sum of its path: a tree-shaped CRF.

    ``mean log sum_l exp F_l - F_y`` with ``F_l = sum over nodes n of phi_n(l) sqrt(alpha_n) <W_n, x>``. In a tree
    ``phi(l)`` is 1 on the path to l and 0 elsewhere; for DAGs see `paths`.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : sequence of length m
        Names of leaves.
    hierarchy : Hierarchy
        Weights are node-major, in the order of ``hierarchy.nodes``, as those of `HierarchicalLabels`.
    alpha : array of shape (n_nodes,), optional
        Weights of the nodes, at least 0, as of the normalised hierarchical SVM. Default: 1.
    paths : {"union", "average"}
        What a leaf of a DAG scores. "union": itself and all its ancestors, each once. "average": the mean over all ways
        down to it, where an ancestor counts by the share of the ways that visit it (BMRM Algorithm 12, as `Ontology`).
    sample_weight : array of shape (m,), optional
        Weights of the examples in the mean, not negative; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.risks.crf import PathSoftmax
    >>> h = so.Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
    >>> risk = PathSoftmax([[1.0]], ["cat"], h)
    >>> value, gradient = risk(np.zeros(5))
    >>> round(value, 6), gradient.round(4) + 0                 # thing, animal, oak, cat, dog
    (1.098612, array([ 0.    , -0.3333,  0.3333, -0.6667,  0.3333]))
    """

    is_smooth = True

    @checked
    def __init__(
        self,
        X: Any,
        y: Sequence[Hashable],
        hierarchy: Hierarchy,
        alpha: Any = None,
        *,
        paths: Literal["union", "average"] = "union",
        sample_weight: Any = None,
    ) -> None:
        super().__init__(X, sample_weight)
        self.hierarchy = hierarchy
        self.y = _leaf_numbers(y, hierarchy, len(self))
        phi = hierarchy.closure if paths == "union" else _average_paths(hierarchy)
        if alpha is not None:
            weights = finite_vector(alpha, "alpha", len(hierarchy), type(self).__name__)
            if np.any(weights < 0.0):
                raise DeclarationError("PathSoftmax: alpha weighs nodes and must not be negative.")
            phi = sp.csr_array(phi * np.sqrt(weights))
        self._paths, self._nodes = phi, sp.csr_array(phi.T)
        self._set_outputs(len(hierarchy))

    def leaf_scores(self, f: FloatArray) -> FloatArray:
        """Scores of the leaves (m, n_leaves) from those of the nodes.

        Parameters
        ----------
        f : ndarray
            Predictions of the nodes.

        Returns
        -------
        ndarray
        """
        return np.asarray((self._paths @ f.T).T)

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        F = self.leaf_scores(f)
        rows = np.arange(len(F))
        log_z = logsumexp(F, axis=1)
        values = log_z - F[rows, self.y]
        share = np.exp(F - log_z[:, None])
        share[rows, self.y] -= 1.0
        return self._mean(values, np.asarray((self._nodes @ share.T).T))


def _average_paths(hierarchy: Hierarchy) -> sp.csr_array:
    """Row of each leaf: of every node the share of the ways from a root to the leaf that visit it."""
    above = object()  # one root above all of them, so that each root is a node like any other
    nodes, shares, _ = path_shares([*((above, root) for root in hierarchy.roots), *hierarchy.edges])
    order = np.argsort(hierarchy.indices(nodes))
    return sp.csr_array(sp.csr_array(shares[order])[:, order][hierarchy.leaf_index])


def _leaf_numbers(y: Any, hierarchy: Hierarchy, length: int) -> IntArray:
    names = y.tolist() if isinstance(y, np.ndarray) else list(y)
    if len(names) != length:
        raise DeclarationError(f"PathSoftmax: {len(names)} labels for {length} rows of X.")
    nodes = hierarchy.indices(names)
    inner = np.flatnonzero(~hierarchy.is_leaf[nodes])
    if inner.size:
        text = f"y[{int(inner[0])}] = {names[inner[0]]!r} is not a leaf"
        message = f"PathSoftmax: {text} ({inner.size} such in all); a path ends in a leaf."
        raise LabelNotInSpace(message, (text,), tuple(inner.tolist()))
    return np.asarray(np.searchsorted(hierarchy.leaf_index, nodes), dtype=np.int64)

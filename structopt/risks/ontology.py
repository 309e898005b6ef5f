"""Classification into the nodes of a directed acyclic graph, BMRM Algorithm 12."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from structopt.checks import checked, hashable
from structopt.errors import DeclarationError
from structopt.hierarchy.input import edge_pairs, number_names
from structopt.risks._features import FloatArray
from structopt.risks.vector import Multiclass

__all__ = ["Ontology", "path_shares"]


class Ontology(Multiclass):
    """Soft-margin risk over labels that are nodes of a rooted DAG.

    ``mean max_k <W phi(k), x> + delta[y, k] - <W phi(y), x>``, where component v of ``phi(k)`` is the share of the
    root-to-k paths that visit node v (in a tree: 1 on the path). The root has no component.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : sequence of length m
        Names of the true labels.
    edges : iterable of (parent, child)
        The graph, with one root; any object with an attribute `edges` will do.
    labels : sequence, optional
        Nodes that are labels. Default: the leaves, in the order of first appearance.
    delta : array of shape (n_labels, n_labels) or "path", optional
        Cost of answering k where y is true. "path" is the distance ``||phi(y) - phi(k)||_1``. Default: 1 for k != y.
    gamma : array of shape (n_labels, n_labels) or "delta", optional
        Scale of the margins. Default: 1.
    sample_weight : array of shape (m,), optional
        Weights of the examples in the mean, not negative; equal by default.

    Attributes
    ----------
    nodes : tuple
        Nodes without the root: the order of the rows of ``w.reshape(n_nodes, d)``.
    labels : tuple
        Labels, in the order of `delta`.
    paths : sparse array of shape (n_labels, n_nodes)
        The vectors phi.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Ontology
    >>> risk = Ontology([[1.0], [2.0]], ["cat", "oak"], [("root", "animal"), ("animal", "cat"), ("animal", "dog"),
    ...                                                  ("root", "oak")])
    >>> risk.labels
    ('cat', 'dog', 'oak')
    >>> value, subgradient = risk(np.zeros(4))
    >>> value, risk.nodes, subgradient
    (1.0, ('animal', 'cat', 'dog', 'oak'), array([ 1. ,  0.5,  0.5, -1. ]))
    """

    _parameters: ClassVar[tuple[str, ...]] = ("n_labels",)

    @checked
    def __init__(
        self,
        X: Any,
        y: Sequence[Hashable],
        edges: Any,
        labels: Sequence[Hashable] | None = None,
        delta: Any = None,
        gamma: Any = None,
        *,
        sample_weight: Any = None,
    ) -> None:
        self.nodes, shares, leaves = path_shares(getattr(edges, "edges", edges))
        self.labels = tuple(leaves if labels is None else labels)
        position = {node: v for v, node in enumerate(self.nodes)}
        unknown = [label for label in self.labels if label not in position]
        if unknown:
            raise DeclarationError(f"Ontology: label {unknown[0]!r} is not a node below the root.")
        self.paths = sp.csr_array(shares[[position[label] for label in self.labels]])
        if isinstance(delta, str):
            delta = self._path_distance(delta)
        super().__init__(X, self._codes(y), delta, gamma, n_classes=len(self.labels), sample_weight=sample_weight)
        self._set_outputs(len(self.nodes))

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        value, derivative = super().loss(self._label_scores(f))
        # Two labels per example at most: the product back to the nodes is sparse.
        return value, np.asarray((sp.csr_array(derivative) @ self.paths).todense())

    def line_step(self, f: FloatArray, df: FloatArray, slope: float, curvature: float) -> float:
        return super().line_step(self._label_scores(f), self._label_scores(df), slope, curvature)

    def _label_scores(self, f: FloatArray) -> FloatArray:
        return np.asarray((self.paths @ f.T).T)

    def _codes(self, y: Sequence[Hashable]) -> list[int]:
        code = {label: k for k, label in enumerate(self.labels)}
        if len(code) != len(self.labels):
            raise DeclarationError("Ontology: a label is listed twice.")
        names = [label.item() if isinstance(label, np.generic) else label for label in y]
        for i, name in enumerate(names):
            if hashable(f"Ontology: y[{i}]", name) not in code:
                raise DeclarationError(f"Ontology: y[{i}] is {name!r}, which is not one of the {len(code)} labels.")
        return [code[name] for name in names]

    def _path_distance(self, delta: str) -> FloatArray:
        if delta != "path":
            raise DeclarationError(f"Ontology: delta must be a table or 'path', got {delta!r}.")
        dense = self.paths.toarray()
        return np.array([np.abs(dense - row).sum(axis=1) for row in dense])


@checked
def path_shares(
    edges: Iterable[tuple[Hashable, Hashable]],
) -> tuple[tuple[Hashable, ...], sp.csr_array, list[Hashable]]:
    """Share of the root-to-node paths that visit each node.

    Returns
    -------
    nodes : tuple
        Nodes without the root, in order of first appearance.
    shares : sparse array of shape (n_nodes, n_nodes)
        Row u, column v: the share of the paths to u that visit v.
    leaves : list
        Nodes without children.

    Examples
    --------
    docs/mathematics/risks#ontology; parents weigh by their number of paths, not equally:

    >>> from structopt.risks.ontology import path_shares
    >>> nodes, shares, leaves = path_shares([(1, 2), (1, 3), (2, 4), (2, 5), (3, 5), (4, 6), (5, 6)])
    >>> nodes, shares.toarray()[nodes.index(6)].round(4), leaves
    ((2, 3, 4, 5, 6), array([0.6667, 0.3333, 0.3333, 0.6667, 1.    ]), [6])
    """
    given = [(parent, child) for parent, child in edge_pairs(edges)]
    number_names([node for pair in given for node in pair], given)  # names that cannot be names are refused
    pairs = list(dict.fromkeys(given))
    names = list(dict.fromkeys(node for pair in pairs for node in pair))
    parents: dict[Hashable, list[Hashable]] = {node: [] for node in names}
    for parent, child in pairs:
        parents[child].append(parent)
    roots = [node for node in names if not parents[node]]
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        raise DeclarationError(f"Ontology: the edges have a cycle: {' -> '.join(map(repr, error.args[1]))}.") from error
    if len(roots) != 1:
        raise DeclarationError(
            f"Ontology: the graph needs one root; it has {len(roots)}: {roots[:5]!r}. Add a common parent."
        )
    nodes = tuple(node for node in names if node != roots[0])
    column = {node: v for v, node in enumerate(nodes)}
    n_paths: dict[Hashable, int] = {roots[0]: 1}  # exact: path counts grow exponentially
    share: dict[Hashable, dict[int, float]] = {roots[0]: {}}
    for node in order:
        if node == roots[0]:
            continue
        n_paths[node] = sum(n_paths[parent] for parent in parents[node])
        row: dict[int, float] = {column[node]: 1.0}
        for parent in parents[node]:
            weight = n_paths[parent] / n_paths[node]
            for v, value in share[parent].items():
                row[v] = row.get(v, 0.0) + weight * value
        share[node] = row
    rows = [(column[node], v, value) for node in nodes for v, value in share[node].items()]
    i, j, values = zip(*rows, strict=True)
    shares = sp.csr_array((values, (i, j)), shape=(len(nodes), len(nodes)))
    with_children = {parent for parent, _ in pairs}
    return nodes, shares, [node for node in nodes if node not in with_children]

"""Measures of predictions: exact match, label loss, F1 by labels, along a hierarchy and by entities, hierarchical loss.

Labels come as 0/1 matrices (dense or sparse, a row an example), as names, or as collections of names. With a
`Hierarchy` names stand for themselves and all their ancestors, and a matrix has a column for each of
``hierarchy.nodes``. Measures that scikit-learn has are computed by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn import metrics as skm

from structopt.checks import checked, converted, hashable, sequence
from structopt.errors import DeclarationError
from structopt.features import n_examples
from structopt.hierarchy import Hierarchy
from structopt.hierarchy.input import node_values
from structopt.losses import HierarchicalLoss
from structopt.structures.node_labels import LabelCodec

__all__ = [
    "EntityScores",
    "accuracy",
    "entity_f1",
    "entity_scores",
    "hierarchical_f1",
    "hierarchical_loss",
    "jaccard",
    "label_loss",
    "macro_f1",
    "micro_f1",
]

Nodes = Literal["all", "leaves"]


@checked
def accuracy(y_true: Any, y_pred: Any, hierarchy: Hierarchy | None = None) -> float:
    """Fraction of examples whose whole label is right (exact match).

    Parameters
    ----------
    y_true, y_pred : 0/1 matrices, names or collections of names
    hierarchy : Hierarchy, optional

    Returns
    -------
    float

    Examples
    --------
    >>> from structopt import metrics
    >>> metrics.accuracy([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.5
    >>> metrics.accuracy(["cat", "dog"], ["cat", "cat"])
    0.5
    """
    truth, guess = _pair(y_true, y_pred, hierarchy)
    differs = abs(truth - guess).sum(axis=1)
    return float(np.mean(np.asarray(differs).ravel() == 0))


class EntityScores(NamedTuple):
    """Precision, recall and F1 of whole entities, and how many there are; see `entity_scores`."""

    precision: float
    recall: float
    f1: float
    n_true: int
    n_predicted: int
    n_right: int


@checked
def entity_scores(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]) -> EntityScores:
    """Precision, recall and F1 of the entities that tags mark, counted over all sentences (as ``conlleval`` does).

    An entity is right if its first token, its last token and its kind are. Tags of most sentences are ``O``, so that
    tags that mark nothing at all have a high share of right tokens and an F1 of 0.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        Tags ``B-PER``, ``I-PER``, ``O`` of each sentence; ``E-`` and ``L-`` end an entity, ``S-`` and ``U-`` are one
        of a single token. ``I-PER`` after another kind begins an entity. An empty denominator counts as 0.

    Returns
    -------
    EntityScores
        ``precision, recall, f1, n_true, n_predicted, n_right``.

    Examples
    --------
    >>> from structopt import metrics
    >>> truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"]]
    >>> metrics.entity_scores(truth, [["B-PER", "O", "O", "B-LOC"], ["O", "O"]])
    EntityScores(precision=0.5, recall=0.5, f1=0.5, n_true=2, n_predicted=2, n_right=1)
    >>> metrics.entity_scores(truth, [["O"] * 4, ["O", "O"]]).f1
    0.0
    """
    if len(y_true) != len(y_pred):
        raise DeclarationError(f"y_true has {len(y_true)} sentences, y_pred {len(y_pred)}.")
    n_true = n_predicted = n_right = 0
    for k, (truth, guess) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(truth) != len(guess):
            raise DeclarationError(f"Sentence {k}: y_true has {len(truth)} tags, y_pred {len(guess)}.")
        wanted, found = _entities(truth), _entities(guess)
        n_true += len(wanted)
        n_predicted += len(found)
        n_right += len(wanted & found)
    precision = n_right / n_predicted if n_predicted else 0.0
    recall = n_right / n_true if n_true else 0.0
    f1 = 2 * n_right / (n_true + n_predicted) if n_right else 0.0
    return EntityScores(precision, recall, f1, n_true, n_predicted, n_right)


@checked
def entity_f1(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]) -> float:
    """The F1 of `entity_scores`.

    Parameters
    ----------
    y_true : list of lists of str
    y_pred : list of lists of str

    Returns
    -------
    float

    Examples
    --------
    >>> from structopt import metrics
    >>> metrics.entity_f1([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O"]])
    1.0
    """
    return entity_scores(y_true, y_pred).f1


def _entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Kind, first token and the token after the last of every entity."""
    found = set()
    begin, kind = -1, ""  # of the entity that is open, if begin >= 0
    for t, tag in enumerate([*map(str, tags), "O"]):
        prefix, _, name = tag.partition("-")
        goes_on = begin >= 0 and prefix in ("I", "E", "L") and name == kind
        if begin >= 0 and not goes_on:
            found.add((kind, begin, t))
            begin = -1
        if not goes_on and prefix in ("B", "I", "E", "L", "S", "U") and name:
            begin, kind = t, name
        if begin >= 0 and prefix in ("E", "L", "S", "U"):
            found.add((kind, begin, t + 1))
            begin = -1
    return found


@checked
def jaccard(y_true: Any, y_pred: Any, hierarchy: Hierarchy | None = None, *, nodes: Nodes = "all") -> float:
    """Mean over the examples of ``|both| / |either|``, the "accuracy" of much of the multi-label literature.

    Two empty labels agree: 1.

    Parameters
    ----------
    y_true, y_pred, hierarchy
        As for `accuracy`.
    nodes : {"all", "leaves"}
        Which nodes of the hierarchy are compared.

    Returns
    -------
    float

    Examples
    --------
    >>> from structopt import metrics
    >>> metrics.jaccard([{"a", "b"}, {"c"}], [{"a"}, {"c"}])
    0.75
    """
    truth, guess = _pair(y_true, y_pred, hierarchy, nodes)
    both = np.asarray(truth.multiply(guess).sum(axis=1)).ravel()
    either = np.asarray((truth + guess).sum(axis=1)).ravel() - both
    return float(np.mean(np.where(either > 0, both / np.maximum(either, 1), 1.0)))


@checked
def label_loss(y_true: Any, y_pred: Any, hierarchy: Hierarchy | None = None, *, nodes: Nodes = "all") -> float:
    """Fraction of wrong entries over all examples and labels: the Hamming loss.

    Parameters
    ----------
    y_true, y_pred, hierarchy
        As for `accuracy`.
    nodes : {"all", "leaves"}
        Which nodes of the hierarchy are counted; AISTATS16 counts inner nodes, too.

    Returns
    -------
    float

    Examples
    --------
    >>> from structopt import metrics
    >>> metrics.label_loss([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.25
    """
    truth, guess = _pair(y_true, y_pred, hierarchy, nodes)
    return float(skm.hamming_loss(*_targets(truth, guess)))


@checked
def micro_f1(
    y_true: Any, y_pred: Any, hierarchy: Hierarchy | None = None, *, nodes: Nodes = "all", zero_division: float = 0.0
) -> float:
    """F1 of all entries together (MiF1).

    Parameters
    ----------
    y_true, y_pred, hierarchy, nodes
        As for `label_loss`.
    zero_division : float
        The value if there is nothing to find and nothing was predicted.

    Returns
    -------
    float

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import metrics
    >>> h = so.Hierarchy([("animal", "cat"), ("animal", "dog")])
    >>> truth, guess = ["cat", "dog"], ["cat", "cat"]
    >>> metrics.micro_f1(truth, guess, h), metrics.micro_f1(truth, guess, h, nodes="leaves")
    (0.75, 0.5)
    """
    truth, guess = _pair(y_true, y_pred, hierarchy, nodes)
    return _f1(truth, guess, "micro", zero_division)


@checked
def macro_f1(
    y_true: Any,
    y_pred: Any,
    hierarchy: Hierarchy | None = None,
    *,
    over: Literal["labels", "examples"] = "labels",
    nodes: Nodes = "all",
    zero_division: float = 0.0,
) -> float:
    """Mean F1 over the labels (MaF1), or over the examples.

    Parameters
    ----------
    y_true, y_pred, hierarchy, nodes
        As for `label_loss`.
    over : {"labels", "examples"}
        Columns or rows. Of labels only those that occur in the ground truth or the prediction count.
    zero_division : float
        The F1 of an example with nothing to find and nothing predicted.

    Returns
    -------
    float

    Examples
    --------
    >>> from structopt import metrics
    >>> metrics.macro_f1([[1, 0], [1, 1]], [[1, 0], [0, 1]]).__round__(4)
    0.8333
    """
    truth, guess = _pair(y_true, y_pred, hierarchy, nodes)
    if over == "examples":
        return _f1(truth.T, guess.T, "macro", zero_division)
    if over != "labels":
        raise DeclarationError(f"over must be 'labels' or 'examples', got {over!r}.")
    seen = np.flatnonzero(np.asarray((truth + guess).sum(axis=0)).ravel())
    if not seen.size:
        return float(zero_division)
    return _f1(truth[:, seen], guess[:, seen], "macro", zero_division)


@checked
def hierarchical_f1(
    y_true: Any, y_pred: Any, hierarchy: Hierarchy, *, root: bool = False, zero_division: float = 0.0
) -> float:
    """Micro F1 of labels completed by all their ancestors (Kiritchenko et al.).

    Parameters
    ----------
    y_true, y_pred : 0/1 matrices over the nodes, names or collections of names
    hierarchy : Hierarchy
    root : bool
        Whether a single root counts; every non-empty label has it.
    zero_division : float
        The value if there is nothing to find and nothing was predicted.

    Returns
    -------
    float

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import metrics
    >>> h = so.Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
    >>> metrics.hierarchical_f1(["cat", "oak"], ["dog", "oak"], h).__round__(4)
    0.6667
    """
    truth, guess = _pair(y_true, y_pred, _needed(hierarchy, "hierarchical_f1"))
    if not root and hierarchy.root_index.size == 1 and len(hierarchy) > 1:
        kept = np.flatnonzero(np.arange(len(hierarchy)) != hierarchy.root_index[0])
        truth, guess = truth[:, kept], guess[:, kept]
    return _f1(truth, guess, "micro", zero_division)


@checked
def hierarchical_loss(y_true: Any, y_pred: Any, hierarchy: Hierarchy, *, weights: Any = None) -> float:
    """Mean weighted number of mistakes at nodes whose ancestors are all right (ECRM 3.0.1).

    Parameters
    ----------
    y_true, y_pred : 0/1 matrices over the nodes, names or collections of names
    hierarchy : Hierarchy
    weights : "sibling", "uniform", array_like or mapping, optional
        As for `HierarchicalLoss`; "sibling" by default on trees, where alone it is defined, and "uniform" on DAGs.

    Returns
    -------
    float

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import metrics
    >>> h = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
    >>> metrics.hierarchical_loss([[1, 1, 0, 1, 0]], [[1, 0, 1, 0, 0]], h)
    1.0
    """
    truth, guess = _pair(y_true, y_pred, _needed(hierarchy, "hierarchical_loss"))
    cost = _weights(hierarchy, weights)
    wrong = abs(truth - guess)
    wrong.eliminate_zeros()
    places = np.arange(len(hierarchy))
    above = hierarchy.ancestor_rows(np.arange(places.size + 1), places)
    # Row n of `above` has n itself, which is wrong here: a mistake counts if no other ancestor is.
    counted = sp.csr_array((wrong @ above.T).multiply(wrong))
    charged = np.where(counted.data == 1, cost[counted.indices], 0.0)
    return float(charged.sum() / truth.shape[0])


def _weights(hierarchy: Hierarchy, weights: Any) -> npt.NDArray[np.float64]:
    if weights is None:
        weights = "sibling" if hierarchy.is_tree else "uniform"
    if isinstance(weights, str) and weights == "uniform":
        return np.ones(len(hierarchy))
    if isinstance(weights, str):
        return HierarchicalLoss(hierarchy, weights).weights_
    return node_values(hierarchy, weights, "weights")


def _needed(hierarchy: Any, name: str) -> Hierarchy:
    if not isinstance(hierarchy, Hierarchy):
        raise DeclarationError(f"{name} needs a structopt.Hierarchy, got {type(hierarchy).__name__}.")
    return hierarchy


def _f1(truth: sp.csr_array, guess: sp.csr_array, average: str, zero_division: float) -> float:
    # scikit-learn takes a single column for classes 0 and 1, of which "micro" would count both.
    average = "binary" if truth.shape[1] == 1 else average
    return float(skm.f1_score(*_targets(truth, guess), average=average, zero_division=zero_division))


def _targets(truth: sp.csr_array, guess: sp.csr_array) -> tuple[Any, Any]:
    """What scikit-learn takes: it refuses sparse matrices of one column."""
    if truth.shape[1] > 1:
        return truth, guess
    return truth.toarray().ravel(), guess.toarray().ravel()


def _pair(
    y_true: Any, y_pred: Any, hierarchy: Hierarchy | None, nodes: Nodes = "all"
) -> tuple[sp.csr_array, sp.csr_array]:
    """Ground truths and predictions as sparse 0/1 matrices with the same columns."""
    y_true, y_pred = sequence("y_true", y_true), sequence("y_pred", y_pred)
    n, m = n_examples(y_true), n_examples(y_pred)
    if n != m or not n:
        raise DeclarationError(f"{n} true labels and {m} predicted ones; both need one for each example.")
    if nodes not in ("all", "leaves"):
        raise DeclarationError(f"nodes must be 'all' or 'leaves', got {nodes!r}.")
    if hierarchy is not None:
        codec = LabelCodec(_needed(hierarchy, "This measure"), "closure", complete=True)
        rows = [sp.csr_array(codec.encode_many(y, n)).astype(np.int64) for y in (y_true, y_pred)]
        kept = hierarchy.leaf_index if nodes == "leaves" else slice(None)
        return rows[0][:, kept], rows[1][:, kept]
    matrices = _is_matrix(y_true), _is_matrix(y_pred)
    if all(matrices):
        truth, guess = _matrix(y_true, "y_true"), _matrix(y_pred, "y_pred")
        if truth.shape != guess.shape:
            raise DeclarationError(f"y_true has shape {truth.shape} and y_pred {guess.shape}.")
        return truth, guess
    if any(matrices):
        matrix, other = (("y_true", y_true), "y_pred") if matrices[0] else (("y_pred", y_pred), "y_true")
        if not _is_listed_names(*matrix):
            raise DeclarationError(
                f"{matrix[0]} is a matrix with a column for each label and {other} is not; give both as 0/1 matrices, "
                "or both as names."
            )
    return _named(y_true, y_pred)


def _is_matrix(y: Any) -> bool:
    if sp.issparse(y):
        return True
    if isinstance(y, np.ndarray) or hasattr(y, "to_numpy"):
        return bool(y.ndim == 2)
    rows = list(y)
    numbers = int | float | np.number | np.bool_
    return all(isinstance(row, list | tuple | np.ndarray) for row in rows) and all(
        isinstance(entry, numbers) for entry in rows[0]
    )


def _is_listed_names(what: str, y: Any) -> bool:
    """Whether lists of numbers can only be collections of names: of different lengths, or not 0/1."""
    if not isinstance(y, list | tuple):
        return False
    try:
        _matrix(y, what)
    except DeclarationError:
        return True
    return False


def _matrix(y: Any, what: str) -> sp.csr_array:
    dense = y.to_numpy() if hasattr(y, "to_numpy") else y
    try:
        # A copy: the caller's matrix must not change.
        rows = sp.csr_array(dense, copy=True) if sp.issparse(dense) else sp.csr_array(converted(what, dense))
    except (DeclarationError, ValueError, TypeError):
        raise DeclarationError(f"{what} is not a 0/1 matrix; rows have different lengths or other entries.") from None
    rows.eliminate_zeros()
    if not (rows.data == 1).all():
        odd = rows.data[rows.data != 1][0]
        raise DeclarationError(f"{what} has the entry {odd}; a matrix of labels is 0/1.")
    return rows.astype(np.int64)


def _named(y_true: Any, y_pred: Any) -> tuple[sp.csr_array, sp.csr_array]:
    """Names, or collections of names, over all names that occur."""
    sides = [[_names(label) for label in (y.tolist() if hasattr(y, "tolist") else y)] for y in (y_true, y_pred)]
    place: dict[Any, int] = {}
    for side in sides:
        for names in side:
            for name in names:
                place.setdefault(name, len(place))
    matrices = []
    for side in sides:
        ptr = np.concatenate([[0], np.cumsum([len(names) for names in side])])
        indices = np.array([place[name] for names in side for name in names], dtype=np.int64)
        shape = (len(side), max(1, len(place)))
        matrices.append(sp.csr_array((np.ones(indices.size, np.int64), indices, ptr), shape=shape))
    return matrices[0], matrices[1]


def _names(label: Any) -> Sequence[Any]:
    if isinstance(label, str | bytes) or not isinstance(label, Iterable):
        return [label]
    return list(dict.fromkeys(hashable("A name in a label", name) for name in label))

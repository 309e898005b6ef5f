"""What the hierarchical estimators share: reading a hierarchy, checked data, training, prediction in chunks."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from structopt import metrics
from structopt._jit.csr import checked_csr
from structopt.checks import check_parameters, instance, shown
from structopt.errors import DeclarationError, marked, numbered
from structopt.estimators._base import append_constant
from structopt.estimators._fitting import Fitting, Rows, lazily, taken, used_examples, validated
from structopt.estimators._labels import name_array
from structopt.estimators._memory_plan import Plan
from structopt.estimators.persistence import Persistent, check_linear
from structopt.frames import plain_inputs, plain_labels
from structopt.hierarchy import Hierarchy
from structopt.losses import Hamming, LeafHamming, Normalized, TaskLoss
from structopt.risks.structured import StructuredRisk
from structopt.space.compiled import FloatArray
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.surrogates.base import Surrogate
from structopt.train.result import TrainResult

__all__ = ["Divided", "DividedLabels", "HierarchicalEstimator", "Partition", "as_hierarchy", "node_model", "task_loss"]

_log = logging.getLogger(__name__)

# Scores of this many nodes and examples are made at a time in predictions: 64 MB.
_CHUNK_ENTRIES = 1 << 23

Kind = Literal["leaf", "leaves", "closure"]


def as_hierarchy(given: Any) -> Hierarchy:
    """A `Hierarchy` from what users have: one, edges, a nested dict, label paths "a/b/c" or a networkx ``DiGraph``.

    Examples
    --------
    >>> as_hierarchy({"animal": ["cat", "dog"]})
    <Hierarchy: tree of 3 nodes, 2 leaves, depth 1>
    >>> as_hierarchy(["animal/cat", "animal/dog"]).nodes
    ('animal', 'animal/cat', 'animal/dog')
    >>> as_hierarchy([("animal", "cat"), ("animal", "dog")]).leaves
    ('cat', 'dog')
    """
    if isinstance(given, Hierarchy):
        return given
    if isinstance(given, Mapping):
        return Hierarchy.from_dict(given)
    if hasattr(given, "is_directed"):
        return Hierarchy.from_networkx(given)
    if isinstance(given, np.ndarray):
        given = [tuple(row) for row in given.tolist()] if given.ndim == 2 else given.tolist()
    if not isinstance(given, list | tuple | set | frozenset):
        raise DeclarationError(
            "hierarchy must be a Hierarchy, a list of (parent, child) edges, a nested dict, a list of paths such as "
            f"'a/b/c' or a networkx DiGraph; got {type(given).__name__}."
        )
    if given and all(isinstance(item, str) for item in given):
        return Hierarchy.from_paths(given)
    return Hierarchy(given)


class Examples(NamedTuple):
    """Examples to train on: features, labels as sparse rows over the nodes, weights, and their numbers (None: all).

    The constant feature of sparse `X` is its last column. Of dense `X` the model appends it, in the trainer's copy.
    """

    X: Any
    labels: sp.csr_array
    weights: FloatArray | None
    rows: Rows | None


class HierarchicalEstimator(Fitting, Persistent, BaseEstimator):
    """Node scores ``coef_ x + intercept_`` and the best label of a hierarchy under their sum."""

    hierarchy: Any
    kind: Kind
    solver: Any
    intercept: bool
    dtype: Any
    n_jobs: int

    hierarchy_: Hierarchy
    alpha_: FloatArray
    coef_: Any
    intercept_: FloatArray
    unseen_nodes_: tuple[Hashable, ...]
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if self.kind == "leaf":  # labels of the other kinds are sets, which scikit-learn's classifiers do not take
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags()
        return tags

    @property
    def _width(self) -> int:
        """Number of weights of a node."""
        return self.n_features_in_ + bool(self.intercept)

    @property
    def _root_is_decided(self) -> bool:
        """Whether labels with and without a single root exist, so the root needs a weight."""
        return self.kind == "closure"

    # ---- data ------------------------------------------------------------------------------------

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        """Return the examples of positive weight, checked."""
        self._read_hierarchy()
        if y is None:
            raise DeclarationError(f"{type(self).__name__} needs labels: fit(X, y).")
        X = self._features(X, reset=True)
        labels = HierarchicalLabels(self.hierarchy_, self.kind).codec.encode_many(plain_labels(y), X.shape[0])
        rows, weights = used_examples(sample_weight, X.shape[0], self)
        X, labels = taken(X, rows), taken(labels, rows)
        self._begin_fit()
        self._report_unseen(labels)
        if sp.issparse(X):
            X = append_constant(X, float(self.intercept))
        return Examples(X, labels, weights, rows)

    def _read_hierarchy(self) -> None:
        """Check the parameters, and keep the hierarchy."""
        check_parameters(self)
        self._check_dtype()
        hierarchy = as_hierarchy(self.hierarchy)
        self._refuse_other("hierarchy", *_edges(self.__dict__.get("hierarchy_"), hierarchy))
        self.hierarchy_ = hierarchy

    def _check_dtype(self) -> None:
        if not any(
            self.dtype is kind or (isinstance(self.dtype, str | np.dtype) and self.dtype == kind.__name__)
            for kind in (np.float64, np.float32, float)
        ):
            raise DeclarationError(f"dtype must be float64 or float32, got {shown(self.dtype)}.")

    def _features(self, X: Any, reset: bool) -> Any:
        dtype: Any = np.dtype(self.dtype)
        if dtype == np.float64 and not sp.issparse(X):
            dtype = [np.float64, np.float32]  # the trainer's copy is float64: another one is not needed
        X = validated(self, X, reset=reset, accept_sparse="csr", dtype=dtype, ensure_all_finite=False)
        data = X.data if sp.issparse(X) else X
        if not np.isfinite(data).all():
            dense = np.isfinite(X).all(axis=1) if not sp.issparse(X) else None
            place = int(np.argmin(dense)) if dense is not None else _row_of(X, int(np.argmin(np.isfinite(data))))
            raise DeclarationError(
                f"The features of example {marked(place)} contain NaN or infinity; impute or drop it first."
            )
        return checked_csr(X, "X", X.dtype) if sp.issparse(X) else X

    def _report_unseen(self, labels: sp.csr_array) -> None:
        seen = np.zeros(len(self.hierarchy_), np.bool_)
        seen[labels.indices] = True
        unseen = [self.hierarchy_.nodes[k] for k in np.flatnonzero(~seen).tolist()]
        self.unseen_nodes_ = tuple(unseen)
        if unseen:
            text = ", ".join(map(repr, unseen[:5])) + (", ..." if len(unseen) > 5 else "")
            warnings.warn(
                f"{len(unseen)} of {len(seen)} nodes have no training example: {text} (all in unseen_nodes_).",
                UserWarning,
                stacklevel=4,
            )

    def _tell(self, message: str) -> None:
        _log.info(message)
        if self.verbose:
            print(message)

    # ---- training --------------------------------------------------------------------------------

    def _train(
        self,
        plan: Plan,
        model: HierarchicalLabels,
        data: Examples,
        start: FloatArray | None = None,
    ) -> tuple[Any, TrainResult]:
        """Node weights (nodes, features) and the result of the run, which may begin at some weights."""
        with numbered(range(data.X.shape[0]) if data.rows is None else data.rows):
            return self._train_on(plan, model, data, start)

    def _train_on(
        self, plan: Plan, model: HierarchicalLabels, data: Examples, start: FloatArray | None
    ) -> tuple[Any, TrainResult]:
        """`_train` without the numbers of the examples in the data set."""
        X, labels, weights, _ = data
        surrogate: Any = Divided() if isinstance(model, DividedLabels) else "margin"
        risk = StructuredRisk(model, X, labels, surrogate, n_jobs=self.n_jobs, sample_weight=weights)
        options: dict[str, Any] = {}
        if plan.trainer.name == "hierarchical_sgd":
            # Every node has the constant, also one without examples: it must be able to lose.
            everywhere = [self.n_features_in_] if self.intercept else []
            options = {"support": plan.support, "everywhere": everywhere, "dtype": np.dtype(self.dtype)}
        result = self._minimise(risk, plan.trainer, start=start, **options)
        if plan.support == "all":
            return result.w.reshape(len(model.hierarchy), -1), result
        info = dict(result.info)
        return info.pop("pattern").matrix(result.w), replace(result, info=info)

    # ---- weights ---------------------------------------------------------------------------------

    def _keep(self, W: Any, result: TrainResult) -> None:
        """Node weights W (nodes, features) of the scaled attributes, as coefficients of the nodes' scores."""
        self._keep_result(result)
        factor = np.sqrt(self.alpha_)
        if sp.issparse(W):
            U = W.tocsc()
            U = sp.csc_array(((U.data * factor[U.indices]).astype(self.dtype), U.indices, U.indptr), shape=U.shape)
            self.intercept_ = np.zeros(U.shape[0])
            if self.intercept:
                self.intercept_ = U[:, [-1]].toarray().ravel().astype(np.float64)
            self.coef_ = sp.csr_array(U[:, : self.n_features_in_])
        else:
            self.intercept_ = np.array(W[:, -1] * factor) if self.intercept else np.zeros(len(factor))
            # Feature by feature in memory: the product with a sparse X reads it so.
            U = np.multiply(W[:, : self.n_features_in_].T, factor, order="C", dtype=np.dtype(self.dtype))
            self.coef_ = U.T

    # ---- use -------------------------------------------------------------------------------------

    def _check_restored(self) -> None:
        self._check_dtype()
        check_linear(self, len(instance("hierarchy_", getattr(self, "hierarchy_", None), Hierarchy)))

    def _chunks(self, X: Any) -> Iterator[FloatArray]:
        """Yield the scores of the nodes, for some inputs at a time."""
        check_is_fitted(self, "coef_")
        X = self._features(X, reset=False)
        width = max(1, _CHUNK_ENTRIES // len(self.hierarchy_))
        for at in range(0, X.shape[0], width):
            with numbered(range(at, min(at + width, X.shape[0]))), np.errstate(over="ignore", invalid="ignore"):
                scores = self._scores(X[at : at + width])
            yield scores

    def _scores(self, X: Any) -> FloatArray:
        product = X @ self.coef_.T
        dense = product.toarray() if sp.issparse(product) else np.asarray(product)
        scores = np.asarray(dense + self.intercept_, dtype=np.float64)
        if not np.isfinite(scores.sum()) and not np.isfinite(scores).all():
            i, node = np.argwhere(~np.isfinite(scores))[0]
            raise DeclarationError(
                f"The score of node {self.hierarchy_.nodes[node]!r} for example {marked(i)} is {scores[i, node]}: its "
                "features are too large for the weights."
            )
        return scores

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the nodes, ``(n_samples, n_nodes)``; a label's score is the sum over its nodes."""
        return np.concatenate(list(self._chunks(X)))

    def predict_nodes(self, X: Any) -> sp.csr_array:
        """The best label of every input as a sparse 0/1 matrix ``(n_samples, n_nodes)``, whatever the kind."""
        model = self._predictor()
        rows = []
        for scores in self._chunks(X):
            batch = model.batch(np.zeros((len(scores), 1)))  # the scores are known; it needs the examples only
            found, _ = batch.argmax([scores], n_jobs=self.n_jobs)
            rows.append(found.tables[0])
        found = sp.csr_array(sp.vstack(rows, format="csr"))
        found.data = np.rint(found.data)
        return found

    def _predictor(self) -> HierarchicalLabels:
        """A model whose objective coefficients are the node scores themselves: `coef_` holds the factors already."""
        check_is_fitted(self, "coef_")
        return HierarchicalLabels(self.hierarchy_, self.kind, solver=self.solver)

    @lazily
    def predict(self, X: Any) -> Any:
        """The best label of every input: an array of leaves, a list of sets of leaves, or a 0/1 matrix over the nodes.

        Sets of leaves on a DAG come from the LP, and from the MIP where the LP is fractional.
        """
        rows = self.predict_nodes(X)
        if self.kind == "closure":
            return rows.toarray().astype(int)
        labels = HierarchicalLabels(self.hierarchy_, self.kind).codec.decode_many(rows)
        return name_array(labels) if self.kind == "leaf" else labels

    def score(self, X: Any, y: Any) -> float:
        """Accuracy: the share of examples whose whole label is right, as scikit-learn has it for sets of labels."""
        predicted = self.predict_nodes(X)
        truth = HierarchicalLabels(self.hierarchy_, self.kind).codec.encode_many(plain_labels(y), predicted.shape[0])
        return metrics.accuracy(truth, predicted, self.hierarchy_)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The leaves, in the order of ``hierarchy_.leaves``."""
        check_is_fitted(self, "hierarchy_")
        return name_array(self.hierarchy_.leaves)


def _edges(before: Hierarchy | None, now: Hierarchy) -> tuple[Any, Any]:
    """Two hierarchies as what must agree for weights to go from one to the other."""
    return (None, None) if before is None else (repr(tuple(before.edges)), repr(tuple(now.edges)))


def _row_of(X: Any, entry: int) -> int:
    return int(np.searchsorted(X.indptr, entry, side="right")) - 1


def task_loss(margin: str, hierarchy: Hierarchy, kind: str, alpha: FloatArray) -> TaskLoss:
    """The error of a margin by name."""
    if margin == "hamming":
        return Hamming()
    if margin == "leaf":
        # Two different leaves are two leaves that only one label has; half of that is the zero-one loss.
        return LeafHamming(hierarchy, scale=0.5 if kind == "leaf" else 1.0)
    return Normalized(hierarchy, alpha)


def node_model(
    hierarchy: Hierarchy,
    kind: Kind,
    alpha: FloatArray,
    loss: TaskLoss,
    divided: bool = False,
    solver: Any = "auto",
    intercept: bool = False,
) -> HierarchicalLabels:
    """The model to train: over the LP relaxation where sets of leaves of a DAG would need a MIP."""
    hard = kind == "leaves" and not hierarchy.is_tree
    family = DividedLabels if divided else HierarchicalLabels
    if divided and solver != "auto":
        raise DeclarationError("divided=True lists the leaves and has no program to solve; leave solver at 'auto'.")
    integral = "relax" if hard else "auto"
    return family(hierarchy, kind, alpha=alpha, intercept=intercept, loss=loss, solver=solver, integral=integral)


class Partition:
    """The risk of a partition of dask collections, made on a worker."""

    def __init__(self, model: HierarchicalLabels, intercept: bool, dtype: Any, n_jobs: int) -> None:
        self.model, self.intercept, self.dtype, self.n_jobs = model, intercept, dtype, n_jobs

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> StructuredRisk:
        rows = append_constant(plain_inputs(X).astype(self.dtype, copy=False), float(self.intercept))
        labels = self.model.codec.encode_many(plain_labels(y), rows.shape[0])
        surrogate: Any = Divided() if isinstance(self.model, DividedLabels) else "margin"
        return StructuredRisk(self.model, rows, labels, surrogate, n_jobs=self.n_jobs, sample_weight=sample_weight)


class Divided(Surrogate):
    """The divided margin of thesis (6.13): ``psi(h, g) = 1 + h / g``.

    ``max over y != y_i of 1 + (score(y) - score(y_i)) / error(y, y_i)``, not below 0, where the normalised error (6.9)
    is the norm of the difference of the attributes: every subgradient is as long as the features, and the loss at
    every decision boundary is 1. (The printed maximum includes y_i, where both norm and difference are 0; as in (6.10)
    it counts 0 there.) It is convex in the margin, but falling in the error, so that only listing is exact.
    """

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
    """Single leaves that are trained on the divided margin: all of them are listed."""

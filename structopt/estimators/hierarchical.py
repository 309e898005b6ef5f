"""`HierarchicalSVM`: flat, unnormalised and normalised hierarchical support vector machines (NHSVM, thesis 6)."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError, SolverFailed
from structopt.estimators._fitting import is_collection, on_engine
from structopt.estimators._hierarchical import HierarchicalEstimator, Kind, Partition, node_model, task_loss
from structopt.estimators._memory_plan import MANY_WEIGHTS, make_plan
from structopt.hierarchy import Hierarchy
from structopt.norms.normalization import maxmin, normalization
from structopt.space.compiled import FloatArray
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.train.registry import TrainerOption
from structopt.train.result import TrainResult

__all__ = ["HierarchicalSVM"]

_NORMALIZATIONS = ("flat", "none", "rho", "directional", "maxmin")
_MARGINS = ("auto", "hamming", "leaf", "normalized")

Normalization = Literal["flat", "none", "rho", "directional", "maxmin"]
Margin = Literal["auto", "hamming", "leaf", "normalized"]


class HierarchicalSVM(HierarchicalEstimator):
    """Structured SVM over the labels of a hierarchy, one weight vector a node.

    A label, a leaf or a set of nodes with all their ancestors, scores ``sum over its nodes of sqrt(alpha_n) <W_n, x>``;
    training minimises ``lam/2 ||W||^2 + 1/n sum_i max_y [score(y) - score(y_i) + error(y, y_i)]``.

    Parameters
    ----------
    hierarchy : Hierarchy, edges, nested dict, label paths or networkx DiGraph
        A tree, a forest or a DAG. Edges are (parent, child) pairs; a path is a string such as ``"a/b/c"``, whose
        nodes are named ``"a"``, ``"a/b"``, ``"a/b/c"``.
    normalization : {"rho", "directional", "maxmin", "none", "flat"}
        The weights alpha of the nodes. ``"flat"``: only leaves have weights, the hierarchy plays no role in the
        scores. ``"none"``: all 1, the HSVM of Cai and Hofmann. ``"rho"``: thesis (6.6), NHSVM. ``"directional"``: the
        same where no child may weigh less than its parents. ``"maxmin"``: (6.7). With ``"rho"``, ``"directional"`` and
        ``"maxmin"`` a single root has weight 0 if every label contains it. With ``kind="closure"`` the root is a
        decision and gets a positive weight (docs/mathematics/hierarchies#normalisation).
    rho : float
        Exponent of ``"rho"`` and ``"directional"``, above 1.
    tolerance : float, optional
        Let the weights along a path of ``"rho"`` or ``"directional"`` sum to anything from 1 to this number, thesis
        (6.8); the paper takes 1.5 on DAGs.
    margin : {"auto", "hamming", "leaf", "normalized"}
        The error. ``"hamming"``: nodes that only one label has. ``"leaf"``: leaves that only one has, 0/1 between
        single leaves. ``"normalized"``: ``sqrt(sum of alpha)`` over the nodes that only one has, thesis (6.9), for
        ``kind="leaf"``. ``"auto"`` is each method's own: normalised for ``"rho"``, ``"directional"`` and ``"maxmin"``,
        leaf for ``"flat"``, Hamming for ``"none"``; with ``kind="leaves"`` the leaf error, with ``"closure"`` Hamming.
        For sets of leaves with few examples each ``"hamming"`` is worth a try: it counts the nodes above, too, and
        finds more leaves (``python benchmarks/run.py hierarchy sets``).
    divided : bool
        Divide score differences by the norm of the difference of the attributes, which is the normalised error (6.9),
        instead of adding an error, thesis (6.13), for ``kind="leaf"``: the surrogate is ``max over y != y_i of
        1 + (score(y) - score(y_i)) / sqrt(sum of alpha over the nodes that only one has)``, at least 0. It has no
        other error: `margin` is left at ``"auto"`` (or ``"normalized"``).
    kind : {"leaf", "leaves", "closure"}
        What a label is; see `structopt.structures.HierarchicalLabels`. Sets of leaves on a DAG are trained over the
        LP relaxation; predictions are integral.
    lam : float
        Weight of the regulariser. The paper's ``lambda ||W||^2 + sum over examples`` is ``lam = 2 lambda / n``.
    trainer : str or callable
        ``"auto"``, a name of `structopt.train.names`, or a function ``f(risk, *, lam, ...) -> TrainResult`` of your
        own. ``"auto"`` takes block ascent where it fits into memory and has at most 67 million weights, else SGD;
        SGD on a sparse X is `structopt.train.hierarchical_sgd`.
    tol : float
        Certified relative gap at which to stop (SGD stops by its limits only).
    intercept : bool
        Give each node a constant feature; it is regularised like the others.
    dtype : {"float64", "float32"}
        Of the features and coefficients, and of the weights inside SGD on sparse X. Training computes in float64
        otherwise: block ascent makes one float64 copy of a dense X, which may be memory-mapped. ``"float32"`` rounds a
        float64 X first, which is a copy more.
    support : {"auto", "all", "seen"}
        With a sparse X: keep all weights, or those of the features that occur in some training example of the node
        (a smaller model; others stay 0). ``"auto"`` keeps all if they fit into memory.
    max_memory : float, optional
        Bytes. Training that is estimated to need more is refused before it starts; 80% of the machine's by default.
    max_passes, max_seconds : float, optional
        Limits on the training.
    certify : bool
        Whether SGD spends a pass on the objective of its result.
    n_jobs : int
        Threads over examples.
    random_state : int
    verbose : bool
        Say what is trained and how much memory it takes, and show a progress bar.
    checkpoint : path, optional
        Written atomically while training; a fit with the same path resumes.
    warm_start : bool
        Begin at the weights of the last fit, and from the planes that its trainer knew where the data are the same.
        Hierarchy and features must be the same.
    solver : str, path or Backend
        ``"auto"`` takes the hierarchy's own algorithms; any other profile or backend finds every label, in
        training and prediction. Not with ``divided=True``, whose labels are listed.
    engine : distributed.Client, address, "dask" or None
        Where the examples are: see `StructuredSVM`. X and y may then be dask arrays or data frames.

    Attributes
    ----------
    hierarchy_ : Hierarchy
    alpha_ : ndarray, shape (n_nodes,)
        In the order of ``hierarchy_.nodes``, like the rows below.
    coef_ : ndarray or csr_array, shape (n_nodes, n_features)
        ``sqrt(alpha_n) W_n``: the score of node n is ``<coef_[n], x> + intercept_[n]``.
    intercept_ : ndarray, shape (n_nodes,)
    unseen_nodes_ : tuple
        Nodes without a training example; there is a warning, too.
    margin_ : str
        The error in use.
    plan_ : str
        Trainer and memory as estimated before the training.
    result_ : TrainResult
        Objective, certified bound and gap, history.
    n_iter_ : int
        Passes over the data.
    classes_ : ndarray
        The leaves.

    References
    ----------
    Choi, Sasaki, Srebro. Normalized hierarchical SVM. arXiv:1508.02479. Cai, Hofmann. Hierarchical document
    categorization with support vector machines. CIKM 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.hierarchical import HierarchicalSVM
    >>> X = np.array([[2.0, 0.1], [1.5, -0.2], [-1.0, 2.0], [-1.0, -2.0], [-1.2, 1.5], [-0.8, -1.0]])
    >>> y = ["oak", "oak", "cat", "dog", "cat", "dog"]
    >>> svm = HierarchicalSVM({"thing": {"animal": ["cat", "dog"], "oak": None}}).fit(X, y)
    >>> svm.predict([[3.0, 0.0], [-1.0, 1.0]])
    array(['oak', 'cat'], dtype='<U3')
    >>> svm.alpha_.round(4)
    array([0.    , 0.6667, 0.3333, 0.3333, 1.    ])
    """

    def __init__(
        self,
        hierarchy: Any,
        normalization: Normalization = "rho",
        rho: float = 2.0,
        tolerance: float | None = None,
        margin: Margin = "auto",
        divided: bool = False,
        kind: Kind = "leaf",
        lam: float = 1e-3,
        trainer: TrainerOption = "auto",
        tol: float = 1e-3,
        intercept: bool = True,
        dtype: Any = "float64",
        support: Literal["auto", "all", "seen"] = "auto",
        max_memory: float | None = None,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        certify: bool = True,
        n_jobs: int = 1,
        random_state: int = 0,
        verbose: bool | int = False,
        checkpoint: Any = None,
        warm_start: bool = False,
        solver: Any = "auto",
        engine: Any = None,
    ) -> None:
        self.hierarchy = hierarchy
        self.normalization = normalization
        self.rho = rho
        self.tolerance = tolerance
        self.margin = margin
        self.divided = divided
        self.kind = kind
        self.lam = lam
        self.trainer = trainer
        self.tol = tol
        self.intercept = intercept
        self.dtype = dtype
        self.support = support
        self.max_memory = max_memory
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.certify = certify
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.solver = solver
        self.engine = engine

    @on_engine
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows of features, dense or sparse, and labels: names, collections of names, or 0/1 rows.

        Labels that are not in the hierarchy, NaN features and wrong shapes are reported before training starts.
        Ctrl-C keeps the best weights so far; if a solver fails, they are kept too and the estimator travels with the
        error as ``error.partial``.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : labels
        sample_weight : array of shape (n_samples,), optional
            Weights of the examples in the mean of the surrogates: weight 2 is an example given twice, 0 one left out,
            and all weights times a number change nothing. Equal by default.

        Returns
        -------
        self
        """
        if is_collection(X):
            return self._fit_collection(X, y, sample_weight)
        data = self._read(X, y, sample_weight)
        X, labels = data.X, data.labels
        model = self._model(self.intercept and not sp.issparse(X))
        plan = make_plan(
            X,
            labels,
            trainer=self._trainer(self._width),
            support=self.support,
            itemsize=np.dtype(self.dtype).itemsize,
            max_memory=self.max_memory,
        )
        self.plan_ = str(plan)
        self._tell(f"{type(self).__name__}: {self.hierarchy_!r}, {X.shape[0]} examples; {plan}")
        try:
            W, result = self._train(plan, model, data)
        except SolverFailed as error:
            if isinstance(error.partial, TrainResult) and error.partial.w.size == self._width * len(self.hierarchy_):
                self._keep(error.partial.w.reshape(len(self.hierarchy_), -1), error.partial)
                error.partial = self
            raise
        self._keep(W, result)
        self._tell_early_end()
        return self

    def _model(self, intercept: bool = False) -> HierarchicalLabels:
        self.alpha_ = self._node_weights(self.hierarchy_)
        self.margin_ = self._margin()
        loss = task_loss(self.margin_, self.hierarchy_, self.kind, self.alpha_)
        return node_model(self.hierarchy_, self.kind, self.alpha_, loss, self.divided, self.solver, intercept)

    def _trainer(self, n_features: int) -> TrainerOption:
        if self.engine is None or not (isinstance(self.trainer, str) and self.trainer == "auto"):
            return self.trainer
        return "block_ascent" if n_features * len(self.hierarchy_) <= MANY_WEIGHTS else "sgd"

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Train on dask collections, whose partitions stay on the workers."""
        self._columns(X)
        self._read_hierarchy()
        self.unseen_nodes_ = ()  # nobody has seen all labels
        model = self._model()  # partitions may be dense or sparse: they append the constant
        build = Partition(model, self.intercept, np.dtype(self.dtype), self.n_jobs)
        with self._parts(build, X, y, sample_weight) as risk:
            result = self._minimise(risk, self._trainer(risk.n_features // len(self.hierarchy_)))
        self.plan_ = f"{result.trainer} on the workers of the engine"
        self._keep(result.w.reshape(len(self.hierarchy_), -1), result)
        self._tell_early_end()
        return self

    # ---- choices ---------------------------------------------------------------------------------

    def _node_weights(self, hierarchy: Hierarchy) -> FloatArray:
        if self.normalization not in _NORMALIZATIONS:
            raise DeclarationError(
                f"normalization must be one of {', '.join(map(repr, _NORMALIZATIONS))}, got {self.normalization!r}."
            )
        directional = self.normalization == "directional"
        if self.tolerance is not None and self.normalization not in ("rho", "directional"):
            raise DeclarationError(
                f"tolerance belongs to normalization='rho' or 'directional', not to {self.normalization!r}."
            )
        if self.normalization in ("rho", "directional"):
            return normalization(
                hierarchy, self.rho, self._root_is_decided, tolerance=self.tolerance, directional=directional
            )
        if self.normalization == "maxmin":
            return maxmin(hierarchy, self._root_is_decided)
        if self.normalization == "none":
            return np.ones(len(hierarchy))
        if self.kind == "closure":
            raise DeclarationError("normalization='flat' has weights at leaves only; kind='closure' needs all nodes.")
        return hierarchy.is_leaf.astype(np.float64)

    def _margin(self) -> str:
        if self.margin not in _MARGINS:
            raise DeclarationError(f"margin must be one of {', '.join(map(repr, _MARGINS))}, got {self.margin!r}.")
        if self.divided and self.kind != "leaf":
            raise DeclarationError(f"divided=True is for single-label problems, kind='leaf'; kind is {self.kind!r}.")
        if self.divided and self.margin not in ("auto", "normalized"):
            raise DeclarationError(
                f"divided=True has no error beside the norm of the attributes, thesis (6.13); leave margin at 'auto' "
                f"instead of {self.margin!r}."
            )
        if self.margin == "normalized" and self.kind != "leaf":
            raise DeclarationError(
                f"margin='normalized' is linear between single leaves only; kind is {self.kind!r}. "
                "Use margin='leaf' or 'hamming'."
            )
        if self.margin != "auto":
            return self.margin
        if self.kind != "leaf":
            return "leaf" if self.kind == "leaves" else "hamming"
        if self.divided:
            return "normalized"
        return {"flat": "leaf", "none": "hamming"}.get(self.normalization, "normalized")

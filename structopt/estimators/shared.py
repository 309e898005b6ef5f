"""`SharedSVM`: node weights learned with the vectors, the structured shared Frobenius norm (thesis 6.6, NHSVM 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.estimators._fitting import warn_unfinished
from structopt.estimators._hierarchical import HierarchicalEstimator, Kind, node_model, task_loss
from structopt.estimators._memory_plan import make_plan
from structopt.norms.normalization import included_nodes, normalization
from structopt.norms.shared import shared_alpha
from structopt.space.compiled import FloatArray
from structopt.train.registry import TrainerOption
from structopt.train.result import TrainResult, relative_gap

__all__ = ["SharedSVM"]

#: Node vectors, and the result of the run that found them.
Trained = tuple[FloatArray, TrainResult]


class SharedSVM(HierarchicalEstimator):
    """Hierarchical SVM regularised by the structured shared Frobenius norm.

    Minimises ``lam/2 sum_n ||U_n||^2 / alpha_n + 1/n sum_i max_y [score(y) - score(y_i) + error(y, y_i)]`` over node
    vectors U *and* node weights alpha, which sum to at most 1 over each leaf and its ancestors: the data decide where
    in the hierarchy classes share. The objective is convex in both together.

    Parameters
    ----------
    hierarchy : Hierarchy, edges, nested dict, label paths or networkx DiGraph
    kind : {"leaf", "leaves", "closure"}
        What a label is; see `structopt.structures.HierarchicalLabels`.
        A single root gets a weight with ``"closure"`` only, because the other kinds always contain it.
    margin : {"auto", "leaf", "hamming", "normalized"}
        The error: leaves (by default), or nodes (by default for closures) that only one of two labels has; or (6.9) at
        the weights of the first round, for ``kind="leaf"``.
    lam : float
        Weight of the regulariser.
    max_rounds : int
        Training runs at most, each at fixed alpha.
    rounds_tol : float
        Stop when a round lowers the objective by less than this share.
    floor : float
        Smallest weight of a node in training: one of 0 could never come back (docs/mathematics/hierarchies).
    shares : {"optimal", "published"}
        How alpha follows from U; see `structopt.norms.shared_alpha`. The published shares do not minimise the
        objective, which may rise with them, and training ends when they move by less than `rounds_tol`. In deep and
        unbalanced trees they lean on the upper nodes more, and may predict better for it
        (``python benchmarks/run.py hierarchy synthetic``).
    trainer, tol, intercept, dtype, max_memory, max_passes, max_seconds, n_jobs, random_state, verbose, warm_start
        As for `HierarchicalSVM`; limits hold for each round. A warm start begins at the last weights of the nodes, too.
    solver
        As for `HierarchicalSVM`.

    Attributes
    ----------
    alpha_, coef_, intercept_, hierarchy_, unseen_nodes_, classes_, plan_, result_
        As for `HierarchicalSVM`; ``result_`` is certified for the final alpha.
    objectives_ : ndarray
        The objective after each step, in U and in alpha by turns, which never increases; with published shares after
        each training run.
    n_rounds_ : int
        Training runs.
    n_iter_ : int
        Passes over the data in all of them.

    Notes
    -----
    Stochastic descent at a new alpha begins at the vectors of the round before, in the scale of that alpha; the other
    trainers begin at 0, which takes fewer passes. A run that ends above the objective already known (its tolerance
    allows that) is not taken, and ends the alternation.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.shared import SharedSVM
    >>> X = np.array([[2.0, 0.1], [1.5, -0.2], [-1.0, 2.0], [-1.0, -2.0], [-1.2, 1.5], [-0.8, -1.0]])
    >>> y = ["oak", "oak", "cat", "dog", "cat", "dog"]
    >>> svm = SharedSVM({"thing": {"animal": ["cat", "dog"], "oak": None}}).fit(X, y)
    >>> svm.predict([[3.0, 0.0], [-1.0, 1.0]])
    array(['oak', 'cat'], dtype='<U3')
    >>> bool((np.diff(svm.objectives_) <= 0).all())
    True
    """

    def __init__(
        self,
        hierarchy: Any,
        kind: Kind = "leaf",
        margin: Literal["auto", "leaf", "hamming", "normalized"] = "auto",
        lam: float = 1e-3,
        max_rounds: int = 20,
        rounds_tol: float = 1e-3,
        floor: float = 1e-8,
        shares: Literal["optimal", "published"] = "optimal",
        trainer: TrainerOption = "auto",
        tol: float = 1e-3,
        intercept: bool = True,
        dtype: Any = "float64",
        max_memory: float | None = None,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        n_jobs: int = 1,
        random_state: int = 0,
        verbose: bool | int = False,
        warm_start: bool = False,
        solver: Any = "auto",
    ) -> None:
        self.hierarchy = hierarchy
        self.kind = kind
        self.margin = margin
        self.lam = lam
        self.max_rounds = max_rounds
        self.rounds_tol = rounds_tol
        self.floor = floor
        self.shares = shares
        self.trainer = trainer
        self.tol = tol
        self.intercept = intercept
        self.dtype = dtype
        self.max_memory = max_memory
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.solver = solver

    checkpoint = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Alternate training at fixed alpha with the best alpha for the vectors found.

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
        data = self._read(X, y, sample_weight)
        X, labels = data.X, data.labels
        self._check()
        size = np.dtype(self.dtype).itemsize
        plan = make_plan(X, labels, trainer=self.trainer, support="all", itemsize=size, max_memory=self.max_memory)
        self.plan_ = str(plan)
        self._tell(f"SharedSVM: {self.hierarchy_!r}, {X.shape[0]} examples; {plan}")
        self.alpha_ = self.alpha_ if self.warm_start and hasattr(self, "result_") else self._start()
        error = task_loss(self.margin_, self.hierarchy_, self.kind, self.alpha_)
        self.n_rounds_, passes = 0, 0.0

        def train(start: FloatArray | None = None) -> Trained:
            nonlocal passes
            self.n_rounds_ += 1
            constant = self.intercept and not sp.issparse(X)
            model = node_model(self.hierarchy_, self.kind, self.alpha_, error, solver=self.solver, intercept=constant)
            # Dual trainers know no dual point of given weights: from there they take up to three times the passes, and
            # end where the tolerance lets the alternation stop early.
            begun = start.ravel() if start is not None and plan.trainer.name == "hierarchical_sgd" else None
            W, result = self._train(plan, model, data, begun)
            passes += result.passes
            return W, result

        W, result = train()
        objectives = [result.objective]
        alternate = self._follow if self.shares == "published" else self._descend
        W, result, converged = alternate(train, W, result, objectives)
        self.objectives_ = np.array(objectives)
        self._keep(W, result)
        self.n_iter_ = max(1, round(passes))
        if not converged and self.n_rounds_ >= self.max_rounds and result.stopped != "interrupted":
            warn_unfinished(
                f"SharedSVM stopped after max_rounds={self.max_rounds} while the node weights still moved by more than "
                f"rounds_tol={self.rounds_tol:g} allows; raise max_rounds or rounds_tol."
            )
        self._tell_early_end()
        return self

    def _descend(
        self, train: Callable[..., Trained], W: FloatArray, result: TrainResult, objectives: list[float]
    ) -> tuple[FloatArray, TrainResult, bool]:
        """Alternate while the objective falls; also returns whether it has stopped falling."""
        while self.n_rounds_ < self.max_rounds and result.stopped != "interrupted":
            before = objectives[-1]
            W, better = self._update(W, result)
            if better is None:
                return W, result, True
            result = better
            objectives.append(result.objective)
            new_W, new = train(W)
            if not new.objective < result.objective:
                # The old vectors are as good as this run's; its bound holds for them, too.
                gap = relative_gap(result.objective, new.lower_bound)
                return W, replace(result, lower_bound=new.lower_bound, gap=gap, history=new.history), True
            W, result = new_W, new
            objectives.append(result.objective)
            self._tell(f"round {self.n_rounds_}: objective {result.objective:.6g}")
            if before - result.objective <= self.rounds_tol * abs(before):
                return W, result, True
        return W, result, False

    def _follow(
        self, train: Callable[..., Trained], W: FloatArray, result: TrainResult, objectives: list[float]
    ) -> tuple[FloatArray, TrainResult, bool]:
        """Alternate until the published shares stand still; also returns whether they do."""
        while self.n_rounds_ < self.max_rounds and result.stopped != "interrupted":
            alpha = self._best_alpha(W)
            moved = float(np.abs(alpha - self.alpha_).max())
            if moved <= self.rounds_tol:
                return W, result, True
            ratio = np.divide(self.alpha_, alpha, out=np.zeros_like(alpha), where=alpha > 0)
            self.alpha_ = alpha
            W, result = train(W * np.sqrt(ratio)[:, None])
            objectives.append(result.objective)
            self._tell(f"round {self.n_rounds_}: alpha moved by {moved:.3g}, objective {result.objective:.6g}")
        return W, result, False

    def _check(self) -> None:
        if self.margin not in ("auto", "leaf", "hamming", "normalized"):
            raise DeclarationError(f"margin must be 'auto', 'leaf', 'hamming' or 'normalized', got {self.margin!r}.")
        if self.margin == "normalized" and self.kind != "leaf":
            raise DeclarationError("margin='normalized' is for kind='leaf'; use margin='leaf' for sets of nodes.")
        if self.shares not in ("optimal", "published"):
            raise DeclarationError(f"shares must be 'optimal' or 'published', got {self.shares!r}.")
        if self.shares == "published" and not self.hierarchy_.is_tree:
            raise DeclarationError("shares='published' is a rule for trees; use shares='optimal' on this DAG.")
        if self.max_rounds < 1 or not self.rounds_tol >= 0:
            raise DeclarationError("max_rounds must be at least 1 and rounds_tol at least 0.")
        if not 0 <= self.floor < 1:
            raise DeclarationError(f"floor must be a number in [0, 1), got {self.floor!r}.")
        self.margin_ = self.margin if self.margin != "auto" else "hamming" if self.kind == "closure" else "leaf"

    def _start(self) -> FloatArray:
        """Weights from the hierarchy alone; on DAGs those of (6.6) may be 0, which would stay so."""
        root = self._root_is_decided
        alpha = np.maximum(normalization(self.hierarchy_, 2.0, root), 1e-3)
        alpha[~included_nodes(self.hierarchy_, root)] = 0.0
        return np.asarray(alpha / (self.hierarchy_.closure @ alpha).max())

    def _best_alpha(self, W: FloatArray) -> FloatArray:
        """alpha for the vectors U = sqrt(alpha) W."""
        squares = self.alpha_ * np.einsum("ij,ij->i", W, W)
        root = self._root_is_decided
        return shared_alpha(squares, self.hierarchy_, root=root, floor=self.floor, shares=self.shares)

    def _update(self, W: FloatArray, result: TrainResult) -> tuple[FloatArray, TrainResult | None]:
        """The best alpha for these vectors, the same scores in its scale, and their objective; None if none is better.

        Sets `alpha_` if it is.
        """
        own = np.einsum("ij,ij->i", W, W)
        alpha = self._best_alpha(W)
        ratio = np.divide(self.alpha_, alpha, out=np.zeros_like(alpha), where=alpha > 0)
        gain = 0.5 * self.lam * (float(own.sum()) - float(own @ ratio))
        if not gain > 0:
            return W, None
        self.alpha_ = alpha
        W = W * np.sqrt(ratio)[:, None]
        objective = result.objective - gain
        return W, replace(result, w=W.ravel(), objective=objective, lower_bound=0.0, gap=relative_gap(objective, 0.0))

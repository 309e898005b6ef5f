"""`ConditionalRiskMinimizer`: predict the label whose estimated conditional risk is least (Goh and Jaillet)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structopt.checks import check_parameters, n_threads, seed, shown
from structopt.errors import DeclarationError
from structopt.estimators._fitting import validated
from structopt.estimators.conditional_risk.averages import Averager, KernelAverages, owned
from structopt.estimators.conditional_risk.joint_kernels import additive_average, joint_matrix
from structopt.estimators.conditional_risk.labels import encode_labels, same
from structopt.estimators.conditional_risk.path import RegularizationPath, leave_one_out_path, regularizations
from structopt.estimators.conditional_risk.programs import LinearRisk, RiskSolution, risk_program
from structopt.estimators.conditional_risk.stability import (
    GeneralizationBound,
    largest_loss,
    ramp_surrogates,
    stability_bound,
    uniform_bound,
)
from structopt.estimators.conditional_risk.weights import Spectrum
from structopt.estimators.persistence import Persistent
from structopt.features import n_examples
from structopt.frames import plain_inputs, plain_labels
from structopt.model import Model
from structopt.model.forms import check_codec, label_form
from structopt.oracle.oracle import check_solver
from structopt.risks.sample_weight import relative_weights
from structopt.space.compiled import FloatArray

__all__ = ["ConditionalRiskMinimizer", "RegularizationPath"]

# Kernel rows are made this many entries at a time: 64 MB.
_CHUNK_ENTRIES = 1 << 23


class ConditionalRiskMinimizer(Persistent, BaseEstimator):
    """Estimate the conditional risk of every label by kernel ridge regression, and predict a label of least risk.

    The estimate is ``R(y|x) = sum_i w_i(x) loss(y, y_i)`` with weights in closed form (ECRM Prop. 2.1). It
    has no surrogate for the loss, and training never looks at the labels: it is one factorisation of the kernel matrix.

    Parameters
    ----------
    model : Model
        Its label space, task loss and codec are used; its features are not.
    kernel : str or callable
        A kernel of scikit-learn by name (``"linear"``, ``"rbf"``, ``"polynomial"``, ...), ``"precomputed"``, or
        ``kernel(X, Y, **kernel_params)`` that returns the matrix of all pairs.
    lam : float or sequence of float
        Regularisation, as in ECRM (2). Of several values the one with the least leave-one-out loss is taken.
    intercept : bool
        Centre in feature space (ECRM appendix B): the weights then sum to 1.
    solver : str, path, Backend subclass
        What solves the label programs; ``"auto"`` is the model's own oracle.
    gamma, degree, coef0
        Of the kernels that have them, with scikit-learn's meanings and defaults.
    kernel_params : dict, optional
        Further parameters of the kernel.
    method : {"auto", "cholesky", "eigen", "primal", "nystroem"}
        How the weights are computed. All but the last are exact: a Cholesky factor of the kernel matrix, its
        eigendecomposition, or, for a linear kernel with few columns, a system of the size of the columns.
        ``"nystroem"`` approximates the kernel by landmarks, for many examples.
    n_landmarks : int
        Training examples drawn as landmarks for ``method="nystroem"``.
    joint_kernel : None, "neighbours", "diffusion" or array_like
        A kernel between the variables of a label: the additive model of ECRM 5
        (docs/mathematics/conditional_risk#the-additive-model).
    template : object, optional
        For a model whose space depends on the input: an input of the shape that all labels have.
    rtol : float
        Relative gap to which non-convex risks are minimised (absolute loss on continuous labels).
    max_programs : int
        Linear programs for one such risk after which its search stops, with a warning.
    n_jobs : int
        Threads for the label programs.
    random_state : int, RandomState or None
        For the choice of landmarks.

    Attributes
    ----------
    lam_ : float
    path_ : RegularizationPath
        If several values of `lam` were given.
    averages_ : KernelAverages
        The training inputs with their factorised kernel matrix.
    program_ : RiskProgram
        The inference problem; ``program_.oracle`` is what solves a linear one.
    label_form_ : {"first", "blocks", "vector"} or None
        The form of the labels given to `fit` and returned by `predict`; see `StructuredSVM`.
    n_features_in_ : int

    Examples
    --------
    Two tags of which at most one may be on; the third example is a compromise:

    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.estimators.conditional_risk import ConditionalRiskMinimizer
    >>> model = so.structures.MultiLabel(2, at_most=1)
    >>> X, Y = np.array([[0.0], [0.2], [1.0], [0.9]]), np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> est = ConditionalRiskMinimizer(model, kernel="rbf", gamma=1.0, lam=0.01).fit(X, Y)
    >>> est.predict([[0.1], [0.8]])
    array([[1, 0],
           [0, 1]])
    >>> est.weights([[0.1]]).sum().round(12)
    np.float64(1.0)
    >>> est.score(X, Y)
    0.0
    """

    def __init__(
        self,
        model: Model | None = None,
        kernel: Any = "linear",
        lam: float | Sequence[float] = 1e-2,
        intercept: bool = True,
        solver: Any = "auto",
        *,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        method: str = "auto",
        n_landmarks: int = 1000,
        joint_kernel: Any = None,
        template: Any = None,
        rtol: float = 1e-3,
        max_programs: int = 200,
        n_jobs: int = 1,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.kernel = kernel
        self.lam = lam
        self.intercept = intercept
        self.solver = solver
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.method = method
        self.n_landmarks = n_landmarks
        self.joint_kernel = joint_kernel
        self.template = template
        self.rtol = rtol
        self.max_programs = max_programs
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # ---- training --------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ConditionalRiskMinimizer:
        """Factorise the kernel matrix of the inputs; a copy of these and the labels are kept.

        Parameters
        ----------
        X : matrix (n, d), dense or sparse; a kernel matrix if precomputed; anything that a callable kernel takes
        y : labels, as the model takes them
        sample_weight : array of shape (n,), optional
            Weights of the examples in the squared error of the regression of losses: weight 2 is an example given
            twice, 0 one left out, and all weights times a number change nothing. Equal by default.

        Returns
        -------
        self
        """
        check_parameters(self)
        seed("random_state", self.random_state)
        n_threads(self.n_jobs)
        check_solver(self.solver)
        if not isinstance(self.kernel, str) and not callable(self.kernel):
            raise DeclarationError(
                f"kernel must be 'precomputed', the name of a kernel of scikit-learn or a callable, got "
                f"{shown(self.kernel)}."
            )
        lams = regularizations(self.lam)
        self._prepare(X, y, sample_weight)
        self.__dict__.pop("path_", None)
        if len(lams) > 1:
            self.path_ = self._path(self.averages_.spectrum(), lams)
        self.lam_ = self.path_.best if len(lams) > 1 else float(lams[0])
        self.averages_.factorise(self.lam_)
        self.n_iter_ = 1  # one factorisation: nothing is iterated
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        inputs = owned(self._inputs(X, reset=True))
        weights = relative_weights(sample_weight, n_examples(inputs), type(self).__name__)
        self.template_ = self._template(inputs)
        labels, model = plain_labels(y), self._model()
        truths = encode_labels(model, self.template_, labels, n_examples(inputs))
        check_codec(model, truths, lambda i: self.template_)
        self.label_form_ = label_form(model, labels, lambda i: self.template_)
        self._compile(inputs, truths, weights)
        if isinstance(self.program_, LinearRisk) and self.solver != "auto":
            _ = self.program_.oracle  # a solver that is not there is refused before the work

    def _compile(
        self, inputs: Any, truths: Any, sample_weight: FloatArray | None = None, landmarks: Any = None
    ) -> None:
        self.program_ = risk_program(
            self._model(), self.template_, truths, self.solver, self.rtol, self.max_programs
        )  # fmt: skip
        if self.joint_kernel is not None:
            self._joint = self._joint_matrix()
        self.averages_ = KernelAverages(
            inputs,
            self.kernel,
            self._kernel_params(),
            method="eigen" if self.joint_kernel is not None else self.method,
            intercept=self.intercept,
            n_landmarks=self.n_landmarks,
            random_state=self.random_state,
            landmarks=landmarks,
            sample_weight=sample_weight,
        )
        self._averager: Averager | None = None

    def _kernel_params(self) -> dict[str, Any]:
        given = dict(self.kernel_params or {})
        if callable(self.kernel):
            return given
        return {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0, **given}

    def regularization_path(self, X: Any, y: Any, lams: npt.ArrayLike) -> RegularizationPath:
        """The leave-one-out task loss for each of `lams`, from one eigendecomposition; the estimator is not changed.

        Exact: each example's label is predicted with the weights of the others under the same ridge ``m lam``
        (`structopt.estimators.conditional_risk.weights.Spectrum`).

        Parameters
        ----------
        X : inputs
            As in `fit`.
        y : labels
            As in `fit`.
        lams : sequence of float
            Weights of the regulariser to try.

        Returns
        -------
        RegularizationPath
        """
        other = ConditionalRiskMinimizer(**self.get_params(deep=False))
        other._prepare(X, y)
        return other._path(other.averages_.spectrum(), regularizations(lams))

    def _path(self, spectrum: Spectrum, lams: FloatArray) -> RegularizationPath:
        if self.joint_kernel is not None:
            raise DeclarationError(
                "The leave-one-out loss has a closed form without a joint kernel; choose lam by GridSearchCV here."
            )
        return leave_one_out_path(self.program_, spectrum, lams, self.n_jobs)

    # ---- prediction ------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """A label of least estimated risk for each input: an array where labels are rows or names, else a list.

        Parameters
        ----------
        X : inputs
            As in `fit`.

        Returns
        -------
        ndarray or list
            The labels.
        """
        found = self.minimize_risk(X)
        return self.program_.decode(found.Z, getattr(self, "label_form_", None))

    def minimize_risk(self, X: Any) -> RiskSolution:
        """The points of least estimated risk, their risks, and proved lower bounds.

        Parameters
        ----------
        X : inputs
            As in `fit`.

        Returns
        -------
        RiskSolution
        """
        found = RiskSolution.joined([self.program_.solve(averages, self.n_jobs) for averages in self._averages(X)])
        found.tell_gap(self.rtol, self.max_programs)
        return found

    def conditional_risk(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Coefficients ``(n, n_variables)`` and constants of the estimated risk, for a loss that is linear.

        Parameters
        ----------
        X : inputs
            As in `fit`.

        Returns
        -------
        coef, const : ndarray
        """
        check_is_fitted(self, "lam_")
        self._linear_program("conditional_risk")
        averages = np.concatenate(list(self._averages(X)))
        return averages[:, :-1], averages[:, -1]

    def weights(self, X: Any) -> FloatArray:
        """``w(x)`` for each input, ``(n, n_training_examples)``.

        Parameters
        ----------
        X : inputs
            As in `fit`.

        Returns
        -------
        ndarray of shape (n, n_training)
        """
        check_is_fitted(self, "lam_")
        if self.joint_kernel is not None:
            raise DeclarationError("With a joint kernel each part of the label has weights of its own.")
        return self.averages_.weigh(self._inputs(X, reset=False))

    def score(self, X: Any, y: Any) -> float:
        """Minus the mean task loss, so that larger is better.

        Parameters
        ----------
        X : inputs
            As in `fit`.
        y : labels
            As in `fit`.

        Returns
        -------
        float
        """
        return -float(self.losses(X, y).mean()) + 0.0

    def losses(self, X: Any, y: Any) -> FloatArray:
        """The task loss of the prediction for each input.

        Parameters
        ----------
        X : inputs
            As in `fit`.
        y : labels
            As in `fit`.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self, "lam_")
        truths = encode_labels(self._model(), self.template_, plain_labels(y), n_examples(X))
        return self.program_.losses(self.minimize_risk(X).Z, truths)

    def _averages(self, X: Any) -> Iterator[FloatArray]:
        """Averaged targets of the inputs (or weights, for a program that needs them), a chunk of inputs at a time."""
        check_is_fitted(self, "lam_")
        inputs = self._inputs(X, reset=False)
        step = max(1, _CHUNK_ENTRIES // self.program_.n_examples)
        for start in range(0, n_examples(inputs), step):
            part = inputs[start : start + step]
            yield self.averages_.weigh(part) if self.program_.needs_weights else self._average(part)

    def _average(self, X: Any) -> FloatArray:
        # Made at the first prediction, so that the time of training does not depend on the number of labels.
        if self._averager is None:
            self._averager = self._additive() if self.joint_kernel is not None else self._plain()
        return self._averager(X)

    def _plain(self) -> Averager:
        return self.averages_.average(self.program_.targets)

    def _additive(self) -> Averager:
        program = self._linear_program("joint_kernel")
        return additive_average(self.averages_, program.targets[:, :-1], program.task_constants(), self._joint)

    def _joint_matrix(self) -> FloatArray:
        if self.method not in ("auto", "eigen"):
            raise DeclarationError(f"joint_kernel needs method='eigen', got {self.method!r}.")
        space = self._linear_program("joint_kernel").model.space(self.template_)
        return joint_matrix(self.joint_kernel, self._model(), space.n_variables)

    # ---- theory ----------------------------------------------------------------------------------

    def generalization_bound(
        self,
        X: Any,
        y: Any,
        rho: float | None = 1.0,
        delta: float = 0.05,
        *,
        loss_bound: float | None = None,
        kappa: float | None = None,
        largest_rho: float | None = None,
    ) -> GeneralizationBound:
        """The bound of ECRM Theorem 4.2 on the expected loss.

        Parameters
        ----------
        X, y
            The training set: the theorem holds for no other.
        rho : float, optional
            Scale of the surrogate: smaller is tighter on the sample and less stable. Without `largest_rho` it must be
            fixed before the data are seen; with it, None chooses the best.
        delta : float
            Probability with which the bound may fail.
        loss_bound : float, optional
            Largest loss between two labels; found by default.
        kappa : float, optional
            Largest ``k(x, x)`` of any input. By default 1 for kernels bounded by it, and otherwise the largest of the
            training inputs, which is right only if no other input exceeds it.
        largest_rho : float, optional
            Let the bound hold for all rho up to this number at once, at the cost of a double logarithm under the root.
            The rho may then be chosen after the data are seen; it is rounded down to this number over a power of 2.

        Returns
        -------
        GeneralizationBound
        """
        check_is_fitted(self, "lam_")
        program = self._linear_program("generalization_bound")
        self._check_theorem()
        inputs = self._inputs(X, reset=False)
        truths = encode_labels(self._model(), self.template_, plain_labels(y), n_examples(inputs))
        if not same(inputs, self.averages_.X) or not same(truths, program.truths):
            raise DeclarationError("Theorem 4.2 is about the training set: give the X and y of fit.")
        L = self._largest_loss(loss_bound)
        size = self.averages_.largest_diagonal() if kappa is None else float(kappa)
        if largest_rho is not None:
            return uniform_bound(
                lambda scale: self.ramp_surrogate(X, y, scale, L), L, size, self.lam_, rho, largest_rho, delta
            )
        if rho is None:
            raise DeclarationError("rho=None chooses the best rho up to largest_rho; give largest_rho, or rho.")
        return stability_bound(self.ramp_surrogate(X, y, rho, L), L, size, self.lam_, rho, delta)

    def ramp_surrogate(self, X: Any, y: Any, rho: float, loss_bound: float | None = None) -> FloatArray:
        """``min(L, max over y' of loss(y', y) + (min R - R(y'|x)) / rho)`` of ECRM (10): two programs an example.

        Parameters
        ----------
        X : inputs
            As in `fit`.
        y : labels
            As in `fit`.
        rho : float
            Width of the ramp.
        loss_bound : float
            No loss is larger.

        Returns
        -------
        ndarray of shape (n,)
        """
        risk = np.column_stack(self.conditional_risk(X))
        program = self._linear_program("ramp_surrogate")
        truths = encode_labels(self._model(), self.template_, plain_labels(y), n_examples(X))
        return ramp_surrogates(program, risk, truths, rho, self._largest_loss(loss_bound), self.n_jobs)

    def _largest_loss(self, given: float | None) -> float:
        return largest_loss(self._model(), self.template_) if given is None else float(given)

    def _check_theorem(self) -> None:
        problem = None
        if self.averages_.sample_weight is not None:
            problem = "weights of examples; fit without sample_weight"
        elif self.intercept:
            problem = "intercept=True; use intercept=False, and add a constant to the kernel if one is needed"
        elif hasattr(self, "path_"):
            problem = "a lam chosen from the data; give one value"
        elif not self.averages_.exact or self.joint_kernel is not None:
            problem = "approximate or joint kernels"
        if problem:
            raise DeclarationError(f"Theorem 4.2 does not cover {problem}.")

    # ---- saving ----------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        """The training set and what was chosen; the kernel matrix is factorised again by `load`."""
        if not hasattr(self, "lam_"):
            return {}
        kept = {
            name: getattr(self, name)
            for name in ("lam_", "template_", "label_form_", "n_features_in_", "n_iter_", "feature_names_in_")
            if hasattr(self, name)
        }
        kept |= {"X": self.averages_.X, "truths": self.program_.truths, "landmarks": self.averages_.landmarks}
        if self.averages_.sample_weight is not None:
            kept["sample_weight"] = self.averages_.sample_weight
        return kept | ({"lams": self.path_.lams, "loss": self.path_.loss} if hasattr(self, "path_") else {})

    def _restore(self, learned: dict[str, Any]) -> None:
        if not learned:
            return
        X, truths, landmarks = (learned.pop(name) for name in ("X", "truths", "landmarks"))
        if "lams" in learned:
            self.path_ = RegularizationPath(learned.pop("lams"), learned.pop("loss"))
        weights = learned.pop("sample_weight", None)
        super()._restore(learned)
        n = learned.get("n_features_in_")
        if n is not None and not callable(self.kernel) and n != np.shape(X)[1]:
            raise DeclarationError(f"n_features_in_ is {n}, and X has shape {np.shape(X)}")
        self._compile(X, truths, weights, landmarks)
        self.averages_.factorise(self.lam_)

    # ---- arguments -------------------------------------------------------------------------------

    def _model(self) -> Model:
        if not isinstance(self.model, Model):
            raise DeclarationError(
                f"model must be a structopt.Model, got {type(self.model).__name__}; see structopt.structures."
            )
        return self.model

    def _inputs(self, X: Any, *, reset: bool) -> Any:
        if not n_examples(X):
            raise DeclarationError("The data set has no examples.")
        if callable(self.kernel):
            return plain_inputs(X)
        inputs = validated(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        if reset and self.kernel == "precomputed" and inputs.shape[0] != inputs.shape[1]:
            raise DeclarationError(f"A precomputed kernel matrix is square, got shape {inputs.shape}.")
        return inputs

    def _template(self, X: Any) -> Any:
        model = self._model()
        if model.fixed or self.template is not None:
            return self.template
        if len({model.key(X[i]) for i in range(n_examples(X))}) > 1:
            raise DeclarationError(
                "Conditional risk compares labels of one space, and the label spaces of these inputs differ; "
                "fit one estimator for each of them."
            )
        return X[0]

    def _linear_program(self, what: str) -> LinearRisk:
        if not isinstance(self.program_, LinearRisk):
            raise DeclarationError(f"{what} needs a loss that is linear in the label.")
        return self.program_

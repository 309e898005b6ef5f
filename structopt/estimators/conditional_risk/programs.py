"""The inference problem of conditional risk: ``min over labels y of sum_i w_i loss(y, y_i)``, by kind of loss.

=============================  =======================================  ==========================================
loss                           what the weights must average            program
=============================  =======================================  ==========================================
linear in y (ECRM 3)           coefficients and constants               the oracle of the space; exact for any w
squared, continuous y          labels, their squared norms, and 1       a projection, if the weights sum to > 0
absolute, continuous y         needs the weights themselves             an LP; branch and bound where w < 0
=============================  =======================================  ==========================================
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structopt.errors import DeclarationError
from structopt.estimators._labels import as_array
from structopt.estimators.conditional_risk.labels import dense, encode_labels
from structopt.estimators.conditional_risk.separable import AbsoluteProgram
from structopt.losses import Hamming, TaskLoss
from structopt.losses.hierarchical import AffineForm, sparse_form
from structopt.model import Model
from structopt.model.forms import LabelForm
from structopt.oracle import Oracle
from structopt.programs.projection import Projection
from structopt.space.compiled import VALUE_TOLERANCE, FloatArray
from structopt.structures.flow import AbsoluteFlowLoss, SquaredFlowLoss
from structopt.structures.node_labels import LabelCodec

__all__ = [
    "AbsoluteRisk",
    "LinearRisk",
    "RiskProgram",
    "RiskSolution",
    "SquaredRisk",
    "encode_labels",
    "risk_program",
]

_PAIRS_CHECKED = 64


@dataclass(frozen=True, eq=False)
class RiskSolution:
    """The minimisers of several estimated risks.

    Attributes
    ----------
    Z : ndarray, shape (n, n_variables)
    risk : ndarray, shape (n,)
        The estimated risk of each.
    bound : ndarray, shape (n,)
        Proved lower bound on the least estimated risk.
    n_nonconvex : int
        How many of the problems negative weights made non-convex.
    """

    Z: FloatArray
    risk: FloatArray
    bound: FloatArray
    n_nonconvex: int = 0

    @classmethod
    def joined(cls, parts: Sequence[RiskSolution]) -> RiskSolution:
        """Several solutions, one after the other."""
        Z, risk, bound = (np.concatenate([getattr(part, name) for part in parts]) for name in ("Z", "risk", "bound"))
        return cls(Z, risk, bound, sum(part.n_nonconvex for part in parts))

    def tell_gap(self, rtol: float, max_programs: int) -> None:
        """Warn of non-convex risks whose search ended before its tolerance."""
        gap = (self.risk - self.bound) / np.maximum(np.abs(self.risk), 1e-12)
        wide = np.flatnonzero(gap > 1.01 * rtol + 1e-9)
        if wide.size and self.n_nonconvex:
            warnings.warn(
                f"Negative weights make {self.n_nonconvex} of {len(gap)} estimated risks non-convex, and {wide.size} "
                f"of them were not minimised to rtol={rtol:g} within {max_programs} programs (largest relative gap "
                f"{gap.max():.2g}). Raise max_programs or rtol, or lam, which shrinks negative weights.",
                ConvergenceWarning,
                stacklevel=4,
            )


class RiskProgram(ABC):
    """The inference problems of one model with one set of training labels.

    Parameters
    ----------
    model : Model
    template : object
        An input with the label space that all examples share.
    truths : array or csr_array, shape (m, n_variables)
        The training labels as points.
    solver : str, path, Backend subclass
        For the oracle; ``"auto"`` is the model's own.
    """

    #: Whether `solve` takes the weights themselves, and not averages of `targets`.
    needs_weights = False

    def __init__(self, model: Model, template: Any, truths: Any, solver: Any = "auto") -> None:
        self.model, self.template, self.truths, self.solver = model, template, truths, solver
        self.n_examples = int(truths.shape[0])

    @property
    @abstractmethod
    def targets(self) -> FloatArray:
        """What to average with the weights, one row a training example."""

    @abstractmethod
    def solve(self, averages: FloatArray, n_jobs: int = 1) -> RiskSolution:
        """The labels of least risk, for rows of averaged targets (or of weights)."""

    @abstractmethod
    def losses(self, Z: FloatArray, truths: Any) -> FloatArray:
        """The task loss of each point of `Z` against its ground truth."""

    def decode(self, Z: FloatArray, form: LabelForm | None = None) -> Any:
        """Return labels in the user's form: an array if they are numbers, names or rows of equal length."""
        codec = getattr(self.model, "codec", None)
        if isinstance(codec, LabelCodec) and codec.kind == "closure" and not (Z % 1).any():
            return Z.astype(int)
        if self.model.has_plain_labels:
            return as_array(self.model._decode_rows(Z, form or "first", self.template))
        return as_array([self.model.decode(z, self.template) for z in Z])

    def __getstate__(self) -> dict[str, Any]:
        # Solvers and large tables are made again when needed.
        made = {"targets", "oracle", "_program"}
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.n_examples} labels, {self.model!r}>"


class LinearRisk(RiskProgram):
    """A loss that is linear in the label: the risk is linear, too, and the space's own oracle minimises it."""

    @cached_property
    def oracle(self) -> Oracle:
        """The oracle of integral labels that solves the programs."""
        model = self.model._integral_twin()
        if isinstance(self.solver, str) and self.solver == "auto":
            return model.oracle(self.template)
        return Oracle(model.space(self.template), self.solver, integral=model.integral, **model.options)

    @cached_property
    def targets(self) -> FloatArray:
        coef, const = self.forms(self.truths)
        return np.column_stack([coef, const])

    def forms(self, truths: Any) -> tuple[FloatArray, FloatArray]:
        """Coefficients and constant of the task loss of each ground truth."""
        return _linear_forms(self.model, self.template, dense(truths))

    def task_constants(self) -> FloatArray:
        """The constants of the training labels, shared out over the variables: ``l_j(0, y_i)`` of ECRM (13)."""
        space = self.model.space(self.template)
        truths = dense(self.truths)
        losses = _block_losses(self.model, self.template)
        shares = np.zeros_like(truths)
        for name, loss in (losses or {}).items():
            block = space[name]
            form = sparse_form(loss, block.size)
            if isinstance(form, AffineForm):
                shares[:, block.slice] = truths[:, block.slice] * form.const
        # Whatever the blocks do not say where it belongs is spread evenly.
        return np.asarray(shares + (self.targets[:, -1:] - shares.sum(axis=1, keepdims=True)) / shares.shape[1])

    def solve(self, averages: FloatArray, n_jobs: int = 1) -> RiskSolution:
        found = self.oracle._solve_batch(-averages[:, :-1], n_jobs)
        return RiskSolution(found.Z, averages[:, -1] - found.values, averages[:, -1] - found.bounds)

    def losses(self, Z: FloatArray, truths: Any) -> FloatArray:
        coef, const = self.forms(truths)
        return np.asarray(np.einsum("ij,ij->i", coef, Z) + const)


class _BlockRisk(RiskProgram):
    """A loss that compares one block of continuous variables number by number."""

    def __init__(
        self,
        model: Model,
        template: Any,
        truths: Any,
        block: str,
        rtol: float = 1e-3,
        max_programs: int = 200,
    ) -> None:
        super().__init__(model, template, dense(truths))
        self.block, self.rtol, self.max_programs = block, rtol, max_programs

    @property
    def _slice(self) -> slice:
        return self.model.space(self.template)[self.block].slice

    def _differences(self, Z: FloatArray, truths: Any) -> FloatArray:
        return np.asarray(Z[:, self._slice] - dense(truths)[:, self._slice])


class SquaredRisk(_BlockRisk):
    """``sum_i w_i |y - y_i|^2 = s |y - mean|^2 + const`` with ``s = sum_i w_i``: project the weighted mean."""

    @cached_property
    def _program(self) -> Projection:
        return Projection(self.model.space(self.template).compiled, self._slice)

    @cached_property
    def targets(self) -> FloatArray:
        Y = self.truths[:, self._slice]
        return np.column_stack([Y, np.ones(len(Y)), np.square(Y).sum(axis=1)])

    def solve(self, averages: FloatArray, n_jobs: int = 1) -> RiskSolution:
        mean, total, square = averages[:, :-2], averages[:, -2], averages[:, -1]
        wrong = np.flatnonzero(total <= VALUE_TOLERANCE)
        if wrong.size:
            raise DeclarationError(
                f"The estimated squared risk of input {wrong[0]} is not convex: its weights sum to "
                f"{total[wrong[0]]:.3g} ({wrong.size} of {len(total)} inputs). With intercept=True they sum to 1; a "
                "wider kernel or a smaller lam helps as well."
            )
        Z = self._program.many(mean / total[:, None])
        Y = Z[:, self._slice]
        risk = total * np.square(Y).sum(axis=1) - 2 * np.einsum("ij,ij->i", mean, Y) + square
        return RiskSolution(Z, risk, risk)

    def losses(self, Z: FloatArray, truths: Any) -> FloatArray:
        return np.asarray(np.square(self._differences(Z, truths)).sum(axis=1))


class AbsoluteRisk(_BlockRisk):
    """``sum_i w_i |y - y_i|_1``: piecewise linear in each variable, and not convex where weights are negative."""

    needs_weights = True

    @cached_property
    def _program(self) -> AbsoluteProgram:
        compiled = self.model.space(self.template).compiled
        Y = self.truths[:, self._slice]
        return AbsoluteProgram(compiled, self._slice, Y, self.rtol, self.max_programs)

    @property
    def targets(self) -> FloatArray:
        raise NotImplementedError("The absolute risk is no average of a few numbers.")

    def solve(self, averages: FloatArray, n_jobs: int = 1) -> RiskSolution:
        found = [self._program.minimize(np.ascontiguousarray(weights)) for weights in averages]
        return RiskSolution(
            np.array([one.z for one in found]).reshape(len(found), -1),
            np.array([one.value for one in found]),
            np.array([one.bound for one in found]),
            sum(not one.convex for one in found),
        )

    def losses(self, Z: FloatArray, truths: Any) -> FloatArray:
        return np.asarray(np.abs(self._differences(Z, truths)).sum(axis=1))


def risk_program(
    model: Model, template: Any, truths: Any, solver: Any = "auto", rtol: float = 1e-3, max_programs: int = 200
) -> RiskProgram:
    """The program for the loss of a model; refused where the loss is neither linear nor one of those above."""
    losses = _block_losses(model, template)
    space = model.space(template)
    curved = [
        (name, loss)
        for name, loss in (losses or {}).items()
        if isinstance(loss, AbsoluteFlowLoss | SquaredFlowLoss) and not _is_binary(space, name)
    ]
    if not curved:
        if losses is not None:
            _check_linear(space, losses, truths)
        return LinearRisk(model, template, truths, solver)
    if losses is None or len(losses) > 1:
        raise DeclarationError(
            "An absolute or squared loss on continuous variables must be the only loss of the model."
        )
    name, loss = curved[0]
    kind = AbsoluteRisk if isinstance(loss, AbsoluteFlowLoss) else SquaredRisk
    return kind(model, template, truths, name, rtol, max_programs)


def _is_binary(space: Any, name: str) -> bool:
    return bool(space.compiled.is_binary[space[name].slice].all())


def _block_losses(model: Model, template: Any) -> Mapping[str, TaskLoss] | None:
    """The task losses by block, or None where a model makes its forms in its own way."""
    if type(model)._loss_at is not Model._loss_at:
        return None
    space = model.space(template)
    # Between 0/1 labels the absolute and the squared loss both count the differences.
    return {
        name: Hamming() if isinstance(loss, AbsoluteFlowLoss | SquaredFlowLoss) and _is_binary(space, name) else loss
        for name, loss in model.block_losses(template).items()
    }


def _linear_forms(model: Model, template: Any, truths: FloatArray) -> tuple[FloatArray, FloatArray]:
    losses = _block_losses(model, template)
    if losses is None:
        forms = [model._loss_at(z, template) for z in truths]
        return np.array([coef for coef, _ in forms]), np.array([const for _, const in forms])
    space = model.space(template)
    coef, const = np.zeros_like(truths), np.zeros(len(truths))
    for name, loss in losses.items():
        block = space[name]
        part, offset = loss.linear_batch(truths[:, block.slice])
        coef[:, block.slice] += part
        const += offset
    return coef, const


def _check_linear(space: Any, losses: Mapping[str, TaskLoss], truths: Any) -> None:
    """Compare the linear forms with the losses' definitions on some pairs of training labels."""
    m = int(truths.shape[0])
    pairs = np.random.default_rng(0).integers(m, size=(_PAIRS_CHECKED, 2))
    left, right = dense(truths[pairs[:, 0]]), dense(truths[pairs[:, 1]])
    for name, loss in losses.items():
        block = space[name]
        Y, T = left[:, block.slice], right[:, block.slice]
        coef, const = loss.linear_batch(T)
        said = np.einsum("ij,ij->i", coef, Y) + const
        for k, (i, j) in enumerate(pairs):
            meant = loss.value(Y[k], T[k])
            if not abs(said[k] - meant) <= 1e-6 * max(1.0, abs(meant)):
                raise DeclarationError(
                    f"{loss!r} is not linear on block {name!r} of this space: between the labels of examples {i} and "
                    f"{j} it is {meant:g}, its linear form gives {said[k]:g}. Declare 0/1 variables in which it is."
                )

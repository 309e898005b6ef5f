"""The registry of trainers: functions by name, with their requirements and memory estimates.

A trainer is a function ``trainer(risk, *, lam, ...) -> TrainResult``. Estimators take one by name, or as it is:
``StructuredSVM(model, trainer="bmrm")``, ``StructuredSVM(model, trainer=my_trainer)``. A new one is a file and a line:
`register` in yours, or an entry of the table below in ours.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from structopt.checks import checked, sequence, shown
from structopt.errors import DeclarationError
from structopt.train.bcfw import bcfw
from structopt.train.block_ascent import block_ascent
from structopt.train.bmrm import bmrm
from structopt.train.coordinate import coordinate_descent
from structopt.train.cutting_plane import n_slack, one_slack
from structopt.train.hierarchical_sgd import hierarchical_sgd
from structopt.train.lbfgs import lbfgs
from structopt.train.multiclass import multiclass_ascent
from structopt.train.proximal import proximal_bundle
from structopt.train.result import TrainResult
from structopt.train.sgd import sgd
from structopt.train.trust_region import trust_region_bundle

__all__ = [
    "BYTES_PER_EXAMPLE",
    "ProblemSize",
    "Trainer",
    "TrainerFunction",
    "TrainerOption",
    "get",
    "names",
    "problem_size",
    "register",
]

#: What `StructuredSVM(trainer=...)` takes besides a name.
TrainerFunction = Callable[..., TrainResult]

# Working sets of block ascent take about this many bytes an example at 20 cuts (docs/mathematics/training).
BYTES_PER_EXAMPLE = 5000
# Cuts that a bundle method may hold.
_CUTS = 100


@dataclass(frozen=True)
class ProblemSize:
    """What the memory of a run depends on.

    Attributes
    ----------
    examples : int
    columns : int
        Scores of an example: nodes of a hierarchy, classes, states.
    weights : int
        Weights that are kept.
    features : float
        Bytes of the features; dense ones are float64 in every trainer.
    sparse : bool
        Whether the features are a sparse matrix.
    itemsize : int
        Bytes of a weight, where a trainer lets one choose.
    """

    examples: int
    columns: int
    weights: int
    features: float
    sparse: bool = False
    itemsize: int = 8


def problem_size(X: Any, columns: int, itemsize: int = 8) -> ProblemSize:
    """The size of a problem with one row of features per example and a weight vector per column."""
    features = float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) if sp.issparse(X) else 8.0 * X.size
    return ProblemSize(X.shape[0], columns, X.shape[1] * columns, features, sp.issparse(X), itemsize)


@dataclass(frozen=True)
class Trainer:
    """A way to minimise ``lam * regularizer(w) + risk(w)``, and what it takes.

    Attributes
    ----------
    name : str
    function : callable
        ``function(risk, *, lam, ...) -> TrainResult``. Of the options of an estimator (`tol`, `max_passes`,
        `max_seconds`, `checkpoint`, `verbose`, `random_state`, `certify`, `warm`) it gets those that it has parameters
        for.
    needs : tuple of str
        Methods that a risk must have.
    memory : callable, optional
        ``memory(size: ProblemSize)`` estimates the bytes by part, before anything is allocated.
    """

    name: str
    function: TrainerFunction
    needs: tuple[str, ...] = ()
    memory: Callable[[ProblemSize], Mapping[str, float]] | None = None

    def check(self, risk: Any) -> None:
        """Refuse a risk that has not what the trainer needs.

        Parameters
        ----------
        risk : Risk
        """
        missing = [f"{method}()" for method in self.needs if not callable(getattr(risk, method, None))]
        if missing:
            able = [known.name for known in _TRAINERS.values() if all(hasattr(risk, need) for need in known.needs)]
            raise DeclarationError(
                f"{type(risk).__name__} does not work with the trainer {self.name!r}: it has no "
                f"{' and no '.join(missing)}. Trainers that may work: {', '.join(able) or 'none'}."
            )

    def minimise(self, risk: Any, **options: Any) -> TrainResult:
        """Run it on a risk.

        Parameters
        ----------
        risk : Risk
        **options
            The function gets those that it has parameters for. A limit, a checkpoint or a warm start that it would
            ignore is refused.

        Returns
        -------
        TrainResult
        """
        self.check(risk)
        known = self._parameters()
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
            lost = [name for name in _NOT_IGNORED if options.get(name) is not None and name not in known]
            if lost:
                raise DeclarationError(
                    f"The trainer {self.name!r} has no parameter {lost[0]!r} (it has {', '.join(known)}); leave "
                    f"{_WORD.get(lost[0], lost[0])} away, or add the parameter."
                )
            options = {name: value for name, value in options.items() if name in known}
        result = self.function(risk, **options)
        if not isinstance(result, TrainResult):
            raise DeclarationError(
                f"The trainer {self.name!r} returned {type(result).__name__}, and must return a TrainResult; "
                "structopt.train.Monitor makes one (docs/howto/own_trainer)."
            )
        self._check_weights(result, risk)
        return result

    __call__ = minimise

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        try:
            return inspect.signature(self.function).parameters
        except (TypeError, ValueError) as error:  # a partial with an argument that the function does not have
            raise DeclarationError(f"The trainer {self.name!r} cannot be called: {error}.") from None

    def _check_weights(self, result: TrainResult, risk: Any) -> None:
        """Refuse weights of a user's own trainer that are not weights of the risk."""
        if getattr(_base(self.function), "__module__", "").split(".")[0] == "structopt":
            return
        wanted, w = getattr(risk, "n_features", None), np.asarray(result.w)
        if wanted is not None and w.size != wanted:
            raise DeclarationError(
                f"The trainer {self.name!r} returned weights of shape {w.shape}; the risk has {wanted} weights."
            )
        if not np.isfinite(w).all():
            raise DeclarationError(f"The trainer {self.name!r} returned weights that are not finite.")


def check_trainer(name: str, value: Any) -> Any:
    """What an estimator takes for a trainer; whether there is one of that name is found out later."""
    if not isinstance(value, str | Trainer) and not callable(value):
        raise DeclarationError(
            f"{name} must be a name ('auto', {', '.join(map(repr, names()))}) or a function "
            f"f(risk, *, lam, ...) -> TrainResult, got {shown(value)}."
        )
    return value


#: `trainer=` of an estimator.
TrainerOption = Annotated[str | TrainerFunction | Trainer, check_trainer]

#: Options that change what a run means: a trainer without them must not seem to have them.
_NOT_IGNORED = ("max_passes", "max_seconds", "checkpoint", "warm")
_WORD = {"warm": "warm_start"}


# ---- memory --------------------------------------------------------------------------------------


def _working_sets(size: ProblemSize) -> dict[str, float]:
    # Examples are processed in twelve groups, each with its table of scores and a transposed copy.
    own = {"working sets": float(BYTES_PER_EXAMPLE * size.examples), "score tables": _score_tables(size) / 12}
    return {"features": _arranged(size), "weights": 24.0 * size.weights, **own}


def _cuts(size: ProblemSize) -> dict[str, float]:
    cuts = 8.0 * (_CUTS + 4) * size.weights
    return {"features": size.features, "cuts": cuts, "score tables": _score_tables(size)}


def _curvature_pairs(size: ProblemSize) -> dict[str, float]:
    # Pairs of vectors, 10 at least; six cuts, and the points between which a step is found.
    pairs = max(160.0 * size.weights, min(640.0 * size.weights, float(1 << 28)))
    own = {"curvature pairs": pairs, "weights": 8.0 * 16 * size.weights}
    return {"features": size.features, **own, "score tables": _score_tables(size)}


def _frank_wolfe(size: ProblemSize) -> dict[str, float]:
    return {"features": _arranged(size), "weights": 32.0 * size.weights, "score tables": _score_tables(size)}


def _arranged(size: ProblemSize) -> float:
    """Bytes of the features in the order of the working sets; sparse features are copied before, with a constant."""
    return (2 if size.sparse else 1) * size.features


def _steps(size: ProblemSize) -> dict[str, float]:
    return {"features": 2 * size.features, "weights": 32.0 * size.weights}


def _stored_steps(size: ProblemSize) -> dict[str, float]:
    # The iterate and its mean, and twice the float64 weights of the result while it is copied.
    weights, result = 2.0 * size.itemsize * size.weights, 16.0 * size.weights
    return {"features": 3 * size.features, "weights": weights, "result": result}


def _score_tables(size: ProblemSize) -> float:
    return 16.0 * size.examples * size.columns


# ---- the table -----------------------------------------------------------------------------------

_TRAINERS: dict[str, Trainer] = {
    trainer.name: trainer
    for trainer in (
        Trainer("block_ascent", block_ascent, ("violations", "part"), _working_sets),
        Trainer("bmrm", bmrm, ("cut",), _cuts),
        Trainer("one_slack", one_slack, ("violations",), _cuts),
        Trainer("n_slack", n_slack, ("violations", "part"), _working_sets),
        Trainer("bcfw", bcfw, ("violations", "part"), _frank_wolfe),
        Trainer("sgd", sgd, ("violations_of", "part"), _steps),
        Trainer("hierarchical_sgd", hierarchical_sgd, ("violations_of", "part"), _stored_steps),
        Trainer("proximal_bundle", proximal_bundle, ("cut",), _cuts),
        Trainer("trust_region_bundle", trust_region_bundle, ("cut",), _cuts),
        Trainer("lbfgs", lbfgs, ("cut",), _curvature_pairs),
        Trainer("multiclass_ascent", multiclass_ascent, ("violations",), _working_sets),
        Trainer("coordinate_descent", coordinate_descent, ("predictions", "pull_back")),
    )
}
#: Names that a user cannot give to another.
_OURS = frozenset(_TRAINERS)


def names() -> list[str]:
    """Names of every registered trainer.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import structopt as so
    >>> "block_ascent" in so.train.names()
    True
    """
    return sorted(_TRAINERS)


@checked
def get(trainer: str | TrainerFunction | Trainer) -> Trainer:
    """A trainer by its name, or a function or object of your own as one.

    Parameters
    ----------
    trainer : str, callable or Trainer
        A callable may say more about itself in attributes `name`, `needs` and `memory`; a `functools.partial` of a
        registered function is that trainer with other defaults.

    Returns
    -------
    Trainer

    Examples
    --------
    >>> import functools
    >>> import structopt as so
    >>> so.train.get("bmrm").needs
    ('cut',)
    >>> so.train.get(functools.partial(so.train.bmrm, max_cuts=50)).name
    'bmrm'
    """
    if isinstance(trainer, Trainer):
        return trainer
    if isinstance(trainer, str):
        if trainer not in _TRAINERS:
            raise DeclarationError(
                f"There is no trainer called {trainer!r}. Registered: {', '.join(names())}. Give a function "
                "f(risk, *, lam, ...) -> TrainResult, or add one with structopt.train.register."
            )
        return _TRAINERS[trainer]
    if not callable(trainer):
        raise DeclarationError(
            f"trainer must be a name or a function f(risk, *, lam, ...) -> TrainResult, got {trainer!r}."
        )
    if isinstance(trainer, type):
        raise DeclarationError(f"trainer is the class {trainer.__name__}; give an object of it.")
    base = _base(trainer)
    for known in _TRAINERS.values():
        if known.function is base:
            return Trainer(known.name, trainer, known.needs, known.memory)
    name = getattr(base, "name", None) or getattr(base, "__name__", type(base).__name__)
    return Trainer(str(name), trainer, _methods(getattr(base, "needs", ())), getattr(base, "memory", None))


def _base(trainer: TrainerFunction) -> TrainerFunction:
    """The function of a partial."""
    return trainer.func if isinstance(trainer, functools.partial) else trainer


def _methods(needs: Any) -> tuple[str, ...]:
    """Names of methods; one of them may stand alone."""
    found = (needs,) if isinstance(needs, str) else sequence("needs", needs)
    if not all(isinstance(name, str) for name in found):
        raise DeclarationError(f"needs must be names of methods, got {shown(needs)}.")
    return tuple(found)


@checked
def register(
    name: str,
    function: TrainerFunction,
    *,
    needs: Sequence[str] = (),
    memory: Callable[[ProblemSize], Mapping[str, float]] | None = None,
    replace: bool = False,
) -> None:
    """Let every estimator, configuration and command find a trainer of your own by its name.

    Parameters
    ----------
    name : str
    function : callable
        ``function(risk, *, lam, ...) -> TrainResult``; see `Trainer`.
    needs : sequence of str
        Methods that a risk must have for it, such as ``"violations"``; a risk without them is refused by name.
    memory : callable, optional
        ``memory(size: ProblemSize) -> {part: bytes}``; hierarchical estimators refuse a run that would not fit.
    replace : bool
        Take the place of another function that was registered under this name; without it that is refused. The same
        function may be registered again.

    Examples
    --------
    >>> import structopt as so
    >>> def patient(risk, *, lam, tol=1e-3, max_passes=100_000):
    ...     return so.train.bmrm(risk, lam=lam, tol=tol, max_passes=max_passes)
    >>> so.train.register("patient", patient, needs=["cut"])
    >>> so.train.get("patient").name
    'patient'
    """
    if name == "auto":
        raise DeclarationError("'auto' lets an estimator choose; register the trainer under another name.")
    if name in _OURS:
        raise DeclarationError(f"{name!r} is a trainer of structopt; register yours under another name.")
    if name in _TRAINERS and _TRAINERS[name].function is not function and not replace:
        raise DeclarationError(
            f"A trainer called {name!r} is registered already; choose another name, or register(..., replace=True)."
        )
    _TRAINERS[name] = Trainer(name, function, _methods(needs), memory)

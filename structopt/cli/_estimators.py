"""The estimators that a configuration can train: their keys, the labels that they need, and their construction."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from structopt.cli._dataset import DataSet
from structopt.cli._problem import load_source
from structopt.errors import DeclarationError, LabelNotAClass, StructoptError

if TYPE_CHECKING:
    from structopt.cli._config import Config

__all__ = ["ESTIMATORS", "NOT_KEYS", "Recipe", "fit", "keys_of", "make", "predict", "recipe_of", "score"]


@dataclass(frozen=True)
class Recipe:
    """The kind of labels that an estimator needs, and the meaning of its score.

    ``"model"``: labels of the model in [model]; ``"nodes"``: labels of a hierarchy; ``"sequences"``: lists;
    ``"classes"`` and ``"numbers"``: one label a row; ``"queries"``: numbers, of rows that may be grouped by query.
    """

    wants: Literal["model", "nodes", "sequences", "classes", "numbers", "queries"]
    score: str


ESTIMATORS = {
    "StructuredSVM": Recipe("model", "1 - task loss / largest task loss"),
    "ConditionalRiskMinimizer": Recipe("model", "minus the mean task loss"),
    "HierarchicalSVM": Recipe("nodes", "share of labels that are right as a whole"),
    "SharedSVM": Recipe("nodes", "share of labels that are right as a whole"),
    "CRF": Recipe("sequences", "share of positions that are right"),
    "LinearSVM": Recipe("classes", "accuracy"),
    "AUCMaximizer": Recipe("classes", "area under the ROC curve"),
    "FBetaSVM": Recipe("classes", "F_beta of the second class"),
    "RankSVM": Recipe("queries", "mean over queries of the measure"),
    "QuantileRegressor": Recipe("numbers", "R squared"),
    "OrdinalRegressor": Recipe("numbers", "R squared"),
}

_NUMBER = (int, float)
#: What a configuration may write for a constructor's parameter, whichever estimator has it.
_KEYS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("search", "trainer", "checkpoint", "loss", "multi_class", "measure"), (str,)),
    **dict.fromkeys(("normalization", "margin", "shares", "kind", "dtype", "support"), (str,)),
    **dict.fromkeys(("kernel", "solver", "method", "joint_kernel"), (str,)),
    **dict.fromkeys(("lam", "tol", "max_passes", "max_seconds", "max_memory", "intercept_scaling"), _NUMBER),
    **dict.fromkeys(("rho", "tolerance", "rounds_tol", "floor", "tau", "beta", "decay"), _NUMBER),
    **dict.fromkeys(("gamma", "degree", "coef0", "rtol"), _NUMBER),
    **dict.fromkeys(("n_jobs", "random_state", "max_rounds", "n_landmarks", "max_programs", "n_starts"), (int,)),
    **dict.fromkeys(("divided", "certify", "intercept", "initial_weights"), (bool,)),
    **dict.fromkeys(("states", "initial"), (list,)),
    **dict.fromkeys(("transitions", "cost", "surrogate"), (str, list)),
    "hierarchy": (list, dict),
    "kernel_params": (dict,),
}
#: Parameters that are no keys: the model has a section, the others make sense in Python only (one command is one fit).
NOT_KEYS = ("model", "verbose", "template", "warm_start", "engine")


def recipe_of(name: Any, where: str) -> Recipe:
    """The recipe of the estimator `name`, or an error that lists the names."""
    if name not in ESTIMATORS:
        raise DeclarationError(f"{where}: there is no estimator {name!r}; choose one of {', '.join(ESTIMATORS)}.")
    return ESTIMATORS[name]


def keys_of(name: str) -> dict[str, tuple[type, ...]]:
    """The keys that [train] may have for an estimator, and what their values are."""
    found = {key: _KEYS[key] for key in inspect.signature(_class(name)).parameters if key not in NOT_KEYS}
    if name == "ConditionalRiskMinimizer":
        found["lam"] = (int, float, list)  # of several the one with the least leave-one-out loss
    return {"estimator": (str,), **found}


def make(config: Config, data: DataSet, *, verbose: bool) -> Any:
    """The estimator of a configuration, not yet trained; parameters that are left out are inferred from the data."""
    recipe, options = ESTIMATORS[config.estimator], dict(config.train)
    _check_labels(recipe, config, data)
    if recipe.wants == "model":
        options["model"] = _model(config, data)
    if recipe.wants == "nodes":
        if "hierarchy" not in options:
            options["hierarchy"] = data.hierarchy
        # Rows over the nodes may hold any label; the one kind that has them all is the closure.
        options.setdefault("kind", "closure" if getattr(data.y, "ndim", 0) == 2 else "leaf")
    if "verbose" in inspect.signature(_class(config.estimator)).parameters:
        options["verbose"] = verbose
    return _class(config.estimator)(**options)


def fit(estimator: Any, data: DataSet, where: str) -> None:
    """Train; an error of scikit-learn about the data becomes a one-line message."""
    X, y, more = _arguments(estimator, data)
    try:
        estimator.fit(X, y, **more)
    except (ValueError, TypeError) as error:
        if isinstance(error, StructoptError):
            raise
        raise DeclarationError(f"{where}: {type(estimator).__name__} cannot be trained so: {error}") from error


def predict(estimator: Any, data: DataSet) -> Any:
    """One prediction for each example of the data: for each query its documents' scores, where there are queries."""
    X, _, more = _arguments(estimator, DataSet(data.X, None))
    try:
        found = estimator.predict(X)
    except (ValueError, TypeError) as error:
        if isinstance(error, StructoptError):
            raise
        raise DeclarationError(f"{type(estimator).__name__} cannot predict from this file: {error}") from error
    return np.split(found, np.cumsum([len(x) for x in data.X])[:-1]) if more else found


def score(estimator: Any, data: DataSet) -> float:
    """The estimator's own score."""
    X, y, more = _arguments(estimator, data)
    try:
        return float(estimator.score(X, y, **more))
    except (ValueError, TypeError) as error:
        # Labels that cannot be classes have most likely been read from the wrong columns.
        read_wrong = isinstance(error, LabelNotAClass)
        if isinstance(error, StructoptError) and not read_wrong:
            raise
        raise DeclarationError(
            f"The labels of the data are not of the kind that {type(estimator).__name__} learned "
            f"({str(error).rstrip('.')}); say with labels which columns they are, or that there are none (--no-labels)."
        ) from error


def _class(name: str) -> Any:
    from structopt import estimators

    return getattr(estimators, name)


def _arguments(estimator: Any, data: DataSet) -> tuple[Any, Any, dict[str, Any]]:
    """X and y as the estimator takes them: `RankSVM` has the queries' documents below each other."""
    known = ESTIMATORS.get(type(estimator).__name__)
    if known is None or known.wants != "queries" or not isinstance(data.X, list):
        return data.X, data.y, {}
    query = np.repeat(np.arange(len(data.X)), [len(x) for x in data.X])
    return np.concatenate(data.X), None if data.y is None else np.concatenate(data.y), {"query": query}


def _check_labels(recipe: Recipe, config: Config, data: DataSet) -> None:
    """Refuse labels of another kind than the estimator learns, with an error that names [data]."""
    where, name, y = f"[data] of {config.where}", config.estimator, data.y
    if recipe.wants == "nodes" and data.hierarchy is None and "hierarchy" not in config.train:
        raise DeclarationError(
            f"[train] of {config.where}: {name} needs hierarchy = a list of [parent, child] or of paths 'a/b', or a "
            "table; these data do not contain one."
        )
    if recipe.wants == "sequences" and not isinstance(data.X, list):
        raise DeclarationError(
            f"{where}: {name} learns sequences; give CoNLL columns, or an npz with sequences = an array of its ends."
        )
    if recipe.wants in ("model", "nodes", "sequences"):
        return
    if recipe.wants == "queries" and isinstance(data.X, list):
        y = np.concatenate(data.y)
    if not isinstance(y, np.ndarray) or y.ndim != 1:
        found = f"{y.shape[1]} columns" if isinstance(y, np.ndarray) else "sequences"
        raise DeclarationError(f"{where}: {name} learns one label a row, and labels = gives {found}; name one column.")
    if recipe.wants in ("numbers", "queries") and y.dtype.kind not in "biuf":
        raise DeclarationError(f"{where}: {name} learns numbers, and labels = gives {y[0].item()!r}.")


# ---- models --------------------------------------------------------------------------------------


def _model(config: Config, data: DataSet) -> Any:
    if config.source is not None:
        return load_source(config.source).model
    from structopt import structures

    where = f"[model] of {config.where}"
    arguments = {key: value for key, value in config.model.items() if key != "structure"}
    name = config.model["structure"]
    known = [found for found in structures.__all__ if found[0].isupper()]
    if name not in known:
        raise DeclarationError(f"{where}: there is no structure {name!r}; choose one of {', '.join(known)}.")
    structure = getattr(structures, name)
    parameters = inspect.signature(structure).parameters
    unknown = [key for key in arguments if key not in parameters]
    if unknown:
        raise DeclarationError(f"{where}: {name} has no argument {unknown[0]!r}; it has {', '.join(parameters)}.")
    for key in parameters:
        if key not in arguments and parameters[key].default is inspect.Parameter.empty:
            arguments[key] = _from_data(key, data, f"{where}: {name}")
    if name == "HierarchicalLabels" and "kind" not in arguments:
        arguments["kind"] = "closure"  # the one space that holds every row a file can have
    try:
        return structure(**arguments)
    except (TypeError, ValueError, AttributeError) as error:
        raise DeclarationError(f"{where}: {name} cannot be made: {error}") from error


def _from_data(key: str, data: DataSet, who: str) -> Any:
    """A required argument of a structure, inferred from the data."""
    y = data.y
    if key == "n" and getattr(y, "ndim", 0) == 2:
        return int(y.shape[1])
    if key == "classes" and getattr(y, "ndim", 0) == 1:
        return np.unique(y).tolist()
    if key == "states" and isinstance(y, list):
        return sorted({state for row in y for state in np.asarray(row).tolist()})
    if key == "hierarchy" and data.hierarchy is not None:
        return data.hierarchy
    hint = ""
    if key == "n" and getattr(y, "ndim", 0) == 1:
        hint = "; one label a row was read. If the last 14 columns are labels, say in [data] labels = -14"
    raise DeclarationError(f"{who} needs {key!r}, which these data do not determine{hint or '; give it'}.")

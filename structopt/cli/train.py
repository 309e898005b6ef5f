"""``structopt train``: a model trained to a certified gap, from a configuration."""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from structopt.cli._config import Config, read_config
from structopt.cli._dataset import DataSet, first_missing, measure, read_data, split
from structopt.cli._estimators import ESTIMATORS, fit, make
from structopt.cli._output import add_command, check_writable, key_value, print_facts, print_json
from structopt.cli._problem import load_source
from structopt.cli._scaling import learn_scale, scale_hint, scaled
from structopt.errors import DeclarationError

__all__ = ["add", "run", "training_data"]

_WANTS = {
    "model": "labels of the model in [model]",
    "nodes": "labels of a hierarchy: the data's own, or hierarchy = in [train]",
    "sequences": "a state for each position of a sequence",
    "classes": "one class a row",
    "numbers": "one number a row",
    "queries": "a relevance a row; rows of a query are compared with each other only",
}
_DESCRIPTION = f"""\
Train an estimator, save it, and print its certificate and measures.

A configuration (paths are relative to its folder):

  output = "model.npz"

  [model]                          # for StructuredSVM and ConditionalRiskMinimizer, one of these three:
  structure = "PairwiseMRF"        #   a class of structopt.structures, with its arguments; the number of labels, the
  intercept = true                 #   classes, the states and the hierarchy are taken from the data if not given
  # name = "named_entities"        #   a model of 'structopt models'
  # path = "my_model.py"           #   a model file, or a space as .mps or .lp

  [data]
  train = "yeast-train.arff"       # svmlight, ARFF, CoNLL, CSV, npz; or generate = 200, for a model's own data set
  test = "yeast-test.arff"         # optional; or a fraction to set aside, such as 0.25 (with seed = 0)
  # format = "csv"                 # if the suffix does not determine it
  # labels = -14                   # and other options of the reader: n_features, ignore, dag, delimiter, word
  # zero_based = true              # the first feature of svmlight files has index 0; by default 1
  # missing = 0.0                  # what to put for missing numbers
  # scale = true                   # features of mean 0 and standard deviation 1; predict does the same
  # sequences = "word_indptr"      # an array of an npz that says where sequences begin
  # query = "user"                 # the column, or array of an npz, that says to which query a row belongs

  [train]                          # the estimator and its parameters, all optional
  estimator = "StructuredSVM"      # or another of those below
  surrogate = "slack"              # or "margin", ...
  trainer = "auto"
  lam = 0.01
  tol = 0.001                      # certified relative gap

estimators:
{chr(10).join(f"  {name:<26}{_WANTS[recipe.wants]}" for name, recipe in ESTIMATORS.items())}

examples:
  structopt train config.toml
  structopt train config.toml --output other.npz --verbose
  structopt train config.toml --set lam=0.1 --set surrogate=margin --json
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "train", run, "train an estimator by a configuration file", _DESCRIPTION)
    parser.add_argument("config", help="a TOML file as above")
    parser.add_argument("--output", metavar="FILE", help="where to save the estimator; replaces the configuration's")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="replace a key of [train] for this run"
    )
    parser.add_argument("--verbose", action="store_true", help="show the progress of the gap on standard error")


def run(arguments: argparse.Namespace) -> int:
    """Train, save, print, and return the exit code."""
    config = read_config(arguments.config, _overrides(arguments.set))
    output = Path(arguments.output) if arguments.output else config.output
    if output is not None:
        check_writable(output, "output")
    data, test = _data(config)
    scale = _scale(config, data, test)
    estimator = make(config, data, verbose=arguments.verbose)
    if output is not None:
        _check_savable(estimator, config)
    with contextlib.redirect_stdout(sys.stderr), _short_warnings():  # only the result goes to standard output
        fit(estimator, data, f"[train] of {config.where}")
        report = _report(estimator, data, test)
    if output is not None:
        _save(estimator, output, config, data, scale)
        report["output"] = str(output)
    if arguments.json:
        print_json(report)
    else:
        _print(report)
    if report.get("converged") is False:
        print(f"structopt: stopped before the gap reached tol ({report['stopped']})", file=sys.stderr)
    return 0


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings as one line each; that of a gap above `tol` is left to the report."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    for warning in found:
        if issubclass(warning.category, UserWarning) and not issubclass(warning.category, ConvergenceWarning):
            print(f"structopt: {' '.join(str(warning.message).split())}", file=sys.stderr)


def _overrides(words: list[str]) -> dict[str, Any]:
    try:
        return dict(key_value(word) for word in words)
    except argparse.ArgumentTypeError as error:
        raise DeclarationError(f"--set: {error}.") from None


def _data(config: Config) -> tuple[DataSet, DataSet | None]:
    data, test = training_data(config), config.data.get("test")
    if isinstance(test, float):
        return split(data, test, config.data.get("seed", 0))
    return data, None if test is None else read_data(test, _aligned(config, data))


def training_data(config: Config) -> DataSet:
    """The examples that [data] names, checked: there are some, with labels, and no number is missing."""
    if "generate" in config.data:
        assert config.source is not None
        data = DataSet(*load_source(config.source).data(config.data["generate"], config.data.get("seed", 0)))
    else:
        data = read_data(config.data["train"], config.reader_options)
    if not len(data) or 0 in getattr(data.X, "shape", ()):
        raise DeclarationError(
            f"[data] of {config.where}: X of the training data has shape {getattr(data.X, 'shape', (0,))}: nothing to "
            "learn from."
        )
    if data.y is None:
        raise DeclarationError(
            f"[data] of {config.where}: the training data have no labels; say with labels = which columns they are."
        )
    row = first_missing(data.X)
    if row is not None:
        raise DeclarationError(
            f"[data] of {config.where}: example {row} has missing numbers; say with missing = a number what to put."
        )
    return data


def _scale(config: Config, data: DataSet, test: DataSet | None) -> dict[str, Any] | None:
    """Scale the features by the training data if the configuration says so; else a hint where it is needed."""
    if not config.data.get("scale", False):
        hint = scale_hint(data.X, data.feature_names) if "scale" not in config.data else None
        if hint is not None:
            print(f"structopt: {hint}", file=sys.stderr)
        return None
    scale = learn_scale(data.X)
    for part in (data, test):
        if part is not None:
            part.X = scaled(part.X, scale)
    return scale


def _aligned(config: Config, data: DataSet) -> dict[str, Any]:
    """Return options that give a further file the columns of the training file, if its format does not state them."""
    from structopt.data.reading import FORMATS, format_of

    options = config.reader_options
    if format_of(Path(config.data["train"]), options.get("format")) != "svmlight":
        return options
    known = inspect.signature(FORMATS["svmlight"][0]).parameters
    X = data.X[0] if isinstance(data.X, list) and data.X else data.X  # queries
    found = {"n_features": getattr(X, "shape", (0, None))[1], "labels": data.label_names}
    return {**{name: value for name, value in found.items() if value is not None and name in known}, **options}


def _report(estimator: Any, data: DataSet, test: DataSet | None) -> dict[str, Any]:
    return {
        "estimator": type(estimator).__name__,
        **({"model": repr(estimator.model)} if hasattr(estimator, "model") else {}),
        **_certificate(estimator),
        "score_is": ESTIMATORS[type(estimator).__name__].score,
        "train": measure(estimator, data),
        "test": None if test is None or test.y is None else measure(estimator, test),
    }


def _certificate(estimator: Any) -> dict[str, Any]:
    """What the training proved; a conditional risk is estimated in closed form, and has a lam chosen."""
    result = getattr(estimator, "result_", None)
    if result is None:
        return {"lam": estimator.lam_, "method": estimator.averages_.method}
    last = result.history[-1] if len(result.history) else None
    return {
        "trainer": result.trainer,
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "converged": bool(result.converged),
        "stopped": result.stopped,
        "passes": result.passes,
        "seconds": last.seconds if last is not None else None,
    }


def _print(report: dict[str, Any]) -> None:
    flat = {key: value for key, value in report.items() if not isinstance(value, dict)}
    for part in ("train", "test"):
        flat |= {f"{part}_{key}": value for key, value in (report[part] or {}).items()}
    print_facts({**flat, "output": flat.pop("output", None)})


def _check_savable(estimator: Any, config: Config) -> None:
    """A conditional risk holds its training labels in its model's space: that model must be in the file, too."""
    from structopt.estimators._codec import Encoder, NotSavable

    if config.estimator != "ConditionalRiskMinimizer":
        return
    try:
        Encoder().encode(estimator.model, "the model")
    except NotSavable as error:
        raise DeclarationError(
            f"output of {config.where}: {error}, so that {config.estimator} cannot be saved with it; use a model of "
            "structopt.structures, or remove output."
        ) from None


def _save(estimator: Any, output: Path, config: Config, data: DataSet, scale: dict[str, Any] | None) -> None:
    """Save with what `predict` needs; a model that only its own file can rebuild is saved by its name."""
    options = dict(_aligned(config, data)) if "train" in config.data else {}
    if isinstance(options.get("labels"), str | Path) and data.label_names is not None:
        options["labels"] = [str(name) for name in data.label_names]  # a saved file names no other files
    options.pop("scale", None)
    estimator.data_options_ = options | ({"scale": scale} if scale is not None else {})
    if hasattr(estimator, "model"):
        estimator.model_source_ = config.source
    if data.label_names is not None:
        estimator.label_names_ = np.asarray(data.label_names)
    try:
        estimator.save(output)
    except DeclarationError:
        if config.source is None:
            raise
        bare = copy.copy(estimator)
        bare.model = None
        bare.save(output)

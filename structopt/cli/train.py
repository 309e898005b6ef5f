"""``structopt train``: a model trained to a certified gap, from a configuration."""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

from structopt.cli._config import TRAIN_KEYS, Config, check_keys, read_config
from structopt.cli._dataset import DataSet, measure, read_data, split
from structopt.cli._output import add_command, key_value, print_facts, print_json
from structopt.cli._problem import load_source
from structopt.errors import DeclarationError, StructoptError

__all__ = ["add", "run"]

_DESCRIPTION = """\
Train a structured SVM, save it, and print its certificate and measures.

A configuration (paths are relative to its folder):

  output = "model.npz"

  [model]                          # one of these three:
  structure = "PairwiseMRF"        #   a class of structopt.structures, with its arguments; the number of labels, the
  bias = true                      #   classes, the states and the hierarchy are taken from the data if not given
  # name = "named_entities"        #   a model of 'structopt models'
  # path = "my_model.py"           #   a model file, or a space as .mps or .lp

  [data]
  train = "yeast-train.arff"       # svmlight, ARFF, CoNLL, CSV, npz; or generate = 200, for a model's own data set
  test = "yeast-test.arff"         # optional; or a fraction to set aside, such as 0.25 (with seed = 0)
  # format = "csv"                 # if the suffix does not tell
  # labels = -14                   # and other options of the reader: n_features, ignore, dag, delimiter, word
  # missing = 0.0                  # what to put for missing numbers
  # sequences = "word_indptr"      # an array of an npz that says where sequences begin

  [train]                          # parameters of StructuredSVM, all optional
  surrogate = "slack"              # or "margin", ...
  trainer = "auto"
  lam = 0.01
  tol = 0.001                      # certified relative gap

examples:
  structopt train config.toml
  structopt train config.toml --output other.npz --verbose
  structopt train config.toml --set lam=0.1 --set surrogate=margin --json
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "train", run, "train a model by a configuration file", _DESCRIPTION)
    parser.add_argument("config", help="a TOML file as above")
    parser.add_argument("--output", metavar="FILE", help="where to save the estimator; replaces the configuration's")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="replace a key of [train] for this run"
    )
    parser.add_argument("--verbose", action="store_true", help="show the progress of the gap on standard error")


def run(arguments: argparse.Namespace) -> int:
    """Train, save, print, and return the exit code."""
    from structopt.estimators import StructuredSVM

    config = read_config(arguments.config)
    config.train |= _overrides(arguments.set)
    output = Path(arguments.output) if arguments.output else config.output
    if output is not None and not output.parent.is_dir():
        raise DeclarationError(f"There is no folder {str(output.parent)!r} to save the model in.")
    data, test = _data(config)
    model = _model(config, data)
    estimator = StructuredSVM(model, **config.train, verbose=arguments.verbose)
    with contextlib.redirect_stdout(sys.stderr):  # the answer alone goes to standard output
        estimator.fit(data.X, data.y)
    report = _report(estimator, data, test)
    if output is not None:
        _save(estimator, output, config, data)
        report["output"] = str(output)
    if arguments.json:
        print_json(report)
    else:
        _print(report)
    if not report["converged"]:
        print(f"structopt: stopped before the gap reached tol ({report['stopped']})", file=sys.stderr)
    return 0


def _overrides(words: list[str]) -> dict[str, Any]:
    try:
        given = dict(key_value(word) for word in words)
    except argparse.ArgumentTypeError as error:
        raise DeclarationError(f"--set: {error}.") from None
    check_keys(given, TRAIN_KEYS, "--set")
    return given


def _data(config: Config) -> tuple[DataSet, DataSet | None]:
    seed = config.data.get("seed", 0)
    if "generate" in config.data:
        assert config.source is not None
        data = DataSet(*load_source(config.source).data(config.data["generate"], seed))
    else:
        data = read_data(config.data["train"], config.reader_options)
    if not len(data) or 0 in getattr(data.X, "shape", ()):
        raise DeclarationError(f"The training data have shape {getattr(data.X, 'shape', (0,))}: nothing to learn from.")
    if data.y is None:
        raise DeclarationError("The training data have no labels; say with labels= in [data] which columns they are.")
    test = config.data.get("test")
    if isinstance(test, float):
        return split(data, test, seed)
    return data, None if test is None else read_data(test, _aligned(config, data))


def _aligned(config: Config, data: DataSet) -> dict[str, Any]:
    """Options that give a further file the columns of the training file, where its format does not tell them."""
    from structopt.data.reading import FORMATS, format_of

    options = config.reader_options
    if format_of(Path(config.data["train"]), options.get("format")) != "svmlight":
        return options
    known = inspect.signature(FORMATS["svmlight"][0]).parameters
    found = {"n_features": getattr(data.X, "shape", (0, None))[1], "labels": data.label_names}
    return {**{name: value for name, value in found.items() if value is not None and name in known}, **options}


def _model(config: Config, data: DataSet) -> Any:
    if config.source is not None:
        return load_source(config.source).model
    from structopt import structures

    arguments = {key: value for key, value in config.model.items() if key != "structure"}
    name = config.model["structure"]
    known = [found for found in structures.__all__ if found[0].isupper()]
    if name not in known:
        raise DeclarationError(f"There is no structure {name!r}; choose one of {', '.join(known)}.")
    structure = getattr(structures, name)
    parameters = inspect.signature(structure).parameters
    unknown = [key for key in arguments if key not in parameters]
    if unknown:
        raise DeclarationError(f"{name} has no argument {unknown[0]!r}; it has {', '.join(parameters)}.")
    for key in parameters:
        if key not in arguments and parameters[key].default is inspect.Parameter.empty:
            arguments[key] = _from_data(key, data, name)
    if name == "HierarchicalLabels" and "kind" not in arguments:
        arguments["kind"] = "closure"  # the one space that holds every row a file can have
    try:
        return structure(**arguments)
    except TypeError as error:
        if isinstance(error, StructoptError):
            raise
        raise DeclarationError(f"{name} cannot be made from [model]: {error}.") from error


def _from_data(key: str, data: DataSet, name: str) -> Any:
    """A required argument of a structure that the data tell."""
    y = data.y
    if key == "n" and getattr(y, "ndim", 0) == 2:
        return int(y.shape[1])
    if key == "classes" and getattr(y, "ndim", 0) == 1:
        return np.unique(y).tolist()
    if key == "states" and isinstance(y, list):
        return sorted({state for row in y for state in np.asarray(row).tolist()})
    if key == "hierarchy" and data.hierarchy is not None:
        return data.hierarchy
    raise DeclarationError(f"{name} needs {key!r}, which these data do not tell; give it in [model].")


def _report(estimator: Any, data: DataSet, test: DataSet | None) -> dict[str, Any]:
    result = estimator.result_
    last = result.history[-1] if len(result.history) else None
    return {
        "model": repr(estimator.model),
        "trainer": estimator.trainer_,
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "converged": bool(result.converged),
        "stopped": result.stopped,
        "passes": result.passes,
        "seconds": last.seconds if last is not None else None,
        "train": measure(estimator, data),
        "test": None if test is None or test.y is None else measure(estimator, test),
    }


def _print(report: dict[str, Any]) -> None:
    flat = {key: value for key, value in report.items() if not isinstance(value, dict)}
    for part in ("train", "test"):
        flat |= {f"{part}_{key}": value for key, value in (report[part] or {}).items()}
    print_facts({**flat, "output": flat.pop("output", None)})


def _save(estimator: Any, output: Path, config: Config, data: DataSet) -> None:
    """Save with what `predict` needs; a model that only its own file can rebuild is saved by its name."""
    estimator.data_options_ = _aligned(config, data) if "train" in config.data else {}
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

"""``structopt predict``: labels of new examples by a saved estimator."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from structopt._archive import write_file
from structopt.cli._dataset import DataSet, measure, read_data
from structopt.cli._estimators import predict
from structopt.cli._output import add_command, check_writable, number, plain, print_json
from structopt.cli._problem import load_source
from structopt.cli._scaling import scaled
from structopt.errors import DeclarationError
from structopt.model.library import available_models

__all__ = ["add", "run"]

_DESCRIPTION = """\
Predict the labels of a file of examples with an estimator that 'structopt train' (or its method save) wrote. Labels
are printed as JSON, one example a line (for RankSVM one query a line, the scores of its documents); if the file has
labels, the measures go to standard error. The file is read with the options of the training file.

examples:
  structopt predict model.npz test.arff
  structopt predict model.npz new.csv --no-labels --names > labels.jsonl
  structopt predict model.npz test.npz --output labels.jsonl --json
  structopt predict model.npz --generate 20 --seed 1      for shipped models with a data set of their own
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "predict", run, "predict with a saved estimator", _DESCRIPTION)
    parser.add_argument("estimator", help="a file that train wrote")
    parser.add_argument("data", nargs="?", help="examples in svmlight, ARFF, CoNLL, CSV or npz")
    parser.add_argument("--format", help="arff, conll, csv, npz or svmlight, if the suffix does not determine it")
    parser.add_argument(
        "--labels", type=_labels, metavar="LABELS", help="label columns: a number, or names with commas"
    )
    parser.add_argument("--no-labels", action="store_true", help="the file has inputs only (CSV, ARFF)")
    parser.add_argument("--generate", type=int, metavar="N", help="N examples of the model's own data set")
    parser.add_argument("--seed", type=int, default=0, help="for --generate")
    parser.add_argument(
        "--model", metavar="MODEL", help="the model's name or file, if the estimator was saved without it"
    )
    parser.add_argument("--names", action="store_true", help="0/1 rows as lists of label names")
    parser.add_argument("--output", metavar="FILE", help="write the labels to a file of JSON lines")


def run(arguments: argparse.Namespace) -> int:
    """Predict, print, and return the exit code."""
    from structopt.estimators import load

    if arguments.output:
        check_writable(arguments.output, "--output")
    if not Path(arguments.estimator).is_file():
        raise FileNotFoundError(f"There is no saved estimator {arguments.estimator!r}.")
    estimator = load(arguments.estimator)
    if not hasattr(estimator, "predict"):
        raise DeclarationError(f"{arguments.estimator} holds a {type(estimator).__name__}, which does not predict.")
    _restore_model(estimator, arguments)
    data = _data(estimator, arguments)
    with contextlib.redirect_stdout(sys.stderr):
        predictions = predict(estimator, data)
        measures = {} if data.y is None else measure(estimator, data)
    labels = [_named(label, estimator) if arguments.names else plain(label) for label in predictions]
    if arguments.output:
        lines = (json.dumps(label, ensure_ascii=False) + "\n" for label in labels)
        write_file(arguments.output, lambda file: file.writelines(line.encode() for line in lines))
    if arguments.json:
        shown = {"output": arguments.output} if arguments.output else {"predictions": labels}
        print_json({**shown, "examples": len(data), "measures": measures or None})
        return 0
    if not arguments.output:
        for label in labels:
            print(json.dumps(label, ensure_ascii=False))
    for name, value in measures.items():
        print(f"{name} {number(value)}", file=sys.stderr)
    return 0


def _restore_model(estimator: Any, arguments: argparse.Namespace) -> None:
    """Put back a model that was saved by its name; a file is read, or run, only if the user names it."""
    # A CRF of sequences has no model but the one that it makes, model_.
    if getattr(estimator, "model", estimator) is not None or hasattr(estimator, "model_"):
        return
    source = arguments.model or _safe_source(estimator)
    if source is None:
        raise DeclarationError(
            f"{arguments.estimator} was saved without its model, {estimator.model_source_!r}; name it by --model."
        )
    estimator.model = load_source(source).model


def _safe_source(estimator: Any) -> str | None:
    source: str | None = getattr(estimator, "model_source_", None)
    return source if source in available_models() else None


def _data(estimator: Any, arguments: argparse.Namespace) -> DataSet:
    if (arguments.data is None) == (arguments.generate is None):
        raise DeclarationError("Give a file of examples, or --generate N.")
    options = dict(getattr(estimator, "data_options_", {}))
    if arguments.generate is not None:
        source = arguments.model or _safe_source(estimator)
        if source is None:
            raise DeclarationError("--generate needs a model with a data set of its own; name it by --model.")
        data = DataSet(*load_source(source).data(arguments.generate, arguments.seed))
        if "scale" in options:
            data.X = scaled(data.X, options["scale"])
        return data
    if isinstance(options.get("labels"), str) and arguments.labels is None:
        raise DeclarationError(
            f"{arguments.estimator} names a file of labels, {options['labels']!r}, and files are named by the user "
            "alone; say by --labels which columns are labels."
        )
    if arguments.format is not None:
        options["format"] = arguments.format
    if arguments.labels is not None:
        options["labels"] = arguments.labels
    data = read_data(arguments.data, options | ({"labels": 0} if arguments.no_labels else {}))
    if "scale" in options:
        data.X = scaled(data.X, options["scale"])
    return DataSet(data.X, None) if arguments.no_labels else data


def _named(label: Any, estimator: Any) -> Any:
    names = getattr(estimator, "label_names_", None)
    row = np.asarray(label) if isinstance(label, np.ndarray) else None
    if names is None or row is None or row.shape != (len(names),):
        return plain(label)
    return [plain(names[k]) for k in np.flatnonzero(row)]


def _labels(text: str) -> int | list[str]:
    try:
        return int(text)
    except ValueError:
        return text.split(",")

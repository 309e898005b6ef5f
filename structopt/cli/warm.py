"""``structopt warm``: compile what a model or a configuration needs, before the first fit of a machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numba
import numpy as np

import structopt
from structopt._jit.watching import compilations_told_to
from structopt.cli._config import read_config
from structopt.cli._estimators import fit, make, predict
from structopt.cli._output import add_command, print_facts, print_json
from structopt.cli._problem import load_source
from structopt.cli.train import training_data
from structopt.estimators import StructuredSVM

__all__ = ["add", "run"]

#: Examples of a rehearsal, and its passes: enough for every kernel of a trainer to be reached.
_EXAMPLES, _PASSES = 24, 4

_DESCRIPTION = """\
Compile the kernels that training and prediction need, and keep them in numba's cache: in the image of a container, or
once on the file system of a cluster. A few examples of the configuration's or the model's own data are trained on for
a few passes; nothing is saved but the compiled code.

The cache is beside the installed package, or where NUMBA_CACHE_DIR says; it serves processors of the same kind only.

examples:
  structopt warm config.toml
  structopt warm named_entities --surrogate margin slack
  structopt warm my_model.py
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "warm", run, "compile what a model or a configuration needs", _DESCRIPTION)
    parser.add_argument("source", help="a configuration of 'structopt train', a model file .py, a shipped model's name")
    parser.add_argument(
        "--surrogate",
        nargs="+",
        default=["margin", "slack"],
        metavar="NAME",
        help="surrogates to train by (default margin slack); a configuration has its own",
    )


def run(arguments: argparse.Namespace) -> int:
    """Rehearse, print what was compiled, and return the exit code."""
    kernels: list[str] = []
    begun, cpu = time.perf_counter(), time.process_time()
    with (
        compilations_told_to(kernels.append),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(sys.stderr),
    ):
        warnings.simplefilter("ignore")  # of a rehearsal that ends long before its gap
        if arguments.source.lower().endswith(".toml"):
            _rehearse_configuration(arguments.source)
        else:
            _rehearse_model(arguments.source, arguments.surrogate)
    facts = {
        "kernels_compiled": len(kernels),
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "cache": os.environ.get("NUMBA_CACHE_DIR", str(Path(structopt.__file__).parent)),
        "numba": numba.__version__,
    }
    if arguments.json:
        print_json(facts)
    else:
        print_facts(facts)
    return 0


def _rehearse_configuration(path: str) -> None:
    config = read_config(path, {})
    data = training_data(config)
    estimator = make(config, data, verbose=False)
    if "max_passes" in estimator.get_params(deep=False):
        estimator.set_params(max_passes=_PASSES)
    if "checkpoint" in estimator.get_params(deep=False):
        estimator.set_params(checkpoint=None)
    # From all over the file: data sorted by class would show one of them only.
    some = data.take(np.unique(np.linspace(0, len(data) - 1, _EXAMPLES).astype(int)))
    fit(estimator, some, f"[train] of {config.where}")
    predict(estimator, some)


def _rehearse_model(source: str, surrogates: list[str]) -> None:
    loaded = load_source(source)
    X, Y = loaded.data(_EXAMPLES, 0)
    for surrogate in surrogates:
        StructuredSVM(loaded.model, surrogate=surrogate, max_passes=_PASSES).fit(X, Y).predict(X)

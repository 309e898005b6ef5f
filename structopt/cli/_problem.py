"""A program to solve or inspect: a file of a modelling tool, a model file, or a shipped model."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from structopt.errors import DeclarationError, StructoptError
from structopt.interop.text import text_of
from structopt.model.library import LoadedModel, load_model
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["Problem", "add_source", "load_source", "objective_of", "open_problem", "read_costs"]

# The default size of a data set that a model generates.
_EXAMPLES = 100
_SPACES = (".mps", ".lp", ".mps.gz", ".lp.gz")


@dataclass
class Problem:
    """A space, and the model and the input that it comes from, if there are any."""

    source: str
    space: LabelSpace
    loaded: LoadedModel | None = None
    x: Any = None

    @property
    def algorithm(self) -> Any:
        """The combinatorial algorithm of a shipped structure."""
        return None if self.loaded is None else self.loaded.model.algorithm(self.x)


def add_source(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """The arguments that `open_problem` reads."""
    parser.add_argument(
        "source",
        metavar="model",
        help=f"a .mps or .lp file (also .gz), a model file .py, a name of 'structopt models'{more}",
    )
    parser.add_argument(
        "--example",
        type=int,
        default=0,
        metavar="K",
        help="for models: number of the example of its data set (default 0)",
    )
    parser.add_argument("--seed", type=int, default=0, help="for models: seed of its data set and of random weights")


def load_source(source: str) -> LoadedModel:
    """`load_model`; an error inside a user's file becomes a one-line message."""
    try:
        return load_model(source)
    except (StructoptError, OSError):
        raise
    except Exception as error:
        raise DeclarationError(f"The model of {source} cannot be made: {type(error).__name__}: {error}") from error


def open_problem(arguments: argparse.Namespace) -> Problem:
    """The space that the arguments name; that of an example, where it depends on the input."""
    source = arguments.source
    if source.lower().endswith(_SPACES):
        return Problem(source, LabelSpace.read(source))
    loaded = load_source(source)
    if arguments.example < 0:
        raise DeclarationError(f"--example counts from 0, got {arguments.example}.")
    if loaded._data is None and loaded.model.fixed:
        return Problem(source, loaded.model.space(), loaded)
    # Example K must not depend on K: a data set of another size is another data set.
    X, _ = loaded.data(max(_EXAMPLES, arguments.example + 1), arguments.seed)
    x = X[arguments.example]
    return Problem(source, loaded.model.space(x), loaded, x)


def read_costs(path: str, space: LabelSpace) -> FloatArray:
    """Objective coefficients: JSON, a list or ``{"name": coefficient}``; or numbers in a text file."""
    text = text_of(Path(path), compressed=False)
    try:
        found = json.loads(text) if path.lower().endswith(".json") else [float(word) for word in text.split()]
        if isinstance(found, dict):
            place = {name: k for k, name in enumerate(space.variable_names)}
            unknown = [name for name in found if name not in place]
            if unknown:
                raise DeclarationError(f"{path} names {unknown[0]!r}, which is not a variable of the model.")
            costs = np.zeros(space.n_variables)
            costs[[place[name] for name in found]] = [float(cost) for cost in found.values()]
        else:
            costs = np.array(found, dtype=np.float64)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, DeclarationError):
            raise
        raise DeclarationError(f"{path} does not hold objective coefficients: {error}.") from None
    if costs.shape != (space.n_variables,):
        raise DeclarationError(f"{path} has {costs.size} coefficients; the model has {space.n_variables} variables.")
    return costs


def objective_of(problem: Problem, arguments: argparse.Namespace) -> tuple[FloatArray, float, str, str]:
    """Objective coefficients, constant, sense, and a description of their source."""
    if arguments.costs is not None:
        sense = "minimize" if arguments.minimize else "maximize"
        return read_costs(arguments.costs, problem.space), 0.0, sense, arguments.costs
    if problem.loaded is not None:
        return (*_scores(problem, arguments), "maximize", _weights_told(arguments))
    found = problem.space.objective
    if found is None:
        return np.zeros(problem.space.n_variables), 0.0, "maximize", "none: any feasible point"
    return found.coef, found.constant, found.sense, problem.source


def _scores(problem: Problem, arguments: argparse.Namespace) -> tuple[FloatArray, float]:
    assert problem.loaded is not None
    if problem.x is None:
        raise DeclarationError(f"{problem.source} has no data set to take an input from; give --costs.")
    model = problem.loaded.model
    if arguments.weights is not None:
        from structopt.estimators import load

        w = load(arguments.weights).coef_
    else:
        w = np.random.default_rng(arguments.seed).normal(size=model.n_weights(problem.x))
    return model.scores(w, problem.x), 0.0


def _weights_told(arguments: argparse.Namespace) -> str:
    return f"weights of {arguments.weights}" if arguments.weights else f"random weights (seed {arguments.seed})"

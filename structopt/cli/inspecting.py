"""``structopt inspect``: what a program or a trained model is, without solving it."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from structopt.algorithms.diagram import DIAGRAMS
from structopt.cli._output import add_command, print_facts, print_json
from structopt.cli._problem import Problem, add_source, open_problem
from structopt.errors import DiagramRefused, InfeasibleSpace
from structopt.oracle import Oracle

__all__ = ["add", "run"]

_DESCRIPTION = """\
Describe a program: its size, its structure with the reason, whether its LP is integral, and which oracle answers.
Describe a trained estimator: its parameters, and the certificate of its training.

examples:
  structopt inspect model.mps
  structopt inspect my_model.py --json
  structopt inspect named_entities --example 3
  structopt inspect trained.npz
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "inspect", run, "size, structure, integrality and oracle of a program", _DESCRIPTION)
    add_source(parser, more=", or a saved estimator .npz")


def run(arguments: argparse.Namespace) -> int:
    """Describe, print, and return the exit code."""
    if arguments.source.lower().endswith(".npz"):
        facts = _estimator(arguments.source)
    else:
        problem = open_problem(arguments)
        facts = _model(problem) | _space(problem)
    if arguments.json:
        print_json(facts)
    else:
        print_facts(facts)
    return 0


def _space(problem: Problem) -> dict[str, Any]:
    compiled, structure = problem.space.compiled, problem.space.structure
    binary = int(compiled.is_binary.sum())
    integer = int(np.count_nonzero(compiled.integrality))
    oracle = Oracle(problem.space, algorithm=problem.algorithm)
    diagram = None
    if structure.kind == "general" and problem.algorithm is None and integer:
        try:
            diagram = DIAGRAMS.get(compiled).summary
        except DiagramRefused as refusal:
            diagram = f"refused ({refusal.reason}): {refusal}"
        except InfeasibleSpace:
            diagram = "no labels"
    if structure.integral:
        integrality = "every vertex of the LP is integral"
    elif structure.half_integral:
        integrality = "every vertex of the LP is half-integral"
    else:
        integrality = "not proved: the LP may be fractional"
    return {
        "name": compiled.name or None,
        "variables": compiled.n_variables,
        "binary": binary,
        "other_integer": integer - binary,
        "continuous": compiled.n_variables - integer,
        "rows": compiled.n_rows,
        "lazy_rows": ", ".join(separation.name for separation in compiled.separations) or None,
        "non_zeros": int(compiled.matrix.nnz),
        "structure": structure.kind,
        "reason": structure.reason,
        "integrality": integrality,
        "totally_unimodular": structure.unimodular_proof or "not proved",
        "oracle": oracle.algorithm,
        "diagram": diagram,
        "fingerprint": compiled.fingerprint[:16],
    }


def _model(problem: Problem) -> dict[str, Any]:
    if problem.loaded is None:
        return {}
    model = problem.loaded.model
    doc = problem.loaded.doc.strip()
    return {
        "model": repr(model),
        "about": doc.splitlines()[0] if doc else None,
        "features": ", ".join(f"{block}: {term!r}" for block, term in model.features.items()),
        "weights": model.n_weights(problem.x) if problem.x is not None else None,
        "space": "the same for every input" if model.fixed else "depends on the input; that of this example follows",
    }


def _estimator(path: str) -> dict[str, Any]:
    from structopt.estimators import load

    estimator = load(path)
    facts: dict[str, Any] = {"estimator": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if value is not None:
            facts[name] = value if isinstance(value, bool | int | float | str) else repr(value)
    facts["model_source"] = getattr(estimator, "model_source_", None)
    facts["weights_learned"] = np.size(getattr(estimator, "coef_", ()))
    result = getattr(estimator, "result_", None)
    if result is not None:
        facts |= {name: getattr(result, name) for name in ("objective", "lower_bound", "gap", "converged", "stopped")}
    return facts

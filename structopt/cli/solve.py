"""``structopt solve``: the best point of a program, by any solver."""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np

from structopt.cli._output import add_command, key_value, number, print_facts, print_json
from structopt.cli._problem import Problem, add_source, objective_of, open_problem
from structopt.errors import DeclarationError
from structopt.oracle import Oracle
from structopt.oracle.label import Label

__all__ = ["add", "run"]

_DESCRIPTION = """\
Solve a linear or integer program, or find the best label of a model's example.

examples:
  structopt solve model.mps                          with the fastest exact algorithm for its structure, else HiGHS
  structopt solve model.lp --solver cbc --time-limit 10
  structopt solve model.lp --solver my-solver.toml --option mip_gap=0.01
  structopt solve space.mps --costs costs.json --minimize
  structopt solve named_entities --example 3 --weights trained.npz
  structopt solve budgeted_tagger --k-best 3 --json

A model file (.py) scores its example by the weights of a trained estimator, or by random ones.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "solve", run, "solve a program, or a model's example", _DESCRIPTION)
    add_source(parser)
    parser.add_argument(
        "--solver", default="auto", help="a profile of 'structopt solvers', or a .toml file of your own"
    )
    parser.add_argument("--relax", action="store_true", help="solve the LP relaxation")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS")
    parser.add_argument("--mip-gap", type=float, metavar="GAP", help="relative gap at which a MIP solver may stop")
    parser.add_argument(
        "--option", action="append", default=[], type=key_value, metavar="KEY=VALUE", help="an option of the solver"
    )
    parser.add_argument("--costs", metavar="FILE", help="objective coefficients: a JSON list or object, or numbers")
    parser.add_argument("--minimize", action="store_true", help="minimise the objective of --costs")
    parser.add_argument("--weights", metavar="FILE", help="for models: a saved estimator that scores the example")
    parser.add_argument("--k-best", type=int, default=1, metavar="K", help="the K best points")
    parser.add_argument("--all", action="store_true", help="print the variables that are zero as well")


def run(arguments: argparse.Namespace) -> int:
    """Solve, print, and return the exit code."""
    if arguments.k_best < 1:
        raise DeclarationError(f"--k-best must be at least 1, got {arguments.k_best}.")
    problem = open_problem(arguments)
    costs, constant, sense, origin = objective_of(problem, arguments)
    sign = -1.0 if sense == "minimize" else 1.0
    algorithm = problem.algorithm if arguments.solver == "auto" else None
    begun = perf_counter()
    oracle = Oracle(
        problem.space,
        arguments.solver,
        integral="relax" if arguments.relax else "auto",
        algorithm=algorithm,
        **_options(arguments),
    )
    if arguments.k_best == 1:
        labels = [oracle.maximize(sign * costs)]
    else:
        labels = oracle.k_best(sign * costs, arguments.k_best)
    seconds = perf_counter() - begun
    common = {"model": problem.source, "sense": sense, "objective_from": origin, "solver": oracle.algorithm}
    answers = [_answer(problem, label, sign, constant, everything=arguments.all) for label in labels]
    if arguments.json:
        print_json({**common, "seconds": seconds, **answers[0], **({"k_best": answers} if len(answers) > 1 else {})})
        return 0
    print_facts({**common, "seconds": round(seconds, 4)})
    for rank, answer in enumerate(answers):
        print(f"\n{rank + 1}." if len(answers) > 1 else "")
        variables = answer.pop("variables")
        print_facts(answer)
        for name, value in variables.items():
            print(f"  {name} = {number(value)}")
    return 0


def _answer(problem: Problem, label: Label, sign: float, constant: float, *, everything: bool) -> dict[str, Any]:
    shown = np.arange(label.z.size) if everything else np.flatnonzero(np.abs(label.z) > 1e-9)
    names = problem.space.variable_names
    found: dict[str, Any] = {
        "status": label.status,
        "value": sign * label.value + constant,
        "bound": sign * label.bound + constant,
        "integral": label.integral,
    }
    if problem.loaded is not None and label.integral:
        found["label"] = problem.loaded.model.decode(label.z, problem.x)
    found["variables"] = {names[k]: float(label.z[k]) for k in shown.tolist()}
    return found


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    given = {"time_limit": arguments.time_limit, "mip_gap": arguments.mip_gap}
    return {**{name: value for name, value in given.items() if value is not None}, **dict(arguments.option)}

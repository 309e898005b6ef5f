"""Report of the ways in which an oracle can answer: their costs, measured times, and which of them are used."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from structopt.algorithms.base import Algorithm
from structopt.algorithms.diagram import DIAGRAMS, CoupledDiagram, DiagramAlgorithm
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.question import Question
from structopt.algorithms.registry import ALGORITHMS
from structopt.errors import DiagramRefused
from structopt.oracle.label import Statistics
from structopt.recognize import recognize

if TYPE_CHECKING:
    from structopt.oracle.oracle import Oracle

__all__ = ["Option", "Plan", "plan_of"]

_HEADS = ("option", "algorithm", "to make", "one call", "measured", "used for")
_WIDEST = 60


@dataclass(frozen=True, eq=False)
class Option:
    """One way to answer, as `Oracle.plan` lists it.

    Attributes
    ----------
    name : str
        "own algorithm", "record", "recognised", "list", "diagram", "diagram without a row" or "solver".
    algorithm : str
        Name of the algorithm that solves the space, or why this option does not.
    answers : Question
        Questions that it can answer; empty if it does not apply or has not been made.
    used : Question
        Questions that it answers now.
    to_make : str
        Steps of making it, as a formula in the sizes of the space.
    steps : Mapping of Question to str
        Steps or time of one answer to each question that it can answer, as formulas.
    seconds_to_make : float or None
        Measured time of making it; None if it was not made, or made elsewhere.
    seconds : float or None
        Value of the formula of one call, if the formula is a time and the option has been made.
    measured : Statistics
        Calls so far, and their time.
    """

    name: str
    algorithm: str
    answers: Question
    used: Question
    to_make: str
    steps: Mapping[Question, str]
    seconds_to_make: float | None
    seconds: float | None
    measured: Statistics

    def cells(self) -> list[str]:
        """Return the row of this option in the table of a plan."""
        to_make = self.to_make if self.seconds_to_make is None else f"{self.to_make}: {_time(self.seconds_to_make)}"
        call = self.steps.get(Question.ARGMAX, "")
        call = call if self.seconds is None else f"{call}: {_time(self.seconds)}"
        calls = self.measured.calls
        mean = f"{calls} call{'s' * (calls > 1)}, {_time(self.measured.seconds / calls)} each" if calls else ""
        return [self.name, self.algorithm, to_make.lstrip(": "), call, mean, question_names(self.used)]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The options of an oracle, in the order in which it considers them.

    Attributes
    ----------
    space : str
        The space, as its repr.
    options : tuple of Option
    """

    space: str
    options: tuple[Option, ...]

    def __getitem__(self, name: str) -> Option:
        return next(option for option in self.options if option.name == name)

    def answered_by(self, question: Question) -> Option | None:
        """Return the option that answers a question; None if no option does."""
        return next((option for option in self.options if question in option.used), None)

    def __repr__(self) -> str:
        rows = [list(_HEADS), *(option.cells() for option in self.options)]
        rows = [[_short(cell) for cell in row] for row in rows]
        widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADS))]
        rows.insert(1, ["-" * width for width in widths])
        table = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
        return "\n".join([f"Plan of {self.space}", *table])

    def _repr_html_(self) -> str:
        from structopt.space.views import html_table

        return html_table(list(_HEADS), [option.cells() for option in self.options])


def plan_of(oracle: Oracle) -> Plan:
    """Return the report of an oracle, whose `answers` have been read."""
    used = {question: oracle._answering(question) for question in Question}
    made = {_name(oracle, algorithm): algorithm for algorithm in used.values() if algorithm is not None}
    makers = (_own, _recognised, _list, _diagram, _without_a_row, _solver)
    options = []
    for make in makers:
        option = make(oracle, made)
        if option is not None:
            names = [question for question, by in used.items() if by is not None and _name(oracle, by) == option.name]
            options.append(replace(option, used=functools.reduce(operator.or_, names, Question(0))))
    return Plan(repr(oracle.space), tuple(options))


def question_names(questions: Question) -> str:
    """Return the names of questions as text."""
    every = "everything" if questions == ~Question(0) else ""
    return every or ", ".join(str(q.name).lower().replace("_", " ") for q in Question if q in questions)


def _name(oracle: Oracle, algorithm: Algorithm) -> str:
    """Return the name of the option that an algorithm of this oracle belongs to."""
    if algorithm is oracle._solvers:
        return "solver"
    if oracle._used and algorithm is oracle._used[0][0]:
        if oracle._given is not None:
            return "own algorithm"
        if oracle._record is not None and oracle.integral != "relax":
            return "record"
    kinds = {Enumeration: "list", DiagramAlgorithm: "diagram", CoupledDiagram: "diagram without a row"}
    return kinds.get(type(algorithm), "recognised")


def _option(
    oracle: Oracle, name: str, algorithm: Algorithm | None, text: str, to_make: str = "", seconds: float | None = None
) -> Option:
    """Return the option of an algorithm; None stands for an option that has not been made or does not apply."""
    if algorithm is None:
        return Option(name, text, Question(0), Question(0), to_make, {}, None, None, Statistics())
    return Option(
        name=name,
        algorithm=text,
        answers=algorithm.answers,
        used=Question(0),
        to_make=to_make,
        steps={question: steps for question in Question if (steps := algorithm.steps_of(question))},
        seconds_to_make=seconds,
        seconds=algorithm.seconds_per_call(batch=False),
        measured=oracle._measured(algorithm),
    )


_Made = Mapping[str, Algorithm]


def _own(oracle: Oracle, made: _Made) -> Option | None:
    if oracle._given is not None:
        given = oracle._used[0][0]
        return _option(oracle, "own algorithm", given, given.name, seconds=oracle._seconds_to_start)
    if oracle._record is None:
        return None
    kind, algorithm = type(oracle._record).__name__, made.get("record")
    text = "describes no relaxation" if algorithm is None else algorithm.name
    return _option(oracle, "record", algorithm, f"{kind}: {text}", "checks of the arrays", oracle._seconds_to_start)


def _recognised(oracle: Oracle, made: _Made) -> Option:
    structure = oracle.declared.structure if oracle.declared is not None else recognize(oracle.space)
    algorithm = made.get("recognised")
    parts = structure.parts or (structure,)
    known = all(type(part.record) in ALGORITHMS for part in parts)
    text = algorithm.name if algorithm is not None else structure.oracle if known else structure.reason
    to_make = "entries of the matrix"
    return _option(oracle, "recognised", algorithm, f"{structure.kind}: {text}", to_make, oracle._seconds_to_start)


def _list(oracle: Oracle, made: _Made) -> Option:
    found = made.get("list")
    if isinstance(found, Enumeration):
        return _option(oracle, "list", found, f"{len(found.labels)} labels", Enumeration.making)
    return _option(oracle, "list", None, Enumeration.refusal(oracle.space) or "not made", Enumeration.making)


def _diagram(oracle: Oracle, made: _Made) -> Option:
    space, found = oracle.space, made.get("diagram")
    known = found.diagram if isinstance(found, DiagramAlgorithm) else DIAGRAMS.known(space)
    if known is not None:
        algorithm = found or DiagramAlgorithm(known)
        seconds = DIAGRAMS.seconds(space)
        return _option(oracle, "diagram", algorithm, known.summary, DiagramAlgorithm.making, seconds)
    refusal = DIAGRAMS.refusal(space)
    text = "lazy rows are not compiled" if space.separations else "not made"
    if refusal is not None:
        text = f"refused: {refusal.reason if isinstance(refusal, DiagramRefused) else 'no label'}"
    return _option(oracle, "diagram", None, text, DiagramAlgorithm.making)


def _without_a_row(oracle: Oracle, made: _Made) -> Option | None:
    found = made.get("diagram without a row")
    if not isinstance(found, CoupledDiagram):
        return None
    return _option(oracle, "diagram without a row", found, found.diagram.summary, DiagramAlgorithm.making)


def _solver(oracle: Oracle, made: _Made) -> Option:
    pool, runs = oracle._solvers, oracle._solvers.statistics
    return _option(oracle, "solver", pool, f"{pool.name}: {runs.lp} LP, {runs.mip} MIP runs", "a model per thread")


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _short(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..."

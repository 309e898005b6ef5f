"""Report of the ways in which an oracle can answer: their costs, measured times, and which of them are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    space, solvers, begun = oracle.space, oracle._solvers, oracle._seconds_to_start
    made: dict[str, Algorithm] = {}
    used: dict[str, Question] = {}
    for question in Question:
        algorithm = oracle._answering(question)
        if algorithm is not None:
            name = _name(oracle, algorithm)
            made[name], used[name] = algorithm, used.get(name, Question(0)) | question
    options: list[Option] = []

    def add(name: str, text: str, to_make: str, found: Algorithm | None, seconds: float | None = None) -> None:
        """Add an option, which has not been made or does not apply if no algorithm was found."""
        now = used.get(name, Question(0))
        if found is None:
            options.append(Option(name, text, Question(0), now, to_make, {}, None, None, Statistics()))
            return
        steps = {question: steps for question in Question if (steps := found.steps_of(question))}
        measured = solvers.statistics if found is solvers else oracle._used.get(found, Statistics())
        call = found.seconds_per_call(batch=False)
        options.append(Option(name, text, found.answers, now, to_make, steps, seconds, call, measured))

    if oracle._given is not None:
        add("own algorithm", made["own algorithm"].name, "", made["own algorithm"], begun)
    elif oracle._record is not None:
        found = made.get("record")
        text = "describes no relaxation" if found is None else found.name
        add("record", f"{type(oracle._record).__name__}: {text}", "checks of the arrays", found, begun)

    structure = oracle.declared.structure if oracle.declared is not None else recognize(space)
    found = made.get("recognised")
    known = all(type(part.record) in ALGORITHMS for part in structure.parts or (structure,))
    text = found.name if found is not None else structure.oracle if known else structure.reason
    add("recognised", f"{structure.kind}: {text}", "entries of the matrix", found, begun)

    found = made.get("list")
    listed = f"{len(found.labels)} labels" if isinstance(found, Enumeration) else Enumeration.refusal(space)
    add("list", listed or "not made", Enumeration.making, found)

    found, diagram, refusal = made.get("diagram"), DIAGRAMS.known(space), DIAGRAMS.refusal(space)
    if found is None and diagram is not None:
        found = DiagramAlgorithm(diagram)
    text = "lazy rows are not compiled" if space.separations else "not made"
    if isinstance(found, DiagramAlgorithm):
        text = found.diagram.summary
    elif refusal is not None:
        text = f"refused: {refusal.reason if isinstance(refusal, DiagramRefused) else 'no label'}"
    add("diagram", text, DiagramAlgorithm.making, found, None if found is None else DIAGRAMS.seconds(space))

    found = made.get("diagram without a row")
    if isinstance(found, CoupledDiagram):
        add("diagram without a row", found.diagram.summary, DiagramAlgorithm.making, found)
    runs = solvers.statistics
    add("solver", f"{solvers.name}: {runs.lp} LP, {runs.mip} MIP runs", "a model per thread", solvers)
    return Plan(repr(space), tuple(options))


def question_names(questions: Question) -> str:
    """Return the names of questions as text."""
    every = "everything" if questions == ~Question(0) else ""
    return every or ", ".join(str(q.name).lower().replace("_", " ") for q in Question if q in questions)


def _name(oracle: Oracle, algorithm: Algorithm) -> str:
    """Return the name of the option that an algorithm of this oracle belongs to."""
    if algorithm is oracle._solvers:
        return "solver"
    if algorithm is next(iter(oracle._used), None):
        if oracle._given is not None:
            return "own algorithm"
        if oracle._record is not None and oracle.integral != "relax":
            return "record"
    kinds = {Enumeration: "list", DiagramAlgorithm: "diagram", CoupledDiagram: "diagram without a row"}
    return kinds.get(type(algorithm), "recognised")


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _short(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..."

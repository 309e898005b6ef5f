"""The report of a conformance suite."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from structopt.errors import DeclarationError

__all__ = ["NotChecked", "Outcome", "Report", "run_checks"]


class NotChecked(Exception):
    """Raised by a check that does not concern its subject, with the reason."""


@dataclass(frozen=True)
class Outcome:
    """One property and whether it holds.

    Attributes
    ----------
    check : str
        Name of the check, as `skip` takes it.
    law : str
        The property in one sentence.
    result : str
        ``"passed"``, ``"failed"`` or ``"skipped"``.
    reason : str
        How it fails, or why it was not checked.
    seconds : float
    """

    check: str
    law: str
    result: str
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """Outcomes of a conformance suite, readable as text and as HTML.

    Parameters
    ----------
    subject : str
        What was checked.
    outcomes : sequence of Outcome

    Examples
    --------
    >>> report = Report("mine", (Outcome("optimal_lp", "An LP is solved.", "failed", "found 1, not 2"),))
    >>> report
    <Report on mine: 0 passed, 1 failed, 0 skipped>
      failed  optimal_lp: An LP is solved. found 1, not 2
    >>> report.ok
    False
    """

    subject: str
    outcomes: tuple[Outcome, ...]

    def _with(self, result: str) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.result == result)

    @property
    def passed(self) -> tuple[Outcome, ...]:
        """The properties that hold."""
        return self._with("passed")

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The properties that do not hold."""
        return self._with("failed")

    @property
    def skipped(self) -> tuple[Outcome, ...]:
        """The properties that were not checked, with the reason."""
        return self._with("skipped")

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def __repr__(self) -> str:
        lines = [
            f"<Report on {self.subject}: {len(self.passed)} passed, {len(self.failed)} failed, "
            f"{len(self.skipped)} skipped>"
        ]
        for outcome in self.failed + self.skipped:
            lines.append(f"  {outcome.result:7} {outcome.check}: {outcome.law} {outcome.reason}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(o.check)}</td><td>{o.result}</td><td>{html.escape(o.law)}</td>"
            f"<td>{html.escape(o.reason)}</td><td>{o.seconds:.2f} s</td></tr>"
            for o in self.outcomes
        )
        head = "<tr><th>check</th><th>result</th><th>law</th><th>reason</th><th>time</th></tr>"
        title = html.escape(repr(self).splitlines()[0])
        return f"<table><caption>{title}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"


def run_checks(
    subject: str, checks: Mapping[str, Callable[[Any], None]], case: Any, skip: Iterable[str] = ()
) -> Report:
    """Run the checks on a case; a check fails if it raises, and its docstring is the law."""
    left_out = set(skip)
    unknown = sorted(left_out - set(checks))
    if unknown:
        raise DeclarationError(f"There is no check {unknown[0]!r}; there are {', '.join(checks)}.")
    outcomes = []
    for name, check in checks.items():
        begun, result, reason = perf_counter(), "passed", ""
        try:
            if name in left_out:
                raise NotChecked("left out by the caller")
            check(case)
        except NotChecked as why:
            result, reason = "skipped", str(why)
        except Exception as error:  # an error of the part under test is a finding
            text = str(error) or type(error).__name__
            result, reason = "failed", text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
        law = (check.__doc__ or "").strip().splitlines()[0]
        outcomes.append(Outcome(name, law, result, reason, perf_counter() - begun))
    return Report(subject, tuple(outcomes))

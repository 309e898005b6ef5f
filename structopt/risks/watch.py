"""The deadline and the work counter that the parts of one structured risk share.

Work is counted, not timed, so that a trainer's decisions are the same in every run: each batch inference, each of its
examples, each search and each run of a solver has a typical duration in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CACHED_CALL", "CACHED_VISIT", "Watch", "never", "silent"]

_BATCH_CALL, _BATCH_EXAMPLE, _SEARCH, _LP, _MIP = 3e-4, 2e-5, 1e-3, 3e-4, 3e-3

#: Seconds of a pass over the working sets: for the call, and for moving mass among the cutting planes of each example.
CACHED_CALL, CACHED_VISIT = 1e-4, 5e-6


def never() -> None:
    """The check of a run without a time limit."""


def silent(text: str) -> None:
    """What is told of a pass where nobody listens."""


@dataclass(eq=False)
class Watch:
    """The clock and the work of one risk and all its parts.

    Attributes
    ----------
    check : callable
        Called between examples that are searched one by one; raises where the run is out of time.
    work : float
        Typical seconds of the work so far.
    tell : callable
        Called with a few words on how far a long pass is, for the progress bar.

    Examples
    --------
    >>> watch = Watch()
    >>> watch.inferences(10, 100)
    >>> round(watch.work, 6)
    0.005
    """

    check: Callable[[], None] = never
    work: float = 0.0
    tell: Callable[[str], None] = silent

    def inferences(self, calls: int, examples: int) -> None:
        """Count batch inferences, with `examples` examples in all of them together."""
        self.work += _BATCH_CALL * calls + _BATCH_EXAMPLE * examples

    def search(self) -> None:
        """Count a search in the plane of one example."""
        self.check()
        self.work += _SEARCH

    def with_solver(self, lp: int, mip: int) -> float:
        """The work plus that of the given numbers of linear and integer programs."""
        return self.work + _LP * lp + _MIP * mip

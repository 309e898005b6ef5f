"""What the parts of one structured risk share while they are asked: the clock to look at, and the work they have done.

Work is counted, not timed, so that what a trainer decides by it is the same in every run: a batch inference costs so
much for the call and so much for each example, a search or a solver's run so much. The figures are typical seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CACHED_CALL", "CACHED_VISIT", "Watch", "never"]

_BATCH_CALL, _BATCH_EXAMPLE, _SEARCH, _LP, _MIP = 3e-4, 2e-5, 1e-3, 3e-4, 3e-3

#: Seconds of a pass over the working sets: for the call, and for moving mass among the planes of each example.
CACHED_CALL, CACHED_VISIT = 1e-4, 5e-6


def never() -> None:
    """A clock that never strikes."""


@dataclass(eq=False)
class Watch:
    """The clock and the work of one risk and all its parts.

    Attributes
    ----------
    check : callable
        Called between examples that are searched one by one; raises where the run is out of time.
    work : float
        Typical seconds of what has been asked so far.

    Examples
    --------
    >>> watch = Watch()
    >>> watch.inferences(10, 100)
    >>> round(watch.work, 6)
    0.005
    """

    check: Callable[[], None] = never
    work: float = 0.0

    def inferences(self, calls: int, examples: int) -> None:
        """Batch inferences, with so many examples in all of them together."""
        self.work += _BATCH_CALL * calls + _BATCH_EXAMPLE * examples

    def search(self) -> None:
        """A search of one example's plane."""
        self.check()
        self.work += _SEARCH

    def with_solver(self, lp: int, mip: int) -> float:
        """The work, and so many programs besides."""
        return self.work + _LP * lp + _MIP * mip

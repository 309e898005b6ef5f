"""The protocol of backends: capabilities, status, solution, and the base class.

A backend holds one compiled space, keeps its native model alive, and answers ``argmax c . z``.
It declares what it can do as class data; `structopt.testing.check_backend` is its conformance suite.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse as sp

from structopt.errors import UnsupportedSpace
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["Backend", "Capability", "SideConstraints", "Solution", "Status"]

#: Rows that hold for one call: coefficients, lower and upper bounds.
SideConstraints = tuple[sp.csr_array, FloatArray, FloatArray]


class Status(enum.Enum):
    """How a solve ended. A time limit is a status, not an exception."""

    OPTIMAL = "optimal"
    """Solved to the backend's tolerances."""
    INFEASIBLE = "infeasible"
    """Proved empty; the only status that may be read as "no such label"."""
    UNBOUNDED = "unbounded"
    """The objective grows without limit."""
    TIME_LIMIT = "time limit"
    """Stopped by the clock; `Solution.z` holds the incumbent, or None."""
    FAILED = "failed"
    """Anything else; `Solution.message` has the solver's message."""


class Capability(enum.Flag):
    """What a backend can do; checked before a model is built."""

    LP = enum.auto()
    """Continuous variables."""
    MIP = enum.auto()
    """Integer variables."""
    ROWS = enum.auto()
    """Extra rows may be added to, and removed from, a loaded space."""
    WARM = enum.auto()
    """A re-solve starts from the last answer."""
    TIME_LIMIT = enum.auto()
    """Stops by the clock and returns its incumbent."""
    MIP_START = enum.auto()
    """Takes a feasible label to start from."""
    THREADS = enum.auto()
    """Releases the GIL while it solves, so that several instances run side by side."""
    LAZY_ROWS = enum.auto()
    """Asks for violated rows inside its search (lazy-constraint callbacks): `Backend.run_lazily`."""


@dataclass(slots=True, eq=False)
class Solution:
    """What a backend found.

    Attributes
    ----------
    status : Status
    z : ndarray or None
        The point, or None if there is none.
    bound : float
        Proved upper bound on ``c . z`` (equal to the value for an LP at its optimum).
    iterations : int
        Simplex iterations or branch-and-bound nodes, as the solver counts them.
    message : str
        The solver's message.
    """

    status: Status
    z: FloatArray | None
    bound: float = float("inf")
    iterations: int = 0
    message: str = ""


class Backend(ABC):
    """One solver with one space loaded.

    Parameters
    ----------
    space : CompiledSpace
        Integer variables where ``space.integrality`` says so; pass ``space.relaxed()`` for the LP.
    options : mapping, optional
        Solver options by the solver's own names, plus the common ones ``time_limit`` (seconds),
        ``mip_gap`` (relative), ``threads`` and ``solver`` (which program, where there is a choice).

    Notes
    -----
    A subclass sets `name` and `capabilities` and writes five hooks: `_build`, `set_costs`, `add_rows`,
    `remove_rows` and `run`. Costs are *maximised*.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capability]

    def __init__(self, space: CompiledSpace, options: Mapping[str, Any] | None = None) -> None:
        needed = Capability.MIP if space.is_integral else Capability.LP
        if not needed & self.capabilities:
            raise UnsupportedSpace(
                f"The {self.name} backend cannot solve {space!r}: it lacks {needed.name}. "
                "Use solver='highs', or relax the space with space.relaxed()."
            )
        space.refuse_lazy_rows(f"The {self.name} backend")
        self.space = space
        self.options: dict[str, Any] = dict(options or {})
        self._build()

    @classmethod
    def unavailable(cls, options: Mapping[str, Any]) -> str | None:
        """Why this backend cannot run here with these options, or None if it can.

        Asked without importing the solver or building a model.

        Parameters
        ----------
        options : mapping
            Options of the solver.

        Returns
        -------
        str or None
            The reason.
        """
        return None

    @abstractmethod
    def _build(self) -> None:
        """Make the native model of ``self.space``. Called by ``__init__`` and after unpickling."""

    @abstractmethod
    def set_costs(self, c: FloatArray) -> None:
        """Set the objective ``max c . z``.

        Parameters
        ----------
        c : ndarray of shape (n_variables,)
            Objective coefficients.
        """

    @abstractmethod
    def add_rows(self, matrix: sp.csr_array, lower: FloatArray, upper: FloatArray) -> None:
        """Append rows after those of the space; several calls accumulate.

        Parameters
        ----------
        matrix : csr_array of shape (n_rows, n_variables)
        lower : ndarray of shape (n_rows,)
        upper : ndarray of shape (n_rows,)
        """

    @abstractmethod
    def remove_rows(self) -> None:
        """Remove every row that `add_rows` appended."""

    @abstractmethod
    def run(self, start: FloatArray | None = None) -> Solution:
        """Solve. `start` is a feasible label to start from (used with `Capability.MIP_START`).

        Parameters
        ----------
        start : ndarray of shape (n_variables,), optional
            A feasible point to start from.

        Returns
        -------
        Solution
        """

    def run_lazily(
        self,
        separate: Callable[[FloatArray], SideConstraints | None],
        start: FloatArray | None = None,
        max_rounds: int = 1000,
    ) -> Solution:
        """Solve with rows that are found on the way; only backends with `Capability.LAZY_ROWS` can.

        The rows are not kept: whoever calls has seen them, and may add them by `add_rows` before the next run.

        Parameters
        ----------
        separate : callable
            ``separate(z)`` returns rows that the point violates, or None. It is called at the integral points that
            the search finds, before they are accepted, and may be called at fractional ones. What it raises ends the
            run and is raised here.
        start : ndarray of shape (n_variables,), optional
            A feasible point to start from.
        max_rounds : int
            Times that rows are added, after which the run ends as if by the clock, with its bound.

        Returns
        -------
        Solution
        """
        raise UnsupportedSpace(f"The {self.name} backend does not ask for rows during its search.")

    def maximize(self, c: FloatArray, square: float) -> Solution:
        """`set_costs` and `run` in one, for a contiguous float64 vector of finite squared norm.

        A backend may have a shorter way; it need not.

        Parameters
        ----------
        c : ndarray of shape (n_variables,)
            Objective coefficients.
        square : float, optional
            Their squared norm, where it is known.

        Returns
        -------
        Solution
        """
        self.set_costs(c)
        return self.run()

    def get_basis(self) -> Any:
        """A token of the last simplex basis, to come back to; None where the solver has none.

        Returns
        -------
        object
        """
        return None

    def set_basis(self, basis: Any) -> None:
        """Start the next run from a token of `get_basis`, or cold from None.

        Parameters
        ----------
        basis : object
            From `get_basis`.
        """
        return

    def ray(self) -> FloatArray | None:
        """A direction of unbounded growth after an unbounded run, where the solver reports one.

        Returns
        -------
        ndarray or None
        """
        return None

    # A live solver never pickles: keep the recipe, drop the handle.
    def __getstate__(self) -> dict[str, Any]:
        return {"space": self.space, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.space = state["space"]
        self.options = state["options"]
        self._build()

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in sorted(self.options.items()))
        return f"<{type(self).__name__} backend on {self.space!r}{'; ' + shown if shown else ''}>"

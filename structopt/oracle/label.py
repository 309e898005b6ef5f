"""`Label`: the result of an oracle."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import numpy as np
import numpy.typing as npt

from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray

__all__ = ["Label", "Statistics"]


class Label:
    """A point of a label space that an oracle found.

    Parameters
    ----------
    z : ndarray, shape (n_variables,)
        The point, in the order of the space's variables.
    value : float
        ``c . z``, recomputed from `z`.
    integral : bool, optional
        Whether the integer variables (all variables, in a space without any) have integer values; found out from
        `z` when first needed, if not given.
    status : str
        ``"optimal"``, or ``"time limit"`` for the best label found before the clock, or the
        rounds of lazy rows, ran out.
    bound : float, optional
        Proved upper bound on the optimum; equal to `value` when optimal.
    integer : ndarray of bool, optional
        The integer variables of the space, to find out whether `z` is integral.

    Examples
    --------
    >>> import numpy as np
    >>> Label(np.array([0.5, 1.0]), 2.0)
    Label(value=2, fractional, optimal)
    """

    __slots__ = ("_integer", "_integral", "bound", "status", "value", "z")

    def __init__(
        self,
        z: FloatArray,
        value: float,
        integral: bool | None = None,
        status: str = "optimal",
        bound: float | None = None,
        integer: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.z = z
        self.value = value
        self.status = status
        self.bound = value if bound is None else bound
        self._integral = integral
        self._integer = integer

    @property
    def integral(self) -> bool:
        """Whether the label is integral."""
        if self._integral is None:
            if self._integer is not None and self._integer.any():
                # An oracle has rounded already, so a value near an integer is fractional.
                part = self.z[self._integer]
                self._integral = bool((part == np.rint(part)).all())
            else:
                self._integral = bool((np.abs(self.z - np.rint(self.z)) <= FEASIBILITY_TOLERANCE).all())
        return self._integral

    def __repr__(self) -> str:
        kind = "integral" if self.integral else "fractional"
        gap = f", bound={self.bound:.6g}" if self.status != "optimal" else ""
        return f"Label(value={self.value:.6g}, {kind}, {self.status}{gap})"


@dataclass(slots=True)
class Statistics:
    """Calls, solver runs and time of an oracle so far."""

    calls: int = 0  # programs solved
    fast: int = 0  # calls that a combinatorial algorithm answered
    lp: int = 0  # runs of the backend; an integral call may need an LP and a MIP
    mip: int = 0
    seconds: float = 0.0  # inside the solver or algorithm, summed over threads
    iterations: int = 0  # of the simplex method, or nodes of branch and bound

    def add(self, lp: int, mip: int, seconds: float, iterations: int) -> None:
        """Count one call of the backend."""
        self.calls += 1
        self.lp += lp
        self.mip += mip
        self.seconds += seconds
        self.iterations += iterations

    def include(self, other: Statistics) -> None:
        """Add the figures of another thread, or of another kind of call."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def rows(self) -> list[list[str]]:
        """Name and value of each figure, for a table."""
        names = {"lp": "LP runs", "mip": "MIP runs"}
        texts = {name: str(value) for name, value in asdict(self).items()} | {"seconds": f"{self.seconds:.3g}"}
        return [[names.get(name, name), text] for name, text in texts.items()]

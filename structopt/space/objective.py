"""The linear objective of a model that a space was read from, or that a space is written with."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from structopt.checks import floats
from structopt.errors import SpaceMismatch
from structopt.space.compiled import FloatArray

__all__ = ["LinearObjective", "objective_of"]


class LinearObjective(NamedTuple):
    """A linear objective ``coef @ z + constant`` with its sense.

    Parameters
    ----------
    coef : ndarray of shape (n_variables,)
        Coefficients as the model states them, in the order of ``z``.
    constant : float
        Added to ``coef @ z``.
    sense : {"maximize", "minimize"}
        Whether the model maximises or minimises.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> cost = so.LinearObjective(np.array([1.0, -2.0]), 3.0, "minimize")
    >>> cost.scores, cost.value([1.0, 1.0])
    (array([-1.,  2.]), 2.0)
    """

    coef: FloatArray
    constant: float = 0.0
    sense: Literal["minimize", "maximize"] = "maximize"

    @property
    def scores(self) -> FloatArray:
        """The coefficients to maximise: `coef`, negated if the model minimises.

        ``Oracle.maximize(objective.scores)`` solves the model for either sense.
        """
        return self.coef if self.sense == "maximize" else 0.0 - self.coef

    def value(self, z: npt.ArrayLike) -> float:
        """Return ``coef @ z + constant``, as the model states its objective.

        Parameters
        ----------
        z : array_like of shape (n_variables,)

        Returns
        -------
        float
        """
        return float(self.coef @ floats("z", z)) + self.constant


def objective_of(value: LinearObjective | npt.ArrayLike, n_variables: int) -> LinearObjective:
    """Check an objective; a vector is maximised."""
    given = value if isinstance(value, LinearObjective) else LinearObjective(floats("objective", value))
    coef = np.array(floats("objective", given.coef))
    if coef.shape != (n_variables,):
        raise SpaceMismatch(f"The objective has shape {coef.shape}; the space needs ({n_variables},).")
    if given.sense not in ("maximize", "minimize"):
        raise ValueError(f"The sense of an objective is 'maximize' or 'minimize', got {given.sense!r}.")
    coef.flags.writeable = False
    return LinearObjective(coef, float(floats("constant", given.constant)), given.sense)

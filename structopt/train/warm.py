"""Warm starts: the state of a run from which another one begins.

Weights alone say where to look first. Where the data are the same, what the trainer has learned about them (cuts,
cuts, dual variables) holds as well, whatever lam is now, and the next run has its lower bound at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from structopt.errors import DeclarationError
from structopt.risks.identity import same

if TYPE_CHECKING:
    from structopt.train.monitor import Monitor
    from structopt.train.result import TrainResult
    from structopt.train.run import Method

__all__ = ["WarmStart"]

FloatArray = npt.NDArray[np.float64]


class WarmStart:
    """Where a run begins, and after it, where the next one may.

    Parameters
    ----------
    w : ndarray, optional
        Weights to begin at; a cold start without them.

    Attributes
    ----------
    w : ndarray or None
        The weights that the last run returned.

    Notes
    -----
    A run takes over what the last one learned about the data only if these (`Risk.identity`), the trainer and its
    options are the same; `lam`, the limits and the tolerance may differ. Otherwise it takes the weights alone.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(4), X, (X @ rng.normal(size=(3, 4))).argmax(axis=1))
    >>> warm = WarmStart()
    >>> first = so.train.bmrm(risk, lam=0.01, warm=warm)
    >>> second = so.train.bmrm(risk, lam=0.01, warm=warm)
    >>> second.converged, second.passes < first.passes
    (True, True)
    """

    def __init__(self, w: FloatArray | None = None) -> None:
        self.w = w
        self._kept: tuple[str, dict[str, Any], float, dict[str, Any]] | None = None

    def begin(self, method: Method, monitor: Monitor) -> bool:
        """Start `method` from what is known; False where nothing is.

        Parameters
        ----------
        method : Method
        monitor : Monitor

        Returns
        -------
        bool
        """
        w = self.weights(method.n_weights)
        if w is None:
            return False
        if self._kept is not None:
            name, options, lam, state = self._kept
            now = _options(method) if name == method.name else {}
            if options.keys() == now.keys() and all(same(options[key], now[key]) for key in options):
                method.take_over(state, lam)
        method.begin_at(monitor, w)
        return True

    def weights(self, size: int) -> FloatArray | None:
        """A copy of the weights to begin at, if there are any; refused where their number is not `size`.

        Parameters
        ----------
        size : int
            How many weights are needed.

        Returns
        -------
        ndarray or None
        """
        if self.w is None:
            return None
        if self.w.shape != (size,):
            raise DeclarationError(
                f"A warm start has weights of shape {self.w.shape} and this problem needs ({size},): the data or the "
                "model have another shape than before. Start cold (warm_start=False)."
            )
        return np.array(self.w, dtype=np.float64)

    def keep(self, method: Method, result: TrainResult) -> None:
        """Remember how the run ended; of one that was interrupted in the middle of an iteration the weights alone.

        Parameters
        ----------
        method : Method
        result : TrainResult
        """
        self.w = np.array(result.w)
        if result.stopped == "interrupted":
            self._kept = None
            return
        self._kept = (method.name, _options(method), float(method.problem["lam"]), dict(method.state()))

    def __getstate__(self) -> dict[str, Any]:
        return {"w": self.w, "_kept": None}  # working sets are as large as the data: not copied along

    def __repr__(self) -> str:
        known = "nothing" if self.w is None else "weights" if self._kept is None else "weights and a dual point"
        return f"<WarmStart: {known}>"


def _options(method: Method) -> dict[str, Any]:
    """What must agree: the risk, by its contents, and the options of the trainer."""
    options = {name: value for name, value in method.problem.items() if name not in ("lam", "risk")}
    identity: dict[str, Any] = method.problem["risk"].identity()
    return options | identity

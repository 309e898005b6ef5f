"""Picture of the certified gap of training runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structopt.checks import checked, having
from structopt.errors import DeclarationError
from structopt.train.result import TrainResult

__all__ = ["convergence"]


@checked
def convergence(results: TrainResult | Mapping[str, TrainResult], x: str = "passes", ax: Any = None) -> Any:
    """Draw the certified relative gap of one or several runs against passes, seconds or oracle calls.

    Parameters
    ----------
    results : TrainResult or mapping of str to TrainResult
        Runs by name.
    x : {"passes", "seconds", "oracle_calls"}
    ax : matplotlib axes, optional
        New ones by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> X, y = np.eye(4), [0, 1, 0, 1]
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(2), X, y)
    >>> runs = {"bmrm": so.train.bmrm(risk, lam=0.1), "block ascent": so.train.block_ascent(risk, lam=0.1)}
    >>> so.plot.convergence(runs).get_ylabel()
    'certified relative gap'
    """
    if x not in ("passes", "seconds", "oracle_calls"):
        raise DeclarationError(f"x must be 'passes', 'seconds' or 'oracle_calls', got {x!r}.")
    runs = {results.trainer or "gap": results} if isinstance(results, TrainResult) else dict(results)
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    having("ax", ax, ("plot", "set_title"), "a matplotlib Axes")
    for name, result in runs.items():
        gap = np.array(result.history["gap"])
        known = np.isfinite(gap) & (gap > 0)
        ax.plot(result.history[x][known], gap[known], marker="o", markersize=3, label=name)
    tolerances = {result.tol for result in runs.values() if result.tol > 0}
    for tol in tolerances:
        ax.axhline(tol, color="grey", linewidth=0.8, linestyle="--")
    ax.set_yscale("log")
    ax.set_xlabel({"passes": "passes over the data", "seconds": "seconds", "oracle_calls": "oracle calls"}[x])
    ax.set_ylabel("certified relative gap")
    ax.legend()
    return ax

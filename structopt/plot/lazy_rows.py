"""Picture of the lazy rows that the calls of oracles find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structopt.backends.lazy import RowPool
from structopt.checks import checked, having, whole
from structopt.errors import DeclarationError
from structopt.oracle import Oracle

__all__ = ["lazy_rows"]


@checked
def lazy_rows(oracles: Oracle | Mapping[str, Oracle], bins: int = 40, ax: Any = None) -> Any:
    """Draw how many lazy rows a call of an oracle finds, over its calls so far.

    Rows found are kept for the next call, so that the curve of a training falls towards zero.

    Parameters
    ----------
    oracles : Oracle or mapping of str to Oracle
        Oracles over spaces with lazy rows, by name.
    bins : int
        Groups of successive calls, of which the mean is drawn.
    ax : matplotlib axes, optional
        New ones by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> oracle = so.Oracle(so.structures.Tour().space(np.zeros((6, 6, 1))))
    >>> _ = oracle.maximize_batch(np.random.default_rng(0).normal(size=(20, 36)))
    >>> so.plot.lazy_rows(oracle, bins=5).get_ylabel()
    'lazy rows found per call'
    """
    named = {"": oracles} if isinstance(oracles, Oracle) else dict(oracles)
    whole("bins", bins, 1, 1_000_000)
    pools = {name: _pool(name, oracle) for name, oracle in named.items()}
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    having("ax", ax, ("plot", "set_title"), "a matplotlib Axes")
    for name, pool in pools.items():
        history = pool.history
        if not len(history):
            continue
        starts = np.unique(np.linspace(0, len(history), min(bins, len(history)) + 1).astype(np.int64))[:-1]
        means = np.add.reduceat(history, starts) / np.diff([*starts, len(history)])
        ends = np.array([*starts[1:], len(history)])
        label = f"{name}{', ' if name else ''}{pool.found} rows in {len(history)} calls"
        ax.step([0, *ends], [means[0], *means], where="pre", label=label)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("calls of the oracle")
    ax.set_ylabel("lazy rows found per call")
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    return ax


def _pool(name: str, oracle: Oracle) -> RowPool:
    called = f"oracle {name!r}" if name else "this oracle"
    if not isinstance(oracle, Oracle):
        raise DeclarationError(f"oracles must be an Oracle or a mapping of names to oracles, {called} is {oracle!r}.")
    if oracle.lazy_rows is None:
        raise DeclarationError(f"The space of {called} has no lazy rows; declare them by space.lazy(separate).")
    return oracle.lazy_rows

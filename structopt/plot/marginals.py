"""Picture of the marginal probabilities of the states along a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, hashable, having, shown
from structopt.errors import DeclarationError

__all__ = ["marginals"]


@checked
def marginals(
    probabilities: npt.ArrayLike,
    states: Sequence[Any] | None = None,
    *,
    tokens: Sequence[Any] | None = None,
    truth: Sequence[Any] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the probabilities of the states at the positions of one sequence, darker where more likely.

    Parameters
    ----------
    probabilities : array of shape (T, n_states)
        One of the arrays that `structopt.CRF.predict_proba` returns; each row sums to 1.
    states : sequence, optional
        Names of the columns, such as ``crf.states_``; numbers by default.
    tokens : sequence of length T, optional
        What stands at the positions, written below them.
    truth : sequence of T states, optional
        The true state of every position is circled.
    ax : matplotlib axes, optional
        New ones by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from structopt import plot
    >>> ax = plot.marginals([[0.9, 0.1], [0.3, 0.7]], ["O", "PER"], tokens=["hello", "Ada"], truth=["O", "PER"])
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['hello', 'Ada']
    """
    p = _checked(probabilities)
    names = list(range(p.shape[1])) if states is None else list(states)
    words = list(range(p.shape[0])) if tokens is None else list(tokens)
    for what, given, length in (("states", names, p.shape[1]), ("tokens", words, p.shape[0])):
        if len(given) != length:
            raise DeclarationError(f"{len(given)} {what} for probabilities of shape {p.shape}; there must be {length}.")
    for name in names:
        hashable("The name of a state", name)
    if len(set(names)) < len(names):
        twice = next(name for name, uses in Counter(names).items() if uses > 1)
        raise DeclarationError(f"states has {shown(twice)} more than once; the states must differ.")
    if ax is None:
        import matplotlib.pyplot as plt

        size = (1.6 + 0.55 * p.shape[0], 1.2 + 0.32 * p.shape[1])
        _, ax = plt.subplots(figsize=size, layout="constrained")
    having("ax", ax, ("plot", "set_title"), "a matplotlib Axes")
    image = ax.imshow(p.T, vmin=0.0, vmax=1.0, cmap="Blues", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability", ticks=[0.0, 0.5, 1.0])
    if truth is not None:
        rows = _rows(list(truth), names, p.shape[0])
        ax.plot(range(p.shape[0]), rows, "o", markersize=11, markerfacecolor="none", color="#CC3311", label="truth")
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    ax.set_xticks(range(p.shape[0]), [str(word) for word in words], rotation=0 if tokens is None else 45)
    ax.set_yticks(range(p.shape[1]), [str(name) for name in names])
    ax.spines[:].set_visible(False)
    return ax


def _checked(probabilities: npt.ArrayLike) -> npt.NDArray[np.float64]:
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or not p.size:
        raise DeclarationError(f"probabilities must be an array (positions, states), got shape {p.shape}.")
    if not (p >= -1e-9).all() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-6):
        row = int(np.argmax(np.abs(p.sum(axis=1) - 1.0)))
        raise DeclarationError(f"The probabilities of position {row} sum to {p[row].sum():g}, not to 1.")
    return p


def _rows(truth: list[Any], names: list[Any], length: int) -> list[int]:
    if len(truth) != length:
        raise DeclarationError(f"truth has {len(truth)} states for {length} positions.")
    unknown = [state for state in truth if hashable("A state of truth", state) not in names]
    if unknown:
        raise DeclarationError(f"truth has the state {unknown[0]!r}, which is not among {names}.")
    return [names.index(state) for state in truth]

"""Picture of the surrogates as functions of the margin error, as in thesis Figure 3-3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structopt.checks import checked, floats, shown
from structopt.errors import DeclarationError
from structopt.surrogates import BetaScaling, LogLoss, Margin, ProbLoss, Slack, Surrogate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["surrogates"]

_STYLES = ("-", "-", "--", "-.", "-", (0, (1, 1.2)))
_COLOURS = ("#4477AA", "#EE6677", "#228833", "#997700", "#AA3377", "#66CCEE")


@checked
def surrogates(
    losses: Sequence[float] = (1.0, 4.0),
    *,
    functions: Sequence[Surrogate] | None = None,
    margin: tuple[float, float] = (-5.0, 3.0),
    axes: Any = None,
) -> list[Axes]:
    """Draw ψ(m, L) over the margin error m, one panel per task loss L.

    Parameters
    ----------
    losses : sequence of float
        One panel each; thesis Figure 3-3 shows Hamming losses 1 and 4.
    functions : sequence of Surrogate, optional
        Default: margin, slack, beta scaling, log loss (as a bound) and ProbLoss with its convex extension.
    margin : (float, float)
        Range of m.
    axes : sequence of matplotlib axes, optional

    Returns
    -------
    list of matplotlib axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from structopt import plot
    >>> len(plot.surrogates())
    2
    """
    import matplotlib.pyplot as plt

    levels = floats("losses", losses, ndim=1)
    if not levels.size or levels.min() <= 0.0:
        raise DeclarationError(f"losses must be positive numbers, at least one; got {shown(losses)}.")
    left, right = floats("margin", margin, (2,)).tolist()
    if functions is None:
        functions = (Margin(), Slack(), BetaScaling(0.25), LogLoss(bound=True), ProbLoss(), ProbLoss(convex=True))
    if axes is None:
        _, axes = plt.subplots(1, len(levels), figsize=(4.6 * len(levels), 3.8), layout="constrained", squeeze=False)
    panels: list[Axes] = list(np.ravel(np.asarray(axes, dtype=object)))
    m = np.linspace(left, right, 400)
    for ax, loss in zip(panels, levels.tolist(), strict=True):
        # The 0/1 risk that every surrogate bounds: the loss, where the wrong label scores at least as high.
        ax.fill_between(m, np.where(m >= 0.0, loss, 0.0), color="0.9", step="mid", label="task loss")
        for k, psi in enumerate(functions):
            ax.plot(
                m,
                np.maximum(psi.value(m, np.full_like(m, loss)), 0.0),
                linestyle=_STYLES[k % len(_STYLES)],
                color=_COLOURS[k % len(_COLOURS)],
                linewidth=1.6,
                label=_title(psi),
            )
        ax.set_ylim(0.0, 2.6 * loss)
        ax.set_xlim(left, right)
        ax.set_title(f"task loss {loss:g}", fontsize=10)
        ax.set_xlabel("margin error  m(y) = f(y) − f(ground truth)")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("surrogate  max(0, ψ)")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    return panels


def _title(psi: Surrogate) -> str:
    names = {
        "margin": "margin rescaling",
        "slack": "slack rescaling",
        "log": "log loss / log 2",
        "prob": "ProbLoss, convex" if getattr(psi, "convex", False) else "ProbLoss",
    }
    if isinstance(psi, BetaScaling):
        return f"β scaling, β = {psi.beta:g}"
    return names.get(psi.name, repr(psi))

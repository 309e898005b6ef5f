"""A search to step through: a slider over its queries in a notebook, or the same as an animation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.plot.plane import plane, plane_steps
from structopt.search.result import SearchResult

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation

__all__ = ["animate", "explore"]


@checked
def explore(result: SearchResult, *, labels: npt.ArrayLike | None = None) -> Any:
    """A slider over the queries of a search, in a notebook; without ipywidgets one panel for each query.

    Parameters
    ----------
    result : SearchResult
    labels : array, shape (n, 2), optional
        All labels as points (h, g), as of `plane`.

    Returns
    -------
    ipywidgets.Widget or list of Axes
        The slider with its picture; the panels of `plane_steps` where ipywidgets (the extra ``notebooks``) is not
        installed.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from structopt import plot, search
    >>> from structopt.plane import PointPlane
    >>> result = search.angular(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)]), lam=1.0)
    >>> view = plot.explore(result)
    """
    _check_queries(result)
    try:
        import ipywidgets
    except ImportError:
        return plane_steps(result, labels=labels)
    import matplotlib.pyplot as plt

    picture = ipywidgets.Output()
    slider = ipywidgets.IntSlider(value=1, min=1, max=len(result.trace), description="query", continuous_update=False)

    def draw(change: Any = None) -> None:
        with picture:
            picture.clear_output(wait=True)
            figure, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
            plane(result, labels=labels, step=slider.value, ax=ax)
            plt.show()
            plt.close(figure)  # pyplot would keep every picture that was ever shown

    slider.observe(draw, names="value")
    draw()
    return ipywidgets.VBox([slider, picture])


@checked
def animate(result: SearchResult, *, labels: npt.ArrayLike | None = None, interval: float = 900.0) -> FuncAnimation:
    """An animation of a search, one frame for each query.

    Parameters
    ----------
    result : SearchResult
    labels : array, shape (n, 2), optional
        All labels as points (h, g), as of `plane`.
    interval : float
        Milliseconds between two frames.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        ``.save("search.gif", writer="pillow")`` keeps it, ``.to_jshtml()`` shows it in a notebook.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from structopt import plot, search
    >>> from structopt.plane import PointPlane
    >>> result = search.angular(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)]), lam=1.0)
    >>> plot.animate(result).to_jshtml().count("data:image/png") == len(result.trace)
    True
    """
    _check_queries(result)
    import matplotlib.pyplot as plt
    from matplotlib.animation import FuncAnimation

    figure, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")

    def frame(number: int) -> list[Any]:
        ax.clear()
        plane(result, labels=labels, step=number + 1, ax=ax)
        return []

    moving = FuncAnimation(figure, frame, frames=len(result.trace), interval=interval, repeat_delay=2 * interval)
    plt.close(figure)  # a notebook would show the last frame beside the animation
    return moving


def _check_queries(result: SearchResult) -> None:
    if not result.trace:
        raise DeclarationError("The search made no query: there is no step to draw.")

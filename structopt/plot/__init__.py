"""Plots with matplotlib, one per file. Each function draws into the axes it is given (or new ones) and returns them."""

from structopt.plot.convergence import convergence
from structopt.plot.diagram import diagram
from structopt.plot.explore import animate, explore
from structopt.plot.hierarchy import hierarchy
from structopt.plot.lazy_rows import lazy_rows
from structopt.plot.marginals import marginals
from structopt.plot.plane import plane, plane_steps
from structopt.plot.surrogates import surrogates

__all__ = [
    "animate",
    "convergence",
    "diagram",
    "explore",
    "hierarchy",
    "lazy_rows",
    "marginals",
    "plane",
    "plane_steps",
    "surrogates",
]

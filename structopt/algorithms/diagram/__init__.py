"""Decision diagrams: graphs whose paths are the labels of a space, compiled once for many objectives."""

from structopt.algorithms.diagram.algorithm import DiagramAlgorithm, PathsAlgorithm
from structopt.algorithms.diagram.cache import DIAGRAMS, DiagramCache
from structopt.algorithms.diagram.compiler import compile_diagram, compile_space
from structopt.algorithms.diagram.coupled import CoupledDiagram, coupled_diagram
from structopt.algorithms.diagram.diagram import Diagram

__all__ = [
    "DIAGRAMS",
    "CoupledDiagram",
    "Diagram",
    "DiagramAlgorithm",
    "DiagramCache",
    "PathsAlgorithm",
    "compile_diagram",
    "compile_space",
    "coupled_diagram",
]

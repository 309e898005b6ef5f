"""Decision diagrams: the labels of a declared space as paths of a graph, compiled once, asked many times."""

from structopt.algorithms.diagram.algorithm import DiagramAlgorithm
from structopt.algorithms.diagram.compiler import compile_diagram
from structopt.algorithms.diagram.diagram import Diagram

__all__ = ["Diagram", "DiagramAlgorithm", "compile_diagram"]

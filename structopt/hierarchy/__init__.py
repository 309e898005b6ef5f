"""Trees and directed acyclic graphs of labels."""

from structopt.hierarchy.graph import Hierarchy

__all__ = ["Hierarchy"]

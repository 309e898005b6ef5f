"""Directed acyclic graphs as diagrams: if labels are paths, the graph needs no compilation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray, kernel
from structopt.algorithms.diagram.diagram import Diagram
from structopt.recognize import GroupForest, Path, recognize, recognize_paths
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["arc_diagram", "diagram_of_paths", "path_diagram"]


def diagram_of_paths(space: CompiledSpace) -> Diagram | None:
    """Return the diagram of a space whose labels are recognised as paths of a graph, or None."""
    if not space.is_integral or space.separations:
        return None
    structure = recognize(space)
    if isinstance(structure.record, GroupForest):
        structure = recognize_paths(space) or structure
    if not isinstance(structure.record, Path) or not structure.record.integer or structure.dependent is not None:
        return None
    const = np.zeros(space.n_variables)
    const[structure.fixed_columns] = structure.fixed_values
    return path_diagram(structure.record, structure.columns, const, space)


def path_diagram(
    path: Path, columns: npt.NDArray[np.int64], const: FloatArray, space: CompiledSpace | None = None
) -> Diagram:
    """Return a path graph as a diagram, with the sink of each pair joined to the next source."""
    n = path.order.size
    block = _blocks(path.ptr, path.arc, path.head, path.order, path.sources, path.sinks)
    place = np.empty(n, dtype=np.int64)
    place[path.order] = np.arange(n)
    inner = block >= 0
    inner[path.sinks] = False
    # By block, and then in topological order; the source comes first, because it reaches all nodes.
    nodes = np.flatnonzero(inner)
    nodes = nodes[np.lexsort((place[nodes], block[nodes]))]
    number = np.full(n, -1, dtype=np.int64)
    number[nodes] = np.arange(nodes.size)
    number[path.sinks] = np.append(number[path.sources[1:]], nodes.size)
    arcs = np.flatnonzero(inner[path.tail] & (number[path.head] >= 0))
    return arc_diagram(number[path.tail[arcs]], number[path.head[arcs]], columns[arcs], const, space)


def arc_diagram(
    tail: IntArray, head: IntArray, column: IntArray, const: FloatArray, space: CompiledSpace | None = None
) -> Diagram:
    """Return the graph of some arcs as a diagram; an arc sets its column to 1, or nothing if its column is -1.

    Node 0 is the root, the node with the largest number the terminal, and each tail is smaller than its head.
    """
    order = np.argsort(tail, kind="stable")
    decided, label = np.unique(column[order], return_inverse=True)
    variables = decided[decided >= 0]
    n_nodes = int(head.max(initial=0)) + 1
    return Diagram(
        ptr=np.searchsorted(tail[order], np.arange(n_nodes + 1)).astype(np.int32),
        head=head[order].astype(np.int32),
        label=label.astype(np.int32),
        label_ptr=np.append(0, np.cumsum(decided >= 0)).astype(np.int32),
        label_variable=variables.astype(np.int32),
        label_value=np.ones(variables.size),
        const=const,
        space=space,
    )


@kernel
def _blocks(
    ptr: IntArray, arc: IntArray, head: IntArray, order: IntArray, sources: IntArray, sinks: IntArray
) -> IntArray:
    """Return the number of the source and sink between which each node lies, or -1."""
    n = order.size
    leads = np.zeros(n, np.bool_)
    leads[sinks] = True
    for k in range(n - 1, -1, -1):
        v = order[k]
        for q in range(ptr[v], ptr[v + 1]):
            if leads[head[arc[q]]]:
                leads[v] = True
    block = np.full(n, -1, np.int64)
    for b in range(sources.size):
        block[sources[b]] = b
    for k in range(n):
        v = order[k]
        if block[v] >= 0:
            for q in range(ptr[v], ptr[v + 1]):
                if leads[head[arc[q]]]:
                    block[head[arc[q]]] = block[v]
    return block

"""Compilation of a space into its decision diagram, or a refusal with its reason."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from structopt._jit import kernel
from structopt.algorithms.diagram import topdown
from structopt.algorithms.diagram.bottomup import bottom_up
from structopt.algorithms.diagram.diagram import Diagram
from structopt.algorithms.diagram.ordering import best_orders
from structopt.algorithms.diagram.path_networks import diagram_of_paths
from structopt.algorithms.diagram.program import Components, Program, program_of
from structopt.algorithms.diagram.propagation import DEAD, POINT, UNDETERMINED_BOX, propagate
from structopt.algorithms.diagram.topdown import top_down
from structopt.checks import checked, instance, whole
from structopt.errors import DiagramRefused, InfeasibleSpace
from structopt.space import LabelSpace
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.stopping import is_interrupt

__all__ = ["MAX_ARCS", "MAX_NODES", "MAX_WIDTH", "MAX_WORK", "compile_diagram", "compile_space"]

IntArray = npt.NDArray[np.int64]

#: Budget of one diagram. Work is counted in steps, so a space gives the same diagram on every machine.
MAX_NODES, MAX_WIDTH, MAX_ARCS, MAX_WORK = 200_000, 60_000, 2_000_000, 15_000_000
#: Compilations that run at the same time; other threads wait. Each needs about 60 MB for its layers.
_AT_ONCE = 4
_turns = threading.Semaphore(_AT_ONCE)
#: Largest `max_nodes` that a user can set: the memory of the arcs is reserved in advance.
MAX_NODES_BY_HAND = 10_000_000


class Block(NamedTuple):
    """Reduced diagram of items that share rows."""

    n_nodes: int
    ptr: IntArray
    head: npt.NDArray[np.int32]
    label: npt.NDArray[np.int32]
    label_ptr: IntArray
    label_variable: npt.NDArray[np.int32]
    label_value: FloatArray
    widths: tuple[int, ...]
    layered_nodes: int

    def root_pairs(self) -> tuple[Any, Any]:
        """Return the variables that are the same in all labels, and their values."""
        last = slice(int(self.label_ptr[-2]), int(self.label_ptr[-1]))
        return self.label_variable[last], self.label_value[last]


def compile_diagram(
    space: CompiledSpace,
    *,
    max_nodes: int = MAX_NODES,
    max_width: int = MAX_WIDTH,
    max_arcs: int = MAX_ARCS,
    max_work: int = MAX_WORK,
) -> Diagram:
    """Compile the labels of a space into a diagram whose paths are the labels.

    The coefficients of rows are converted to exact integers. Items are decided in the better of two orders. Blocks of
    items that share no row are compiled separately and then joined, so their sizes add up. The same space always gives
    the same diagram. If the labels are the paths of a graph, that graph is the diagram.

    Parameters
    ----------
    space : CompiledSpace
    max_nodes, max_width, max_arcs : int
        Limits of the layered diagram before reduction: nodes in all, states of one layer, arcs.
    max_work : int
        Limit of steps for each order of a block.

    Raises
    ------
    DiagramRefused
        If the budget is spent, a tolerance decides about a label, or the integer variables do not determine a
        continuous one.
    InfeasibleSpace
        If the space has no label.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt.algorithms.diagram import compile_diagram
    >>> compile_diagram(so.LabelSpace.from_matrices([[1, 1, 1]], 1, 2).compiled)
    <Diagram: 6 labels, 5 nodes, 8 arcs, width 3>
    """
    try:
        with _turns:
            paths = diagram_of_paths(space)
            if paths is not None and paths.n_nodes <= max_nodes and paths.n_arcs <= max_arcs:
                return paths
            return _compiled(program_of(space), max_nodes, max_width, max_arcs, max_work)
    except SystemError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def _all_turns_free() -> None:
    """Reset the semaphore in a forked process, which does not have the threads that were compiling."""
    global _turns
    _turns = threading.Semaphore(_AT_ONCE)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all_turns_free)


def _compiled(program: Program, max_nodes: int, max_width: int, max_arcs: int, max_work: int) -> Diagram:
    const = program.const.copy()
    _fix_constant_components(program, const)
    blocks: list[Block] = []
    left = max_nodes
    # Equal blocks, such as the days of a week, are compiled once.
    known: dict[Hashable, tuple[Block, IntArray]] = {}
    place = np.empty(program.space.n_variables, dtype=np.int32)
    for items in program.blocks:
        content, variables = _content(program, items) if len(program.blocks) > 1 else (None, items)
        if content in known:
            equal, its_variables = known[content]
            place[its_variables] = variables
            block = equal._replace(label_variable=place[equal.label_variable])
            if block.layered_nodes > left:
                raise DiagramRefused(f"The diagram of {program.space!r} has more than {max_nodes} nodes.", "width")
        else:
            block = _compile_block(program, items, left, max_width, max_arcs, max_work)
            if content is not None:
                known[content] = block, variables
        variables, values = block.root_pairs()
        const[variables] = values
        blocks.append(block)
        left -= block.layered_nodes
    diagram = _chained(program, blocks, const)
    _check_tolerances(program, diagram)
    return diagram


@checked
def compile_space(space: LabelSpace | CompiledSpace, *, max_nodes: int = MAX_NODES) -> Diagram:
    """Compile a label space into a decision diagram.

    ``so.Oracle(space)`` compiles a diagram if it is faster than a solver. ``so.Oracle(space, solver="diagram")`` always
    does.

    Parameters
    ----------
    space : LabelSpace or CompiledSpace
    max_nodes : int
        Nodes before reduction, up to ten million; the limits of width, arcs and work grow with it.

    Returns
    -------
    Diagram

    Raises
    ------
    DiagramRefused
        If the diagram is too large, a tolerance decides about a label, or the integer variables do not determine a
        continuous one. The error lists the widths of the layers and the rows that keep them wide.
    InfeasibleSpace
        If the space has no label.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("two budgets")
    >>> y = space.binary("y", 5)
    >>> space.subject_to([3, 5, 2, 7, 4] @ y <= 9, [1, 2, 6, 3, 3] @ y <= 7)
    >>> so.compile_space(space)
    <Diagram of 'two budgets': 10 labels, 7 nodes, 12 arcs, width 4>
    """
    max_nodes = whole("max_nodes", max_nodes, low=1, high=MAX_NODES_BY_HAND)
    factor = max_nodes / MAX_NODES if max_nodes > MAX_NODES else 1.0
    return compile_diagram(
        compiled_of(space),
        max_nodes=max_nodes,
        max_width=int(MAX_WIDTH * factor),
        max_arcs=int(MAX_ARCS * factor),
        max_work=int(MAX_WORK * factor),
    )


def compiled_of(space: LabelSpace | CompiledSpace) -> CompiledSpace:
    """Return the matrix form of a space."""
    instance("space", space, (LabelSpace, CompiledSpace))
    return space.compiled if isinstance(space, LabelSpace) else space


def _fix_constant_components(program: Program, const: FloatArray) -> None:
    """Set the continuous components whose rows contain no free integer variable."""
    components = program.components
    touched = np.zeros(len(program.rows.lower), dtype=bool)
    touched[program.items.touched] = True
    for c in range(len(components.kind)):
        rows = components.rows[components.row_ptr[c] : components.row_ptr[c + 1]]
        if touched[rows].any():
            continue
        variables = components.variables[components.variable_ptr[c] : components.variable_ptr[c + 1]]
        point = np.empty(len(variables))
        ended = propagate(components, int(components.kind[c]), np.zeros(len(rows), dtype=np.int64), point)
        if ended == DEAD:
            name = program.space.row_names[int(program.row_source[rows[0]])]
            raise InfeasibleSpace(f"No value of the continuous variables of row {name} satisfies it.", (name,))
        if ended != POINT:
            raise _undetermined(program, c, ended == UNDETERMINED_BOX)
        const[variables] = point


def _content(program: Program, block: IntArray) -> tuple[Hashable | None, IntArray]:
    """Return a key that equal blocks share, or None with continuous variables, and the variables of the block."""
    items, rows = program.items, program.rows

    def spans(first: IntArray, count: IntArray) -> IntArray:
        return np.concatenate([np.arange(a, a + n) for a, n in zip(first.tolist(), count.tolist(), strict=True)])

    n_options = items.option_ptr[block + 1] - items.option_ptr[block]
    n_touched = items.touched_ptr[block + 1] - items.touched_ptr[block]
    options = spans(items.option_ptr[block], n_options)
    touched = items.touched[spans(items.touched_ptr[block], n_touched)]
    own_rows, place = np.unique(touched, return_inverse=True)
    variables = items.option_variable[options]
    if (rows.component[own_rows] >= 0).any():
        return None, variables  # the block has continuous variables
    # Rows are numbered by first use, because equal blocks have different row numbers in the space.
    _, first = np.unique(place, return_index=True)
    order = np.argsort(np.argsort(first))
    arrays = (
        n_options,
        items.option_value[options],
        n_touched,
        order[place],
        items.effects[spans(items.effect_ptr[block], n_options * n_touched)],
        rows.lower[own_rows[np.argsort(first)]],
        rows.upper[own_rows[np.argsort(first)]],
        np.unique(variables, return_inverse=True)[1],
    )
    return tuple(array.tobytes() for array in arrays), variables


def _compile_block(
    program: Program, items: IntArray, max_nodes: int, max_width: int, max_arcs: int, max_work: int
) -> Block:
    """Return the smaller diagram of the two best orders, or raise the first refusal if both fail."""
    best: Block | None = None
    refusal: DiagramRefused | None = None
    for order in best_orders(program, items):
        # The second order is abandoned if its diagram gets much larger than the first one.
        most = max_nodes if best is None else min(max_nodes, 3 * best.layered_nodes + 1000)
        found = top_down(order, program.items, program.rows, program.components, most, max_width, max_arcs, max_work)
        status = int(found[0])
        if status == topdown.EMPTY:
            raise InfeasibleSpace(f"{program.space!r} has no label.")
        if status != topdown.COMPILED:
            refusal = refusal or _refusal(program, order, found, max_nodes)
            continue
        reduced = bottom_up(*found[2:7])
        if reduced[0] == 0:
            raise InfeasibleSpace(f"{program.space!r} has no label.")
        if reduced[0] in (-2, -3):
            variable = np.flatnonzero(program.components.variables == reduced[1])[0]
            component = int(np.searchsorted(program.components.variable_ptr, variable, side="right")) - 1
            raise _undetermined(program, component, reduced[0] == -2)
        if reduced[0] < 0:
            refusal = refusal or DiagramRefused(f"The labels of the arcs of {program.space!r} get too long.", "labels")
            continue
        n_nodes, _, *arrays = reduced
        block = Block._make([int(n_nodes), *arrays, tuple(found[1].tolist()), len(found[2]) - 1])
        if best is None or len(block.head) < len(best.head):
            best = block
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _chained(program: Program, blocks: list[Block], const: FloatArray) -> Diagram:
    """Return the diagram in which the terminal of each block is the root of the next."""
    blocks = [block for block in blocks if block.n_nodes > 1]
    ptr: list[Any] = []
    head: list[Any] = []
    label: list[Any] = []
    label_ptr: list[Any] = [np.zeros(1, dtype=np.int64)]
    variables: list[Any] = []
    values: list[Any] = []
    n_nodes = n_arcs = n_labels = n_pairs = 0
    for block in blocks:
        ptr.append(block.ptr[: block.n_nodes - 1] + n_arcs)
        head.append(block.head + n_nodes)
        label.append(block.label + n_labels)
        label_ptr.append(block.label_ptr[1:-1] + n_pairs)  # the last label is part of the constants
        used = int(block.label_ptr[-2])
        variables.append(block.label_variable[:used])
        values.append(block.label_value[:used])
        n_nodes += block.n_nodes - 1
        n_arcs += len(block.head)
        n_labels += len(block.label_ptr) - 2
        n_pairs += used
    ptr.append(np.array([n_arcs, n_arcs]))

    def joined(parts: list[Any], dtype: Any) -> Any:
        return np.ascontiguousarray(np.concatenate([*parts, np.empty(0, dtype=dtype)]).astype(dtype))

    return Diagram(
        ptr=joined(ptr, np.int32),
        head=joined(head, np.int32),
        label=joined(label, np.int32),
        label_ptr=joined(label_ptr, np.int32),
        label_variable=joined(variables, np.int32),
        label_value=joined(values, np.float64),
        const=const,
        space=program.space,
        widths=tuple(width for block in blocks for width in block.widths),
    )


def _check_tolerances(program: Program, diagram: Diagram) -> None:
    """Raise if only the tolerance of a row accepts some label."""
    exact, space = program.exact, program.space
    for row in program.unsure.tolist():
        entries = slice(int(space.matrix.indptr[row]), int(space.matrix.indptr[row + 1]))
        coefficients = np.zeros(space.n_variables, dtype=np.int64)
        coefficients[space.matrix.indices[entries]] = exact.coefficients[entries]
        least, most = _extreme_sums(diagram.arrays, coefficients)
        if most > exact.demand_upper[row] or least < exact.demand_lower[row]:
            raise DiagramRefused(
                f"Row {space.row_names[row]} holds for some label only within the tolerance of 1e-6, so labels depend "
                "on the tolerance. Round the coefficients or move the bound away from the sums that occur.",
                "tolerance",
                rows=(space.row_names[row],),
            )


@kernel
def _extreme_sums(arrays: Any, coefficients: Any) -> tuple[int, int]:
    """Return the least and the largest sum of integer coefficients over all labels."""
    ptr, head, label, label_ptr, label_variable, label_value, const = arrays
    weight = np.zeros(len(label_ptr) - 1, np.int64)
    for k in range(len(weight)):
        for p in range(label_ptr[k], label_ptr[k + 1]):
            if coefficients[label_variable[p]] != 0:
                weight[k] += coefficients[label_variable[p]] * np.int64(label_value[p])
    start = np.int64(0)
    for j in range(len(const)):
        if coefficients[j] != 0:
            start += coefficients[j] * np.int64(const[j])
    n = len(ptr) - 1
    least, most = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for v in range(n - 2, -1, -1):
        for e in range(ptr[v], ptr[v + 1]):
            low, high = weight[label[e]] + least[head[e]], weight[label[e]] + most[head[e]]
            if e == ptr[v]:
                least[v], most[v] = low, high
            else:
                least[v], most[v] = min(least[v], low), max(most[v], high)
    return start + least[0], start + most[0]


def _undetermined(program: Program, component: int, box: bool) -> DiagramRefused:
    components: Components = program.components
    names = program.space.variable_names
    first = int(components.variable_ptr[component])
    variable = names[int(components.variables[first])]
    size = int(components.variable_ptr[component + 1]) - first
    others = f" (or one of the {size - 1} that it shares rows with)" if size > 1 else ""
    if box:
        return DiagramRefused(
            f"The integer variables do not determine continuous variable {variable}{others}: for some label its rows "
            "leave a range.",
            "not determined",
        )
    return DiagramRefused(
        f"For some label, the rows of continuous variable {variable}{others} hold only within the tolerance.",
        "tolerance",
    )


def _refusal(program: Program, order: IntArray, found: Any, max_nodes: int) -> DiagramRefused:
    """Return the error for a compilation that exceeded its budget."""
    status, widths, column_rows, column_values = int(found[0]), found[1], found[7], found[8]
    widths = np.trim_zeros(widths, "b")
    reason = {
        topdown.TOO_MANY_NODES: f"more than {max_nodes} nodes",
        topdown.TOO_WIDE: "a layer with too many states",
        topdown.TOO_MANY_ARCS: "too many arcs",
        topdown.TOO_MUCH_WORK: "too much work",
        topdown.TOO_MANY_LABELS: "too many different labels of arcs",
    }[status]
    place = len(widths)
    item = int(order[max(place - 1, 0)])
    variable = program.space.variable_names[int(program.item_variables(item)[0])]
    # Rows with more values among the states keep more of the states apart.
    widest = np.argsort(-column_values, kind="stable")[:5]
    names = program.space.row_names
    rows = tuple(names[int(program.row_source[column_rows[k]])] for k in widest if column_values[k] > 1)
    text = ", ".join(
        f"{names[int(program.row_source[column_rows[k]])]} ({int(column_values[k])} values)"
        for k in widest
        if column_values[k] > 1
    )
    shown = " ".join(str(int(w)) for w in widths[-8:])
    return DiagramRefused(
        f"The diagram of {program.space!r} is too wide: {reason} after {place} of {len(order)} decisions (the last one "
        f"about {variable}); states by layer: {'... ' if place > 8 else ''}{shown}. "
        + (f"Rows that keep them apart: {text}. " if text else "")
        + "Split the space, leave such a row to a side constraint, or use solver='highs'.",
        "width",
        widths=tuple(int(w) for w in widths),
        rows=rows,
    )

"""Label space as a directed acyclic graph whose paths are the labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import kernel
from structopt.checks import floats
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.feasibility import point_of

__all__ = ["Arrays", "Diagram"]

Int32Array = npt.NDArray[np.int32]

#: Arrays that kernels take: ptr, head, label, label_ptr, label_variable, label_value, const.
Arrays = tuple[Int32Array, Int32Array, Int32Array, Int32Array, Int32Array, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False, repr=False)
class Diagram:
    """Reduced decision diagram of a label space: each path from the root to the terminal is one label.

    `structopt.compile_space` makes diagrams. A label is `const` plus the pairs (variable, value) on the arcs of its
    path.

    Attributes
    ----------
    ptr : int32 array, shape (n_nodes + 1,)
        Arcs ``ptr[v]:ptr[v + 1]`` leave node v. Node 0 is the root, node ``n_nodes - 1`` the terminal.
    head, label : int32 arrays, shape (n_arcs,)
        Head of each arc, which has a larger number than its tail, and label of the arc.
    label_ptr, label_variable, label_value : arrays
        Pairs of each label in CSR form; each list of pairs is stored once.
    const : float array, shape (n_variables,)
        Values of the variables that are the same in every label.
    space : CompiledSpace, optional
        The space that was compiled.
    widths : tuple of int
        States after each item at compilation, before reduction.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace.from_matrices([[3, 5, 2, 7]], 0, 8)
    >>> from structopt.algorithms.diagram import compile_diagram
    >>> diagram = compile_diagram(space.compiled)
    >>> diagram.count()
    8
    >>> diagram.contains([1, 1, 0, 0]), diagram.contains([0, 1, 0, 1])
    (True, False)
    """

    ptr: Int32Array
    head: Int32Array
    label: Int32Array
    label_ptr: Int32Array
    label_variable: Int32Array
    label_value: FloatArray
    const: FloatArray
    space: CompiledSpace | None = None
    widths: tuple[int, ...] = ()
    #: Integers: sizes, ptr, head, label, label_ptr, label_variable. Floats: label_value, const.
    packed: tuple[Int32Array, FloatArray] = field(init=False)

    def __post_init__(self) -> None:
        # The other arrays are views of one integer and one float array, because numba takes 0.1 us per argument.
        sizes = np.array([self.n_nodes, self.n_arcs, self.n_labels], dtype=np.int32)
        parts = [self.ptr, self.head, self.label, self.label_ptr, self.label_variable]
        whole = np.concatenate([sizes, *parts], dtype=np.int32)
        real = np.concatenate([self.label_value, self.const])
        for array in (whole, real):
            array.flags.writeable = False
        ends = np.cumsum([3, *map(len, parts)]).tolist()
        names = ("ptr", "head", "label", "label_ptr", "label_variable")
        views = {name: whole[first:last] for name, first, last in zip(names, ends[:-1], ends[1:], strict=True)}
        views["label_value"], views["const"] = real[: ends[5] - ends[4]], real[ends[5] - ends[4] :]
        self.__dict__.update(views, packed=(whole, real))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def arrays(self) -> Arrays:
        """Tuple of arrays for kernels."""
        return (
            self.ptr,
            self.head,
            self.label,
            self.label_ptr,
            self.label_variable,
            self.label_value,
            self.const,
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes, including the root and the terminal."""
        return len(self.ptr) - 1

    @property
    def n_arcs(self) -> int:
        """Number of arcs."""
        return len(self.head)

    @property
    def n_labels(self) -> int:
        """Number of distinct lists of pairs on the arcs."""
        return len(self.label_ptr) - 1

    @property
    def width(self) -> int:
        """Largest number of states of a layer before reduction."""
        return max(self.widths, default=1)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays)

    def count(self) -> int:
        """Return the exact number of labels."""
        return self._count

    @cached_property
    def _count(self) -> int:
        paths = float(_count_paths(self.ptr, self.head))
        if paths < 2.0**53:
            return int(paths)  # all intermediate numbers were integers below 2^53
        ptr, head = self.ptr.tolist(), self.head.tolist()
        number = [1] * self.n_nodes
        for v in range(self.n_nodes - 2, -1, -1):
            number[v] = sum(number[w] for w in head[ptr[v] : ptr[v + 1]])
        return number[0]

    def contains(self, z: npt.ArrayLike) -> bool:
        """Return whether a point is a label, to within 1e-9 in every variable."""
        point = floats("z", z, self.const.shape) if self.space is None else point_of(self.space, z)
        return bool(_is_path(self.arrays, point))

    def labels(self, limit: int = 100_000) -> FloatArray:
        """Return all labels, one per row, in the order of the paths.

        Raises
        ------
        DeclarationError
            If there are more than `limit`.
        """
        from structopt.errors import DeclarationError

        if self.count() > limit:
            raise DeclarationError(f"{self!r} has more than {limit} labels; raise limit=.")
        Z = np.tile(self.const, (self.count(), 1))
        _write_labels(self.arrays, Z)
        return Z

    @property
    def summary(self) -> str:
        """One-line description of the size."""
        count = self.count()
        text = str(count) if count < 10**7 else f"{float(count):.3g}" if count < 10**300 else "very many"
        width = f", width {self.width}" if self.widths else ""  # the diagram of a path network has no layers
        return f"{text} labels, {self.n_nodes} nodes, {self.n_arcs} arcs{width}"

    def __repr__(self) -> str:
        title = f" of {self.space.name!r}" if self.space is not None and self.space.name else ""
        return f"<Diagram{title}: {self.summary}>"


@kernel
def _count_paths(ptr: Any, head: Any) -> float:
    n = len(ptr) - 1
    number = np.ones(n)
    for v in range(n - 2, -1, -1):
        total = 0.0
        for e in range(ptr[v], ptr[v + 1]):
            total += number[head[e]]
        number[v] = total
    return float(number[0])


@kernel
def _is_path(arrays: Any, z: Any) -> bool:
    """Return whether a path has exactly the pairs in which `z` differs from the constants."""
    ptr, head, label, label_ptr, label_variable, label_value, const = arrays
    decided = np.zeros(len(z), np.bool_)
    for p in range(len(label_variable)):
        decided[label_variable[p]] = True
    wanted = 0
    for j in range(len(z)):
        off = abs(z[j] - const[j]) > 1e-9 * max(1.0, abs(z[j]))
        if off:
            if not decided[j]:
                return False
            wanted += 1
    matching = np.empty(len(label_ptr) - 1, np.int64)
    for k in range(len(matching)):
        matching[k] = 0
        for p in range(label_ptr[k], label_ptr[k + 1]):
            value = label_value[p]
            if abs(z[label_variable[p]] - value) <= 1e-9 * max(1.0, abs(value)):
                matching[k] += 1
            else:
                matching[k] = -1
                break
    n = len(ptr) - 1
    most = np.full(n, -1, np.int64)
    most[n - 1] = 0
    for v in range(n - 2, -1, -1):
        for e in range(ptr[v], ptr[v + 1]):
            if matching[label[e]] >= 0 and most[head[e]] >= 0:
                most[v] = max(most[v], matching[label[e]] + most[head[e]])
    return bool(most[0] == wanted)


@kernel
def _write_labels(arrays: Any, Z: Any) -> None:
    """Write the labels of all paths to `Z`, which holds the constants."""
    ptr, head, label, label_ptr, label_variable, label_value, _ = arrays
    n = len(ptr) - 1
    path = np.empty(n, np.int64)  # arc by which each node of the path is left
    nodes = np.empty(n, np.int64)
    nodes[0], path[0] = 0, ptr[0]
    depth, row = 0, 0
    if n == 1:
        return
    while depth >= 0:
        v = nodes[depth]
        if path[depth] == ptr[v + 1]:
            depth -= 1
            if depth >= 0:
                path[depth] += 1
            continue
        w = head[path[depth]]
        if w == n - 1:
            for k in range(depth + 1):
                name = label[path[k]]
                for p in range(label_ptr[name], label_ptr[name + 1]):
                    Z[row, label_variable[p]] = label_value[p]
            row += 1
            path[depth] += 1
        else:
            depth += 1
            nodes[depth], path[depth] = w, ptr[w]

"""From a compiled space to its `Structure`: normalise, try the kinds, then split into blocks and try again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from structopt.recognize import forests, leaves, networks, patterns, trees
from structopt.recognize.dependent import without_dependent
from structopt.recognize.grouping import BoolArray
from structopt.recognize.normalize import NormalForm, Normalized, normalize
from structopt.recognize.records import Assignment, Closure, GroupForest, Pairwise, Path, Record
from structopt.recognize.structure import Structure
from structopt.space.compiled import CompiledSpace

__all__ = ["recognize", "recognize_paths"]

#: Most rounds of substituting columns that follow from others in a space of no known kind.
_MAX_ROUNDS = 8


class _Kind(NamedTuple):
    name: str
    test: Callable[[NormalForm], BoolArray]
    build: Callable[[NormalForm], Record]


#: In the order of the time of their tests; a block gets the first kind that it passes.
_SIMPLE = (
    _Kind("box", patterns.box_blocks, patterns.build_box),
    _Kind("simplices", patterns.simplices_blocks, patterns.build_cardinality),
    _Kind("cardinality", patterns.cardinality_blocks, patterns.build_cardinality),
    _Kind("closure", patterns.closure_blocks, patterns.build_closure),
    _Kind("pairwise", patterns.pairwise_blocks, patterns.build_pairwise),
    _Kind("assignment", networks.assignment_blocks, networks.build_assignment),
)
_PATH = _Kind("path", networks.path_blocks, networks.build_path)
#: These read a block as one connected graph, so they need the split.
_CONNECTED = (
    _Kind("tree", trees.tree_blocks, trees.build_tree),
    _Kind("group forest", forests.forest_blocks, forests.build_forest),
    _PATH,
    _Kind("leaves", leaves.leaf_blocks, leaves.build_leaves),
)


def recognize(space: CompiledSpace) -> Structure:
    """Find out which known structure a space has.

    Parameters
    ----------
    space : CompiledSpace

    Returns
    -------
    Structure
        Never wrong, sometimes "general": every claim is proved from the matrix by exact comparisons.

    Notes
    -----
    Time is linear in the non-zeros up to sorting. The proof of total unimodularity is slower and is made
    only when `Structure.totally_unimodular`, or `Structure.integral` of a general space, is read.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from structopt.space.compiled import CompiledSpace
    >>> A = sp.csr_array(np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]))         # y_1 <= y_0, y_2 <= y_0
    >>> space = CompiledSpace(A, np.full(2, -np.inf), np.zeros(2), np.zeros(3), np.ones(3),
    ...                       np.ones(3, dtype=bool), ["a", "b", "c"], ["r", "s"])
    >>> structure = recognize(space)
    >>> structure.kind, structure.oracle, structure.integral, structure.totally_unimodular
    ('closure', 'forest dynamic program', True, True)
    >>> structure.record
    Closure(child=[1, 2], parent=[0, 0], integer=True)
    """
    if space.separations:
        names = ", ".join(separation.name for separation in space.separations)
        reason = f"it has lazy rows ({names}), which a function finds, so that the rows declared prove nothing"
        return Structure("general", reason, np.arange(space.n_variables), has_integers=space.is_integral)
    found = normalize(space)
    if found.form is None:
        reason = f"it seems empty: {found.conflict}; a solver will name the conflict"
        return _structure(space, found, None, "general", reason)
    first = structure = _recognized(space, found, found.form)
    for _ in range(_MAX_ROUNDS):
        if structure.kind != "general":
            return structure
        known = [part.columns for part in structure.parts]
        reduced = without_dependent(found, np.setdiff1d(structure.columns, np.concatenate([[-1], *known])))
        if reduced is None or reduced.form is None:
            break
        found = reduced
        structure = _recognized(space, found, reduced.form)
    return first


def _recognized(space: CompiledSpace, found: Normalized, form: NormalForm) -> Structure:
    """Try the kinds on the whole form, and then on its blocks."""
    for kind in _SIMPLE:
        if kind.test(form).all():
            return _whole(space, found, kind, form)
    return _by_blocks(space, found, form.split())


def recognize_paths(space: CompiledSpace) -> Structure | None:
    """The structure of paths, even if `recognize` gives the space another kind; None if it is not one of paths.

    Walks between cells that have at most one way between them are groups in a chain, and paths as well.
    """
    found = None if space.separations else normalize(space)
    if found is None or found.form is None:
        return None
    form = found.form.split()
    return _whole(space, found, _PATH, form) if form.n_blocks and _PATH.test(form).all() else None


def _by_blocks(space: CompiledSpace, found: Normalized, form: NormalForm) -> Structure:
    """Give every connected block its kind; the objective separates over a product of spaces."""
    parts: list[Structure] = []
    rest = form
    # A single block has failed the simple tests already.
    for kind in _CONNECTED if form.n_blocks == 1 else _SIMPLE + _CONNECTED:
        passed = kind.test(rest)
        if not passed.any():
            continue
        if passed.all() and not parts and len(_groups(kind, rest)) == 1:
            return _whole(space, found, kind, rest)
        parts += _parts(kind, rest.select(passed))
        rest = rest.select(~passed)
        if rest.n_blocks == 0:
            names = ", ".join(part.kind for part in parts)
            reason = (
                f"independent blocks of kinds {names}; the objective separates, so each is solved by its own algorithm"
            )
            return _structure(space, found, form, "product", reason, parts=parts)
    if rest.degree.all() and networks.flow_blocks(form).all():
        return _structure(space, found, form, "flow", _why_flow(form), rest=form)
    return _structure(space, found, form, "general", _why_general(space, rest), parts=parts, rest=rest)


def _groups(kind: _Kind, form: NormalForm) -> list[BoolArray]:
    """Blocks that one oracle solves."""
    if kind.name == "leaves":
        return list(np.eye(form.n_blocks, dtype=bool))
    if kind.name == "pairwise":
        # Halves are allowed in a relaxed pairwise block and forbidden in an integer one: two oracles, two parts.
        integer = np.bincount(form.column_block[form.integer], minlength=form.n_blocks) > 0
        return [group for group in (integer, ~integer) if group.any()]
    return [np.ones(form.n_blocks, dtype=bool)]


def _parts(kind: _Kind, form: NormalForm) -> list[Structure]:
    parts = []
    for group in _groups(kind, form):
        inner = form.select(group)
        record = kind.build(inner)
        parts.append(
            Structure(
                kind.name,
                _why(kind.name, record, inner),
                inner.columns,
                record=record,
                has_integers=bool(inner.integer.any()),
                _declared=inner.matrix,
            )
        )
    return parts


def _whole(space: CompiledSpace, found: Normalized, kind: _Kind, form: NormalForm) -> Structure:
    record = kind.build(form)
    return _structure(space, found, form, kind.name, _why(kind.name, record, form), record)


def _structure(
    space: CompiledSpace,
    found: Normalized,
    form: NormalForm | None,
    kind: str,
    reason: str,
    record: Record | None = None,
    parts: Sequence[Structure] = (),
    rest: NormalForm | None = None,
) -> Structure:
    """Return the structure of a space by its form, of which `rest` is not recognised; no form if the space is empty."""
    columns = np.arange(space.n_variables) if form is None else form.columns
    if found.dependent is not None:
        reason += f"; {found.dependent.columns.size} columns follow from the others by an equality row each"
    return Structure(
        kind,
        reason,
        columns,
        found.fixed_columns,
        found.fixed_values,
        record,
        tuple(parts),
        found.tightened,
        space.is_integral,
        space.matrix,
        rest,
        dependent=found.dependent,
    )


def _why(name: str, record: Record, form: NormalForm) -> str:
    """The structure that was found and why its oracle is exact."""
    n, m = form.n_columns, form.n_rows
    if isinstance(record, Closure):
        shape = "a DAG or digraph" if patterns.forest_order(record.child, record.parent, n) is None else "a forest"
        return (
            f"{n} columns in [0, 1] and {record.child.size} rows y_child <= y_parent on {shape}: the transpose "
            "is a network matrix, so every vertex is integral"
        )
    if isinstance(record, Pairwise):
        exact = "the pairs form a forest, so integral" if record.forest else "half-integral, solved by roof duality"
        return (
            f"{record.label.size} labels and {record.pair.size} pairs with p <= y_j, p <= y_k, p >= y_j + y_k - 1: "
            f"the local polytope, {exact}"
        )
    if isinstance(record, Assignment):
        return (
            f"{n} columns in [0, 1], {record.left_required.size} x {record.right_required.size} nodes used at most "
            "once: rows split into two sides and every column joins them, a network matrix"
        )
    if isinstance(record, Path):
        return (
            f"{n} arcs over {record.order.size} nodes carry one unit from source to sink, without cycles: every "
            "unit flow is a mixture of paths"
        )
    if isinstance(record, GroupForest):
        exact = "the rows describe the hull of the labels" if record.hull else "the states are integer variables"
        return (
            f"{record.parent.size} groups with one state each, joined to a forest by {record.pair.size} pairs of "
            f"states that may meet: chosen from the leaves to the roots; {exact}"
        )
    return {
        "box": f"{n} columns with finite bounds and no row that binds",
        "simplices": f"{m} disjoint groups over {n} columns in [0, 1], at most or exactly one of each",
        "leaves": (
            f"{n} columns: one of the leaves is 1, and {m - 1} columns are sums of leaves, so every vertex is integral"
        ),
        "cardinality": f"{m} disjoint groups over {n} columns in [0, 1] with integral counts: an interval matrix",
        "tree": (
            f"{n} nodes of a tree, a chosen node needs its parent and a chosen child: the LP is integral by induction "
            "from the leaves"
        ),
    }[name]


def _why_flow(form: NormalForm) -> str:
    whole = form.whole_rows.all() and form.whole_columns.all()
    tail = (
        "bounds and supplies are integral, so every vertex is"
        if whole
        else "some bound is fractional, so vertices may be"
    )
    return (
        f"{form.n_rows} conservation rows and {form.n_columns} arcs: at most two entries +-1 a column, which become "
        f"one tail and one head after negating some rows (Heller-Tompkins); {tail}"
    )


def _why_general(space: CompiledSpace, rest: NormalForm) -> str:
    """The first obstacle, by the name of its row."""
    odd = np.flatnonzero(~rest.unit)
    if odd.size:
        name = space.row_names[int(rest.rows[odd[0]])]
        return f"row {name!r} has coefficients of different magnitude ({odd.size} such rows)"
    if rest.n_rows:
        name = space.row_names[int(rest.rows[0])]
        return f"no known structure fits the block of row {name!r} ({rest.n_rows} rows in such blocks)"
    name = space.variable_names[int(rest.columns[0])]
    return f"variable {name!r} has no finite bounds"

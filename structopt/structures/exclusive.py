"""Closures of a hierarchy with nodes that exclude one another (the extension proposed in ECRM 7)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.checks import checked, sequence
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.losses import TaskLoss
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.structures.node_labels import LabelCodec

__all__ = ["ExclusiveLabels"]


class ExclusiveLabels(HierarchicalLabels):
    """Closures of a hierarchy (``kind="closure"``) in which at most one node of each group is on.

    Parameters
    ----------
    hierarchy : Hierarchy
    exclusive : iterable of collections of nodes
        Groups of nodes; at most one of each may be on.
    tighten : bool
        Declare ``sum of the group <= y_a`` for a lowest node a above all of the group, and not ``<= 1``. The labels
        are the same, the relaxation is smaller: with "1" it has the vertex (1/2, 1/2, 1/2) already for one parent of
        two children that exclude each other, with the parent it has not.
    complete, intercept, loss, solver, integral, options
        See `HierarchicalLabels`.

    Notes
    -----
    Exact whatever the rows do to the relaxation: ``space().structure`` says whether it is proved integral; if it is
    not, the oracle solves the LP and calls the MIP where its answer is fractional. A node below two members of a group
    can never be on.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt.structures.exclusive import ExclusiveLabels
    >>> h = so.Hierarchy([("animal", "cat"), ("animal", "dog")])
    >>> model = ExclusiveLabels(h, [("cat", "dog")])
    >>> model.predict([1.0, 2.0, 3.0], [1.0])
    array([1, 0, 1])
    >>> try:
    ...     model.encode([1, 1, 1])
    ... except so.errors.LabelNotInSpace as error:
    ...     print(error)
    Label [1, 1, 1] has 'cat' and 'dog', which exclude each other.
    """

    @checked
    def __init__(
        self,
        hierarchy: Hierarchy,
        exclusive: Iterable[Iterable[Hashable]],
        *,
        tighten: bool = True,
        complete: bool = True,
        intercept: bool = False,
        loss: TaskLoss | Mapping[str, TaskLoss] | None = None,
        solver: Any = "auto",
        integral: Any = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            hierarchy, "closure",
            complete=complete, intercept=intercept, loss=loss, solver=solver, integral=integral, options=options,
        )  # fmt: skip
        self._record = None  # a record of closures would forget the groups
        self.exclusive = [list(sequence(f"exclusive[{k}]", group)) for k, group in enumerate(exclusive)]
        self.tighten = tighten
        groups = _groups(hierarchy, self.exclusive)
        self.codec = _ExclusiveCodec(hierarchy, complete, groups)
        space = self._declared
        assert space is not None
        y = space["node"]
        for k, group in enumerate(groups):
            above = _lowest_common(hierarchy, group) if tighten else None
            total = y[group].sum()
            space.subject_to(total <= (1 if above is None else y[above]), name=f"exclusive[{k}]")

    def __repr__(self) -> str:
        return f"ExclusiveLabels({self.hierarchy!r}, {len(self.exclusive)} groups)"


class _ExclusiveCodec(LabelCodec):
    """Labels that also keep to the groups."""

    def __init__(self, hierarchy: Hierarchy, complete: bool, groups: list[IntArray]) -> None:
        super().__init__(hierarchy, "closure", complete)
        members = np.concatenate(groups) if groups else np.empty(0, np.int64)
        owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        shape = (len(hierarchy), len(groups))
        self._member = sp.csr_array((np.ones(len(members)), (members, owner)), shape=shape)

    def _problem(self, nodes: IntArray, is_row: bool, closed: IntArray) -> str | None:
        problem = super()._problem(nodes, is_row, closed)
        if problem:
            return problem
        counts = np.asarray(self._member[closed].sum(axis=0)).ravel()
        if not (counts > 1).any():
            return None
        group = int(np.argmax(counts > 1))
        both = [self.hierarchy.nodes[k] for k in closed if self._member[[k], [group]][0] > 0][:2]
        return f"has {both[0]!r} and {both[1]!r}, which exclude each other."

    def _suspects(self, ptr: IntArray, nodes: IntArray, closed: sp.csr_array) -> npt.NDArray[np.bool_]:
        counts = sp.csr_array(closed @ self._member)
        worst = np.asarray(counts.max(axis=1).todense()).ravel() if counts.shape[1] else np.zeros(counts.shape[0])
        return np.asarray(super()._suspects(ptr, nodes, closed) | (worst > 1))


def _groups(hierarchy: Hierarchy, exclusive: list[list[Hashable]]) -> list[IntArray]:
    groups = []
    for group in exclusive:
        nodes = np.unique(hierarchy.indices(group))
        if nodes.size != len(group) or nodes.size < 2:
            raise DeclarationError(f"The group {group!r} of exclusive nodes needs two or more different nodes.")
        for node in group:
            below = set(hierarchy.ancestors(node)) & set(group)
            if below:
                raise DeclarationError(
                    f"{node!r} cannot exclude {next(iter(below))!r}, which is above it and on whenever it is; "
                    "leave the node out of the hierarchy."
                )
        groups.append(nodes.astype(np.int64))
    return groups


def _lowest_common(hierarchy: Hierarchy, group: IntArray) -> int | None:
    """A lowest node above every member of a group, or None."""
    above = hierarchy.ancestor_rows(np.arange(group.size + 1), group)
    counts = np.bincount(above.indices, minlength=len(hierarchy))
    counts[group] = 0
    common = np.flatnonzero(counts == group.size)
    return int(common[np.argmax(hierarchy.level[common])]) if common.size else None

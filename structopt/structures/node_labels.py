"""Labels of a hierarchy in the user's form and as 0/1 rows over its nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.checks import shown
from structopt.errors import DeclarationError, LabelNotInSpace, StructoptError
from structopt.features import n_examples
from structopt.hierarchy import Hierarchy
from structopt.model.codec import labels_given, refusal
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray

__all__ = ["LabelCodec"]

BoolArray = npt.NDArray[np.bool_]


class LabelCodec:
    """The form of labels over nodes: a name, a collection of names, or a 0/1 row."""

    def __init__(self, hierarchy: Hierarchy, kind: str, complete: bool) -> None:
        self.hierarchy = hierarchy
        self.kind = kind
        self.complete = complete
        # Sets are collections of names in these kinds, because `decode` returns sets.
        nodes = hierarchy.nodes
        self._has_set_nodes = kind != "leaf" and any(isinstance(name, frozenset) for name in nodes)

    # ---- one label -------------------------------------------------------------------------------

    def encode(self, label: Any) -> FloatArray:
        """The 0/1 row of a label."""
        nodes, is_row = self._read(label)
        closed = self.hierarchy.ancestor_rows([0, nodes.size], nodes).indices
        problem = self._problem(nodes, is_row, closed)
        if problem:
            raise LabelNotInSpace(f"Label {label!r:.60} {problem}", (problem,))
        z = np.zeros(len(self.hierarchy))
        z[closed] = 1.0
        return z

    def decode(self, z: FloatArray) -> Any:
        """The label of a row: a leaf, a frozenset of leaves, a 0/1 row by kind; a fractional row as it is."""
        nearest = np.rint(z)
        if np.abs(z - nearest).max(initial=0.0) > FEASIBILITY_TOLERANCE:
            return z
        if self.kind == "closure":
            return nearest.astype(int)
        h = self.hierarchy
        names = [h.nodes[k] for k in h.leaf_index[nearest[h.leaf_index] > 0].tolist()]
        return names[0] if self.kind == "leaf" else frozenset(names)

    def _read(self, label: Any) -> tuple[IntArray, bool]:
        """The nodes that a label names, ascending, and whether it was given as a 0/1 row."""
        h = self.hierarchy
        if sp.issparse(label):
            label = label.toarray().ravel()
        if isinstance(label, np.ndarray) and label.ndim != 1:
            label = label.item() if label.size == 1 else label.ravel()
        if isinstance(label, Mapping):
            raise LabelNotInSpace(f"A label is a name, names or a 0/1 row, got {shown(label)}.")
        collection = self._has_set_nodes and isinstance(label, frozenset) and all(name in h for name in label)
        if not collection and label in h:
            return np.array([h.index(label)]), False
        if isinstance(label, str | bytes) or not isinstance(label, Iterable):
            h.index(label)
        if isinstance(label, list | tuple | np.ndarray) and len(label) == len(h) and _is_row(label):
            return np.flatnonzero(np.asarray(label, dtype=np.float64)), True
        names = label.tolist() if isinstance(label, np.ndarray) else list(label)
        if isinstance(label, np.ndarray) and label.dtype.kind in "bf":
            raise LabelNotInSpace(self._no_row(label))
        return np.unique(h.indices(names)), False

    def _no_row(self, label: npt.NDArray[Any]) -> str:
        if label.size != len(self.hierarchy):
            return f"A 0/1 row over the nodes has {len(self.hierarchy)} entries, got {label.size}."
        k = int(np.argmax((label != 0) & (label != 1)))
        return f"The entry of node {self.hierarchy.nodes[k]!r} is {label[k]}; a row over the nodes is 0/1."

    def _problem(self, nodes: IntArray, is_row: bool, closed: IntArray) -> str | None:
        """Return what is wrong with the set `nodes`, whose ancestors complete it to `closed`."""
        h = self.hierarchy
        at_leaf = h.is_leaf[nodes]
        if not self.complete and (is_row or self.kind == "closure" or not at_leaf.all()):
            missing = np.setdiff1d(closed, nodes)
            if missing.size:
                has = [n for n in nodes.tolist() if missing[-1] in h.ancestor_rows([0, 1], [n]).indices]
                return (
                    f"misses {h.nodes[missing[-1]]!r}, an ancestor of {h.nodes[has[0]]!r}; "
                    "add it, or use complete=True."
                )
        if self.kind == "closure":
            return None
        leaves = nodes[at_leaf]
        if not nodes.size:
            return f"is empty; kind={self.kind!r} needs {'one leaf' if self.kind == 'leaf' else 'at least one leaf'}."
        bare = np.setdiff1d(nodes, h.ancestor_rows([0, leaves.size], leaves).indices)
        if bare.size:
            return f"has {h.nodes[bare[-1]]!r} without any of its leaves; name a leaf, or use kind='closure'."
        if self.kind == "leaf" and leaves.size != 1:
            text = ", ".join(repr(h.nodes[k]) for k in leaves[:5].tolist())
            return f"has {leaves.size} leaves ({text}); kind='leaf' takes one, kind='leaves' several."
        return None

    # ---- many labels -----------------------------------------------------------------------------

    def encode_many(self, Y: Any, n: int) -> sp.csr_array:
        """The rows of many labels, sparse; all that cannot be used are reported together."""
        Y = Y.to_numpy() if hasattr(Y, "to_numpy") else Y  # a pandas column or table
        Y = labels_given(Y, n)
        ptr, nodes, is_row, refused = self._read_many(Y)
        closed = self.hierarchy.ancestor_rows(ptr, nodes)
        for i in np.flatnonzero(self._suspects(ptr, nodes, closed)).tolist():
            own = closed.indices[closed.indptr[i] : closed.indptr[i + 1]]
            problem = None if i in refused else self._problem(nodes[ptr[i] : ptr[i + 1]], bool(is_row[i]), own)
            if problem:
                refused[i] = f"label {_show(Y, i)} {problem}"
        if refused:
            raise refusal(refused, n)
        return closed

    def _read_many(self, Y: Any) -> tuple[IntArray, IntArray, BoolArray, dict[int, str]]:
        n, refused = n_examples(Y), dict[int, str]()
        if sp.issparse(Y) or (isinstance(Y, np.ndarray) and Y.ndim == 2 and Y.dtype.kind in "biuf"):
            rows = sp.csr_array(Y, copy=True)  # the caller's matrix is not ours to tidy
            if rows.shape[1] != len(self.hierarchy):
                raise DeclarationError(
                    f"A matrix of labels has a column for each of the {len(self.hierarchy)} nodes, got {rows.shape[1]}."
                )
            rows.eliminate_zeros()
            rows.sort_indices()
            row_of = np.repeat(np.arange(n), np.diff(rows.indptr))
            for k in np.flatnonzero(rows.data != 1).tolist():
                name = self.hierarchy.nodes[rows.indices[k]]
                refused[int(row_of[k])] = f"the entry of node {name!r} is {rows.data[k]}; a row over the nodes is 0/1."
            return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), np.ones(n, np.bool_), refused
        labels = Y.tolist() if isinstance(Y, np.ndarray) else Y
        place = self.hierarchy._place
        try:
            if self._has_set_nodes:
                raise KeyError  # a set may be a node or a collection of nodes
            # Mostly every label is one name.
            nodes = np.fromiter(map(place.__getitem__, labels), np.int64, n)
            return np.arange(n + 1), nodes, np.zeros(n, np.bool_), refused
        except (KeyError, TypeError):
            pass
        parts: list[IntArray] = []
        is_row = np.zeros(n, np.bool_)
        for i in range(n):
            try:
                part, is_row[i] = self._read(labels[i])
            except StructoptError as error:
                part = np.empty(0, np.int64)
                refused[i] = str(error)
            parts.append(part)
        ptr = np.concatenate([[0], np.cumsum([part.size for part in parts])])
        return ptr, np.concatenate(parts), is_row, refused

    def _suspects(self, ptr: IntArray, nodes: IntArray, closed: sp.csr_array) -> BoolArray:
        """Labels that may have a problem; no other has."""
        h = self.hierarchy
        leaf_ptr = np.concatenate([[0], np.cumsum(h.is_leaf[nodes])])[ptr]
        n_leaves, n_closed = np.diff(leaf_ptr), np.diff(closed.indptr)
        suspect = np.zeros(n_leaves.size, np.bool_)
        if not self.complete:
            suspect |= n_closed != np.diff(ptr)
        if self.kind == "closure":
            return suspect
        suspect |= n_leaves != 1 if self.kind == "leaf" else n_leaves == 0
        if leaf_ptr[-1] < nodes.size:
            covered = h.ancestor_rows(leaf_ptr, nodes[h.is_leaf[nodes]])
            suspect |= np.diff(covered.indptr) != n_closed
        return suspect

    def decode_many(self, rows: sp.csr_array) -> list[Any]:
        """The labels of many rows."""
        h = self.hierarchy
        nearest = np.rint(rows.data)
        if self.kind == "closure" or (np.abs(rows.data - nearest) > FEASIBILITY_TOLERANCE).any():
            return [self.decode(rows[[i]].toarray()[0]) for i in range(rows.shape[0])]
        on = h.is_leaf[rows.indices] & (nearest > 0)
        leaves: list[Hashable] = [h.nodes[k] for k in rows.indices[on].tolist()]
        ptr = np.concatenate([[0], np.cumsum(on)])[rows.indptr].tolist()
        sets: list[Sequence[Hashable]] = [leaves[a:b] for a, b in pairwise(ptr)]
        # A row of an example that was left out of the work is empty and has no leaf.
        return [part[0] if part else None for part in sets] if self.kind == "leaf" else [frozenset(s) for s in sets]


def _is_row(label: Any) -> bool:
    """Whether all entries are the numbers 0 and 1."""
    if isinstance(label, np.ndarray) and label.dtype.kind in "biuf":
        return bool(((label == 0) | (label == 1)).all())
    return all(isinstance(v, int | float | np.generic) and v in (0, 1) for v in label)


def _show(Y: Any, i: int) -> str:
    return f"in row {i}" if sp.issparse(Y) or getattr(Y, "ndim", 1) == 2 else f"{Y[i]!r:.60}"

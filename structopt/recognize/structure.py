"""The result of recognition: the kind of a space, its proof, and its record."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from structopt.recognize.grouping import IntArray
from structopt.recognize.normalize import Dependent, NormalForm
from structopt.recognize.patterns import forest_order
from structopt.recognize.records import Box, Cardinality, Closure, GroupForest, Pairwise, Record
from structopt.recognize.unimodular import prove_totally_unimodular
from structopt.space.compiled import FloatArray

__all__ = ["Structure"]


_ORACLES = {
    "box": "signs",
    "assignment": "linear assignment",
    "tree": "tree dynamic program",
    "path": "DAG path",
    "leaves": "best leaf",
    "leaf sets": "sets of leaves in a DAG",
    "group forest": "max-sum on a forest",
    "product": "product",
}


@dataclass(frozen=True, eq=False, repr=False)
class Structure:
    """Result of `recognize`: a structure and why it holds.

    Attributes
    ----------
    kind : str
        "box", "simplices", "cardinality", "closure", "pairwise", "assignment", "tree", "group forest" (one-of-many
        groups joined to chains or trees), "path", "leaves" (one leaf and its ancestors), "product" (every block has one
        of these), "flow" (network matrix,
        solved as an LP), or "general".
    reason : str
        Why the structure is exact, or why none was found.
    record : Record or None
        The index arrays of this kind. None for "product", "flow" and "general".
    columns : ndarray of int
        The free columns, in the numbering that `record` uses: solve with ``c[columns]``, write ``z[columns]``.
    fixed_columns, fixed_values : ndarray
        The columns that can take only one value.
    dependent : Dependent or None
        The columns that are affine functions of the free columns.
    parts : tuple of Structure
        For a "product": one part for each kind (a part gathers all blocks of its kind).
    diagram : str
        The size of its decision diagram, if a "general" space was compiled into one.
    tightened : bool
        Whether fractional bounds of integer rows or columns had to be rounded inwards: the labels are the same,
        but the LP as declared is larger, so nothing is claimed about it.
    """

    kind: str
    reason: str
    columns: IntArray
    fixed_columns: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    fixed_values: FloatArray = field(default_factory=lambda: np.zeros(0))
    record: Record | None = None
    parts: tuple[Structure, ...] = ()
    tightened: bool = False
    has_integers: bool = False
    _declared: sp.csr_array | None = field(default=None, repr=False)
    _unproved: NormalForm | None = field(default=None, repr=False)
    diagram: str = ""
    dependent: Dependent | None = None

    @cached_property
    def unimodular_proof(self) -> str | None:
        """The proof of total unimodularity in one sentence, or None; computed on demand.

        It concerns the declared rows, each divided by the magnitude of its entries where they share one
        (dividing a row and its bounds changes no label).
        """
        return None if self._declared is None else prove_totally_unimodular(self._declared)

    @property
    def totally_unimodular(self) -> bool | None:
        """True if proved, None if unknown."""
        return True if self.unimodular_proof is not None else None

    @cached_property
    def integral(self) -> bool:
        """Whether every vertex of the LP is proved integral in all columns, so that MIP is never needed."""
        if self.tightened or (self.dependent is not None and not self.dependent.whole):
            return False
        if self.kind in ("general", "flow", "product"):
            return all(part.integral for part in self.parts) and self._rest_is_integral()
        if isinstance(self.record, GroupForest) and not self.record.hull:
            return False
        return self._fixed_are_whole() and (not isinstance(self.record, Pairwise) or self.record.forest)

    @property
    def half_integral(self) -> bool:
        """Whether every vertex of the LP is proved to have values in {0, 1/2, 1} (or integers)."""
        if self.kind not in ("pairwise", "product") or self.dependent is not None:
            return self.integral
        parts = all(part.half_integral for part in self.parts)
        return parts and not self.tightened and self._fixed_are_whole()

    @property
    def oracle(self) -> str:
        """The fastest exact oracle that is known: a combinatorial one by name, else "lp" or "mip" (a solver)."""
        if isinstance(self.record, Closure):
            forest = forest_order(self.record.child, self.record.parent, self.columns.size)
            return "min cut" if forest is None else "forest dynamic program"
        if isinstance(self.record, Pairwise):
            exact = self.record.integer and not self.record.forest
            return "persistency" if exact else "roof duality"
        if isinstance(self.record, Cardinality):
            return "argmax" if (self.record.upper == 1).all() else "top-k"
        if self.kind in _ORACLES:
            return _ORACLES[self.kind]
        if self.diagram:
            return "decision diagram"
        return "lp" if not self.has_integers or self.integral else "mip"

    def _fixed_are_whole(self) -> bool:
        whole = bool((self.fixed_values == np.rint(self.fixed_values)).all())
        if isinstance(self.record, Box):
            bounds = np.concatenate([self.record.lower, self.record.upper])
            whole &= bool((bounds == np.rint(bounds)).all())
        return whole

    def _rest_is_integral(self) -> bool:
        """Unrecognised blocks: a totally unimodular matrix with integral bounds (ECRM Theorem 3.1)."""
        rest = self._unproved
        if rest is None:
            return self.kind == "product" and self._fixed_are_whole()
        if not (self._fixed_are_whole() and rest.whole_rows.all() and rest.whole_columns.all()):
            return False
        return bool(rest.unit.all()) and prove_totally_unimodular(rest.matrix) is not None

    def __repr__(self) -> str:
        inside = f" of {', '.join(part.kind for part in self.parts)}" if self.parts else ""
        fixed = f", {self.fixed_columns.size} fixed" if self.fixed_columns.size else ""
        fixed += f", {self.dependent.columns.size} that follow" if self.dependent is not None else ""
        compiled = f"; compiled: {self.diagram}" if self.diagram else ""
        return f"<Structure {self.kind}{inside}: {self.columns.size} variables{fixed}; {self.reason}{compiled}>"

    def _repr_html_(self) -> str:
        from structopt.space.views import html_table

        rows = [["reason", self.reason]]
        if self.kind != "general":
            rows.append(["oracle", self.oracle])
        if self.diagram:
            rows.append(["diagram", self.diagram])
        follow = f", {self.dependent.columns.size} that follow from others" if self.dependent is not None else ""
        rows.append(["variables", f"{self.columns.size} free, {self.fixed_columns.size} fixed{follow}"])
        rows += [[f"part: {part.kind}", part.reason] for part in self.parts]
        return html_table(["Structure", self.kind], rows)

"""Combinatorial algorithms behind the oracle: exact where the structure of a space is proved.

An `Algorithm` answers ``argmax c . z`` without a solver. It may know more (k-best, bans, extra rows, the whole front of
two criteria); what it does not know, the oracle asks of the backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structopt.backends.arrays import holding_rows
from structopt.backends.worker import ExtraRows
from structopt.errors import DeclarationError, InfeasibleSpace
from structopt.oracle.label import Label
from structopt.recognize import Structure, recognize
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.enumeration import enumerate_labels

__all__ = ["Algorithm", "Answers", "Enumeration", "fast_algorithm"]

# Listing this many labels and one product with the costs is faster than any solver's call.
_MOST_LABELS = 4096
_MOST_INTEGERS = 14


class Answers(NamedTuple):
    """The best labels of a batch, as arrays.

    Attributes
    ----------
    Z : ndarray, shape (n, n_variables)
    values : ndarray, shape (n,)
        ``c . z``, computed from the labels.
    bounds : ndarray, shape (n,)
        No label has a larger value.
    settled : ndarray of bool, shape (n,), optional
        Rows that the algorithm could not settle are False, and a solver is asked; None if all are.
    """

    Z: FloatArray
    values: FloatArray
    bounds: FloatArray
    settled: npt.NDArray[np.bool_] | None = None


class Algorithm(ABC):
    """An exact combinatorial oracle for one space."""

    #: What it is called in reprs and statistics.
    name: str = "combinatorial"

    @abstractmethod
    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Label | None:
        """The best label, or None where this algorithm cannot settle it (the backend is asked then).

        `key` names the example whose last flow or prices to start from; the answer does not depend on it.
        """

    def maximize_batch(
        self, C: FloatArray, n_jobs: int = 1, keys: Sequence[Hashable] | None = None
    ) -> list[Label | None]:
        """`maximize` for every row of `C`."""
        return [self.maximize(c, None if keys is None else keys[i]) for i, c in enumerate(C)]

    def solve_batch(self, C: FloatArray, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Answers:
        """`maximize_batch` as arrays, without an object for each row."""
        labels = self.maximize_batch(C, n_jobs, keys)
        settled = np.array([label is not None for label in labels], dtype=np.bool_)
        Z, values, bounds = np.zeros(C.shape), np.zeros(len(C)), np.zeros(len(C))
        for i, label in enumerate(labels):
            if label is not None:
                Z[i], values[i], bounds[i] = label.z, label.value, label.bound
        return Answers(Z, values, bounds, None if settled.all() else settled)

    def k_best(self, c: FloatArray, k: int) -> list[Label] | None:
        """The `k` best labels (fewer if there are fewer), or None if this algorithm cannot list them."""
        return None

    def maximize_outside(self, c: FloatArray, banned: FloatArray) -> Label | None:
        """The best label that is none of the rows of `banned`, or None if this algorithm cannot tell.

        Found among the first ``len(banned) + 1`` labels in order of value (docs/mathematics/oracles).

        Raises
        ------
        InfeasibleSpace
            If every label is banned.
        """
        known = self.k_best(c, len(banned) + 1)
        if known is None:
            return None
        for label in known:
            if not (np.abs(banned - label.z).max(axis=1, initial=0.0) <= FEASIBILITY_TOLERANCE).any():
                return label
        raise InfeasibleSpace("Every label of the space is on the ban list.")

    def maximize_constrained(self, c: FloatArray, extra: ExtraRows) -> Label | None:
        """The best label within extra rows, or None if this algorithm cannot take rows."""
        return None

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        """Points that hold the maximum of every ``psi(h, g)`` non-decreasing in both, or None."""
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"


class Enumeration(Algorithm):
    """All labels of a tiny space in one array; every question is a product and a comparison.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> space = so.LabelSpace.from_matrices([[1, 1, 1]], 1, 2)
    >>> Enumeration(space.enumerate()).maximize(np.array([1.0, -2.0, 3.0])).z
    array([1., 0., 1.])
    """

    name = "enumeration"

    def __init__(self, labels: FloatArray) -> None:
        self.labels = labels

    def _label(self, k: int, value: float) -> Label:
        return Label(self.labels[k].copy(), value, True)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Label:
        values = self.labels @ c
        k = int(values.argmax())
        return self._label(k, float(values[k]))

    def maximize_batch(
        self, C: FloatArray, n_jobs: int = 1, keys: Sequence[Hashable] | None = None
    ) -> list[Label | None]:
        values = C @ self.labels.T
        best = values.argmax(axis=1)
        return [self._label(int(k), float(values[i, k])) for i, k in enumerate(best)]

    def solve_batch(self, C: FloatArray, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Answers:
        products = C @ self.labels.T
        best = products.argmax(axis=1)
        values = products[np.arange(len(C)), best]
        return Answers(self.labels[best], values, values)

    def k_best(self, c: FloatArray, k: int) -> list[Label]:
        values = self.labels @ c
        order = np.argsort(-values, kind="stable")[:k]
        return [self._label(int(j), float(values[j])) for j in order]

    def maximize_constrained(self, c: FloatArray, extra: ExtraRows) -> Label:
        allowed = np.flatnonzero(holding_rows(extra, self.labels))
        if not allowed.size:
            raise InfeasibleSpace("No label of the space satisfies the extra rows of this call.")
        values = self.labels[allowed] @ c
        k = int(values.argmax())
        return self._label(int(allowed[k]), float(values[k]))

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray:
        points = np.column_stack([self.labels @ h, self.labels @ g])
        # Largest h first; a label is on the front if its g exceeds every g before it.
        order = np.lexsort((-points[:, 1], -points[:, 0]))
        levels = points[order, 1]
        best_before = np.concatenate([[-np.inf], np.maximum.accumulate(levels)[:-1]])
        return np.asarray(self.labels[order[levels > best_before]])


def fast_algorithm(
    space: CompiledSpace, structure: Structure | None = None, *, relaxed: bool = False
) -> Algorithm | None:
    """The algorithm that is proved exact for this space, or None.

    Parameters
    ----------
    space : CompiledSpace
    structure : Structure, optional
        What was recognised in `space`, if that is known already.
    relaxed : bool
        Whether the LP relaxation is asked for; fractional optima then count.
    """
    from structopt.algorithms.recognised import algorithm_of

    if space.n_variables == 0:
        return None
    asked_for_lp = relaxed and space.is_integral
    program = space.relaxed() if asked_for_lp else space
    found = recognize(program) if asked_for_lp or structure is None else structure
    algorithm = algorithm_of(found, program.integrality)
    if algorithm is not None or relaxed or not space.is_integral:
        return algorithm
    return _enumeration(space)


def _enumeration(space: CompiledSpace) -> Enumeration | None:
    if int(space.integrality.sum()) > _MOST_INTEGERS:
        return None
    try:
        labels = enumerate_labels(space, limit=_MOST_LABELS)
    except DeclarationError:
        return None
    # An empty space goes to the backend, whose diagnosis names the rows in conflict.
    return Enumeration(labels) if len(labels) else None

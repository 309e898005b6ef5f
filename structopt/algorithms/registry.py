"""The table of algorithms: one class for each type of record."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import scipy.sparse as sp

from structopt.algorithms.assignment import AssignmentAlgorithm
from structopt.algorithms.base import Algorithm
from structopt.algorithms.box import BoxAlgorithm
from structopt.algorithms.cardinality import CardinalityAlgorithm
from structopt.algorithms.chain.algorithm import GroupForestAlgorithm
from structopt.algorithms.closure import ClosureAlgorithm
from structopt.algorithms.embedding import embedded
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.leaf_sets.algorithm import LeafSetAlgorithm
from structopt.algorithms.leaves import LeafAlgorithm
from structopt.algorithms.pairwise.algorithm import PairwiseAlgorithm
from structopt.algorithms.paths import PathAlgorithm
from structopt.algorithms.product import Product
from structopt.algorithms.tree import TreeAlgorithm
from structopt.errors import DeclarationError
from structopt.recognize import (
    Assignment,
    Box,
    Cardinality,
    Closure,
    GroupForest,
    LeafSets,
    Leaves,
    Pairwise,
    Path,
    Record,
    Structure,
    Tree,
    recognize,
)
from structopt.space.compiled import CompiledSpace

__all__ = ["ALGORITHMS", "algorithm_of", "fast_algorithm"]

#: The algorithm that solves each type of record.
ALGORITHMS: dict[type[Record], type[Algorithm]] = {
    Box: BoxAlgorithm,
    Cardinality: CardinalityAlgorithm,
    Closure: ClosureAlgorithm,
    Pairwise: PairwiseAlgorithm,
    Assignment: AssignmentAlgorithm,
    Path: PathAlgorithm,
    GroupForest: GroupForestAlgorithm,
    Tree: TreeAlgorithm,
    Leaves: LeafAlgorithm,
    LeafSets: LeafSetAlgorithm,
}


def algorithm_of(record: Record, n: int) -> Algorithm:
    """Return the algorithm for a record over `n` variables.

    Parameters
    ----------
    record : Record
    n : int
        Number of variables of the space that the record describes.

    Returns
    -------
    Algorithm

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.recognize import Box
    >>> algorithm_of(Box(lower=np.zeros(2), upper=np.ones(2)), 2)
    <BoxAlgorithm: signs>
    """
    if type(record) not in ALGORITHMS:
        known = ", ".join(sorted(kind.__name__ for kind in ALGORITHMS))
        raise DeclarationError(
            f"No algorithm solves a record of type {type(record).__name__}; those with one: {known}."
        )
    return ALGORITHMS[type(record)].of_record(record, n)


def fast_algorithm(
    space: CompiledSpace, structure: Structure | None = None, *, relaxed: bool = False
) -> Algorithm | None:
    """The algorithm that is proved exact for this space, or None.

    Parameters
    ----------
    space : CompiledSpace
    structure : Structure, optional
        The structure recognised in `space`, if it is known already.
    relaxed : bool
        Whether the LP relaxation is to be solved; fractional optima then count.

    Examples
    --------
    >>> import structopt as so
    >>> fast_algorithm(so.LabelSpace.from_matrices([[1, 1, 1]], 1, 1).compiled)
    <CardinalityAlgorithm: argmax>
    """
    if space.n_variables == 0 or space.separations:
        return None
    asked_for_lp = relaxed and space.is_integral
    program = space.relaxed() if asked_for_lp else space
    found = recognize(program) if asked_for_lp or structure is None else structure
    if isinstance(found.record, GroupForest):
        found = _with_zeros(found, found.record)
    algorithm = _of_free_columns(found)
    if algorithm is not None:
        return embedded(algorithm, found, program.integrality)
    return None if relaxed or not space.is_integral else Enumeration.of_space(space)


def _with_zeros(structure: Structure, record: GroupForest) -> Structure:
    """Give the record the columns that follow or are fixed to 0: tables of costs are then taken as they are."""
    zero, dependent = structure.fixed_values == 0.0, structure.dependent
    unused = structure.fixed_columns[zero]
    columns = np.union1d(structure.columns, unused if dependent is None else np.append(unused, dependent.columns))
    place = np.append(np.searchsorted(columns, structure.columns), -1)  # -1 stands for no variable
    if dependent is not None:
        data, indices, indptr = dependent.matrix.data, place[dependent.matrix.indices], dependent.matrix.indptr
        shape = (len(dependent.columns), columns.size)
        dependent = dependent._replace(matrix=sp.csr_array((data, indices, indptr), shape=shape))
    return replace(
        structure,
        columns=columns,
        fixed_columns=structure.fixed_columns[~zero],
        fixed_values=structure.fixed_values[~zero],
        record=replace(record, column=place[record.column], pair=place[record.pair]),
        dependent=dependent,
    )


def _of_free_columns(structure: Structure) -> Algorithm | None:
    """Return the algorithm for the free columns, or None if only a solver can do it."""
    parts = structure.parts if structure.kind == "product" else (structure,)
    if any(type(part.record) not in ALGORITHMS for part in parts):
        return None
    found = [algorithm_of(cast("Record", part.record), part.columns.size) for part in parts]
    if structure.kind != "product":
        return found[0]
    place = np.empty(int(structure.columns.max(initial=-1)) + 1, dtype=np.int64)
    place[structure.columns] = np.arange(structure.columns.size)
    return Product([(place[part.columns], algorithm) for part, algorithm in zip(parts, found, strict=True)])

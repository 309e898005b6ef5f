"""The registry of algorithms: recognised structure to algorithm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from structopt.algorithms.assignment import BipartiteMatching
from structopt.algorithms.base import Algorithm
from structopt.algorithms.box import BoxAlgorithm
from structopt.algorithms.cardinality import CardinalityAlgorithm
from structopt.algorithms.closure import ClosureAlgorithm
from structopt.algorithms.embedding import embedded
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.group_forest import GroupForestAlgorithm
from structopt.algorithms.pairwise.algorithm import PairwiseAlgorithm
from structopt.algorithms.paths import PathAlgorithm
from structopt.algorithms.product import Product
from structopt.algorithms.tree.needed_child import NeededChildForest
from structopt.recognize import Structure, recognize
from structopt.space.compiled import CompiledSpace

__all__ = ["ALGORITHMS", "fast_algorithm"]

#: The algorithm for the free columns of each kind of `structopt.recognize.Structure`.
ALGORITHMS: dict[str, Callable[[Structure], Algorithm]] = {
    "box": BoxAlgorithm.of_structure,
    "simplices": CardinalityAlgorithm.of_structure,
    "cardinality": CardinalityAlgorithm.of_structure,
    "closure": ClosureAlgorithm.of_structure,
    "pairwise": PairwiseAlgorithm.of_structure,
    "assignment": BipartiteMatching.of_structure,
    "path": PathAlgorithm.of_structure,
    "group forest": GroupForestAlgorithm.of_structure,
    "tree": NeededChildForest.of_structure,
}


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
    algorithm = _of_free_columns(found)
    if algorithm is not None:
        return embedded(algorithm, found, program.integrality)
    return None if relaxed or not space.is_integral else Enumeration.of_space(space)


def _of_free_columns(structure: Structure) -> Algorithm | None:
    """The algorithm for the free columns, or None for what only a solver can do."""
    if structure.kind != "product":
        make = ALGORITHMS.get(structure.kind)
        return None if make is None else make(structure)
    if any(part.kind not in ALGORITHMS for part in structure.parts):
        return None
    place = np.empty(int(structure.columns.max(initial=-1)) + 1, dtype=np.int64)
    place[structure.columns] = np.arange(structure.columns.size)
    return Product([(place[part.columns], ALGORITHMS[part.kind](part)) for part in structure.parts])

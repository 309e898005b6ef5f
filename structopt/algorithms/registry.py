"""Which algorithm solves a space, by what is recognised in it."""

from __future__ import annotations

from structopt.algorithms.base import Algorithm
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.recognised import algorithm_of
from structopt.recognize import Structure, recognize
from structopt.space.compiled import CompiledSpace

__all__ = ["fast_algorithm"]


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
    if space.n_variables == 0:
        return None
    asked_for_lp = relaxed and space.is_integral
    program = space.relaxed() if asked_for_lp else space
    found = recognize(program) if asked_for_lp or structure is None else structure
    algorithm = algorithm_of(found, program.integrality)
    if algorithm is not None or relaxed or not space.is_integral:
        return algorithm
    return Enumeration.of_space(space)

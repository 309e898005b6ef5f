"""Diagnosis of infeasible spaces and unbounded objectives: names of conflicting rows, and of variables on a ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.backends.arrays import recession_ray, with_rows
from structopt.backends.base import SideConstraints, Solution, Status
from structopt.backends.highs import Highs
from structopt.errors import InfeasibleSpace, UnboundedObjective
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.exact_rows import only_rows
from structopt.space.lazy import described_row

__all__ = ["conflicting_rows", "explain_call", "explain_infeasible", "explain_unbounded"]

# Deletion filtering solves one program per surviving row; it stops improving the set after this long.
_PATIENCE = 20.0


def explain_infeasible(space: CompiledSpace) -> InfeasibleSpace:
    """The error for an empty space, naming a smallest conflicting set of rows."""
    names = conflicting_rows(space)
    if not names:
        return InfeasibleSpace(f"The label space {space.name!r} is empty, because of its bounds and integrality alone.")
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return InfeasibleSpace(
        f"The label space {space.name!r} is empty: these rows contradict each other "
        f"(with the bounds of their variables): {shown}. Relax or remove one of them.",
        rows=names,
    )


def explain_call(space: CompiledSpace, extra: SideConstraints, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return a message and the names of a smallest conflicting set of rows, for a call without a label."""
    program = with_rows(space, [extra])
    program = replace(program, row_names=[*space.row_names, *names])
    message = "No label of the space satisfies the side constraints and no-goods of this call"
    if not _is_empty(program):  # a label is feasible for HiGHS only, within its tolerance
        return f"{message}.", ()
    found = conflicting_rows(program)
    place = {name: k for k, name in enumerate(names)}

    def shown(name: str) -> str:
        if name not in place:
            return name
        part = extra[0][[place[name]]]
        ends = float(extra[1][place[name]]), float(extra[2][place[name]])
        return f"{name} ({described_row(space.variable_names, part.indices, part.data, *ends)})"

    listed = ", ".join(map(shown, found[:20])) + (", ..." if len(found) > 20 else "")
    return f"{message}: these rows contradict each other (with the bounds of their variables): {listed}.", found


def conflicting_rows(space: CompiledSpace) -> tuple[str, ...]:
    """Names of rows that have no common label although every proper subset of them has one.

    Found by deletion filtering, started from the rows that the LP's own certificate of emptiness uses (its
    Farkas multipliers) where the relaxation is empty already.
    """
    suspects = np.arange(space.n_rows)
    relaxed = space.relaxed()
    proof = _farkas_rows(relaxed)
    program = space
    if proof is not None and _is_empty(only_rows(relaxed, proof)):
        suspects, program = proof, relaxed
    kept = _deletion_filter(suspects, lambda rows: _is_empty(only_rows(program, rows)))
    return tuple(space.row_names[int(k)] for k in kept)


def _farkas_rows(relaxed: CompiledSpace) -> npt.NDArray[np.intp] | None:
    """Rows with a non-zero multiplier in a certificate that the LP is empty; None if it is not empty.

    Minimise the total violation of the rows; rows with a non-zero dual price are those that pull against each other.
    """
    m, n = relaxed.matrix.shape
    wide = sp.hstack([relaxed.matrix, sp.eye_array(m), -sp.eye_array(m)], format="csr")
    elastic = replace(
        relaxed,
        matrix=sp.csr_array(wide),
        lower=np.concatenate([relaxed.lower, np.zeros(2 * m)]),
        upper=np.concatenate([relaxed.upper, np.full(2 * m, np.inf)]),
        integrality=np.zeros(n + 2 * m, dtype=bool),
    )
    backend = Highs(elastic)
    costs = np.concatenate([np.zeros(n), -np.ones(2 * m)])
    backend.set_costs(costs)
    solution = backend.run()
    if solution.status is not Status.OPTIMAL or solution.z is None or float(costs @ solution.z) > -1e-7:
        return None
    return np.flatnonzero(np.abs(backend.row_duals()) > 1e-9)


def _deletion_filter(
    suspects: npt.NDArray[np.intp], is_empty: Callable[[npt.NDArray[np.intp]], bool]
) -> npt.NDArray[np.intp]:
    """Drop rows, in halving chunks, as long as the rest stays empty."""
    kept = suspects
    begun = monotonic()
    chunk = max(1, len(kept) // 2)
    while True:
        position = 0
        while position < len(kept):
            rest = np.delete(kept, np.s_[position : position + chunk])
            if is_empty(rest):
                kept = rest
            else:
                position += chunk
            if monotonic() - begun > _PATIENCE:
                return kept
        if chunk == 1:
            return kept
        chunk = max(1, chunk // 2)


def _is_empty(space: CompiledSpace) -> bool:
    backend = Highs(space, {"time_limit": _PATIENCE})
    backend.set_costs(np.zeros(space.n_variables))
    solution: Solution = backend.run()
    return solution.status is Status.INFEASIBLE


def explain_unbounded(space: CompiledSpace, c: FloatArray) -> UnboundedObjective:
    """The error for an objective without a maximum, naming the variables that run away."""
    ray = recession_ray(space, c)
    moving = np.flatnonzero(np.abs(ray) > 1e-7) if ray is not None else np.empty(0, dtype=int)
    names = tuple(space.variable_names[int(k)] for k in moving)
    if not names:
        return UnboundedObjective(
            f"The objective is unbounded over the label space {space.name!r}; bound its variables."
        )
    shown = ", ".join(
        f"{name} ({'up' if ray is not None and ray[k] > 0 else 'down'})"
        for name, k in zip(names[:10], moving[:10], strict=True)
    )
    return UnboundedObjective(
        f"The objective is unbounded over the label space {space.name!r}: it grows for ever as these variables move: "
        f"{shown}{', ...' if len(names) > 10 else ''}. Give one of them a bound.",
        variables=names,
    )

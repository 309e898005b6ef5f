"""`shared_oracle`: one oracle for all spaces of the same content."""

from __future__ import annotations

import threading
from typing import Any

from structopt.checks import checked, instance
from structopt.oracle.oracle import Oracle
from structopt.space import LabelSpace
from structopt.space.compiled import CompiledSpace

__all__ = ["shared_oracle"]

_shared: dict[tuple[Any, ...], Oracle] = {}
_shared_lock = threading.Lock()


@checked
def shared_oracle(space: LabelSpace | CompiledSpace, solver: Any = "auto", **options: Any) -> Oracle:
    """One oracle for all spaces of the same content: compiled once, kept for the life of the process.

    Nothing more can be declared in the space afterwards, except in a ``space.copy()``.

    Parameters
    ----------
    space : LabelSpace
    solver : str, path or Backend
    options : mapping
        Of the solver.

    Returns
    -------
    Oracle

    Examples
    --------
    >>> import structopt as so
    >>> spaces = [so.LabelSpace.from_matrices([[1, 1]], 1, 1) for _ in range(2)]
    >>> so.shared_oracle(spaces[0]) is so.shared_oracle(spaces[1])
    True
    """
    instance("space", space, (LabelSpace, CompiledSpace))
    compiled = space
    if isinstance(space, LabelSpace):
        # It may serve other declarations of the same content, which must not change with this one.
        space.seal("a shared oracle")
        compiled = space.compiled
    key = (space.fingerprint, str(solver), tuple(sorted((k, str(v)) for k, v in options.items())))
    with _shared_lock:
        if key not in _shared:
            _shared[key] = Oracle(compiled, solver, **options)
        return _shared[key]

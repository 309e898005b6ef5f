"""What a saved model may contain about its solver: the name of a shipped profile, and numeric limits.

A file that was saved, sent and loaded must not choose which program runs or which file is written. Options of HiGHS
such as ``log_file`` and of Pyomo such as ``executable`` do just that, so that options are taken from a file only if
they are on the list below, with a value of the right type. ``SECURITY.md`` states the guarantees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from structopt.backends.profiles import available_profiles
from structopt.errors import DeclarationError

__all__ = ["check_portable", "portable"]

#: A kind of value: a non-negative number, a whole one, a switch, or one of some strings.
_NUMBER, _WHOLE, _SWITCH = "a finite number, at least 0", "a whole number, at least 0", "True or False"
_Kind = str | tuple[str, ...]

_COMMON: dict[str, _Kind] = {"time_limit": _NUMBER, "mip_gap": _NUMBER, "threads": _WHOLE}

#: Options by backend, beside the common ones. None of them names a program, a file or an argument of a command line.
_ALLOWED: dict[str, dict[str, _Kind]] = {
    "highs": {
        "presolve": ("on", "off", "choose"),
        "solver": ("choose", "simplex", "ipm", "ipx", "pdlp"),
        "parallel": ("on", "off", "choose"),
        "random_seed": _WHOLE,
        "simplex_strategy": _WHOLE,
        "simplex_scale_strategy": _WHOLE,
        "simplex_dual_edge_weight_strategy": _WHOLE,
        "simplex_primal_edge_weight_strategy": _WHOLE,
        "simplex_iteration_limit": _WHOLE,
        "ipm_iteration_limit": _WHOLE,
        "pdlp_iteration_limit": _WHOLE,
        "ipm_optimality_tolerance": _NUMBER,
        "primal_feasibility_tolerance": _NUMBER,
        "dual_feasibility_tolerance": _NUMBER,
        "mip_feasibility_tolerance": _NUMBER,
        "mip_rel_gap": _NUMBER,
        "mip_abs_gap": _NUMBER,
        "mip_max_nodes": _WHOLE,
        "mip_max_leaves": _WHOLE,
        "mip_max_stall_nodes": _WHOLE,
        "mip_max_improving_sols": _WHOLE,
        "mip_heuristic_effort": _NUMBER,
        "mip_heuristic_run_feasibility_jump": _SWITCH,
        "mip_heuristic_run_rins": _SWITCH,
        "mip_heuristic_run_rens": _SWITCH,
        "mip_heuristic_run_root_reduced_cost": _SWITCH,
        "mip_heuristic_run_zi_round": _SWITCH,
        "mip_heuristic_run_shifting": _SWITCH,
        "mip_detect_symmetry": _SWITCH,
        "run_crossover": ("on", "off", "choose"),
    },
    "scipy": {"presolve": _SWITCH, "node_limit": _WHOLE},
    "scip": {"limits/gap": _NUMBER, "limits/nodes": _WHOLE, "numerics/feastol": _NUMBER},
    "pulp": {
        "presolve": _SWITCH,
        "cuts": _SWITCH,
        "gapAbs": _NUMBER,
        "gapRel": _NUMBER,
        "maxNodes": _WHOLE,
        "maxMemory": _NUMBER,
    },
    "pyomo": {
        "ratio": _NUMBER,
        "allow": _NUMBER,
        "mipgap": _NUMBER,
        "mip_rel_gap": _NUMBER,
        "mip_abs_gap": _NUMBER,
        "limits/gap": _NUMBER,
        "limits/nodes": _WHOLE,
        "MIPGap": _NUMBER,
        "MIPGapAbs": _NUMBER,
        "Threads": _WHOLE,
    },
}


def portable(solver: Any, options: Mapping[str, Any] | None) -> tuple[str, dict[str, Any], list[str]]:
    """What of a solver and its options can be saved, and sentences on what cannot.

    Parameters
    ----------
    solver : str, path, Profile or Backend class
    options : mapping or None

    Returns
    -------
    solver : str
        ``"auto"`` or the name of a profile that ships; ``"auto"`` in place of what cannot be saved.
    options : dict
    left_out : list of str

    Examples
    --------
    >>> portable("highs", {"time_limit": 5.0, "log_file": "/tmp/x"})
    ('highs', {'time_limit': 5.0}, ["the option 'log_file' of 'highs' is not one that a file may set"])
    >>> portable("my.toml", None)
    ('auto', {}, ["solver='my.toml' is not a profile that ships with structopt"])
    """
    left_out = []
    name = "auto" if solver is None else solver if isinstance(solver, str) else ""
    if name not in ("auto", *available_profiles()):
        left_out.append(f"solver={solver!r} is not a profile that ships with structopt")
        # Options of one solver mean something else, or nothing, to another.
        left_out += [f"the option {key!r} of that solver" for key in options or {} if key not in _COMMON]
        name, options = "auto", {key: value for key, value in (options or {}).items() if key in _COMMON}
    kept = {}
    for key, given in (options or {}).items():
        value = given.item() if isinstance(given, np.generic) else given
        problem = _problem(name, key, value)
        if problem is None:
            kept[key] = value
        else:
            left_out.append(problem)
    return name, kept, left_out


def check_portable(solver: Any, options: Any, where: str) -> None:
    """Refuse a solver or options that a file may not set.

    Raises
    ------
    DeclarationError
        Naming what was found at `where`.

    Examples
    --------
    >>> check_portable("pyomo-cbc", {"executable": "/bin/sh"}, "The file")
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: The file: the option 'executable' of 'pyomo-cbc' is not one that a file may ...
    """
    if options is not None and not isinstance(options, Mapping):
        raise DeclarationError(f"{where}: the options of a solver are a mapping, got {type(options).__name__}.")
    _, _, problems = portable(solver, options)
    if problems:
        raise DeclarationError(
            f"{where}: {'; '.join(problems)}. Solvers beyond those that ship, programs and files are chosen in your "
            "own code, after loading."
        )


def _problem(solver: str, key: Any, value: Any) -> str | None:
    backend = "highs" if solver == "auto" else available_profiles()[solver].backend
    allowed = {**_COMMON, **_ALLOWED.get(backend, {})}
    kind = allowed.get(key) if isinstance(key, str) else None
    if kind is None:
        return f"the option {key!r} of {solver!r} is not one that a file may set"
    if isinstance(kind, tuple):
        fits, wanted = isinstance(value, str) and value in kind, f"one of {', '.join(kind)}"
    elif kind == _SWITCH:
        fits, wanted = isinstance(value, bool), kind
    else:
        number = isinstance(value, int) or (isinstance(value, float) and kind == _NUMBER)
        fits, wanted = number and not isinstance(value, bool) and math.isfinite(value) and value >= 0, kind
    return None if fits else f"the option {key!r} of {solver!r} is {value!r}; it must be {wanted}"

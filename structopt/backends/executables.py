"""Location of the executables of command-line solvers, and how to install them."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from typing import Any

__all__ = ["INSTALL", "cbc_executable", "missing_solver", "split_cure"]

_CURE = "; get it with: "

#: How to install a program, by its name on the path.
INSTALL = {
    "cbc": "pip install 'pulp<4' (which ships it), apt install coinor-cbc, or brew install cbc",
    "glpsol": "apt install glpk-utils, brew install glpk, or conda install -c conda-forge glpk",
    "scip": "conda install -c conda-forge scip, or a package from scipopt.org",
    "highs": "pip install highspy and solver='highs', which needs no program",
    "gurobi_cl": "the Gurobi distribution and a licence from gurobi.com",
    "cplex": "the CPLEX distribution and a licence from IBM",
}


def cbc_executable() -> str | None:
    """Path of a CBC program: the one that PuLP ships, else one on the path, else None."""
    try:
        from pulp.apis.coin_api import pulp_cbc_path
    except ImportError:  # PuLP 4 no longer ships CBC
        return shutil.which("cbc")
    path = os.path.normpath(pulp_cbc_path)
    return shutil.which(path) or shutil.which("cbc")


def missing_package(package: str) -> str | None:
    """Why `package` cannot be imported, or None if it can; without importing it."""
    if importlib.util.find_spec(package) is None:
        return f"the Python package {package!r} is not installed{_CURE}pip install {package}"
    return None


def missing_program(program: str) -> str | None:
    """Why `program` cannot be run, or None if it can."""
    found = cbc_executable() if program == "cbc" else shutil.which(program)
    if found is not None:
        return None
    cure = INSTALL.get(os.path.basename(program), "install it and put it on the path")
    return f"the program {program!r} was not found{_CURE}{cure}"


def missing_solver(
    package: str, solver: str, packages: Mapping[str, str], programs: Mapping[str, str], executable: Any = None
) -> str | None:
    """Why a modelling package cannot run `solver`, or None if it can.

    Parameters
    ----------
    package : str
        The modelling package.
    solver : str
        Its name of the solver.
    packages, programs : mapping of str to str
        The Python package, or the program, that a solver needs.
    executable : str, optional
        A program given by the user in place of that one.
    """
    missing = missing_package(package)
    if missing is None and solver in packages:
        missing = missing_package(packages[solver])
    program = executable or programs.get(solver)
    if missing is None and program is not None:
        missing = missing_program(str(program))
    return missing


def split_cure(reason: str) -> tuple[str, str]:
    """What is missing, and how to get it ("" if the reason does not say).

    Examples
    --------
    >>> split_cure("the Python package 'x' is not installed; get it with: pip install x")
    ("the Python package 'x' is not installed", 'pip install x')
    """
    what, _, cure = reason.partition(_CURE)
    return what, cure

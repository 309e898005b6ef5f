"""Location of the executables of command-line solvers, and how to install them."""

from __future__ import annotations

import importlib.util
import os
import shutil

__all__ = ["INSTALL", "cbc_executable", "missing_package", "missing_program", "split_cure"]

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


def split_cure(reason: str) -> tuple[str, str]:
    """What is missing, and how to get it ("" if the reason does not say).

    Examples
    --------
    >>> split_cure("the Python package 'x' is not installed; get it with: pip install x")
    ("the Python package 'x' is not installed", 'pip install x')
    """
    what, _, cure = reason.partition(_CURE)
    return what, cure

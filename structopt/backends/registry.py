"""The registry of backends: one line each, imported at first use."""

from __future__ import annotations

import importlib
from typing import cast

from structopt.backends.base import Backend
from structopt.checks import checked, choice

__all__ = ["BACKENDS", "backend_class"]

BACKENDS = {
    "highs": "structopt.backends.highs:Highs",
    "scipy": "structopt.backends.scipy:Scipy",
    "pulp": "structopt.backends.pulp:Pulp",
    "pyomo": "structopt.backends.pyomo:Pyomo",
}


@checked
def backend_class(name: str) -> type[Backend]:
    """The backend registered under `name`.

    Parameters
    ----------
    name : str

    Returns
    -------
    type

    Examples
    --------
    >>> backend_class("scipy").__name__
    'Scipy'
    """
    module, _, attribute = BACKENDS[choice("name", name, BACKENDS)].partition(":")
    return cast("type[Backend]", getattr(importlib.import_module(module), attribute))

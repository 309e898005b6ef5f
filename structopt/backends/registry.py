"""The registry of backends: one line each, imported at first use, and those that users register."""

from __future__ import annotations

import importlib
from typing import cast

from structopt.backends.base import Backend
from structopt.checks import checked, choice, shown
from structopt.errors import DeclarationError

__all__ = ["BACKENDS", "backend_class", "register", "registered"]

#: Class, or the module and name of a class that is imported at first use.
BACKENDS: dict[str, str | type[Backend]] = {
    "highs": "structopt.backends.highs:Highs",
    "scipy": "structopt.backends.scipy:Scipy",
    "pulp": "structopt.backends.pulp:Pulp",
    "pyomo": "structopt.backends.pyomo:Pyomo",
    "scip": "structopt.backends.scip:Scip",
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
    found = BACKENDS[choice("name", name, BACKENDS)]
    if isinstance(found, type):
        return found
    module, _, attribute = found.partition(":")
    return cast("type[Backend]", getattr(importlib.import_module(module), attribute))


@checked
def register(name: str, backend: type[Backend]) -> None:
    """Register your own backend under a name: ``solver="name"`` and ``backend = "name"`` in a profile.

    Parameters
    ----------
    name : str
        Letters, digits, ``-`` and ``_``; not the name of a profile or backend that comes with structopt. The name of
        an earlier registration is given to the new class.
    backend : subclass of Backend
        With its hooks written; `structopt.testing.check_backend` tests it.

    Notes
    -----
    Names live in this process: an oracle that is unpickled in another one needs the registration there, too.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt.backends.scipy import Scipy
    >>> class Careful(Scipy):
    ...     name = "careful"
    >>> so.backends.register("careful", Careful)
    >>> so.Oracle(so.LabelSpace.from_matrices([[1, 1]], 1, 1), solver="careful").maximize([1.0, 3.0]).value
    3.0
    """
    from structopt.backends.profiles import shipped_names

    if not name or not name.replace("-", "").replace("_", "").isalnum():
        raise DeclarationError(f"A backend's name has letters, digits, '-' and '_' only, got {name!r}.")
    if name == "auto" or isinstance(BACKENDS.get(name), str) or name in shipped_names():
        raise DeclarationError(f"{name!r} is a solver of structopt's own: choose another name.")
    if not isinstance(backend, type) or not issubclass(backend, Backend):
        raise DeclarationError(f"{shown(backend)} is not a subclass of structopt.backends.Backend.")
    unwritten = sorted(getattr(backend, "__abstractmethods__", ()))
    missing = unwritten + [attribute for attribute in ("name", "capabilities") if not hasattr(backend, attribute)]
    if missing:
        raise DeclarationError(f"The backend {backend.__name__} lacks {', '.join(missing)}.")
    BACKENDS[name] = backend


def registered() -> list[str]:
    """The names that users have registered."""
    return [name for name, backend in BACKENDS.items() if isinstance(backend, type)]

"""Solver profiles: a TOML file that names a backend, its options and how to install it.

The profiles that come with structopt are in ``solvers/``; users can write files of the same form:

.. code-block:: toml

    description = "CBC, at most ten seconds, one per cent"
    backend = "pulp"
    install = "pip install pulp"

    [options]
    solver = "PULP_CBC_CMD"
    time_limit = 10
    mip_gap = 0.01

    [tolerances]
    feasibility = 1e-5
    value = 1e-2
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structopt.backends.base import Backend
from structopt.backends.executables import split_cure
from structopt.backends.registry import BACKENDS, backend_class, registered
from structopt.checks import checked, instance, number, whole
from structopt.errors import DeclarationError, SolverNotAvailable
from structopt.space.compiled import FEASIBILITY_TOLERANCE, VALUE_TOLERANCE, CompiledSpace

__all__ = ["Profile", "check_limits", "available_profiles", "load_profile", "make_backend"]

_PACKAGE = Path(__file__).resolve().parent.parent
#: Package data after an install, the top of the checkout during development.
_FOLDERS = (_PACKAGE / "_solvers", _PACKAGE.parent / "solvers")
_KEYS = {"backend", "description", "install", "options", "tolerances"}
_TOLERANCES = {"feasibility": FEASIBILITY_TOLERANCE, "value": VALUE_TOLERANCE}


@dataclass(frozen=True)
class Profile:
    """A solver with its settings.

    Attributes
    ----------
    name : str
        The file's name without ``.toml``.
    backend : str
        Name in the registry of backends.
    options : mapping
        For the backend; see its class.
    tolerances : mapping
        ``feasibility``: how far an answer may leave a row or an integer; ``value``: relative error of
        its value. What `structopt.testing.check_backend` holds the solver to.
    install : str
        How to get the solver.
    description : str
        One line for people.
    """

    name: str
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=lambda: dict(_TOLERANCES))
    install: str = ""
    description: str = ""

    def unavailable(self, **overrides: Any) -> str | None:
        """Why this solver cannot run here, or None if it can.

        Parameters
        ----------
        overrides : mapping, optional
            Options in place of the profile's.

        Returns
        -------
        str or None
            The reason.
        """
        try:
            cls = backend_class(self.backend)
        except ImportError as error:
            return f"the Python package {error.name!r} is not installed"
        return cls.unavailable({**self.options, **overrides})


def available_profiles() -> dict[str, Profile]:
    """Every profile by name, whether or not its solver is installed here: structopt's own and registered backends.

    Returns
    -------
    dict of str to Profile

    Examples
    --------
    >>> profiles = available_profiles()
    >>> profiles["cbc"].backend, profiles["cbc"].options["solver"]
    ('pulp', 'PULP_CBC_CMD')
    """
    own = {name: _of_backend(name) for name in registered()}
    return {path.stem: _read(path) for path in sorted(_folder().glob("*.toml"))} | own


@checked
def load_profile(name_or_path: str | os.PathLike[str]) -> Profile:
    """The profile of this name, or in this file.

    Parameters
    ----------
    name_or_path : str or path

    Returns
    -------
    Profile

    Examples
    --------
    >>> load_profile("highs").backend
    'highs'
    """
    text = os.fspath(name_or_path)
    path = Path(text)
    if path.suffix == ".toml" or path.name != text:
        if not path.is_file():
            raise DeclarationError(f"There is no solver profile at {text!r}.")
        return _read(path)
    if text in registered():
        return _of_backend(text)
    path = _folder() / f"{text}.toml"
    if not path.is_file():
        names = ", ".join([*shipped_names(), *registered()])
        raise DeclarationError(
            f"There is no solver profile {text!r}: choose one of {names}, or give the path of a .toml file."
        )
    return _read(path)


@checked
def make_backend(
    solver: str | os.PathLike[str] | Profile | type[Backend], compiled: CompiledSpace, **overrides: Any
) -> Backend:
    """Load a space into a solver.

    Parameters
    ----------
    solver : str, path, Profile or subclass of Backend
        A profile's name, the path of a profile, or a backend class.
    compiled : CompiledSpace
    **overrides
        Options that replace those of the profile.

    Returns
    -------
    Backend

    Raises
    ------
    SolverNotAvailable
        Naming the package or program that is missing, and how to install it.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> space = CompiledSpace(
    ...     sp.csr_array((0, 1)), np.zeros(0), np.zeros(0), np.zeros(1), np.ones(1), np.ones(1, dtype=bool),
    ...     ["u"], [])
    >>> make_backend("highs", space, time_limit=5)
    <Highs backend on <CompiledSpace: 1 variables (1 integer), 0 rows, 0 non-zeros>; time_limit=5>
    """
    check_limits(overrides)
    if isinstance(solver, type):
        if not issubclass(solver, Backend):
            raise DeclarationError(f"{solver.__name__} is not a subclass of structopt.backends.Backend.")
        missing = solver.unavailable(overrides)
        if missing is not None:
            raise SolverNotAvailable(f"The {solver.__name__} backend cannot run here: {missing}.")
        return solver(compiled, _given(overrides))
    profile = solver if isinstance(solver, Profile) else load_profile(instance("solver", solver, (str, os.PathLike)))
    missing = profile.unavailable(**overrides)
    if missing is not None:
        what, cure = split_cure(missing)
        cure = profile.install or cure  # the profile is more specific than the backend
        text = f"; get it with: {cure}" if cure else ""
        raise SolverNotAvailable(f"The solver {profile.name!r} cannot run here: {what}{text}.")
    return backend_class(profile.backend)(compiled, _given({**profile.options, **overrides}))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that have a value: None leaves one to the solver, also where the profile sets it."""
    return {name: value for name, value in options.items() if value is not None}


def check_limits(options: Mapping[str, Any]) -> None:
    """The options that all backends have."""
    if options.get("time_limit") is not None:
        number("time_limit", options["time_limit"], low=0.0)
    if options.get("mip_gap") is not None:
        number("mip_gap", options["mip_gap"], low=0.0, finite=True)
    if options.get("threads") is not None:
        whole("threads", options["threads"], 0, 2**31 - 1)


def shipped_names() -> list[str]:
    """Names of the profiles that come with structopt."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def _of_backend(name: str) -> Profile:
    return Profile(name, name, description="a backend registered by the user")


def _folder() -> Path:
    for folder in _FOLDERS:
        if folder.is_dir():
            return folder
    raise DeclarationError("structopt's solver profiles are missing from the installation: reinstall it.")


def _read(path: Path) -> Profile:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(f"The solver profile {path.name} is not TOML: {error}.") from error
    unknown = sorted(set(content) - _KEYS)
    if unknown:
        raise DeclarationError(
            f"The solver profile {path.name} has an unknown key {unknown[0]!r}; it may have "
            f"{', '.join(sorted(_KEYS))}. Settings of the solver go under [options]."
        )
    if content.get("backend") not in BACKENDS:
        raise DeclarationError(
            f"The solver profile {path.name} needs backend = one of {', '.join(sorted(BACKENDS))}; "
            f"got {content.get('backend')!r}."
        )
    unknown = sorted(set(content.get("tolerances", {})) - set(_TOLERANCES))
    if unknown:
        raise DeclarationError(
            f"The solver profile {path.name} has an unknown tolerance {unknown[0]!r}; "
            f"it may have {', '.join(_TOLERANCES)}."
        )
    return Profile(
        name=path.stem,
        backend=content["backend"],
        options=content.get("options", {}),
        tolerances={**_TOLERANCES, **content.get("tolerances", {})},
        install=content.get("install", ""),
        description=content.get("description", ""),
    )

"""Backends: one file per LP or MIP solver, behind one protocol.

A new backend is one file and one line in `structopt.backends.registry`, or a class of the user's own and a call of
`register`; a new solver for an old backend is one TOML file (`structopt.backends.profiles`).
"""

from structopt.backends.base import Backend, Capability, Solution, Status
from structopt.backends.profiles import Profile, available_profiles, load_profile, make_backend
from structopt.backends.registry import BACKENDS, backend_class, register

__all__ = [
    "BACKENDS",
    "Backend",
    "Capability",
    "Profile",
    "Solution",
    "Status",
    "available_profiles",
    "backend_class",
    "load_profile",
    "make_backend",
    "register",
]

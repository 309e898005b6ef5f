"""``structopt solvers``: which solver profiles run here, and how to get the others."""

from __future__ import annotations

import argparse
from typing import Any

from structopt.backends import available_profiles
from structopt.backends.executables import split_cure
from structopt.cli._output import add_command, print_json, print_table

__all__ = ["add", "run"]

_DESCRIPTION = """\
List the solver profiles, whether each can run here, and how to install those that cannot.

examples:
  structopt solvers
  structopt solvers --json
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    add_command(commands, "solvers", run, "solvers that are usable here, and how to get the others", _DESCRIPTION)


def run(arguments: argparse.Namespace) -> int:
    """List, print, and return the exit code."""
    found = [
        {
            "name": name,
            "usable": reason is None,
            "backend": profile.backend,
            "description": profile.description,
            "missing": reason and split_cure(reason)[0],
            "install": profile.install,
        }
        for name, profile in available_profiles().items()
        for reason in [profile.unavailable()]
    ]
    if arguments.json:
        print_json(found)
        return 0
    usable = [row for row in found if row["usable"]]
    others = [row for row in found if not row["usable"]]
    print("usable here:")
    print_table([f"  {row['name']}", row["description"]] for row in usable)
    if others:
        print("\nnot here:")
        print_table([f"  {row['name']}", f"{row['missing']}; install: {row['install'] or '-'}"] for row in others)
    return 0

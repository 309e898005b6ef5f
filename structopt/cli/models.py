"""``structopt models``: the declared models that come with the package."""

from __future__ import annotations

import argparse
from typing import Any

from structopt.cli._output import add_command, print_json, print_table
from structopt.model.library import available_models

__all__ = ["add", "run"]

_DESCRIPTION = """\
List the models that come with structopt. A name can be given to inspect, solve and train; a copy of its file is the
quickest start for a model of your own.

examples:
  structopt models
  structopt inspect graph_matching
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    add_command(commands, "models", run, "models that come with structopt", _DESCRIPTION)


def run(arguments: argparse.Namespace) -> int:
    """List, print, and return the exit code."""
    found = available_models()
    if arguments.json:
        print_json(found)
    else:
        print_table(found.items())
    return 0

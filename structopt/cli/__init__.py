"""The command ``structopt``: one file per command, each with ``add(commands)`` and ``run(arguments) -> exit code``.

Exit codes: 0 success; 1 no solution (infeasible, unbounded, a solver that failed or is missing, labels outside their
space); 2 wrong input (usage, a file that is missing or malformed, a bad configuration).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from structopt.cli import inspecting, models, predict, solve, solvers, train, warm
from structopt.cli._output import Formatter, print_json
from structopt.errors import DeclarationError, StructoptError

__all__ = ["main", "make_parser"]

COMMANDS = (solve, inspecting, train, predict, warm, solvers, models)

_EPILOG = """\
examples:
  structopt solvers                                  which solvers run here, and how to get the others
  structopt inspect model.mps                        size, structure, integrality, fastest exact oracle
  structopt solve model.mps --solver cbc             the best point of a file
  structopt solve named_entities                     the best label of a shipped model's first example
  structopt train config.toml                        train a model to a certified gap and save it
  structopt predict model.npz test.arff              labels of new examples, one a line
  structopt warm config.toml                         compile what it needs, for an image or a cluster

exit codes: 0 done; 1 failed or infeasible; 2 wrong usage, file or configuration
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    from structopt import __version__

    parser = argparse.ArgumentParser(
        prog="structopt",
        description="Label spaces as linear and integer programs: inspect, solve, and learn to predict over them.",
        epilog=_EPILOG,
        formatter_class=Formatter,
    )
    parser.add_argument("--version", action="version", version=f"structopt {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after ``structopt``; those of the process by default.

    Returns
    -------
    int
        0 done, 1 failed or infeasible, 2 wrong usage (which argparse reports by ``SystemExit(2)``).

    Examples
    --------
    >>> main(["inspect", "vertex_cover"])
    model ...
    variables           16
    ...
    0
    """
    parser, words = make_parser(), sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["bench"]:
        parser.error("There is no command 'bench'. Run benchmarks in a checkout: python benchmarks/run.py.")
    arguments = parser.parse_args(words)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of a pipe (head) has closed it; without this Python reports the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("structopt: interrupted", file=sys.stderr)
        return 1
    except (StructoptError, OSError) as error:
        return _report(error, as_json=getattr(arguments, "json", False))


def _report(error: Exception, *, as_json: bool) -> int:
    message = " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        message = f"{error.strerror}: {str(error.filename)!r}."  # without the number
    print(f"structopt: {message}", file=sys.stderr)
    if as_json:
        details = {name: getattr(error, name) for name in ("rows", "variables", "violations") if hasattr(error, name)}
        guide = getattr(error, "guide", "")
        more = {"guide": f"docs/howto/errors.md#{guide}"} if guide else {}
        print_json({"error": message, "kind": type(error).__name__, **details, **more})
    return 2 if isinstance(error, DeclarationError | FileNotFoundError | IsADirectoryError | PermissionError) else 1

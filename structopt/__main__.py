"""``python -m structopt``: the command line without its script."""

from __future__ import annotations

from structopt.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

"""Set-up shared by tests and doctests."""

import os

# Before numpy is imported. There is a worker for every core, and threads of BLAS that wait for a core spin: the many
# small factorisations of the tests take three times as long with them.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import matplotlib  # noqa: E402

# Imported before collection: pytest would otherwise execute a module a second time when its doctests are collected
# first, and two copies of a class are not instances of each other.
import structopt  # noqa: E402, F401

matplotlib.use("Agg")

"""Set-up shared by tests and doctests."""

import matplotlib

# Imported before collection: pytest would otherwise execute a module a second time when its doctests are collected
# first, and two copies of a class are not instances of each other.
import structopt  # noqa: F401

matplotlib.use("Agg")

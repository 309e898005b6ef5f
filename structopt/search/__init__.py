"""Searches for the most violated label: λ, angles and corners are chosen until ψ is maximal, with an upper bound.

A search uses a plane, and no solver.
"""

from structopt.search.angular import angular
from structopt.search.batch import BatchResult, search_batch
from structopt.search.bisecting import binary, bisecting
from structopt.search.exact import exact
from structopt.search.hull import convex_hull
from structopt.search.result import SearchResult, Step
from structopt.search.sarawagi import sarawagi

__all__ = [
    "BatchResult",
    "SearchResult",
    "Step",
    "angular",
    "binary",
    "bisecting",
    "convex_hull",
    "exact",
    "sarawagi",
    "search_batch",
]

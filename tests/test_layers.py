"""The arrows of the design go one way: declare -> solve -> search -> learn -> use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import structopt

ROOT = Path(structopt.__file__).parent

#: Each room may use what stands in its own line and above it.
LAYERS = (
    ("errors",),
    ("kernels", "compiled", "stopping", "views", "_archive"),
    ("checks",),
    ("naming", "feasibility", "enumeration", "rows", "expressions", "variables", "label", "ranking_measures"),
    ("interop", "recognize", "space", "_hierarchy_input", "_hierarchy_view", "hierarchy"),
    ("backends", "bans", "diagnosis", "norms"),
    ("extra_rows", "pool", "oracle"),
    ("points", "halfplane", "coordinates", "point_plane", "settle", "plane"),
    ("surrogates",),
    ("search",),
    ("frames", "features", "losses"),
    ("model", "batch"),
    ("library", "structures"),
    ("train",),
    ("risks", "conditional_risk"),
    ("metrics", "data"),
    ("estimators",),
    ("plot", "testing"),
    ("cli", "demo", "__init__", "__main__"),
)
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}

#: What each idea must not know (the five ideas), also where an import hides in a function.
NOT_KNOWN = {
    "search": {"oracle", "backends", "space", "structures", "model"},
    "surrogates": {"oracle", "backends", "space", "structures", "model"},
    "backends": {"model", "features", "losses", "structures", "plane"},
    "space": {"features", "losses", "model", "oracle", "backends"},
    "train": {"space", "structures", "oracle", "backends"},
}


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path, *, inside: bool) -> Iterator[str]:
    """Rooms that a file imports when it is loaded; with `inside`, also those that its functions import."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if inside else tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("structopt."):
            yield node.module.split(".")[1]


FILES = sorted(ROOT.rglob("*.py"))


def test_every_file_has_a_room() -> None:
    assert {room(path) for path in FILES} <= RANK.keys()


@pytest.mark.parametrize("name", sorted(RANK.keys() - {"__init__", "__main__"}))
def test_no_room_loads_one_below_it(name: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} -> {used}"
        for path in FILES
        if room(path) == name
        for used in imports(path, inside=False)
        if RANK[used] > RANK[name]
    }
    assert not wrong


@pytest.mark.parametrize("name", sorted(NOT_KNOWN))
def test_ideas_do_not_know_each_other(name: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} -> {used}"
        for path in FILES
        if room(path) == name
        for used in imports(path, inside=True)
        if used in NOT_KNOWN[name]
    }
    assert not wrong

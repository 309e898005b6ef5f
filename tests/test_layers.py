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
    ("_jit", "stopping", "_archive"),
    ("checks",),
    ("space", "hierarchy"),
    ("interop", "recognize"),
    ("backends", "norms"),
    ("programs",),
    ("algorithms",),
    ("oracle",),
    ("plane",),
    ("surrogates",),
    ("search",),
    ("frames", "features", "losses"),
    ("model",),
    ("structures",),
    ("risks",),
    ("train",),
    ("metrics", "data"),
    ("estimators",),
    ("plot", "testing"),
    ("torch", "distributed"),
    ("cli", "demo", "__init__", "__main__"),
)
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}

#: What each idea must not know, not even in an import inside a function. A `LabelSpace` offers what interop and
#: recognize make of it, and asks for them only when it is called.
NOT_KNOWN = {
    "search": {"oracle", "backends", "algorithms", "space", "structures", "model"},
    "surrogates": {"backends", "algorithms", "structures", "model"},
    "backends": {"algorithms", "oracle", "model", "features", "losses", "structures", "plane"},
    "algorithms": {"model", "features", "losses", "structures", "plane", "risks"},
    "space": {"features", "losses", "model", "oracle", "backends"},
    "train": {"structures", "oracle", "backends", "algorithms"},
}
#: The matrix form and its types are for everybody.
SHARED = {"structopt.space.compiled"}
#: Where a solver's library may be imported. `programs` hands HiGHS what a backend of label spaces has no words for: a
#: basis that a checkpoint can hold, bounds that move, a Hessian. `interop` reads and writes models of pulp and pyomo.
#: PyTorch and dask are extras.
AT_HOME = {
    "highspy": {"backends", "programs"},
    "pulp": {"backends", "interop"},
    "pyomo": {"backends", "interop"},
    "torch": {"torch"},
    "dask": {"distributed"},
    "distributed": {"distributed"},
}


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def modules(node: ast.AST) -> Iterator[str]:
    """Modules of structopt that an import statement names, in each of its forms."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "structopt")
    elif isinstance(node, ast.ImportFrom) and node.level:
        yield "relative"
    elif isinstance(node, ast.ImportFrom) and node.module == "structopt":
        yield from (f"structopt.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("structopt."):
        assert node.module is not None
        yield node.module


def imports(path: Path, *, inside: bool) -> Iterator[str]:
    """Rooms that a file imports when it is loaded; with `inside`, also those that its functions import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree) if inside else tree.body)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in nodes:
        if id(node) in typing_only:
            continue
        for module in modules(node):
            if module not in SHARED:
                yield module if module == "relative" else [*module.split("."), "__init__"][1]


FILES = sorted(path for path in ROOT.rglob("*.py") if "_models" not in path.parts)


def test_every_file_has_a_room() -> None:
    assert {room(path) for path in FILES} <= RANK.keys()
    loose = [path.name for path in FILES if path.parent == ROOT]
    assert len(loose) <= 10, loose


@pytest.mark.parametrize("name", sorted(RANK.keys() - {"__init__", "__main__"}))
def test_no_room_loads_one_below_it(name: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} -> {used}"
        for path in FILES
        if room(path) == name
        for used in imports(path, inside=False)
        if used != "__init__" and RANK[used] > RANK[name]
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


@pytest.mark.parametrize("library", AT_HOME)
def test_solvers_are_behind_the_backends(library: str) -> None:
    wrong = set()
    for path in FILES:
        if room(path) in AT_HOME[library]:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            if any(name.split(".")[0] == library for name in names):
                wrong.add(str(path.relative_to(ROOT)))
    assert not wrong

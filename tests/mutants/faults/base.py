"""The registry of mutants, and the two ways to make one: a changed seam or a changed line of source."""

from __future__ import annotations

import functools
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
#: The conformance suites. That of backends is beside their other tests.
LAWS = ("tests/laws", "tests/backends/test_conformance.py")
#: Per area: the laws that usually kill a mutant, and the other tests that may. Both are arguments of pytest.
AREAS = {
    "algorithms": ("tests/laws/test_laws.py", "tests/oracle tests/kernels tests/structures"),
    "codecs": ("tests/laws/test_models.py", "tests/model tests/structures tests/testing"),
    "search": ("tests/laws/test_searches.py", "tests/search tests/plane"),
    "surrogates": ("tests/laws/test_surrogates.py", "tests/surrogates tests/search"),
    "losses": ("tests/laws/test_losses.py", "tests/losses tests/structures"),
    "risks": ("tests/laws/test_risks.py", "tests/risks"),
    "trainers": ("tests/laws/test_trainers.py", "tests/train"),
    "backends": ("tests/backends/test_conformance.py -k highs", "tests/backends tests/oracle"),
    "norms": ("tests/laws/test_norms.py", "tests/norms tests/estimators/test_hierarchical.py"),
    "files": ("tests/laws/test_files.py", "tests/interop tests/estimators tests/data"),
}

Change = Callable[..., Any]


class Patch(NamedTuple):
    """A line of a file under `structopt/` that is replaced."""

    file: str
    old: str
    new: str

    def source(self) -> str | None:
        """Return the changed source; None if the old text does not occur exactly once."""
        path = ROOT / "structopt" / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


class Mutant(NamedTuple):
    """A fault, the laws that should kill it, and the other tests that may."""

    name: str
    area: str
    laws: str
    tests: str
    fault: Callable[[Seam], None] | Patch


MUTANTS: dict[str, Mutant] = {}


def add(name: str, area: str, fault: Callable[[Seam], None] | Patch, laws: str = "", tests: str = "") -> None:
    """Register a mutant; laws and tests are those of its area unless they are given."""
    assert name not in MUTANTS, name
    MUTANTS[name] = Mutant(name, area, laws or AREAS[area][0], tests or AREAS[area][1], fault)


def mutant(area: str, *seams: str, **where: str) -> Callable[[Change], Change]:
    """Register a function that replaces public methods or functions, under its own name.

    The first argument of the replacement is the original. A seam is a dotted name within structopt. A method of a base
    class in the form ``"Base.*.method"`` is replaced in all derived classes that have their own.
    """

    def register(change: Change) -> Change:
        def fault(seam: Seam) -> None:
            for path in seams:
                seam.replace(path, change)

        add(change.__name__, area, fault, **where)
        return change

    return register


def result(name: str, area: str, seam: str, change: Change, **where: str) -> None:
    """Register a mutant that changes a result: ``change(result, *arguments)``."""

    def changed(original: Any, *args: Any, **options: Any) -> Any:
        return change(original(*args, **options), *args)

    add(name, area, lambda s: s.replace(seam, changed), **where)


class Seam:
    """Replaces attributes of classes and modules by a `pytest.MonkeyPatch`, and counts the replacements."""

    def __init__(self, monkeypatch: Any) -> None:
        self._monkeypatch, self.count = monkeypatch, 0

    def replace(self, path: str, change: Change) -> None:
        """Replace a method, property or function, or a method of all classes below one."""
        owner, name = path.rsplit(".", 1)
        found = pkgutil.resolve_name(f"structopt.{owner.removesuffix('.*')}")
        if owner.endswith(".*"):
            for cls in set(subclasses(found)):
                if not getattr(vars(cls).get(name), "__isabstractmethod__", name not in vars(cls)):
                    self.wrap(cls, name, change)
        elif isinstance(found, ModuleType):
            self._replace_function(getattr(found, name), change)
        else:
            self.wrap(found, name, change)

    def wrap(self, owner: Any, name: str, change: Change) -> None:
        """Replace one attribute."""
        found = vars(owner).get(name)
        found = getattr(owner, name) if found is None else found
        kind = type(found) if isinstance(found, classmethod | staticmethod | property) else None
        original = found.fget if isinstance(found, property) else found.__func__ if kind else found

        @functools.wraps(original)
        def changed(*args: Any, **options: Any) -> Any:
            return change(original, *args, **options)

        self._monkeypatch.setattr(owner, name, kind(changed) if kind else changed)
        self.count += 1

    def _replace_function(self, function: Any, change: Change) -> None:
        """Replace a function in every module of structopt that has imported it."""
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] == "structopt" and module is not None:
                for attribute, value in list(vars(module).items()):
                    if value is function:
                        self.wrap(module, attribute, change)


def subclasses(base: type) -> Iterator[type]:
    """Yield a class and all classes that derive from it."""
    yield base
    for cls in base.__subclasses__():
        yield from subclasses(cls)


class _PatchedLoader(SourceFileLoader):
    """Compiles the changed source under the name of the original file, without reading or writing byte code."""

    patch: Patch

    def get_code(self, fullname: str) -> CodeType:
        source = self.patch.source()
        assert source is not None, f"renew the patch of {self.patch.file}"
        return compile(source, self.path, "exec", dont_inherit=True)


class PatchFinder:
    """Finds one module with changed source; to be the first of `sys.meta_path` before structopt is imported.

    Machine code in numba's cache stays valid: only lines outside of kernels are changed.
    """

    def __init__(self, patch: Patch) -> None:
        self._patch = patch
        self._name = ("structopt/" + patch.file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        loader = _PatchedLoader(name, str(ROOT / "structopt" / self._patch.file))
        loader.patch = self._patch
        return importlib.util.spec_from_file_location(name, loader.path, loader=loader)

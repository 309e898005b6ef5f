"""Every public name is on a page of the API, and every name on a page is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import structopt as so

PAGES = Path(__file__).parents[1] / "docs" / "api"
MODULES = """
algorithms.base backends data errors estimators features losses metrics norms plot recognize.records risks
risks.regularizers search structures surrogates testing train
""".split()  # noqa: SIM905

pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason="the pages are beside the tests in a checkout only")


def _documented() -> dict[str, Any]:
    """The objects that the pages name, by full name."""
    found = {}
    for page in sorted(PAGES.glob("*.md")):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = match[1]
            elif match := re.match(r"(?:   |\.\. auto(?:class|function):: )(\w+)$", line):
                found[f"{module}.{match[1]}"] = getattr(importlib.import_module(module), match[1])
    return found


@pytest.fixture(scope="module")
def documented() -> list[Any]:
    return list(_documented().values())


@pytest.mark.parametrize("module", ["", *MODULES])
def test_every_public_name_is_on_a_page(module, documented):
    package = importlib.import_module(f"structopt.{module}".rstrip("."))
    public = {name: getattr(package, name) for name in package.__all__}
    objects = {name: item for name, item in public.items() if callable(item)}  # not modules, nor tables of constants
    missing = [name for name, item in objects.items() if not any(item is other for other in documented)]
    assert not missing, f"add {', '.join(missing)} of {package.__name__} to docs/api"


def test_every_module_is_checked():
    modules = {
        item.__name__.removeprefix("structopt.")
        for name in so.__all__
        if isinstance(item := getattr(so, name), ModuleType)
    }
    assert modules <= set(MODULES)

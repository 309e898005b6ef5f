"""Every public name of `structopt.torch` is on its page, with its parameters documented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is an extra: make test-torch")

import structopt.torch

PAGE = Path(__file__).parents[2] / "docs" / "api" / "neural.md"


def test_every_name_is_on_the_page():
    if not PAGE.is_file():
        pytest.skip("the pages are beside the tests in a checkout only")
    listed = set(re.findall(r"^   structopt\.torch\.(\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == set(structopt.torch.__all__)


@pytest.mark.parametrize("name", structopt.torch.__all__)
def test_every_parameter_is_documented(name):
    item = getattr(structopt.torch, name)
    callables = [item]
    if inspect.isclass(item):
        if issubclass(item, Exception):
            return
        callables += [f for n, f in vars(item).items() if not n.startswith("_") and inspect.isfunction(f)]
    for function in callables:
        told = inspect.getdoc(function) or ""
        for parameter in inspect.signature(function).parameters:
            if parameter not in ("self", "arguments", "options"):
                assert re.search(rf"(^|, ){parameter}\b", told, re.MULTILINE), (function, parameter)

"""Parameters of the public interface: each is documented once, and stands on the page that lists them all."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"

spec = importlib.util.spec_from_file_location("docs_parameters", DOCS / "parameters.py")
assert spec is not None and spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

CALLABLES = {name: (sources, function) for name, sources, function in script.public_callables()}


@pytest.mark.parametrize("name", CALLABLES)
def test_every_parameter_is_documented_once(name):
    sources, function = CALLABLES[name]
    found = [script.sections(source.__doc__) for source in sources]
    own = script.documented(found[0].get("Parameters", []))
    assert not [parameter for parameter, texts in own.items() if len(texts) > 1], "documented twice"
    kinds = ("Parameters", "Attributes") if inspect.isclass(sources[0]) else ("Parameters",)
    told = {parameter for part in found for kind in kinds for parameter in script.documented(part.get(kind, []))}
    assert not [parameter for parameter in script.parameters_of(function) if parameter not in told], "not documented"
    nothing = (None, "None", inspect.Signature.empty)
    if not inspect.isclass(sources[0]) and inspect.signature(function).return_annotation not in nothing:
        assert any({"Returns", "Yields"} & part.keys() for part in found), "it does not say what it returns"


def test_the_page_has_every_parameter_once():
    page = script.page()
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == script.meanings().keys()


def test_every_parameter_has_one_meaning():
    known = script.meanings()
    several = [name for name, (text, _) in known.items() if " / " in text or not text]
    assert not several, "docstrings say it in several ways, or not at all: add a sentence to docs/parameters.py"
    given = [script.COMMON, script.NOTATION, script.MEANINGS]
    assert sum(map(len, given)) == len({name for part in given for name in part})
    assert not [name for part in given for name in part if name not in known], "no such parameter any more"


@pytest.mark.parametrize(
    "other",
    # Names that other libraries, or earlier versions, have for what is called something else here.
    [
        "bias",
        "fit_intercept",
        "relaxed",
        "max_iter",
        "n_iter",
        "timeout",
        "time_limit",
        "seed",
        "eps_gap",
    ],
)
def test_one_name_for_one_thing(other):
    # A batch search takes planes of the (h, g) kind, and its result counts rounds: other things than those above.
    names = [name for name in CALLABLES if name not in ("search.search_batch", "search.BatchResult")]
    assert not [name for name in names if other in script.parameters_of(CALLABLES[name][1])]

"""Makes ``api/parameters.md`` from the docstrings: every parameter of the public interface once, and who takes it.

``python docs/parameters.py`` writes the page anew; so does every build of the documentation.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import structopt as so

__all__ = ["COMMON", "documented", "page", "public_callables", "sections"]

PAGE = Path(__file__).parent / "api" / "parameters.md"

#: Parameters that mean the same wherever they stand; in the docstrings one may be told more, and nothing else.
COMMON = {
    "X": "The inputs: a matrix with a row per example, or a list (see the structure).",
    "absolute_tol": "Absolute gap at which to stop; only where there is no scale to be relative to.",
    "average": "Which weights stochastic trainers return: the weighted mean of the iterates, or the last.",
    "batch_size": "Examples per stochastic step.",
    "cache": "Labels known from before, which a search looks at first.",
    "cached_labels": "Labels that a trainer keeps per example, as cutting planes.",
    "cached_passes": "Passes over the cached labels after each pass over the data.",
    "callback": "Called with the result so far after each pass; a true answer stops.",
    "certify": "Whether a stochastic trainer spends one more pass on the objective of its result.",
    "checkpoint": "File that is written while training, and resumed from if it exists.",
    "dtype": "float64 or float32, of large arrays of weights.",
    "integral": 'Whether labels are integral or points of the relaxation (`"relax"`).',
    "intercept": "Append a constant feature, whose weight is the intercept.",
    "intercept_scaling": "The value of that feature: the larger, the less the intercept is regularised.",
    "max_bytes": "Refuse a file that unpacks to more.",
    "max_cuts": "Cutting planes of the whole risk that are kept.",
    "max_memory": "Bytes; training that would need more is refused.",
    "max_passes": "Passes over the data at most; the trainer's own limit by default.",
    "max_programs": "Programs that one prediction may take.",
    "max_queries": "Queries of the λ-oracle at most.",
    "max_rounds": "Training runs at most, of an estimator that alternates.",
    "max_seconds": "Seconds at most; no limit by default.",
    "n_jobs": "Threads over examples; -1: one for each core.",
    "random_state": "Seed of whatever is random.",
    "regularizer": "Ω of the objective `lam * Ω(w) + risk(w)`; L2 by default.",
    "risk": "What is minimised beside the regulariser.",
    "rtol": "Relative gap at which an inner search or program may stop; 0: as far as float64 goes.",
    "sample_weight": "Weights of the examples: 2 is an example given twice, 0 one left out.",
    "search": "How most violated labels are found.",
    "solver": '`"auto"`, a profile, the path of a profile, or a backend.',
    "support": "Whether all weights are kept, or those of features that a node has met.",
    "surrogate": "ψ(h, g): a name or a `Surrogate`.",
    "tol": "Relative gap, certified, at which training stops. (Of a `LabelSpace`: by how much a row may be missed.)",
    "trainer": '`"auto"`, a name of `so.train.names()`, or a function of your own.',
    "verbose": "Show one progress bar with the certified gap.",
    "w0": "Weights at which the first cutting plane is taken.",
    "warm": "Where the last run of a trainer ended, and where this one begins.",
    "warm_start": "Begin where the last fit of this estimator ended.",
}


def public_callables() -> Iterator[tuple[str, list[Any], Callable[..., Any]]]:
    """Name, the objects with docstrings and the one with the signature of everything public that is called.

    A method that overrides another says what it does, and not again what it takes: both have docstrings.
    """
    seen: set[int] = set()
    modules = [name for name in so.__all__ if isinstance(getattr(so, name), types.ModuleType)]
    for prefix, owner in [("", so), *((f"{name}.", getattr(so, name)) for name in modules)]:
        for name in getattr(owner, "__all__", []):
            found = getattr(owner, name)
            if not getattr(found, "__module__", "").startswith("structopt") or id(found) in seen or not callable(found):
                continue
            seen.add(id(found))
            if not inspect.isclass(found):
                yield prefix + name, [found], found
                continue
            if issubclass(found, BaseException):
                continue
            if "__init__" in vars(found):
                yield prefix + name, [found], found.__init__  # type: ignore[misc]
            for method, value in _own(found).items():
                function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if not method.startswith("_") and inspect.isfunction(function):
                    told = [vars(base)[method] for base in found.__mro__ if method in vars(base)]
                    yield f"{prefix}{name}.{method}", told, function


def _own(found: type) -> dict[str, Any]:
    """What stands in a class, and in the parts of it that are files beside it (`structopt.oracle.sums`)."""
    parts = [base for base in found.__mro__[1:] if found in (so.Model, so.Oracle) and base.__module__ != "builtins"]
    return {name: value for part in reversed([found, *parts]) for name, value in vars(part).items()}


def sections(docstring: str | None) -> dict[str, list[str]]:
    """The sections of a numpydoc docstring, as lines."""
    lines = inspect.cleandoc(docstring or "").split("\n")
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() and re.fullmatch("-{3,}", below.strip()):
            current = found.setdefault(line.strip(), [])
        elif not re.fullmatch("-{3,}", line.strip()):
            current.append(line)
    return found


def documented(lines: list[str]) -> dict[str, list[str]]:
    """What a section says about each name: its descriptions, one for each time that it stands there."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    text: list[str] = []
    for line in [*lines, "end"]:
        if line and not line[0].isspace():
            for name in names:
                found.setdefault(name, []).append(" ".join(text))
            names, text = [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")], []
        elif line.strip():
            text.append(line.strip())
    return found


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def page() -> str:
    """The page as Markdown."""
    takers: dict[str, list[str]] = {}
    meanings: dict[str, dict[str, list[str]]] = {}
    for name, told_by, function in public_callables():
        told: dict[str, list[str]] = {}
        for found in (sections(source.__doc__) for source in reversed(told_by)):
            told |= documented(found.get("Attributes", [])) | documented(found.get("Parameters", []))
        for parameter in parameters_of(function):
            takers.setdefault(parameter, []).append(name)
            text = _sentence((told.get(parameter) or [""])[0])
            meanings.setdefault(parameter, {}).setdefault(text, []).append(name)
    lines = [
        "# Parameters",
        "",
        "Every parameter of the public interface, once, with its meaning and who takes it. The page is made from the",
        "docstrings by `docs/parameters.py`.",
        "",
        "## The same everywhere",
        "",
        "| parameter | meaning | taken by |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {COMMON[name]} | {_listed(takers[name])} |"
        for name in sorted(COMMON, key=str.lower)
        if name in takers
    ]
    lines += ["", "## Of one family or one function", "", "| parameter | meaning, and who takes it |", "|---|---|"]
    for name in sorted(takers.keys() - COMMON.keys(), key=lambda name: (name.lower(), name)):
        silent = meanings[name].get("", [])
        cells = [f"{text} {_listed(owners)}" for text, owners in meanings[name].items() if text]
        if silent:
            cells.append(_listed(silent))
        lines.append(f"| `{name}` | {'<br>'.join(cells)} |")
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    """The first sentence, fit for a cell of a table; none where the text refers to another docstring."""
    first = re.split(r"(?<=[.;:])\s", text)[0].strip().rstrip(";:").replace("|", "\\|").replace("``", "`")
    return "" if re.match(r"(As|See) ", first) else first


def _listed(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(f"`{name}`" for name in names[:limit]) + more


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

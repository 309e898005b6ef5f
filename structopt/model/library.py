"""Declared models by name or file: those of ``models/``, and a user's own.

A model file is Python with a docstring, a function ``model()`` (or a constant ``MODEL``) that gives a `Model`, and
``data(n, seed)`` that gives a small data set ``(X, Y)``; or a space that any modelling tool wrote, ``.mps`` or ``.lp``.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.features import Linear
from structopt.losses import Hamming
from structopt.model import Model
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["LoadedModel", "available_models", "load_model"]

_PACKAGE = Path(__file__).resolve().parent.parent
#: Package data after an install, the top of the checkout during development.
_FOLDERS = (_PACKAGE / "_models", _PACKAGE.parent / "models")
_SPACES = (".mps", ".lp", ".mps.gz", ".lp.gz")
# Features of the inputs that are drawn for a file that declares a space and nothing else.
_DRAWN_FEATURES = 5


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model file: its name without suffix, what it declares, where it is, and its docstring."""

    name: str
    model: Model
    path: Path
    doc: str
    _data: Callable[..., tuple[Any, Any]] | None = field(default=None, repr=False)

    def data(self, n: int = 100, seed: int = 0) -> tuple[Any, Any]:
        """The file's own generated data set of `n` examples."""
        if self._data is None:
            raise DeclarationError(f"{self.path.name} has no data set; write a function data(n, seed) -> (X, Y) in it.")
        if n < 1:
            raise DeclarationError(f"A data set needs at least one example, got n = {n}.")
        return self._data(n, seed)

    def __repr__(self) -> str:
        return f"<LoadedModel {self.name}: {_first_line(self.doc)}>"


def available_models() -> dict[str, str]:
    """The models that come with structopt: name and first line of the docstring.

    Returns
    -------
    dict of str to str
        One line about each model, by its name.

    Examples
    --------
    >>> available_models()["graph_matching"]
    'Graph matching: which node of one picture is which node of the other.'
    """
    return {path.stem: _first_line(_docstring(path)) for path in _shipped()}


@checked
def load_model(name_or_path: str | os.PathLike[str]) -> LoadedModel:
    """The model of this name in ``models/``, or in a user's file: a declaration, with nothing learned yet.

    A Python file is run, so that it must be one that you trust. Trained and saved models are read by
    `structopt.load`, which runs nothing.

    Parameters
    ----------
    name_or_path : str or path
        A name from `available_models`; the path of a Python file with ``model()`` or ``MODEL``, and ``data(n, seed)``;
        or a space as ``.mps`` or ``.lp``. Every variable of such a space is scored by a weight vector and an intercept
        of its own, the loss is the number of wrong 0/1 variables, and the data set has the labels that random weights
        prefer.

    Returns
    -------
    LoadedModel

    Examples
    --------
    >>> loaded = load_model("named_entities")
    >>> loaded.model
    <Chain of 5 states...>
    >>> X, Y = loaded.data(n=20, seed=0)
    >>> len(Y)
    20
    """
    path = _find(name_or_path)
    if path.name.lower().endswith(_SPACES):
        return _from_space(path)
    return _from_python(path)


# ---- files ---------------------------------------------------------------------------------------


def _shipped() -> list[Path]:
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return sorted(folder.glob("*.py")) if folder is not None else []


def _find(name_or_path: str | os.PathLike[str]) -> Path:
    text = os.fspath(name_or_path)
    path = Path(text)
    is_file = path.suffix == ".py" or path.name.lower().endswith(_SPACES)
    if is_file or path.name != text:
        if not path.is_file():
            raise DeclarationError(f"There is no model file at {text!r}.")
        if not is_file:
            raise DeclarationError(f"A model file ends in .py, {', '.join(_SPACES)}; got {path.name!r}.")
        return path
    known = {path.stem: path for path in _shipped()}
    if text in known:
        return known[text]
    near = difflib.get_close_matches(text, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise DeclarationError(
        f"There is no model {text!r}.{hint} Choose one of {', '.join(known)}, or give the path of a .py, .mps or .lp."
    )


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _first_line(doc: str) -> str:
    return doc.strip().splitlines()[0] if doc.strip() else "(no docstring)"


# ---- Python files --------------------------------------------------------------------------------


def _from_python(path: Path) -> LoadedModel:
    module = _execute(path)
    declared = getattr(module, "model", None) or getattr(module, "MODEL", None)
    if declared is None:
        raise DeclarationError(f"{path.name} declares no model; write a function model() or a constant MODEL in it.")
    found = declared() if callable(declared) and not isinstance(declared, Model) else declared
    if not isinstance(found, Model):
        raise DeclarationError(
            f"The model of {path.name} is a {type(found).__name__}, not a structopt.Model; compose one with "
            "so.Model(space, features=..., loss=...), where space is a LabelSpace (from_pyomo, from_pulp, read)."
        )
    data = getattr(module, "data", None)
    if data is not None and not callable(data):
        raise DeclarationError(f"data in {path.name} must be a function data(n, seed) -> (X, Y).")
    return LoadedModel(path.stem, found, path, module.__doc__ or "", data)


def _execute(path: Path) -> ModuleType:
    """Run the file again, so that changes are seen, and register it, so that its classes can be pickled."""
    whole = path.resolve()
    name = f"_structopt_model_{whole.stem}_{hashlib.sha256(os.fsencode(whole)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, whole)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise DeclarationError(f"{path.name} does not run: {type(error).__name__}: {error}") from error
    return module


# ---- spaces --------------------------------------------------------------------------------------


def _from_space(path: Path) -> LoadedModel:
    space = LabelSpace.read(path)
    if not space.n_variables:
        raise DeclarationError(f"{path.name} has no variables.")
    if len(space.block_names) > 1:
        space = _one_block(space)
    counted = space.compiled.is_binary
    loss = Hamming(weights=counted) if counted.any() else None
    model = Model(space, {space.block_names[0]: Linear(intercept=True)}, loss)
    suffix = next(suffix for suffix in _SPACES if path.name.lower().endswith(suffix))
    doc = f"The space of {path.name}, with a weight vector for every variable."
    return LoadedModel(path.name[: -len(suffix)], model, path, doc, _Drawn(model))


def _one_block(space: LabelSpace) -> LabelSpace:
    """All variables as one array ``z``, in their order: a label of a file's space is its whole point."""
    brackets = str.maketrans("[],", "();")
    names = [f"z[{name.translate(brackets)}]" for name in space.variable_names]
    return LabelSpace.from_compiled(replace(space.compiled, variable_names=names))


class _Drawn:
    """Inputs from a normal distribution with the labels that random weights prefer."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, n: int, seed: int) -> tuple[FloatArray, FloatArray]:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, _DRAWN_FEATURES))
        w = rng.normal(size=self.model.n_weights(X[0]))
        return X, np.array([self.model.predict(w, x) for x in X])

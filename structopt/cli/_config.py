"""The configuration of a training run: TOML, checked key by key before anything is read."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structopt.cli._estimators import keys_of, recipe_of
from structopt.errors import DeclarationError

__all__ = ["Config", "check_keys", "read_config"]

_SECTIONS: dict[str, tuple[type, ...]] = {"output": (str,), **dict.fromkeys(("model", "data", "train"), (dict,))}
_TYPES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a section",
}
#: Keys of [data] that are not options of a reader, and what they are.
_DATA: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("train", "format", "sequences", "query"), (str,)),
    "test": (str, int, float),
    **dict.fromkeys(("generate", "seed"), (int,)),
    "missing": (int, float),
    "scale": (bool, str),
}
_READERS: dict[str, tuple[type, ...]] = {
    "labels": (int, str, list),
    "ignore": (list,),
    **dict.fromkeys(("dag", "zero_based"), (bool,)),
    "delimiter": (str,),
    **dict.fromkeys(("n_features", "word"), (int,)),
}


@dataclass
class Config:
    """A training run.

    Attributes
    ----------
    where : str
        The file's name, for messages.
    estimator : str
        Name of its class.
    model : dict
        ``name``, ``path`` or ``structure``, and the structure's arguments; empty for estimators without a model.
    data : dict
        Files or ``generate``; paths are absolute.
    train : dict
        Parameters of the estimator.
    output : Path or None
    """

    where: str
    estimator: str
    model: dict[str, Any]
    data: dict[str, Any]
    train: dict[str, Any] = field(default_factory=dict)
    output: Path | None = None

    @property
    def source(self) -> str | None:
        """The model's name or file, or None if it is a structure."""
        return self.model.get("name") or self.model.get("path")

    @property
    def reader_options(self) -> dict[str, Any]:
        """What is needed to read another file of the same kind."""
        return {key: value for key, value in self.data.items() if key not in ("train", "test", "generate", "seed")}


def read_config(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read and check a configuration; its paths are relative to its own folder. `overrides` replace keys of [train]."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no configuration {str(path)!r}.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DeclarationError(f"{path.name} is not UTF-8 text; save it as UTF-8.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DeclarationError(f"{path.name} is not TOML: {error}.") from error
    check_keys(content, _SECTIONS, path.name)
    estimator, train = _check_train(content.get("train", {}), dict(overrides or {}), f"[train] of {path.name}")
    config = Config(
        path.name,
        estimator,
        content.get("model", {}),
        content.get("data", {}),
        train,
        _path(path, content.get("output")),
    )
    _check_model(config, path)
    _check_data(config, path)
    if "checkpoint" in train:
        train["checkpoint"] = _path(path, train["checkpoint"])
    return config


def _check_train(given: dict[str, Any], overrides: dict[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """The estimator's name and its parameters."""
    name = overrides.get("estimator", given.get("estimator", "StructuredSVM"))
    recipe_of(name, "--set" if "estimator" in overrides else where)
    known = keys_of(name)
    check_keys(given, known, f"{where} ({name})")
    check_keys(overrides, known, f"--set ({name})")
    return name, {key: value for key, value in (given | overrides).items() if key != "estimator"}


def _check_model(config: Config, path: Path) -> None:
    if recipe_of(config.estimator, config.where).wants != "model":
        if config.model:
            raise DeclarationError(
                f"[model] of {path.name}: {config.estimator} has no model to declare; its parameters belong to [train]."
            )
        return
    ways = [key for key in ("name", "path", "structure") if key in config.model]
    if len(ways) != 1:
        raise DeclarationError(
            f"[model] of {path.name} needs one of name = a model of 'structopt models', path = a .py, .mps or .lp, "
            f"structure = a class of structopt.structures; it has {' and '.join(ways) or 'none'}."
        )
    if ways != ["structure"]:
        check_keys(config.model, dict.fromkeys(ways, (str,)), f"[model] of {path.name}")
    if "path" in config.model:
        config.model["path"] = str(_path(path, config.model["path"]))


def _check_data(config: Config, path: Path) -> None:
    data = config.data
    check_keys(data, _DATA | _READERS, f"[data] of {path.name}")
    if ("train" in data) == ("generate" in data):
        raise DeclarationError(
            f"[data] of {path.name} needs train = a file, or generate = a number of the model's own."
        )
    if "generate" in data and config.source is None:
        raise DeclarationError(f"[data] of {path.name}: generate is for models with a data set of their own.")
    for key in ("train", "test"):
        if isinstance(data.get(key), str):
            data[key] = _path(path, data[key])
    if isinstance(data.get("labels"), str) and data["labels"].endswith(".xml"):
        data["labels"] = str(_path(path, data["labels"]))
    if data.get("scale", True) not in (True, False, "standard"):
        raise DeclarationError(
            f'[data] of {path.name}: scale is true, false or "standard" (mean 0, standard deviation 1), got '
            f"{data['scale']!r}."
        )
    fraction = data.get("test", 0.5)
    if not isinstance(fraction, Path) and not (isinstance(fraction, float) and 0 < fraction < 1):
        raise DeclarationError(
            f"[data] of {path.name}: test is a file, or a fraction between 0 and 1; got {fraction!r}."
        )


def check_keys(given: Mapping[str, Any], known: Mapping[str, tuple[type, ...]], where: str) -> None:
    """Refuse an unknown key with the nearest known one, and a value of a wrong type."""
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}."
            raise DeclarationError(f"{where} has no key {key!r}; {hint}")
        # True is an int in Python, and no number here.
        if not isinstance(value, known[key]) or (isinstance(value, bool) and bool not in known[key]):
            kinds = " or ".join(_TYPES[kind] for kind in known[key] if kind is not int or float not in known[key])
            raise DeclarationError(f"{where}: {key} must be {kinds}, got {value!r}.")


def _path(config: Path, given: str | None) -> Path | None:
    if given is None:
        return None
    return (config.parent / given).resolve()

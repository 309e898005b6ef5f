"""The configuration of a training run: TOML, checked key by key before anything is read."""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structopt.errors import DeclarationError

__all__ = ["TRAIN_KEYS", "Config", "check_keys", "read_config"]

_SECTIONS = ("output", "model", "data", "train")
#: Parameters of `StructuredSVM` that a configuration may set.
TRAIN_KEYS = (
    "surrogate search trainer lam tol n_jobs random_state max_passes max_seconds checkpoint".split()  # noqa: SIM905
)
#: Keys of [data] that are not options of a reader.
_DATA = ("train", "test", "format", "generate", "seed", "missing", "sequences")


@dataclass
class Config:
    """A training run.

    Attributes
    ----------
    model : dict
        ``name``, ``path`` or ``structure``, and the structure's arguments.
    data : dict
        Files or ``generate``; paths are absolute.
    train : dict
        Parameters of `StructuredSVM`.
    output : Path or None
    """

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


def read_config(path: str | Path) -> Config:
    """Read and check a configuration; its paths are relative to its own folder."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no configuration {str(path)!r}.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{path.name} is not TOML: {error}.") from error
    where = path.name
    check_keys(content, _SECTIONS, f"{where} has no section")
    for section in ("model", "data", "train"):
        if not isinstance(content.get(section, {}), dict):
            raise DeclarationError(f"{where}: {section} must be a section [{section}].")
    config = Config(
        content.get("model", {}), content.get("data", {}), content.get("train", {}), _path(path, content.get("output"))
    )
    _check_model(config, path)
    _check_data(config, path)
    check_keys(config.train, TRAIN_KEYS, f"[train] of {where} has no key")
    if "checkpoint" in config.train:
        config.train["checkpoint"] = _path(path, config.train["checkpoint"])
    return config


def _check_model(config: Config, path: Path) -> None:
    ways = [key for key in ("name", "path", "structure") if key in config.model]
    if len(ways) != 1:
        raise DeclarationError(
            f"[model] of {path.name} needs one of name = a model of 'structopt models', path = a .py, .mps or .lp, "
            f"structure = a class of structopt.structures; it has {' and '.join(ways) or 'none'}."
        )
    if ways != ["structure"]:
        check_keys(config.model, ways, f"[model] of {path.name} has no key")
    if "path" in config.model:
        config.model["path"] = str(_path(path, config.model["path"]))


def _check_data(config: Config, path: Path) -> None:
    from structopt.data.reading import FORMATS

    data = config.data
    options = {name for reader, _ in FORMATS.values() for name in list(inspect.signature(reader).parameters)[1:]}
    check_keys(data, [*_DATA, *sorted(options)], f"[data] of {path.name} has no key")
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
    fraction = data.get("test", 0.5)
    if not isinstance(fraction, Path) and not (isinstance(fraction, float) and 0 < fraction < 1):
        raise DeclarationError(
            f"[data] of {path.name}: test is a file, or a fraction between 0 and 1; got {fraction!r}."
        )


def check_keys(given: Iterable[str], known: Iterable[str], complaint: str) -> None:
    """Refuse an unknown key with the nearest known one."""
    known = list(known)
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}."
            raise DeclarationError(f"{complaint} {key!r}; {hint}")


def _path(config: Path, given: Any) -> Path | None:
    if given is None:
        return None
    if not isinstance(given, str):
        raise DeclarationError(f"{config.name}: a path is a string, got {given!r}.")
    return (config.parent / given).resolve()

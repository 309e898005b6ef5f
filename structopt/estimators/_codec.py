"""Values as JSON and arrays: numbers, names, containers, matrices, training results and structopt's own objects."""

from __future__ import annotations

import importlib
import inspect
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError, StructoptError
from structopt.hierarchy import Hierarchy
from structopt.losses import TaskLoss
from structopt.model import Model
from structopt.ranking_measures import RankingMeasure
from structopt.structures._sequences import Rules
from structopt.surrogates.base import Surrogate
from structopt.train.regularizers import Regularizer
from structopt.train.result import History, TrainResult

__all__ = ["Decoder", "Encoder", "NotSavable"]

# Objects that are their constructor's arguments.
_DECLARED = (Model, TaskLoss, Surrogate, RankingMeasure, Regularizer)

# Where a family keeps the argument `loss`, if not under its own name.
_LOSS_AT = ("_kind", "_position_loss", "task_loss", "_task", "_loss")

# Fields of a TrainResult beside its history.
_RESULT = ("w", "objective", "lower_bound", "gap", "stopped", "tol", "trainer", "info")


class NotSavable(Exception):
    """A value is neither data nor an object that its constructor's arguments describe."""


class Encoder:
    """Turn values into JSON; arrays are put aside under names.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = Encoder()
    >>> encoder.encode({"a": (1, np.zeros(2))}, "x")
    {'dict': [['a', {'tuple': [1, {'array': 'a0'}]}]]}
    >>> encoder.arrays
    {'a0': array([0., 0.])}
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def encode(self, value: Any, where: str) -> Any:
        """Return JSON for `value`; `where` names it in errors."""
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), where)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, Rules):
            return {"rules": [self._array(part, where) for part in value]}
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._container(value, where)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if sp.issparse(value):
            matrix = sp.csr_array(value)
            parts = [self._array(part, where) for part in (matrix.data, matrix.indices, matrix.indptr)]
            return {"csr": [*parts, list(matrix.shape)]}
        if isinstance(value, TrainResult):
            fields = {name: self.encode(getattr(value, name), f"{where}.{name}") for name in _RESULT}
            history = {name: self._array(column, where) for name, column in value.history.to_arrays().items()}
            return {"result": [fields, history]}
        if isinstance(value, Hierarchy):
            names = [self.encode(name, f"{where}.nodes") for name in value.nodes]
            return {"hierarchy": [names, self._array(value.parent, where), self._array(value.child, where)]}
        return {"declared": self._declared(value, where)}

    def _array(self, array: np.ndarray[Any, Any], where: str) -> dict[str, Any]:
        if array.dtype == object:
            return {"objects": [[self.encode(item, where) for item in array.ravel()], list(array.shape)]}
        if array.dtype.hasobject:
            raise NotSavable(f"{where} is an array of dtype {array.dtype}")
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        return {"array": name}

    def _container(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            return {"dict": [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]}
        if type(value) not in (list, tuple, set, frozenset):
            raise NotSavable(f"{where} is a {type(value).__name__}")
        items = [self.encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
        return items if isinstance(value, list) else {type(value).__name__: items}

    def _declared(self, value: Any, where: str) -> list[Any]:
        cls = type(value)
        if not (isinstance(value, _DECLARED) and cls.__module__.partition(".")[0] == "structopt") or cls is Model:
            raise NotSavable(f"{where} is a {cls.__name__}, which only the code that made it can rebuild")
        arguments = {
            name: self.encode(argument, f"{where}.{name}") for name, argument in _arguments(value, where).items()
        }
        return [cls.__module__, cls.__qualname__, arguments]


class Decoder:
    """Turn the JSON of an `Encoder` back into values.

    Examples
    --------
    >>> Decoder({}).decode({"tuple": [1, {"float": "inf"}]})
    (1, inf)
    """

    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.arrays = arrays

    def decode(self, value: Any) -> Any:
        """Return the value that was encoded."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        return getattr(self, f"_{kind}")(content)

    def _float(self, content: str) -> float:
        return float(content)

    def _array(self, content: str) -> Any:
        return self.arrays[content]

    def _scalar(self, content: Any) -> Any:
        return self.decode(content)[()]

    def _objects(self, content: Any) -> Any:
        array = np.empty(len(content[0]), dtype=object)
        array[:] = [self.decode(item) for item in content[0]]
        return array.reshape(content[1])

    def _tuple(self, content: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in content)

    def _rules(self, content: list[Any]) -> Rules:
        return Rules(*self._tuple(content))

    def _set(self, content: list[Any]) -> set[Any]:
        return set(self._tuple(content))

    def _frozenset(self, content: list[Any]) -> frozenset[Any]:
        return frozenset(self._tuple(content))

    def _dict(self, content: list[Any]) -> dict[Any, Any]:
        return {self.decode(k): self.decode(v) for k, v in content}

    def _csr(self, content: list[Any]) -> sp.csr_array:
        return sp.csr_array(tuple(self.decode(part) for part in content[:3]), shape=tuple(content[3]))

    def _result(self, content: list[Any]) -> TrainResult:
        fields, history = content
        columns = {name: self.decode(column) for name, column in history.items()}
        return TrainResult(
            history=History.from_arrays(columns), **{name: self.decode(value) for name, value in fields.items()}
        )

    def _hierarchy(self, content: list[Any]) -> Hierarchy:
        names, parent, child = content
        hierarchy = Hierarchy.__new__(Hierarchy)
        hierarchy._set(tuple(self.decode(name) for name in names), self.decode(parent), self.decode(child))
        return hierarchy

    def _declared(self, content: list[Any]) -> Any:
        module, name, arguments = content
        if module.partition(".")[0] != "structopt":
            raise DeclarationError(f"The file names {module}.{name}, which is not a class of structopt.")
        cls = getattr(importlib.import_module(module), name)
        if not (isinstance(cls, type) and issubclass(cls, _DECLARED)):
            raise DeclarationError(f"The file names {module}.{name}, which is not a class of declarations.")
        return _build(cls, {name: self.decode(value) for name, value in arguments.items()})


def _arguments(value: Any, where: str) -> dict[str, Any]:
    """Constructor arguments of a declared object, read from its attributes and tried on a copy."""
    kept, arguments = vars(value), {}
    for name, parameter in inspect.signature(type(value)).parameters.items():
        places = [name, *(_LOSS_AT if name == "loss" else (f"_{name}",))]
        place = next((place for place in places if place in kept), None)
        if place is not None:
            arguments[name] = kept[place]
        elif parameter.default is inspect.Parameter.empty:
            raise NotSavable(f"{where} is a {type(value).__name__} that does not keep its argument {name!r}")
    try:
        same = repr(_build(type(value), arguments)) == repr(value)
    except (StructoptError, TypeError, ValueError) as error:
        raise NotSavable(f"{where} is a {type(value).__name__} whose arguments do not rebuild it ({error})") from None
    if not same:
        raise NotSavable(f"{where} is a {type(value).__name__} that was changed after it was declared")
    return arguments


def _build(cls: Any, arguments: Mapping[str, Any]) -> Any:
    positional = [
        name
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and name in arguments
    ]
    named = {name: value for name, value in arguments.items() if name not in positional}
    return cls(*(arguments[name] for name in positional), **named)

"""Values as JSON and arrays: numbers, names, containers, matrices, training results and structopt's own objects.

A file holds data only. What `Decoder` builds are plain values and objects of the classes in `_registry`, by their
constructors; the text of a file never reaches ``import`` or ``getattr``, and what it says is checked before compiled
code sees it.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt import features, losses, structures, surrogates
from structopt.backends.portable import check_portable, portable
from structopt.checks import parameters_of
from structopt.errors import DeclarationError, StructoptError
from structopt.features import Term
from structopt.hierarchy import Hierarchy
from structopt.losses import TaskLoss, ranking_measures
from structopt.losses.ranking_measures import RankingMeasure
from structopt.losses.variables import WrongEdges
from structopt.model import Model
from structopt.risks import regularizers
from structopt.risks.regularizers import Regularizer
from structopt.space import LabelSpace
from structopt.space.values import space_from_values, space_values
from structopt.structures.arborescence import WrongHeads
from structopt.structures.assignment import RowLoss
from structopt.structures.flow import AbsoluteFlowLoss, SquaredFlowLoss
from structopt.structures.labelled_arborescence import WrongArcs
from structopt.structures.matching import WrongPartners
from structopt.structures.sequences import EntityErrors, PositionLoss, Rules
from structopt.surrogates.base import Surrogate
from structopt.train.result import History, TrainResult

__all__ = ["Decoder", "Encoder", "NotSavable", "checked_solver"]

# Objects that are their constructor's arguments.
_DECLARED = (Model, Term, TaskLoss, Surrogate, RankingMeasure, Regularizer)

# Where a family keeps the argument `loss`, if not under its own name.
_LOSS_AT = ("_kind", "_position_loss", "task_loss", "_task", "_loss")

# Arguments of `Model` that are functions, by where it keeps them, and how to do without.
_FUNCTIONS = {
    "_encode": "encode=: give labels as the array of the first block, or as a dict of all blocks, and leave it out",
    "_decode": "decode=: predictions then have the form of the labels given to fit; leave it out",
    "_key": "key=: it belongs to a space that depends on the input",
}

# Fields of a TrainResult beside its history.
_RESULT = ("w", "objective", "lower_bound", "gap", "stopped", "tol", "trainer", "info")


@cache
def _registry() -> dict[str, type]:
    """The classes that a file may name: those that structopt offers, and the losses its structures make."""
    modules = (structures, losses, surrogates, features, ranking_measures, regularizers)
    offered = [getattr(module, name) for module in modules for name in module.__all__]
    classes = [cls for cls in offered if isinstance(cls, type) and issubclass(cls, _DECLARED)]
    classes += [PositionLoss, EntityErrors, RowLoss, AbsoluteFlowLoss, SquaredFlowLoss]
    classes += [WrongEdges, WrongHeads, WrongArcs, WrongPartners]
    return {cls.__qualname__: cls for cls in classes if not inspect.isabstract(cls)}


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
        #: Sentences on settings of solvers that stay behind.
        self.left_out: list[str] = []

    def encode(self, value: Any, where: str) -> Any:
        """Return JSON for `value`; `where` names it in errors."""
        if isinstance(value, np.float64):
            return {"float64": repr(float(value))}
        if isinstance(value, np.generic):  # before the other types: a NumPy text is a `str`, too
            return self._scalar(value, where)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
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
        if isinstance(value, LabelSpace):
            if value.compiled.separations:
                raise NotSavable(f"{where} has lazy rows, which a function finds, and a file holds data only")
            return {"space": {name: self.encode(part, f"{where}.{name}") for name, part in space_values(value).items()}}
        if type(value) is Model:
            return {"model": self._model(value, where)}
        return {"declared": self._declared(value, where)}

    def _array(self, array: np.ndarray[Any, Any], where: str) -> dict[str, Any]:
        if array.dtype == object:
            return {"objects": [[self.encode(item, where) for item in array.ravel()], list(array.shape)]}
        if array.dtype.hasobject:
            raise NotSavable(f"{where} is an array of dtype {array.dtype}")
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        return {"array": name}

    def _scalar(self, value: np.generic, where: str) -> dict[str, Any]:
        array = np.asarray(value)
        if array.dtype.kind in "SU" and array[()] != value:
            raise NotSavable(f"{where} is the NumPy text {value!r}, whose last zero bytes an array drops")
        return {"scalar": self._array(array, where)}

    def _container(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            return {"dict": [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]}
        if type(value) not in (list, tuple, set, frozenset):
            raise NotSavable(f"{where} is a {type(value).__name__}")
        items = [self.encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
        return items if isinstance(value, list) else {type(value).__name__: items}

    def _model(self, model: Model, where: str) -> dict[str, Any]:
        """A composed model: its space whole, its features and losses, and what of the solver may travel."""
        space = model._declared
        if space is None:
            raise NotSavable(
                f"{where}.space is a function of the input, and a file holds data only; declare one LabelSpace, or use "
                "a family of structopt.structures"
            )
        for name, cure in _FUNCTIONS.items():
            if getattr(model, name) is not None:
                raise NotSavable(f"{where}.{name[1:]} is a function, and a file holds data only ({cure})")
        loss = dict(model._loss) if isinstance(model._loss, Mapping) else model._loss
        arguments = {
            "space": space,
            "features": model.features,
            "loss": loss,
            "integral": model.integral,
            **self.solver({"solver": model.solver, "options": model.options}, where),
        }
        return {name: self.encode(argument, f"{where}.{name}") for name, argument in arguments.items()}

    def solver(self, arguments: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The same arguments with `solver` and `options` as a file may hold them; what is left out is noted."""
        kept = dict(arguments)
        if not kept.keys() & {"solver", "options"}:
            return kept
        solver, options, left_out = portable(kept.get("solver"), kept.get("options"))
        if kept.get("solver") is not None:
            kept["solver"] = solver
        if kept.get("options") is not None:
            kept["options"] = options
        self.left_out += [f"{where}: {text}" for text in left_out]
        return kept

    def _declared(self, value: Any, where: str) -> list[Any]:
        cls = type(value)
        if _registry().get(cls.__qualname__) is not cls:
            if callable(value) and not isinstance(value, type):
                raise NotSavable(f"{where} is a function ({cls.__name__}), and a file holds data only")
            raise NotSavable(f"{where} is a {cls.__name__}, which only the code that made it can rebuild")
        found = self.solver(_arguments(value, where), where)
        arguments = {name: self.encode(argument, f"{where}.{name}") for name, argument in found.items()}
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
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "float": self._float,
            "float64": self._float64,
            "bytes": self._bytes,
            "array": self._array,
            "scalar": self._scalar,
            "objects": self._objects,
            "tuple": self._tuple,
            "rules": self._rules,
            "set": self._set,
            "frozenset": self._frozenset,
            "dict": self._dict,
            "csr": self._csr,
            "result": self._result,
            "hierarchy": self._hierarchy,
            "space": self._space,
            "model": self._model,
            "declared": self._declared,
        }

    def decode(self, value: Any) -> Any:
        """Return the value that was encoded."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise DeclarationError(f"a value of the file has {len(value)} kinds at once")
        ((kind, content),) = value.items()
        if kind not in self._kinds:
            raise DeclarationError(f"the file holds a {kind!r:.60}, which is not a kind of value")
        return self._kinds[kind](content)

    def _float(self, content: str) -> float:
        return float(content)

    def _float64(self, content: str) -> np.float64:
        return np.float64(float(content))

    def _bytes(self, content: str) -> bytes:
        return bytes.fromhex(content)

    def _array(self, content: str) -> Any:
        return self.arrays[content]

    def _scalar(self, content: Any) -> Any:
        return self.decode(content)[()]

    def _objects(self, content: Any) -> Any:
        items = [self.decode(item) for item in content[0]]
        return np.fromiter(items, dtype=object, count=len(items)).reshape(content[1])

    def _tuple(self, content: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in content)

    def _rules(self, content: list[Any]) -> Rules:
        transitions, initial = (np.asarray(part) for part in self._tuple(content))
        n = initial.size
        if transitions.dtype != np.bool_ or initial.dtype != np.bool_ or initial.shape != (n,):
            raise DeclarationError("rules of succession in the file are not truth values")
        if transitions.shape != (n, n):
            raise DeclarationError(f"rules of succession in the file have the shape {transitions.shape}")
        return Rules(transitions, initial)

    def _set(self, content: list[Any]) -> set[Any]:
        return set(self._tuple(content))

    def _frozenset(self, content: list[Any]) -> frozenset[Any]:
        return frozenset(self._tuple(content))

    def _dict(self, content: list[Any]) -> dict[Any, Any]:
        return {self.decode(k): self.decode(v) for k, v in content}

    def _csr(self, content: list[Any]) -> sp.csr_array:
        matrix = sp.csr_array(tuple(self.decode(part) for part in content[:3]), shape=tuple(content[3]))
        matrix.check_format(full_check=True)  # products with a matrix index memory by its entries
        return matrix

    def _result(self, content: list[Any]) -> TrainResult:
        fields, history = content
        columns = {name: self.decode(column) for name, column in history.items()}
        values = {name: self.decode(fields[name]) for name in _RESULT}
        if not isinstance(values["w"], np.ndarray) or not isinstance(values["info"], Mapping):
            raise DeclarationError("a training result of the file has no weights")
        return TrainResult(history=History.from_arrays(columns), **values)

    def _hierarchy(self, content: list[Any]) -> Hierarchy:
        names = tuple(self.decode(name) for name in content[0])
        parent, child = (np.asarray(self.decode(ends)) for ends in content[1:])
        sound = all(ends.dtype == np.int64 and ends.ndim == 1 for ends in (parent, child))
        if not sound or parent.shape != child.shape or not names or len(set(names)) != len(names):
            raise DeclarationError("a hierarchy of the file has no distinct nodes, or no arcs between them")
        if parent.size and not (parent.min() >= 0 and (parent < child).all() and child.max() < len(names)):
            raise DeclarationError("a hierarchy of the file has arcs that lead nowhere, or upwards")
        if np.unique(parent * len(names) + child).size != parent.size:
            raise DeclarationError("a hierarchy of the file has an arc twice")
        hierarchy = Hierarchy.__new__(Hierarchy)
        hierarchy._set(names, parent, child)
        return hierarchy

    def _space(self, content: dict[str, Any]) -> LabelSpace:
        return space_from_values({name: self.decode(part) for name, part in content.items()})

    def _model(self, content: dict[str, Any]) -> Model:
        arguments = checked_solver({name: self.decode(part) for name, part in content.items()}, "a model of the file")
        space, terms, loss = (arguments.pop(name) for name in ("space", "features", "loss"))
        given = list(loss.values()) if isinstance(loss, dict) else [loss] * (loss is not None)
        sound = isinstance(space, LabelSpace) and isinstance(terms, dict) and arguments.keys() <= _SOLVING
        sound &= all(isinstance(term, Term) for term in terms.values()) and all(isinstance(x, TaskLoss) for x in given)
        if not sound or arguments.get("integral") not in ("auto", "relax", "force"):
            raise DeclarationError("a model of the file is not made of a space, features and losses")
        return Model(space, terms, loss, **arguments)

    def _declared(self, content: list[Any]) -> Any:
        module, name, arguments = content
        cls = _registry().get(name) if isinstance(name, str) else None
        if cls is None:
            raise DeclarationError(f"the file names {module}.{name}, which is not a class that it may name")
        decoded = {name: self.decode(value) for name, value in arguments.items()}
        unknown = sorted(decoded.keys() - parameters_of(cls).keys())
        if unknown:
            raise DeclarationError(f"its {name} has arguments that this version does not know: {', '.join(unknown)}")
        return _build(cls, checked_solver(decoded, f"{name} of the file"))


#: Arguments of a model that say how it is solved.
_SOLVING = {"solver", "options", "integral"}


def checked_solver(arguments: dict[str, Any], where: str) -> dict[str, Any]:
    """The same arguments; refused if `solver` or `options` name what a file may not choose."""
    if arguments.get("solver") is not None or arguments.get("options") is not None:
        check_portable(arguments.get("solver"), arguments.get("options"), where)
    return arguments


def _arguments(value: Any, where: str) -> dict[str, Any]:
    """Constructor arguments of a declared object, read from its attributes and tried on a copy."""
    kept, arguments = vars(value), {}
    for name, parameter in parameters_of(type(value)).items():
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
        for name, parameter in parameters_of(cls).items()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and name in arguments
    ]
    named = {name: value for name, value in arguments.items() if name not in positional}
    return cls(*(arguments[name] for name in positional), **named)

"""Validation of arguments: conversion to the annotated types, or an error that names the argument.

Most public functions and constructors are `checked`: what their annotations say of numbers, choices, classes and arrays
is tested before their first line runs, so that ``k=1.5`` or ``tol="low"`` ends in one sentence that names the argument,
and not in an error from somewhere inside. Estimators, whose parameters may be set at any time, do the same at the
start of ``fit`` (`check_parameters`). Conditions that an annotation cannot express (ranges, shapes, finite entries)
are checked inside the functions, by `floats`, `number`, `whole` and the others.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._archive import PARSER
from structopt._jit.csr import checked_csr
from structopt.errors import DeclarationError

__all__ = [
    "call_text",
    "check_parameters",
    "checked",
    "choice",
    "converted",
    "examples",
    "flag",
    "floats",
    "function",
    "hashable",
    "having",
    "instance",
    "integers",
    "listed",
    "n_threads",
    "number",
    "numeric",
    "reshaped",
    "same_length",
    "seed",
    "sequence",
    "shown",
    "walkable",
    "whole",
]

FloatArray = npt.NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

_WHOLE = (int, np.integer)
_REAL = (int, float, np.integer, np.floating)
_NO_NUMBER = (bool, np.timedelta64)  # subclasses of integers, both
_NUMERIC_KINDS = "fiub"
_BYTES = (bytes, bytearray)  # sequences of integers, to Python


def shown(value: Any) -> str:
    """How a message shows what it got: short, whatever ``repr`` does."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    if sp.issparse(value):
        return f"a sparse matrix of shape {value.shape}"
    try:
        text = repr(value)
    except Exception:
        text = "an object that cannot be shown"
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return text if value is None or isinstance(value, (*_REAL, str, bytes)) else f"{text} ({type(value).__name__})"


def parameters_of(cls: Any) -> Mapping[str, inspect.Parameter]:
    """Return the constructor's parameters by name."""
    with PARSER:
        return inspect.signature(cls).parameters


def call_text(made: object) -> str:
    """Return the call that makes an object: the required arguments, and others that differ from their defaults."""
    parts, values = list[str](), vars(made)
    for name, parameter in parameters_of(type(made)).items():
        value, required = values.get(name, parameter.default), parameter.default is parameter.empty
        is_array = hasattr(value, "shape")
        if name not in values or not (required or is_array or value != parameter.default):
            continue
        text = f"array of {value.size}" if is_array else f"{value!r:.100}"
        parts.append(text if required else f"{name}={text}")
    return f"{type(made).__name__}({', '.join(parts)})"


# ---- numbers -------------------------------------------------------------------------------------


def whole(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """An integer between bounds.

    Examples
    --------
    >>> whole("k", 3, low=0)
    3
    >>> whole("k", 1.5)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: k must be an integer, got 1.5.
    """
    if isinstance(value, _NO_NUMBER) or not isinstance(value, _WHOLE):
        raise DeclarationError(f"{name} must be an integer, got {shown(value)}.")
    if (low is not None and value < low) or (high is not None and value > high):
        raise DeclarationError(f"{name} must be {_between(low, high)}, got {value}.")
    return int(value)


def number(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    finite: bool = False,
) -> float:
    """A number, not NaN, at least `low` (or more than `above`) and at most `high`.

    Examples
    --------
    >>> number("tol", 1, above=0.0)
    1.0
    >>> number("tol", "low")
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: tol must be a number, got 'low'.
    """
    if isinstance(value, _NO_NUMBER) or not isinstance(value, _REAL):
        raise DeclarationError(f"{name} must be a number, got {shown(value)}.")
    try:
        found = float(value)
    except OverflowError:
        raise DeclarationError(f"{name} is an integer of {int(value).bit_length()} bits, beyond all floats.") from None
    if math.isnan(found):
        raise DeclarationError(f"{name} must be a number, got NaN.")
    if (low is not None and found < low) or (high is not None and found > high):
        raise DeclarationError(f"{name} must be {_between(low, high)}, got {value!r}.")
    if above is not None and not found > above:
        raise DeclarationError(f"{name} must be larger than {above:g}, got {value!r}.")
    if finite and math.isinf(found):
        raise DeclarationError(f"{name} must be finite, got {value!r}.")
    return found


def _between(low: float | None, high: float | None) -> str:
    least, most = (f"{end:g}" if isinstance(end, float) else str(end) for end in (low, high))
    if low is not None and high is not None:
        return f"between {least} and {most}"
    return f"at least {least}" if low is not None else f"at most {most}"


def choice(name: str, value: Any, options: Iterable[Any]) -> Any:
    """One of a few options, usually strings."""
    known = tuple(options)
    if not any(type(value) is type(option) or isinstance(value, type(option)) for option in known) or not any(
        isinstance(value, type(option)) and value == option for option in known
    ):
        listed_options = ", ".join(map(repr, known[:-1])) + (" or " if len(known) > 1 else "") + repr(known[-1])
        raise DeclarationError(f"{name} must be {listed_options}, got {shown(value)}.")
    return value


def instance(name: str, value: Any, kind: type | tuple[type, ...], wanted: str = "") -> Any:
    """An object of a class."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = wanted or " or ".join(_article(k.__name__) for k in kinds)
        got = f"the class {value.__name__} itself" if isinstance(value, type) else shown(value)
        raise DeclarationError(f"{name} must be {wanted}, got {got}.")
    return value


def having(name: str, value: Any, methods: Iterable[str], wanted: str) -> Any:
    """An object with these methods, of whatever class."""
    kind = type(value)
    if isinstance(value, type) or not all(hasattr(kind, method) for method in methods):
        raise DeclarationError(f"{name} must be {wanted}, got {shown(value)}.")
    return value


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "AEIOUaeio" else f"a {noun}"


def seed(name: str, value: Any) -> Any:
    """What numpy makes a random generator of: None, an integer that is not negative, or a generator."""
    if value is None or isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        return value
    return whole(name, value, 0, 2**32 - 1)


def n_threads(n_jobs: Any) -> int:
    """A number of threads by scikit-learn's convention, where -1 means one per core.

    Examples
    --------
    >>> n_threads(3)
    3
    >>> n_threads(-7)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: n_jobs must be -1 or at least 1, got -7.
    """
    found = n_jobs if type(n_jobs) is int else whole("n_jobs", n_jobs)
    if found == 0 or found < -1:
        raise DeclarationError(f"n_jobs must be -1 or at least 1, got {found}.")
    return found if found > 0 else os.cpu_count() or 1


def same_length(names: str, *values: Any) -> None:
    """Refuse arrays of different lengths."""
    lengths = [len(value) for value in values]
    if len(set(lengths)) > 1:
        raise DeclarationError(f"{names} have different lengths: {', '.join(map(str, lengths))}.")


def hashable(name: str, value: Any) -> Any:
    """A name: anything that can be the key of a dict."""
    try:
        hash(value)
    except TypeError:
        raise DeclarationError(f"{name} must be hashable, got {shown(value)}.") from None
    return value


# ---- arrays and collections ----------------------------------------------------------------------


def listed(value: Any) -> Any:
    """What is given, an iterator (a generator, ``map``, ``zip``) as a list: it can be walked through only once."""
    return list(value) if isinstance(value, Iterator) and not hasattr(value, "shape") else value


def numeric(name: str, value: Any) -> npt.NDArray[Any]:
    """An array of real numbers, in a type that numpy computes with natively; sparse matrices are refused.

    Examples
    --------
    >>> numeric("c", ["a", "b"])
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: c must be an array of numbers, got ['a', 'b'] (list).
    """
    value = listed(value)
    if sp.issparse(value):
        raise DeclarationError(f"{name} must be a dense array, got {shown(value)}; use .toarray().")
    try:
        if isinstance(value, _BYTES):
            raise TypeError
        array = np.asarray(value)
    except (TypeError, ValueError):  # rows of different lengths, or an object that refuses
        raise DeclarationError(f"{name} must be an array of numbers, got {shown(value)}.") from None
    if array.dtype.kind == "O" and array.ndim:
        try:
            # None would become NaN, and texts what they spell.
            if any(part is None or isinstance(part, (str, *_BYTES)) for part in array.flat):
                raise TypeError
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DeclarationError(f"{name} must be an array of numbers, got {shown(value)}.") from None
    if array.dtype.kind not in _NUMERIC_KINDS:
        raise DeclarationError(f"{name} must be an array of numbers, got {shown(value)}.")
    if array.dtype.kind == "f" and (array.dtype.itemsize not in (4, 8) or not array.dtype.isnative):
        array = array.astype(np.float64)
    return np.asarray(array)


def converted(name: str, value: Any) -> FloatArray:
    """A float64 array of real numbers, of whatever shape and content: for callers that look at these themselves."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    return np.asarray(numeric(name, value), dtype=np.float64)


def floats(
    name: str, value: Any, shape: tuple[int, ...] | None = None, *, ndim: int | None = None, finite: bool = True
) -> FloatArray:
    """A float64 array of real numbers; without NaN, and finite unless that is waived.

    Examples
    --------
    >>> floats("w", [1, 2], (2,))
    array([1., 2.])
    >>> floats("w", [1.0, float("inf")])
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: w[1] is inf; all entries must be finite.
    """
    array = converted(name, value)
    if shape is not None and array.shape != shape:
        raise DeclarationError(f"{name} must have shape {shape}, got {array.shape}.")
    if ndim is not None and array.ndim != ndim:
        raise DeclarationError(f"{name} must have {ndim} axes, got shape {array.shape}.")
    wrong = ~np.isfinite(array) if finite else np.isnan(array)
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        text = f"{name}[{', '.join(map(str, place))}]" if place else name
        what = "finite" if finite else "numbers"
        raise DeclarationError(f"{text} is {array[tuple(place)]}; all entries must be {what}.")
    return array


def reshaped(name: str, array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """An array in another shape, refused where it does not have as many entries."""
    try:
        return array.reshape(shape)
    except ValueError:
        raise DeclarationError(f"{name} has {array.size} entries, which is no array of shape {shape}.") from None


def integers(
    name: str, value: Any, shape: tuple[int, ...] | None = None, low: int | None = None, high: int | None = None
) -> npt.NDArray[np.intp]:
    """Return an array of integers between bounds; floats that are whole numbers are converted.

    Examples
    --------
    >>> integers("index", [0.0, 2.0])
    array([0, 2])
    >>> integers("index", [0, 2], (2,), 0, 1)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: index must be between 0 and 1, got 2.
    """
    array = numeric(name, value)
    if array.dtype.kind == "f":
        if not (np.isfinite(array).all() and (np.abs(array) < 2.0**53).all() and (array == np.rint(array)).all()):
            raise DeclarationError(f"{name} must be an array of integers, got {shown(value)}.")
    elif array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.intp).max:
        raise DeclarationError(f"{name} has an integer beyond 64 bits.")
    if shape is not None and array.shape != shape:
        raise DeclarationError(f"{name} must have shape {shape}, got {array.shape}.")
    found = array.astype(np.intp)
    outside = np.zeros(found.shape, dtype=bool)
    outside |= False if low is None else found < low
    outside |= False if high is None else found > high
    if outside.any():
        raise DeclarationError(f"{name} must be {_between(low, high)}, got {found[outside][0]}.")
    return found


def examples(name: str, value: Any) -> Any:
    """A data set: a matrix with a row for each example (dense, or any sparse format as CSR), or a sequence of examples.

    Examples
    --------
    >>> examples("X", (row for row in [[1.0, 2.0], [3.0, 4.0]]))
    [[1.0, 2.0], [3.0, 4.0]]
    >>> examples("X", None)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: X must be a matrix or a sequence with an entry for each example, got None.
    """
    value = np.asarray(value) if isinstance(value, memoryview) else listed(value)
    if sp.issparse(value):
        return checked_csr(value, name)
    if isinstance(value, np.ndarray):
        if not value.ndim:
            raise DeclarationError(f"{name} must have an entry for each example, got an array without axes.")
        plain = np.asarray(value)  # np.matrix and masked arrays index in ways of their own
        return plain if plain.ndim == 1 or plain.dtype.kind in "fiubUS" else numeric(name, plain)
    known = hasattr(value, "__len__") and (hasattr(value, "__getitem__") or hasattr(value, "iloc"))
    if not known or isinstance(value, (str, *_BYTES, Mapping, type)):
        raise DeclarationError(
            f"{name} must be a matrix or a sequence with an entry for each example, got {shown(value)}."
        )
    return value


# ---- by annotation -------------------------------------------------------------------------------

#: Takes the argument's name and value; returns the value, perhaps as another type, or raises.
Check = Callable[[str, Any], Any]


def flag(name: str, value: Any) -> Any:
    """True or False (numpy's, or 1 and 0, too)."""
    if type(value) is bool:
        return value
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, _WHOLE) and value in (0, 1)):
        raise DeclarationError(f"{name} must be True or False, got {shown(value)}.")
    return value


def _check_text(name: str, value: Any) -> Any:
    return instance(name, value, str, "a str")


def function(name: str, value: Any, n_arguments: int | None = None) -> Any:
    """A callable, that can be called with so many arguments.

    Examples
    --------
    >>> function("key", len, 2)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: key must be callable with 2 arguments; len takes (obj, /).
    """
    if not callable(value):
        raise DeclarationError(f"{name} must be callable, got {shown(value)}.")
    if n_arguments is None:
        return value
    # Inspecting a signature takes longer than a pass over a small data set, whose functions come again and again.
    plain = getattr(value, "__func__", value)
    made_of = (getattr(plain, "__code__", None), len(getattr(plain, "__defaults__", None) or ()), plain is value)
    if made_of[0] is not None and (*made_of, n_arguments) in _FITTING:
        return value
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # some compiled functions have no signature
        return value
    try:
        signature.bind(*[None] * n_arguments)
    except TypeError:
        called = f"{n_arguments} argument{'' if n_arguments == 1 else 's'}"
        own = getattr(value, "__name__", type(value).__name__)
        raise DeclarationError(f"{name} must be callable with {called}; {own} takes {signature}.") from None
    if made_of[0] is not None and not hasattr(plain, "__wrapped__") and not hasattr(plain, "__signature__"):
        if len(_FITTING) >= _MOST_FITTING:
            _FITTING.clear()
        _FITTING.add((*made_of, n_arguments))
    return value


#: Code, number of defaults, whether it is a plain function, and number of arguments, of functions found to fit.
_FITTING: set[tuple[Any, ...]] = set()
_MOST_FITTING = 256


def _check_whole(name: str, value: Any) -> Any:
    whole(name, value)
    return value


def _check_number(name: str, value: Any) -> Any:
    number(name, value)
    return value


def sequence(name: str, value: Any) -> Any:
    """A sequence or another collection, not a text; an iterator as a list."""
    value = listed(value)
    walks = hasattr(value, "__len__") and hasattr(value, "__iter__") and getattr(value, "shape", None) != ()
    if not walks or isinstance(value, (str, *_BYTES, Mapping, type)):
        raise DeclarationError(f"{name} must be a sequence, got {shown(value)}.")
    return value


def walkable(name: str, value: Any) -> Any:
    """Anything that can be walked through, texts and mappings too; an iterator as a list."""
    value = listed(value)
    if not isinstance(value, Iterable) or isinstance(value, (*_BYTES, type)) or getattr(value, "shape", None) == ():
        raise DeclarationError(f"{name} must be a sequence, got {shown(value)}.")
    return value


def _check_path(name: str, value: Any) -> Any:
    if isinstance(value, bytes) or not isinstance(value, str | os.PathLike) or not str(value) or "\0" in str(value):
        raise DeclarationError(f"{name} must be the path of a file, got {shown(value)}.")
    return value


def _check_mapping(name: str, value: Any, held: type = object) -> Any:
    instance(name, value, Mapping, "a mapping such as a dict")
    for key, part in value.items() if held is not object else ():
        instance(f"{name}[{key!r}]", part, held)
    return value


_SCALARS: dict[Any, Check] = {
    bool: flag,
    int: _check_whole,
    float: _check_number,
    str: _check_text,
}


def _check_for(hint: Any) -> Check | None:
    """The check that an annotation stands for; None where it says nothing that can be tested."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin = typing.get_origin(hint)
    if hint is npt.ArrayLike or origin in (np.ndarray, npt.NDArray):
        return numeric
    if hint is Path or origin is os.PathLike:
        return _check_path
    if origin is typing.Annotated:  # the check stands beside the type
        return typing.cast(Check, hint.__metadata__[0])
    if origin is Literal:
        options = typing.get_args(hint)
        return lambda name, value: choice(name, value, options)
    if origin in (typing.Union, types.UnionType):
        return _check_of_union(typing.get_args(hint))
    if origin is None and isinstance(hint, type):
        if hint is Any or hint is object:
            return None
        if getattr(hint, "_is_protocol", False):
            methods = tuple(name for name, part in vars(hint).items() if callable(part) and name[0] != "_")
            return lambda name, value: having(name, value, methods, _article(hint.__name__))
        return lambda name, value: instance(name, value, hint)
    if origin is Callable:
        given = typing.get_args(hint)[0]
        n_arguments = len(given) if isinstance(given, list) else None
        return lambda name, value: function(name, value, n_arguments)
    if origin in (Sequence, Iterable, list, tuple):
        return walkable
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        held = typing.get_args(hint)[1]
        known = isinstance(held, type) and held is not Any and held is not object and held not in _SCALARS
        return functools.partial(_check_mapping, held=held) if known else _check_mapping
    return None


def _check_of_union(hints: tuple[Any, ...]) -> Check | None:
    """One of several kinds; the error is that of the intended kind, if there is only one."""
    may_be_none = type(None) in hints
    # array_like is a union itself, and flat among the others; from numpy 2.5 on it is a name, which stays one.
    arrays = set(typing.get_args(npt.ArrayLike)) or {npt.ArrayLike}
    if arrays <= set(hints):
        rest = [hint for hint in hints if hint not in arrays and hint is not type(None)]
        inner = [numeric, *(_check_for(hint) for hint in rest)]
        return None if any(check is None for check in inner) else _any_of([c for c in inner if c], may_be_none)
    paths = any(hint is Path or typing.get_origin(hint) is os.PathLike for hint in hints)
    checks = [_check_for(hint) for hint in hints if hint is not type(None) and not (paths and hint is str)]
    if any(check is None for check in checks):
        return None
    return _any_of([check for check in checks if check is not None], may_be_none)


def _any_of(checks: list[Check], may_be_none: bool) -> Check:
    def check(name: str, value: Any) -> Any:
        if value is None and may_be_none:
            return value
        # Texts, not the errors: these hold their tracebacks, and with them the arrays of every caller until a garbage
        # collection.
        refused: list[str] = []
        for one in checks:
            try:
                return one(name, value)
            except DeclarationError as error:
                refused.append(str(error))
        raise DeclarationError(_one_refusal(name, value, refused, may_be_none))

    return check


def _one_refusal(name: str, value: Any, refused: list[str], may_be_none: bool) -> str:
    """One sentence that names all kinds that an argument may have; the first refusal if they are of other forms."""
    head, tail = f"{name} must be ", f", got {shown(value)}."
    none = "None or " if may_be_none else ""
    inside = [text for text in refused if text.startswith(f"{name}[")]
    if inside:  # the kind was right, and something in it is not
        return inside[0]
    if any(not text.startswith(head) or not text.endswith(tail) for text in refused):
        return refused[0].replace(" must be ", f" must be {none}", 1)
    kinds = list(dict.fromkeys(text[len(head) : -len(tail)] for text in refused))
    return f"{head}{none}{' or '.join(kinds)}{tail}"


def _checks_of(function: Callable[..., Any]) -> dict[str, Check]:
    """The checks of a function's parameters, by name."""
    found: dict[str, Check] = {}
    names = vars(sys.modules[function.__module__])
    for parameter in inspect.signature(function).parameters.values():
        hint = parameter.annotation
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or hint is parameter.empty:
            continue
        if isinstance(hint, str):
            try:
                hint = eval(hint, names)
            except NameError:  # a name that only type checkers import
                continue
        check = _check_for(hint)
        if check is not None:
            found[parameter.name] = check
    return found


def checked(function: Function) -> Function:
    """Test the arguments of every call against the function's annotations.

    Numbers, choices and objects stay what they are; what is annotated as array_like arrives as an array of numbers,
    and an iterator given for a sequence as a list. The overhead is some microseconds per call.

    Examples
    --------
    >>> @checked
    ... def repeat(word: str, times: int = 2) -> str:
    ...     return word * times
    >>> repeat("ab", 1.5)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: times must be an integer, got 1.5.
    """
    signature = inspect.signature(function)
    positions = [name for name, p in signature.parameters.items() if p.kind is not p.KEYWORD_ONLY]
    checks: dict[str, Check] | None = None

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal checks
        if checks is None:
            checks = _checks_of(function)
        if len(arguments) <= len(positions):  # otherwise Python's own error is the right one
            found = [
                checks[name](name, value) if name in checks else value
                for name, value in zip(positions, arguments, strict=False)
            ]
            for name, value in named.items():
                if name in checks:
                    named[name] = checks[name](name, value)
            return function(*found, **named)
        return function(*arguments, **named)

    return typing.cast(Function, call)


@functools.cache
def _parameter_checks(kind: type) -> dict[str, Check]:
    return _checks_of(kind.__init__)  # type: ignore[misc]


def check_parameters(estimator: Any) -> None:
    """Test the parameters of an estimator against the annotations of its constructor."""
    kind: Any = type(estimator)
    for name, check in _parameter_checks(kind).items():
        check(name, getattr(estimator, name))

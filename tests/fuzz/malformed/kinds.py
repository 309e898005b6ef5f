"""Kinds of arguments, and malformed values for each.

A malformed value comes with what may happen: ``bad`` must be refused, ``same`` must be refused or give the answer of
the valid value (another container or number type of the same content), ``odd`` may be refused or taken, as long as
the answer is sound.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

Choice = tuple[str, Any, str]  # a word for it, the value, bad | same | odd


class Strange:
    """An object that nothing knows."""


def numbers_from(value: Any) -> Any:
    """A generator of what a sequence holds."""
    yield from value


def pick(rng: np.random.Generator, choices: list[Choice]) -> Choice:
    return choices[int(rng.integers(len(choices)))]


def _objects() -> list[Choice]:
    """What no argument of numbers can be."""
    return [
        ("text", "text", "bad"),
        ("bytes", b"\x00\xff", "bad"),
        ("dict", {"a": 1}, "bad"),
        ("set", {"p", "q"}, "bad"),
        ("function", lambda: 0, "bad"),
        ("strange", Strange(), "bad"),
        ("type", float, "bad"),
        ("datetime", datetime.datetime(2020, 1, 1), "bad"),
        ("complex", 1 + 2j, "bad"),
        ("ragged", [[1.0], [2.0, 3.0]], "bad"),
        ("datetimes", np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), "bad"),
        ("ellipsis", ..., "bad"),
    ]


def count(rng: np.random.Generator, value: int, optional: bool = False) -> Choice:
    """An integer: how many, how often."""
    choices = [
        *_objects(),
        ("number as text", str(value), "bad"),
        ("half", value + 0.5, "bad"),
        ("NaN", float("nan"), "bad"),
        ("inf", float("inf"), "odd"),
        ("negative", -7, "bad"),
        ("list", [value], "bad"),
        ("array", np.array([value, value]), "bad"),
        ("empty array", np.empty(0), "bad"),
        ("True", True, "odd"),
        ("zero", 0, "odd"),
        ("huge", 10**30, "odd"),
        ("whole float", float(value), "odd"),
        ("int16", np.int16(value), "same"),
        ("uint64", np.uint64(value), "same"),
        ("0-d array", np.array(value), "odd"),
        ("fraction", Fraction(3, 2), "bad"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def shape(rng: np.random.Generator, value: int) -> Choice:
    """The length of an axis, or those of several."""
    word, found, verdict = count(rng, value)
    return word, found, "odd" if word in ("list", "array", "empty array") else verdict


def real(rng: np.random.Generator, value: float, optional: bool = False) -> Choice:
    """A number."""
    choices = [
        *_objects(),
        ("number as text", str(value), "bad"),
        ("NaN", float("nan"), "bad"),
        ("array", np.array([value, value]), "bad"),
        ("list", [value], "bad"),
        ("empty array", np.empty(0), "bad"),
        ("3-d array", np.full((1, 2, 2), value), "bad"),
        ("inf", float("inf"), "odd"),
        ("negative", -7.5, "odd"),
        ("zero", 0.0, "odd"),
        ("True", True, "odd"),
        ("huge int", 10**400, "odd"),
        ("huge", 1e308, "odd"),
        ("tiny", 5e-324, "odd"),
        ("decimal", Decimal("0.5"), "odd"),
        ("0-d array", np.array(value), "same"),
        ("float64", np.float64(value), "same"),
        ("float32", np.float32(value), "odd"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def _spoilt(array: np.ndarray[Any, Any], value: Any, dtype: Any = float) -> Any:
    copy = np.array(array, dtype=dtype)
    if copy.size:
        copy.flat[copy.size // 2] = value
    return copy


def _other_types(array: np.ndarray[Any, Any]) -> list[Choice]:
    """The same numbers in another array; the recipes' numbers are eighths, which float16 holds."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    return [
        ("list", array.tolist(), "same"),
        ("float16", array.astype(np.float16), "same"),
        ("float32", array.astype(np.float32), "same"),
        ("longdouble", array.astype(np.longdouble), "same"),
        ("big-endian", array.astype(">f8"), "same"),
        ("object array", array.astype(object), "same"),
        ("numbers as text", array.astype(str), "same"),
        ("read-only", frozen, "same"),
        ("strided", wide[..., ::2], "same"),
        ("backwards", array[::-1].copy()[::-1], "same"),
        ("fortran", np.asfortranarray(array), "same"),
        ("masked, nothing masked", np.ma.masked_array(array), "same"),
        ("tuple", tuple(array.tolist()), "same"),
        ("generator", numbers_from(array.tolist()), "same"),
        ("memoryview", memoryview(np.ascontiguousarray(array)), "same"),
    ]


def _wrong_arrays(array: np.ndarray[Any, Any]) -> list[Choice]:
    return [
        ("NaN inside", _spoilt(array, np.nan), "bad"),
        ("inf inside", _spoilt(array, np.inf), "odd"),
        ("complex array", _spoilt(array, 1j, complex), "bad"),
        ("None inside", _spoilt(array, None, object), "bad"),
        ("text inside", _spoilt(array, "x", object), "bad"),
        ("list inside", _spoilt(array, [1, 2], object), "bad"),
        ("huge inside", _spoilt(array, 1e150), "odd"),
        ("huge int inside", _spoilt(array, 10**400, object), "bad"),
        ("dates", np.zeros(array.shape, "datetime64[D]"), "bad"),
        ("durations", np.zeros(array.shape, "timedelta64[s]"), "bad"),
        ("texts", np.full(array.shape, "a"), "bad"),
        ("records", np.zeros(array.shape, [("a", float)]), "bad"),
        ("too long", np.concatenate([array, array[:1]]), "bad"),
        ("too short", array[:-1], "bad"),
        ("one axis more", array[..., None], "bad" if array.ndim > 1 else "same"),
        ("one axis more in front", array[None], "odd"),
        ("3-d", np.ones((2, 2, 2)), "bad"),
        ("0-d", np.array(1.0), "odd"),
        ("empty", np.empty(0), "bad"),
        ("empty list", [], "bad"),
        ("ragged rows", [[1.0], [2.0, 3.0], []], "bad"),
    ]


def array(rng: np.random.Generator, value: Any, optional: bool = False) -> Choice:
    """A vector or matrix of finite numbers whose shape is fixed."""
    given = np.asarray(value, dtype=float)
    choices = [*_objects(), *_other_types(given), *_wrong_arrays(given)]
    if given.ndim == 2:
        choices += [("np.matrix", np.matrix(given), "same"), ("coo_array", sp.coo_array(given), "same")]
    if not optional:
        choices.append(("None", None, "bad"))
    return pick(rng, choices)


def sequence(rng: np.random.Generator, value: Any) -> Choice:
    """An array of finite numbers of any length: the positions of a sequence, the losses of a picture."""
    word, found, verdict = array(rng, value)
    return word, found, "odd" if word in ("too long", "too short") else verdict


def broadcast(rng: np.random.Generator, value: Any) -> Choice:
    """A vector that numpy's broadcasting combines with another one: (3,) and (3, 1) are (3, 3) together."""
    word, found, verdict = array(rng, value)
    return word, found, "odd" if word == "one axis more" else verdict


def rows(rng: np.random.Generator, value: Any) -> Choice:
    """A data matrix, a row an example."""
    given = np.asarray(value, dtype=float)
    sparse = [
        (name, make(given), "same")
        for name, make in (
            ("coo_matrix", sp.coo_matrix),
            ("csr_matrix", sp.csr_matrix),
            ("csc_array", sp.csc_array),
            ("lil_matrix", sp.lil_matrix),
            ("dok_array", sp.dok_array),
            ("bsr_array", sp.bsr_array),
            ("dia_array", sp.dia_array),
        )
    ]
    choices = [
        *_objects(),
        *_other_types(given),
        *_wrong_arrays(given),
        *sparse,
        ("np.matrix", np.matrix(given), "same"),
        *_frames(given),
        ("csr with NaN", sp.csr_array(_spoilt(given, np.nan)), "bad"),
        ("csr of float32", sp.csr_array(given.astype(np.float32)), "same"),
        ("csr of int64 indices", _long_indices(given), "same"),
        ("csr of complex", sp.csr_array(_spoilt(given, 1j, complex)), "bad"),
        ("coo with duplicates", _duplicates(given), "same"),
        ("one row", given[0], "odd"),
        ("int8", np.rint(given).astype(np.int8), "odd"),
        ("bool", given > 0, "odd"),
        ("column of text", np.column_stack([given.astype(object), np.full(len(given), "x", object)]), "bad"),
        ("list of rows", list(given), "same"),
        ("list of csr rows", [sp.csr_array(row[None]) for row in given], "odd"),
        ("None", None, "bad"),
    ]
    return pick(rng, choices)


def _frames(given: Any) -> list[Choice]:
    try:
        import pandas as pd
    except ImportError:  # pandas is not needed to run the library
        return []
    return [
        ("frame", pd.DataFrame(given), "same"),
        ("frame of text", pd.DataFrame(given.astype(str)).assign(a="x"), "bad"),
    ]


def _long_indices(given: Any) -> Any:
    matrix = sp.csr_array(given)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def _duplicates(given: Any) -> Any:
    matrix = sp.coo_array(given)
    place = (np.tile(matrix.row, 2), np.tile(matrix.col, 2))
    return sp.coo_array((np.tile(matrix.data / 2, 2), place), shape=given.shape)


def classes(rng: np.random.Generator, value: Any) -> Choice:
    """A class an example."""
    given = np.asarray(value)
    strange: Any = given.astype(object)
    strange[0] = ["unhashable"]
    choices = [
        ("text", "text", "bad"),
        ("None", None, "bad"),
        ("number", 3, "bad"),
        ("dict", {"a": 1}, "bad"),
        ("set", set(given.tolist()), "bad"),
        ("function", lambda: 0, "bad"),
        ("strange", Strange(), "bad"),
        ("complex", given.shape[0] * [1 + 2j], "bad"),
        ("ragged", [[1], [2, 3]] * (len(given) // 2), "bad"),
        ("sets", [{v} for v in given.tolist()], "odd"),
        ("unhashable", strange, "bad"),
        ("None inside", _spoilt(given, None, object), "bad"),
        ("NaN inside", _spoilt(given, np.nan, object), "bad"),
        ("too short", given[:-1], "bad"),
        ("too long", np.concatenate([given, given[:1]]), "bad"),
        ("empty", given[:0], "bad"),
        ("3-d", given[:, None, None], "bad"),
        ("column", given[:, None], "odd"),
        ("0-d", np.array(1), "bad"),
        ("sparse column", sp.csr_array(np.ones((len(given), 1))), "odd"),
        ("dates", np.zeros(len(given), "datetime64[D]"), "odd"),
        ("list", given.tolist(), "same"),
        ("tuple", tuple(given.tolist()), "same"),
        ("generator", numbers_from(given.tolist()), "same"),
        ("object array", given.astype(object), "same"),
        ("masked, nothing masked", np.ma.masked_array(given), "same"),
        ("strided", np.repeat(given, 2)[::2], "same"),
        ("matrix of classes", np.column_stack([given, given]), "odd"),
    ]
    return pick(rng, choices)


def indicators(rng: np.random.Generator, value: Any) -> Choice:
    """A 0/1 row an example."""
    given = np.asarray(value)
    choices = [
        *(choice for choice in _objects() if choice[0] != "ragged"),
        *(choice for choice in _wrong_arrays(given) if choice[0] not in ("one axis more in front",)),
        ("label sets", [set(np.flatnonzero(row).tolist()) for row in given], "odd"),
        ("ragged label lists", [np.flatnonzero(row).tolist() for row in given], "odd"),
        ("csr_matrix", sp.csr_matrix(given), "same"),
        ("coo_matrix", sp.coo_matrix(given), "same"),
        ("lil_array", sp.lil_array(given), "same"),
        ("bool", given.astype(bool), "same"),
        ("uint8", given.astype(np.uint8), "same"),
        ("float32", given.astype(np.float32), "same"),
        ("list", given.tolist(), "same"),
        ("list of rows", list(given), "same"),
        ("generator", numbers_from(list(given)), "same"),
        ("object array", given.astype(object), "same"),
        ("numbers as text", given.astype(str), "same"),
        ("fractions", given * 0.5, "odd"),
        ("twos", given * 2, "odd"),
        ("signs", 2 * given - 1, "odd"),
        ("None", None, "bad"),
        ("classes", np.arange(len(given)), "bad"),
    ]
    return pick(rng, choices)


def option(rng: np.random.Generator, value: Any, optional: bool = False) -> Choice:
    """One of a few words."""
    choices: list[Choice] = [
        ("unknown word", "nonsense", "bad"),
        ("empty text", "", "bad"),
        ("number", 3, "bad"),
        ("NaN", float("nan"), "bad"),
        ("bytes", str(value).encode(), "bad"),
        ("list", [value], "bad"),
        ("set", {"p"}, "bad"),
        ("dict", {"a": []}, "bad"),
        ("array", np.array([str(value)] * 2), "bad"),
        ("strange", Strange(), "bad"),
        ("type", Strange, "bad"),
        ("function", lambda: 0, "bad"),
        ("numpy text", np.str_(value), "same"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def one_or_several(rng: np.random.Generator, value: Any) -> Choice:
    """One of a few words, or a sequence of them."""
    word, found, verdict = option(rng, value)
    return word, found, "odd" if word in ("list", "array") else verdict


def flag(rng: np.random.Generator, value: bool) -> Choice:
    """Yes or no."""
    choices: list[Choice] = [
        ("text", "no", "bad"),
        ("array", np.array([True, False]), "bad"),
        ("empty array", np.empty(0), "bad"),
        ("None", None, "odd"),
        ("number", 3, "odd"),
        ("NaN", float("nan"), "bad"),
        ("list", [0], "bad"),
        ("strange", Strange(), "bad"),
        ("numpy bool", np.bool_(value), "same"),
        ("int", int(value), "same"),
    ]
    return pick(rng, choices)


def thing(rng: np.random.Generator, value: Any, optional: bool = False) -> Choice:
    """An object of a class of ours."""
    choices: list[Choice] = [
        ("text", "nonsense", "bad"),
        ("number", 3, "bad"),
        ("dict", {"a": 1}, "bad"),
        ("array", np.ones(3), "bad"),
        ("matrix", np.ones((2, 2)), "bad"),
        ("list", [value], "bad"),
        ("strange", Strange(), "bad"),
        ("type", type(value), "bad"),
        ("function", lambda: 0, "bad"),
        ("generator", numbers_from([1, 2]), "bad"),
        ("NaN", float("nan"), "bad"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def function(rng: np.random.Generator, value: Callable[..., Any], optional: bool = False) -> Choice:
    """A callable."""
    choices: list[Choice] = [
        ("text", "nonsense", "bad"),
        ("number", 3, "bad"),
        ("list", [value], "bad"),
        ("array", np.ones(3), "bad"),
        ("strange", Strange(), "bad"),
        ("takes nothing", lambda: 0, "bad"),
        ("takes seven", lambda a, b, c, d, e, f, g: 0, "bad"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def seed(rng: np.random.Generator, value: Any) -> Choice:
    """A random_state."""
    choices: list[Choice] = [
        ("text", "seed", "bad"),
        ("half", 0.5, "bad"),
        ("NaN", float("nan"), "bad"),
        ("negative", -3, "bad"),
        ("dict", {"a": 1}, "bad"),
        ("strange", Strange(), "bad"),
        ("complex", 1j, "bad"),
        ("list of text", ["a"], "bad"),
        ("huge", 10**30, "odd"),
        ("generator", np.random.default_rng(0), "odd"),
        ("RandomState", np.random.RandomState(0), "odd"),
        ("None", None, "odd"),
        ("int8", np.int8(value), "same"),
    ]
    return pick(rng, choices)


def names(rng: np.random.Generator, value: Any, optional: bool = False) -> Choice:
    """A sequence of distinct names."""
    given = list(value)
    choices: list[Choice] = [
        ("number", 1.5, "bad"),
        ("NaN", float("nan"), "bad"),
        ("function", lambda: 0, "bad"),
        ("strange", Strange(), "bad"),
        ("unhashable", [*given[:-1], ["x"]], "bad"),
        ("dict inside", [*given[:-1], {"x": 1}], "bad"),
        ("twice", [*given, given[0]], "bad"),
        ("empty", [], "bad"),
        ("complex", 2j, "bad"),
        ("negative", -2, "bad"),
        ("tuple", tuple(given), "same"),
        ("generator", numbers_from(given), "same"),
        ("dict of names", dict.fromkeys(given), "odd"),
        ("set", set(given), "odd"),
        ("array", np.array(given), "same"),
        ("object array", np.array(given, dtype=object), "same"),
        ("2-d", np.array([given, given]), "bad"),
        ("0-d", np.array("x"), "bad"),
        ("text", "text", "odd"),
        ("bytes", b"ab", "odd"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def edges(rng: np.random.Generator, value: Any) -> Choice:
    """Pairs of names that make a hierarchy or network."""
    given = [tuple(pair) for pair in value]
    choices: list[Choice] = [
        ("None", None, "bad"),
        ("number", 3, "bad"),
        ("NaN", float("nan"), "bad"),
        ("text", "ab", "bad"),
        ("bytes", b"ab", "bad"),
        ("dict", {"a": 1}, "bad"),
        ("function", lambda: 0, "bad"),
        ("strange", Strange(), "bad"),
        ("short pair", [*given, ("x",)], "bad"),
        ("triple", [*given, ("x", "y", "z")], "bad"),
        ("names for pairs", ["a", "b"], "bad"),
        ("numbers for pairs", [1, 2], "bad"),
        ("unhashable", [*given, ("x", ["y"])], "bad"),
        ("None pair", [*given, None], "bad"),
        ("loop", [*given, (given[0][0], given[0][0])], "bad"),
        ("twice", [*given, given[0]], "odd"),
        ("cycle", [*given, (given[0][1], given[0][0])], "odd"),
        ("set pair", [*given, {"x", "y"}], "odd"),
        ("generator", numbers_from(given), "same"),
        ("lists", [list(pair) for pair in given], "same"),
        ("array", np.array(given), "same"),
        ("empty array", np.empty((0, 2)), "odd"),
        ("empty", [], "odd"),
        ("3-d", np.ones((2, 2, 2)), "bad"),
        ("ragged", [[1], [2, 3]], "bad"),
    ]
    return pick(rng, choices)


def extra_rows(rng: np.random.Generator, value: Any) -> Choice:
    """Rows (a, lower, upper) of one call."""
    given = list(value)
    row, low, up = given[0]
    choices: list[Choice] = [
        ("pair", [(row, low)], "bad"),
        ("numbers", [1.0, 2.0], "bad"),
        ("text", "ab", "bad"),
        ("None row", [*given, None], "bad"),
        ("dict", {"a": 1}, "bad"),
        ("number", 3, "bad"),
        ("one row alone", (row, low, up), "bad"),
        ("short row", [(row[:-1], low, up)], "bad"),
        ("texts", [("a", "b", "c")], "bad"),
        ("NaN bound", [(row, float("nan"), up)], "bad"),
        ("crossed bounds", [(row, 3.0, -3.0)], "odd"),
        ("generator", numbers_from(given), "same"),
        ("tuple", tuple(given), "same"),
        ("lists", [[row.tolist(), low, up]], "same"),
    ]
    return pick(rng, choices)


def path(rng: np.random.Generator, value: Any, optional: bool = False) -> Choice:
    """The name of a file."""
    choices: list[Choice] = [
        ("number", 3.5, "bad"),
        ("list", [value], "bad"),
        ("dict", {"a": 1}, "bad"),
        ("array", np.ones(3), "bad"),
        ("strange", Strange(), "bad"),
        ("zero byte", "a\0b.npz", "bad"),
        ("missing", "/nonexistent/folder/file.npz", "bad"),
        ("folder", "/", "bad"),
        ("empty", "", "bad"),
        ("NaN", float("nan"), "bad"),
        ("function", lambda: 0, "bad"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def label(rng: np.random.Generator, value: Any, optional: bool = False) -> Choice:
    """A label as the user has it, of any kind."""
    try:
        shape = np.shape(value) or (2,)
        shape = (2,) if 0 in shape else shape
    except ValueError:  # a list of arrays
        shape = (2,)
    choices: list[Choice] = [
        ("text", "nonsense", "bad"),
        ("number", 12345, "bad"),
        ("NaN", float("nan"), "bad"),
        ("dict", {"nonsense": 1}, "bad"),
        ("set", {"nonsense"}, "bad"),
        ("function", lambda: 0, "bad"),
        ("strange", Strange(), "bad"),
        ("complex", 1j, "bad"),
        ("bytes", b"x", "bad"),
        ("ragged", [[1], [2, 3]], "bad"),
        ("3-d", np.ones((2, 2, 2)), "bad"),
        ("array of NaN", np.full(shape, np.nan), "bad"),
        ("array of halves", np.full(shape, 0.5), "bad"),
        ("unhashable", [["x"]], "bad"),
        ("empty", [], "bad"),
        ("long", np.zeros(77), "bad"),
        ("negative", np.full(shape, -5), "bad"),
        ("huge", np.full(shape, 10**15), "bad"),
    ]
    return pick(rng, choices if optional else [*choices, ("None", None, "bad")])


def relevances(rng: np.random.Generator, value: Any) -> Choice:
    """An order of documents, or any numbers that order them."""
    word, found, verdict = label(rng, value)
    return word, found, "odd" if word in ("array of halves", "huge") else verdict


def flow(rng: np.random.Generator, value: Any) -> Choice:
    """A flow, which need not be whole."""
    word, found, verdict = label(rng, value)
    return word, found, "odd" if word == "array of halves" else verdict


def text(rng: np.random.Generator, value: str) -> Choice:
    """A name for messages."""
    word, found, verdict = thing(rng, value, optional=True)
    return word, found, "odd" if word == "text" else verdict


def loose(kind: Any) -> Any:
    """A kind whose malformed values may be taken, too, if the answer is sound."""

    def choose(rng: np.random.Generator, value: Any) -> Choice:
        word, found, verdict = kind(rng, value)
        return word, found, "odd" if verdict == "bad" else verdict

    return choose


def labels(rng: np.random.Generator, value: Any) -> Choice:
    """A sequence of labels, which may be empty."""
    word, found, verdict = label(rng, value)
    return word, found, "odd" if word == "empty" else verdict

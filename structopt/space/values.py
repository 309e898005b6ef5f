"""A declared label space as plain values, whole: matrices, blocks, names, integrality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.space import LabelSpace
from structopt.space.naming import ArrayNames
from structopt.space.rows import Rows, canonical
from structopt.space.variables import bounds_of, shape_of

__all__ = ["space_from_values", "space_values"]

_ARRAYS = ("row_lower", "row_upper", "lower", "upper", "integrality")
_KEYS = {"name", "notes", "blocks", "rows", "matrix", *_ARRAYS}


def space_values(space: LabelSpace) -> dict[str, Any]:
    """Everything that makes up a space, as arrays, a sparse matrix, texts and numbers.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("tags")
    >>> y = space.binary("y", (2, 2))
    >>> space.subject_to(y.sum(axis=0) <= 1, name="once")
    >>> values = space_values(space)
    >>> values["blocks"], values["rows"]
    ([['y', [2, 2], None]], [['once', [2]]])
    >>> space_from_values(values).fingerprint == space.fingerprint
    True
    """
    space.compiled.refuse_lazy_rows("A file")
    return {
        "name": space.name,
        "notes": list(space.notes),
        "blocks": [[block.name, list(block.shape), _own_names(block.names)] for block in space],
        # A group of rows has a name and a shape, or the names of its rows one by one.
        "rows": [_row_names(names) for names, _, _, _ in space._rows],
        "matrix": space.matrix,
        **{name: getattr(space, name) for name in _ARRAYS},
    }


def space_from_values(values: Mapping[str, Any]) -> LabelSpace:
    """The space of `space_values`, checked as a declaration is."""
    if set(values) != _KEYS:
        raise DeclarationError(f"A space in the file has the entries {sorted(values)}.")
    matrix, arrays = values["matrix"], {name: values[name] for name in _ARRAYS}
    if not sp.issparse(matrix) or matrix.dtype != np.float64 or not np.isfinite(matrix.data).all():
        raise DeclarationError("The matrix of a space in the file is not a sparse matrix of finite numbers.")
    for name, array in arrays.items():
        wanted = np.bool_ if name == "integrality" else np.float64
        length = matrix.shape[0] if name.startswith("row") else matrix.shape[1]
        if not isinstance(array, np.ndarray) or array.dtype != wanted or array.shape != (length,):
            raise DeclarationError(f"{name} of a space in the file is not {length} values of type {wanted.__name__}.")
    space = LabelSpace(_text(values["name"]))
    space.notes = [_text(note) for note in values["notes"]]
    start = 0
    for name, shape, names in values["blocks"]:
        dimensions = shape_of(_text(name), tuple(shape))
        if name in space.block_names:
            raise DeclarationError(f"A space in the file has two blocks named {name!r}.")
        size = len(ArrayNames(name, dimensions))
        part = slice(start, start + size)
        if start + size > matrix.shape[1] or (names is not None and len(names) != size):
            raise DeclarationError(f"Block {name!r} of a space in the file has other than {size} variables.")
        low, up = bounds_of(name, (size,), arrays["lower"][part], arrays["upper"][part])
        own = None if names is None else [_text(each) for each in names]
        space._append(name, dimensions, low, up, arrays["integrality"][part].copy(), own)
        start += size
    if start != matrix.shape[1]:
        raise DeclarationError(f"The blocks of a space in the file have {start} of {matrix.shape[1]} variables.")
    _add_rows(space, canonical(matrix), arrays["row_lower"], arrays["row_upper"], values["rows"])
    return space


def _add_rows(space: LabelSpace, matrix: sp.csr_array, lower: Any, upper: Any, groups: Sequence[Any]) -> None:
    start = 0
    for group in groups:
        names: Sequence[str]
        if len(group) == 2 and isinstance(group[1], list):
            label = _text(group[0])
            names = ArrayNames(label, shape_of(label, tuple(group[1])))
            space._row_labels.add(label)
        else:
            names = [_text(name) for name in group]
            space._row_labels.update(names)
        part = slice(start, start + len(names))
        rows = Rows(space, (len(lower[part]),), matrix[part], lower[part].copy(), upper[part].copy())
        if rows.size != len(names):
            raise DeclarationError("The names of the rows of a space in the file are too many.")
        space._rows.append((names, rows.matrix, rows.lower, rows.upper))
        start += len(names)
    if start != matrix.shape[0]:
        raise DeclarationError(f"{start} of {matrix.shape[0]} rows of a space in the file have names.")
    space._changed()


def _own_names(names: Sequence[str]) -> list[str] | None:
    return None if isinstance(names, ArrayNames) else list(names)


def _row_names(names: Sequence[str]) -> list[Any]:
    return [names.name, list(names.shape)] if isinstance(names, ArrayNames) else list(names)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DeclarationError(f"A name in the file is a {type(value).__name__}.")
    return value

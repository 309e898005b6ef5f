"""Names across modelling tools: recovering arrays from ``y[0,1]``, and unique stand-ins.

Other tools know only a flat list of names. `blocks_of` finds the arrays in it again; `stand_ins` gives
each name that a format cannot hold a legal one, so that the caller can carry the original beside it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, product

from structopt.errors import DeclarationError

__all__ = ["Block", "blocks_of", "natural_key", "refuse_duplicates", "stand_ins"]

#: One block of variables: its name, its shape, and the names of its elements where they are not the
#: default ``name[0]``, ``name[1]``, ... (for shape ``()``: ``name``).
Block = tuple[str, tuple[int, ...], "tuple[str, ...] | None"]

_INDEXED = re.compile(r"(?P<name>[^\[\]]+)\[(?P<index>[^\[\]]+)\]")


def blocks_of(names: Sequence[str]) -> list[Block]:
    """Group a flat sequence of variable names into arrays.

    A maximal contiguous run of names ``name[i]``, ``name[i,j]``, ... becomes one block if its indices
    are a full grid in C order; every other name becomes a scalar block of its own. The indices may be
    labels (``tag[noun]``) or consecutive integers from one, as often in Pyomo; then the element names
    are returned too.

    Parameters
    ----------
    names : sequence of str
        Names of all variables, in order.

    Returns
    -------
    list of (str, tuple of int, tuple of str or None)
        Name, shape and element names of each block. Element names are None where they are the
        default ones, counted from zero. Block names are unique if `names` are.

    Examples
    --------
    >>> blocks_of(["y[0,0]", "y[0,1]", "y[1,0]", "y[1,1]", "slack"])
    [('y', (2, 2), None), ('slack', (), None)]
    >>> blocks_of(["tag[noun]", "tag[verb]"])
    [('tag', (2,), ('tag[noun]', 'tag[verb]'))]
    >>> blocks_of(["y[0]", "y[2]"])
    [('y[0]', (), None), ('y[2]', (), None)]
    """
    runs = [list(run) for _, run in groupby(map(_split, names), key=lambda part: (part[1], len(part[2])))]
    # A block name must belong to one run only: y[0], x, y[1] stays three scalars.
    uses = Counter(run[0][1] for run in runs)
    blocks: list[Block] = []
    for run in runs:
        indices = [index for _, _, index in run]
        shape = _grid(indices) if uses[run[0][1]] == 1 and indices[0] else None
        if shape is None:
            blocks.extend((full, (), None) for full, _, _ in run)
        else:
            elements = None if _is_default(indices, shape) else tuple(full for full, _, _ in run)
            blocks.append((run[0][1], shape, elements))
    return blocks


def _split(full: str) -> tuple[str, str, tuple[str, ...]]:
    """``y[0,1]`` as (full name, ``y``, (``0``, ``1``)); the index is empty for a scalar."""
    match = _INDEXED.fullmatch(full)
    if match is None:
        return full, full, ()
    return full, match["name"], tuple(match["index"].split(","))


def _grid(indices: list[tuple[str, ...]]) -> tuple[int, ...] | None:
    """Shape of the full grid in C order that the indices enumerate, or None."""
    axes = [list(dict.fromkeys(axis)) for axis in zip(*indices, strict=True)]
    shape = tuple(map(len, axes))
    if math.prod(shape) != len(indices) or not all(map(_is_axis, axes)):
        return None
    in_order = all(index == place for index, place in zip(indices, product(*axes), strict=True))
    return shape if in_order else None


def _is_axis(labels: list[str]) -> bool:
    """Whether the labels can be one axis: integers must be consecutive, lest y[2] be found at place 1."""
    if not all(label.isdecimal() for label in labels):
        return True
    numbers = [int(label) for label in labels]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _is_default(indices: list[tuple[str, ...]], shape: tuple[int, ...]) -> bool:
    expected = product(*([str(k) for k in range(length)] for length in shape))
    return all(index == place for index, place in zip(indices, expected, strict=True))


def stand_ins(
    names: Iterable[str], is_legal: Callable[[str], bool], translate: Callable[[str], str], prefix: str
) -> list[str]:
    """Unique legal names, one per name: itself where legal, else its translation, else ``prefix`` and number.

    Examples
    --------
    >>> stand_ins(["y[0]", "y(0)", "a b"], lambda n: n.isidentifier() or "(" in n, lambda n: n, "x")
    ['x0', 'y(0)', 'x2']
    """
    originals = list(names)
    # Legal names keep themselves, wherever they stand; the others must keep clear of them.
    taken = Counter(name for name in originals if is_legal(name))
    result = []
    for position, name in enumerate(originals):
        if taken[name] == 1:
            result.append(name)
            continue
        stand_in = translate(name)
        if not is_legal(stand_in) or taken[stand_in]:
            stand_in = f"{prefix}{position}"
        while taken[stand_in]:
            stand_in += "_"
        taken[stand_in] += 1
        result.append(stand_in)
    return result


def natural_key(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Sort key that puts ``y_2`` before ``y_10``."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part)


def refuse_duplicates(what: str, names: Sequence[str]) -> None:
    """Raise if two variables (or two rows) bear the same name: names are how models are matched."""
    if len(set(names)) == len(names):
        return
    repeated = [name for name, count in Counter(names).items() if count > 1]
    raise DeclarationError(
        f"{what} names must be unique to be exported; used more than once: "
        f"{', '.join(map(repr, repeated[:5]))}. Rename them."
    )

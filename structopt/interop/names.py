"""Names in other modelling tools: recovery of arrays from names such as ``y[0,1]``, and unique substitutes.

Other tools have only a flat list of names. `blocks_of` recovers the arrays from it; `stand_ins` replaces each name
that a format cannot hold by a legal one, and the caller stores the original beside it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, product

from structopt.errors import DeclarationError

__all__ = ["Block", "blocks_of", "natural_key", "pulp_blocks_of", "refuse_duplicates", "stand_ins"]

#: One block of variables: its name, its shape, and the names of its elements where they are not the
#: default ``name[0]``, ``name[1]``, ... (for shape ``()``: ``name``).
Block = tuple[str, tuple[int, ...], "tuple[str, ...] | None"]

#: A name, the array it belongs to, and its index there (empty: it is a scalar).
Split = tuple[str, str, tuple[str, ...]]

# What PuLP makes of the key (0, 'a'): every one of - + [ ] > / and space is an underscore.
_TUPLE = re.compile(r"(?P<name>[^()]+)_\((?P<index>[^()]+)\)")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_INDEXED = re.compile(r"(?P<name>[^\[\]]+)\[(?P<index>[^\[\]]+)\]")


def blocks_of(names: Sequence[str], split: Callable[[str], Split] | None = None) -> list[Block]:
    """Group a flat sequence of variable names into arrays.

    A maximal contiguous run of names ``name[i]``, ``name[i,j]``, ... becomes one block if its indices
    are a full grid in C order; every other name becomes a scalar block of its own. The indices may be
    labels (``tag[noun]``) or consecutive integers from one, as often in Pyomo; then the element names
    are returned too.

    Parameters
    ----------
    names : sequence of str
        Names of all variables, in order.
    split : callable, optional
        Of a name: the name itself, the array's name and the index, which is empty for a scalar. By default ``y[0,1]``
        is element ``("0", "1")`` of ``y``.

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
    parts = map(split or _split, names)
    runs = [list(run) for _, run in groupby(parts, key=lambda part: (part[1], len(part[2])))]
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


def pulp_blocks_of(names: Sequence[str]) -> list[Block]:
    """`blocks_of` for the names that PuLP gives: ``tag_0``, ``x_0_1`` and ``x_(0,_1)``, also ``x_('a',_'b')``.

    Numbers at the end of a name are an index where they are the whole grid of an array of two or more elements that
    begins at 0 or 1, and no other variable bears the array's name; every other name is a scalar of its own. Labels
    are recognised only in parentheses: ``tag_noun`` is a scalar.

    Examples
    --------
    >>> pulp_blocks_of(["start_time", "tag_0", "tag_1", "tag_2", "x_1_1", "x_1_2", "x_2_1", "x_2_2"])
    [('start_time', (), None), ('tag', (3,), ('tag_0', 'tag_1', 'tag_2')), ('x', (2, 2), ('x_1_1', 'x_1_2', 'x_2_1',
    'x_2_2'))]
    >>> pulp_blocks_of(["y_0", "y_2", "z", "z_0", "z_1"])
    [('y_0', (), None), ('y_2', (), None), ('z', (), None), ('z_0', (), None), ('z_1', (), None)]
    """
    taken = set(names)
    found: list[Block] = []
    # x_1_0 may be element (1, 0) of x or element 0 of x_1: the longest index that makes a whole grid is taken.
    pending: list[Block] = [(name, (), None) for name in names]
    for length in (None, 2, 1):
        found = []
        for scalar, run in groupby(pending, key=lambda block: not block[1]):
            if not scalar:
                found.extend(run)
                continue
            found += _grouped([name for name, _, _ in run], length, taken)
        taken |= {name for name, shape, _ in found if shape}
        pending = found
    counts = Counter(name for name, _, _ in found)
    return [
        part
        for block in found
        for part in ([block] if counts[block[0]] == 1 else [(name, (), None) for name in block[2] or (block[0],)])
    ]


def _grouped(names: list[str], length: int | None, taken: set[str]) -> list[Block]:
    blocks: list[Block] = []
    start = 0
    for name, shape, _ in blocks_of(names, lambda full: _split_pulp(full, length)):
        stop = start + math.prod(shape)
        own = tuple(names[start:stop])
        start = stop
        if shape and (math.prod(shape) < 2 or name in taken or not _begins_at_0_or_1(own[0], length)):
            blocks += [(full, (), None) for full in own]
        else:
            blocks.append((name, shape, own if shape else None))
    return blocks


def _split_pulp(full: str, length: int | None) -> Split:
    """``x_0_1`` with an index of at most `length` numbers, or ``x_(0,_1)``."""
    match = _TUPLE.fullmatch(full)
    if match is not None:
        return full, match["name"], tuple(match["index"].split(",_"))
    parts = full.split("_")
    numbers = 0
    while numbers + 1 < len(parts) and numbers != length and _NUMBER.fullmatch(parts[-1 - numbers]):
        numbers += 1
    name = "_".join(parts[: len(parts) - numbers])
    return (full, name, tuple(parts[len(parts) - numbers :])) if numbers and name else (full, full, ())


def _begins_at_0_or_1(first: str, length: int | None) -> bool:
    index = _split_pulp(first, length)[2]
    return all(part in ("0", "1") or not part.isdecimal() for part in index)


def _split(full: str) -> Split:
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
    return tuple(
        (number, int(part) if number else 0, part)
        for part in parts
        if part
        for number in [part.isascii() and part.isdigit() and len(part) < 4000]
    )


def refuse_duplicates(what: str, names: Sequence[str]) -> None:
    """Raise if two variables (or two rows) bear the same name: names are how models are matched."""
    if len(set(names)) == len(names):
        return
    repeated = [name for name, count in Counter(names).items() if count > 1]
    raise DeclarationError(
        f"{what} names must be unique to be exported; used more than once: "
        f"{', '.join(map(repr, repeated[:5]))}. Rename them."
    )

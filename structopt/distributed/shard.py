"""A shard, as it is on a worker: one part of the data, what it knows about itself, and calls of functions with it."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from distributed.protocol import pickle

from structopt.errors import DeclarationError
from structopt.risks.risk import Risk
from structopt.stopping import deadline

__all__ = [
    "Load",
    "NotMoved",
    "Shard",
    "ShardInfo",
    "add_up",
    "call",
    "describe",
    "load_and_call",
    "load_part",
    "make_shard",
    "nbytes",
    "packed",
    "unpacked",
]

_T = TypeVar("_T")

#: ``load(k, n)`` makes part k of n on a worker: its risk, its risk and its mass, or None where there is no example.
Load = Callable[[int, int], Any]

# Shards larger than this are collected as soon as they have been used.
_LARGE = 1 << 16


@dataclass(eq=False)
class Shard:
    """One part of the data, where it was loaded.

    Attributes
    ----------
    k, n : int
        Its number, and the number of parts.
    risk : Risk
        Of its examples.
    mass : float
        Its weight in a mean over all parts: the number of its examples, or the sum of their weights.
    memory : dict
        What an algorithm keeps here between passes (dual variables, label caches). It goes with the shard to
        another worker, and is lost when its worker is.
    """

    k: int
    n: int
    risk: Risk
    mass: float
    memory: dict[str, Any] = field(default_factory=dict)


class ShardInfo(NamedTuple):
    """What the driver knows about a shard.

    Attributes
    ----------
    n_examples, n_features : int
    mass : float
    nbytes : int
        Of its arrays, about.
    kind : type
        Class of its risk.
    lower_bound : float
        Of its risk.
    is_smooth, has_line_search : bool
        As of its risk.
    is_part, is_mean : bool
        As of its risk: whether `Risk.shard` made it, and whether the mean of the parts' risks is the risk of all.
    text : str
        Its risk, for messages.
    """

    n_examples: int
    n_features: int
    mass: float
    nbytes: int
    kind: type[Risk]
    lower_bound: float
    is_smooth: bool
    has_line_search: bool
    is_part: bool
    is_mean: bool
    text: str


def make_shard(load: Load, k: int, n: int) -> Shard | None:
    """Part k of n, as `load` makes it."""
    found = load(k, n)
    if found is None:
        return None
    risk, mass = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(risk, Risk):
        raise DeclarationError(
            f"load({k}, {n}) returned {type(found).__name__}; it must return a Risk, a pair (Risk, mass), or None for "
            "a part without examples."
        )
    mass = float(len(risk)) if mass is None else float(mass)
    if not (math.isfinite(mass) and mass > 0):
        raise DeclarationError(f"load({k}, {n}) returned the mass {mass!r}, which must be positive and finite.")
    return Shard(k, n, risk, mass)


def load_part(k: int, *, load: Load, n: int) -> Shard | None:
    """`make_shard` with the number of the part first, to be mapped over them."""
    return make_shard(load, k, n)


def call(
    shard: Shard | None, own: tuple[Any, ...], *, function: Callable[..., Any], common: tuple[Any, ...], seconds: float
) -> Any:
    """The answer of one shard, within what is left of a time limit."""
    if shard is None:
        return None
    with deadline(seconds if math.isfinite(seconds) else None):
        return function(shard, *common, *own)


def load_and_call(k: int, own: tuple[Any, ...], *, load: Load, n: int, **options: Any) -> Any:
    """The answer of a shard that is not kept."""
    shard = make_shard(load, k, n)
    answer = call(shard, own, **options)
    if nbytes(shard) > _LARGE:  # what refers to itself stays until the collector comes, and the next one beside it
        del shard
        gc.collect()
    return answer


class NotMoved(Exception):
    """A shard cannot be pickled: it is loaded anew where it is wanted."""


def packed(shard: Shard | None) -> bytes | None:
    """A shard with its memory, on the way to another worker; None if it cannot be pickled."""
    try:
        found: bytes = pickle.dumps(shard)  # by value what the other worker cannot import
        return found
    except Exception:
        return None


def unpacked(found: bytes | None) -> Shard | None:
    """The shard on the other worker."""
    if found is None:
        raise NotMoved
    shard: Shard | None = pickle.loads(found)
    return shard


def describe(shard: Shard) -> ShardInfo:
    """What the driver is told about a shard."""
    risk = shard.risk
    return ShardInfo(
        len(risk),
        int(risk.n_features),
        shard.mass,
        nbytes(shard),
        type(risk),
        float(risk.lower_bound),
        bool(risk.is_smooth),
        bool(risk.has_line_search),
        bool(risk.is_part),
        bool(risk.is_mean),
        risk.fingerprint(),
    )


def add_up(parts: Iterable[_T], add: Callable[[_T, _T], _T]) -> _T:
    """Add parts in pairs, pairs of pairs and so on: an order that depends on nothing but their number.

    Examples
    --------
    >>> add_up("abcde", lambda left, right: f"({left}{right})")
    '(((ab)(cd))e)'
    """
    sums: list[tuple[int, _T]] = []  # of a falling number of parts, powers of two
    for part in parts:
        size, total = 1, part
        while sums and sums[-1][0] == size:
            before = sums.pop()
            size, total = 2 * size, add(before[1], total)
        sums.append((size, total))
    total = sums.pop()[1]
    while sums:
        total = add(sums.pop()[1], total)
    return total


def nbytes(thing: Any) -> int:
    """Bytes of the arrays that a thing holds, about.

    Examples
    --------
    >>> import numpy as np
    >>> nbytes({"a": np.zeros(10), "b": [np.zeros(2)] * 3})
    96
    """
    return _bytes(thing, set())


def _bytes(thing: Any, seen: set[int]) -> int:
    if isinstance(thing, np.ndarray):
        if id(thing) in seen:
            return 0
        seen.add(id(thing))
        base = thing.base
        return _bytes(base, seen) if isinstance(base, np.ndarray) and base.nbytes >= thing.nbytes else thing.nbytes
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic | type):
        return len(thing) if isinstance(thing, str | bytes) else 0
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if sp.issparse(thing):
        parts = [getattr(thing, name, None) for name in ("data", "indices", "indptr", "row", "col", "offsets")]
        return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
    if isinstance(thing, dict):
        return _bytes(list(thing.values()), seen)
    if isinstance(thing, list | tuple | set | frozenset):
        items = list(thing)
        few = items if len(items) <= 1000 else items[:: len(items) // 500]
        found = sum(_bytes(item, seen) for item in few)
        return found if len(few) == len(items) else found * len(items) // len(few)
    state = getattr(thing, "__dict__", None)
    return _bytes(list(state.values()), seen) if isinstance(state, dict) else 0


def _size_of_shard(shard: Shard) -> int:
    return max(1, nbytes(shard))


# dask takes an object that it does not know for a few bytes, and would neither spill shards nor place them well.
sizeof.register(Shard, _size_of_shard)

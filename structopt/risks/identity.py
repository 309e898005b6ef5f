"""Hashes of data, model and options, by which a checkpoint is matched with its training run.

A checkpoint holds weights, cutting planes and bounds of one problem. Resumed on another of the same shape (another fold
of a cross-validation, X after scaling, another loss) they would be reported with a meaningless gap. So everything that
determines the objective is hashed by content, whatever its form: dense and sparse matrices, lists of arrays.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["digest", "same"]

# Bytes of a strided array that are made contiguous at a time.
_CHUNK = 1 << 24


def digest(*things: Any) -> str:
    """Return a hash of the contents of arrays, matrices, containers and objects.

    Two equal contents have one hash, whatever their place in memory; values that objects compute once and keep
    (`functools.cached_property`) do not count.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0).reshape(2, 3)
    >>> digest(X) == digest(np.asfortranarray(X)), digest(X) == digest(2 * X)
    (True, False)
    >>> digest({"a": [1, None]}) == digest({"a": [1, 0]})
    False
    """
    hasher = hashlib.blake2b(digest_size=8)
    _Walk(hasher.update).add(things)
    return hasher.hexdigest()


def same(a: Any, b: Any) -> bool:
    """Return whether two JSON values agree; floats of a list up to the rounding of sums in another order.

    Examples
    --------
    >>> same({"scale": float("nan")}, {"scale": float("nan")})
    True
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        if len(a) == len(b) > 0 and all(isinstance(v, float) for v in (*a, *b)):
            u, v = np.array(a), np.array(b)
            size = max(
                np.abs(u).max(where=np.isfinite(u), initial=0.0), np.abs(v).max(where=np.isfinite(v), initial=0.0)
            )
            return bool(np.isclose(u, v, rtol=0.0, atol=1e-7 * size, equal_nan=True).all())
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b or (a != a and b != b))


class _Walk:
    """Feeds contents to a hash, each with its kind before it."""

    def __init__(self, update: Callable[[bytes], Any]) -> None:
        self._bytes = update
        self._inside: list[int] = []  # objects on the way here: a cycle ends at the second visit

    def _word(self, *words: object) -> None:
        self._bytes("\0".join(map(str, words)).encode(errors="surrogatepass") + b"\1")

    def add(self, thing: Any) -> None:
        """Hash one thing and all that it holds."""
        if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic, range)):
            value = thing.item() if isinstance(thing, np.generic) else thing
            self._word(type(value).__name__, repr(value))
        elif isinstance(thing, np.ndarray):
            self._array(thing)
        elif sp.issparse(thing):
            self._sparse(thing)
        elif id(thing) in self._inside:
            self._word("again", len(self._inside) - self._inside.index(id(thing)))
        else:
            self._inside.append(id(thing))
            self._other(thing)
            self._inside.pop()

    def _other(self, thing: Any) -> None:
        if isinstance(thing, Mapping):
            self._word("mapping", len(thing))
            for key in sorted(thing, key=repr):
                self.add(key)
                self.add(thing[key])
        elif isinstance(thing, list | tuple):
            self._word("sequence", len(thing))
            for item in thing:
                self.add(item)
        elif isinstance(thing, Set):
            self._word("set", *sorted(map(repr, thing)))
        elif isinstance(getattr(thing, "fingerprint", None), str):  # a label space has its own hash
            self._word("fingerprint", thing.fingerprint)
        elif hasattr(thing, "to_numpy"):  # pandas and its like
            self._array(np.asarray(thing))
        elif isinstance(thing, functools.partial):
            self.add((thing.func, thing.args, thing.keywords))
        elif isinstance(thing, type):
            self._word("type", thing.__module__, thing.__qualname__)
        elif callable(thing) and hasattr(thing, "__code__"):
            self._function(thing)
        else:
            self._object(thing)

    def _array(self, array: Any) -> None:
        if array.dtype.hasobject:
            self._word("objects", array.shape)
            self.add(array.ravel().tolist())
            return
        self._word("array", array.dtype.str, array.shape)
        if array.flags.c_contiguous:
            self._bytes(memoryview(array.reshape(-1).view(np.uint8)))  # type: ignore[arg-type]
            return
        if array.ndim < 2:
            self._bytes(array.tobytes())
            return
        rows = max(1, _CHUNK // max(1, array[:1].nbytes))
        for at in range(0, len(array), rows):
            self._bytes(array[at : at + rows].tobytes())

    def _sparse(self, matrix: Any) -> None:
        rows = sp.csr_array(matrix)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self._word("sparse", rows.shape)
        for part in (rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int64, copy=False), rows.data):
            self._array(part)

    def _function(self, function: Any) -> None:
        code = function.__code__
        self._word("function", function.__qualname__)
        self._code(code)
        cells = getattr(function, "__closure__", None) or ()
        self.add([cell.cell_contents for cell in cells])
        self.add(getattr(function, "__defaults__", None))

    def _code(self, code: Any) -> None:
        self._bytes(code.co_code)
        for constant in code.co_consts:
            if hasattr(constant, "co_code"):
                self._code(constant)
            else:
                self.add(constant)
        self._word("names", *code.co_names)

    def _object(self, thing: Any) -> None:
        kind = type(thing)
        self._word("object", kind.__module__, kind.__qualname__)
        state = thing.__getstate__() if hasattr(thing, "__getstate__") else None
        if isinstance(state, tuple):  # (attributes, slots)
            state = {**(state[0] or {}), **(state[1] or {})}
        if isinstance(state, Mapping):
            kept = {k: v for k, v in state.items() if not isinstance(_attribute(kind, k), functools.cached_property)}
            self.add(kept)
        elif state is None and not hasattr(thing, "__dict__"):
            self._word("opaque")
        else:
            self.add(state)


def _attribute(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)

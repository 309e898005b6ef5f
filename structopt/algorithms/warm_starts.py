"""Flows to start from, one per example, within a memory limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from structopt._jit import FloatArray
from structopt.algorithms.maxflow import FlowState

__all__ = ["WarmStarts"]

_LIMIT = 1 << 28


_S = TypeVar("_S", FlowState, FloatArray)


class WarmStarts(Generic[_S]):
    """The start of the next call, by the example's key; ``make(n)`` is an empty state of n examples."""

    def __init__(self, make: Callable[[int], _S]) -> None:
        self._make: Callable[[int], _S] = make
        self._single: dict[Hashable, _S] = {}
        self._batch: tuple[tuple[Hashable, ...], _S] | None = None
        self._size = max(1, int(make(1).nbytes))

    def __getitem__(self, key: Hashable) -> _S:
        state = self._single.get(key)
        if state is None:
            if len(self._single) * self._size > _LIMIT:
                self._single.pop(next(iter(self._single)))
            state = self._single[key] = self._make(1)
        return state

    def batch(self, keys: Sequence[Hashable] | None) -> _S | None:
        """The states of a whole batch, kept while it comes back with the same keys."""
        if not keys or len(keys) * self._size > _LIMIT:
            return None
        named = tuple(keys)
        if self._batch is None or self._batch[0] != named:
            self._batch = (named, self._make(len(named)))
        return self._batch[1]

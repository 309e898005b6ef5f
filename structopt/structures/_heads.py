"""Heads of the tokens of a sentence: what may be wrong with them, and the flow along them."""

from __future__ import annotations

import numpy as np

from structopt._jit import IntArray, kernel
from structopt.errors import LabelNotInSpace
from structopt.space.compiled import FloatArray

__all__ = ["complaint", "fault", "fill"]

_OUTSIDE, _SELF, _CYCLE, _ROOTS, _CROSS = 1, 2, 3, 4, 5


@kernel
def fault(heads: IntArray, single_root: bool, projective: bool) -> tuple[int, int, int]:
    """What is wrong with heads, and the tokens concerned; 0 if nothing is."""
    n = heads.size
    for m in range(1, n + 1):
        if heads[m - 1] < 0 or heads[m - 1] > n:
            return _OUTSIDE, m, heads[m - 1]
        if heads[m - 1] == m:
            return _SELF, m, m
    mark = np.zeros(n + 1, np.int64)
    mark[0] = -1
    for m in range(1, n + 1):
        v = m
        while mark[v] == 0:
            mark[v] = m
            v = heads[v - 1]
        if mark[v] == m:
            return _CYCLE, v, v
        v = m
        while mark[v] == m:
            mark[v] = -1
            v = heads[v - 1]
    if single_root:
        first = 0
        for m in range(1, n + 1):
            if heads[m - 1] == 0:
                if first:
                    return _ROOTS, first, m
                first = m
    if projective:
        for m in range(1, n + 1):
            low, high = min(m, heads[m - 1]), max(m, heads[m - 1])
            for k in range(1, m):
                start, stop = min(k, heads[k - 1]), max(k, heads[k - 1])
                if low < start < high < stop or start < low < stop < high:
                    return _CROSS, k, m
    return 0, 0, 0


def complaint(heads: IntArray, code: int, first: int, second: int) -> LabelNotInSpace:
    names: tuple[str, ...] = (str(first), str(second))
    if code == _OUTSIDE:
        message = f"The head of token {first} is {second}; heads are 0 (the root) to {heads.size}."
    elif code == _SELF:
        message = f"Token {first} is its own head; a token that hangs from the root has head 0."
    elif code == _CYCLE:
        cycle = [first]
        while heads[cycle[-1] - 1] != first:
            cycle.append(int(heads[cycle[-1] - 1]))
        names = tuple(map(str, cycle))
        message = f"The heads form a cycle, token by token {' -> '.join([*names, names[0]])}, which never reaches 0."
    elif code == _ROOTS:
        message = f"Tokens {first} and {second} both hang from the root; single_root=True allows one."
    else:
        arcs = [f"{heads[k - 1]} -> {k}" for k in (first, second)]
        message = f"The arcs {arcs[0]} and {arcs[1]} cross; projective=True forbids it."
    return LabelNotInSpace(message, names)


@kernel
def fill(heads: IntArray, arc: FloatArray, flow: FloatArray, multi: bool) -> None:
    """Arcs of a tree and the flow on them: one unit from the root to every token."""
    for k in range(1, heads.size + 1):
        arc[heads[k - 1], k] = 1.0
        v = k
        while v:
            h = heads[v - 1]
            flow[k - 1 if multi else 0, h, v] += 1.0
            v = h

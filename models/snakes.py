"""The way of a snake over a picture: ten cells of a grid, one after the other (the task of Nowozin et al., 2011).

The picture has a colour for every cell: the ground, or the direction in which the snake goes on. A label says which cell
is which part of the snake, ``(cells, 10)`` of 0 and 1. It is declared as a path through ten copies of the grid: `at` are
its nodes and `step` its arcs, so that no rows are needed for what is next to what, and the best label is found by a
dynamic program that nobody wrote for snakes. A part scores by the colours around its cell, a step by its direction and
the colours of its two cells; the loss is the number of wrong entries of `at`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import structopt as so

PARTS = 10
#: The colours of a cell: the ground, and the directions right, left, down, up.
COLOURS = 5
STEPS = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])


@cache
def arcs(height: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps between neighbouring cells: from, to, direction."""
    row, column = (place.ravel() for place in np.indices((height, width)))
    found = []
    for direction, (down, right) in enumerate(STEPS):
        inside = (0 <= row + down) & (row + down < height) & (0 <= column + right) & (column + right < width)
        cell = np.flatnonzero(inside)
        found.append([cell, cell + down * width + right, np.full(cell.size, direction)])
    tail, head, direction_of = np.concatenate([np.array(part) for part in found], axis=1)
    return tail, head, direction_of


def declare(x: dict[str, Any]) -> so.LabelSpace:
    height, width = x["shape"]
    tail, head, _ = arcs(height, width)
    every = np.arange(tail.size)
    leaves, arrives = (
        sp.csr_array((np.ones(tail.size), (end, every)), shape=(height * width, tail.size)) for end in (tail, head)
    )
    space = so.LabelSpace(f"snakes of {PARTS} cells in a grid of {height} x {width}")
    at = space.binary("at", (height * width, PARTS))
    step = space.binary("step", (tail.size, PARTS - 1))
    space.subject_to(at[:, 0].sum() == 1, name="one head")
    space.subject_to(leaves @ step == at[:, :-1], name="goes on")
    space.subject_to(arrives @ step == at[:, 1:], name="comes from")
    return space


def shape_of(x: dict[str, Any]) -> tuple[int, int]:
    height, width = x["shape"]
    return int(height), int(width)


def model() -> so.Model:
    features = {"at": so.features.Table("cells"), "step": so.features.Shared("steps")}
    return so.Model(declare, features, {"at": so.losses.Hamming()}, key=shape_of)


def picture(colours: np.ndarray) -> dict[str, Any]:
    """The input of a grid of colours: those around every cell, and those at both ends of every step by direction."""
    height, width = colours.shape
    framed = np.pad(colours, 1, constant_values=COLOURS)
    around = [framed[i : i + height, j : j + width].ravel() for i in range(3) for j in range(3)]
    cells = np.concatenate([np.eye(COLOURS + 1)[near] for near in around], axis=1)
    tail, head, direction = arcs(height, width)
    ends = [np.eye(4 * COLOURS)[direction * COLOURS + colours.ravel()[end]] for end in (tail, head)]
    return {"shape": (height, width), "cells": cells, "steps": np.repeat(np.hstack(ends), PARTS - 1, axis=0)}


def label(parts: np.ndarray) -> np.ndarray:
    """The label of a grid that says 1, ..., 10 where the snake is and 0 elsewhere."""
    return np.eye(PARTS + 1, dtype=np.int64)[np.asarray(parts).ravel()][:, 1:]


def data(n: int = 40, seed: int = 0) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
    """Snakes that do not cross themselves, in grids of 5 x 6 to 7 x 7, and one cell in ten of a wrong colour."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    while len(X) < n:
        height, width = int(rng.integers(5, 8)), int(rng.integers(6, 8))
        colours, parts = np.zeros((2, height, width), dtype=np.int64)
        place, grown = np.array([rng.integers(height), rng.integers(width)]), 0
        for part in range(1, PARTS + 1):
            parts[tuple(place)] = part
            free = [
                k
                for k, to in enumerate(place + STEPS)
                if (to >= 0).all() and (to < (height, width)).all() and parts[tuple(to)] == 0
            ]
            if part == PARTS:
                colours[tuple(place)], grown = 1 + int(rng.integers(4)), part
            elif free:
                chosen = int(rng.choice(free))
                colours[tuple(place)] = 1 + chosen
                place = place + STEPS[chosen]
            else:
                break
        if grown == PARTS:
            wrong = rng.random(colours.shape) < 0.1
            X.append(picture(np.where(wrong, rng.integers(0, COLOURS, colours.shape), colours)))
            Y.append(label(parts))
    return X, Y

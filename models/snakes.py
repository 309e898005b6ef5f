"""The way of a snake over a picture: ten cells, one next to the other (Nowozin et al., 2011).

The picture has a colour for every cell: the ground, or the direction in which the snake goes on. A label says which
cell is which part of the snake, ``(cells, 10)`` of 0 and 1. It is declared as a path through ten copies of the grid,
with the nodes `at` and the arcs `step`, so that the best one is found by a dynamic program. A part scores by the
colours around its cell, a step by its direction and the colours of its two cells.
"""

from __future__ import annotations

import numpy as np

import structopt as so

PARTS, COLOURS = 10, 5  # the ground, right, left, down, up


def arcs(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps between neighbouring cells: from, to, direction."""
    cell = np.arange(shape[0] * shape[1]).reshape(shape)
    ways = (cell[:, :-1], cell[:, 1:]), (cell[:, 1:], cell[:, :-1]), (cell[:-1], cell[1:]), (cell[1:], cell[:-1])
    tail, head = (np.concatenate([way[end].ravel() for way in ways]) for end in (0, 1))
    return tail, head, np.repeat(np.arange(4), [way[0].size for way in ways])


def grid(x: dict) -> so.LabelSpace:
    n, (tail, head, _) = len(x["cells"]), arcs(x["shape"])
    leaves, arrives = (np.equal.outer(np.arange(n), end).astype(float) for end in (tail, head))
    space = so.LabelSpace(f"snakes in a grid of {x['shape']}")
    at, step = space.binary("at", (n, PARTS)), space.binary("step", (tail.size, PARTS - 1))
    space.subject_to(at[:, 0].sum() == 1, name="one head")
    space.subject_to(leaves @ step == at[:, :-1], arrives @ step == at[:, 1:], name="walks")
    return space


def shape(x: dict) -> tuple[int, int]:
    return tuple(x["shape"])


def model() -> so.Model:
    scores = {"at": so.features.Table("cells"), "step": so.features.Table("steps")}
    return so.Model(grid, scores, {"at": so.losses.Hamming()}, key=shape)


def picture(colours: np.ndarray) -> dict:
    """The input: colours around every cell, and those at both ends of every step by its direction."""
    (height, width), framed = colours.shape, np.pad(colours, 1, constant_values=COLOURS)  # outside is one more
    around = [framed[i : i + height, j : j + width].ravel() for i in range(3) for j in range(3)]
    tail, head, way = arcs((height, width))
    ends = [np.eye(4 * COLOURS)[way * COLOURS + colours.ravel()[end]] for end in (tail, head)]
    return {"shape": (height, width), "cells": np.hstack(np.eye(COLOURS + 1)[around]), "steps": np.hstack(ends)}


def data(n: int = 40, seed: int = 0) -> tuple[list[dict], list[np.ndarray]]:
    """Grids of 3 x 4 to 5 x 5 random colours, and the snakes that follow them best, up to a little noise."""
    rng, snake = np.random.default_rng(seed), model()
    X = [picture(rng.integers(0, COLOURS, size)) for size in rng.integers((3, 4), (6, 6), (n, 2))]
    step = np.append(np.eye(4, COLOURS, 1), np.zeros((4, COLOURS)))  # goes where the colour of its first cell says
    follows = np.append(np.zeros(9 * (COLOURS + 1) * PARTS), np.tile(step, PARTS - 1))
    return X, [snake.predict(follows + 0.1 * rng.normal(size=follows.size), x) for x in X]

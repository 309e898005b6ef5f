"""Random spaces compiled into decision diagrams: every answer against the list of all labels.

A case declares 2 to 9 variables with rows of one of many kinds of coefficients (unit, integer, decimal, floats, nearly
integer), equality and range rows, integers with negative bounds, fixed variables, one-of groups, independent blocks, or
continuous variables that follow from the integer ones (products, marginals, sums). The labels are listed by brute force
over all integer points, judged by ``contains``.
"""

from __future__ import annotations

import itertools

import numpy as np

import structopt as so
from structopt.errors import DeclarationError, DiagramRefused, InfeasibleSpace

INF = np.inf
#: Integer points that are listed.
MOST_POINTS = 30_000


def integer_space(rng: np.random.Generator) -> so.LabelSpace:
    """Integer variables only."""
    n, m = int(rng.integers(2, 10)), int(rng.integers(0, 6))
    lower, upper = np.zeros(n), np.ones(n)
    if rng.random() < 0.35:
        wide = rng.random(n) < 0.4
        lower[wide] = rng.integers(-3, 2, int(wide.sum()))
        upper[wide] = lower[wide] + rng.integers(0, 4, int(wide.sum()))
    while np.prod(upper - lower + 1) > MOST_POINTS:
        lower[-1], upper[-1] = 0.0, 1.0
        lower, upper = np.roll(lower, 1), np.roll(upper, 1)
        if (upper - lower <= 1).all():
            break
    fixed = rng.random(n) < rng.choice([0.0, 0.1, 0.3])
    upper[fixed] = lower[fixed]
    kind = rng.choice(["unit", "integer", "decimal", "float", "nearly", "large", "small"])
    A = np.zeros((m, n))
    for i in range(m):
        inside = rng.random(n) < rng.choice([0.4, 0.7, 1.0])
        if kind == "unit":
            row = rng.choice([-1.0, 1.0], n) if rng.random() < 0.4 else np.ones(n)
        elif kind == "integer":
            row = rng.integers(-9, 10, n).astype(float)
        elif kind == "decimal":
            row = np.round(rng.uniform(-3, 3, n), int(rng.integers(1, 4)))
        elif kind == "float":
            row = rng.normal(size=n)
        elif kind == "nearly":
            row = rng.integers(1, 6, n) + rng.choice([0.0, 1e-9, -1e-7, 1e-13], n)
        elif kind == "large":
            row = rng.integers(-9, 10, n) * 10.0 ** rng.integers(3, 7)
        else:
            row = rng.integers(-9, 10, n) * 1e-7
        if rng.random() < 0.4:
            row = np.abs(row) * rng.choice([-1.0, 1.0])
        A[i] = row * inside
    point = np.array([rng.integers(low, up + 1) for low, up in zip(lower, upper, strict=True)])
    activity = A @ point
    unit = np.abs(A).max(axis=1, initial=0.0)
    lo, up = np.full(m, -INF), np.full(m, INF)
    for i in range(m):
        slack = float(rng.integers(0, 4)) * unit[i] * float(rng.choice([0.5, 1.0]))
        side = rng.random()
        if side < 0.5:
            up[i] = activity[i] + slack
        elif side < 0.75:
            lo[i] = activity[i] - slack
        elif side < 0.9:
            lo[i], up[i] = activity[i] - slack, activity[i] + slack
        else:
            lo[i] = up[i] = activity[i]
        if rng.random() < 0.1:  # just beside an activity
            up[i] += float(rng.choice([-1e-3, -1e-6, -1e-9, 1e-9])) * max(unit[i], 1e-9)
    up = np.maximum(lo, up)
    if rng.random() < 0.4 and m:  # one-of rows
        order = rng.permutation(n)
        A[0] = 0.0
        A[0, order[: int(rng.integers(2, n + 1))]] = rng.choice([-1.0, 1.0, 2.0])
        lo[0] = up[0] = A[0].sum() / max(1, np.count_nonzero(A[0]))
        if rng.random() < 0.1:
            lo[0], up[0] = 1.3, 1.4
    if rng.random() < 0.3 and n >= 4:  # two blocks
        half = n // 2
        for i in range(m):
            A[i, :half] *= i % 2
            A[i, half:] *= 1 - i % 2
        free = A.any(axis=1)
        A, lo, up = A[free], lo[free], up[free]
        ok = (lo <= up) & ~((lo == up) & (np.abs(A).sum(axis=1) == 0))
        A, lo, up = A[ok], lo[ok], up[ok]
    keep = A.any(axis=1)
    return so.LabelSpace.from_matrices(A[keep], lo[keep], up[keep], lower, upper, 1)


def mixed_space(rng: np.random.Generator) -> so.LabelSpace:
    """Continuous variables, which may or may not follow from the integer ones."""
    space = so.LabelSpace()
    n = int(rng.integers(2, 6))
    y = space.binary("y", n)
    kind = str(rng.choice(["products", "loose products", "marginals", "sums", "absolute"]))
    if kind in ("products", "loose products"):
        pairs = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.6] or [(0, 1)]
        i, j = np.array(pairs).T
        p = space.continuous("p", len(pairs), 0, 1)
        space.subject_to(p <= y[i], p <= y[j])
        if kind == "products":
            space.subject_to(p >= y[i] + y[j] - 1)
        if rng.random() < 0.5:
            space.subject_to(p.sum() <= float(rng.integers(0, 3)) + float(rng.choice([0.0, 0.5])))
    elif kind == "marginals":
        space = so.LabelSpace()
        states, length = int(rng.integers(2, 4)), int(rng.integers(2, 4))
        y = space.binary("y", (length, states))
        p = space.continuous("p", (length - 1, states, states), 0, 1)
        space.subject_to(y.sum(axis=1) == (1 if rng.random() < 0.8 else 2))
        space.subject_to(p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
        n = states * length
    elif kind == "sums":
        x = space.continuous("x", 2, -5, 5 if rng.random() < 0.7 else INF)
        w = rng.normal(size=(2, n)) if rng.random() < 0.5 else rng.integers(-2, 3, (2, n)).astype(float)
        space.subject_to(x[0] == w[0] @ y + 0.5)
        space.subject_to(x[1] - x[0] == w[1] @ y)
    else:
        x = space.continuous("x", (), 0, 10)
        w = rng.integers(-2, 3, n).astype(float)
        space.subject_to(x >= w @ y, x >= -(w @ y))
        if rng.random() < 0.7:
            space.subject_to(x <= float(rng.integers(0, 2)))
    if rng.random() < 0.6:
        flat = y if kind != "marginals" else y[0]
        space.subject_to(flat.sum() <= float(rng.integers(1, 4)))
    return space


def listed(space: so.LabelSpace) -> np.ndarray:
    """All labels of a space of integer variables, in lexicographic order."""
    compiled = space.compiled
    low, up = np.ceil(compiled.lower - 1e-6), np.floor(compiled.upper + 1e-6)
    axes = [np.arange(a, b + 1) for a, b in zip(low, up, strict=True)]
    points = np.array(list(itertools.product(*axes)), dtype=float).reshape(-1, len(low))
    matrix = compiled.matrix.toarray()
    activity, size = points @ matrix.T, np.abs(points) @ np.abs(matrix).T
    room = 1e-6 * np.maximum(compiled.row_units, size)
    fits = (activity <= compiled.row_upper + room) & (activity >= compiled.row_lower - room)
    return np.asarray(points[fits.all(axis=1)])


def case(seed: int) -> str:
    """Compile one space and compare every answer with the list of its labels."""
    rng = np.random.default_rng(seed)
    space = mixed_space(rng) if rng.random() < 0.3 else integer_space(rng)
    try:
        labels = listed(space) if space.integrality.all() else space.enumerate()
    except DeclarationError:
        labels = None  # not determined: the diagram must be refused
    try:
        oracle = so.Oracle(space, "diagram")
    except DiagramRefused as refusal:
        return f"refused: {refusal.reason}"
    except InfeasibleSpace:
        assert labels is not None and not len(labels), "a space with labels is called empty"
        return "empty"
    assert labels is not None, "a diagram of a space whose continuous variables are not determined"
    assert np.array_equal(np.unique(space.enumerate(), axis=0), np.unique(labels, axis=0)), "other labels are listed"
    report = so.testing.check_oracle(oracle, answers=~so.Question(0), n=2, random_state=seed)
    assert report.ok, report.failed
    return "compiled"

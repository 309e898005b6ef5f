"""One-of-many groups on forests, and near-misses of them, against HiGHS and enumeration.

Groups of two or three states, joined by pair variables with marginal rows or by rows ``y + y' <= 1``; now and then a
row is missing, repeated, scaled or foreign, an edge closes a cycle, a group may stay empty, or pairs are forbidden.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import structopt as so
from structopt.errors import InfeasibleSpace, UnboundedObjective


def declare(rng: np.random.Generator) -> so.LabelSpace:
    """A random space of groups, mostly on a forest."""
    n_groups = int(rng.integers(2, 6))
    sizes = rng.integers(2, 4, n_groups).tolist()
    space = so.LabelSpace("groups")
    integer = rng.random() < 0.7
    groups = [
        space.binary(f"y{g}", size) if integer else space.continuous(f"y{g}", size, 0, 1)
        for g, size in enumerate(sizes)
    ]
    edges = [
        (g - 1 if rng.random() < 0.4 else int(rng.integers(g)), g) for g in range(1, n_groups) if rng.random() < 0.92
    ]
    if rng.random() < 0.1 and n_groups > 2:
        edges.append((0, n_groups - 1))
    linked = set()
    for number, (a, b) in enumerate(edges):
        if rng.random() < 0.3 and integer:
            for _ in range(int(rng.integers(1, sizes[a] * sizes[b] + 1))):
                space.subject_to(groups[a][int(rng.integers(sizes[a]))] + groups[b][int(rng.integers(sizes[b]))] <= 1)
            continue
        first, second = np.nonzero(rng.random((sizes[a], sizes[b])) < rng.choice([1.0, 0.8, 0.5]))
        if not first.size:
            continue
        linked.add(b)
        upper = float(rng.choice([1, 2, np.inf]))
        name = f"p{number}"
        pair = space.binary(name, first.size) if rng.random() < 0.2 else space.continuous(name, first.size, 0, upper)
        for group, ends in ((groups[a], first), (groups[b], second)):
            scale = float(rng.choice([1, 1, 3, -0.5]))
            for s in range(group.shape[0]):
                total = pair[np.flatnonzero(ends == s)].sum() if (ends == s).any() else 0 * pair[0]
                if rng.random() > 0.02:  # now and then a row is missing
                    space.subject_to(scale * total == scale * group[s])
    every = rng.random() < 0.5
    for g, group in enumerate(groups):
        if every or g == 0 or g not in linked or rng.random() < 0.1:
            space.subject_to(group.sum() == 1 if rng.random() < 0.97 else group.sum() <= 1)
    last, middle = groups[-1], groups[n_groups // 2]
    foreign = [
        lambda: groups[int(rng.integers(n_groups))][0] <= int(rng.integers(2)),
        lambda: groups[0][0] == last[0],
        lambda: groups[0][0] + last[0] + middle[1] <= 1,
        lambda: groups[0].sum() == 1,
    ]
    for row in foreign:
        if rng.random() < 0.05:
            space.subject_to(row())
    return space


def case(seed: int) -> str:
    """One space under three objectives."""
    rng = np.random.default_rng(seed)
    space = declare(rng)
    structure = space.structure
    parts = ", ".join(sorted({part.kind for part in structure.parts}))
    kind = f"{structure.kind} of {parts}" if parts else structure.kind
    fast, solver = so.Oracle(space), so.Oracle(space, "highs", integral="force")
    # Made once for all objectives: they are half of the time.
    relaxed = cache(lambda: so.Oracle(space.relaxed(), "highs"))
    listed = cache(lambda: space.enumerate(limit=20_000))
    for k in range(3):
        c = rng.normal(size=space.n_variables)
        if k == 0:
            c = np.rint(c)  # ties
        found, wanted = _best(fast, c), _best(solver, c)
        if found == "unbounded" or wanted == "unbounded":  # a missing row, and pair variables without an upper bound
            assert found == wanted, (found, wanted, structure)
            return f"{kind}, unbounded"
        assert (found is None) == (wanted is None), (found, wanted, structure)
        if found is None or wanted is None:
            return f"{kind}, infeasible"
        assert isinstance(found, so.Label) and isinstance(wanted, so.Label)
        assert abs(found.value - wanted.value) < 1e-7, (found, wanted, structure)
        assert space.contains(found.z)
        if structure.integral:
            relaxation = relaxed().maximize(c)
            assert abs(relaxation.value - found.value) < 1e-7, (relaxation, found, structure)
        _check_lists(space, fast, solver, c, listed, rng)
    return kind


def _best(oracle: so.Oracle, c: np.ndarray) -> so.Label | str | None:
    try:
        return oracle.maximize(c)
    except InfeasibleSpace:
        return None
    except UnboundedObjective:
        return "unbounded"


def _check_lists(
    space: so.LabelSpace,
    fast: so.Oracle,
    solver: so.Oracle,
    c: np.ndarray,
    listed: Callable[[], np.ndarray],
    rng: np.random.Generator,
) -> None:
    """The k best by value, and the front of a counted loss."""
    if space.integrality.any() and rng.random() < 0.3:
        values = [[label.value for label in oracle.k_best(c, 3)] for oracle in (fast, solver)]
        assert np.allclose(values[0], values[1], atol=1e-7), values
    if not space.integrality.all() or rng.random() < 0.5:
        loss = np.where(
            [name.startswith("y") for name in space.variable_names], rng.integers(0, 3, space.n_variables), 0.0
        )
        front = fast.front((c, 0.0), (loss, 0.0))
        if front is not None and np.isfinite(space.upper).all():
            assert all(space.contains(z) for z in front)
            states = [space[name].slice for name in space.block_names if name.startswith("y")]
            if all(space.integrality[block].all() for block in states):
                labels = listed()
                h, g = labels @ c, labels @ loss
                best = ((h - h.min() + 1) * (g + 1)).max()
                assert abs(((front @ c - h.min() + 1) * (front @ loss + 1)).max() - best) < 1e-6 * max(1.0, best)

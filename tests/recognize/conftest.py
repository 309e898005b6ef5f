"""Small declarations of every kind, and the consequences of what is recognised in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from structopt.errors import InfeasibleSpace
from structopt.oracle import Oracle
from structopt.recognize import Structure
from structopt.space.compiled import CompiledSpace

INF = np.inf
Declaration = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def make_space(A, row_lower, row_upper, lower=0.0, upper=1.0, integrality=True) -> CompiledSpace:
    A = sp.csr_array(np.atleast_2d(np.asarray(A, dtype=float)) if not sp.issparse(A) else A, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    m, n = A.shape

    def full(value, size, dtype=float):
        return np.broadcast_to(np.asarray(value, dtype=dtype), (size,)).copy()

    return CompiledSpace(
        A,
        full(row_lower, m),
        full(row_upper, m),
        full(lower, n),
        full(upper, n),
        full(integrality, n, bool),
        [f"x{j}" for j in range(n)],
        [f"r{i}" for i in range(m)],
    )


def build(rows: list[tuple[dict[int, float], float, float]], n: int) -> Declaration:
    A = np.zeros((len(rows), n))
    for i, (entries, _, _) in enumerate(rows):
        for j, a in entries.items():
            A[i, j] = a
    lower = np.array([low for _, low, _ in rows], dtype=float)
    upper = np.array([up for _, _, up in rows], dtype=float)
    return A, lower, upper, np.zeros(n), np.ones(n), np.ones(n, dtype=bool)


# Declarations, one function of a random generator each.


def declare_box(rng) -> Declaration:
    n = int(rng.integers(1, 7))
    A, lo, up, lower, upper, integer = build([], n)
    return A.reshape(0, n), lo, up, lower - rng.integers(0, 3, n), upper + rng.integers(0, 3, n), integer


def declare_simplices(rng) -> Declaration:
    n, g = int(rng.integers(4, 9)), 2
    group = np.concatenate([[0, 0, 1, 1], rng.integers(-1, g, n - 4)])
    rows = []
    for k in range(g):
        low = 1.0 if rng.random() < 0.5 else [0.0, -INF, -2.0][rng.integers(3)]
        rows.append(({int(j): 1.0 for j in np.flatnonzero(group == k)}, low, 1.0))
    return build(rows, n)


def declare_cardinality(rng) -> Declaration:
    n = int(rng.integers(5, 9))
    group = np.concatenate([[0, 0, 0], rng.integers(0, 2, n - 3)])
    rows = []
    for k in range(2):
        members = np.flatnonzero(group == k)
        if members.size >= 2:
            low = int(rng.integers(0, members.size))
            rows.append(({int(j): 1.0 for j in members}, low, float(rng.integers(low, members.size + 1))))
    members = np.flatnonzero(group == 0)
    rows[0] = ({int(j): 1.0 for j in members}, 1.0, 2.0)
    return build(rows, n)


def declare_closure(rng) -> Declaration:
    n = int(rng.integers(3, 8))
    rows = []
    for c in range(1, n):
        for p in rng.choice(c, size=min(c, int(rng.integers(1, 3))), replace=False):
            low = [-INF, -1.0, -2.0, 0.0][rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])]
            rows.append(({c: 1.0, int(p): -1.0}, low, 0.0))
    return build(rows, n)


def declare_forest(rng) -> Declaration:
    n = int(rng.integers(3, 8))
    return build([({c: 1.0, int(rng.integers(c)): -1.0}, -INF, 0.0) for c in range(1, n)], n)


def declare_pairwise(rng) -> Declaration:
    n = int(rng.integers(2, 5))
    pairs = [e for e in itertools.combinations(range(n), 2) if rng.random() < 0.8] or [(0, 1)]
    rows = []
    for e, (j, k) in enumerate(pairs):
        p = n + e
        rows += [({p: 1, j: -1}, -INF, 0.0), ({p: 1, k: -1}, -1.0, 0.0)]
        rows.append(({p: 1, j: -1, k: -1}, -1.0, [INF, 0.0, 1.0][rng.integers(3)]))
    A, lo, up, lower, upper, integer = build(rows, n + len(pairs))
    integer[n:] = rng.random() < 0.5
    if rng.random() < 0.5:
        integer[:] = False
    return A, lo, up, lower, upper, integer


def declare_assignment(rng) -> Declaration:
    n, m = 2, int(rng.integers(2, 5))
    cells = [(i, j) for i in range(n) for j in range(m) if rng.random() < 0.85 or i == j]
    columns = {cell: k for k, cell in enumerate(cells)}
    rows = [({columns[i, j]: 1.0 for j in range(m) if (i, j) in columns}, 1.0, 1.0) for i in range(n)]
    rows += [({columns[i, j]: 1.0 for i in range(n) if (i, j) in columns}, 0.0, 1.0) for j in range(m)]
    return build([row for row in rows if row[0]], len(cells))


def declare_path(rng) -> Declaration:
    n = int(rng.integers(3, 6))
    arcs = [(i, j) for i in range(n) for j in range(i + 1, n) if j == i + 1 or rng.random() < 0.5]
    supply = np.zeros(n)
    supply[0], supply[-1] = 1, -1
    rows = []
    for v in range(n):
        entries = {k: float((a == v) - (b == v)) for k, (a, b) in enumerate(arcs) if v in (a, b)}
        rows.append((entries, supply[v], supply[v]))
    if rng.random() < 0.5:
        del rows[int(rng.integers(n))]
    A, lo, up, lower, _, integer = build(rows, len(arcs))
    return A, lo, up, lower, np.full(len(arcs), [1.0, INF, 3.0][rng.integers(3)]), integer


def declare_tree(rng) -> Declaration:
    n = int(rng.integers(4, 9))
    parent = [-1] + [int(rng.integers(max(0, i - 3), i)) for i in range(1, n)]
    rows: list[tuple[dict[int, float], float, float]] = []
    for p in range(n):
        children = [c for c in range(n) if parent[c] == p]
        rows += [({c: 1.0, p: -1.0}, -INF, 0.0) for c in children]
        if children:
            rows.append(({**dict.fromkeys(children, 1.0), p: -1.0}, 0.0, INF))
    A, lo, up, lower, upper, integer = build(rows, n)
    lower[0] = 1.0
    return A, lo, up, lower, upper, integer


def declare_flow(rng) -> Declaration:
    n = 4
    arcs = [(i, j) for i in range(n) for j in range(n) if i != j and rng.random() < 0.7]
    flow = rng.integers(0, 3, len(arcs))
    rows = []
    for v in range(n):
        entries = {k: float((a == v) - (b == v)) for k, (a, b) in enumerate(arcs) if v in (a, b)}
        supply = float(sum(e * flow[k] for k, e in entries.items()))
        if entries:
            rows.append((entries, supply, supply))
    A, lo, up, lower, upper, integer = build(rows, len(arcs))
    return A, lo, up, lower, upper + rng.integers(1, 3, len(arcs)), integer


def declare_groups(rng) -> Declaration:
    """Groups of two or three states on a tree: pair variables with their marginals, some pairs forbidden."""
    n_groups = int(rng.integers(2, 5))
    sizes = rng.integers(2, 4, n_groups)
    first = np.concatenate([[0], np.cumsum(sizes)])
    rows = [({int(first[g] + s): 1.0 for s in range(sizes[g])}, 1.0, 1.0) for g in range(n_groups)]
    n = int(first[-1])
    for g in range(1, n_groups):
        p = int(rng.integers(g))
        allowed = rng.random((sizes[p], sizes[g])) < 0.8
        allowed[0] = allowed[:, 0] = True
        number = {pair: n + k for k, pair in enumerate(zip(*np.nonzero(allowed), strict=True))}
        for s in range(sizes[p]):
            rows.append(({**{k: 1.0 for (a, _), k in number.items() if a == s}, int(first[p] + s): -1.0}, 0.0, 0.0))
        for s in range(sizes[g]):
            rows.append(({**{k: 1.0 for (_, b), k in number.items() if b == s}, int(first[g] + s): -1.0}, 0.0, 0.0))
        n += len(number)
    return build(rows, n)


DECLARATIONS: dict[str, Callable[..., Declaration]] = {
    "box": declare_box,
    "simplices": declare_simplices,
    "cardinality": declare_cardinality,
    "closure": declare_closure,
    "forest": declare_forest,
    "pairwise": declare_pairwise,
    "assignment": declare_assignment,
    "path": declare_path,
    "tree": declare_tree,
    "flow": declare_flow,
    "group forest": declare_groups,
}


def disguise(rng, declaration: Declaration) -> Declaration:
    """The same space with rows and columns shuffled, rows scaled and negated."""
    A, lo, up, lower, upper, integer = declaration
    rows, columns = rng.permutation(A.shape[0]), rng.permutation(A.shape[1])
    A, lo, up = A[rows][:, columns], lo[rows], up[rows]
    factor = rng.choice([0.5, 1.0, 1.0, 2.0, 3.0], A.shape[0])
    A, lo, up = A * factor[:, None], lo * factor, up * factor
    negative = rng.random(A.shape[0]) < 0.4
    A = np.where(negative[:, None], -A, A)
    return A, np.where(negative, -up, lo), np.where(negative, -lo, up), lower[columns], upper[columns], integer[columns]


def mutate(rng, declaration: Declaration) -> Declaration:
    """One entry, bound, row or integrality mark changed."""
    A, lo, up, lower, upper, integer = (np.array(part) for part in declaration)
    m, n = A.shape
    j = int(rng.integers(n))
    what = int(rng.integers(8)) if m else int(rng.integers(6, 8))
    i = int(rng.integers(m)) if m else 0
    if what == 0:
        A[i, j] = rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
    elif what == 1:
        lo[i] = min(lo[i] + rng.choice([-INF, -1.0, -0.5, 0.5, 1.0]), up[i]) if np.isfinite(lo[i]) else up[i] - 1
    elif what == 2:
        up[i] = max(up[i] + rng.choice([INF, -1.0, -0.5, 0.5, 1.0]), lo[i]) if np.isfinite(up[i]) else lo[i] + 1
    elif what == 3:
        keep = np.arange(m) != i
        A, lo, up = A[keep], lo[keep], up[keep]
    elif what == 4:
        A, lo, up = np.vstack([A, A[i]]), np.append(lo, lo[i]), np.append(up, up[i])
        A[-1, j] = rng.choice([-1.0, 0.0, 1.0])
    elif what == 5:
        A[[i, (i + 1) % m], j] = A[[(i + 1) % m, i], j]
    elif what == 6:
        lower[j], upper[j] = [(0, 0), (1, 1), (0, 2), (-1, 1), (0, 0.5), (0, 1.5), (0, 9)][rng.integers(7)]
    else:
        integer[j] = not integer[j]
    return A, lo, up, lower, upper, integer


# References.


def solver_value(space: CompiledSpace, c: np.ndarray, integrality: np.ndarray | None = None) -> float | None:
    """HiGHS through scipy, None if the space is empty."""
    marks = space.integrality if integrality is None else integrality
    rows = [LinearConstraint(space.matrix, space.row_lower, space.row_upper)] if space.n_rows else []
    # HiGHS 1.15 calls a wrong point optimal when an integer column has a fractional bound: x1, x2 in {0, 1},
    # 2 x2 <= 2 x1, x2 <= 0.5, max -x1 + 3 x2 gives x1 = 1. So such bounds are rounded here.
    lower = np.where(marks, np.ceil(space.lower), space.lower)
    upper = np.where(marks, np.floor(space.upper), space.upper)
    if (lower > upper).any():
        return None
    result = milp(-c, constraints=rows, bounds=Bounds(lower, upper), integrality=marks.astype(int))
    if result.status == 2:
        return None
    assert result.status == 0, result.message
    return float(-result.fun)


def check_claims(space: CompiledSpace, structure: Structure, rng, objectives: int = 2) -> None:
    """Whatever was claimed must hold: oracle values, integrality, half-integrality."""
    n = space.n_variables
    everything = np.ones(n, dtype=bool)
    for _ in range(objectives):
        c = np.rint(4 * rng.normal(size=n)) if rng.random() < 0.5 else rng.normal(size=n)
        if not np.isfinite(space.upper).all():
            c = np.minimum(c, 0)
        truth = solver_value(space, c)
        if structure.kind != "general":
            try:
                z = Oracle(space).maximize(c).z
            except InfeasibleSpace:
                assert truth is None, structure
                continue
            assert c @ z == pytest.approx(truth, abs=1e-6), structure
            activity = space.matrix @ z
            assert (activity >= space.row_lower - 1e-7).all() and (activity <= space.row_upper + 1e-7).all()
            assert (z >= space.lower - 1e-9).all() and (z <= space.upper + 1e-9).all()
            assert np.allclose(z[space.integrality], np.rint(z[space.integrality]))
        if truth is None:
            continue
        relaxed = solver_value(space, c, ~everything)
        if structure.integral:
            assert solver_value(space, c, everything) == pytest.approx(relaxed, abs=1e-6), structure
        if structure.half_integral:
            doubled = make_space(
                space.matrix,
                2 * space.row_lower,
                2 * space.row_upper,
                2 * space.lower,
                2 * space.upper,
                True,
            )
            assert solver_value(doubled, c / 2) == pytest.approx(relaxed, abs=1e-6), structure
        if structure.oracle == "lp" and structure.kind in ("general", "flow"):
            assert relaxed == pytest.approx(truth, abs=1e-6), structure


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The helpers above; test modules cannot import a conftest in importlib mode."""
    return SimpleNamespace(
        space=make_space,
        declarations=DECLARATIONS,
        disguise=disguise,
        mutate=mutate,
        check=check_claims,
    )

"""Spaces of every recognised class and near-misses of them: the recogniser's claims against enumeration and HiGHS.

A case declares one to three blocks of known classes, joins them (side by side, or with columns in common), changes a
few things (a row dropped, a coefficient changed, a column complemented, ...), disguises the result (rows and columns
permuted, rows scaled and negated) and solves it by ``Oracle(space, "auto")``. Whatever was recognised, the answers must
be those of the rows: enumeration where the labels can be listed, HiGHS elsewhere. So must be every claim of
`Structure`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

import structopt as so
from structopt.errors import InfeasibleSpace, UnboundedObjective

INF = np.inf
#: Points of a box up to which all labels are listed; beyond it HiGHS is the only referee.
MOST_POINTS = 500


@dataclass
class Rows:
    """A space as dense arrays that can be changed."""

    A: np.ndarray
    lo: np.ndarray
    up: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    did: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        return self.A.shape[1]

    @property
    def m(self) -> int:
        return self.A.shape[0]

    def add(self, row: np.ndarray, lo: float, up: float) -> None:
        self.A = np.vstack([self.A, row[None, :]])
        self.lo, self.up = np.append(self.lo, lo), np.append(self.up, up)

    def __str__(self) -> str:
        with np.printoptions(threshold=100_000, linewidth=160):
            return (
                f"A = np.array({self.A.tolist()}).reshape({self.A.shape})\nlo = {self.lo.tolist()}\n"
                f"up = {self.up.tolist()}\nlower = {self.lower.tolist()}\nupper = {self.upper.tolist()}\n"
                f"integer = {self.integer.astype(int).tolist()}\nmade by {', '.join(self.did)}"
            )


def _of(entries: list[tuple[dict[int, float], float, float]], n: int, name: str) -> Rows:
    A = np.zeros((len(entries), n))
    for i, (row, _, _) in enumerate(entries):
        for j, a in row.items():
            A[i, j] += a
    lo = np.array([low for _, low, _ in entries], dtype=float)
    up = np.array([high for _, _, high in entries], dtype=float)
    return Rows(A, lo, up, np.zeros(n), np.ones(n), np.ones(n, dtype=bool), [name])


# ---- the classes -----------------------------------------------------------------------------------


def box(rng: np.random.Generator) -> Rows:
    made = _of([], int(rng.integers(1, 6)), "box")
    made.lower -= rng.integers(0, 3, made.n)
    made.upper += rng.integers(0, 3, made.n)
    return made


def simplices(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(3, 9))
    group = rng.integers(-1, 3, n)
    entries = []
    for g in range(3):
        members = np.flatnonzero(group == g)
        if members.size:
            entries.append((dict.fromkeys(members.tolist(), 1.0), float(rng.choice([1.0, 0.0, -INF])), 1.0))
    return _of(entries, n, "simplices")


def cardinality(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(3, 9))
    group = rng.integers(-1, 2, n)
    entries = []
    for g in range(2):
        members = np.flatnonzero(group == g)
        if members.size:
            low = int(rng.integers(0, members.size + 1))
            high = int(rng.integers(low, members.size + 2))
            entries.append((dict.fromkeys(members.tolist(), 1.0), float(low), float(high)))
    return _of(entries, n, "cardinality")


def closure(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(2, 8))
    entries: list[tuple[dict[int, float], float, float]] = []
    for c in range(1, n):
        for p in rng.choice(c, size=min(c, int(rng.integers(1, 3))), replace=False).tolist():
            low = [-INF, -1.0, -2.0, 0.0][rng.choice(4, p=[0.5, 0.2, 0.2, 0.1])]
            entries.append(({c: 1.0, p: -1.0}, low, 0.0))
    if rng.random() < 0.2 and n > 2:  # a cycle: equal variables
        entries.append(({0: 1.0, n - 1: -1.0}, -INF, 0.0))
    return _of(entries, n, "closure")


def forest(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(2, 8))
    arcs = [(c, int(rng.integers(c))) for c in range(1, n) if rng.random() < 0.85]
    return _of([({c: 1.0, p: -1.0}, -INF, 0.0) for c, p in arcs], n, "forest")


def pairwise(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(2, 5))
    pairs = [e for e in itertools.combinations(range(n), 2) if rng.random() < 0.7] or [(0, 1)]
    entries: list[tuple[dict[int, float], float, float]] = []
    for e, (j, k) in enumerate(pairs):
        p = n + e
        entries += [({p: 1, j: -1}, -INF, 0.0), ({p: 1, k: -1}, float(rng.choice([-1.0, -INF])), 0.0)]
        entries.append(({p: 1, j: -1, k: -1}, -1.0, float(rng.choice([INF, 0.0, 1.0]))))
    made = _of(entries, n + len(pairs), "pairwise")
    kind = rng.random()
    if kind < 0.3:
        made.integer[:] = False
        made.did[-1] = "relaxed pairwise"
    elif kind < 0.6:
        made.integer[n:] = False
    if rng.random() < 0.2:
        made.upper[n:] = float(rng.choice([2.0, INF]))
    return made


def assignment(rng: np.random.Generator) -> Rows:
    n, m = (int(k) for k in rng.integers(2, 5, 2))
    cells = [(i, j) for i in range(n) for j in range(m) if rng.random() < 0.75][:12] or [(0, 0)]
    entries: list[tuple[dict[int, float], float, float]] = []
    for side in (0, 1):
        need = float(rng.choice([1.0, 0.0, -INF]))
        for v in range((n, m)[side]):
            row = {k: 1.0 for k, cell in enumerate(cells) if cell[side] == v}
            if row:
                entries.append((row, need if rng.random() < 0.8 else -INF, 1.0))
    return _of(entries, len(cells), "assignment")


def tree(rng: np.random.Generator) -> Rows:
    """A chosen node needs its parent and, if it has children, one of them; a fixed root, or some top."""
    n = int(rng.integers(2, 9))
    parent = [-1] + [int(rng.integers(max(0, i - 3), i)) for i in range(1, n)]
    entries: list[tuple[dict[int, float], float, float]] = []
    for p in range(n):
        children = [c for c in range(n) if parent[c] == p]
        entries += [({c: 1.0, p: -1.0}, float(rng.choice([-INF, -1.0])), 0.0) for c in children]
        if children:
            entries.append(({**dict.fromkeys(children, 1.0), p: -1.0}, 0.0, INF))
    if rng.random() < 0.3:  # the tops in place of the root
        entries = [
            ({c - 1: a for c, a in row.items() if c}, 1.0 if row.get(0) and len(row) > 2 else low, high)
            for row, low, high in entries
            if not (0 in row and len(row) == 2)
        ]
        if n == 2 or sum(p == 0 for p in parent) == 1:
            entries.append(({0: 1.0}, 1.0, INF))
        return _of([entry for entry in entries if entry[0]], max(n - 1, 1), "tree of tops")
    made = _of(entries, n, "tree")
    made.lower[0] = 1.0
    return made


def path(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(2, 6))
    arcs = [(i, j) for i in range(n) for j in range(i + 1, n) if j == i + 1 or rng.random() < 0.5]
    if rng.random() < 0.2:
        arcs.append(arcs[int(rng.integers(len(arcs)))])  # parallel arcs
    supply = np.zeros(n)
    supply[0], supply[-1] = 1, -1
    entries = [
        ({k: float((a == v) - (b == v)) for k, (a, b) in enumerate(arcs) if v in (a, b)}, supply[v], supply[v])
        for v in range(n)
    ]
    if rng.random() < 0.5 and n > 2:
        del entries[int(rng.integers(n))]
    made = _of(entries, len(arcs), "path")
    made.upper[:] = float(rng.choice([1.0, INF, 3.0]))
    return made


def flow(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(2, 5))
    arcs = [(i, j) for i in range(n) for j in range(n) if i != j and rng.random() < 0.6] or [(0, 1)]
    sent = rng.integers(0, 3, len(arcs))
    entries = []
    for v in range(n):
        row = {k: float((a == v) - (b == v)) for k, (a, b) in enumerate(arcs) if v in (a, b)}
        out = float(sum(e * sent[k] for k, e in row.items()))
        if row:
            loose = rng.random() < 0.3
            entries.append((row, out - loose, out + float(rng.choice([1.0, INF])) if loose else out))
    made = _of(entries, len(arcs), "flow")
    made.upper[:] = sent + rng.integers(0, 2, len(arcs))
    made.integer[:] = rng.random() < 0.7
    return made


def intervals(rng: np.random.Generator) -> Rows:
    n = int(rng.integers(2, 8))
    entries = []
    for _ in range(int(rng.integers(1, 5))):
        a, b = sorted(rng.integers(0, n, 2).tolist())
        high = int(rng.integers(0, b - a + 2))
        entries.append((dict.fromkeys(range(a, b + 1), 1.0), float(rng.choice([-INF, 0.0, high])), float(high)))
    return _of(entries, n, "intervals")


def groups(rng: np.random.Generator) -> Rows:
    """One-of-many groups on a forest, joined by pairs with marginal rows or by rows ``y + y' <= 1``."""
    space, integer = so.LabelSpace("groups"), rng.random() < 0.7
    states: list[so.Expression] = []
    for g, size in enumerate(rng.integers(2, 4, int(rng.integers(2, 6))).tolist()):
        group = space.binary(f"y{g}", size) if integer else space.continuous(f"y{g}", size, 0, 1)
        states.append(group)
        if not g or rng.random() < 0.5:
            space.subject_to(group.sum() == 1)
        if not g:
            continue
        parent = states[g - 1 if rng.random() < 0.4 else int(rng.integers(g))]
        allowed = rng.random((parent.size, size)) < rng.choice([1.0, 0.8, 0.5])
        allowed[0, 0] = True
        if integer and rng.random() < 0.3:
            space.subject_to(group.sum() == 1, *(parent[i] + group[j] <= 1 for i, j in np.argwhere(~allowed)))
            continue
        first, second = np.nonzero(allowed)
        upper, whole = float(rng.choice([1, 2, INF])), rng.random() < 0.2
        pair = space.binary(f"p{g}", first.size) if whole else space.continuous(f"p{g}", first.size, 0, upper)
        for ends, marginal in ((first, parent), (second, group)):
            for state in range(marginal.size):
                inside = (ends == state).astype(float)
                space.subject_to(inside @ pair == marginal[state])
    bounds = space.row_lower.copy(), space.row_upper.copy(), space.lower.copy(), space.upper.copy()
    return Rows(space.matrix.toarray(), *bounds, space.integrality.copy(), ["groups"])


def general(rng: np.random.Generator) -> Rows:
    n, m = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    inside = rng.integers(0, 2, n)
    A = rng.integers(-3, 4, (m, n)) * (rng.random((m, n)) < 0.6)
    activity = A @ inside
    entries = [
        ({j: float(a) for j, a in enumerate(row) if a}, float(rng.choice([-INF, at])), float(at + rng.integers(0, 3)))
        for row, at in zip(A, activity, strict=True)
        if row.any()
    ]
    return _of(entries, n, "general")


CLASSES: tuple[Callable[[np.random.Generator], Rows], ...] = (
    box,
    simplices,
    cardinality,
    closure,
    forest,
    pairwise,
    assignment,
    tree,
    path,
    flow,
    intervals,
    groups,
    general,
)


# ---- joined ----------------------------------------------------------------------------------------


def join(rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
    """Two spaces side by side, sometimes with one or two columns in common, free or fixed."""
    n = a.n + b.n
    A = np.zeros((a.m + b.m, n))
    A[: a.m, : a.n], A[a.m :, a.n :] = a.A, b.A
    made = Rows(
        A,
        np.concatenate([a.lo, b.lo]),
        np.concatenate([a.up, b.up]),
        np.concatenate([a.lower, b.lower]),
        np.concatenate([a.upper, b.upper]),
        np.concatenate([a.integer, b.integer]),
        a.did + b.did,
    )
    how = rng.random()
    if how < 0.25:
        for _ in range(int(rng.integers(1, 3))):
            i, j = int(rng.integers(a.n)), a.n + int(rng.integers(made.n - a.n))
            low, high = max(made.lower[i], made.lower[j]), min(made.upper[i], made.upper[j])
            if low > high or made.n <= a.n + 1:
                continue
            made.A[:, i] += made.A[:, j]
            made.lower[i], made.upper[i] = low, high
            made.integer[i] |= made.integer[j]
            _delete(made, j)
            made.did.append("a shared column")
    elif how < 0.4:
        # One more column, fixed, in rows of both: as a common root that is always chosen.
        value = float(rng.integers(0, 2))
        extra = np.zeros(made.m)
        for rows in (np.arange(a.m), np.arange(a.m, made.m)):
            if rows.size:
                extra[rng.choice(rows)] = float(rng.choice([-1.0, 1.0]))
        made.A = np.column_stack([made.A, extra])
        made.lower, made.upper = np.append(made.lower, value), np.append(made.upper, value)
        made.integer = np.append(made.integer, True)
        made.lo, made.up = made.lo + extra * value, made.up + extra * value
        made.did.append("a shared fixed column")
    return made


def _delete(made: Rows, j: int) -> None:
    keep = np.arange(made.n) != j
    made.A, made.lower, made.upper, made.integer = (
        made.A[:, keep],
        made.lower[keep],
        made.upper[keep],
        made.integer[keep],
    )


# ---- near-misses -----------------------------------------------------------------------------------


def _row(rng: np.random.Generator, s: Rows) -> int:
    return int(rng.integers(s.m))


def row_dropped(rng: np.random.Generator, s: Rows) -> None:
    keep = np.arange(s.m) != _row(rng, s)
    s.A, s.lo, s.up = s.A[keep], s.lo[keep], s.up[keep]


def row_added(rng: np.random.Generator, s: Rows) -> None:
    row = rng.choice([-1.0, 1.0], s.n) if rng.random() < 0.5 else np.ones(s.n)
    row *= rng.random(s.n) < rng.choice([0.3, 0.6, 1.0])
    at = float(row @ np.clip(np.rint((s.lower + np.minimum(s.upper, s.lower + 2)) / 2), -5, 5)) if _finite(s) else 1.0
    s.add(row, float(rng.choice([-INF, at, at - 1])), float(rng.choice([at, at + 1, INF])))


def like_another(rng: np.random.Generator, s: Rows) -> None:
    i = _row(rng, s)
    row = s.A[i].copy()
    row[int(rng.integers(s.n))] = float(rng.choice([-1.0, 0.0, 1.0]))
    s.add(row, s.lo[i], s.up[i])


def coefficient_changed(rng: np.random.Generator, s: Rows) -> None:
    s.A[_row(rng, s), int(rng.integers(s.n))] = float(rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0]))


def sign_changed(rng: np.random.Generator, s: Rows) -> None:
    i = _row(rng, s)
    entries = np.flatnonzero(s.A[i])
    if entries.size:
        s.A[i, rng.choice(entries)] *= -1


def entry_moved(rng: np.random.Generator, s: Rows) -> None:
    i, k, j = _row(rng, s), _row(rng, s), int(rng.integers(s.n))
    s.A[[i, k], j] = s.A[[k, i], j]


def row_bound_changed(rng: np.random.Generator, s: Rows) -> None:
    i = _row(rng, s)
    if rng.random() < 0.5:
        base = s.lo[i] if s.lo[i] > -INF else min(s.up[i], 1.0)
        s.lo[i] = min(base + float(rng.choice([-INF, -1, -0.5, 0.5, 1])), s.up[i])
    else:
        base = s.up[i] if s.up[i] < INF else max(s.lo[i], 0.0)
        s.up[i] = max(base + float(rng.choice([INF, -1, -0.5, 0.5, 1])), s.lo[i])


def column_bound_changed(rng: np.random.Generator, s: Rows) -> None:
    j = int(rng.integers(s.n))
    choices = [(0, 0), (1, 1), (0, 2), (-1, 1), (0, 0.5), (0, 1.5), (0, 9), (0.5, 1.0), (-1, 0), (1, 2), (0, INF)]
    s.lower[j], s.upper[j] = choices[rng.integers(len(choices))]


def columns_complemented(rng: np.random.Generator, s: Rows) -> None:
    """``x = (l + u) - x'``: the same polytope, mirrored."""
    for j in np.flatnonzero(np.isfinite(s.lower) & np.isfinite(s.upper) & (rng.random(s.n) < 0.4)).tolist():
        shift = s.A[:, j] * (s.lower[j] + s.upper[j])
        s.A[:, j] *= -1
        s.lo, s.up = s.lo - shift, s.up - shift


def column_scaled(rng: np.random.Generator, s: Rows) -> None:
    """``x = f x'``: the same polytope where x is continuous, a near-miss where it is integer."""
    j, factor = int(rng.integers(s.n)), float(rng.choice([0.5, 2.0, 3.0, -1.0]))
    s.A[:, j] *= factor
    low, high = s.lower[j] / factor, s.upper[j] / factor
    s.lower[j], s.upper[j] = min(low, high), max(low, high)


def row_repeated(rng: np.random.Generator, s: Rows) -> None:
    i, factor = _row(rng, s), float(rng.choice([1.0, 2.0, 0.5]))
    s.add(s.A[i] * factor, s.lo[i] * factor, s.up[i] * factor)


def rows_merged(rng: np.random.Generator, s: Rows) -> None:
    i, k = _row(rng, s), _row(rng, s)
    if i != k:
        merged = s.A[i] + s.A[k], s.lo[i] + s.lo[k], s.up[i] + s.up[k]
        if rng.random() < 0.5:
            s.add(*merged)
        else:
            s.A[i], s.lo[i], s.up[i] = merged


def equality_split(rng: np.random.Generator, s: Rows) -> None:
    i = _row(rng, s)
    if np.isfinite(s.lo[i]) and np.isfinite(s.up[i]):
        s.add(-s.A[i], -s.up[i] if rng.random() < 0.5 else -INF, -s.lo[i])
        s.lo[i] = -INF


def equality_loosened(rng: np.random.Generator, s: Rows) -> None:
    i = _row(rng, s)
    if rng.random() < 0.5:
        s.lo[i] = -INF
    else:
        s.up[i] = INF


def inequality_tightened(rng: np.random.Generator, s: Rows) -> None:
    i = _row(rng, s)
    if np.isfinite(s.up[i]):
        s.lo[i] = s.up[i]
    elif np.isfinite(s.lo[i]):
        s.up[i] = s.lo[i]


def empty_row(rng: np.random.Generator, s: Rows) -> None:
    s.add(np.zeros(s.n), float(rng.choice([-INF, 0.0, -1.0])), float(rng.choice([0.0, 1.0, INF])))


def single_row(rng: np.random.Generator, s: Rows) -> None:
    row = np.zeros(s.n)
    row[int(rng.integers(s.n))] = float(rng.choice([1.0, -1.0, 2.0, -3.0]))
    at = float(rng.choice([0.0, 1.0, 2.0, -1.0]))
    s.add(row, float(rng.choice([-INF, at])), at)


def variables_fixed(rng: np.random.Generator, s: Rows) -> None:
    for j in rng.choice(s.n, size=min(s.n, int(rng.integers(1, 4))), replace=False).tolist():
        if np.isfinite(s.lower[j]) and np.isfinite(s.upper[j]):
            s.lower[j] = s.upper[j] = float(rng.choice([s.lower[j], s.upper[j]]))


def variable_free(rng: np.random.Generator, s: Rows) -> None:
    j = int(rng.integers(s.n))
    if rng.random() < 0.5:
        s.lower[j] = -INF
    if rng.random() < 0.7:
        s.upper[j] = INF


def integrality_dropped(rng: np.random.Generator, s: Rows) -> None:
    s.integer &= rng.random(s.n) < rng.choice([0.0, 0.5, 0.9])


def integrality_added(rng: np.random.Generator, s: Rows) -> None:
    s.integer |= rng.random(s.n) < 0.5


def idle_column(rng: np.random.Generator, s: Rows) -> None:
    s.A = np.column_stack([s.A, np.zeros(s.m)])
    s.lower, s.upper = np.append(s.lower, 0.0), np.append(s.upper, float(rng.choice([1.0, 2.0, 0.5])))
    s.integer = np.append(s.integer, rng.random() < 0.7)


def columns_equal(rng: np.random.Generator, s: Rows) -> None:
    """One column becomes a copy of another: two variables for one place."""
    i, j = (int(k) for k in rng.integers(0, s.n, 2))
    s.A[:, i] = s.A[:, j]


NEED_ROWS = (
    row_dropped,
    like_another,
    coefficient_changed,
    sign_changed,
    entry_moved,
    row_bound_changed,
    row_repeated,
    rows_merged,
    equality_split,
    equality_loosened,
    inequality_tightened,
)
ALWAYS = (
    row_added,
    column_bound_changed,
    columns_complemented,
    column_scaled,
    empty_row,
    single_row,
    variables_fixed,
    variable_free,
    integrality_dropped,
    integrality_added,
    idle_column,
    columns_equal,
)


def disguise(rng: np.random.Generator, s: Rows) -> None:
    """The same space: rows and columns permuted, rows scaled and negated."""
    rows, columns = rng.permutation(s.m), rng.permutation(s.n)
    factor = rng.choice([0.5, 1.0, 1.0, 1.0, 2.0, 3.0], s.m) * rng.choice([1.0, 1.0, -1.0], s.m)
    s.A = s.A[rows][:, columns] * factor[:, None]
    with np.errstate(invalid="ignore"):
        ends = np.stack([s.lo[rows] * factor, s.up[rows] * factor])
    s.lo, s.up = ends.min(axis=0), ends.max(axis=0)
    s.lower, s.upper, s.integer = s.lower[columns], s.upper[columns], s.integer[columns]


def declare(rng: np.random.Generator) -> Rows:
    """A space of one to three blocks with up to three changes."""
    first = CLASSES[rng.integers(len(CLASSES))]
    made = first(rng)
    for _ in range(int(rng.choice(3, p=[0.5, 0.35, 0.15]))):
        # Half of the unions are of one class: several trees, several matchings, ...
        made = join(rng, made, (first if rng.random() < 0.5 else CLASSES[rng.integers(len(CLASSES))])(rng))
    for _ in range(int(rng.choice(4, p=[0.2, 0.4, 0.25, 0.15]))):
        choices = (*ALWAYS, *NEED_ROWS) if made.m else ALWAYS
        change = choices[rng.integers(len(choices))]
        change(rng, made)
        made.did.append(change.__name__.replace("_", " "))
    if rng.random() < 0.8:
        disguise(rng, made)
    return made


def _finite(s: Rows) -> bool:
    return bool(np.isfinite(s.lower).all())


# ---- referees --------------------------------------------------------------------------------------


def highs(s: Rows, c: np.ndarray, integer: np.ndarray, extra: tuple[np.ndarray, float, float] | None = None) -> float:
    """The optimum by scipy's HiGHS: -inf if there is no label, inf if it is unbounded."""
    # HiGHS answers wrongly where an integer column has a fractional bound, so bounds are rounded here.
    lower = np.where(integer, np.ceil(s.lower - 1e-9), s.lower)
    upper = np.where(integer, np.floor(s.upper + 1e-9), s.upper)
    if (lower > upper).any():
        return -INF
    # And where a column is fixed, so these are moved to the other side.
    fixed = lower == upper
    at, free = np.where(fixed, lower, 0.0), np.where(fixed, 0.0, 1.0)
    rows = [LinearConstraint(s.A * free, s.lo - s.A @ at, s.up - s.A @ at)] if s.m else []
    if extra is not None:
        a, low, up = extra
        rows.append(LinearConstraint((a * free)[None, :], low - a @ at, up - a @ at))
    scale = float(np.abs(c).max(initial=0.0)) or 1.0  # costs of 1e-9 are below its tolerance

    def run(costs: np.ndarray) -> tuple[int, float | None]:
        answer = milp(-costs, constraints=rows, bounds=Bounds(lower, upper), integrality=integer.astype(int))
        return int(answer.status), answer.fun

    status, value = run(c / scale)
    if status == 0 and value is not None:
        return -value * scale
    if status == 2:
        return -INF
    return INF if run(np.zeros_like(c))[0] == 0 else -INF


def costs(rng: np.random.Generator, n: int) -> np.ndarray:
    """Costs with zeros and ties, tiny and huge ones, and all of it in one vector."""
    kind = int(rng.integers(8))
    if kind == 0:
        return rng.normal(size=n)
    if kind == 1:
        return rng.integers(-2, 3, n).astype(float)
    if kind == 2:
        return rng.normal(size=n) * (rng.random(n) < 0.4)
    if kind == 3:
        return rng.normal(size=n) * 1e-9
    if kind == 4:
        return rng.normal(size=n) * 1e7
    if kind == 5:
        return -np.abs(rng.normal(size=n))
    if kind == 6:
        return rng.integers(-1, 2, n) * 1e7
    return np.zeros(n) if rng.random() < 0.2 else np.abs(rng.normal(size=n))


# ---- the checks ------------------------------------------------------------------------------------


class _Case:
    def __init__(self, s: Rows, space: so.LabelSpace) -> None:
        self.s, self.space = s, space
        self.oracle = so.Oracle(space, "auto")
        self.kind = space.structure.kind

    def fail(self, what: str) -> AssertionError:
        return AssertionError(f"{what}\n{self.space.structure!r} solved by {self.oracle.algorithm}\n{self.s}")

    def best(self, c: np.ndarray, extra: tuple[np.ndarray, float, float] | None = None) -> float:
        return highs(self.s, c, self.s.integer, extra)

    def laws(self, seed: int) -> None:
        """Every question, compared with the list of all labels."""
        report = so.testing.check_oracle(self.oracle, n=2, random_state=seed)
        if not report.ok:
            raise self.fail(repr(report))

    def ask(self, call: Callable[[], so.Label]) -> tuple[float, so.Label | None]:
        try:
            label = call()
        except InfeasibleSpace:
            return -INF, None
        except UnboundedObjective:
            return INF, None
        return label.value, label

    def same(self, what: str, found: float, truth: float, c: np.ndarray, z: np.ndarray | None = None) -> None:
        if found == truth:
            return
        # HiGHS is right up to its tolerance for the largest cost.
        size = float(np.abs(c).max(initial=0.0)) * max(1.0, float(np.abs(z).max(initial=0.0)) if z is not None else 1.0)
        if not abs(found - truth) <= 2e-6 * size * max(4, self.s.n):
            raise self.fail(f"{what}: {found!r}, and it is {truth!r}; costs {c.tolist()}, label {z}")

    def good(self, what: str, label: so.Label, c: np.ndarray) -> None:
        broken = self.space.violations(label.z)
        if broken:
            raise self.fail(f"{what}: {label.z.tolist()} breaks {'; '.join(map(str, broken))}; costs {c.tolist()}")
        at = label.z[self.s.integer]
        if not (np.abs(at - np.rint(at)) <= 1e-6).all() or (self.s.integer.any() and not label.integral):
            raise self.fail(f"{what}: {label.z.tolist()} is not integral")
        if not np.isclose(label.value, c @ label.z, rtol=1e-9, atol=1e-9 * np.abs(c).max(initial=0.0)):
            raise self.fail(f"{what}: value {label.value} of a label worth {c @ label.z}")

    def plain(self, rng: np.random.Generator) -> bool:
        """Plain calls; whether there is any label."""
        C = np.stack([costs(rng, self.s.n) for _ in range(3)])
        truths = []
        for c in C:
            found, label = self.ask(lambda c=c: self.oracle.maximize(c))
            truth = self.best(c)
            self.same("maximize", found, truth, c, None if label is None else label.z)
            truths.append(truth)
            if truth == -INF:
                return False  # an empty space is diagnosed at every call, which takes long
            if label is not None:
                self.good("maximize", label, c)
        if np.isfinite(truths).all():
            for c, truth, label in zip(C, truths, self.oracle.maximize_batch(C, keys=[0, 1, 2]), strict=True):
                self.same("maximize_batch", label.value, truth, c, label.z)
                self.good("maximize_batch", label, c)
            again = self.oracle.maximize(C[0], key=1)  # starts from the flow or basis of other costs
            self.same("maximize with a key", again.value, truths[0], C[0], again.z)
        return True

    def rows(self, rng: np.random.Generator) -> None:
        c = costs(rng, self.s.n)
        a = rng.integers(-2, 3, self.s.n).astype(float)
        at = float(rng.integers(-2, 3))
        extra = (a, float(rng.choice([-INF, at - 1])), at)
        found, label = self.ask(lambda: self.oracle.maximize(c, rows=[extra]))
        self.same("maximize with a row", found, self.best(c, extra), c, None if label is None else label.z)
        if label is not None:
            self.good("maximize with a row", label, c)
            if not extra[1] - 1e-5 <= a @ label.z <= extra[2] + 1e-5:
                raise self.fail(f"maximize with a row: {label.z.tolist()} has {a @ label.z} outside {extra[1:]}")

    def relaxation(self, rng: np.random.Generator) -> None:
        """The LP: its own oracle, and what the structure claims of its vertices."""
        s, structure = self.s, self.space.structure
        nothing = np.zeros(s.n, dtype=bool)
        c = costs(rng, s.n)
        try:
            relaxed = so.Oracle(self.space, "auto", integral="relax")
            found, label = self.ask(lambda: relaxed.maximize(c))
        except InfeasibleSpace:
            found, label = -INF, None
        truth = highs(s, c, nothing)
        size = float(np.abs(c).max(initial=0.0)) * max(
            1.0, np.abs(label.z).max(initial=0.0) if label is not None else 1.0
        )
        if found != truth and not abs(found - truth) <= 2e-6 * size * max(4, s.n):
            raise self.fail(f"relaxed by {relaxed.algorithm}: {found!r}, and it is {truth!r}; costs {c.tolist()}")
        if not np.isfinite(truth):
            return
        for claim, factor in ((structure.integral, 1), (structure.half_integral, 2)):
            if not claim:
                continue
            scaled = Rows(s.A, s.lo * factor, s.up * factor, s.lower * factor, s.upper * factor, ~nothing)
            value = highs(scaled, c / factor, ~nothing)
            if not abs(value - truth) <= 2e-6 * size * max(4, s.n):
                raise self.fail(
                    f"vertices claimed to be multiples of 1/{factor}: {value} < {truth}; costs {c.tolist()}"
                )

    def unimodular(self, rng: np.random.Generator) -> None:
        """Ghouila-Houri: every set of rows can be signed so that all column sums are -1, 0 or 1."""
        if not self.space.structure.totally_unimodular:
            return
        A = self.space.matrix.toarray()
        size = np.abs(A).max(axis=1, initial=0.0)
        A = A[size > 0] / size[size > 0, None]
        if not np.isin(A, (-1.0, 0.0, 1.0)).all():
            raise self.fail("totally unimodular with an entry that is not -1, 0 or 1")
        for _ in range(4 if len(A) else 0):
            chosen = rng.permutation(len(A))[: int(rng.integers(1, 9))]
            signs = np.array(list(itertools.product([1.0, -1.0], repeat=chosen.size))).reshape(-1, chosen.size)
            if not (np.abs(signs @ A[chosen]) <= 1).all(axis=1).any():
                raise self.fail(f"claimed to be totally unimodular, but no signs fit the rows {chosen.tolist()}")


def case(seed: int) -> str:
    """One space, asked everything; returns the class it started from and what was recognised."""
    rng = np.random.default_rng(seed)
    s = declare(rng)
    told = s.did[0].split()[-1]
    try:
        space = so.LabelSpace.from_matrices(s.A, s.lo, s.up, s.lower, s.upper, s.integer)
    except InfeasibleSpace:
        empty = ~s.A.any(axis=1) & ((s.lo > 1e-6) | (s.up < -1e-6))
        assert empty.any(), f"refused as infeasible, and no row without entries is false\n{s}"
        return f"{told}, refused"
    # A space rounds the bounds of its integer columns, and its relaxation keeps these bounds.
    s.lower = np.where(s.integer, np.ceil(s.lower - 1e-9), s.lower)
    s.upper = np.where(s.integer, np.floor(s.upper + 1e-9), s.upper)
    test = _Case(s, space)
    if not test.plain(rng):
        return f"{told}, empty"
    # What else is asked is drawn, to keep a case short.
    for question in rng.permutation(3)[:2].tolist():
        (test.rows, test.relaxation, test.unimodular)[question](rng)
    if s.integer.all() and np.prod(s.upper - s.lower + 1.0) <= MOST_POINTS:
        test.laws(seed)
    return f"{told}, {test.kind}" if test.kind != "general" else f"{told}, general by {test.oracle.algorithm}"

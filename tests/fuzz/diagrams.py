"""Random spaces compiled into decision diagrams: every answer against the list of all labels.

A case declares 2 to 9 variables with rows of one of many kinds of coefficients (unit, integer, decimal, floats, nearly
integer), equality and range rows, integers with negative bounds, fixed variables, one-of groups, independent blocks, or
continuous variables that follow from the integer ones (products, marginals, sums). The labels are listed by brute force
over all integer points, judged by ``contains``.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp

import structopt as so
from structopt.algorithms.diagram import Diagram, DiagramAlgorithm, compile_diagram
from structopt.backends.arrays import holding_rows
from structopt.errors import DeclarationError, DiagramRefused, InfeasibleSpace
from structopt.surrogates import Slack
from structopt.surrogates.levels import level_choice

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


def by_rows(labels: np.ndarray) -> np.ndarray:
    """Rows in lexicographic order."""
    return np.asarray(labels[np.lexsort(labels.T[::-1])]) if labels.size else labels


def compiled_with_labels(space: so.LabelSpace) -> tuple[Diagram | None, np.ndarray, str]:
    """The diagram, all labels, and what happened."""
    if space.integrality.all():
        labels = listed(space)
    else:
        try:
            labels = space.enumerate()
        except DeclarationError:
            labels = np.empty((0, 0))  # not determined: the diagram must be refused
    try:
        diagram = compile_diagram(space.compiled)
    except DiagramRefused as refusal:
        return None, labels, f"refused: {refusal.reason}"
    except InfeasibleSpace:
        assert not len(labels), f"{len(labels)} labels in a space called empty"
        return None, labels, "empty"
    assert labels.shape[1], "a diagram of a space whose continuous variables are not determined"
    return diagram, labels, "compiled"


def check_answers(rng: np.random.Generator, diagram: Diagram, labels: np.ndarray) -> None:
    """Everything that the algorithm answers, against all labels."""
    algorithm = DiagramAlgorithm(diagram)
    n = labels.shape[1]
    # Small integers give many ties.
    c = rng.integers(-2, 3, n).astype(float) if rng.random() < 0.4 else rng.normal(size=n)
    values = labels @ c
    close = {"rtol": 1e-9, "atol": 1e-9}

    best = algorithm.maximize(c)
    assert diagram.contains(best.z)
    np.testing.assert_allclose(best.value, values.max(), **close)
    C = np.vstack([c, rng.normal(size=(int(rng.integers(0, 20)), n))])
    found = algorithm.maximize_batch(C)
    np.testing.assert_allclose(found.values, (labels @ C.T).max(axis=0), **close)
    np.testing.assert_allclose(np.einsum("ij,ij->i", C, found.Z), found.values, **close)
    assert all(diagram.contains(z) for z in found.Z[:3])

    k = int(rng.integers(1, 12))
    several = algorithm.k_best(c, k)
    np.testing.assert_allclose(several.values, np.sort(values)[::-1][:k], **close)
    np.testing.assert_allclose(several.Z @ c, several.values, **close)
    assert len(np.unique(several.Z, axis=0)) == len(several.Z) == min(k, len(labels))
    assert all(diagram.contains(z) for z in several.Z)

    no_goods = labels[rng.permutation(len(labels))[: int(rng.integers(1, 6))]]
    if rng.random() < 0.5:
        no_goods = np.vstack([no_goods, several.Z])
    rest = np.array([not (np.abs(no_goods - z).max(axis=1) < 1e-9).any() for z in labels])
    try:
        other = algorithm.maximize_outside(c, no_goods)
    except InfeasibleSpace:
        assert not rest.any()
    else:
        assert other is not None
        np.testing.assert_allclose(other.value, values[rest].max(), **close)

    check_side_constraints(rng, algorithm, labels, c)
    check_fronts(rng, algorithm, labels)

    top = values.max()
    weights = np.exp(values - top)
    p = weights / weights.sum()
    np.testing.assert_allclose(algorithm.log_partition(c[None]), top + np.log(weights.sum()), **close)
    np.testing.assert_allclose(algorithm.marginals(c[None])[0], p @ labels, **close)
    np.testing.assert_allclose(algorithm.entropy(c[None]), -(p[p > 0] @ np.log(p[p > 0])), rtol=1e-7, atol=1e-7)
    assert all(diagram.contains(z) for z in algorithm.sample(c, 3, rng))


def check_side_constraints(
    rng: np.random.Generator, algorithm: DiagramAlgorithm, labels: np.ndarray, c: np.ndarray
) -> None:
    m = int(rng.integers(1, 4))
    A = rng.normal(size=(m, labels.shape[1])) * (rng.random((m, labels.shape[1])) < 0.7)
    at = A @ labels[int(rng.integers(len(labels)))]
    width = rng.uniform(0, 2, m) * rng.choice([0.01, 0.3, 1.0])
    lower = np.where(rng.random(m) < 0.5, at - width, -INF)
    upper = np.where((rng.random(m) < 0.5) | np.isinf(lower), at + width, INF)
    if rng.random() < 0.2:
        lower, upper = lower + 5.0, upper + 5.0
    extra = (sp.csr_array(A), lower, upper)
    inside = holding_rows(extra, labels)
    try:
        best = algorithm.maximize_constrained(c, extra)
    except InfeasibleSpace:
        assert not inside.any()
    else:
        assert best is not None and holding_rows(extra, best.z[None])[0]
        np.testing.assert_allclose(best.value, (labels[inside] @ c).max(), rtol=1e-9, atol=1e-9)


def check_fronts(rng: np.random.Generator, algorithm: DiagramAlgorithm, labels: np.ndarray) -> None:
    n = labels.shape[1]
    kind = rng.random()
    # Sixteen examples go side by side, fewer than five do not; each has its own loss, or some share one.
    count = int(rng.choice([1, 3, 6, 17, 40]))
    H = rng.normal(size=(count, n))
    most = int(rng.choice([4, 4, 4, 50]))  # far more levels than labels
    G = rng.integers(-2, most, (count, n)).astype(float)
    if kind < 0.3:
        G = rng.normal(size=(count, n))
    elif kind < 0.5:
        G *= 0.3
    elif kind < 0.6:
        G *= 2.0
    if rng.random() < 0.5:
        G = G[rng.integers(int(rng.integers(1, count + 1)), size=count)]
    points_h, points_g = labels @ H.T, labels @ G.T
    front = algorithm.front(H[0], 0.0, G[0], 0.0)
    assert front is not None
    h, g = front @ H[0], front @ G[0]
    for a, b in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.3, 1.0)):
        np.testing.assert_allclose((a * h + b * g).max(), (a * points_h + b * points_g)[:, 0].max(), atol=1e-9)
    # Every label is dominated by one of the front, up to rounding.
    covered = (h >= points_h[:, :1] - 1e-9) & (g >= points_g[:, :1] - 1e-9)
    assert covered.any(axis=1).all()
    shift = 1.0 - points_h.min()

    def product(h: np.ndarray, g: np.ndarray) -> np.ndarray:
        return np.asarray(h * np.maximum(g, 0.0))

    best = algorithm.maximize_psi(product, H, shift, G, 1.0)
    assert best is not None
    expected = product(points_h + shift, points_g + 1.0).max(axis=0)
    np.testing.assert_allclose(best[1], expected, rtol=1e-9, atol=1e-9)
    plan = algorithm.front_plan(G, np.ones(count))
    if plan is None:
        assert kind < 0.5 or (labels != np.rint(labels)).any()  # no multiples of one number
        return
    found = plan.most_violated(H, np.full(count, shift - 1.0), level_choice(Slack(), False))
    assert found is not None
    Z, h, g = found[:3]
    np.testing.assert_allclose((1.0 + h) * g, expected, rtol=1e-9, atol=1e-9)
    positive = expected > 0.0
    np.testing.assert_allclose(h[positive], (np.einsum("ij,ij->i", H, Z) + shift - 1.0)[positive], atol=1e-9)
    np.testing.assert_allclose(g[positive], (np.einsum("ij,ij->i", G, Z) + 1.0)[positive], atol=1e-9)
    assert all(algorithm.diagram.contains(z) for z in Z[positive][:5])


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    space = mixed_space(rng) if rng.random() < 0.3 else integer_space(rng)
    diagram, labels, what = compiled_with_labels(space)
    if diagram is None:
        return what
    assert diagram.count() == len(labels)
    np.testing.assert_allclose(by_rows(diagram.labels()), by_rows(labels), atol=1e-9)
    check_answers(rng, diagram, labels)
    return what

"""Calls that solve and search: oracles, planes, searches, surrogates."""

from __future__ import annotations

from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, call, eighths, exact, maybe, one_of, positional, recipe
from .declare import space_of

Rng = np.random.Generator


def _mixed(rng: Rng) -> so.LabelSpace:
    space = so.LabelSpace("mixed")
    y, x = space.binary("y", 3), space.continuous("x", 2, -1, 2)
    space.subject_to(y.sum() + x.sum() <= 2, x[0] <= 2 * y[0])
    return space


def _one_of_five(rng: Rng) -> so.LabelSpace:
    space = so.LabelSpace("one of five")
    space.subject_to(space.binary("y", 5).sum() == 1)
    return space


def _space(rng: Rng) -> so.LabelSpace:
    return [space_of, _mixed, _one_of_five][int(rng.integers(3))](rng)


def feasible(space: so.LabelSpace) -> Any:
    """Check that labels lie in a space and have the values that they claim."""

    def check(answer: Any) -> None:
        for label in answer if isinstance(answer, list) else [answer]:
            assert isinstance(label, so.Label), f"the answer is {label!r}"
            assert space.contains(label.z), f"{label.z} is not in the space"
            assert np.isfinite(label.value)

    return check


@recipe
def oracle(rng: Rng) -> Call:
    space, c, solver = _space(rng), eighths(rng, 5), str(rng.choice(["auto", "highs"]))
    options = {"solver": solver, "integral": "auto", "algorithm": maybe(None)}
    return call(lambda **v: so.Oracle(**v).maximize(c), space=space, **options).checked(feasible(space))


@recipe
def oracle_options(rng: Rng) -> Call:
    space, c, solver = _space(rng), eighths(rng, 5), str(rng.choice(["auto", "highs", "scipy"]))
    limits = {"time_limit": maybe(10.0), "mip_gap": maybe(0.0), "threads": maybe(1)}
    return call(lambda **v: so.Oracle(space, solver, **v).maximize(c), **limits).checked(feasible(space))


@recipe
def oracle_calls(rng: Rng) -> Call:
    space = _space(rng)
    find = so.Oracle(space, str(rng.choice(["auto", "highs", "scipy"])))
    c, row, C = eighths(rng, 5), eighths(rng, 5), eighths(rng, 4, 5)
    row_of = lambda a, lower, upper: find.maximize(c, [(a, lower, upper)])  # noqa: E731
    forbidden = {"forbid": A([np.ones(5)], k.label), "start": maybe(find.maximize(c).z)}
    calls = [
        exact(find.maximize, c=c),
        call(find.maximize, c=c, rows=A([(row, -50.0, 50.0)], k.extra_rows)),
        call(row_of, a=row, lower=-50.0, upper=50.0),
        call(find.maximize, c=c, **forbidden),
        call(lambda key: find.maximize(c, key=key), key=A(3, k.loose(k.thing))),
        call(find.maximize_batch, C=C, n_jobs=1, keys=maybe([1, 2, 3, 4], k.names)),
        *([exact(find.k_best, c=c, k=3)] if space.name != "mixed" else []),
    ]
    which = int(rng.integers(len(calls) + 1))
    return calls[which].checked(feasible(space)) if which < len(calls) else call(find.front, h=(row, 1.0), g=(c, 0.0))


@recipe
def backends(rng: Rng) -> Call:
    b = so.backends
    calls = [
        call(positional(b.backend_class, "name"), name="highs"),
        call(positional(b.make_backend, "solver", "compiled"), solver="highs", compiled=space_of(rng).compiled),
        call(positional(so.testing.check_backend, "name"), name="highs"),
    ]
    return one_of(rng, calls)


def _affine(rng: Rng, value: Any) -> k.Choice:
    """A malformed (coef, const)."""
    if rng.random() < 0.4:
        word, found, verdict = k.array(rng, value[0])
        return word, (found, value[1]), verdict
    if rng.random() < 0.5:
        word, found, verdict = k.real(rng, value[1])
        return f"const {word}", (value[0], found), verdict
    return k.thing(rng, value)


@recipe
def plane(rng: Rng) -> Call:
    find = so.Oracle(space_of(rng), str(rng.choice(["auto", "highs"])))
    h, g = A((eighths(rng, 5), 1.0), _affine), A((np.ones(5), 0.0), _affine)
    options = {"truth": maybe(np.zeros(5)), "rows": A([(np.ones(5), -9.0, 9.0)], k.extra_rows), "product_shift": 0.0}
    return call(lambda **v: so.Plane(**v).query(1.0), oracle=find, h=h, g=g, **options)


def planes(rng: Rng) -> Any:
    if rng.random() < 0.5:
        return so.PointPlane(eighths(rng, 6, 2) + np.array([0, 3]))
    find = so.Oracle(space_of(rng), str(rng.choice(["auto", "highs"])))
    return so.Plane(find, h=(eighths(rng, 5), 1.0), g=(np.abs(eighths(rng, 5)), 0.0))


@recipe
def point_plane(rng: Rng) -> Call:
    points = A(eighths(rng, 6, 2), k.loose(k.array))
    return call(lambda **v: so.PointPlane(**v).query(1.0), points=points, convex=False, truth=maybe(2))


@recipe
def plane_queries(rng: Rng) -> Call:
    p = planes(rng)
    has_points = isinstance(p, so.PointPlane)
    bounds = {name: maybe(value, k.array) for name, value in (("bottom", (1.0, 0.0)), ("top", (0.0, 1.0)))}
    bounds["above"] = maybe((-5.0, -5.0), k.array)
    forbid = A([], k.loose(k.labels) if has_points else k.labels)  # points have numbers
    calls = [
        call(p.query, lam=1.0, open_bottom=False, shrink=maybe(1e-5), **bounds),
        exact(lambda lam, forbid: p.query(lam, forbid=forbid), lam=1.0, forbid=forbid),
        call(p.evaluate, label=A(1 if has_points else np.zeros(5), k.loose(k.label))),
        call(p.k_best, lam=1.0, k=2),
    ]
    return one_of(rng, calls)


#: Parameters of the searches, and who has them.
PARAMETERS: list[tuple[str, Any, tuple[str, ...]]] = [
    ("surrogate", "slack", ("convex_hull", "exact")),
    ("width", 1e-6, ("binary", "bisecting", "sarawagi")),
    ("xi", 1.0, ("sarawagi",)),
    ("lam", maybe(1.0), ("angular", "binary", "bisecting", "convex_hull", "exact")),
    ("rtol", 1e-3, ("angular", "binary", "bisecting", "convex_hull", "exact")),
    ("angles_only", False, ("angular",)),
    ("integral", False, ("convex_hull",)),
]


@recipe
def searches(rng: Rng) -> Call:
    name = str(rng.choice(["angular", "binary", "bisecting", "convex_hull", "exact", "sarawagi"]))
    own = {parameter: value for parameter, value, names in PARAMETERS if name in names}

    def check(result: Any) -> None:
        assert isinstance(result, so.search.SearchResult)
        assert not np.isnan(result.value) and not np.isnan(result.upper_bound)
        assert result.value <= result.upper_bound + 1e-6 * (1 + abs(result.value)), result

    search = getattr(so.search, name)
    return call(search, plane=planes(rng), max_queries=50, cache=A([], k.labels), **own).checked(check)


@recipe
def surrogates(rng: Rng) -> Call:
    s = so.surrogates
    psi = [s.Margin(), s.Slack(), s.BetaScaling(0.5), s.LogLoss(), s.ProbLoss(), s.Product()][int(rng.integers(6))]
    method = psi.value if rng.random() < 0.5 else psi.gradient
    h, g = np.abs(eighths(rng, 3)), np.abs(eighths(rng, 3)) + 1
    own = {"psi": lambda h, g: h + g, "gradient": lambda h, g: (1.0, 1.0)}
    calls = [
        exact(lambda beta: s.BetaScaling(beta).value(1.0, 1.0), beta=0.5),
        exact(lambda **v: s.GeneralizedScaling(**v).value(1.0, 1.0), alpha=1.0, beta=0.5),
        exact(lambda bound: s.LogLoss(bound=bound).value(1.0, 1.0), bound=False),
        exact(lambda convex: s.ProbLoss(convex=convex).value(1.0, 1.0), convex=False),
        call(positional(s.get, "name"), name="slack"),
        call(s.from_functions, name=A("mine", k.text), **own),
        call(positional(so.testing.check_surrogate, "s"), s=s.Slack()),
        exact(method, h=A(h, k.broadcast), g=A(g, k.broadcast)),
    ]
    return one_of(rng, calls)

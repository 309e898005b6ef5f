"""Calls that solve and search: oracles, planes, searches, surrogates."""

from __future__ import annotations

from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, eighths, optional, positional, recipe
from .declare import space_of

Rng = np.random.Generator


def _mixed(rng: Rng) -> so.LabelSpace:
    space = so.LabelSpace("mixed")
    y = space.binary("y", 3)
    x = space.continuous("x", 2, -1, 2)
    space.subject_to(y.sum() + x.sum() <= 2, x[0] <= 2 * y[0])
    return space


def _space(rng: Rng) -> so.LabelSpace:
    which = int(rng.integers(3))
    if which == 0:
        return space_of(rng)
    if which == 1:
        return _mixed(rng)
    space = so.LabelSpace("one of five")
    space.subject_to(space.binary("y", 5).sum() == 1)
    return space


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
    space = _space(rng)
    c = eighths(rng, 5)
    return Call(
        lambda **v: so.Oracle(**v).maximize(c),
        {
            "space": A(space, k.thing),
            "solver": A("auto" if rng.random() < 0.5 else "highs", k.option),
            "integral": A("auto", k.option),
            "algorithm": A(None, optional(k.thing)),
        },
        feasible(space),
        tolerance=None,
    )


@recipe
def oracle_options(rng: Rng) -> Call:
    space = _space(rng)
    c = eighths(rng, 5)
    solver = str(rng.choice(["auto", "highs", "scipy"]))
    return Call(
        lambda **v: so.Oracle(space, solver, **v).maximize(c),
        {
            "time_limit": A(10.0, optional(k.real)),
            "mip_gap": A(0.0, optional(k.real)),
            "threads": A(1, optional(k.count)),
        },
        feasible(space),
        tolerance=None,
    )


@recipe
def oracle_calls(rng: Rng) -> Call:
    space = _space(rng)
    solver = str(rng.choice(["auto", "highs", "scipy"]))
    find = so.Oracle(space, solver)
    c = eighths(rng, 5)
    z = find.maximize(c).z
    row = eighths(rng, 5)
    which = int(rng.integers(8))
    check = feasible(space)
    label = A([np.ones(5)], k.label)
    if which == 0:
        return Call(find.maximize, {"c": A(c, k.array)}, check)
    if which == 1:
        rows = A([(row, -50.0, 50.0)], k.extra_rows)
        return Call(find.maximize, {"c": A(c, k.array), "rows": rows}, check, tolerance=None)
    if which == 2:
        return Call(
            lambda a, lower, upper: find.maximize(c, [(a, lower, upper)]),
            {"a": A(row, k.array), "lower": A(-50.0, k.real), "upper": A(50.0, k.real)},
            check,
            tolerance=None,
        )
    if which == 3:
        return Call(find.maximize, {"c": A(c, k.array), "forbid": label, "start": A(z, optional(k.array))}, check, None)
    if which == 4:
        return Call(lambda key: find.maximize(c, key=key), {"key": A(3, k.loose(k.thing))}, check, None)
    C = eighths(rng, 4, 5)
    if which == 5:
        keys = A([1, 2, 3, 4], optional(k.names))
        return Call(
            find.maximize_batch, {"C": A(C, k.array), "n_jobs": A(1, k.count), "keys": keys}, check, tolerance=None
        )
    if which == 6 and space.name != "mixed":
        return Call(find.k_best, {"c": A(c, k.array), "k": A(3, k.count)}, check)
    pair = (row, 1.0)
    return Call(find.front, {"h": A(pair, k.thing), "g": A((c, 0.0), k.thing)}, tolerance=None)


@recipe
def backends(rng: Rng) -> Call:
    space = space_of(rng)
    which = int(rng.integers(3))
    if which == 0:
        return Call(positional(so.backends.backend_class, "name"), {"name": A("highs", k.option)}, tolerance=None)
    if which == 1:
        return Call(
            positional(so.backends.make_backend, "solver", "compiled"),
            {"solver": A("highs", k.option), "compiled": A(space.compiled, k.thing)},
            tolerance=None,
        )
    return Call(positional(so.testing.check_backend, "name"), {"name": A("highs", k.option)}, tolerance=None)


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
    space = space_of(rng)
    find = so.Oracle(space, str(rng.choice(["auto", "highs"])))
    return Call(
        lambda **v: so.Plane(**v).query(1.0),
        {
            "oracle": A(find, k.thing),
            "h": A((eighths(rng, 5), 1.0), _affine),
            "g": A((np.ones(5), 0.0), _affine),
            "truth": A(np.zeros(5), optional(k.array)),
            "rows": A([(np.ones(5), -9.0, 9.0)], k.extra_rows),
            "shrink": A(1e-5, k.real),
            "h_min": A(1e-5, k.real),
            "product_shift": A(0.0, k.real),
        },
        tolerance=None,
    )


def planes(rng: Rng) -> Any:
    if rng.random() < 0.5:
        return so.PointPlane(eighths(rng, 6, 2) + np.array([0, 3]))
    find = so.Oracle(space_of(rng), str(rng.choice(["auto", "highs"])))
    return so.Plane(find, h=(eighths(rng, 5), 1.0), g=(np.abs(eighths(rng, 5)), 0.0))


@recipe
def point_plane(rng: Rng) -> Call:
    return Call(
        lambda **v: so.PointPlane(**v).query(1.0),
        {
            "points": A(eighths(rng, 6, 2), k.loose(k.array)),
            "convex": A(False, k.flag),
            "truth": A(2, optional(k.count)),
        },
        tolerance=None,
    )


@recipe
def plane_queries(rng: Rng) -> Call:
    p = planes(rng)
    which = int(rng.integers(4))
    if which == 0:
        return Call(
            p.query,
            {
                "lam": A(1.0, k.real),
                "bottom": A((1.0, 0.0), optional(k.array)),
                "top": A((0.0, 1.0), optional(k.array)),
                "above": A((-5.0, -5.0), optional(k.array)),
                "open_bottom": A(False, k.flag),
                "shrink": A(1e-5, optional(k.real)),
            },
            tolerance=None,
        )
    if which == 1:
        forbid = A([], k.loose(k.labels) if isinstance(p, so.PointPlane) else k.labels)  # points have numbers
        return Call(lambda lam, forbid: p.query(lam, forbid=forbid), {"lam": A(1.0, k.real), "forbid": forbid})
    if which == 2:
        valid = 1 if isinstance(p, so.PointPlane) else np.zeros(5)
        return Call(p.evaluate, {"label": A(valid, k.loose(k.label))}, tolerance=None)
    return Call(p.k_best, {"lam": A(1.0, k.real), "k": A(2, k.count)}, tolerance=None)


@recipe
def searches(rng: Rng) -> Call:
    name = str(rng.choice(["angular", "binary", "bisecting", "convex_hull", "exact", "sarawagi"]))
    arguments = {
        "plane": A(planes(rng), k.thing),
        "max_queries": A(50, k.count),
        "cache": A([], k.labels),
    }
    if name in ("convex_hull", "exact"):
        arguments["surrogate"] = A("slack", k.option)
    if name in ("binary", "bisecting", "sarawagi"):
        arguments["width"] = A(1e-6, k.real)
    if name == "sarawagi":
        arguments["xi"] = A(1.0, k.real)
    else:
        arguments["lam"] = A(1.0, optional(k.real))
        arguments["rtol"] = A(1e-3, k.real)
    if name == "angular":
        arguments["angles_only"] = A(False, k.flag)
    if name == "convex_hull":
        arguments["integral"] = A(False, k.flag)

    def check(result: Any) -> None:
        assert isinstance(result, so.search.SearchResult)
        assert not np.isnan(result.value) and not np.isnan(result.upper_bound)
        assert result.value <= result.upper_bound + 1e-6 * (1 + abs(result.value)), result

    return Call(getattr(so.search, name), arguments, check, tolerance=None)


@recipe
def surrogates(rng: Rng) -> Call:
    s = so.surrogates
    which = int(rng.integers(7))
    if which == 0:
        return Call(lambda beta: s.BetaScaling(beta).value(1.0, 1.0), {"beta": A(0.5, k.real)})
    if which == 1:
        return Call(
            lambda alpha, beta: s.GeneralizedScaling(alpha, beta).value(1.0, 1.0),
            {"alpha": A(1.0, k.real), "beta": A(0.5, k.real)},
        )
    if which == 2:
        name = str(rng.choice(["LogLoss", "ProbLoss"]))
        option = "bound" if name == "LogLoss" else "convex"
        return Call(lambda flag: getattr(s, name)(**{option: flag}).value(1.0, 1.0), {"flag": A(False, k.flag)})
    if which == 3:
        return Call(positional(s.get, "name"), {"name": A("slack", k.option)}, tolerance=None)
    if which == 4:
        return Call(
            s.from_functions,
            {
                "name": A("mine", k.text),
                "psi": A(lambda h, g: h + g, k.function),
                "gradient": A(lambda h, g: (1.0, 1.0), k.function),
            },
            tolerance=None,
        )
    if which == 5:
        return Call(positional(so.testing.check_surrogate, "s"), {"s": A(s.Slack(), k.thing)}, tolerance=None)
    psi = [s.Margin(), s.Slack(), s.BetaScaling(0.5), s.LogLoss(), s.ProbLoss(), s.Product()][int(rng.integers(6))]
    method = psi.value if rng.random() < 0.5 else psi.gradient
    h, g = np.abs(eighths(rng, 3)), np.abs(eighths(rng, 3)) + 1
    return Call(method, {"h": A(h, k.broadcast), "g": A(g, k.broadcast)})

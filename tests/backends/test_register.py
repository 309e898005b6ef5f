"""A backend of one's own under a name: it is a solver like the others, and passes their conformance suite."""

from __future__ import annotations

import pytest

import structopt as so
from structopt import backends
from structopt.backends.base import Backend
from structopt.backends.scipy import Scipy
from structopt.errors import DeclarationError


class Own(Scipy):
    name = "own"


@pytest.fixture(autouse=True)
def forget():
    before = dict(backends.BACKENDS)
    yield
    backends.BACKENDS.clear()
    backends.BACKENDS.update(before)


def test_a_registered_backend_is_a_solver(tmp_path):
    backends.register("my-own", Own)
    space = so.LabelSpace.from_matrices([[1, 2, 3]], 1, 3)
    oracle = so.Oracle(space, solver="my-own", time_limit=30)
    c = [1.0, 2.0, 2.5]
    assert oracle.maximize(c).value == so.Oracle(space, "highs").maximize(c).value
    assert oracle.algorithm == "my-own" and "my-own" in backends.available_profiles()
    assert isinstance(backends.make_backend("my-own", space.compiled), Own)
    profile = tmp_path / "quick.toml"
    profile.write_text('backend = "my-own"\n[options]\ntime_limit = 5\n', encoding="utf-8")
    assert so.Oracle(space, solver=profile).maximize(c).value == 3.0


def test_a_registered_backend_conforms():
    backends.register("my-own", Own)
    assert so.testing.check_backend("my-own").ok


def test_a_later_class_takes_the_name():
    backends.register("my-own", Own)
    later = type("Later", (Own,), {})
    backends.register("my-own", later)
    assert backends.backend_class("my-own") is later


@pytest.mark.parametrize(
    ("name", "backend", "message"),
    [
        ("highs", Own, "structopt's own"),
        ("cbc", Own, "structopt's own"),
        ("auto", Own, "structopt's own"),
        ("a/b", Own, "letters, digits"),
        ("", Own, "letters, digits"),
        ("own", int, "subclass"),
        ("own", type("Half", (Backend,), {}), "lacks _build, add_rows, .*name, capabilities"),
    ],
)
def test_what_cannot_be_registered(name, backend, message):
    with pytest.raises(DeclarationError, match=message):
        backends.register(name, backend)
    with pytest.raises(DeclarationError, match="no solver profile"):
        so.Oracle(so.LabelSpace.from_matrices([[1, 1]], 1, 1), solver="own")

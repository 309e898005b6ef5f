"""Out to each format and back: the same fingerprint, names, bounds and integrality, for random spaces."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from structopt.interop.files import read, write
from structopt.interop.matrices import assemble
from structopt.interop.pulp import read_pulp, to_pulp
from structopt.interop.pyomo import read_pyomo, to_pyomo
from structopt.space.compiled import CompiledSpace

# Names that some format mangles, quotes, reserves or takes for a keyword or a number.
AWKWARD = [
    "y[0]", "y[1]", "y[2]", "y[0,0]", "y[0,1]", "y(0)", "y_0_", "y", "a b", "a.b", "1", "1e5", "e5", "E", "e1y", "-x",
    "x0", "x1", "r0", "r1", "obj", "RHS", "ROWS", "bounds", "BOUNDS", "free", "st", "s.t.", "subject to", "end", "inf",
    "nan", "generals", "bin", "MARKER", "'MARKER'", "ENDATA", "name", "add_component", "y[noun,verb]", "tag[a]",
    "tag[b c]", "r__upper", "r", "r[0]", "r[1]", "*star", "\\back", "$x", "é", "λ[0]", "x" * 300, "a,b", "a<=b", "a:b",
    "[]", "y[", "a\tb", 'q"uote', "q'uote", "", "#", "UP", "LO", "FR", "BND", "RNG", "None", "model", "structopt_names",
    "__dummy", "c_constraint", "c", "S1", "a^2", "2 x", "[x]", "OBJSENSE", "MAX", "y[00]", "y[01]", "y[1,2,3]",
]  # fmt: skip

NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.sampled_from([0.1, 1 / 3, -2 / 3, 1e15, -1e15, 123456789.12345679, 5e-324, 1e-11, 2.0**53 + 2]),
)
COEFFICIENTS = NUMBERS.filter(lambda value: value == 0 or abs(value) > 1e-11)


def names(count: int) -> st.SearchStrategy[list[str]]:
    plain = st.text(st.characters(min_codepoint=32, max_codepoint=0x3BB, exclude_categories=("C", "Z")), max_size=6)
    # An array stays one block; the rest is drawn from what formats stumble over.
    array = st.just([f"z[{k}]" for k in range(count)])
    mixed = st.lists(st.sampled_from(AWKWARD) | plain, min_size=count, max_size=count, unique=True)
    return array | mixed


@st.composite
def bounds(draw: st.DrawFn, integer: bool) -> tuple[float, float]:
    value = st.integers(-40, 40).map(float) if integer else NUMBERS
    kind = draw(st.sampled_from(["both", "lower", "upper", "free", "equal", "binary", "default"]))
    if kind == "binary":
        return 0.0, 1.0
    if kind == "default":
        return 0.0, np.inf
    low, high = sorted([draw(value), draw(value)])
    return {
        "both": (low, high),
        "lower": (low, np.inf),
        "upper": (-np.inf, high),
        "free": (-np.inf, np.inf),
        "equal": (low, low),
    }[kind]


@st.composite
def spaces(draw: st.DrawFn) -> CompiledSpace:
    """Small spaces with every kind of row and variable; an empty row must be true (0 within its bounds)."""
    n_rows, n = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    cells = st.lists(COEFFICIENTS | st.just(0.0), min_size=n, max_size=n)
    matrix = np.array([draw(cells) for _ in range(n_rows)]).reshape(n_rows, n)
    row_bounds = np.array([draw(bounds(integer=False)) for _ in range(n_rows)]).reshape(n_rows, 2)
    for i in np.flatnonzero(~matrix.any(axis=1)):
        row_bounds[i] = min(row_bounds[i, 0], 0.0), max(row_bounds[i, 1], 0.0)
    integrality = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
    own = np.array([draw(bounds(integer=bool(integer))) for integer in integrality]).reshape(n, 2)
    return assemble(
        sp.csr_array(matrix),
        (row_bounds[:, 0], row_bounds[:, 1]),
        (own[:, 0], own[:, 1]),
        integrality,
        draw(names(n)),
        draw(names(n_rows)),
        draw(st.sampled_from(["", "space", "a space", "ü 'quoted'"])),
    )


def through_file(suffix: str) -> Callable[[CompiledSpace], CompiledSpace]:
    def there_and_back(space: CompiledSpace) -> CompiledSpace:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model{suffix}"
            write(space, path)
            return read(path)

    return there_and_back


ROUND_TRIPS = {
    "pyomo": lambda space: read_pyomo(to_pyomo(space)),
    "pulp": lambda space: read_pulp(to_pulp(space)),
    "mps": through_file(".mps"),
    "lp": through_file(".lp"),
    "lp.gz": through_file(".lp.gz"),
}


def one_row(low: float, high: float, coefficients: list[float]) -> CompiledSpace:
    n = len(coefficients)
    return assemble(
        sp.csr_array(np.array([coefficients]).reshape(1, n)),
        ([low], [high]),
        (np.zeros(n), np.ones(n)),
        np.ones(n, dtype=bool),
        [f"y[{k}]" for k in range(n)],
        ["r"],
        "",
    )


def assert_same(space: CompiledSpace, again: CompiledSpace) -> None:
    assert list(again.variable_names) == list(space.variable_names)
    assert list(again.row_names) == list(space.row_names)
    np.testing.assert_array_equal(again.integrality, space.integrality)
    np.testing.assert_array_equal(again.lower, space.lower)
    np.testing.assert_array_equal(again.upper, space.upper)
    np.testing.assert_array_equal(again.row_lower, space.row_lower)
    np.testing.assert_array_equal(again.row_upper, space.row_upper)
    np.testing.assert_array_equal(again.matrix.toarray(), space.matrix.toarray())
    assert again.matrix.indices.dtype == np.int32
    assert again.fingerprint == space.fingerprint


@pytest.mark.parametrize("form", ["pyomo", "pulp", "mps", "lp"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(space=one_row(0.1, 0.7, [1.0, 0.0, -1 / 3]))
@example(space=one_row(-0.3, 0.7, [0.1]))  # a range whose width rounds
@example(space=one_row(-1e15, 0.1, [1.0]))
@example(space=one_row(-np.inf, np.inf, [1.0, 2.0]))
@example(space=one_row(-1.0, 2.0, []))
@example(space=one_row(0.0, 0.0, [0.0, 0.0]))
@given(space=spaces())
def test_round_trip(form: str, space: CompiledSpace) -> None:
    again = ROUND_TRIPS[form](space)
    assert_same(space, again)
    if space.name:
        assert again.name == space.name


@pytest.mark.parametrize("form", ROUND_TRIPS)
def test_round_trip_of_each_awkward_name(form: str) -> None:
    n = len(AWKWARD)
    space = assemble(
        sp.eye_array(n, format="csr"), (np.zeros(n), np.ones(n)), (np.zeros(n), np.ones(n)), np.ones(n), AWKWARD,
        AWKWARD[::-1], "",
    )  # fmt: skip
    assert_same(space, ROUND_TRIPS[form](space))


@pytest.mark.parametrize("form", ROUND_TRIPS)
def test_chained(form: str) -> None:
    """Every format after every other one."""
    space = one_row(-0.3, 0.7, [0.1, 1.0])
    for other in ROUND_TRIPS.values():
        space = other(ROUND_TRIPS[form](space))
    assert_same(one_row(-0.3, 0.7, [0.1, 1.0]), space)

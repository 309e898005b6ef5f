"""Out to each format and back: the same fingerprint, names, bounds and integrality."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

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


@pytest.mark.parametrize("form", ROUND_TRIPS)
@pytest.mark.parametrize(
    ("low", "high", "coefficients"),
    [
        (0.1, 0.7, [1.0, 0.0, -1 / 3]),
        (-0.3, 0.9, [0.1]),  # a range whose width rounds
        (-1e15, 0.1, [1.0]),
        (-np.inf, np.inf, [1.0, 2.0]),
        (-1.0, 2.0, []),
        (0.0, 0.0, [0.0, 0.0]),
    ],
)
def test_round_trip_of_odd_rows(form: str, low: float, high: float, coefficients: list[float]) -> None:
    space = one_row(low, high, coefficients)
    assert_same(space, ROUND_TRIPS[form](space))


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_files(first: int, fuzz: Callable[[str], Any]) -> None:
    for seed in range(first, first + 20):
        fuzz("files").case(seed)


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

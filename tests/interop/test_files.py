"""Files of other tools, and what a reader may stumble over."""

from __future__ import annotations

import gzip
import logging
from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np
import pulp
import pyomo.environ as pyo
import pytest
import scipy.sparse as sp

from structopt.compiled import CompiledSpace
from structopt.errors import DeclarationError, InfeasibleSpace, UnsupportedModel
from structopt.interop.files import read, read_objective, read_with_objective, write
from structopt.interop.lp import normalise
from structopt.interop.matrices import assemble
from structopt.interop.pyomo import read_pyomo


def lp(tmp_path: Path, rows: str, rest: str = "bounds\n a free\n", objective: str = "0 a + 0 b") -> Path:
    path = tmp_path / "model.lp"
    path.write_text(f"min\n obj: {objective}\nst\n{rows}\n{rest}end\n")
    return path


@pytest.fixture
def space() -> CompiledSpace:
    matrix = sp.csr_array([[1.0, 0.1, 0.0], [0.0, -1 / 3, 1.0]])
    return assemble(
        matrix, ([0, -0.3], [np.inf, 0.7]), ([0, -5, -np.inf], [1, 7, -3]), [1, 1, 0], ["y[0]", "y[1]", "a b"],
        ["r", "s[0]"], "a space",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "coefficients", "low", "high"),
    [
        ("r: -2 <= 1 a + 2 b <= 3", [1, 2], -2, 3),
        ("r: -2 <= a + 2 b <= 3", [1, 2], -2, 3),
        ("r: 3 >= a + 2 b >= -2", [1, 2], -2, 3),
        ("-2 <= a - b <= 3", [1, -1], -2, 3),
        ("r: 2 a + 3 >= 4", [2, 0], 1, np.inf),
        ("r: 3 + 2 a <= 4", [2, 0], -np.inf, 1),
        ("r: 2 a + 3 + b = 4", [2, 1], 1, 1),
        ("r: 2 <= a", [1, 0], 2, np.inf),
        ("r: 2 >= a - b", [1, -1], -np.inf, 2),
        ("r: a < 4", [1, 0], -np.inf, 4),
        ("r: a => 4", [1, 0], 4, np.inf),
        ("r: -1 <= a + 1 =< 4 \\ why 3 + 4", [1, 0], -2, 3),
        ("r: -inf <= a + b <= 4", [1, 1], -np.inf, 4),
        ("r: - a - - 1e+01 b >= -1e-1", [-1, 10], -0.1, np.inf),
        ("r: 1.5e+0 <= 2.5E-1a\n + b\n <= 3", [0.25, 1], 1.5, 3),
        ("r: <= 4", [0, 0], -np.inf, 4),
        ("r: 1 <= 4", [0, 0], -np.inf, 3),
    ],
)
def test_rows_that_highs_alone_misreads(
    tmp_path: Path, row: str, coefficients: list[float], low: float, high: float
) -> None:
    found = read(lp(tmp_path, f" first: a >= -7\n {row}\n last: a + b <= 9"))
    np.testing.assert_array_equal(found.matrix.toarray(), [[1, 0], coefficients, [1, 1]])
    np.testing.assert_array_equal(found.row_lower, [-7, low, -np.inf])
    np.testing.assert_array_equal(found.row_upper, [np.inf, high, 9])
    assert (found.row_names[0], found.row_names[2]) == ("first", "last")


def test_unlabelled_rows(tmp_path: Path) -> None:
    found = read(lp(tmp_path, " a + b >= 1\n 1.5 a <= 4\n - b + a <= 3\n 2 <= a + b <= 5\n b - a >= -1"))
    np.testing.assert_array_equal(found.matrix.toarray(), [[1, 1], [1.5, 0], [1, -1], [1, 1], [-1, 1]])
    np.testing.assert_array_equal(found.row_lower, [1, -np.inf, -np.inf, 2, -1])
    np.testing.assert_array_equal(found.row_upper, [np.inf, 4, 3, 5, np.inf])


def test_plain_rows_pass_untouched(tmp_path: Path) -> None:
    text = lp(tmp_path, " r: 1e+05 a + 2 b >= -1e+5\n s: a - b <= 3\n").read_text()
    assert normalise(text) == (text, {})


@pytest.mark.parametrize(
    "row", ["r: 1 <= a <= b", "r: a <= b <= 3 <= 4", "r: a + 3 <= b", "r: 1 + a <= 2 b", "r: 1 + a"]
)
def test_rows_with_variables_on_two_sides_are_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(DeclarationError, match=r"of the LP file is not of the form|cannot be read"):
        read(lp(tmp_path, row))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("min\n obj: x\nst\n r: x + [ x^2 ] >= 1\nend\n", "Quadratic constraints"),
        ("min\n obj: x + y\nst\n r: x + y >= 1\nsos\n s1: S1:: x:1 y:2\nend\n", "SOS"),
        ("min\n obj: x + y\nst\n r: x + y >= 1\nbounds\n x <= 4\nsemi\n x\nend\n", "'x' .* is semi-continuous"),
    ],
)
def test_more_than_linear_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "model.lp"
    path.write_text(text)
    with pytest.raises(UnsupportedModel, match=words):
        read(path)


def test_quadratic_objective_is_ignored_with_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = lp(tmp_path, " r: a + b >= 1", objective="a + b + [ 2 a ^ 2 ] / 2")
    with caplog.at_level(logging.INFO):
        assert read(path).n_variables == 2
    assert "quadratic objective is ignored" in caplog.text
    with pytest.raises(UnsupportedModel, match="quadratic"):
        read_objective(path)


def test_objective(tmp_path: Path, space: CompiledSpace) -> None:
    path = lp(tmp_path, " r: a + b >= 1", objective="2 b + a + 3")
    path.write_text(path.read_text().replace("min", "max"))
    found, objective = read_with_objective(path)
    assert objective is not None
    assert dict(zip(found.variable_names, objective.coef.tolist(), strict=True)) == {"a": 1, "b": 2}
    assert (objective.constant, objective.sense) == (3, "maximize")
    assert read_objective(path, found) is not None
    with pytest.raises(DeclarationError, match="other variables"):
        read_objective(path, space)
    write(space, path)
    assert read_objective(path, space) is None


def test_clear_errors(tmp_path: Path, space: CompiledSpace) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file .*missing.mps"):
        read(tmp_path / "missing.mps")
    for name in ("model.txt", "model", "model.gz", "model.mps.zip"):
        with pytest.raises(DeclarationError, match=r"must end in \.mps"):
            write(space, tmp_path / name)
        with pytest.raises(DeclarationError, match=r"must end in \.mps"):
            read(tmp_path / name)
    garbage = tmp_path / "garbage.mps"
    garbage.write_text("this is no model")
    with pytest.raises(DeclarationError, match=r"garbage\.mps' cannot be read: HiGHS says"):
        read(garbage)
    (tmp_path / "plain.lp.gz").write_text("min\nend\n")
    with pytest.raises(DeclarationError, match="not a gzip file"):
        read(tmp_path / "plain.lp.gz")


def test_what_files_cannot_hold_is_refused(tmp_path: Path, space: CompiledSpace) -> None:
    with pytest.raises(InfeasibleSpace, match=r"'s\[0\]' has lower bound 2.0 above upper bound 0.7"):
        write(replace(space, row_lower=np.array([0.0, 2.0])), tmp_path / "m.mps")
    with pytest.raises(InfeasibleSpace, match=r"'y\[0\]' has lower bound 3"):
        write(replace(space, lower=np.array([3.0, -5.0, -np.inf])), tmp_path / "m.lp")
    with pytest.raises(DeclarationError, match=r"Row 's\[0\]' has the coefficient 1e-13 of 'a b'"):
        write(replace(space, matrix=sp.csr_array([[1.0, 0.1, 0.0], [0.0, 0.0, 1e-13]])), tmp_path / "m.lp")


@pytest.mark.parametrize("suffix", [".mps", ".lp", ".mps.gz", ".LP"])
def test_case_compression_and_text(tmp_path: Path, space: CompiledSpace, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    write(space, path)
    assert read(path).fingerprint == space.fingerprint
    assert read(str(path)).variable_names == space.variable_names
    raw = path.read_bytes()
    assert b"0.3333333333333333" in (gzip.decompress(raw) if suffix.endswith("gz") else raw)
    first = raw
    write(space, path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_files_of_highs(tmp_path: Path, space: CompiledSpace, suffix: str) -> None:
    """HiGHS rounds to 15 digits, and in LP files splits a double-bounded row; the model is the same."""
    ours, theirs = tmp_path / "ours.lp", tmp_path / f"theirs{suffix}"
    single = replace(space, row_upper=np.array([np.inf, np.inf]))
    write(single, ours)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(ours)) == highspy.HighsStatus.kOk
    highs.writeModel(str(theirs))
    found = read(theirs)
    order = [found.variable_names.index(name) for name in ("y(0)", "y(1)", "a_b")]
    np.testing.assert_allclose(found.matrix.toarray()[:, order], space.matrix.toarray(), rtol=1e-14)
    np.testing.assert_array_equal(found.row_lower, space.row_lower)
    np.testing.assert_array_equal(found.lower[order], space.lower)
    np.testing.assert_array_equal(found.upper[order], space.upper)
    np.testing.assert_array_equal(found.integrality[order], space.integrality)


def test_files_of_pulp_and_pyomo(tmp_path: Path) -> None:
    model = pyo.ConcreteModel()
    model.y = pyo.Var([0, 1, 2], domain=pyo.Binary)
    model.z = pyo.Var(bounds=(-1, 2.5))
    model.r = pyo.Constraint(expr=(1, model.y[0] + 2 * model.y[1] - model.z, 3))
    model.s = pyo.Constraint(expr=model.y[2] + model.z == 1)
    model.o = pyo.Objective(expr=model.y[0])
    path = tmp_path / "pyomo.lp"
    model.write(str(path), io_options={"symbolic_solver_labels": True})
    found = read(path)
    assert set(found.variable_names) >= {"y(0)", "y(1)", "y(2)", "z"}
    assert found.integrality.sum() == 3
    assert read_pyomo(model).n_rows == 2
    problem = pulp.LpProblem("p")
    a = pulp.LpVariable("a", -3, 4, cat="Integer")
    b = pulp.LpVariable("b")
    problem += a + b
    problem += a + 2 * b >= 1, "r"
    problem += a - b <= 0.5, "s"
    for suffix in ("lp", "mps"):
        path = tmp_path / f"pulp.{suffix}"
        problem.writeLP(str(path)) if suffix == "lp" else problem.writeMPS(str(path))
        found = read(path)
        order = [found.variable_names.index(name) for name in ("a", "b")]
        np.testing.assert_array_equal(found.matrix.toarray()[:, order], [[1, 2], [1, -1]])
        np.testing.assert_array_equal(found.lower[order], [-3, -np.inf])
        np.testing.assert_array_equal(found.upper[order], [4, np.inf])
        assert found.row_names == ("r", "s")


def test_large_space_is_quick(tmp_path: Path) -> None:
    n = 20_000
    matrix = sp.random_array((n, n), density=3 / n, rng=np.random.default_rng(0), format="csr")
    names = [f"y[{k}]" for k in range(n)]
    large = assemble(matrix, (np.zeros(n), np.ones(n)), (np.zeros(n), np.ones(n)), np.ones(n), names, names, "large")
    write(large, tmp_path / "large.mps")
    assert read(tmp_path / "large.mps").fingerprint == large.fingerprint

"""Files of other tools, and what a reader may stumble over."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np
import pulp
import pytest
import scipy.sparse as sp

from structopt.errors import DeclarationError, InfeasibleSpace, SpaceMismatch, UnboundedObjective, UnsupportedModel
from structopt.interop.files import read, read_model, write
from structopt.interop.matrices import assemble
from structopt.oracle import Oracle
from structopt.space import LabelSpace
from structopt.space.compiled import CompiledSpace


def lp(tmp_path: Path, rows: str, rest: str = "bounds\n a free\n", objective: str = "0 a + 0 b") -> Path:
    path = tmp_path / "model.lp"
    path.write_text(f"min\n obj: {objective}\nst\n{rows}\n{rest}end\n", encoding="utf-8")
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
        ("r: 1.5e+0 <= 2.5E-1a + b <= 3", [0.25, 1], 1.5, 3),
        ("r: 2.5E-1a\n + b\n <= 3", [0.25, 1], -np.inf, 3),
        ("r: <= 4", [0, 0], -np.inf, 4),
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


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("r: 1 <= a <= b", "'b' follows the right-hand side|not of the form"),
        ("r: a <= b <= 3 <= 4", "not of the form"),
        ("r: a + 3 <= b", "not of the form"),
        ("r: 1 + a <= 2 b", "'b' follows the right-hand side"),
        ("r: 1 + a", "not of the form"),
        ("r: 1 <= 4", "no variable"),
        # A number-first row before one without a label: one row or two?
        ("r: 2 <= a\n - b <= 5", "'-' may go on with the row above"),
        ("2 <= a\n b <= 5", "may go on with the row above"),
        ("r: 1.5 <= a\n + b\n <= 3", "may go on with the row above"),
        ("2 <= a b <= 5", "'b' follows without"),
        # A number too many.
        ("r: a + b >= 1 2", "'2' follows the right-hand side"),
        ("r: a + b >= 1\n 2", "not of the form"),
        ("r: 2 3 a >= 1", "'3' is a number too many"),
        ("r: a 3 + b >= 1", "'3' follows without"),
        ("r: a + b >= 1 + 2", r"'\+' follows the right-hand side"),
        ("r: 1.5.2 a >= 1", "two numbers"),
        ("r: a b >= 1", "'b' follows without"),
        # Names that are keywords or numbers.
        ("r: a + nan >= 1", "'nan' is a keyword"),
        ("r: a + inf >= 1", "infinite constant"),
        ("r: a + inf b >= 1", "coefficient of 'b' is infinite"),
        ("r: a + bin >= 1", "'bin' is a keyword"),
        ("bounds: a >= 1", "'bounds' is a keyword"),
        ("r: 2e >= 1", "may be its exponent"),
        ("r: 0x10 >= 1", "may be its exponent"),
        ("r: a >= inf", "no value can satisfy"),
        ("r: a >= 1e20", "no value can satisfy"),
        ("r: a >= ", "not of the form"),
        ("r: a >= - ", "a sign that nothing follows"),
        ("r: + - - a >= 1", "a sign too many"),
        ("r: a <> 1", "not of the form"),
        ("r: 1 <= a >= 2", "bounded twice by"),
        ("r: a / 2 >= 1", "'/' is not understood"),
        ("r: a\u00a0c >= 1", "cannot be printed|not understood"),
        ("first: a >= 1", "a second row is called 'first'"),
        ("r s: a >= 1", "not of the form"),
        ("r: a \\* a remark\n >= 1", "a comment that begins"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(DeclarationError, match=rf"model\.lp, line [5-9]: .*(?:{words})"):
        read(lp(tmp_path, f" first: a >= -7\n {row}\n last: a + b <= 9"))


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("bounds\n a <= -3\n", "no lower one"),
        ("bounds\n a <= 3\n a <= 4\n", "a second upper bound"),
        ("bounds\n 2 a <= 4\n", "a bound has the form"),
        ("bounds\n a >= -1 a <= 4\n", "a bound has the form"),
        ("bounds\n a >=\n 3\n", "a bound has the form"),
        ("bounds\n a >= inf\n", "no number lies beyond"),
        ("bounds\n -3 <= a <= 5\nbin\n a\n", "is binary and has the bounds"),
        ("bounds\n a >= 3\nbounds\n b >= 2\n", "a second time"),
        ("st\n s: a >= 3\n", "a second time"),
        ("gen\n a 3\n", "'3' has no place"),
        ("end\n junk\n", "text after 'end'|a second time"),
        ("bin\n a st\n", "'st' is a keyword"),
    ],
)
def test_bounds_that_tools_read_in_several_ways_are_refused(tmp_path: Path, rest: str, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        read(lp(tmp_path, " r: a + b >= 1", rest))


def test_names_that_begin_like_numbers(tmp_path: Path) -> None:
    """HiGHS reads `infra` as infinity times `ra`, and `nanny` as not-a-number times `ny`."""
    found = read(lp(tmp_path, " r: infra + 2 nanny - 3 Information >= 1\n s: infinity_2 + e_1 <= 4", ""))
    assert found.variable_names == ("a", "b", "infra", "nanny", "Information", "infinity_2", "e_1")
    assert found.matrix.toarray()[0].tolist() == [0, 0, 1, 2, -3, 0, 0]


def test_writers_avoid_what_highs_misreads(tmp_path: Path, space: CompiledSpace) -> None:
    own = replace(space, variable_names=("infra", "nanny", "eels"), row_names=("nan_1", "info"))
    write(own, tmp_path / "m.lp")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(tmp_path / "m.lp")) == highspy.HighsStatus.kOk
    assert highs.getLp().num_col_ == 3
    found = read(tmp_path / "m.lp")
    assert (found.variable_names, found.row_names) == (own.variable_names, own.row_names)


@pytest.mark.parametrize("text", ["", "min\n obj: a\nst\n r: a >= 1\n", "\\ nothing\n", "st\n r: a >= 1\nend\n"])
def test_incomplete_lp_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.lp").write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"m\.lp"):
        read(tmp_path / "m.lp")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("min\n obj: x\nst\n r: x + [ x^2 ] >= 1\nend\n", "quadratic"),
        ("min\n obj: x + y\nst\n r: x + y >= 1\nsos\n s1: S1:: x:1 y:2\nend\n", "SOS"),
        ("min\n obj: x + y\nst\n r: x + y >= 1\nbounds\n x <= 4\nsemi\n x\nend\n", "'x' is semi-continuous"),
    ],
)
def test_more_than_linear_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "model.lp"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnsupportedModel, match=words):
        read(path)


def test_quadratic_objective_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"model\.lp, line \d+: .*quadratic"):
        read(lp(tmp_path, " r: a + b >= 1", objective="a + b + [ 2 a ^ 2 ] / 2"))
    for section in ("QUADOBJ", "QMATRIX", "QUADS", "QSECTION"):
        with pytest.raises(UnsupportedModel, match=rf"model\.mps, line \d+: {section}: a quadratic objective"):
            read(mps(tmp_path, RHS="", **{section: " x x 2\n"}))


def test_clear_errors(tmp_path: Path, space: CompiledSpace) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file .*missing.mps"):
        read(tmp_path / "missing.mps")
    for name in ("model.txt", "model", "model.gz", "model.mps.zip"):
        with pytest.raises(DeclarationError, match=r"must end in \.mps"):
            write(space, tmp_path / name)
        with pytest.raises(DeclarationError, match=r"must end in \.mps"):
            read(tmp_path / name)
    garbage = tmp_path / "garbage.mps"
    garbage.write_text("this is no model", encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"garbage\.mps, line 1: 'this' in the first column"):
        read(garbage)
    (tmp_path / "plain.lp.gz").write_text("min\nend\n", encoding="utf-8")
    with pytest.raises(DeclarationError, match="not a gzip file"):
        read(tmp_path / "plain.lp.gz")


def test_what_files_cannot_hold_is_refused(tmp_path: Path, space: CompiledSpace) -> None:
    with pytest.raises(InfeasibleSpace, match=r"'s\[0\]' has lower bound 2.0 above upper bound 0.7"):
        write(replace(space, row_lower=np.array([0.0, 2.0])), tmp_path / "m.mps")
    with pytest.raises(InfeasibleSpace, match=r"'y\[0\]' has lower bound 3"):
        write(replace(space, lower=np.array([3.0, -5.0, -np.inf])), tmp_path / "m.lp")


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_tiny_and_huge_numbers_survive(tmp_path: Path, space: CompiledSpace, suffix: str) -> None:
    matrix = sp.csr_array([[1.0, 1e-13, 0.0], [5e-324, 0.0, -1.7e308]])
    tiny = replace(space, matrix=matrix, row_lower=np.array([-np.inf, -9.999e19]), row_upper=np.array([1e-300, 1 / 3]))
    write(tiny, tmp_path / f"m{suffix}")
    assert read(tmp_path / f"m{suffix}").fingerprint == tiny.fingerprint


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


def test_large_space_is_quick(tmp_path: Path) -> None:
    n = 5_000
    matrix = sp.random_array((n, n), density=3 / n, rng=np.random.default_rng(0), format="csr")
    names = [f"y[{k}]" for k in range(n)]
    large = assemble(matrix, (np.zeros(n), np.ones(n)), (np.zeros(n), np.ones(n)), np.ones(n), names, names, "large")
    write(large, tmp_path / "large.mps")
    assert read(tmp_path / "large.mps").fingerprint == large.fingerprint


# ---- MPS -----------------------------------------------------------------------------------------


def mps(tmp_path: Path, **parts: str) -> Path:
    told = {"ROWS": " N obj\n G r\n", "COLUMNS": " x obj 1 r 1\n y r 2\n", "RHS": " RHS r 3\n"} | parts
    path = tmp_path / "model.mps"
    path.write_text(
        "NAME t\n" + "".join(f"{key}\n{value}" for key, value in told.items()) + "ENDATA\n", encoding="utf-8"
    )
    return path


_INTEGER = " M 'MARKER' 'INTORG'\n x r 1\n M 'MARKER' 'INTEND'\n"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        # HiGHS answers each of these with another program, and no word.
        ({"COLUMNS": " x q 1\n"}, "line 6: 'q' is not a row"),
        ({"COLUMNS": " x r 1.5.2\n"}, "'1.5.2' is not a number"),
        ({"COLUMNS": " x r 1e\n"}, "'1e' is not a number"),
        ({"COLUMNS": " x r 0x10\n"}, "'0x10' is not a number"),
        ({"COLUMNS": " x r 1_0\n"}, "'1_0' is not a number"),
        ({"COLUMNS": " x r 1 q\n"}, "one or two pairs"),
        ({"COLUMNS": " x r 1 r 2\n"}, "a second entry"),
        ({"COLUMNS": " x r 1\n y r 1\n x r 2\n"}, "not together"),
        ({"COLUMNS": " x r 1e400\n"}, "too large"),
        ({"COLUMNS": " x r 1\n NAME r 2\n"}, "begins with 'NAME'"),
        ({"RHS": " objsense r 3\n"}, "begins with 'objsense'"),
        ({"ROWS": " N obj\n G r\n G r\n"}, "a second row"),
        ({"ROWS": " N obj\n X r\n"}, "'X' is not a type of row"),
        ({"RHS": " RHS q 3\n"}, "'q' is not a row"),
        ({"RHS": " RHS r 3\n RHS r 4\n"}, "a second right-hand side"),
        ({"RHS": " RHS r 3\n OTHER obj 4\n"}, "a second set"),
        ({"RHS": "", "RANGES": " RNG r 4\n RNG r 5\n"}, "a second range"),
        ({"RHS": "", "BOUNDS": " UP B x -3\n"}, "negative upper bound"),
        ({"RHS": "", "BOUNDS": " UP B x 3\n UP B x 4\n"}, "a second upper bound"),
        ({"RHS": "", "BOUNDS": " UP B q 3\n"}, "'q' is not a column"),
        ({"RHS": "", "BOUNDS": " UP B x nan\n"}, "'nan' is not a number"),
        ({"RHS": "", "BOUNDS": " XX B x 1\n"}, "not a type of bound"),
        ({"RHS": "", "BOUNDS": "", "RANGES": " RNG r 4\n"}, "RANGES must come before BOUNDS"),
        ({"RHS": "", "NOTES": ""}, "'NOTES' in the first column"),
        ({"ROWS": " N obj\n G r 1\n"}, "without spaces"),
    ],
)
def test_mps_that_is_not_understood_is_refused(tmp_path: Path, parts: dict[str, str], words: str) -> None:
    with pytest.raises(DeclarationError, match=rf"model\.mps.*{words}"):
        read(mps(tmp_path, **parts))


def test_mps_integer_without_bounds_is_unbounded_above(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = LabelSpace.read(mps(tmp_path, ROWS=" N obj\n L r\n", COLUMNS=_INTEGER + " y obj 1\n", RHS=" RHS r 4\n"))
    assert found.upper.tolist() == [np.inf, np.inf] and found.integrality.tolist() == [True, False]
    assert "model.mps, line 7: integer without bounds, read as [0, inf)" in caplog.text
    assert found.contains([3, 0.5]) and not found.contains([3.5, 0.5])
    assert Oracle(found).maximize([1.0, -1.0]).z.tolist() == [4, 0]
    with pytest.raises(UnboundedObjective):
        Oracle(found).maximize([1.0, 1.0])
    with pytest.raises(DeclarationError, match="Integer variable x is unbounded"):
        found.enumerate()


def test_mps_integer_marker_ends_with_its_section(tmp_path: Path) -> None:
    path = mps(tmp_path, COLUMNS=" M 'MARKER' 'INTORG'\n x r 1\n", RHS="", BOUNDS=" UP B x 3\n")
    assert read(path).integrality.tolist() == [True] and read(path).upper.tolist() == [3]


def test_mps_text_after_endata_is_ignored(tmp_path: Path) -> None:
    path = mps(tmp_path)
    expected = read(path).fingerprint
    path.write_text(path.read_text() + "\nROWS\n G more\nbest known: 12\n")
    assert read(path).fingerprint == expected


def test_mps_exponents_of_fortran_are_read(tmp_path: Path) -> None:
    found = read(mps(tmp_path, COLUMNS=" x r 2.5D-1\n", RHS=" RHS r 1.0d3\n"))
    assert found.matrix.toarray().tolist() == [[0.25]] and found.row_lower.tolist() == [1000]


_FIXED = """\
NAME          WITH SPACES
ROWS
 N  COST
 L  ROW 1
 G  ROW 2
COLUMNS
    COL A     COST               1.0   ROW 1              2.0
    COL A     ROW 2              1.0
    M 1       'MARKER'                 'INTORG'
    B         COST              -1.0   ROW 2              3.0
    M 2       'MARKER'                 'INTEND'
RHS
    RHS 1     ROW 1              4.0   ROW 2              1.0
RANGES
    RNG 1     ROW 1              3.0
BOUNDS
 UP BND 1     COL A              4.0
 LO BND 1     B                 -2.0
 UP BND 1     B                  3.0
ENDATA
"""


def test_mps_names_of_the_fixed_format_may_have_spaces(tmp_path: Path) -> None:
    path = tmp_path / "fixed.mps"
    path.write_text(_FIXED)
    found, objective = read_model(path)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    model = highs.getLp()
    assert found.variable_names == ("COL A", "B") == tuple(model.col_names_)
    assert found.row_names == ("ROW 1", "ROW 2") == tuple(model.row_names_)
    assert found.row_lower.tolist() == [1, 1] == list(model.row_lower_)
    assert found.upper.tolist() == [4, 3] == list(model.col_upper_)
    assert found.lower.tolist() == [0, -2] == list(model.col_lower_)
    assert found.integrality.tolist() == [False, True]
    assert objective is not None and objective.coef.tolist() == [1, -1] == list(model.col_cost_)
    path.write_text(_FIXED.replace(" UP BND 1     COL A  ", " UP BND 1   COL A  "))
    with pytest.raises(DeclarationError, match=r"fixed\.mps, line 4: a row is a type and a name without spaces"):
        read(path)


def test_mps_comments_after_a_dollar_sign_are_ignored(tmp_path: Path) -> None:
    plain = {"ROWS": " N obj\n G r\n", "COLUMNS": " x obj 1 r 2\n", "RHS": " RHS r 3\n", "BOUNDS": " UP B x 4\n"}
    expected = read(mps(tmp_path, **plain)).fingerprint
    noted = {section: "".join(f"{line} $ 2 notes\n" for line in text.splitlines()) for section, text in plain.items()}
    assert read(mps(tmp_path, **noted)).fingerprint == expected
    one_word = {section: text.replace(" $ 2 notes", " $note") for section, text in noted.items()}
    path = mps(tmp_path, **one_word)
    assert read(path).fingerprint == expected
    path.write_text(path.read_text().replace("\nROWS\n", "\nROWS $ all rows\n"))
    assert read(path).fingerprint == expected
    with pytest.raises(DeclarationError, match="'y' is not a column"):
        read(mps(tmp_path, **noted | {"BOUNDS": " UP B y 4 $ note\n"}))


def test_mps_names_may_begin_with_a_dollar_sign(tmp_path: Path) -> None:
    found = read(mps(tmp_path, ROWS=" N obj\n G $r\n", COLUMNS=" $x $r 2\n", RHS=" RHS $r 3\n"))
    assert found.variable_names == ("$x",) and found.row_names == ("$r",)


def test_mps_comments_of_the_fixed_format_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "fixed.mps"
    path.write_text(_FIXED)
    expected = read(path).fingerprint
    noted = _FIXED.replace(" L  ROW 1\n", " L  ROW 1     $ a row\n").replace(
        "COL A              4.0\n", "COL A              4.0   $ 4, not 5\n"
    )
    assert noted.count("$") == 2
    path.write_text(noted)
    assert read(path).fingerprint == expected


def test_mps_of_pulp_with_the_sense_of_its_objective_is_read(tmp_path: Path) -> None:
    problem = pulp.LpProblem("t", pulp.LpMaximize)
    x, y = pulp.LpVariable("x", 0, 4, cat="Integer"), pulp.LpVariable("y", cat="Binary")
    problem += 3 * x - 2 * y
    problem += x + y <= 4, "r"
    problem.writeMPS(str(tmp_path / "t.mps"), with_objsense=True)
    space = LabelSpace.read(tmp_path / "t.mps")
    assert space.objective is not None and space.objective.sense == "maximize"
    assert space.objective.coef.tolist() == [3, -2]


def test_objective_of_a_space_is_checked_and_grows_with_it() -> None:
    space = LabelSpace()
    y = space.binary("y", 2)
    with pytest.raises(SpaceMismatch, match=r"shape \(3,\); the space needs \(2,\)"):
        space.objective = [1.0, 2.0, 3.0]
    with pytest.raises(DeclarationError):
        space.objective = [1.0, np.nan]
    space.objective = [1.0, 2.0]
    space.subject_to(y.sum() <= 1)
    space.binary("more")
    assert space.objective is not None and space.objective.coef.tolist() == [1, 2, 0]
    assert space.copy().objective is not None and space.relaxed().objective is not None


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_files_that_are_no_models(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m{suffix}"
    for raw in (b"", b"\0\1\2", bytes(range(256)), b"\x1f\x8b\x08garbage", "λ\n".encode("utf-16"), b"\n" * 100_000):
        path.write_bytes(raw)
        with pytest.raises(DeclarationError, match=rf"m\{suffix}"):
            read(path)
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read(tmp_path / f"folder{suffix}")
    path = tmp_path / f"m{suffix}.gz"
    path.write_bytes(gzip.compress(b"minimize\nend\n")[:-6])
    with pytest.raises(DeclarationError, match="not a gzip file"):
        read(path)


def test_utf16_and_windows_line_ends(tmp_path: Path, space: CompiledSpace) -> None:
    for suffix in (".lp", ".mps"):
        path = tmp_path / f"m{suffix}"
        write(space, path)
        text = path.read_text(encoding="utf-8")
        for raw in (text.replace("\n", "\r\n").encode(), text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode()):
            path.write_bytes(raw)
            assert read(path).fingerprint == space.fingerprint


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_comments_rename_and_join_but_never_change_the_set(tmp_path: Path, space: CompiledSpace, suffix: str) -> None:
    path = tmp_path / f"m{suffix}"
    write(replace(space, row_lower=np.array([0, -0.1]), row_upper=np.array([np.inf, 0.2])), path)
    text = path.read_text(encoding="utf-8")
    sign = "*" if suffix == ".mps" else "\\"
    path.write_text(f'{sign} structopt: ["range", "r", -5, 5]\n{text}', encoding="utf-8")  # as version 0.1.0 had them
    assert read(path).row_lower.tolist() == [0, -0.1]
    path.write_text(text.replace('"halves"', '"nothing"'), encoding="utf-8")
    assert read(path).n_rows == (3 if "halves" in text else 2)
    path.write_text(f"{sign} structopt: [[[\n{text}", encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"line 1: a comment of structopt that is not JSON"):
        read(path)
    path.write_text(
        text.replace("y[1]", "y[0]") if suffix == ".lp" else f'{sign} structopt: ["row", "r", "s[0]"]\n{text}',
        encoding="utf-8",
    )
    with pytest.raises(DeclarationError, match="one name"):
        read(path)


@pytest.fixture
def every_kind() -> CompiledSpace:
    """Double-bounded, one-sided, equal, free and empty rows, every kind of bound, names that are keywords or
    numbers."""
    matrix = np.array(
        [[1, 0.1, 0, 2], [0, -3.5, 1, 1], [1, 1, 0, 0], [0, 0, 1, 7], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=float
    )
    return assemble(
        sp.csr_array(np.array(matrix)), ([0, -0.25, 1, -9, -np.inf, -1], [np.inf, 0.75, 1, 29, np.inf, 1]),
        ([0, -5, -np.inf, -np.inf], [1, 7, -3, np.inf]), [1, 1, 0, 0], ["infra", "y[1]", "a b", "e5"],
        ["nan", "st", "r[2]", "free", "x" * 300, "end"], "a space",
    )  # fmt: skip


def test_glpk_reads_the_same_program(tmp_path: Path, every_kind: CompiledSpace) -> None:
    program = shutil.which("glpsol")
    if program is None:
        pytest.skip("glpsol is not installed")
    for suffix, kind in ((".lp", "--lp"), (".mps", "--freemps")):
        write(every_kind, tmp_path / f"ours{suffix}")
        theirs = tmp_path / f"theirs{suffix}.mps"
        command = [program, kind, str(tmp_path / f"ours{suffix}"), "--check", "--wfreemps", str(theirs)]
        subprocess.run(command, capture_output=True, timeout=60, check=True)
        found = read(theirs)
        low, high = (
            np.where(np.abs(part) > 1e29, np.copysign(np.inf, part), part)
            for part in (found.row_lower, found.row_upper)
        )
        rows = [*zip(found.matrix.toarray().tolist(), low, high, strict=True)]
        wanted = [*zip(every_kind.matrix.toarray().tolist(), every_kind.row_lower, every_kind.row_upper, strict=True)]
        for terms, lower, upper in wanted:
            sides = [(a, b) for other, a, b in rows if np.allclose(other, terms, rtol=1e-12)]
            assert max(a for a, _ in sides) == lower and min(b for _, b in sides) == upper, (suffix, terms, sides)
        np.testing.assert_array_equal(found.lower, every_kind.lower)
        np.testing.assert_array_equal(found.upper, every_kind.upper)
        np.testing.assert_array_equal(found.integrality, every_kind.integrality)


@pytest.mark.parametrize(
    "line",
    [
        "r: " + "a" * 400_000 + " >= 1",
        "r: a" + " " * 400_000 + ">= 1",
        "r: " + "+ a " * 100_000 + ">= 1",
        "r: " + "1" * 400_000 + " a >= 1",
        "r: a >= 1 \\ " + "\\*" * 200_000,
        "r: " + "a:" * 100_000,
        "r: " + "- " * 200_000 + "a >= 1",
        "r: " + "1." * 100_000,
    ],
)
def test_long_lines_take_time_in_proportion(tmp_path: Path, line: str) -> None:
    """Each would take hours if a token were looked at again and again."""
    path = lp(tmp_path, f" {line}")
    try:
        assert read(path).n_rows == 1
    except DeclarationError as error:
        assert len(str(error)) < 1000 or "a" * 60 in str(error)

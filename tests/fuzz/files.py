"""Files: random spaces through every writer and reader, then damaged texts, and data files of each kind.

LP and MPS texts come from structopt, HiGHS, PuLP and Pyomo. What structopt's reader makes of a text must be what
HiGHS's own reader makes of it; structopt may refuse what HiGHS takes, never read another program. Where HiGHS is
known to be wrong (`_highs_misreads`, each with its reason) a text is only read. Data files may be refused with a
`StructoptError` that names the file, and with nothing else.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp

from structopt.data import read as read_data
from structopt.errors import InfeasibleSpace, StructoptError
from structopt.interop.files import read, write
from structopt.interop.lp import _OBJECTIVES, _SECTIONS, _sections, _tokens, read_lp
from structopt.interop.matrices import assemble
from structopt.interop.mps import read_mps
from structopt.interop.program import Program
from structopt.interop.pulp import to_pulp
from structopt.interop.pyomo import to_pyomo
from structopt.space.compiled import CompiledSpace

NAMES = [
    "y[0]", "y[1]", "y[0,1]", "a", "b", "x1", "x2", "x_3", "infra", "nanny", "Infinity_2", "e1", "e", "E2x",
    "eels", "st", "bounds", "bin", "free", "end", "max", "obj", "RHS", "r", "c1", "name", "\u03bb", "x.y",
    "tag(1)", "tag(2)", "x!y", "s.t.", "x#1", "generals", "inf", "nan", "ENDATA", "RANGES", "MARKER", "z_upper",
    "1st", "x{2}", "q~", "x&y", "a;b",
]  # fmt: skip
_ROWS = [word for word, section in _SECTIONS.items() if section == "rows"]
PLAIN = [
    "y[0]", "y[1]", "a", "b", "x1", "x2", "x_3", "tag(1)", "tag(2)", "x.y", "c1", "z_upper", "x!y", "q~", "row_1",
    "row_2", "alpha", "beta",
]  # fmt: skip
NUMBERS = (1.0, -1.0, 2.0, 0.5, 3.0, -7.25, 1 / 3, 1e-3, 1e-7, 123456789.125, -1e9, 1e15, 0.1, 5e-11, 4.0)
WORDS = [
    "st", "subject", "to", "bounds", "bound", "free", "end", "min", "max", "generals", "binary", "inf", "-inf",
    "infinity", "nan", "1e20", "1e30", "1e400", "0x1F", "1d3", ".5", "5.", ".", "--", "+", "-", "<=", ">=", "<",
    ">", "=", "=<", "=>", ":", ";", "*", "/", "^", "[", "]", "->", "\\", "NAME", "ROWS", "COLUMNS", "RHS",
    "RANGES", "BOUNDS", "ENDATA", "OBJSENSE", "MAX", "N", "E", "G", "L", "UP", "LO", "FX", "FR", "MI", "PL",
    "BV", "LI", "UI", "SC", "'MARKER'", "'INTORG'", "'INTEND'", "x", "r", "1", "-1", "2.5", "0", "*", "$", "#",
    '"a', "'b", "\u00e9", "\ufeff", "1_000", "\u0663", "1e5x", "2e", "x1", "x2", "a", "b", "semi", "sos", "1,5",
    "1e", "\u00a0", "\u2003",
]  # fmt: skip

#: A change of a text.
Damage = Callable[[np.random.Generator, str], str]


def case(seed: int) -> str:
    """One random case; what was exercised."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        if rng.random() < 0.3:
            return _data_case(rng, Path(folder))
        return _program_case(rng, Path(folder))


# ---- programs ------------------------------------------------------------------------------------


def _program_case(rng: np.random.Generator, folder: Path) -> str:
    kind = str(rng.choice(["lp", "mps"]))
    writer = str(rng.choice(["structopt", "structopt", "structopt", "highs", "pulp", "pyomo"]))
    # PuLP and Pyomo write a keyword as a name, which no reader can take.
    space = _space(rng, NAMES if writer == "structopt" else PLAIN)
    path = folder / f"model.{kind}"
    if not _written(space, writer, path):
        return f"{kind}, {writer} cannot write it"
    if rng.random() < 0.35:
        return f"{kind} of {writer}, {_check_whole(space, writer, path)}"
    text = path.read_bytes().decode("utf-8")
    if kind == "lp" and rng.random() < 0.3:
        return f"lp, rewritten, {_rewritten(rng, text, path)}"
    for _ in range(int(rng.integers(1, 4))):
        text = _mutated(rng, text)
    path.write_bytes(text.encode("utf-8", errors="replace"))
    return f"{kind}, damaged, {_compared(path, kind)}"


def _rewritten(rng: np.random.Generator, text: str, path: Path) -> str:
    """The same rows in another dress, some of which HiGHS cannot read: refused, or the same space."""
    before = read_lp(text, path.name)
    for _ in range(int(rng.integers(1, 6))):
        text = _DRESSES[int(rng.integers(len(_DRESSES)))](rng, text)
    path.write_bytes(text.encode())
    try:
        read(path)
        after = read_lp(text, path.name)
    except StructoptError as error:
        assert path.name in str(error)
        return "refused"
    for part in ("row_lower", "row_upper", "lower", "upper", "integer", "column", "entries"):
        assert getattr(before, part) == getattr(after, part), f"another {part}:\n{text}"
    return "read"


def _one(pattern: str, change: Callable[[np.random.Generator, re.Match[str]], Any]) -> Damage:
    """Return a change of one match of a pattern, below the comments at the top."""

    def changed(rng: np.random.Generator, text: str) -> str:
        below = text.find("\nminimize")
        found = [m for m in re.finditer(pattern, text, re.MULTILINE | re.IGNORECASE) if m.start() > below]
        if not found:
            return text
        match = found[int(rng.integers(len(found)))]
        return text[: match.start()] + str(change(rng, match)) + text[match.end() :]

    return changed


def _crlf(rng: np.random.Generator, text: str) -> str:
    return text.replace("\n", "\r\n")


_TURN = {">=": "<=", "<=": ">=", "=": "="}
_SIGNS = {"<=": ["<", "=<"], ">=": [">", "=>"]}
_KEYWORDS = {"minimize": "MIN", "subject to": "s.t.", "bounds": "Bound", "generals": "INT", "end": "End"}
#: ``r: a >= 3`` as ``r: 3 <= a``.
_turned = _one(
    r"^( (?:[^\s:]+:)?)([^:<>=\n]+) ([<>]?=) (-?[0-9.e+-]+)$", lambda rng, m: f"{m[1]} {m[4]} {_TURN[m[3]]} {m[2]}"
)
_DRESSES = (
    # A row without its label; not an empty row (``r: >= 0``), which would become the end of the row above it.
    _one(r"^ [^\s:]+:(?= +[^\s:<>=][^:\n]*[<>]?=)", lambda rng, m: ""),
    _turned,
    _turned,
    # A constant on both sides.
    _one(
        r"^( [^\s:]+:)([^:<>=\n]+) ([<>]?=) (-?[0-9]{1,5})$", lambda rng, m: f"{m[1]}{m[2]} + 2 {m[3]} {int(m[4]) + 2}"
    ),
    _one(r" ", lambda rng, m: rng.choice(["  ", "\t", " \t ", "\n ", "\n\n"])),
    _one(r"<=|>=", lambda rng, m: rng.choice(_SIGNS[m[0]])),
    _one(r"$", lambda rng, m: " \\ 3 <= x + y end"),
    _one(r"^(?:minimize|subject to|bounds|generals|end)$", lambda rng, m: _KEYWORDS[m[0].lower()]),
    _crlf,
)


def _space(rng: np.random.Generator, known: list[str]) -> CompiledSpace:
    n, m = int(rng.integers(0, 6)), int(rng.integers(0, 5))
    matrix = rng.choice(NUMBERS, size=(m, n)) * (rng.random((m, n)) < 0.6)
    low, high = _bounds(rng, m)
    lower, upper = _bounds(rng, n)
    integrality = rng.random(n) < 0.5
    names = rng.choice(known, size=n, replace=False).tolist() if rng.random() < 0.7 else [f"v[{k}]" for k in range(n)]
    rows = rng.choice(known, size=m, replace=False).tolist() if rng.random() < 0.5 else [f"c[{k}]" for k in range(m)]
    return assemble(sp.csr_array(matrix), (low, high), (lower, upper), integrality, names, rows, "fuzz")


def _bounds(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.sort(rng.choice([*NUMBERS, 0.0, 0.0, 1.0], size=(2, count)), axis=0)
    kind = rng.integers(0, 6, size=count)
    low = np.where((kind == 0) | (kind == 1), -np.inf, low)
    high = np.where((kind == 0) | (kind == 2), np.inf, np.where(kind == 3, low, high))
    return np.where(kind == 4, 0.0, low), np.where(kind == 4, 1.0, high)


def _written(space: CompiledSpace, writer: str, path: Path) -> bool:
    """Write the space with one of four writers; False where it holds no point, or the other tool has no way to."""
    if (space.lower > space.upper).any():  # bounds of an integer, rounded inwards
        try:
            write(space, path)
        except InfeasibleSpace:
            return False
        raise AssertionError("a space with crossed bounds is written")
    if writer == "structopt":
        write(space, path)
        return True
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        if writer == "highs":
            write(space, path.with_suffix(".first.mps"))
            highs = _highs()
            if highs.readModel(str(path.with_suffix(".first.mps"))) == highspy.HighsStatus.kError:
                return False
            return highs.writeModel(str(path)) != highspy.HighsStatus.kError and path.exists()
        if space.n_variables == 0 or space.n_rows == 0:
            return False
        if writer == "pulp":
            problem = to_pulp(space)
            problem.writeLP(str(path)) if path.suffix == ".lp" else problem.writeMPS(str(path))
            return True
        import pyomo.environ as pyo

        model = to_pyomo(space)
        model.fuzz_objective = pyo.Objective(expr=sum(v for v in model.component_data_objects(pyo.Var)))
        try:
            model.write(str(path), io_options={"symbolic_solver_labels": True})
        except (ValueError, RuntimeError):
            return False
    return True


def _check_whole(space: CompiledSpace, writer: str, path: Path) -> str:
    """An undamaged file is read, and as what was written."""
    if writer == "structopt":
        found = read(path)
        assert found.fingerprint == space.fingerprint, f"another space came back:\n{path.read_text(encoding='utf-8')}"
        assert list(found.variable_names) == list(space.variable_names), path.read_text(encoding="utf-8")
        assert list(found.row_names) == list(space.row_names), path.read_text(encoding="utf-8")
    said = _compared(path, path.suffix[1:], refuse=True)
    assert said == "as HiGHS" or (said, writer) == ("refused", "highs"), f"{said}:\n{path.read_text(encoding='utf-8')}"
    return said


def _compared(path: Path, kind: str, *, refuse: bool = False) -> str:
    """A word on how structopt's reading compares with HiGHS's; an AssertionError where both read and differ."""
    try:
        read(path)
    except StructoptError as error:
        if refuse:
            raise AssertionError(f"refused a whole file: {error}\n{path.read_text(encoding='utf-8')}") from error
        assert path.name in str(error), f"an error that does not name the file: {error}"
        return "refused"
    text = path.read_bytes().decode("utf-8-sig")
    program = (read_lp if kind == "lp" else read_mps)(text, path.name)
    if _highs_misreads(text, kind) or _has_open_integers(program, kind):
        return "read; HiGHS cannot"
    highs = _highs()
    status = highs.readModel(str(path))
    lp = highs.getLp()
    if status == highspy.HighsStatus.kError and _infeasible_bounds(program):
        return "read; empty"
    assert status != highspy.HighsStatus.kError, f"structopt reads what HiGHS refuses:\n{text}"
    _assert_same(program, lp, text)
    return "as HiGHS"


def _highs() -> Any:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("small_matrix_value", 1e-12)
    highs.setOptionValue("large_matrix_value", np.inf)
    return highs


def _has_open_integers(program: Program, kind: str) -> bool:
    """Whether HiGHS reads an integer variable of an MPS file as [0, 1] because the file states no bounds."""
    return kind == "mps" and any(
        integer and low is None and high is None
        for integer, low, high in zip(program.integer, program.lower, program.upper, strict=True)
    )


def _infeasible_bounds(program: Program) -> bool:
    return any(
        low is not None and high is not None and low > high
        for low, high in zip(program.lower, program.upper, strict=True)
    )


def _assert_same(program: Program, lp: Any, text: str) -> None:
    names = list(program.column)
    assert sorted(lp.col_names_) == sorted(names), f"variables {names} and {lp.col_names_}:\n{text}"
    order = [list(lp.col_names_).index(name) for name in names]
    shape = (len(program.row), len(names))
    assert lp.num_row_ == shape[0], f"{shape[0]} rows and {lp.num_row_}:\n{text}"
    i, j, values = program.entries
    ours = sp.coo_array((values, (i, j)), shape=shape).toarray()
    ours[np.abs(ours) <= 1e-12] = 0.0
    parts = lp.a_matrix_.value_, lp.a_matrix_.index_, lp.a_matrix_.start_
    theirs = (sp.csc_array(parts, shape=shape) if len(parts[0]) else sp.csc_array(shape)).toarray()[:, order]
    lower, upper = program.bounds()
    kinds = np.array([k == highspy.HighsVarType.kInteger for k in lp.integrality_] or [False] * shape[1], dtype=bool)
    costs = np.zeros(shape[1])
    costs[list(program.costs)] = list(program.costs.values())
    costs = np.where(np.abs(costs) >= 1e20, np.copysign(np.inf, costs), costs)
    for what, own, other in (
        ("matrix", ours, theirs),
        ("row lower", program.row_lower, lp.row_lower_),
        ("row upper", program.row_upper, lp.row_upper_),
        ("lower", lower, np.array(lp.col_lower_)[order]),
        ("upper", upper, np.array(lp.col_upper_)[order]),
        ("integer", program.integer, kinds[order]),
        ("costs", costs, np.array(lp.col_cost_)[order]),
        ("constant", [program.constant], [lp.offset_]),
        ("sense", [program.maximize], [lp.sense_ == highspy.ObjSense.kMaximize]),
    ):
        own, other = np.asarray(own, dtype=float), np.asarray(other, dtype=float)
        same = own.shape == other.shape and np.allclose(own, other, rtol=1e-13, atol=0, equal_nan=True)
        assert same, f"{what}: structopt reads {own.tolist()}, HiGHS {other.tolist()}:\n{text}"


def _highs_misreads(text: str, kind: str) -> bool:
    """Texts that the manuals give one meaning and HiGHS 1.15 another one, or none."""
    if kind == "mps":
        return False
    for word, _, lines in _sections(text, "text"):
        tokens = list(_tokens(lines))
        kinds = [kind for kind, *_ in tokens]
        for k, (kind_, text_, *_) in enumerate(tokens):
            # A name that begins with inf or nan is a number to it: `infra` is infinity times `ra`.
            if kind_ == "name" and text_.casefold().startswith(("inf", "nan")):
                return True
            # `=>` and `=<` are errors to it, and in rows `<` and `>`.
            if text_ in ("=>", "=<") or (word in _ROWS and text_ in ("<", ">")):
                return True
            # A number in a row that is neither a coefficient nor a right-hand side (`2 <= a`, `a + 3 >= 4`) is
            # dropped, or an error.
            if word in _ROWS and kind_ == "number" and kinds[k + 1 : k + 2] != ["name"]:
                before = [kind for kind in kinds[:k] if kind != "sign"][-1:]
                if before != ["op"]:
                    return True
        # The second of two costs of a variable replaces the first.
        names = [text_ for kind_, text_, *_ in tokens if kind_ == "name"]
        if word in _OBJECTIVES and len(set(names)) < len(names):
            return True
        # Of bounds with two sides it takes `2 <= x <= 3` alone, and none with `<`.
        for _, content in lines if word in ("bounds", "bound") else ():
            operators = re.findall("[<>=]+", content)
            if operators not in ([], ["<="], [">="], ["="], ["<=", "<="]):
                return True
    return False


# ---- damage --------------------------------------------------------------------------------------


def _mutated(rng: np.random.Generator, text: str) -> str:
    return _DAMAGE[int(rng.integers(len(_DAMAGE)))](rng, text)


def _at(rng: np.random.Generator, text: str) -> int:
    return int(rng.integers(len(text))) if text else 0


def _from_character(change: Damage) -> Damage:
    """Return a change of a text from a random character on."""

    def changed(rng: np.random.Generator, text: str) -> str:
        k = _at(rng, text)
        return text[:k] + change(rng, text[k:])

    return changed


def _match(pattern: str, change: Damage) -> Damage:
    """Return a change of a random match of a pattern."""

    def changed(rng: np.random.Generator, text: str) -> str:
        spans = [match.span() for match in re.finditer(pattern, text)]
        if not spans:
            return text
        a, b = spans[int(rng.integers(len(spans)))]
        return text[:a] + change(rng, text[a:b]) + text[b:]

    return changed


def _word(change: Damage) -> Damage:
    return _match(r"\S+", change)


def _lines(change: Callable[[list[str], int, int], list[str]]) -> Damage:
    """Return a change of the lines of a text, of which it gets two random numbers."""

    def changed(rng: np.random.Generator, text: str) -> str:
        lines = text.split("\n")
        return "\n".join(change(lines, *rng.integers(len(lines), size=2).tolist()))

    return changed


def _swapped(lines: list[str], k: int, other: int) -> list[str]:
    lines[k], lines[other] = lines[other], lines[k]
    return lines


_LETTERS = list("0123456789.eE+-<>=:;*/\\ \t\n\rxrNGL'$#\0é\u2003[](),_")
_VALUES = ["0", "-1", "1e20", "1e-13", "1e30", "-inf", "2.50", "007", "1e308", "1e400", "+3", "1e+2"]
_REMARKS = ["\\", "*", "\\*", "%", "#", "\n* a comment\n", "\\ a comment\n"]
_other_word = _word(lambda rng, word: str(rng.choice(WORDS)))
_number = _match(r"(?<![\w.])[0-9.]+(?:e[+-]?[0-9]+)?", lambda rng, word: str(rng.choice(_VALUES)))
#: Characters, words, numbers and lines are dropped, doubled, exchanged, replaced, joined and cut.
_DAMAGE: tuple[Damage, ...] = (
    _from_character(lambda rng, rest: rest[1:]),
    _from_character(lambda rng, rest: rest[:1] + rest),
    _from_character(lambda rng, rest: rest[:2][::-1] + rest[2:]),
    _from_character(lambda rng, rest: str(rng.choice(_LETTERS)) + rest[1:]),
    _word(lambda rng, word: ""),
    _word(lambda rng, word: f"{word} {word}"),
    _match(r"\S+\s+\S+", lambda rng, pair: re.sub(r"(\S+)(\s+)(\S+)", r"\3\2\1", pair)),
    _other_word,
    _other_word,
    _number,
    _number,
    _lines(lambda lines, k, _: lines[:k] + lines[k + 1 :]),
    _lines(lambda lines, k, _: lines[: k + 1] + lines[k:]),
    _lines(_swapped),
    _match(r"\n", lambda rng, end: " "),
    _word(lambda rng, word: f"{word}\n"),
    _crlf,
    lambda rng, text: text.replace(" ", "\t"),
    lambda rng, text: text[: _at(rng, text)],
    _word(lambda rng, word: word + " " * int(rng.integers(1, 3000))),
    _word(lambda rng, word: f"{word} {rng.choice(_REMARKS)} {word}"),
    _word(lambda rng, word: f"{word} {rng.choice(WORDS)}"),
)


# ---- data ----------------------------------------------------------------------------------------


def _data_case(rng: np.random.Generator, folder: Path) -> str:
    kind = str(rng.choice(["arff", "csv", "conll", "svm", "npz"]))
    raw = _DATA[kind](rng)
    damage = str(rng.choice(["none", "text", "bytes", "cut", "gzip"]))
    suffix = kind
    if damage == "text" and kind != "npz":
        text = raw.decode()
        for _ in range(int(rng.integers(1, 4))):
            text = _mutated(rng, text)
        raw = text.encode(str(rng.choice(["utf-8", "utf-8", "utf-16", "latin-1"])), errors="replace")
    elif damage in ("text", "bytes"):
        parts = bytearray(raw)
        for k in rng.integers(0, max(len(parts), 1), size=int(rng.integers(1, 6))):
            if parts:
                parts[k] = int(rng.integers(256))
        raw = bytes(parts)
    elif damage == "cut":
        raw = raw[: _at(rng, raw.decode("latin-1"))]
    elif damage == "gzip" and kind not in ("npz",):
        raw, suffix = gzip.compress(raw), f"{kind}.gz"
        if rng.random() < 0.5:
            raw = raw[: int(rng.integers(len(raw)))]
    path = folder / f"data.{suffix}"
    path.write_bytes(raw)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read_data(path)
    except StructoptError as error:
        assert damage != "none", f"an undamaged {kind} file was refused: {error}\n{raw[:2000]!r}"
        assert path.name in str(error), f"an error that does not name the file: {error}"
        assert "\n" not in str(error), f"an error of several lines: {error}"
        return f"{kind}, {damage}, refused"
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error} from the {kind} file\n{raw[:2000]!r}") from error
    assert "X" in found or kind == "npz"
    return f"{kind}, {damage}, read"


def _table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n, d = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    X = np.round(rng.normal(size=(n, d)) * rng.choice([1.0, 1e6, 1e-6]), 4) * (rng.random((n, d)) < 0.7)
    return X, rng.integers(0, 3, size=n)


def _arff(rng: np.random.Generator) -> bytes:
    X, y = _table(rng)
    sparse = rng.random() < 0.4
    lines = [
        "@relation 'a set'",
        *(f"@attribute 'x {k}' numeric" for k in range(X.shape[1])),
        "@attribute class {0,1,2}",
        "@data",
    ]
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        cells = [*map(repr, row), str(label)]
        lines.append(
            "{" + ", ".join(f"{k} {cell}" for k, cell in enumerate(cells) if float(cell)) + "}"
            if sparse
            else ",".join(cells)
        )
    return "\n".join(lines).encode()


def _csv(rng: np.random.Generator) -> bytes:
    X, y = _table(rng)
    head = [",".join([*(f"x{k}" for k in range(X.shape[1])), "label"])] if rng.random() < 0.7 else []
    rows = [",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    return "\n".join([*head, *rows, ""]).encode()


def _conll(rng: np.random.Generator) -> bytes:
    lines: list[str] = []
    for _ in range(int(rng.integers(1, 4))):
        lines += [
            f"{rng.choice(['Ada', 'é', 'in', '1.5'])}\t{rng.choice(['O', 'B-PER', 'I-PER'])}"
            for _ in range(int(rng.integers(1, 5)))
        ]
        lines.append("")
    return "\n".join(lines).encode()


def _svm(rng: np.random.Generator) -> bytes:
    X, y = _table(rng)
    lines = []
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        lines.append(" ".join([str(label), *(f"{k + 1}:{value!r}" for k, value in enumerate(row) if value)]))
    return "\n".join([*lines, ""]).encode()


def _npz(rng: np.random.Generator) -> bytes:
    X, y = _table(rng)
    buffer = io.BytesIO()
    if rng.random() < 0.5:
        np.savez(buffer, X=X, y=y)
    else:
        S = sp.csr_array(X)
        np.savez(buffer, X_data=S.data, X_indices=S.indices, X_indptr=S.indptr, X_shape=np.array(S.shape), y=y)
    return buffer.getvalue()


_DATA: dict[str, Callable[[np.random.Generator], bytes]] = {
    "arff": _arff,
    "csv": _csv,
    "conll": _conll,
    "svm": _svm,
    "npz": _npz,
}

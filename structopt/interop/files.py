"""MPS and LP files in and out. HiGHS reads them; the texts are written here, so that no digit is lost.

A file that `write` made gives back the same space: fingerprint, variable names and row names. What the
format cannot hold (names with spaces, ranges that round) stands in comments at its top, which other tools
pass over. As in all tools of this kind a bound of 1e20 or more is infinite.
"""

from __future__ import annotations

import gzip
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.compiled import CompiledSpace
from structopt.errors import DeclarationError, InfeasibleSpace, UnsupportedModel
from structopt.interop.lp import lp_text, normalise
from structopt.interop.matrices import LinearObjective, assemble
from structopt.interop.mps import mps_text
from structopt.interop.text import Header

__all__ = ["read", "read_objective", "read_with_objective", "write"]

logger = logging.getLogger(__name__)

#: HiGHS takes coefficients up to this size for zero (the smallest value that its option allows).
SMALLEST_COEFFICIENT = 1e-12

_COMMENT = {".mps": "*", ".lp": "\\"}


def read(path: str | Path) -> CompiledSpace:
    """Read the variables and rows of an MPS or LP file (also ``.mps.gz``, ``.lp.gz``); no objective.

    Rows of type N beyond the objective are left out, as HiGHS does.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DeclarationError
        If the suffix is not one of the above, or the text is malformed.
    UnsupportedModel
        Naming the part that a label space cannot express: semi-continuous variables, SOS, quadratic rows.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pair.lp"
    >>> _ = path.write_text("max\\n obj: y\\nst\\n order: x - y <= 0\\nbin\\n x y\\nend\\n")
    >>> space = read(path)
    >>> sorted(space.variable_names), space.row_names
    (['x', 'y'], ('order',))
    """
    return _compiled(_load(path))


def read_objective(path: str | Path, compiled: CompiledSpace | None = None) -> LinearObjective | None:
    """The linear objective of a file over the variables of `read`, or None if it is zero.

    With `compiled` it is checked that the file still has these variables.
    """
    loaded = _load(path)
    if compiled is not None and loaded.variable_names != list(compiled.variable_names):
        raise DeclarationError(f"{path} has other variables than the space; read both from one file.")
    return _objective(loaded)


def read_with_objective(path: str | Path) -> tuple[CompiledSpace, LinearObjective | None]:
    """`read` and `read_objective` in one pass over the file."""
    loaded = _load(path)
    return _compiled(loaded), _objective(loaded)


def write(compiled: CompiledSpace, path: str | Path) -> None:
    """Write a space as an MPS or LP file, by the suffix (``.gz`` compresses), with a zero objective.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pair.lp"
    >>> _ = path.write_text("min\\nst\\n order: 0 <= 0.1 x - y <= 0.7\\nbin\\n x y\\nend\\n")
    >>> space = read(path)
    >>> write(space, path.with_suffix(".mps.gz"))
    >>> read(path.with_suffix(".mps.gz")).fingerprint == space.fingerprint
    True
    """
    path = Path(path)
    kind, compressed = _kind(path)
    _refuse_unwritable(compiled)
    text = (mps_text(compiled) if kind == ".mps" else lp_text(compiled)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if compressed else text)


def _kind(path: Path) -> tuple[str, bool]:
    """``.mps`` or ``.lp``, and whether the file is compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    kind = suffixes[-2:-1] if compressed else suffixes[-1:]
    if not kind or kind[0] not in _COMMENT:
        raise DeclarationError(f"{path.name!r} must end in .mps, .lp, .mps.gz or .lp.gz: the suffix is the format.")
    return kind[0], compressed


def _refuse_unwritable(compiled: CompiledSpace) -> None:
    for names, low, high in (
        (compiled.row_names, compiled.row_lower, compiled.row_upper),
        (compiled.variable_names, compiled.lower, compiled.upper),
    ):
        crossed = np.flatnonzero(~(low <= high))
        if crossed.size:
            name = names[int(crossed[0])]
            raise InfeasibleSpace(
                f"{name!r} has lower bound {low[crossed[0]]} above upper bound {high[crossed[0]]}, which files cannot "
                "hold; correct the bounds.",
                rows=(name,),
            )
    matrix = compiled.matrix
    tiny = np.flatnonzero(np.abs(matrix.data) <= SMALLEST_COEFFICIENT)
    if tiny.size:
        row = int(np.searchsorted(matrix.indptr, tiny[0], side="right")) - 1
        raise DeclarationError(
            f"Row {compiled.row_names[row]!r} has the coefficient {matrix.data[tiny[0]]} of "
            f"{compiled.variable_names[int(matrix.indices[tiny[0]])]!r}; HiGHS reads at most "
            f"{SMALLEST_COEFFICIENT} as zero, so scale the row."
        )


class _Loaded:
    """A file as HiGHS understood it, with what the comments and the LP pass add."""

    def __init__(self, path: Path, highs: Any, header: Header, ranges: dict[int, tuple[float, float]]) -> None:
        self.path = path
        self.header = header
        self.ranges = ranges
        self.lp = highs.getLp()
        self.is_quadratic = highs.getModel().hessian_.dim_ > 0
        self.file_rows = _names(self.lp.row_names_, self.lp.num_row_, "r")
        columns = _names(self.lp.col_names_, self.lp.num_col_, "x")
        self.row_names = [header.rows.get(name, name) for name in self.file_rows]
        self.variable_names = [header.variables.get(name, name) for name in columns]


def _names(names: list[str], count: int, prefix: str) -> list[str]:
    # HiGHS forgets all names if two are equal.
    return list(names) if len(names) == count else [f"{prefix}{k}" for k in range(count)]


def _load(path: str | Path) -> _Loaded:
    path = Path(path)
    kind, compressed = _kind(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if compressed else raw).decode("utf-8", errors="surrogateescape")
    except (OSError, EOFError) as error:
        raise DeclarationError(f"{str(path)!r} ends in .gz but is not a gzip file: {error}") from error
    header = Header.parse(text, _COMMENT[kind])
    text, ranges = normalise(text) if kind == ".lp" else (text, {})
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / f"model{kind}"
        plain.write_bytes(text.encode("utf-8", errors="surrogateescape"))
        return _Loaded(path, _read_with_highs(plain, path), header, ranges)


def _read_with_highs(plain: Path, shown: Path) -> Any:
    import highspy

    highs = highspy.Highs()
    log = plain.with_suffix(".log")
    highs.setOptionValue("log_to_console", False)
    highs.setOptionValue("log_file", str(log))
    # HiGHS would drop coefficients below 1e-9 and refuse those above 1e15.
    highs.setOptionValue("small_matrix_value", SMALLEST_COEFFICIENT)
    highs.setOptionValue("large_matrix_value", np.inf)
    status = highs.readModel(str(plain))
    highs.setOptionValue("log_file", "")
    messages = log.read_text(errors="replace").splitlines() if log.exists() else []
    if status == highspy.HighsStatus.kError:
        said = "; ".join(line.split(":", 1)[1].strip() for line in messages if line.startswith("ERROR"))
        said = said.replace(str(plain), shown.name) or "no reason given"
        if "not supported" in said:
            raise UnsupportedModel(f"{str(shown)!r} holds more than linear rows and bounds: HiGHS says: {said}.")
        raise DeclarationError(f"{str(shown)!r} cannot be read: HiGHS says: {said}.")
    for line in messages:
        if line.startswith("WARNING"):
            logger.warning("%s: %s", shown, line.split(":", 1)[1].strip())
    return highs


def _compiled(loaded: _Loaded) -> CompiledSpace:
    lp = loaded.lp
    integrality = _integrality(loaded)
    if loaded.is_quadratic:
        logger.info("%s: the quadratic objective is ignored, as a label space has none.", loaded.path)
    shape = (lp.num_row_, lp.num_col_)
    # HiGHS keeps the matrix of a file by columns; start_ is not filled where it is empty.
    by_column = lp.a_matrix_.value_, lp.a_matrix_.index_, lp.a_matrix_.start_
    matrix = sp.csc_array(by_column, shape=shape) if len(by_column[0]) else sp.csc_array(shape)
    low, high = np.array(lp.row_lower_, dtype=np.float64), np.array(lp.row_upper_, dtype=np.float64)
    place = {name: i for i, name in enumerate(loaded.file_rows)}
    exact = {place[name]: pair for name, pair in loaded.header.ranges.items() if name in place}
    for i, (lower, upper) in (loaded.ranges | exact).items():
        low[i], high[i] = lower, upper
    return assemble(
        matrix,
        (low, high),
        (lp.col_lower_, lp.col_upper_),
        integrality,
        loaded.variable_names,
        loaded.row_names,
        loaded.header.name or loaded.path.name.split(".")[0],
    )


def _integrality(loaded: _Loaded) -> np.ndarray:
    import highspy

    kinds = list(loaded.lp.integrality_) or [highspy.HighsVarType.kContinuous] * loaded.lp.num_col_
    plain = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    for name, kind in zip(loaded.variable_names, kinds, strict=True):
        if kind not in plain:
            raise UnsupportedModel(
                f"variable {name!r} of {str(loaded.path)!r} is semi-continuous; write it as a continuous variable "
                "between 0 and its bound times a binary one."
            )
    return np.array([kind == highspy.HighsVarType.kInteger for kind in kinds], dtype=bool)


def _objective(loaded: _Loaded) -> LinearObjective | None:
    import highspy

    if loaded.is_quadratic:
        raise UnsupportedModel(f"The objective of {str(loaded.path)!r} is quadratic; only linear ones can be read.")
    coef = np.array(loaded.lp.col_cost_, dtype=np.float64)
    if not coef.any() and not loaded.lp.offset_:
        return None
    maximize = loaded.lp.sense_ == highspy.ObjSense.kMaximize
    return LinearObjective(coef, float(loaded.lp.offset_), "maximize" if maximize else "minimize")

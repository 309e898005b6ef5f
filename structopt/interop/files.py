"""Reading and writing MPS and LP files.

A file that `write` made gives back the same space: fingerprint, variable names and row names. What the format cannot
hold (names with spaces, which two rows are the sides of one) is written as comments at its top, which other tools skip;
they read the same set of points. As in other tools a bound of 1e20 or more is infinite. Whatever a reader does not
understand is an error.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._archive import write_file
from structopt.errors import DeclarationError, InfeasibleSpace
from structopt.interop.lp import lp_text, read_lp
from structopt.interop.matrices import assemble, canonical
from structopt.interop.mps import mps_text, read_mps
from structopt.interop.program import Program
from structopt.interop.text import Header, text_of
from structopt.space.compiled import CompiledSpace
from structopt.space.objective import LinearObjective

__all__ = ["read", "read_model", "write"]

_COMMENT = {".mps": "*", ".lp": "\\"}


def read(path: str | Path, *, max_bytes: int | None = None) -> CompiledSpace:
    """Read the variables and rows of an MPS or LP file (also ``.mps.gz``, ``.lp.gz``), without its objective.

    Rows of type N other than the objective are left out. Ambiguous text is rejected:
    :mod:`structopt.interop.lp` and :mod:`structopt.interop.mps` list the cases. A file that is larger than `max_bytes`
    after unpacking is rejected. By default a compressed file may unpack to one GiB and fifty times its size.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DeclarationError
        If the suffix is not one of the above, or the text is malformed: with file, line and text.
    UnsupportedModel
        Naming the part that a label space cannot express: semi-continuous variables, SOS, quadratic rows
        or a quadratic objective.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pair.lp"
    >>> _ = path.write_text("max\\n obj: y\\nst\\n order: x - y <= 0\\nbin\\n x y\\nend\\n", encoding="utf-8")
    >>> space = read(path)
    >>> sorted(space.variable_names), space.row_names
    (['x', 'y'], ('order',))
    """
    return read_model(path, max_bytes=max_bytes)[0]


def read_model(path: str | Path, *, max_bytes: int | None = None) -> tuple[CompiledSpace, LinearObjective | None]:
    """Read an MPS or LP file and its objective, which is None if it is zero."""
    loaded = _load(path, max_bytes)
    return _compiled(loaded), _objective(loaded)


def write(compiled: CompiledSpace, path: str | Path, objective: LinearObjective | None = None) -> None:
    """Write a space as an MPS or LP file, by the suffix (``.gz`` compresses). The default objective is zero.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pair.lp"
    >>> _ = path.write_text("min\\nst\\n order: 0 <= 0.1 x - y <= 0.7\\nbin\\n x y\\nend\\n", encoding="utf-8")
    >>> space = read(path)
    >>> write(space, path.with_suffix(".mps.gz"))
    >>> read(path.with_suffix(".mps.gz")).fingerprint == space.fingerprint
    True
    """
    path = Path(path)
    kind, compressed = _kind(path)
    compiled.refuse_lazy_rows(f"A {kind} file")
    _refuse_unwritable(compiled)
    text = (mps_text if kind == ".mps" else lp_text)(compiled, objective).encode()
    write_file(path, lambda file: file.write(gzip.compress(text, mtime=0) if compressed else text))


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


@dataclass
class _Loaded:
    """A file as its reader understood it, with the comments of `write` applied."""

    path: Path
    program: Program
    matrix: sp.csr_array
    row_bounds: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    row_names: list[str]
    variable_names: list[str]
    name: str
    keep: npt.NDArray[np.intp]  # columns that are variables of the space


def _load(path: str | Path, max_bytes: int | None = None) -> _Loaded:
    path = Path(path)
    kind, compressed = _kind(path)
    text = text_of(path, compressed=compressed, max_bytes=max_bytes)
    header = Header.parse(text, _COMMENT[kind], path.name)
    program = (read_mps if kind == ".mps" else read_lp)(text, path.name)
    i, j, values = program.entries
    matrix = canonical(sp.coo_array((values, (i, j)), shape=(len(program.row), len(program.column))))
    low, high = np.array(program.row_lower), np.array(program.row_upper)
    rows = _join(header, program, matrix, low, high)
    names = [*program.column]
    keep = np.array(
        [k for k in range(len(names)) if not _is_dummy(header, program, matrix, names[k], k)], dtype=np.intp
    )
    file_rows = list(program.row)
    loaded = _Loaded(
        path,
        program,
        matrix[rows][:, keep],
        (low[rows], high[rows]),
        [header.rows.get(file_rows[k], file_rows[k]) for k in rows],
        [header.variables.get(names[k], names[k]) for k in keep],
        header.name or path.name.split(".")[0],
        keep,
    )
    for what, own in (("variables", loaded.variable_names), ("rows", loaded.row_names)):
        if len(set(own)) < len(own):
            raise DeclarationError(f"{path.name}: the comments of structopt give two {what} one name; remove them.")
    return loaded


def _join(
    header: Header, program: Program, matrix: sp.csr_array, low: np.ndarray, high: np.ndarray
) -> npt.NDArray[np.intp]:
    """Give each row that was split its upper half back; the numbers of the rows that are left.

    A pair that is not what `write` makes of one row (someone edited the file) stays two rows, which say the same.
    """
    gone = set()
    for lower_half, upper_half in header.halves.items():
        k, other = program.row.get(lower_half), program.row.get(upper_half)
        if k is None or other != k + 1 or not (high[k] == np.inf and low[other] == -np.inf):
            continue
        first, second = (slice(matrix.indptr[n], matrix.indptr[n + 1]) for n in (k, other))
        same = np.array_equal(matrix.indices[first], matrix.indices[second])
        if same and np.array_equal(matrix.data[first], matrix.data[second]) and other not in gone and k not in gone:
            high[k] = high[other]
            gone.add(other)
    return np.array([k for k in range(len(program.row)) if k not in gone], dtype=np.intp)


def _is_dummy(header: Header, program: Program, matrix: sp.csr_array, name: str, k: int) -> bool:
    if name != header.dummy:
        return False
    return program.lower[k] == program.upper[k] == 0 and not (matrix.indices == k).any() and not program.costs.get(k)


def _compiled(loaded: _Loaded) -> CompiledSpace:
    program = loaded.program
    lower, upper = (np.array(part, dtype=np.float64)[loaded.keep] for part in program.bounds())
    return assemble(
        loaded.matrix,
        loaded.row_bounds,
        (lower, upper),
        np.array(program.integer, dtype=bool)[loaded.keep],
        loaded.variable_names,
        loaded.row_names,
        loaded.name,
    )


def _objective(loaded: _Loaded) -> LinearObjective | None:
    program = loaded.program
    coef = np.zeros(len(program.column))
    coef[list(program.costs)] = list(program.costs.values())
    if not coef.any() and not program.constant:
        return None
    return LinearObjective(coef[loaded.keep], program.constant, "maximize" if program.maximize else "minimize")

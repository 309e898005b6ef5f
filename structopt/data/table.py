"""CSV and TSV tables of numbers, some of whose columns are labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from structopt.checks import checked, hashable, sequence
from structopt.data._files import is_number, plain_name, read_text
from structopt.errors import DeclarationError

__all__ = ["read_csv"]

_MISSING = {"", "?", "na", "nan", "null"}


@checked
def read_csv(
    path: str | Path,
    labels: int | Sequence[str] | None = None,
    *,
    ignore: Sequence[str] = (),
    delimiter: str | None = None,
    max_bytes: int | None = None,
) -> Bunch:
    """Read a table of numbers; the first line is a header unless it is all numbers.

    Parameters
    ----------
    path : path
    labels : int or sequence of str, optional
        Which columns are labels: names; ``n`` for the first n, ``-n`` for the last n, 0 for none. The last one by
        default. One column is a class per row; several are 0/1 rows (or numbers).
    ignore : sequence of str
        Columns to leave out, such as keys and texts.
    delimiter : str, optional
        A tab in ``.tsv``, else the first of ``, ; tab`` that the first line has.
    max_bytes : int, optional
        Reject a file that is larger after unpacking; by default a compressed one may unpack to one GiB and fifty times
        its own size.

    Returns
    -------
    Bunch
        ``X`` (dense, float64; empty cells and ``?`` are NaN), ``y`` (None without labels), ``feature_names``,
        ``label_names``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.csv"
    >>> _ = path.write_text("length,width,kind\\n5.1,3.5,setosa\\n6.2,?,virginica\\n", encoding="utf-8")
    >>> data = read_csv(path)
    >>> data.X.tolist(), data.y.tolist()
    ([[5.1, 3.5], [6.2, nan]], ['setosa', 'virginica'])
    """
    path = Path(path)
    text = read_text(path, max_bytes)
    first = text.lstrip().split("\n", 1)[0]
    if delimiter is None:
        delimiter = "\t" if plain_name(path).endswith(".tsv") else next((d for d in ",;\t" if d in first), ",")
    if len(delimiter) != 1:
        raise DeclarationError(f"delimiter must be one character, got {delimiter!r}.")
    lines, numbers = _rows(text, delimiter, path.name)
    if not lines:
        raise DeclarationError(f"{path.name} is empty.")
    headed = not all(_is_number(cell) for cell in lines[0])
    names = [name.strip() for name in lines[0]] if headed else [f"x{k}" for k in range(len(lines[0]))]
    rows, numbers = lines[headed:], numbers[headed:]
    for number, row in zip(numbers, rows, strict=True):
        if len(row) != len(names):
            raise DeclarationError(f"{path.name}, line {number}: {len(row)} cells for {len(names)} columns.")
    columns = dict(enumerate(zip(*rows, strict=True))) if rows else dict.fromkeys(range(len(names)), ())
    chosen = _label_columns(labels, names, path.name)
    left_out = {*chosen, *_named(ignore, names, path.name)}
    kept = [k for k in range(len(names)) if k not in left_out]
    X = np.empty((len(rows), len(kept)))
    for j, k in enumerate(kept):
        X[:, j] = _numbers(columns[k], names[k], path.name, numbers)
    feature_names = np.array([names[k] for k in kept], dtype=str)
    return Bunch(X=X, feature_names=feature_names, **_labels(chosen, columns, names, path.name, numbers))


def _rows(text: str, delimiter: str, where: str) -> tuple[list[list[str]], list[int]]:
    """The lines that are not empty, and their numbers."""
    reader = csv.reader(
        io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n")), delimiter=delimiter, skipinitialspace=True
    )
    lines: list[list[str]] = []
    numbers: list[int] = []
    try:
        for line in reader:
            if line:
                lines.append(line)
                numbers.append(reader.line_num)
    except csv.Error as error:
        raise DeclarationError(f"{where}, line {reader.line_num}: {error}.") from None
    return lines, numbers


def _named(wanted: Sequence[str], names: list[str], where: str) -> list[int]:
    """The places of columns by their names."""
    given = [wanted] if isinstance(wanted, str) else sequence("The names of columns", wanted)
    for name in given:
        hashable("The name of a column", name)
        if name not in names:
            raise DeclarationError(f"{where} has no column {name!r}; it has {', '.join(names[:8])}.")
        if names.count(name) > 1:
            raise DeclarationError(f"{where} has {names.count(name)} columns called {name!r}; rename all but one.")
    return [names.index(name) for name in given]


def _label_columns(labels: int | Sequence[str] | None, names: list[str], where: str) -> list[int]:
    count = -1 if labels is None else labels
    if isinstance(count, int | np.integer):
        if abs(count) > len(names):
            raise DeclarationError(f"{where} has {len(names)} columns; {abs(count)} of them cannot be labels.")
        return list(range(count)) if count >= 0 else list(range(len(names) + count, len(names)))
    return _named(count, names, where)


def _labels(
    chosen: list[int], columns: dict[int, Any], names: list[str], where: str, numbers: list[int]
) -> dict[str, Any]:
    if not chosen:
        return {"y": None, "label_names": np.array([], dtype=str)}
    for k in chosen:
        missing = next((n for n, cell in enumerate(columns[k]) if cell.strip().lower() in _MISSING), None)
        if missing is not None:
            raise DeclarationError(
                f"{where}, line {numbers[missing]}: the label {names[k]!r} is missing; remove the line, or say with "
                "labels = which columns are labels (labels = 0: none)."
            )
    if len(chosen) == 1:
        y = _classes(columns[chosen[0]])
        return {"y": y, "label_names": np.unique(y)}
    found = np.column_stack([_numbers(columns[k], names[k], where, numbers, label=True) for k in chosen])
    whole = bool(((found == np.rint(found)) & (np.abs(found) < 2.0**53)).all())
    return {"y": found.astype(np.int64) if whole else found, "label_names": np.array([names[k] for k in chosen])}


def _classes(cells: Sequence[str]) -> np.ndarray[Any, Any]:
    if all(is_number(cell) for cell in cells):
        for kind in (np.int64, np.float64):
            try:
                return np.array(cells).astype(kind)
            except (ValueError, OverflowError):
                continue
    return np.array(cells, dtype=str)


def _numbers(
    cells: Sequence[str], name: str, where: str, numbers: list[int], *, label: bool = False
) -> np.ndarray[Any, Any]:
    bad = next((n for n, cell in enumerate(cells) if not _is_number(cell)), None)
    if bad is not None:
        cure = "several labels are numbers" if label else f"leave it out with ignore = [{name!r}]"
        raise DeclarationError(
            f"{where}, line {numbers[bad]}: {cells[bad][:40]!r} in column {name!r} is not a number; {cure}, or say "
            "with labels = which columns are labels."
        )
    return np.array([np.nan if cell.strip().lower() in _MISSING else float(cell) for cell in cells])


def _is_number(cell: str) -> bool:
    return is_number(cell) or cell.strip().lower() in _MISSING

"""CSV and TSV tables of numbers with labels in some of the columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from structopt.data._files import plain_name, read_text
from structopt.errors import DeclarationError

__all__ = ["read_csv"]

_MISSING = {"", "?", "na", "nan", "null"}


def read_csv(path: str | Path, labels: int | Sequence[str] | None = None, *, delimiter: str | None = None) -> Bunch:
    """Read a table of numbers; the first line is a header unless it is all numbers.

    Parameters
    ----------
    path : path
    labels : int or sequence of str, optional
        Which columns are labels: names; ``n`` for the first n, ``-n`` for the last n, 0 for none. The last one by
        default. One column is a class per row; several are 0/1 rows (or numbers).
    delimiter : str, optional
        A tab in ``.tsv``, else the first of ``, ; tab`` that the first line has.

    Returns
    -------
    Bunch
        ``X`` (dense, float64; empty cells and ``?`` are NaN), ``y`` (None without labels), ``feature_names``,
        ``label_names``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.csv"
    >>> _ = path.write_text("length,width,kind\\n5.1,3.5,setosa\\n6.2,?,virginica\\n")
    >>> data = read_csv(path)
    >>> data.X.tolist(), data.y.tolist()
    ([[5.1, 3.5], [6.2, nan]], ['setosa', 'virginica'])
    """
    path = Path(path)
    text = read_text(path)
    first = text.lstrip().split("\n", 1)[0]
    if delimiter is None:
        delimiter = "\t" if plain_name(path).endswith(".tsv") else next((d for d in ",;\t" if d in first), ",")
    if len(delimiter) != 1:
        raise DeclarationError(f"delimiter must be one character, got {delimiter!r}.")
    lines = [line for line in csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True) if line]
    if not lines:
        raise DeclarationError(f"{path.name} is empty.")
    headed = not all(_is_number(cell) for cell in lines[0])
    names = lines[0] if headed else [f"x{k}" for k in range(len(lines[0]))]
    rows = lines[1:] if headed else lines
    for number, row in enumerate(rows, start=1 + headed):
        if len(row) != len(names):
            raise DeclarationError(f"{path.name}, row {number}: {len(row)} cells for {len(names)} columns.")
    columns = dict(enumerate(zip(*rows, strict=True))) if rows else dict.fromkeys(range(len(names)), ())
    chosen = _label_columns(labels, names, path.name)
    kept = [k for k in range(len(names)) if k not in set(chosen)]
    X = np.empty((len(rows), len(kept)))
    for j, k in enumerate(kept):
        X[:, j] = _numbers(columns[k], names[k], path.name)
    feature_names = np.array([names[k] for k in kept], dtype=str)
    return Bunch(X=X, feature_names=feature_names, **_labels(chosen, columns, names, path.name))


def _label_columns(labels: int | Sequence[str] | None, names: list[str], where: str) -> list[int]:
    count = -1 if labels is None else labels
    if isinstance(count, int):
        if abs(count) > len(names):
            raise DeclarationError(f"{where} has {len(names)} columns; {abs(count)} of them cannot be labels.")
        return list(range(count)) if count >= 0 else list(range(len(names) + count, len(names)))
    wanted = [count] if isinstance(count, str) else list(count)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DeclarationError(f"{where} has no column {missing[0]!r}; it has {', '.join(names[:8])}.")
    return [names.index(name) for name in wanted]


def _labels(chosen: list[int], columns: dict[int, Any], names: list[str], where: str) -> dict[str, Any]:
    if not chosen:
        return {"y": None, "label_names": np.array([], dtype=str)}
    if len(chosen) == 1:
        y = _classes(columns[chosen[0]])
        return {"y": y, "label_names": np.unique(y)}
    numbers = np.column_stack([_numbers(columns[k], names[k], where) for k in chosen])
    whole = bool((numbers == np.rint(numbers)).all())
    return {"y": numbers.astype(np.int64) if whole else numbers, "label_names": np.array([names[k] for k in chosen])}


def _classes(cells: Sequence[str]) -> np.ndarray[Any, Any]:
    for kind in (np.int64, np.float64):
        try:
            return np.array(cells).astype(kind)
        except ValueError:
            continue
    return np.array(cells, dtype=str)


def _numbers(cells: Sequence[str], name: str, where: str) -> np.ndarray[Any, Any]:
    try:
        return np.array([np.nan if cell.strip().lower() in _MISSING else float(cell) for cell in cells])
    except ValueError as error:
        raise DeclarationError(
            f"Column {name!r} of {where}: {error}; features are numbers, and labels= says which columns are labels."
        ) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in _MISSING
    return True

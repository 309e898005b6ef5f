"""svmlight and libsvm files through scikit-learn: classes, several labels, queries."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from structopt.checks import checked, sequence, shown, whole
from structopt.data._files import existing, is_number, lines_of, read_text, short_indices
from structopt.errors import DeclarationError

__all__ = ["read_svmlight"]

#: Wider data would not fit into any memory as a weight vector: an index beyond it is a mistake of the file.
_WIDEST = 2**31 - 1
_MOST_CELLS = 2**31


@checked
def read_svmlight(
    path: str | Path,
    labels: Sequence[Any] | None = None,
    *,
    n_features: int | None = None,
    max_bytes: int | None = None,
    zero_based: bool = False,
) -> Bunch:
    """Read an svmlight file, also ``.gz`` and ``.bz2``.

    Parameters
    ----------
    path : path
    labels : sequence, optional
        The labels in the order of the columns of ``y``, if lines name several (``3,7 1:0.5 ...``). By default the
        labels that occur, sorted. Give a test file the labels of its training file.
    n_features : int, optional
        Number of columns of X. The default is the largest column of the file. Give a test file the number of its
        training file.
    max_bytes : int, optional
        Reject a file that is larger after unpacking. By default a compressed file may unpack to one GiB and fifty times
        its own size.
    zero_based : bool
        Whether the first feature has index 0, as in files of ``sklearn.datasets.dump_svmlight_file``. By default it has
        index 1, the format's convention, and a file with index 0 is rejected. The reader never guesses, because two
        files of one data set could then get different columns.

    Returns
    -------
    Bunch
        ``X`` (CSR), ``y`` (a number per row; integers if all are whole), ``label_names``. With several labels per line,
        ``y`` has 0/1 rows. With query numbers (``qid:``), ``X`` and ``y`` are lists by query, ``queries`` names them.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.svm"
    >>> _ = path.write_text("0,2 1:0.5\\n1 2:1.0\\n", encoding="utf-8")
    >>> data = read_svmlight(path)
    >>> data.y.tolist(), data.X.toarray().tolist()
    ([[1, 0, 1], [0, 1, 0]], [[0.5, 0.0], [0.0, 1.0]])
    """
    if n_features is not None:
        whole("n_features", n_features, 1, _WIDEST)
    first = 0 if zero_based else 1
    names = None if labels is None else _checked_names(labels)
    path = existing(path)
    text = read_text(path, max_bytes)
    several, queries = _kind(text)
    try:
        X, y, *query = load_svmlight_file(
            io.BytesIO(text.encode()),
            n_features=n_features,
            multilabel=several,
            query_id=queries,
            zero_based=first == 0,
        )
    except (ValueError, OverflowError, IndexError) as error:
        raise DeclarationError(f"{_culprit(text, path.name, first, n_features or _WIDEST)} ({error}).") from error
    if X.shape[1] > _WIDEST:
        raise DeclarationError(f"{_culprit(text, path.name, first, _WIDEST)}.")
    X = short_indices(sp.csr_array(X))
    if several:
        return _rows_of_labels(X, y, names, path.name)
    y = _whole(np.asarray(y))
    if queries:
        return _by_query(X, y, query[0], path.name)
    return Bunch(X=X, y=y, label_names=np.unique(y) if names is None else names)


def _checked_names(labels: Sequence[Any]) -> np.ndarray[Any, Any]:
    """The labels of the columns: numbers, or texts of numbers, each once."""
    given = list(sequence("labels", labels))
    odd = [name for name in given if not isinstance(name, str | int | float | np.number) or not is_number(str(name))]
    if odd:
        raise DeclarationError(f"labels must be a sequence of numbers, the labels of the lines; got {shown(odd[0])}.")
    values = [float(name) for name in given]
    if len(set(values)) < len(values):
        raise DeclarationError(f"labels has a label twice: {shown(labels)}.")
    return np.asarray(given)


def _kind(text: str) -> tuple[bool, bool]:
    """Whether lines name several labels, and whether they have query numbers."""
    lines = [line.split("#", 1)[0].split(None, 2) for line in lines_of(text)]
    lines = [parts for parts in lines if parts]
    # A line without labels begins with its first feature.
    several = any("," in parts[0] or ":" in parts[0] for parts in lines)
    return several, any(part.startswith("qid:") for parts in lines[:1] for part in parts)


def _culprit(text: str, where: str, first: int, width: int) -> str:
    """Find the line that is not ``label index:value ...`` with increasing indices; scikit-learn does not name it."""
    highest = width - 1 + first
    for number, line in enumerate(lines_of(text), start=1):
        words = line.split("#", 1)[0].split()
        features = [word for word in words if ":" in word and not word.startswith("qid:")]
        odd = [word for word in words[1:] if ":" not in word]
        if words and ":" not in words[0]:
            odd += [label for label in words[0].split(",") if not is_number(label) or label == "?"]
        last = -1
        for word in features:
            index, _, value = word.partition(":")
            plain = index.isascii() and index.isdigit() and is_number(value) and value != "?"
            if plain and first == 1 and index.strip("0") == "":
                return (
                    f"{where}, line {number}: {word[:40]!r} has index 0, but indices begin with 1 by default; if 0 is "
                    "the first feature of all files of this data set, read each of them with zero_based=True"
                )
            if not plain or len(index) > 18 or int(index) > highest or int(index) <= last:
                odd.append(word)
                break
            last = int(index)
        if odd:
            return (
                f"{where}, line {number}: {odd[0][:40]!r} is not understood; a line is a label and index:value pairs, "
                f"with indices that grow, from {first} to {highest}{' (zero_based=True)' if first == 0 else ''}"
            )
    return f"{where} is not an svmlight file"


def _whole(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return y.astype(np.int64) if ((y == np.rint(y)) & (np.abs(y) < 2.0**53)).all() else y


def _rows_of_labels(
    X: sp.csr_array, y: Sequence[Sequence[float]], labels: np.ndarray[Any, Any] | None, where: str
) -> Bunch:
    found = sorted({label for row in y for label in row})
    names = _whole(np.array(found)) if labels is None else labels
    column = {float(name): k for k, name in enumerate(names)}
    strange = [label for label in found if float(label) not in column]
    if strange:
        raise DeclarationError(f"{where} has the label {strange[0]:g}, which is not among labels=.")
    if not all(np.isfinite(found)):
        raise DeclarationError(f"{where} has a label that is not a finite number.")
    rows = np.zeros((len(y), len(names)), dtype=np.uint8)
    for i, row in enumerate(y):
        rows[i, [column[float(label)] for label in row]] = 1
    return Bunch(X=X, y=rows, label_names=names)


def _by_query(X: sp.csr_array, y: np.ndarray[Any, Any], query: np.ndarray[Any, Any], where: str) -> Bunch:
    if X.shape[0] * X.shape[1] > _MOST_CELLS:
        raise DeclarationError(
            f"{where} has queries, which are read as dense arrays: {X.shape[0]} x {X.shape[1]} numbers are too many."
        )
    names, group = np.unique(query, return_inverse=True)
    members = [np.flatnonzero(group == k) for k in range(len(names))]
    return Bunch(X=[X[rows].toarray() for rows in members], y=[y[rows] for rows in members], queries=names)

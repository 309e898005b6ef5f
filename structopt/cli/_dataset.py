"""Data sets for training and prediction: reading, imputation, sequences, queries, splits, and measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError

__all__ = ["DataSet", "first_missing", "measure", "read_data", "split"]


@dataclass
class DataSet:
    """Inputs, labels (or None), and the names and the hierarchy that the file has."""

    X: Any
    y: Any
    label_names: Any = None
    hierarchy: Any = None
    feature_names: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    def take(self, rows: Any) -> DataSet:
        """Some of the examples."""
        return replace(self, X=_take(self.X, rows), y=_take(self.y, rows))


def read_data(path: str | Path, options: Mapping[str, Any]) -> DataSet:
    """A file by the keys of [data]: options of its reader, ``missing``, ``sequences`` and ``query``."""
    from structopt.data import read

    options = dict(options)
    missing, sequences, query, _ = (options.pop(key, None) for key in ("missing", "sequences", "query", "scale"))
    found = read(path, **options)
    if "X" not in found:
        raise DeclarationError(f"{path} has no X; it has {', '.join(found)}.")
    X, y = found.X, found.get("y")
    if missing is not None:
        X = _filled(X, float(missing))
    if sequences is not None:
        if sequences not in found:
            raise DeclarationError(f"{path} has no array {sequences!r} that says where sequences begin.")
        ends = found[sequences].tolist()
        X, y = ([part[a:b] for a, b in pairwise(ends)] for part in (X, y))
    if query is not None:
        X, y = _by_query(found, X, y, query, path)
    return DataSet(X, y, found.get("label_names"), found.get("hierarchy"), found.get("feature_names"))


def split(data: DataSet, fraction: float, seed: int) -> tuple[DataSet, DataSet]:
    """A random part to train on, and `fraction` of the examples to test on."""
    order = np.random.default_rng(seed).permutation(len(data))
    n_test = max(1, round(fraction * len(data)))
    if n_test >= len(data):
        raise DeclarationError(f"{len(data)} examples are too few to set {fraction:g} of them aside.")
    return data.take(np.sort(order[n_test:])), data.take(np.sort(order[:n_test]))


def first_missing(X: Any) -> int | None:
    """The first example with a number that is NaN, or None."""
    if isinstance(X, list):
        return next((k for k, x in enumerate(X) if first_missing(x) is not None), None)
    numbers = X.data if sp.issparse(X) else np.asarray(X)
    if numbers.dtype.kind != "f" or not np.isnan(numbers).any():
        return None
    where = np.argwhere(np.isnan(numbers))[0]
    return int(np.searchsorted(X.indptr, where[0], side="right")) - 1 if sp.issparse(X) else int(where[0])


def measure(estimator: Any, data: DataSet) -> dict[str, float]:
    """The estimator's score, and the usual measures of 0/1 rows, or of the entities that tags mark."""
    from structopt import metrics
    from structopt.cli._estimators import score

    found = {"examples": len(data), "score": score(estimator, data)}
    if _are_entities(data.y):
        entities = metrics.entity_scores(data.y, [[str(tag) for tag in row] for row in estimator.predict(data.X)])
        return {
            **found,
            "entity_f1": entities.f1,
            "entity_precision": entities.precision,
            "entity_recall": entities.recall,
            "entities": entities.n_true,
        }
    truth = np.asarray(data.y) if isinstance(data.y, np.ndarray) else None
    if truth is None or truth.ndim != 2 or not np.isin(truth, (0, 1)).all():
        return found
    guess = estimator.predict(data.X)
    if isinstance(guess, np.ndarray) and guess.shape == truth.shape:
        for name in ("accuracy", "label_loss", "micro_f1", "macro_f1"):
            found[name] = float(getattr(metrics, name)(truth, guess))
    return found


def _are_entities(y: Any) -> bool:
    """Whether labels are sentences of tags ``B-...``, ``I-...`` and ``O``."""
    if not isinstance(y, list) or not all(isinstance(row, list) for row in y):
        return False
    tags = {tag for row in y for tag in row}
    if not all(isinstance(tag, str) for tag in tags):
        return False
    return any(tag.startswith("B-") for tag in tags) and all(tag == "O" or tag[1:2] == "-" for tag in tags)


def _take(part: Any, rows: Any) -> Any:
    if part is None or isinstance(part, np.ndarray) or sp.issparse(part):
        return None if part is None else part[rows]
    return [part[k] for k in rows]


def _by_query(found: Mapping[str, Any], X: Any, y: Any, query: str, path: str | Path) -> tuple[list[Any], Any]:
    """The rows of each query, in the order of the file; `query` is an array of an npz, or a column of features."""
    if isinstance(X, list):
        raise DeclarationError(f"[data]: query = {query!r} is not needed, {path} has its queries by itself.")
    if query in found and query not in ("X", "y"):
        of_row = np.asarray(found[query])
    else:
        columns = np.flatnonzero(np.asarray(found.get("feature_names", ())) == query)
        if not columns.size:
            raise DeclarationError(f"[data]: query = {query!r} is neither a column nor an array of {path}.")
        of_row = X[:, columns].toarray().ravel() if sp.issparse(X) else X[:, columns[0]]
        X = X[:, np.setdiff1d(np.arange(X.shape[1]), columns)]
    if of_row.shape != (X.shape[0],):
        raise DeclarationError(f"[data]: query = {query!r} has shape {of_row.shape}; {path} has {X.shape[0]} rows.")
    _, first, group = np.unique(of_row, return_index=True, return_inverse=True)
    members = [np.flatnonzero(group == k) for k in np.argsort(first)]
    dense = X.toarray() if sp.issparse(X) else X
    return [dense[rows] for rows in members], None if y is None else [y[rows] for rows in members]


def _filled(X: Any, value: float) -> Any:
    if isinstance(X, list):
        return [_filled(x, value) for x in X]
    X = X.copy()
    numbers = X.data if sp.issparse(X) else X
    numbers[np.isnan(numbers)] = value
    return X

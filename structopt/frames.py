"""Conversion of pandas data frames and series to arrays, without importing pandas.

Rows count by their position, never by their index, as everywhere in scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.errors import DeclarationError, marked

__all__ = ["is_column", "is_frame", "plain_inputs", "plain_labels"]


def is_frame(data: Any) -> bool:
    """Whether `data` is a table with named columns (a pandas ``DataFrame``)."""
    return hasattr(data, "iloc") and hasattr(data, "columns")


def is_column(data: Any) -> bool:
    """Whether `data` is one column (a pandas ``Series`` or ``Index``) or an array of pandas' own (``Categorical``)."""
    return not is_frame(data) and not sp.issparse(data) and hasattr(data, "to_numpy") and hasattr(data, "isna")


def plain_inputs(X: Any) -> Any:
    """A data set whose tables are arrays of numbers: a frame, a list of frames, or a column of inputs.

    Missing values become NaN, which is reported later with the number of the example. Other data are returned as they
    are.

    Examples
    --------
    >>> plain_inputs([[1.0, 2.0]])
    [[1.0, 2.0]]
    """
    if is_frame(X):
        return _numbers(X, "X")
    if is_column(X):
        X = list(X.to_numpy())
    if isinstance(X, list | tuple) and any(is_frame(x) or is_column(x) for x in X):
        return [_numbers(x, f"Input {i}") if is_frame(x) or is_column(x) else x for i, x in enumerate(X)]
    return X


def plain_labels(Y: Any) -> Any:
    """Labels as arrays: a frame of 0/1 columns, a column of classes, a list of columns.

    Examples
    --------
    >>> plain_labels(["cat", "dog"])
    ['cat', 'dog']
    """
    if is_frame(Y):
        _refuse_missing(Y, "y")
        return _narrowed(np.column_stack([Y.iloc[:, k].to_numpy() for k in range(Y.shape[1])]) if Y.shape[1] else Y)
    if is_column(Y):
        _refuse_missing(Y, "y")
        values = _narrowed(Y.to_numpy())
        nested = values.dtype == object and any(is_frame(v) or is_column(v) for v in values)
        return plain_labels(list(values)) if nested else values
    if isinstance(Y, list | tuple) and any(is_frame(y) or is_column(y) for y in Y):
        return [plain_labels(y) for y in Y]
    return Y


def _numbers(table: Any, name: str) -> Any:
    """A frame or a column as float64 (float32 where all of it is), sparse where all of its columns are."""
    kinds = list(table.dtypes) if is_frame(table) else [table.dtype]
    if is_frame(table) and kinds and all(hasattr(kind, "fill_value") for kind in kinds):
        try:
            return sp.csr_array(table.sparse.to_coo())
        except (ValueError, TypeError, AttributeError):
            pass  # columns whose usual value is not 0: dense, below
    single = bool(kinds) and all(str(kind) in ("float32", "Float32") for kind in kinds)
    wanted = np.float32 if single else np.float64
    try:
        return np.ascontiguousarray(table.to_numpy(dtype=wanted, na_value=np.nan))
    except (ValueError, TypeError):
        pass
    if not is_frame(table):
        raise DeclarationError(f"{name} must hold numbers; it has the type {table.dtype}.")
    columns = []
    for k in range(table.shape[1]):
        column = table.iloc[:, k]
        try:
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (ValueError, TypeError):
            raise DeclarationError(
                f"{name}: column {table.columns[k]!r} must hold numbers; it has the type {column.dtype}. Encode it "
                "first, for example with sklearn.preprocessing.OneHotEncoder."
            ) from None
    return np.column_stack(columns)


def _refuse_missing(table: Any, name: str) -> None:
    missing = np.asarray(table.isna())
    if not missing.any():
        return
    row = int(np.argmax(missing.reshape(len(missing), -1).any(axis=1)))
    where = f" in column {table.columns[int(np.argmax(missing[row]))]!r}" if is_frame(table) else ""
    raise DeclarationError(
        f"{name} has no label for example {marked(row)}{where}: it is missing; drop or fill it first."
    )


def _narrowed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects that are all numbers, as pandas' own types give them, as numbers."""
    if values.dtype != object or not values.size:
        return values
    flat = values.ravel()
    if not all(isinstance(v, int | float | np.number | np.bool_) for v in flat):
        return values
    return np.asarray(flat.tolist()).reshape(values.shape)

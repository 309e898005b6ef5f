"""`fetch`: public data sets through scikit-learn's OpenML client, kept in a folder after the first time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from structopt.checks import checked
from structopt.errors import DeclarationError

__all__ = ["fetch"]

#: Names whose first active version on OpenML is another data set: the number of the one that is meant.
KNOWN = {"yeast": 40597}  # version 4: 2417 genes, 14 labels; version 1 is another task

_TRUE, _FALSE = {"true", "1", "1.0"}, {"false", "0", "0.0"}


@checked
def fetch(
    name: str | int,
    *,
    version: int | None = None,
    target: str | Sequence[str] | None = None,
    folder: str | Path | None = None,
) -> Bunch:
    """Fetch a data set from OpenML, or from the cache.

    Parameters
    ----------
    name : str or int
        Name or number on OpenML. ``"yeast"`` is the multi-label set.
    version : int, optional
        Which of the sets of this name; the oldest active one by default.
    target : str or sequence of str, optional
        Columns to predict; by default those that the set declares.
    folder : path, optional
        The cache; by default the environment variable STRUCTOPT_CACHE, else scikit-learn's (``~/scikit_learn_data``).

    Returns
    -------
    Bunch
        ``X`` (float64, CSR if the set is sparse; nominal columns one-hot), ``y`` (0/1 rows where there are several
        targets, else a class or number per row), ``feature_names``, ``label_names``, ``description``, ``url``.

    Raises
    ------
    DeclarationError
        If OpenML has no such set.
    ConnectionError
        If it is not in the cache and OpenML cannot be reached.

    Examples
    --------
    >>> yeast = fetch("yeast")  # doctest: +SKIP
    >>> yeast.X.shape, yeast.y.shape  # doctest: +SKIP
    ((2417, 103), (2417, 14))
    """
    home = folder or os.environ.get("STRUCTOPT_CACHE") or None
    wanted = _query(name, version)
    options = {"target_column": target} if target is not None else {}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Multiple active versions")  # documented above
            # liac-arff reads sparse files too, and needs no pandas.
            found = fetch_openml(
                **wanted, **options, data_home=home, as_frame=False, parser="liac-arff", n_retries=1, delay=0.5
            )
    except OSError as error:
        if getattr(error, "code", None) == 412:  # how OpenML says that it has no such set
            raise DeclarationError(f"OpenML has no data set {name!r}{_of(version)}.") from error
        raise ConnectionError(
            f"The data set {name!r} is not in the cache and OpenML cannot be reached ({error}); fetch it once where "
            "there is a network and give its cache by folder= or STRUCTOPT_CACHE."
        ) from error
    except ValueError as error:
        raise DeclarationError(f"OpenML's data set {name!r}{_of(version)} cannot be used: {error}") from error
    X, feature_names = _features(found)
    y, label_names = _labels(found)
    return Bunch(
        name=str(name),
        X=X,
        y=y,
        feature_names=np.array(feature_names, dtype=str),
        label_names=label_names,
        description=found.DESCR,
        url=found.url,
    )


def _query(name: str | int, version: int | None) -> dict[str, Any]:
    if isinstance(name, int):
        return {"data_id": name}
    if version is None and name in KNOWN:
        return {"data_id": KNOWN[name]}
    return {"name": name, "version": version or "active"}


def _of(version: int | None) -> str:
    return "" if version is None else f" of version {version}"


def _features(found: Bunch) -> tuple[Any, list[str]]:
    """Numbers as they are, and a column for every value of the nominal ones (which come as codes)."""
    nominal = {name: values for name, values in (found.categories or {}).items() if name in found.feature_names}
    X = found.data
    if not any(_is_open(values) for values in nominal.values()):
        return (sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)), list(
            found.feature_names
        )
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    parts: list[np.ndarray[Any, Any]] = []
    names: list[str] = []
    for k, name in enumerate(found.feature_names):
        values = nominal.get(name)
        if values is None or not _is_open(values):
            parts.append(dense[:, [k]])
            names.append(name)
        else:
            parts.append((dense[:, [k]] == np.arange(len(values))).astype(np.float64))
            names += [f"{name}={value}" for value in values]
    X = np.hstack(parts)
    return (sp.csr_array(X) if sp.issparse(found.data) else X), names


def _is_open(values: Sequence[Any]) -> bool:
    """Whether a nominal column needs one column a value: codes of (0, 1) are the numbers themselves."""
    return [str(value) for value in values] != ["0", "1"]


def _labels(found: Bunch) -> tuple[Any, np.ndarray[Any, Any]]:
    y = found.target
    if y is None:
        return None, np.array([], dtype=str)
    y = np.asarray(y)
    if y.ndim == 1:
        y = y if y.dtype != object else y.astype(str)
        return y, np.unique(y)
    names = np.array(found.target_names, dtype=str)
    text = np.char.lower(y.astype(str))
    values = set(np.unique(text).tolist())
    if values <= _TRUE | _FALSE:
        return np.isin(text, list(_TRUE)).astype(np.uint8), names
    return (y if y.dtype != object else y.astype(str)), names

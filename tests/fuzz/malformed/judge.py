"""What a call came to: an answer, a refusal, or one of the failures."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import structopt
from structopt.errors import StructoptError

HOME = str(Path(structopt.__file__).resolve().parent)
#: Files of scikit-learn whose errors are about arguments.
CHECKS = ("sklearn/utils/", "sklearn/base.py", "sklearn/metrics/", "sklearn/preprocessing/_label.py")


def is_deliberate(error: BaseException) -> bool:
    """Whether an error is a refusal: ours, raised on purpose, scikit-learn's, or about a file."""
    if isinstance(error, StructoptError | OSError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return False
    last = frames[-1]
    if last.filename.startswith(HOME):
        line = linecache.getline(last.filename, last.lineno or 0).strip()
        return line.startswith("raise ")
    name = last.filename.replace("\\", "/")
    return isinstance(error, ValueError | TypeError | AttributeError) and any(check in name for check in CHECKS)


def place(error: BaseException) -> str:
    """Where in our code an error came from."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(HOME)]
    if not ours:
        return "outside"
    return f"{Path(ours[-1].filename).relative_to(HOME)}:{ours[-1].lineno}"


def numbers(answer: Any, depth: int = 0) -> Iterable[np.ndarray[Any, Any]]:
    """All the numbers in an answer, array by array, in order."""
    if answer is None or isinstance(answer, str | bytes) or depth > 6:
        return
    if isinstance(answer, bool | int | float | np.number | np.bool_):
        yield np.array([float(answer)])
    elif sp.issparse(answer):
        yield answer.toarray().astype(float).ravel()
    elif isinstance(answer, np.ndarray):
        if answer.dtype.kind in "fiub":
            yield answer.astype(float).ravel()
        elif answer.dtype.kind == "O":
            for part in answer.ravel():
                yield from numbers(part, depth + 1)
    elif isinstance(answer, structopt.Label):
        yield np.append(answer.z, answer.value)
    elif isinstance(answer, Mapping):
        for value in answer.values():
            yield from numbers(value, depth + 1)
    elif isinstance(answer, list | tuple):
        for part in answer:
            yield from numbers(part, depth + 1)


def flat(answer: Any) -> np.ndarray[Any, Any]:
    parts = list(numbers(answer))
    return np.concatenate(parts) if parts else np.empty(0)

"""Predicted labels and class names as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_array", "name_array"]


def name_array(names: Sequence[Any]) -> npt.NDArray[Any]:
    """Return names as a one-dimensional array that keeps the value and type of every name.

    The dtype is `object` if NumPy would change a name, for example ``1`` to ``'1'`` because another name is a text.

    Examples
    --------
    >>> name_array(["a", "b"])
    array(['a', 'b'], dtype='<U1')
    >>> name_array(["a", 1, (2, 3)])
    array(['a', 1, (2, 3)], dtype=object)
    """
    kinds = {type(name) for name in names}
    if len(kinds) <= 1 and all(issubclass(kind, str | bool | int | float | np.generic) for kind in kinds):
        array = np.array(names)
        if array.tolist() == list(names):  # not the case for integers beyond 64 bits
            return array
    return np.fromiter(names, dtype=object, count=len(names))


def as_array(labels: list[Any]) -> Any:
    """Return labels as one array if they are names or arrays of equal shapes; other labels stay a list."""
    if labels and all(isinstance(label, np.ndarray) for label in labels):
        return np.array(labels) if len({label.shape for label in labels}) == 1 else labels
    scalar = all(label is None or isinstance(label, str | int | float | np.generic) for label in labels)
    return name_array(labels) if scalar else labels

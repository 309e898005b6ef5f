"""Forms of labels: a mapping of blocks, a whole vector z, or the array of the first block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from structopt.checks import converted
from structopt.errors import DeclarationError, StructoptError
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

if TYPE_CHECKING:
    from structopt.model.model import Model

__all__ = ["LABEL_FORMS", "LabelForm", "check_codec", "common_form", "has_user_codec", "label_form", "points_of"]

LabelForm = Literal["first", "blocks", "vector"]
LABEL_FORMS = ("first", "blocks", "vector")


def label_form(model: Model, y: Any, inputs: Callable[[int], Any] | None = None) -> LabelForm | None:
    """Return the form of the labels of a data set, or None if the model has a codec of its own.

    ``inputs(i)`` is input i, for a model with a space per input.
    """
    if not model.has_plain_labels:
        return None
    if hasattr(y, "shape"):
        if len(y.shape) < 2 and y.dtype == object:
            return label_form(model, list(y), inputs)
        return _array_form(model, y.shape[1:], inputs, 0)
    forms = {
        "blocks" if isinstance(label, Mapping) else _array_form(model, np.shape(label), inputs, i)
        for i, label in enumerate(y)
    }
    return common_form(forms)


def points_of(space: LabelSpace, labels: Any) -> FloatArray | None:
    """Return the points of labels that all have one form, or None if `LabelSpace.point` must take them one by one."""
    blocks, first = list(space), next(iter(space))
    try:
        if all(isinstance(label, Mapping) for label in labels):
            names = {block.name for block in blocks}
            if not all(label.keys() == names for label in labels):
                return None
            parts = [_stacked([label[block.name] for label in labels], block.shape) for block in blocks]
            return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
        given = converted("y", labels)
        if given.shape[1:] == (space.n_variables,):
            points = np.array(given)  # a copy: the batch owns its labels
        else:
            values = _stacked(given, first.shape).reshape(len(given), -1)
            points = space._completed(values)
    except (DeclarationError, ValueError):
        return None
    return points if np.isfinite(points).all() else None


def _stacked(values: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return values of one block, one per label; raise ValueError if one has another shape."""
    array = converted("y", values)
    if array.shape[1:] != shape or not np.isfinite(array).all():
        raise ValueError
    return array


def common_form(forms: Any) -> LabelForm:
    """Return the form of labels of several forms: the one that holds the most."""
    return "blocks" if "blocks" in forms else "vector" if "vector" in forms else "first"


def _array_form(
    model: Model, shape: tuple[int, ...], inputs: Callable[[int], Any] | None, i: int
) -> Literal["first", "vector"]:
    """Return the form of a label that is an array of this shape."""
    if not model.fixed and inputs is None:
        return "first"
    space = model.space(None if inputs is None else inputs(i))
    first = next(iter(space))
    return "vector" if shape == (space.n_variables,) and shape != first.shape else "first"


def has_user_codec(model: Model) -> bool:
    """Return whether the points of the model's labels are made by functions or a subclass of the user."""
    if model._encode is not None or model._decode is not None:
        return True
    from structopt.model.model import Model

    own = type(model)
    foreign = own.__module__.partition(".")[0] != "structopt" and own._batch_codec is Model._batch_codec
    return foreign and not model.has_plain_labels


def check_codec(model: Model, points: Any, inputs: Callable[[int], Any]) -> None:
    """Raise if ``encode(decode(z))`` is not z for a label z of a data set.

    The codecs of structopt itself are not checked. ``inputs(i)`` is input i.
    """
    if not has_user_codec(model):
        return
    for i in range(len(points)):
        z, x = np.asarray(points[i], dtype=np.float64), inputs(i)
        try:
            label = model.decode(z, x)
            again = model.encode(label, x)
        except (StructoptError, TypeError, ValueError, LookupError, AttributeError) as error:
            problem = f"encode rejects the label that decode returns ({type(error).__name__}: {error})"
        else:
            if again.shape == z.shape and np.allclose(again, z, rtol=1e-6, atol=1e-6):
                continue
            problem = f"decode returns {label!r:.80}, and encode makes another point of it"
        remedy = "encode(decode(z)) must equal z"
        if (model._encode is None) != (model._decode is None):
            remedy = "give decode= as well" if model._decode is None else "give encode= as well"
        raise DeclarationError(f"The codec of the model does not return label {i}: {problem:.400}; {remedy}.")

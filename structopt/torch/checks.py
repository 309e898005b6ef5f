"""Checks of scores and masks: names, shapes, types and lengths, each refused in the user's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structopt._jit import IntArray
from structopt.checks import shown
from structopt.errors import DeclarationError
from structopt.model import Model

__all__ = ["by_name", "check_names", "lengths_of", "mask_tensor", "numbers", "score_tensor", "told"]

_FLOATS = (torch.float32, torch.float64)


def by_name(scores: Any, names: Sequence[str], model: Model) -> dict[str, Any]:
    """Scores given as one tensor, a tuple or a dict, by the names of their blocks."""
    if isinstance(scores, Tensor):
        return {names[0]: scores}
    if isinstance(scores, Mapping):
        check_names(scores, names)
        if not scores:
            raise DeclarationError(f"There are no scores; the blocks are {', '.join(map(repr, names))}.")
        return dict(scores)
    if isinstance(scores, tuple | list) and 0 < len(scores) <= len(names):
        return dict(zip(names, scores, strict=False))
    raise DeclarationError(
        f"Scores of {type(model).__name__} are a tensor, a tuple of tensors for {', '.join(map(repr, names))}, or a "
        f"dict of them; got {shown(scores)}."
    )


def check_names(given: Any, names: Any) -> None:
    for name in given:
        if name not in names:
            raise DeclarationError(f"There are scores for {name!r}; the blocks are {', '.join(map(repr, names))}.")


def score_tensor(
    name: str, given: Mapping[str, Any], *shapes: tuple[int | None, ...], like: Tensor | None = None
) -> Tensor:
    """The scores of a block, of one of these shapes (None: any length); zeros of the first where there are none."""
    if name not in given:
        assert like is not None
        return torch.zeros([int(k or 0) for k in shapes[0]], dtype=like.dtype, device=like.device)
    values = given[name]
    if not isinstance(values, Tensor):
        raise DeclarationError(f"The scores for {name!r} must be a tensor, got {shown(values)}.")
    if values.device.type == "meta":
        raise DeclarationError(
            f"The scores for {name!r} are on the device 'meta', which has shapes and no numbers: move the network to "
            "a real device first (to_empty, or load its weights)."
        )
    if values.dtype not in _FLOATS:
        raise DeclarationError(
            f"The scores for {name!r} have type {values.dtype}; they must be torch.float32 or torch.float64."
        )
    if like is not None and (values.dtype != like.dtype or values.device != like.device):
        raise DeclarationError(
            f"The scores for {name!r} are {values.dtype} on {values.device}, others {like.dtype} on {like.device}; "
            "all must have one type and one device."
        )
    for shape in shapes:
        fits = len(shape) == values.ndim
        if fits and all(k is None or k == size for k, size in zip(shape, values.shape, strict=True)):
            if 0 in values.shape[: 1 if shape[0] is None else 0]:
                raise DeclarationError("The batch has no examples.")
            return values
    wanted = " or ".join(str(tuple("any" if k is None else k for k in shape)).replace("'", "") for shape in shapes)
    raise DeclarationError(f"The scores for {name!r} have shape {tuple(values.shape)}; expected {wanted}.")


def mask_tensor(mask: Any) -> Tensor:
    """A mask that is a tensor, an array or nested lists, as a tensor."""
    if isinstance(mask, Tensor):
        return mask
    try:
        return torch.as_tensor(np.asarray(mask))
    except (TypeError, ValueError):
        raise DeclarationError(f"A mask is a tensor of one truth value for each place; got {shown(mask)}.") from None


def lengths_of(mask: Any, B: int, n: int, what: str, least: int = 1) -> tuple[IntArray, Tensor | None]:
    """How many entries the mask leaves of each example, and the mask; None where it leaves all."""
    if mask is None:
        if n < least:
            raise DeclarationError(f"An example needs at least {least} {what}, got {n}.")
        return np.full(B, n, dtype=np.int64), None
    mask = mask_tensor(mask)
    if mask.dtype != torch.bool:
        raise DeclarationError(f"A mask is boolean, True for what is no padding; got {mask.dtype}.")
    if tuple(mask.shape) != (B, n):
        raise DeclarationError(f"The mask has shape {tuple(mask.shape)}; the scores of {what} need {(B, n)}.")
    given = mask.detach().cpu().numpy()
    lengths = given.sum(axis=1).astype(np.int64)
    short = np.flatnonzero(lengths < least)
    if short.size:
        raise DeclarationError(
            f"The mask leaves {int(lengths[short[0]])} {what} of example {int(short[0])}; it must leave "
            f"at least {least}."
        )
    ragged = np.flatnonzero((np.arange(n) < lengths[:, None]) != given) // n
    if ragged.size:
        raise DeclarationError(f"The mask of example {int(ragged[0])} has gaps: padding stands at the end.")
    return lengths, None if int(lengths.min()) == n else mask


def numbers(examples: IntArray) -> str:
    """Numbers of examples, for messages."""
    shown_first = ", ".join(map(str, examples[:5].tolist()))
    return shown_first if len(examples) <= 5 else f"{shown_first}, ..."


def told(values: Any) -> str:
    return f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else shown(values)

"""One small batch of every structure: score tensors in the shapes of the how-to page, labels, a mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import structopt as so

try:
    import torch
except ImportError:  # the tests skip themselves
    torch = None


@dataclass
class Case:
    """A model with a batch of two examples; `scores` are leaves in the order in which `join` takes them."""

    name: str
    model: so.Model
    labels: Any
    shapes: list[tuple[int, ...]]
    join: Callable[..., Any] = lambda *tensors: tensors[0] if len(tensors) == 1 else tensors
    options: dict[str, Any] = field(default_factory=dict)

    def leaves(self, seed: int = 0, **options: Any) -> tuple[Any, ...]:
        """Random scores."""
        rng = np.random.default_rng(seed)
        options = {"dtype": torch.float64, "requires_grad": True, **options}
        return tuple(torch.tensor(rng.normal(size=shape), **options) for shape in self.shapes)


def _mask(*lengths: int) -> Any:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def declared() -> so.Model:
    """Two blocks and rows that join them."""
    space = so.LabelSpace("declared")
    y, kind = space.binary("y", (2, 2)), space.binary("kind", 3)
    space.subject_to(y.sum() <= 2, kind.sum() == 1, kind[0] <= y[0, 0])
    linear, hamming = so.features.Linear(), so.losses.Hamming()
    return so.Model(space, {"y": linear, "kind": linear}, {"y": hamming, "kind": hamming})


def by_input() -> so.Model:
    """A space for each input: as many tags as it has entries, at most two of them on."""

    def space(x: Any) -> so.LabelSpace:
        found = so.LabelSpace("tags")
        tags = found.binary("tag", len(x))
        found.subject_to(tags.sum() <= 2)
        return found

    return so.Model(space, {"tag": so.features.Shared()}, so.losses.Hamming(), key=len)


def cases() -> list[Case]:
    s = so.structures
    two_blocks = [{"y": [[1, 0], [0, 0]], "kind": [1, 0, 0]}, {"y": [[0, 1], [1, 0]], "kind": [0, 0, 1]}]
    return [
        Case("chain", s.Chain(3), [[0, 1, 2, 0], [2, 1]], [(2, 4, 3), (3, 3)], options={"mask": _mask(4, 2)}),
        Case("bio", s.Chain(["O", "B-X", "I-X"], "bio", initial_weights=True), torch.tensor([[1, 2, 0], [0, 1, 1]]),
             [(2, 3, 3), (3, 3), (3,)]),
        Case("steps", s.Chain(3), [[0, 1, 2, 0], [2, 1]], [(2, 4, 3), (2, 3, 3, 3)], options={"mask": _mask(4, 2)}),
        Case("tree", s.Arborescence(), torch.tensor([[0, 1, 2], [2, 0, 9]]), [(2, 4, 4)],
             options={"mask": _mask(3, 2)}),
        Case("one root", s.Arborescence(single_root=True), [[0, 1, 2], [2, 3, 0]], [(2, 4, 4)]),
        Case("labelled tree", s.LabelledArborescence(2), torch.tensor([[[0, 1], [1, 0]], [[0, 1], [9, 9]]]),
             [(2, 3, 3, 2)], options={"mask": _mask(2, 1)}),
        Case("pairwise", s.PairwiseMRF(4), np.array([[1, 0, 1, 0], [0, 0, 1, 1]]), [(2, 4), (2, 6)]),
        Case("tied pairs", s.PairwiseMRF(3, [(0, 1), (1, 2)]), np.array([[1, 0, 1], [0, 1, 1]]), [(2, 3), (2,)]),
        Case("matching", s.Assignment(), torch.tensor([[0, 1, 2], [2, 3, 1]]), [(2, 3, 4)]),
        Case("permutations", s.Assignment(), torch.tensor([[0, 2, 1], [1, 0, -1]]), [(2, 3, 3)],
             options={"mask": _mask(3, 2)}),
        Case("ranking", s.Ranking(), torch.tensor([[2.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), [(2, 3)],
             options={"mask": _mask(3, 2)}),
        Case("multiclass", s.Multiclass(4), [3, 0], [(2, 4)]),
        Case("declared", declared(), two_blocks, [(2, 2, 2), (2, 3)], lambda y, kind: {"y": y, "kind": kind}),
        Case("one block of two", declared(), two_blocks,
             [(2, 3)], lambda kind: {"kind": kind}),
        Case("by input", by_input(), [[1, 0, 1], [0, 1]], [(3,), (2,)], lambda *tags: {"tag": list(tags)},
             {"inputs": [[0] * 3, [0] * 2]}),
    ]  # fmt: skip


@pytest.fixture(params=cases() if torch else [], ids=lambda case: case.name)
def case(request: Any) -> Case:
    return request.param

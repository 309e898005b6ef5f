from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structopt.errors import DeclarationError
from structopt.interop.names import blocks_of, natural_key, refuse_duplicates, stand_ins
from structopt.space.naming import ArrayNames

SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)


@given(shapes=st.lists(SHAPES, max_size=5))
def test_blocks_come_back(shapes: list[tuple[int, ...]]) -> None:
    declared = [(f"b{k}", shape) for k, shape in enumerate(shapes)]
    names = [name for block, shape in declared for name in ArrayNames(block, shape)]
    assert blocks_of(names) == [(block, shape, None) for block, shape in declared]


@given(names=st.lists(st.sampled_from(["y", "y[0]", "y[1]", "y[2]", "y[0,0]", "y[0,1]", "x[1]", "x"]), unique=True))
def test_blocks_cover_the_names_in_order(names: list[str]) -> None:
    covered: list[str] = []
    blocks = blocks_of(names)
    for block, shape, elements in blocks:
        covered += list(elements or ArrayNames(block, shape))
    assert covered == names
    assert len({block for block, _, _ in blocks}) == len(blocks)


@pytest.mark.parametrize(
    "names",
    [
        ["y[1]", "y[0]"],
        ["y[0]", "y[2]"],
        ["y[0,0]", "y[0,1]", "y[1,0]"],
        ["y[0,0]", "y[1,0]", "y[0,1]", "y[1,1]"],
        ["y[0]", "x", "y[1]"],
        ["y", "y[0]"],
        ["y[0]", "y[0,0]"],
        ["y[]", "[0]", "y[0][1]"],
    ],
)
def test_what_is_no_full_array_stays_scalar(names: list[str]) -> None:
    assert [(name, shape) for name, shape, _ in blocks_of(names) if name != "x"] == [
        (name, ()) for name in names if name != "x"
    ]


def test_labelled_grid() -> None:
    names = [f"t[{tag},{k}]" for tag in ("noun", "verb") for k in (1, 2, 3)]
    assert blocks_of(names) == [("t", (2, 3), tuple(names))]


def test_many_names_are_grouped_quickly() -> None:
    shape = (300, 100)
    assert blocks_of([f"y[{i},{j}]" for i, j in np.ndindex(shape)]) == [("y", shape, None)]


@given(st.lists(st.sampled_from(["a", "b", "a b", "a_b", "x0", "x1", "x1_", "?"]), unique=True))
def test_stand_ins_are_unique_and_keep_legal_names(names: list[str]) -> None:
    result = stand_ins(names, str.isidentifier, lambda name: name.replace(" ", "_"), "x")
    assert len(set(result)) == len(names)
    assert all(map(str.isidentifier, result))
    assert all(written == name for written, name in zip(result, names, strict=True) if name.isidentifier())


def test_natural_order() -> None:
    assert sorted(["y_10", "y_2", "x", "y_2_b", "10", "9"], key=natural_key) == ["x", "y_2", "y_2_b", "y_10", "9", "10"]


def test_duplicates_are_named() -> None:
    with pytest.raises(DeclarationError, match=r"variable names must be unique.*'a'"):
        refuse_duplicates("variable", ["a", "b", "a"])

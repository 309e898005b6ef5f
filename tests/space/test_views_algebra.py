"""Tests of `LabelSpace.algebra` and `print(space)`."""

import numpy as np
import pytest

import structopt as so


@pytest.fixture
def space():
    space = so.LabelSpace("mixed")
    tag = space.binary("tag", (2, 2))
    count = space.integer("count", (), -3, 5)
    share = space.continuous("share", 2, 0, np.inf)
    space.subject_to(tag.sum() <= 3, name="few")
    space.subject_to(count - share[0] == 1, name="link")
    space.subject_to(-share[1] >= -2.5, name="cap")
    return space


def test_algebra_lists_blocks_and_named_rows(space):
    assert space.algebra().splitlines() == [
        "mixed",
        "  tag[0..1, 0..1] in {0, 1}",
        "  count in [-3, 5], integer",
        "  share[0..1] in [0, inf]",
        "  few:  tag[0,0] + tag[0,1] + tag[1,0] + tag[1,1] <= 3",
        "  link: count - share[0] == 1",
        "  cap:  - share[1] >= -2.5",
    ]


def test_algebra_shortens_rows_and_terms(space):
    text = space.algebra(max_rows=1, max_terms=2)
    assert "tag[0,0] + tag[0,1] + ... (4 terms) <= 3" in text
    assert text.endswith("... 2 more rows")


def test_print_shows_small_spaces_only(space):
    assert str(space) == space.algebra()
    wide = so.LabelSpace("wide")
    wide.binary("y", 1000)
    assert str(wide) == repr(wide)


def test_algebra_names_lazy_rows():
    space = so.LabelSpace()
    y = space.binary("y", 2)
    space.lazy(lambda z: [y.sum() <= 1] if z["y"].sum() > 1.5 else [], name="subtours")
    assert "subtours: lazy rows" in space.algebra()


def test_algebra_of_an_empty_space():
    assert so.LabelSpace().algebra() == "label space"

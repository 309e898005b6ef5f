"""Errors lead to their section of the guide, and say a cure once."""

from __future__ import annotations

import inspect
import pickle
import traceback
from pathlib import Path

import pytest

import structopt as so
from structopt import errors
from structopt.backends import Profile, make_backend
from structopt.backends.executables import INSTALL

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "errors.md"
CLASSES = [item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, errors.StructoptError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_guides_lead_to_a_section(kind):
    error = kind("Something is wrong.")
    assert str(error) == "Something is wrong."
    if kind.guide:
        assert kind.guide == kind.__name__.lower()
        assert traceback.format_exception_only(error)[-1] == f"See docs/howto/errors.md#{kind.guide}.\n"
        if PAGE.is_file():
            assert f"\n## {kind.__name__}\n" in PAGE.read_text(encoding="utf-8")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and getattr(again, "__notes__", []) == getattr(error, "__notes__", [])


def test_only_numbers_of_examples_are_replaced():
    text = f"Example {errors.marked(1)} has the label 'example 1'."
    with (
        pytest.raises(errors.DeclarationError, match=r"^Example 7 has the label 'example 1'\.$"),
        errors.numbered([4, 7]),
    ):
        raise errors.DeclarationError(text)


def test_numbers_are_replaced_once_per_part():
    def raised():
        return errors.LabelNotInSpace(
            f"example {errors.marked(0)}: wrong", (f"example {errors.marked(0)}: wrong",), (0,)
        )

    with pytest.raises(errors.LabelNotInSpace) as caught, errors.numbered([30, 10]), errors.numbered([1, 0]):
        raise pickle.loads(pickle.dumps(raised()))
    assert str(caught.value) == caught.value.violations[0] == "example 10: wrong" and caught.value.examples == (10,)


def test_a_message_that_was_changed_keeps_its_text():
    error = errors.DeclarationError(f"example {errors.marked(0)}: wrong")
    error.args = ("example 0 of another data set",)
    errors.number_examples(error, [5])
    assert str(error) == "example 0 of another data set"


def test_only_general_errors_have_no_guide():
    assert {kind.__name__ for kind in CLASSES if not kind.guide} == {
        "DeclarationError",
        "SpaceMismatch",
        "StructoptError",
    }


@pytest.mark.parametrize("install", ["", "ask your administrator"])
def test_a_missing_solver_is_reported_once(install):
    space = so.LabelSpace("x")
    space.binary("y", 1)
    profile = Profile("mine", "pulp", {"solver": "GLPK_CMD", "executable": "no-such-glpsol"}, install=install)
    with pytest.raises(errors.SolverNotAvailable) as told:
        make_backend(profile, space.compiled)
    message = str(told.value)
    assert message.count("get it with: ") == 1 and "How to install" not in message and "no-such-glpsol" in message
    assert (install or "install it and put it on the path") in message
    assert not install or all(cure not in message for cure in INSTALL.values())

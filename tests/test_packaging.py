"""What is written down twice about the package agrees: version, dependencies, scripts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import structopt as so

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _text(name: str) -> str:
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"{name} is not part of this copy")
    return path.read_text(encoding="utf-8")


def test_one_version():
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    assert f"version: {so.__version__}\n" in _text("CITATION.cff")
    assert f"  version: {so.__version__}\n" in _text("conda/recipe.yaml")


def test_the_recipe_has_the_dependencies_of_the_project():
    run = _text("conda/recipe.yaml").split("  run:\n")[1].split("tests:\n")[0]
    recipe = {re.sub(r"\s", "", line.strip()[2:]).replace("matplotlib-base", "matplotlib") for line in run.splitlines()}
    assert recipe == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}


def test_both_scripts_are_the_command_line():
    assert set(PROJECT["scripts"].items()) == {
        ("structopt", "structopt.cli:main"),
        ("structopt-learn", "structopt.cli:main"),
    }
    recipe = _text("conda/recipe.yaml")
    assert all(f"- {name} = {target}\n" in recipe for name, target in PROJECT["scripts"].items())


def test_every_tested_python_is_a_classifier():
    versions = re.search(r"python: \[(.*)\]", _text(".github/workflows/test.yml"))
    assert versions is not None
    listed = {text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)}
    assert set(re.findall(r"3\.\d+", versions[1])) == listed

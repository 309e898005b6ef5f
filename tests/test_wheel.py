"""The wheel: adds nothing but `structopt`, works outside the checkout, is typed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import structopt as so
assert so.__file__.startswith(sys.argv[1]), so.__file__
space = so.LabelSpace()
y = space.binary("y", 3)
space.subject_to(y.sum() <= 1)
for solver in ("auto", "highs", "scipy"):
    assert so.Oracle(space, solver).maximize([1.0, 3.0, 2.0]).value == 3.0
print("works")
"""

USER = """
import numpy as np
import structopt as so

space = so.LabelSpace("typed")
y = space.binary("y", 3)
space.subject_to(y.sum() <= 1, name="one")
label: so.Label = so.Oracle(space).maximize(np.ones(3))
value: float = label.value
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory) -> Path:
    """The wheel unpacked as pip lays it out."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def test_adds_only_structopt(site):
    top = {path.name for path in site.iterdir()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"structopt"}
    assert (site / "structopt" / "py.typed").exists()
    profiles = {path.stem for path in (site / "structopt" / "_solvers").glob("*.toml")}
    assert {"highs", "highs-exact", "scipy", "cbc", "glpk", "scip"} <= profiles
    assert not list(site.rglob("tests")), "tests must not be shipped"


def test_works_outside_the_checkout(site, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(site)], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0 and "works" in done.stdout, done.stderr


def test_user_code_type_checks_against_the_wheel(site, tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(site)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout

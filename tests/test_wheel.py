"""The wheel: adds nothing but `structopt`, works outside the checkout, is typed."""

from __future__ import annotations

import os
import shutil
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
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(site)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("state", ["overwritten", "uninstalled"])
def test_a_spoiled_installation_is_named(site, tmp_path, state):
    """Another distribution has the import name, too: its files replace ours, and its removal takes ours away."""
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    if state == "overwritten":
        (folder / "structopt" / "__init__.py").write_text("VERSION = 'of another project'\n", encoding="utf-8")
        other = folder / "other_structopt-1.0.dist-info"
        other.mkdir()
        (other / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: other-structopt\nVersion: 1.0\n", encoding="utf-8"
        )
        (other / "RECORD").write_text("structopt/__init__.py,,\n", encoding="utf-8")
        wanted = ("overwritten by the distribution 'other-structopt'", "pip uninstall --yes other-structopt;")
    else:
        (folder / "structopt" / "__init__.py").unlink()
        wanted = ("structopt/__init__.py is missing", "pip install --force-reinstall --no-deps structopt-learn")
    # Without site-packages, where the checkout may be installed; the module of errors needs nothing from there.
    program = "import sys; sys.path.insert(0, sys.argv[1]); import structopt.errors"
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program, str(folder)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1
    for words in wanted:
        assert words in done.stderr

"""Profiles: found by name and by path, and clear about what is wrong or missing."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from structopt.backends import Profile, available_profiles, load_profile, make_backend
from structopt.backends.highs import Highs
from structopt.backends.pulp import Pulp
from structopt.backends.pyomo import Pyomo
from structopt.backends.scipy import Scipy
from structopt.errors import DeclarationError, SolverNotAvailable
from structopt.testing.instances import pairwise, space_of

SPACE = space_of([[1.0, 1.0]], -np.inf, 1.0, 0.0, 1.0, True)


def test_every_shipped_profile_says_what_it_is_and_how_to_get_it() -> None:
    for name, profile in available_profiles().items():
        assert profile.name == name
        assert profile.description
        assert profile.install
        assert set(profile.tolerances) == {"feasibility", "value"}


def test_a_profile_of_ones_own_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "patient.toml"
    path.write_text('backend = "highs"\n[options]\ntime_limit = 7\n', encoding="utf-8")
    backend = make_backend(path, SPACE, mip_gap=0.5)
    assert isinstance(backend, Highs)
    assert backend.options == {"time_limit": 7, "mip_gap": 0.5}
    assert load_profile(str(path)).name == "patient"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("backend = ", "not TOML"),
        ('backend = "nonsense"', "one of highs"),
        ("", "one of highs"),
        ('backend = "highs"\ntime_limit = 3', r"'time_limit'.*\[options\]"),
        ('backend = "highs"\n[tolerances]\nluck = 1', "'luck'"),
    ],
)
def test_a_malformed_profile_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError, match=rf"mine\.toml.*{message}"):
        load_profile(path)


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(DeclarationError, match="cbc, glpk"):
        load_profile("nonsense")
    with pytest.raises(DeclarationError, match="no solver profile at"):
        load_profile("nowhere/mine.toml")


def test_a_missing_program_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("glpk", "pyomo-glpk"):
        with pytest.raises(SolverNotAvailable, match=r"'glpsol'.*apt install glpk-utils"):
            make_backend(name, SPACE)
    with pytest.raises(SolverNotAvailable, match=r"'scip'.*conda install"):
        Pulp(SPACE, {"solver": "SCIP_CMD"})
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(SolverNotAvailable, match=r"'pyscipopt' is not installed.*pip install pyscipopt"):
        make_backend("scip", SPACE)
    with pytest.raises(SolverNotAvailable, match="'glpsol'"):
        Pulp(SPACE, {"solver": "GLPK_CMD"})
    with pytest.raises(SolverNotAvailable, match="nowhere/cbc"):
        make_backend("pyomo-cbc", SPACE, executable="nowhere/cbc")


def test_cbc_needs_only_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("cbc", "pyomo-cbc"):
        assert load_profile(name).unavailable() is None


def test_a_backend_class_is_a_solver() -> None:
    assert isinstance(make_backend(Scipy, SPACE, mip_gap=0.1), Scipy)
    with pytest.raises(DeclarationError, match="not a subclass"):
        make_backend(int, SPACE)  # type: ignore[type-var]


def test_none_leaves_an_option_to_the_solver() -> None:
    limited = Profile("mine", "highs", {"time_limit": 1.0, "mip_gap": 0.5})
    assert dict(make_backend(limited, SPACE, time_limit=None).options) == {"mip_gap": 0.5}
    assert not make_backend(Scipy, SPACE, mip_gap=None, threads=None).options


def test_a_profile_object_is_a_solver() -> None:
    assert isinstance(make_backend(Profile("mine", "pulp", {"solver": "HiGHS"}), SPACE), Pulp)


@pytest.mark.parametrize(
    ("backend", "options", "message"),
    [
        (Scipy, {"luck": 1}, "no option 'luck'"),
        (Pulp, {"luck": 1}, "no option 'luck'"),
        (Pulp, {"solver": "cbc"}, "PuLP has no solver 'cbc'"),
    ],
)
def test_unknown_options_are_refused(backend: type, options: dict[str, object], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        backend(SPACE, options)


def test_an_unknown_pyomo_solver_is_not_available() -> None:
    with pytest.raises(SolverNotAvailable, match="'nonsense'"):
        Pyomo(SPACE, {"solver": "nonsense"})


def test_importing_the_backends_imports_no_modelling_package() -> None:
    # highspy is the embedded default and small; PuLP and Pyomo take a second between them.
    code = "import sys, structopt.backends; print([m for m in ('pulp', 'pyomo') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["cbc", "glpk", "pyomo-cbc", "pyomo-glpk"])
def test_no_file_is_left_behind(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = load_profile(name).unavailable()
    if missing is not None:
        pytest.skip(missing)
    for variable in ("TMPDIR", "TMP", "TEMP"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    backend = make_backend(name, pairwise(3))
    backend.set_costs(np.ones(6))
    assert backend.run().z is not None
    del backend  # its folder lives as long as it does
    gc.collect()
    assert list(tmp_path.iterdir()) == []

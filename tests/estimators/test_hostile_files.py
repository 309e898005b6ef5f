"""Files that somebody else wrote: whatever they say, nothing runs, nothing is written, and the error is ours."""

from __future__ import annotations

import json
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt import _archive
from structopt.data import read_npz
from structopt.errors import DeclarationError
from structopt.estimators import load
from structopt.train.checkpoint import read_checkpoint, write_checkpoint

FORMAT = "structopt estimator 2"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = (X @ RNG.normal(size=(3, 3)) > 0).astype(int)


def declared(**settings: Any) -> so.Model:
    space = so.LabelSpace("knapsack")
    tag = space.binary("tag", 3)
    space.subject_to(tag @ np.array([2.0, 3.0, 4.0]) <= 6, name="budget")
    features = {"tag": so.features.Linear(intercept=True)}
    return so.Model(space, features, so.losses.Hamming(), **settings)


def structured(**settings: Any) -> Any:
    labels = Y * [1, 1, 0]
    return so.StructuredSVM(declared(**settings), lam=0.1, tol=0.2).fit(X, labels)


def edited(path: Path, edit: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """The file with its document and arrays changed."""
    document, arrays = _archive.read_archive(path, FORMAT)
    edit(document, arrays)
    _archive.write_archive(path, FORMAT, document, arrays, allow_nan=True)
    return path


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "model.npz"
    structured().save(path)
    return path.read_bytes()


@pytest.fixture
def saved(content: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    return path


def solver_is(name: str, options: dict[str, Any]) -> Callable[..., None]:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        model = document["parameters"]["model"]["model"]
        model["solver"], model["options"] = name, {"dict": [[key, value] for key, value in options.items()]}

    return edit


@pytest.mark.parametrize("name", ["pyomo-cbc", "cbc", "highs", "auto", "scipy", "glpk", "gurobi"])
@pytest.mark.parametrize(
    "options",
    [
        {"executable": "{evil}"},
        {"path": "{evil}"},
        {"log_file": "{victim}"},
        {"solution_file": "{victim}", "write_solution_to_file": True},
        {"options": ["{evil}"]},
        {"solver": "{evil}"},
        {"time_limit": "5; touch {victim}"},
        {"mip_gap": True},
        {"threads": -1},
        {"keepFiles": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_no_program_and_no_file_comes_from_a_model_file(
    name: str, options: dict[str, Any], saved: Path, tmp_path: Path
) -> None:
    evil, ran, victim = tmp_path / "evil.sh", tmp_path / "ran", tmp_path / "victim"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    evil.chmod(0o755)
    victim.write_text("precious", encoding="utf-8")

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(item) for item in value]
        return value.format(evil=evil, victim=victim) if isinstance(value, str) else value

    edited(saved, solver_is(name, {key: filled(value) for key, value in options.items()}))
    with pytest.raises(DeclarationError, match="a model of the file"):
        load(saved).predict(X)
    assert not ran.exists() and victim.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("name", ["/tmp/own.toml", "own.toml", "../solvers/highs", "", "Highs", None, 3, ["highs"]])
def test_a_solver_is_a_profile_that_ships(name: Any, saved: Path) -> None:
    if name is None:  # the default
        assert load(edited(saved, solver_is(name, {}))).model.solver is None
        return
    with pytest.raises(DeclarationError, match="ships with structopt"):
        load(edited(saved, solver_is(name, {})))


def test_options_of_structures_and_estimators_are_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    tree = so.Hierarchy([("r", "a"), ("r", "b")])
    so.StructuredSVM(so.structures.HierarchicalLabels(tree, options={"time_limit": 9.0})).save(path)
    assert load(path).model.options == {"time_limit": 9.0}

    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        document["parameters"]["model"]["declared"][2]["options"] = {"dict": [["log_file", "x"]]}

    with pytest.raises(DeclarationError, match="'log_file'"):
        load(edited(path, edit))


@pytest.mark.parametrize(
    "name", ["predict", "fit", "__class__", "_private", "__dict__", "get_params", "score", "a b", "", "save", "x"]
)
def test_what_is_learned_replaces_no_method(name: str, saved: Path) -> None:
    with pytest.raises(DeclarationError, match="is not the name of something"):
        load(edited(saved, lambda document, arrays: document["learned"].update({name: 1})))


@pytest.mark.parametrize(
    "value",
    [
        {"__init__": []},
        {"decode": 1},
        {"_kinds": 1},
        {"arrays": 1},
        {"__class__": 1},
        {"pickle": "x"},
        {},
        {"tuple": [1], "set": [2]},
        {"array": "../../etc/passwd"},
        {"array": ["a0"]},
        {"array": None},
        {"float": "one"},
        {"set": [[1]]},
        {"dict": [[{"dict": []}, 1]]},
        {"objects": [[1, 2], [3]]},
        {"objects": [[1], [10**12, 10**12]]},
        {"csr": [{"array": "a0"}, {"array": "a0"}, {"array": "a0"}, [3, 3]]},
        {"csr": [1, 2]},
        {"rules": [{"array": "a0"}, {"array": "a0"}]},
        {"result": [{}, {}]},
        {"hierarchy": [["a", "b"], {"array": "a0"}, {"array": "a0"}]},
        {"hierarchy": [["a", "a"], 3, 3]},
        {"space": {}},
        {"model": {}},
        {"declared": ["structopt.demo", "main", {}]},
        {"declared": ["structopt.__main__", "main", {}]},
        {"declared": ["structopt.oracle", "Oracle", {}]},
        {"declared": ["os", "system", {"command": "true"}]},
        {"declared": ["structopt.losses.variables", "TaskLoss", {}]},
        {"declared": ["structopt.losses.variables", "Hamming", {"weights": "many"}]},
        {"declared": ["structopt.losses.variables", "Hamming", {"wights": 1}]},
        {"declared": ["structopt.structures.multiclass", "Multiclass", {"classes": -3}]},
        {"declared": ["structopt.losses.variables", ["Hamming"], {}]},
        {"declared": []},
    ],
    ids=lambda value: json.dumps(value)[:40],
)
@pytest.mark.parametrize("at", ["parameters", "learned"])
def test_values_of_no_kind(value: Any, at: str, saved: Path) -> None:
    imported = set(sys.modules)
    name = "lam" if at == "parameters" else "y_"
    with pytest.raises(DeclarationError, match="is not a saved estimator of this version"):
        load(edited(saved, lambda document, arrays: document[at].update({name: value})))
    assert not {"structopt.demo", "structopt.__main__"} & (set(sys.modules) - imported)


@pytest.mark.parametrize("change", ["nan", "inf", "text", "objects"])
def test_weights_are_finite_numbers(change: str, saved: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        name = document["learned"]["coef_"]["array"]
        if change == "text":
            arrays[name] = arrays[name].astype(str)
        elif change == "objects":
            document["learned"]["coef_"] = {"objects": [["a"] * 12, [12]]}
        else:
            arrays[name] = arrays[name] * float(change)

    with pytest.raises(DeclarationError, match="finite numbers"):
        load(edited(saved, edit))


def test_where_to_write_is_no_business_of_a_file(saved: Path, tmp_path: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        document["parameters"]["checkpoint"] = str(tmp_path / "victim")

    assert load(edited(saved, edit)).checkpoint is None


@pytest.mark.parametrize("dtype", ["x", 10**20, None, "float16", "object", [], True])
def test_the_type_of_features_is_a_float(dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    so.HierarchicalSVM([("r", "a"), ("r", "b")], max_passes=1).fit(X, np.array(["a", "b"])[Y[:, 0]]).save(path)
    with pytest.raises(DeclarationError, match="dtype must be float64 or float32"):
        load(edited(path, lambda document, arrays: document["parameters"].update(dtype=dtype)))


def change_space(name: str, value: Any) -> Callable[..., None]:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        space = document["parameters"]["model"]["model"]["space"]["space"]
        if callable(value):
            array = space[name]["array"]
            arrays[array] = value(arrays[array])
        else:
            space[name] = value

    return edit


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lower", lambda a: a + np.nan),
        ("lower", lambda a: a + 5),
        ("upper", lambda a: a[:-1]),
        ("upper", lambda a: a.astype(int)),
        ("integrality", lambda a: a.astype(float)),
        ("row_upper", lambda a: a * np.nan),
        ("row_lower", lambda a: np.full_like(a, np.inf)),
        ("name", 3),
        ("notes", 7),
        ("blocks", [["tag", [3], None], ["tag", [0], None]]),
        ("blocks", [["tag", [2], None]]),
        ("blocks", [["tag", [4], None]]),
        ("blocks", [["tag", [-3], None]]),
        ("blocks", [["tag", [10**30], None]]),
        ("blocks", [[["tag"], [3], None]]),
        ("blocks", [["tag", [3], ["a"]]]),
        ("rows", []),
        ("rows", [["budget", [2]]]),
        ("rows", [[1]]),
        ("matrix", 1),
    ],
)
def test_a_space_is_checked_as_a_declaration_is(name: str, value: Any, saved: Path) -> None:
    with pytest.raises(DeclarationError, match="is not a saved estimator"):
        load(edited(saved, change_space(name, value)))


def test_matrices_stay_within_their_shape(saved: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        _, indices, _, _ = document["parameters"]["model"]["model"]["space"]["space"]["matrix"]["csr"]
        arrays[indices["array"]] = arrays[indices["array"]] + 1_000_000

    with pytest.raises(DeclarationError, match="is not a saved estimator"):
        load(edited(saved, edit))


# ---- the container ---------------------------------------------------------------------------------


def lying(path: Path, shape: tuple[int, ...], descr: str = "<f8", content: bytes = b"\0" * 16) -> None:
    """An npz whose array declares more bytes than it has."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    body = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("json.npy", body)


READERS: list[Callable[[Path], Any]] = [load, read_checkpoint, read_npz]


@pytest.mark.parametrize("read", READERS)
def test_declared_sizes_are_compared_with_the_file(read: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "lying.npz"
    for shape, descr in (((10**13,), "<f8"), ((2**32, 2**32), "<f8"), ((3,), "<f8"), ((-2,), "<f8"), ((2,), "|O")):
        lying(path, shape, descr)
        with pytest.raises(DeclarationError):
            read(path)


@pytest.mark.parametrize("read", READERS)
def test_small_files_that_unpack_to_large_ones(
    read: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, X=np.zeros(4_000_000), json=np.zeros(8, np.uint8))
    monkeypatch.setattr(_archive, "_FREE_BYTES", 1 << 20)
    with pytest.raises(DeclarationError, match="bytes, more than"):
        read(path)


def test_a_limit_of_ones_own(saved: Path) -> None:
    assert load(saved, max_bytes=1 << 20).coef_.shape == (12,)
    with pytest.raises(DeclarationError, match="max_bytes="):
        load(saved, max_bytes=100)


@pytest.mark.parametrize("read", READERS)
def test_documents_that_are_nested_too_deeply(read: Callable[[Path], Any], tmp_path: Path) -> None:
    for text in ("[" * 200_000, '{"format": ' * 100_000, '{"format": NaN}', "[]", "null", '"x"', "{", "\xff"):
        arrays = {"json": np.frombuffer(text.encode("latin-1"), dtype=np.uint8), "X_data": np.zeros(3)}
        np.savez(tmp_path / "deep.npz", **arrays, digest=_archive._digest(arrays))
        with pytest.raises(DeclarationError):
            read(tmp_path / "deep.npz")


def test_every_truncated_file_is_refused(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    write_checkpoint(tmp_path / "state.npz", {"w": np.ones(3), "passes": 2})
    state = (tmp_path / "state.npz").read_bytes()
    for size in np.linspace(0, len(whole) - 1, 40).astype(int):
        saved.write_bytes(whole[:size])
        with pytest.raises(DeclarationError, match="not a saved estimator"):
            load(saved)
    for size in np.linspace(0, len(state) - 1, 20).astype(int):
        saved.write_bytes(state[:size])
        with pytest.raises(DeclarationError, match="not a checkpoint"):
            read_checkpoint(saved)


def test_modules_may_move(tmp_path: Path) -> None:
    # A file names the module of a class, as version 0.1.0 wrote it; the name of the class is what counts.
    path = tmp_path / "a.npz"
    so.StructuredSVM(so.structures.MultiLabel(3)).fit(X, Y).save(path)

    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        document["parameters"]["model"]["declared"][0] = "structopt.demo"

    assert repr(load(edited(path, edit)).model) == repr(so.structures.MultiLabel(3))

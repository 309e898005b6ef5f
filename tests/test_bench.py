"""The command that runs benchmarks, and the parts and options of a benchmark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="benchmarks are in a checkout only")

TOY = '''"""A toy."""
from _bench import MissingData, Table, main, part

@part("Rows of a toy", ratio="x")
def rows(size: int = 1, names: tuple[str, ...] = ("a",), quick: bool = False, seeds: int = 2):
    for name in names:
        yield {"name": name, "x": size}
    yield f"Size {size}."
    yield Table("more", "More", [{"y": 1}])

@part("Missing")
def missing():
    raise MissingData("no data")
    yield

main()
'''


def load_all(folder):
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}


@pytest.fixture
def checkout(tmp_path):
    """Return a function that runs the command in a checkout with one benchmark, and its folder of results."""
    for name in ("run.py", "_threads.py", "_results.py", "_bench.py"):
        (tmp_path / "benchmarks" / "speed").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "benchmarks" / name, tmp_path / "benchmarks" / name)
    (tmp_path / "benchmarks" / "speed" / "toy.py").write_text(TOY, encoding="utf-8")

    def run(*words):
        command = [sys.executable, "benchmarks/run.py", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run, tmp_path / "benchmarks" / "results"


def test_the_command_runs_parts_with_their_options(checkout):
    run, folder = checkout
    done = run("toy", "rows", "missing", "--names", "b", "c", "--size", "1", "--quick")
    assert done.returncode == 0 and "missing: skipped, no data" in done.stdout, done.stderr
    found = load_all(folder)
    assert set(found) == {"toy.rows", "toy.more"} and found["toy.more"]["rows"] == [{"y": 1}]
    # Options with their default value are not part of the command.
    assert {one["command"] for one in found.values()} == {"python benchmarks/run.py toy rows --names b c --quick"}
    assert found["toy.rows"]["rows"] == [{"name": "b", "x": 1}, {"name": "c", "x": 1}]
    assert found["toy.rows"]["note"] == "Size 1." and found["toy.rows"]["seeds"] == [0, 1]
    listed = run().stdout
    assert "speed/toy" in listed and "2 tables" in listed
    (folder / "toy.rows.json").unlink()
    again = run("--stored", "toy")
    assert again.returncode == 0 and load_all(folder).keys() == found.keys()
    (folder.parent / "speed" / "toy.py").write_text("raise SystemExit(3)", encoding="utf-8")
    failed = run("--stored")
    assert failed.returncode == 1 and "failed: python benchmarks/run.py toy rows" in failed.stderr


def test_the_command_names_what_it_does_not_know(checkout):
    run, _ = checkout
    for words, told in (
        (["nope"], "choose one of toy"),
        (["toy", "nope"], "choose some of rows, missing"),
        (["toy", "missing", "--size", "2"], "--size"),
    ):
        done = run(*words)
        assert done.returncode == 2 and told in done.stderr
    assert "--names a" in run("toy").stdout

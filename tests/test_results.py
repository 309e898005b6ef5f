"""Stored results of benchmarks, and the pages made from them."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="benchmarks are in a checkout only")


def _module(path: Path):
    spec = importlib.util.spec_from_file_location(f"test_results_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored():
    return _module(ROOT / "benchmarks" / "_results.py")


@pytest.fixture(scope="module")
def pages():
    return _module(ROOT / "docs" / "results.py")


@pytest.fixture
def store(stored, tmp_path):
    """Store a result in a folder of its own."""

    def write(name="toy.part", rows=({"set": "a", "ratio": 2.0},), **options):
        options = {"title": "A toy", "words": ["part", "--size", "3"], "seconds": 1.0, "folder": tmp_path} | options
        return stored.store(name, list(rows), **options)

    return write


# ---- files -------------------------------------------------------------------------------------------


def test_a_result_has_all_that_repeats_it(stored, store, tmp_path):
    rows = [{"set": "a", "n": 3, "x": 1 / 3, "gap": float("nan"), "done": True}]
    text = store(rows=rows, ratio="x", seeds=(0, 7), note="N.").read_text(encoding="utf-8")
    found = stored.load("toy.part", tmp_path)
    assert found["command"] == "python benchmarks/run.py toy part --size 3"
    assert found["rows"] == [{"set": "a", "n": 3, "x": 0.33333, "gap": None, "done": True}]
    assert found["seeds"] == [0, 7] and found["ratio"] == "x" and found["note"] == "N." and found["cpu_seconds"] == 1.0
    assert {"python", "numpy"} <= found["versions"].keys() and len(found["date"]) == 10
    assert stored.load_all(tmp_path) == {"toy.part": found}
    assert platform.node() == "" or platform.node() not in text
    assert str(Path.home()) not in text and str(ROOT) not in text


def test_only_the_same_command_replaces_a_result(store, capsys):
    path = store()
    before = path.read_text(encoding="utf-8")
    assert store(rows=[{"set": "b", "ratio": 1.0}], words=["part", "--quick"]) is None
    assert path.read_text(encoding="utf-8") == before and "delete it" in capsys.readouterr().out
    assert store(rows=[{"set": "b", "ratio": 1.0}]) == path and path.read_text(encoding="utf-8") != before


def test_results_that_cannot_be_stored(store, capsys, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert store(folder=tmp_path / "file") is None and store(rows=[]) is None
    assert capsys.readouterr().out.count("not stored") == 2
    with pytest.raises(KeyError, match="speed"):
        store(ratio="speed")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"name": "x"}'])
def test_broken_files_are_named(stored, tmp_path, text):
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.json"):
        stored.load_all(tmp_path)


def test_a_file_has_the_name_and_the_command_of_its_result(stored, store, tmp_path):
    text = store().read_text(encoding="utf-8")
    wrong = text.replace("benchmarks/run.py toy", "benchmarks/run.py other")
    for name, found in (("other", text), ("toy.part", wrong)):
        (tmp_path / f"{name}.json").write_text(found, encoding="utf-8")
        with pytest.raises(ValueError, match=r"toy\.part"):
            stored.load(name, tmp_path)


def test_commit_is_none_without_git_and_inside_another_repository(stored, store, monkeypatch, tmp_path):
    if shutil.which("git") is not None:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        (tmp_path / "unpacked").mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(stored, "ROOT", tmp_path / "unpacked")
            assert stored._commit() is None
    monkeypatch.setenv("PATH", "")
    assert json.loads(store().read_text(encoding="utf-8"))["commit"] is None


# ---- pages ---------------------------------------------------------------------------------------------

PAPER = {
    "name": "toy",
    "short": "Toy",
    "cite": "A. Author.",
    "tables": [
        {
            "name": "Table 1",
            "title": "losses",
            "result": "toy.part",
            "keys": ["set"],
            "better": {"loss": "lower", "F1": "higher"},
            "why": "Fewer examples.",
            "rows": [{"set": "a", "loss": 0.2, "F1": 0.661}, {"set": "b", "loss": 0.25, "F1": 0.65}],
        },
        {"name": "T", "title": "t", "missing": "no data.", "keys": ["a"], "rows": [{"a": "x", "b": 2}]},
    ],
}


def test_paper_and_own_figures_stand_side_by_side(stored, store, pages, tmp_path):
    store(rows=[{"set": "a", "loss": 0.2004, "F1": 0.65}, {"set": "c", "loss": 0.1, "F1": 0.7}], note="A note.")
    page = pages.reproductions([PAPER], stored.load_all(tmp_path))
    assert "| set | loss, paper | loss, ours | F1, paper | F1, ours | falls short by |" in page
    assert "| a | 0.20 | 0.20 | 0.661 | 0.650 | F1 0.011 |" in page  # as the paper prints it, the losses are equal
    assert "| c | – | 0.10 | – | 0.700 |  |" in page
    assert "| b | 0.25 | not run | 0.650 | not run |  |" in page
    assert "Why it falls short: Fewer examples." in page and "A note." in page
    assert "Not reproduced: no data." in page and "| x | 2 |" in page
    assert "`python benchmarks/run.py toy part --size 3`" in page and "| [Toy](#toy) | Table 1 | T |" in page


def test_rows_of_one_key_and_columns_of_one_side(pages):
    table = {"keys": ["set"], "rows": [{"set": "a", "F1": 0.5, "their s": 3}], "also": ["tuned by"]}
    ours = [{"F1": 0.41, "tuned by": "folds"}, {"F1": None, "tuned by": "one out"}]
    text, falls_short = pages.side_by_side(table | {"ours": {"set": "a"}}, {"rows": ours})
    head, _, first, second = text.splitlines()
    assert head == "| set | F1, paper | F1, ours | their s, paper | tuned by |" and not falls_short
    assert first == "| a | 0.5 | 0.4 | 3 | folds |" and second == "| a | 0.5 | – | 3 | one out |"
    text, falls_short = pages.side_by_side(table | {"better": {"F1": "higher"}, "ours": {"set": "a"}}, {"rows": ours})
    assert falls_short and text.splitlines()[2].endswith("| F1 0.1 | folds |")


def test_every_speed_benchmark_has_its_section(stored, store, pages, tmp_path):
    rows = [{"set": "a|b\nc", "passes": 3.0, "CPU s": 12.25, "ratio": 0.51}, {"set": "d"}]
    store(rows=rows, ratio="ratio")
    store("paper.part")
    (tmp_path / "toy.py").write_text('"""A toy.\n\nMeasured in ``turns``.\n"""\n', encoding="utf-8")
    page = pages.benchmarks(stored.load_all(tmp_path), tmp_path)
    assert "## toy\n\nA toy.\n\nMeasured in `turns`.\n\n### A toy" in page and "paper" not in page
    assert "| a\\|b c | 3 | 12.2 | 0.51 |" in page and "(_static/results/toy.part.svg)" in page


def test_pictures_are_the_same_whenever_they_are_drawn(stored, store, pages, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "PICTURES", tmp_path / "pictures")
    rows = [{"set": s, "k": k, "ratio": 0.5 * k} for s in "ab" for k in (1, 2, 100)] + [{"set": "c", "ratio": None}]
    store(rows=rows, ratio="ratio")
    drawn = []
    for _ in range(2):
        result = stored.load_all(tmp_path)["toy.part"]
        pages.draw_bars(result)
        pages.draw_lines(result, {"x": "k", "y": "ratio", "by": "set", "log": "xy"}, "lines")
        pages.draw_lines(result, {"x": "k", "y": "ratio", "by": ["set", "k"], "panel": "set"}, "panels")
        drawn.append({path.name: path.read_bytes() for path in (tmp_path / "pictures").iterdir()})
    assert drawn[0] == drawn[1] and set(drawn[0]) == {"toy.part.svg", "lines.svg", "panels.svg"}


def test_interrupted_drawing_keeps_the_pictures(pages, tmp_path, monkeypatch):
    (tmp_path / "old.svg").touch()
    monkeypatch.setattr(pages, "PICTURES", tmp_path)
    monkeypatch.setattr(pages, "draw_bars", lambda result: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pages.main()
    assert (tmp_path / "old.svg").exists()


def test_a_row_that_readme_cites_must_be_there_once(stored, store, pages, tmp_path):
    store(rows=[{"set": "a", "F1": 0.5}, {"set": "a", "F1": 0.6}, {"set": "b", "F1": 0.75}])
    results, asked = stored.load_all(tmp_path), tmp_path / "readme.toml"

    def table(result="toy.part", where='set = "b"', cell="{ours[F1]:.2f}", more=""):
        line = f'{{ result = "{result}", where = {{ {where} }}, {more} cells = ["{cell}"] }}'
        asked.write_text(f'[t]\nhead = ["x"]\nrows = [{line}]', encoding="utf-8")
        return pages.readme_tables([PAPER], results, asked)["t"].splitlines()[-1]

    assert table() == "| 0.75 |"
    assert table(more="beside = { F1 = 0.5 },", cell="{peer[F1]}") == "| 0.5 |"
    paper = 'paper = ["Toy", "Table 1"],'
    assert table(more=paper, cell="{paper[loss]}") == "| 0.25 |"
    wrong = [{"result": "gone"}, {"where": 'set = "a"'}, {"where": 'set = "c"'}, {"cell": "{ours[gone]}"}]
    for options in (*wrong, {"where": 'set = "b", F1 = 0.75', "more": paper}):  # the paper has another F1 there
        with pytest.raises(KeyError):
            table(**options)


# ---- this checkout -------------------------------------------------------------------------------------


def test_pages_have_the_stored_results(stored, pages):
    results = stored.load_all()
    tables = pages.made(pages.papers(), results)
    for page in pages.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "made by docs/results.py" in text and pages.insert(text, tables) == text, "run `python docs/results.py`"
    drawn = {name for name, result in results.items() if result.get("ratio") and len(result["rows"]) > 1}
    drawn |= {pages._picture(paper, one) for paper in pages.papers() for one in paper["tables"] if "picture" in one}
    assert drawn == {path.stem for path in pages.PICTURES.glob("*.svg")}, "run `python docs/results.py`"


def test_every_result_is_shown_and_says_why_it_falls_short(stored, pages):
    results = stored.load_all()
    cited = set()
    for paper in pages.papers():
        for table in paper["tables"]:
            assert ("result" in table) != ("missing" in table), (paper["short"], table["name"])
            cited.add(table.get("result"))
            if table.get("result") in results and pages.side_by_side(table, results[table["result"]])[1]:
                assert "why" in table, f"{paper['short']}, {table['name']} falls short and does not say why"
    for name in results:
        benchmark = name.partition(".")[0]
        assert name in cited or (ROOT / "benchmarks" / "speed" / f"{benchmark}.py").is_file(), name

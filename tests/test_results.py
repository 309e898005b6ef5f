"""Results that are kept, and the pages made from them."""

from __future__ import annotations

import importlib.util
import json
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
def kept():
    return _module(ROOT / "benchmarks" / "_results.py")


@pytest.fixture(scope="module")
def pages():
    return _module(ROOT / "docs" / "results.py")


@pytest.fixture
def keep(kept, tmp_path, monkeypatch):
    """Keeps a result in a folder of its own."""
    monkeypatch.setattr("sys.argv", ["toy.py", "--size", "3"])

    def write(name="toy.part", rows=({"set": "a", "ratio": 2.0},), **options):
        options = {"title": "A toy", "measures": ["structopt/errors.py"], "folder": tmp_path} | options
        return kept.keep(name, list(rows), **options)

    return write


# ---- the format ------------------------------------------------------------------------------------


def test_a_result_has_all_that_repeats_it(kept, keep, tmp_path):
    keep(rows=[{"set": "a", "n": 3, "x": 1 / 3, "gap": float("nan"), "done": True}], ratio="x", seeds=(0, 7), note="N.")
    found = kept.load("toy.part", tmp_path)
    assert found["command"] == "structopt bench toy --size 3"
    assert found["rows"] == [{"set": "a", "n": 3, "x": 0.33333, "gap": None, "done": True}]
    assert found["seeds"] == [0, 7] and found["ratio"] == "x" and found["note"] == "N." and found["cpu_seconds"] >= 0
    assert {"python"} <= found["versions"].keys() and len(found["date"]) == 10
    assert kept.load_all(tmp_path) == {"toy.part": found}


def test_the_name_of_the_machine_is_not_kept(kept, keep, tmp_path):
    import platform

    text = keep().read_text(encoding="utf-8")
    assert platform.node() == "" or platform.node() not in text
    assert str(Path.home()) not in text and str(ROOT) not in text


def test_a_quick_run_does_not_replace_a_kept_result(keep, capsys):
    path = keep()
    before = path.read_text(encoding="utf-8")
    assert keep(rows=[{"set": "b", "ratio": 1.0}], words=["--quick"]) is None
    assert path.read_text(encoding="utf-8") == before and "delete it" in capsys.readouterr().out
    assert keep(rows=[{"set": "b", "ratio": 1.0}]) == path and path.read_text(encoding="utf-8") != before


def test_where_nothing_can_be_written_the_benchmark_ends_well(keep, capsys, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert keep(folder=tmp_path / "file") is None and "not kept" in capsys.readouterr().out


def test_without_rows_nothing_is_kept(keep, tmp_path):
    assert keep(rows=[]) is None and not list(tmp_path.iterdir())


def test_a_column_to_draw_must_be_there(keep, tmp_path):
    with pytest.raises(KeyError, match="speed"):
        keep(ratio="speed")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"name": "x"}'])
def test_broken_files_are_named(kept, tmp_path, text):
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.json"):
        kept.load_all(tmp_path)


def test_a_renamed_file_is_refused(kept, keep, tmp_path):
    shutil.move(keep(), tmp_path / "other.json")
    with pytest.raises(ValueError, match=r"toy\.part"):
        kept.load("other", tmp_path)


# ---- age ---------------------------------------------------------------------------------------------


def test_a_result_is_old_when_the_code_changed_and_not_when_words_did(kept, tmp_path):
    code = tmp_path / "room" / "a.py"
    code.parent.mkdir()

    def mark(text: str) -> str:
        code.write_text(text, encoding="utf-8")
        kept._code.cache_clear()
        return kept.fingerprint(["room"], tmp_path)

    first = mark('"""Doc."""\n\ndef f(x):\n    """Say."""\n    return x + 1  # why\n')
    assert first == mark('"""Other\n\nwords."""\ndef f(x):\n    """S."""\n    # a comment\n    return x + 1\n')
    assert first != mark('"""Doc."""\n\ndef f(x):\n    """Say."""\n    return x + 2  # why\n')
    assert first != mark('"""Doc."""\n\ndef f(x):\n    return "#" + x\n')
    assert mark("s = '# no comment'\n") != mark("s = '# another'\n")
    (tmp_path / "room" / "b.py").write_text("", encoding="utf-8")
    assert mark("x = 1\n") != first


def test_measured_code_must_exist(keep):
    with pytest.raises(FileNotFoundError, match="structopt/nowhere"):
        keep(measures=["structopt/nowhere"])


def test_a_result_of_code_that_is_gone_is_old(kept, keep, tmp_path):
    keep()
    result = kept.load("toy.part", tmp_path)
    assert not kept.changed_since(result)
    assert kept.changed_since(result | {"measures": ["structopt/gone"]})
    assert kept.changed_since(result, tmp_path)


def test_old_results_are_marked_on_the_page(kept, keep, pages, tmp_path):
    path = keep()
    results = kept.load_all(tmp_path)
    text = "before <!-- age of toy.part --> after <!-- age of unknown -->"
    assert pages.mark_old(text, results) == "before  after "
    results["toy.part"]["fingerprint"] = "another"
    assert "older than the code: `structopt/errors.py`" in pages.mark_old(text, results)
    assert path.is_file()


def test_git_is_not_needed(keep, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert json.loads(keep().read_text(encoding="utf-8"))["commit"] is None


def test_the_commit_of_another_repository_is_not_taken(kept, monkeypatch, tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr(kept, "ROOT", tmp_path / "unpacked")
    assert kept._commit(["structopt"]) is None


# ---- pages -------------------------------------------------------------------------------------------


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
        {"name": "Figure 9", "title": "curves", "missing": "the data are not public."},
    ],
}


def test_paper_and_own_figures_stand_side_by_side(kept, keep, pages, tmp_path):
    keep(rows=[{"set": "a", "loss": 0.2004, "F1": 0.65}, {"set": "c", "loss": 0.1, "F1": 0.7}], note="A note.")
    page = pages.reproductions_page([PAPER], kept.load_all(tmp_path))
    assert "| set | loss, paper | loss, ours | F1, paper | F1, ours | falls short by |" in page
    assert "| a | 0.20 | 0.20 | 0.661 | 0.650 | F1 0.011 |" in page  # as the paper prints it, the losses are equal
    assert "| c | – | 0.10 | – | 0.700 |  |" in page
    assert "| b | 0.25 | not run | 0.650 | not run |  |" in page
    assert "Why it falls short: Fewer examples." in page and "A note." in page
    assert "Not reproduced: the data are not public." in page
    assert "`structopt bench toy --size 3` <!-- age of toy.part -->" in page
    assert "| [Toy](#toy) | Table 1 | Figure 9 |" in page


def test_rows_of_one_key_and_columns_of_one_side(pages):
    table = {"keys": ["set"], "rows": [{"set": "a", "F1": 0.5, "their s": 3}], "also": ["tuned by"]}
    ours = [{"set": "a", "F1": 0.41, "tuned by": "folds"}, {"set": "a", "F1": None, "tuned by": "one out"}]
    text, falls_short = pages.side_by_side(table, {"rows": ours})
    head, _, first, second = text.splitlines()
    assert head == "| set | F1, paper | F1, ours | their s, paper | tuned by |" and not falls_short
    assert first == "| a | 0.5 | 0.4 | 3 | folds |" and second == "| a | 0.5 | – | 3 | one out |"
    text, falls_short = pages.side_by_side(table | {"better": {"F1": "higher", "their s": "lower"}}, {"rows": ours})
    assert falls_short and text.splitlines()[2].endswith("| F1 0.1 | folds |")
    assert text.splitlines()[3].endswith("|  | one out |")


def test_rows_of_another_set_than_the_papers_say_which(pages):
    table = {"keys": ["set", "loss"], "rows": [{"set": "theirs", "loss": "margin", "F1": 85.3}], "also": ["our F1"]}
    text, _ = pages.side_by_side(table | {"ours": {"set": "at hand"}}, {"rows": [{"loss": "margin", "our F1": 0.19}]})
    assert text.splitlines()[2:] == ["| theirs | margin | 85.3 | – |", "| at hand | margin | – | 0.19 |"]


def test_every_benchmark_has_its_section(kept, keep, pages, tmp_path):
    rows = [{"set": "a|b\nc", "passes": 3.0, "CPU s": 12.25, "ratio": 0.51}]
    keep(rows=[*rows, {"set": "d"}], ratio="ratio")
    (tmp_path / "toy.py").write_text(
        '"""A toy.\n\n    python toy.py\n\nMeasured in ``turns``.\n"""\n', encoding="utf-8"
    )
    page = pages.benchmarks_page([PAPER], kept.load_all(tmp_path), tmp_path)
    assert "## toy\n\nA toy.\n\nMeasured in `turns`.\n\n### A toy" in page and "python toy.py" not in page
    assert "| a\\|b c | 3 | 12.2 | 0.51 |" in page and "(_static/results/toy.part.svg)" in page
    keep(rows=rows, ratio="ratio")  # one bar says nothing
    assert "(_static" not in pages.benchmarks_page([PAPER], kept.load_all(tmp_path), tmp_path)


def test_the_figures_of_what_is_not_reproduced_are_printed(pages):
    paper = PAPER | {
        "tables": [{"name": "T", "title": "t", "missing": "no data.", "keys": ["a"], "rows": [{"a": "x", "b": 2}]}]
    }
    page = pages.reproductions_page([paper], {})
    assert "Not reproduced: no data." in page and "| x | 2 |" in page


def test_what_only_reproduces_a_paper_is_no_benchmark(kept, keep, pages, tmp_path):
    keep()
    (tmp_path / "toy.py").write_text('"""A toy."""\n', encoding="utf-8")
    assert "## toy" not in pages.benchmarks_page([PAPER], kept.load_all(tmp_path), tmp_path)
    assert "## toy" in pages.benchmarks_page([], kept.load_all(tmp_path), tmp_path)


def test_pictures_are_drawn(kept, keep, pages, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "PICTURES", tmp_path / "pictures")
    rows = [{"set": s, "k": k, "ratio": 0.5 * k} for s in "ab" for k in (1, 2, 100)] + [{"set": "c", "ratio": None}]
    keep(rows=rows, ratio="ratio")
    result = kept.load_all(tmp_path)["toy.part"]
    pages.draw_bars(result)
    pages.draw_lines(result, {"x": "k", "y": "ratio", "by": "set", "log": "xy"}, "lines")
    pages.draw_lines(result, {"x": "k", "y": "ratio", "by": ["set", "k"], "panel": "set"}, "panels")
    first = (tmp_path / "pictures" / "toy.part.svg").read_text(encoding="utf-8")
    pages.draw_bars(result)
    assert first == (tmp_path / "pictures" / "toy.part.svg").read_text(
        encoding="utf-8"
    )  # the same file whenever it is drawn
    assert len(list((tmp_path / "pictures").glob("*.svg"))) == 3


# ---- what is kept in this checkout ---------------------------------------------------------------------


def test_pages_are_those_of_the_kept_results(kept, pages):
    results, papers = kept.load_all(), pages.papers()
    for name, text in (
        ("reproductions.md", pages.reproductions_page(papers, results)),
        ("benchmarks.md", pages.benchmarks_page(papers, results)),
    ):
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, "run `python docs/results.py`"
    shown = {path.stem for path in (ROOT / "docs" / "_static" / "results").glob("*.svg")}
    drawn = {name for name, result in results.items() if result.get("ratio") and len(result["rows"]) > 1}
    assert drawn <= shown, "run `python docs/results.py`"


def test_every_kept_result_has_a_benchmark_and_a_command_of_it(kept):
    for name, result in kept.load_all().items():
        benchmark = name.partition(".")[0]
        assert (ROOT / "benchmarks" / f"{benchmark}.py").is_file()
        assert result["command"].startswith(f"structopt bench {benchmark}")


def test_a_figure_that_falls_short_says_why(kept, pages):
    results = kept.load_all()
    for paper in pages.papers():
        for table in paper["tables"]:
            assert ("result" in table) != ("missing" in table), (paper["short"], table["name"])
            if table.get("result") in results and pages.side_by_side(table, results[table["result"]])[1]:
                assert "why" in table, f"{paper['short']}, {table['name']} falls short and does not say why"


# ---- README --------------------------------------------------------------------------------------------


def test_the_figures_of_readme_are_the_kept_ones(kept, pages):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = pages.readme_tables(pages.papers(), kept.load_all())
    assert set(tables) == {"peers", "papers", "surrogates"}
    assert pages.insert(text, tables) == text, "run `python docs/results.py`"
    assert "(docs/benchmarks.md)" in text and "(docs/reproductions.md)" in text


def test_the_tables_of_scaling_out_are_the_kept_ones(kept, pages):
    text = (ROOT / "docs" / "howto" / "scale.md").read_text(encoding="utf-8")
    tables = pages.scale_tables(kept.load_all())
    assert tables
    assert pages.insert(text, tables) == text, "run python docs/results.py"


def test_a_row_that_readme_cites_must_be_there_once(kept, keep, pages, tmp_path):
    keep(rows=[{"set": "a", "F1": 0.5}, {"set": "a", "F1": 0.6}, {"set": "b", "F1": 0.75}])
    results = kept.load_all(tmp_path)
    asked = tmp_path / "readme.toml"

    def table(result="toy.part", where='set = "b"', cell="{ours[F1]:.2f}"):
        asked.write_text(
            f'[t]\nhead = ["x"]\nrows = [{{ result = "{result}", where = {{ {where} }}, cells = ["{cell}"] }}]',
            encoding="utf-8",
        )
        return pages.readme_tables([PAPER], results, asked)["t"]

    assert table().splitlines()[-1] == "| 0.75 |"
    for wrong in ({"result": "gone"}, {"where": 'set = "a"'}, {"where": 'set = "c"'}, {"cell": "{ours[gone]}"}):
        with pytest.raises(KeyError):
            table(**wrong)
    asked.write_text(
        '[t]\nhead = ["x"]\nrows = [{ result = "toy.part", where = { set = "b" }, beside = { F1 = 0.5 }, '
        'cells = ["{ours[F1]:.2f} {peer[F1]:.1f}"] }]',
        encoding="utf-8",
    )
    assert pages.readme_tables([PAPER], results, asked)["t"].splitlines()[-1] == "| 0.75 0.5 |"
    asked.write_text(
        '[t]\nhead = ["x"]\nrows = [{ result = "toy.part", where = { set = "b", F1 = 0.75 }, '
        'paper = ["Toy", "Table 1"], cells = ["{paper[loss]}"] }]',
        encoding="utf-8",
    )
    with pytest.raises(KeyError):  # the paper has another F1 there
        pages.readme_tables([PAPER], results, asked)
    with pytest.raises(ValueError, match="no place"):
        pages.insert("text", {"t": "| x |"})


def test_a_table_of_readme_with_a_result_in_each_column(kept, keep, pages, tmp_path):
    rows = [{"psi": "a", "search": "hull", "times": 1.25, "ms": 5.0}, {"psi": "a", "search": "exact", "times": 2.0}]
    keep("toy.one", rows)
    keep("toy.two", rows[:1])
    results = kept.load_all(tmp_path)
    asked = tmp_path / "readme.toml"

    def table(columns='["toy.one", "toy.two"]', line="a"):
        asked.write_text(
            f'[t]\nhead = ["x", "one", "two"]\ncolumns = {columns}\nby = "psi"\nfigure = "times"\n'
            f'lines = [["ψ", "{line}"]]\nof = ["margin, ms", "ms"]',
            encoding="utf-8",
        )
        return pages.readme_tables([], results, asked)["t"].splitlines()[2:]

    assert table() == ["| ψ | 1.2 / 2.0 | 1.2 |", "| margin, ms | 4.00 | 4.00 |"]
    for wrong in ({"columns": '["toy.one", "gone"]'}, {"line": "b"}):
        with pytest.raises(KeyError, match="README cites"):
            table(**wrong)

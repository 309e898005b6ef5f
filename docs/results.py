"""Makes ``reproductions.md``, ``benchmarks.md``, their pictures, and tables of other pages from the kept results.

``python docs/results.py`` writes them anew; so does every build of the documentation. The figures are those in
``benchmarks/results`` (see ``benchmarks/README.md``), the papers' own those in ``benchmarks/papers``, one file a paper.
A page is the same whenever it is made from the same files; that a result is older than the code it measures is added
when the site is built (`mark_old`).
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "benchmarks_page",
    "main",
    "mark_old",
    "papers",
    "readme_tables",
    "reproductions_page",
    "scale_tables",
    "side_by_side",
]

HERE = Path(__file__).resolve().parent
BENCHMARKS = HERE.parent / "benchmarks"
PICTURES = HERE / "_static" / "results"

Row = Mapping[str, Any]


def _kept() -> Any:
    """The module that keeps results, which is beside the benchmarks and in no package."""
    spec = importlib.util.spec_from_file_location("benchmarks_results", BENCHMARKS / "_results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KEPT = _kept()

# ---- text of cells and tables ------------------------------------------------------------------------


def _number(value: Any, decimals: int | None = None) -> str:
    """A cell: text as it is, numbers with three digits or as many decimals as is said."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return " ".join(value.replace("|", "\\|").split())
    if decimals is not None and (value == 0 or abs(value) >= 0.5 * 10**-decimals):  # what is not 0 is not shown as 0
        return f"{value:,.{decimals}f}"
    if isinstance(value, int):
        return f"{value:,}"
    if not 1 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _decimals(values: Iterable[Any]) -> int | None:
    """How many decimals a column of a paper has; None if it is no column of numbers."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    texts = [repr(value).partition(".")[2] for value in numbers]
    return max((len(text) if "e" not in text else 4 for text in texts if text != "0"), default=0) if numbers else None


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("--:" if flag else "---" for flag in right) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _cells(rows: Sequence[Row], name: str) -> list[str]:
    """A column of ours; counts have no decimals."""
    values = [row.get(name) for row in rows]
    numbers = [value for value in values if isinstance(value, float)]
    whole = all(value == round(value) for value in numbers) and any(abs(value) >= 1 for value in numbers)
    return [_number(int(value) if whole and isinstance(value, float) else value) for value in values]


def _is_number(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _plain_table(rows: Sequence[Row]) -> str:
    """The rows of a result as they are."""
    columns = _columns(rows)
    right = [_is_number(rows, column) for column in columns]
    return _table(columns, zip(*(_cells(rows, column) for column in columns), strict=True), right)


def _provenance(result: Row) -> str:
    """The command, and where and when it ran; a comment marks the place of the sentence on a result's age."""
    versions = ", ".join(
        f"{name} {version}" for name, version in result["versions"].items() if name != "structopt-learn"
    )
    seeds = result["seeds"]
    told = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 2 else f"seed {' and '.join(map(str, seeds))}"
    commit = f"commit `{result['commit']}`, " if result["commit"] else ""
    # A result without seconds of its own is of the same run as another.
    used = f"{_number(float(result['cpu_seconds']))} CPU seconds, " if result["cpu_seconds"] else ""
    return (
        f"`{result['command']}` <!-- age of {result['name']} -->  \n{commit}{result['date']}, "
        f"{used}{told}; {result['machine']}; {versions}."
    )


def mark_old(text: str, results: Mapping[str, Row]) -> str:
    """The page with a sentence at each result whose measured code has changed since."""

    def sentence(match: re.Match[str]) -> str:
        result = results.get(match[1])
        if result is None or not KEPT.changed_since(result):
            return ""
        return f"**(older than the code: {', '.join(f'`{path}`' for path in result['measures'])} changed since)**"

    return re.sub(r"<!-- age of ([\w.-]+) -->", sentence, text)


# ---- pictures ------------------------------------------------------------------------------------------


def _figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "structopt", "font.size": 9})
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    path.write_text(re.sub(r"[ \t]+$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")


#: Columns of text that say how a row was found and not what it is about.
_NO_NAMES = ("proofs", "peer", "beside")


def draw_bars(result: Row) -> None:
    """The ratios of a result as bars, with a line at 1."""
    column, rows = result["ratio"], [row for row in result["rows"] if row.get(result["ratio"]) is not None]
    words = [name for name in _columns(rows) if not _is_number(rows, name) and name not in _NO_NAMES]
    labels = [", ".join(str(row[name]) for name in words if row.get(name) not in (None, "")) for row in rows]
    values = [float(row[column]) for row in rows]
    figure = _figure(7.5, 0.7 + 0.23 * len(rows))
    axes = figure.subplots()
    slow = "faster" in column  # bars of the other colour: the peer is faster
    axes.barh(range(len(rows)), values, 0.7, color=["#c98a3b" if slow and value < 1 else "#459db9" for value in values])
    if max(values) > 20 * min(values) or max(values) > 50:
        axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=0.8)
    for k, value in enumerate(values):
        axes.annotate(_number(value), (value, k), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.12, y=0.01)
    axes.set_xlabel(column)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, result["name"])


def draw_lines(result: Row, how: Row, name: str) -> None:
    """A figure of a paper from the rows of a result: ``x`` against ``y``, a line for each ``by`` in each ``panel``."""
    rows = [row for row in result["rows"] if row.get(how["x"]) is not None and row.get(how["y"]) is not None]
    panels = _grouped(rows, how.get("panel", []))
    across = 2 if len(panels) == 4 else min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    figure = _figure(max(6.0, 3.6 * across), 3.4 * down)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    spare = grid[len(panels) :]
    lines = {tuple(_grouped(shown, how.get("by", []))) for shown in panels.values()}
    apart = len(spare) > 0 and len(lines) == 1  # one legend, where it hides no line
    for axes, (panel, shown) in zip(grid, panels.items(), strict=False):
        for line, own in _grouped(shown, how.get("by", [])).items():
            x, y = ([row[how[axis]] for row in own] for axis in "xy")
            axes.plot(x, y, how.get("style", "o-"), ms=3, label=line)
        for axis in how.get("log", ""):
            getattr(axes, f"set_{axis}scale")("log")
        axes.set_xlabel(how["x"])
        axes.set_ylabel(how["y"])
        axes.set_title(panel, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
        if "by" in how and not apart:
            axes.legend(fontsize=7, frameon=False, title=how["by"] if isinstance(how["by"], str) else None)
    for axes in spare:
        axes.set_axis_off()
    if "by" in how and apart:
        spare[0].legend(
            *grid[0].get_legend_handles_labels(),
            loc="center left",
            frameon=False,
            title=how["by"] if isinstance(how["by"], str) else None,
        )
    _save(figure, name)


def _grouped(rows: Sequence[Row], names: str | Sequence[str]) -> dict[str, list[Row]]:
    """Rows by the values of one column or of several."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        words = [_number(row.get(name)) for name in ([names] if isinstance(names, str) else names)]
        found.setdefault(", ".join(words), []).append(row)
    return found


# ---- Reproductions -------------------------------------------------------------------------------------

_REPRODUCTIONS = """\
# Reproductions

The tables and figures of five papers that report an experiment, beside what this package measures; those that are not
reproduced are listed, too. A figure that falls short of its paper's says by how much, and the text below says why.
The papers' numbers are in `benchmarks/papers`, ours in `benchmarks/results`, each with the command that repeats it;
this page is made from those files. The commands need a checkout, and most of them public data sets, as files in one
folder that the environment variable `STRUCTOPT_DATA` names. A set that is *not at hand* was not available to us.

Methods have the names of their papers: HSVM is the hierarchical SVM of Cai and Hofmann, NHSVM the normalised one,
SSVM the one that learns which nodes share weights, ECRM conditional risk minimisation, HM3N margin rescaling over
sets of nodes that hold their parents, BR-SVM an SVM for each node; BMRM is the bundle method (Algorithm 2), LSBMRM
that with a line search (Algorithm 3), BT the trust-region bundle method; *cutting planes* have a working set for each
example, SGD takes stochastic subgradient steps, BCFW block-coordinate Frank-Wolfe steps. MiF1 is the F1 of all
decisions together, MaF1 the mean F1 of the examples, *label loss* the share of wrong decisions, *accuracy* of sets of
labels the mean overlap with the right set and of a hierarchy the share of examples without an error, unless a table
says otherwise; *gap* is the certified relative gap at which training ended, lam or λ the weight of the regulariser
and C = 1 / (lam n).
"""


def papers(folder: Path = BENCHMARKS / "papers") -> list[dict[str, Any]]:
    """The papers' own figures: a file a paper, in the order of their ``order``."""
    found = [{"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))} for path in folder.glob("*.toml")]
    return sorted(found, key=lambda paper: paper["order"])


def side_by_side(table: Row, result: Row) -> tuple[str, bool]:
    """The paper's rows and ours with the same keys in one table, and whether some figure of ours falls short."""
    # What our rows do not say themselves, such as the set where it is another than the paper's.
    ours: list[Row] = [table.get("ours", {}) | row for row in result["rows"]]
    keys, theirs = table["keys"], table.get("rows", [])
    better, also = table.get("better", {}), table.get("also", [])
    pairs: dict[tuple[Any, ...], list[tuple[Row, Row]]] = {}
    for row in theirs:
        pairs[tuple(row.get(key) for key in keys)] = []
    for row in ours:  # several of ours may stand beside one of the paper's
        pairs.setdefault(tuple(row.get(key) for key in keys), []).append(({}, row))
    for row in theirs:
        key = tuple(row.get(key) for key in keys)
        pairs[key] = [(row, own) for _, own in pairs[key]] or [(row, {})]
    columns = [name for name in _columns(theirs) if name not in keys]
    places = {name: _decimals(row.get(name) for row in theirs) for name in columns}
    head, right = list(keys), [False] * len(keys)
    for name in columns:
        who = ("paper", "ours") if any(name in row for row in ours) else ("paper",)
        head += [f"{name}, {one}" for one in who]
        right += [_is_number(theirs, name)] * len(who)
    head += [*(["falls short by"] if better else []), *also]
    right += [*([False] if better else []), *(_is_number(ours, name) for name in also)]
    lines, falls_short = [], False
    for key, beside in pairs.items():
        for paper, own in beside:
            cells, short = [_number(value) for value in key], []
            for name in columns:
                a, b, decimals = paper.get(name), own.get(name), places[name]
                cells.append(_number(a, decimals))
                if f"{name}, ours" in head:
                    cells.append(_number(b, decimals) if own else "not run")
                if name in better and (gap := _short_by(a, b, better[name], decimals)):
                    short.append(f"{name} {gap}")
            lines.append([*cells, *([", ".join(short)] if better else []), *(_number(own.get(name)) for name in also)])
            falls_short |= bool(short)
    return _table(head, lines, right), falls_short


def _short_by(paper: Any, own: Any, better: str, decimals: int | None) -> str:
    """By how much our figure is worse, or nothing; a difference in digits that the paper does not print is none."""
    if not (isinstance(paper, int | float) and isinstance(own, int | float)) or decimals is None:
        return ""
    gap = (round(paper, decimals) - round(own, decimals)) * (1 if better == "higher" else -1)
    return f"{gap:.{decimals}f}" if gap > 0.5 * 10**-decimals else ""


def reproductions_page(found: Sequence[Row], results: Mapping[str, Row]) -> str:
    """The page, without its pictures."""
    parts = [_REPRODUCTIONS, _coverage(found, results)]
    for paper in found:
        parts.append(f"## {paper['short']}\n\n{paper['cite']}")
        for table in paper["tables"]:
            parts.append(f"### {table['name']}: {table['title']}")
            parts += [table["about"]] if "about" in table else []
            result = results.get(table.get("result", ""))
            if result is None:
                parts.append(f"Not reproduced: {table.get('missing', 'the result is not kept yet.')}")
                if table.get("rows"):
                    parts += ["The paper's figures:", _plain_table(table["rows"])]
                continue
            text, falls_short = side_by_side(table, result)
            if table.get("rows"):
                parts.append(text)
            elif table.get("show"):  # rows of ours alone
                parts.append(_plain_table(result["rows"]))
            if falls_short and "why" in table:
                parts.append(f"Why it falls short: {table['why']}")
            elif "why" in table:
                parts.append(table["why"])
            parts += [result["note"]] if result.get("note") else []
            if "picture" in table:
                parts.append(f"![{table['title']}](_static/results/{_picture(paper, table)}.svg)")
            parts.append(_provenance(result))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _picture(paper: Row, table: Row) -> str:
    return re.sub(r"\W+", "-", f"{paper['name']} {table['name']}".lower())


def _coverage(found: Sequence[Row], results: Mapping[str, Row]) -> str:
    rows = []
    for paper in found:
        shown = [table["name"] for table in paper["tables"] if table.get("result") in results]
        not_shown = [table["name"] for table in paper["tables"] if table.get("result") not in results]
        anchor = re.sub(r"[^\w\- ]", "", paper["short"].lower()).replace(" ", "-")
        rows.append([f"[{paper['short']}](#{anchor})", "; ".join(shown) or "–", "; ".join(not_shown) or "–"])
    return _table(["paper", "side by side", "not reproduced"], rows, [False] * 3)


# ---- Benchmarks ------------------------------------------------------------------------------------------

_BENCHMARKS = """\
# Benchmarks

This package beside its peers, structure by structure. Ratios are measured in one run on one machine, except those to
peers that no longer install (`train`), the two sides in turns where the time of a call is short, in CPU seconds of
the process unless a table says otherwise; compilation is not counted. `structopt bench` lists the benchmarks of a
checkout and runs them by name; what a run prints is kept in `benchmarks/results`, from which this page is made. Most
of them need public data sets, as files in one folder that the environment variable `STRUCTOPT_DATA` names.
"""

#: Benchmarks by which a reader decides come first.
_FIRST = ("peers", "train", "structures", "declared", "surrogates", "risks", "lazy", "neural", "hierarchy", "search")


def benchmarks_page(found: Sequence[Row], results: Mapping[str, Row], folder: Path = BENCHMARKS) -> str:
    """The page, without its pictures: a section a benchmark, a table a result.

    What stands beside a paper's figures is on the other page, unless it has a peer's, too.
    """
    parts = [_BENCHMARKS]
    by_file: dict[str, list[Row]] = {}
    reproduced = {table.get("result") for paper in found for table in paper["tables"]}
    first = {name: k for k, name in enumerate(_FIRST)}
    for name in sorted(results, key=lambda name: (first.get(name.partition(".")[0], len(first)), name)):
        result = results[name]
        if name in reproduced and not result.get("ratio"):
            continue
        by_file.setdefault(name.partition(".")[0], []).append(result)
    parts.append(
        _table(
            ["benchmark", "what it measures", "CPU seconds of what is kept"],
            [
                [
                    f"[{name}](#{name})",
                    _said(folder / f"{name}.py")[0],
                    _number(sum(float(r["cpu_seconds"]) for r in own)),
                ]
                for name, own in by_file.items()
            ],
            [False, False, True],
        )
    )
    total = sum(float(result["cpu_seconds"]) for result in results.values())
    parts.append(
        f"The {len(results)} kept results, those of *Reproductions* included, took {total / 60:.0f} CPU minutes in "
        "all. `make bench` repeats them, each with its own command and the sub-samples that it names, "
        "`make bench JOBS=2` two of them at a time; `make bench-all` runs every file with its default arguments, which "
        "for some are fewer parts or smaller samples."
    )
    for name, own in by_file.items():
        line, rest = _said(folder / f"{name}.py")
        parts += [f"## {name}", line, *([rest] if rest else [])]
        for result in own:
            rows = result["rows"]
            parts += [f"### {result['title']}", _plain_table(rows)]
            if result.get("ratio") and len(rows) > 1:
                parts.append(f"![{result['title']}: {result['ratio']}](_static/results/{result['name']}.svg)")
            parts += [result["note"]] if result.get("note") else []
            parts.append(_provenance(result))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _said(path: Path) -> tuple[str, str]:
    """The first line of a benchmark's docstring, and how it measures: the paragraphs without its synopsis."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first, *rest = re.split(r"\n\s*\n", doc.replace("``", "`"))
    kept = [part for part in rest if not part.startswith("    ")]
    return " ".join(first.split()), "\n\n".join(kept)


# ---- other pages -----------------------------------------------------------------------------------------

_ON_SCALING_OUT = tuple(f"scaling_out.{name}" for name in ("ocr", "speed", "lshtc", "constants", "predicted"))


def readme_tables(
    found: Sequence[Row], results: Mapping[str, Row], path: Path = BENCHMARKS / "readme.toml"
) -> dict[str, str]:
    """The tables of README: in a cell ``{ours[MiF1]}`` is a figure of a kept row, ``{paper[MiF1]}`` the paper's.

    ``{peer[MiF1]}`` is that of another row of the same result, which the line names as ``beside``. A table with
    ``columns`` has a result in each column.
    """
    told = {}
    for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if "columns" in table:
            told[name] = _by_result(table, results)
            continue
        rows = []
        for line in table["rows"]:
            if line["result"] not in results:
                raise KeyError(f"README cites the result {line['result']!r}, which is not kept.")
            kept = results[line["result"]]["rows"]
            figures = {"ours": _one_row(kept, line["where"], line["result"])}
            if "beside" in line:
                figures["peer"] = _one_row(kept, line["beside"], line["result"])
            if "paper" in line:
                short, printed = line["paper"]
                own = next(paper["tables"] for paper in found if paper["short"] == short)
                theirs = next(one["rows"] for one in own if one["name"] == printed)
                keys = {key: value for key, value in line["where"].items() if any(key in row for row in theirs)}
                figures["paper"] = _one_row(theirs, keys, f"{short}, {printed}")
            rows.append([cell.format(**figures) for cell in line["cells"]])
        told[name] = _table(table["head"], rows, [False] * len(table["head"]))
    return told


def _by_result(table: Row, results: Mapping[str, Row]) -> str:
    """A column for each of several results that have the same rows, their figure in order behind one another.

    The last line has what the figures are ratios to, from the column named ``of``.
    """
    figure, by, kept = table["figure"], table["by"], []
    for name in table["columns"]:
        if name not in results:
            raise KeyError(f"README cites the result {name!r}, which is not kept.")
        kept.append(results[name]["rows"])
    lines = []
    for label, value in table["lines"]:
        own = [[row for row in rows if row[by] == value] for rows in kept]
        if not all(own):
            raise KeyError(f"README cites {by} {value} of {table['columns']}, of which some have no such row.")
        lines.append([label, *(" / ".join(f"{row[figure]:.1f}" for row in rows) for rows in own)])
    label, of = table["of"]
    lines.append([label, *(_number(rows[0][of] / rows[0][figure]) for rows in kept)])
    return _table(table["head"], lines, [False] * len(table["head"]))


def _one_row(rows: Sequence[Row], where: Row, of: str) -> Row:
    chosen = [row for row in rows if all(row.get(key) == value for key, value in where.items())]
    if len(chosen) != 1:
        raise KeyError(f"README cites {dict(where)} of {of!r}, which has {len(chosen)} such rows.")
    return chosen[0]


def scale_tables(results: Mapping[str, Row]) -> dict[str, str]:
    """The tables of *Scaling out*: kept results as they are, by name.

    Parameters
    ----------
    results : mapping
        By name.

    Returns
    -------
    dict
    """
    return {name: _plain_table(result["rows"]) for name, result in results.items() if name in _ON_SCALING_OUT}


def insert(text: str, tables: Mapping[str, str]) -> str:
    """A text with each table between its two comments."""
    for name, table in tables.items():
        begin, end = f"<!-- {name}: made by docs/results.py -->\n", f"\n<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"The text has no place for the table {name!r}: {begin.strip()} … {end.strip()}.")
        text = before + begin + "\n" + table + "\n" + end + after
    return text


def main() -> None:
    """Write pages, pictures and README's tables."""
    results, found = KEPT.load_all(), papers()
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for result in results.values():
        if result.get("ratio") and len(result["rows"]) > 1:
            draw_bars(result)
    for paper in found:
        for table in paper["tables"]:
            if "picture" in table and table.get("result") in results:
                draw_lines(results[table["result"]], table["picture"], _picture(paper, table))
    (HERE / "reproductions.md").write_text(reproductions_page(found, results), encoding="utf-8")
    (HERE / "benchmarks.md").write_text(benchmarks_page(found, results), encoding="utf-8")
    page = HERE / "howto" / "scale.md"
    page.write_text(insert(page.read_text(encoding="utf-8"), scale_tables(results)), encoding="utf-8")
    readme = HERE.parent / "README.md"
    if readme.is_file() and (BENCHMARKS / "readme.toml").is_file():
        readme.write_text(insert(readme.read_text(encoding="utf-8"), readme_tables(found, results)), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes the tables, sections and pictures of stored results into the pages that have a place for them.

``python docs/results.py`` writes them again, as does every build of the documentation. Our figures are in
``benchmarks/results`` (see ``benchmarks/README.md``), those of the papers in ``benchmarks/papers``, one file per paper.
A place is between the comments ``<!-- NAME: made by docs/results.py -->`` and ``<!-- end of NAME -->``.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BENCHMARKS = HERE.parent / "benchmarks"
PICTURES = HERE / "_static" / "results"
#: Pages that have places for tables.
PAGES = (HERE.parent / "README.md", *(HERE / name for name in ("reproductions.md", "benchmarks.md", "howto/scale.md")))

sys.path.append(str(BENCHMARKS))
from _results import load_all  # noqa: E402

__all__ = ["PAGES", "benchmarks", "insert", "main", "papers", "readme_tables", "reproductions", "side_by_side"]

Row = Mapping[str, Any]

# ---- text of cells and tables ------------------------------------------------------------------------


def _number(value: Any, decimals: int | None = None) -> str:
    """Return a cell: text as it is, numbers with three digits or this many decimals."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return " ".join(value.replace("|", "\\|").split())
    if decimals is not None and (value == 0 or abs(value) >= 0.5 * 10**-decimals):  # only 0 is shown as 0
        return f"{value:,.{decimals}f}"
    if isinstance(value, int):
        return f"{value:,}"
    if not 1 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _decimals(values: Iterable[Any]) -> int | None:
    """Return how many decimals a column of a paper has; None for a column without numbers."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    texts = [repr(value).partition(".")[2] for value in numbers]
    return max((len(text) if "e" not in text else 4 for text in texts if text != "0"), default=0) if numbers else None


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; columns of numbers are on the right."""
    lines = [list(row) for row in rows]
    marks = []
    for k in range(len(head)):
        told = [line[k] for line in lines if line[k] not in ("", "–", "not run")]
        marks.append("--:" if told and all(re.fullmatch(r"-?[\d.,/ ]+(e[-+]\d+)?", cell) for cell in told) else "---")
    first, *others = ("| " + " | ".join(line) + " |" for line in (head, *lines))
    return "\n".join([first, f"|{'|'.join(marks)}|", *others])


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _cells(rows: Sequence[Row], name: str) -> list[str]:
    """Return a column of ours; counts have no decimals."""
    values = [row.get(name) for row in rows]
    numbers = [value for value in values if isinstance(value, float)]
    whole = all(value == round(value) for value in numbers) and any(abs(value) >= 1 for value in numbers)
    return [_number(int(value) if whole and isinstance(value, float) else value) for value in values]


def _plain_table(rows: Sequence[Row]) -> str:
    """Return the rows of a result as they are."""
    columns = _columns(rows)
    return _table(columns, zip(*(_cells(rows, column) for column in columns), strict=True))


def _provenance(result: Row) -> str:
    """Return the command, its commit, when and where it ran."""
    versions, seeds = ", ".join(f"{name} {version}" for name, version in result["versions"].items()), result["seeds"]
    told = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 2 else f"seed {' and '.join(map(str, seeds))}"
    commit = f"commit `{result['commit']}`, " if result["commit"] else ""
    # A result without seconds of its own is of the same run as another.
    used = f"{_number(float(result['cpu_seconds']))} CPU seconds, " if result["cpu_seconds"] else ""
    return f"`{result['command']}`  \n{commit}{result['date']}, {used}{told}; {result['machine']}; {versions}."


# ---- pictures ------------------------------------------------------------------------------------------


def _figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "structopt", "font.size": 9})
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, name: str) -> Path:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    path.write_text(re.sub(r"[ \t]+$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")
    return path


#: Columns of text that say how a row was found and not what it is about.
_NO_NAMES = ("proofs", "peer", "beside")


def draw_bars(result: Row) -> Path:
    """Draw the ratios of a result as bars, with a line at 1."""
    column, rows = result["ratio"], [row for row in result["rows"] if row.get(result["ratio"]) is not None]
    texts = [name for name in _columns(rows) if any(isinstance(row.get(name), str) for row in rows)]
    words = [name for name in texts if name not in _NO_NAMES]
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
    return _save(figure, result["name"])


def draw_lines(result: Row, how: Row, name: str) -> Path:
    """Draw a figure of a paper from the rows of a result: ``x`` against ``y``, a line per ``by`` in each ``panel``."""
    rows = [row for row in result["rows"] if row.get(how["x"]) is not None and row.get(how["y"]) is not None]
    panels, lines = _grouped(rows, how.get("panel", [])), list(_grouped(rows, how.get("by", [])))
    across = 2 if len(panels) == 4 else min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    figure = _figure(max(6.0, 3.6 * across), 3.4 * down)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    drawn = {}
    for axes, (panel, shown) in zip(grid, panels.items(), strict=False):
        for line, own in _grouped(shown, how.get("by", [])).items():
            x, y = ([row[how[axis]] for row in own] for axis in "xy")
            drawn[line] = axes.plot(x, y, how.get("style", "o-"), ms=3, color=f"C{lines.index(line)}")[0]
        for axis in how.get("log", ""):
            getattr(axes, f"set_{axis}scale")("log")
        axes.set(xlabel=how["x"], ylabel=how["y"])
        axes.set_title(panel, fontsize=9)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    if "by" in how:
        title = how["by"] if isinstance(how["by"], str) else None
        figure.legend([drawn[line] for line in lines], lines, loc="outside right upper", frameon=False, title=title)
    return _save(figure, name)


def _grouped(rows: Sequence[Row], names: str | Sequence[str]) -> dict[str, list[Row]]:
    """Return rows by the values of one column or of several."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        words = [_number(row.get(name)) for name in ([names] if isinstance(names, str) else names)]
        found.setdefault(", ".join(words), []).append(row)
    return found


# ---- Reproductions -------------------------------------------------------------------------------------


def papers() -> list[dict[str, Any]]:
    """Return the papers' own figures: a file per paper, in the order of their ``order``."""
    files = (BENCHMARKS / "papers").glob("*.toml")
    found = [{"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))} for path in files]
    return sorted(found, key=lambda paper: paper["order"])


def side_by_side(table: Row, result: Row) -> tuple[str, bool]:
    """Return the paper's rows and ours with the same keys in one table, and whether some figure of ours falls short."""
    # Columns that our rows lack, such as the set if it is another than the paper's.
    ours: list[Row] = [table.get("ours", {}) | row for row in result["rows"]]
    keys, theirs = table["keys"], table.get("rows", [])
    better, also = table.get("better", {}), table.get("also", [])

    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(row.get(key) for key in keys)

    columns = [name for name in _columns(theirs) if name not in keys]
    places = {name: _decimals(row.get(name) for row in theirs) for name in columns}
    head = list(keys)
    for name in columns:
        who = ("paper", "ours") if any(name in row for row in ours) else ("paper",)
        head += [f"{name}, {one}" for one in who]
    head += [*(["falls short by"] if better else []), *also]
    printed = {key_of(row): row for row in theirs}
    lines, falls_short = [], False
    for key in dict.fromkeys([*printed, *map(key_of, ours)]):
        paper = printed.get(key, {})
        for own in [row for row in ours if key_of(row) == key] or [{}]:  # several of ours may match one of the paper's
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
    return _table(head, lines), falls_short


def _short_by(paper: Any, own: Any, better: str, decimals: int | None) -> str:
    """Return by how much our figure is worse in the digits that the paper prints, or nothing."""
    if not (isinstance(paper, int | float) and isinstance(own, int | float)) or decimals is None:
        return ""
    gap = (round(paper, decimals) - round(own, decimals)) * (1 if better == "higher" else -1)
    return f"{gap:.{decimals}f}" if gap > 0.5 * 10**-decimals else ""


def reproductions(found: Sequence[Row], results: Mapping[str, Row]) -> str:
    """Return the sections of the papers, without the pictures."""
    coverage, parts = [], []
    for paper in found:
        parts.append(f"## {paper['short']}\n\n{paper['cite']}")
        done: dict[bool, list[str]] = {True: [], False: []}
        for table in paper["tables"]:
            result = results.get(table.get("result", ""))
            done[result is not None].append(table["name"])
            parts += [f"### {table['name']}: {table['title']}", table.get("about", "")]
            if result is None:
                parts.append(f"Not reproduced: {table.get('missing', 'the result is not stored yet.')}")
                parts += ["The paper's figures:", _plain_table(table["rows"])] if table.get("rows") else []
                continue
            text, falls_short = side_by_side(table, result)
            parts.append(text if table.get("rows") else _plain_table(result["rows"]) if table.get("show") else "")
            if "why" in table:
                parts.append(f"{'Why it falls short: ' if falls_short else ''}{table['why']}")
            parts.append(result.get("note", ""))
            if "picture" in table:
                parts.append(f"![{table['title']}](_static/results/{_picture(paper, table)}.svg)")
            parts.append(_provenance(result))
        anchor = re.sub(r"[^\w\- ]", "", paper["short"].lower()).replace(" ", "-")
        coverage.append([f"[{paper['short']}](#{anchor})", *("; ".join(done[flag]) or "–" for flag in (True, False))])
    return _joined([_table(["paper", "side by side", "not reproduced"], coverage), *parts])


def _picture(paper: Row, table: Row) -> str:
    return re.sub(r"\W+", "-", f"{paper['name']} {table['name']}".lower())


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part)


# ---- Benchmarks ------------------------------------------------------------------------------------------

#: Benchmarks by which a reader decides come first.
_FIRST = ("peers", "train", "structures", "declared", "surrogates", "risks", "lazy", "neural")


def benchmarks(results: Mapping[str, Row], folder: Path = BENCHMARKS / "speed") -> str:
    """Return a section per benchmark of a folder with a table per result, without the pictures."""
    by_file: dict[str, list[Row]] = {}
    first = {name: k for k, name in enumerate(_FIRST)}
    for name in sorted(results, key=lambda name: (first.get(name.partition(".")[0], len(first)), name)):
        if (folder / f"{name.partition('.')[0]}.py").is_file():
            by_file.setdefault(name.partition(".")[0], []).append(results[name])
    head, sections = [], []
    for name, own in by_file.items():
        line, rest = _said(folder / f"{name}.py")
        head.append([f"[{name}](#{name})", line, _number(sum(float(result["cpu_seconds"]) for result in own))])
        sections += [f"## {name}", line, rest]
        for result in own:
            sections += [f"### {result['title']}", _plain_table(result["rows"])]
            if result.get("ratio") and len(result["rows"]) > 1:
                sections.append(f"![{result['title']}: {result['ratio']}](_static/results/{result['name']}.svg)")
            sections += [result.get("note", ""), _provenance(result)]
    total = sum(float(result["cpu_seconds"]) for result in results.values()) / 60
    told = (
        f"The {len(results)} stored results, those of *Reproductions* included, took {total:.0f} CPU minutes in all. "
        "`make bench` repeats them, each with its own command and the sub-samples that it names."
    )
    table = _table(["benchmark", "what it measures", "CPU seconds of its results"], head)
    return _joined([table, told, *sections])


def _said(path: Path) -> tuple[str, str]:
    """Return the first line of a benchmark's docstring, and its other paragraphs."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first, *rest = re.split(r"\n\s*\n", doc.replace("``", "`"))
    return " ".join(first.split()), "\n\n".join(rest)


# ---- other pages -----------------------------------------------------------------------------------------


def readme_tables(
    found: Sequence[Row], results: Mapping[str, Row], path: Path = BENCHMARKS / "readme.toml"
) -> dict[str, str]:
    """Return the tables of README: in a cell ``{ours[MiF1]}`` is a figure of a stored row.

    ``{paper[MiF1]}`` is the paper's figure, ``{peer[MiF1]}`` that of another row of the same result, which the line
    names as ``beside``. A table with ``columns`` has a result in each column.
    """

    def cited(name: str) -> Sequence[Row]:
        if name not in results:
            raise KeyError(f"README cites the result {name!r}, which is not stored.")
        return results[name]["rows"]  # type: ignore[no-any-return]

    def cells(line: Row) -> list[str]:
        rows = cited(line["result"])
        figures = {"ours": _one_row(rows, line["where"], line["result"])}
        if "beside" in line:
            figures["peer"] = _one_row(rows, line["beside"], line["result"])
        if "paper" in line:
            short, printed = line["paper"]
            own = next(paper["tables"] for paper in found if paper["short"] == short)
            theirs = next(one["rows"] for one in own if one["name"] == printed)
            keys = {key: value for key, value in line["where"].items() if any(key in row for row in theirs)}
            figures["paper"] = _one_row(theirs, keys, f"{short}, {printed}")
        return [cell.format(**figures) for cell in line["cells"]]

    def by_result(table: Row) -> Iterable[list[str]]:
        """Yield lines with the figures of several results; the last has the base of the ratios, column ``of``."""
        figure, by, kept = table["figure"], table["by"], [cited(name) for name in table["columns"]]
        for label, value in table["lines"]:
            own = [[row for row in rows if row[by] == value] for rows in kept]
            if not all(own):
                raise KeyError(f"README cites {by} {value} of {table['columns']}; some have no such row.")
            yield [label, *(" / ".join(f"{row[figure]:.1f}" for row in rows) for rows in own)]
        label, of = table["of"]
        yield [label, *(_number(rows[0][of] / rows[0][figure]) for rows in kept)]

    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        name: _table(table["head"], by_result(table) if "columns" in table else map(cells, table["rows"]))
        for name, table in tables.items()
    }


def _one_row(rows: Sequence[Row], where: Row, of: str) -> Row:
    chosen = [row for row in rows if all(row.get(key) == value for key, value in where.items())]
    if len(chosen) != 1:
        raise KeyError(f"README cites {dict(where)} of {of!r}, which has {len(chosen)} such rows.")
    return chosen[0]


def made(found: Sequence[Row], results: Mapping[str, Row]) -> dict[str, str]:
    """Return the text of every place by its name: tables of README, whole pages, and the rows of each result."""
    rows = {name: _plain_table(result["rows"]) for name, result in results.items()}
    pages = {"reproductions": reproductions(found, results), "benchmarks": benchmarks(results)}
    return rows | pages | readme_tables(found, results)


def insert(text: str, tables: Mapping[str, str]) -> str:
    """Return a text with each table between its two comments."""
    pattern = r"(<!-- ([\w.]+): made by docs/results\.py -->\n).*?(\n<!-- end of \2 -->)"
    return re.sub(pattern, lambda place: f"{place[1]}\n{tables[place[2]]}\n{place[3]}", text, flags=re.DOTALL)


def main() -> None:
    """Write the places of all pages, and the pictures."""
    results, found = load_all(), papers()
    drawn = [draw_bars(result) for result in results.values() if result.get("ratio") and len(result["rows"]) > 1]
    for paper in found:
        for table in paper["tables"]:
            if "picture" in table and table.get("result") in results:
                drawn.append(draw_lines(results[table["result"]], table["picture"], _picture(paper, table)))
    for old in set(PICTURES.glob("*.svg")).difference(drawn):  # last, so an interrupted run does not lose pictures
        old.unlink()
    tables = made(found, results)
    for page in PAGES:
        page.write_text(insert(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()

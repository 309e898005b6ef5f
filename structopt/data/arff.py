"""ARFF files with several labels or a hierarchy of them, as MULAN, MEKA and Clus write them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import Bunch

from structopt.checks import checked, hashable, sequence
from structopt.data._files import is_number, lines_of, plain_name, read_text, short_indices
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

__all__ = ["read_arff"]

Labels = int | Sequence[str] | str | Path | None

_TRUTH = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_COUNT = re.compile(r"-C\s+(-?\d+)")
# What the root of a DAG is called in the files of Clus, where arcs are written "parent/child".
_ROOT = "root"
#: A path of n levels has names of n lengths: more than this is no hierarchy but an attempt to fill the memory.
_DEEPEST = 200


@checked
def read_arff(
    path: str | Path,
    labels: Labels = None,
    *,
    ignore: Sequence[str] = (),
    dag: bool | None = None,
    max_bytes: int | None = None,
) -> Bunch:
    """Read an ARFF file, dense or sparse, also ``.arff.gz``.

    Parameters
    ----------
    path : path
    labels : int, sequence of str or path, optional
        Which attributes are labels: names; ``n`` for the first n and ``-n`` for the last n (as ``-C n`` in MEKA's
        relations); 0 for none; or the path of MULAN's XML of label names. By default it is found out: a Clus attribute
        ``hierarchical``, ``-C n`` in the relation, an XML of the same name beside the file (``yeast.xml`` also serves
        ``yeast-train.arff``), the attribute ``class``, else the last one.
    ignore : sequence of str
        Attributes to leave out, such as keys.
    dag : bool, optional
        Whether terms of a hierarchical attribute are arcs ``parent/child`` (Gene Ontology) and not paths ``a/b/c``. By
        default they are arcs if all have two names and one begins with ``root``.
    max_bytes : int, optional
        Reject a file that is larger after unpacking; by default a compressed one may unpack to one GiB and fifty times
        its own size.

    Returns
    -------
    Bunch
        ``X`` (CSR, float64: nominal attributes one-hot, those with values 0 and 1 in one column; a missing number is a
        stored NaN, a missing nominal value is zero everywhere), ``y`` (0/1 rows, or a class per row), ``label_names``,
        ``feature_names``, ``relation``; and ``hierarchy`` where there is one, with the columns of ``y`` in the order of
        ``hierarchy.nodes`` and closed under ancestors.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "songs.arff"
    >>> _ = path.write_text("@relation 'songs: -C 2'\\n@attribute calm {0,1}\\n@attribute sad {0,1}\\n"
    ...                     "@attribute tempo real\\n@data\\n1,0,60.5\\n{1 1,2 80}\\n", encoding="utf-8")
    >>> songs = read_arff(path)
    >>> songs.label_names.tolist(), songs.y.tolist(), songs.X.toarray().tolist()
    (['calm', 'sad'], [[1, 0], [0, 1]], [[60.5], [80.0]])
    """
    path = Path(path)
    found = parse_arff(read_text(path, max_bytes), path.name)
    tree = _hierarchical(found, labels)
    places, above = ([tree], None) if tree is not None else _label_places(found, labels, path)
    dropped = {*places, *_places(found, ignore, path.name)}
    columns = [k for k in range(len(found.attributes)) if k not in dropped]
    X, feature_names = _features(found, columns, path.name)
    data = Bunch(X=X, feature_names=np.array(feature_names, dtype=str), relation=found.relation)
    if tree is not None:
        data.update(_hierarchical_labels(found, tree, dag, path.name))
    elif len(places) == 1 and not _asked_for_rows(labels, found):
        data.update(_classes(found, places[0], path.name))
    elif places:
        data.update(_label_rows(found, places, path.name))
        if above:
            data.update(_in_order(data.y, Hierarchy(above, nodes=data.label_names.tolist()), data.label_names.tolist()))
    else:
        data.update(y=None, label_names=np.array([], dtype=str))
    return data


# ---- which attributes are labels -----------------------------------------------------------------


def _hierarchical(found: ArffText, labels: Labels) -> int | None:
    places = [k for k, attribute in enumerate(found.attributes) if attribute.kind == "hierarchical"]
    return places[0] if places and labels is None else None


def _label_places(found: ArffText, labels: Labels, path: Path) -> tuple[list[int], list[tuple[str, str]] | None]:
    """Positions of the label attributes, and the arcs between them if an XML nests its labels."""
    names = [attribute.name for attribute in found.attributes]
    if labels is None:
        count = _COUNT.search(found.relation)
        beside = _xml_beside(path)
        if count is None and beside is None:
            last = [k for k, name in enumerate(names) if name.lower() == "class"] or [len(names) - 1]
            return last[-1:], None
        labels = int(count[1]) if count is not None else beside
    if isinstance(labels, str | Path):
        wanted, arcs = _read_xml(Path(labels))
        return _places(found, wanted, path.name), arcs
    if isinstance(labels, int | np.integer):
        if abs(labels) > len(names):
            raise DeclarationError(f"{path.name} has {len(names)} attributes; {abs(labels)} of them cannot be labels.")
        return (list(range(labels)) if labels >= 0 else list(range(len(names) + labels, len(names)))), None
    return _places(found, [] if labels is None else labels, path.name), None


def _asked_for_rows(labels: Labels, found: ArffText) -> bool:
    """Whether one label attribute is a 0/1 row of width one and not a class."""
    return isinstance(labels, str | Path) or (labels is None and _COUNT.search(found.relation) is not None)


def _places(found: ArffText, wanted: Sequence[str], where: str) -> list[int]:
    place = {attribute.name: k for k, attribute in enumerate(found.attributes)}
    given = [wanted] if isinstance(wanted, str) else sequence("The names of attributes", wanted)
    wanted = [hashable("The name of an attribute", name) for name in given]
    missing = [name for name in wanted if name not in place]
    if missing:
        raise DeclarationError(f"{where} has no attribute {missing[0]!r}; it has {', '.join(list(place)[-5:])}, ...")
    uses = Counter(attribute.name for attribute in found.attributes)
    twice = [name for name in wanted if uses[name] > 1]
    if twice:
        raise DeclarationError(f"{where} has {uses[twice[0]]} attributes called {twice[0]!r}; rename all but one.")
    return [place[name] for name in wanted]


def _xml_beside(path: Path) -> Path | None:
    stem = path.name[: len(plain_name(path)) - len(".arff")]
    for name in dict.fromkeys([stem, re.sub(r"[-_](train|test|valid|all).*$", "", stem, flags=re.IGNORECASE)]):
        if (path.parent / f"{name}.xml").is_file():
            return path.parent / f"{name}.xml"
    return None


def _read_xml(path: Path) -> tuple[list[str], list[tuple[str, str]] | None]:
    """Label names of MULAN's XML, and its arcs where labels are nested."""
    try:
        root = ElementTree.fromstring(read_text(path))
    except ElementTree.ParseError as error:
        raise DeclarationError(f"{path.name} is not the XML of label names: {error}.") from error
    names: list[str] = []
    arcs: list[tuple[str, str]] = []
    stack: list[tuple[str | None, ElementTree.Element]] = [(None, root)]
    while stack:
        above, element = stack.pop()
        name = element.get("name")
        if element.tag.endswith("label") and name is not None:
            names.append(name)
            if above is not None:
                arcs.append((above, name))
        stack.extend((name, child) for child in reversed(list(element)))
    if not names:
        raise DeclarationError(f"{path.name} names no labels: expected <label name='...'> elements.")
    return names, arcs or None


# ---- features ------------------------------------------------------------------------------------


def _features(found: ArffText, columns: Sequence[int], where: str) -> tuple[sp.csr_array, list[str]]:
    names: list[str] = []
    parts: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float64]]] = []
    for k in columns:
        attribute = found.attributes[k]
        rows = np.array(found.rows[k], dtype=np.intp)
        if attribute.kind == "nominal" and set(attribute.values) != {"0", "1"}:
            codes = _codes(found, k, where)
            known = np.flatnonzero(codes >= 0)
            parts.append((known, len(names) + codes[known], np.ones(known.size)))
            names += [f"{attribute.name}={value}" for value in attribute.values]
            continue
        if attribute.kind == "nominal":
            codes = _codes(found, k, where)
            rows = np.flatnonzero(codes >= 0)
            values = np.array([float(value) for value in attribute.values])[codes[rows]]
        elif attribute.kind == "numeric":
            values = _numbers(found, k, where)
        else:
            raise DeclarationError(
                f"Attribute {attribute.name!r} of {where} is of type {attribute.kind}, which is not a feature; "
                f"leave it out with ignore = [{attribute.name!r}]."
            )
        kept = values != 0  # also NaN
        parts.append((rows[kept], np.full(int(kept.sum()), len(names), dtype=np.intp), values[kept]))
        names.append(attribute.name)
    shape = (found.n_rows, len(names))
    if not parts:
        return sp.csr_array(shape, dtype=np.float64), names
    i, j, v = (np.concatenate([part[side] for part in parts]) for side in range(3))
    return short_indices(sp.csr_array(sp.coo_array((v, (i, j)), shape=shape))), names


def _numbers(found: ArffText, k: int, where: str) -> npt.NDArray[np.float64]:
    cells = found.cells[k]
    try:
        if any("_" in cell for cell in cells):  # float("1_000") is Python, not ARFF
            raise ValueError
        return np.array(["nan" if cell == "?" else cell for cell in cells], dtype=np.float64)
    except ValueError:
        row, cell = next((found.rows[k][n], cell) for n, cell in enumerate(cells) if not is_number(cell))
        name = found.attributes[k].name
        raise DeclarationError(
            f"{where}: {cell[:40]!r} of example {row} is not a number, but attribute {name!r} is numeric; leave it out "
            f"with ignore = [{name!r}]."
        ) from None


def _codes(found: ArffText, k: int, where: str) -> npt.NDArray[np.intp]:
    """Numbers of the values; -1 is missing. A cell that a sparse row leaves out has the first value."""
    attribute = found.attributes[k]
    number = {value: code for code, value in enumerate(attribute.values)} | {"?": -1}
    codes = np.zeros(found.n_rows, dtype=np.intp)
    try:
        codes[found.rows[k]] = [number[cell] for cell in found.cells[k]]
    except KeyError as error:
        raise DeclarationError(
            f"{where}: {error.args[0]!r} is not a value of attribute {attribute.name!r} "
            f"({_shortened(attribute.values)})."
        ) from None
    return codes


# ---- labels --------------------------------------------------------------------------------------


def _classes(found: ArffText, k: int, where: str) -> dict[str, npt.NDArray[np.generic]]:
    attribute = found.attributes[k]
    if attribute.kind == "numeric":
        values = np.zeros(found.n_rows)
        values[found.rows[k]] = _numbers(found, k, where)
        return {"y": values, "label_names": np.array([attribute.name])}
    if attribute.kind != "nominal":
        raise DeclarationError(
            f"Attribute {attribute.name!r} of {where} is of type {attribute.kind}, not a class; say which attributes "
            "are labels: labels = -14 for the last 14, or their names."
        )
    codes = _codes(found, k, where)
    if (codes < 0).any():
        raise DeclarationError(f"{where}: example {int(np.argmin(codes))} has no class; remove it.")
    names = np.array(attribute.values)
    return {"y": names[codes], "label_names": names}


def _label_rows(found: ArffText, places: Sequence[int], where: str) -> dict[str, npt.NDArray[np.generic]]:
    y = np.zeros((found.n_rows, len(places)), dtype=np.uint8)
    for column, k in enumerate(places):
        attribute = found.attributes[k]
        y[:, column] = _truth(attribute.values[0], attribute, where) if attribute.kind == "nominal" else 0
        y[found.rows[k], column] = [_truth(cell, attribute, where) for cell in found.cells[k]]
    return {"y": y, "label_names": np.array([found.attributes[k].name for k in places])}


def _shortened(values: Sequence[str]) -> str:
    return ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")


def _truth(cell: str, attribute: Attribute, where: str) -> int:
    value = _TRUTH.get(cell.lower())
    if value is None:
        raise DeclarationError(
            f"Label {attribute.name!r} of {where} has the value {cell!r}; expected 0 or 1. Say "
            "which attributes are labels: labels = -14 for the last 14, or their names."
        )
    return value


def _hierarchical_labels(found: ArffText, k: int, dag: bool | None, where: str) -> dict[str, object]:
    attribute = found.attributes[k]
    hierarchy = _hierarchy(attribute, dag, where)
    y = np.zeros((found.n_rows, len(hierarchy)), dtype=np.uint8)
    for row, cell in zip(found.rows[k], found.cells[k], strict=True):
        names = [name for name in cell.split("@") if name not in ("", "?", _ROOT)]
        unknown = [name for name in names if name not in hierarchy]
        if unknown:
            raise DeclarationError(f"{where}: {unknown[0]!r} is not a term of the attribute {attribute.name!r}.")
        y[row, hierarchy.indices(names)] = 1
    return _in_order(y, hierarchy, hierarchy.nodes)


def _hierarchy(attribute: Attribute, dag: bool | None, where: str) -> Hierarchy:
    terms = [term for term in attribute.values if term]
    pairs = [tuple(term.split("/")) for term in terms]
    deep = [pair for pair in pairs if len(pair) > _DEEPEST]
    if deep:
        raise DeclarationError(f"{where}: a term of attribute {attribute.name!r} has {len(deep[0])} levels.")
    try:
        return _made(attribute, terms, pairs, dag)
    except DeclarationError as error:
        raise DeclarationError(f"{where}, attribute {attribute.name!r}: {error}") from error


def _made(attribute: Attribute, terms: list[str], pairs: list[tuple[str, ...]], dag: bool | None) -> Hierarchy:
    if dag is None:
        dag = all(len(pair) == 2 for pair in pairs) and any(pair[0] == _ROOT for pair in pairs)
    if not dag:
        return Hierarchy.from_paths(terms)
    broken = [term for term, pair in zip(terms, pairs, strict=True) if len(pair) != 2]
    if broken:
        raise DeclarationError(
            f"{broken[0]!r} of attribute {attribute.name!r} is not an arc 'parent/child'; dag=False?"
        )
    arcs = dict.fromkeys((parent, child) for parent, child in pairs if parent != _ROOT)
    return Hierarchy(list(arcs), nodes=dict.fromkeys(child for _, child in pairs))


def _in_order(y: npt.NDArray[np.uint8], hierarchy: Hierarchy, names: Sequence[Hashable]) -> dict[str, object]:
    """Columns in the order of the nodes, and a label's ancestors along with it."""
    column = {name: k for k, name in enumerate(names)}
    y = np.take(y, [column[name] for name in hierarchy.nodes], axis=1)
    for parent, child in zip(hierarchy.parent[::-1], hierarchy.child[::-1], strict=True):
        y[:, parent] |= y[:, child]  # arcs are sorted by child, and parents come before children
    return {"y": y, "label_names": np.array([str(name) for name in hierarchy.nodes]), "hierarchy": hierarchy}


_NUMERIC = ("numeric", "real", "integer")
_KEYWORD = re.compile(r"@(relation|attribute|data)\b\s*+(.*+)", re.IGNORECASE | re.DOTALL)
# A value in quotes; a backslash escapes the next character. Nothing here can match in two ways, so that a line takes
# time in proportion to its length, whatever it holds.
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
# The weight of an example, which Weka writes after it.
_WEIGHT = re.compile(r"\}\s*+,\s*+\{[^{}]*+\}$")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BLANKS = re.compile(r"\s*+")
_NUMBER_AND_BLANKS = re.compile(r"\s*+[0-9]*+\s*+")


@dataclass(frozen=True)
class Attribute:
    """A column: its name, and its kind ``"numeric"``, ``"nominal"``, ``"hierarchical"`` or another type's name.

    `values` are the values of a nominal column, and the terms of a hierarchical one.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()


@dataclass
class ArffText:
    """A parsed file: cells are text, by attribute, with the rows that state them (sparse rows leave out zeros)."""

    relation: str = ""
    attributes: list[Attribute] = field(default_factory=list)
    n_rows: int = 0
    rows: list[list[int]] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)


def parse_arff(text: str, where: str) -> ArffText:
    """Parse a file; `where` names it in errors.

    Examples
    --------
    >>> found = parse_arff("@relation r\\n@attribute x real\\n@attribute y {a,b}\\n@data\\n1,b\\n{0 2}\\n", "r.arff")
    >>> [attribute.kind for attribute in found.attributes], found.cells, found.rows
    (['numeric', 'nominal'], [['1', '2'], ['b']], [[0, 1], [0]])
    """
    found = ArffText()
    lines = enumerate(lines_of(text), start=1)
    _read_header(found, lines, where)
    found.rows = [[] for _ in found.attributes]
    found.cells = [[] for _ in found.attributes]
    for number, line in lines:
        line = line.strip()
        if line and not line.startswith("%"):
            _add_row(found, line, f"{where}, line {number}")
    return found


def _read_header(found: ArffText, lines: Iterator[tuple[int, str]], where: str) -> None:
    for number, line in lines:
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        match = _KEYWORD.match(line)
        if match is None:
            raise DeclarationError(
                f"{where}, line {number}: expected @relation, @attribute or @data, got {line[:40]!r}."
            )
        keyword, rest = match[1].lower(), match[2]
        if keyword == "relation":
            found.relation = _name(rest, f"{where}, line {number}")[0] if rest[:1] in ("'", '"') else rest.strip()
        elif keyword == "attribute":
            found.attributes.append(_attribute(rest, f"{where}, line {number}"))
        elif not found.attributes:
            raise DeclarationError(f"{where} has no attributes before @data.")
        else:
            return
    raise DeclarationError(f"{where} has no @data.")


def _attribute(text: str, where: str) -> Attribute:
    name, kind = _name(text, where)
    lower = kind.lower()
    if kind.startswith("{"):
        if not kind.rstrip().endswith("}"):
            raise DeclarationError(f"{where}: the values of attribute {name!r} do not end in '}}'.")
        return Attribute(name, "nominal", tuple(_values(kind.strip()[1:-1], where)))
    if lower.startswith("hierarchical"):
        return Attribute(name, "hierarchical", tuple(_values(kind[len("hierarchical") :], where)))
    if not lower:
        raise DeclarationError(f"{where}: attribute {name!r} has no type.")
    first = lower.split()[0]
    return Attribute(name, "numeric" if first in _NUMERIC else first)


def _name(text: str, where: str) -> tuple[str, str]:
    """A name, in quotes or up to the next blank, and what follows it."""
    if text[:1] in ("'", '"'):
        name, end = _quoted(text, 0, where)
        return name, text[end:].strip()
    name, *rest = text.split(None, 1) or [""]
    return name, rest[0].strip() if rest else ""


def _quoted(text: str, place: int, where: str) -> tuple[str, int]:
    """The value in quotes that begins at a place, and the place after it."""
    match = _QUOTED.match(text, place)
    if match is None:
        raise DeclarationError(f"{where}: the quotation {text[place : place + 20]!r} has no end.")
    inside = match[1] if match[1] is not None else match[2]
    return _ESCAPE.sub(r"\1", inside), match.end()


def _values(line: str, where: str) -> list[str]:
    """The values between commas; most lines have no quotes and need no grammar."""
    if "'" not in line and '"' not in line:
        return [part.strip() for part in line.split(",")]
    return [_value(part, where) for part in _parts(line, where)]


def _value(part: str, where: str) -> str:
    """One value without the quotes around it."""
    part = part.strip()
    if part[:1] not in ("'", '"'):
        return part
    value, end = _quoted(part, 0, where)
    if end != len(part):
        raise DeclarationError(f"{where}: {part[end : end + 20]!r} follows a quotation without a comma.")
    return value


def _parts(line: str, where: str, head: re.Pattern[str] = _BLANKS) -> list[str]:
    """A line cut at the commas outside quotes; a quotation begins after `head`, a quote elsewhere is a letter
    (don't)."""
    parts: list[str] = []
    begin = 0
    while True:
        match = head.match(line, begin)
        end = match.end() if match is not None else begin
        if line[end : end + 1] in ("'", '"'):
            end = _quoted(line, end, where)[1]
        comma = line.find(",", end)
        if comma < 0:
            return [*parts, line[begin:]]
        parts.append(line[begin:comma])
        begin = comma + 1


def _add_row(found: ArffText, line: str, where: str) -> None:
    row = found.n_rows
    found.n_rows += 1
    if line.startswith("{"):
        _add_sparse(found, row, line, where)
        return
    cells = _values(line, where)
    if len(cells) != len(found.attributes):
        raise DeclarationError(f"{where}: {len(cells)} values for {len(found.attributes)} attributes.")
    for rows, column, cell in zip(found.rows, found.cells, cells, strict=True):
        rows.append(row)
        column.append(cell)


def _add_sparse(found: ArffText, row: int, line: str, where: str) -> None:
    line = _WEIGHT.sub("}", line)
    if not line.endswith("}"):
        raise DeclarationError(f"{where}: a sparse row that does not end in '}}'.")
    inside = line[1:-1].strip()
    for pair in _parts(inside, where, _NUMBER_AND_BLANKS) if inside else ():
        place, *cell = pair.split(None, 1) or [""]
        is_number = place.isascii() and place.isdigit() and len(place) < 10
        if not (is_number and cell) or int(place) >= len(found.attributes):
            raise DeclarationError(
                f"{where}: {pair.strip()[:40]!r} is not 'number value' for one of {len(found.attributes)} attributes."
            )
        if found.rows[int(place)][-1:] == [row]:
            raise DeclarationError(f"{where}: attribute {int(place)} has two values.")
        found.rows[int(place)].append(row)
        found.cells[int(place)].append(_value(cell[0], where))

"""Files that are damaged, hostile or of another kind: an error with file and line, in linear time."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError

SUFFIXES = ("arff", "csv", "conll", "svm", "npz", "tsv", "conllu")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_file_of_the_kind(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"d.{suffix}"
    for raw in (b"\0" * 50, bytes(range(256)) * 4, b"\x7fELF\x02\x01\x01\0\0"):
        path.write_bytes(raw)
        with pytest.raises(DeclarationError, match=rf"d\.{suffix}"):
            so.data.read(path)
    folder = tmp_path / f"folder.{suffix}"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        so.data.read(folder)
    if suffix == "npz":
        return
    for suffix_of, pack in ((".gz", gzip.compress), (".bz2", bz2.compress)):
        packed = tmp_path / f"d.{suffix}{suffix_of}"
        packed.write_bytes(pack(b"1 1:2\n" * 1000)[:-5])
        with pytest.raises(DeclarationError, match=rf"ends in \{suffix_of} but is not a"):
            so.data.read(packed)


@pytest.mark.parametrize("suffix", ["arff", "csv", "npz"])
def test_an_empty_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"d.{suffix}"
    path.write_bytes(b"")
    with pytest.raises(DeclarationError, match=rf"d\.{suffix}"):
        so.data.read(path)


HEAD = "@relation r\n@attribute x numeric\n@attribute s {a,b}\n@data\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "1,'a\n", 'line 5: the quotation "\'a" has no end'),
        (HEAD + "1,'a' b\n", "line 5: ' b' follows a quotation"),
        (HEAD + "1,a,b\n", "line 5: 3 values for 2"),
        (HEAD + "{0 1, 0 2}\n", "line 5: attribute 0 has two values"),
        (HEAD + "{1000000000000 1}\n", "line 5: .* is not 'number value'"),
        (HEAD + "{² 1}\n", "line 5: .* is not 'number value'"),
        (HEAD + "{,}\n", "line 5: .* is not 'number value'"),
        (HEAD + "1_000,a\n", r"'1_000' of example 0 is not a number.* ignore = \['x'\]"),
        (HEAD + "Paris,a\n", r"'Paris' of example 0 is not a number.* ignore = \['x'\]"),
        (HEAD + "1,c\n", r"'c' is not a value of attribute 's' \(a, b\)"),
        ("@relation r\n@attribute 'x numeric\n@data\n", "line 2: the quotation"),
        ("@relation r\n@attribute h hierarchical " + "a/" * 5000 + "a\n@data\na\n", "has 5001 levels"),
        ("@relation r\n@attribute h hierarchical a/b,b/a,root/a\n@data\na\n", "h.arff, attribute 'h'"),
    ],
)
def test_arff_is_refused_by_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "h.arff").write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError, match=words):
        so.data.read(tmp_path / "h.arff")


def test_arff_values_with_quotes(tmp_path: Path) -> None:
    path = tmp_path / "q.arff"
    text = "@relation r\n@attribute 'a b' {'x, y','it\\'s',don't}\n@attribute c {\"p q\",z}\n@data\n"
    path.write_text(text + "'x, y' , \"p q\"\n don't,z\n'it\\'s',z\n{0 'it\\'s', 1 \"p q\"}\n{}\n", encoding="utf-8")
    found = so.data.read(path, labels=["c"])
    assert found.feature_names.tolist() == ["a b=x, y", "a b=it's", "a b=don't"]
    assert found.X.toarray().argmax(axis=1).tolist() == [0, 2, 1, 1, 0]
    assert found.y.tolist() == ["p q", "z", "z", "p q", "p q"]


def test_line_ends_of_every_system(tmp_path: Path) -> None:
    """NEL and the line separators of Unicode are letters in a value; CR alone ends the lines of old Macs."""
    text = "@relation r\n@attribute x real\n@attribute y {'a\x85b','c\u2028d'}\n@data\n1,'a\x85b'\n2,'c\u2028d'\n"
    for ending in ("\n", "\r\n", "\r"):
        (tmp_path / "d.arff").write_bytes(text.replace("\n", ending).encode())
        assert so.data.read(tmp_path / "d.arff").y.tolist() == ["a\x85b", "c\u2028d"]
        (tmp_path / "d.csv").write_bytes("a,b\n1,2\n\n3,4\n".replace("\n", ending).encode("utf-16"))
        assert so.data.read(tmp_path / "d.csv").X.tolist() == [[1], [3]]


_N = 300_000


@pytest.mark.parametrize(
    "line",
    [
        "'a" + " " * _N + "',a",
        "'a'" + " " * _N + "x,a",
        "1," + " " * _N + "a",
        "'" + " " * _N,
        "'" * _N,
        "\"'" * _N,
        "{0 1," + " " * _N + "1 a}",
        "{0 '" + "\\'" * _N + "}",
        "{0 1}" + " " * _N + "," + " " * _N + "{",
        "{" * _N + "}",
        "a" * _N,
        "1" * _N + ",a",
    ],
)
def test_an_arff_line_takes_time_in_proportion_to_its_length(tmp_path: Path, line: str) -> None:
    """The old grammar took time in the square of it: 100 KB a minute, so that each of these would take hours."""
    (tmp_path / "d.arff").write_text(HEAD + line + "\n", encoding="utf-8")
    try:
        assert so.data.read(tmp_path / "d.arff").X.shape[0] == 1
    except DeclarationError as error:
        assert "d.arff" in str(error) and len(str(error)) < 500


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 1:2\n1 1000000000000:1\n", "line 2: '1000000000000:1'"),
        ("1 1:2\n1 99999999999999999999999:1\n", "line 2: '99999999999999999999999:1'"),
        ("1 1:2\n1 2:x\n", "line 2: '2:x'"),
        ("1 1:2\n1 2:1 1:1\n", "line 2: '1:1'"),
        ("1 1:2\n1 2\n", "line 2: '2'"),
        ("1 1:2\nA 2:1\n", "line 2: 'A'.* a line is a label and index:value pairs"),
        ("1 1:2\n1 -2:1\n", "line 2: '-2:1'"),
        ("1 qid:1 1:2\n1 qid:1 2000000000:1\n2 qid:2 3:1\n", "too many"),
    ],
)
def test_svmlight_is_refused_by_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "d.svm").write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError, match=rf"d\.svm.*{words}"):
        so.data.read(tmp_path / "d.svm")


def test_svmlight_labels_beyond_integers_stay_numbers(tmp_path: Path) -> None:
    (tmp_path / "d.svm").write_text("1e300 1:2\n1 1:3\n", encoding="utf-8")
    assert so.data.read(tmp_path / "d.svm").y.tolist() == [1e300, 1.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,city,y\n1,2,0\n2,Paris,1\n", r"d\.csv, line 3: 'Paris' in column 'city'.*ignore = \['city'\]"),
        ("a,b,y\n1,2,0\n2,1_000,1\n", "line 3: '1_000'"),
        ("a,b,y\n1,2,0\n\n2,3,\n", "line 4: the label 'y' is missing"),
        ("a,b,y\n1,2,0\n2,3\n", "line 3: 2 cells for 3 columns"),
        ('a,b\n1,"' + "x" * 200_000 + '"\n', "line 2: field larger"),
    ],
)
def test_csv_is_refused_by_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "d.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError, match=words):
        so.data.read(tmp_path / "d.csv")


def test_csv_columns_by_name(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("key, city ,a,y\nk1,Paris,1,0\nk2,Rome,2,1\n", encoding="utf-8")
    found = so.data.read(path, ignore=["key", "city"])
    assert found.X.tolist() == [[1], [2]] and found.feature_names.tolist() == ["a"]
    with pytest.raises(DeclarationError, match="no column 'town'"):
        so.data.read(path, ignore=["town"])
    path.write_text("a,a,y\n1,2,0\n", encoding="utf-8")
    assert so.data.read(path).X.tolist() == [[1, 2]]
    with pytest.raises(DeclarationError, match="2 columns called 'a'; rename"):
        so.data.read(path, labels=["a"])


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **{name: np.asarray(value) for name, value in arrays.items()})
    return path


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        # Products with the first two would read past the end of the weights.
        ({"X_data": [1.0], "X_indices": [7], "X_indptr": [0, 1], "X_shape": [1, 2]}, "not a CSR matrix"),
        ({"X_data": [1.0], "X_indices": [-1], "X_indptr": [0, 1], "X_shape": [1, 2]}, "not a CSR matrix"),
        ({"X_data": [1.0], "X_indices": [0], "X_indptr": [0, 9], "X_shape": [1, 2]}, "not a CSR matrix"),
        ({"X_data": [1.0], "X_indices": [0.5], "X_indptr": [0, 1], "X_shape": [1, 2]}, "not a CSR matrix"),
        ({"X_data": ["a"], "X_indices": [0], "X_indptr": [0, 1], "X_shape": [1, 2]}, "not a CSR matrix"),
        ({"X_data": [1.0, 2.0], "X_indices": [0, 1], "X_indptr": [0, 2, 1], "X_shape": [2, 2]}, "not a CSR matrix"),
        ({"X_data": [1.0], "X_indices": [0], "X_indptr": [0, 1], "X_shape": [1, -1]}, "d.npz"),
        ({"X_data": [1.0], "X_indices": [0], "X_indptr": [0, 1], "X_shape": ["a", "b"]}, "d.npz"),
        ({"X_data": [1.0], "X_indices": [0], "X_shape": [1, 2]}, "no X_indptr"),
        ({"X": [[1.0]], "Y": [[1, 0]], "label_names": ["a", "b"], "edges": [0, 1]}, "d.npz"),
        ({"X": [[1.0]], "Y": [[1, 0]], "label_names": ["a", "b"], "edges": [[0, 7]]}, "numbers below 2"),
        ({"X": [[1.0]], "Y": [[1, 0]], "label_names": ["a", "b"], "edges": [[0, 1], [1, 0]]}, "d.npz: .*cycle"),
        ({"X": [[1.0]], "Y": [[1, 0]], "edges": [[0, 1]]}, "no label_names"),
        ({"X": [[1.0]], "Y": [1], "label_names": ["a", "b"], "edges": [[0, 1]]}, "a column for each"),
        ({"X": 3.0, "y": [1]}, "X is a single number"),
    ],
)
def test_npz_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, object], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        so.data.read(npz(tmp_path / "d.npz", **arrays))


def test_npz_damaged_or_lying(tmp_path: Path) -> None:
    path = npz(tmp_path / "d.npz", X=np.eye(3), y=[1, 2, 3])
    raw = path.read_bytes()
    for cut in (10, len(raw) // 2, len(raw) - 3):
        path.write_bytes(raw[:cut])
        with pytest.raises(DeclarationError, match=r"d\.npz.*not an npz"):
            so.data.read(path)
    path.write_bytes(raw.replace(b"(3, 3), ", b"(9**9,),"))
    with pytest.raises(DeclarationError, match=r"d\.npz"):
        so.data.read(path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"run": "me"}], dtype=object), allow_pickle=True)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(DeclarationError, match=r"d\.npz"):
        so.data.read(path)


def test_conllu_heads(tmp_path: Path) -> None:
    path = tmp_path / "d.conllu"
    line = "{0}\tw\t_\tNOUN\t_\t_\t{1}\t_\t_\t_\n"
    path.write_text(line.format(1, 2) + line.format(2, 0), encoding="utf-8")
    assert so.data.read(path).heads == [[2, 0]]
    path.write_text(line.format(1, "_") + line.format(2, "_"), encoding="utf-8")
    assert "heads" not in so.data.read(path)
    for head in ("x", "3", "-1", "²", "9" * 50):
        path.write_text(line.format(1, head) + line.format(2, 0), encoding="utf-8")
        with pytest.raises(DeclarationError, match=r"d\.conllu: the head .* of word 1 in sentence 1"):
            so.data.read(path)

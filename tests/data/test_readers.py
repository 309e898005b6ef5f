"""Readers of data files, each on a small file of the format as its tools write it, and `fetch` on local copies."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from pathlib import Path
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import structopt as so
from structopt.data.arff import parse_arff
from structopt.data.benchmark import benchmark_folder
from structopt.errors import DeclarationError

MULAN = """@relation 'emotions'
% a comment
@attribute 'mean tempo' numeric
@attribute genre {rock,'slow, jazz',folk}
@attribute loud {0,1}
@attribute calm {0,1}
@attribute "sad-lonely" {0,1}

@data
1.5, 'slow, jazz', 1, 1, 0
?, ?, 0, 0, 1
-2e-1,rock,?,1,1
"""

MULAN_XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="calm"></label>
<label name="sad-lonely"></label>
</labels>
"""

CLUS = """@RELATION 'toy'
@ATTRIBUTE gene string
@ATTRIBUTE a numeric
@ATTRIBUTE class hierarchical 01,01/02,01/02/03,02
@DATA
g1,0.5,01/02@02
g2,0,01/02/03
g3,2,02
"""

CLUS_DAG = """@RELATION go
@ATTRIBUTE a numeric
@ATTRIBUTE class hierarchical root/A,root/B,A/C,B/C,C/D
@DATA
1,C
2,D@B
3,A
"""


@pytest.fixture
def write(tmp_path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


# ---- ARFF ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["emotions.arff", "emotions-train.arff", "emotions-test.arff.gz"])
def test_mulan_with_xml(write, name):
    write("emotions.xml", MULAN_XML)
    data = so.data.read(write(name, MULAN))
    assert data.label_names.tolist() == ["calm", "sad-lonely"]
    assert data.y.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert data.feature_names.tolist() == ["mean tempo", "genre=rock", "genre=slow, jazz", "genre=folk", "loud"]
    expected = [[1.5, 0, 1, 0, 1], [np.nan, 0, 0, 0, 0], [-0.2, 1, 0, 0, 0]]
    np.testing.assert_array_equal(data.X.toarray(), expected)
    assert np.isnan(data.X.data).sum() == 1, "a missing number is a stored NaN"


@pytest.mark.parametrize("labels", [-2, ["calm", "sad-lonely"]], ids=["the last two", "names"])
def test_labels_without_xml(write, labels):
    data = so.data.read(write("songs.arff", MULAN), labels=labels)
    assert data.y.tolist() == [[1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize(("count", "names"), [(2, ["a", "b"]), (-1, ["d"])])
def test_meka_count_in_the_relation(write, count, names):
    header = "".join(f"@attribute {name} {{0,1}}\n" for name in "abcd")
    data = so.data.read(write("meka.arff", f"@relation 'x: -C {count} -split 3'\n{header}@data\n1,0,0,1\n0,1,1,1\n"))
    assert data.label_names.tolist() == names
    assert data.y.shape == (2, len(names)) and data.X.shape == (2, 4 - len(names))
    truth = np.array([[1, 0, 0, 1], [0, 1, 1, 1]])
    np.testing.assert_array_equal(data.y, truth[:, ["abcd".index(name) for name in names]])


def test_sparse_rows(write):
    text = "@relation r\n@attribute x real\n@attribute c {red,green}\n@attribute y {0,1}\n@attribute z {0,1}\n@data\n"
    data = so.data.read(write("s.arff", text + "{0 2.5, 3 1}\n{}\n{1 green,2 1}\n{0 ?}, {3}\n"), labels=-2)
    np.testing.assert_array_equal(data.X.toarray(), [[2.5, 1, 0], [0, 1, 0], [0, 0, 1], [np.nan, 1, 0]])
    assert data.y.tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]


def test_class_attribute(write):
    text = "@relation r\n@attribute class {yes,no}\n@attribute x real\n@data\nno,1\nyes,0\n"
    data = so.data.read(write("c.arff", text))
    assert data.y.tolist() == ["no", "yes"] and data.X.toarray().tolist() == [[1.0], [0.0]]


def test_clus_paths_are_closed_under_ancestors(write):
    data = so.data.read(write("toy.arff", CLUS), ignore=["gene"])
    assert data.hierarchy.nodes == ("01", "01/02", "01/02/03", "02")
    assert data.label_names.tolist() == list(data.hierarchy.nodes)
    assert data.y.tolist() == [[1, 1, 0, 1], [1, 1, 1, 0], [0, 0, 0, 1]]
    assert data.X.toarray().ravel().tolist() == [0.5, 0, 2]


def test_clus_arcs_of_a_dag(write):
    data = so.data.read(write("go.arff", CLUS_DAG))
    assert not data.hierarchy.is_tree and "root" not in data.hierarchy
    rows = [{data.label_names[k] for k in np.flatnonzero(row)} for row in data.y]
    assert rows == [{"A", "B", "C"}, {"A", "B", "C", "D"}, {"A"}]
    assert not so.data.read(write("go.arff", CLUS_DAG), dag=True).hierarchy.is_tree


def test_nested_xml_is_a_hierarchy(write):
    xml = "<labels><label name='cat'/><label name='plant'><label name='oak'/></label></labels>"
    header = "".join(f"@attribute {name} {{0,1}}\n" for name in ("x", "oak", "plant", "cat"))
    write("n.xml", xml)
    data = so.data.read(write("n.arff", f"@relation n\n{header}@data\n1,1,0,0\n0,0,0,1\n"))
    assert data.hierarchy.edges == (("plant", "oak"),)
    rows = [{data.label_names[k] for k in np.flatnonzero(row)} for row in data.y]
    assert rows == [{"plant", "oak"}, {"cat"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@relation r\n@attribute x real\n", "no @data"),
        ("@relation r\nhello\n", "line 2"),
        ("@relation r\n@attribute x real\n@attribute y {0,1}\n@data\n{7 1}\n", "line 5: '7 1'"),
        ("@relation r\n@attribute x string\n@attribute y {0,1}\n@data\nabc,1\n", "ignore = "),
        ("@relation r\n@attribute x real\n@attribute y {a,b}\n@data\n1,?\n", "no class"),
        (CLUS_DAG.replace("3,A", "3,Z"), "'Z' is not a term"),
    ],
)
def test_broken_arff(write, text, said):
    with pytest.raises(DeclarationError, match=said.replace("{", r"\{")):
        so.data.read(write("broken.arff", text))


names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs", "S")), min_size=1, max_size=8)


@given(st.lists(names.map(str.strip).filter(lambda name: name not in ("", "?")), min_size=1, max_size=5, unique=True))
def test_quoted_values_come_back(values):
    quoted = ["'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values]
    rows = "\n".join(f"{quote},1" for quote in quoted)
    sparse = "\n".join(f"{{0 {quote}, 1 1}}" for quote in quoted)
    text = f"@relation r\n@attribute c {{{','.join(quoted)}}}\n@attribute y {{0,1}}\n@data\n{rows}\n{sparse}\n"
    found = parse_arff(text, "r")
    assert found.attributes[0].values == tuple(values)
    assert found.cells == [values + values, ["1"] * (2 * len(values))]


# ---- svmlight, CSV, CoNLL, npz -------------------------------------------------------------------


def test_svmlight_classes(write):
    data = so.data.read(write("d.svm", "+1 1:0.5 3:2\n-1 2:1 # comment\n"), n_features=4)
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, 2, 0], [0, 1, 0, 0]])
    assert data.y.tolist() == [1, -1] and data.y.dtype.kind == "i"


def test_svmlight_labels(write):
    path = write("d.libsvm", "2,5 1:1\n 1:2\n5 2:1\n")
    data = so.data.read(path)
    assert data.label_names.tolist() == [2, 5] and data.y.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert so.data.read(path, labels=[5, 1, 2]).y.tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 0]]
    with pytest.raises(DeclarationError, match="label 5"):
        so.data.read(path, labels=[2])


def test_svmlight_queries(write):
    data = so.data.read(write("d.svm", "2 qid:7 1:1\n0 qid:7 2:1\n1 qid:9 1:3\n"))
    assert [x.shape for x in data.X] == [(2, 2), (1, 2)] and [y.tolist() for y in data.y] == [[2, 0], [1]]


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight_columns_do_not_depend_on_the_indices_of_the_file(write, zero_based):
    X = np.eye(4)
    for rows in ([0, 1, 2, 3], [1, 2, 3], [2]):
        text = "".join(f"1 {int(np.argmax(X[k])) + (not zero_based)}:1\n" for k in rows)
        found = so.data.read(write("d.svm", text), n_features=4, zero_based=zero_based)
        np.testing.assert_array_equal(found.X.toarray(), X[rows])


def test_svmlight_files_that_disagree_on_the_first_index_are_rejected(write):
    first, last = write("a.svm", "1 0:1 2:1\n"), write("b.svm", "1 1:1 3:1\n")
    with pytest.raises(DeclarationError, match=r"a\.svm, line 1: '0:1' has index 0.*zero_based=True"):
        so.data.read(first, n_features=3)
    with pytest.raises(DeclarationError, match=r"b\.svm, line 1: '3:1'.* from 0 to 2 \(zero_based=True\)"):
        so.data.read(last, n_features=3, zero_based=True)


def test_csv(write):
    text = "a;kind;b\n1,5;x;2\n"
    with pytest.raises(DeclarationError, match="'a'"):
        so.data.read(write("d.csv", text), labels=["kind"], delimiter=";")
    data = so.data.read(write("d.csv", text.replace("1,5", "1.5")), labels=["kind"], delimiter=";")
    assert data.X.tolist() == [[1.5, 2.0]] and data.y.tolist() == ["x"]
    data = so.data.read(write("n.tsv", "1\t0\t1\n2\t1\t1\n"), labels=-2)
    assert data.X.tolist() == [[1.0], [2.0]] and data.y.tolist() == [[0, 1], [1, 1]]
    assert so.data.read(write("n.csv", "1,0\n2,1\n"), labels=0).y is None
    assert so.data.read(write("n.csv", "1,0\n2,1\n")).y.tolist() == [0, 1]
    for text, said in [("", "empty"), ("a,b\n1\n", "broken.csv, line 2: 1 cells"), ("a,b\n1,2\n", "'c'")]:
        with pytest.raises(DeclarationError, match=said):
            so.data.read(write("broken.csv", text), labels=["c"])


CONLL = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nPeter NNP B-PER\n"


def test_conll(write):
    data = so.data.read(write("d.conll", CONLL))
    assert data.words == [["EU", "rejects"], ["Peter"]] and data.y == [["B-ORG", "O"], ["B-PER"]]
    assert data.label_names.tolist() == ["B-ORG", "B-PER", "O"]
    assert so.data.read(write("d.bio.gz", CONLL), labels=1).y == [["NNP", "VBZ"], ["NNP"]]
    again = so.data.read(write("e.conll", "Peter NNP O\n"))
    assert sp.issparse(data.X[0]) and data.X[0].shape == (2, 4096)
    assert (again.X[0] != data.X[1]).nnz == 0, "features of a word do not depend on its file or tag"
    own = so.data.read_conll(write("d.conll", CONLL), n_features=16, features=lambda words, t: [words[t]])
    assert [x.sum() for x in own.X] == [2, 1]
    for text, said in [("a b\nc\n", "line 2: 1 columns"), ("a b\n", "no column 5")]:
        with pytest.raises(DeclarationError, match=said):
            so.data.read(write("x.conll", text), labels=5 if "5" in said else None)


@pytest.mark.parametrize("width", [0, -7, 2**31, 10**30])
def test_widths_beyond_what_compiled_code_takes(write, width):
    """The hashing of scikit-learn divides by a width of 0, and by one that has no 32 bits: the interpreter dies."""
    for name, text in (("d.conll", CONLL), ("d.svm", "+1 1:0.5 3:2\n")):
        with pytest.raises(DeclarationError, match=f"n_features must be between 1 and 2147483647, got {width}"):
            so.data.read(write(name, text), n_features=width)


@pytest.mark.parametrize("wanted", [{"a": 1}, b"a", [["a"]]], ids=["mapping", "bytes", "list inside"])
def test_names_of_columns_are_names(write, wanted):
    arff = write("d.arff", "@relation r\n@attribute a numeric\n@attribute l {0,1}\n@data\n1.5,0\n2,1\n")
    for path in (arff, write("d.csv", "a,l\n1.5,0\n2,1\n")):
        for option in ("labels", "ignore"):
            with pytest.raises(DeclarationError, match=r"must be (None or .*)?a sequence|must be hashable|None or"):
                so.data.read(path, **{option: wanted})
        assert so.data.read(path, ignore="a").X.shape == (2, 0), "a text is one name"


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["0", ["x"]], "sequence of numbers"),
        (["zero"], "got 'zero'"),
        (["0", 0], "twice"),
        ({"0": 1}, "must be a sequence"),
    ],
)
def test_svmlight_labels_are_numbers(write, labels, told):
    for text in ("0 1:1\n1 2:1\n", "0,1 1:1\n1 2:1\n"):
        with pytest.raises(DeclarationError, match=told):
            so.data.read(write("d.svm", text), labels=labels)


def test_conllu(write):
    def token(k, form, upos, head):
        return f"{k}\t{form}\t_\t{upos}\t_\t_\t{head}\t_\t_\t_\n"

    text = (
        "# text = don't go\n" + token("1-2", "don't", "_", "_") + token(1, "do", "AUX", 3) + token(2, "n't", "PART", 3)
    )
    data = so.data.read(write("d.conllu", text + token(3, "go", "VERB", 0) + token("3.1", "x", "X", "_")))
    assert data.words == [["do", "n't", "go"]] and data.y == [["AUX", "PART", "VERB"]] and data.heads == [[3, 3, 0]]


def test_npz(tmp_path, monkeypatch):
    X = sp.random_array((4, 3), density=0.5, format="csr", rng=0).astype(np.float32)
    parts = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr, "X_shape": X.shape}
    np.savez(tmp_path / "train.npz", Y=np.eye(4, 2, dtype=np.uint8), **parts)
    np.savez(tmp_path / "meta.npz", label_names=["leaf", "top"], edges=np.array([[1, 0]]))
    data = so.data.read(tmp_path / "train.npz")
    np.testing.assert_array_equal(data.X.toarray(), X.toarray().astype(np.float64))
    assert data.label_names.tolist() == ["top", "leaf"] and data.y[:2].tolist() == [[0, 1], [1, 0]]
    with pytest.raises(DeclarationError, match="STRUCTOPT_DATA"):
        so.data.load_benchmark("yeast", folder=tmp_path)
    with pytest.raises(DeclarationError, match="no split 'valid'; it has train"):
        so.data.load_benchmark(tmp_path.name, "valid", folder=tmp_path.parent)
    monkeypatch.setenv("STRUCTOPT_DATA", str(tmp_path.parent))
    same = so.data.load_benchmark(tmp_path.name)
    assert same.split == "train" and (same.y == data.y).all() and same.hierarchy.nodes == ("top", "leaf")
    np.savez(tmp_path / "meta.npz", label_names=["leaf", "top"])
    assert "hierarchy" not in so.data.load_benchmark(tmp_path.name)
    np.savez(tmp_path / "evil.npz", X=np.array([{}], dtype=object))
    with pytest.raises(DeclarationError, match="plain arrays"):
        so.data.read(tmp_path / "evil.npz")


@pytest.mark.data
@pytest.mark.skipif(not benchmark_folder().is_dir(), reason="the real data sets are not beside the checkout")
def test_real_files():
    tagged = so.data.read(benchmark_folder() / "wnut17" / "dev.conll.gz")
    assert len(tagged.X) == 1009 and sum(len(y) for y in tagged.y) == 15733
    trees = so.data.read(benchmark_folder() / "ud_en_ewt" / "dev.conllu.gz")
    assert len(trees.X) == 500 and sum(len(heads) for heads in trees.heads) == 7621
    yeast = so.data.read(benchmark_folder() / "yeast" / "train.npz")
    assert yeast.X.shape == (1500, 103) and yeast.y.shape == (1500, 14)


# ---- which reader --------------------------------------------------------------------------------


def test_dispatch(write):
    with pytest.raises(FileNotFoundError, match="no data file"):
        so.data.read("nowhere.csv")
    path = write("d.data", "1,2\n")
    with pytest.raises(DeclarationError, match="give format="):
        so.data.read(path)
    assert so.data.read(path, format="csv").y.tolist() == [2]
    with pytest.raises(DeclarationError, match="one of arff, conll"):
        so.data.read(path, format="xls")
    with pytest.raises(DeclarationError, match="read_csv has no option 'n_features'"):
        so.data.read(path, format="csv", n_features=3)
    with pytest.raises(DeclarationError, match="not a gzip"):
        so.data.read(write("x.csv", "1,2\n").rename(path.with_name("y.csv.gz")))


# ---- OpenML --------------------------------------------------------------------------------------


OPENML_ARFF = """@RELATION yeast
@ATTRIBUTE a NUMERIC
@ATTRIBUTE colour {red,green}
@ATTRIBUTE c1 {TRUE,FALSE}
@ATTRIBUTE c2 {TRUE,FALSE}
@DATA
0.5,green,TRUE,FALSE
1.5,red,FALSE,FALSE
-1,green,TRUE,TRUE
"""


class LocalOpenML:
    """Answers of OpenML's interface to scikit-learn's client, from memory."""

    def __init__(self, number: int, arff: str, targets: list[str]) -> None:
        self.calls: list[str] = []
        columns = [line.split()[1:] for line in arff.splitlines() if line.upper().startswith("@ATTRIBUTE")]
        features = [
            {
                "index": str(k),
                "name": name,
                "data_type": "nominal" if kind.startswith("{") else "numeric",
                "is_target": str(name in targets).lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for k, (name, kind) in enumerate(columns)
        ]
        rows = len(arff.split("@DATA\n")[1].splitlines())
        about = {
            "id": str(number),
            "name": "yeast",
            "version": "4",
            "description": "Genes.",
            "format": "ARFF",
            "status": "active",
            "file_id": "1",
            "url": "https://openml.invalid/data/v1/download/1/yeast.arff",
            "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
        }
        self.answers = {
            f"json/data/{number}": json.dumps({"data_set_description": about}),
            f"json/data/features/{number}": json.dumps({"data_features": {"feature": features}}),
            f"json/data/qualities/{number}": json.dumps(
                {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(rows)}]}}
            ),
            "download/1/yeast.arff": arff,
        }

    def __call__(self, request, *args, **kwargs):
        url = request.full_url
        self.calls.append(url)
        for end, text in self.answers.items():
            if url.endswith(end):
                answer = io.BytesIO(text.encode())
                answer.info = dict  # no headers
                return answer
        error = io.BytesIO(json.dumps({"error": {"code": "372", "message": "No results"}}).encode())
        raise HTTPError(url, 412, "No results", {}, error)


@pytest.fixture
def openml(monkeypatch):
    local = LocalOpenML(40597, OPENML_ARFF, ["c1", "c2"])
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", local)
    return local


def test_fetch_and_cache(openml, tmp_path, monkeypatch):
    data = so.data.fetch("yeast", folder=tmp_path)
    assert data.y.tolist() == [[1, 0], [0, 0], [1, 1]] and data.label_names.tolist() == ["c1", "c2"]
    assert data.feature_names.tolist() == ["a", "colour=red", "colour=green"]
    assert data.X.tolist() == [[0.5, 0, 1], [1.5, 1, 0], [-1, 0, 1]]
    assert "Genes." in data.description
    asked = len(openml.calls)
    monkeypatch.setenv("STRUCTOPT_CACHE", str(tmp_path))
    assert so.data.fetch(40597).X.tolist() == data.X.tolist()
    assert len(openml.calls) == asked, "the second time comes from the cache"


def test_fetch_one_target(openml, tmp_path):
    data = so.data.fetch("yeast", target="colour", folder=tmp_path)
    assert data.y.tolist() == ["green", "red", "green"] and data.label_names.tolist() == ["green", "red"]
    # The two other nominal columns are features now.
    assert data.X.shape == (3, 5)


def test_fetch_unknown(openml, tmp_path):
    with pytest.raises(DeclarationError, match="'nothing'"):
        so.data.fetch("nothing", folder=tmp_path)


def test_fetch_without_network(monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise URLError("no network here")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", refuse)
    with pytest.warns(UserWarning), pytest.raises(ConnectionError, match="STRUCTOPT_CACHE"):
        so.data.fetch("yeast", folder=tmp_path)


def test_sparse_features_have_indices_of_32_bits(tmp_path):
    """LIBLINEAR takes no others."""
    (tmp_path / "a.svm").write_text("1 1:2 3:1\n0 2:1\n1 1:1\n0 3:2\n", encoding="utf-8")
    (tmp_path / "a.arff").write_text(
        "@relation r\n@attribute a numeric\n@attribute b numeric\n@attribute c {0,1}\n@data\n1,2,0\n0,1,1\n",
        encoding="utf-8",
    )
    X = sp.csr_array(np.eye(3))
    parts = {"X_data": X.data, "X_indices": X.indices.astype(np.int64), "X_indptr": X.indptr.astype(np.int64)}
    np.savez(tmp_path / "a.npz", **parts, X_shape=np.array(X.shape), y=np.zeros(3, dtype=np.int64))
    for found in (
        so.data.read_svmlight(tmp_path / "a.svm"),
        so.data.read_arff(tmp_path / "a.arff", labels=["c"]),
        so.data.read_npz(tmp_path / "a.npz"),
    ):
        assert found["X"].indices.dtype == found["X"].indptr.dtype == np.int32

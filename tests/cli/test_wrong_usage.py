"""The command line on wrong input: every mistake is one line that names it and its correction, with exit code 2."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import structopt as so

TABLE = "a,b,y\n" + "".join(f"{k},{k % 3},{'ham' if k > 9 else 'spam'}\n" for k in range(20))
LINEAR = '[train]\nestimator = "LinearSVM"\nmax_passes = 20\n'
MRF = '[model]\nstructure = "PairwiseMRF"\n'
SEVERAL = (
    "@relation yeast\n@attribute x real\n"
    + "".join(f"@attribute Class{k} {{0,1}}\n" for k in range(3))
    + "@data\n"
    + "".join(f"{k},{k % 2},{k // 2 % 2},1\n" for k in range(8))
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ok.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def write(path: str, content: str | bytes) -> str:
    Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "options", "said"),
    [
        ("d.csv", "a,b,y\n", "", "nothing to learn from"),
        ("d.csv", bytes(range(256)), "", "d.csv, line 1: .* is the file binary"),
        ("d.csv", "a,b,y\n1,,0\n2,3,1\n", "", "example 0 has missing numbers; say with missing ="),
        ("d.csv", TABLE, 'ignore = ["q"]', "no column 'q'"),
        ("d.csv", TABLE, "labels = 99", "99 of them cannot be labels"),
        ("d.csv", TABLE, 'scale = "big"', 'scale is true, false or "standard"'),
        ("d.csv", TABLE, "scale = 3", "scale must be true or false or a string"),
        ("d.csv", TABLE, "lables = -1", "did you mean 'labels'"),
        ("d.arff", SEVERAL, "labels = -4", "has the value '2'.*labels = -14"),
        ("d.conll", "Ada\nsleeps\n", "", "no labels; say with labels ="),
    ],
)
def test_data_that_cannot_be_read(run, here, name, content, options, said) -> None:
    write(name, content)
    write("c.toml", f'[data]\ntrain = "{name}"\n{options}\n{LINEAR}')
    code, out, err = run("train", "c.toml")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err == " ".join(err.split(" ")) and re.search(said, err), err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "nowhere.toml"], "no configuration 'nowhere.toml'"),
        (["train", "utf16.toml"], "utf16.toml is not UTF-8 text; save it as UTF-8"),
        (["train", "good.toml", "--output", "no/m.npz"], "no folder 'no'"),
        (["train", "good.toml", "--output", "."], "is a folder; name a file"),
        (["predict", "nowhere.npz", "ok.csv"], "no saved estimator 'nowhere.npz'"),
        (["predict", "ok.csv", "ok.csv", "--output", "no/where"], "--output: there is no folder 'no'"),
        (["solve", "ok.lp", "--costs", "latin.txt"], "latin.txt does not hold objective coefficients"),
        (["solve", "ok.lp", "--costs", "nowhere.json"], "no file 'nowhere.json'"),
        (["solve", "ok.lp", "--costs", "deep.json"], "deep.json does not hold objective coefficients"),
        (["solve", "bad.lp"], "bad.lp, line 4: '2' follows the right-hand side"),
        (["solve", "empty.mps"], "empty.mps: the file is empty"),
        (["solve", "folder.lp"], "is a folder"),
    ],
)
def test_files_and_places(run, here, words, said) -> None:
    write("good.toml", f'[data]\ntrain = "ok.csv"\n{LINEAR}')
    write("utf16.toml", "[data]\n".encode("utf-16"))
    write("ok.lp", "min\n x\nst\n r: x >= 2\nend\n")
    write("bad.lp", "min\n x\nst\n r: x >= 1 2\nend\n")
    write("latin.txt", b"\xe9")
    write("deep.json", "[" * 100_000)
    write("empty.mps", "")
    Path("folder.lp").mkdir()
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err


def test_several_labels_that_are_not_declared(run, here) -> None:
    """An ARFF file says nothing on its labels: the error says what to write."""
    write("d.arff", SEVERAL)
    write("c.toml", f'{MRF}[data]\ntrain = "d.arff"\n[train]\nmax_passes = 2\n')
    code, _, err = run("train", "c.toml")
    assert code == 2 and "labels = -14" in err
    write("c.toml", f'{MRF}[data]\ntrain = "d.arff"\nlabels = -3\n[train]\nmax_passes = 2\n')
    assert run("train", "c.toml")[0] == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_tables_of_every_system(ask, here, encoding, ending) -> None:
    write("d.csv", TABLE.replace("ham", "jambon fumé").replace("\n", ending).encode(encoding))
    write("c.toml", f'[data]\ntrain = "d.csv"\n{LINEAR}')
    assert ask("train", "c.toml")["train"]["examples"] == 20


def test_prices_are_scaled(run, ask, here) -> None:
    rng = np.random.default_rng(0)
    rooms, price = rng.integers(1, 6, 60), rng.normal(3e5, 5e4, 60)
    rows = [f"{p:.0f},{r},{int(p / 5e4 + r > 9)}" for p, r in zip(price, rooms, strict=True)]
    write("houses.csv", "\n".join(["price,rooms,sold", *rows]) + "\n")
    words = '[data]\ntrain = "houses.csv"\n{}\n[train]\nestimator = "LinearSVM"\nlam = 1e-3\nmax_passes = 300\n'
    write("plain.toml", words.format(""))
    write("scaled.toml", 'output = "m.npz"\n' + words.format("scale = true"))
    code, out, err = run("train", "plain.toml", "--json")
    assert code == 0 and "columns price and rooms differ" in err and "scale = true" in err
    without = json.loads(out)["train"]["score"]
    code, out, err = run("train", "scaled.toml", "--json")
    assert code == 0 and "differ" not in err
    score = json.loads(out)["train"]["score"]
    assert score > 0.95 and score >= without
    # The scale travels with the model.
    assert ask("predict", "m.npz", "houses.csv")["measures"]["score"] == pytest.approx(score)
    assert so.load("m.npz").data_options_["scale"]["center"].shape == (2,)
    code, _, err = run("predict", "m.npz", "ok.csv")  # its labels are words
    assert code == 2 and "not of the kind that LinearSVM learned" in err and err.count("\n") == 1
    assert run("predict", "m.npz", "ok.csv", "--no-labels")[0] == 2  # three columns of features, then
    write("wide.csv", "a,b,c,y\n1,2,3,0\n")
    code, _, err = run("predict", "m.npz", "wide.csv")
    assert code == 2 and "3 features, and the scale was learned from 2" in err
    write("never.toml", words.format("scale = false"))
    assert "differ" not in run("train", "never.toml")[2]


def test_scaling_of_every_kind_of_input() -> None:
    import scipy.sparse as sp

    from structopt.cli._scaling import learn_scale, scaled

    X = np.random.default_rng(0).normal([5, 1e6, 0], [1, 1e5, 2], size=(50, 3))
    X[:, 2] = 7.0  # a constant
    dense = scaled(X, learn_scale(X))
    np.testing.assert_allclose(dense[:, :2].std(axis=0), 1)
    np.testing.assert_allclose(dense[:, 2], 0, atol=1e-12)
    np.testing.assert_allclose(scaled(sp.csr_array(X), learn_scale(sp.csr_array(X))), dense, atol=1e-6)
    parts = [X[:20], X[20:]]
    np.testing.assert_allclose(np.concatenate(scaled(parts, learn_scale(parts))), dense)
    thin = sp.random_array((100, 20), density=0.05, rng=np.random.default_rng(1), format="csr")
    found = scaled(thin, learn_scale(thin))
    assert sp.issparse(found) and found.nnz == thin.nnz


def test_entities_are_reported(run, ask, here) -> None:
    write("tags.conll", "Ada B-PER\nL I-PER\nsleeps O\n\nBob B-PER\nruns O\n\n" * 8)
    write("c.toml", 'output = "m.npz"\n[data]\ntrain = "tags.conll"\ntest = 0.25\n[train]\nestimator = "CRF"\n')
    report = ask("train", "c.toml")
    assert report["train"]["entity_f1"] == report["test"]["entity_f1"] == 1
    measures = ask("predict", "m.npz", "tags.conll")["measures"]
    assert {"entity_f1", "entity_precision", "entity_recall"} < set(measures) and measures["entities"] == 16
    write("words.conll", "Ada\nsleeps\n")
    code, out, err = run("predict", "m.npz", "words.conll")
    assert code == 0 and err == "" and json.loads(out)[0] == "B-PER"

"""``structopt train`` with every estimator: the file predicts as the estimator does, and mistakes name their key."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt import estimators
from structopt.cli._config import read_config
from structopt.cli._estimators import ESTIMATORS, NOT_KEYS, keys_of

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3)).round(3)
SCORE = X @ np.array([1.0, -1.0, 0.5])
QUERY = np.repeat(np.arange(12), 5)[RNG.permutation(60)]  # queries are not in one piece


def _table(path: Path, *columns: Any, names: str) -> None:
    rows = zip(*(np.asarray(column).astype(str) for column in columns), strict=True)
    path.write_text(names + "\n" + "\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One file for each kind of label."""
    classes = np.array(["ham", "spam"])[(SCORE > 0).astype(int)]
    leaves = np.array(["cat", "dog", "oak"])[np.digitize(SCORE, [-0.7, 0.7])]
    _table(tmp_path / "classes.csv", *X.T, classes, names="a,b,c,kind")
    _table(tmp_path / "leaves.csv", *X.T, leaves, names="a,b,c,kind")
    _table(tmp_path / "numbers.csv", *X.T, SCORE.round(3), names="a,b,c,price")
    _table(tmp_path / "levels.csv", *X.T, np.digitize(SCORE, [-0.7, 0.7]), names="a,b,c,level")
    _table(tmp_path / "queries.csv", QUERY, *X.T, np.digitize(SCORE, [0.0]), names="user,a,b,c,relevance")
    _table(tmp_path / "rows.csv", *X.T, *(X > 0).astype(int).T, names="a,b,c,first,second,third")
    lines = [f"{int(y)} qid:{q + 1} 1:{x[0]} 2:{x[1]}" for x, y, q in zip(X, SCORE > 0, QUERY, strict=True)]
    (tmp_path / "queries.svm").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "tree.arff").write_text(
        "@relation h\n@attribute x numeric\n@attribute y numeric\n@attribute class hierarchical a,a/b,c\n@data\n"
        + "\n".join(["1,0,a/b", "0,1,c", "1,1,a/b@c"] * 8),
        encoding="utf-8",
    )
    (tmp_path / "tags.conll").write_text(
        "Ada B-PER\nLovelace I-PER\nsleeps O\n\nBob B-PER\nruns O\n\n" * 4, encoding="utf-8"
    )
    (tmp_path / "broken.csv").write_text("a,b,kind\n1,2,ham\n?,4,spam\n", encoding="utf-8")
    return tmp_path


TREE = 'hierarchy = [["thing", "animal"], ["thing", "oak"], ["animal", "cat"], ["animal", "dog"]]'
BIO = 'structure = "Chain"\ntransitions = "bio"'
#: Estimator, [data], further keys of [train], the least score of the training data, and [model].
RUNS = [
    ("LinearSVM", 'train = "classes.csv"', 'loss = "squared_hinge"\nintercept = true', 0.9, ""),
    ("LinearSVM", 'train = "leaves.csv"\ntest = 0.25', 'multi_class = "crammer_singer"', 0.7, ""),
    ("AUCMaximizer", 'train = "classes.csv"', "", 0.95, ""),
    ("FBetaSVM", 'train = "classes.csv"', "beta = 2", 0.9, ""),
    ("QuantileRegressor", 'train = "numbers.csv"', "tau = 0.5", 0.9, ""),
    ("OrdinalRegressor", 'train = "levels.csv"', 'cost = "linear"', 0.8, ""),
    ("RankSVM", 'train = "levels.csv"', "", 0.9, ""),
    ("RankSVM", 'train = "queries.csv"\nquery = "user"\ntest = 0.25', "", 0.9, ""),
    ("RankSVM", 'train = "queries.svm"', 'measure = "ndcg"', 0.8, ""),
    ("CRF", 'train = "tags.conll"\nn_features = 64', 'transitions = "bio"', 1.0, ""),
    ("HierarchicalSVM", 'train = "tree.arff"', "lam = 0.001", 1.0, ""),
    ("HierarchicalSVM", 'train = "leaves.csv"', f'normalization = "maxmin"\n{TREE}', 0.7, ""),
    ("SharedSVM", 'train = "leaves.csv"', f"max_rounds = 2\n{TREE}", 0.7, ""),
    ("StructuredSVM", 'train = "tree.arff"', "lam = 0.001", 1.0, 'structure = "HierarchicalLabels"'),
    ("StructuredSVM", 'train = "tags.conll"\nn_features = 64', "lam = 0.001", 1.0, BIO),
]


def _write(folder: Path, estimator: str, data: str, train: str, model: str = "") -> Path:
    path = folder / "config.toml"
    section = f"[model]\n{model}\n" if model else ""
    given = train if "tol" in train or estimator == "ConditionalRiskMinimizer" else f"{train}\ntol = 0.01"
    path.write_text(
        f'output = "m.npz"\n{section}[data]\n{data}\n[train]\nestimator = "{estimator}"\n{given}\n', encoding="utf-8"
    )
    return path


@pytest.mark.parametrize(("estimator", "data", "train", "least", "model"), RUNS)
def test_train_and_predict(ask, folder, estimator, data, train, least, model):
    report = ask("train", _write(folder, estimator, data, train, model))
    assert report["estimator"] == estimator and report["converged"] and report["gap"] <= 0.01
    assert report["score_is"] == ESTIMATORS[estimator].score
    assert "HierarchicalLabels" not in model or "closure" in report["model"]
    assert report["train"]["score"] >= least and (report["test"] is None) == ("test" not in data)
    loaded = so.load(folder / "m.npz")
    assert type(loaded).__name__ == estimator
    file = folder / data.split('"')[1]
    found = ask("predict", folder / "m.npz", file)
    assert found["measures"]["score"] >= min(least, report["train"]["score"]) - 0.15
    if "test" not in data:
        assert found["measures"]["score"] == pytest.approx(report["train"]["score"])
    assert len(found["predictions"]) == found["examples"]
    about = ask("inspect", folder / "m.npz")
    assert about["estimator"] == estimator and about["gap"] == report["gap"]


def test_predictions_are_the_estimators(ask, folder):
    ask("train", _write(folder, "LinearSVM", 'train = "leaves.csv"', "lam = 0.01\nrandom_state = 1"))
    leaves = np.array(["cat", "dog", "oak"])[np.digitize(SCORE, [-0.7, 0.7])]
    svm = so.LinearSVM(lam=0.01, tol=0.01, random_state=1).fit(X, leaves)
    assert ask("predict", folder / "m.npz", folder / "leaves.csv")["predictions"] == svm.predict(X).tolist()


def test_queries_are_kept_apart(ask, folder):
    """The documents of a query, scattered over the file, are compared with each other and printed on one line."""
    config = _write(folder, "RankSVM", 'train = "queries.csv"\nquery = "user"', "lam = 0.01")
    report = ask("train", config)
    svm = so.RankSVM(lam=0.01, tol=0.01).fit(X, np.digitize(SCORE, [0.0]), query=QUERY)
    assert report["objective"] == pytest.approx(svm.result_.objective, rel=0.02)
    assert report["train"] == {"examples": 12, "score": report["train"]["score"]}
    found = ask("predict", folder / "m.npz", folder / "queries.csv")["predictions"]
    scores = so.load(folder / "m.npz").predict(X)
    first = QUERY[0]
    assert found[0] == pytest.approx(scores[first == QUERY].tolist()) and sorted(map(len, found)) == [5] * 12


def test_conditional_risk(run, ask, folder):
    config = _write(
        folder,
        "ConditionalRiskMinimizer",
        'train = "rows.csv"\nlabels = -3\ntest = 0.25',
        'kernel = "rbf"\nlam = [0.001, 0.1]',
        'structure = "MultiLabel"',
    )
    report = ask("train", config)
    assert report["lam"] in (0.001, 0.1) and report["train"]["micro_f1"] > 0.9 and "gap" not in report
    found = ask("predict", folder / "m.npz", folder / "rows.csv")
    assert np.mean(np.array(found["predictions"]) == (X > 0)) > 0.85
    code, out, err = run("predict", folder / "m.npz", folder / "rows.csv", "--names")
    assert code == 0 and set(json.loads(out.splitlines()[0])) <= {"first", "second", "third"} and "score" in err


def test_conditional_risk_of_a_model_that_only_its_file_can_rebuild(run, ask, folder):
    """Said before the training, since the estimator could not be saved after it."""
    source = so.load_model("taxonomy_exclusions").path.read_text(encoding="utf-8")
    own = source.replace("loss=so.losses.Hamming())", "loss=so.losses.Hamming(), decode=np.rint)")
    (folder / "own.py").write_text(own, encoding="utf-8")
    config = _write(folder, "ConditionalRiskMinimizer", "generate = 20", "", 'path = "own.py"')
    code, _, err = run("train", config)
    assert code == 2 and "output of config.toml" in err and "decode is a function" in err
    assert not (folder / "m.npz").exists()
    declared = _write(folder, "ConditionalRiskMinimizer", "generate = 20", "", 'name = "taxonomy_exclusions"')
    ask("train", declared)
    assert so.load(folder / "m.npz").model.space().name == "topics"


def test_for_people(run, ask, folder):
    code, out, err = run("train", _write(folder, "AUCMaximizer", 'train = "classes.csv"', "max_passes = 2\ntol = 1e-9"))
    assert code == 0 and "area under the ROC curve" in out and "train score" in out
    assert err.startswith("structopt: stopped before the gap reached tol") and err.count("\n") == 1
    config = _write(folder, "LinearSVM", 'train = "classes.csv"', "")
    report = ask("train", config, "--set", "estimator=FBetaSVM", "--set", "intercept=false")
    assert report["estimator"] == "FBetaSVM" and so.load(folder / "m.npz").intercept is False


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_a_key(name):
    """A parameter that an estimator gains is a key of [train], or is said not to be."""
    parameters = set(inspect.signature(getattr(estimators, name)).parameters)
    assert parameters - set(NOT_KEYS) == set(keys_of(name)) - {"estimator"}


def test_every_estimator_can_be_trained():
    exported = {name for name in estimators.__all__ if hasattr(getattr(estimators, name), "fit")}
    assert exported == set(ESTIMATORS)


CLASSES = 'train = "classes.csv"'


@pytest.mark.parametrize(
    ("estimator", "data", "train", "model", "said"),
    [
        ("Nope", CLASSES, "", "", "[train] of config.toml: there is no estimator 'Nope'; choose one of StructuredSVM"),
        ("LinearSVM", CLASSES, "", 'name = "a"', "[model] of config.toml: LinearSVM has no model"),
        ("LinearSVM", CLASSES, "surrogate = 1", "", "[train] of config.toml (LinearSVM) has no key 'surrogate'"),
        ("LinearSVM", CLASSES, "lmd = 1", "", "did you mean 'lam'"),
        ("LinearSVM", CLASSES, "lam = -1", "", "lam"),
        ("AUCMaximizer", CLASSES, "tol = -1", "", "tol"),
        ("LinearSVM", CLASSES, 'loss = "nope"', "", "loss must be 'hinge' or 'squared_hinge'"),
        ("LinearSVM", CLASSES, "intercept = 1", "", "intercept must be true or false, got 1"),
        ("LinearSVM", 'train = "rows.csv"\nlabels = -3', "", "", "[data] of config.toml: LinearSVM learns one label"),
        ("LinearSVM", 'train = "tags.conll"', "", "", "labels = gives sequences"),
        ("LinearSVM", 'train = "broken.csv"', "", "", "[data] of config.toml: example 1 has missing numbers"),
        ("AUCMaximizer", 'train = "leaves.csv"', "", "", "binary"),
        ("QuantileRegressor", CLASSES, "", "", "QuantileRegressor learns numbers, and labels = gives"),
        ("QuantileRegressor", 'train = "numbers.csv"', "tau = 2", "", "tau is a quantile"),
        ("OrdinalRegressor", 'train = "levels.csv"', "cost = [[1]]", "", "cost"),
        ("RankSVM", 'train = "queries.csv"\nquery = "nobody"', "", "", "query = 'nobody' is neither a column"),
        ("RankSVM", 'train = "levels.csv"', 'measure = "nope"', "", "measure"),
        ("CRF", CLASSES, "", "", "[data] of config.toml: CRF learns sequences"),
        ("HierarchicalSVM", CLASSES, "", "", "[train] of config.toml: HierarchicalSVM needs hierarchy ="),
        ("HierarchicalSVM", 'train = "leaves.csv"', f'{TREE}\nmargin = "wide"', "", "margin must be 'auto', 'hamming'"),
        ("SharedSVM", 'train = "leaves.csv"', 'hierarchy = ["a"]\nmax_rounds = "many"', "", "max_rounds must be"),
        ("ConditionalRiskMinimizer", CLASSES, "", "", "[model] of config.toml needs one of"),
        ("ConditionalRiskMinimizer", CLASSES, 'kernel = "nope"', 'structure = "Multiclass"', "kernel"),
        ("StructuredSVM", CLASSES, "", 'structure = "Multiclass"\nclasses = 3.5', "[model] of config.toml"),
    ],
)
def test_mistakes_name_their_key(run, folder, estimator, data, train, model, said):
    code, out, err = run("train", _write(folder, estimator, data, train, model))
    assert code == 2 and not out and err.count("\n") == 1 and said in err, err


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "command_line.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S) if PAGE.is_file() else []


@pytest.mark.parametrize("text", EXAMPLES)
def test_documented_configurations(tmp_path, text):
    """Every key of the how-to's examples is one, with a value of its type."""
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    assert read_config(path).estimator in ESTIMATORS


def test_every_kind_of_data_is_documented():
    assert not EXAMPLES or [name for name in ESTIMATORS if f'"{name}"' not in " ".join(EXAMPLES)] == []


def test_labels_outside_their_space_are_one(run, folder):
    code, _, err = run("train", _write(folder, "HierarchicalSVM", CLASSES, TREE))
    assert code == 1 and "'ham' is not a node" in err


def test_prediction_from_another_kind_of_file(run, ask, folder):
    ask("train", _write(folder, "LinearSVM", CLASSES, ""))
    code, _, err = run("predict", folder / "m.npz", folder / "queries.csv")
    assert code == 2 and "4 features" in err and err.count("\n") == 1

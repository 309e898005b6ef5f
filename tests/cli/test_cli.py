"""The command line: answers, exit codes, one-sentence errors, JSON, and training from every kind of file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import structopt as so
from structopt.backends import available_profiles
from structopt.cli import COMMANDS

KNAPSACK = """max
 obj: 5 x + 4 y + 3 z + 10
st
 weight: 2 x + 3 y + z <= 5
 pair: x + z <= 1
bin
 x y z
end
"""


@pytest.fixture
def knapsack(tmp_path) -> Path:
    path = tmp_path / "knapsack.lp"
    path.write_text(KNAPSACK, encoding="utf-8")
    return path


# ---- solve ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "highs", "scipy", "cbc"])
def test_solve_file(ask, knapsack, solver):
    found = ask("solve", knapsack, "--solver", solver)
    assert found["value"] == pytest.approx(19) and found["bound"] == pytest.approx(19)
    assert found["status"] == "optimal" and found["sense"] == "maximize"
    assert found["variables"] == pytest.approx({"x": 1, "y": 1})


def test_solve_minimises_what_the_file_minimises(ask, tmp_path):
    path = tmp_path / "cover.lp"
    path.write_text("min\n obj: 2 a + 3 b + 7\nst\n c: a + b >= 1\nbin\n a b\nend\n", encoding="utf-8")
    found = ask("solve", path)
    assert found["sense"] == "minimize" and found["value"] == pytest.approx(9) and found["variables"] == {"a": 1.0}
    mps = tmp_path / "cover.mps"
    so.LabelSpace.read(path).write(mps)
    costs = tmp_path / "costs.json"
    costs.write_text('{"a": 5, "b": 3}', encoding="utf-8")
    found = ask("solve", mps, "--costs", costs, "--minimize")
    assert found["value"] == pytest.approx(3) and found["variables"] == {"b": 1.0}
    costs.with_suffix(".txt").write_text("5 3\n", encoding="utf-8")
    assert ask("solve", mps, "--costs", costs.with_suffix(".txt"))["value"] == pytest.approx(8)


def test_solve_options(ask, knapsack):
    relaxed = ask("solve", knapsack, "--relax")
    assert relaxed["value"] >= 19 - 1e-9
    best = ask("solve", knapsack, "--k-best", 3, "--all", "--option", "mip_gap=0.0", "--time-limit", 20)
    assert [answer["value"] for answer in best["k_best"]] == pytest.approx([19, 17, 15])
    assert set(best["variables"]) == {"x", "y", "z"}


def test_solve_shipped_model(ask):
    found = ask("solve", "named_entities", "--example", 2, "--seed", 1)
    model, (X, _) = so.load_model("named_entities").model, so.load_model("named_entities").data(100, 1)
    w = np.random.default_rng(1).normal(size=model.n_weights(X[2]))
    assert found["label"] == model.predict(w, X[2]) and found["solver"] == "Viterbi"
    assert ask("solve", "named_entities", "--example", 2, "--seed", 1, "--solver", "highs")["value"] == pytest.approx(
        found["value"]
    )


def test_solve_for_people(run, knapsack):
    code, out, err = run("solve", knapsack)
    assert code == 0 and not err
    assert "status    optimal" in out and "value     19" in out and "  x = 1\n" in out and "z =" not in out


# ---- inspect and lists ---------------------------------------------------------------------------


def test_inspect_file(ask, tmp_path):
    path = tmp_path / "tree.mps"
    space = so.LabelSpace("tree")
    y = space.binary("y", 3)
    space.subject_to(y[1] <= y[0], y[2] <= y[0])
    space.write(path)
    found = ask("inspect", path)
    assert (found["variables"], found["binary"], found["rows"], found["non_zeros"]) == (3, 3, 2, 4)
    assert found["structure"] == "closure" and found["oracle"] == so.Oracle(space).algorithm
    assert found["integrality"] == "every vertex of the LP is integral"


@pytest.mark.parametrize("name", sorted(so.available_models())[::3])
def test_inspect_shipped(ask, name):
    found = ask("inspect", name)
    loaded = so.load_model(name)
    x = loaded.data()[0][0]
    assert found["oracle"] == loaded.model.oracle(x).algorithm
    assert found["variables"] == loaded.model.space(x).n_variables and found["weights"] == loaded.model.n_weights(x)


def test_inspect_names_lazy_rows(ask, run):
    assert ask("inspect", "tours")["lazy_rows"] == "subtours"
    assert ask("inspect", "shared_rides")["lazy_rows"] == "odd sets"
    assert ask("inspect", "budgeted_tagger").get("lazy_rows") is None
    assert "subtours" in run("inspect", "tours")[1]


def test_inspect_tells_the_size_of_the_diagram(ask, run):
    diagram = so.compile_space(so.load_model("budgeted_tagger").model.space())
    assert ask("inspect", "budgeted_tagger")["diagram"] == diagram.summary
    for part in "444 labels", f"{diagram.n_arcs} arcs", f"width {diagram.width}":
        assert part in run("inspect", "budgeted_tagger")[1]


def test_inspect_tells_the_diagram_of_a_product(ask, tmp_path):
    space = so.LabelSpace("a chosen class, and a budget")
    y, item = space.binary("y", 3), space.binary("item", 16)
    space.subject_to(y.sum() == 1, np.arange(1, 17) @ item <= 30, item[::2].sum() <= 2)
    space.write(tmp_path / "two.mps")
    assert ask("inspect", tmp_path / "two.mps")["diagram"] == so.compile_space(space).summary


def test_inspect_tells_why_a_diagram_is_refused(ask, tmp_path):
    space = so.LabelSpace("three dense rows")
    item = space.binary("item", 40)
    space.subject_to(np.random.default_rng(0).integers(1, 1000, (3, 40)) @ item <= 8000, name="weight")
    space.write(tmp_path / "wide.mps")
    assert ask("inspect", tmp_path / "wide.mps")["diagram"].startswith("refused (width): ")


def test_own_model_without_data(ask, run, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import structopt as so\n"
        "space = so.LabelSpace('own')\n"
        "y = space.binary('y', 2)\n"
        "space.subject_to(y.sum() <= 1)\n"
        "MODEL = so.Model(space, {'y': so.features.Linear()}, so.losses.Hamming())\n",
        encoding="utf-8",
    )
    assert ask("inspect", path)["variables"] == 2
    code, _, err = run("solve", path)
    assert code == 2 and "--costs" in err
    (tmp_path / "c.json").write_text("[1, 2]", encoding="utf-8")
    assert ask("solve", path, "--costs", tmp_path / "c.json")["label"] == [0, 1]


def test_lists(ask, run):
    solvers = {row["name"]: row for row in ask("solvers")}
    for name, profile in available_profiles().items():
        assert solvers[name]["usable"] == (profile.unavailable() is None)
        assert solvers[name]["usable"] or (solvers[name]["missing"] and solvers[name]["install"])
    assert ask("models") == so.available_models()
    code, out, _ = run("solvers")
    assert code == 0 and "highs" in out
    code, out, _ = run("models")
    assert code == 0 and len(out.splitlines()) == len(so.available_models())


def test_benchmarks_have_a_command_of_their_own(run):
    code, _, err = run("bench", "train")
    assert code == 2 and "python benchmarks/run.py" in err


# ---- errors --------------------------------------------------------------------------------------


def test_infeasible_is_one(run, tmp_path):
    path = tmp_path / "empty.lp"
    path.write_text("max\n obj: x\nst\n low: x + y >= 3\nbin\n x y\nend\n", encoding="utf-8")
    code, out, err = run("solve", path, "--json")
    assert code == 1
    said = json.loads(out)
    assert said["kind"] == "InfeasibleSpace" and "low" in str(said["rows"])
    assert err.startswith("structopt: ") and err.count("\n") == 1 and "Traceback" not in err


def test_unbounded_is_one(run, tmp_path):
    path = tmp_path / "free.lp"
    path.write_text("max\n obj: x\nst\n c: x - y <= 3\nend\n", encoding="utf-8")
    code, _, err = run("solve", path)
    assert code == 1 and "x" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["solve", "nowhere.mps"], "nowhere.mps"),
        (["solve", "named_entitys"], "named_entities"),
        (["solve", "named_entities", "--example", "-1"], "counts from 0"),
        (["solve", "vertex_cover", "--solver", "nope"], "no solver profile 'nope'"),
        (["solve", "vertex_cover", "--k-best", "0"], "at least 1"),
        (["train", "nowhere.toml"], "nowhere.toml"),
        (["predict", "nowhere.npz", "x.csv"], "nowhere.npz"),
    ],
)
def test_wrong_use_is_two(run, words, said):
    code, out, err = run(*words)
    assert code == 2 and said in err and not out and err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["nope"], ["solve"], ["solve", "x.mps", "--option", "novalue"]])
def test_argparse_is_two(run, words):
    code, _, err = run(*words)
    assert code == 2 and "usage: structopt" in err


@pytest.mark.parametrize("command", ["", *(c.__name__.split(".")[-1].replace("ing", "") for c in COMMANDS)])
def test_help_has_examples(run, command):
    code, out, _ = run(*command.split(), "--help")
    assert code == 0 and "examples:\n  structopt " in out


def test_as_a_module(knapsack):
    command = [sys.executable, "-m", "structopt", "solve", str(knapsack), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["value"] == pytest.approx(19)


# ---- train and predict ---------------------------------------------------------------------------


def _rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    W = np.random.default_rng(9).normal(size=(4, 3))
    return X.round(3), (X @ W > 0).astype(int)


def _csv(path: Path, n: int, seed: int) -> None:
    X, Y = _rows(n, seed)
    lines = [",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    path.write_text("a,b,c,d,first,second,third\n" + "\n".join(lines) + "\n", encoding="utf-8")


def _config(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_train_and_predict_csv(ask, run, tmp_path):
    _csv(tmp_path / "train.csv", 60, 0)
    _csv(tmp_path / "test.csv", 30, 1)
    config = _config(
        tmp_path,
        'output = "mrf.npz"\n[model]\nstructure = "PairwiseMRF"\nintercept = true\n'
        '[data]\ntrain = "train.csv"\ntest = "test.csv"\nlabels = ["first", "second", "third"]\n'
        '[train]\nsurrogate = "slack"\nlam = 0.01\ntol = 0.01\n',
    )
    report = ask("train", config)
    assert report["converged"] and report["gap"] <= 0.01 and report["train"]["examples"] == 60
    estimator = so.load(tmp_path / "mrf.npz")
    X, Y = _rows(30, 1)
    assert estimator.surrogate == "slack" and estimator.model.space().n_variables == 3 + 3
    assert report["test"]["score"] == pytest.approx(estimator.score(X, Y)) and report["test"]["score"] > 0.8
    assert report["test"]["micro_f1"] == pytest.approx(so.metrics.micro_f1(Y, estimator.predict(X)))

    found = ask("predict", tmp_path / "mrf.npz", tmp_path / "test.csv")
    assert found["predictions"] == estimator.predict(X).tolist()
    assert found["measures"]["score"] == pytest.approx(report["test"]["score"])
    code, out, err = run("predict", tmp_path / "mrf.npz", tmp_path / "test.csv", "--names")
    assert code == 0 and "score" in err
    named = [json.loads(line) for line in out.splitlines()]
    assert named == [[("first", "second", "third")[k] for k in np.flatnonzero(row)] for row in estimator.predict(X)]

    np.savetxt(tmp_path / "new.csv", X, delimiter=",", fmt="%.3f")
    code, out, err = run("predict", tmp_path / "mrf.npz", tmp_path / "new.csv", "--no-labels")
    assert code == 0 and not err and [json.loads(line) for line in out.splitlines()] == found["predictions"]
    target = tmp_path / "labels.jsonl"
    assert ask("predict", tmp_path / "mrf.npz", tmp_path / "test.csv", "--output", target)["output"] == str(target)
    assert [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()] == found["predictions"]

    about = ask("inspect", tmp_path / "mrf.npz")
    assert about["estimator"] == "StructuredSVM" and about["gap"] <= 0.01 and about["surrogate"] == "slack"
    other = ask("train", config, "--set", "surrogate=margin", "--set", "tol=0.1", "--output", tmp_path / "other.npz")
    assert other["output"].endswith("other.npz") and so.load(tmp_path / "other.npz").tol == 0.1


def test_train_on_a_shipped_model(ask, run, tmp_path):
    config = _config(
        tmp_path,
        'output = "ner.npz"\n[model]\nname = "named_entities"\n'
        "[data]\ngenerate = 40\ntest = 0.25\n[train]\ntol = 0.1\n",
    )
    report = ask("train", config)
    assert (report["train"]["examples"], report["test"]["examples"]) == (30, 10) and report["gap"] <= 0.1
    found = ask("predict", tmp_path / "ner.npz", "--generate", 3, "--seed", 5)
    X, _ = so.load_model("named_entities").data(3, 5)
    assert found["predictions"] == so.load(tmp_path / "ner.npz").predict(X)
    found = ask("predict", tmp_path / "ner.npz", "--generate", 100, "--seed", 5)
    for k in (0, 7):
        solved = ask("solve", "named_entities", "--weights", tmp_path / "ner.npz", "--seed", 5, "--example", k)
        assert solved["label"] == found["predictions"][k]
    code, out, _ = run("train", config)
    assert code == 0 and "test score" in out and "lower bound" in out


def test_warm(ask, run, tmp_path):
    """A rehearsal of a model or a configuration: what it reached is compiled, and nothing is saved."""
    config = _config(
        tmp_path,
        'output = "ner.npz"\n[model]\nname = "named_entities"\n'
        '[data]\ngenerate = 40\ntest = 0.25\n[train]\nsurrogate = "slack"\ncheckpoint = "run.npz"\n',
    )
    assert ask("warm", config)["kernels_compiled"] >= 0
    assert ask("warm", config)["kernels_compiled"] == 0  # they are there
    assert not (tmp_path / "ner.npz").exists() and not (tmp_path / "run.npz").exists()
    assert ask("warm", "vertex_cover", "--surrogate", "margin")["kernels_compiled"] >= 0
    code, _, err = run("warm", "no_such_model")
    assert code == 2 and "no_such_model" in err


def test_models_that_only_their_file_can_rebuild(ask, run, tmp_path):
    """A declared model is saved whole; one with functions by its name, and its file runs only if the user names it."""
    text = 'output = "m.npz"\n[model]\n{}\n[data]\ngenerate = 20\n[train]\ntol = 0.2\n'
    ask("train", _config(tmp_path, text.format('name = "taxonomy_exclusions"')))
    assert so.load(tmp_path / "m.npz").model.space().name == "topics"
    assert ask("predict", tmp_path / "m.npz", "--generate", 4)["measures"]["examples"] == 4

    own = tmp_path / "own.py"
    source = so.load_model("taxonomy_exclusions").path.read_text(encoding="utf-8")
    own.write_text(
        source.replace("loss=so.losses.Hamming())", "loss=so.losses.Hamming(), decode=np.rint)"), encoding="utf-8"
    )
    ask("train", _config(tmp_path, text.format('path = "own.py"')))
    assert so.load(tmp_path / "m.npz").model is None
    code, _, err = run("predict", tmp_path / "m.npz", "--generate", 4)
    assert code == 2 and "--model" in err and "own.py" in err
    assert ask("predict", tmp_path / "m.npz", "--generate", 4, "--model", own)["examples"] == 4


CLASSES = ("1 1:1\n2 2:1\n3 3:1\n" * 5, '[model]\nstructure = "Multiclass"\n', "")
FROM_ZERO = ("1 0:1\n2 1:1\n3 2:1\n" * 5, '[model]\nstructure = "Multiclass"\n', "zero_based = true\n")
QUERIES = (
    "".join(f"{k % 2} qid:{q} {1 + k % 2}:1 3:{k}\n" for q in range(4) for k in range(4)),
    "",
    '[train]\nestimator = "RankSVM"\n',
)


@pytest.mark.parametrize(
    ("training", "test", "labels"),
    [
        (CLASSES, "1 1:1\n2 2:1\n", [1, 2]),
        (FROM_ZERO, "2 1:1\n3 2:1\n", [2, 3]),
        (QUERIES, "1 qid:9 2:1\n0 qid:9 1:1\n", None),
    ],
    ids=["classes", "first feature missing", "queries"],
)
def test_svmlight_test_files_with_fewer_columns(ask, tmp_path, training, test, labels):
    text, model, options = training
    (tmp_path / "a.svm").write_text(text, encoding="utf-8")
    (tmp_path / "b.svm").write_text(test, encoding="utf-8")
    train = "" if "[train]" in options else "[train]\n"
    config = f'output = "m.npz"\n{model}[data]\ntrain = "a.svm"\ntest = "b.svm"\n{options}{train}lam = 0.001\n'
    assert ask("train", _config(tmp_path, config))["test"]["score"] == 1.0
    found = ask("predict", tmp_path / "m.npz", tmp_path / "b.svm")
    assert found["predictions"] == labels if labels else len(found["predictions"]) == 1


def test_train_on_sequences_and_missing_numbers(ask, tmp_path):
    X = np.eye(2)[[0, 1, 0, 0, 1] * 6]
    X[0, 0] = np.nan
    np.savez(tmp_path / "w.npz", X=X, y=[0, 1, 0, 0, 1] * 6, ends=[0, *np.cumsum([2, 3] * 6)])
    config = _config(
        tmp_path,
        '[model]\nstructure = "Chain"\n[data]\ntrain = "w.npz"\nsequences = "ends"\nmissing = 1.0\n'
        "[train]\nlam = 0.001\n",
    )
    report = ask("train", config)
    assert report["train"] == {"examples": 12, "score": 1.0} and "output" not in report


GOOD = {"model": 'structure = "PairwiseMRF"', "data": 'train = "train.csv"\nlabels = -3', "train": "lam = 0.1"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": ""}, "needs one of name"),
        ({"model": 'name = "a"\npath = "b.py"'}, "name and path"),
        ({"model": 'structure = "Nope"'}, "no structure 'Nope'"),
        ({"model": 'structure = "PairwiseMRF"\ncolour = 1'}, "no argument 'colour'"),
        ({"model": 'structure = "HierarchicalLabels"'}, "needs 'hierarchy'"),
        ({"model": 'path = "nowhere.py"'}, "nowhere.py"),
        ({"data": ""}, "needs train = a file"),
        ({"data": "generate = 5"}, "models with a data set"),
        ({"data": 'train = "nowhere.csv"'}, "nowhere.csv"),
        ({"data": 'train = "train.csv"\ntest = 2'}, "fraction"),
        ({"data": 'train = "train.csv"\nlabel = 2'}, "did you mean 'labels'"),
        ({"data": 'train = "train.csv"\nlabels = 0'}, "no labels"),
        ({"data": 'train = "train.csv"\nlabels = 1.5'}, "labels must be a whole number or a string or a list, got 1.5"),
        ({"data": 'train = "train.csv"\nmissing = "mean"'}, "missing must be"),
        ({"data": 'train = "train.csv"\nlabels = 7'}, "nothing to learn from"),
        ({"data": 'train = "train.csv"\ndelimiter = ";;"'}, "one character"),
        ({"model": 'path = "broken.py"', "data": "generate = 5"}, "ZeroDivisionError"),
        ({"model": "name = 3", "data": "generate = 5"}, "name must be a string"),
        ({"train": 'tol = "small"'}, "tol must be a number, got 'small'"),
        ({"train": "n_jobs = true"}, "n_jobs must be a whole number"),
        ({"train": "lambda = 1"}, "'lam'"),
        ({"train": 'trainer = "nope"'}, "no trainer called"),
        ({"train": 'surrogate = "nope"'}, "nope"),
        ({"train": "lam = = 1"}, "not TOML"),
        ({"tran": "x = 1"}, "did you mean 'train'"),
    ],
)
def test_wrong_configurations(run, tmp_path, change, said):
    _csv(tmp_path / "train.csv", 10, 0)
    (tmp_path / "broken.py").write_text("def model():\n    return 1 / 0\n", encoding="utf-8")
    sections = {**GOOD, **change}
    config = _config(tmp_path, "".join(f"[{name}]\n{text}\n" for name, text in sections.items()))
    code, out, err = run("train", config)
    assert code == 2 and said in err and not out and err.count("\n") == 1

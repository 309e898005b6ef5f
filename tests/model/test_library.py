"""Every model of ``models/``: data sets, training, and files of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.model.library import available_models, load_model

FOLDER = Path(__file__).resolve().parents[2] / "models"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
ISSUE = {
    "action_segments",
    "budgeted_tagger",
    "dag_multilabel",
    "dependency_trees",
    "document_ranking",
    "graph_matching",
    "multilabel_mrf",
    "named_entities",
    "network_flow",
    "shared_rides",
    "shift_rota",
    "snakes",
    "taxonomy_exclusions",
    "tours",
    "vertex_cover",
}


@pytest.fixture(scope="module", params=NAMES)
def loaded(request):
    return load_model(request.param)


@pytest.fixture(scope="module")
def sample(loaded):
    return loaded.data(n=12, seed=3)


def test_the_library_lists_them_all():
    assert set(available_models()) == set(NAMES) >= ISSUE
    assert not (FOLDER / "__init__.py").exists()
    for name, told in available_models().items():
        assert told.endswith("."), name
        lines = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert 20 <= len(lines) <= 60, name


def test_files_declare_what_the_contract_requires(loaded):
    assert isinstance(loaded.model, so.Model)
    assert loaded.path == FOLDER / f"{loaded.name}.py"
    assert len(loaded.doc.splitlines()) >= 3
    assert loaded.name in repr(loaded)


def same(a, b):
    """Whether two inputs are equal: arrays, or arrays by name."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return np.array_equal(a, b)


def test_data_are_reproducible_and_differ_by_seed(loaded, sample):
    X, Y = sample
    again, labels = loaded.data(n=12, seed=3)
    other, _ = loaded.data(n=12, seed=4)
    assert len(X) == len(Y) == 12
    assert all(same(a, b) for a, b in zip(X, again, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(Y, labels, strict=True))
    assert not all(same(a, b) for a, b in zip(X, other, strict=True))
    # A data set with one label for all teaches nothing.
    assert len({repr(y) for y in Y}) > 1


# ---- files of one's own --------------------------------------------------------------------------

OWN = '''"""One of three."""
import numpy as np
import structopt as so

space = so.LabelSpace("one of three")
y = space.binary("y", 3)
space.subject_to(y.sum() == 1)
MODEL = so.Model(space, {"y": so.features.Linear()}, loss=so.losses.Hamming())
'''


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    loaded = load_model(path)
    assert (loaded.name, loaded.doc) == ("mine", "One of three.")
    assert loaded.model.predict(np.eye(3)[1], [1.0]).tolist() == [0, 1, 0]
    with pytest.raises(DeclarationError, match=r"mine\.py has no data set"):
        loaded.data()
    path.write_text(OWN + "def data(n, seed):\n    return np.ones((n, 1)), np.eye(3)[[seed] * n]\n", encoding="utf-8")
    assert load_model(str(path)).data(2, seed=1)[1].tolist() == [[0, 1, 0], [0, 1, 0]]
    with pytest.raises(DeclarationError, match="at least one example"):
        load_model(path).data(0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", "declares no model"),
        ("MODEL = 3\n", "is a int, not a structopt.Model"),
        ("import structopt as so\nMODEL = so.LabelSpace()\n", "is a LabelSpace"),
        ("import no_such_package\n", "does not run: ModuleNotFoundError"),
        ("def model(:\n", "does not run: SyntaxError"),
        (OWN + "data = 3\n", "must be a function"),
    ],
)
def test_broken_files_are_refused_by_name(tmp_path, text, told):
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError, match=told) as error:
        load_model(path)
    assert "broken.py" in str(error.value)


def test_unknown_names_and_places(tmp_path):
    with pytest.raises(DeclarationError, match="Did you mean 'named_entities'"):
        load_model("named_entitys")
    with pytest.raises(DeclarationError, match="no model file at"):
        load_model(tmp_path / "nothing.py")
    other = tmp_path / "model.toml"
    other.write_text("", encoding="utf-8")
    with pytest.raises(DeclarationError, match="ends in"):
        load_model(other)


@pytest.mark.parametrize("suffix", [".mps", ".lp", ".mps.gz"])
def test_a_space_in_a_file_is_a_model(tmp_path, suffix):
    space = so.LabelSpace("two blocks")
    y = space.binary("y", 4)
    slack = space.continuous("slack", (), 0, 2)
    space.subject_to(y.sum() + slack == 3)
    path = tmp_path / f"mine{suffix}"
    space.write(path)
    loaded = load_model(path)
    X, Y = loaded.data(n=10, seed=1)
    assert loaded.name == "mine"
    assert X.shape == (10, 5) and Y.shape == (10, 5)
    for x, label in zip(X, Y, strict=True):
        assert space.contains(label)
        assert np.array_equal(loaded.model.decode(loaded.model.encode(label, x), x), label)
    coef, const = loaded.model.loss(Y[0])
    assert coef[4] == 0 and const == Y[0][:4].sum()
    result = so.train.block_ascent(so.train.StructuredRisk(loaded.model, X, Y), lam=0.01, max_passes=5)
    assert result.lower_bound <= result.objective
    with pytest.raises(LabelNotInSpace):
        loaded.model.encode([1, 1, 1, 1, 1])


def test_names_in_a_file_stay_in_messages(tmp_path):
    path = tmp_path / "plain.lp"
    path.write_text("max\n obj: a + b\nsubject to\n budget: a + 2 b <= 2\nbinaries\n a b\nend\n", encoding="utf-8")
    loaded = load_model(path)
    assert list(loaded.model.space().variable_names) == ["z[a]", "z[b]"]
    with pytest.raises(LabelNotInSpace, match="budget"):
        loaded.model.encode([1, 1])

"""Saving without pickle: every estimator, every structure, and what is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

import structopt as so
from structopt._archive import read_archive, write_archive
from structopt.errors import DeclarationError
from structopt.estimators import LinearSVM, Persistent, load
from structopt.estimators._codec import Decoder, Encoder
from structopt.losses import CostMatrix
from structopt.structures.multiclass import Multiclass

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X @ [1.0, 2.0, -1.0, 0.0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])


class Holder(Persistent, BaseEstimator):
    """Keeps what it is given."""

    def __init__(self, model: Any = None, callback: Any = None) -> None:
        self.model = model
        self.callback = callback

    def fit(self, value: Any) -> Holder:
        self.value_ = value
        return self


def test_an_unfitted_one_and_one_with_feature_names(tmp_path: Path) -> None:
    LinearSVM(lam=0.5, tol=1e-2).save(tmp_path / "new.npz")
    assert load(tmp_path / "new.npz").get_params() == LinearSVM(lam=0.5, tol=1e-2).get_params()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    svm = LinearSVM().fit(frame, Y)
    svm.save(tmp_path / "named.npz")
    assert load(tmp_path / "named.npz").feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with zipfile.ZipFile(tmp_path / "named.npz") as archive:
        assert b"pickle" not in b"".join(archive.read(name) for name in archive.namelist())


VALUES = [
    None, True, 3, 0.1, float("inf"), "text", np.float32(0.5), np.int64(3), (1, (2.0, "a")), {1: "a", "b": [None]},
    {3, 4}, frozenset({"a"}), np.arange(6).reshape(2, 3), np.array(["a", "bc"]), np.array(["a", None, 3], dtype=object),
    TREE, CostMatrix([[0, 1], [1, 0]]), so.surrogates.BetaScaling(0.3), so.train.regularizers.L2(),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_values_come_back(value: Any, tmp_path: Path) -> None:
    Holder().fit(value).save(tmp_path / "value.npz")
    again = load(tmp_path / "value.npz").value_
    assert type(again) is type(value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype and again.shape == value.shape and np.array_equal(again, value)
    elif isinstance(value, CostMatrix):
        assert np.array_equal(again.costs, value.costs)
    elif isinstance(value, so.train.regularizers.L2):
        assert repr(again) == repr(value)
    else:
        assert again == value


def test_sparse_matrices_come_back(tmp_path: Path) -> None:
    matrix = sp.random_array((4, 5), density=0.5, random_state=0, format="csr")
    Holder().fit(matrix).save(tmp_path / "sparse.npz")
    assert (load(tmp_path / "sparse.npz").value_ != matrix).nnz == 0


def test_what_belongs_to_a_run_is_left_out(tmp_path: Path) -> None:
    Holder(callback=print).fit(0).save(tmp_path / "run.npz")
    assert load(tmp_path / "run.npz").callback is None


class Own(Multiclass):
    """A user's model."""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Own(2), "model is a Own, which only the code that made it can rebuild"),
        (so.Model(lambda x: so.LabelSpace("s"), {}), r"model\.space is a function of the input"),
        (so.Model(so.LabelSpace("s"), {}, encode=list), r"model\.encode is a function.*leave it out"),
        (so.Model(so.LabelSpace("s"), {}, decode=list), r"model\.decode is a function"),
        (len, "builtin_function_or_method"),
        (np.random.default_rng(0), "Generator"),
        ({"deep": [object()]}, r"model\['deep'\]\[0\] is a object"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused(value: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "refused.npz"
    with pytest.raises(DeclarationError, match=message) as error:
        Holder(value).save(path)
    assert "Use pickle" in str(error.value) and not path.exists()


def test_files_that_are_not_estimators(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello", encoding="utf-8")
    with pytest.raises(DeclarationError, match="not a saved estimator"):
        load(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(DeclarationError, match="not a saved estimator"):
        load(tmp_path / "other.npz")


FORMAT = "structopt estimator 2"


def rewritten(path: Path, **changes: Any) -> Path:
    document, arrays = read_archive(path, FORMAT)
    write_archive(path, FORMAT, document | changes, arrays)
    return path


def test_a_file_cannot_name_foreign_code(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    Holder().save(path)
    with pytest.raises(DeclarationError, match=r"holds a os\.system, which is not known"):
        load(rewritten(path, **{"class": "os.system"}))
    Holder().save(path)
    with pytest.raises(DeclarationError, match="other parameters"):
        load(rewritten(path, parameters={"depth": 3}))
    for declared in (["os", "system", {}], ["structopt.oracle", "Oracle", {}]):
        with pytest.raises(DeclarationError, match="not a"):
            Decoder({}).decode({"declared": declared})
    assert Encoder().encode(1, "x") == 1


def test_files_of_a_version_with_other_names_say_which(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    LinearSVM(lam=0.1).fit(X, Y).save(path)
    parameters = saved_document(path)["parameters"]
    parameters["fit_intercept"] = parameters.pop("intercept")
    with pytest.raises(DeclarationError, match=r"other parameters.*fit_intercept.*fit and save again"):
        load(rewritten(path, parameters=parameters))
    # The same of an object inside: the model was declared with a name that has changed since.
    so.StructuredSVM(Multiclass([0, 1]), lam=0.1).fit(X, Y).save(path)
    parameters = saved_document(path)["parameters"]
    arguments = parameters["model"]["declared"][2]
    arguments["bias"] = arguments.pop("intercept")
    with pytest.raises(DeclarationError, match=r"Multiclass has arguments .* not know: bias.*fit and save again"):
        load(rewritten(path, parameters=parameters))


def saved_document(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return json.loads(file["json"].tobytes())

"""The laws of files: a space, a data set and an estimator are the same after writing and reading."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import structopt as so

E, S = so.estimators, so.structures
THIRD = 1 / 3
#: Rows with every combination of sides, over variables with every combination of bounds.
MATRIX = np.array([
    [1.0, -2.0, 0.0, THIRD, 0.0, 0.0, 1e-7], [0.0, 1.0, -0.125, 0.0, 4.0, 0.0, 0.0],
    [123456.789, 0.0, 0.0, 0.0, -1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, -THIRD, 2.0],
    [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0],
])  # fmt: skip
SIDES = np.array([[-np.inf, 7.1], [-3.5, np.inf], [THIRD, THIRD], [-1.25, 2.5], [-4.0, -THIRD]])
LOWER = np.array([0.0, -2.0, -np.inf, 0.0, -np.inf, -THIRD, 5.0])
UPPER = np.array([1.0, 2.0, np.inf, np.inf, 3.5, 2.0, 5.0])
INTEGER = np.array([True, True, False, False, False, False, True])
COSTS = np.array([1.0, 0.0, -THIRD, 2.0, 0.0, 1e-7, -5.0])


def space(sense="maximize"):
    found = so.LabelSpace.from_matrices(MATRIX, *SIDES.T, LOWER, UPPER, INTEGER)
    found.objective = so.LinearObjective(COSTS, 1.5, sense)
    return found


def same(found, wanted):
    assert (found.matrix != wanted.matrix).nnz == 0
    for name in ("row_lower", "row_upper", "lower", "upper", "integrality"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    np.testing.assert_array_equal(found.objective.scores, wanted.objective.scores)
    assert found.objective.constant == wanted.objective.constant


@pytest.mark.parametrize("sense", ["maximize", "minimize"])
@pytest.mark.parametrize("suffix", ["mps", "lp", "mps.gz", "lp.gz"])
def test_a_written_space_is_read_again(suffix, sense, tmp_path):
    path = tmp_path / f"space.{suffix}"
    space(sense).write(path, space(sense).objective)
    same(so.LabelSpace.read(path), space(sense))


@pytest.mark.parametrize("suffix", ["mps", "lp"])
def test_other_programs_read_the_same_space(suffix, tmp_path):
    highspy = pytest.importorskip("highspy")
    path, wanted = tmp_path / f"space.{suffix}", space()
    wanted.write(path, wanted.objective)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) != highspy.HighsStatus.kError
    model = solver.getLp()
    np.testing.assert_allclose(model.col_lower_, LOWER)
    np.testing.assert_allclose(model.col_upper_, UPPER)
    sign = -1.0 if model.sense_ == highspy.ObjSense.kMinimize else 1.0
    np.testing.assert_allclose(sign * np.array(model.col_cost_), COSTS)
    kinds = [kind == highspy.HighsVarType.kInteger for kind in model.integrality_]
    np.testing.assert_array_equal(kinds, INTEGER)


@pytest.mark.parametrize("tool", ["pulp", "pyomo"])
def test_a_space_survives_other_modelling_tools(tool):
    wanted = space()
    found = getattr(so.LabelSpace, f"from_{tool}")(getattr(wanted, f"to_{tool}")())
    assert found.fingerprint == wanted.fingerprint


def test_a_file_of_another_tool_is_read(tmp_path):
    """Every kind of row, range and bound of the MPS format."""
    path = tmp_path / "space.mps"
    path.write_text(
        "NAME t\nOBJSENSE\n MAX\nROWS\n N obj\n L l\n G g\n E e\n E f\n L r\nCOLUMNS\n"
        " a obj 1 l 1\n a g 2 e 3\n a f 1 r 1\n MARKER 'MARKER' 'INTORG'\n b obj -2 l 4\n b e -1 r 1\n"
        " MARKER 'MARKER' 'INTEND'\n c obj 3 g 1\n d l 1\n u l 1\n v l 1\n"
        " bv l 1\n li l 1\n ui l 1\n pl l 1\n up0 l 1\n huge l 1\n inf l 1\n"
        "RHS\n RHS l 4 g 1\n RHS e 2 f 3\n RHS r 6 obj -1.5\nRANGES\n RNG e -2 f 0.5\n RNG r -2.5 g 3\n"
        "BOUNDS\n UP BND b 7\n MI BND c\n UP BND c 2\n FX BND d 4\n FR BND u\n LO BND v -3\n"
        " BV BND bv\n LI BND li 2\n UI BND ui 5\n PL BND pl\n UP BND up0 0\n LO BND huge -1e30\n UP BND huge 1e30\n"
        " UP BND inf inf\nENDATA\n",
        encoding="utf-8",
    )
    found = so.LabelSpace.read(path)
    sides = {"l": (-np.inf, 4), "g": (1, 4), "e": (0, 2), "f": (3, 3.5), "r": (3.5, 6)}
    for row, low, up in zip(found.row_names, found.row_lower, found.row_upper, strict=True):
        assert (low, up) == sides[row], row
    bounds = {"a": (0, np.inf), "b": (0, 7), "c": (-np.inf, 2), "d": (4, 4), "u": (-np.inf, np.inf), "v": (-3, np.inf)}
    bounds |= {"bv": (0, 1), "li": (2, np.inf), "ui": (0, 5), "pl": (0, np.inf), "up0": (0, 0)}
    bounds |= {"huge": (-np.inf, np.inf), "inf": (0, np.inf)}
    for name, low, up in zip(found.variable_names, found.lower, found.upper, strict=True):
        assert (low, up) == bounds[name], name
    np.testing.assert_array_equal(found.integrality, [name in ("b", "bv", "li", "ui") for name in found.variable_names])
    wanted = dict.fromkeys(bounds, 0) | {"a": 1, "b": -2, "c": 3}
    assert dict(zip(found.variable_names, found.objective.scores, strict=True)) == wanted
    assert found.objective.constant == 1.5


def test_data_sets_are_read(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:0.5 3:2\n0 2:-1\n1 3:4\n", encoding="utf-8")
    data = so.data.read_svmlight(path)
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, 2], [0, -1, 0], [0, 0, 4]])
    np.testing.assert_array_equal(data.y, [1, 0, 1])
    path = tmp_path / "data.csv"
    path.write_text("a,b,tag\n1,2.5,x\n-3,0,y\n", encoding="utf-8")
    data = so.data.read_csv(path, labels=["tag"])
    np.testing.assert_array_equal(np.asarray(data.X), [[1, 2.5], [-3, 0]])


# ---- estimators ------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
CLASSES = (X @ RNG.normal(size=(3, 3))).argmax(axis=1)
NAMES = np.array(["b", "c", "a"])[CLASSES]
TREE = so.Hierarchy([("r", "a"), ("r", "x"), ("x", "b"), ("x", "c")])


def blocks():
    """A declared model of two blocks, and labels by block."""
    found = so.LabelSpace()
    one, two = found.binary("one", 2), found.binary("two", 2)
    found.subject_to(one.sum() <= 1, two[0] <= one[0])
    terms = {name: so.features.Linear() for name in ("one", "two")}
    model = so.Model(found, terms, {name: so.losses.Hamming() for name in terms})
    points = found.enumerate()[RNG.integers(len(found.enumerate()), size=len(X))]
    return model, points


MODEL, POINTS = blocks()
CHAIN = S.Chain(["u", "v"])
WORDS = [RNG.normal(size=(1 + k % 3, 2)) for k in range(12)]
TAGS = [[("u", "v")[int(word[0] > 0)] for word in words] for words in WORDS]
FITTED = {
    "classes": (so.StructuredSVM(S.Multiclass(["a", "b", "c"]), lam=0.1), X, NAMES),
    "blocks": (so.StructuredSVM(MODEL, lam=0.1), X, [MODEL.space().blocks(z) for z in POINTS]),
    "vectors": (so.StructuredSVM(MODEL, lam=0.1, surrogate="slack"), X, POINTS),
    "mixed forms": (so.StructuredSVM(MODEL, lam=0.1), X, [MODEL.space().blocks(POINTS[0]), *POINTS[1:]]),
    "chains": (so.StructuredSVM(CHAIN, lam=0.1), WORDS, TAGS),
    "hierarchy": (so.HierarchicalSVM(TREE, lam=0.1), X, NAMES),
    "shared": (so.SharedSVM(TREE, lam=0.1), X, NAMES),
    "crf": (so.CRF(CHAIN, lam=0.1), WORDS, TAGS),
    "crf of blocks": (so.CRF(MODEL, lam=0.1), X, [MODEL.space().blocks(z) for z in POINTS]),
    "crf of vectors": (so.CRF(MODEL, lam=0.1), X, POINTS),
    "conditional risk": (so.ConditionalRiskMinimizer(MODEL), X, POINTS),
    "conditional risk of blocks": (
        so.ConditionalRiskMinimizer(MODEL, "rbf", 0.1, gamma=0.3),
        X,
        [MODEL.space().blocks(z) for z in POINTS],
    ),
    "conditional risk by landmarks": (
        so.ConditionalRiskMinimizer(MODEL, "rbf", 0.1, method="nystroem", n_landmarks=9),
        sp.csr_array(X),
        POINTS,
    ),
    "conditional risk by a path": (so.ConditionalRiskMinimizer(MODEL, "rbf", [0.1, 1.0]), X, POINTS),
    "linear": (so.LinearSVM(lam=0.1), X, NAMES),
    "two classes": (so.LinearSVM(lam=0.1), X, np.array(["no", "yes"])[CLASSES // 2]),
    "area": (so.AUCMaximizer(), X, CLASSES // 2),
    "f": (so.FBetaSVM(), X, CLASSES // 2),
    "ranking": (so.RankSVM(), X, CLASSES),
    "quantile": (so.QuantileRegressor(tau=0.3), X, X[:, 0]),
    "ordinal": (so.OrdinalRegressor(), X, CLASSES),
}


@pytest.mark.parametrize("name", FITTED)
def test_an_estimator_is_the_same_after_saving_and_pickling(name, tmp_path):
    estimator, data, y = FITTED[name]
    estimator = clone(estimator).fit(data, y)
    wanted = estimator.predict(data)
    estimator.save(tmp_path / "estimator.npz")
    for again in (so.load(tmp_path / "estimator.npz"), pickle.loads(pickle.dumps(estimator))):
        assert type(again) is type(estimator)
        assert repr(again.get_params()) == repr(estimator.get_params())
        found = again.predict(data)
        if isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
        else:
            assert repr(found) == repr(wanted)
        assert {k for k in vars(again) if k.endswith("_")} == {k for k in vars(estimator) if k.endswith("_")}
        for key, value in vars(estimator).items():
            if key.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind in "fiU":
                np.testing.assert_array_equal(vars(again)[key], value, err_msg=key)
        if hasattr(estimator, "result_"):
            for key in ("objective", "lower_bound", "gap", "stopped"):
                assert getattr(again.result_, key) == getattr(estimator.result_, key), key
        assert again.score(data, y) == pytest.approx(estimator.score(data, y), rel=1e-12)


def test_every_estimator_has_a_case():
    kinds = {getattr(E, name) for name in E.__all__}
    kinds = {kind for kind in kinds if isinstance(kind, type)} - {E.Persistent}
    assert kinds == {type(estimator) for estimator, _, _ in FITTED.values()}


FORMS = ["classes", "mixed forms", "chains", "hierarchy", "crf"]
FORMS += [name for name in FITTED if name.endswith(("blocks", "vectors"))]


@pytest.mark.parametrize("name", FORMS)
def test_predictions_have_the_form_of_labels(name, tmp_path):
    estimator, data, y = FITTED[name]
    estimator = clone(estimator).fit(data, y=y)
    found = estimator.predict(data)
    assert len(found) == len(y)
    if name.endswith(("blocks", "vectors")):
        estimator.save(tmp_path / "estimator.npz")
        assert (
            so.load(tmp_path / "estimator.npz").label_form_
            == estimator.label_form_
            == name.split()[-1].replace("vectors", "vector")
        )
        assert estimator.score(data, found) == (0.0 if name.startswith("conditional") else 1.0)
    if name.endswith(("blocks", "mixed forms")):
        assert all(list(label) == list(y[0]) for label in found)
    elif name.endswith("vectors"):
        assert found.shape == POINTS.shape and all(MODEL.space().contains(z) for z in found)
    elif name in ("chains", "crf"):
        assert all(set(label) <= {"u", "v"} and len(label) == len(x) for label, x in zip(found, data, strict=True))
    else:
        assert set(found) <= {"a", "b", "c"}
        assert np.mean(np.asarray(found) == y) > 0.7

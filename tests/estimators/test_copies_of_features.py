"""A dense X is copied once at most, whatever its file, its order and the constant feature."""

import numpy as np
import pytest

import structopt as so
from structopt.features import Linear, ordered_rows, stack_rows
from structopt.train import StructuredRisk

TREE = {"thing": {"animal": ["cat", "dog"], "oak": None}}
LEAVES = ["cat", "dog", "oak"]
N, D = 400, 3000


@pytest.fixture(scope="module")
def labels():
    return [LEAVES[k] for k in np.random.default_rng(0).integers(0, 3, N)]


def mapped(tmp_path, dtype="float64", fortran_order=False):
    path = tmp_path / "X.npy"
    rows = np.lib.format.open_memmap(path, "w+", dtype, (N, D), fortran_order)
    rows[:] = np.random.default_rng(1).normal(size=(N, D))
    rows.flush()
    return np.load(path, mmap_mode="r")


def fitted_peak(peak_bytes, estimator, X, labels):
    """The largest number of float64 matrices of the shape of X during a fit."""
    small = np.array(X[:50, :20], order="F" if X.flags.f_contiguous else "C")
    small.flags.writeable = X.flags.writeable
    estimator.fit(small, labels[:50])  # compiles the kernels
    return peak_bytes(lambda: estimator.fit(X, labels)) / (8 * X.size)


@pytest.mark.parametrize(
    "options",
    [{}, {"intercept": False}, {"kind": "closure"}, {"trainer": "bcfw"}, {"trainer": "n_slack"}],
    ids=lambda options: ", ".join(map(str, options.values())) or "default",
)
@pytest.mark.parametrize("fortran_order", [False, True], ids=["rows", "columns"])
def test_training_copies_a_memory_mapped_matrix_once(peak_bytes, tmp_path, labels, options, fortran_order):
    svm = so.HierarchicalSVM(TREE, max_passes=2, **options)
    assert fitted_peak(peak_bytes, svm, mapped(tmp_path, fortran_order=fortran_order), labels) < 1.75


def test_training_copies_a_matrix_in_memory_once(peak_bytes, labels):
    X = np.random.default_rng(1).normal(size=(N, D))
    for estimator in (so.HierarchicalSVM(TREE, max_passes=2), so.SharedSVM(TREE, max_passes=2, max_rounds=1)):
        assert fitted_peak(peak_bytes, estimator, X, labels) < 1.6


def test_training_copies_a_float32_matrix_once_as_float64(peak_bytes, tmp_path, labels):
    X = mapped(tmp_path, "float32")
    for dtype in ("float64", "float32"):
        assert fitted_peak(peak_bytes, so.HierarchicalSVM(TREE, max_passes=2, dtype=dtype), X, labels) < 1.6


def test_bmrm_without_a_constant_copies_nothing(peak_bytes, tmp_path, labels):
    svm = so.HierarchicalSVM(TREE, trainer="bmrm", intercept=False, max_passes=2)
    assert fitted_peak(peak_bytes, svm, mapped(tmp_path), labels) < 0.5


def test_sgd_copies_a_matrix_for_its_steps_and_for_its_certificate(peak_bytes, tmp_path, labels):
    svm = so.HierarchicalSVM(TREE, trainer="sgd", max_passes=2)
    assert fitted_peak(peak_bytes, svm, mapped(tmp_path), labels) < 2.5


def test_a_float32_matrix_trains_as_its_float64_copy(tmp_path, labels):
    X = mapped(tmp_path, "float32")[:60, :10]
    first = so.HierarchicalSVM(TREE).fit(X, labels[:60])
    second = so.HierarchicalSVM(TREE).fit(np.array(X, dtype=np.float64), labels[:60])
    assert np.array_equal(first.coef_, second.coef_)
    assert first.coef_.dtype == np.float64
    assert np.array_equal(first.decision_function(X), second.decision_function(X))


def test_groups_of_examples_share_one_copy_with_the_constant():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 2, (30, 3))
    risk = StructuredRisk(tags(constant=True), X, y)
    order = rng.permutation(30)
    first, second = risk.parts([order[:12], order[12:]])
    rows = [part.batch.rows[0] for part in (first, second)]
    assert rows[0].base is rows[1].base
    assert np.array_equal(np.vstack(rows), np.column_stack([X, np.ones(30)])[order])
    assert np.shares_memory(first.X, rows[0])
    assert "rows" not in vars(risk.batch.data)  # the parts do not need those of the whole


def tags(constant):
    space = so.LabelSpace("tags")
    space.binary("tag", 3)
    return so.Model(space, {"tag": Linear(intercept=constant)}, so.losses.Hamming())


def test_a_constant_of_the_model_equals_a_column_of_ones():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 2, (30, 3))
    risks = [
        StructuredRisk(tags(own), rows, y) for own, rows in ((True, X), (False, np.column_stack([X, np.ones(30)])))
    ]
    w = rng.normal(size=15)
    assert risks[0](w)[0] == risks[1](w)[0]
    assert np.array_equal(risks[0](w)[1], risks[1](w)[1])
    trained = [so.train.block_ascent(risk, lam=0.1) for risk in risks]
    assert np.array_equal(trained[0].w, trained[1].w)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [False, True])
def test_ordered_rows_are_the_chosen_rows(monkeypatch, dtype, constant):
    monkeypatch.setattr("structopt.features._COPIED_ENTRIES", 7)
    X = np.random.default_rng(4).normal(size=(9, 3)).astype(dtype)
    for order in ([4, 0, 8, 2], np.arange(9), [5, 5, 1], []):
        order = np.array(order, dtype=np.intp)
        expected = np.column_stack([X, np.ones(9)])[:, : 3 + constant].astype(np.float64)[order]
        found = ordered_rows(X, order, constant)
        assert np.array_equal(found, expected)
        assert found.dtype == np.float64
        assert found.flags.c_contiguous
    rows, starts = stack_rows(Linear(intercept=constant), X)
    assert np.array_equal(rows, np.column_stack([X, np.ones(9)])[:, : 3 + constant])
    assert np.array_equal(starts, np.arange(10))

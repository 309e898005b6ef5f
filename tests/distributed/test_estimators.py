"""``engine=`` of the estimators: the same objective as in one process, and fits of dask collections."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import structopt as so
from structopt.errors import ClusterLost, DeclarationError

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

import dask.array as da
import dask.bag as db


def rows(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=(d, 3)) + 0.3 * rng.normal(size=(n, 3))


def sequences(n=24):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(rng.integers(2, 5), 3)) for _ in range(n)]
    return X, [["abc"[k] for k in x.argmax(axis=1)] for x in X]


HIERARCHY = {"thing": {"animal": ["cat", "dog"], "oak": None}}
LEAVES = np.array(["cat", "dog", "oak"])


def cases():
    X, S = rows()
    x, y = sequences()
    yield "structured", so.StructuredSVM(so.structures.MultiLabel(3), lam=0.05, tol=1e-2), X, (S > 0).astype(int)
    slack = so.StructuredSVM(so.structures.Chain(["a", "b", "c"]), "slack", lam=0.1, tol=5e-2)
    yield "slack", slack, x, y
    yield "binary", so.LinearSVM(lam=0.05, tol=1e-2), X, np.where(S[:, 0] > 0, "yes", "no")
    yield "rest", so.LinearSVM(lam=0.1, tol=1e-2), X, S.argmax(axis=1)
    yield "sparse", so.LinearSVM(lam=0.05, tol=1e-2), sp.csr_array(X), S[:, 0] > 0
    yield "joint", so.LinearSVM(lam=0.05, tol=1e-2, multi_class="crammer_singer"), X, S.argmax(axis=1)
    yield "crf", so.CRF(lam=0.1, tol=1e-2), x, y
    yield "hierarchy", so.HierarchicalSVM(HIERARCHY, lam=0.1, tol=1e-2), X, LEAVES[S.argmax(axis=1)]


CASES = {name: case for name, *case in cases()}


def weights(estimator):
    return estimator.w_ if hasattr(estimator, "w_") else estimator.coef_


def collection(data, n=4):
    if isinstance(data, list):
        return db.from_sequence(data, npartitions=n)
    return da.from_array(data, chunks=(-(-len(data) // n), *data.shape[1:]))


@pytest.mark.parametrize("name", CASES)
def test_an_engine_finds_the_same(name):
    estimator, X, y = CASES[name]
    here, there = clone(estimator).fit(X, y), clone(estimator).set_params(engine="sequential").fit(X, y)
    assert there.result_.converged
    assert there.result_.objective == pytest.approx(here.result_.objective, rel=2 * estimator.tol)
    assert weights(there).shape == weights(here).shape
    again = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(np.asarray(again.predict(X[:5]), object), np.asarray(there.predict(X[:5]), object))


@pytest.mark.parametrize("name", [name for name in CASES if name != "sparse"])
def test_collections_stay_in_parts(name):
    estimator, X, y = CASES[name]
    here = clone(estimator).fit(X, y)
    parts, labels = collection(X), collection(y)
    there = clone(estimator).set_params(engine="sequential").fit(parts, labels)
    assert there.result_.objective == pytest.approx(here.result_.objective, rel=2 * estimator.tol)
    assert weights(there).shape == weights(here).shape
    found = there.predict(parts)
    assert hasattr(found, "__dask_graph__")  # nothing is computed yet
    expected = there.predict(X)
    computed = found.compute(scheduler="synchronous")
    assert len(computed) == len(expected)
    assert all(np.array_equal(a, b) for a, b in zip(computed, expected, strict=True))
    plain = clone(estimator).fit(parts, labels)  # without an engine they are computed first
    np.testing.assert_array_equal(weights(plain), weights(here))


def test_the_workers_of_a_client(workers):
    estimator, X, y = CASES["structured"]
    there = clone(estimator).set_params(engine=workers.client.scheduler.address).fit(X, y)
    parts = clone(estimator).set_params(engine=workers.client.scheduler.address).fit(collection(X), collection(y))
    here = clone(estimator).fit(X, y)
    for found in (there, parts):
        assert found.result_.objective == pytest.approx(here.result_.objective, rel=2e-2)
    estimator = so.StructuredSVM(so.structures.MultiLabel(3), lam=0.05, tol=1e-2, engine=workers.client)
    np.testing.assert_array_equal(estimator.fit(X, y).coef_, there.coef_)
    again = pickle.loads(pickle.dumps(estimator))
    assert again.engine is None and np.array_equal(again.predict(X), estimator.predict(X))


@pytest.mark.parametrize(("name", "trainer"), [("binary", "bmrm"), ("structured", "distributed block ascent")])
def test_weights_of_examples(name, trainer):
    estimator, X, y = CASES[name]
    s = np.linspace(0.0, 2.0, len(X))
    here = clone(estimator).fit(X, y, sample_weight=s).result_
    there = clone(estimator).set_params(engine="sequential")
    there.fit(collection(X), collection(y), sample_weight=collection(s))
    cut = clone(there).fit(collection(X), y, sample_weight=s)  # arrays in memory are cut as X is
    np.testing.assert_array_equal(cut.coef_, there.coef_)
    for data in ((X, collection(y), collection(s)), (X, y, s)):
        in_memory = clone(there).fit(*data[:2], sample_weight=data[2])
        for found in (there.result_, in_memory.result_):
            assert found.trainer == trainer
            assert found.objective == pytest.approx(here.objective, rel=2e-2)
            assert found.lower_bound <= here.objective * (1 + 1e-9)
            assert here.lower_bound <= found.objective * (1 + 1e-9)
    with pytest.raises(DeclarationError, match="X has 60 rows, sample_weight has 59"):
        there.fit(collection(X), collection(y), sample_weight=s[1:])


def with_labels():
    X, S = rows()
    yield so.StructuredSVM(so.structures.Multiclass(LEAVES.tolist()), lam=0.1, tol=5e-2), X, LEAVES[S.argmax(axis=1)]
    yield so.LinearSVM(lam=0.1, tol=5e-2), X, LEAVES[S.argmax(axis=1)]
    yield so.HierarchicalSVM(HIERARCHY, lam=0.1, tol=5e-2), X, LEAVES[S.argmax(axis=1)]


@pytest.mark.parametrize(("estimator", "X", "y"), list(with_labels()))
def test_collections_of_strangers(estimator, X, y):
    """Chunks of one row, of unknown size, without rows; columns cut; frames with categories and names."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    estimator.set_params(engine="sequential")
    single = clone(estimator).fit(da.from_array(X, chunks=(1, 2)), da.from_array(y, chunks=7))
    known = da.from_array(X, chunks=(20, 4))
    some = da.from_array(np.arange(len(X)) < 30, chunks=20)
    unknown = clone(estimator).fit(known[some], da.from_array(y, chunks=20)[some])  # the last chunk has no row
    found = unknown.predict(known[some]).compute(scheduler="synchronous")
    np.testing.assert_array_equal(found, unknown.predict(X[:30]))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=pd.Categorical(y))
    parts = dd.from_pandas(frame, npartitions=3)
    named = clone(estimator).fit(parts[list("abcd")], parts["y"])
    assert named.feature_names_in_.tolist() == list("abcd")
    found = named.predict(parts[list("abcd")])
    assert isinstance(found, da.Array) and found.dtype.kind in "UO"
    np.testing.assert_array_equal(found.compute(scheduler="synchronous"), named.predict(frame[list("abcd")]))
    for one in (single, unknown, named):
        assert one.result_.converged
    with pytest.raises(DeclarationError, match="y is a ndarray and X a dask collection whose partitions have unknown"):
        clone(estimator).fit(parts[list("abcd")], y)
    with pytest.raises(DeclarationError, match="4, 5 partitions; they need equal ones"):
        clone(estimator).fit(parts[list("abcd")].repartition(npartitions=4), da.from_array(y, chunks=12))


@pytest.mark.parametrize("name", ["structured", "slack", "hierarchy"])
def test_block_ascent_is_the_default(name):
    estimator, X, y = CASES[name]
    found = clone(estimator).set_params(engine="sequential").fit(X, y)
    bundle = clone(estimator).set_params(engine="sequential", trainer="bmrm").fit(X, y)
    assert found.result_.trainer == "distributed block ascent" and bundle.result_.trainer == "bmrm"
    assert found.result_.passes < bundle.result_.passes
    # Both certificates hold for the same problem.
    assert max(found.result_.lower_bound, bundle.result_.lower_bound) <= bundle.result_.objective * (1 + 1e-9)
    assert bundle.result_.lower_bound <= found.result_.objective * (1 + 1e-9)


def test_block_ascent_goes_on(tmp_path):
    estimator, X, y = CASES["structured"]
    svm = clone(estimator).set_params(engine="sequential", tol=1e-3)
    cold = svm.fit(X, y).n_iter_
    svm.set_params(warm_start=True).fit(X, y)
    assert svm.result_.converged and svm.n_iter_ < cold
    path = tmp_path / "run.npz"
    with pytest.warns(UserWarning, match="stopped with a relative gap"):
        clone(svm).set_params(warm_start=False, checkpoint=path, max_passes=2).fit(X, y)
    resumed = clone(svm).set_params(warm_start=False, checkpoint=path).fit(X, y)
    assert resumed.result_.converged and resumed.n_iter_ == cold


def test_trainers_of_one_process():
    estimator, X, y = CASES["structured"]
    few = functools.partial(so.train.block_ascent, cached_labels=5)
    svm = clone(estimator).set_params(engine="sequential", trainer=few).fit(X, y)
    assert svm.result_.trainer == "distributed block ascent" and svm.result_.converged
    with pytest.raises(DeclarationError, match=r"'n_slack' needs all examples in one process.*block_ascent, bmrm"):
        svm.set_params(trainer="n_slack").fit(X, y)
    with pytest.raises(DeclarationError, match="cannot be called"):
        svm.set_params(trainer=functools.partial(so.train.block_ascent, lookahead=5)).fit(X, y)


def test_engines_that_do_not_work_are_named():
    _, X, y = CASES["binary"]
    with pytest.raises(DeclarationError, match="client must be"):
        so.LinearSVM(engine="dusk").fit(X, y)
    with pytest.raises(DeclarationError, match="is not convex in the weights, and needs engine=None"):
        so.StructuredSVM(so.structures.Multiclass(["no", "yes"]), "prob", engine="sequential").fit(X, y)
    with pytest.raises(DeclarationError, match="'coordinate_descent' needs all examples in one process"):
        so.LinearSVM(engine="sequential", trainer="coordinate_descent").fit(X, y)
    with pytest.raises(DeclarationError, match="one class"):
        so.LinearSVM(engine="sequential").fit(collection(X), collection(np.ones(len(X))))


def test_no_scheduler(monkeypatch):
    from structopt.distributed import cluster

    monkeypatch.setattr(cluster, "_CONNECTING", 0.3)
    with pytest.raises(ClusterLost, match="no dask scheduler at"):
        so.LinearSVM(engine="tcp://127.0.0.1:9").fit([[1.0], [-1.0]], [1, 0])

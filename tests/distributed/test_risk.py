"""`ShardedRisk`: a risk in parts is the whole risk, and its iterates are those of one process."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, ShardFailed
from structopt.risks import Hinge, Logistic, Multiclass
from structopt.train import bmrm, proximal_bundle

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

from structopt.distributed import ShardedRisk


def data(seed=0, n=60, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sign(X[:, 0] + 0.5 * rng.normal(size=n))


def hinge(k, n):
    X, y = data()
    return Hinge(X[k::n], y[k::n])


def sparse_logistic(k, n):
    X, y = data()
    return Logistic(sp.csr_array(np.where(X > 0, X, 0.0))[k::n], y[k::n])


def classes(k, n):
    X, _ = data()
    return Multiclass(X[k::n], X[k::n, :3].argmax(axis=1), n_classes=3)


def sequences(k, n):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(rng.integers(2, 5), 3)) for _ in range(20)]
    Y = [x.argmax(axis=1) for x in X]
    return so.train.StructuredRisk(so.structures.Chain(3), X[k::n], Y[k::n], "slack")


LOADERS = [hinge, sparse_logistic, classes, sequences]


@pytest.mark.parametrize("load", LOADERS)
def test_parts_are_the_whole(load, workers):
    whole, parts = load(0, 1), ShardedRisk(load, 7, workers)
    assert len(parts) == len(whole) and parts.n_features == whole.n_features
    assert parts.lower_bound == pytest.approx(whole.lower_bound)
    w = np.random.default_rng(2).normal(size=whole.n_features)
    value, slope = whole(w)
    assert parts(w)[0] == pytest.approx(value)
    np.testing.assert_allclose(parts(w)[1], slope, atol=1e-12)


@pytest.mark.parametrize("load", LOADERS)
def test_iterates_are_those_of_one_process(load, workers):
    far = bmrm(ShardedRisk(load, 5, workers), lam=0.01, tol=1e-2)
    here = bmrm(ShardedRisk(load, 5, "sequential"), lam=0.01, tol=1e-2)
    np.testing.assert_array_equal(far.history["objective"], here.history["objective"])
    np.testing.assert_array_equal(far.w, here.w)


def test_other_trainers_and_regularizers(workers):
    parts, whole = ShardedRisk(hinge, 3, workers), hinge(0, 1)
    for regularizer in (so.regularizers.L1(), so.regularizers.L2()):
        found = [bmrm(risk, regularizer, lam=0.05, tol=1e-3) for risk in (parts, whole)]
        assert found[0].objective == pytest.approx(found[1].objective, rel=2e-3)
    found = [proximal_bundle(risk, lam=0.05, tol=1e-2) for risk in (parts, whole)]
    assert found[0].objective == pytest.approx(found[1].objective, rel=2e-2)


def test_parts_that_do_not_fit_together_are_refused(workers):
    with pytest.raises(DeclarationError, match="Shard 1 has 2 weights, shard 0 has 1"):
        ShardedRisk(lambda k, n: Hinge(np.ones((2, k + 1)), [1, -1]), 2, workers)


@pytest.mark.parametrize("client", ["sequential", "cluster"])
def test_a_load_that_fails_is_named(client, workers):
    def load(k, n):
        if k == 2:
            raise FileNotFoundError("part-2.npz")
        return hinge(k, n)

    with pytest.raises(ShardFailed, match=r"Shard 2 of 4: FileNotFoundError: part-2\.npz") as error:
        ShardedRisk(load, 4, workers if client == "cluster" else client)
    assert error.value.shard == 2 and isinstance(error.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize("wrong", [3, "risk", (1, 2)], ids=repr)
def test_a_load_that_returns_no_risk_is_named(wrong):
    with pytest.raises(ShardFailed, match=r"Shard 0 of 2: DeclarationError: load\(0, 2\) returned"):
        ShardedRisk(lambda k, n: wrong, 2, "sequential")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_shards": 0}, "n_shards must be"),
        ({"n_shards": 2, "client": 5}, "client must be"),
        ({"n_shards": 2, "client": "here"}, "client must be"),
        ({"n_shards": 2, "combine": "median"}, "combine must be"),
        ({"n_shards": 2, "keep": "maybe"}, "keep must be"),
        ({"n_shards": 2, "timeout": 0}, "timeout must be"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(DeclarationError, match=message):
        ShardedRisk(hinge, **{"client": "sequential", **options})


def test_every_worker_has_its_share(workers):
    with ShardedRisk(hinge, 7, workers) as risk:
        places = [risk.shards.placement.at[k] for k in range(7)]
    assert places == sorted(places)  # neighbours are added where they are
    assert sorted(places.count(address) for address in workers.addresses) == [3, 4]

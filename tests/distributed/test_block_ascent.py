"""`distributed.block_ascent`: its bound is one at every moment, whatever happens to the shards."""

from __future__ import annotations

import functools
import os
import signal

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, ShardFailed
from structopt.risks import Hinge

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

from structopt.distributed import ShardedRisk, block_ascent, sgd

LAM, TOL = 0.02, 3e-4


def words(n=30):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(rng.integers(2, 5), 3)) for _ in range(n)]
    return X, [(x + 0.7 * rng.normal(size=x.shape)).argmax(axis=1) for x in X]


def chains(k, n, surrogate="margin"):
    X, Y = words()
    return so.train.StructuredRisk(so.structures.Chain(3), X[k::n], Y[k::n], surrogate, rtol=1e-7)


def slack(k, n):
    return chains(k, n, "slack")


def classes(k, n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(50, 3))).argmax(axis=1)
    return so.train.StructuredRisk(so.structures.Multiclass(3), X[k::n], y[k::n])


def weighted(k, n):
    X, Y = words()
    weight = np.linspace(0.0, 2.0, len(X))  # the first is left out
    part = so.train.StructuredRisk(so.structures.Chain(3), X[k::n], Y[k::n], sample_weight=weight[k::n])
    return part, weight[k::n].sum()


def unequal(k, n):
    """Many examples, few, and none."""
    X, Y = words()
    rows = [slice(0, 25), slice(25, 30), None][k]
    return None if rows is None else so.train.StructuredRisk(so.structures.Chain(3), X[rows], Y[rows])


def of_a_whole(k, n):
    return chains(0, 1).shard(k, n)


@functools.cache
def whole(load):
    """Return the risk of all examples, and bounds of its smallest objective by a trainer of one process."""
    made = load(0, 1)
    risk = made[0] if isinstance(made, tuple) else made
    found = so.train.bmrm(risk, lam=LAM, tol=1e-6, max_passes=3000)
    return risk, found.lower_bound, found.objective


def check(result, load):
    risk, low, high = whole(load)
    assert result.converged and result.gap <= TOL
    assert (result.history["lower_bound"] <= high + 1e-9).all()
    assert result.objective >= low - 1e-9
    # The certificate is that of the returned weights, over all examples.
    assert 0.5 * LAM * result.w @ result.w + risk(result.w)[0] == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize(
    ("load", "n_shards"), [(chains, 1), (chains, 7), (slack, 2), (classes, 1), (classes, 3), (weighted, 2)]
)
def test_the_optimum_of_one_process(load, n_shards):
    with ShardedRisk(load, n_shards, "sequential") as risk:
        result = block_ascent(risk, lam=LAM, tol=TOL)
    check(result, load)
    assert result.info["shards"] == n_shards and result.info["restarts"] == 0


def test_shards_of_unequal_size_and_without_examples():
    with ShardedRisk(unequal, 3, "sequential") as risk:
        result = block_ascent(risk, lam=LAM, tol=TOL)
    check(result, chains)
    assert result.info["shards"] == 2


def test_parts_made_by_shard_add_up():
    with ShardedRisk(of_a_whole, 3, "sequential", combine="sum") as risk:
        check(block_ascent(risk, lam=LAM, tol=TOL), chains)


def test_workers_change_nothing(workers):
    found = []
    for client in (workers, "sequential"):
        with ShardedRisk(chains, 5, client) as risk:
            found.append(block_ascent(risk, lam=LAM, tol=TOL))
    check(found[0], chains)
    np.testing.assert_array_equal(found[0].w, found[1].w)
    np.testing.assert_array_equal(found[0].history["lower_bound"], found[1].history["lower_bound"])
    assert found[0].info["outdated"] == 0


@pytest.mark.parametrize(("lam", "rounds"), [(1e-3, 10), (1.0, 1)])
def test_any_lam_and_number_of_rounds(lam, rounds):
    with ShardedRisk(chains, 3, "sequential") as risk:
        result = block_ascent(risk, lam=lam, tol=1e-3, rounds=rounds)
    best = so.train.block_ascent(chains(0, 1), lam=lam, tol=1e-4)
    assert result.converged and result.lower_bound <= best.objective and result.objective >= best.lower_bound


class Losing:
    """A callback that makes shards forget their dual variables at certain records."""

    def __init__(self, risk, when):
        self.risk, self.when, self.calls = risk, when, 0

    def __call__(self, result):
        self.calls += 1
        for k in self.when.get(self.calls, ()):
            self.risk.shards.held[k].memory.clear()


@pytest.mark.parametrize("load", [chains, classes])
def test_lost_duals_do_not_break_the_bound(load):
    with ShardedRisk(load, 4, "sequential") as risk:
        lose = Losing(risk, {1: [0], 3: [1, 2], 6: [0, 1, 2, 3]})
        result = block_ascent(risk, lam=LAM, tol=TOL, callback=lose)
    check(result, load)
    assert lose.calls > 6 and result.info["restarts"] == 7


def test_lost_duals_come_back_from_a_checkpoint(tmp_path):
    with ShardedRisk(chains, 4, "sequential") as risk:
        lose = Losing(risk, {8: [0, 1, 2, 3]})
        saved = so.train.Checkpoint(tmp_path / "run.npz", every=0)
        result = block_ascent(risk, lam=LAM, tol=TOL, callback=lose, checkpoint=saved)
        untouched = block_ascent(risk, lam=LAM, tol=TOL)
    high = whole(chains)[2]
    assert result.converged and result.lower_bound <= high + 1e-9
    assert result.info["restarts"] == 4
    # The driver had all duals of the pass before: at most a few more passes than without a loss.
    assert result.passes <= untouched.passes + 5


def test_a_killed_worker_does_not_end_the_run(workers):
    killed = []

    def kill(result):
        if result.passes == 3:
            killed.append(next(iter(workers.client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with ShardedRisk(chains, 5, workers) as risk:
        result = block_ascent(risk, lam=LAM, tol=TOL, callback=kill)
        assert killed and result.info["restarts"] >= 1
    check(result, chains)


def test_resuming_gives_the_same_weights(tmp_path):
    path = tmp_path / "run.npz"

    def train(**options):
        with ShardedRisk(chains, 3, "sequential") as risk:
            return block_ascent(risk, lam=LAM, tol=TOL, **options)

    def killed(result):
        if result.passes == 5:
            raise RuntimeError("killed")

    straight = train()
    with pytest.raises(RuntimeError, match="killed"):
        train(checkpoint=so.train.Checkpoint(path, every=0), callback=killed)
    resumed = train(checkpoint=path)
    np.testing.assert_array_equal(straight.w, resumed.w)
    assert resumed.lower_bound == straight.lower_bound and resumed.info["restarts"] == 0


def test_given_weights_and_warm_starts():
    with ShardedRisk(chains, 3, "sequential") as risk:
        warm = so.train.WarmStart()
        cold = block_ascent(risk, lam=LAM, tol=TOL, warm=warm)
        again = block_ascent(risk, lam=LAM, tol=TOL, warm=warm)
        other = block_ascent(risk, lam=2 * LAM, tol=TOL, warm=warm)
        begun = block_ascent(risk, lam=LAM, tol=TOL, w0=cold.w)
    check(cold, chains)
    check(again, chains)
    check(begun, chains)
    assert again.passes <= 3 and begun.passes < cold.passes and begun.objective <= cold.objective + 1e-12
    assert other.converged


def test_limits_end_the_run():
    with ShardedRisk(chains, 3, "sequential") as risk:
        one = block_ascent(risk, lam=LAM, tol=0.0, max_passes=1)
        assert one.stopped == "passes" and one.passes == 1 and np.isfinite(one.objective)
        some = block_ascent(risk, lam=LAM, tol=0.0, callback=lambda result: result.passes >= 3)
        assert some.stopped == "callback" and np.isfinite(some.objective)
        assert 0.5 * LAM * some.w @ some.w + risk(some.w)[0] == pytest.approx(some.objective)


def hinge(k, n):
    return Hinge(np.eye(4)[k::n], np.array([1, -1, 1, -1])[k::n])


def not_convex(k, n):
    return chains(k, n, so.surrogates.ProbLoss())


@pytest.mark.parametrize(
    ("load", "options", "error", "words"),
    [
        (hinge, {}, DeclarationError, "shard 0 is a Hinge; use bmrm"),
        (not_convex, {}, ShardFailed, "not convex in the weights"),
        (chains, {"rounds": 0}, DeclarationError, "rounds"),
        (chains, {"cached_labels": 1}, DeclarationError, "cached_labels"),
        (chains, {"cached_passes": -1}, DeclarationError, "cached_passes"),
        (chains, {"lam": -1.0}, DeclarationError, "lam"),
        (chains, {"regularizer": so.regularizers.L1()}, DeclarationError, "L1"),
    ],
)
def test_what_it_cannot_train_is_refused(load, options, error, words):
    with ShardedRisk(load, 2, "sequential") as risk, pytest.raises(error, match=words):
        block_ascent(risk, **{"lam": LAM, **options})


def test_other_risks_and_shards_that_do_not_stay_are_refused():
    with pytest.raises(DeclarationError, match="risk must be a ShardedRisk"):
        block_ascent(chains(0, 1), lam=LAM)
    risk = ShardedRisk(chains, 2, "sequential", keep=False)
    with pytest.raises(DeclarationError, match="keep=False drops these"):
        block_ascent(risk, lam=LAM)


def test_sgd_is_a_rough_answer_without_a_certificate():
    best = so.train.block_ascent(chains(0, 1), lam=0.5, tol=1e-4)
    with ShardedRisk(chains, 3, "sequential") as risk:
        result, again = (sgd(risk, lam=0.5, max_passes=20) for _ in range(2))
    np.testing.assert_array_equal(result.w, again.w)
    assert 0.25 * result.w @ result.w + chains(0, 1)(result.w)[0] == pytest.approx(result.objective)
    assert best.lower_bound <= result.objective <= 1.2 * best.objective
    assert not result.converged and result.info["certified"] is False and result.lower_bound == 0.0


def test_sgd_takes_surrogates_that_are_not_convex():
    with ShardedRisk(not_convex, 3, "sequential") as risk:
        start = risk(np.zeros(18))[0]
        result = sgd(risk, lam=2.0, max_passes=20)
    assert result.objective < start


def test_label_with_equal_features_and_a_loss_is_a_cut():
    def load(k, n):
        space = so.LabelSpace("two blocks")
        a, b = space.binary("a", 3), space.binary("b", 2)
        space.subject_to(a.sum() == 1, b[0] <= a[0])
        model = so.Model(space, {"a": so.features.Linear()}, {"a": so.losses.Hamming(), "b": so.losses.Hamming()})
        rng = np.random.default_rng(0)
        X, labels = rng.normal(size=(8, 2)), space.enumerate()
        Y = [labels[j] for j in rng.integers(len(labels), size=8)]
        return so.train.StructuredRisk(model, X[k::n], Y[k::n])

    with ShardedRisk(load, 2, client="sequential") as risk:
        result = block_ascent(risk, lam=0.05, tol=1e-4)
    assert result.converged
    best = so.train.bmrm(load(0, 1), lam=0.05, tol=1e-6)
    assert result.objective == pytest.approx(best.objective, rel=2e-4)

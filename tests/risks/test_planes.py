"""Searches of whole batches: relaxations, what is kept between passes, proofs, and one pass; values have a law."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.risks.planes import N_NEAR, DataPlanes
from structopt.search import search_batch
from structopt.surrogates import (
    LogLoss,
    MicroF1,
    Slack,
)
from structopt.train import StructuredRisk

FAMILIES = [
    "pairwise", "multilabel", "chain", "assignment", "partial", "tree", "closure", "segments", "entities", "knapsack",
]  # fmt: skip


@pytest.fixture(scope="module")
def job(fuzz):
    """The fuzz job of batches: data sets of every structure, every surrogate, and the best of all labels."""
    return fuzz("batches")


@pytest.mark.parametrize("number", [3, 5, 7, 8])
def test_relaxation_equals_the_search_of_each_plane(job, number):
    rng, size, psi = np.random.default_rng(6), 1.0, job.SURROGATES[number]
    model, X, Y = job.data_set("relaxed", rng)
    Y[:, 0] = 1  # micro-F1 of an empty ground truth is searched plane by plane
    together = StructuredRisk(model, X, Y, psi, rtol=1e-7)
    alone = StructuredRisk(model, X, Y, psi, rtol=1e-7)
    alone._planes = None
    assert together._planes is not None
    w = size * rng.normal(size=together.n_features)
    for _ in range(2):
        a, b = together.violations(w), alone.violations(w)
        np.testing.assert_allclose(a.value, b.value, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(a.upper, b.upper, rtol=1e-6, atol=1e-9)
        assert (a.upper >= b.value * (1 - 1e-9) - 1e-9).all()
        w = w + 0.1 * size * rng.normal(size=w.size)


@pytest.mark.parametrize("family", [*FAMILIES, "multiclass"])
def test_micro_f1_of_all_examples_takes_few_inferences(job, family):
    """Its optimum is a vertex of the hull: no example is searched by itself."""
    rng = np.random.default_rng(4)
    model, X, Y = job.data_set(family, rng)
    risk = StructuredRisk(model, X, Y, "micro_f1", rtol=1e-9)
    for size in (0.0, 0.3, 2.0):
        w = size * rng.normal(size=risk.n_features)
        np.testing.assert_allclose(risk.violations(w).value, job.best_labels(risk, w), rtol=1e-8, atol=1e-9)
    assert set(risk.statistics) == {"vertex"}


def test_warm_edges_save_inferences():
    rng = np.random.default_rng(0)
    model, X, Y = so.structures.PairwiseMRF(6, integral="relax"), rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 6))
    batch = model.batch(X)
    truth = batch.truth(Y)
    data = DataPlanes(batch, truth, batch.loss(truth), convex=True)
    tables = batch.tables(rng.normal(size=batch.n_weights))
    results = []
    for _ in range(2):
        planes = data.at(tables, 1, lambda i: None)
        found = search_batch(planes, "slack", rtol=1e-4, lam=data.start, n_near=N_NEAR)
        data.keep(planes, found)
        results.append(found)
    cold, warm = results
    assert warm.queries < cold.queries
    np.testing.assert_allclose(warm.value, cold.value, rtol=2e-4)


@pytest.mark.parametrize("family", ["chain", "pairwise", "knapsack"])
def test_what_is_kept_is_compact(job, family):
    """Tables of the labels' own parts, that hold on to nothing larger: 3,394 sentences once took 16 GB."""
    rng = np.random.default_rng(1)
    model, X, Y = job.data_set(family, rng)
    risk = StructuredRisk(model, X, Y, LogLoss(), rtol=1e-6)
    if risk._planes is None:
        pytest.skip("compared by enumeration")
    risk(rng.normal(size=risk.n_features))
    kept = risk._planes._kept
    for labels, g, _ in kept:
        assert g.shape == (len(risk),)
        assert labels.native is None
        for table, start in zip(labels.tables, risk.batch.starts, strict=True):
            assert table.nnz <= max(risk.truth.tables[0].nnz * 8, 4 * start[-1])
    for tables in zip(*(labels.tables for labels, _, _ in kept), strict=True):
        for arrays in ([table.data for table in tables], [table.indices for table in tables]):
            # The kept tables may lie behind one another in one array, which nothing else is in.
            owners = {id(owner): owner.size for owner in (a if a.base is None else a.base for a in arrays)}
            assert sum(owners.values()) == sum(a.size for a in arrays)


def test_proofs_are_counted(job):
    rng = np.random.default_rng(2)
    model, X, Y = job.data_set("chain", rng)
    risk = StructuredRisk(model, X, Y, "slack")
    risk(rng.normal(size=risk.n_features))
    assert sum(risk.statistics.values()) == len(risk) and set(risk.statistics) <= {
        "enumeration",
        "vertex",
        "levels",
        "front",
        "side_constraints",
    }
    margin = StructuredRisk(model, X, Y, "margin")
    margin(np.zeros(margin.n_features))
    assert margin.statistics == {"margin": len(margin)}


@pytest.mark.parametrize("family", ["pairwise", "knapsack"])
def test_sarawagi_trains(job, family):
    """Its label is not always the most violated one, but its bound holds, and it is found in the end."""
    rng = np.random.default_rng(3)
    model, X, Y = job.data_set(family, rng)
    risk = StructuredRisk(model, X, Y, "slack", search="sarawagi")
    w = rng.normal(size=risk.n_features)
    before = np.zeros(len(risk))
    for _ in range(3):
        found, wanted = risk.violations(w), job.best_labels(risk, w)
        assert (found.value <= wanted * (1 + 1e-9) + 1e-9).all()
        assert (found.upper >= wanted * (1 - 1e-9) - 1e-9).all()
        assert (found.value >= before * (1 - 1e-9)).all()
        before = found.value
    result = so.train.bmrm(risk, lam=0.1, tol=0.3, max_passes=60)
    assert np.isfinite(result.objective) and result.objective < risk(np.zeros(risk.n_features))[0]


def test_no_label_has_a_loss():
    """A single label: nothing can be violated."""
    space = so.LabelSpace()
    y = space.binary("y", 2)
    space.subject_to(y == np.array([1.0, 0.0]))
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    risk = StructuredRisk(model, np.ones((2, 1)), [[1, 0], [1, 0]], "slack")
    value, gradient = risk(np.array([3.0, -2.0]))
    assert value == 0 and not gradient.any()


@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_a_wrong_choice_of_a_group_is_one_step_of_the_loss(job, weight):
    """Two wrong variables of a one-of-many group always come together: half of the levels do not exist."""
    rng = np.random.default_rng(0)
    space = so.LabelSpace("three groups and a free variable")
    y, free = space.binary("y", (3, 3)), space.binary("free", 1)
    space.subject_to(2.0 * y.sum(axis=1) == 2.0, y[0, 0] + y[1, 1] + free[0] <= 2)
    losses = {"y": so.losses.Hamming(np.full(9, weight)), "free": so.losses.Hamming(np.full(1, 2 * weight))}
    model = so.Model(space, {"y": so.features.Table(), "free": so.features.Tied()}, losses)
    labels = space.enumerate()
    X, Y = rng.normal(size=(6, 3, 2)), labels[rng.integers(0, len(labels), 6)]
    risk = StructuredRisk(model, list(X), Y, Slack(), rtol=1e-9)
    np.testing.assert_allclose(risk.batch.loss_steps(risk.loss), 2 * weight)
    step, offset = DataPlanes(risk.batch, risk.truth, risk.loss, False).levels()
    for i in range(len(risk)):
        values = labels @ risk.loss.coef[i] + risk.loss.const[i]
        np.testing.assert_allclose(np.rint((values - offset[i]) / step[i]) * step[i], values - offset[i], atol=1e-9)
    w = rng.normal(size=risk.n_features)
    np.testing.assert_allclose(risk.violations(w).value, job.best_labels(risk, w), atol=1e-7)


@pytest.mark.parametrize("search", ["exact", "convex_hull"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_single_pass(job, family, search):
    """If nothing is kept, labels stay in compact form: the same values, planes and gradients."""
    rng = np.random.default_rng(5)
    model, X, Y = job.data_set(family, rng)
    batch = model._private_twin().batch(X)
    surrogate = [Slack(), LogLoss(), MicroF1()][FAMILIES.index(family) % 3]
    kept, once = (StructuredRisk.of_batch(batch, Y, surrogate, search, rtol=1e-6, keep=keep) for keep in (True, False))
    for scale in (0.3, 3.0):
        w = scale * rng.normal(size=batch.n_weights)
        first, second = kept.violations(w), once.violations(w)
        np.testing.assert_allclose(second.value, first.value, rtol=1e-5, atol=1e-9)
        assert (second.upper >= first.value - 1e-9).all()
        # The plane of the label found touches the surrogate.
        margin = batch.dot(batch.tables(w), second.labels) - batch.dot(batch.tables(w), once.truth)
        np.testing.assert_allclose(second.level + second.scale * margin, second.value, rtol=1e-6, atol=1e-9)
    if once._planes is not None:
        assert not once._planes._kept and once._planes.start is None

"""Spaces that one row makes too wide: a diagram of the others and a search within that row, against HiGHS."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.algorithms.diagram import CoupledDiagram, DiagramAlgorithm, compile_diagram, compiler, coupled_diagram
from structopt.algorithms.diagram.cache import DIAGRAMS, DiagramCache
from structopt.errors import DiagramRefused, InfeasibleSpace

INF = np.inf


def by_matrices(row_lower: float, row_upper: float, weight: np.ndarray | None = None) -> so.LabelSpace:
    rng = np.random.default_rng(0)
    A = np.vstack([rng.integers(1, 6, (2, 40)), rng.integers(1, 1000, 40) if weight is None else weight])
    return so.LabelSpace.from_matrices(A, [-INF, -INF, row_lower], [35, 35, row_upper])


@pytest.fixture(autouse=True)
def forgetful():
    DIAGRAMS.clear()


@pytest.mark.parametrize(("lower", "upper"), [(-INF, 4000.0), (3000.0, INF), (2950.0, 3050.0)])
def test_auto_searches_within_the_row_and_agrees_with_highs(lower, upper):
    space = by_matrices(lower, upper)
    with pytest.raises(DiagramRefused):
        so.Oracle(space, "diagram")
    algorithm = coupled_diagram(space.compiled, 1.0)
    assert algorithm is not None
    highs = so.Oracle(space, "highs")
    rng = np.random.default_rng(1)
    costs = rng.normal(size=(3, 40))
    costs[2] = np.rint(costs[2])  # ties
    batch = algorithm.maximize_batch(costs)
    assert batch.solved is None
    for c, z, value in zip(costs, batch.Z, batch.values, strict=True):
        assert space.contains(z)
        np.testing.assert_allclose(value, highs.maximize(c).value, atol=1e-9)
        np.testing.assert_allclose(value, c @ z, atol=1e-9)
    side = (sp.csr_array(np.ones((1, 40))), np.array([-INF]), np.array([4.0]))
    np.testing.assert_allclose(
        algorithm.maximize_constrained(costs[0], side).value,
        highs.maximize(costs[0], rows=[(np.ones(40), -INF, 4.0)]).value,
        atol=1e-9,
    )


def test_an_oracle_uses_it_from_the_second_call_on(monkeypatch):
    space, c = by_matrices(-INF, 4000.0), np.random.default_rng(2).normal(size=40)
    oracle = so.Oracle(space)
    first = oracle.maximize(c)
    assert oracle.algorithm == "highs"
    monkeypatch.setattr(oracle, "_solver_seconds", lambda unknown: 1.0)  # on a slow machine and on a fast one
    second = oracle.maximize(c)
    assert oracle.algorithm == "decision diagram and a row"
    np.testing.assert_allclose(second.value, first.value, atol=1e-9)
    forbidden = oracle.maximize(c, forbid=[second.z])
    np.testing.assert_allclose(forbidden.value, so.Oracle(space, "highs").maximize(c, forbid=[second.z]).value)
    assert [label.value for label in oracle.k_best(c, 2)] == pytest.approx([second.value, forbidden.value])


def test_a_row_that_no_label_satisfies_is_named_as_ever():
    # More than the small rows allow, less than all items together weigh.
    space = by_matrices(12_000.0, INF)
    algorithm = coupled_diagram(space.compiled, 1.0)
    c = np.ones(40)
    if algorithm is not None:
        assert algorithm.maximize(c) is None
    oracle = so.Oracle(space)
    for _ in range(2):
        with pytest.raises(InfeasibleSpace):
            oracle.maximize(c)


def test_searches_that_take_longer_than_a_solver_end():
    diagram = compile_diagram(so.LabelSpace.from_matrices([[3, 5, 2, 7]], 0, 8).compiled)
    row = (sp.csr_array([[0.1, 0.3, 0.2, 0.4]]), np.array([-INF]), np.array([0.35]))
    slow = CoupledDiagram(diagram, row, worth=0.0)
    c = np.array([1.0, 3.0, 1.5, 3.5])
    answers = [slow.maximize(c) for _ in range(8)]
    assert all(answer.value == 3.0 for answer in answers[:6]) and answers[6] is answers[7] is None
    assert slow.maximize(-c).value == 0.0  # the best label of all is within the row: no search


def test_it_is_of_no_use_for_a_continuous_row_or_a_fast_solver():
    space = by_matrices(-INF, 4000.0).compiled
    with pytest.raises(DiagramRefused):
        DIAGRAMS.get(space)
    assert coupled_diagram(space, 1e-6) is None
    assert coupled_diagram(so.LabelSpace.from_matrices([[1, 2, 3]], 0, 3).compiled, 1.0) is None  # not refused


def test_few_compilations_run_at_the_same_time(monkeypatch):
    running, most, turn = 0, 0, threading.Condition()
    real = compiler._compiled

    def counted(*arguments):
        nonlocal running, most
        with turn:
            running += 1
            most = max(most, running)
            turn.notify_all()
            turn.wait_for(lambda: most >= compiler._AT_ONCE, timeout=60)  # however slowly the threads start
        try:
            return real(*arguments)
        finally:
            with turn:
                running -= 1

    monkeypatch.setattr(compiler, "_compiled", counted)
    cache = DiagramCache()
    spaces = [so.LabelSpace.from_matrices([[1, 2, 3, k]], 0, 4).compiled for k in range(1, 13)]
    with ThreadPoolExecutor(len(spaces)) as pool:
        list(pool.map(cache.get, spaces))
    assert most == compiler._AT_ONCE
    assert all(cache.known(space) is not None for space in spaces)


def test_a_layer_of_many_open_rows_has_fewer_states():
    # Two hundred open rows: sixty thousand states of them would take 100 MB.
    A = np.random.default_rng(0).integers(0, 3, (200, 40)).astype(float)
    space = so.LabelSpace.from_matrices(A, -INF, 15).compiled
    with pytest.raises(DiagramRefused) as caught:
        compile_diagram(space, max_work=10**9)
    assert caught.value.reason == "width" and max(caught.value.widths) <= 64 * 60_000 // 150


def _count(space, answer):
    answer.put(compile_diagram(space).count())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_others_compile_has_its_own_turns():
    space = so.LabelSpace.from_matrices([[3, 5, 2, 7]], 0, 8).compiled
    assert DiagramAlgorithm(compile_diagram(space)).count() == 8  # kernels are compiled
    for _ in range(compiler._AT_ONCE):
        compiler._turns.acquire()
    try:
        context = multiprocessing.get_context("fork")
        answer = context.Queue()
        child = context.Process(target=_count, args=(space, answer))
        child.start()
        assert answer.get(timeout=60) == 8
        child.join()
    finally:
        for _ in range(compiler._AT_ONCE):
            compiler._turns.release()

"""The oracle compiles what is asked twice, keeps it by fingerprint, and falls back to HiGHS."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.diagram import DIAGRAMS, DiagramAlgorithm, DiagramCache, compile_diagram, fronts
from structopt.errors import DiagramRefused, InfeasibleSpace
from structopt.plane import PointPlane
from structopt.search import exact
from structopt.surrogates import BetaScaling, LogLoss, Margin, ProbLoss, Product, Slack, from_functions
from structopt.surrogates.levels import level_choice


@pytest.fixture(autouse=True)
def forget():
    DIAGRAMS.clear()
    yield
    DIAGRAMS.clear()


def two_knapsacks(n=18, seed=0):
    W = np.random.default_rng(seed).integers(1, 10, (2, n)).astype(float)
    return so.LabelSpace.from_matrices(W, -np.inf, np.floor(W.sum(axis=1) * 0.3))


def test_auto_compiles_at_the_second_call():
    space, rng = two_knapsacks(), np.random.default_rng(0)
    oracle, highs = so.Oracle(space), so.Oracle(space, "highs")
    assert oracle.algorithm == "highs"
    assert "compiled" not in repr(space.structure) and space.structure.oracle == "mip"
    for c in rng.normal(size=(5, 18)):
        assert oracle.maximize(c).value == pytest.approx(highs.maximize(c).value, abs=1e-9)
    assert oracle.algorithm == "decision diagram"
    assert space.structure.oracle == "decision diagram" and "compiled" in repr(space.structure)
    assert oracle.statistics.fast == 4
    assert so.Oracle(two_knapsacks()).maximize(np.ones(18)).value == highs.maximize(np.ones(18)).value


@pytest.mark.parametrize("ask", ["batch", "k_best", "forbid", "rows", "front"])
def test_auto_compiles_at_once_for_more_than_a_plain_call(ask):
    space = two_knapsacks()
    oracle, highs = so.Oracle(space), so.Oracle(space, "highs")
    c, a = np.random.default_rng(1).normal(size=(2, 18))
    best = highs.maximize(c)
    if ask == "batch":
        values = [label.value for label in oracle.maximize_batch([c, a])]
        assert values == pytest.approx([best.value, highs.maximize(a).value])
    elif ask == "k_best":
        assert oracle.k_best(c, 3)[2].value == pytest.approx(highs.k_best(c, 3)[2].value)
    elif ask == "forbid":
        found, known = (o.maximize(c, forbid=[best.z]).value for o in (oracle, highs))
        assert found == pytest.approx(known)
    elif ask == "rows":
        row = (a, -np.inf, float(a @ best.z) - 0.5)
        found, known = (o.maximize(c, [row]).value for o in (oracle, highs))
        assert found == pytest.approx(known)
    else:
        assert oracle.front((c, 0.0), (np.ones(18), 0.0)) is not None
    assert oracle.algorithm == "decision diagram"


def test_a_refused_space_stays_with_highs():
    rng = np.random.default_rng(0)
    W = rng.integers(1, 1000, (4, 60)).astype(float)
    space = so.LabelSpace.from_matrices(W, -np.inf, np.floor(W.sum(axis=1) * 0.4))
    with pytest.raises(DiagramRefused, match="too wide"):
        so.Oracle(space, "diagram")
    with pytest.raises(DiagramRefused) as told:
        so.compile_space(space, max_nodes=500)
    assert told.value.widths
    with pytest.raises(DiagramRefused):
        space.count()
    c = np.r_[np.ones(3), -np.ones(57)]
    oracle = so.Oracle(space)
    assert [oracle.maximize(c).value for _ in range(3)] == [3.0] * 3
    assert oracle.algorithm == "highs"


def test_relaxed_oracles_are_not_compiled():
    oracle = so.Oracle(two_knapsacks(), integral="relax")
    for c in np.random.default_rng(0).normal(size=(3, 18)):
        oracle.maximize(c)
    assert oracle.algorithm == "highs"


def test_count():
    assert so.LabelSpace.from_matrices([[1, 1, 1]], 1, 2).count() == 6
    assert so.LabelSpace.from_matrices([[2, 2]], 1, 1).count() == 0
    with pytest.raises(DiagramRefused):
        so.LabelSpace.from_matrices([[1, 1]], 1, 1, integrality=0).count()


def test_an_empty_space_is_explained_by_the_solver():
    space = so.LabelSpace.from_matrices([[3] * 16, [5, 7] * 8], [40, -np.inf], [np.inf, 20])
    oracle = so.Oracle(space)
    for _ in range(3):
        with pytest.raises(InfeasibleSpace):
            oracle.maximize(np.ones(16))


def test_enumerate_contains_and_diagram_have_one_tolerance():
    space = so.LabelSpace.from_matrices([[1000, 1000]], -np.inf, 1999.999)
    listed = [tuple(z) for z in space.enumerate()]
    assert space.contains([1, 1]) == ((1.0, 1.0) in listed) == so.compile_space(space).contains([1, 1])
    assert space.count() == len(listed)


def test_least_recently_used_diagrams_go_first():
    spaces = [two_knapsacks(12, seed).compiled for seed in range(4)]
    size = DiagramCache().get(spaces[0]).nbytes
    cache = DiagramCache(max_bytes=3 * size)
    for space in spaces:
        cache.get(space)
    assert cache.nbytes <= 3 * size
    assert cache.known(spaces[0]) is None and cache.known(spaces[3]) is not None


def test_many_threads_share_a_small_cache():
    """Diagrams come and go while others are asked for: every answer is right, and the limit holds."""
    spaces = [two_knapsacks(12, seed) for seed in range(6)]
    labels = [space.enumerate() for space in spaces]
    cache = DiagramCache(max_bytes=3 * DiagramCache().get(spaces[0].compiled).nbytes)
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(96, 12))

    def ask(k):
        diagram = cache.get(spaces[k % 6].compiled)
        return DiagramAlgorithm(diagram).maximize(costs[k]).value

    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(ask, range(96)))
    np.testing.assert_allclose(values, [(labels[k % 6] @ costs[k]).max() for k in range(96)])
    assert cache.nbytes <= cache.max_bytes


def test_oracles_in_many_threads_compile_one_space_once(monkeypatch):
    from structopt.algorithms.diagram import cache as module

    made = []
    compile_diagram = module.compile_diagram
    monkeypatch.setattr(module, "compile_diagram", lambda space: made.append(1) or compile_diagram(space))
    space, costs = two_knapsacks(), np.random.default_rng(1).normal(size=(32, 18))
    best = (space.enumerate() @ costs.T).max(axis=0)
    oracles = [so.Oracle(two_knapsacks()) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda k: oracles[k % 8].maximize(costs[k]).value, range(32)))
    np.testing.assert_allclose(values, best)
    assert len(made) == 1 and {oracle.algorithm for oracle in oracles} == {"decision diagram"}


def test_one_refusal_for_all_threads(monkeypatch):
    from structopt.algorithms.diagram import cache as module

    made = []
    compile_diagram = module.compile_diagram
    monkeypatch.setattr(module, "compile_diagram", lambda space: made.append(1) or compile_diagram(space, max_nodes=50))
    cache, space = DiagramCache(), two_knapsacks().compiled

    def ask(_):
        with pytest.raises(DiagramRefused) as caught:
            cache.get(space)
        return caught.value.reason

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(16))) == {"width"}
    assert len(made) == 1 and cache.refusal(space) is not None


def test_ctrl_c_while_a_diagram_is_compiled_leaves_the_cache_usable(monkeypatch):
    from structopt.algorithms.diagram import cache as module

    compile_diagram = module.compile_diagram
    begun, go_on = threading.Event(), threading.Event()

    def interrupted(space):
        begun.set()
        go_on.wait(10)
        monkeypatch.setattr(module, "compile_diagram", compile_diagram)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "compile_diagram", interrupted)
    cache, space, found = DiagramCache(), two_knapsacks().compiled, []
    caught = []

    def first():
        try:
            cache.get(space)
        except KeyboardInterrupt:
            caught.append(True)

    one = threading.Thread(target=first)
    one.start()
    begun.wait(10)
    others = [threading.Thread(target=lambda: found.append(cache.get(space))) for _ in range(3)]
    for thread in others:
        thread.start()  # they wait for the one who compiles
    go_on.set()
    for thread in (one, *others):
        thread.join()
    assert caught and len(found) == 3 and found[0] is found[1] is found[2]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_real_interrupt_during_compilation():
    space, cache = two_knapsacks(24).compiled, DiagramCache()
    cache.get(space)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                cache.clear()
                cache.get(space)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert cache.get(space).count() == cache.get(space).count() > 0


def test_many_refusals_make_the_cache_patient():
    cache = DiagramCache()
    for k in range(8):
        space = so.LabelSpace.from_matrices([[1, -1, 1]], -np.inf, 0.9999995 + k * 1e-8).compiled
        with pytest.raises(DiagramRefused):
            cache.get(space)
    good = two_knapsacks().compiled
    assert cache.used(good, 2) is None
    assert cache.used(good, 100) is not None


def test_a_long_list_of_labels_gives_way_to_a_diagram():
    """A list answers until the second use; few labels stay listed."""
    rng = np.random.default_rng(0)
    W = rng.integers(1, 10, (2, 14)).astype(float)
    space = so.LabelSpace.from_matrices(W, -np.inf, np.floor(W.sum(axis=1) * 0.4))
    labels, oracle = space.enumerate(), so.Oracle(space)
    assert 1000 < len(labels) <= 4096 and oracle.algorithm == "enumeration"
    for _ in range(3):
        c = rng.normal(size=14)
        assert oracle.maximize(c).value == pytest.approx((labels @ c).max())
    assert oracle.algorithm == "decision diagram" == so.Oracle(space).algorithm
    few = so.Oracle(so.LabelSpace.from_matrices(W[:, :8], -np.inf, 12.0))
    few.maximize_batch(rng.normal(size=(50, 8)))
    assert few.algorithm == "enumeration"


def test_an_oracle_names_the_diagram_that_another_one_has_made():
    """A risk works with a private copy of the model, so that this one's own oracle was never asked."""
    loaded = so.load_model("shift_rota")
    risk = so.train.StructuredRisk(loaded.model, *loaded.data(4))
    for _ in range(2):
        risk(np.ones(risk.n_features))
    assert loaded.model.oracle().algorithm == "decision diagram"


def test_conditional_risk_minimization_predicts_by_the_diagram():
    space, rng = two_knapsacks(), np.random.default_rng(0)
    labels = space.enumerate()
    X, Y = rng.normal(size=(40, 3)), labels[rng.integers(0, len(labels), 40)]
    predictions = []
    for solver in ("auto", "highs"):
        model = so.Model(space, {"z": so.features.Linear()}, so.losses.Hamming())
        fitted = so.ConditionalRiskMinimizer(model, lam=0.1, solver=solver).fit(X, Y)
        predictions.append(np.array(fitted.predict(X[:20])))
        expected = "decision diagram" if solver == "auto" else "highs"
        assert fitted.program_.oracle.algorithm == expected
    np.testing.assert_array_equal(*predictions)


def test_slack_training_uses_the_front_of_a_space_that_is_too_large_to_list():
    loaded = so.load_model("shift_rota")
    X, Y = loaded.data(10)
    fitted = so.StructuredSVM(loaded.model, surrogate="slack", lam=1e-1).fit(X, Y)
    searched = so.StructuredSVM(so.load_model("shift_rota").model, surrogate="slack", lam=1e-1, search="angular")
    result, other = fitted.result_, searched.fit(X, Y).result_
    assert result.lower_bound <= other.objective * (1 + 1e-9) and other.lower_bound <= result.objective * (1 + 1e-9)


def groups_with_capacities():
    space = so.LabelSpace()
    y = space.binary("y", (6, 3))
    space.subject_to(y.sum(axis=1) == 1, y.sum(axis=0) <= 3, y[0] + y[1] <= 1)
    return space


def best_of_points(psi, H, G, mixes):
    """The largest psi of labels, and over mixtures of them."""
    if not mixes:
        return np.array([psi.clipped_array(h, g).max() for h, g in zip(H.T, G.T, strict=True)])
    values = []
    for h, g in zip(H.T, G.T, strict=True):
        order = np.lexsort((-h, -g))
        order = order[h[order] > np.maximum.accumulate(np.concatenate([[-np.inf], h[order][:-1]]))]
        values.append(exact(PointPlane(np.column_stack([h, g])[order], convex=True), psi).value)
    return np.array(values)


@pytest.mark.parametrize("make", [two_knapsacks, groups_with_capacities])
@pytest.mark.parametrize("truths, scale", [(1, 1.0), (40, 0.3)])
@pytest.mark.parametrize("mixes", [False, True])
def test_most_violated(make, truths, scale, mixes):
    """Over one-of-many groups all Hamming losses are even, and tables have half of the rows."""
    space, rng = make(), np.random.default_rng(truths)
    labels, n = space.enumerate(), 21
    Y = labels[rng.integers(0, len(labels), truths)][rng.integers(0, truths, n)]
    H, G, G0 = rng.normal(size=(n, 18)), scale * (1.0 - 2.0 * Y), scale * Y.sum(axis=1)
    H[12:] = np.rint(H[12:])  # ties
    H0 = -np.einsum("ij,ij->i", H, Y)
    H0[:3] -= 100.0  # no product is positive
    plan = so.Oracle(space, "diagram")._algorithm.front_plan(G, G0)
    own = from_functions("own", lambda h, g: (2.0 + h) * g, lambda h, g: (g, 2.0 + h))
    for psi in (Slack(), Product(), BetaScaling(0.5), LogLoss(), ProbLoss(), ProbLoss(convex=True), Margin(), own):
        Z, h, g, value, slope, upper = plan.most_violated(H, H0, level_choice(psi, mixes))
        points_h, points_g = labels @ H.T + H0 + psi.h_offset, labels @ G.T + G0
        best = best_of_points(psi, points_h, points_g, mixes)
        np.testing.assert_allclose(value, best, rtol=1e-9, atol=1e-9)
        assert (upper >= best * (1.0 - 1e-12) - 1e-12).all() and (upper <= value * (1.0 + 1e-9)).all()
        violated = value > 0.0
        assert violated.any() and (h[~violated] == 0.0).all() and (g[~violated] == 0.0).all()
        np.testing.assert_allclose(psi.clipped_array(h, g)[violated], value[violated], rtol=1e-9)
        slopes = np.zeros(n)
        slopes[violated] = psi.psi_gradient(h[violated], g[violated])[0]
        np.testing.assert_allclose(slope, slopes, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose((np.einsum("ij,ij->i", H, Z) + H0 + psi.h_offset)[violated], h[violated], atol=1e-9)
        np.testing.assert_allclose((np.einsum("ij,ij->i", G, Z) + G0)[violated], g[violated], atol=1e-9)
        mixed = (np.abs(Z - np.rint(Z)) > 1e-9).any(axis=1)
        assert all(space.contains(z) for z in Z[violated & ~mixed]) and (mixes or not mixed.any())


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("mixes", [False, True])
def test_most_violated_of_few_examples_and_zero_losses(n, mixes):
    space, rng = two_knapsacks(), np.random.default_rng(n)
    labels = space.enumerate()
    H, G = rng.normal(size=(n, 18)), np.zeros((n, 18))
    plan = so.Oracle(space, "diagram")._algorithm.front_plan(G, np.zeros(n))
    found = plan.most_violated(H, np.zeros(n), level_choice(Slack(), mixes))
    assert not found.value.any() and not found.upper.any() and found.Z.shape == (n, 18)
    plan = so.Oracle(space, "diagram")._algorithm.front_plan(G, np.ones(n))
    found = plan.most_violated(H, np.zeros(n), level_choice(Slack(), mixes))
    np.testing.assert_allclose(found.value, 1.0 + (labels @ H.T).max(axis=0, initial=-np.inf), atol=1e-9)


@pytest.mark.parametrize("mixes", [False, True])
def test_most_violated_of_a_space_with_one_label(mixes):
    space = so.LabelSpace("nothing is free")
    y = space.binary("y", 3)
    space.subject_to(y[0] + y[1] >= 2)
    space.subject_to(y[2] <= 0)
    for n in (1, 20):
        H = np.random.default_rng(n).normal(size=(n, 3))
        plan = so.Oracle(space, "diagram")._algorithm.front_plan(np.ones((n, 3)), np.zeros(n))
        found = plan.most_violated(H, np.full(n, 5.0), level_choice(Slack(), mixes))
        np.testing.assert_allclose(found.value, 2.0 * (6.0 + H[:, 0] + H[:, 1]), atol=1e-9)
        assert (found.Z == [1.0, 1.0, 0.0]).all()


def test_most_violated_raises_what_a_surrogate_raises():
    space = two_knapsacks()

    def wrong(h, g):
        raise ArithmeticError("not here")

    plan = so.Oracle(space, "diagram")._algorithm.front_plan(np.ones((3, 18)), np.ones(3))
    for mixes in (False, True):
        with pytest.raises(ArithmeticError, match="not here"):
            plan.most_violated(np.ones((3, 18)), np.zeros(3), level_choice(from_functions("own", wrong, wrong), mixes))


def check_fronts(fronts, labels, some, H, H0, G, G0, places):
    """Compare fronts of some examples with those of all labels, and decode the labels at some places."""
    for i, example in enumerate(some.tolist()):
        h, g = labels @ H[example] + H0[example], labels @ G[example] + G0[example]
        of_example = slice(fronts.ptr[i], fronts.ptr[i + 1])
        reached = np.isfinite(fronts.h[of_example])
        np.testing.assert_array_equal(fronts.g[of_example][reached], np.unique(g))
        best = [h[g == level].max() for level in np.unique(g)]
        np.testing.assert_allclose(fronts.h[of_example][reached], best)
    Z = fronts.decode(places)
    np.testing.assert_allclose(np.einsum("ij,ij->i", H[some], Z) + H0[some], fronts.h[places])
    np.testing.assert_allclose(np.einsum("ij,ij->i", G[some], Z) + G0[some], fronts.g[places])


def test_fronts_whose_levels_are_not_kept(monkeypatch):
    """Of many different losses the levels are found anew for each pass."""
    space, rng = two_knapsacks(), np.random.default_rng(3)
    labels, n = space.enumerate(), 30
    Y = labels[rng.integers(0, len(labels), n)]
    H, H0, G, G0 = rng.normal(size=(n, 18)), rng.normal(size=n), 1.0 - 2.0 * Y, Y.sum(axis=1)
    algorithm, some = so.Oracle(space, "diagram")._algorithm, np.arange(3, n, 2)
    kept = algorithm.front_plan(G, G0)
    monkeypatch.setattr(fronts, "_KEPT_LEVELS", 0)
    plan = algorithm.front_plan(G, G0)
    assert (
        plan._levels is None
        and plan.most_violated(H, H0, level_choice(Slack(), False)) is None
        and plan.cost > kept.cost
    )
    for front in (plan.fronts(H[some], H0[some], some), kept.fronts(H[some], H0[some], some)):
        check_fronts(front, labels, some, H, H0, G, G0, front.best((2.0 + front.h) * front.g))


@pytest.mark.parametrize("truths", [1, 70])
def test_tables_of_examples_side_by_side_are_the_fronts_by_enumeration(truths):
    """Hamming losses of other truths are other levels at every node; 70 examples are several groups of columns."""
    space, rng = two_knapsacks(), np.random.default_rng(truths)
    labels, n = space.enumerate(), 70
    Y = labels[rng.integers(0, len(labels), truths)][np.sort(rng.integers(0, truths, n))]
    H, H0, G, G0 = rng.normal(size=(n, 18)), rng.normal(size=n), 1.0 - 2.0 * Y, Y.sum(axis=1)
    algorithm = so.Oracle(space, "diagram")._algorithm
    some = rng.permutation(n)[:50]
    some.sort()
    fronts = algorithm.front_plan(G, G0).fronts(H[some], H0[some], some)
    places = fronts.ptr[:-1] + [
        rng.choice(np.flatnonzero(np.isfinite(fronts.h[a:b])))
        for a, b in zip(fronts.ptr[:-1], fronts.ptr[1:], strict=True)
    ]
    check_fronts(fronts, labels, some, H, H0, G, G0, places)


def test_losses_with_more_levels_than_a_32_bit_number_have_no_table():
    # Each item alone is a block, so that the diagram is small; losses add up to 3e9 levels.
    diagram = compile_diagram(so.LabelSpace.from_matrices(np.ones((1, 3000)), 0, 3000).compiled)
    algorithm = DiagramAlgorithm(diagram)
    G = np.full((6, 3000), 999_999.0)
    assert algorithm.front_plan(G, np.zeros(6)) is None

"""Ctrl-C at random moments of every long public call.

The call ends with `KeyboardInterrupt`, with its result, or with the partial result of a trainer. Any other exception is
a failure. The same call then runs again on the same objects and has to return the same result as before.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import structopt as so
from structopt import search
from structopt.plane import Plane
from structopt.testing.instances import hard_knapsack
from structopt.train import StructuredRisk

#: Moments at which one case interrupts its call.
MOMENTS = 10
#: Shorter calls are repeated for so many seconds.
_SHORTEST = 0.01
#: Passes of trainers that do not train chains.
_TRAINERS = {
    "multiclass_ascent": 30,
    "hierarchical_sgd": 5,
    "coordinate_descent": 50,
    "lbfgs": 30,
    "proximal_bundle": 20,
    "trust_region_bundle": 20,
}
_LINEAR = (so.LinearSVM, so.FBetaSVM, so.AUCMaximizer, so.RankSVM, so.OrdinalRegressor, so.QuantileRegressor)
_LAYERS = ("SPOPlus", "StructuredHinge", "FenchelYoung", "SparseMAP", "Marginals")
_SOLVERS = {"scip": "pyscipopt", "cbc": "pulp"}


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


class LongCall(NamedTuple):
    """A call, and how to read its result: (numbers to compare, whether it is a partial result)."""

    run: Callable[[], Any]
    read: Callable[[Any], tuple[np.ndarray, bool]]


def _numbers(result: Any) -> tuple[np.ndarray, bool]:
    return np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in result]), False


def _fitted(estimator: Any) -> tuple[np.ndarray, bool]:
    result = estimator.result_
    return np.ravel(result.w), result.stopped == "interrupted"


def _chains() -> tuple[list[np.ndarray], list[list[int]]]:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(10, 4)) for _ in range(40)]
    return X, [list(x[:, :3].argmax(axis=1)) for x in X]


def _predict() -> LongCall:
    X, Y = _chains()
    svm = so.StructuredSVM(so.structures.Chain(3), max_passes=2).fit(X[:20], Y[:20])
    return LongCall(lambda: svm.predict(X * 5), _numbers)


def _risk() -> LongCall:
    risk = StructuredRisk(so.structures.Chain(3), *_chains(), "margin")
    w = np.random.default_rng(1).normal(size=risk.n_features)
    return LongCall(lambda: [risk(w) for _ in range(10)], lambda found: _numbers([p for pair in found for p in pair]))


def _crf() -> LongCall:
    X, Y = _chains()
    return LongCall(lambda: so.CRF(max_passes=20, tol=1e-9).fit(X, Y), _fitted)


def _svm(trainer: str, passes: int = 3) -> LongCall:
    X, Y = _chains()
    options: dict[str, Any] = {"trainer": trainer, "max_passes": passes, "tol": 0.0}
    return LongCall(lambda: so.StructuredSVM(so.structures.Chain(3), **options).fit(X, Y), _fitted)


def _classes() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(4).normal(size=(60, 5))
    return X, X[:, :3].argmax(axis=1)


def _trained(result: Any) -> tuple[np.ndarray, bool]:
    return np.ravel(result.w), result.stopped == "interrupted"


def _trainer(name: str, passes: int) -> LongCall:
    """Return a call of a trainer on a risk that it takes."""
    X, y = _classes()
    options: dict[str, Any] = {"lam": 1e-3, "tol": 0.0, "max_passes": passes}
    if name == "multiclass_ascent":
        risk: Any = StructuredRisk(so.structures.Multiclass(3), X, y)
    elif name == "hierarchical_sgd":
        tree = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
        risk = StructuredRisk(so.structures.HierarchicalLabels(tree), X, list(np.array(["b", "c", "d"])[y]))
    else:
        risk = (so.risks.Logistic if name == "lbfgs" else so.risks.Hinge)(X, np.where(y > 0, 1, -1))
    return LongCall(lambda: so.train.get(name)(risk, **options), _trained)


def _hierarchical(make: Any) -> LongCall:
    X, y = _classes()
    tree = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
    names = np.array(["b", "c", "d"])[y]
    options: dict[str, Any] = {"max_rounds": 1} if make is so.SharedSVM else {}
    return LongCall(lambda: make(tree, lam=1e-2, max_passes=3, **options).fit(X, names), _fitted)


def _linear(make: Any) -> LongCall:
    X, y = _classes()
    binary = make in (so.FBetaSVM, so.AUCMaximizer)
    return LongCall(lambda: make(lam=1e-3, max_passes=10, tol=0.0).fit(X, y > 0 if binary else y), _fitted)


def _conditional() -> LongCall:
    X, y = _classes()

    def run() -> Any:
        estimator = so.ConditionalRiskMinimizer(so.structures.Multiclass(3), kernel="rbf", lam=0.01)
        return estimator.fit(X, y).predict(X)

    return LongCall(run, lambda found: (np.asarray(found, dtype=float), False))


def _bayes() -> LongCall:
    X, Y = _chains()
    crf = so.CRF(max_passes=2).fit(X[:20], Y[:20])
    return LongCall(lambda: [crf.predict(X * 2, decision="bayes"), crf.predict_proba(X * 2)],
                    lambda found: _numbers([part for parts in found for part in parts]))  # fmt: skip


def _space(n: int = 14, rows: int = 3) -> tuple[so.LabelSpace, np.ndarray]:
    rng = np.random.default_rng(2)
    space = so.LabelSpace()
    y = space.binary("y", n)
    for _ in range(rows):
        weights = rng.integers(1, 20, n).astype(float)
        space.subject_to((y * weights).sum() <= weights.sum() / 2)
    return space, rng.normal(size=n)


def _k_best() -> LongCall:
    space, costs = _space()
    oracle = so.Oracle(space)
    return LongCall(lambda: oracle.k_best(costs, 500), lambda found: _numbers([label.z for label in found]))


def _exact() -> LongCall:
    space, costs = _space()
    plane = Plane(so.Oracle(space, solver="highs"), h=(costs, 0.3), g=(np.linspace(0.1, 1.0, 14), 0.0))
    return LongCall(lambda: search.exact(plane, "slack"), lambda found: _numbers([[found.value, found.upper_bound]]))


def _search(name: str) -> LongCall:
    space, costs = _space()
    plane = Plane(so.Oracle(space), h=(costs, 0.3), g=(np.linspace(0.1, 1.0, 14), 0.0))
    options = {"convex_hull": {"surrogate": "slack"}, "sarawagi": {"xi": 0.0}}.get(name, {})
    return LongCall(
        lambda: getattr(search, name)(plane, **options),
        lambda found: (np.array([found.value, found.upper_bound]), False),
    )


def _enumerate() -> LongCall:
    return LongCall(lambda: _space(13, 2)[0].enumerate(), lambda Z: (np.array([len(Z), Z.sum()]), False))


def _count() -> LongCall:
    return LongCall(lambda: _space(13, 2)[0].count(), lambda number: (np.array([float(number)]), False))


def _sums() -> LongCall:
    costs = np.random.default_rng(6).normal(size=(3, 13))

    def run() -> Any:
        oracle = so.Oracle(_space(13, 2)[0])
        return oracle.log_partition(costs), oracle.marginals(costs), oracle.sample(costs[0], 50, random_state=0)

    return LongCall(run, _numbers)


def _front() -> LongCall:
    space, costs = _space()
    oracle = so.Oracle(space)

    def read(Z: Any) -> tuple[np.ndarray, bool]:
        return np.sort(Z @ costs), False

    return LongCall(lambda: oracle.front((costs, 0.0), (np.linspace(0.1, 1.0, 14), 0.0)), read)


def _lazy_space() -> so.LabelSpace:
    """Return a space of five 0/1 variables whose sum is at most 2, by rows of three variables that are lazy."""
    space = so.LabelSpace()
    y = space.binary("y", 5)

    def separate(z: dict[str, np.ndarray]) -> Any:
        best = np.sort(np.argsort(-z["y"])[:3])
        return [sum(y[int(k)] for k in best) <= 2] if z["y"][best].sum() > 2.0 + 1e-6 else []

    space.lazy(separate)
    return space


def _lazy() -> LongCall:
    costs = np.random.default_rng(7).normal(size=(3, 5)) + 1.0

    def run() -> Any:
        oracle = so.Oracle(_lazy_space())
        return [[oracle.maximize(c).value] for c in costs]

    return LongCall(run, _numbers)


def _check(name: str) -> LongCall:
    """Return a check of `structopt.testing`, whose report has no failure."""
    model = so.structures.Chain(2)
    X = [np.random.default_rng(8).normal(size=(2, 2)) for _ in range(3)]

    def run() -> Any:
        if name == "check_separation":
            return so.testing.check_separation(_lazy_space(), lambda z: z["y"].sum() <= 2, trials=1)
        return so.testing.check_model(model, X[:2], [[0, 1]] * 2)

    return LongCall(run, lambda report: (np.array([len(report.outcomes), float(report.ok)]), False))


def _files() -> LongCall:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    space = so.LabelSpace()
    y = space.binary("y", 80)
    for k in range(40):
        space.subject_to(y[k] + y[k + 1] + y[2 * k] <= 2)

    def run() -> Any:
        space.write(folder / "space.mps")
        again = so.LabelSpace.read(folder / "space.mps")
        assert sorted(path.name for path in folder.iterdir()) == ["space.mps"], "a file is left"
        return [again.row_upper, again.matrix.sum(axis=0)]

    return LongCall(run, _numbers)


def _saved() -> LongCall:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    X, Y = _chains()
    svm = so.StructuredSVM(so.structures.Chain(3), max_passes=2).fit(X[:20], Y[:20])

    def run() -> Any:
        svm.save(folder / "svm.npz")
        weights = so.load(folder / "svm.npz").coef_
        assert sorted(path.name for path in folder.iterdir()) == ["svm.npz"], "a file is left"
        return [weights]

    return LongCall(run, _numbers)


def _mip(solver: str) -> LongCall:
    space, costs = hard_knapsack(10 if solver in ("cbc", "scip") else 14, 6)
    oracle = so.Oracle(space, solver)
    return LongCall(lambda: oracle.maximize(costs), lambda found: _numbers([[found.value]]))


def _batch() -> LongCall:
    space, costs = _space()
    oracle, C = so.Oracle(space, solver="highs"), costs + np.random.default_rng(3).normal(size=(8, 14))
    return LongCall(
        lambda: oracle.maximize_batch(C, n_jobs=2), lambda found: _numbers([label.value for label in found])
    )


def _neural() -> LongCall:
    import torch

    from structopt.torch import NeuralStructured

    X, Y = _chains()

    def run() -> Any:
        net = NeuralStructured(so.structures.Chain(3), lambda: torch.nn.Linear(4, 3), epochs=3, validation=0.3)
        return net.fit(X, [np.array(y) for y in Y])

    def read(net: Any) -> tuple[np.ndarray, bool]:
        assert torch.is_grad_enabled(), "gradients are disabled"
        return np.concatenate([p.detach().numpy().ravel() for p in net.module_.parameters()]), len(net.history_) < 3

    return LongCall(run, read)


def _neural_predict() -> LongCall:
    call = _neural()
    net, X = call.run(), _chains()[0]
    return LongCall(lambda: net.predict(X * 5), _numbers)


def _layers(name: str) -> LongCall:
    """Return forward and backward passes through a layer or a loss."""
    import torch

    from structopt import torch as layers

    space, _ = _space()
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    scores = torch.tensor(np.random.default_rng(9).normal(size=(10, 14)))
    truth = torch.tensor(np.array([so.Oracle(space).maximize(-c).z for c in scores.numpy()]))
    make = getattr(layers, name)
    kinds: dict[str, Callable[[Any], Any]] = {
        "SPOPlus": lambda x: make(model)(x, scores.flip(0)),
        "StructuredHinge": lambda x: make(model)(x, truth),
        "FenchelYoung": lambda x: make(model)(x, truth),
    }
    call = kinds.get(name, lambda x: (make(model)(x)["y"] ** 2).sum())

    def run() -> Any:
        x = scores.clone().requires_grad_(True)
        call({"y": x}).sum().backward()
        return [x.grad.numpy()]

    def read(found: Any) -> tuple[np.ndarray, bool]:
        assert torch.is_grad_enabled(), "gradients are disabled"
        return _numbers(found)

    return LongCall(run, read)


CALLS: dict[str, Callable[[], LongCall]] = {
    "predict": _predict,
    "risk": _risk,
    "CRF": _crf,
    **{name: partial(_svm, name) for name in ("block_ascent", "n_slack", "one_slack", "bcfw", "sgd", "bmrm")},
    **{name: partial(_trainer, name, passes) for name, passes in _TRAINERS.items()},
    **{f"{make.__name__}.fit": partial(_hierarchical, make) for make in (so.HierarchicalSVM, so.SharedSVM)},
    **{f"{make.__name__}.fit": partial(_linear, make) for make in _LINEAR},
    "ConditionalRiskMinimizer": _conditional,
    "CRF.predict, bayes": _bayes,
    **{f"search.{name}": partial(_search, name) for name in ("sarawagi", "angular", "binary", "bisecting")},
    "search.convex_hull": partial(_search, "convex_hull"),
    "enumerate": _enumerate,
    "count": _count,
    "sums": _sums,
    "front": _front,
    "lazy rows": _lazy,
    "check_separation": lambda: _check("check_separation"),
    "check_model": lambda: _check("check_model"),
    "write and read": _files,
    "save and load": _saved,
    "k_best": _k_best,
    "exact search": _exact,
    "MIP by HiGHS": lambda: _mip("highs"),
    "MIP by SciPy": lambda: _mip("scipy"),
    **{f"MIP by {name}": partial(_mip, name) for name, module in _SOLVERS.items() if _is_installed(module)},
    "batch in threads": _batch,
    "NeuralStructured.fit": _neural,
    "NeuralStructured.predict": _neural_predict,
    **{f"torch.{name}": partial(_layers, name) for name in _LAYERS},
}
if not _is_installed("torch"):
    CALLS = {name: make for name, make in CALLS.items() if "Neural" not in name and "torch." not in name}


@cache
def _prepared(name: str) -> tuple[LongCall, np.ndarray, float]:
    """Return a call with its result and its duration in seconds, after a first run that compiles."""
    call = CALLS[name]()
    call.run()
    begun = time.perf_counter()
    numbers, stopped = call.read(call.run())
    assert not stopped
    duration = time.perf_counter() - begun
    for _ in range(2):  # other processes may have slowed the first
        begun = time.perf_counter()
        call.run()
        duration = min(duration, time.perf_counter() - begun)
    if duration < _SHORTEST:
        times, once = int(np.ceil(_SHORTEST / duration)), call.run
        call = call._replace(run=lambda: [once() for _ in range(times)][-1])
        duration *= times
    return call, numbers, duration


class _Interrupt:
    """A handler of signals that raises once, and only while the call runs."""

    def __init__(self) -> None:
        self.armed = False

    def __call__(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


def _end(call: LongCall, seconds: float) -> tuple[str, Any]:
    """Run a call, raise KeyboardInterrupt after some seconds as SIGINT does, and return how the call ended."""
    handler = _Interrupt()
    lost: list[BaseException | None] = []
    # A timer interrupts compiled code that holds Python's lock; a thread that sends SIGINT would wait for its end.
    before, hook = signal.signal(signal.SIGALRM, handler), sys.unraisablehook
    # Python drops an exception that is raised in a __del__, and Ctrl-C with it.
    sys.unraisablehook = lambda found: lost.append(found.exc_value)
    try:
        handler.armed = True
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        result = call.run()
        handler.armed = False
        return "lost by Python" if lost else "finished", result
    except KeyboardInterrupt:
        return "KeyboardInterrupt", None
    finally:
        handler.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


def case(seed: int) -> str:
    """Interrupt one call at several random moments, then run it to its end."""
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return "skipped"
    rng = np.random.default_rng(seed)
    name = sorted(CALLS)[seed % len(CALLS)]
    ends = Counter[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call, expected, duration = _prepared(name)
        for _ in range(MOMENTS):
            end, result = _end(call, rng.uniform(0.0, 1.1 * duration))
            if end != "KeyboardInterrupt":
                numbers, stopped = call.read(result)
                if stopped:
                    end = "partial"
                else:
                    np.testing.assert_allclose(numbers, expected, rtol=1e-7, atol=1e-9)
            ends[end] += 1
        numbers, stopped = call.read(call.run())
    assert not stopped
    np.testing.assert_allclose(numbers, expected, rtol=1e-7, atol=1e-9)
    return f"{name}: {'all finished' if ends['finished'] == MOMENTS else 'interrupted'}"

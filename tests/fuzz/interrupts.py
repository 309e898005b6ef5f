"""Ctrl-C at a random moment of a long public call.

The call ends with `KeyboardInterrupt`, with its result, or with the partial result of a trainer. Any other exception is
a failure. The same call then runs again on the same objects and has to return the same result as before.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import structopt as so
from structopt import search
from structopt.plane import Plane
from structopt.testing.instances import hard_knapsack
from structopt.train import StructuredRisk


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
    X = [rng.normal(size=(10, 4)) for _ in range(200)]
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


def _svm(trainer: str) -> LongCall:
    X, Y = _chains()
    options: dict[str, Any] = {"trainer": trainer, "max_passes": 15, "tol": 0.0}
    return LongCall(lambda: so.StructuredSVM(so.structures.Chain(3), **options).fit(X, Y), _fitted)


def _space() -> tuple[so.LabelSpace, np.ndarray]:
    rng = np.random.default_rng(2)
    space = so.LabelSpace()
    y = space.binary("y", 14)
    for _ in range(3):
        weights = rng.integers(1, 20, 14).astype(float)
        space.subject_to((y * weights).sum() <= weights.sum() / 2)
    return space, rng.normal(size=14)


def _k_best() -> LongCall:
    space, costs = _space()
    oracle = so.Oracle(space)
    return LongCall(lambda: oracle.k_best(costs, 500), lambda found: _numbers([label.z for label in found]))


def _exact() -> LongCall:
    space, costs = _space()
    plane = Plane(so.Oracle(space, solver="highs"), h=(costs, 0.3), g=(np.linspace(0.1, 1.0, 14), 0.0))
    return LongCall(lambda: search.exact(plane, "slack"), lambda found: _numbers([[found.value, found.upper_bound]]))


def _mip(solver: str) -> LongCall:
    space, costs = hard_knapsack(25, 10)
    oracle = so.Oracle(space, solver)
    return LongCall(lambda: oracle.maximize(costs), lambda found: _numbers([[found.value]]))


def _batch() -> LongCall:
    space, costs = _space()
    oracle, C = so.Oracle(space, solver="highs"), costs + np.random.default_rng(3).normal(size=(20, 14))
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
    return LongCall(lambda: net.predict(X * 20), _numbers)


CALLS: dict[str, Callable[[], LongCall]] = {
    "predict": _predict,
    "risk": _risk,
    "CRF": _crf,
    "block_ascent": lambda: _svm("block_ascent"),
    "bmrm": lambda: _svm("bmrm"),
    "k_best": _k_best,
    "exact search": _exact,
    "MIP by HiGHS": lambda: _mip("highs"),
    "MIP by SciPy": lambda: _mip("scipy"),
    "batch in threads": _batch,
    "NeuralStructured.fit": _neural,
    "NeuralStructured.predict": _neural_predict,
}
if importlib.util.find_spec("torch") is None:
    CALLS = {name: make for name, make in CALLS.items() if "Neural" not in name}


@cache
def _prepared(name: str) -> tuple[LongCall, np.ndarray, float]:
    """Return a call with its result and its duration in seconds, after a first run that compiles."""
    call = CALLS[name]()
    call.run()
    begun = time.perf_counter()
    numbers, partial = call.read(call.run())
    assert not partial
    return call, numbers, time.perf_counter() - begun


class _Interrupt:
    """A handler of SIGINT that raises once, and only while the call runs."""

    def __init__(self) -> None:
        self.armed = False

    def __call__(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


def _end(call: LongCall, seconds: float) -> tuple[str, Any]:
    """Run a call, send SIGINT after some seconds, and return how the call ended."""
    handler, over = _Interrupt(), threading.Event()

    def send() -> None:
        if not over.wait(seconds):
            os.kill(os.getpid(), signal.SIGINT)

    lost: list[BaseException | None] = []
    before, hook = signal.signal(signal.SIGINT, handler), sys.unraisablehook
    # Python drops an exception that is raised in a __del__, and Ctrl-C with it.
    sys.unraisablehook = lambda found: lost.append(found.exc_value)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        handler.armed = True
        result = call.run()
        handler.armed = False
        return "lost by Python" if lost else "finished", result
    except KeyboardInterrupt:
        return "KeyboardInterrupt", None
    finally:
        handler.armed = False
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = hook


def case(seed: int) -> str:
    """Interrupt one call at a random moment."""
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return "skipped"
    rng = np.random.default_rng(seed)
    name = sorted(CALLS)[seed % len(CALLS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call, expected, duration = _prepared(name)
        end, result = _end(call, rng.uniform(0.0, 1.1 * duration))
        if end != "KeyboardInterrupt":
            numbers, partial = call.read(result)
            if partial:
                end = "partial"
            else:
                np.testing.assert_allclose(numbers, expected, rtol=1e-7, atol=1e-9)
        numbers, partial = call.read(call.run())
    assert not partial
    np.testing.assert_allclose(numbers, expected, rtol=1e-7, atol=1e-9)
    return f"{name}: {end}"

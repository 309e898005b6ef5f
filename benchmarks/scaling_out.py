"""Training over shards: passes, speed-up of two workers, overhead of a pass, and a model of what it costs.

    python benchmarks/scaling_out.py [ocr] [speed] [model] [--workers 1 2 4 8]

``ocr``: passes of `distributed.block_ascent` to a gap of 1e-3 on nine folds of the OCR words with 2, 4 and 8 shards
beside the sequential trainer; the iterates depend on the shards and not on the workers, so one process runs them all.
``speed``: a pass of some seconds over chains, in this process and on two workers. ``model``: passes that compute
nothing, by number of workers, shards and weights, and the cost model fitted to them (docs/howto/scale.md).

On a machine with other work the wall time of two processes says little. ``speed`` therefore also has the *critical
path*: the CPU seconds of the driver, the scheduler in it included, plus those of the busiest worker.

The file has not the name of the package that it measures: dask would find it in place of its own ``distributed``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from _results import keep, shown
from train import ocr_words

import structopt as so
from structopt.distributed import Shard, ShardedRisk, Workers, block_ascent
from structopt.risks.risk import Cut, Risk

MEASURES = ("structopt/distributed", "structopt/train", "structopt/risks")
Row = Mapping[str, Any]


# ---- passes ----------------------------------------------------------------------------------------


def ocr() -> list[Row]:
    X, Y = ocr_words(np.setdiff1d(np.arange(10), [0]))
    lam = 1.0 / (0.1 * len(X))

    def load(k: int, n: int) -> so.train.StructuredRisk:
        return so.train.StructuredRisk(so.structures.Chain(26), X[k::n], Y[k::n])

    begun = time.process_time()
    one = so.train.block_ascent(load(0, 1), lam=lam, tol=1e-3)
    seconds = time.process_time() - begun
    rows = [shown({"trainer": "train.block_ascent", "passes": one.passes, "CPU s": seconds, "gap": one.gap})]
    for n_shards in (2, 4, 8):
        begun = time.process_time()
        with ShardedRisk(load, n_shards, "sequential") as risk:
            found = block_ascent(risk, lam=lam, tol=1e-3)
        seconds = time.process_time() - begun
        row = {"trainer": f"distributed, {n_shards} shards", "passes": found.passes, "CPU s": seconds}
        rows.append(shown(row | {"gap": found.gap, "passes of the sequential": found.passes / one.passes}))
    return rows


# ---- one pass --------------------------------------------------------------------------------------


CHAINS, STATES, ATTRIBUTES = 40_000, 150, 20


def chains(k: int, n: int) -> Risk:
    """Chains of 20 positions with 150 states, slack rescaling: some seconds a pass."""
    rng = np.random.default_rng(k)
    m = CHAINS // n
    X = [rng.normal(size=(20, ATTRIBUTES)) for _ in range(m)]
    Y = [rng.integers(0, STATES, 20) for _ in range(m)]
    return so.train.StructuredRisk(so.structures.Chain(STATES), X, Y, "slack")


def _timed_cut(shard: Shard, w: np.ndarray) -> tuple[int, float, float]:
    """Process, value, CPU seconds."""
    begun = time.thread_time()
    value = shard.risk.cut(w).value
    return os.getpid(), value, time.thread_time() - begun


def speed() -> list[Row]:
    w = 0.01 * np.random.default_rng(0).normal(size=STATES * (ATTRIBUTES + STATES))
    measured: dict[str, dict[str, Any]] = {}
    for name, client in (("this process", "sequential"), ("2 workers", None)):
        with Workers(client, n_workers=2) as workers, ShardedRisk(chains, 8, workers) as risk:
            risk.shards.map(_timed_cut, w)
            passes = []
            for _ in range(5):
                wall, driver = time.perf_counter(), time.process_time()
                found = risk.shards.map(_timed_cut, w)
                passes.append((time.perf_counter() - wall, time.process_time() - driver, found))
        wall, driver, found = min(passes, key=lambda one: one[0])
        busy: dict[int, float] = defaultdict(float)
        for process, _, seconds in found:
            busy[process] += seconds
        path = driver if client == "sequential" else driver + max(busy.values())
        measured[name] = {"pass": name, "s": wall, "CPU s of all": sum(busy.values()), "critical path, CPU s": path}
    one, two = measured.values()
    for column in ("s", "critical path, CPU s"):
        two[f"times faster by {column}"] = one[column] / two[column]
    return [shown(one), shown(two)]


# ---- cost model ------------------------------------------------------------------------------------


class _Nothing(Risk):
    """A risk that computes nothing, with a cut of the given size."""

    lower_bound = 0.0

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.answer = np.zeros(n_features)

    def __len__(self) -> int:
        return 1

    def cut(self, w: np.ndarray) -> Cut:
        return Cut(0.0, self.answer, 0.0, 0.0)

    def value_and_subgradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.0, self.answer


def _nothing(n_features: int, k: int, n: int) -> Risk:
    return _Nothing(n_features)


def model(counts: Sequence[int]) -> list[Row]:
    from distributed import Client, LocalCluster

    rows: list[dict[str, Any]] = []
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        for count in counts:
            cluster.scale(count)
            client.wait_for_workers(count)
            for d in (10**5, 10**6, 10**7) if count == 2 else (10**5, 10**6):
                for n_shards in {count, 4 * count} if d < 10**7 else {count}:
                    with ShardedRisk(partial(_nothing, d), n_shards, client) as risk:
                        w = np.zeros(d)
                        risk.cut(w)
                        walls, cpus = [], []
                        for _ in range(7 if d < 10**7 else 3):
                            wall, cpu = time.perf_counter(), time.process_time()
                            risk.cut(w)
                            walls.append(time.perf_counter() - wall)
                            cpus.append(time.process_time() - cpu)
                    row = {"workers": count, "shards": n_shards, "weights": d, "ms, fastest": 1e3 * min(walls)}
                    row |= {"ms, median": 1e3 * float(np.median(walls)), "driver, CPU ms": 1e3 * min(cpus)}
                    rows.append(dict(shown(row)))
    A = np.array([[1.0, row["shards"], 8e-9 * row["weights"] * (row["workers"] + row["shards"])] for row in rows])
    ms = np.array([row["ms, fastest"] for row in rows])
    fit, *_ = np.linalg.lstsq(A / ms[:, None], np.ones(len(ms)), rcond=None)  # relative errors
    print(f"a pass: {fit[0]:.1f} ms + {fit[1]:.2f} ms a shard + {fit[2]:.0f} ms a GB of weights and answers")
    for row, predicted in zip(rows, A @ fit, strict=True):
        row["ms, model"] = float(predicted)
    return list(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", default=["ocr", "speed", "model"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4, 8])
    args = parser.parse_args()
    if "ocr" in args.which:
        keep(
            "scaling_out.ocr", ocr(), title="Block ascent over shards: OCR, nine folds, to a gap of 1e-3",
            measures=MEASURES, words=["ocr"], note="Passes depend on the number of shards, not on that of workers.",
        )  # fmt: skip
    if "speed" in args.which:
        keep(
            "scaling_out.speed", speed(), title="One pass over 40,000 chains: this process and two workers",
            measures=MEASURES, words=["speed"],
            note="Critical path: CPU seconds of driver and scheduler plus those of the busiest worker.",
        )  # fmt: skip
    if "model" in args.which:
        keep(
            "scaling_out.model", model(args.workers), title="Overhead of a pass over shards that compute nothing",
            measures=MEASURES, words=["model"], note="All processes on one machine, which had other work.",
        )  # fmt: skip


if __name__ == "__main__":
    main()

"""Training over shards: passes, speed-up of two workers, overhead of a pass, and a model of what it costs.

``ocr``: passes of `distributed.block_ascent` to a gap of 1e-3 on nine folds of the OCR words with 2, 4 and 8 shards
beside the sequential trainer; the iterates depend on the shards and not on the workers, so one process runs them all.
``speed``: a pass of some seconds over chains, in this process and on two workers. ``lshtc``: one pass of stochastic
steps over text at the shape of LSHTC, in one process and on two workers with 16 shards. ``model``: passes that compute
nothing, by number of workers, shards and weights, the cost model fitted to them (docs/howto/scale.md), and what it says
of larger clusters.

On a machine with other work the wall time of two processes says little. ``speed`` therefore also has the *critical
path*: the CPU seconds of the driver, the scheduler in it included, plus those of the busiest worker.
"""

# The file has not the name of the package that it measures: dask would find it in place of its own ``distributed``.
from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import Row, Rows, Table, main, ocr_words, part, peak_gib, timed, wall_and_cpu
from _hierarchies import documents, layered_tree, one_leaf_each
from scipy.optimize import nnls

import structopt as so
from structopt.distributed import Shard, ShardedRisk, Workers, block_ascent
from structopt.risks.risk import Cut, Risk

# ---- passes ----------------------------------------------------------------------------------------


@part("Block ascent over shards: OCR, nine folds, to a gap of 1e-3")
def ocr() -> Rows:
    X, Y = ocr_words(range(1, 10))
    options: dict[str, Any] = {"lam": 1.0 / (0.1 * len(X)), "tol": 1e-3}

    def load(k: int, n: int) -> so.train.StructuredRisk:
        return so.train.StructuredRisk(so.structures.Chain(26), X[k::n], Y[k::n])

    def sharded(n: int) -> Any:
        with ShardedRisk(load, n, "sequential") as risk:
            return block_ascent(risk, **options)

    one, seconds = timed(lambda: so.train.block_ascent(load(0, 1), **options))
    yield {"trainer": "train.block_ascent", "passes": one.passes, "CPU s": seconds, "gap": one.gap}
    for n in (2, 4, 8):
        found, seconds = timed(partial(sharded, n))
        row = {"trainer": f"distributed, {n} shards", "passes": found.passes, "CPU s": seconds}
        yield row | {"gap": found.gap, "passes of the sequential": found.passes / one.passes}
    yield "Passes depend on the number of shards, not on that of workers."


# ---- one pass --------------------------------------------------------------------------------------


CHAINS, STATES, ATTRIBUTES = 40_000, 150, 20
#: CPU seconds an example of such a pass.
WORK = 63e-6


def chains(k: int, n: int) -> Risk:
    """Return chains of 20 positions with 150 states, slack rescaling: some seconds a pass."""
    rng = np.random.default_rng(k)
    m = CHAINS // n
    X = [rng.normal(size=(20, ATTRIBUTES)) for _ in range(m)]
    Y = [rng.integers(0, STATES, 20) for _ in range(m)]
    return so.train.StructuredRisk(so.structures.Chain(STATES), X, Y, "slack")


def _timed_cut(shard: Shard, w: np.ndarray) -> tuple[int, float, float]:
    """Return process, value and CPU seconds."""
    value, seconds = timed(lambda: shard.risk.cut(w).value, clock=time.thread_time)
    return os.getpid(), value, seconds


@part("One pass over 40,000 chains: this process and two workers")
def speed() -> Rows:
    w = 0.01 * np.random.default_rng(0).normal(size=STATES * (ATTRIBUTES + STATES))
    first: dict[str, Any] = {}
    for name, client in (("this process", "sequential"), ("2 workers", None)):
        with Workers(client, n_workers=2) as workers, ShardedRisk(chains, 8, workers) as risk:
            risk.shards.map(_timed_cut, w)
            passes = [wall_and_cpu(lambda: risk.shards.map(_timed_cut, w)) for _ in range(5)]
        found, wall, driver = min(passes, key=lambda one: one[1])
        busy = busy_seconds((process, seconds) for process, _, seconds in found)
        path = driver if client == "sequential" else driver + max(busy)
        row = {"pass": name, "s": wall, "CPU s of all": sum(busy), "critical path, CPU s": path}
        yield row | {f"times faster by {key}": first[key] / row[key] for key in ("s", "critical path, CPU s") if first}
        first = row
    yield "Critical path: CPU seconds of driver and scheduler plus those of the busiest worker."


def busy_seconds(spent: Any) -> list[float]:
    """Return the CPU seconds of each process."""
    busy: dict[int, float] = defaultdict(float)
    for process, seconds in spent:
        busy[process] += seconds
    return list(busy.values())


# ---- the shape of LSHTC ----------------------------------------------------------------------------


@part("One pass at the shape of LSHTC's DMOZ, in 16 shards")
def lshtc(fraction: float = 1.0) -> Rows:
    """Take one pass of stochastic steps over documents in 16 files: in one process, and on two workers.

    A shard takes the steps of `train.hierarchical_sgd` over its own documents and keeps the weights that these need;
    they go to files, from which the driver forms the mean, a block of words at a time. Every run is in fresh
    processes, of which the peak memory is told.
    """
    with tempfile.TemporaryDirectory() as folder:
        _in_a_process(_write_documents, folder, fraction)
        one, two = (_in_a_process(_one_pass, folder, client) for client in ("sequential", "dask"))
    yield one
    columns = ("s", "CPU s of the busiest process", "peak GiB of the largest process")
    yield two | {f"{column}, of one process": two[column] / one[column] for column in columns}
    yield (
        "Stochastic steps in every shard, and the mean of their weights; accuracy on 1,000 other documents. Not a "
        "speed-up at equal quality: steps are cheaper in a shard, which has fewer weights, and the mean of 16 models "
        "after one pass is worse than one model."
    )


N_WORDS, _PARTS, _HELD_OUT = 165_000, 16, 1000
# Of words, in which the mean of the shards' weights is formed.
_BLOCKS = 64


def _write_documents(folder: str, fraction: float) -> None:
    h = layered_tree(1, 11, 342, 1563, 3010, 12_294)
    n = round(163_000 * fraction)
    leaf = one_leaf_each(n + _HELD_OUT, h.leaf_index.size)
    labels = h.closure[leaf]
    X = documents(labels, N_WORDS, 110)
    for k, rows in enumerate(np.array_split(np.random.default_rng(1).permutation(n), _PARTS)):
        sp.save_npz(f"{folder}/X{k}.npz", X[rows], compressed=False)
        sp.save_npz(f"{folder}/Y{k}.npz", labels[rows], compressed=False)
    sp.save_npz(f"{folder}/X-test.npz", X[n:])
    np.save(f"{folder}/test.npy", leaf[n:])
    estimator = so.HierarchicalSVM(h, "rho", margin="leaf")
    estimator._read_hierarchy()
    with open(f"{folder}/model.pickle", "wb") as file:
        pickle.dump(estimator._model(), file)


@cache
def _model(folder: str) -> Any:
    """One for all shards of a process."""
    with open(f"{folder}/model.pickle", "rb") as file:
        return pickle.load(file)


def _documents_of(folder: str, k: int, n: int) -> Risk:
    mine = range(k * _PARTS // n, (k + 1) * _PARTS // n)
    X, Y = (sp.vstack([sp.load_npz(f"{folder}/{name}{j}.npz") for j in mine], format="csr") for name in "XY")
    return so.train.StructuredRisk(_model(folder), sp.csr_array(X), sp.csr_array(Y))


def _steps(shard: Shard, folder: str | None, share: float) -> Any:
    """The shard's share of the mean of all weights, which goes to a file where there is a folder; CPU seconds."""
    begun = time.thread_time()
    assert isinstance(shard.risk, so.train.StructuredRisk)
    result = so.train.hierarchical_sgd(
        shard.risk, lam=1e-5, max_passes=1, support="seen", dtype=np.float32, certify=False
    )  # fmt: skip
    W = result.info["pattern"].matrix(result.w.astype(np.float32))
    W.data *= np.float32(share)
    if folder is None:
        return W, os.getpid(), time.thread_time() - begun
    np.save(f"{folder}/weights{shard.k}.npy", W.data)
    np.save(f"{folder}/nodes{shard.k}.npy", W.indices)
    return W.indptr, os.getpid(), time.thread_time() - begun


def _mean(folder: str, pointers: Sequence[np.ndarray]) -> sp.csc_array:
    """The mean of the weights from the files of all shards, a block of words at a time."""
    counts = np.sum(pointers, axis=0)
    inner = np.searchsorted(counts, counts[-1] * np.arange(1, _BLOCKS) / _BLOCKS).tolist()
    ends = list(pairwise([0, *inner, N_WORDS]))
    n_nodes = len(_model(folder).hierarchy)

    def block(first: int, last: int) -> sp.csc_array:
        total: Any = 0
        for k, pointer in enumerate(pointers):
            part = slice(pointer[first], pointer[last])
            data, nodes = (np.load(f"{folder}/{name}{k}.npy", mmap_mode="r")[part] for name in ("weights", "nodes"))
            own = np.array(data), np.array(nodes), pointer[first : last + 1] - pointer[first]
            total = total + sp.csc_array(own, shape=(n_nodes, last - first))
        return total

    # Twice: once to know how much room they need. A list of blocks, each with room to spare, takes twice as much.
    size = sum(block(*words).nnz for words in ends)
    data, nodes, pointer = np.empty(size, np.float32), np.empty(size, np.int32), np.zeros(N_WORDS + 1, np.int32)
    at = 0
    for first, last in ends:
        found = block(first, last)
        data[at : at + found.nnz], nodes[at : at + found.nnz] = found.data, found.indices
        pointer[first + 1 : last + 1] = at + found.indptr[1:]
        at += found.nnz
    return sp.csc_array((data, nodes, pointer), shape=(n_nodes, N_WORDS))


def _compiled(folder: str) -> None:
    """A few documents, for numba."""
    X, Y = (sp.csr_array(sp.load_npz(f"{folder}/{name}0.npz"))[:20] for name in "XY")
    _steps(Shard(0, 1, so.train.StructuredRisk(_model(folder), X, Y), 1.0), None, 1.0)


def _in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _one_pass(folder: str, client: str) -> dict[str, Any]:
    here = client == "sequential"
    with Workers(client, n_workers=2) as workers:
        # One shard at a time is in the memory of a worker.
        with ShardedRisk(partial(_documents_of, folder), 1 if here else _PARTS, workers, keep=here) as risk:
            if here:
                _compiled(folder)
            else:
                workers.client.run(_compiled, folder)

            def train() -> tuple[Any, Any]:
                found = risk.shards.map(_steps, None if here else folder, own=[(weight,) for weight in risk.weights])
                return found, found[0][0] if here else _mean(folder, [pointer for pointer, _, _ in found])

            (found, W), wall, driver = wall_and_cpu(train)
        peaks = [peak_gib()] if here else [*workers.client.run(peak_gib).values(), peak_gib()]
    test = sp.csr_array(sp.load_npz(f"{folder}/X-test.npz"))
    scores = (test @ W.T.tocsr()).toarray() * _model(folder).factor
    best = (_model(folder).hierarchy.closure @ scores.T).argmax(axis=0)  # of the leaves
    row = {"pass": "this process" if here else f"2 workers, {_PARTS} shards", "documents": len(risk), "s": wall}
    row |= {"CPU s of the busiest process": max(busy_seconds(one[1:] for one in found)), "CPU s of the driver": driver}
    row |= {"peak GiB of the largest process": max(peaks), "weights": W.nnz}
    return row | {"accuracy, %": 100.0 * float((best == np.load(f"{folder}/test.npy")).mean())}


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


def _cpu() -> float:
    return time.process_time()


@part("What a pass over shards that compute nothing costs")
def model(workers: tuple[int, ...] = (1, 2, 4, 8)) -> Rows:
    """Measure CPU ms of the driver with its scheduler, and of all workers together."""
    rows: list[dict[str, Any]] = []
    for count in workers:
        with Workers("dask", n_workers=count) as pool:
            for d in (10**4, 10**5, 10**6, 10**7):
                for n_shards in (count, 4 * count) if d < 10**7 else (count,):
                    rows.append(_overhead(pool, count, n_shards, d))
                    print(rows[-1], flush=True)
    _fit(rows)
    yield from rows
    yield "CPU time, since more processes than cores wait for each other."
    note = "Fitted to `scaling_out model` by least squares of the relative errors; none is below 0."
    yield Table("constants", "The cost model's constants: CPU ms", _constants(), note)
    note = f"{1e6 * WORK:g} microseconds of work an example, as in `speed`; the network moves {NETWORK:g} GB/s."
    yield Table("predicted", "The cost model's pass on clusters of 1 to 512 workers", _predicted(), note)


def _fit(rows: Sequence[dict[str, Any]]) -> None:
    """Set the constants of the cost model, and add its values to the rows."""
    for column, terms in (("driver", _driver_terms), ("workers", _worker_terms)):
        names, A = _design(rows, terms)
        ms = np.array([row[f"{column}, CPU ms"] for row in rows])
        # Relative errors count: a pass of 10 ms is as interesting as one of a second.
        fit, _ = nnls(A / ms[:, None], np.ones(len(ms)))
        found = A @ fit
        spread = ((np.log(ms) - np.log(ms).mean()) ** 2).sum()
        CONSTANTS.update({f"{column}: {name}": float(value) for name, value in zip(names, fit, strict=True)})
        CONSTANTS[f"{column}: R²"] = 1.0 - float((np.log(found / ms) ** 2).sum() / spread)
        CONSTANTS[f"{column}: median error, %"] = 100.0 * float(np.median(np.abs(found / ms - 1.0)))
        for row, value in zip(rows, found, strict=True):
            row[f"{column}, model"] = float(value)


def _overhead(workers: Workers, count: int, n_shards: int, d: int) -> dict[str, Any]:
    walls, drivers, others = [], [], []
    with ShardedRisk(partial(_nothing, d), n_shards, workers) as risk:
        w = np.zeros(d)
        risk.cut(w)
        for _ in range(7 if d < 10**7 else 4):
            before = sum(workers.client.run(_cpu).values())
            _, wall, cpu = wall_and_cpu(lambda: risk.cut(w))
            drivers.append(cpu)
            walls.append(wall)
            others.append(sum(workers.client.run(_cpu).values()) - before)
    row = {"workers": count, "shards": n_shards, "weights": d, "ms, fastest": 1e3 * min(walls)}
    return row | {"driver, CPU ms": 1e3 * min(drivers), "workers, CPU ms": 1e3 * min(others)}


#: Of the cost model: ms of CPU time.
CONSTANTS: dict[str, float] = {}
#: GB a second from one worker to another: 10 Gbit/s.
NETWORK = 1.25
# Answers up to this size are added by the driver (`structopt.distributed.shards`).
_SMALL = 1 << 20


def _driver_terms(workers: float, shards: float, gigabytes: float) -> dict[str, float]:
    """The weights go out once, and all answers come back, or, where they are large, the sum that workers form."""
    large = gigabytes * 1e9 > _SMALL
    counts = {
        "a pass": 1.0,
        "a worker": workers,
        "a shard": shards,
        "a sum on a worker": shards - 1.0 if large else 0.0,
    }
    return counts | {"a GB": gigabytes * (1.0 + (1.0 if large else shards))}


def _worker_terms(workers: float, shards: float, gigabytes: float) -> dict[str, float]:
    """Every worker gets the weights from another, and sums go from worker to worker; each shard has an answer."""
    moved = workers - 1.0 if gigabytes * 1e9 > _SMALL else 0.0
    data = {"a GB moved": gigabytes * (workers + moved), "a GB added": gigabytes * shards}
    return {"a worker": workers, "a shard": shards} | data


def _design(rows: Sequence[Row], terms: Callable[..., dict[str, float]]) -> tuple[list[str], np.ndarray]:
    found = [terms(row["workers"], row["shards"], 8e-9 * row["weights"]) for row in rows]
    return list(found[0]), np.array([list(one.values()) for one in found])


def _constants() -> list[Row]:
    """Return the CPU ms of each thing that a pass consists of, and how well they fit."""
    rows = []
    for owner, name in (("driver", "driver and scheduler"), ("workers", "workers")):
        own = {key.removeprefix(f"{owner}: "): value for key, value in CONSTANTS.items() if key.startswith(owner)}
        rows.append({"of": name, **own})
    return rows


def _predicted() -> list[Row]:
    """Return the seconds of a pass by the model.

    Every process has a core of its own, and the network moves `NETWORK` GB a second.
    """
    rows = []
    for d, examples, workers in product((10**5, 10**7), (10**7, 10**9), (1, 8, 64, 512)):
        work = WORK * examples
        best = min((_pass_seconds(work, workers, k * workers, 8e-9 * d), k) for k in (1, 2, 4))
        row: Row = {"weights": d, "examples": examples, "workers": workers, "shards a worker": best[1]}
        row |= {"work, s": work / workers, "messages, s": best[0] - work / workers}
        rows.append(row | {"pass, s": best[0], "times faster": work / best[0]})
    return rows


def _pass_seconds(work: float, workers: int, shards: int, gigabytes: float) -> float:
    """Work / workers + driver + broadcast + reduce, in seconds.

    dask copies the weights from every worker that has them to two others at a time, and sums are formed in pairs.
    """
    driver = sum(
        CONSTANTS[f"driver: {name}"] * size for name, size in _driver_terms(workers, shards, gigabytes).items()
    )
    move, add = (CONSTANTS[f"workers: a GB {what}"] * gigabytes for what in ("moved", "added"))
    move = max(move, 1e3 * gigabytes / NETWORK)
    own = CONSTANTS["workers: a worker"] + shards / workers * (CONSTANTS["workers: a shard"] + add)
    broadcast = 2.0 * move * math.ceil(round(math.log(workers, 3), 9))
    reduce = (move + add) * math.ceil(math.log2(workers)) if gigabytes * 1e9 > _SMALL else 0.0
    return work / workers + 1e-3 * (driver + own + broadcast + reduce)


if __name__ == "__main__":
    main()

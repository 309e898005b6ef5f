"""What estimators with ``engine=`` use: risks in parts, data of dask collections, predictions over them.

Estimators reach this module only when an engine or a dask collection is given to them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed

from structopt import train
from structopt.distributed.block_ascent import block_ascent
from structopt.distributed.cluster import Workers
from structopt.distributed.loaders import Collections, partitions
from structopt.distributed.risk import ShardedRisk
from structopt.distributed.sgd import sgd
from structopt.errors import DeclarationError
from structopt.risks.risk import Risk
from structopt.train.registry import BYTES_PER_EXAMPLE, Trainer, TrainerFunction

__all__ = ["Workers", "computed", "distinct", "of_collections", "on_shards", "predicted", "spread", "working_sets_fit"]

# Shards of data in this process for each worker: some more than one, so that a slow worker gives some away.
_SHARDS = 4
# Share of the workers' memory that working sets may fill: half of it may be the shards.
_WORKING_SETS = 0.25
# Trainers that work example by example, and what does the same with shards.
_OVER_SHARDS: dict[TrainerFunction, TrainerFunction] = {train.block_ascent: block_ascent, train.sgd: sgd}


def on_shards(trainer: str | TrainerFunction | Trainer) -> Trainer:
    """The trainer that does with shards what `trainer` does in one process.

    Parameters
    ----------
    trainer : str, callable or Trainer
        One that asks a risk for cuts only stays as it is, and so does a function of the user's own.

    Returns
    -------
    Trainer
    """
    found = train.get(trainer)
    partial = found.function if isinstance(found.function, functools.partial) else None
    base = found.function if partial is None else partial.func
    if base in _OVER_SHARDS:
        function = _OVER_SHARDS[base]
        return Trainer(
            found.name, function if partial is None else functools.partial(function, *partial.args, **partial.keywords)
        )
    if any(not hasattr(ShardedRisk, method) for method in found.needs):
        able = [name for name in train.names() if train.get(name).needs == ("cut",)]
        others = sorted({train.get(one).name for one in _OVER_SHARDS} | set(able))
        raise DeclarationError(
            f"The trainer {found.name!r} needs all examples in one process: with an engine use one of "
            f"{', '.join(others)}, or engine=None."
        )
    return found


def working_sets_fit(risk: Any, workers: Workers) -> bool:
    """Whether the working sets of block ascent fit into the workers' memory, beside the shards.

    Parameters
    ----------
    risk : Risk
    workers : Workers

    Returns
    -------
    bool
    """
    if isinstance(risk, ShardedRisk) and risk.shards.keep is False:
        return False
    return len(risk) * BYTES_PER_EXAMPLE <= _WORKING_SETS * workers.memory


@contextmanager
def spread(risk: Risk, workers: Workers) -> Iterator[Risk]:
    """A risk of data in this process, in parts on the workers; one that is in parts already as it is."""
    if isinstance(risk, ShardedRisk):
        yield risk
        return
    with ShardedRisk.of(risk, max(1, min(_SHARDS * workers.count, len(risk))), workers) as parts:
        yield parts


def of_collections(build: Callable[..., Any], workers: Workers, X: Any, y: Any, sample_weight: Any) -> ShardedRisk:
    """The risk of dask collections, ``build(X, y)`` of each partition; with weights ``build(X, y, sample_weight)``."""
    if sample_weight is None:
        return ShardedRisk(Collections(build, X, y), client=workers)
    if not dask.is_dask_collection(sample_weight):
        raise DeclarationError("sample_weight of dask collections must be one, too, with the same partitions.")
    return ShardedRisk(Collections(_Weighted(build), X, y, sample_weight), client=workers)


class _Weighted:
    """The risk of a partition with weights, and their sum as its mass."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build

    def __call__(self, X: Any, y: Any, sample_weight: Any) -> Any:
        weights = np.asarray(sample_weight, dtype=np.float64)
        mass = float(weights.sum())
        return (self.build(X, y, weights), mass) if mass > 0 else None


def computed(*collections: Any) -> list[Any]:
    """Dask collections as data of this process; what is none stays as it is."""
    return list(dask.compute(*collections))


def distinct(values: Callable[[Any], list[Any]], y: Any, workers: Workers) -> list[Any]:
    """The union of ``values(part)`` over the partitions of a collection, sorted."""
    tasks = [delayed(_distinct_of_part, pure=False)(values, part) for part in partitions(y)]
    if workers.is_sequential:
        found = dask.compute(*tasks, scheduler="synchronous")
    else:
        found = workers.client.gather(workers.client.compute(tasks))
    return sorted({value for part in found for value in part})


def _distinct_of_part(values: Callable[[Any], list[Any]], part: Any) -> list[Any]:
    return values(part if hasattr(part, "shape") else list(part))


def predicted(predict: Callable[[Any], Any], X: Any) -> Any:
    """``predict`` of every partition, lazily: an array for an array of labels of one shape, else a bag.

    Parameters
    ----------
    predict : callable
        A method of a fitted estimator.
    X : dask collection

    Returns
    -------
    dask.array.Array or dask.bag.Bag
    """
    import dask.bag as db

    parts = [delayed(_predicted_part, pure=False)(predict, part) for part in partitions(X)]
    if hasattr(X, "chunks") and X.ndim == 2:
        one = predict(np.zeros((1, X.shape[1])))
        if isinstance(one, np.ndarray) and one.dtype != object:
            rows = X.chunks[0]
            blocks = [
                da.from_delayed(part, (size, *one.shape[1:]), dtype=one.dtype)
                for part, size in zip(parts, rows, strict=True)
            ]
            return da.concatenate(blocks)
    return db.from_delayed([delayed(list)(part) for part in parts])


def _predicted_part(predict: Callable[[Any], Any], part: Any) -> Any:
    rows = part if hasattr(part, "shape") else list(part)
    return predict(rows) if len(rows) else []

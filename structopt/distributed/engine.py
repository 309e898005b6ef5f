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
    y = _in_parts("y", y, X)
    if sample_weight is None:
        return ShardedRisk(Collections(build, X, y), client=workers)
    return ShardedRisk(
        Collections(_Weighted(build), X, y, _in_parts("sample_weight", sample_weight, X)), client=workers
    )


def _in_parts(name: str, column: Any, X: Any) -> Any:
    """What belongs to the rows of a collection X as a collection; an array in memory is cut as X is."""
    if dask.is_dask_collection(column):
        return column
    if not hasattr(X, "chunks") or np.isnan(X.chunks[0]).any():
        raise DeclarationError(
            f"{name} is a {type(column).__name__} and X a dask collection whose partitions have unknown sizes: give "
            f"{name} as a collection with the same partitions."
        )
    values = np.asarray(column)
    if len(values) != sum(X.chunks[0]):
        raise DeclarationError(f"X has {sum(X.chunks[0])} rows, {name} has {len(values)}; they need one each.")
    return da.from_array(values, chunks=(X.chunks[0], *values.shape[1:]))


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
    if not dask.is_dask_collection(y):
        return sorted(set(values(y)))
    tasks = [delayed(_distinct_of_part, pure=False)(values, part) for part in partitions(y)]
    if workers.is_sequential:
        found = dask.compute(*tasks, scheduler="synchronous")
    else:
        found = workers.client.gather(workers.client.compute(tasks))
    return sorted({value for part in found for value in part})


def _distinct_of_part(values: Callable[[Any], list[Any]], part: Any) -> list[Any]:
    return values(part if hasattr(part, "shape") else list(part))


def predicted(predict: Callable[[Any], Any], X: Any) -> Any:
    """``predict`` of every partition, lazily: an array where labels of rows have one shape, else a bag.

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

    model = delayed(predict, pure=False, traverse=False)  # once in the graph, not with every partition
    given = partitions(X)
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(given)
    one = _labels_of_one_row(predict, X)
    if isinstance(one, np.ndarray) and one.dtype != object:
        again = delayed(_predicted_part, pure=False)
        blocks = [
            da.from_delayed(again(model, part, one[:0]), (size, *one.shape[1:]), dtype=one.dtype)
            for part, size in zip(given, sizes, strict=True)
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)
    return db.from_delayed([delayed(_listed, pure=False)(model, part) for part in given])


def _labels_of_one_row(predict: Callable[[Any], Any], X: Any) -> Any:
    """Labels, to know their type and shape; None where inputs are no rows."""
    if hasattr(X, "columns"):
        from dask.dataframe.utils import meta_nonempty

        return predict(meta_nonempty(X._meta))
    return predict(np.zeros((1, X.shape[1]))) if getattr(X, "ndim", 0) == 2 else None


def _predicted_part(predict: Callable[[Any], Any], part: Any, nothing: Any) -> Any:
    return predict(part) if len(part) else nothing


def _listed(predict: Callable[[Any], Any], part: Any) -> list[Any]:
    rows = part if hasattr(part, "shape") else list(part)  # a bag's may be an iterator
    return list(predict(rows)) if len(rows) else []

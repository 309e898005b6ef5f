"""What estimators with ``engine=`` use: risks in parts, data of dask collections, predictions over them.

Estimators reach this module only when an engine or a dask collection is given to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed

from structopt.distributed.cluster import Workers
from structopt.distributed.loaders import Collections, partitions
from structopt.distributed.risk import ShardedRisk
from structopt.errors import DeclarationError
from structopt.risks.risk import Risk

__all__ = ["Workers", "computed", "distinct", "of_collections", "predicted", "spread"]

# Shards of data in this process for each worker: some more than one, so that a slow worker gives some away.
_SHARDS = 4


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

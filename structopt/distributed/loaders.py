"""Loaders: ``load(k, n)`` for a list of files, and for the partitions of dask collections.

Each is an object that is sent to the workers, which read the data themselves. `len` of it is the number of parts, so
that ``ShardedRisk(loader)`` needs no number of shards.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask.delayed import Delayed, delayed

from structopt.distributed.shard import make_shard
from structopt.errors import DeclarationError, numbered
from structopt.risks.structured import StructuredRisk

__all__ = ["Collections", "Files", "conll", "npz", "parquet", "svmlight"]

#: Makes the risk of some examples: ``risk(X, y)``, with queries ``risk(X, y, query)``. It may return a mass beside it.
MakeRisk = Callable[..., Any]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Files:
    """A loader of files: each part reads some of them, in order.

    Parameters
    ----------
    paths : sequence of paths, or a pattern
        A pattern such as ``"data/part-*.npz"`` is looked up here; a list need not exist on this machine.
    read : callable
        ``read(path)`` returns the arguments of `risk`: ``(X, y)``, or ``(X, y, query)``.
    risk : callable
        ``risk(X, y)`` makes the `Risk` of a part, such as `structopt.risks.Hinge`. What depends on all data (the number
        of classes or features) must be fixed in it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from structopt.distributed import ShardedRisk
    >>> from structopt.distributed.loaders import Files
    >>> from structopt.risks import Hinge
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for k in range(3):
    ...     np.save(folder / f"part-{k}.npy", [[1.0, 1.0], [-1.0, -1.0]])
    >>> def read(path):
    ...     table = np.load(path)
    ...     return table[:, :1], table[:, 1]
    >>> files = Files(str(folder / "part-*.npy"), read, Hinge)
    >>> len(files), len(ShardedRisk(files, client="sequential"))
    (3, 6)
    """

    def __init__(self, paths: Paths, read: Callable[[str], tuple[Any, ...]], risk: MakeRisk) -> None:
        if isinstance(paths, str | os.PathLike):
            found = sorted(glob.glob(os.fspath(paths)))
            if not found:
                raise DeclarationError(f"No file matches {os.fspath(paths)!r}.")
        else:
            found = [os.fspath(path) for path in paths]
            if not found:
                raise DeclarationError("paths is empty; give at least one file.")
        if not callable(risk):
            raise DeclarationError(f"risk must be callable as risk(X, y), got {type(risk).__name__}.")
        self.paths, self.read, self.risk = found, read, risk

    def __len__(self) -> int:
        return len(self.paths)

    def __call__(self, k: int, n: int) -> Any:
        mine = self.paths[k * len(self.paths) // n : (k + 1) * len(self.paths) // n]
        if not mine:
            return None
        parts = []
        for path in mine:
            try:
                parts.append(self.read(path))
            except Exception as error:
                # With its name: the cause does not travel from a worker to the driver.
                raise DeclarationError(f"{path}: {type(error).__name__}: {error}") from error
        parts = [part for part in parts if _rows(part[0])]
        if not parts:
            return None
        return self.risk(*(_joined(column) for column in zip(*parts, strict=True)))


def npz(paths: Paths, risk: MakeRisk) -> Files:
    """A loader of npz files with ``X`` and ``y`` (`structopt.data.read_npz`).

    Parameters
    ----------
    paths : sequence of paths, or a pattern
    risk : callable
        ``risk(X, y)`` of a part.

    Returns
    -------
    Files
    """
    return Files(paths, _read_npz, risk)


def svmlight(paths: Paths, risk: MakeRisk, *, n_features: int, zero_based: bool = False) -> Files:
    """Return a loader of svmlight files (`structopt.data.read_svmlight`).

    Parameters
    ----------
    paths : sequence of paths, or a pattern
    risk : callable
        ``risk(X, y)`` of a part, or ``risk(X, y, query)`` if lines have query numbers (``qid:``). A query must not be
        in two files.
    n_features : int
        Number of columns of X, the same for all parts.
    zero_based : bool
        Whether the first feature has index 0 in all files. By default it has index 1.

    Returns
    -------
    Files
    """
    return Files(paths, _Reader(_read_svmlight, {"n_features": n_features, "zero_based": zero_based}), risk)


def conll(paths: Paths, risk: MakeRisk, **options: Any) -> Files:
    """A loader of sentences in columns (`structopt.data.read_conll`).

    Parameters
    ----------
    paths : sequence of paths, or a pattern
    risk : callable
        ``risk(X, y)`` of a part: lists of token features and of tags. The model must know all tags, of all files.
    **options
        Of `structopt.data.read_conll`.

    Returns
    -------
    Files
    """
    return Files(paths, _Reader(_read_conll, options), risk)


def parquet(paths: Paths, risk: MakeRisk, *, label: str, features: Sequence[str] | None = None) -> Files:
    """A loader of Parquet files, by pandas.

    Parameters
    ----------
    paths : sequence of paths, or a pattern
    risk : callable
        ``risk(X, y)`` of a part: an array of numbers and the column of labels.
    label : str
        Name of the column of labels.
    features : sequence of str, optional
        Names of the columns of features; all others by default.

    Returns
    -------
    Files
    """
    given = None if features is None else list(features)
    return Files(paths, _Reader(_read_parquet, {"label": label, "features": given}), risk)


class Collections:
    """A loader of dask collections: arrays, bags, data frames; a part is a partition of each of them.

    The partitions are made where they are needed, by the collections' own graph, and again if their worker is lost.

    Parameters
    ----------
    risk : callable
        ``risk(X, y)`` of a part.
    *collections : dask collections
        With equal partitions: X, y. Arrays are cut along their first axis only, the later ones as the first.

    Examples
    --------
    >>> import dask.array as da
    >>> from structopt.distributed import ShardedRisk
    >>> from structopt.distributed.loaders import Collections
    >>> from structopt.risks import LeastSquares
    >>> X, y = da.ones((10, 2), chunks=(4, 1)), da.arange(10, chunks=5)
    >>> risk = ShardedRisk(Collections(LeastSquares, X, y), client="sequential")
    >>> len(risk.shards), len(risk)
    (3, 10)
    """

    def __init__(self, risk: MakeRisk, *collections: Any) -> None:
        if not collections:
            raise DeclarationError("Give at least one dask collection.")
        self.risk = risk
        parts = [partitions(item, collections[0]) for item in collections]
        sizes = [len(part) for part in parts]
        if len(set(sizes)) > 1:
            raise DeclarationError(
                f"The collections have {', '.join(map(str, sizes))} partitions; they need equal ones (repartition)."
            )
        self.parts: list[tuple[Any, ...]] = list(zip(*parts, strict=True))
        self.first = _first_rows(collections[0])

    def __len__(self) -> int:
        return len(self.parts)

    def __call__(self, k: int, n: int) -> Any:
        """Part k, computed in this process."""
        parts = dask.compute(*self.parts[k], scheduler="synchronous")
        return _of_partition(k, n, self.risk, self.first[k], *parts)

    def shard(self, k: int, n: int) -> Delayed:
        """Part k as a shard, to be computed."""
        return delayed(_shard_of_partition, pure=False)(k, n, self.risk, self.first[k], *self.parts[k])


def partitions(collection: Any, like: Any = None) -> list[Any]:
    """The partitions of a dask collection, each to be computed; of an array by rows, as those of another one."""
    if not dask.is_dask_collection(collection):
        raise DeclarationError(f"{type(collection).__name__} is no dask collection (array, bag or data frame).")
    if hasattr(collection, "rechunk"):
        rows = like.chunks[0] if hasattr(like, "chunks") else collection.chunks[0]
        if collection.chunks[0] != rows and not np.isnan([*rows, *collection.chunks[0]]).any():
            if sum(rows) != sum(collection.chunks[0]):
                raise DeclarationError(
                    f"The arrays have {sum(rows)} and {sum(collection.chunks[0])} rows; X and y need one each."
                )
            collection = collection.rechunk({0: rows})
        if any(len(chunks) > 1 for chunks in collection.chunks[1:]):
            collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    found = collection.to_delayed()
    return list(found.ravel()) if hasattr(found, "ravel") else list(found)


def _first_rows(collection: Any) -> list[int]:
    """The number in the data set of the first example of each partition; zeros if the sizes are unknown."""
    if not hasattr(collection, "chunks"):
        return [0] * int(collection.npartitions)
    sizes = np.array(collection.chunks[0], dtype=np.float64)
    return [0] * len(sizes) if np.isnan(sizes).any() else [0, *np.cumsum(sizes[:-1]).astype(int).tolist()]


# ---- on a worker -----------------------------------------------------------------------------------


class _Reader:
    """A reader with its options; an object, so that it can be pickled."""

    def __init__(self, read: Callable[..., tuple[Any, ...]], options: dict[str, Any]) -> None:
        self.read, self.options = read, options

    def __call__(self, path: str) -> tuple[Any, ...]:
        return self.read(path, **self.options)


def _read_npz(path: str) -> tuple[Any, ...]:
    from structopt.data import read_npz

    found = read_npz(path)
    missing = [name for name in ("X", "y") if name not in found]
    if missing:
        raise DeclarationError(f"there is no {missing[0]} in it")
    return found.X, found.y


def _read_svmlight(path: str, *, n_features: int, zero_based: bool) -> tuple[Any, ...]:
    from structopt.data import read_svmlight

    found = read_svmlight(path, n_features=n_features, zero_based=zero_based)
    if "queries" not in found:
        return found.X, found.y
    query = np.repeat(np.asarray(found.queries), [x.shape[0] for x in found.X])
    return _joined(found.X), _joined(found.y), query


def _read_conll(path: str, **options: Any) -> tuple[Any, ...]:
    from structopt.data import read_conll

    found = read_conll(path, **options)
    if found.y is None:
        raise DeclarationError("it has words alone, and no column of tags")
    return found.X, found.y


def _read_parquet(path: str, *, label: str, features: list[str] | None) -> tuple[Any, ...]:
    import pandas as pd

    frame = pd.read_parquet(path, columns=None if features is None else [*features, label])
    if label not in frame:
        raise DeclarationError(f"there is no column {label!r} in it")
    y = frame.pop(label).to_numpy()
    return frame.to_numpy(dtype=np.float64), y


def _of_partition(k: int, n: int, risk: MakeRisk, first: int, *parts: Any) -> Any:
    """The risk of a partition, None where it has no rows; errors name its examples by their numbers from `first` on."""
    plain = [part if hasattr(part, "shape") else list(part) for part in parts]  # a bag's may be an iterator
    size = _rows(plain[0])
    if not size:
        return None
    with numbered(range(first, first + size)):
        found = risk(*plain)
    own = found[0] if isinstance(found, tuple) else found
    if isinstance(own, StructuredRisk):
        own.examples = own.examples + first
    return found


def _shard_of_partition(k: int, n: int, risk: MakeRisk, first: int, *parts: Any) -> Any:
    return make_shard(lambda k, n: _of_partition(k, n, risk, first, *parts), k, n)


def _rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _joined(parts: Sequence[Any]) -> Any:
    """Data of several files as one."""
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        return sp.csr_array(sp.vstack(parts, format="csr"))
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [item for part in parts for item in part]

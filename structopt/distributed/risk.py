"""`ShardedRisk`: a risk whose examples lie on many workers (BMRM Algorithm 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from structopt.distributed.cluster import ClientOption, Workers
from structopt.distributed.shards import Load, Shard, ShardInfo, Shards
from structopt.errors import DeclarationError
from structopt.risks.risk import Cut, Risk, check_weights

__all__ = ["ShardedRisk", "add_up"]

Vector = NDArray[np.float64]
_T = TypeVar("_T")


class ShardedRisk(Risk):
    """A risk of examples in parts, each evaluated on a worker that loads it.

    The parts answer with a value and a cutting plane each, and these are added in a fixed order: the iterates of a
    trainer are those of one process with the same number of shards, bit by bit, whatever the number of workers and
    whichever of them is lost on the way. (Where an inexact search keeps labels between passes, a shard that is loaded
    again may find another label; the certificate holds for it as well.)

    Parameters
    ----------
    load : callable
        ``load(k, n)`` runs on a worker and returns the risk of part k of n, reading the data where they lie; or a pair
        of the risk and its mass; or None for a part without examples. `structopt.distributed.loaders` has some.
    n_shards : int
        Number of parts. Some more than workers, so that a part that is loaded again is small.
    client : distributed.Client, "dask", "sequential" or None
        Where: see `Workers`. None starts processes on this machine, which end with `close` or ``with``.
    combine : {"mean", "sum"}
        ``"mean"``: the parts are means over their own examples, and weighed by their numbers (or masses). ``"sum"``:
        they add up as they are, as those of `Risk.shard`.
    keep : bool or "auto"
        Whether workers hold the shards between passes (`Shards`).
    timeout : float, optional
        Seconds that a pass may take.
    n_workers, memory_limit
        Of the processes that are started without a client (`Workers`).

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.distributed import ShardedRisk
    >>> from structopt.risks import Hinge
    >>> from structopt.train import bmrm
    >>> X, y = np.array([[1.0], [2.0], [0.0], [3.0]]), np.array([1, -1, -1, 1])
    >>> def load(k, n):
    ...     return Hinge(X[k::n], y[k::n])
    >>> risk = ShardedRisk(load, 2, client="sequential")    # client=None: worker processes
    >>> round(risk(np.array([0.4]))[0], 12), round(Hinge(X, y)(np.array([0.4]))[0], 12)
    (0.85, 0.85)
    >>> bmrm(risk, lam=0.1).converged
    True
    """

    def __init__(
        self,
        load: Load,
        n_shards: int,
        client: ClientOption = None,
        *,
        combine: Literal["mean", "sum"] = "mean",
        keep: bool | Literal["auto"] = "auto",
        timeout: float | None = None,
        n_workers: int | None = None,
        memory_limit: str | float | None = "auto",
    ) -> None:
        if combine not in ("mean", "sum"):
            raise DeclarationError(f"combine must be 'mean' or 'sum', got {combine!r}.")
        self.combine = combine
        self._owns_workers = not isinstance(client, Workers)
        self.workers = (
            client if isinstance(client, Workers) else Workers(client, n_workers=n_workers, memory_limit=memory_limit)
        )
        try:
            self.shards = Shards(load, n_shards, self.workers, keep=keep, timeout=timeout)
            self._read(self.shards.infos)
        except BaseException:
            self.close()
            raise

    def _read(self, infos: Sequence[ShardInfo | None]) -> None:
        """What the parts say about the whole."""
        there = {k: info for k, info in enumerate(infos) if info is not None}
        first, one = next(iter(there.items()))
        for k, info in there.items():
            if info.n_features != one.n_features:
                raise DeclarationError(
                    f"Shard {k} has {info.n_features} weights, shard {first} has {one.n_features}: give all parts the "
                    "same number of features and classes."
                )
            if info.is_part and self.combine == "mean":
                raise DeclarationError(
                    f"Shard {k} was made by Risk.shard, so that the parts add up as they are: use combine='sum'."
                )
        self.infos = infos
        self.n_features = one.n_features
        self.n_examples = sum(info.n_examples for info in there.values())
        self.is_smooth = all(info.is_smooth for info in there.values())
        mass = math.fsum(info.mass for info in there.values())
        #: The factor of each part in the whole.
        self.weights = [0.0 if info is None else 1.0 if self.combine == "sum" else info.mass / mass for info in infos]
        bounds = [weight * info.lower_bound for weight, info in zip(self.weights, infos, strict=True) if info]
        self.lower_bound = math.fsum(bounds) if all(map(math.isfinite, bounds)) else -math.inf

    @property
    def watch(self) -> Any:
        """The clock of a trainer, which ends a pass that takes too long."""
        return self.shards.watch

    def __len__(self) -> int:
        return self.n_examples

    def cut(self, w: Vector) -> Cut:
        w = check_weights(w, self.n_features, "ShardedRisk")
        found = self.shards.map(_cut, w, own=[(weight,) for weight in self.weights])
        parts: list[Cut] = [cut for cut in found if cut is not None]
        return add_up(parts, _joined)

    def value_and_subgradient(self, w: Vector) -> tuple[float, Vector]:
        cut = self.cut(w)
        return cut.value, cut.subgradient

    def fingerprint(self) -> str:
        kind = next(info.kind.__name__ for info in self.infos if info is not None)
        return f"ShardedRisk({kind}, {len(self.shards)} shards, {len(self)} examples, {self.n_features} features)"

    def identity(self) -> dict[str, Any]:
        """The identities of the parts, asked on the workers."""
        return {"risk": self.fingerprint(), "combine": self.combine, "shards": self.shards.map(_identity)}

    def close(self) -> None:
        """Release the shards, and end the processes that were started for them."""
        shards = getattr(self, "shards", None)
        if shards is not None:
            shards.close()
        if self._owns_workers:
            self.workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.fingerprint()}>"


def add_up(parts: Sequence[_T], add: Callable[[_T, _T], _T]) -> _T:
    """Add parts in pairs, pairs of pairs and so on: an order that depends on nothing but their number.

    Examples
    --------
    >>> add_up(["a", "b", "c", "d", "e"], lambda left, right: f"({left}{right})")
    '(((ab)(cd))e)'
    """
    row = list(parts)
    while len(row) > 1:
        pairs = [add(row[i], row[i + 1]) for i in range(0, len(row) - 1, 2)]
        row = [*pairs, row[-1]] if len(row) % 2 else pairs
    return row[0]


def _joined(a: Cut, b: Cut) -> Cut:
    intercept = None if a.intercept is None or b.intercept is None else a.intercept + b.intercept
    return Cut(a.value + b.value, a.subgradient + b.subgradient, a.plane + b.plane, intercept)


def _cut(shard: Shard, w: Vector, weight: float) -> Cut:
    """The part's share of value and cutting plane."""
    cut = shard.risk.cut(w)
    if weight == 1.0:
        return cut
    intercept = None if cut.intercept is None else weight * cut.intercept
    return Cut(weight * cut.value, weight * cut.subgradient, weight * cut.plane, intercept)


def _identity(shard: Shard) -> dict[str, Any]:
    return shard.risk.identity()

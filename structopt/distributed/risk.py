"""`ShardedRisk`: a risk whose examples lie on many workers (BMRM Algorithm 5)."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from structopt.distributed.cluster import ClientOption, Workers
from structopt.distributed.shards import Given, Shard, ShardInfo, Shards, add_up
from structopt.errors import DeclarationError
from structopt.risks.risk import Cut, LinearRisk, Risk, check_weights

__all__ = ["ShardedRisk", "add_up"]

Vector = NDArray[np.float64]


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
    n_shards : int, optional
        Number of parts. Some more than workers, so that a part that is loaded again is small. By default as many as the
        loader has (`structopt.distributed.loaders`).
    client : distributed.Client, "dask", "sequential" or None
        Where: see `Workers`. None starts processes on this machine, which end with `close` or ``with``.
    combine : {"mean", "sum"}
        ``"mean"``: the parts are means over their own examples, and weighed by their numbers (or masses). ``"sum"``:
        they add up as they are, as those of `Risk.shard`.
    keep : bool or "auto"
        Whether workers hold the shards between passes (`Shards`).
    timeout, patience : float, optional
        Seconds that a pass may take, and after which the shards of a silent worker are given to others (`Shards`).
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

    #: The workers do not tell which solvers find their labels.
    value_error = 1e-5

    def __init__(
        self,
        load: Any,
        n_shards: int | None = None,
        client: ClientOption = None,
        *,
        combine: Literal["mean", "sum"] = "mean",
        keep: bool | Literal["auto"] = "auto",
        timeout: float | None = None,
        patience: float = 30.0,
        n_workers: int | None = None,
        memory_limit: str | float | None = "auto",
    ) -> None:
        if combine not in ("mean", "sum"):
            raise DeclarationError(f"combine must be 'mean' or 'sum', got {combine!r}.")
        if n_shards is None and not hasattr(load, "__len__"):
            raise DeclarationError("n_shards is missing: how many parts has load(k, n)?")
        if hasattr(load, "shard") and n_shards not in (None, len(load)):
            raise DeclarationError(f"The collections have {len(load)} partitions, n_shards is {n_shards!r}.")
        self.combine = combine
        self._owns_workers = not isinstance(client, Workers)
        self.workers = (
            client if isinstance(client, Workers) else Workers(client, n_workers=n_workers, memory_limit=memory_limit)
        )
        try:
            self.shards = Shards(
                load,
                len(load) if n_shards is None else n_shards,
                self.workers,
                keep=keep,
                timeout=timeout,
                patience=patience,
            )
            self._read(self.shards.infos)
        except BaseException:
            self.close()
            raise

    @classmethod
    def of(cls, risk: Risk, n_shards: int, client: ClientOption = None, **options: Any) -> ShardedRisk:
        """A risk of data that are in this process, cut into parts that are sent to the workers.

        Parameters
        ----------
        risk : Risk
            One that decomposes over examples, queries or pairs (`Risk.shard`).
        n_shards : int
        client : distributed.Client, "dask", "sequential" or None
        **options
            `timeout`, `patience`, `n_workers` and `memory_limit` of the class.

        Returns
        -------
        ShardedRisk

        Examples
        --------
        >>> import numpy as np
        >>> from structopt.distributed import ShardedRisk
        >>> from structopt.risks import Hinge
        >>> risk = Hinge([[1.0], [2.0], [0.0], [3.0]], [1, -1, -1, 1])
        >>> round(ShardedRisk.of(risk, 2, "sequential")(np.array([0.4]))[0], 12)
        0.85
        """
        if type(risk).shard is Risk.shard:
            raise DeclarationError(
                f"{type(risk).__name__} does not decompose over examples: it has no shard(k, n). Train it whole."
            )
        return cls(Given(risk.shard), n_shards, client, combine="sum", **options)

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
            if not info.is_mean and self.combine == "mean" and len(there) > 1:
                cure = (
                    "ShardedRisk.of(risk, n) shares out its pairs"
                    if info.kind.shard is not Risk.shard
                    else "Train it whole"
                )
                raise DeclarationError(
                    f"{info.kind.__name__} compares all examples with each other: the mean over parts is another risk. "
                    f"{cure}, or give every part one group of examples and combine='sum'."
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
        own = [(weight,) for weight in self.weights]
        total: Cut = self.shards.sum(_cut, _joined, w, own=own, size=w.nbytes)
        return total

    def value_and_subgradient(self, w: Vector) -> tuple[float, Vector]:
        cut = self.cut(w)
        return cut.value, cut.subgradient

    @property
    def has_line_search(self) -> bool:
        """Whether all parts are risks of predictions, which are cheap to evaluate along a line."""
        return all(info is None or issubclass(info.kind, LinearRisk) for info in self.infos)

    def line_search(self, w: Vector, direction: Vector, lam: float) -> tuple[float, float] | None:
        """Minimise ``lam/2 ||w + t direction||^2 + risk(w + t direction)`` over ``t >= 0``, in at most three rounds.

        Every part multiplies its examples once with both vectors, and answers with value and slope at several steps at
        a time. They lie closer together from round to round, so that the step is found to a hundredth or better; the
        answer is a step that was evaluated.
        """
        if not self.has_line_search:
            return None
        slope, curvature = lam * float(w @ direction), lam * float(direction @ direction)
        sent = self.shards.send(w, direction)
        own = [(weight,) for weight in self.weights]
        steps: tuple[float, ...] = _FIRST_STEPS
        known: dict[float, tuple[float, float]] = {}  # objective but for a constant, and its slope, by step
        values: dict[float, float] = {}
        number = uuid.uuid4().hex
        for _ in range(_ROUNDS):
            found = self.shards.sum(
                _along, np.add, sent, own=[(weight, steps, number) for (weight,) in own], size=16 * len(steps)
            )
            for t, (value, change) in zip(steps, found.tolist(), strict=True):
                values[t] = value
                known[t] = value + slope * t + 0.5 * curvature * t * t, change + slope + curvature * t
            steps = _next_steps(known)
            if not steps:
                break
        best = min(known, key=lambda t: (known[t][0], t))
        return best, values[best]

    def fingerprint(self) -> str:
        kind = next(info.kind.__name__ for info in self.infos if info is not None)
        return f"ShardedRisk({kind}, {len(self.shards)} shards, {len(self)} examples, {self.n_features} features)"

    def identity(self) -> dict[str, Any]:
        """The identities of the parts, asked on the workers."""
        parts = {
            f"shard {k}: {name}": value
            for k, part in enumerate(self.shards.map(_identity))
            if part is not None
            for name, value in part.items()
        }
        return {"risk": self.fingerprint(), "combine": self.combine, **parts}

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


# Steps of the first round of a line search: a bundle method's own is 1.
_FIRST_STEPS = (0.0, 1 / 256, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 8.0, 64.0)
_ROUNDS, _STEPS = 3, 9
# The share of a step to which it is found: finer searches saved no pass (a9a).
_PRECISION = 1e-2


def _next_steps(known: Mapping[float, tuple[float, float]]) -> tuple[float, ...]:
    """Steps to try next, between those where the slope changes its sign; none where the best is known well enough."""
    order = sorted(known)
    below = [t for t in order if known[t][1] < 0.0]
    if not below:
        return ()  # no step is the best
    low = below[-1]
    above = [t for t in order if t > low]
    if not above:
        return tuple(low * 4.0**i for i in range(1, _STEPS + 1)) if low < 1e12 else ()
    high = above[0]
    if high - low <= _PRECISION * high or known[high][1] == 0.0:
        return ()
    inside = np.linspace(low, high, _STEPS + 2)[1:-1] if low > 0.0 else high * 2.0 ** -np.arange(_STEPS, 0, -1.0)
    (value, left), (height, right) = known[low], known[high]
    # Where the tangents at both ends meet, and where a straight slope is 0: one is the minimum of a function with one
    # corner, the other that of a parabola.
    rise = right - left
    guesses = [low - left * (high - low) / rise] if np.isfinite(rise) and rise > 0.0 else []
    if np.isfinite(rise) and rise > 0.0:
        guesses.append((value - height + right * high - left * low) / rise)
    return tuple(sorted({*inside.tolist(), *(t for t in guesses if low < t < high)}))


def _along(shard: Shard, w: Vector, direction: Vector, weight: float, steps: tuple[float, ...], number: str) -> Any:
    """Value and slope of a part along a line, at each of some steps; the products are kept for the next round."""
    risk = cast(LinearRisk, shard.risk)
    known = shard.memory.get("line")
    if known is None or known[0] != number:
        known = shard.memory["line"] = number, risk.predictions(w), risk.predictions(direction)
    _, f, df = known
    found = np.empty((len(steps), 2))
    for i, t in enumerate(steps):
        value, derivative = risk.loss(f + t * df)
        found[i] = value, float(np.vdot(derivative, df))
    return weight * found


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

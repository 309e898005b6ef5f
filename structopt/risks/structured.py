"""`StructuredRisk`: the mean surrogate of a structured model over a data set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt import search as searches
from structopt import surrogates
from structopt.checks import checked, examples, n_threads
from structopt.errors import DeclarationError, SolverFailed, StructoptError, marked, number_examples, numbered
from structopt.features import n_examples
from structopt.frames import plain_inputs, plain_labels
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch
from structopt.plane.points import SearchPlane
from structopt.risks._features import shard_rows
from structopt.risks.identity import digest
from structopt.risks.loss_check import check_losses
from structopt.risks.planes import N_NEAR, DataPlanes
from structopt.risks.risk import Cut, Risk
from structopt.risks.sample_weight import checksum, relative_weights
from structopt.risks.watch import Watch
from structopt.search import SearchResult
from structopt.space.compiled import FloatArray
from structopt.stopping import map_in_threads
from structopt.surrogates import Product, Slack, Surrogate
from structopt.surrogates.compiled import MARGIN
from structopt.surrogates.registry import _FunctionSurrogate

__all__ = ["StructuredRisk", "Violations", "checked_options"]

# Labels of earlier searches kept per example (AISTATS16: a label cache).
_CACHED_LABELS = 10
# Fronts that take no longer than so many batch inferences are made at once; others where a search leaves room.
_CHEAP_FRONT = 3.0
# Bytes of encoded truths and their losses kept.
_TARGET_LIMIT = 1 << 26
_PRODUCT_SEARCHES = ("angular", "bisecting", "binary", "sarawagi")


@dataclass(frozen=True, eq=False)
class Violations:
    """The most violated label of every example, and the cutting plane that it gives.

    The surrogate of example i at any w' is at least ``level_i - scale_i <w', phi(x_i, y_i) - phi(x_i, y)>``, y being
    the label found (the tangent in h of psi at it); at w it is at most ``upper_i``. Where examples have
    weights all four numbers contain them, so that the mean of such cutting planes bounds the weighted risk, and a
    trainer need not know that there are weights.

    Parameters
    ----------
    labels : LabelBatch
        The labels found.
    scale : ndarray of shape (n,)
    level : ndarray of shape (n,)
    value : ndarray of shape (n,)
        The surrogate at the label found.
    upper : ndarray of shape (n,)
        No label has a larger surrogate.
    """

    labels: LabelBatch
    scale: FloatArray
    level: FloatArray
    value: FloatArray
    upper: FloatArray

    def times(self, weight: FloatArray | None) -> Violations:
        """The planes of ``weight_i`` times each surrogate.

        Parameters
        ----------
        weight : ndarray of shape (n,), or None

        Returns
        -------
        Violations
        """
        if weight is None:
            return self
        numbers = (weight * array for array in (self.scale, self.level, self.value, self.upper))
        return Violations(self.labels, *numbers)


class StructuredRisk(Risk):
    """``1/n sum_i max_y psi(m_w(x_i, y), L(y, y_i))`` of a model on a data set, or its weighted mean.

    Parameters
    ----------
    model : Model
    X, y : the data set, in the form of the model
    surrogate : str or Surrogate
        ``"margin"``, ``"slack"``, or any other of `structopt.surrogates`.
    search : str
        How the most violated label is found: ``"auto"``, ``"exact"``, ``"convex_hull"``, and for slack rescaling
        ``"angular"``, ``"bisecting"``, ``"binary"``, ``"sarawagi"``, example by example. Margin rescaling needs none.
        ``"auto"``: ``"exact"`` over integral labels, ``"convex_hull"`` over a relaxation.
    n_jobs : int
        Threads over examples.
    rtol : float
        Relative gap at which a search may stop.
    sample_weight : array of shape (n,), optional
        Weights of the examples in the mean, not negative; equal by default. Examples of weight 0 are left out.

    Attributes
    ----------
    weight : ndarray or None
        Weights over their mean, of the examples that are not left out; None where all are equal.
    examples : ndarray
        Numbers of these examples in the data set.
    statistics : Counter
        The searches so far, by what proved their labels best: ``"margin"`` (one inference), ``"enumeration"``,
        ``"vertex"``, ``"hull"``, ``"levels"``, ``"front"``, ``"branch_and_bound"``, ``"k_best"``,
        ``"side_constraints"``, ``"bound"``; see `structopt.search.BatchResult` and `structopt.search.SearchResult`.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> X, y = np.array([[1.0], [-1.0]]), ["up", "down"]
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(["up", "down"]), X, y)
    >>> risk(np.zeros(2))
    (1.0, array([-1.,  1.]))
    """

    lower_bound = 0.0  # the ground truth is a label, with surrogate 0

    @checked
    def __init__(
        self,
        model: Model,
        X: Any,
        y: Any,
        surrogate: str | Surrogate = "margin",
        search: str = "auto",
        n_jobs: int = 1,
        rtol: float = 1e-3,
        *,
        sample_weight: Any = None,
    ) -> None:
        self.model = model = model._private_twin()
        X, y = examples("X", plain_inputs(X)), examples("y", plain_labels(y))
        n_threads(n_jobs)
        self.weight = relative_weights(sample_weight, n_examples(X), "StructuredRisk")
        kept = np.arange(n_examples(X)) if self.weight is None else np.flatnonzero(self.weight)
        if self.weight is not None and len(kept) < len(self.weight):
            if n_examples(y) != len(self.weight):
                raise DeclarationError(f"{len(self.weight)} inputs but {n_examples(y)} labels.")
            X, y = _taken(X, kept), _taken(y, kept)
            self.weight = relative_weights(self.weight[kept], len(kept), "StructuredRisk")
        self.examples = kept  # their numbers in the data set, of which this may be a part
        options = checked_options(surrogate, search)
        with numbered(kept):
            self._prepare(model.batch(X), y, *options, n_jobs, rtol)
            check_losses(self.batch, self.truth, self.loss)

    @classmethod
    def of_batch(
        cls,
        batch: Batch,
        y: Any,
        surrogate: str | Surrogate = "margin",
        search: str = "auto",
        n_jobs: int = 1,
        rtol: float = 1e-3,
        *,
        keep: bool = True,
    ) -> StructuredRisk:
        """The risk of a batch whose scores come from elsewhere, for `violations_of`; its losses are not checked.

        Parameters
        ----------
        batch : Batch
            Of a model with oracles of its own (`Model._private_twin`).
        y, surrogate, search, n_jobs, rtol
            As of the class.
        keep : bool
            Whether a search keeps labels from which the next one starts; False where there is only one.

        Returns
        -------
        StructuredRisk
        """
        found, search = checked_options(surrogate, search)
        return cls._of_checked(batch, y, found, search, n_jobs, rtol, keep)

    @classmethod
    def _of_checked(
        cls, batch: Batch, y: Any, surrogate: Surrogate, search: str, n_jobs: int, rtol: float, keep: bool
    ) -> StructuredRisk:
        """`of_batch` for `checked_options`: the checks of a surrogate of the user's own take longer than a search."""
        risk = cls.__new__(cls)
        risk.model, risk.weight, risk._keeps = batch.model, None, keep
        risk._prepare(batch, y, surrogate, search, n_jobs, rtol)
        risk.examples = np.arange(batch.n)
        return risk

    #: Whether a search keeps labels from which the next one starts.
    _keeps = True

    def _prepare(self, batch: Batch, y: Any, surrogate: Surrogate, search: str, n_jobs: int, rtol: float) -> None:
        """What the searches of a batch need besides the scores."""
        model = batch.model
        self.X, self.Y = batch.X, y
        self.surrogate = surrogate
        self.search = search
        self.n_jobs = n_jobs
        self.rtol = rtol
        self.batch = batch
        self.truth = self.batch.truth(y)
        self.loss = self.batch.loss(self.truth)
        if surrogate.counts and self.batch.codec.counts(self.truth.native) is None:
            model.counted(self.batch.input(0))  # raises here for losses other than counts, as `counts` does
        self.n_features = self.batch.n_weights
        self.watch = Watch()
        self.statistics: Counter[str] = Counter()
        self._caches: dict[int, list[_CompactLabel]] = {}
        self._lams: dict[int, float] = {}
        self._targets: dict[int, tuple[FloatArray, tuple[FloatArray, float]]] = {}
        self._planes = self._plane_batch()

    def __len__(self) -> int:
        return self.batch.n

    def _plane_batch(self) -> DataPlanes | None:
        """The planes of all examples, where one inference can query them all; None where each is searched by itself."""
        if self.surrogate.form.numbers[0] == MARGIN or self._effective_search() not in ("exact", "convex_hull"):
            return None
        # Over a relaxation every mixture is a label.
        convex = is_convex(self.batch)
        if self.surrogate.counts:
            return DataPlanes.of_counts(self.batch, self.truth, convex, self._keeps)
        return DataPlanes(self.batch, self.truth, self.loss, convex, self.surrogate.h_offset, keeps=self._keeps)

    def part(self, examples: npt.NDArray[np.intp]) -> StructuredRisk:
        """Return the risk of some examples: the mean of their surrogates times their weights in this risk.

        Parameters
        ----------
        examples : ndarray of int
            Their numbers in this risk.

        Returns
        -------
        StructuredRisk
        """
        return self.parts([examples])[0]

    def parts(self, groups: Sequence[npt.NDArray[np.intp]]) -> list[StructuredRisk]:
        """Return the risk of each group of examples.

        A dense matrix of inputs is copied once, with its constant, and each group has a view of the copy.

        Parameters
        ----------
        groups : sequence of ndarray of int
            Numbers of the examples of each group.

        Returns
        -------
        list of StructuredRisk
        """
        order = np.concatenate(groups)
        X, rows = self.batch.data.ordered(order)
        y = _taken(self.Y, order)
        found: list[StructuredRisk] = []
        at = 0
        for numbers in groups:
            own = slice(at, at + len(numbers))
            known = self.examples[numbers]
            with numbered(known):  # losses are checked already
                batch = self.model._private_twin().batch(X[own])
                batch.data.take_rows({t: table[own] for t, table in rows.items()})
                part = self._of_checked(batch, y[own], self.surrogate, self.search, self.n_jobs, self.rtol, True)
            part.examples = known
            part.weight = None if self.weight is None else self.weight[numbers]
            part.watch, part.statistics = self.watch, self.statistics
            found.append(part)
            at = own.stop
        return found

    def shard(self, k: int, n: int) -> Risk:
        """Return part `k` of `n`, weighted so that the parts add up."""
        examples = np.arange(len(self))[shard_rows(k, n, len(self), "StructuredRisk")]
        return _Weighted(self.part(examples), len(examples) / len(self))

    # ---- evaluation ------------------------------------------------------------------------------

    def violations(self, w: FloatArray) -> Violations:
        """The most violated label of every example at `w`.

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        Violations
        """
        return self.violations_of(self.batch.tables(w))

    def violations_of(self, tables: Sequence[FloatArray]) -> Violations:
        """The same from the score tables of `w`, for a trainer that has a cheaper way to them than a product.

        Parameters
        ----------
        tables : sequence of ndarray
            Scores of the parts, a table for each feature term.

        Returns
        -------
        Violations
        """
        try:
            self._check_scores(tables)
            return self._most_violated(tables).times(self.weight)
        except StructoptError as error:
            number_examples(error, self.examples)
            raise

    def _check_scores(self, tables: Sequence[FloatArray]) -> None:
        """Refuse scores that are NaN or infinite: no comparison with them is true, and nothing would seem violated."""
        # A sum is finite only if all entries are; where it is not, or overflows, they are looked at.
        with np.errstate(over="ignore", invalid="ignore"):
            totals = [scores[: 1 if scores.strides[0] == 0 else None].sum() for scores in tables]
        for scores, start, total in zip(tables, self.batch.starts, totals, strict=True):
            if math.isfinite(total):
                continue
            wrong = ~np.isfinite(scores)
            if wrong.any():
                row, part = np.argwhere(wrong)[0]
                i = int(np.searchsorted(start, row, side="right")) - 1
                raise DeclarationError(
                    f"The score of part {part} of example {marked(i)} is {scores[row, part]}: weights that are not "
                    "finite, or too large for the features."
                )

    def _most_violated(self, tables: Sequence[FloatArray]) -> Violations:
        """Of every example by itself, without weights."""
        if self.surrogate.form.numbers[0] == MARGIN:
            self._count(1)
            self.statistics["margin"] += len(self)
            labels, found = self.batch.argmax(tables, self.loss, n_jobs=self.n_jobs)
            margin = found - self.batch.dot(tables, self.truth)
            value = np.maximum(margin, 0.0)
            # A solver that stopped at a gap or a time limit proved a bound: the label gives the plane, not the maximum.
            upper = value if labels.slack is None else np.maximum(margin + labels.slack, 0.0)
            level = self.batch.loss_values(self.loss, labels)
            return Violations(labels, np.ones(len(self)), level, value, upper)
        if self._effective_search() == "exact" and not self.surrogate.h_offset:
            # Where a search of the hulls takes fewer inferences than fronts, these wait for what it leaves open.
            most = np.inf if self._planes is None else _CHEAP_FRONT
            known = self.batch.argmax_surrogate(self.surrogate, tables, self.loss, self.truth, self.n_jobs, most)
            if known is not None:
                self._count(1)
                self.statistics["enumeration"] += len(self)
                labels, margin, g = known
                value = self.surrogate.clipped_array(margin, g)
                self.surrogate.refuse_infinite(value, margin, g)
                return self._tangents(labels, margin, margin, g, value, value)
        if self._planes is None:
            return self._search(tables)
        return self._search_levels(tables) or self._search_together(self._planes, tables)

    def _search_levels(self, tables: Sequence[FloatArray]) -> Violations | None:
        """All examples by tables of the best margins of every value of the loss, where these are cheap."""
        hull = self._effective_search() == "convex_hull"
        found = self.batch.argmax_levels(self.surrogate, tables, self.loss, self.truth, hull)
        if found is None:
            return None
        self._count(1)
        self.statistics["hull" if hull else "enumeration"] += len(self)
        labels, best = found
        self.surrogate.refuse_infinite(best.value, best.h, best.g)
        level = best.value - best.slope * (best.h - self.surrogate.h_offset)
        return Violations(labels, best.slope, level, best.value, best.upper)

    def _search_together(self, data: DataPlanes, tables: Sequence[FloatArray]) -> Violations:
        """All examples in step; those that the hull and the levels of the loss leave open one by one."""
        costs: list[Any] = []  # of all examples, made for the first that is searched by itself

        def plane(i: int) -> SearchPlane:
            self.watch.search()
            if self.model.fixed and not costs:
                costs.append(self.batch.costs(tables))
            x = self.batch.input(i)
            truth, loss = self._target(i, x)
            c = costs[0][i] if costs else self.batch.costs_of(i, tables)
            return self._plane(self.surrogate, x, c, truth, loss)

        # The optimum of micro-F1 over the hull is a label; where that is not proved, as beside labels with nothing on,
        # each plane is searched.
        over_labels = self._effective_search() == "exact" or (self.surrogate.counts and not data.convex)
        planes = data.at(tables, self.n_jobs, plane)
        found = searches.search_batch(
            planes,
            self.surrogate,
            integral=over_labels,
            rtol=self.rtol if over_labels else 0.3 * self.rtol,
            lam=data.start,
            n_near=N_NEAR if self._keeps else 0,
            each=self._for_all,
        )
        self._count(found.rounds)
        self.statistics.update(found.proof.tolist())
        labels = data.chosen(planes, found)
        if self._keeps:
            data.keep(planes, found)
        idle = found.value <= 0.0
        if self.surrogate.counts:
            margin = np.where(idle, 0.0, planes.margins(labels))
        else:
            margin = np.where(idle, 0.0, found.h - self.surrogate.h_offset)
        return self._tangents(labels, margin, found.h, found.g, found.value, found.upper)

    def _tangents(
        self,
        labels: LabelBatch,
        margin: FloatArray,
        h: FloatArray,
        g: FloatArray,
        value: FloatArray,
        upper: FloatArray,
    ) -> Violations:
        """The planes of labels by their margins and their places in the (h, g) plane."""
        scale = np.zeros(len(self))
        violated = value > 0.0
        scale[violated] = self.surrogate.psi_gradient(h[violated], g[violated])[0]
        return Violations(labels, scale, value - scale * margin, value, upper)

    @property
    def value_error(self) -> float:  # type: ignore[override]
        return self.model.value_error

    @property
    def work(self) -> float:
        """Typical seconds of the work of this risk and its parts so far: counted, so the same in every run."""
        return self.watch.with_solver(*self.model.solver_runs)

    def _count(self, calls: int) -> None:
        """Tell the work of batch inferences of all examples."""
        self.watch.check()
        self.watch.inferences(calls, calls * len(self))

    def value_and_subgradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        cut = self.cut(w)
        return cut.value, cut.subgradient

    def cut(self, w: FloatArray) -> Cut:
        """Value from above and plane from below; they differ where a search stopped early."""
        found = self.violations(w)
        n = len(self)
        subgradient = self.batch.joint_differences(found.labels, self.truth, found.scale) / n
        value = float(found.value.sum()) / n
        upper = value if found.upper is found.value else float(found.upper.sum()) / n
        return Cut(upper, subgradient, value, float(found.level.sum()) / n)

    # ---- searches, one example at a time ---------------------------------------------------------

    def _search(self, tables: Sequence[FloatArray]) -> Violations:
        """Search the plane of every example."""
        n = len(self)
        # Of a space for each input only the programs that are searched are made.
        costs = self.batch.costs(tables) if self.model.fixed else None
        points: list[Any] = [None] * n
        scale, level, value, upper = (np.zeros(n) for _ in range(4))

        def visit(i: int) -> None:
            self.watch.search()
            x = self.batch.input(i)
            truth, loss = self._target(i, x)
            if not truth.size:  # an empty input has no label but the truth
                points[i] = truth
                return
            c = self.batch.costs_of(i, tables) if costs is None else costs[i]
            result, margin = self._search_one(i, x, c, truth, loss)
            # A copy: the label may be a row of a table of labels, which must not stay for its sake.
            points[i] = truth if result.label is None else np.array(result.label, dtype=np.float64)
            value[i], upper[i] = max(result.value, 0.0), max(result.upper_bound, 0.0)
            if result.value > 0.0 and result.point is not None:
                scale[i] = self._slope(result)
                level[i] = result.value - scale[i] * margin(points[i])
            else:
                points[i] = truth

        self._for_all(visit, np.arange(n))
        labels = self.batch.fold(np.array(points) if self.model.fixed else points)
        return Violations(labels, scale, level, value, upper)

    def _for_all(self, visit: Callable[[int], None], examples: npt.NDArray[np.intp]) -> None:
        def guarded(i: int) -> None:
            try:
                visit(i)
            except SolverFailed as error:
                raise type(error)(f"example {marked(i)}: {error}", error.status, error.partial) from error
            except StructoptError as error:
                raise type(error)(f"example {marked(i)}: {error}") from error

        if self.n_jobs == 1:
            for i in examples.tolist():
                guarded(i)
            return
        map_in_threads(guarded, examples.tolist(), self.n_jobs)

    def _target(self, i: int, x: Any) -> tuple[FloatArray, tuple[FloatArray, float]]:
        """The true label as a point, and its task loss; kept from pass to pass within a memory limit."""
        known = self._targets.get(i)
        if known is None:
            z = self.model.encode(self.Y[i], x)
            own = type(self.model).loss is not Model.loss
            known = z, self.model.loss(self.Y[i], x) if own else self.model._loss_at(z, x)
            if 2 * len(self._targets) * known[0].nbytes < _TARGET_LIMIT:
                self._targets[i] = known
        return known

    def _plane(
        self, psi: Surrogate, x: Any, costs: FloatArray, truth: FloatArray, loss: tuple[FloatArray, float]
    ) -> SearchPlane:
        options = {"counted": self.model.counted(x)} if psi.counts else {}
        return psi.plane(self.model.oracle(x), costs, loss, truth, **options)

    def _search_one(
        self, i: int, x: Any, costs: FloatArray, truth: FloatArray, loss: tuple[FloatArray, float]
    ) -> tuple[SearchResult, Callable[[FloatArray], float]]:
        psi = Product() if self.search in _PRODUCT_SEARCHES else self.surrogate
        plane = self._plane(psi, x, costs, truth, loss)
        cache = [_expanded(label) for label in self._caches.get(i, ())]
        search = self._effective_search()
        if search == "exact":
            result = searches.exact(plane, psi, rtol=self.rtol, lam=self._lams.get(i), cache=cache)
        elif search == "convex_hull":
            result = searches.convex_hull(plane, psi, cache=cache)
        elif search == "angular":
            result = searches.angular(plane, rtol=self.rtol, cache=cache)
        elif search == "bisecting":
            result = searches.bisecting(plane, lam=self._lams.get(i))
        elif search == "sarawagi":
            # The slack to be exceeded is what the labels known already give.
            slack = max((psi.clipped(p.h, p.g) for p in map(plane.evaluate, cache)), default=0.0)
            result = searches.sarawagi(plane, slack, cache=cache)
        else:
            result = searches.binary(plane)
        self.statistics[result.proof] += 1
        self._remember(i, result)
        offset = float(costs @ truth)
        return result, lambda z: float(costs @ z) - offset

    def _effective_search(self) -> str:
        if self.search != "auto":
            return self.search
        return "convex_hull" if is_convex(self.batch) else "exact"

    def _remember(self, i: int, result: SearchResult) -> None:
        if np.isfinite(result.lam) and result.lam > 0:
            self._lams[i] = float(result.lam)
        if result.value > 0.0 and result.label is not None:
            cache = self._caches.setdefault(i, [])
            label = _compact(np.asarray(result.label, dtype=np.float64))
            if not any(np.array_equal(a, label[1]) and np.array_equal(b, label[2]) for _, a, b in cache):
                cache.append(label)
                del cache[:-_CACHED_LABELS]

    def _slope(self, result: SearchResult) -> float:
        """psi_h at the label found: the factor of its feature difference in a subgradient."""
        assert result.point is not None
        psi = Product() if self.search in _PRODUCT_SEARCHES else self.surrogate
        return float(psi.gradient(result.point.h, result.point.g)[0])

    @property
    def is_convex(self) -> bool:
        """Whether the surrogate is convex in the weights, so that planes are bounds."""
        return self.surrogate.convex_in_h

    def identity(self) -> dict[str, Any]:
        """Hashes of what determines the objective: features, labels, losses, label spaces and options."""
        return {
            "risk": self.fingerprint(),
            "X": digest(self.batch.data.contents, self.batch.data.widths, self.batch.starts),
            "Y": digest(self.truth.tables),
            "loss": digest(self.loss),
            "model": self._model_digest(),
            "surrogate": digest(self.surrogate),
            "search": [self.search, self.rtol],
            "sample_weight": digest(self.weight),
        }

    def _model_digest(self) -> str:
        """Hash of the label spaces, by the declaration where it is not one that makes them from the input."""
        model = self.model
        known = model.__getstate__()
        for name in ("_encode", "_decode", "_key", "_declare", "_declared", "_loss", "_spaces", "_oracles"):
            known.pop(name, None)  # they show in the labels, the losses and the spaces
        if model.fixed:
            spaces = [model.space().fingerprint]
        elif type(model) is Model:
            inputs = {model.key(x): x for x in (self.batch.input(i) for i in range(len(self)))}
            spaces = [model.space(x).fingerprint for x in inputs.values()]
        else:
            spaces = []
        return digest(type(model), known, spaces)

    def fingerprint(self) -> str:
        return (
            f"StructuredRisk({type(self.model).__name__}, {self.surrogate!r}, {self.search}, {len(self)} examples, "
            f"{self.n_features} weights{checksum(self.weight)})"
        )

    def __repr__(self) -> str:
        return f"<StructuredRisk: {self.surrogate!r} of {type(self.model).__name__}, {len(self)} examples>"


# The length of a label, the places of its nonzeros and these.
_CompactLabel = tuple[int, npt.NDArray[np.int32], FloatArray]


def _compact(z: FloatArray) -> _CompactLabel:
    places = np.flatnonzero(z).astype(np.int32)
    return len(z), places, z[places]


def _expanded(label: _CompactLabel) -> FloatArray:
    z = np.zeros(label[0])
    z[label[1]] = label[2]
    return z


def _taken(data: Any, examples: npt.NDArray[np.intp]) -> Any:
    return data[examples] if hasattr(data, "shape") else [data[i] for i in examples]


class _Weighted(Risk):
    """A part of a risk, times its share."""

    is_part = True

    def __init__(self, risk: Risk, weight: float) -> None:
        self.risk, self.weight = risk, weight
        self.n_features = risk.n_features
        self.lower_bound = weight * risk.lower_bound

    @property
    def value_error(self) -> float:  # type: ignore[override]
        return self.risk.value_error

    def __len__(self) -> int:
        return len(self.risk)

    def value_and_subgradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        value, subgradient = self.risk(w)
        return self.weight * value, self.weight * subgradient

    def cut(self, w: FloatArray) -> Cut:
        value, subgradient, plane, intercept = self.risk.cut(w)
        height = None if intercept is None else self.weight * intercept
        return Cut(self.weight * value, self.weight * subgradient, self.weight * plane, height)

    def identity(self) -> dict[str, Any]:
        return {"weight": self.weight, **self.risk.identity()}


def checked_options(surrogate: str | Surrogate, search: str) -> tuple[Surrogate, str]:
    """A surrogate and a search that goes with it."""
    found = _check_surrogate(surrogates.get(surrogate))
    return found, _check_search(search, found)


def _check_surrogate(surrogate: Surrogate) -> Surrogate:
    """A surrogate of the user's own, tried out: with a wrong gradient every plane and every certificate is wrong."""
    own = type(surrogate).__module__.split(".")[0] != "structopt" or isinstance(surrogate, _FunctionSurrogate)
    if own:
        from structopt.testing.surrogate import check_surrogate

        check_surrogate(surrogate, n_pairs=1000)
    return surrogate


def _check_search(search: str, surrogate: Surrogate) -> str:
    known = ("auto", "exact", "convex_hull", *_PRODUCT_SEARCHES)
    if search not in known:
        raise DeclarationError(f"search must be one of {', '.join(known)}, got {search!r}.")
    if search in _PRODUCT_SEARCHES and not isinstance(surrogate, Slack):
        raise DeclarationError(f"search={search!r} maximises products, that is slack rescaling; use search='exact'.")
    return search


def check_scale(risk: StructuredRisk, lam: float) -> None:
    """Refuse features so large that steps of the trainers overflow: they would go nowhere for as long as they may."""
    with np.errstate(over="ignore"):
        largest = risk.batch.data.largest
        size = largest * largest * max(map(float, risk.batch.data.widths), default=1.0)
        most = max((int(np.diff(start).max(initial=1)) for start in risk.batch.starts), default=1)
        overflows = not np.isfinite(4.0 * size * float(most) ** 2 / (lam * len(risk)) * max(1.0, 1.0 / lam))
    if overflows:
        raise DeclarationError(
            f"The largest feature is {largest:.3g}: squared, over lam * n = {lam * len(risk):.3g}, it overflows. "
            "Scale the features to about unit size (sklearn.preprocessing.StandardScaler), or raise lam."
        )


def difference(truth: LabelBatch, labels: LabelBatch) -> list[sp.csr_array]:
    """Part tables of ground truth minus label: only the parts in which they differ."""
    parts = []
    for a, b in zip(truth.tables, labels.tables, strict=True):
        table = sp.csr_array(a - b)
        table.eliminate_zeros()
        parts.append(table)
    return parts


def is_convex(batch: Batch) -> bool:
    """Return whether no example has integer variables, or the model is relaxed."""
    model = batch.model
    if model.integral == "relax":
        return True
    if model.weight_space(batch.input(0)).integrality.any():
        return False
    # The first input may have no variables at all.
    return model.fixed or not any(
        model.weight_space(batch.input(int(group[0]))).integrality.any() for group in batch.same_space
    )

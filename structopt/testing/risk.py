"""The conformance suite of risks: value, cuts, parts, weights of examples and line search."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from structopt.checks import checked, whole
from structopt.checks import seed as check_seed
from structopt.errors import DeclarationError
from structopt.model.batch import Batch
from structopt.risks.crf import StructuredLikelihood
from structopt.risks.risk import Cut, LinearRisk, Risk
from structopt.risks.structured import StructuredRisk
from structopt.space.compiled import FloatArray
from structopt.testing._reference import close, rejects
from structopt.testing.report import NotChecked, Report, run_checks

__all__ = ["RISK_CHECKS", "check_risk", "labels_of"]

Rows = npt.NDArray[np.intp]
#: Lengths of random weights, as multiples of a normal vector.
_SCALES = (0.0, 0.1, 1.0, 3.0)
#: Labels of an example beyond which no reference is made.
_MOST_LABELS = 5000


def labels_of(batch: Batch) -> list[FloatArray]:
    """Return all labels of every example; examples with one key share a table."""
    model = batch.model
    if model.integral == "relax":
        raise NotChecked("the labels of a relaxed model cannot be enumerated")
    tables: dict[Any, FloatArray] = {}
    found = []
    for i in range(batch.n):
        x = batch.input(i)
        key = model.key(x)
        if key not in tables:
            try:
                tables[key] = model.space(x).enumerate(_MOST_LABELS)
            except DeclarationError as error:
                raise NotChecked(str(error)) from None
        found.append(tables[key])
    return found


def _structured(risk: StructuredRisk) -> Callable[[FloatArray], float]:
    """Return the mean over examples of the largest surrogate of all labels."""
    model, psi = risk.model, risk.surrogate
    inputs = [risk.batch.input(i) for i in range(len(risk))]
    truths = [model.encode(risk.Y[i], x) for i, x in enumerate(inputs)]
    options = [{"counted": model.counted(x)} if psi.counts else {} for x in inputs]
    labels = labels_of(risk.batch)

    def largest(i: int, w: FloatArray) -> float:
        x, z = inputs[i], truths[i]
        (h, h0), (g, g0) = psi.factors(model.scores(w, x), model.loss(risk.Y[i], x), z, **options[i])
        return float(np.max(psi.clipped_array(labels[i] @ h + h0, labels[i] @ g + g0), initial=0.0))

    return lambda w: float(np.average([largest(i, w) for i in range(len(risk))], weights=risk.weight))


def _likelihood(risk: StructuredLikelihood) -> Callable[[FloatArray], float]:
    """Return the mean over examples of the negative log-likelihood, by a sum over all labels."""
    batch, model = risk._batch, risk.model
    inputs = [batch.input(i) for i in range(batch.n)]
    truths = [model.encode(risk._Y[i], x) for i, x in enumerate(inputs)]
    labels = labels_of(batch)

    def loss(i: int, w: FloatArray) -> float:
        scores = model.scores(w, inputs[i])
        return float(logsumexp(labels[i] @ scores) - scores @ truths[i])

    return lambda w: float(np.average([loss(i, w) for i in range(batch.n)], weights=risk._weight))


def _rebuilt(risk: StructuredRisk) -> Callable[..., Risk]:
    """Return a function that makes the risk of some rows, with further weights."""

    def rebuild(rows: Rows, sample_weight: Any = None) -> Risk:
        X = risk.X[rows] if hasattr(risk.X, "shape") else [risk.X[i] for i in rows]
        y = [risk.Y[i] for i in rows]
        own = np.ones(len(rows)) if risk.weight is None else risk.weight[rows]
        weight = own if sample_weight is None else own * sample_weight
        return type(risk)(risk.model, X, y, risk.surrogate, risk.search, rtol=risk.rtol, sample_weight=weight)

    return rebuild


class _Case:
    """A risk with random weights, a reference of its values, and a way to make it from other rows."""

    def __init__(
        self,
        risk: Risk,
        reference: Callable[[FloatArray], float] | None,
        rebuild: Callable[..., Risk] | None,
        n: int,
        random_state: int,
    ) -> None:
        self.risk, self.reference = risk, reference
        self.rebuild = _rebuilt(risk) if rebuild is None and isinstance(risk, StructuredRisk) else rebuild
        self.rng = np.random.default_rng(check_seed("random_state", random_state))
        scales = np.resize(_SCALES, n)[:, None]
        self.points = scales * self.rng.normal(size=(n, risk.n_features))
        self.rtol = float(getattr(risk, "rtol", 0.0))
        self.convex = bool(getattr(risk, "is_convex", True))
        self._cuts: list[Cut] = []

    @property
    def cuts(self) -> list[Cut]:
        """The cut at each point."""
        self._cuts = self._cuts or [self.risk.cut(w.copy()) for w in self.points]
        return self._cuts

    @property
    def values(self) -> FloatArray:
        """The risk at each point."""
        return np.array([cut.value for cut in self.cuts])

    def room(self, value: float) -> float:
        """Rounding errors of a value, and the errors of an inexact search."""
        return (1e-9 + 2.0 * self.rtol) * (1.0 + abs(value))

    def same_values(self, other: Callable[[FloatArray], tuple[float, FloatArray]], what: str) -> None:
        """Assert that another risk has the values of this one."""
        found = np.array([other(w)[0] for w in self.points])
        close(found, self.values, what, 1e-8 + 2.0 * self.rtol)

    def lies_below(self, w: FloatArray, cut: Cut, what: str, values: FloatArray | None = None) -> None:
        """Assert that a cut is nowhere above the risk, or above other values of the points."""
        for v, value in zip(self.points, self.values if values is None else values, strict=True):
            height = cut.plane + float(cut.subgradient @ (v - w))
            room = self.room(value) + 1e-9 * float(np.abs(cut.subgradient) @ (np.abs(v) + np.abs(w)))
            assert height <= value + room, f"{what} has height {height:.9g} at a point of risk {value:.9g}"
            height = float(cut.subgradient @ v) + cut.offset(w)
            assert height <= value + room, f"{what} with its offset has height {height:.9g}, above {value:.9g}"


def value(case: _Case) -> None:
    """The risk is that of the reference: by default the mean over examples, by enumerated labels."""
    risk, exact, reference = case.risk, True, case.reference
    if reference is None and isinstance(risk, StructuredRisk):
        reference, exact = _structured(risk), risk.search in ("auto", "exact")
    elif reference is None and isinstance(risk, StructuredLikelihood) and not risk.is_part:
        reference = _likelihood(risk)
    if reference is None:
        raise NotChecked("there is no reference; give reference=, a function of the weights")
    for w, cut in zip(case.points, case.cuts, strict=True):
        expected = float(reference(w))
        room = case.room(expected)
        assert cut.value >= expected - room, f"the risk is {cut.value:.9g}, below {expected:.9g}"
        assert not exact or cut.value <= expected + room, f"the risk is {cut.value:.9g}, above {expected:.9g}"


def subgradient(case: _Case) -> None:
    """The slope agrees with finite differences: it lies between the one-sided ones."""
    if case.rtol > 1e-12:
        raise NotChecked(f"the search is inexact, rtol={case.rtol:g}")
    step, compared = 1e-6, 0
    for w, cut in zip(case.points, case.cuts, strict=True):
        assert cut.subgradient.shape == w.shape and cut.subgradient.dtype == np.float64, "not a vector of float64"
        for direction in case.rng.normal(size=(3, w.size)):
            ahead, behind = (case.risk(w + t * direction)[0] for t in (step, -step))
            slope = float(cut.subgradient @ direction)
            low, high = (cut.value - behind) / step, (ahead - cut.value) / step
            noise = 1e-5 * (1.0 + abs(cut.value) + abs(slope))
            if not case.convex:  # a corner of a risk that is not convex says nothing
                if abs(high - low) > 1e-4 * (1.0 + abs(high)):
                    continue
                low, high, noise = min(low, high), max(low, high), 10.0 * noise
            compared += slope != 0.0
            assert low - noise <= slope <= high + noise, f"slope {slope:.9g}, differences {low:.9g} and {high:.9g}"
    assert compared, "all slopes are 0"


def cut(case: _Case) -> None:
    """Every cut is below the risk at all points, not above its own value, and has one height at its point."""
    if not case.convex:
        raise NotChecked("the risk is not convex")
    for w, found in zip(case.points, case.cuts, strict=True):
        assert found.plane <= found.value + 1e-12 * (1.0 + abs(found.value)), "the cut is above the value at its point"
        close(case.risk(w)[0], found.value, "the value of the risk and of its cut", 1e-9 + 2.0 * case.rtol)
        at_w = float(found.subgradient @ w) + found.offset(w)
        close(at_w, found.plane, "the height of a cut by its offset and its plane")
        case.lies_below(w, found, "a cut")
        for v in w + np.array([[1e-3], [0.1]]) * case.rng.normal(size=(2, w.size)):
            height, near = found.plane + float(found.subgradient @ (v - w)), case.risk(v)[0]
            assert height <= near + case.room(near), f"a cut has height {height:.9g} near a point of risk {near:.9g}"


def lower_bound(case: _Case) -> None:
    """No weights have a risk below the lower bound."""
    low = case.risk.lower_bound
    if low == -math.inf:
        raise NotChecked("the risk has no lower bound")
    start = int(np.argmin(case.values))
    w, target = case.points[start].copy(), low - 1e-2 * (1.0 + abs(low))
    for _ in range(30):  # Polyak's steps to a value below the bound
        value, slope = case.risk(w)
        assert value >= low - case.room(low), f"the risk is {value:.9g}, below its bound {low:.9g}"
        if not slope.any():
            break
        w = w - (value - target) / float(slope @ slope) * slope
    assert case.values.min() >= low - case.room(low), f"the risk is {case.values.min():.9g}, below its bound {low:.9g}"


def predictions(case: _Case) -> None:
    """The risk is the loss of its predictions, which are linear in the weights and pulled back by the transpose."""
    risk = case.risk
    if not isinstance(risk, LinearRisk):
        raise NotChecked("the risk is not a function of linear predictions")
    close(risk.predictions(np.zeros(risk.n_features)), 0.0 * risk.predictions(case.points[-1]), "predictions of 0")
    for w, v in zip(case.points, case.points[::-1], strict=True):
        f = risk.predictions(w)
        close(risk.predictions(w + v), f + risk.predictions(v), "predictions of a sum")
        loss, derivative = risk.loss(f)
        close(loss, risk(w)[0], "the loss of predictions")
        assert derivative.shape == f.shape, f"the derivative has shape {derivative.shape}, predictions {f.shape}"
        other = case.rng.normal(size=f.shape)
        close(risk.pull_back(other) @ v, np.vdot(other, risk.predictions(v)), "the pulled back derivative")


def parts(case: _Case) -> None:
    """Shards add up to the risk, with bounds that hold; so do parts, by their shares of the examples."""
    n = len(case.risk)
    try:
        first = case.risk.shard(0, 2) if n > 1 else None
    except NotImplementedError:
        first = None
    divisions: list[tuple[list[Risk], FloatArray]] = []
    if first is not None:
        sizes = [k for k in (2, 3) if k <= n]
        divisions += [([case.risk.shard(k, size) for k in range(size)], np.ones(size)) for size in sizes]
    if hasattr(case.risk, "part") and n > 1:
        groups = np.array_split(case.rng.permutation(n), 2)
        divisions += [([case.risk.part(group) for group in groups], np.array([len(group) / n for group in groups]))]
    if not divisions:
        raise NotChecked("the risk has no parts")
    for shards, shares in divisions:
        for w, value in zip(case.points, case.values, strict=True):
            own = [part.cut(w) for part in shards]
            sums = [float(np.dot(shares, column)) for column in zip(*((c.value, c.plane) for c in own), strict=True)]
            close(sums[0], value, "the sum of the parts", 1e-9 + 2.0 * case.rtol)
            slope = np.asarray(sum(share * c.subgradient for share, c in zip(shares, own, strict=True)))
            if case.convex:
                case.lies_below(w, Cut(sums[0], slope, sums[1]), "the sum of the parts' cuts")
            low = [c.value - part.lower_bound for part, c in zip(shards, own, strict=True)]
            assert min(low) >= -case.room(value), "a part is below its lower bound"


def order(case: _Case) -> None:
    """The order of the examples does not matter."""
    if case.rebuild is None:
        raise NotChecked("there is no function rebuild=")
    rows = np.arange(len(case.risk))
    case.same_values(case.rebuild(rows), "a risk of the same rows")
    for other in (rows[::-1], case.rng.permutation(rows)):
        case.same_values(case.rebuild(other), "a risk of rows in another order")


def weights(case: _Case) -> None:
    """An example of weight k is the same as k copies, and an example of weight 0 is left out."""
    if case.rebuild is None or "sample_weight" not in inspect.signature(case.rebuild).parameters:
        raise NotChecked("there is no function rebuild= with a parameter sample_weight")
    n = len(case.risk)
    times = case.rng.permutation(1 + np.arange(n) % 3)
    times[n // 2] = 0 if n > 2 else 2
    weighted = case.rebuild(np.arange(n), sample_weight=times.astype(float))
    copied = case.rebuild(np.repeat(np.arange(n), times))
    one, two = (np.array([risk(w)[0] for w in case.points]) for risk in (weighted, copied))
    close(one, two, "a weighted risk and one of copies", 1e-8 + 2.0 * case.rtol)
    assert np.abs(one - case.values).max() > 1e-6, "the weights change nothing"
    for w in case.points if case.convex else []:
        case.lies_below(w, weighted.cut(w), "a cut of the weighted risk", two)


def copies(case: _Case) -> None:
    """Copies and pickles have the same values and the same identity."""
    known = json.dumps(case.risk.identity(), sort_keys=True)
    twins: list[Risk] = [copy.copy(case.risk), copy.deepcopy(case.risk), pickle.loads(pickle.dumps(case.risk))]
    for twin in twins:
        case.same_values(twin, "values of a copy")
        assert json.dumps(twin.identity(), sort_keys=True) == known, "a copy has another identity"
    case.same_values(case.risk, "values of a risk that was copied")


def repeated(case: _Case) -> None:
    """The same weights have the same risk again after others, and evaluation does not change them."""
    first = case.values
    for k in range(len(case.points) - 1, -1, -1):
        w = case.points[k].copy()
        close(case.risk(w)[0], first[k], "the second value at the same weights", 1e-9 + 2.0 * case.rtol)
        assert np.array_equal(w, case.points[k]), "evaluation changes the weights"


def line_search(case: _Case) -> None:
    """The line search finds the least objective along the line, up to 2 % of the decrease."""
    risk, moved = case.risk, 0
    if not risk.has_line_search:
        raise NotChecked("the risk has no line search")
    for k, (w, lam) in enumerate(zip(case.points, np.resize([1e-3, 0.1, 3.0], len(case.points)), strict=True)):
        d = case.rng.normal(size=w.size) if k % 3 == 2 else -(lam * w + case.cuts[k].subgradient)

        def along(t: float, w: FloatArray = w, d: FloatArray = d, lam: float = lam) -> float:
            v = w + t * d
            return float(0.5 * lam * v @ v + risk(v)[0])

        found = risk.line_search(w, d, lam)
        if found is None:
            continue
        t, value = found
        assert t >= 0.0, f"the step is {t:g}"
        close(value, risk(w + t * d)[0], "the risk at the end of the step")
        best, before = along(t), along(0.0)
        room = 1e-9 * (1.0 + abs(best)) + 0.02 * (before - best)
        least = min(map(along, [0.0, *(t * np.array([0.5, 0.9, 1.1, 2.0])), *np.logspace(-3, 1, 12)]))
        assert best <= least + room, f"the objective is {best:.9g} after the step, and {least:.9g} elsewhere"
        moved += t > 0.0
    assert moved, "no step was taken"


def rejected(case: _Case) -> None:
    """Weights of a wrong length are rejected, and weights with NaN or infinity have no finite risk."""
    w, middle = case.points[-1], np.arange(case.risk.n_features) == case.risk.n_features // 2
    for wrong in (np.append(w, 0.0), w[:-1], np.zeros((w.size, 2))):
        rejects(ValueError, f"a weight vector of shape {wrong.shape}", case.risk, wrong)
    for bad in (np.nan, np.inf, -np.inf):
        try:
            with np.errstate(all="ignore"):
                value = case.risk(np.where(middle, bad, 1.0))[0]
        except ValueError:
            continue
        assert not math.isfinite(value), f"the risk of weights with {bad} is {value:g}"
    case.same_values(case.risk, "values after an error")


#: Every check of a risk, by name.
RISK_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (
        value,
        subgradient,
        cut,
        lower_bound,
        predictions,
        parts,
        order,
        weights,
        copies,
        repeated,
        line_search,
        rejected,
    )
}


@checked
def check_risk(
    risk: Risk,
    *,
    reference: Callable[[FloatArray], float] | None = None,
    rebuild: Callable[..., Risk] | None = None,
    skip: Iterable[str] = (),
    n: int = 12,
    random_state: int = 0,
) -> Report:
    """Check value, cuts, parts, weights of examples and line search of a risk.

    Parameters
    ----------
    risk : Risk
        Risk of a small data set.
    reference : callable, optional
        ``reference(w)`` returns the risk by its definition. The labels of `StructuredRisk` and of likelihoods are
        enumerated instead.
    rebuild : callable, optional
        ``rebuild(rows, sample_weight=None)`` returns the risk of these rows of the data, numbered from 0 to
        ``len(risk) - 1``. `StructuredRisk` needs no such function.
    skip : iterable of str
        Names of checks (keys of `RISK_CHECKS`) to leave out.
    n : int
        Number of random weights.
    random_state : int
        Seed of the random weights.

    Returns
    -------
    Report
        Laws about optional methods are skipped if the risk does not have them.

    Raises
    ------
    DeclarationError
        If the risk has no examples.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> X, y = np.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 0.3], [0.2, -1.0]]), np.array([1, 1, -1, -1])
    >>> so.testing.check_risk(
    ...     so.risks.Hinge(X, y),
    ...     reference=lambda w: np.maximum(0.0, 1.0 - y * (X @ w)).mean(),
    ...     rebuild=lambda rows, sample_weight=None: so.risks.Hinge(X[rows], y[rows], sample_weight=sample_weight),
    ... )
    <Report on Hinge: 12 passed, 0 failed, 0 skipped>
    """
    if not len(risk):
        raise DeclarationError(f"{risk!r} has no examples, so there is nothing to check.")
    case = _Case(risk, reference, rebuild, whole("n", n, 4, 10_000), random_state)
    return run_checks(type(risk).__name__, RISK_CHECKS, case, skip)

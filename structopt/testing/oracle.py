"""The conformance suite of oracles: every answer is compared with the enumerated labels."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt import search
from structopt.checks import checked, whole
from structopt.checks import seed as check_seed
from structopt.errors import DeclarationError, InfeasibleSpace, StructoptError
from structopt.model import Model
from structopt.oracle import Label, Oracle, Question
from structopt.plane import Plane
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.tolerance import broken_rows
from structopt.surrogates import get
from structopt.testing._reference import TOLERANCE, Reference, close, costs, rejects
from structopt.testing.report import NotChecked, Report, run_checks

__all__ = ["ORACLE_CHECKS", "check_oracle"]

#: Labels up to which every label is listed, forbidden or reached in turn.
_FEW = 40


class _Case:
    """An oracle with the list of its labels and random objectives."""

    def __init__(self, oracle: Oracle, answers: Question | None, n: int, random_state: int) -> None:
        if oracle.integral == "relax":
            raise DeclarationError("The labels of a relaxed oracle cannot be enumerated; use integral='auto'.")
        self.oracle, self.n = oracle, n
        self.reference = Reference(oracle.space)
        self.labels = self.reference.labels
        if not len(self.labels):
            raise DeclarationError(f"{oracle.space!r} has no label; an oracle of an empty space cannot be checked.")
        self.size = oracle.space.n_variables
        self.rng = np.random.default_rng(check_seed("random_state", random_state))
        self.full = costs(self.size, n, self.rng)
        # A claim is about labels. Auxiliary variables, which follow from the integer ones, have no coefficients.
        self.C = np.where(oracle.space.integrality, self.full, 0.0)
        self.claims = oracle.answers
        self.expected = Question(0) if answers is None else answers

    def fresh(self) -> Oracle:
        """Return an oracle of the same recipe that has answered nothing."""
        return copy.copy(self.oracle)

    def ask(self, question: Question, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Return an answer; a question that is claimed takes no solver, and a question that is expected is claimed."""
        if question not in self.claims:
            assert question not in self.expected, f"{question.name} is expected, but Oracle.answers does not have it"
            return act(*args, **options)
        oracle = act.__self__  # type: ignore[attr-defined]
        before = oracle.statistics
        found = act(*args, **options)
        after = oracle.statistics
        assert found is not None, f"Oracle.answers has {question.name}, but the answer is None"
        runs = after.lp + after.mip - before.lp - before.mip
        assert not runs, f"Oracle.answers has {question.name}, but a solver ran {runs} times"
        return found

    def needs(self, question: Question) -> None:
        """Leave a law out if the question is neither claimed nor expected."""
        if question not in self.claims | self.expected:
            raise NotChecked(f"Oracle.answers does not have {question.name}")

    def expect(self, label: Label, c: FloatArray, best: float) -> None:
        """Assert that a label is in the list and has the best value, with a bound that holds."""
        assert self.reference.place(label.z) >= 0, f"{label.z} is not a label"
        close(label.value, best, "the value")
        close(float(c @ label.z), best, "the value of the label")
        assert label.bound >= best - TOLERANCE * max(1.0, abs(best)), f"the bound {label.bound} is below {best}"
        assert label.status == "optimal" and label.integral, f"{label!r} is not an integral optimum"

    def loss(self) -> tuple[FloatArray, float, FloatArray]:
        """Return the Hamming loss of a random label, and the label; integers count by their distance from a bound."""
        z = self.labels[self.rng.integers(len(self.labels))]
        space = self.oracle.space
        sign = np.where(space.integrality, np.where(z > (space.lower + space.upper) / 2.0, -1.0, 1.0), 0.0)
        return sign, -float((self.labels @ sign).min()), z


def labels(case: _Case) -> None:
    """The program has exactly the declared labels, and each of them is found if it is best."""
    points = case.reference.points()
    if points is not None:
        assert len(points) == len(case.labels), f"{len(points)} points satisfy the rows, but {len(case.labels)} labels"
        assert all(case.reference.place(z) >= 0 for z in points), "a point that satisfies the rows is not a label"
    space = case.oracle.space
    chosen = case.labels[case.rng.permutation(len(case.labels))[:_FEW]]
    broken = broken_rows(space.matrix, space.row_lower, space.row_upper, chosen, TOLERANCE, space.row_units)
    assert not broken.any(), "a label breaks a row of its space"
    ends = (chosen == space.lower) | (chosen == space.upper)
    for z in chosen[ends[:, space.integrality].all(axis=1)]:
        c = np.where(space.integrality, np.where(z == space.lower, -1.0, 1.0), 0.0)
        found = case.oracle.maximize(c).z
        close(found[space.integrality], z[space.integrality], "the label whose entries are all best")


def best_label(case: _Case) -> None:
    """The best label is found, with its value and a bound that holds."""
    for c in case.C:
        found = case.ask(Question.ARGMAX, case.oracle.maximize, c)
        case.expect(found, c, float(case.reference.order(c)[0]))
    for c in case.full:
        case.expect(case.oracle.maximize(c), c, float(case.reference.order(c)[0]))


def batch(case: _Case) -> None:
    """A batch has the answers of a loop: cold, warm, by keys, and in threads."""
    best = (case.labels @ case.C.T).max(axis=0)
    oracle, keys = case.fresh(), list(range(case.n))
    for options in ({}, {"keys": keys}, {"keys": keys}, {"n_jobs": 2}):
        found = case.ask(Question.ARGMAX, oracle.maximize_batch, case.C, **options)
        assert len(found) == case.n, f"a batch of {case.n} objectives has {len(found)} labels"
        for label, c, value in zip(found, case.C, best.tolist(), strict=True):
            case.expect(label, c, value)
        C = case.C + 0.01 * case.rng.normal(size=case.C.shape)
        warm = oracle.maximize_batch(C, keys=keys)
        close([label.value for label in warm], (case.labels @ C.T).max(axis=0), "values after a small change")
    full = [label.value for label in oracle.maximize_batch(case.full)]
    close(full, (case.labels @ case.full.T).max(axis=0), "values of a batch")
    assert oracle.maximize_batch(case.C[:0]) == [], "a batch of no objectives has labels"


def _needs_integers(case: _Case) -> None:
    if not case.oracle.space.integrality.any():
        raise NotChecked("the space has no integer variables by which labels are told apart")


def k_best(case: _Case) -> None:
    """The k best labels are listed in order, each once, and all of them if there are fewer."""
    _needs_integers(case)
    total = len(case.labels)
    for c in case.C[:6]:
        order = case.reference.order(c)
        for k in {0, 1, 3, total + 2 if total <= _FEW else 4}:
            found = case.ask(Question.K_BEST, case.oracle.k_best, c, k)
            close([label.value for label in found], order[:k], f"values of the {k} best labels")
            places = {case.reference.place(label.z) for label in found}
            assert -1 not in places and len(places) == len(found), f"the {k} best labels are not {k} different labels"


def outside(case: _Case) -> None:
    """A label that is forbidden is not returned, and the best of the others is."""
    _needs_integers(case)
    for c in case.C[:6]:
        values = case.labels @ c
        order = np.argsort(-values, kind="stable")
        for k in {1, 2, 3} & set(range(1, len(order))):
            forbid = case.labels[order[:k]]
            found = case.ask(Question.OUTSIDE, case.oracle.maximize, c, forbid=list(forbid))
            case.expect(found, c, float(values[order[k]]))
            assert case.reference.place(found.z) not in order[:k], "a forbidden label is returned"
    if len(case.labels) <= _FEW:
        everything = list(case.labels)
        rejects(InfeasibleSpace, "a call that forbids every label", case.oracle.maximize, case.C[0], forbid=everything)


def side_rows(case: _Case) -> None:
    """Rows of one call hold in this call, with forbidden labels, and in no other."""
    if not case.size:
        raise NotChecked("the space has no variables")
    for c in case.C[:6]:
        a = case.rng.normal(size=case.size)
        activity = np.unique((case.labels @ a).round(9))
        middle = len(activity) // 2
        cap = float(activity[middle : middle + 2].mean())
        j = int(case.rng.integers(case.size))
        value = float(case.labels[case.rng.integers(len(case.labels)), j])
        unit = np.eye(case.size)[j]
        for rows in ([(a, -np.inf, cap)], [(unit, value, value)], [(a, cap - 1e-3, np.inf), (unit, value, value)]):
            inside = np.ones(len(case.labels), dtype=bool)
            for row, low, up in rows:
                ends = np.array([low]), np.array([up])
                inside &= ~broken_rows(sp.csr_array(row[None]), *ends, case.labels, TOLERANCE)[:, 0]
            if not inside.any():
                rejects(InfeasibleSpace, "a call whose rows no label satisfies", case.oracle.maximize, c, rows)
                continue
            left = case.labels[inside]
            found = case.ask(Question.SIDE_ROWS, case.oracle.maximize, c, rows)
            case.expect(found, c, float((left @ c).max()))
            others = left[np.abs(left - found.z).max(axis=1) > TOLERANCE]
            if len(others):
                second = case.oracle.maximize(c, rows, [found.z])
                case.expect(second, c, float((others @ c).max()))
        case.expect(case.oracle.maximize(c), c, float(case.reference.order(c)[0]))
        beyond = float(case.oracle.space.upper[j]) + 1.0
        above = [(unit, beyond, beyond)]
        rejects(InfeasibleSpace, "a row above the bound of its variable", case.oracle.maximize, c, above)


def front(case: _Case) -> None:
    """The front has only labels, and every label of the Pareto front is equalled by one of them."""
    case.needs(Question.FRONT)
    for c in case.C[: max(1, case.n // 2)]:
        g, g0, _ = case.loss()
        found = case.ask(Question.FRONT, case.oracle.front, (c, 0.5), (g, g0))
        assert found is not None, "the front of a Hamming loss is None"
        assert all(case.reference.place(z) >= 0 for z in found), "a point of the front is not a label"
        own = np.column_stack([found @ c, found @ g])
        for point in np.column_stack([case.labels @ c, case.labels @ g]):
            covered = (own >= point - TOLERANCE).all(axis=1).any()
            assert covered, f"no point of the front has h >= {point[0]:.6g} and g >= {point[1] + g0:.6g}"


def searches(case: _Case) -> None:
    """The searches of margin and slack rescaling find the most violated label, with a bound that holds."""
    for c in case.C[: min(case.n, 5)]:
        g, g0, truth = case.loss()
        g0 = -float(g @ truth)
        h0 = -float(c @ truth)
        H, G = case.labels @ c + h0, case.labels @ g + g0
        if G.min() < 0.0:  # integers: the distance from a bound is no loss of this label
            g0 -= float(G.min())
            G -= float(G.min())
        for name in ("margin", "slack"):
            best = max(0.0, float(np.max(get(name).value(H, G))))
            for listed in (True, False):
                found = search.exact(Plane(case.oracle, (c, h0), (g, g0), truth=truth), name, front=listed)
                room = 1e-5 * max(1.0, abs(best))
                assert abs(found.value - best) <= room, f"{name} search finds {found.value:.9g}, not {best:.9g}"
                assert found.upper_bound >= best - room, f"the bound of the {name} search is below {best:.9g}"


def sums(case: _Case) -> None:
    """Log-partition, marginals, covariances and samples are those of the enumerated distribution."""
    case.needs(Question.SUMS)
    products = case.C @ case.labels.T
    top = products.max(axis=1, keepdims=True)
    weights = np.exp(products - top)
    log_partition = top[:, 0] + np.log(weights.sum(axis=1))
    marginals = weights @ case.labels / weights.sum(axis=1, keepdims=True)
    both = case.ask(Question.SUMS, case.oracle.sums, case.C)
    for found in (both, (case.oracle.log_partition(case.C), case.oracle.marginals(case.C))):
        close(found[0], log_partition, "the log-partition function")
        close(found[1], marginals, "the marginals")
    V = case.rng.normal(size=case.C.shape)
    mixed = weights * (V @ case.labels.T)
    along = mixed.sum(axis=1, keepdims=True) * marginals
    covariances = (mixed @ case.labels - along) / weights.sum(axis=1, keepdims=True)
    close(case.ask(Question.SUMS, case.oracle.covariance_products, case.C, V), covariances, "covariances times V")
    for c, mean, own in zip(case.C[:3], marginals, weights, strict=False):
        drawn = case.ask(Question.SAMPLE, case.oracle.sample, c, 400, random_state=0)
        assert drawn.shape == (400, case.size), f"400 samples have shape {drawn.shape}"
        assert all(case.reference.place(z) >= 0 for z in np.unique(drawn, axis=0)), "a sample is not a label"
        variance = own @ (case.labels - mean) ** 2 / own.sum()
        far = np.abs(drawn.mean(axis=0) - mean) > 6.0 * np.sqrt(variance / 400) + 1.0 / 40
        assert not far.any(), "the mean of 400 samples is far from the marginals"
        same, other = (case.oracle.sample(c, 400, random_state=seed) for seed in (0, 1))
        assert np.array_equal(same, drawn), "the same seed gives other samples"
        if own.max() < 0.9 * own.sum():
            assert not np.array_equal(other, drawn), "another seed gives the same samples"


def copies(case: _Case) -> None:
    """Copies and pickles give the same answers, without changing the original."""
    best = (case.labels @ case.C.T).max(axis=0)
    twins: list[Oracle] = [copy.copy(case.oracle), copy.deepcopy(case.oracle), pickle.loads(pickle.dumps(case.oracle))]
    for twin in twins:
        assert twin.answers == case.claims, f"a copy answers {twin.answers}, the original {case.claims}"
        close([twin.maximize(c).value for c in case.C], best, "values of a copy")
    close([case.oracle.maximize(c).value for c in case.C], best, "values of an oracle that was copied")


def rejected(case: _Case) -> None:
    """Objectives with NaN, infinity or a wrong length are rejected, and the next call is right."""
    oracle = case.oracle
    wrong = [np.zeros(case.size + 1), np.zeros((case.size + 1, 1, 1))]
    middle = np.arange(case.size) == case.size // 2
    wrong += [np.where(middle, bad, 1.0) for bad in (np.nan, np.inf, -np.inf) if case.size]
    right = case.C[0]
    for c in wrong:
        calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
            (oracle.maximize, (c,)),
            (oracle.maximize, (c, [(right, -1e9, 1e9)])),
            (oracle.maximize_batch, ([c],)),
            (oracle.k_best, (c, 2)),
            (oracle.front, ((right, 0.0), (c, 0.0))),
        ]
        if Question.SUMS in case.claims:
            calls += [(oracle.sums, ([c],)), (oracle.sample, (c,))]
        for act, arguments in calls:
            what = f"{act.__name__}: the objective {c.ravel()[:4]} of shape {c.shape}"
            rejects(StructoptError, what, act, *arguments)
    case.expect(oracle.maximize(right), right, float(case.reference.order(right)[0]))


#: Every check of an oracle, by name.
ORACLE_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (labels, best_label, batch, k_best, outside, side_rows, front, searches, sums, copies, rejected)
}


@checked
def check_oracle(
    space_or_model: LabelSpace | Model | Oracle,
    *,
    answers: Question | None = None,
    n: int = 20,
    random_state: int = 0,
) -> Report:
    """Compare every answer of an oracle with the enumerated labels of its space.

    A question that `Oracle.answers` claims must be answered, and without a solver.

    Parameters
    ----------
    space_or_model : LabelSpace, Model or Oracle
        Space with at most 20,000 labels, model whose inputs share such a space, or the oracle itself
        (``model.oracle(x)`` if the space depends on the input).
    answers : Question, optional
        Questions that must be answered without a solver. It is a failure if `Oracle.answers` does not claim them.
    n : int
        Number of random objectives.
    random_state : int
        Seed of the random objectives.

    Returns
    -------
    Report
        The laws of fronts and sums are skipped if the oracle claims neither and the caller expects neither.

    Raises
    ------
    DeclarationError
        If the labels cannot be enumerated.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("knapsack")
    >>> y = space.binary("y", 4)
    >>> space.subject_to(2 * y[0] + 3 * y[1] + 4 * y[2] + 5 * y[3] <= 7)
    >>> so.testing.check_oracle(space, answers=so.Question.K_BEST | so.Question.FRONT)
    <Report on oracle by enumeration: 11 passed, 0 failed, 0 skipped>
    """
    if isinstance(space_or_model, Model):
        oracle = space_or_model.oracle()
    else:
        oracle = space_or_model if isinstance(space_or_model, Oracle) else Oracle(space_or_model)
    case = _Case(oracle, answers, whole("n", n, 1, 100_000), random_state)
    return run_checks(f"oracle by {oracle.algorithm}", ORACLE_CHECKS, case)

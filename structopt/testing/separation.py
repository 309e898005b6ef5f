"""The conformance suite of lazy rows: what solvers rely on in a separation function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import numpy as np

from structopt.checks import checked, function, whole
from structopt.checks import seed as check_seed
from structopt.errors import DeclarationError
from structopt.oracle import Oracle
from structopt.space import LabelSpace
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray
from structopt.space.enumeration import enumerate_labels
from structopt.space.lazy import FoundRows, described_row, found_rows
from structopt.space.tolerance import broken_rows
from structopt.testing.report import Outcome, Report

__all__ = ["SEPARATION_CHECKS", "check_separation"]

#: Integral points of the listed rows beyond which brute force is refused, and beyond which a sample is checked.
_MOST_POINTS, _SAMPLE = 20_000, 1024
#: Points at which the separations are called a second time.
_REPEATED = 256


class _Case:
    """A space with lazy rows, its labels by brute force, and points at which its separations are called."""

    def __init__(self, space: LabelSpace, accepts: Callable[..., Any] | None, trials: int, random_state: int) -> None:
        self.space = space
        self.compiled = compiled = space.compiled
        self.rng = np.random.default_rng(check_seed("random_state", random_state))
        self._known: dict[bytes, FoundRows | None] = {}
        self._accepts = accepts
        listed = enumerate_labels(compiled.rows_only(), _MOST_POINTS)
        self.is_sample = len(listed) > _SAMPLE
        self.listed = listed[np.sort(self.rng.permutation(len(listed))[:_SAMPLE])]
        self.accepted = np.array([self.is_label(z) for z in self.listed], dtype=np.bool_)
        self.points = list(self._fractions(trials)) + list(self.listed)

    def is_label(self, z: FloatArray) -> bool:
        """Return whether an integral point of the listed rows is a label."""
        if self._accepts is not None:
            return bool(self._accepts(self.space.blocks(z)))
        found = self.rows(z)
        return found is None or not found.violated.any()

    def _fractions(self, trials: int) -> Iterable[FloatArray]:
        """Optima of the relaxation in every round, and means of points of the listed rows."""
        seen: list[FloatArray] = []
        oracle = Oracle(self.space, "highs", integral="relax")
        pool = oracle.lazy_rows
        assert pool is not None
        plain = pool.separate

        def separate(z: FloatArray) -> Any:
            seen.append(z.copy())
            return plain(z)

        pool.separate = separate  # type: ignore[method-assign]
        for c in self.rng.normal(size=(trials, self.compiled.n_variables)):
            oracle.maximize(c)
            if len(self.listed):
                chosen = self.listed[self.rng.integers(len(self.listed), size=3)]
                seen.append(self.rng.dirichlet(np.ones(3)) @ chosen)
        return seen

    def rows(self, z: FloatArray) -> FoundRows | None:
        """Return the rows found at a point, by one call of the separations per point."""
        key = z.tobytes()
        if key not in self._known:
            self._known[key] = found_rows(self.compiled, z)
        return self._known[key]


def valid(case: _Case) -> None:
    """No row that is found anywhere cuts off a label."""
    labels = case.listed[case.accepted]
    seen: set[bytes] = set()
    for z in case.points:
        found = case.rows(z)
        if found is None or not len(labels):
            continue
        parts = (found.matrix.indptr, found.matrix.indices, found.matrix.data, found.lower, found.upper)
        key = b"".join(part.tobytes() for part in parts)
        if key in seen:  # the same rows were found at another point
            continue
        seen.add(key)
        off = np.argwhere(broken_rows(found.matrix, found.lower, found.upper, labels, FEASIBILITY_TOLERANCE))
        if len(off):
            i, k = off[0]
            part = found.matrix[[int(k)]]
            names = case.compiled.variable_names
            row = described_row(names, part.indices, part.data, float(found.lower[k]), float(found.upper[k]))
            raise AssertionError(f"{found.names[int(k)]!r} returned {row} at {z}, which cuts off the label {labels[i]}")


def complete(case: _Case) -> None:
    """At every integral point that is not a label a violated row is found."""
    for z in case.listed[~case.accepted]:
        found = case.rows(z)
        assert found is not None and found.violated.any(), f"nothing is found at {z}, which is not a label"


def violated(case: _Case) -> None:
    """Every row that is returned is violated by the point."""
    for z in case.points:
        found = case.rows(z)
        satisfied = found is not None and (found.excess < -1e-3).any()
        assert not satisfied, f"at {z} a row is returned that it satisfies"


def repeatable(case: _Case) -> None:
    """What is returned depends on the point alone."""
    first = [case.rows(z) for z in case.points]
    for k in case.rng.permutation(len(first))[:_REPEATED].tolist():
        a, b = first[k], found_rows(case.compiled, case.points[k])
        same = (a is None) == (b is None)
        if a is not None and b is not None:
            same = a.matrix.shape == b.matrix.shape and abs(a.matrix - b.matrix).sum() == 0
            same = same and np.array_equal(a.lower, b.lower) and np.array_equal(a.upper, b.upper)
        assert same, f"other rows are returned at {case.points[k]} when it is asked again"


def optimal(case: _Case) -> None:
    """The oracle finds the best of all labels."""
    labels = case.listed[case.accepted]
    if not len(labels):
        return
    oracle = Oracle(case.space, "highs")
    for c in case.rng.normal(size=(5, case.compiled.n_variables)):
        best, label = float((labels @ c).max()), oracle.maximize(c)
        found, room = label.value, 1e-6 * max(1.0, abs(best))
        right = found >= best - room and (found <= best + room or case.is_sample)
        assert right, f"the oracle finds {found:.6g}, the best is {best:.6g}"
        assert case.is_label(label.z), f"the oracle finds {label.z}, which is not a label"


#: Every check of a separation, by name.
SEPARATION_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check for check in (valid, complete, violated, repeatable, optimal)
}


@checked
def check_separation(
    space: LabelSpace,
    accepts: Callable[..., Any] | None = None,
    *,
    skip: Iterable[str] = (),
    trials: int = 10,
    random_state: int = 0,
) -> Report:
    """Check the lazy rows of a small space against brute force.

    The separations are called once at each point that is checked, and twice at 256 of them.

    Parameters
    ----------
    space : LabelSpace
        With lazy rows, and at most 20,000 integral points. Of more than 1,024 a random sample of 1,024 is checked.
    accepts : callable, optional
        ``accepts(z)``, with an integral point by blocks, says whether it is a label, by other means than the
        separation. Without it the labels are the points at which the separation finds nothing.
    skip : iterable of str
        Names of checks (keys of `SEPARATION_CHECKS`) to leave out.
    trials : int
        Number of random objectives, whose fractional optima are separated.
    random_state : int
        Of the random objectives.

    Returns
    -------
    Report

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("at most one")
    >>> y = space.binary("y", 4)
    >>> space.lazy(lambda z: y.sum() <= 1 if z["y"].sum() > 1 + 1e-6 else None)
    >>> so.testing.check_separation(space, lambda z: z["y"].sum() <= 1)
    <Report on separation: 5 passed, 0 failed, 0 skipped>
    """
    if not space.compiled.separations:
        raise DeclarationError(f"{space!r} has no lazy rows to check; declare them by space.lazy(separate).")
    if accepts is not None:
        function("accepts", accepts, 1)
    left_out = set(skip)
    unknown = sorted(left_out - set(SEPARATION_CHECKS))
    if unknown:
        raise DeclarationError(f"There is no check {unknown[0]!r}; there are {', '.join(SEPARATION_CHECKS)}.")
    begun = perf_counter()
    case, failure = None, ""
    try:
        case = _Case(space, accepts, whole("trials", trials, 0, 1_000_000), random_state)
    except DeclarationError:
        raise
    except Exception as error:  # a separation that cannot even be called
        failure = f"{type(error).__name__}: {error}"
    outcomes = []
    for name, check in SEPARATION_CHECKS.items():
        law = (check.__doc__ or "").strip()
        if name in left_out:
            outcomes.append(Outcome(name, law, "skipped", "left out by the caller"))
            continue
        begun = perf_counter()
        reason = failure
        if case is not None:
            try:
                check(case)
            except Exception as error:
                reason = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        outcomes.append(Outcome(name, law, "failed" if reason else "passed", reason, perf_counter() - begun))
    return Report("separation", tuple(outcomes))

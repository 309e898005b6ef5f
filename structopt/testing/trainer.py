"""The conformance suite of trainers: objectives and bounds are compared with optima of independent methods."""

from __future__ import annotations

import functools
import inspect
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structopt.checks import checked
from structopt.checks import seed as check_seed
from structopt.errors import DeclarationError, TimeLimitReached
from structopt.risks.regularizers import L1, L2, Regularizer
from structopt.risks.risk import Risk, check_lam
from structopt.risks.scalar import Hinge, Logistic, SquaredHinge
from structopt.risks.structured import StructuredRisk
from structopt.space.compiled import FloatArray
from structopt.structures import Chain, Multiclass, PairwiseMRF
from structopt.testing._reference import close, rejects
from structopt.testing.report import NotChecked, Report, run_checks
from structopt.testing.risk import labels_of
from structopt.train.checkpoint import Checkpoint
from structopt.train.monitor import check_tol
from structopt.train.registry import Trainer, TrainerFunction, get
from structopt.train.result import TrainResult

__all__ = ["TRAINER_CHECKS", "TRAINER_PROBLEMS", "check_trainer"]


# ---- problems --------------------------------------------------------------------------------------


def _inputs(n: int = 8, d: int = 2) -> tuple[FloatArray, np.random.Generator]:
    rng = np.random.default_rng(4)
    return rng.normal(size=(n, d)), rng


def _margin() -> Risk:
    X, rng = _inputs()
    return StructuredRisk(PairwiseMRF(3), X, rng.integers(0, 2, (len(X), 3)), "margin", rtol=1e-10)


def _slack() -> Risk:
    """Chains of one to three positions, with weights of the examples."""
    X, rng = _inputs(12)
    chains = [X[:1], X[1:3], X[3:6], X[6:9], X[9:12]]
    states = [rng.integers(0, 2, len(x)) for x in chains]
    return StructuredRisk(Chain(2), chains, states, "slack", rtol=1e-10, sample_weight=[1.0, 2.0, 0.5, 1.0, 3.0])


def _multiclass() -> Risk:
    X, rng = _inputs()
    return StructuredRisk(Multiclass(3), X, rng.integers(0, 3, len(X)), "margin", rtol=1e-10)


def _of_signs(kind: Callable[..., Risk]) -> Risk:
    X, rng = _inputs(12, 3)
    return kind(X, np.where(X[:, 0] + rng.normal(size=len(X)) > 0, 1.0, -1.0))


#: Small problems with known optima: a function that makes the risk, and the regulariser.
TRAINER_PROBLEMS: dict[str, tuple[Callable[[], Risk], Regularizer]] = {
    "margin": (_margin, L2()),
    "slack": (_slack, L2()),
    "multiclass": (_multiclass, L2()),
    "hinge": (functools.partial(_of_signs, Hinge), L2()),
    "squared hinge": (functools.partial(_of_signs, SquaredHinge), L2()),
    "logistic": (functools.partial(_of_signs, Logistic), L2()),
    "hinge with L1": (functools.partial(_of_signs, Hinge), L1()),
}


# ---- optima ----------------------------------------------------------------------------------------


def _pieces(risk: Risk) -> list[tuple[FloatArray, FloatArray]] | None:
    """Return slopes and levels of each example's affine functions, whose maxima add up to the risk; else None."""
    if isinstance(risk, Hinge):
        rows = -risk.shares[:, None] * risk.y[:, None] * np.array([risk.pull_back(e) for e in np.eye(len(risk))])
        return [
            (np.array([row, 0.0 * row]), np.array([share, 0.0])) for row, share in zip(rows, risk.shares, strict=True)
        ]
    if not isinstance(risk, StructuredRisk) or risk.surrogate.counts or risk.search not in ("auto", "exact"):
        return None
    try:
        every = labels_of(risk.batch)
    except NotChecked:
        return None
    model, psi, found = risk.model, risk.surrogate, []
    for i, labels in enumerate(every):
        x = risk.batch.input(i)
        truth = model.joint(x, model.encode(risk.Y[i], x))
        coef, const = model.loss(risk.Y[i], x)
        g = labels @ coef + const
        share = (1.0 if risk.weight is None else risk.weight[i]) / len(risk)
        slope, level = psi.value(1.0, g) - psi.value(0.0, g), psi.value(0.0, g)
        if not np.allclose(psi.value(2.0, g), level + 2.0 * slope):
            return None
        joint = np.array([model.joint(x, z) for z in labels])
        found.append((share * slope[:, None] * (joint - truth), share * level))
    return found


def _quadratic(pieces: list[tuple[FloatArray, FloatArray]], lam: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum with L2, by SLSQP on the dual and by its primal point."""
    from scipy.optimize import minimize

    A, b = np.concatenate([rows for rows, _ in pieces]), np.concatenate([levels for _, levels in pieces])
    starts = np.cumsum([0, *(len(levels) for _, levels in pieces[:-1])])
    members = np.repeat(np.eye(len(pieces)), [len(levels) for _, levels in pieces], axis=1)

    def negative(alpha: FloatArray) -> tuple[float, FloatArray]:
        total = A.T @ alpha
        return float(total @ total / (2.0 * lam) - b @ alpha), A @ total / lam - b

    found = minimize(
        negative,
        1.0 / (members.T @ members.sum(axis=1)),
        jac=True,
        bounds=[(0.0, 1.0)] * len(b),
        constraints={"type": "eq", "fun": lambda alpha: members @ alpha - 1.0, "jac": lambda alpha: members},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    alpha = np.maximum(found.x, 0.0)
    alpha /= members.T @ (members @ alpha)
    w = -A.T @ alpha / lam
    return -negative(alpha)[0], float(lam * (w @ w) / 2.0 + np.maximum.reduceat(A @ w + b, starts).sum())


def _linear(pieces: list[tuple[FloatArray, FloatArray]], lam: float) -> float:
    """Return the optimum with L1, by a linear program."""
    from scipy.optimize import linprog

    A, n = np.concatenate([rows for rows, _ in pieces]), len(pieces)
    members = np.repeat(np.eye(n), [len(levels) for _, levels in pieces], axis=1)
    costs = np.concatenate([np.full(2 * A.shape[1], lam), np.ones(n)])
    above = np.concatenate([levels for _, levels in pieces])
    free = [(0.0, None)] * (2 * A.shape[1]) + [(None, None)] * n
    return float(linprog(costs, np.hstack([A, -A, -members.T]), -above, bounds=free).fun)


def _smooth(risk: Risk, lam: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum with L2, by L-BFGS and strong convexity."""
    from scipy.optimize import minimize

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        value, slope = risk(w)
        return value + lam * float(w @ w) / 2.0, slope + lam * w

    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 10_000}
    found = minimize(objective, np.zeros(risk.n_features), jac=True, method="L-BFGS-B", options=options)
    value, slope = objective(found.x)
    return value - float(slope @ slope) / (2.0 * lam), value


class _Problem:
    """A risk that can be made again, a regulariser, and bounds of the optimum."""

    def __init__(self, name: str, make: Callable[[], Risk], regularizer: Regularizer, lam: float) -> None:
        self.name, self.make, self.regularizer, self.lam = name, make, regularizer, lam
        self.risk = make()
        pieces = _pieces(self.risk)
        if pieces is not None and isinstance(regularizer, L1):
            self.low = self.high = _linear(pieces, lam)
        elif pieces is not None:
            self.low, self.high = _quadratic(pieces, lam)
        elif self.risk.is_smooth:
            self.low, self.high = _smooth(self.risk, lam)
        else:
            raise DeclarationError(
                f"There is no reference optimum of {self.risk!r}; give a StructuredRisk with margin or slack rescaling "
                "and few labels, a Hinge risk, or a smooth risk."
            )
        if self.high - self.low > 1e-5 * (1.0 + abs(self.high)):
            raise DeclarationError(
                f"{name}: the optimum is known to {self.high - self.low:.2g} only; use a larger lam."
            )
        self.room = 1e-7 * (1.0 + abs(self.high))
        self.start = self.objective(regularizer.start(self.risk.n_features))

    def objective(self, w: FloatArray) -> float:
        """Return the objective of weights."""
        return self.lam * self.regularizer.value(w) + float(self.risk(w)[0])

    def check(self, result: TrainResult, what: str) -> None:
        """Assert that a result brackets the optimum and has the objective of its weights."""
        at = f"{self.name}: {what}"
        assert result.lower_bound <= self.high + self.room, (
            f"{at} has the bound {result.lower_bound:.9g}, above the optimum {self.high:.9g}"
        )
        assert result.objective >= self.low - self.room, (
            f"{at} has the objective {result.objective:.9g}, below the optimum {self.low:.9g}"
        )
        w = np.asarray(result.w)
        assert w.shape == (self.risk.n_features,) and np.isfinite(w).all(), f"{at} has the weights {w}"
        if math.isfinite(result.objective):
            close(result.objective, self.objective(w), f"{at} has an objective", 1e-7)


# ---- laws ------------------------------------------------------------------------------------------


class _Case:
    """A trainer with the problems that it accepts."""

    def __init__(
        self, trainer: Trainer, problems: list[_Problem], converges: bool, tol: float, random_state: int
    ) -> None:
        self.trainer, self.problems, self.converges, self.tol = trainer, problems, converges, tol
        self.random_state = check_seed("random_state", random_state)
        self._runs: dict[str, tuple[TrainResult, list[TrainResult]]] = {}
        self._second: dict[str, tuple[TrainResult, float]] = {}

    def takes(self, *names: str) -> bool:
        """Return whether the trainer has these parameters."""
        known = inspect.signature(self.trainer.function).parameters
        return all(name in known for name in names) or any(p.kind is p.VAR_KEYWORD for p in known.values())

    def needs(self, *names: str) -> None:
        """Skip the law of a trainer without these parameters."""
        if not self.takes(*names):
            raise NotChecked(f"the trainer has no parameter {' or '.join(names)}")

    def run(self, problem: _Problem, risk: Risk | None = None, **options: Any) -> TrainResult:
        """Train from the start."""
        given = {"lam": problem.lam, "tol": self.tol, "random_state": self.random_state} | options
        if not isinstance(problem.regularizer, L2):
            given["regularizer"] = problem.regularizer
        return self.trainer.minimise(problem.make() if risk is None else risk, **given)

    def main(self, problem: _Problem) -> tuple[TrainResult, list[TrainResult]]:
        """Return the result of a whole run, and the results that its callback got."""
        if problem.name not in self._runs:
            seen: list[TrainResult] = []
            self._runs[problem.name] = self.run(problem, callback=seen.append), seen
        return self._runs[problem.name]

    def second(self, problem: _Problem) -> tuple[TrainResult, float]:
        """Return the result of a second run, and by how much it changed values of its risk."""
        if problem.name not in self._second:
            risk = problem.make()
            W = np.random.default_rng(self.random_state).normal(size=(3, risk.n_features))
            before = np.array([risk(w)[0] for w in W])
            result = self.run(problem, risk)
            change = float(np.max(np.abs(np.array([risk(w)[0] for w in W]) - before)))
            self._second[problem.name] = result, math.inf if risk.identity() != problem.risk.identity() else change
        return self._second[problem.name]

    def accepts(self, problem: _Problem) -> bool:
        """Return whether the trainer takes the risk and the regulariser."""
        if not isinstance(problem.regularizer, L2) and not self.takes("regularizer"):
            return False
        try:
            self.main(problem)
        except DeclarationError:
            return False
        return True


def bounds(case: _Case) -> None:
    """At every record the optimum lies between the lower bound and the objective, and both only improve."""
    for problem in case.problems:
        result, seen = case.main(problem)
        for found in (*seen, result):
            problem.check(found, "a record")
        low, high = result.history["lower_bound"], result.history["objective"]
        assert (low[1:] >= low[:-1]).all(), f"{problem.name}: the bound of a record is below an earlier one"
        assert (high[1:] <= high[:-1]).all(), f"{problem.name}: the objective of a record is above an earlier one"


def optimum(case: _Case) -> None:
    """A run converges: objective and lower bound are the optimum up to tol."""
    if not case.converges:
        raise NotChecked("the trainer need not converge")
    for problem in case.problems:
        result, _ = case.main(problem)
        assert result.converged, f"{problem.name}: stopped by {result.stopped!r} with the gap {result.gap:.3g}"
        room = case.tol * abs(result.objective) + problem.room
        for value in (result.objective, result.lower_bound):
            assert problem.low - room <= value <= problem.high + room, (
                f"{problem.name}: {value:g}, not {problem.high:g}"
            )


def objective(case: _Case) -> None:
    """The objective is that of the weights, and below the objective of the regulariser's start."""
    for problem in case.problems:
        result, _ = case.main(problem)
        problem.check(result, "a result")
        assert problem.high < 0.99 * problem.start, f"{problem.name}: the start is optimal, so this says nothing"
        assert result.objective < problem.start, f"{problem.name}: {result.objective:g} is not below {problem.start:g}"


def gap(case: _Case) -> None:
    """The gap follows from objective and bound, agrees with the last record, and decides `converged`."""
    for problem in case.problems:
        result, _ = case.main(problem)
        scale = max(abs(result.objective), 1e-12 * problem.start)
        expected = max(result.objective - result.lower_bound, 0.0) / scale
        assert math.isclose(result.gap, expected, rel_tol=1e-9, abs_tol=1e-9), (
            f"{problem.name}: the gap is {result.gap:g}, not {expected:g}"
        )
        assert result.tol == case.tol or not case.takes("tol"), f"{problem.name}: tol is {result.tol:g}"
        done = result.gap <= result.tol or result.stopped == "precision"
        assert result.converged == done, f"{problem.name}: converged is {result.converged} at the gap {result.gap:g}"
        assert result.stopped != "tol" or result.gap <= result.tol, f"{problem.name}: stopped by tol at {result.gap:g}"
        assert len(result.history) and result.passes > 0, f"{problem.name}: no pass is recorded"
        last = result.history[-1]
        assert (last.objective, last.gap) == (result.objective, result.gap), (
            f"{problem.name}: the last record is {last}"
        )


def limits(case: _Case) -> None:
    """A run keeps to max_passes and max_seconds, and its result brackets the optimum."""
    if not case.takes("max_passes") and not case.takes("max_seconds"):
        raise NotChecked("the trainer has no limits")
    for problem in case.problems:
        if case.takes("max_passes"):
            over = []
            for most in (2, 4):
                result = case.run(problem, max_passes=most)
                problem.check(result, f"a result after {most} passes")
                late = np.sum(result.history["passes"] >= most)  # a second record may certify the result
                assert late <= 2, f"{problem.name}: {late} records after {most} passes, {result.passes:g} passes in all"
                over.append(result.passes - most)
            assert min(over) <= 1.0, f"{problem.name}: at least {min(over):g} passes more than max_passes"
        if case.takes("max_seconds"):
            try:
                result = case.run(problem, max_seconds=1e-9)
            except TimeLimitReached as error:
                result = error.partial
            problem.check(result, "a result after no time")
            assert result.stopped in ("time", "tol", "precision"), f"{problem.name}: stopped by {result.stopped!r}"


def callback(case: _Case) -> None:
    """A callback gets every record and stops the run, which ends with the record's weights."""
    case.needs("callback")
    stopped = 0
    for problem in case.problems:
        whole, seen = case.main(problem)
        assert len(seen) == len(whole.history), f"{problem.name}: {len(seen)} calls, {len(whole.history)} records"
        calls: list[TrainResult] = []

        def second(found: TrainResult, calls: list[TrainResult] = calls) -> bool:
            calls.append(found)
            return len(calls) == 2

        result = case.run(problem, callback=second)
        problem.check(result, "a result that the callback stopped")
        if len(whole.history) > 3:
            stopped += 1
            assert result.stopped == "callback", f"{problem.name}: stopped by {result.stopped!r}, not by the callback"
            assert len(calls) <= 3, f"{problem.name}: {len(calls)} records, and the callback stopped the second"
            assert result.objective <= calls[1].objective, f"{problem.name}: the result is worse than a record"
    if not stopped:
        raise NotChecked("no run has more than three records")


def checkpoint(case: _Case) -> None:
    """A run that resumes from a checkpoint ends with the weights of an uninterrupted run."""
    case.needs("checkpoint", "callback")
    resumed = 0
    for problem in case.problems:
        whole, _ = case.main(problem)
        with tempfile.TemporaryDirectory() as folder:
            path, kept = Path(folder) / "run.npz", Path(folder) / "kept.npz"

            def keep(found: TrainResult, path: Path = path, kept: Path = kept) -> bool:
                if path.exists():
                    shutil.copy(path, kept)  # without the last steps of a run that stops in order
                return path.exists()

            case.run(problem, checkpoint=Checkpoint(path, every=0.0), callback=keep)
            if len(whole.history) < 3:
                continue
            resumed += 1
            assert kept.exists(), f"{problem.name}: there is no file after {len(whole.history)} records"
            rejects(DeclarationError, "the checkpoint of another lam", case.run, problem, checkpoint=kept, lam=7.0)
            rest = case.run(problem, checkpoint=kept)
            problem.check(rest, "a resumed run")
            close(rest.w, whole.w, f"{problem.name}: weights of a resumed run")
            close(rest.passes, whole.passes, f"{problem.name}: passes of a resumed run")
    if not resumed:
        raise NotChecked("no run has more than two records")


def seeds(case: _Case) -> None:
    """The same seed gives the same weights, and other seeds give other runs, whose bounds hold."""
    for problem in case.problems:
        whole, _ = case.main(problem)
        close(case.second(problem)[0].w, whole.w, f"{problem.name}: weights of a second run", 1e-9)
    if case.takes("random_state"):
        first, changed = case.problems[0], False
        for k in (1, 2, 3):
            other = case.run(first, random_state=case.random_state + k)
            first.check(other, "a run with another seed")
            changed = changed or not np.array_equal(other.w, case.main(first)[0].w)
            if changed:
                break
        assert changed, f"{first.name}: the weights do not depend on random_state"


def start(case: _Case) -> None:
    """A run from given weights brackets the optimum, leaves these weights alone, and rejects unsuitable ones."""
    case.needs("w0")
    rng = np.random.default_rng(case.random_state)
    for problem in case.problems:
        w0 = rng.normal(size=problem.risk.n_features)
        given = w0.copy()
        result = case.run(problem, w0=given)
        problem.check(result, "a run from given weights")
        assert result.converged or not case.converges, f"{problem.name}: no convergence from given weights"
        assert np.array_equal(w0, given), f"{problem.name}: the given weights are changed"
        for wrong in (np.append(w0, 0.0), np.full(len(w0), np.nan)):
            rejects(DeclarationError, f"{problem.name}: w0={wrong}", case.run, problem, w0=wrong)


def risk(case: _Case) -> None:
    """A run changes neither the values of the risk nor its identity."""
    for problem in case.problems:
        _, change = case.second(problem)
        assert change <= problem.room, f"{problem.name}: a run changes the risk by {change:g}"


#: Every check of a trainer, by name.
TRAINER_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (bounds, optimum, objective, gap, limits, callback, checkpoint, seeds, start, risk)
}


@functools.cache
def _built_in(name: str, lam: float) -> _Problem:
    """Return a problem of the suite; its optimum is computed once."""
    return _Problem(name, *TRAINER_PROBLEMS[name], lam)


@checked
def check_trainer(
    trainer: str | TrainerFunction | Trainer,
    *,
    problems: Sequence[Any] | None = None,
    converges: bool = True,
    lam: float = 0.1,
    tol: float = 1e-3,
    skip: Iterable[str] = (),
    random_state: int = 0,
) -> Report:
    """Compare objectives and lower bounds of a trainer with the optima of small problems.

    Parameters
    ----------
    trainer : str, callable or Trainer
        Name of a trainer, or a function ``trainer(risk, *, lam, ...)``.
    problems : sequence of str or callable, optional
        Names of `TRAINER_PROBLEMS`, or functions that make a risk. By default all of `TRAINER_PROBLEMS` that the
        trainer accepts. It is a failure if the trainer rejects a problem that is named here.
    converges : bool
        Whether every run must reach `tol`. False for stochastic trainers.
    lam : float
        Weight of the regulariser.
    tol : float
        Relative gap at which the runs stop.
    skip : iterable of str
        Names of checks (keys of `TRAINER_CHECKS`) to leave out.
    random_state : int
        Seed of the trainer.

    Returns
    -------
    Report
        Its subject names the problems. The laws of optional parameters (`callback`, `checkpoint`, `w0`, limits) are
        skipped if the trainer does not have them.

    Raises
    ------
    DeclarationError
        If the trainer accepts no problem, or the optimum of a problem cannot be computed.

    Examples
    --------
    >>> import structopt as so
    >>> so.testing.check_trainer("lbfgs")
    <Report on lbfgs (squared hinge, logistic): 10 passed, 0 failed, 0 skipped>
    """
    lam, chosen = check_lam(lam), get(trainer)
    check_tol(tol)
    given: list[_Problem] = []
    for item in TRAINER_PROBLEMS if problems is None else problems:
        if not isinstance(item, str):
            name = repr(item())
            again = sum(problem.name.startswith(name) for problem in given)  # runs are kept by name
            given.append(_Problem(f"{name} {again + 1}" if again else name, item, L2(), lam))
        elif item in TRAINER_PROBLEMS:
            given.append(_built_in(item, lam))
        else:
            raise DeclarationError(f"There is no problem {item!r}; there are {', '.join(TRAINER_PROBLEMS)}.")
    case = _Case(chosen, given, converges, tol, random_state)
    if problems is None:
        case.problems = [problem for problem in given if case.accepts(problem)]
    if not case.problems:
        raise DeclarationError(f"{chosen.name} accepts none of {', '.join(TRAINER_PROBLEMS)}; give problems=.")
    subject = f"{chosen.name} ({', '.join(problem.name for problem in case.problems)})"
    return run_checks(subject, TRAINER_CHECKS, case, skip)

"""The conformance suite of solver backends.

Each ``check_*`` function states one property in its docstring and asserts it; `check_backend` runs all of
them. A new backend conforms when ``check_backend(MyBackend).ok``.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.backends.arrays import breaks_rows
from structopt.backends.base import Backend, Capability, Solution, Status
from structopt.backends.profiles import Profile, load_profile, make_backend
from structopt.backends.registry import backend_class
from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.space.compiled import FEASIBILITY_TOLERANCE, VALUE_TOLERANCE, CompiledSpace, FloatArray
from structopt.testing import instances
from structopt.testing.report import Outcome, Report

__all__ = ["BACKEND_CHECKS", "Subject", "check_backend"]


@dataclass(frozen=True)
class Subject:
    """The backend under test: how to load a space into it, and the accuracy that it declares."""

    solver: Profile | type[Backend]
    capabilities: Capability
    feasibility: float = FEASIBILITY_TOLERANCE
    value: float = VALUE_TOLERANCE
    options: dict[str, Any] = field(default_factory=dict)

    def load(self, space: CompiledSpace, **options: Any) -> Backend:
        """A fresh backend with `space` loaded."""
        return make_backend(self.solver, space, **{**self.options, **options})

    def solve(self, space: CompiledSpace, costs: FloatArray) -> Solution:
        """Load a space, set the objective coefficients, run."""
        backend = self.load(space)
        backend.set_costs(np.asarray(costs, dtype=np.float64))
        return backend.run()

    def expect(self, found: Solution, space: CompiledSpace, costs: FloatArray, optimum: float) -> None:
        """Assert that `found` is an optimal label of `space` with value `optimum` and a valid bound."""
        assert found.status is Status.OPTIMAL, f"status {found.status.value!r} ({found.message}), not optimal"
        assert found.z is not None, "status optimal without a point"
        assert found.z.shape == (space.n_variables,), f"a point of shape {found.z.shape}"
        assert not breaks_rows(space, found.z, self.feasibility), "the point breaks a row or a bound"
        fraction = np.abs(found.z - np.rint(found.z))[space.integrality].max(initial=0.0)
        assert fraction <= self.feasibility, f"an integer variable is {fraction:.2g} away from an integer"
        value = float(costs @ found.z)
        # Relative to the sizes of the terms: cancellation is not an error of the solver.
        slack = self.value * max(1e-300, abs(optimum), float(np.abs(costs) @ np.abs(found.z)))
        assert abs(value - optimum) <= slack, f"value {value:.12g}, but the optimum is {optimum:.12g}"
        assert found.bound >= optimum - slack, f"bound {found.bound:.12g} is below the optimum {optimum:.12g}"


Check = Callable[[Subject], None]
#: Every check by name, in the order in which they run.
BACKEND_CHECKS: dict[str, Check] = {}
_NEEDS: dict[str, Capability] = {}


def _law(needs: Capability) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        name = check.__name__.removeprefix("check_")
        BACKEND_CHECKS[name] = check
        _NEEDS[name] = needs
        return check

    return register


@checked
def check_backend(
    backend_or_profile: str | os.PathLike[str] | Profile | type[Backend],
    *,
    skip: Iterable[str] = (),
    verbose: bool = False,
) -> Report:
    """Check every property of a backend that structopt relies on.

    Parameters
    ----------
    backend_or_profile : str, path, Profile or subclass of Backend
        What ``Oracle(solver=...)`` takes.
    skip : iterable of str
        Names of checks (keys of `BACKEND_CHECKS`) to leave out.
    verbose : bool
        Print each outcome as it comes.

    Returns
    -------
    Report
        Checks of capabilities that the backend does not declare are skipped, with that reason.

    Examples
    --------
    >>> from structopt.testing import check_backend
    >>> check_backend("highs", skip=["time_limit", "many_rows"])
    <Report on highs: 16 passed, 0 failed, 3 skipped>
      skipped time_limit: ... left out by the caller
      skipped many_rows: ... left out by the caller
      skipped lazy_rows: ... the backend does not declare LAZY_ROWS
    """
    subject, title = _subject(backend_or_profile)
    left_out = set(skip)
    unknown = sorted(left_out - set(BACKEND_CHECKS))
    if unknown:
        raise DeclarationError(f"There is no check {unknown[0]!r}; there are {', '.join(BACKEND_CHECKS)}.")
    outcomes = []
    for name in BACKEND_CHECKS:
        outcomes.append(_outcome(name, subject, name in left_out))
        if verbose:
            print(f"{outcomes[-1].result:7} {name} {outcomes[-1].reason}".rstrip())
    return Report(title, tuple(outcomes))


def _subject(solver: str | os.PathLike[str] | Profile | type[Backend]) -> tuple[Subject, str]:
    if isinstance(solver, type):
        if not issubclass(solver, Backend):
            raise DeclarationError(f"{solver.__name__} is not a subclass of structopt.backends.Backend.")
        return Subject(solver, solver.capabilities), solver.__name__
    profile = solver if isinstance(solver, Profile) else load_profile(solver)
    tolerances = profile.tolerances
    capabilities = backend_class(profile.backend).capabilities
    return Subject(profile, capabilities, tolerances["feasibility"], tolerances["value"]), profile.name


def _outcome(name: str, subject: Subject, left_out: bool) -> Outcome:
    check = BACKEND_CHECKS[name]
    law = (check.__doc__ or "").strip().splitlines()[0]
    if left_out:
        return Outcome(name, law, "skipped", "left out by the caller")
    missing = _NEEDS[name] & ~subject.capabilities
    if missing:
        return Outcome(name, law, "skipped", f"the backend does not declare {missing.name}")
    begin = time.perf_counter()
    try:
        check(subject)
    except Exception as error:  # whatever the backend under test raises is a finding
        text = str(error) or type(error).__name__
        reason = text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
        return Outcome(name, law, "failed", reason, time.perf_counter() - begin)
    return Outcome(name, law, "passed", "", time.perf_counter() - begin)


@_law(Capability.LP)
def check_optimal_lp(subject: Subject) -> None:
    """An LP is solved to its optimum, with a feasible point and a bound that holds."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        weights, costs = rng.uniform(1, 2, 12), rng.normal(size=12)
        space = instances.knapsack(weights, 4.5)
        optimum = instances.knapsack_optimum(weights, 4.5, costs)
        subject.expect(subject.solve(space, costs), space, costs, optimum)


@_law(Capability.MIP)
def check_optimal_mip(subject: Subject) -> None:
    """A MIP is solved to its optimum, not to its relaxation's, with integer values."""
    rng = np.random.default_rng(1)
    for upper in (1, 1, 3):
        weights = rng.integers(1, 9, (2, 5)).astype(np.float64)
        costs = rng.normal(1.0, 1.0, 5)
        space = instances.space_of(weights, 2.5, weights.sum(axis=1) * upper / 2 + 0.5, 0, upper, True)
        subject.expect(subject.solve(space, costs), space, costs, instances.brute_force(space, costs))


@_law(Capability.LP | Capability.MIP)
def check_mixed(subject: Subject) -> None:
    """Integer and continuous variables are handled in one space."""
    # max u + v with u integer, v continuous, 2 u + v <= 4.5, v <= 1: u = 1, v = 1 or u = 2, v = 0.5.
    space = instances.space_of([[2.0, 1.0]], -np.inf, 4.5, 0.0, [5.0, 1.0], [True, False])
    costs = np.array([1.0, 1.0])
    subject.expect(subject.solve(space, costs), space, costs, 2.5)
    # max z with x + z = one, y + z = one, x binary and one fixed at 1: presolve of HiGHS as it is answers 0.
    rows = [[-1.0, 1.0, 0.0, -1.0], [0.0, -1.0, 1.0, 1.0]]
    space = instances.space_of(rows, 0.0, 0.0, [0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 2.0, 2.0], [True, False, False, False])
    costs = np.array([0.0, 0.0, 0.0, 1.0])
    subject.expect(subject.solve(space, costs), space, costs, 1.0)


@_law(Capability.LP)
def check_infeasible(subject: Subject) -> None:
    """An empty space is reported as infeasible, without a point, even if its rows have a recession direction."""
    contradiction = instances.space_of([[1.0, 1.0]], 3.0, np.inf, 0.0, 1.0)
    with_ray = instances.space_of([[1.0, -1.0], [1.0, -1.0]], [-np.inf, 2.0], [1.0, np.inf], 0.0, np.inf)
    spaces = [contradiction, with_ray]
    if Capability.MIP in subject.capabilities:
        spaces.append(instances.space_of([[2.0, 2.0]], 1.0, 1.0, 0.0, 1.0, True))  # LP feasible
    for space in spaces:
        found = subject.solve(space, np.array([1.0, 1.0]))
        assert found.status is Status.INFEASIBLE, f"{found.status.value!r} ({found.message}) on {space!r}"
        assert found.z is None, "an infeasible space came with a point"


@_law(Capability.LP)
def check_unbounded(subject: Subject) -> None:
    """An objective without limit is reported as unbounded; a ray, if given, proves it."""
    kinds = (False, True) if Capability.MIP in subject.capabilities else (False,)
    for integer in kinds:
        space = instances.space_of([[1.0, -1.0, 1.0]], -np.inf, 1.0, 0.0, [np.inf, np.inf, 1.0], integer)
        costs = np.array([1.0, 1.0, 1.0])
        backend = subject.load(space)
        backend.set_costs(costs)
        found = backend.run()
        assert found.status is Status.UNBOUNDED, f"{found.status.value!r} ({found.message})"
        ray = backend.ray()
        if ray is None:
            continue
        assert costs @ ray > 0, "the objective does not grow along the ray"
        assert (space.matrix @ ray <= subject.feasibility).all(), "the ray leaves a row"
        moving = {space.variable_names[j] for j in np.flatnonzero(np.abs(ray) > subject.feasibility).tolist()}
        assert "z[1]" in moving, f"the ray moves {moving}, but only z[1] can pull the others along"
        assert "z[2]" not in moving, "the ray moves a bounded variable"
        backend.set_costs(-costs)
        subject.expect(backend.run(), space, -costs, 0.0)


@_law(Capability.MIP | Capability.TIME_LIMIT)
def check_time_limit(subject: Subject) -> None:
    """A time limit ends the run in time, with the incumbent and a bound above it."""
    space, costs = instances.hard_knapsack()
    backend = subject.load(space, time_limit=1)
    backend.set_costs(costs)
    begin = time.perf_counter()
    found = backend.run()
    seconds = time.perf_counter() - begin
    assert seconds < 10, f"a limit of 1 s took {seconds:.1f} s"
    assert found.status in (Status.TIME_LIMIT, Status.OPTIMAL), f"{found.status.value!r} ({found.message})"
    assert found.z is not None, "no incumbent, though z = 0 is a label and easy to find"
    assert not breaks_rows(space, found.z, subject.feasibility), "the incumbent breaks a row"
    fraction = np.abs(found.z - np.rint(found.z)).max()
    assert fraction <= subject.feasibility, "the incumbent is fractional"
    # A dual bound of the LP: no label is worth more, so an "optimal" claim must stay below the bound.
    assert found.bound >= float(costs @ found.z), "the bound is below the incumbent"


@_law(Capability.LP | Capability.ROWS)
def check_extra_rows(subject: Subject) -> None:
    """Extra rows bind, accumulate, may be equalities or ranges, and are removed completely."""
    space = instances.space_of([[1.0, 1.0, 1.0]], -np.inf, 2.0, 0.0, 1.0)
    costs = np.array([3.0, 2.0, 1.0])
    backend = subject.load(space)
    backend.set_costs(costs)
    subject.expect(backend.run(), space, costs, 5.0)
    no_first = sp.csr_array(np.array([[1.0, 0.0, 0.0]]))
    for _ in range(2):
        backend.add_rows(no_first, np.array([-np.inf]), np.array([0.25]))
        subject.expect(backend.run(), space, costs, 0.75 + 2.0 + 0.75)
        both = sp.csr_array(np.array([[0.0, 1.0, 1.0], [0.0, 1.0, -1.0]]))
        backend.add_rows(both, np.array([0.5, 0.25]), np.array([1.0, 0.25]))  # a range and an equality
        subject.expect(backend.run(), space, costs, 0.75 + 2 * 0.625 + 0.375)
        backend.set_costs(-costs)  # the lower sides bind
        subject.expect(backend.run(), space, -costs, -(2 * 0.375 + 0.125))
        backend.set_costs(costs)
        backend.remove_rows()
        subject.expect(backend.run(), space, costs, 5.0)
    backend.add_rows(no_first, np.array([2.0]), np.array([np.inf]))
    status = backend.run().status
    assert status is Status.INFEASIBLE, f"a row that no point satisfies: {status.value!r}"
    backend.remove_rows()
    backend.remove_rows()  # nothing to remove is no error
    subject.expect(backend.run(), space, costs, 5.0)


@_law(Capability.LP)
def check_resolve(subject: Subject) -> None:
    """A re-solve with other objective coefficients, warm or not, has the value of a cold solve."""
    rng = np.random.default_rng(2)
    space = instances.pairwise(6)
    warm = subject.load(space)
    costs = rng.normal(size=space.n_variables)
    extra = sp.csr_array(np.ones((1, space.n_variables)))
    for trial in range(24):
        # Small changes, unrelated objectives, and small integers, whose ties can make a simplex method stop early.
        if trial % 3 == 0:
            costs = costs + 0.1 * rng.normal(size=space.n_variables)
        elif trial % 3 == 1:
            costs = rng.normal(size=space.n_variables)
        else:
            costs = rng.integers(-2, 3, space.n_variables).astype(np.float64)
        warm.set_costs(costs)
        if trial % 4 == 3 and Capability.ROWS in subject.capabilities:
            warm.add_rows(extra, np.array([-np.inf]), np.array([0.5]))
            warm.run()
            warm.remove_rows()
        cold = subject.solve(space, costs)
        assert cold.z is not None, f"cold: {cold.status.value!r} ({cold.message})"
        subject.expect(warm.run(), space, costs, float(costs @ cold.z))


@_law(Capability.LP)
def check_ties(subject: Subject) -> None:
    """Degenerate vertices, repeated rows and tied or zero objective coefficients still end at an optimum."""
    ordered = np.repeat(np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 1.0, 1.0]]), 4, axis=0)
    space = instances.space_of(ordered, -np.inf, np.repeat([0.0, 0.0, 1.5], 4), 0.0, 1.0)
    for costs, optimum in (([1.0, 1.0, 1.0], 1.5), ([0.0, 0.0, 0.0], 0.0), ([1.0, -1.0, 0.0], 0.0)):
        subject.expect(subject.solve(space, np.array(costs)), space, np.array(costs), optimum)


@_law(Capability.LP)
def check_free_variables(subject: Subject) -> None:
    """Free, negative and fixed variables keep their bounds; no hidden ``z >= 0``."""
    lower = [-np.inf, -np.inf, -3.0, 2.0]
    upper = [np.inf, -1.0, 5.0, 2.0]
    space = instances.space_of([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0]], [-4.0, -7.0], [4.0, -1.0], lower, upper)
    # -z[0]: z[0] >= -7 - 2 - z[2] at z[2] = 5 gives -14, and z[1] <= -1 needs z[0] >= -3: so -3 is best.
    costs = np.array([-1.0, 0.0, 0.0, 0.0])
    subject.expect(subject.solve(space, costs), space, costs, 3.0)
    costs = np.array([0.0, -1.0, 0.0, 0.0])  # z[1] >= -4 - z[0], z[0] <= -1 - 2 + 3 = 0
    subject.expect(subject.solve(space, costs), space, costs, 4.0)


@_law(Capability.LP)
def check_empty_space(subject: Subject) -> None:
    """No variables, no rows, and rows without coefficients are answered, not refused."""
    nothing = instances.space_of(sp.csr_array((0, 0)), 0.0, 0.0, 0.0, 0.0)
    subject.expect(subject.solve(nothing, np.zeros(0)), nothing, np.zeros(0), 0.0)
    blank = instances.space_of(sp.csr_array((2, 0)), [-1.0, 0.0], [0.0, 1.0], 0.0, 0.0)
    subject.expect(subject.solve(blank, np.zeros(0)), blank, np.zeros(0), 0.0)
    false = instances.space_of(sp.csr_array((1, 0)), 1.0, 2.0, 0.0, 0.0)
    status = subject.solve(false, np.zeros(0)).status
    assert status is Status.INFEASIBLE, f"the row 1 <= 0 <= 2 over no variables: {status.value!r}"
    box = instances.space_of(sp.csr_array((0, 3)), 0.0, 0.0, -1.0, 2.0)
    costs = np.array([1.0, -1.0, 0.0])
    subject.expect(subject.solve(box, costs), box, costs, 3.0)
    idle = instances.space_of([[0.0, 0.0], [1.0, 1.0]], [-1.0, -np.inf], [1.0, 1.5], 0.0, 1.0)
    subject.expect(subject.solve(idle, np.ones(2)), idle, np.ones(2), 1.5)
    false = instances.space_of([[0.0, 0.0], [1.0, 1.0]], [1.0, -np.inf], [2.0, 1.5], 0.0, 1.0)
    status = subject.solve(false, np.ones(2)).status
    assert status is Status.INFEASIBLE, f"the row 1 <= 0 <= 2: {status.value!r}"


@_law(Capability.LP)
def check_many_rows(subject: Subject) -> None:
    """A space of 100,000 rows is built and solved."""
    space, weights, capacity = instances.crowded_knapsack()
    assert space.n_rows > 100_000
    costs = np.random.default_rng(6).normal(size=space.n_variables)
    optimum = instances.knapsack_optimum(weights, capacity, costs)
    subject.expect(subject.solve(space, costs), space, costs, optimum)


@_law(Capability.LP)
def check_small_costs(subject: Subject) -> None:
    """Tolerances on objective coefficients are relative: scaling all of them scales the value only."""
    rng = np.random.default_rng(4)
    weights, costs = rng.integers(1, 9, 8).astype(np.float64), rng.uniform(0.5, 1.0, 8)
    integer = Capability.MIP in subject.capabilities
    space = instances.knapsack(weights, float(weights.sum() // 2), integer)
    if integer:
        optimum = instances.brute_force(space, costs)
    else:
        optimum = instances.knapsack_optimum(weights, float(weights.sum() // 2), costs)
    for factor in (1e-9, 1e-3, 1e3):
        subject.expect(subject.solve(space, factor * costs), space, factor * costs, factor * optimum)


@_law(Capability.LP)
def check_costs_are_taken(subject: Subject) -> None:
    """`set_costs` copies its array: the caller may overwrite it before the run."""
    space = instances.space_of([[1.0, 1.0]], -np.inf, 1.0, 0.0, 1.0)
    costs = np.array([1.0, 2.0])
    backend = subject.load(space)
    backend.set_costs(costs)
    costs[:] = (5.0, 0.0)
    subject.expect(backend.run(), space, np.array([1.0, 2.0]), 2.0)


@_law(Capability.LP)
def check_bad_costs(subject: Subject) -> None:
    """Objective coefficients that are NaN, infinite or of a wrong shape raise a ValueError and change nothing."""
    space = instances.space_of([[1.0, 1.0]], -np.inf, 1.0, 0.0, 1.0)
    backend = subject.load(space)
    good = np.array([1.0, 2.0])
    backend.set_costs(good)
    for bad in ([np.nan, 0.0], [0.0, np.inf], [-np.inf, np.inf], [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]):
        try:
            backend.set_costs(np.array(bad))
        except ValueError:
            pass
        else:
            raise AssertionError(f"objective coefficients {bad} were accepted")
    subject.expect(backend.run(), space, good, 2.0)


@_law(Capability.LP)
def check_pickling(subject: Subject) -> None:
    """A backend pickles as its space and options, and the unpickled one can solve."""
    space = instances.space_of([[1.0, 1.0]], -np.inf, 1.0, 0.0, 1.0)
    backend = subject.load(space)
    backend.set_costs(np.array([1.0, 2.0]))
    backend.run()
    copy = pickle.loads(pickle.dumps(backend))
    assert copy.options == backend.options, f"options {backend.options} came back as {copy.options}"
    assert copy.space.fingerprint == space.fingerprint, "another space came back"
    for costs, optimum in (([3.0, 1.0], 3.0), ([-1.0, -1.0], 0.0)):
        copy.set_costs(np.array(costs))
        subject.expect(copy.run(), space, np.array(costs), optimum)


@_law(Capability.MIP | Capability.MIP_START)
def check_mip_start(subject: Subject) -> None:
    """A start changes neither the optimum nor the validity of the answer, whether it is optimal, poor or infeasible."""
    space, costs = instances.hard_knapsack(n=14, rows=3)
    optimum = instances.brute_force(space, costs)
    backend = subject.load(space)
    backend.set_costs(costs)
    best = backend.run().z
    for start in (best, np.zeros(space.n_variables), np.ones(space.n_variables)):
        backend = subject.load(space)
        backend.set_costs(costs)
        subject.expect(backend.run(start), space, costs, optimum)


@_law(Capability.LP | Capability.THREADS)
def check_threads(subject: Subject) -> None:
    """Two backends in two threads answer as one after the other."""
    space = instances.pairwise(5)
    rng = np.random.default_rng(5)
    batches = rng.normal(size=(2, 6, space.n_variables))
    serial = [[subject.solve(space, costs) for costs in batch] for batch in batches]
    threaded: list[list[Solution]] = [[], []]

    def work(k: int) -> None:
        backend = subject.load(space)
        for costs in batches[k]:
            backend.set_costs(costs)
            threaded[k].append(backend.run())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, batch in enumerate(batches):
        assert len(threaded[k]) == len(batch), "a thread died"
        for costs, alone, found in zip(batch, serial[k], threaded[k], strict=True):
            assert alone.z is not None, f"{alone.status.value!r} ({alone.message})"
            subject.expect(found, space, costs, float(costs @ alone.z))


@_law(Capability.MIP | Capability.ROWS | Capability.LAZY_ROWS)
def check_lazy_rows(subject: Subject) -> None:
    """Rows found during the search bind in that run only, whatever is raised there ends it, and so does their limit."""
    rng = np.random.default_rng(7)
    n = 8
    space = instances.space_of(np.ones((1, n)), -np.inf, 6.0, 0.0, 1.0, True)
    matrix = rng.integers(-1, 4, (12, n)).astype(np.float64)
    upper = np.maximum(matrix.sum(axis=1) - 4.0, 1.0)
    listed = instances.space_of(np.vstack([np.ones(n), matrix]), -np.inf, np.r_[6.0, upper], 0.0, 1.0, True)

    def separate(z: FloatArray) -> tuple[sp.csr_array, FloatArray, FloatArray] | None:
        worst = int(np.argmax(matrix @ z - upper))
        if matrix[worst] @ z <= upper[worst] + 1e-6:
            return None
        return sp.csr_array(matrix[[worst]]), np.array([-np.inf]), upper[[worst]]

    backend = subject.load(space)
    start = np.zeros(n)
    for costs in rng.normal(0.5, 1.0, (6, n)):
        backend.set_costs(costs)
        subject.expect(backend.run_lazily(separate, start), listed, costs, instances.brute_force(listed, costs))
        subject.expect(backend.run(), space, costs, instances.brute_force(space, costs))
    no_first = sp.csr_array(np.eye(n)[:1])
    backend.add_rows(no_first, np.array([-np.inf]), np.array([0.0]))
    backend.set_costs(np.ones(n))
    found = backend.run_lazily(separate)
    assert found.z is not None and found.z[0] <= subject.feasibility, "an extra row is not in the lazy run"
    assert separate(found.z) is None, "the answer breaks a lazy row"
    backend.remove_rows()

    def failing(z: FloatArray) -> None:
        raise ZeroDivisionError("in the separation")

    try:
        backend.run_lazily(failing)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("an exception of the separation was lost")
    backend.set_costs(np.ones(n))
    optimum = instances.brute_force(listed, np.ones(n))
    found = backend.run_lazily(separate, max_rounds=1)
    assert found.bound >= optimum - 1e-6, f"bound {found.bound:.12g} is below the optimum {optimum:.12g}"
    assert found.status is Status.TIME_LIMIT or found.z is not None, f"{found.status.value!r} ({found.message})"
    subject.expect(backend.run_lazily(separate), listed, np.ones(n), optimum)

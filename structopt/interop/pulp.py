"""Conversion of PuLP problems to label spaces and back.

PuLP has one-sided rows and equalities only, and replaces ``- + [ ] > /`` and spaces in names by ``_``. So
that nothing is lost, `to_pulp` writes

- a double-bounded row ``r`` as two constraints, ``r`` (>=) and ``r__upper`` (<=), which `read_pulp` joins
  again (also in a problem that a user wrote in this form);
- a free row as ``>= -1e30``, which PuLP's solvers and `read_pulp` treat as no bound;
- the arrays of variables, in ``problem.structopt_blocks``;
- the original names, in the order of the space, in the dictionaries ``problem.structopt_variables`` and
  ``problem.structopt_rows``, from PuLP's name to the original one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.errors import UnsupportedModel
from structopt.interop.matrices import assemble
from structopt.interop.names import Block, natural_key, pulp_blocks_of, refuse_duplicates, stand_ins
from structopt.space.compiled import CompiledSpace
from structopt.space.objective import LinearObjective

__all__ = ["add_rows", "pulp_blocks", "read_pulp", "read_pulp_objective", "to_pulp"]

#: Ends the name of the constraint that holds the upper side of a double-bounded row.
UPPER = "__upper"
#: The infinity of the COIN-OR solvers that PuLP ships.
INFINITE = 1e30

_ILLEGAL = str.maketrans("-+[] >/", "_______")


def read_pulp(problem: Any) -> CompiledSpace:
    """Read the variables and constraints of a ``pulp.LpProblem``; its objective is ignored.

    PuLP does not remember in which order variables were made. Those of a problem from `to_pulp` keep
    the order of the space; all others follow in natural order of their names (``y_2`` before ``y_10``).

    Examples
    --------
    >>> import pulp
    >>> problem = pulp.LpProblem("pair")
    >>> y = [pulp.LpVariable(f"y_{i}", cat="Binary") for i in range(2)]
    >>> problem += y[0] <= y[1], "order"
    >>> space = read_pulp(problem)
    >>> space.variable_names, space.row_names, space.matrix.toarray().tolist()
    (('y_0', 'y_1'), ('order',), [[1.0, -1.0]])
    """
    _refuse_unreadable(problem)
    variables, names = _variables(problem)
    column = {id(variable): j for j, variable in enumerate(variables)}
    lower, upper, integrality = zip(*map(_domain, variables), strict=True) if variables else ((), (), ())
    original: dict[str, str] = getattr(problem, "structopt_rows", {})
    row_names: list[str] = []
    row_lower: list[float] = []
    row_upper: list[float] = []
    rows: list[int] = []
    columns: list[int] = []
    data: list[float] = []
    previous = ("", None)
    for name, constraint in _constraints(problem):
        low, high = _row_bounds(name, constraint)
        if _is_upper_side(previous, name, constraint):
            row_upper[-1] = high
        else:
            for variable, value in constraint.items():
                rows.append(len(row_names))
                columns.append(column[id(variable)])
                data.append(float(value))
            row_names.append(original.get(name, name))
            row_lower.append(low)
            row_upper.append(high)
        previous = (name, constraint)
    matrix = sp.coo_array((data, (rows, columns)), shape=(len(row_names), len(variables)))
    title = problem.name if problem.name not in (None, "NoName") else ""
    title = getattr(problem, "structopt_name", title)
    return assemble(matrix, (row_lower, row_upper), (lower, upper), integrality, names, row_names, title)


def read_pulp_objective(problem: Any, compiled: CompiledSpace) -> LinearObjective | None:
    """The objective of a PuLP problem over the variables of `compiled`, or None.

    Examples
    --------
    >>> import pulp
    >>> problem = pulp.LpProblem("pair", pulp.LpMaximize)
    >>> y = [pulp.LpVariable(f"y_{i}", cat="Binary") for i in range(2)]
    >>> problem += 2 * y[1] + y[0] + 1
    >>> read_pulp_objective(problem, read_pulp(problem))
    LinearObjective(coef=array([1., 2.]), constant=1.0, sense='maximize')
    """
    import pulp

    objective = problem.objective
    if objective is None or (not any(objective.values()) and not objective.constant):
        return None
    original: dict[str, str] = getattr(problem, "structopt_variables", {})
    place = {name: j for j, name in enumerate(compiled.variable_names)}
    coef = np.zeros(compiled.n_variables)
    for variable, value in objective.items():
        name = original.get(variable.name, variable.name)
        if name not in place:
            raise UnsupportedModel(
                f"the objective uses variable {name!r}, which is not in the space; read both from one problem."
            )
        coef[place[name]] += value
    sense = problem.sense == pulp.LpMaximize
    return LinearObjective(coef, float(objective.constant), "maximize" if sense else "minimize")


def pulp_blocks(problem: Any, names: Sequence[str]) -> list[Block]:
    """The arrays among the variables of a problem: those of the space that it was written from, then `pulp_blocks_of`.

    Parameters
    ----------
    problem : pulp.LpProblem
    names : sequence of str
        Its variables, as `read_pulp` names and orders them.

    Examples
    --------
    >>> import pulp
    >>> problem = pulp.LpProblem("tags")
    >>> tag = pulp.LpVariable.dicts("tag", range(10), cat="Binary")
    >>> problem += pulp.lpSum(tag.values()) == 1, "one"
    >>> [(name, shape) for name, shape, _ in pulp_blocks(problem, read_pulp(problem).variable_names)]
    [('tag', (10,))]
    """
    known: list[Block] = list(getattr(problem, "structopt_blocks", ()))
    own = [name for _, _, elements in known for name in elements or ()]
    if own != list(names[: len(own)]):  # a variable was renamed or taken away
        known, own = [], []
    taken = {name for name, _, _ in known}
    found = pulp_blocks_of(names[len(own) :])
    apart = [block if block[0] not in taken else None for block in found]
    if None in apart:
        found = [(name, (), None) for name in names[len(own) :]]
    return [*known, *found]


def _refuse_unreadable(problem: Any) -> None:
    if not hasattr(problem, "constraints") or not hasattr(problem, "variables"):
        raise TypeError(f"read_pulp needs a pulp.LpProblem, got {type(problem).__name__}.")
    for kind in ("sos1", "sos2"):
        for name in getattr(problem, kind, None) or {}:
            raise UnsupportedModel(
                f"{kind.upper()} set {name!r} cannot be expressed by linear rows; write it with binary variables."
            )


def _variables(problem: Any) -> tuple[list[Any], list[str]]:
    """Variables in the order of the space, and their original names."""
    original: dict[str, str] = getattr(problem, "structopt_variables", {})
    order = {name: k for k, name in enumerate(original)}
    found = [variable for variable in problem.variables() if variable is not problem.dummyVar]
    found.sort(key=lambda variable: (order.get(variable.name, len(order)), natural_key(variable.name)))
    names = [original.get(variable.name, variable.name) for variable in found]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise UnsupportedModel(
            f"two variables of the problem are both called {repeated!r} (PuLP replaces -, +, [, ], /, > and "
            "spaces by _); give them different names."
        )
    return found, names


def _domain(variable: Any) -> tuple[float, float, bool]:
    """Lower bound, upper bound and integrality of one variable."""
    import pulp

    if variable.cat not in (pulp.LpContinuous, pulp.LpInteger, pulp.LpBinary):
        raise UnsupportedModel(
            f"variable {variable.name!r} has category {variable.cat!r}; use Continuous, Integer or Binary."
        )
    binary = variable.cat == pulp.LpBinary
    lower = -np.inf if variable.lowBound is None else float(variable.lowBound)
    upper = np.inf if variable.upBound is None else float(variable.upBound)
    # LpVariable turns Binary into Integer in [0, 1]; a category assigned later has no bounds yet.
    return max(lower, 0.0) if binary else lower, min(upper, 1.0) if binary else upper, variable.cat != "Continuous"


def _constraints(problem: Any) -> list[tuple[str, Any]]:
    """Names and constraints, in the order in which they were added."""
    constraints = problem.constraints
    with _quiet():
        if hasattr(constraints, "items"):
            return list(constraints.items())
        # PuLP 4 has a method that returns a list.
        return [(constraint.name, constraint) for constraint in constraints()]


def _row_bounds(name: str, constraint: Any) -> tuple[float, float]:
    import pulp

    bound = -float(constraint.constant)
    if constraint.sense == pulp.LpConstraintEQ:
        return bound, bound
    if constraint.sense == pulp.LpConstraintGE:
        return -np.inf if bound <= -INFINITE else bound, np.inf
    if constraint.sense == pulp.LpConstraintLE:
        return -np.inf, np.inf if bound >= INFINITE else bound
    raise UnsupportedModel(f"constraint {name!r} has no sense; compare it with <=, >= or ==.")


def _is_upper_side(previous: tuple[str, Any], name: str, constraint: Any) -> bool:
    """Whether this constraint and the one before are the two sides of a row that `to_pulp` split."""
    import pulp

    name_before, before = previous
    return (
        before is not None
        and name == name_before + UPPER
        and before.sense == pulp.LpConstraintGE
        and constraint.sense == pulp.LpConstraintLE
        and {v.name: value for v, value in before.items()} == {v.name: value for v, value in constraint.items()}
    )


def to_pulp(compiled: CompiledSpace, blocks: Sequence[Block] = (), objective: LinearObjective | None = None) -> Any:
    """Write a space as a ``pulp.LpProblem``; by default its objective is zero on every variable.

    Set another objective with ``problem.setObjective(expression)``. See the module for the conventions
    that keep double-bounded rows and names. `blocks` are the arrays of the space, each with the names of its elements.

    Examples
    --------
    >>> import pulp
    >>> problem = pulp.LpProblem("pair")
    >>> y = [pulp.LpVariable(f"y_{i}", cat="Binary") for i in range(2)]
    >>> problem += y[0] <= y[1], "order"
    >>> space = read_pulp(problem)
    >>> read_pulp(to_pulp(space)).fingerprint == space.fingerprint
    True
    """
    import pulp

    refuse_duplicates("variable", compiled.variable_names)
    refuse_duplicates("row", compiled.row_names)
    compiled.refuse_lazy_rows("A PuLP problem")
    maximize = objective is not None and objective.sense == "maximize"
    problem = pulp.LpProblem(_plain(compiled.name) or "NoName", pulp.LpMaximize if maximize else pulp.LpMinimize)
    problem.structopt_name = compiled.name
    names = stand_ins(compiled.variable_names, _is_legal, _plain, "x")
    problem.structopt_blocks = list(blocks)
    problem.structopt_variables = dict(zip(names, compiled.variable_names, strict=True))
    with _quiet():
        variables = _declare(problem, compiled, names)
    # Zero coefficients make unused variables known to PuLP's solvers.
    coef = np.zeros(len(variables)) if objective is None else objective.coef
    terms = dict(zip(variables, coef.tolist(), strict=True))
    problem.setObjective(pulp.LpAffineExpression(terms, constant=0.0 if objective is None else objective.constant))
    add_rows(problem, compiled, variables)
    return problem


def _declare(problem: Any, compiled: CompiledSpace, names: Sequence[str]) -> list[Any]:
    import pulp

    make = getattr(problem, "add_variable", pulp.LpVariable)  # PuLP < 3.3 has only the constructor
    variables = [
        make(
            name,
            None if np.isinf(lower) else lower,
            None if np.isinf(upper) else upper,
            pulp.LpInteger if integer else pulp.LpContinuous,
        )
        for name, lower, upper, integer in zip(
            names, compiled.lower.tolist(), compiled.upper.tolist(), compiled.integrality.tolist(), strict=True
        )
    ]
    if hasattr(problem, "addVariables"):  # up to PuLP 3, variables belong to no problem at first
        problem.addVariables(variables)
    return variables


def add_rows(problem: Any, compiled: CompiledSpace, variables: Sequence[Any]) -> None:
    """Add the rows of `compiled`, over `variables` in its order, to a problem."""
    import pulp

    matrix = compiled.matrix
    data, indices, indptr = matrix.data.tolist(), matrix.indices.tolist(), matrix.indptr.tolist()
    names = stand_ins(compiled.row_names, _is_legal_row, _plain, "r")
    problem.structopt_rows = dict(zip(names, compiled.row_names, strict=True))
    bounds = zip(compiled.row_lower.tolist(), compiled.row_upper.tolist(), strict=True)
    for i, (name, (low, high)) in enumerate(zip(names, bounds, strict=True)):
        part = slice(indptr[i], indptr[i + 1])
        terms = {variables[j]: value for j, value in zip(indices[part], data[part], strict=True)}
        if low == high:
            sides = [(name, pulp.LpConstraintEQ, low)]
        else:
            sides = [(name, pulp.LpConstraintGE, low)] if np.isfinite(low) else []
            if np.isfinite(high):
                sides.append((name + UPPER if sides else name, pulp.LpConstraintLE, high))
        for label, sense, bound in sides or [(name, pulp.LpConstraintGE, -INFINITE)]:
            expression = pulp.LpAffineExpression(terms)
            problem.addConstraint(pulp.LpConstraint(expression, sense, label, bound))


def _plain(name: str) -> str:
    return name.translate(_ILLEGAL)


def _is_legal(name: str) -> bool:
    # PuLP calls the variable of a problem without objective __dummy.
    return name != "" and name != "__dummy" and name == _plain(name)


def _is_legal_row(name: str) -> bool:
    return _is_legal(name) and not name.endswith(UPPER)


@contextmanager
def _quiet() -> Iterator[None]:
    """PuLP 3.3 announces the interface of PuLP 4 at every call of the present one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield

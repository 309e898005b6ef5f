"""PuLP problems as users write them."""

from __future__ import annotations

import warnings

import numpy as np
import pulp
import pytest
import scipy.sparse as sp

from structopt.errors import DeclarationError, UnsupportedModel
from structopt.interop.matrices import assemble
from structopt.interop.pulp import read_pulp, read_pulp_objective, to_pulp

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Overwriting")


def space_of(coefficients: list[list[float]], low: list[float], high: list[float], rows: list[str]):  # type: ignore[no-untyped-def]
    n = len(coefficients[0])
    names = [f"y[{k}]" for k in range(n)]
    return assemble(
        sp.csr_array(np.array(coefficients)), (low, high), (np.zeros(n), np.ones(n)), np.ones(n), names, rows, "s"
    )


def test_dicts_categories_and_bounds() -> None:
    problem = pulp.LpProblem("tags")
    y = pulp.LpVariable.dicts("y", range(12), cat="Binary")
    free = pulp.LpVariable("free")
    count = pulp.LpVariable("count", -3, 7, cat="Integer")
    problem += pulp.lpSum(y.values()) == 1, "one"
    problem += free + 2 * count + 5 >= 1
    problem += count <= 4 + free, "cap"
    space = read_pulp(problem)
    assert space.variable_names == ("count", "free", *(f"y_{k}" for k in range(12)))
    assert space.row_names == ("one", "_C1", "cap")
    np.testing.assert_array_equal(space.row_lower, [1, -4, -np.inf])
    np.testing.assert_array_equal(space.row_upper, [1, np.inf, 4])
    assert (space.lower[0], space.upper[0], space.lower[1], space.upper[1]) == (-3, 7, -np.inf, np.inf)
    assert space.integrality.tolist() == [True, False] + [True] * 12
    # PuLP sorts its variables when asked for them; the space does not depend on it.
    problem.variables()
    assert read_pulp(problem).fingerprint == space.fingerprint
    count.fixValue = None
    y[0].cat = "Binary"
    y[0].upBound = None
    assert read_pulp(problem).upper[2] == 1


def test_objective() -> None:
    problem = pulp.LpProblem("p", pulp.LpMaximize)
    x, y = pulp.LpVariable("x"), pulp.LpVariable("y")
    problem += x - y <= 1
    space = read_pulp(problem)
    assert read_pulp_objective(problem, space) is None
    problem += 2 * y + 3
    coef, constant, sense = read_pulp_objective(problem, space)  # type: ignore[misc]
    assert (coef.tolist(), constant, sense) == ([0, 2], 3, "maximize")
    problem.setObjective(pulp.LpVariable("w") + x)
    with pytest.raises(UnsupportedModel, match="uses variable 'w'"):
        read_pulp_objective(problem, space)


def test_objective_of_an_exported_problem_keeps_the_users_names() -> None:
    space = space_of([[1.0, 2.0]], [0.0], [1.0], ["r[0]"])
    problem = to_pulp(space)
    assert read_pulp_objective(problem, space) is None
    problem.setObjective(4 * next(v for v in problem.variables() if v.name == "y_1_"))
    assert read_pulp_objective(problem, space).coef.tolist() == [0, 4]  # type: ignore[union-attr]
    assert read_pulp(problem).variable_names == ("y[0]", "y[1]")


def test_double_rows_are_joined_only_if_they_belong_together() -> None:
    space = space_of([[1.0, 2.0]] * 3, [0.0, -1.0, -np.inf], [1.0, np.inf, 3.0], ["r", "s", "s__upper"])
    problem = to_pulp(space)
    assert [constraint.name for constraint in problem.constraints()][:2] == ["r", "r__upper"]
    again = read_pulp(problem)
    assert again.row_names == ("r", "s", "s__upper")
    assert again.fingerprint == space.fingerprint
    x, y = pulp.LpVariable("x"), pulp.LpVariable("y")
    by_hand = pulp.LpProblem("p")
    by_hand += x + y >= 1, "a"
    by_hand += x + y <= 2, "a__upper"
    by_hand += x - y >= 1, "b"
    by_hand += x + y <= 2, "b__upper"
    space = read_pulp(by_hand)
    assert space.row_names == ("a", "b", "b__upper")
    np.testing.assert_array_equal(space.row_upper, [2, np.inf, 2])


def test_exported_problem_is_solved_by_cbc() -> None:
    space = space_of([[1, 1, 1], [1, 1, 0], [0, 0, 0]], [1, -np.inf, -1], [2, np.inf, 1], ["pick", "free", "empty"])
    problem = to_pulp(space)
    problem.sense = pulp.LpMaximize
    variables = {v.name: v for v in problem.variables()}
    problem.setObjective(variables["y_0_"] + 2 * variables["y_1_"] + 3 * variables["y_2_"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(pulp.PULP_CBC_CMD(msg=False))
    assert pulp.value(problem.objective) == pytest.approx(5)
    assert read_pulp(problem).fingerprint == space.fingerprint


def test_refused_by_name() -> None:
    problem = pulp.LpProblem("p")
    x = pulp.LpVariable("x", 0, 1)
    problem += x <= 1, "row"
    problem.sos1["pick"] = {x: 1}
    with pytest.raises(UnsupportedModel, match="SOS1 set 'pick'"):
        read_pulp(problem)
    problem.sos1.clear()
    x.cat = "SemiContinuous"
    with pytest.raises(UnsupportedModel, match="variable 'x' has category 'SemiContinuous'"):
        read_pulp(problem)
    x.cat = "Continuous"
    problem += x + pulp.LpVariable("x") <= 1
    with pytest.raises(UnsupportedModel, match="both called 'x'"):
        read_pulp(problem)
    with pytest.raises(TypeError, match="got list"):
        read_pulp([])
    nan = pulp.LpProblem("p")
    nan += pulp.LpConstraint(pulp.LpAffineExpression({x: float("nan")}), 1, "bad", 0)
    with pytest.raises(DeclarationError, match="'x' in row 'bad' is nan"):
        read_pulp(nan)


def test_duplicate_names_are_refused() -> None:
    space = space_of([[1.0]] * 2, [0.0, 0.0], [1.0, 1.0], ["r", "r"])
    with pytest.raises(DeclarationError, match=r"row names must be unique.*'r'"):
        to_pulp(space)

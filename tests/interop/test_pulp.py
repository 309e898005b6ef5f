"""PuLP problems as users write them."""

from __future__ import annotations

import warnings

import numpy as np
import pulp
import pytest
import scipy.sparse as sp

import structopt as so
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


# ---- arrays --------------------------------------------------------------------------------------


def blocks(problem: pulp.LpProblem) -> dict[str, tuple[int, ...]]:
    return {block.name: block.shape for block in so.LabelSpace.from_pulp(problem)}


def test_dicts_become_one_block_again() -> None:
    """Ten scalar blocks before: a loss saw tag_0, and predict returned only that."""
    problem = pulp.LpProblem("tags")
    tag = pulp.LpVariable.dicts("tag", range(10), cat="Binary")
    problem += pulp.lpSum(tag.values()) <= 3, "few"
    space = so.LabelSpace.from_pulp(problem)
    assert blocks(problem) == {"tag": (10,)}
    assert list(space.compiled.variable_names) == [f"tag_{k}" for k in range(10)]
    model = so.Model(space, {"tag": so.features.Linear()}, loss=so.losses.Hamming())
    truth = np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 1])
    coef, constant = model.loss(truth)
    assert coef @ np.zeros(10) + constant == pytest.approx(3)
    X = np.random.default_rng(0).normal(size=(30, 4))
    weights = np.random.default_rng(1).normal(size=(10, 4))
    Y = [model.decode(label.z) for label in so.Oracle(space).maximize_batch(X @ weights.T)]
    found = so.StructuredSVM(model, lam=1e-3).fit(X, Y).predict(X)
    assert np.shape(found) == (30, 10) and np.mean(np.array(found) == np.array(Y)) > 0.9


def test_arrays_of_more_than_one_index() -> None:
    problem = pulp.LpProblem("p")
    keys = [(i, j) for i in range(2) for j in range(11)]
    x = pulp.LpVariable.dicts("x", keys, 0, 1)
    nested = pulp.LpVariable.dicts("flow", (range(1, 4), range(2)), 0, 1)
    matrix = pulp.LpVariable.matrix("m", (range(2), range(2), range(2)), 0, 1)
    named = pulp.LpVariable.dicts("pair", [(a, b) for a in "ab" for b in "cde"], 0, 1)
    word = pulp.LpVariable.dicts("word", ["noun", "verb"], 0, 1)
    everything = [*x.values(), *(v for row in nested.values() for v in row.values()), *named.values(), *word.values()]
    problem += pulp.lpSum(everything) + pulp.lpSum(matrix) >= 1
    assert blocks(problem) == {
        "flow": (3, 2), "m": (2, 2, 2), "pair": (2, 3), "word_noun": (), "word_verb": (), "x": (2, 11),
    }  # fmt: skip
    space = so.LabelSpace.from_pulp(problem)
    part = space.compiled.variable_names[space["x"].slice]
    assert part[12] == x[1, 1].name


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["tag_0", "tag_1", "tag_3"], {"tag_0": (), "tag_1": (), "tag_3": ()}),  # a gap
        (["tag", "tag_0", "tag_1"], {"tag": (), "tag_0": (), "tag_1": ()}),  # whose block would be tag?
        (["tag_0"], {"tag_0": ()}),
        (["tag_7", "tag_8"], {"tag_7": (), "tag_8": ()}),
        (["tag_1", "tag_2"], {"tag": (2,)}),
        (["tag_00", "tag_01"], {"tag_00": (), "tag_01": ()}),
        (["x_0", "x_1", "x_1_0", "x_1_1"], {"x": (2,), "x_1_0": (), "x_1_1": ()}),
        (["a_1_0", "a_1_1", "a_1_2", "a_2_0", "a_2_1"], {"a_1": (3,), "a_2": (2,)}),  # two arrays, not one
        (["y²1", "_0", "_1"], {"_0": (), "_1": (), "y²1": ()}),
    ],
)
def test_names_that_may_mean_something_else_stay_scalars(
    names: list[str], expected: dict[str, tuple[int, ...]]
) -> None:
    problem = pulp.LpProblem("p")
    problem += pulp.lpSum(pulp.LpVariable(name, 0, 1) for name in names) >= 1
    assert blocks(problem) == expected


def test_mixed_kinds_and_bounds_in_one_block() -> None:
    problem = pulp.LpProblem("p")
    mixed = [
        pulp.LpVariable("v_0", 0, 1, "Binary"),
        pulp.LpVariable("v_1", -3, None),
        pulp.LpVariable("v_2", cat="Integer"),
    ]
    problem += pulp.lpSum(mixed) >= 1
    space = so.LabelSpace.from_pulp(problem)
    assert blocks(problem) == {"v": (3,)}
    assert space.compiled.integrality.tolist() == [True, False, True]
    assert space.compiled.lower.tolist() == [0, -3, -np.inf]


def test_arrays_survive_the_way_out_and_back() -> None:
    problem = pulp.LpProblem("p")
    tag = pulp.LpVariable.dicts("tag", range(3), cat="Binary")
    problem += pulp.lpSum(tag.values()) + pulp.LpVariable("slack", 0, 1) >= 1
    first = so.LabelSpace.from_pulp(problem)
    again = so.LabelSpace.from_pulp(first.to_pulp())
    assert [(b.name, b.shape) for b in again] == [(b.name, b.shape) for b in first] == [("slack", ()), ("tag", (3,))]
    assert again.compiled.fingerprint == first.compiled.fingerprint
    # Scalars that a user declared stay scalars, and arrays arrays, whatever their names look like.
    own = so.LabelSpace("own")
    parts = [own.binary("u_0"), own.binary("u_1"), own.binary("t", (2, 2)).sum()]
    own.subject_to(parts[0] + parts[1] + parts[2] >= 1)
    back = so.LabelSpace.from_pulp(own.to_pulp())
    assert [(b.name, b.shape) for b in back] == [("u_0", ()), ("u_1", ()), ("t", (2, 2))]
    exported = own.to_pulp()
    exported += pulp.lpSum(pulp.LpVariable.dicts("new", range(2), 0, 1).values()) <= 1
    assert blocks(exported) == {"u_0": (), "u_1": (), "t": (2, 2), "new": (2,)}

"""Pyomo models as users write them: each part is read or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pyomo.gdp as gdp
import pytest
from pyomo.mpec import Complementarity, complements

from structopt.errors import DeclarationError, InfeasibleSpace, UnsupportedModel
from structopt.interop.pyomo import read_pyomo, read_pyomo_objective, to_pyomo


def model_with_variables() -> Any:
    model = pyo.ConcreteModel()
    model.x = pyo.Var([0, 1], bounds=(0, 1))
    model.y = pyo.Var(domain=pyo.Binary)
    return model


def test_indexed_components_blocks_and_order() -> None:
    model = pyo.ConcreteModel("nested")
    model.unused = pyo.Var(domain=pyo.NonNegativeReals)
    model.y = pyo.Var(["a", "b"], [1, 2], domain=pyo.Binary)
    model.inner = pyo.Block([0, 1])
    for block in model.inner.values():
        block.z = pyo.Var(bounds=(-2, 3))
        block.deep = pyo.Block()
        block.deep.w = pyo.Var()
        block.deep.row = pyo.Constraint(expr=(1, block.z + 2 * block.deep.w, 4))
    model.rows = pyo.Constraint(["a", "b"], rule=lambda m, k: m.y[k, 1] + 3 * m.y[k, 2] + 1 == 2)
    space = read_pyomo(model)
    assert space.name == "nested"
    assert space.variable_names == (
        "unused", "y[a,1]", "y[a,2]", "y[b,1]", "y[b,2]", "inner[0].z", "inner[0].deep.w", "inner[1].z",
        "inner[1].deep.w",
    )  # fmt: skip
    assert space.row_names == ("rows[a]", "rows[b]", "inner[0].deep.row", "inner[1].deep.row")
    np.testing.assert_array_equal(space.row_lower, [1, 1, 1, 1])
    np.testing.assert_array_equal(space.row_upper, [1, 1, 4, 4])
    np.testing.assert_array_equal(space.matrix.toarray()[2], [0, 0, 0, 0, 0, 1, 2, 0, 0])
    np.testing.assert_array_equal(space.integrality, [0, 1, 1, 1, 1, 0, 0, 0, 0])
    again = read_pyomo(to_pyomo(space))
    assert again.fingerprint == space.fingerprint
    assert again.variable_names == space.variable_names


def test_deactivated_parts_are_left_out() -> None:
    model = model_with_variables()
    model.rows = pyo.Constraint([0, 1], rule=lambda m, k: m.x[k] <= m.y)
    model.rows[0].deactivate()
    model.off = pyo.Constraint(expr=model.x[0] ** 2 <= 1)
    model.off.deactivate()
    model.block = pyo.Block()
    model.block.v = pyo.Var()
    model.block.row = pyo.Constraint(expr=model.block.v <= 1)
    model.block.deactivate()
    space = read_pyomo(model)
    assert space.row_names == ("rows[1]",)
    assert space.variable_names == ("x[0]", "x[1]", "y")
    # A variable of an inactive block counts once an active row uses it.
    model.uses = pyo.Constraint(expr=model.block.v >= model.y)
    assert read_pyomo(model).variable_names == ("x[0]", "x[1]", "y", "block.v")


def test_fixed_variables_keep_their_place() -> None:
    model = model_with_variables()
    model.x[0].fix(0.5)
    model.row = pyo.Constraint(expr=model.x[0] * model.x[1] + 2 * model.x[0] <= model.y)
    model.constant = pyo.Constraint(expr=model.x[0] <= 1)
    space = read_pyomo(model)
    assert space.variable_names == ("x[0]", "x[1]", "y")
    assert (space.lower[0], space.upper[0]) == (0.5, 0.5)
    np.testing.assert_array_equal(space.matrix.toarray(), [[0, 0.5, -1], [0, 0, 0]])
    np.testing.assert_array_equal(space.row_upper, [-1.0, 0.5])
    assert model.x[0].fixed and model.x[0].value == 0.5


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (pyo.Binary, (0, 1, True)),
        (pyo.Boolean, (0, 1, True)),
        (pyo.Integers, (-np.inf, np.inf, True)),
        (pyo.PositiveIntegers, (1, np.inf, True)),
        (pyo.NonNegativeReals, (0, np.inf, False)),
        (pyo.NegativeReals, (-np.inf, 0, False)),
        (pyo.UnitInterval, (0, 1, False)),
        (pyo.Reals, (-np.inf, np.inf, False)),
        (pyo.RangeSet(0, 10), (0, 10, True)),
        (pyo.RangeSet(0, 2.5, 0), (0, 2.5, False)),
    ],
)
def test_domains(domain: Any, expected: tuple[float, float, bool]) -> None:
    model = pyo.ConcreteModel()
    model.v = pyo.Var(domain=domain)
    space = read_pyomo(model)
    assert (space.lower[0], space.upper[0], space.integrality[0]) == expected


def refused(build: Callable[[Any], None]) -> Any:
    model = model_with_variables()
    build(model)
    return model


def nonlinear(model: Any) -> None:
    model.c = pyo.Constraint(range(4), rule=lambda m, k: m.x[0] ** (2 if k == 3 else 1) <= 1)


def uninitialised(model: Any) -> None:
    model.p = pyo.Param(mutable=True, within=pyo.Reals)
    model.fine = pyo.Constraint(expr=model.x[0] <= 1)
    model.c = pyo.Constraint(expr=model.p * model.x[0] <= 1)


def not_a_number(model: Any) -> None:
    model.p = pyo.Param(mutable=True, initialize=float("nan"), within=pyo.Any)
    model.c = pyo.Constraint(expr=model.p * model.x[0] <= 1)


def infinite(model: Any) -> None:
    model.p = pyo.Param(mutable=True, initialize=float("inf"), within=pyo.Any)
    model.c = pyo.Constraint(expr=model.p * model.x[0] <= 1)


def nan_side(model: Any) -> None:
    model.p = pyo.Param(mutable=True, initialize=float("nan"), within=pyo.Any)
    model.c = pyo.Constraint(expr=model.x[0] <= model.p)


def sos(model: Any) -> None:
    model.block = pyo.Block()
    model.block.s = pyo.SOSConstraint(var=model.x, sos=1)


def logical(model: Any) -> None:
    model.b = pyo.BooleanVar([0, 1])
    model.l = pyo.LogicalConstraint(expr=model.b[0].implies(model.b[1]))


def boolean(model: Any) -> None:
    model.b = pyo.BooleanVar()


def disjunction(model: Any) -> None:
    model.either = gdp.Disjunction(expr=[[model.x[0] <= 0], [model.x[1] <= 0]])


def complementarity(model: Any) -> None:
    model.cc = Complementarity(expr=complements(model.x[0] >= 0, model.y >= 0))


def steps(model: Any) -> None:
    model.v = pyo.Var(domain=pyo.RangeSet(0, 10, 2))


def anything(model: Any) -> None:
    model.v = pyo.Var(domain=pyo.Any)


def fixed_without_value(model: Any) -> None:
    model.x[1].fix(None)


def fixed_fraction(model: Any) -> None:
    model.y.fix(0.5, skip_validation=True)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (nonlinear, UnsupportedModel, r"constraint 'c\[3\]' is non-linear"),
        (uninitialised, UnsupportedModel, r"constraint 'c' cannot be evaluated \(.*p"),
        (not_a_number, (DeclarationError, UnsupportedModel), "constraint 'c'"),
        (infinite, DeclarationError, r"'x\[0\]' in row 'c' is inf"),
        (nan_side, DeclarationError, "upper bound of row 'c' is NaN"),
        (sos, UnsupportedModel, "SOSConstraint 'block.s'"),
        (logical, UnsupportedModel, "'b?l?'.*contrib.logical_to_disjunctive"),
        (boolean, UnsupportedModel, "BooleanVar 'b'"),
        (disjunction, UnsupportedModel, "'either.*gdp.bigm"),
        (complementarity, UnsupportedModel, "Complementarity 'cc'"),
        (steps, UnsupportedModel, r"variable 'v' has domain .* \(0, 10, 2\)"),
        (anything, UnsupportedModel, "variable 'v' has domain Any"),
        (fixed_without_value, UnsupportedModel, r"variable 'x\[1\]' is fixed but has no value"),
        (fixed_fraction, UnsupportedModel, "variable 'y' is fixed at 0.5, outside its domain Binary"),
    ],
)
def test_refused_by_name(build: Callable[[Any], None], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        read_pyomo(refused(build))


def test_cures_work() -> None:
    model = refused(logical)
    pyo.TransformationFactory("contrib.logical_to_disjunctive").apply_to(model)
    pyo.TransformationFactory("gdp.bigm").apply_to(model)
    assert read_pyomo(model).n_rows >= 1
    model = refused(disjunction)
    pyo.TransformationFactory("gdp.bigm").apply_to(model)
    assert read_pyomo(model).n_rows >= 3


def test_false_constant_is_infeasible_by_name() -> None:
    model = model_with_variables()
    model.x[0].fix(1)
    model.never = pyo.Constraint(expr=model.x[0] <= 0.5)
    with pytest.raises(InfeasibleSpace, match="'never' can never hold") as caught:
        read_pyomo(model)
    assert caught.value.rows == ("never",)


def test_abstract_and_foreign_objects() -> None:
    abstract = pyo.AbstractModel()
    abstract.x = pyo.Var()
    with pytest.raises(UnsupportedModel, match="create_instance"):
        read_pyomo(abstract)
    with pytest.raises(TypeError, match="needs a Pyomo model, got int"):
        read_pyomo(3)


def test_mutable_parameters_are_read_at_their_present_value() -> None:
    model = model_with_variables()
    model.p = pyo.Param(mutable=True, initialize=2)
    model.c = pyo.Constraint(expr=model.p * model.x[0] <= model.p + 1)
    assert read_pyomo(model).row_upper[0] == 3
    model.p = 5
    space = read_pyomo(model)
    assert (space.matrix.toarray()[0, 0], space.row_upper[0]) == (5, 6)


def test_objectives() -> None:
    model = model_with_variables()
    model.c = pyo.Constraint(expr=model.x[0] <= model.y)
    space = read_pyomo(model)
    assert read_pyomo_objective(model, space) is None
    model.cost = pyo.Objective(expr=3 * model.x[1] - model.y + 4)
    objective = read_pyomo_objective(model, space)
    assert objective is not None
    coef, constant, sense = objective
    assert (coef.tolist(), constant, sense) == ([0, 3, -1], 4.0, "minimize")
    model.second = pyo.Objective(expr=model.y**2)
    # A quadratic objective is no obstacle to the space, and stays active.
    assert read_pyomo(model).fingerprint == space.fingerprint
    assert model.cost.active and model.second.active
    with pytest.raises(UnsupportedModel, match="2 active objectives"):
        read_pyomo_objective(model, space)
    model.cost.deactivate()
    model.third = pyo.Objective(expr=model.x[0] * model.x[1])
    model.second.deactivate()
    with pytest.raises(UnsupportedModel, match="objective 'third' is non-linear"):
        read_pyomo_objective(model, space)


def test_exported_model_is_idiomatic_and_survives_a_clone() -> None:
    model = model_with_variables()
    model.c = pyo.Constraint([1, 2], rule=lambda m, k: (0, m.x[0] - k * m.y, 2))
    space = read_pyomo(model)
    exported = to_pyomo(space)
    assert exported.x[1].name == "x[1]" and exported.c[2].name == "c[2]"
    assert exported.y.is_binary()
    assert exported.component("structopt_names") is None
    clone = to_pyomo(read_pyomo(exported)).clone()
    assert read_pyomo(clone).fingerprint == space.fingerprint

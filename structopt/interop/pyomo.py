"""Conversion of Pyomo models to label spaces and back, by Pyomo's standard-form compiler.

Every variable on an active block becomes a variable of the space and every active constraint a row,
in the order of their declaration. `read_pyomo_objective` returns the objective.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError, InfeasibleSpace, UnsupportedModel
from structopt.interop.matrices import assemble
from structopt.interop.names import blocks_of, refuse_duplicates
from structopt.space.compiled import CompiledSpace
from structopt.space.objective import LinearObjective

__all__ = ["add_rows", "read_pyomo", "read_pyomo_objective", "to_pyomo"]

#: Suffix (a Pyomo component) that carries the names which Pyomo would quote, reserve or share.
NAMES_SUFFIX = "structopt_names"

#: Component types that a label space can read or may safely pass over.
_READABLE = {
    "Block", "Constraint", "Var", "Param", "Expression", "ExternalFunction", "Set", "RangeSet", "SetOf",
    "Port", "Suffix", "Objective", "BuildAction", "BuildCheck", "ContinuousSet", "BooleanVar",
}  # fmt: skip

_CURES = {
    "SOSConstraint": "write it with binary variables and linear rows",
    "LogicalConstraint": "apply TransformationFactory('contrib.logical_to_disjunctive') and 'gdp.bigm' first",
    "Disjunct": "apply TransformationFactory('gdp.bigm') first",
    "Disjunction": "apply TransformationFactory('gdp.bigm') first",
    "Complementarity": "apply TransformationFactory('mpec.simple_disjunction') and 'gdp.bigm' first",
    "Arc": "apply TransformationFactory('network.expand_arcs') first",
    "DerivativeVar": "apply TransformationFactory('dae.finite_difference') first",
}


def read_pyomo(model: Any) -> CompiledSpace:
    """Read the variables and active constraints of a Pyomo model.

    Parameters
    ----------
    model : pyomo ConcreteModel or Block
        It is left as it was. Fixed variables keep their place, with lower = upper = value; as Pyomo
        substitutes their value, they have no coefficients. ``PositiveReals`` is read as its closure,
        as by all of Pyomo's writers.

    Raises
    ------
    UnsupportedModel
        Naming the component that linear rows cannot express.
    InfeasibleSpace
        Naming a constraint that no values can satisfy (a false constant).

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> model = pyo.ConcreteModel("pair")
    >>> model.y = pyo.Var([0, 1], domain=pyo.Binary)
    >>> model.order = pyo.Constraint(expr=model.y[0] <= model.y[1])
    >>> space = read_pyomo(model)
    >>> space.variable_names, space.row_names, space.matrix.toarray().tolist()
    (('y[0]', 'y[1]'), ('order',), [[1.0, -1.0]])
    """
    _refuse_unreadable(model)
    labels = _labels(model)
    with _without_objectives(model):
        standard = _compile(model)
    constraints = _active_constraints(model)
    variables = _variables(model, standard.columns)
    column = {id(variable): j for j, variable in enumerate(variables)}
    matrix, row_bounds = _rows(standard, constraints, column)
    names = [labels.get(id(variable), variable.name) for variable in variables]
    lower, upper, integrality = zip(*map(_domain, variables), strict=True) if variables else ((), (), ())
    return assemble(
        matrix,
        row_bounds,
        (lower, upper),
        integrality,
        names,
        [labels.get(id(constraint), constraint.name) for constraint in constraints],
        labels.get(id(model), "" if model.name in (None, "unknown") else model.name),
    )


def read_pyomo_objective(model: Any, compiled: CompiledSpace) -> LinearObjective | None:
    """The active linear objective of a Pyomo model over the variables of `compiled`, or None.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> model = pyo.ConcreteModel()
    >>> model.y = pyo.Var([0, 1], domain=pyo.Binary)
    >>> model.score = pyo.Objective(expr=2 * model.y[1] + 1, sense=pyo.maximize)
    >>> read_pyomo_objective(model, read_pyomo(model))
    LinearObjective(coef=array([0., 2.]), constant=1.0, sense='maximize')
    """
    from pyomo.environ import Objective, maximize
    from pyomo.repn import generate_standard_repn

    objectives = list(model.component_data_objects(Objective, active=True))
    if not objectives:
        return None
    if len(objectives) > 1:
        raise UnsupportedModel(
            f"The model has {len(objectives)} active objectives ({', '.join(o.name for o in objectives)}); "
            "deactivate all but one."
        )
    objective = objectives[0]
    linear = generate_standard_repn(objective.expr, compute_values=True)
    if not linear.is_linear():
        raise UnsupportedModel(f"objective {objective.name!r} is non-linear; deactivate it or write it linearly.")
    labels = _labels(model)
    place = {name: j for j, name in enumerate(compiled.variable_names)}
    coef = np.zeros(compiled.n_variables)
    for variable, value in zip(linear.linear_vars, linear.linear_coefs, strict=True):
        name = labels.get(id(variable), variable.name)
        if name not in place:
            raise UnsupportedModel(
                f"objective {objective.name!r} uses variable {name!r}, which is not in the space; "
                "put it on an active block of the model."
            )
        coef[place[name]] += value
    return LinearObjective(
        coef, float(linear.constant or 0.0), "maximize" if objective.sense == maximize else "minimize"
    )


def _refuse_unreadable(model: Any) -> None:
    from pyomo.environ import Block

    if not hasattr(model, "component_data_objects"):
        raise TypeError(f"read_pyomo needs a Pyomo model, got {type(model).__name__}.")
    if not model.is_constructed():
        raise UnsupportedModel(f"The model {model.name!r} is abstract; pass the result of its create_instance().")
    for block in model.block_data_objects(active=True, descend_into=Block):
        for component in block.component_objects(active=True, descend_into=False):
            kind = component.ctype.__name__
            if kind not in _READABLE and any(data.active for data in component.values() if hasattr(data, "active")):
                cure = _CURES.get(kind, "remove or deactivate it")
                raise UnsupportedModel(f"{kind} {component.name!r} cannot be expressed by linear rows; {cure}.")
            if kind == "BooleanVar" and any(v.get_associated_binary() is None for v in component.values()):
                raise UnsupportedModel(
                    f"BooleanVar {component.name!r} is logical; use a Var with domain Binary, or apply "
                    "TransformationFactory('contrib.logical_to_disjunctive') and 'gdp.bigm' first."
                )


@contextmanager
def _without_objectives(model: Any) -> Iterator[None]:
    """Hide the objectives from the compiler: a space has none, and a quadratic one is no obstacle."""
    from pyomo.environ import Objective

    hidden = list(model.component_data_objects(Objective, active=True))
    try:
        for objective in hidden:
            objective.deactivate()
        yield
    finally:
        for objective in hidden:
            objective.activate()


def _compile(model: Any) -> Any:
    from pyomo.environ import Var
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    for variable in model.component_data_objects(Var, active=True):
        if variable.fixed and variable.value is None:
            raise UnsupportedModel(f"variable {variable.name!r} is fixed but has no value; give it one or unfix it.")
    try:
        return LinearStandardFormCompiler().write(model, mixed_form=True)
    except Exception as error:  # Pyomo raises ValueError, ZeroDivisionError, InvalidConstraintError, ...
        _name_the_culprit(model, error)


def _name_the_culprit(model: Any, error: Exception) -> NoReturn:
    """Find the constraint at which the compiler failed; its error seldom names it."""
    from pyomo.repn import generate_standard_repn

    for constraint in _active_constraints(model):
        try:
            low, body, high = constraint.to_bounded_expression(evaluate_bounds=True)
            linear = generate_standard_repn(body, compute_values=True)
        except Exception as reason:
            first = str(reason).strip().splitlines()[0] if str(reason).strip() else type(reason).__name__
            raise UnsupportedModel(
                f"constraint {constraint.name!r} cannot be evaluated ({first}); give every parameter and "
                "fixed variable a finite value."
            ) from error
        if not linear.is_linear():
            raise UnsupportedModel(
                f"constraint {constraint.name!r} is non-linear: {constraint.expr}; only linear rows can be "
                "read, so linearise or deactivate it."
            ) from error
        if not np.isfinite([*linear.linear_coefs, linear.constant]).all():
            raise DeclarationError(f"constraint {constraint.name!r} has a NaN or infinite coefficient.") from error
        value = linear.constant
        too_low, too_high = low is not None and value < low, high is not None and value > high
        if not linear.linear_vars and (too_low or too_high):
            raise InfeasibleSpace(
                f"constraint {constraint.name!r} can never hold: it has no variable that is not fixed, "
                f"and {low} <= {value} <= {high} is false.",
                rows=(constraint.name,),
            ) from error
    raise UnsupportedModel(f"Pyomo's standard-form compiler refused the model: {error}") from error


def _active_constraints(model: Any) -> list[Any]:
    from pyomo.environ import Constraint, SortComponents

    # The order of LinearStandardFormCompiler with its default, file_determinism=ORDERED.
    order = SortComponents.ORDERED_INDICES
    return list(model.component_data_objects(Constraint, active=True, sort=order))


def _variables(model: Any, columns: Sequence[Any]) -> list[Any]:
    """All variables of active blocks, then those of other blocks that active constraints use."""
    from pyomo.environ import SortComponents, Var

    own = model.component_data_objects(Var, active=True, sort=SortComponents.ORDERED_INDICES)
    return list({id(variable): variable for variable in [*own, *columns]}.values())


def _rows(
    standard: Any, constraints: Sequence[Any], column: dict[int, int]
) -> tuple[sp.coo_array, tuple[np.ndarray, np.ndarray]]:
    """One row per active constraint: the two rows of a double-bounded one are joined again."""
    place = {id(constraint): i for i, constraint in enumerate(constraints)}
    low, high = np.full(len(constraints), -np.inf), np.full(len(constraints), np.inf)
    target = np.full(len(standard.rows), -1)
    for k, (entry, bound) in enumerate(zip(standard.rows, standard.rhs, strict=True)):
        i = place[id(entry.constraint)]
        if entry.bound_type <= 0:
            low[i] = bound
        if entry.bound_type >= 0:
            high[i] = bound
        if k == 0 or standard.rows[k - 1].constraint is not entry.constraint:
            target[k] = i
    entries = standard.A.tocoo()
    kept = target[entries.row] >= 0
    rows = target[entries.row[kept]]
    columns = np.array([column[id(v)] for v in standard.columns], dtype=np.int64)[entries.col[kept]]
    missing = _dropped(constraints, set(target.tolist()), column, low, high)
    matrix = sp.coo_array(
        (
            np.concatenate([entries.data[kept], missing[2]]),
            (np.concatenate([rows, missing[0]]), np.concatenate([columns, missing[1]])),
        ),
        shape=(len(constraints), len(column)),
    )
    return matrix, (low, high)


def _dropped(
    constraints: Sequence[Any], found: set[int], column: dict[int, int], low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of the rows that the compiler leaves out because they never bind: free or constant ones."""
    from pyomo.repn import generate_standard_repn

    rows: list[int] = []
    columns: list[int] = []
    data: list[float] = []
    for i in set(range(len(constraints))) - found:
        lower, body, upper = constraints[i].to_bounded_expression(evaluate_bounds=True)
        linear = generate_standard_repn(body, compute_values=True)
        low[i] = -np.inf if lower is None else lower - linear.constant
        high[i] = np.inf if upper is None else upper - linear.constant
        for variable, value in zip(linear.linear_vars, linear.linear_coefs, strict=True):
            # A free row may use a variable that nothing else uses and no active block holds: no matter.
            if id(variable) in column:
                rows.append(i)
                columns.append(column[id(variable)])
                data.append(value)
    return np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64), np.array(data, dtype=np.float64)


def _domain(variable: Any) -> tuple[float, float, bool]:
    """Lower bound, upper bound and integrality of one variable."""
    integer = variable.is_integer()
    if not integer and not variable.is_continuous():
        raise UnsupportedModel(
            f"variable {variable.name!r} has domain {variable.domain.name} with values "
            f"{variable.domain.get_interval()} (first, last, step); use "
            "Reals, Integers or Binary (with bounds), or one binary variable per value."
        )
    if variable.fixed:
        value = float(variable.value)
        if integer and value != round(value):
            raise UnsupportedModel(
                f"variable {variable.name!r} is fixed at {value}, outside its domain {variable.domain.name}; "
                "fix it at an integer."
            )
        return value, value, integer
    lower, upper = variable.bounds
    return -np.inf if lower is None else lower, np.inf if upper is None else upper, integer


def _labels(model: Any) -> dict[int, str]:
    """Original names of the components that `to_pyomo` could not name as the user did."""
    suffix = model.component(NAMES_SUFFIX)
    return {} if suffix is None else {id(component): name for component, name in suffix.items()}


def to_pyomo(compiled: CompiledSpace, objective: LinearObjective | None = None) -> Any:
    """Write a space as a Pyomo ``ConcreteModel``, by default without an objective.

    Arrays of variables and rows (``y[0,1]``) become indexed components. A name that Pyomo would quote
    or reserve, and a row that has the name of a variable, gets a near one; a local Suffix keeps the
    original, so that `read_pyomo` gives back the same names.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> model = pyo.ConcreteModel("pair")
    >>> model.y = pyo.Var([0, 1], domain=pyo.Binary)
    >>> model.order = pyo.Constraint(expr=model.y[0] <= model.y[1])
    >>> space = read_pyomo(model)
    >>> read_pyomo(to_pyomo(space)).fingerprint == space.fingerprint
    True
    """
    import pyomo.environ as pyo
    from pyomo.core.expr.numeric_expr import LinearExpression

    compiled.refuse_lazy_rows("A Pyomo model")
    refuse_duplicates("variable", compiled.variable_names)
    refuse_duplicates("row", compiled.row_names)
    model = pyo.ConcreteModel(compiled.name or None)
    original = pyo.Suffix(direction=pyo.Suffix.LOCAL)
    model.add_component(NAMES_SUFFIX, original)
    variables = _declare(model, pyo.Var, compiled.variable_names, original)
    bounds = zip(*(_optional(array) for array in (compiled.lower, compiled.upper)), strict=True)
    for variable, (lower, upper), integer in zip(variables, bounds, compiled.integrality.tolist(), strict=True):
        binary = integer and lower == 0 and upper == 1
        variable.domain = pyo.Binary if binary else pyo.Integers if integer else pyo.Reals
        if not binary:
            variable.setlb(lower)
            variable.setub(upper)
    add_rows(model, compiled, variables, original)
    if objective is not None:
        body = LinearExpression(
            constant=objective.constant, linear_coefs=objective.coef.tolist(), linear_vars=list(variables)
        )
        sense = pyo.maximize if objective.sense == "maximize" else pyo.minimize
        model.add_component(_free_name(model, "objective", "component"), pyo.Objective(expr=body, sense=sense))
    if compiled.name and model.name != compiled.name:
        original[model] = compiled.name
    if not original:
        model.del_component(original)
    return model


def add_rows(model: Any, compiled: CompiledSpace, variables: Sequence[Any], original: Any) -> None:
    """Add the rows of `compiled`, over `variables` in its order, to a model; `original` keeps their names."""
    import pyomo.environ as pyo
    from pyomo.core.expr.numeric_expr import LinearExpression

    matrix = compiled.matrix
    data, indices, indptr = matrix.data.tolist(), matrix.indices.tolist(), matrix.indptr.tolist()
    row_bounds = zip(compiled.row_lower.tolist(), compiled.row_upper.tolist(), strict=True)

    def expressions() -> Iterator[Any]:
        for (low, high), start, stop in zip(row_bounds, indptr[:-1], indptr[1:], strict=True):
            columns = [variables[j] for j in indices[start:stop]]
            body = LinearExpression(constant=0, linear_coefs=data[start:stop], linear_vars=columns)
            # Explicit infinities, not None: the compiler then keeps a row that is free on both sides.
            yield body == low if low == high else (low, body, high)

    _declare(model, pyo.Constraint, compiled.row_names, original, list(expressions()))


def _declare(
    model: Any, kind: Any, names: Sequence[str], original: Any, expressions: Sequence[Any] | None = None
) -> list[Any]:
    """Declare one component per block of names and return its elements in order."""
    elements: list[Any] = []
    for block, shape, labels in blocks_of(names):
        component_name = _free_name(model, block, kind.__name__.lower())
        wanted = names[len(elements) : len(elements) + int(np.prod(shape, dtype=np.int64))]
        if not shape:
            component = kind() if expressions is None else kind(expr=expressions[len(elements)])
            model.add_component(component_name, component)
            made = [component]
        else:
            keys = _keys(shape, labels)
            component = kind(keys)
            model.add_component(component_name, component)
            if expressions is None:
                made = [component[key] for key in keys]
            else:
                here = len(elements)
                made = [component.add(key, expressions[here + k]) for k, key in enumerate(keys)]
        for element, name in zip(made, wanted, strict=True):
            if element.name != name:
                original[element] = name
        elements.extend(made)
    return elements


def _keys(shape: tuple[int, ...], labels: tuple[str, ...] | None) -> list[Any]:
    """Index set of a block: integers wherever the labels read as such, in the order of the labels."""
    if labels is None:
        keys: list[Any] = [tuple(map(int, key)) for key in np.ndindex(shape)]
        return [key[0] for key in keys] if len(shape) == 1 else keys
    texts = [label[label.index("[") + 1 : -1].split(",") for label in labels]
    plain = [tuple(int(t) if t.isdecimal() and str(int(t)) == t else t for t in text) for text in texts]
    return [key[0] for key in plain] if len(shape) == 1 else plain


def _free_name(model: Any, name: str, kind: str) -> str:
    """The name itself, or a near one if the model has a component or a reserved attribute of that name."""
    candidate = name
    while not candidate or hasattr(model, candidate):
        candidate = f"{candidate}_{kind}"
    return candidate


def _optional(bounds: np.ndarray) -> list[float | None]:
    """Bounds in Pyomo's form: None where infinite."""
    return [None if np.isinf(bound) else bound for bound in bounds.tolist()]

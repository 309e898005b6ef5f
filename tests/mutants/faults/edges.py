"""Faults of backends, of norms of hierarchies, and of files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import structopt as so

from .base import Seam, add, mutant, result

# ---- backends ----------------------------------------------------------------------------------------


def _solution(name: str, change: Callable[[Any, Any], Any]) -> None:
    """Register a mutant that changes what HiGHS returns: ``change(solution, backend)``."""

    def changed(original: Any, self: Any, *args: Any, **options: Any) -> Any:
        return change(original(self, *args, **options), self)

    def fault(seam: Seam) -> None:
        for method in ("run", "maximize"):
            seam.replace(f"backends.highs.Highs.{method}", changed)

    add(name, "backends", fault)


def _instead(found: Any, status: str, **changes: Any) -> Any:
    return dataclasses.replace(found, **changes) if found.status.value == status else found


_solution(
    "backend_calls_infeasible_optimal",
    lambda found, self: _instead(
        found, "infeasible", status=so.backends.Status.OPTIMAL, z=np.zeros(self.space.n_variables), bound=0.0
    ),
)
_solution(
    "backend_calls_unbounded_infeasible",
    lambda found, self: _instead(found, "unbounded", status=so.backends.Status.INFEASIBLE),
)
_solution("backend_has_a_low_bound", lambda found, self: dataclasses.replace(found, bound=found.bound - 1e-3))
_solution(
    "backend_rounds_fractions",
    lambda found, self: dataclasses.replace(found, z=None if found.z is None else np.rint(found.z)),
)


@mutant("backends", "backends.Backend.__init__")
def backend_ignores_integrality(original: Any, self: Any, space: Any, options: Any = None) -> None:
    original(self, space.relaxed(), options)


@mutant("backends", "backends.highs.Highs.remove_rows")
def backend_keeps_rows_of_a_call(original: Any, self: Any) -> None:
    pass


@mutant("backends", "backends.highs.Highs.add_rows")
def backend_ignores_lower_sides_of_rows(original: Any, self: Any, matrix: Any, lower: Any, upper: Any) -> None:
    original(self, matrix, np.where(np.isfinite(upper), -np.inf, lower), upper)


@mutant("backends", "backends.highs.Highs.set_costs")
def backend_accepts_nan(original: Any, self: Any, c: Any) -> None:
    original(self, np.nan_to_num(c))


@mutant("backends", "backends.scipy.Scipy.set_costs", laws="tests/backends/test_conformance.py -k scipy")
def scipy_backend_minimises(original: Any, self: Any, c: Any) -> None:
    original(self, -np.asarray(c))


# ---- norms of hierarchies ------------------------------------------------------------------------------


def _norm(name: str, **changes: Any) -> None:
    """Register a mutant of `norms.normalization` that takes other values of its options."""

    def changed(original: Any, hierarchy: Any, rho: float = 2.0, root: bool = False, **options: Any) -> Any:
        return original(hierarchy, **{"rho": rho, "root": root, **options, **changes})

    add(name, "norms", lambda seam: seam.replace("norms.normalization.normalization", changed))


_norm("normalization_forgets_the_root", root=False)
_norm("normalization_ignores_rho", rho=2.0)
_norm("normalization_ignores_its_tolerance", tolerance=None)
_norm("normalization_ignores_directions", directional=False)
_norm("normalization_ignores_factors", weights=None)
result("maxmin_is_small", "norms", "norms.maxmin", lambda found, *a: 0.99 * found)
result("shared_alpha_is_uneven", "norms", "norms.shared_alpha", lambda found, *a: found**1.1)
result("shared_norm_is_low", "norms", "norms.SharedNorm.__float__", lambda found, *a: 0.999 * found)
result("minimal_graph_weighs_nodes_alike", "norms", "norms.MinimalGraph.weights", lambda found, *a: found**0.0)

# ---- files ---------------------------------------------------------------------------------------------


def _other(space: so.LabelSpace, **parts: Any) -> so.LabelSpace:
    """Return a space with other arrays."""
    found = so.LabelSpace.from_compiled(dataclasses.replace(space.compiled, **parts))
    found.objective = space.objective
    return found


def _read(name: str, change: Callable[[so.LabelSpace], so.LabelSpace], seam: str = "LabelSpace.read") -> None:
    result(name, "files", seam, lambda found, *a: change(found))


def _without_upper(space: so.LabelSpace) -> so.LabelSpace:
    return _other(space, upper=np.where(space.upper == 2.0, np.inf, space.upper))


def _flipped(space: so.LabelSpace) -> so.LabelSpace:
    if space.objective is not None:
        space.objective = space.objective._replace(coef=-space.objective.coef)
    return space


_read("reader_drops_an_upper_bound", _without_upper)
_read("reader_flips_the_objective", _flipped)
_read("reader_drops_integrality", lambda space: _other(space, integrality=np.zeros_like(space.integrality)))
_read("reader_forgets_a_side", lambda space: _other(space, row_lower=np.r_[space.row_lower[:-1], -np.inf]))
_read("space_from_pulp_loses_a_bound", _without_upper, "LabelSpace.from_pulp")


@mutant("files", "LabelSpace.write")
def writer_keeps_six_digits(original: Any, self: so.LabelSpace, *args: Any) -> None:
    matrix = self.matrix.copy()
    matrix.data = np.array([float(f"{value:.6g}") for value in matrix.data])
    original(_other(self, matrix=matrix), *args)


def _saved(name: str, change: Callable[[str, Any], Any], method: str = "_learned") -> None:
    """Register a mutant that changes the entries in the file of an estimator; None leaves one out."""

    def changed(found: dict[str, Any], *args: Any) -> dict[str, Any]:
        kept = {key: change(key, value) for key, value in found.items()}
        return {key: value for key, value in kept.items() if value is not None or found[key] is None}

    result(name, "files", f"estimators.Persistent.*.{method}", changed)


def _single(key: str, value: Any) -> Any:
    is_float = isinstance(value, np.ndarray) and value.dtype == float
    return value.astype(np.float32).astype(float) if is_float else value


def _without_bound(key: str, value: Any) -> Any:
    return dataclasses.replace(value, lower_bound=-np.inf) if key == "result_" else value


_saved("saved_estimator_loses_its_label_form", lambda key, value: None if key == "label_form_" else value)
_saved("saved_estimator_loses_a_parameter", lambda key, value: None if key == "lam" else value, "_parameters")
_saved("saved_classes_are_reversed", lambda key, value: value[::-1] if key == "classes_" else value)
_saved("saved_weights_are_single", _single)
_saved("saved_result_loses_its_bound", _without_bound)


@mutant("files", "data.read_svmlight")
def svmlight_features_are_shifted(original: Any, *args: Any, **options: Any) -> Any:
    found = original(*args, **options)
    found.X = found.X[:, np.r_[1 : found.X.shape[1], 0]]
    return found

"""Faults of oracles, of single algorithms, of planes and of searches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import structopt as so

from .base import Seam, add, mutant, result, subclasses

# ---- oracles ---------------------------------------------------------------------------------------

oracle = functools.partial(mutant, "algorithms")


@oracle("Oracle.maximize")
def oracle_returns_the_second_best_label(original: Any, self: Any, c: Any, *args: Any, **options: Any) -> Any:
    found = original(self, c, *args, **options)
    two = [] if args or options else self.k_best(c, 2)
    return two[-1] if len(two) == 2 else found


@oracle("Oracle.maximize", "Oracle.maximize_batch")
def bound_of_a_label_is_low(original: Any, *args: Any, **options: Any) -> Any:
    found = original(*args, **options)
    for label in found if isinstance(found, list) else [found]:
        label.bound -= 1e-3
    return found


@oracle("Oracle.maximize", "Oracle.maximize_batch")
def value_of_a_label_is_rounded(original: Any, *args: Any, **options: Any) -> Any:
    found = original(*args, **options)
    for label in found if isinstance(found, list) else [found]:
        label.value = label.bound = round(label.value, 3)
    return found


_KNOWN: dict[Any, Any] = {}


@oracle("Oracle.maximize_batch")
def batch_with_keys_repeats_old_answers(original: Any, self: Any, C: Any, n_jobs: int = 1, *, keys: Any = None) -> Any:
    found = original(self, C, n_jobs, keys=keys)
    return found if keys is None else [_KNOWN.setdefault((self, k), z) for k, z in zip(keys, found, strict=True)]


@oracle("Oracle.maximize_batch")
def batch_in_threads_is_reversed(original: Any, self: Any, C: Any, n_jobs: int = 1, **options: Any) -> Any:
    found = original(self, C, n_jobs, **options)
    return found if n_jobs == 1 else found[::-1]


def _exchanged(found: list[Any], k: int = 0) -> list[Any]:
    """Exchange two neighbours of a list."""
    return found[:k] + found[k : k + 2][::-1] + found[k + 2 :]


result("batch_swaps_two_answers", "algorithms", "Oracle.maximize_batch", lambda found, *a: _exchanged(found))
result("k_best_repeats_a_label", "algorithms", "Oracle.k_best", lambda found, *a: found[:2] + found[1:-1])
result("k_best_swaps_two_labels", "algorithms", "Oracle.k_best", lambda found, *a: _exchanged(found, 1))
result("k_best_stops_early", "algorithms", "Oracle.k_best", lambda found, *a: found[:7])
result("front_loses_a_point", "algorithms", "Oracle.front", lambda found, *a: None if found is None else found[1:])
result("marginals_are_shifted", "algorithms", "Oracle.marginals", lambda found, *a: np.roll(found, 1, axis=-1))
result("answers_claims_side_rows", "algorithms", "Oracle.answers", lambda found, *a: found | so.Question.SIDE_ROWS)
result(
    "enumeration_drops_a_label", "algorithms", "space.enumeration.enumerate_labels", lambda found, *a: found[:-1],
    tests="tests/space/test_enumeration.py",
)  # fmt: skip


@oracle("Oracle.front")
def front_has_a_mixture(original: Any, *args: Any) -> Any:
    found = original(*args)
    return found if found is None or len(found) < 2 else np.vstack([found, found[:2].mean(axis=0)])


@oracle("Oracle.log_partition", "Oracle.sums")
def log_partition_drops_a_label(original: Any, self: Any, C: Any) -> Any:
    found = original(self, C)
    log_partition = found[0] if isinstance(found, tuple) else found
    worst = np.array([-self.maximize(-c).value for c in np.atleast_2d(C)])
    less = log_partition + np.log1p(-np.minimum(np.exp(worst - log_partition), 0.999))
    return (less, found[1]) if isinstance(found, tuple) else less


@oracle("Oracle.sample")
def samples_prefer_the_best_label(original: Any, self: Any, c: Any, *args: Any, **options: Any) -> Any:
    found = original(self, c, *args, **options)
    found[::4] = self.maximize(c).z
    return found


@oracle("Oracle.sample")
def samples_ignore_the_seed(original: Any, self: Any, c: Any, n: int = 1, *, random_state: Any = None) -> Any:
    return original(self, c, n, random_state=None)


@oracle("Oracle.maximize")
def objective_with_nan_is_accepted(original: Any, self: Any, c: Any, *args: Any, **options: Any) -> Any:
    return original(self, np.nan_to_num(np.asarray(c, dtype=float)), *args, **options)


@oracle("Oracle.__setstate__")
def pickled_oracle_is_relaxed(original: Any, self: Any, state: dict[str, Any]) -> None:
    original(self, {**state, "integral": "relax"})


def _call(name: str, change: Callable[[Any, Any, Any], tuple[Any, Any]]) -> None:
    """Register a mutant that changes the rows and the forbidden labels of a call."""

    def maximize(original: Any, self: Any, c: Any, rows: Any = (), forbid: Any = (), **options: Any) -> Any:
        return original(self, c, *change(self, rows, forbid), **options)

    add(name, "algorithms", lambda seam: seam.replace("Oracle.maximize", maximize))


def _upper_only(rows: Any) -> Any:
    return [(row[0], -np.inf, row[2]) if isinstance(row, tuple) and row[1] == row[2] else row for row in rows]


def _earlier(self: Any, rows: Any, forbid: Any) -> Any:
    before = _KNOWN.pop(id(self), ())
    if len(rows):
        _KNOWN[id(self)] = rows
    return rows if len(rows) else before, forbid


_call("forbidden_label_is_returned", lambda self, rows, forbid: (rows, forbid[:2]))
_call("forbidden_labels_are_ignored_beside_rows", lambda self, rows, forbid: (rows, () if len(rows) else forbid))
_call("side_row_is_ignored", lambda self, rows, forbid: (rows[:1], forbid))
_call("side_equality_has_no_lower_bound", lambda self, rows, forbid: (_upper_only(rows), forbid))
_call("side_rows_stay_for_the_next_call", _earlier)

# ---- single algorithms -----------------------------------------------------------------------------


def _misled(name: str, example: Callable[[], so.Oracle], tests: str, case: str = "") -> None:
    """Register a mutant: the algorithm that answers for `example` halves every third coefficient of an objective.

    The last one alone may be that of an auxiliary variable, which objectives leave at 0.
    """

    def fault(seam: Seam) -> None:
        from structopt.algorithms.base import Algorithm, RowAlgorithm

        kind = example().algorithm

        def halved(self: Any, C: Any) -> Any:
            third = np.where(np.arange(C.shape[-1]) % 3 == 1, 0.5, 1.0)
            return np.ascontiguousarray(C * third) if self.name == kind else C

        def maximize(original: Any, self: Any, c: Any, *args: Any, **options: Any) -> Any:
            found = original(self, halved(self, c), *args, **options)
            value = None if found is None else float(c @ found.z)
            return found if found is None else found._replace(value=value, bound=value)

        def batch(original: Any, self: Any, C: Any, *args: Any, **options: Any) -> Any:
            found = original(self, halved(self, C), *args, **options)
            values = np.einsum("ij,ij->i", C, found.Z)
            return found._replace(values=values, bounds=values)

        for cls in set(subclasses(Algorithm)) - {RowAlgorithm, Algorithm}:
            for method, change in (("maximize", maximize), ("maximize_batch", batch)):
                if method in vars(cls):
                    seam.wrap(cls, method, change)

    laws = f"tests/laws/test_laws.py -k {case or name}"
    add(f"{name}_halves_coefficients", "algorithms", fault, laws, tests)


def _tree() -> so.Hierarchy:
    return so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")])


def _knapsack() -> so.LabelSpace:
    return so.LabelSpace.from_matrices([[2, 3, 4, 5]], -np.inf, 7.5)


def _shipped(kind: str, *args: Any, shape: tuple[int, ...] = ()) -> Callable[[], so.Oracle]:
    return lambda: getattr(so.structures, kind)(*args).oracle(np.zeros(shape))


def _copied(kind: str, *args: Any, shape: tuple[int, ...]) -> Callable[[], so.Oracle]:
    """Return an oracle of the rows of a structure, without its names."""
    model = lambda: getattr(so.structures, kind)(*args)  # noqa: E731
    return lambda: so.Oracle(so.LabelSpace.from_compiled(model().space(np.zeros(shape)).compiled))


def _nodes(kind: str) -> Callable[[], so.Oracle]:
    return lambda: so.structures.HierarchicalLabels(_tree(), kind).oracle()


_misled("multiclass", _shipped("Multiclass", 4), "tests/structures/test_flat.py")
_misled("multilabel", _shipped("MultiLabel", 5, 1, 2), "tests/structures/test_flat.py")
_misled("pairwise", _shipped("PairwiseMRF", 4), "tests/kernels/test_pairwise.py")
_misled("leaves", _nodes("leaves"), "tests/structures/test_hierarchy.py")
_misled("closure", _nodes("closure"), "tests/structures/test_hierarchy.py")
_misled("chain", _shipped("Chain", 3, shape=(3, 1)), "tests/structures/test_chain.py")
_misled("segments", _shipped("Segmentation", 2, 2, shape=(3, 1)), "tests/structures/test_segmentation.py")
_misled("arborescence", _shipped("Arborescence", shape=(4, 4, 1)), "tests/structures/test_arborescence.py")
_misled("assignment", _shipped("Assignment", 3, shape=(3, 3, 1)), "tests/structures/test_assignment.py")
_misled("diagram", lambda: so.Oracle(_knapsack(), "diagram"), "tests/kernels/diagram")
_misled("enumeration", lambda: so.Oracle(_knapsack()), "tests/oracle", "knapsack")
_misled("path", _copied("Segmentation", 2, 2, shape=(3, 1)), "tests/kernels/test_paths.py", "copied")
_misled("forest", _copied("Chain", 3, shape=(3, 1)), "tests/recognize", "copied")

# ---- planes and searches ---------------------------------------------------------------------------

search = functools.partial(mutant, "search")


@search("search.exact")
def exact_search_stops_early(original: Any, *args: Any, **options: Any) -> Any:
    found = original(*args, **{**options, "front": False, "max_queries": 2})
    return dataclasses.replace(found, upper_bound=found.value, stopped="optimal")


def _changed(name: str, seam: str, change: Callable[[Any], dict[str, Any]]) -> None:
    """Register a mutant that changes attributes of a result."""
    result(name, "search", seam, lambda found, *a: found and dataclasses.replace(found, **change(found)))


_changed("hull_search_has_a_low_bound", "search.convex_hull", lambda found: {"upper_bound": 0.999 * found.upper_bound})
_changed("angular_search_has_a_low_value", "search.angular", lambda found: {"value": 0.99 * found.value})
_changed("sarawagi_search_has_a_low_bound", "search.sarawagi", lambda found: {"upper_bound": found.value})
_changed("bisecting_has_a_low_bound", "search.bisecting", lambda found: {"upper_bound": found.value})
_changed("exact_search_returns_the_truth", "search.exact", lambda found: {"label": found.plane.truth})
_changed("query_has_a_low_bound", "Plane.query", lambda point: {"bound": point.bound - 1e-3})
_changed("query_of_points_has_a_high_h", "PointPlane.query", lambda point: {"h": point.h + 1e-3})
_changed("plane_evaluates_a_low_loss", "Plane.evaluate", lambda point: {"g": point.g - 1e-3})
result("box_of_a_plane_is_small", "search", "Plane.bounds", lambda box, *a: box._replace(h_upper=0.9 * box.h_upper))
result("front_of_a_plane_loses_a_point", "search", "Plane.front", lambda found, *a: found and found[1:])


@search("Plane.query", "PointPlane.query")
def query_ignores_forbidden_labels(original: Any, *args: Any, **options: Any) -> Any:
    return original(*args, **{**options, "forbid": ()})


@search("Plane.query", "PointPlane.query")
def query_ignores_the_upper_ray(original: Any, *args: Any, **options: Any) -> Any:
    return original(*args, **{**options, "top": None})


@mutant("search", "search.search_batch", laws="tests/laws/test_risks.py")
def batch_search_swaps_two_results(original: Any, *args: Any, **options: Any) -> Any:
    found = original(*args, **options)
    order = np.r_[1, 0, 2 : len(found.value)][: len(found.value)]
    return dataclasses.replace(found, numbers=found.numbers[:, order], value=found.value[order])


@mutant("surrogates", "surrogates.Surrogate.*.segment_maximum")
def segment_bound_is_short(original: Any, *args: Any) -> Any:
    t, value, upper = original(*args)
    return t, value, value - 1e-3 * (upper > 0.0)


def _psi(name: str, kind: str, change: Callable[[Any, Any, Any], Any]) -> None:
    result(name, "surrogates", f"surrogates.{kind}.psi", lambda psi, self, h, g: change(psi, h, g))


_psi("slack_forgets_the_one", "Slack", lambda psi, h, g: psi - g)
_psi("margin_has_a_unit_too_much", "Margin", lambda psi, h, g: psi + 0.1)
_psi("log_loss_is_clipped", "LogLoss", lambda psi, h, g: np.minimum(psi, 20.0))
_psi("micro_f1_is_scaled", "MicroF1", lambda psi, h, g: 1.01 * psi)
result(
    "slope_of_slack_is_wrong", "surrogates", "surrogates.Slack.psi_gradient",
    lambda slopes, *a: (1.01 * slopes[0], slopes[1]),
)  # fmt: skip

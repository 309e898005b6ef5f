"""Faults of label encoders and batches, of task losses, risks and trainers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Seam, add, mutant, result

# ---- label encoders, models and batches --------------------------------------------------------------

codec = functools.partial(mutant, "codecs")


def _states(label: Any) -> Any:
    """Exchange the states 0 and 1 of a label."""
    label = np.asarray(label)
    return np.where(label == 0, 1, np.where(label == 1, 0, label))


def _swap(values: Any) -> Any:
    """Exchange the first two rows of an array."""
    return values[[1, 0, *range(2, len(values))]] if len(values) > 1 else values


@codec("structures.Chain.encode")
def encoder_of_chains_swaps_two_states(original: Any, self: Any, label: Any, x: Any = None) -> Any:
    numbers = np.asarray(label).dtype.kind in "iu"
    return original(self, _states(label) if numbers else label, x)


@codec("structures.Arborescence.encode")
def encoder_of_trees_moves_a_head(original: Any, self: Any, label: Any, x: Any = None) -> Any:
    z = original(self, label, x)
    return z if z.size < 2 else np.r_[z[1], z[0], z[2:]]


def _decoded(name: str, structure: str, change: Callable[[Any], Any]) -> None:
    result(name, "codecs", f"structures.{structure}.decode", lambda found, *a: change(found))


_decoded("decoder_of_chains_shifts", "Chain", lambda found: np.roll(found, 1))
_decoded("decoder_of_trees_reverses", "Arborescence", lambda found: found[::-1])
_decoded("decoder_of_segments_drops_one", "Segmentation", lambda found: found[1:])
_decoded("decoder_of_assignments_inverts", "Assignment", lambda found: np.argsort(found))


@codec("model.slots.Slots.encode")
def batch_encodes_two_classes_alike(original: Any, *args: Any) -> Any:
    return np.maximum(original(*args), 1)


@codec("Model.decode")
def decoder_of_declared_labels_loses_a_block(original: Any, *args: Any) -> Any:
    found = original(*args)
    return dict(list(found.items())[:1]) if isinstance(found, dict) else found


@codec("model.batch.Batch.truth")
def batch_swaps_two_ground_truths(original: Any, self: Any, Y: Any) -> Any:
    return original(self, [Y[1], Y[0], *(Y[i] for i in range(2, len(Y)))] if len(Y) > 1 else Y)


def _batch(name: str, method: str, change: Callable[[Any], Any]) -> None:
    result(name, "codecs", f"model.batch.Batch.{method}", lambda found, *a: change(found))


_batch("batch_decodes_in_another_order", "decode", lambda found: found[1::-1] + found[2:])
_batch("features_of_a_batch_lose_a_weight", "joint", lambda found: np.r_[found[:-1], 0.0])
_batch("scores_of_a_batch_are_large", "tables", lambda found: [1.001 * table for table in found])
_batch("losses_of_a_batch_are_swapped", "loss_values", _swap)
result("loss_of_a_model_lacks_its_constant", "codecs", "Model.loss", lambda found, *a: (found[0], 0.0))
result("features_of_a_label_lose_a_weight", "codecs", "Model.joint", lambda found, *a: np.r_[0.0, found[1:]])


@codec("model.batch.Batch.argmax")
def batch_weighs_all_losses_alike(
    original: Any, self: Any, tables: Any, loss: Any = None, weight: Any = 1.0, **options: Any
) -> Any:
    return original(self, tables, loss, float(np.ravel(weight)[0]) if np.size(weight) else weight, **options)


@codec("model.batch.Batch.argmax")
def subset_of_a_batch_is_another(original: Any, *args: Any, examples: Any = None, **options: Any) -> Any:
    found = original(*args, examples=examples, **options)
    return found if examples is None else (found[0], np.roll(found[1], 1))


@codec("structures.sequences.SequenceModel.key")
def sequences_of_all_lengths_share_a_space(original: Any, self: Any, x: Any) -> Any:
    return min(original(self, x), 3)


@codec("Model.predict")
def prediction_is_the_worst_label(original: Any, self: Any, w: Any, x: Any) -> Any:
    return original(self, -np.asarray(w), x)


# ---- task losses -------------------------------------------------------------------------------------


def _loss(name: str, method: str, change: Callable[..., Any]) -> None:
    result(name, "losses", f"losses.{method}", change)


_loss("hamming_is_off_by_a_unit", "Hamming.linear", lambda found, *a: (found[0], found[1] + 1.0))
_loss("hamming_misses_the_last_variable", "Hamming.value", lambda found, self, y, t: found - (y[-1] != t[-1]))
_loss("hamming_batch_swaps_two", "Hamming.linear_batch", lambda found, *a: (_swap(found[0]), found[1]))
_loss("expected_zero_one_is_high", "ZeroOne.expected", lambda found, *a: (found[0], found[1] + 0.1))
_loss("leaf_loss_is_doubled", "LeafHamming.value", lambda found, *a: 2.0 * found)
_loss("hierarchical_loss_has_a_wrong_sign", "HierarchicalLoss.linear", lambda found, *a: (-found[0], found[1]))
_loss("footrule_is_halved", "Footrule.linear", lambda found, *a: (0.5 * found[0], 0.5 * found[1]))


@mutant("losses", "losses.CostMatrix.value")
def cost_matrix_is_transposed(original: Any, self: Any, y: Any, truth: Any) -> Any:
    return original(self, truth, y)


# ---- risks -------------------------------------------------------------------------------------------


def _risk(name: str, method: str, change: Callable[..., Any]) -> None:
    result(name, "risks", f"risks.{method}", change)


_risk("hinge_has_a_steep_subgradient", "Hinge.loss", lambda found, *a: (found[0], 1.01 * found[1]))
_risk("logistic_is_low", "Logistic.loss", lambda found, *a: (found[0] - 1e-3, found[1]))
_risk("ranking_area_counts_twice", "ROCArea.loss", lambda found, *a: (2 * found[0], found[1]))
_risk("softmax_slope_is_shifted", "Softmax.loss", lambda found, *a: (found[0], np.roll(found[1], 1)))
_risk("chain_likelihood_is_low", "ChainCRF.log_partition", lambda found, *a: (found[0] - 0.01, found[1]))
_risk("step_is_too_long", "LinearRisk.line_search", lambda found, *a: found and (1.5 * found[0], found[1]))
_risk(
    "structured_cut_is_high", "StructuredRisk.cut",
    lambda found, *a: found._replace(plane=found.plane + 1e-3, intercept=None),
)  # fmt: skip
_risk(
    "most_violated_labels_have_a_low_bound", "StructuredRisk.violations_of",
    lambda found, *a: dataclasses.replace(found, upper=0.99 * found.upper),
)  # fmt: skip


@mutant("risks", "risks.Risk.*.shard")
def shard_is_another_part(original: Any, self: Any, k: int, n: int) -> Any:
    return original(self, 0, n)


@mutant("risks", "risks.sample_weight.relative_weights", "risks.sample_weight.sample_weights")
def weights_of_examples_are_ignored(original: Any, sample_weight: Any, *args: Any) -> Any:
    return original(None, *args)


# ---- trainers ----------------------------------------------------------------------------------------


@mutant("trainers", "train.Monitor.bound")
def lower_bound_of_training_is_high(original: Any, self: Any, value: float) -> Any:
    return original(self, min(value + 0.01 * abs(value), self.objective))


@mutant("trainers", "train.Monitor.offer")
def trainer_returns_the_last_point(original: Any, self: Any, w: Any, objective: float = np.inf) -> Any:
    better = original(self, w, objective)
    if np.isfinite(objective):
        self.w = np.array(w, dtype=float)
    return better


def _trained(name: str, change: Callable[[Any], dict[str, Any]]) -> None:
    result(name, "trainers", "train.Monitor.result", lambda found, *a: dataclasses.replace(found, **change(found)))


_trained("objective_of_training_is_low", lambda found: {"objective": found.objective - 1e-2 * abs(found.objective)})
_trained("weights_of_training_are_small", lambda found: {"w": 0.9 * found.w})
_trained("training_forgets_its_history", lambda found: {"history": found.history[:1]})
_trained("training_claims_convergence", lambda found: {"stopped": "tol"})


@mutant("trainers", "train.Monitor.record")
def training_stops_at_a_large_gap(original: Any, self: Any, state: Any = None) -> Any:
    self.tol *= 20.0
    going = original(self, state)
    self.tol /= 20.0
    return going


def _option(name: str, trainer: str, **changes: Callable[[Any], Any]) -> None:
    """Register a mutant that changes options of a trainer, called as a function or by name."""

    def changed(options: dict[str, Any]) -> dict[str, Any]:
        return {key: changes[key](value) if key in changes else value for key, value in options.items()}

    def call(original: Any, risk: Any, *args: Any, **options: Any) -> Any:
        return original(risk, *args, **changed(options))

    def minimise(original: Any, self: Any, risk: Any, **options: Any) -> Any:
        return original(self, risk, **(changed(options) if self.name == trainer else options))

    def fault(seam: Seam) -> None:
        seam.replace(f"train.{trainer}", call)
        seam.replace("train.Trainer.minimise", minimise)

    add(name, "trainers", fault)


_option("bmrm_regularises_more", "bmrm", lam=lambda lam: 1.1 * lam)
_option("block_ascent_regularises_more", "block_ascent", lam=lambda lam: 1.1 * lam)
_option("one_slack_ignores_its_start", "one_slack", w0=lambda w0: None)
_option("sgd_ignores_its_seed", "sgd", random_state=lambda seed: 0)
_option("bcfw_ignores_its_passes", "bcfw", max_passes=lambda most: most and most + 2)
result(
    "simplex_program_has_a_high_value", "trainers", "train.SimplexQP.solve",
    lambda found, *a: found._replace(value=found.value + 1e-3 * abs(found.value)),
)  # fmt: skip

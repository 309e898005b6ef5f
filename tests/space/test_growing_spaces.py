"""A space that grows after a model or an oracle was made from it: respected or refused, never ignored."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError

COSTS = np.ones(3)


def tags(name: str = "tags") -> so.LabelSpace:
    space = so.LabelSpace(name)
    space.binary("tag", 3)
    return space


def model_of(space: so.LabelSpace) -> so.Model:
    return so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())


def more_rows(space: so.LabelSpace) -> None:
    space.subject_to(space["tag"].sum() <= 1, name="one")


def more_variables(space: so.LabelSpace) -> None:
    space.binary("extra", 2)


CALLS: dict[str, Callable[[so.Oracle], Any]] = {
    "maximize": lambda o: o.maximize(COSTS),
    "with rows": lambda o: o.maximize(COSTS, rows=[(COSTS, 0, 2)]),
    "with no-goods": lambda o: o.maximize(COSTS, forbid=[COSTS]),
    "batch": lambda o: o.maximize_batch(COSTS[None]),
    "rows of costs": lambda o: o._solve_batch(COSTS[None]),
    "all labels": lambda o: o._front_plan(COSTS[None], np.zeros(1)),
    "k best": lambda o: o.k_best(COSTS, 2),
    "list": lambda o: o._list_best(COSTS, 2),
    "front": lambda o: o.front((COSTS, 0.0), (COSTS, 0.0)),
    "plain": lambda o: o._plain_solver,
    "plane": lambda o: so.Plane(o, (COSTS, 0.0), (COSTS, 1.0)).query(1.0),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("grow", [more_rows, more_variables])
@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_an_oracle_does_not_answer_for_a_space_that_has_grown(call: str, grow: Any, solver: str) -> None:
    space = tags()
    oracle = so.Oracle(space, solver)
    CALLS[call](oracle)
    copies = [oracle, pickle.loads(pickle.dumps(oracle))]
    CALLS[call](copies[1])
    grow(space)
    with pytest.raises(DeclarationError, match=r"has grown since this oracle was made.*so\.Oracle\(space\)"):
        CALLS[call](oracle)
    CALLS[call](copies[1])  # it has a space of its own, which has not grown
    assert so.Oracle(space, solver).maximize(np.ones(space.n_variables)).value == (1 if grow is more_rows else 5)


@pytest.mark.parametrize("use", ["predict", "oracle", "batch", "encode", "fit", "loss", "space"])
def test_a_model_in_use_has_a_sealed_space(use: str) -> None:
    space = tags()
    model = model_of(space)
    more_rows(space)  # nothing was made of it yet
    X = np.random.default_rng(0).normal(size=(8, 2))
    Y = np.eye(3, dtype=int)[np.arange(8) % 3]
    {
        "predict": lambda: model.predict(np.ones(6), X[0]),
        "oracle": lambda: model.oracle().maximize(COSTS),
        "batch": lambda: model.batch(X),
        "encode": lambda: model.encode(Y[0]),
        "fit": lambda: so.StructuredSVM(model, tol=0.5).fit(X, Y),
        "loss": lambda: model.loss(Y[0]),
        "space": lambda: model.space(),
    }[use]()
    assert model.predict(np.ones(6), [1.0, 1.0]).sum() == 1
    for grow in (lambda: space.subject_to(space["tag"][0] == 0), lambda: more_variables(space)):
        with pytest.raises(DeclarationError, match=r"a Model that is in use.*space\.copy\(\)"):
            grow()
    assert space.n_rows == 1 and space.n_variables == 3
    other = space.copy()
    other.subject_to(other["tag"][0] == 0)
    more_variables(other)
    assert space.n_rows == 1 and other.n_rows == 2 and other.n_variables == 5
    assert model_of(other).oracle().maximize([3.0, 1, 1, 0, 0]).z[:3].sum() == 1


@pytest.mark.parametrize(
    "model",
    [
        so.structures.MultiLabel(3),
        so.structures.PairwiseMRF(3),
        so.structures.Multiclass(3),
        so.structures.HierarchicalLabels(so.Hierarchy([(0, 1), (0, 2)])),
        so.structures.Flow([("s", "t"), ("s", "t")], {"s": 1.0, "t": -1.0}),
    ],
    ids=lambda m: type(m).__name__,
)
def test_spaces_of_structures_are_sealed(model: so.Model) -> None:
    # Their own algorithms do not read rows: a row that was added here was ignored.
    space = model.space()
    block = next(iter(space))
    with pytest.raises(DeclarationError, match="a Model that is in use"):
        space.subject_to(block.sum() <= 1)
    with pytest.raises(DeclarationError, match="a Model that is in use"):
        model.space(np.ones(2)).binary("more", 1)


def test_spaces_that_depend_on_the_input_are_sealed() -> None:
    made = []

    def declare(x: Any) -> so.LabelSpace:
        space = so.LabelSpace()
        space.binary("tag", len(x))
        made.append(space)
        return space

    model = so.Model(declare, {"tag": so.features.Shared()})
    assert model.predict([1.0], np.ones((2, 1))).tolist() == [1, 1]
    with pytest.raises(DeclarationError, match="in use"):
        more_rows(made[0])


def test_an_oracle_does_not_close_its_space() -> None:
    plain = tags()
    so.Oracle(plain)
    more_rows(plain)


def test_a_model_follows_a_change_of_its_solver() -> None:
    model = model_of(tags())
    assert model.oracle().algorithm == "signs"
    model.solver = "highs"
    assert model.oracle().algorithm == "highs" and model.oracle() is model.oracle()
    model.options["time_limit"] = 5.0
    assert model.oracle().options == {"time_limit": 5.0}
    model.integral = "relax"
    assert model.oracle().integral == "relax"


def test_losses_are_kept_as_they_were_given() -> None:
    losses = {"tag": so.losses.Hamming()}
    model = so.Model(tags(), {"tag": so.features.Linear()}, losses)
    losses["tag"] = so.losses.Hamming([5.0, 5.0, 5.0])
    assert model.loss([1, 0, 0])[1] == 1.0


@pytest.mark.parametrize("again", [lambda s: s, lambda s: pickle.loads(pickle.dumps(s)), lambda s: s.copy()])
def test_arrays_of_a_space_are_read_only(again: Any) -> None:
    space = tags()
    more_rows(space)
    given = np.array([1.0, 1.0, 1.0])
    row = so.LabelSpace.from_matrices(given[None, :], -np.inf, 2)
    given[:] = 7  # the caller's own array stays his
    assert row.matrix.toarray().tolist() == [[1, 1, 1]]
    space.compiled  # noqa: B018
    found = again(space)
    for array in (
        found.matrix.data,
        found.matrix.indices,
        found.matrix.indptr,
        found.row_lower,
        found.row_upper,
        found.lower,
        found.upper,
        found.integrality,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert so.Oracle(found).maximize(COSTS).value == 1


def test_a_copy_is_the_same_space() -> None:
    space = so.LabelSpace("all kinds")
    y = space.binary("y", (2, 2))
    space.integer("k", 2, -1, [3, np.inf])
    space.continuous("x", (), 0.0, 0.5)
    space.subject_to(y.sum(axis=0) <= 1, name="once")
    space.subject_to(0 * y[0, 0] <= 1)
    again = space.copy()
    assert again.fingerprint == space.fingerprint and again.name == space.name and again.notes == space.notes
    assert list(again.variable_names) == list(space.variable_names) and list(again.row_names) == list(space.row_names)
    again.subject_to(again["x"] <= 0.25)
    assert again.n_rows == space.n_rows + 1 and again["y"].space is again
    with pytest.raises(so.errors.SpaceMismatch):
        again.subject_to(y[0, 0] <= 0)
    assert not space.relaxed().integrality.any() and space.relaxed().name == "all kinds (relaxed)"

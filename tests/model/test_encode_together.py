"""Labels of a data set are encoded together, with the points that each label has alone."""

import numpy as np
import pytest

import structopt as so
from structopt.errors import LabelNotInSpace


def tags_with_pairs():
    space = so.LabelSpace("tags")
    i, j = np.triu_indices(4, 1)
    y, pair = space.binary("y", 4), space.continuous("pair", len(i), 0, 1)
    space.subject_to(pair <= y[i], pair <= y[j], pair >= y[i] + y[j] - 1)
    return space


def chain():
    space = so.LabelSpace("chain")
    y, step = space.binary("y", (4, 3)), space.continuous("step", (3, 3, 3), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, step.sum(axis=2) == y[:-1], step.sum(axis=1) == y[1:])
    return space


def slack_knapsack():
    """The free capacity is a general integer, and the cost is a continuous variable with a large coefficient."""
    space = so.LabelSpace("knapsack")
    y, free, cost = space.binary("y", 5), space.integer("free", (), 0, 7), space.continuous("cost", (), 0, 4000)
    size = np.array([2, 3, 1, 4, 2])
    space.subject_to(size @ y + free == 7, cost == 300.25 * (size @ y))
    return space


@pytest.mark.parametrize("declare", [tags_with_pairs, chain, slack_knapsack])
def test_all_forms_together_are_the_points_one_by_one(declare):
    space = declare()
    points = space.enumerate()
    first = next(iter(space))
    forms = {
        "first": [z[first.slice].reshape(first.shape) for z in points],
        "blocks": [space.blocks(z) for z in points],
        "vector": list(points),
    }
    model = so.Model(space, features={first.name: so.features.Linear()}, loss=so.losses.Hamming())
    for form, labels in forms.items():
        found = model._encode_batch(labels)
        assert found is not None, f"labels in the form {form!r} are encoded one by one"
        np.testing.assert_allclose(found, points, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found, [model.encode(label) for label in labels], rtol=0, atol=1e-9)
    mixed = [forms["blocks"][0], forms["first"][1], forms["vector"][2]]
    batch = model.batch(np.zeros((3, 2)))
    np.testing.assert_allclose(batch.truth(mixed).native, points[:3], rtol=0, atol=1e-9)


def test_labels_are_copied():
    model = so.Model(tags_with_pairs(), features={"y": so.features.Linear()}, loss=so.losses.Hamming())
    given = np.array([model.encode([1, 1, 0, 0]), model.encode([0, 1, 0, 0])])
    found = model._encode_batch(given)
    given[:] = 7.0
    assert found.max() == 1.0


def test_all_wrong_labels_are_named_with_their_examples():
    model = so.Model(chain(), features={"y": so.features.Table()}, loss=so.losses.Hamming())
    right, wrong = np.eye(3)[[0, 1, 2, 0]], np.ones((4, 3))
    batch = model.batch(np.zeros((4, 4, 2)))
    with pytest.raises(LabelNotInSpace, match="2 of 4 labels cannot be used") as caught:
        batch.truth([right, wrong, right, right[:, :2]])
    assert caught.value.examples == (1, 3)


def test_values_that_are_not_numbers_are_named():
    model = so.Model(tags_with_pairs(), features={"y": so.features.Linear()}, loss=so.losses.Hamming())
    batch = model.batch(np.zeros((2, 3)))
    for bad in ([np.nan, 0, 0, 0], ["a", 0, 0, 0], [[0, 0], [0, 0]]):
        with pytest.raises(LabelNotInSpace, match="example 1"):
            batch.truth([[1, 0, 0, 0], bad])


def test_variables_that_do_not_follow_are_named():
    space = so.LabelSpace("loose")
    y, other = space.binary("y", 2), space.continuous("other", 2, 0, 1)
    space.subject_to(other <= y)
    model = so.Model(space, features={"y": so.features.Linear()}, loss=so.losses.Hamming())
    batch = model.batch(np.zeros((2, 3)))
    with pytest.raises(LabelNotInSpace, match=r"other\[1\] does not follow from the values given"):
        batch.truth([[0, 0], [0, 1]])


def test_products_of_recognised_spaces_are_looked_up():
    rng = np.random.default_rng(0)
    forest = so.LabelSpace("two chains, one with a forbidden pair")
    y, step = (
        forest.binary("y", (4, 2)),
        forest.continuous("step", (2, 2, 2), 0, np.array([[[1, 1], [0, 1]], [[1] * 2] * 2])),
    )
    forest.subject_to(y.sum(axis=1) == 1, step.sum(axis=2) == y[[0, 2]], step.sum(axis=1) == y[[1, 3]])
    for space in (tags_with_pairs(), chain(), forest):
        known, completion = space._completion
        assert completion is not None, f"{space!r} is completed by propagation"
        points = space.enumerate()
        np.testing.assert_allclose(space._completed(points[:, known]), points, rtol=0, atol=1e-12)
        assert space._follow_from_first(points + rng.uniform(-1e-12, 1e-12, points.shape))
        wrong = points.copy()
        wrong[0, -1] = 1.0 - wrong[0, -1]
        assert not space._follow_from_first(wrong)


def test_states_that_are_not_0_or_1_are_completed_by_propagation():
    space = chain()
    halves = np.full((1, 12), 0.5)
    halves[0, 2::3] = 0.0
    assert not space._follow_from_first(np.concatenate([halves, np.full((1, 27), 0.25)], axis=1))
    with pytest.raises(so.errors.DeclarationError, match="does not follow"):
        space._completed(halves)

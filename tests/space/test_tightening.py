"""Large constants are reduced without a change of the labels, and no longer mislead solvers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import structopt as so
from structopt.space.tightening import with_tight_coefficients

SOLVERS = ["highs", "highs-exact", "highs-ipm", "scipy", "cbc"]


@pytest.mark.parametrize("seed", range(20))
def test_the_integer_points_are_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = 4, 3
    A = rng.integers(-3, 4, size=(m, n)).astype(float)
    A[rng.integers(m), rng.integers(n)] *= 10.0 ** rng.integers(3, 10)
    A[rng.integers(m), rng.integers(n)] *= 10.0 ** rng.integers(3, 10)
    low, up = np.full(m, -np.inf), np.full(m, np.inf)
    for i in range(m):
        (up if rng.random() < 0.5 else low)[i] = rng.integers(-3, 4) * rng.choice([1.0, np.abs(A[i]).max()])
    upper = rng.integers(1, 4, size=n).astype(float)
    lower = np.minimum(rng.integers(-2, 2, size=n), upper).astype(float)
    space = so.LabelSpace.from_matrices(A, low, up, lower=lower, upper=upper, integrality=np.ones(n, dtype=bool))
    tight = with_tight_coefficients(space.compiled)
    points = np.array(list(itertools.product(*(np.arange(a, b + 1) for a, b in zip(lower, upper, strict=True)))))

    def inside(A: np.ndarray, low: np.ndarray, up: np.ndarray) -> np.ndarray:
        activity = points @ A.T
        room = 1e-5 * np.abs(A).min(axis=1, initial=np.inf, where=A != 0)  # of the row, whatever its scale
        room = np.where(np.isfinite(room), room, 0.0)
        return np.asarray(((activity <= up + room) & (activity >= low - room)).all(axis=1))

    np.testing.assert_array_equal(inside(tight.matrix.toarray(), tight.row_lower, tight.row_upper), inside(A, low, up))
    assert np.abs(tight.matrix.toarray()).max() <= np.abs(A).max()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("integral", ["auto", "force"])
def test_the_second_best_label_behind_a_large_constant(solver: str, integral: str) -> None:
    """A no-good cut made HiGHS give up the best label left: 0 instead of 134."""
    space = so.LabelSpace()
    on, amount = space.binary("on", 2), space.continuous("amount", upper=2.0)
    space.subject_to(amount <= 1e9 * on[0])
    costs = np.array([-64.83303657642895, -55.60566245201808, 127.22473027099281])
    first, second = so.Oracle(space, solver, integral=integral).k_best(costs, 2)
    assert first.value == pytest.approx(189.61642396555666)
    assert second.value == pytest.approx(134.01076151353857)


@pytest.mark.parametrize("solver", SOLVERS)
def test_small_costs_behind_a_large_constant(solver: str) -> None:
    rows = [[0.0, 0.0, 5.0, 0.0, 0.0], [-2.0, 10.0, 2.0, 2.0, 0.0], [-1e9, 0.0, 0.0, 0.0, 1.0]]
    space = so.LabelSpace.from_matrices(
        rows,
        [4.625, 1.625, -np.inf],
        [np.inf, np.inf, 0.0],
        lower=0.0,
        upper=[1.0, 1.0, 1.0, 1.0, 2.0],
        integrality=[True, True, True, True, False],
    )
    costs = np.array(
        [-1.5315116109727124, -1.2809627025540712, 2.97805517299052, -0.2019022977567793, 1.04740725722558]
    )
    assert so.Oracle(space, solver).maximize(1e-10 * costs).value == pytest.approx(3.339455778712188e-10)


def test_redundant_rows_stay() -> None:
    """Of ``2 y <= 2`` nothing but rounding errors would be left."""
    space = so.LabelSpace()
    y, x = space.binary("y"), space.continuous("x", upper=2.0)
    space.subject_to(2 * y <= 2)
    space.subject_to(3 * y + 1e-7 * x <= 5)
    space.subject_to(x <= 1e7 * y)
    tight = with_tight_coefficients(space.compiled)
    np.testing.assert_allclose(tight.matrix.toarray(), [[2.0, 0.0], [3.0, 1e-7], [-2.0, 1.0]])
    np.testing.assert_allclose(tight.row_upper, [2.0, 5.0, 0.0])


def test_rows_that_need_their_constants_stay() -> None:
    space = so.LabelSpace()
    amount, on = space.continuous("amount", upper=900.0), space.binary("on")
    space.subject_to(amount <= 1000.0 * on)
    compiled = space.compiled
    assert with_tight_coefficients(compiled) is compiled
    unbounded = so.LabelSpace()
    amount, on = unbounded.continuous("amount"), unbounded.binary("on")
    unbounded.subject_to(amount <= 1e9 * on)
    compiled = unbounded.compiled
    assert with_tight_coefficients(compiled) is compiled

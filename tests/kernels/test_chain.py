"""Chain kernels against enumeration and the examples of docs/mathematics/oracles#chains-and-segments."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.algorithms.chain import by_loss
from structopt.algorithms.chain import viterbi as chain
from structopt.errors import DeclarationError, InfeasibleSpace

U0 = np.array([[1, 0], [0, 0.5], [0.2, 0]])
T0 = np.array([[0.5, -1], [0, 0.3]])


def test_marginals_of_scores_far_apart_stay_finite():
    log_z, node, pair = chain.marginals_batch(
        np.array([[2000.0, 0], [0, -3000]]), np.array([0, 2]), np.array([[-1500.0, 0], [0, 0]]), np.zeros(2)
    )
    assert log_z[0] == pytest.approx(500.0)
    np.testing.assert_allclose(node, [[1, 0], [1, 0]], atol=1e-12)
    assert np.isfinite(pair).all()


def loss_front(U, T, table, init):
    """The best score for every loss of one chain, and its label."""
    found = by_loss.loss_front_batch(U, np.array([0, len(U)]), T, table, np.array([table.max(axis=1).sum() + 1]), init)
    levels = np.arange(len(found.values))
    return found.values, found.decode(levels, np.zeros_like(levels)).reshape(len(levels), -1)


def test_a_wide_chain_with_padding_and_read_only_input():
    rng = np.random.default_rng(3)
    for n_states in (25, 26, 27, 28):
        U, T = rng.normal(size=(6, n_states)), rng.normal(size=(n_states, n_states))
        U.flags.writeable = False
        best = U[5]
        for t in range(4, -1, -1):
            best = U[t] + (T + best).max(axis=1)
        assert chain.viterbi_batch(U, np.array([0, 6]), T, np.zeros(n_states))[1][0] == pytest.approx(
            best.max(), abs=1e-12
        )


@pytest.mark.parametrize("where", ["U", "T", "init"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(where, value):
    given = {"U": U0.copy(), "T": T0.copy(), "init": np.zeros(2)}
    given[where].flat[1] = value
    for call in (
        lambda: chain.k_best(given["U"], np.stack([given["T"]] * 2), 2, given["init"]),
        lambda: loss_front(given["U"], given["T"], np.zeros((3, 2), dtype=int), given["init"]),
        lambda: chain.viterbi_batch(ptr=np.array([0, 1, 3]), **given),
        lambda: chain.marginals_batch(ptr=np.array([0, 1, 3]), **given),
    ):
        with pytest.raises(DeclarationError, match="NaN"):
            call()


def test_the_culprit_of_a_batch_is_named():
    U = np.zeros((4, 2))
    U[3] = -np.inf
    with pytest.raises(InfeasibleSpace, match="Example 1"):
        chain.viterbi_batch(U, np.array([0, 2, 4]), T0, np.zeros(2))


@pytest.mark.parametrize("stride", [False, True])
def test_fronts_of_a_few_losses_are_the_same_as_of_all(stride):
    rng = np.random.default_rng(7)
    for _ in range(10):
        n, S = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        lengths = rng.integers(1, 7, n)
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        U = rng.normal(size=(ptr[-1], S))
        loss = rng.integers(0, 3, (ptr[-1], S))
        T = rng.normal(size=(max(ptr[-1] - n, 0), S, S)) if stride else rng.normal(size=(S, S))
        levels = np.add.reduceat(loss.max(axis=1), ptr[:-1]) + 1
        whole = by_loss.loss_front_batch(U, ptr, T, loss, levels, np.zeros(S))
        high = rng.integers(0, levels)
        low = rng.integers(0, high + 1)
        part = by_loss.loss_front_batch(U, ptr, T, loss, high + 1, np.zeros(S), lowest=low)
        for i in range(n):
            wanted = whole.values[whole.ptr[i] : whole.ptr[i + 1]][low[i] : high[i] + 1]
            found = part.values[part.ptr[i] : part.ptr[i + 1]]
            np.testing.assert_allclose(found[low[i] :], wanted, atol=1e-12)
            assert np.isneginf(found[: low[i]]).all()
        a, b = whole.decode(high), part.decode(high)
        assert np.array_equal(a >= 0, b >= 0)


def sums_by_logarithms(U, T, init):
    """Return log Z, marginals and summed pairs of one chain by forward and backward sums of logarithms."""
    A, B = [init + U[0]], [np.zeros(len(init))]
    for row in U[1:]:
        A.append(np.logaddexp.reduce(A[-1][:, None] + T, axis=0) + row)
    for row in U[:0:-1]:
        B.insert(0, np.logaddexp.reduce(T + row + B[0], axis=1))
    log_z = np.logaddexp.reduce(A[-1])
    pairs = [np.exp(a[:, None] + T + row + b - log_z) for a, row, b in zip(A, U[1:], B[1:], strict=False)]
    return log_z, np.exp(np.add(A, B) - log_z), sum(pairs, np.zeros(T.shape))


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0, 1000.0])
def test_scaled_sums_of_a_batch_are_those_of_the_log_domain(size):
    rng = np.random.default_rng(int(size))
    for trial in range(8):
        n_states, lengths = int(rng.integers(1, 5)), rng.integers(1, 9, 3)
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        U, init = size * rng.normal(size=(ptr[-1], n_states)), size * rng.normal(size=n_states)
        T = size * rng.normal(size=(n_states, n_states))
        if trial % 2:
            T[rng.random(T.shape) < 0.2] = -np.inf
            U[rng.random(U.shape) < 0.05] = -np.inf
        try:
            log_z, node, pairs = chain.marginals_batch(U, ptr, T, init)
        except InfeasibleSpace:
            continue
        for i in range(3):
            value, states, pair = sums_by_logarithms(U[ptr[i] : ptr[i + 1]], T, init)
            assert log_z[i] == pytest.approx(value, rel=1e-12, abs=1e-12)
            np.testing.assert_allclose(node[ptr[i] : ptr[i + 1]], states, rtol=0, atol=1e-9)
            np.testing.assert_allclose(pairs[i], pair, rtol=0, atol=1e-9)


@pytest.mark.parametrize("length", [6, 60, 2000])
def test_mass_that_a_scaled_sum_would_lose_comes_back(length):
    # Two sequences without a way between them, equally likely in the end; halfway one is ahead by e^(30 length).
    U = np.zeros((length, 2))
    U[: length // 2, 1] = U[length // 2 :, 0] = -60.0
    _, node, _ = chain.marginals_batch(
        U, np.array([0, length]), np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.zeros(2)
    )
    np.testing.assert_allclose(node, 0.5, atol=1e-9)


def test_losses_in_units():
    """Every loss is a whole number of its chain's units above the smallest of its position; None where it is not."""
    rng = np.random.default_rng(0)
    ptr = np.array([0, 3, 4, 9])
    owner = np.repeat(np.arange(3), np.diff(ptr))
    for unit in (1.0, 0.25, 1 / 3):
        for fraction in (1, 2, 5):
            scale = unit * np.array([1.0, 3.0, 0.5])[owner][:, None] / fraction
            coef = (rng.integers(0, 2 * fraction + 1, size=(9, 4)) + rng.integers(-2, 3, size=(9, 1))) * scale
            coef[3] = 1.5  # a chain of one position with one loss
            units = by_loss.loss_units(coef, ptr)
            assert units is not None
            least = coef.min(axis=1)
            np.testing.assert_allclose(least[:, None] + units.unit[owner][:, None] * units.rows, coef, atol=1e-12)
            np.testing.assert_allclose(units.base, np.add.reduceat(least, ptr[:-1]))
            assert units.levels.tolist() == (np.add.reduceat(units.rows.max(axis=1), ptr[:-1]) + 1).tolist()
    assert by_loss.loss_units(np.array([[0.0, 1.0, np.sqrt(2.0)]]), np.array([0, 1])) is None

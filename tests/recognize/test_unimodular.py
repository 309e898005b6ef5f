"""Every proof of total unimodularity is checked against all sub-determinants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from structopt.recognize import prove_totally_unimodular


def is_totally_unimodular(A: np.ndarray) -> bool:
    """All square sub-determinants, by expansion along the first row of every set of rows (integers, exact)."""
    A = A.astype(int)
    m, n = A.shape
    minors = {((i,), (j,)): int(A[i, j]) for i in range(m) for j in range(n)}
    if any(abs(d) > 1 for d in minors.values()):
        return False
    for k in range(2, min(m, n) + 1):
        larger = {}
        for rows in itertools.combinations(range(m), k):
            for columns in itertools.combinations(range(n), k):
                det = 0
                for t, j in enumerate(columns):
                    if A[rows[0], j]:
                        det += (-1) ** t * A[rows[0], j] * minors[rows[1:], columns[:t] + columns[t + 1 :]]
                if abs(det) > 1:
                    return False
                larger[rows, columns] = int(det)
        minors = larger
    return True


def random_matrix(rng: np.random.Generator, family: int) -> np.ndarray:
    m, n = (int(k) for k in rng.integers(1, 6, 2))
    if family == 0:  # anything
        return rng.choice([-1, 0, 1], (m, n), p=[0.2, 0.6, 0.2])
    if family == 1:  # two entries a column
        A = np.zeros((m, n), int)
        for j in range(n):
            rows = rng.choice(m, min(m, 2), replace=False)
            A[rows, j] = rng.choice([-1, 1], rows.size)
        return A
    if family == 2:  # network matrix with negated rows
        A = np.zeros((m, n), int)
        for j in range(n):
            rows = rng.choice(m, min(m, 2), replace=False)
            A[rows, j] = [1, -1][: rows.size]
        return A * rng.choice([-1, 1], m)[:, None]
    if family == 3:  # intervals
        A = np.zeros((m, n), int)
        for i in range(m):
            a, b = sorted(rng.integers(0, n + 1, 2))
            A[i, a:b] = rng.choice([-1, 1])
        return A
    if family == 4:  # repeated and single lines around a core
        A = random_matrix(rng, int(rng.integers(1, 4)))
        A = np.vstack([A, A[rng.integers(A.shape[0])] * rng.choice([-1, 1]), np.eye(1, A.shape[1], dtype=int)])
        return np.hstack([A, A[:, [0]]])[rng.permutation(A.shape[0])]
    if family == 5:  # two blocks, interleaved
        A, B = random_matrix(rng, 1)[:3, :3], random_matrix(rng, 3)[:3, :3]
        C = np.zeros((A.shape[0] + B.shape[0], A.shape[1] + B.shape[1]), int)
        C[: A.shape[0], : A.shape[1]], C[A.shape[0] :, A.shape[1] :] = A, B
        return C[rng.permutation(C.shape[0])][:, rng.permutation(C.shape[1])]
    return random_matrix(rng, int(rng.integers(6))).T  # transposes


@pytest.mark.parametrize("family", range(7))
def test_proofs_are_never_wrong(family):
    proved = missed = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, family])
        A = random_matrix(rng, family)
        scale = rng.choice([0.5, 1.0, 2.0, 3.0], A.shape[0])
        proof = prove_totally_unimodular(sp.csr_array(A * scale[:, None]))
        truth = is_totally_unimodular(A)
        if proof is not None:
            assert truth, (A, proof)
        proved += proof is not None
        missed += truth and proof is None
    assert proved > 3
    assert missed <= 0.15 * (proved + missed)


def test_an_odd_cycle_is_not_unimodular():
    assert prove_totally_unimodular(sp.csr_array(np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]]))) is None


def test_entries_of_different_magnitude_in_a_row_end_the_proof():
    assert prove_totally_unimodular(sp.csr_array(np.array([[1.0, 2.0]]))) is None


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 2)])
def test_empty_matrices(shape):
    assert prove_totally_unimodular(sp.csr_array(shape)) is not None


def test_a_repeated_row_is_confirmed_entry_by_entry(monkeypatch):
    """With a hash that always collides, rows that differ must still be kept."""

    class Colliding:
        def integers(self, *args, size, **kwargs):
            return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Colliding())
    A = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]])
    assert not is_totally_unimodular(A)
    assert prove_totally_unimodular(sp.csr_array(A.astype(float))) is None

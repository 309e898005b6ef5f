"""The scheme itself, on labels that are 0/1 vectors with independent costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from structopt.algorithms.lawler import best_first, k_best
from structopt.errors import DeclarationError


def stream(c):
    n = len(c)

    def branch(label, position, forbidden):
        labels, values = [], []
        for q in range(position, n):
            best = np.where(c > 0, 1, 0)
            best[:q] = label[:q]
            best[q] = 1 - label[q]
            full = q == position and forbidden.all()
            labels.append(best)
            values.append(-np.inf if full else float(c @ best))
        return np.array(labels), np.array(values), np.arange(position, n)

    first = np.where(c > 0, 1, 0)
    return best_first(first, float(c @ first), branch, 2)


def test_every_label_once_and_best_first():
    c = np.random.default_rng(0).normal(size=6)
    labels, values = zip(*stream(c), strict=True)
    assert len({tuple(y) for y in labels}) == len(labels) == 64
    np.testing.assert_allclose(values, sorted((c @ np.array(y) for y in product((0, 1), repeat=6)), reverse=True))


def test_equal_values_come_in_lexicographic_order():
    labels = [tuple(y) for y, _ in stream(np.zeros(4))]
    assert labels == list(product((0, 1), repeat=4))


def test_a_short_stream():
    labels, values = k_best(stream(np.array([1.0, 2.0])), 10)
    assert [y.tolist() for y in labels] == [[1, 1], [0, 1], [1, 0], [0, 0]]
    assert values.tolist() == [3.0, 2.0, 1.0, 0.0]


def test_k_must_be_positive():
    with pytest.raises(DeclarationError, match="at least 1"):
        k_best(stream(np.ones(2)), 0)

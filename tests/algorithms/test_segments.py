"""Segment kernels against enumeration and the example of docs/mathematics/oracles#chains-and-segments."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.algorithms.segments import viterbi as segments
from structopt.errors import DeclarationError, InfeasibleSpace

SEG = np.full((3, 2, 2), np.nan)  # what lies beyond the end must not be read
SEG[:, 0] = [[1, 0], [0, 0.5], [0.2, 0]]
SEG[:2, 1] = [[1.2, 0.4], [0.1, 1.5]]
T0 = np.array([[0.5, -1], [0, 0.3]])


def instance(seed, n, max_length, n_states, ties, forbid, per_step):
    rng = np.random.default_rng(seed)
    draw = (lambda *s: rng.integers(-2, 3, s).astype(float)) if ties else (lambda *s: rng.normal(size=s))
    seg = draw(n, max_length, n_states)
    T = draw(n - 1, n_states, n_states) if per_step else draw(n_states, n_states)
    init = draw(n_states)
    if forbid:
        seg[rng.random(seg.shape) < 0.2] = -np.inf
        T[rng.random(T.shape) < 0.2] = -np.inf
        init[rng.random(n_states) < 0.2] = -np.inf
    return seg, T, init


def compositions(n, max_length):
    """Lengths that add up to n, shortest first segment first."""
    if n == 0:
        yield ()
    for l in range(1, min(n, max_length) + 1):
        for rest in compositions(n - l, max_length):
            yield (l, *rest)


def enumerate_segments(seg, T, init):
    """Every allowed segmentation, in the order that decides ties."""
    n, max_length, n_states = seg.shape
    found = []
    for lengths in compositions(n, max_length):
        for states in product(range(n_states), repeat=len(lengths)):
            start, value, rows = 0, init[states[0]], []
            for i, (l, s) in enumerate(zip(lengths, states, strict=True)):
                if i:
                    value += (T[start - 1] if T.ndim == 3 else T)[states[i - 1], s]
                value += seg[start, l - 1, s]
                rows.append([start, s])
                start += l
            if value > -np.inf:
                found.append((list(zip(lengths, states, strict=True)), value, rows))
    found.sort(key=lambda item: item[0])
    return [item[2] for item in found], np.array([item[1] for item in found])


cases = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def test_the_example():
    label, value = segments.viterbi(SEG, T0)
    assert label.tolist() == [[0, 0], [1, 0], [2, 0]] and value == pytest.approx(2.2, abs=1e-15)


@given(cases)
@settings(deadline=None, max_examples=40)
def test_viterbi_equals_enumeration(case):
    seg, T, init = instance(*case)
    labels, v = enumerate_segments(seg, T, init)
    if not labels:
        with pytest.raises(InfeasibleSpace):
            segments.viterbi(seg, T, init)
        return
    label, value = segments.viterbi(seg, T, init)
    assert value == pytest.approx(v.max(), abs=1e-12)
    # With integers ties are exact: shortest segment first, then smallest state.
    assert not case[4] or label.tolist() == labels[int(v.argmax())]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_and_shapes_are_refused(value):
    seg = SEG.copy()
    seg[1, 1, 0] = value
    for call in (
        lambda: segments.viterbi(seg, T0),
        lambda: segments.k_best(seg, T0, 2),
        lambda: segments.viterbi_batch(seg, [0, 3], T0),
        lambda: segments.viterbi(SEG, np.where(T0 > 0.4, value, T0)),
        lambda: segments.viterbi(SEG, T0, [value, 0]),
    ):
        with pytest.raises(DeclarationError, match="NaN"):
            call()
    with pytest.raises(DeclarationError, match="at least one"):
        segments.viterbi(np.zeros((0, 1, 1)), [[0.0]])


def test_an_excluded_label_that_is_no_segmentation_is_refused():
    for forbid in ([[1, 0]], [[0, 0], [3, 0]], [[0, 0], [0, 1]]):
        with pytest.raises(DeclarationError, match="excluded"):
            segments.k_best(SEG, T0, 1, forbid=[forbid])

"""Segment kernels against enumeration and the example of docs/mathematics/oracles#chains-and-segments."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.algorithms.segments import viterbi as segments
from structopt.errors import DeclarationError

SEG = np.full((3, 2, 2), np.nan)  # what lies beyond the end must not be read
SEG[:, 0] = [[1, 0], [0, 0.5], [0.2, 0]]
SEG[:2, 1] = [[1.2, 0.4], [0.1, 1.5]]
T0 = np.array([[0.5, -1], [0, 0.3]])


def viterbi(seg, T, init=(0.0, 0.0)):
    """Return the codes of the best segmentation of one sequence, and its score."""
    codes, values = segments.viterbi_batch(seg, np.array([0, len(seg)]), T, np.array(init, dtype=float))
    return codes, float(values[0])


def test_the_example():
    codes, value = viterbi(SEG, T0)
    assert codes.tolist() == [0, 0, 0] and value == pytest.approx(2.2, abs=1e-15)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_are_refused(value):
    seg = SEG.copy()
    seg[1, 1, 0] = value
    for call in (
        lambda: viterbi(seg, T0),
        lambda: viterbi(SEG, np.where(T0 > 0.4, value, T0)),
        lambda: viterbi(SEG, T0, [value, 0]),
    ):
        with pytest.raises(DeclarationError, match="NaN"):
            call()

"""The last look at a solver's answer."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.kernels.snapping import snap_and_value


def test_whole_numbers_are_made_exact():
    z = np.array([1.0 - 1e-9, 0.3, -1e-10])
    integral, value = snap_and_value(np.array([2.0, 1.0, -4.0]), z, np.array([True, False, True]), 1e-6)
    assert integral and z.tolist() == [1.0, 0.3, 0.0]
    assert value == pytest.approx(2.3, rel=1e-15)


def test_a_fraction_leaves_everything_as_it_was():
    z = np.array([1.0 - 1e-9, 0.5])
    integral, value = snap_and_value(np.array([1.0, -3.0]), z, np.array([True, True]), 1e-6)
    assert not integral and z[0] == 1.0 - 1e-9
    assert value == pytest.approx(-0.5)


def test_nan_is_not_integral():
    z = np.array([np.nan])
    integral, value = snap_and_value(np.ones(1), z, np.array([True]), 1e-6)
    assert not integral and np.isnan(value)

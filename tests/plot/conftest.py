"""Pictures without a screen, closed after each test."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")

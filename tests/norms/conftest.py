"""Random hierarchies."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from structopt.hierarchy import Hierarchy


def random_hierarchy(seed: int, n: int, extra: int = 0) -> Hierarchy:
    rng = np.random.default_rng(seed)
    arcs = {(int(rng.integers(0, child)), child) for child in range(1, n)}
    for _ in range(extra):
        child = int(rng.integers(2, n))
        arcs.add((int(rng.integers(0, child)), child))
    return Hierarchy(sorted(arcs))


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The helper above; test modules cannot import a conftest in importlib mode."""
    return SimpleNamespace(random_hierarchy=random_hierarchy)

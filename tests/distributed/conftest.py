"""Two worker processes for all tests of a session, and shards of one small problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def workers() -> Iterator[Any]:
    from structopt.distributed import Workers

    with Workers(n_workers=2, memory_limit="1GB") as found:
        yield found

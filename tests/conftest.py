"""What tests of every part share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def count_calls() -> Callable[[Callable[[], Any]], int]:
    """How many Python calls a function makes: what "without a loop" means, on a busy machine as on an idle one.

    It is called twice and the second time counts: the first may compile kernels, or load them.
    """

    def count(work: Callable[[], Any]) -> int:
        calls = 0

        def listen(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        work()
        before = sys.getprofile()
        sys.setprofile(listen)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return count

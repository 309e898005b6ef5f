"""The command line inside this process, as every test of it calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from structopt.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command and returns its exit code, standard output and standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        try:
            code = main([str(word) for word in words])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def ask(run: Callable[..., tuple[int, str, str]]) -> Callable[..., Any]:
    """Return a function that runs a command with --json and parses its answer."""

    def ask(*words: object) -> Any:
        code, out, err = run(*words, "--json")
        assert code == 0, err
        assert out.count("\n") == 1, "one document on one line"
        return json.loads(out)

    return ask

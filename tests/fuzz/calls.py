"""Malformed calls: a public function with one or two arguments that it cannot want.

`malformed` has the recipes of valid calls and the values put in place of their arguments. A call must be refused by an
error that our code (or scikit-learn's validation) raises on purpose, or give a sound answer: finite, a label of its
space, and, where the argument is the same numbers in another container, the same answer. It may not end in an error
from inside, in nonsense, in a crash or never.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from malformed import declare, learn, solve, use  # noqa: F401  (they add their recipes)
from malformed.call import RECIPES, Call
from malformed.judge import flat, is_deliberate, place
from malformed.kinds import Choice

_NAMES = sorted(RECIPES)


def _build(seed: int) -> tuple[str, Call, np.random.Generator]:
    rng = np.random.default_rng(seed)
    name = _NAMES[int(rng.integers(len(_NAMES)))]
    return name, RECIPES[name](rng), rng


def outcome(seed: int) -> tuple[str, str]:
    """What a case comes to, and its story."""
    # A text for the path of a file is a file here, and not where the fuzz job was started.
    with (
        tempfile.TemporaryDirectory(prefix="structopt-fuzz-") as folder,
        contextlib.chdir(folder),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        return _outcome(seed)


def _outcome(seed: int) -> tuple[str, str]:
    name, call, rng = _build(seed)
    values = {key: argument.value for key, argument in call.arguments.items()}
    fuzzable = [key for key, argument in call.arguments.items() if argument.kind is not None]
    chosen = rng.permutation(fuzzable)[: 1 if rng.random() < 0.8 else 2]
    replaced: dict[str, Choice] = {}
    for key in chosen:
        argument = call.arguments[key]
        assert argument.kind is not None
        replaced[key] = argument.kind(rng, argument.value)
        values[key] = replaced[key][1]
    story = f"{name}({', '.join(f'{key}: {word} = {value!r:.60}' for key, (word, value, _) in replaced.items())})"
    verdicts = {verdict for _, _, verdict in replaced.values()}
    if len(replaced) == 2 and len({word for word, _, _ in replaced.values()} & {"too short", "too long"}) == 1:
        verdicts = {"odd"}  # examples and labels of one length again
    try:
        answer = call.run(values)
    except Exception as error:
        told = f"{story}\n  {type(error).__name__}: {str(error)[:200]}\n  at {place(error)}"
        return ("refused" if is_deliberate(error) else "foreign"), told
    if "bad" in verdicts:
        return "nonsense", f"{story}\n  taken, and answered by {answer!r:.200}"
    try:
        call.check(answer)
        found = flat(answer)
        assert not np.isnan(found).any(), f"NaN in {answer!r:.200}"
        if verdicts == {"same"} and call.tolerance is not None:
            _, again, _ = _build(seed)
            wanted = flat(again.run({key: argument.value for key, argument in again.arguments.items()}))
            close = found.shape == wanted.shape and np.allclose(found, wanted, call.tolerance, call.tolerance)
            assert close, f"{found!r:.200} in place of {wanted!r:.200}"
    except AssertionError as error:
        return "nonsense", f"{story}\n  {error}"
    return ("same answer" if verdicts == {"same"} else "answered"), story


def case(seed: int) -> str:
    word, story = outcome(seed)
    assert word not in ("foreign", "nonsense"), f"{word}: {story}"
    return word


def main(arguments: list[Any]) -> None:
    """Print the outcomes of some seeds: calls.py FIRST LAST."""
    for seed in range(int(arguments[0]), int(arguments[1])):
        word, story = outcome(seed)
        print(seed, word, story.replace("\n", " | "), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

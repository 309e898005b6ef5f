"""A checkpoint is checked entry by entry before compiled code sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from structopt.errors import DeclarationError
from structopt.train.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


def entry(value: Any) -> Callable[[Any], Any]:
    """Put `value` into the first entry of an array."""

    def change(array: Any) -> Any:
        found = np.array(array)
        found.reshape(-1)[0] = value
        return found

    return change


SETS: list[tuple[str, Callable[[Any], Any]]] = [
    ("arena0", lambda a: a + 10**6),
    ("arena1", entry(np.nan)),
    ("begin", entry(10**9)),
    ("begin", entry(-1)),
    ("size", entry(10**6)),
    ("count", entry(10**4)),
    ("count", entry(-1)),
    ("_ends", lambda a: a + 10**6),
    ("union0", entry(10**8)),
    ("union1", entry(10**6)),
    ("union2", entry(10**8)),
    ("union3", lambda a: a + 10**6),
    ("union3", lambda a: a * 0),
    ("union4", lambda a: a + 10**6),
    ("union5", lambda a: a + 10**6),
    ("union5", lambda a: a - 10**6),
    ("gram", entry(np.nan)),
    ("level", entry(np.inf)),
    ("alpha", lambda a: a + 1.0),
    ("alpha", entry(-0.5)),
    ("gap", lambda a: a[:1]),
]

CASES: list[tuple[str, str, Callable[[Any], Any]]] = [
    *((trainer, f"state.{name}", change) for trainer in ("block_ascent", "n_slack", "bcfw") for name, change in SETS),
    *(("one_slack", f"state.cache.{name}", change) for name, change in SETS),
    ("one_slack", "state.model.alpha", lambda a: a * 3),
    ("one_slack", "state.model.block", lambda a: a + 5),
    ("one_slack", "state.query", lambda a: a[:2]),
    ("multiclass", "state.active", lambda a: a + 10**6),
    ("multiclass", "state.active", lambda a: a * 0),
    ("multiclass", "state.n_active", lambda a: a + 100),
    ("multiclass", "state.alpha", lambda a: a * 2),
    ("multiclass", "state.W", lambda a: a * np.nan),
    ("multiclass", "state.term.center", lambda a: np.array(["a"])),
    ("coordinate_descent", "state.order", lambda a: a + 10**6),
    ("coordinate_descent", "state.order", lambda a: a * 0),
    ("coordinate_descent", "state.n_active", lambda n: 10**6),
    ("coordinate_descent", "state.alpha", lambda a: a + 5.0),
    ("coordinate_descent", "state.w", lambda a: a * 0.0),  # the bound would exceed the optimum
    ("bmrm, line search", "state.bundle.gram", lambda a: a[:1]),
    ("bmrm, line search", "state.bundle.rows", lambda a: a[:, :1]),
    ("bmrm, line search", "state.bundle.alpha", entry(np.nan)),
    ("bmrm, line search", "state.center.f", lambda a: a + 1.0),
    ("bmrm, line search", "state.run", lambda n: 10**6),
    ("lbfgs", "state.moves", lambda a: -a),
    ("proximal_bundle", "state.rows", lambda a: a[:-1]),
    ("proximal_bundle", "state.zeta", lambda a: 0.0),
    ("trust_region_bundle", "state.radius", lambda a: float("nan")),
    ("trust_region_bundle", "state.radius", lambda a: 0.0),
    ("sgd", "state.t", lambda n: -3),
    ("sgd", "state.v", lambda a: a[None]),
    ("sgd", "state.random", lambda s: s | {"state": {"state": 0, "inc": 0}}),  # sampling would not end
    ("sgd", "state.random", lambda s: 3),
    *(
        ("bmrm, line search", name, change)
        for name, change in [
            ("best.lower_bound", lambda b: 1e6),
            ("best.lower_bound", lambda b: float("inf")),
            ("best.objective", lambda b: -1e6),
            ("best.objective", lambda b: float("nan")),
            ("best.w", lambda w: w[:1]),
            ("best.w", lambda w: w * np.nan),
            ("passes", lambda n: float("nan")),
            ("oracle_calls", lambda n: -1),
            ("idle", lambda n: "many"),
            ("seconds", lambda n: float("inf")),
            ("parts", lambda n: [1]),
            ("history.gap", lambda a: a[:1]),
            ("problem", lambda p: [p]),
        ]
    ),
]


@pytest.fixture(scope="module")
def trainers(fuzz: Callable[[str], Any]) -> dict[str, Callable[..., Any]]:
    """Runs of every trainer on small problems, which the fuzz job of altered files has, too."""
    return fuzz("altered")._trainers()


@pytest.fixture(scope="module")
def checkpoints(trainers: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    known: dict[str, dict[str, Any]] = {}

    def get(name: str) -> dict[str, Any]:
        if name not in known:
            path = tmp_path_factory.mktemp("runs") / "run.npz"
            trainers[name](tol=0.0, max_passes=3, checkpoint=Checkpoint(path, every=0))
            known[name] = read_checkpoint(path)
        return known[name]

    return get


@pytest.mark.parametrize(
    ("trainer", "name", "change"), CASES, ids=[f"{t}-{n}-{k}" for k, (t, n, _) in enumerate(CASES)]
)
def test_altered_entries_are_rejected(
    trainer: str, name: str, change: Callable[[Any], Any], trainers: Any, checkpoints: Any, tmp_path: Path
) -> None:
    state = checkpoints(trainer)
    path = tmp_path / "run.npz"
    write_checkpoint(path, {**state, name: change(state[name])})
    with pytest.raises(DeclarationError, match="is damaged or was altered"):
        trainers[trainer](tol=0.0, max_passes=6, checkpoint=path)


@pytest.mark.parametrize("trainer", sorted({trainer for trainer, _, _ in CASES}))
def test_missing_entries_are_rejected(trainer: str, trainers: Any, checkpoints: Any, tmp_path: Path) -> None:
    state = checkpoints(trainer)
    path = tmp_path / "run.npz"
    optional = {"state.gradient", "state.moves", "state.center.f", "state.query.f"}
    for name in state.keys() - optional - {f"history.part:{part}" for part in state["parts"]}:
        write_checkpoint(path, {key: value for key, value in state.items() if key != name})
        with pytest.raises(DeclarationError, match="is damaged or was altered"):
            trainers[trainer](tol=0.0, max_passes=6, checkpoint=path)

"""Losses and layers of `structopt.torch` against the search below them and torch-struct: ratios of one run.

    python benchmarks/neural.py speed [--quick]

``speed``: a batch of 64 examples, forward and backward, in CPU time of the process on one thread, beside the batch
search alone (NumPy, the same labels, nothing kept from before); the structured hinge of a chain of 20 positions and 26
states and its log-partition function beside torch-struct's; SparseMAP on the same with its peak of memory at several
sizes of the batch. A peer is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

import numpy as np

try:
    import torch
except ImportError:  # an extra: `make bench` goes on
    print("PyTorch is not installed; make test-torch installs it")
    raise SystemExit(0) from None
from _results import keep, shown

import structopt as so
from structopt.risks.structured import StructuredRisk
from structopt.torch import FenchelYoung, SparseMAP, StructuredHinge
from structopt.torch.scores import ShownTables

B, T, S = 64, 20, 26
MEASURES = ("structopt/torch", "structopt/risks", "structopt/algorithms")
Row = Mapping[str, Any]


def cpu(call: Callable[[], Any], repeats: int) -> float:
    """The median of the CPU seconds of a call."""
    call()
    seconds = []
    for _ in range(repeats):
        begun = process_time()
        call()
        seconds.append(process_time() - begun)
    return float(np.median(seconds))


def _chain() -> tuple[so.Model, Any, Any]:
    unary = torch.randn(B, T, S, requires_grad=True)
    steps = torch.randn(S, S, requires_grad=True)
    return so.structures.Chain(S), (unary, steps), torch.randint(S, (B, T))


def _problems() -> dict[str, tuple[so.Model, Any, Any]]:
    """Models with scores and labels of 64 examples."""
    rng = np.random.default_rng(0)
    heads = np.array([[0, *rng.integers(1, np.arange(1, 20) + 1)] for _ in range(B)])  # every head stands before
    space = so.LabelSpace("tags")
    tags = space.binary("tag", 12)
    space.subject_to(tags.sum() <= 4, tags[1:] <= tags[0])
    declared = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
    labels = np.zeros((B, 12))
    labels[:, :2] = 1.0
    return {
        "chain 20 x 26": _chain(),
        "trees of 20 tokens": (
            so.structures.Arborescence(),
            torch.randn(B, 21, 21, requires_grad=True),
            torch.tensor(heads),
        ),
        "pairwise, 12 labels": (
            so.structures.PairwiseMRF(12),
            (torch.randn(B, 12, requires_grad=True), torch.randn(B, 66, requires_grad=True)),
            rng.integers(2, size=(B, 12)),
        ),
        "assignment 20 x 20": (
            so.structures.Assignment(),
            torch.randn(B, 20, 20, requires_grad=True),
            torch.tensor(np.array([rng.permutation(20) for _ in range(B)])),
        ),
        "declared, 12 tags": (declared, {"tag": torch.randn(B, 12, requires_grad=True)}, labels),
    }  # fmt: skip


def hinge_against_search(repeats: int) -> list[Row]:
    """Forward and backward over the search alone."""
    rows = []
    for name, (model, scores, labels) in _problems().items():
        for surrogate in ("margin", "slack"):
            hinge = StructuredHinge(model, surrogate)
            arranged = hinge.layout.arrange(scores)
            risk = StructuredRisk.of_batch(arranged.batch, hinge.layout.labels(labels, arranged), surrogate)
            tables = ShownTables.of(arranged.tables(), arranged.batch).arrays

            def search(risk: StructuredRisk = risk, tables: Any = tables) -> None:
                risk._planes = risk._plane_batch()  # labels of the last search are not kept
                risk.violations_of(tables)

            def both(hinge: StructuredHinge = hinge, scores: Any = scores, labels: Any = labels) -> None:
                hinge(scores, labels).backward()

            alone, whole = cpu(search, repeats), cpu(both, repeats)
            row = {"labels": name, "rescaling": surrogate, "search, ms": 1e3 * alone, "hinge, ms": 1e3 * whole}
            rows.append(shown(row | {"hinge / search": whole / alone}))
    return rows


def chain_against_torch_struct(repeats: int) -> list[Row]:
    """The structured hinge and the log-partition function of a chain."""
    model, (unary, steps), labels = _chain()
    hinge, crf = StructuredHinge(model), FenchelYoung(model, "entropy")
    ours = {
        "hinge": lambda: hinge((unary, steps), labels).backward(),
        "CRF": lambda: crf((unary, steps), labels).backward(),
    }
    try:
        import torch_struct
    except ImportError:
        print("torch-struct is not installed")
        return []
    warnings.simplefilter("ignore")
    wrong = 1.0 - torch.nn.functional.one_hot(labels, S).float()

    def potentials(extra: Any) -> Any:
        scores = unary + extra
        edges = steps[None, None] + scores[:, 1:, None, :]
        first = torch.zeros(B, T - 1, S, S)
        first[:, 0] = 1.0
        return edges + first * scores[:, :1, :, None]

    def own() -> Any:
        by_state = unary.gather(2, labels[:, :, None]).sum(dim=(1, 2))
        return by_state + steps[labels[:, :-1], labels[:, 1:]].sum(dim=1)

    # torch-struct has [to, from].
    theirs = {
        "hinge": lambda: (torch_struct.LinearChainCRF(potentials(wrong).transpose(2, 3)).max - own()).mean().backward(),
        "CRF": lambda: (
            (torch_struct.LinearChainCRF(potentials(0.0).transpose(2, 3)).partition - own()).mean().backward()
        ),
    }
    value = (torch_struct.LinearChainCRF(potentials(wrong).transpose(2, 3)).max - own()).mean()
    assert abs(float(value) - float(hinge((unary, steps), labels))) < 1e-3 * abs(float(value))
    rows = []
    for name in ours:
        a, b = cpu(ours[name], repeats), cpu(theirs[name], max(1, repeats // 3))
        row = {"loss": f"{name}, chain 20 x 26", "ms": 1e3 * a, "torch-struct, ms": 1e3 * b, "times faster": b / a}
        rows.append(shown(row))
    return rows


def sparsemap(repeats: int) -> list[Row]:
    """SparseMAP on the same chains: time, peak of memory, by the size of the batch."""
    model, (unary, steps), _ = _chain()
    rows: list[Row] = []
    for blocks in (None, ["y"]):
        layer = SparseMAP(model, blocks=blocks)

        def both(layer: SparseMAP = layer) -> None:
            layer((unary, steps))[0].sum().backward()

        seconds = cpu(both, max(1, repeats // 5))
        told = f"norm of {blocks[0] if blocks else 'all'}, batch of {B}"
        rows.append(shown({"SparseMAP": told, "ms": 1e3 * seconds, "largest gap": float(layer.gap.max())}))
    for size in (16, 32, 64):
        part = unary.detach()[:size].requires_grad_()
        tracemalloc.start()
        layer = SparseMAP(model)
        layer((part, steps))[0].sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append(shown({"SparseMAP": f"norm of all, batch of {size}", "peak MB of arrays": peak / 1e6}))
    return rows


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="speed", choices=["speed"])
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    repeats = 5 if given.quick else 31
    rows, title = hinge_against_search(repeats), "The structured hinge beside the search below it"
    keep("neural.hinge", rows, title=title, measures=MEASURES, ratio="hinge / search")
    rows, title = chain_against_torch_struct(repeats), "Chains beside torch-struct"
    keep("neural.chain", rows, title=title, measures=MEASURES, ratio="times faster")
    keep("neural.sparsemap", sparsemap(repeats), title="SparseMAP", measures=MEASURES)


if __name__ == "__main__":
    main()

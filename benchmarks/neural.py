"""Losses and layers of `structopt.torch`: their time beside the search alone and torch-struct, and networks on text.

    python benchmarks/neural.py [speed] [threads] [sparsemap] [ner] [parse] [--quick]

``speed``: a batch of 64 examples, forward and backward, in CPU time of the process on one thread, beside the batch
search alone (NumPy, the same labels, nothing kept from before or for later) and beside a loss that does nothing; the
structured hinge of a chain of 20 positions and 26 states and its log-partition function beside torch-struct's, which is
written for batches on a GPU and runs on one thread of the processor here.
``threads``: the same hinge with ``n_jobs`` 1 and 2, by the clock. ``sparsemap``: SparseMAP on these chains beside
quadratic programs, with its peak of memory by the size of the batch. ``ner``: entities of WNUT 17 by a BiLSTM and a
chain, or a declared space (thesis Table 5.4); ``parse``: dependency trees of UD English EWT by a bi-affine scorer
(thesis Tables 5.5 and 5.6, Figure 5-3), both in `_neural_text.py`. These two need the data sets beside the checkout,
or their folder in STRUCTOPT_DATA; with ``--runs FILE`` every run is kept in a file, and those that are in it are not
repeated. A peer is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

try:
    import torch
except ImportError:  # an extra: `make bench` goes on
    print("PyTorch is not installed; make test-torch installs it")
    raise SystemExit(0) from None

from _neural_text import DATA, MEASURES, ner, parse

import structopt as so
from structopt.risks.structured import StructuredRisk
from structopt.torch import FenchelYoung, SparseMAP, StructuredHinge
from structopt.torch.scores import ScoredBatch

B, T, S = 64, 20, 26
Rows = list[Mapping[str, Any]]


def typical(call: Callable[[], Any], repeats: int) -> float:
    """The median of the CPU seconds of a call."""
    call()
    seconds = []
    for _ in range(repeats):
        begun = process_time()
        call()
        seconds.append(process_time() - begun)
    return float(np.median(seconds))


def best(call: Callable[[], Any], repeats: int) -> float:
    """The fewest seconds of a call, by the clock: others use the machine, too."""
    call()
    seconds = []
    for _ in range(repeats):
        begun = perf_counter()
        call()
        seconds.append(perf_counter() - begun)
    return min(seconds)


def in_turns(calls: Mapping[str, Callable[[], Any]], repeats: int, rounds: int = 5) -> dict[str, float]:
    """The median of the CPU seconds of each call, a few in a row in turns: what others do is felt by all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            for _ in range(-(-repeats // rounds)):
                begun = process_time()
                call()
                seconds[name].append(process_time() - begun)
    return {name: float(np.median(found)) for name, found in seconds.items()}


def _chain(length: int = T, states: int = S) -> tuple[so.Model, Any, Any]:
    unary = torch.randn(B, length, states, requires_grad=True)
    steps = torch.randn(states, states, requires_grad=True)
    return so.structures.Chain(states), (unary, steps), torch.randint(states, (B, length))


def _trees(tokens: int, rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    heads = np.array([[0, *rng.integers(1, np.arange(1, tokens) + 1)] for _ in range(B)])  # every head stands before
    return so.structures.Arborescence(), torch.randn(B, tokens + 1, tokens + 1, requires_grad=True), torch.tensor(heads)


def _pairwise(n: int, coupling: float, rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    pairs = coupling * torch.randn(B, n * (n - 1) // 2)
    scores = torch.randn(B, n, requires_grad=True), pairs.requires_grad_()
    return so.structures.PairwiseMRF(n), scores, rng.integers(2, size=(B, n))


def _assignment(n: int, rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    labels = torch.tensor(np.array([rng.permutation(n) for _ in range(B)]))
    return so.structures.Assignment(), torch.randn(B, n, n, requires_grad=True), labels


def _declared(n: int, most: int) -> tuple[so.Model, Any, Any]:
    space = so.LabelSpace("tags")
    tags = space.binary("tag", n)
    space.subject_to(tags.sum() <= most, tags[1:] <= tags[0])
    labels = np.zeros((B, n))
    labels[:, :2] = 1.0
    model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
    return model, {"tag": torch.randn(B, n, requires_grad=True)}, labels


def _problems() -> dict[str, tuple[so.Model, Any, Any]]:
    """Models with scores and labels of 64 examples; the second half is larger."""
    rng = np.random.default_rng(0)
    return {
        "chain 20 x 26": _chain(),
        "trees of 20 tokens": _trees(20, rng),
        "pairwise, 12 labels": _pairwise(12, 1.0, rng),
        "assignment 20 x 20": _assignment(20, rng),
        "declared, 12 tags": _declared(12, 4),
        "chain 50 x 50": _chain(50, 50),
        "trees of 50 tokens": _trees(50, rng),
        "pairwise, 30 labels, weak pairs": _pairwise(30, 0.1, rng),
        "assignment 50 x 50": _assignment(50, rng),
        "declared, 40 tags": _declared(40, 8),
    }


class _Empty(torch.autograd.Function):  # type: ignore[misc]
    """A loss that does nothing: gradients of the right shapes, and an error where the scores change before them."""

    @staticmethod
    def forward(ctx: Any, *scores: Any) -> Any:
        ctx.save_for_backward(*scores)
        return scores[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        return tuple(torch.zeros_like(score) for score in ctx.saved_tensors)


def hinge_against_search(repeats: int) -> Rows:
    """Forward and backward over the search alone."""
    # As in every process that has freed the arrays of a network: the C library then keeps freed memory. Otherwise it
    # gives back and takes anew a few MB in some calls, of the search or of the hinge, as it happens: up to 3 ms.
    np.empty(1 << 21)
    rows: Rows = []
    for name, (model, scores, labels) in _problems().items():
        given = scores.values() if isinstance(scores, dict) else scores
        leaves = [given] if isinstance(given, torch.Tensor) else list(given)
        for surrogate in ("margin", "slack"):
            hinge = StructuredHinge(model, surrogate)
            arranged = hinge.layout.arrange(scores)
            batch, Y = arranged.batch, hinge.layout.labels(labels, arranged)
            tables = arranged.arrays().arrays
            known = StructuredRisk.of_batch(batch, Y, surrogate, keep=False)

            def search(known: StructuredRisk = known, tables: Any = tables) -> None:
                assert isinstance(known.batch, ScoredBatch)
                known.batch = known.batch.renewed()  # nothing is kept of the last search,
                known.truth = known.batch.labels(known.truth.native)  # nor what it made of the labels
                known._planes = known._plane_batch()
                known.violations_of(tables)

            def with_labels(batch: Any = batch, Y: Any = Y, surrogate: str = surrogate, tables: Any = tables) -> None:
                StructuredRisk.of_batch(batch.renewed(), Y, surrogate, keep=False).violations_of(tables)

            def both(hinge: StructuredHinge = hinge, scores: Any = scores, labels: Any = labels) -> None:
                hinge(scores, labels).backward()

            def mean(leaves: list[Any] = leaves) -> None:
                sum(leaf.double().mean() for leaf in leaves).backward()

            def empty(leaves: list[Any] = leaves) -> None:
                _Empty.apply(*leaves).backward()

            def least(with_labels: Any = with_labels, empty: Any = empty) -> None:
                with_labels()
                empty()

            calls: dict[str, Callable[[], Any]] = {"search": search, "labels": with_labels, "mean": mean}
            calls |= {"empty": empty, "least": least, "hinge": both}
            found = {key: 1e3 * value for key, value in in_turns(calls, repeats).items()}
            rows.append(
                shown(
                    {
                        "labels": name,
                        "rescaling": surrogate,
                        "search, ms": found["search"],
                        "with labels, ms": found["labels"],
                        "a mean, ms": found["mean"],
                        "an empty loss, ms": found["empty"],
                        "hinge, ms": found["hinge"],
                        "hinge / search": found["hinge"] / found["search"],
                        "hinge / (labels, search, empty loss)": found["hinge"] / found["least"],
                    }
                )
            )
    return rows


def threads(repeats: int) -> Rows:
    """The hinge of a batch of 512 in one thread and in two, by the clock."""
    rows: Rows = []
    unary, steps, labels = torch.randn(512, T, S), torch.randn(S, S), torch.randint(S, (512, T))
    heads = torch.tensor([[0, *range(1, 20)]]).repeat(512, 1)
    for name, model, scores, truth in (
        ("chain 20 x 26", so.structures.Chain(S), (unary, steps), labels),
        ("trees of 20 tokens", so.structures.Arborescence(), torch.randn(512, 21, 21), heads),
    ):
        for surrogate in ("margin", "slack"):
            hinges = [StructuredHinge(model, surrogate, n_jobs=k) for k in (1, 2)]
            one, two = (1e3 * best(partial(hinge.__call__, scores, truth), 2 * repeats) for hinge in hinges)
            row = {"problem": name, "surrogate": surrogate, "one thread ms": one, "two threads ms": two}
            rows.append(shown({**row, "times faster": one / two}))
    return rows


def chain_against_torch_struct(repeats: int) -> Rows:
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
    rows: Rows = []
    for name in ours:
        a, b = typical(ours[name], repeats), typical(theirs[name], max(1, repeats // 3))
        row = {"loss of 64 chains of 20 x 26": name, "CPU ms": 1e3 * a, "torch-struct ms": 1e3 * b}
        rows.append(shown({**row, "times faster": b / a}))
    return rows


def sparsemap(repeats: int) -> Rows:
    """SparseMAP on the same chains: time, peak of memory, by the size of the batch."""
    model, (unary, steps), _ = _chain()
    rows: Rows = []
    for blocks in (None, ["y"]):
        layer = SparseMAP(model, blocks=blocks)

        def both(layer: SparseMAP = layer) -> None:
            layer((unary, steps))[0].sum().backward()

        seconds, largest = typical(both, max(1, repeats // 5)), float(layer.gap.max())
        program = quadratic_program(model, unary.detach()[:8].double(), steps.detach().double(), blocks, layer)
        for size in (16, 32, 64):
            part = unary.detach()[:size].requires_grad_()
            tracemalloc.start()
            layer = SparseMAP(model, blocks=blocks)
            layer((part, steps))[0].sum().backward()
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            row = {"norm of": "states" if blocks else "states and pairs", "batch": size, "peak MB": peak}
            if size == len(unary):
                row |= {"CPU ms": 1e3 * seconds, "gap": largest}
                if program is not None:
                    row |= {"piqp ms": 8e3 * program, "times faster": 8 * program / seconds}
            rows.append(shown(row))
    return rows


def quadratic_program(model: Any, unary: Any, steps: Any, blocks: Any, layer: SparseMAP) -> float | None:
    """CPU seconds of the same points, forward only, as one quadratic program over the marginal polytope an example."""
    try:
        import piqp
    except ImportError:
        print("piqp is not installed")
        return None
    space = model.space(np.zeros((T, 1))).compiled
    found = layer((unary, steps))[0].detach().numpy().reshape(len(unary), -1)
    squares = np.ones(space.n_variables) if blocks is None else np.arange(space.n_variables) < T * S
    pairs = np.broadcast_to(steps.numpy(), (T - 1, S, S)).ravel()
    begun = process_time()
    for scores, point in zip(unary.numpy(), found, strict=True):
        solver = piqp.SparseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-7
        P, c = sp.diags_array(squares.astype(np.float64)).tocsc(), -np.concatenate([scores.ravel(), pairs])
        A, upper = space.matrix.tocsc(), np.full(space.n_variables, np.inf)
        solver.setup(P, c, A, space.row_lower, None, None, None, space.lower, upper)
        solver.solve()
        assert np.abs(solver.result.x[: T * S] - point).max() < 1e-4
    return process_time() - begun


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = ["speed", "threads", "sparsemap", "ner", "parse"]
    parser.add_argument("what", nargs="*", default=["speed", "threads", "sparsemap"], metavar="|".join(jobs))
    parser.add_argument("--quick", action="store_true", help="few repetitions, few sentences, one seed")
    parser.add_argument("--train", type=int, help="training sentences of ner and parse")
    parser.add_argument("--test", type=int, help="their sentences of dev and of test")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seeds", type=int, nargs="+", help="the seeds of ner and parse")
    parser.add_argument("--runs", type=Path, help="file of the runs of ner and parse: those in it are not repeated")
    given = parser.parse_args()
    if given.runs is not None:  # no part of the command that a reader repeats
        at = next(k for k, word in enumerate(sys.argv) if word.startswith("--runs"))
        del sys.argv[at : at + (1 if "=" in sys.argv[at] else 2)]
    torch.set_num_threads(1)
    repeats = 5 if given.quick else 31
    quick = ["--quick"] if given.quick else []
    for what in given.what:
        if what not in jobs:
            parser.error(f"unknown job {what!r}; choose from {', '.join(jobs)}")
        torch.manual_seed(0)
        if what == "speed":
            keep(
                "neural.hinge",
                hinge_against_search(repeats),
                title="StructuredHinge over a batch of 64, and the search alone",
                measures=MEASURES,
                words=[what, *quick],
                alone=True,
                ratio="hinge / search",
                note="Forward and backward. `search`: NumPy, scores and labels as it takes them, nothing kept from "
                "before or for later; `with labels`: the labels are checked and their losses made, as for every new "
                "batch. `a mean`: what PyTorch takes for the mean of the same tensors in float64; `an empty loss`: for "
                "a loss that does nothing, alone, and after a search about twice that. The last column is over what no "
                "loss of this kind can do without, measured in one piece: labels, search and an empty loss.",
            )
            rows = chain_against_torch_struct(repeats)
            title = "Chains beside torch-struct"
            keep("neural.chain", rows, title=title, measures=MEASURES, words=[what, *quick], ratio="times faster")
        elif what == "threads":
            title = "StructuredHinge of 512 examples in one thread and in two"
            note = "The best of 62 calls by the clock, on a machine of two cores that others use, too."
            rows, words = threads(repeats), [what, *quick]
            keep("neural.threads", rows, title=title, measures=MEASURES, words=words, note=note, alone=True)
        elif what == "sparsemap":
            title = "SparseMAP of chains of 20 x 26, forward and backward"
            note = "Peak of the arrays that are allocated, beside the scores. No package with SparseMAP installs here; "
            note += (
                "piqp is a quadratic program over the marginal polytope for each example, forward only: 8 are measured "
                "and multiplied by 8."
            )
            rows, words = sparsemap(repeats), [what, *quick]
            keep("neural.sparsemap", rows, title=title, measures=MEASURES, words=words, note=note, alone=True)
        elif not DATA.exists():
            print(f"{what}: skipped, the data sets are not beside the checkout (set STRUCTOPT_DATA)")
        else:
            sizes = (100, 60, 2) if given.quick else (100_000, 100_000, 10 if what == "ner" else 24)
            own = (given.train, given.test, given.epochs)
            n_train, n_test, epochs = (a or b for a, b in zip(own, sizes, strict=True))
            seeds = given.seeds or list(range(1 if given.quick else 3 if what == "ner" else 10))
            (ner if what == "ner" else parse)(epochs, seeds, given.runs, n_train, n_test)


if __name__ == "__main__":
    main()

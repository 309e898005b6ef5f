"""Losses and layers of `structopt.torch`: their time beside the search alone, torch-struct and quadratic programs.

A batch of 64 examples, forward and backward, in CPU time of the process on one thread. ``hinge``: the structured hinge
beside the batch search alone (NumPy, the same labels, nothing kept from before or for later) and beside a loss that
does nothing. ``chain``: the hinge of a chain of 20 positions and 26 states and its log-partition function beside
torch-struct's, which is written for batches on a GPU and runs on one thread of the processor here. ``threads``: the
same hinge with ``n_jobs`` 1 and 2, by the clock. ``sparsemap``: SparseMAP on these chains beside quadratic programs,
with its peak of memory by the size of the batch. A peer is left out where it is not installed. The networks on text are
in ``networks``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import Row, Rows, in_turns, installed, main, part, peak_bytes, timed

try:
    import torch
except ImportError:  # an extra: `make bench` goes on
    print("PyTorch is not installed; make test-torch installs it")
    raise SystemExit(0) from None

import structopt as so
from structopt.risks.structured import StructuredRisk
from structopt.torch import FenchelYoung, SparseMAP, StructuredHinge
from structopt.torch.scores import ScoredBatch

B, T, S = 64, 20, 26
Problem = tuple[so.Model, Any, Any]  # a model, scores and labels of 64 examples


def _chain(length: int = T, states: int = S) -> Problem:
    unary = torch.randn(B, length, states, requires_grad=True)
    steps = torch.randn(states, states, requires_grad=True)
    return so.structures.Chain(states), (unary, steps), torch.randint(states, (B, length))


def _trees(tokens: int, rng: np.random.Generator) -> Problem:
    heads = np.array([[0, *rng.integers(1, np.arange(1, tokens) + 1)] for _ in range(B)])  # every head stands before
    return so.structures.Arborescence(), torch.randn(B, tokens + 1, tokens + 1, requires_grad=True), torch.tensor(heads)


def _pairwise(n: int, coupling: float, rng: np.random.Generator) -> Problem:
    pairs = coupling * torch.randn(B, n * (n - 1) // 2)
    scores = torch.randn(B, n, requires_grad=True), pairs.requires_grad_()
    return so.structures.PairwiseMRF(n), scores, rng.integers(2, size=(B, n))


def _assignment(n: int, rng: np.random.Generator) -> Problem:
    labels = torch.tensor(np.array([rng.permutation(n) for _ in range(B)]))
    return so.structures.Assignment(), torch.randn(B, n, n, requires_grad=True), labels


def _declared(n: int, most: int) -> Problem:
    space = so.LabelSpace("tags")
    tags = space.binary("tag", n)
    space.subject_to(tags.sum() <= most, tags[1:] <= tags[0])
    labels = np.zeros((B, n))
    labels[:, :2] = 1.0
    model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
    return model, {"tag": torch.randn(B, n, requires_grad=True)}, labels


def _problems() -> dict[str, Problem]:
    """Return models with scores and labels of 64 examples; the second half is larger."""
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


def hinge_calls(model: so.Model, scores: Any, labels: Any, surrogate: str) -> dict[str, Callable[[], Any]]:
    """Return the hinge of a batch, and the calls that it is compared with."""
    given = scores.values() if isinstance(scores, dict) else scores
    leaves = [given] if isinstance(given, torch.Tensor) else list(given)
    hinge = StructuredHinge(model, surrogate)
    arranged = hinge.layout.arrange(scores)
    batch, Y = arranged.batch, hinge.layout.labels(labels, arranged)
    tables = arranged.arrays().arrays
    known = StructuredRisk.of_batch(batch, Y, surrogate, keep=False)

    def search() -> None:
        assert isinstance(known.batch, ScoredBatch)
        known.batch = known.batch.renewed()  # nothing is kept of the last search,
        known.truth = known.batch.labels(known.truth.native)  # nor what it made of the labels
        known._planes = known._plane_batch()
        known.violations_of(tables)

    def with_labels() -> None:
        StructuredRisk.of_batch(batch.renewed(), Y, surrogate, keep=False).violations_of(tables)

    def empty() -> None:
        _Empty.apply(*leaves).backward()

    def least() -> None:
        with_labels()
        empty()

    return {
        "search": search,
        "labels": with_labels,
        "mean": lambda: sum(leaf.double().mean() for leaf in leaves).backward(),
        "empty": empty,
        "least": least,
        "hinge": lambda: hinge(scores, labels).backward(),
    }


@part("StructuredHinge over a batch of 64, and the search alone", ratio="hinge / search")
def hinge(repeats: int = 31) -> Rows:
    torch.manual_seed(0)
    # As in every process that has freed the arrays of a network: the C library then keeps freed memory. Otherwise it
    # gives back and takes anew a few MB in some calls, of the search or of the hinge, as it happens: up to 3 ms.
    np.empty(1 << 21)
    for name, problem in _problems().items():
        for surrogate in ("margin", "slack"):
            spent = in_turns(hinge_calls(*problem, surrogate), 5, -(-repeats // 5))
            ms = {key: 1e3 * float(np.median(seconds)) for key, seconds in spent.items()}
            row = {"labels": name, "rescaling": surrogate, "search, ms": ms["search"], "with labels, ms": ms["labels"]}
            row |= {"a mean, ms": ms["mean"], "an empty loss, ms": ms["empty"], "hinge, ms": ms["hinge"]}
            row |= {"hinge / search": ms["hinge"] / ms["search"]}
            yield row | {"hinge / (labels, search, empty loss)": ms["hinge"] / ms["least"]}
    yield (
        "Forward and backward. `search`: NumPy, scores and labels as it takes them, nothing kept from before or for "
        "later; `with labels`: the labels are checked and their losses made, as for every new batch. `a mean`: what "
        "PyTorch takes for the mean of the same tensors in float64; `an empty loss`: for a loss that does nothing, "
        "alone, and after a search about twice that. The last column is over what no loss of this kind can do without, "
        "measured in one piece: labels, search and an empty loss."
    )


@part("StructuredHinge of 512 examples in one thread and in two")
def threads(repeats: int = 31) -> Rows:
    torch.manual_seed(0)
    unary, steps, labels = torch.randn(512, T, S), torch.randn(S, S), torch.randint(S, (512, T))
    heads = torch.tensor([[0, *range(1, 20)]]).repeat(512, 1)
    for name, model, scores, truth in (
        ("chain 20 x 26", so.structures.Chain(S), (unary, steps), labels),
        ("trees of 20 tokens", so.structures.Arborescence(), torch.randn(512, 21, 21), heads),
    ):
        for surrogate in ("margin", "slack"):
            hinges = [StructuredHinge(model, surrogate, n_jobs=k) for k in (1, 2)]
            one, two = (1e3 * timed(partial(h.__call__, scores, truth), 2 * repeats, perf_counter)[1] for h in hinges)
            row = {"problem": name, "surrogate": surrogate, "one thread ms": one, "two threads ms": two}
            yield row | {"times faster": one / two}
    yield f"The best of {2 * repeats} calls by the clock, on a machine of two cores that others use, too."


@part("Chains beside torch-struct", ratio="times faster")
def chain(repeats: int = 31) -> Rows:
    torch.manual_seed(0)
    if not installed("torch_struct"):
        return
    import torch_struct

    model, (unary, steps), labels = _chain()
    losses = {"hinge": StructuredHinge(model), "CRF": FenchelYoung(model, "entropy")}
    wrong = 1.0 - torch.nn.functional.one_hot(labels, S).float()

    def theirs(name: str) -> Any:
        """Return the mean of torch-struct's maximum or partition minus the score of the labels."""
        scores = unary + (wrong if name == "hinge" else 0.0)
        first = torch.zeros(B, T - 1, S, S)
        first[:, 0] = 1.0
        edges = steps[None, None] + scores[:, 1:, None, :] + first * scores[:, :1, :, None]
        crf = torch_struct.LinearChainCRF(edges.transpose(2, 3))  # it has [to, from]
        by_state = unary.gather(2, labels[:, :, None]).sum(dim=(1, 2))
        own = by_state + steps[labels[:, :-1], labels[:, 1:]].sum(dim=1)
        return ((crf.max if name == "hinge" else crf.partition) - own).mean()

    value = float(theirs("hinge"))
    assert abs(value - float(losses["hinge"]((unary, steps), labels))) < 1e-3 * abs(value)
    for name, loss in losses.items():
        calls: dict[str, Callable[[], Any]] = {
            "ours": lambda: loss((unary, steps), labels).backward(),  # noqa: B023
            "theirs": lambda: theirs(name).backward(),  # noqa: B023
        }
        a, b = (1e3 * float(np.median(seconds)) for seconds in in_turns(calls, repeats).values())
        row = {"loss of 64 chains of 20 x 26": name, "CPU ms": a, "torch-struct ms": b}
        yield row | {"times faster": b / a}


@part("SparseMAP of chains of 20 x 26, forward and backward")
def sparsemap(repeats: int = 31) -> Rows:
    torch.manual_seed(0)
    model, (unary, steps), _ = _chain()
    for blocks in (None, ["y"]):

        def both(layer: SparseMAP, scores: Any) -> None:
            layer((scores, steps))[0].sum().backward()

        layer = SparseMAP(model, blocks=blocks)
        seconds = float(np.median(in_turns({"": partial(both, layer, unary)}, max(1, repeats // 5))[""]))
        largest = float(layer.gap.max())
        program = quadratic_program(model, unary.detach()[:8].double(), steps.detach().double(), blocks, layer)
        for size in (16, 32, 64):
            scores, fresh = unary.detach()[:size].requires_grad_(), SparseMAP(model, blocks=blocks)
            row: Row = {"norm of": "states" if blocks else "states and pairs", "batch": size}
            row |= {"peak MB": peak_bytes(partial(both, fresh, scores)) / 1e6}
            if size == len(unary):
                row |= {"CPU ms": 1e3 * seconds, "gap": largest}
                row |= {"piqp ms": 8e3 * program, "times faster": 8 * program / seconds} if program else {}
            yield row
    yield (
        "Peak of the arrays that are allocated, beside the scores. No package with SparseMAP installs here; piqp is a "
        "quadratic program over the marginal polytope for each example, forward only: 8 are measured and multiplied by "
        "8."
    )


def quadratic_program(model: Any, unary: Any, steps: Any, blocks: Any, layer: SparseMAP) -> float | None:
    """Return the CPU seconds of the same points, forward only, as quadratic programs over the marginal polytope."""
    if not installed("piqp"):
        return None
    import piqp

    space = model.space(np.zeros((T, 1))).compiled
    found = layer((unary, steps))[0].detach().numpy().reshape(len(unary), -1)
    squares = np.ones(space.n_variables) if blocks is None else np.arange(space.n_variables) < T * S
    pairs = np.broadcast_to(steps.numpy(), (T - 1, S, S)).ravel()

    def solve() -> None:
        for scores, point in zip(unary.numpy(), found, strict=True):
            solver = piqp.SparseSolver()
            solver.settings.eps_abs = solver.settings.eps_rel = 1e-7
            P, c = sp.diags_array(squares.astype(np.float64)).tocsc(), -np.concatenate([scores.ravel(), pairs])
            A, upper = space.matrix.tocsc(), np.full(space.n_variables, np.inf)
            solver.setup(P, c, A, space.row_lower, None, None, None, space.lower, upper)
            solver.solve()
            assert np.abs(solver.result.x[: T * S] - point).max() < 1e-4

    return timed(solve)[1]


if __name__ == "__main__":
    main()

"""Losses and layers of `structopt.torch`: their time beside the search alone and torch-struct, and networks on text.

    python benchmarks/neural.py [speed] [threads] [sparsemap] [ner] [parse] [--quick]

``speed``: a batch of 64 examples, forward and backward, in CPU time of the process on one thread, beside the batch
search alone (NumPy, the same labels, nothing kept from before or for later) and beside a loss that does nothing; the
structured hinge of a chain of 20 positions and 26 states and its log-partition function beside torch-struct's.
``threads``: the same hinge with ``n_jobs`` 1 and 2, by the clock. ``sparsemap``: SparseMAP on these chains beside
quadratic programs, with its peak of memory by the size of the batch. ``ner``: entities of WNUT 17 by a BiLSTM and a
chain, or a declared space (thesis Table 5.4); ``parse``: dependency trees of UD English EWT by a bi-affine scorer
(thesis Tables 5.5 and 5.6, Figure 5-3). These two need the data sets beside the checkout, or their folder in
STRUCTOPT_DATA; with ``--runs FILE`` every run is kept in a file, and those that are in it are not repeated. A peer is
left out where it is not installed.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import tempfile
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

try:
    import torch
except ImportError:  # an extra: `make bench` goes on
    print("PyTorch is not installed; make test-torch installs it")
    raise SystemExit(0) from None

import structopt as so
from structopt.data.conll import token_features
from structopt.risks.structured import StructuredRisk
from structopt.torch import FenchelYoung, SparseMAP, StructuredHinge
from structopt.torch.layouts import layout_of
from structopt.torch.scores import ScoredBatch

B, T, S = 64, 20, 26
MEASURES = ("structopt/torch", "structopt/risks", "structopt/search", "structopt/model", "structopt/structures")
DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
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


# ---- networks on real text -----------------------------------------------------------------------

#: Width of hashed features of tokens, and sizes of the networks: small, so that a run takes minutes on one core.
HASHED, WORD, HIDDEN = 2**17, 32, 48
#: Distances between head and token beyond which all are alike.
FAR = 10
#: Tokens of the longest sentence of the parser.
LONGEST = 40
#: Entities of a sentence that the declared rows allow.
MOST_ENTITIES = 4


def spelled(words: list[str], t: int) -> list[str]:
    """`token_features` and more of the spelling: prefixes, suffixes, three letters in a row, capitals, neighbours."""
    word, lower = words[t], words[t].lower()
    found = token_features(words, t)[1:]
    found += [f"prefix={lower[:k]}" for k in (1, 2, 4)] + [f"suffix={lower[-k:]}" for k in (1, 4)]
    found += [f"letters={part}" for k in range(len(lower)) if (part := f"^{lower}$"[k : k + 3])]
    kinds = ("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word[:12])
    found.append(f"signs={''.join(kinds)}")
    said = {"capital": word[:1].isupper(), "capitals": word.isupper(), "@": word[0] == "@", "#": word[0] == "#"}
    found += [name for name, true in said.items() if true] + (["first"] if t == 0 else [])
    for step in (-2, -1, 1, 2):
        if 0 <= t + step < len(words):
            other = words[t + step]
            found += [f"{step} capital={other[:1].isupper()}{other.isupper()}", f"{step} suffix={other.lower()[-3:]}"]
            found += [f"{step} word={other.lower()}"] if abs(step) == 2 else []
    return found


class Tokens(NamedTuple):
    """Numbers of the features of a sentence's tokens, and how many each token has."""

    places: Any
    counts: Any


def hashed(features: list[list[str]]) -> Tokens:
    """Features as rows of an embedding."""
    places = [zlib.crc32(text.encode()) % HASHED for token in features for text in token]
    return Tokens(np.array(places), np.array([len(token) for token in features]))


class Encoder(torch.nn.Module):  # type: ignore[misc]
    """Sums of hashed features of each token: `direct` of their columns are scores, the others go through a BiLSTM."""

    def __init__(self, direct: int = 0, n_tags: int = 0) -> None:
        super().__init__()
        self.direct = direct
        self.words = torch.nn.EmbeddingBag(HASHED, WORD + direct, mode="sum", sparse=True)
        torch.nn.init.normal_(self.words.weight, std=0.3)
        with torch.no_grad():
            self.words.weight[:, :direct] = 0.0
        self.tags = torch.nn.Embedding(n_tags, WORD) if n_tags else None
        self.lstm = torch.nn.LSTM(WORD * (1 + (n_tags > 0)), HIDDEN, batch_first=True, bidirectional=True)
        self.drop = torch.nn.Dropout(0.3)
        self.width = 2 * HIDDEN + (0 if direct else self.lstm.input_size)

    def forward(self, sentences: list[Tokens], tags: Any = None) -> tuple[Any, Any, Any]:
        """Direct scores of the tokens, one after the other; the BiLSTM's vectors, padded; the mask."""
        places = torch.from_numpy(np.concatenate([found.places for found in sentences]))
        counts = np.concatenate([found.counts for found in sentences])
        starts = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)[:-1]]))
        weights = torch.from_numpy(np.repeat(1.0 / np.sqrt(counts), counts)).float()
        if self.training:  # of rare features the network must not depend on one
            weights = weights * (torch.rand(len(weights)) > 0.3) / 0.7
        found = self.words(places, starts, per_sample_weights=weights)
        lengths = torch.tensor([len(found.counts) for found in sentences])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        x = torch.zeros(*mask.shape, WORD)
        x[mask] = torch.tanh(found[:, self.direct :])
        if self.tags is not None:
            x = torch.cat([x, self.tags(tags)], dim=2)
        packed = torch.nn.utils.rnn.pack_padded_sequence(self.drop(x), lengths, batch_first=True, enforce_sorted=False)
        hidden = torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]
        hidden = self.drop(hidden)
        # What a token says by itself is learned sooner that way.
        return found[:, : self.direct], hidden if self.direct else torch.cat([hidden, x], dim=2), mask

    @property
    def table(self) -> Any:
        """The weights of the features, whose gradients are sparse."""
        return self.words.weight


def padded(rows: list[Any], last: tuple[int, ...] = ()) -> Any:
    """Arrays of different lengths as one tensor, zeros at the end."""
    out = np.zeros((len(rows), max(map(len, rows)), *last), dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def batches(n: int, size: int, rng: np.random.Generator | None = None) -> list[Any]:
    """Numbers of examples, in the order of the data or shuffled."""
    order = np.arange(n) if rng is None else rng.permutation(n)
    return np.split(order, np.arange(size, n, size))


def train(
    network: Any,
    loss: Any,
    data: list[Any],
    epochs: int,
    seed: int,
    measure: Callable[[], float],
    rate: float = 6e-3,
    size: int = 64,
) -> float:
    """Adam on a loss; the weights of the epoch with the largest measure are kept. Returns that measure."""
    rng = np.random.default_rng(seed)
    table = network.encoder.table
    others = [weights for weights in network.parameters() if weights is not table]
    optimizers = [torch.optim.SparseAdam([table], lr=rate), torch.optim.Adam(others, lr=rate)]
    best, kept = measure(), copy.deepcopy(network.state_dict())
    for _ in range(epochs):
        network.train()
        for part in batches(len(data), size, rng):
            network.zero_grad()
            network.loss(loss, [data[i] for i in part]).backward()
            torch.nn.utils.clip_grad_norm_(others, 5.0)
            for optimizer in optimizers:
                optimizer.step()
        if (value := measure()) >= best:
            best, kept = value, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return best


class Runs:
    """The rows of single runs, kept in a file as they come: seeds may run in several processes, or be resumed.

    Parameters
    ----------
    path : Path or None
        Without it, rows are kept in memory only.
    about : mapping
        Settings; rows of other settings are not of these runs.
    """

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        self.path, self.about, self.rows = path, dict(about), list[dict[str, Any]]()
        if path is not None and path.exists():
            found = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            self.rows = [run["row"] for run in found if run["about"] == self.about]

    def has(self, name: str, seed: int) -> bool:
        """Whether this run is done."""
        return any(row["trained with"] == name and row["seed"] == seed for row in self.rows)

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep the row of a run."""
        self.rows.append(dict(shown(row)))
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"about": self.about, "row": row}) + "\n")

    @property
    def seeds(self) -> list[int]:
        """The seeds of all runs."""
        return sorted({row["seed"] for row in self.rows})

    def averaged(self, keys: tuple[str, ...], by: str = "trained with") -> list[Mapping[str, Any]]:
        """Mean and standard deviation over seeds."""
        found = []
        for name in dict.fromkeys(row[by] for row in self.rows):
            own = [row for row in self.rows if row[by] == name]
            made: dict[str, Any] = {by: name}
            for key in keys:
                values = [row[key] for row in own]
                made |= {key: float(np.mean(values)), f"± {key}": float(np.std(values))}
            found.append(shown({**made, "seeds": len(own), "CPU s": float(np.mean([row["CPU s"] for row in own]))}))
        return found


# ---- named entities ------------------------------------------------------------------------------


class Tagger(torch.nn.Module):  # type: ignore[misc]
    """Scores of tags by their features and by a BiLSTM, and of transitions."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.place = {name: k for k, name in enumerate(names)}
        self.encoder = Encoder(len(names))
        self.out = torch.nn.Linear(self.encoder.width, len(names))
        self.steps = torch.nn.Parameter(torch.zeros(len(names), len(names)))

    def scored(self, data: list[Any]) -> tuple[Any, Any]:
        """Scores of the tags of sentences ``(features, tags)``, and the mask."""
        direct, hidden, mask = self.encoder([x for x, _ in data])
        scores = torch.zeros(*mask.shape, len(self.place))
        scores[mask] = direct + self.out(hidden[mask])
        return scores, mask

    def loss(self, loss: Any, data: list[Any]) -> Any:
        """The loss of a batch: of chains, or of the declared space of each sentence's length."""
        scores, mask = self.scored(data)
        if not isinstance(loss.model, so.structures.Chain):
            Y = [np.eye(len(self.place))[[self.place[tag] for tag in y]] for _, y in data]
            return loss({"tag": apart(scores, mask)}, Y, inputs=[len(y) for y in Y])
        labels = padded([[self.place[tag] for tag in y] for _, y in data])
        return loss((scores, self.steps), labels, mask=mask)

    def predict(self, model: Any, data: list[Any]) -> list[list[str]]:
        """The best tags."""
        self.eval()
        layout, found, names = layout_of(model), list[Any](), list(self.place)
        with torch.no_grad():
            for some in batches(len(data), 200):
                scores, mask = self.scored([data[i] for i in some])
                if isinstance(model, so.structures.Chain):
                    arranged = layout.arrange((scores, self.steps), mask)
                else:
                    lengths = mask.sum(dim=1).tolist()
                    arranged = layout.arrange({"tag": apart(scores, mask)}, inputs=lengths)
                labels = arranged.batch.decode(arranged.batch.argmax(arranged.arrays().arrays)[0])
                found += labels if isinstance(labels[0], list) else [[names[k] for k in y.argmax(1)] for y in labels]
        return found


def apart(scores: Any, mask: Any) -> list[Any]:
    """The scores of each sentence without padding."""
    return [row[:length] for row, length in zip(scores, mask.sum(dim=1).tolist(), strict=True)]


def few_entities(names: list[str], most: int) -> so.Model:
    """BIO tags and a limit on the number of entities, both declared as rows; a space for each length."""
    rules = so.structures.bio_rules(names)
    begins = [k for k, name in enumerate(names) if name.startswith("B-")]
    inside = [(names.index(f"B-{name[2:]}"), k) for k, name in enumerate(names) if name.startswith("I-")]

    def declare(length: int) -> so.LabelSpace:
        space = so.LabelSpace(f"{length} tags, at most {most} entities")
        allowed = np.ones((length, len(names)))
        allowed[0] = rules.initial
        tag = space.integer("tag", (length, len(names)), 0, allowed)
        space.subject_to(tag.sum(axis=1) == 1, name="one tag")
        for begin, k in inside:
            if length > 1:
                space.subject_to(tag[1:, k] <= tag[:-1, begin] + tag[:-1, k], name=f"continues {names[k]}")
        space.subject_to(tag[:, begins].sum() <= most, name="entities")
        return space

    return so.Model(declare, {"tag": so.features.Table()}, so.losses.Hamming(), key=lambda length: length)


def ner(n_train: int, n_test: int, epochs: int, seeds: list[int], path: Path | None) -> None:
    """Entities of WNUT 17: margin, slack, micro-F1, ProbLoss and log-loss of one BiLSTM, beside python-crfsuite."""
    parts = {}
    for name, most in (("train", n_train), ("dev", n_test), ("test", n_test)):
        read = so.data.read_conll(DATA / "wnut17" / f"{name}.conll.gz", n_features=2)
        kept = list(zip(read.words, map(list, read.y), strict=True))[:most]
        parts[name] = [([spelled(words, t) for t in range(len(words))], tags) for words, tags in kept]
    names = sorted({tag for _, tags in parts["train"] for tag in tags}, key=lambda tag: (tag[2:], tag))
    data = {part: [(hashed(x), y) for x, y in sentences] for part, sentences in parts.items()}
    chain, rows = so.structures.Chain(names, "bio"), few_entities(names, MOST_ENTITIES)
    few = [(x, y) for x, y in data["train"] if sum(tag.startswith("B-") for tag in y) <= MOST_ENTITIES]
    limited = f"margin, at most {MOST_ENTITIES} entities"
    losses = {
        "margin": StructuredHinge(chain, "margin"),
        "margin, then ProbLoss": StructuredHinge(chain, "prob"),
        "slack": StructuredHinge(chain, "slack"),
        "micro-F1": StructuredHinge(chain, "micro_f1"),
        "log-loss (CRF)": FenchelYoung(chain, "entropy"),
        limited: StructuredHinge(rows, "margin"),
    }
    runs = Runs(path, {"ner": [len(data["train"]), len(data["dev"]), len(data["test"]), epochs]})
    half = epochs // 2

    def f1(network: Tagger, model: Any, part: str) -> float:
        return so.metrics.entity_f1([y for _, y in data[part]], network.predict(model, data[part]))

    for seed in seeds:
        start: dict[str, Any] = {}
        for name, loss in losses.items():
            if runs.has(name, seed) and (name != "margin" or runs.has("margin, then ProbLoss", seed)):
                continue
            begun = process_time()
            torch.manual_seed(seed)
            network = Tagger(names)
            measure = partial(f1, network, loss.model, "dev")
            sentences = few if name == limited else data["train"]
            done, shared = 0, 0.0
            if name == "margin":
                train(network, loss, sentences, half, seed, measure)
                start = {"weights": copy.deepcopy(network.state_dict()), "seconds": process_time() - begun}
                done = half
            elif name == "margin, then ProbLoss":  # not convex in the scores: from half of the epochs of the margin
                network.load_state_dict(start["weights"])
                done, shared = half, start["seconds"]
            best = train(network, loss, sentences, epochs - done, seed + 1000, measure)
            if runs.has(name, seed):
                continue
            row = {"trained with": name, "dev F1": best, "test F1": f1(network, loss.model, "test")}
            runs.add({**row, "CPU s": shared + process_time() - begun, "seed": seed})
    if not runs.has("python-crfsuite", 0):
        crfsuite(parts, runs)
    keep(
        "neural.ner",
        runs.averaged(("dev F1", "test F1")),
        title="Entities of WNUT 17: one BiLSTM, five losses, and a declared limit",
        measures=MEASURES,
        seeds=runs.seeds,
        seconds=sum(row["CPU s"] for row in runs.rows),
        note=f"{len(data['train'])} training sentences, {len(data['dev'])} of dev, {len(data['test'])} of test; "
        f"{epochs} epochs of Adam; F1 of whole entities; the epoch is chosen on dev. With at most {MOST_ENTITIES} "
        "entities, BIO and the limit are rows of a declared space without scores of transitions, in training and in "
        f"prediction, and a wrong tag is two wrong variables; {len(data['train']) - len(few)} training sentences with "
        "more are left out. No pretrained embeddings; python-crfsuite has the same features and no network.",
    )


def crfsuite(parts: dict[str, list[Any]], runs: Runs) -> None:
    """python-crfsuite on the same features; its regularisation is chosen on dev."""
    try:
        import pycrfsuite
    except ImportError:
        print("python-crfsuite is not installed")
        return
    begun, best = process_time(), None
    with tempfile.TemporaryDirectory() as folder:
        for c2 in (0.03, 0.3):
            trainer = pycrfsuite.Trainer(verbose=False)
            trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 100})
            for x, y in parts["train"]:
                trainer.append(x, y)
            path = str(Path(folder) / "model")
            trainer.train(path)
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            f1 = {
                part: so.metrics.entity_f1([y for _, y in parts[part]], [tagger.tag(x) for x, _ in parts[part]])
                for part in ("dev", "test")
            }
            if best is None or f1["dev"] > best["dev"]:
                best = f1
    assert best is not None
    row = {"trained with": "python-crfsuite", "dev F1": best["dev"], "test F1": best["test"]}
    runs.add({**row, "CPU s": process_time() - begun, "seed": 0})


# ---- dependency trees ----------------------------------------------------------------------------


class Parser(torch.nn.Module):  # type: ignore[misc]
    """Scores of arcs by relation, ``(B, n + 1, n + 1, R)``: a bi-affine form of head and token (Dozat, Manning)."""

    def __init__(self, tags: list[str], relations: list[str], size: int = 32) -> None:
        super().__init__()
        self.place = {name: k for k, name in enumerate(relations)}
        self.tag = {name: k + 1 for k, name in enumerate(tags)}
        self.encoder = Encoder(n_tags=len(tags) + 1)
        self.root = torch.nn.Parameter(torch.randn(self.encoder.width))
        self.head, self.child = (torch.nn.Linear(self.encoder.width, size) for _ in range(2))
        self.arc = torch.nn.Parameter(torch.randn(size + 1, size) / size)
        self.distance = torch.nn.Embedding(2 * FAR + 1, 1)
        self.relation = torch.nn.Parameter(0.1 * torch.randn(len(relations), size + 1, size + 1))

    def scored(self, data: list[Any]) -> tuple[Any, Any]:
        """Scores of sentences ``(features, tags, (head, relation) of each token)``, and the mask."""
        tags = padded([[self.tag.get(tag, 0) for tag in y] for _, y, _ in data])
        _, found, mask = self.encoder([x for x, _, _ in data], tags)
        found = torch.cat([self.root.expand(len(found), 1, -1), found], dim=1)
        head, child = torch.relu(self.head(found)), torch.relu(self.child(found))
        one = torch.ones(*head.shape[:2], 1)
        head, wide = torch.cat([head, one], dim=2), torch.cat([child, one], dim=2)
        place = torch.arange(head.shape[1])
        apart = self.distance((place[:, None] - place).clamp(-FAR, FAR) + FAR)[..., 0]
        arcs = torch.einsum("bhd,de,bme->bhm", head, self.arc, child) + apart
        return torch.einsum("bhd,rde,bme->bhmr", head, self.relation, wide) + arcs[..., None], mask

    def loss(self, loss: Any, data: list[Any]) -> Any:
        """The loss of a batch."""
        scores, mask = self.scored(data)
        labels = padded([[(h, self.place.get(r, 0)) for h, r in arcs] for _, _, arcs in data], (2,))
        return loss(scores, labels, mask=mask)


def attachment(network: Parser, model: Any, data: list[Any]) -> tuple[float, float]:
    """Unlabelled and labelled attachment scores, without punctuation."""
    network.eval()
    layout = layout_of(model)
    heads = labels = total = 0
    order = np.argsort([len(tags) for _, tags, _ in data], kind="stable")  # little padding
    with torch.no_grad():
        for some in np.split(order, np.arange(100, len(order), 100)):
            part = [data[i] for i in some]
            arranged = layout.arrange(*network.scored(part))
            found = arranged.batch.decode(arranged.batch.argmax(arranged.arrays().arrays)[0])
            for (_, tags, arcs), tree in zip(part, found, strict=True):
                for tag, (h, r), (g, k) in zip(tags, arcs, tree.tolist(), strict=True):
                    if tag != "PUNCT":
                        total += 1
                        heads += h == g
                        labels += h == g and network.place.get(r) == k
    return heads / total, labels / total


def parse(n_train: int, n_test: int, epochs: int, seeds: list[int], path: Path | None) -> None:
    """Dependency trees of UD English EWT: margin, and margin followed by ProbLoss, from the same start."""
    parts: dict[str, list[Any]] = {}
    for name, most in (("train", n_train), ("dev", n_test), ("test", n_test)):
        read = so.data.read_conll(DATA / "ud_en_ewt" / f"{name}.conllu.gz", n_features=2)
        parts[name] = []
        for words, tags, heads, cells in zip(read.words, read.y, read.heads, read.sentences, strict=True):
            if 2 <= len(words) <= LONGEST and len(parts[name]) < most:
                relations = [token[7].partition(":")[0] for token in cells]
                features = hashed([token_features(words, t)[1:] for t in range(len(words))])
                parts[name].append((features, tags, list(zip(map(int, heads), relations, strict=True))))
    tags = sorted({tag for _, y, _ in parts["train"] for tag in y})
    relations = sorted({r for _, _, arcs in parts["train"] for _, r in arcs})
    model = so.structures.LabelledArborescence(len(relations), single_root=True)
    half, sizes = epochs // 2, [len(parts[part]) for part in ("train", "dev", "test")]
    runs, curve = Runs(path, {"parse": [*sizes, epochs]}), Runs(path, {"curve": [*sizes, epochs]})
    losses = {"margin": "margin", "margin, then ProbLoss": "prob"}
    for seed in seeds:
        if all(runs.has(name, seed) for name in losses):
            continue
        torch.manual_seed(seed)
        start = Parser(tags, relations)
        begun = process_time()
        told: list[tuple[float, float]] = []

        def labelled(network: Parser, told: list[tuple[float, float]]) -> float:
            told.append(attachment(network, model, parts["dev"]))
            return told[-1][1]

        # Every epoch counts here, not the best so far: both go on from the same weights.
        measure = partial(labelled, start, told)
        train(start, StructuredHinge(model, "margin"), parts["train"], half, seed, measure, 5e-3, 32)
        shared = process_time() - begun
        for name, surrogate in losses.items():
            begun, network, own = process_time(), copy.deepcopy(start), list[tuple[float, float]]()
            train(network, StructuredHinge(model, surrogate), parts["train"], epochs - half, seed + 1000,
                  partial(labelled, network, own), 1e-3, 32)  # fmt: skip
            dev, test = (attachment(network, model, parts[part]) for part in ("dev", "test"))
            row = {"trained with": name, "dev UAS": dev[0], "dev LAS": dev[1], "test UAS": test[0], "test LAS": test[1]}
            runs.add({**row, "CPU s": shared + process_time() - begun, "seed": seed})
            for epoch, (uas, las) in enumerate([*told, *own[1:]]):
                at = {"trained with": name, "epoch": epoch, "dev UAS": uas, "dev LAS": las, "CPU s": 0.0}
                curve.add({**at, "point": f"{name}, epoch {epoch}", "seed": seed})
    note = (
        f"{sizes[0]} training sentences of 2 to {LONGEST} tokens, {sizes[1]} of dev and {sizes[2]} of test, gold tags, "
        f"relations without subtypes, exactly one root; {epochs} epochs of Adam, the last {epochs - half} with either "
        "loss and smaller steps from the same weights. Punctuation is not counted."
    )
    keep(
        "neural.parse",
        runs.averaged(("dev UAS", "dev LAS", "test UAS", "test LAS")),
        title="Dependency trees of UD English EWT: a bi-affine scorer on a BiLSTM",
        measures=MEASURES,
        seeds=runs.seeds,
        seconds=sum(row["CPU s"] for row in runs.rows),
        note=f"{note} The epoch is chosen on dev by the labelled score.",
    )
    points = {row["point"]: (row["trained with"], row["epoch"]) for row in curve.rows}
    rows = [
        {"trained with": points[row["point"]][0], "epoch": points[row["point"]][1],
         **{key: row[key] for key in ("dev UAS", "± dev UAS", "dev LAS", "± dev LAS", "seeds")}}
        for row in curve.averaged(("dev UAS", "dev LAS"), "point")
    ]  # fmt: skip
    keep(
        "neural.curve",
        rows,
        title="Attachment scores on dev by epoch, margin and margin followed by ProbLoss",
        measures=MEASURES,
        seeds=runs.seeds,
        seconds=sum(row["CPU s"] for row in runs.rows),
        note=f"{note} Means over the seeds, of the weights after each epoch.",
    )


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
            keep("neural.threads", threads(repeats), title=title, measures=MEASURES, words=[what, *quick], note=note)
        elif what == "sparsemap":
            title = "SparseMAP of chains of 20 x 26, forward and backward"
            note = "Peak of the arrays that are allocated, beside the scores. No package with SparseMAP installs here; "
            note += (
                "piqp is a quadratic program over the marginal polytope for each example, forward only, of 8, times 8."
            )
            keep(
                "neural.sparsemap", sparsemap(repeats), title=title, measures=MEASURES, words=[what, *quick], note=note
            )
        elif not DATA.exists():
            print(f"{what}: skipped, the data sets are not beside the checkout (set STRUCTOPT_DATA)")
        else:
            sizes = (100, 60, 2) if given.quick else (100_000, 100_000, 10 if what == "ner" else 8)
            own = (given.train, given.test, given.epochs)
            n_train, n_test, epochs = (a or b for a, b in zip(own, sizes, strict=True))
            seeds = given.seeds or ([0] if given.quick else [0, 1, 2])
            (ner if what == "ner" else parse)(n_train, n_test, epochs, seeds, given.runs)


if __name__ == "__main__":
    main()

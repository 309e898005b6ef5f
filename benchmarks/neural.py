"""Losses and layers of `structopt.torch`: their time beside the search alone and torch-struct, and networks on text.

    python benchmarks/neural.py [speed] [threads] [sparsemap] [ner] [parse] [--quick]

``speed``: a batch of 64 examples, forward and backward, in CPU time of the process on one thread, beside the batch
search alone (NumPy, the same labels, nothing kept from before); the structured hinge of a chain of 20 positions and 26
states and its log-partition function beside torch-struct's. ``threads``: the same hinge with ``n_jobs`` 1 and 2, by the
clock. ``sparsemap``: SparseMAP on these chains, with its peak of memory by the size of the batch. ``ner``: entities of
WNUT 17 by a BiLSTM and a chain (thesis Table 5.4); ``parse``: dependency trees of UD English EWT by a bi-affine scorer
(thesis Tables 5.5 and 5.6). These two need the data sets beside the checkout, or their folder in STRUCTOPT_DATA. A peer
is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
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
from structopt.torch.scores import layout_of

B, T, S = 64, 20, 26
MEASURES = ("structopt/torch", "structopt/risks", "structopt/search", "structopt/model", "structopt/structures")
DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
Rows = list[Mapping[str, Any]]


def typical(call: Callable[[], Any], repeats: int, clock: Callable[[], float] = process_time) -> float:
    """The median of the seconds of a call, CPU seconds by default."""
    call()
    seconds = []
    for _ in range(repeats):
        begun = clock()
        call()
        seconds.append(clock() - begun)
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


def hinge_against_search(repeats: int) -> Rows:
    """Forward and backward over the search alone."""
    rows: Rows = []
    for name, (model, scores, labels) in _problems().items():
        for surrogate in ("margin", "slack"):
            hinge = StructuredHinge(model, surrogate)
            arranged = hinge.layout.arrange(scores)
            risk = StructuredRisk.of_batch(arranged.batch, hinge.layout.labels(labels, arranged), surrogate)
            tables = arranged.arrays().arrays

            def search(risk: StructuredRisk = risk, tables: Any = tables) -> None:
                risk._planes = risk._plane_batch()  # labels of the last search are not kept
                risk.violations_of(tables)

            def both(hinge: StructuredHinge = hinge, scores: Any = scores, labels: Any = labels) -> None:
                hinge(scores, labels).backward()

            alone, whole = 1e3 * typical(search, repeats), 1e3 * typical(both, repeats)
            row = {"labels": name, "rescaling": surrogate, "search, ms": alone, "hinge, ms": whole}
            rows.append(shown({**row, "difference, ms": whole - alone, "hinge / search": whole / alone}))
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
            seconds = []
            for n_jobs in (1, 2):
                hinge = StructuredHinge(model, surrogate, n_jobs=n_jobs)
                seconds.append(1e3 * typical(partial(hinge.__call__, scores, truth), repeats, perf_counter))
            row = {"problem": name, "surrogate": surrogate, "one thread ms": seconds[0], "two threads ms": seconds[1]}
            rows.append(shown({**row, "times faster": seconds[0] / seconds[1]}))
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
        for size in (16, 32, 64):
            part = unary.detach()[:size].requires_grad_()
            tracemalloc.start()
            layer = SparseMAP(model, blocks=blocks)
            layer((part, steps))[0].sum().backward()
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            row = {"norm of": "states" if blocks else "states and pairs", "batch": size, "peak MB": peak}
            last = size == len(unary)
            rows.append(shown({**row, "CPU ms": 1e3 * seconds if last else None, "gap": largest if last else None}))
    return rows


# ---- networks on real text -----------------------------------------------------------------------

#: Width of hashed word features, and sizes of the networks: small, so that a run takes minutes on one core.
HASHED, WORD, HIDDEN = 2**14, 32, 48
#: Distances between head and token beyond which all are alike.
FAR = 10


def hashed(words: list[str]) -> list[list[int]]:
    """The features of `token_features` of every token, as rows of an embedding."""
    return [
        [zlib.crc32(text.encode()) % HASHED for text in token_features(words, t) if text != "bias"]
        for t in range(len(words))
    ]


class Encoder(torch.nn.Module):  # type: ignore[misc]
    """A sum of hashed features for each token, then a BiLSTM."""

    def __init__(self, n_tags: int = 0) -> None:
        super().__init__()
        self.words = torch.nn.EmbeddingBag(HASHED, WORD, mode="sum")
        torch.nn.init.normal_(self.words.weight, std=0.3)
        self.tags = torch.nn.Embedding(n_tags, WORD) if n_tags else None
        self.lstm = torch.nn.LSTM(WORD * (1 + (n_tags > 0)), HIDDEN, batch_first=True, bidirectional=True)
        self.drop = torch.nn.Dropout(0.3)
        self.width = 2 * HIDDEN + self.lstm.input_size

    def forward(self, tokens: Any, mask: Any, tags: Any = None) -> Any:
        B, T, k = tokens.shape
        x = self.words(tokens.reshape(-1, k)).reshape(B, T, -1)
        if self.tags is not None:
            x = torch.cat([x, self.tags(tags)], dim=2)
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            self.drop(x), mask.sum(dim=1), batch_first=True, enforce_sorted=False
        )
        found = torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=T)[0]
        return torch.cat([self.drop(found), x], dim=2)  # what a token says by itself is learned sooner that way


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
    rate: float = 5e-3,
) -> float:
    """Adam on a loss; the weights of the epoch with the largest measure are kept. Returns that measure."""
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    best, kept = measure(), copy.deepcopy(network.state_dict())
    for _ in range(epochs):
        network.train()
        for part in batches(len(data), 32, rng):
            optimizer.zero_grad()
            scores, labels, mask = network.scored([data[i] for i in part])
            loss(scores, labels, mask=mask).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
        if (value := measure()) >= best:
            best, kept = value, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return best


def averaged(rows: Rows, keys: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Mean and standard deviation over seeds."""
    found = []
    for name in dict.fromkeys(row["trained with"] for row in rows):
        own = [row for row in rows if row["trained with"] == name]
        made: dict[str, Any] = {"trained with": name}
        for key in keys:
            values = [row[key] for row in own]
            made |= {key: float(np.mean(values)), f"± {key}": float(np.std(values))}
        found.append(shown({**made, "seeds": len(own), "CPU s": float(np.mean([row["CPU s"] for row in own]))}))
    return found


class Tagger(torch.nn.Module):  # type: ignore[misc]
    """Scores of tags and of their transitions."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.place = {name: k for k, name in enumerate(names)}
        self.encoder = Encoder()
        self.out = torch.nn.Linear(self.encoder.width, len(names))
        self.steps = torch.nn.Parameter(torch.zeros(len(names), len(names)))

    def scored(self, data: list[Any]) -> tuple[Any, Any, Any]:
        """Scores, labels and mask of sentences ``(features, tags)``."""
        tokens = padded([x for x, _ in data], (len(data[0][0][0]),))
        labels = padded([[self.place[tag] for tag in y] for _, y in data])
        mask = torch.arange(tokens.shape[1]) < torch.tensor([len(x) for x, _ in data])[:, None]
        return (self.out(self.encoder(tokens, mask)), self.steps), labels, mask


def ner(n_train: int, n_test: int, epochs: int, seeds: list[int]) -> None:
    """Entities of WNUT 17: margin, slack, micro-F1, ProbLoss and log-loss of one BiLSTM, beside python-crfsuite."""
    parts = {}
    for name, most in (("train", n_train), ("dev", n_test), ("test", n_test)):
        read = so.data.read_conll(DATA / "wnut17" / f"{name}.conll.gz", n_features=2)
        kept = [(words, tags) for words, tags in zip(read.words, read.y, strict=True) if len(words) <= 60][:most]
        parts[name] = [(words, tags, hashed(words)) for words, tags in kept]
    names = sorted({tag for _, tags, _ in parts["train"] for tag in tags}, key=lambda tag: (tag[2:], tag))
    parts = {k: [s for s in v if set(s[1]) <= set(names)] for k, v in parts.items()}
    model = so.structures.Chain(names, "bio")
    data = {k: [(x, y) for _, y, x in v] for k, v in parts.items()}
    losses = {
        "margin": StructuredHinge(model, "margin"),
        "slack": StructuredHinge(model, "slack"),
        "micro-F1": StructuredHinge(model, "micro_f1"),
        "log-loss (CRF)": FenchelYoung(model, "entropy"),
        "margin, then ProbLoss": StructuredHinge(model, "prob"),
    }
    rows: Rows = []
    for seed in seeds:
        first: dict[str, Any] = {}
        for name, loss in losses.items():
            begun = process_time()
            torch.manual_seed(seed)
            network = Tagger(names)
            # ProbLoss is not convex in the scores: it starts where half of the epochs of the margin ended.
            if name == "margin, then ProbLoss":
                network.load_state_dict(first["half"])

            def f1(part: str, network: Tagger = network) -> float:
                network.eval()
                found: list[Any] = []
                layer = layout_of(model)
                with torch.no_grad():
                    for some in batches(len(data[part]), 200):
                        scores, _, mask = network.scored([data[part][i] for i in some])
                        arranged = layer.arrange(scores, mask)
                        found += arranged.batch.decode(arranged.batch.argmax(arranged.arrays().arrays)[0])
                return so.metrics.entity_f1([y for _, y in data[part]], found)

            half = epochs // 2
            if name == "margin":
                train(network, loss, data["train"], half, seed, lambda: f1("dev"))
                first["half"] = copy.deepcopy(network.state_dict())
                first["seconds"] = process_time() - begun
                best = train(network, loss, data["train"], epochs - half, seed + 1, lambda: f1("dev"))
            else:
                done = half if name == "margin, then ProbLoss" else 0
                best = train(network, loss, data["train"], epochs - done, seed + 1, lambda: f1("dev"))
            seconds = process_time() - begun + (first["seconds"] if name == "margin, then ProbLoss" else 0.0)
            row = {"trained with": name, "dev F1": best, "test F1": f1("test"), "CPU s": seconds}
            rows.append(shown({**row, "seed": seed}))
    table = averaged(rows, ("dev F1", "test F1"))
    table += crfsuite(parts)
    keep(
        "neural.ner",
        table,
        title="Entities of WNUT 17: one BiLSTM, five losses",
        measures=MEASURES,
        seeds=seeds,
        note=f"The first {n_train} training sentences and {n_test} of each of the others (at most 60 tokens), {epochs} "
        "epochs of Adam; F1 of whole entities; the epoch is chosen on dev. No pretrained embeddings, so that F1 is far "
        "below that of networks that have them; python-crfsuite has the same features of words and no network. "
        "Without options, all sentences and more epochs.",
    )


def crfsuite(parts: dict[str, list[Any]]) -> list[Mapping[str, Any]]:
    """python-crfsuite on the same features; its regularisation is chosen on dev."""
    try:
        import pycrfsuite
    except ImportError:
        print("python-crfsuite is not installed")
        return []
    begun, best = process_time(), None
    features = {k: [[token_features(w, t) for t in range(len(w))] for w, _, _ in v] for k, v in parts.items()}
    with tempfile.TemporaryDirectory() as folder:
        for c2 in (0.01, 0.1, 1.0):
            trainer = pycrfsuite.Trainer(verbose=False)
            trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 100})
            for x, (_, y, _) in zip(features["train"], parts["train"], strict=True):
                trainer.append(x, y)
            path = str(Path(folder) / "model")
            trainer.train(path)
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            f1 = {
                k: so.metrics.entity_f1([y for _, y, _ in parts[k]], [tagger.tag(x) for x in features[k]])
                for k in ("dev", "test")
            }
            if best is None or f1["dev"] > best["dev"]:
                best = f1
    assert best is not None
    row = {"trained with": "python-crfsuite", "dev F1": best["dev"], "test F1": best["test"], "seeds": 1}
    return [shown({**row, "CPU s": process_time() - begun})]


class Parser(torch.nn.Module):  # type: ignore[misc]
    """Scores of arcs by relation, ``(B, n + 1, n + 1, R)``: a bi-affine form of head and token (Dozat, Manning)."""

    def __init__(self, tags: list[str], relations: list[str], size: int = 32) -> None:
        super().__init__()
        self.place = {name: k for k, name in enumerate(relations)}
        self.tag = {name: k + 1 for k, name in enumerate(tags)}
        self.encoder = Encoder(len(tags) + 1)
        self.root = torch.nn.Parameter(torch.randn(self.encoder.width))
        self.head, self.child = (torch.nn.Linear(self.encoder.width, size) for _ in range(2))
        self.arc = torch.nn.Parameter(torch.randn(size + 1, size) / size)
        self.distance = torch.nn.Embedding(2 * FAR + 1, 1)
        self.relation = torch.nn.Parameter(0.1 * torch.randn(len(relations), size + 1, size + 1))

    def scored(self, data: list[Any]) -> tuple[Any, Any, Any]:
        """Scores, labels and mask of sentences ``(features, tags, (head, relation) of each token)``."""
        tokens = padded([x for x, _, _ in data], (len(data[0][0][0]),))
        tags = padded([[self.tag.get(tag, 0) for tag in y] for _, y, _ in data])
        labels = padded([[(h, self.place.get(r, 0)) for h, r in arcs] for _, _, arcs in data], (2,))
        mask = torch.arange(tokens.shape[1]) < torch.tensor([len(x) for x, _, _ in data])[:, None]
        found = self.encoder(tokens, mask, tags)
        found = torch.cat([self.root.expand(len(found), 1, -1), found], dim=1)
        head, child = torch.relu(self.head(found)), torch.relu(self.child(found))
        one = torch.ones(*head.shape[:2], 1)
        head, wide = torch.cat([head, one], dim=2), torch.cat([child, one], dim=2)
        arcs = torch.einsum("bhd,de,bme->bhm", head, self.arc, child)
        by_relation = torch.einsum("bhd,rde,bme->bhmr", head, self.relation, wide)
        place = torch.arange(arcs.shape[1])
        apart = self.distance((place[:, None] - place).clamp(-FAR, FAR) + FAR)
        return arcs[..., None] + apart + by_relation, labels, mask


def attachment(network: Parser, model: Any, data: list[Any]) -> tuple[float, float]:
    """Unlabelled and labelled attachment scores, without punctuation."""
    network.eval()
    layout = layout_of(model)
    heads = labels = total = 0
    with torch.no_grad():
        for some in batches(len(data), 100):
            part = [data[i] for i in some]
            scores, _, mask = network.scored(part)
            arranged = layout.arrange(scores, mask)
            found = arranged.batch.decode(arranged.batch.argmax(arranged.arrays().arrays)[0])
            for (_, tags, arcs), tree in zip(part, found, strict=True):
                for tag, (h, r), (g, k) in zip(tags, arcs, tree.tolist(), strict=True):
                    if tag != "PUNCT":
                        total += 1
                        heads += h == g
                        labels += h == g and network.place.get(r) == k
    return heads / total, labels / total


def labelled_score(network: Parser, model: Any, data: list[Any]) -> float:
    """The labelled attachment score."""
    return attachment(network, model, data)[1]


def parse(n_train: int, n_test: int, epochs: int, seeds: list[int]) -> None:
    """Dependency trees of UD English EWT: margin, and margin followed by ProbLoss, from the same start."""
    parts: dict[str, list[Any]] = {}
    for name, most in (("train", n_train), ("dev", n_test), ("test", n_test)):
        read = so.data.read_conll(DATA / "ud_en_ewt" / f"{name}.conllu.gz", n_features=2)
        parts[name] = []
        for words, tags, heads, cells in zip(read.words, read.y, read.heads, read.sentences, strict=True):
            if 2 <= len(words) <= 25 and len(parts[name]) < most:
                relations = [token[7].partition(":")[0] for token in cells]
                parts[name].append((hashed(words), tags, list(zip(map(int, heads), relations, strict=True))))
    tags = sorted({tag for _, y, _ in parts["train"] for tag in y})
    relations = sorted({r for _, _, arcs in parts["train"] for _, r in arcs})
    model = so.structures.LabelledArborescence(len(relations), single_root=True)
    rows: Rows = []
    for seed in seeds:
        torch.manual_seed(seed)
        start = Parser(tags, relations)
        begun = process_time()
        half = epochs // 2
        train(
            start,
            StructuredHinge(model, "margin"),
            parts["train"],
            half,
            seed,
            partial(labelled_score, start, model, parts["dev"]),
        )
        shared = process_time() - begun
        for name, surrogate in (("margin", "margin"), ("margin, then ProbLoss", "prob")):
            begun, network = process_time(), copy.deepcopy(start)
            train(network, StructuredHinge(model, surrogate), parts["train"], epochs - half, seed + 1,
                  partial(labelled_score, network, model, parts["dev"]), 2e-3)  # fmt: skip
            dev, test = (attachment(network, model, parts[part]) for part in ("dev", "test"))
            row = {"trained with": name, "dev UAS": dev[0], "dev LAS": dev[1], "test UAS": test[0], "test LAS": test[1]}
            rows.append(shown({**row, "CPU s": shared + process_time() - begun, "seed": seed}))
    keep(
        "neural.parse",
        averaged(rows, ("dev UAS", "dev LAS", "test UAS", "test LAS")),
        title="Dependency trees of UD English EWT: a bi-affine scorer on a BiLSTM",
        measures=MEASURES,
        seeds=seeds,
        note=f"The first {n_train} training sentences of 2 to 25 tokens and {n_test} of each of the others, gold tags, "
        f"relations without subtypes, exactly one root; {epochs} epochs of Adam, the second half with either loss "
        "and smaller steps from the same weights. The epoch is chosen on dev. Punctuation is not counted. Without "
        "options, all sentences and more epochs.",
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
    parser.add_argument("--seeds", type=int, help="how many")
    given = parser.parse_args()
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
                note="What is not the search takes up to a millisecond, whatever the structure: where the search takes "
                "less, the ratio is large.",
            )
            rows = chain_against_torch_struct(repeats)
            title = "Chains beside torch-struct"
            keep("neural.chain", rows, title=title, measures=MEASURES, words=[what, *quick], ratio="times faster")
        elif what == "threads":
            title = "StructuredHinge of 512 examples in one thread and in two"
            note = "Seconds of the clock on a machine of two cores."
            keep("neural.threads", threads(repeats), title=title, measures=MEASURES, words=[what, *quick], note=note)
        elif what == "sparsemap":
            title = "SparseMAP of chains of 20 x 26, forward and backward"
            note = "Peak of the arrays that are allocated, beside the scores."
            keep(
                "neural.sparsemap", sparsemap(repeats), title=title, measures=MEASURES, words=[what, *quick], note=note
            )
        elif not DATA.exists():
            print(f"{what}: skipped, the data sets are not beside the checkout (set STRUCTOPT_DATA)")
        else:
            sizes = (100, 60, 2, 1) if given.quick else (3500, 2000, 12, 3) if what == "ner" else (2000, 500, 16, 3)
            own = (given.train, given.test, given.epochs, given.seeds)
            n_train, n_test, epochs, n_seeds = (a or b for a, b in zip(own, sizes, strict=True))
            (ner if what == "ner" else parse)(n_train, n_test, epochs, list(range(n_seeds)))


if __name__ == "__main__":
    main()

"""Networks on text with losses of `structopt.torch`: entities of WNUT 17 and dependency trees of UD English EWT.

``ner``: entities by a BiLSTM and a chain, or a declared space with a limit on the number of entities (thesis Table
5.4). ``parse``: dependency trees by a bi-affine scorer (thesis Tables 5.5 and 5.6, Figure 5-3). A BiLSTM over hashed
features of the tokens gives the scores. One network and one optimiser for all losses; nothing pretrained. Both need the
data sets beside the checkout, or their folder in STRUCTOPT_DATA. With STRUCTOPT_RUNS an interrupted command goes on
after the last training.
"""

from __future__ import annotations

import copy
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from _bench import Row, Rows, Table, data_path, installed, main, part, resumed
from scipy import stats

try:
    import torch
except ImportError:  # an extra: `make bench` goes on
    print("PyTorch is not installed; make test-torch installs it")
    raise SystemExit(0) from None

import structopt as so
from structopt.data.conll import token_features
from structopt.torch import FenchelYoung, StructuredHinge
from structopt.torch.layouts import layout_of

#: Rows of the embedding of hashed features.
HASHED = 2**17
#: Distances between head and token beyond which all are alike.
FAR = 10
#: The step of Adam in the second half of a parser's training, with either loss.
SMALL_STEP = 3e-4
#: Entities of a sentence that the declared rows allow.
MOST_ENTITIES = 4


def spelled(words: list[str], t: int) -> list[str]:
    """Return `token_features` and more of the spelling: prefixes, suffixes, letters, capitals, neighbours."""
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
    """Return features as rows of an embedding."""
    places = [zlib.crc32(text.encode()) % HASHED for token in features for text in token]
    return Tokens(np.array(places), np.array([len(token) for token in features]))


class Encoder(torch.nn.Module):  # type: ignore[misc]
    """Sums of hashed features of each token: `direct` of their columns are scores, the others go through a BiLSTM."""

    def __init__(self, word: int, hidden: int, direct: int = 0, n_tags: int = 0) -> None:
        super().__init__()
        self.word, self.direct = word, direct
        self.words = torch.nn.EmbeddingBag(HASHED, word + direct, mode="sum", sparse=True)
        torch.nn.init.normal_(self.words.weight, std=0.3)
        with torch.no_grad():
            self.words.weight[:, :direct] = 0.0
        self.tags = torch.nn.Embedding(n_tags, word) if n_tags else None
        self.lstm = torch.nn.LSTM(word * (1 + (n_tags > 0)), hidden, batch_first=True, bidirectional=True)
        self.drop = torch.nn.Dropout(0.3)
        self.width = 2 * hidden + (0 if direct else self.lstm.input_size)

    def forward(self, sentences: list[Tokens], tags: Any = None) -> tuple[Any, Any, Any]:
        """Return direct scores of the tokens, one after the other; the BiLSTM's vectors, padded; the mask."""
        places = torch.from_numpy(np.concatenate([found.places for found in sentences]))
        counts = np.concatenate([found.counts for found in sentences])
        starts = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)[:-1]]))
        weights = torch.from_numpy(np.repeat(1.0 / np.sqrt(counts), counts)).float()
        if self.training:  # of rare features the network must not depend on one
            weights = weights * (torch.rand(len(weights)) > 0.3) / 0.7
        found = self.words(places, starts, per_sample_weights=weights)
        lengths = torch.tensor([len(found.counts) for found in sentences])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        x = torch.zeros(*mask.shape, self.word)
        x[mask] = torch.tanh(found[:, self.direct :])
        if self.tags is not None:
            x = torch.cat([x, self.tags(tags)], dim=2)
        packed = torch.nn.utils.rnn.pack_padded_sequence(self.drop(x), lengths, batch_first=True, enforce_sorted=False)
        hidden = torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]
        hidden = self.drop(hidden)
        # What a token says by itself is learned sooner that way.
        return found[:, : self.direct], hidden if self.direct else torch.cat([hidden, x], dim=2), mask


def padded(rows: list[Any], last: tuple[int, ...] = ()) -> Any:
    """Return arrays of different lengths as one tensor, zeros at the end."""
    out = np.zeros((len(rows), max(map(len, rows)), *last), dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def batches(lengths: Any, size: int, rng: np.random.Generator | None = None) -> list[Any]:
    """Return numbers of examples, by their length or, with `rng`, at random: 16 batches are drawn and sorted at a time.

    The arcs of a batch grow with the square of its longest sentence: most of them would be padding in batches drawn one
    by one.
    """
    n = len(lengths)
    if rng is None:
        return np.split(np.argsort(lengths, kind="stable"), np.arange(size, n, size))
    order = rng.permutation(n)
    for pool in np.split(order, np.arange(16 * size, n, 16 * size)):  # views: sorted in place
        pool[:] = pool[np.argsort(lengths[pool], kind="stable")]
    found = np.split(order, np.arange(size, n, size))
    return [found[k] for k in rng.permutation(len(found))]


def train(
    network: Any, loss: Any, data: list[Any], epochs: int, seed: int, measure: Callable[[], float],
    rate: float = 6e-3, size: int = 64,
) -> float:  # fmt: skip
    """Run Adam on a loss, keep the weights of the epoch with the largest measure, and return that measure."""
    rng = np.random.default_rng(seed)
    lengths = np.array([len(example[0].counts) for example in data])
    table = network.encoder.words.weight  # its gradients are sparse
    others = [weights for weights in network.parameters() if weights is not table]
    optimizers = [torch.optim.SparseAdam([table], lr=rate), torch.optim.Adam(others, lr=rate)]
    best, kept = measure(), copy.deepcopy(network.state_dict())
    for _ in range(epochs):
        network.train()
        for some in batches(lengths, size, rng):
            network.zero_grad()
            network.loss(loss, [data[i] for i in some]).backward()
            torch.nn.utils.clip_grad_norm_(others, 5.0)
            for optimizer in optimizers:
                optimizer.step()
        if (value := measure()) >= best:
            best, kept = value, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return best


def averaged(runs: Sequence[Row], keys: Sequence[str], by: Sequence[str] = ("trained with",)) -> list[Row]:
    """Return mean and standard deviation over seeds of the runs with the same names."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in runs:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    found = []
    for names, own in groups.items():
        row = dict(zip(by, names, strict=True))
        for key in keys:
            values = [one[key] for one in own]
            row |= {key: float(np.mean(values)), f"± {key}": float(np.std(values))}
        found.append(row | {"seeds": len(own)})
        if "CPU s" in own[0]:
            found[-1]["CPU s"] = float(np.mean([one["CPU s"] for one in own]))
    return found


# ---- named entities ------------------------------------------------------------------------------


class Tagger(torch.nn.Module):  # type: ignore[misc]
    """Scores of tags by their features and by a BiLSTM, and of transitions."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.place = {name: k for k, name in enumerate(names)}
        self.encoder = Encoder(32, 48, direct=len(names))
        self.out = torch.nn.Linear(self.encoder.width, len(names))
        self.steps = torch.nn.Parameter(torch.zeros(len(names), len(names)))

    def scored(self, data: list[Any]) -> tuple[Any, Any]:
        """Return scores of the tags of sentences ``(features, tags)``, and the mask."""
        direct, hidden, mask = self.encoder([x for x, _ in data])
        scores = torch.zeros(*mask.shape, len(self.place))
        scores[mask] = direct + self.out(hidden[mask])
        return scores, mask

    def loss(self, loss: Any, data: list[Any]) -> Any:
        """Return the loss of a batch: of chains, or of the declared space of each sentence's length."""
        scores, mask = self.scored(data)
        if not isinstance(loss.model, so.structures.Chain):
            Y = [np.eye(len(self.place))[[self.place[tag] for tag in y]] for _, y in data]
            return loss({"tag": apart(scores, mask)}, Y, inputs=[len(y) for y in Y])
        labels = padded([[self.place[tag] for tag in y] for _, y in data])
        return loss((scores, self.steps), labels, mask=mask)

    def predict(self, model: Any, data: list[Any]) -> list[list[str]]:
        """Return the best tags."""
        self.eval()
        layout, found, names = layout_of(model), list[Any](), list(self.place)
        with torch.no_grad():
            for some in np.split(np.arange(len(data)), np.arange(200, len(data), 200)):
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
    """Return the scores of each sentence without padding."""
    return [row[:length] for row, length in zip(scores, mask.sum(dim=1).tolist(), strict=True)]


def few_entities(names: list[str], most: int) -> so.Model:
    """Return BIO tags and a limit on the number of entities, both declared as rows; a space for each length."""
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


@part("Entities of WNUT 17: one BiLSTM, five losses, and a declared limit")
def ner(epochs: int = 10, seeds: tuple[int, ...] = (0, 1, 2), sentences: int = 100_000) -> Rows:
    """Measure margin, slack, micro-F1, ProbLoss and log-loss of one BiLSTM, beside python-crfsuite."""
    parts = {}
    for name in ("train", "dev", "test"):
        read = so.data.read_conll(data_path("wnut17") / f"{name}.conll.gz", n_features=2)
        kept = list(zip(read.words, map(list, read.y), strict=True))[:sentences]
        parts[name] = [([spelled(words, t) for t in range(len(words))], tags) for words, tags in kept]
    names = sorted({tag for _, tags in parts["train"] for tag in tags}, key=lambda tag: (tag[2:], tag))
    data = {split: [(hashed(x), y) for x, y in own] for split, own in parts.items()}
    few = [(x, y) for x, y in data["train"] if sum(tag.startswith("B-") for tag in y) <= MOST_ENTITIES]
    key, runs = ["ner", epochs, *(len(own) for own in data.values())], list[Row]()
    for seed in seeds:
        runs += resumed([*key, seed], partial(ner_runs, names, data, few, epochs, seed))
    if installed("pycrfsuite"):
        runs += resumed([*key, "python-crfsuite"], partial(crfsuite, parts))
    yield from averaged(runs, ("dev F1", "test F1"))
    yield (
        f"{len(data['train'])} training sentences, {len(data['dev'])} of dev, {len(data['test'])} of test; "
        f"{epochs} epochs of Adam; F1 of whole entities; the epoch is chosen on dev. With at most {MOST_ENTITIES} "
        "entities, BIO and the limit are rows of a declared space without scores of transitions, in training and in "
        f"prediction, and a wrong tag is two wrong variables; {len(data['train']) - len(few)} training sentences with "
        "more are left out. No pretrained embeddings; python-crfsuite has the same features and no network."
    )


def ner_runs(names: list[str], data: dict[str, Any], few: list[Any], epochs: int, seed: int) -> list[Row]:
    """Train the network with every loss from one seed."""
    chain, limited = so.structures.Chain(names, "bio"), f"margin, at most {MOST_ENTITIES} entities"
    losses = {
        "margin": StructuredHinge(chain, "margin"),
        "margin, then ProbLoss": StructuredHinge(chain, "prob"),
        "slack": StructuredHinge(chain, "slack"),
        "micro-F1": StructuredHinge(chain, "micro_f1"),
        "log-loss (CRF)": FenchelYoung(chain, "entropy"),
        limited: StructuredHinge(few_entities(names, MOST_ENTITIES), "margin"),
    }
    half, start, rows = epochs // 2, dict[str, Any](), list[Row]()

    def f1(network: Tagger, model: Any, split: str) -> float:
        return so.metrics.entity_f1([y for _, y in data[split]], network.predict(model, data[split]))

    for name, loss in losses.items():
        begun, done, shared = process_time(), 0, 0.0
        torch.manual_seed(seed)
        network = Tagger(names)
        measure = partial(f1, network, loss.model, "dev")
        sentences = few if name == limited else data["train"]
        if name == "margin":
            train(network, loss, sentences, half, seed, measure)
            start = {"weights": copy.deepcopy(network.state_dict()), "seconds": process_time() - begun}
            done = half
        elif name == "margin, then ProbLoss":  # not convex in the scores: from half of the epochs of the margin
            network.load_state_dict(start["weights"])
            done, shared = half, start["seconds"]
        best = train(network, loss, sentences, epochs - done, seed + 1000, measure)
        row = {"trained with": name, "dev F1": best, "test F1": f1(network, loss.model, "test")}
        rows.append(row | {"CPU s": shared + process_time() - begun, "seed": seed})
    return rows


def crfsuite(parts: dict[str, list[Any]]) -> list[Row]:
    """Train python-crfsuite on the same features; its regularisation is chosen on dev."""
    import pycrfsuite

    begun, tried = process_time(), list[dict[str, float]]()
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
            answers = {split: [tagger.tag(x) for x, _ in parts[split]] for split in ("dev", "test")}
            f1 = {
                f"{split} F1": so.metrics.entity_f1([y for _, y in parts[split]], found)
                for split, found in answers.items()
            }
            tried.append(f1)
    best = max(tried, key=lambda f1: f1["dev F1"])
    return [{"trained with": "python-crfsuite", **best, "CPU s": process_time() - begun, "seed": 0}]


# ---- dependency trees ----------------------------------------------------------------------------


class Parser(torch.nn.Module):  # type: ignore[misc]
    """Scores of arcs by relation, ``(B, n + 1, n + 1, R)``: a bi-affine form of head and token (Dozat, Manning)."""

    def __init__(self, tags: list[str], relations: list[str], word: int = 48, hidden: int = 96, size: int = 48) -> None:
        super().__init__()
        self.place = {name: k for k, name in enumerate(relations)}
        self.tag = {name: k + 1 for k, name in enumerate(tags)}
        self.encoder = Encoder(word, hidden, n_tags=len(tags) + 1)
        self.root = torch.nn.Parameter(torch.randn(self.encoder.width))
        self.head, self.child = (torch.nn.Linear(self.encoder.width, size) for _ in range(2))
        self.arc = torch.nn.Parameter(torch.randn(size + 1, size) / size)
        self.distance = torch.nn.Embedding(2 * FAR + 1, 1)
        self.relation = torch.nn.Parameter(0.1 * torch.randn(len(relations), size + 1, size + 1))

    def scored(self, data: list[Any]) -> tuple[Any, Any]:
        """Return scores of sentences ``(features, tags, (head, relation) of each token)``, and the mask."""
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
        """Return the loss of a batch."""
        scores, mask = self.scored(data)
        labels = padded([[(h, self.place.get(r, 0)) for h, r in arcs] for _, _, arcs in data], (2,))
        return loss(scores, labels, mask=mask)


def attachment(network: Parser, model: Any, data: list[Any]) -> tuple[float, float]:
    """Return unlabelled and labelled attachment scores, without punctuation."""
    network.eval()
    layout = layout_of(model)
    heads = labels = total = 0
    with torch.no_grad():
        for some in batches([len(tags) for _, tags, _ in data], 100):
            sentences = [data[i] for i in some]
            arranged = layout.arrange(*network.scored(sentences))
            found = arranged.batch.decode(arranged.batch.argmax(arranged.arrays().arrays)[0])
            for (_, tags, arcs), tree in zip(sentences, found, strict=True):
                for tag, (h, r), (g, k) in zip(tags, arcs, tree.tolist(), strict=True):
                    if tag != "PUNCT":
                        total += 1
                        heads += h == g
                        labels += h == g and network.place.get(r) == k
    return heads / total, labels / total


@part("Dependency trees of UD English EWT: a bi-affine scorer on a BiLSTM")
def parse(epochs: int = 24, seeds: tuple[int, ...] = tuple(range(10)), sentences: int = 100_000) -> Rows:
    """Measure margin, and margin followed by ProbLoss, from the same start."""
    parts: dict[str, list[Any]] = {}
    for name in ("train", "dev", "test"):
        read = so.data.read_conll(data_path("ud_en_ewt") / f"{name}.conllu.gz", n_features=2)
        parts[name] = []
        for words, tags, heads, cells in zip(read.words, read.y, read.heads, read.sentences, strict=True):
            if len(words) > 1 and len(parts[name]) < sentences:
                relations = [token[7].partition(":")[0] for token in cells]
                features = hashed([token_features(words, t)[1:] for t in range(len(words))])
                parts[name].append((features, tags, list(zip(map(int, heads), relations, strict=True))))
    sizes, runs, curve = [len(own) for own in parts.values()], list[Row](), list[Row]()
    for seed in seeds:
        rows, points = resumed(["parse", epochs, *sizes, seed], partial(parse_runs, parts, epochs, seed))
        runs, curve = runs + rows, curve + points
    keys = ("dev UAS", "dev LAS", "test UAS", "test LAS")
    note = (
        f"{sizes[0]} training sentences of two tokens and more, {sizes[1]} of dev and {sizes[2]} of test, gold tags, "
        f"relations without subtypes, exactly one root; {epochs} epochs of Adam, the last {epochs - epochs // 2} with "
        f"either loss and steps of {SMALL_STEP:g} from the same weights. Punctuation is not counted."
    )
    yield from averaged(runs, keys)
    yield f"{note} The epoch is chosen on dev by the labelled score."
    yield Table(
        "significance",
        "ProbLoss after the margin, run by run",
        paired(runs, "margin", "margin, then ProbLoss", keys),
        f"{note} Wilcoxon's signed-rank test, two-sided, over runs that differ in the seed of the network and of the "
        "order of the sentences.",
    )
    title = "Attachment scores on dev by epoch, margin and margin followed by ProbLoss"
    rows = averaged(curve, ("dev UAS", "dev LAS"), ("trained with", "epoch"))
    yield Table("curve", title, rows, f"{note} Means over the seeds, of the weights after each epoch.")


def parse_runs(parts: Mapping[str, list[Any]], epochs: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Train the parser with both losses from one seed; return the scores of both, and those on dev after each epoch."""
    tags = sorted({tag for _, y, _ in parts["train"] for tag in y})
    relations = sorted({r for _, _, arcs in parts["train"] for _, r in arcs})
    model = so.structures.LabelledArborescence(len(relations), single_root=True)
    torch.manual_seed(seed)
    begun, start, half = process_time(), Parser(tags, relations), epochs // 2

    def labelled(network: Parser, told: list[tuple[float, float]]) -> float:
        told.append(attachment(network, model, parts["dev"]))
        return told[-1][1]

    # Every epoch counts here, not the best so far: both go on from the same weights.
    told, rows, points = list[tuple[float, float]](), list[Row](), list[Row]()
    measure = partial(labelled, start, told)
    train(start, StructuredHinge(model, "margin"), parts["train"], half, seed, measure, 3e-3, 16)
    shared = process_time() - begun
    for name, surrogate in (("margin", "margin"), ("margin, then ProbLoss", "prob")):
        begun, network, own = process_time(), copy.deepcopy(start), list[tuple[float, float]]()
        hinge, measure = StructuredHinge(model, surrogate), partial(labelled, network, own)
        train(network, hinge, parts["train"], epochs - half, seed + 1000, measure, SMALL_STEP, 16)
        dev, test = (attachment(network, model, parts[split]) for split in ("dev", "test"))
        row = {"trained with": name, "dev UAS": dev[0], "dev LAS": dev[1], "test UAS": test[0], "test LAS": test[1]}
        rows.append(row | {"CPU s": shared + process_time() - begun, "seed": seed})
        for epoch, (uas, las) in enumerate([*told, *own[1:]]):
            points.append({"trained with": name, "epoch": epoch, "dev UAS": uas, "dev LAS": las, "seed": seed})
    return rows, points


def paired(runs: Sequence[Row], first: str, second: str, keys: Sequence[str]) -> list[Row]:
    """Return means of two losses over the seeds, and whether their differences are more than chance."""
    found = []
    for key in keys:
        a, b = (100.0 * np.array([row[key] for row in runs if row["trained with"] == name]) for name in (first, second))
        p = float(stats.wilcoxon(a, b).pvalue) if (a != b).any() else 1.0
        row = {"measure": key, first: a.mean(), f"± {first}": a.std(), second: b.mean(), f"± {second}": b.std()}
        found.append(row | {"difference": float((b - a).mean()), "runs": len(a), "p": p})
    return found


if __name__ == "__main__":
    main()

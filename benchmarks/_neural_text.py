"""Networks on text for `neural.py`: entities of WNUT 17 (``ner``) and dependency trees of UD English EWT (``parse``).

A BiLSTM over hashed features of the tokens gives the scores of a chain, of a declared space with a limit on the number
of entities, or of labelled arcs by a bi-affine form. One network and one optimiser for all losses; nothing pretrained.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from _results import keep, shown
from scipy import stats

import structopt as so
from structopt.data.conll import token_features
from structopt.torch import FenchelYoung, StructuredHinge
from structopt.torch.layouts import layout_of

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
MEASURES = ("structopt/torch", "structopt/risks", "structopt/search", "structopt/model", "structopt/structures")

#: Rows of the embedding of hashed features.
HASHED = 2**17
#: Distances between head and token beyond which all are alike.
FAR = 10
#: The step of Adam in the second half of a parser's training, with either loss.
SMALL_STEP = 3e-4
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
        x = torch.zeros(*mask.shape, self.word)
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


def batches(lengths: Any, size: int, rng: np.random.Generator | None = None) -> list[Any]:
    """Numbers of examples, by their length or, with `rng`, at random: then 16 batches are drawn and sorted at a time.

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
    lengths = np.array([len(example[0].counts) for example in data])
    table = network.encoder.table
    others = [weights for weights in network.parameters() if weights is not table]
    optimizers = [torch.optim.SparseAdam([table], lr=rate), torch.optim.Adam(others, lr=rate)]
    best, kept = measure(), copy.deepcopy(network.state_dict())
    for _ in range(epochs):
        network.train()
        for part in batches(lengths, size, rng):
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
        self.encoder = Encoder(32, 48, direct=len(names))
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


def ner(epochs: int, seeds: list[int], path: Path | None, n_train: int, n_test: int) -> None:
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
    with torch.no_grad():
        for some in batches([len(tags) for _, tags, _ in data], 100):
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


def parse(epochs: int, seeds: list[int], path: Path | None, n_train: int, n_test: int) -> None:
    """Dependency trees of UD English EWT: margin, and margin followed by ProbLoss, from the same start."""
    parts: dict[str, list[Any]] = {}
    for name, most in (("train", n_train), ("dev", n_test), ("test", n_test)):
        read = so.data.read_conll(DATA / "ud_en_ewt" / f"{name}.conllu.gz", n_features=2)
        parts[name] = []
        for words, tags, heads, cells in zip(read.words, read.y, read.heads, read.sentences, strict=True):
            if len(words) > 1 and len(parts[name]) < most:
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
        train(start, StructuredHinge(model, "margin"), parts["train"], half, seed, measure, 3e-3, 16)
        shared = process_time() - begun
        for name, surrogate in losses.items():
            begun, network, own = process_time(), copy.deepcopy(start), list[tuple[float, float]]()
            train(network, StructuredHinge(model, surrogate), parts["train"], epochs - half, seed + 1000,
                  partial(labelled, network, own), SMALL_STEP, 16)  # fmt: skip
            dev, test = (attachment(network, model, parts[part]) for part in ("dev", "test"))
            row = {"trained with": name, "dev UAS": dev[0], "dev LAS": dev[1], "test UAS": test[0], "test LAS": test[1]}
            runs.add({**row, "CPU s": shared + process_time() - begun, "seed": seed})
            for epoch, (uas, las) in enumerate([*told, *own[1:]]):
                at = {"trained with": name, "epoch": epoch, "dev UAS": uas, "dev LAS": las, "CPU s": 0.0}
                curve.add({**at, "point": f"{name}, epoch {epoch}", "seed": seed})
    note = (
        f"{sizes[0]} training sentences of two tokens and more, {sizes[1]} of dev and {sizes[2]} of test, gold tags, "
        f"relations without subtypes, exactly one root; {epochs} epochs of Adam, the last {epochs - half} with either "
        f"loss and steps of {SMALL_STEP:g} from the same weights. Punctuation is not counted."
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
    keep(
        "neural.significance",
        paired(runs, "margin", "margin, then ProbLoss", ("dev UAS", "dev LAS", "test UAS", "test LAS")),
        title="ProbLoss after the margin, run by run",
        measures=MEASURES,
        seeds=runs.seeds,
        seconds=0.0,  # of the table above
        note=f"{note} Wilcoxon's signed-rank test, two-sided, over runs that differ in the seed of the network and of "
        "the order of the sentences.",
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
        seconds=0.0,  # of the first table
        note=f"{note} Means over the seeds, of the weights after each epoch.",
    )


def paired(runs: Runs, first: str, second: str, keys: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Means of two losses over the seeds that both have, and whether their differences are more than chance."""
    found = []
    for key in keys:
        by_seed = [
            {row["seed"]: row[key] for row in runs.rows if row["trained with"] == name} for name in (first, second)
        ]
        both = sorted(by_seed[0].keys() & by_seed[1].keys())
        a, b = (100.0 * np.array([own[seed] for seed in both]) for own in by_seed)
        p = float(stats.wilcoxon(a, b).pvalue) if (a != b).any() else 1.0
        row = {"measure": key, first: a.mean(), f"± {first}": a.std(), second: b.mean(), f"± {second}": b.std()}
        found.append(shown({**row, "difference": float((b - a).mean()), "runs": len(both), "p": p}))
    return found

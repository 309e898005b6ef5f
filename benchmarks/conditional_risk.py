"""Conditional risk minimisation: speed, and the tables of Goh and Jaillet.

    python benchmarks/conditional_risk.py training      time of fit from 10 to 1,000 nodes
    python benchmarks/conditional_risk.py prediction    the shape of Reuters against HiGHS and the paper's 7 ms
    python benchmarks/conditional_risk.py nystroem      20,000 examples: time and peak memory
    python benchmarks/conditional_risk.py table1 [set ...] [--blocks]
    python benchmarks/conditional_risk.py flow --first 0 --trials 10 --out flow.csv     (once a part, then `table2`)
    python benchmarks/conditional_risk.py table2 flow.csv

Table 1 needs the benchmark sets (`structopt.data.benchmark`); everything is tuned on the training part only.
"""

from __future__ import annotations

import argparse
import csv
import resource
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, normalize

import structopt as so
from structopt.data.benchmark import load_benchmark
from structopt.data.flow import synthetic_flow
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer, RegularizationPath
from structopt.hierarchy import Hierarchy
from structopt.kernel_averages import KernelAverages
from structopt.losses import Hamming, HierarchicalLoss
from structopt.projection import Projection
from structopt.risk_programs import encode_labels, risk_program
from structopt.structures.flow import Flow
from structopt.structures.hierarchy import HierarchicalLabels

# ---- speed ---------------------------------------------------------------------------------------


def random_tree(n: int, rng: np.random.Generator) -> Hierarchy:
    return Hierarchy([(int(rng.integers(max(0, k - 20), k)), k) for k in range(1, n)])


def random_labels(h: Hierarchy, m: int, rng: np.random.Generator) -> np.ndarray:
    """Three random nodes each, with their ancestors."""
    members = rng.integers(len(h), size=3 * m)
    return h.ancestor_rows(np.arange(0, 3 * m + 1, 3), members).toarray()


def training(repeats: int) -> None:
    """Training looks at the labels only to check them."""
    rng = np.random.default_rng(0)
    sizes, m = (10, 30, 100, 300, 1000), 3000
    X = rng.normal(size=(m, 500))
    cases = []
    for n in sizes:
        h = random_tree(n, rng)
        model = HierarchicalLabels(h, "closure")
        cases.append((ConditionalRiskMinimizer(model, "rbf", 1e-3), random_labels(h, m, rng)))
    cases[0][0].fit(X, cases[0][1])
    times = np.zeros((3, repeats, len(sizes)))
    for r in range(repeats):  # interleaved, so that a busy machine is busy for all
        for k, (est, Y) in enumerate(cases):
            begun = perf_counter(), process_time()
            est.fit(X, Y)
            times[:2, r, k] = perf_counter() - begun[0], process_time() - begun[1]
            begun = (0.0, process_time())
            _label_work(est, Y)
            times[2, r, k] = process_time() - begun[1]
    wall, processor, labels = np.median(times, axis=1)
    print(
        f"fit of m = {m} examples, 500 features, RBF kernel; medians of {repeats} interleaved fits, and times the fastest"
    )
    for n, a, b, c in zip(sizes, wall, processor, labels, strict=True):
        told = f"wall {a:.3f} s ({a / wall.min():.3f})   processor {b:.3f} s ({b / processor.min():.3f})"
        print(f"  {n:5d} nodes   {told}   of it labels: {1e3 * c:.1f} ms")


def _label_work(est: ConditionalRiskMinimizer, Y: np.ndarray) -> None:
    """All that fit does with the labels."""
    risk_program(est.model, None, encode_labels(est.model, None, Y, len(Y)))


def prediction(repeats: int) -> None:
    """103 nodes, 3,000 training and 3,000 test documents of 47,236 words, about 75 of them in each."""
    rng = np.random.default_rng(0)
    h = random_tree(103, rng)
    documents = [_documents(3000, rng) for _ in range(2)]
    Y = random_labels(h, 3000, rng)
    for loss in (Hamming(), HierarchicalLoss(h)):
        model = HierarchicalLabels(h, "closure", loss=loss)
        est = ConditionalRiskMinimizer(model, "linear", 1e-4).fit(documents[0], Y)
        begun = perf_counter()
        est.predict(documents[1][:2])  # the factor is applied to the labels here, once
        first = perf_counter() - begun
        ours = min(_timed(lambda est=est: est.predict(documents[1])) for _ in range(repeats)) / 3000
        averages = -est.conditional_risk(documents[1])[0]
        solve = bare_highs(model.space())
        raw = min(_timed(lambda solve=solve, C=averages: [solve(c) for c in C]) for _ in range(repeats)) / 3000
        values = np.array([solve(c) for c in averages])
        found = est.minimize_risk(documents[1])
        differ = np.abs(np.einsum("ij,ij->i", averages, found.Z) - values).max()
        print(
            f"{type(loss).__name__}: predict {1e6 * ours:.1f} us an example (first call once {first:.2f} s); "
            f"bare warm HiGHS LP {1e6 * raw:.1f} us = {raw / ours:.0f} x; the paper's 7 ms = {7e-3 / ours:.0f} x; "
            f"values differ by at most {differ:.1e}"
        )


def _documents(n: int, rng: np.random.Generator) -> sp.csr_array:
    columns = np.minimum((rng.pareto(0.6, size=(n, 75)) * 20).astype(np.int64), 47_235)
    rows = sp.coo_array((np.ones(n * 75), (np.repeat(np.arange(n), 75), columns.ravel())), shape=(n, 47_236))
    return sp.csr_array(normalize(rows.tocsr()))


def bare_highs(space: so.LabelSpace) -> Callable[[np.ndarray], float]:
    """The least that a user of highspy can write, model kept and warm."""
    compiled = space.compiled
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = compiled.n_variables, compiled.n_rows
    lp.col_cost_ = np.zeros(compiled.n_variables)
    lp.col_lower_, lp.col_upper_ = compiled.lower, compiled.upper
    lp.row_lower_, lp.row_upper_ = compiled.row_lower, compiled.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = compiled.matrix.indptr, compiled.matrix.indices
    lp.a_matrix_.value_ = compiled.matrix.data
    lp.sense_ = highspy.ObjSense.kMaximize
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    columns = np.arange(compiled.n_variables, dtype=np.int32)

    def solve(c: np.ndarray) -> float:
        highs.changeColsCost(len(columns), columns, c)
        highs.run()
        return float(c @ np.array(highs.getSolution().col_value))

    return solve


def _timed(work: Callable[[], Any]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


def nystroem() -> None:
    rng = np.random.default_rng(0)
    h = random_tree(103, rng)
    m = 20_000
    W = rng.normal(size=(100, 103))
    X = rng.normal(size=(m + 2000, 100))
    model = HierarchicalLabels(h, "closure")
    Y = (X @ W + 2 * rng.normal(size=(m + 2000, 103)) > 12).astype(float)
    Y = h.ancestor_rows(np.concatenate([[0], np.cumsum((Y > 0).sum(axis=1))]), np.nonzero(Y)[1]).toarray()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for n in (500, 2000):
        est = ConditionalRiskMinimizer(model, "rbf", 1e-4, gamma=0.01, method="nystroem", n_landmarks=n)
        fit = _timed(lambda est=est: est.fit(X[:m], Y[:m]))
        loss, empty = -est.score(X[m:], Y[m:]), Y[m:].sum(axis=1).mean()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{m} examples, {n} landmarks: fit {fit:.1f} s, test Hamming loss {loss:.3f} (no labels: {empty:.3f}), "
            f"peak memory {after / 2**20:.2f} GiB (data and libraries before: {before / 2**20:.2f})"
        )


# ---- Table 1 -------------------------------------------------------------------------------------

#: ECRM Table 1: Hamming and hierarchical loss of ECRM, HM3N, BR-SVM.
PAPER = {
    "enron_hmc": ((3.079, 0.194), (3.785, 0.212), (3.400, 0.196)),
    "imclef07a": ((2.689, 0.119), (3.053, 0.134), (2.933, 0.132)),
    "imclef07d": ((3.246, 0.246), (3.413, 0.247), (3.250, 0.253)),
    "pheno_fun": ((8.811, 0.152), (8.833, 0.152), (8.878, 0.153)),
    "pheno_go": ((4.315, 0.101), (None, None), (4.329, 0.101)),
    "spo_fun": ((8.806, 0.137), (8.845, 0.137), (8.867, 0.138)),
    "spo_go": ((4.530, 0.083), (None, None), (4.621, 0.085)),
}


def load_table1(name: str) -> tuple[Hierarchy, Any, np.ndarray, Any, np.ndarray]:
    """The sets as appendix C prepares them, with a root above the top level that is always on."""
    parts = {"enron_hmc": ["trainvalid"], "imclef07a": ["train"], "imclef07d": ["train"]}.get(name, ["train", "valid"])
    train, test = [load_benchmark(name, part) for part in parts], load_benchmark(name, "test")
    X, Y, h = sp.vstack([part.X for part in train]).tocsr(), np.concatenate([part.y for part in train]), test.hierarchy
    if name.startswith("imclef"):
        X, Y = X[:2000], Y[:2000]
    kept = np.ones(len(h), bool)
    if name.endswith(("_fun", "_go")):
        kept = Y.sum(axis=0) >= 3
    if name.endswith("_go"):
        # "The first connected component": the one with the paper's 296 and 508 labels is molecular function.
        kept &= np.array([node in set(h.descendants("GO0003674", itself=True)) for node in h.nodes])
    nodes = [node for node, keep in zip(h.nodes, kept, strict=True) if keep]
    edges = [(p, c) for p, c in h.edges if kept[h.index(p)] and kept[h.index(c)]]
    part = Hierarchy(edges, nodes=nodes)
    columns = np.array([h.index(node) for node in part.nodes])
    Y, Y_test = Y[:, columns], test.y[:, columns]
    if name.endswith("_go"):
        return part, X, Y, test.X, Y_test
    rooted = Hierarchy([*(("root", top) for top in part.roots), *part.edges], nodes=["root", *part.nodes])
    order = np.array([0 if node == "root" else 1 + part.index(node) for node in rooted.nodes])
    add = [np.column_stack([np.ones(len(A), A.dtype), A])[:, order] for A in (Y, Y_test)]
    return rooted, X, add[0], test.X, add[1]


def preparations(name: str, X: Any, X_test: Any) -> Iterator[tuple[str, Any, Any]]:
    """Ways to scale the inputs, of which leave-one-out chooses; means of the training part for what is missing."""
    if name == "enron_hmc":
        yield "raw", X, X_test
        yield "unit rows", normalize(X), normalize(X_test)
        return
    dense, dense_test = X.toarray(), X_test.toarray()
    mean = np.nan_to_num(np.nanmean(dense, axis=0))
    dense, dense_test = (np.where(np.isnan(A), mean, A) for A in (dense, dense_test))
    yield "raw", dense, dense_test
    scaler = StandardScaler().fit(dense)
    yield "standardised", scaler.transform(dense), scaler.transform(dense_test)


def table1(names: list[str], blocks: bool) -> None:
    way = "5 folds of neighbouring examples" if blocks else "leave-one-out"
    print(f"set          loss               ours   ECRM   HM3N   BR-SVM  tuned by {way} on the training part")
    for name in names or list(PAPER):
        begun = perf_counter()
        h, X, Y, X_test, Y_test = load_table1(name)
        losses: list[Any] = [Hamming()] + ([] if name.endswith("_go") else [HierarchicalLoss(h)])
        for k, loss in enumerate(losses):
            model = HierarchicalLabels(h, "closure", loss=loss)
            est, told, test = tune(name, model, X, Y, X_test, blocks)
            ours = -est.score(test, Y_test)
            paper = "  ".join("  -  " if v[k] is None else f"{v[k]:.3f}" for v in PAPER[name])
            size = f"{X.shape[0]} examples, {len(h)} nodes"
            print(f"{name:12s} {type(loss).__name__:17s}{ours:6.3f}   {paper}   {told}; {size}", flush=True)
        if len(losses) == 1:
            print(f"{name:12s} the hierarchical loss is not linear on a DAG (MATH.md 8.1) and not estimated")
        print(f"{'':12s} {perf_counter() - begun:.0f} s", flush=True)


def tune(
    name: str, model: HierarchicalLabels, X: Any, Y: np.ndarray, X_test: Any, blocks: bool
) -> tuple[Any, str, Any]:
    """The scaling, the width of an RBF kernel (images) and lam of least cross-validated loss."""
    best: tuple[float, Any, str, Any, Any] | None = None
    for how, A, B in preparations(name, X, X_test):
        image = name.startswith("imclef")
        spread = float(np.mean(np.var(A, axis=0)) * A.shape[1]) if image else 1.0
        for width in (0.1, 0.3, 1.0, 3.0, 10.0) if image else (None,):
            kernel = {"kernel": "rbf", "gamma": width / spread} if image else {"kernel": "linear"}
            size = 1.0 if image else float(np.mean(np.asarray((A.multiply(A) if sp.issparse(A) else A**2).sum(axis=1))))
            est = ConditionalRiskMinimizer(model, **kernel)
            lams = size * np.logspace(-7, 1, 17)
            path = block_path(est, A, Y, lams) if blocks else est.regularization_path(A, Y, lams)
            if best is None or path.loss.min() < best[0]:
                est.set_params(lam=path.best)
                more = f", gamma {kernel['gamma']:.3g}" if image else ""
                told = f"{how}{more}, lam {path.best:.2g}, validated {path.loss.min():.3f}"
                best = (float(path.loss.min()), est, told, A, B)
    assert best is not None
    return best[1].fit(best[3], Y), best[2], best[4]


def block_path(est: ConditionalRiskMinimizer, X: Any, Y: np.ndarray, lams: np.ndarray) -> RegularizationPath:
    """Cross-validation in which neighbours, mails of one thread for example, stay on one side."""
    loss = np.zeros(len(lams))
    for rest, held_out in KFold(5).split(Y):
        averages = KernelAverages(X[rest], est.kernel, {"gamma": est.gamma}, method="eigen")
        spectrum, rows = averages.spectrum(), averages.rows(X[held_out])
        program = risk_program(est.model, None, encode_labels(est.model, None, Y[rest], len(rest)))
        for k, lam in enumerate(lams):
            found = program.solve(spectrum.regress(program.targets, float(lam))(rows))
            loss[k] += program.losses(found.Z, Y[held_out]).sum() / len(Y)
    return RegularizationPath(lams, loss)


# ---- Table 2 -------------------------------------------------------------------------------------

FLOW_COLUMNS = ("ecrm_ab", "knn_ab", "krr_ab", "ecrm_sq", "knn_sq", "krr_sq")
PAPER_FLOW = {
    "ab": ((1.6268, 0.0347), (1.7125, 0.0366), (1.8673, 0.0311)),
    "sq": ((0.6476, 0.0197), (0.6859, 0.0202), (0.6495, 0.0197)),
}
GAMMAS, LAMS, NEIGHBOURS = (0.001, 0.003, 0.01, 0.03), (1e-7, 1e-6, 1e-5, 1e-4), (20, 40, 80, 160)


class FlowTrial:
    """One draw of training and test examples from the path choice that all trials share."""

    def __init__(self, seed: int, n: int, n_test: int) -> None:
        drawn = synthetic_flow(n_samples=1, random_state=0)
        X = np.random.RandomState(seed).uniform(size=(n + n_test, drawn.X.shape[1]))
        Y = drawn.model.sample(X, np.random.RandomState(50_000 + seed))
        self.X, self.X_test = X[:n], X[n:]
        self.Y, self.Y_test = Y[:n], Y[n:]
        self.programs = {
            loss: risk_program(Flow(drawn.arcs, drawn.supply, loss=word), None, self.Y)
            for loss, word in (("ab", "absolute"), ("sq", "squared"))
        }
        self._project = Projection(self.programs["ab"].model.space().compiled, slice(0, len(drawn.arcs)))

    def ridge(self, gamma: float, lam: float) -> np.ndarray:
        averages = KernelAverages(self.X, "rbf", {"gamma": gamma}, intercept=False).factorise(lam)
        return averages.weigh(self.X_test)

    def neighbours(self, k: int) -> np.ndarray:
        distance = np.square(self.X_test).sum(1)[:, None] + np.square(self.X).sum(1) - 2 * self.X_test @ self.X.T
        near = np.argpartition(distance, k, axis=1)[:, :k]
        weights = np.zeros(distance.shape)
        np.put_along_axis(weights, near, 1 / k, axis=1)
        return weights

    def risk(self, weights: np.ndarray, loss: str) -> float:
        """The mean loss of the labels that minimise the weighted losses."""
        program = self.programs[loss]
        Z = program.solve(weights if program.needs_weights else weights @ program.targets).Z
        return float(program.losses(Z, self.Y_test).mean())

    def projected(self, weights: np.ndarray, loss: str) -> float:
        """Kernel ridge regression of every arc by itself, projected on the flows."""
        return float(self.programs[loss].losses(self._project.many(weights @ self.Y), self.Y_test).mean())


def tune_flow(n: int) -> dict[str, tuple[float, ...]]:
    """Parameters of each method and loss from one further draw: the same n for training, 200 for validation."""
    trial = FlowTrial(10_000, n, 200)
    grid = [(gamma, lam) for gamma in GAMMAS for lam in LAMS]
    weights = {pair: trial.ridge(*pair) for pair in grid}
    chosen: dict[str, tuple[float, ...]] = {}
    for loss in ("ab", "sq"):
        ridge = {pair: trial.risk(weights[pair], loss) for pair in grid}
        plain = {pair: trial.projected(weights[pair], loss) for pair in grid}
        near = {(k,): trial.risk(trial.neighbours(k), loss) for k in NEIGHBOURS}
        for method, risks in (("ecrm", ridge), ("knn", near), ("krr", plain)):
            chosen[f"{method}_{loss}"] = min(risks, key=risks.__getitem__)
    return chosen


def flow(first: int, trials: int, n: int, n_test: int, out: Path) -> None:
    chosen = tune_flow(n)
    print("tuned on a further draw:", {name: tuple(map(float, pair)) for name, pair in chosen.items()}, flush=True)
    for seed in range(first, first + trials):
        begun = perf_counter()
        trial = FlowTrial(seed, n, n_test)
        row: list[float] = []
        for name in FLOW_COLUMNS:
            method, loss = name.split("_")
            weights = trial.neighbours(int(chosen[name][0])) if method == "knn" else trial.ridge(*chosen[name])
            row.append(trial.projected(weights, loss) if method == "krr" else trial.risk(weights, loss))
        with out.open("a", newline="") as file:
            csv.writer(file).writerow([seed, *row])
        print(seed, " ".join(f"{value:.4f}" for value in row), f"({perf_counter() - begun:.0f} s)", flush=True)


def table2(out: Path) -> None:
    with out.open() as file:
        rows = np.array([[float(value) for value in row] for row in csv.reader(file)])
    if len(set(rows[:, 0])) != len(rows):
        raise SystemExit(f"{out} holds a trial twice")
    values = rows[:, 1:].reshape(-1, 2, 3)
    print(f"{len(rows)} trials; mean and standard deviation (the paper's own network and weights are not in its text)")
    for k, loss in enumerate(("ab", "sq")):
        ours = "  ".join(f"{values[:, k, j].mean():.4f} +- {values[:, k, j].std(ddof=1):.4f}" for j in range(3))
        paper = "  ".join(f"{a:.4f} +- {b:.4f}" for a, b in PAPER_FLOW[loss])
        wins = [(values[:, k, 0] < values[:, k, j]).mean() for j in (1, 2)]
        print(f"  {loss}: ECRM, kNN, KRR  {ours}   paper {paper}   ECRM below kNN, KRR in {wins[0]:.0%}, {wins[1]:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("training", "prediction"):
        commands.add_parser(name).add_argument("--repeats", type=int, default=7)
    commands.add_parser("nystroem")
    rows = commands.add_parser("table1")
    rows.add_argument("sets", nargs="*", metavar="set", help=", ".join(PAPER))
    rows.add_argument("--blocks", action="store_true", help="tune by 5 folds of neighbours, not leave-one-out")
    part = commands.add_parser("flow")
    part.add_argument("--first", type=int, default=0)
    part.add_argument("--trials", type=int, default=10)
    part.add_argument("--size", type=int, default=1000, help="training examples")
    part.add_argument("--test", type=int, default=1000, help="test examples")
    part.add_argument("--out", type=Path, default=Path("flow.csv"))
    commands.add_parser("table2").add_argument("out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("always")
    if given.command in ("training", "prediction"):
        globals()[given.command](given.repeats)
    elif given.command == "nystroem":
        nystroem()
    elif given.command == "table1":
        table1(given.sets, given.blocks)
    elif given.command == "flow":
        flow(given.first, given.trials, given.size, given.test, given.out)
    else:
        table2(given.out)


if __name__ == "__main__":
    main()

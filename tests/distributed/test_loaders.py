"""Loaders: files and dask collections in parts are the data set."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, ShardFailed
from structopt.risks import FBeta, Hinge, LeastSquares, Ordinal, Ranking, ROCArea
from structopt.risks.structured import StructuredRisk

pytest.importorskip("distributed", reason="dask is an extra: pip install 'structopt-learn[dask]'")

import dask.array as da
import dask.bag as db

from structopt.distributed import ShardedRisk, loaders

W = np.array([0.5, -1.0, 0.25])


def rows(n=20):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).round(3)
    return X, np.sign(X[:, 0] + 0.5 * rng.normal(size=n))


def check(loader, whole, n_shards=None, client="sequential"):
    risk = ShardedRisk(loader, n_shards, client)
    w = np.resize(W, whole.n_features)
    assert len(risk) == len(whole)
    assert risk(w)[0] == pytest.approx(whole(w)[0])
    np.testing.assert_allclose(risk(w)[1], whole(w)[1], atol=1e-12)


@pytest.mark.parametrize("n_shards", [None, 2, 1, 7])
def test_npz(tmp_path, n_shards):
    X, y = rows()
    for k in range(5):
        np.savez(tmp_path / f"part-{k}.npz", X=X[k::5], y=y[k::5])
    check(loaders.npz(tmp_path / "part-*.npz", Hinge), Hinge(X, y), n_shards)


def test_sparse_npz_on_workers(tmp_path, workers):
    X, y = rows()
    for k in range(4):
        part = sp.csr_array(X[k::4])
        fields = {"X_data": part.data, "X_indices": part.indices, "X_indptr": part.indptr, "X_shape": part.shape}
        np.savez(tmp_path / f"part-{k}.npz", y=y[k::4], **fields)
    check(loaders.npz([tmp_path / f"part-{k}.npz" for k in range(4)], Hinge), Hinge(X, y), 2, workers)


def test_svmlight(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    X, y = rows()
    for k in range(3):
        dump_svmlight_file(X[k::3], y[k::3], str(tmp_path / f"{k}.svm"))
    check(loaders.svmlight(str(tmp_path / "*.svm"), Hinge, n_features=3, zero_based=True), Hinge(X, y))


def test_queries_of_svmlight(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    X, _ = rows()
    query = np.repeat(np.arange(5), 4)
    relevance = np.tile([2.0, 0.0, 1.0, 0.0], 5)
    for name, mine in (("a", query < 2), ("b", query >= 2)):
        dump_svmlight_file(X[mine], relevance[mine], str(tmp_path / f"{name}.svm"), query_id=query[mine])
    check(
        loaders.svmlight(str(tmp_path / "*.svm"), Ranking, n_features=3, zero_based=True), Ranking(X, relevance, query)
    )


def test_conll(tmp_path):
    (tmp_path / "a.conll").write_text("Ada\tB\nsleeps\tO\n\nYes\tO\n", encoding="utf-8")
    (tmp_path / "b.conll").write_text("No\tO\n\nBob\tB\nand\tO\nAda\tB\n", encoding="utf-8")
    (tmp_path / "c.conll").write_text("", encoding="utf-8")
    model = so.structures.Chain(["B", "O"])
    build = functools.partial(so.train.StructuredRisk, model)
    both = [so.data.read_conll(tmp_path / name, n_features=16) for name in ("a.conll", "b.conll")]
    whole = build(both[0].X + both[1].X, both[0].y + both[1].y)
    check(loaders.conll(str(tmp_path / "[ab].conll"), build, n_features=16), whole)


def test_parquet(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y = rows()
    for k in range(2):
        pd.DataFrame(X[k::2], columns=list("abc")).assign(label=y[k::2], other="x").to_parquet(tmp_path / f"{k}.pq")
    loader = loaders.parquet(str(tmp_path / "*.pq"), Hinge, label="label", features=list("abc"))
    check(loader, Hinge(X, y))
    with pytest.raises(ShardFailed, match=r"0\.pq"):
        ShardedRisk(loaders.parquet(str(tmp_path / "*.pq"), Hinge, label="none"), client="sequential")


def test_arrays_bags_and_frames():
    X, y = rows()
    check(loaders.Collections(Hinge, da.from_array(X, chunks=(6, 2)), da.from_array(y, chunks=20)), Hinge(X, y))
    bags = db.from_sequence(list(X), npartitions=4), db.from_sequence(list(y), npartitions=4)
    check(loaders.Collections(Hinge, *bags), Hinge(X, y))
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")).assign(y=y), npartitions=3)
    check(loaders.Collections(LeastSquares, frame[list("abc")], frame["y"]), LeastSquares(X, y))


@pytest.mark.parametrize("keep", [True, False])
def test_collections_on_workers(keep, workers):
    X, y = rows()
    made = da.from_array(X, chunks=(6, 3)).map_blocks(lambda block: block * 1.0)
    risk = ShardedRisk(loaders.Collections(Hinge, made, da.from_array(y, chunks=6)), client=workers, keep=keep)
    assert risk(W)[0] == pytest.approx(Hinge(X, y)(W)[0])
    assert risk(-W)[0] == pytest.approx(Hinge(X, y)(-W)[0])


@pytest.mark.parametrize("known", [True, False])
def test_errors_of_a_partition_name_examples_of_the_data_set(known):
    X, y = da.from_array(np.ones((10, 1)), chunks=(4, 1)), np.array(["a", "b"] * 5)
    y[6] = "c"
    if not known:
        X = da.concatenate([X, X])[da.from_array(np.arange(20) < 10, chunks=4)]
    risk = functools.partial(StructuredRisk, so.structures.Multiclass(["a", "b"]))
    parts = loaders.Collections(risk, X, db.from_sequence(y.tolist(), partition_size=4) if known else X[:, 0])
    if known:
        with pytest.raises(ShardFailed, match="example 6: 'c'"):
            ShardedRisk(parts, client="sequential")
    assert parts.first == ([0, 4, 8] if known else [0] * len(parts))


def test_scores_of_a_partition_name_examples_of_the_data_set():
    X = np.ones((10, 1))
    X[6] = 1e300
    y = db.from_sequence(["a", "b"] * 5, partition_size=4)
    risk = functools.partial(StructuredRisk, so.structures.Multiclass(["a", "b"]))
    sharded = ShardedRisk(loaders.Collections(risk, da.from_array(X, chunks=(4, 1)), y), client="sequential")
    with pytest.raises(ShardFailed, match="of example 6 is inf"), np.errstate(over="ignore"):
        sharded(np.full(2, 1e300))


def test_files_that_are_broken_are_named(tmp_path):
    (tmp_path / "0.npz").write_bytes(b"no archive")
    with pytest.raises(ShardFailed, match=r"Shard 0 of 1: DeclarationError: .*0\.npz"):
        ShardedRisk(loaders.npz(tmp_path / "*.npz", Hinge), client="sequential")
    np.savez(tmp_path / "0.npz", Z=np.eye(2))
    with pytest.raises(ShardFailed, match="there is no X in it"):
        ShardedRisk(loaders.npz(tmp_path / "*.npz", Hinge), client="sequential")
    with pytest.raises(DeclarationError, match="No file matches"):
        loaders.npz(tmp_path / "*.txt", Hinge)
    with pytest.raises(DeclarationError, match="paths is empty"):
        loaders.npz([], Hinge)
    with pytest.raises(DeclarationError, match="5, 4 partitions"):
        loaders.Collections(
            Hinge, db.from_sequence(range(20), npartitions=5), db.from_sequence(range(20), npartitions=4)
        )
    with pytest.raises(DeclarationError, match="20 and 10 rows"):
        loaders.Collections(Hinge, da.ones((20, 1), chunks=5), da.ones(10, chunks=5))
    with pytest.raises(DeclarationError, match="n_shards is missing"):
        ShardedRisk(lambda k, n: None, client="sequential")


@pytest.mark.parametrize("risk", [FBeta, ROCArea, Ordinal])
def test_risks_over_all_examples_are_refused_by_name(risk):
    X, y = rows()

    def load(k, n):
        return risk(X[k::n], y[k::n])

    with pytest.raises(DeclarationError, match=f"{risk.__name__} compares all examples with each other"):
        ShardedRisk(load, 2, "sequential")
    assert ShardedRisk(load, 1, "sequential")(W)[0] == pytest.approx(risk(X, y)(W)[0])
    if risk is ROCArea:
        assert ShardedRisk.of(risk(X, y), 3, "sequential")(W)[0] == pytest.approx(risk(X, y)(W)[0])
    else:
        with pytest.raises(DeclarationError, match=f"{risk.__name__} does not decompose"):
            ShardedRisk.of(risk(X, y), 3, "sequential")

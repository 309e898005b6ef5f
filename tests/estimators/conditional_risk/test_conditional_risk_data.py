"""The loader of benchmark sets, and one row of ECRM's Table 1 prepared as its appendix C says."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.data.benchmark import benchmark_folder, load_benchmark
from structopt.errors import DeclarationError
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer
from structopt.hierarchy import Hierarchy
from structopt.structures.hierarchy import HierarchicalLabels


def write_set(folder, edges=True):
    place = folder / "toy"
    place.mkdir()
    X = {"X_data": np.ones(2, np.float32), "X_indices": [0, 2], "X_indptr": [0, 1, 2], "X_shape": [2, 3]}
    np.savez(place / "train.npz", **X, Y=np.array([[1, 0], [1, 1]], np.uint8))
    tree = {"edges": np.array([[1, 0]], np.int32)} if edges else {}
    np.savez(place / "meta.npz", label_names=np.array(["cat", "animal"]), **tree)


def test_sets_are_read_in_the_order_of_their_hierarchy(tmp_path, monkeypatch):
    write_set(tmp_path)
    monkeypatch.setenv("STRUCTOPT_DATA", str(tmp_path))
    toy = load_benchmark("toy")
    assert toy.hierarchy.nodes == ("animal", "cat") and toy.label_names.tolist() == ["animal", "cat"]
    np.testing.assert_array_equal(toy.y, [[0, 1], [1, 1]])
    np.testing.assert_array_equal(toy.X.toarray(), [[1, 0, 0], [0, 0, 1]])


def test_missing_sets_and_splits_are_named(tmp_path):
    write_set(tmp_path, edges=False)
    assert "hierarchy" not in load_benchmark("toy", folder=tmp_path)
    with pytest.raises(DeclarationError, match="STRUCTOPT_DATA"):
        load_benchmark("yeast", folder=tmp_path)
    with pytest.raises(DeclarationError, match="no split 'valid'; it has train"):
        load_benchmark("toy", "valid", folder=tmp_path)


@pytest.mark.data
def test_a_row_of_table_1():
    if not (benchmark_folder() / "pheno_fun").is_dir():
        pytest.skip("the benchmark sets are not beside the checkout")
    parts = {split: load_benchmark("pheno_fun", split) for split in ("train", "valid", "test")}
    X, Y = (
        np.concatenate([a, b])
        for a, b in zip(*[(parts[s].X.toarray(), parts[s].y) for s in ("train", "valid")], strict=True)
    )
    kept = Y.sum(axis=0) >= 3
    h = parts["test"].hierarchy
    tree = Hierarchy(
        [(p, c) for p, c in h.edges if kept[h.index(p)] and kept[h.index(c)]],
        nodes=[node for node, keep in zip(h.nodes, kept, strict=True) if keep],
    )
    columns = h.indices(tree.nodes)
    assert len(tree) == 300 and len(Y) == 1009  # appendix C
    est = ConditionalRiskMinimizer(HierarchicalLabels(tree, "closure"), lam=np.logspace(-4, 0, 5)).fit(X, Y[:, columns])
    # The paper has 8.811 with parameters of its own.
    assert 8.6 < -est.score(parts["test"].X.toarray(), parts["test"].y[:, columns]) < 8.95

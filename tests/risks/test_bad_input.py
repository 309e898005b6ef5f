"""Wrong input of every risk is named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt.risks as risks
from structopt.errors import DeclarationError

X = np.array([[1.0], [2.0]])
ODD, SPARSE = np.ones((5, 2)), sp.csr_array(([1.0, 2.0, np.nan], ([0, 2, 4], [0, 1, 1])), shape=(6, 2))
ODD[3, 1] = np.inf
X4 = np.array([[1.0], [2.0], [0.0], [3.0]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: risks.Hinge(X, [1, -1, 1]), r"y has shape \(3,\); X has 2 rows"),
        (lambda: risks.Hinge(X, ["a", "b"]), "y must be an array of numbers"),
        (lambda: risks.LeastSquares(X, [1, np.nan]), r"y is NaN or infinite at 1 positions \(first: 1\)"),
        (lambda: risks.Poisson(X, [1, -2]), r"cannot be negative; y\[1\] is -2"),
        (lambda: risks.Quantile(X, [1, 2], tau=1.0), r"tau must be finite and lie in \(0, 1\)"),
        (lambda: risks.Quantile(X, [1, 2], tau=90), "tau"),
        (lambda: risks.EpsilonInsensitive(X, [1, 2], eps=-1), r"eps must be finite and lie in \[0, inf\)"),
        (lambda: risks.Novelty(X, rho=np.nan), "rho"),
        (lambda: risks.Novelty(X, rho="high"), "rho must be a number"),
        (lambda: risks.FBeta(X, [1, -1], beta=0.0), "beta"),
        (lambda: risks.Hinge([["a"], ["b"]], [1, 1]), "X must be an array of numbers"),
        (lambda: risks.Hinge(ODD, np.ones(5)), r"1 rows \(first: row 3\)"),
        (lambda: risks.Hinge(SPARSE, np.ones(6)), r"1 rows \(first: row 4\)"),
        (lambda: risks.Ontology([[1.0]], [1], [(0, 1), (0, 2)], delta="tree"), "'path'"),
        (lambda: risks.FBeta(X, [-1, -1]), "FBeta: all 2 labels are -1"),
        (lambda: risks.BalancedAccuracy(X, [1, 1]), r"all labels are \+1"),
        (lambda: risks.PrecisionAt(X, [1, -1], k=3), "integer from 1 to 2"),
        (lambda: risks.RecallAt(X, [1, -1], k=0), "RecallAt: k must"),
        (lambda: risks.Contingency(X, [1, -1], "f1"), "callable"),
        (lambda: risks.Contingency(X, [1, -1], lambda tp, fp, fn, tn: np.full_like(tp, np.nan)), "finite"),
        (lambda: risks.Contingency(X, [1, -1], lambda tp, fp, fn, tn: 1.0), "one finite number per table"),
        (lambda: risks.Multiclass(X, [0, 0]), "one class only"),
        (lambda: risks.Multiclass(X, [1, 2], n_classes=2), "classes 0 to 1; it holds 1 to 2"),
        (lambda: risks.Multiclass(X, [-1, 1]), "it holds -1 to 1"),
        (lambda: risks.Multiclass(X, [0, 0.5]), "must hold integers"),
        (lambda: risks.Multiclass(X, [0, 1], delta=np.ones((2, 2))), "0 on the diagonal"),
        (lambda: risks.Multiclass(X, [0, 1], delta=np.ones((2, 3))), "delta has shape"),
        (lambda: risks.Multiclass(X, [0, 1], delta="text"), "delta must be an array of numbers, got 'text'"),
        (lambda: risks.Multiclass(X, [0, 1], delta=[[0, [1, 2]], [1, 0]]), "delta must be an array of numbers"),
        (lambda: risks.Multiclass(X, [0, 1], gamma=[[0, "a"], [1, 0]]), "gamma must be an array of numbers"),
        (lambda: risks.Multiclass(X, [0, 1], gamma=-np.ones((2, 2))), "gamma must be finite and not negative"),
        (lambda: risks.Multiclass(X, [0, 1], gamma="slack"), "'delta'"),
        (lambda: risks.MultivariateRegression(X, [1.0, 2.0]), "y has shape"),
        (lambda: risks.MultivariateRegression(X, [[1.0], [np.nan]]), "row 1"),
        (lambda: risks.MultivariateRegression(X, np.eye(2), M=[[0, 1], [0, 0]]), "symmetric"),
        (lambda: risks.MultivariateRegression(X, np.eye(2), M=[[0, 1], [1, 0]]), "eigenvalue -1"),
        (lambda: risks.MultivariateRegression(X, np.eye(2), M=np.eye(3)), "shape"),
        (lambda: risks.ROCArea(X4, np.ones(4)), r"all 4 labels are \+1"),
        (lambda: risks.ROCArea(X4, -np.ones(4)), "all 4 labels are -1"),
        (lambda: risks.Ordinal(X4, np.full(4, 2)), "every target is 2"),
        (lambda: risks.Ordinal(X4, [1, 2, 3, np.nan]), "y is NaN"),
        (lambda: risks.Ordinal(X4, [1, 2, 3, 1], cost="quadratic"), "'constant', 'linear' or a table"),
        (lambda: risks.Ordinal(X4, [1, 2, 3, 1], cost=np.ones((2, 2))), "3 levels"),
        (lambda: risks.Ordinal(X4, [1, 2, 3, 1], cost=-np.ones((3, 3))), "not negative"),
        (lambda: risks.Preference(X4, []), "no pair to compare"),
        (lambda: risks.Preference(X4, [0, 1]), "shape"),
        (lambda: risks.Preference(X4, [(0, 4)]), r"pair 0 is \(0, 4\); X has 4 rows"),
        (lambda: risks.Preference(X4, [(0, 1), (2, 2)]), "pair 1 compares example 2 with itself"),
        (lambda: risks.Preference(X4, [(0.0, 1.0)]), "row numbers"),
        (lambda: risks.Preference(X4, [(0, 1)], cost=[-1]), "not be negative"),
        (lambda: risks.Ranking(np.eye(3), [1, 1, 1], [0, 0, 0]), "nothing to rank"),
        (lambda: risks.Ranking(np.eye(3), [0, 1, 2], [0, 1, 2]), "nothing to rank"),
        (lambda: risks.Ranking(np.eye(3), [0, 1, -2], [0, 0, 0]), "not be negative"),
        (lambda: risks.Ranking(np.eye(3), [0, 1, 2], [0, 0]), "query has shape"),
        (lambda: risks.Ranking(np.eye(3), [0, 1, 2], [0, 0, 0], "map"), "'map'"),
        (lambda: risks.Ranking(np.eye(3), [0, 1, 2], [0, 0, 0], decay=-1.0), "must decrease"),
        (lambda: risks.Ranking(np.eye(3), [0, 1, 2], [0, 0, 0], decay=lambda n: np.ones(2)), "decay has shape"),
        (lambda: risks.PrecisionAtN(0), "n must be at least 1"),
        (lambda: risks.NDCG(k=0), "k must be at least 1"),
        (lambda: risks.ERU(half_life=1.0), "half_life"),
    ],
)
def test_bad_input_names_the_culprit(make, words):
    with pytest.raises(DeclarationError, match=words):
        make()

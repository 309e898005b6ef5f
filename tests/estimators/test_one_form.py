"""Data of any type are brought into one form when they come in: no kernel is compiled a second time for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numba.core.dispatcher import Dispatcher


def signatures() -> dict[str, int]:
    """How many versions of every kernel have been compiled or loaded."""
    found = {}
    for module, content in list(sys.modules.items()):
        if module.split(".")[0] == "structopt":
            for name, value in vars(content).items():
                if isinstance(value, Dispatcher):
                    found[f"{module}.{name}"] = len(value.signatures)
    return found


def frozen(X: Any) -> Any:
    X = np.array(X)
    X.setflags(write=False)
    return X


def long_indices(X: Any) -> Any:
    matrix = sp.csr_array(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


DENSE: dict[str, Callable[[Any], Any]] = {
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: np.rint(4 * X).astype(np.int32),
    "Fortran": np.asfortranarray,
    "read-only": frozen,
}
SPARSE: dict[str, Callable[[Any], Any]] = {
    "float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "int64 indices": long_indices,
    "csc": sp.csc_array,
    "csr_matrix": sp.csr_matrix,
}


def fit(case: Any, form: Callable[[Any], Any]) -> Any:
    X = [form(x) for x in case.X] if isinstance(case.X, list) else form(case.X)
    # A few passes reach every kernel.
    estimator = case.make(**({"max_passes": 3} if "max_passes" in case.make().get_params() else {}))
    return type(case)(case.kind, case.parameters, X, case.y, case.query).fit(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("first", "forms"), [(np.array, DENSE), (sp.csr_array, SPARSE)], ids=["dense", "sparse"])
def test_other_types_of_features_compile_nothing(case: Any, first: Any, forms: dict[str, Callable[[Any], Any]]) -> None:
    if forms is SPARSE and isinstance(case.X, list):
        pytest.skip("sequences come as lists")
    fit(case, first)
    before = signatures()
    for name, form in forms.items():
        fit(case, form)
        new = {kernel for kernel, count in signatures().items() if count != before.get(kernel, 0)}
        assert not new, f"{name}: {sorted(new)}"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_float32_storage_of_hierarchical_sgd_stays(cases: Any) -> None:
    """The exception: weights of half the size are requested by name, and have their own kernel."""
    case = cases["HierarchicalSVM sgd"]
    assert case.fit(case.make(dtype="float32")).coef_.dtype == np.float32

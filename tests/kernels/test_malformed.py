"""Every public way into a kernel, with wrong and with odd arrays: an error that names the argument, or the same answer.

A kernel reads at the indices that it is given, so that all of them are checked first. With ``make test-bounds`` numba
itself looks at every index as well: what slips through here is an IndexError there, not a wild read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt._jit.csr import checked_csr
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.errors import DeclarationError, StructoptError

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Entry:
    """A function, arguments that it takes, and which of them hold indices (or counts)."""

    call: Callable[..., Any]
    arguments: dict[str, Any]
    indices: tuple[str, ...] = ()


def graph_batch(**given: Any) -> Any:
    made = PairwiseGraph(3, [0, 1], [1, 2])
    return [*made.solve_points(given["U"], given["P"]), *made.solve_exact(given["U"], given["P"])]


def closure(**given: Any) -> Any:
    return so.Oracle(nodes("closure"), record=so.records.Closure(**given)).maximize([1, -0.5, 2, -0.3, 0.9]).z


def groups(**given: Any) -> Any:
    return (
        so.Oracle(so.structures.MultiLabel(3, 0, 1).space(), record=so.records.Cardinality(**given))
        .maximize([1, 3, 2])
        .z
    )


def nodes(kind: str) -> so.LabelSpace:
    parents = [(0, 1), (0, 2), (1, 3), (1, 4)]
    return so.structures.HierarchicalLabels(so.Hierarchy(parents), kind).space()


def tree(**given: Any) -> Any:
    return so.Oracle(nodes("leaves"), record=so.records.Tree(**given)).maximize([-1, 0.5, -2, -0.3, -0.4]).z


def leaves(**given: Any) -> Any:
    return so.Oracle(nodes("leaf"), record=so.records.Leaves(**given)).maximize([-1, 0.5, -2, -0.3, -0.4]).z


def ancestors(**given: Any) -> Any:
    h = so.Hierarchy([("a", "b"), ("b", "c"), ("a", "d")])
    return h.ancestor_rows(given["ptr"], given["member"]).toarray()


def products(**given: Any) -> Any:
    rows = given["rows"]
    risk = so.train.StructuredRisk(so.structures.PairwiseMRF(3), rows, given["Y"], "slack")
    return risk(np.linspace(-1, 1, risk.n_features))


def r(*shape: int) -> Any:
    return RNG.integers(-4, 5, size=shape) / 2.0


TREE = [-1, 0, 0, 1, 1]
ENTRIES = {
    "records.Cardinality": Entry(
        groups, {"group": [0, 0, 0], "ptr": [0, 3], "order": [0, 1, 2], "lower": [0], "upper": [1]},
        ("group", "ptr", "order", "lower", "upper"),
    ),
    "PairwiseGraph, batches": Entry(graph_batch, {"U": r(2, 3), "P": r(2, 2)}),
    "records.Closure": Entry(closure, {"child": [1, 2, 3, 4], "parent": [0, 0, 1, 1]}, ("child", "parent")),
    "records.Tree": Entry(tree, {"column": [0, 1, 2, 3, 4], "parent": TREE}, ("column", "parent")),
    "records.Leaves": Entry(leaves, {"ptr": [0, 3, 6, 8], "column": [0, 1, 3, 0, 1, 4, 0, 2]}, ("ptr", "column")),
    "Hierarchy.ancestor_rows": Entry(ancestors, {"ptr": [0, 1, 2], "member": [2, 1]}, ("ptr", "member")),
    "StructuredRisk": Entry(
        products, {"rows": r(4, 2), "Y": RNG.integers(0, 2, (4, 3))}
    ),
}  # fmt: skip


def faults(value: Any, indices: bool) -> Iterator[tuple[str, Any]]:
    """Wrong versions of an argument."""
    a = np.asarray(value)
    yield "one axis more", a[..., None]
    yield "three axes more", a[None, None, None]
    yield "no axes", a.ravel()[0]
    yield "shorter", a[:-1]
    yield "doubled", np.concatenate([a, a])
    yield "none", a[:0]
    if a.ndim > 1:
        yield "one axis less", a[0]
        yield "narrower", a[..., :-1]
        yield "wider", np.concatenate([a, a[..., :1]], axis=-1)
        yield "no columns", a[..., :0]
    yield "strings", a.astype(str).astype(object) + "x"
    yield "complex", a.astype(np.complex128) + 1j
    yield "ragged", [[1], [1, 2]]
    yield "None inside", np.where(np.arange(a.size).reshape(a.shape) == 0, None, a.astype(object))
    yield "dates", a.astype("datetime64[s]" if a.dtype.kind in "iu" else "int64").astype("datetime64[s]")
    if indices:
        for name, number in (("negative", -7), ("too large", 10**9), ("huge", 2**62), ("a square that wraps", 2**32)):
            wrong = np.array(a)
            wrong[(0,) * (a.ndim - 1) + (-1,)] = number
            yield name, wrong
        yield "fractions", a + 0.5
    broken = a.astype(np.float64)
    broken.ravel()[-1] = np.nan
    yield "NaN", broken


def odd(value: Any) -> Iterator[tuple[str, Any]]:
    """Other versions of the same argument."""
    a = np.asarray(value)
    yield "float32", a.astype(np.float32)
    yield "float16", a.astype(np.float16)
    yield "longdouble", a.astype(np.longdouble)
    yield "big endian", a.astype(a.dtype.newbyteorder(">"))
    yield "list", a.tolist()
    yield "objects", a.astype(object)
    if a.dtype.kind == "i":
        yield "int8", a.astype(np.int8)
        if a.min() >= 0:
            yield "uint64", a.astype(np.uint64)
    yield "Fortran", np.asfortranarray(a)
    yield "strided", np.repeat(a, 2, axis=-1)[..., ::2]
    yield "backwards", np.ascontiguousarray(a[..., ::-1])[..., ::-1]
    frozen = a.copy()
    frozen.setflags(write=False)
    yield "read-only", frozen


OUTSIDE = ("negative", "too large", "huge", "a square that wraps")
# Wrong whatever the argument means.
ALWAYS = ("one axis more", "three axes more", "strings", "complex", "ragged", "dates", "fractions")


def fresh(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(value) for name, value in arguments.items()}


@pytest.mark.parametrize("where", ENTRIES)
def test_wrong_arrays_are_refused_by_an_error_of_ours(where: str) -> None:
    entry = ENTRIES[where]
    for name, value in entry.arguments.items():
        for fault, wrong in faults(value, name in entry.indices):
            told = f"{where}, {name}: {fault}"
            try:
                found = entry.call(**fresh(entry.arguments) | {name: wrong})
            except StructoptError as error:
                assert len(str(error)) > 10, told
            except Exception as error:
                raise AssertionError(f"{told}: {type(error).__name__}: {error}") from error
            else:
                # A forbidden label that does not exist, room for more than there is, and any loss mean something.
                free = name in ("forbid", "lower", "upper", "loss")
                outside = name in entry.indices and fault in OUTSIDE and not free
                assert fault not in ALWAYS and not outside, f"{told} gives {found!r:.200}"


@pytest.mark.parametrize("where", ENTRIES)
def test_the_same_numbers_in_another_form_give_the_same_answer(where: str) -> None:
    entry = ENTRIES[where]
    wanted = flat(entry.call(**fresh(entry.arguments)))
    for name, value in entry.arguments.items():
        for form, same in odd(value):
            if name == "prices" and not (isinstance(same, np.ndarray) and same.dtype == np.float64):
                continue  # written to in place, so that a copy would not do
            try:
                found = flat(entry.call(**fresh(entry.arguments) | {name: same}))
            except DeclarationError:
                if name in ("rows", "Y") and form == "objects":
                    continue  # features and labels of a data set come as numbers
                in_place = name == "prices" and form in ("strided", "backwards", "read-only", "big endian", "Fortran")
                assert in_place, form
                continue
            except Exception as error:
                raise AssertionError(f"{where}, {name}: {form}: {type(error).__name__}: {error}") from error
            np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=f"{where}, {name}: {form}")


def flat(answer: Any) -> Any:
    parts = answer if isinstance(answer, tuple | list) else [answer]
    return np.concatenate([flat(p) if isinstance(p, tuple | list) else np.ravel(np.asarray(p, float)) for p in parts])


# ---- data sets -----------------------------------------------------------------------------------


def data_sets() -> dict[str, tuple[Any, Any, Any]]:
    """A model, inputs and labels of every structure with a batch of its own."""
    rng = np.random.default_rng(1)
    s = so.structures
    h = so.Hierarchy([("a", "b"), ("a", "c"), ("b", "d"), ("b", "e")])
    X = rng.normal(size=(6, 4))
    labels = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]])
    arcs = [("s", "u"), ("u", "t"), ("s", "t")]
    return {
        "PairwiseMRF": (s.PairwiseMRF(3), X, labels),
        "PairwiseMRF, relaxed": (s.PairwiseMRF(3, integral="relax"), X, labels),
        "MultiLabel": (s.MultiLabel(3, at_most=3), X, labels),
        "Multiclass": (s.Multiclass(3), X, [0, 1, 2, 0, 1, 2]),
        "Flow": (s.Flow(arcs, {"s": 1, "t": -1}), X, np.array([[1.0, 1, 0], [0, 0, 1]] * 3)),
        "leaf": (s.HierarchicalLabels(h), X, ["c", "d", "e", "c", "d", "e"]),
        "leaves": (s.HierarchicalLabels(h, "leaves"), X, [{"c"}, {"d"}, {"e"}, {"c", "d"}, {"d"}, {"e"}]),
        "closure": (s.HierarchicalLabels(h, "closure"), X, [{"a"}, {"a", "b"}, {"a"}, {"a"}, {"a"}, {"a", "c"}]),
        "Chain": (s.Chain(2), list(rng.normal(size=(4, 3, 2))), [[0, 1, 0]] * 4),
        "Segmentation": (s.Segmentation(2, 2), list(rng.normal(size=(4, 3, 2))), [[(0, 0), (1, 1)]] * 4),
        "Arborescence": (s.Arborescence(), list(rng.normal(size=(4, 3, 3, 2))), [[0, 1]] * 4),
        "Assignment": (s.Assignment(), list(rng.normal(size=(4, 3, 3, 2))), [[0, 1, 2]] * 4),
        "Ranking": (s.Ranking(), list(rng.normal(size=(4, 3, 2))), [[0, 1, 2]] * 4),
    }


DATA = data_sets()


def wrong_inputs(X: Any) -> Iterator[tuple[str, Any]]:
    a = np.array(X)
    yield "one axis more", a[..., None]
    yield "one axis less", a[0]
    yield "another axis in front", a[None]
    yield "a vector", a.ravel()
    yield "a number", 3
    yield "numbers", [2, 3, 2, 3]
    yield "pairs of numbers", [(2, 2)] * 4
    yield "another width in one", [*a[:-1], a[-1][..., :-1]]
    yield "another shape in one", [*a[:-1], a[-1][..., None]]
    yield "an example doubled", [*a[:-1], np.concatenate([a[-1], a[-1]])]
    yield "an empty example", [*a[:-1], a[-1][:0]]
    yield "no examples", a[:0]
    yield "no features", a[..., :0]
    yield "one too few", a[:-1]
    yield "strings", a.astype(str)
    yield "complex", a + 1j
    yield "objects", a.astype(object)
    yield "None", None
    yield "NaN", np.where(np.arange(a.size).reshape(a.shape) == 5, np.nan, a)
    yield "sparse, one long row", sp.csr_array(a.reshape(1, -1))
    yield "sparse, one column", [sp.csr_array(np.reshape(x, (-1, 1))) for x in a]


@pytest.mark.parametrize("name", DATA)
def test_wrong_data_sets_are_refused(name: str) -> None:
    model, X, Y = DATA[name]
    for fault, wrong in wrong_inputs(X):
        try:
            risk = so.train.StructuredRisk(model, wrong, Y)
            risk(np.linspace(-1.0, 1.0, risk.n_features))
        except StructoptError as error:
            assert len(str(error)) > 10, fault
        except Exception as error:
            raise AssertionError(f"{name}, {fault}: {type(error).__name__}: {error}") from error
        else:
            # Numbers as objects are those of a frame with mixed columns.
            fine = ("one axis more", "another width in one", "sparse, one column", "objects")
            assert fault in fine, f"{name}: {fault}"


@pytest.mark.parametrize("name", DATA)
def test_generators_are_read_once(name: str) -> None:
    model, X, Y = DATA[name]
    listed = so.train.StructuredRisk(model, X, Y)
    w = np.linspace(-1.0, 1.0, listed.n_features)
    value, slope = so.train.StructuredRisk(model, (x for x in X), (y for y in Y))(w)
    assert value == pytest.approx(listed(w)[0]) and slope == pytest.approx(listed(w)[1])


@pytest.mark.parametrize("name", DATA)
def test_three_dimensional_features_are_refused_before_a_kernel_sees_them(name: str) -> None:
    """Six rows of one feature in place of one row of six: the part tables had too few rows and were read past."""
    model, X, Y = DATA[name]
    if isinstance(X, np.ndarray):
        with pytest.raises(DeclarationError, match="Example 0 of X has 4 feature rows for the block"):
            so.train.StructuredRisk(model, X[:, :, None], Y)
        with pytest.raises(DeclarationError, match="4 feature rows for the block"):
            model.predict(np.zeros(100), X[0][:, None])


# ---- sparse matrices -----------------------------------------------------------------------------


def tampered(**parts: Any) -> sp.csr_array:
    """A valid matrix into whose arrays somebody wrote."""
    matrix = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    for name, value in parts.items():
        setattr(matrix, name, np.asarray(value, dtype=getattr(matrix, name).dtype))
    return matrix


@pytest.mark.parametrize(
    "matrix",
    [
        tampered(indices=[0, 7, 1]), tampered(indices=[0, -1, 1]), tampered(indptr=[0, 2, 9]),
        tampered(indptr=[1, 2, 3]), tampered(indptr=[0, 3, 2]), tampered(indptr=[0, 2]), tampered(data=[1.0]),
        sp.csr_array(np.eye(2)) * 1j, tampered(indices=[0, 5, 1]).T,
    ],
)  # fmt: skip
def test_index_arrays_of_sparse_matrices_are_checked(matrix: Any) -> None:
    with pytest.raises(DeclarationError, match="X"):
        checked_csr(matrix, "X")
    if matrix.shape == (2, 3):
        with pytest.raises(DeclarationError):
            so.structures.Multiclass(2).batch(matrix)
        with pytest.raises(DeclarationError):
            so.risks.Hinge(matrix, [1, -1])


def test_sparse_matrices_come_in_one_form_and_the_callers_is_not_touched() -> None:
    dense = np.array([[1.0, 0, 2], [0, 3, 0]])
    data, indices, indptr = np.array([2.0, 0.5, 0.5, 3]), np.array([2, 0, 0, 1]), np.array([0, 3, 4])
    doubled = sp.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=(2, 3))
    for given in (doubled, *(sp.csr_array(dense).asformat(f) for f in ("coo", "csc", "bsr", "lil", "dok", "dia"))):
        found = checked_csr(given, "X")
        assert found.indices.dtype == found.indptr.dtype == np.int32 and found.dtype == np.float64
        assert found.has_canonical_format and found.nnz == 3
        np.testing.assert_array_equal(found.toarray(), dense)
    np.testing.assert_array_equal(doubled.data, data)
    np.testing.assert_array_equal(doubled.indices, indices)
    clean = sp.csr_array(dense)
    assert np.shares_memory(checked_csr(clean, "X").data, clean.data)


def test_a_hierarchy_checks_its_arcs_however_it_is_made() -> None:
    h = so.Hierarchy([("a", "b")])
    for parent, child in (([5], [1]), ([-1], [1]), ([0], [9]), ([1], [0]), ([0, 0], [1])):
        with pytest.raises(DeclarationError, match="parents before children"):
            h._set(("a", "b"), np.array(parent), np.array(child))

"""Declaration: expressions against numpy, canonical form, labels, bad input."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, InfeasibleSpace, SpaceMismatch


@pytest.fixture
def space() -> so.LabelSpace:
    s = so.LabelSpace("fixture")
    s.binary("y", (2, 3))
    s.continuous("x", 4, -1, [1, 2, 3, 4])
    s.integer("k", (), -2, 2)
    return s


class TestExpressionsEqualNumpy:
    """Every operation on an expression, evaluated at a point, is numpy's on the values."""

    @pytest.mark.parametrize(
        "operation",
        [
            lambda y, x, k: y + 1,
            lambda y, x, k: 3 - y,
            lambda y, x, k: -y * np.array([1.0, 2.0, 3.0]),
            lambda y, x, k: np.array([[1.0], [2.0]]) * y,
            lambda y, x, k: y / 4,
            lambda y, x, k: y[0] - y[1] + x[1:],
            lambda y, x, k: y[:, None, :] + x[None, :2, None],
            lambda y, x, k: y.T,
            lambda y, x, k: y.reshape(3, 2),
            lambda y, x, k: y.reshape((-1,)),
            lambda y, x, k: y.ravel()[[0, 0, 5]],
            lambda y, x, k: y[:, [True, False, True]],
            lambda y, x, k: y[[0, 1], [2, 0]],
            lambda y, x, k: y[-1, -1] + k,
            lambda y, x, k: y[..., 1],
            lambda y, x, k: y.sum(),
            lambda y, x, k: y.sum(axis=0),
            lambda y, x, k: y.sum(axis=-1),
            lambda y, x, k: y.sum(axis=(0, 1)),
            lambda y, x, k: x @ np.arange(4.0),
            lambda y, x, k: np.arange(4.0) @ x,
            lambda y, x, k: np.arange(12.0).reshape(3, 4) @ x,
            lambda y, x, k: x @ np.arange(8.0).reshape(4, 2),
            lambda y, x, k: np.arange(8.0).reshape(4, 2) @ y,
            lambda y, x, k: y @ np.arange(12.0).reshape(3, 4),
            lambda y, x, k: k * 2 + x,
            lambda y, x, k: sum([y[0, 0], y[0, 1], k]),
        ],
    )
    def test_operation(self, space, operation):
        rng = np.random.default_rng(0)
        z = rng.normal(size=space.n_variables)
        blocks = space.blocks(z)
        got = operation(space["y"], space["x"], space["k"])
        wanted = np.asarray(operation(blocks["y"], blocks["x"], blocks["k"]))
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got.value(z), wanted, atol=1e-12)

    def test_sparse_factors(self, space):
        z = np.random.default_rng(1).normal(size=space.n_variables)
        S = sp.random_array((5, 4), density=0.5, rng=2, format="csr")
        x = space.blocks(z)["x"]
        np.testing.assert_allclose((S @ space["x"]).value(z), S @ x)
        np.testing.assert_allclose((sp.coo_matrix(S.toarray()) @ space["x"]).value(z), S @ x)
        np.testing.assert_allclose((space["x"] @ S.T).value(z), x @ S.T)

    def test_concatenate(self, space):
        z = np.arange(11.0)
        y, x = space["y"], space["x"]
        joined = so.concatenate([y[0], x, y[1]])
        np.testing.assert_allclose(joined.value(z), np.r_[z[:3], z[6:10], z[3:6]])
        stacked = so.concatenate([y, 2 * y], axis=1)
        np.testing.assert_allclose(stacked.value(z), np.hstack([z[:6].reshape(2, 3)] * 2) * [1, 1, 1, 2, 2, 2])
        for axis in (2, 2**63):
            with pytest.raises(DeclarationError, match=f"axis {axis} of expressions"):
                so.concatenate([y, y], axis=axis)

    def test_iteration_and_length(self, space):
        assert len(space["y"]) == 2
        assert [row.shape for row in space["y"]] == [(3,), (3,)]

    def test_variables_declared_later_widen_old_expressions(self):
        s = so.LabelSpace()
        total = s.binary("a", 2).sum()
        b = s.binary("b", 2)
        s.subject_to(total + b[0] <= 1)
        assert s.matrix.toarray().tolist() == [[1, 1, 1, 0]]


class TestCanonicalForm:
    def test_design_example(self):
        s = so.LabelSpace("at most three")
        y = s.binary("y", 4)
        i, j = np.triu_indices(4, k=1)
        p = s.continuous("pair", len(i), 0, 1)
        s.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
        s.subject_to(y.sum() <= 3, name="cardinality")
        assert s.matrix.shape == (19, 10)
        assert s.matrix.format == "csr" and s.matrix.has_canonical_format and s.matrix.indices.dtype == np.int32
        assert s.row_names[18] == "cardinality" and s.row_names[0] == "c0[0]" and s.row_names[12] == "c2[0]"
        assert s.variable_names[4] == "pair[0]"
        labels = s.enumerate()
        assert len(labels) == 15
        np.testing.assert_array_equal(labels[:, 4:], labels[:, i] * labels[:, j])

    def test_cached_until_changed(self, space):
        first = space.compiled
        assert space.compiled is first
        space.subject_to(space["y"].sum() <= 2)
        assert space.compiled is not first and space.n_rows == 1

    def test_fingerprint_is_content(self):
        def declare(limit: float, name: str) -> so.LabelSpace:
            s = so.LabelSpace(name)
            y = s.binary(name, 3)
            s.subject_to(y.sum() - 0.0 * y[0] <= limit)
            return s

        assert declare(2, "a").fingerprint == declare(2, "b").fingerprint
        assert declare(2, "a").fingerprint != declare(1, "a").fingerprint
        assert declare(2, "a").fingerprint != declare(2, "a").relaxed().fingerprint

    def test_double_bounds_and_equality(self):
        s = so.LabelSpace()
        y = s.binary("y", 4)
        s.subject_to((y.sum() + 1).between(2, 3), name="range")
        s.subject_to(y[0] + y[1] == 1, y[2] + y[3] <= 1, np.array([0.0, 0.0]) <= y[:2])
        assert s.row_lower[:3].tolist() == [1, 1, -np.inf]
        assert s.row_upper[:3].tolist() == [2, 1, 1]
        assert s.row_lower[3:].tolist() == [0, 0]

    def test_read_only(self, space):
        with pytest.raises(ValueError):
            space.lower[0] = 5

    def test_relaxed_keeps_everything_but_integrality(self, space):
        space.subject_to(space["y"].sum(axis=1) <= 1, name="rows")
        r = space.relaxed()
        assert not r.integrality.any() and r.block_names == space.block_names
        assert list(r.row_names) == list(space.row_names)
        assert (r.matrix != space.matrix).nnz == 0

    def test_views(self, space):
        space.subject_to(space["y"].sum() <= 2, name="<few>")
        assert repr(space) == "<LabelSpace 'fixture': 6 binary, 1 integer and 4 continuous variables, 1 row>"
        html = space._repr_html_()
        assert "&lt;few&gt;" in html and "(2, 3)" in html
        assert "y" in repr(space["y"])
        assert "LabelSpace" in repr(so.LabelSpace())


class TestLabels:
    def test_vector_and_blocks_invert_each_other(self, space):
        z = np.arange(11.0)
        np.testing.assert_array_equal(space.vector(**space.blocks(z)), z)

    def test_vector_needs_each_block_once(self, space):
        with pytest.raises(DeclarationError, match="missing k, x"):
            space.vector(y=np.zeros((2, 3)))
        with pytest.raises(DeclarationError, match="shape"):
            space.vector(y=np.zeros(6), x=np.zeros(4), k=0)

    def test_violations_by_name(self, space):
        space.subject_to(space["y"].sum(axis=1) <= 1, name="one a row")
        z = space.vector(y=[[1, 0, 0], [1, 0.5, 1]], x=[0, 0, 0, 5], k=0)
        assert not space.contains(z)
        told = [str(v) for v in space.violations(z)]
        assert any("one a row[1]" in t and "2.5" in t for t in told)
        assert any("x[3]" in t for t in told) and any("y[1,1] = 0.5 is not an integer" in t for t in told)
        assert space.contains(space.vector(y=np.eye(2, 3), x=np.zeros(4), k=-2))

    def test_wrong_points(self, space):
        with pytest.raises(SpaceMismatch):
            space.contains(np.zeros(3))
        with pytest.raises(DeclarationError, match=r"y\[0,1\]"):
            space.contains(np.where(np.arange(11) == 1, np.nan, 0.0))


class TestEnumerationLimits:
    def test_too_many(self):
        s = so.LabelSpace()
        s.binary("y", 12)
        with pytest.raises(DeclarationError, match="more than 100"):
            s.enumerate(limit=100)

    def test_deep_frontier_is_split(self):
        s = so.LabelSpace()
        y = s.binary("y", 17)
        s.subject_to(y.sum() == 1)
        assert len(s.enumerate()) == 17
        t = so.LabelSpace()
        t.binary("y", 16)
        assert len(t.enumerate(limit=1 << 16)) == 1 << 16

    def test_continuous_must_follow(self):
        s = so.LabelSpace()
        s.binary("y", 2)
        s.continuous("slack", (), 0, 1)
        with pytest.raises(DeclarationError, match="slack"):
            s.enumerate()
        with pytest.raises(DeclarationError, match="no integer"):
            s.relaxed().enumerate()

    def test_free_continuous_variable_pinned_by_equality(self):
        s = so.LabelSpace()
        y = s.binary("y", 3)
        total = s.continuous("total")
        s.subject_to(total == y.sum())
        labels = s.enumerate()
        np.testing.assert_array_equal(labels[:, 3], labels[:, :3].sum(axis=1))

    def test_bounds_that_meet_stay_while_other_labels_go_on(self):
        """Crossed by rounding, the bounds of x drifted apart as long as an impossible label was still propagated."""
        s = so.LabelSpace()
        x, y = s.continuous("x", 2, 0, 2), s.integer("y", 1, 0, 2)
        s.subject_to(15 * x[0] - 3 * x[1] + 6 * y[0] == 15)
        s.subject_to(4 * x[0] - 10 * x[1] == -16)
        np.testing.assert_allclose(s.enumerate(), [[1, 2, 1], [13 / 23, 42 / 23, 2]])

    def test_values_that_propagation_only_approaches(self):
        """Bounds 1e-7 apart are no proof that a row with a coefficient of 1e4 fails."""
        s = so.LabelSpace()
        y, x = s.binary("y", 1), s.continuous("x", 2, 0, 1)
        s.subject_to(x[0] - 0.72 * x[1] == 0.05 * y[0])
        s.subject_to(x[1] - x[0] == 0)
        s.subject_to(1e4 * x[0] - 1e4 * x[1] == 0)
        try:
            found = s.enumerate()
        except DeclarationError as error:
            assert "propagation" in str(error) or "any value" in str(error)
        else:
            np.testing.assert_allclose(found[:, 0], [0, 1])
            np.testing.assert_allclose(found[:, 1:], np.outer([0, 0.05 / 0.28], [1, 1]), atol=1e-6)

    def test_unbounded_integer(self):
        s = so.LabelSpace()
        s.integer("k")
        with pytest.raises(DeclarationError, match="k is unbounded"):
            s.enumerate()


def test_a_number_beside_no_variables_is_none():
    """The rows of a graph without edges: ``p <= 1`` for each of none."""
    space = so.LabelSpace()
    p = space.binary("p", 3)[:0]
    for none in (p + 1, 1 - p, 2 * p - 1):
        assert none.shape == (0,)
    space.subject_to(p <= 1)
    assert space.compiled.matrix.shape == (0, 3)


class TestBadInput:
    """Each mistake is reported where it is made, in the user's words."""

    @pytest.mark.parametrize(
        ("mistake", "words"),
        [
            (lambda s: s["x"] * np.nan, "NaN"),
            (lambda s: s["x"] * np.inf, "Infinite"),
            (lambda s: s["x"] + np.array([np.nan, 0, 0, 0]), "NaN"),
            (lambda s: s["x"] @ np.array([1, np.inf, 0, 0]), "Infinite"),
            (lambda s: s["x"] + np.zeros(3), "broadcast"),
            (lambda s: s["x"][:0] + s["x"][:1], "leave nothing"),
            (lambda s: np.zeros((2, 5)) @ s["x"], "match"),
            (lambda s: s["x"] * s["x"], "not linear"),
            (lambda s: 0 <= s["x"] <= 1, "between"),
            (lambda s: (s["x"] <= 1) <= 2, "compared again"),
            (lambda s: s["x"] < 1, "strict"),
            (lambda s: s["x"] != 1, "!="),
            (lambda s: bool(s["x"]), "truth value"),
            (lambda s: s.subject_to(s["x"]), "comparisons"),
            (lambda s: s.subject_to(s["x"] <= np.nan), "NaN"),
            (lambda s: s.subject_to(s["x"] >= np.inf), "inf"),
            (lambda s: s["x"].between(2, 1), "above"),
            (lambda s: s.binary("y", 3), "already"),
            (lambda s: s.binary("", 3), "name"),
            (lambda s: s.binary("v", -1), "non-negative"),
            (lambda s: s.continuous("v", 2, 1, 0), r"v\[0\]"),
            (lambda s: s.continuous("v", 2, np.nan), "NaN"),
            (lambda s: s.continuous("v", 2, [0, 0, 0]), "shape"),
            (lambda s: s["x"] / 0, "zero"),
            (lambda s: s["x"] + "one", "numbers"),
            (lambda s: so.LabelSpace.from_matrices([[np.nan]]), "NaN"),
            (lambda s: so.LabelSpace.from_matrices([[1.0]], [0, 0]), "row_lower"),
            (lambda s: s["x"].sum(axis=3), "axis"),
        ],
    )
    def test_mistake(self, space, mistake, words):
        with pytest.raises(DeclarationError, match=words):
            mistake(space)

    def test_duplicate_row_names(self, space):
        space.subject_to(space["x"] <= 1, name="limit")
        with pytest.raises(DeclarationError, match="limit"):
            space.subject_to(space["x"] >= -1, name="limit")

    def test_variables_of_another_space(self, space):
        other = so.LabelSpace("other")
        v = other.binary("v", 4)
        with pytest.raises(SpaceMismatch, match="other"):
            space["x"] + v
        with pytest.raises(SpaceMismatch):
            space.subject_to(v <= 1)

    def test_constant_rows(self, space, caplog):
        with caplog.at_level(logging.INFO, logger="structopt"):
            space.subject_to(space["x"] - space["x"] <= 0, name="idle")
            space.subject_to(1 <= 2)
        assert space.n_rows == 0 and len(space.notes) == 2 and "idle" in caplog.text
        with pytest.raises(InfeasibleSpace, match="false") as info:
            space.subject_to(0 * space["x"] >= 1, name="impossible")
        assert info.value.rows == ("impossible[0]",)
        with pytest.raises(InfeasibleSpace):
            space.subject_to(2 <= 1)

    def test_constant_rows_among_others(self, space):
        space.subject_to(np.diag([1.0, 0, 1, 0]) @ space["x"] <= 1, name="some")
        assert list(space.row_names) == ["some[0]", "some[2]"]

    def test_unknown_block_and_index(self, space):
        with pytest.raises(KeyError, match="no block 'nope'"):
            space["nope"]
        with pytest.raises(IndexError):
            space["x"][7]


def test_a_million_rows_need_no_loop(count_calls):
    """Names stay lazy and the matrix is built by whole arrays."""
    n, m = 100_000, 500_000
    rng = np.random.default_rng(0)
    child = rng.integers(1, n, m)
    made = []

    def declare():
        s = so.LabelSpace()
        y = s.binary("y", n)
        s.subject_to(y[child] <= y[child // 2], y[child] >= y[child // 3] - 1)
        assert s.matrix.shape == (2 * m, n)
        made.append(s)

    assert count_calls(declare) < 5_000
    assert made[0].row_names[999_999] == f"c1[{m - 1}]"

"""Declarations of lazy rows: what a separation may return, and who must know of it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, DiagramRefused, LabelNotInSpace, SeparationFailed, UnsupportedSpace
from structopt.space.values import space_values


def at_most_one(z):
    """In a module, so that it can be pickled."""
    return ({"y": 1.0}, -np.inf, 1.0) if z["y"].sum() > 1 + 1e-6 else None


def at_most_two(z):
    return ({"y": 1.0}, -np.inf, 2.0) if z["y"].sum() > 2 + 1e-6 else None


def declared(separate=at_most_one, n=3, **options):
    space = so.LabelSpace("few")
    y = space.binary("y", n)
    space.lazy(separate(y) if separate.__name__ == "of_block" else separate, name="few", **options)
    return space


def in_all_forms():
    """The same row in each form that a separation may return."""

    def forms(y, violated):
        matrix = np.ones((1, 3))
        return [
            y.sum() <= 1,
            [y.sum() <= 1],
            (y.sum() <= 1, y.sum() <= 1, y[0] + y[1] + y[2] <= 1),
            (np.ones(3), -np.inf, 1.0),
            [(np.ones(3), -np.inf, 1.0)],
            ((1.0, 1.0, 1.0), -np.inf, 1),
            ([1, 1, 1], -np.inf, 1),
            (matrix, np.array([-np.inf]), np.array([1.0])),
            (sp.csr_array(matrix), -np.inf, 1.0),
            ({"y": np.ones(3)}, -np.inf, 1.0),
            (row for row in [y.sum() <= 1]),
        ][violated]

    return [lambda y, k=k: lambda z: forms(y, k) if z["y"].sum() > 1.5 else None for k in range(11)]


@pytest.mark.parametrize("form", in_all_forms())
def test_rows_may_be_returned_in_many_forms(form):
    space = so.LabelSpace()
    y = space.binary("y", 3)
    space.lazy(form(y))
    assert len(space.enumerate()) == 4
    assert so.Oracle(space).maximize([1.0, 3.0, 2.0]).z.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "answer", ["a text", 3, (np.ones(2), 0, 1), ({"x": 1.0}, 0, 1), (np.full(3, np.nan), 0, 1), {"y": 1}, np.ones(3)]
)
def test_malformed_answers_are_named(answer):
    space = declared(lambda z: answer)
    with pytest.raises(SeparationFailed, match="'few'"):
        space.contains([0, 0, 0])


def test_rows_of_another_space_are_refused():
    other = so.LabelSpace()
    x = other.binary("x", 3)
    with pytest.raises(SeparationFailed, match="variables of"):
        declared(lambda z: x.sum() <= 1).contains([1, 1, 0])


def test_the_point_cannot_be_changed_and_integers_are_exact():
    seen = []

    def separate(z):
        seen.append(z["y"].copy())
        assert not z["y"].flags.writeable

    space = declared(separate)
    assert space.contains([1.0 - 1e-8, 0.0, 1e-9])
    assert seen[0].tolist() == [1.0, 0.0, 0.0]


def test_checks_of_points_use_the_separation():
    space = declared()
    assert space.contains([0, 1, 0]) and not space.contains([1, 1, 0])
    (broken,) = space.violations([1, 1, 0])
    assert broken.name == "few (y[0] + y[1] + y[2] <= 1)" and broken.value == 2.0
    assert space.enumerate().sum(axis=1).max() == 1
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    with pytest.raises(LabelNotInSpace, match=r"few \(y"):
        model.encode([1, 1, 0])


def test_integral_only_is_not_called_at_fractions():
    calls = []
    space = declared(lambda z: calls.append(z["y"].copy()), integral_only=True)
    assert space.relaxed().contains([0.5, 0.5, 0.5]) and not calls
    assert space.contains([1, 0, 0]) and len(calls) == 1


def test_copies_and_relaxations_keep_the_rows():
    space = declared()
    assert not space.relaxed().contains([0.5, 0.5, 0.5])
    wider = space.copy()
    wider.binary("x", 2)
    assert wider.contains([1, 0, 0, 1, 1]) and not wider.contains([1, 1, 0, 1, 1])
    assert not so.LabelSpace.from_compiled(space.compiled).contains([1, 1, 0])


def test_fingerprints_tell_separations_apart():
    plain = so.LabelSpace("few")
    plain.binary("y", 3)
    prints = {space.fingerprint for space in (plain, declared(), declared(at_most_two), declared(integral_only=True))}
    assert len(prints) == 4
    assert declared().fingerprint == declared().fingerprint
    # A function inside another sees variables that no hash sees.
    limits = [declared(lambda z, k=k: ({"y": 1.0}, -np.inf, k) if z["y"].sum() > k else None) for k in (1, 2)]
    assert limits[0].fingerprint != limits[1].fingerprint


def test_nobody_forgets_the_rows(tmp_path):
    space = declared()
    assert space.structure.kind == "general" and "few" in space.structure.reason and not space.structure.integral
    assert "lazy rows 'few'" in repr(space) and "few" in repr(space.compiled)
    with pytest.raises(DiagramRefused):
        space.count()
    with pytest.raises(DiagramRefused):
        so.Oracle(space, "diagram")
    for act in (lambda: space.write(tmp_path / "few.mps"), space.to_pulp, space.to_pyomo, lambda: space_values(space)):
        with pytest.raises(UnsupportedSpace, match="lazy rows"):
            act()
    with pytest.raises(UnsupportedSpace, match="lazy rows"):
        so.backends.make_backend("highs", space.compiled)
    oracle = so.Oracle(space)
    assert oracle._listed_labels is None and oracle.algorithm == "highs"
    assert oracle.log_partition([np.zeros(3)])[0] == pytest.approx(np.log(4))


def test_declarations_are_checked():
    space = declared()
    with pytest.raises(DeclarationError, match="names must differ"):
        space.lazy(at_most_two, name="few")
    with pytest.raises(DeclarationError, match="callable"):
        space.lazy(3)
    with pytest.raises(DeclarationError, match="1 argument"):
        space.lazy(lambda: None)
    oracle = so.Oracle(space)
    space.lazy(at_most_two)
    with pytest.raises(DeclarationError, match="has grown"):
        oracle.maximize(np.ones(3))


def test_pickling():
    space = pickle.loads(pickle.dumps(declared()))
    assert not space.contains([1, 1, 0]) and space.fingerprint == declared().fingerprint
    oracle = pickle.loads(pickle.dumps(so.Oracle(space)))
    assert oracle.maximize([1.0, 3.0, 2.0]).z.tolist() == [0, 1, 0]


def test_files_of_estimators_hold_data_only(tmp_path):
    model = so.Model(declared(), {"y": so.features.Linear()}, so.losses.Hamming())
    svm = so.StructuredSVM(model, lam=0.1).fit(np.eye(3), np.eye(3))
    with pytest.raises(DeclarationError, match="lazy rows"):
        svm.save(tmp_path / "svm.npz")
    again = pickle.loads(pickle.dumps(svm))
    assert np.array_equal(again.predict(np.eye(3)), svm.predict(np.eye(3)))


_most = 1


def at_most(z):
    """Reads a name of its module."""
    return ({"x": np.ones(3)}, -np.inf, _most) if z["x"].sum() > _most + 1e-6 else None


def test_the_fingerprint_sees_data_that_the_function_reads(monkeypatch):
    """Else a diagram or a checkpoint of other rows would be used."""
    prints = set()
    for most in (1, 2):
        monkeypatch.setitem(globals(), "_most", most)
        space = so.LabelSpace("s")
        space.binary("x", 3)
        space.lazy(at_most, name="r")
        prints.add(space.fingerprint)
    assert len(prints) == 2

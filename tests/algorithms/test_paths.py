"""DAG paths against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.algorithms.paths import Dag, best_path, best_path_batch, k_best
from structopt.errors import DeclarationError, InfeasibleSpace


def instance(seed, n, n_arcs, ties, forbid):
    """Random arcs (parallel ones too) between nodes whose numbers are not a topological order."""
    rng = np.random.default_rng(seed)
    rank = rng.permutation(n)
    a, b = rng.integers(0, n, n_arcs), rng.integers(0, n, n_arcs)
    keep = a != b
    a, b = a[keep], b[keep]
    tail, head = np.where(rank[a] < rank[b], a, b), np.where(rank[a] < rank[b], b, a)
    gain = rng.integers(-2, 3, len(tail)).astype(float) if ties else rng.normal(size=len(tail))
    if forbid:
        gain[rng.random(len(tail)) < 0.2] = -np.inf
    return tail, head, gain, *(int(i) for i in rng.integers(0, n, 2))


def all_paths(tail, head, gain, source, sink):
    """Arc sequences in lexicographic order."""
    if source == sink:
        yield ()
        return
    for arc in np.flatnonzero((tail == source) & (gain > -np.inf)):
        for rest in all_paths(tail, head, gain, head[arc], sink):
            yield (int(arc), *rest)


cases = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(0, 16), st.booleans(), st.booleans())


@given(cases, st.integers(1, 10), st.integers(0, 3))
@settings(deadline=None, max_examples=200)
def test_paths_equal_enumeration(case, k, n_no_goods):
    tail, head, gain, source, sink = instance(*case)
    dag = Dag.from_arcs(tail, head, case[1])
    paths = list(all_paths(tail, head, gain, source, sink))
    if not paths:
        with pytest.raises(InfeasibleSpace):
            best_path(dag, gain, source, sink)
        with pytest.raises(InfeasibleSpace):
            best_path_batch(dag, gain[None], source, sink)
        return
    v = np.array([gain[list(p)].sum() for p in paths])
    arcs, value = best_path(dag, gain, source, sink)
    assert value == pytest.approx(v.max(), abs=1e-12)
    used, values = best_path_batch(dag, np.stack([gain, 2 * gain]), source, sink)
    assert np.flatnonzero(used[0]).tolist() == sorted(arcs.tolist())
    np.testing.assert_allclose(values, [value, 2 * value], atol=1e-12)
    order = np.argsort(-v, kind="stable")
    forbid = [paths[i] for i in order[: 2 * n_no_goods : 2]]
    keep = [i for i in order if paths[i] not in forbid][:k]
    found, values = k_best(dag, gain, source, sink, k, forbid=forbid)
    np.testing.assert_allclose(values, v[keep], atol=1e-12)
    assert len({tuple(p) for p in found}) == len(found)
    if case[3]:
        assert tuple(arcs.tolist()) == paths[int(v.argmax())]


def test_a_cycle_is_named():
    with pytest.raises(DeclarationError, match=r"cycle: (1 -> 2 -> 3 -> 1|2 -> 3 -> 1 -> 2|3 -> 1 -> 2 -> 3)"):
        Dag.from_arcs([0, 1, 2, 3, 3], [1, 2, 3, 1, 4])


def test_bad_input_is_refused():
    dag = Dag.from_arcs([0, 0, 1], [1, 2, 2])
    for value in (np.nan, np.inf):
        with pytest.raises(DeclarationError, match="NaN"):
            best_path(dag, [1, value, 0], 0, 2)
        with pytest.raises(DeclarationError, match="Example 1"):
            best_path_batch(dag, [[1, 0, 0], [1, value, 0]], 0, 2)
    with pytest.raises(DeclarationError, match="3 arcs"):
        best_path(dag, [1.0], 0, 2)
    with pytest.raises(DeclarationError, match="excluded"):
        k_best(dag, [1.0, 1, 1], 0, 2, 1, forbid=[[0, 3]])
    with pytest.raises(DeclarationError, match="sink 3"):
        best_path(dag, [1.0, 1, 1], 0, 3)
    with pytest.raises(DeclarationError, match=r"0\.\.1"):
        Dag.from_arcs([0], [2], 2)
    with pytest.raises(DeclarationError, match="2 tails"):
        Dag.from_arcs([0, 1], [2])

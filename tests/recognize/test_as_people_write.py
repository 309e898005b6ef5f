"""Chains and trees of groups in the ways in which people write them, against HiGHS."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import InfeasibleSpace

T, S = 4, 3
CHAIN = [(t, t + 1) for t in range(T - 1)]
STAR = [(2, 0), (2, 1), (2, 3)]


class Draft:
    """A space of T groups of S states, with pair variables if wanted."""

    def __init__(self, edges, *, pairs=True, kind="binary", pair_kind="continuous", pair_upper=1.0, groups=True):
        self.edges = edges
        self.space = so.LabelSpace()
        self.y = self.space.binary("y", (T, S)) if kind == "binary" else self.space.continuous("y", (T, S), 0, 1)
        if pairs:
            shape = (len(edges), S, S)
            binary = pair_kind == "binary"
            self.p = self.space.binary("p", shape) if binary else self.space.continuous("p", shape, 0, pair_upper)
        if groups:
            self.space.subject_to(self.y.sum(axis=1) == 1)

    def marginals(self):
        a, b = np.array(self.edges).T
        self.space.subject_to(self.p.sum(axis=2) == self.y[a], self.p.sum(axis=1) == self.y[b])
        return self

    def links(self, lower=True, upper=True):
        for e, (a, b) in enumerate(self.edges):
            for s in range(S):
                if upper:
                    self.space.subject_to(self.p[e, s] <= self.y[b])
                    self.space.subject_to(*(self.p[e, s, k] <= self.y[a, s] for k in range(S)))
                if lower:
                    self.space.subject_to(*(self.p[e, s, k] >= self.y[a, s] + self.y[b, k] - 1 for k in range(S)))
        return self


def pairs_add_up(edges):
    draft = Draft(edges, groups=False).marginals()
    draft.space.subject_to(draft.p.sum(axis=(1, 2)) == 1)
    return draft.space


def everything_adds_up(edges):
    draft = Draft(edges).marginals()
    draft.space.subject_to(draft.p[0].sum() == 1)
    return draft.space


def equations_as_two_inequalities(edges):
    draft = Draft(edges, groups=False)
    a, b = np.array(edges).T
    y, p = draft.y, draft.p
    draft.space.subject_to(y.sum(axis=1) <= 1, p.sum(axis=2) <= y[a], p.sum(axis=1) >= y[b])
    draft.space.subject_to(-y.sum(axis=1) <= -1, y[a] <= p.sum(axis=2), y[b] >= p.sum(axis=1))
    return draft.space


def pairs_set_to_zero(edges):
    draft = Draft(edges).marginals()
    draft.space.subject_to(draft.p[:, 0, 1] == 0, draft.p[:, 2, 2] <= 0)
    return draft.space


def rules_and_marginals(edges):
    draft = Draft(edges).marginals()
    draft.space.subject_to(*(draft.y[b, 1] + draft.y[b, 2] <= draft.y[a, 0] + draft.y[a, 1] for a, b in edges))
    return draft.space


def bonus_for_equal_neighbours(edges):
    """Products for some pairs only: the others may meet without a variable."""
    draft = Draft(edges, pairs=False)
    same = draft.space.continuous("same", (len(edges), S), 0, 1)
    for e, (a, b) in enumerate(edges):
        draft.space.subject_to(same[e] <= draft.y[a], same[e] <= draft.y[b], same[e] >= draft.y[a] + draft.y[b] - 1)
    return draft.space


#: Options of a draft, and what is declared between its pairs.
DRAFTS = {
    "local marginals": ({}, Draft.marginals),
    "relaxed marginals": ({"kind": "continuous"}, Draft.marginals),
    "integer pairs": ({"pair_kind": "binary"}, Draft.marginals),
    "pairs without bound": ({"pair_upper": np.inf}, Draft.marginals),
    "linearised products": ({}, Draft.links),
    "products and marginals": ({}, lambda draft: draft.marginals().links()),
    "upper links and marginals": ({}, lambda draft: draft.marginals().links(lower=False)),
}
#: Rows for the states y[a] and y[b] of an edge, without variables of pairs.
RULES = {
    "forbidden pairs": lambda y, a, b: y[a, 0] + y[b, 1:] <= 1,
    "one row for a state and all that may not follow it": lambda y, a, b: y[a, 0] + y[b, 1] + y[b, 2] <= 1,
    "state 1 only after 0 or 1": lambda y, a, b: y[b, 1] <= y[a, 0] + y[a, 1],
    "state 1 only after 1": lambda y, a, b: y[a, 1] >= y[b, 1],
}
OTHERS = {
    way.__name__.replace("_", " "): way
    for way in (
        pairs_add_up, everything_adds_up, equations_as_two_inequalities, pairs_set_to_zero, rules_and_marginals,
        bonus_for_equal_neighbours,
    )
}  # fmt: skip


def written(way, edges):
    """Return the space that is written in a way."""
    if way in OTHERS:
        return OTHERS[way](edges)
    if way in DRAFTS:
        options, declare = DRAFTS[way]
        return declare(Draft(edges, **options)).space
    draft = Draft(edges, pairs=False)
    draft.space.subject_to(*(RULES[way](draft.y, a, b) for a, b in edges))
    return draft.space


def agrees_with_highs(space, seeds, fast=None):
    fast, solver = fast or so.Oracle(space), so.Oracle(space, "highs", integral="force")
    for seed in seeds:
        c = np.random.default_rng(seed).normal(size=space.n_variables)
        try:
            wanted = solver.maximize(c).value
        except InfeasibleSpace:
            with pytest.raises(InfeasibleSpace):
                fast.maximize(c)
            return
        found = fast.maximize(c)
        assert space.contains(found.z)
        assert found.value == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("edges", [CHAIN, STAR], ids=["chain", "star"])
@pytest.mark.parametrize("way", [*DRAFTS, *RULES, *OTHERS])
def test_ways_to_write_chains_and_trees(way, edges):
    space = written(way, edges)
    assert space.structure.kind == "group forest", space.structure
    fast = so.Oracle(space)
    assert fast.algorithm == "max-sum on a forest"
    agrees_with_highs(space, range(2), fast)


def test_a_sum_over_part_of_an_edge_is_no_implied_row():
    """Transitions within {0, 1} and within {2}: the pairs of the first part alone add up to 1."""
    draft = Draft([(0, 1)], pairs=False)
    upper = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    p = draft.space.continuous("p", (S, S), 0, upper)
    draft.space.subject_to(p.sum(axis=1) == draft.y[0], p.sum(axis=0) == draft.y[1])
    assert draft.space.structure.kind in ("group forest", "product")
    draft.space.subject_to(p[:2, :2].sum() == 1)
    agrees_with_highs(draft.space, range(5))

"""Recognition is invariant under how a space is written, and every claim holds on mutated declarations."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from structopt.recognize import Assignment, Path, Tree, recognize

KINDS = ("box", "simplices", "cardinality", "closure", "forest", "pairwise", "assignment", "path", "tree", "flow")


@pytest.mark.parametrize("kind", KINDS)
def test_disguised_declarations_are_recognised(kit, kind):
    # A block of a small random instance may be simpler than its family: a star below a fixed root is a count, a
    # matching with one free row a simplex, a flow without room a box.
    simpler = {
        "forest": {"closure"},
        "tree": {"tree", "cardinality", "box"},
        "assignment": {"assignment", "simplices", "box", "product"},
        "path": {"path", "simplices", "box"},
        "flow": {"flow", "path", "box", "product", "simplices"},
    }
    seen: dict[str, int] = {}
    for seed in range(25):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        space = kit.space(*kit.disguise(rng, kit.declarations[kind](rng)))
        structure = recognize(space)
        assert structure.kind in simpler.get(kind, {kind}), structure
        seen[structure.kind] = seen.get(structure.kind, 0) + 1
        kit.check(space, structure, rng, objectives=1)
    name = "closure" if kind == "forest" else kind
    assert seen[name] >= 10, seen


@pytest.mark.parametrize("kind", KINDS)
def test_claims_hold_on_mutated_declarations(kit, kind):
    recognised = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 100 + KINDS.index(kind)])
        declaration = kit.declarations[kind](rng)
        for _ in range(int(rng.integers(1, 3))):
            declaration = kit.mutate(rng, declaration)
        space = kit.space(*kit.disguise(rng, declaration))
        structure = recognize(space)
        kit.check(space, structure, rng, objectives=2)
        recognised += structure.kind != "general"
    assert recognised > 10

"""Functions of a gene in a directed acyclic graph of terms: whoever has a term has all terms above it.

A term may have several parents, as in the Gene Ontology. Labels are 0/1 rows over the terms (closures, also the empty
one), found by one minimum cut; the loss is the number of wrong terms.
"""

from __future__ import annotations

import numpy as np

import structopt as so

TERMS = so.Hierarchy(
    [
        ("process", "metabolism"),
        ("process", "transport"),
        ("process", "signalling"),
        ("metabolism", "synthesis"),
        ("metabolism", "breakdown"),
        ("transport", "ion transport"),
        ("signalling", "ion signalling"),
        ("transport", "ion signalling"),
        ("synthesis", "repair"),
        ("breakdown", "repair"),
        ("ion transport", "calcium"),
        ("ion signalling", "calcium"),
    ]
)
N_FEATURES = 8


def model() -> so.Model:
    return so.structures.HierarchicalLabels(TERMS, kind="closure", loss=so.losses.Hamming(), intercept=True)


def data(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Genes with one to three terms and everything above them."""
    rng = np.random.default_rng(seed)
    nodes = TERMS.nodes
    above = np.array([[other == node or other in TERMS.ancestors(node) for other in nodes] for node in nodes])
    own = rng.random((n, len(nodes))) < 2 / len(nodes)
    Y = (own @ above).astype(int)
    seen = np.random.default_rng(7).normal(size=(len(nodes), N_FEATURES))
    return Y @ seen + rng.normal(size=(n, N_FEATURES)), Y

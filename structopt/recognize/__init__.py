"""Recognition of the structure of a compiled space, with proof.

`recognize` reads only the matrix, the bounds and the integrality marks, so it finds the same structure in a
space declared natively, in Pyomo, in PuLP or in a file. It is sound, not complete: every test
is an exact comparison, and an unproved guess is not used. The steps, one file each:

``normalize``   same labels in a plainer form: rows divided to +-1 entries, fixed columns substituted, idle rows dropped
``dependent``   columns that follow from others by one equality row each, in spaces of no known kind
``patterns``    rows read one by one: box, simplices, cardinality, closure, pairwise local polytope
``networks``    at most two entries a column: assignment, DAG path, flow
``trees``       a chosen node needs a chosen child (docs/mathematics/hierarchies#sets-of-leaves)
``forests``     one-of-many groups joined to chains and trees: local marginal polytopes, forbidden pairs
``unimodular``  proof of total unimodularity, computed on demand
``records``     the index arrays of every kind
``completion``  the variables that follow from others
``structure``   the answer: `Structure`, with a record
"""

from __future__ import annotations

from structopt.recognize.recognizer import recognize, recognize_paths
from structopt.recognize.records import (
    Assignment,
    Box,
    Cardinality,
    Closure,
    GroupForest,
    LeafSets,
    Leaves,
    Pairwise,
    Path,
    Record,
    Tree,
)
from structopt.recognize.structure import Structure
from structopt.recognize.unimodular import prove_totally_unimodular

__all__ = [
    "recognize",
    "recognize_paths",
    "Structure",
    "Record",
    "Box",
    "Cardinality",
    "Closure",
    "Pairwise",
    "Assignment",
    "Path",
    "Tree",
    "GroupForest",
    "Leaves",
    "LeafSets",
    "prove_totally_unimodular",
]

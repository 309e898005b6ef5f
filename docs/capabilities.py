"""Make ``howto/what_each_structure_can_do.md`` from the plans of oracles.

Every build of the documentation writes the page, which is not in the repository. `tests/laws/test_capabilities.py`
compares every cell with enumeration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import structopt as so
from structopt.oracle.plan import Option, Plan

__all__ = ["FORMS", "SAMPLES", "Sample", "answers", "is_of_row", "oracle_of", "page"]

PAGE = Path(__file__).parent / "howto" / "what_each_structure_can_do.md"
FORMS = ("shipped", "declared")
Q, S = so.Question, so.structures


class Sample(NamedTuple):
    """Inputs of a structure: one of the size that the page is about, and a small one whose labels can be enumerated."""

    title: str
    make: Callable[[int], tuple[so.Model, Any]]
    size: int
    small: int


def _tree(depth: int) -> so.Hierarchy:
    """Return the complete binary tree of this depth."""
    return so.Hierarchy([((k - 1) // 2, k) for k in range(1, 2**depth - 1)])


def _dag(layers: int, above: int = 0) -> so.Hierarchy:
    """Return layers of two nodes with a leaf each, below both nodes of the layer above; the first is below a path."""
    edges = [(2 * k + i, 2 * k + 2 + j) for k in range(layers - 1) for i in (0, 1) for j in (0, 1)]
    path = [(f"above {k + 1}", f"above {k}") for k in range(above)] + [("above 0", i) for i in (0, 1) if above]
    return so.Hierarchy(path + edges + [(v, f"leaf {v}") for v in range(2 * layers)])


def _leaf_sets(layers: int) -> so.Model:
    return S.HierarchicalLabels(_dag(layers, above=40), "leaves")


def _flow(layers: int) -> so.Model:
    """Return one unit of flow through layers of two nodes."""
    inner = [((k, i), (k + 1, j)) for k in range(1, layers) for i in (0, 1) for j in (0, 1)]
    ends = [("s", (1, i)) for i in (0, 1)] + [((layers, i), "t") for i in (0, 1)]
    return S.Flow(ends + inner, {"s": 1, "t": -1})


def _pairs(n: int, edges: Iterable[tuple[int, int]] | None = None) -> so.Model:
    return S.PairwiseMRF(n, edges=None if edges is None else list(edges))


def _weights(n: int) -> np.ndarray:
    return np.arange(2 * n).reshape(2, n) % 5 + 1


SAMPLES = (
    Sample("`Multiclass`", lambda n: (S.Multiclass(n), None), 30, 5),
    Sample("`MultiLabel`", lambda n: (S.MultiLabel(n), None), 40, 6),
    Sample("`MultiLabel` with limits", lambda n: (S.MultiLabel(n, 1, n // 2), None), 40, 6),
    Sample("`Subset`", lambda n: (S.Subset(_weights(n), [n, n]), None), 40, 7),
    Sample("`PairwiseMRF`", lambda n: (_pairs(n), None), 20, 6),
    Sample("`PairwiseMRF` on a tree", lambda n: (_pairs(n, [(k // 2, k) for k in range(1, n)]), None), 30, 6),
    Sample("`HierarchicalLabels`, leaf", lambda n: (S.HierarchicalLabels(_tree(n), "leaf"), None), 6, 4),
    Sample("`HierarchicalLabels`, leaves", lambda n: (S.HierarchicalLabels(_tree(n), "leaves"), None), 6, 4),
    Sample("`HierarchicalLabels`, closure", lambda n: (S.HierarchicalLabels(_tree(n), "closure"), None), 6, 3),
    Sample("`HierarchicalLabels`, leaf of a DAG", lambda n: (S.HierarchicalLabels(_dag(n), "leaf"), None), 10, 2),
    Sample("`HierarchicalLabels`, leaves of a DAG", lambda n: (_leaf_sets(n), None), 10, 3),
    Sample("`HierarchicalLabels`, closure of a DAG", lambda n: (S.HierarchicalLabels(_dag(n), "closure"), None), 10, 2),
    Sample("`ExclusiveLabels`", lambda n: (S.ExclusiveLabels(_tree(n), [[1, 2]]), None), 6, 3),
    Sample("`Chain`", lambda n: (S.Chain(3), np.zeros((n, 1))), 30, 4),
    Sample("`Chain`, first state weighted", lambda n: (S.Chain(3, initial_weights=True), np.zeros((n, 1))), 30, 4),
    Sample("`Segmentation`", lambda n: (S.Segmentation(2, 3), np.zeros((n, 1))), 20, 3),
    Sample(
        "`Segmentation`, lengths weighted",
        lambda n: (S.Segmentation(2, 3, length_weights=True, initial_weights=True), np.zeros((n, 1))), 20, 3,
    ),
    Sample("`Arborescence`", lambda n: (S.Arborescence(), np.zeros((n, n, 1))), 9, 5),
    Sample("`Arborescence`, projective", lambda n: (S.Arborescence(projective=True), np.zeros((n, n, 1))), 10, 5),
    Sample("`LabelledArborescence`", lambda n: (S.LabelledArborescence(2), np.zeros((n, n, 1))), 9, 4),
    Sample("`Assignment`", lambda n: (S.Assignment(), np.zeros((n, n, 1))), 25, 4),
    Sample("`Assignment`, unmatched items", lambda n: (S.Assignment(unmatched=True), np.zeros((n, n, 1))), 25, 3),
    Sample("`Ranking`", lambda n: (S.Ranking(), np.zeros((n, 1))), 25, 4),
    Sample("`Flow` of one unit", lambda n: (_flow(n), None), 20, 4),
    Sample("`Matching`", lambda n: (S.Matching(), np.zeros((n, n, 1))), 12, 6),
    Sample("`Tour`", lambda n: (S.Tour(), np.zeros((n, n, 1))), 12, 6),
)  # fmt: skip

#: Columns of the page.
HEADS = {
    Q.ARGMAX: "best",
    Q.K_BEST: "k best",
    Q.OUTSIDE: "outside",
    Q.SIDE_ROWS: "side rows",
    Q.FRONT: "front",
    Q.SUMS: "sums",
    Q.SAMPLE: "samples",
}
#: Why a cell is empty, and what to use instead.
BY_SOLVER = "HiGHS, or the solver of your choice, answers by integer programs over the declared rows."
EMPTY = {
    Q.ARGMAX: f"Declare the space as one of the recognised kinds, or pass `algorithm=`. Until then: {BY_SOLVER}",
    Q.K_BEST: f"{BY_SOLVER} The k-th label takes a program with k - 1 forbidden labels.",
    Q.OUTSIDE: f"{BY_SOLVER} A forbidden label is one more row. In a space without integer variables "
    "(–), no row cuts off a single point.",
    Q.SIDE_ROWS: f"{BY_SOLVER} If the rows hold in every call, declare them in the space.",
    Q.FRONT: "`Oracle.front` returns None. `so.search.exact` finds the most violated label by a few best labels.",
    Q.SUMS: "`Oracle.sums` raises an error. Train by margins (`so.StructuredSVM`), which need best labels only, "
    "or compile a smaller space (`so.compile_space`).",
    Q.SAMPLE: "`Oracle.sample` raises an error. List the `k_best` labels, and weight them by their scores.",
}

_INTRODUCTION = """# What each structure can do

A row is a structure in one of two forms. *Shipped* is the class itself, `model.oracle(x)`. *Declared* is the program
that the class declares, as if you had written its rows: `so.Oracle(model.space(x))`. Recognition then finds the
algorithm. Both forms have the same labels.

The columns are the questions of [`so.Question`](../api/solve.md): the best label, the k best labels, the best label
outside a list, the best label within side rows, the Pareto front of two criteria, sums over all labels
(`log_partition`, `marginals`), and random labels. A cell says what answers the question:

- ● is the algorithm of the row,
- *list* is a list of all labels, which only small spaces have,
- *diagram* is a decision diagram, into which [the space is compiled](how_a_space_is_solved.md),
- *solver* and – are empty cells, which the [table below](#empty-cells) explains.

The inputs are of moderate size: 30 classes or positions, 40 tags, 20 to 30 nodes. Smaller spaces can be listed or
compiled in more rows, and larger ones in fewer. `oracle.plan()` says what answers for a space of yours.
"""

_RECORDS = """## If a space is not recognised

Recognition proves what it finds from the rows. If it cannot, state the structure as a
[record](../api/solve.md#recognised-structures), and the algorithm of the record solves the space:

```python
>>> import structopt as so
>>> space = so.LabelSpace("one of three")
>>> y = space.binary("y", 3)
>>> space.subject_to(y.sum() == 1, y[0] + 2 * y[1] + 3 * y[2] <= 3)      # the second row follows from the first
>>> space.structure.kind
'general'
>>> record = so.records.Cardinality(group=[0, 0, 0], ptr=[0, 3], order=range(3), lower=[1], upper=[1])
>>> so.Oracle(space, record=record).algorithm
'argmax'

```

Arborescences have no record. For a space with the same variables, take the algorithm of the structure:

```python
>>> import numpy as np
>>> trees, x = so.structures.Arborescence(), np.zeros((9, 9, 1))
>>> space = so.LabelSpace.from_compiled(trees.space(x).compiled)
>>> so.Oracle(space, algorithm=trees.algorithm(x)).algorithm
'Chu-Liu/Edmonds'

```

Tours and matchings have no algorithm of their own, shipped or declared. HiGHS solves them, with lazy rows.
"""


def oracle_of(sample: Sample, form: str, size: int | None = None) -> so.Oracle:
    """Return the oracle of a structure in one of its forms."""
    model, x = sample.make(sample.size if size is None else size)
    return model.oracle(x) if form == "shipped" else so.Oracle(model.space(x))


def answers(plan: Plan) -> dict[so.Question, Option | None]:
    """Return the option that answers each question; None if the cell is empty."""
    found = {question: plan.answered_by(question) for question in Q}
    return {q: None if option is None or option.name == "solver" else option for q, option in found.items()}


def is_of_row(option: Option | None) -> bool:
    """Return whether the algorithm of the row answers, and not a list or a diagram of its labels."""
    return option is not None and option.name in ("own algorithm", "record", "recognised")


def _cell(plan: Plan, question: so.Question) -> str:
    option = answers(plan)[question]
    if option is not None:
        return "●" if is_of_row(option) else option.name
    return "–" if plan.answered_by(question) is None else "*solver*"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page() -> str:
    """Return the page as Markdown."""
    rows, costs, unknown = [], {}, []
    for sample in SAMPLES:
        for form in FORMS:
            oracle = oracle_of(sample, form)
            plan = oracle.plan()
            title = f"{sample.title}" if form == "shipped" else ""
            rows.append([title, form, oracle.algorithm, *(_cell(plan, q) for q in HEADS)])
            for question, option in answers(plan).items():
                name = oracle.algorithm if is_of_row(option) else option.name if option is not None else "solver"
                steps = option or plan.answered_by(question)
                if steps is not None:
                    costs.setdefault(name, {})[question] = steps.steps[question]
        structure = so.recognize.recognize(oracle.space)
        if structure.kind == "general":
            unknown.append(f"- {sample.title}: {structure.reason}.")
    parts = [
        _INTRODUCTION,
        _table(["structure", "form", "algorithm", *HEADS.values()], rows),
        "## Steps of one answer\n\nFormulas in the sizes of the structure, without constants unless a time is given.",
        _table(
            ["algorithm", *HEADS.values()],
            ([name, *(found.get(q, "") for q in HEADS)] for name, found in costs.items()),
        ),
        "## Empty cells",
        _table(["question", "what to use instead"], ([HEADS[q], EMPTY[q]] for q in HEADS)),
        _RECORDS,
        "Programs above that recognition does not find, with the reason it gives:\n\n" + "\n".join(unknown),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Norms of class vectors in the four situations of thesis Table 6.1 (NHSVM Table 1), beside the table's formulas.

    python benchmarks/norms.py

Made-up vectors; the shared norms by the package's own optimisation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _results import keep, shown

import structopt as so
from structopt import norms


def main() -> None:
    rng = np.random.default_rng(0)
    n, d = 6, 12
    u, scale = rng.normal(size=d), rng.normal(size=n)
    disjoint = np.zeros((n, d))
    for k in range(n):
        disjoint[k, 2 * k : 2 * k + 2] = rng.normal(size=2)
    star = so.Hierarchy([("all", k) for k in range(n)])
    apart = so.Hierarchy([], nodes=range(n))
    free = rng.normal(size=(n, d))
    length, frobenius = float(np.linalg.norm(u)), np.linalg.norm
    cases: dict[str, tuple[Any, Any, tuple[float | None, ...]]] = {
        "full sharing": (np.tile(u, (n, 1)), star, (length, length, np.sqrt(n) * length, np.sqrt(n) * length)),
        "no sharing": (free, apart, (None, float(frobenius(free)), float(frobenius(free)), None)),
        "disjoint features": (
            disjoint,
            star,
            (*(float(frobenius(disjoint)),) * 3, float(np.linalg.norm(disjoint, axis=1).sum())),
        ),
        "factor scaling": (
            np.outer(scale, u),
            star,
            (float(np.abs(scale).max()) * length, None, *(float(np.linalg.norm(scale)) * length,) * 2),
        ),
    }
    rows = []
    for name, (U, hierarchy, formulas) in cases.items():
        found = (
            float(norms.shared_frobenius(U)),
            float(norms.shared_frobenius(U, hierarchy)),
            float(frobenius(U)),
            float(np.linalg.norm(U, "nuc")),
        )
        for norm, ours, formula in zip(("shared", "shared, tree", "Frobenius", "trace"), found, formulas, strict=True):
            if formula is not None:
                rows.append(shown({"situation": name, "norm": norm, "computed": float(ours), "formula": formula}))
    keep(
        "norms",
        rows,
        title="Norms of class vectors in four situations",
        measures=["structopt/norms"],
        words=[],
        note="Six classes, twelve features, standard normal vectors; the table has a dot where it gives no formula.",
    )


if __name__ == "__main__":
    main()

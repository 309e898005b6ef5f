"""``make demo``: declare a space, solve it with every backend that is here, show that they agree.

Run as ``python -m structopt.demo``; the picture is saved in ``demo-output/``.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np

import structopt as so
from structopt.backends import available_profiles
from structopt.errors import SolverNotAvailable

__all__ = ["main"]


def declare(n_labels: int = 14) -> so.LabelSpace:
    """At most four of `n_labels` tags, with a variable for every pair that is on together."""
    space = so.LabelSpace("at most four tags")
    tag = space.binary("tag", n_labels)
    i, j = np.triu_indices(n_labels, k=1)
    pair = space.continuous("pair", len(i), 0, 1)
    space.subject_to(pair <= tag[i], pair <= tag[j], pair >= tag[i] + tag[j] - 1)
    space.subject_to(tag.sum() <= 4, name="cardinality")
    return space


def solve_with_every_backend(space: so.LabelSpace, costs: np.ndarray) -> dict[str, tuple[float, float]]:
    """Value and milliseconds per solve of every usable solver profile."""
    found: dict[str, tuple[float, float]] = {}
    for name in ("auto", *available_profiles()):
        try:
            oracle = so.Oracle(space, name)
        except SolverNotAvailable as error:
            print(f"  {name:12s} not here: {error}")
            continue
        oracle.maximize(costs[0])  # the first call pays for starting up
        begun = perf_counter()
        values = [oracle.maximize(c).value for c in costs]
        found[name] = (float(np.sum(values)), 1000 * (perf_counter() - begun) / len(costs))
        print(f"  {name:12s} value {found[name][0]:12.6f}   {found[name][1]:8.2f} ms a solve   ({oracle.algorithm})")
    return found


def draw(found: dict[str, tuple[float, float]], path: Path) -> None:
    """Milliseconds per solve by solver, as a bar chart."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = sorted(found, key=lambda name: found[name][1])
    figure, axes = plt.subplots(figsize=(7, 0.4 * len(names) + 1.2), layout="constrained")
    axes.barh(names, [found[name][1] for name in names], color="tab:blue")
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds per solve (log scale)")
    axes.set_title("One declared space, every solver, the same value")
    axes.invert_yaxis()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Declare, solve, compare, draw."""
    space = declare()
    print(f"Declared {space!r}\n  structure: {space.structure.kind} ({space.structure.reason})")
    costs = np.random.default_rng(0).normal(size=(5, space.n_variables))
    found = solve_with_every_backend(space, costs)
    values = np.array([value for value, _ in found.values()])
    spread = float(values.max() - values.min())
    print(f"\n{len(found)} solvers, largest disagreement {spread:.1e}")
    if spread > 1e-5 * max(1.0, abs(float(values[0]))):
        raise SystemExit("The solvers disagree.")
    folder = Path("demo-output")
    folder.mkdir(exist_ok=True)
    draw(found, folder / "solvers.png")
    print(f"Picture: {folder / 'solvers.png'}")


if __name__ == "__main__":
    main()

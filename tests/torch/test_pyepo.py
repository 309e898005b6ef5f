"""SPO+ against PyEPO's own, on its own generators, where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so

torch = pytest.importorskip("torch", reason="PyTorch is an extra: make test-torch")
pyepo = pytest.importorskip("pyepo", reason="PyEPO is not installed", exc_type=ImportError)

from structopt.torch import SPOPlus  # noqa: E402


def _both(theirs, ours, names, costs):
    """Values and gradients of both losses at predictions beside the costs."""
    rng = np.random.default_rng(0)
    # Where two decisions are best, SPO+ depends on which is taken: the generator's costs of items are whole numbers.
    costs = costs * rng.uniform(0.9, 1.1, size=costs.shape)
    predicted = costs * rng.uniform(0.5, 1.5, size=costs.shape)
    solutions, values = [], []
    for c in costs:
        theirs.setObj(c)
        z, value = theirs.solve()
        solutions.append(np.asarray(z, dtype=np.float64))
        values.append([value])
    found = []
    for loss in ("theirs", "ours"):
        leaf = torch.tensor(predicted, requires_grad=True)
        truth = torch.tensor(costs)
        if loss == "theirs":
            solved = torch.tensor(np.array(solutions)), torch.tensor(values, dtype=torch.float64)
            each = pyepo.func.SPOPlus(theirs, reduction="none")(leaf, truth, *solved).ravel()
        else:
            each = ours({names: leaf}, {names: truth})
        each.sum().backward()
        found.append((each.detach().numpy(), leaf.grad.numpy()))
    # PyEPO takes differences of objective values in float32.
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6, atol=1e-6 * np.abs(values).max())
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)


def test_shortest_paths():
    grid = (4, 4)
    _, costs = pyepo.data.shortestpath.genData(8, 5, grid, deg=4, noise_width=0.5, seed=1)
    theirs = pyepo.model.omo.shortestPathModel(grid, solver="appsi_highs")
    space = so.LabelSpace("paths")
    arc = space.binary("arc", len(theirs.arcs))
    tail, head = np.array(theirs.arcs).T
    nodes = np.arange(16)
    out, into = (nodes[:, None] == tail).astype(float), (nodes[:, None] == head).astype(float)
    supply = np.zeros(16)
    supply[[0, 15]] = 1.0, -1.0
    space.subject_to((out - into) @ arc == supply)
    model = so.Model(space, {"arc": so.features.Linear()}, so.losses.Hamming())
    _both(theirs, SPOPlus(model, reduction="none"), "arc", costs)


def test_knapsacks():
    weights, _, costs = pyepo.data.knapsack.genData(6, 5, 8, dim=2, deg=2, noise_width=0.5, seed=1)
    theirs = pyepo.model.omo.knapsackModel(weights, np.full(2, 12.0), solver="appsi_highs")
    space = so.LabelSpace("knapsack")
    item = space.binary("item", 8)
    space.subject_to(weights @ item <= 12.0)
    model = so.Model(space, {"item": so.features.Linear()}, so.losses.Hamming())
    _both(theirs, SPOPlus(model, reduction="none", sense="maximize"), "item", costs)

"""Layers and Fenchel-Young losses: gradients by finite differences, values by enumeration and cvxpy."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import structopt as so

torch = pytest.importorskip("torch", reason="PyTorch is an extra: make test-torch")

from structopt.torch import Argmax, FenchelYoung, Marginals, SparseMAP, SPOPlus, log_partition, sample, top_k  # noqa: E402
from structopt.torch.layouts import layout_of  # noqa: E402


def _outputs(found):
    """The tensors of an output, whatever its form."""
    if isinstance(found, torch.Tensor):
        return (found,)
    values = found.values() if isinstance(found, dict) else found
    return tuple(tensor for value in values for tensor in _outputs(value))


def _labels(case, arranged):
    """Every label of each group of examples, as points."""
    return [arranged.model.space(arranged.batch.input(int(g.examples[0]))).enumerate() for g in arranged.groups()]


# ---- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Marginals, SparseMAP], ids=lambda make: make.__name__)
def test_gradients_of_layers(case, make):
    layer = make(case.model)
    assert torch.autograd.gradcheck(
        lambda *leaves: _outputs(layer(case.join(*leaves), **case.options)), case.leaves(1), atol=1e-6
    )


@pytest.mark.parametrize("regularizer", ["entropy", "sparsemap", "perturbed"])
def test_gradients_of_fenchel_young(case, regularizer):
    loss = FenchelYoung(case.model, regularizer, reduction="none", n_samples=4)

    def values(*leaves):
        loss.manual_seed(0)
        return loss(case.join(*leaves), case.labels, **case.options)

    assert torch.autograd.gradcheck(values, case.leaves(2), atol=1e-6)
    if regularizer != "perturbed":
        assert (values(*case.leaves(2)) >= 0.0).all()


def test_gradients_of_spo(case):
    costs = case.join(*case.leaves(5, requires_grad=False))
    loss = SPOPlus(case.model, reduction="none")
    assert torch.autograd.gradcheck(lambda *leaves: loss(case.join(*leaves), costs, **case.options), case.leaves(3))
    predicted = case.join(*case.leaves(3))
    bound, regret = loss(predicted, costs, **case.options), loss.regret(predicted, costs, **case.options)
    assert (regret >= -1e-12).all() and (bound >= regret - 1e-9).all()
    assert loss(costs, costs, **case.options).abs().max() <= 1e-12


def test_gradients_of_log_partition(case):
    assert torch.autograd.gradcheck(
        lambda *leaves: log_partition(case.model, case.join(*leaves), **case.options), case.leaves(4)
    )


def test_derivatives_of_marginals_are_covariances(case):
    """By the formula over all labels, to more digits than finite differences have."""
    if isinstance(case.model, so.structures.Arborescence):
        pytest.skip("see test_trees")
    scores = case.join(*case.leaves(6, requires_grad=False))
    layout = layout_of(case.model)
    arranged = layout.arrange(scores, points=True, **case.options)
    for group, labels in zip(arranged.groups(), _labels(case, arranged), strict=True):
        C = group.costs.numpy()
        V = np.random.default_rng(0).normal(size=C.shape)
        totals, products = C @ labels.T, V @ labels.T
        p = np.exp(totals - np.logaddexp.reduce(totals, axis=1)[:, None])
        expected = (p * (products - (p * products).sum(axis=1, keepdims=True))) @ labels
        found = layout.covariance_products(arranged, group, C, V)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_gradients_of_the_marginals_of_a_compiled_space():
    space = so.LabelSpace("budget")
    item = space.binary("item", 9)
    space.subject_to(np.array([3, 5, 2, 7, 4, 6, 1, 8, 3]) @ item <= 14)
    model = so.Model(space, {"item": so.features.Linear()}, so.losses.Hamming(), solver="diagram")
    scores = torch.tensor(np.random.default_rng(0).normal(size=(2, 9)), requires_grad=True)
    assert torch.autograd.gradcheck(Marginals(model), (scores,))


# ---- values --------------------------------------------------------------------------------------


def test_sums_are_those_of_all_labels(case):
    if isinstance(case.model, so.structures.Arborescence):
        pytest.skip("the flow has other points; see test_trees")
    scores = case.join(*case.leaves(6, requires_grad=False))
    arranged = layout_of(case.model).arrange(scores, points=True, **case.options)
    expected, means = np.empty(arranged.n), []
    for group, labels in zip(arranged.groups(), _labels(case, arranged), strict=True):
        totals = group.costs.numpy() @ labels.T
        expected[group.examples] = np.logaddexp.reduce(totals, axis=1)
        means.append(torch.from_numpy(np.exp(totals - expected[group.examples][:, None]) @ labels))
    np.testing.assert_allclose(log_partition(case.model, scores, **case.options), expected, rtol=1e-9)
    found = _outputs(Marginals(case.model)(scores, **case.options))
    for one, other in zip(found, _outputs(arranged.points(arranged.groups(), means)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def _trees(model, nodes):
    """All labels of a model of trees, in its form."""
    R, found = getattr(model, "n_labels", 1), []
    for codes in itertools.product(range(nodes * R), repeat=nodes - 1):
        heads = [code // R for code in codes]
        try:
            so.structures.Arborescence._slots_of(model, heads, None)
        except so.errors.LabelNotInSpace:
            continue
        found.append(heads if R == 1 else [(h, code % R) for h, code in zip(heads, codes, strict=True)])
    return found


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("relations", [0, 2])
def test_trees(single_root, projective, relations):
    """Sums, marginals, their derivative and samples against all trees: determinants, and spans if projective."""
    rules = {"single_root": single_root, "projective": projective}
    s = so.structures
    model = s.LabelledArborescence(relations, **rules) if relations else s.Arborescence(**rules)
    nodes = 4 if relations else 5
    shape = (nodes, nodes, relations) if relations else (nodes, nodes)
    rng = np.random.default_rng(0)
    points = np.array([model.encode(label)[: np.prod(shape)] for label in _trees(model, nodes)])
    W, V = rng.normal(size=(2, points.shape[1]))
    totals = points @ W
    log_z = np.logaddexp.reduce(totals)
    p = np.exp(totals - log_z)
    scores = torch.tensor(W.reshape(1, *shape), requires_grad=True)
    assert log_partition(model, scores).item() == pytest.approx(log_z, rel=1e-12)
    means = Marginals(model)(scores)
    np.testing.assert_allclose(means.detach().ravel(), p @ points, atol=1e-12)
    (means.ravel() * torch.tensor(V)).sum().backward()
    products = points @ V
    covariance = (p * (products - p @ products)) @ points
    np.testing.assert_allclose(scores.grad.ravel(), covariance, atol=1e-12)
    drawn = sample(model, scores, 4000, random_state=0)[0]
    shares = np.mean([model.encode(label)[: np.prod(shape)] for label in drawn], axis=0)
    assert np.abs(shares - p @ points).max() < 0.03


def test_scores_too_far_apart_for_a_determinant_are_refused():
    W = torch.zeros(2, 3, 3, dtype=torch.float64)
    W[1, 1, 2] = W[1, 2, 1] = 60.0  # a cycle outweighs every tree
    with pytest.raises(so.errors.DeclarationError, match="scale them down"):
        log_partition(so.structures.Arborescence(), W)


def test_sparsemap_is_the_quadratic_program(case):
    import cvxpy as cp

    scores = case.join(*case.leaves(7, requires_grad=False))
    layer = SparseMAP(case.model)
    found = layer(scores, **case.options)
    assert layer.gap.shape == (2,) and (layer.gap <= 1e-7).all()
    arranged = layout_of(case.model).arrange(scores, points=True, **case.options)
    points = []
    for group, labels in zip(arranged.groups(), _labels(case, arranged), strict=True):
        if isinstance(case.model, so.structures.Arborescence):  # labels by their heads, arcs only
            labels = _tree_points(case.model, arranged, group)
        rows, scored = [], arranged.chosen(group)
        for c in group.costs.numpy():
            p = cp.Variable(len(labels), nonneg=True)
            mu = labels.T @ p
            objective = cp.Maximize(c[scored] @ mu[scored] - 0.5 * cp.sum_squares(mu[scored]))
            cp.Problem(objective, [cp.sum(p) == 1]).solve(
                solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
            )
            rows.append(np.where(scored, labels.T @ p.value, 0.0))
        points.append(torch.from_numpy(np.array(rows)))
    for one, other in zip(_outputs(found), _outputs(arranged.points(arranged.groups(), points)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def _tree_points(model, arranged, group):
    return np.array([model.encode(label) for label in _trees(model, int(arranged.batch.sizes[group.examples[0]]))])


def test_sparsemap_without_the_transitions_in_the_norm():
    rng = np.random.default_rng(0)
    model = so.structures.Chain(3)
    leaves = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((2, 4, 3), (3, 3))]
    layer = SparseMAP(model, blocks=["y"])
    # Without a norm the pairs are not unique, and neither is their derivative: that of the states is.
    assert torch.autograd.gradcheck(lambda *scores: layer(scores)[0], leaves, atol=1e-6)
    assert (layer.gap < 1e-7).all()
    with pytest.raises(so.errors.DeclarationError, match="'pairs'"):
        SparseMAP(model, blocks=["pairs"])(leaves[0])


def test_blocks_of_the_norm_in_any_form():
    rng, model = np.random.default_rng(0), so.structures.Chain(3)
    scores = tuple(torch.tensor(rng.normal(size=shape)) for shape in ((2, 3, 3), (3, 3)))
    expected = FenchelYoung(model, "sparsemap", blocks=["y"])(scores, [[0, 1, 2], [2, 2, 0]])
    for blocks in (iter(["y"]), np.array(["y"]), {"y"}):
        loss = FenchelYoung(model, "sparsemap", blocks=blocks)
        for _ in range(2):
            assert loss(scores, [[0, 1, 2], [2, 2, 0]]).item() == expected.item()
    for wrong in ("y", 3):
        for make in (lambda b: FenchelYoung(model, "sparsemap", blocks=b), lambda b: SparseMAP(model, blocks=b)):
            with pytest.raises(so.errors.DeclarationError, match="blocks must be a sequence"):
                make(wrong)


def test_warm_sets_take_fewer_rounds():
    rng = np.random.default_rng(0)
    unary = torch.tensor(rng.normal(size=(4, 8, 5)))
    layer, calls = SparseMAP(so.structures.Chain(5)), []
    solve = layer.mixtures.solve
    layer.mixtures.solve = lambda *given: (found := solve(*given), calls.append(found.rounds))[0]
    first = layer(unary, keys=list("abcd"))
    again = layer(unary, keys=list("abcd"))
    np.testing.assert_allclose(first, again, atol=1e-7)
    assert calls[1] < calls[0]
    layer(unary[:, :5], keys=list("abcd"))  # another space under the same keys starts anew
    with pytest.raises(so.errors.DeclarationError, match="keys"):
        layer(unary, keys=["a"])


def test_a_solve_that_is_cut_short_says_so():
    rng = np.random.default_rng(0)
    layer = SparseMAP(so.structures.Chain(5), max_rounds=2)
    with pytest.warns(Warning, match="max_rounds"):
        layer(torch.tensor(rng.normal(size=(2, 8, 5))))
    assert layer.gap.max() > 1e-6


def test_entropy_is_the_loss_of_the_crf():
    rng = np.random.default_rng(0)
    unary, steps = torch.tensor(rng.normal(size=(2, 4, 3))), torch.tensor(rng.normal(size=(3, 3)))
    Y = [[0, 1, 1, 2], [2, 2, 0, 1]]
    crf = FenchelYoung(so.structures.Chain(3), "entropy", reduction="none")
    shared, each = crf((unary, steps), Y), crf((unary, steps.expand(2, 3, 3, 3)), Y)
    np.testing.assert_allclose(shared, each, rtol=1e-12)
    values = []
    for y in Y:
        scores = unary[len(values)][range(4), y].sum() + steps[y[:-1], y[1:]].sum()
        values.append(log_partition(so.structures.Chain(3), (unary, steps))[len(values)] - scores)
    np.testing.assert_allclose(shared, values, rtol=1e-12)


def test_the_noise_of_the_perturbed_loss():
    model, scores = so.structures.Multiclass(3), torch.tensor([[1.0, 0.0, -1.0]], dtype=torch.float64)
    loss = FenchelYoung(model, "perturbed", n_samples=4000, random_state=1)
    first = loss(scores, [0])
    # The mean of the largest of Gumbel variables of mean 0 is the log-sum-exp.
    assert first.item() == pytest.approx(float(scores.logsumexp(1)) - 1.0, abs=0.05)
    assert loss(scores, [0]).item() != first.item()
    loss.manual_seed(1)
    assert loss(scores, [0]).item() == first.item()
    with pytest.raises(so.errors.DeclarationError, match="even"):
        FenchelYoung(model, "perturbed", n_samples=3)


def test_straight_through_and_blackbox(case):
    leaves = case.leaves(8)
    outputs = _outputs(Argmax(case.model)(case.join(*leaves), **case.options))
    weights = [torch.tensor(np.random.default_rng(1).normal(size=tuple(o.shape))) for o in outputs]
    sum((o * v).sum() for o, v in zip(outputs, weights, strict=True)).backward()
    if case.name == "declared":
        for leaf, v in zip(leaves, weights, strict=True):
            np.testing.assert_allclose(leaf.grad, v)
    layer = Argmax(case.model, "blackbox", step=0.5)
    leaves = case.leaves(8)
    outputs = _outputs(layer(case.join(*leaves), **case.options))
    sum((o * v).sum() for o, v in zip(outputs, weights, strict=True)).backward()
    if case.name == "declared":
        moved = case.join(*[leaf.detach() - 0.5 * v for leaf, v in zip(leaves, weights, strict=True)])
        other = _outputs(layer(moved, **case.options))
        for leaf, one, two in zip(leaves, outputs, other, strict=True):
            np.testing.assert_allclose(leaf.grad, ((one - two) / 0.5).detach())


def test_top_k(case):
    leaves = case.leaves(9)
    scores = case.join(*leaves)
    labels, values = top_k(case.model, scores, 3, **case.options)
    arranged = layout_of(case.model).arrange(scores, points=True, **case.options)
    for group in arranged.groups():
        for i, c in zip(group.examples, group.costs.detach().numpy(), strict=True):
            best = arranged.oracle(group).k_best(c, 3)
            np.testing.assert_allclose(values[i].detach(), [label.value for label in best], rtol=1e-9)
            assert len(labels[i]) == len(best)
    assert torch.autograd.gradcheck(
        lambda *tensors: tuple(top_k(case.model, case.join(*tensors), 2, **case.options)[1]), leaves
    )


def test_samples(case):
    scores = case.join(*case.leaves(10, requires_grad=False))
    drawn = sample(case.model, scores, 3, random_state=0, **case.options)
    assert [len(labels) for labels in drawn] == [3, 3]
    again = sample(case.model, scores, 3, random_state=0, **case.options)
    assert str(drawn) == str(again)


def test_sums_of_a_space_that_has_none_are_refused_by_example():
    model = so.structures.PairwiseMRF(4, integral="relax")
    with pytest.raises(so.errors.DeclarationError, match="examples 0, 1"):
        Marginals(model)(torch.zeros(2, 4))


def test_spo_plus_by_its_formula():
    """PyEPO is not installed here: compare with its formula on every label of a knapsack."""
    rng = np.random.default_rng(0)
    space = so.LabelSpace("knapsack")
    items = space.binary("item", 6)
    space.subject_to(items @ rng.integers(1, 9, size=6) <= 15)
    model = so.Model(space, {"item": so.features.Linear()}, so.losses.Hamming())
    labels = space.enumerate()
    c, p = rng.normal(size=(2, 3, 6)) + 1.0
    for sense, sign in (("minimize", 1.0), ("maximize", -1.0)):
        best = labels[(sign * c @ labels.T).argmin(axis=1)]
        inner = (2 * p - c) @ labels.T
        expected = sign * (2 * (p * best).sum(1) - (c * best).sum(1)) - (sign * inner).min(axis=1)
        loss = SPOPlus(model, reduction="none", sense=sense)
        np.testing.assert_allclose(loss(torch.tensor(p), torch.tensor(c)), expected, rtol=1e-9, atol=1e-12)


def test_spo_solves_each_row_of_true_costs_once(monkeypatch):
    rows = []
    solve = so.Oracle._solve_batch
    monkeypatch.setattr(
        so.Oracle, "_solve_batch", lambda self, C, *a, **k: rows.append(len(C)) or solve(self, C, *a, **k)
    )
    rng = np.random.default_rng(0)
    model = so.structures.Multiclass(4)
    loss, costs = SPOPlus(model, reduction="none"), torch.tensor(rng.normal(size=(6, 4)))
    for epoch in range(5):
        order = torch.as_tensor(rng.permutation(6))
        predicted = torch.tensor(rng.normal(size=(6, 4)))
        found = loss(predicted, costs[order])
        np.testing.assert_array_equal(found, SPOPlus(model, reduction="none")(predicted, costs[order]))
        np.testing.assert_array_equal(loss.regret(predicted, costs[order]).numpy() >= 0.0, True)
        # The predicted costs of both calls, the true ones in the first epoch, and those of the fresh loss.
        assert sum(rows) == 6 + 6 + 12 + (6 if epoch == 0 else 0)
        rows.clear()
    assert not pickle.loads(pickle.dumps(loss))._decisions


def test_spo_limits_the_bytes_of_its_cache(monkeypatch):
    monkeypatch.setattr("structopt.torch.spo._MAX_CACHED_BYTES", 3 * (256 + 4))
    loss = SPOPlus(so.structures.Multiclass(4))
    costs = torch.tensor(np.random.default_rng(0).normal(size=(8, 4)))
    loss(costs, costs)
    assert len(loss._decisions) == 3 and loss._cached_bytes == 3 * (256 + 4)


@pytest.mark.parametrize(
    ("model", "predicted", "costs"),
    [
        (so.structures.Assignment(unmatched=True), (2, 2, 3), (2, 3, 2)),  # as many variables, and other ones
        (so.structures.Assignment(), (2, 2, 3), (2, 3, 3)),
        (so.structures.Chain(3), (2, 3, 3), (2, 4, 3)),
        (so.structures.Ranking(), (2, 3), (2, 4)),
        (so.structures.Multiclass(3), (2, 3), (1, 3)),
    ],
)
def test_costs_of_other_shapes_than_predicted(model, predicted, costs):
    for call in (SPOPlus(model), SPOPlus(model).regret):
        with pytest.raises(so.errors.DeclarationError, match="same shapes"):
            call(torch.zeros(predicted), torch.zeros(costs))


def test_devices_types_and_errors():
    model = so.structures.Chain(3)
    unary = torch.zeros(2, 4, 3)
    assert Marginals(model)(unary).dtype == SparseMAP(model)(unary).dtype == torch.float32
    assert Argmax(model)((unary, torch.zeros(3, 3)))[1].shape == (2, 3, 3, 3)
    with pytest.raises(so.errors.DeclarationError, match="costs"):
        SPOPlus(model)(unary, torch.zeros(2, 4, 2))
    with pytest.raises(so.errors.DeclarationError, match="key of example 1 must be hashable"):
        SparseMAP(model)(unary, keys=["a", ["b"]])
    with pytest.raises(so.errors.DeclarationError, match="'y' are on the device 'meta'"):
        Marginals(model)(unary.to("meta"))


def test_a_large_number_added_to_all_scores_changes_nothing(case):
    """1e9 at every part of a slot: differences keep the digits that float64 has left of the scores themselves."""
    fixed = {"multiclass": [0], "declared": [1], "one block of two": [0]}
    if case.name in ("pairwise", "tied pairs", "ranking", "by input"):
        pytest.skip("labels have different numbers of parts")
    leaves = [leaf.round(decimals=3) for leaf in case.leaves(3, requires_grad=False)]
    moved = fixed.get(case.name, range(len(leaves)))  # of the declared space, the group of which one is on
    far = [(leaf + 1e9 if k in moved else leaf).requires_grad_() for k, leaf in enumerate(leaves)]
    near = [(leaf + 1e9 - 1e9 if k in moved else leaf).requires_grad_() for k, leaf in enumerate(leaves)]
    for loss in (
        so.torch.StructuredHinge(case.model, "slack", rtol=0.0),
        FenchelYoung(case.model, "entropy"),
        FenchelYoung(case.model, "sparsemap"),
    ):
        values = [loss(case.join(*scores), case.labels, **case.options) for scores in (near, far)]
        assert values[1].item() == pytest.approx(values[0].item(), rel=1e-9, abs=1e-9)
        gradients = [torch.autograd.grad(v, s[0])[0] for v, s in zip(values, (near, far), strict=True)]
        np.testing.assert_allclose(*gradients, atol=1e-7)
    offsets = log_partition(case.model, case.join(*far), **case.options)
    assert (offsets > 1e9).all()


@pytest.mark.parametrize("layer", ["log_partition", "FenchelYoung", "StructuredHinge", "Marginals", "SparseMAP"])
def test_second_derivatives_are_refused_through_autograd_grad(layer):
    """A term of the second derivative would be missing without a word, were the scores not known to the refusal."""
    model = so.structures.Multiclass(3)
    parameter = torch.nn.Parameter(torch.ones(1, 3, dtype=torch.float64))
    scores = torch.tanh(torch.tensor([[1.0, 0.5, 0.2]], dtype=torch.float64) * parameter)
    weights = torch.tensor([[2.0, -3.0, 1.0]], dtype=torch.float64)
    if layer == "log_partition":
        value = so.torch.log_partition(model, scores).sum()
    elif layer == "FenchelYoung":
        value = so.torch.FenchelYoung(model, "entropy")(scores, [0])
    elif layer == "StructuredHinge":
        value = so.torch.StructuredHinge(model)(scores, [0])
    else:
        value = (getattr(so.torch, layer)(model)(scores) * weights).sum()
    (gradient,) = torch.autograd.grad(value, parameter, create_graph=True)
    with pytest.raises(so.errors.StructoptError, match="differentiate"):
        torch.autograd.grad(gradient.sum(), parameter)


def test_a_warm_start_belongs_to_the_blocks_that_were_scored():
    space = so.LabelSpace("two")
    a, b = space.binary("a", 3), space.binary("b", 3)
    space.subject_to(a.sum() == 1, b.sum() <= 2)
    model = so.Model(space, {"a": so.features.Linear(), "b": so.features.Linear()}, so.losses.Hamming())
    layer = so.torch.SparseMAP(model)
    layer({"b": torch.tensor([[5.0, 5.0, -5.0]])}, keys=["k"])
    found = layer({"a": torch.tensor([[5.0, 5.0, 0.0]])}, keys=["k"])
    np.testing.assert_allclose(found["a"].numpy(), [[0.5, 0.5, 0.0]], atol=1e-6)


def test_blackbox_gradient_of_an_output_that_was_changed_in_place():
    scores = torch.tensor([[1.0, 0.5, 0.2]], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[2.0, -3.0, 1.0]], dtype=torch.float64)
    found = so.torch.Argmax(so.structures.Multiclass(3), "blackbox")(scores * 1.0).mul_(0.5)
    (found * weights).sum().backward()
    np.testing.assert_allclose(scores.grad.numpy(), [[1.0, -1.0, 0.0]])


def test_best_labels_of_a_relaxed_model_are_integral():
    space = so.LabelSpace("no two of three")
    tag = space.binary("tag", 3)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        space.subject_to(tag[i] + tag[j] <= 1)
    model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming(), integral="relax", solver="highs")
    labels, values = top_k(model, torch.tensor([[1.0, 2.0, 1.5]]), 2)
    assert [label.tolist() for label in labels[0]] == [[0, 1, 0], [0, 0, 1]]
    assert values[0].tolist() == [2.0, 1.5]

"""`StructuredHinge`: the values of `StructuredRisk`, gradients by finite differences, errors that name an example."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so

torch = pytest.importorskip("torch", reason="PyTorch is an extra: make test-torch")

from structopt.torch import FenchelYoung, StructuredHinge  # noqa: E402

SURROGATES = ["margin", "slack", "prob", "micro_f1", so.surrogates.BetaScaling(0.5)]


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
def test_gradients(case, surrogate):
    if case.name == "ranking" and surrogate == "micro_f1":
        pytest.skip("micro-F1 has no meaning for rankings")
    hinge = StructuredHinge(case.model, surrogate, rtol=0.0, reduction="none")
    assert torch.autograd.gradcheck(
        lambda *leaves: hinge(case.join(*leaves), case.labels, **case.options), case.leaves(), atol=1e-6
    )


def _linear_data(family):
    """A model with its inputs, labels, and the scores of weights as tensors."""
    rng = np.random.default_rng(7)
    if family == "chain":
        model = so.structures.Chain(3)
        X = [rng.normal(size=(T, 4)) for T in (5, 2, 4)]
        Y = [rng.integers(3, size=len(x)) for x in X]
        w = rng.normal(size=3 * 4 + 9)
        unary = torch.zeros(3, 5, 3, dtype=torch.float64)
        for i, x in enumerate(X):
            unary[i, : len(x)] = torch.from_numpy(x @ w[:12].reshape(3, 4).T)
        mask = torch.arange(5) < torch.tensor([len(x) for x in X])[:, None]
        return model, X, Y, w, (unary, torch.from_numpy(w[12:].reshape(3, 3))), {"mask": mask}
    if family == "tree":
        model = so.structures.Arborescence()
        X = [rng.normal(size=(n + 1, n + 1, 3)) for n in (4, 2)]
        Y, w = [[0, 1, 1, 3], [2, 0]], rng.normal(size=3)
        arcs = torch.full((2, 5, 5), float("nan"), dtype=torch.float64)  # padding may hold anything
        for i, x in enumerate(X):
            arcs[i, : len(x), : len(x)] = torch.from_numpy(x @ w)
        return model, X, Y, w, arcs, {"mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)}
    if family == "labelled tree":
        model = so.structures.LabelledArborescence(2, single_root=True)
        X = [rng.normal(size=(n + 1, n + 1, 3)) for n in (3, 2)]
        Y, w = [[(0, 1), (1, 0), (1, 1)], [(2, 0), (0, 1)]], rng.normal(size=6)
        arcs = torch.full((2, 4, 4, 2), float("nan"), dtype=torch.float64)
        for i, x in enumerate(X):
            arcs[i, : len(x), : len(x)] = torch.from_numpy(x @ w.reshape(2, 3).T)
        return model, X, Y, w, arcs, {"mask": torch.tensor([[1, 1, 1], [1, 1, 0]], dtype=torch.bool)}
    if family == "pairwise":
        model = so.structures.PairwiseMRF(4)
        X, Y = rng.normal(size=(6, 3)), rng.integers(2, size=(6, 4))
        w = rng.normal(size=12 + 6)
        return model, X, Y, w, (torch.from_numpy(X @ w[:12].reshape(4, 3).T), torch.from_numpy(w[12:])), {}
    model = so.structures.Ranking()
    X, w = [rng.normal(size=(4, 3)) for _ in range(3)], rng.normal(size=3)
    Y = [rng.integers(3, size=4) for _ in X]
    return model, X, Y, w, torch.from_numpy(np.array([x @ w for x in X])), {}


@pytest.mark.parametrize("family", ["chain", "tree", "labelled tree", "pairwise", "ranking"])
@pytest.mark.parametrize("surrogate", ["margin", "slack", "prob"])
def test_values_are_those_of_the_risk(family, surrogate):
    model, X, Y, w, scores, options = _linear_data(family)
    risk = so.train.StructuredRisk(model, X, Y, surrogate)
    found = risk.violations(w)
    hinge = StructuredHinge(model, surrogate, reduction="none")
    np.testing.assert_allclose(hinge(scores, Y, **options).numpy(), found.value, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(hinge.upper_bound, found.upper, rtol=1e-9, atol=1e-9)
    mean = StructuredHinge(model, surrogate)(scores, Y, **options)
    assert mean.item() == pytest.approx(found.value.mean(), rel=1e-9)


@pytest.mark.parametrize("search", ["convex_hull", "angular"])
def test_other_searches(search):
    model, X, Y, w, scores, options = _linear_data("pairwise")
    value = StructuredHinge(model, "slack", search)(scores, Y, **options).item()
    risk = so.train.StructuredRisk(model, X, Y, "slack", search)
    assert value == pytest.approx(risk.violations(w).value.mean(), rel=1e-9)


def test_a_relaxation_has_mixtures():
    rng = np.random.default_rng(0)
    model = so.structures.PairwiseMRF(4, integral="relax")
    hinge = StructuredHinge(model, "slack", rtol=0.0, reduction="none")
    leaves = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((3, 4), (3, 6))]
    Y = rng.integers(2, size=(3, 4))
    assert torch.autograd.gradcheck(lambda *scores: hinge(scores, Y), leaves, atol=1e-5)


def test_transitions_of_each_position_agree_with_shared_ones():
    rng = np.random.default_rng(3)
    unary, steps = torch.tensor(rng.normal(size=(3, 5, 4))), torch.tensor(rng.normal(size=(4, 4)))
    Y = torch.tensor(rng.integers(4, size=(3, 5)))
    for surrogate in ("margin", "slack"):
        hinge = StructuredHinge(so.structures.Chain(4), surrogate, rtol=0.0, reduction="none")
        shared = hinge((unary, steps), Y)
        np.testing.assert_allclose(hinge((unary, steps.expand(3, 4, 4, 4)), Y), shared, rtol=1e-9)


def test_types_reductions_and_gradients_where_asked():
    model = so.structures.Chain(3)
    unary = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    steps = torch.zeros(3, 3)
    Y = [[0, 1, 2, 0], [1, 1, 1, 1]]
    each = StructuredHinge(model, reduction="none")((unary, steps), Y)
    assert each.dtype == torch.float32 and each.shape == (2,)
    assert StructuredHinge(model, reduction="sum")((unary, steps), Y).item() == pytest.approx(each.sum().item())
    mean = StructuredHinge(model, n_jobs=2)((unary, steps), Y)
    assert mean.item() == pytest.approx(each.mean().item())
    mean.backward()
    assert unary.grad.dtype == torch.float32 and steps.grad is None
    assert not StructuredHinge(model)(unary.detach(), Y).requires_grad


def test_a_compiled_network_calls_it():
    torch.manual_seed(0)
    network = torch.nn.Linear(5, 3)
    hinge = StructuredHinge(so.structures.Chain(3))
    X, Y = torch.randn(2, 4, 5), [[0, 1, 2, 0], [1, 1, 1, 1]]

    def loss(x):
        return hinge(network(x), Y)

    expected = loss(X)
    compiled = torch.compile(loss, backend="eager")  # the layer is a break in the graph
    found = compiled(X)
    found.backward()
    assert found.item() == pytest.approx(expected.item())
    assert network.weight.grad.abs().sum() > 0


# ---- bad input -----------------------------------------------------------------------------------

CHAIN = so.structures.Chain(3)


def _hinge(scores, labels, **options):
    return StructuredHinge(CHAIN)(scores, labels, **options)


def test_labels_outside_of_the_space():
    with pytest.raises(so.errors.LabelNotInSpace, match=r"example 1.*position 2"):
        _hinge(torch.zeros(2, 3, 3), torch.tensor([[0, 1, 2], [0, 1, 3]]))
    with pytest.raises(so.errors.LabelNotInSpace, match="example 0"):
        StructuredHinge(so.structures.Arborescence())(torch.zeros(1, 4, 4), [[2, 3, 1]])
    from_rows = StructuredHinge(so.structures.Assignment())
    with pytest.raises(so.errors.LabelNotInSpace, match="example 1"):
        from_rows(torch.zeros(2, 2, 2), torch.tensor([[0, 1], [1, 1]]))
    relations = StructuredHinge(so.structures.LabelledArborescence(["a", "b"]))
    with pytest.raises(so.errors.LabelNotInSpace, match=r"example 1: The relation of token 2 is 2"):
        relations(torch.zeros(2, 3, 3, 2), torch.tensor([[[0, 1], [1, 0]], [[0, 1], [1, 2]]]))
    with pytest.raises(so.errors.LabelNotInSpace, match=r"example 0: .*cycle"):
        relations(torch.zeros(1, 3, 3, 2), torch.tensor([[[2, 1], [1, 0]]]))
    with pytest.raises(so.errors.DeclarationError, match=r"\(B, n, 2\) = \(1, 2, 2\)"):
        relations(torch.zeros(1, 3, 3, 2), torch.tensor([[2, 1]]))
    with pytest.raises(so.errors.DeclarationError, match=r"expected \(any, any, any, 2\)"):
        relations(torch.zeros(1, 3, 3, 3), torch.tensor([[[0, 1], [1, 0]]]))


def test_labels_as_tensors_and_as_lists_are_the_same():
    """Named states and relations, padded tensors of other integer types, more padding than the scores have."""
    chain = StructuredHinge(so.structures.Chain(["O", "B-X", "I-X"], "bio"), "slack")
    unary = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 3, [True, True, False]])
    expected = chain(unary, [["B-X", "I-X", "O"], ["O", "B-X"]], mask=mask)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        numbers = torch.tensor([[1, 2, 0, 9], [0, 1, 7, 7]], dtype=dtype)
        assert chain(unary, numbers, mask=mask).item() == expected.item()
    trees = StructuredHinge(so.structures.LabelledArborescence(["a", "b"]), "slack")
    arcs = torch.randn(2, 3, 3, 2, generator=torch.Generator().manual_seed(0))
    expected = trees(arcs, [[(0, "b"), (1, "a")], [(2, "a"), (0, "a")]])
    assert trees(arcs, torch.tensor([[[0, 1], [1, 0]], [[2, 0], [0, 0]]])).item() == expected.item()
    # A tensor for each example, as a loader without padding gives them.
    assert trees(arcs, [torch.tensor([[0, 1], [1, 0]]), torch.tensor([[2, 0], [0, 0]])]).item() == expected.item()
    expected = chain(unary, [["B-X", "I-X", "O"], ["O", "B-X"]], mask=mask)
    assert chain(unary, (torch.tensor([1, 2, 0]), ["O", "B-X"]), mask=mask).item() == expected.item()
    for model, scores, labels in (
        (so.structures.Chain(3), unary, [[0, 1, 2], [2, 1, 0]]),
        (so.structures.Multiclass(3), unary[:, 0], [2, 0]),
        (so.structures.MultiLabel(3), unary[:, 0], [[1, 0, 1], [0, 0, 1]]),
    ):
        for loss in (StructuredHinge(model), FenchelYoung(model), FenchelYoung(model, "sparsemap")):
            assert loss(scores, [torch.tensor(label) for label in labels]).item() == loss(scores, labels).item()


def test_values_that_are_changed_in_place_leave_the_certificate():
    for surrogate in ("margin", "slack"):
        hinge = StructuredHinge(so.structures.Chain(3), surrogate, reduction="none")
        values = hinge(torch.zeros(2, 2, 3, dtype=torch.float64), [[0, 1], [2, 2]])
        bounds = hinge.upper_bound.copy()
        values.mul_(0.0)
        np.testing.assert_array_equal(hinge.upper_bound, bounds)


@pytest.mark.parametrize(
    ("scores", "options", "words"),
    [
        (torch.zeros(2, 3, 3), {"mask": torch.ones(2, 4, dtype=torch.bool)}, "shape"),
        (torch.zeros(2, 3, 3, dtype=torch.int64), {}, "torch.int64"),
        (torch.zeros(2, 3, 4), {}, r"\(2, 3, 4\)"),
        ((torch.zeros(2, 3, 3), torch.zeros(3, 4)), {}, "'transition'"),
        ((torch.zeros(2, 3, 3), torch.zeros(3, 3, dtype=torch.float64)), {}, "one type"),
        ({"y": torch.zeros(2, 3, 3), "pairs": torch.zeros(3, 3)}, {}, "'pairs'"),
        (torch.zeros(0, 3, 3), {}, "no examples"),
    ],
)
def test_wrong_shapes_and_types(scores, options, words):
    with pytest.raises(so.errors.DeclarationError, match=words):
        _hinge(scores, [[0, 0, 0]] * 2, **options)


def test_other_mistakes():
    with pytest.raises(so.errors.DeclarationError, match="reduction"):
        StructuredHinge(CHAIN, reduction="max")
    with pytest.raises(so.errors.DeclarationError, match=r"structopt\.Model|model"):
        StructuredHinge("chain")
    with pytest.raises(so.errors.DeclarationError, match="inputs"):
        space = so.Model(lambda x: so.LabelSpace(), {}, None)
        StructuredHinge(space)({"y": [torch.zeros(2)]}, [[0, 1]])


def test_batches_of_many_sizes_one_after_the_other():
    """What a layout remembers of a batch is right for batches of the same sizes only, however many come between."""
    model = so.structures.Chain(2)
    hinge = StructuredHinge(model, "slack", rtol=0.0, reduction="none")
    rng = np.random.default_rng(0)
    for k in [1, 2, 3, 2, 5, 1, 6, 7, 8, 9, 10, 11, 1, 5]:
        for B in (2, 3):
            unary, labels = torch.tensor(rng.normal(size=(B, 12, 2))), rng.integers(2, size=(B, 12))
            lengths = (torch.arange(B) + k) % 12 + 1
            mask = torch.arange(12) < lengths[:, None]
            Y = [y[:n] for y, n in zip(labels, lengths.tolist(), strict=True)]
            fresh = StructuredHinge(model, "slack", rtol=0.0, reduction="none")
            assert torch.equal(hinge(unary, Y, mask=mask), fresh(unary, Y, mask=mask))
    assert len(hinge.layout._batches) <= 8

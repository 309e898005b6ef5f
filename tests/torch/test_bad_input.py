"""What every loss and every layer says to bad input, on every structure: a named error that says which example."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so

torch = pytest.importorskip("torch", reason="PyTorch is an extra: make test-torch")

from structopt.torch import (  # noqa: E402
    Argmax,
    DoubleBackward,
    FenchelYoung,
    Marginals,
    SparseMAP,
    SPOPlus,
    StructuredHinge,
    log_partition,
    sample,
    top_k,
)

#: Losses of scores and labels, as functions of a model.
LOSSES = {
    "margin": lambda model: StructuredHinge(model),
    "slack": lambda model: StructuredHinge(model, "slack"),
    "entropy": lambda model: FenchelYoung(model, "entropy"),
    "sparsemap": lambda model: FenchelYoung(model, "sparsemap"),
    "perturbed": lambda model: FenchelYoung(model, "perturbed", n_samples=2),
}
#: What takes scores alone; tensors come out, or lists of labels.
LAYERS = {
    "SPO+": lambda model: lambda scores, **options: SPOPlus(model)(scores, _detached(scores), **options),
    "Argmax": lambda model: Argmax(model, "straight-through"),
    "blackbox": lambda model: Argmax(model, "blackbox"),
    "SparseMAP": lambda model: SparseMAP(model),
    "Marginals": lambda model: Marginals(model),
    "log_partition": lambda model: lambda scores, **options: log_partition(model, scores, **options),
    "top_k": lambda model: lambda scores, **options: top_k(model, scores, 2, **options),
    "sample": lambda model: lambda scores, **options: sample(model, scores, 2, random_state=0, **options),
}
EVERY = [*LOSSES, *LAYERS]

#: A label of example 1 that is not in its space.
WRONG = {
    "chain": [2, 7],
    "bio": ["O", "I-X", "O"],
    "steps": [2, 7],
    "tree": [2, 1],
    "one root": [0, 0, 0],
    "labelled tree": [(0, 5)],
    "pairwise": [0, 0, 2, 0],
    "tied pairs": [0, 0, 2],
    "matching": [2, 2, 1],
    "permutations": [1, 1],
    "ranking": ["best", "worst"],
    "multiclass": 4,
    "declared": {"y": [[0, 1], [1, 0]], "kind": [1, 0, 1]},
    "one block of two": {"y": [[0, 1], [1, 0]], "kind": [1, 0, 1]},
    "by input": [1, 2],
}


def _detached(scores):
    if isinstance(scores, torch.Tensor | np.ndarray):
        return torch.as_tensor(scores).detach()
    if isinstance(scores, dict):
        return {name: _detached(values) for name, values in scores.items()}
    return type(scores)(_detached(values) for values in scores)


_made = {}


def _call(name, case, leaves, labels=None, **changed):
    key = name, case.name
    if key not in _made:  # what a call refuses leaves nothing behind
        _made[key] = {**LOSSES, **LAYERS}[name](case.model)
    options = {**case.options, **changed}
    scores = case.join(*leaves)
    if name in LOSSES:
        return _made[key](scores, case.labels if labels is None else labels, **options)
    return _made[key](scores, **options)


def _tensors(found):
    if isinstance(found, torch.Tensor):
        return [found]
    values = found.values() if isinstance(found, dict) else found if isinstance(found, list | tuple) else []
    return [tensor for value in values for tensor in _tensors(value)]


@pytest.mark.parametrize("name", EVERY)
def test_scores_that_are_not_finite(case, name):
    for value in (float("nan"), float("inf"), -float("inf")):
        leaves = list(case.leaves(requires_grad=False))
        if case.name == "by input":
            leaves[1][0] = value
        elif leaves[0].ndim == 2:
            leaves[0][1, 0] = value
        else:
            leaves[0][1, 0, 1] = value  # of a tree, an arc from the root
        with pytest.raises(so.errors.DeclarationError, match="of example 1 "):
            _call(name, case, leaves)


@pytest.mark.parametrize("name", LOSSES)
def test_a_label_outside_the_space(case, name):
    first = case.labels[0]
    if isinstance(first, torch.Tensor):
        first = first.tolist()
    if case.name == "bio":
        first = ["B-X", "I-X", "O"]
    with pytest.raises(so.errors.StructoptError, match="example 1"):
        _call(name, case, case.leaves(), [first, WRONG[case.name]])


@pytest.mark.parametrize("regularizer", ["entropy", "sparsemap", "perturbed"])
@pytest.mark.parametrize("n", [1, 3])
def test_as_many_labels_as_examples(case, regularizer, n):
    """One label is not that of all examples, and one too many is not left out."""
    if case.name == "ranking" and regularizer == "entropy":
        pytest.skip("nothing sums over rankings")
    labels = [case.labels[k % 2] for k in range(n)]
    labels = torch.stack(labels) if isinstance(case.labels, torch.Tensor) else labels
    with pytest.raises(so.errors.DeclarationError, match=f"2 inputs but {n} labels|tensor of labels has shape"):
        FenchelYoung(case.model, regularizer)(case.join(*case.leaves()), labels, **case.options)


def test_inputs_in_any_form():
    """Spaces by input: inputs and scores from generators, a batch of none, and what is no list."""

    def space(x):
        found = so.LabelSpace("tags")
        found.binary("tag", len(x))
        return found

    model = so.Model(space, {"tag": so.features.Shared()}, so.losses.Hamming(), key=len)
    hinge, scores = StructuredHinge(model), [torch.tensor([1.0, -0.5, 0.2]), torch.tensor([0.3, 2.0])]
    labels, inputs = [[1, 0, 1], [0, 1]], [[0] * 3, [0] * 2]
    expected = hinge({"tag": scores}, labels, inputs=inputs).item()
    assert hinge({"tag": iter(scores)}, labels, inputs=iter(inputs)).item() == expected
    with pytest.raises(so.errors.DeclarationError, match="no examples"):
        hinge({"tag": []}, [], inputs=[])
    with pytest.raises(so.errors.DeclarationError, match="no examples"):
        Argmax(model)({"tag": []}, inputs=[])
    for given, of in ((3, inputs), (scores, 3)):
        with pytest.raises(so.errors.DeclarationError, match="must be a sequence"):
            hinge({"tag": given}, labels, inputs=of)


def test_masks_as_lists():
    """Of tokens or of nodes; one with rows of different lengths is refused by name."""
    arcs = torch.tensor(np.random.default_rng(0).normal(size=(2, 4, 4)))
    hinge, labels = StructuredHinge(so.structures.Arborescence()), [[0, 1, 2], [2, 0]]
    tokens = [[True] * 3, [True, True, False]]
    expected = hinge(arcs, labels, mask=torch.tensor(tokens)).item()
    assert hinge(arcs, labels, mask=tokens).item() == expected
    assert hinge(arcs, labels, mask=[[True, *row] for row in tokens]).item() == expected
    for model, scores in ((so.structures.Arborescence(), arcs), (so.structures.Chain(4), arcs)):
        with pytest.raises(so.errors.DeclarationError, match="A mask is a tensor"):
            StructuredHinge(model)(scores, labels, mask=[[True] * 3, [True]])


@pytest.mark.parametrize("name", EVERY)
def test_masks(case, name):
    """One that leaves nothing, one with gaps, and one where there is no padding at all."""
    size = {"labelled tree": 2}.get(case.name, 3)
    if "mask" not in case.options and case.name not in ("matching", "bio", "one root"):
        with pytest.raises(so.errors.DeclarationError, match=r"has no padding|the blocks are|mask"):
            _call(name, case, case.leaves(), mask=torch.ones(2, size, dtype=torch.bool))
        return
    size = case.options["mask"].shape[1] if "mask" in case.options else size
    mask = torch.ones(2, size, dtype=torch.bool)
    mask[1] = False
    with pytest.raises(so.errors.DeclarationError, match="of example 1; it must leave"):
        _call(name, case, case.leaves(), mask=mask)
    mask[1, -1] = True
    with pytest.raises(so.errors.DeclarationError, match="example 1 has gaps"):
        _call(name, case, case.leaves(), mask=mask)
    with pytest.raises(so.errors.DeclarationError, match="boolean"):
        _call(name, case, case.leaves(), mask=mask.double())


@pytest.mark.parametrize("name", EVERY)
def test_types_and_shapes(case, name):
    with pytest.raises(so.errors.DeclarationError, match=r"torch.float16"):
        _call(name, case, case.leaves(dtype=torch.float16))
    leaves = case.leaves()
    wrong = [leaf.reshape(1, *leaf.shape) for leaf in leaves]
    with pytest.raises(so.errors.DeclarationError, match=r"shape|examples"):
        _call(name, case, wrong)
    with pytest.raises(so.errors.DeclarationError, match="tensor"):
        _call(name, case, [leaf.detach().numpy() for leaf in leaves])


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("top_k", "sample")])
def test_second_derivatives(case, name):
    leaves = case.leaves(7)
    doubled = tuple(2.0 * leaf for leaf in leaves)  # a gradient that depends on something
    total = sum((found * torch.arange(1.0, found.numel() + 1).reshape(found.shape)).sum()
                for found in _tensors(_call(name, case, doubled)))  # fmt: skip
    gradients = torch.autograd.grad(total, leaves, create_graph=True)
    if name == "Argmax":  # straight through: the gradient is that of the identity, whose derivative is 0
        return
    with pytest.raises(DoubleBackward):
        sum(gradient.square().sum() for gradient in gradients).backward()


@pytest.mark.parametrize("name", [*LOSSES, *LAYERS])
def test_a_solver_out_of_time(name):
    """Each says of which example, or of which ones, there is no label yet; sums there are none of in such a space."""
    rng = np.random.default_rng(0)
    A = rng.integers(1, 60, size=(12, 60))
    space = so.LabelSpace.from_matrices(A, -np.inf, A.sum(axis=1) // 2, lower=0, upper=1, integrality=1)
    block = space.block_names[0]
    model = so.Model(space, {block: so.features.Linear()}, so.losses.Hamming(), solver="highs",
                     options={"time_limit": 1e-9})  # fmt: skip
    scores = {block: torch.tensor(rng.normal(size=(2, 60)))}
    expected = so.errors.TimeLimitReached if name in ("margin", "slack") else so.errors.StructoptError
    with pytest.raises(expected, match=r"examples? 0"):
        if name in LOSSES:
            LOSSES[name](model)(scores, np.zeros((2, 60)))
        else:
            LAYERS[name](model)(scores)

"""What a layout remembers of a batch: a later one gets the same answers as without, whatever changed between them."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import structopt as so

torch = pytest.importorskip("torch", reason="PyTorch is an extra: make test-torch")

from structopt.torch import DoubleBackward, StructuredHinge  # noqa: E402
from structopt.torch.scores import KNOWN  # noqa: E402

NAN, INF = float("nan"), float("inf")


def _result(hinge, scores, labels, leaves, **options):
    """Values and gradients."""
    values = hinge(scores, labels, **options)
    return [values.detach(), *torch.autograd.grad(values.sum(), leaves)]


def _same(hinge, scores, labels, leaves, **options):
    """The same, beside those of a hinge that has seen nothing before."""
    fresh = StructuredHinge(hinge.model, hinge.surrogate, reduction=hinge.reduction)
    found, expected = (_result(one, scores, labels, leaves, **options) for one in (hinge, fresh))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    return found


def _chain(B=2, T=4, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    leaves = [torch.tensor(rng.normal(size=shape), dtype=dtype, requires_grad=True) for shape in ((B, T, 3), (3, 3))]
    return tuple(leaves), torch.tensor(rng.integers(3, size=(B, T)))


def _mask(*lengths, longest=4):
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("surrogate", ["margin", "slack"])
def test_later_batches(case, surrogate):
    hinge = StructuredHinge(case.model, surrogate, reduction="none")
    for seed in range(4):
        for dtype in (torch.float64, torch.float32):
            leaves = case.leaves(seed, dtype=dtype)
            _same(hinge, case.join(*leaves), case.labels, leaves, **case.options)
    assert len(hinge.layout._plans) <= 2


def test_which_batches_are_planned(case):
    """All whose tables are the tensors themselves: not steps of each position, nor a list of tensors for each input."""
    hinge = StructuredHinge(case.model)
    hinge(case.join(*case.leaves()), case.labels, **case.options)
    assert len(hinge.layout._plans) == (case.name not in ("steps", "by input"))


@pytest.mark.parametrize("surrogate", ["margin", "slack"])
def test_another_mask_of_the_same_shape(surrogate):
    hinge, (scores, labels) = StructuredHinge(so.structures.Chain(3), surrogate, reduction="none"), _chain()
    mask = _mask(4, 2)
    found = []
    for lengths in ((4, 2), (3, 3), (4, 4), (4, 2)):
        mask.copy_(_mask(*lengths))  # in place: the same tensor with other contents
        found.append(_same(hinge, scores, labels, scores, mask=mask)[0])
    assert torch.equal(found[0], found[3]) and not torch.equal(found[0], found[1])
    _same(hinge, scores, labels, scores)
    mask[1, 0] = False
    with pytest.raises(so.errors.DeclarationError, match="example 1 has gaps"):
        hinge(scores, labels, mask=mask)
    _same(hinge, scores, labels, scores, mask=_mask(2, 4).numpy())  # arrays are looked at every time


def test_masks_of_rows_and_columns():
    hinge = StructuredHinge(so.structures.Assignment(), reduction="none")
    scores = torch.tensor(np.random.default_rng(0).normal(size=(2, 3, 3)), requires_grad=True)
    labels = torch.tensor([[0, 1, 2], [1, 0, 9]])
    for rows, columns in (((3, 2), (3, 3)), ((3, 2), (3, 2)), ((3, 2), (3, 3)), ((2, 2), None)):
        mask = (_mask(*rows, longest=3), None if columns is None else _mask(*columns, longest=3))
        _same(hinge, scores, labels, [scores], mask=mask)


def test_other_sizes_types_and_forms():
    hinge = StructuredHinge(so.structures.Chain(3), "slack", reduction="none")
    for B, T, dtype in ((2, 4, torch.float64), (3, 4, torch.float64), (2, 5, torch.float64), (2, 4, torch.float32)) * 2:
        scores, labels = _chain(B, T, dtype=dtype)
        assert _same(hinge, scores, labels, scores)[1].dtype == dtype
        _same(hinge, scores[0], labels, scores[:1])
        _same(hinge, list(scores), labels, scores)
        _same(hinge, {"transition": scores[1], "y": scores[0]}, labels, scores)
    with pytest.raises(so.errors.DeclarationError, match="one type"):
        hinge((scores[0], scores[1].double()), labels)
    strided = [tensor.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for tensor in scores]
    assert not strided[0].is_contiguous()
    assert torch.equal(_same(hinge, tuple(strided), labels, strided)[1], _same(hinge, scores, labels, scores)[1])


def test_scores_that_become_large_or_refused():
    hinge, (scores, labels) = StructuredHinge(so.structures.Chain(3), reduction="none"), _chain()
    small = _same(hinge, scores, labels, scores)
    far = (scores[0] + 1e9, scores[1])  # the differences between labels stay
    assert torch.allclose(hinge(far, labels), small[0], atol=1e-5)
    for value in (NAN, INF, -INF):
        wrong = scores[0].detach().clone()
        wrong[1, 2, 0] = value
        with pytest.raises(so.errors.DeclarationError, match=r"of example 1 for 'y'"):
            hinge((wrong, scores[1]), labels)
        assert torch.isfinite(hinge((wrong, scores[1]), [[0] * 4, [0] * 2], mask=_mask(4, 2))).all()
        with pytest.raises(so.errors.DeclarationError, match="for 'transition'"):
            hinge((scores[0], torch.full((3, 3), value, dtype=torch.float64)), labels)
    assert all(torch.equal(a, b) for a, b in zip(small, _same(hinge, scores, labels, scores), strict=True))
    many = torch.full((2, 60, 3), 9e4, dtype=torch.float64)  # no score is large, their squares together are
    hinge(many, torch.zeros(2, 60, dtype=torch.int64))
    _same(hinge, many.requires_grad_(), torch.zeros(2, 60, dtype=torch.int64), [many])


def test_what_is_no_arc_may_hold_anything():
    hinge = StructuredHinge(so.structures.Arborescence(), reduction="none")
    arcs = torch.tensor(np.random.default_rng(0).normal(size=(2, 4, 4)), requires_grad=True)
    labels = torch.tensor([[0, 1, 2], [2, 0, 1]])
    expected = _same(hinge, arcs, labels, [arcs])
    for value in (7.0, NAN, -INF, 1e9):
        with torch.no_grad():
            arcs[:, range(4), range(4)] = value
            arcs[:, :, 0] = value
        found = _same(hinge, arcs, labels, [arcs])
        assert all(torch.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(found, expected, strict=True))


def test_two_hinges_share_a_model():
    model = so.structures.Chain(3)
    hinges = [StructuredHinge(model, surrogate, reduction="none") for surrogate in ("margin", "slack")]
    for seed in range(3):
        scores, labels = _chain(seed=seed)
        for hinge in hinges:
            _same(hinge, scores, labels, scores)


def test_a_model_that_changes():
    hinge, (scores, labels) = StructuredHinge(so.structures.Chain(3), "slack", reduction="none"), _chain()
    expected = _result(hinge, scores, labels, scores)
    hinge.model.solver = "highs"  # every label by the declared program from now on
    found = _same(hinge, scores, labels, scores)
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))
    assert not hinge.layout.arrange(scores).native
    hinge.model.solver = "auto"
    assert hinge.layout.arrange(scores).native
    hinge.surrogate, hinge.search = "margin", "exact"
    assert torch.equal(hinge(scores, labels), StructuredHinge(so.structures.Chain(3), reduction="none")(scores, labels))
    hinge.search = "angular"
    with pytest.raises(so.errors.DeclarationError, match="slack rescaling"):
        hinge(scores, labels)


def test_labels_that_are_overwritten():
    """The tensor of labels, or of a loader's next batch in its place, is not what the backward pass looks at."""
    for model, scores, labels in (
        (so.structures.Chain(3), *_chain()),
        (so.structures.Assignment(), torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0)),
         torch.tensor([[0, 1, 2], [2, 1, 0]])),
        (so.structures.MultiLabel(3), torch.randn(2, 3, generator=torch.Generator().manual_seed(0)), torch.eye(3)[:2]),
    ):  # fmt: skip
        leaves = [tensor.requires_grad_() for tensor in (scores if isinstance(scores, tuple) else (scores,))]
        hinge = StructuredHinge(model)
        expected = _result(hinge, scores, labels, leaves)[1:]
        value = hinge(scores, labels)
        labels.copy_(labels.flip(1))
        assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(value, leaves), expected, strict=True))


def test_what_autograd_watches():
    hinge, (scores, labels) = StructuredHinge(so.structures.Chain(3)), _chain()
    hinge(scores, labels)
    doubled = tuple(2.0 * tensor for tensor in scores)
    value = hinge(doubled, labels)
    doubled[0].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()
    (gradient,) = torch.autograd.grad(hinge(scores, labels), scores[:1], create_graph=True)
    with pytest.raises(DoubleBackward):
        gradient.square().sum().backward()
    compiled = torch.compile(lambda *tensors: hinge(tensors, labels), backend="eager")
    assert torch.equal(compiled(*scores), hinge(scores, labels))


def test_copies_have_no_plans():
    hinge, (scores, labels) = StructuredHinge(so.structures.Chain(3), "slack"), _chain()
    value = hinge(scores, labels)
    for twin in (copy.deepcopy(hinge), pickle.loads(pickle.dumps(hinge))):
        assert not twin.layout._plans and not twin.layout._batches
        assert torch.equal(twin(scores, labels), value) and torch.equal(twin(scores, labels), value)


def test_threads():
    hinge = StructuredHinge(so.structures.Chain(3), "slack", reduction="none")
    batches = [(*_chain(2 + seed % 3, 3 + seed % 2, seed), _mask(*[2] * (2 + seed % 3), longest=3 + seed % 2))
               for seed in range(24)]  # fmt: skip
    expected = [_result(hinge, scores, labels, scores, mask=mask) for scores, labels, mask in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda batch: _result(hinge, batch[0], batch[1], batch[0], mask=batch[2]), batches * 4))
    for one, other in zip(found, expected * 4, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("surrogate", ["margin", "slack"])
def test_a_call_leaves_nothing_behind(case, surrogate):
    """No cycles that a collector would have to find, and no hold on the scores."""
    hinge = StructuredHinge(case.model, surrogate)

    def call():
        leaves = case.leaves()
        hinge(case.join(*leaves), case.labels, **case.options).backward()
        return [weakref.ref(leaf) for leaf in leaves]

    call()
    gc.collect()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        references = call()
        assert all(reference() is None for reference in references)
        gc.collect()
        # Other threads may leave something, too.
        modules = [getattr(item, "__module__", None) or type(item).__module__ for item in gc.garbage]
        assert not [module for module in modules if str(module).startswith("structopt")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_plans_are_few():
    hinge = StructuredHinge(so.structures.Chain(3))
    first = None
    for T in range(1, 3 * KNOWN):
        scores, labels = _chain(T=T)
        hinge(scores, labels)
        plan = next(iter(hinge.layout._plans.values()))[0]
        first = first or weakref.ref(plan)
        del plan
        assert len(hinge.layout._plans) <= KNOWN and len(hinge.layout._batches) <= KNOWN
    assert first() is None  # and those that are forgotten are gone

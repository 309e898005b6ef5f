"""Predictions have the form of the labels given to fit."""

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))


def entities():
    """A space of three entities and two relations, which do not follow from the entities."""
    space = so.LabelSpace("entities and relations")
    entity, relation = space.binary("entity", 3), space.binary("relation", 2)
    space.subject_to(relation <= entity[:2])
    return space


def model_of(space, **options):
    terms = {block.name: so.features.Linear() for block in space}
    return so.Model(space, terms, {block.name: so.losses.Hamming() for block in space}, **options)


SPACE = entities()
POINTS = SPACE.enumerate()[RNG.integers(len(SPACE.enumerate()), size=len(X))]
FORMS = {"blocks": [SPACE.blocks(z) for z in POINTS], "vector": POINTS}


def same(a, b):
    return repr(a) == repr(b)


@pytest.mark.parametrize("form", FORMS)
def test_probabilities_have_the_form_of_the_labels(form):
    crf, labels = so.CRF(model_of(SPACE), lam=0.1).fit(X, FORMS[form]), SPACE.enumerate()
    found, weights = crf.predict_proba(X), np.exp(crf.decision_function(X) @ labels.T)
    vectors = [SPACE.vector(**mean) for mean in found] if form == "blocks" else found
    np.testing.assert_allclose(vectors, weights / weights.sum(axis=1, keepdims=True) @ labels, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_predictions_of_networks_have_the_form_of_the_labels(form, tmp_path):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.entity, self.relation = torch.nn.Linear(2, 3), torch.nn.Linear(2, 2)

        def forward(self, inputs):
            inputs = inputs.float()
            return {"entity": self.entity(inputs), "relation": self.relation(inputs)}

    net = so.torch.NeuralStructured(model_of(SPACE), Net, epochs=2).fit(X, y=FORMS[form])
    found = net.predict(X)
    assert net.label_form_ == form
    assert all(SPACE.contains(label) for label in found)
    assert isinstance(found[0], dict) == (form == "blocks")
    assert net.score(X, found) == 1.0
    net.save(tmp_path / "net.pt")
    again = so.torch.NeuralStructured(model_of(SPACE), Net, epochs=2).load(tmp_path / "net.pt")
    assert same(again.predict(X), found)


def test_models_return_all_blocks_if_they_do_not_follow_from_the_first():
    model = model_of(SPACE)
    label = model.predict(np.ones(10), np.ones(2))
    assert list(label) == ["entity", "relation"]
    assert model.encode(label).tolist() == [1.0] * 5


def test_samples_have_one_form():
    labels = model_of(SPACE).sample(np.zeros(10), np.ones(2), 40, random_state=0)
    assert all(list(label) == ["entity", "relation"] for label in labels)
    assert any(not label["entity"][:2].any() for label in labels)  # here the relations follow from the entities


def test_top_k_returns_all_blocks_if_they_do_not_follow_from_the_first():
    torch = pytest.importorskip("torch")
    scores = {"entity": torch.ones(1, 3), "relation": torch.ones(1, 2)}
    labels, _ = so.torch.top_k(model_of(SPACE), scores, 3)
    assert all(list(label) == ["entity", "relation"] for label in labels[0])
    labels, _ = so.torch.top_k(model_of(SPACE), scores, 20)
    assert all(list(label) == ["entity", "relation"] for label in labels[0])
    labels = so.torch.sample(model_of(SPACE), scores, 40, random_state=0)
    assert all(list(label) == ["entity", "relation"] for label in labels[0])


def test_first_block_is_enough_if_the_others_follow_from_it():
    space = so.LabelSpace("a tag and its opposite")
    tag, other = space.binary("tag", 2), space.binary("other", 2)
    space.subject_to(tag + other == 1)
    y = (X > 0).astype(int)
    svm = so.StructuredSVM(model_of(space)).fit(X, y)
    assert svm.label_form_ == "first"
    assert svm.predict(X).shape == y.shape
    assert space.contains(y[0]) and space.contains({"tag": [1, 0], "other": [0, 1]})
    assert not space.contains({"tag": [1, 0], "other": [1, 1]})


def test_labels_of_spaces_per_input_have_one_form():
    def declare(x):
        space = so.LabelSpace("per input")
        first, second = space.binary("first", len(x)), space.binary("second", len(x))
        space.subject_to(second <= first)
        return space

    model = so.Model(declare, {"first": so.features.Shared(), "second": so.features.Shared()}, so.losses.Hamming())
    inputs = [RNG.normal(size=(n, 2)) for n in (1, 2, 3, 2)]
    y = [{"first": np.ones(len(x)), "second": np.arange(len(x)) % 2} for x in inputs]
    svm = so.StructuredSVM(model, lam=0.1).fit(inputs, y)
    found = svm.predict(inputs)
    assert all(list(label) == ["first", "second"] for label in found)
    assert svm.score(inputs, found) == 1.0


@pytest.mark.parametrize("kind", [so.StructuredSVM, so.CRF, so.ConditionalRiskMinimizer])
@pytest.mark.parametrize(
    "codec",
    [
        {"encode": lambda label: np.array([c == "1" for c in label], dtype=float)},
        {
            "encode": lambda label: np.array([c == "1" for c in label], dtype=float),
            "decode": lambda z: "".join(str(int(v)) for v in z[:-1]) + "0",
        },
    ],
)
def test_codec_must_return_the_label_it_was_given(kind, codec):
    space = so.LabelSpace("tags")
    space.binary("tag", 3)
    with pytest.raises(DeclarationError, match="does not return label 0"):
        kind(model_of(space, **codec)).fit(X[:2], ["011", "111"])


def test_errors_of_labels_have_all_example_numbers():
    wrong = POINTS.copy()
    wrong[[3, 7]] = [0, 0, 0, 1, 1]
    with pytest.raises(LabelNotInSpace) as caught:
        so.StructuredSVM(model_of(SPACE)).fit(X, wrong)
    assert caught.value.examples == (3, 7)
    with pytest.raises(LabelNotInSpace) as caught:
        so.StructuredSVM(so.structures.Multiclass(["a", "b"])).fit(X, ["a"] * 11 + ["c"])
    assert caught.value.examples == (11,)


def test_crf_without_a_model_needs_sequences():
    with pytest.raises(DeclarationError, match=r"structures\.Multiclass"):
        so.CRF().fit(X, np.arange(12) % 3)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_crf_without_states_rejects_missing_states(missing):
    with pytest.raises(DeclarationError, match=r"A state of y\[1\] is .*missing"):
        so.CRF().fit([X[:2], X[2:4]], [[1.0, 2.0], [missing, missing]])
    with pytest.raises(DeclarationError, match=r"A state of y\[0\] is .*missing"):
        so.CRF().fit([X[:2]], [[missing, missing]])


def test_crf_scores_none_if_it_is_one_of_its_states():
    crf = so.CRF(states=[None, "a"]).fit([X[:2], X[2:5]], [[None, "a"], ["a", None, "a"]])
    inputs = [X[:2], X[2:5]]
    assert crf.score(inputs, crf.predict(inputs)) == 1.0


def test_crf_names_a_state_that_is_not_hashable():
    with pytest.raises(DeclarationError, match=r"A state of y\[0\] must be hashable"):
        so.CRF().fit([X[:2]], [[[1], [2]]])


def test_blocks_may_be_named_self():
    space = so.LabelSpace("odd names")
    space.binary("self", 1)
    assert space.vector(self=[1.0]).tolist() == [1.0]

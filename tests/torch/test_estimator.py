"""`NeuralStructured`, and the linear check: a linear scorer trained by SGD is a support vector machine."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from sklearn.base import clone

import structopt as so

torch = pytest.importorskip("torch", reason="PyTorch is an extra: make test-torch")

from structopt.torch import NeuralStructured, StructuredHinge  # noqa: E402


def _sequences(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 6), 4)) for _ in range(n)]
    return X, [x[:, :3].argmax(axis=1) for x in X]


def _network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3))


def _estimator(**options):
    options = {"lr": 0.03, "epochs": 8, "batch_size": 10, **options}
    return NeuralStructured(so.structures.Chain(3), _network, **options)


@pytest.mark.parametrize("surrogate", ["margin", "slack", "entropy", "sparsemap", ["margin", "prob"]], ids=str)
def test_it_learns(surrogate):
    X, Y = _sequences()
    net = _estimator(surrogate=surrogate).fit(X, Y)
    assert net.score(X, Y) > 0.8
    assert net.history_[-1]["loss"] < net.history_[0]["loss"] or len(net.history_) == 16
    predicted = net.predict(X)
    right = np.mean([np.mean(a == b) for a, b in zip(predicted, Y, strict=True)])
    assert right > 0.8


def test_it_is_deterministic_and_leaves_other_generators_alone():
    X, Y = _sequences()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = _estimator().fit(X, Y)
    assert torch.rand(1) == expected
    second = clone(first).fit(X, Y)
    assert [record["loss"] for record in first.history_] == [record["loss"] for record in second.history_]
    other = _estimator(random_state=1).fit(X, Y)
    assert other.history_[0]["loss"] != first.history_[0]["loss"]


def test_the_best_epoch_on_validation_counts():
    X, Y = _sequences()
    net = _estimator(validation=0.25, patience=2, epochs=30).fit(X, Y)
    scores = [record["validation"] for record in net.history_]
    assert net.best_epoch_ == int(np.argmax(scores))
    assert len(scores) <= net.best_epoch_ + 1 + 2
    held = _sequences(10, seed=1)
    net = _estimator(validation=held).fit(X, Y)
    assert net.score(*held) == pytest.approx(max(record["validation"] for record in net.history_))


def test_a_module_is_copied_and_gets_the_mask():
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.seen = torch.nn.Linear(4, 3), 0

        def forward(self, x, mask):
            assert mask.shape == x.shape[:2]
            self.seen += 1
            return self.linear(x)

    module = Masked()
    X, Y = _sequences(10)
    net = NeuralStructured(so.structures.Chain(3), module, epochs=1).fit(X, Y)
    assert net.module_.seen and not module.seen


def test_saved_weights(tmp_path):
    X, Y = _sequences(20)
    net = _estimator(epochs=2).fit(X, Y)
    net.save(tmp_path / "net.pt")
    other = _estimator(epochs=2, random_state=9).load(tmp_path / "net.pt")
    for a, b in zip(net.predict(X), other.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    torch.save([1], tmp_path / "other.pt")
    with pytest.raises(so.errors.DeclarationError, match="does not hold weights"):
        other.load(tmp_path / "other.pt")


def test_damaged_weights_are_rejected_or_the_same(tmp_path):
    X, Y = _sequences(20)
    path = tmp_path / "net.npz"
    net = _estimator(epochs=1).fit(X, Y)
    net.save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    expected, refused = net.module_.state_dict(), 0
    for _ in range(100):
        raw = bytearray(whole)
        if rng.random() < 0.3:
            del raw[int(rng.integers(len(raw))) :]
        else:
            raw[int(rng.integers(len(raw)))] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(raw))
        try:
            found = _estimator().load(path).module_.state_dict()
        except so.errors.DeclarationError:
            refused += 1
        else:
            assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert refused > 60  # bytes that nobody reads (dates, permissions) may change


def test_a_failed_load_leaves_the_network(tmp_path):
    X, Y = _sequences(10)
    net = _estimator(epochs=1).fit(X, Y)
    before = net.module_
    (tmp_path / "net.npz").write_bytes(b"x")
    with pytest.raises(so.errors.DeclarationError):
        net.load(tmp_path / "net.npz")
    assert net.module_ is before


def test_types_without_numpy_are_saved(tmp_path):
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(1.5, dtype=torch.bfloat16))
            self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
            self.linear = torch.nn.Linear(2, 3)

        def forward(self, x):
            return self.linear(x) * self.scale.float()

    X, Y = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 3
    net = NeuralStructured(so.structures.Multiclass(3), Mixed, epochs=1, lr=0.1).fit(X, Y)
    net.save(tmp_path / "net.npz")
    other = NeuralStructured(so.structures.Multiclass(3), Mixed, random_state=5).load(tmp_path / "net.npz")
    found = other.module_.state_dict()
    for name, value in net.module_.state_dict().items():
        assert torch.equal(found[name], value) and found[name].dtype == value.dtype


def test_ctrl_c_keeps_the_best_epoch():
    X, Y = _sequences(20)
    calls = []

    class Interrupted(StructuredHinge):
        def forward(self, *arguments, **options):
            calls.append(1)
            if len(calls) == 5:
                signal.raise_signal(signal.SIGINT)
            return super().forward(*arguments, **options)

    net = _estimator(surrogate=Interrupted(so.structures.Chain(3)), validation=0.2, epochs=50).fit(X, Y)
    assert len(net.history_) == 2 and net.best_epoch_ in (0, 1)
    assert net.predict(X[:2])[0].shape == Y[0].shape


def test_ctrl_c_leaves_gradients_enabled(monkeypatch):
    X, Y = _sequences(20)
    net = _estimator(epochs=1, batch_size=5).fit(X, Y)
    assert all(torch.is_grad_enabled() for _ in net._arranged(X))

    class Interrupted(torch.no_grad):
        def __enter__(self):
            super().__enter__()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch, "no_grad", Interrupted)
        for call in (lambda: net.predict(X), lambda: net.score(X, Y)):
            with pytest.raises(KeyboardInterrupt):
                call()
            assert torch.is_grad_enabled()
    assert net.fit(X, Y).score(X, Y) > 0.0


def test_rows_of_a_matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    Y = (X[:, :4] > 0).astype(int)
    net = NeuralStructured(so.structures.MultiLabel(4), lambda: torch.nn.Linear(5, 4), lr=0.1, epochs=20).fit(X, Y)
    assert net.score(X, Y) > 0.9 and net.predict(X).shape == Y.shape
    np.testing.assert_array_equal(net.predict(list(X)), net.predict(X))


def test_mistakes():
    X, Y = _sequences(4)
    with pytest.raises(so.errors.DeclarationError, match="4 inputs but 3"):
        _estimator().fit(X, Y[:3])
    with pytest.raises(so.errors.DeclarationError, match="optimizer"):
        _estimator(optimizer="newton").fit(X, Y)
    with pytest.raises(so.errors.DeclarationError, match="surrogate"):
        _estimator(surrogate=3).fit(X, Y)
    with pytest.raises(so.errors.DeclarationError, match="leaves no examples"):
        _estimator(validation=1.0).fit(X, Y)
    with pytest.raises(so.errors.LabelNotInSpace, match="example"):
        _estimator().fit(X, [np.full(len(y), 7) for y in Y])
    with pytest.raises(so.errors.DeclarationError, match="first axis"):
        _estimator().fit([np.zeros((3, 4)), np.zeros((3, 5))], Y[:2])


@pytest.mark.parametrize("surrogate", ["margin", "slack"])
def test_a_linear_scorer_comes_to_the_certified_optimum(surrogate):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    Y = ((X @ rng.normal(size=(5, 4)) + 0.5 * rng.normal(size=(60, 4))) > 0).astype(int)
    model, lam = so.structures.PairwiseMRF(4), 0.05
    svm = so.StructuredSVM(model, surrogate, lam=lam, tol=1e-4).fit(X, Y)
    assert svm.result_.converged
    torch.manual_seed(0)
    unary = torch.nn.Linear(5, 4, bias=False).double()
    pair = torch.nn.Parameter(torch.zeros(6, dtype=torch.float64))
    weights, inputs = [unary.weight, pair], torch.tensor(X)
    hinge = StructuredHinge(model, surrogate, rtol=1e-6)

    def objective():
        norm = sum(w.square().sum() for w in weights)
        return 0.5 * lam * norm + hinge((unary(inputs), pair), Y)

    optimizer, least = torch.optim.SGD(weights, lr=1.0), np.inf
    for t in range(400):
        for group in optimizer.param_groups:  # steps of the subgradient method for strongly convex functions
            group["lr"] = 1.0 / (lam * (t + 20))
        optimizer.zero_grad()
        value = objective()
        least = min(least, value.item())
        value.backward()
        optimizer.step()
    bound = svm.result_.lower_bound
    assert bound <= least + 1e-9
    assert least <= 1.01 * svm.result_.objective

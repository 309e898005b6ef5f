"""Checkpoints and saved estimators that somebody altered.

A file is damaged (bytes flipped, truncated, members exchanged) or forged: arrays and JSON fields are replaced by
others, and the digest is made to match. Then a run resumes from the checkpoint, or the estimator is loaded and
predicts, under an audit hook. Only errors of structopt are allowed, or a result. Damage must leave the result as it
is. A forged checkpoint may change it, but no bound may exceed its objective.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import structopt as so
from structopt import _archive
from structopt.errors import StructoptError
from structopt.risks import regularizers

CHECKPOINT, ESTIMATOR, NETWORK = "structopt checkpoint 4", "structopt estimator 2", "structopt network 1"
TOL, PASSES = 1e-3, 25

# ---- what is altered -------------------------------------------------------------------------------

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(9, 3))
_CLASSES = np.arange(9) % 3
_TAGS = (_X @ _RNG.normal(size=(3, 3)) > 0).astype(int)
_SEQUENCES = [_X[:4], _X[4:6], _X[6:]]
_STATES = [list("OBIO"), list("BI"), list("OOB")]
_TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
_LEAVES = np.array(["b", "c", "d"])[_CLASSES]


def _knapsack() -> Any:
    space = so.LabelSpace("knapsack")
    tag = space.binary("tag", 3)
    space.subject_to(tag @ np.array([2.0, 3.0, 4.0]) <= 6, name="budget")
    return so.Model(space, {"tag": so.features.Linear(intercept=True)}, so.losses.Hamming())


def _multiclass(surrogate: str = "margin") -> Any:
    return so.train.StructuredRisk(so.structures.Multiclass(3), _X, _CLASSES, surrogate)


def _chain() -> Any:
    return so.train.StructuredRisk(so.structures.Chain(["B", "I", "O"]), _SEQUENCES, _STATES)


def _declared() -> Any:
    return so.train.StructuredRisk(_knapsack(), _X, _TAGS * [1, 1, 0], "slack")


def _signs() -> Any:
    return np.where(_X[:, 0] > 0.1, 1, -1)


def _trainers() -> dict[str, Callable[..., Any]]:
    train, risks = so.train, so.risks
    return {
        "block_ascent": lambda **o: train.block_ascent(_chain(), lam=0.05, **o),
        "block_ascent, declared": lambda **o: train.block_ascent(_declared(), lam=0.05, **o),
        "multiclass": lambda **o: train.block_ascent(_multiclass(), lam=0.01, **o),
        "n_slack": lambda **o: train.n_slack(_multiclass("slack"), lam=0.05, cached_labels=4, **o),
        "one_slack": lambda **o: train.one_slack(_chain(), lam=0.05, **o),
        "bcfw": lambda **o: train.bcfw(_chain(), lam=0.05, **o),
        "sgd": lambda **o: train.sgd(_chain(), lam=0.05, **o),
        "hierarchical_sgd": lambda **o: train.hierarchical_sgd(
            so.train.StructuredRisk(so.structures.HierarchicalLabels(_TREE), _X, list(_LEAVES)), lam=0.05, **o
        ),
        "bmrm": lambda **o: train.bmrm(_multiclass("slack"), lam=0.05, **o),
        "bmrm, line search": lambda **o: train.bmrm(risks.Hinge(_X, _signs()), lam=0.01, **o),
        "bmrm, L1": lambda **o: train.bmrm(risks.Hinge(_X, _signs()), regularizers.L1(), lam=0.01, **o),
        "bmrm, two cuts": lambda **o: train.bmrm(risks.Hinge(_X, _signs()), lam=0.01, max_cuts=2, **o),
        "coordinate_descent": lambda **o: train.coordinate_descent(risks.Hinge(_X, _signs()), lam=0.001, **o),
        "squared hinge": lambda **o: train.coordinate_descent(risks.SquaredHinge(_X, _signs()), lam=0.001, **o),
        "lbfgs": lambda **o: train.lbfgs(risks.Logistic(_X, _signs()), lam=0.001, **o),
        "proximal_bundle": lambda **o: train.proximal_bundle(risks.Hinge(_X, _signs()), lam=0.01, **o),
        "trust_region_bundle": lambda **o: train.trust_region_bundle(risks.Hinge(_X, _signs()), lam=0.01, **o),
    }


def _law_of_files() -> Any:
    """Return the module of the law, which has an estimator of every class with its data."""
    path = Path(__file__).parents[1] / "laws" / "test_files.py"
    spec = importlib.util.spec_from_file_location("structopt_law_of_files", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _estimators() -> dict[str, tuple[Any, Any, Any]]:
    """Return estimators to fit, with inputs and labels."""
    neural = {"NeuralStructured": (_neural(), _X, _labels_of_blocks())} if _HAS_TORCH else {}
    return {**_law_of_files().FITTED, **neural}


_HAS_TORCH = importlib.util.find_spec("torch") is not None


def _blocks() -> Any:
    """A model whose labels have two blocks."""
    space = so.LabelSpace("blocks")
    tag, both = space.binary("tag", 3), space.binary("both")
    space.subject_to(both <= tag[0])
    terms = {"tag": so.features.Linear(intercept=True), "both": so.features.Linear()}
    return so.Model(space, terms, so.losses.Hamming())


def _labels_of_blocks() -> list[dict[str, Any]]:
    return [{"tag": tag, "both": np.array(tag[0] * tag[1])} for tag in _TAGS]


def _neural() -> Any:
    import torch

    from structopt.torch import NeuralStructured

    class Net(torch.nn.Module):
        """Scores of both blocks."""

        def __init__(self) -> None:
            super().__init__()
            self.tag, self.both = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
            self.norm = torch.nn.BatchNorm1d(3)  # has buffers of floats and of an integer

        def forward(self, X: torch.Tensor) -> dict[str, torch.Tensor]:
            X = self.norm(X)
            return {"tag": self.tag(X), "both": self.both(X)[:, 0]}

    return NeuralStructured(_blocks(), Net, epochs=1, random_state=0)


def _load(name: str, path: Path) -> Any:
    return _neural().load(path) if name == "NeuralStructured" else so.load(path)


_made: dict[str, tuple[bytes, Any]] = {}


def _options(path: Path) -> dict[str, Any]:
    return {"tol": TOL, "max_passes": PASSES, "checkpoint": so.train.Checkpoint(path, every=0)}


def _checkpoint(name: str) -> tuple[bytes, Any]:
    """The checkpoint of a run that is not finished, and the result of going on from it."""
    if name not in _made:
        folder = Path(tempfile.mkdtemp())
        path = folder / "run.npz"
        calls: list[Any] = []

        def after_some(result: Any) -> bool:
            calls.append(result)
            return len(calls) == 3

        run = _trainers()[name]
        run(**{**_options(path), "max_passes": 4}, callback=after_some)
        whole = path.read_bytes()
        _made[name] = whole, run(**_options(path))
        shutil.rmtree(folder)
    return _made[name]


def _saved(name: str) -> tuple[bytes, Any]:
    """A saved estimator, and its predictions."""
    if name not in _made:
        estimator, inputs, labels = _estimators()[name]
        folder = Path(tempfile.mkdtemp())
        estimator = (estimator if name == "NeuralStructured" else clone(estimator)).fit(inputs, labels)
        estimator.save(folder / "model.npz")
        # Everything that a loaded estimator imports is imported here.
        found = _load(name, folder / "model.npz").predict(inputs)
        _made[name] = (folder / "model.npz").read_bytes(), found
        shutil.rmtree(folder)
    return _made[name]


# ---- alterations -----------------------------------------------------------------------------------


def _damage(raw: bytes, rng: np.random.Generator) -> bytes:
    """Flip bytes, cut the file short, or exchange two members."""
    kind = rng.integers(4)
    found = bytearray(raw)
    if kind == 0:
        return raw[: int(rng.integers(len(raw)))]
    if kind == 1:
        return _exchanged(raw, rng)
    for _ in range(int(rng.integers(1, 6))):
        found[int(rng.integers(len(raw)))] ^= int(rng.integers(1, 256))
    return bytes(found)


def _exchanged(raw: bytes, rng: np.random.Generator) -> bytes:
    """Give two members each other's content, with checksums of the zip file that match."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        path.write_bytes(raw)
        with zipfile.ZipFile(path) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        a, b = rng.choice(list(content), size=2, replace=False)
        content[a], content[b] = content[b], content[a]
        with zipfile.ZipFile(path, "w") as archive:
            for name, part in content.items():
                archive.writestr(name, part)
        return path.read_bytes()


def _other_array(array: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Another array in the place of this one."""
    kind = int(rng.integers(14))
    with np.errstate(all="ignore"):
        if kind == 0:
            return np.atleast_1d(array)[:0]
        if kind == 1:
            return np.append(array, array)
        if kind == 2:
            return array.astype(str)
        if kind == 3:
            return np.array(array[..., None])
        if kind == 4:
            numbers = array if array.dtype.kind not in "US" else np.arange(array.size)
            return numbers.astype(rng.choice(["float32", "int8", "uint64", "complex128", "bool", ">f8"]))
        if kind == 5:
            return np.asarray(array.reshape(-1)[::-1].reshape(array.shape))
        if kind == 6:
            return np.zeros_like(array)
        if kind == 7:
            return np.full(array.shape, rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300]))
        found = np.array(array)
        if not found.size:
            return np.ones(int(rng.integers(1, 4)))
        at = int(rng.integers(found.size))
        if found.dtype.kind in "iu":
            limits = np.iinfo(found.dtype)
            values = [limits.min, limits.max, int(found.reshape(-1)[at]) + 1, int(found.size), 10**6, 0]
            value = values[int(rng.integers(len(values)))]
            found.reshape(-1)[at] = min(max(value, limits.min), limits.max)
        elif found.dtype.kind == "f":
            values = [np.nan, np.inf, -1.0, 1e300, 2.0 * float(found.reshape(-1)[at]) + 1.0, 0.0, -1e-3, 10.0]
            found.reshape(-1)[at] = values[int(rng.integers(len(values)))]
        else:
            return found.astype("S3") if found.dtype.kind in "US" else found[..., None]
        return found


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def _change_document(document: dict[str, Any], rng: np.random.Generator) -> None:
    places = list(_places(document))
    holder, key = places[int(rng.integers(len(places)))]
    other, name = places[int(rng.integers(len(places)))]
    values = [None, -1, 0, 10**20, "x", [], {}, [[]], 1e300, math.nan, True, False, 2, other[name]]
    if isinstance(holder, dict) and rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = json.loads(json.dumps(values[int(rng.integers(len(values)))]))


def _forge(path: Path, format: str, rng: np.random.Generator) -> None:
    """Replace arrays or JSON fields, with a digest that matches."""
    document, arrays = _archive.read_archive(path, format, allow_nan=True)
    for _ in range(int(rng.integers(1, 3))):
        if rng.random() < 0.3 or not arrays:
            _change_document(document, rng)
            continue
        name = str(rng.choice(sorted(arrays)))
        kind = rng.random()
        if kind < 0.1:
            del arrays[name]
        elif kind < 0.25:
            arrays[name] = arrays[str(rng.choice(sorted(arrays)))]
        else:
            arrays[name] = _other_array(arrays[name], rng)
    _archive.write_archive(path, format, document, arrays, allow_nan=True)


# ---- the audit hook --------------------------------------------------------------------------------

_watched: list[Path] = []
_seen: list[str] = []
_FORBIDDEN = ("exec", "compile", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event.startswith("pickle.") or event in _FORBIDDEN:
        # Named tuples, dataclasses, the headers of arrays and numba's own cache are not the file's doing.
        if not event.startswith(("os.", "subprocess", "socket")) and _by_a_library():
            return
        _seen.append(f"{event} {arguments!r:.200}")
    elif event == "open" and isinstance(arguments[0], (str, bytes)):
        name, mode, flags = arguments
        writes = (mode and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and not _is_inside(os.fsdecode(name)):
            _seen.append(f"open {arguments!r:.200}")


def _is_inside(name: str) -> bool:
    found = os.path.realpath(name)
    cached = "__pycache__" in found or ".numba" in found  # numba tests whether it may write, and writes
    return cached or found == os.devnull or any(found.startswith(str(folder)) for folder in _watched)


#: Parts of the names of files whose code compiles, executes or unpickles, whatever the file under test holds.
_LIBRARIES = ("/ast.py", "numba", "collections", "dataclasses", "_jit", "importlib", "/typing.py", "/inspect.py")


def _by_a_library() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _LIBRARIES) or frame.f_code.co_name == "_checks_of":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


sys.addaudithook(_hook)


# ---- cases -----------------------------------------------------------------------------------------


def case(seed: int) -> str:
    """One altered file."""
    rng = np.random.default_rng(seed)
    is_checkpoint = seed % 2 == 0
    names = list(_trainers() if is_checkpoint else _estimators())
    name = names[int(rng.integers(len(names)))]
    raw, expected = (_checkpoint if is_checkpoint else _saved)(name)
    forged = rng.random() < 0.8
    folder = Path(os.path.realpath(tempfile.mkdtemp()))
    path = folder / ("run.npz" if is_checkpoint else "model.npz")
    try:
        path.write_bytes(raw if forged else _damage(raw, rng))
        if forged:
            _forge(path, CHECKPOINT if is_checkpoint else NETWORK if name == "NeuralStructured" else ESTIMATOR, rng)
        modules = set(sys.modules)
        _watched.append(folder)
        try:
            found = (_resumed if is_checkpoint else _predicted)(name, path)
        except StructoptError:
            outcome = "our error"
        except NotFittedError:
            # A file without anything learned is the file of an estimator that was not fitted.
            learned = _archive.read_archive(path, ESTIMATOR, allow_nan=True)[0]["learned"]
            assert forged and not is_checkpoint and not learned, f"{name}: not fitted, but {sorted(learned)} are there"
            outcome = "not fitted"
        else:
            outcome = _judged(found, expected, is_checkpoint, forged)
        finally:
            _watched.clear()
        seen, _seen[:] = list(_seen), []
        assert not seen, f"{name}: the file caused {seen[:3]}"
        new = {module for module in set(sys.modules) - modules if not module.startswith("_structopt")}
        assert not any(module.partition(".")[0] not in _OURS for module in new), f"{name}: imported {sorted(new)[:5]}"
        left = sorted(found.name for found in folder.iterdir() if found != path)
        assert not left, f"{name}: {left} were left"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{'checkpoint' if is_checkpoint else 'estimator'}, {'forged' if forged else 'damaged'}: {outcome}"


#: Packages that are imported when they are first needed, regardless of the file.
_OURS = {"structopt", "numpy", "scipy", "sklearn", "numba", "highspy", "piqp", "tqdm", "llvmlite", "encodings", "torch"}


def _resumed(name: str, path: Path) -> Any:
    return _trainers()[name](**_options(path))


def _predicted(name: str, path: Path) -> Any:
    return _load(name, path).predict(_estimators()[name][1])


def _judged(found: Any, expected: Any, is_checkpoint: bool, forged: bool) -> str:
    if not is_checkpoint:
        if not forged:
            assert _alike(found, expected), "a damaged file changed the predictions"
        return "same predictions" if _alike(found, expected) else "other predictions"
    assert np.isfinite(found.w).all(), "weights are not finite"
    slack = 1e-8 * max(abs(found.objective), 1.0)
    assert found.lower_bound <= found.objective + slack, f"bound {found.lower_bound} above {found.objective}"
    same = np.array_equal(found.w, expected.w) and found.objective == expected.objective
    assert forged or same, "a damaged file changed the result"
    return "same result" if same else "another run"


def _alike(a: Any, b: Any) -> bool:
    if len(a) != len(b):
        return False
    if isinstance(a, list) and a and isinstance(a[0], dict):
        return all(
            x.keys() == y.keys() and _alike(list(x.values()), list(y.values())) for x, y in zip(a, b, strict=True)
        )
    return all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True))

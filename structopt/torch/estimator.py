"""`NeuralStructured`: a network that scores the parts of a label, in the manner of scikit-learn."""

from __future__ import annotations

import copy
import inspect
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from tqdm import tqdm

from structopt._archive import UNREADABLE, read_archive, remove_leftovers, write_archive
from structopt.checks import check_parameters, examples, number, whole
from structopt.errors import DeclarationError
from structopt.estimators._labels import as_array
from structopt.features import n_examples
from structopt.model import Model
from structopt.model.batch import LabelBatch
from structopt.model.forms import LABEL_FORMS, check_codec, has_user_codec, label_form
from structopt.surrogates import Surrogate
from structopt.torch.fenchel_young import FenchelYoung
from structopt.torch.hinge import StructuredHinge
from structopt.torch.layouts import layout_of
from structopt.torch.module import StructuredLoss, keeps_grad_mode
from structopt.torch.scores import Arrangement

__all__ = ["NeuralStructured"]

_log = logging.getLogger(__name__)

_FORMAT = "structopt network 1"

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}


class NeuralStructured(BaseEstimator):
    """A structured predictor whose scores come from a network.

    Parameters
    ----------
    model : Model
        Whose labels are predicted; its features are not used.
    module : nn.Module or callable
        From a batch of inputs to scores, in the shapes of the how-to page *Neural scores*. Inputs of different lengths
        are padded, and a module whose ``forward`` has an argument ``mask`` gets the mask. A module is copied before
        it is trained; a function without arguments makes it, under `random_state`.
    surrogate : str, Surrogate, loss or sequence of them
        A surrogate of `structopt.surrogates` (`StructuredHinge`), ``"entropy"``, ``"sparsemap"`` or ``"perturbed"``
        (`FenchelYoung`), or a loss of this package. Several are trained one after the other, `epochs` each, from the
        best weights of the one before.
    optimizer : {"adam", "adamw", "sgd"} or callable
        A function ``f(parameters) -> Optimizer`` of your own has its own step.
    lr, weight_decay : float
        Of the named optimizers.
    epochs : int
        Passes over the data at most.
    batch_size : int
    validation : float or (X, y), optional
        The share of the examples, or the examples, on which `score` is measured after each epoch; the epoch that is
        best there counts. None: the last epoch.
    patience : int
        Epochs without a better validation after which to stop.
    device : str
        Where the network runs; inference is on the CPU.
    random_state : int
        Seed of everything: initial weights, order, dropout, noise.
    n_jobs : int
        Threads over examples in inference.
    verbose : bool
        A progress bar with loss and validation.

    Attributes
    ----------
    module_ : nn.Module
        The trained network.
    history_ : list of dict
        ``epoch``, ``loss`` and ``validation`` of each pass, and the ``surrogate`` where there are several.
    best_epoch_ : int
        The epoch whose weights are kept.
    n_iter_ : int
        Epochs run.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> import structopt as so
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(length, 4)) for length in (3, 5, 4) * 10]
    >>> y = [x[:, :2].argmax(axis=1) for x in X]
    >>> net = so.torch.NeuralStructured(so.structures.Chain(2), lambda: torch.nn.Linear(4, 2), lr=0.1, epochs=10)
    >>> net.fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        model: Model,
        module: Any,
        surrogate: Any = "margin",
        optimizer: Any = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        epochs: int = 20,
        batch_size: int = 32,
        validation: Any = None,
        patience: int = 5,
        device: str = "cpu",
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.module = module
        self.surrogate = surrogate
        self.optimizer = optimizer
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.validation = validation
        self.patience = patience
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---- training --------------------------------------------------------------------------------

    @keeps_grad_mode
    def fit(self, X: Any, y: Any) -> Self:
        """Train on a data set. Ctrl-C stops, and keeps the best epoch so far.

        Parameters
        ----------
        X : matrix or list of arrays
            Inputs: rows, or arrays whose first axis is padded.
        y : matrix or list of labels

        Returns
        -------
        self
        """
        self._check()
        X, y = examples("X", X), examples("y", y)
        if n_examples(X) != n_examples(y):
            raise DeclarationError(f"{n_examples(X)} inputs but {n_examples(y)} labels.")
        self.label_form_ = label_form(self.model, y)
        if self.model.fixed and has_user_codec(self.model):
            check_codec(self.model, [self.model.encode(label) for label in y], lambda i: None)
        rng = np.random.default_rng(self.random_state)
        with _seeded(self.random_state):
            self.module_ = self._made().to(self.device)
            self._layout = layout_of(self.model._integral_twin())
            held: tuple[Any, Any] | None = None
            if self.validation is not None:
                X, y, held = self._split(X, y, rng)
            self.history_: list[dict[str, Any]] = []
            self.best_epoch_ = -1
            for loss in self._losses():
                if not self._train(loss, X, y, held, rng):
                    break
        self.n_iter_ = len(self.history_)
        self.module_.eval()
        return self

    def _check(self) -> None:
        check_parameters(self)
        whole("epochs", self.epochs, low=1)
        whole("batch_size", self.batch_size, low=1)
        whole("patience", self.patience, low=1)
        number("lr", self.lr, above=0.0)
        number("weight_decay", self.weight_decay, low=0.0)
        if not callable(self.optimizer) and self.optimizer not in _OPTIMIZERS:
            raise DeclarationError(f"optimizer must be a function or one of {', '.join(_OPTIMIZERS)}.")

    def _made(self) -> nn.Module:
        found = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module()
        if not isinstance(found, nn.Module):
            raise DeclarationError(f"module must be an nn.Module, or a function that makes one; got {found!r:.60}.")
        return found

    def _losses(self) -> list[StructuredLoss]:
        given = self.surrogate
        several = isinstance(given, Sequence) and not isinstance(given, str)
        return [self._loss_of(one) for one in (given if several else [given])]

    def _loss_of(self, given: Any) -> StructuredLoss:
        if isinstance(given, StructuredLoss):
            return given
        if given == "entropy" or given == "sparsemap" or given == "perturbed":
            return FenchelYoung(self.model, given, n_jobs=self.n_jobs, random_state=self.random_state)
        if isinstance(given, str | Surrogate):
            return StructuredHinge(self.model, given, n_jobs=self.n_jobs)
        raise DeclarationError(f"surrogate must be a name, a Surrogate or a loss, got {given!r:.60}.")

    def _split(self, X: Any, y: Any, rng: np.random.Generator) -> tuple[Any, Any, tuple[Any, Any]]:
        if isinstance(self.validation, tuple | list):
            held_X, held_Y = self.validation
            return X, y, (examples("X", held_X), examples("y", held_Y))
        share, n = number("validation", self.validation, above=0.0), n_examples(X)
        count = int(np.ceil(share * n))
        if not 0 < count < n:
            raise DeclarationError(f"validation={share} leaves no examples to train on, of {n}; give less, or (X, y).")
        order = rng.permutation(n)
        first, second = np.sort(order[count:]), np.sort(order[:count])
        return _taken(X, first), _taken(y, first), (_taken(X, second), _taken(y, second))

    def _train(
        self, loss: StructuredLoss, X: Any, y: Any, held: tuple[Any, Any] | None, rng: np.random.Generator
    ) -> bool:
        """One surrogate; False where Ctrl-C stopped it."""
        optimizer = self._optimizer()
        best: dict[str, Tensor] | None = None
        best_score, waited, n, going = -np.inf, 0, n_examples(X), True
        bar = tqdm(total=self.epochs, disable=not self.verbose, desc=type(loss).__name__)
        try:
            for _ in range(self.epochs):
                self.module_.train()
                total, order = 0.0, rng.permutation(n)
                for first in range(0, n, self.batch_size):
                    chosen = order[first : first + self.batch_size]
                    optimizer.zero_grad()
                    scores, mask = self._scores(_taken(X, chosen))
                    value = loss(scores, _taken(y, chosen), mask=mask)
                    value.backward()
                    optimizer.step()
                    total += value.item() * len(chosen)
                record: dict[str, Any] = {"epoch": len(self.history_), "loss": total / n, "surrogate": _named(loss)}
                if held is not None:
                    record["validation"] = self._measure(*held)
                    waited += 1
                    if record["validation"] > best_score:
                        best_score, waited, best = record["validation"], 0, _weights(self.module_)
                        self.best_epoch_ = record["epoch"]
                else:
                    self.best_epoch_ = record["epoch"]
                self.history_.append(record)
                bar.update()
                bar.set_postfix({k: f"{record[k]:.4g}" for k in ("loss", "validation") if k in record})
                if waited >= self.patience:
                    break
        except KeyboardInterrupt:
            _log.warning("interrupted: the weights of epoch %d are kept", self.best_epoch_)
            going = False
        finally:
            bar.close()
        if best is not None:
            self.module_.load_state_dict(best)
        return going

    def _optimizer(self) -> torch.optim.Optimizer:
        parameters = [p for p in self.module_.parameters() if p.requires_grad]
        if callable(self.optimizer):
            return self.optimizer(parameters)
        return _OPTIMIZERS[self.optimizer](parameters, lr=self.lr, weight_decay=self.weight_decay)

    # ---- scores ----------------------------------------------------------------------------------

    def _scores(self, X: Any) -> tuple[Any, Tensor | None]:
        inputs, mask = collated(X, self.device)
        if not self._layout.has_padding:
            mask = None
        if mask is not None and "mask" in inspect.signature(self.module_.forward).parameters:
            return self.module_(inputs, mask=mask), mask
        return self.module_(inputs), mask

    def _arranged(self, X: Any) -> Iterator[tuple[slice, Arrangement, list[npt.NDArray[np.float64]]]]:
        """Batches of inputs with their score tables, in order."""
        self.module_.eval()
        n = n_examples(X)
        for first in range(0, n, self.batch_size):
            part = slice(first, min(first + self.batch_size, n))
            with torch.no_grad():
                scores, mask = self._scores(_taken(X, np.arange(part.start, part.stop)))
                arranged = self._layout.arrange(scores, mask)
                tables = arranged.arrays().arrays
            yield part, arranged, tables  # with gradients again: the caller may never come back

    def _best(self, arranged: Arrangement, tables: list[npt.NDArray[np.float64]]) -> LabelBatch:
        return arranged.batch.argmax(tables, n_jobs=self.n_jobs)[0]

    # ---- use -------------------------------------------------------------------------------------

    @keeps_grad_mode
    def predict(self, X: Any) -> Any:
        """The best label of every input.

        Parameters
        ----------
        X : matrix or list of arrays

        Returns
        -------
        ndarray or list
        """
        check_is_fitted(self, "module_")
        found: list[Any] = []
        for _, arranged, tables in self._arranged(examples("X", X)):
            found += arranged.batch.decode(self._best(arranged, tables), getattr(self, "label_form_", None))
        return as_array(found)

    @keeps_grad_mode
    def score(self, X: Any, y: Any) -> float:
        """``1 - sum of task losses / sum of the largest possible ones``, between 0 and 1; as of `StructuredSVM`.

        Parameters
        ----------
        X : matrix or list of arrays
        y : matrix or list of labels

        Returns
        -------
        float
        """
        check_is_fitted(self, "module_")
        return self._measure(examples("X", X), examples("y", y))

    def _measure(self, X: Any, y: Any) -> float:
        lost = most = 0.0
        for part, arranged, tables in self._arranged(X):
            batch = arranged.batch
            truth = batch.truth(self._layout.labels(_taken(y, np.arange(part.start, part.stop)), arranged))
            loss = batch.loss(truth)
            values = np.maximum(batch.loss_values(loss, self._best(arranged, tables)), 0.0)
            _, worst = batch.argmax([np.zeros_like(table) for table in tables], loss, n_jobs=self.n_jobs)
            lost += float(values.sum())
            most += float(np.maximum(worst, values).sum())
        return 1.0 - lost / most if most > 0.0 else 1.0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights of the network to one file, completely or not at all.

        The file holds numbers only: nothing in it can run.

        Parameters
        ----------
        path : path
            An existing file is replaced.
        """
        check_is_fitted(self, "module_")
        weights = _weights(self.module_)
        document = {
            "weights": list(weights),
            "best_epoch": int(self.best_epoch_),
            "n_iter": int(self.n_iter_),
            "label_form": self.label_form_,
        }
        arrays = {f"weight{k}": _as_array(value) for k, value in enumerate(weights.values())}
        remove_leftovers(path)
        write_archive(path, _FORMAT, document, arrays, compressed=True)

    def load(self, path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Self:
        """Read weights that `save` wrote into a network as this estimator makes it.

        Parameters
        ----------
        path : path
        max_bytes : int, optional
            Reject a file whose weights unpack to more; by default one GiB and fifty times the size of the file.

        Returns
        -------
        self

        Raises
        ------
        DeclarationError
            If the file is damaged, or holds the weights of another network.
        """
        self._check()
        with _seeded(self.random_state):
            module = self._made().to(self.device)
        expected = module.state_dict()
        try:
            document, arrays = read_archive(path, _FORMAT, max_bytes)
            if document["weights"] != list(expected):
                raise DeclarationError("it has the weights of another network")
            numbers = {name: document[name] for name in ("best_epoch", "n_iter")}
            for name, number in numbers.items():
                if type(number) is not int or not 0 <= number < 1 << 63:
                    raise DeclarationError(f"{name} is {number!r:.60}")
            form = document["label_form"]
            if form is not None and form not in LABEL_FORMS:
                raise DeclarationError(f"label_form is {form!r:.60}, not one of {', '.join(LABEL_FORMS)}")
            weights = {
                name: _as_tensor(name, arrays[f"weight{k}"], value) for k, (name, value) in enumerate(expected.items())
            }
        except FileNotFoundError:
            raise
        except (DeclarationError, *UNREADABLE) as error:
            raise DeclarationError(
                f"{os.fspath(path)!r} does not hold weights that NeuralStructured.save wrote for this network "
                f"({error!s:.500})."
            ) from error
        module.load_state_dict(weights)
        module.eval()
        self.module_ = module
        self._layout = layout_of(self.model._integral_twin())
        self.best_epoch_, self.n_iter_, self.history_ = numbers["best_epoch"], numbers["n_iter"], []
        self.label_form_ = form
        return self


def _as_array(value: Tensor) -> npt.NDArray[Any]:
    """Return the array of a tensor; its bytes if NumPy does not have the type (bfloat16)."""
    value = value.detach().cpu()
    try:
        return np.asarray(value.numpy())
    except TypeError:
        return np.asarray(value.contiguous().reshape(-1).view(torch.uint8).numpy())


def _as_tensor(name: str, array: npt.NDArray[Any], like: Tensor) -> Tensor:
    """Undo `_as_array` for a tensor of the type and shape of `like`."""
    expected = _as_array(like)
    if array.dtype != expected.dtype or array.shape != expected.shape:
        raise DeclarationError(
            f"{name!r} has shape {array.shape} and type {array.dtype}; the network needs {expected.shape} and "
            f"{expected.dtype}"
        )
    found = torch.from_numpy(np.array(array))  # a copy that can be written to, also of 0 dimensions
    return found if found.dtype == like.dtype else found.view(like.dtype).reshape(like.shape)


def collated(X: Any, device: str = "cpu") -> tuple[Tensor, Tensor | None]:
    """A batch of inputs as one tensor, with a mask where they have different lengths; both are padded at the end.

    Parameters
    ----------
    X : matrix or list of arrays
        Arrays of the same shape but for their first axis; of numbers, or of integers that stay integers.
    device : str

    Returns
    -------
    inputs : Tensor
    mask : Tensor of bool, or None
        ``(B, longest)``; None for rows of a matrix, which have no length.

    Examples
    --------
    >>> collated([[1, 2, 3], [4]])
    (tensor([[1, 2, 3],
            [4, 0, 0]]), tensor([[ True,  True,  True],
            [ True, False, False]]))
    """
    if isinstance(X, Tensor):
        return X.to(device), None
    if not isinstance(X, list | tuple):
        dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return torch.as_tensor(_numbers(dense)).to(device), None
    arrays = [_numbers(np.asarray(x)) for x in X]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1 or any(array.ndim == 0 for array in arrays):
        raise DeclarationError(
            f"Inputs must be arrays of the same shape but for their first axis; got {sorted(map(str, shapes))[:3]}."
        )
    lengths = np.array([len(array) for array in arrays])
    padded = np.zeros((len(arrays), int(lengths.max()), *shapes.pop()), dtype=arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    mask = np.arange(int(lengths.max())) < lengths[:, None]
    return torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device)


def _numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers as int64, everything else as float32, the type of a network's weights."""
    if array.dtype.kind not in "iufb":
        raise DeclarationError(f"Inputs of a network are numbers; got an array of {array.dtype}.")
    return array.astype(np.int64 if array.dtype.kind in "iu" else torch_float(), copy=False)


def torch_float() -> Any:
    """NumPy's name of PyTorch's default type."""
    return np.float64 if torch.get_default_dtype() == torch.float64 else np.float32


def _named(loss: StructuredLoss) -> str:
    known = getattr(loss, "surrogate", None) or getattr(loss, "regularizer", None)
    return str(known if known is not None else type(loss).__name__)


def _weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _taken(data: Any, chosen: npt.NDArray[np.intp]) -> Any:
    return data[chosen] if hasattr(data, "shape") else [data[i] for i in chosen.tolist()]


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Under a seed of PyTorch's own generators, which afterwards are as before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield

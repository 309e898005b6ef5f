"""Saving estimators without pickle: one npz file with the arrays and a JSON document inside.

A file holds data only. `load` builds objects of structopt's own classes (and of subclasses of `Persistent` that are
imported already) from their constructor arguments; nothing in the file is executed, and no program, file or module is
chosen by it. ``SECURITY.md`` states the guarantees.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

import structopt
from structopt._archive import UNREADABLE, read_archive, remove_leftovers, write_archive
from structopt.checks import checked
from structopt.errors import DeclarationError, StructoptError
from structopt.estimators._codec import Decoder, Encoder, NotSavable, checked_solver
from structopt.model.forms import LABEL_FORMS
from structopt.train.result import TrainResult

__all__ = ["Persistent", "load"]

_FORMAT, _OLD_FORMAT = "structopt estimator 2", "structopt estimator 1"
#: Learned numbers that predictions are made of.
_WEIGHTS = ("coef_", "intercept_", "w_")

#: Every class that can be loaded, by name.
_CLASSES: dict[str, type[Persistent]] = {}


class Persistent:
    """Mixin of estimators that can be saved: parameters as JSON, learned arrays as npz.

    Saved are the constructor's parameters and every attribute whose name ends in an underscore. A subclass that keeps
    something else overrides `_learned` and `_restore`.

    Examples
    --------
    >>> import tempfile, os, numpy as np
    >>> from structopt.estimators.linear import LinearSVM
    >>> from structopt.estimators.persistence import load
    >>> path = os.path.join(tempfile.mkdtemp(), "svm.npz")
    >>> svm = LinearSVM(lam=0.1).fit([[1.0], [-1.0]], ["yes", "no"])
    >>> svm.save(path)
    >>> again = load(path)
    >>> again, again.predict([[3.0]])
    (LinearSVM(lam=0.1), array(['yes'], dtype='<U3'))
    """

    #: Parameters that belong to a run and not to the model; they are saved as None.
    _not_saved: ClassVar[tuple[str, ...]] = ("callback", "checkpoint", "engine")
    #: What the command line keeps beside the model, to read further files and name labels; saved whatever is learned.
    _notes: ClassVar[tuple[str, ...]] = ("data_options_", "label_names_", "model_source_")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES[_name(cls)] = cls

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to one file that `structopt.estimators.load` reads; no pickle inside.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced.

        Raises
        ------
        DeclarationError
            If a parameter or a learned attribute is neither data nor an object of structopt that its constructor's
            arguments describe.

        Notes
        -----
        A declared model is saved whole: its space, features and losses. Of a solver the name of a profile that ships
        and limits that are numbers are saved; a warning names what stays behind (programs, files, a profile or backend
        of one's own), to be set again after loading.
        """
        encoder = Encoder()
        learned = {**{name: vars(self)[name] for name in self._notes if name in vars(self)}, **self._learned()}
        try:
            document = {
                "version": structopt.__version__,
                "class": _name(type(self)),
                "parameters": {
                    name: encoder.encode(value, name)
                    for name, value in encoder.solver(self._parameters(), type(self).__name__).items()
                },
                "learned": {name: encoder.encode(value, name) for name, value in learned.items()},
            }
        except RecursionError:
            raise DeclarationError(
                f"{type(self).__name__} cannot be saved without pickle: a value holds itself, or is nested too deeply."
            ) from None
        except NotSavable as error:
            raise DeclarationError(
                f"{type(self).__name__} cannot be saved without pickle: {error}. Use pickle or joblib for this one."
            ) from None
        if encoder.left_out:
            warnings.warn(
                f"Not saved, because a file names no programs and no files: {'; '.join(encoder.left_out)}. Set it "
                "again after loading.",
                UserWarning,
                stacklevel=2,
            )
        remove_leftovers(path)
        write_archive(path, _FORMAT, document, encoder.arrays, compressed=True)

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        return {name: None if name in self._not_saved else value for name, value in parameters.items()}

    def _learned(self) -> dict[str, Any]:
        """What `fit` has left behind, by attribute."""
        return {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}

    def _restore(self, learned: dict[str, Any]) -> None:
        """Take back what `_learned` gave."""
        for name, value in learned.items():
            if not name.endswith("_"):
                raise DeclarationError(f"{name!r:.60} is not the name of something learned")
            setattr(self, name, value)

    def _check_restored(self) -> None:
        """Raise DeclarationError unless what was loaded belongs together, so that `predict` can rely on it."""


def check_linear(estimator: Any, n_scores: int | None = None) -> None:
    """Raise unless ``coef_ x + intercept_`` of loaded weights gives one score, or `n_scores` of them."""
    for name in ("coef_", "intercept_", "n_features_in_"):
        if not hasattr(estimator, name):
            raise DeclarationError(f"{name} is missing")
    shape, offset = np.shape(estimator.coef_), np.shape(estimator.intercept_)
    expected = (estimator.n_features_in_,) if n_scores is None else (n_scores, estimator.n_features_in_)
    if (estimator.coef_.shape if sp.issparse(estimator.coef_) else shape) != expected:
        raise DeclarationError(f"coef_ has shape {shape}, and not {expected}")
    if offset not in ((), expected[:-1]):
        raise DeclarationError(f"intercept_ has shape {offset}, and not {expected[:-1]}")


@checked
def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Read an estimator that ``save(path)`` wrote: data only, safe for untrusted files.

    Not to be confused with `structopt.load_model`, which *runs* a file that declares a model (``model()`` and a data
    set, nothing learned); what `load` returns has been trained, and predicts.

    Parameters
    ----------
    path : path
    max_bytes : int, optional
        Refuse a file whose arrays unpack to more; by default one GiB and fifty times the size of the file.

    Returns
    -------
    estimator
        Of the class that was saved, with its parameters and everything learned.

    Raises
    ------
    DeclarationError
        If the file is damaged, from another version, or says what a file may not say.
    """
    try:
        document, arrays = read_archive(path, _FORMAT, max_bytes, undigested=_OLD_FORMAT)
        return _estimator(document, Decoder(arrays))
    except FileNotFoundError:
        raise
    except (StructoptError, *UNREADABLE) as error:
        text = f"{type(error).__name__}: {error}" if not isinstance(error, StructoptError) else str(error)
        raise DeclarationError(
            f"{os.fspath(path)!r} is not a saved estimator of this version ({text:.500}). If another version of "
            "structopt wrote it, load it there, or fit and save again."
        ) from error


def _estimator(document: dict[str, Any], decoder: Decoder) -> Any:
    """The estimator of a document, after a look at every name that becomes an attribute."""
    named = document["class"]
    cls = _CLASSES.get(named)
    if cls is None:
        raise DeclarationError(f"it holds a {named}, which is not known here; import the module that defines it first")
    parameters = {name: decoder.decode(value) for name, value in document["parameters"].items()}
    known = set(cls._get_param_names())  # type: ignore[attr-defined]
    if not parameters.keys() <= known:
        raise DeclarationError(
            f"it was saved by structopt {document['version']}, whose {named} has other parameters than that of this "
            f"version, {structopt.__version__}: {', '.join(sorted(parameters.keys() - known))}"
        )
    # Where to write a checkpoint, and what to call, belongs to a run; no file decides it.
    parameters |= {name: None for name in cls._not_saved if name in known}
    estimator = cls(**checked_solver(parameters, f"{named} of the file"))
    learned = {name: decoder.decode(value) for name, value in document["learned"].items()}
    for name, value in learned.items():
        _check_learned(cls, name, value)
    estimator._restore(learned)
    if learned.keys() - set(cls._notes):
        estimator._check_restored()
    return estimator


def _check_learned(cls: type, name: str, value: Any) -> None:
    """What is learned is data: no name of a method or of a private attribute, and weights that are numbers."""
    if not name.isidentifier() or name.startswith("_") or hasattr(cls, name):
        raise DeclarationError(f"{name!r:.60} is not the name of something that {cls.__name__} learns")
    if name in ("n_features_in_", "n_iter_") and not (type(value) is int and value >= 0):
        raise DeclarationError(f"{name} is {value!r:.60}, not a number of something")
    if name == "label_form_" and value is not None and value not in LABEL_FORMS:
        raise DeclarationError(f"label_form_ is {value!r:.60}, not one of {', '.join(LABEL_FORMS)}")
    if name == "result_" and not isinstance(value, TrainResult):
        raise DeclarationError("result_ is not the result of a training")
    if name in _WEIGHTS:
        numbers = np.asarray(value.data if sp.issparse(value) else value)
        if numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
            raise DeclarationError(f"{name} has entries that are not finite numbers")


def _name(cls: type) -> str:
    """Its own name for a class of structopt, whatever file it lives in; the full one for others."""
    own = cls.__module__.partition(".")[0] == "structopt"
    return cls.__qualname__ if own else f"{cls.__module__}.{cls.__qualname__}"

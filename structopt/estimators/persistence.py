"""Saving estimators without pickle: one npz file with the arrays and a JSON document inside.

A file holds data only. `load` builds objects of structopt's own classes (and of subclasses of `Persistent` that are
imported already) from their constructor arguments; nothing in the file is executed.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import structopt
from structopt.errors import DeclarationError
from structopt.estimators._codec import Decoder, Encoder, NotSavable

__all__ = ["Persistent", "load"]

_FORMAT = "structopt estimator 1"
_DOCUMENT = "json"

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
    _not_saved: ClassVar[tuple[str, ...]] = ("callback", "checkpoint")
    #: What the command line keeps beside the model, to read further files and name labels; saved whatever is learned.
    _notes: ClassVar[tuple[str, ...]] = ("data_options_", "label_names_", "model_source_")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES[_name(cls)] = cls

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
        """
        encoder = Encoder()
        learned = {**{name: vars(self)[name] for name in self._notes if name in vars(self)}, **self._learned()}
        try:
            document = {
                "format": _FORMAT,
                "version": structopt.__version__,
                "class": _name(type(self)),
                "parameters": {name: encoder.encode(value, name) for name, value in self._parameters().items()},
                "learned": {name: encoder.encode(value, name) for name, value in learned.items()},
            }
        except NotSavable as error:
            raise DeclarationError(
                f"{type(self).__name__} cannot be saved without pickle: {error}. Use pickle or joblib for this one."
            ) from None
        text = json.dumps(document, allow_nan=False)
        arrays = {**encoder.arrays, _DOCUMENT: np.frombuffer(text.encode(), dtype=np.uint8)}
        target = Path(path)
        temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
            os.replace(temporary, target)  # a killed save leaves the old file
        finally:
            temporary.unlink(missing_ok=True)

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        return {name: None if name in self._not_saved else value for name, value in parameters.items()}

    def _learned(self) -> dict[str, Any]:
        """What `fit` has left behind, by attribute."""
        return {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}

    def _restore(self, learned: dict[str, Any]) -> None:
        """Take back what `_learned` gave."""
        for name, value in learned.items():
            setattr(self, name, value)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that ``save(path)`` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        Of the class that was saved, with its parameters and everything learned.
    """
    document, arrays = _read(path)
    structopt_class = _CLASSES.get(document["class"])
    if structopt_class is None:
        raise DeclarationError(
            f"{os.fspath(path)!r} holds a {document['class']}, which is not known here; import the module that "
            "defines it first."
        )
    decoder = Decoder(arrays)
    parameters = {name: decoder.decode(value) for name, value in document["parameters"].items()}
    try:
        estimator = structopt_class(**parameters)
    except TypeError as error:
        raise DeclarationError(
            f"{os.fspath(path)!r} was saved by structopt {document['version']}, whose {document['class']} has other "
            f"parameters than that of {structopt.__version__}: {error}."
        ) from None
    estimator._restore({name: decoder.decode(value) for name, value in document["learned"].items()})
    return estimator


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        document = json.loads(arrays.pop(_DOCUMENT).tobytes())
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']!r}")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise DeclarationError(f"{os.fspath(path)!r} is not a saved estimator of this version ({error}).") from error
    return document, arrays


def _name(cls: type) -> str:
    """Its own name for a class of structopt, whatever file it lives in; the full one for others."""
    own = cls.__module__.partition(".")[0] == "structopt"
    return cls.__qualname__ if own else f"{cls.__module__}.{cls.__qualname__}"

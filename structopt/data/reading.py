"""`read`: a data file of any known format, by its suffix."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.utils import Bunch

from structopt.checks import checked
from structopt.data._files import existing, plain_name
from structopt.data.arff import read_arff
from structopt.data.conll import read_conll
from structopt.data.npz import read_npz
from structopt.data.svmlight import read_svmlight
from structopt.data.table import read_csv
from structopt.errors import DeclarationError

__all__ = ["FORMATS", "format_of", "read"]

#: Reader and suffixes of every format; a further format is a line here.
FORMATS: dict[str, tuple[Callable[..., Bunch], tuple[str, ...]]] = {
    "arff": (read_arff, (".arff",)),
    "conll": (read_conll, (".conll", ".conllu", ".bio", ".iob")),
    "csv": (read_csv, (".csv", ".tsv")),
    "npz": (read_npz, (".npz",)),
    "svmlight": (read_svmlight, (".svm", ".svmlight", ".libsvm")),
}


@checked
def read(path: str | Path, format: str | None = None, **options: Any) -> Bunch:
    """Read a data file.

    Parameters
    ----------
    path : path
        The suffix determines the format: ``.arff``, ``.conll .conllu .bio .iob``, ``.csv .tsv``, ``.npz``, ``.svm
        .svmlight .libsvm``; texts may be compressed (``.gz``).
    format : str, optional
        ``"arff"``, ``"conll"``, ``"csv"``, ``"npz"`` or ``"svmlight"``, whatever the suffix.
    **options
        Of the format's reader, such as ``labels`` (which columns are labels) and ``n_features``: see `read_arff`,
        `read_conll`, `read_csv`, `read_npz`, `read_svmlight`.

    Returns
    -------
    Bunch
        With at least ``X`` and ``y``; what they look like is in the description of the reader.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import structopt as so
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.csv"
    >>> _ = path.write_text("a,b,first,second\\n1,2,0,1\\n3,4,1,1\\n", encoding="utf-8")
    >>> data = so.data.read(path, labels=["first", "second"])
    >>> data.X.shape, data.y.tolist()
    ((2, 2), [[0, 1], [1, 1]])
    """
    found = existing(path)
    reader = FORMATS[format_of(found, format)][0]
    known = list(inspect.signature(reader).parameters)[1:]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise DeclarationError(f"{reader.__name__} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}.")
    return reader(found, **options)


@checked
def format_of(path: Path, format: str | None = None) -> str:
    """The name of a file's format: the given one, or that of its suffix."""
    if format is not None:
        if format not in FORMATS:
            raise DeclarationError(f"format must be one of {', '.join(FORMATS)}, got {format!r}.")
        return format
    for name, (_, suffixes) in FORMATS.items():
        if plain_name(path).endswith(suffixes):
            return name
    known = " ".join(suffix for _, suffixes in FORMATS.values() for suffix in suffixes)
    raise DeclarationError(f"The suffix of {path.name!r} is of no known format ({known}); give format=.")

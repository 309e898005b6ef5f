"""CoNLL files: one token per line, a blank line between sentences; words become hashed features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import Bunch

from structopt.checks import checked, shown, whole
from structopt.data._files import lines_of, plain_name, read_text
from structopt.errors import DeclarationError

__all__ = ["read_conll", "token_features"]

Sentence = list[tuple[str, ...]]

# Columns of CoNLL-U: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC.
_FORM, _UPOS, _HEAD = 1, 3, 6
#: scikit-learn's hashing counts in 32 bits; a width beyond them, or of 0, is a division by zero in compiled code.
_WIDEST = 2**31 - 1


@checked
def read_conll(
    path: str | Path,
    labels: int | None = None,
    *,
    word: int | None = None,
    n_features: int = 4096,
    features: Callable[[Sequence[str], int], Iterable[str]] | None = None,
    max_bytes: int | None = None,
) -> Bunch:
    """Read columns separated by tabs or spaces, also ``.gz``; ``.conllu`` is known by its suffix.

    Parameters
    ----------
    path : path
    labels : int, optional
        The column of the tags, counted from 0 (negative: from the end); the last one by default, UPOS in CoNLL-U.
    word : int, optional
        The column of the words; the first one by default, FORM in CoNLL-U.
    n_features : int
        Width of the hashed features, which need no dictionary and so are the same for every file.
    features : callable, optional
        Of the words of a sentence and a position: strings that describe the token. Default: `token_features`.
    max_bytes : int, optional
        Reject a file that is larger after unpacking; by default a compressed one may unpack to one GiB and fifty times
        its own size.

    Returns
    -------
    Bunch
        ``X`` (a list with a CSR matrix, token by feature, for every sentence), ``y`` (a list of lists of tags, or None
        in a file of words alone), ``words``, ``label_names`` (tags that occur, sorted), ``sentences`` (all columns),
        and for CoNLL-U ``heads`` (if the words have any).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.conll"
    >>> _ = path.write_text("Ada\\tB-PER\\nsleeps\\tO\\n\\nYes\\tO\\n", encoding="utf-8")
    >>> data = read_conll(path)
    >>> data.words, data.y, data.X[0].shape
    ([['Ada', 'sleeps'], ['Yes']], [['B-PER', 'O'], ['O']], (2, 4096))
    """
    width = whole("n_features", n_features, 1, _WIDEST)
    path = Path(path)
    universal = plain_name(path).endswith(".conllu")
    sentences = _sentences(read_text(path, max_bytes), universal, path.name)
    words = _column(sentences, word if word is not None else (_FORM if universal else 0), path.name)
    if labels is None and sentences and all(len(cells) == 1 for sentence in sentences for cells in sentence):
        blank = np.array([], dtype=str)  # words alone: the last column is the first one
        X = _hashed(words, features or token_features, width)
        return Bunch(X=X, y=None, words=words, label_names=blank, sentences=sentences)
    tags = _column(sentences, labels if labels is not None else (_UPOS if universal else -1), path.name)
    data = Bunch(
        X=_hashed(words, features or token_features, width),
        y=tags,
        words=words,
        label_names=np.array(sorted({tag for row in tags for tag in row}), dtype=str),
        sentences=sentences,
    )
    if universal:
        heads = _heads(sentences, path.name)
        if heads is not None:
            data["heads"] = heads
    return data


def _heads(sentences: Sequence[Sentence], where: str) -> list[list[int]] | None:
    """The heads of the words, each a word of the sentence or 0; None if no word has one."""
    rows = _column(sentences, _HEAD, where)
    if all(head == "_" for row in rows for head in row):
        return None
    for number, row in enumerate(rows):
        for word, head in enumerate(row):
            if not (head.isascii() and head.isdigit() and len(head) < 10 and int(head) <= len(row)):
                raise DeclarationError(
                    f"{where}: the head {head[:20]!r} of word {word + 1} in sentence {number + 1} is not 0 or a "
                    "word of it."
                )
    return [[int(head) for head in row] for row in rows]


@checked
def token_features(words: Sequence[str], position: int) -> list[str]:
    """What a tagger sees of a token: the word, its ends, its shape, and its neighbours.

    Parameters
    ----------
    words : sequence of str
        A sentence.
    position : int
        Its place in the sentence, from 0.

    Returns
    -------
    list of str

    Examples
    --------
    >>> token_features(["In", "Paris"], 1)
    ['bias', 'word=paris', 'prefix=par', 'suffix=ris', 'suffix=is', 'shape=Xx', 'before=in', 'after=</s>']
    """
    if (
        not isinstance(words, Sequence)
        or not 0 <= position < len(words)
        or not all(isinstance(word, str) for word in words)
    ):
        raise DeclarationError(
            f"words must be texts and position that of one of them, got {shown(words)} and {position}."
        )
    token = words[position]
    lower = token.lower()
    return [
        "bias",
        f"word={lower}",
        f"prefix={lower[:3]}",
        f"suffix={lower[-3:]}",
        f"suffix={lower[-2:]}",
        f"shape={_shape(token)}",
        f"before={words[position - 1].lower() if position else '<s>'}",
        f"after={words[position + 1].lower() if position + 1 < len(words) else '</s>'}",
    ]


def _shape(token: str) -> str:
    """Capitals, small letters, digits and others, each run written once."""
    runs = ""
    for letter in token:
        kind = "X" if letter.isupper() else "x" if letter.islower() else "d" if letter.isdigit() else "-"
        runs += kind if not runs.endswith(kind) else ""
    return runs


def _sentences(text: str, universal: bool, where: str) -> list[Sentence]:
    sentences: list[Sentence] = [[]]
    for number, line in enumerate(lines_of(text), start=1):
        if not line.strip():
            if sentences[-1]:
                sentences.append([])
            continue
        if line.startswith("-DOCSTART-") or (universal and line.startswith("#")):
            continue
        cells = tuple(line.split("\t")) if "\t" in line else tuple(line.split())
        if universal and not cells[0].isdigit():
            continue  # multiword tokens 1-2 and empty nodes 1.1
        if sentences[-1] and len(cells) != len(sentences[-1][0]):
            raise DeclarationError(
                f"{where}, line {number}: {len(cells)} columns where the sentence began with {len(sentences[-1][0])}."
            )
        sentences[-1].append(cells)
    return [sentence for sentence in sentences if sentence]


def _column(sentences: Sequence[Sentence], k: int, where: str) -> list[list[str]]:
    try:
        return [[cells[k] for cells in sentence] for sentence in sentences]
    except IndexError:
        least = min(len(sentence[0]) for sentence in sentences)
        raise DeclarationError(f"{where} has {least} columns; there is no column {k} (counted from 0).") from None


def _hashed(words: Sequence[Sequence[str]], features: Callable[[Sequence[str], int], Any], width: int) -> list[Any]:
    if not words:
        return []
    hasher = FeatureHasher(n_features=width, input_type="string", alternate_sign=False)
    tokens = sp.csr_array(hasher.transform(features(row, t) for row in words for t in range(len(row))))
    ends = np.cumsum([len(row) for row in words])
    return [tokens[end - len(row) : end] for row, end in zip(words, ends.tolist(), strict=True)]

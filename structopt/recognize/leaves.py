"""Single leaves of a hierarchy: one leaf is 1, and every other column is the sum of the leaves below it."""

from __future__ import annotations

import numpy as np

from structopt.recognize.grouping import BoolArray
from structopt.recognize.normalize import NormalForm
from structopt.recognize.records import Leaves

__all__ = ["build_leaves", "leaf_blocks"]


def leaf_blocks(form: NormalForm) -> BoolArray:
    """Blocks with one row ``sum of leaves == 1`` and rows ``y == sum of leaves``, one for each other column.

    The leaves form a simplex, and the other columns are linear in them.
    """
    one, leaf = _leaves(form)
    sums = form.unit & (form.row_lower == 0) & (form.row_upper == 0)
    above = sums[form.row] & ~leaf[form.column]
    sign = np.zeros(form.n_rows)
    sign[form.row[above]] = form.value[above]
    sums &= np.bincount(form.row[above], minlength=form.n_rows) == 1
    sums[form.row[sums[form.row] & ~above & (form.value != -sign[form.row])]] = False
    passed = form.passing(one | sums, form.binary & (leaf | (form.degree == 1)))
    return np.asarray(passed & (np.bincount(form.row_block[one], minlength=form.n_blocks) == 1))


def build_leaves(form: NormalForm) -> Leaves:
    """The ancestors of every leaf of a form with one block."""
    one, leaf = _leaves(form)
    below = ~one[form.row] & leaf[form.column]
    owner = np.zeros(form.n_rows, dtype=np.int64)
    owner[form.row[~leaf[form.column]]] = form.column[~leaf[form.column]]
    ends = np.flatnonzero(leaf)
    last = np.concatenate([form.column[below], ends])
    column = np.concatenate([owner[form.row[below]], ends])
    order = np.lexsort((column, column == last, last))
    ptr = np.append(0, np.cumsum(np.bincount(last, minlength=form.n_columns)[ends]))
    return Leaves(ptr, column[order], bool(form.integer.all()))


def _leaves(form: NormalForm) -> tuple[BoolArray, BoolArray]:
    """Return the rows ``sum == 1`` and their columns."""
    one = form.unit & (form.minus == 0) & (form.row_lower == 1) & (form.row_upper == 1)
    leaf = np.zeros(form.n_columns, dtype=bool)
    leaf[form.column[one[form.row]]] = True
    return one, leaf

"""Columns that follow from others by one equality row each (docs/mathematics/oracles).

A column that occurs in one row only, an equality row, is an affine function of the other columns of this row. If
their bounds and the other rows imply its own bounds, the space is the graph of this function over a smaller space:
the space without the column and without the row. A linear objective over the graph is one over the smaller space.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from structopt.recognize.grouping import BoolArray, IntArray
from structopt.recognize.normalize import MAX_ENTRIES, Dependent, NormalForm, Normalized, is_whole
from structopt.space.compiled import FloatArray

__all__ = ["without_dependent"]

#: Relative room for the rounding of sums of fractions.
_ROOM = 1e-12


def without_dependent(found: Normalized, candidates: IntArray) -> Normalized | None:
    """Substitute some of the columns `candidates` that follow from others; None if there are none."""
    form = found.form
    if form is None or not form.n_rows:
        return None
    entry = _determined(form, np.isin(form.columns, candidates))
    entry = entry[_bounds_are_implied(form, entry)] if entry.size else entry
    if not entry.size:
        return None
    n, rows, columns, factor = form.n_columns, form.row[entry], form.column[entry], form.value[entry]
    number = np.full(form.n_rows, -1, dtype=np.int64)
    number[rows] = np.arange(rows.size)
    left_rows = number < 0
    kept = left_rows[form.row]
    # Normalisation leaves a column with one value in the rows that it did not divide.
    fixed = (form.lower == form.upper) & (np.bincount(form.column[kept], minlength=n) == 0)
    fixed &= is_whole(form.lower) | ~form.integer
    fixed[columns] = False
    left = ~fixed
    left[columns] = False

    others = ~kept
    others[entry] = False
    own = number[form.row[others]]
    matrix = sp.csr_array((-form.value[others] / factor[own], (own, form.column[others])), shape=(rows.size, n))
    const = form.row_lower[rows] / factor + matrix[:, fixed] @ form.lower[fixed]
    names = form.columns[columns]
    if found.dependent is not None:  # columns that an earlier round substituted by columns of this round
        earlier, weight, shift = found.dependent
        const = np.concatenate([shift + weight[:, columns] @ const + weight[:, fixed] @ form.lower[fixed], const])
        matrix = sp.vstack([weight + weight[:, columns] @ matrix, matrix], format="csr")
        names = np.concatenate([earlier, names])
    reduced = form.kept(left_rows, left, np.ones(1, dtype=np.bool_))
    return replace(
        found,
        form=reduced,
        fixed_columns=np.concatenate([found.fixed_columns, form.columns[fixed]]),
        fixed_values=np.concatenate([found.fixed_values, form.lower[fixed]]),
        dependent=Dependent(names, sp.csr_array(matrix[:, left]), const),
    )


def _determined(form: NormalForm, allowed: BoolArray) -> IntArray:
    """Return an entry of each equality row whose column occurs nowhere else, by row."""
    single = (form.row_lower == form.row_upper)[form.row] & (allowed & (form.degree == 1))[form.column]
    # An integer column restricts the others unless all its values are integers.
    whole = np.bincount(form.row[~(form.integer[form.column] & is_whole(form.value))], minlength=form.n_rows) == 0
    whole &= is_whole(form.row_lower)
    single &= ~form.integer[form.column] | (whole[form.row] & (np.abs(form.value) == 1.0))
    entries = np.flatnonzero(single)
    row, column = form.row[entries], form.column[entries]
    # The widest bounds are the most likely to be implied.
    order = np.lexsort((form.integer[column], form.lower[column] - form.upper[column], row))
    return entries[order[np.unique(row[order], return_index=True)[1]]]


def _bounds_are_implied(form: NormalForm, entries: IntArray) -> BoolArray:
    """Return whether the bounds of the columns of entries, one per row, follow from the rest of the space."""
    rows, columns, factor = form.row[entries], form.column[entries], form.value[entries]
    others = np.zeros(form.n_rows, dtype=np.bool_)
    others[rows] = True
    others = others[form.row]
    others[entries] = False
    row, value = form.row[others], form.value[others]
    low, high = form.lower[form.column[others]], form.upper[form.column[others]]
    least, most = value * np.where(value > 0, low, high), value * np.where(value > 0, high, low)
    rough = ~(is_whole(value) & is_whole(low) & is_whole(high))
    rough = (np.bincount(row[rough], minlength=form.n_rows) > 0)[rows] | (np.abs(factor) != 1.0)
    side = form.row_lower[rows]
    smallest, largest = (np.bincount(row, terms, form.n_rows)[rows] for terms in (least, most))
    for sums, terms, sign in ((smallest, least, -1.0), (largest, most, 1.0)):
        size = np.bincount(row, np.abs(terms), form.n_rows)[rows] + np.abs(side)
        sums[rough] += sign * _ROOM * size[rough]
    ends = np.sort((side - np.stack([smallest, largest])) / factor, axis=0)
    implied = (form.lower[columns] <= ends[0]) & (ends[1] <= form.upper[columns])
    if not implied.all():
        limit = _packed(form, rows, others, np.flatnonzero(~implied))
        positive = np.bincount(row[value < 0], minlength=form.n_rows)[rows] == 0
        negative = np.bincount(row[value > 0], minlength=form.n_rows)[rows] == 0
        plain = form.unit[rows] & ~rough
        largest = np.where(positive & plain, np.minimum(largest, limit), largest)
        smallest = np.where(negative & plain, np.maximum(smallest, -limit), smallest)
        ends = np.sort((side - np.stack([smallest, largest])) / factor, axis=0)
        implied = (form.lower[columns] <= ends[0]) & (ends[1] <= form.upper[columns])
    return np.asarray(implied)


def _packed(form: NormalForm, rows: IntArray, others: BoolArray, wanted: IntArray) -> FloatArray:
    """Return a bound on the sum of the columns `others` of each of `rows` that a row ``sum x <= u`` with them gives."""
    limit = np.full(rows.size, np.inf)
    # Rows that may be removed in the same step imply nothing.
    packing = form.unit & (form.minus == 0) & is_whole(form.row_upper) & np.isfinite(form.row_upper)
    packing &= np.bincount(form.row[~(form.lower[form.column] >= 0)], minlength=form.n_rows) == 0
    packing[rows] = False
    number = np.full(form.n_rows, -1, dtype=np.int64)
    number[rows[wanted]] = np.arange(wanted.size)
    inside = others & (number[form.row] >= 0)
    beside = packing[form.row]
    size = wanted.size, form.n_columns
    of_rows = sp.csr_array((np.ones(inside.sum()), (number[form.row[inside]], form.column[inside])), shape=size)
    entries = form.column[beside], form.row[beside]
    of_packing = sp.csr_array((np.ones(beside.sum()), entries), shape=(form.n_columns, form.n_rows))
    if np.bincount(form.column[inside], np.diff(of_packing.indptr)[form.column[inside]]).sum() > MAX_ENTRIES:
        return limit
    shared = (of_rows @ of_packing).tocoo()
    contained = shared.data == np.diff(of_rows.indptr)[shared.row]
    np.minimum.at(limit, wanted[shared.row[contained]], form.row_upper[shared.col[contained]])
    return limit

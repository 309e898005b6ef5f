"""Proofs of total unimodularity (docs/mathematics/oracles). Sufficient conditions: a missing proof proves nothing.

A totally unimodular matrix with integral row and column bounds has only integral vertices (ECRM Theorem 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from structopt.recognize._kernels import components, peel
from structopt.recognize.classes import row_classes
from structopt.recognize.grouping import BoolArray, IntArray, group_by
from structopt.recognize.normalize import unit_rows
from structopt.space.compiled import FloatArray

__all__ = ["prove_totally_unimodular"]

_NETWORK = "a network matrix (Heller-Tompkins)"
_TRANSPOSE = "the transpose of a network matrix"
_ROW_INTERVALS = "a matrix with consecutive ones in its rows"
_COLUMN_INTERVALS = "a matrix with consecutive ones in its columns"


def prove_totally_unimodular(matrix: sp.csr_array) -> str | None:
    """A sentence that proves the matrix totally unimodular, or None if no proof was found.

    Rows are first divided by the common magnitude of their entries. Then every connected block must be a network
    matrix, the transpose of one, or have consecutive ones in the given order of columns or rows; blocks that are
    not are reduced (lines with at most one entry and repeated lines change nothing) and tried again.
    """
    divided, magnitude = unit_rows(matrix)
    if not magnitude.all():
        return None
    rest = _Entries(
        np.repeat(np.arange(divided.shape[0]), np.diff(divided.indptr)),
        divided.indices.astype(np.int64),
        divided.data,
        *divided.shape,
    )
    proofs: set[str] = set()
    reduced = False
    while rest.value.size:
        rest = _unproved_blocks(rest, proofs)
        if rest.value.size == 0:
            break
        smaller = _drop_repeated(_drop_repeated(_peel(rest)).transpose()).transpose()
        if smaller.value.size == rest.value.size:
            return None
        rest, reduced = smaller, True
    if not proofs:
        return "nothing is left once lines with one entry are removed"
    after = " once lines with one entry and repeated lines are removed" if reduced else ""
    return f"every block is {' or '.join(sorted(proofs))}{after}"


@dataclass(frozen=True, eq=False)
class _Entries:
    """Entries of a +-1 matrix, by row and then by column."""

    row: IntArray
    column: IntArray
    value: FloatArray
    n_rows: int
    n_columns: int

    def transpose(self) -> _Entries:
        order, _ = group_by(self.column, self.n_columns)
        return _Entries(self.column[order], self.row[order], self.value[order], self.n_columns, self.n_rows)

    def compress(self, keep: BoolArray) -> _Entries:
        """Only the marked entries, lines without entries removed, the order of lines kept."""
        row, n_rows = _renumber(self.row[keep], self.n_rows)
        column, n_columns = _renumber(self.column[keep], self.n_columns)
        return _Entries(row, column, self.value[keep], n_rows, n_columns)


def _renumber(line: IntArray, n: int) -> tuple[IntArray, int]:
    used = np.zeros(n, dtype=bool)
    used[line] = True
    number = np.cumsum(used) - 1
    return number[line], int(used.sum())


def _unproved_blocks(entries: _Entries, proofs: set[str]) -> _Entries:
    """The blocks that pass none of the four direct tests; the names of the tests that helped go to `proofs`."""
    m, size = entries.n_rows, entries.n_rows + entries.n_columns
    _, label = components(entries.row, entries.column + m, size)
    row_label, column_label = label[:m], label[m:]
    block = row_label[entries.row]
    proved = np.zeros(size, dtype=bool)  # by block

    def record(name: str, failing_blocks: IntArray) -> None:
        bad = np.zeros(size, dtype=bool)
        bad[failing_blocks] = True
        new = ~bad[block] & ~proved[block]
        if new.any():
            proofs.add(name)
            proved[block[new]] = True

    record(_NETWORK, block[_fails_network(entries)])
    if not proved[block].all():
        flipped = entries.transpose()
        flipped_block = column_label[flipped.row]
        record(_TRANSPOSE, flipped_block[_fails_network(flipped)])
        if not proved[block].all():
            record(_ROW_INTERVALS, block[_fails_intervals(entries, column_label)])
            record(_COLUMN_INTERVALS, flipped_block[_fails_intervals(flipped, row_label)])
    return entries.compress(~proved[block])


def _fails_network(entries: _Entries) -> BoolArray:
    """Entries whose column has more than two entries, or whose row contradicts itself."""
    crowded = np.bincount(entries.column, minlength=entries.n_columns)[entries.column] > 2
    odd, _ = row_classes(entries.row, entries.column, entries.value, entries.n_rows, entries.n_columns)
    return np.asarray(crowded | odd[entries.row])


def _fails_intervals(entries: _Entries, column_label: IntArray) -> BoolArray:
    """Entries of rows with both signs, or with a gap between their columns.

    A row may have either sign, because negating it changes nothing. Columns of other blocks do not make a gap.
    """
    position = np.empty(entries.n_columns, dtype=np.int64)
    position[group_by(column_label, entries.n_rows + entries.n_columns)[0]] = np.arange(entries.n_columns)
    place = position[entries.column]  # ascending within a row: its columns are of one block
    starts = np.flatnonzero(np.diff(entries.row, prepend=-1))
    ends = np.append(starts[1:], entries.row.size) - 1
    total = np.add.reduceat(entries.value, starts)
    count = ends - starts + 1
    bad = np.zeros(entries.n_rows, dtype=bool)
    bad[entries.row[starts]] = (np.abs(total) != count) | (place[ends] - place[starts] + 1 != count)
    return np.asarray(bad[entries.row])


def _peel(entries: _Entries) -> _Entries:
    """Remove rows and columns with at most one entry until none is left."""
    m, size = entries.n_rows, entries.n_rows + entries.n_columns
    tails = np.concatenate([entries.row, entries.column + m])
    heads = np.concatenate([entries.column + m, entries.row])
    order, ptr = group_by(tails, size)
    alive = peel(ptr, heads[order])
    return entries.compress(alive[entries.row] & alive[entries.column + m])


def _drop_repeated(entries: _Entries) -> _Entries:
    """Remove rows that equal an earlier one up to sign: found by a hash, confirmed entry by entry."""
    if entries.value.size == 0:
        return entries
    starts = np.flatnonzero(np.diff(entries.row, prepend=-1))
    count = np.diff(np.append(starts, entries.row.size))
    rows = entries.row[starts]  # after compress every row has entries
    sign = np.zeros(entries.n_rows)
    sign[rows] = entries.value[starts]
    oriented = entries.value * sign[entries.row]
    weight = np.random.default_rng(0).integers(1, 2**62, size=entries.n_columns, dtype=np.int64)
    signed = np.where(oriented > 0, weight[entries.column], ~weight[entries.column])
    key = np.add.reduceat(signed, starts)  # wraps around, which a hash may
    order = np.lexsort((count, key))
    same = (key[order][1:] == key[order][:-1]) & (count[order][1:] == count[order][:-1])
    later, earlier = order[1:][same], order[:-1][same]
    if later.size == 0:
        return entries
    # Compare the candidates' entries side by side.
    lengths = count[later]
    ends = np.cumsum(lengths)
    offset = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    a, b = np.repeat(starts[later], lengths) + offset, np.repeat(starts[earlier], lengths) + offset
    differs = (entries.column[a] != entries.column[b]) | (oriented[a] != oriented[b])
    equal = ~np.logical_or.reduceat(differs, ends - lengths)
    drop = np.zeros(entries.n_rows, dtype=bool)
    drop[rows[later[equal]]] = True
    return entries.compress(~drop[entries.row])

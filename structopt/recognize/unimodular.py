"""Proofs of total unimodularity (docs/mathematics/oracles). Sufficient conditions: a missing proof proves nothing.

A totally unimodular matrix with integral row and column bounds has only integral vertices (ECRM Theorem 3.1).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from structopt.recognize._kernels import components, peel
from structopt.recognize.classes import row_classes
from structopt.recognize.grouping import BoolArray, IntArray, group_by, repeated_rows
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
    rest = divided
    proofs: set[str] = set()
    reduced = False
    while rest.nnz:
        rest = _unproved_blocks(rest, proofs)
        if rest.nnz == 0:
            break
        smaller = _drop_repeated(_drop_repeated(_peel(rest)).T.tocsr()).T.tocsr()
        if smaller.nnz == rest.nnz:
            return None
        rest, reduced = smaller, True
    if not proofs:
        return "nothing is left once lines with one entry are removed"
    after = " once lines with one entry and repeated lines are removed" if reduced else ""
    return f"every block is {' or '.join(sorted(proofs))}{after}"


def _entries(matrix: sp.csr_array) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows, columns and values of the entries of a +-1 matrix, by row and then by column."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return row, matrix.indices.astype(np.int64), matrix.data


def _compressed(matrix: sp.csr_array, keep: BoolArray) -> sp.csr_array:
    """Only the marked entries, lines without entries removed, the order of lines kept."""
    kept = sp.csr_array((matrix.data * keep, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
    kept.eliminate_zeros()
    return kept[np.diff(kept.indptr) > 0][:, np.bincount(kept.indices, minlength=matrix.shape[1]) > 0]


def _unproved_blocks(matrix: sp.csr_array, proofs: set[str]) -> sp.csr_array:
    """The blocks that pass none of the four direct tests; the names of the tests that helped go to `proofs`."""
    m, size = matrix.shape[0], sum(matrix.shape)
    row, column, _ = _entries(matrix)
    _, label = components(row, column + m, size)
    row_label, column_label = label[:m], label[m:]
    block = row_label[row]
    proved = np.zeros(size, dtype=bool)  # by block

    def record(name: str, failing_blocks: IntArray) -> None:
        bad = np.zeros(size, dtype=bool)
        bad[failing_blocks] = True
        new = ~bad[block] & ~proved[block]
        if new.any():
            proofs.add(name)
            proved[block[new]] = True

    record(_NETWORK, block[_fails_network(matrix)])
    if not proved[block].all():
        flipped = matrix.T.tocsr()
        flipped_block = column_label[_entries(flipped)[0]]
        record(_TRANSPOSE, flipped_block[_fails_network(flipped)])
        if not proved[block].all():
            record(_ROW_INTERVALS, block[_fails_intervals(matrix, column_label)])
            record(_COLUMN_INTERVALS, flipped_block[_fails_intervals(flipped, row_label)])
    return _compressed(matrix, ~proved[block])


def _fails_network(matrix: sp.csr_array) -> BoolArray:
    """Entries whose column has more than two entries, or whose row contradicts itself."""
    row, column, value = _entries(matrix)
    crowded = np.bincount(column, minlength=matrix.shape[1])[column] > 2
    odd, _ = row_classes(row, column, value, *matrix.shape)
    return np.asarray(crowded | odd[row])


def _fails_intervals(matrix: sp.csr_array, column_label: IntArray) -> BoolArray:
    """Entries of rows with both signs, or with a gap between their columns.

    A row may have either sign, because negating it changes nothing. Columns of other blocks do not make a gap.
    """
    row, column, value = _entries(matrix)
    position = np.empty(matrix.shape[1], dtype=np.int64)
    position[group_by(column_label, sum(matrix.shape))[0]] = np.arange(matrix.shape[1])
    place = position[column]  # ascending within a row: its columns are of one block
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    ends = np.append(starts[1:], row.size) - 1
    total = np.add.reduceat(value, starts)
    count = ends - starts + 1
    bad = np.zeros(matrix.shape[0], dtype=bool)
    bad[row[starts]] = (np.abs(total) != count) | (place[ends] - place[starts] + 1 != count)
    return np.asarray(bad[row])


def _peel(matrix: sp.csr_array) -> sp.csr_array:
    """Remove rows and columns with at most one entry until none is left."""
    m = matrix.shape[0]
    row, column, _ = _entries(matrix)
    tails, heads = np.concatenate([row, column + m]), np.concatenate([column + m, row])
    order, ptr = group_by(tails, sum(matrix.shape))
    alive = peel(ptr, heads[order])
    return _compressed(matrix, alive[row] & alive[column + m])


def _drop_repeated(matrix: sp.csr_array) -> sp.csr_array:
    """Remove rows that equal an earlier one up to sign."""
    row, column, value = _entries(matrix)
    drop = np.zeros(matrix.shape[0], dtype=bool)
    drop[repeated_rows(row, column, value, ~drop)[0]] = True
    return _compressed(matrix, ~drop[row])

"""Compiled loops over tables for which numpy and scipy have no single call."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel

__all__ = ["add_joint", "add_scores", "fill_rows", "fill_steps", "mix_rows", "number_groups", "take_rows"]


@kernel
def add_scores(scores: Any, step: int, indptr: Any, indices: Any, data: Any, start: Any, total: Any) -> None:
    """Add the score of each example's label to `total`; row r of the table is scored by row ``step * r`` of `scores`.

    With step 0 one row serves all: tied weights.
    """
    for i in range(total.size):
        score = 0.0
        for r in range(start[i], start[i + 1]):
            for q in range(indptr[r], indptr[r + 1]):
                score += data[q] * scores[step * r, indices[q]]
        total[i] += score


@kernel
def add_joint(indptr: Any, indices: Any, data: Any, start: Any, weights: Any, rows: Any, out: Any) -> None:
    """Add ``weights_i`` times the joint features of every example's label to `out`, (columns, features).

    The product of the transposed table with dense feature rows; for small batches scipy's objects cost more than it.
    """
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        for r in range(start[i], start[i + 1]):
            features = rows[r]
            for q in range(indptr[r], indptr[r + 1]):
                factor = weights[i] * data[q]
                sums = out[indices[q]]
                for k in range(features.size):
                    sums[k] += factor * features[k]


@kernel
def mix_rows(
    sources: Any, shares: Any, start: Any, first: Any, indptr: Any, indices: Any, data: Any, where: Any, out: Any
) -> int:
    """Row by row ``sum_k shares[k, i] * table_{sources[k, i]}`` of example i, without zeros; returns its size.

    The tables stand behind one another: table b has its row pointers from ``first[b]`` on, in `indptr`, which points
    into `indices` and `data`. `where` is scratch, a number per column; `out` is (indptr, indices, data).
    """
    out_indptr, out_indices, out_data = out
    end = 0
    out_indptr[0] = 0
    for i in range(shares.shape[1]):
        for r in range(start[i], start[i + 1]):
            begin = end
            for k in range(shares.shape[0]):
                share = shares[k, i]
                if share == 0.0:
                    continue
                row = first[sources[k, i]] + r
                for q in range(indptr[row], indptr[row + 1]):
                    column = indices[q]
                    p = where[column]  # true of this row only if it leads back to the column
                    if begin <= p < end and out_indices[p] == column:
                        out_data[p] += share * data[q]
                    else:
                        where[column] = end
                        out_indices[end], out_data[end] = column, share * data[q]
                        end += 1
            kept = begin
            for p in range(begin, end):
                if out_data[p] != 0.0:
                    out_indices[kept], out_data[kept] = out_indices[p], out_data[p]
                    kept += 1
            end = kept
            out_indptr[r + 1] = end
    return end


@kernel
def take_rows(sources: Any, start: Any, first: Any, indptr: Any, indices: Any, data: Any, out: Any) -> None:
    """Tables one after the other; the k-th has the rows of table ``sources[k, i]`` for example i.

    The tables given stand as in `mix_rows`; `out` is (row pointers of each, indices, data).
    """
    out_indptr, out_indices, out_data = out
    end = 0
    for k in range(sources.shape[0]):
        first_of_table = end
        out_indptr[k, 0] = 0
        for i in range(sources.shape[1]):
            base = first[sources[k, i]]
            for r in range(start[i], start[i + 1]):
                for q in range(indptr[base + r], indptr[base + r + 1]):
                    out_indices[end], out_data[end] = indices[q], data[q]
                    end += 1
                out_indptr[k, r + 1] = end - first_of_table


@kernel
def fill_rows(rows: Any, first: int, n_columns: int, indptr: Any, indices: Any, data: Any) -> int:
    """The nonzeros of the columns of a dense array from `first` on as the arrays of a CSR matrix; returns their number.

    The arrays have room for all.
    """
    end = 0
    indptr[0] = 0
    for r in range(rows.shape[0]):
        for column in range(n_columns):
            value = rows[r, first + column]
            if value != 0.0:
                indices[end], data[end] = column, value
                end += 1
        indptr[r + 1] = end
    return end


@kernel
def number_groups(rows: Any, indptr: Any, indices: Any, data: Any, integral: Any, group: Any) -> None:
    """Number those of `rows` with equal coefficients of integer variables that are in no row before, in `group`."""
    found = 0
    for r in rows:
        begin, end = indptr[r], indptr[r + 1]
        alike = begin < end
        for q in range(begin, end):
            j = indices[q]
            alike = alike and data[q] == data[begin] and integral[j] and group[j] < 0
        if alike:
            for q in range(begin, end):
                group[indices[q]] = found
            found += 1


@kernel
def fill_steps(rows: Any, owner: Any, steps: Any) -> None:
    """The smallest coefficient of each example, 0 if another is not a multiple of it; `steps` is infinite at first."""
    for r in range(rows.shape[0]):
        least = steps[owner[r]]
        for value in rows[r]:
            size = abs(value)
            if 0.0 < size < least:
                least = size
        steps[owner[r]] = least
    whole = np.ones(steps.size, np.bool_)
    for r in range(rows.shape[0]):
        step = steps[owner[r]]
        for value in rows[r]:
            quotient = value / step
            whole[owner[r]] &= abs(quotient - np.rint(quotient)) <= 1e-9
    for i in range(steps.size):
        if not whole[i] or steps[i] == np.inf:
            steps[i] = 0.0

"""Ground truth minus label, part by part: the coefficients of a cut (`structopt.train.kernels.planes`)."""

from __future__ import annotations

from typing import Any

from structopt._jit import kernel

__all__ = ["differences"]


@kernel
def differences(
    truth: Any, labels: Any, terms: Any, n_table: Any, first_row: int, scale: Any, where: Any, out: Any
) -> None:
    """List the parts in which the labels of a batch differ from the ground truth, example by example.

    Parameters
    ----------
    truth, labels
        ``(indptr, indices, data)``: the part tables of all terms, below one another.
    terms
        ``(starts, columns, width, offset, table)``: where example i's rows of term t begin, ``starts[t, i]``; its
        number of columns and of features per row; where its weights begin; which term is no tied one, or -1.
    n_table
        Number of parts of each example in that term; those of tied terms are numbered behind them.
    first_row
        Number of the batch's first feature row.
    scale
        Factor of each example.
    where
        Scratch, a number per column.
    out
        ``(pointer, part, row, at, value)``, with room for all entries of `truth` and `labels`.
    """
    indptr, indices, data = truth
    label_indptr, label_indices, label_data = labels
    starts, columns, width, offset, table = terms
    pointer, part, row, at, value = out
    end = 0
    pointer[0] = 0
    for i in range(scale.size):
        behind = n_table[i]
        for t in range(columns.size):
            for line in range(starts[t, i], starts[t, i + 1]):
                begin = end
                for q in range(indptr[line], indptr[line + 1]):
                    part[end], value[end] = indices[q], data[q]
                    where[indices[q]] = end
                    end += 1
                for q in range(label_indptr[line], label_indptr[line + 1]):
                    column = label_indices[q]
                    p = where[column]  # true of this row only if it leads back to the column
                    if begin <= p < end and part[p] == column:
                        value[p] -= label_data[q]
                    else:
                        part[end], value[end] = column, -label_data[q]
                        where[column] = end
                        end += 1
                kept = begin
                for p in range(begin, end):
                    if value[p] == 0.0:
                        continue
                    column = part[p]
                    value[kept] = value[p] * scale[i]
                    at[kept] = offset[t] + column * width[t]
                    if t == table:
                        part[kept] = (line - starts[t, i]) * columns[t] + column
                        row[kept] = first_row + line - starts[t, 0]
                    else:
                        part[kept] = behind + column
                        row[kept] = -1
                    kept += 1
                end = kept
            if t != table:
                behind += columns[t]
        pointer[i + 1] = end

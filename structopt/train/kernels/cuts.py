"""Cutting planes stored as labels: storage, heights, inner products and sums (docs/mathematics/training#block-ascent).

Cut k of example i is a label that was once most violated: ``level_ik - <w, psi_ik>`` bounds the example's surrogate
from below, with ``psi_ik = scale (phi(x_i, y_i) - phi(x_i, y_ik))``; the true label is an implicit cut of level 0. A
cut is a list of the *parts* in which its label differs from the ground truth. The parts of an example that some cut
uses stand in its *union*; each is scored once a visit, whatever the number of cuts that have it.

The kernels share five tuples of arrays:

    planes    (count, begin, size, alpha, level, idle, gram): those of example i stand in its first ``count_i`` slots,
              cut k in ``arena[begin_ik : begin_ik + size_ik]``
    arena     (local, value): number of a part in its example's union, and how often the ground truth has it more
              than the label, times the scale
    unions    (begin, used, room, part, row, at): number of the part within its example, its feature row (-1 for a
              tied weight, whose feature is the constant 1), and where its weights begin in w; parts with another
              ``at`` are orthogonal
    features  (X, data, indices, indptr, norms): dense rows, or sparse ones, perhaps of several tables, the others empty
    scratch   (s, stamp, place, clock, fresh, g, change, truth, dense): scores of the union; a number per part, valid
              if its stamp is that of the clock; local numbers of a new cut; heights of the cuts; changes of their
              mass; the true label's inner products with all cuts, zeros; an entry per weight, zeros between calls

Every function takes its tuples apart once, before its loops: numba counts references where it does, and in a loop over
cuts, which took longer than the products.
"""

from __future__ import annotations

from typing import Any

from structopt._jit import any_order, in_place, inner

__all__ = [
    "add_planes",
    "append",
    "compact",
    "dense_cuts",
    "differences",
    "drop",
    "fresh_score",
    "give_back",
    "gram_row",
    "heights",
    "locate",
    "make_slot",
    "merge_lightest",
    "reserve",
    "scores",
    "tidy",
    "weights_of",
]

# ---- products of feature rows: sums in any order, so that they vectorise -------------------------


# The products take few arguments: passing more takes longer than a product of 128 terms.
@any_order
def dense_dot(X: Any, row: int, w: Any, at: int) -> float:
    x = X[row]
    v = w[at : at + x.size]  # j alone is known not to be negative, and so the loop vectorises
    total = 0.0
    for j in range(x.size):
        total += x[j] * v[j]
    return total


@any_order
def dense_add(X: Any, row: int, step: float, w: Any, at: int) -> None:
    x = X[row]
    v = w[at : at + x.size]
    for j in range(x.size):
        v[j] += step * x[j]


@any_order
def sparse_dot(data: Any, indices: Any, first: int, last: int, w: Any, at: int) -> float:
    total = 0.0
    for q in range(first, last):
        total += data[q] * w[at + indices[q]]
    return total


@any_order
def sparse_add(data: Any, indices: Any, first: int, last: int, step: float, w: Any, at: int) -> None:
    for q in range(first, last):
        w[at + indices[q]] += step * data[q]


@any_order
def _gather(local: Any, value: Any, first: int, size: int, s: Any) -> float:
    """``sum value s[local]`` of one cut."""
    numbers, values = local[first : first + size], value[first : first + size]
    total = 0.0
    for q in range(numbers.size):
        total += values[q] * s[numbers[q]]
    return total


@inner
def scores(i: int, n: int, unions: Any, features: Any, w: Any, scratch: Any) -> None:
    """``s_u = <w, f_u>`` of the first n parts of the union of example i."""
    begin, _, _, _, row, at = unions
    X, data, indices, indptr, _ = features
    s = scratch[0]
    first = begin[i]
    sparse = indptr.size > 1
    for u in range(n):
        r, place = row[first + u], at[first + u]
        if r < 0:
            s[u] = w[place]
        elif sparse:
            s[u] = sparse_dot(data, indices, indptr[r], indptr[r + 1], w, place)
        else:
            s[u] = dense_dot(X, r, w, place)


@inner
def heights(i: int, planes: Any, arena: Any, scratch: Any) -> float:
    """Height of every cut of example i into `g`, given the scores; returns the largest (at least 0)."""
    count, begin, size, _, level, _, _ = planes
    local, value = arena
    s, g = scratch[0], scratch[5]
    top = 0.0
    for k in range(count[i]):
        g[k] = level[i, k] - _gather(local, value, begin[i, k], size[i, k], s)
        top = max(top, g[k])
    return top


@inner
def is_news(height: float, top: float, level: float) -> bool:
    """Whether a cut is above all known ones, by more than the rounding of its level and score: known cuts are not.

    The sizes of the terms set the scale and not the height, which goes to 0 with the gap.
    """
    return height > top + 1e-12 * (abs(level) + abs(level - height) + abs(top))


@inner
def fresh_score(first: int, last: int, value: Any, scratch: Any) -> float:
    """<w, psi> of a new cut after `locate` and `scores`."""
    s, fresh = scratch[0], scratch[4]
    total = 0.0
    for q in range(first, last):
        total += value[q] * s[fresh[q - first]]
    return total


@inner
def add_planes(i: int, planes: Any, arena: Any, unions: Any, features: Any, scale: float, w: Any, scratch: Any) -> None:
    """``w += scale * sum_k change_k psi_ik``, every part once; overwrites the scores."""
    count, begin, size, _, _, _, _ = planes
    local, value = arena
    start, used, _, _, row, at = unions
    X, data, indices, indptr, _ = features
    s, change = scratch[0], scratch[6]
    for u in range(used[i]):
        s[u] = 0.0
    for k in range(count[i]):
        mass = scale * change[k]
        if mass != 0.0:
            first, last = begin[i, k], begin[i, k] + size[i, k]
            numbers, values = local[first:last], value[first:last]
            for q in range(numbers.size):
                s[numbers[q]] += mass * values[q]
    sparse = indptr.size > 1
    base = start[i]
    # Parts that both ends of a move have get its rounding error, below that of alpha itself, instead of 0.
    dust = 1e-15 * scale
    for u in range(used[i]):
        r, place = row[base + u], at[base + u]
        if r < 0:
            w[place] += s[u]
        elif abs(s[u]) <= dust:
            continue
        elif sparse:
            sparse_add(data, indices, indptr[r], indptr[r + 1], s[u], w, place)
        else:
            dense_add(X, r, s[u], w, place)


@inner
def gram_row(i: int, slot: int, planes: Any, arena: Any, unions: Any, features: Any, scratch: Any) -> None:
    """Compute the inner products of the cut in `slot` with all cuts of example i; overwrites the scores.

    If parts of different rows share weights, the cut is written out as a dense vector. Its products with the parts
    then take time linear in the number of parts; a loop over pairs of parts was quadratic in the length of a chain.
    """
    count, begin, size, _, _, _, gram = planes
    local, value = arena
    start, used, _, _, row, _ = unions
    norms = features[4]
    s, dense = scratch[0], scratch[8]
    base = start[i]
    first, last = begin[i, slot], begin[i, slot] + size[i, slot]
    only, several = -1, False
    for u in range(used[i]):
        row_u = row[base + u]
        if row_u >= 0:
            several |= only >= 0 and row_u != only
            only = row_u
    if several:
        _add_cut(base, local[first:last], value[first:last], unions, features, dense)
        scores(i, used[i], unions, features, dense, scratch)
        _clear_cut(base, local[first:last], unions, features, dense)
    else:  # all parts are orthogonal
        for u in range(used[i]):
            s[u] = 0.0
        for q in range(first, last):
            row_u = row[base + local[q]]
            s[local[q]] += value[q] if row_u < 0 else value[q] * norms[row_u]
    for k in range(count[i]):
        total = _gather(local, value, begin[i, k], size[i, k], s)
        gram[i, slot, k] = total
        gram[i, k, slot] = total


@inner
def _add_cut(base: int, numbers: Any, values: Any, unions: Any, features: Any, dense: Any) -> None:
    """``dense += psi`` of a cut with these parts of the union that begins at `base`."""
    row, at = unions[4], unions[5]
    X, data, indices, indptr, _ = features
    sparse = indptr.size > 1
    for q in range(numbers.size):
        r, place = row[base + numbers[q]], at[base + numbers[q]]
        if r < 0:
            dense[place] += values[q]
        elif sparse:
            sparse_add(data, indices, indptr[r], indptr[r + 1], values[q], dense, place)
        else:
            dense_add(X, r, values[q], dense, place)


@inner
def _clear_cut(base: int, numbers: Any, unions: Any, features: Any, dense: Any) -> None:
    """Set the entries to 0 that `_add_cut` wrote."""
    row, at = unions[4], unions[5]
    X, _, indices, indptr, _ = features
    sparse = indptr.size > 1
    for q in range(numbers.size):
        r, place = row[base + numbers[q]], at[base + numbers[q]]
        if r < 0:
            dense[place] = 0.0
        elif sparse:
            for p in range(indptr[r], indptr[r + 1]):
                dense[place + indices[p]] = 0.0
        else:
            dense[place : place + X.shape[1]] = 0.0


@inner
def reserve(i: int, n_new: int, planes: Any, arena: Any, unions: Any, ends: Any) -> bool:
    """Whether there is room for a cut of `n_new` parts, and for a merger of two; moves the union if it must grow."""
    count, _, size, _, _, _, _ = planes
    begin, used, room, part, row, at = unions
    needed = 2 * n_new
    for k in range(count[i]):
        needed += size[i, k]
    if ends[0] + needed > arena[0].size:
        return False
    if used[i] + n_new <= room[i]:
        return True
    size_now = 2 * (used[i] + n_new)
    if ends[1] + size_now > part.size:
        return False
    to, source = ends[1], begin[i]
    for u in range(used[i]):
        part[to + u], row[to + u], at[to + u] = part[source + u], row[source + u], at[source + u]
    begin[i], room[i] = to, size_now
    ends[1] = to + size_now
    return True


@inner
def give_back(i: int, unions: Any, ends: Any) -> None:
    """Room of the last union that its cuts do not use: of a label with all pairs on that was no news, nearly all."""
    begin, used, room = unions[0], unions[1], unions[2]
    if begin[i] + room[i] == ends[1]:
        room[i] = min(room[i], used[i] + used[i] // 2)
        ends[1] = begin[i] + room[i]


@inner
def locate(i: int, first: int, last: int, found: Any, unions: Any, scratch: Any) -> int:
    """Number the parts of a new cut, ``found[first:last]``, in the union of example i.

    Parts that no cut has stand behind the union, whose size with them is returned; they belong to it once ``used_i``
    is set to that. The numbers are left in `fresh`.
    """
    begin, used, _, part, row, at = unions
    new_part, new_row, new_at, _ = found
    stamp, place, clock, fresh = scratch[1], scratch[2], scratch[3], scratch[4]
    clock[0] += 1
    now = clock[0]
    base, total = begin[i], used[i]
    for u in range(total):
        p = part[base + u]
        stamp[p], place[p] = now, u
    for q in range(first, last):
        p = new_part[q]
        if stamp[p] != now:
            stamp[p], place[p] = now, total
            part[base + total], row[base + total], at[base + total] = p, new_row[q], new_at[q]
            total += 1
        fresh[q - first] = place[p]
    return total  # type: ignore[no-any-return]


@inner
def append(i: int, first: int, last: int, value_new: Any, height: float, planes: Any, arena: Any, ends: Any,
           scratch: Any) -> int:  # fmt: skip
    """Put a located cut of level `height` into the next slot of example i, without mass; returns the slot."""
    count, begin, size, alpha, level, idle, _ = planes
    local, value = arena
    fresh = scratch[4]
    slot = count[i]
    count[i] += 1
    begin[i, slot], size[i, slot] = ends[0], last - first
    alpha[i, slot], level[i, slot], idle[i, slot] = 0.0, height, 0
    to = ends[0]
    for q in range(first, last):
        local[to], value[to] = fresh[q - first], value_new[q]
        to += 1
    ends[0] = to
    return slot  # type: ignore[no-any-return]


@inner
def drop(i: int, k: int, planes: Any) -> None:
    """Forget cut k; the last cut takes its slot. `tidy` then forgets the parts that it alone had."""
    count, begin, size, alpha, level, idle, gram = planes
    last = count[i] - 1
    if k != last:
        begin[i, k], size[i, k] = begin[i, last], size[i, last]
        alpha[i, k], level[i, k], idle[i, k] = alpha[i, last], level[i, last], idle[i, last]
        for j in range(last):
            gram[i, k, j] = gram[i, last, j]
            gram[i, j, k] = gram[i, j, last]
        gram[i, k, k] = gram[i, last, last]
    alpha[i, last] = 0.0  # a deleted cut must have no mass in its old slot (docs/mathematics/training#block-ascent)
    count[i] = last


@inner
def _reorder(values: Any, first: int, n: int, place: Any, copy: Any) -> None:
    """Move entry u of ``values[first : first + n]`` to ``place[u]``, unless that is negative."""
    for u in range(n):
        copy[u] = values[first + u]
    for u in range(n):
        if place[u] >= 0:
            values[first + place[u]] = copy[u]


@inner
def tidy(i: int, planes: Any, arena: Any, unions: Any, scratch: Any) -> None:
    """Remove the parts that no cut of example i has any more from its union, and put those with rows first.

    In any other order half of the branches of `scores` and `add_planes` were mispredicted.
    """
    count, begin, size, _, _, _, _ = planes
    local = arena[0]
    start, used, _, part, row, at = unions
    place, copy = scratch[2], scratch[4]
    n, base = used[i], start[i]
    for u in range(n):
        place[u] = -1
    for k in range(count[i]):
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            place[local[q]] = 0
    kept, tied, tidy_already = 0, False, True
    for u in range(n):
        tidy_already &= place[u] == 0 and not (tied and row[base + u] >= 0)
        tied |= row[base + u] < 0
        if place[u] == 0 and row[base + u] >= 0:
            place[u] = kept
            kept += 1
        elif place[u] == 0:
            place[u] = -2
    if tidy_already:
        return
    for u in range(n):
        if place[u] == -2:
            place[u] = kept
            kept += 1
    _reorder(part, base, n, place, copy)
    _reorder(row, base, n, place, copy)
    _reorder(at, base, n, place, copy)
    used[i] = kept
    for k in range(count[i]):
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            local[q] = place[local[q]]


@inner
def make_slot(i: int, planes: Any, arena: Any, ends: Any, unions: Any, scratch: Any) -> None:
    """Free a slot in a full working set: that of the cut longest without mass, else by merging two."""
    count, _, _, alpha, _, idle, _ = planes
    oldest = -1
    for k in range(count[i]):
        if alpha[i, k] == 0.0 and (oldest < 0 or idle[i, k] > idle[i, oldest]):
            oldest = k
    if oldest >= 0:
        drop(i, oldest, planes)
    else:
        merge_lightest(i, planes, arena, ends, unions, scratch)


@inner
def merge_lightest(i: int, planes: Any, arena: Any, ends: Any, unions: Any, scratch: Any) -> None:
    """Join the two cuts of least mass into their mixture, which leaves w and the bound as they are.

    Needs room for both cuts' parts behind the end of the arena.
    """
    count, begin, size, alpha, level, idle, gram = planes
    local, value = arena
    used = unions[1]
    place = scratch[2]
    a, b = 0, 1
    if alpha[i, 1] < alpha[i, 0]:
        a, b = 1, 0
    for k in range(2, count[i]):
        if alpha[i, k] < alpha[i, a]:
            a, b = k, a
        elif alpha[i, k] < alpha[i, b]:
            b = k
    mass = alpha[i, a] + alpha[i, b]
    share_a, share_b = alpha[i, a] / mass, alpha[i, b] / mass
    for u in range(used[i]):
        place[u] = -1
    first, end = ends[0], ends[0]
    for k, share in ((a, share_a), (b, share_b)):
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            u = local[q]
            if place[u] < 0:
                place[u] = end
                local[end], value[end] = u, 0.0
                end += 1
            value[place[u]] += share * value[q]
    ends[0] = end
    own = share_a * share_a * gram[i, a, a] + share_b * share_b * gram[i, b, b] + 2 * share_a * share_b * gram[i, a, b]
    for k in range(count[i]):
        mixed = share_a * gram[i, a, k] + share_b * gram[i, b, k]
        gram[i, a, k] = mixed
        gram[i, k, a] = mixed
    gram[i, a, a] = own
    level[i, a] = share_a * level[i, a] + share_b * level[i, b]
    alpha[i, a] = mass
    begin[i, a], size[i, a], idle[i, a] = first, end - first, 0
    alpha[i, b] = 0.0
    drop(i, b, planes)


@in_place
def compact(planes: Any, arena: Any, unions: Any, new_arena: Any, new_unions: Any, ends: Any) -> None:
    """Copy all remaining cuts to the beginning of another arena, and the unions behind one another."""
    count, begin, size = planes[0], planes[1], planes[2]
    local, value = arena
    new_local, new_value = new_arena
    start, used, _, part, row, at = unions
    new_start, new_used, new_room, new_part, new_row, new_at = new_unions
    end, union_end = 0, 0
    for i in range(count.size):
        for k in range(count[i]):
            first = begin[i, k]
            begin[i, k] = end
            for q in range(first, first + size[i, k]):
                new_local[end], new_value[end] = local[q], value[q]
                end += 1
        new_start[i], new_used[i], new_room[i] = union_end, used[i], used[i] + used[i] // 2
        for u in range(used[i]):
            source, to = start[i] + u, union_end + u
            new_part[to], new_row[to], new_at[to] = part[source], row[source], at[source]
        union_end += new_room[i]
    ends[0], ends[1] = end, union_end


@in_place
def weights_of(planes: Any, arena: Any, unions: Any, features: Any, scale: float, w: Any, scratch: Any) -> float:
    """Add ``scale * sum alpha_ik psi_ik`` to w; returns ``sum alpha_ik level_ik``."""
    count, _, _, alpha, level, _, _ = planes
    change = scratch[6]
    total = 0.0
    for i in range(count.size):
        for k in range(count[i]):
            change[k] = alpha[i, k]
            total += alpha[i, k] * level[i, k]
        add_planes(i, planes, arena, unions, features, scale, w, scratch)
    return total


@in_place
def dense_cuts(planes: Any, arena: Any, unions: Any, features: Any, out: Any) -> None:
    """Add the feature difference psi of every cut to its row of `out`, example by example."""
    count, begin, size = planes[0], planes[1], planes[2]
    local, value = arena
    start = unions[0]
    line = 0
    for i in range(count.size):
        for k in range(count[i]):
            first, last = begin[i, k], begin[i, k] + size[i, k]
            _add_cut(start[i], local[first:last], value[first:last], unions, features, out[line])
            line += 1


@in_place
def differences(truth: Any, labels: Any, terms: Any, first_row: Any, scale: Any, where: Any, out: Any) -> None:
    """List the parts in which the labels of a batch differ from the ground truth, example by example.

    Parameters
    ----------
    truth, labels
        ``(indptr, indices, data)``: the part tables of all terms, below one another.
    terms
        ``(starts, columns, width, offset)``: where example i's rows of term t begin, ``starts[t, i]``; its number of
        columns and of features per row; where its weights begin. Parts are numbered term by term.
    first_row
        Number of the batch's first feature row of each term; -1 for tied weights, which have none.
    scale
        Factor of each example.
    where
        Scratch, a number per column.
    out
        ``(pointer, part, row, at, value)``, with room for all entries of `truth` and `labels`.
    """
    indptr, indices, data = truth
    label_indptr, label_indices, label_data = labels
    starts, columns, width, offset = terms
    pointer, part, row, at, value = out
    end = 0
    pointer[0] = 0
    for i in range(scale.size):
        behind = 0
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
                    if first_row[t] >= 0:
                        part[kept] = behind + (line - starts[t, i]) * columns[t] + column
                        row[kept] = first_row[t] + line - starts[t, 0]
                    else:
                        part[kept] = behind + column
                        row[kept] = -1
                    kept += 1
                end = kept
            behind += columns[t] * (starts[t, i + 1] - starts[t, i] if first_row[t] >= 0 else 1)
        pointer[i + 1] = end

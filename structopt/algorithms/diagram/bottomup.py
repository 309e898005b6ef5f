"""Bottom-up reduction, which removes dead ends, merges equal nodes, and splices nodes with one short arc."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel
from structopt.algorithms.diagram.labels import grown, joined_label, rehashed
from structopt.algorithms.diagram.propagation import NO_VALUE

__all__ = ["bottom_up"]

#: Most pairs that splicing a node may add to the labels of arcs; copying more takes longer than keeping the node.
_MOST_COPIES = 4

_HASH_1, _HASH_2 = -4658895280553007687, -7723592293110705685


@kernel
def bottom_up(arc_ptr: Any, arc_head: Any, arc_label: Any, store: Any, table: Any) -> Any:
    """Reduce a layered diagram whose last node is the terminal."""
    # The first result is the number of nodes, or a failure: 0 without a path, -1 if labels get too long. -2 and -3 mean
    # that the second result is a variable that is undetermined, or determined by a tolerance only.
    label_hash, label_ptr, label_variable, label_value, label_counts = store
    n_nodes = len(arc_ptr) - 1
    # A node stands for a label and a node of the reduced diagram: itself, or the head of its only arc. Reduced nodes
    # are numbered from the terminal.
    goes_to, by_label = np.full(n_nodes, -1, np.int32), np.zeros(n_nodes, np.int32)
    goes_to[n_nodes - 1] = 0
    ptr = np.empty(n_nodes + 1, np.int64)
    head, label = np.empty(len(arc_head), np.int32), np.empty(len(arc_head), np.int32)
    node_hash = np.empty(n_nodes, np.int64)
    node_table = np.full(1024, -1, np.int32)
    n_reduced, n_arcs = 1, 0
    ptr[0] = ptr[1] = 0
    entering = np.zeros(n_nodes, np.int64)
    for e in range(arc_ptr[n_nodes]):
        entering[arc_head[e]] += 1
    longest = 1
    scratch_variable, scratch_value = np.empty(64, np.int64), np.empty(64, np.float64)
    for v in range(n_nodes - 2, -1, -1):
        first = n_arcs
        code = np.int64(0)
        for e in range(arc_ptr[v], arc_ptr[v + 1]):
            child = arc_head[e]
            if goes_to[child] < 0:
                continue
            name: Any = np.int64(arc_label[e])
            of_child: Any = np.int64(by_label[child])
            if of_child:
                longest = label_ptr[name + 1] - label_ptr[name]
                longest += label_ptr[of_child + 1] - label_ptr[of_child]
                if longest > len(scratch_variable):
                    scratch_variable, scratch_value = np.empty(2 * longest, np.int64), np.empty(2 * longest, np.float64)
                table = grown(table, label_hash, label_counts)
                name = joined_label(store, table, name, of_child, scratch_variable, scratch_value)
                if name < 0:
                    return -1, 0, ptr[:1], head[:0], label[:0], label_ptr[:1], label_variable[:0], label_value[:0]
            head[n_arcs], label[n_arcs] = goes_to[child], name
            code = (code ^ (name * _HASH_1 + goes_to[child])) * _HASH_2
            code ^= code >> 31
            n_arcs += 1
        if n_arcs == first:
            continue
        of_arc: Any = np.int64(label[first])
        copies = entering[v] * (label_ptr[of_arc + 1] - label_ptr[of_arc])
        if n_arcs == first + 1 and (v == 0 or copies <= _MOST_COPIES):
            goes_to[v], by_label[v] = head[first], label[first]
            n_arcs = first
            continue
        slot = code & (len(node_table) - 1)
        found = -1
        while node_table[slot] >= 0:
            m = node_table[slot]
            if node_hash[m] == code and ptr[m + 1] - ptr[m] == n_arcs - first:
                same = True
                for k in range(n_arcs - first):
                    if head[ptr[m] + k] != head[first + k] or label[ptr[m] + k] != label[first + k]:
                        same = False
                        break
                if same:
                    found = m
                    break
            slot = (slot + 1) & (len(node_table) - 1)
        if found >= 0:
            goes_to[v] = found
            n_arcs = first
            continue
        goes_to[v] = n_reduced
        node_hash[n_reduced] = code
        node_table[slot] = n_reduced
        ptr[n_reduced] = first
        n_reduced += 1
        ptr[n_reduced] = n_arcs
        if 2 * n_reduced > len(node_table):
            node_table = rehashed(node_hash, 1, n_reduced, 4 * len(node_table))
    if goes_to[0] < 0:
        return 0, 0, ptr[:1], head[:0], label[:0], label_ptr[:1], label_variable[:0], label_value[:0]

    # Number the nodes from the root, and the labels by first use. Heads get larger numbers than tails. The last label
    # is the root's.
    n_kept = goes_to[0] + 1  # the root is the last reduced node, and all others are reached from it
    out_ptr = np.empty(n_kept + 1, np.int64)
    out_head, out_label = np.empty(ptr[n_kept], np.int32), np.empty(ptr[n_kept], np.int32)
    number = np.full(label_counts[0], -1, np.int32)
    n_labels = n_pairs = 0
    used = np.empty(label_counts[0], np.int64)
    e = 0
    for v in range(n_kept):
        out_ptr[v] = e
        old = n_kept - 1 - v
        for a in range(ptr[old], ptr[old + 1]):
            if number[label[a]] < 0:
                used[n_labels] = label[a]
                number[label[a]] = n_labels
                n_labels += 1
                n_pairs += label_ptr[label[a] + 1] - label_ptr[label[a]]
            out_head[e], out_label[e] = n_kept - 1 - head[a], number[label[a]]
            e += 1
    out_ptr[n_kept] = e
    root_label = np.int64(by_label[0])
    n_pairs += label_ptr[root_label + 1] - label_ptr[root_label]
    out_label_ptr = np.zeros(n_labels + 2, np.int64)
    out_variable, out_value = np.empty(n_pairs, np.int32), np.empty(n_pairs, np.float64)
    p = 0
    culprit = np.int64(-1)
    for k in range(n_labels + 1):
        old_label = used[k] if k < n_labels else root_label
        for q in range(label_ptr[old_label], label_ptr[old_label + 1]):
            if label_value[q] >= NO_VALUE:
                n_kept = -2 if label_value[q] == NO_VALUE else -3
                culprit = np.int64(label_variable[q])
            out_variable[p], out_value[p] = label_variable[q], label_value[q]
            p += 1
        out_label_ptr[k + 1] = p
    return n_kept, culprit, out_ptr, out_head, out_label, out_label_ptr, out_variable, out_value

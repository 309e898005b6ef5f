"""Sums over all labels of a diagram: log-partition function, expectations, samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel
from structopt._jit.products import dot
from structopt.algorithms.diagram.longest_path import arc_weights, completions, write_pairs

__all__ = ["expectations", "log_sums", "sample_labels"]


@kernel
def _log_sums_from(arrays: Any, weight: Any) -> Any:
    """Return for each node the value of its best path, and the log of the sum of exp(value - best) over its paths."""
    ptr, head, label, _, _, _, _ = arrays
    best = completions(arrays, weight)  # apart from the logarithm, which a large value would round away
    n = len(ptr) - 1
    rest = np.zeros(n)
    for v in range(n - 2, -1, -1):
        sum_ = 0.0
        for e in range(ptr[v], ptr[v + 1]):
            sum_ += np.exp(weight[label[e]] + best[head[e]] - best[v] + rest[head[e]])
        rest[v] = np.log(sum_)
    return best, rest


@kernel
def log_sums(arrays: Any, C: Any, out: Any) -> None:
    """Write ``log sum_z exp(c . z)`` for each row of `C`."""
    for i in range(len(C)):
        weight = arc_weights(arrays, C[i])
        best, rest = _log_sums_from(arrays, weight)
        out[i] = dot(arrays[6], C[i]) + best[0] + rest[0]


@kernel
def expectations(arrays: Any, C: Any, V: Any, mean: Any, out: Any) -> None:
    """Write the expected label under ``exp(c . z) / Z`` and log Z for each row of `C`.

    If `V` is not None, the derivative of the expected label along the rows of `V` takes the place of the label.
    """
    ptr, head, label, label_ptr, label_variable, label_value, const = arrays
    n, n_labels = len(ptr) - 1, len(label_ptr) - 1
    probability, moved, share, log_change = np.empty(n), np.empty(n), np.empty(n_labels), np.empty(n)
    for i in range(len(C)):
        weight = arc_weights(arrays, C[i])
        best, rest = _log_sums_from(arrays, weight)
        out[i] = dot(const, C[i]) + best[0] + rest[0]
        if V is not None:
            slope = arc_weights(arrays, V[i])
            log_change[n - 1] = 0.0
            for v in range(n - 2, -1, -1):  # change of the log of the sum over the paths from each node
                log_change[v] = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    lead = weight[label[e]] + best[head[e]] - best[v]
                    log_change[v] += np.exp(lead + rest[head[e]] - rest[v]) * (slope[label[e]] + log_change[head[e]])
        for v in range(n):
            probability[v] = moved[v] = 0.0
        for k in range(n_labels):
            share[k] = 0.0
        probability[0] = 1.0
        for v in range(n - 1):
            if probability[v] == 0.0:
                continue
            for e in range(ptr[v], ptr[v + 1]):
                lead = weight[label[e]] + best[head[e]] - best[v]
                taken = np.exp(lead + rest[head[e]] - rest[v])
                part = probability[v] * taken
                probability[head[e]] += part
                if V is not None:
                    part = taken * moved[v] + part * (slope[label[e]] + log_change[head[e]] - log_change[v])
                    moved[head[e]] += part
                share[label[e]] += part
        for j in range(mean.shape[1]):
            mean[i, j] = const[j] if V is None else 0.0
        for k in range(n_labels):
            for p in range(label_ptr[k], label_ptr[k + 1]):
                mean[i, label_variable[p]] += share[k] * label_value[p]


@kernel
def sample_labels(arrays: Any, c: Any, random: Any, Z: Any) -> None:
    """Draw independent labels with probability proportional to ``exp(c . z)``."""
    ptr, head, label, _, _, _, const = arrays
    n = len(ptr) - 1
    weight = arc_weights(arrays, c)
    best, rest = _log_sums_from(arrays, weight)
    for i in range(len(Z)):
        z = Z[i]
        assign(z, const)
        v = 0
        while v < n - 1:
            left = random.random()
            at = ptr[v]
            for e in range(ptr[v], ptr[v + 1]):
                lead = weight[label[e]] + best[head[e]] - best[v]
                share = np.exp(lead + rest[head[e]] - rest[v])
                if share > 0.0:
                    at = e  # the last arc with a positive share takes the rounding error
                left -= share
                if left < 0.0:
                    break
            write_pairs(arrays, at, z)
            v = head[at]

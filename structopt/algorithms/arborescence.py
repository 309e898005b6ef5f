"""Maximum spanning arborescences by Chu-Liu/Edmonds and Eisner (docs/mathematics/oracles#arborescences).

Node 0 is the root; ``W[h, m]`` is the score of the arc from head h to modifier m; column 0 and the diagonal are not
read. A label gives the heads of the nodes 1 .. N - 1. ``-inf`` forbids an arc. Ties: the smallest head at every choice
of the algorithm, which is deterministic but no rule about the label.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from structopt._jit import BAD_NUMBER, INFEASIBLE, SOLVED, FloatArray, IntArray, assign, fail, floats, kernel
from structopt.algorithms.enumeration import largest_of_rows
from structopt.algorithms.lawler import BoolArray, best_first
from structopt.algorithms.lawler import k_best as lawler_k_best
from structopt.algorithms.parts import Maxima, Parts, PartSolver
from structopt.errors import DeclarationError

__all__ = [
    "TreeParts",
    "arborescence",
    "arborescence_batch",
    "best_arcs",
    "k_best",
    "marginals_and_change",
    "sample",
    "sums",
]

#: Size of the imaginary step of a derivative: its square vanishes when it is added to 1.
_STEP = 1e-30

_NUMBERS = "an arc's score is NaN or +inf; scores are finite, or -inf where an arc is forbidden."
_EMPTY = "no arborescence avoids the forbidden arcs: some node cannot be reached from the root under these rules."


def arborescence(W: FloatArray, single_root: bool = False, projective: bool = False) -> tuple[IntArray, float]:
    """Return the heads of the best arborescence (-1 for the root, node 0) and its score: Chu-Liu/Edmonds, or Eisner."""
    heads, value, status = solve(floats(W, "W", 2), single_root, projective)
    if status:
        fail(status, _NUMBERS, _EMPTY)
    return heads, value


def arborescence_batch(
    W: FloatArray, sizes: IntArray, single_root: bool = False, projective: bool = False
) -> tuple[IntArray, FloatArray]:
    """Return the best arborescences of many matrices, which are stored flat in `W`, one after the other."""
    heads, values, status, index = solve_batch(floats(W, "W", 1), sizes, single_root, projective)
    if status:
        fail(status, _NUMBERS, _EMPTY, index)
    return heads, values


def k_best(W: FloatArray, k: int, single_root: bool = False, projective: bool = False) -> tuple[IntArray, FloatArray]:
    """The k best arborescences, best first, by Lawler's cells over the modifiers 1, 2, ...: N solves for each label."""
    scores = floats(W, "W", 2)
    heads, value = arborescence(scores, single_root, projective)

    def cells(label: IntArray, position: int, forbidden: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
        return branch(scores, label, position, forbidden, single_root, projective)

    labels, values = lawler_k_best(best_first(heads, value, cells, len(scores)), k)
    return np.array(labels, dtype=np.int64).reshape(len(labels), len(heads)), values


def sums(W: FloatArray, single_root: bool = False, projective: bool = False) -> tuple[FloatArray, FloatArray]:
    """Log-partition functions and marginals of arcs.

    By the matrix-tree theorem where arcs may cross (Koo et al. 2007): of scores that differ by more than about 30 its
    determinant has few correct digits, and is refused. By the inside-outside form of Eisner's algorithm where arcs may
    not cross, for all scores.
    """
    if projective:
        log_z, marginals = np.empty(len(W)), np.zeros(W.shape)
        _inside_outside(np.ascontiguousarray(W, dtype=np.float64), single_root, log_z, marginals)
        return log_z, marginals
    weights, top = _arc_weights(W)
    sign, log_det, inverse = _factored(weights, single_root)
    marginals = _arc_means(weights, inverse, single_root)
    wrong = (sign <= 0) | (np.abs(marginals[:, :, 1:].sum(axis=1) - 1.0).max(axis=1) > 1e-6)
    if wrong.any():
        raise DeclarationError(
            f"row {int(np.argmax(wrong))}: the scores of arcs differ by {float(np.ptp(W[int(np.argmax(wrong))])):.3g}, "
            "too much for the sum over all trees in float64; scale them down."
        )
    return log_det + top.sum(axis=1), np.clip(marginals, 0.0, 1.0)


def marginals_and_change(
    W: FloatArray, V: FloatArray, single_root: bool = False, projective: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return the marginals of `sums`, and the covariances of the arcs times `V`, row by row: their derivatives."""
    if projective:
        # The derivative is the imaginary part after an imaginary step: no difference of close numbers is taken.
        shares = np.zeros(W.shape, dtype=np.complex128)
        _inside_outside(W + 1j * _STEP * V, single_root, np.empty(len(W), dtype=np.complex128), shares)
        return shares.real, shares.imag / _STEP
    weights, _ = _arc_weights(W)
    _, _, inverse = _factored(weights, single_root)
    change = weights * V[:, :, 1:]
    # d inv(L) = -inv(L) dL inv(L); the Laplacian is linear in the weights, the marginals in weights and inverse.
    moved = -inverse @ _laplacian(change, single_root) @ inverse
    marginals = np.clip(_arc_means(weights, inverse, single_root), 0.0, 1.0)
    return marginals, _arc_means(change, inverse, single_root) + _arc_means(weights, moved, single_root)


def _arc_weights(W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``exp(score)`` of the arcs into every token, over the largest of these; and the largest scores."""
    nodes = W.shape[1]
    scores = np.array(W, dtype=np.float64)
    scores[:, np.arange(nodes), np.arange(nodes)] = -np.inf
    top = scores[:, :, 1:].max(axis=1)  # every tree has one arc into each token
    return np.exp(scores[:, :, 1:] - top[:, None]), top


def _laplacian(weights: FloatArray, single_root: bool) -> FloatArray:
    """The matrix whose determinant is the sum over all trees, from weights by head and token."""
    root, inner = weights[:, 0], weights[:, 1:]
    tokens = np.arange(weights.shape[2])
    laplacian = -inner
    laplacian[:, tokens, tokens] = inner.sum(axis=1)
    if single_root:
        laplacian[:, 0] = root
    else:
        laplacian[:, tokens, tokens] += root
    return laplacian


def _factored(weights: FloatArray, single_root: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sign and logarithm of the determinant, and the inverse, which is meaningless if the matrix is singular."""
    laplacian = _laplacian(weights, single_root)
    sign, log_det = np.linalg.slogdet(laplacian)
    with np.errstate(all="ignore"):
        inverse = np.linalg.inv(np.where((sign > 0)[:, None, None], laplacian, np.eye(laplacian.shape[1])))
    return sign, log_det, inverse


def _arc_means(weights: FloatArray, inverse: FloatArray, single_root: bool) -> FloatArray:
    """Weights times the slope of the log-determinant in each: marginals. Linear in weights and in inverse."""
    k, nodes, n_tokens = weights.shape
    tokens = np.arange(n_tokens)
    slope = inverse.transpose(0, 2, 1).copy()  # of the log-determinant in the entries of the matrix
    by_diagonal = slope[:, tokens, tokens]
    marginals = np.zeros((k, nodes, nodes))
    if single_root:  # the first row holds the root's arcs instead
        marginals[:, 0, 1:] = weights[:, 0] * slope[:, 0]
        slope[:, 0], by_diagonal[:, 0] = 0.0, 0.0
    else:
        marginals[:, 0, 1:] = weights[:, 0] * by_diagonal
    marginals[:, 1:, 1:] = weights[:, 1:] * (by_diagonal[:, None, :] - slope)
    return marginals


@kernel
def _log_sum_of(first: Any, second: Any) -> Any:
    """``log sum_r exp(first_r + second_r)``."""
    top = -np.inf
    for r in range(first.size):
        top = max(top, (first[r] + second[r]).real)
    total = first.dtype.type(0.0)
    if top == -np.inf:
        return total + top
    for r in range(first.size):
        total += np.exp(first[r] + second[r] - top)
    return top + np.log(total)


@kernel
def _inside(S: Any, single_root: bool, whole: Any, open_: Any, joined: Any) -> Any:
    """Eisner's program with sums in place of maxima: logarithms of the sums over all spans.

    A tree has one derivation there: the last child of a head is the last to be joined.
    """
    n = S.shape[0]
    whole[:] = -np.inf
    open_[:] = -np.inf
    for s in range(n):
        whole[0, s, s] = whole[1, s, s] = 0.0
    for width in range(1, n):
        for s in range(n - width):
            t = s + width
            last = s + 1 if single_root and s == 0 else t  # a root with a child takes no second one
            joined[s, t] = _log_sum_of(whole[1, s, s:last], whole[0, s + 1 : last + 1, t])
            open_[1, s, t] = joined[s, t] + S[s, t]
            if s:
                open_[0, s, t] = joined[s, t] + S[t, s]
                whole[0, s, t] = _log_sum_of(whole[0, s, s:t], open_[0, s:t, t])
            whole[1, s, t] = _log_sum_of(open_[1, s, s + 1 : t + 1], whole[1, s + 1 : t + 1, t])
    return whole[1, 0, n - 1]


@kernel
def _inside_outside(W: Any, single_root: bool, log_z: Any, marginals: Any) -> None:
    """Run `_inside`, and collect the probabilities of all spans on the way back; scores are real or complex."""
    n = W.shape[1]
    whole, open_, joined = np.empty((2, n, n), W.dtype), np.empty((2, n, n), W.dtype), np.empty((n, n), W.dtype)
    whole_share, open_share = np.empty((2, n, n), W.dtype), np.empty((2, n, n), W.dtype)
    for i in range(W.shape[0]):
        log_z[i] = _inside(W[i], single_root, whole, open_, joined)
        whole_share[:] = 0.0
        open_share[:] = 0.0
        whole_share[1, 0, n - 1] = 1.0
        for width in range(n - 1, 0, -1):
            for s in range(n - width):
                t = s + width
                share = whole_share[1, s, t]
                if share.real > 0.0:
                    for r in range(s + 1, t + 1):
                        p = share * np.exp(open_[1, s, r] + whole[1, r, t] - whole[1, s, t])
                        open_share[1, s, r] += p
                        whole_share[1, r, t] += p
                share = whole_share[0, s, t]
                if share.real > 0.0:
                    for r in range(s, t):
                        p = share * np.exp(whole[0, s, r] + open_[0, r, t] - whole[0, s, t])
                        whole_share[0, s, r] += p
                        open_share[0, r, t] += p
                marginals[i, s, t] = open_share[1, s, t]
                if s:
                    marginals[i, t, s] = open_share[0, s, t]
                share = open_share[1, s, t] + open_share[0, s, t]
                if share.real > 0.0:
                    for r in range(s, s + 1 if single_root and s == 0 else t):
                        p = share * np.exp(whole[1, s, r] + whole[0, r + 1, t] - joined[s, t])
                        whole_share[1, s, r] += p
                        whole_share[0, r + 1, t] += p


@kernel
def _drawn(first: FloatArray, second: FloatArray, total: float, draw: float) -> int:
    """A place r with probability ``exp(first_r + second_r - total)``, by a number between 0 and 1."""
    chosen = 0
    for r in range(first.size):
        share = math.exp(first[r] + second[r] - total)
        if share > 0.0:
            chosen = r  # the last that has any share takes what rounding leaves over
        draw -= share
        if draw < 0.0:
            break
    return chosen


@kernel
def _draw_projective(W: FloatArray, single_root: bool, draws: FloatArray, heads: IntArray) -> None:
    """Trees from the top of the inside table down: of every span, how it was joined.

    `draws` are numbers between 0 and 1, two for each arc of a tree: a whole span of two nodes or more has one open one.
    """
    n = W.shape[0]
    whole, open_, joined = np.empty((2, n, n)), np.empty((2, n, n)), np.empty((n, n))
    _inside(W, single_root, whole, open_, joined)
    spans = np.empty((4 * n, 4), np.int64)  # whole or open, direction, first, last
    for k in range(heads.shape[0]):
        size, used = 1, 0
        spans[0] = 0, 1, 0, n - 1
        while size:
            size -= 1
            is_open, right, s, t = spans[size]
            if s == t:
                continue
            draw = draws[k, used]
            used += 1
            if is_open:
                if right:
                    heads[k, t - 1] = s
                else:
                    heads[k, s - 1] = t
                last = s + 1 if single_root and s == 0 else t
                r = s + _drawn(whole[1, s, s:last], whole[0, s + 1 : last + 1, t], joined[s, t], draw)
                spans[size] = 0, 1, s, r
                spans[size + 1] = 0, 0, r + 1, t
            elif right:
                r = s + 1 + _drawn(open_[1, s, s + 1 : t + 1], whole[1, s + 1 : t + 1, t], whole[1, s, t], draw)
                spans[size] = 1, 1, s, r
                spans[size + 1] = 0, 1, r, t
            else:
                r = s + _drawn(whole[0, s, s:t], open_[0, s:t, t], whole[0, s, t], draw)
                spans[size] = 0, 0, s, r
                spans[size + 1] = 1, 0, r, t
            size += 2


def sample(
    W: FloatArray, size: int, rng: np.random.Generator, single_root: bool = False, projective: bool = False
) -> IntArray:
    """Heads of trees drawn from ``p(tree) ~ exp(score)``.

    By loop-erased random walks to the root (Wilson 1996); where arcs must not cross, by the table of `sums` from its
    top down.
    """
    nodes = len(W)
    if projective:
        heads = np.zeros((size, nodes - 1), dtype=np.int64)
        draws = rng.random((size, 2 * nodes))
        _draw_projective(np.ascontiguousarray(W, dtype=np.float64), single_root, draws, heads)
        return heads
    scores = np.array(W, dtype=np.float64)
    scores[np.arange(nodes), np.arange(nodes)] = -np.inf
    roots = np.zeros(size, dtype=np.int64)
    if single_root:
        shares = sums(W[None], True)[1][0, 0, 1:]
        roots = rng.choice(nodes - 1, size=size, p=shares / shares.sum()).astype(np.int64) + 1
        scores[0] = -np.inf
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - np.where(np.isfinite(scores.max(axis=0)), scores.max(axis=0), 0.0))
    heads = np.zeros((size, nodes - 1), dtype=np.int64)
    for k in range(size):
        _walk(np.cumsum(weights, axis=0), int(roots[k]), int(rng.integers(2**31)), heads[k])
    return heads


@kernel
def _walk(cumulative: FloatArray, root: int, seed: int, heads: IntArray) -> None:
    """One tree: from every token a random walk along heads until it meets the tree, its loops erased."""
    # Inside compiled code there is no other generator; its state is that of this thread.
    np.random.seed(seed)  # noqa: NPY002
    nodes = cumulative.shape[0]
    inside, next_head = np.zeros(nodes, np.bool_), np.zeros(nodes, np.int64)
    inside[0] = True
    if root:
        inside[root] = True
        next_head[root] = 0
    for start in range(1, nodes):
        v = start
        while not inside[v]:
            draw = np.random.random() * cumulative[nodes - 1, v]  # noqa: NPY002
            h = 0
            while h < nodes - 1 and (cumulative[h, v] < draw or cumulative[h, v] == 0.0):
                h += 1
            next_head[v] = h
            v = h
        v = start
        while not inside[v]:
            inside[v] = True
            v = next_head[v]
    for m in range(1, nodes):
        heads[m - 1] = next_head[m]


@kernel
def _prepare(W: FloatArray, S: FloatArray, single_root: bool) -> bool:
    """Copy the arcs that exist into S; for a single root make every root arc dearer than any tree is long.

    The penalty N (max - min) + 1 only decides which arcs are taken; values are read from W. False on NaN or +inf.
    """
    n = W.shape[0]
    low, high, bad = np.inf, -np.inf, False
    for h in range(n):
        for m in range(n):
            w = W[h, m]
            if m == 0 or m == h:
                S[h, m] = -np.inf
                continue
            bad |= not (w < np.inf)
            S[h, m] = w
            if w > -np.inf:
                low, high = min(low, w), max(high, w)
    if single_root and high > -np.inf:
        for m in range(1, n):
            S[0, m] -= n * (high - low) + 1.0
    return not bad


@kernel
def _best_heads(S: FloatArray, alive: BoolArray, best: IntArray) -> bool:
    """Best head of every living node, the smallest on ties. False if one has none."""
    n = S.shape[0]
    top = np.full(n, -np.inf)
    best[:] = -1
    for u in range(n):
        if not alive[u]:
            continue
        row = S[u]
        for v in range(n):
            if row[v] > top[v] and u != v:
                top[v] = row[v]
                best[v] = u
    missing = False
    for v in range(1, n):
        missing |= alive[v] and best[v] < 0
    return not missing


@kernel
def _find_cycle(best: IntArray, alive: BoolArray, cycle: IntArray) -> int:
    """Write one cycle of the best heads into `cycle`; its length, or 0."""
    n = best.size
    mark = np.zeros(n, np.int64)
    mark[0] = -1
    for start in range(1, n):
        if not alive[start] or mark[start]:
            continue
        v = start
        while mark[v] == 0:
            mark[v] = start
            v = best[v]
        if mark[v] == start:
            length, w = 0, v
            while True:
                cycle[length] = w
                length += 1
                w = best[w]
                if w == v:
                    return length
    return 0


@kernel
def _edmonds(S: FloatArray, heads: IntArray) -> bool:
    """Chu-Liu/Edmonds on the dense matrix S, which is overwritten. False if there is no arborescence.

    A cycle is contracted into its first member. Every arc of the contracted graph remembers the arc it stands for; the
    log of a contraction holds the cycle's own arcs and the owner of every node at that time.
    """
    n = S.shape[0]
    heads[:] = -1
    tail, tip = np.empty((n, n), np.int64), np.empty((n, n), np.int64)
    for u in range(n):
        for v in range(n):
            tail[u, v] = u
            tip[u, v] = v
    alive, inside = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    best, cycle, owner = np.empty(n, np.int64), np.empty(n, np.int64), np.arange(n)
    owners = np.empty((n, n), np.int64)
    lengths = np.empty(n, np.int64)
    members, arc_tail, arc_tip = np.empty((n, n), np.int64), np.empty((n, n), np.int64), np.empty((n, n), np.int64)
    level = 0
    while True:
        if not _best_heads(S, alive, best):
            return False
        length = _find_cycle(best, alive, cycle)
        if not length:
            break
        rep = cycle[0]
        inside[:] = False
        for i in range(length):
            v = cycle[i]
            inside[v] = True
            members[level, i], arc_tail[level, i], arc_tip[level, i] = v, tail[best[v], v], tip[best[v], v]
        assign(owners[level], owner)
        lengths[level] = length
        level += 1
        for u in range(n):
            if not alive[u] or inside[u]:
                continue
            enter, leave = -np.inf, -np.inf
            via, out = rep, rep
            for i in range(length):
                v = cycle[i]
                # A cycle's own arcs are finite, so that -inf - -inf cannot occur.
                gain = S[u, v] - S[best[v], v]
                if gain > enter:
                    enter, via = gain, v
                if S[v, u] > leave:
                    leave, out = S[v, u], v
            a, b, c, d = tail[u, via], tip[u, via], tail[out, u], tip[out, u]
            S[u, rep], tail[u, rep], tip[u, rep] = enter, a, b
            S[rep, u], tail[rep, u], tip[rep, u] = leave, c, d
        for i in range(1, length):
            alive[cycle[i]] = False
        for x in range(n):
            if inside[owner[x]]:
                owner[x] = rep
    for v in range(1, n):
        if alive[v]:
            heads[tip[best[v], v]] = tail[best[v], v]
    for back in range(level - 1, -1, -1):
        # Exactly one node of this cycle has a head by now, from outside: its member gives up the cycle's arc.
        for i in range(lengths[back]):
            entered = False
            for x in range(1, n):
                entered |= heads[x] >= 0 and owners[back, x] == members[back, i]
            if entered:
                members[back, i] = -1
        for i in range(lengths[back]):
            if members[back, i] >= 0:
                heads[arc_tip[back, i]] = arc_tail[back, i]
    return True


@kernel
def _eisner(S: FloatArray, single_root: bool, heads: IntArray) -> bool:
    """Eisner's O(N^3) program. Direction 1 has its head at the left end of a span, 0 at the right end."""
    n = S.shape[0]
    whole, open_ = np.full((2, n, n), -np.inf), np.full((2, n, n), -np.inf)
    whole_at, open_at = np.zeros((2, n, n), np.int64), np.zeros((2, n, n), np.int64)
    for s in range(n):
        whole[0, s, s] = whole[1, s, s] = 0.0
    for width in range(1, n):
        for s in range(n - width):
            t = s + width
            best, at = -np.inf, s
            # A root that already has a child (s = 0, r > 0) takes no second one.
            for r in range(s, s + 1 if single_root and s == 0 else t):
                v = whole[1, s, r] + whole[0, r + 1, t]
                if v > best:
                    best, at = v, r
            open_[1, s, t], open_at[1, s, t] = best + S[s, t], at
            if s:
                open_[0, s, t], open_at[0, s, t] = best + S[t, s], at
                best, at = -np.inf, s
                for r in range(s, t):
                    v = whole[0, s, r] + open_[0, r, t]
                    if v > best:
                        best, at = v, r
                whole[0, s, t], whole_at[0, s, t] = best, at
            best, at = -np.inf, t
            for r in range(s + 1, t + 1):
                v = open_[1, s, r] + whole[1, r, t]
                if v > best:
                    best, at = v, r
            whole[1, s, t], whole_at[1, s, t] = best, at
    if whole[1, 0, n - 1] == -np.inf:
        return False
    # Spans to take apart: (whole?, direction, s, t).
    stack = np.empty((2 * n + 2, 4), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 1, 1, 0, n - 1
    depth = 1
    while depth:
        depth -= 1
        kind, side, s, t = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if s == t:
            continue
        if kind:
            r = whole_at[side, s, t]
            first = (1 - side, side, s, r)
            second = (side, side, r, t)
            # Direction 1: open (s, r), whole (r, t); direction 0: whole (s, r), open (r, t).
        else:
            r = open_at[side, s, t]
            if side:
                heads[t] = s
            else:
                heads[s] = t
            first = (1, 1, s, r)
            second = (1, 0, r + 1, t)
        for item in (first, second):
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = item
            depth += 1
    return True


@kernel
def _run(W: FloatArray, S: FloatArray, single_root: bool, projective: bool, heads: IntArray) -> tuple[float, int]:
    """Solve on S (a prepared copy) and read the value from W."""
    n = W.shape[0]
    found = _eisner(S, single_root, heads) if projective else _edmonds(S, heads)
    if not found:
        return -np.inf, INFEASIBLE
    value, children = 0.0, 0
    for m in range(1, n):
        value += W[heads[m], m]
        children += heads[m] == 0
    if single_root and children > 1:
        return -np.inf, INFEASIBLE
    return value, SOLVED


@kernel
def solve(W: FloatArray, single_root: bool, projective: bool) -> tuple[IntArray, float, int]:
    n = W.shape[0]
    heads = np.zeros(n, np.int64)
    S = np.empty((n, n))
    if not _prepare(W, S, single_root and not projective):
        return heads[1:], np.nan, BAD_NUMBER
    value, status = _run(W, S, single_root, projective, heads)
    return heads[1:].copy(), value, status


@kernel
def solve_batch(
    W: FloatArray, sizes: IntArray, single_root: bool, projective: bool
) -> tuple[IntArray, FloatArray, int, int]:
    count = sizes.size
    heads = np.empty(sizes.sum() - count, np.int64)
    values = np.empty(count)
    at, to = 0, 0
    for i in range(count):
        n = sizes[i]
        one, value, status = solve(W[at : at + n * n].reshape(n, n), single_root, projective)
        if status:
            return heads, values, status, i
        assign(heads[to : to + n - 1], one)
        values[i] = value
        at += n * n
        to += n - 1
    return heads, values, SOLVED, -1


@kernel
def branch(
    W: FloatArray, label: IntArray, position: int, forbidden: BoolArray, single_root: bool, projective: bool
) -> tuple[IntArray, FloatArray, IntArray]:
    """The new cells of `lawler.best_first`: to fix a head is to forbid the others."""
    n = W.shape[0]
    cells = n - 1 - position
    labels = np.empty((cells, n - 1), np.int64)
    values = np.full(cells, -np.inf)
    base, S = np.empty((n, n)), np.empty((n, n))
    heads = np.zeros(n, np.int64)
    _prepare(W, base, single_root and not projective)
    for q in range(n - 1):
        if q >= position:
            for h in range(n):
                assign(S[h], base[h])
            for h in range(n):
                if h == label[q] or (q == position and forbidden[h]):
                    S[h, q + 1] = -np.inf
            value, status = _run(W, S, single_root, projective, heads)
            if status == SOLVED:
                assign(labels[q - position], heads[1:])
                values[q - position] = value
        for h in range(n):
            if h != label[q]:
                base[h, q + 1] = -np.inf
    return labels, values, np.arange(position, n - 1)


class TreeParts(PartSolver):
    """The best tree of every sentence; labels are stacked heads, or ``head * n_labels + relation``.

    `sizes` are the numbers of nodes of all examples.
    """

    flat = True

    def __init__(self, sizes: IntArray, n_labels: int, single_root: bool, projective: bool) -> None:
        self._sizes, self.width, self._rules = sizes, n_labels, (single_root, projective)

    def maximize_parts(self, parts: Parts) -> Maxima:
        sizes = self._sizes[parts.examples]
        if self.width > 1:
            return Maxima(*best_arcs(parts.scores, sizes, self.width, *self._rules))
        return Maxima(*arborescence_batch(parts.scores, sizes, *self._rules))


def best_arcs(
    scores: FloatArray, sizes: IntArray, n_labels: int, single_root: bool, projective: bool
) -> tuple[IntArray, FloatArray]:
    """Return heads, relations and values of the best labelled trees of sentences with these numbers of nodes."""
    table = np.ascontiguousarray(scores, dtype=np.float64).reshape(-1, n_labels)
    relation, top = largest_of_rows(table)
    heads, values = arborescence_batch(top, sizes, single_root, projective)
    tokens = sizes - 1
    first = np.cumsum(tokens) - tokens
    token = np.arange(len(heads)) - np.repeat(first, tokens) + 1
    rows = np.repeat(np.cumsum(sizes * sizes) - sizes * sizes, tokens) + heads * np.repeat(sizes, tokens) + token
    return heads * n_labels + relation[rows], values

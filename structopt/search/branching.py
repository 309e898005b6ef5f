"""Branch and bound over the labels of planes, by free queries alone (docs/mathematics/searches).

Where the optimum over the hull is a mixture of two labels, these differ in some 0/1 variable. Fixed to either value it
splits the labels in two: the mixture is in neither part, and the hull of each is searched by itself, from the lines
that are known of the whole. Parts whose bound is no better than the incumbent are done with. A structure whose labels
lie far below their hull is one in which a few variables carry many others with them, a node of a hierarchy its
subtree: fixing these is what the hull needs to come close to the labels.

All parts of all planes are searched in step, a generation at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structopt.plane.batch import IndexArray
from structopt.plane.branches import BranchAnswers, Branches, FixedArray
from structopt.search import walk
from structopt.space.compiled import FloatArray
from structopt.surrogates import Surrogate
from structopt.surrogates.compiled import clipped_all

__all__ = ["Incumbents", "branch_and_bound"]

#: Relative distance from an edge's λ at which one of its ends is the only answer.
_BESIDE = 1e-4
_MAX_ROUNDS = 60
BoolArray = npt.NDArray[np.bool_]


@dataclass(eq=False)
class Incumbents:
    """What a branch and bound found for each plane.

    Attributes
    ----------
    value, upper : ndarray, shape (n,)
        ψ of the best label known, and what no label exceeds.
    h, g : ndarray, shape (n,)
        Where the label lies, where it was found here.
    Z : ndarray, shape (n, n_variables)
        The label itself.
    better : ndarray of bool, shape (n,)
        Whether it was found here.
    proved : ndarray of bool, shape (n,)
        Whether the search came to its end; elsewhere `upper` is that of the start.
    """

    value: FloatArray
    upper: FloatArray
    h: FloatArray
    g: FloatArray
    Z: FloatArray
    better: BoolArray
    proved: BoolArray

    def offer(self, owner: IndexArray, values: FloatArray, found: BranchAnswers) -> None:
        """Take the labels that are better than what their planes have."""
        order = np.argsort(values, kind="stable")  # of several labels of a plane the best is written last
        order = order[values[order] > self.value[owner[order]]]
        some = owner[order]
        self.value[some], self.h[some], self.g[some] = values[order], found.h[order], found.g[order]
        self.Z[some], self.better[some] = found.Z[order], True


class _Generation(NamedTuple):
    """Parts to be split: states after their walks, the ends of the edge in question, and its λ."""

    owner: IndexArray
    fixed: FixedArray
    states: FloatArray
    upper: FloatArray
    ends: FloatArray
    lam: FloatArray

    def only(self, which: BoolArray) -> _Generation:
        """Some of them."""
        ends = self.ends[:, which]
        return _Generation(
            self.owner[which], self.fixed[which], self.states[which], self.upper[which], ends, self.lam[which]
        )


def branch_and_bound(
    branches: Branches,
    psi: Surrogate,
    states: FloatArray,
    value: FloatArray,
    upper: FloatArray,
    rtol: float,
    max_queries: int | None = None,
) -> Incumbents:
    """The best label of planes whose hulls are known, with a proof.

    Parameters
    ----------
    branches : Branches
    psi : Surrogate
    states : ndarray, shape (n, rows, room)
        The states of their walks (`structopt.search.walk`).
    value, upper : ndarray, shape (n,)
        ψ of the best label known of each plane, and the bound.
    rtol : float
        Relative gap at which a plane is done with.
    max_queries : int, optional
        Queries of each plane at most; a plane that needs more is given up.

    Returns
    -------
    Incumbents
    """
    limit = branches.limit if max_queries is None else min(max_queries, branches.limit)
    return _Search(branches, psi, value, upper, rtol, limit).run(states, upper)


class _Search:
    def __init__(
        self, branches: Branches, psi: Surrogate, value: FloatArray, upper: FloatArray, rtol: float, limit: int
    ) -> None:
        self.branches, self.form, self.rtol, self.limit = branches, psi.form, rtol, limit
        n, width = branches.n, branches.splits.size
        self.found = Incumbents(
            value.copy(), upper.copy(), np.zeros(n), np.zeros(n), np.zeros((n, width)),
            np.zeros(n, dtype=bool), np.ones(n, dtype=bool),
        )  # fmt: skip
        #: What no label of the parts that are done with exceeds.
        self.closed = np.zeros(n)
        self.spent = np.zeros(n, dtype=np.int64)

    def run(self, states: FloatArray, upper: FloatArray) -> Incumbents:
        found = self.found
        parts = self._roots(states, upper)
        while parts.owner.size:
            parts = self._split(parts)
        done = found.proved
        found.upper[done] = np.minimum(found.upper, np.maximum(self.closed, found.value))[done]
        return found

    def _ask(self, owner: IndexArray, fixed: FixedArray, lam: FloatArray) -> BranchAnswers:
        answer = self.branches.query(owner, fixed, lam)
        self.spent += np.bincount(owner, minlength=self.branches.n)
        values = np.empty(owner.size)
        clipped_all(self.form.numbers, answer.h, answer.g, values)
        self.form.check()
        self.found.offer(owner, values, answer)
        return answer

    def _stop_at_limit(self, owner: IndexArray) -> None:
        """Give up planes that these queries would take beyond the limit."""
        more = np.bincount(owner, minlength=self.branches.n)
        self._give_up(np.flatnonzero((more > 0) & (self.spent + more > self.limit)))

    def _give_up(self, owner: IndexArray) -> None:
        self.found.proved[owner] = False

    def _is_done(self, owner: IndexArray, upper: FloatArray) -> BoolArray:
        """Parts without a label better than the incumbent by more than `rtol`, whose bounds are kept."""
        value = self.found.value[owner]
        done = (upper <= value * (1.0 + 1e-10)) | ((value > 0.0) & (value >= (1.0 - self.rtol) * upper))
        np.maximum.at(self.closed, owner[done], upper[done])
        return np.asarray(done | ~self.found.proved[owner])

    def _roots(self, states: FloatArray, upper: FloatArray) -> _Generation:
        """The planes themselves. A walk knows where the ends of its edge lie; a query beside its λ asks for each."""
        n = self.branches.n
        owner, fixed = np.arange(n), np.full((n, self.branches.splits.size), -1, dtype=np.int8)
        numbers, lam = np.empty((2, n), dtype=np.intp), np.empty(n)
        walk.peak_edges(states, self.form.numbers, numbers, lam)
        self.form.check()
        has_edge = (numbers[0] >= 0) & np.isfinite(lam) & (lam > 0.0)
        self._give_up(owner[~has_edge])
        self._stop_at_limit(np.concatenate([owner, owner]))
        has_edge &= self.found.proved
        owner, lam = owner[has_edge], lam[has_edge]
        if not owner.size:
            return _Generation(owner, fixed[:0], states[:0], upper[:0], np.empty((2, 0, fixed.shape[1])), lam)
        both = np.concatenate([lam * (1.0 - _BESIDE), lam * (1.0 + _BESIDE)])
        answer = self._ask(np.concatenate([owner, owner]), np.concatenate([fixed[has_edge]] * 2), both)
        ends = answer.Z.reshape(2, owner.size, -1)
        parts = _Generation(owner, fixed[has_edge], states[has_edge], upper[has_edge], ends, lam)
        return parts.only(~self._is_done(owner, parts.upper))

    def _split(self, parts: _Generation) -> _Generation:
        """Fix a variable of every part to 0 and to 1, search both, and return what is left to be split."""
        # What a variable is worth at the edge, by itself and for those that depend on it.
        gain = np.abs(self.branches.costs(parts.owner, parts.lam)) * (1.0 + self.branches.ties)
        gain[(parts.ends[0] == parts.ends[1]) | ~self.branches.splits] = -1.0
        variable = gain.argmax(axis=1)
        every = np.arange(parts.owner.size)
        stuck = gain[every, variable] < 0.0
        self._give_up(parts.owner[stuck])
        kept = np.flatnonzero(~stuck & self.found.proved[parts.owner])
        parent, chosen = np.repeat(kept, 2), np.tile([0, 1], kept.size)
        owner, fixed = parts.owner[parent], parts.fixed[parent]
        fixed[np.arange(parent.size), variable[parent]] = chosen
        known = parts.ends[:, parent]
        H, G = self._places(owner, known)
        at = np.take_along_axis(known, variable[parent][None, :, None], axis=2)[:, :, 0]
        H[at != chosen] = np.nan
        left = parts.upper[parent]
        rooms = walk.new_states(parent.size, parts.states.shape[2] + 12)
        walked = _Walks(self, owner, fixed, known)
        walked.begin(parts.states, parent, H, G, parts.lam[parent], rooms)
        walked.walk()
        return walked.rest(left)

    def _places(self, owner: IndexArray, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        H, G = np.empty(Z.shape[:2]), np.empty(Z.shape[:2])
        for k in range(len(Z)):
            H[k], G[k] = self.branches.places(owner, Z[k])
        return H, G


class _Walks:
    """The walks of a generation in step."""

    def __init__(self, search: _Search, owner: IndexArray, fixed: FixedArray, known: FloatArray) -> None:
        self.search, self.owner, self.fixed = search, owner, fixed
        n = owner.size
        self.codes, self.lams, self.upper = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
        #: Labels by number: those known and the answers, a table and the parts that it is for.
        self.labels: list[tuple[IndexArray, FloatArray]] = [(np.arange(n), Z) for Z in known]

    def begin(
        self,
        parents: FloatArray,
        parent: IndexArray,
        H: FloatArray,
        G: FloatArray,
        lam: FloatArray,
        states: FloatArray,
    ) -> None:
        """The states of all parts, and their first λ."""
        form, values = self.search.form, self.search.found.value[self.owner]
        walk.split_all(
            parents, parent, form.numbers, H, G, values, lam, states, self.codes, self.lams, self.upper
        )  # fmt: skip
        form.check()
        self.states, self.n_lines = states, parents.shape[2]

    def walk(self) -> None:
        """Query all open parts, round by round."""
        search = self.search
        branches, form = search.branches, search.form
        step, offset = branches.step[self.owner], branches.offset[self.owner]
        for _ in range(_MAX_ROUNDS):
            self._stop_where_done()
            search._stop_at_limit(self.owner[self.codes == walk.ASK])
            some = np.flatnonzero((self.codes == walk.ASK) & search.found.proved[self.owner])
            if not some.size:
                break
            self.states = walk.make_room_for(self.states, self.n_lines + len(self.labels))
            answer = search._ask(self.owner[some], self.fixed[some], self.lams[some])
            self.codes[some[answer.empty]], self.upper[some[answer.empty]] = walk.OPTIMAL, 0.0
            full = ~answer.empty
            asked = some[full]
            numbers = np.full(asked.size, len(self.labels))
            walk.raise_values(self.states, search.found.value[self.owner])
            walk.advance_all(
                self.states, form.numbers, asked, answer.bound[full], answer.h[full], answer.g[full], numbers,
                step, offset, self.codes, self.lams, self.upper,
            )  # fmt: skip
            form.check()
            self.labels.append((asked, answer.Z[full]))

    def _stop_where_done(self) -> None:
        value = self.search.found.value[self.owner]
        low = (value > 0.0) & (value >= (1.0 - self.search.rtol) * self.upper)
        self.codes[low | ~self.search.found.proved[self.owner]] = walk.GAP

    def rest(self, limit: FloatArray) -> _Generation:
        """The parts that have to be split; `limit` is the bound of those that they came from."""
        search = self.search
        upper = np.minimum(self.upper, limit)
        left = ~search._is_done(self.owner, upper)
        n = self.owner.size
        numbers, lam = np.empty((2, n), dtype=np.intp), np.empty(n)
        walk.peak_edges(self.states, search.form.numbers, numbers, lam)
        search.form.check()
        no_edge = left & ((numbers[0] < 0) | ~np.isfinite(lam))
        search._give_up(self.owner[no_edge])
        left &= ~no_edge & search.found.proved[self.owner]
        ends = np.zeros((2, n, self.fixed.shape[1]))
        for number, (some, Z) in enumerate(self.labels):
            for k in range(2):
                mine = numbers[k, some] == number
                ends[k, some[mine]] = Z[mine]
        return _Generation(self.owner, self.fixed, self.states, upper, ends, lam).only(left)

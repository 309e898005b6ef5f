"""Dependency trees whose arcs have labels, the relations between tokens and their heads."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt.algorithms import arborescence as kernels
from structopt.algorithms.arborescence import best_arcs
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.checks import checked, floats, hashable, number, shown, walkable, whole
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Table, Term
from structopt.losses import TaskLoss
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.expressions import Expression
from structopt.structures.arborescence import Arborescence, TreeAlgorithm

__all__ = ["LabelledArborescence", "WrongArcs"]


class WrongArcs(TaskLoss):
    """Number of tokens with a wrong head or relation; ``normalize=True`` divides by the number of tokens."""

    @checked
    def __init__(self, n_labels: int, label_cost: float = 1.0, normalize: bool = False) -> None:
        self.n_labels = whole("n_labels", n_labels, low=1)
        self.label_cost = number("label_cost", label_cost, low=0.0, high=1.0)
        self.normalize = normalize

    def _nodes(self, size: int) -> int:
        return math.isqrt(size // self.n_labels)

    def _scale(self, size: int) -> float:
        return 1.0 / max(1, self._nodes(size) - 1) if self.normalize else 1.0

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        coef, const = self.linear_batch(np.asarray(truth).reshape(1, -1))
        return coef[0], float(const[0])

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        arcs = np.asarray(truths, dtype=np.float64)
        scale, by_label = self._scale(arcs.shape[1]), arcs.reshape(-1, self.n_labels)
        # The right head is worth 1 - label_cost under any label, and the rest under the right one.
        heads = np.repeat(by_label.sum(axis=1), self.n_labels).reshape(arcs.shape)
        coef = -(1.0 - self.label_cost) * heads - self.label_cost * arcs
        return scale * coef, scale * arcs.sum(axis=1)

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        nodes = self._nodes(np.size(truth))
        codes = [_codes(np.asarray(arcs).reshape(nodes, nodes, self.n_labels)) for arcs in (y, truth)]
        wrong_head = codes[0] // self.n_labels != codes[1] // self.n_labels
        wrong = np.where(wrong_head, 1.0, self.label_cost * (codes[0] != codes[1]))
        return self._scale(np.size(truth)) * float(wrong.sum())

    def counted(self, size: int) -> FloatArray | None:
        return None if self.normalize or self.label_cost != 1.0 else np.ones(size)

    def __repr__(self) -> str:
        options = [] if self.label_cost == 1.0 else [f"label_cost={self.label_cost:g}"]
        options += ["normalize=True"] if self.normalize else []
        return f"WrongArcs({', '.join([str(self.n_labels), *options])})"


class LabelledArborescence(Arborescence):
    """Spanning arborescences with a label on every arc: dependency parsing with relations.

    An input is that of `Arborescence`. A label is an array ``(n, 2)``: for each token its head and the number of the
    relation to it; where relations have names, a list of pairs ``(head, name)``. Every relation has its own weight
    vector over the features of an arc.

    Parameters
    ----------
    labels : int or sequence
        Number of relations, or their names.
    single_root : bool
        Whether exactly one token has the root as its head.
    projective : bool
        Whether arcs must not cross, with the tokens on a line and the root in front.
    loss : TaskLoss, optional
        A loss on the arcs ``(n + 1, n + 1, R)``; `WrongArcs` by default, the number of tokens with a wrong head or
        relation. ``WrongArcs(R, label_cost=0.5)`` makes a wrong relation at the right head half an error.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        See `Arborescence`.

    Notes
    -----
    An arc scores as much as its best relation: one pass over the relations, then the algorithms of `Arborescence`. That
    holds under a loss, too, which is one more score of every arc and relation. Of the k best trees each has its k best
    labellings; the k best of all are among them.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> model = so.structures.LabelledArborescence(["subject", "object"])
    >>> arcs = np.zeros((3, 3, 1))
    >>> arcs[0, 2] = arcs[2, 1] = 1.0
    >>> model.predict([1.0, 0.5], arcs)
    [(2, 'subject'), (0, 'subject')]
    """

    @checked
    def __init__(
        self,
        labels: int | Sequence[Hashable],
        single_root: bool = False,
        projective: bool = False,
        loss: TaskLoss | None = None,
        intercept: bool = False,
        solver: Any = "auto",
    ) -> None:
        if isinstance(labels, str) or (isinstance(labels, int) and labels < 1):
            raise DeclarationError(f"labels is the number of relations or a sequence of their names, got {labels!r}.")
        self.labels = labels if isinstance(labels, int) else list(labels)
        self._names = None if isinstance(self.labels, int) else self.labels
        self._places = {hashable("A relation", name): k for k, name in enumerate(self._names or ())}
        self.n_labels = self.labels if isinstance(self.labels, int) else len(self.labels)
        if not self.n_labels or (self._names is not None and len(self._places) < self.n_labels):
            raise DeclarationError(f"Relations need names that differ, at least one of them; got {shown(labels)}.")
        super().__init__(single_root, projective, "single", loss or WrongArcs(self.n_labels), intercept, solver)

    def _arc_features(self, intercept: bool) -> dict[str, Term]:
        return {"arc": Table(intercept=intercept)}

    def _declare_arcs(self, space: LabelSpace, exists: npt.NDArray[np.bool_]) -> Expression:
        shape = (*exists.shape, self.n_labels)
        return space.integer("arc", shape, 0, np.broadcast_to(exists[:, :, None], shape)).sum(axis=2)

    def algorithm(self, x: Any) -> Algorithm:
        """Chu-Liu/Edmonds or Eisner on the best relation of every arc, for objectives on the arcs."""
        return LabelledTreeAlgorithm(self.key(x), self)  # type: ignore[arg-type]

    # ---- labels ----------------------------------------------------------------------------------

    def _slots_of(self, label: Any, size: int | None) -> IntArray:
        """Return the number ``head * R + relation`` of each token of a label, or raise an error naming the token."""
        if isinstance(label, np.ndarray) and label.ndim == 2 and label.shape[1] == 2:
            pairs: list[Any] = label.tolist()
        else:
            try:
                pairs = list(walkable("A label", label))
                pairs = [pair.tolist() if isinstance(pair, np.ndarray) else tuple(pair) for pair in pairs]
            except (DeclarationError, TypeError):
                raise DeclarationError(
                    f"A label has a head and a relation for each token, got {shown(label)}."
                ) from None
        wrong = next((m for m, pair in enumerate(pairs) if isinstance(pair, str) or len(pair) != 2), None)
        if wrong is not None:
            raise DeclarationError(f"Token {wrong + 1} needs a head and a relation, got {shown(pairs[wrong])}.")
        heads = super()._slots_of([pair[0] for pair in pairs], size)
        relations = [self._relation(pair[1], m + 1) for m, pair in enumerate(pairs)]
        return np.asarray(heads * self.n_labels + np.array(relations, dtype=np.int64))

    def _relation(self, name: Any, token: int) -> int:
        try:
            if self._names is not None:
                return self._places[name]
            if name == int(name) and 0 <= name < self.n_labels:
                return int(name)
        except (KeyError, TypeError, ValueError):
            pass
        known = f"0 to {self.n_labels - 1}" if self._names is None else ", ".join(map(repr, self._names[:10]))
        more = ", ..." if self._names is not None and self.n_labels > 10 else ""
        raise LabelNotInSpace(
            f"The relation of token {token} is {shown(name)}, not one of {known}{more}.", (f"{token}",)
        )

    def _label_of(self, codes: IntArray) -> Any:
        """Return the label of numbers ``head * R + relation``, in the user\'s form."""
        heads, relations = np.divmod(codes, self.n_labels)
        if self._names is None:
            return np.column_stack([heads, relations])
        return [(h, self._names[r]) for h, r in zip(heads.tolist(), relations.tolist(), strict=True)]

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """Return the point of a label: arcs by relation, and the flow along them."""
        n_tokens = None if x is None else cast("int", self.key(x)) - 1
        return self._labelled_point(self._slots_of(label, n_tokens))

    def _labelled_point(self, codes: IntArray) -> FloatArray:
        """Return the point of arcs that are known to form a tree."""
        R, heads = self.n_labels, codes // self.n_labels
        nodes, plain = len(codes) + 1, self._point(heads)
        z = np.zeros(nodes * nodes * (R - 1) + len(plain))
        z[nodes * nodes * R :] = plain[nodes * nodes :]
        z[((heads * nodes) + np.arange(1, nodes)) * R + codes % R] = 1.0
        return z

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """The label of a point; for a fractional one, the labelled tree that agrees with it most."""
        point = floats("z", z, ndim=1)
        R, nodes = self.n_labels, 2
        while self._point_size(nodes) < point.size:
            nodes += 1
        if self._point_size(nodes) != point.size:
            raise DeclarationError(f"A point with {point.size} entries is not one of a tree with {R} relations.")
        return self._label_of(self._codes_at(point, nodes))

    def _codes_at(self, z: FloatArray, nodes: int) -> IntArray:
        """Return ``head * R + relation`` of each token of a point; for a fractional one, of the closest tree."""
        arcs = z[: nodes * nodes * self.n_labels].reshape(nodes, nodes, self.n_labels)
        if np.abs(arcs - np.rint(arcs)).max() < 1e-6:
            return _codes(arcs)
        sizes = np.array([nodes], dtype=np.int64)
        return best_arcs(arcs.ravel(), sizes, self.n_labels, self.single_root, self.projective)[0]

    def _point_size(self, nodes: int) -> int:
        return nodes * nodes * (self.n_labels + 1)

    # ---- numbers of a data set -------------------------------------------------------------------

    def _all_heads(self, flat: npt.NDArray[Any], ptr: IntArray) -> IntArray | None:
        R = self.n_labels
        if flat.ndim != 2 or flat.shape[1] != 2 or flat[:, 1].min() < 0 or flat[:, 1].max() >= R:
            return None
        heads = super()._all_heads(flat[:, 0], ptr)
        return None if heads is None else heads * R + flat[:, 1]

    def _labels_of_slots(self, slots: IntArray, ptr: IntArray) -> list[Any]:
        return [self._label_of(codes) for codes in super()._labels_of_slots(slots, ptr)]

    def _slots_at(self, Z: Iterable[Any], sizes: Sequence[int]) -> IntArray:
        return np.concatenate([self._codes_at(np.asarray(z), size + 1) for z, size in zip(Z, sizes, strict=True)])

    def __repr__(self) -> str:
        options = super().__repr__()[len("Arborescence(") : -1]
        given = self.labels if isinstance(self.labels, int) else f"[{', '.join(map(repr, self.labels[:5]))}"
        given = given if isinstance(given, int) else given + (", ...]" if self.n_labels > 5 else "]")
        return f"LabelledArborescence({given}{', ' + options if options else ''})"


class LabelledTreeAlgorithm(TreeAlgorithm):
    """Best labelled trees of one size; objectives on the flow are left to the solver."""

    def __init__(self, nodes: int, model: LabelledArborescence) -> None:
        super().__init__(nodes, model)
        self.name += " with relations"
        self.n_labels = model.n_labels
        self._labelled_point = model._labelled_point

    def _labelled(self, c: FloatArray) -> FloatArray | None:
        size = self.nodes * self.nodes * self.n_labels
        return None if c[size:].any() else np.ascontiguousarray(c[:size])

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        scores = self._labelled(c)
        if scores is None:
            return None
        codes, value = best_arcs(scores, np.array([self.nodes]), self.n_labels, *self.rules)
        return Optimum(self._labelled_point(codes), float(value[0]), float(value[0]))

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        scores = self._labelled(c)
        if scores is None:
            return None
        if k < 1:
            return Solutions.stacked([], c.size)
        table = scores.reshape(self.nodes, self.nodes, self.n_labels)
        trees, _ = kernels.k_best(np.ascontiguousarray(table.max(axis=2)), k, *self.rules)
        values, found = np.empty(0), np.empty((0, self.nodes - 1), dtype=np.int64)
        tokens = np.arange(1, self.nodes)
        for heads in trees:
            own, relations = _k_best_sums(table[heads, tokens], k)
            values, found = np.append(values, own), np.vstack([found, heads * self.n_labels + relations])
            kept = np.argsort(-values, kind="stable")[:k]
            values, found = values[kept], found[kept]
        points = np.array([self._labelled_point(codes) for codes in found]).reshape(-1, c.size)
        return Solutions(points, values, values)


def _k_best_sums(scores: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
    """The k largest sums of one entry from each row, and the columns: token by token, of the k best so far."""
    values, columns = np.zeros(1), np.empty((1, 0), dtype=np.int64)
    for row in scores:
        sums = (values[:, None] + row).ravel()
        kept = np.argsort(-sums, kind="stable")[:k]
        before, column = np.divmod(kept, len(row))
        values, columns = sums[kept], np.column_stack([columns[before], column])
    return values, columns


def _codes(arcs: FloatArray) -> IntArray:
    """``head * R + relation`` of every token of an integral point's arcs."""
    nodes, _, R = arcs.shape
    return np.asarray(arcs.transpose(1, 0, 2)[1:].reshape(nodes - 1, nodes * R).argmax(axis=1), dtype=np.int64)

"""Dependency trees whose arcs have labels, the relations between tokens and their heads."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt.checks import checked, hashable, number, shown, walkable, whole
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Table, Term
from structopt.losses import TaskLoss
from structopt.losses.variables import WrongEdges
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.expressions import Expression
from structopt.structures.arborescence import Arborescence

__all__ = ["LabelledArborescence", "WrongArcs"]


class WrongArcs(WrongEdges):
    """Number of tokens with a wrong head or relation; ``normalize=True`` divides by the number of tokens."""

    @checked
    def __init__(self, n_labels: int, label_cost: float = 1.0, normalize: bool = False) -> None:
        super().__init__(normalize)
        self.n_labels = whole("n_labels", n_labels, low=1)
        self.label_cost = number("label_cost", label_cost, low=0.0, high=1.0)

    def _forms(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        coef, const = super()._forms(edges)
        # The right head is worth 1 - label_cost under any label, and the rest under the right one.
        heads = np.repeat(coef.reshape(-1, self.n_labels).sum(axis=1), self.n_labels).reshape(coef.shape)
        return (1.0 - self.label_cost) * heads + self.label_cost * coef, const

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        heads = [np.asarray(arcs).reshape(-1, self.n_labels).sum(axis=1) for arcs in (y, truth)]
        return (1.0 - self.label_cost) * super().value(*heads) + self.label_cost * super().value(y, truth)

    def counted(self, size: int) -> FloatArray | None:
        return None if self.normalize or self.label_cost != 1.0 else np.ones(size)


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

    # ---- numbers of a data set -------------------------------------------------------------------

    def _all_heads(self, flat: npt.NDArray[Any], ptr: IntArray) -> IntArray | None:
        R = self.n_labels
        if flat.ndim != 2 or flat.shape[1] != 2 or flat[:, 1].min() < 0 or flat[:, 1].max() >= R:
            return None
        heads = super()._all_heads(flat[:, 0], ptr)
        return None if heads is None else heads * R + flat[:, 1]

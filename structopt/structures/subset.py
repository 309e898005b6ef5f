"""Sets of items within budgets, by decision diagrams."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.algorithms.base import Algorithm
from structopt.algorithms.diagram import DIAGRAMS, DiagramAlgorithm
from structopt.checks import checked, floats
from structopt.errors import DeclarationError, DiagramRefused
from structopt.features import Linear
from structopt.losses import Hamming, TaskLoss
from structopt.model import Model
from structopt.space import LabelSpace

__all__ = ["Subset"]


class Subset(Model):
    """Sets of items whose weights stay within budgets: tags on a page, sentences of a summary, stops of a tour.

    An input is a vector of features. A label is a 0/1 array with an entry per item. Each item has a weight vector.

    Parameters
    ----------
    item_weights : array_like, shape (n_budgets, n_items) or (n_items,)
        The amount that each item takes of each budget. Negative entries give something back.
    budgets : float or array_like, shape (n_budgets,)
        Upper limits: ``item_weights @ y <= budgets``.
    at_least, at_most : int, optional
        Limits on the number of items.
    loss : TaskLoss, optional
        Hamming by default.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        ``"auto"`` is a decision diagram. Any other profile or backend finds every label, in training and prediction,
        over the declared program.

    Notes
    -----
    The space is compiled into a decision diagram (docs/mathematics/oracles#decision-diagrams), which also gives the k
    best sets, sets within further rows, Pareto fronts, and sums over all sets (`Model.log_partition`,
    `Model.marginals`, `Model.sample`). If the diagram gets too wide, the oracle chooses another way, as for any
    declared space. Weights with few different sums, such as small integers, give small diagrams.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> model = so.structures.Subset([[3, 2, 2, 1], [1, 4, 1, 2]], [5, 5], at_least=1)
    >>> model.predict([3.0, 4.0, 2.0, -1.0], [1.0])
    array([1, 1, 0, 0])
    >>> model.oracle().algorithm, model.space().count()
    ('decision diagram', 9)
    >>> model.marginals(np.zeros(4), [1.0]).round(3)
    array([0.444, 0.333, 0.444, 0.333])
    """

    @checked
    def __init__(
        self,
        item_weights: npt.ArrayLike,
        budgets: npt.ArrayLike,
        at_least: int | None = None,
        at_most: int | None = None,
        loss: TaskLoss | None = None,
        intercept: bool = False,
        solver: Any = "auto",
    ) -> None:
        matrix = np.atleast_2d(floats("item_weights", item_weights))
        if matrix.ndim != 2 or not matrix.size:
            raise DeclarationError(f"item_weights must have shape (n_budgets, n_items), got {matrix.shape}.")
        self.item_weights = matrix
        self.budgets = np.atleast_1d(floats("budgets", budgets))
        if self.budgets.shape != matrix.shape[:1]:
            raise DeclarationError(
                f"item_weights has {matrix.shape[0]} rows and budgets {self.budgets.size} entries; each row needs one."
            )
        n = matrix.shape[1]
        low, high = at_least or 0, n if at_most is None else at_most
        if not 0 <= low <= min(high, n):
            raise DeclarationError(f"No set of {n} items has at_least={at_least} and at_most={at_most}.")
        self.at_least, self.at_most = at_least, at_most
        self.intercept = intercept
        space = LabelSpace(f"sets of {n} items within {len(matrix)} budgets")
        y = space.binary("y", n)
        space.subject_to(matrix @ y <= self.budgets, name="budget")
        if low > 0 or high < n:
            space.subject_to(y.sum().between(low, min(high, n)), name="size")
        super().__init__(space, {"y": Linear(intercept=intercept)}, loss or Hamming(), solver=solver)

    def algorithm(self, x: Any = None) -> Algorithm | None:
        """Return the decision diagram of the space, or None if it is too wide."""
        if self.integral == "relax":
            return None
        try:
            return DiagramAlgorithm(DIAGRAMS.get(self.space().compiled))
        except DiagramRefused:
            return None

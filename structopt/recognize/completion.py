"""The variables of a recognised space that follow from others, as index arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from structopt.recognize.grouping import IntArray
from structopt.recognize.normalize import Dependent
from structopt.recognize.structure import Structure
from structopt.space.compiled import FloatArray

__all__ = ["Completion", "completion_of"]


class Completion(NamedTuple):
    """Variables that follow from known 0/1 variables: constants, products of two of them, and sums of all of these."""

    products: IntArray  # each product, and its two factors; shape (3, n_products)
    factors: IntArray  # all variables that are a factor of a product
    fixed: IntArray  # variables with only one value, and these values
    values: FloatArray
    columns: IntArray  # the columns of `dependent.matrix`
    dependent: Dependent | None  # variables that are sums of the others

    def fill(self, points: FloatArray) -> bool:
        """Write the variables that follow into every row of `points`; False if a factor is neither 0 nor 1."""
        given = points.take(self.factors, axis=1)
        if not ((given == 0.0) | (given == 1.0)).all():
            return False
        column, first, second = self.products
        points[:, self.fixed] = self.values
        points[:, column] = points.take(first, axis=1) * points.take(second, axis=1)
        if self.dependent is not None:
            names, matrix, const = self.dependent
            points[:, names] = points.take(self.columns, axis=1) @ matrix.T + const
        return True


def completion_of(structure: Structure, known: IntArray, n_variables: int) -> Completion | None:
    """Return how all other variables follow from the known ones, or None if the records do not tell."""
    is_known = np.zeros(n_variables, dtype=np.bool_)
    is_known[known] = True
    found = [np.empty((3, 0), dtype=np.int64)]
    for part in structure.parts or (structure,):
        if part.record is not None:
            found.append(part.columns[part.record.products])
    products = np.concatenate(found, axis=1)
    products = products[:, ~is_known[products[0]]]
    fixed = ~is_known[structure.fixed_columns]
    dependent = structure.dependent
    if dependent is not None and is_known[dependent.columns].any():
        return None
    size = len(known) + products.shape[1] + np.count_nonzero(fixed)
    size += 0 if dependent is None else dependent.columns.size
    if size < n_variables or not is_known[products[1:]].all():
        return None
    factors = np.unique(products[1:])
    fixed_columns, fixed_values = structure.fixed_columns[fixed], structure.fixed_values[fixed]
    return Completion(products, factors, fixed_columns, fixed_values, structure.columns, dependent)

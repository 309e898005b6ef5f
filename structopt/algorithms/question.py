"""`Question`: the questions about a label space."""

from __future__ import annotations

import enum
from collections.abc import Mapping

__all__ = ["Question", "per_question"]


class Question(enum.Flag):
    """Questions about a label space, as `Oracle.answers` and `Algorithm.answers` list them.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace.from_matrices([[2, 3, 1]], 0, 4)
    >>> so.Question.K_BEST in so.Oracle(space).answers
    True
    >>> so.Question.K_BEST in so.Oracle(space, "highs").answers
    False
    """

    ARGMAX = enum.auto()
    """The best label: `Oracle.maximize` without further arguments, and `Oracle.maximize_batch`."""
    K_BEST = enum.auto()
    """The k best labels: `Oracle.k_best`."""
    OUTSIDE = enum.auto()
    """The best label that is not forbidden: `Oracle.maximize` with ``forbid``."""
    SIDE_ROWS = enum.auto()
    """The best label within rows of one call: `Oracle.maximize` with ``rows``."""
    FRONT = enum.auto()
    """The Pareto front of two criteria: `Oracle.front`."""
    SUMS = enum.auto()
    """Sums over all labels: `Oracle.log_partition`, `Oracle.marginals`, `Oracle.sums`."""
    SAMPLE = enum.auto()
    """Random labels: `Oracle.sample`."""


def per_question(**texts: str) -> Mapping[Question, str]:
    """Return a text for each question that is named."""
    return {Question[name.upper()]: text for name, text in texts.items()}

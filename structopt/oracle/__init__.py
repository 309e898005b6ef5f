"""The oracle: ``argmax c . z`` over a label space, with side constraints, no-good cuts, k-best and batches."""

from structopt.algorithms.question import Question
from structopt.oracle.label import Label, Statistics
from structopt.oracle.oracle import Oracle

__all__ = ["Label", "Oracle", "Question", "Statistics"]

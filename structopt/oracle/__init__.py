"""The oracle: ``argmax c . z`` over a label space, with side constraints, no-good cuts, k-best and batches."""

from structopt.oracle.label import Label, Statistics
from structopt.oracle.oracle import Oracle
from structopt.oracle.question import Question

__all__ = ["Label", "Oracle", "Question", "Statistics"]

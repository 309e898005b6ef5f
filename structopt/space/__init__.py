"""Declare a label space: variables, expressions, rows, and the frozen matrix form they compile to."""

from structopt.space.compiled import CompiledSpace
from structopt.space.expressions import Expression, concatenate
from structopt.space.label_space import LabelSpace
from structopt.space.objective import LinearObjective
from structopt.space.variables import Block

__all__ = ["Block", "CompiledSpace", "Expression", "LabelSpace", "LinearObjective", "concatenate"]

"""`Model` joins a label space with features and a task loss; `Batch` prepares a data set for it."""

from structopt.model.model import Model

__all__ = ["Model"]

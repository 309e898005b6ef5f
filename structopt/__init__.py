"""structopt: declare a label space as a linear or integer program; infer, search and learn with it.

The usual import is ``import structopt as so``. Data flows one way, and each step has its own package or packages:

- declare: `LabelSpace`, `Model`, `structures`, `features`, `losses`, `Hierarchy`, `load_model`
- solve: `Oracle`, `shared_oracle`, `compile_space`, `backends`
- search: `Plane`, `PointPlane`, `surrogates`, `search`
- learn: `train`, `risks`, `regularizers`, `norms`
- use: `StructuredSVM`, `HierarchicalSVM`, `SharedSVM`, `ConditionalRiskMinimizer`, `LinearSVM`, ..., `load`
- look: `plot`, `metrics`, `data`, `testing`
- beside them, with the extra ``torch``: `structopt.torch`, losses and layers for scores from a neural network; with the
  extra ``dask``: `structopt.distributed`, training on the workers of a cluster
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
#: Read by `structopt.errors` before anything else: another project on the package index has the same import name.
__distribution__ = "structopt-learn"

from structopt import backends, errors, features, losses, search, structures, surrogates
from structopt.algorithms.diagram import compile_space
from structopt.hierarchy import Hierarchy
from structopt.model import Model
from structopt.model.library import available_models, load_model
from structopt.oracle import Oracle, shared_oracle
from structopt.oracle.label import Label
from structopt.plane import Plane, PointPlane
from structopt.space import Block, LabelSpace
from structopt.space.expressions import Expression, concatenate

if TYPE_CHECKING:
    from structopt import data, estimators, metrics, norms, plot, risks, testing, train
    from structopt.estimators import (
        CRF,
        AUCMaximizer,
        ConditionalRiskMinimizer,
        FBetaSVM,
        HierarchicalSVM,
        LinearSVM,
        OrdinalRegressor,
        QuantileRegressor,
        RankSVM,
        SharedSVM,
        StructuredSVM,
        load,
    )
    from structopt.risks import regularizers

# Imported when first used: scikit-learn, matplotlib and the trainers take longer to import than most programs to run.
_LAZY_MODULES = ("data", "estimators", "metrics", "norms", "plot", "risks", "testing", "train")
_LAZY_ESTIMATORS = (
    "AUCMaximizer",
    "CRF",
    "ConditionalRiskMinimizer",
    "FBetaSVM",
    "HierarchicalSVM",
    "LinearSVM",
    "OrdinalRegressor",
    "QuantileRegressor",
    "RankSVM",
    "SharedSVM",
    "StructuredSVM",
    "load",
)


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES or name in ("torch", "distributed"):  # these two are extras, and not in __all__
        return import_module(f"structopt.{name}")
    if name == "regularizers":
        return import_module("structopt.risks.regularizers")
    if name in _LAZY_ESTIMATORS:
        return getattr(import_module("structopt.estimators"), name)
    raise AttributeError(f"module 'structopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AUCMaximizer",
    "Block",
    "CRF",
    "ConditionalRiskMinimizer",
    "Expression",
    "FBetaSVM",
    "HierarchicalSVM",
    "Hierarchy",
    "Label",
    "LabelSpace",
    "LinearSVM",
    "Model",
    "Oracle",
    "OrdinalRegressor",
    "Plane",
    "PointPlane",
    "QuantileRegressor",
    "RankSVM",
    "SharedSVM",
    "StructuredSVM",
    "__version__",
    "available_models",
    "backends",
    "compile_space",
    "concatenate",
    "data",
    "errors",
    "estimators",
    "features",
    "load",
    "load_model",
    "losses",
    "metrics",
    "norms",
    "plot",
    "regularizers",
    "risks",
    "search",
    "shared_oracle",
    "structures",
    "surrogates",
    "testing",
    "train",
]

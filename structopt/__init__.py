"""structopt: declare a label space as a linear or integer program; infer, search and learn with it.

The usual import is ``import structopt as so``. Data flows one way, and each step has its own package or packages:

- declare: `LabelSpace`, `Model`, `structures`, `features`, `losses`, `Hierarchy`, `load_model`
- solve: `Oracle`, `Question`, `records`, `compile_space`, `backends`
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

from structopt import errors

if TYPE_CHECKING:
    from structopt import (  # noqa: F401 (not in __all__, see below)
        algorithms,
        backends,
        checks,
        data,
        distributed,
        estimators,
        features,
        frames,
        hierarchy,
        interop,
        losses,
        metrics,
        model,
        norms,
        oracle,
        plane,
        plot,
        programs,
        recognize,
        risks,
        search,
        space,
        stopping,
        structures,
        surrogates,
        testing,
        torch,
        train,
    )
    from structopt.algorithms.diagram import compile_space
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
    from structopt.hierarchy import Hierarchy
    from structopt.model import Model
    from structopt.model.library import available_models, load_model
    from structopt.oracle import Oracle, Question
    from structopt.oracle.label import Label
    from structopt.plane import Plane, PointPlane
    from structopt.recognize import records
    from structopt.risks import regularizers
    from structopt.space import Block, LabelSpace
    from structopt.space.expressions import Expression, concatenate
    from structopt.space.objective import LinearObjective

# Where each name of this module lives. It is imported when it is first used (PEP 562): the compiler, scipy and
# scikit-learn take longer to import than most programs need.
_HOMES = {
    "structopt": (
        "backends data estimators features losses metrics norms plot risks search structures surrogates testing train "
        # Not in __all__: two extras, and the rooms whose names are above or are for those who extend structopt.
        "distributed torch algorithms checks frames hierarchy interop model oracle plane programs recognize space "
        "stopping"
    ),
    "structopt.algorithms.diagram": "compile_space",
    "structopt.estimators": (
        "AUCMaximizer CRF ConditionalRiskMinimizer FBetaSVM HierarchicalSVM LinearSVM OrdinalRegressor "
        "QuantileRegressor RankSVM SharedSVM StructuredSVM load"
    ),
    "structopt.hierarchy": "Hierarchy",
    "structopt.model": "Model",
    "structopt.model.library": "available_models load_model",
    "structopt.oracle": "Oracle Question",
    "structopt.oracle.label": "Label",
    "structopt.plane": "Plane PointPlane",
    "structopt.recognize": "records",
    "structopt.risks": "regularizers",
    "structopt.space": "Block LabelSpace",
    "structopt.space.expressions": "Expression concatenate",
    "structopt.space.objective": "LinearObjective",
}
_REMOVED = {"shared_oracle": "make one structopt.Oracle and pass it on; a Model shares its own"}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker reads the imports above, and so finds a misspelt name

    def __getattr__(name: str) -> Any:
        if name in _REMOVED:
            raise errors.removed_name(f"structopt.{name}", _REMOVED[name])
        if name not in _HOME:
            raise AttributeError(f"module 'structopt' has no attribute {name!r}")
        home = _HOME[name]
        if home in ("structopt", "structopt.recognize", "structopt.risks"):  # modules, not names in one
            found: Any = import_module(f"{home}.{name}")
        else:
            found = getattr(import_module(home), name)
        globals()[name] = found
        return found


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
    "LinearObjective",
    "LinearSVM",
    "Model",
    "Oracle",
    "OrdinalRegressor",
    "Plane",
    "PointPlane",
    "QuantileRegressor",
    "Question",
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
    "records",
    "regularizers",
    "risks",
    "search",
    "structures",
    "surrogates",
    "testing",
    "train",
]

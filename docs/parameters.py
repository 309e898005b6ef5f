"""Makes ``api/parameters.md`` from the docstrings: every parameter of the public interface once, and who takes it.

Every build of the documentation writes the page, which is not in the repository.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import structopt as so

__all__ = [
    "COMMON",
    "MEANINGS",
    "NOTATION",
    "documented",
    "is_result",
    "meanings",
    "page",
    "public_callables",
    "sections",
]

PAGE = Path(__file__).parent / "api" / "parameters.md"

#: Parameters that mean the same everywhere; a docstring may say more about one, and nothing else.
COMMON = {
    "X": "The inputs: a matrix with a row per example, or a list (see the structure).",
    "absolute_tol": "Absolute gap at which to stop; only where there is no scale to be relative to.",
    "average": "Which weights stochastic trainers return: the weighted mean of the iterates, or the last.",
    "batch_size": "Examples per stochastic step.",
    "cache": "Labels known from before, which a search looks at first.",
    "cached_labels": "Labels that a trainer keeps per example, as cutting planes.",
    "cached_passes": "Passes over the cached labels after each pass over the data.",
    "callback": "Called with the result so far after each pass; a true answer stops.",
    "certify": "Whether a stochastic trainer spends one more pass on the objective of its result.",
    "checkpoint": "File that is written while training, and resumed from if it exists.",
    "dtype": "float64 or float32, of large arrays of weights.",
    "integral": 'Whether labels are integral or points of the relaxation (`"relax"`).',
    "intercept": "Append a constant feature, whose weight is the intercept.",
    "intercept_scaling": "The value of that feature: the larger, the less the intercept is regularised.",
    "max_bytes": "Refuse a file that unpacks to more.",
    "max_cuts": "Cutting planes of the whole risk that are kept.",
    "max_memory": "Bytes; training that would need more is refused.",
    "max_passes": "Passes over the data at most; the trainer's own limit by default.",
    "max_programs": "Programs that one prediction may take.",
    "max_queries": "Queries of the λ-oracle at most.",
    "max_rounds": "Rounds at most: training runs of an estimator that alternates, or of solving and separating.",
    "max_seconds": "Seconds at most; no limit by default.",
    "n_jobs": "Threads over examples; -1: one for each core.",
    "random_state": "Seed of whatever is random.",
    "regularizer": "Ω of the objective `lam * Ω(w) + risk(w)`; L2 by default.",
    "risk": "What is minimised beside the regulariser.",
    "rtol": "Relative gap at which an inner search or program may stop; 0: as far as float64 goes.",
    "sample_weight": "Weights of the examples: 2 is an example given twice, 0 one left out.",
    "search": "How most violated labels are found.",
    "solver": '`"auto"`, a profile, the path of a profile, or a backend.',
    "support": "Whether all weights are kept, or those of features that a node has met.",
    "surrogate": "ψ(h, g): a name or a `Surrogate`.",
    "tighten": "Whether and how the declared rows are made tighter, so that more relaxations are integral.",
    "tol": "Relative gap, certified, at which training stops. (Of a `LabelSpace`: by how much a row may be missed.)",
    "trainer": '`"auto"`, a name of `so.train.names()`, or a function of your own.',
    "verbose": "Show one progress bar with the certified gap.",
    "w0": "Weights at which training begins.",
    "warm": "Where the last run of a trainer ended, and where this one begins.",
    "warm_start": "Begin where the last fit of this estimator ended.",
}


#: Letters of the papers and of the field, which stand for more than one thing there: one sentence that covers all uses.
NOTATION = {
    "alpha": "Weights of the nodes of a hierarchy, as in NHSVM; in `GeneralizedScaling` that of the thesis (3.3).",
    "b": "Offset of a cut `<a, w> + b`; in `solve_simplex_qp` the offsets of all cuts.",
    "beta": "The β of what is named after it: of the F_β measure (weight of recall against precision), of β scaling.",
    "C": "Objective coefficients of a batch, a row for each program.",
    "c": "Objective coefficients, one for each variable: a label `z` has the value `c . z`.",
    "delta": "Δ(y, k), the cost of answering k where y is true; in `generalization_bound` the probability of failure.",
    "f": "Predictions, a number or a row of them for each example, document or node.",
    "g": "The second coordinate of the (h, g) plane, the task loss: its values, or its coefficients and constant.",
    "gamma": "Γ(y, k), the scale of margins; in `ConditionalRiskMinimizer` that of scikit-learn's kernels.",
    "h": "The first coordinate of the (h, g) plane, the margin: its values, or its coefficients and constant.",
    "k": "How many of the best: labels of `k_best`, positions of NDCG@k; in `shard(k, n)` which part, from 0.",
    "lam": "λ: the weight of the regulariser; of planes and searches the λ of a query, which maximises `h + λ g`.",
    "M": "Weight matrix of the errors of a multivariate regression, positive semidefinite.",
    "mu": "A vector of the dual space, at which a conjugate is evaluated.",
    "n": "How many: labels, items, rows or documents of an output; drawn labels; examples; parts of `shard(k, n)`.",
    "p": "A point (h, g), one end of a segment; in `Lp` the exponent of the norm.",
    "q": "A point (h, g), the other end of a segment.",
    "rho": "ρ: exponent of normalised hierarchies, thesis (6.6); level of `Novelty`; width of the ramp, ECRM (10).",
    "t": "The share of the second point in a mixture of two.",
    "tau": "Which quantile, between 0 and 1: the share of targets that should lie below the prediction.",
    "theta": "Where the next cut is taken, `(1 - theta) w_best + theta w`, in (0, 1].",
    "U": "Class vectors, a row for each class or leaf.",
    "W": "Weights of all nodes, a row for each.",
    "w": "Weights of the model.",
    "x": "One input; in `plot.convergence` what the horizontal axis shows.",
    "xi": "The current slack of the example, at least 0.",
    "y": "The ground truths of `X`, one for each example; in `predict_plane` and a loss's `value`, one label.",
    "z": "A label as a point: a value for each variable of the space.",
    "zeta": "First weight of the proximal term, then adapted.",
}

#: What a parameter is, where the docstrings say it in several ways, or say only what is particular to one place.
MEANINGS = {
    "above": "Only labels with a larger h and a larger g than this corner.",
    "arcs": "The arcs of a network, pairs of nodes.",
    "at_least": "The smallest number of labels that are on.",
    "at_most": "The largest number of labels that are on.",
    "ax": "Where to draw, Matplotlib axes; new ones by default.",
    "axes": "Where to draw, an array of Matplotlib axes; new ones by default.",
    "axis": "Along which axis; in `sum` over all entries by default.",
    "B": "The matrix of the quadratic form; a vector is a diagonal.",
    "backend": "The class of a backend, with its hooks written.",
    "basis": "A simplex basis that `get_basis` gave; None starts cold.",
    "batch": "A data set prepared for one model.",
    "block": "Values of the variables of a block; in `SimplexQP.add` the simplex that a cut belongs to.",
    "blocks": "Blocks of variables: their names and shapes, or their values with a row for each example.",
    "bottom": "The lower ray of an angle: only labels with h > 0 and g > 0 above it.",
    "bound": "A proved upper bound on the optimum; in `LogLoss` whether an upper bound that is linear in g is taken.",
    "coef0": "A parameter of scikit-learn's polynomial and sigmoid kernels.",
    "columns": "Columns of a table: how many there are, or their arrays by name.",
    "compiled": "A space in matrix form.",
    "complete": "Whether labels that miss ancestors are completed, or refused.",
    "constant": "The constant of an affine expression.",
    "convex": "Whether the convex extension is taken: mixtures of labels, or ψ made linear for h > 0 (`ProbLoss`).",
    "cost": "The loss of a pair in the wrong order.",
    "counted": "Weights of the variables that micro-F1 counts, 0 for the others.",
    "curvature": "The curvature of the regulariser along the line.",
    "decay": "Weights of the positions of a ranking: `i^-decay` at position i, or a function from their number.",
    "decision": "Which label is predicted: the best one, or that of the least expected loss.",
    "decode": "A function from a point to a label.",
    "degree": "A parameter of scikit-learn's polynomial kernel.",
    "derivative": "The derivative of the loss by the predictions.",
    "df": "The change of the predictions along the line.",
    "direction": "The direction of a line search.",
    "edges": "The edges of a graph: (parent, child) of a hierarchy, pairs of labels of a Markov random field.",
    "encode": "A function from a label to a point.",
    "est": "A trained estimator whose weights and errors are drawn.",
    "examples": "Numbers of examples.",
    "expressions": "Expressions to join.",
    "factor": "What a term's features are multiplied by.",
    "features": "How a label or a token is described: feature terms by block, or a function that gives strings.",
    "field": "Which part of the input a feature term reads, as `x[field]`; all of it by default.",
    "floor": "The smallest value: of a node's weight, or of a risk.",
    "folder": "The folder that data are read from or kept in.",
    "forbid": "Labels that may not be returned (no-good cuts).",
    "gram": "The Gram matrix of the cuts, positive semidefinite.",
    "graph": "A directed graph of networkx, with edges from parent to child.",
    "hierarchy": "A tree, a forest or a directed acyclic graph of labels.",
    "ignore": "Columns or attributes to leave out, such as keys.",
    "info": "What is particular to a trainer.",
    "initial": "Which states may come first.",
    "initial_weights": "Whether a weight is learned for the first state.",
    "integrality": "Which variables must be whole.",
    "itself": "Whether a node counts among its ancestors or descendants.",
    "kept": "Which cuts stay.",
    "key": "What identifies a program: the name of its kept basis; in `Model` a function from an input to it.",
    "keys": "One `key` for each row of a batch.",
    "kind": "What a label of a hierarchy is: one leaf, a set of leaves, any set closed under ancestors.",
    "label": "One label, as the user writes it (in a plane: a point, or an index).",
    "labels": "Labels, as the user writes them; of a reader which columns they are, of a picture all points (h, g).",
    "leaves": "Leaves of the hierarchy; by default all of them.",
    "length": "The length of a sequence.",
    "length_weights": "Whether a weight is learned for every length and state of a segment.",
    "level": "The constants of cutting planes, one for each example.",
    "loss": "The loss: a task loss by object, array or name; in `LinearSVM` which hinge.",
    "losses": "The task losses to draw, one panel each.",
    "loss_bound": "No task loss between two labels is larger.",
    "lower": "Lower bounds, of variables, rows or an expression.",
    "lower_bound": "A certified lower bound of the objective.",
    "margin": "The margin: which error it is rescaled by (hierarchical estimators), or its range in a picture.",
    "matrix": "A matrix of coefficients, a row for each constraint or entry.",
    "mean": "The mean of random ground truths: of 0/1 variables their marginal probabilities.",
    "measure": "The ranking measure to optimise.",
    "member": "The members of all sets one after another; set i is `member[ptr[i]:ptr[i + 1]]`.",
    "method": "By which method: of computing weights, or the name of a trainer's method.",
    "model": "What the labels are: a `Model`; in `from_pyomo` a model of Pyomo.",
    "monitor": "The `Monitor` of the run.",
    "n_classes": "The number of classes; by default those that occur.",
    "n_features": "The number of features.",
    "n_samples": "The number of examples to make.",
    "name": "The name of what is made, found or registered.",
    "name_or_path": "A name that comes with structopt, or the path of a file.",
    "names": "Names of entries or nodes; in a picture whether they are written.",
    "network": "An acyclic network as a `Flow`.",
    "nodes": "Which nodes of the hierarchy, by name or by kind.",
    "noise": "The scale of random disturbances.",
    "normalize": "Whether the loss is divided by its largest value or its number of rows.",
    "objective": "The regularised objective at some weights; in `LabelSpace.write` the linear objective of the file.",
    "offset": "The constant of an affine function that nowhere exceeds the risk.",
    "open_bottom": "Whether labels on the lower ray itself are left out.",
    "open_top": "Whether labels on the upper ray itself are left out.",
    "options": "Further options by name, for what the call hands over to: solver, oracle, plane, reader or trainer.",
    "oracle": "What maximises `c . z` over the space.",
    "outcomes": "The outcomes of the checks.",
    "overrides": "Options that replace those of a profile.",
    "pairs": "Pairs: preferred examples (i, j), or segments (start, state).",
    "parameters": "Parameters of a surrogate that is given by its name.",
    "parts": "The labels of a mixture.",
    "passes": "Passes over the data.",
    "path": "The path of a file; its suffix is the format where there are several.",
    "paths": "Paths from a root, names with a separator or sequences of names.",
    "plane": "The (h, g) plane of an example.",
    "planes": "The (h, g) planes of many examples.",
    "point": "A point (h, g) with its label.",
    "points": "All labels as points (h, g).",
    "problem": "What is to be solved: a problem of PuLP; in `Monitor` the values that a checkpoint must agree with.",
    "ptr": "Where each set begins in `member`, and the end.",
    "query": "Which query each document belongs to; all to one by default.",
    "record": "Of a space, its index arrays (`so.records`); of a history, one record.",
    "records": "Records of a history.",
    "relevance": "The relevance of each document, at least 0.",
    "result": "The result of a search or of a training run.",
    "root": "Whether a single root takes part.",
    "row_lower": "Lower bounds of the rows.",
    "row_name": "The name of the rows, which are numbered.",
    "row_upper": "Upper bounds of the rows.",
    "rows": "Linear rows: constraints of a space, side constraints of a call; in `row_loss` how many a matching has.",
    "scale": "A factor on the loss or the score.",
    "score": "A score: the coefficients of `f(y)`; in `Contingency` a function of the counts.",
    "separate": "`separate(z)` returns rows that a point violates (in `LabelSpace.lazy` given by blocks), or nothing.",
    "shape": "The shape of an array of variables or entries.",
    "shares": "How the weights of the nodes follow from the norms.",
    "shrink": "How far open rays and corners are moved inwards, relatively.",
    "sink": "The node where the flow ends.",
    "size": "The number of variables of a block, or of weights.",
    "skip": "Names of checks to leave out.",
    "tables": "A table for each feature term; in a method of a term, one for each example.",
    "trials": "Number of random objectives, of each kind where there are several.",
    "slope": "A slope: of the regulariser along a line, or of an affine function that nowhere exceeds the risk.",
    "source": "The node where the flow begins.",
    "space": "A label space, declared or compiled; in `Model` also a function from an input to one.",
    "square": "The squared norm of the objective coefficients, where it is known.",
    "start": "Where to start: a feasible point of a program; in `Block` its first variable.",
    "state": "What determines the coming iterates: a function that gives it, or what it gave.",
    "states": "The states of a sequence: how many, or their names in order.",
    "table": "Numbers for the feature rows and columns of a term.",
    "temperature": "The temperature of a distribution over labels: scores are divided by it.",
    "term": "A feature term.",
    "ties": "Whether the other criterion decides among equal labels.",
    "tolerance": "Let the weights along a path sum to anything from 1 to this number, thesis (6.8).",
    "top": "The upper ray of an angle: only labels with h > 0 and g > 0 below it.",
    "transitions": "Which states may follow which, `[from, to]`; all by default.",
    "truth": "The ground truth, as a point, an index or states.",
    "truths": "Ground truths, a row for each example.",
    "upper": "Upper bounds, of variables, rows or an expression.",
    "value": "The value of a label: of the objective, or of the surrogate.",
    "weight": "A factor for each example.",
    "weights": "Non-negative weights of variables, nodes or arcs; 1 by default.",
    "width": "Stop when the interval of λ is relatively this small.",
    "words": "The words of a sentence.",
    "worth": "A function that says whether labels up to a value are of interest.",
    "y_pred": "Predicted labels.",
    "y_true": "Ground truths.",
    "zero_division": "The value where there is nothing to find and nothing was predicted.",
}


def public_callables() -> Iterator[tuple[str, list[Any], Callable[..., Any]]]:
    """Name, the objects with docstrings and the one with the signature of everything public that is called.

    A method that overrides another says what it does, and not again what it takes: both have docstrings.
    """
    seen: set[int] = set()
    modules = [name for name in so.__all__ if isinstance(getattr(so, name), types.ModuleType)]
    for prefix, owner in [("", so), *((f"{name}.", getattr(so, name)) for name in modules)]:
        for name in getattr(owner, "__all__", []):
            found = getattr(owner, name)
            if not getattr(found, "__module__", "").startswith("structopt") or id(found) in seen or not callable(found):
                continue
            seen.add(id(found))
            if not inspect.isclass(found):
                yield prefix + name, [found], found
                continue
            if issubclass(found, BaseException):
                continue
            if "__init__" in vars(found):
                yield prefix + name, [found], found.__init__  # type: ignore[misc]
            for method, value in _own(found).items():
                function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if not method.startswith("_") and inspect.isfunction(function):
                    found_in = [vars(base)[method] for base in found.__mro__ if method in vars(base)]
                    yield f"{prefix}{name}.{method}", found_in, function


def _own(found: type) -> dict[str, Any]:
    """What stands in a class, and in its parts in other files."""
    parts = [base for base in found.__mro__[1:] if found in (so.Model, so.Oracle) and base.__module__ != "builtins"]
    return {name: value for part in reversed([found, *parts]) for name, value in vars(part).items()}


def sections(docstring: str | None) -> dict[str, list[str]]:
    """The sections of a numpydoc docstring, as lines."""
    lines = inspect.cleandoc(docstring or "").split("\n")
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() and re.fullmatch("-{3,}", below.strip()):
            current = found.setdefault(line.strip(), [])
        elif not re.fullmatch("-{3,}", line.strip()):
            current.append(line)
    return found


def documented(lines: list[str]) -> dict[str, list[str]]:
    """What a section says about each name: its descriptions, one for each time that it stands there."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    text: list[str] = []
    for line in [*lines, "end"]:
        if line and not line[0].isspace():
            for name in names:
                found.setdefault(name, []).append(" ".join(text))
            names, text = [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")], []
        elif line.strip():
            text.append(line.strip())
    return found


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def is_result(sources: list[Any]) -> bool:
    """Whether a class is made by structopt and not by its users: its fields are attributes, and no parameters."""
    own = sections(sources[0].__doc__)
    return inspect.isclass(sources[0]) and "Attributes" in own and "Parameters" not in own


def meanings() -> dict[str, tuple[str, list[str]]]:
    """The meaning of every parameter, one sentence, and who takes it."""
    takers: dict[str, list[str]] = {}
    found: dict[str, list[str]] = {}
    for name, sources, function in public_callables():
        if is_result(sources):
            continue
        texts: dict[str, list[str]] = {}
        for part in (sections(source.__doc__) for source in reversed(sources)):
            texts |= documented(part.get("Attributes", [])) | documented(part.get("Parameters", []))
        for parameter in parameters_of(function):
            takers.setdefault(parameter, []).append(name)
            text = _sentence((texts.get(parameter) or [""])[0])
            if text not in found.setdefault(parameter, []):
                found[parameter].append(text)
    given = COMMON | NOTATION | MEANINGS
    return {
        # Without a sentence of ours that of the docstrings, which is then the only one.
        name: (given[name] if name in given else " / ".join(found[name]), owners)
        for name, owners in sorted(takers.items(), key=lambda item: (item[0].lower(), item[0]))
    }


def page() -> str:
    """The page as Markdown."""
    known = meanings()
    lines = [
        "# Parameters",
        "",
        "Every parameter of the public interface, once, with its meaning and who takes it. Values and defaults are on",
        "the page of the class or function, fields of results on that of the result. `docs/parameters.py` makes it.",
        "",
    ]
    tables = {
        "The same everywhere": COMMON.keys(),
        "Of one family or one function": known.keys() - COMMON.keys() - NOTATION.keys(),
        "Letters": NOTATION.keys(),
    }
    for title, names in tables.items():
        lines += [f"## {title}", ""]
        if title == "Letters":
            lines += ["The letters of the papers that the algorithms are from, and of the field.", ""]
        lines += ["| parameter | meaning | taken by |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {text} | {_listed(owners)} |" for name, (text, owners) in known.items() if name in names
        ]
        lines.append("")
    return "\n".join(lines)


def _sentence(text: str) -> str:
    """The first sentence, fit for a cell of a table; none where the text refers to another docstring."""
    first = re.split(r"(?<=[^\s][.;:])\s", text)[0].strip().rstrip(";:").replace("|", "\\|").replace("``", "`")
    if not first or re.match(r"(As|See) ", first):
        return ""
    return first if first.endswith(".") else f"{first}."


def _listed(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(f"`{name}`" for name in names[:limit]) + more


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

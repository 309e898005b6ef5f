"""Flows in a network by a discrete choice among its paths: the simulation of ECRM 6.2."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import Bunch, check_random_state

from structopt._jit import FloatArray, IntArray
from structopt.checks import checked, seed, whole
from structopt.errors import DeclarationError
from structopt.hierarchy.input import edge_pairs, number_names

__all__ = ["PathChoice", "synthetic_flow"]

Arc = tuple[Hashable, Hashable]

#: Three columns of nodes between s and t: 12 arcs, 6 paths. A stand-in: the figure of ECRM is not in its text.
_PAPER_ARCS: tuple[Arc, ...] = (
    ("s", 1), ("s", 2), (1, 3), (1, 4), (2, 4), (2, 5), (3, 6), (4, 6), (4, 7), (5, 7), (6, "t"), (7, "t"),
)  # fmt: skip

_PATH_LIMIT = 10_000


@dataclass(frozen=True, eq=False)
class PathChoice:
    """A random utility for each path, ``beta_p . x + noise * Gumbel``, and a unit of flow split by their softmax.

    Attributes
    ----------
    arcs : tuple of (tail, head)
    source, sink : hashable
    incidence : csr_array, shape (paths, arcs)
        Which arcs are on which path.
    beta : ndarray, shape (paths, n_features)
    noise : float
        Scale of the Gumbel term.
    temperature : float
        Of the softmax; towards 0 the whole unit takes the path of the largest utility.
    """

    arcs: tuple[Arc, ...]
    source: Hashable
    sink: Hashable
    incidence: sp.csr_array = field(repr=False)
    beta: FloatArray = field(repr=False)
    noise: float
    temperature: float

    @property
    def supply(self) -> dict[Hashable, float]:
        """What enters the network at each node: 1 at the source, -1 at the sink."""
        nodes = dict.fromkeys(node for arc in self.arcs for node in arc)
        return {node: float(node == self.source) - float(node == self.sink) for node in nodes}

    def weights(self, X: npt.ArrayLike, random_state: Any = None) -> FloatArray:
        """Random weights of the paths for each row of X; rows sum to 1.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
        random_state : int or Generator, optional

        Returns
        -------
        ndarray
        """
        rng = check_random_state(seed("random_state", random_state))
        utility = np.asarray(X, dtype=np.float64) @ self.beta.T
        utility = (utility + self.noise * rng.gumbel(size=utility.shape)) / self.temperature
        weight = np.exp(utility - utility.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def sample(self, X: npt.ArrayLike, random_state: Any = None) -> FloatArray:
        """Flows by arc for each row of X. Many samples at one x give its conditional risk (ECRM figure 2b).

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
        random_state : int or Generator, optional

        Returns
        -------
        ndarray
        """
        return np.asarray(self.weights(X, random_state) @ self.incidence)

    def __repr__(self) -> str:
        paths, features = self.beta.shape
        return (
            f"<PathChoice: {paths} paths over {len(self.arcs)} arcs from {self.source!r} to {self.sink!r}, "
            f"{features} features>"
        )


@checked
def synthetic_flow(
    network: Any = "paper",
    *,
    n_samples: int = 1000,
    n_features: int = 20,
    noise: float = 1.0,
    temperature: float = 0.5,
    effect: float = 2.0,
    source: Hashable = None,
    sink: Hashable = None,
    random_state: Any = None,
) -> Bunch:
    """Inputs from the unit cube and the unit flows that a random choice among paths sends through a network.

    Parameters
    ----------
    network : "paper", networkx.DiGraph, or iterable of (tail, head)
        An acyclic network.
    n_samples, n_features : int
        1000 and 20 in the paper.
    noise, temperature : float
        See `PathChoice`.
    effect : float
        Standard deviation of the coefficients ``beta``, which are normal.
    source, sink : hashable, optional
        By default the only node without an arc into it, or out of it.
    random_state : int, RandomState or None

    Returns
    -------
    Bunch
        ``X`` (n_samples, n_features), ``y`` (n_samples, arcs), ``arcs``, ``supply`` (by node), ``paths`` (tuples of
        nodes), ``path_weights`` (n_samples, paths), ``model`` (the `PathChoice`, to sample more), ``DESCR``.

    Notes
    -----
    ECRM gives the input distribution, the unit of flow and "a random weight that depends on x" for each path; the
    network is a figure and the weights have no formula. The network, the logit weights and their three scales are
    choices made here.

    Examples
    --------
    >>> from structopt import data
    >>> toy = data.synthetic_flow(n_samples=3, random_state=0)
    >>> toy.model
    <PathChoice: 6 paths over 12 arcs from 's' to 't', 20 features>
    >>> toy.y.shape, toy.y[:, :2].sum(axis=1)                       # all that leaves s
    ((3, 12), array([1., 1., 1.]))
    """
    arcs = _arcs(network)
    source = _end(arcs, 1, source, "source")
    sink = _end(arcs, 0, sink, "sink")
    for name, value in (("noise", noise), ("temperature", temperature), ("effect", effect)):
        if not (np.isfinite(value) and value >= 0) or (name == "temperature" and value == 0):
            raise DeclarationError(
                f"{name} must be {'positive' if name == 'temperature' else 'from 0 on'}, got {value!r}."
            )
    for name, count in (("n_samples", n_samples), ("n_features", n_features)):
        whole(name, count, 1, 2**31 - 1)
    routes = _paths(arcs, source, sink)
    rng = check_random_state(seed("random_state", random_state))
    beta = effect * rng.standard_normal((len(routes), n_features))
    model = PathChoice(arcs, source, sink, _incidence(routes, len(arcs)), beta, float(noise), float(temperature))
    X = rng.uniform(size=(n_samples, n_features))
    weights = model.weights(X, rng)
    paths = tuple((source, *(arcs[k][1] for k in route)) for route in routes)
    text = f"{n_samples} unit flows over {len(arcs)} arcs by a random choice among {len(paths)} paths (after ECRM 6.2)."
    return Bunch(
        X=X, y=np.asarray(weights @ model.incidence), arcs=arcs, supply=model.supply, paths=paths,
        path_weights=weights, model=model, DESCR=text,
    )  # fmt: skip


def _arcs(network: Any) -> tuple[Arc, ...]:
    if isinstance(network, str):
        if network != "paper":
            raise DeclarationError(
                f"network must be 'paper', a networkx.DiGraph or (tail, head) pairs, got {network!r}."
            )
        return _PAPER_ARCS
    if hasattr(network, "is_directed"):
        if not network.is_directed():
            raise DeclarationError("network must be directed; use networkx.DiGraph.")
        return tuple(network.edges())
    if not isinstance(network, Iterable):
        raise DeclarationError(
            f"network must be a networkx.DiGraph or (tail, head) pairs, got {type(network).__name__}."
        )
    arcs = tuple((tail, head) for tail, head in edge_pairs(network))
    if not arcs:
        raise DeclarationError("network needs at least one arc, each a pair (tail, head).")
    number_names([node for arc in arcs for node in arc], arcs)  # names that cannot be names are refused
    return arcs


def _end(arcs: tuple[Arc, ...], side: int, given: Hashable, what: str) -> Hashable:
    nodes = dict.fromkeys(node for arc in arcs for node in arc)
    if given is not None:
        if given not in nodes:
            raise DeclarationError(f"The {what} {given!r} is not a node of the network.")
        return given
    touched = {arc[side] for arc in arcs}
    free = [node for node in nodes if node not in touched]
    if len(free) != 1:
        raise DeclarationError(f"The network has {len(free)} nodes that could be the {what}; give {what}=.")
    return free[0]


def _paths(arcs: tuple[Arc, ...], source: Hashable, sink: Hashable) -> list[list[int]]:
    """All ways from source to sink as lists of arcs."""
    leaving: dict[Hashable, list[int]] = {}
    for k, (tail, _) in enumerate(arcs):
        leaving.setdefault(tail, []).append(k)
    routes: list[list[int]] = []
    stack: list[list[int]] = [[k] for k in reversed(leaving.get(source, []))]
    while stack:
        route = stack.pop()
        here = arcs[route[-1]][1]
        if here == source or len(route) > len(arcs):
            raise DeclarationError("The network has a cycle; paths are only finite in number without one.")
        if here == sink:
            routes.append(route)
            if len(routes) > _PATH_LIMIT:
                raise DeclarationError(f"The network has more than {_PATH_LIMIT} paths from {source!r} to {sink!r}.")
            continue
        stack.extend([*route, k] for k in reversed(leaving.get(here, [])))
    if not routes:
        raise DeclarationError(f"No path leads from {source!r} to {sink!r}.")
    return routes


def _incidence(routes: list[list[int]], n_arcs: int) -> sp.csr_array:
    indptr: IntArray = np.concatenate([[0], np.cumsum([len(route) for route in routes])])
    indices = np.concatenate([np.array(route, dtype=np.int64) for route in routes])
    return sp.csr_array((np.ones(indices.size), indices, indptr), shape=(len(routes), n_arcs))

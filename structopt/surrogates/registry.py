"""The registry of surrogates: classes by name, and user-defined ones."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np
from numba.core.dispatcher import Dispatcher

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.space.compiled import FloatArray
from structopt.surrogates.base import Surrogate
from structopt.surrogates.compiled import Form, clipped_all, from_numba

__all__ = ["from_functions", "get", "names", "register"]


class _FunctionSurrogate(Surrogate):
    """A surrogate made of two functions; see `from_functions`."""

    def __init__(
        self,
        label: str,
        psi: Callable[[Any, Any], Any],
        gradient: Callable[[Any, Any], tuple[Any, Any]],
        convex_in_h: bool,
    ) -> None:
        self.label = label
        self._function = psi
        self._gradient = gradient
        self.convex_in_h = convex_in_h

    def psi(self, h: Any, g: Any) -> Any:
        return self._function(h, g)

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return self._gradient(h, g)

    def __repr__(self) -> str:
        return f"<surrogate {self.label!r}>"

    def __hash__(self) -> int:
        return hash((self.label, self._function, self._gradient))


class _CompiledSurrogate(_FunctionSurrogate):
    """The same of two functions of floats that numba compiles."""

    def psi(self, h: Any, g: Any) -> Any:
        return _for_arrays(self._function, h, g)

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return _for_arrays(lambda a, b: self._gradient(a, b)[0], h, g), _for_arrays(
            lambda a, b: self._gradient(a, b)[1], h, g
        )

    def compiled_form(self) -> Form | None:
        return from_numba(self._function, self._gradient, name=repr(self))

    def clipped_array(self, h: FloatArray, g: FloatArray) -> FloatArray:
        h, g = np.broadcast_arrays(h, g)
        values = np.empty(h.size)
        clipped_all(self.form.numbers, np.array(h, dtype=float).ravel(), np.array(g, dtype=float).ravel(), values)
        self.form.check()
        return values.reshape(h.shape)


def _for_arrays(function: Callable[[float, float], float], h: Any, g: Any) -> Any:
    """A function of two floats, of arrays."""
    if np.ndim(h) == 0 and np.ndim(g) == 0:
        return function(float(h), float(g))
    h, g = np.broadcast_arrays(h, g)
    pairs = zip(h.ravel().tolist(), g.ravel().tolist(), strict=True)
    return np.array([function(a, b) for a, b in pairs]).reshape(h.shape)


#: Classes by the name of the surrogate; those of structopt as ``module:class``, imported when they are asked for.
_REGISTRY: dict[str, Callable[..., Surrogate] | str] = {
    "beta": "rescaling:BetaScaling",
    "generalized": "rescaling:GeneralizedScaling",
    "log": "smooth:LogLoss",
    "margin": "rescaling:Margin",
    "micro_f1": "micro_f1:MicroF1",
    "prob": "smooth:ProbLoss",
    "product": "rescaling:Product",
    "slack": "rescaling:Slack",
}


def _class(name: str) -> Callable[..., Surrogate]:
    found = _REGISTRY[name]
    if not isinstance(found, str):
        return found
    module, _, attribute = found.partition(":")
    return cast(Callable[..., Surrogate], getattr(import_module(f"structopt.surrogates.{module}"), attribute))


def names() -> list[str]:
    """Names of every registered surrogate.

    Returns
    -------
    list of str
    """
    return sorted(_REGISTRY)


@checked
def get(surrogate: str | Surrogate, **parameters: Any) -> Surrogate:
    """A surrogate by name; an instance passes through.

    Parameters
    ----------
    surrogate : str or Surrogate
    **parameters
        Of a surrogate that is given by its name.

    Returns
    -------
    Surrogate

    Examples
    --------
    >>> import structopt.surrogates as surrogates
    >>> surrogates.get("beta", beta=0.25)
    BetaScaling(beta=0.25)
    """
    if isinstance(surrogate, Surrogate):
        return surrogate
    if surrogate not in _REGISTRY:
        raise DeclarationError(
            f"There is no surrogate called {surrogate!r}. Registered: {', '.join(names())}. "
            "Add one with structopt.surrogates.register."
        )
    return _class(surrogate)(**parameters)


@checked
def from_functions(
    name: str,
    psi: Callable[[Any, Any], Any],
    gradient: Callable[[Any, Any], tuple[Any, Any]],
    *,
    convex_in_h: bool = True,
) -> Surrogate:
    """A surrogate on g >= 0 from a function and its gradient.

    Parameters
    ----------
    name : str
    psi : callable
        ``psi(h, g)``, of floats and of arrays; or a function of two floats compiled by ``numba.njit``, which the
        searches then call as machine code.
    gradient : callable
        ``gradient(h, g) -> (psi_h, psi_g)``, compiled as well if `psi` is.
    convex_in_h : bool
        Whether ψ is convex in h, so that the trained objective is convex in the weights.

    Returns
    -------
    Surrogate

    Examples
    --------
    >>> import numba
    >>> import structopt.surrogates as surrogates
    >>> psi = numba.njit(lambda h, g: (1.0 + h) * g)
    >>> slope = numba.njit(lambda h, g: (g, 1.0 + h))
    >>> surrogates.from_functions("my slack", psi, slope).value(1.0, 3.0)
    6.0
    """
    compiled = isinstance(psi, Dispatcher) and isinstance(gradient, Dispatcher)
    return (_CompiledSurrogate if compiled else _FunctionSurrogate)(name, psi, gradient, convex_in_h)


@checked
def register(surrogate: Surrogate | type[Surrogate], name: str | None = None, *, random_state: int = 0) -> None:
    """Let `get`, and with it every estimator, find your own surrogate by name.

    The numerical conformance check `structopt.testing.check_surrogate` runs first: a function that is not
    quasi-concave, not monotone on K_0 or whose gradient is wrong is refused, because every search would return
    wrong answers for it without a warning.

    Parameters
    ----------
    surrogate : Surrogate or subclass of it
        A class is called without arguments for the check and with `get`'s parameters later.
    name : str, optional
        Default: the surrogate's own name.
    random_state : int
        Seed of the check's random points.

    Examples
    --------
    >>> import structopt.surrogates as surrogates
    >>> root = surrogates.from_functions(
    ...     "root", lambda h, g: (1 + h) * g**0.5, lambda h, g: (g**0.5, 0.5 * (1 + h) / g**0.5))
    >>> surrogates.register(root)
    >>> surrogates.get("root").value(3.0, 4.0)
    8.0
    """
    from structopt.testing.surrogate import check_surrogate

    instance = surrogate() if isinstance(surrogate, type) else surrogate
    key = name or getattr(instance, "label", "") or instance.name
    if not key:
        raise DeclarationError(f"{instance!r} has no name: pass register(..., name='...').")
    known = _class(key) if key in _REGISTRY else None
    if known is not None and (isinstance(known, type) or known() != instance):
        raise DeclarationError(f"A surrogate called {key!r} is registered already. Choose another name.")
    check_surrogate(instance, random_state=random_state)
    _REGISTRY[key] = surrogate if isinstance(surrogate, type) else lambda: instance

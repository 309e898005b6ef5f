"""Set-up shared by tests and doctests."""

import contextlib
import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# Before numpy is imported. There is a worker for every core, and threads of BLAS that wait for a core spin: the many
# small factorisations of the tests take three times as long with them.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Before PuLP: where PuLP is imported first, OSQP 1.1.3 (a solver of cvxpy's) crashes in its set-up.
with contextlib.suppress(ImportError):
    import cvxpy  # noqa: F401

import hypothesis  # noqa: E402
import matplotlib  # noqa: E402
import pytest  # noqa: E402

# Imported before collection: pytest would otherwise execute a module a second time when its doctests are collected
# first, and two copies of a class are not instances of each other.
import structopt.plot  # noqa: E402, F401
from structopt._jit.locks import Locks  # noqa: E402

matplotlib.use("Agg")

# PyTorch is an extra: without it the doctests of its package cannot be collected. `make test-torch` installs it.
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["structopt/torch/*", "docs/howto/neural_scores.md"]
# So is dask; it is among the tools of development.
collect_ignore_glob += (
    [] if importlib.util.find_spec("distributed") else ["structopt/distributed/*", "docs/howto/scale.md"]
)

# What notebooks need besides the tools of development; `make test-notebooks` installs it.
_NOTEBOOKS_NEED = {"08_neural_scores.ipynb": "torch", "09_scaling_out.ipynb": "distributed"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip notebooks whose libraries are not installed."""
    for item in items:
        library = _NOTEBOOKS_NEED.get(item.path.name)
        if library and not importlib.util.find_spec(library):
            item.add_marker(pytest.mark.skip(reason=f"needs {library}"))


# Green means green: the same examples on every machine and in every run, and no limit of time anywhere. New ones are
# looked for by `make test-all`, and by `make fuzz`.
_ANYWHERE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow], "print_blob": True}
hypothesis.settings.register_profile("fixed", derandomize=True, **_ANYWHERE)
hypothesis.settings.register_profile("explore", **_ANYWHERE)
hypothesis.settings.load_profile(os.environ.get("STRUCTOPT_EXAMPLES", "fixed"))


def compile_untraced(*arguments: Any, compile: Any = Locks.compile) -> Any:
    """Compile a kernel where coverage does not look: tracing numba itself costs half as much again as compiling.

    A trace function belongs to a thread, so that a thread without one compiles at full speed and what is measured in
    this one stays whole.
    """
    if sys.gettrace() is None:
        return compile(*arguments)
    with ThreadPoolExecutor(1, initializer=sys.settrace, initargs=(None,)) as untraced:
        return untraced.submit(compile, *arguments).result()


Locks.compile = compile_untraced  # type: ignore[method-assign]

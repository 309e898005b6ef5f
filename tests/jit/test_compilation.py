"""One process at a time compiles a kernel; the others load it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numba
import numpy as np
import pytest

import structopt
from structopt._jit import in_place, inner
from structopt._jit import locks as _compilation
from structopt._jit.locks import Locks, compiled

# Only the one file is loaded: all of structopt takes seconds.
LOAD = f"""
import importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("_compilation", {_compilation.__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""

KERNELS = """
@module.compiled
def inner(x):
    return x * 2.0

@module.compiled
def outer(x):
    return inner(x) + inner(x)

print("ready", flush=True)
sys.stdin.readline()
assert outer(1.5) == 6.0
stats = outer.stats, inner.linked().stats
print(*(sum(count.values()) for k in stats for count in (k.cache_misses, k.cache_hits)))
"""

HOLDER = """
with module.LOCKS.hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""

compiling = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def _start(*arguments, **environment):
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdin=pipe, stdout=pipe, text=True, env={**os.environ, **environment}
    )


@compiling
def test_two_processes_on_an_empty_cache_compile_each_kernel_once(tmp_path):
    script = tmp_path / "two_kernels.py"
    script.write_text(LOAD + KERNELS, encoding="utf-8")
    both = [_start(script, NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:  # both wait for this line: they begin to compile together
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate()[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    outer_misses, outer_hits, inner_misses, _ = np.array(told, dtype=int).sum(axis=0)
    # Who loads `outer` has `inner` in it already.
    assert (outer_misses, outer_hits, inner_misses) == (1, 1, 1)


def test_a_lock_is_kept_from_others_and_ends_with_its_holder(tmp_path):
    path = tmp_path / "kernel.lock"
    holder = _start("-c", LOAD + HOLDER, path)
    assert holder.stdout.readline() == "held\n"
    impatient = Locks(patience=0.02)
    with impatient.hold(path):
        assert impatient.patience == 0.0  # it waited, and goes on without
    holder.kill()
    holder.communicate()
    patient = Locks()
    with patient.hold(path):
        assert patient.patience > 0.0


def test_a_process_that_holds_a_lock_does_not_wait_for_itself(tmp_path):
    path = tmp_path / "kernel.lock"
    locks = Locks()
    with locks.hold(path), locks.hold(tmp_path / "other.lock"), locks.hold(path):
        pass
    with pytest.raises(ZeroDivisionError), locks.hold(path):
        raise ZeroDivisionError
    with locks.hold(path):
        assert locks.patience > 0.0


def test_where_no_file_can_be_written_there_is_no_lock(tmp_path):
    locks = Locks()
    with locks.hold(tmp_path / "missing" / "kernel.lock"):
        assert locks.patience > 0.0


@compiling
def test_where_nothing_can_be_cached_kernels_compile_and_one_warning_names_the_cure(monkeypatch):
    """A container with a read-only installation and no home."""
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    _compilation._warn_uncached.cache_clear()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as seen:
        double, triple = compiled(lambda x: 2.0 * x), compiled(lambda x: 3.0 * x)
    assert len(seen) == 1 and double.stats.cache_path is None
    assert (double(1.5), triple(1.5)) == (3.0, 4.5)


@compiling
def test_threads_compile_kernels_that_call_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    inner = compiled(lambda x: 2.0 * x)
    outer = compiled(lambda x: inner(x) + 1.0)
    found = []
    threads = [threading.Thread(target=lambda k=k: found.append(k(1.5)), daemon=True) for k in (outer, inner) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    assert sorted(found) == [3.0, 3.0, 4.0, 4.0]


def test_every_kernel_goes_this_way():
    root = Path(structopt.__file__).parent
    lines = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "jit(" in line and not line.strip().startswith(">>>")  # an example may show a user's own function
    }
    assert lines == {"_jit/__init__.py", "_jit/locks.py"}


@inner
def _move(i, arrays):
    values, counts = arrays
    values[i] += 1.0
    counts[i] += 1
    return values[i:].size


@in_place
def _move_all(arrays):
    total = 0
    for i in range(arrays[0].size):
        total += _move(i, arrays)
    return total


@compiling
@pytest.mark.parametrize("used", [False, True])
def test_python_cannot_call_an_inner_kernel(used):
    """There is no code that takes Python's objects apart: without the error the process would end."""
    arrays = (np.zeros(3), np.zeros(3, dtype=np.int64))
    if used:
        _move_all(arrays)
    with pytest.raises(TypeError, match="_move is called by other kernels only"):
        _move(0, arrays)
    assert _move.py_func(0, arrays) == 3


def test_kernels_in_place_leave_reference_counts_as_they_are():
    arrays = (np.zeros(3), np.zeros(3, dtype=np.int64))
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(5):
        assert _move_all(arrays) == 6
    assert [sys.getrefcount(array) for array in arrays] == before
    assert (arrays[0] == 5.0).all() and (arrays[1] == 5).all()


@compiling
def test_a_kernel_in_place_cannot_allocate():
    with pytest.raises(numba.core.errors.NumbaError, match="NRT"):
        in_place(lambda n: np.empty(n).size)(3)


@compiling
def test_a_kernel_called_by_one_in_place_may_allocate():
    """Whether references are counted is not inherited: the callee could not be compiled, or would be for its caller."""
    allocating = compiled(lambda n: np.ones(n).sum())
    assert in_place(lambda n: allocating(n) + 1.0)(3) == 4.0
    assert allocating(3) == 3.0


@compiling
def test_constants_are_no_types_of_their_own():
    shifted = compiled(lambda x, by: x + by, inner=True)

    def several(n):
        at = 0  # a constant until the loop
        total = shifted(1, 2) + shifted(1, 3)
        for _ in range(n):
            total += shifted(at, 1)
            at += 2
        return total

    assert compiled(several)(4) == 23
    assert len(shifted.signatures) == 1


@compiling
def test_a_kernel_may_need_a_constant():
    """Only a constant says which entry of a tuple is meant, and so which type it has."""
    entry = compiled(lambda pair, k: pair[k], inner=True)
    assert compiled(lambda pair: entry(pair, 1))((1, np.arange(3.0)))[2] == 2.0


CALLERS = """
@module.compiled
def inner(x):
    return x * 2.0

@module.compiled
def first(x):
    return inner(x) + 1.0

@module.compiled
def second(x):
    return inner(x) - 1.0

assert inner(1.5) == 3.0
assert globals()[sys.argv[1]](1.5) == float(sys.argv[2])
stats = inner.linked().stats
print(sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
"""


@compiling
def test_a_later_process_links_kernels_from_the_cache(tmp_path):
    """The file of a kernel that another one called has no machine code: a new caller must find all that it needs."""
    script = tmp_path / "kernels.py"
    script.write_text(LOAD + CALLERS, encoding="utf-8")
    told = []
    for name, value in (("first", "4.0"), ("second", "2.0")):
        process = _start(script, name, value, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        told.append(process.communicate()[0].split())
        assert process.returncode == 0
    assert told == [["1", "0"], ["0", "1"]]


@compiling
def test_a_kernel_serves_python_and_kernels():
    both = compiled(lambda x: x + 1.0)
    assert compiled(lambda x: both(x) * 2.0)(1.0) == 4.0
    assert both(1.0) == 2.0
    assert compiled(lambda x: both(x) * 3.0)(1.0) == 6.0


def _refuses(x):
    if x < 0.0:
        raise ValueError("negative", x)
    return x


@compiling
def test_errors_of_a_linked_kernel_reach_python():
    refuses = compiled(_refuses)
    caller = compiled(lambda x: refuses(x) + 1.0)
    assert caller(1.0) == 2.0
    with pytest.raises(ValueError, match="negative"):
        caller(-1.0)

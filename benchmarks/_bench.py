"""Tools of all benchmarks: parts and their options, clocks, memory, data sets, and the shortest loop over HiGHS.

A benchmark registers its parts with `part` and ends with `main`. A part is a generator. It yields the rows of its
table, sentences for the note below it, and further tables of the same run. Its parameters are options of the command
line. The table is stored as ``results/<benchmark>.<part>.json``.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import multiprocessing
import os
import resource
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, TypeVar

import highspy
import numpy as np
import scipy.sparse as sp
from _results import COMMAND, plain, store

import structopt as so

T = TypeVar("T")
Key = TypeVar("Key")
Row = dict[str, Any]


class Table(NamedTuple):
    """A further table of a part, stored as ``<benchmark>.<name>`` with the same command."""

    name: str
    title: str
    rows: Sequence[Row]
    note: str = ""


Rows = Iterator[Row | str | Table]

# ---- parts and options -----------------------------------------------------------------------------


class _Part(NamedTuple):
    run: Callable[..., Rows]
    title: str
    ratio: str | None
    options: Mapping[str, Any]  # defaults by name


_parts: dict[str, _Part] = {}
_baselines: set[str] = set()  # modules to import before a table is stored
_remembered = 0.0  # CPU seconds of the results that `resumed` read from its file


def part(
    title: str, *, ratio: str | None = None, name: str = ""
) -> Callable[[Callable[..., Rows]], Callable[..., Rows]]:
    """Register a generator as a part of the benchmark.

    Parameters
    ----------
    title : str
        Subject of its table, in one line.
    ratio : str, optional
        Column that is drawn as bars.
    name : str
        Name of the part; that of the function by default.
    """

    def register(run: Callable[..., Rows]) -> Callable[..., Rows]:
        options = {key: parameter.default for key, parameter in inspect.signature(run).parameters.items()}
        _parts[name or run.__name__] = _Part(run, title, ratio, options)
        return run

    return register


def main() -> None:
    """Run the parts that the command line names, and store their tables; without a part, list all."""
    module, benchmark = sys.modules["__main__"], Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(
        prog=f"{COMMAND} {benchmark}",
        description=module.__doc__,
        epilog="\n".join(["parts:", *(f"  {name:12} {one.title}; {_told(one)}" for name, one in _parts.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="part")
    for option, default in {key: value for one in _parts.values() for key, value in one.options.items()}.items():
        kind: dict[str, Any] = {"action": "store_true"}
        if isinstance(default, tuple):
            kind = {"nargs": "+", "type": type(default[0]) if default else str}
        elif not isinstance(default, bool):
            kind = {"type": type(default)}
        parser.add_argument(f"--{option}", default=argparse.SUPPRESS, help=argparse.SUPPRESS, **kind)
    given = {
        key: tuple(value) if isinstance(value, list) else value for key, value in vars(parser.parse_args()).items()
    }
    chosen = given.pop("parts")
    if not chosen:
        parser.print_help()
    if unknown := [name for name in chosen if name not in _parts]:
        parser.error(f"There is no part {', '.join(unknown)}; choose some of {', '.join(_parts)}.")
    if unused := [key for key in given if not any(key in _parts[name].options for name in chosen)]:
        parser.error(f"No chosen part has the option --{unused[0]}.")
    warnings.simplefilter("ignore")
    for name in chosen:
        _run(benchmark, name, {key: value for key, value in given.items() if key in _parts[name].options})


def _told(one: _Part) -> str:
    words = [f"--{key} {' '.join(map(str, _listed(default)))}".strip() for key, default in one.options.items()]
    return f"options {', '.join(words)}" if words else "no options"


def _listed(value: Any) -> Sequence[Any]:
    """Return the words of an option's value, nothing for a flag."""
    return value if isinstance(value, tuple) else () if isinstance(value, bool) else (value,)


def _run(benchmark: str, name: str, given: Mapping[str, Any]) -> None:
    """Run a part, print its rows as they come, and store its tables."""
    global _remembered
    one, begun, _remembered = _parts[name], _cpu_seconds(), 0.0
    rows: list[Row] = []
    notes, more = list[str](), list[Table]()
    try:
        for found in one.run(**given):
            if isinstance(found, Table):
                more.append(found)
            elif isinstance(found, str):
                notes.append(found)
            else:
                rows.append(found)
                cells = {
                    key: f"{value:.4g}" if isinstance(value, float) else value for key, value in plain(found).items()
                }
                print(" | ".join(f"{key} {value}" for key, value in cells.items()), flush=True)
    except MissingData as error:
        print(f"{name}: skipped, {error}")
        return
    for module in _baselines:
        import_module(module)
    changed = {key: given[key] for key, default in one.options.items() if given.get(key, default) != default}
    words = [name, *(str(word) for key, value in changed.items() for word in (f"--{key}", *_listed(value)))]
    seeds = {**one.options, **given}.get("seeds", (0,))
    told: dict[str, Any] = {"words": words, "seeds": range(seeds) if isinstance(seeds, int) else seeds}
    seconds, note = _cpu_seconds() - begun + _remembered, " ".join(notes)
    store(f"{benchmark}.{name}", rows, title=one.title, ratio=one.ratio, note=note, seconds=seconds, **told)
    for table in more:
        store(f"{benchmark}.{table.name}", table.rows, title=table.title, note=table.note, seconds=0.0, **told)


def resumed(key: Sequence[Any], work: Callable[[], T]) -> T:
    """Return the result of `work`, or the one that the file STRUCTOPT_RUNS has for this key.

    A long part calls it once per training, so an interrupted command goes on after the last one. Keys and results have
    the types of JSON.
    """
    global _remembered
    path, wanted = Path(os.environ.get("STRUCTOPT_RUNS", os.devnull)), json.loads(json.dumps(key))
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        known, before, seconds = json.loads(line)
        if known == wanted:
            _remembered += seconds
            return before  # type: ignore[no-any-return]
    result, seconds = timed(work)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps([key, result, seconds]) + "\n")
    return result


def installed(module: str) -> bool:
    """Return whether a baseline can be imported, and say so if not.

    It is imported before the table is stored, which has the versions of imported modules: until then only processes
    of its own may have done so.
    """
    if find_spec(module) is None:
        print(f"({module} is left out: it is not installed)")
        return False
    _baselines.add(module)
    return True


# ---- clocks ----------------------------------------------------------------------------------------


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def timed(work: Callable[[], T], repeats: int = 1, clock: Callable[[], float] = process_time) -> tuple[T, float]:
    """Return the last result, and the fewest seconds of some calls: CPU seconds of the process by default."""
    seconds = []
    for _ in range(repeats):
        begun = clock()
        result = work()
        seconds.append(clock() - begun)
    return result, min(seconds)


def wall_and_cpu(work: Callable[[], T]) -> tuple[T, float, float]:
    """Return the result, wall seconds and CPU seconds of this process."""
    (result, cpu), wall = timed(lambda: timed(work), clock=perf_counter)
    return result, wall, cpu


def best_seconds(work: Callable[[], Any], repeats: int = 5, enough: float = 0.02) -> float:
    """Return the fewest CPU seconds of a call; each repetition has enough calls to take `enough` seconds."""
    once = timed(work)[1]
    count = max(1, int(enough / max(once, 1e-7)))
    return min(once, timed(lambda: [work() for _ in range(count)], repeats)[1] / count)


def in_turns(calls: Mapping[Key, Callable[[], Any]], rounds: int, each: int = 1) -> dict[Key, list[float]]:
    """Return the CPU seconds of calls that take turns, so that a busy machine is busy for all of them.

    The first call of each, which may compile, is not counted. Every turn has `each` calls in a row.
    """
    seconds: dict[Key, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for turn in range(rounds):
        for name in calls if turn % 2 else reversed(list(calls)):
            seconds[name] += [timed(calls[name])[1] for _ in range(each)]
    return seconds


def cycled(function: Callable[[Any], T], rows: Any) -> Callable[[], T]:
    """Return a call of the function with one row after the other."""
    inputs = itertools.cycle(rows)
    return lambda: function(next(inputs))


# ---- memory ----------------------------------------------------------------------------------------


def peak_gib() -> float:
    """Return the largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def peak_bytes(work: Callable[[], Any]) -> int:
    """Return the largest number of bytes that a call allocates at one time."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def apart(work: Callable[[], T], before: Callable[[], Any] = lambda: None) -> tuple[T, float, float]:
    """Return the result of `work` in a process of its own, its CPU seconds, and the MB that it adds at its peak.

    `before` runs first in that process and is not counted.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child() -> None:
        before()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        result, seconds = timed(work)
        theirs.send((result, seconds, max(1024 * peak_gib() - pages * resource.getpagesize() / 2**20, 0.0)))

    process = context.Process(target=child)
    process.start()
    theirs.close()
    try:
        answer: tuple[T, float, float] = ours.recv()
    except EOFError:
        raise SystemExit("A method failed; its error is above.") from None
    finally:
        process.join()
    return answer


# ---- data and solver -------------------------------------------------------------------------------


class MissingData(Exception):
    """A data set is not on this machine; its part is skipped."""


def data_path(name: str) -> Path:
    """Return the folder of a data set in ``STRUCTOPT_DATA``, or in ``shared/data`` next to the checkout."""
    path = so.data.benchmark_folder() / name
    if not path.exists():
        raise MissingData(f"the data set {name} is missing (set STRUCTOPT_DATA to the folder of the sets)")
    return path


def load(name: str, *splits: str) -> Any:
    """Return the splits of a data set in one: ``X`` (CSR), ``y``, ``hierarchy`` if it has one, and its other arrays."""
    data_path(name)
    first, *rest = [so.data.load_benchmark(name, split) for split in splits or ("train",)]
    if rest:
        first.X = sp.vstack([first.X, *(other.X for other in rest)], format="csr")
        first.y = np.concatenate([first.y, *(other.y for other in rest)])
    return first


def ocr_words(folds: range) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the features of the letters of each word in some folds of the OCR set, and the letters."""
    data = load("ocr_letters", "all")
    X, start = data.X.toarray(), data.word_indptr
    words = np.flatnonzero(np.isin(data.fold, list(folds)))
    return [X[start[i] : start[i + 1]] for i in words], [data.y[start[i] : start[i + 1]] for i in words]


def bare_highs(space: so.LabelSpace, integral: bool = False) -> Callable[[np.ndarray], float]:
    """Return the shortest loop body that a user of highspy can write: one loaded model, new costs, its best value."""
    compiled = space.compiled
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = compiled.n_variables, compiled.n_rows
    lp.col_cost_ = np.zeros(compiled.n_variables)
    lp.col_lower_, lp.col_upper_ = compiled.lower, compiled.upper
    lp.row_lower_, lp.row_upper_ = compiled.row_lower, compiled.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = compiled.matrix.indptr, compiled.matrix.indices
    lp.a_matrix_.value_ = compiled.matrix.data
    lp.sense_ = highspy.ObjSense.kMaximize
    if integral:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in compiled.integrality]
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    columns = np.arange(compiled.n_variables, dtype=np.int32)

    def solve(c: np.ndarray) -> float:
        highs.changeColsCost(len(columns), columns, c)
        highs.run()
        return float(c @ np.array(highs.getSolution().col_value))

    return solve

"""Programs that report wrong answers, crash or hang: the result is an error of structopt, or a verified answer."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import structopt as so
from structopt.backends import supervision
from structopt.backends.arrays import with_scaled_rows
from structopt.backends.base import Status
from structopt.backends.profiles import make_backend
from structopt.backends.supervision import SupervisedProgram
from structopt.errors import SolverFailed, TimeLimitReached
from structopt.space.feasibility import contains
from structopt.testing.instances import brute_force, hard_knapsack, space_of

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="the false programs are shell scripts"),
    # A reader of Pyomo's own that outlives a program which was ended.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

SPACE = space_of([[2.0, 3.0, 4.0]], -np.inf, 5.0, 0.0, 1.0, True)
COSTS = np.array([3.0, 4.0, 5.0])  # best: the first two, 7
HANG = 60.0

#: Where the answer is to be written, and a line for each variable under PuLP's names and Pyomo's.
FIND = """
out=""; previous=""
for word in "$@"; do
  case "$previous" in -solution|-solu) out="$word";; esac
  case "$word" in -stop) echo "Version: 2.10.3"; exit 0;; esac
  previous="$word"
done
label() {
  echo "      0 X0000000 $1 0"; echo "      1 X0000001 $2 0"; echo "      2 X0000002 $3 0"
  if [ -z "$PULP" ]; then echo "      0 x1 $1 0"; echo "      1 x2 $2 0"; echo "      2 x3 $3 0"; fi
}
"""
FAKES = {
    "crash": 'echo "Segmentation fault: it was the cosmic rays"; exit 139',
    "nothing": "exit 0",
    "garbage": 'head -c 3000 /dev/urandom > "$out"; head -c 3000 /dev/urandom; exit 0',
    "half a line": 'printf "Optimal - objective value 7\\n  0 X00" > "$out"; exit 0',
    "words for numbers": '(echo "Optimal - objective value seven"; label one one none) > "$out"; exit 0',
    "empty file": ': > "$out"; exit 0',
    "another problem": '(echo "Optimal - objective value 99"; echo "  0 elephants 12 0") > "$out"; exit 0',
    "infeasible": '(echo "Infeasible - objective value 0"; label 0 0 0) > "$out"; echo "Infeasible"; exit 0',
    "unbounded": '(echo "Unbounded - objective value 0"; label 0 0 0) > "$out"; echo "Unbounded"; exit 0',
    "poor label": '(echo "Optimal - objective value 7"; label 0 0 0) > "$out"; echo "Optimal solution found"; exit 0',
    "no label": '(echo "Optimal - objective value 12"; label 1 1 1) > "$out"; echo "Optimal solution found"; exit 0',
    "fraction": '(echo "Optimal - objective value 7"; label 1 0.99 0) > "$out"; echo "Optimal solution found"; exit 0',
    "nan": '(echo "Optimal - objective value nan"; label nan nan nan) > "$out"; echo "Optimal solution found"; exit 0',
}
BACKENDS = {"cbc": "pulp", "pyomo-cbc": "pyomo"}


@pytest.fixture
def fake(tmp_path):
    def write(body: str) -> str:
        path = tmp_path / "cbc"
        path.write_text(f"#!/bin/sh\n{FIND}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.mark.parametrize("integral", ["force", "relax"])
@pytest.mark.parametrize("kind", FAKES)
@pytest.mark.parametrize("solver", BACKENDS)
def test_a_wrong_answer_of_a_program_is_rejected(fake, solver, kind, integral):
    oracle = so.Oracle(SPACE, solver, integral=integral, executable=fake(FAKES[kind]))
    with pytest.raises(SolverFailed) as caught:
        oracle.maximize(COSTS)
    assert not isinstance(caught.value, TimeLimitReached)
    if kind == "crash":
        assert "exit code 139" in str(caught.value) or "cosmic rays" in str(caught.value)
        assert "cbc" in str(caught.value)
    # The same oracle with a real program behind it would answer: nothing of the lie is kept.
    assert so.Oracle(SPACE, solver).maximize(COSTS).value == 7.0


@pytest.mark.parametrize("solver", BACKENDS)
def test_an_empty_space_is_empty_whatever_the_program_says(fake, solver):
    space = space_of([[2.0, 2.0, 2.0]], 3.0, 3.0, 0.0, 1.0, True)
    for kind in ("crash", "infeasible", "poor label", "unbounded"):
        with pytest.raises(so.errors.StructoptError):
            so.Oracle(space, solver, integral="force", executable=fake(FAKES[kind])).maximize(COSTS)


@pytest.mark.parametrize("solver", BACKENDS)
def test_a_program_that_hangs_is_ended(fake, solver, monkeypatch):
    monkeypatch.setattr(supervision, "_GRACE", 0.5)
    oracle = so.Oracle(SPACE, solver, integral="force", time_limit=0.5, executable=fake("sleep 1000"))
    begun = time.monotonic()
    with pytest.raises(SolverFailed):
        oracle.maximize(COSTS)
    assert time.monotonic() - begun < HANG


@pytest.mark.parametrize("solver", BACKENDS)
def test_ctrl_c_ends_the_program(fake, solver, tmp_path, ctrl_c):
    mark = tmp_path / "pid"
    oracle = so.Oracle(SPACE, solver, integral="force", executable=fake(f'echo $$ > "{mark}"; sleep 100'))
    ctrl_c(0.1, ready=lambda: mark.exists() and bool(mark.read_text(encoding="utf-8").strip()))
    with pytest.raises(KeyboardInterrupt):
        oracle.maximize(COSTS)
    number = int(mark.read_text(encoding="utf-8"))
    for _ in range(200):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True).stdout
        if not state.strip() or state.strip().startswith("Z"):
            return
        time.sleep(0.05)
    raise AssertionError("the program goes on")


@pytest.mark.parametrize("solver", BACKENDS)
def test_a_gap_is_reported(solver):
    """A program that may stop at a gap of 50 % reports that bound, not the value of its label."""
    rng = np.random.default_rng(3)
    weights = rng.integers(10, 60, (2, 14)).astype(float)
    space = space_of(weights, -np.inf, weights.sum(axis=1) // 3, 0.0, 1.0, True)
    costs = rng.integers(10, 60, 14).astype(float)
    label = so.Oracle(space, solver, integral="force", mip_gap=0.5).maximize(costs)
    assert contains(space, label.z)
    assert label.bound >= brute_force(space, costs) - 1e-6


@pytest.mark.parametrize("solver", BACKENDS)
def test_an_incumbent_at_the_time_limit_is_not_an_optimum(solver):
    space, costs = hard_knapsack()
    label = so.Oracle(space, solver, integral="force", time_limit=1).maximize(costs)
    assert label.status == "time limit"
    assert label.value < label.bound < np.inf


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-4, 1e6, 1e12])
@pytest.mark.parametrize("what", ["costs", "rows", "both"])
@pytest.mark.parametrize("solver", BACKENDS)
def test_units_do_not_matter(solver, what, size):
    rng = np.random.default_rng(5)
    weights = rng.uniform(1.0, 9.0, (2, 6))
    factor = size if what != "costs" else 1.0
    space = space_of(weights * factor, -np.inf, weights.sum(axis=1) / 2.5 * factor, 0.0, 1.0, True)
    plain = space_of(weights, -np.inf, weights.sum(axis=1) / 2.5, 0.0, 1.0, True)
    costs = rng.uniform(1.0, 9.0, 6)
    scale = size if what != "rows" else 1.0
    backend = make_backend(solver, space)
    backend.set_costs(costs * scale)
    found = backend.run()
    assert found.status is Status.OPTIMAL
    assert costs @ found.z == pytest.approx(brute_force(plain, costs), rel=1e-6)


def test_rows_are_scaled_by_powers_of_two():
    space = space_of([[1e-7, 3e-7], [2e9, 1.0], [1.0, 2.0], [0.0, 0.0]], -1.0, [1e-7, 1e9, 2.0, 1.0], 0.0, 1.0)
    scaled = with_scaled_rows(space)
    factor = scaled.row_upper / space.row_upper
    assert (np.frexp(factor)[0] == 0.5).all()
    assert factor[1:].tolist() == [1.0, 1.0, 1.0]
    assert (scaled.matrix.toarray() == space.matrix.toarray() * factor[:, None]).all()
    assert np.abs(scaled.matrix.toarray()[:3]).max(axis=1).min() >= 0.5


def test_the_account_of_a_program(tmp_path):
    path = tmp_path / "a program with spaces"
    path.write_text("#!/bin/sh\necho first; echo last >&2; exit 7\n", encoding="utf-8")
    path.chmod(0o755)
    program = SupervisedProgram(str(path), keep_output=True)
    with program.watched(np.inf):
        assert subprocess.run([program.path, "one argument"]).returncode == 7
    assert program.account() == "exit code 7, last output: first last"


@pytest.mark.parametrize("solver", ["pyomo-highs", "pyomo-cbc", "cbc"])
def test_batches_in_threads_end(solver):
    """Pyomo redirects the output of the process: two solves at a time waited for each other for ever."""
    rng = np.random.default_rng(0)
    costs = rng.uniform(1.0, 2.0, (8, 3))
    found = so.Oracle(SPACE, solver).maximize_batch(costs, n_jobs=2)
    best = [brute_force(SPACE, c) for c in costs]
    assert [label.value for label in found] == pytest.approx(best, rel=1e-6)


def interrupted(oracle, after):
    """Ctrl-C some seconds after the start of a call; returns the exception, whose frames keep the process object."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        oracle.maximize(COSTS)
    timer.join()
    return caught


def zombies():
    """The children of this process that have ended and that nobody has waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.add(path.parent.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
@pytest.mark.parametrize("solver", BACKENDS)
def test_an_interrupted_program_leaves_no_zombie(fake, solver):
    oracle = so.Oracle(SPACE, solver, integral="force", executable=fake(f"sleep {HANG}"))
    before = zombies()
    caught = [interrupted(oracle, 1.0) for _ in range(2)]
    assert zombies() <= before
    assert len(caught) == 2


def test_a_script_is_reaped_when_its_call_is_left():
    program = SupervisedProgram("/bin/sleep", keep_output=True)
    with pytest.raises(KeyboardInterrupt), program.watched(HANG):
        process = subprocess.Popen([program.path, str(HANG)])
        while not program._read("pid"):
            time.sleep(0.01)
        raise KeyboardInterrupt
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def test_a_program_that_starts_after_its_call_was_left_is_not_run(tmp_path):
    program = SupervisedProgram("/usr/bin/touch", keep_output=True)
    with pytest.raises(KeyboardInterrupt), program.watched(HANG):
        raise KeyboardInterrupt
    assert subprocess.run([program.path, str(tmp_path / "made")], check=False).returncode == 130
    assert not (tmp_path / "made").exists()
    with program.watched(HANG):
        assert subprocess.run([program.path, str(tmp_path / "made")], check=False).returncode == 0
    assert (tmp_path / "made").exists()

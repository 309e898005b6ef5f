"""One atomic writer and one checked reader for all files."""

from __future__ import annotations

import ast
import errno
import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt import _archive
from structopt._archive import read_archive, read_bytes, remove_leftovers, write_archive, write_file
from structopt.errors import DeclarationError
from structopt.train.checkpoint import read_checkpoint, write_checkpoint

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="pipes, links and signals of POSIX")


def estimator() -> Any:
    X = np.array([[2.0], [1.0], [-3.0]])
    return so.StructuredSVM(so.structures.Multiclass(["up", "down"]), lam=0.1).fit(X, ["up", "up", "down"])


def space() -> so.LabelSpace:
    found = so.LabelSpace("pair")
    found.subject_to(found.binary("x", 2).sum() <= 1)
    return found


WRITERS = {
    "save": (lambda path: estimator().save(path), "model.npz"),
    "checkpoint": (lambda path: write_checkpoint(path, {"w": np.ones(3)}), "run.npz"),
    "space": (lambda path: space().write(path), "space.lp"),
    "compressed space": (lambda path: space().write(path), "space.mps.gz"),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("existing", [True, False])
def test_full_disk_leaves_the_old_file_and_no_other(
    kind: str, existing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, name = WRITERS[kind]
    path = tmp_path / name
    if existing:
        path.write_bytes(b"precious")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_archive.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path)
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [(name, b"precious")] * existing


def test_an_error_of_the_writer_does_not_hide_an_interrupt(tmp_path: Path) -> None:
    def interrupted(file: Any) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("there is an open writing handle")

    def full(file: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "numbers", interrupted)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:  # an error of a save after Ctrl-C is an error
        with pytest.raises(OSError, match="No space"):
            write_file(tmp_path / "numbers", full)
    assert not list(tmp_path.iterdir())


def test_an_interrupt_at_any_line_leaves_no_other_file(tmp_path: Path) -> None:
    path, lines = tmp_path / "numbers", 0

    def interrupt(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != _archive.__file__:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return interrupt

    while True:
        path.write_bytes(b"old")
        left, before = lines, sys.gettrace()
        try:
            sys.settrace(interrupt)
            write_file(path, lambda file: file.write(b"new"))
            break
        except KeyboardInterrupt:
            lines += 1
        finally:
            sys.settrace(before)
        assert list(tmp_path.iterdir()) == [path] and path.read_bytes() in (b"old", b"new"), f"line {lines}"
    assert lines > 10 and path.read_bytes() == b"new"


@pytest.mark.parametrize("kind", WRITERS)
def test_file_and_folder_reach_the_disk(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, name = WRITERS[kind]
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(_archive.os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor)))
    write(tmp_path / name)
    assert len(synced) == 2 or sys.platform == "win32"


def test_threads_may_save_to_one_path(tmp_path: Path) -> None:
    path, svm = tmp_path / "model.npz", estimator()

    def save(_: int) -> None:
        for _ in range(10):
            svm.save(path)
            so.load(path)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(8)))
    assert [found.name for found in tmp_path.iterdir()] == ["model.npz"]


def test_one_thread_at_a_time_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse, inside, most = ast.parse, list[None](), list[int]()

    def slow_parse(*args: Any, **options: Any) -> Any:
        inside.append(None)
        most.append(len(inside))
        time.sleep(1e-3)
        inside.pop()
        return parse(*args, **options)

    def save(k: int) -> None:
        svm.save(tmp_path / f"{k}.npz")
        so.load(tmp_path / f"{k}.npz")

    svm = estimator()
    monkeypatch.setattr(ast, "parse", slow_parse)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(4)))
    assert len(most) > 8 and max(most) == 1


@POSIX
def test_planted_links_are_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "model.npz"
    victim.write_text("precious", encoding="utf-8")
    (tmp_path / f"model.npz.{os.getpid()}.tmp").symlink_to(victim)
    estimator().save(path)
    assert victim.read_text(encoding="utf-8") == "precious"


@POSIX
def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_file(link, lambda file: file.write(b"new"))
    assert link.is_symlink() and target.read_bytes() == b"new" and target.stat().st_mode & 0o777 == 0o640


@POSIX
def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    write_file(tmp_path / "new", lambda file: file.write(b"1"))
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_folders_and_devices_are_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="is a folder"):
        write_file(tmp_path, lambda file: file.write(b"1"))
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", Path("/dev/null")):
            with pytest.raises(DeclarationError, match="a device or a pipe"):
                write_file(path, lambda file: file.write(b"1"))


@POSIX
def test_leftovers_of_a_killed_run_are_removed_at_resume(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    code = (
        "import os, signal, sys\nfrom structopt._archive import write_file\n"
        "write_file(sys.argv[1], lambda file: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL and len(list(tmp_path.iterdir())) == 1
    own = tmp_path / "run.npz.notes.tmp"
    own.write_bytes(b"mine")
    risk = so.risks.Hinge([[2.0], [-1.0]], [1, -1])
    so.train.bmrm(risk, lam=0.1, checkpoint=path)
    assert sorted(tmp_path.iterdir()) == [path, own]


@POSIX
def test_files_of_running_writers_stay(tmp_path: Path) -> None:
    path, started, go_on = tmp_path / "run.npz", threading.Event(), threading.Event()

    def write(file: Any) -> None:
        file.write(b"1")
        started.set()
        go_on.wait(20.0)

    thread = threading.Thread(target=write_file, args=(path, write))
    thread.start()
    started.wait(20.0)
    remove_leftovers(path)
    assert len(list(tmp_path.iterdir())) == 1
    go_on.set()
    thread.join()
    assert path.read_bytes() == b"1"


def test_nan_in_the_document_of_a_checkpoint_survives(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    state = {"problem": {"scale": float("nan"), "levels": [float("inf"), float("nan")]}, "x": float("nan")}
    write_checkpoint(path, state)
    found = read_checkpoint(path)
    np.testing.assert_equal(found, state)
    assert so.risks.identity.same(found["problem"], state["problem"])
    assert not so.risks.identity.same(found["problem"], {"scale": 1.0, "levels": [float("inf"), float("nan")]})


@pytest.mark.parametrize("change", ["value", "type", "swap", "missing", "more", "document"])
def test_altered_arrays_do_not_match_the_digest(change: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_archive(path, "kind 1", {"n": 1}, {"a": np.arange(3), "b": np.arange(3) + 1})
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    if change == "value":
        arrays["a"] = arrays["a"] + 1
    elif change == "type":
        arrays["a"] = arrays["a"].view(np.float64)
    elif change == "swap":
        arrays["a"], arrays["b"] = arrays["b"], arrays["a"]
    elif change == "missing":
        del arrays["b"]
    elif change == "more":
        arrays["c"] = arrays["a"]
    else:
        arrays["json"] = np.frombuffer(arrays["json"].tobytes().replace(b"1}", b"2}"), dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(DeclarationError, match="does not match its digest"):
        read_archive(path, "kind 1")


def test_files_of_the_first_format_are_still_read(tmp_path: Path) -> None:
    path, svm = tmp_path / "model.npz", estimator()
    svm.save(path)
    document, arrays = read_archive(path, "structopt estimator 2")
    text = __import__("json").dumps({"format": "structopt estimator 1", **document})
    np.savez(path, json=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    np.testing.assert_array_equal(so.load(path).coef_, svm.coef_)


@POSIX
@pytest.mark.parametrize(
    "read",
    [
        so.load,
        read_checkpoint,
        lambda path: so.data.read(path, format="csv"),
        lambda path: so.data.read(path, format="npz"),
        so.LabelSpace.read,
    ],
)
def test_pipes_and_devices_are_rejected_without_waiting(read: Any, tmp_path: Path) -> None:
    pipe, device = tmp_path / "pipe.lp", tmp_path / "device.lp"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(DeclarationError, match="a pipe or a device"):
            read(path)


@pytest.mark.parametrize("suffix", [".lp.gz", ".mps.gz", ".csv.gz", ".arff.gz", ".svm.gz", ".conll.gz", ".csv.bz2"])
def test_unpacked_text_has_a_limit(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import bz2

    path = tmp_path / f"bomb{suffix}"
    pack = gzip.compress if suffix.endswith(".gz") else bz2.compress
    path.write_bytes(pack(b"\n" * 4_000_000))
    read: Any = so.LabelSpace.read if "p" in suffix[1:3] else so.data.read
    with pytest.raises(DeclarationError, match="more than the 1000 bytes allowed; give max_bytes=") as caught:
        read(path, max_bytes=1000)
    assert "is not a" not in str(caught.value)
    monkeypatch.setattr(_archive, "_FREE_BYTES", 1 << 20)
    with pytest.raises(DeclarationError, match="give max_bytes="):
        read(path)


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_200_000])
def test_compressed_text_of_several_streams(size: int, tmp_path: Path) -> None:
    import bz2

    path, content = tmp_path / "a.gz", np.random.default_rng(0).integers(0, 4, size, dtype=np.uint8).tobytes()
    for pack, name in ((gzip.compress, "gzip"), (bz2.compress, "bzip2")):
        path.write_bytes(pack(content) + pack(b"end") + bytes(10))
        assert read_bytes(path, name) == content + b"end"
        path.write_bytes(pack(content) + b"not a stream")
        with pytest.raises(DeclarationError, match=f"is not a {name} file"):
            read_bytes(path, name)


@POSIX
def test_paths_need_not_be_utf8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes UTF-8 only")
    path = folder / "model.npz"
    estimator().save(path)
    assert so.load(path).predict([[1.0]]).tolist() == ["up"]
    (folder / "m.py").write_text(
        "import structopt as so\ndef model():\n    return so.structures.Multiclass(2)\n", encoding="utf-8"
    )
    assert so.load_model(folder / "m.py").name == "m"
    space().write(folder / "a.lp")
    assert so.LabelSpace.read(folder / "a.lp").n_variables == 2
    path.write_bytes(b"x")
    with pytest.raises(DeclarationError, match="not a saved estimator"):
        so.load(path)


def test_a_killed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    svm = estimator()
    svm.save(path)
    before = path.read_bytes()

    def interrupted(file: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(path, interrupted)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]

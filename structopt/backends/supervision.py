"""Supervision of solver processes that a modelling package starts: time limits, output, exit codes."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["SupervisedProgram"]

_GRACE = 10.0  # seconds beyond its own limit in which a program may still write its answer
_REAPED = 2.0  # seconds in which a program that was killed is gone
_WORDS = 300


class SupervisedProgram:
    """A solver's program behind a script of ours that notes its process, its exit code and what it printed last.

    PuLP and Pyomo start programs themselves and wait for them without a limit; with the script in place of the program
    we can end one that hangs, and say how one that crashed ended. Where there is no ``/bin/sh`` the program itself is
    started, unwatched.

    Parameters
    ----------
    program : str
        Path of the program.
    keep_output : bool
        Whether its output goes to our file; False where the package reads it.

    Examples
    --------
    >>> import subprocess
    >>> program = SupervisedProgram("/bin/echo", keep_output=True)
    >>> with program.watched(5.0):
    ...     _ = subprocess.run([program.path, "a word"])
    >>> program.account()
    'exit code 0, last output: a word'
    """

    def __init__(self, program: str, keep_output: bool) -> None:
        self.program = program
        self.path = program
        self._folder: Path | None = None
        self._killed = ""
        if os.name != "posix" or not os.access("/bin/sh", os.X_OK):
            return
        self._folder = Path(tempfile.mkdtemp(prefix="structopt-"))
        weakref.finalize(self, shutil.rmtree, str(self._folder), ignore_errors=True)
        # A session of its own, so that helpers which the program starts end with it.
        session = shutil.which("setsid")
        self._own_session = session is not None
        start = f"{shlex.quote(session)} " if session else ""
        folder, output = shlex.quote(str(self._folder)), '> "$folder/log" 2>&1 ' if keep_output else ""
        script = self._folder / os.path.basename(program)
        script.write_text(
            f'#!/bin/sh\nfolder={folder}\necho $$ > "$folder/script"\n[ -e "$folder/stop" ] && exit 130\n'
            f'{start}{shlex.quote(program)} "$@" {output}&\n'
            f'echo $! > "$folder/pid"\n[ -e "$folder/stop" ] && kill -9 {"-" if session else ""}$!\n'
            'wait $!\ncode=$?\necho $code > "$folder/code"\nexit $code\n',
            encoding="utf-8",
            errors="surrogateescape",
        )
        script.chmod(0o700)
        self.path = str(script)

    @contextmanager
    def watched(self, limit: float) -> Iterator[None]:
        """End the program `limit` seconds and some grace from now, or at once if the block is left by an exception."""
        self._killed = ""
        for name in ("script", "stop", "pid", "code", "log"):
            if self._folder is not None:
                (self._folder / name).unlink(missing_ok=True)
        patience = 1.5 * limit + _GRACE
        timer = threading.Timer(patience, self._kill, (f"ended by us {patience:.0f} s after its start",))
        timer.daemon = True
        if self._folder is not None and patience < threading.TIMEOUT_MAX:
            timer.start()
        try:
            yield
        except BaseException:
            if not self._read("code"):
                self._kill("ended by us")
            self._reap()
            raise
        finally:
            timer.cancel()

    def _reap(self) -> None:
        """Wait for the script of a call that was left, whose starter waits no more: it would stay as a zombie."""
        number, patience = self._read("script"), time.monotonic() + _REAPED
        with suppress(OSError):  # the starter has waited for it, or it is another's child
            while number.isdigit() and os.waitpid(int(number), os.WNOHANG)[0] == 0 and time.monotonic() < patience:
                time.sleep(0.005)

    def _kill(self, reason: str) -> None:
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / "stop").touch()  # for a script that has not yet started the program
        number = self._read("pid")
        if not number.isdigit():
            return
        self._killed = reason
        with suppress(OSError):
            if self._own_session:
                os.killpg(int(number), signal.SIGKILL)
            else:
                os.kill(int(number), signal.SIGKILL)

    def _read(self, name: str) -> str:
        if self._folder is None:
            return ""
        with suppress(OSError):
            return (self._folder / name).read_text(encoding="utf-8", errors="replace").strip()
        return ""

    def account(self) -> str:
        """How the last run ended, as text."""
        code, words = self._read("code"), " ".join(self._read("log").split())
        parts = [self._killed] if self._killed else []
        parts += [f"exit code {code}"] if code else []
        parts += [f"last output: {words[-_WORDS:]}"] if words else []
        return ", ".join(parts)

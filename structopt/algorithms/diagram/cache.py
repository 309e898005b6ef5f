"""Cache of diagrams and refusals by fingerprint of the space; drops the least recently used if memory is short."""

from __future__ import annotations

import threading
from collections import OrderedDict
from time import perf_counter

from structopt.algorithms.diagram.compiler import compile_diagram
from structopt.algorithms.diagram.diagram import Diagram
from structopt.errors import DiagramRefused, InfeasibleSpace
from structopt.space.compiled import CompiledSpace

__all__ = ["DIAGRAMS", "DiagramCache"]


class _Entry:
    """Stored result for one fingerprint; its lock is held during the compilation."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.uses = 0
        self.seconds: float | None = None
        self.diagram: Diagram | None = None
        self.refusal: DiagramRefused | InfeasibleSpace | None = None

    @property
    def nbytes(self) -> int:
        return 1000 + (0 if self.diagram is None else self.diagram.nbytes)


class DiagramCache:
    """Thread-safe cache of diagrams, and of refusals to compile a space.

    Parameters
    ----------
    max_bytes : int
        Memory of all diagrams together. One that is larger by itself is made again at each call.
    **budget
        Limits of each, as in `compile_diagram`.

    Examples
    --------
    >>> import structopt as so
    >>> cache = DiagramCache()
    >>> space = so.LabelSpace.from_matrices([[3, 5, 2, 7]], 0, 8).compiled
    >>> cache.used(space, 1) is None  # perhaps nobody ever asks again
    True
    >>> cache.used(space, 1)
    <Diagram: 8 labels, 6 nodes, 10 arcs, width 3>
    """

    def __init__(self, max_bytes: int = 1 << 28, **budget: int) -> None:
        self.max_bytes, self.budget = max_bytes, budget
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._balance = 0  # refusals minus diagrams, never below 0

    def _uses_needed(self) -> int:
        return 2 << min(max(self._balance - 3, 0), 12)

    def get(self, space: CompiledSpace) -> Diagram:
        """Return the diagram of a space, compiled if necessary.

        Raises
        ------
        DiagramRefused, InfeasibleSpace
            See `compile_diagram`. Later calls raise the stored error.
        """
        entry = self._entry(space)
        with entry.lock:
            if entry.diagram is None and entry.refusal is None:
                # After Ctrl-C the entry is unchanged, and the next caller compiles.
                begun = perf_counter()
                try:
                    entry.diagram = compile_diagram(space, **self.budget)
                except (DiagramRefused, InfeasibleSpace) as refusal:
                    entry.refusal = refusal.with_traceback(None)
                entry.seconds = perf_counter() - begun
                with self._lock:
                    self._balance = max(0, self._balance + (-1 if entry.refusal is None else 1))
        self._make_room()
        if entry.refusal is not None:
            raise entry.refusal
        assert entry.diagram is not None
        return entry.diagram

    def used(self, space: CompiledSpace, calls: int) -> Diagram | None:
        """Return the diagram of a space that is solved `calls` more times, or None at its first use or after a refusal.

        Compiling takes as long as many calls of a solver. After several refusals in a row, more uses are required.
        """
        entry = self._entry(space)
        with entry.lock:
            entry.uses += calls
            if entry.refusal is not None or (entry.diagram is None and entry.uses < self._uses_needed()):
                return None
        try:
            return self.get(space)
        except (DiagramRefused, InfeasibleSpace):
            return None

    def known(self, space: CompiledSpace) -> Diagram | None:
        """Return the diagram of a space if it has been compiled."""
        entry = self._known(space)
        return None if entry is None else entry.diagram

    def refusal(self, space: CompiledSpace) -> DiagramRefused | InfeasibleSpace | None:
        """Return the stored refusal of a space, or None."""
        entry = self._known(space)
        return None if entry is None else entry.refusal

    def seconds(self, space: CompiledSpace) -> float | None:
        """Return the time of the compilation of a space, or None."""
        entry = self._known(space)
        return None if entry is None else entry.seconds

    def _known(self, space: CompiledSpace) -> _Entry | None:
        with self._lock:
            # The fingerprint of a large space takes milliseconds.
            return self._entries.get(space.fingerprint) if self._entries else None

    @property
    def nbytes(self) -> int:
        """Memory of all entries in bytes."""
        with self._lock:
            return sum(entry.nbytes for entry in self._entries.values())

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._balance = 0

    def _entry(self, space: CompiledSpace) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(space.fingerprint, _Entry())
            self._entries.move_to_end(space.fingerprint)
        return entry

    def _make_room(self) -> None:
        with self._lock:
            total = sum(entry.nbytes for entry in self._entries.values())
            while total > self.max_bytes and self._entries:
                total -= self._entries.popitem(last=False)[1].nbytes


#: Diagrams of this process.
DIAGRAMS = DiagramCache()

"""`LabelSpace`: declare an output polytope once, with whole arrays at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import checked, converted, examples, floats, function, instance, number, whole
from structopt.errors import DeclarationError, InfeasibleSpace, SpaceMismatch, removed
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.enumeration import complete, enumerate_labels, follow_from
from structopt.space.feasibility import Violation, contains, point_of, violations
from structopt.space.lazy import Separation
from structopt.space.naming import ArrayNames, ChainedNames
from structopt.space.objective import LinearObjective, objective_of
from structopt.space.rows import Rows, Shape, canonical, stacked, widen
from structopt.space.tolerance import within
from structopt.space.variables import Block, bounds_of, shape_of

if TYPE_CHECKING:
    from structopt.interop.names import Block as BlockOfNames
    from structopt.recognize import Structure
    from structopt.recognize.completion import Completion

__all__ = ["Block", "LabelSpace"]

_log = logging.getLogger(__name__)


@removed(seal="a Model closes the space that it uses")
class LabelSpace:
    """A label space ``{z : row_lower <= A z <= row_upper, lower <= z <= upper}``, some ``z`` integer.

    Parameters
    ----------
    name : str, optional
        For messages, files and pictures.

    Examples
    --------
    At most three of fourteen labels, with one variable for each pair that is on together:

    >>> import numpy as np
    >>> import structopt as so
    >>> space = so.LabelSpace("at most three")
    >>> y = space.binary("y", 14)
    >>> i, j = np.triu_indices(14, k=1)
    >>> p = space.continuous("pair", len(i), 0, 1)
    >>> space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    >>> space.subject_to(y.sum() <= 3, name="cardinality")
    >>> space
    <LabelSpace 'at most three': 14 binary and 91 continuous variables, 274 rows>
    >>> len(space.enumerate())
    470
    """

    @checked
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.notes: list[str] = []
        self._blocks: dict[str, Block] = {}
        self._lower: list[FloatArray] = []
        self._upper: list[FloatArray] = []
        self._integrality: list[npt.NDArray[np.bool_]] = []
        self._rows: list[tuple[Sequence[str], sp.csr_array, FloatArray, FloatArray]] = []
        self._row_labels: set[str] = set()
        self._lazy: list[Separation] = []
        self._objective: LinearObjective | None = None
        self._n_variables = 0
        self._compiled: CompiledSpace | None = None
        self._structure: Structure | None = None
        self._completed_by: tuple[npt.NDArray[np.int64], Completion | None] | None = None
        self._sealed = ""

    # ---- variables -------------------------------------------------------------------------------

    @checked
    def binary(self, name: str, shape: int | Shape = ()) -> Block:
        """Declare an array of 0/1 variables.

        Parameters
        ----------
        name : str
        shape : int or tuple of int
            A single variable by default.

        Returns
        -------
        Block
        """
        return self._declare(name, shape, 0.0, 1.0, integer=True)

    @checked
    def integer(
        self,
        name: str,
        shape: int | Shape = (),
        lower: npt.ArrayLike = -np.inf,
        upper: npt.ArrayLike = np.inf,
    ) -> Block:
        """Declare an array of integer variables; bounds broadcast over the shape.

        Parameters
        ----------
        name : str
        shape : int or tuple of int
            A single variable by default.
        lower : array_like
        upper : array_like

        Returns
        -------
        Block
        """
        return self._declare(name, shape, lower, upper, integer=True)

    @checked
    def continuous(
        self,
        name: str,
        shape: int | Shape = (),
        lower: npt.ArrayLike = -np.inf,
        upper: npt.ArrayLike = np.inf,
    ) -> Block:
        """Declare an array of continuous variables; bounds broadcast over the shape.

        Parameters
        ----------
        name : str
        shape : int or tuple of int
            A single variable by default.
        lower : array_like
        upper : array_like

        Returns
        -------
        Block
        """
        return self._declare(name, shape, lower, upper, integer=False)

    def _declare(
        self, name: str, shape: int | Shape, lower: npt.ArrayLike, upper: npt.ArrayLike, *, integer: bool
    ) -> Block:
        self._check_open(f"block {name!r}")
        dimensions = shape_of(name, shape)
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"A variable block needs a name, got {name!r}.")
        if name in self._blocks:
            raise DeclarationError(f"The space already has a block named {name!r}; names must differ.")
        low, up = bounds_of(name, dimensions, lower, upper)
        return self._append(name, dimensions, low, up, np.full(low.shape, integer))

    def _append(
        self,
        name: str,
        shape: Shape,
        lower: FloatArray,
        upper: FloatArray,
        integrality: npt.NDArray[np.bool_],
        names: Sequence[str] | None = None,
    ) -> Block:
        block = Block(self, name, shape, self._n_variables, names)
        self._blocks[name] = block
        self._lower.append(lower)
        self._upper.append(upper)
        self._integrality.append(integrality)
        self._n_variables += block.size
        self._changed()
        return block

    def __getitem__(self, name: str) -> Block:
        try:
            return self._blocks[name]
        except KeyError:
            raise KeyError(
                f"no block {name!r}; this space has {', '.join(map(repr, self._blocks)) or 'none'}"
            ) from None

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks.values())

    @property
    def block_names(self) -> tuple[str, ...]:
        """Names of the variable blocks, in the order of ``z``."""
        return tuple(self._blocks)

    # ---- rows ------------------------------------------------------------------------------------

    def subject_to(self, *rows: Rows | bool, name: str | None = None) -> None:
        """Add rows made by comparing expressions.

        Parameters
        ----------
        *rows : Rows
            Comparisons such as ``y.sum(axis=1) == 1`` or ``x.between(1, 3)``.
        name : str, optional
            Name of the rows; the elements of an array are ``name[0]``, ``name[1]``, ... Default ``c0``, ``c1``, ...

        Raises
        ------
        DeclarationError
            Also if a `Model` has already compiled the space and would ignore further rows: add them to a `copy`.
        """
        self._check_open("a row")
        if name is not None and len(rows) > 1 and all(isinstance(r, Rows) for r in rows):
            self._add_rows(stacked([cast(Rows, r) for r in rows]), name)
            return
        for comparison in rows:
            if isinstance(comparison, bool | np.bool_):
                self._constant_rows(bool(comparison), name or "a comparison of constants", 1)
            elif isinstance(comparison, Rows):
                self._add_rows(comparison, name)
            else:
                raise DeclarationError(
                    f"subject_to takes comparisons such as y.sum() <= 3, got {type(comparison).__name__}."
                )

    @checked
    def lazy(
        self,
        separate: Callable[[dict[str, FloatArray]], Any],
        name: str | None = None,
        *,
        integral_only: bool = False,
        max_rounds: int = 1000,
    ) -> None:
        """Add rows that are too many to list: a function finds those that a point violates.

        Parameters
        ----------
        separate : callable
            ``separate(z)`` gets a point by blocks, as `blocks` gives it, and returns rows that the point violates and
            every label satisfies: comparisons as in `subject_to`, or triples ``(coef, lower, upper)`` (one list of them
            or one alone) where `coef` is a vector of all variables, a matrix of several rows, or a dict of arrays by
            block; or nothing. It must depend on the point alone: several threads call it, one at a time. At every
            integral point that is not a label it must return a violated row.
        name : str, optional
            Name of the rows in messages; default ``lazy0``, ``lazy1``, ...
        integral_only : bool
            Call it at integral points only. Otherwise it is called at fractional points, too, where it need not find
            all violated rows: what it finds makes the LP relaxation smaller.
        max_rounds : int
            Rounds of solving and separating after which a call of an oracle stops and returns a bound.

        Examples
        --------
        Spanning trees of a triangle, by the rows that forbid cycles:

        >>> import structopt as so
        >>> space = so.LabelSpace("trees")
        >>> edge = space.binary("edge", 3)
        >>> space.subject_to(edge.sum() >= 2)
        >>> space.lazy(lambda z: edge.sum() <= 2 if z["edge"].sum() > 2 else None, name="no cycle")
        >>> space
        <LabelSpace 'trees': 3 binary variables, 1 row, lazy rows 'no cycle'>
        >>> so.Oracle(space).maximize([3.0, 2.0, 1.0]).z
        array([1., 1., 0.])
        """
        self._check_open("a lazy row")
        function("separate", separate, 1)
        label = f"lazy{len(self._lazy)}" if name is None else name
        if label in self._row_labels:
            raise DeclarationError(f"The space already has rows named {label!r}; names must differ.")
        rounds = whole("max_rounds", max_rounds, low=1)
        self._lazy.append(Separation.of(separate, label, integral_only, rounds))
        self._row_labels.add(label)
        self._changed()

    def _add_rows(self, rows: Rows, name: str | None) -> None:
        if rows.space is not self:
            raise SpaceMismatch(f"These rows are about variables of {rows.space!r}, not of {self!r}.")
        label = f"c{len(self._rows)}" if name is None else instance("name", name, str)
        if label in self._row_labels:
            raise DeclarationError(f"The space already has rows named {label!r}; names must differ.")
        matrix = canonical(rows.matrix)
        names: Sequence[str] = ArrayNames(label, rows.shape)
        lower, upper = rows.lower, rows.upper
        constant = np.diff(matrix.indptr) == 0
        if constant.any():
            false = constant & ~within(0.0, 0.0, 1.0, lower, upper, FEASIBILITY_TOLERANCE)
            if false.any():
                self._constant_rows(False, names[int(np.argmax(false))], int(false.sum()))
            self._constant_rows(True, label, int(constant.sum()))
            kept = np.flatnonzero(~constant)
            names = [names[int(k)] for k in kept]
            matrix, lower, upper = matrix[kept], lower[kept], upper[kept]
        self._row_labels.add(label)
        self._rows.append((names, matrix, np.array(lower), np.array(upper)))
        self._changed()

    def _constant_rows(self, satisfied: bool, name: str, count: int) -> None:
        if not satisfied:
            raise InfeasibleSpace(
                f"Row {name} contains no variable and is false, so no label satisfies it.", rows=(name,)
            )
        note = f"{count} row(s) of {name} contain no variable and are true; dropped"
        self.notes.append(note)
        _log.info("%s: %s", self.name or "LabelSpace", note)

    def _changed(self) -> None:
        self._compiled = None
        self._structure = None
        self._completed_by = None

    def _seal(self, user: str) -> None:
        """Refuse further declarations from now on, because `user` has compiled the space."""
        if not self._sealed:
            self._sealed = user

    def _check_open(self, what: str) -> None:
        if self._sealed:
            raise DeclarationError(
                f"{what} cannot be added to {self!r}: {self._sealed} was compiled from it and would ignore the "
                "change. Declare everything first; or extend space.copy() and make a new one from that."
            )

    # ---- the canonical form ----------------------------------------------------------------------

    @property
    def compiled(self) -> CompiledSpace:
        """The frozen matrix form, made on demand and kept until the declaration changes."""
        if self._compiled is None:
            self._compiled = self._compile()
        return self._compiled

    def _compile(self) -> CompiledSpace:
        n = self._n_variables
        matrices = [widen(matrix, n) for _, matrix, _, _ in self._rows]
        if len(matrices) > 1:
            matrix = sp.vstack(matrices, format="csr")
        else:
            matrix = matrices[0] if matrices else sp.csr_array((0, n), dtype=np.float64)
        return CompiledSpace(
            matrix=matrix,
            row_lower=_joined([lower for _, _, lower, _ in self._rows]),
            row_upper=_joined([upper for _, _, _, upper in self._rows]),
            lower=_joined(self._lower),
            upper=_joined(self._upper),
            integrality=_joined(self._integrality, np.bool_),
            variable_names=ChainedNames([block.names for block in self]),
            row_names=ChainedNames([names for names, _, _, _ in self._rows]),
            name=self.name,
            separations=self._separations(),
        )

    def _separations(self) -> tuple[Separation, ...]:
        layout = tuple((block.name, block.shape, block.slice.start) for block in self)
        return tuple(separation.placed(layout) for separation in self._lazy)

    @property
    def matrix(self) -> sp.csr_array:
        """The rows' coefficients, CSR, shape ``(n_rows, n_variables)``."""
        return self.compiled.matrix

    @property
    def row_lower(self) -> FloatArray:
        """Lower bounds of the rows."""
        return self.compiled.row_lower

    @property
    def row_upper(self) -> FloatArray:
        """Upper bounds of the rows."""
        return self.compiled.row_upper

    @property
    def lower(self) -> FloatArray:
        """Lower bounds of the variables."""
        return self.compiled.lower

    @property
    def upper(self) -> FloatArray:
        """Upper bounds of the variables."""
        return self.compiled.upper

    @property
    def integrality(self) -> npt.NDArray[np.bool_]:
        """Which variables must be integer."""
        return self.compiled.integrality

    @property
    def variable_names(self) -> Sequence[str]:
        """Names of the variables, in the order of ``z``."""
        return self.compiled.variable_names

    @property
    def row_names(self) -> Sequence[str]:
        """Names of the rows."""
        return self.compiled.row_names

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self._n_variables

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(matrix.shape[0] for _, matrix, _, _ in self._rows)

    @property
    def fingerprint(self) -> str:
        """Hash of the content: equal for two spaces with the same rows, bounds and integrality."""
        return self.compiled.fingerprint

    @property
    def objective(self) -> LinearObjective | None:
        """The linear objective over ``z`` that a file or model came with, or None.

        `read`, `from_pyomo` and `from_pulp` set it, and `write`, `to_pyomo` and `to_pulp` write it. It has the sense of
        the model: ``objective.coef``, ``objective.constant`` and ``objective.sense``. ``objective.scores`` has the
        coefficients to maximise. You can set it to a vector, which is maximised, to a `LinearObjective` or to None. The
        objective is not part of the label space: oracles, models and `fingerprint` do not use it.

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace("tags")
        >>> y = space.binary("y", 3)
        >>> space.subject_to(y.sum() == 1)
        >>> space.objective = [1.0, 3.0, 2.0]
        >>> so.Oracle(space).maximize(space.objective.scores).z
        array([0., 1., 0.])
        """
        found = self._objective
        if found is not None and found.coef.size < self._n_variables:  # a block was declared later
            found = found._replace(coef=np.concatenate([found.coef, np.zeros(self._n_variables - found.coef.size)]))
            self._objective = found
        return found

    @objective.setter
    def objective(self, value: LinearObjective | npt.ArrayLike | None) -> None:
        self._objective = None if value is None else objective_of(value, self._n_variables)

    @property
    def structure(self) -> Structure:
        """What was recognised, with proof: ``.kind``, ``.reason``, ``.totally_unimodular``, ``.oracle``."""
        if self._structure is None:
            from structopt.recognize import recognize

            self._structure = recognize(self.compiled)
        if self._structure.kind == "general" and not self._structure.diagram:
            from structopt.algorithms.diagram import DIAGRAMS

            found = DIAGRAMS.known(self.compiled)
            if found is not None:
                self._structure = replace(self._structure, diagram=found.summary)
        return self._structure

    # ---- labels ----------------------------------------------------------------------------------

    def vector(self, /, **values: npt.ArrayLike) -> FloatArray:
        """One ``z`` from an array per block (every block must be given).

        Parameters
        ----------
        **values : array_like
            A value for each block, by its name.

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        unknown = values.keys() - self._blocks.keys()
        missing = self._blocks.keys() - values.keys()
        if unknown or missing:
            problems = [f"unknown {', '.join(sorted(unknown))}"] if unknown else []
            problems += [f"missing {', '.join(sorted(missing))}"] if missing else []
            raise DeclarationError(f"vector() needs each block once: {'; '.join(problems)}.")
        z = np.empty(self._n_variables)
        for name, block in self._blocks.items():
            value = floats(f"Block {name!r}", values[name])
            if value.shape != block.shape:
                raise DeclarationError(f"Block {name!r} has shape {block.shape}, got {value.shape}.")
            z[block.slice] = value.ravel()
        return z

    def blocks(self, z: npt.ArrayLike) -> dict[str, FloatArray]:
        """The parts of ``z``, by block name and in the block's shape (views, not copies).

        Parameters
        ----------
        z : array_like of shape (n_variables,)

        Returns
        -------
        dict of str to ndarray
        """
        point = floats("z", z)
        if point.shape != (self._n_variables,):
            raise SpaceMismatch(f"z has shape {point.shape}; {self!r} needs ({self._n_variables},).")
        return {name: point[block.slice].reshape(block.shape) for name, block in self._blocks.items()}

    def point(self, label: Any) -> FloatArray:
        """Return the point ``z`` of a label, which need not satisfy the rows.

        Parameters
        ----------
        label : mapping or array_like
            A mapping with an array for each block, the whole ``z``, or the array of the first block. The other blocks
            must then follow from the first one through the rows.

        Returns
        -------
        ndarray of shape (n_variables,)

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace("a tag and its opposite")
        >>> tag, other = space.binary("tag", 2), space.binary("other", 2)
        >>> space.subject_to(tag + other == 1)
        >>> space.point([1, 0]), space.point({"tag": [1, 0], "other": [0, 1]})
        (array([1., 0., 0., 1.]), array([1., 0., 0., 1.]))
        """
        if isinstance(label, Mapping):
            return self.vector(**{str(name): value for name, value in label.items()})
        given = converted("A label", label)
        if given.shape == (self._n_variables,):
            return point_of(self.compiled, given)
        first = next(iter(self), None)
        if first is None or given.shape != first.shape:
            expected = "" if first is None else f"an array of shape {first.shape} (block {first.name!r}) or "
            raise SpaceMismatch(
                f"A label is a mapping of blocks, {expected}a whole z of length {self._n_variables}, got shape "
                f"{given.shape}; a model takes other labels with encode=."
            )
        return np.asarray(self._completed(floats("A label", given).reshape(1, -1))[0])

    def _completed(self, first: FloatArray) -> FloatArray:
        """Return the points with these values of the first block, a row per point."""
        known, completion = self._completion
        if completion is not None:
            points = np.zeros((len(first), self._n_variables))
            points[:, known] = first
            if completion.fill(points):
                return points
        return complete(self.compiled, known, first)

    def _follow_from_first(self, points: FloatArray) -> bool:
        """Return whether the first block determines every one of the points."""
        known, completion = self._completion
        if completion is not None:
            found, near = np.array(points), np.rint(points[:, known])
            found[:, known] = near
            if (np.abs(points[:, known] - near) <= 1e-9).all() and completion.fill(found):
                return bool((np.abs(found - points) <= 1e-6).all())
        return follow_from(self.compiled, known, points)

    @property
    def _completion(self) -> tuple[npt.NDArray[np.int64], Completion | None]:
        """The variables of the first block, and how the others follow from them if that is recognised."""
        if self._completed_by is None:
            from structopt.recognize.completion import completion_of

            first = next(iter(self))
            known = np.arange(first.slice.start, first.slice.stop)
            whole = len(known) == self._n_variables
            found = None if whole else completion_of(self.structure, known, self._n_variables)
            self._completed_by = known, found
        return self._completed_by

    def contains(self, z: Any, tol: float = FEASIBILITY_TOLERANCE) -> bool:
        """Return whether ``z`` is a label: rows, bounds and integrality hold within `tol`.

        Parameters
        ----------
        z : array_like of shape (n_variables,), or a label in another form that `point` takes
        tol : float
            How far a row or a bound may be missed, an absolute number.

        Returns
        -------
        bool
        """
        return contains(self.compiled, self.point(z), number("tol", tol, low=0.0))

    def violations(self, z: Any, tol: float = FEASIBILITY_TOLERANCE) -> list[Violation]:
        """Return the rows, bounds and integrality conditions that ``z`` violates, by name.

        Parameters
        ----------
        z : array_like of shape (n_variables,), or a label in another form that `point` takes
        tol : float
            How far a row or a bound may be missed, an absolute number.

        Returns
        -------
        list of Violation
        """
        return violations(self.compiled, self.point(z), number("tol", tol, low=0.0))

    @checked
    def enumerate(self, limit: int = 100_000) -> FloatArray:
        """Every integral label of a small space, one per row, in lexicographic order.

        Parameters
        ----------
        limit : int
            More labels than this are refused.

        Returns
        -------
        ndarray of shape (n_labels, n_variables)
        """
        return enumerate_labels(self.compiled, whole("limit", limit, low=0))

    def count(self) -> int:
        """The exact number of integral labels, found by compiling the space into a decision diagram.

        Returns
        -------
        int

        Raises
        ------
        DiagramRefused
            If the diagram gets too wide, the labels are not finitely many, or feasibility depends on a tolerance.

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace("at most a hundred of two hundred")
        >>> y = space.binary("y", 200)
        >>> space.subject_to(y.sum() <= 100)
        >>> space.count()
        848743279457546778353683134709323383198353791729103086071348
        """
        from structopt.algorithms.diagram import DIAGRAMS

        try:
            return DIAGRAMS.get(self.compiled).count()
        except InfeasibleSpace:
            return 0

    def relaxed(self) -> LabelSpace:
        """The same rows and bounds without integrality.

        Returns
        -------
        LabelSpace
        """
        return self._copied(f"{self.name} (relaxed)" if self.name else "", keep_integrality=False)

    def copy(self) -> LabelSpace:
        """The same declaration, open for further blocks and rows; its blocks are ``copy["name"]``.

        Returns
        -------
        LabelSpace

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace("tags")
        >>> y = space.binary("y", 3)
        >>> fewer = space.copy()
        >>> fewer.subject_to(fewer["y"].sum() <= 1)
        >>> len(space.enumerate()), len(fewer.enumerate())
        (8, 4)
        """
        return self._copied(self.name, keep_integrality=True)

    def _copied(self, name: str, *, keep_integrality: bool) -> LabelSpace:
        copy = LabelSpace(name)
        for block, lower, upper, integrality in zip(self, self._lower, self._upper, self._integrality, strict=True):
            marks = integrality if keep_integrality else np.zeros(lower.shape, bool)
            names = None if isinstance(block.names, ArrayNames) else block.names
            copy._append(block.name, block.shape, lower, upper, marks, names)
        copy._rows = list(self._rows)
        copy._row_labels = set(self._row_labels)
        copy._lazy = list(self._lazy)
        copy.notes = list(self.notes)
        copy._objective = self._objective
        return copy

    # ---- import and export -----------------------------------------------------------------------

    @classmethod
    def from_compiled(cls, compiled: CompiledSpace, blocks: Sequence[BlockOfNames] | None = None) -> LabelSpace:
        """A space from its matrix form.

        Parameters
        ----------
        compiled : CompiledSpace
        blocks : sequence of (name, shape, names of elements), optional
            The arrays that its variables make, in order; by default they are recovered from names such as ``y[0]``,
            ``y[1]``, ...

        Returns
        -------
        LabelSpace
        """
        from structopt.interop.names import blocks_of

        instance("compiled", compiled, CompiledSpace)
        space = cls(compiled.name)
        start = 0
        for name, shape, names in blocks_of(compiled.variable_names) if blocks is None else blocks:
            stop = start + int(np.prod(shape, dtype=np.int64))
            part = slice(start, stop)
            space._append(name, shape, compiled.lower[part], compiled.upper[part], compiled.integrality[part], names)
            start = stop
        if compiled.n_rows:
            rows = (compiled.row_names, compiled.matrix, compiled.row_lower, compiled.row_upper)
            space._rows.append(rows)
            space._row_labels.update(compiled.row_names)
        space._lazy = list(compiled.separations)
        space._row_labels.update(separation.name for separation in space._lazy)
        return space

    @classmethod
    @checked
    def from_matrices(
        cls,
        matrix: npt.ArrayLike | sp.sparray | sp.spmatrix,
        row_lower: npt.ArrayLike = -np.inf,
        row_upper: npt.ArrayLike = np.inf,
        lower: npt.ArrayLike = 0.0,
        upper: npt.ArrayLike = 1.0,
        integrality: npt.ArrayLike = 1,
        *,
        name: str = "",
        row_name: str = "row",
    ) -> LabelSpace:
        """A space from ``row_lower <= matrix @ z <= row_upper``; by default the variables are 0/1.

        Parameters
        ----------
        matrix : array_like or sparse matrix of shape (n_rows, n_variables)
        row_lower : array_like
        row_upper : array_like
        lower : array_like
        upper : array_like
        integrality : array_like of bool
            Which variables must be whole.
        name : str
            Of the space.
        row_name : str
            Of the rows, which are numbered.

        Returns
        -------
        LabelSpace

        Examples
        --------
        >>> import structopt as so
        >>> so.LabelSpace.from_matrices([[1, 1, 1]], 1, 1, name="one of three")
        <LabelSpace 'one of three': 3 binary variables, 1 row>
        """
        if sp.issparse(matrix):
            rows = examples("matrix", matrix)
        else:
            dense = np.atleast_2d(converted("matrix", matrix))
            if dense.ndim != 2:
                raise DeclarationError(f"matrix must have two axes, got shape {dense.shape}.")
            rows = sp.csr_array(dense)
        if not np.isfinite(rows.data).all():
            raise DeclarationError("The matrix has NaN or infinite entries.")
        space = cls(name)
        n_rows, n = rows.shape
        low, up = bounds_of("z", (n,), lower, upper)
        kinds = floats("integrality", integrality)
        if kinds.shape not in ((), (1,), (n,)):
            raise DeclarationError(f"integrality has shape {kinds.shape}; the matrix has {n} columns.")
        space._append("z", (n,), low, up, np.broadcast_to(kinds != 0, (n,)).copy())
        bounds = [_vector(what, value, n_rows) for what, value in (("row_lower", row_lower), ("row_upper", row_upper))]
        if n_rows:
            matrix_rows = sp.csr_array(rows, dtype=np.float64)
            space._add_rows(Rows(space, (n_rows,), matrix_rows, bounds[0], bounds[1]), row_name)
        return space

    @classmethod
    def from_pyomo(cls, model: Any) -> LabelSpace:
        """Return a space of the variables and active constraints of a Pyomo model, with its `objective`.

        Parameters
        ----------
        model : pyomo.ConcreteModel

        Returns
        -------
        LabelSpace
        """
        from structopt.interop.pyomo import read_pyomo, read_pyomo_objective

        compiled = read_pyomo(model)
        space = cls.from_compiled(compiled)
        space.objective = read_pyomo_objective(model, compiled)
        return space

    @classmethod
    def from_pulp(cls, problem: Any) -> LabelSpace:
        """Return a space of the variables and constraints of a PuLP problem, with its `objective`.

        PuLP has no arrays, only names. ``LpVariable.dicts("tag", range(10))`` and the like become one block again if
        the numbers in the names are unambiguous: ``tag_0`` to ``tag_9`` are the block ``tag``, ``x_0_1`` and
        ``x_(0,_1)`` elements of a block ``x``. Variables stay scalars if the numbers have a gap, if there is only one,
        if a variable is called ``tag``, or if keys are words (``tag_noun``).

        Parameters
        ----------
        problem : pulp.LpProblem

        Returns
        -------
        LabelSpace

        Examples
        --------
        >>> import pulp
        >>> import structopt as so
        >>> problem = pulp.LpProblem("tags")
        >>> tag = pulp.LpVariable.dicts("tag", range(10), cat="Binary")
        >>> problem += pulp.lpSum(tag.values()) == 1, "one"
        >>> so.LabelSpace.from_pulp(problem)["tag"].shape
        (10,)
        """
        from structopt.interop.pulp import pulp_blocks, read_pulp, read_pulp_objective

        compiled = read_pulp(problem)
        space = cls.from_compiled(compiled, pulp_blocks(problem, compiled.variable_names))
        space.objective = read_pulp_objective(problem, compiled)
        return space

    @classmethod
    @checked
    def read(cls, path: str | Path, *, max_bytes: int | None = None) -> LabelSpace:
        """Return the space of an MPS or LP file, with its `objective`.

        Parameters
        ----------
        path : path
            Ends in ``.mps`` or ``.lp``, and ``.gz`` if it is compressed.
        max_bytes : int, optional
            Reject a file that is larger after unpacking; by default a compressed one may unpack to one GiB and fifty
            times its own size.

        Returns
        -------
        LabelSpace
        """
        from structopt.interop.files import read_model

        compiled, objective = read_model(path, max_bytes=max_bytes)
        space = cls.from_compiled(compiled)
        space.objective = objective
        return space

    def to_pyomo(self) -> Any:
        """Return the space as a Pyomo ``ConcreteModel``, with its `objective`.

        Returns
        -------
        pyomo.ConcreteModel
        """
        from structopt.interop.pyomo import to_pyomo

        return to_pyomo(self.compiled, self.objective)

    def to_pulp(self) -> Any:
        """Return the space as a ``pulp.LpProblem``, with its `objective`.

        Returns
        -------
        pulp.LpProblem
        """
        from structopt.interop.pulp import to_pulp

        names = self.compiled.variable_names
        blocks = [(block.name, block.shape, tuple(names[block.slice])) for block in self]
        return to_pulp(self.compiled, blocks, self.objective)

    @checked
    def write(self, path: str | Path, objective: LinearObjective | npt.ArrayLike | None = None) -> None:
        """Write the space as an MPS or LP file, by the file's suffix.

        Parameters
        ----------
        path : path
            Ends in ``.mps`` or ``.lp``, or ``.mps.gz`` or ``.lp.gz``.
        objective : LinearObjective or array_like of shape (n_variables,), optional
            Objective of the file. A vector is maximised. The default is the `objective` of the space, or zero if it has
            none.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import structopt as so
        >>> space = so.LabelSpace("tags")
        >>> y = space.binary("y", 3)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "tags.mps"
        >>> space.write(path, objective=[1.0, 3.0, 2.0])
        >>> so.LabelSpace.read(path).objective
        LinearObjective(coef=array([1., 3., 2.]), constant=0.0, sense='maximize')
        """
        from structopt.interop.files import write

        own = self.objective if objective is None else objective_of(objective, self._n_variables)
        write(self.compiled, path, own)

    # ---- views -----------------------------------------------------------------------------------

    @checked
    def algebra(self, *, max_rows: int = 50, max_terms: int = 12) -> str:
        """Return the declared program as text: variables with their domains, then named inequalities.

        ``print(space)`` shows the same text if the space has at most 40 variables and 20 rows.

        Parameters
        ----------
        max_rows : int
            Number of rows to show.
        max_terms : int
            Number of terms to show per row.

        Returns
        -------
        str

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace("tags within a budget")
        >>> tag = space.binary("tag", 3)
        >>> space.subject_to(3 * tag[0] + 2 * tag[1] + 2 * tag[2] <= 4, name="budget")
        >>> space.subject_to(tag[0] <= tag[1], name="implied")
        >>> print(space.algebra())
        tags within a budget
          tag[0..2] in {0, 1}
          budget:  3 tag[0] + 2 tag[1] + 2 tag[2] <= 4
          implied: tag[0] - tag[1] <= 0
        """
        from structopt.space.views import space_algebra

        return space_algebra(self, whole("max_rows", max_rows, low=0), whole("max_terms", max_terms, low=1))

    def __str__(self) -> str:
        from structopt.space.views import is_small

        return self.algebra() if is_small(self) else repr(self)

    def __repr__(self) -> str:
        from structopt.space.views import space_summary

        return f"<LabelSpace{f' {self.name!r}' if self.name else ''}: {space_summary(self)}>"

    def _repr_html_(self) -> str:
        from structopt.space.views import space_html

        return space_html(self)


def _vector(what: str, value: npt.ArrayLike, length: int) -> FloatArray:
    array = floats(what, value, finite=False)
    if array.shape not in ((), (1,), (length,)):
        raise DeclarationError(f"{what} has shape {array.shape}; the matrix has {length} rows.")
    return np.broadcast_to(array, (length,)).copy()


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: Any = np.float64) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)

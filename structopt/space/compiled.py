"""The frozen, solver-free matrix form that every declaration compiles to.

Everything below the declaration layer (solvers, recogniser, file formats) sees only this:

    row_lower <= matrix @ z <= row_upper,    lower <= z <= upper,    z[j] integer where integrality[j]
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.errors import DeclarationError, UnsupportedSpace
from structopt.space.tolerance import row_units

if TYPE_CHECKING:
    from structopt.space.lazy import Separation

__all__ = ["FEASIBILITY_TOLERANCE", "VALUE_TOLERANCE", "CompiledSpace", "FloatArray"]

FloatArray = npt.NDArray[np.float64]

#: Feasibility and integrality tolerance, in one place.
FEASIBILITY_TOLERANCE = 1e-6
#: Relative tolerance when two objective values are compared.
VALUE_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class CompiledSpace:
    """A label space as plain arrays.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array, shape (n_rows, n_variables)
        Canonical: sorted indices, no duplicates, no stored zeros, int32 indices where they fit.
    row_lower, row_upper : ndarray, shape (n_rows,)
        Row bounds; infinite where there is none.
    lower, upper : ndarray, shape (n_variables,)
        Variable bounds. Those of integer variables are rounded inwards: [0, 1.4] becomes [0, 1].
    integrality : ndarray of bool, shape (n_variables,)
        True where a variable must be integer.
    variable_names, row_names : sequence of str
        The user's own names, for messages and files. They may be lazy sequences.
    separations : tuple of Separation
        Functions that find further rows where a point violates them (`structopt.space.lazy`).
    """

    matrix: sp.csr_array
    row_lower: FloatArray
    row_upper: FloatArray
    lower: FloatArray
    upper: FloatArray
    integrality: npt.NDArray[np.bool_]
    variable_names: Sequence[str] = field(repr=False)
    row_names: Sequence[str] = field(repr=False)
    name: str = ""
    separations: tuple[Separation, ...] = ()

    def __post_init__(self) -> None:
        n_rows, n_variables = self.matrix.shape
        for what, array, length in (
            ("row_lower", self.row_lower, n_rows),
            ("row_upper", self.row_upper, n_rows),
            ("lower", self.lower, n_variables),
            ("upper", self.upper, n_variables),
            ("integrality", self.integrality, n_variables),
        ):
            if array.shape != (length,):
                raise DeclarationError(
                    f"{what} has shape {array.shape}; the matrix is {n_rows} x {n_variables}, "
                    f"so it must have shape ({length},)."
                )
        self._round_bounds()
        self._freeze()

    def _round_bounds(self) -> None:
        """Round the bounds of integer variables inwards; they cross if no integer is between them."""
        fractional = (np.rint(self.lower) != self.lower) | (np.rint(self.upper) != self.upper)
        if not (fractional & self.integrality).any():
            return
        lower = np.ceil(self.lower - FEASIBILITY_TOLERANCE) + 0.0  # no negative zeros
        upper = np.floor(self.upper + FEASIBILITY_TOLERANCE) + 0.0
        object.__setattr__(self, "lower", np.where(self.integrality, lower, self.lower))
        object.__setattr__(self, "upper", np.where(self.integrality, upper, self.upper))

    def _freeze(self) -> None:
        """Make the arrays read-only: solvers and algorithms built from them would not notice a change."""
        matrix = self.matrix
        for array in (self.row_lower, self.row_upper, self.lower, self.upper, self.integrality):
            array.flags.writeable = False
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # the flag is not pickled

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return int(self.matrix.shape[1])

    @cached_property
    def is_integral(self) -> bool:
        """Whether any variable must be integer, or there are no variables, as in the space of an empty input."""
        return bool(self.integrality.any()) or not self.integrality.size

    @cached_property
    def is_mixed(self) -> bool:
        """Whether there are integer and continuous variables, apart from those that their bounds fix."""
        free = self.integrality[self.lower < self.upper]
        return bool(free.any() and not free.all())

    @cached_property
    def is_binary(self) -> npt.NDArray[np.bool_]:
        """Mask of the variables that take only the values 0 and 1."""
        mask = self.integrality & (self.lower >= 0) & (self.upper <= 1)
        mask.flags.writeable = False
        return mask

    @cached_property
    def row_units(self) -> FloatArray:
        """The units of the rows, of which tolerances are multiples (`structopt.space.tolerance`)."""
        units = row_units(self.matrix.indptr, self.matrix.data)
        units.flags.writeable = False
        return units

    def relaxed(self) -> CompiledSpace:
        """The same rows and bounds without integrality."""
        return replace(self, integrality=np.zeros(self.n_variables, dtype=bool))

    def rows_only(self) -> CompiledSpace:
        """The rows that are declared, without those that a function finds: a larger set."""
        return replace(self, separations=()) if self.separations else self

    def refuse_lazy_rows(self, who: str) -> None:
        """Raise `UnsupportedSpace` for one who would ignore the rows that a function finds."""
        if self.separations:
            raise UnsupportedSpace(
                f"{who} takes the rows that are listed, and {self!r} has lazy rows "
                f"({', '.join(separation.name for separation in self.separations)}), which a function finds. "
                "Use so.Oracle(space), or list the rows."
            )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content (rows, bounds, integrality; not the names), to share compiled oracles."""
        digest = self._digest_rows()
        for separation in self.separations:
            digest.update(f"{separation.token}{separation.integral_only}{separation.layout}".encode())
        return digest.hexdigest()

    def same_rows(self, other: CompiledSpace) -> bool:
        """Return whether two spaces have the same variables and listed rows; lazy rows are not compared."""
        return self._digest_rows().digest() == other._digest_rows().digest()

    def _digest_rows(self) -> hashlib.blake2b:
        digest = hashlib.blake2b(digest_size=16)
        digest.update(np.asarray(self.matrix.shape, dtype=np.int64).tobytes())
        for array, dtype in (
            (self.matrix.indptr, np.int64),
            (self.matrix.indices, np.int64),
            (self.matrix.data, np.float64),
            (self.row_lower, np.float64),
            (self.row_upper, np.float64),
            (self.lower, np.float64),
            (self.upper, np.float64),
        ):
            # Adding 0.0 turns -0.0 into 0.0, which must not change the fingerprint.
            digest.update(np.ascontiguousarray(array.astype(dtype) + dtype(0)).tobytes())
        digest.update(np.packbits(self.integrality).tobytes())
        return digest

    def __repr__(self) -> str:
        title = f" {self.name!r}" if self.name else ""
        lazy = f", lazy {', '.join(s.name for s in self.separations)}" if self.separations else ""
        return (
            f"<CompiledSpace{title}: {self.n_variables} variables ({int(self.integrality.sum())} integer), "
            f"{self.n_rows} rows, {self.matrix.nnz} non-zeros{lazy}>"
        )

"""`Model`: a label space, joint features, a task loss and a codec, composed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.checks import checked, floats, function, instance, number, shown
from structopt.errors import DeclarationError, SpaceMismatch, StructoptError, removed
from structopt.features import Term, checked_rows
from structopt.losses import TaskLoss
from structopt.model.block_losses import BlockLosses
from structopt.model.codec import BatchCodec, PointCodec
from structopt.model.forms import LabelForm, points_of
from structopt.model.inference import BatchInference, OracleInference, PartInference
from structopt.oracle import Oracle
from structopt.recognize import Record
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.space.feasibility import check_label, rows_in

if TYPE_CHECKING:
    from structopt.algorithms.base import Algorithm
    from structopt.algorithms.parts import PartSolver
    from structopt.model.batch import Batch
    from structopt.model.data_set import DataSet

__all__ = ["Model"]

_USER = "a Model that is in use"

# Programs of 10 to 272 variables missed up to 4e-10 of the objective per variable.
_ERROR_OF_VARIABLE, _LARGEST_ERROR = 1e-8, 1e-3


@removed(
    integral_twin="use predict, which returns integral labels",
    private_twin="make another model",
    solves_itself="compare model.solver with 'auto'",
    loss_at="use loss, or block_losses(x).linear(z)",
    scores_batch="use batch = model.batch(X) and batch.costs(batch.tables(w))",
    joint_batch="use batch = model.batch(X) and batch.joint(batch.fold(batch.points(Z)))",
)
class Model:
    """Everything that training and prediction need to know of a structured output.

    Parameters
    ----------
    space : LabelSpace or callable
        The label space, or a function ``space(x)`` if it depends on the input. The function is called once per
        ``key(x)``. Rows may be added until the model is first used.
    features : mapping of str to Term
        How the blocks of the space are scored (`structopt.features`); blocks left out score 0.
    loss : TaskLoss or mapping of str to TaskLoss, optional
        Task loss by block; a single loss is put on the first block.
    encode, decode : callable, optional
        ``encode(label) -> z`` and ``decode(z) -> label``. By default a label is a dict of all blocks, a whole ``z``,
        or the array of the first block if the other blocks follow from it through the rows.
    key : callable, optional
        Hashable value ``key(x)`` that determines the space of an input. The default is the shape of a numeric array.
        Other inputs (dicts, objects) need a `key` if `space` is a function. `predict`, `Batch` and
        `structopt.testing.check_model` raise if they find two inputs with one key and different spaces.
    record : Record or callable, optional
        Record of the space (`structopt.records`), or a function ``record(x)`` if the space depends on the input. State
        it if recognition cannot prove the structure of the space; see `Oracle`. A wrong record is found by its arrays,
        by labels that break rows, or by `structopt.testing.check_model`, which compares with a solver.
    solver, integral, options
        Given to the `Oracle` of each space. With ``integral="relax"`` training uses the LP relaxation. Predictions are
        integral labels.

    Examples
    --------
    Three tags, at most two of them on:

    >>> import numpy as np
    >>> import structopt as so
    >>> space = so.LabelSpace("at most two tags")
    >>> tag = space.binary("tag", 3)
    >>> space.subject_to(tag.sum() <= 2)
    >>> model = so.Model(space, features={"tag": so.features.Linear()}, loss=so.losses.Hamming())
    >>> w = np.array([1.0, 2.0, -1.0])                  # one feature, three tags
    >>> model.predict(w, [1.0])
    array([1, 1, 0])
    >>> model.loss([1, 1, 0])
    (array([-1., -1.,  1.]), 2.0)
    """

    @checked
    def __init__(
        self,
        space: LabelSpace | Callable[[Any], LabelSpace],
        features: Mapping[str, Term],
        loss: TaskLoss | Mapping[str, TaskLoss] | None = None,
        *,
        encode: Callable[[Any], npt.ArrayLike] | None = None,
        decode: Callable[[FloatArray], Any] | None = None,
        key: Callable[[Any], Hashable] | None = None,
        record: Record | Callable[[Any], Record] | None = None,
        solver: Any = "auto",
        integral: Any = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(space, LabelSpace):
            function("space", space, 1)
        if record is not None and not isinstance(record, Record):
            function("record", record, 1)
        for name, term in features.items():
            instance(f"The feature term of block {name!r}", term, Term)
        for name, part in loss.items() if isinstance(loss, Mapping) else ():
            instance(f"The loss of block {name!r}", part, TaskLoss)
        self._declared = space if isinstance(space, LabelSpace) else None
        self._declare = space if not isinstance(space, LabelSpace) else None
        self.features = dict(features)
        self._loss = dict(loss) if isinstance(loss, Mapping) else loss
        self._encode = encode
        self._decode = decode
        self._key = key
        self._record = record
        self.solver = solver
        self.integral = integral
        self.options = dict(options or {})
        self._forget()
        if self._declared is not None:
            self._check_blocks(self._declared)

    #: Whether the oracles belong to one training run.
    _is_private = False
    #: Whether the class ensures that inputs with the same key have the same label space.
    _key_is_proved = False
    #: Whether the loss of a ground truth depends on more than its point, as that of a ranking does on relevances.
    _loss_needs_labels = False

    def _forget(self) -> None:
        self._spaces: dict[Hashable, LabelSpace] = {}
        self._oracles: dict[Hashable, Oracle] = {}
        self._label_oracles: dict[Hashable, Oracle] = {}  # of `_integral_twin`

    def __getstate__(self) -> dict[str, Any]:
        # Spaces and oracles are rebuilt on demand: a pickled model is its declaration.
        return {**self.__dict__, "_spaces": {}, "_oracles": {}, "_label_oracles": {}}

    def _check_blocks(self, space: LabelSpace) -> None:
        losses = self._loss if isinstance(self._loss, Mapping) else {}
        for name in (*self.features, *losses):
            if name not in space.block_names:
                raise DeclarationError(
                    f"The model names a block {name!r}; {space!r} has {', '.join(map(repr, space.block_names))}."
                )

    # ---- the label space -------------------------------------------------------------------------

    @property
    def fixed(self) -> bool:
        """Whether every input has the same label space."""
        return self._declared is not None

    def key(self, x: Any) -> Hashable:
        """Return the value that determines the label space of an input; None if all inputs share one space.

        Parameters
        ----------
        x : object
            An input.

        Returns
        -------
        hashable
        """
        if self.fixed:
            return None
        if self._key is None:
            return _array_shape(x)
        found = self._key(x)
        try:
            hash(found)
        except TypeError:
            raise DeclarationError(f"key(x) must return a hashable value, got {shown(found)}.") from None
        return found

    def check_key(self, x: Any, name: str = "This input") -> None:
        """Raise if the label space of an input differs from that of an earlier input with the same `key`.

        Parameters
        ----------
        x : object
            An input.
        name : str
            Name of the input in the error message.

        Raises
        ------
        DeclarationError
            If the spaces differ in their blocks or rows. Lazy rows are compared only if no `key` was given.
        """
        if self._declare is None or self._key_is_proved:
            return
        key = self.key(x)
        known = self._spaces.get(key)
        if known is None:
            self.space(x)
            return
        own = self._declare(x)
        instance("What space(x) returned", own, LabelSpace)
        if _same_blocks(known, own):
            if known.fingerprint == own.fingerprint:
                return
            if self._key is not None and known.compiled.separations and known.compiled.same_rows(own.compiled):
                return
        told = f"the key {key!r}" if self._key is not None else f"the shape {key!r}, which is the default key"
        raise DeclarationError(
            f"{name} has another label space than an earlier input with {told}: {own!r} instead of {known!r}. Give "
            "Model(key=...), a function that returns a different value for every different space."
        )

    def space(self, x: Any = None) -> LabelSpace:
        """The label space of an input, declared once per `key`.

        From the first use on the space is sealed: labels, batches and oracles were made from it as it stands, so that
        further rows are refused where they are declared (``space.copy()`` takes them).

        Parameters
        ----------
        x : object, optional
            An input; not needed where all have the same space.

        Returns
        -------
        LabelSpace
        """
        if self._declared is not None:
            self._declared._seal(_USER)
            return self._declared
        key = self.key(x)
        found = self._spaces.get(key)
        if found is None:
            found = cast(Callable[[Any], LabelSpace], self._declare)(x)
            instance("What space(x) returned", found, LabelSpace)
            self._check_blocks(found)
            found._seal(_USER)
            self._spaces[key] = found
        return found

    def weight_space(self, x: Any = None) -> LabelSpace:
        """Return a space whose blocks have the weights and the integrality of the space of `x`.

        A family whose weights do not depend on the size of an input returns a smaller space, which takes less memory.

        Parameters
        ----------
        x : object, optional
            An input.

        Returns
        -------
        LabelSpace
        """
        return self.space(x)

    def algorithm(self, x: Any) -> Algorithm | None:
        """Return the combinatorial algorithm for an input's space if a subclass has one.

        If it returns None, the algorithm of the `record` is used, or the structure of the space is recognised.

        Parameters
        ----------
        x : object, optional
            An input.

        Returns
        -------
        Algorithm or None
        """
        return None

    def oracle(self, x: Any = None) -> Oracle:
        """The oracle of an input's space, compiled once per `key`.

        Parameters
        ----------
        x : object, optional
            An input.

        Returns
        -------
        Oracle
        """
        key = self.key(x)
        found = self._oracles.get(key)
        if found is None or not self._is_made_for(found):
            algorithm = self.algorithm(x) if self._solves_itself else None
            stated = self._record if self._solves_itself and algorithm is None else None
            record = stated(x) if callable(stated) else stated
            found = Oracle(
                self.space(x),
                self.solver,
                integral=self.integral,
                algorithm=algorithm,
                record=record,
                **self.options,
            )
            self._oracles[key] = found
        return found

    def _is_made_for(self, oracle: Oracle) -> bool:
        """Whether an oracle has this model's solver and options, which may be set again."""
        if oracle.solver is not self.solver and oracle.solver != self.solver:
            return False
        return bool(oracle.integral == self.integral and oracle.options == self.options)

    @property
    def solver_runs(self) -> tuple[int, int]:
        """Linear and integer programs that this model's oracles have given to a solver so far."""
        figures = [oracle.statistics for oracle in self._oracles.values()]
        return sum(f.lp for f in figures), sum(f.mip for f in figures)

    @property
    def value_error(self) -> float:
        """Relative error that solvers may have made in the values of labels; 0 if algorithms found all of them.

        The reduced costs of a simplex method may be wrong by 1e-7, so the error grows with the number of variables.
        """
        solved = [oracle for oracle in self._oracles.values() if oracle.statistics.lp or oracle.statistics.mip]
        n_variables = max((oracle.space.n_variables for oracle in solved), default=0)
        return min(_LARGEST_ERROR, _ERROR_OF_VARIABLE * max(n_variables, 10)) if solved else 0.0

    # ---- features --------------------------------------------------------------------------------

    def n_weights(self, x: Any) -> int:
        """Length of ``w`` for inputs like `x`.

        Parameters
        ----------
        x : object
            An input.

        Returns
        -------
        int
        """
        return sum(columns * rows.shape[1] for _, _, rows, columns in self._terms(x))

    def _terms(self, x: Any) -> list[tuple[str, Term, Any, int]]:
        space = self.space(x)
        terms = []
        for name, term in self.features.items():
            shape = space[name].shape
            rows, wanted = checked_rows(term.rows(x)), term.n_rows(shape)
            if wanted is not None and rows.shape[0] != wanted:
                self.check_key(x)
                raise DeclarationError(
                    f"The input has {rows.shape[0]} feature rows for the block {name!r}, where {term!r} takes {wanted}."
                )
            terms.append((name, term, rows, term.n_columns(shape)))
        return terms

    def scores(self, w: npt.ArrayLike, x: Any) -> FloatArray:
        """Objective coefficients ``c`` with ``c . z = w . joint(x, z)`` for every label ``z``.

        Parameters
        ----------
        w : ndarray
            The weights.
        x : object
            An input.

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        weights = floats("w", w, ndim=1)
        space = self.space(x)
        costs = np.zeros(space.n_variables)
        terms = self._terms(x)
        _check_length(weights, sum(columns * rows.shape[1] for _, _, rows, columns in terms))
        start = 0
        for name, term, rows, columns in terms:
            stop = start + columns * rows.shape[1]
            table = np.asarray(rows @ weights[start:stop].reshape(columns, rows.shape[1]).T)
            block = space[name]
            costs[block.slice] = term.unfold(x, table, block.shape).ravel()
            start = stop
        return costs

    def joint(self, x: Any, z: npt.ArrayLike) -> FloatArray:
        """The joint feature vector of an input and a point, linear in ``z``.

        Parameters
        ----------
        x : object
            An input.
        z : ndarray of shape (n_variables,)
            A point of its space.

        Returns
        -------
        ndarray
            As long as the weights.
        """
        blocks = self.space(x).blocks(floats("z", z))
        parts = []
        for name, term, rows, _ in self._terms(x):
            table = term.fold(x, blocks[name])
            parts.append((rows.T @ table).T.ravel())
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts]) if parts else np.empty(0)

    # ---- labels and losses -----------------------------------------------------------------------

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The point ``z`` of a label, checked to lie in the space (`LabelNotInSpace` otherwise).

        Parameters
        ----------
        label : object
            A label, as the user writes it.
        x : object, optional
            Its input.

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        space = self.space(x)
        try:
            if self._encode is not None:
                point = floats("What encode returned", self._encode(label))
            else:
                point = space.point(label)
            return check_label(space.compiled, point, label)
        except StructoptError:
            self.check_key(x)  # a key that is too coarse is the more likely reason
            raise

    def _encode_batch(self, labels: Any) -> FloatArray | None:
        """Return the points of all labels of a data set of one space, checked in one product.

        Returns None if a label has a form of its own or is not in the space. `encode` then raises the error.
        """
        if self._declared is None or self._encode is not None or type(self).encode is not Model.encode:
            return None
        space = self._declared
        points = points_of(space, labels)
        return points if points is not None and rows_in(space.compiled, points).all() else None

    @property
    def has_plain_labels(self) -> bool:
        """Whether labels are mappings of blocks, whole vectors or the first block, without a codec of their own."""
        own = type(self)
        own_codec = own.encode is not Model.encode or own.decode is not Model.decode
        return not own_codec and self._encode is None and self._decode is None

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """Return the label of a point.

        Without ``decode=`` the label is the array of the first block. If the other blocks do not follow from the first
        one, the label is a dict of all blocks.

        Parameters
        ----------
        z : ndarray of shape (n_variables,)
            A point.
        x : object, optional
            Its input.

        Returns
        -------
        object
            The label in the form in which the user writes it. `encode` turns it back into the same point.
        """
        point = floats("z", z, ndim=1)
        if self._decode is not None:
            return self._decode(point)
        space = self.space(x)
        if point.size != space.n_variables:
            raise SpaceMismatch(f"z has {point.size} entries; the space has {space.n_variables} variables.")
        return self._decode_rows(point[None], x=x)[0]

    def _decode_batch(self, Z: Any) -> list[Any] | None:
        """Return the labels of points of the one space; None if a subclass or the user has a `decode`."""
        if self._declared is None or self._decode is not None or type(self).decode is not Model.decode:
            return None
        return self._decode_rows(Z)

    def _decode_rows(self, Z: npt.ArrayLike, form: LabelForm = "first", x: Any = None) -> list[Any]:
        """Return the labels of points of one space, that of the input `x`, in one form, without ``decode=``.

        ``"blocks"`` is a dict with an array for each block and ``"vector"`` is the whole z. ``"first"`` is the array of
        the first block. If the other blocks do not follow from it, ``"first"`` is the same as ``"blocks"``.
        """
        Z, space = np.asarray(Z), self.space(x)
        first = next(iter(space))
        if form == "first" and first.size < space.n_variables and self.has_plain_labels:
            form = "first" if space._follow_from_first(np.asarray(Z, dtype=np.float64)) else "blocks"
        if form == "first":
            return _whole_numbers(Z[:, first.slice].reshape(len(Z), *first.shape))
        if form == "vector":
            return _whole_numbers(Z)
        parts = [_whole_numbers(Z[:, block.slice].reshape(len(Z), *block.shape)) for block in space]
        names = [block.name for block in space]
        return [dict(zip(names, label, strict=True)) for label in zip(*parts, strict=True)]

    def _decode_all(self, points: FloatArray, x: Any) -> list[Any]:
        if self.has_plain_labels:
            return self._decode_rows(points, x=x)
        return [self.decode(z, x) for z in points]

    def block_losses(self, x: Any = None) -> BlockLosses:
        """The task losses of the blocks of an input's space, by the names of the blocks.

        Parameters
        ----------
        x : object, optional
            An input.

        Returns
        -------
        mapping of str to TaskLoss
        """
        return BlockLosses(self.space(x), self._loss)

    def loss(self, label: Any, x: Any = None) -> tuple[FloatArray, float]:
        """Coefficients and constant of the task loss of this ground truth: ``coef . z + const``.

        Parameters
        ----------
        label : object
            The ground truth.
        x : object, optional
            Its input.

        Returns
        -------
        coef, const : ndarray and float
        """
        return self._loss_at(self.encode(label, x), x)

    def _loss_at(self, z: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """Return `loss` for a ground truth that is encoded already."""
        return self.block_losses(x).linear(z)

    def _loss_batch(self, Z: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return `loss` for every row of points of the one space; None if spaces differ or a subclass has its own."""
        if self._declared is None or type(self)._loss_at is not Model._loss_at:
            return None
        return self.block_losses().linear_batch(Z)

    def expected_loss(self, mean: FloatArray, x: Any = None) -> tuple[FloatArray, float]:
        """The mean task loss over random ground truths as a function of the label, ``coef . z + const``.

        Parameters
        ----------
        mean : ndarray, shape (n_variables,)
            The mean of the random ground truths, for example `marginals`.
        x : object
            An input.

        Returns
        -------
        coef : ndarray, shape (n_variables,)
        const : float

        Raises
        ------
        DeclarationError
            If the mean loss takes more than the mean ground truth.
        """
        return self.block_losses(x).expected(mean)

    def counted(self, x: Any = None) -> Any:
        """The weight of every variable whose false positives and false negatives the task loss counts, 0 elsewhere.

        Where sums of variables are counted, a matrix with a row for each of them (`structopt.structures.Segmentation`).
        The counts of `structopt.surrogates.MicroF1`. Refused where the loss counts something else (costs of
        confusions, distances), or other than 0/1 variables.

        Parameters
        ----------
        x : object, optional
            An input.

        Returns
        -------
        ndarray
        """
        return self.block_losses(x).counted()

    def _integral_twin(self) -> Model:
        """Return the model that predicts: this model, with integral labels if it is trained over a relaxation."""
        if self.integral != "relax":
            return self
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.integral = "auto"
        twin._oracles = self._label_oracles
        return twin

    def _private_twin(self) -> Self:
        """Return this model with oracles of its own, which remember nothing of earlier calls.

        Solvers start from what they found before. In oracles that a model shares with all its users, a second fit would
        take other ways among equally good labels than the first.
        """
        if self._is_private:
            return self
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__getstate__())
        twin._forget()
        twin._spaces = self._spaces  # declared once: they have no memory
        twin._is_private = True
        return twin

    def predict(self, w: npt.ArrayLike, x: Any) -> Any:
        """Return the label with the largest score, even if the model is trained over a relaxation.

        Parameters
        ----------
        w : ndarray
            The weights.
        x : object
            An input.

        Returns
        -------
        object
            The label, as the user writes it. It is integral for every setting of ``integral=``.
        """
        self.check_key(x)
        return self.decode(self._integral_twin().oracle(x).maximize(self.scores(w, x)).z, x)

    # ---- probabilities ---------------------------------------------------------------------------

    def log_partition(self, w: npt.ArrayLike, x: Any) -> float:
        """``log sum_z exp(w . joint(x, z))`` over all labels of the space, where an algorithm sums over them.

        Parameters
        ----------
        w : array_like
            Weights.
        x : object
            An input.

        Returns
        -------
        float
        """
        self.check_key(x)
        return float(self.oracle(x).log_partition(self.scores(w, x)[None])[0])

    def marginals(self, w: npt.ArrayLike, x: Any, *, temperature: float = 1.0) -> FloatArray:
        """The mean label under ``P(z | x) ~ exp(w . joint(x, z) / temperature)``.

        Parameters
        ----------
        w : array_like
            Weights.
        x : object
            An input.
        temperature : float
            Larger than 0: small ones favour the best label, large ones all labels alike.

        Returns
        -------
        ndarray, shape (n_variables,)
            The mean of a 0/1 variable is the probability that it is 1; ``model.space(x).blocks(...)`` takes it apart.

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace("at most one of three")
        >>> tag = space.binary("tag", 3)
        >>> space.subject_to(tag.sum() <= 1)
        >>> model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
        >>> model.marginals([0.0, 0.0, 0.0], [1.0])
        array([0.25, 0.25, 0.25])
        """
        self.check_key(x)
        temperature = number("temperature", temperature, above=0.0)
        return np.asarray(self.oracle(x).marginals(self.scores(w, x)[None] / temperature)[0])

    def sample(
        self, w: npt.ArrayLike, x: Any, n: int = 1, *, temperature: float = 1.0, random_state: Any = None
    ) -> list[Any]:
        """Labels drawn from ``P(z | x) ~ exp(w . joint(x, z) / temperature)``.

        Parameters
        ----------
        w : array_like
            Weights; zeros draw all labels with the same probability.
        x : object
            An input.
        n : int
            How many labels.
        temperature : float
            See `marginals`.
        random_state : int, Generator or None
            See `numpy.random.default_rng`.

        Returns
        -------
        list
            Labels as `decode` makes them.
        """
        self.check_key(x)
        costs = self.scores(w, x) / number("temperature", temperature, above=0.0)
        return self._decode_all(self.oracle(x).sample(costs, n, random_state=random_state), x)

    # ---- whole data sets -------------------------------------------------------------------------

    @property
    def _solves_itself(self) -> bool:
        """Whether no solver was chosen, so that a family's own algorithms serve; else it gets every label's program."""
        return isinstance(self.solver, str) and self.solver == "auto"

    def _sizes(self, X: Any) -> IntArray | None:
        """Return what the label space of each input depends on, checked: an array with a row per example.

        None in general. A family whose inputs have a length or a shape gives it here, and says in `_rows_of_sizes` how
        many feature rows follow from it.
        """
        return None

    def _rows_of_sizes(self, sizes: IntArray) -> IntArray:
        """Return the numbers of feature rows of inputs of these sizes."""
        return sizes

    def _batch_codec(self, data: DataSet) -> BatchCodec[Any]:
        """Return the encoder of a data set's labels: points ``z`` unless the family has slots."""
        return PointCodec(data)

    def _part_solver(self, data: DataSet) -> PartSolver | None:
        """Return what solves a data set from the scores of its parts; None for the oracle of its space."""
        return None

    def _inference(self, data: DataSet) -> BatchInference[Any]:
        """Return the inference for a data set."""
        solver = self._part_solver(data) if self._solves_itself else None
        return OracleInference(data) if solver is None else PartInference(data, solver)

    def batch(self, X: Any) -> Batch:
        """A data set prepared once, so that scoring and gradients are one matrix product each.

        Parameters
        ----------
        X : matrix or list
            Inputs.

        Returns
        -------
        Batch
        """
        from structopt.model.batch import Batch

        return Batch(self, X)

    def __repr__(self) -> str:
        space = repr(self._declared) if self._declared is not None else "a space for each input"
        return f"<{type(self).__name__} over {space}; features {self.features}>"


def _whole_numbers(values: FloatArray) -> list[Any]:
    """Return the rows of an array, as integers if all entries of a row are close to integers."""
    nearest = np.rint(values)
    whole = np.abs(values - nearest).max(axis=tuple(range(1, values.ndim)), initial=0.0) < 1e-6
    labels = nearest.astype(int)
    return [labels[i] if whole[i] else values[i] for i in range(len(values))]


def _check_length(w: FloatArray, expected: int) -> None:
    if w.shape != (expected,):
        raise DeclarationError(f"w has shape {w.shape}; this model has {expected} weights for such inputs.")


def _array_shape(x: Any) -> tuple[int, ...]:
    """Return the shape of a numeric array, the default key."""
    if sp.issparse(x):
        return tuple(x.shape)
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiubc":
        raise DeclarationError(
            "The label space is a function of the input and the input is not a numeric array, so the model needs "
            f"Model(key=...), a function that returns a different value for every different space; got {shown(x)}."
        )
    return array.shape


def _same_blocks(one: LabelSpace, other: LabelSpace) -> bool:
    return [(block.name, block.shape) for block in one] == [(block.name, block.shape) for block in other]

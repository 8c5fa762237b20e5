"""Data in memory.

    Arrays(features={"image": images, "id": ids}, labels=labels)

Every array's first dimension is the number of examples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.example_rows import count_of
from ps_train.data.stream import no_autograph

Restart = Callable[[tf.data.Dataset], tf.Operation]


class Batch(NamedTuple):
    """The features and labels of a batch, tensors or nested tensors [batch, ...]; labels are None without any."""

    features: Any
    labels: Any


class Complete(Protocol):
    """A function that takes an element inside the training graph and returns the batch."""

    def __call__(self, element: Any, restart: Restart) -> Batch:
        """Returns the features and labels; `restart` makes the input begin with another dataset of such elements."""


class Batched:
    """Batches of the user's own making.

    Args:
      dataset: its elements are batches.
      complete: makes the batch of an element.
      size: number of examples in each batch, if the elements do not tell.
      is_fed: True if the dataset has placeholders: an operation of `restart` starts the input, run with their values.
    """

    def __init__(
        self, dataset: tf.data.Dataset, complete: Complete, size: int | None = None, is_fed: bool = False
    ) -> None:
        self.dataset, self._complete, self._batch_size, self.is_fed = dataset, complete, size, is_fed

    def elements(self, dataset: tf.data.Dataset | None = None) -> tf.data.Dataset:
        """Returns a dataset of pairs: an element, and zeros float32 [batch] that stand for its labels.

        Args:
          dataset: used in place of the own one.
        """

        def with_size(*element: Any) -> tuple[Any, tf.Tensor]:
            whole = element[0] if len(element) == 1 else element
            size = _size(whole) if self._batch_size is None else tf.constant(self._batch_size)
            return whole, tf.zeros(tf.reshape(size, [1]))

        return (self.dataset if dataset is None else dataset).map(no_autograph(with_size))

    def batch(self, element: Any, restart: Restart) -> Batch:
        """Returns the features and labels of an element of the iterator; see `Complete`."""
        return self._complete(element, restart)


def _size(element: Any) -> tf.Tensor:
    """Returns the number of examples of a batch, int32 scalar; 1 for a batch of scalars."""
    first = tf.nest.flatten(element)[0]
    return tf.constant(1) if first.shape.rank == 0 else tf.cast(count_of(first), tf.int32)


class DealtBatches(Batched):
    """Batches of which each replica gets some, or a part of each.

    Args:
      deal: function of the number of replicas, the index of one, and the number of the first batch, an int64 scalar;
        returns a dataset of pairs: a batch, and the number of examples for which it stands, an int32 scalar.
    """

    def __init__(self, deal: Callable[[int, int, tf.Tensor], tf.data.Dataset]) -> None:
        self._deal = deal

    def dealt(self, count: int, index: int, start: tf.Tensor) -> Batched:
        """Returns the batches of one of `count` replicas, those from the number `start` on."""
        return _Dealt(self._deal(count, index, start), lambda element, restart: Batch(element, None))


class _Dealt(Batched):
    def elements(self, dataset: tf.data.Dataset | None = None) -> tf.data.Dataset:
        dealt = self.dataset if dataset is None else dataset
        return dealt.map(no_autograph(lambda batch, examples: (batch, tf.zeros(tf.reshape(examples, [1])))))


@dataclasses.dataclass(frozen=True)
class Arrays:
    """Examples as numpy arrays.

    Lists and other sequences become arrays; floating-point numbers of Python become float32, as in TensorFlow.

    Attributes:
      features: one array [n, ...] or a dict of such arrays.
      labels: one array [n, ...] or a dict of such arrays.

    Raises:
      DataError: a value is not an array, or the arrays differ in their number of examples.
    """

    features: np.ndarray[Any, Any] | Mapping[str, np.ndarray[Any, Any]]
    labels: np.ndarray[Any, Any] | Mapping[str, np.ndarray[Any, Any]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _arrays("feature", self.features))
        object.__setattr__(self, "labels", _arrays("label", self.labels))
        lengths = [(name, len(values)) for name, values in self.named()]
        if len({length for _, length in lengths}) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths)
            raise DataError(f"features and labels differ in number ({shown}): give each example a row in every array.")

    def __len__(self) -> int:
        return len(self.named()[0][1])

    def named(self) -> list[tuple[str, np.ndarray[Any, Any]]]:
        """Returns all arrays with their names, features first."""
        both = (("features", self.features), ("labels", self.labels))
        return [item for name, part in both for item in (part if isinstance(part, Mapping) else {name: part}).items()]


def _arrays(kind: str, values: Any) -> np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]]:
    """Returns one array, or each of a dict.

    Raises:
      DataError: a name is no text, or a value no array.
    """
    if not isinstance(values, Mapping):
        return _array(f"{kind}s", values)
    if not values or not all(isinstance(name, str) and name for name in values):
        raise DataError(f"{kind}s has the names {list(values)}: give each array a name, a text.")
    return {name: _array(f"{kind} {name}", array) for name, array in values.items()}


def _array(name: str, values: Any) -> np.ndarray[Any, Any]:
    """Returns values as an array that TensorFlow takes.

    Raises:
      DataError: they are no array of numbers or texts with a row for each example.
    """
    if type(values).__module__.startswith("scipy.sparse"):
        raise DataError(f"{name} of Arrays is a sparse {type(values).__name__}: give matrix.toarray().")
    if values is None or isinstance(values, Mapping | str | bytes):
        kind = "None" if values is None else f"a {type(values).__name__}"
        raise DataError(f"{name} of Arrays is {kind}: give a numpy array with a row for each example.")
    try:
        array = np.asarray(values, object if _is_list_of_texts(values) else None)
    except Exception as error:  # rows of different lengths; a tensor of a graph
        cause = " ".join(str(error).split())[:120]
        raise DataError(
            f"{name} of Arrays, a {type(values).__name__}, makes no array ({cause}): give each example a row of the "
            "same shape, or return a tf.data.Dataset of single examples."
        ) from None
    if array.ndim == 0:
        raise DataError(
            f"{name} of Arrays is a single {type(values).__name__}: give a numpy array with a row for each example."
        )
    if array.dtype == object:
        _refuse_objects(name, array)
    if array.dtype == np.float64 and isinstance(values, list | tuple) and not _has_numpy(values):
        array = array.astype(np.float32)
    if (
        array.dtype.kind in "Mm"
        or array.dtype.type is np.void
        or (array.dtype.itemsize > 8 and array.dtype.kind == "f")
    ):
        raise DataError(f"{name} of Arrays is of {array.dtype}, which TensorFlow does not have: convert it to numbers.")
    return array


def _is_list_of_texts(values: Any) -> bool:
    """Returns True for lists of texts: numpy's own types of texts lose zero bytes at their ends."""
    while isinstance(values, list | tuple) and len(values):
        values = values[0]
        if type(values) in (str, bytes):
            return True
    return False


def _refuse_objects(name: str, array: np.ndarray[Any, Any]) -> None:
    """Raises DataError for an array of objects that are not texts."""
    others = [value for value in array.flat if not isinstance(value, str | bytes)]
    if not others:
        return
    found = "None" if others[0] is None else f"a {type(others[0]).__name__}"
    raise DataError(
        f"{name} of Arrays holds Python objects ({found} among them): give each example numbers, or texts, of the same "
        "shape, such as values.astype(np.float32)."
    )


def _has_numpy(values: Any) -> bool:
    """Returns True if the innermost values are numpy's, whose types are meant."""
    while isinstance(values, list | tuple) and len(values):
        values = values[0]
    return isinstance(values, np.generic | np.ndarray)

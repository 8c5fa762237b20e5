"""Values of features: their conversion, their check, and rows of them.

feature = Feature("ids", "ragged", np.int64, None)
value = value_of(feature, [[3, 4], [], [5]])            # Ragged(values, splits)
rows_of(value, 1, 3)                                    # of its last two rows
tensors_of(value)                                       # in the order of `feature.inputs`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError

Array = np.ndarray[Any, Any]

_NOT_DENSE = (tf.RaggedTensor, tf.SparseTensor, v1.ragged.RaggedTensorValue, v1.SparseTensorValue)

ENDS = {
    "dense": ("",),
    "ragged": ("_values", "_row_splits"),
    "sparse": ("_indices", "_values", "_dense_shape"),
}
"""Ends of the names of a feature's inputs, by its kind."""


class Ragged(NamedTuple):
    """Lists of any length: values [n], and row splits int64 [rows + 1]."""

    values: Array
    splits: Array


class Sparse(NamedTuple):
    """Values at positions of rows: indices int64 [n, 2] in the order of rows, values [n], rows, width."""

    indices: Array
    values: Array
    rows: int
    width: int


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature as a signature takes it.

    Attributes:
      kind: "dense", "ragged" or "sparse".
      dtype: of its values.
      row_shape: shape of a row of a dense feature, with None for any size; None: any shape.
    """

    name: str
    kind: str
    dtype: Any
    row_shape: tuple[int | None, ...] | None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of its inputs."""
        return tuple(self.name + end for end in ENDS[self.kind])


def features_of(inputs: Mapping[str, tuple[tf.DType, tuple[int | None, ...] | None]]) -> dict[str, Feature]:
    """Returns the features of a signature's inputs by name.

    Args:
      inputs: name to dtype and shape, None for any shape.
    """
    found: dict[str, Feature] = {}
    taken: set[str] = set()
    for kind in ("sparse", "ragged"):
        for name in sorted(inputs):
            if not name.endswith("_values"):
                continue
            feature = Feature(name.removesuffix("_values"), kind, inputs[name][0].as_numpy_dtype, None)
            if set(feature.inputs) <= inputs.keys() - taken:
                found[feature.name] = feature
                taken.update(feature.inputs)
    for name, (dtype, shape) in inputs.items():
        if name not in taken:
            found[name] = Feature(name, "dense", dtype.as_numpy_dtype, None if shape is None else shape[1:])
    return found


def value_of(feature: Feature, given: Any) -> Any:
    """Returns the value of a feature: a numpy array, a Ragged or a Sparse.

    Args:
      feature: has the dtype, the shape and the kind that are allowed.
      given: an array, a tensor, a list of lists, or a value as this function returns it.

    Raises:
      DataError: dtype or shape do not fit.
    """
    if feature.kind == "dense":
        return _dense(feature, given)
    if feature.kind == "sparse":
        return _sparse(feature, given)
    values, splits = _lists(feature, given)
    return Ragged(values, splits)


def _dense(feature: Feature, given: Any) -> Array:
    if isinstance(given, (Ragged, Sparse, *_NOT_DENSE)):
        raise DataError(f"{feature.name} is ragged or sparse: the model takes {described(feature)}.")
    try:
        array = _array_of(feature, given)
    except ValueError:  # lists of different lengths
        raise DataError(
            f"{feature.name} has lists of different lengths: the model takes {described(feature)}."
        ) from None
    array = _cast(feature, array)
    wanted = feature.row_shape
    if wanted is None:
        return array
    if array.ndim == 1 and wanted == (1,):
        array = array[:, np.newaxis]
    fits = array.ndim == len(wanted) + 1 and all(
        size in (None, found) for size, found in zip(wanted, array.shape[1:], strict=True)
    )
    if not fits:
        raise DataError(
            f"{feature.name} has rows of shape {list(array.shape[1:])}: the model takes {described(feature)}."
        )
    return array


def _is_of_texts(feature: Feature) -> bool:
    return np.dtype(feature.dtype).kind == "O"


def _array_of(feature: Feature, given: Any) -> Array:
    """Returns an array; texts as objects, because numpy gives texts of its own type the length of the longest one."""
    is_array = isinstance(given, np.ndarray | np.generic | tf.Tensor) or not _is_of_texts(feature)
    return np.asarray(given) if is_array else np.asarray(given, object)


def _lists(feature: Feature, given: Any) -> tuple[Array, Array]:
    """Returns the values of lists, one after the other, and their row splits."""
    if isinstance(given, tf.RaggedTensor | v1.ragged.RaggedTensorValue):
        given = Ragged(np.asarray(given.values), np.asarray(given.row_splits))
    if not isinstance(given, Ragged):
        rows = [_array_of(feature, row) for row in given]
        if any(row.ndim != 1 for row in rows):
            raise DataError(f"{feature.name} is not one list a row: the model takes {described(feature)}.")
        rows = [row for row in rows if len(row)]  # an empty list has no dtype
        lengths = [len(row) for row in given]
        values = np.concatenate(rows) if rows else np.zeros(0, feature.dtype)
        given = Ragged(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64))
    return _cast(feature, given.values), np.asarray(given.splits, np.int64)


def _sparse(feature: Feature, given: Any) -> Sparse:
    if isinstance(given, tf.SparseTensor | v1.SparseTensorValue):
        rows, width = map(int, np.asarray(given.dense_shape))
        given = Sparse(np.asarray(given.indices), np.asarray(given.values), rows, width)
    if isinstance(given, Sparse):
        return given._replace(values=_cast(feature, given.values))
    values, splits = _lists(feature, given)
    lengths = np.diff(splits)
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(values)) - np.repeat(splits[:-1], lengths)
    return Sparse(np.stack([numbers, places], 1), values, len(lengths), int(lengths.max(initial=0)))


def _cast(feature: Feature, array: Array) -> Array:
    """Returns an array in the dtype of a feature; whole numbers must keep their value."""
    wanted = np.dtype(feature.dtype)
    if _is_of_texts(feature):
        return _texts(feature, array)
    kinds = {"i": "biu", "u": "biu", "b": "b", "f": "biuf", "V": "biufV", "c": "biufc"}[wanted.kind]
    if array.size and array.dtype.kind not in kinds and array.dtype != wanted:
        raise DataError(f"{feature.name} has values of {array.dtype}: the model takes {described(feature)}.")
    found = array.astype(wanted)
    if wanted.kind in "iu" and array.size and not np.array_equal(found, array):
        raise DataError(f"{feature.name} has values outside {wanted}: the model takes {described(feature)}.")
    return found


def _texts(feature: Feature, array: Array) -> Array:
    """Returns texts and bytes as objects of bytes."""
    if array.dtype.kind not in "SUO" and array.size:
        raise DataError(f"{feature.name} has values of {array.dtype}: the model takes {described(feature)}.")
    values = array.ravel().tolist()
    for number, value in enumerate(values):
        if isinstance(value, str):
            try:
                values[number] = value.encode()
            except UnicodeEncodeError:
                raise DataError(f"{feature.name} has the text {value[:60]!r}, which is not Unicode.") from None
        elif not isinstance(value, bytes):
            kind = "lists of different lengths" if isinstance(value, list | tuple | np.ndarray) else repr(value)[:60]
            row = number // max(1, array.size // max(1, len(array)))
            raise DataError(f"{feature.name} has {kind} in row {row}: the model takes {described(feature)}.")
    found = np.empty(len(values), object)
    found[:] = values
    return found.reshape(array.shape)


def described(feature: Feature) -> str:
    """Returns a feature in words: "float32 [rows, 13]"."""
    name = "strings" if np.dtype(feature.dtype).kind == "O" else np.dtype(feature.dtype).name
    if feature.kind != "dense":
        return f"lists of {name}"
    sizes = ["rows", *("any" if size is None else str(size) for size in feature.row_shape or ())]
    return f"{name} [{', '.join(sizes)}]"


def row_count(value: Any) -> int:
    """Returns the number of rows of a value."""
    if isinstance(value, Ragged):
        return len(value.splits) - 1
    return value.rows if isinstance(value, Sparse) else len(value)


def rows_of(value: Any, begin: int, end: int) -> Any:
    """Returns some rows of a value."""
    if isinstance(value, Ragged):
        first, last = value.splits[begin], value.splits[end]
        return Ragged(value.values[first:last], value.splits[begin : end + 1] - first)
    if isinstance(value, Sparse):
        first, last = np.searchsorted(value.indices[:, 0], [begin, end])
        return Sparse(value.indices[first:last] - [begin, 0], value.values[first:last], end - begin, value.width)
    return value[begin:end]


def padded(value: Any, rows: int) -> Any:
    """Returns a value with at least some number of rows: the last row again and again, and empty lists."""
    missing = rows - row_count(value)
    if missing <= 0:
        return value
    if isinstance(value, Ragged):
        return value._replace(splits=np.pad(value.splits, (0, missing), "edge"))
    if isinstance(value, Sparse):
        return value._replace(rows=rows)
    last = value[-1:] if len(value) else np.full(1, b"" if value.dtype == object else 0, value.dtype)
    if not len(value):
        last = np.broadcast_to(last.reshape([1] * value.ndim), [1, *value.shape[1:]])
    return np.concatenate([value, np.repeat(last, missing, 0)])


def tensors_of(value: Any) -> Sequence[Array]:
    """Returns the arrays of a value, in the order of `Feature.inputs`."""
    if isinstance(value, Ragged):
        return (value.values, value.splits)
    if isinstance(value, Sparse):
        return (value.indices, value.values, np.array([value.rows, value.width], np.int64))
    return (value,)

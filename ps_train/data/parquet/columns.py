"""Columns of Arrow tables as tensors: their types, missing values and lists.

    column = column_of("ids", pa.list_(pa.int64()), default=None)
    arrays = column.arrays(chunk)           # numpy: values and row splits
    column.tensor(tensors)                  # the same as tensors, put together: a RaggedTensor

| Arrow | tensor |
|---|---|
| int8 to int64, uint8, uint16, uint64, float16 to float64, bool | the same dtype |
| uint32, decimals | int64, float64 |
| timestamps of any unit, durations, times of day | int64, microseconds; a timestamp's since 1970 in UTC |
| dates | int32, days since 1970 |
| strings, binary | string |
| dictionaries | as their values |
| lists, up to two deep; lists of a fixed size | ragged; dense |

Arrays go from Arrow to TensorFlow without a copy, and without Python's lock being held for each value.  Strings come as
a dictionary and its indices, which TensorFlow puts together.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.parquet.arrow import pa, pc

_DEPTH = 2
"""Lists within lists that are read."""


class MissingValueError(ValueError):
    """A column without a default has no value in some row.

    Attributes:
      row: index of the row in the array.
    """

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row}")
        self.row = row


class Column(abc.ABC):
    """A column as tensors.

    Attributes:
      dtypes: those of the arrays.
    """

    dtypes: Sequence[tf.DType]

    @abc.abstractmethod
    def arrays(self, array: pa.Array) -> list[np.ndarray]:
        """Returns numpy arrays with the values of an Arrow array.

        Raises:
          MissingValueError: a value is missing, and there is no default for it.
          pa.ArrowInvalid: a value does not fit into the dtype.
        """

    @abc.abstractmethod
    def tensor(self, arrays: Sequence[tf.Tensor]) -> Any:
        """Returns the value of the column for n rows, from the tensors of `arrays`."""


class _Scalars(Column):
    """One value a row: [n]."""

    def __init__(self, arrow: pa.DataType, default: pa.Scalar | None) -> None:
        dtype, self._in_form = _numbers(arrow)
        self.dtypes = [dtype]
        self._default = default

    def arrays(self, array: pa.Array) -> list[np.ndarray]:
        """Returns the values [n]."""
        return [self._in_form(_filled(array, self._default))]

    def tensor(self, arrays: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns them as they are."""
        return tf.ensure_shape(arrays[0], [None])


class _Texts(Column):
    """One string a row: [n]; each different one is given to TensorFlow once."""

    dtypes = [tf.string, tf.int32]

    def __init__(self, default: pa.Scalar | None) -> None:
        self._default = default

    def arrays(self, array: pa.Array) -> list[np.ndarray]:
        """Returns the different strings, and for each row the index of its string."""
        array = _filled(array, self._default)
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        texts = array.dictionary.cast(pa.large_binary()).to_numpy(zero_copy_only=False)
        return [texts.astype(object), array.indices.cast(pa.int32()).to_numpy()]

    def tensor(self, arrays: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the string of each row."""
        return tf.gather(tf.ensure_shape(arrays[0], [None]), tf.ensure_shape(arrays[1], [None]))


class _Lists(Column):
    """A list a row, of any length: ragged [n, None] or [n, None, None].

    With a default, a missing list is an empty one.
    """

    def __init__(self, values: Column, takes_missing: bool) -> None:
        self._values, self._takes_missing = values, takes_missing
        self.dtypes = [tf.int64, *values.dtypes]

    def arrays(self, array: pa.Array) -> list[np.ndarray]:
        """Returns the row splits, and the arrays of the values."""
        array = _stored(array)
        if array.null_count and not self._takes_missing:
            raise MissingValueError(_first_missing(array))
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        splits = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=splits[1:])
        try:
            return [splits, *self._values.arrays(array.flatten())]
        except MissingValueError as error:
            raise MissingValueError(int(np.searchsorted(splits, error.row, "right")) - 1) from None

    def tensor(self, arrays: Sequence[tf.Tensor]) -> Any:
        """Returns the values with their splits."""
        splits = tf.ensure_shape(arrays[0], [None])
        return tf.RaggedTensor.from_row_splits(self._values.tensor(arrays[1:]), splits, validate=False)


class _Vectors(Column):
    """A list of a fixed size a row: [n, size]."""

    def __init__(self, values: Column, size: int) -> None:
        self._values, self._size = values, size
        self.dtypes = values.dtypes

    def arrays(self, array: pa.Array) -> list[np.ndarray]:
        """Returns the arrays of all values [n * size]."""
        array = _stored(array)
        if array.null_count:  # a default would have to be a whole list
            raise MissingValueError(_first_missing(array))
        try:
            return self._values.arrays(array.flatten())
        except MissingValueError as error:
            raise MissingValueError(error.row // self._size) from None

    def tensor(self, arrays: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the values in rows."""
        return tf.reshape(self._values.tensor(arrays), [-1, self._size])


def column_of(name: str, arrow: pa.DataType, default: Any) -> Column:
    """Returns the column of an Arrow type.

    Args:
      name: its name, for errors.
      arrow: the type of its values.
      default: the value of rows that have none, and of missing elements of lists; None: there must be none.

    Raises:
      DataError: the type has no tensor, or the default is not of the type.
    """
    return _column(name, arrow, arrow, default, _DEPTH)


def _column(name: str, whole: pa.DataType, arrow: pa.DataType, default: Any, depth: int) -> Column:
    kind, arrow = pa.types, plain_type(arrow)
    if kind.is_fixed_size_list(arrow):
        inner = _column(name, whole, arrow.value_type, default, 0)
        return _Vectors(inner, arrow.list_size)
    if kind.is_list(arrow) or kind.is_large_list(arrow):
        if depth:
            return _Lists(_column(name, whole, arrow.value_type, default, depth - 1), default is not None)
        raise DataError(f"column {name} of {whole} cannot be read: lists may be two deep.")
    scalar = _default_of(name, arrow, default)
    if _is_text(arrow):
        return _Texts(scalar)
    if _numbers(arrow)[0] is None:
        hint = " choose its fields, as in name.field" if kind.is_struct(arrow) else " leave it out of columns"
        raise DataError(f"column {name} of {whole} has no tensor:{hint}.")
    return _Scalars(arrow, scalar)


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """Returns the type behind extensions, dictionaries and large or viewed variants, which give the same tensors."""
    kind = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        return plain_type(arrow.storage_type)
    if kind.is_dictionary(arrow):
        return plain_type(arrow.value_type)
    if kind.is_large_string(arrow) or kind.is_string_view(arrow):
        return pa.string()
    if kind.is_large_binary(arrow) or kind.is_binary_view(arrow):
        return pa.binary()
    if kind.is_fixed_size_list(arrow):
        return pa.list_(plain_type(arrow.value_type), arrow.list_size)
    if kind.is_list(arrow) or kind.is_large_list(arrow):
        return pa.list_(plain_type(arrow.value_type))
    return arrow


def is_text(arrow: pa.DataType) -> bool:
    """Returns True for strings and binary values, plain or in a dictionary."""
    return _is_text(plain_type(arrow))


def _is_text(arrow: pa.DataType) -> bool:
    kind = pa.types
    return bool(kind.is_string(arrow) or kind.is_binary(arrow) or kind.is_fixed_size_binary(arrow))


def _default_of(name: str, arrow: pa.DataType, default: Any) -> pa.Scalar | None:
    if default is None:
        return None
    try:
        if isinstance(default, float) and not (default.is_integer() or pa.types.is_floating(arrow)):
            raise ValueError  # pyarrow would cut it off
        return pa.scalar(default, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
        raise DataError(f"the default {default!r} of column {name} is not a value of its type, {arrow}.") from None


def _numbers(arrow: pa.DataType) -> tuple[Any, Callable[[pa.Array], np.ndarray]]:
    """Returns the dtype of a column of numbers, and a function that makes its array; None: it is no such column."""
    kind = pa.types
    if kind.is_uint32(arrow):
        return tf.int64, _cast(pa.int64())
    if kind.is_decimal(arrow):
        return tf.float64, _cast(pa.float64())
    if kind.is_timestamp(arrow):
        return tf.int64, _cast(pa.timestamp("us", arrow.tz), pa.int64())
    if kind.is_duration(arrow):
        return tf.int64, _cast(pa.duration("us"), pa.int64())
    if kind.is_time(arrow):
        return tf.int64, _cast(pa.time64("us"), pa.int64())
    if kind.is_date(arrow):
        return tf.int32, _cast(pa.date32(), pa.int32())
    if kind.is_integer(arrow) or kind.is_floating(arrow) or kind.is_boolean(arrow):
        return tf.as_dtype(pa.nulls(0, arrow).to_numpy(zero_copy_only=False).dtype), _cast()
    return None, _cast()


def _cast(*steps: pa.DataType) -> Callable[[pa.Array], np.ndarray]:
    def cast(array: pa.Array) -> np.ndarray:
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        for step in steps:
            # Nanoseconds are cut to microseconds, and a decimal to the nearest float; all other values must fit.
            array = array.cast(step, safe=pa.types.is_integer(step))
        return array.to_numpy(zero_copy_only=False)

    return cast


def _stored(array: pa.Array) -> pa.Array:
    """Returns the array that an array of an extension type is stored as."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _filled(array: pa.Array, default: pa.Scalar | None) -> pa.Array:
    """Returns an array without missing values."""
    array = _stored(array)
    if not array.null_count:
        return array
    if default is None:
        raise MissingValueError(_first_missing(array))
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array.fill_null(default.cast(array.type))


def _first_missing(array: pa.Array) -> int:
    return int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])

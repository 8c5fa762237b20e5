"""Arrays as `fit` takes them, made into numpy arrays that TensorFlow has, in a structure that a dataset keeps.

    as_arrays("x", {"image": images, "ids": frame["id"]})       # a dict of numpy arrays [n, ...]

The rules are those of Keras: floating-point numbers become `keras.config.floatx()`, other numbers keep their type, a
column of pandas becomes [n, 1], lists and tuples are several inputs.  A list of Python numbers or texts, which Keras
refuses, is an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError

_PLAIN = (bool, int, float, complex, str, bytes, np.generic)


def are_arrays(*values: Any) -> bool:
    """Returns True if all values are arrays, or structures of arrays, or None."""
    return all(_is_array(value) for value in values)


def _is_array(value: Any) -> bool:
    if isinstance(value, tf.data.Dataset | keras.utils.PyDataset):
        return False
    if isinstance(value, Mapping):
        return all(_is_array(one) for one in value.values())
    if isinstance(value, list | tuple):
        return bool(value) and (_is_plain(value) or all(_is_array(one) for one in value))
    return value is None or _is_sparse_or_ragged(value) or hasattr(value, "__array__") or _library(value) == "pandas"


def _is_plain(value: Any) -> bool:
    """Returns True for a list of Python numbers or texts, or of such lists."""
    while isinstance(value, list) and value:
        value = value[0]
        if isinstance(value, _PLAIN):
            return True
    return False


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _is_sparse_or_ragged(value: Any) -> bool:
    return isinstance(value, tf.RaggedTensor | tf.SparseTensor) or (
        _library(value) == "scipy" and hasattr(value, "tocoo")
    )


def as_arrays(name: str, value: Any, is_cast: bool = True) -> Any:
    """Returns numpy arrays in the given structure, whose lists become tuples; None stays.

    Args:
      name: of the argument, for errors.
      value: an array, nested arrays, or None.
      is_cast: False leaves floating-point numbers of any type as they are.

    Raises:
      DataError: a value is not an array that TensorFlow has.
    """
    if isinstance(value, Mapping):
        return {key: as_arrays(f"{name}[{key!r}]", one, is_cast) for key, one in value.items()}
    if isinstance(value, list | tuple) and not _is_plain(value):
        return tuple(as_arrays(f"{name}[{number}]", one, is_cast) for number, one in enumerate(value))
    return None if value is None else _array(name, value, is_cast)


def _array(name: str, value: Any, is_cast: bool) -> np.ndarray[Any, Any]:
    if _is_sparse_or_ragged(value):
        raise DataError(
            f"{name} is of the type {type(value).__name__}, which is not sent as an array: give "
            "tf.data.Dataset.from_tensor_slices((x, y)).batch(...), or make it dense."
        )
    if _library(value) == "pandas":
        array = value.to_numpy()
        array = array[:, np.newaxis] if array.ndim == 1 else array
    else:
        array = _converted(name, value)
    if array.ndim == 0:
        raise DataError(
            f"{name} is one value of the type {type(value).__name__}: give an array with a row for each example."
        )
    if array.dtype == object and not all(isinstance(one, str | bytes) for one in array.ravel()):
        other = next(one for one in array.ravel() if not isinstance(one, str | bytes))
        raise DataError(
            f"{name} holds Python objects (such as one of the type {type(other).__name__}): give numbers, or texts, of "
            "one shape, such as values.astype('float32')."
        )
    if array.dtype.kind in "OSU":
        return array
    return _as_floatx(name, array, is_cast)


def _converted(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Returns the array of a value.  Texts become objects: numpy's own texts lose zero bytes at their ends."""
    try:
        if isinstance(value, list):
            array = np.asarray(value)
            return np.asarray(value, object) if array.dtype.kind in "SU" else array
        return np.asarray(value)
    except Exception as error:  # rows of different lengths, a tensor on a device
        cause = " ".join(str(error).split())[:120]
        raise DataError(
            f"{name}, of the type {type(value).__name__}, makes no array ({cause}): give each example a "
            "row of the same shape."
        ) from None


def _as_floatx(name: str, array: np.ndarray[Any, Any], is_cast: bool) -> np.ndarray[Any, Any]:
    try:
        dtype = tf.dtypes.as_dtype(array.dtype)
    except TypeError:
        raise DataError(f"{name} is of {array.dtype}, which TensorFlow does not have: convert it to numbers.") from None
    floatx = tf.dtypes.as_dtype(keras.config.floatx())
    if not is_cast or not dtype.is_floating or dtype == floatx:
        return array
    return array.astype(floatx.as_numpy_dtype)


def count_examples(named: Mapping[str, Any]) -> int:
    """Returns the number of examples in nested arrays.

    Args:
      named: nested arrays by the names of their arguments.

    Raises:
      DataError: there are none, or the arrays differ in their number.
    """
    sizes = {
        name: sorted({len(array) for array in tf.nest.flatten(arrays) if array is not None})
        for name, arrays in named.items()
    }
    found = sorted({size for each in sizes.values() for size in each})
    if len(found) > 1:
        shown = ", ".join(f"{name} {' and '.join(map(str, each))}" for name, each in sizes.items() if each)
        raise DataError(
            f"the arrays differ in their number of examples ({shown}): give each example a row in every one."
        )
    if not found or not found[0]:
        raise DataError("x has no examples, so there is nothing to train on: give at least one row.")
    return found[0]


def split_arrays(x: Any, y: Any, sample_weight: Any, fraction: float) -> tuple[Any, Any]:
    """Returns (x, y, sample_weight) to train on, and the last part of them to validate on, as `validation_split` does.

    Args:
      x: an array, or nested arrays.
      y: likewise, or None.
      sample_weight: likewise, or None.
      fraction: of the examples to validate on.

    Raises:
      ConfigError: the fraction leaves one of the two without an example, or is not between 0 and 1.
      DataError: the data are not arrays.
    """
    given = {"x": x, "y": y, "sample_weight": sample_weight}
    if not 0 < fraction < 1:
        raise ConfigError(
            f"validation_split={fraction!r} (an argument of fit) is not between 0 and 1: use such as 0.2."
        )
    if not are_arrays(*given.values()):
        raise DataError(
            f"validation_split={fraction!r} (an argument of fit) needs arrays, and x is of the type "
            f"{type(x).__name__}: give validation_data instead."
        )
    count = count_examples({name: as_arrays(name, value) for name, value in given.items()})
    at = int(np.floor(count * (1.0 - fraction)))
    if at in (0, count):
        raise ConfigError(
            f"validation_split={fraction!r} (an argument of fit) leaves no example to "
            f"{'validate' if at else 'train'} on, of {count}: give more data or another fraction."
        )
    first = tuple(_rows_of(value, slice(0, at)) for value in given.values())
    return first, tuple(_rows_of(value, slice(at, count)) for value in given.values())


def _rows_of(value: Any, rows: slice) -> Any:
    """Returns some rows of nested arrays, in the types in which they were given."""
    if isinstance(value, Mapping):
        return {key: _rows_of(one, rows) for key, one in value.items()}
    if isinstance(value, list | tuple) and not _is_plain(value):
        return type(value)(_rows_of(one, rows) for one in value)
    if value is None:
        return None
    if _library(value) == "pandas":
        return value.iloc[rows]
    return (_converted("x", value) if isinstance(value, list) else value)[rows]

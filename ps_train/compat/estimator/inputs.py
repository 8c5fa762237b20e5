"""Input functions for arrays and data frames in memory.

    input_fn = numpy_input_fn({"x": x}, y, batch_size=64, num_epochs=None, shuffle=True)
    features, labels = input_fn()

They return the tensors of a batch, the next one at each call of a session.  The arrays do not become part of the graph.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["numpy_input_fn", "pandas_input_fn"]

_InputFn = Callable[[], Any]


class _Reading(NamedTuple):
    """Order and number of the examples; `num_epochs` None is without end."""

    batch_size: int
    num_epochs: int | None
    shuffle: bool
    queue_capacity: int | None


def numpy_input_fn(
    x: np.ndarray | Mapping[str, np.ndarray],
    y: np.ndarray | Mapping[str, np.ndarray] | None = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int | None = 1000,
    num_threads: int = 1,
) -> _InputFn:
    """Returns an input_fn for arrays, whose first dimension is the examples.

    Args:
      x: features: an array, or name to array.
      y: labels: an array, name to array, or None.
      batch_size: number of examples in a batch; the last batch may be smaller.
      num_epochs: number of times that all examples are read; None: without end.
      shuffle: True for a random order; it must be given.
      queue_capacity: number of examples among which the order is random; None: all.
      num_threads: without effect.

    Raises:
      ValueError: shuffle is not given, an array is empty, a name is used twice, or lengths differ.
      TypeError: x is not an array or a dict.
    """
    reading = _Reading(batch_size, num_epochs, _checked_shuffle(shuffle), queue_capacity)
    if not isinstance(x, np.ndarray | dict):
        raise TypeError(f"x must be a dict or an array, not {type(x).__name__}.")
    if not (x.size if isinstance(x, np.ndarray) else x):
        raise ValueError("x is empty: give at least one feature, and one example.")
    if isinstance(y, dict):
        if not y:
            raise ValueError("y is an empty dict: leave it out if there are no labels.")
        both = sorted(y.keys() & x.keys()) if isinstance(x, dict) else []
        if both:
            raise ValueError(f"{both} are names in x and in y: rename them in one of the two.")
    _check_lengths(x, y)
    return lambda: _next_of(_batches(x, y, reading))


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int | None = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> _InputFn:
    """Returns an input_fn for a data frame, whose features are the columns.

    Args:
      x: a DataFrame.
      y: a Series, a DataFrame (labels by column) or None.
      batch_size: as in `numpy_input_fn`, as num_epochs, shuffle, queue_capacity and num_threads.
      num_epochs: number of times that all examples are read; None: without end.
      shuffle: True for a random order; it must be given.
      queue_capacity: number of examples among which the order is random; None: all.
      num_threads: without effect.
      target_column: a name for y that is not a column of x.

    Raises:
      ValueError: shuffle is not given, x has a column of the name target_column, or the indexes of x and y differ.
      TypeError: pandas is not installed, or target_column is not a text.
    """
    if importlib.util.find_spec("pandas") is None:
        raise TypeError("pandas_input_fn needs pandas, which is not installed: use numpy_input_fn.")
    reading = _Reading(batch_size, num_epochs, _checked_shuffle(shuffle), queue_capacity)
    if not isinstance(target_column, str):
        raise TypeError(f"target_column={target_column!r} must be a text.")
    if y is not None:
        if target_column in x:
            raise ValueError(
                f"target_column={target_column} is a column of x ({', '.join(map(str, x.columns))}): use another."
            )
        if not np.array_equal(x.index, y.index):
            raise ValueError("the indexes of x and y differ: align them, or reset both.")
        y = {name: y[name].to_numpy() for name in y.columns} if hasattr(y, "columns") else y.to_numpy()
    features = {name: x[name].to_numpy() for name in x.columns}
    return lambda: _next_of(_batches(features, y, reading))


def _checked_shuffle(shuffle: Any) -> bool:
    if not isinstance(shuffle, bool):
        raise ValueError(f"shuffle={shuffle!r} must be True (for training) or False: give one of them.")
    return shuffle


def _check_lengths(x: Any, y: Any) -> None:
    shapes = {f"{what}{name}": array.shape for what, part in (("x", x), ("y", y)) for name, array in _items(part)}
    if len({shape[0] for shape in shapes.values()}) != 1:
        raise ValueError(f"arrays of x and y must have the same length, not {shapes}: the first dimension is examples.")


def _items(part: Any) -> list[tuple[str, np.ndarray]]:
    if part is None:
        return []
    return [(f"[{name!r}]", array) for name, array in part.items()] if isinstance(part, dict) else [("", part)]


def _next_of(batches: tf.data.Dataset) -> Any:
    """Returns the tensors of the next batch; nothing needs to be initialized, as with TensorFlow's queues."""
    return v1.data.make_one_shot_iterator(batches).get_next()


def _batches(x: Any, y: Any, reading: _Reading) -> tf.data.Dataset:
    """Returns a Dataset of batches; it draws the numbers of examples, and numpy looks them up."""
    parts = x if y is None else (x, y)
    # numpy_function makes bytes of texts in object arrays only.
    arrays = [array.astype(object) if array.dtype.kind == "U" else array for array in tf.nest.flatten(parts)]
    count = len(arrays[0])
    numbers = tf.data.Dataset.range(count)
    if reading.shuffle:
        numbers = numbers.shuffle(min(reading.queue_capacity or count, count))
    numbers = numbers.repeat(reading.num_epochs).batch(reading.batch_size)
    dtypes = [tf.string if array.dtype.kind in "OS" else tf.as_dtype(array.dtype) for array in arrays]

    def look_up(rows: Any) -> Any:
        found = tf.numpy_function(lambda rows: [array[rows] for array in arrays], [rows], dtypes, stateful=False)
        for tensor, array in zip(found, arrays, strict=True):
            tensor.set_shape([None, *array.shape[1:]])
        return tf.nest.pack_sequence_as(parts, found)

    return numbers.map(look_up).prefetch(1)

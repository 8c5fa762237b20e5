"""Columns: the values of all examples of one array, in memory or in a file that is mapped into memory.

    column = column_of(array)                   # Numbers or Texts
    column.write(path)
    column = read_column(path, column.dtype, column.shape)
    column.rows(slice(0, 64))                   # an array [64, ...]

Numbers are .npy files.  Texts are the bytes of all of them, one after another, and a .npy file of the places where they
begin; so a file of texts needs no pickle either.
"""

from __future__ import annotations

import abc
import os
from typing import Any

import numpy as np
import tensorflow as tf

Rows = slice | np.ndarray[Any, Any]


class Column(abc.ABC):
    """Values of all examples.

    Attributes:
      shape: all dimensions, first that of the examples.
      dtype: TensorFlow's type.
    """

    shape: tuple[int, ...]
    dtype: tf.DType

    @property
    def spec(self) -> tf.TensorSpec:
        """The spec of a batch."""
        return tf.TensorSpec([None, *self.shape[1:]], self.dtype)

    @abc.abstractmethod
    def rows(self, rows: Rows) -> np.ndarray[Any, Any]:
        """Returns a copy of some rows."""

    @abc.abstractmethod
    def write(self, path: str) -> None:
        """Writes files whose names begin with `path`."""


class Numbers(Column):
    """Numbers and truth values.

    Args:
      array: the values, [n, ...].
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array, self.shape, self.dtype = array, array.shape, tf.dtypes.as_dtype(array.dtype)

    def rows(self, rows: Rows) -> np.ndarray[Any, Any]:
        """Returns a copy of some rows."""
        found = self._array[rows]
        return found.copy() if isinstance(rows, slice) else found

    def write(self, path: str) -> None:
        """Writes a .npy file."""
        array = self._array
        if array.dtype.isbuiltin != 1:  # bfloat16 and kin: a .npy file knows numpy's own types alone
            array = array.view(f"u{array.dtype.itemsize}")
        np.save(path + ".npy", array)


class Texts(Column):
    """Texts, as bytes.

    Args:
      values: the bytes of all texts, uint8.
      ends: where each text begins, and where the last one ends, int64 [number of texts + 1].
      shape: [n, ...].
    """

    dtype = tf.string

    def __init__(self, values: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
        self._values, self._ends, self.shape = values, ends, shape
        self._places = np.arange(len(ends) - 1).reshape(shape)

    def rows(self, rows: Rows) -> np.ndarray[Any, Any]:
        """Returns some rows, bytes in an array of objects."""
        places = self._places[rows]
        begin, end = self._ends[places.ravel()], self._ends[places.ravel() + 1]
        found = np.empty(places.size, object)
        found[:] = [self._values[one:other].tobytes() for one, other in zip(begin, end, strict=True)]
        return found.reshape(places.shape)

    def write(self, path: str) -> None:
        """Writes two .npy files."""
        np.save(path + ".texts.npy", self._values)
        np.save(path + ".ends.npy", self._ends)


def column_of(array: np.ndarray[Any, Any]) -> Column:
    """Makes the column of an array of numbers, of numpy's texts, or of objects that are str or bytes."""
    if array.dtype.kind not in "OSU":
        return Numbers(array)
    texts = [text.encode() if isinstance(text, str) else bytes(text) for text in array.ravel()]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Texts(np.frombuffer(b"".join(texts), np.uint8), ends, array.shape)


def read_column(path: str, dtype: tf.DType, shape: tuple[int, ...]) -> Column:
    """Returns a column that `write` has written; its values stay in the files."""
    if dtype == tf.string:
        return Texts(_mapped(path + ".texts.npy"), _mapped(path + ".ends.npy"), shape)
    array = _mapped(path + ".npy")
    kind = np.dtype(dtype.as_numpy_dtype)
    return Numbers(array if array.dtype == kind else array.view(kind))


def _mapped(path: str) -> np.ndarray[Any, Any]:
    """Returns a file's array.  Files without values cannot be mapped."""
    is_small = os.path.getsize(path) < 4096
    return np.asarray(np.load(path, mmap_mode=None if is_small else "r", allow_pickle=False))

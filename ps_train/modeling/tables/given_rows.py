"""Rows that a table begins with: an array, a tensor or a function of the shape gives row i to index i.

    source = given_rows(table)      # an array, a symbolic tensor or a function; None if no row differs by its index
    whole_rows(table, source)       # all rows by index, an array or a tensor of the default graph
    indices_at(table, 0, 1000)      # the indices of the rows at the first thousand places of the variable

The initial values of all other initializers are drawn for any range of places; see `row_order.py`.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.modeling.tables.distributions import constant_of, distribution_of
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.table_layout import layout_of

_come_later: contextvars.ContextVar[bool] = contextvars.ContextVar("initial values come later", default=False)


@contextlib.contextmanager
def values_come_later() -> Iterator[None]:
    """Says that no graph of the body runs its initializers: given rows are then left out of these graphs."""
    token = _come_later.set(True)
    try:
        yield
    finally:
        _come_later.reset(token)


def given_rows(table: Table) -> Any:
    """Returns the source of the rows that a table begins with, or None for constants and random initializers.

    Returns:
      A float32 array with a row for each index, a symbolic tensor, or a function of a shape and a dtype.

    Raises:
      ModelError: the rows do not fit the table.
    """
    initializer = table.initializer
    if table.is_open or distribution_of(initializer) is not None:
        return None
    if isinstance(initializer, type):
        initializer = initializer()
    if tf.is_symbolic_tensor(initializer):
        _refuse_hashed(table)
        _check(table, initializer.shape, initializer.dtype)
        return initializer
    array = _array_of(initializer)
    if array is not None:
        _refuse_hashed(table)
        return _fitted(table, array, any_shape=callable(initializer))
    if not callable(initializer):
        raise ModelError(
            f"table {table.name} has initializer={initializer!r}: use a number, an array, a tensor, a function of "
            "shape and dtype, or an initializer of TensorFlow or Keras."
        )
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    return None if "seed" in config else initializer


def whole_rows(table: Table, source: Any) -> Any:
    """Returns all rows by index, float32 [total, *row_shape], an array or a tensor.

    Args:
      table: has `total` rows of `row_shape`.
      source: what `given_rows` has returned; a function is called in the default graph.

    Raises:
      ModelError: the rows do not fit the table.
    """
    found = source
    if callable(source):
        found = source([table.total, *table.row_shape], dtype=tf.float32)
        if not tf.is_symbolic_tensor(found):
            return _fitted(table, np.asarray(found))
        _check(table, found.shape, found.dtype)
    if isinstance(found, np.ndarray):
        return _fitted(table, found)
    return tf.cast(found, tf.float32)


def plain_rows(table: Table, source: Any, begin: int, count: int) -> Any:
    """Returns initial values at places of a plain graph's variable: given rows, or zeros if values come later."""
    if _come_later.get():
        return tf.zeros([count, *table.row_shape])
    indices = indices_at(table, begin, count)
    rows = whole_rows(table, source)
    return tf.constant(rows[indices]) if isinstance(rows, np.ndarray) else tf.gather(rows, indices)


def indices_at(table: Table, begin: int, count: int) -> np.ndarray[Any, Any]:
    """Returns the indices of the rows at the places `begin` to `begin + count` of a table's variable."""
    return layout_of(table).indices_at(begin, count)


def _array_of(initializer: Any) -> np.ndarray[Any, Any] | None:
    """Returns the values of an array, an eager tensor or an initializer of constants."""
    constant = constant_of(initializer)
    if constant is not None:
        return constant
    is_array = isinstance(initializer, np.ndarray | list | tuple | tf.Tensor)
    return np.asarray(initializer) if is_array else None


def _fitted(table: Table, array: np.ndarray[Any, Any], any_shape: bool = False) -> np.ndarray[Any, Any]:
    """Returns an array in the shape of the table; `any_shape`: a constant initializer takes values in any shape."""
    shape = (table.total, *table.row_shape)
    is_fit = any_shape and array.size == math.prod(shape)
    _check(table, shape if is_fit else array.shape, tf.as_dtype(array.dtype))
    return np.ascontiguousarray(array.reshape(shape), dtype=np.float32)


def _refuse_hashed(table: Table) -> None:
    if table.hashed:
        raise ModelError(
            f"table {table.name} has hash_buckets and begins with given values: ids are hashed into rows, so no row "
            "has a known id; declare the table with rows, or use a random initializer."
        )


def _check(table: Table, shape: Any, dtype: tf.DType) -> None:
    wanted = (table.total, *table.row_shape)
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
        raise ModelError(f"table {table.name} begins with given values of {dtype.name}: use numbers.")
    if not tf.TensorShape(shape).is_compatible_with(wanted):
        order = "row i is of id i"
        if table.by_field:
            order = "the rows of the fields follow each other"
        if table.total > sum(table.sizes):
            order += ", and each field's default row comes after its other rows"
        raise ModelError(
            f"table {table.name} begins with given values of shape {tuple(tf.TensorShape(shape))}: give "
            f"{wanted}, where {order}."
        )

"""Batches of arrays.

A batch is gathered by one Python function from the arrays, or from files that are mapped into memory.  So arrays are
never constants of a graph, and processes of one machine share the memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.data.sent.columns import Column, column_of, read_column
from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.given_arrays import as_arrays, count_examples
from ps_train.data.sent.order import Order
from ps_train.data.sent.part import Part, mapped
from ps_train.data.sent.source import Source


class ArraySource(Source):
    """Batches of arrays.

    Args:
      structure: nested places in `columns`; None where a batch has None.
      columns: the arrays' values.
      order: the rows of each batch.
    """

    kind = "arrays"

    def __init__(self, structure: Any, columns: Sequence[Column], order: Order) -> None:
        self._structure, self._columns, self._order = structure, columns, order
        self.element_spec = self._packed([column.spec for column in columns])

    @classmethod
    def of(
        cls,
        x: Any,
        y: Any,
        sample_weight: Any,
        batch_size: int | None,
        shuffle: bool | str,
        steps_per_epoch: int | None,
        seed: int,
    ) -> ArraySource:
        """Makes the source of arrays; see `sent_data`."""
        named = {"x": as_arrays("x", x), "y": as_arrays("y", y)}
        named["sample_weight"] = _for_each_output(as_arrays("sample_weight", sample_weight), named["y"])
        examples = count_examples(named)
        if batch_size is None:  # as Keras has it
            batch_size = math.ceil(examples / steps_per_epoch) if steps_per_epoch else 32
        element = _element(**named)
        arrays = [array for array in tf.nest.flatten(element) if array is not None]
        places = iter(range(len(arrays)))
        structure = tf.nest.map_structure(lambda array: None if array is None else next(places), element)
        order = Order(examples, batch_size, shuffle, seed)
        return cls(structure, [column_of(array) for array in arrays], order)

    def _packed(self, values: Sequence[Any]) -> Any:
        """Returns the columns' values in the structure of a batch."""
        return tf.nest.map_structure(lambda place: None if place is None else values[place], self._structure)

    def cardinality(self) -> int:
        """Returns the number of batches in one pass over the data."""
        return self._order.batches

    def counted(self) -> int:
        """Returns the number of batches in one pass over the data."""
        return self._order.batches

    def first_batch(self) -> Any:
        """Returns an eager batch."""
        rows = slice(0, self._order.size(0))
        return eagerly(lambda: self._packed([tf.constant(one.rows(rows), one.dtype) for one in self._columns]))

    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns the endless pairs of a part's batches and their examples."""
        order, columns = self._order, self._columns

        def gathered(number: Any) -> list[np.ndarray[Any, Any]]:
            first, last = part.bounds(order.size(int(number)))
            # An empty piece is the batch's first example, which counts for nothing.
            rows = order.rows(int(number), first, last) if first < last else order.rows(int(number), 0, 1)
            return [np.asarray(last - first, np.int32), *(column.rows(rows) for column in columns)]

        def batch(number: tf.Tensor) -> tuple[Any, tf.Tensor]:
            types = [tf.int32, *(column.dtype for column in columns)]
            examples, *values = tf.numpy_function(gathered, [number], types)
            examples.set_shape([])
            for value, column in zip(values, columns, strict=True):
                value.set_shape(column.spec.shape)
            return self._packed(values), examples

        return mapped(part.numbers(), batch)

    def write(self, directory: str) -> Any:
        """Writes the arrays."""
        for place, column in enumerate(self._columns):
            column.write(_path(directory, place))
        order = self._order
        columns = [(column.dtype.name, column.shape) for column in self._columns]
        return self._structure, columns, (order.examples, order.batch_size, order.shuffle, order.seed)

    @classmethod
    def read(cls, directory: str, state: Any) -> ArraySource:
        """Returns the source whose arrays stay in the files."""
        structure, columns, order = state
        found = [
            read_column(_path(directory, place), tf.dtypes.as_dtype(dtype), shape)
            for place, (dtype, shape) in enumerate(columns)
        ]
        return cls(structure, found, Order(*order))


def _path(directory: str, place: int) -> str:
    return os.path.join(directory, f"array_{place}")


def _element(x: Any, y: Any, sample_weight: Any) -> Any:
    """Returns what a train_step gets: x alone is not in a tuple, as in Keras, unless it is a tuple itself."""
    if y is None:
        return (x,) if isinstance(x, tuple) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def _for_each_output(sample_weight: Any, y: Any) -> Any:
    """Returns the sample weights in the structure of y: one array of weights is that of every output.

    Raises:
      ConfigError: the structures differ.
    """
    if sample_weight is None or not isinstance(y, dict | tuple):
        return sample_weight
    if isinstance(sample_weight, dict | tuple):
        try:
            tf.nest.assert_same_structure(y, sample_weight)
        except (TypeError, ValueError):
            raise ConfigError(
                "sample_weight (an argument of fit) has another structure than y: give one array per output, or one "
                "array [n] for all."
            ) from None
        return sample_weight
    if sample_weight.ndim > 2 or (sample_weight.ndim == 2 and sample_weight.shape[1] != 1):
        raise ConfigError(
            f"sample_weight (an argument of fit) has the shape {sample_weight.shape} for several outputs: give one "
            "array per output, or one array [n] for all."
        )
    return tf.nest.map_structure(lambda _: sample_weight, y)

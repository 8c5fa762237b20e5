"""Values of a dataset that is made in a graph of its own, for a look at it before the training.

    first_element(lambda: stream.chunks(WHOLE, None))     # as eager tensors
    number_of_elements(lambda: stream.chunks(WHOLE, None))

So the look takes the way on which the batches come later, and finds the same errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.part import repacked


def first_element(make: Callable[[], tf.data.Dataset]) -> Any:
    """Returns the first element as eager tensors; raises StopIteration if there is none."""
    with _session() as session:
        iterator = v1.data.make_initializable_iterator(make())
        element = iterator.get_next()
        values: list[Any] = []

        def run(tensors: Any) -> Any:
            session.run([v1.tables_initializer(), iterator.initializer])
            values.extend(session.run(list(tensors)))
            return tensors

        try:
            repacked(run, element)
        except tf.errors.OutOfRangeError:
            raise StopIteration from None
    return eagerly(lambda: repacked(lambda _: list(map(_eager, values)), element))


def number_of_elements(make: Callable[[], tf.data.Dataset]) -> int:
    """Returns the number of elements, which are all read."""
    with _session() as session:
        number = make().reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1)
        session.run(v1.tables_initializer())
        return int(session.run(number))


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    """Gives a session of a new graph, without a GPU, because TensorFlow would take memory of each."""
    config = v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        yield session


def _eager(value: Any) -> Any:
    """Returns the eager tensor of a value of a session."""
    if isinstance(value, v1.SparseTensorValue):
        return tf.SparseTensor(*value)
    if isinstance(value, v1.ragged.RaggedTensorValue):
        return tf.RaggedTensor.from_nested_row_splits(value.flat_values, value.nested_row_splits)
    return tf.constant(value)

"""Replacement of the tensor that `tf.compat.v1.train.get_global_step()` returns.

with overriding_global_step(update_count):
    optimizer = model.optimizer("adam", 0.1)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


@contextlib.contextmanager
def overriding_global_step(step: Any) -> Iterator[None]:
    """Makes a variable or an integer scalar tensor the default graph's global step within the body."""
    graph, key = v1.get_default_graph(), v1.GraphKeys.GLOBAL_STEP
    before = graph.get_collection(key)
    graph.clear_collection(key)
    graph.add_to_collection(key, step)
    try:
        yield
    finally:
        graph.clear_collection(key)
        for previous in before:
            graph.add_to_collection(key, previous)


def pulled_step(step: Any, after: tf.Tensor) -> tf.Tensor:
    """Returns the value of a global step, int64 scalar, on its ps.

    Args:
      step: the global step's variable.
      after: a tensor on the ps; the value is read after it.
    """
    with tf.device(step.device), tf.control_dependencies([after]):
        return step.read_value()

"""The mutex of a ps, under which updates are made one at a time.

Without it, two concurrent updates could both read the update count, or Adam's powers of beta, before either has
written them.  The mutex is TensorFlow's, on the ps itself.  A cancelled step releases it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import tensorflow as tf

T = TypeVar("T")


def mutex_of(ps: int) -> str:
    """Returns the name of a ps's mutex."""
    return f"ps_train_lock/ps{ps}"


def with_mutex(
    name: str,
    after: Sequence[tf.Tensor | tf.Operation],
    body: Callable[[], tuple[list[tf.Operation], T]],
) -> tuple[tf.Operation, T]:
    """Runs the operations that `body` adds to the graph while holding a mutex on the current device.

    Args:
      name: the mutex's name.
      after: the mutex is acquired after these.  No holder of the mutex then waits for an input.
      body: adds operations to the graph.  It returns the operations that precede the release, and any other result.

    Returns:
      The operation that releases the mutex, and the other result of `body`.
    """
    lock = acquire(name, after)
    with tf.control_dependencies([lock]):
        done, result = body()
    with tf.control_dependencies(done):
        return release(lock), result


def acquire(name: str, after: Sequence[tf.Tensor | tf.Operation]) -> tf.Tensor:
    """Acquires the mutex of a name on the current device, until `release` or the end of the session call.

    Args:
      name: the mutex's name.
      after: the mutex is acquired after these.

    Returns:
      The held lock, a variant scalar.
    """
    mutex = tf.raw_ops.MutexV2(shared_name=name)
    with tf.control_dependencies(after):
        return tf.raw_ops.MutexLock(mutex=mutex)


def release(lock: tf.Tensor) -> tf.Operation:
    """Returns the operation that releases a lock made by `acquire`."""
    return tf.group(tf.raw_ops.ConsumeMutexLock(mutex_lock=lock))

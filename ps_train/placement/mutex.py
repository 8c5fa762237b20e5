"""One update at a time on a ps: what is read and written under the lock belongs together.

Without it two updates that arrive together could both read the clock, or Adam's powers of beta, before either has
written them.  The lock is TensorFlow's mutex on the ps itself; a step that is cancelled lets go of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import tensorflow as tf

T = TypeVar("T")


def mutex_of(ps: int) -> str:
    """The lock of a ps, under which its updates are made."""
    return f"ps_train_lock/ps{ps}"


def with_mutex(
    name: str,
    after: Sequence[tf.Tensor | tf.Operation],
    body: Callable[[], tuple[list[tf.Operation], T]],
) -> tuple[tf.Operation, T]:
    """Runs what `body` adds to the graph while holding the lock of that name on the current device.

    Args:
      after: not before these are there, so that nobody holds the lock while he waits for something.
      body: returns the operations to be done before the lock is let go, and whatever else its caller wants of it.

    Returns:
      the operation that lets go of the lock, and the other thing.
    """
    lock = acquire(name, after)
    with tf.control_dependencies([lock]):
        done, found = body()
    with tf.control_dependencies(done):
        return release(lock), found


def acquire(name: str, after: Sequence[tf.Tensor | tf.Operation]) -> tf.Tensor:
    """Takes the lock of that name on the current device; it is held until `let_go`, or until the run ends."""
    mutex = tf.raw_ops.MutexV2(shared_name=name)
    with tf.control_dependencies(after):
        return tf.raw_ops.MutexLock(mutex=mutex)


def release(lock: tf.Tensor) -> tf.Operation:
    return tf.group(tf.raw_ops.ConsumeMutexLock(mutex_lock=lock))

"""Start signals that keep a call from changing anything before all its tasks have begun.

    replica = after_all_started(replica, [0, 1])    # on the current device, computed after both ps have begun

A task may refuse its part of a call (`cluster/sessions/calls.py`), although other tasks carry out theirs.  If a call
changes something on several tasks, each change therefore depends on a start signal from each of these tasks.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from ps_train.engine.variables.variables import ps_device


def start_signal(ps: int) -> tf.Tensor:
    """Makes a float64 scalar on a ps, computed when that ps begins its part of the call."""
    with tf.device(ps_device(ps)):
        return tf.timestamp()  # a constant, or a control edge, would be optimized away


def after_all_started(value: tf.Tensor, ps: Iterable[int]) -> tf.Tensor:
    """Returns the value on the current device, computed after the start signal of each of these ps.

    Args:
      value: any tensor.
      ps: indices of the ps.
    """
    signals = [start_signal(index) for index in ps]
    if not signals:
        return tf.identity(value)
    with tf.control_dependencies([tf.add_n(signals)]):
        return tf.identity(value)

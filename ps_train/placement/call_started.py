"""Keeps a call from changing anything before all its tasks have begun.

    leaver = once_begun(leaver, [0, 1])         # on the present device; not there before both ps take part

A task may refuse its part of a call (`cluster/calls.py`), and then others may have carried out theirs.  Where a call
changes something on several tasks, everything that changes it depends on a sign from each of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from ps_train.placement.variables import ps_device


def start_signal(ps: int) -> tf.Tensor:
    """Makes a scalar on a ps that exists as soon as that ps takes part in the call."""
    with tf.device(ps_device(ps)):
        return tf.timestamp()  # a constant, or a control edge, would be optimized away


def after_all_started(value: tf.Tensor, ps: Iterable[int]) -> tf.Tensor:
    """Returns the same value on the present device, after a sign of every one of these ps."""
    signs = [start_signal(index) for index in ps]
    if not signs:
        return tf.identity(value)
    with tf.control_dependencies([tf.add_n(signs)]):
        return tf.identity(value)

"""A number in the graph of a step that follows measurements, in a variable on ps 0.

A step reads it there where it uses it, so a change costs no message of the workers.  The chief chooses it
(`adaptation.py`).  It is no part of checkpoints: a job begins with the first value.

    lead = AdaptedValue("max_steps_ahead", Ladder(range(9), STRAGGLERS))    # in the graph of the step
    lead.value()                                                            # where it is used
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.following.adaptation_policy import Ladder
from ps_train.engine.variables.variables import ps_device


class AdaptedValue:
    """The number in the graph of a step.

    Args:
      name: the flag that gives it.
      ladder: its possible values.

    Attributes:
      variable: on ps 0.
    """

    def __init__(self, name: str, ladder: Ladder) -> None:
        self.name, self.ladder = name, ladder
        with tf.device(ps_device(0)):
            self.variable = self.make_variable()

    def make_variable(self) -> Any:
        """Returns the variable on ps 0."""
        first = np.array(self.ladder.values[0], np.int64)
        return v1.get_variable(f"ps_train/{self.name}", initializer=first, trainable=False, use_resource=True)

    def value(self) -> tf.Tensor:
        """Returns the number, int64 scalar that is read on ps 0 where it is used."""
        return self.variable.read_value()

    def pulled(self, after: tf.Tensor) -> tf.Tensor:
        """Returns the number as a step pulls it: int64 scalar, read on ps 0 after a tensor there.

        Args:
          after: the version of ps 0 that the step reads.
        """
        with tf.device(ps_device(0)), tf.control_dependencies([after]):
            return self.value()

    def newest(self) -> tf.Tensor:
        """Returns the number that was chosen last, int64 scalar on ps 0."""
        with tf.device(ps_device(0)):
            return self.value()

    def change(self, global_step: Any) -> tuple[tf.Tensor, tf.Operation]:
        """Returns a placeholder of a number, and the operation that makes it the present one.

        Args:
          global_step: the variable.
        """
        with tf.device(ps_device(0)):
            wanted = v1.placeholder(tf.int64, [], self.name)
            return wanted, self.variable.assign(wanted, read_value=False)

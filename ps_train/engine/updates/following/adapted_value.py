"""A number in the graph of a step that follows measurements, in a variable on ps 0; or a fixed one.

A step reads it there where it uses it, so a change costs no message of the workers.  The chief chooses it
(`adaptation.py`).  It is no part of checkpoints: a job begins with the first value.

    lead = AdaptedValue("max_steps_ahead", Ladder(range(9), STRAGGLERS))
    lead.make()                       # in the graph of the step
    lead.value()                      # where it is used
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.following.adaptation_policy import STRAGGLERS, Ladder
from ps_train.engine.variables.variables import ps_device


class AdaptedValue:
    """The number in the graph of a step.

    Args:
      name: the flag that gives it.
      ladder: its possible values; it is fixed if there is only one.
    """

    def __init__(self, name: str, ladder: Ladder) -> None:
        self.name, self.ladder = name, ladder
        self._variable: Any = None

    @classmethod
    def of(cls, name: str, given: int | AdaptedValue) -> AdaptedValue:
        """Returns a given value, or that of a fixed number."""
        return given if isinstance(given, AdaptedValue) else cls(name, Ladder((given,), STRAGGLERS))

    @property
    def is_fixed(self) -> bool:
        """True if the number never changes."""
        return len(self.ladder.values) == 1

    @property
    def is_ever_positive(self) -> bool:
        """True if the number is, or may become, more than 0."""
        return self.ladder.values[-1] > 0

    def make(self) -> None:
        """Makes the variable on ps 0, if the number may change."""
        if not self.is_fixed:
            with tf.device(ps_device(0)):
                first = np.array(self.ladder.values[0], np.int64)
                name = f"ps_train/{self.name}"
                self._variable = v1.get_variable(name, initializer=first, trainable=False, use_resource=True)

    def value(self) -> Any:
        """Returns the number: an int, or an int64 scalar that is read on ps 0 where it is used."""
        return self.ladder.values[0] if self._variable is None else self._variable.read_value()

    def pulled(self, after: tf.Tensor) -> tf.Tensor:
        """Returns the number as a step pulls it: int64 scalar, read on ps 0 after a tensor there; not of a fixed one.

        Args:
          after: the version of ps 0 that the step reads.
        """
        with tf.device(ps_device(0)), tf.control_dependencies([after]):
            return self._variable.read_value()

    def newest(self) -> tf.Tensor:
        """Returns the number that was chosen last, int64 scalar on ps 0; not of a fixed one."""
        with tf.device(ps_device(0)):
            return self._variable.read_value()

    def change(self, global_step: Any) -> tuple[tf.Tensor, tf.Operation]:
        """Returns a placeholder of a number, and the operation that makes it the present one; not of a fixed one.

        Args:
          global_step: the variable.
        """
        with tf.device(ps_device(0)):
            wanted = v1.placeholder(tf.int64, [], self.name)
            return wanted, self._variable.assign(wanted, read_value=False)

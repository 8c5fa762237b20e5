"""Detects that Keras variables were written since a moment, without copies of their values.

    seen = WrittenValues(model.variables)
    model.set_weights(best)
    seen.are_there()                # True

A value that was read shares its memory with the variable until the variable is written.  So a variable whose memory is
still the one that was read was not written, however large it is.  Otherwise the values are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf


class WrittenValues:
    """The values of variables at the time when it is made.

    Args:
      variables: Keras variables.
    """

    def __init__(self, variables: Iterable[Any]) -> None:
        self._seen = [(variable, _read(variable)) for variable in variables]

    def are_there(self) -> bool:
        """Returns True if a variable has another value by now."""
        return any(_differ(_read(variable), seen) for variable, seen in self._seen)


def _read(variable: Any) -> tf.Tensor:
    return tf.convert_to_tensor(variable.value)


def _differ(now: tf.Tensor, before: tf.Tensor) -> bool:
    one, other = np.asarray(now), np.asarray(before)  # which copies only from a GPU
    return one.__array_interface__["data"][0] != other.__array_interface__["data"][0] and not np.array_equal(one, other)
